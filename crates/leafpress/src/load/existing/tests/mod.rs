//! Tables that go into databases of all kinds, with SQLite as the judge.
//!
//! 1. Afterwards `integrity_check` says ok, and the table equals the staged one.
//! 2. What was there before is there still, settings too.
//! 3. After an error nothing has changed.

mod chains;
mod crash;
mod insert;
mod kept;
mod moving;
mod refusals;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::error::Result;
use crate::load::{CancelToken, Column, ColumnType, Loader};

const WAIT: Duration = Duration::from_millis(50);

fn settings() -> Settings {
    Settings {
        busy_timeout: WAIT,
        memory_bytes: 4 << 20,
        threads: 2,
        cancel: CancelToken::new(),
        rows_done: Arc::default(),
        analyze: false,
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
        // Windows takes no quotation and question marks.
        let name = if cfg!(windows) { "it's 100% ours#.db" } else { "it's 100% \"ours\"?#.db" };
        let database = folder.path().join(name);
        let staged = folder.path().join(".staged #1%.tmp");
        open(&database).execute_batch(&with_series(setup)).unwrap();
        Self { _folder: folder, database, staged }
    }

    fn stage(self, sql: &str) -> Self {
        let connection = open(&self.staged);
        connection
            .execute_batch(
                "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF",
            )
            .unwrap();
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
        let rows = format!("SELECT count(*) FROM {}", crate::schema::quote_identifier(table));
        let rows: i64 = ask(&open(&self.staged), &rows);
        Staged { file: &self.staged, table, rows: rows.unsigned_abs() }
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
        assert_eq!(outcome.rows_changed as usize, staged.len());
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

/// State that must be equal before and after.
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
