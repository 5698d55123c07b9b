//! The survey pass, which finds the types of columns from all of their values.
//!
//! Runs in a dry run, and in a load whose first guess, from the input's first block, turned out
//! wrong.

use super::pass::{BlockRows, Scanned};
use crate::load::passes::frame::{Halt, Rows, Work};
use crate::load::values::fields::{FieldRule, RowRules, Scratch, shown};
use crate::schema::{ColumnEvidence, RealRule, Witness};

/// Survey of the columns whose rule is [`FieldRule::Empty`].
pub struct Survey<'p> {
    pub rules: &'p RowRules,
    /// Rule for real numbers, for each column.
    pub real_rules: &'p [RealRule],
    /// Index of the input, from 0.
    pub input: usize,
    /// True if no pass has left out the bad rows yet.
    pub screen: bool,
}

/// Evidence from one block.
pub struct Surveyed {
    evidence: Vec<ColumnEvidence>,
    value: Vec<u8>,
    unescaped: Vec<u8>,
    scratch: Scratch,
}

impl Survey<'_> {
    /// The evidence of a single block.
    pub fn sample(&self, rows: &BlockRows<'_>) -> Vec<ColumnEvidence> {
        let mut made = self.start();
        self.look(rows, &mut made);
        made.evidence
    }

    /// Reads the values of a block.
    fn look(&self, rows: &BlockRows<'_>, made: &mut Surveyed) {
        let Surveyed { evidence, value, unescaped, scratch } = made;
        let is_utf8 = self.screen && self.rules.is_text(rows.block.data());
        evidence.clear();
        evidence.extend(self.real_rules.iter().map(|rule| ColumnEvidence::new(*rule)));
        let detected: Vec<(usize, usize)> = (0..evidence.len())
            .filter(|&column| self.rules.rules[column] == FieldRule::Empty)
            .filter_map(|column| Some((column, self.rules.field_of(column)?)))
            .collect();
        for span in rows.records() {
            if self.screen && self.rules.check(rows.bytes, &span, is_utf8, scratch).is_err() {
                // Bad rows do not count for the types; the press pass reports them.
                continue;
            }
            for &(column, field) in &detected {
                let found = self.rules.field_at(rows.bytes, &span, field, (value, unescaped));
                if found.is_empty() || self.rules.is_null_marker(found) {
                    continue;
                }
                let witness = || Witness {
                    input: self.input,
                    line: rows.line(span.start),
                    value: shown(found.bytes()),
                };
                evidence[column].add(found.source, found.start, found.end, witness);
            }
        }
    }
}

impl Work<Scanned> for Survey<'_> {
    type Made = Surveyed;
    type Joined = Vec<ColumnEvidence>;
    type Ticket = ();

    fn start(&self) -> Surveyed {
        Surveyed {
            evidence: Vec::new(),
            value: Vec::new(),
            unescaped: Vec::new(),
            scratch: Scratch::new(),
        }
    }

    fn rows(&self, rows: &Rows<'_, Scanned>, made: &mut Surveyed) -> Result<(), Halt> {
        self.look(&BlockRows::of(rows), made);
        Ok(())
    }

    fn join(&self, made: &mut Surveyed, joined: &mut Vec<ColumnEvidence>) -> Result<(), Halt> {
        for (so_far, evidence) in joined.iter_mut().zip(made.evidence.drain(..)) {
            so_far.merge(evidence);
        }
        Ok(())
    }
}
