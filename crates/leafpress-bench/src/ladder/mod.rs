//! The experiment "ladder": the same rows under each setting. It goes from what people begin
//! with up to pressed pages.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung says about itself |
//! | `rung` | a rung: the tool that inserts, and its settings |
//! | `records` | the rows |
//! | `sql` | SQLite's rungs |
//! | `ours` | the Writer's and the loader's |
//! | `check` | that each row was left as it should be |
//! | `plan` | which rungs there are, and which are compared |
//! | `original` | the published experiment that this repeats, and why the order may not be its |
//!
//! Timed work: the rows are in memory before, as a program has them, and the work has
//! been done with a few of them to another database, so that no rival pays for the start of its
//! process. SQLite's database is open and its table is there; the time ends when the last row is committed
//! **and the database is closed**, so that what a write-ahead log leaves for later is in
//! it. The Writer likewise. The loader has nothing beforehand: its file, its table, its
//! syncs and its name are all in the time.
//!
//! Must never: time the making of rows, or let a rung say more than its settings promise.

mod check;
mod original;
mod ours;
mod plan;
mod records;
mod rung;
mod sql;
#[cfg(test)]
mod tests;

use std::path::Path;

pub(crate) use self::original::{about, order};
pub(crate) use self::plan::ladder_groups;
use self::records::Record;
pub(crate) use self::rung::LadderRung;
use self::rung::{PAGES_CHART, SETTINGS_CHART, Step};
use crate::error::Result;
use crate::pragmas::Pragmas;
use crate::report::{OriginalFigure, Safety};
use crate::rung::described::{Described, Found, Given, Left};
use crate::rung::result::RungResult;
use crate::warm_up::warmed_up;

impl Described for LadderRung {
    fn name(&self) -> String {
        let who = if self.is_ours() { "leafpress" } else { "SQL" };
        let pages = if self.is_of_pages() { ", page size" } else { "" };
        format!("ladder, {who}{pages}, {}", self.label())
    }

    fn label(&self) -> String {
        self.by.label()
    }

    fn chart(&self) -> String {
        if self.is_of_pages() { PAGES_CHART } else { SETTINGS_CHART }.to_owned()
    }

    fn is_ours(&self) -> bool {
        self.pragmas().is_none()
    }

    fn safety(&self) -> Safety {
        self.pragmas().map_or(Safety::Durable, Pragmas::safety)
    }

    fn original(&self) -> Option<OriginalFigure> {
        original::figure_of(self.by)
    }

    /// A row takes less than 40 bytes; a log holds all of them once more.
    fn room_mb(&self, _: u64) -> u64 {
        const ROW_BYTES: u64 = 200;
        const FILES_MB: u64 = 20;
        self.rows.saturating_mul(ROW_BYTES) / 1_000_000 + FILES_MB
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        let records = Record::all(self.rows);
        let few = Self { rows: warming_rows(*self), ..*self };
        warmed_up(given.database, |database| insert(few, &records[..few.rows as usize], database))?;
        insert(*self, &records, given.database)
    }

    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left> {
        check::check(*self, result, found.database)
    }
}

/// Rows that go into another database beforehand, so that the process has everything
/// in memory that it needs: few where each is synced.
fn warming_rows(rung: LadderRung) -> u64 {
    const SYNCED: u64 = 3;
    const TOGETHER: u64 = 20_000;
    let rows = match rung.by {
        Step::EachRow(_) | Step::WriterBlocking | Step::WriterInFlight(_) => SYNCED,
        Step::Compiled(_)
        | Step::Prepared(_)
        | Step::Mapped
        | Step::Pages(_)
        | Step::WriterMany
        | Step::Pressed
        | Step::PressedPages(_) => TOGETHER,
    };
    rows.min(rung.rows)
}

fn insert(rung: LadderRung, records: &[Record], database: &Path) -> Result<RungResult> {
    match rung.pragmas() {
        Some(pragmas) => sql::run(rung, pragmas, records, database),
        None => ours::run(rung, records, database),
    }
}
