//! Rows that were pressed already, read from the file's pages.
//!
//! Rows made in memory can be read only once. If they turn out to be unsorted after some were
//! pressed, those rows are read from their pages.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use leafpress_format::{PageLayout, PlacedLeaves, TablePage, read_overflow_page};

use crate::error::{Error, Result};
use crate::load::file::pages::refused;
use crate::vfs::locks::FileHandle;

/// Calls `take` with the rowid and the record of each row of the leaves.
pub fn replay(
    path: &Path,
    layout: PageLayout,
    leaves: &PlacedLeaves,
    mut take: impl FnMut(i64, &[u8]) -> Result<()>,
) -> Result<()> {
    let malformed = |error| refused(error, path);
    let mut pages = Pages::open(path)?;
    let mut leaf_page = vec![0; layout.page_bytes()];
    let mut overflow_page = vec![0; layout.page_bytes()];
    let mut record = Vec::new();
    for number in leaves.pages() {
        pages.read(number, &mut leaf_page)?;
        let TablePage::Leaf(leaf) = TablePage::read(&leaf_page, layout).map_err(malformed)? else {
            continue;
        };
        for index in 0..leaf.rows() {
            let row = leaf.row(index).map_err(malformed)?;
            record.clear();
            record.extend_from_slice(row.local);
            let mut next = row.overflow;
            while let Some(number) = next {
                pages.read(number, &mut overflow_page)?;
                let (content, after) =
                    read_overflow_page(&overflow_page, layout).map_err(malformed)?;
                let left = row.record_bytes as usize - record.len();
                record.extend_from_slice(&content[..content.len().min(left)]);
                next = after.filter(|_| (record.len() as u64) < row.record_bytes);
            }
            take(row.rowid, &record)?;
        }
    }
    Ok(())
}

/// Pages of the file.
struct Pages<'p> {
    path: &'p Path,
    file: FileHandle,
}

impl<'p> Pages<'p> {
    fn open(path: &'p Path) -> Result<Self> {
        let file = FileHandle::open(path).map_err(|source| Error::io("read", path, source))?;
        Ok(Self { path, file })
    }

    fn read(&mut self, number: u32, page: &mut [u8]) -> Result<()> {
        let offset = (u64::from(number) - 1) * page.len() as u64;
        let read = self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.read_exact(page));
        read.map_err(|source| Error::io("read", self.path, source))
    }
}
