//! The experiment "ladder": the same rows under one setting after the other, from what
//! people begin with up to pressed pages.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung is: who inserts, under which settings |
//! | `pragmas` | SQLite's settings, and what they promise |
//! | `records` | the rows |
//! | `sql` | SQLite's rungs |
//! | `ours` | the Writer's and the loader's |
//! | `left` | that each row was left as it should be |
//! | `plan` | which rungs there are, and which are compared |
//! | `about` | the published experiment that this repeats, and why the order may not be its |
//! | `compared` | whether rungs come in the order of a published experiment |
//!
//! What is timed: the rows are in memory before, as a program has them, and the same has
//! been done with a few of them to another database, so that nobody pays for the start of
//! its process. SQLite's
//! database is open and its table is there; the time ends when the last row is committed
//! **and the database is closed**, so that what a write-ahead log leaves for later is in
//! it. The Writer likewise. The loader has nothing beforehand: its file, its table, its
//! syncs and its name are all in the time.
//!
//! Must never: time the making of rows, or let a rung say more than its settings promise.

mod about;
pub(crate) mod compared;
mod left;
mod ours;
mod plan;
pub(crate) mod pragmas;
mod records;
mod sql;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use self::about::{about, order};
pub(crate) use self::plan::ladder_groups;
use self::pragmas::Pragmas;
use self::records::Record;
use crate::check::Left;
use crate::error::{Error, Result};
use crate::report::{OriginalFigure, Safety};
use crate::rung::{Described, RungResult};
use crate::usage::Usage;

/// The table that all rungs fill.
pub(crate) const TABLE: &str =
    "CREATE TABLE record(id INTEGER PRIMARY KEY, name TEXT, number TEXT, amount INTEGER)";

/// What puts one row in.
pub(crate) const INSERT: &str = "INSERT INTO record VALUES (?, ?, ?, ?)";

/// Where SQLite's settings are compared.
pub(crate) const SETTINGS_CHART: &str = "settings";

/// Where its page sizes are compared.
pub(crate) const PAGES_CHART: &str = "page size";

/// SQLite's own page size, and the loader's.
const PAGE_BYTES_DEFAULT: u32 = 4096;

/// Who puts the rows in, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// SQLite, a transaction for each row, the statement compiled each time.
    EachRow(Pragmas),
    /// SQLite, one transaction, the statement compiled each time.
    Compiled(Pragmas),
    /// SQLite, one transaction, the statement compiled once.
    Prepared(Pragmas),
    /// The same, under the defaults, with the file mapped into memory.
    Mapped,
    /// The same, under the defaults, with pages of so many bytes.
    Pages(u32),
    /// The Writer, a call for each row, each waiting for its commit.
    WriterBlocking,
    /// The Writer, a call for each row, so many of them under way.
    WriterInFlight(u32),
    /// The Writer, all rows in one call.
    WriterMany,
    /// The loader: pages are built and written.
    Pressed,
    /// The same, beside other page sizes.
    PressedPages(u32),
}

/// A step of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LadderRung {
    /// Who puts the rows in, and how.
    pub by: Step,
    /// How many.
    pub rows: u64,
    /// No row is begun after so long where each is a transaction, and the time is scaled.
    pub milliseconds_max: u64,
}

impl LadderRung {
    /// SQLite's settings, where it is SQLite.
    pub(crate) fn pragmas(self) -> Option<Pragmas> {
        match self.by {
            Step::EachRow(pragmas) | Step::Compiled(pragmas) | Step::Prepared(pragmas) => {
                Some(pragmas)
            }
            Step::Mapped | Step::Pages(_) => Some(Pragmas::DEFAULT),
            _ => None,
        }
    }

    fn page_bytes(self) -> u32 {
        match self.by {
            Step::Pages(bytes) | Step::PressedPages(bytes) => bytes,
            _ => PAGE_BYTES_DEFAULT,
        }
    }

    fn is_of_pages(self) -> bool {
        matches!(self.by, Step::Pages(_) | Step::PressedPages(_))
    }

    /// Rows that go into another database beforehand, so that the process has everything
    /// in memory that it needs: few where each is synced.
    fn warming_rows(self) -> u64 {
        const SYNCED: u64 = 3;
        const TOGETHER: u64 = 20_000;
        let rows = match self.by {
            Step::EachRow(_) | Step::WriterBlocking | Step::WriterInFlight(_) => SYNCED,
            _ => TOGETHER,
        };
        rows.min(self.rows)
    }

    fn insert(self, records: &[Record], database: &Path) -> Result<RungResult> {
        match self.pragmas() {
            Some(pragmas) => sql::run(self, pragmas, records, database),
            None => ours::run(self, records, database),
        }
    }

    fn time_max(self) -> Duration {
        Duration::from_millis(self.milliseconds_max)
    }

    /// The journal mode that its database is left in.
    fn journal_left(self) -> &'static str {
        match (self.pragmas(), self.by) {
            (Some(pragmas), _) => pragmas.journal_left(),
            (None, Step::Pressed | Step::PressedPages(_)) => "delete",
            (None, _) => "wal",
        }
    }
}

impl Described for LadderRung {
    fn name(&self) -> String {
        let who = if self.pragmas().is_some() { "SQL" } else { "leafpress" };
        let pages = if self.is_of_pages() { ", page size" } else { "" };
        format!("ladder, {who}{pages}, {}", self.label())
    }

    fn label(&self) -> String {
        let page = |bytes: u32| match bytes {
            PAGE_BYTES_DEFAULT => format!("{bytes} (default)"),
            _ => bytes.to_string(),
        };
        match self.by {
            Step::EachRow(pragmas) => format!("{}, a transaction a row", pragmas.label()),
            Step::Compiled(pragmas) => format!("{}, one transaction", pragmas.label()),
            Step::Prepared(pragmas) => format!("{}, prepared", pragmas.label()),
            Step::Mapped => "default, memory-mapped, prepared".to_owned(),
            Step::Pages(bytes) => page(bytes),
            Step::WriterBlocking => "Writer, one call at a time".to_owned(),
            Step::WriterInFlight(calls) => format!("Writer, {calls} calls in flight"),
            Step::WriterMany => "Writer, insert_many".to_owned(),
            Step::Pressed => "pressed".to_owned(),
            Step::PressedPages(bytes) => format!("pressed, {}", page(bytes)),
        }
    }

    fn chart(&self) -> String {
        if self.is_of_pages() { PAGES_CHART } else { SETTINGS_CHART }.to_owned()
    }

    fn safety(&self) -> Safety {
        self.pragmas().map_or(Safety::Durable, Pragmas::safety)
    }

    fn original(&self) -> Option<OriginalFigure> {
        about::figure_of(self.by)
    }

    /// A row takes less than 40 bytes; a log holds all of them once more.
    fn room_mb(&self) -> u64 {
        const ROW_BYTES: u64 = 200;
        const FILES_MB: u64 = 20;
        self.rows.saturating_mul(ROW_BYTES) / 1_000_000 + FILES_MB
    }

    fn run(&self, database: &Path) -> Result<RungResult> {
        let records = Record::all(self.rows);
        let rows = self.warming_rows();
        warmed_up(database, |database| {
            Self { rows, ..*self }.insert(&records[..rows as usize], database)
        })?;
        self.insert(&records, database)
    }

    fn left(&self, result: &RungResult, database: &Path) -> Result<Left> {
        left::by(*self, result, database)
    }
}

/// Does a little of the work in another database, which is removed.
pub(crate) fn warmed_up(
    database: &Path,
    work: impl FnOnce(&Path) -> Result<RungResult>,
) -> Result<()> {
    let other = database.with_extension("warming-up");
    work(&other)?;
    fs::remove_file(&other).map_err(Error::io("remove", &other))
}

/// Times the work, which says how many rows it has put in.
fn timed(rows: u64, work: impl FnOnce(Instant) -> Result<u64>) -> Result<RungResult> {
    let before = Usage::now();
    let start = Instant::now();
    let rows_done = work(start)?;
    let wall_s = start.elapsed().as_secs_f64();
    let used = Usage::now().since(before);
    let rows_in_full = (rows_done < rows).then_some(rows);
    Ok(RungResult { wall_s, rows: rows_done, rows_in_full, ..RungResult::of(used) })
}
