//! Rows that come in no order, through SQL.
//!
//! Pressing takes rows in key order. Where a primary key does not ascend, the
//! rows are inserted by SQLite itself into the same temporary file, which
//! nobody else knows: so journal and sync are off while it grows, and it is
//! synced as a whole before it gets its name.

use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use leafpress_format::PageLayout;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::fields::{Misfit, RowRules, Scratch, Written, check_utf8};
use super::pages::FileSize;
use super::pass::{BlockRows, Halt, Work};
use super::rejects::Rejects;
use super::sink::Values;
use super::turns::lock;
use crate::error::{BadRow, Error, Result};
use crate::input::csv::RecordSpan;
use crate::input::csv::locate::{EXCERPT_BYTES_MAX, excerpt, position};
use crate::schema::{RealForms, TableSchema, quote_identifier};

/// What the report says of this path.
pub const WHY_UNSORTED: &str = "SQL: the primary key does not ascend in the input";

/// The insert pass.
pub struct Insert<'p> {
    pub file: &'p str,
    pub rules: &'p RowRules,
    /// Where rows with a repeated key go; without it the first one is an error.
    pub skip_into: Option<&'p Mutex<Rejects>>,
}

/// A block's rows as values.
pub struct BlockValues {
    rows: Vec<RowValues>,
    scratch: Scratch,
}

struct RowValues {
    values: Vec<Value>,
    /// To be shown if SQLite refuses the row: its line, its bytes, and where
    /// in them the key stands.
    line: u64,
    bytes: Vec<u8>,
    key_at: usize,
}

/// The table that SQLite fills.
pub struct InsertedTable {
    connection: Connection,
    sql: String,
    repeated: u64,
}

impl InsertedTable {
    /// An empty table in the file, whatever was in it before.
    pub fn create(path: &Path, schema: &TableSchema, layout: PageLayout) -> Result<Self> {
        std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(path)
            .map_err(|source| Error::io("write", path, source))?;
        let refused = |source| Error::sqlite("create the table", source);
        let connection = Connection::open(path).map_err(refused)?;
        let setup = format!(
            "PRAGMA page_size={}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;
             PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-65536; BEGIN; {}",
            layout.page_bytes(),
            schema.create_sql()
        );
        connection.execute_batch(&setup).map_err(refused)?;
        let marks = vec!["?"; schema.columns.len()].join(",");
        let sql = format!("INSERT INTO {} VALUES ({marks})", quote_identifier(&schema.table));
        Ok(Self { connection, sql, repeated: 0 })
    }

    /// Rows left out as their key was there already.
    pub fn repeated_rows(&self) -> u64 {
        self.repeated
    }

    /// Commits, closes and syncs the file.
    pub fn finish(self, path: &Path) -> Result<FileSize> {
        let refused = |source| Error::sqlite("finish the table", source);
        self.connection.execute_batch("COMMIT").map_err(refused)?;
        let pages: u32 =
            self.connection.query_row("PRAGMA page_count", [], |r| r.get(0)).map_err(refused)?;
        self.connection.close().map_err(|(_, source)| refused(source))?;
        let started = Instant::now();
        let failed = |source| Error::io("sync", path, source);
        let file = std::fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Ok(FileSize { pages: pages.into(), bytes, sync: started.elapsed() })
    }
}

impl Work for Insert<'_> {
    type Made = BlockValues;
    type Joined = InsertedTable;
    type Ticket = ();

    fn start(&self) -> BlockValues {
        BlockValues { rows: Vec::new(), scratch: Scratch::new() }
    }

    fn rows(&self, rows: &BlockRows<'_>, made: &mut BlockValues) -> Result<(), Halt> {
        made.rows.clear();
        let is_utf8 = simdutf8::basic::from_utf8(rows.block.data()).is_ok();
        let mut line = rows.block.first_line();
        let mut counted_to = rows.block.start();
        let mut forms = vec![RealForms::default(); self.rules.rules.len()];
        for span in rows.records() {
            line += memchr::memchr_iter(b'\n', &rows.bytes[counted_to..span.start]).count() as u64;
            counted_to = span.start;
            let values = self.values(rows.bytes, &span, is_utf8, &mut forms, &mut made.scratch);
            let values = match values {
                Ok(Some(values)) => values,
                Ok(None) => return Err(Halt::Refuted),
                Err(misfit) => {
                    return Err(Halt::Failed(rows.bad_row(self.file, misfit, &span).into()));
                }
            };
            let bytes = rows.row_bytes(&span).to_vec();
            let key_at = self.rules.key_start(&span) - span.start;
            made.rows.push(RowValues { values, line, bytes, key_at });
        }
        Ok(())
    }

    fn join(&self, made: &mut BlockValues, joined: &mut InsertedTable) -> Result<(), Halt> {
        let InsertedTable { connection, sql, repeated } = joined;
        let refused = |source| Error::sqlite("insert a row", source);
        let mut statement = connection.prepare_cached(sql).map_err(refused)?;
        for row in made.rows.drain(..) {
            match statement.execute(params_from_iter(&row.values)) {
                Ok(_) => {}
                Err(error) if is_constraint(&error) => {
                    self.refuse(&row)?;
                    *repeated += 1;
                }
                Err(error) => return Err(refused(error).into()),
            }
        }
        match self.skip_into {
            Some(rejects) => Ok(lock(rejects).release()?),
            None => Ok(()),
        }
    }

    fn finish(&self, (): (), _made: &mut BlockValues) -> Result<(), Halt> {
        Ok(())
    }
}

impl Insert<'_> {
    /// A row's values; `None` if they refute a detected type.
    fn values(
        &self,
        bytes: &[u8],
        span: &RecordSpan<'_>,
        is_utf8: bool,
        forms: &mut [RealForms],
        scratch: &mut Scratch,
    ) -> Result<Option<Vec<Value>>, Misfit> {
        if !is_utf8 {
            check_utf8(bytes, span)?;
        }
        self.rules.check_shape(span)?;
        let rowid = self.rules.rowid(bytes, span, scratch)?;
        let mut values = Values::default();
        match self.rules.write(bytes, span, &mut values, forms, scratch) {
            Written::Whole => {}
            Written::Refuted => return Ok(None),
            Written::Bad => return Err(self.rules.misfit_of(bytes, span, scratch)),
        }
        let mut values = values.0;
        values.reverse();
        if let (Some(rowid), Some(column)) = (rowid, self.rules.primary_key) {
            values[column] = Value::Integer(rowid);
        }
        Ok(Some(values))
    }

    /// A row whose key is there already.
    fn refuse(&self, row: &RowValues) -> Result<()> {
        let column = self.rules.primary_key.unwrap_or_default();
        let key = match row.values.get(column) {
            Some(Value::Integer(key)) => key.to_string(),
            _ => String::new(),
        };
        let name = &self.rules.names[column];
        let place = position(&row.bytes, 0, row.line, row.key_at);
        let bad = BadRow {
            file: self.file.to_owned(),
            line: place.line,
            column: place.column,
            reason: format!("column {name:?}: the primary key {key} occurs more than once"),
            row: excerpt(&row.bytes, 0, row.bytes.len(), EXCERPT_BYTES_MAX),
        };
        match self.skip_into {
            Some(rejects) => lock(rejects).add(bad, &row.bytes),
            None => Err(bad.into()),
        }
    }
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}
