//! Questions to an open connection that rusqlite does not ask.
//!
//! Used by the writer: is a foreign key still broken before a RELEASE? Nothing here
//! changes a setting of the connection.

use std::ffi::c_int;

use rusqlite::{Connection, ffi};

/// Is a deferred foreign key broken in the open transaction, so that COMMIT would fail?
///
/// Costs well under a microsecond; says `false` outside a transaction.
pub(crate) fn unresolved_deferred_keys(connection: &Connection) -> bool {
    let (mut current, mut highest): (c_int, c_int) = (0, 0);
    // SAFETY: the handle is open as long as `connection` is borrowed, and the two
    // numbers outlive the call.
    let code = unsafe {
        ffi::sqlite3_db_status(
            connection.handle(),
            ffi::SQLITE_DBSTATUS_DEFERRED_FKS,
            &raw mut current,
            &raw mut highest,
            0,
        )
    };
    code == ffi::SQLITE_OK && current != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_deferred_key_is_seen_before_the_commit() {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "PRAGMA foreign_keys = ON;
                 CREATE TABLE parent (id INTEGER PRIMARY KEY);
                 CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
                 BEGIN; SAVEPOINT one; INSERT INTO child VALUES (7);",
            )
            .unwrap();
        assert!(unresolved_deferred_keys(&connection));
        connection.execute_batch("INSERT INTO parent VALUES (7)").unwrap();
        assert!(!unresolved_deferred_keys(&connection));
        connection.execute_batch("COMMIT").unwrap();
        assert!(!unresolved_deferred_keys(&connection));
    }
}
