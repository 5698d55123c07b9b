//! The files of a run that rungs load. The page cache has one when its rung begins.
//!
//! Made once, outside of all time taken, before the first group.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::generate::{self, FileSize, TableFile, TextFormat};
use crate::group::Group;
use crate::machine_state::warm;
use crate::options::{BenchOptions, ProgressEvent};
use crate::rung::described::InputFormat;

/// One file of this run.
#[derive(Debug)]
pub(crate) struct Input {
    format: InputFormat,
    pub(crate) path: PathBuf,
    pub(crate) file: TableFile,
}

/// The files of this run, one of each format that is read.
#[derive(Debug, Default)]
pub(crate) struct Inputs(Vec<Input>);

impl Inputs {
    /// Writes the files that groups need, and reads each once: every rung then finds its own in the
    /// page cache.
    pub(crate) fn make(
        options: &BenchOptions,
        groups: &[Group],
        folder: &Path,
        progress: &mut dyn FnMut(ProgressEvent<'_>),
    ) -> Result<Self> {
        let mut inputs = Self::default();
        for format in formats_of(groups) {
            let path = folder.join(format!("data.{}", format.name()));
            let bytes_total = options.bytes;
            let file = write(format, &path, bytes_total, &mut |bytes| {
                progress(ProgressEvent::Generating { bytes, bytes_total });
            })?;
            warm(&path)?;
            inputs.0.push(Input { format, path, file });
        }
        Ok(inputs)
    }

    /// The file that a group reads, if it reads one.
    pub(crate) fn of(&self, group: &Group) -> Option<&Input> {
        group.reads().and_then(|format| self.0.iter().find(|input| input.format == format))
    }

    /// Format, size and rows of each file.
    pub(crate) fn files(&self) -> impl Iterator<Item = (InputFormat, TableFile)> {
        self.0.iter().map(|input| (input.format, input.file))
    }
}

/// The formats that these groups read, each once.
pub(crate) fn formats_of(groups: &[Group]) -> Vec<InputFormat> {
    let mut formats: Vec<InputFormat> = groups.iter().filter_map(Group::reads).collect();
    formats.sort_unstable();
    formats.dedup();
    formats
}

fn write(
    format: InputFormat,
    path: &Path,
    bytes: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<TableFile> {
    let size = FileSize::Bytes(bytes);
    match format {
        InputFormat::Csv => generate::write_table(path, TextFormat::Csv, size, progress),
        InputFormat::Ndjson => generate::write_table(path, TextFormat::Ndjson, size, progress),
        #[cfg(feature = "parquet")]
        InputFormat::Parquet => crate::parquet_file::write_table(path, bytes, progress),
        #[cfg(not(feature = "parquet"))]
        InputFormat::Parquet => {
            Err(crate::error::Error::Usage(crate::loads::NO_PARQUET.to_owned()))
        }
    }
}
