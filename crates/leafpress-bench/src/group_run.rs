//! A group while it runs. Its rungs are interleaved (A B C A B C …), each is checked right
//! after its run, and the figures of all runs are summed up.
//!
//! Must never: compare rungs that did not leave the same rows, or leave anything of a rung behind
//! for the next one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::bound::{DiskSpeed, bound_by};
use crate::error::{Error, Result};
use crate::fixture::Fixtures;
use crate::group::{Group, RatioPlan};
use crate::input::{Input, Inputs};
use crate::machine_state::warm;
use crate::options::{BenchOptions, ProgressEvent};
use crate::report::{ExperimentReport, Latency, Processes, Ratio, Rung};
use crate::rung::described::Found;
use crate::rung::kind::RungKind;
use crate::rung::process::{RungRequest, Runner};
use crate::rung::result::{RungResult, SimulatedWork};
use crate::statistics::{median, pairwise_ratio};
use crate::time_left::GroupTime;

/// Name of each rung's database.
const DATABASE: &str = "bench.db";

/// A group while it runs.
pub(crate) struct GroupRun<'a> {
    group: &'a Group,
    input: Option<&'a Input>,
    folder: &'a Path,
    database: PathBuf,
    names: Vec<String>,
    /// Results of each rung's runs, by position of its kind.
    results: Vec<Vec<RungResult>>,
    /// Sums and digests that the first run left, which all others must leave too.
    alike: Vec<String>,
}

impl<'a> GroupRun<'a> {
    pub(crate) fn new(group: &'a Group, folder: &'a Path, inputs: Option<&'a Inputs>) -> Self {
        Self {
            group,
            input: inputs.and_then(|inputs| inputs.of(group)),
            folder,
            database: folder.join(DATABASE),
            names: group.kinds.iter().map(|kind| kind.name()).collect(),
            results: vec![Vec::new(); group.kinds.len()],
            alike: Vec::new(),
        }
    }

    /// Runs one round, from 0, with the databases that its rungs get copies of. Stopped, it
    /// keeps what was done.
    pub(crate) fn run_round(
        &mut self,
        (round_index, rounds_count): (usize, usize),
        fixtures: &Fixtures,
        options: &BenchOptions,
        runner: Runner<'_>,
        time: &mut GroupTime<'_>,
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
            let (runs, left) = time.begin();
            if let Some(fixture) = fixtures.path_for(kind) {
                fs::copy(fixture, &self.database).map_err(Error::io("copy", fixture))?;
                // A copy may share the disk's blocks without being in memory.
                warm(&self.database)?;
            }
            progress(ProgressEvent::Running { name, round, rounds_count, runs, left });
            stop_if_asked(time.is_over())?;
            let result = runner(&self.request(*kind, options));
            // A rung that failed because it was stopped is no failure.
            stop_if_asked(false)?;
            let result = result?;
            progress(ProgressEvent::Checking { name, wall_s: result.wall_s });
            self.check_leftovers(kind_index, &files_before)?;
            self.check(kind_index, &result, round_index == 0)?;
            self.remove_database()?;
            self.results[kind_index].push(result.scaled());
            time.end(kind_index);
        }
        Ok(())
    }

    fn request(&self, kind: RungKind, options: &BenchOptions) -> RungRequest {
        let input = self.input.map(|input| input.path.clone()).unwrap_or_default();
        let simulate = options.simulate.clone();
        RungRequest { kind, database: self.database.clone(), input, simulate }
    }

    fn unequal<T>(&self, kind_index: usize, found: String, expected: String) -> Result<T> {
        Err(Error::Unequal { name: self.names[kind_index].clone(), found, expected })
    }

    /// Fails unless the rung left what it should, and what the first rung of the group left.
    fn check(
        &mut self,
        kind_index: usize,
        result: &RungResult,
        is_first_round: bool,
    ) -> Result<()> {
        let found = Found {
            database: &self.database,
            input_rows: self.input.map_or(0, |input| input.file.rows),
            is_first: is_first_round,
            is_alone: self.group.kinds.len() == 1,
        };
        let left = self.group.kinds[kind_index].check(result, &found)?;
        if left.found != left.expected {
            return self.unequal(kind_index, left.found, left.expected);
        }
        if let Some((found, first)) =
            left.alike.iter().zip(&self.alike).find(|(found, first)| found != first)
        {
            let expected = format!("{first}, as {} did", self.names[0]);
            return self.unequal(kind_index, found.clone(), expected);
        }
        if self.alike.is_empty() {
            self.alike = left.alike;
        }
        Ok(())
    }

    /// Fails if the rung left more than its database: a spilled run, or a WAL whose
    /// pages another process has to move.
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

    /// Removes the database, and what its check leaves beside it: a connection that only
    /// reads a database in WAL mode makes a WAL and may not remove it.
    fn remove_database(&self) -> Result<()> {
        for file in names_in(self.folder)?.iter().filter(|file| file.starts_with(DATABASE)) {
            let path = self.folder.join(file);
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        Ok(())
    }

    /// Rounds that all of its rungs have done which were measured; 0 if none was.
    pub(crate) fn rounds(&self) -> usize {
        let runs = self.results.iter().map(Vec::len);
        runs.filter(|runs| *runs > 0).min().unwrap_or(0)
    }

    /// Work of the simulated disk in all runs.
    pub(crate) fn simulated(&self) -> impl Iterator<Item = SimulatedWork> {
        self.results.iter().flatten().filter_map(|result| result.played)
    }

    /// Adds the group's rungs and ratios to the report.
    pub(crate) fn sum_up(
        &self,
        report: &mut ExperimentReport,
        disk: DiskSpeed,
        progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) {
        for (index, kind) in self.group.kinds.iter().enumerate() {
            let (name, results) = (&self.names[index], &self.results[index]);
            let rung = rung_of(kind, results);
            let experiment = self.group.experiment.name().to_owned();
            report.rungs.extend(rung.map(|rung| Rung { experiment, ..rung }));
            report.broken.extend(broken_bound(kind, results).map(|how| (name.clone(), how)));
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
            let ratio = Ratio { bound_by: bound_by(&self.results[*ours], disk), ..ratio };
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

fn rung_of(kind: &RungKind, results: &[RungResult]) -> Option<Rung> {
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
        name: kind.name(),
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
        one_row: kind.one_row(last.page_writes.clone()),
        memory: last.memory,
        experiment: String::new(),
        chart: kind.chart(),
        label: kind.label(),
        is_ours: kind.is_ours(),
        is_bound: kind.is_bound(),
        may_lose: kind.safety().may_lose().to_owned(),
        sample_rows: last.sample_rows,
        original: kind.original(),
        batches_s: medians(results, |result| &result.batches_s),
        cycles_us: last.cycles_us.clone(),
        checkpoints: last.checkpoints.clone(),
        outside_s: median(&outside_s),
        processes: processes_of(results),
    })
}

/// Figures of many processes: the run that was least fair, and all refusals.
fn processes_of(results: &[RungResult]) -> Option<Processes> {
    let runs: Vec<&Processes> = results.iter().filter_map(|it| it.processes.as_ref()).collect();
    let syncs: Vec<f64> = runs.iter().filter_map(|run| run.syncs_per_row).collect();
    Some(Processes {
        slowest_of_mean: runs.iter().map(|run| run.slowest_of_mean).reduce(f64::min)?,
        refused: runs.iter().map(|run| run.refused).sum(),
        syncs_per_row: median(&syncs),
        ..(*runs.last()?).clone()
    })
}

/// Of lists of the same length, one of each run, the median of each place.
fn medians(results: &[RungResult], which: fn(&RungResult) -> &Vec<f64>) -> Vec<f64> {
    let places = results.iter().map(|result| which(result).len()).min().unwrap_or(0);
    let of_place = |place: usize| -> Vec<f64> {
        results.iter().filter_map(|result| which(result).get(place).copied()).collect()
    };
    (0..places).filter_map(|place| median(&of_place(place))).collect()
}

/// Reason why a rung is no measure of what it is to show: the disk did not give it.
fn not_what_was_asked_for(results: &[RungResult]) -> Option<String> {
    results.iter().find_map(|result| result.not_given.clone())
}

/// Sentence on a WAL that outgrew its bound, where it has one. The figures hold all the same, so
/// this is no error.
fn broken_bound(kind: &RungKind, results: &[RungResult]) -> Option<String> {
    let bound = kind.wal_bytes_max()?;
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
    use crate::loads::users_group;

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
            bench.results = vec![run(8.0), run(ours_s), run(4.0), run(0.125)];
            bench.sum_up(&mut report, DiskSpeed::default(), &mut |_| ());
        }
        let ratio = |value| Some(Ratio::exactly(value));
        assert_eq!(report.ratios.get("rows_vs_sql").copied(), ratio(8.0));
        assert_eq!(report.ratios.get("rows_vs_sql_3m").copied(), ratio(32.0));
        assert_eq!(report.rungs.len(), 12);
    }

    #[test]
    fn of_several_rivals_the_best_of_each_round_counts() {
        let runs = |walls_s: [f64; 3]| {
            walls_s.map(|wall_s| RungResult { wall_s, rows: 10, ..RungResult::default() }).to_vec()
        };
        let mut report = ExperimentReport::default();
        let mut group = users_group(1_000_000);
        group.ratios.truncate(1);
        (group.ratios[0].ours, group.ratios[0].rivals) = (1, vec![0, 2, 3]);
        let mut bench = GroupRun::new(&group, Path::new("."), None);
        bench.results =
            vec![runs([8.0, 9.0, 2.0]), runs([1.0; 3]), runs([9.0, 4.0, 9.0]), runs([7.0; 3])];
        bench.sum_up(&mut report, DiskSpeed::default(), &mut |_| ());
        // The best of the rounds are 7, 4 and 2.
        let ratio = report.ratios[&group.shown("rows_vs_sql")];
        assert_eq!((ratio.value, ratio.min, ratio.max), (4.0, 2.0, 7.0));
    }
}
