//! Page numbers within finished pages, for moving a tree into another file.
//!
//! A B-tree page names other pages in three places: the left child of each
//! interior cell, the right-most child, and the first overflow page of a cell
//! whose payload spills; an overflow page names the next of its chain. All of
//! them are shown to the caller, who puts other numbers in their place.
//!
//! Must never: panic on a page that is not one. Pages come from files.
//!
//! Source: file format, sections 1.5 and 1.6; the bytes are drawn in `layout.rs`.

use crate::error::FormatError;
use crate::layout::{
    DATABASE_HEADER_BYTES, PAGE_NUMBER_BYTES, POINTER_BYTES, PageKind, PageLayout, offset,
};
use crate::varint::VARINT_BYTES_MAX;

/// A page number that stands in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePointer {
    /// A child of an interior page.
    Child(u32),
    /// The first overflow page of a cell.
    Overflow(u32),
}

/// What a B-tree page holds, as far as it matters to whoever moves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreePage {
    /// Its kind.
    pub kind: PageKind,
    /// Its cells.
    pub cells: u32,
}

/// Puts `renumber` of each page number that a B-tree page holds in its place,
/// in the order of the cells, the right-most child last. The page is called
/// `number` in its file: on the first page the database header comes before.
///
/// # Errors
///
/// [`FormatError::MalformedPage`] if this is not a B-tree page of that layout;
/// some numbers may have been changed then.
pub fn relocate_tree_page(
    page: &mut [u8],
    number: u32,
    layout: PageLayout,
    mut renumber: impl FnMut(PagePointer) -> u32,
) -> Result<TreePage, FormatError> {
    let header_at = if number == 1 { DATABASE_HEADER_BYTES } else { 0 };
    let tree_page = TreePage::read(page, header_at, layout)?;
    let kind = tree_page.kind;
    let is_interior = matches!(kind, PageKind::TableInterior | PageKind::IndexInterior);
    let pointers_at = header_at + kind.header_bytes();
    let content_min = pointers_at + tree_page.cells as usize * POINTER_BYTES;
    for index in 0..tree_page.cells as usize {
        let pointer_at = pointers_at + index * POINTER_BYTES;
        let mut at = usize::from(u16::from_be_bytes([page[pointer_at], page[pointer_at + 1]]));
        if at < content_min {
            return Err(FormatError::MalformedPage);
        }
        if is_interior {
            put_renumbered(page, layout, at, |child| renumber(PagePointer::Child(child)))?;
            at += PAGE_NUMBER_BYTES;
        }
        if kind != PageKind::TableInterior
            && let Some(overflow_at) = overflow_pointer_at(page, layout, kind, at)?
        {
            put_renumbered(page, layout, overflow_at, |first| {
                renumber(PagePointer::Overflow(first))
            })?;
        }
    }
    if is_interior {
        put_renumbered(page, layout, header_at + offset::RIGHT_CHILD, |child| {
            renumber(PagePointer::Child(child))
        })?;
    }
    Ok(tree_page)
}

/// Puts `renumber` of the next page of the chain in its place, unless an
/// overflow page is the chain's last.
///
/// # Errors
///
/// [`FormatError::MalformedPage`] if the page is too short.
pub fn relocate_overflow_page(
    page: &mut [u8],
    layout: PageLayout,
    renumber: impl FnOnce(u32) -> u32,
) -> Result<(), FormatError> {
    if page.get(..PAGE_NUMBER_BYTES) == Some(&[0; PAGE_NUMBER_BYTES]) {
        return Ok(());
    }
    put_renumbered(page, layout, 0, renumber)
}

impl TreePage {
    fn read(page: &[u8], header_at: usize, layout: PageLayout) -> Result<Self, FormatError> {
        if page.len() != layout.page_bytes() {
            return Err(FormatError::MalformedPage);
        }
        let kind = match page[header_at + offset::KIND] {
            2 => PageKind::IndexInterior,
            5 => PageKind::TableInterior,
            10 => PageKind::IndexLeaf,
            13 => PageKind::TableLeaf,
            _ => return Err(FormatError::MalformedPage),
        };
        let cells_at = header_at + offset::CELL_COUNT;
        let cells = u16::from_be_bytes([page[cells_at], page[cells_at + 1]]);
        if header_at + kind.header_bytes() + usize::from(cells) * POINTER_BYTES > layout.usable() {
            return Err(FormatError::MalformedPage);
        }
        Ok(Self { kind, cells: cells.into() })
    }
}

/// Where the overflow pointer of the cell is whose payload length is at `at`;
/// `None` if the payload does not spill.
fn overflow_pointer_at(
    page: &[u8],
    layout: PageLayout,
    kind: PageKind,
    at: usize,
) -> Result<Option<usize>, FormatError> {
    let (payload_bytes, mut at) = read_varint(page, at)?;
    if kind == PageKind::TableLeaf {
        at = read_varint(page, at)?.1;
    }
    let payload_bytes = usize::try_from(payload_bytes).map_err(|_| FormatError::MalformedPage)?;
    let local_bytes = layout.local_bytes(kind, payload_bytes);
    Ok((local_bytes < payload_bytes).then_some(at + local_bytes))
}

fn put_renumbered(
    page: &mut [u8],
    layout: PageLayout,
    at: usize,
    renumber: impl FnOnce(u32) -> u32,
) -> Result<(), FormatError> {
    let bytes = page
        .get_mut(..layout.usable())
        .and_then(|usable| usable.get_mut(at..)?.first_chunk_mut::<PAGE_NUMBER_BYTES>())
        .ok_or(FormatError::MalformedPage)?;
    *bytes = renumber(u32::from_be_bytes(*bytes)).to_be_bytes();
    Ok(())
}

/// A varint's value, and where it ends.
fn read_varint(page: &[u8], at: usize) -> Result<(u64, usize), FormatError> {
    let mut value = 0;
    for (index, &byte) in page.iter().skip(at).take(VARINT_BYTES_MAX).enumerate() {
        if index == VARINT_BYTES_MAX - 1 {
            return Ok((value << 8 | u64::from(byte), at + VARINT_BYTES_MAX));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Ok((value, at + index + 1));
        }
    }
    Err(FormatError::MalformedPage)
}

/// Which page numbers are free for new pages at the end of a database.
///
/// Invariants:
/// 1. [`number`](Self::number) ascends with the rank.
/// 2. It never gives the lock-byte page, nor, with auto-vacuum, a page of the
///    pointer map (file format, section 1.8).
#[derive(Debug, Clone, Copy)]
pub struct NewPages {
    pages_before: u32,
    lock_byte_page: u32,
    /// Pages from one page of the pointer map to the next, if there is a map.
    map_spacing: Option<u32>,
}

impl NewPages {
    /// The pages behind the first `pages_before` of a database, which has a
    /// pointer map if `auto_vacuum`.
    pub const fn after(layout: PageLayout, pages_before: u32, auto_vacuum: bool) -> Self {
        let map_spacing = if auto_vacuum { Some(entries_per_map_page(layout) + 1) } else { None };
        Self { pages_before, lock_byte_page: layout.lock_byte_page(), map_spacing }
    }

    /// The number of the new page of this rank, counted from 0.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooManyPages`].
    pub fn number(&self, rank: u32) -> Result<u32, FormatError> {
        let wanted = u64::from(self.pages_before) + u64::from(rank) + 1;
        let skipped_before = self.reserved_up_to(u64::from(self.pages_before));
        let mut number = wanted;
        loop {
            let next = wanted + self.reserved_up_to(number) - skipped_before;
            if next == number {
                break;
            }
            number = next;
        }
        match u32::try_from(number) {
            Ok(number) if number <= crate::error::PAGE_NUMBER_MAX => Ok(number),
            _ => Err(FormatError::TooManyPages),
        }
    }

    /// Whether a page of this number holds the pointer map.
    pub fn is_map_page(&self, number: u32) -> bool {
        self.map_page_of(number) == Some(number)
    }

    /// The page of the pointer map that has the entry of this page.
    pub fn map_page_of(&self, number: u32) -> Option<u32> {
        let spacing = self.map_spacing?;
        let page = number.checked_sub(2)? / spacing * spacing + 2;
        Some(if page == self.lock_byte_page { page + 1 } else { page })
    }

    /// How many numbers up to this one are not for pages of trees.
    fn reserved_up_to(&self, number: u64) -> u64 {
        let lock_byte_page = u64::from(self.lock_byte_page);
        let locked = u64::from(number >= lock_byte_page);
        let Some(spacing) = self.map_spacing.map(u64::from) else { return locked };
        if number < 2 {
            return locked;
        }
        let maps = (number - 2) / spacing + 1;
        // A map page that would be the lock-byte page is the one behind it.
        let is_shifted = (lock_byte_page - 2).is_multiple_of(spacing);
        maps + locked - u64::from(is_shifted && number == lock_byte_page)
    }
}

/// Bytes of an entry in the pointer map: a kind, and a page number.
pub const MAP_ENTRY_BYTES: usize = 5;

/// Entries that a page of the pointer map has.
pub const fn entries_per_map_page(layout: PageLayout) -> u32 {
    (layout.usable() / MAP_ENTRY_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u32; 4] = [512, 1024, 4096, 65536];

    /// SQLite's own rule for the page of the pointer map of a page, one by one.
    fn is_reserved(layout: PageLayout, auto_vacuum: bool, number: u32) -> bool {
        let lock = layout.lock_byte_page();
        if number == lock {
            return true;
        }
        let spacing = layout.usable() as u32 / 5 + 1;
        let mut map_page = (number - 2) / spacing * spacing + 2;
        if map_page == lock {
            map_page += 1;
        }
        auto_vacuum && map_page == number
    }

    #[test]
    fn new_pages_skip_what_is_not_for_trees() {
        for bytes in SIZES {
            let layout = PageLayout::new(bytes).unwrap();
            for auto_vacuum in [false, true] {
                for before in [1, 3, 102, 1000, layout.lock_byte_page() - 900] {
                    let new_pages = NewPages::after(layout, before, auto_vacuum);
                    let mut expected =
                        (before + 1..).filter(|&number| !is_reserved(layout, auto_vacuum, number));
                    for rank in 0..2500 {
                        assert_eq!(new_pages.number(rank).ok(), expected.next());
                    }
                }
            }
        }
    }

    #[test]
    fn a_shifted_map_page_is_skipped_too() {
        // 155 pages from one map page to the next, and the lock-byte page would be one.
        let layout = PageLayout::with_reserved(1024, 250).unwrap();
        assert_eq!((layout.lock_byte_page() - 2) % (entries_per_map_page(layout) + 1), 0);
        let lock = layout.lock_byte_page();
        let new_pages = NewPages::after(layout, lock - 2, true);
        assert_eq!([new_pages.number(0), new_pages.number(1)], [Ok(lock - 1), Ok(lock + 2)]);
        assert!(new_pages.is_map_page(lock + 1) && !new_pages.is_map_page(lock));
    }

    #[test]
    fn numbers_beyond_the_last_are_refused() {
        let layout = PageLayout::new(512).unwrap();
        let new_pages = NewPages::after(layout, u32::MAX - 3, false);
        assert_eq!(new_pages.number(0), Ok(u32::MAX - 2));
        assert_eq!(new_pages.number(2), Err(FormatError::TooManyPages));
    }

    #[test]
    fn every_pointer_is_shown_and_changed() {
        let layout = PageLayout::new(512).unwrap();
        let mut page = vec![0; 512];
        // An index interior page: one cell whose payload of 600 bytes spills.
        page[..12].copy_from_slice(&[2, 0, 0, 0, 1, 1, 0x2c, 0, 0, 0, 0, 9]);
        page[12..14].copy_from_slice(&300_u16.to_be_bytes());
        page[300..306].copy_from_slice(&[0, 0, 0, 7, 0x84, 0x58]);
        let overflow_at = 306 + layout.local_bytes(PageKind::IndexInterior, 600);
        page[overflow_at..overflow_at + 4].copy_from_slice(&8_u32.to_be_bytes());
        let mut seen = Vec::new();
        let tree_page = relocate_tree_page(&mut page, 2, layout, |pointer| {
            seen.push(pointer);
            100
        });
        assert_eq!(tree_page, Ok(TreePage { kind: PageKind::IndexInterior, cells: 1 }));
        let expected = [PagePointer::Child(7), PagePointer::Overflow(8), PagePointer::Child(9)];
        assert_eq!(seen, expected);
        for at in [8, 300, overflow_at] {
            assert_eq!(page[at..at + 4], [0, 0, 0, 100]);
        }
    }

    #[test]
    fn what_is_no_page_is_refused_without_a_panic() {
        let layout = PageLayout::new(512).unwrap();
        let mut state = 1_u64;
        let mut refused = 0;
        for round in 0..20_000 {
            let mut page: Vec<u8> = (0..512)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) as u8
                })
                .collect();
            page[0] = [2, 5, 10, 13, 0][round % 5];
            for at in [3, 103] {
                page[at] = 0;
                page[at + 1] %= 8;
            }
            page[100] = page[0];
            refused += usize::from(
                relocate_tree_page(&mut page, round as u32 % 2 + 1, layout, |_| 1).is_err(),
            );
        }
        assert!(refused > 4000, "{refused}");
        assert!(relocate_tree_page(&mut [13; 100], 2, layout, |_| 1).is_err());
        assert!(relocate_overflow_page(&mut [], layout, |_| 1).is_err());
    }
}
