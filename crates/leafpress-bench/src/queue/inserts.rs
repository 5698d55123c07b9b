//! Rows into a queue's table: many in one transaction, and in as many transactions, under
//! the settings that people try first; and the same by the Writer and by the Queue.
//!
//! One connection and one thread for SQLite, one or 64 threads for ours. The time runs
//! from the first row to the last answer; opening and closing are outside of it.
//!
//! Where each row is a transaction, a slow disk takes minutes. So no row is begun after
//! [`InsertsRung::milliseconds_max`], and the report scales the time of those that are in.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

use super::jobs::JobNumber;
use super::ours::{self, QueueClient};
use super::{CycleRung, Keeper, Part, QueueRung, left};
use super::{about, clients, sql};
use crate::atomic::{Journal, Synchronous, promise};
use crate::check::Left;
use crate::error::{Error, Result};
use crate::report::{OriginalFigure, Safety};
use crate::rung::{Described, RungResult};
use crate::usage::Usage;

/// What is set before the first row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlSettings {
    /// Nothing: a rollback journal that is deleted, FULL.
    Default,
    /// `temp_store = MEMORY`.
    TempStore,
    /// `synchronous = NORMAL`.
    Normal,
    /// `journal_mode = WAL`.
    Wal,
    /// WAL and NORMAL.
    WalNormal,
}

impl SqlSettings {
    /// All of them, in the order in which people try them.
    pub(super) const ALL: [Self; 5] =
        [Self::Default, Self::TempStore, Self::Normal, Self::Wal, Self::WalNormal];

    /// The pragmas that are set.
    pub(crate) fn pragmas(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::TempStore => "PRAGMA temp_store = MEMORY",
            Self::Normal => "PRAGMA synchronous = NORMAL",
            Self::Wal => "PRAGMA journal_mode = WAL",
            Self::WalNormal => "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::TempStore => "temp_store",
            Self::Normal => "normal",
            Self::Wal => "wal",
            Self::WalNormal => "wal normal",
        }
    }

    /// Its name in charts.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::TempStore => "temp_store = MEMORY",
            Self::Normal => "NORMAL",
            Self::Wal => "WAL",
            Self::WalNormal => "WAL + NORMAL",
        }
    }

    /// What holds once they are set. Where the files of sorts are has no part in it.
    fn safety(self) -> Safety {
        let journal = if self.is_wal() { Journal::Wal } else { Journal::Delete };
        let is_normal = matches!(self, Self::Normal | Self::WalNormal);
        promise::of(journal, if is_normal { Synchronous::Normal } else { Synchronous::Full })
    }

    fn is_wal(self) -> bool {
        matches!(self, Self::Wal | Self::WalNormal)
    }
}

/// Who puts the rows in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inserter {
    /// SQLite, all rows in one transaction.
    SqlOnce(SqlSettings),
    /// SQLite, a transaction for each row.
    SqlEach(SqlSettings),
    /// The Writer, a call for each row, by so many threads, into the same table.
    Writer(Safety, u32),
    /// The Writer, all rows in one call, into the same table.
    WriterMany(Safety),
    /// The Queue, a push for each row, by so many threads.
    Push(Safety, u32),
    /// The Queue, all rows in one call.
    PushMany(Safety),
}

/// Rows into a queue's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InsertsRung {
    /// Who puts them in.
    pub by: Inserter,
    /// How many.
    pub rows: u64,
    /// No row is begun after so long where each is a transaction; the rows are then fewer.
    #[serde(default = "for_ever")]
    pub milliseconds_max: u64,
}

/// For whoever asks for a rung without saying how long.
fn for_ever() -> u64 {
    u64::from(u32::MAX)
}

/// Where each row is a transaction, or a call.
pub(super) const EACH_CHART: &str = "each row its own transaction";

/// Where all rows are one transaction.
pub(super) const ONCE_CHART: &str = "all rows in one transaction";

impl InsertsRung {
    /// Its name in the report.
    pub(super) fn name(self) -> String {
        match self.by {
            Inserter::SqlOnce(settings) => {
                format!("inserts, SQL, {}, one transaction", settings.name())
            }
            Inserter::SqlEach(settings) => {
                format!("inserts, SQL, {}, transactions", settings.name())
            }
            Inserter::Writer(safety, callers) => {
                format!("inserts, leafpress, {} Writer, {callers} callers", safety.name())
            }
            Inserter::WriterMany(safety) => {
                format!("inserts, leafpress, {} Writer, insert_many", safety.name())
            }
            Inserter::Push(safety, callers) => {
                format!("inserts, leafpress, {} push, {callers} callers", safety.name())
            }
            Inserter::PushMany(safety) => {
                format!("inserts, leafpress, {} push_many", safety.name())
            }
        }
    }

    /// What is left after a crash right after the work.
    pub(super) fn safety(self) -> Safety {
        match self.by {
            Inserter::SqlOnce(settings) | Inserter::SqlEach(settings) => settings.safety(),
            Inserter::Writer(safety, _)
            | Inserter::WriterMany(safety)
            | Inserter::Push(safety, _)
            | Inserter::PushMany(safety) => safety,
        }
    }

    /// The journal mode that its database is left in.
    pub(super) fn journal_mode(self) -> &'static str {
        let is_wal = match self.by {
            Inserter::SqlOnce(settings) | Inserter::SqlEach(settings) => settings.is_wal(),
            _ => matches!(self.safety(), Safety::Durable | Safety::Relaxed),
        };
        if is_wal { "wal" } else { "delete" }
    }

    /// Whether all rows are one transaction.
    fn is_once(self) -> bool {
        matches!(self.by, Inserter::SqlOnce(_) | Inserter::WriterMany(_) | Inserter::PushMany(_))
    }

    fn time_max(self) -> Duration {
        Duration::from_millis(self.milliseconds_max)
    }

    /// Whether the rows are the Queue's own jobs.
    pub(super) fn is_queue(self) -> bool {
        matches!(self.by, Inserter::Push(..) | Inserter::PushMany(_))
    }
}

impl Described for InsertsRung {
    fn name(&self) -> String {
        Self::name(*self)
    }

    fn label(&self) -> String {
        let callers = |callers: u32| match callers {
            1 => "1 caller".to_owned(),
            callers => format!("{callers} callers"),
        };
        // The promise of most; the others say theirs.
        let promise = |safety: Safety| match safety {
            Safety::Durable => String::new(),
            safety => format!("{} ", safety.name()),
        };
        match self.by {
            Inserter::SqlOnce(settings) => format!("{}, one transaction", settings.label()),
            Inserter::SqlEach(settings) => format!("{}, a transaction each", settings.label()),
            Inserter::Writer(safety, of) => format!("{}Writer, {}", promise(safety), callers(of)),
            Inserter::WriterMany(safety) => format!("{}Writer, insert_many", promise(safety)),
            Inserter::Push(safety, of) => format!("{}Queue, {}", promise(safety), callers(of)),
            Inserter::PushMany(safety) => format!("{}Queue, push_many", promise(safety)),
        }
    }

    fn chart(&self) -> String {
        if self.is_once() { ONCE_CHART } else { EACH_CHART }.to_owned()
    }

    fn safety(&self) -> Safety {
        Self::safety(*self)
    }

    fn original(&self) -> Option<OriginalFigure> {
        about::figure_of(self.by)
    }

    fn room_mb(&self) -> u64 {
        QueueRung::Inserts(*self).room_mb()
    }

    fn run(&self, database: &Path) -> Result<RungResult> {
        run(*self, database)
    }

    fn left(&self, result: &RungResult, database: &Path) -> Result<Left> {
        left::by(&QueueRung::Inserts(*self), result, database)
    }
}

/// Does the rung's work and measures it.
pub(super) fn run(rung: InsertsRung, database: &Path) -> Result<RungResult> {
    match rung.by {
        Inserter::SqlOnce(settings) | Inserter::SqlEach(settings) => {
            let connection = open_sql(settings, database)?;
            let insert =
                || if rung.is_once() { once(&connection, rung) } else { each(&connection, rung) };
            let result = timed(rung, || insert().map_err(Error::sqlite("insert a row")))?;
            sql::close(connection)?;
            Ok(result)
        }
        Inserter::Writer(safety, callers) => insert_by_writer(rung, safety, callers, database),
        Inserter::WriterMany(safety) => insert_many(rung, safety, database),
        Inserter::Push(safety, callers) => {
            let opened = ours::open(safety, database, None)?;
            let result = push_by(&rung, safety, callers, &opened)?;
            opened.close()?;
            Ok(result)
        }
        Inserter::PushMany(safety) => {
            let opened = ours::open(safety, database, None)?;
            let numbers: Vec<JobNumber> = numbers(rung.rows).collect();
            let mut client = QueueClient::new(opened.queue.clone());
            let mut push = || clients::Client::push(&mut client, &numbers);
            let result = timed(rung, || push().map(|()| rung.rows))?;
            drop(client);
            opened.close()?;
            Ok(result)
        }
    }
}

fn numbers(rows: u64) -> impl Iterator<Item = JobNumber> {
    (0..rows).map(|n| JobNumber::of(0, n))
}

/// Times the work, which says how many rows it has put in.
fn timed(rung: InsertsRung, work: impl FnOnce() -> Result<u64>) -> Result<RungResult> {
    let before = Usage::now();
    let start = Instant::now();
    let rows = work()?;
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    let rows_in_full = (rows < rung.rows).then_some(rung.rows);
    Ok(RungResult { wall_s, rows, rows_in_full, ..RungResult::of(used) })
}

fn open_sql(settings: SqlSettings, database: &Path) -> Result<Connection> {
    let set_up = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(database)?;
        connection.execute_batch(settings.pragmas())?;
        connection.execute_batch(sql::TABLE)?;
        Ok(connection)
    };
    set_up().map_err(Error::sqlite("open the rival's database"))
}

/// All rows in one transaction; how many.
fn once(connection: &Connection, rung: InsertsRung) -> rusqlite::Result<u64> {
    connection.execute_batch("BEGIN")?;
    let mut push = connection.prepare(sql::PUSH)?;
    for job in numbers(rung.rows) {
        push.execute(rusqlite::params![sql::now_ms(), job.payload()])?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(rung.rows)
}

/// A transaction for each row, until the time is up; how many.
fn each(connection: &Connection, rung: InsertsRung) -> rusqlite::Result<u64> {
    let time_is_up = Instant::now() + rung.time_max();
    let mut push = connection.prepare(sql::PUSH)?;
    for (done, job) in (0..).zip(numbers(rung.rows)) {
        if done > 0 && Instant::now() > time_is_up {
            return Ok(done);
        }
        push.execute(rusqlite::params![sql::now_ms(), job.payload()])?;
    }
    Ok(rung.rows)
}

/// A client that only pushes, by the Writer, into the table that SQL's rungs have.
struct WriterClient<'w> {
    writer: &'w leafpress::writer::Writer,
}

impl clients::Client for WriterClient<'_> {
    fn push(&mut self, jobs: &[JobNumber]) -> Result<()> {
        for job in jobs {
            let row: [Value; 2] = [sql::now_ms().into(), job.payload().into()];
            self.writer.execute(sql::PUSH, row)?;
        }
        Ok(())
    }

    fn claim(&mut self, _: usize, _: &mut Vec<JobNumber>) -> Result<()> {
        Ok(())
    }

    fn acknowledge(&mut self) -> Result<()> {
        Ok(())
    }
}

fn insert_by_writer(
    rung: InsertsRung,
    safety: Safety,
    callers: u32,
    database: &Path,
) -> Result<RungResult> {
    let writer = ours::open_writer(safety, database, None)?;
    writer.execute_batch(sql::TABLE)?;
    let clients = (0..callers).map(|_| WriterClient { writer: &writer }).collect();
    let result = push_all(&rung, safety, callers, clients)?;
    writer.close()?;
    Ok(result)
}

fn insert_many(rung: InsertsRung, safety: Safety, database: &Path) -> Result<RungResult> {
    let writer = ours::open_writer(safety, database, None)?;
    writer.execute_batch(sql::TABLE)?;
    let row = |job: JobNumber| -> Vec<Value> { vec![sql::now_ms().into(), job.payload().into()] };
    let insert = || -> Result<u64> {
        let rows = numbers(rung.rows).map(row);
        Ok(writer.insert_many("job", &["due_at_ms", "payload"], rows)?)
    };
    let result = timed(rung, insert)?;
    writer.close()?;
    Ok(result)
}

fn push_by(
    rung: &InsertsRung,
    safety: Safety,
    callers: u32,
    opened: &ours::Opened,
) -> Result<RungResult> {
    let clients = (0..callers).map(|_| QueueClient::new(opened.queue.clone())).collect();
    push_all(rung, safety, callers, clients)
}

/// The same clients as those of cycles, which only push.
fn push_all<C: clients::Client + Send>(
    rung: &InsertsRung,
    safety: Safety,
    callers: u32,
    clients: Vec<C>,
) -> Result<RungResult> {
    let pushes = CycleRung {
        by: Keeper::Leafpress,
        part: Part::Push,
        safety,
        clients: callers,
        batch: 1,
        jobs: rung.rows,
        milliseconds_max: rung.milliseconds_max,
        sync_delay_us: 0,
    };
    let mut wall = Duration::ZERO;
    let mut result = timed(*rung, || {
        let worked = clients::run(&pushes, clients, super::jobs::Tally::default())?;
        wall = worked.wall;
        Ok(worked.jobs)
    })?;
    // Without the start of the threads.
    result.wall_s = wall.as_secs_f64();
    Ok(result)
}
