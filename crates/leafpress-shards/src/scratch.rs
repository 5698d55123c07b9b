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
use crate::names::{is_name, last_name, parts_of};
use crate::runs::{KEEP_FILES, Shards};
use crate::store::{Local, Store};

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
    /// [`Misuse`](leafpress::ErrorKind::Misuse) for a name that cannot be one of a file, and where the folder
    /// has no such run: it has not begun there, or was abandoned.
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
            Error::not_found("file", shown, reason).to_do(KEEP_FILES)
        })?;
        Ok(Self { store, path: path.to_owned(), size, at: 0, kept: Vec::new(), kept_from: 0 })
    }

    /// The bytes in memory from the place on that is read next.
    fn kept_from_here(&self) -> Option<&[u8]> {
        let begin = self.at.checked_sub(self.kept_from)?;
        self.kept.get(begin as usize..).filter(|kept| !kept.is_empty())
    }

    /// Reads some bytes from that place on into memory.
    fn keep(&mut self) -> Result<()> {
        self.kept.resize(READ_BYTES_MIN.min((self.size - self.at) as usize), 0);
        self.kept_from = self.at;
        let read = self.store.read_at(&self.path, self.at, &mut self.kept);
        self.kept.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

impl Read for ScratchReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let rest = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(rest);
        let buffer = &mut buffer[..wanted];
        let is_kept = self.kept_from_here().is_some();
        let count = if !is_kept && buffer.len() >= READ_BYTES_MIN {
            self.store.read_at(&self.path, self.at, buffer).map_err(io::Error::other)?
        } else {
            if !is_kept {
                self.keep().map_err(io::Error::other)?;
            }
            let kept = self.kept_from_here().unwrap_or_default();
            let count = kept.len().min(buffer.len());
            buffer[..count].copy_from_slice(&kept[..count]);
            count
        };
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: usize = 3 * READ_BYTES_MIN + 7;

    fn bytes() -> Vec<u8> {
        (0..BYTES).map(|at| ((at * 31) >> 3) as u8).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_place_is_read_by_reads_of_any_size(
            reads in prop::collection::vec(
                (0..BYTES + 9, prop_oneof![0..40_usize, READ_BYTES_MIN - 2..READ_BYTES_MIN * 2]),
                1..20,
            ),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let shards = Shards::at(folder.path()).expect("shards");
            let publication = shards.begin().expect("a run");
            let scratch = Scratch::new(&shards, &publication.run, "rows").expect("a file");
            let bytes = bytes();
            fs::write(scratch.file(), &bytes).expect("the rows");
            let mut reader = ScratchReader::open(&shards, &scratch.keep().expect("its place"))
                .expect("a reader");
            for (at, count) in reads {
                reader.seek(SeekFrom::Start(at as u64)).expect("a place");
                let mut found = Vec::new();
                reader.by_ref().take(count as u64).read_to_end(&mut found).expect("a read");
                let end = BYTES.min(at + count);
                prop_assert_eq!(&found, &bytes[at.min(end)..end]);
                reader.seek(SeekFrom::Start(at as u64)).expect("a place");
                let mut found = vec![0; count];
                let whole = reader.read_exact(&mut found);
                prop_assert_eq!(whole.is_ok(), count == 0 || at + count <= BYTES);
                prop_assert!(whole.is_err() || found == bytes[at.min(end)..end]);
            }
        }
    }
}
