//! The CSV file of a run. The page cache has it when a rung begins.
//!
//! Made once, outside of all time taken, before the first group.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::generate::{self, FileSize, TableFile, TextFormat};
use crate::group::Group;
use crate::machine_state::warm;
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
