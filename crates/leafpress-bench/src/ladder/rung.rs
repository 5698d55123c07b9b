//! Steps of the ladder: the tools that insert, and their settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pragmas::Pragmas;

/// Table that all rungs fill.
pub(super) const TABLE: &str =
    "CREATE TABLE record(id INTEGER PRIMARY KEY, name TEXT, number TEXT, amount INTEGER)";

/// Statement that puts one row in.
pub(super) const INSERT: &str = "INSERT INTO record VALUES (?, ?, ?, ?)";

/// Chart of SQLite's settings.
pub(super) const SETTINGS_CHART: &str = "settings";

/// Chart of its page sizes.
pub(super) const PAGES_CHART: &str = "page size";

/// SQLite's own page size, and the loader's.
const PAGE_BYTES_DEFAULT: u32 = 4096;

/// Rival that puts the rows in, and its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// SQLite, a transaction for each row, the statement compiled once.
    EachRow(Pragmas),
    /// SQLite, one transaction, the statement compiled each time.
    Compiled(Pragmas),
    /// SQLite, one transaction, the statement compiled once.
    Prepared(Pragmas),
    /// SQLite, prepared, under the defaults, with the file mapped into memory.
    Mapped,
    /// SQLite, prepared, under the defaults, with pages of this many bytes.
    Pages(u32),
    /// The Writer, a call for each row, each waiting for its commit.
    WriterBlocking,
    /// The Writer, a call for each row, this many of them under way.
    WriterInFlight(u32),
    /// The Writer, all rows in one call.
    WriterMany,
    /// The loader: pages are built and written.
    Pressed,
    /// The loader, beside other page sizes.
    PressedPages(u32),
}

/// A step of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LadderRung {
    /// Rival that puts the rows in, and its way.
    pub(crate) by: Step,
    /// Number of rows.
    pub(crate) rows: u64,
    /// Time limit in milliseconds where each row is a transaction: no further row begins after it, and
    /// the time is scaled.
    pub(crate) milliseconds_max: u64,
}

impl Step {
    /// Name in charts.
    pub(super) fn label(self) -> String {
        let page = |bytes: u32| match bytes {
            PAGE_BYTES_DEFAULT => format!("{bytes} (default)"),
            _ => bytes.to_string(),
        };
        match self {
            Self::EachRow(pragmas) => format!("{}, a transaction a row", pragmas.label()),
            Self::Compiled(pragmas) => format!("{}, one transaction", pragmas.label()),
            Self::Prepared(pragmas) => format!("{}, prepared", pragmas.label()),
            Self::Mapped => "default, memory-mapped, prepared".to_owned(),
            Self::Pages(bytes) => page(bytes),
            Self::WriterBlocking => "Writer, one call at a time".to_owned(),
            Self::WriterInFlight(calls) => format!("Writer, {calls} calls in flight"),
            Self::WriterMany => "Writer, insert_many".to_owned(),
            Self::Pressed => "pressed".to_owned(),
            Self::PressedPages(bytes) => format!("pressed, {}", page(bytes)),
        }
    }
}

impl LadderRung {
    /// SQLite's settings, where it is SQLite.
    pub(super) fn pragmas(self) -> Option<Pragmas> {
        match self.by {
            Step::EachRow(pragmas) | Step::Compiled(pragmas) | Step::Prepared(pragmas) => {
                Some(pragmas)
            }
            Step::Mapped | Step::Pages(_) => Some(Pragmas::DEFAULT),
            Step::WriterBlocking
            | Step::WriterInFlight(_)
            | Step::WriterMany
            | Step::Pressed
            | Step::PressedPages(_) => None,
        }
    }

    /// Bytes of a page.
    pub(super) fn page_bytes(self) -> u32 {
        match self.by {
            Step::Pages(bytes) | Step::PressedPages(bytes) => bytes,
            _ => PAGE_BYTES_DEFAULT,
        }
    }

    /// Returns true beside other page sizes.
    pub(super) fn is_of_pages(self) -> bool {
        matches!(self.by, Step::Pages(_) | Step::PressedPages(_))
    }

    /// Time limit, after which no further row begins.
    pub(super) fn time_max(self) -> Duration {
        Duration::from_millis(self.milliseconds_max)
    }

    /// The journal mode that its database is left in.
    pub(super) fn journal_left(self) -> &'static str {
        match (self.pragmas(), self.by) {
            (Some(pragmas), _) => pragmas.journal_left(),
            (None, Step::Pressed | Step::PressedPages(_)) => "delete",
            (None, _) => "wal",
        }
    }
}
