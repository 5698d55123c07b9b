//! A workload of writers: concurrent callers, calls of all kinds, checkpointers that work all the
//! time.
//!
//! Must never: depend on the order in which threads meet. The rows say it: `seq` is the order of
//! commits.

use std::path::Path;
use std::time::{Duration, Instant};

use leafpress::checkpoint::CheckpointLimits;
use leafpress::writer::{Batch, Ticket, Writer};
use leafpress::{Error, Profile};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::{
    Digest, Effort, History, Log, Mark, Outcome, Promise, Random, Recording, Run, Simulator,
};

/// Callers, each a thread.
pub const CALLERS: u64 = 4;
/// Calls of each that succeed.
const CALLS: u64 = 20;
/// Between them all callers rest, until the checkpointer has cut the WAL.
pub const ROUNDS: u64 = 4;
/// The caller of rows that must never be seen.
const NO_CALLER: i64 = -1;

/// The first call of all makes the tables.
pub const SCHEMA: Mark = Mark { caller: CALLERS, number: 0 };

const INSERT: &str =
    "INSERT INTO event (caller, number, part, parts, payload) VALUES (?1, ?2, ?3, ?4, ?5)";
const COLUMNS: [&str; 5] = ["caller", "number", "part", "parts", "payload"];

/// The empty tables, made in one transaction.
pub fn schema() -> String {
    format!(
        "CREATE TABLE event (seq INTEGER PRIMARY KEY AUTOINCREMENT, caller INTEGER NOT NULL,
             number INTEGER NOT NULL, part INTEGER NOT NULL, parts INTEGER NOT NULL,
             payload BLOB NOT NULL, UNIQUE (caller, number, part));
         CREATE TABLE tally (caller INTEGER PRIMARY KEY, calls INTEGER NOT NULL);
         CREATE TRIGGER counted AFTER INSERT ON event WHEN new.part = 0 BEGIN
             UPDATE tally SET calls = calls + 1 WHERE caller = new.caller;
         END;
         WITH RECURSIVE callers (caller) AS
             (SELECT 0 UNION ALL SELECT caller + 1 FROM callers WHERE caller + 1 < {CALLERS})
         INSERT INTO tally SELECT caller, 0 FROM callers;"
    )
}

/// Limits so small that each rule of the checkpointer applies many times: a WAL
/// that fills up is caught up with, or each short pause is used to copy it.
pub fn limits(seed: u64, random: &mut Random) -> CheckpointLimits {
    let bytes = random.choose(&[8_000, 15_000, 30_000]);
    let pause = if seed % 2 == 1 { Duration::from_millis(50) } else { Duration::from_micros(500) };
    let mut limits = CheckpointLimits::default();
    limits.slice_frames = random.choose(&[1, 3, 10]);
    limits.wal_bytes_max = bytes * 2;
    limits.catch_up_bytes = bytes;
    limits.pause_bytes = bytes / 4;
    limits.pause_before_pass = pause;
    limits.idle_before_truncate = Duration::from_millis(2);
    limits.catch_up_wait_max = Duration::from_millis(2);
    limits
}

fn payload(random: &mut Random) -> Vec<u8> {
    vec![random.number() as u8; random.choose(&[0, 8, 30, 30, 300, 1500])]
}

/// The rows of one call.
fn rows(caller: u64, number: u64, random: &mut Random) -> Vec<Vec<Value>> {
    let parts = random.choose(&[1, 2, 3, 6]);
    let rows = (0..parts).map(|part| {
        let numbers = [caller as i64, number as i64, part, parts].map(Value::Integer);
        numbers.into_iter().chain([Value::Blob(payload(random))]).collect()
    });
    rows.collect()
}

/// One call, whose answer is waited for or put off.
fn call(writer: &Writer, caller: u64, number: u64, random: &mut Random) -> Option<Ticket<()>> {
    let rows = rows(caller, number, random);
    match random.below(4) {
        0 => {
            let mut row = rows.into_iter().next().unwrap();
            row[3] = Value::Integer(1);
            writer.execute(INSERT, row).unwrap();
        }
        1 => {
            let batch =
                rows.into_iter().try_fold(Batch::new(), |batch, row| batch.statement(INSERT, row));
            return Some(writer.submit_batch(batch.unwrap()).unwrap());
        }
        2 => {
            let count = rows.len() as i64;
            let seen = writer.transaction(move |transaction| {
                for row in &rows {
                    transaction.execute(INSERT, row.clone())?;
                }
                let sql = "SELECT count(*) FROM event WHERE caller = ?1 AND number = ?2";
                transaction.query_row(sql, [caller as i64, number as i64], |row| row.get(0))
            });
            assert_eq!(seen.unwrap(), Some(count));
        }
        _ => {
            let count = rows.len() as u64;
            assert_eq!(writer.insert_many("event", &COLUMNS, rows).unwrap(), count);
        }
    }
    None
}

/// A call that must fail and leave nothing, though it writes at first.
fn failing_call(writer: &Writer, number: u64, random: &mut Random) {
    let row = move |part: i64| {
        let numbers = [NO_CALLER, number as i64, part, 2].map(Value::Integer);
        numbers.into_iter().chain([Value::Blob(vec![0; 100])]).collect::<Vec<_>>()
    };
    let failed = match random.below(3) {
        0 => {
            let rollback = INSERT.replacen("INSERT", "INSERT OR ROLLBACK", 1);
            let batch = Batch::new().statement(INSERT, row(0)).unwrap();
            writer.execute_batch(batch.statement(rollback, row(0)).unwrap())
        }
        1 => writer.insert_many("event", &COLUMNS, [row(0), row(1), row(1)]).map(drop),
        _ => writer.transaction(move |transaction| {
            transaction.execute(INSERT, row(0))?;
            Err::<(), _>(Error::aborted("changed my mind"))
        }),
    };
    failed.unwrap_err();
}

/// One caller's calls of a round; what is answered is acknowledged in the log.
///
/// # Panics
/// If a call is answered otherwise than it must be.
fn work(writer: &Writer, caller: u64, [seed, round]: [u64; 2], log: &Log) {
    let random = &mut Random::of(&[seed, 2, caller, round]);
    let mut put_off = Vec::new();
    let wait = |put_off: &mut Vec<(u64, Ticket<()>)>| {
        for (number, ticket) in put_off.drain(..) {
            ticket.wait().unwrap();
            log.acknowledged(caller, number);
        }
    };
    let calls = CALLS / ROUNDS;
    for number in round * calls..(round + 1) * calls {
        match call(writer, caller, number, random) {
            Some(ticket) => put_off.push((number, ticket)),
            None => log.acknowledged(caller, number),
        }
        match random.below(12) {
            0..=3 => wait(&mut put_off),
            4 => failing_call(writer, number * CALLERS + caller, random),
            5 => std::thread::sleep(Duration::from_millis(4)),
            6 => {
                let reader = writer.reader().unwrap();
                let sql = "SELECT count(*) FROM event WHERE caller = ?1";
                let failed: i64 = reader.query_row(sql, [NO_CALLER], |row| row.get(0)).unwrap();
                assert_eq!(failed, 0);
            }
            _ => {}
        }
    }
    wait(&mut put_off);
}

/// All callers make their calls of one round, divided among the writers; then all rest.
///
/// # Panics
/// If the checkpointers do not cut the WAL within a minute.
pub fn work_and_rest(writers: &[Writer], [seed, round]: [u64; 2], log: &Log) {
    // One of several writers makes the checkpoints of all; when it leaves, its count goes with it.
    let before = truncations(writers).unwrap_or_default();
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let writer = &writers[caller as usize % writers.len()];
            scope.spawn(move || work(writer, caller, [seed, round], log));
        }
    });
    rest(writers, before);
}

/// Crashes what was recorded, and judges it by the rows that are at `path` in the end.
///
/// # Panics
/// If a call is not there.
pub fn simulate(
    simulator: &mut Simulator,
    (profile, path): (Profile, &Path),
    recording: &Recording,
    (seed, effort): (u64, Effort),
    [power_cut, killed]: [Promise; 2],
) -> Outcome {
    let history = history(path);
    assert_eq!(history.len() as u64, 1 + CALLERS * CALLS, "all calls are there in the end");
    let run = Run {
        name: profile.name(),
        seed,
        recording,
        history: &history,
        database: "a.db",
        begins_absent: true,
        content,
        power_cut,
        killed,
    };
    simulator.simulate(&run, effort)
}

/// Number of times that the checkpointers of these writers have cut the WAL; `None` if they have none.
fn truncations(writers: &[Writer]) -> Option<u64> {
    let of = |writer: &Writer| writer.stats().checkpoints.map(|stats| stats.truncations);
    writers.iter().map(of).sum()
}

/// Waits until the checkpointers have cut the WAL more often than `before`, if there are any.
///
/// # Panics
/// If they do not within a minute.
fn rest(writers: &[Writer], before: u64) {
    let began = Instant::now();
    while truncations(writers).is_some_and(|now| now <= before) {
        assert!(began.elapsed() < Duration::from_secs(60), "an idle WAL was never cut");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reads all rows.
///
/// # Errors
/// As SQLite says.
fn content(connection: &Connection) -> rusqlite::Result<Digest> {
    let mut digest = Digest::new();
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'event'";
    if connection.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(digest);
    }
    let sql = "SELECT seq, caller, number, part, parts, payload FROM event ORDER BY seq";
    digest.query(connection, sql)?;
    digest.query(connection, "SELECT caller, calls FROM tally ORDER BY caller")?;
    Ok(digest)
}

/// The states in the order of commits, from the rows that are there in the end:
/// the rows of a call stand together, complete.
///
/// # Panics
/// If a call is not whole.
fn history(path: &Path) -> History {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT seq, caller, number, part, parts, payload FROM event ORDER BY seq";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| {
        (0..6).map(|column| row.get(column)).collect::<rusqlite::Result<Vec<Value>>>()
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    let number = |value: &Value| match value {
        Value::Integer(integer) => *integer,
        other => panic!("{other:?} is no integer"),
    };
    let mut calls = [0; CALLERS as usize];
    let with_tally = |rows: &Digest, calls: &[i64]| {
        let mut whole = rows.clone();
        for (calls, caller) in calls.iter().zip(0..) {
            whole.row(&[Value::Integer(caller), Value::Integer(*calls)]);
        }
        whole
    };
    let mut so_far = Digest::new();
    let mut history = History::new(&Digest::new());
    history.committed(SCHEMA, &with_tally(&so_far, &calls));
    for call in rows.chunk_by(|one, other| one[1..3] == other[1..3]) {
        let [caller, its_number, parts] = [1, 2, 4].map(|column| number(&call[0][column]));
        assert_eq!(call.len() as i64, parts, "call {its_number} of {caller} is not whole");
        for row in call {
            so_far.row(row);
        }
        calls[usize::try_from(caller).expect("a failed call left rows")] += 1;
        let mark = Mark { caller: caller as u64, number: its_number as u64 };
        history.committed(mark, &with_tally(&so_far, &calls));
    }
    history
}
