//! A new database gets its name. Until then it is a temporary file, which is complete and
//! synced first.
//!
//! The database grows in a hidden file beside its destination, named after it and locked as long as
//! its maker lives. Only when it is complete and synced does it get its name, and never over an
//! existing file. A process that dies leaves at most the hidden file. As no process holds its lock,
//! the next load to the same destination recognizes it as a leftover and removes it.
//!
//! | when it fails | on disk |
//! |---|---|
//! | before [`Destination::publish`] | nothing (killed: the hidden file) |
//! | in it | nothing, or the whole database |

pub mod disk;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::disk::{DiskFile, Listener};
use crate::error::{Error, ErrorKind, Result};
use crate::hidden::{HiddenNames, claims, is_left};
use crate::paths::{companion_of, folder_of, why_too_long};
use crate::refusal::why_not_synced;
use crate::rights::Rights;
use crate::vfs::locks::{FileHandle, Open};
use crate::words::path_text;

const NOTHING_WRITTEN: &str = "nothing was written";

const FOLDER_TO_WRITE: &str = "choose a folder that exists and that you may write to";
const FOLDER_FOR_A_TRY: &str =
    "a dry run keeps the rows in a temporary file: name a folder for it with ⟦tmpdir⟧";

/// Endings of the files that SQLite keeps beside a database. SQLite would take such a file beside a
/// *new* database for that database's own and apply it.
const COMPANIONS: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A new database, under its temporary name.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    temporary: PathBuf,
    /// Holds the lock that shows other processes that this one lives.
    file: DiskFile,
    published: bool,
}

impl Destination {
    /// Removes leftovers and makes the temporary file beside `path`, where nothing was a moment ago.
    /// A link to a file that is not there is followed: that file is made, and root keeps it.
    pub fn create(path: &Path, rights: Rights) -> Result<Self> {
        let end = followed(path);
        refuse_if_made(&end)?;
        let rights = if end == path { rights } else { Rights::new_database() };
        Self::make(&end, rights, FOLDER_TO_WRITE)
    }

    /// As [`create`](Self::create), for a file with these rights; `path` must not exist.
    fn create_with(path: &Path, rights: Rights) -> Result<Self> {
        refuse_if_there(path, taken)?;
        Self::make(path, rights, FOLDER_TO_WRITE)
    }

    /// Makes the temporary file beside `path`, which may exist and is never replaced. Other users
    /// cannot read the file, even those who may read the database.
    pub fn staged(path: &Path) -> Result<Self> {
        Self::make(path, Rights::private(path), FOLDER_TO_WRITE)
    }

    /// Makes a file as [`staged`](Self::staged) does, for a dry run: it need not be beside the
    /// database.
    pub fn tried(path: &Path) -> Result<Self> {
        Self::make(path, Rights::private(path), FOLDER_FOR_A_TRY)
    }

    fn make(path: &Path, rights: Rights, advice: &str) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(Error::misuse(format!("{} is not a file name", path_text(path))));
        };
        let folder = folder_of(path);
        let names = HiddenNames::new(name, ".leafpress-", ".tmp");
        remove_leftovers(folder, &names);
        for hidden in names.attempts() {
            let temporary = folder.join(hidden);
            if let Some(why) = why_too_long(&temporary) {
                let reason = format!("cannot be made under its hidden name: {why}");
                return Err(Error::destination(path, reason)
                    .on_disk(NOTHING_WRITTEN)
                    .to_do("choose a shorter path"));
            }
            match claim(&temporary, rights) {
                Ok(Some(file)) => {
                    return Ok(Self { path: path.to_owned(), temporary, file, published: false });
                }
                Ok(None) => {}
                Err(source) => {
                    return Err(not_created(path, folder, source)
                        .on_disk(NOTHING_WRITTEN)
                        .to_do(advice));
                }
            }
        }
        let source = io::Error::from(io::ErrorKind::AlreadyExists);
        Err(Error::io("create a file in", folder, source).on_disk(NOTHING_WRITTEN))
    }

    /// Tells a listener of the writes to the file from now on.
    pub fn tell_of_writes(mut self, listener: Option<Arc<dyn Listener>>) -> Self {
        self.file.tell_of_writes(listener);
        self
    }

    /// Handle of the file.
    pub fn file(&self) -> DiskFile {
        self.file.share()
    }

    /// Path of the file until it is published.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Renames the synced file, over nothing, and syncs the folder.
    pub fn publish(mut self) -> Result<()> {
        refuse_if_made(&self.path)?;
        // Opened first: once the file has its name, a failure leaves it there.
        let folder = disk::Folder::open(folder_of(&self.path)).map_err(|source| {
            Error::io("open the folder of", &self.path, source).on_disk(NOTHING_WRITTEN)
        })?;
        disk::rename_over_nothing(&self.temporary, &self.path).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                made_meanwhile(&self.path)
            } else {
                Error::io("name the finished database", &self.path, source).on_disk(NOTHING_WRITTEN)
            }
        })?;
        self.published = true;
        folder.sync().map_err(|source| {
            let name = path_text(&self.path);
            let reason = format!("cannot sync the folder of {name}: {source}");
            Error::uncertain_of("the new database", reason)
                .on_disk(format!("{name} is complete, but a power cut may take its name away"))
                .to_do("use it, and after a power cut look whether it is still there")
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

/// Makes a new, complete database at `path`: `fill` gets the path of a hidden file, makes a
/// database there, and closes it. Only then does the file get its name, over nothing. After a
/// failure no file is left.
///
/// # Errors
/// Those of `fill`; [`ErrorKind::Destination`] if the name is taken, [`ErrorKind::Changed`] if it is taken
/// meanwhile.
#[doc(hidden)]
pub fn make_new<T>(path: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    make_new_with(path, Rights::new_database(), fill)
}

/// As [`make_new`], for a database with these rights.
///
/// # Errors
/// Those of [`make_new`].
#[doc(hidden)]
pub fn make_new_with<T>(
    path: &Path,
    rights: Rights,
    fill: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    let destination = Destination::create_with(path, rights)?;
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

/// Removes a hidden file, and the files that SQLite keeps beside it.
fn remove_with_companions(temporary: &Path) {
    for suffix in COMPANIONS {
        let companion = companion_of(temporary, suffix);
        if companion.symlink_metadata().is_ok() {
            let _ = disk::remove(&companion);
        }
    }
    let _ = disk::remove(temporary);
}

/// The path of the file to be made where `path` may be a link to one that is not there: SQLite
/// makes the file that a link leads to, and its journal beside that.
pub fn followed(path: &Path) -> PathBuf {
    /// As in Linux; a circle of links has no end.
    const LINKS_MAX: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else { break };
        // An absolute target replaces the folder.
        path = folder_of(&path).join(target);
    }
    path
}

/// Refuses a destination that another program has made, as it was not there a moment ago, and one with
/// the journal of a former database beside it.
pub fn refuse_if_made(path: &Path) -> Result<()> {
    refuse_if_there(path, made_meanwhile)
}

/// As [`refuse_if_made`], with this error if it exists.
fn refuse_if_there(path: &Path, there: fn(&Path) -> Error) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(there(path));
    }
    for suffix in COMPANIONS {
        let companion = companion_of(path, suffix);
        if companion.symlink_metadata().is_ok() {
            if path.symlink_metadata().is_ok() {
                return Err(there(path));
            }
            let holds_no_data = suffix == "-shm";
            let reason = if holds_no_data {
                "it is left of a database that was here before".to_owned()
            } else {
                format!(
                    "it belongs to a database that was here before, and SQLite would apply it to \
                     the new {}",
                    path_text(path)
                )
            };
            return Err(Error::from(ErrorKind::Destination { path: companion, reason })
                .on_disk(NOTHING_WRITTEN)
                .to_do(if holds_no_data {
                    "remove that file, which holds no data, if no program has the old database open"
                } else {
                    "move that file away, if the old database is really gone"
                }));
        }
    }
    Ok(())
}

/// Refuses a new database in a folder that does not exist.
pub fn refuse_without_folder(path: &Path) -> Result<()> {
    let folder = folder_of(path);
    let source = match folder.metadata() {
        Ok(found) if found.is_dir() => return refuse_folder_without_sync(path, folder),
        Ok(_) => io::ErrorKind::NotADirectory.into(),
        Err(source) => source,
    };
    Err(not_created(path, folder, source).on_disk(NOTHING_WRITTEN).to_do(FOLDER_TO_WRITE))
}

fn refuse_folder_without_sync(path: &Path, folder: &Path) -> Result<()> {
    let Some(why) = why_not_synced(folder) else { return Ok(()) };
    let reason = format!("cannot be made: {why}");
    Err(Error::destination(path, reason)
        .on_disk(NOTHING_WRITTEN)
        .to_do("change the permissions of the folder (chmod), so that you may read it"))
}

/// The error for a temporary file that could not be made: the folder may be read-only, or missing.
fn not_created(path: &Path, folder: &Path, source: io::Error) -> Error {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};

    if !matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) {
        return Error::io("create a file in", folder, source);
    }
    let reason = format!("cannot create a file in {}: {source}", path_text(folder));
    ErrorKind::ReadOnly { path: path.to_owned(), reason }.into()
}

fn taken(path: &Path) -> Error {
    Error::destination(path, "it exists already")
        .on_disk("it is as it was")
        .to_do("choose another name, or move it away")
}

/// The error for a destination that was not there when the work began.
fn made_meanwhile(path: &Path) -> Error {
    Error::made_meanwhile(format!("{}: it", path_text(path)))
        .on_disk("it is as that program made it")
        .to_do("try again")
}

/// Makes a new, locked file; `None` if another process has that name or removed the file.
fn claim(temporary: &Path, rights: Rights) -> io::Result<Option<DiskFile>> {
    let file = match DiskFile::create_new(temporary, rights) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(claims(file.handle(), temporary).then_some(file))
}

/// Removes temporary files whose maker is dead. Files that cannot be removed do no harm and stay.
fn remove_leftovers(folder: &Path, names: &HiddenNames) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if names.is_one(&entry.file_name())
            && let Ok(file) = FileHandle::open_as(entry.path(), Open::ReadWrite)
        {
            remove_if_left(&entry.path(), &file);
        }
    }
}

/// Removes the opened temporary file if its maker is dead.
fn remove_if_left(temporary: &Path, file: &FileHandle) {
    if is_left(file, temporary) {
        tracing::info!(file = %path_text(temporary), "removed a leftover");
        remove_with_companions(temporary);
    }
}

/// Refuses a path for temporary files that is no folder.
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
    use crate::error::Mark;

    #[test]
    fn a_dropped_destination_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        drop(Destination::create(&path, Rights::new_database()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_path_without_room_for_the_hidden_name_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let rest = 500 - folder.path().as_os_str().len() - "/t.db".len();
        let (outer, inner) = ("o".repeat(rest / 2), "i".repeat(rest - rest / 2 - 2));
        let folder = folder.path().join(outer).join(inner);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("t.db");
        assert_eq!((why_too_long(&path), path.as_os_str().len()), (None, 500));
        let error = Destination::create(&path, Rights::new_database()).err().unwrap().to_string();
        assert!(error.contains("the path is too long: it has 5"), "{error}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
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
        let first = Destination::create(&path, Rights::new_database()).unwrap();
        let second = Destination::create(&path, Rights::new_database()).unwrap();
        assert!(!dead.exists() && other.exists() && not_ours.exists());
        assert!(!companion_of(&dead, "-wal").exists());
        assert!(first.temporary().exists() && second.temporary().exists());
        first.publish().unwrap();
        let error = second.publish().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
        assert!(error.is_retryable() && error.has_mark(Mark::MadeMeanwhile));
        assert!(path.exists());
    }

    // Elsewhere nothing tells files of one name apart.
    #[cfg(unix)]
    #[test]
    fn a_new_file_with_the_name_of_a_leftover_stays() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join(".a.db.leafpress-1-0.tmp");
        let make = || claim(&name, Rights::new_database()).unwrap().unwrap();
        let first = make();
        let opened = FileHandle::open_as(&name, Open::ReadWrite).unwrap();
        remove_if_left(&name, &opened);
        assert!(name.exists(), "its maker lives");
        // Its maker ends, and another one takes the name, after the look and before the removal.
        disk::remove(&name).unwrap();
        drop(first);
        let second = make();
        remove_if_left(&name, &opened);
        assert!(second.handle().is_at(&name));
        drop((second, opened));
        let opened = FileHandle::open_as(&name, Open::ReadWrite).unwrap();
        remove_if_left(&name, &opened);
        assert!(!name.exists(), "no maker lives");
    }

    #[test]
    fn a_stale_journal_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.db-wal"), "x").unwrap();
        let error =
            Destination::create(&folder.path().join("a.db"), Rights::new_database()).unwrap_err();
        assert!(error.to_string().contains("a.db-wal"), "{error}");
        fs::remove_file(folder.path().join("a.db-wal")).unwrap();
        fs::write(folder.path().join("a.db-shm"), "x").unwrap();
        let error = Destination::create(&folder.path().join("a.db"), Rights::new_database())
            .unwrap_err()
            .to_string();
        assert!(error.contains("a.db-shm") && error.contains("holds no data"), "{error}");
    }
}
