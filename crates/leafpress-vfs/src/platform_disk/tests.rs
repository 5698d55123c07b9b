//! Whole pages and stamps, on whatever file system the temporary folder is. Real atomic
//! writes are tried by `leafpress-testing/tests/atomic_real.rs`, on one that has them.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::PlatformDisk;
use crate::VfsError;
use crate::atomic::{AtomicDisk, AtomicFile, AtomicProof, FileStamp, NoAtomicWrites};

/// A folder with a database in it, and a connection that has never heard of us.
struct Database {
    _folder: tempfile::TempDir,
    path: PathBuf,
    plain: Connection,
}

impl Database {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let plain = Connection::open(&path).unwrap();
        plain.busy_timeout(Duration::from_secs(60)).unwrap();
        plain.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        Self { _folder: folder, path, plain }
    }
}

fn opened(path: &Path) -> Arc<dyn AtomicFile> {
    let found = PlatformDisk::assuming().open(path.to_str().unwrap()).unwrap();
    found.unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn what_is_no_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("nothing")] {
        for disk in [PlatformDisk::new(), PlatformDisk::assuming()] {
            let found = disk.open(path.to_str().unwrap()).unwrap();
            assert_eq!(found.err(), Some(NoAtomicWrites::NotOpened));
        }
    }
}

#[test]
fn nothing_is_opened_where_there_are_no_atomic_writes() {
    let database = Database::new();
    match PlatformDisk::new().open(database.path.to_str().unwrap()).unwrap() {
        Ok(file) => assert!(file.units().bytes_max >= file.units().bytes_min),
        Err(why) => {
            assert!(matches!(why, NoAtomicWrites::NotTold | NoAtomicWrites::NotOffered), "{why}");
        }
    }
}

#[test]
fn an_assumed_page_is_written_as_it_is_and_nothing_but_a_page_is() {
    let database = Database::new();
    let ours = opened(&database.path);
    let units = ours.units();
    assert_eq!((units.bytes_min, units.bytes_max), (512, 65536));
    assert_eq!(units.by, AtomicProof::Assumed);
    let before = fs::read(&database.path).unwrap();
    for (bytes, offset) in [(256, 0), (1 << 17, 0), (4096, 512), (3000, 0)] {
        assert_eq!(
            ours.write(&vec![7; bytes], offset),
            Err(VfsError::IO_WRITE),
            "{bytes} {offset}"
        );
    }
    assert_eq!(ours.write(&[], 0), Err(VfsError::IO_WRITE));
    assert_eq!(fs::read(&database.path).unwrap(), before);
    // A row's value, changed behind SQLite's back.
    let mut page = before[4096..8192].to_vec();
    *page.last_mut().unwrap() = 42;
    database.plain.execute_batch("UPDATE t SET x = 5").unwrap();
    ours.write(&page, 4096).unwrap();
    assert_eq!(fs::read(&database.path).unwrap()[4096..8192], page);
}

#[test]
fn journals_and_folders_are_synced_and_a_missing_journal_is_fine() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("a.db-journal");
    let name = journal.to_str().unwrap();
    let disk = PlatformDisk::new();
    disk.sync_file(name).unwrap();
    fs::write(&journal, "x").unwrap();
    disk.sync_file(name).unwrap();
    disk.sync_folder_of(name).unwrap();
    let nowhere = folder.path().join("no folder/a.db");
    assert_eq!(disk.sync_folder_of(nowhere.to_str().unwrap()), Err(VfsError::IO_SYNC_FOLDER));
    // A journal whose folder was taken for a file is no missing journal.
    let within = journal.join("a.db-journal");
    assert_eq!(disk.sync_file(within.to_str().unwrap()), Err(VfsError::IO_SYNC));
}

#[test]
fn stamps_change_with_every_name_and_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("a.db-journal");
    let name = journal.to_str().unwrap();
    let disk = PlatformDisk::new();
    assert_eq!(disk.file_stamp(name), Ok(FileStamp::Absent));
    let Some(mut folder_seen) = disk.folder_stamp(name).unwrap() else {
        fs::write(&journal, "x").unwrap();
        assert_eq!(disk.file_stamp(name), Ok(FileStamp::There(None)));
        let why = "no stamps here (they need Linux 6.13 and ext4, XFS, btrfs or tmpfs)";
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
        return;
    };
    let mut file_seen = FileStamp::Absent;
    for round in 0..20_000 {
        match round % 4 {
            0 => fs::write(&journal, "x").unwrap(),
            1 => fs::write(&journal, "y").unwrap(),
            2 => File::create(&journal).unwrap().set_len(0).unwrap(),
            _ => fs::remove_file(&journal).unwrap(),
        }
        let file = disk.file_stamp(name).unwrap();
        let folder = disk.folder_stamp(name).unwrap().unwrap();
        assert_ne!(file, file_seen, "round {round}");
        assert_eq!(folder != folder_seen, matches!(round % 4, 0 | 3), "round {round}");
        assert_eq!(disk.folder_stamp(name).unwrap(), Some(folder), "nothing was done");
        assert_eq!(disk.file_stamp(name).unwrap(), file, "nothing was done");
        (file_seen, folder_seen) = (file, folder);
    }
}

#[test]
fn without_proof_no_stamp_is_trusted() {
    let database = Database::new();
    let (disk, name) = (PlatformDisk::assuming(), database.path.to_str().unwrap());
    assert_eq!(disk.folder_stamp(name), Ok(None));
    assert_eq!(disk.file_stamp(name), Ok(FileStamp::There(None)));
    assert_eq!(disk.file_stamp(&format!("{name}-journal")), Ok(FileStamp::Absent));
}
