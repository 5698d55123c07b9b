//! The CSV file of a run, and the page cache that a rung finds.
//!
//! Made once, outside of all time taken, before the first group.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::generate::{self, FileSize, TableFile, TextFormat};
use crate::group::Group;
use crate::options::{BenchOptions, ProgressEvent};

/// The CSV file of this run.
#[derive(Debug)]
pub(crate) struct CsvInput {
    pub(crate) path: PathBuf,
    pub(crate) file: TableFile,
}

impl CsvInput {
    /// Writes the CSV file if a group needs one, and reads it once: every rung then
    /// finds it in the page cache.
    pub(crate) fn make(
        options: &BenchOptions,
        groups: &[Group],
        folder: &Path,
        progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Result<Option<Self>> {
        if !groups.iter().any(Group::reads_csv) {
            return Ok(None);
        }
        let path = folder.join("data.csv");
        let bytes_total = options.bytes;
        let size = FileSize::Bytes(bytes_total);
        let file = generate::write_table(&path, TextFormat::Csv, size, &mut |bytes| {
            progress(ProgressEvent::Generating { bytes, bytes_total });
        })?;
        warm(&path)?;
        Ok(Some(Self { path, file }))
    }
}

/// Reads a file once, so that the next reader finds it in the page cache.
pub(crate) fn warm(path: &Path) -> Result<()> {
    let mut reader = File::open(path).map_err(Error::io("open", path))?;
    io::copy(&mut reader, &mut io::sink()).map_err(Error::io("read", path))?;
    Ok(())
}
