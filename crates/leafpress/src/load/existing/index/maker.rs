//! Entries of an index, made from the rows of a table's leaves by one thread.
//!
//! A row whose leaf does not hold all needed columns is read on through [`ReadPage`]: from the file
//! where the thread may read it, else through SQLite by the thread that has the connection.

use leafpress_format::{
    FirstColumns, FormatError, PageLayout, Projection, RECORD_BYTES_MAX, TablePage,
    read_overflow_page,
};

use super::press_plan::PressPlan;
use crate::error::Error;
use crate::sort::RunBuilder;

/// Reason why a scan ended early.
pub enum Halt {
    /// A row lacks a column whose value is then not NULL.
    AbsentColumn,
    Failed(Error),
    /// A page or a row is not as SQLite writes it.
    Malformed,
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<FormatError> for Halt {
    fn from(_: FormatError) -> Self {
        Self::Malformed
    }
}

/// A row whose leaf does not hold all that is needed.
pub struct LongRow {
    rowid: i64,
    record_bytes: u64,
    beginning: Vec<u8>,
    overflow: Option<u32>,
}

/// Reads single pages as the transaction sees them.
pub trait ReadPage {
    /// The page of that number.
    fn read(&mut self, number: u32) -> Result<&[u8], Halt>;
}

/// Maker of one thread's entries.
pub struct EntryMaker<'s> {
    run: RunBuilder<'s>,
    layout: PageLayout,
    projection: Projection,
    columns_needed: usize,
    absent_is_null: bool,
    first_rowid: i64,
}

impl<'s> EntryMaker<'s> {
    pub fn new(plan: &PressPlan, first_rowid: i64, run: RunBuilder<'s>) -> Self {
        Self {
            run,
            layout: plan.layout,
            projection: Projection::new(plan.index.entry.columns.clone()),
            columns_needed: plan.columns_needed,
            absent_is_null: plan.absent_is_null,
            first_rowid,
        }
    }

    /// Adds the rows of a leaf; gives those that need other pages to `long`.
    pub fn add_leaf(
        &mut self,
        page: &[u8],
        mut long: impl FnMut(&mut Self, LongRow) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let TablePage::Leaf(leaf) = TablePage::read(page, self.layout)? else {
            return Err(Halt::Malformed);
        };
        for index in 0..leaf.rows() {
            let row = leaf.row(index)?;
            if row.overflow.is_none() {
                self.add(row.rowid, row.local)?;
            } else if self.has_all(row.local) {
                self.add_beginning(row.rowid, row.local)?;
            } else {
                let row = LongRow {
                    rowid: row.rowid,
                    record_bytes: row.record_bytes,
                    beginning: row.local.to_vec(),
                    overflow: row.overflow,
                };
                long(self, row)?;
            }
        }
        Ok(())
    }

    /// Returns true if the record's beginning holds all needed columns.
    fn has_all(&self, beginning: &[u8]) -> bool {
        FirstColumns::look(beginning, self.columns_needed) != FirstColumns::Cut
    }

    /// Adds a row whose record is complete.
    #[inline]
    fn add(&mut self, rowid: i64, record: &[u8]) -> Result<(), Halt> {
        if self.absent_is_null {
            return self.push(rowid, record);
        }
        self.add_beginning(rowid, record)
    }

    /// Adds a row whose needed columns are all in `beginning`.
    fn add_beginning(&mut self, rowid: i64, beginning: &[u8]) -> Result<(), Halt> {
        match FirstColumns::look(beginning, self.columns_needed) {
            FirstColumns::Whole => self.push(rowid, beginning),
            FirstColumns::Absent if self.absent_is_null => self.push(rowid, beginning),
            FirstColumns::Absent => Err(Halt::AbsentColumn),
            FirstColumns::Cut => Err(Halt::Malformed),
        }
    }

    #[inline]
    fn push(&mut self, rowid: i64, record: &[u8]) -> Result<(), Halt> {
        // The sequence has the order of the rowids, and is small for small rowids.
        let sequence = rowid.wrapping_sub(self.first_rowid) as u64;
        Ok(self.run.push_projection((sequence, rowid), record, &mut self.projection)?)
    }

    /// Reads on until the needed columns are there.
    pub fn add_long(&mut self, row: LongRow, pages: &mut impl ReadPage) -> Result<(), Halt> {
        let (mut record, mut overflow) = (row.beginning, row.overflow);
        if row.record_bytes > RECORD_BYTES_MAX {
            return Err(Halt::Malformed);
        }
        while !self.has_all(&record) {
            let missing_bytes = row.record_bytes.saturating_sub(record.len() as u64);
            let Some(number) = overflow.filter(|_| missing_bytes > 0) else {
                return Err(Halt::Malformed);
            };
            let (content, next) = read_overflow_page(pages.read(number)?, self.layout)?;
            let bytes = content.len().min(usize::try_from(missing_bytes).unwrap_or(usize::MAX));
            record.extend_from_slice(&content[..bytes]);
            overflow = next;
        }
        self.add_beginning(row.rowid, &record)
    }

    /// Ends the thread's entries: without this call, the last of them are lost.
    pub fn finish(self) -> Result<(), Halt> {
        Ok(self.run.finish()?)
    }
}
