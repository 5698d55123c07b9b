//! A home of shards, whatever it is, and the files in it.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leafpress::load::disk::Listener;
use leafpress::vfs::rights::Rights;
use leafpress::{Error, Result};

use super::callbacks::{Change, Sha256Of, Stop};
use super::local::Local;

/// A home of shards.
pub trait Store: Debug + Send + Sync {
    /// A path in full, for messages.
    fn shown(&self, path: &str) -> PathBuf;

    /// The file of a path, where this home has files that SQLite can open.
    fn in_place(&self, path: &str) -> Option<PathBuf>;

    /// The object of a path, where this home has objects that are read by ranges.
    #[cfg(feature = "object-store")]
    fn object(&self, _path: &str) -> Option<(Arc<dyn object_store::ObjectStore>, String)> {
        None
    }

    /// Content of a small file; `None` if it is not there.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>>;

    /// Size of a file; `None` if it is not there.
    fn size(&self, path: &str) -> Result<Option<u64>>;

    /// Returns true if there is such a file.
    fn is_there(&self, path: &str) -> Result<bool> {
        Ok(self.size(path)?.is_some())
    }

    /// Makes a small file, synced, in place of nothing. After an error there is none, or all of it.
    ///
    /// # Errors
    /// [`Destination`](leafpress::ErrorKind::Destination) if it is there.
    fn create(&self, path: &str, bytes: &[u8]) -> Result<()>;

    /// Replaces a small file, which no other process replaces at the same time. `change` may be called
    /// again, if another process was faster.
    ///
    /// # Errors
    /// Those of `change`: then nothing is changed.
    /// [`OutcomeUnknown`](leafpress::ErrorKind::OutcomeUnknown) if the file may be changed later.
    fn change(&self, path: &str, change: &mut Change<'_>) -> Result<()>;

    /// Refuses if this process may not [`change`](Self::change) a file, as far as that shows before.
    ///
    /// # Errors
    /// The system's: then nothing is changed.
    fn check_change(&self) -> Result<()> {
        Ok(())
    }

    /// Rights of the files that are made here.
    fn rights(&self) -> Rights {
        Rights::new_database()
    }

    /// Makes a small file, or changes the one that is there: it is as new as this call.
    fn touch(&self, path: &str) -> Result<()>;

    /// Prepares the place of a new run; returns true if the home was there before.
    fn begin(&self, run: &str) -> Result<bool>;

    /// Returns true if the place of a run that has begun is not there any more, where this home shows that.
    fn has_lost(&self, _run: &str) -> bool {
        false
    }

    /// A local folder for files that are not to be published.
    fn workplace(&self, run: &str) -> Result<Local>;

    /// The local file in which a file is made. It exists if the file is there, complete.
    fn draft(&self, path: &str) -> Result<Local>;

    /// The listener to the writes of a draft, where this home wants one.
    fn listener(&self, _draft: &Local) -> Option<Arc<dyn Listener>> {
        None
    }

    /// Gives a draft, which is complete, its place. What is there already with this SHA-256 stays.
    fn keep(&self, draft: &Local, path: &str, sha256: &Sha256Of<'_>, stop: &Stop<'_>)
    -> Result<()>;

    /// Copies a file into a new local one.
    fn fetch(&self, path: &str, into: &Path, stop: &Stop<'_>) -> Result<()>;

    /// Fills `into` with the bytes of a file from `first` on; returns their number, which is smaller
    /// where the file ends.
    fn read_at(&self, path: &str, first: u64, into: &mut [u8]) -> Result<usize>;

    /// Names of the runs, of unpublished ones too.
    fn runs(&self) -> Result<Vec<String>>;

    /// Uploads that were not finished, of all runs.
    fn unfinished(&self) -> Result<Vec<Entry>> {
        Ok(Vec::new())
    }

    /// The files of a run, and of its folder of parts.
    fn entries(&self, run: &str) -> Result<Vec<Entry>>;

    /// Removes a file, if it is there.
    fn remove(&self, entry: &Entry) -> Result<()>;

    /// Removes the empty folders of a run that are older.
    fn forget(&self, run: &str, older_than: Duration);

    /// Removes all of a run, and the home itself unless it was there before.
    fn abandon(&self, run: &str, was_there: bool);
}

/// A file of a run.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its path.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Time of its last change, if known.
    pub modified: Option<SystemTime>,
    /// Name of the upload that would make it, for one that was not finished.
    pub upload: Option<String>,
}

impl Entry {
    /// A file of which only the path is known.
    pub fn at(path: String) -> Self {
        Self { path, bytes: 0, modified: None, upload: None }
    }

    /// Returns true if it changed at least that long ago.
    pub fn is_older(&self, than: Duration) -> bool {
        is_older(self.modified, than)
    }
}

/// Returns true if a change was at least that long ago.
pub fn is_older(modified: Option<SystemTime>, than: Duration) -> bool {
    let age = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
    than.is_zero() || age.is_some_and(|age| age >= than)
}

/// Digits that nothing else has: of the system's random numbers, as a child of `fork` or a copy of the machine has all
/// that a process keeps.
///
/// # Errors
/// The system gives none.
pub fn unique_digits() -> Result<String> {
    let number = getrandom::u64().map_err(|source| {
        Error::io("read random numbers of", Path::new("the system"), source.into())
    })?;
    Ok(format!("{number:016x}"))
}
