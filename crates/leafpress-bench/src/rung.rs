//! One rung: one piece of work by one rival, in a process of its own, so that
//! processor time and peak memory are the rung's and nobody else's.
//!
//! The experiment starts its own executable again as
//!
//! ```text
//! leafpress bench --rung '{"kind":"csv_sql","csv":"…","database":"…"}'
//! ```
//!
//! and the child hands that text to [`run_rung`] and prints the answer as one
//! line. Only the work is timed: not the start of the process, not the making
//! of what both rivals are given.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use std::time::Instant;

use leafpress::load::Report;
use leafpress::vfs;
use serde::{Deserialize, Serialize};

use crate::atomic::{self, AccountingRung, AtomicRung};
use crate::batches::BatchesRung;
use crate::check::Left;
use crate::commits::{self, CommitRung};
use crate::cycles::CyclesRung;
use crate::drawn::{self, Drawn};
use crate::error::{Error, Result};
use crate::generate::Areas;
use crate::ladder::LadderRung;
use crate::queue::QueueRung;
use crate::report::{Course, Io, Latency, Memory, OriginalFigure, Safety};
use crate::usage::Usage;
use crate::{ours, sql};

/// The hidden flag of `leafpress bench` that makes it a rung's process.
pub const RUNG_FLAG: &str = "--rung";

/// What there is to do: decides what is left, and who can be compared with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The CSV file to a new database.
    Csv,
    /// The same, and an index on one of its columns.
    CsvIndex,
    /// Users made in memory to a new database.
    Users,
    /// The same to a database that exists, in WAL mode.
    Attach,
    /// Rows with random keys to a new database.
    Keys,
    /// More of them to a table that has ten times as many, in WAL mode.
    Append,
    /// An index on the CSV file's table, which is there already.
    Index,
    /// Rows by many small transactions to a new database. How many rows each rung
    /// has it says itself.
    Commits,
    /// One-row transactions, one after the other, to a database that is made just
    /// before.
    Atomic,
    /// Rows in one transaction, to see what counting costs.
    Accounting,
    /// Jobs of a queue. How many each rung has it says itself.
    Queue,
    /// Claims from queues with many jobs, which are made before.
    QueueClaims,
    /// Whatever each rung says.
    Described,
}

impl Work {
    /// Whether each rung says itself how large its work is, so that the rungs of a group
    /// differ in it.
    pub(crate) fn names_its_sizes(self) -> bool {
        !matches!(
            self,
            Self::Csv
                | Self::CsvIndex
                | Self::Users
                | Self::Attach
                | Self::Keys
                | Self::Append
                | Self::Index
                | Self::Accounting
        )
    }
}

/// Which work, by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungKind {
    /// The CSV file by tuned SQL, types known, one row a statement.
    CsvSql,
    /// The same, 20 rows a statement.
    CsvBatchedSql,
    /// The CSV file by Leafpress, types detected.
    CsvLeafpress,
    /// The CSV file by Leafpress, types given.
    CsvTypedLeafpress,
    /// The CSV file by tuned SQL, 20 rows a statement, then a tuned CREATE INDEX.
    CsvIndexSql,
    /// The CSV file and its index by Leafpress in one run, types detected.
    CsvIndexLeafpress,
    /// Users by tuned SQL, 50 rows a statement.
    UsersSql,
    /// Users by Leafpress, in parts on all cores.
    UsersLeafpress,
    /// Users by Leafpress, from a single iterator.
    UsersIteratorLeafpress,
    /// Users to a new table of an existing database by SQL, one row a statement.
    AttachSql,
    /// The same, 50 rows a statement.
    AttachBatchedSql,
    /// Users to a new table of an existing database by Leafpress.
    AttachLeafpress,
    /// Random keys by tuned SQL as they come, 50 rows a statement.
    KeysSql,
    /// Random keys by tuned SQL, sorted beforehand, 50 rows a statement.
    KeysPresortedSql,
    /// Random keys by tuned SQL, a million rows sorted at a time.
    KeysBatchedSql,
    /// Random keys by Leafpress, in parts on all cores.
    KeysLeafpress,
    /// The same with so little memory that it has to spill.
    KeysSpilledLeafpress,
    /// Random keys to a table that has rows by SQL, one row a statement.
    AppendSql,
    /// The same by Leafpress.
    AppendLeafpress,
    /// An index by SQLite's CREATE INDEX, tuned.
    IndexSql,
    /// The same with a journal and with syncs.
    IndexDurableSql,
    /// An index by Leafpress.
    IndexLeafpress,
    /// Many small transactions.
    Commits(CommitRung),
    /// One-row transactions, one after the other.
    Atomic(AtomicRung),
    /// Rows in one transaction, with and without counting.
    Accounting(AccountingRung),
    /// Jobs of a queue.
    Queue(QueueRung),
    /// A step of the ladder.
    Ladder(LadderRung),
    /// Rows in batches, by kind of key.
    Batches(BatchesRung),
    /// Cycles of inserts and deletes.
    Cycles(CyclesRung),
}

/// A rung that says everything about itself.
pub(crate) trait Described {
    /// Its name in the report, which no other rung has.
    fn name(&self) -> String;

    /// Its name within its chart: "WAL + NORMAL".
    fn label(&self) -> String;

    /// What it is drawn together with.
    fn chart(&self) -> String;

    /// What is left after a crash right after the work.
    fn safety(&self) -> Safety;

    /// What a crash may take, in words.
    fn may_lose(&self) -> String {
        self.safety().may_lose().to_owned()
    }

    /// What the original found for the same settings.
    fn original(&self) -> Option<OriginalFigure> {
        None
    }

    /// What it takes on the disk at most.
    fn room_mb(&self) -> u64;

    /// Does the work and measures it.
    fn run(&self, database: &Path) -> Result<RungResult>;

    /// What it left, and what it should have.
    fn left(&self, result: &RungResult, database: &Path) -> Result<Left>;
}

impl RungKind {
    /// What is left after a crash right after the work.
    pub(crate) fn safety(self) -> Safety {
        match self {
            Self::CsvSql
            | Self::CsvBatchedSql
            | Self::CsvIndexSql
            | Self::UsersSql
            | Self::KeysSql
            | Self::KeysPresortedSql
            | Self::KeysBatchedSql
            | Self::IndexSql
            | Self::Accounting(_) => Safety::Rebuildable,
            Self::IndexDurableSql => Safety::Rollback,
            Self::Commits(rung) => rung.safety,
            Self::Atomic(rung) => rung.safety(),
            Self::Queue(rung) => rung.safety(),
            _ => self.described().map_or(Safety::Durable, Described::safety),
        }
    }

    /// Its name in the report, without the size of the work.
    pub(crate) fn name(self) -> Cow<'static, str> {
        let name = match self {
            Self::Commits(rung) => return rung.name().into(),
            Self::Atomic(rung) => return rung.name().into(),
            Self::Accounting(rung) => rung.name(),
            Self::Queue(rung) => return rung.name().into(),
            Self::CsvSql => "csv, SQL, types known, one row a statement",
            Self::CsvBatchedSql => "csv, SQL, types known, 20 rows a statement",
            Self::CsvLeafpress => "csv, leafpress, types detected",
            Self::CsvTypedLeafpress => "csv, leafpress, types given",
            Self::CsvIndexSql => "csv and index, SQL, 20 rows a statement",
            Self::CsvIndexLeafpress => "csv and index, leafpress",
            Self::UsersSql => "rows, SQL, 50 rows a statement",
            Self::UsersLeafpress => "rows, leafpress, in parts",
            Self::UsersIteratorLeafpress => "rows, leafpress, one iterator",
            Self::AttachSql => "attach, SQL, one row a statement",
            Self::AttachBatchedSql => "attach, SQL, 50 rows a statement",
            Self::AttachLeafpress => "attach, leafpress",
            Self::KeysSql => "keys, SQL, unsorted",
            Self::KeysPresortedSql => "keys, SQL, presorted",
            Self::KeysBatchedSql => "keys, SQL, batches presorted",
            Self::KeysLeafpress => "keys, leafpress",
            Self::KeysSpilledLeafpress => "keys, leafpress, spilled",
            Self::AppendSql => "append, SQL, one row a statement",
            Self::AppendLeafpress => "append, leafpress",
            Self::IndexSql => "index, SQL",
            Self::IndexDurableSql => "index, SQL, durable",
            Self::IndexLeafpress => "index, leafpress",
            Self::Ladder(rung) => return Described::name(&rung).into(),
            Self::Batches(rung) => return Described::name(&rung).into(),
            Self::Cycles(rung) => return Described::name(&rung).into(),
        };
        name.into()
    }

    /// The rung itself, where it says everything about itself.
    pub(crate) fn described(&self) -> Option<&dyn Described> {
        match self {
            Self::Ladder(rung) => Some(rung),
            Self::Batches(rung) => Some(rung),
            Self::Cycles(rung) => Some(rung),
            Self::Queue(QueueRung::Inserts(rung)) => Some(rung),
            _ => None,
        }
    }

    /// Its name within its chart.
    pub(crate) fn label(&self) -> String {
        match drawn::of(self) {
            Some(Drawn { label, .. }) => label,
            None => self.described().map_or_else(|| self.name().into_owned(), Described::label),
        }
    }

    /// What a crash may take, in words.
    pub(crate) fn may_lose(&self) -> String {
        let words = || self.safety().may_lose().to_owned();
        self.described().map_or_else(words, Described::may_lose)
    }

    /// What it is drawn together with.
    pub(crate) fn chart(&self) -> String {
        match drawn::of(self) {
            Some(Drawn { chart, .. }) => chart,
            None => self.described().map_or_else(String::new, Described::chart),
        }
    }

    /// How long the disk rests before it: what commits and small tables leave is less.
    fn rest(self) -> Duration {
        let leaves_little = matches!(
            self,
            Self::Commits(_) | Self::Atomic(_) | Self::Queue(_) | Self::Ladder(_) | Self::Cycles(_)
        );
        Duration::from_millis(if leaves_little { 100 } else { 500 })
    }
}

/// What a rung's process is asked to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungRequest {
    /// Which work, by whom.
    pub kind: RungKind,
    /// The database to make; must not exist, except where the work says so.
    pub database: PathBuf,
    /// The CSV file, where one is loaded.
    #[serde(default)]
    pub csv: PathBuf,
    /// Rows to make, where they are made in memory; rows of the table, where it
    /// gets an index.
    #[serde(default)]
    pub rows: u64,
    /// The number of the first row to make.
    #[serde(default)]
    pub first_row: u64,
    /// What a sort may take; without it the defaults hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The disk that the process plays, by its name; without it none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulate: Option<String>,
}

impl RungRequest {
    /// The request of a rung that needs nothing but its database, on the same disk as this
    /// process's.
    pub(crate) fn new(kind: RungKind, database: &Path) -> Self {
        let (database, csv) = (database.to_owned(), PathBuf::new());
        let simulate = vfs::simulation().map(|played| played.model().name.to_owned());
        Self { kind, database, csv, rows: 0, first_row: 0, memory_bytes: None, simulate }
    }

    /// The numbers of the rows to make.
    fn row_numbers(&self) -> Range<u64> {
        self.first_row..self.first_row.saturating_add(self.rows)
    }
}

/// What a rung's process answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RungResult {
    /// Wall seconds of the work.
    pub wall_s: f64,
    /// Rows loaded.
    pub rows: u64,
    /// Processor seconds of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Peak resident memory of the process up to the end of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_mb: Option<f64>,
    /// Reading and writing of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
    /// Seconds per stage, where the work reports them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages_s: BTreeMap<String, f64>,
    /// What each call took, where there are calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// The largest size of the WAL that was seen, where it was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_bytes_max: Option<u64>,
    /// The course over time, where it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Course>,
    /// Changes that were made besides, outside of the time: to warm up, to count.
    #[serde(default)]
    pub changes_besides: u64,
    /// What ours says of how it writes pages, where that is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_writes: Option<String>,
    /// Why what the rung was to show could not be had here; it ran all the same, as
    /// its users would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_given: Option<String>,
    /// What SQLite needed of memory, where that is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Jobs that waited in the queue before the first call.
    #[serde(default)]
    pub jobs_waiting_before: u64,
    /// From the call that caused each wake-up, where these are measured; `latency_us` is
    /// from its answer on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_call_us: Option<Latency>,
    /// When a waiter had the answer of each claim, on the clock of all processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claimed_at_ns: Vec<i64>,
    /// Rows that the work has in full, where only some of them were done; the report scales
    /// the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_in_full: Option<u64>,
    /// Rows that were done, once the time is scaled.
    #[serde(skip)]
    pub(crate) sample_rows: Option<u64>,
    /// Seconds of each batch, where the work comes in batches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches_s: Vec<f64>,
    /// Microseconds of each cycle, where the work comes in cycles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycles_us: Vec<f64>,
    /// Cycles, from 0, in which a checkpoint moved pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<usize>,
    /// Seconds of `wall_s` outside of cycles and batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside_s: Option<f64>,
    /// What the played disk did, where one is played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub played: Option<PlayedDisk>,
}

/// What a played disk did in a rung's process, to judge how well it was played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PlayedDisk {
    /// Syncs that had something to do.
    pub syncs: u64,
    /// Those of them for which the real disk took longer than the played one.
    pub late_syncs: u64,
    /// How long the played disk was busy.
    pub busy_s: f64,
    /// By how much the real disk was too slow.
    pub late_s: f64,
}

/// Runs a rung: in a process of its own, except in tests.
pub(crate) type Runner<'a> = &'a mut dyn FnMut(&RungRequest) -> Result<RungResult>;

/// Does what a rung's process is asked to do: takes [`RungRequest`] as JSON,
/// gives [`RungResult`] as JSON of one line.
///
/// # Errors
/// If the request does not parse, or the work fails; the database may then be
/// there, half made. Whoever asked removes it.
pub fn run_rung_line(request: &str) -> Result<String> {
    let request: RungRequest = serde_json::from_str(request)
        .map_err(|error| Error::Usage(format!("{RUNG_FLAG} {request}: {error}")))?;
    let result = run_rung(&request)?;
    serde_json::to_string(&result).map_err(|error| Error::Rung {
        name: request.kind.name().into_owned(),
        reason: error.to_string(),
    })
}

/// Does the work in this process and measures it.
///
/// A disk to be played is played to the end of the process, so that only a rung's own
/// process may be asked for it.
///
/// # Errors
/// If the work fails; the database may then be there, half made.
pub fn run_rung(request: &RungRequest) -> Result<RungResult> {
    // Before anything is opened, as what is open already stays as fast as it is.
    let played = match &request.simulate {
        Some(name) => Some(vfs::simulate(name.parse()?)?),
        None => None,
    };
    let result = measure(request)?;
    let played = played.map(|disk| {
        let stats = disk.stats();
        PlayedDisk {
            syncs: stats.syncs,
            late_syncs: stats.late_syncs,
            busy_s: stats.busy.as_secs_f64(),
            late_s: stats.late.as_secs_f64(),
        }
    });
    Ok(RungResult { played, ..result })
}

fn measure(request: &RungRequest) -> Result<RungResult> {
    match request.kind {
        RungKind::Commits(rung) => {
            return run_commits(commits::prepare(rung, &request.database)?);
        }
        RungKind::Atomic(rung) => return atomic::run(rung, &request.database),
        RungKind::Accounting(rung) => return atomic::accounting::run(rung, &request.database),
        RungKind::Queue(rung) => return rung.run(&request.database),
        kind => {
            if let Some(rung) = kind.described() {
                return rung.run(&request.database);
            }
        }
    }
    let work = prepare(request);
    let before = Usage::now();
    let start = Instant::now();
    let done = work()?;
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    Ok(RungResult { wall_s, rows: done.rows, stages_s: done.stages_s, ..RungResult::of(used) })
}

/// Makes the calls, which are timed from the first to the last answer, and closes
/// the database, which is not.
fn run_commits(calls: commits::Ready) -> Result<RungResult> {
    let before = Usage::now();
    let (committed, close) = calls()?;
    let used = Usage::now().since(before);
    close()?;
    let mut stages_s = BTreeMap::new();
    if !committed.readers_held.is_zero() {
        stages_s.insert("snapshots held".to_owned(), committed.readers_held.as_secs_f64());
    }
    Ok(RungResult {
        wall_s: committed.wall.as_secs_f64(),
        rows: committed.calls,
        stages_s,
        latency_us: committed.latency,
        wal_bytes_max: committed.wal_bytes_max,
        series: committed.course,
        ..RungResult::of(used)
    })
}

impl RungResult {
    /// The same for all rows, where only some of them were done.
    pub(crate) fn scaled(self) -> Self {
        let rows_done = self.rows;
        match self.rows_in_full {
            Some(rows) if rows_done > 0 && rows_done < rows => Self {
                wall_s: self.wall_s * rows as f64 / rows_done as f64,
                rows,
                sample_rows: Some(rows_done),
                ..self
            },
            _ => self,
        }
    }

    /// The result so far of work that used so much.
    pub(crate) fn of(used: Usage) -> Self {
        Self { cpu_s: used.cpu_s, peak_mb: used.peak_mb, io: used.io, ..Self::default() }
    }
}

/// A rung's work, ready to begin.
type Prepared<'r> = Box<dyn FnOnce() -> Result<Done> + 'r>;

/// The work, with all made that belongs to neither rival and is not to be timed.
fn prepare(request: &RungRequest) -> Prepared<'_> {
    match request.kind {
        RungKind::UsersSql
        | RungKind::UsersLeafpress
        | RungKind::UsersIteratorLeafpress
        | RungKind::AttachSql
        | RungKind::AttachBatchedSql
        | RungKind::AttachLeafpress => prepare_users(request),
        RungKind::KeysSql
        | RungKind::KeysPresortedSql
        | RungKind::KeysBatchedSql
        | RungKind::KeysLeafpress
        | RungKind::KeysSpilledLeafpress
        | RungKind::AppendSql
        | RungKind::AppendLeafpress => Box::new(|| do_keys(request)),
        _ => Box::new(|| do_table(request)),
    }
}

fn prepare_users(request: &RungRequest) -> Prepared<'_> {
    let RungRequest { kind, database, rows, .. } = request;
    let areas = Areas::new();
    Box::new(move || {
        Ok(match kind {
            RungKind::UsersSql => sql::load_users(&areas, *rows, database)?.into(),
            RungKind::UsersLeafpress => ours::load_user_parts(&areas, *rows, database)?.into(),
            RungKind::AttachSql => sql::attach_users(&areas, *rows, database, 1)?.into(),
            RungKind::AttachBatchedSql => {
                sql::attach_users(&areas, *rows, database, sql::STATEMENT_ROWS)?.into()
            }
            RungKind::AttachLeafpress => ours::attach_users(&areas, *rows, database)?.into(),
            _ => ours::load_user_rows(&areas, *rows, database)?.into(),
        })
    })
}

fn do_keys(request: &RungRequest) -> Result<Done> {
    let RungRequest { kind, database, memory_bytes, .. } = request;
    let rows = request.row_numbers();
    Ok(match kind {
        RungKind::KeysSql => sql::load_keys_unsorted(rows, database)?.into(),
        RungKind::KeysPresortedSql => sql::load_keys_presorted(rows, database)?.into(),
        RungKind::KeysBatchedSql => sql::load_keys_in_batches(rows, database)?.into(),
        RungKind::AppendSql => sql::append_keys(rows, database)?.into(),
        RungKind::AppendLeafpress => ours::append_keys(&rows, database)?.into(),
        _ => ours::load_keys(&rows, database, *memory_bytes)?.into(),
    })
}

fn do_table(request: &RungRequest) -> Result<Done> {
    let RungRequest { kind, database, csv, rows, .. } = request;
    Ok(match kind {
        RungKind::CsvSql => sql::load_csv(csv, database, 1)?.into(),
        RungKind::CsvBatchedSql => sql::load_csv(csv, database, sql::CSV_STATEMENT_ROWS)?.into(),
        RungKind::CsvLeafpress => ours::load_csv(csv, database, false)?.into(),
        RungKind::CsvIndexSql => sql::load_csv_with_index(csv, database)?.into(),
        RungKind::CsvIndexLeafpress => ours::load_csv_with_index(csv, database)?.into(),
        RungKind::IndexSql => {
            sql::create_index(database, sql::PRAGMAS)?;
            (*rows).into()
        }
        RungKind::IndexDurableSql => {
            sql::create_index(database, sql::DURABLE_PRAGMAS)?;
            (*rows).into()
        }
        RungKind::IndexLeafpress => {
            ours::create_index(database)?;
            (*rows).into()
        }
        _ => ours::load_csv(csv, database, true)?.into(),
    })
}

/// What any rival's work says about itself.
struct Done {
    rows: u64,
    stages_s: BTreeMap<String, f64>,
}

impl From<u64> for Done {
    fn from(rows: u64) -> Self {
        Self { rows, stages_s: BTreeMap::new() }
    }
}

impl From<Report> for Done {
    fn from(report: Report) -> Self {
        let stages_s =
            report.stages.iter().map(|stage| (stage.name.to_owned(), stage.seconds)).collect();
        Self { rows: report.rows_loaded, stages_s }
    }
}

/// What the rung before left to be written or discarded must not slow down the
/// next one: a rival that syncs nothing leaves a gigabyte.
fn let_the_disk_rest(rest: Duration) {
    #[cfg(target_os = "linux")]
    rustix::fs::sync();
    std::thread::sleep(rest);
}

/// The command of a rung's process: this executable, as `bench --rung …`.
pub(crate) fn child_command(request: &RungRequest) -> Result<Command> {
    let failed = |reason: String| Error::Rung { name: request.kind.name().into_owned(), reason };
    let text = serde_json::to_string(request).map_err(|error| failed(error.to_string()))?;
    let program = std::env::current_exe().map_err(Error::io("find", Path::new("this program")))?;
    let mut command = Command::new(program);
    // SQLite's sorter writes to the disk that is measured, as ours does.
    let folder = request.database.parent().unwrap_or(Path::new("."));
    command.args(["bench", RUNG_FLAG, &text]).env("SQLITE_TMPDIR", folder);
    Ok(command)
}

/// Runs a rung in a process of its own: this executable, as `bench --rung …`.
/// `rests` lets the disk come to rest before.
pub(crate) fn run_in_child(request: &RungRequest, rests: bool) -> Result<RungResult> {
    let failed = |reason: String| Error::Rung { name: request.kind.name().into_owned(), reason };
    let mut command = child_command(request)?;
    if rests {
        let_the_disk_rest(request.kind.rest());
    }
    let output = command.output().map_err(Error::io("start", Path::new(command.get_program())))?;
    if was_interrupted(output.status) {
        // Ctrl-C goes to both, and the child may be gone before our own handler has run.
        return Err(Error::Cancelled);
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}\n{}", output.status, said.trim_end())));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// Whether a process died of ctrl-C.
#[cfg(unix)]
fn was_interrupted(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    // The number of SIGINT, which POSIX gives.
    const INTERRUPT: i32 = 2;
    status.signal() == Some(INTERRUPT)
}

/// Whether a process died of ctrl-C: its status does not tell here.
#[cfg(not(unix))]
fn was_interrupted(_status: ExitStatus) -> bool {
    false
}
