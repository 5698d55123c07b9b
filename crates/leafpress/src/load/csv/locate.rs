//! The pass that finds rows of a CSV input again.

use super::pass::{BlockRows, Scanned};
use crate::load::passes::frame::{Halt, Rows, Work};
use crate::load::passes::locate::{FoundRows, Locate, Wanted};
use crate::load::values::fields::{Misfit, RowRules};

/// Search in a CSV input.
pub struct LocateRecords<'p, 'f> {
    pub rules: &'p RowRules,
    pub locate: Locate<'p, 'f>,
}

impl Work<Scanned> for LocateRecords<'_, '_> {
    type Made = FoundRows;
    type Joined = ();
    type Ticket = ();

    fn start(&self) -> FoundRows {
        Vec::new()
    }

    fn rows(&self, rows: &Rows<'_, Scanned>, made: &mut FoundRows) -> Result<(), Halt> {
        let rows = BlockRows::of(rows);
        // Lines are counted on from row to row: nearly all rows may be wanted.
        let mut counted = rows.start();
        let show = |span, wanted: &Wanted| {
            let start = |column| self.rules.column_start(&span, column);
            let at = wanted.column.map_or(span.start, start);
            let misfit = Misfit { at, reason: wanted.reason.clone() };
            let bytes = self.rules.as_rejected(rows.bytes, &span).into_owned();
            let bad_row = rows.bad_row(misfit, &span, counted);
            counted = (at, bad_row.line);
            (bad_row, bytes)
        };
        self.locate.pick(rows.before, rows.records(), show, made);
        Ok(())
    }

    fn join(&self, made: &mut FoundRows, (): &mut ()) -> Result<(), Halt> {
        self.locate.hand_on(made)
    }
}
