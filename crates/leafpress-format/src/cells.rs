//! Cells of index leaves and interior pages, before layout.
//!
//! Table leaves, where nearly all bytes of a load go, are written in place
//! instead (see [`crate::leaf`]). Here a page is held back until its right
//! neighbour has a cell, so it must be possible to take its last cell away.

use crate::layout::{
    CELL_BYTES_MIN, DATABASE_HEADER_BYTES, PAGE_NUMBER_BYTES, POINTER_BYTES, PageKind, PageLayout,
    offset,
};

/// The cells of one page, in key order.
///
/// Invariants:
/// 1. `used_bytes` is the sum over the cells of pointer and padded cell.
/// 2. Header and `used_bytes` never exceed the usable page.
#[derive(Debug)]
pub(crate) struct CellPage {
    kind: PageKind,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    used_bytes: usize,
}

impl CellPage {
    pub fn new(kind: PageKind) -> Self {
        Self { kind, bytes: Vec::new(), ends: Vec::new(), used_bytes: 0 }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns true if the page, beginning at `header_at`, has room for the cells and one more
    /// of `cell_bytes`.
    pub fn fits(&self, layout: PageLayout, header_at: usize, cell_bytes: usize) -> bool {
        header_at + self.kind.header_bytes() + self.used_bytes + space(cell_bytes)
            <= layout.usable()
    }

    /// Returns true if the cells fit a page that begins with the database header.
    pub fn fits_page_1(&self, layout: PageLayout) -> bool {
        DATABASE_HEADER_BYTES + self.kind.header_bytes() + self.used_bytes <= layout.usable()
    }

    /// Adds a leaf cell.
    pub fn push(&mut self, cell: &[u8]) {
        self.bytes.extend_from_slice(cell);
        self.ends.push(self.bytes.len());
        self.used_bytes += space(cell.len());
    }

    /// Adds an interior cell: the separator with the page to its left.
    pub fn push_interior(&mut self, left_child: u32, separator: &[u8]) {
        self.bytes.extend_from_slice(&left_child.to_be_bytes());
        self.bytes.extend_from_slice(separator);
        self.ends.push(self.bytes.len());
        self.used_bytes += space(PAGE_NUMBER_BYTES + separator.len());
    }

    /// Takes the last cell away.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        self.ends.pop()?;
        let start = self.ends.last().copied().unwrap_or(0);
        let cell = self.bytes.split_off(start);
        self.used_bytes -= space(cell.len());
        Some(cell)
    }

    /// Takes the last interior cell away, as left child and separator.
    pub fn pop_interior(&mut self) -> Option<(u32, Vec<u8>)> {
        self.pop().map(|mut cell| {
            let separator = cell.split_off(PAGE_NUMBER_BYTES);
            (u32::from_be_bytes([cell[0], cell[1], cell[2], cell[3]]), separator)
        })
    }

    /// Lays the cells out on a zeroed page whose page header begins at `header_at`.
    pub fn write(&self, layout: PageLayout, page: &mut [u8], header_at: usize, right_child: u32) {
        let mut pointer_at = header_at + self.kind.header_bytes();
        let mut content_at = layout.usable();
        let mut start = 0;
        for &end in &self.ends {
            let cell = &self.bytes[start..end];
            content_at -= cell.len().max(CELL_BYTES_MIN);
            page[content_at..content_at + cell.len()].copy_from_slice(cell);
            page[pointer_at..pointer_at + POINTER_BYTES]
                .copy_from_slice(&(content_at as u16).to_be_bytes());
            pointer_at += POINTER_BYTES;
            start = end;
        }
        assert!(pointer_at <= content_at, "cells overlap their pointers");
        write_page_header(&mut page[header_at..], self.kind, self.len(), content_at);
        if self.kind.header_bytes() == offset::INTERIOR_END {
            page[header_at + offset::RIGHT_CHILD..header_at + offset::INTERIOR_END]
                .copy_from_slice(&right_child.to_be_bytes());
        }
    }
}

/// A leaf of a table or an index that is being filled. Offsets are from its page's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenLeaf {
    pub page_at: usize,
    pub content_at: usize,
    pub cells: usize,
}

impl OpenLeaf {
    #[inline]
    pub fn pointers_end(self) -> usize {
        offset::LEAF_END + self.cells * POINTER_BYTES
    }

    #[inline]
    pub fn free_bytes(self) -> usize {
        self.content_at - self.pointers_end()
    }
}

/// Bytes that a cell takes on a page.
pub(crate) const fn space(cell_bytes: usize) -> usize {
    POINTER_BYTES + if cell_bytes < CELL_BYTES_MIN { CELL_BYTES_MIN } else { cell_bytes }
}

/// Writes all of a page header but the right-most child.
pub(crate) fn write_page_header(
    page: &mut [u8],
    kind: PageKind,
    cell_count: usize,
    content_at: usize,
) {
    page[offset::KIND] = kind as u8;
    page[offset::FIRST_FREE_BLOCK..offset::CELL_COUNT].fill(0);
    page[offset::CELL_COUNT..offset::CONTENT_START]
        .copy_from_slice(&(cell_count as u16).to_be_bytes());
    // 65536 does not fit its two bytes and is written 0, as the cast does.
    page[offset::CONTENT_START..offset::FRAGMENTED]
        .copy_from_slice(&(content_at as u16).to_be_bytes());
    page[offset::FRAGMENTED] = 0;
}
