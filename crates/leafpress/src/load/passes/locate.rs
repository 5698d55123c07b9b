//! The pass that finds rows again which turned out bad only when all rows were known, to name their
//! places in the input.

use std::sync::Mutex;

use super::frame::{Halt, Rows, Work};
use crate::error::{BadRow, Result};
use crate::input::rows::RowBatch;
use crate::sync::lock;

/// A row to be found.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Ordinal of the row among the good rows.
    pub sequence: u64,
    /// The table's column at fault, if there is one.
    pub column: Option<usize>,
    /// Fault of the row.
    pub reason: String,
}

/// Callback for each row that was found, in the input's order, with its bytes.
pub type Found<'f> = dyn FnMut(u64, BadRow, &[u8]) -> Result<()> + Send + 'f;

/// Rows that were found in a piece: sequence, place, and bytes.
pub type FoundRows = Vec<(u64, BadRow, Vec<u8>)>;

/// Search for rows, whose sequences ascend.
pub struct Locate<'p, 'f> {
    wanted: &'p [Wanted],
    found: Mutex<&'p mut Found<'f>>,
}

impl<'p, 'f> Locate<'p, 'f> {
    pub fn new(wanted: &'p [Wanted], found: &'p mut Found<'f>) -> Self {
        Self { wanted, found: Mutex::new(found) }
    }

    /// Picks the wanted rows; `before` good rows came before these.
    pub fn pick<R>(
        &self,
        before: u64,
        rows: impl Iterator<Item = R>,
        mut show: impl FnMut(R, &Wanted) -> (BadRow, Vec<u8>),
        made: &mut FoundRows,
    ) {
        made.clear();
        let from = self.wanted.partition_point(|wanted| wanted.sequence < before);
        let mut wanted = self.wanted[from..].iter().peekable();
        for (sequence, row) in (before..).zip(rows) {
            if let Some(next) = wanted.next_if(|next| next.sequence == sequence) {
                let (bad_row, bytes) = show(row, next);
                made.push((sequence, bad_row, bytes));
            } else if wanted.peek().is_none() {
                break;
            }
        }
    }

    pub fn hand_on(&self, made: &mut FoundRows) -> Result<(), Halt> {
        let mut found = lock(&self.found);
        for (sequence, bad_row, bytes) in made.drain(..) {
            found(sequence, bad_row, &bytes)?;
        }
        Ok(())
    }
}

impl<B: RowBatch> Work<B> for Locate<'_, '_> {
    type Made = FoundRows;
    type Joined = ();
    type Ticket = ();

    fn start(&self) -> FoundRows {
        Vec::new()
    }

    fn rows(&self, rows: &Rows<'_, B>, made: &mut FoundRows) -> Result<(), Halt> {
        let show = |row, wanted: &Wanted| {
            (rows.bad_row(row, wanted.reason.clone()), rows.piece.original(row))
        };
        self.pick(rows.before, rows.places(), show, made);
        Ok(())
    }

    fn join(&self, made: &mut FoundRows, (): &mut ()) -> Result<(), Halt> {
        self.hand_on(made)
    }
}
