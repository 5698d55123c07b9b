//! Questions to an open connection that rusqlite does not ask.
//!
//! The writer asks for broken foreign keys before a RELEASE, and the profiles for the VFS of a
//! connection. Must never: change a setting of the connection.

use std::ffi::{CStr, c_int};

use rusqlite::{Connection, ffi};

use super::registration;

/// Returns true if a deferred foreign key is broken in the open transaction, so that COMMIT would
/// fail.
///
/// Costs well under a microsecond; returns `false` outside a transaction.
pub fn unresolved_deferred_keys(connection: &Connection) -> bool {
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

/// A number that is another one once a commit to the database `main` is seen: of this connection, or
/// of others when its next transaction begins. `None` if SQLite does not say.
///
/// Costs far less than `PRAGMA data_version`, which leaves its own connection's commits out.
pub fn data_version(connection: &Connection) -> Option<u32> {
    let mut version: u32 = 0;
    // SAFETY: the handle is open as long as `connection` is borrowed, the name ends with a
    // zero, and this opcode writes one 32-bit number, for which there is room.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_DATA_VERSION,
            (&raw mut version).cast(),
        )
    };
    (code == ffi::SQLITE_OK).then_some(version)
}

/// The name of the VFS that the main database goes through; `None` if it has none, or
/// one that is no UTF-8.
pub fn vfs_name(connection: &Connection) -> Option<String> {
    let mut vfs: *mut ffi::sqlite3_vfs = std::ptr::null_mut();
    // SAFETY: the handle is open as long as `connection` is borrowed, the name of the
    // database ends with a zero, and for this opcode SQLite itself stores a pointer in
    // the place that it is given, which outlives the call.
    let code = unsafe {
        ffi::sqlite3_file_control(
            connection.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_VFS_POINTER,
            (&raw mut vfs).cast(),
        )
    };
    if code != ffi::SQLITE_OK || vfs.is_null() {
        return None;
    }
    // SAFETY: a VFS and its name outlive every connection that goes through it.
    let name = unsafe { (*registration::vfs_of_databases(vfs)).zName };
    if name.is_null() {
        return None;
    }
    // SAFETY: as above; a VFS's name ends with a zero.
    unsafe { CStr::from_ptr(name) }.to_str().ok().map(str::to_owned)
}

/// Returns true if the linked SQLite was compiled with this option, such as `ENABLE_ATOMIC_WRITE`.
pub fn compiled_with(option: &CStr) -> bool {
    // SAFETY: the name ends with a zero, and SQLite only compares it.
    unsafe { ffi::sqlite3_compileoption_used(option.as_ptr()) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_knows_how_it_was_compiled() {
        let connection = Connection::open_in_memory().unwrap();
        for option in [c"ENABLE_FTS5", c"ENABLE_ATOMIC_WRITE", c"ENABLE_BATCH_ATOMIC_WRITE"] {
            let sql = "SELECT sqlite_compileoption_used(?1)";
            let name = option.to_str().unwrap();
            let expected: bool = connection.query_row(sql, [name], |row| row.get(0)).unwrap();
            assert_eq!(compiled_with(option), expected, "{name}");
        }
    }

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

    #[test]
    fn each_commit_changes_the_version_once_it_is_seen() {
        for journal_mode in ["wal", "delete", "memory"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            let [one, other] = [0, 1].map(|_| {
                let connection = Connection::open(&path).unwrap();
                let set = format!("PRAGMA journal_mode = {journal_mode}");
                connection.query_row(&set, [], |_| Ok(())).unwrap();
                connection
            });
            one.execute_batch("CREATE TABLE t (x)").unwrap();
            let mut seen = Vec::new();
            let mut is_new = |connection: &Connection, run: &str| {
                connection.execute_batch(run).unwrap();
                one.execute_batch("BEGIN; SELECT * FROM t").unwrap();
                let version = data_version(&one).unwrap();
                one.execute_batch("COMMIT").unwrap();
                assert_eq!(data_version(&one), Some(version), "nothing was changed");
                let is_new = !seen.contains(&version);
                seen.push(version);
                is_new
            };
            assert!(is_new(&one, "INSERT INTO t VALUES (1)"), "{journal_mode}");
            assert!(!is_new(&one, "SELECT 1 FROM t"), "{journal_mode}");
            assert!(is_new(&one, "INSERT INTO t VALUES (2)"), "{journal_mode}");
            assert!(is_new(&other, "INSERT INTO t VALUES (3)"), "{journal_mode}");
            assert!(!is_new(&other, "SELECT 1 FROM t"), "{journal_mode}");
            assert!(is_new(&other, "CREATE TABLE u (x)"), "{journal_mode}");
        }
    }

    #[test]
    fn a_connection_knows_its_vfs() {
        let flags = rusqlite::OpenFlags::default();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let usual = Connection::open(&path).unwrap();
        let name = vfs_name(&usual).unwrap();
        let again = Connection::open_with_flags_and_vfs(&path, flags, name.as_str()).unwrap();
        assert_eq!(vfs_name(&again).unwrap(), name);
        let ours = crate::PlatformVfs::new();
        let registration = crate::register("named-by-its-connection", ours).unwrap();
        let through =
            Connection::open_with_flags_and_vfs(&path, flags, registration.name()).unwrap();
        assert_eq!(vfs_name(&through).as_deref(), Some("named-by-its-connection"));
    }
}
