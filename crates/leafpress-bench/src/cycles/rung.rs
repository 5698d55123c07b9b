//! Rungs of cycles: the tool, and the work of one transaction.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pragmas::Pragmas;

/// Inserts before all is deleted, and again after it.
pub(super) const INSERTS: u32 = 5;

/// Rows that a cycle puts in.
pub(super) const ROWS_OF_CYCLE: u64 = INSERTS as u64 * 2;

pub(super) const TABLE: &str = "CREATE TABLE entry(id INTEGER PRIMARY KEY, text TEXT)";
pub(super) const INSERT: &str = "INSERT INTO entry(text) VALUES (?)";
pub(super) const DELETE: &str = "DELETE FROM entry";

/// Statements of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Span {
    /// Each statement: eleven in a cycle.
    Statement,
    /// Each cycle.
    Cycle,
    /// All cycles together.
    Everything,
}

/// Rival that works, and its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cycler {
    /// SQLite.
    Sql(Pragmas, Span),
    /// SQLite, a transaction for each statement, and no checkpoint before the end.
    SqlUnchecked(Pragmas),
    /// The Writer, a call for each statement.
    WriterStatements,
    /// The Writer, a closure for each cycle.
    WriterCycles,
    /// The Writer, a closure for each cycle, this many cycles under way.
    WriterInFlight(u32),
}

/// Cycles of inserts and deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CyclesRung {
    /// Rival that works, and its way.
    pub(crate) by: Cycler,
    /// Number of cycles.
    pub(crate) cycles: u32,
    /// Time limit in milliseconds: no further cycle begins after it, and the time is scaled.
    pub(crate) milliseconds_max: u64,
}

impl CyclesRung {
    /// SQLite's settings, where it is SQLite.
    pub(super) fn pragmas(self) -> Option<Pragmas> {
        match self.by {
            Cycler::Sql(pragmas, _) | Cycler::SqlUnchecked(pragmas) => Some(pragmas),
            Cycler::WriterStatements | Cycler::WriterCycles | Cycler::WriterInFlight(_) => None,
        }
    }

    /// Returns true if there is a log, so that a change of the database's file is a checkpoint.
    pub(super) fn has_log(self) -> bool {
        self.journal_left() == "wal"
    }

    /// The journal mode that its database is left in.
    pub(super) fn journal_left(self) -> &'static str {
        self.pragmas().map_or("wal", Pragmas::journal_left)
    }

    /// Rows of all cycles.
    pub(super) fn rows(self) -> u64 {
        u64::from(self.cycles) * ROWS_OF_CYCLE
    }

    /// Time limit, after which no further cycle begins.
    pub(super) fn time_max(self) -> Duration {
        Duration::from_millis(self.milliseconds_max)
    }
}

impl Cycler {
    /// Statements of one transaction.
    pub(super) fn span(self) -> Span {
        match self {
            Self::Sql(_, span) => span,
            Self::SqlUnchecked(_) | Self::WriterStatements => Span::Statement,
            Self::WriterCycles | Self::WriterInFlight(_) => Span::Cycle,
        }
    }

    /// Name in charts.
    pub(super) fn label(self) -> String {
        let span = match self.span() {
            Span::Statement => "a transaction a statement",
            Span::Cycle => "a transaction a cycle",
            Span::Everything => "one transaction",
        };
        match self {
            Self::Sql(pragmas, _) => format!("{}, {span}", pragmas.label()),
            Self::SqlUnchecked(pragmas) => {
                format!("{}, no checkpoints, {span}", pragmas.label())
            }
            Self::WriterStatements => "Writer, a call a statement".to_owned(),
            Self::WriterCycles => "Writer, a call a cycle".to_owned(),
            Self::WriterInFlight(cycles) => format!("Writer, {cycles} cycles in flight"),
        }
    }
}

/// Text of an entry: the cycle that put it in, and the insert of that.
pub(super) fn text_of(cycle: u32, insert: u32) -> String {
    format!("entry {insert} of cycle {cycle}")
}
