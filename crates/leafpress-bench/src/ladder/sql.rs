//! SQLite's rungs: each step of the ladder as its users write it.
//!
//! Must never: be slower than its users' own code. The statement that is compiled each
//! time is so because that is the step.

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use super::records::{Parameters, Record};
use super::rung::{INSERT, LadderRung, Step, TABLE};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;
use crate::rung::result::RungResult;

/// Bytes of the file that are mapped at most, where it is.
const MAPPED_BYTES: i64 = 256 << 20;

/// Does the rung's work and measures it.
pub(super) fn run(
    rung: LadderRung,
    pragmas: Pragmas,
    records: &[Record],
    database: &Path,
) -> Result<RungResult> {
    let connection = open(rung, pragmas, database)?;
    RungResult::timed(rung.rows, |start| {
        let done = match rung.by {
            Step::EachRow(_) => insert_each(&connection, rung, records, start),
            Step::Compiled(_) => in_one_transaction(&connection, || {
                insert_all(records, |row| connection.execute(INSERT, row))
            }),
            Step::Prepared(_) | Step::Mapped | Step::Pages(_) => {
                in_one_transaction(&connection, || {
                    let mut insert = connection.prepare(INSERT)?;
                    insert_all(records, |row| insert.execute(row))
                })
            }
            Step::WriterBlocking
            | Step::WriterInFlight(_)
            | Step::WriterMany
            | Step::Pressed
            | Step::PressedPages(_) => return Err(Error::wrong_rival(rung.by.label())),
        };
        let done = done.map_err(Error::sqlite("insert the rows"))?;
        connect::close(connection)?;
        Ok(done)
    })
}

/// A new database with the table.
fn open(rung: LadderRung, pragmas: Pragmas, database: &Path) -> Result<Connection> {
    let connection = connect::open(database, None)?;
    // Before the file has its first page.
    let set = connection.pragma_update(None, "page_size", rung.page_bytes());
    set.map_err(Error::sqlite("set the rival's page size"))?;
    pragmas.set(&connection)?;
    if rung.by == Step::Mapped {
        let mapped = connection
            .pragma_update_and_check(None, "mmap_size", MAPPED_BYTES, |row| row.get::<_, i64>(0));
        let mapped = mapped.map_err(Error::sqlite("map the rival's database"))?;
        if mapped == 0 {
            return Err(Error::rung("SQL, memory-mapped", "SQLite maps no files here"));
        }
    }
    connection.execute_batch(TABLE).map_err(Error::sqlite("create the table"))?;
    Ok(connection)
}

/// Inserts row by row, each its own transaction, until the time is up.
fn insert_each(
    connection: &Connection,
    rung: LadderRung,
    records: &[Record],
    start: Instant,
) -> rusqlite::Result<u64> {
    let mut done = 0;
    let mut insert = connection.prepare(INSERT)?;
    for record in records {
        insert.execute(record.parameters())?;
        done += 1;
        if start.elapsed() >= rung.time_max() {
            break;
        }
    }
    Ok(done)
}

fn in_one_transaction(
    connection: &Connection,
    work: impl FnOnce() -> rusqlite::Result<u64>,
) -> rusqlite::Result<u64> {
    connection.execute_batch("BEGIN")?;
    let done = work()?;
    connection.execute_batch("COMMIT")?;
    Ok(done)
}

fn insert_all<'r>(
    records: &'r [Record],
    mut insert: impl FnMut(Parameters<'r>) -> rusqlite::Result<usize>,
) -> rusqlite::Result<u64> {
    for record in records {
        insert(record.parameters())?;
    }
    Ok(records.len() as u64)
}
