//! The means to apply a group once: a row that each of its requests inserts, and a floor below which rows may be gone.
//!
//! A group is sent again until its fate is known. The row of the request that was applied refuses the others, and
//! holds the answer. Rows are deleted after a while, and a machine that slept may send a group even later. So the
//! transaction that deletes rows raises the floor above them, and a request that names a time below it fails.
//!
//! Invariants:
//! 1. All requests of a group name the same session, number and time, which stand in its row. The time changes only
//!    where none of them was or will be applied.
//! 2. A row whose time is not below the floor has not been deleted.
//! 3. No two sessions have one name: it is of the system's random numbers, and a child of `fork` takes a new one. A
//!    machine that is copied while it runs breaks this rule.
//!
//! Must never: lower the floor. Clocks decide only when rows go, so a clock that is wrong lets no group be
//! applied twice.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use leafpress::times::in_milliseconds;
use serde_json::{Value, json};

use crate::client::{Client, Unread};
use crate::clock::LeaderClock;
use crate::limits::{DELETE_EVERY, DELETED_MAX, KEPT};
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
    /// Milliseconds in its unit.
    unit_ms: i64,
    /// The name of the floor.
    kind: &'static str,
    forget_answer: String,
    delete: String,
}

pub static OF_WRITERS: LazyLock<Rows> =
    LazyLock::new(|| Rows::new("_leafpress_applied", "at", 1_000, "counts", "applied"));
pub static OF_QUEUES: LazyLock<Rows> =
    LazyLock::new(|| Rows::new("_leafpress_queue_group", "at_ms", 1, "answer", "queue"));

/// The reason why a row was refused.
#[derive(Clone, Copy)]
pub enum RowRefused {
    /// An earlier request of the group was applied.
    WasApplied,
    /// The row of an earlier request may have been deleted.
    BelowFloor,
}

impl Rows {
    /// `answer`: the column of the answer.
    fn new(
        table: &'static str,
        at: &'static str,
        unit_ms: i64,
        answer: &str,
        kind: &'static str,
    ) -> Self {
        let forget_answer = format!("UPDATE {table} SET {answer}='' WHERE session=? AND number=?");
        let delete = format!(
            "DELETE FROM {table} WHERE (session, number) IN (SELECT session, number FROM {table} \
             WHERE {at} < ? ORDER BY {at} LIMIT {DELETED_MAX})"
        );
        Self { table, at, unit_ms, kind, forget_answer, delete }
    }

    /// The time for which rows stay, in the unit of their times.
    pub fn kept(&self) -> i64 {
        in_milliseconds(KEPT) / self.unit_ms
    }

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
        json!([self.forget_answer, session.name, session.number - 1])
    }

    /// Statements that delete rows that are too old at this time.
    pub fn delete(&self, now: i64) -> [Value; 2] {
        let before = now - self.kept();
        let raise = "INSERT INTO _leafpress_floor VALUES(?1,?2) ON CONFLICT(kind) DO UPDATE SET \
             at=excluded.at WHERE excluded.at>at";
        [json!([raise, self.kind, before]), json!([self.delete, before])]
    }
}

/// A sender of groups, by the name and the number in their rows.
#[derive(Default)]
pub struct Session {
    /// Empty before the first group.
    pub name: String,
    /// The process that took the name.
    process: u32,
    /// The number of the group that is sent.
    pub number: u64,
    /// The earliest time for this session's groups, as (time in the unit of the rows, when read). It is set after a
    /// group was refused below the floor, and goes on with this machine's steady clock. A leader whose clock was
    /// ahead may have raised the floor above the time; at the floor itself rows would not grow old.
    time_above_floor: Option<(i64, Instant)>,
}

impl Session {
    /// Takes the number of the next group.
    ///
    /// # Errors
    /// As [`name_here`](Self::name_here).
    pub fn advance(&mut self) -> Result<(), String> {
        self.name_here()?;
        self.number += 1;
        Ok(())
    }

    /// The name, which is taken now if this process has none: a group of another session with the same name
    /// would be taken for this one, and answered with success.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn name_here(&mut self) -> Result<&str, String> {
        let process = std::process::id();
        if self.name.is_empty() || self.process != process {
            let mut random = [0; 16];
            getrandom::fill(&mut random)
                .map_err(|error| format!("the system gives no random numbers: {error}"))?;
            self.name = format!("{:032x}", u128::from_ne_bytes(random));
            (self.process, self.number) = (process, 0);
        }
        Ok(&self.name)
    }

    /// Returns true if the group deletes old rows: the first one, so that short-lived senders do their share, and
    /// one of so many after it.
    pub fn tidies_up(&self) -> bool {
        self.number % DELETE_EVERY == 1
    }

    /// The time of the group that is begun at this time of the leader.
    pub fn at(&self, rows: &Rows, now_ms: i64) -> i64 {
        let above_floor = self.time_above_floor.map_or(i64::MIN, |(at, read)| {
            at.saturating_add(in_milliseconds(read.elapsed()) / rows.unit_ms)
        });
        // The later of the two, not their sum: a leader whose clock is ahead would otherwise be counted twice.
        above_floor.max(now_ms / rows.unit_ms)
    }

    /// Reads the floor, and the time anew, for a group of which no request may be applied: its time becomes that of
    /// the session that raised the floor. `limit`: the longest time for an answer.
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
        let floor = found.first().and_then(|row| row.get(0)?.as_i64()).unwrap_or_default();
        self.time_above_floor = Some((floor.saturating_add(rows.kept()), Instant::now()));
        clock.now(client, limit).map(drop)
    }
}

/// The time for which a group is sent again: shorter, if no request of it can have reached a node.
pub fn time_limit(may_be_applied: bool, limit: Duration) -> Duration {
    if may_be_applied { limit } else { limit.min(ELECTION_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_taken_twice() {
        // Two copies of a process have the same state of this generator.
        let names = [(); 2].map(|()| {
            fastrand::seed(7);
            let mut session = Session::default();
            session.advance().unwrap();
            session.name
        });
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn another_process_takes_another_name() {
        let mut session = Session::default();
        session.advance().unwrap();
        session.advance().unwrap();
        let name = session.name.clone();
        assert_eq!((session.number, session.name_here().unwrap()), (2, &*name));
        session.process += 1;
        session.advance().unwrap();
        assert_eq!(session.number, 1);
        assert_ne!(session.name, name);
    }
}
