//! Rungs of rows into a queue's table: the tools that insert, and their settings.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pragmas::Pragmas;
use crate::report::Safety;

/// Settings that are made before the first row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SqlSettings {
    /// Nothing: a rollback journal that is deleted, FULL.
    Default,
    /// `temp_store = MEMORY`.
    TempStore,
    /// `synchronous = NORMAL`.
    Normal,
    /// `journal_mode = WAL`.
    Wal,
    /// WAL and NORMAL.
    WalNormal,
}

impl SqlSettings {
    /// All of them, in the order in which people try them.
    pub(in crate::queue) const ALL: [Self; 5] =
        [Self::Default, Self::TempStore, Self::Normal, Self::Wal, Self::WalNormal];

    /// Journal mode and syncs under these settings.
    pub(super) fn pragmas(self) -> Pragmas {
        match self {
            // The folder of temporary files has no part in it.
            Self::Default | Self::TempStore => Pragmas::DEFAULT,
            Self::Normal => Pragmas::DELETE_NORMAL,
            Self::Wal => Pragmas::WAL_FULL,
            Self::WalNormal => Pragmas::WAL_NORMAL,
        }
    }

    /// Name in rungs.
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::TempStore => "temp_store",
            Self::Normal => "normal",
            Self::Wal => "wal",
            Self::WalNormal => "wal normal",
        }
    }

    /// Name in charts.
    fn label(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::TempStore => "temp_store = MEMORY",
            Self::Normal => "NORMAL",
            Self::Wal => "WAL",
            Self::WalNormal => "WAL + NORMAL",
        }
    }
}

/// Rival that puts the rows in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Inserter {
    /// SQLite, all rows in one transaction.
    SqlOnce(SqlSettings),
    /// SQLite, a transaction for each row.
    SqlEach(SqlSettings),
    /// The Writer, a call for each row, by this many threads, into the same table.
    Writer(Safety, u32),
    /// The Writer, all rows in one call, into the same table.
    WriterMany(Safety),
    /// The Queue, a push for each row, by this many threads.
    Push(Safety, u32),
    /// The Queue, all rows in one call.
    PushMany(Safety),
}

/// Rows into a queue's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InsertsRung {
    /// Rival that puts them in.
    pub(crate) by: Inserter,
    /// Number of rows.
    pub(crate) rows: u64,
    /// Time limit in milliseconds where each row is a transaction: no further row begins after it.
    #[serde(default = "for_ever")]
    pub(crate) milliseconds_max: u64,
}

/// Time of a rung that is asked for without one.
fn for_ever() -> u64 {
    u64::from(u32::MAX)
}

/// Chart of rows that are a transaction each, or a call.
pub(in crate::queue) const EACH_CHART: &str = "each row its own transaction";

/// Chart of rows that are one transaction together.
pub(in crate::queue) const ONCE_CHART: &str = "all rows in one transaction";

impl Inserter {
    /// Pragmas: SQLite's own, or those of our profile.
    pub(super) fn pragmas(self) -> Pragmas {
        match self {
            Self::SqlOnce(settings) | Self::SqlEach(settings) => settings.pragmas(),
            Self::Writer(safety, _)
            | Self::WriterMany(safety)
            | Self::Push(safety, _)
            | Self::PushMany(safety) => Pragmas::of(safety),
        }
    }

    /// Name in the report.
    pub(super) fn name(self) -> String {
        match self {
            Self::SqlOnce(settings) => {
                format!("inserts, SQL, {}, one transaction", settings.name())
            }
            Self::SqlEach(settings) => {
                format!("inserts, SQL, {}, transactions", settings.name())
            }
            Self::Writer(safety, callers) => {
                format!("inserts, leafpress, {} Writer, {callers} callers", safety.name())
            }
            Self::WriterMany(safety) => {
                format!("inserts, leafpress, {} Writer, insert_many", safety.name())
            }
            Self::Push(safety, callers) => {
                format!("inserts, leafpress, {} push, {callers} callers", safety.name())
            }
            Self::PushMany(safety) => {
                format!("inserts, leafpress, {} push_many", safety.name())
            }
        }
    }

    /// Name in charts.
    pub(super) fn label(self) -> String {
        let callers = |callers: u32| match callers {
            1 => "1 caller".to_owned(),
            callers => format!("{callers} callers"),
        };
        // The promise of most; the others say theirs.
        let promise = |safety: Safety| match safety {
            Safety::Durable => String::new(),
            safety => format!("{} ", safety.name()),
        };
        match self {
            Self::SqlOnce(settings) => format!("{}, one transaction", settings.label()),
            Self::SqlEach(settings) => format!("{}, a transaction each", settings.label()),
            Self::Writer(safety, of) => format!("{}Writer, {}", promise(safety), callers(of)),
            Self::WriterMany(safety) => format!("{}Writer, insert_many", promise(safety)),
            Self::Push(safety, of) => format!("{}Queue, {}", promise(safety), callers(of)),
            Self::PushMany(safety) => format!("{}Queue, push_many", promise(safety)),
        }
    }
}

impl InsertsRung {
    /// Returns true if all rows are one transaction.
    pub(super) fn is_once(self) -> bool {
        matches!(self.by, Inserter::SqlOnce(_) | Inserter::WriterMany(_) | Inserter::PushMany(_))
    }

    /// Time limit, after which no further row begins.
    pub(super) fn time_max(self) -> Duration {
        Duration::from_millis(self.milliseconds_max)
    }

    /// Returns true if the rows are the Queue's own jobs.
    pub(super) fn is_queue(self) -> bool {
        matches!(self.by, Inserter::Push(..) | Inserter::PushMany(_))
    }
}
