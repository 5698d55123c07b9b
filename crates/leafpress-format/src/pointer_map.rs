//! Pointer-map pages of an auto-vacuum database.
//!
//! ```text
//! page 1 │ map │ n pages │ map │ n pages │ …      n = usable bytes / 5
//!
//! an entry   offset  size  meaning
//!            0       1     1 root, 3 first overflow page, 4 later one, 5 in a tree
//!            1       4     the page that names it; 0 for a root
//! ```
//!
//! A map page that would be the lock-byte page is the one behind it. Source:
//! file format, section 1.8. Nothing is pressed into such a file: trees are
//! moved there ([`relocate`](fn@crate::relocate)), and
//! [`PageMover::owned_by`](crate::PageMover::owned_by) says what their entries are.

use crate::error::{FormatError, PAGE_NUMBER_MAX};
use crate::layout::PageLayout;
use crate::relocate::PageOwner;

/// An entry's size.
pub const POINTER_MAP_ENTRY_BYTES: usize = 5;

/// The numbers of an auto-vacuum database's map pages.
#[derive(Debug, Clone, Copy)]
pub struct PointerMap {
    /// From a map page to the next.
    period: u32,
    lock_byte_page: u32,
}

/// Numbers of an auto-vacuum database for pages that are no maps, ascending.
#[derive(Debug, Clone, Copy)]
pub struct MappedRange {
    map: PointerMap,
    first: u32,
    pages: u32,
}

impl PointerMap {
    /// The map pages of a database with pages of this layout.
    pub fn new(layout: PageLayout) -> Self {
        let entries = layout.usable() / POINTER_MAP_ENTRY_BYTES;
        Self { period: entries as u32 + 1, lock_byte_page: layout.lock_byte_page() }
    }

    /// Returns true if a page is a map.
    pub fn is_map(&self, page: u32) -> bool {
        page >= 2 && self.map_of(page) == page
    }

    /// The map page in which a page has its entry, and the entry's offset
    /// there. Page 1, maps and the lock-byte page have none.
    pub fn place(&self, page: u32) -> Option<(u32, usize)> {
        if page < 2 || page == self.lock_byte_page || self.is_map(page) {
            return None;
        }
        let map = self.map_of(page);
        Some((map, (page - map - 1) as usize * POINTER_MAP_ENTRY_BYTES))
    }

    fn map_of(self, page: u32) -> u32 {
        let map = (page - 2) / self.period * self.period + 2;
        map + u32::from(map == self.lock_byte_page)
    }

    /// Takes numbers for pages behind those that a database has.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    pub fn take_range(&self, first: u32, pages: u32) -> Result<MappedRange, FormatError> {
        let range = MappedRange { map: *self, first, pages };
        if range.wide_number(pages.saturating_sub(1)) > u64::from(PAGE_NUMBER_MAX) {
            return Err(FormatError::TooManyPages);
        }
        Ok(range)
    }

    /// Maps and lock-byte page among the pages up to one.
    fn skipped_up_to(self, page: u64) -> u64 {
        let (period, lock) = (u64::from(self.period), u64::from(self.lock_byte_page));
        let maps = if page < 2 { 0 } else { (page - 2) / period + 1 };
        let map_is_put_off = page == lock && (lock - 2).is_multiple_of(period);
        maps - u64::from(map_is_put_off) + u64::from(page >= lock)
    }
}

impl MappedRange {
    /// The number of the page at `index`.
    pub fn number(&self, index: u32) -> u32 {
        self.wide_number(index) as u32
    }

    /// The least number with as many pages before it that are not skipped.
    fn wide_number(&self, index: u32) -> u64 {
        let wanted = u64::from(self.first) + u64::from(index);
        let before = self.map.skipped_up_to(u64::from(self.first).saturating_sub(1));
        let mut number = wanted;
        loop {
            let next = wanted + self.map.skipped_up_to(number) - before;
            if next == number {
                return number;
            }
            number = next;
        }
    }

    /// Pages in the file when these are in it; those between that are maps
    /// have to be there too. None if there are no pages.
    pub fn last(&self) -> Option<u32> {
        self.pages.checked_sub(1).map(|index| self.number(index))
    }
}

impl PageOwner {
    /// The entry of a page that is owned like this.
    pub fn pointer_map_entry(self) -> [u8; POINTER_MAP_ENTRY_BYTES] {
        let (kind, owner) = match self {
            Self::Root => (1, 0),
            Self::Cell(page) => (3, page),
            Self::Chain(page) => (4, page),
            Self::Parent(page) => (5, page),
        };
        let [a, b, c, d] = u32::to_be_bytes(owner);
        [kind, a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page by page, as the format says it.
    fn plainly(layout: PageLayout, first: u32) -> impl Iterator<Item = u32> {
        let period = layout.usable() as u32 / 5 + 1;
        let lock = layout.lock_byte_page();
        (first..).filter(move |&page| {
            let map_here = (page - 2).is_multiple_of(period) && page != lock;
            let map_put_off = page == lock + 1 && (lock - 2).is_multiple_of(period);
            page != lock && !map_here && !map_put_off
        })
    }

    #[test]
    fn maps_and_the_lock_byte_page_are_skipped() {
        let mut put_off = 0;
        for shift in 0..8 {
            for reserved_bytes in 0..=32 {
                let layout = PageLayout::with_reserved(512 << shift, reserved_bytes).unwrap();
                let map = PointerMap::new(layout);
                let lock = layout.lock_byte_page();
                put_off += u32::from(map.is_map(lock + 1));
                let period = map.period;
                for first in [2, 3, period, period + 2, lock - 1, lock, lock + 1, lock - period] {
                    let range = map.take_range(first, 3 * period).unwrap();
                    for (index, number) in (0..3 * period).zip(plainly(layout, first)) {
                        assert_eq!(range.number(index), number, "{layout:?} from {first}");
                        let (map_page, at) = map.place(number).unwrap();
                        assert!(map.is_map(map_page) && map_page < number);
                        assert!(at + POINTER_MAP_ENTRY_BYTES <= layout.usable());
                    }
                }
                assert_eq!((map.place(1), map.place(2), map.place(lock)), (None, None, None));
            }
        }
        assert!(put_off > 0, "no layout has a map at the lock-byte page");
    }

    #[test]
    fn the_last_number_is_the_limit() {
        let map = PointerMap::new(PageLayout::new(4096).unwrap());
        assert!(map.take_range(PAGE_NUMBER_MAX - 10, 2000).is_err());
        assert!(map.take_range(PAGE_NUMBER_MAX - 10, 5).is_ok());
        assert_eq!(map.take_range(5, 0).unwrap().last(), None);
        assert_eq!(map.take_range(5, 2).unwrap().last(), Some(6));
    }
}
