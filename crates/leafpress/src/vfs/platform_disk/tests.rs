//! Locks that must not be lost, files that are not what they were, and stamps: on
//! whatever file system the temporary folder is. Real atomic writes are tried by
//! `leafpress-testing/tests/atomic_real.rs`, on one that has them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use super::PlatformDisk;
use super::detect::{Facts, Inode};
use super::registry::{Descriptor, Way, count_of};
use crate::c_api::range_lock::lock_whole_file;
use crate::vfs::VfsError;
use crate::vfs::atomic::{AtomicDisk, AtomicFile, AtomicProof, FileStamp, NoAtomicWrites};

/// A folder with a database in it, and a connection that has never heard of us.
struct Database {
    folder: tempfile::TempDir,
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
        Self { folder, path, plain }
    }

    fn inode(&self) -> Inode {
        Facts::of_path(&self.path).unwrap().inode
    }

    fn open(&self) -> Arc<dyn AtomicFile> {
        opened(&self.path)
    }

    /// Another opening of the file, to ask for locks with. Closing it would drop those
    /// that a test is about, so it is kept.
    fn probe(&self) -> File {
        File::options().read(true).write(true).open(&self.path).unwrap()
    }
}

fn opened(path: &Path) -> Arc<dyn AtomicFile> {
    let found = PlatformDisk::assuming().open(path.to_str().unwrap()).unwrap();
    found.unwrap_or_else(|why| panic!("{why}"))
}

/// Opens and closes another database, which is when closing is tried again.
fn try_parked_again() {
    let another = Database::new();
    drop(another.open());
}

#[test]
fn a_descriptor_is_closed_with_its_last_user_if_nobody_holds_a_lock() {
    let database = Database::new();
    let first = database.open();
    let second = database.open();
    assert_eq!(count_of(database.inode()), 1, "they share it");
    let other_name = database.folder.path().join("b.db");
    fs::hard_link(&database.path, &other_name).unwrap();
    let third = opened(&other_name);
    assert_eq!(count_of(database.inode()), 1, "as it is the same file");
    drop((first, third));
    assert_eq!(count_of(database.inode()), 1);
    drop(second);
    assert_eq!(count_of(database.inode()), 0);
    // Nothing is left of the lock under which it was closed.
    assert!(lock_whole_file(&database.probe()).unwrap());
}

#[test]
fn locks_of_plain_connections_outlive_our_descriptor() {
    for begin in ["BEGIN; SELECT x FROM t", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
        let database = Database::new();
        let probe = database.probe();
        let ours = database.open();
        database.plain.execute_batch(begin).unwrap();
        drop(ours);
        assert!(!lock_whole_file(&probe).unwrap(), "the lock of {begin} was dropped");
        assert_eq!(count_of(database.inode()), 1, "parked");
        try_parked_again();
        assert!(!lock_whole_file(&probe).unwrap(), "the lock of {begin} was dropped later");

        let again = database.open();
        assert_eq!(count_of(database.inode()), 1, "used again");
        database.plain.execute_batch("COMMIT").unwrap();
        drop(again);
        assert_eq!(count_of(database.inode()), 0, "closed, as nobody holds a lock");
    }
}

#[test]
fn what_was_parked_is_closed_when_another_file_is_opened_or_released() {
    let database = Database::new();
    let ours = database.open();
    database.plain.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(ours);
    assert_eq!(count_of(database.inode()), 1);
    database.plain.execute_batch("COMMIT").unwrap();
    try_parked_again();
    assert_eq!(count_of(database.inode()), 0);
}

#[test]
fn no_lock_is_lost_while_files_come_and_go_on_another_thread() {
    let database = Database::new();
    let probe = database.probe();
    thread::scope(|scope| {
        let path = &database.path;
        let coming_and_going = scope.spawn(move || {
            for _ in 0..3_000 {
                drop(opened(path));
                // Else the other thread seldom finds it free.
                thread::sleep(Duration::from_micros(20));
            }
        });
        let mut rounds = 0;
        while rounds == 0 || !coming_and_going.is_finished() {
            database.plain.execute_batch("BEGIN IMMEDIATE").unwrap();
            assert!(!lock_whole_file(&probe).unwrap(), "round {rounds}: the lock is gone");
            database.plain.execute_batch("COMMIT").unwrap();
            rounds += 1;
        }
    });
}

#[test]
fn a_file_that_took_the_name_in_between_is_not_used() {
    for way in [Way::Direct, Way::Cached] {
        let database = Database::new();
        let asked = database.inode();
        let other = database.folder.path().join("other.db");
        fs::copy(&database.path, &other).unwrap();
        fs::rename(&other, &database.path).unwrap();
        let new = database.inode();
        assert_ne!(asked, new);
        let refused = Descriptor::of(&database.path, asked, way);
        assert!(refused.is_err());
        assert_eq!((count_of(asked), count_of(new)), (0, 0), "nothing stays open");
    }
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
            assert_eq!(count_of(database.inode()), 0);
        }
    }
}

#[test]
fn an_assumed_page_is_written_as_it_is_and_nothing_but_a_page_is() {
    let database = Database::new();
    let ours = database.open();
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
        println!("skipped: no stamps here (they need Linux 6.13 and ext4, XFS, btrfs or tmpfs)");
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
