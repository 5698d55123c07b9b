//! A workload for plain SQLite: one connection, transactions of all sizes.
//!
//! Rows of a table with an index are inserted, changed and deleted at random,
//! payloads reach over several pages, the cache sometimes is so small that
//! pages spill in the middle of a transaction, WALs are checkpointed. Each
//! transaction also counts itself, so that no content comes twice.
//!
//! Must never: write anything outside of a transaction that is acknowledged.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::history::{Digest, History};
use super::log::{Log, Mark};
use super::random::Random;

/// The settings of a connection that matter after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `PRAGMA journal_mode`.
    pub journal_mode: &'static str,
    /// `PRAGMA synchronous`.
    pub synchronous: &'static str,
    /// True if the database shrinks at times: by `VACUUM`, and by `auto_vacuum` in
    /// some of the databases. SQLite cuts the file *after* the commit.
    pub shrinks: bool,
}

impl Settings {
    /// All in a line.
    pub fn name(self) -> String {
        let shrinking = if self.shrinks { "" } else { ", never shrinking" };
        format!("{} + {}{shrinking}", self.journal_mode, self.synchronous)
    }
}

/// Rows beyond which more are deleted than made: images shall be small.
const ROWS_MAX: usize = 40;

/// Makes the empty database, which is no part of what is crashed.
///
/// # Errors
/// As SQLite says.
pub fn create(path: &Path, settings: Settings, seed: u64) -> rusqlite::Result<()> {
    let mut random = Random::of(&[seed, 1]);
    let connection = Connection::open(path)?;
    let page_bytes = random.choose(&[512, 1024, 1024, 2048, 4096]);
    let auto_vacuum = random.choose(&["NONE", "NONE", "FULL", "INCREMENTAL"]);
    let auto_vacuum = if settings.shrinks { auto_vacuum } else { "NONE" };
    connection.execute_batch(&format!(
        "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {auto_vacuum};
         PRAGMA journal_mode = {};
         CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER NOT NULL, v BLOB NOT NULL);
         CREATE INDEX t_k ON t (k);
         CREATE TABLE turns (count INTEGER NOT NULL);
         INSERT INTO turns VALUES (0);",
        settings.journal_mode
    ))
}

/// The content that [`run`] makes a history of.
///
/// # Errors
/// As SQLite says.
pub fn content(connection: &Connection) -> rusqlite::Result<Digest> {
    let mut digest = Digest::new();
    digest.query(connection, "SELECT count FROM turns")?;
    digest.query(connection, "SELECT id, k, v FROM t ORDER BY id")?;
    Ok(digest)
}

/// Opens the database through a VFS and commits this many transactions, each of
/// which is acknowledged in the log.
///
/// # Errors
/// As SQLite says.
///
/// # Panics
/// If a setting is not in force.
pub fn run(
    path: &Path,
    vfs: &str,
    settings: Settings,
    seed: u64,
    transactions: u64,
    log: &Log,
) -> rusqlite::Result<History> {
    let mut random = Random::of(&[seed, 2]);
    let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs)?;
    let cache_pages = random.choose(&[2000, 2000, 5]);
    let checkpoint_pages = random.choose(&[8, 30, 1000]);
    let in_force: String = connection.query_row(
        &format!("PRAGMA journal_mode = {}", settings.journal_mode),
        [],
        |row| row.get(0),
    )?;
    assert!(in_force.eq_ignore_ascii_case(settings.journal_mode), "{in_force}");
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {}; PRAGMA cache_size = {cache_pages};
         PRAGMA wal_autocheckpoint = {checkpoint_pages};",
        settings.synchronous
    ))?;
    let mut history = History::new(&content(&connection)?);
    for number in 0..transactions {
        transaction(&connection, &mut random)?;
        log.acknowledged(0, number);
        history.committed(Mark { caller: 0, number }, &content(&connection)?);
        if random.percent(4) {
            maintain(&connection, settings, &mut random)?;
        }
    }
    Ok(history)
}

/// Work that leaves the content as it is.
fn maintain(
    connection: &Connection,
    settings: Settings,
    random: &mut Random,
) -> rusqlite::Result<()> {
    let work = random.choose(&[
        "PRAGMA wal_checkpoint(PASSIVE)",
        "PRAGMA wal_checkpoint(RESTART)",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA incremental_vacuum(3)",
        "VACUUM",
    ]);
    if work == "VACUUM" && !settings.shrinks {
        return Ok(());
    }
    connection.prepare(work)?.query([])?.next().map(drop)
}

fn transaction(connection: &Connection, random: &mut Random) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE; UPDATE turns SET count = count + 1")?;
    let changes = random.choose(&[0, 1, 1, 1, 2, 4, 12]);
    for _ in 0..changes {
        change(connection, random)?;
    }
    connection.execute_batch("COMMIT")
}

fn change(connection: &Connection, random: &mut Random) -> rusqlite::Result<()> {
    let rows = connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))?;
    let rows = rows as usize;
    let key = random.below(1000) as i64;
    let value = payload(random);
    let kind = random.below(10);
    if rows == 0 || (kind < 5 && rows < ROWS_MAX) {
        connection.execute("INSERT INTO t (k, v) VALUES (?, ?)", params![key, value])?;
        return Ok(());
    }
    let row = random.below(rows) as i64;
    let sql = match kind {
        0..=2 => "DELETE FROM t WHERE id >= (SELECT id FROM t LIMIT 1 OFFSET ?3) AND k < ?1 + 300",
        3..=7 => "UPDATE t SET k = ?1, v = ?2 WHERE id = (SELECT id FROM t LIMIT 1 OFFSET ?3)",
        _ => "DELETE FROM t WHERE id = (SELECT id FROM t LIMIT 1 OFFSET ?3)",
    };
    let mut statement = connection.prepare(sql)?;
    // Not each statement has all three.
    for (index, value) in
        [(1, key.into()), (2, rusqlite::types::Value::Blob(value)), (3, row.into())]
    {
        let _ = statement.raw_bind_parameter(index, value);
    }
    statement.raw_execute().map(drop)
}

fn payload(random: &mut Random) -> Vec<u8> {
    let length = random.choose(&[0, 10, 60, 60, 200, 700, 2500]);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.number().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
