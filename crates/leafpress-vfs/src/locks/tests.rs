//! Locks that must not be lost, on whatever file system the temporary folder is.
//!
//! Another copy of SQLite is played here by POSIX locks of this process; a real one is tried
//! by the crate `leafpress-neighbour`.

use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, Mode, OFlags, fcntl_lock};

use super::file_locks::Owner;
use super::table::{count_of, owner_of, reopen_parked};
use super::{FileHandle, Open, ensure};
use crate::c_api::for_tests::{
    close_standard_streams, give_lease_back, lock_byte_as_process, take_lease,
};
use crate::c_api::range_lock::{Bytes, How, Lock, ask, is_locked};
use crate::rights::Rights;

const PENDING: i64 = 0x4000_0000;
const RESERVED: Bytes = Bytes { start: PENDING + 1, length: 1 };
const SHARED: Bytes = Bytes { start: PENDING + 2, length: 510 };
const WAL_WRITE: Bytes = Bytes { start: 120, length: 1 };
const SHM_DEAD_MAN: Bytes = Bytes { start: 128, length: 1 };

/// A folder with a database in it, which no connection has open.
struct Database {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Database {
    fn new(journal_mode: &str) -> Self {
        ensure();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let database = Self { folder, path };
        let sql = format!("PRAGMA journal_mode={journal_mode}; CREATE TABLE t (x)");
        database.connect().execute_batch(&sql).unwrap();
        database
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        connection
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("a.db{suffix}"))
    }
}

/// The lock that another opening of the file finds there.
fn lock_at(path: &Path, bytes: Bytes) -> Lock {
    let probe = File::options().read(true).write(true).open(path).unwrap();
    ask(probe.as_raw_fd(), How::Get, Lock::Write, bytes).unwrap().lock
}

#[test]
fn a_held_transaction_keeps_its_locks_whatever_is_closed_beside_it() {
    for mode in ["wal", "delete"] {
        let database = Database::new(mode);
        let writer = database.connect();
        writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
        let held = || {
            if mode == "wal" {
                assert_eq!(lock_at(&database.beside("-shm"), WAL_WRITE), Lock::Write);
                assert_eq!(lock_at(&database.beside("-shm"), SHM_DEAD_MAN), Lock::Read);
            } else {
                assert_eq!(lock_at(&database.path, RESERVED), Lock::Write);
            }
            assert_eq!(lock_at(&database.path, SHARED), Lock::Read);
        };
        held();
        fs::read(&database.path).unwrap();
        for suffix in ["-wal", "-shm", "-journal"] {
            let _ = fs::read(database.beside(suffix));
        }
        fs::copy(&database.path, database.beside(".copy")).unwrap();
        held();
        drop(FileHandle::open(&database.path).unwrap());
        drop(FileHandle::open_as(&database.path, Open::ReadWrite).unwrap());
        drop(database.connect());
        held();
        assert_eq!(owner_of(&database.path), Some(Owner::Descriptor));
        writer.execute_batch("COMMIT").unwrap();
        drop(writer);
        assert_eq!(lock_at(&database.path, Bytes::ALL), Lock::None);
        assert_eq!(count_of(&database.path), 0, "closed");
    }
}

#[test]
fn locks_of_another_copy_outlive_our_descriptors() {
    for exclusive in [false, true] {
        let database = Database::new("delete");
        let other = File::options().read(true).write(true).open(&database.path).unwrap();
        let ours = database.connect();
        let file = FileHandle::open(&database.path).unwrap();
        let lock = if exclusive {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        fcntl_lock(&other, lock).unwrap();
        let refused = ours.execute_batch("BEGIN EXCLUSIVE").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
        drop((ours, file));
        assert_eq!(count_of(&database.path), 2, "parked");
        let probe = File::options().read(true).write(true).open(&database.path).unwrap();
        assert!(is_locked(&probe).unwrap(), "the other copy's lock is gone");
        // A file of another name, when closing is tried again.
        drop(FileHandle::create(database.beside(".other"), Rights::new_database()).unwrap());
        assert!(is_locked(&probe).unwrap(), "the other copy's lock is gone");

        let again = database.connect();
        drop(FileHandle::open(&database.path).unwrap());
        assert_eq!(count_of(&database.path), 2, "used again");
        fcntl_lock(&other, FlockOperation::Unlock).unwrap();
        drop(again);
        assert_eq!(count_of(&database.path), 0);
        assert!(!is_locked(&probe).unwrap());
    }
}

/// A process that is started has all descriptors until its `exec`; a copy of one stands for that.
#[test]
fn a_file_is_not_locked_by_what_a_started_process_still_has_open() {
    let database = Database::new("delete");
    let ours = FileHandle::open_as(&database.path, Open::ReadWrite).unwrap();
    let of_child = rustix::io::dup(&*ours).unwrap();
    drop(ours);
    assert_eq!(count_of(&database.path), 0, "closed");
    assert_eq!(lock_at(&database.path, Bytes::ALL), Lock::None);
    drop(of_child);
}

#[test]
fn parked_descriptors_are_closed_when_other_files_come_and_go() {
    let database = Database::new("delete");
    let other = File::options().read(true).write(true).open(&database.path).unwrap();
    let ours = FileHandle::open(&database.path).unwrap();
    fcntl_lock(&other, FlockOperation::NonBlockingLockShared).unwrap();
    drop(ours);
    assert_eq!(count_of(&database.path), 1);
    fcntl_lock(&other, FlockOperation::Unlock).unwrap();
    // Others' files may be parked before it in this process: each opening tries two.
    for number in 0..1000 {
        drop(
            FileHandle::create(database.beside(&format!(".{number}")), Rights::new_database())
                .unwrap(),
        );
        if count_of(&database.path) == 0 {
            return;
        }
    }
    panic!("it is never closed");
}

#[test]
fn a_file_that_is_opened_again_and_again_takes_few_descriptors() {
    let database = Database::new("wal");
    let held = database.connect();
    held.execute_batch("SELECT * FROM t").unwrap();
    for _ in 0..100 {
        drop(FileHandle::open(&database.path).unwrap());
        drop(FileHandle::open_as(&database.path, Open::ReadWrite).unwrap());
        drop(database.connect());
    }
    assert!(count_of(&database.path) <= 4, "{}", count_of(&database.path));
}

/// As on a file system that has no locks on whole files: a lock that a question by its own opening does
/// not show keeps all others out.
#[test]
fn a_file_that_cannot_be_locked_takes_few_descriptors() {
    let database = Database::new("delete");
    let ours = FileHandle::open_as(&database.path, Open::ReadWrite).unwrap();
    let number = ours.as_raw_fd();
    ask(number, How::Set, Lock::Read, SHARED).unwrap();
    drop(ours);
    for _ in 0..50 {
        drop(FileHandle::open_as(&database.path, Open::ReadWrite).unwrap());
        assert_eq!(count_of(&database.path), 2, "its own, and that of the try to close it");
    }
    ask(number, How::Set, Lock::None, SHARED).unwrap();
    drop(FileHandle::open_as(&database.path, Open::ReadWrite).unwrap());
    assert_eq!(count_of(&database.path), 0, "closed");
    assert_eq!(lock_at(&database.path, Bytes::ALL), Lock::None);
}

#[test]
fn a_descriptor_that_is_used_again_reads_from_the_beginning() {
    let database = Database::new("wal");
    let _held = database.connect();
    for _ in 0..2 {
        assert_eq!(&super::read(&database.path).unwrap()[..6], b"SQLite");
    }
}

#[test]
fn locks_go_over_to_a_descriptor_that_can_be_written() {
    let database = Database::new("delete");
    let reader = Connection::open_with_flags(&database.path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let reader = reader.unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    assert_eq!(lock_at(&database.path, SHARED), Lock::Read);
    let writer = database.connect();
    assert_eq!(lock_at(&database.path, SHARED), Lock::Read, "while it moved");
    writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(lock_at(&database.path, RESERVED), Lock::Write);
    let refused = writer.execute_batch("COMMIT").unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
    reader.execute_batch("COMMIT").unwrap();
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(lock_at(&database.path, Bytes::ALL), Lock::None);
}

#[test]
fn locks_go_over_to_a_parked_descriptor_that_can_be_written() {
    let database = Database::new("delete");
    let other = File::options().read(true).write(true).open(&database.path).unwrap();
    fcntl_lock(&other, FlockOperation::NonBlockingLockShared).unwrap();
    drop(FileHandle::open(&database.path).unwrap());
    reopen_parked(&database.path);
    assert_eq!(count_of(&database.path), 2, "parked: one to be read, one to be written");

    let writer = database.connect();
    assert_eq!(count_of(&database.path), 2, "a parked one is used again");
    fcntl_lock(&other, FlockOperation::Unlock).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(lock_at(&database.path, RESERVED), Lock::Write);
}

#[test]
fn no_lock_is_lost_while_files_come_and_go_on_another_thread() {
    let database = Database::new("delete");
    let held = database.connect();
    thread::scope(|scope| {
        let coming_and_going = scope.spawn(|| {
            for round in 0..2_000 {
                drop(FileHandle::open(&database.path).unwrap());
                if round % 10 == 0 {
                    drop(database.connect());
                }
            }
        });
        let mut rounds = 0;
        while rounds == 0 || !coming_and_going.is_finished() {
            held.execute_batch("BEGIN IMMEDIATE").unwrap();
            assert_eq!(lock_at(&database.path, RESERVED), Lock::Write, "round {rounds}");
            held.execute_batch("COMMIT").unwrap();
            rounds += 1;
        }
    });
}

#[test]
fn a_file_that_is_read_keeps_no_lock_of_a_connection_that_is_closed() {
    for mode in ["wal", "delete"] {
        let database = Database::new(mode);
        let held = database.connect();
        held.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
        let reading: Vec<_> = ["", "-wal", "-shm", "-journal"]
            .iter()
            .filter_map(|suffix| FileHandle::open(database.beside(suffix)).ok())
            .collect();
        assert_eq!(reading.len(), if mode == "wal" { 3 } else { 2 });
        drop(held);
        assert_eq!(lock_at(&database.path, Bytes::ALL), Lock::None);
        let again = database.connect();
        again.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1); COMMIT").unwrap();
        drop(reading);
        again.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (path, lock) = if mode == "wal" {
            (database.beside("-shm"), WAL_WRITE)
        } else {
            (database.path.clone(), RESERVED)
        };
        assert_eq!(lock_at(&path, lock), Lock::Write);
    }
}

#[test]
fn a_file_that_took_the_name_is_another() {
    let database = Database::new("delete");
    let held = database.connect();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    let other = database.beside(".new");
    fs::copy(&database.path, &other).unwrap();
    fs::rename(&other, &database.path).unwrap();
    let new = database.connect();
    new.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1); COMMIT").unwrap();
    assert_eq!(lock_at(&database.path, Bytes::ALL), Lock::None);
}

#[test]
fn what_is_no_regular_file_is_of_no_concern() {
    let folder = tempfile::tempdir().unwrap();
    let handle = FileHandle::open(folder.path()).unwrap();
    assert_eq!(count_of(folder.path()), 0);
    drop(handle);
    assert!(FileHandle::open(folder.path().join("nothing")).is_err());
    assert!(FileHandle::open("a\0b").is_err());
    let made = folder.path().join("made");
    drop(FileHandle::create(&made, Rights::new_database()).unwrap());
    assert!(FileHandle::create(&made, Rights::new_database()).is_err());
    fs::write(&made, "abc").unwrap();
    drop(FileHandle::open_as(&made, Open::Emptied).unwrap());
    assert_eq!(fs::metadata(&made).unwrap().len(), 0);
}

#[test]
fn the_lock_of_a_whole_file_goes_with_its_handle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let first = FileHandle::create(&path, Rights::new_database()).unwrap();
    // Its descriptor keeps that of the first one from being closed.
    let second = FileHandle::open_as(&path, Open::ReadWrite).unwrap();
    first.lock().unwrap();
    assert!(second.try_lock().is_err(), "the first one has it");
    drop(first);
    assert_eq!(count_of(&path), 2, "parked");
    second.try_lock().unwrap();
    drop(second);
    FileHandle::open_as(&path, Open::ReadWrite).unwrap().try_lock().unwrap();
}

#[test]
fn a_right_that_was_taken_away_is_not_given_by_a_parked_descriptor() {
    use std::os::unix::fs::PermissionsExt as _;

    if rustix::process::geteuid().is_root() {
        println!("as root every file may be read; the right is asked for by accessat");
    }
    let database = Database::new("wal");
    let held = database.connect();
    held.execute_batch("SELECT * FROM t").unwrap();
    drop(FileHandle::open(&database.path).unwrap());
    fs::set_permissions(&database.path, fs::Permissions::from_mode(0o0)).unwrap();
    let opened = FileHandle::open(&database.path);
    assert_eq!(opened.is_ok(), File::open(&database.path).is_ok());
}

/// A file server that has a lease on the file is waited for, as `open(2)` does; else SQLite would
/// take the database for one that can only be read.
#[test]
fn a_lease_of_a_file_server_is_waited_for() {
    let database = Database::new("delete");
    let other_file = database.beside(".other");
    fs::write(&other_file, "x").unwrap();
    let leased = File::open(&database.path).unwrap();
    if let Err(error) = take_lease(&leased) {
        println!("no leases on this file system: {error}");
        return;
    }
    thread::scope(|scope| {
        let opening = scope.spawn(|| {
            database.connect().execute_batch("INSERT INTO t VALUES (1)").unwrap();
        });
        thread::sleep(Duration::from_millis(100));
        assert!(!opening.is_finished(), "it waits");
        // The table is free meanwhile.
        drop(FileHandle::open(&other_file).unwrap());
        give_lease_back(&leased).unwrap();
        opening.join().unwrap();
    });
    // A process that another test starts has the file open for a moment.
    let began = Instant::now();
    while let Err(error) = take_lease(&leased) {
        assert!(began.elapsed() < Duration::from_secs(30), "{error}");
        thread::sleep(Duration::from_millis(1));
    }
    thread::scope(|scope| {
        let opening = scope.spawn(|| {
            for how in [Open::ReadWrite, Open::ReadWriteNoLink] {
                FileHandle::open_as(&database.path, how).unwrap();
            }
        });
        thread::sleep(Duration::from_millis(20));
        give_lease_back(&leased).unwrap();
        opening.join().unwrap();
    });
}

/// Number of databases that another process has open.
const FOREIGN: usize = 60;
/// Number of them whose files are too few to be looked at.
const FEW_FOREIGN: usize = 4;
/// A byte that SQLite does not lock, in a database or in its `-shm` file.
const UNUSED: Bytes = Bytes { start: 7, length: 1 };
const FOLDER: &str = "LEAFPRESS_TEST_FOLDER";

/// Databases that another process has open take no descriptors of this one once they are closed here.
/// The child process may have few, so the tests beside this one are not hurt.
#[test]
fn files_that_another_process_locks_are_closed() {
    beside_a_child("child_with_few_descriptors", FOREIGN);
}

/// The look at which of them may be closed needs a descriptor itself.
#[test]
fn files_that_another_process_locks_make_room_where_no_descriptor_is_left() {
    beside_a_child("child_without_a_descriptor", FEW_FOREIGN);
}

/// A test of this program in a process of its own.
///
/// The user is set, to what it is, because the standard library then starts the process with
/// `fork`, and no file is closed during that. With `posix_spawn` the child has all descriptors
/// for a moment, perhaps with the lock under which another test closes its file.
fn this_test_program(test: &str, folder: &Path) -> Command {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", test]).env(FOLDER, folder);
    program.uid(rustix::process::getuid().as_raw());
    program
}

/// Holds some databases while `child`, a test in a process of its own, writes a row into each.
fn beside_a_child(child: &str, databases: usize) {
    let folder = tempfile::tempdir().unwrap();
    let held: Vec<Connection> = (0..databases)
        .map(|number| {
            let connection = Connection::open(folder.path().join(format!("{number}.db"))).unwrap();
            let sql = "PRAGMA journal_mode=WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)";
            connection.execute_batch(sql).unwrap();
            connection
        })
        .collect();
    fs::write(folder.path().join("another"), "x").unwrap();
    let child = this_test_program(&format!("locks::tests::{child}"), folder.path())
        .arg("--nocapture")
        .output()
        .unwrap();
    let said =
        [child.stdout, child.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    assert!(child.status.success() && said.contains("all are written"), "{said}");
    for connection in &held {
        let rows = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        assert_eq!(rows, Ok(2));
    }
}

/// The work of the second test above in its child.
#[test]
fn child_without_a_descriptor() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    ensure();
    let database = |number: usize| folder.join(format!("{number}.db"));
    for number in 0..FEW_FOREIGN {
        let connection = Connection::open(database(number)).unwrap();
        connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    }
    assert!((0..FEW_FOREIGN).all(|number| count_of(&database(number)) > 0), "parked");
    // The one that is used keeps the file beside it open, which its lock cannot guard.
    let used = FileHandle::open(database(0)).unwrap();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let few = rustix::process::Rlimit { current: Some(200), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let mut others: Vec<OwnedFd> = Vec::new();
    while let Ok(other) = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        others.push(other);
    }
    fs::read_dir("/dev/fd").unwrap_err();
    drop(FileHandle::open(folder.join("another")).expect("there is room"));
    let are_closed = |number: usize| count_of(&database(number)) == 0;
    assert!((1..FEW_FOREIGN).all(are_closed));
    assert!(count_of(&database(0).with_extension("db-shm")) > 0);
    drop((used, others));
    println!("all are written");
}

/// The work of the first test above in its child.
#[test]
fn child_with_few_descriptors() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    ensure();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let few = rustix::process::Rlimit { current: Some(96), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let write = |number: usize| {
        let path = folder.join(format!("{number}.db"));
        Connection::open(&path).unwrap().execute_batch("INSERT INTO t VALUES (2)").unwrap();
        path
    };
    // The control: another copy of SQLite in this process has locks on two files.
    let first = write(0);
    let files = [first.clone(), first.with_extension("db-shm")];
    let other: Vec<File> = files
        .iter()
        .map(|path| {
            let file = File::options().read(true).write(true).open(path).unwrap();
            lock_byte_as_process(&file, UNUSED.start).unwrap();
            file
        })
        .collect();
    let is_held = |path: &Path| {
        let number = rustix::fs::open(path, OFlags::RDWR, Mode::empty()).unwrap();
        let found = ask(number.as_raw_fd(), How::Get, Lock::Write, UNUSED).unwrap().lock;
        // Closing it would drop the lock.
        std::mem::forget(number);
        found == Lock::Read
    };
    let parked = || files.each_ref().map(|path| count_of(path) > 0);
    assert_eq!(parked(), [true; 2]);
    for number in 1..FOREIGN {
        write(number);
    }
    assert_eq!(parked(), [true; 2], "closing them would drop a lock");
    assert!(files.iter().all(|path| is_held(path)));
    let descriptors = fs::read_dir("/dev/fd").unwrap().count();
    assert!(descriptors < 96, "{descriptors}");
    drop(other);
    println!("all are written");
}

/// Text for the standard error would go into the file that has its number.
#[test]
fn no_file_gets_the_number_of_a_closed_stream() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        let folder = tempfile::tempdir().unwrap();
        let test = "locks::tests::no_file_gets_the_number_of_a_closed_stream";
        let status = this_test_program(test, folder.path()).status().unwrap();
        assert!(status.success() && folder.path().join("app.db").exists(), "{status}");
        return;
    };
    ensure();
    close_standard_streams();
    let unnamed = crate::rights::unnamed_file(&folder).unwrap();
    assert!(unnamed.as_raw_fd() > 2);
    rustix::io::write(std::io::stderr(), b"as closed as before").unwrap_err();
    for _ in 0..2 {
        close_standard_streams();
        let pages = FileHandle::open(&folder).unwrap();
        assert!(pages.as_raw_fd() > 2);
        close_standard_streams();
        Connection::open(folder.join("app.db")).unwrap().execute_batch("VACUUM").unwrap();
        close_standard_streams();
        let made = FileHandle::create(folder.join("made"), Rights::new_database()).unwrap();
        assert!(made.as_raw_fd() > 2);
        fs::remove_file(folder.join("made")).unwrap();
    }
}
