//! Interior pages, grown from the leaves.
//!
//! Children come in key order, each with the separator that stands between it
//! and the next one. A level fills one page at a time; a full page goes up as
//! a child of the level above. Memory is two pages a level, whatever the size
//! of the tree.
//!
//! Invariants:
//! 1. Every finished interior page has at least one cell.
//! 2. A full page is held back until its right neighbour has a cell; if the
//!    neighbour never gets one, it borrows the last of the held page's.
//! 3. Separators of table trees are rowids (the largest in the left child);
//!    those of index trees are whole records that occur nowhere else.

use crate::cells::CellPage;
use crate::error::FormatError;
use crate::finished::FinishedPages;
use crate::layout::{DATABASE_HEADER_BYTES, PAGE_NUMBER_BYTES, PageKind, PageLayout};
use crate::numbers::PageNumbers;

/// The interior levels above the leaves, lowest first.
#[derive(Debug)]
pub(crate) struct Spine {
    layout: PageLayout,
    kind: PageKind,
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    open: CellPage,
    held: Option<HeldPage>,
}

/// A page that is full, and the separator that will stand to its right.
#[derive(Debug)]
struct HeldPage {
    cells: CellPage,
    right_child: u32,
    separator: Vec<u8>,
}

impl Spine {
    pub fn new(layout: PageLayout, kind: PageKind) -> Self {
        Self { layout, kind, levels: Vec::new() }
    }

    /// Adds a child of the lowest level that has a right neighbour.
    pub fn push(
        &mut self,
        child: u32,
        separator: &[u8],
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        self.push_at(0, child, separator, numbers, finished)
    }

    fn push_at(
        &mut self,
        height: usize,
        child: u32,
        separator: &[u8],
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        if height == self.levels.len() {
            self.levels.push(Level { open: CellPage::new(self.kind), held: None });
        }
        let level = &mut self.levels[height];
        if level.open.fits(self.layout, 0, PAGE_NUMBER_BYTES + separator.len()) {
            level.open.push_interior(child, separator);
            self.release(height, numbers, finished)
        } else {
            debug_assert!(level.held.is_none(), "invariant 2");
            let cells = std::mem::replace(&mut level.open, CellPage::new(self.kind));
            level.held =
                Some(HeldPage { cells, right_child: child, separator: separator.to_vec() });
            Ok(())
        }
    }

    /// Finishes the held page of a level, whose neighbour has a cell by now.
    fn release(
        &mut self,
        height: usize,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        let Some(held) = self.levels[height].held.take() else { return Ok(()) };
        let number = self.emit(&held.cells, held.right_child, numbers, finished)?;
        self.push_at(height + 1, number, &held.separator, numbers, finished)
    }

    fn emit(
        &self,
        cells: &CellPage,
        right_child: u32,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<u32, FormatError> {
        assert!(!cells.is_empty(), "invariant 1");
        let number = numbers.take_interior()?;
        cells.write(self.layout, finished.add(number), 0, right_child);
        Ok(number)
    }

    /// Ends the tree with its last child and returns the root.
    pub fn finish(
        mut self,
        last_child: u32,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<u32, FormatError> {
        let (top, right_child) = self.close_levels(last_child, numbers, finished)?;
        match top {
            None => Ok(right_child),
            Some(cells) => self.emit(&cells, right_child, numbers, finished),
        }
    }

    /// Ends the tree with its root on page 1, behind the database header.
    ///
    /// That root may be without a cell, the one exception to invariant 1:
    /// SQLite does the same with a leaf that fits a page but not page 1.
    pub fn finish_on_page_1(
        mut self,
        last_child: u32,
        page_1: &mut [u8],
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        let (top, right_child) = self.close_levels(last_child, numbers, finished)?;
        let mut root = top.unwrap_or_else(|| CellPage::new(self.kind));
        let mut root_right_child = right_child;
        if !root.fits_page_1(self.layout) {
            // The database header takes the room of a few cells: split the
            // root in two and let page 1 stand above them.
            let mut right = Vec::new();
            for _ in 0..root.len() / 2 {
                right.extend(root.pop_interior());
            }
            if let Some((left_right_child, separator)) = root.pop_interior() {
                let mut right_cells = CellPage::new(self.kind);
                for (child, separator) in right.iter().rev() {
                    right_cells.push_interior(*child, separator);
                }
                let left = self.emit(&root, left_right_child, numbers, finished)?;
                root_right_child = self.emit(&right_cells, right_child, numbers, finished)?;
                root = CellPage::new(self.kind);
                root.push_interior(left, &separator);
            }
        }
        root.write(self.layout, page_1, DATABASE_HEADER_BYTES, root_right_child);
        Ok(())
    }

    /// Finishes all pages but the root; returns its cells (none if the last
    /// child is itself the root) and its right-most child.
    fn close_levels(
        &mut self,
        last_child: u32,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(Option<CellPage>, u32), FormatError> {
        let mut right_child = last_child;
        let mut height = 0;
        while height < self.levels.len() {
            self.borrow_if_empty(height);
            self.release(height, numbers, finished)?;
            let cells = std::mem::replace(&mut self.levels[height].open, CellPage::new(self.kind));
            height += 1;
            if height == self.levels.len() {
                return Ok((Some(cells), right_child));
            }
            right_child = self.emit(&cells, right_child, numbers, finished)?;
        }
        Ok((None, right_child))
    }

    /// Invariant 2: the last page of a level takes a cell from its neighbour.
    fn borrow_if_empty(&mut self, height: usize) {
        let level = &mut self.levels[height];
        let (true, Some(held)) = (level.open.is_empty(), level.held.as_mut()) else { return };
        if let Some((child, separator)) = held.cells.pop_interior() {
            level.open.push_interior(held.right_child, &held.separator);
            held.right_child = child;
            held.separator = separator;
        }
    }
}
