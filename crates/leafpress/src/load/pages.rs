//! Finished pages to the file: numbering in order, writing in parallel.
//!
//! The one place that knows which pages a database has. Runs are appended one
//! after the other (the caller sees to that); the file's first page comes last.

use std::path::Path;
use std::time::Duration;

use leafpress_format::{
    FinishedPages, FormatError, IndexRun, IndexTree, LeafRun, PageLayout, PageNumbers, PageRange,
    PlacedLeaves, SchemaEntry, TableBuilder, finish_database,
};

use super::output::Output;
use crate::error::{Error, ErrorKind, Result};

/// Interior pages are few; they are written whenever so many bytes wait.
const FINISHED_BYTES_MAX: usize = 1 << 20;

/// The pages of a database on their way to the file.
#[derive(Debug)]
pub struct Pages {
    layout: PageLayout,
    numbers: PageNumbers,
    finished: FinishedPages,
}

/// What a finished file measures.
#[derive(Debug, Clone, Copy)]
pub struct FileSize {
    /// Pages in the file.
    pub pages: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// How long the sync took.
    pub sync: Duration,
}

impl Pages {
    pub fn new(layout: PageLayout) -> Self {
        Self { layout, numbers: PageNumbers::new(layout), finished: FinishedPages::new(layout) }
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

    /// Gives a run page numbers at once and notes where its leaves lie, to be
    /// joined later.
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

    /// Ends a table; its root page.
    pub fn end_table(&mut self, table: TableBuilder) -> Result<u32, FormatError> {
        table.finish(&mut self.numbers, &mut self.finished)
    }

    /// Ends an index or a WITHOUT ROWID table; its root page.
    pub fn end_index(&mut self, tree: IndexTree) -> Result<u32, FormatError> {
        tree.finish(&mut self.numbers, &mut self.finished)
    }

    /// Writes the interior pages that wait, if they are many.
    pub fn write_waiting(&mut self, output: &Output, path: &Path) -> Result<()> {
        if self.finished.bytes_waiting() > FINISHED_BYTES_MAX {
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
        finish_database(self.layout, entries, &mut self.numbers, &mut self.finished)
            .map_err(|error| refused(error, path))?;
        self.write_finished(output, path)?;
        let pages = u64::from(self.numbers.page_count());
        let bytes = pages * self.layout.page_bytes() as u64;
        output.set_len(bytes).map_err(|source| Error::io("write", path, source))?;
        Ok(FileSize { pages, bytes, sync: Duration::ZERO })
    }
}

/// Writes the pages of a run where they belong.
pub fn write_run(
    run: &mut LeafRun,
    range: &PageRange,
    layout: PageLayout,
    output: &Output,
    path: &Path,
) -> Result<()> {
    write_pieces(run.number(range), range, layout, output, path)
}

/// Writes numbered pages where they belong.
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
    output.write_at(bytes, offset).map_err(|source| {
        Error::io("write", path, source)
            .to_do("make room on the disk, or load to a folder on another one")
    })
}

/// A limit of SQLite's format, as an error of the load.
pub fn refused(error: FormatError, path: &Path) -> Error {
    let to_do = match error {
        FormatError::TooManyPages => "choose a larger ⟦page_size⟧",
        _ => "leave such rows out",
    };
    Error::from(ErrorKind::Destination { path: path.to_owned(), reason: error.to_string() })
        .to_do(to_do)
}
