//! Bad rows that are left out: each as it was, and a log of where and why.
//!
//! Rows arrive in the input's order. Must never: overwrite a file that was
//! there before.

use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use super::options::OnError;
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::rights::Rights;
use crate::vfs::locks::FileHandle;

/// Counts the bad rows, and writes them where a file was named.
#[derive(Debug)]
pub struct Rejects {
    count: u64,
    limit: Option<u64>,
    /// Whether the first bad row is the error itself.
    stops: bool,
    /// Rows that wait for [`Rejects::release`], if they come out of order.
    held: Option<Vec<(BadRow, Vec<u8>)>>,
    /// The names of the inputs, in their order.
    inputs: Vec<String>,
    files: Option<Files>,
    keep: bool,
    /// The first few, if a dry run wants to show them.
    shown: Vec<BadRow>,
    shown_max: usize,
}

#[derive(Debug)]
struct Files {
    rows_path: PathBuf,
    rows: BufWriter<FileHandle>,
    log_path: PathBuf,
    log: BufWriter<FileHandle>,
}

impl Rejects {
    /// Makes the files, if rows are to be skipped into one.
    pub fn create(on_error: &OnError, rights: Rights) -> Result<Self> {
        let OnError::Skip { rejects, max_rejects } = on_error else {
            let mut rejects = Self::new(None, None);
            rejects.stops = true;
            return Ok(rejects);
        };
        let files = rejects.as_deref().map(|path| Files::create(path, rights)).transpose()?;
        Ok(Self::new(*max_rejects, files))
    }

    /// Counts without end and remembers the first `shown_max`.
    pub fn only_shown(shown_max: usize) -> Self {
        let mut rejects = Self::new(None, None);
        rejects.shown_max = shown_max;
        rejects
    }

    fn new(limit: Option<u64>, files: Option<Files>) -> Self {
        Self {
            count: 0,
            limit,
            stops: false,
            held: None,
            inputs: Vec::new(),
            files,
            keep: false,
            shown: Vec::new(),
            shown_max: 0,
        }
    }

    /// The first bad rows.
    pub fn take_shown(&mut self) -> Vec<BadRow> {
        std::mem::take(&mut self.shown)
    }

    /// Bad rows so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a bad row, given with its bytes; an error if it is one too many.
    pub fn add(&mut self, bad: BadRow, row: &[u8]) -> Result<()> {
        if self.stops {
            return Err(bad.into());
        }
        if let Some(held) = &mut self.held {
            held.push((bad, row.to_vec()));
            return Ok(());
        }
        self.count += 1;
        if let Some(files) = &mut self.files {
            files.add(&bad, row)?;
        }
        if self.shown.len() < self.shown_max {
            self.shown.push(bad.clone());
        }
        match self.limit {
            Some(limit) if self.count > limit => {
                self.keep = true;
                let rejected = self.count;
                Err(ErrorKind::TooManyRejects { rejected, limit, last: Box::new(bad) }.into())
            }
            _ => Ok(()),
        }
    }

    /// From now on rows of these inputs wait until they are released.
    pub fn hold(&mut self, inputs: Vec<String>) {
        self.held = Some(Vec::new());
        self.inputs = inputs;
    }

    /// Adds the rows that wait, in the input's order.
    pub fn release(&mut self) -> Result<()> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        let file = |bad: &BadRow| {
            self.inputs.iter().position(|name| *name == bad.file).unwrap_or(usize::MAX)
        };
        held.sort_by_cached_key(|(bad, _)| (file(bad), bad.line, bad.column));
        held.drain(..).try_for_each(|(bad, row)| self.add(bad, &row))
    }

    /// Forgets all rows, as the input is read anew.
    pub fn restart(&mut self) -> Result<()> {
        self.count = 0;
        self.held = None;
        self.files.as_mut().map_or(Ok(()), Files::restart)
    }

    /// Completes the files.
    pub fn flush(&mut self) -> Result<()> {
        self.files.as_mut().map_or(Ok(()), Files::flush)
    }

    /// Leaves the files where they are; without this they go away again.
    pub fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for Rejects {
    fn drop(&mut self) {
        let Some(files) = &mut self.files else { return };
        let _ = files.flush();
        if !self.keep {
            let _ = std::fs::remove_file(&files.rows_path);
            let _ = std::fs::remove_file(&files.log_path);
        }
    }
}

impl Files {
    fn create(path: &Path, rights: Rights) -> Result<Self> {
        let mut log_path = path.as_os_str().to_owned();
        log_path.push(".log");
        let log_path = PathBuf::from(log_path);
        if log_path.symlink_metadata().is_ok() {
            return Err(taken(&log_path));
        }
        let rows = BufWriter::new(create_new(path, rights)?);
        let log = BufWriter::new(create_new(&log_path, rights)?);
        Ok(Self { rows_path: path.to_owned(), rows, log_path, log })
    }

    fn add(&mut self, bad: &BadRow, row: &[u8]) -> Result<()> {
        let write = |file: &mut BufWriter<FileHandle>| -> io::Result<()> {
            file.write_all(row)?;
            if row.last() != Some(&b'\n') {
                file.write_all(b"\n")?;
            }
            Ok(())
        };
        write(&mut self.rows).map_err(|e| Error::io("write", &self.rows_path, e))?;
        let BadRow { file, line, column, reason, .. } = bad;
        writeln!(self.log, "{file}:{line}:{column}: {reason}")
            .map_err(|e| Error::io("write", &self.log_path, e))
    }

    fn flush(&mut self) -> Result<()> {
        self.rows.flush().map_err(|e| Error::io("write", &self.rows_path, e))?;
        self.log.flush().map_err(|e| Error::io("write", &self.log_path, e))
    }

    fn restart(&mut self) -> Result<()> {
        for (file, path) in [(&mut self.rows, &self.rows_path), (&mut self.log, &self.log_path)] {
            file.rewind()
                .and_then(|()| file.get_ref().set_len(0))
                .map_err(|e| Error::io("write", path, e))?;
        }
        Ok(())
    }
}

fn create_new(path: &Path, rights: Rights) -> Result<FileHandle> {
    FileHandle::create(path, rights).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            taken(path)
        } else {
            Error::io("create", path, error).on_disk("nothing was written")
        }
    })
}

fn taken(path: &Path) -> Error {
    let reason = "it exists already, and rejects never overwrite a file".to_owned();
    Error::from(ErrorKind::Destination { path: path.to_owned(), reason })
        .on_disk("it is as it was")
        .to_do("move it away or name another file with --rejects")
}
