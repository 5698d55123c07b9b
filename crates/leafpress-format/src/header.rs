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

use crate::free::FreePages;
use crate::layout::{DATABASE_HEADER_BYTES, PageLayout};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Bumped by SQLite whenever the file changes; "version valid for" repeats it,
/// or SQLite distrusts the page count at offset 28.
const CHANGE_COUNTER: u32 = 1;
const SCHEMA_COOKIE: u32 = 1;
/// Format 4 has the serial types 8 and 9 and descending indexes.
const SCHEMA_FORMAT: u32 = 4;
const ENCODING_UTF8: u32 = 1;
/// The SQLite version that the format was checked against (3.54.1).
const WRITTEN_LIKE_VERSION: u32 = 3_054_001;

/// The size of a page in bytes, from the first bytes of a database as they stand there,
/// which may be no power of two; `None` if there are not bytes enough.
pub fn page_bytes_in(header: &[u8]) -> Option<u32> {
    let size = header.get(16..18)?;
    match u16::from_be_bytes([size[0], size[1]]) {
        1 => Some(65536),
        bytes => Some(u32::from(bytes)),
    }
}

/// Writes the header of a new database onto its first page.
pub(crate) fn write_database_header(
    page_1: &mut [u8],
    layout: PageLayout,
    page_count: u32,
    free: FreePages,
) {
    let mut put = |at: usize, bytes: &[u8]| page_1[at..at + bytes.len()].copy_from_slice(bytes);
    let page_size = if layout.page_bytes() == 65536 { 1 } else { layout.page_bytes() as u16 };
    put(0, &[0; DATABASE_HEADER_BYTES]);
    put(0, MAGIC);
    put(16, &page_size.to_be_bytes());
    put(18, &[1, 1, layout.reserved_bytes(), 64, 32, 32]);
    put(24, &CHANGE_COUNTER.to_be_bytes());
    put(28, &page_count.to_be_bytes());
    put(32, &free.first_trunk.to_be_bytes());
    put(36, &free.pages.to_be_bytes());
    put(40, &SCHEMA_COOKIE.to_be_bytes());
    put(44, &SCHEMA_FORMAT.to_be_bytes());
    put(56, &ENCODING_UTF8.to_be_bytes());
    put(92, &CHANGE_COUNTER.to_be_bytes());
    put(96, &WRITTEN_LIKE_VERSION.to_be_bytes());
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
