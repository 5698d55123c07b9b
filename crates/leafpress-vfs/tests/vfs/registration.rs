//! Names, and how long a VFS lives.

use std::sync::Arc;

use leafpress_vfs::ErrorKind;
use leafpress_vfs::{PlatformVfs, register};
use rusqlite::{Connection, OpenFlags};

use crate::memory_vfs::MemoryVfs;
use crate::{count, through};

#[test]
fn a_name_is_taken_once_and_free_again_after_the_drop() {
    let registration = register("names", PlatformVfs::new()).unwrap();
    assert_eq!(registration.name(), c"names");
    for name in ["names", "unix", "", "zero\0byte"] {
        let error = register(name, PlatformVfs::new()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{name:?}: {error}");
    }
    drop(registration);
    let open = || Connection::open_with_flags_and_vfs(":memory:", OpenFlags::default(), c"names");
    assert!(open().is_err(), "the name is gone");
    let _again = register("names", PlatformVfs::new()).unwrap();
    assert!(open().is_ok());
}

#[test]
fn a_vfs_lives_until_its_last_file_is_closed() {
    let vfs = Arc::new(MemoryVfs::default());
    let registration = register("lives", Arc::clone(&vfs)).unwrap();
    let connection = through(&registration, "a.db");
    let without_file = through(&registration, ":memory:");
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    assert_eq!(registration.open_files(), 1);
    drop(registration);

    // The connection goes on, with new files also: the rollback journal.
    connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(count(&connection, "t"), 1);
    assert_eq!(Arc::strong_count(&vfs), 2);
    drop(connection);
    assert_eq!(Arc::strong_count(&vfs), 1, "the VFS is dropped with its last file");

    // SQLite looks the name up for each database that it attaches.
    let error = without_file.execute_batch("ATTACH '/a.db' AS a").unwrap_err();
    assert!(error.to_string().contains("no such vfs"), "{error}");
}
