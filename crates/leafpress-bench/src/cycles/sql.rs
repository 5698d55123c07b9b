//! SQLite's rungs: statements prepared once, a transaction as large as the rung says.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, Statement};

use super::record::Record;
use super::rung::{Cycler, CyclesRung, DELETE, INSERT, INSERTS, Span, TABLE, text_of};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;
use crate::rung::result::RungResult;

/// Does the rung's work and measures it.
pub(super) fn run(rung: CyclesRung, pragmas: Pragmas, database: &Path) -> Result<RungResult> {
    let connection = open(rung, pragmas, database)?;
    let mut record = Record::begin(rung, database);
    cycle_all(&connection, rung, &mut record).map_err(Error::sqlite("carry out a cycle"))?;
    if rung.has_log() {
        record.look_at_log();
    }
    connect::close(connection)?;
    Ok(record.end())
}

fn open(rung: CyclesRung, pragmas: Pragmas, database: &Path) -> Result<Connection> {
    let connection = connect::open(database, None)?;
    pragmas.set(&connection)?;
    let limit = if let Cycler::SqlUnchecked(_) = rung.by {
        "PRAGMA wal_autocheckpoint = 0;"
    } else {
        // SQLite's own 1,000 pages.
        ""
    };
    let set_up = format!("{limit} {TABLE}");
    connection.execute_batch(&set_up).map_err(Error::sqlite("create the table"))?;
    Ok(connection)
}

fn cycle_all(
    connection: &Connection,
    rung: CyclesRung,
    record: &mut Record,
) -> rusqlite::Result<()> {
    let span = rung.by.span();
    let mut insert = connection.prepare(INSERT)?;
    let mut delete = connection.prepare(DELETE)?;
    if span == Span::Everything {
        connection.execute_batch("BEGIN")?;
    }
    for number in 0..rung.cycles {
        let began = Instant::now();
        if span == Span::Cycle {
            connection.execute_batch("BEGIN IMMEDIATE")?;
        }
        cycle(number, &mut insert, &mut delete)?;
        if span == Span::Cycle {
            connection.execute_batch("COMMIT")?;
        }
        record.cycle(began);
        if record.is_out_of_patience() {
            break;
        }
    }
    if span == Span::Everything {
        connection.execute_batch("COMMIT")?;
    }
    Ok(())
}

fn cycle(
    number: u32,
    insert: &mut Statement<'_>,
    delete: &mut Statement<'_>,
) -> rusqlite::Result<()> {
    for index in 0..INSERTS {
        insert.execute([text_of(number, index)])?;
    }
    delete.execute([])?;
    for index in INSERTS..2 * INSERTS {
        insert.execute([text_of(number, index)])?;
    }
    Ok(())
}
