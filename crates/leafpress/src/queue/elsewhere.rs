//! Seams for a queue whose tables are on another machine. The crate `leafpress-rqlite` has one.
//!
//! Such a queue has the words, the types and the tables of this one, and its own statements.
//!
//! Must never: know where that is.

use std::fmt;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

pub use super::admin::after_a_part;
pub use super::job::{When, check_each};
pub use super::session::dropped;

use super::admin::ORDER;
use super::inspect::last_attempt;
use super::schema::STEPS;
use super::settle;
use super::{
    Attempt, Claim, ClaimOptions, JobInfo, JobState, LeaseLost, ListOptions, Nack, Payload, Purge,
    Pushed, Retry, Token,
};
use crate::error::{Error, Result};
use crate::times::UnixTime;

/// Columns of a row that [`jobs`] takes, of the tables `leafpress_job AS job` and `leafpress_queue AS queue`. The
/// result and the payload follow.
pub const JOB_COLUMNS: &str = super::inspect::JOB_COLUMNS;

/// Rows of the attempts of the job ?1, as [`history`] takes them.
pub const ATTEMPTS: &str = super::inspect::ATTEMPTS;

/// The version of the tables that [`tables`] makes.
pub const TABLES_VERSION: usize = STEPS.len();

/// Statements that make the tables if they are missing, and note their version. Any number of
/// programs may carry them out, in any order.
pub fn tables() -> Vec<String> {
    let versions = "CREATE TABLE leafpress_schema(part TEXT NOT NULL PRIMARY KEY, version INTEGER \
                    NOT NULL) WITHOUT ROWID";
    let note = format!("INSERT OR IGNORE INTO leafpress_schema VALUES ('queue', {TABLES_VERSION})");
    let steps = STEPS.iter().flat_map(|step| step.split(';')).map(str::trim);
    let statements = [versions].into_iter().chain(steps).filter(|sql| !sql.is_empty());
    statements.map(if_missing).chain([note]).collect()
}

/// A statement that makes something, for a database that may have it.
fn if_missing(sql: &str) -> String {
    let kinds = ["TABLE", "INDEX", "VIEW"].iter();
    let mut found = kinds.filter_map(|kind| {
        let rest = sql.strip_prefix(&format!("CREATE {kind} "))?;
        Some(format!("CREATE {kind} IF NOT EXISTS {rest}"))
    });
    found.next().unwrap_or_else(|| sql.to_owned())
}

/// A claim with its token and payload; the caller fills in the rest.
pub fn claim(token: Token, payload: Payload) -> Claim {
    Claim {
        token,
        id: token.job,
        queue: String::new(),
        payload,
        attempt: 1,
        attempts_max: 1,
        priority: 0,
        group: None,
        correlation_id: None,
        metadata: None,
        pushed_at: UnixTime::default(),
        lease_until: UnixTime::default(),
    }
}

/// The answer to a push.
pub fn pushed(id: i64, is_new: bool) -> Pushed {
    Pushed { id, is_new }
}

/// The error of a token that is not good; without a reason it was never given.
pub fn not_good(token: Token, why: Option<LeaseLost>) -> Error {
    match why {
        Some(why) => settle::lease_lost(token, why),
        None => settle::no_such_claim(token),
    }
}

/// The terms of a list.
#[derive(Debug)]
pub struct Listed<'o> {
    /// The states of its jobs.
    pub states: &'o [JobState],
    /// The ordering group of its jobs.
    pub group: Option<&'o str>,
    /// The job behind which it begins.
    pub after_id: Option<i64>,
    /// True if the last pushes come first.
    pub newest_first: bool,
    /// Largest number of jobs.
    pub limit: usize,
    /// True if payloads and results are wanted.
    pub with_payload: bool,
}

/// The terms of a list.
pub fn listed(options: &ListOptions) -> Listed<'_> {
    let ListOptions { states, group, after_id, newest_first, limit, with_payload } = options;
    Listed {
        states,
        group: group.as_deref(),
        after_id: *after_id,
        newest_first: *newest_first,
        limit: *limit,
        with_payload: *with_payload,
    }
}

/// The states that are purged, in the order in which they are, the age, and the largest number of jobs.
pub fn purged(purge: &Purge) -> (Vec<JobState>, Option<Duration>, Option<u64>) {
    let states = ORDER.into_iter().filter(|state| purge.states.contains(state));
    (states.collect(), purge.older_than, purge.limit)
}

/// Jobs by their rows.
///
/// # Errors
/// A row has other columns, or other types.
pub fn jobs(rows: Vec<Vec<Value>>) -> Result<Vec<JobInfo>> {
    read_rows(rows, JobInfo::from_row)
}

/// The attempts of a job by their rows, and the one that the job itself tells of.
///
/// # Errors
/// As [`jobs`].
pub fn history(job: JobInfo, rows: Vec<Vec<Value>>) -> Result<Vec<Attempt>> {
    let mut attempts = read_rows(rows, Attempt::from_row)?;
    attempts.extend(last_attempt(job));
    Ok(attempts)
}

/// Reads rows that no connection has given as those of one.
fn read_rows<T>(
    rows: Vec<Vec<Value>>,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let failed = |source| Error::sqlite("read the queue's jobs", source);
    let columns = rows.first().map_or(1, Vec::len);
    let connection = Connection::open_in_memory().map_err(failed)?;
    let values: Vec<_> = (1..=columns).map(|column| format!("?{column}")).collect();
    let sql = format!("SELECT {}", values.join(", "));
    let mut statement = connection.prepare(&sql).map_err(failed)?;
    let read = |row| statement.query_row(params_from_iter(row), read).map_err(failed);
    rows.into_iter().map(read).collect()
}

/// A queue whose jobs a [`Worker`](super::Worker) works off.
pub trait QueueElsewhere: fmt::Debug + Send + Sync {
    /// The lease of the queue's settings.
    ///
    /// # Errors
    /// If it cannot be read.
    fn lease(&self) -> Result<Duration>;

    /// Claims jobs, without waiting.
    ///
    /// # Errors
    /// As [`Queue::claim`](super::Queue::claim).
    fn claim_now(&self, options: &ClaimOptions) -> Result<Vec<Claim>>;

    /// Returns true if a claim may find a job now. It changes nothing.
    ///
    /// # Errors
    /// If that cannot be read.
    fn may_have_jobs(&self) -> Result<bool>;

    /// The time between two looks for jobs.
    fn pause(&self) -> Duration;

    /// Acks a job, with its result if there is one.
    ///
    /// # Errors
    /// As [`Queue::ack`](super::Queue::ack).
    fn ack(&self, token: Token, result: Option<Payload>) -> Result<()>;

    /// Gives back a job that did not succeed.
    ///
    /// # Errors
    /// As [`Queue::ack`](super::Queue::ack).
    fn nack(&self, token: Token, nack: Nack) -> Result<Retry>;

    /// Makes a job a dead letter.
    ///
    /// # Errors
    /// As [`Queue::ack`](super::Queue::ack).
    fn fail(&self, token: Token, reason: &str) -> Result<()>;

    /// Gives a job back; that was no attempt.
    ///
    /// # Errors
    /// As [`Queue::ack`](super::Queue::ack).
    fn release(&self, token: Token) -> Result<()>;

    /// Extends leases, each answered for itself.
    ///
    /// # Errors
    /// As [`Queue::ack_many`](super::Queue::ack_many).
    fn extend_many(&self, tokens: &[Token], lease: Duration) -> Result<Vec<Result<UnixTime>>>;
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::queue::schema;

    #[test]
    fn the_tables_are_those_of_the_local_queue() {
        let schema_of = |connection: &Connection| -> Vec<String> {
            let sql = "SELECT replace(sql, 'IF NOT EXISTS ', '') FROM sqlite_schema
                       WHERE sql NOT LIKE '%leafpress_schema%' ORDER BY name";
            let mut statement = connection.prepare(sql).expect("a query");
            let rows = statement.query_map([], |row| row.get(0)).expect("rows");
            rows.collect::<rusqlite::Result<_>>().expect("texts")
        };
        let [local, ours] = [(); 2].map(|()| Connection::open_in_memory().expect("a database"));
        schema::bring_up(&local).expect("the tables");
        for _ in 0..2 {
            for sql in tables() {
                ours.execute_batch(&sql).expect("a statement");
            }
        }
        assert_eq!(schema_of(&ours), schema_of(&local));
        schema::refuse_unless_known(&ours).expect("the same version");
    }
}
