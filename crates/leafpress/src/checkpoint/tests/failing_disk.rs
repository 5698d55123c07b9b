//! The checkpointer on a disk that fails: errors are counted and tried again, the
//! writer goes on, nothing is lost, and `stop` says what is where. Only a failed sync
//! is the end of it.
//!
//! The disk is the platform's; it only refuses to write or to sync databases (not their
//! WALs, or the writer's commits would fail too) as long as it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use super::{PlainWriter, assert_sound, eventually, new_database, small_limits, wal_file_bytes};
use crate::checkpoint::worker::checkpoint;
use crate::checkpoint::{CheckpointLimits, Checkpointer};
use crate::error::ErrorKind;
use crate::vfs::{
    FileKind, FileLayer, OpenFlags, Opened, PlatformVfs, SyncKind, Vfs, VfsError, VfsFile,
    VfsLayer, VfsResult, register,
};

/// Switches by which a test makes the disk fail, and a count of its syncs.
#[derive(Debug, Default)]
struct Told {
    fails_writes: AtomicBool,
    /// Writes that fail do so because the disk is full.
    is_full: AtomicBool,
    fails_syncs: AtomicBool,
    database_syncs: AtomicU32,
}

struct Disk {
    inner: PlatformVfs,
    told: Arc<Told>,
}

impl VfsLayer for Disk {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let is_database = flags.kind() == FileKind::MainDb;
        let Opened { file, flags } = self.inner.open(path, flags)?;
        let told = is_database.then(|| Arc::clone(&self.told));
        Ok(Opened { file: Box::new(File { inner: file, told }), flags })
    }
}

struct File {
    inner: Box<dyn VfsFile>,
    /// The switches of a database; other files have none.
    told: Option<Arc<Told>>,
}

impl FileLayer for File {
    fn below(&self) -> &dyn VfsFile {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.inner
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        if let Some(told) = self.told.as_ref().filter(|told| told.fails_writes.load(SeqCst)) {
            let is_full = told.is_full.load(SeqCst);
            return Err(if is_full { VfsError::FULL } else { VfsError::IO_WRITE });
        }
        self.inner.write(bytes, offset)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        if let Some(told) = &self.told {
            told.database_syncs.fetch_add(1, SeqCst);
            if told.fails_syncs.load(SeqCst) {
                return Err(VfsError::IO_SYNC);
            }
        }
        self.inner.sync(kind)
    }
}

#[test]
fn a_disk_that_fails_costs_nothing_but_time() {
    let told = Arc::new(Told::default());
    let disk = Disk { inner: PlatformVfs::new(), told: Arc::clone(&told) };
    let name = "checkpoint-failing-disk";
    let registration = register(name, disk).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (path, connection) = new_database(&folder);
    let limits = small_limits();
    let gate = limits.gate();
    let start =
        || Checkpointer::start(&path, Some(name), &limits, Arc::clone(&gate), None, || None);
    let checkpointer = start().unwrap();
    let writer = PlainWriter::new(connection, Arc::clone(&gate));

    told.fails_writes.store(true, SeqCst);
    for _ in 0..1_000 {
        writer.insert();
    }
    eventually("an error is counted", || checkpointer.stats().errors > 0);
    let stats = checkpointer.stats();
    assert!(stats.last_error.is_some(), "{stats:?}");
    assert_eq!(stats.writer_waits_broken_off, 0, "{stats:?}");

    told.fails_writes.store(false, SeqCst);
    eventually("the WAL is cut", || wal_file_bytes(&path) == 0);

    told.fails_writes.store(true, SeqCst);
    for _ in 0..100 {
        writer.insert();
    }
    told.is_full.store(true, SeqCst);
    let error = checkpointer.stop().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSpace { .. }), "{error}");
    assert!(error.state_on_disk().is_some() && error.advice().is_some(), "{error}");
    assert!(wal_file_bytes(&path) > 100 * 4096, "nothing is thrown away");
    drop((writer, registration));
    assert_sound(&path, 1_100);
}

/// A later sync does not report what a failed one lost: only the WAL has it.
#[test]
fn after_a_failed_sync_the_wal_is_left_alone() {
    let told = Arc::new(Told::default());
    let disk = Disk { inner: PlatformVfs::new(), told: Arc::clone(&told) };
    let name = "checkpoint-failed-sync";
    let registration = register(name, disk).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (path, connection) = new_database(&folder);
    let limits = small_limits();
    let gate = limits.gate();
    let checkpointer =
        Checkpointer::start(&path, Some(name), &limits, Arc::clone(&gate), None, || None).unwrap();
    let writer = PlainWriter::new(connection, Arc::clone(&gate));

    told.fails_syncs.store(true, SeqCst);
    let mut rows = 1_000;
    eventually("it breaks off", || {
        writer.insert();
        rows += 1;
        gate.broken().is_some()
    });
    told.fails_syncs.store(false, SeqCst);
    for _ in 0..1_000 {
        writer.insert();
    }
    let error = checkpointer.stop().unwrap_err();
    assert!(error.state_on_disk().is_some() && error.advice().is_some(), "{error}");
    assert!(wal_file_bytes(&path) > 1_000 * 4096, "nothing is thrown away");
    drop((writer, registration));
    assert_sound(&path, rows);
}

#[test]
fn a_pass_beside_the_writer_syncs_the_database() {
    let told = Arc::new(Told::default());
    let disk = Disk { inner: PlatformVfs::new(), told: Arc::clone(&told) };
    let name = "checkpoint-counted-syncs";
    let registration = register(name, disk).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (path, connection) = new_database(&folder);
    connection.execute_batch("INSERT INTO t (x) VALUES (1)").unwrap();
    let through =
        rusqlite::Connection::open_with_flags_and_vfs(&path, rusqlite::OpenFlags::default(), name)
            .unwrap();
    // A reader of an old snapshot: SQLite itself would not sync the database.
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    connection.execute_batch("INSERT INTO t (x) VALUES (2)").unwrap();
    checkpoint(&through, "PASSIVE").unwrap();
    assert_eq!(told.database_syncs.load(SeqCst), 0);
    crate::vfs::database_file::sync(&through).unwrap();
    assert_eq!(told.database_syncs.load(SeqCst), 1);
    told.fails_syncs.store(true, SeqCst);
    let error = crate::vfs::database_file::sync(&through).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::SystemIoFailure), "{error}");
    drop((through, registration));
}

#[test]
fn each_pass_leaves_the_database_synced() {
    let told = Arc::new(Told::default());
    let disk = Disk { inner: PlatformVfs::new(), told: Arc::clone(&told) };
    let name = "checkpoint-passes";
    let registration = register(name, disk).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (path, connection) = new_database(&folder);
    // Passes only.
    let mut limits = CheckpointLimits { slice_frames: 20, ..CheckpointLimits::default() };
    limits.idle_before_truncate = Duration::from_secs(600);
    let gate = limits.gate();
    let checkpointer =
        Checkpointer::start(&path, Some(name), &limits, Arc::clone(&gate), None, || None).unwrap();
    let writer = PlainWriter::new(connection, gate);
    eventually("some passes beside the writer", || {
        (0..100).for_each(|_| writer.insert());
        checkpointer.stats().passes > 20
    });
    // Pages that a pass copied without a sync would be synced in the moment in which the writer is
    // held. The first pass may have had nothing to copy.
    let passes = checkpointer.stats().passes - 1;
    assert!(u64::from(told.database_syncs.load(SeqCst)) >= passes, "{passes} passes, {told:?}");
    drop(checkpointer);
    drop((writer, registration));
}

#[test]
fn a_folder_that_goes_away_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, connection) = new_database(&folder);
    let limits = small_limits();
    let gate = limits.gate();
    let checkpointer =
        Checkpointer::start(&path, None, &limits, Arc::clone(&gate), None, || None).unwrap();
    let writer = PlainWriter::new(connection, gate);
    writer.insert();
    drop(folder);
    // The files live on without a name, and so do those who have them open.
    for _ in 0..1_000 {
        writer.insert();
    }
    assert_eq!(writer.gate.held().broken_off, 0);
    // The close ends, with or without an error.
    let _ = checkpointer.stop();
}
