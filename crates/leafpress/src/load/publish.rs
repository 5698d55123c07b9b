//! Nothing or a whole database: the temporary file, and its rename.
//!
//! The database grows in a hidden file beside its destination, named after it
//! and locked as long as its maker lives. Only when it is complete and synced
//! does it get its name, and never over something else. A process that dies
//! leaves at most the hidden file; as nobody holds its lock, the next load to
//! the same destination knows it for a leftover and removes it.
//!
//! | when it fails | on disk |
//! |---|---|
//! | before [`Destination::publish`] | nothing (killed: the hidden file) |
//! | in it | nothing, or the whole database |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::{self, DiskFile};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::locks::{FileHandle, Open};

const NOTHING_WRITTEN: &str = "nothing was written";

/// What SQLite keeps beside a database. Beside a *new* one such a file is
/// deadly: SQLite would take it for the new database's and apply it.
const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A database in the making, under its temporary name.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    temporary: PathBuf,
    /// Holds the lock that tells others that we are alive.
    file: DiskFile,
    published: bool,
}

impl Destination {
    /// Makes the temporary file beside `path`, where nothing must stand, after
    /// removing leftovers.
    pub fn create(path: &Path) -> Result<Self> {
        refuse_if_taken(path)?;
        Self::staged(path)
    }

    /// Makes the temporary file beside `path`, which may stand there and which
    /// it is never to replace.
    pub fn staged(path: &Path) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(Error::usage(format!("{} is not a file name", path.display())));
        };
        let folder = folder_of(path);
        let prefix = format!(".{}.leafpress-", name.to_string_lossy());
        remove_leftovers(&folder, &prefix);
        for attempt in 0.. {
            let unique = format!("{prefix}{}-{attempt}.tmp", std::process::id());
            let temporary = folder.join(unique);
            match claim(&temporary) {
                Ok(Some(file)) => {
                    return Ok(Self { path: path.to_owned(), temporary, file, published: false });
                }
                Ok(None) if attempt < 1000 => {}
                Ok(None) => break,
                Err(source) => {
                    return Err(not_created(path, &folder, source)
                        .on_disk(NOTHING_WRITTEN)
                        .to_do("choose a folder that exists and that you may write to"));
                }
            }
        }
        let source = io::Error::from(io::ErrorKind::AlreadyExists);
        Err(Error::io("create a file in", &folder, source).on_disk(NOTHING_WRITTEN))
    }

    /// The file to write.
    pub fn file(&self) -> DiskFile {
        self.file.share()
    }

    /// Where the file is until it is published.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Gives the synced file its name, over nothing, and syncs the folder.
    pub fn publish(mut self) -> Result<()> {
        refuse_if_taken(&self.path)?;
        disk::rename_over_nothing(&self.temporary, &self.path).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                taken(&self.path, "it appeared while the load was running")
            } else {
                Error::io("name the finished database", &self.path, source).on_disk(NOTHING_WRITTEN)
            }
        })?;
        self.published = true;
        disk::sync_folder(&folder_of(&self.path)).map_err(|source| {
            Error::io("sync the folder of", &self.path, source).on_disk(format!(
                "{} is complete, but a power cut may take its name away",
                self.path.display()
            ))
        })
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if !self.published {
            let _ = disk::remove(&self.temporary);
        }
    }
}

/// The folder that a file is in, also for a bare name.
pub fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Refuses a destination that exists, or beside which a former database left
/// its journal.
pub fn refuse_if_taken(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(taken(path, "it exists already"));
    }
    for suffix in COMPANIONS {
        let mut companion = path.as_os_str().to_owned();
        companion.push(suffix);
        let companion = PathBuf::from(companion);
        if companion.symlink_metadata().is_ok() {
            let reason = format!(
                "it belongs to a database that was here before, and SQLite would apply it to \
                 the new {}",
                path.display()
            );
            return Err(Error::from(ErrorKind::Destination { path: companion, reason })
                .on_disk(NOTHING_WRITTEN)
                .to_do("move that file away, if the old database is really gone"));
        }
    }
    Ok(())
}

/// Why there is no temporary file: the folder may be read-only, or not there.
fn not_created(path: &Path, folder: &Path, source: io::Error) -> Error {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};

    if !matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) {
        return Error::io("create a file in", folder, source);
    }
    let reason = format!("cannot create a file in {}: {source}", folder.display());
    ErrorKind::ReadOnly { path: path.to_owned(), reason }.into()
}

fn taken(path: &Path, reason: &str) -> Error {
    Error::from(ErrorKind::Destination { path: path.to_owned(), reason: reason.to_owned() })
        .on_disk("it is as it was")
        .to_do("choose another name, or move it away")
}

/// A new, locked file; `None` if somebody else has that name or took it away.
fn claim(temporary: &Path) -> io::Result<Option<DiskFile>> {
    let file = match DiskFile::create_new(temporary) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    };
    // Between the two calls another load may have taken it for a leftover.
    // Where the file system has no locks, leftovers are never removed either.
    match file.file().try_lock() {
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        _ if temporary.exists() => Ok(Some(file)),
        _ => Ok(None),
    }
}

/// Removes temporary files whose maker is dead. What cannot be removed does
/// no harm and is left.
fn remove_leftovers(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(prefix)
            && name.ends_with(".tmp")
            && let Ok(file) = FileHandle::open_as(entry.path(), Open::ReadWrite)
            && file.try_lock().is_ok()
        {
            tracing::info!(file = %entry.path().display(), "removed a leftover");
            let _ = disk::remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_destination_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        drop(Destination::create(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn leftovers_go_and_living_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let dead = folder.path().join(".a.db.leafpress-1-0.tmp");
        let other = folder.path().join(".b.db.leafpress-1-0.tmp");
        fs::write(&dead, "x").unwrap();
        fs::write(&other, "x").unwrap();
        let first = Destination::create(&path).unwrap();
        let second = Destination::create(&path).unwrap();
        assert!(!dead.exists() && other.exists());
        assert!(first.temporary().exists() && second.temporary().exists());
        first.publish().unwrap();
        let error = second.publish().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Destination { .. }), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn a_stale_journal_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.db-wal"), "x").unwrap();
        let error = Destination::create(&folder.path().join("a.db")).unwrap_err();
        assert!(error.to_string().contains("a.db-wal"), "{error}");
    }
}
