//! Calls of a writer, and what must hold of the database whatever happened.
//!
//! Each call has a number and writes rows that bear it, so that stock SQLite can tell
//! afterwards which calls are there as a whole, in part or not at all:
//!
//! 1. An acknowledged call is there as a whole.
//! 2. A refused call has left nothing.
//! 3. A call whose outcome is unknown is there as a whole or not at all.
//! 4. The database is sound.
//! 5. Every call is answered.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use leafpress::checkpoint::CheckpointLimits;
use leafpress::writer::{Ticket, Writer};
use leafpress::{Error, ErrorKind, Result};
use rusqlite::Connection;
use rusqlite::types::Value;

/// Nothing here takes a second; only a caller without an answer waits this long.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(120);

/// Outcome of a call for its caller.
#[derive(Debug)]
pub enum Outcome {
    Acknowledged,
    Refused(Error),
    Unknown,
}

impl Outcome {
    /// Closure that waits for the answer to a call.
    pub fn waiting<T: 'static>(ticket: Result<Ticket<T>>) -> Box<dyn FnOnce() -> Self + Send> {
        Box::new(move || Self::of(ticket))
    }

    fn of<T>(ticket: Result<Ticket<T>>) -> Self {
        let answer = ticket.and_then(|ticket| {
            let Ok(answer) = ticket.wait_timeout(ANSWER_WAIT_MAX) else {
                panic!("a call was never answered");
            };
            answer
        });
        match answer {
            Ok(_) => Self::Acknowledged,
            Err(error) if matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }) => Self::Unknown,
            Err(error) => Self::Refused(error),
        }
    }
}

/// Number of rows that a call of this number writes.
pub fn parts_of(number: i64) -> i64 {
    match number % 6 {
        0 | 5 => 1,
        1 | 2 => 2,
        3 => 3,
        _ => 0,
    }
}

/// Makes the table with stock SQLite. The row with number 0 is there for all time.
pub fn make_database(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA synchronous = OFF;
             CREATE TABLE t (number INTEGER, part INTEGER, filling BLOB, UNIQUE (number, part));
             INSERT INTO t VALUES (0, 0, NULL)",
        )
        .unwrap();
}

/// Limits that make the checkpointer work all the time.
pub fn busy_checkpoints() -> CheckpointLimits {
    let mut limits = CheckpointLimits::default();
    limits.slice_frames = 4;
    limits.wal_bytes_max = 256 << 10;
    limits.catch_up_bytes = 32 << 10;
    limits.pause_bytes = 1;
    limits.pause_before_pass = Duration::from_millis(1);
    limits.idle_before_truncate = Duration::from_millis(5);
    limits
}

const INSERT: &str = "INSERT INTO t VALUES (?1, ?2, zeroblob(?3))";

/// Starts a call without waiting for it; what is returned waits.
pub fn start(writer: &Writer, number: i64) -> Box<dyn FnOnce() -> Outcome + Send> {
    match number % 6 {
        0 => Outcome::waiting(writer.submit(INSERT, [number, 0, 10])),
        1 => Outcome::waiting(writer.submit_batch(format!(
            "INSERT INTO t VALUES ({number}, 0, 'one'); INSERT INTO t VALUES ({number}, 1, 'two')"
        ))),
        2 => Outcome::waiting(writer.submit_transaction(move |transaction| {
            transaction.execute(INSERT, [number, 0, 100])?;
            let sql = "SELECT count(*) FROM t WHERE number = ?1";
            let count = transaction.query_row(sql, [number], |row| row.get::<_, i64>(0))?;
            assert_eq!(count, Some(1), "a call sees what it wrote, and only once");
            transaction.execute(INSERT, [number, 1, 100])
        })),
        3 => {
            let rows = (0..3).map(|part| vec![Value::from(number), part.into(), Value::Null]);
            Outcome::waiting(writer.submit_insert_many("t", &["number", "part", "filling"], rows))
        }
        // Takes the whole group's transaction with it.
        4 => {
            Outcome::waiting(writer.submit("INSERT OR ROLLBACK INTO t VALUES (0, 0, ?1)", [number]))
        }
        _ => Outcome::waiting(writer.submit(INSERT, [number, 0, 20_000])),
    }
}

/// Number of rows of each call in the database.
pub fn rows(connection: &Connection) -> rusqlite::Result<BTreeMap<i64, i64>> {
    let mut statement = connection.prepare("SELECT number, count(*) FROM t GROUP BY number")?;
    statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// No call is there in part.
pub fn assert_whole(found: &BTreeMap<i64, i64>, context: &dyn std::fmt::Debug) {
    for (number, parts) in found.iter().filter(|(number, _)| **number != 0) {
        assert_eq!(*parts, parts_of(*number), "call {number}, {context:?}");
    }
}

/// Looks with stock SQLite whether the outcomes are true of the database.
pub fn judge(path: &Path, outcomes: &BTreeMap<i64, Outcome>, context: &dyn std::fmt::Debug) {
    let stock = Connection::open(path).unwrap();
    stock.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let check: String = stock.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(check, "ok", "{context:?}");
    let found = rows(&stock).unwrap();
    assert_whole(&found, context);
    assert_eq!(found.get(&0), Some(&1), "what was there before: {context:?}");
    for (number, outcome) in outcomes {
        match outcome {
            Outcome::Acknowledged => {
                assert!(found.contains_key(number), "call {number} is lost: {context:?}");
            }
            Outcome::Refused(error) => {
                assert!(
                    !found.contains_key(number),
                    "call {number} is there: {error}, {context:?}"
                );
            }
            Outcome::Unknown => {}
        }
    }
}
