//! Rows that SQLite inserts itself, one by one.
//!
//! Work that pressing does not cover (a CHECK, a generated column, a trigger) is left to SQLite, in the
//! same temporary file. No other process knows the file, so nothing is synced while it grows, and
//! the journal is in memory: without one, SQLite cannot undo a row that a trigger refuses. The file
//! is synced as a whole before it gets its name. The rows are the same records that would be pressed.
//!
//! Invariant: a refused row leaves nothing in the file, neither itself nor what triggers did for it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use leafpress_format::{RecordColumns, Value};
use rusqlite::Connection;

use super::sqlite::{make_index, not_built, open_built};
use super::{Build, BuildOptions, Built, Dropped, JoinHalt, RowOrder};
use crate::error::{Error, ErrorKind, Result};
use crate::load::bound::Bound;
use crate::load::file::pages::FileSize;
use crate::load::long_statements::set_sorter;
use crate::load::options::OnConflict;
use crate::load::row_savepoint::insert_whole;
use crate::new_file::disk;
use crate::schema::declared::{insert_of_defaults, rowid_name};
use crate::schema::quote_identifier;
use crate::schema::shape::IndexShape;
use crate::sqlite_error::{ROLLED_BACK_TO_DO, is_fault_of_a_row, sqlite_says};

/// Bounds of SQLite's cache; between them it is as large as the memory for sorting.
const CACHE_BYTES_MIN: usize = 2 << 20;
const CACHE_BYTES_MAX: usize = 64 << 20;

/// A row that SQLite refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub sequence: u64,
    /// SQLite's words.
    pub reason: String,
}

/// The table that SQLite fills.
pub struct SqlTable {
    connection: Connection,
    sql: String,
    /// The table's columns that the statement gives a value for.
    columns: Vec<usize>,
    rowid_column: Option<usize>,
    record: RecordColumns,
    refused: Vec<Refused>,
    refused_max: usize,
    ignored: u64,
    /// Rows that went in. Later ones may have taken the place of some.
    inserted: u64,
    /// Indexes to be made when all rows are there.
    after: Vec<IndexShape>,
    /// True if a refused row may have had effects: a trigger's RAISE(FAIL) undoes none.
    has_triggers: bool,
    table: String,
    path: PathBuf,
}

impl SqlTable {
    /// An empty table in the file; older content of the file goes.
    pub fn create(build: &Build<'_>, given: &[bool]) -> Result<Self> {
        let BuildOptions { path, layout, on_conflict, memory_bytes, indexes_first, .. } =
            *build.options;
        let shape = build.shape;
        disk::empty(path).map_err(|source| Error::io("write", path, source))?;
        let refused = |source| not_built("create the table", path, source);
        let connection = open_built(path, build.options.cancel).map_err(refused)?;
        let run = |sql: &str| connection.execute_batch(sql).map_err(refused);
        // Indexes that no constraint needs are quicker to build afterwards.
        let is_early = |it: &&IndexShape| it.unique || (indexes_first && it.through_sql.is_some());
        let declared = shape.indexes.iter().filter(|index| index.sql.is_some());
        let (early, late): (Vec<_>, Vec<_>) = declared.partition(is_early);
        run(&format!(
            "PRAGMA foreign_keys=OFF; PRAGMA page_size={}; PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;
             PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-{}; BEGIN",
            layout.page_bytes(),
            memory_bytes.clamp(CACHE_BYTES_MIN, CACHE_BYTES_MAX) / 1024
        ))?;
        run(&shape.sql)?;
        let early = early.into_iter().filter_map(|index| index.sql.as_ref());
        early.chain(&shape.beside).try_for_each(|sql| run(sql))?;
        let triggers = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger')";
        let has_triggers = connection.query_row(triggers, [], |row| row.get(0)).map_err(refused)?;
        let columns: Vec<usize> = (0..shape.columns.len())
            .filter(|&column| given[column] && !shape.columns[column].generated)
            .collect();
        Ok(Self {
            sql: insert_sql(build, &columns, on_conflict),
            connection,
            columns,
            rowid_column: shape.rowid_column,
            record: RecordColumns::new(),
            refused: Vec::new(),
            refused_max: build.options.refused_max,
            ignored: 0,
            inserted: 0,
            after: late.into_iter().cloned().collect(),
            has_triggers,
            table: shape.name.clone(),
            path: path.to_owned(),
        })
    }

    /// Inserts a row. If SQLite refuses it, it is listed, or ends the build.
    pub fn insert(&mut self, sequence: u64, rowid: i64, record: &[u8]) -> Result<(), JoinHalt> {
        match self.insert_row(rowid, record) {
            Ok(0) => self.ignored += 1,
            Ok(_) => self.inserted += 1,
            Err(error) if is_fault_of_a_row(&error) => {
                let reason = sqlite_says(&error);
                if self.connection.is_autocommit() {
                    return Err(self.rolled_back(sequence, reason).caused_by(error).into());
                }
                let refused = Refused { sequence, reason };
                if self.refused_max == 0 {
                    return Err(JoinHalt::Refused(refused));
                }
                if self.refused.len() < self.refused_max {
                    self.refused.push(refused);
                }
            }
            Err(error) => return Err(not_built("insert a row", &self.path, error).into()),
        }
        Ok(())
    }

    fn insert_row(&mut self, rowid: i64, record: &[u8]) -> rusqlite::Result<usize> {
        self.record.parse(record);
        let values = self.columns.iter().map(|&column| {
            if self.rowid_column == Some(column) {
                Bound(Value::Integer(rowid))
            } else {
                Bound(self.record.value(record, column))
            }
        });
        let insert = || {
            let mut statement = self.connection.prepare_cached(&self.sql)?;
            statement.execute(rusqlite::params_from_iter(values))
        };
        if self.has_triggers { insert_whole(&self.connection, insert) } else { insert() }
    }

    fn rolled_back(&self, sequence: u64, reason: String) -> Error {
        let (table, row) = (self.table.clone(), Some(sequence + 1));
        Error::from(ErrorKind::Constraint { table, reason, row, values: None })
            .to_do(ROLLED_BACK_TO_DO)
    }

    /// Builds the indexes, commits and closes.
    pub fn finish(self, options: &BuildOptions<'_>, started: Instant) -> Result<Built> {
        let BuildOptions { path, analyze, threads, .. } = *options;
        let failed = |source| not_built("finish the table", path, source);
        let run = |sql: &str| self.connection.execute_batch(sql).map_err(failed);
        if !self.after.is_empty() {
            set_sorter(&self.connection, threads).map_err(failed)?;
        }
        self.after.iter().try_for_each(|index| make_index(&self.connection, index, path))?;
        run("COMMIT")?;
        if analyze {
            run("ANALYZE")?;
        }
        let pages: u32 =
            self.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).map_err(failed)?;
        let count = format!("SELECT count(*) FROM {}", quote_identifier(&self.table));
        let rows: i64 = self.connection.query_row(&count, [], |row| row.get(0)).map_err(failed)?;
        // Triggers may add rows that are not of the input, and remove others. Rows that were replaced only
        // the table tells.
        let is_told = self.has_triggers && options.on_conflict != OnConflict::Replace;
        let rows = if is_told { self.inserted } else { rows as u64 };
        self.connection.close().map_err(|(_, source)| failed(source))?;
        let bytes = std::fs::metadata(path).map_err(|source| Error::io("read", path, source))?;
        let (pages, bytes, sync) = (pages.into(), bytes.len(), Duration::ZERO);
        let size = FileSize { pages, bytes, sync, is_arranged: false };
        Ok(Built {
            order: RowOrder::ThroughSql,
            size,
            rows,
            refused: self.refused,
            dropped: Dropped::default(),
            ignored: self.ignored + self.inserted.saturating_sub(rows),
            spilled_bytes: 0,
            sort: started.elapsed(),
        })
    }
}

fn insert_sql(build: &Build<'_>, columns: &[usize], on_conflict: OnConflict) -> String {
    let shape = build.shape;
    let (or, then) = match on_conflict {
        OnConflict::Abort => ("", ""),
        // Not OR IGNORE: that would pass over a NULL or a failed CHECK as well.
        OnConflict::Ignore => ("", " ON CONFLICT DO NOTHING"),
        OnConflict::Replace => (" OR REPLACE", ""),
    };
    let table = quote_identifier(&shape.name);
    if columns.is_empty() {
        let is_column =
            |name: &str| shape.columns.iter().any(|it| it.name.eq_ignore_ascii_case(name));
        let rowid = rowid_name(is_column).filter(|_| shape.key.is_none());
        return insert_of_defaults(&format!("INSERT{or}"), &table, rowid, then);
    }
    let names: Vec<_> =
        columns.iter().map(|&column| quote_identifier(&shape.columns[column].name)).collect();
    let marks = vec!["?"; columns.len()].join(",");
    format!("INSERT{or} INTO {table} ({}) VALUES ({marks}){then}", names.join(","))
}
