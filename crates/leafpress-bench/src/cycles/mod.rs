//! The experiment "cycles": a hundred times five inserts, everything deleted, five inserts.
//! What each cycle takes, what is left for the end, and who pays for checkpoints.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung is: who works, what is one transaction |
//! | `record` | what each cycle took, and in which ones a checkpoint moved pages |
//! | `sql` | SQLite's rungs |
//! | `ours` | the Writer's |
//! | `left` | that the rows of the last cycle are there, and no others |
//! | `plan` | which rungs there are, and which are compared |
//! | `about` | the published experiment that this repeats, and why the order may not be its |
//!
//! A cycle in another database comes first, so that nobody pays for the start of its
//! process. The database is open and its table is there before the time; closing it is in
//! the time and outside of every cycle, as is a commit of all cycles together.
//!
//! Must never: open the database's files beside SQLite (that drops its locks): sizes and
//! times of change are asked for by name, and outside of the cycles' time.

mod about;
mod left;
mod ours;
mod plan;
mod record;
mod sql;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::about::{about, order};
pub(crate) use self::plan::cycles_groups;
use crate::check::Left;
use crate::error::Result;
use crate::ladder::pragmas::Pragmas;
use crate::ladder::warmed_up;
use crate::report::{OriginalFigure, Safety};
use crate::rung::{Described, RungResult};

/// Inserts before all is deleted, and again after it.
const INSERTS: u32 = 5;

/// Rows that a cycle puts in.
const ROWS_OF_CYCLE: u64 = INSERTS as u64 * 2;

const TABLE: &str = "CREATE TABLE entry(id INTEGER PRIMARY KEY, text TEXT)";
const INSERT: &str = "INSERT INTO entry(text) VALUES (?)";
const DELETE: &str = "DELETE FROM entry";

/// What is one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// Each statement: eleven in a cycle.
    Statement,
    /// Each cycle.
    Cycle,
    /// All cycles together.
    Everything,
}

/// Who works, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cycler {
    /// SQLite.
    Sql(Pragmas, Span),
    /// SQLite, a transaction for each statement, and no checkpoint before the end.
    SqlUnchecked(Pragmas),
    /// The Writer, a call for each statement.
    WriterStatements,
    /// The Writer, a closure for each cycle.
    WriterCycles,
    /// The same, so many cycles under way.
    WriterInFlight(u32),
}

/// Cycles of inserts and deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CyclesRung {
    /// Who works, and how.
    pub by: Cycler,
    /// How many cycles.
    pub cycles: u32,
    /// None is begun after so long, and the time is scaled.
    pub milliseconds_max: u64,
}

impl CyclesRung {
    /// SQLite's settings, where it is SQLite.
    fn pragmas(self) -> Option<Pragmas> {
        match self.by {
            Cycler::Sql(pragmas, _) | Cycler::SqlUnchecked(pragmas) => Some(pragmas),
            _ => None,
        }
    }

    /// What is one transaction.
    fn span(self) -> Span {
        match self.by {
            Cycler::Sql(_, span) => span,
            Cycler::SqlUnchecked(_) | Cycler::WriterStatements => Span::Statement,
            Cycler::WriterCycles | Cycler::WriterInFlight(_) => Span::Cycle,
        }
    }

    /// Whether there is a log, so that a change of the database's file is a checkpoint.
    fn has_log(self) -> bool {
        self.journal_left() == "wal"
    }

    /// The journal mode that its database is left in.
    fn journal_left(self) -> &'static str {
        self.pragmas().map_or("wal", Pragmas::journal_left)
    }

    fn rows(self) -> u64 {
        u64::from(self.cycles) * ROWS_OF_CYCLE
    }

    fn cycle(self, database: &Path) -> Result<RungResult> {
        match self.pragmas() {
            Some(pragmas) => sql::run(self, pragmas, database),
            None => ours::run(self, database),
        }
    }

    fn time_max(self) -> Duration {
        Duration::from_millis(self.milliseconds_max)
    }
}

impl Described for CyclesRung {
    fn name(&self) -> String {
        let who = if self.pragmas().is_some() { "SQL" } else { "leafpress" };
        format!("cycles, {who}, {}", self.label())
    }

    fn label(&self) -> String {
        let span = match self.span() {
            Span::Statement => "a transaction a statement",
            Span::Cycle => "a transaction a cycle",
            Span::Everything => "one transaction",
        };
        match self.by {
            Cycler::Sql(pragmas, _) => format!("{}, {span}", pragmas.label()),
            Cycler::SqlUnchecked(pragmas) => {
                format!("{}, no checkpoints, {span}", pragmas.label())
            }
            Cycler::WriterStatements => "Writer, a call a statement".to_owned(),
            Cycler::WriterCycles => "Writer, a call a cycle".to_owned(),
            Cycler::WriterInFlight(cycles) => format!("Writer, {cycles} cycles in flight"),
        }
    }

    fn chart(&self) -> String {
        "cycles".to_owned()
    }

    fn safety(&self) -> Safety {
        self.pragmas().map_or(Safety::Durable, Pragmas::safety)
    }

    fn original(&self) -> Option<OriginalFigure> {
        about::figure_of(self.by)
    }

    /// The table has a page; a log that nobody moves gets one for each statement.
    fn room_mb(&self) -> u64 {
        const STATEMENT_BYTES: u64 = 5_000;
        const FILES_MB: u64 = 20;
        let statements = self.rows().saturating_add(self.cycles.into());
        statements.saturating_mul(STATEMENT_BYTES) / 1_000_000 + FILES_MB
    }

    fn run(&self, database: &Path) -> Result<RungResult> {
        // One: on a slow disk each takes seconds.
        const WARMING_CYCLES: u32 = 1;
        let few = Self { cycles: WARMING_CYCLES.min(self.cycles), ..*self };
        warmed_up(database, |database| few.cycle(database))?;
        self.cycle(database)
    }

    fn left(&self, result: &RungResult, database: &Path) -> Result<Left> {
        left::by(*self, result, database)
    }
}

/// The text of an entry: which cycle put it in, and which insert of that.
fn text_of(cycle: u32, insert: u32) -> String {
    format!("entry {insert} of cycle {cycle}")
}
