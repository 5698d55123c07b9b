//! Seams for a queue whose tables are on another machine. The crate `leafpress-rqlite` has one.
//!
//! Such a queue has the words, the types and the tables of this one, and its own statements.
//!
//! Must never: know where that is.

use std::fmt;
use std::time::Duration;

pub use super::job::When;
use super::schema::STEPS;
use super::settle;
use super::{Claim, ClaimOptions, LeaseLost, Nack, Payload, Pushed, Retry, Token};
use crate::error::{Error, Result};
use crate::times::UnixTime;

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
