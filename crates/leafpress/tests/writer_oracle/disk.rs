//! A disk that is full, or breaks: the right callers are told, nothing that was
//! acknowledged is lost, and the Writer goes on or says that it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use leafpress::vfs::{
    FileLayer, OpenFlags, Opened, PlatformVfs, SyncKind, Vfs, VfsError, VfsFile, VfsLayer,
    VfsResult, register,
};
use leafpress::writer::Writer;
use leafpress::{ErrorKind, Profile};
use proptest::prelude::*;
use rusqlite::Connection;

use super::calls::words;
use super::oracle::hold;

/// What can go wrong with it, from any thread.
#[derive(Debug)]
struct Disk {
    /// No lasting file may become larger, in bytes.
    file_bytes_max: AtomicU64,
    /// Whether a write beyond that is an I/O error, and not a full disk.
    is_broken: AtomicBool,
    sync_fails: AtomicBool,
}

impl Disk {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            file_bytes_max: AtomicU64::new(u64::MAX),
            is_broken: AtomicBool::new(false),
            sync_fails: AtomicBool::new(false),
        })
    }
}

struct DiskVfs {
    inner: PlatformVfs,
    disk: Arc<Disk>,
}

impl VfsLayer for DiskVfs {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let Opened { file, flags } = self.inner.open(path, flags)?;
        let (disk, is_lasting) = (Arc::clone(&self.disk), flags.kind().is_lasting());
        Ok(Opened { file: Box::new(DiskFile { inner: file, disk, is_lasting }), flags })
    }
}

struct DiskFile {
    inner: Box<dyn VfsFile>,
    disk: Arc<Disk>,
    is_lasting: bool,
}

impl FileLayer for DiskFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.inner
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let end = offset + bytes.len() as u64;
        if self.is_lasting && end > self.disk.file_bytes_max.load(Ordering::SeqCst) {
            let is_broken = self.disk.is_broken.load(Ordering::SeqCst);
            return Err(if is_broken { VfsError::IO_WRITE } else { VfsError::FULL });
        }
        self.inner.write(bytes, offset)
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        if self.disk.sync_fails.load(Ordering::SeqCst) {
            return Err(VfsError::IO_SYNC);
        }
        self.inner.sync(kind)
    }
}

const MIB: u64 = 1 << 20;

/// A database on a disk of its own.
struct OnDisk {
    folder: tempfile::TempDir,
    disk: Arc<Disk>,
    writer: Writer,
    _registration: leafpress::vfs::Registration,
}

fn open(name: &str, profile: Profile) -> OnDisk {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::new();
    let vfs = DiskVfs { inner: PlatformVfs::new(), disk: Arc::clone(&disk) };
    let registration = register(name, vfs).expect("a new name");
    let builder = Writer::builder(folder.path().join("a.db")).profile(profile).vfs(name);
    let writer = builder.open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, big)").expect("a table");
    OnDisk { folder, disk, writer, _registration: registration }
}

impl OnDisk {
    /// One group of calls that insert so many bytes each; how each ended.
    fn insert(&self, first_id: i64, sizes: &[u64]) -> Vec<Result<(), String>> {
        let held = hold(&self.writer);
        let sql = "INSERT INTO t VALUES(?1, zeroblob(?2))";
        let ids = first_id..;
        let tickets: Vec<_> = ids
            .zip(sizes)
            .map(|(id, &size)| self.writer.submit(sql, [id, size as i64]).expect("taken"))
            .collect();
        held.release();
        tickets.into_iter().map(|it| it.wait().map(drop).map_err(|it| words(&it))).collect()
    }

    /// As a reader that knows nothing of the broken disk sees it.
    fn ids(&self) -> Vec<i64> {
        let connection = Connection::open(self.folder.path().join("a.db")).expect("a connection");
        let sound: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(sound, "ok");
        let mut statement = connection.prepare("SELECT id FROM t ORDER BY id").expect("a query");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.map(|row| row.expect("a number")).collect()
    }
}

#[test]
fn on_a_full_disk_only_what_does_not_fit_fails() {
    for (profile, name) in [
        (Profile::Relaxed, "full-relaxed"),
        (Profile::Durable, "full-durable"),
        (Profile::Rollback, "full-rollback"),
    ] {
        let on_disk = open(name, profile);
        on_disk.disk.file_bytes_max.store(MIB, Ordering::SeqCst);
        // Large enough to be written before the commit, and too large only then.
        for large in [8 * MIB, MIB] {
            let outcomes = on_disk.insert(large as i64, &[10, large, 10, 20]);
            let full = Err("13: database or disk is full".to_owned());
            assert_eq!(outcomes, [Ok(()), full, Ok(()), Ok(())], "{name}, {large} bytes");
        }
        on_disk.disk.file_bytes_max.store(u64::MAX, Ordering::SeqCst);
        assert_eq!(on_disk.insert(1, &[8 * MIB]), [Ok(())], "{name}: there is room again");
        let expected: Vec<i64> = [MIB as i64, 8 * MIB as i64]
            .into_iter()
            .flat_map(|first| [first, first + 2, first + 3])
            .collect();
        assert_eq!(on_disk.ids(), [vec![1], expected].concat(), "{name}");
        assert_eq!(on_disk.writer.stopped(), None);
    }
}

#[test]
fn an_io_error_in_a_statement_fails_its_call_alone() {
    let on_disk = open("broken-write", Profile::Relaxed);
    on_disk.disk.is_broken.store(true, Ordering::SeqCst);
    on_disk.disk.file_bytes_max.store(MIB, Ordering::SeqCst);
    let outcomes = on_disk.insert(1, &[10, 8 * MIB, 10]);
    let broken = Err("778: disk I/O error".to_owned());
    assert_eq!(outcomes, [Ok(()), broken, Ok(())]);
    assert_eq!(on_disk.ids(), [1, 3]);
    assert_eq!(on_disk.writer.stopped(), None);
}

#[test]
fn a_sync_that_fails_leaves_the_outcome_unknown_and_stops_the_writer() {
    for (profile, name) in
        [(Profile::Durable, "sync-durable"), (Profile::Rollback, "sync-rollback")]
    {
        let on_disk = open(name, profile);
        assert_eq!(on_disk.insert(1, &[10, 10]), [Ok(()), Ok(())], "{name}");
        let held = hold(&on_disk.writer);
        let insert = "INSERT INTO t VALUES(?1, ?1)";
        let tickets: Vec<_> =
            [3, 1, 4].map(|id| on_disk.writer.submit(insert, [id]).expect("taken")).into();
        held.release_unknown(|| on_disk.disk.sync_fails.store(true, Ordering::SeqCst));
        let kinds: Vec<String> = tickets
            .into_iter()
            .map(|ticket| match ticket.wait().expect_err("no sync, no success").kind() {
                ErrorKind::OutcomeUnknown { .. } => "unknown".to_owned(),
                ErrorKind::Constraint { reason, .. } => reason.clone(),
                other => format!("{other:?}"),
            })
            .collect();
        // What failed by itself is known to have failed.
        assert_eq!(kinds, ["unknown", "UNIQUE constraint failed: t.id", "unknown"], "{name}");
        // Callers are answered first.
        while on_disk.writer.stopped().is_none() {
            std::thread::yield_now();
        }
        let late = on_disk.writer.submit(insert, [5]).map(|_| ()).expect_err("it has stopped");
        assert!(matches!(late.kind(), ErrorKind::Stopped { .. }), "{name}: {late}");
        on_disk.disk.sync_fails.store(false, Ordering::SeqCst);
        let _ = on_disk.writer.clone().close();
        let ids = on_disk.ids();
        assert!(ids == [1, 2] || ids == [1, 2, 3, 4], "{name}: {ids:?}");
    }
}

/// A statement that is alone, and has run before, commits itself.
#[test]
fn a_statement_that_commits_itself_says_what_became_of_it() {
    for (profile, name) in [
        (Profile::Durable, "itself-durable"),
        (Profile::Relaxed, "itself-relaxed"),
        (Profile::Rollback, "itself-rollback"),
    ] {
        let on_disk = open(name, profile);
        let insert = |id: i64, bytes: u64| {
            on_disk.writer.execute("INSERT INTO t VALUES(?1, zeroblob(?2))", [id, bytes as i64])
        };
        for id in 1..4 {
            insert(id, 10).expect("it fits");
        }
        on_disk.disk.file_bytes_max.store(MIB, Ordering::SeqCst);
        // Large enough to be written before the commit, and too large only then.
        for large in [8 * MIB, MIB] {
            let full = insert(4, large).map_err(|it| words(&it)).expect_err("it does not fit");
            assert_eq!(full, "13: database or disk is full", "{name}");
            assert_eq!(on_disk.ids(), [1, 2, 3], "{name}");
        }
        on_disk.disk.is_broken.store(true, Ordering::SeqCst);
        let broken = insert(4, 8 * MIB).map_err(|it| words(&it)).expect_err("it breaks");
        assert_eq!(broken, "778: disk I/O error", "{name}");
        assert_eq!(on_disk.ids(), [1, 2, 3], "{name}");
        on_disk.disk.file_bytes_max.store(u64::MAX, Ordering::SeqCst);
        insert(4, 8 * MIB).expect("there is room again");
        insert(5, 10).expect("there is room again");
        on_disk.disk.sync_fails.store(true, Ordering::SeqCst);
        if profile == Profile::Relaxed {
            insert(6, 10).expect("no sync, and none is needed");
            assert_eq!(on_disk.writer.stopped(), None);
            continue;
        }
        let error = insert(6, 10).expect_err("no sync, no success");
        assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{name}: {error}");
        let late = insert(7, 10).expect_err("it has stopped");
        assert!(matches!(late.kind(), ErrorKind::Stopped { .. }), "{name}: {late}");
        on_disk.disk.sync_fails.store(false, Ordering::SeqCst);
        let _ = on_disk.writer.clone().close();
        let ids = on_disk.ids();
        assert!(ids == [1, 2, 3, 4, 5] || ids == [1, 2, 3, 4, 5, 6], "{name}: {ids:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Whatever the sizes and the room: what was answered with success is
    /// there, what failed is not, and the writer goes on.
    #[test]
    fn what_was_acknowledged_fits_and_the_rest_is_not_there(
        groups in prop::collection::vec(prop::collection::vec(0..400_000_u64, 1..8), 1..4),
        room in 100_000..1_500_000_u64, is_wal: bool,
    ) {
        let profile = if is_wal { Profile::Relaxed } else { Profile::Rollback };
        let name = format!("any-room-{room}-{is_wal}-{:?}", std::thread::current().id());
        let on_disk = open(&name, profile);
        on_disk.disk.file_bytes_max.store(room, Ordering::SeqCst);
        let mut expected = Vec::new();
        for (group, at) in groups.iter().zip(0..) {
            let first_id = 100 * at;
            for (outcome, id) in on_disk.insert(first_id, group).into_iter().zip(first_id..) {
                match outcome {
                    Ok(()) => expected.push(id),
                    Err(reason) => prop_assert_eq!(reason, "13: database or disk is full"),
                }
            }
        }
        prop_assert_eq!(on_disk.ids(), expected);
        on_disk.disk.file_bytes_max.store(u64::MAX, Ordering::SeqCst);
        prop_assert_eq!(on_disk.insert(10_000, &[1_000_000]), vec![Ok(())]);
    }
}
