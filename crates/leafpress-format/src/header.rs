//! The database header: the first 100 bytes of page 1.
//!
//! ```text
//! offset  size  meaning                                  here
//! 0       16    magic                                    "SQLite format 3\0"
//! 16      2     page size; 65536 is written 1
//! 18      1     write version: 1 rollback, 2 WAL         1
//! 19      1     read version                             1
//! 20      1     reserved bytes a page
//! 21      3     payload fractions                        64, 32, 32
//! 24      4     file change counter                      1
//! 28      4     pages in the file
//! 32      8     freelist: first trunk, pages             those of the front
//! 40      4     schema cookie                            1
//! 44      4     schema format                            4
//! 48      4     suggested cache size                     0
//! 52      4     largest root page (auto-vacuum)          0: no auto-vacuum
//! 56      4     text encoding: 1 is UTF-8                1
//! 60      4     user version                             0
//! 64      4     incremental vacuum                       0
//! 68      4     application id                           0
//! 72      20    reserved                                 zeros
//! 92      4     version valid for: the change counter    1
//! 96      4     version of the library that wrote it
//! ```
//!
//! Source: file format, section 1.3.

use std::ops::Range;

use crate::error::FormatError;
use crate::free::FreePages;
use crate::layout::{DATABASE_HEADER_BYTES as HEADER_BYTES, PageLayout};

/// The first bytes of each database.
pub const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Place of the size of a page.
const PAGE_SIZE: Range<usize> = 16..18;
/// Offset of the version that a program must know to write the database.
pub const WRITE_VERSION: usize = 18;
/// Offset of the version that a program must know to read it.
pub const READ_VERSION: usize = 19;
/// Place of both versions.
pub const VERSIONS: Range<usize> = 18..20;
/// Both versions of a database with a rollback journal.
pub const VERSION_ROLLBACK: u8 = 1;
/// Both versions of a database with a write-ahead log.
pub const VERSION_WAL: u8 = 2;
/// Offset of the number of reserved bytes in each page.
pub const RESERVED_BYTES: usize = 20;
const PAYLOAD_FRACTIONS: Range<usize> = 21..24;
/// Place of the number of changes of the file.
pub const CHANGE_COUNTER: Range<usize> = 24..28;
/// Place of the number of pages in the file.
pub const PAGES: Range<usize> = 28..32;
/// Place of the number of the first trunk page of the freelist.
pub const FIRST_FREE_TRUNK: Range<usize> = 32..36;
/// Place of the number of pages in the freelist.
pub const FREE_PAGES: Range<usize> = 36..40;
const SCHEMA_COOKIE: Range<usize> = 40..44;
/// Place of the version of the schema table.
pub const SCHEMA_FORMAT: Range<usize> = 44..48;
/// The newest version of the schema table: it has the serial types 8 and 9 and descending indexes.
pub const SCHEMA_FORMAT_NEWEST: u32 = 4;
const TEXT_ENCODING: Range<usize> = 56..60;
/// Place of the number of changes at which SQLite wrote the number of pages.
const VALID_FOR: Range<usize> = 92..96;
const LIBRARY_VERSION: Range<usize> = 96..100;
/// Place of the numbers by which SQLite notes who wrote last.
pub const LAST_WRITER: Range<usize> = 92..100;

/// Bumped by SQLite whenever the file changes; "version valid for" repeats it,
/// or SQLite distrusts the page count at offset 28.
const FIRST_CHANGE: u32 = 1;
const FIRST_COOKIE: u32 = 1;
const ENCODING_UTF8: u32 = 1;
/// The SQLite version that the format was checked against (3.54.1).
const WRITTEN_LIKE_VERSION: u32 = 3_054_001;

/// The size of a page in bytes, from the first bytes of a database as they stand there,
/// which may be no power of two; `None` if there are not bytes enough.
pub fn page_bytes_in(header: &[u8]) -> Option<u32> {
    let size = header.get(PAGE_SIZE)?;
    match u16::from_be_bytes([size[0], size[1]]) {
        1 => Some(65536),
        bytes => Some(u32::from(bytes)),
    }
}

/// The layout of the pages, from the header of a database.
///
/// # Errors
/// The header is cut short, or its sizes are none of a database.
pub fn layout_in(header: &[u8]) -> Result<PageLayout, FormatError> {
    let page_bytes = page_bytes_in(header).unwrap_or_default();
    PageLayout::with_reserved(page_bytes, header.get(RESERVED_BYTES).copied().unwrap_or_default())
}

/// The number at one of the places of four bytes; `None` if the header is cut short.
pub fn number_in(header: &[u8], place: Range<usize>) -> Option<u32> {
    Some(u32::from_be_bytes(header.get(place)?.try_into().ok()?))
}

/// Writes the header of a new database onto its first page.
pub(crate) fn write_database_header(
    page_1: &mut [u8],
    layout: PageLayout,
    page_count: u32,
    free: FreePages,
) {
    let page_size = if layout.page_bytes() == 65536 { 1 } else { layout.page_bytes() as u16 };
    page_1[..HEADER_BYTES].fill(0);
    page_1[..MAGIC.len()].copy_from_slice(MAGIC);
    page_1[PAGE_SIZE].copy_from_slice(&page_size.to_be_bytes());
    page_1[VERSIONS].fill(VERSION_ROLLBACK);
    page_1[RESERVED_BYTES] = layout.reserved_bytes();
    page_1[PAYLOAD_FRACTIONS].copy_from_slice(&[64, 32, 32]);
    for (place, number) in [
        (CHANGE_COUNTER, FIRST_CHANGE),
        (PAGES, page_count),
        (FIRST_FREE_TRUNK, free.first_trunk),
        (FREE_PAGES, free.pages),
        (SCHEMA_COOKIE, FIRST_COOKIE),
        (SCHEMA_FORMAT, SCHEMA_FORMAT_NEWEST),
        (TEXT_ENCODING, ENCODING_UTF8),
        (VALID_FOR, FIRST_CHANGE),
        (LIBRARY_VERSION, WRITTEN_LIKE_VERSION),
    ] {
        page_1[place].copy_from_slice(&number.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_that_was_written_is_read() {
        for page_bytes in [512, 4096, 32768, 65536] {
            let mut page = vec![0; 512];
            let layout = PageLayout::new(page_bytes).unwrap();
            write_database_header(&mut page, layout, 1, FreePages::default());
            assert_eq!(page_bytes_in(&page), Some(page_bytes));
            assert_eq!(page_bytes_in(&page[..17]), None);
        }
    }
}
