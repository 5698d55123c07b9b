//! The work of a thread of our copy: calls of one shared `Writer`, Writers that come and
//! go, plain connections, and the functions of `leafpress` that look at a database.
//!
//! In the control all of it is plain connections. Must never: call the second copy, or open
//! the database past SQLite (`std::fs::read`): closing it drops the second copy's locks,
//! which is that copy's own trap and nothing that our copy could prevent.

use std::time::Duration;

use leafpress::load::Loader;
use leafpress::profile::open_reader;
use leafpress::verify::{VerifyOptions, verify};
use leafpress::writer::{Batch, Writer};
use leafpress::{Error, ErrorKind};
use leafpress_testing::crash::Random;
use rusqlite::{Connection, ErrorCode};

use super::child::{Attempt, Shared, commit, parts_of, rows_of, transaction_of};

const BUSY: Duration = Duration::from_millis(300);

pub(super) fn open_writer(shared: &Shared<'_>) -> Writer {
    let opened = Writer::builder(shared.path)
        .profile(shared.load.profile)
        .busy_limit(shared.patience)
        .open();
    opened.unwrap_or_else(|error| panic!("the shared writer: {error}"))
}

pub(super) fn work(shared: &Shared<'_>, writer: Option<&Writer>, random: &mut Random) {
    let mut plain = None;
    let mut last_id = None;
    while let Some(id) = shared.next_id() {
        let is_there = match (writer, random.below(20)) {
            (Some(writer), 0..12) => {
                let how = random.below(4);
                commit(shared, id, || answer(call(writer, id, how)))
            }
            (Some(_), 12..15) => commit(shared, id, || answer(by_own_writer(shared, id))),
            _ => {
                if random.percent(30) {
                    plain = None;
                }
                commit(shared, id, || by_plain_connection(shared, id, &mut plain, random))
            }
        };
        // In a large database these read for long.
        let looks_percent = if id < shared.load.first_id + 2_000 { 5 } else { 0 };
        let looks = random.percent(looks_percent) || random.below(2_000) == 0;
        if writer.is_some() && looks {
            look_around(shared, random);
        }
        if let Some(last_id) = last_id {
            look_at(shared, writer, plain.as_ref(), last_id);
        }
        last_id = is_there.then_some(id);
    }
}

/// Busy is no failure here; all else is.
fn answer(outcome: leafpress::Result<()>) -> Result<Attempt, Error> {
    match outcome {
        Ok(()) => Ok(Attempt::Acknowledged),
        Err(error) if is_busy(&error) => Ok(Attempt::Busy),
        Err(error) => Err(error),
    }
}

fn is_busy(error: &Error) -> bool {
    if matches!(error.kind(), ErrorKind::Busy { .. }) {
        return true;
    }
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.downcast_ref::<rusqlite::Error>().is_some_and(is_sqlite_busy) {
            return true;
        }
        source = error.source();
    }
    false
}

fn is_sqlite_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// A call of a writer, in one of four ways.
fn call(writer: &Writer, id: i64, how: usize) -> leafpress::Result<()> {
    let statements = transaction_of(id);
    match (how, &statements[..]) {
        (0, [statement]) => writer.execute(statement, ()).map(drop),
        (0 | 1, _) => writer.execute_batch(statements.join(";")),
        (2, _) => {
            let batch = statements
                .iter()
                .try_fold(Batch::new(), |batch, statement| batch.statement(statement, ()))?;
            writer.submit_batch(batch)?.wait()
        }
        _ => writer.transaction(move |transaction| {
            statements.iter().try_for_each(|statement| transaction.execute(statement, ()).map(drop))
        }),
    }
}

fn by_own_writer(shared: &Shared<'_>, id: i64) -> leafpress::Result<()> {
    let writer =
        Writer::builder(shared.path).profile(shared.load.profile).busy_limit(BUSY).open()?;
    let outcome = call(&writer, id, 0);
    writer.close()?;
    outcome
}

fn by_plain_connection(
    shared: &Shared<'_>,
    id: i64,
    kept: &mut Option<Connection>,
    random: &mut Random,
) -> rusqlite::Result<Attempt> {
    let outcome = (|| {
        let connection = match kept.take() {
            Some(connection) => connection,
            None => Connection::open(shared.path)?,
        };
        connection.busy_timeout(BUSY)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for statement in transaction_of(id) {
            connection.execute_batch(&statement)?;
            if random.percent(10) {
                std::thread::sleep(Duration::from_micros(random.below(2_000) as u64));
            }
        }
        // One that stays busy is rolled back, as the connection is closed.
        connection.execute_batch("COMMIT")?;
        *kept = Some(connection);
        Ok(Attempt::Acknowledged)
    })();
    outcome.or_else(|error| if is_sqlite_busy(&error) { Ok(Attempt::Busy) } else { Err(error) })
}

/// Functions that look at a database which others write meanwhile. They may answer
/// that it was written meanwhile; damage is none of their answers.
fn look_around(shared: &Shared<'_>, random: &mut Random) {
    let path = shared.path;
    let looked = match random.below(3) {
        0 => verify(path, &VerifyOptions::default()).map(|report| {
            if !report.sound {
                shared.broken(report.problems);
            }
        }),
        1 => Loader::new(path.with_file_name("never-made.db")).dry_run_file(path).map(drop),
        _ => open_reader(path, None).map(drop),
    };
    if let Err(error) = looked {
        let text = error.to_string();
        if text.contains("malformed") || text.contains("not a database") {
            shared.broken(text);
        }
    }
}

/// Rule 4.
fn look_at(shared: &Shared<'_>, writer: Option<&Writer>, plain: Option<&Connection>, id: i64) {
    let count = |connection: &Connection| {
        connection.query_row(&rows_of(id), [], |row| row.get::<_, i64>(0))
    };
    let answer = match (plain, writer) {
        (Some(connection), _) => count(connection),
        (None, Some(writer)) if id % 4 == 0 => match writer.reader() {
            Ok(reader) => count(&reader),
            Err(error) if is_busy(&error) => return,
            Err(error) => return shared.broken(error),
        },
        _ => return,
    };
    match answer {
        Ok(rows) if rows == parts_of(id) => {}
        Err(error) if is_sqlite_busy(&error) => {}
        answer => shared.broken(("our copy looks for its transaction", id, answer)),
    }
}
