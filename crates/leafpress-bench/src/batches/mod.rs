//! Batches of rows, with keys in order or in none. Each is one transaction, and is timed as the
//! table grows. The first part of the experiment "presort".
//!
//! | module | does |
//! |---|---|
//! | here | what a rung says about itself |
//! | `rung` | a rung: the keys, the tool, the numbers of batches and of their rows |
//! | `plan` | which rungs are compared with which, and how large they are |
//! | `rows` | the rows: a function of their numbers, for each kind of key |
//! | `rivals` | the batches by SQL: as they come, or sorted first |
//! | `ours` | the batches by `Writer::insert_many`, and all rows pressed in one load |
//! | `check` | that every row is there, once, under its own key |
//! | `original` | what the two published experiments found, and whether the order is theirs here |
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

mod check;
mod original;
mod ours;
mod plan;
mod rivals;
mod rows;
mod rung;

use std::time::Duration;

pub(crate) use self::original::{about, order};
pub(crate) use self::plan::batches_groups;
pub(crate) use self::rung::BatchesRung;
use self::rung::Filler;
use crate::error::Result;
use crate::pragmas::Pragmas;
use crate::report::{OriginalFigure, Safety};
use crate::rung::described::{Described, Found, Given, Left};
use crate::rung::result::RungResult;

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

    fn is_ours(&self) -> bool {
        self.by.is_ours()
    }

    fn safety(&self) -> Safety {
        if self.is_ours() { Safety::Durable } else { Pragmas::WAL_FULL.safety() }
    }

    fn original(&self) -> Option<OriginalFigure> {
        original::figure(self.keys, self.by)
    }

    /// For each row 80 bytes in pages that are two thirds full, and each page again in the
    /// WAL.
    fn room_mb(&self, _: u64) -> u64 {
        const ROW_BYTES: u64 = 2 * 80 * 3 / 2;
        const ROUNDING_MB: u64 = 10;
        self.rows().saturating_mul(ROW_BYTES) / 1_000_000 + ROUNDING_MB
    }

    fn rest(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        match self.by {
            Filler::InsertMany => ours::insert_many(self, given.database),
            Filler::Pressed => ours::press(self, given.database),
            Filler::SqlAsTheyCome => rivals::fill(self, None, given.database),
            Filler::SqlSortedByPrefix => {
                rivals::fill(self, Some(rivals::sorted_by_prefix), given.database)
            }
            Filler::SqlSorted => rivals::fill(self, Some(rivals::sorted), given.database),
        }
    }

    fn check(&self, _: &RungResult, found: &Found<'_>) -> Result<Left> {
        check::check(self, found.database)
    }
}
