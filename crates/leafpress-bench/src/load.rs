//! The experiment "load": CSV files and rows made in memory, by Leafpress and by
//! the best that SQL can do.
//!
//! Stands on top of everything else here: plans the groups of rungs, makes the
//! inputs, runs the rungs interleaved (A B C A B C …) in processes of their own,
//! checks after each that it left the same rows, and sums up.
//!
//! Must never: leave a file behind (a temporary folder holds them all and goes
//! on return, also after an error), or let a rung run while something else of
//! the experiment does.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tempfile::TempDir;

use crate::check::{self, Sums};
use crate::error::{Error, Result};
use crate::generate::{self, CsvFile};
use crate::report::{ExperimentReport, REPORT_VERSION, Ratio, Rung};
use crate::rung::{RungKind, RungRequest, RungResult, Work, run_in_child};
use crate::statistics::{median, pairwise_ratio};
use crate::{machine, sql};

/// What `only` can name, besides the ratios.
pub const BILLION: &str = "billion";

const BILLION_ROWS: u64 = 1_000_000_000;

/// A billion users take 16 GB; the rest is room for the file system.
const BILLION_ROOM_MB: u64 = 20_000;

/// How to run the experiment.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Size of the CSV file.
    pub bytes: u64,
    /// Rows made in memory, one group of rungs for each number.
    pub rows: Vec<u64>,
    /// Rounds of each group.
    pub repeats: usize,
    /// Where the temporary folder is made: the disk to be measured.
    pub dir: PathBuf,
    /// Only the groups that give these ratios ("`csv_vs_sql`", "`rows_vs_sql`", …);
    /// all if empty. "billion" runs only when it is named here.
    pub only: Vec<String>,
    /// A few seconds with small inputs, to see that everything works. Its
    /// figures mean nothing.
    pub quick: bool,
    /// Where to write the report, besides returning it.
    pub json: Option<PathBuf>,
    /// Set it from a signal handler to stop before the next rung, all temporary
    /// files removed. The rung's process gets a terminal's Ctrl-C itself and must
    /// die of it, so it should have no handler.
    pub cancel: Arc<AtomicBool>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            bytes: 1_000_000_000,
            rows: vec![10_000_000, 100_000_000],
            repeats: 5,
            dir: PathBuf::from("."),
            only: Vec::new(),
            quick: false,
            json: None,
            cancel: Arc::default(),
        }
    }
}

/// What is going on, for whoever shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgressEvent<'a> {
    /// The CSV file grows.
    Generating {
        /// Bytes written so far.
        bytes: u64,
        /// Bytes that it will have.
        bytes_total: u64,
    },
    /// A rung is about to start.
    Running {
        /// Its name.
        name: &'a str,
        /// Which round, from 1.
        round: usize,
        /// How many rounds there are.
        rounds_count: usize,
    },
    /// A rung has ended and its rows are being checked.
    Checking {
        /// Its name.
        name: &'a str,
        /// How long its work took.
        wall_s: f64,
    },
    /// A ratio is known.
    Compared {
        /// Its name.
        name: &'a str,
        /// The ratio.
        ratio: Ratio,
    },
}

/// Runs a rung: in a process of its own, except in tests.
type Runner<'a> = &'a mut dyn FnMut(&RungRequest) -> Result<RungResult>;

/// Runs the experiment, each rung in a process of its own: this executable must
/// answer `bench --rung REQUEST` with [`run_rung_line`](crate::rung::run_rung_line).
///
/// # Errors
/// If an input cannot be made, a rung fails, or a rung leaves other rows than
/// its rival. Nothing is left on disk then, and no report is written.
pub fn run(
    options: &LoadOptions,
    progress: &mut dyn FnMut(ProgressEvent<'_>),
) -> Result<ExperimentReport> {
    run_with(options, &mut run_in_child, progress)
}

fn run_with(
    options: &LoadOptions,
    runner: Runner<'_>,
    progress: &mut dyn FnMut(ProgressEvent<'_>),
) -> Result<ExperimentReport> {
    let options = options.effective();
    let groups = plan(&options)?;
    check_room(&options.dir, &groups)?;
    let folder = tempfile::Builder::new()
        .prefix("leafpress-bench-")
        .tempdir_in(&options.dir)
        .map_err(Error::io("make a temporary folder in", &options.dir))?;
    let csv = make_csv(&options, &groups, &folder, progress)?;
    let mut report = ExperimentReport {
        experiment: "load".to_owned(),
        version: REPORT_VERSION,
        machine: machine::describe(&options.dir),
        settings: settings(&options, csv.as_ref()),
        rungs: Vec::new(),
        ratios: BTreeMap::new(),
        unavailable: BTreeMap::new(),
    };
    for group in &groups {
        let mut bench = GroupRun::new(group, folder.path(), csv.as_ref());
        bench.run(&options, runner, progress)?;
        bench.sum_up(&mut report, progress);
    }
    folder.close().map_err(Error::io("remove the temporary folder in", &options.dir))?;
    if let Some(path) = &options.json {
        report.write(path)?;
    }
    Ok(report)
}

impl LoadOptions {
    /// The options with what `quick` means applied, and at least one round.
    fn effective(&self) -> Self {
        let mut options = self.clone();
        options.repeats = options.repeats.max(1);
        if options.quick {
            options.bytes = options.bytes.min(2_000_000);
            options.rows = options.rows.iter().map(|rows| (*rows).min(100_000)).collect();
            options.rows.dedup();
            options.repeats = options.repeats.min(2);
        }
        options
    }
}

/// Rungs that do the same work and are compared with one another.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    work: Work,
    rows: u64,
    kinds: Vec<RungKind>,
    /// Name, our rung, the rival's rung; both as positions in `kinds`.
    ratios: Vec<(&'static str, usize, usize)>,
}

fn csv_group() -> Group {
    use RungKind::{CsvBatchedSql, CsvLeafpress, CsvSql, CsvTypedLeafpress};
    Group {
        work: Work::Csv,
        rows: 0,
        kinds: vec![CsvSql, CsvLeafpress, CsvTypedLeafpress, CsvBatchedSql],
        ratios: vec![
            ("csv_vs_sql", 1, 0),
            ("csv_typed_vs_sql", 2, 0),
            ("csv_vs_batched_sql", 1, 3),
            ("csv_typed_vs_batched_sql", 2, 3),
        ],
    }
}

fn users_group(rows: u64) -> Group {
    use RungKind::{UsersIteratorLeafpress, UsersLeafpress, UsersSql};
    Group {
        work: Work::Users,
        rows,
        kinds: vec![UsersSql, UsersLeafpress, UsersIteratorLeafpress],
        ratios: vec![("rows_vs_sql", 1, 0), ("rows_iterator_vs_sql", 2, 0)],
    }
}

fn billion_group(quick: bool) -> Group {
    let rows = if quick { 1_000_000 } else { BILLION_ROWS };
    Group { work: Work::Users, rows, kinds: vec![RungKind::UsersLeafpress], ratios: Vec::new() }
}

/// The groups that were asked for.
fn plan(options: &LoadOptions) -> Result<Vec<Group>> {
    let mut groups = vec![csv_group()];
    groups.extend(options.rows.iter().map(|rows| users_group(*rows)));
    let names: Vec<&str> = [csv_group(), users_group(0)]
        .iter()
        .flat_map(|group| group.ratios.iter().map(|ratio| ratio.0))
        .chain([BILLION])
        .collect();
    if let Some(unknown) = options.only.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(Error::Usage(format!(
            "there is no {unknown} in the experiment load; there are {}",
            names.join(", ")
        )));
    }
    if !options.only.is_empty() {
        groups.retain_mut(|group| group.keep_only(&options.only));
    }
    if options.only.iter().any(|name| name == BILLION) {
        groups.push(billion_group(options.quick));
    }
    Ok(groups)
}

impl Group {
    /// Drops the ratios that were not asked for, and the rungs that only they
    /// need; `false` if nothing is left.
    fn keep_only(&mut self, only: &[String]) -> bool {
        self.ratios.retain(|(name, _, _)| only.iter().any(|wanted| wanted == name));
        let needed = |index: usize| {
            self.ratios.iter().any(|(_, ours, rival)| [*ours, *rival].contains(&index))
        };
        let kept: Vec<usize> = (0..self.kinds.len()).filter(|index| needed(*index)).collect();
        let moved = |old: usize| kept.iter().position(|index| *index == old).unwrap_or(old);
        self.ratios.iter_mut().for_each(|(_, ours, rival)| {
            (*ours, *rival) = (moved(*ours), moved(*rival));
        });
        self.kinds = kept.iter().map(|index| self.kinds[*index]).collect();
        !self.ratios.is_empty()
    }
}

/// Refuses the billion where the disk has no room for it.
fn check_room(dir: &Path, groups: &[Group]) -> Result<()> {
    if !groups.iter().any(|group| group.rows >= BILLION_ROWS) {
        return Ok(());
    }
    match machine::free_mb(dir) {
        Some(free_mb) if free_mb < BILLION_ROOM_MB => Err(Error::Room {
            experiment: BILLION.to_owned(),
            path: dir.to_owned(),
            needed_mb: BILLION_ROOM_MB,
            free_mb,
        }),
        _ => Ok(()),
    }
}

/// The CSV file of this run.
struct CsvInput {
    path: PathBuf,
    file: CsvFile,
}

/// Writes the CSV file if a group needs one, and reads it once: every rung then
/// finds it in the page cache.
fn make_csv(
    options: &LoadOptions,
    groups: &[Group],
    folder: &TempDir,
    progress: &mut dyn FnMut(ProgressEvent<'_>),
) -> Result<Option<CsvInput>> {
    if !groups.iter().any(|group| group.work == Work::Csv) {
        return Ok(None);
    }
    let path = folder.path().join("data.csv");
    let bytes_total = options.bytes;
    let file = generate::write_csv(&path, bytes_total, &mut |bytes| {
        progress(ProgressEvent::Generating { bytes, bytes_total });
    })?;
    let mut reader = File::open(&path).map_err(Error::io("open", &path))?;
    io::copy(&mut reader, &mut io::sink()).map_err(Error::io("read", &path))?;
    Ok(Some(CsvInput { path, file }))
}

/// What a reader of the report must know to judge the figures.
fn settings(options: &LoadOptions, csv: Option<&CsvInput>) -> BTreeMap<String, serde_json::Value> {
    let mut settings = BTreeMap::from([
        ("repeats", json!(options.repeats)),
        ("order", json!("interleaved: each round runs every rung of a group once")),
        ("quick", json!(options.quick)),
        ("between_runs", json!("everything is synced, then half a second of rest")),
        ("leafpress", json!(env!("CARGO_PKG_VERSION"))),
        ("rival_sqlite", json!(rusqlite::version())),
        ("rival_pragmas", json!(sql::PRAGMAS)),
        (
            "rival_ids",
            json!("rows made in memory: SQLite gives the same ids itself, as that is the fastest"),
        ),
        (
            "rival_durability",
            json!("none: no journal, no sync; what it wrote is still in the page cache"),
        ),
        (
            "leafpress_durability",
            json!("full: file and folder are synced within the time taken, to our disadvantage"),
        ),
        (
            "checked",
            json!(
                "each run: rows and sums; first run of a rung: integrity_check, and every value and type"
            ),
        ),
    ]);
    if let Some(csv) = csv {
        let columns: Vec<&str> = generate::CSV_COLUMNS.iter().map(|(name, _)| *name).collect();
        settings.insert("csv_bytes", json!(csv.file.bytes));
        settings.insert("csv_rows", json!(csv.file.rows));
        settings.insert("csv_columns", json!(columns));
        settings.insert("page_cache", json!("warm: the CSV file was read once before"));
    }
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A group while it runs.
struct GroupRun<'a> {
    group: &'a Group,
    csv: Option<&'a CsvInput>,
    database: PathBuf,
    names: Vec<String>,
    /// What each rung's runs gave, by position of its kind.
    results: Vec<Vec<RungResult>>,
    /// What the first run left, which all others must leave too.
    expected: Option<(Sums, u64)>,
}

impl<'a> GroupRun<'a> {
    fn new(group: &'a Group, folder: &Path, csv: Option<&'a CsvInput>) -> Self {
        let name = |kind: &RungKind| match group.work {
            Work::Csv => kind.name().to_owned(),
            Work::Users => format!("{}, {}", kind.name(), size_name(group.rows)),
        };
        Self {
            group,
            csv,
            database: folder.join("bench.db"),
            names: group.kinds.iter().map(name).collect(),
            results: vec![Vec::new(); group.kinds.len()],
            expected: None,
        }
    }

    fn run(
        &mut self,
        options: &LoadOptions,
        runner: Runner<'_>,
        progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Result<()> {
        let stop_if_asked = || {
            if options.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
        };
        let rounds_count = options.repeats;
        for round_index in 0..rounds_count {
            for (kind_index, kind) in self.group.kinds.iter().enumerate() {
                let name = self.names[kind_index].as_str();
                let round = round_index + 1;
                progress(ProgressEvent::Running { name, round, rounds_count });
                stop_if_asked()?;
                let result = runner(&self.request(*kind));
                // A rung that failed because it was stopped is no failure.
                stop_if_asked()?;
                let result = result?;
                progress(ProgressEvent::Checking { name, wall_s: result.wall_s });
                self.check(kind_index, result.rows, round_index == 0)?;
                fs::remove_file(&self.database).map_err(Error::io("remove", &self.database))?;
                self.results[kind_index].push(result);
            }
        }
        Ok(())
    }

    fn request(&self, kind: RungKind) -> RungRequest {
        RungRequest {
            kind,
            database: self.database.clone(),
            csv: self.csv.map(|csv| csv.path.clone()).unwrap_or_default(),
            rows: self.group.rows,
        }
    }

    /// Fails unless the rung left what it should: the rows that were made, and
    /// what the first rung of the group left.
    fn check(&mut self, kind_index: usize, rows: u64, is_first_round: bool) -> Result<()> {
        let unequal = |found: String, expected: String| {
            let name = self.names[kind_index].clone();
            Err(Error::Unequal { name, found, expected })
        };
        let rows_expected = self.csv.filter(|_| self.group.work == Work::Csv);
        let rows_expected = rows_expected.map_or(self.group.rows, |csv| csv.file.rows);
        let sums = check::sums(&self.database, self.group.work)?;
        if rows != rows_expected || !sums.to_string().starts_with(&format!("{rows_expected} rows,"))
        {
            return unequal(format!("{rows} rows ({sums})"), format!("{rows_expected} rows"));
        }
        let mut digest = self.expected.as_ref().map_or(0, |expected| expected.1);
        if is_first_round {
            let verdict = check::integrity(&self.database)?;
            if verdict != "ok" {
                return unequal(verdict, "an integrity_check that says ok".to_owned());
            }
            if self.group.kinds.len() > 1 {
                digest = check::digest(&self.database, self.group.work)?;
            }
        }
        match &self.expected {
            None => self.expected = Some((sums, digest)),
            Some(expected) if expected.0 != sums => {
                return unequal(sums.to_string(), expected.0.to_string());
            }
            Some(expected) if expected.1 != digest => {
                return unequal(
                    format!("values of digest {digest:x}"),
                    format!("digest {:x}, as {} did", expected.1, self.names[0]),
                );
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Adds the group's rungs and ratios to the report.
    fn sum_up(&self, report: &mut ExperimentReport, progress: &mut dyn FnMut(ProgressEvent<'_>)) {
        for (index, kind) in self.group.kinds.iter().enumerate() {
            report.rungs.extend(rung_of(&self.names[index], *kind, &self.results[index]));
        }
        let walls = |index: usize| -> Vec<f64> {
            self.results[index].iter().map(|result| result.wall_s).collect()
        };
        for (name, ours, rival) in &self.group.ratios {
            let Some(ratio) = pairwise_ratio(&walls(*ours), &walls(*rival)) else { continue };
            let sized = format!("{name}_{}", size_name(self.group.rows));
            let shown = if self.group.work == Work::Csv { *name } else { &sized };
            report.ratios.insert(shown.to_owned(), ratio);
            progress(ProgressEvent::Compared { name: shown, ratio });
            // The plain name holds for every size: it is the weakest of them.
            let weakest = report.ratios.entry((*name).to_owned()).or_insert(ratio);
            if ratio.value < weakest.value {
                *weakest = ratio;
            }
        }
    }
}

fn rung_of(name: &str, kind: RungKind, results: &[RungResult]) -> Option<Rung> {
    let runs_s: Vec<f64> = results.iter().map(|result| result.wall_s).collect();
    let last = results.last()?;
    let median_s = median(&runs_s)?;
    let cpus_s: Vec<f64> = results.iter().filter_map(|result| result.cpu_s).collect();
    Some(Rung {
        name: name.to_owned(),
        safety: kind.safety(),
        median_s,
        per_second: last.rows as f64 / median_s,
        runs_s,
        rows: Some(last.rows),
        cpu_s: median(&cpus_s),
        peak_mb: results.iter().filter_map(|result| result.peak_mb).reduce(f64::max),
        latency_us: None,
        io: last.io,
        stages_s: last.stages_s.clone(),
    })
}

/// A number of rows as people say it: 100k, 10m, 1b.
fn size_name(rows: u64) -> String {
    for (one, unit) in [(1_000_000_000, 'b'), (1_000_000, 'm'), (1_000, 'k')] {
        if rows >= one && rows.is_multiple_of(one) {
            return format!("{}{unit}", rows / one);
        }
    }
    rows.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rung::run_rung;

    fn quick(dir: &Path, only: &[&str]) -> LoadOptions {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        LoadOptions { dir: dir.to_owned(), only, quick: true, ..LoadOptions::default() }
    }

    fn is_empty(dir: &Path) -> bool {
        fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
    }

    #[test]
    fn the_sql_rival_loads_what_was_generated() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (csv, database) = (folder.path().join("a.csv"), folder.path().join("a.db"));
        let file = generate::write_csv(&csv, 200_000, &mut |_| ()).expect("a CSV file");
        assert_eq!(sql::load_csv(&csv, &database, 1).expect("it loads"), file.rows);
        for statement_rows in [20, file.rows as usize, file.rows as usize + 1] {
            let batched = folder.path().join(format!("{statement_rows}.db"));
            let rows = sql::load_csv(&csv, &batched, statement_rows);
            assert_eq!(rows.expect("it loads"), file.rows, "{statement_rows} rows a statement");
            let digest = |path| check::digest(path, Work::Csv).expect("a digest");
            assert_eq!(digest(&batched), digest(&database), "{statement_rows} rows a statement");
        }
        // The same sums, made by reading the CSV file and nothing else.
        let (mut ids, mut accounts, mut description_chars) = (0_u64, 0_u64, 0);
        let mut reader = csv::Reader::from_path(&csv).expect("it opens");
        for record in reader.records() {
            let record = record.expect("it is CSV");
            ids += record[0].parse::<u64>().expect("an id");
            accounts += record[2].parse::<u64>().expect("an account");
            description_chars += record[5].chars().count();
        }
        let connection = rusqlite::Connection::open(&database).expect("it opens");
        let sums = connection
            .query_row(
                "SELECT sum(id), sum(account), sum(length(description)) FROM data",
                [],
                |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)),
            )
            .expect("sums");
        assert_eq!(sums, (ids as i64, accounts as i64, description_chars as i64));
        assert_eq!(check::integrity(&database).expect("a verdict"), "ok");
    }

    #[test]
    fn a_rung_that_does_less_is_found_out_and_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut lazy = |request: &RungRequest| {
            let less = match request.kind {
                RungKind::UsersLeafpress => request.rows - 1,
                _ => request.rows,
            };
            run_rung(&RungRequest { rows: less, ..request.clone() })
        };
        let error = run_with(&quick(folder.path(), &["rows_vs_sql"]), &mut lazy, &mut |_| ())
            .expect_err("a row is missing");
        assert!(matches!(error, Error::Unequal { .. }), "{error}");
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn a_run_that_is_stopped_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = quick(folder.path(), &["csv_vs_sql"]);
        let mut rungs_count = 0;
        let mut interrupted = |request: &RungRequest| {
            rungs_count += 1;
            options.cancel.store(rungs_count == 2, Ordering::Relaxed);
            run_rung(request)
        };
        let error = run_with(&options, &mut interrupted, &mut |_| ()).expect_err("it was stopped");
        assert!(matches!(error, Error::Cancelled), "{error}");
        assert!(is_empty(folder.path()));
        assert_eq!(rungs_count, 2);
    }

    #[test]
    fn a_rung_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut broken = |request: &RungRequest| {
            fs::write(&request.database, "half").expect("it can be written");
            Err(Error::Rung { name: "x".to_owned(), reason: "killed".to_owned() })
        };
        let error = run_with(&quick(folder.path(), &[]), &mut broken, &mut |_| ())
            .expect_err("the rung failed");
        assert!(matches!(error, Error::Rung { .. }), "{error}");
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn only_keeps_the_rungs_that_its_ratios_need() {
        let only = |names: &[&str]| plan(&quick(Path::new("."), names));
        let groups = only(&["rows_iterator_vs_sql"]).expect("it is known");
        assert_eq!(groups.len(), 2, "one for each number of rows");
        assert_eq!(groups[0].kinds, [RungKind::UsersSql, RungKind::UsersIteratorLeafpress]);
        assert_eq!(groups[0].ratios, [("rows_iterator_vs_sql", 1, 0)]);
        let billion = only(&[BILLION]).expect("it is known");
        assert_eq!(billion.len(), 1);
        assert_eq!(billion[0].kinds, [RungKind::UsersLeafpress]);
        assert!(matches!(only(&["csv_vs_sqll"]), Err(Error::Usage(_))));
    }

    #[test]
    fn a_billion_needs_room() {
        let groups = [billion_group(false)];
        let free_mb = machine::free_mb(Path::new("."));
        let enough = free_mb.is_none_or(|megabytes| megabytes >= BILLION_ROOM_MB);
        assert_eq!(check_room(Path::new("."), &groups).is_ok(), enough);
        assert!(check_room(Path::new("."), &[users_group(10)]).is_ok());
    }

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
        let ratio = |value| Some(Ratio { value, min: value, max: value });
        assert_eq!(report.ratios.get("rows_vs_sql").copied(), ratio(8.0));
        assert_eq!(report.ratios.get("rows_vs_sql_3m").copied(), ratio(32.0));
        assert_eq!(report.rungs.len(), 9);
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        assert_eq!(size_name(100_000), "100k");
        assert_eq!(size_name(10_000_000), "10m");
        assert_eq!(size_name(BILLION_ROWS), "1b");
        assert_eq!(size_name(1_234), "1234");
    }
}
