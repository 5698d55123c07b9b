//! Task and outcome of a move or an insert.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::load::options::CancelToken;
use crate::load::report::Stage;

/// A complete pressed database that no other program has open.
#[derive(Debug, Clone, Copy)]
pub(in crate::load) struct Staged<'s> {
    /// The file.
    pub file: &'s Path,
    /// The name of its table there; for a new table, also in the destination.
    pub table: &'s str,
    /// Rows in it.
    pub rows: u64,
}

/// Options of a move or an insert.
#[derive(Debug, Clone)]
pub(in crate::load) struct Settings {
    /// How long to wait for others that write or, in rollback mode, read.
    pub busy_timeout: Duration,
    /// Memory for the pages that SQLite keeps.
    pub memory_bytes: u64,
    /// Asked again and again.
    pub cancel: CancelToken,
    /// Bumped as rows (or, where pages are moved, the rows on them) go in.
    pub rows_done: Arc<AtomicU64>,
    /// Whether rows that are inserted are to be told of in `sqlite_stat1`; a
    /// new table brings its statistics with it.
    pub analyze: bool,
}

/// Outcome of a move or an insert.
#[derive(Debug, Clone, Default)]
pub(in crate::load) struct Outcome {
    /// Rows that are in the table now and were not before.
    pub rows_inserted: u64,
    /// Rows left out, as their key was there already.
    pub rows_ignored: u64,
    /// Rows that took the place of one with the same key.
    pub rows_updated: u64,
    /// Rows that were there and are gone.
    pub rows_removed: u64,
    /// Pages of the database afterwards.
    pub pages: u64,
    /// How the rows went in, for the report.
    pub path: String,
    /// What a careful person would want to know.
    pub notes: Vec<String>,
    /// Where the time went.
    pub stages: Vec<Stage>,
}
