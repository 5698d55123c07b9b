//! The default VFS of the process, which no other test may change: one test, one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leafpress_vfs::{
    OpenFlags, Opened, PlatformVfs, Vfs, VfsLayer, VfsResult, register, register_default,
};
use rusqlite::Connection;

struct Counted(PlatformVfs, Arc<AtomicU32>);

impl VfsLayer for Counted {
    fn below(&self) -> &dyn Vfs {
        &self.0
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.open(path, flags)
    }
}

#[test]
fn the_default_is_ours_until_the_drop_and_then_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let opened = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
    let counts = || opened.each_ref().map(|count| count.load(Ordering::Relaxed));
    let counted = |which: usize| Counted(PlatformVfs::new(), Arc::clone(&opened[which]));
    let open = || drop(Connection::open(folder.path().join("a.db")).unwrap());

    let first = register_default("default-first", counted(0)).unwrap();
    open();
    assert_eq!(counts(), [1, 0], "the platform's files are not ours again");
    let second = register_default("default-second", counted(1)).unwrap();
    open();
    assert_eq!(counts(), [1, 1]);
    // SQLite puts one that comes later in the second place of its list.
    let beside = register("default-beside", counted(0)).unwrap();
    drop(second);
    open();
    assert_eq!(counts(), [2, 1], "the one before, not the one beside");
    drop(first);
    drop(beside);
    open();
    assert_eq!(counts(), [2, 1], "the platform's");
}
