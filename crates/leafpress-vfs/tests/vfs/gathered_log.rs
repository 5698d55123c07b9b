//! Gathered writes to the log: what a connection reads, what is in the file and when, and what is
//! left of a transaction that failed.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use leafpress_vfs::gathered_log::{GatheredLog, gathered_log_vfs};
use leafpress_vfs::{
    FileKind, OpenFlags as Flags, PlatformVfs, ShmLock, SyncKind, Vfs, VfsError, VfsFile,
    WriteLock, register,
};
use proptest::prelude::*;
use rusqlite::{Connection, OpenFlags};

use crate::hooked::{Call, Hooked};
use crate::memory_vfs::MemoryVfs;
use crate::{assert_commits_are_seen, assert_sound, count, rows, set_journal_mode, through, work};

const LOG: &str = "/a.db-wal";
const PAGE_BYTES: usize = 512;
const FRAME_BYTES: usize = 24 + PAGE_BYTES;

fn log_flags() -> Flags {
    Flags::WAL | Flags::CREATE | Flags::READ_WRITE
}

/// A step of SQLite on a log, as SQLite does them.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A frame behind the last one, written in two parts or three.
    Append {
        fill: u8,
        split: Option<usize>,
    },
    /// The last frame of a transaction, and the headers of so many frames written again.
    Commit {
        fill: u8,
        headers_again: usize,
    },
    /// The page of a frame of this transaction, again.
    Again {
        back: usize,
        fill: u8,
    },
    /// The last frames of this transaction do not count any more.
    RollBack {
        frames: usize,
    },
    Read {
        at: usize,
        bytes: usize,
    },
    Sync,
    /// The transaction is rolled back, and another connection writes so many frames.
    GiveWay {
        frames: usize,
        fill: u8,
    },
    /// Zeros behind all that was written.
    MakeRoom {
        bytes: usize,
    },
    /// A new log in the same file.
    Rewind,
}

fn step() -> impl Strategy<Value = Step> {
    let fill = any::<u8>;
    prop_oneof![
        6 => (fill(), prop::option::of(1..PAGE_BYTES)).prop_map(|(fill, split)| Step::Append { fill, split }),
        2 => (fill(), 0..3_usize).prop_map(|(fill, headers_again)| Step::Commit { fill, headers_again }),
        1 => (0..6_usize, fill()).prop_map(|(back, fill)| Step::Again { back, fill }),
        1 => (1..6_usize).prop_map(|frames| Step::RollBack { frames }),
        3 => (0..20_000_usize, 1..2_000_usize).prop_map(|(at, bytes)| Step::Read { at, bytes }),
        1 => Just(Step::Sync),
        1 => (0..4_usize, fill()).prop_map(|(frames, fill)| Step::GiveWay { frames, fill }),
        1 => prop::sample::select(vec![100, 5_000, 70_000]).prop_map(|bytes| Step::MakeRoom { bytes }),
        1 => Just(Step::Rewind),
    ]
}

fn log_header() -> [u8; 32] {
    let mut header = [7; 32];
    header[8..12].copy_from_slice(&(PAGE_BYTES as u32).to_be_bytes());
    header
}

/// A log that is written through the layer, and the bytes that it must have.
struct Log {
    vfs: Arc<MemoryVfs>,
    lock: Arc<WriteLock>,
    file: Box<dyn VfsFile>,
    expected: Vec<u8>,
    /// Frames of finished transactions, and of this one too.
    committed: usize,
    frames: usize,
}

impl Log {
    fn new() -> Self {
        Self::through(GatheredLog::new)
    }

    fn through(layer: impl Fn(Arc<MemoryVfs>) -> GatheredLog<Arc<MemoryVfs>>) -> Self {
        let (vfs, lock) = (Arc::new(MemoryVfs::default()), Arc::new(WriteLock::default()));
        let layer = layer(Arc::clone(&vfs));
        let file = lock.open_log(|| layer.open(Some(LOG), log_flags()).unwrap().file);
        let log = Self { vfs, lock, file, expected: Vec::new(), committed: 0, frames: 0 };
        log.ask(ShmLock::LockExclusive);
        log
    }

    /// Takes the lock of writers, or gives it back.
    fn ask(&self, lock: ShmLock) {
        self.lock.note_shm_lock(0, lock, true);
    }

    /// Another connection writes frames behind the finished transactions, straight to the file.
    fn other_writes(&mut self, frames: usize, fill: u8) {
        let mut other = self.vfs.open(Some(LOG), log_flags()).unwrap().file;
        other.write(&log_header(), 0).unwrap();
        self.expected = self.vfs.bytes(LOG);
        let (at, bytes) = (32 + self.committed * FRAME_BYTES, vec![fill; frames * FRAME_BYTES]);
        other.write(&bytes, at as u64).unwrap();
        self.expected.resize(self.expected.len().max(at + bytes.len()), 0);
        self.expected[at..][..bytes.len()].copy_from_slice(&bytes);
        self.committed += frames;
        self.frames = self.committed;
    }

    fn write(&mut self, bytes: &[u8], at: usize) {
        self.file.write(bytes, at as u64).unwrap();
        let end = at + bytes.len();
        self.expected.resize(self.expected.len().max(end), 0);
        self.expected[at..end].copy_from_slice(bytes);
    }

    fn begin(&mut self) {
        self.write(&log_header(), 0);
        (self.committed, self.frames) = (0, 0);
    }

    fn header(&mut self, frame: usize, fill: u8, ends: bool) {
        let mut header = [fill; 24];
        header[4..8].copy_from_slice(&u32::from(ends).to_be_bytes());
        self.write(&header, 32 + frame * FRAME_BYTES);
    }

    fn page(&mut self, frame: usize, fill: u8, split: Option<usize>) {
        let (page, at) = ([fill; PAGE_BYTES], 32 + frame * FRAME_BYTES + 24);
        let (first, second) = page.split_at(split.unwrap_or(PAGE_BYTES));
        self.write(first, at);
        if !second.is_empty() {
            self.file.sync(SyncKind { full: false, data_only: false }).unwrap();
            self.write(second, at + first.len());
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Append { fill, split } => {
                self.header(self.frames, fill, false);
                self.page(self.frames, fill, split);
                self.frames += 1;
            }
            Step::Commit { fill, headers_again } => {
                self.header(self.frames, fill, true);
                self.page(self.frames, fill, None);
                self.frames += 1;
                for frame in self.frames.saturating_sub(headers_again)..self.frames {
                    self.header(frame, fill ^ 1, frame + 1 == self.frames);
                }
                self.committed = self.frames;
                self.assert_all_is_in_the_file();
            }
            Step::Again { back, fill } if self.frames > self.committed => {
                let oldest = self.committed;
                self.page(oldest.max(self.frames - 1 - back.min(self.frames - 1)), fill, None);
            }
            Step::RollBack { frames } => {
                self.frames = self.committed.max(self.frames.saturating_sub(frames));
            }
            Step::Read { at, bytes } => {
                let mut buffer = vec![9; bytes];
                let read = self.file.read(&mut buffer, at as u64).unwrap();
                let there = self.expected.len().saturating_sub(at).min(bytes);
                assert_eq!(read, there);
                assert_eq!(buffer[..read], self.expected[at.min(self.expected.len())..][..read]);
            }
            Step::Sync => {
                self.file.sync(SyncKind { full: true, data_only: false }).unwrap();
                self.assert_all_is_in_the_file();
            }
            Step::GiveWay { frames, fill } => {
                self.ask(ShmLock::UnlockExclusive);
                self.other_writes(frames, fill);
                self.assert_all_is_in_the_file();
                self.ask(ShmLock::LockExclusive);
            }
            Step::MakeRoom { bytes } => self.write(&vec![0; bytes], self.expected.len()),
            Step::Rewind if self.frames == self.committed => self.begin(),
            Step::Again { .. } | Step::Rewind => {}
        }
        assert_eq!(self.file.size().unwrap(), self.expected.len() as u64);
    }

    fn assert_all_is_in_the_file(&self) {
        assert!(self.vfs.bytes(LOG) == self.expected, "bytes are missing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_file_is_what_was_written(steps in prop::collection::vec(step(), 1..80), reopen in 0..80_usize) {
        let mut log = Log::new();
        log.begin();
        for (index, step) in steps.into_iter().enumerate() {
            if index == reopen && log.frames == log.committed {
                // A connection that did not write the log's header.
                log.file.sync(SyncKind { full: true, data_only: false }).unwrap();
                let vfs = GatheredLog::new(Arc::clone(&log.vfs));
                let open = || vfs.open(Some(LOG), log_flags()).unwrap().file;
                log.file = log.lock.open_log(open);
            }
            log.run(step);
        }
    }
}

#[test]
fn a_frame_that_ends_a_transaction_is_in_the_file_and_no_frame_before_it() {
    for (vfs_of, is_there) in
        [(GatheredLog::new as fn(_) -> _, true), (GatheredLog::without_commits, false)]
    {
        let mut log = Log::through(vfs_of);
        log.begin();
        log.header(0, 1, false);
        log.page(0, 1, None);
        assert!(log.vfs.bytes(LOG).is_empty());
        log.header(1, 1, true);
        log.page(1, 1, None);
        assert_eq!(log.vfs.bytes(LOG) == log.expected, is_there);
    }
}

#[test]
fn nothing_is_gathered_where_the_lock_is_not_known_or_not_held() {
    let mut log = Log::new();
    log.ask(ShmLock::UnlockExclusive);
    log.begin();
    log.header(0, 1, false);
    log.assert_all_is_in_the_file();
    log.file = GatheredLog::new(Arc::clone(&log.vfs)).open(Some(LOG), log_flags()).unwrap().file;
    log.ask(ShmLock::LockExclusive);
    log.page(0, 1, None);
    log.assert_all_is_in_the_file();
}

/// A transaction whose pages were written early is rolled back, others commit to the same place of the
/// log, and this connection reads and writes again. The platform's own files, and files of ours.
#[test]
fn what_was_rolled_back_does_not_come_over_what_others_commit() {
    let platforms = gathered_log_vfs().expect("the platform's VFS is the default").to_owned();
    let ours = |name, layer: GatheredLog<PlatformVfs>| register(name, layer).unwrap();
    let forgets = ours("gathered-forgets", GatheredLog::new(PlatformVfs::new()));
    let never = ours("gathered-never", GatheredLog::without_forgetting(PlatformVfs::new()));
    let name = |it: &leafpress_vfs::Registration| it.name().to_str().unwrap().to_owned();
    for (vfs, is_sound) in [(platforms, true), (name(&forgets), true), (name(&never), false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let flags = OpenFlags::default();
        let ours = Connection::open_with_flags_and_vfs(&path, flags, vfs.as_str()).unwrap();
        set_journal_mode(&ours, "wal");
        let setup = "PRAGMA cache_size = 5; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)";
        ours.execute_batch(setup).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
        let fill = |rows| {
            format!(
                "INSERT INTO t WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n
                 WHERE i < {rows}) SELECT randomblob(3000) FROM n"
            )
        };
        // So many frames that some are in the file, and some are gathered.
        ours.execute_batch(&format!("BEGIN; {}; ROLLBACK", fill(40))).unwrap();
        other.execute_batch(&fill(60)).unwrap();
        let sound = |connection: &Connection| {
            let check = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0));
            check.is_ok_and(|it: String| it == "ok")
        };
        let reads = sound(&ours) && count(&ours, "t") == 60;
        let writes = ours.execute_batch("INSERT INTO t VALUES (1)").is_ok();
        // As after a crash: the files alone.
        let copy = folder.path().join("b.db");
        fs::copy(&path, &copy).unwrap();
        fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
        let copy = Connection::open(&copy).unwrap();
        let kept = sound(&copy) && count(&copy, "t") == 61;
        assert_eq!((reads && writes, kept), (is_sound, is_sound), "{vfs}");
    }
}

/// Number of rows that another process finds when this one is killed.
fn after_a_kill(vfs: &MemoryVfs, name: &str) -> i64 {
    let left = MemoryVfs::default();
    for (path, kind) in [("/a.db", Flags::MAIN_DB), (LOG, Flags::WAL)] {
        let flags = kind | Flags::CREATE | Flags::READ_WRITE;
        left.open(Some(path), flags).unwrap().file.write(&vfs.bytes(path), 0).unwrap();
    }
    let registration = register(name, left).unwrap();
    let connection = through(&registration, "a.db");
    assert_sound(&connection);
    // The table may be lost, too.
    connection.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap_or(0)
}

#[test]
fn a_killed_process_loses_no_commit() {
    for (number, synchronous) in ["off", "normal", "full"].into_iter().enumerate() {
        let lost = [GatheredLog::new as fn(_) -> _, GatheredLog::without_commits].map(|vfs_of| {
            let vfs = Arc::new(MemoryVfs::default());
            let registration = register(&format!("gathered-kill-{number}"), vfs_of(vfs.clone()));
            let registration = registration.unwrap();
            let connection = through(&registration, "a.db");
            set_journal_mode(&connection, "wal");
            let pragma = format!("PRAGMA synchronous = {synchronous}; CREATE TABLE t (x)");
            connection.execute_batch(&pragma).unwrap();
            (1..=20).fold(0, |lost, row| {
                connection.execute("INSERT INTO t VALUES (zeroblob(3000))", ()).unwrap();
                lost + row - after_a_kill(&vfs, &format!("gathered-killed-{number}"))
            })
        });
        // Only a sync would save the commits that are kept back.
        let [kept, kept_back] = lost;
        assert_eq!((kept, kept_back == 0), (0, synchronous == "full"), "{synchronous}");
    }
}

/// Another connection, which does not go through the layer, sees each commit.
#[test]
fn another_connection_sees_each_commit() {
    for (number, synchronous) in ["off", "normal", "full", "extra"].into_iter().enumerate() {
        let vfs = Arc::new(MemoryVfs::default());
        let plain = register(&format!("gathered-plain-{number}"), Arc::clone(&vfs)).unwrap();
        let gathers = GatheredLog::new(Arc::clone(&vfs));
        let gathers = register(&format!("gathered-{number}"), gathers).unwrap();
        let (writer, reader) = (through(&gathers, "a.db"), through(&plain, "a.db"));
        set_journal_mode(&writer, "wal");
        // So small a cache writes pages of a transaction early, and again.
        let pragmas = format!("PRAGMA synchronous = {synchronous}; PRAGMA cache_size = 5");
        writer.execute_batch(&pragmas).unwrap();
        work(&writer);
        assert_commits_are_seen(&writer, &reader, synchronous);
    }
}

#[test]
fn a_transaction_is_one_write() {
    let writes = Arc::new(AtomicU32::new(0));
    let hook = {
        let writes = Arc::clone(&writes);
        move |call| {
            writes.fetch_add(u32::from(call == Call::Write(FileKind::Wal)), Ordering::Relaxed);
            Ok(())
        }
    };
    let vfs = GatheredLog::new(Hooked::new(MemoryVfs::default(), hook));
    let registration = register("gathered-writes", vfs).unwrap();
    let connection = through(&registration, "a.db");
    set_journal_mode(&connection, "wal");
    connection.execute_batch("PRAGMA synchronous = FULL; CREATE TABLE t (x)").unwrap();
    for pages in [1, 3, 13] {
        let before = writes.load(Ordering::Relaxed);
        let insert = "INSERT INTO t VALUES (zeroblob(?1))";
        connection.execute(insert, [pages * 4000]).unwrap();
        assert_eq!(writes.load(Ordering::Relaxed) - before, 1, "{pages} pages");
    }
}

/// A full disk: the transaction is rolled back, and does not come back from memory.
#[test]
fn what_cannot_be_written_is_forgotten() {
    let is_full = Arc::new(AtomicBool::new(false));
    let hook = {
        let is_full = Arc::clone(&is_full);
        move |call| match call {
            Call::Write(FileKind::Wal) if is_full.load(Ordering::Relaxed) => Err(VfsError::FULL),
            _ => Ok(()),
        }
    };
    let vfs = Arc::new(MemoryVfs::default());
    let plain = register("gathered-full-plain", Arc::clone(&vfs)).unwrap();
    let gathers = GatheredLog::new(Hooked::new(Arc::clone(&vfs), hook));
    let gathers = register("gathered-full", gathers).unwrap();
    let writer = through(&gathers, "a.db");
    set_journal_mode(&writer, "wal");
    let schema = "PRAGMA synchronous = NORMAL; PRAGMA cache_size = 5; CREATE TABLE t (x)";
    writer.execute_batch(schema).unwrap();
    let fill = "INSERT INTO t SELECT randomblob(3000) FROM generate_series(1, 300)";
    let fill = fill.replace(
        "generate_series(1, 300)",
        "(WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i FROM n)",
    );
    for sql in ["INSERT INTO t VALUES (zeroblob(9000))", fill.as_str()] {
        is_full.store(true, Ordering::Relaxed);
        writer.execute_batch(sql).unwrap_err();
        is_full.store(false, Ordering::Relaxed);
        assert_eq!(count(&writer, "t"), 0, "{sql}");
        writer.execute_batch("INSERT INTO t VALUES (1); DELETE FROM t").unwrap();
        // A connection that comes after a crash reads the log alone.
        assert_eq!(count(&through(&plain, "a.db"), "t"), 0, "{sql}");
        assert_sound(&writer);
    }
}

/// The VFS of the process: databases are the platform's own files.
#[test]
fn only_logs_go_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(vfs) = gathered_log_vfs() else { panic!("the platform's VFS is the default") };
    // Not UTF-8: the platform opens this log by itself.
    for name in [&b"a.db"[..], b"\xff.db"] {
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
        let flags = OpenFlags::default();
        let open = || Connection::open_with_flags_and_vfs(&path, flags, vfs).unwrap();
        let connection = open();
        set_journal_mode(&connection, "wal");
        connection.execute_batch("PRAGMA mmap_size = 1000000").unwrap();
        work(&connection);
        assert_eq!(leafpress_vfs::connection::vfs_name(&connection).as_deref(), Some("unix"));
        let beside = Connection::open(&path).unwrap();
        assert_eq!(rows(&connection), rows(&beside));
        beside.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert!(open().execute_batch("DELETE FROM t").is_err(), "locks are the same");
        beside.execute_batch("COMMIT").unwrap();
        drop((connection, beside));
        assert!(!fs::exists(path.with_extension("db-wal")).unwrap());
        assert_sound(&open());
    }
}
