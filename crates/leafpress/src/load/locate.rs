//! The pass that finds rows again: where in the input does a row stand that
//! turned out bad only when all rows were known?

use std::sync::Mutex;

use super::fields::{Misfit, RowRules};
use super::pass::{BlockRows, Halt, Work};
use super::turns::lock;
use crate::error::{BadRow, Result};

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

/// Looks for rows, whose sequences ascend.
pub struct Locate<'p, 'f> {
    pub file: &'p str,
    pub rules: &'p RowRules,
    pub wanted: &'p [Wanted],
    pub found: Mutex<&'p mut Found<'f>>,
}

impl Work for Locate<'_, '_> {
    /// What was found in a block.
    type Made = Vec<(u64, BadRow, Vec<u8>)>;
    type Joined = ();
    type Ticket = ();

    fn start(&self) -> Self::Made {
        Vec::new()
    }

    fn rows(&self, rows: &BlockRows<'_>, made: &mut Self::Made) -> Result<(), Halt> {
        made.clear();
        let from = self.wanted.partition_point(|wanted| wanted.sequence < rows.before);
        let mut wanted = self.wanted[from..].iter().peekable();
        for (sequence, span) in (rows.before..).zip(rows.records()) {
            let Some(next) = wanted.next_if(|next| next.sequence == sequence) else {
                if wanted.peek().is_none() {
                    break;
                }
                continue;
            };
            let at =
                next.column.map_or(span.start, |column| self.rules.column_start(&span, column));
            let misfit = Misfit { at, reason: next.reason.clone() };
            let bytes = self.rules.as_rejected(rows.bytes, &span).into_owned();
            made.push((sequence, rows.bad_row(self.file, misfit, &span), bytes));
        }
        Ok(())
    }

    fn join(&self, made: &mut Self::Made, _joined: &mut ()) -> Result<(), Halt> {
        let mut found = lock(&self.found);
        for (sequence, bad_row, bytes) in made.drain(..) {
            found(sequence, bad_row, &bytes)?;
        }
        Ok(())
    }

    fn finish(&self, (): (), _made: &mut Self::Made) -> Result<(), Halt> {
        Ok(())
    }
}
