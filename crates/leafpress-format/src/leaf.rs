//! Table leaves, written in place. Nearly all bytes of a load are made here.
//!
//! A [`LeafRun`] is a stretch of a table: some leaves, each followed by the
//! overflow pages of its cells. Leaves know nothing of one another, so that
//! several runs can be filled at once, on as many threads; page numbers within
//! a run are indices until [`LeafRun::number`] makes them final.
//!
//! Invariants:
//! 1. Rowids ascend within a run.
//! 2. While a page is open, its pointers end at or before its content start.

use crate::aligned::AlignedBuffer;
use crate::cells::{OpenLeaf, space, write_page_header};
use crate::error::{FormatError, RECORD_BYTES_MAX};
use crate::layout::{CELL_BYTES_MIN, PAGE_NUMBER_BYTES, POINTER_BYTES, PageKind, PageLayout};
use crate::numbers::{PageNumbers, PageRange};
use crate::read::TablePage;
use crate::record::{RecordWriter, SerialTypes, WRITE_SLACK_BYTES, record_bytes_max};
use crate::run_pages::RunPages;
use crate::value::Value;
use crate::varint::{
    VARINT_BYTES_MAX, put_varint_before, put_varint_with_slack_before, read_varint, varint_len,
};

const KIND: PageKind = PageKind::TableLeaf;

/// Bytes that a row takes besides its record: payload length, rowid, cell pointer.
const ROW_OVERHEAD_BYTES_MAX: usize = 2 * VARINT_BYTES_MAX + POINTER_BYTES;

/// A stretch of consecutive table leaves with their overflow pages.
#[derive(Debug)]
pub struct LeafRun {
    layout: PageLayout,
    pages: RunPages,
    leaves: Vec<Leaf>,
    open: Option<OpenLeaf>,
    first_rowid: Option<i64>,
    last_rowid: Option<i64>,
    rows: u64,
    serials: SerialTypes,
    scratch: Vec<u8>,
}

/// A finished leaf: its index among the run's pages, and its last rowid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf {
    pub page_index: u32,
    pub last_rowid: i64,
}

impl LeafRun {
    /// An empty run for rows of up to `columns` columns.
    pub fn new(layout: PageLayout, columns: usize) -> Self {
        Self {
            layout,
            pages: RunPages::new(layout),
            leaves: Vec::new(),
            open: None,
            first_rowid: None,
            last_rowid: None,
            rows: 0,
            serials: SerialTypes::new(columns),
            scratch: Vec::new(),
        }
    }

    /// Adds a row whose record is written by `write`, last column first, and
    /// takes at most `record_bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// [`FormatError::NotAscending`] and [`FormatError::RecordTooLong`]; the
    /// row is then not in the run, which stays usable.
    #[inline(always)]
    pub fn push(
        &mut self,
        rowid: i64,
        record_bytes_max: usize,
        write: impl FnOnce(&mut RecordWriter<'_>),
    ) -> Result<(), FormatError> {
        if let Some(previous) = self.last_rowid
            && rowid <= previous
        {
            return Err(FormatError::NotAscending { previous, rowid });
        }
        // Straight into the page if the record fits it for certain; else its
        // length must be known first.
        let room = record_bytes_max + ROW_OVERHEAD_BYTES_MAX + WRITE_SLACK_BYTES;
        let open = self.open.filter(|open| room <= open.free_bytes());
        let (buf, end) = if let Some(open) = open {
            (self.pages.page(open.page_at), open.content_at)
        } else {
            if self.scratch.len() < room {
                self.scratch.resize(room, 0);
            }
            let end = self.scratch.len();
            (&mut self.scratch[..], end)
        };
        // Called in one place only: inlined there, the writer lives in registers.
        let mut writer = RecordWriter::new(buf, end, &mut self.serials);
        write(&mut writer);
        let payload_at = writer.finish();
        match open {
            Some(mut open) => {
                let at = put_varint_with_slack_before(buf, payload_at, rowid as u64);
                open.content_at = put_varint_before(buf, at, (end - payload_at) as u64);
                let pointer_at = open.pointers_end();
                buf[pointer_at..pointer_at + POINTER_BYTES]
                    .copy_from_slice(&(open.content_at as u16).to_be_bytes());
                open.cells += 1;
                self.open = Some(open);
            }
            None => self.push_scratch(rowid, payload_at)?,
        }
        if self.first_rowid.is_none() {
            self.first_rowid = Some(rowid);
        }
        self.last_rowid = Some(rowid);
        self.rows += 1;
        Ok(())
    }

    /// Adds a row of values, each in its own storage class.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn push_values(&mut self, rowid: i64, values: &[Value<'_>]) -> Result<(), FormatError> {
        debug_assert!(!values.is_empty(), "a record without a column");
        self.push(rowid, record_bytes_max(values), |record| {
            for &value in values.iter().rev() {
                record.value(value);
            }
        })
    }

    /// Adds a row whose record is there already.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn push_record(&mut self, rowid: i64, record: &[u8]) -> Result<(), FormatError> {
        if let Some(previous) = self.last_rowid
            && rowid <= previous
        {
            return Err(FormatError::NotAscending { previous, rowid });
        }
        self.push_payload(rowid, record)?;
        self.first_rowid.get_or_insert(rowid);
        self.last_rowid = Some(rowid);
        self.rows += 1;
        Ok(())
    }

    /// Adds all rows of another run, and returns true; false, and none, if that run has overflow pages.
    ///
    /// # Errors
    ///
    /// [`FormatError::NotAscending`]; the rows before that one are added.
    ///
    /// # Panics
    ///
    /// If the other run is not closed.
    pub fn take_rows(&mut self, other: &Self) -> Result<bool, FormatError> {
        assert!(other.open.is_none(), "the run is not closed");
        let pages = &other.pages;
        if pages.used_bytes() != other.leaves.len() * other.layout.page_bytes() {
            return Ok(false);
        }
        for page in pages.bytes()[..pages.used_bytes()].chunks(other.layout.page_bytes()) {
            let TablePage::Leaf(leaf) = TablePage::read(page, other.layout)? else {
                return Err(FormatError::MalformedPage);
            };
            for index in 0..leaf.rows() {
                let row = leaf.row(index)?;
                self.push_record(row.rowid, row.local)?;
            }
        }
        Ok(true)
    }

    /// Adds the record that ends the scratch buffer.
    #[inline(never)]
    fn push_scratch(&mut self, rowid: i64, payload_at: usize) -> Result<(), FormatError> {
        let scratch = std::mem::take(&mut self.scratch);
        let result = self.push_payload(rowid, &scratch[payload_at..]);
        self.scratch = scratch;
        result
    }

    fn push_payload(&mut self, rowid: i64, payload: &[u8]) -> Result<(), FormatError> {
        if payload.len() as u64 > RECORD_BYTES_MAX {
            return Err(FormatError::RecordTooLong { bytes: payload.len() as u64 });
        }
        let local_bytes = self.layout.local_bytes(KIND, payload.len());
        let spills = local_bytes < payload.len();
        let prefix_bytes = varint_len(payload.len() as u64) + varint_len(rowid as u64);
        let cell_bytes = prefix_bytes + local_bytes + if spills { PAGE_NUMBER_BYTES } else { 0 };
        let mut open = self.page_with_room(cell_bytes);

        let page = self.pages.page(open.page_at);
        let cell_at = open.content_at - space(cell_bytes) + POINTER_BYTES;
        page[cell_at + cell_bytes.min(CELL_BYTES_MIN)..cell_at + CELL_BYTES_MIN].fill(0);
        let local_at = cell_at + prefix_bytes;
        page[local_at..local_at + local_bytes].copy_from_slice(&payload[..local_bytes]);
        let at = put_varint_before(page, local_at, rowid as u64);
        put_varint_before(page, at, payload.len() as u64);
        let pointer_at = open.pointers_end();
        page[pointer_at..pointer_at + POINTER_BYTES]
            .copy_from_slice(&(cell_at as u16).to_be_bytes());
        open.content_at = cell_at;
        open.cells += 1;
        debug_assert!(open.pointers_end() <= open.content_at, "invariant 2");
        self.open = Some(open);
        if spills {
            let first_index = self.pages.add_overflow(&payload[local_bytes..]);
            self.pages.link(open.page_at + local_at + local_bytes, first_index);
        }
        Ok(())
    }

    /// The open page if the cell fits, else a new one.
    fn page_with_room(&mut self, cell_bytes: usize) -> OpenLeaf {
        match self.open {
            Some(open) if space(cell_bytes) <= open.free_bytes() => open,
            _ => {
                self.close_page();
                OpenLeaf { page_at: self.pages.add(), content_at: self.layout.usable(), cells: 0 }
            }
        }
    }

    fn close_page(&mut self) {
        let (Some(open), Some(last_rowid)) = (self.open.take(), self.last_rowid) else { return };
        let page = self.pages.page(open.page_at);
        page[open.pointers_end()..open.content_at].fill(0);
        write_page_header(page, KIND, open.cells, open.content_at);
        let page_index = self.pages.index(open.page_at);
        self.leaves.push(Leaf { page_index, last_rowid });
    }

    /// Ends the run: closes its last leaf.
    pub fn close(&mut self) {
        self.close_page();
    }

    /// The record of the row that was added last, by [`push`](Self::push); `None` before the first row
    /// and after [`close`](Self::close).
    #[inline]
    pub fn last_record(&self) -> Option<&[u8]> {
        let open = self.open?;
        let cell = self.pages.bytes().get(open.page_at + open.content_at..)?;
        let (record_bytes, length_bytes) = read_varint(cell)?;
        let (_, rowid_bytes) = read_varint(&cell[length_bytes..])?;
        let record_bytes = record_bytes as usize;
        if self.layout.local_bytes(KIND, record_bytes) == record_bytes {
            return cell[length_bytes + rowid_bytes..].get(..record_bytes);
        }
        // It was made in the scratch buffer, at its end.
        self.scratch.len().checked_sub(record_bytes).map(|at| &self.scratch[at..])
    }

    /// Rows pushed so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The rowid pushed first.
    pub fn first_rowid(&self) -> Option<i64> {
        self.first_rowid
    }

    /// The rowid pushed last.
    pub fn last_rowid(&self) -> Option<i64> {
        self.last_rowid
    }

    /// Memory that the pages take so far.
    pub fn bytes(&self) -> usize {
        self.pages.used_bytes()
    }

    pub(crate) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// Takes page numbers for the whole run.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    ///
    /// # Panics
    ///
    /// If the run is not closed: its last leaf would be lost without a word.
    pub fn take_numbers(&self, numbers: &mut PageNumbers) -> Result<PageRange, FormatError> {
        assert!(self.open.is_none(), "the run is not closed");
        self.pages.take_numbers(numbers)
    }

    /// Makes the page numbers final and returns the pages, ready to be written.
    pub fn number(&mut self, range: &PageRange) -> &[u8] {
        self.pages.number(range)
    }

    /// Makes the page numbers final and returns the memory of the pages, ready to be written. It may
    /// be exchanged for other memory before the next run.
    pub fn number_in_memory(&mut self, range: &PageRange) -> &mut AlignedBuffer {
        self.pages.number_in_memory(range)
    }

    /// Empties the run for the next stretch, keeping the memory.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.leaves.clear();
        self.open = None;
        self.first_rowid = None;
        self.last_rowid = None;
        self.rows = 0;
    }
}
