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
use crate::hidden::HiddenNames;
use crate::paths::folder_of;
use crate::rights::Rights;
use crate::vfs::locks::{FileHandle, Open};
use crate::words::path_text;

const NOTHING_WRITTEN: &str = "nothing was written";

const FOLDER_TO_WRITE: &str = "choose a folder that exists and that you may write to";
const FOLDER_FOR_A_TRY: &str =
    "a dry run keeps the rows in a temporary file: name a folder for it with ⟦tmpdir⟧";

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
        Self::make(path, Rights::new_database(), FOLDER_TO_WRITE)
    }

    /// Makes the temporary file beside `path`, which may stand there and which
    /// it is never to replace. No other user may read it, whoever may read the database.
    pub fn staged(path: &Path) -> Result<Self> {
        Self::make(path, Rights::private(path), FOLDER_TO_WRITE)
    }

    /// As [`staged`](Self::staged), for a dry run: the file need not lie beside the database.
    pub fn tried(path: &Path) -> Result<Self> {
        Self::make(path, Rights::private(path), FOLDER_FOR_A_TRY)
    }

    fn make(path: &Path, rights: Rights, advice: &str) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(Error::misuse(format!("{} is not a file name", path_text(path))));
        };
        let folder = folder_of(path);
        let names = HiddenNames::new(name, ".leafpress-", ".tmp");
        remove_leftovers(&folder, &names);
        for attempt in 0.. {
            let temporary = folder.join(names.name(attempt));
            match claim(&temporary, rights) {
                Ok(Some(file)) => {
                    return Ok(Self { path: path.to_owned(), temporary, file, published: false });
                }
                Ok(None) if attempt < 1000 => {}
                Ok(None) => break,
                Err(source) => {
                    return Err(not_created(path, &folder, source)
                        .on_disk(NOTHING_WRITTEN)
                        .to_do(advice));
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
                path_text(&self.path)
            ))
        })
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if !self.published {
            remove_with_companions(&self.temporary);
        }
    }
}

/// Makes a new database at `path` as a whole: `fill` is given the path of a hidden file,
/// makes a database there, and closes it. Only then does the file get its name, over nothing. Without a
/// success nothing is left.
///
/// # Errors
/// Those of `fill`; [`ErrorKind::Destination`] where something has the name already, or was
/// given it meanwhile.
#[doc(hidden)]
pub fn make_new<T>(path: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let destination = Destination::create(path)?;
    let renamed = |error: Error| error.with_path(destination.temporary(), path);
    let answer = fill(destination.temporary()).map_err(renamed)?;
    let log = companion_of(destination.temporary(), "-wal");
    if log.metadata().is_ok_and(|found| found.len() > 0) {
        return Err(Error::changed(
            "the log of the new database could not be copied into it: it is in use",
        )
        .on_disk(NOTHING_WRITTEN)
        .to_do("try again when no other program uses it"));
    }
    destination.file.sync_all().map_err(|source| Error::io("sync", path, source))?;
    destination.publish()?;
    Ok(answer)
}

fn companion_of(path: &Path, suffix: &str) -> PathBuf {
    let mut companion = path.as_os_str().to_owned();
    companion.push(suffix);
    companion.into()
}

/// Removes a hidden file, and what SQLite keeps beside it.
fn remove_with_companions(temporary: &Path) {
    for suffix in COMPANIONS {
        let companion = companion_of(temporary, suffix);
        if companion.symlink_metadata().is_ok() {
            let _ = disk::remove(&companion);
        }
    }
    let _ = disk::remove(temporary);
}

/// Refuses a destination that exists, or beside which a former database left
/// its journal.
pub fn refuse_if_taken(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(taken(path, "it exists already"));
    }
    for suffix in COMPANIONS {
        let companion = companion_of(path, suffix);
        if companion.symlink_metadata().is_ok() {
            let reason = format!(
                "it belongs to a database that was here before, and SQLite would apply it to \
                 the new {}",
                path_text(path)
            );
            return Err(Error::from(ErrorKind::Destination { path: companion, reason })
                .on_disk(NOTHING_WRITTEN)
                .to_do("move that file away, if the old database is really gone"));
        }
    }
    Ok(())
}

/// Refuses a new database whose folder is not there.
pub fn refuse_without_folder(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    let source = match folder.metadata() {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => io::ErrorKind::NotADirectory.into(),
        Err(source) => source,
    };
    Err(not_created(path, &folder, source).on_disk(NOTHING_WRITTEN).to_do(FOLDER_TO_WRITE))
}

/// Why there is no temporary file: the folder may be read-only, or not there.
fn not_created(path: &Path, folder: &Path, source: io::Error) -> Error {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};

    if !matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) {
        return Error::io("create a file in", folder, source);
    }
    let reason = format!("cannot create a file in {}: {source}", path_text(folder));
    ErrorKind::ReadOnly { path: path.to_owned(), reason }.into()
}

fn taken(path: &Path, reason: &str) -> Error {
    Error::from(ErrorKind::Destination { path: path.to_owned(), reason: reason.to_owned() })
        .on_disk("it is as it was")
        .to_do("choose another name, or move it away")
}

/// A new, locked file; `None` if somebody else has that name or took it away.
fn claim(temporary: &Path, rights: Rights) -> io::Result<Option<DiskFile>> {
    let file = match DiskFile::create_new(temporary, rights) {
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
fn remove_leftovers(folder: &Path, names: &HiddenNames) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if names.is_one(&entry.file_name())
            && let Ok(file) = FileHandle::open_as(entry.path(), Open::ReadWrite)
            && file.try_lock().is_ok()
        {
            tracing::info!(file = %path_text(entry.path()), "removed a leftover");
            remove_with_companions(&entry.path());
        }
    }
}

/// Refuses a folder for temporary files that is none.
pub(crate) fn refuse_unless_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let name = path_text(folder);
    let error = if folder.exists() {
        Error::misuse(format!("the folder for temporary files is not a folder: {name}"))
    } else {
        let reason = format!("the folder for temporary files is not there: {name}");
        Error::not_found("folder", name, reason)
    };
    Err(error.to_do("name a folder that is there with ⟦tmpdir⟧, or make it"))
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
    fn a_new_database_is_there_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let fill = |hidden: &Path, sql: &str| -> Result<()> {
            let connection = rusqlite::Connection::open(hidden)?;
            Ok(connection.execute_batch(sql)?)
        };
        let log = "PRAGMA journal_mode=WAL; CREATE TABLE t(a);";
        let failed = make_new(&path, |hidden| fill(hidden, &format!("{log} nonsense")));
        assert!(failed.is_err());
        let left = make_new(&path, |hidden| {
            fill(hidden, log)?;
            fs::write(companion_of(hidden, "-wal"), "x").unwrap();
            Ok(())
        });
        assert!(left.unwrap_err().to_string().contains("log"));
        assert_eq!(names(), 0);
        make_new(&path, |hidden| {
            assert!(!path.exists());
            fill(hidden, log)
        })
        .unwrap();
        assert_eq!(names(), 1);
        let again = make_new(&path, |_| -> Result<()> { panic!("it is there") });
        assert!(matches!(again.unwrap_err().kind(), ErrorKind::Destination { .. }));
    }

    #[test]
    fn leftovers_go_and_living_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let dead = folder.path().join(".a.db.leafpress-1-0.tmp");
        let other = folder.path().join(".b.db.leafpress-1-0.tmp");
        let not_ours = folder.path().join(".a.db.leafpress-foo.tmp");
        fs::write(&dead, "x").unwrap();
        fs::write(companion_of(&dead, "-wal"), "x").unwrap();
        fs::write(&other, "x").unwrap();
        fs::write(&not_ours, "x").unwrap();
        let first = Destination::create(&path).unwrap();
        let second = Destination::create(&path).unwrap();
        assert!(!dead.exists() && other.exists() && not_ours.exists());
        assert!(!companion_of(&dead, "-wal").exists());
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
