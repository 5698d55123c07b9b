//! Table pages, read again. A leaf gives its rows, an interior page its children.
//!
//! Purpose: an index on an existing table is made of the table's records. Reading them from the
//! pages is faster than asking SQLite for each row.
//!
//! Must never: panic, whatever the bytes are. Other programs wrote the files that pages come
//! from; bytes that are not a page are [`FormatError::MalformedPage`].
//!
//! Place: beside `relocate.rs`, which changes pages; `entry.rs` reads the records. The bytes
//! are drawn in `layout.rs`. Page 1, which begins with the database header, is no page of a
//! user's table.

use crate::error::FormatError;
use crate::layout::{PAGE_NUMBER_BYTES, POINTER_BYTES, PageKind, PageLayout, offset};
use crate::varint::read_varint;

/// The rows of a table leaf, in the order of their rowids.
#[derive(Debug, Clone, Copy)]
pub struct TableLeaf<'p> {
    /// The page, without its reserved bytes.
    usable: &'p [u8],
    layout: PageLayout,
    rows: usize,
}

/// A row as it lies in a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableRow<'p> {
    /// Its rowid.
    pub rowid: i64,
    /// The length of its whole record.
    pub record_bytes: u64,
    /// The record, or its beginning if the rest is on overflow pages.
    pub local: &'p [u8],
    /// The first overflow page of the record; `None` if the record ends in the leaf.
    pub overflow: Option<u32>,
}

/// A page of a table's tree.
#[derive(Debug, Clone)]
pub enum TablePage<'p> {
    /// A leaf.
    Leaf(TableLeaf<'p>),
    /// The children of an interior page, in their order.
    Interior(Vec<u32>),
}

impl<'p> TablePage<'p> {
    /// Reads a page of a table's tree.
    ///
    /// # Errors
    ///
    /// [`FormatError::MalformedPage`] if it is none.
    pub fn read(page: &'p [u8], layout: PageLayout) -> Result<Self, FormatError> {
        let malformed = FormatError::MalformedPage;
        if page.len() != layout.page_bytes() {
            return Err(malformed);
        }
        let usable = &page[..layout.usable()];
        let cells = usize::from(be16(usable, offset::CELL_COUNT).ok_or(malformed)?);
        if usable[offset::KIND] == PageKind::TableLeaf as u8 {
            return Ok(Self::Leaf(TableLeaf { usable, layout, rows: cells }));
        }
        if usable[offset::KIND] != PageKind::TableInterior as u8 {
            return Err(malformed);
        }
        children(usable).map(Self::Interior)
    }
}

/// The children of an interior page of a table or an index, in their order; of a leaf none.
///
/// # Errors
///
/// [`FormatError::MalformedPage`] if the page is neither.
pub fn children(page: &[u8]) -> Result<Vec<u32>, FormatError> {
    find_children(page).ok_or(FormatError::MalformedPage)
}

fn find_children(page: &[u8]) -> Option<Vec<u32>> {
    let kind = PageKind::of(*page.get(offset::KIND)?)?;
    if kind.header_bytes() != offset::INTERIOR_END {
        return Some(Vec::new());
    }
    let cells = usize::from(be16(page, offset::CELL_COUNT)?);
    let child_at = |index| {
        let pointer_at = offset::INTERIOR_END + index * POINTER_BYTES;
        be32(page, usize::from(be16(page, pointer_at)?))
    };
    (0..cells).map(child_at).chain([be32(page, offset::RIGHT_CHILD)]).collect()
}

impl<'p> TableLeaf<'p> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A row, by its place in the leaf.
    ///
    /// # Errors
    ///
    /// [`FormatError::MalformedPage`] if there is none.
    #[inline]
    pub fn row(&self, index: usize) -> Result<TableRow<'p>, FormatError> {
        self.find_row(index).ok_or(FormatError::MalformedPage)
    }

    #[inline]
    fn find_row(&self, index: usize) -> Option<TableRow<'p>> {
        if index >= self.rows {
            return None;
        }
        let at = be16(self.usable, offset::LEAF_END + index * POINTER_BYTES)?;
        let cell = self.usable.get(usize::from(at)..)?;
        let (record_bytes, length_bytes) = read_varint(cell)?;
        let cell = &cell[length_bytes..];
        let (rowid, rowid_bytes) = read_varint(cell)?;
        let cell = &cell[rowid_bytes..];
        let whole_bytes = usize::try_from(record_bytes).ok()?;
        let local_bytes = self.layout.local_bytes(PageKind::TableLeaf, whole_bytes);
        let local = cell.get(..local_bytes)?;
        let overflow =
            if local_bytes < whole_bytes { Some(be32(cell, local_bytes)?) } else { None };
        Some(TableRow { rowid: rowid as i64, record_bytes, local, overflow })
    }
}

/// The content of an overflow page, and the page after it, if one is.
///
/// # Errors
///
/// [`FormatError::MalformedPage`] if the page is too short.
pub fn read_overflow_page(
    page: &[u8],
    layout: PageLayout,
) -> Result<(&[u8], Option<u32>), FormatError> {
    let usable = page.get(..layout.usable()).ok_or(FormatError::MalformedPage)?;
    let next = be32(usable, 0).ok_or(FormatError::MalformedPage)?;
    Ok((&usable[PAGE_NUMBER_BYTES..], (next != 0).then_some(next)))
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

#[inline]
fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FinishedPages, LeafRun, PageNumbers, TableBuilder, Value};
    use proptest::prelude::*;

    /// Presses rows into a table; gives back all pages and the root.
    fn pressed(layout: PageLayout, rows: &[(i64, Vec<u8>)]) -> (Vec<u8>, u32) {
        let mut numbers = PageNumbers::new(layout);
        let mut finished = FinishedPages::new(layout);
        let mut file = vec![0; layout.page_bytes()];
        let mut table = TableBuilder::new(layout);
        let mut run = LeafRun::new(layout, 1);
        for (rowid, blob) in rows {
            run.push_values(*rowid, &[Value::Blob(blob)]).unwrap();
        }
        run.close();
        let range = table.append(&run, &mut numbers, &mut finished).unwrap();
        for (first, pages) in range.pieces(run.number(&range), layout) {
            put(&mut file, layout, first, pages);
        }
        let root = table.finish(&mut numbers, &mut finished).unwrap();
        for (first, pages) in finished.pieces() {
            put(&mut file, layout, first, pages);
        }
        (file, root)
    }

    fn put(file: &mut Vec<u8>, layout: PageLayout, first: u32, pages: &[u8]) {
        let at = (first as usize - 1) * layout.page_bytes();
        file.resize(file.len().max(at + pages.len()), 0);
        file[at..at + pages.len()].copy_from_slice(pages);
    }

    fn page(file: &[u8], layout: PageLayout, number: u32) -> &[u8] {
        &file[(number as usize - 1) * layout.page_bytes()..][..layout.page_bytes()]
    }

    fn read(file: &[u8], layout: PageLayout, number: u32, rows: &mut Vec<(i64, Vec<u8>)>) {
        let leaf = match TablePage::read(page(file, layout, number), layout).unwrap() {
            TablePage::Leaf(leaf) => leaf,
            TablePage::Interior(children) => {
                for child in children {
                    read(file, layout, child, rows);
                }
                return;
            }
        };
        for index in 0..leaf.rows() {
            let row = leaf.row(index).unwrap();
            let mut record = row.local.to_vec();
            let mut overflow = row.overflow;
            while let Some(number) = overflow {
                let (content, next) =
                    read_overflow_page(page(file, layout, number), layout).unwrap();
                record.extend_from_slice(content);
                overflow = next;
            }
            assert!(record.len() as u64 >= row.record_bytes);
            record.truncate(row.record_bytes as usize);
            let mut columns = crate::RecordColumns::new();
            assert_eq!(columns.parse(&record), 1);
            let Value::Blob(blob) = columns.value(&record, 0) else { panic!("not a blob") };
            rows.push((row.rowid, blob.to_vec()));
        }
    }

    proptest! {
        #[test]
        fn pressed_rows_are_read_back(
            lengths in prop::collection::vec(
                prop_oneof![4 => 0..30_usize, 1 => 400..2000_usize], 0..200),
            first_rowid in prop_oneof![Just(1), Just(-50), Just(1 << 40)],
            page_bytes in prop_oneof![Just(512_u32), Just(4096), Just(65536)],
            reserved in prop_oneof![Just(0_u8), Just(32)],
        ) {
            let layout = PageLayout::with_reserved(page_bytes, reserved).unwrap();
            let rows: Vec<(i64, Vec<u8>)> = (first_rowid..)
                .zip(lengths.iter().map(|&length| (0..length).map(|at| at as u8).collect()))
                .collect();
            let (file, root) = pressed(layout, &rows);
            let mut found = Vec::new();
            read(&file, layout, root, &mut found);
            prop_assert_eq!(found, rows);
        }

        #[test]
        fn no_page_makes_it_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 512),
            kind in prop_oneof![Just(5_u8), Just(13), any::<u8>()],
        ) {
            let layout = PageLayout::new(512).unwrap();
            bytes[0] = kind;
            bytes[3] = 0;
            if let Ok(TablePage::Leaf(leaf)) = TablePage::read(&bytes, layout) {
                for index in 0..=leaf.rows() {
                    let _ = leaf.row(index);
                }
                prop_assert!(leaf.row(leaf.rows()).is_err());
            }
        }
    }
}
