//! Errors that programs act on: one cause has one kind by every way in, SQLite's own error is
//! the source, and a batch says which statement it was.

use std::time::Duration;

use leafpress::writer::{Batch, Parameters, Writer};
use leafpress::{Error, ErrorKind, FailedStatement, Profile};
use rusqlite::Connection;
use tempfile::TempDir;

fn open() -> (Writer, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Writer::builder(folder.path().join("a.db")).profile(Profile::Relaxed);
    let writer = builder.open().expect("a writer");
    let table =
        "CREATE TABLE t(id INTEGER PRIMARY KEY, n CHECK (n < 10)); INSERT INTO t VALUES(1, 1)";
    writer.execute_batch(table).expect("a row");
    (writer, folder)
}

/// One statement by every way in.
fn by_every_way(writer: &Writer, sql: &'static str) -> Vec<(&'static str, Error)> {
    let returning = format!("{sql} RETURNING id");
    let query = returning.clone();
    vec![
        ("execute", writer.execute(sql, ()).expect_err("it fails")),
        ("ticket", writer.submit(sql, ()).expect("taken").wait().expect_err("it fails")),
        ("script", writer.execute_batch(sql).expect_err("it fails")),
        (
            "batch",
            writer
                .execute_batch(Batch::new().statement(sql, ()).expect("no values"))
                .expect_err("it fails"),
        ),
        ("closure", writer.transaction(move |tx| tx.execute(sql, ())).expect_err("it fails")),
        (
            "closure of a script",
            writer.transaction(move |tx| tx.execute_script(sql)).expect_err("it fails"),
        ),
        (
            "closure of a query",
            writer
                .transaction(move |tx| tx.query_row(&returning, [], |_| Ok(())))
                .expect_err("it fails"),
        ),
        (
            "closure of a query of many",
            writer
                .transaction(move |tx| tx.query_map(&query, [], |_| Ok(())))
                .expect_err("it fails"),
        ),
    ]
}

fn extended_code(error: &Error) -> i32 {
    let source = std::error::Error::source(error).expect("SQLite said it");
    let source: &rusqlite::Error = source.downcast_ref().expect("an error of SQLite");
    source.sqlite_error().expect("it has a code").extended_code
}

#[test]
fn a_broken_rule_is_a_constraint_by_every_way() {
    let (writer, _folder) = open();
    for (sql, code, words) in [
        ("INSERT INTO t VALUES(1, 2)", 1555, "UNIQUE constraint failed: t.id"),
        ("INSERT INTO t VALUES(2, 11)", 275, "CHECK constraint failed: n < 10"),
    ] {
        let mut errors = by_every_way(&writer, sql);
        let row = if code == 1555 { [1, 2] } else { [2, 11] };
        let many = writer.insert_many("t", &["id", "n"], [row]).expect_err("it fails");
        errors.push(("insert_many", many));
        let in_closure = writer.transaction(move |tx| tx.insert_many("t", &["id", "n"], [row]));
        errors.push(("closure of insert_many", in_closure.expect_err("it fails")));
        for (way, error) in errors {
            let ErrorKind::Constraint { reason, .. } = error.kind() else {
                unreachable!("{way}: {error:?}")
            };
            assert_eq!(reason, words, "{way}");
            assert_eq!(extended_code(&error), code, "{way}");
            let nothing = error.state_on_disk().is_some_and(|it| it.starts_with("nothing of this"));
            assert!(nothing, "{way}: {error}");
        }
    }
    // By rusqlite's own error in a closure too.
    let read = writer.transaction(|tx| {
        tx.query_row("SELECT 1", [], |_| -> rusqlite::Result<()> {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE);
            Err(rusqlite::Error::SqliteFailure(code, Some("of another database".to_owned())))
        })
    });
    assert!(matches!(read.expect_err("it fails").kind(), ErrorKind::Constraint { .. }));
}

#[test]
fn a_missing_table_is_one_kind_by_every_way() {
    let (writer, _folder) = open();
    let mut errors = by_every_way(&writer, "DELETE FROM missing");
    let rows = [[1]];
    errors
        .push(("insert_many", writer.insert_many("missing", &["a"], rows).expect_err("it fails")));
    for (way, error) in errors {
        let ErrorKind::NotFound { what: "table", name, .. } = error.kind() else {
            unreachable!("{way}: {error:?}")
        };
        assert_eq!(name, "missing", "{way}");
        assert!(error.to_string().starts_with("no such table: missing"), "{way}: {error}");
    }
}

#[test]
fn a_call_of_many_says_which_of_its_rows_failed_and_leaves_none() {
    let (writer, _folder) = open();
    let rows = |ids: [i64; 3]| ids.map(|id| Parameters::Positional(vec![id.into()]));
    let insert = "INSERT OR FAIL INTO t VALUES (?1, 2), (?1 + 10, 3)";
    let (done, error) = writer
        .transaction(move |tx| {
            let failed = tx.execute_many(insert, rows([2, 3, 1]));
            let done = tx.execute_many(insert, rows([4, 5, 6]))?;
            Ok((done, failed.expect_err("1 is there")))
        })
        .expect("the transaction goes on");
    assert_eq!((done.rows_changed, done.last_insert_rowid), (6, 16));
    assert!(matches!(error.kind(), ErrorKind::Constraint { .. }), "{error:?}");
    assert_eq!((error.failed_row(), extended_code(&error)), (Some(3), 1555));
    assert!(error.to_string().contains("t.id\n  row 3 of the call\non disk: nothing of this call"));
    let reader = writer.reader().expect("a reader");
    let ids: String =
        reader.query_row("SELECT group_concat(id) FROM t", [], |row| row.get(0)).expect("the rows");
    assert_eq!(ids, "1,4,5,6,14,15,16");
    for sql in ["SELECT ?1", "CREATE TABLE u(a)", "WITH n AS (SELECT ?1) SELECT * FROM n"] {
        let refused = writer.transaction(move |tx| tx.execute_many(sql, rows([1, 2, 3])));
        assert!(matches!(refused.expect_err(sql).kind(), ErrorKind::Misuse(_)), "{sql}");
    }
}

#[test]
fn a_batch_says_which_of_its_statements_failed() {
    let (writer, _folder) = open();
    let failed = |error: &Error| error.failed_statement().cloned();
    let script =
        "INSERT INTO t VALUES(2, 2);\n-- a comment;\n\nINSERT INTO t\n  VALUES(1, 2); SELECT 1";
    let error = writer.execute_batch(script).expect_err("the second fails");
    let FailedStatement { ordinal, line, sql, .. } = failed(&error).expect("its place");
    assert_eq!((ordinal, line, sql.as_str()), (2, 4, "INSERT INTO t\n  VALUES(1, 2)"));
    let text = error.to_string();
    assert!(
        text.contains("UNIQUE constraint failed: t.id\n  statement 2, line 4: INSERT"),
        "{text}"
    );
    // In the third part, the fourth of all; and one that cannot be compiled.
    let batch = Batch::new()
        .script("INSERT INTO t VALUES(3, 3); INSERT INTO t VALUES(4, 4)")
        .statement("INSERT INTO t VALUES(?1, ?1)", [5])
        .expect("a value")
        .script("\nNONSENSE; SELECT 1");
    let error = writer.execute_batch(batch).expect_err("the fourth fails");
    let place = failed(&error).expect("its place");
    assert_eq!((place.ordinal, place.line, place.sql.as_str()), (4, 2, "NONSENSE"));
    let batch = Batch::new().script("SELECT 1").statement("SELECT * FROM missing", ());
    let error = writer.execute_batch(batch.expect("no values")).expect_err("the second fails");
    assert_eq!(failed(&error).map(|it| it.ordinal), Some(2));
    let inside =
        writer.transaction(|tx| tx.execute_script("SELECT 1; SELECT 2;\nSELECT * FROM no"));
    let place = failed(&inside.expect_err("the third fails")).expect("its place");
    assert_eq!((place.ordinal, place.line), (3, 2));
    let reader = writer.reader().expect("a reader");
    let count: i64 = reader.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("one");
    assert_eq!(count, 1);
}

/// As in `sqlite3_exec`, which the model uses: each statement runs to its end.
#[test]
fn a_statement_of_a_script_that_fails_at_a_later_row_ends_the_script() {
    let (writer, _folder) = open();
    writer
        .execute_batch("CREATE TABLE text(x); INSERT INTO text VALUES ('{}'), ('no JSON')")
        .expect("two rows");
    let script = "INSERT INTO t VALUES(2, 2); SELECT json(x) FROM text; INSERT INTO t VALUES(3, 3)";
    let errors = [
        writer.execute_batch(script).expect_err("no JSON"),
        writer.execute_batch(Batch::new().script("SELECT 1").script(script)).expect_err("no JSON"),
        writer.transaction(|tx| tx.execute_script(script)).expect_err("no JSON"),
    ];
    for (error, ordinal) in errors.iter().zip([2, 3, 2]) {
        assert_eq!(error.failed_statement().map(|it| it.ordinal), Some(ordinal), "{error}");
    }
    let reader = writer.reader().expect("a reader");
    let count: i64 = reader.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("one");
    assert_eq!(count, 1);
}

/// This PRAGMA frees a page in each step.
#[test]
fn a_script_frees_as_many_pages_as_it_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let made = Connection::open(&path).expect("a database");
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)";
    made.execute_batch(&format!(
        "PRAGMA auto_vacuum = INCREMENTAL; CREATE TABLE t(x);
         INSERT INTO t {many} SELECT zeroblob(3000) FROM n; DELETE FROM t"
    ))
    .expect("free pages");
    let free = || {
        let pages = made.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
        pages.expect("a number")
    };
    let writer = Writer::builder(&path).open().expect("a writer");
    let before = free();
    writer.execute_batch("PRAGMA incremental_vacuum(10)").expect("it frees pages");
    assert_eq!(before - free(), 10);
}

#[test]
fn a_text_without_a_statement_is_told_so() {
    let (writer, _folder) = open();
    for sql in ["", " \n", "-- nothing", "/* pragma */", ";"] {
        let errors = [
            writer.execute(sql, ()).expect_err("nothing is in it"),
            writer
                .execute_batch(Batch::new().statement(sql, ()).expect("no values"))
                .expect_err("nothing"),
            writer.transaction(move |tx| tx.execute(sql, ())).expect_err("nothing is in it"),
            writer
                .transaction(move |tx| tx.query_row(sql, [], |_| Ok(())))
                .expect_err("nothing is in it"),
        ];
        for error in errors {
            assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{sql:?}: {error}");
            assert!(error.to_string().contains("holds no statement"), "{sql:?}: {error}");
        }
        // Of a script there may be nothing.
        writer.execute_batch(sql).expect("nothing to be done");
    }
}

#[test]
fn a_text_of_several_statements_is_told_so() {
    let (writer, _folder) = open();
    let sql = "CREATE TABLE one(a); CREATE TABLE two(a)";
    let batch = Batch::new().statement(sql, ()).expect("no values");
    let errors = [
        writer.execute(sql, ()).expect_err("there are two"),
        writer.execute_batch(batch).expect_err("there are two"),
        writer.transaction(move |tx| tx.execute(sql, ())).expect_err("there are two"),
    ];
    for error in errors {
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
        assert!(error.to_string().contains("to execute_batch"), "{error}");
    }
}

#[test]
fn an_error_names_the_holder_of_the_lock_however_short_the_wait_was() {
    for limit_ms in [0, 20] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let writer = Writer::builder(&path).busy_limit(Duration::from_millis(limit_ms));
        let writer = writer.open().expect("a writer");
        let other = Connection::open(&path).expect("a connection");
        other.execute_batch("BEGIN IMMEDIATE").expect("it holds the database");
        let error = writer.execute("CREATE TABLE t(n)", ()).expect_err("it is held");
        assert!(matches!(error.kind(), ErrorKind::Busy { .. }), "{error}");
        if cfg!(target_os = "linux") {
            assert!(error.holders().is_some(), "{error}");
        }
    }
}
