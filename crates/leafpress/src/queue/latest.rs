//! The latest time that any process has stored, so that an opening knows at once whether the
//! clock was set back since.
//!
//! It stands in the row [`PART`] of the table of versions, and is written at most once a second.
//!
//! 1. No time that a committed operation has taken from the clock is a second later.
//! 2. It is lowered only in the transaction that measures all leases, delays and rates anew.
//!
//! Must never: read more than one row.

use super::clock::BACK_MS;
use super::schema;
use super::session::Work;
use crate::error::Result;

const READ: &str = "SELECT version FROM leafpress_schema WHERE part = ?1";
const NOTE: &str = "INSERT INTO leafpress_schema(part, version) VALUES (?1, ?2)
     ON CONFLICT(part) DO UPDATE SET version = excluded.version
     WHERE version <= excluded.version - ?3 OR typeof(version) != 'integer'";
const SET: &str = "INSERT OR REPLACE INTO leafpress_schema(part, version) VALUES (?1, ?2)";

/// Name of the row.
const PART: &str = schema::LATEST_TIME;

/// Stores the time of an operation that has changed something, if that was not done in the last
/// second. The last thing in an operation, so that one that fails has changed nothing.
pub(super) fn note(work: &Work<'_>) -> Result<()> {
    // A session looks no more for a second; a connection of the application's own looks each time.
    let (is_due, older_ms) = match work.session {
        Some(session) => (work.has_changed() && session.begin_noting_time(work.now_ms), 1),
        None => (work.has_changed(), BACK_MS),
    };
    if is_due {
        work.execute(NOTE, (PART, work.now_ms, older_ms))?;
    }
    Ok(())
}

/// Returns true if the clock was, or may have been, set back since times were stored.
pub(super) fn is_ahead(work: &Work<'_>) -> Result<bool> {
    // Any program may have written there.
    let latest_ms = work.first(READ, [PART], |row| Ok(row.get::<_, i64>(0).ok()))?.flatten();
    Ok(latest_ms.is_none_or(|latest_ms| latest_ms > work.now_ms))
}

/// Stores the time of an operation that has measured all times anew.
pub(super) fn set(work: &Work<'_>) -> Result<()> {
    work.execute(SET, (PART, work.now_ms)).map(drop)
}

/// The statements of this file.
pub(super) const STATEMENTS: [(&str, &str); 3] =
    [("read the latest time", READ), ("note the latest time", NOTE), ("set the latest time", SET)];
