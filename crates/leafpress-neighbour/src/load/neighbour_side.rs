//! The work of a thread of the second copy: connections that come and go, transactions
//! that are held open a little, readers, checkpoints.
//!
//! Must never: call our copy.

use std::time::Duration;

use leafpress_testing::crash::Random;

use super::child::{Attempt, Shared, commit, parts_of, rows_of, transaction_of};
use crate::{Connection, Error, Neighbour};

/// Short, so that a thread gives up and closes its connection at times.
const BUSY: Duration = Duration::from_millis(300);

pub(super) fn work(shared: &Shared<'_>, random: &mut Random) {
    let mut connection = None;
    let mut last_id = None;
    while let Some(id) = shared.next_id() {
        if random.percent(20) {
            connection = None;
        }
        if let Err(error) = pass_by(shared, random) {
            shared.broken(error);
        }
        let is_there = commit(shared, id, || {
            let kept = connection.take();
            let (attempt, kept) = attempt(shared, id, kept, random)?;
            connection = kept;
            Ok::<_, Error>(attempt)
        });
        if let (Some(last_id), Some(connection)) = (last_id, &connection) {
            look_at(shared, connection, last_id);
        }
        last_id = is_there.then_some(id);
    }
}

fn open(shared: &Shared<'_>) -> Result<Connection, Error> {
    Neighbour::load().open(shared.path, BUSY)
}

/// Opens a connection that mostly does not sync: that is for power cuts, and without it locks
/// change hands more often.
fn open_to_write(shared: &Shared<'_>, random: &mut Random) -> Result<Connection, Error> {
    let connection = open(shared)?;
    if random.percent(75) {
        match connection.execute("PRAGMA synchronous = OFF") {
            // It goes on with syncs then.
            Err(error) if !error.is_busy() => return Err(error),
            _ => {}
        }
    }
    Ok(connection)
}

/// Connects and closes, with or without a statement, as a program does that only wants
/// to know something.
fn pass_by(shared: &Shared<'_>, random: &mut Random) -> Result<(), Error> {
    let sql = match random.below(20) {
        0 => {
            drop(open(shared)?);
            return Ok(());
        }
        1 => "SELECT count(*) FROM entry WHERE part = 2",
        2 => "BEGIN; SELECT max(id) FROM entry; COMMIT",
        3 => "PRAGMA wal_checkpoint(TRUNCATE)",
        4 => "PRAGMA wal_checkpoint",
        _ => return Ok(()),
    };
    match open(shared)?.execute(sql) {
        Err(error) if !error.is_busy() => Err(error),
        _ => Ok(()),
    }
}

/// One attempt at a transaction; an open connection is handed back, unless it failed.
fn attempt(
    shared: &Shared<'_>,
    id: i64,
    kept: Option<Connection>,
    random: &mut Random,
) -> Result<(Attempt, Option<Connection>), Error> {
    let connection = match kept {
        Some(connection) => connection,
        None => open_to_write(shared, random)?,
    };
    let statements = transaction_of(id);
    let outcome = match &statements[..] {
        // A statement alone commits by itself.
        [statement] if random.percent(50) => connection.execute(statement),
        _ => transaction(&connection, &statements, random),
    };
    match outcome {
        Ok(()) => Ok((Attempt::Acknowledged, Some(connection))),
        // A connection whose transaction is open rolls it back as it is closed.
        Err(error) if error.is_busy() => {
            Ok((Attempt::Busy, Some(connection).filter(|it| !it.in_transaction())))
        }
        Err(error) => Err(error),
    }
}

fn transaction(
    connection: &Connection,
    statements: &[String],
    random: &mut Random,
) -> Result<(), Error> {
    connection.execute("BEGIN IMMEDIATE")?;
    for statement in statements {
        connection.execute(statement)?;
        if random.percent(10) {
            std::thread::sleep(Duration::from_micros(random.below(2_000) as u64));
        }
    }
    // Readers keep a commit away under a rollback journal.
    for _ in 0..20 {
        match connection.execute("COMMIT") {
            Err(error) if error.is_busy() => {}
            outcome => return outcome,
        }
    }
    connection.execute("ROLLBACK")?;
    Err(Error { code: libsqlite3_sys::SQLITE_BUSY })
}

/// Rule 4.
fn look_at(shared: &Shared<'_>, connection: &Connection, id: i64) {
    match connection.query_i64(&rows_of(id)) {
        Ok(rows) if rows == parts_of(id) => {}
        Err(error) if error.is_busy() => {}
        answer => shared.broken(("the neighbour looks for its transaction", id, answer)),
    }
}
