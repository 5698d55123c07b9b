//! A database, or its log, that is taken away under the writer: it is told before the next
//! answer, and nothing that was answered before is touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use leafpress::load::{Column, ColumnType, Loader};
use leafpress::profile::Locking;
use leafpress::writer::{Maintenance, Writer};
use leafpress::{Error, ErrorKind, Profile};
use rusqlite::Connection;

const INSERT: &str = "INSERT INTO t VALUES(?1)";

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn make(path: &Path, profile: Profile) -> Writer {
    let writer = Writer::builder(path).profile(profile).open().expect("a writer");
    writer.execute_batch("CREATE TABLE IF NOT EXISTS t(n)").expect("a table");
    writer
}

fn rows(path: &Path) -> i64 {
    let connection = Connection::open(path).expect("a connection");
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a number")
}

/// A way to take a database away: given its folder, in which it is `data/a.db`.
type Taken = fn(&Path);

const WAYS: [(&str, Taken); 6] = [
    ("deleted", |folder| fs::remove_file(folder.join("data/a.db")).expect("it is there")),
    ("moved", |folder| {
        fs::rename(folder.join("data/a.db"), folder.join("data/b.db")).expect("it is there");
    }),
    ("replaced by another database", |folder| {
        drop(make(&folder.join("other.db"), Profile::Rollback));
        fs::rename(folder.join("other.db"), folder.join("data/a.db")).expect("it is there");
    }),
    ("replaced by a copy", |folder| {
        fs::copy(folder.join("data/a.db"), folder.join("copy.db")).expect("it is there");
        fs::rename(folder.join("copy.db"), folder.join("data/a.db")).expect("it is there");
    }),
    ("in a folder that was moved", |folder| {
        fs::rename(folder.join("data"), folder.join("moved")).expect("it is there");
    }),
    ("in a folder that was deleted", |folder| {
        fs::remove_dir_all(folder.join("data")).expect("it is there");
    }),
];

/// Calls until the writer says that its database is gone: at once, as each answer comes after
/// a look.
fn told(writer: &Writer, name: &str) -> Error {
    let error = writer.execute(INSERT, [2]).expect_err("its database is not there any more");
    match error.kind() {
        ErrorKind::Stopped { .. } => {
            assert_eq!(error.state_on_disk(), Some("nothing of this call"), "{name}: {error}");
        }
        ErrorKind::OutcomeUnknown { .. } => {
            assert!(error.state_on_disk().is_some_and(|it| it.contains("has open")), "{error}");
        }
        _ => unreachable!("{name}: {error}"),
    }
    assert!(error.to_string().contains("while the writer had it open"), "{name}: {error}");
    let late = writer.execute(INSERT, [3]).expect_err("it has stopped");
    assert!(matches!(late.kind(), ErrorKind::Stopped { .. }), "{name}: {late}");
    error
}

#[test]
fn a_database_that_is_taken_away_is_told_before_the_next_answer() {
    for profile in [Profile::Durable, Profile::Relaxed, Profile::Rollback] {
        for (name, take) in WAYS {
            // At once, and after a pause, when the writer looks before it begins.
            for pause_ms in [0, 30] {
                let folder = tempfile::tempdir().expect("a folder");
                fs::create_dir(folder.path().join("data")).expect("a folder");
                let writer = make(&folder.path().join("data/a.db"), profile);
                writer.execute(INSERT, [1]).expect("it is there");
                take(folder.path());
                std::thread::sleep(std::time::Duration::from_millis(pause_ms));
                told(&writer, name);
                let error = writer.close().expect_err("it had stopped");
                assert!(error.to_string().contains("had it open"), "{name}: {error}");
            }
        }
    }
}

#[test]
fn a_database_is_told_to_be_gone_after_many_commits_too() {
    for (name, take) in WAYS {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        let writer = make(&data.join("a.db"), Profile::Relaxed);
        // More than the looks after which the writer relies on notices of the kernel.
        for _ in 0..4500 {
            writer.execute(INSERT, [1]).expect("it is there");
        }
        fs::write(data.join("other"), "no notice").expect("a file");
        fs::set_permissions(data.join("a.db"), Permissions::from_mode(0o600)).expect("a file");
        writer.execute(INSERT, [1]).expect("only its rights have changed");
        take(folder.path());
        told(&writer, name);
        let error = writer.close().expect_err("it had stopped");
        assert!(error.to_string().contains("had it open"), "{name}: {error}");
    }
}

#[test]
fn a_moved_database_and_its_log_have_all_that_was_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("data")).expect("a folder");
    let writer = make(&folder.path().join("data/a.db"), Profile::Durable);
    for _ in 0..100 {
        writer.execute(INSERT, [1]).expect("it is there");
    }
    let moved = folder.path().join("moved");
    fs::rename(folder.path().join("data"), &moved).expect("it is there");
    let error = told(&writer, "moved");
    drop(writer);
    // What is refused is not there, and what is in doubt is.
    let in_doubt = i64::from(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }));
    assert_eq!(rows(&moved.join("a.db")), 100 + in_doubt);
}

#[test]
fn a_database_in_the_place_of_another_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let writer = make(&path, Profile::Durable);
    writer.execute(INSERT, [1]).expect("it is there");
    for suffix in ["", "-wal", "-shm"] {
        fs::rename(beside(&path, suffix), beside(&path, &format!("{suffix}.old"))).expect("there");
    }
    let other = make(&path, Profile::Durable);
    other.execute(INSERT, [10]).expect("it is another database");
    other.execute(INSERT, [11]).expect("it is another database");
    told(&writer, "replaced");
    assert!(writer.close().is_err());
    other.execute(INSERT, [12]).expect("its log is still there");
    assert_eq!(rows(&path), 3);
    assert!(beside(&path, "-wal").exists());
    other.close().expect("nothing is wrong with it");
}

#[test]
fn a_log_that_is_taken_away_is_told_too() {
    let ways: [(&str, Taken); 3] = [
        ("deleted", |path| fs::remove_file(beside(path, "-wal")).expect("it is there")),
        ("moved", |path| {
            fs::rename(beside(path, "-wal"), beside(path, "-wal.old")).expect("it is there");
        }),
        ("replaced", |path| {
            fs::copy(beside(path, "-wal"), beside(path, "-copy")).expect("it is there");
            fs::rename(beside(path, "-copy"), beside(path, "-wal")).expect("it is there");
        }),
    ];
    for (name, take) in ways {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let writer = make(&path, Profile::Durable);
        writer.execute(INSERT, [1]).expect("it is there");
        take(&path);
        told(&writer, name);
    }
    // The index of the log is looked at after a pause.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let writer = make(&path, Profile::Durable);
    fs::remove_file(beside(&path, "-shm")).expect("it is there");
    std::thread::sleep(std::time::Duration::from_millis(30));
    told(&writer, "index");
}

#[test]
fn a_link_that_leads_elsewhere_now_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old.db"), folder.path().join("new.db"));
    drop(make(&new, Profile::Durable));
    let link = folder.path().join("link.db");
    symlink(&old, &link).expect("a link");
    let writer = make(&link, Profile::Durable);
    writer.execute(INSERT, [1]).expect("it is there");
    let next = folder.path().join("next");
    symlink(&new, &next).expect("a link");
    fs::rename(&next, &link).expect("it is there");
    let error = told(&writer, "link");
    let in_doubt = i64::from(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }));
    assert_eq!((rows(&old), rows(&new)), (1 + in_doubt, 0));
}

#[test]
fn more_names_for_a_database_are_no_reason_to_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let writer = make(&path, Profile::Durable);
    // As a backup program does it.
    fs::hard_link(&path, folder.path().join("second.db")).expect("a name");
    fs::remove_file(folder.path().join("second.db")).expect("it is there");
    let metadata = fs::metadata(&path).expect("it is there");
    fs::set_permissions(&path, metadata.permissions()).expect("they are as they were");
    writer.execute(INSERT, [1]).expect("it is there");
    writer.close().expect("all is well");
    assert_eq!(rows(&path), 1);
}

#[test]
fn two_names_of_one_database_are_not_open_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, second) = (folder.path().join("a.db"), folder.path().join("second.db"));
    let writer = make(&path, Profile::Durable);
    fs::hard_link(&path, &second).expect("a name");
    if cfg!(target_os = "linux") {
        let error = Writer::builder(&second).open().expect_err("it has another log by that name");
        assert!(matches!(error.kind(), ErrorKind::Destination { .. }), "{error}");
        assert!(error.to_string().contains("a.db"), "{error}");
        let columns = [Column::new("n", ColumnType::Integer)];
        let load = |path: &Path| Loader::new(path).table("u").load_rows(&columns, [(1_i64,)]);
        let copy = Loader::new(beside(&path, ".copy")).load_file(&second);
        let read = leafpress::profile::open_reader(&second, None).map(drop);
        for refused in [load(&second).map(drop), copy.map(drop), read] {
            let error = refused.expect_err("it would not see the writer's log").to_string();
            assert!(error.contains("one of several names"), "{error}");
        }
        load(&path).expect("it is the writer's own name");
    }
    writer.execute(INSERT, [1]).expect("nothing is wrong with it");
    writer.close().expect("all is well");
    let again = make(&second, Profile::Durable);
    again.execute(INSERT, [2]).expect("no process has it by the other name");
    again.close().expect("all is well");
    assert_eq!(rows(&path), 2);
}

/// A database that takes the name of one that a writer has open, as a publication does it.
fn replace(path: &Path) {
    let new = beside(path, ".new");
    let connection = Connection::open(&new).expect("a connection");
    let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t(n);
               WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 1000)
               INSERT INTO t SELECT n FROM i";
    connection.execute_batch(sql).expect("a database");
    connection.close().expect("its log is copied");
    fs::rename(&new, path).expect("a file");
}

fn assert_is_the_new_one(path: &Path, rows_added: i64) {
    let connection = Connection::open(path).expect("a connection");
    let check = connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(check.as_deref(), Ok("ok"));
    assert_eq!(rows(path), 1000 + rows_added);
}

#[test]
fn a_database_that_replaces_another_is_not_opened_beside_the_old_log() {
    for is_closed in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a folder");
        let path = folder.join("a.db");
        let writer = make(&path, Profile::Durable);
        writer.execute(INSERT, [1]).expect("it is there");
        drop(writer.reader().expect("a reader"));
        replace(&path);
        let unnoticed = Writer::builder(&path).open().expect_err("the log is the old one's");
        assert!(matches!(unnoticed.kind(), ErrorKind::Destination { .. }), "{unnoticed}");
        let error = told(&writer, "replaced");
        assert!(error.to_string().contains("a.db-wal"), "{error}");
        let reader = writer.reader().expect_err("it ends with the writer");
        assert!(matches!(reader.kind(), ErrorKind::Stopped { .. }), "{reader}");
        let writer = (!is_closed).then_some(writer);
        let refused = Writer::builder(&path).open().expect_err("the log is the old one's");
        let advice = refused.advice().expect("there is advice");
        assert!(advice.contains("a.db-wal") && advice.contains("a.db-shm"), "{refused}");
        assert!(leafpress::profile::open_reader(&path, None).is_err());
        // As the advice says.
        for suffix in ["-wal", "-shm"] {
            fs::rename(beside(&path, suffix), beside(&path, &format!("{suffix}.old")))
                .expect("it is there");
        }
        assert_is_the_new_one(&path, 0);
        let again = make(&path, Profile::Durable);
        again.execute(INSERT, [1]).expect("it is the new one");
        drop(writer);
        let second = make(&path, Profile::Durable);
        second.execute(INSERT, [1]).expect("its log is its own");
        second.close().expect("all is well");
        again.close().expect("all is well");
        assert_is_the_new_one(&path, 2);
    }
}

/// No call of the writer looks at its place between the two.
#[test]
fn a_writer_that_is_closed_unaware_leaves_no_log_to_the_new_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a folder");
    let path = folder.join("a.db");
    let writer = make(&path, Profile::Durable);
    writer.execute(INSERT, [1]).expect("it is there");
    replace(&path);
    drop(writer);
    let log = beside(&path, "-wal");
    if log.exists() {
        let refused = Writer::builder(&path).open().expect_err("the log is the old one's");
        assert!(matches!(refused.kind(), ErrorKind::Destination { .. }), "{refused}");
        fs::remove_file(log).expect("it is there");
        fs::remove_file(beside(&path, "-shm")).expect("it is there");
    }
    make(&path, Profile::Durable).close().expect("all is well");
    assert_is_the_new_one(&path, 0);
}

const CHILD_PATH: &str = "LEAFPRESS_TEST_MOVED_PATH";
const CHILD_SQL: &str = "LEAFPRESS_TEST_MOVED_SQL";

/// Another process that has carried out `sql` by SQLite itself, and holds the database open until it is
/// killed.
struct Neighbour(std::process::Child);

impl Neighbour {
    fn start(path: &Path, sql: &str) -> Self {
        let mut child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "moved::as_neighbour", "--nocapture"])
            .env(CHILD_PATH, path)
            .env(CHILD_SQL, sql)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it runs");
        let said = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = std::io::BufRead::lines(said).map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("neighbour is ready")), "it ended before");
        Self(child)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn as_neighbour() {
    let (Some(path), Ok(sql)) = (std::env::var_os(CHILD_PATH), std::env::var(CHILD_SQL)) else {
        return;
    };
    let connection = Connection::open(path).expect("a connection");
    connection.execute_batch(&sql).expect("it is carried out");
    println!("neighbour is ready");
    // Until it is killed, or the test has ended.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// The log beside the new database is the same file as the old one's, and has its rows.
#[test]
fn a_checkpointer_leaves_the_log_of_the_database_that_took_the_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a folder").join("a.db");
    make(&path, Profile::Durable).close().expect("all is well");
    // Without a commit of its own, so that the index of the log says nothing of the old pages.
    let writer = Writer::builder(&path).open().expect("a writer");
    replace(&path);
    let neighbour = Neighbour::start(&path, "INSERT INTO t VALUES (7)");
    let stopped = writer.close().expect_err("its database was replaced");
    assert!(matches!(stopped.kind(), ErrorKind::Stopped { .. }), "{stopped}");
    drop(neighbour);
    assert_is_the_new_one(&path, 1);
}

/// SQLite deletes a journal by its name, without a look at the database.
#[test]
fn a_writer_alone_leaves_the_journal_of_the_database_that_took_the_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a folder").join("a.db");
    let builder = Writer::builder(&path).profile(Profile::Rollback);
    let writer = builder.locking(Locking::Exclusive).open().expect("a writer");
    writer.execute_batch("CREATE TABLE t(n); INSERT INTO t VALUES (1)").expect("a table");
    for suffix in ["", "-journal"] {
        let old = beside(&path, suffix);
        if old.exists() {
            fs::rename(&old, beside(&path, &format!(".old{suffix}"))).expect("it is there");
        }
    }
    let sql = "CREATE TABLE t(n, pad);
         WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 20000)
         INSERT INTO t SELECT n, zeroblob(100) FROM i;
         PRAGMA cache_size = 10; BEGIN; UPDATE t SET n = -1";
    let neighbour = Neighbour::start(&path, sql);
    assert!(beside(&path, "-journal").exists(), "it has spilled pages");
    drop(writer);
    drop(neighbour);
    let connection = Connection::open(&path).expect("a connection");
    let rows = "SELECT count(*) FROM t WHERE n > 0";
    assert_eq!(connection.query_row(rows, [], |row| row.get(0)), Ok(20_000));
}

/// A connection that is idle would show the old database, and a new one the new database.
#[test]
fn readers_of_two_databases_are_not_lent() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a folder").join("a.db");
    let writer = make(&path, Profile::Durable);
    writer.execute(INSERT, [1]).expect("it is there");
    drop(writer.reader().expect("a reader"));
    replace(&path);
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(beside(&path, suffix)).expect("it is there");
    }
    let stopped = writer.reader().expect_err("it was replaced");
    assert!(matches!(stopped.kind(), ErrorKind::Stopped { .. }), "{stopped}");
}

/// Maintenance may be the first to look.
#[test]
fn maintenance_of_a_database_that_was_replaced_ends_the_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let writer = make(&path, Profile::Durable);
    writer.execute(INSERT, [1]).expect("it is there");
    replace(&path);
    // A look holds for 10 ms.
    std::thread::sleep(std::time::Duration::from_millis(30));
    let stopped = writer.maintain(Maintenance::Checkpoint).expect_err("it was replaced");
    assert!(matches!(stopped.kind(), ErrorKind::Stopped { .. }), "{stopped}");
    let reader = writer.reader().expect_err("it ends with the writer");
    assert!(matches!(reader.kind(), ErrorKind::Stopped { .. }), "{reader}");
}

#[test]
fn a_profile_does_not_change_the_journal_mode_under_a_writer() {
    for (open, other) in
        [(Profile::Rollback, Profile::Durable), (Profile::Durable, Profile::Rollback)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let writer = make(&path, open);
        let error = Writer::builder(&path).profile(other).open().expect_err("it is open");
        assert!(error.to_string().contains("a writer of this process"), "{error}");
        writer.execute(INSERT, [1]).expect("it is as it was");
        let same = make(&path, open);
        same.execute(INSERT, [1]).expect("it has the same journal mode");
        same.close().expect("all is well");
        writer.close().expect("all is well");
        let changed = make(&path, other);
        changed.execute(INSERT, [1]).expect("no writer is in the way");
        changed.close().expect("all is well");
        assert_eq!(rows(&path), 3);
    }
}
