//! The pass that finds rows again: where in the input does a row stand that
//! turned out bad only when all rows were known?

use std::sync::Mutex;

use super::frame::{Halt, Rows, Work};
use crate::error::{BadRow, Result};
use crate::input::rows::RowBatch;
use crate::sync::lock;

/// A row that is looked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its ordinal among the good rows.
    pub sequence: u64,
    /// The table's column that is to blame, if one is.
    pub column: Option<usize>,
    /// What is wrong with it.
    pub reason: String,
}

/// Is told each row that was found, in the input's order, with its bytes.
pub type Found<'f> = dyn FnMut(u64, BadRow, &[u8]) -> Result<()> + Send + 'f;

/// Rows that were found in a piece: sequence, place, and bytes.
pub type FoundRows = Vec<(u64, BadRow, Vec<u8>)>;

/// Looks for rows, whose sequences ascend.
pub struct Locate<'p, 'f> {
    wanted: &'p [Wanted],
    found: Mutex<&'p mut Found<'f>>,
}

impl<'p, 'f> Locate<'p, 'f> {
    pub fn new(wanted: &'p [Wanted], found: &'p mut Found<'f>) -> Self {
        Self { wanted, found: Mutex::new(found) }
    }

    /// Picks those of the rows that are wanted; `before` of them went on before these.
    pub fn pick<R>(
        &self,
        before: u64,
        rows: impl Iterator<Item = R>,
        show: impl Fn(R, &Wanted) -> (BadRow, Vec<u8>),
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
