//! Page 1: database header and schema table. It is written last.
//!
//! The schema table is a rowid table like any other, whose root is page 1.
//! It fits that page nearly always; else page 1 becomes an interior page.

use crate::cells::{CellPage, space};
use crate::error::FormatError;
use crate::finished::FinishedPages;
use crate::free::FreePages;
use crate::header::write_database_header;
use crate::layout::{DATABASE_HEADER_BYTES, PAGE_NUMBER_BYTES, PageKind, PageLayout};
use crate::leaf::LeafRun;
use crate::numbers::PageNumbers;
use crate::record::record;
use crate::table::TableBuilder;
use crate::value::Value;
use crate::varint::{VARINT_BYTES_MAX, put_varint_before};

/// Columns of the schema table: type, name, `tbl_name`, rootpage, sql.
const SCHEMA_COLUMNS: usize = 5;

/// The kind of thing that a schema row describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaKind {
    /// A table, WITHOUT ROWID or not.
    Table,
    /// An index; those that SQLite makes for a constraint have no SQL.
    Index,
    /// A view; its root page is 0.
    View,
    /// A trigger; its root page is 0.
    Trigger,
}

/// One row of the schema table.
#[derive(Debug, Clone)]
pub struct SchemaEntry {
    /// The kind of thing that it describes.
    pub kind: SchemaKind,
    /// Its name.
    pub name: String,
    /// The table it belongs to; a table's own name.
    pub table_name: String,
    /// Root page of its B-tree, or 0.
    pub root_page: u32,
    /// The statement that made it.
    pub sql: Option<String>,
}

impl SchemaEntry {
    fn values(&self) -> [Value<'_>; SCHEMA_COLUMNS] {
        let kind = match self.kind {
            SchemaKind::Table => "table",
            SchemaKind::Index => "index",
            SchemaKind::View => "view",
            SchemaKind::Trigger => "trigger",
        };
        [
            kind.into(),
            self.name.as_str().into(),
            self.table_name.as_str().into(),
            i64::from(self.root_page).into(),
            self.sql.as_deref().map_or(Value::Null, Value::from),
        ]
    }
}

/// Ends a new database: adds the schema's pages and, as the last, page 1.
///
/// # Errors
///
/// [`FormatError::RecordTooLong`], [`FormatError::TooManyPages`].
pub fn finish_database(
    layout: PageLayout,
    entries: &[SchemaEntry],
    numbers: &mut PageNumbers,
    finished: &mut FinishedPages,
) -> Result<(), FormatError> {
    let mut page_1 = press_schema(layout, entries, numbers, finished)?;
    let free = FreePages::write(layout, numbers.free_front(), finished);
    write_database_header(&mut page_1, layout, numbers.page_count(), free);
    finished.add(1).copy_from_slice(&page_1);
    Ok(())
}

/// Adds the schema's pages and returns page 1, which lacks the header.
pub(crate) fn press_schema(
    layout: PageLayout,
    entries: &[SchemaEntry],
    numbers: &mut PageNumbers,
    finished: &mut FinishedPages,
) -> Result<Vec<u8>, FormatError> {
    let mut page_1 = vec![0; layout.page_bytes()];
    let records: Vec<Vec<u8>> = entries.iter().map(|entry| record(&entry.values())).collect();
    if fit_on_page_1(&records, layout) {
        let mut cells = CellPage::new(PageKind::TableLeaf);
        for (rowid, record) in (1..).zip(&records) {
            cells.push(&table_cell(rowid, record, layout, numbers, finished)?);
        }
        cells.write(layout, &mut page_1, DATABASE_HEADER_BYTES, 0);
    } else {
        let mut run = LeafRun::new(layout, SCHEMA_COLUMNS);
        for (rowid, entry) in (1..).zip(entries) {
            run.push_values(rowid, &entry.values())?;
        }
        run.close();
        let mut table = TableBuilder::new(layout);
        // Interior pages that become full meanwhile come after the leaves.
        let mut interior = FinishedPages::new(layout);
        let range = table.append(&run, numbers, &mut interior)?;
        for (first, pages) in range.pieces(run.number(&range), layout) {
            finished.add_all(first, pages);
        }
        for (first, pages) in interior.pieces() {
            finished.add_all(first, pages);
        }
        table.finish_on_page_1(&mut page_1, numbers, finished)?;
    }
    Ok(page_1)
}

fn fit_on_page_1(records: &[Vec<u8>], layout: PageLayout) -> bool {
    // A rowid takes two bytes at most here: more rows do not fit a page.
    let prefix_bytes_max = VARINT_BYTES_MAX + 2;
    let used: usize = records
        .iter()
        .map(|record| {
            let local_bytes = layout.local_bytes(PageKind::TableLeaf, record.len());
            space(prefix_bytes_max + local_bytes + PAGE_NUMBER_BYTES)
        })
        .sum();
    DATABASE_HEADER_BYTES + PageKind::TableLeaf.header_bytes() + used <= layout.usable()
}

/// A table leaf cell; overflow pages are finished at once.
fn table_cell(
    rowid: u64,
    record: &[u8],
    layout: PageLayout,
    numbers: &mut PageNumbers,
    finished: &mut FinishedPages,
) -> Result<Vec<u8>, FormatError> {
    let mut prefix = [0; 2 * VARINT_BYTES_MAX];
    let at = put_varint_before(&mut prefix, 2 * VARINT_BYTES_MAX, rowid);
    let at = put_varint_before(&mut prefix, at, record.len() as u64);
    let (local, rest) = record.split_at(layout.local_bytes(PageKind::TableLeaf, record.len()));
    let mut cell = [&prefix[at..], local].concat();
    if !rest.is_empty() {
        let first = finish_overflow(rest, layout, numbers, finished)?;
        cell.extend_from_slice(&first.to_be_bytes());
    }
    Ok(cell)
}

/// Puts the rest of a payload on a chain of overflow pages; returns the first.
fn finish_overflow(
    rest: &[u8],
    layout: PageLayout,
    numbers: &mut PageNumbers,
    finished: &mut FinishedPages,
) -> Result<u32, FormatError> {
    let pages = rest.len().div_ceil(layout.overflow_bytes()) as u32;
    let range = numbers.take_range(pages)?;
    for (index, content) in (0..pages).zip(rest.chunks(layout.overflow_bytes())) {
        let next = if index + 1 < pages { range.number(index + 1) } else { 0 };
        let page = finished.add(range.number(index));
        page[..PAGE_NUMBER_BYTES].copy_from_slice(&next.to_be_bytes());
        page[PAGE_NUMBER_BYTES..PAGE_NUMBER_BYTES + content.len()].copy_from_slice(content);
    }
    Ok(range.number(0))
}
