//! SQLite's rungs: each step of the ladder as its users write it.
//!
//! Must never: be slower than its users' own code. The statement that is compiled each
//! time is so because that is the step.

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use super::pragmas::Pragmas;
use super::records::{Parameters, Record};
use super::{INSERT, LadderRung, Step, TABLE, timed};
use crate::error::{Error, Result};
use crate::rung::RungResult;

/// What is mapped of the file at most, where it is.
const MAPPED_BYTES: i64 = 256 << 20;

/// Does the rung's work and measures it.
pub(super) fn run(
    rung: LadderRung,
    pragmas: Pragmas,
    records: &[Record],
    database: &Path,
) -> Result<RungResult> {
    let connection = open(rung, pragmas, database)?;
    timed(rung.rows, |start| {
        let done = match rung.by {
            Step::EachRow(_) => insert_each(&connection, rung, records, start),
            Step::Compiled(_) => in_one_transaction(&connection, || {
                insert_all(records, |row| connection.execute(INSERT, row))
            }),
            _ => in_one_transaction(&connection, || {
                let mut insert = connection.prepare(INSERT)?;
                insert_all(records, |row| insert.execute(row))
            }),
        };
        let done = done.map_err(Error::sqlite("insert the rows"))?;
        connection.close().map_err(|(_, error)| Error::sqlite("close the database")(error))?;
        Ok(done)
    })
}

/// A new database with the table.
fn open(rung: LadderRung, pragmas: Pragmas, database: &Path) -> Result<Connection> {
    let failed = Error::sqlite("open the rival's database");
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open(database)?;
        // Before the file has its first page.
        connection.pragma_update(None, "page_size", rung.page_bytes())?;
        Ok(connection)
    };
    let connection = open().map_err(failed)?;
    pragmas.set(&connection)?;
    if rung.by == Step::Mapped {
        let mapped = connection
            .pragma_update_and_check(None, "mmap_size", MAPPED_BYTES, |row| row.get::<_, i64>(0));
        let mapped = mapped.map_err(Error::sqlite("map the rival's database"))?;
        if mapped == 0 {
            let name = "SQL, memory-mapped".to_owned();
            return Err(Error::Rung { name, reason: "SQLite maps no files here".to_owned() });
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
    for record in records {
        connection.execute(INSERT, record.parameters())?;
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
