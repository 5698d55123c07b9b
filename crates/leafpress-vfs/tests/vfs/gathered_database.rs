//! Gathered writes to the database: what a connection reads, what is in the file and when, and what is
//! left of a transaction that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use leafpress_vfs::gathered_database::{GatheredDatabase, gathered_database_vfs};
use leafpress_vfs::gathered_log::GatheredLog;
use leafpress_vfs::{
    FileKind, LockLevel, OpenFlags as Flags, SyncKind, Vfs, VfsError, VfsFile, register,
};
use proptest::prelude::*;
use rusqlite::{Connection, OpenFlags};

use crate::hooked::{Call, Hooked};
use crate::memory_vfs::MemoryVfs;
use crate::{assert_commits_are_seen, assert_sound, count, rows, set_journal_mode, through, work};

const DATABASE: &str = "/a.db";
const PAGE_BYTES: usize = 4096;
const SYNC: SyncKind = SyncKind { full: true, data_only: false };

/// A call of SQLite on a database file.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many pages that follow one another.
    Write {
        page: usize,
        pages: usize,
        fill: u8,
    },
    Read {
        at: usize,
        bytes: usize,
    },
    Truncate {
        pages: usize,
    },
    Sync,
    Unlock,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40_usize, 1..30_usize, any::<u8>()).prop_map(|(page, pages, fill)| Step::Write { page, pages, fill }),
        4 => (0..40 * PAGE_BYTES, 1..3 * PAGE_BYTES).prop_map(|(at, bytes)| Step::Read { at, bytes }),
        1 => (0..40_usize).prop_map(|pages| Step::Truncate { pages }),
        1 => Just(Step::Sync),
        1 => Just(Step::Unlock),
    ]
}

fn opened(vfs: &impl Vfs) -> Box<dyn VfsFile> {
    vfs.open(Some(DATABASE), Flags::MAIN_DB | Flags::CREATE | Flags::READ_WRITE).unwrap().file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_file_is_what_was_written(steps in prop::collection::vec(step(), 1..60)) {
        let vfs = Arc::new(MemoryVfs::default());
        let mut file = opened(&GatheredDatabase::new(Arc::clone(&vfs)));
        let mut expected: Vec<u8> = Vec::new();
        for step in steps {
            let is_due = matches!(step, Step::Truncate { .. } | Step::Sync | Step::Unlock);
            match step {
                Step::Write { page, pages, fill } => for page in page..page + pages {
                    let at = page * PAGE_BYTES;
                    let bytes = [fill ^ page as u8; PAGE_BYTES];
                    file.write(&bytes, at as u64).unwrap();
                    expected.resize(expected.len().max(at + PAGE_BYTES), 0);
                    expected[at..at + PAGE_BYTES].copy_from_slice(&bytes);
                },
                Step::Read { at, bytes } => {
                    let mut buffer = vec![9; bytes];
                    let read = file.read(&mut buffer, at as u64).unwrap();
                    let there = expected.get(at..).unwrap_or_default();
                    prop_assert_eq!(&buffer[..read], &there[..there.len().min(bytes)]);
                }
                Step::Truncate { pages } if pages * PAGE_BYTES <= expected.len() => {
                    expected.truncate(pages * PAGE_BYTES);
                    file.truncate(expected.len() as u64).unwrap();
                }
                Step::Truncate { .. } | Step::Sync => file.sync(SYNC).unwrap(),
                Step::Unlock => file.unlock(LockLevel::None).unwrap(),
            }
            prop_assert_eq!(file.size().unwrap(), expected.len() as u64);
            if is_due {
                prop_assert!(vfs.bytes(DATABASE) == expected, "bytes are missing");
            }
        }
    }
}

#[test]
fn what_is_synced_is_in_the_file() {
    for (vfs_of, is_there) in
        [(GatheredDatabase::new as fn(_) -> _, true), (GatheredDatabase::without_syncs, false)]
    {
        let vfs = Arc::new(MemoryVfs::default());
        let mut file = opened(&vfs_of(Arc::clone(&vfs)));
        file.write(&[1; PAGE_BYTES], 0).unwrap();
        file.sync(SYNC).unwrap();
        assert_eq!(vfs.bytes(DATABASE) == [1; PAGE_BYTES], is_there);
    }
}

/// Another connection, which does not go through the layer, sees each commit, and each checkpoint.
#[test]
fn another_connection_sees_each_commit() {
    for (number, (mode, synchronous)) in
        [("wal", "normal"), ("wal", "extra"), ("delete", "extra"), ("truncate", "full")]
            .into_iter()
            .enumerate()
    {
        let vfs = Arc::new(MemoryVfs::default());
        let plain = register(&format!("pages-plain-{number}"), Arc::clone(&vfs)).unwrap();
        let gathers = GatheredDatabase::new(GatheredLog::new(Arc::clone(&vfs)));
        let gathers = register(&format!("pages-{number}"), gathers).unwrap();
        let (writer, reader) = (through(&gathers, "a.db"), through(&plain, "a.db"));
        set_journal_mode(&writer, mode);
        // So small a cache writes pages of a transaction early, and again.
        let pragmas = format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA cache_size = 5; PRAGMA wal_autocheckpoint = 9"
        );
        writer.execute_batch(&pragmas).unwrap();
        work(&writer);
        assert_commits_are_seen(&writer, &reader, mode);
    }
}

#[test]
fn pages_that_follow_one_another_are_one_write() {
    let writes = Arc::new(AtomicU32::new(0));
    let hook = {
        let writes = Arc::clone(&writes);
        move |call| {
            writes.fetch_add(u32::from(call == Call::Write(FileKind::MainDb)), Ordering::Relaxed);
            Ok(())
        }
    };
    let vfs = GatheredDatabase::new(Hooked::new(MemoryVfs::default(), hook));
    let registration = register("pages-writes", vfs).unwrap();
    let connection = through(&registration, "a.db");
    set_journal_mode(&connection, "wal");
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    connection.execute("INSERT INTO t VALUES (zeroblob(320 * 4096))", ()).unwrap();
    let before = writes.load(Ordering::Relaxed);
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let made = writes.load(Ordering::Relaxed) - before;
    assert!((20..=24).contains(&made), "{made} writes of 16 pages");
}

/// A full disk: the transaction is rolled back, or the checkpoint is made once more.
#[test]
fn what_cannot_be_written_is_rolled_back() {
    for (number, mode) in ["delete", "wal"].into_iter().enumerate() {
        let is_full = Arc::new(AtomicBool::new(false));
        let hook = {
            let is_full = Arc::clone(&is_full);
            move |call| match call {
                Call::Write(FileKind::MainDb) if is_full.load(Ordering::Relaxed) => {
                    Err(VfsError::FULL)
                }
                _ => Ok(()),
            }
        };
        let vfs = Arc::new(MemoryVfs::default());
        let plain = register(&format!("pages-full-plain-{number}"), Arc::clone(&vfs)).unwrap();
        let gathers = GatheredDatabase::new(Hooked::new(Arc::clone(&vfs), hook));
        let gathers = register(&format!("pages-full-{number}"), gathers).unwrap();
        let writer = through(&gathers, "a.db");
        set_journal_mode(&writer, mode);
        writer.execute_batch("PRAGMA synchronous = EXTRA; CREATE TABLE t (x)").unwrap();
        is_full.store(true, Ordering::Relaxed);
        let inserted = writer.execute("INSERT INTO t VALUES (zeroblob(200000))", ());
        assert_eq!(inserted.is_ok(), mode == "wal");
        let checkpoint = writer.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()));
        assert_eq!(checkpoint.is_ok(), mode == "delete");
        is_full.store(false, Ordering::Relaxed);
        let there = i64::from(mode == "wal");
        assert_eq!(count(&writer, "t"), there);
        writer.execute_batch("INSERT INTO t VALUES (1); PRAGMA wal_checkpoint").unwrap();
        assert_eq!(count(&through(&plain, "a.db"), "t"), there + 1);
        assert_sound(&writer);
    }
}

/// The VFS of the process: its locks and those of plain connections are the same.
#[test]
fn it_locks_as_the_platform_does() {
    let folder = tempfile::tempdir().unwrap();
    let Some(vfs) = gathered_database_vfs() else { panic!("the platform's VFS is the default") };
    for mode in ["wal", "delete"] {
        let path = folder.path().join(format!("{mode}.db"));
        let open =
            || Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), vfs).unwrap();
        let connection = open();
        set_journal_mode(&connection, mode);
        work(&connection);
        let beside = Connection::open(&path).unwrap();
        assert_eq!(rows(&connection), rows(&beside));
        beside.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert!(open().execute_batch("DELETE FROM t").is_err(), "locks are the same");
        beside.execute_batch("COMMIT").unwrap();
        drop((connection, beside));
        assert_sound(&open());
    }
}
