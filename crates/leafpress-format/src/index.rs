//! An index: runs of leaves joined under one root. A WITHOUT ROWID table is the same.
//!
//! Invariants:
//! 1. Runs come in key order, and so do the records within; the caller sorts,
//!    as only it knows collations.
//! 2. `tail` is the last leaf, not yet on a page. It has two records at least
//!    once the tree has: it can give one away as the separator before what
//!    comes next, or stay the last leaf, and is never left empty.

use crate::cells::CellPage;
use crate::error::FormatError;
use crate::finished::FinishedPages;
use crate::index_run::IndexRun;
use crate::layout::{PageKind, PageLayout};
use crate::numbers::{PageNumbers, PageRange};
use crate::spine::Spine;

const KIND: PageKind = PageKind::IndexLeaf;

/// Joins [`IndexRun`]s, in key order, to one B-tree.
///
/// ```
/// use leafpress_format::{FinishedPages, IndexRun, IndexTree, PageLayout, PageNumbers};
///
/// let layout = PageLayout::new(4096)?;
/// let mut numbers = PageNumbers::new(layout);
/// let mut finished = FinishedPages::new(layout);
/// let mut tree = IndexTree::new(layout);
///
/// let mut run = IndexRun::new(layout);
/// run.push(&[3, 15, 1, b'A', 7])?; // the record ('A', 7)
/// run.push(&[3, 15, 1, b'B', 5])?;
/// run.close();
/// let range = tree.append(&mut run, &mut numbers, &mut finished)?;
/// let _pages = run.number(&range); // write them at `range`
///
/// let root = tree.finish(&mut numbers, &mut finished)?;
/// assert_eq!(root, 2);
/// # Ok::<(), leafpress_format::FormatError>(())
/// ```
#[derive(Debug)]
pub struct IndexTree {
    layout: PageLayout,
    spine: Spine,
    tail: CellPage,
}

impl IndexTree {
    /// An empty tree.
    pub fn new(layout: PageLayout) -> Self {
        let spine = Spine::new(layout, PageKind::IndexInterior);
        Self { layout, spine, tail: CellPage::new(KIND) }
    }

    /// Appends a closed run, and gives it its page numbers. Leaves and
    /// interior pages of the tree that are complete by now are added to
    /// `finished`; their numbers come after the run's.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    ///
    /// # Panics
    ///
    /// If the run is not closed.
    pub fn append(
        &mut self,
        run: &mut IndexRun,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<PageRange, FormatError> {
        if self.tail.len() == 1 {
            run.loosen_first_leaf();
        }
        let range = run.take_numbers(numbers)?;
        for cell in run.head() {
            self.push(cell, numbers, finished)?;
        }
        if run.leaves().len() > 0
            && let Some(separator) = self.tail.pop()
        {
            self.close_tail(&separator, numbers, finished)?;
        }
        for (page_index, separator) in run.leaves() {
            self.spine.push(range.number(page_index), separator, numbers, finished)?;
        }
        for cell in run.tail() {
            self.push(cell, numbers, finished)?;
        }
        Ok(range)
    }

    /// Adds a cell to the tail.
    fn push(
        &mut self,
        cell: &[u8],
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        if !self.tail.fits(self.layout, 0, cell.len())
            && let (Some(first), Some(separator)) = (self.tail.pop(), self.tail.pop())
        {
            // Invariant 2 for the new tail; the old one, as it is full, has
            // three cells at least, and keeps one.
            self.close_tail(&separator, numbers, finished)?;
            self.tail.push(&first);
        }
        self.tail.push(cell);
        Ok(())
    }

    /// Puts the tail on a page; a new one begins behind the separator.
    fn close_tail(
        &mut self,
        separator: &[u8],
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        let leaf = self.emit_tail(numbers, finished)?;
        self.spine.push(leaf, separator, numbers, finished)
    }

    fn emit_tail(
        &mut self,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<u32, FormatError> {
        let tail = std::mem::replace(&mut self.tail, CellPage::new(KIND));
        let number = numbers.take()?;
        tail.write(self.layout, finished.add(number), 0, 0);
        Ok(number)
    }

    /// Ends the tree and returns its root page.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    pub fn finish(
        mut self,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<u32, FormatError> {
        let last_leaf = self.emit_tail(numbers, finished)?;
        self.spine.finish(last_leaf, numbers, finished)
    }
}
