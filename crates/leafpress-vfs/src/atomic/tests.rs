//! The calls that reach a disk that writes pages whole, and those that do not.
//!
//! The disk is a pretended one over the platform's files: it writes with an ordinary
//! write and notes everything. That it keeps its word when the power is cut is the
//! crash simulator's matter, what a real disk does that of the tests on one.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags as Flags};

use super::*;
use crate::{PlatformVfs, Registration, VfsError, register};

/// Database files that are never closed, as closing one drops SQLite's locks.
static FILES: Mutex<Option<HashMap<String, Arc<File>>>> = Mutex::new(None);

#[derive(Default)]
struct Seen {
    steps: Vec<String>,
    names: u128,
    fails: bool,
}

#[derive(Clone, Default)]
struct Pretended(Arc<Mutex<Seen>>);

impl Pretended {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The steps since the last call.
    fn steps(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().steps)
    }
}

struct PretendedFile(Pretended, Arc<File>);

impl AtomicFile for PretendedFile {
    fn units(&self) -> AtomicUnits {
        AtomicUnits { bytes_min: 4096, bytes_max: 8192, by: AtomicProof::Assumed }
    }

    fn write(&self, page: &[u8], offset: u64) -> VfsResult<()> {
        if self.0.seen().fails {
            return Err(VfsError::IO_WRITE);
        }
        self.1.write_all_at(page, offset).map_err(|_| VfsError::IO_WRITE)?;
        self.0.seen().steps.push(format!("page {}", offset / page.len() as u64 + 1));
        Ok(())
    }
}

impl AtomicDisk for Pretended {
    fn open(
        &self,
        path: &str,
    ) -> VfsResult<std::result::Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        let mut files = FILES.lock().unwrap();
        let file = files.get_or_insert_default().entry(path.to_owned()).or_insert_with(|| {
            Arc::new(File::options().read(true).write(true).open(path).unwrap())
        });
        Ok(Ok(Arc::new(PretendedFile(self.clone(), Arc::clone(file)))))
    }

    fn sync_folder_of(&self, _path: &str) -> VfsResult<()> {
        self.seen().steps.push("sync folder".to_owned());
        Ok(())
    }

    fn sync_file(&self, _path: &str) -> VfsResult<()> {
        self.seen().steps.push("sync journal".to_owned());
        Ok(())
    }

    fn folder_stamp(&self, _path: &str) -> VfsResult<Option<Stamp>> {
        Ok(Some(Stamp(self.seen().names)))
    }

    fn file_stamp(&self, path: &str) -> VfsResult<FileStamp> {
        let is_there = std::path::Path::new(path).exists();
        Ok(if is_there { FileStamp::There(Some(Stamp(1))) } else { FileStamp::Absent })
    }
}

struct Scene {
    disk: Pretended,
    pages: Arc<AtomicPages<PlatformVfs>>,
    registration: Registration,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(name: &str) -> Self {
        let disk = Pretended::default();
        let pages = Arc::new(AtomicPages::new(PlatformVfs::new(), disk.clone()));
        let registration = register(name, Arc::clone(&pages)).unwrap();
        Self { disk, pages, registration, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> String {
        let folder = self.folder.path().canonicalize().unwrap();
        folder.join("a.db").to_str().unwrap().to_owned()
    }

    fn connect(&self) -> Connection {
        Connection::open_with_flags_and_vfs(self.path(), Flags::default(), self.registration.name())
            .unwrap()
    }

    fn has_journal(&self) -> bool {
        std::path::Path::new(&format!("{}-journal", self.path())).exists()
    }

    /// A table of two rows, of which each has a page of its own.
    fn two_pages(&self) -> Connection {
        let connection = self.connect();
        connection
            .execute_batch(
                "PRAGMA synchronous = EXTRA;
                 CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, fill BLOB);
                 INSERT INTO t VALUES (1, 0, zeroblob(3000)), (2, 0, zeroblob(3000));",
            )
            .unwrap();
        self.disk.steps();
        connection
    }
}

const ONE_ROW: &str = "UPDATE t SET n = n + 1 WHERE id = 1";

#[test]
fn one_row_is_a_page_in_place_and_the_counter_where_others_may_look() {
    let scene = Scene::new("atomic-one-row");
    let connection = scene.two_pages();
    let whole = AtomicState::Whole { by: AtomicProof::Assumed, page_bytes: 4096 };
    assert_eq!(scene.pages.state(&scene.path()), Some(whole));
    connection.execute_batch(ONE_ROW).unwrap();
    let first = scene.disk.steps();
    assert_eq!(first[..1], ["page 1"], "{first:?}");
    assert!(!scene.has_journal());
    let before: i64 =
        scene.connect().query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap();
    assert!(before > 0);
    let other = Connection::open(scene.path()).unwrap();
    let count = |at: &Connection| -> i64 {
        at.query_row("SELECT n FROM t WHERE id = 1", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(&other), 1);
    connection.execute_batch(ONE_ROW).unwrap();
    assert_eq!(count(&other), 2, "another connection reads what it has in its cache");
    assert_eq!(scene.disk.steps(), first);
}

#[test]
fn alone_it_is_one_page_and_after_a_larger_transaction_a_journal_until_it_is_closed() {
    let scene = Scene::new("atomic-exclusive");
    let connection = scene.two_pages();
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
    connection.execute_batch(ONE_ROW).unwrap();
    scene.disk.steps();
    connection.execute_batch(ONE_ROW).unwrap();
    let one_page = scene.disk.steps();
    assert_eq!(one_page.len(), 1, "{one_page:?}");
    connection.execute_batch("UPDATE t SET n = n + 1").unwrap();
    assert!(scene.pages.journal_is_open(&scene.path()));
    let open = AtomicState::Journal { why: WhyJournal::JournalOpen };
    assert_eq!(scene.pages.state(&scene.path()), Some(open));
    connection.execute_batch(ONE_ROW).unwrap();
    assert_eq!(scene.disk.steps(), Vec::<String>::new());
    connection.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA journal_mode = DELETE").unwrap();
    connection.execute_batch(ONE_ROW).unwrap();
    assert_eq!(scene.disk.steps(), one_page);
}

#[test]
fn what_others_did_to_names_is_synced_before_the_first_page() {
    let scene = Scene::new("atomic-others");
    let connection = scene.two_pages();
    connection.execute_batch(ONE_ROW).unwrap();
    scene.disk.steps();
    connection.execute_batch(ONE_ROW).unwrap();
    assert_eq!(scene.disk.steps().len(), 2);
    scene.disk.seen().names += 1;
    connection.execute_batch(ONE_ROW).unwrap();
    assert_eq!(scene.disk.steps()[..2], ["sync journal", "sync folder"]);
}

#[test]
fn a_journal_that_left_the_memory_is_synced_before_the_page_is_written() {
    let scene = Scene::new("atomic-spill");
    let connection = scene.two_pages();
    connection
        .execute_batch(
            "CREATE TABLE large (x BLOB);
             WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 60)
             INSERT INTO large SELECT zeroblob(3000) FROM c;
             PRAGMA cache_size = 1;",
        )
        .unwrap();
    scene.disk.steps();
    connection
        .execute_batch(&format!("BEGIN; {ONE_ROW}; SELECT sum(length(x)) FROM large;"))
        .unwrap();
    assert_eq!(scene.disk.steps(), ["sync journal", "sync folder"]);
    assert!(scene.has_journal());
    connection.execute_batch("COMMIT").unwrap();
    assert!(!scene.has_journal());
}

#[test]
fn a_write_that_fails_fails_its_transaction_and_then_there_is_a_journal() {
    for locking in ["NORMAL", "EXCLUSIVE"] {
        let scene = Scene::new(&format!("atomic-refused-{locking}"));
        let connection = scene.two_pages();
        connection.execute_batch(&format!("PRAGMA locking_mode = {locking}; {ONE_ROW}")).unwrap();
        scene.disk.steps();
        scene.disk.seen().fails = true;
        let error = connection.execute_batch(ONE_ROW).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::SystemIoFailure));
        assert_eq!(scene.disk.steps(), Vec::<String>::new());
        let refused = AtomicState::Journal { why: WhyJournal::Refused };
        assert_eq!(scene.pages.state(&scene.path()), Some(refused));
        for n in 2..5 {
            connection.execute_batch(ONE_ROW).unwrap();
            let found: i64 =
                connection.query_row("SELECT n FROM t WHERE id = 1", [], |row| row.get(0)).unwrap();
            assert_eq!(found, n, "{locking}");
        }
        let sound: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}

#[test]
fn wal_mode_other_page_sizes_and_readers_are_left_alone() {
    let scene = Scene::new("atomic-not");
    let connection = scene.two_pages();
    connection.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    assert_eq!(scene.disk.steps().last().map(String::as_str), Some("page 1"));
    connection.execute_batch(&format!("{ONE_ROW}; PRAGMA wal_checkpoint(TRUNCATE)")).unwrap();
    assert_eq!(scene.disk.steps(), Vec::<String>::new());
    assert_eq!(
        scene.pages.state(&scene.path()),
        Some(AtomicState::Journal { why: WhyJournal::Wal })
    );
    connection
        .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM")
        .unwrap();
    scene.disk.steps();
    connection.execute_batch(ONE_ROW).unwrap();
    assert_eq!(scene.disk.steps(), ["sync folder"], "after the journal was deleted");
    let state = scene.pages.state(&scene.path()).unwrap();
    assert!(state.to_string().contains("pages of 1024 bytes"), "{state}");
    connection.execute_batch("PRAGMA page_size = 8192; VACUUM").unwrap();
    scene.disk.steps();
    connection.execute_batch(ONE_ROW).unwrap();
    assert_eq!(scene.disk.steps().last().map(|step| &step[..4]), Some("page"));
}

#[test]
fn this_build_can_do_it() {
    check_compile_options().unwrap();
}
