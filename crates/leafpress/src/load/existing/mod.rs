//! A database that exists, and how a finished pressed file's table gets into it.
//!
//! The loader presses into a hidden file beside the destination, and then:
//!
//! ```text
//! inspect ──► what the destination is like, or a clear refusal, before any work
//! move_in ──► a new table: its pages are moved in (`pages.rs`, `carry.rs`),
//!             or, where that cannot be, its rows copied (`copy.rs`); the report says why
//! insert  ──► an existing table: INSERT … SELECT from the attached file (`insert.rs`),
//!             or, where SQLite refuses a row, one by one (`one_by_one.rs`)
//! ```
//!
//! A dry run does the same on an overlay, which keeps all changes (`overlay.rs`).
//!
//! Both are one ordinary SQLite transaction, so that the rollback journal or
//! the WAL protects it, and readers see the old state or the new one.
//!
//! Invariants:
//! 1. After an error the destination is as it was.
//! 2. After success the new state survives a power cut: `synchronous` is EXTRA.
//! 3. The database's own settings (journal mode, page size, encoding,
//!    auto-vacuum, versions) are the same after as before.
//!
//! Must never: write to the file past SQLite, or open and close it past SQLite
//! while it may be in use. On Unix the latter drops the locks that this
//! process holds on it.

mod carry;
mod connect;
mod copy;
mod declared;
mod index;
mod indexes;
mod insert;
mod inspect;
mod move_in;
mod one_by_one;
mod orphan;
mod overlay;
mod pages;
mod references;
mod rows;
mod staged;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub(in crate::load) use self::connect::UNCHANGED;
pub(crate) use self::declared::{ColumnList, DeclaredColumn, DeclaredTable, OrderColumn};
pub use self::index::{IndexReport, Indexer};
pub(in crate::load) use self::insert::{
    BestOrder, InsertHalt, InsertMode, Into, best_order, insert,
};
pub(in crate::load) use self::inspect::{
    Existing, describe_table, inspect, look_at, no_such_table,
};
pub(in crate::load) use self::move_in::{find_orphan, move_in};
pub(in crate::load) use self::one_by_one::{Refusals, RefusedRow, insert_one_by_one, no_such_row};
pub(in crate::load) use self::orphan::Orphan;
pub(crate) use self::rows::shown_value;

use super::options::CancelToken;
use super::report::Stage;

/// A complete pressed database that nobody else has open.
#[derive(Debug, Clone, Copy)]
pub(in crate::load) struct Staged<'s> {
    /// The file.
    pub file: &'s Path,
    /// The name of its table there; for a new table, also in the destination.
    pub table: &'s str,
    /// Rows in it.
    pub rows: u64,
}

/// What a caller may ask of a move or an insert.
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

/// What a move or an insert did.
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
