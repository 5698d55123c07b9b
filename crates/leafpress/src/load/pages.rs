//! Finished pages to the file: numbering in order, writing in parallel.
//!
//! The one place that knows which pages a database has. Runs are appended one
//! after the other (the caller sees to that); the file's first page comes last.

use std::path::Path;
use std::time::Duration;

use leafpress_format::{
    FinishedPages, FormatError, LeafRun, PageLayout, PageNumbers, PageRange, PlacedLeaves,
    SchemaEntry, SchemaKind, TableBuilder, finish_database,
};

use super::output::Output;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::TableSchema;

/// Interior pages are few; they are written whenever so many bytes wait.
const FINISHED_BYTES_MAX: usize = 1 << 20;

/// One table's pages on their way to the file.
#[derive(Debug)]
pub struct TablePages {
    layout: PageLayout,
    table: TableBuilder,
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

impl TablePages {
    pub fn new(layout: PageLayout) -> Self {
        Self {
            layout,
            table: TableBuilder::new(layout),
            numbers: PageNumbers::new(layout),
            finished: FinishedPages::new(layout),
        }
    }

    /// Gives the next run of the table its page numbers.
    pub fn append(&mut self, run: &LeafRun) -> Result<PageRange, FormatError> {
        self.table.append(run, &mut self.numbers, &mut self.finished)
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
    pub fn join(&mut self, leaves: &PlacedLeaves) -> Result<(), FormatError> {
        self.table.join(leaves, &mut self.numbers, &mut self.finished)
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

    /// Ends the table and the file, and syncs it.
    pub fn finish(
        mut self,
        schema: &TableSchema,
        output: &Output,
        path: &Path,
    ) -> Result<FileSize> {
        let table = std::mem::replace(&mut self.table, TableBuilder::new(self.layout));
        let root_page =
            table.finish(&mut self.numbers, &mut self.finished).map_err(|e| refused(e, path))?;
        let entry = SchemaEntry {
            kind: SchemaKind::Table,
            name: schema.table.clone(),
            table_name: schema.table.clone(),
            root_page,
            sql: Some(schema.create_sql()),
        };
        finish_database(self.layout, &[entry], &mut self.numbers, &mut self.finished)
            .map_err(|error| refused(error, path))?;
        self.write_finished(output, path)?;
        let pages = u64::from(self.numbers.page_count());
        let bytes = pages * self.layout.page_bytes() as u64;
        let started = std::time::Instant::now();
        output.finish(bytes).map_err(|source| Error::io("sync", path, source))?;
        Ok(FileSize { pages, bytes, sync: started.elapsed() })
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
    for (first, bytes) in range.pieces(run.number(range), layout) {
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
        FormatError::TooManyPages => "choose a larger --page-size",
        _ => "leave such rows out",
    };
    Error::from(ErrorKind::Destination { path: path.to_owned(), reason: error.to_string() })
        .to_do(to_do)
}
