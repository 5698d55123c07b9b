use std::path::PathBuf;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::load::{IntoTable, Layout, Loader, OnConflict, OnError, Uuid7Form};

/// A database with the table `t` of this declaration.
fn database(sql: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    Connection::open(&path).expect("a database").execute_batch(sql).expect("a table");
    (folder, path)
}

fn load(loader: Loader, csv: &str) -> crate::Result<crate::load::Report> {
    loader.table("t").load_reader("t.csv", csv.as_bytes())
}

fn refused(loader: Loader, csv: &str, says: &[&str]) {
    let error = load(loader, csv).expect_err("it is refused").to_string();
    assert!(says.iter().all(|it| error.contains(it)) && error.contains("to do: "), "{error}");
}

#[test]
fn a_row_without_the_key_that_is_named_is_bad_in_each_load() {
    for key in ["INTEGER PRIMARY KEY", "TEXT PRIMARY KEY"] {
        let (_folder, path) = database(&format!("CREATE TABLE t(id {key}, v)"));
        for into in [IntoTable::Upsert, IntoTable::Ignore] {
            let loader = || Loader::new(&path).into_table(into).primary_key("id");
            let csv = "id,v\n1,a\n\\N,b\n";
            let null = || loader().null_marker("\\N");
            refused(null(), csv, &["t.csv:3:1", "the primary key is empty"]);
            let skip = OnError::Skip { rejects: None, max_rejects: None };
            let report = load(null().on_error(skip), csv).expect("a load");
            assert_eq!(report.rows_rejected, 1);
        }
        let connection = Connection::open(&path).expect("a database");
        let count = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        assert_eq!(count, Ok(1));
    }
}

#[test]
fn a_table_for_another_database_has_names_and_pages_that_fit_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    let loader = || Loader::new(&path).later_database(8192, vec!["T_A".to_owned()]);
    refused(loader().page_size(4096), "a\n1\n", &["its pages have 8192 bytes, not 4096"]);
    refused(loader().layout(Layout::Remote), "a\n1\n", &["another order of its pages"]);
    let declaration = "CREATE TABLE t(a); CREATE INDEX t_a ON t(a)";
    refused(loader().declaration(declaration), "a\n1\n", &["name t_a for an index is taken"]);
    load(loader().page_size(8192).index("a"), "a\n1\n").expect("a load");
    let connection = Connection::open(&path).expect("a database");
    let name = "SELECT name FROM sqlite_schema WHERE type = 'index'";
    let name = connection.query_row(name, [], |row| row.get::<_, String>(0));
    assert_eq!(name.as_deref(), Ok("t_a_2"));
}

#[test]
fn ways_that_need_a_key_are_refused_without_one() {
    let (folder, path) = database("CREATE TABLE t(id, v); CREATE TABLE u(id PRIMARY KEY, k)");
    let loader = |into| Loader::new(&path).into_table(into);
    refused(loader(IntoTable::Ignore), "id,v\n1,a\n", &["t has no key"]);
    let upsert = || loader(IntoTable::Upsert).uuid7("k", Uuid7Form::Text);
    let error = upsert().table("u").load_reader("u.csv", &b"id\n1\n"[..]);
    let error = error.expect_err("old rows would get other keys").to_string();
    assert!(error.contains("uuid7") && error.contains("to do: leave out"), "{error}");
    let new = Loader::new(folder.path().join("new.db")).create_missing(true);
    refused(new.into_table(IntoTable::Ignore), "id\n1\n", &["t has no key"]);
    // The same in other words.
    let append = loader(IntoTable::Append).on_conflict(OnConflict::Ignore);
    refused(append, "id,v\n1,a\n", &["t has no key"]);
}

#[test]
fn the_rule_that_a_table_lacks_is_named() {
    let (_folder, path) = database("CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let append = || Loader::new(&path).into_table(IntoTable::Append);
    for (loader, says) in [
        (append().strict(true), "it is not STRICT"),
        (append().primary_key("v"), "it has another primary key"),
        (append().without_rowid(true).primary_key("id"), "it is not WITHOUT ROWID"),
        (append().index("v"), "it has no index of v"),
        (append().unique("v DESC"), "it has no unique index of v DESC"),
        (append().not_null("v"), "it takes NULL in its column 'v'"),
    ] {
        refused(loader, "id,v\n1,a\n", &[says, "leave out "]);
    }
    let (_folder, path) =
        database("CREATE TABLE t(id TEXT, email TEXT UNIQUE); CREATE TABLE u(id TEXT)");
    let csv = "id,email\na,b\n";
    for into in [IntoTable::Upsert, IntoTable::Append] {
        refused(
            Loader::new(&path).into_table(into).primary_key("id"),
            csv,
            &["another primary key"],
        );
    }
    let other = Loader::new(&path).table("u").into_table(IntoTable::Append).primary_key("id");
    let error = other.load_reader("u.csv", &b"id\na\n"[..]).expect_err("u has no key");
    assert!(error.to_string().contains("another primary key"), "{error}");
    let (_folder, path) = database("CREATE TABLE t(id TEXT PRIMARY KEY, v)");
    let append = Loader::new(&path).into_table(IntoTable::Append).primary_key("id");
    refused(append.index("v"), "id,v\na,b\n", &["it has no index of v"]);
    let append = Loader::new(&path).into_table(IntoTable::Append).primary_key("id");
    assert_eq!(load(append, "id,v\na,b\n").expect("it has this key").rows_loaded, 1);
    let (_folder, path) = database("CREATE TABLE t(a UNIQUE, b UNIQUE)");
    let upsert = Loader::new(&path).into_table(IntoTable::Upsert);
    refused(upsert, "a,b\n1,2\n", &["2 unique indexes", "Ignore"]);
}

#[test]
fn an_index_that_a_table_has_is_found_in_a_table_of_any_kind() {
    for (declaration, index) in [
        ("CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE INDEX i ON t(v)", "v"),
        ("CREATE TABLE t(id TEXT PRIMARY KEY, v) WITHOUT ROWID; CREATE INDEX i ON t(v)", "v"),
        ("CREATE TABLE t(id, v TEXT COLLATE NOCASE); CREATE INDEX i ON t(v)", "v"),
        ("CREATE TABLE t(id, v); CREATE INDEX i ON t(v COLLATE NOCASE)", "v NOCASE"),
        ("CREATE TABLE t(id, v); CREATE INDEX i ON t(v DESC, id)", "v DESC, id"),
    ] {
        let (_folder, path) = database(declaration);
        let append = Loader::new(&path).into_table(IntoTable::Append).index(index);
        let loaded = load(append, "id,v\n1,a\n").map(|report| report.rows_loaded);
        assert_eq!(loaded.expect(declaration), 1);
    }
    for (declaration, index) in [
        ("CREATE TABLE t(id, v TEXT COLLATE NOCASE); CREATE INDEX i ON t(v COLLATE BINARY)", "v"),
        ("CREATE TABLE t(id, v); CREATE INDEX i ON t(v) WHERE id > 3", "v"),
    ] {
        let (_folder, path) = database(declaration);
        let append = Loader::new(&path).into_table(IntoTable::Append).index(index);
        refused(append, "id,v\n1,a\n", &["it has no index of v"]);
    }
}

#[test]
fn limits_beyond_those_of_the_machine_are_taken_as_these() {
    let (_folder, path) = database("CREATE TABLE u(a)");
    let month = std::time::Duration::from_secs(30 * 86_400);
    let loader = Loader::new(&path).memory(usize::MAX).busy_timeout(month);
    let report = load(loader.primary_key("id"), "id\n3\n1\n2\n").expect("a load");
    assert_eq!(report.rows_loaded, 3);
}
