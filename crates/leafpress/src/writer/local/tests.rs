//! Schemas by which a statement that fails could leave half of its changes, and what callers do to
//! the connection that all of them share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, ffi};

use crate::error::{ErrorKind, Result};
use crate::profile::Profile;
use crate::writer::{IntoParameters as _, Transaction, Writer};

const TABLE: &str = "CREATE TABLE a(c)";
const HALF_WAY: &str = "TRIGGER half AFTER INSERT ON a WHEN new.c = 2
    BEGIN SELECT RAISE(FAIL, 'half way'); END";

/// A statement that fails at its second row leaves none, however `prepare` hides the trigger.
fn leaves_nothing(
    schema: &str,
    prepare: impl Fn(&Connection) -> Result<()> + Send + Sync + 'static,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    Connection::open(&path).unwrap().execute_batch(schema).unwrap();
    let writer =
        Writer::builder(&path).profile(Profile::Relaxed).on_connect(prepare).open().unwrap();
    let error = writer.execute("INSERT INTO a VALUES (1), (2)", ()).unwrap_err();
    assert!(error.to_string().contains("half way"), "{error}");
    writer.execute("INSERT INTO a VALUES (3)", ()).unwrap();
    writer.close().unwrap();
    let there = Connection::open(&path).unwrap();
    let rows: i64 = there.query_row("SELECT count(*) FROM a", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "half of the failed call is there");
}

#[test]
fn a_temporary_trigger_that_fails_leaves_no_half_of_a_call() {
    leaves_nothing(TABLE, |connection| {
        Ok(connection.execute_batch(&format!("CREATE TEMP {HALF_WAY}"))?)
    });
}

#[test]
fn another_like_hides_no_trigger_that_fails() {
    let schema = format!("{TABLE}; CREATE {HALF_WAY}");
    leaves_nothing(&schema, |connection| {
        Ok(connection.execute_batch("PRAGMA case_sensitive_like=ON")?)
    });
    leaves_nothing(&schema, |connection| {
        let flags = FunctionFlags::SQLITE_UTF8;
        Ok(connection.create_scalar_function("like", 2, flags, |_| Ok(false))?)
    });
}

fn with_table() -> (Writer, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let writer = Writer::builder(&path).profile(Profile::Relaxed).open().unwrap();
    writer.execute_batch(TABLE).unwrap();
    (writer, folder)
}

fn rows(writer: &Writer) -> Vec<i64> {
    let read =
        |tx: &Transaction<'_>| tx.query_map("SELECT c FROM a ORDER BY c", (), |row| row.get(0));
    writer.transaction(read).unwrap()
}

#[test]
fn what_is_made_on_connect_stays_for_all_callers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE a(c); CREATE TABLE b(c)").unwrap();
    let writer = Writer::builder(&path).profile(Profile::Relaxed).on_connect(|connection| {
        Ok(connection.execute_batch(
            "CREATE TEMP TABLE seen(c); CREATE INDEX temp.by_c ON seen(c);
             CREATE TEMP VIEW all_seen AS SELECT c FROM seen;
             CREATE VIRTUAL TABLE temp.words USING fts5(word);
             CREATE TEMP TRIGGER see AFTER INSERT ON a BEGIN INSERT INTO seen VALUES (new.c); END",
        )?)
    });
    let writer = writer.open().unwrap();
    for sql in [
        "DROP TRIGGER see",
        "DROP TRIGGER temp.see",
        "DROP VIEW all_seen",
        "DROP INDEX temp.by_c",
        "DROP TABLE words",
        "DROP TABLE seen",
        "ALTER TABLE temp.seen RENAME TO other",
        "ALTER TABLE seen ADD COLUMN d",
    ] {
        let error = writer.execute(sql, ()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{sql}: {error}");
    }
    writer.execute_batch("INSERT INTO a VALUES (7); INSERT INTO words VALUES ('x')").unwrap();
    writer.execute_batch("ALTER TABLE b ADD COLUMN d; DROP TABLE b").unwrap();
    let seen =
        writer.transaction(|tx| tx.query_row("SELECT c FROM all_seen", (), |row| row.get(0)));
    assert_eq!(seen.unwrap(), Some(7));
}

#[test]
fn a_setting_may_be_read_where_it_may_not_be_changed() {
    let (writer, _folder) = with_table();
    for name in [
        "analysis_limit",
        "cache_spill",
        "legacy_alter_table",
        "mmap_size",
        "read_uncommitted",
        "soft_heap_limit",
        "temp_store",
        "threads",
        "trusted_schema",
    ] {
        let read = writer.execute(format!("PRAGMA {name}"), ());
        assert!(read.is_ok(), "{name}: {}", read.unwrap_err());
        let error = writer.execute(format!("PRAGMA {name} = 1"), ()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{name}: {error}");
    }
}

#[test]
fn rows_that_panic_leave_none_of_those_before_them() {
    let (writer, _folder) = with_table();
    let done = writer.transaction(|tx| {
        tx.execute("INSERT INTO a VALUES (1)", ())?;
        let rows = (2..).map(|number| {
            assert!(number < 4, "the third row panics");
            [number].into_parameters().unwrap()
        });
        let many = || tx.execute_many("INSERT INTO a VALUES (?1)", rows);
        assert!(catch_unwind(AssertUnwindSafe(many)).is_err());
        tx.execute("INSERT INTO a VALUES (9)", ())
    });
    done.unwrap();
    assert_eq!(rows(&writer), [1, 9]);
}

#[test]
fn a_query_of_one_row_ends_with_that_row() {
    let (writer, _folder) = with_table();
    let writer = writer.with_call_limit(Some(Duration::from_secs(20)));
    let first = writer.transaction(|tx| {
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
        tx.query_row(sql, (), |row| row.get::<_, i64>(0))
    });
    assert_eq!(first.unwrap(), Some(1));
    // The control: a statement that changes rows changes all of them.
    let first = writer.transaction(|tx| {
        let sql = "INSERT INTO a VALUES (1), (2), (3) RETURNING c";
        tx.query_row(sql, (), |row| row.get::<_, i64>(0))
    });
    assert_eq!((first.unwrap(), rows(&writer)), (Some(1), vec![1, 2, 3]));
}

/// As of a connection of the closure's own.
#[test]
fn an_error_of_another_database_says_nothing_of_this_one() {
    let (writer, _folder) = with_table();
    let failing = |code| {
        let failed = move |_: &Transaction<'_>| -> Result<()> {
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into())
        };
        writer.transaction(failed).unwrap_err()
    };
    let error = failing(ffi::SQLITE_CORRUPT);
    assert!(matches!(error.kind(), ErrorKind::Damaged { path: None, .. }), "{error}");
    let error = failing(ffi::SQLITE_FULL);
    assert!(matches!(error.kind(), ErrorKind::Sqlite { .. }), "{error}");
    failing(ffi::SQLITE_READONLY_DBMOVED);
    writer.execute("INSERT INTO a VALUES (1)", ()).unwrap();
    assert_eq!(writer.stopped(), None);
}

/// The control of the one above: the limit of pages stands for a full disk.
#[test]
fn an_error_of_a_transaction_names_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let prepare =
        |connection: &Connection| Ok(connection.execute_batch("PRAGMA max_page_count = 4")?);
    let writer =
        Writer::builder(&path).profile(Profile::Relaxed).on_connect(prepare).open().unwrap();
    writer.execute_batch(TABLE).unwrap();
    let sql = "INSERT INTO a VALUES (zeroblob(100000))";
    let errors = [
        writer.execute(sql, ()).unwrap_err(),
        writer.transaction(|tx| tx.execute(sql, ())).unwrap_err(),
        writer.transaction(|tx| tx.execute_script(sql)).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error.kind(), ErrorKind::NoSpace { .. }), "{error}");
    }
}
