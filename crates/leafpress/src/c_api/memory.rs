//! SQLite's own book-keeping of memory, and the one switch of it that no pragma has.
//!
//! Used by `memory`, which gives the numbers their names. Nothing here changes what a
//! connection does, but for [`lookaside_off`].

use std::ffi::c_int;

use rusqlite::{Connection, ffi};

/// Gives back the block of small pieces that a connection takes at its opening (48 KB
/// unless compiled otherwise), for good: small pieces come from the heap from now on.
///
/// # Errors
/// `SQLITE_BUSY` if one of the pieces is in use, as by a prepared statement; nothing
/// has changed then.
pub(crate) fn lookaside_off(connection: &Connection) -> rusqlite::Result<()> {
    // SAFETY: the handle is open as long as `connection` is borrowed, and this option
    // takes a pointer and two numbers; null and zero ask for no block at all.
    let code = unsafe {
        ffi::sqlite3_db_config(
            connection.handle(),
            ffi::SQLITE_DBCONFIG_LOOKASIDE,
            std::ptr::null_mut::<std::ffi::c_void>(),
            0 as c_int,
            0 as c_int,
        )
    };
    if code == ffi::SQLITE_OK {
        return Ok(());
    }
    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
}
