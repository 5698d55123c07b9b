//! A queue as people write it by hand on SQLite: a table, a partial index over the jobs
//! that are ready, and one transaction for each operation, begun with BEGIN IMMEDIATE so
//! that a claim and its update cannot part.
//!
//! As good as it gets: statements are prepared once, and the index holds nothing but ready
//! jobs. A claim reads as many rows as it needs instead of `LIMIT ?`: SQLite looks at a bound
//! limit as it compiles, so that each new one has the statement compiled again. It has one queue and
//! no groups, keys, retries, statistics, or anything that wakes a consumer.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafpress::vfs::sync::lock;
use rusqlite::{CachedStatement, Connection, params};

use super::clients::Client;
use super::jobs::{FILLER, JobNumber, Tally};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;
use crate::report::Safety;

/// The table, and the index that a claim reads.
pub(super) const TABLE: &str = "CREATE TABLE job(id INTEGER PRIMARY KEY AUTOINCREMENT, \
     state INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0, \
     due_at_ms INTEGER NOT NULL, payload BLOB NOT NULL); \
     CREATE INDEX job_ready ON job(priority DESC, id) WHERE state = 0";

/// Statement of a push: due time, payload.
pub(super) const PUSH: &str = "INSERT INTO job(due_at_ms, payload) VALUES (?1, ?2)";

const FIND: &str = "SELECT id, payload FROM job WHERE state = 0 AND due_at_ms <= ?1 \
     ORDER BY priority DESC, id";
const LEASE: &str = "UPDATE job SET state = 1, due_at_ms = ?2 WHERE id = ?1";
const ACKNOWLEDGE: &str = "DELETE FROM job WHERE id = ?1 AND state = 1 AND due_at_ms > ?2";

/// Longest wait of a connection for another one's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

const LEASE_MS: i64 = 30_000;

/// Milliseconds since the Unix epoch.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Makes a new database with the table, under the pragmas of a profile.
pub(super) fn create(database: &Path, safety: Safety, vfs: Option<&str>) -> Result<Connection> {
    let connection = open(database, safety, vfs)?;
    connection.execute_batch(TABLE).map_err(Error::sqlite("make the rival's table"))?;
    Ok(connection)
}

/// Opens it with these pragmas; there may be many such connections.
pub(super) fn open(database: &Path, safety: Safety, vfs: Option<&str>) -> Result<Connection> {
    let connection = connect::open(database, vfs)?;
    let set = connection.busy_timeout(BUSY_TIMEOUT);
    set.map_err(Error::sqlite("set the rival's busy timeout"))?;
    Pragmas::of(safety).set(&connection)?;
    Ok(connection)
}

/// Puts this many jobs in, in one transaction.
pub(super) fn fill(connection: &Connection, jobs: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut work = || -> rusqlite::Result<()> {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut push = connection.prepare_cached(PUSH)?;
        for n in 0..jobs {
            let job = JobNumber::of(FILLER, n);
            push.execute(params![now_ms(), job.payload()])?;
            tally.add(job);
        }
        connection.execute_batch("COMMIT")
    };
    work().map_err(Error::sqlite("fill the rival's queue"))?;
    Ok(tally)
}

/// A job that was claimed: its id.
type Leased = i64;

/// Pushes jobs in one transaction.
pub(super) fn push(connection: &Connection, jobs: &[JobNumber]) -> rusqlite::Result<()> {
    in_transaction(connection, || {
        let mut push = connection.prepare_cached(PUSH)?;
        jobs.iter().try_for_each(|job| push.execute(params![now_ms(), job.payload()]).map(|_| ()))
    })
}

/// Claims up to `jobs_max` jobs in one transaction.
pub(super) fn claim(
    connection: &Connection,
    jobs_max: usize,
    claimed: &mut Vec<JobNumber>,
    leased: &mut Vec<Leased>,
) -> rusqlite::Result<()> {
    leased.clear();
    in_transaction(connection, || {
        let mut find = connection.prepare_cached(FIND)?;
        let now_ms = now_ms();
        let mut rows = find.query([now_ms])?;
        while leased.len() < jobs_max
            && let Some(row) = rows.next()?
        {
            leased.push(row.get(0)?);
            claimed.extend(JobNumber::from_payload(row.get_ref(1)?.as_blob()?));
        }
        // A statement that reads may not stand among the rows that are changed.
        drop(rows);
        let mut lease = connection.prepare_cached(LEASE)?;
        leased.iter().try_for_each(|id| lease.execute([*id, now_ms + LEASE_MS]).map(|_| ()))
    })
}

/// Acknowledges in one transaction what was claimed; `false` if a lease was over.
pub(super) fn acknowledge(connection: &Connection, leased: &[Leased]) -> rusqlite::Result<bool> {
    in_transaction(connection, || {
        let mut acknowledge = connection.prepare_cached(ACKNOWLEDGE)?;
        let now_ms = now_ms();
        let mut is_whole = true;
        for id in leased {
            is_whole &= acknowledge.execute([*id, now_ms])? == 1;
        }
        Ok(is_whole)
    })
}

fn in_transaction<T>(
    connection: &Connection,
    work: impl FnOnce() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let step = |mut statement: CachedStatement<'_>| statement.execute([]).map(|_| ());
    step(connection.prepare_cached("BEGIN IMMEDIATE")?)?;
    let done = work()?;
    step(connection.prepare_cached("COMMIT")?)?;
    Ok(done)
}

/// Connection of a client.
pub(super) enum Access {
    /// One of its own.
    Own(Connection),
    /// One that all share.
    Shared(Arc<Mutex<Connection>>),
}

/// A client of the table.
pub(super) struct SqlClient {
    access: Access,
    leased: Vec<Leased>,
}

impl SqlClient {
    /// A client with this connection.
    pub(super) fn new(access: Access) -> Self {
        Self { access, leased: Vec::new() }
    }
}

/// The connection, for as long as it is held.
enum Held<'c> {
    Own(&'c Connection),
    Shared(MutexGuard<'c, Connection>),
}

impl std::ops::Deref for Held<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match self {
            Self::Own(connection) => connection,
            Self::Shared(connection) => connection,
        }
    }
}

impl Access {
    fn hold(&self) -> Held<'_> {
        match self {
            Self::Own(connection) => Held::Own(connection),
            Self::Shared(connection) => Held::Shared(lock(connection)),
        }
    }
}

impl Client for SqlClient {
    fn push(&mut self, jobs: &[JobNumber]) -> Result<()> {
        push(&self.access.hold(), jobs).map_err(Error::sqlite("push the rival's jobs"))
    }

    fn claim(&mut self, jobs_max: usize, claimed: &mut Vec<JobNumber>) -> Result<()> {
        claim(&self.access.hold(), jobs_max, claimed, &mut self.leased)
            .map_err(Error::sqlite("claim the rival's jobs"))
    }

    fn acknowledge(&mut self) -> Result<()> {
        let acknowledged = acknowledge(&self.access.hold(), &self.leased);
        let is_whole = acknowledged.map_err(Error::sqlite("acknowledge the rival's jobs"))?;
        if is_whole { Ok(()) } else { Err(lease_is_over()) }
    }
}

/// The error of a run in which a job's lease ended before its acknowledgement.
pub(super) fn lease_is_over() -> Error {
    Error::rung("queue", "a lease was over too early")
}
