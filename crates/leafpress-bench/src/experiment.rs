//! The experiments: of loading, "load", CSV files, rows made in memory and new
//! tables in databases that exist, and "presort", rows whose keys come in no order;
//! of many small transactions, "writer", how many, and "checkpoint", how long the
//! slowest takes. All by Leafpress and by the best that SQL can do.
//!
//! Stands on top of everything else here: makes the inputs, runs the groups of
//! the plan one after the other, and writes the report.
//!
//! Must never: leave a file behind (a temporary folder holds them all and goes
//! on return, also after an error), or let a rung run while something else of
//! the experiment does.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::fixture::Fixture;
use crate::generate::{self, FileSize, TableFile, TextFormat};
use crate::group::GroupRun;
use crate::plan::{Group, plan};
use crate::report::{ExperimentReport, REPORT_VERSION, Ratio};
use crate::rung::{RungRequest, RungResult, Work, run_in_child};
use crate::{machine, settings};

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Experiment {
    /// Rows that come in order, CSV files, new tables.
    Load,
    /// Rows that are sorted by key: tables, indexes, more rows for a table.
    Presort,
    /// Many callers' one-row transactions: how many a second, under each profile.
    Writer,
    /// One-row transactions while checkpoints run: how long the slowest takes.
    Checkpoint,
}

impl Experiment {
    /// Its name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Presort => "presort",
            Self::Writer => "writer",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// How to run the experiments.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Which; several make one report.
    pub experiments: Vec<Experiment>,
    /// Size of the CSV file.
    pub bytes: u64,
    /// Rows made in memory, one group of rungs for each number; the smallest is
    /// also what the new table of an existing database gets.
    pub rows: Vec<u64>,
    /// Rows with random keys. The rows that spill are five times as many, the rows
    /// of the indexed table a tenth more, the appended rows a tenth.
    pub keys: u64,
    /// Commits of the experiment "checkpoint". With slow syncs a tenth of them, with
    /// readers and without checkpoints a part too.
    pub commits: u64,
    /// Rounds of each group; without it five of loads, three of commits.
    pub repeats: Option<usize>,
    /// Where the temporary folder is made: the disk to be measured.
    pub dir: PathBuf,
    /// Only the groups that give these ratios ("`csv_vs_sql`", "`keys_vs_sql`", …);
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

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            experiments: vec![Experiment::Load],
            bytes: 1_000_000_000,
            rows: vec![10_000_000, 100_000_000],
            keys: 10_000_000,
            commits: 1_000_000,
            repeats: None,
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
    /// The database that the next rungs begin with is being made.
    Preparing {
        /// The first of these rungs.
        name: &'a str,
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
pub(crate) type Runner<'a> = &'a mut dyn FnMut(&RungRequest) -> Result<RungResult>;

/// Runs the experiments, each rung in a process of its own: this executable must
/// answer `bench --rung REQUEST` with [`run_rung_line`](crate::rung::run_rung_line).
///
/// # Errors
/// If an input cannot be made, a rung fails, or a rung leaves other rows than
/// its rival. Nothing is left on disk then, and no report is written.
pub fn run(
    options: &BenchOptions,
    progress: &mut dyn FnMut(ProgressEvent<'_>),
) -> Result<ExperimentReport> {
    // A quick run's figures mean nothing anyway.
    let rests = !options.quick;
    run_with(options, &mut |request| run_in_child(request, rests), progress)
}

fn run_with(
    options: &BenchOptions,
    runner: Runner<'_>,
    progress: &mut dyn FnMut(ProgressEvent<'_>),
) -> Result<ExperimentReport> {
    let options = options.effective();
    let groups = plan(&options)?;
    check_room(&options, &groups)?;
    let folder = tempfile::Builder::new()
        .prefix("leafpress-bench-")
        .tempdir_in(&options.dir)
        .map_err(Error::io("make a temporary folder in", &options.dir))?;
    let csv = make_csv(&options, &groups, &folder, progress)?;
    let mut report = ExperimentReport {
        experiment: options.experiment_names(),
        version: REPORT_VERSION,
        machine: machine::describe(&options.dir),
        settings: settings::of(&options, &groups, csv.as_ref(), folder.path())?,
        rungs: Vec::new(),
        ratios: BTreeMap::new(),
        unavailable: BTreeMap::new(),
        broken: BTreeMap::new(),
    };
    for group in &groups {
        if let Some(first) = group.kinds.first() {
            progress(ProgressEvent::Preparing { name: &first.name() });
        }
        let fixture = Fixture::make(group, folder.path())?;
        let fixture_path = fixture.as_ref().map(Fixture::path);
        let mut bench = GroupRun::new(group, folder.path(), csv.as_ref(), fixture_path);
        bench.run(&options, runner, progress)?;
        bench.sum_up(&mut report, progress);
    }
    folder.close().map_err(Error::io("remove the temporary folder in", &options.dir))?;
    if let Some(path) = &options.json {
        report.write(path)?;
    }
    Ok(report)
}

impl BenchOptions {
    /// The options with what `quick` means applied.
    fn effective(&self) -> Self {
        let mut options = self.clone();
        if options.quick {
            options.bytes = options.bytes.min(2_000_000);
            options.rows = options.rows.iter().map(|rows| (*rows).min(100_000)).collect();
            options.rows.dedup();
            options.keys = options.keys.min(20_000);
            options.commits = options.commits.min(3_000);
            options.repeats = Some(options.repeats.unwrap_or(2).min(2));
        }
        options
    }

    /// How often each rung of the group runs.
    pub(crate) fn rounds(&self, group: &Group) -> usize {
        let default = if group.work == Work::Commits { 3 } else { 5 };
        self.repeats.unwrap_or(default).max(1)
    }

    /// The experiments, each once, in the order of their figures' meaning.
    pub(crate) fn distinct_experiments(&self) -> Vec<Experiment> {
        let mut experiments = self.experiments.clone();
        experiments.sort();
        experiments.dedup();
        experiments
    }

    /// "load", or "load presort".
    pub(crate) fn experiment_names(&self) -> String {
        let experiments = self.distinct_experiments();
        experiments.iter().map(|it| it.name()).collect::<Vec<_>>().join(" ")
    }
}

/// Refuses what the disk has no room for.
fn check_room(options: &BenchOptions, groups: &[Group]) -> Result<()> {
    let csv_mb = if groups.iter().any(Group::reads_csv) { options.bytes / 1_000_000 } else { 0 };
    let Some(largest) = groups.iter().max_by_key(|group| group.room_mb(options.bytes)) else {
        return Ok(());
    };
    let needed_mb = largest.room_mb(options.bytes) + csv_mb;
    match machine::free_mb(&options.dir) {
        Some(free_mb) if free_mb < needed_mb => Err(Error::Room {
            experiment: largest.kinds.first().map_or_else(String::new, |it| it.name().into_owned()),
            path: options.dir.clone(),
            needed_mb,
            free_mb,
        }),
        _ => Ok(()),
    }
}

/// The CSV file of this run.
#[derive(Debug)]
pub(crate) struct CsvInput {
    pub(crate) path: PathBuf,
    pub(crate) file: TableFile,
}

/// Writes the CSV file if a group needs one, and reads it once: every rung then
/// finds it in the page cache.
fn make_csv(
    options: &BenchOptions,
    groups: &[Group],
    folder: &TempDir,
    progress: &mut dyn FnMut(ProgressEvent<'_>),
) -> Result<Option<CsvInput>> {
    if !groups.iter().any(Group::reads_csv) {
        return Ok(None);
    }
    let path = folder.path().join("data.csv");
    let bytes_total = options.bytes;
    let size = FileSize::Bytes(bytes_total);
    let file = generate::write_table(&path, TextFormat::Csv, size, &mut |bytes| {
        progress(ProgressEvent::Generating { bytes, bytes_total });
    })?;
    warm(&path)?;
    Ok(Some(CsvInput { path, file }))
}

/// Reads a file once, so that the next reader finds it in the page cache.
pub(crate) fn warm(path: &Path) -> Result<()> {
    let mut reader = File::open(path).map_err(Error::io("open", path))?;
    io::copy(&mut reader, &mut io::sink()).map_err(Error::io("read", path))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::commits::{CommitRung, Committer};
    use crate::plan::billion_group;
    use crate::rung::{RungKind, run_rung};
    use crate::{check, sql};

    fn quick(dir: &Path, only: &[&str]) -> BenchOptions {
        let only = only.iter().map(|name| (*name).to_owned()).collect();
        BenchOptions { dir: dir.to_owned(), only, quick: true, ..BenchOptions::default() }
    }

    fn is_empty(dir: &Path) -> bool {
        fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
    }

    #[test]
    fn the_sql_rival_loads_what_was_generated() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (csv, database) = (folder.path().join("a.csv"), folder.path().join("a.db"));
        let size = FileSize::Bytes(200_000);
        let file = generate::write_table(&csv, TextFormat::Csv, size, &mut |_| ());
        let file = file.expect("a CSV file");
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

    /// Ours played by a rival, so that what is tested is the experiment.
    fn run_by_rivals(request: &RungRequest) -> Result<RungResult> {
        let kind = match request.kind {
            RungKind::CsvIndexLeafpress => RungKind::CsvIndexSql,
            RungKind::AttachLeafpress => RungKind::AttachBatchedSql,
            RungKind::KeysLeafpress => RungKind::KeysPresortedSql,
            RungKind::KeysSpilledLeafpress => RungKind::KeysBatchedSql,
            RungKind::AppendLeafpress => RungKind::AppendSql,
            RungKind::IndexLeafpress => RungKind::IndexSql,
            RungKind::Commits(rung) if rung.by == Committer::Leafpress => {
                RungKind::Commits(CommitRung { by: Committer::BareGroups, ..rung })
            }
            kind => kind,
        };
        run_rung(&RungRequest { kind, ..request.clone() })
    }

    #[test]
    fn two_experiments_make_one_report() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let experiments = vec![Experiment::Presort, Experiment::Load, Experiment::Presort];
        let options = BenchOptions { experiments, ..quick(folder.path(), &[]) };
        let report =
            run_with(&options, &mut run_by_rivals, &mut |_| ()).expect("the experiments run");
        assert_eq!(report.experiment, "load presort");
        for name in [
            "csv_vs_sql",
            "csv_index_vs_sql",
            "rows_vs_sql",
            "attach_vs_insert",
            "keys_vs_sql",
            "keys_vs_presorted",
            "spill_vs_batches",
            "index_vs_sql",
            "append_vs_insert",
        ] {
            assert!(report.ratios.contains_key(name), "{name}: {:?}", report.ratios.keys());
        }
        let rows = |name: &str| {
            let rung = report.rungs.iter().find(|rung| rung.name == name).expect(name);
            (rung.rows, rung.runs_s.len())
        };
        assert_eq!(rows("keys, leafpress, 20k"), (Some(20_000), 2));
        assert_eq!(rows("keys, leafpress, spilled, 100k"), (Some(100_000), 2));
        assert_eq!(rows("index, leafpress, 22k"), (Some(22_000), 2));
        assert_eq!(rows("append, leafpress, 2k"), (Some(2_000), 2));
        assert_eq!(rows("attach, leafpress, 100k"), (Some(100_000), 2));
        assert!(is_empty(folder.path()));
    }

    const ALL: [Experiment; 4] =
        [Experiment::Load, Experiment::Presort, Experiment::Writer, Experiment::Checkpoint];

    /// What is done to a database after its rung.
    type Spoil<'a> = &'a dyn Fn(&Path);

    /// The error of a run in which `spoil` changes what the rung of this ratio's
    /// Leafpress has left.
    fn spoiled(ratio: &str, spoil: Spoil<'_>) -> Error {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut spoiling = |request: &RungRequest| {
            let result = run_by_rivals(request)?;
            if request.kind.name().contains("leafpress") {
                spoil(&request.database);
            }
            Ok(result)
        };
        let experiments = ALL.to_vec();
        let options = BenchOptions { experiments, ..quick(folder.path(), &[ratio]) };
        let error = run_with(&options, &mut spoiling, &mut |_| ()).expect_err(ratio);
        assert!(is_empty(folder.path()));
        error
    }

    #[test]
    fn whatever_a_rung_spoils_is_found_out() {
        let run = |sql: &'static str| {
            move |database: &Path| {
                let connection = rusqlite::Connection::open(database).expect("it opens");
                connection.execute_batch(sql).expect("it is done");
            }
        };
        let beside = |database: &Path| {
            fs::write(database.with_extension("spill"), "rows").expect("it can be written");
        };
        let cases: [(&str, Spoil<'_>, &str); 8] = [
            ("csv_index_vs_sql", &run("DROP INDEX data_description"), "no index on description"),
            ("index_vs_sql", &run("UPDATE data SET city = 'X' WHERE id = 5"), "sums"),
            (
                "keys_vs_sql",
                &run("DELETE FROM event WHERE key = (SELECT max(key) FROM event)"),
                "19999 rows,",
            ),
            ("append_vs_insert", &run("UPDATE event SET payload = zeroblob(100)"), "sums"),
            ("attach_vs_insert", &run("PRAGMA journal_mode = DELETE"), "delete"),
            ("spill_vs_batches", &beside, "bench.spill"),
            ("alone", &run("DELETE FROM call WHERE id = 7"), "where call 6 was the next"),
            ("worst_commit", &run("PRAGMA journal_mode = DELETE"), "delete"),
        ];
        for (ratio, spoil, expected) in cases {
            let error = spoiled(ratio, spoil);
            assert!(matches!(error, Error::Unequal { .. }), "{ratio}: {error}");
            assert!(error.to_string().contains(expected), "{ratio}: {error}");
        }
    }

    #[test]
    fn a_wal_beyond_its_bound_is_reported_unless_a_reader_holds_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut growing = |request: &RungRequest| {
            let result = run_by_rivals(request)?;
            let grown = result.wal_bytes_max.map(|_| 70 << 20);
            Ok(RungResult { wal_bytes_max: grown, ..result })
        };
        let only = ["p999_commit_short_readers", "p999_commit_long_reader"];
        let experiments = vec![Experiment::Checkpoint];
        let options = BenchOptions { experiments, ..quick(folder.path(), &only) };
        let report = run_with(&options, &mut growing, &mut |_| ()).expect("it is measured");
        assert_eq!(report.rungs.len(), 4);
        let broken: Vec<&String> = report.broken.keys().collect();
        assert_eq!(broken, ["short readers, leafpress, 1 blocking"]);
        assert!(report.broken[broken[0]].contains("73.4 MB"), "{:?}", report.broken);
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
    fn a_billion_needs_room() {
        let options = BenchOptions::default();
        let groups = [billion_group(false)];
        let needed_mb = groups[0].room_mb(options.bytes);
        assert!((20_000..21_000).contains(&needed_mb), "{needed_mb} MB");
        let free_mb = machine::free_mb(Path::new("."));
        let enough = free_mb.is_none_or(|megabytes| megabytes >= needed_mb);
        assert_eq!(check_room(&options, &groups).is_ok(), enough);
        let small = billion_group(true);
        assert!(check_room(&options, &[small]).is_ok());
    }
}
