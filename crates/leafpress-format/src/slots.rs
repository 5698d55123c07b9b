//! Places in a B-tree page where the numbers of other pages stand.
//!
//! Used by what gives pages new numbers. Must never: trust the page.

use crate::layout::{PAGE_NUMBER_BYTES, POINTER_BYTES, PageKind, PageLayout, offset};
use crate::varint::read_varint;

/// A place in a page where the number of another one stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub at: usize,
    pub target: u32,
    pub is_child: bool,
    /// Bytes of the payload whose rest is in the chain that begins there; 0 for a child.
    pub payload_bytes: u64,
}

impl Slot {
    /// The slot of an overflow page with a page behind it.
    pub fn next_of_chain(target: u32) -> Self {
        Self { at: 0, target, is_child: false, payload_bytes: 0 }
    }
}

/// Finds the slots of a page of a tree that is not page 1, and says what kind it is.
///
/// This is the hot loop: leaves are many, and few have a slot.
pub(crate) fn find_slots(
    layout: PageLayout,
    page: &[u8],
    slots: &mut Vec<Slot>,
) -> Result<PageKind, &'static str> {
    slots.clear();
    let kind = PageKind::of(page[offset::KIND]).ok_or("it is no page of a tree")?;
    let page = &page[..layout.usable()];
    let cell_count = cell_count(page);
    let pointers = page[kind.header_bytes()..]
        .get(..cell_count * POINTER_BYTES)
        .ok_or("it has more cells than fit a page")?;
    let pointers_end = kind.header_bytes() + pointers.len();
    let has_children = kind.header_bytes() == offset::INTERIOR_END;
    let local_bytes_max = layout.local_bytes_max(kind) as u64;
    for pointer in pointers.chunks_exact(POINTER_BYTES) {
        let mut at = usize::from(u16::from_be_bytes([pointer[0], pointer[1]]));
        if at < pointers_end {
            return Err("a cell lies among the pointers");
        }
        if has_children {
            let target = page.get(at..).and_then(first_page_number).ok_or(BEYOND_PAGE)?;
            slots.push(Slot { at, target, is_child: true, payload_bytes: 0 });
            at += PAGE_NUMBER_BYTES;
        }
        let cell = page.get(at..).ok_or(BEYOND_PAGE)?;
        if kind == PageKind::TableInterior {
            continue;
        }
        let (payload_bytes, length_bytes) = read_varint(cell).ok_or(BEYOND_PAGE)?;
        if payload_bytes <= local_bytes_max {
            continue;
        }
        at += length_bytes;
        if kind == PageKind::TableLeaf {
            at += read_varint(&cell[length_bytes..]).ok_or(BEYOND_PAGE)?.1;
        }
        at += layout.local_bytes(kind, payload_bytes as usize);
        let target = page.get(at..).and_then(first_page_number).ok_or(BEYOND_PAGE)?;
        slots.push(Slot { at, target, is_child: false, payload_bytes });
    }
    if has_children {
        let at = offset::RIGHT_CHILD;
        slots.push(Slot { at, target: page_number(page, at), is_child: true, payload_bytes: 0 });
    }
    Ok(kind)
}

/// Number of pages of the chain of overflow pages that begins at `first`, if a cell of `page` says so.
/// `page` is any page of a database but the first.
///
/// ```
/// # use leafpress_format::{PageLayout, chain_pages};
/// assert_eq!(chain_pages(PageLayout::new(512)?, &[0; 512], 7), None);
/// # Ok::<(), leafpress_format::FormatError>(())
/// ```
pub fn chain_pages(layout: PageLayout, page: &[u8], first: u32) -> Option<u32> {
    if page.len() < layout.page_bytes() {
        return None;
    }
    let mut slots = Vec::new();
    let kind = find_slots(layout, page, &mut slots).ok()?;
    let slot = slots.iter().find(|slot| !slot.is_child && slot.target == first)?;
    chain_of(layout, kind, slot)
}

/// Number of pages of a slot's chain; `None` if no file has so many.
pub(crate) fn chain_of(layout: PageLayout, kind: PageKind, slot: &Slot) -> Option<u32> {
    let local_bytes = layout.local_bytes(kind, slot.payload_bytes as usize) as u64;
    let pages = (slot.payload_bytes - local_bytes).div_ceil(layout.overflow_bytes() as u64);
    u32::try_from(pages).ok()
}

const BEYOND_PAGE: &str = "a cell goes beyond the page's end";

/// Returns true if a page of a tree is a leaf.
pub(crate) fn is_leaf(page: &[u8]) -> bool {
    let kind = page[offset::KIND];
    kind == PageKind::IndexLeaf as u8 || kind == PageKind::TableLeaf as u8
}

/// Number of cells in a page of a tree, as it says.
pub(crate) fn cell_count(page: &[u8]) -> usize {
    let at = offset::CELL_COUNT;
    usize::from(u16::from_be_bytes([page[at], page[at + 1]]))
}

fn first_page_number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|number| u32::from_be_bytes(*number))
}

/// The page number at an offset.
pub(crate) fn page_number(page: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]])
}
