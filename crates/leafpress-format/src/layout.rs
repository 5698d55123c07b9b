//! The bytes of a B-tree page, drawn once. Everything else points here.
//!
//! ```text
//! page   ┌──────────────┬────────────────┬───────────┬──────────────┬──────────┐
//!        │ page header  │ cell pointers  │ zeros     │ cell content │ reserved │
//!        └──────────────┴────────────────┴───────────┴──────────────┴──────────┘
//!        0 (page 1: 100)                              ^ content start  ^ usable
//!
//! page header   offset  size  meaning
//!               0       1     kind: 2 index interior, 5 table interior,
//!                             10 index leaf, 13 table leaf
//!               1       2     first free block: always 0 here
//!               3       2     number of cells
//!               5       2     content start; 65536 is written 0
//!               7       1     fragmented free bytes: always 0 here
//!               8       4     right-most child (interior pages only)
//!
//! cells         table leaf       payload length, rowid, payload, [overflow page]
//!               table interior   left child (4), rowid
//!               index leaf       payload length, payload, [overflow page]
//!               index interior   left child (4), payload length, payload, [overflow page]
//!
//! overflow page offset 0 (4): next page of the chain or 0; then content
//! ```
//!
//! Source: "Database File Format" of the SQLite project, sections 1.4 to 1.7.
//! Lengths and rowids are varints, other numbers big-endian.

use crate::error::FormatError;

/// The database header fills the first bytes of page 1.
pub const DATABASE_HEADER_BYTES: usize = 100;

/// Offsets within a page header; each follows from the one before.
pub(crate) mod offset {
    pub const KIND: usize = 0;
    pub const FIRST_FREE_BLOCK: usize = KIND + 1;
    pub const CELL_COUNT: usize = FIRST_FREE_BLOCK + 2;
    pub const CONTENT_START: usize = CELL_COUNT + 2;
    pub const FRAGMENTED: usize = CONTENT_START + 2;
    pub const LEAF_END: usize = FRAGMENTED + 1;
    pub const RIGHT_CHILD: usize = LEAF_END;
    pub const INTERIOR_END: usize = RIGHT_CHILD + 4;
}
const _: () = assert!(offset::LEAF_END == 8 && offset::INTERIOR_END == 12);

/// A cell pointer's size.
pub(crate) const POINTER_BYTES: usize = 2;
/// A page number's size.
pub(crate) const PAGE_NUMBER_BYTES: usize = 4;
/// SQLite gives no cell less than this, as a freed one must hold a free block.
pub(crate) const CELL_BYTES_MIN: usize = 4;

/// The kind of a B-tree page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Separator records and the pages between them.
    IndexInterior = 2,
    /// Rowids and the pages up to them.
    TableInterior = 5,
    /// Records in key order.
    IndexLeaf = 10,
    /// Rows in rowid order.
    TableLeaf = 13,
}

impl PageKind {
    /// The kind that the first byte of a page names.
    pub(crate) fn of(byte: u8) -> Option<Self> {
        [Self::TableLeaf, Self::IndexLeaf, Self::TableInterior, Self::IndexInterior]
            .into_iter()
            .find(|&kind| kind as u8 == byte)
    }

    /// Size of the page header.
    pub(crate) const fn header_bytes(self) -> usize {
        match self {
            Self::IndexInterior | Self::TableInterior => offset::INTERIOR_END,
            Self::IndexLeaf | Self::TableLeaf => offset::LEAF_END,
        }
    }
}

/// Page size and reserved bytes: everything that decides how much fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    page_bytes: u32,
    reserved_bytes: u8,
}

impl PageLayout {
    /// A layout without reserved bytes.
    ///
    /// # Errors
    ///
    /// [`FormatError::PageSize`] unless it is a power of two from 512 to 65536.
    pub const fn new(page_bytes: u32) -> Result<Self, FormatError> {
        Self::with_reserved(page_bytes, 0)
    }

    /// A layout whose pages end in `reserved_bytes` that some extension owns.
    ///
    /// # Errors
    ///
    /// [`FormatError::PageSize`] also if less than 480 bytes stay usable,
    /// the least that SQLite opens.
    pub const fn with_reserved(page_bytes: u32, reserved_bytes: u8) -> Result<Self, FormatError> {
        let layout = Self { page_bytes, reserved_bytes };
        if page_bytes.is_power_of_two()
            && page_bytes >= 512
            && page_bytes <= 65536
            && layout.usable() >= 480
        {
            Ok(layout)
        } else {
            Err(FormatError::PageSize { bytes: page_bytes })
        }
    }

    /// The page size in bytes.
    #[inline]
    pub const fn page_bytes(self) -> usize {
        self.page_bytes as usize
    }

    /// Bytes at the end of each page that are not ours.
    pub const fn reserved_bytes(self) -> u8 {
        self.reserved_bytes
    }

    /// U of the format document: the page without its reserved bytes.
    #[inline]
    pub const fn usable(self) -> usize {
        (self.page_bytes - self.reserved_bytes as u32) as usize
    }

    /// X: the longest payload that a cell holds whole.
    pub(crate) const fn local_bytes_max(self, kind: PageKind) -> usize {
        match kind {
            PageKind::TableLeaf => self.usable() - 35,
            _ => (self.usable() - 12) * 64 / 255 - 23,
        }
    }

    /// Number of bytes of a payload that stay in its cell; the rest goes to overflow pages.
    ///
    /// Section 1.6: all of it up to X; else K = M + (P − M) mod (U − 4) where
    /// that is at most X, else M.
    pub(crate) const fn local_bytes(self, kind: PageKind, payload_bytes: usize) -> usize {
        let max = self.local_bytes_max(kind);
        if payload_bytes <= max {
            return payload_bytes;
        }
        let min = (self.usable() - 12) * 32 / 255 - 23;
        let fitting = min + (payload_bytes - min) % self.overflow_bytes();
        if fitting <= max { fitting } else { min }
    }

    /// Number of bytes of a payload that one overflow page holds.
    pub(crate) const fn overflow_bytes(self) -> usize {
        self.usable() - PAGE_NUMBER_BYTES
    }

    /// The page that holds the byte at 1 GiB, where SQLite takes its file
    /// locks: it is never used (file format, section 1.4).
    pub const fn lock_byte_page(self) -> u32 {
        (1 << 30) / self.page_bytes + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_in_range() {
        for bytes in [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] {
            assert_eq!(PageLayout::new(bytes).unwrap().page_bytes(), bytes as usize);
        }
        for bytes in [0, 1, 256, 513, 4095, 131_072, u32::MAX] {
            assert_eq!(PageLayout::new(bytes), Err(FormatError::PageSize { bytes }));
        }
        assert!(PageLayout::with_reserved(512, 32).is_ok());
        assert!(PageLayout::with_reserved(512, 33).is_err());
    }

    /// The property that index trees are built on: a full leaf can give two cells away.
    #[test]
    fn three_index_cells_fit_any_page() {
        for shift in 0..8 {
            for reserved_bytes in 0..=255 {
                let Ok(layout) = PageLayout::with_reserved(512 << shift, reserved_bytes) else {
                    continue;
                };
                let payload_bytes_max = layout.local_bytes_max(PageKind::IndexInterior);
                let length_bytes_max = 5;
                let cell_bytes_max =
                    PAGE_NUMBER_BYTES + length_bytes_max + payload_bytes_max + PAGE_NUMBER_BYTES;
                let page_bytes = offset::INTERIOR_END + 3 * (POINTER_BYTES + cell_bytes_max);
                assert!(page_bytes <= layout.usable(), "{layout:?}");
            }
        }
    }

    #[test]
    fn thresholds_of_the_default_page() {
        let layout = PageLayout::new(4096).unwrap();
        assert_eq!(layout.local_bytes_max(PageKind::TableLeaf), 4061);
        assert_eq!(layout.local_bytes_max(PageKind::IndexLeaf), 1002);
        assert_eq!(layout.local_bytes(PageKind::TableLeaf, 4061), 4061);
        assert_eq!(layout.local_bytes(PageKind::TableLeaf, 4062), 489);
        assert_eq!(layout.lock_byte_page(), 262_145);
    }
}
