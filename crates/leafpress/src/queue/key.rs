//! Unique keys: the job that holds each, and until when.
//!
//! 1. A key of a queue is held by one job at most; the table's primary key sees
//!    to that.
//! 2. A job that holds a key for as long as it waits or runs still exists.
//!
//! Must never: let a job be lost over a key. A job that comes back and finds its key taken goes on
//! without it.

use rusqlite::params;

use super::job::UniqueFor;
use super::session::Work;
use crate::error::Result;

const HOLDER: &str =
    "SELECT job, until_ms IS NOT NULL, coalesce(until_ms > ?3 + held_ms, 0) FROM leafpress_key
     WHERE queue = ?1 AND key = ?2 AND (until_ms IS NULL OR until_ms > ?3)";
const HOLD_FROM_NOW: &str =
    "UPDATE leafpress_key SET until_ms = ?3 + held_ms WHERE queue = ?1 AND key = ?2";
const HOLD: &str = "INSERT OR REPLACE INTO leafpress_key(queue, key, job, scope, held_ms, until_ms)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
/// A job that holds the key keeps it; a key whose time is over is free.
const HOLD_AGAIN: &str = "INSERT INTO leafpress_key(queue, key, job, scope)
     VALUES (?1, ?2, ?3, ?4) ON CONFLICT(queue, key) DO UPDATE
     SET job = excluded.job, scope = excluded.scope, held_ms = NULL, until_ms = NULL
     WHERE until_ms <= ?5";
const RELEASE: &str = "DELETE FROM leafpress_key WHERE queue = ?1 AND key = ?2 AND job = ?3";
const PURGE: &str = "DELETE FROM leafpress_key WHERE (queue, key) IN (
     SELECT queue, key FROM leafpress_key INDEXED BY leafpress_key_until
     WHERE queue = +?1 AND until_ms IS NOT NULL AND until_ms <= ?2 LIMIT +?3)";

/// Time for which a key is held, as its number in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Waiting,
    WaitingOrRunning,
    Time,
}

impl Scope {
    pub(super) fn number(self) -> i64 {
        self as i64
    }

    /// Scope of a number in a table. An unknown number is a scope by time, which nothing releases
    /// early.
    pub(super) fn from_number(number: i64) -> Self {
        match number {
            0 => Self::Waiting,
            1 => Self::WaitingOrRunning,
            _ => Self::Time,
        }
    }
}

impl From<UniqueFor> for Scope {
    fn from(unique: UniqueFor) -> Self {
        match unique {
            UniqueFor::Waiting => Self::Waiting,
            UniqueFor::WaitingOrRunning => Self::WaitingOrRunning,
            UniqueFor::Time(_) => Self::Time,
        }
    }
}

/// A job's own key.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) scope: Scope,
}

/// Holder of a key.
pub(super) struct Holder {
    pub(super) job: i64,
    /// True if the key is held for a time, whatever becomes of the job.
    pub(super) is_for_a_time: bool,
}

/// The job that holds this key now, if one does. If the clock was set back, the beginning of a key's
/// time may lie in the future; then the time begins anew.
pub(super) fn holder(work: &Work<'_>, queue: i64, key: &str) -> Result<Option<Holder>> {
    let held = params![queue, key, work.now_ms];
    let found = work.first(HOLDER, held, |row| {
        let holder = Holder { job: row.get(0)?, is_for_a_time: row.get(1)? };
        Ok((holder, row.get::<_, bool>(2)?))
    })?;
    if let Some((_, true)) = found {
        work.execute(HOLD_FROM_NOW, held)?;
    }
    Ok(found.map(|(holder, _)| holder))
}

/// Gives the key to a new job; no other job holds it. `held_ms`: for this time.
pub(super) fn hold(
    work: &Work<'_>,
    queue: i64,
    job: i64,
    key: &Key,
    held_ms: Option<i64>,
) -> Result<()> {
    let until_ms = held_ms.map(|held_ms| work.now_ms.saturating_add(held_ms));
    let held = params![queue, key.text, job, key.scope.number(), held_ms, until_ms];
    work.execute(HOLD, held).map(drop)
}

/// Notes that a job was claimed.
pub(super) fn claimed(work: &Work<'_>, queue: i64, job: i64, key: &Key) -> Result<()> {
    if key.scope == Scope::Waiting { release(work, queue, job, key) } else { Ok(()) }
}

/// Notes that a job waits again. Returns false if it gets no key, as one holds it.
pub(super) fn waits_again(work: &Work<'_>, queue: i64, job: i64, key: &Key) -> Result<bool> {
    if key.scope == Scope::Time {
        return Ok(true);
    }
    let held = params![queue, key.text, job, key.scope.number(), work.now_ms];
    Ok(work.execute(HOLD_AGAIN, held)? > 0)
}

/// Frees the key of a job that is done, dead or removed.
pub(super) fn ended(work: &Work<'_>, queue: i64, job: i64, key: &Key) -> Result<()> {
    if key.scope == Scope::Time { Ok(()) } else { release(work, queue, job, key) }
}

fn release(work: &Work<'_>, queue: i64, job: i64, key: &Key) -> Result<()> {
    work.execute(RELEASE, params![queue, key.text, job]).map(drop)
}

/// Removes keys whose time is over, at most `keys_max`.
pub(super) fn purge(work: &Work<'_>, queue: i64, keys_max: u32) -> Result<()> {
    work.execute(PURGE, params![queue, work.now_ms, keys_max]).map(drop)
}

/// The statements of this file.
pub(super) const STATEMENTS: [(&str, &str); 6] = [
    ("who holds a key", HOLDER),
    ("hold a key from now", HOLD_FROM_NOW),
    ("hold a key", HOLD),
    ("hold a key again", HOLD_AGAIN),
    ("release a key", RELEASE),
    ("purge keys", PURGE),
];
