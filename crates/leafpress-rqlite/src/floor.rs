//! The floor of rows that let groups be applied once: rows of older times may have been deleted.
//!
//! A group is sent again until its fate is known, and the row of the request that was applied refuses the others.
//! Rows are deleted after a while, and a machine that slept may send a group even later. So the transaction
//! that deletes rows raises the floor above them, and a request that names a time below the floor fails.
//!
//! Invariants:
//! 1. All requests of a group name the same time, which stands in its row.
//! 2. A row whose time is not below the floor has not been deleted.
//!
//! Must never: be lowered. Clocks decide only when rows go, so a clock that is wrong lets no group be applied twice.

use serde_json::{Value, json};

pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS _leafpress_floor(kind TEXT PRIMARY KEY, \
     at INTEGER NOT NULL) WITHOUT ROWID";

/// The reason for a group whose row is gone, or was never there.
pub const TOO_LATE: &str = "the group was not answered for so long, as when a machine sleeps, that its row, \
     which tells if it was applied, may have been deleted";

/// The floor of one table of rows.
#[derive(Clone, Copy)]
pub struct Floor(&'static str);

/// Times are in seconds.
pub const OF_WRITERS: Floor = Floor("applied");
/// Times are in milliseconds.
pub const OF_QUEUES: Floor = Floor("queue");

impl Floor {
    /// SQL of the time `at`, a parameter with a number; NULL if it is below the floor.
    pub fn checked(self, at: &str) -> String {
        let Self(kind) = self;
        format!(
            "(SELECT {at} WHERE NOT EXISTS (SELECT 1 FROM _leafpress_floor WHERE kind='{kind}' AND at>{at}))"
        )
    }

    /// A statement that raises the floor to this time, before rows of older times are deleted.
    pub fn raise(self, at: i64) -> Value {
        let sql = "INSERT INTO _leafpress_floor VALUES(?1,?2) ON CONFLICT(kind) DO UPDATE SET \
             at=excluded.at WHERE excluded.at>at";
        json!([sql, self.0, at])
    }

    /// A query of the floor.
    pub fn query(self) -> String {
        format!("SELECT at FROM _leafpress_floor WHERE kind='{}'", self.0)
    }
}
