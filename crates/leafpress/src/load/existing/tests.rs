//! Tables that go into databases of all kinds, with SQLite as the judge.
//!
//! 1. Afterwards `integrity_check` says ok, and the table equals the staged one.
//! 2. What was there before is there still, settings too.
//! 3. After an error nothing has changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::error::Result;
use crate::load::{Column, ColumnType, Loader};

const WAIT: Duration = Duration::from_millis(50);

fn settings() -> Settings {
    Settings {
        busy_timeout: WAIT,
        memory_bytes: 4 << 20,
        cancel: CancelToken::new(),
        rows_done: Arc::default(),
    }
}

/// A folder with a destination in it, and a staged file.
struct Place {
    _folder: TempDir,
    database: PathBuf,
    staged: PathBuf,
}

impl Place {
    /// `setup` makes the destination.
    fn new(setup: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let database = folder.path().join("it's 100% \"ours\"?#.db");
        let staged = folder.path().join(".staged #1%.tmp");
        open(&database).execute_batch(&with_series(setup)).unwrap();
        Self { _folder: folder, database, staged }
    }

    fn stage(self, sql: &str) -> Self {
        let connection = open(&self.staged);
        connection.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF").unwrap();
        connection.execute_batch(&with_series(sql)).unwrap();
        self
    }

    /// Has the loader press rows of an id and a text, some of them long.
    fn press(self, page_bytes: u32, rows: i64) -> Self {
        let columns = [Column::new("id", ColumnType::Integer), Column::new("t", ColumnType::Text)];
        let rows = (1..=rows).map(|id| (id, "x".repeat((id * id % 97) as usize * 200)));
        let loader = Loader::new(&self.staged).table("new").primary_key("id").page_size(page_bytes);
        loader.load_rows(&columns, rows).unwrap();
        self
    }

    fn staged<'p>(&'p self, table: &'p str) -> Staged<'p> {
        Staged { file: &self.staged, table }
    }

    fn move_in(&self, table: &str) -> Result<Outcome> {
        let existing = inspect(&self.database, WAIT)?;
        move_in(&existing, &self.staged(table), &settings())
    }

    /// Moves the table in and compares it with the staged one.
    fn expect_moved(&self, table: &str) -> Outcome {
        let before = facts(&self.database);
        let outcome = self.move_in(table).unwrap();
        assert_eq!(facts(&self.database), before);
        assert_sound(&self.database);
        let staged = content(&open(&self.staged), table);
        let moved = content(&open(&self.database), table);
        assert_eq!(outcome.rows_inserted as usize, staged.len());
        assert!(staged == moved, "{} rows staged, {} moved", staged.len(), moved.len());
        assert_eq!(
            declarations(&open(&self.staged), table),
            declarations(&open(&self.database), table)
        );
        outcome
    }
}

/// Replaces each `series(n)` by a query of the numbers from 1 to n.
fn with_series(sql: &str) -> String {
    let mut parts = sql.split("series(");
    let mut replaced = parts.next().unwrap().to_owned();
    for part in parts {
        let (last, rest) = part.split_once(')').unwrap();
        let query = format!(
            "(WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n
             WHERE value < {last}) SELECT value FROM n)"
        );
        replaced.push_str(&query);
        replaced.push_str(rest);
    }
    replaced
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    connection
}

fn ask<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> T {
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// What must be the same before and after.
fn facts(path: &Path) -> Vec<String> {
    let connection = open(path);
    let pragmas =
        ["page_size", "auto_vacuum", "encoding", "journal_mode", "user_version", "application_id"];
    let mut facts: Vec<String> = pragmas
        .iter()
        .map(|it| ask(&connection, &format!("SELECT CAST({it} AS TEXT) FROM pragma_{it}")))
        .collect();
    if has_table(&connection, "old") {
        facts.push(format!("{:?}", content(&connection, "old")));
    }
    facts
}

fn has_table(connection: &Connection, table: &str) -> bool {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name = ?1";
    connection.query_row(sql, [table], |row| row.get::<_, i64>(0)).unwrap() > 0
}

fn assert_sound(path: &Path) {
    let connection = open(path);
    assert_eq!(ask::<String>(&connection, "PRAGMA integrity_check"), "ok");
}

/// All rows with their rowids, in the table's own order.
fn content(connection: &Connection, table: &str) -> Vec<Vec<rusqlite::types::Value>> {
    let name = crate::schema::quote_identifier(table);
    let without_rowid: i64 =
        ask(connection, &format!("SELECT wr FROM pragma_table_list WHERE name = '{table}'"));
    let rowid = if without_rowid == 0 { "rowid, " } else { "" };
    let mut statement =
        connection.prepare(&format!("SELECT {rowid}* FROM {name} NOT INDEXED")).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
    rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

fn declarations(connection: &Connection, table: &str) -> Vec<(String, String, Option<String>)> {
    let sql = "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name = ?1 ORDER BY rowid";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

const OLD: &str = "CREATE TABLE old(a, b TEXT); CREATE INDEX old_b ON old(b);
    PRAGMA user_version=7; PRAGMA application_id=8;
    INSERT INTO old SELECT value, hex(randomblob(30)) FROM series(500);";

/// Trees of all kinds, several levels deep on small pages, with overflow.
const RICH: &str = "
    CREATE TABLE \"new\"(id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT UNIQUE, v, w REAL);
    CREATE INDEX \"in'dex\" ON \"new\"(v COLLATE NOCASE DESC, w);
    CREATE INDEX partial ON \"new\"(w) WHERE w > 50;
    CREATE INDEX expressed ON \"new\"(length(v));
    INSERT INTO \"new\"(k, v, w)
        SELECT hex(randomblob(20)), substr(hex(randomblob(3000)), 1, abs(random()) % 6000), value * 0.1
        FROM series(900);
    DELETE FROM \"new\" WHERE id % 7 = 0;
    CREATE TABLE gone(a); INSERT INTO gone SELECT randomblob(900) FROM series(60);
    DROP TABLE gone; ANALYZE;";

const JOURNALS: [&str; 4] = ["WAL", "DELETE", "TRUNCATE", "PERSIST"];

#[test]
fn pressed_tables_move_into_databases_of_every_kind() {
    for journal in JOURNALS {
        for page_bytes in [512, 1024, 4096, 65536] {
            let place = Place::new(&format!(
                "PRAGMA page_size={page_bytes}; PRAGMA journal_mode={journal}; {OLD}"
            ))
            .press(page_bytes, 300);
            let outcome = place.expect_moved("new");
            assert!(outcome.path.contains("moved in"), "{}", outcome.path);
        }
    }
}

#[test]
fn indexes_sequences_and_statistics_move_too() {
    for journal in JOURNALS {
        for page_bytes in [512, 4096] {
            for mode in ["NONE", "FULL", "INCREMENTAL"] {
                let setup = format!(
                    "PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum={mode};
                     PRAGMA journal_mode={journal}; {OLD}"
                );
                let stage = format!("PRAGMA page_size={page_bytes}; {RICH}");
                let place = Place::new(&setup).stage(&stage);
                let outcome = place.expect_moved("new");
                assert!(outcome.path.contains("moved in"), "{}", outcome.path);
                let connection = open(&place.database);
                let staged = open(&place.staged);
                for sql in [
                    "SELECT seq FROM sqlite_sequence WHERE name = 'new'",
                    "SELECT group_concat(idx || stat) FROM (SELECT * FROM sqlite_stat1 WHERE tbl = 'new' ORDER BY idx)",
                ] {
                    assert_eq!(
                        ask::<String>(&connection, &format!("SELECT CAST(({sql}) AS TEXT)")),
                        ask::<String>(&staged, &format!("SELECT CAST(({sql}) AS TEXT)"))
                    );
                }
                // What is allocated next must not be one of the new pages.
                let more = "INSERT INTO old SELECT value, randomblob(500) FROM series(400);
                    DELETE FROM \"new\" WHERE id % 3 = 0; DROP TABLE old; PRAGMA incremental_vacuum;";
                connection.execute_batch(&with_series(more)).unwrap();
                drop(connection);
                assert_sound(&place.database);
            }
        }
    }
}

#[test]
fn without_rowid_tables_move() {
    let stage = "CREATE TABLE \"new\"(a, b TEXT COLLATE NOCASE, c, PRIMARY KEY(b DESC, a)) WITHOUT ROWID;
        CREATE INDEX c ON \"new\"(c);
        INSERT INTO \"new\" SELECT value, hex(randomblob(abs(random()) % 4000)), value FROM series(700);";
    for mode in ["NONE", "FULL"] {
        let place = Place::new(&format!("PRAGMA auto_vacuum={mode}; {OLD}")).stage(stage);
        assert!(place.expect_moved("new").path.contains("moved in"));
    }
}

#[test]
fn free_pages_stay_for_later() {
    for mode in ["NONE", "INCREMENTAL"] {
        let setup = format!(
            "PRAGMA auto_vacuum={mode}; PRAGMA journal_mode=WAL; {OLD}
             CREATE TABLE gone AS SELECT randomblob(3000) FROM series(300); DROP TABLE gone;"
        );
        let place = Place::new(&setup).stage(RICH);
        place.expect_moved("new");
        open(&place.database).execute_batch("PRAGMA incremental_vacuum; VACUUM").unwrap();
        assert_sound(&place.database);
    }
}

#[test]
fn empty_tables_and_empty_databases() {
    let place = Place::new("").stage("CREATE TABLE \"new\"(a); CREATE INDEX i ON \"new\"(a)");
    assert_eq!(std::fs::metadata(&place.database).unwrap().len(), 0);
    assert_eq!(place.expect_moved("new").rows_inserted, 0);
    let place = Place::new("").stage(RICH);
    place.expect_moved("new");
}

#[test]
fn what_cannot_be_moved_is_copied_and_says_why() {
    let cases = [
        ("PRAGMA encoding='UTF-16'", "the database's texts are UTF-16"),
        ("PRAGMA encoding='UTF-16be'; PRAGMA auto_vacuum=FULL", "the database's texts are UTF-16"),
        ("PRAGMA page_size=1024", "its pages have 1024 bytes and the pressed ones 4096"),
        ("", "the database has an old schema format"),
    ];
    for journal in ["WAL", "DELETE"] {
        for (setup, reason) in cases {
            for table in [
                RICH,
                "CREATE TABLE \"new\"(a PRIMARY KEY, b AS (a || 'x'), c) WITHOUT ROWID;
                 INSERT INTO \"new\" SELECT hex(value), value FROM series(300); CREATE INDEX i ON \"new\"(b)",
                "CREATE TABLE \"new\"(rowid, oid); INSERT INTO \"new\"(_rowid_, oid)
                 SELECT value * 3, value FROM series(300)",
                "CREATE TABLE \"new\"(a, b); INSERT INTO \"new\" SELECT value, value FROM series(300)",
            ] {
                let place = Place::new("");
                let connection = open(&place.database);
                connection.set_db_config(LEGACY, reason.contains("old schema")).unwrap();
                let setup = format!("{setup}; PRAGMA journal_mode={journal}; {OLD}");
                connection.execute_batch(&with_series(&setup)).unwrap();
                drop(connection);
                let outcome = place.stage(table).expect_moved("new");
                assert!(outcome.path.ends_with(reason), "{setup} {table}: {}", outcome.path);
            }
        }
    }
}

const LEGACY: rusqlite::config::DbConfig =
    rusqlite::config::DbConfig::SQLITE_DBCONFIG_LEGACY_FILE_FORMAT;

#[test]
fn reserved_bytes_are_kept() {
    for (reserved, path) in
        [(0_u8, "moved in"), (32, "its pages have 32 reserved bytes and the pressed ones 0")]
    {
        let place = Place::new("PRAGMA user_version=7");
        let mut bytes = std::fs::read(&place.database).unwrap();
        bytes[20] = reserved;
        bytes[105..107].copy_from_slice(&(4096 - u16::from(reserved)).to_be_bytes());
        std::fs::write(&place.database, bytes).unwrap();
        open(&place.database).execute_batch(&with_series(OLD)).unwrap();
        let place = place.stage(RICH);
        let existing = inspect(&place.database, WAIT).unwrap();
        assert_eq!(existing.reserved_bytes, reserved);
        let outcome = place.expect_moved("new");
        assert!(outcome.path.contains(path), "{}", outcome.path);
        // Staged for the same layout, it can be moved.
        if reserved > 0 {
            std::fs::copy(&place.database, &place.staged).unwrap();
            open(&place.database).execute_batch("DROP TABLE \"new\"").unwrap();
            assert!(place.expect_moved("new").path.contains("moved in"));
        }
    }
}
