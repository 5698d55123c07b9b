//! Rows into a queue's table in this process.
//!
//! One connection and one thread for SQLite, one or 64 threads for ours. The time runs from the
//! first row to the last answer; opening and closing are outside of it.
//!
//! If each row is a transaction, a slow disk takes minutes. So no row is begun after
//! [`InsertsRung::milliseconds_max`], and the report scales the time of those that are in.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::jobs::{JobNumber, Tally};
use super::super::ours::{self, QueueClient};
use super::super::rung::{CycleRung, Keeper, Part};
use super::super::{clients, sql};
use super::rung::{Inserter, InsertsRung, SqlSettings};
use crate::connect;
use crate::error::{Error, Result};
use crate::report::Safety;
use crate::rung::result::RungResult;

/// Does the rung's work and measures it.
pub(super) fn run(rung: InsertsRung, database: &Path) -> Result<RungResult> {
    match rung.by {
        Inserter::SqlOnce(settings) | Inserter::SqlEach(settings) => {
            let connection = open_sql(settings, database)?;
            let insert =
                || if rung.is_once() { once(&connection, rung) } else { each(&connection, rung) };
            let insert = || insert().map_err(Error::sqlite("insert a row"));
            let result = RungResult::timed(rung.rows, |_| insert())?;
            connect::close(connection)?;
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
            let result = RungResult::timed(rung.rows, |_| push().map(|()| rung.rows))?;
            drop(client);
            opened.close()?;
            Ok(result)
        }
    }
}

fn numbers(rows: u64) -> impl Iterator<Item = JobNumber> {
    (0..rows).map(|n| JobNumber::of(0, n))
}

fn open_sql(settings: SqlSettings, database: &Path) -> Result<Connection> {
    let connection = connect::open(database, None)?;
    settings.pragmas().set(&connection)?;
    let temp_store =
        if settings == SqlSettings::TempStore { "PRAGMA temp_store = MEMORY;" } else { "" };
    let set_up = format!("{temp_store} {}", sql::TABLE);
    connection.execute_batch(&set_up).map_err(Error::sqlite("make the rival's table"))?;
    Ok(connection)
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
    let writer = connect::open_writer(safety, database, None)?;
    writer.execute_batch(sql::TABLE)?;
    let clients = (0..callers).map(|_| WriterClient { writer: &writer }).collect();
    let result = push_all(&rung, safety, callers, clients)?;
    writer.close()?;
    Ok(result)
}

fn insert_many(rung: InsertsRung, safety: Safety, database: &Path) -> Result<RungResult> {
    let writer = connect::open_writer(safety, database, None)?;
    writer.execute_batch(sql::TABLE)?;
    let row = |job: JobNumber| -> Vec<Value> { vec![sql::now_ms().into(), job.payload().into()] };
    let insert = || -> Result<u64> {
        let rows = numbers(rung.rows).map(row);
        Ok(writer.insert_many("job", &["due_at_ms", "payload"], rows)?)
    };
    let result = RungResult::timed(rung.rows, |_| insert())?;
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

/// Runs the clients of cycles, which only push here.
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
    let mut result = RungResult::timed(rung.rows, |_| {
        let worked = clients::run(&pushes, clients, Tally::default())?;
        wall = worked.wall;
        Ok(worked.jobs)
    })?;
    // Without the start of the threads.
    result.wall_s = wall.as_secs_f64();
    Ok(result)
}
