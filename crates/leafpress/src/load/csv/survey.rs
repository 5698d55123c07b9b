//! The survey pass, which finds the types of columns from all of their values.
//!
//! Runs in a dry run, and in a load whose first guess, from the input's first block, turned out
//! wrong.

use std::collections::BTreeMap;

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

/// Evidence for each column. A row counts only if it is not bad, and an empty field in a column that
/// refuses NULL is bad where the column's type makes it NULL: in all but TEXT. While the type is open,
/// the evidence of such rows lies aside.
pub struct Evidence {
    columns: Vec<ColumnEvidence>,
    /// By the columns that refuse NULL, are open and are empty in the rows.
    aside: BTreeMap<Vec<usize>, Vec<ColumnEvidence>>,
}

impl Evidence {
    /// No evidence yet.
    pub fn new(real_rules: &[RealRule]) -> Self {
        Self { columns: none(real_rules), aside: BTreeMap::new() }
    }

    /// The evidence of the rows that are not bad; `is_text` tells whether a column with this
    /// evidence takes an empty field for a text.
    pub fn settled(
        mut self,
        is_text: impl Fn(usize, &ColumnEvidence) -> bool,
    ) -> Vec<ColumnEvidence> {
        let is_good = |empty: &[usize], columns: &[ColumnEvidence]| {
            empty.iter().all(|&column| is_text(column, &columns[column]))
        };
        while let Some(empty) = self.aside.keys().find(|it| is_good(it, &self.columns)).cloned() {
            merge(&mut self.columns, self.aside.remove(&empty).unwrap_or_default());
        }
        self.columns
    }
}

fn none(real_rules: &[RealRule]) -> Vec<ColumnEvidence> {
    real_rules.iter().map(|rule| ColumnEvidence::new(*rule)).collect()
}

fn merge(columns: &mut [ColumnEvidence], later: Vec<ColumnEvidence>) {
    columns.iter_mut().zip(later).for_each(|(so_far, later)| so_far.merge(later));
}

/// Evidence from one block.
pub struct Surveyed {
    evidence: Evidence,
    value: Vec<u8>,
    unescaped: Vec<u8>,
    scratch: Scratch,
}

impl Survey<'_> {
    /// The evidence of a single block, without the rows that may be bad: the types are a guess then,
    /// which other values refute.
    pub fn sample(&self, rows: &BlockRows<'_>) -> Vec<ColumnEvidence> {
        let mut made = self.start();
        self.look(rows, &mut made);
        made.evidence.columns
    }

    /// Reads the values of a block.
    fn look(&self, rows: &BlockRows<'_>, made: &mut Surveyed) {
        let Surveyed { evidence, value, unescaped, scratch } = made;
        let is_utf8 = self.screen && self.rules.is_text(rows.block.data());
        *evidence = Evidence::new(self.real_rules);
        let detected: Vec<(usize, usize)> = (0..self.real_rules.len())
            .filter(|&column| self.rules.rules[column] == FieldRule::Empty)
            .filter_map(|column| Some((column, self.rules.field_of(column)?)))
            .collect();
        let demanded: Vec<(usize, usize)> = detected
            .iter()
            .filter(|(column, _)| self.rules.refuses_null(*column))
            .copied()
            .collect();
        for span in rows.records() {
            if self.screen && self.rules.check(rows.bytes, &span, is_utf8, scratch).is_err() {
                // Bad rows do not count for the types; the press pass reports them.
                continue;
            }
            let mut empty = Vec::new();
            for &(column, field) in &demanded {
                let found = self.rules.field_at(rows.bytes, &span, field, (value, unescaped));
                if found.is_empty() {
                    empty.push(column);
                }
            }
            let Evidence { columns, aside } = &mut *evidence;
            let columns = if empty.is_empty() {
                columns
            } else {
                aside.entry(empty).or_insert_with(|| none(self.real_rules))
            };
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
                columns[column].add(found.source, found.start, found.end, witness);
            }
        }
    }
}

impl Work<Scanned> for Survey<'_> {
    type Made = Surveyed;
    type Joined = Evidence;
    type Ticket = ();

    fn start(&self) -> Surveyed {
        Surveyed {
            evidence: Evidence::new(&[]),
            value: Vec::new(),
            unescaped: Vec::new(),
            scratch: Scratch::new(),
        }
    }

    fn rows(&self, rows: &Rows<'_, Scanned>, made: &mut Surveyed) -> Result<(), Halt> {
        self.look(&BlockRows::of(rows), made);
        Ok(())
    }

    fn join(&self, made: &mut Surveyed, joined: &mut Evidence) -> Result<(), Halt> {
        let Evidence { columns, aside } = std::mem::replace(&mut made.evidence, Evidence::new(&[]));
        merge(&mut joined.columns, columns);
        for (empty, evidence) in aside {
            let so_far = joined.aside.entry(empty).or_insert_with(|| none(self.real_rules));
            merge(so_far, evidence);
        }
        Ok(())
    }
}
