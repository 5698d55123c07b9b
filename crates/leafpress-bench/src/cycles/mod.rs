//! The experiment "cycles": a hundred small batches of changes. Each is five inserts,
//! everything deleted, five inserts. Time of each cycle, of what is left for the end, and of
//! checkpoints.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung says about itself |
//! | `rung` | a rung: its tool, and the work of one transaction |
//! | `record` | what each cycle took, and in which ones a checkpoint moved pages |
//! | `sql` | SQLite's rungs |
//! | `ours` | the Writer's |
//! | `check` | that the rows of the last cycle are there, and no others |
//! | `plan` | which rungs there are, and which are compared |
//! | `original` | the published experiment that this repeats, and why the order may not be its |
//!
//! A cycle in another database comes first, so that no rival pays for the start of its
//! process. The database is open and its table is there before the time; closing it is in
//! the time and outside of every cycle, as is a commit of all cycles together.
//!
//! Must never: open the database's files beside SQLite (that drops its locks): sizes and
//! times of change are asked for by name, and outside of the cycles' time.

mod check;
mod original;
mod ours;
mod plan;
mod record;
mod rung;
mod sql;
#[cfg(test)]
mod tests;

use std::path::Path;

pub(crate) use self::original::{about, order};
pub(crate) use self::plan::cycles_groups;
pub(crate) use self::rung::CyclesRung;
use crate::error::Result;
use crate::pragmas::Pragmas;
use crate::report::{OriginalFigure, Safety};
use crate::rung::described::{Described, Found, Given, Left};
use crate::rung::result::RungResult;
use crate::warm_up::warmed_up;

impl Described for CyclesRung {
    fn name(&self) -> String {
        let who = if self.is_ours() { "leafpress" } else { "SQL" };
        format!("cycles, {who}, {}", self.label())
    }

    fn label(&self) -> String {
        self.by.label()
    }

    fn chart(&self) -> String {
        "cycles".to_owned()
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

    /// The table has a page; a log that is not moved gets one for each statement.
    fn room_mb(&self, _: u64) -> u64 {
        const STATEMENT_BYTES: u64 = 5_000;
        const FILES_MB: u64 = 20;
        let statements = self.rows().saturating_add(self.cycles.into());
        statements.saturating_mul(STATEMENT_BYTES) / 1_000_000 + FILES_MB
    }

    fn run(&self, given: &Given<'_>) -> Result<RungResult> {
        // One: on a slow disk each takes seconds.
        const WARMING_CYCLES: u32 = 1;
        let few = Self { cycles: WARMING_CYCLES.min(self.cycles), ..*self };
        warmed_up(given.database, |database| cycle(few, database))?;
        cycle(*self, given.database)
    }

    fn check(&self, result: &RungResult, found: &Found<'_>) -> Result<Left> {
        check::check(*self, result, found.database)
    }
}

fn cycle(rung: CyclesRung, database: &Path) -> Result<RungResult> {
    match rung.pragmas() {
        Some(pragmas) => sql::run(rung, pragmas, database),
        None => ours::run(rung, database),
    }
}
