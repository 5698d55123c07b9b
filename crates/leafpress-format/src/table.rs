//! A rowid table: runs of leaves joined under one root.

use crate::cells::CellPage;
use crate::error::FormatError;
use crate::finished::FinishedPages;
use crate::layout::{PageKind, PageLayout};
use crate::leaf::LeafRun;
use crate::numbers::{PageNumbers, PageRange};
use crate::spine::Spine;
use crate::varint::{VARINT_BYTES_MAX, put_varint_before};

/// Joins [`LeafRun`]s, in rowid order, to one B-tree.
///
/// ```
/// use leafpress_format::{FinishedPages, LeafRun, PageLayout, PageNumbers, TableBuilder, Value};
///
/// let layout = PageLayout::new(4096)?;
/// let mut numbers = PageNumbers::new(layout);
/// let mut finished = FinishedPages::new(layout);
/// let mut table = TableBuilder::new(layout);
///
/// let mut run = LeafRun::new(layout, 2);
/// run.push_values(1, &[Value::from("Ada"), Value::from(36)])?;
/// run.push_values(2, &[Value::from("Grace"), Value::Null])?;
/// run.close();
/// let range = table.append(&run, &mut numbers, &mut finished)?;
/// let _pages = run.number(&range); // write them at `range`
///
/// let root = table.finish(&mut numbers, &mut finished)?;
/// assert_eq!(root, 2);
/// # Ok::<(), leafpress_format::FormatError>(())
/// ```
#[derive(Debug)]
pub struct TableBuilder {
    layout: PageLayout,
    spine: Spine,
    /// The last leaf waits here: only its successor makes it a left child.
    last_leaf: Option<PlacedLeaf>,
}

#[derive(Debug, Clone, Copy)]
struct PlacedLeaf {
    page: u32,
    last_rowid: i64,
}

/// The leaves of a stretch of a table, with their page numbers, for when the
/// stretch is not at the table's end yet.
#[derive(Debug, Default)]
pub struct PlacedLeaves {
    first_rowid: Option<i64>,
    leaves: Vec<PlacedLeaf>,
}

impl PlacedLeaves {
    /// Adds the leaves of a closed run that lies at `range`.
    ///
    /// # Errors
    ///
    /// [`FormatError::NotAscending`] if the run does not begin after the last
    /// one's end.
    pub fn extend(&mut self, run: &LeafRun, range: &PageRange) -> Result<(), FormatError> {
        let Some(rowid) = run.first_rowid() else { return Ok(()) };
        if let Some(last) = self.leaves.last()
            && rowid <= last.last_rowid
        {
            return Err(FormatError::NotAscending { previous: last.last_rowid, rowid });
        }
        self.first_rowid.get_or_insert(rowid);
        self.leaves.extend(run.leaves().iter().map(|leaf| PlacedLeaf {
            page: range.number(leaf.page_index),
            last_rowid: leaf.last_rowid,
        }));
        Ok(())
    }
}

impl PlacedLeaves {
    /// The numbers of the leaves' pages, in the order of their rows.
    pub fn pages(&self) -> impl Iterator<Item = u32> {
        self.leaves.iter().map(|leaf| leaf.page)
    }
}

impl TableBuilder {
    /// An empty table.
    pub fn new(layout: PageLayout) -> Self {
        let spine = Spine::new(layout, PageKind::TableInterior);
        Self { layout, spine, last_leaf: None }
    }

    /// Appends a closed run, and gives it its page numbers. Interior pages
    /// that became full are added to `finished`.
    ///
    /// # Errors
    ///
    /// [`FormatError::NotAscending`] if the run does not begin after the last
    /// one's end, and [`FormatError::TooManyPages`].
    ///
    /// # Panics
    ///
    /// If the run is not closed.
    pub fn append(
        &mut self,
        run: &LeafRun,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<PageRange, FormatError> {
        self.check_order(run.first_rowid())?;
        let range = run.take_numbers(numbers)?;
        for leaf in run.leaves() {
            let placed =
                PlacedLeaf { page: range.number(leaf.page_index), last_rowid: leaf.last_rowid };
            self.push(placed, numbers, finished)?;
        }
        Ok(range)
    }

    /// Appends leaves whose pages have their numbers already.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn join(
        &mut self,
        placed: &PlacedLeaves,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        self.check_order(placed.first_rowid)?;
        for &leaf in &placed.leaves {
            self.push(leaf, numbers, finished)?;
        }
        Ok(())
    }

    /// Checks that rows which begin with this rowid come after those that are there.
    ///
    /// # Errors
    ///
    /// [`FormatError::NotAscending`].
    pub fn check_order(&self, first_rowid: Option<i64>) -> Result<(), FormatError> {
        match (self.last_leaf, first_rowid) {
            (Some(last), Some(rowid)) if rowid <= last.last_rowid => {
                Err(FormatError::NotAscending { previous: last.last_rowid, rowid })
            }
            _ => Ok(()),
        }
    }

    fn push(
        &mut self,
        leaf: PlacedLeaf,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        if let Some(last) = self.last_leaf.replace(leaf) {
            let mut buf = [0; VARINT_BYTES_MAX];
            let at = put_varint_before(&mut buf, VARINT_BYTES_MAX, last.last_rowid as u64);
            self.spine.push(last.page, &buf[at..], numbers, finished)?;
        }
        Ok(())
    }

    /// Ends the table and returns its root page.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    pub fn finish(
        self,
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<u32, FormatError> {
        if let Some(last) = self.last_leaf {
            return self.spine.finish(last.page, numbers, finished);
        }
        let root = numbers.take()?;
        CellPage::new(PageKind::TableLeaf).write(self.layout, finished.add(root), 0, 0);
        Ok(root)
    }

    /// Ends the table with its root on page 1. It must have a leaf.
    pub(crate) fn finish_on_page_1(
        self,
        page_1: &mut [u8],
        numbers: &mut PageNumbers,
        finished: &mut FinishedPages,
    ) -> Result<(), FormatError> {
        match self.last_leaf {
            Some(last) => self.spine.finish_on_page_1(last.page, page_1, numbers, finished),
            None => Ok(()),
        }
    }
}
