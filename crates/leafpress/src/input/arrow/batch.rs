//! The rows of a batch, ready to be loaded.
//!
//! Must never: hold on to more of the input than its own rows need.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use leafpress_format::{PreparedRows, Value};

use super::column::Column;
use super::nested;
use crate::input::rows::{ColumnPlan, RowBatch, SourceType};

/// Rows of an Arrow or Parquet input.
#[derive(Debug, Default)]
pub struct ArrowBatch {
    names: Arc<[String]>,
    columns: Vec<Column>,
    /// Bytes of text and blobs of each row.
    content_bytes: Vec<usize>,
    rows: usize,
    first_line: u64,
}

impl ArrowBatch {
    /// Takes some rows of a record batch apart; the first is the input's row
    /// `first_line`, counted from 1.
    ///
    /// # Errors
    /// Fails if an array is of no type that we know, or contradicts itself.
    pub fn new(
        names: &Arc<[String]>,
        batch: &RecordBatch,
        rows: Range<usize>,
        first_line: u64,
    ) -> Result<Self, String> {
        let column = |(name, array): (&String, &arrow_array::ArrayRef)| {
            let array = array.slice(rows.start, rows.len());
            Column::new(&array).map_err(|reason| format!("column \"{name}\": {reason}"))
        };
        if batch.num_columns() != names.len() {
            let (found, wanted) = (batch.num_columns(), names.len());
            return Err(format!("it has {found} columns and not {wanted} as the schema says"));
        }
        let columns =
            names.iter().zip(batch.columns()).map(column).collect::<Result<Vec<_>, String>>()?;
        let mut content_bytes = vec![0; rows.len()];
        for column in &columns {
            column.add_content_bytes(&mut content_bytes);
        }
        Ok(Self { names: Arc::clone(names), columns, content_bytes, rows: rows.len(), first_line })
    }

    /// Adds the numbers of NaN values to those of the columns.
    pub(super) fn count_nans(&self, sums: &[AtomicU64]) {
        for (column, sum) in self.columns.iter().zip(sums) {
            let nans = column.nans();
            if nans > 0 {
                sum.fetch_add(nans as u64, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
impl ArrowBatch {
    /// Number of columns.
    pub(super) fn columns(&self) -> usize {
        self.columns.len()
    }
}

impl RowBatch for ArrowBatch {
    fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn value(&self, row: usize, column: usize) -> Value<'_> {
        self.columns[column].value(row)
    }

    #[inline(always)]
    fn text_within(&self, row: usize, column: usize) -> Option<(&[u8], Range<usize>)> {
        self.columns[column].text_within(row)
    }

    fn may_prepare<'b>(
        &'b self,
        column: usize,
        wanted: SourceType,
        texts: &mut Vec<&'b [u8]>,
    ) -> bool {
        self.columns[column].may_prepare(wanted, texts)
    }

    #[inline(always)]
    fn prepare(&self, plan: ColumnPlan, rows: Range<usize>, into: &mut PreparedRows) {
        self.columns[plan.column].prepare(plan, rows, into);
    }

    #[inline]
    fn content_bytes(&self, row: usize) -> usize {
        self.content_bytes[row]
    }

    fn line(&self, row: usize) -> u64 {
        self.first_line + row as u64
    }

    /// The row as a JSON object, as the input has no lines to show.
    fn original(&self, row: usize) -> Vec<u8> {
        let mut out = Vec::new();
        nested::write_row(&self.names, &self.columns, row, &mut out);
        out
    }
}
