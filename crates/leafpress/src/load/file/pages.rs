//! Finished pages of a database: numbered in order, written in parallel.
//!
//! Only this module knows which pages a database has. The caller appends runs one after the other;
//! the file's first page comes last.

use std::io;
use std::path::Path;
use std::time::Duration;

use leafpress_format::{
    FinishedPages, FormatError, IndexRun, IndexTree, LeafRun, PageLayout, PageNumbers, PageRange,
    PlacedLeaves, SchemaEntry, TableBuilder, finish_database,
};

use super::output::Output;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of waiting interior pages, which are few, that make the next call write them.
const FINISHED_BYTES_MAX: usize = 1 << 20;

/// Place of the two bytes in the header that tell the kind of the journal.
const JOURNAL_VERSIONS_AT: u64 = 18;
/// Their value in WAL mode.
const WAL_VERSION: u8 = 2;

/// Pages of a database that are being written.
#[derive(Debug)]
pub struct Pages {
    layout: PageLayout,
    numbers: PageNumbers,
    finished: FinishedPages,
}

/// Size of a finished file.
#[derive(Debug, Clone, Copy)]
pub struct FileSize {
    /// Number of pages in the file.
    pub pages: u64,
    /// Number of bytes in the file.
    pub bytes: u64,
    /// Duration of the sync.
    pub sync: Duration,
    /// True if the schema and all interior pages are in front.
    pub is_arranged: bool,
}

impl Pages {
    /// No pages yet. So many are kept free in front, for the schema and the interior pages.
    pub fn new(layout: PageLayout, front_pages: u32) -> Self {
        let numbers = PageNumbers::with_front(layout, front_pages);
        Self { layout, numbers, finished: FinishedPages::new(layout) }
    }

    /// Says that the pages from now on are few, and belong in front.
    pub fn put_all_in_front(&mut self) {
        self.numbers.put_all_in_front();
    }

    /// Gives the next run of a table its page numbers.
    pub fn append(
        &mut self,
        table: &mut TableBuilder,
        run: &LeafRun,
    ) -> Result<PageRange, FormatError> {
        table.append(run, &mut self.numbers, &mut self.finished)
    }

    /// Gives the next run of an index or a WITHOUT ROWID table its page numbers.
    pub fn append_entries(
        &mut self,
        tree: &mut IndexTree,
        run: &mut IndexRun,
    ) -> Result<PageRange, FormatError> {
        tree.append(run, &mut self.numbers, &mut self.finished)
    }

    /// Gives a run page numbers at once and keeps the places of its leaves, to be joined later.
    pub fn place(
        &mut self,
        run: &LeafRun,
        leaves: &mut PlacedLeaves,
    ) -> Result<PageRange, FormatError> {
        let range = run.take_numbers(&mut self.numbers)?;
        leaves.extend(run, &range)?;
        Ok(range)
    }

    /// Joins leaves that were placed before.
    pub fn join(
        &mut self,
        table: &mut TableBuilder,
        leaves: &PlacedLeaves,
    ) -> Result<(), FormatError> {
        table.join(leaves, &mut self.numbers, &mut self.finished)
    }

    /// Ends a table; returns its root page.
    pub fn end_table(&mut self, table: TableBuilder) -> Result<u32, FormatError> {
        table.finish(&mut self.numbers, &mut self.finished)
    }

    /// Ends an index or a WITHOUT ROWID table; returns its root page.
    pub fn end_index(&mut self, tree: IndexTree) -> Result<u32, FormatError> {
        tree.finish(&mut self.numbers, &mut self.finished)
    }

    /// Writes the waiting interior pages, if they are many; each at once for a listener, who waits for all
    /// pages of a piece.
    pub fn write_waiting(&mut self, output: &Output, path: &Path) -> Result<()> {
        let bytes_max = if output.has_listener() { 0 } else { FINISHED_BYTES_MAX };
        if self.finished.bytes_waiting() > bytes_max {
            self.write_finished(output, path)?;
        }
        Ok(())
    }

    fn write_finished(&mut self, output: &Output, path: &Path) -> Result<()> {
        for (first, bytes) in self.finished.pieces() {
            write_pages(output, path, self.layout, first, bytes)?;
        }
        self.finished.clear();
        Ok(())
    }

    /// Writes the schema and page 1, and cuts the file to its length.
    pub fn finish(
        mut self,
        entries: &[SchemaEntry],
        output: &Output,
        path: &Path,
    ) -> Result<FileSize> {
        self.numbers.put_all_in_front();
        finish_database(self.layout, entries, &mut self.numbers, &mut self.finished)
            .map_err(|error| refused(error, path))?;
        self.write_finished(output, path)?;
        let pages = u64::from(self.numbers.page_count());
        let bytes = pages * self.layout.page_bytes() as u64;
        output.drain().map_err(|source| not_written(path, source))?;
        output.set_len(bytes).map_err(|source| Error::io("write", path, source))?;
        let is_arranged = !self.numbers.has_spilled();
        Ok(FileSize { pages, bytes, sync: Duration::ZERO, is_arranged })
    }
}

/// Says in the header of a finished file that it is in WAL mode, and syncs it. SQLite has read the file
/// before: it would put a log beside it.
pub fn set_wal_mode(output: &Output, path: &Path) -> Result<()> {
    let written = output.write_at(&[WAL_VERSION; 2], JOURNAL_VERSIONS_AT);
    written.map_err(|source| not_written(path, source))?;
    output.drain().map_err(|source| not_written(path, source))?;
    let ((), synced) = output.sync_beside(true, || ());
    synced.map_err(|source| Error::io("sync", path, source))
}

/// Writes the pages of a run at their places; without a copy of them where they are neighbours, as
/// they nearly always are. The run is to be cleared afterwards.
pub fn write_run(
    run: &mut LeafRun,
    range: &PageRange,
    layout: PageLayout,
    output: &Output,
    path: &Path,
) -> Result<()> {
    let memory = run.number_in_memory(range);
    let first = {
        let mut pieces = range.pieces(memory.bytes(), layout);
        pieces.next().map(|(first, _)| first).filter(|_| pieces.next().is_none())
    };
    let Some(first) = first else {
        return write_pieces(memory.bytes(), range, layout, output, path);
    };
    let offset = (u64::from(first) - 1) * layout.page_bytes() as u64;
    output.write_memory(memory, offset).map_err(|source| not_written(path, source))
}

/// Writes numbered pages at their places.
pub fn write_pieces(
    pages: &[u8],
    range: &PageRange,
    layout: PageLayout,
    output: &Output,
    path: &Path,
) -> Result<()> {
    for (first, bytes) in range.pieces(pages, layout) {
        write_pages(output, path, layout, first, bytes)?;
    }
    Ok(())
}

fn write_pages(
    output: &Output,
    path: &Path,
    layout: PageLayout,
    first: u32,
    bytes: &[u8],
) -> Result<()> {
    let offset = (u64::from(first) - 1) * layout.page_bytes() as u64;
    output.write_at(bytes, offset).map_err(|source| not_written(path, source))
}

/// The error of the load for a write that failed.
pub fn not_written(path: &Path, source: io::Error) -> Error {
    Error::io("write", path, source)
        .to_do("make room on the disk, or load to a folder on another one")
}

/// The error of the load for a limit of SQLite's format.
pub fn refused(error: FormatError, path: &Path) -> Error {
    let to_do = match error {
        FormatError::TooManyPages => "choose a larger ⟦page_size⟧",
        _ => "leave such rows out",
    };
    Error::from(ErrorKind::Destination { path: path.to_owned(), reason: error.to_string() })
        .to_do(to_do)
}
