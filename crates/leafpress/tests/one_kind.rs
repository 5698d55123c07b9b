//! One cause has one kind of error, by whichever way a database is reached.
//!
//! A table: for each cause, the kind that each way ends with. Ways that only read do not end
//! with an error where only writing is forbidden. What depends on rights is tried as a user who
//! is not root, on a thread of its own.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use leafpress::load::{Column, ColumnType, Indexer, IntoTable, Loader};
use leafpress::profile::{self, ProfileRequest};
use leafpress::queue::Queue;
use leafpress::verify::{VerifyOptions, verify};
use leafpress::writer::Writer;
use leafpress::{Profile, Result};
use leafpress_testing::Mount;
use rusqlite::Connection;

/// As short as can be: what is locked here stays locked.
const WAIT: Duration = Duration::from_millis(10);

/// One way into a database.
type Way = (&'static str, fn(&Path, Profile) -> Result<()>);

const WRITING: [Way; 6] = [
    ("load", |path, _| {
        let loader = Loader::new(path).table("t").into_table(IntoTable::Append);
        let loader = loader.create_missing(true).busy_timeout(WAIT);
        loader.load_rows(&[Column::new("a", ColumnType::Integer)], [(1_i64,)]).map(drop)
    }),
    ("index", |path, _| Indexer::new(path, "t").busy_timeout(WAIT).build("a").map(drop)),
    ("profile::open", |path, profile| {
        let request = ProfileRequest::new(profile).busy_timeout(WAIT);
        profile::open(path, &request).map(drop)
    }),
    ("writer", |path, profile| writer(path, profile).map(drop)),
    ("queue", |path, profile| Queue::open(&writer(path, profile)?, "q").map(drop)),
    ("load into a new table", |path, _| {
        let loader = Loader::new(path).table("new").busy_timeout(WAIT);
        loader.load_rows(&[Column::new("a", ColumnType::Integer)], [(1_i64,)]).map(drop)
    }),
];

const READING: [Way; 3] = [
    ("reader", |path, _| profile::open_reader(path, None).map(drop)),
    ("verify", |path, _| verify(path, &VerifyOptions::default()).map(drop)),
    ("input", |path, _| {
        let folder = tempfile::tempdir().expect("a folder");
        let input = format!("{}::t", path.display());
        Loader::new(folder.path().join("new.db")).load_file(input).map(drop)
    }),
];

fn writer(path: &Path, profile: Profile) -> Result<Writer> {
    Writer::builder(path).profile(profile).busy_limit(WAIT).open()
}

/// A database in a folder of its own.
struct Place {
    folder: tempfile::TempDir,
    profile: Profile,
}

impl Place {
    fn new(journal_mode: &str) -> Self {
        let profile = if journal_mode == "WAL" { Profile::Durable } else { Profile::Rollback };
        let place = Self { folder: tempfile::tempdir().expect("a folder"), profile };
        let connection = place.plain();
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode={journal_mode}; CREATE TABLE t(a); INSERT INTO t VALUES (1)"
            ))
            .expect("a database");
        connection.close().expect("it closes");
        place.allow(0o777, 0o666);
        place
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("a.db")
    }

    fn plain(&self) -> Connection {
        Connection::open(self.path()).expect("a connection")
    }

    fn allow(&self, folder: u32, file: u32) {
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        set(&self.path(), file).expect("a mode");
        set(self.folder.path(), folder).expect("a mode");
    }

    fn overwrite(&self, at: usize, bytes: &[u8]) {
        let mut content = fs::read(self.path()).expect("it is there");
        content[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(self.path(), content).expect("it is written");
    }

    /// Asserts that all these ways end with that kind, and leave the file as it was.
    ///
    /// One after the other: a way that ends with an error may hold a lock for a moment.
    fn expect(&self, cause: &str, path: &Path, ways: &[Way], kind: &str) {
        let before = fs::read(self.path()).ok();
        for (name, way) in ways {
            let error = way(path, self.profile).expect_err(&format!("{cause}, {name}"));
            assert_eq!(error.kind().name(), kind, "{cause}, {name}: {error}");
            assert!(error.state_on_disk().is_some(), "{cause}, {name}: {error}");
            assert!(error.advice().is_some(), "{cause}, {name}: {error}");
        }
        assert_eq!(fs::read(self.path()).ok(), before, "{cause}");
    }

    fn expect_all(&self, cause: &str, kind: &str) {
        self.expect(cause, &self.path(), &WRITING, kind);
        self.expect(cause, &self.path(), &READING, kind);
    }
}

/// Runs `work` as a user who is not root, on this thread and those that it starts; root may do
/// whatever a mode forbids.
fn as_other_user(work: impl FnOnce() + Send) {
    use rustix::process::{Uid, getuid};
    use rustix::thread::set_thread_res_uid;

    std::thread::scope(|scope| {
        scope.spawn(|| {
            if getuid().is_root() {
                let other_user = Uid::from_raw(65534);
                set_thread_res_uid(other_user, other_user, other_user)
                    .expect("root may become another");
            }
            work();
        });
    });
}

#[test]
fn what_is_missing_is_not_found() {
    let place = Place::new("DELETE");
    let path = place.folder.path().join("none/a.db");
    place.expect("missing folder", &path, &WRITING, "not_found");
    place.expect("missing folder", &path, &READING, "not_found");
    let path = place.folder.path().join("none.db");
    place.expect("missing file", &path, &READING, "not_found");
    let table = [WRITING[1], READING[2]];
    place.plain().execute_batch("ALTER TABLE t RENAME TO other").expect("it is free");
    place.expect("missing table", &place.path(), &table, "not_found");
}

/// The schema's page is no page. `verify` is not among the ways: damage is its result.
#[test]
fn a_damaged_database_is_told_as_such() {
    let place = Place::new("DELETE");
    place.overwrite(100, &[0; 8]);
    let read = [READING[0], READING[2]];
    place.expect("damaged", &place.path(), &WRITING, "damaged");
    place.expect("damaged", &place.path(), &read, "damaged");
    let place = Place::new("DELETE");
    let writer = writer(&place.path(), place.profile).expect("it is sound");
    let pages = fs::metadata(place.path()).expect("it is there").len() as usize / 4096;
    place.overwrite((pages - 1) * 4096, &[0xee; 4096]);
    let error = writer.execute("INSERT INTO t VALUES (2)", ()).expect_err("it is damaged");
    assert_eq!(error.kind().name(), "damaged", "a statement: {error}");
    let path = place.path().display().to_string();
    assert!(error.advice().is_some_and(|it| it.contains(&format!("verify {path} "))), "{error}");
    assert!(error.to_string().starts_with(&path), "{error}");
}

/// The limit is of a process, so a process of its own has it.
#[test]
fn a_thread_that_cannot_start_is_told_as_such() {
    const IS_CHILD: &str = "LEAFPRESS_TEST_WITHOUT_THREADS";
    if std::env::var_os(IS_CHILD).is_some() {
        return as_other_user(without_threads);
    }
    let program = std::env::current_exe().expect("this program");
    let child = std::process::Command::new(program)
        .args(["--exact", "a_thread_that_cannot_start_is_told_as_such", "--nocapture"])
        .env(IS_CHILD, "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

fn without_threads() {
    use leafpress::queue::{ClaimOptions, Outcome, Stop, Worker};
    use rustix::process::{Resource, Rlimit, setrlimit};

    let place = Place::new("WAL");
    let writer = writer(&place.path(), place.profile).expect("there are threads");
    let queue = Queue::open(&writer, "q").expect("there are threads");
    setrlimit(Resource::Nproc, Rlimit { current: Some(0), maximum: Some(0) }).expect("a limit");
    let other = place.folder.path().join("b.db");
    let waiting = ClaimOptions::new().wait(WAIT);
    let ways = [
        ("writer", Writer::builder(other).open().map(drop)),
        ("claim", queue.claim_with(&waiting).map(drop)),
        ("worker", Worker::new(&queue).run(&Stop::new(), |_| Outcome::Done).map(drop)),
        ("input", READING[2].1(&place.path(), place.profile)),
    ];
    for (way, outcome) in ways {
        let error = outcome.expect_err(way);
        assert_eq!(error.kind().name(), "thread", "{way}: {error}");
        assert!(error.advice().is_some(), "{way}: {error}");
    }
}

#[test]
fn a_database_that_is_held_is_busy() {
    let place = Place::new("DELETE");
    let holder = place.plain();
    holder.execute_batch("BEGIN EXCLUSIVE").expect("it is free");
    // Side by side: those that only read wait for five seconds.
    std::thread::scope(|scope| {
        for way in WRITING.iter().chain(&READING) {
            let place = &place;
            scope.spawn(move || place.expect("locked", &place.path(), &[*way], "busy"));
        }
    });
}

#[test]
fn what_is_no_database_is_told_as_such() {
    let text = Place::new("DELETE");
    fs::write(text.path(), "name,age\nAda,36\n".repeat(100)).expect("it is written");
    text.expect_all("a text", "not_a_database");
    let folder = Place::new("DELETE");
    folder.expect("a folder", folder.folder.path(), &WRITING, "not_a_database");
    folder.expect("a folder", folder.folder.path(), &READING, "not_a_database");
}

#[test]
fn a_format_of_a_newer_sqlite_is_told_as_such() {
    let schema = Place::new("DELETE");
    schema.overwrite(44, &5_u32.to_be_bytes());
    schema.expect_all("schema format", "not_a_database");
    let said = WRITING[0].1(&schema.path(), schema.profile).expect_err("refused").to_string();
    assert!(said.contains("its schema format is 5"), "{said}");
    let read = Place::new("DELETE");
    read.overwrite(18, &[3, 3]);
    read.expect_all("read version", "not_a_database");
    let write = Place::new("DELETE");
    write.overwrite(18, &[3]);
    write.expect("write version", &write.path(), &WRITING, "read_only");
    let error = WRITING[0].1(&write.path(), write.profile).expect_err("refused");
    assert!(error.to_string().contains("its write version is 3"), "{error}");
    assert_eq!(error.advice(), Some("write to it by a newer version of SQLite"));
}

#[test]
fn missing_rights_are_told_as_such() {
    for mode in ["DELETE", "WAL"] {
        let file = Place::new(mode);
        file.allow(0o777, 0o444);
        as_other_user(|| file.expect("file 444", &file.path(), &WRITING, "read_only"));
        let folder = Place::new(mode);
        folder.allow(0o555, 0o666);
        as_other_user(|| folder.expect("folder 555", &folder.path(), &WRITING, "read_only"));
        if mode == "WAL" {
            let by_sqlite = [READING[0], READING[2]];
            as_other_user(|| folder.expect("folder 555", &folder.path(), &by_sqlite, "read_only"));
        }
        folder.allow(0o777, 0o666);
        let hidden = Place::new(mode);
        hidden.allow(0o777, 0o000);
        as_other_user(|| {
            for (name, way) in WRITING.iter().chain(&READING) {
                let error = way(&hidden.path(), hidden.profile).expect_err(name);
                assert_eq!(error.kind().name(), "io", "{mode}, file 000, {name}: {error}");
                assert!(error.to_string().contains("Permission denied"), "{name}: {error}");
                assert!(!error.to_string().contains("journal"), "{name}: {error}");
            }
        });
    }
}

/// A log that belongs to another user is in the way, and not the database.
#[test]
fn a_log_without_rights_is_named() {
    let place = Place::new("WAL");
    let other = place.plain();
    other.execute_batch("INSERT INTO t VALUES (2)").expect("it is free");
    for suffix in ["-wal", "-shm"] {
        let mut name = place.path().into_os_string();
        name.push(suffix);
        fs::set_permissions(name, fs::Permissions::from_mode(0o600)).expect("a mode");
    }
    if !rustix::process::getuid().is_root() {
        // Not by println, which a test that passes keeps to itself.
        let _ = writeln!(std::io::stderr(), "skipped: only root has files of another user");
        return;
    }
    as_other_user(|| {
        for (name, way) in WRITING.iter().chain(&READING) {
            let error = way(&place.path(), place.profile).expect_err(name).to_string();
            assert!(error.contains("Permission denied"), "{name}: {error}");
            assert!(error.contains("a.db-wal") || error.contains("a.db-shm"), "{name}: {error}");
        }
    });
}

#[test]
fn a_full_disk_is_told_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(_mount) = Mount::new(folder.path(), "size=4m") else {
        let _ = writeln!(std::io::stderr(), "skipped: no file system can be mounted here");
        return;
    };
    for profile in [Profile::Durable, Profile::Rollback] {
        let path = folder.path().join(format!("{profile}.db"));
        let writer = writer(&path, profile).expect("there is room");
        writer.execute_batch("CREATE TABLE t(a)").expect("there is room");
        let queue = Queue::open(&writer, "q").expect("there is room");
        let filler = folder.path().join("filler");
        let mut bytes = 4 << 20;
        while bytes >= 4096 {
            use std::io::Write as _;
            let file = fs::OpenOptions::new().create(true).append(true).open(&filler);
            if file.expect("a file").write_all(&vec![0; bytes]).is_err() {
                bytes /= 2;
            }
        }
        let rows = || (0..100_000_i64).map(|a| (a,));
        let columns = [Column::new("a", ColumnType::Integer)];
        let append = || Loader::new(&path).table("t").into_table(IntoTable::Append);
        let outcomes = [
            writer.execute("INSERT INTO t VALUES (zeroblob(3000000))", ()).map(drop),
            queue.push(vec![7_u8; 3_000_000]).map(drop),
            append().load_rows(&columns, rows()).map(drop),
            Loader::new(&path).table("new").load_rows(&columns, rows()).map(drop),
        ];
        for (way, outcome) in outcomes.into_iter().enumerate() {
            let error = outcome.expect_err("the disk is full");
            assert_eq!(error.kind().name(), "no_space", "{profile}, {way}: {error}");
            assert!(error.state_on_disk().is_some(), "{profile}, {way}: {error}");
            assert!(error.advice().is_some(), "{profile}, {way}: {error}");
        }
        fs::remove_file(&filler).expect("it is there");
        writer.execute("INSERT INTO t VALUES (1)", ()).expect("there is room again");
        drop((queue, writer));
        fs::remove_file(&path).expect("it is there");
    }
}
