//! Rows on their way between the tasks of an engine: files of a run that no manifest names.
//!
//! They lie beside the parts of a run, in the same home or in another one that the caller names, so that
//! `gc` removes what a driver leaves that dies.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leafpress::{Error, Result, path_text};

use crate::catalog::PAGE_BYTES;
use crate::content::Content;
use crate::runs::Shards;
use crate::store::{Local, Store, is_name, last_name, parts_of};

/// Bytes that are asked for at once, at least: a request to a store costs as much time as many bytes.
const READ_BYTES_MIN: usize = 256 << 10;
/// Endings of a file that has all of its rows, and of one that has not.
const ENDING: &str = ".rows";
const UNFINISHED: &str = "unfinished";

/// A file that a task fills.
#[derive(Debug)]
pub struct Scratch {
    store: Arc<dyn Store>,
    draft: Local,
    file: PathBuf,
    path: String,
}

impl Scratch {
    /// A new file of a run. `name` has letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// [`Misuse`](leafpress::ErrorKind::Misuse) for a name that cannot be one of a file; the system's.
    pub fn new(shards: &Shards, run: &str, name: &str) -> Result<Self> {
        if !is_name(run) || !is_name(name) {
            return Err(Error::misuse(format!("{run:?} and {name:?} are no names of files")));
        }
        let path = format!("{}/{name}{ENDING}", parts_of(run));
        let store = Arc::clone(shards.store());
        let draft = store.draft(&path)?;
        let file = draft.path().with_extension(UNFINISHED);
        Ok(Self { store, draft, file, path })
    }

    /// Path of the local file, which is to be made there.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Gives the file its place; returns its path, for [`ScratchReader`].
    ///
    /// # Errors
    /// Those of the store.
    pub fn keep(self) -> Result<String> {
        fs::rename(&self.file, self.draft.path())
            .map_err(|source| Error::io("name", &self.file, source))?;
        let sha256 = || Ok(Content::of(self.draft.path(), PAGE_BYTES)?.sha256);
        self.store.keep(&self.draft, &self.path, &sha256, &|| false)?;
        Ok(self.path)
    }
}

impl Shards {
    /// Removes the scratch files of a run.
    ///
    /// # Errors
    /// Those of the system or the store.
    pub fn remove_scratch(&self, run: &str) -> Result<()> {
        for entry in self.store().entries(run)? {
            let name = last_name(&entry.path);
            if name.ends_with(ENDING) || name.ends_with(UNFINISHED) {
                self.store().remove(&entry)?;
            }
        }
        Ok(())
    }

    /// Number of parts that have a file, and of scratch files, in a run that is being made.
    ///
    /// # Errors
    /// Those of the system or the store.
    pub fn progress(&self, run: &str) -> Result<(usize, usize)> {
        let entries = self.store().entries(run)?;
        let names =
            || entries.iter().filter(|it| it.upload.is_none()).map(|it| last_name(&it.path));
        // A part may have the files of several attempts.
        let mut parts: Vec<_> = names()
            .filter_map(|name| name.strip_suffix(".db")?.split_once('-')?.0.parse::<usize>().ok())
            .collect();
        parts.sort_unstable();
        parts.dedup();
        Ok((parts.len(), names().filter(|name| name.ends_with(ENDING)).count()))
    }
}

/// Reads a scratch file by few requests.
#[derive(Debug)]
pub struct ScratchReader {
    store: Arc<dyn Store>,
    path: String,
    size: u64,
    at: u64,
    /// Bytes that were read, and where they begin.
    kept: Vec<u8>,
    kept_from: u64,
}

impl ScratchReader {
    /// Opens a file by the path that [`Scratch::keep`] gave.
    ///
    /// # Errors
    /// Those of the system or the store.
    pub fn open(shards: &Shards, path: &str) -> Result<Self> {
        let store = Arc::clone(shards.store());
        let size = store.size(path)?.ok_or_else(|| {
            let shown = path_text(store.shown(path));
            let reason = format!("{shown} is not there: it was removed");
            Error::not_found("file", shown, reason)
        })?;
        Ok(Self { store, path: path.to_owned(), size, at: 0, kept: Vec::new(), kept_from: 0 })
    }
}

impl Read for ScratchReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let inside = |it: &Self| {
            let begin = it.at.checked_sub(it.kept_from)?;
            it.kept.get(begin as usize..).filter(|rest| !rest.is_empty()).map(<[u8]>::len)
        };
        if inside(self).is_none() {
            let count = buffer.len().max(READ_BYTES_MIN).min((self.size - self.at) as usize);
            self.kept = self.store.read_at(&self.path, self.at, count).map_err(io::Error::other)?;
            self.kept_from = self.at;
        }
        let begin = (self.at - self.kept_from) as usize;
        let rest = self.kept.get(begin..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ScratchReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => self.size.checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "a place outside of the file");
        self.at = at.ok_or_else(outside)?;
        Ok(self.at)
    }
}
