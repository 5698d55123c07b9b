//! A group while it runs: its rungs interleaved (A B C A B C …), each checked
//! right after its run, and what all of them gave summed up.
//!
//! Must never: compare rungs that did not leave the same rows, or leave anything
//! of a rung behind for the next one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::atomic::{AtomicRung, Change, Journal, changes};
use crate::check::{self, Left, Sums};
use crate::commits::CommitRung;
use crate::drawn;
use crate::error::{Error, Result};
use crate::fixture::Fixture;
use crate::group::{Group, RatioPlan, size_name};
use crate::input::{CsvInput, warm};
use crate::options::{BenchOptions, ProgressEvent};
use crate::pace::GroupPace;
use crate::queue::{QueueRung, left};
use crate::report::{ExperimentReport, Latency, Rung, Safety};
use crate::rung::{Described, PlayedDisk, RungKind, RungRequest, RungResult, Runner};
use crate::statistics::{median, pairwise_ratio};

/// What each rung's database is called.
const DATABASE: &str = "bench.db";

/// A group while it runs.
pub(crate) struct GroupRun<'a> {
    group: &'a Group,
    csv: Option<&'a CsvInput>,
    folder: &'a Path,
    database: PathBuf,
    names: Vec<String>,
    /// What each rung's runs gave, by position of its kind.
    results: Vec<Vec<RungResult>>,
    /// What the first run left, which all others must leave too.
    expected: Option<(Sums, u64)>,
}

impl<'a> GroupRun<'a> {
    pub(crate) fn new(group: &'a Group, folder: &'a Path, csv: Option<&'a CsvInput>) -> Self {
        let name = |kind: &RungKind| {
            if group.reads_csv() || group.work.names_its_sizes() {
                kind.name().into_owned()
            } else {
                format!("{}, {}", kind.name(), size_name(group.rows))
            }
        };
        Self {
            group,
            csv: csv.filter(|_| group.reads_csv()),
            folder,
            database: folder.join(DATABASE),
            names: group.kinds.iter().map(name).collect(),
            results: vec![Vec::new(); group.kinds.len()],
            expected: None,
        }
    }

    /// Runs one round, from 0, with the databases that its rungs get copies of. Stopped, it
    /// keeps what was done.
    pub(crate) fn run_round(
        &mut self,
        (round_index, rounds_count): (usize, usize),
        fixture: Option<&Fixture>,
        options: &BenchOptions,
        runner: Runner<'_>,
        pace: &mut GroupPace<'_>,
        progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Result<()> {
        let stop_if_asked = |is_over: bool| match options.cancel.load(Ordering::Relaxed) {
            true => Err(Error::Cancelled),
            false if is_over => Err(Error::TimeUp),
            false => Ok(()),
        };
        let files_before = names_in(self.folder)?;
        for (kind_index, kind) in self.group.kinds.iter().enumerate() {
            let name = self.names[kind_index].as_str();
            let round = round_index + 1;
            let (runs, left) = pace.begin();
            if let Some(fixture) = fixture {
                let fixture = fixture.path_for(*kind);
                fs::copy(fixture, &self.database).map_err(Error::io("copy", fixture))?;
                // A copy may share the disk's blocks without being in memory.
                warm(&self.database)?;
            }
            progress(ProgressEvent::Running { name, round, rounds_count, runs, left });
            stop_if_asked(pace.is_over())?;
            let result = runner(&self.request(*kind, options));
            // A rung that failed because it was stopped is no failure.
            stop_if_asked(false)?;
            let result = result?;
            progress(ProgressEvent::Checking { name, wall_s: result.wall_s });
            self.check_leftovers(kind_index, &files_before)?;
            self.check(kind_index, &result, round_index == 0)?;
            self.remove_database()?;
            self.results[kind_index].push(result.scaled());
            pace.end(kind_index);
        }
        Ok(())
    }

    fn request(&self, kind: RungKind, options: &BenchOptions) -> RungRequest {
        RungRequest {
            kind,
            database: self.database.clone(),
            csv: self.csv.map(|csv| csv.path.clone()).unwrap_or_default(),
            rows: self.group.rows,
            first_row: self.group.rows_before(),
            memory_bytes: self.group.memory_bytes,
            simulate: options.simulate.clone(),
        }
    }

    fn unequal<T>(&self, kind_index: usize, found: String, expected: String) -> Result<T> {
        Err(Error::Unequal { name: self.names[kind_index].clone(), found, expected })
    }

    /// Fails unless the rung left what it should: the rows that were made, and
    /// what the first rung of the group left.
    fn check(
        &mut self,
        kind_index: usize,
        result: &RungResult,
        is_first_round: bool,
    ) -> Result<()> {
        match self.group.kinds[kind_index] {
            RungKind::Commits(rung) => return self.check_commits(kind_index, &rung, result),
            RungKind::Atomic(rung) => return self.check_changes(kind_index, &rung, result),
            RungKind::Queue(rung) => return self.check_jobs(kind_index, &rung, result),
            kind => {
                if let Some(rung) = kind.described() {
                    return self.check_left(kind_index, rung.left(result, &self.database)?);
                }
            }
        }
        let rows = result.rows;
        let rows_done = self.csv.map_or(self.group.rows, |csv| csv.file.rows);
        let rows_expected = rows_done + self.group.rows_before();
        let sums = check::sums(&self.database, self.group.work)?;
        if rows != rows_done || !sums.to_string().starts_with(&format!("{rows_expected} rows,")) {
            let expected = format!("{rows_done} rows, {rows_expected} in the table");
            return self.unequal(kind_index, format!("{rows} rows ({sums})"), expected);
        }
        let mut digest = self.expected.as_ref().map_or(0, |expected| expected.1);
        if is_first_round {
            let verdict = check::integrity(&self.database)?;
            if verdict != "ok" {
                let expected = "an integrity_check that says ok".to_owned();
                return self.unequal(kind_index, verdict, expected);
            }
            if self.group.kinds.len() > 1 {
                digest = check::digest(&self.database, self.group.work)?;
            }
        }
        match &self.expected {
            None => self.expected = Some((sums, digest)),
            Some(expected) if expected.0 != sums => {
                return self.unequal(kind_index, sums.to_string(), expected.0.to_string());
            }
            Some(expected) if expected.1 != digest => {
                let first = format!("digest {:x}, as {} did", expected.1, self.names[0]);
                return self.unequal(kind_index, format!("values of digest {digest:x}"), first);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Fails unless every call that was acknowledged left its row, each caller's
    /// in the order made, and nothing else.
    fn check_commits(
        &self,
        kind_index: usize,
        rung: &CommitRung,
        result: &RungResult,
    ) -> Result<()> {
        let journal_mode =
            if matches!(rung.safety, Safety::Durable | Safety::Relaxed) { "wal" } else { "delete" };
        let expected = format!("{} rows, each call's own; {journal_mode}; ok", result.rows);
        let found = check::calls(&self.database)?;
        if found != expected {
            return self.unequal(kind_index, found, expected);
        }
        Ok(())
    }

    /// Fails unless every change that was made is there, in its row, and no other.
    fn check_changes(
        &self,
        kind_index: usize,
        rung: &AtomicRung,
        result: &RungResult,
    ) -> Result<()> {
        let changes_count = result.rows + result.changes_besides;
        let journal_mode = if rung.by.journal() == Journal::Wal { "wal" } else { "delete" };
        let (expected, found) = match rung.change {
            Change::Insert => ("rows, each call's own", check::calls(&self.database)?),
            Change::Update => {
                ("updates, each in its row", changes::left_of_updates(&self.database)?)
            }
        };
        let expected = format!("{changes_count} {expected}; {journal_mode}; ok");
        if found != expected {
            return self.unequal(kind_index, found, expected);
        }
        Ok(())
    }

    /// Fails unless every job is where it should be, and none was lost or done twice.
    fn check_jobs(&self, kind_index: usize, rung: &QueueRung, result: &RungResult) -> Result<()> {
        self.check_left(kind_index, left::by(rung, result, &self.database)?)
    }

    /// Fails unless a rung left what it says that it should.
    fn check_left(&self, kind_index: usize, left: Left) -> Result<()> {
        if left.found != left.expected {
            return self.unequal(kind_index, left.found, left.expected);
        }
        Ok(())
    }

    /// Fails if the rung left more than its database: a spilled run, or a WAL whose
    /// pages somebody else has to move.
    fn check_leftovers(&self, kind_index: usize, files_before: &BTreeSet<String>) -> Result<()> {
        let files = names_in(self.folder)?;
        let stray = |file: &&String| **file != DATABASE && !files_before.contains(*file);
        match files.iter().find(stray) {
            None => Ok(()),
            Some(file) => {
                let expected = "nothing beside its database".to_owned();
                self.unequal(kind_index, format!("the file {file}"), expected)
            }
        }
    }

    /// Removes the database, and what its check leaves beside it: whoever only
    /// reads a database in WAL mode makes a WAL and may not remove it.
    fn remove_database(&self) -> Result<()> {
        for file in names_in(self.folder)?.iter().filter(|file| file.starts_with(DATABASE)) {
            let path = self.folder.join(file);
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        Ok(())
    }

    /// What the played disk did in all runs.
    pub(crate) fn played(&self) -> impl Iterator<Item = PlayedDisk> {
        self.results.iter().flatten().filter_map(|result| result.played)
    }

    /// What a rung of this group is drawn together with.
    fn chart(&self, kind: RungKind) -> String {
        if drawn::has_sizes(self.group.work) {
            format!("{}, {}", kind.chart(), size_name(self.group.rows))
        } else {
            kind.chart()
        }
    }

    /// Adds the group's rungs and ratios to the report.
    pub(crate) fn sum_up(
        &self,
        report: &mut ExperimentReport,
        progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) {
        for (index, kind) in self.group.kinds.iter().enumerate() {
            let (name, results) = (&self.names[index], &self.results[index]);
            let rung = rung_of(name, *kind, results);
            let experiment = self.group.experiment.name().to_owned();
            let chart = self.chart(*kind);
            report.rungs.extend(rung.map(|rung| Rung { experiment, chart, ..rung }));
            report.broken.extend(broken_bound(*kind, results).map(|how| (name.clone(), how)));
        }
        for RatioPlan { name, ours, rivals, measure } in &self.group.ratios {
            let shown = self.group.shown(name);
            if let Some(reason) = not_what_was_asked_for(&self.results[*ours]) {
                report.unavailable.insert(shown, reason);
                continue;
            }
            let figures = |index: usize| -> Vec<f64> {
                self.results[index].iter().filter_map(|result| measure.of(result)).collect()
            };
            let rivals = rivals.iter().map(|rival| figures(*rival));
            let rivals = rivals.reduce(|one, other| better_of(&one, &other)).unwrap_or_default();
            let Some(ratio) = pairwise_ratio(&figures(*ours), &rivals) else { continue };
            progress(ProgressEvent::Compared { name: &shown, ratio });
            report.ratios.insert(shown, ratio);
            // The plain name holds for every size and place: it is the weakest of them.
            let weakest = report.ratios.entry(name.clone()).or_insert(ratio);
            if ratio.value < weakest.value {
                *weakest = ratio;
            }
        }
    }
}

/// The better of two figures of each round; rounds that only one has are left out.
fn better_of(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one.min(*other)).collect()
}

fn names_in(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder).map_err(Error::io("list", folder))?;
    Ok(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn rung_of(name: &str, kind: RungKind, results: &[RungResult]) -> Option<Rung> {
    let runs_s: Vec<f64> = results.iter().map(|result| result.wall_s).collect();
    let last = results.last()?;
    let median_s = median(&runs_s)?;
    // Where the time is up before the rows are done, each run has another number.
    let rates: Vec<f64> = results.iter().map(|result| result.rows as f64 / result.wall_s).collect();
    let rows: Vec<f64> = results.iter().map(|result| result.rows as f64).collect();
    let wal_bytes_max = results.iter().filter_map(|result| result.wal_bytes_max).max();
    let cpus_s: Vec<f64> = results.iter().filter_map(|result| result.cpu_s).collect();
    let outside_s: Vec<f64> = results.iter().filter_map(|result| result.outside_s).collect();
    Some(Rung {
        name: name.to_owned(),
        safety: kind.safety(),
        median_s,
        per_second: median(&rates)?,
        runs_s,
        rows: median(&rows).map(|rows| rows as u64),
        cpu_s: median(&cpus_s),
        peak_mb: results.iter().filter_map(|result| result.peak_mb).reduce(f64::max),
        latency_us: latency_of(results, |result| result.latency_us),
        from_call_us: latency_of(results, |result| result.from_call_us),
        worst_us: results.iter().filter_map(|it| Some(it.latency_us?.max)).collect(),
        wal_mb_max: wal_bytes_max.map(|bytes| bytes as f64 / 1e6),
        series: last.series.clone(),
        io: last.io.clone(),
        stages_s: last.stages_s.clone(),
        one_row: match kind {
            RungKind::Atomic(rung) => Some(rung.one_row(last.page_writes.clone())),
            _ => None,
        },
        memory: last.memory,
        experiment: String::new(),
        chart: String::new(),
        label: kind.label(),
        is_ours: is_ours(&kind.name()),
        may_lose: kind.may_lose(),
        sample_rows: last.sample_rows,
        original: kind.described().and_then(Described::original),
        batches_s: medians(results, |result| &result.batches_s),
        cycles_us: last.cycles_us.clone(),
        checkpoints: last.checkpoints.clone(),
        outside_s: median(&outside_s),
    })
}

/// Whether a rung of this name is Leafpress as it is meant to be used: a consumer that polls
/// our queue is what people do without its bells.
fn is_ours(name: &str) -> bool {
    name.contains("leafpress") && !name.contains("polling")
}

/// Of lists of the same length, one of each run, the median of each place.
fn medians(results: &[RungResult], which: fn(&RungResult) -> &Vec<f64>) -> Vec<f64> {
    let places = results.iter().map(|result| which(result).len()).min().unwrap_or(0);
    let of_place = |place: usize| -> Vec<f64> {
        results.iter().filter_map(|result| which(result).get(place).copied()).collect()
    };
    (0..places).filter_map(|place| median(&of_place(place))).collect()
}

/// Why a rung is no measure of what it is to show: the disk did not give it.
fn not_what_was_asked_for(results: &[RungResult]) -> Option<String> {
    results.iter().find_map(|result| result.not_given.clone())
}

/// How the WAL outgrew its bound, where it has one. What was measured holds all the
/// same, so this is no error.
fn broken_bound(kind: RungKind, results: &[RungResult]) -> Option<String> {
    let RungKind::Commits(rung) = kind else { return None };
    let bound = rung.wal_bytes_max()?;
    let sizes = results.iter().filter_map(|result| result.wal_bytes_max);
    let beyond: Vec<u64> = sizes.filter(|bytes| *bytes > bound).collect();
    let worst = *beyond.iter().max()?;
    Some(format!(
        "the WAL grew to {:.1} MB, beyond its bound of {:.1} MB, in {} of {} runs",
        worst as f64 / 1e6,
        bound as f64 / 1e6,
        beyond.len(),
        results.len()
    ))
}

/// Medians of the runs, and the slowest call of all.
fn latency_of(
    results: &[RungResult],
    which: fn(&RungResult) -> Option<Latency>,
) -> Option<Latency> {
    let runs: Vec<Latency> = results.iter().filter_map(which).collect();
    let median_of = |figure: fn(&Latency) -> f64| {
        let figures: Vec<f64> = runs.iter().map(figure).collect();
        median(&figures)
    };
    Some(Latency {
        p50: median_of(|latency| latency.p50)?,
        p99: median_of(|latency| latency.p99)?,
        p999: median_of(|latency| latency.p999)?,
        max: runs.iter().map(|latency| latency.max).reduce(f64::max)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::users_group;
    use crate::report::Ratio;

    #[test]
    fn the_plain_name_of_a_ratio_is_the_weakest_size() {
        let run = |wall_s: f64| vec![RungResult { wall_s, rows: 10, ..RungResult::default() }];
        let mut report: ExperimentReport = serde_json::from_value(json!({
            "experiment": "load", "version": 1, "machine": {}, "settings": {}, "rungs": [], "ratios": {}
        }))
        .expect("the shape");
        for (rows, ours_s) in [(1_000_000, 0.5), (2_000_000, 1.0), (3_000_000, 0.25)] {
            let group = users_group(rows);
            let mut bench = GroupRun::new(&group, Path::new("."), None);
            bench.results = vec![run(8.0), run(ours_s), run(4.0)];
            bench.sum_up(&mut report, &mut |_| ());
        }
        let ratio = |value| Some(Ratio::exactly(value));
        assert_eq!(report.ratios.get("rows_vs_sql").copied(), ratio(8.0));
        assert_eq!(report.ratios.get("rows_vs_sql_3m").copied(), ratio(32.0));
        assert_eq!(report.rungs.len(), 9);
    }

    #[test]
    fn of_several_rivals_the_best_of_each_round_counts() {
        let runs = |walls_s: [f64; 3]| {
            walls_s.map(|wall_s| RungResult { wall_s, rows: 10, ..RungResult::default() }).to_vec()
        };
        let mut report = ExperimentReport::default();
        let mut group = users_group(1_000_000);
        group.kinds.push(RungKind::UsersSql);
        group.ratios.truncate(1);
        (group.ratios[0].ours, group.ratios[0].rivals) = (1, vec![0, 2, 3]);
        let mut bench = GroupRun::new(&group, Path::new("."), None);
        bench.results =
            vec![runs([8.0, 9.0, 2.0]), runs([1.0; 3]), runs([9.0, 4.0, 9.0]), runs([7.0; 3])];
        bench.sum_up(&mut report, &mut |_| ());
        // The best of the rounds are 7, 4 and 2.
        let ratio = report.ratios[&group.shown("rows_vs_sql")];
        assert_eq!((ratio.value, ratio.min, ratio.max), (4.0, 2.0, 7.0));
    }
}
