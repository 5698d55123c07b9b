//! Databases whose pages are in the order for readers at a distance.

use std::fmt::Write as _;
use std::path::Path;

use leafpress::load::{Column, ColumnType, Layout, Loader};
use leafpress_testing::{assert_integrity, assert_same_database, assert_same_rows};
use rusqlite::Connection;
use tempfile::tempdir;

fn open(path: &Path) -> Connection {
    Connection::open(path).unwrap()
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// All interior pages are among the first pages; only roots and the schema lie between them.
fn is_arranged(db: &Connection) -> bool {
    let front = "FROM dbstat WHERE pagetype = 'internal' OR path = '/' OR name = 'sqlite_schema'";
    let last = "SELECT ifnull(max(pageno), 1) FROM dbstat WHERE pagetype = 'internal'";
    number(db, last) <= number(db, &format!("SELECT count(*) {front}"))
}

fn csv(rows: i64, note_bytes: i64) -> String {
    let mut text = String::from("id,name,note\n");
    for id in 0..rows {
        let note = "n".repeat((id * 31 % note_bytes.max(1)) as usize);
        writeln!(text, "{},{}-{id},{note}", id * 3, id * 7919 % rows).unwrap();
    }
    text
}

type Prepare = fn(Loader) -> Loader;

const TABLES: [Prepare; 6] = [
    |loader| loader.primary_key("id"),
    |loader| loader.primary_key("id").index("name").unique("note, id").analyze(true),
    |loader| loader.primary_key("name").without_rowid(true).index("id"),
    |loader| {
        loader.declaration(
            "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, name, note);
             CREATE INDEX few ON t (name) WHERE id % 2; CREATE VIEW v AS SELECT id FROM t",
        )
    },
    |loader| loader.declaration("CREATE TABLE t (id, name CHECK (name <> ''), note UNIQUE)"),
    |loader| loader,
];

#[test]
fn every_table_is_the_same_in_either_order() {
    let folder = tempdir().unwrap();
    let mut in_order_by_itself = 0;
    for (at, prepare) in TABLES.into_iter().enumerate() {
        for page_bytes in [512, 1024, 4096, 65536] {
            // The notes of the fifth table must differ.
            let text = if at == 4 { csv(200, 100_000) } else { csv(3000, 3000) };
            let input = folder.path().join("t.csv");
            let load = |layout, name: &str| {
                let path = folder.path().join(format!("{name}-{at}-{page_bytes}.db"));
                let loader = Loader::new(&path).table("t").page_size(page_bytes).layout(layout);
                // The size of a file is known before it is read, that of a pipe is not.
                let report = if at % 2 == 0 {
                    std::fs::write(&input, &text).unwrap();
                    prepare(loader).load_file(&input).unwrap()
                } else {
                    prepare(loader).load_reader("t.csv", text.as_bytes()).unwrap()
                };
                let db = open(&path);
                assert_eq!(report.pages, number(&db, "PRAGMA page_count") as u64);
                assert_eq!(report.bytes_written, path.metadata().unwrap().len());
                db
            };
            let (local, remote) = (load(Layout::Local, "local"), load(Layout::Remote, "remote"));
            if at == 3 {
                // No query of all rows can be told to use a partial index.
                assert_integrity(&remote);
                assert_same_rows(&remote, &local, "t");
            } else {
                assert_same_database(&remote, &local);
            }
            assert!(is_arranged(&remote), "table {at}, {page_bytes}");
            in_order_by_itself += i32::from(is_arranged(&local));
            assert_eq!(number(&remote, "PRAGMA page_size"), i64::from(page_bytes));
            remote.execute_batch("DELETE FROM t WHERE id % 2; VACUUM").unwrap();
            assert_integrity(&remote);
        }
    }
    assert!(in_order_by_itself < 8, "the control: {in_order_by_itself}");
}

#[test]
fn the_page_size_follows_the_rows() {
    let folder = tempdir().unwrap();
    let load = |name: &str, text: &str| {
        let path = folder.path().join(name);
        let loader = Loader::new(&path).table("t").layout(Layout::Remote);
        loader.load_reader("t.csv", text.as_bytes()).unwrap();
        let db = open(&path);
        assert_integrity(&db);
        assert!(is_arranged(&db));
        number(&db, "PRAGMA page_size")
    };
    assert_eq!(load("short.db", &csv(2000, 100)), 8192);
    assert_eq!(load("empty.db", "id,name,note\n"), 8192);
    // A third of the rows fits no page of 8192 bytes, nearly none is too long for 16384.
    assert_eq!(load("long.db", &csv(2000, 12_000)), 16384);
    // No page takes most of these rows.
    assert_eq!(load("huge.db", &format!("a,b\n1,{}\n", "x".repeat(500_000))), 8192);
}

#[test]
fn rows_that_cannot_be_read_twice_keep_the_first_page_size() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.db");
    let rows = (1..=300_i64).map(|id| (id, "x".repeat(9000)));
    let columns = [Column::new("id", ColumnType::Integer), Column::new("x", ColumnType::Text)];
    let loader = Loader::new(&path).table("t").primary_key("id").layout(Layout::Remote);
    assert_eq!(loader.load_rows(&columns, rows).unwrap().rows_loaded, 300);
    let db = open(&path);
    assert_eq!(number(&db, "PRAGMA page_size"), 8192);
    assert!(is_arranged(&db));
    assert_eq!(number(&db, "SELECT sum(length(x)) FROM t"), 300 * 9000);
}

#[test]
fn only_a_new_database_has_an_order() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("t.db");
    open(&path).execute_batch("CREATE TABLE other(a)").unwrap();
    let before = std::fs::read(&path).unwrap();
    let loader = Loader::new(&path).table("t").layout(Layout::Remote);
    let error = loader.load_reader("t.csv", &b"a\n1\n"[..]).unwrap_err();
    assert!(error.to_string().contains("only a new database"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// A failure in either half leaves nothing.
#[test]
fn a_load_that_fails_leaves_no_file() {
    let folder = tempdir().unwrap();
    let loader = Loader::new(folder.path().join("t.db")).table("t").primary_key("id");
    let text = b"id,a\n1,x\n1,y\n";
    loader.layout(Layout::Remote).load_reader("t.csv", &text[..]).unwrap_err();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
