//! Rows into a queue's table: many in one transaction, and in as many transactions, under
//! the settings that people try first; and the same by the Writer and by the Queue.
//!
//! One connection and one thread for SQLite, one or 64 threads for ours. The time runs
//! from the first row to the last answer; opening and closing are outside of it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;
use serde::{Deserialize, Serialize};

use super::jobs::JobNumber;
use super::ours::{self, QueueClient};
use super::{CycleRung, Keeper, Part};
use super::{clients, sql};
use crate::error::{Error, Result};
use crate::report::Safety;
use crate::rung::RungResult;
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

    fn safety(self) -> Safety {
        match self {
            Self::Wal => Safety::Durable,
            // A power cut may undo the last transaction: the folder of the journal that
            // was deleted is not synced.
            Self::Default | Self::TempStore | Self::WalNormal => Safety::Relaxed,
            Self::Normal => Safety::Rebuildable,
        }
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
}

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

    /// Whether the rows are the Queue's own jobs.
    pub(super) fn is_queue(self) -> bool {
        matches!(self.by, Inserter::Push(..) | Inserter::PushMany(_))
    }
}

/// Does the rung's work and measures it.
pub(super) fn run(rung: InsertsRung, database: &Path) -> Result<RungResult> {
    match rung.by {
        Inserter::SqlOnce(settings) | Inserter::SqlEach(settings) => {
            let connection = open_sql(settings, database)?;
            let is_once = matches!(rung.by, Inserter::SqlOnce(_));
            let insert = || insert_by_sql(&connection, rung.rows, is_once);
            let result = timed(rung.rows, || insert().map_err(Error::sqlite("insert a row")))?;
            sql::close(connection)?;
            Ok(result)
        }
        Inserter::Writer(safety, callers) => insert_by_writer(rung, safety, callers, database),
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
            let result = timed(rung.rows, || clients::Client::push(&mut client, &numbers))?;
            drop(client);
            opened.close()?;
            Ok(result)
        }
    }
}

fn numbers(rows: u64) -> impl Iterator<Item = JobNumber> {
    (0..rows).map(|n| JobNumber::of(0, n))
}

fn timed(rows: u64, work: impl FnOnce() -> Result<()>) -> Result<RungResult> {
    let before = Usage::now();
    let start = Instant::now();
    work()?;
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    Ok(RungResult { wall_s, rows, ..RungResult::of(used) })
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

fn insert_by_sql(connection: &Connection, rows: u64, is_once: bool) -> rusqlite::Result<()> {
    if is_once {
        connection.execute_batch("BEGIN")?;
    }
    let mut push = connection.prepare(sql::PUSH)?;
    for job in numbers(rows) {
        push.execute(rusqlite::params![sql::now_ms(), job.payload()])?;
    }
    drop(push);
    if is_once {
        connection.execute_batch("COMMIT")?;
    }
    Ok(())
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
        milliseconds_max: u64::from(u32::MAX),
        sync_delay_us: 0,
    };
    let mut wall = Duration::ZERO;
    let mut result = timed(rung.rows, || {
        wall = clients::run(&pushes, clients, super::jobs::Tally::default())?.wall;
        Ok(())
    })?;
    // Without the start of the threads.
    result.wall_s = wall.as_secs_f64();
    Ok(result)
}
