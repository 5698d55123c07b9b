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
    /// Path of the file.
    pub file: &'s Path,
    /// Name of its table; for a new table, also the name in the destination.
    pub table: &'s str,
    /// Number of its rows.
    pub rows: u64,
}

/// Options of a move or an insert.
#[derive(Debug, Clone)]
pub(in crate::load) struct Settings {
    /// Longest wait for other programs that write or, in rollback mode, read.
    pub busy_timeout: Duration,
    /// Memory for SQLite's cache of pages.
    pub memory_bytes: u64,
    /// Number of threads that SQLite sorts with.
    pub threads: usize,
    /// Token that is checked regularly.
    pub cancel: CancelToken,
    /// Counter of rows that have gone in; where pages are moved, of the rows on them.
    pub rows_done: Arc<AtomicU64>,
    /// True if `sqlite_stat1` is updated after an insert; a new table brings its statistics with
    /// it.
    pub analyze: bool,
}

/// Outcome of a move or an insert.
#[derive(Debug, Clone, Default)]
pub(in crate::load) struct Outcome {
    /// Number of rows that went in, or took the place of a row with the same key.
    pub rows_changed: u64,
    /// Number of rows left out because their key was taken, or because a trigger passed over them.
    pub rows_ignored: u64,
    /// Number of rows that were there and are gone.
    pub rows_removed: u64,
    /// Number of pages of the database afterwards.
    pub pages: u64,
    /// Way in which the rows went in, for the report.
    pub path: String,
    /// Notes for the report, such as renamed columns.
    pub notes: Vec<String>,
    /// Time by stage.
    pub stages: Vec<Stage>,
}
