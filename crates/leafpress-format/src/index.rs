//! An index or a WITHOUT ROWID table: records in key order, bottom-up.
//!
//! Unlike a table's rows, a record stands in the tree once: the one that no
//! longer fits a leaf becomes the separator between it and the next leaf.
//!
//! Invariants:
//! 1. Records come in key order; the caller sorts, as only it knows collations.
//! 2. A full leaf is held back until its right neighbour has a record; if that
//!    never comes, the neighbour gets the separator and the held leaf's last
//!    record becomes the separator.

use crate::cells::CellPage;
use crate::error::{FormatError, RECORD_BYTES_MAX};
use crate::finished::FinishedPages;
use crate::layout::{PAGE_NUMBER_BYTES, PageKind, PageLayout};
use crate::numbers::PageNumbers;
use crate::record::{RecordWriter, SerialTypes, WRITE_SLACK_BYTES, record_bytes_max};
use crate::spine::Spine;
use crate::value::Value;
use crate::varint::{VARINT_BYTES_MAX, put_varint_before};

const KIND: PageKind = PageKind::IndexLeaf;

/// Builds one index B-tree from records in key order.
///
/// An entry of an index is its key columns followed by the rowid (or, on a
/// WITHOUT ROWID table, by the primary key's columns that it lacks); an entry
/// of a WITHOUT ROWID table is its key columns followed by all others.
#[derive(Debug)]
pub struct IndexBuilder {
    layout: PageLayout,
    spine: Spine,
    open: CellPage,
    held: Option<HeldLeaf>,
    serials: SerialTypes,
    scratch: Vec<u8>,
    cell: Vec<u8>,
}

/// A full leaf and the record that will stand to its right.
#[derive(Debug)]
struct HeldLeaf {
    cells: CellPage,
    separator: Vec<u8>,
}

impl IndexBuilder {
    /// An empty index whose records have up to `columns` columns.
    pub fn new(layout: PageLayout, columns: usize) -> Self {
        Self {
            layout,
            spine: Spine::new(layout, PageKind::IndexInterior),
            open: CellPage::new(KIND),
            held: None,
            serials: SerialTypes::new(columns),
            scratch: Vec::new(),
            cell: Vec::new(),
        }
    }

    /// Adds the next record, written by `write`, last column first.
    ///
    /// # Errors
    ///
    /// [`FormatError::RecordTooLong`], [`FormatError::TooManyPages`].
    pub fn push(
        &mut self,
        record_bytes_max: usize,
        write: impl FnOnce(&mut RecordWriter<'_>),
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        self.make_cell(record_bytes_max, write, numbers, finished)?;
        if self.open.fits(self.layout, 0, self.cell.len()) {
            self.open.push(&self.cell);
            self.release(numbers, finished)
        } else {
            debug_assert!(self.held.is_none(), "invariant 2");
            let cells = std::mem::replace(&mut self.open, CellPage::new(KIND));
            self.held = Some(HeldLeaf { cells, separator: self.cell.clone() });
            Ok(())
        }
    }

    /// Adds the next record, from its values.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn push_values(
        &mut self,
        values: &[Value<'_>],
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        debug_assert!(!values.is_empty(), "a record without a column");
        let write = |record: &mut RecordWriter<'_>| {
            for &value in values.iter().rev() {
                record.value(value);
            }
        };
        self.push(record_bytes_max(values), write, numbers, finished)
    }

    /// Makes the record's cell; its overflow pages are finished at once.
    fn make_cell(
        &mut self,
        record_bytes_max: usize,
        write: impl FnOnce(&mut RecordWriter<'_>),
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        let room = record_bytes_max + VARINT_BYTES_MAX + WRITE_SLACK_BYTES;
        if self.scratch.len() < room {
            self.scratch.resize(room, 0);
        }
        let end = self.scratch.len();
        let mut writer = RecordWriter::new(&mut self.scratch, end, &mut self.serials);
        write(&mut writer);
        let payload_at = writer.finish();
        let payload_bytes = end - payload_at;
        if payload_bytes as u64 > RECORD_BYTES_MAX {
            return Err(FormatError::RecordTooLong { bytes: payload_bytes as u64 });
        }
        let cell_at = put_varint_before(&mut self.scratch, payload_at, payload_bytes as u64);
        let local_end = payload_at + self.layout.local_bytes(KIND, payload_bytes);
        self.cell.clear();
        self.cell.extend_from_slice(&self.scratch[cell_at..local_end]);
        if local_end < end {
            let first =
                finish_overflow(&self.scratch[local_end..end], self.layout, numbers, finished)?;
            self.cell.extend_from_slice(&first.to_be_bytes());
        }
        Ok(())
    }

    /// Finishes the held leaf, whose neighbour has a record by now.
    fn release(
        &mut self,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let number = numbers.take()?;
        held.cells.write(self.layout, finished.add(number), 0, 0);
        self.spine.push(number, &held.separator, numbers, finished)
    }

    /// Ends the index and returns its root page.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    pub fn finish(
        mut self,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<u32, FormatError> {
        if let (true, Some(held)) = (self.open.is_empty(), self.held.as_mut())
            && let Some(last) = held.cells.pop()
        {
            let separator = std::mem::replace(&mut held.separator, last);
            self.open.push(&separator);
        }
        self.release(numbers, finished)?;
        let last_leaf = numbers.take()?;
        self.open.write(self.layout, finished.add(last_leaf), 0, 0);
        self.spine.finish(last_leaf, numbers, finished)
    }
}

/// Puts the rest of a payload on a chain of overflow pages; returns the first.
pub(crate) fn finish_overflow(
    rest: &[u8],
    layout: PageLayout,
    numbers: &mut PageNumbers,
    finished: &mut FinishedPages,
) -> Result<u32, FormatError> {
    let pages = rest.len().div_ceil(layout.overflow_bytes()) as u32;
    let range = numbers.take_range(pages)?;
    for (index, content) in (0..pages).zip(rest.chunks(layout.overflow_bytes())) {
        let next = if index + 1 < pages { range.number(index + 1) } else { 0 };
        let page = finished.add(range.number(index));
        page[..PAGE_NUMBER_BYTES].copy_from_slice(&next.to_be_bytes());
        page[PAGE_NUMBER_BYTES..PAGE_NUMBER_BYTES + content.len()].copy_from_slice(content);
    }
    Ok(range.number(0))
}
