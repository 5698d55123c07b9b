//! Index leaves, filled on any thread. Leaves of WITHOUT ROWID tables are the same.
//!
//! Unlike a table's rows, a record stands in the tree once: the one that no
//! longer fits a leaf becomes the separator between it and the next leaf. So
//! where two runs meet a record is missing that stands between them, and the
//! last record of a run may be a separator without a leaf to its right. Both
//! are settled by one rule: *a run does not close its last leaf*. Its cells,
//! the *tail*, are handed to the tree, which knows what comes next.
//!
//! ```text
//! leaf  separator  leaf  separator  …  leaf  separator │ tail
//! └──────────── pages, and cells for the spine ────────┘ └─ cells, on no page
//! ```
//!
//! Invariants of a closed run:
//! 1. Each of its leaves is followed by a separator; there are as many.
//! 2. The tail is empty only if the run is; of a run of two records or more it
//!    has two at least. One of them can become a separator, and the leaf that
//!    it is taken from is not empty.
//! 3. Overflow pages are pages of the run, also those of separators and tail.
//! 4. While a leaf is open, its pointers end at or before its content start.

use crate::cells::{OpenLeaf, space, write_page_header};
use crate::error::{FormatError, RECORD_BYTES_MAX};
use crate::layout::{
    CELL_BYTES_MIN, PAGE_NUMBER_BYTES, POINTER_BYTES, PageKind, PageLayout, offset,
};
use crate::loose::LooseCells;
use crate::numbers::{PageNumbers, PageRange};
use crate::run_pages::{RunPages, shift_index};
use crate::varint::{VARINT_BYTES_MAX, put_varint_before, read_varint, varint_len};

const KIND: PageKind = PageKind::IndexLeaf;

/// A stretch of consecutive index leaves, with the separators behind them and
/// all overflow pages, for [`IndexTree`](crate::IndexTree).
#[derive(Debug)]
pub struct IndexRun {
    layout: PageLayout,
    local_bytes_max: usize,
    pages: RunPages,
    /// Page indices of the leaves.
    leaves: Vec<u32>,
    separators: LooseCells,
    /// The cells of the first leaf and its separator, if these were taken out of the pages;
    /// otherwise empty.
    head: LooseCells,
    tail: LooseCells,
    open: Option<OpenLeaf>,
    closed: bool,
    entries: u64,
}

impl IndexRun {
    /// An empty run.
    pub fn new(layout: PageLayout) -> Self {
        Self {
            layout,
            local_bytes_max: layout.local_bytes_max(KIND),
            pages: RunPages::new(layout),
            leaves: Vec::new(),
            separators: LooseCells::default(),
            head: LooseCells::default(),
            tail: LooseCells::default(),
            open: None,
            closed: false,
            entries: 0,
        }
    }

    /// Adds the next record.
    ///
    /// An entry of an index is its key columns followed by the rowid (or, on a
    /// WITHOUT ROWID table, by the primary key's columns that it lacks); an
    /// entry of a WITHOUT ROWID table is its key columns followed by all
    /// others. Records must come in key order and each once: that is for the
    /// caller to see to, as only it knows the collations.
    ///
    /// # Errors
    ///
    /// [`FormatError::RecordTooLong`]; the record is then not in the run,
    /// which stays usable.
    ///
    /// # Panics
    ///
    /// If the run is closed.
    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Result<(), FormatError> {
        let cell_bytes = varint_len(record.len() as u64) + record.len();
        if let Some(open) = self.open
            && record.len() <= self.local_bytes_max
            && space(cell_bytes) <= open.free_bytes()
        {
            self.put(open, record.len() as u64, record, cell_bytes);
            self.entries += 1;
            return Ok(());
        }
        self.push_slowly(record)
    }

    #[inline(never)]
    fn push_slowly(&mut self, record: &[u8]) -> Result<(), FormatError> {
        assert!(!self.closed, "the run is closed");
        let payload_bytes = record.len() as u64;
        if payload_bytes > RECORD_BYTES_MAX {
            return Err(FormatError::RecordTooLong { bytes: payload_bytes });
        }
        let (local, rest) = record.split_at(self.layout.local_bytes(KIND, record.len()));
        let number_bytes = if rest.is_empty() { 0 } else { PAGE_NUMBER_BYTES };
        let cell_bytes = varint_len(payload_bytes) + local.len() + number_bytes;
        match self.open {
            Some(open) if space(cell_bytes) > open.free_bytes() => {
                self.close_leaf(open);
                let overflow_index = self.add_overflow(rest);
                self.push_separator(payload_bytes, local, overflow_index);
            }
            open => {
                let open = open.unwrap_or_else(|| OpenLeaf {
                    page_at: self.pages.add(),
                    content_at: self.layout.usable(),
                    cells: 0,
                });
                let local_end = self.put(open, payload_bytes, local, cell_bytes);
                if let Some(first_index) = self.add_overflow(rest) {
                    self.pages.link(local_end, first_index);
                }
            }
        }
        self.entries += 1;
        Ok(())
    }

    /// Puts a cell, which fits, on the open leaf; returns where in the run's
    /// pages its local payload ends.
    #[inline(always)]
    fn put(
        &mut self,
        mut open: OpenLeaf,
        payload_bytes: u64,
        local: &[u8],
        cell_bytes: usize,
    ) -> usize {
        let page = self.pages.page(open.page_at);
        let cell_at = open.content_at + POINTER_BYTES - space(cell_bytes);
        page[cell_at + cell_bytes.min(CELL_BYTES_MIN)..cell_at + CELL_BYTES_MIN].fill(0);
        let local_at = cell_at + varint_len(payload_bytes);
        let local_end = local_at + local.len();
        page[local_at..local_end].copy_from_slice(local);
        put_varint_before(page, local_at, payload_bytes);
        let pointer_at = open.pointers_end();
        page[pointer_at..pointer_at + POINTER_BYTES]
            .copy_from_slice(&(cell_at as u16).to_be_bytes());
        open.content_at = cell_at;
        open.cells += 1;
        debug_assert!(open.pointers_end() <= open.content_at, "invariant 4");
        self.open = Some(open);
        open.page_at + local_end
    }

    fn add_overflow(&mut self, rest: &[u8]) -> Option<u32> {
        (!rest.is_empty()).then(|| self.pages.add_overflow(rest))
    }

    fn push_separator(&mut self, payload_bytes: u64, local: &[u8], overflow_index: Option<u32>) {
        let mut prefix = [0; VARINT_BYTES_MAX];
        let at = put_varint_before(&mut prefix, VARINT_BYTES_MAX, payload_bytes);
        let room: &[u8] = if overflow_index.is_some() { &[0; PAGE_NUMBER_BYTES] } else { &[] };
        self.separators.push_parts([&prefix[at..], local, room], overflow_index);
    }

    fn close_leaf(&mut self, open: OpenLeaf) {
        let page = self.pages.page(open.page_at);
        page[open.pointers_end()..open.content_at].fill(0);
        write_page_header(page, KIND, open.cells, open.content_at);
        self.leaves.push(self.pages.index(open.page_at));
        self.open = None;
    }

    /// Ends the run.
    pub fn close(&mut self) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let closed_leaves = self.leaves.len();
        let open_cells = self.open.map_or(0, |open| open.cells);
        if let Some(open) = self.open {
            self.close_leaf(open);
        }
        // Invariant 2: a leaf that was closed because it was full has three
        // cells at least (SQLite's thresholds see to that), the open one may not.
        let kept = if open_cells >= 2 { closed_leaves } else { closed_leaves.saturating_sub(1) };
        let mut separators = LooseCells::default();
        self.separators.move_from(kept, &mut separators);
        let mut tail = LooseCells::default();
        while kept < self.leaves.len() {
            let page_index = self.leaves.remove(kept);
            // What is in the tail by now overflows to pages before this one.
            separators.shift(page_index);
            self.loosen(page_index, &mut tail);
            if separators.len() > 0 {
                separators.move_first(&mut tail);
            }
        }
        self.tail = tail;
        debug_assert!(self.leaves.len() == self.separators.len(), "invariant 1");
        debug_assert!(self.tail.len() as u64 >= self.entries.min(2), "invariant 2");
    }

    /// Takes a leaf out of the pages; its cells go to the end of `to`.
    fn loosen(&mut self, page_index: u32, to: &mut LooseCells) {
        let (page, links) = self.pages.remove(page_index);
        for leaf in &mut self.leaves {
            shift_index(leaf, page_index);
        }
        self.separators.shift(page_index);
        self.tail.shift(page_index);
        // Both in the order of the cells.
        let mut overflow_indices = links.into_iter().map(|(_, target_index)| target_index);
        let count = [page[offset::CELL_COUNT], page[offset::CELL_COUNT + 1]];
        let count = usize::from(u16::from_be_bytes(count));
        for pointer in page[KIND.header_bytes()..].chunks_exact(POINTER_BYTES).take(count) {
            let cell = &page[usize::from(u16::from_be_bytes([pointer[0], pointer[1]]))..];
            let (payload_bytes, prefix_bytes) = read_varint(cell).unwrap_or_default();
            let local_bytes = self.layout.local_bytes(KIND, payload_bytes as usize);
            let local_end = prefix_bytes + local_bytes;
            if local_bytes < payload_bytes as usize {
                to.push(&cell[..local_end + PAGE_NUMBER_BYTES], overflow_indices.next());
            } else {
                to.push(&cell[..local_end], None);
            }
        }
    }

    /// Takes the first leaf and its separator out of the pages, for a tree
    /// that has a single record: too few for a leaf and a separator.
    pub(crate) fn loosen_first_leaf(&mut self) {
        if self.leaves.is_empty() {
            return;
        }
        let page_index = self.leaves.remove(0);
        let mut head = LooseCells::default();
        self.loosen(page_index, &mut head);
        self.separators.move_first(&mut head);
        self.head = head;
    }

    /// Entries pushed so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Memory that pages and separators take so far.
    pub fn bytes(&self) -> usize {
        self.pages.used_bytes() + self.separators.bytes() + self.tail.bytes()
    }

    /// Takes page numbers for the whole run and gives them to its loose cells.
    pub(crate) fn take_numbers(
        &mut self,
        numbers: &mut PageNumbers,
    ) -> Result<PageRange, FormatError> {
        assert!(self.closed, "the run is not closed");
        let range = self.pages.take_numbers(numbers)?;
        self.head.number(&range);
        self.separators.number(&range);
        self.tail.number(&range);
        Ok(range)
    }

    /// Cells that stand before the first leaf.
    pub(crate) fn head(&self) -> impl Iterator<Item = &[u8]> {
        self.head.iter()
    }

    /// The leaves, by page index, each with the separator behind it.
    pub(crate) fn leaves(&self) -> impl ExactSizeIterator<Item = (u32, &[u8])> {
        (0..self.leaves.len()).map(|at| (self.leaves[at], self.separators.get(at)))
    }

    /// Cells that stand behind the last separator.
    pub(crate) fn tail(&self) -> impl Iterator<Item = &[u8]> {
        self.tail.iter()
    }

    /// Makes the page numbers final and returns the pages, ready to be written.
    pub fn number(&mut self, range: &PageRange) -> &[u8] {
        self.pages.number(range)
    }

    /// Empties the run for the next stretch, keeping the memory.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.leaves.clear();
        self.separators.clear();
        self.head.clear();
        self.tail.clear();
        self.open = None;
        self.closed = false;
        self.entries = 0;
    }
}
