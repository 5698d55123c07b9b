//! Page numbers, handed out in file order. The lock-byte page has none.
//!
//! A file for readers at a distance has its interior pages in front. How many there will be is not
//! known when the first leaf is numbered, so a guess is kept free for them: the *front*.

use crate::error::{FormatError, PAGE_NUMBER_MAX};
use crate::layout::PageLayout;
use std::ops::Range;

/// Hands out page numbers in ascending order.
///
/// Invariants:
/// 1. A number is handed out once.
/// 2. The lock-byte page is never handed out.
/// 3. No number is above [`PAGE_NUMBER_MAX`].
/// 4. The front lies before all other numbers that are handed out, and before the lock-byte page.
#[derive(Debug, Clone)]
pub struct PageNumbers {
    next: u32,
    lock_byte_page: u32,
    /// Numbers of the front that are free.
    front: Range<u32>,
    /// True if all pages belong in front from now on.
    all_in_front: bool,
    /// True if the front was too small.
    has_spilled: bool,
}

/// The numbers of pages that follow one another in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    first: u32,
    pages: u32,
    lock_byte_page: u32,
}

impl PageNumbers {
    /// The numbers of a new database: page 1 is the schema's, the next one is free.
    pub fn new(layout: PageLayout) -> Self {
        Self::starting_at(layout, 2)
    }

    /// Numbers from `next` on, as when a database is extended.
    pub fn starting_at(layout: PageLayout, next: u32) -> Self {
        let mut numbers = Self {
            next,
            lock_byte_page: layout.lock_byte_page(),
            front: 0..0,
            all_in_front: false,
            has_spilled: false,
        };
        numbers.skip_lock_byte_page();
        numbers
    }

    /// The numbers of a new database with so many pages in front, or as many as can be there.
    pub fn with_front(layout: PageLayout, pages: u32) -> Self {
        let end = pages.min(layout.lock_byte_page() - 3) + 2;
        Self { front: 2..end, ..Self::starting_at(layout, end) }
    }

    /// Says that all pages, and not only interior ones, belong in front from now on.
    pub fn put_all_in_front(&mut self) {
        self.all_in_front = true;
    }

    /// Returns true if pages that belong in front are elsewhere, as the front was too small.
    pub fn has_spilled(&self) -> bool {
        self.has_spilled
    }

    /// The numbers of the front that were not taken.
    pub(crate) fn free_front(&self) -> Range<u32> {
        self.front.clone()
    }

    /// Takes the number of an interior page: one in front, if the file has a front.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    pub(crate) fn take_interior(&mut self) -> Result<u32, FormatError> {
        match self.take_front(1) {
            Some(range) => Ok(range.first),
            None => self.take(),
        }
    }

    fn take_front(&mut self, pages: u32) -> Option<PageRange> {
        let first = self.front.start;
        if self.front.len() < pages as usize {
            self.has_spilled = true;
            return None;
        }
        self.front.start += pages;
        Some(PageRange { first, pages, lock_byte_page: self.lock_byte_page })
    }

    /// Takes one number.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    pub fn take(&mut self) -> Result<u32, FormatError> {
        self.take_range(1).map(|range| range.first)
    }

    /// Takes as many numbers as a buffer has pages.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    pub fn take_range(&mut self, pages: u32) -> Result<PageRange, FormatError> {
        if self.all_in_front
            && let Some(range) = self.take_front(pages)
        {
            return Ok(range);
        }
        let range = PageRange { first: self.next, pages, lock_byte_page: self.lock_byte_page };
        let end = u64::from(self.next) + u64::from(pages) + u64::from(range.spans_lock_byte_page());
        if end > u64::from(PAGE_NUMBER_MAX) {
            return Err(FormatError::TooManyPages);
        }
        self.next = end as u32;
        self.skip_lock_byte_page();
        Ok(range)
    }

    /// The number that [`take`](Self::take) would give now.
    pub fn peek(&self) -> u32 {
        self.next
    }

    /// Pages in the file if no more numbers are taken: the highest one taken.
    pub fn page_count(&self) -> u32 {
        let last = self.next - 1;
        if last == self.lock_byte_page { last - 1 } else { last }
    }

    fn skip_lock_byte_page(&mut self) {
        if self.next == self.lock_byte_page {
            self.next += 1;
        }
    }
}

impl PageRange {
    fn spans_lock_byte_page(&self) -> bool {
        self.first < self.lock_byte_page && self.lock_byte_page - self.first < self.pages
    }

    /// Number of pages in the buffer.
    pub(crate) fn pages(&self) -> u32 {
        self.pages
    }

    /// The number of the page at `index` in the buffer.
    #[inline]
    pub fn number(&self, index: u32) -> u32 {
        let number = self.first + index;
        let beyond = self.first < self.lock_byte_page && number >= self.lock_byte_page;
        number + u32::from(beyond)
    }

    /// The index in the buffer of the page with this number, which is one of
    /// the range: the reverse of [`number`](Self::number).
    ///
    /// ```
    /// # use leafpress_format::{PageLayout, PageNumbers};
    /// # let layout = PageLayout::new(4096)?;
    /// // Pages from 2 on move behind the 900 pages of another file.
    /// let from = PageNumbers::new(layout).take_range(100)?;
    /// let to = PageNumbers::starting_at(layout, 901).take_range(100)?;
    /// let new_number = |page| to.number(from.index(page));
    /// assert_eq!(new_number(7), 906);
    /// # Ok::<(), leafpress_format::FormatError>(())
    /// ```
    #[inline]
    pub fn index(&self, number: u32) -> u32 {
        let index = number.saturating_sub(self.first);
        index - u32::from(self.first < self.lock_byte_page && number > self.lock_byte_page)
    }

    /// The buffer as pieces that are contiguous in the file: one, or two
    /// around the lock-byte page.
    pub fn pieces<'b>(
        &self,
        bytes: &'b [u8],
        layout: PageLayout,
    ) -> impl Iterator<Item = (u32, &'b [u8])> + use<'b> {
        let split = if self.spans_lock_byte_page() {
            (self.lock_byte_page - self.first) as usize * layout.page_bytes()
        } else {
            bytes.len()
        };
        let (before, after) = bytes.split_at(split);
        let pieces = [(self.first, before), (self.lock_byte_page + 1, after)];
        pieces.into_iter().filter(|(_, piece)| !piece.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> PageLayout {
        PageLayout::new(65536).unwrap()
    }

    #[test]
    fn the_lock_byte_page_is_skipped() {
        let lock = layout().lock_byte_page();
        let mut numbers = PageNumbers::starting_at(layout(), lock - 2);
        let range = numbers.take_range(4).unwrap();
        let taken: Vec<u32> = (0..4).map(|i| range.number(i)).collect();
        assert_eq!(taken, [lock - 2, lock - 1, lock + 1, lock + 2]);
        assert!((0..4).eq(taken.iter().map(|&number| range.index(number))));
        let bytes = vec![0; 4 * 65536];
        let pieces: Vec<(u32, usize)> =
            range.pieces(&bytes, layout()).map(|(n, b)| (n, b.len())).collect();
        assert_eq!(pieces, [(lock - 2, 2 * 65536), (lock + 1, 2 * 65536)]);
        assert_eq!(numbers.take().unwrap(), lock + 3);
    }

    #[test]
    fn a_range_that_ends_at_the_lock_byte_page_does_not_count_it() {
        let lock = layout().lock_byte_page();
        let mut numbers = PageNumbers::starting_at(layout(), lock - 2);
        let range = numbers.take_range(2).unwrap();
        assert_eq!(range.number(1), lock - 1);
        assert_eq!(numbers.page_count(), lock - 1);
        assert_eq!(numbers.take().unwrap(), lock + 1);
        assert_eq!(numbers.page_count(), lock + 1);
    }

    #[test]
    fn interior_pages_are_in_front_while_there_is_room() {
        let mut numbers = PageNumbers::with_front(layout(), 3);
        assert_eq!(numbers.take().unwrap(), 5);
        assert_eq!(numbers.take_interior().unwrap(), 2);
        assert_eq!(numbers.take_interior().unwrap(), 3);
        assert_eq!(numbers.free_front(), 4..5);
        numbers.put_all_in_front();
        assert_eq!(numbers.take_range(1).unwrap().number(0), 4);
        assert!(!numbers.has_spilled());
        assert_eq!(numbers.take_range(2).unwrap().number(0), 6);
        assert!(numbers.has_spilled());
        let wide = PageNumbers::with_front(layout(), u32::MAX);
        assert!(wide.peek() < layout().lock_byte_page());
    }

    #[test]
    fn the_last_number_is_the_limit() {
        let mut numbers = PageNumbers::starting_at(layout(), PAGE_NUMBER_MAX - 2);
        assert!(numbers.take_range(3).is_err());
        assert!(numbers.take_range(2).is_ok());
        assert_eq!(numbers.take(), Err(FormatError::TooManyPages));
    }
}
