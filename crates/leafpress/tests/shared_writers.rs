//! Writers that share a database, in one process: the file `-shared`, those who cannot share and why,
//! and a sync that fails. Processes are killed and stopped in `leafpress-testing`, `shared_members`.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use leafpress::profile::Locking;
use leafpress::vfs::{PlatformVfs, register};
use leafpress::writer::{SharingStats, Writer};
use leafpress::{Error, ErrorKind, Profile};
use leafpress_testing::faults::{Fault, FaultFile, FaultyVfs, IoKind, Lasting, Rule};
use rusqlite::Connection;

const INSERT: &str = "INSERT INTO t VALUES (?1)";
const PAGE_BYTES: usize = 4_096;
const CALLERS: i64 = 4;
const OF_THE_IDLE: i64 = -5;

struct Place {
    folder: tempfile::TempDir,
    database: PathBuf,
    shared: PathBuf,
}

impl Place {
    fn new() -> Self {
        Self::named("a.db")
    }

    fn named(name: impl AsRef<OsStr>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join(name.as_ref());
        let mut shared = database.clone().into_os_string();
        shared.push("-shared");
        let shared = shared.into();
        let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(id)";
        Connection::open(&database).unwrap().execute_batch(sql).unwrap();
        Self { folder, database, shared }
    }

    fn open(&self) -> Writer {
        Writer::builder(&self.database).shared().open().unwrap()
    }

    fn rows(&self) -> i64 {
        let connection = Connection::open(&self.database).unwrap();
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    fn has(&self, id: i64) -> bool {
        let connection = Connection::open(&self.database).unwrap();
        let sql = "SELECT count(*) FROM t WHERE id = ?1";
        connection.query_row(sql, [id], |row| row.get::<_, i64>(0)).unwrap() > 0
    }

    /// Opens a writer that cannot share, but writes; the reason.
    fn why_not(&self) -> String {
        let before = self.rows();
        let writer = self.open();
        writer.execute(INSERT, [1]).unwrap();
        let why_not = sharing(&writer).why_not.expect("it shares");
        writer.close().unwrap();
        assert_eq!(self.rows(), before + 1);
        why_not
    }
}

/// Returns true if an error leaves no doubt that the call may not count as written.
fn is_told(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::OutcomeUnknown { .. } | ErrorKind::Stopped { .. })
}

fn sharing(writer: &Writer) -> SharingStats {
    writer.stats().sharing.expect("it was asked to share")
}

fn write(writer: &Writer, rows: i64) {
    for id in 0..rows {
        writer.execute(INSERT, [id]).unwrap();
    }
}

#[track_caller]
fn assert_shares(writer: &Writer, members: u64) {
    let sharing = sharing(writer);
    assert_eq!((sharing.why_not, sharing.members), (None, members));
}

#[test]
fn writers_of_one_process_share_and_the_last_removes_the_file() {
    let place = Place::new();
    let writers = [place.open(), place.open(), place.open()];
    std::thread::scope(|scope| {
        for writer in &writers {
            scope.spawn(|| write(writer, 50));
        }
    });
    for writer in &writers {
        assert_shares(writer, 3);
        let sharing = sharing(writer);
        assert!(sharing.own_syncs + sharing.syncs_of_others + sharing.lonely_syncs >= 50);
    }
    let [one, two, three] = writers;
    one.close().unwrap();
    two.close().unwrap();
    assert_shares(&three, 1);
    assert!(place.shared.exists());
    three.close().unwrap();
    assert!(!place.shared.exists());
    assert_eq!(place.rows(), 150);
}

#[test]
#[cfg(target_os = "linux")] // macOS takes no such names.
fn a_database_whose_name_is_not_utf_8_can_be_shared() {
    use std::os::unix::ffi::OsStrExt as _;

    let place = Place::named(OsStr::from_bytes(b"a\xff.db"));
    let (one, other) = (place.open(), place.open());
    write(&one, 3);
    write(&other, 3);
    assert_shares(&one, 2);
    assert!(place.shared.exists());
    drop((one, other));
    assert_eq!(place.rows(), 6);
}

#[test]
fn each_profile_can_be_shared() {
    for profile in [Profile::Durable, Profile::Relaxed, Profile::Rollback, Profile::Rebuildable] {
        let place = Place::new();
        let open = || {
            let builder = Writer::builder(&place.database).profile(profile).rebuildable_ok();
            builder.shared().open().unwrap()
        };
        let (one, other) = (open(), open());
        std::thread::scope(|scope| {
            for writer in [&one, &other] {
                scope.spawn(|| write(writer, 20));
            }
        });
        assert_shares(&one, 2);
        let syncs = sharing(&one).own_syncs + sharing(&one).syncs_of_others;
        assert_eq!(syncs > 0, profile == Profile::Durable, "{profile}");
        drop((one, other));
        assert_eq!(place.rows(), 40, "{profile}");
    }
}

#[test]
fn writers_that_cannot_share_say_why() {
    let place = Place::new();
    let alone = Writer::builder(&place.database).profile(Profile::Rollback);
    let alone = alone.locking(Locking::Exclusive).shared().open().unwrap();
    assert!(sharing(&alone).why_not.unwrap().contains("exclusive locking"));
    alone.close().unwrap();
    let _registration = register("of-a-caller", PlatformVfs::new()).unwrap();
    let named = Writer::builder(&place.database).vfs("of-a-caller").shared().open().unwrap();
    assert!(sharing(&named).why_not.unwrap().contains("the VFS that was named"));
    assert!(!place.shared.exists());
}

/// The kind, the length and the content of what is at a path.
fn facts(path: &Path) -> (u32, u64, Option<Vec<u8>>) {
    let facts = fs::symlink_metadata(path).unwrap();
    let content = facts.is_file().then(|| fs::read(path).unwrap());
    (facts.mode(), facts.ino(), content)
}

#[test]
fn another_thing_at_the_place_of_the_file_stays_as_it_is() {
    type Make = fn(&Path);
    let things: [(&str, Make); 7] = [
        ("a short text", |path| fs::write(path, "hello").unwrap()),
        ("a text as long as a page", |path| fs::write(path, [b'a'; PAGE_BYTES]).unwrap()),
        ("our name in a file that is too long", |path| {
            fs::write(path, [b"LPshare1".as_slice(), &[0; PAGE_BYTES]].concat()).unwrap();
        }),
        ("a folder", |path| fs::create_dir(path).unwrap()),
        ("a pipe", |path| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
        ("a link to another file", |path| {
            let other = path.with_file_name("other");
            fs::write(&other, [0; PAGE_BYTES]).unwrap();
            symlink(other, path).unwrap();
        }),
        ("a link to nothing", |path| symlink(path.with_file_name("none"), path).unwrap()),
    ];
    for (thing, make) in things {
        let place = Place::new();
        make(&place.shared);
        let before = facts(&place.shared);
        let why_not = place.why_not();
        assert!(why_not.contains("a.db-shared"), "{thing}: {why_not}");
        assert_eq!(facts(&place.shared), before, "{thing}");
        if let Ok(other) = fs::read(place.folder.path().join("other")) {
            assert_eq!(other, [0; PAGE_BYTES], "{thing}");
        }
        assert!(!place.folder.path().join("none").exists(), "{thing}");
    }
}

#[test]
fn a_file_that_the_killed_have_left_is_cleared() {
    for name in ["LPshare1", "LPshare0", "\0\0\0\0\0\0\0\0"] {
        let place = Place::new();
        let left = [name.as_bytes(), &b"LPbroken".repeat(PAGE_BYTES / 8 - 1)].concat();
        fs::write(&place.shared, left).unwrap();
        let (one, other) = (place.open(), place.open());
        assert_shares(&one, 2);
        assert_shares(&other, 2);
        one.execute(INSERT, [1]).unwrap();
        other.execute(INSERT, [2]).unwrap();
        drop((one, other));
        assert!(!place.shared.exists());
    }
}

#[test]
fn a_file_of_another_version_in_use_is_left_to_it() {
    let place = Place::new();
    let of_another = place.open();
    let file = File::options().read(true).write(true).open(&place.shared).unwrap();
    file.write_all_at(&u64::from_le_bytes(*b"LPshare2").to_ne_bytes(), 0).unwrap();
    let why_not = place.why_not();
    assert!(why_not.contains("another version of leafpress"), "{why_not}");
    of_another.execute(INSERT, [1]).unwrap();
    assert!(place.shared.exists());
}

#[test]
fn members_of_a_file_that_was_removed_go_on_beside_those_of_a_new_one() {
    let place = Place::new();
    let old = place.open();
    fs::remove_file(&place.shared).unwrap();
    let new = place.open();
    assert_shares(&old, 1);
    assert_shares(&new, 1);
    std::thread::scope(|scope| {
        for writer in [&old, &new] {
            scope.spawn(|| write(writer, 50));
        }
    });
    drop(old);
    assert!(place.shared.exists(), "it is not that of the old one");
    drop(new);
    assert!(!place.shared.exists());
    assert_eq!(place.rows(), 100);
}

#[test]
fn only_those_who_may_write_the_database_may_open_the_file() {
    for (database, file) in [(0o640, 0o600), (0o664, 0o660), (0o644, 0o600), (0o666, 0o666)] {
        let place = Place::new();
        fs::set_permissions(&place.database, fs::Permissions::from_mode(database)).unwrap();
        let writer = place.open();
        assert_eq!(fs::metadata(&place.shared).unwrap().mode() & 0o777, file);
        drop(writer);
    }
}

/// Runs `work` as a user who is not root, on this thread and those that it starts; root may do
/// whatever a mode forbids.
#[cfg(target_os = "linux")]
fn as_other_user(work: impl FnOnce() + Send) {
    use rustix::process::{Uid, getuid};
    use rustix::thread::set_thread_res_uid;

    std::thread::scope(|scope| {
        scope.spawn(|| {
            if getuid().is_root() {
                let other_user = Uid::from_raw(65534);
                set_thread_res_uid(other_user, other_user, other_user).unwrap();
            }
            work();
        });
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_without_rights_is_left_alone() {
    let place = Place::new();
    fs::write(&place.shared, "").unwrap();
    for (path, mode) in [
        (place.folder.path(), 0o777),
        (place.database.as_path(), 0o666),
        (place.shared.as_path(), 0o000),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    as_other_user(|| {
        let why_not = place.why_not();
        assert!(why_not.contains("Permission denied"), "{why_not}");
    });
    assert_eq!(fs::metadata(&place.shared).unwrap().len(), 0);
}

/// Writes until a call fails, from several threads for each writer; the number of rows that were
/// acknowledged, and the first error of each thread.
fn write_until_it_fails(writers: &[Writer]) -> (i64, Vec<Error>) {
    std::thread::scope(|scope| {
        let callers = writers.iter().flat_map(|writer| (0..CALLERS).map(move |_| writer));
        let threads: Vec<_> = callers
            .map(|writer| {
                scope.spawn(|| {
                    let mut acknowledged = 0;
                    loop {
                        match writer.execute(INSERT, [acknowledged]) {
                            Ok(_) => acknowledged += 1,
                            Err(error) => return (acknowledged, error),
                        }
                    }
                })
            })
            .collect();
        let ends: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        (ends.iter().map(|end| end.0).sum(), ends.into_iter().map(|end| end.1).collect())
    })
}

#[test]
fn after_a_sync_that_failed_no_member_answers_with_success() {
    for lasting in [Lasting::Once, Lasting::FromThenOn] {
        let place = Place::new();
        let disk = FaultyVfs::new(PlatformVfs::new());
        let control = disk.control();
        let _registration = register("of-a-disk-that-fails", disk).unwrap();
        let open = || {
            let builder = Writer::builder(&place.database).vfs("of-a-disk-that-fails");
            builder.shared_beside(&place.database).open()
        };
        let [writers @ .., idle] = [(); 4].map(|()| open().unwrap());
        assert_shares(&idle, 4);
        let (io, file, nth) = (Some(IoKind::Sync), Some(FaultFile::Wal), 20);
        control.arm([Rule { io, file, nth, fault: Fault::Error, lasting }]);
        let (acknowledged, errors) = write_until_it_fails(&writers);
        for error in &errors {
            assert!(is_told(error), "{lasting:?}: {error}");
        }
        assert!(errors.iter().any(Error::is_outcome_unknown), "{lasting:?}: {errors:?}");
        for writer in &writers {
            assert!(writer.stopped().is_some(), "{lasting:?}");
            writer.execute(INSERT, [-1]).unwrap_err();
        }
        let late = open().unwrap_err().to_string();
        assert!(late.contains("a sync of its log"), "{late}");
        control.disarm();
        // Stopped if its checkpointer has seen the failure already: then the call was not begun.
        let error = idle.execute(INSERT, [OF_THE_IDLE]).unwrap_err();
        assert!(is_told(&error), "{lasting:?}: {error}");
        drop((writers, idle));
        assert!(error.is_outcome_unknown() || !place.has(OF_THE_IDLE), "{lasting:?}: {error}");
        // The system has them still: the power has not failed.
        assert!(place.rows() >= acknowledged, "{lasting:?}");
        let anew = open().unwrap();
        anew.execute(INSERT, [-2]).unwrap();
        assert_shares(&anew, 1);
    }
}
