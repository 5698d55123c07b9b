//! Gathered writes to the database: what a connection reads, what is in the file and when, and what is
//! left of a transaction that failed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leafpress_vfs::gathered_database::{GatheredDatabase, gathered_database_vfs};
use leafpress_vfs::gathered_log::GatheredLog;
use leafpress_vfs::{
    FileKind, LockLevel, OpenFlags as Flags, Registration, SyncKind, Vfs, VfsError, VfsFile,
    register,
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

type Gathers = fn(Arc<MemoryVfs>) -> GatheredDatabase<Arc<MemoryVfs>>;

/// Two tables of some pages each, in a database that goes through the layer, and a connection that does not.
fn two_tables(name: &str, vfs_of: Gathers) -> (Connection, Connection, [Registration; 2]) {
    let vfs = Arc::new(MemoryVfs::default());
    let plain = register(&format!("{name}-plain"), Arc::clone(&vfs)).unwrap();
    let gathers = register(name, vfs_of(vfs)).unwrap();
    let (connection, beside) = (through(&gathers, "a.db"), through(&plain, "a.db"));
    connection.busy_timeout(Duration::ZERO).unwrap();
    set_journal_mode(&connection, "wal");
    let setup = "PRAGMA synchronous = EXTRA; PRAGMA wal_autocheckpoint = 0;
        CREATE TABLE t (x); CREATE TABLE u (x);
        INSERT INTO t VALUES (hex(zeroblob(5000))); INSERT INTO u VALUES (hex(zeroblob(5000)));
        PRAGMA wal_checkpoint(TRUNCATE)";
    connection.execute_batch(setup).unwrap();
    (connection, beside, [plain, gathers])
}

fn value(connection: &Connection, table: &str) -> String {
    connection.query_row(&format!("SELECT x FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// SQLite ends a checkpoint that may not pass over a reader without a sync. Connections that come then
/// read what it copied from the database.
#[test]
fn a_checkpoint_that_stops_at_a_reader_is_in_the_file() {
    let rules: [(Gathers, bool); 2] =
        [(GatheredDatabase::new, true), (GatheredDatabase::in_each_checkpoint, false)];
    for (number, (vfs_of, is_there)) in rules.into_iter().enumerate() {
        for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
            let name = format!("pages-reader-{number}-{mode}");
            let (connection, beside, [plain, _gathers]) = two_tables(&name, vfs_of);
            connection.execute_batch("UPDATE t SET x = hex(randomblob(5000))").unwrap();
            beside.execute_batch("BEGIN; SELECT * FROM u").unwrap();
            connection.execute_batch("UPDATE u SET x = hex(randomblob(5000))").unwrap();

            let checkpoint = format!("PRAGMA wal_checkpoint({mode})");
            let ask = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
            let (frames, copied) = connection.query_row(&checkpoint, [], ask).unwrap();
            assert!(0 < copied && copied < frames, "{copied} of {frames}");
            let expected = value(&connection, "t");
            let new = through(&plain, "a.db");
            assert_eq!(value(&new, "t") == expected, is_there, "{mode}");
            if is_there {
                assert_eq!(value(&new, "u"), value(&connection, "u"));
                beside.execute_batch("COMMIT").unwrap();
                connection.execute_batch(&checkpoint).unwrap();
                assert_eq!(value(&through(&plain, "a.db"), "u"), value(&connection, "u"));
                assert_sound(&connection);
            }
        }
    }
}

/// A commit during a PASSIVE checkpoint makes it one of less than the whole log, too.
#[test]
fn a_checkpoint_beside_a_commit_is_in_the_file() {
    let rules = [
        (GatheredDatabase::new as fn(_) -> _, true),
        (GatheredDatabase::in_each_checkpoint, false),
    ];
    for (number, (vfs_of, is_there)) in rules.into_iter().enumerate() {
        let during: Arc<Mutex<Option<Connection>>> = Arc::default();
        let hook = {
            let during = Arc::clone(&during);
            move |call| {
                // SQLite has decided what to copy when it syncs the log.
                let is_due = call == Call::Sync(FileKind::Wal);
                if let Some(writer) = is_due.then(|| during.lock().unwrap().take()).flatten() {
                    writer.execute_batch("UPDATE u SET x = 2").unwrap();
                }
                Ok(())
            }
        };
        let vfs = Arc::new(MemoryVfs::default());
        let plain = register(&format!("pages-commit-plain-{number}"), Arc::clone(&vfs)).unwrap();
        let gathers = vfs_of(Hooked::new(Arc::clone(&vfs), hook));
        let gathers = register(&format!("pages-commit-{number}"), gathers).unwrap();
        let connection = through(&gathers, "a.db");
        set_journal_mode(&connection, "wal");
        let setup = "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;
            CREATE TABLE t (x); CREATE TABLE u (x); INSERT INTO t VALUES (0); INSERT INTO u VALUES (0);
            PRAGMA wal_checkpoint; UPDATE t SET x = 1";
        connection.execute_batch(setup).unwrap();
        let writer = through(&plain, "a.db");
        writer.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
        *during.lock().unwrap() = Some(writer);

        connection.execute_batch("PRAGMA wal_checkpoint").unwrap();
        assert!(during.lock().unwrap().is_none(), "nothing was committed meanwhile");
        let new = through(&plain, "a.db");
        let read = |table| new.query_row(&format!("SELECT x FROM {table}"), [], |row| row.get(0));
        let numbers: (i64, i64) = (read("t").unwrap(), read("u").unwrap());
        assert_eq!(numbers, (i64::from(is_there), 2));
    }
}

/// A full disk: the transaction is rolled back, or the checkpoint is made once more.
#[test]
fn what_cannot_be_written_is_rolled_back() {
    for (mode, checkpoint_mode) in [("delete", "PASSIVE"), ("wal", "PASSIVE"), ("wal", "TRUNCATE")]
    {
        let number = format!("{mode}-{checkpoint_mode}");
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
        let checkpoint = format!("PRAGMA wal_checkpoint({checkpoint_mode})");
        let checkpoint = writer.query_row(&checkpoint, [], |_| Ok(()));
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
