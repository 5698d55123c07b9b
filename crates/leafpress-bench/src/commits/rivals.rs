//! A call without Leafpress: one commit per call, a mutex around the
//! connection, groups behind a channel, or all rows in one transaction.
//!
//! Each is as good as it gets: statements are prepared once, values are bound by
//! position, nothing is allocated for a call unless another thread must own it,
//! and the pragmas are those of the profile.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use leafpress::vfs::sync::lock;
use rusqlite::{Connection, Statement, params};

use super::call::Call;
use super::calls::{Called, Caller, Progress, run_caller, run_callers};
use super::rung::{CommitRung, Committer, Scene};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;

/// SQLite's own limit for the WAL, at which a COMMIT makes a checkpoint.
const AUTOCHECKPOINT_PAGES: u32 = 1000;

/// Calls that wait in the channel of a group at most.
const CHANNEL_CALLS_MAX: usize = 8192;

/// Opens the rung's new database under its profile and makes the table.
pub(super) fn open(rung: &CommitRung, database: &Path, vfs: Option<&str>) -> Result<Connection> {
    let connection = connect::open(database, vfs)?;
    Pragmas::of(rung.safety).set(&connection)?;
    // One transaction is at its best when it moves no page from the WAL.
    let is_without = rung.scene == Scene::NoCheckpoints || rung.by == Committer::OneTransaction;
    let pages = if is_without { 0 } else { AUTOCHECKPOINT_PAGES };
    let schema = rung.table.schema();
    let set_up = format!("PRAGMA wal_autocheckpoint = {pages}; PRAGMA foreign_keys = ON; {schema}");
    connection.execute_batch(&set_up).map_err(Error::sqlite("set up the rival's database"))?;
    Ok(connection)
}

/// Makes all calls of the rung on this connection, which is then given back.
pub(super) fn run(
    rung: &CommitRung,
    connection: Connection,
    progress: &Progress,
) -> Result<(Called, Connection)> {
    match rung.by {
        Committer::PerCall => {
            let statement = prepare(&connection, rung.table.insert())?;
            let called = run_caller(rung, PerCall { statement }, progress)?;
            Ok((called, connection))
        }
        Committer::Mutex => {
            let insert = rung.table.insert();
            let connection = Mutex::new(connection);
            let callers =
                (0..rung.calls.callers()).map(|_| Locked { connection: &connection, insert });
            let called = run_callers(rung, callers.collect(), progress)?;
            Ok((called, connection.into_inner().unwrap_or_else(PoisonError::into_inner)))
        }
        Committer::BareGroups | Committer::SavepointGroups => {
            run_groups(rung, connection, progress)
        }
        Committer::OneTransaction => {
            let called = one_transaction(rung, &connection)?;
            Ok((called, connection))
        }
        Committer::Leafpress => Err(Error::wrong_rival(rung.name())),
    }
}

fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<Statement<'c>> {
    connection.prepare(sql).map_err(Error::sqlite("prepare the rival's statement"))
}

fn insert(statement: &mut Statement<'_>, call: &Call) -> rusqlite::Result<usize> {
    statement.execute(params![call.caller, call.n as i64, call.text()])
}

/// One connection, one caller, one commit per call.
struct PerCall<'c> {
    statement: Statement<'c>,
}

impl Caller for PerCall<'_> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        insert(&mut self.statement, call).map_err(Error::sqlite("commit the rival's row"))?;
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<()> {
        Ok(())
    }
}

/// One of many callers that share a connection.
struct Locked<'m> {
    connection: &'m Mutex<Connection>,
    insert: &'static str,
}

impl Caller for Locked<'_> {
    fn begin(&mut self, call: &Call) -> Result<()> {
        let connection = lock(self.connection);
        let mut statement = connection
            .prepare_cached(self.insert)
            .map_err(Error::sqlite("prepare the rival's statement"))?;
        insert(&mut statement, call).map_err(Error::sqlite("commit the rival's row"))?;
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The rows as one transaction. Only the whole is acknowledged, so no call has a
/// latency of its own.
fn one_transaction(rung: &CommitRung, connection: &Connection) -> Result<Called> {
    let mut statement = prepare(connection, rung.table.insert())?;
    let start = Instant::now();
    let mut work = || -> rusqlite::Result<()> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for n in 0..rung.rows {
            insert(&mut statement, &Call::new(0, n))?;
        }
        connection.execute_batch("COMMIT")
    };
    work().map_err(Error::sqlite("commit the rival's transaction"))?;
    Ok(Called { calls: rung.rows, wall: start.elapsed(), ..Called::default() })
}

/// One of the callers of a group: its calls go to the thread that commits, the
/// answers come back in order.
struct ToGroups {
    calls: SyncSender<Call>,
    /// True for a call that was done.
    answers: Receiver<bool>,
}

fn group_is_gone() -> Error {
    Error::rung("groups", "the thread that commits ended")
}

impl Caller for ToGroups {
    fn begin(&mut self, call: &Call) -> Result<()> {
        self.calls.send(*call).map_err(|_| group_is_gone())
    }

    fn finish_oldest(&mut self) -> Result<()> {
        match self.answers.recv() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::rung("groups", "a call was refused")),
            Err(_) => Err(group_is_gone()),
        }
    }
}

fn run_groups(
    rung: &CommitRung,
    connection: Connection,
    progress: &Progress,
) -> Result<(Called, Connection)> {
    let (send, calls) = sync_channel(CHANNEL_CALLS_MAX);
    let (senders, callers): (Vec<_>, Vec<_>) = (0..rung.calls.callers())
        .map(|_| {
            let (answer, answers) = channel();
            (answer, ToGroups { calls: send.clone(), answers })
        })
        .unzip();
    // The thread ends when no caller is left who could send.
    drop(send);
    let has_savepoints = rung.by == Committer::SavepointGroups;
    let insert = rung.table.insert();
    let committing = thread::spawn(move || {
        commit_groups(&connection, insert, &calls, &senders, has_savepoints)?;
        Ok(connection)
    });
    let called = run_callers(rung, callers, progress);
    let committed = committing.join().unwrap_or_else(|_| Err(group_is_gone()));
    // Why the thread ended says more than that it did.
    let connection = committed?;
    Ok((called?, connection))
}

/// Commits all calls that wait as one transaction, again and again until every caller is gone.
fn commit_groups(
    connection: &Connection,
    insert: &str,
    calls: &Receiver<Call>,
    answers: &[Sender<bool>],
    has_savepoints: bool,
) -> Result<()> {
    let mut group: Vec<(Call, bool)> = Vec::with_capacity(CHANNEL_CALLS_MAX);
    let mut statements = GroupStatements {
        begin: prepare(connection, "BEGIN IMMEDIATE")?,
        insert: prepare(connection, insert)?,
        commit: prepare(connection, "COMMIT")?,
        savepoint: prepare(connection, "SAVEPOINT call")?,
        release: prepare(connection, "RELEASE call")?,
        undo: prepare(connection, "ROLLBACK TO call")?,
    };
    while let Ok(first) = calls.recv() {
        group.clear();
        group.push((first, true));
        let room = CHANNEL_CALLS_MAX - 1;
        group.extend(calls.try_iter().take(room).map(|call| (call, true)));
        statements
            .commit_group(&mut group, has_savepoints)
            .map_err(Error::sqlite("commit the rival's group"))?;
        for (call, is_done) in &group {
            // A caller that is gone wants no answer.
            let _ = answers.get(call.caller as usize).map(|answer| answer.send(*is_done));
        }
    }
    Ok(())
}

struct GroupStatements<'c> {
    begin: Statement<'c>,
    insert: Statement<'c>,
    commit: Statement<'c>,
    savepoint: Statement<'c>,
    release: Statement<'c>,
    undo: Statement<'c>,
}

impl GroupStatements<'_> {
    fn commit_group(
        &mut self,
        group: &mut [(Call, bool)],
        has_savepoints: bool,
    ) -> rusqlite::Result<()> {
        self.begin.execute([])?;
        for (call, is_done) in group {
            if !has_savepoints {
                insert(&mut self.insert, call)?;
                continue;
            }
            self.savepoint.execute([])?;
            if insert(&mut self.insert, call).is_err() {
                *is_done = false;
                self.undo.execute([])?;
            }
            self.release.execute([])?;
        }
        self.commit.execute([])?;
        Ok(())
    }
}
