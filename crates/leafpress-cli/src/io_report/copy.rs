//! A copy of a database that can be written to at will, and that is gone afterwards.
//!
//! The copy stands in a hidden folder beside the original and has the original's name, as the
//! costs to be measured are those of the disk and the file system there. SQLite's online backup
//! makes it page by page: its B-trees are cut as the original's are, and it has the pages that
//! only the original's `-wal` holds.
//!
//! Invariants:
//! 1. The original is only read, and no file beside it is made or left.
//! 2. The folder goes with the [`Copy`] that owns it, whatever happens: an error,
//!    a panic, a wish to stop. Only a killed process leaves it, with a lock that
//!    no process holds, and the next copy of the same database removes it.
//! 3. The copy is on the disk before the caller gets it, so that the script's first
//!    sync does not pay for it.
//!
//! Must never: remove a folder that another process has locked.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leafpress::Candidate;
use leafpress::hidden::{HiddenNames, claims, is_left};
use leafpress::vfs::locks::{self, FileHandle, Open};
use leafpress::vfs::paths::folder_of;
use leafpress::vfs::rights::{Rights, make_private_folder};
use leafpress::{Error, ErrorKind, Result, path_text, storage};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::{human, output};

/// The state on disk that every error of this module gives.
pub(super) const UNTOUCHED: &str = "the database is as it was; no copy was left";
/// Pages between two looks at the wish to stop.
const PAGES_A_STEP: i32 = 1000;
/// Room for what statements add to the copy, at the least.
const ROOM_TO_GROW_BYTES: u64 = 16 << 20;
const PAUSE: Duration = Duration::from_millis(5);
const LOCK_NAME: &str = "lock";

/// A copy, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Copy {
    scratch: Scratch,
    path: PathBuf,
}

impl Copy {
    /// Copies `database` into a folder of its own, beside it or in `folder`. Waits up to
    /// `busy_timeout` for a program that writes it.
    ///
    /// # Errors
    /// When there is no database, it cannot be read without being recovered,
    /// there is no room, or the folder cannot be written to.
    pub(super) fn make(
        database: &Path,
        folder: Option<&Path>,
        busy_timeout: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let candidate = Candidate::look_at(database)?.waiting(busy_timeout);
        Self::make_of(&candidate, folder, busy_timeout, stop)
            .map_err(|error| error.on_disk(UNTOUCHED))
    }

    fn make_of(
        candidate: &Candidate,
        folder: Option<&Path>,
        busy_timeout: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let original = candidate.path();
        let folder = folder.unwrap_or_else(|| folder_of(original));
        let refused = |error| candidate.refused("read the database", error);
        let source = candidate.open().map_err(refused)?;
        // From here on the copy is of one moment.
        source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(refused)?;
        check_room(folder, bytes_of(&source).map_err(refused)?)?;
        let name = &utf_8_name(original.file_name().unwrap_or_default());
        refuse_unless_utf_8(folder)?;
        let scratch = Scratch::make(folder, name, original)?;
        let path = scratch.folder.join(name);
        // SQLite gives the journal and the log of the copy the rights that the copy has.
        FileHandle::create(&path, Rights::private(original))
            .map_err(|source| Error::io("make", &path, source))?;
        let copy = Self { scratch, path };
        copy.fill(&source, candidate, busy_timeout, stop)?;
        drop(source);
        candidate.still_the_same()?;
        copy.sync().map_err(|source| Error::io("sync", &copy.path, source))?;
        Ok(copy)
    }

    /// The copy's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder that goes with the copy.
    pub(super) fn folder(&self) -> &Path {
        &self.scratch.folder
    }

    fn fill(
        &self,
        source: &Connection,
        candidate: &Candidate,
        busy_timeout: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let refused =
            |source| Error::sqlite("write the copy", source).to_do("see that there is room");
        let mut target = open(&self.path).map_err(refused)?;
        // A copy that is not finished is removed, so nothing needs a way back.
        target.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF").map_err(refused)?;
        let backup = Backup::new(source, &mut target).map_err(refused)?;
        let began = Instant::now();
        loop {
            if stop() {
                return Err(ErrorKind::Cancelled.into());
            }
            match backup.step(PAGES_A_STEP).map_err(refused)? {
                StepResult::Done => return Ok(()),
                StepResult::More => {}
                _ if began.elapsed() < busy_timeout => std::thread::sleep(PAUSE),
                _ => {
                    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                    let busy = rusqlite::Error::SqliteFailure(busy, None);
                    return Err(candidate.refused("read the database", busy));
                }
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        FileHandle::open_as(&self.path, Open::ReadWrite)?.sync_all()
    }
}

/// Opens the file of a copy.
#[expect(clippy::disallowed_methods, reason = "no other connection has the copy open")]
fn open(copy: &Path) -> rusqlite::Result<Connection> {
    locks::ensure();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(copy, flags)
}

/// The name of a copy. SQLite's VFS is told names as UTF-8 here, so bytes that are none are
/// written out.
fn utf_8_name(name: &OsStr) -> OsString {
    if name.to_str().is_some() { name.to_owned() } else { path_text(Path::new(name)).into() }
}

fn refuse_unless_utf_8(folder: &Path) -> Result<()> {
    if folder.to_str().is_some() {
        return Ok(());
    }
    Err(Error::destination(folder, "its path is not UTF-8, as the path of a copy must be")
        .to_do("name another folder on a disk of the same kind with --copy-to DIR"))
}

fn bytes_of(connection: &Connection) -> rusqlite::Result<u64> {
    let ask = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    Ok(ask("page_count")?.unsigned_abs().saturating_mul(ask("page_size")?.unsigned_abs()))
}

fn check_room(folder: &Path, copy_bytes: u64) -> Result<()> {
    // The transactions grow it, and have a journal or a log.
    let needed_bytes = copy_bytes + (copy_bytes / 10).max(ROOM_TO_GROW_BYTES);
    match storage::free_bytes(folder) {
        Some(free_bytes) if free_bytes < needed_bytes => {
            let reason = format!(
                "has {} free, and a copy of the database needs {}",
                human::bytes(free_bytes),
                human::bytes(needed_bytes)
            );
            Err(Error::destination(folder, reason).to_do(
                "free some, name a folder on another disk of the same kind with --copy-to DIR, \
                 or change the database itself with --in-place",
            ))
        }
        _ => Ok(()),
    }
}

/// A hidden folder of our own, and the lock that tells others that we are alive.
#[derive(Debug)]
struct Scratch {
    folder: PathBuf,
    lock: Option<FileHandle>,
}

impl Scratch {
    fn make(parent: &Path, name: &OsStr, original: &Path) -> Result<Self> {
        let names = HiddenNames::new(name, ".leafpress-io-", "");
        remove_leftovers(parent, &names);
        let refused = |source: io::Error| {
            Error::io("make a copy of the database in", parent, source).to_do(
                "name a folder that you may write to, on a disk of the same kind, with \
                 --copy-to DIR, or change the database itself with --in-place",
            )
        };
        for hidden in names.attempts() {
            let folder = parent.join(hidden);
            match make_private_folder(&folder, original) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(refused(error)),
            }
            // From here on a failure removes it.
            let mut scratch = Self { folder, lock: None };
            let path = scratch.folder.join(LOCK_NAME);
            let lock = FileHandle::create(&path, Rights::private(original)).map_err(refused)?;
            if !claims(&lock, &path) {
                // Another process took the folder for a leftover, and removes it or has done so.
                std::mem::forget(scratch);
                continue;
            }
            scratch.lock = Some(lock);
            return Ok(scratch);
        }
        Err(refused(io::ErrorKind::AlreadyExists.into()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Windows removes no file that is open.
        self.lock = None;
        if let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            let folder = path_text(&self.folder);
            output::print_warning(&format!("the copy in {folder} was not removed: {error}"));
        }
    }
}

/// Removes folders whose maker is dead. What cannot be removed does no harm and is left.
fn remove_leftovers(parent: &Path, names: &HiddenNames) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !names.is_one(&entry.file_name()) {
            continue;
        }
        let name = entry.path().join(LOCK_NAME);
        let lock = FileHandle::open_as(&name, Open::ReadWrite);
        if lock.is_ok_and(|lock| is_left(&lock, &name)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: &dyn Fn() -> bool = &|| false;
    const WAIT: Duration = Duration::from_secs(5);

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    fn database(folder: &Path, settings: &str) -> Connection {
        let connection = Connection::open(folder.join("a.db")).unwrap();
        let rows = "CREATE TABLE t(a); INSERT INTO t SELECT randomblob(900) FROM
                    (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9000)
                     SELECT i FROM n)";
        connection.execute_batch(&format!("{settings}; {rows}")).unwrap();
        connection
    }

    fn rows_in(path: &Path) -> i64 {
        let connection = Connection::open(path).unwrap();
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_copy_has_all_pages_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(database(folder.path(), "PRAGMA page_size=8192; PRAGMA auto_vacuum=FULL"));
        let original = folder.path().join("a.db");
        let before = fs::read(&original).unwrap();
        let copy = Copy::make(&original, None, WAIT, NEVER).unwrap();
        assert_eq!(copy.path().file_name(), original.file_name());
        let mut copied = fs::read(copy.path()).unwrap();
        // SQLite counts the change and the schema's, and notes who did it.
        for counter in [24..28, 40..44, 92..100] {
            copied[counter.clone()].copy_from_slice(&before[counter]);
        }
        assert!(copied == before, "byte by byte");
        assert_eq!(names_in(folder.path()).len(), 2);
        drop(copy);
        assert_eq!(names_in(folder.path()), ["a.db"]);
        assert!(fs::read(&original).unwrap() == before);
    }

    #[test]
    fn what_only_the_log_holds_is_copied_while_others_have_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let open = database(folder.path(), "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0");
        let before = names_in(folder.path());
        let copy = Copy::make(&folder.path().join("a.db"), None, WAIT, NEVER).unwrap();
        assert_eq!(rows_in(copy.path()), 9000);
        let mode: String = Connection::open(copy.path())
            .unwrap()
            .pragma_query_value(None, "journal_mode", |row| row.get(0))
            .unwrap();
        assert_eq!(mode, "wal", "the mode belongs to the file");
        drop(copy);
        assert_eq!(names_in(folder.path()), before);
        drop(open);
    }

    #[test]
    fn a_wish_to_stop_ends_it_without_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        drop(database(folder.path(), ""));
        let looks = std::cell::Cell::new(0);
        let stop = || looks.replace(looks.get() + 1) == 2;
        let error = Copy::make(&folder.path().join("a.db"), None, WAIT, &stop).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
        assert_eq!(error.state_on_disk(), Some(UNTOUCHED));
        assert_eq!(names_in(folder.path()), ["a.db"]);
    }

    #[test]
    fn a_panic_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(database(folder.path(), ""));
        let path = folder.path().join("a.db");
        let outcome = std::panic::catch_unwind(|| {
            let _copy = Copy::make(&path, None, WAIT, NEVER).unwrap();
            panic!("on purpose");
        });
        assert!(outcome.is_err());
        assert_eq!(names_in(folder.path()), ["a.db"]);
    }

    #[test]
    fn leftovers_go_and_living_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        drop(database(folder.path(), ""));
        let dead = folder.path().join(".a.db.leafpress-io-1-0");
        let other = folder.path().join(".b.db.leafpress-io-1-0");
        let not_ours = folder.path().join(".a.db.leafpress-io-mine");
        for leftover in [&dead, &other, &not_ours] {
            fs::create_dir(leftover).unwrap();
            fs::write(leftover.join(LOCK_NAME), "").unwrap();
            fs::write(leftover.join("a.db-journal"), "x").unwrap();
        }
        let path = folder.path().join("a.db");
        let first = Copy::make(&path, None, WAIT, NEVER).unwrap();
        let second = Copy::make(&path, None, WAIT, NEVER).unwrap();
        assert!(!dead.exists() && other.exists() && not_ours.exists());
        assert!(first.path().exists() && second.path().exists());
    }

    #[test]
    fn it_can_stand_elsewhere_and_needs_a_folder_that_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        drop(database(folder.path(), ""));
        let path = folder.path().join("a.db");
        let copy = Copy::make(&path, Some(elsewhere.path()), WAIT, NEVER).unwrap();
        assert!(copy.path().starts_with(elsewhere.path()));
        assert_eq!(names_in(folder.path()), ["a.db"]);
        let missing = elsewhere.path().join("missing");
        let error = Copy::make(&path, Some(&missing), WAIT, NEVER).unwrap_err();
        assert!(error.advice().is_some_and(|it| it.contains("--in-place")), "{error}");
        assert_eq!(error.state_on_disk(), Some(UNTOUCHED));
    }

    #[test]
    fn a_copy_that_has_no_room_is_not_begun() {
        let folder = tempfile::tempdir().unwrap();
        match storage::free_bytes(folder.path()) {
            Some(_) => {
                let error = check_room(folder.path(), 1 << 60).unwrap_err();
                assert!(error.to_string().contains(" free, and a copy"), "{error}");
                check_room(folder.path(), 4096).unwrap();
            }
            None => check_room(folder.path(), 1 << 60).unwrap(),
        }
    }
}
