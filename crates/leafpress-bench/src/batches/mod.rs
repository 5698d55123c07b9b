//! Rows whose keys come in no order, or in order, in batches of one transaction each: how
//! much each batch takes as the table grows. The first part of the experiment "presort".
//!
//! | module | does |
//! |---|---|
//! | here | what a rung is: which keys, by whom, how many batches of how many rows |
//! | `plan` | which rungs are compared with which, and how large they are |
//! | `rows` | the rows: a function of their numbers, for each kind of key |
//! | `rivals` | the batches by SQL: as they come, or sorted first |
//! | `ours` | the same by `Writer::insert_many`, and all rows pressed in one load |
//! | `left` | that every row is there, once, under its own key |
//! | `original` | what the two published experiments found, and whether the order is the same here |
//!
//! All rungs promise the same: SQL has a WAL and `synchronous = FULL`, as the Writer and the
//! load do. So had the originals, by their code, though on a system whose plain sync leaves
//! the bytes in the disk's own cache. In ten transactions of many rows FULL is ten syncs more
//! than NORMAL.
//!
//! The page cache is scaled with the table. The originals' library gives a connection 15,625
//! pages (64 MB) and their tables grew to ten million rows, 0.8 to 1.3 GB: after the first of
//! ten batches the table had outgrown the cache. `BatchesRung::cache_pages` gives the same
//! share of pages to the rows of each size, so that a quick run has that shape too. The Writer
//! keeps its own default of 2 MB, which its sorted rows bear.
//!
//! Must never: end before all rows are in. The late batches are what is asked about, so there
//! is no sample to scale from.

mod left;
mod original;
mod ours;
mod plan;
mod rivals;
mod rows;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use self::original::{about, order};
pub(crate) use self::plan::batches_groups;
use crate::atomic::{Journal, Synchronous, promise};
use crate::check::Left;
use crate::error::Result;
use crate::report::{OriginalFigure, Safety};
use crate::rung::{Described, RungResult};

/// Pages of the originals' cache, and the rows of their tables.
const ORIGINAL_CACHE_PAGES: u64 = 15_625;
const ORIGINAL_ROWS: u64 = 10_000_000;

/// What the rows are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// Twenty random bytes, as of session tokens.
    Bytes,
    /// UUIDs of version 4: random.
    Uuid4,
    /// UUIDs of version 7: they rise with the time.
    Uuid7,
    /// The rowid, one after the other.
    Integer,
}

/// By whom, and in which order within a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filler {
    /// SQL, in the order in which the rows come.
    SqlAsTheyCome,
    /// SQL, each batch sorted by the first eight bytes of its keys as an unsigned number.
    SqlSortedByPrefix,
    /// SQL, each batch sorted by the whole keys.
    SqlSorted,
    /// The Writer, a call of `insert_many` for each batch.
    InsertMany,
    /// The Loader, all rows in one load, in parts on all cores. There are no batches in it.
    Pressed,
}

/// Rows in batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BatchesRung {
    /// What they are found by.
    pub keys: Keys,
    /// Who puts them in.
    pub by: Filler,
    /// How many batches.
    pub batches: u32,
    /// Rows of each.
    pub batch_rows: u64,
}

impl Keys {
    /// Its name in rungs and charts.
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "20 random bytes",
            Self::Uuid4 => "UUIDv4",
            Self::Uuid7 => "UUIDv7",
            Self::Integer => "integer key",
        }
    }

    /// The table that the rows go to: that of the originals, where the integer key was first
    /// an INT, by mistake, and then an INTEGER.
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Integer => "CREATE TABLE event(id INTEGER PRIMARY KEY, data BLOB)",
            _ => "CREATE TABLE event(id BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID",
        }
    }
}

impl Filler {
    fn is_ours(self) -> bool {
        matches!(self, Self::InsertMany | Self::Pressed)
    }

    fn label(self) -> &'static str {
        match self {
            Self::SqlAsTheyCome => "as they come",
            Self::SqlSortedByPrefix => "presorted by 8 bytes",
            Self::SqlSorted => "presorted by the whole key",
            Self::InsertMany => "insert_many",
            Self::Pressed => "pressed in one load",
        }
    }
}

impl BatchesRung {
    /// Rows of all batches.
    fn rows(&self) -> u64 {
        u64::from(self.batches).saturating_mul(self.batch_rows)
    }

    /// Pages of SQL's cache: as many for the rows as the originals had for theirs.
    fn cache_pages(&self) -> u64 {
        (self.rows().saturating_mul(ORIGINAL_CACHE_PAGES) / ORIGINAL_ROWS).max(1)
    }
}

impl Described for BatchesRung {
    fn name(&self) -> String {
        let who = if self.by.is_ours() { "leafpress" } else { "SQL" };
        format!("{}, {who}, {}", self.keys.name(), self.by.label())
    }

    fn label(&self) -> String {
        self.by.label().to_owned()
    }

    fn chart(&self) -> String {
        self.keys.name().to_owned()
    }

    fn safety(&self) -> Safety {
        if self.by.is_ours() {
            Safety::Durable
        } else {
            promise::of(Journal::Wal, Synchronous::Full)
        }
    }

    fn original(&self) -> Option<OriginalFigure> {
        original::figure(self.keys, self.by)
    }

    /// For each row 80 bytes in pages that are two thirds full, and each page again in the
    /// WAL.
    fn room_mb(&self) -> u64 {
        const ROW_BYTES: u64 = 2 * 80 * 3 / 2;
        const ROUNDING_MB: u64 = 10;
        self.rows().saturating_mul(ROW_BYTES) / 1_000_000 + ROUNDING_MB
    }

    fn run(&self, database: &Path) -> Result<RungResult> {
        match self.by {
            Filler::InsertMany => ours::insert_many(self, database),
            Filler::Pressed => ours::press(self, database),
            _ => rivals::fill(self, database),
        }
    }

    fn left(&self, _: &RungResult, database: &Path) -> Result<Left> {
        left::by(self, database)
    }
}
