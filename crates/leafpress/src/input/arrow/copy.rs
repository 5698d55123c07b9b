//! The copy of record batches that can be read only once, for a second pass over them.
//!
//! A stream of Arrow IPC in a temporary file without a name.
//!
//! Must never: give a copy that is not whole.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};

use super::open_stream;
use crate::input::arrow::ipc::Stream;
use crate::input::source::{Source, no_copy};
use crate::rights;
use crate::{Error, Result};

/// The place of a copy.
pub(super) struct Copy {
    folder: PathBuf,
    file: Option<File>,
    is_whole: Arc<AtomicBool>,
}

impl Copy {
    /// A copy in a temporary file of a folder, to be made.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), file: None, is_whole: Arc::default() }
    }

    /// Begins to copy.
    ///
    /// # Errors
    /// Fails if the folder takes no file.
    pub fn begin(&mut self, schema: &SchemaRef) -> Result<Copying> {
        let failed = |error| no_copy(&self.folder, error);
        let file = rights::unnamed_file(&self.folder).map_err(failed)?;
        self.file = Some(file.try_clone().map_err(failed)?);
        let (folder, is_whole) = (self.folder.clone(), Arc::clone(&self.is_whole));
        let writer = StreamWriter::try_new(BufWriter::new(file), schema);
        let writer = writer.map_err(|error| not_written(&folder, error))?;
        Ok(Copying { writer, folder, is_whole })
    }

    /// Opens the copy at its start; `None` if it is not whole.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn open(&self, name: &str) -> Result<Option<Box<Stream<'static>>>> {
        let (true, Some(file)) = (self.is_whole.load(Ordering::Acquire), &self.file) else {
            return Ok(None);
        };
        let failed = |error| Error::io("read a temporary file in", &self.folder, error);
        let mut file = file.try_clone().map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        open_stream(&mut Source::reader(name, file, None)).map(Some)
    }
}

/// The writer of a copy.
pub(super) struct Copying {
    writer: StreamWriter<BufWriter<File>>,
    folder: PathBuf,
    is_whole: Arc<AtomicBool>,
}

impl Copying {
    /// Adds a record batch.
    ///
    /// # Errors
    /// Fails if the file does not take it.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).map_err(|error| not_written(&self.folder, error))
    }

    /// Ends the copy.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn finish(&mut self) -> Result<()> {
        let finished = self.writer.finish().and_then(|()| self.writer.flush());
        finished.map_err(|error| not_written(&self.folder, error))?;
        self.is_whole.store(true, Ordering::Release);
        Ok(())
    }
}

fn not_written(folder: &Path, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) => no_copy(folder, source),
        error => no_copy(folder, std::io::Error::other(error)),
    }
}
