//! Means by which a group is applied once: a row that each of its requests inserts, and a floor below which rows may be gone.
//!
//! A group is sent again until its fate is known. The row of the request that was applied refuses the others, and
//! holds the answer. Rows are deleted after a while, and a machine that slept may send a group even later. So the
//! transaction that deletes rows raises the floor above them, and a request that names a time below it fails.
//!
//! Invariants:
//! 1. All requests of a group name the same session, number and time, which stand in its row.
//! 2. A row whose time is not below the floor has not been deleted.
//!
//! Must never: lower the floor. Clocks decide only when rows go, so a clock that is wrong lets no group be
//! applied twice.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, Unread};
use crate::clock::LeaderClock;
use crate::limits::DELETED_MAX;
use crate::patience::ELECTION_MAX;

pub const FLOOR_TABLE: &str = "CREATE TABLE IF NOT EXISTS _leafpress_floor(kind TEXT PRIMARY KEY, \
     at INTEGER NOT NULL) WITHOUT ROWID";

/// The reason for a group whose row is gone, or was never there.
pub const TOO_LATE: &str = "the group was not answered for so long, as when a machine sleeps, that its row, \
     which tells if it was applied, may have been deleted";

/// A table of rows, with the columns `session` and `number` and those that are named here.
pub struct Rows {
    table: &'static str,
    /// The column of the time.
    at: &'static str,
    /// The column of the answer.
    answer: &'static str,
    /// The name of the floor.
    kind: &'static str,
}

/// Times are in seconds.
pub const OF_WRITERS: Rows =
    Rows { table: "_leafpress_applied", at: "at", answer: "counts", kind: "applied" };
/// Times are in milliseconds.
pub const OF_QUEUES: Rows =
    Rows { table: "_leafpress_queue_group", at: "at_ms", answer: "answer", kind: "queue" };

/// The reason why a row was refused.
pub enum RowRefused {
    /// An earlier request of the group was applied.
    WasApplied,
    /// The row of an earlier request may have been deleted.
    BelowFloor,
}

impl Rows {
    /// SQL of the time `at`, a parameter with a number; NULL if it is below the floor, which the column refuses.
    pub fn checked(&self, at: &str) -> String {
        format!(
            "(SELECT {at} WHERE NOT EXISTS (SELECT 1 FROM _leafpress_floor WHERE kind='{}' AND at>{at}))",
            self.kind
        )
    }

    /// The meaning of the error of the statement that inserts the row, the first of a request.
    pub fn refused(&self, statement: Option<usize>, reason: &str) -> Option<RowRefused> {
        let Self { table, at, .. } = self;
        if statement != Some(0) {
            None
        } else if reason.contains(&format!("NOT NULL constraint failed: {table}.{at}")) {
            Some(RowRefused::BelowFloor)
        } else {
            reason.contains(&format!("{table}.")).then_some(RowRefused::WasApplied)
        }
    }

    /// A statement that empties the answer of the group before this one, which its callers have.
    pub fn forget_answer(&self, session: &Session) -> Value {
        let Self { table, answer, .. } = self;
        let sql = format!("UPDATE {table} SET {answer}='' WHERE session=? AND number=?");
        json!([sql, session.name, session.number - 1])
    }

    /// Statements that delete rows of times before this one.
    pub fn delete(&self, before: i64) -> [Value; 2] {
        let Self { table, at, .. } = self;
        let raise = "INSERT INTO _leafpress_floor VALUES(?1,?2) ON CONFLICT(kind) DO UPDATE SET \
             at=excluded.at WHERE excluded.at>at";
        let delete = format!(
            "DELETE FROM {table} WHERE (session, number) IN (SELECT session, number FROM {table} \
             WHERE {at} < ? ORDER BY {at} LIMIT {DELETED_MAX})"
        );
        [json!([raise, self.kind, before]), json!([delete, before])]
    }
}

/// A sender of groups, by the name and the number in their rows.
pub struct Session {
    pub name: String,
    /// The number of the group that is sent.
    pub number: u64,
    /// The floor, when it was above the leader's clock.
    pub at_min: i64,
}

impl Session {
    pub fn new() -> Self {
        let name = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        Self { name, number: 0, at_min: 0 }
    }

    /// Reads the floor, and has the time read anew, for a group of which no request may be applied. `limit`:
    /// the longest time for the answer.
    ///
    /// # Errors
    /// There is no answer.
    pub fn read_floor(
        &mut self,
        rows: &Rows,
        client: &mut Client,
        clock: &mut LeaderClock,
        limit: Duration,
    ) -> Result<(), Unread> {
        clock.doubt();
        let floor = "SELECT at FROM _leafpress_floor WHERE kind=?";
        let found = client.rows(floor, &[rows.kind], limit)?;
        self.at_min = found.first().and_then(|row| row.get(0)?.as_i64()).unwrap_or_default();
        Ok(())
    }
}

/// The time for which a group is sent again: shorter, if no request of it can have reached a node.
pub fn time_limit(may_be_applied: bool, limit: Duration) -> Duration {
    if may_be_applied { limit } else { limit.min(ELECTION_MAX) }
}
