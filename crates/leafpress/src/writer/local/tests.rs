//! Schemas by which a statement that fails could leave half of its changes.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use crate::error::Result;
use crate::profile::Profile;
use crate::writer::Writer;

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
