//! Values of some rows, prepared a column at a time before the rows are written.
//!
//! The type of a column is looked at once, and not for each of its values.
//!
//! Must never: prepare a value that a rule would change or refuse. [`TypedRules::write`] writes the
//! rows that are not prepared as a whole.

use std::ops::Range;

use leafpress_format::{Prepared, PreparedRow, PreparedRows};

use super::{Direct, TypedRules};
use crate::cpu::with_wide_instructions;
use crate::input::rows::{ColumnPlan, RowBatch, SourceType};
use crate::load::values::sources::ValueSource;

/// Values of some rows of a batch, where they are prepared.
#[derive(Debug)]
pub struct TypedStripe<'b, B> {
    batch: &'b B,
    /// The columns with values of the batch; none if rows are not prepared.
    columns: Vec<ColumnPlan>,
    /// Buffers with the texts.
    texts: Vec<&'b [u8]>,
    prepared: PreparedRows,
    rows: Range<usize>,
    rows_max: usize,
}

impl<'b, B: RowBatch> TypedStripe<'b, B> {
    /// Room for the values of some rows of a batch.
    pub fn new(rules: &TypedRules, batch: &'b B) -> Self {
        let places = rules.rules.len();
        let mut texts = Vec::new();
        let columns = rules.plans(batch, &mut texts).unwrap_or_default();
        let rows_max = if columns.is_empty() { 0 } else { PreparedRows::rows_together(places) };
        // NULL, as the record has for the column that is the rowid.
        let prepared = PreparedRows::new(rows_max, places);
        Self { batch, columns, texts, prepared, rows: 0..0, rows_max }
    }

    /// The values of a row, if all of them are prepared, and the buffers with its texts. Rows come in
    /// ascending order.
    #[inline(always)]
    pub fn whole_row(&mut self, row: usize) -> Option<(&[&'b [u8]], PreparedRow<'_>)> {
        if self.columns.is_empty() {
            return None;
        }
        if row >= self.rows.end {
            self.prepare(row);
        }
        let prepared = self.prepared.row(row - self.rows.start);
        prepared.is_whole().then_some((&self.texts, prepared))
    }

    /// Prepares rows from this one on.
    #[inline(never)]
    fn prepare(&mut self, first: usize) {
        let is_first = self.rows.end == 0;
        self.rows = first..self.batch.rows().min(first + self.rows_max);
        with_wide_instructions(
            #[inline(always)]
            || {
                for plan in &self.columns {
                    self.batch.prepare(*plan, self.rows.clone(), &mut self.prepared);
                }
            },
        );
        if is_first && self.prepared.is_in_vain(self.rows.len()) {
            // Most rows have long texts, or NULLs that are refused.
            self.columns.clear();
        }
    }
}

impl TypedRules {
    /// Plans for all columns of a batch, if each value that is no exception can be prepared.
    fn plans<'b, B: RowBatch>(
        &self,
        batch: &'b B,
        texts: &mut Vec<&'b [u8]>,
    ) -> Option<Vec<ColumnPlan>> {
        let mut plans = Vec::new();
        for (place, direct) in self.direct.iter().enumerate() {
            let wanted = match direct {
                Direct::Integer => SourceType::Integer,
                Direct::Real => SourceType::Real,
                Direct::Text | Direct::Content => SourceType::Text,
                Direct::Rowid => continue,
                Direct::EmptyText | Direct::Blob | Direct::Nothing => return None,
            };
            let ValueSource::Field(column) = self.sources[place] else { return None };
            let refused = self.demands.refuses_null(place);
            let null = if refused { Prepared::OTHER } else { Prepared::NULL };
            let plan = ColumnPlan { column, place, null, first_text: texts.len() };
            if !batch.may_prepare(column, wanted, texts) {
                return None;
            }
            plans.push(plan);
        }
        Some(plans)
    }
}
