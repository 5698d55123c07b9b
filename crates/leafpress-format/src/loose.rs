//! Index cells on no page of their run. They are the separators, which go to interior pages,
//! and the cells of leaves that the tree still has to close.
//!
//! A cell of an index leaf and one of an interior page are the same bytes but
//! for the left child in front, so either may become the other.

use crate::layout::PAGE_NUMBER_BYTES;
use crate::numbers::PageRange;
use crate::run_pages::shift_index;

/// Whole cells in key order, without left child.
#[derive(Debug, Default)]
pub(crate) struct LooseCells {
    bytes: Vec<u8>,
    cells: Vec<LooseCell>,
}

/// The end of a cell, and the page of the run that its last four bytes will name.
#[derive(Debug, Clone, Copy)]
struct LooseCell {
    end: usize,
    overflow_index: Option<u32>,
}

impl LooseCells {
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Memory taken so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a cell; if it overflows, it ends in room for a page number.
    pub fn push(&mut self, cell: &[u8], overflow_index: Option<u32>) {
        self.push_parts([cell], overflow_index);
    }

    /// Adds a cell that is given in parts, as [`push`](Self::push) does.
    pub fn push_parts<const N: usize>(&mut self, parts: [&[u8]; N], overflow_index: Option<u32>) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.cells.push(LooseCell { end: self.bytes.len(), overflow_index });
    }

    /// Moves the cells from `first` on to the end of another list.
    pub fn move_from(&mut self, first: usize, to: &mut Self) {
        for index in first..self.cells.len() {
            to.push(self.get(index), self.cells[index].overflow_index);
        }
        self.bytes.truncate(self.start(first));
        self.cells.truncate(first);
    }

    /// Moves the first cell to the end of another list.
    pub fn move_first(&mut self, to: &mut Self) {
        let mut rest = Self::default();
        self.move_from(1, &mut rest);
        self.move_from(0, to);
        *self = rest;
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.cells.len()).map(|index| self.get(index))
    }

    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.cells[index].end]
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.cells[before].end)
    }

    /// The page at `removed` is taken out of the run.
    pub fn shift(&mut self, removed: u32) {
        for index in self.cells.iter_mut().filter_map(|cell| cell.overflow_index.as_mut()) {
            shift_index(index, removed);
        }
    }

    /// Makes the page numbers final.
    pub fn number(&mut self, range: &PageRange) {
        for cell in &mut self.cells {
            if let Some(index) = cell.overflow_index.take() {
                self.bytes[cell.end - PAGE_NUMBER_BYTES..cell.end]
                    .copy_from_slice(&range.number(index).to_be_bytes());
            }
        }
    }

    /// Forgets the cells, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.cells.clear();
    }
}
