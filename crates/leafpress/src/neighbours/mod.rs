//! Other processes at a database. Also their locks, and dangers for it.
//!
//! [`neighbours`](fn@neighbours) asks the system, not SQLite: it never waits for a lock
//! and never takes one, so it also works while a database is locked. It sees one moment;
//! locks come and go.
//!
//! | file | does |
//! |---|---|
//! | `files.rs` | the database, `-wal`, `-shm`, `-journal` and `-shared`, as the folder shows them |
//! | `processes.rs` | goes through `/proc`: the processes that have them open, and their locks |
//! | `lock_text.rs`, `maps.rs` | read the texts in `/proc` |
//! | `lock_names.rs` | from byte ranges to SQLite's locks |
//! | `locks.rs` | the holder of each lock, from all that was seen |
//! | `wal_index.rs` | how far the log is filled, copied and read |
//! | `versions.rs` | if SQLite is in a file, and which version |
//! | `words.rs` | all this as sentences |
//!
//! The answers of the database itself, through SQLite, are in `inside.rs` beside this folder.
//!
//! Must never: open the database or a file beside it but by way of `vfs/locks`, as closing
//! it would drop locks of this process. Must never change anything.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Result;
use crate::paths::folder_of;
use crate::storage::FileSystem;
use crate::wal_reset::check_background_checkpoints;

mod files;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "texts of Linux alone"))]
mod lock_names;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "texts of Linux alone"))]
mod lock_text;
mod locks;
#[cfg(target_os = "linux")]
mod maps;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(all(test, target_os = "linux"))]
mod tests;
#[cfg(target_os = "linux")]
mod versions;
mod wal_index;
mod words;

pub use crate::inside::{ConnectionDefaults, Inside, connection_defaults, look_inside};
pub use files::{FileFacts, Which};
pub use lock_names::SqliteLock;
pub use lock_text::LockStyle;
pub use locks::{LockHeld, LogReader};
pub use wal_index::LogIndex;
pub use words::holders_sentence;

/// The processes at a database, and what was found beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Neighbours {
    /// The database: absolute, links resolved.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub database: PathBuf,
    /// The source of these answers.
    pub asked: Asked,
    /// Its files that are there.
    pub files: Vec<FileFacts>,
    /// Processes that have one of them open.
    pub processes: Vec<Neighbour>,
    /// Processes that may have, and that this user may not look at.
    pub processes_not_asked: u64,
    /// The locks on them.
    pub locks: Vec<LockHeld>,
    /// The index of the write-ahead log, if there is one.
    pub log: Option<LogIndex>,
    /// Reasons to believe that this process has a second copy of SQLite, or other code, at the
    /// database; empty if nothing says so.
    pub second_copy: Vec<String>,
    /// The SQLite that this library was built with.
    pub linked: LinkedSqlite,
    /// The file system, where the system tells.
    pub file_system: Option<FileSystem>,
}

/// A source of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Asked {
    /// `/proc`: processes, descriptors and locks.
    Proc,
    /// The folder alone: this system does not tell the processes that have a file open.
    FolderOnly,
}

/// A process that has a file of the database open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Neighbour {
    /// Its number.
    pub pid: u32,
    /// Its short name.
    pub name: String,
    /// Its command line; empty if it has none.
    pub command: String,
    /// True for this process.
    pub is_this_process: bool,
    /// Its descriptors of the database's files.
    pub open: Vec<OpenFile>,
    /// Of the files that it runs, those that have SQLite inside, those that could not be read, and
    /// those with SQLite, Leafpress or eatmydata in their names.
    pub libraries: Vec<Library>,
}

/// A descriptor of one of the database's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OpenFile {
    /// Its number in the process.
    pub descriptor: i32,
    /// Kind of the file.
    pub which: Which,
    /// The file's name, as the system tells it.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub path: PathBuf,
    /// Its relation to the file in the folder.
    pub standing: Standing,
}

/// The relation of a file that a process has open to the one in the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// The name leads to that file.
    InPlace,
    /// No file has that name any more.
    Deleted,
    /// Another file has its name now.
    Replaced,
    /// It belongs to the name under which the process has opened the database, which is
    /// another one than now.
    OfOtherName,
}

/// A library, or a program, that a process runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Library {
    /// Its file, as the process sees it.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub path: PathBuf,
    /// True if the code of SQLite is in it, which a file that only calls SQLite does not have;
    /// `None` if it could not be read, or not in time.
    pub holds_sqlite: Option<bool>,
    /// The version of SQLite whose text stands in it: thin evidence. `None` if no text tells it,
    /// or several do.
    pub version: Option<String>,
    /// True if this version has the WAL-reset bug.
    pub has_wal_reset_bug: Option<bool>,
}

/// The SQLite that this library was built with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LinkedSqlite {
    /// Its version.
    pub version: &'static str,
    /// Its version as a number, such as 3051003.
    pub version_number: i32,
    /// It can damage a database when one connection makes a checkpoint while another writes.
    pub has_wal_reset_bug: bool,
}

impl LinkedSqlite {
    fn ask() -> Self {
        let version_number = rusqlite::version_number();
        Self {
            version: rusqlite::version(),
            version_number,
            has_wal_reset_bug: check_background_checkpoints(version_number).is_err(),
        }
    }
}

/// Looks at a database from outside: the processes that have it open, their locks, and the files
/// that are open, compared with those in the folder.
///
/// The database need not be there, as its files may still be open somewhere. Processes of
/// other users can be looked at by root only; those that could not are counted.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// let writer = leafpress::writer::Writer::builder(&path).open()?;
/// let found = leafpress::neighbours(&path)?;
/// for process in &found.processes {
///     println!("process {} ({}) has it open", process.pid, process.command);
/// }
/// println!("{found}");
/// # Ok::<(), leafpress::Error>(())
/// ```
///
/// # Errors
/// When `path` is a folder, or its folder cannot be reached. Nothing was changed.
pub fn neighbours(path: impl AsRef<Path>) -> Result<Neighbours> {
    let found = ask(path.as_ref(), true);
    found.map_err(|error| error.on_disk("nothing was changed"))
}

/// `with_libraries`: also what SQLite the processes run, for which the files that they run are read.
pub(crate) fn ask(path: &Path, with_libraries: bool) -> Result<Neighbours> {
    let database = files::resolve(path)?;
    let files = files::look(&database);
    let folder = folder_of(&database);
    let in_shared_memory = files.iter().find(|file| file.which == Which::SharedMemory);
    let log = in_shared_memory.and_then(|file| wal_index::read(&file.path));
    let file_system = FileSystem::of(if files.is_empty() { folder } else { &files[0].path }).ok();

    #[cfg(target_os = "linux")]
    let seen = processes::look(&database, &files, with_libraries);
    #[cfg(target_os = "linux")]
    let (locks, second_copy) =
        (locks::join(&seen), locks::second_copy(&seen, &crate::vfs::locks::own_descriptors()));
    #[cfg(target_os = "linux")]
    let (asked, processes, processes_not_asked) = (Asked::Proc, seen.processes, seen.not_asked);
    #[cfg(not(target_os = "linux"))]
    let _ = with_libraries;
    #[cfg(not(target_os = "linux"))]
    let (asked, processes, processes_not_asked, locks, second_copy) =
        (Asked::FolderOnly, Vec::new(), 0, Vec::new(), Vec::new());

    Ok(Neighbours {
        asked,
        files,
        processes,
        processes_not_asked,
        locks,
        log,
        second_copy,
        linked: LinkedSqlite::ask(),
        file_system,
        database,
    })
}

impl Neighbours {
    /// One of the database's files, if it is there.
    pub fn file(&self, which: Which) -> Option<&FileFacts> {
        self.files.iter().find(|file| file.which == which)
    }

    /// The process with this number, if it has a file of the database open.
    pub fn process(&self, pid: u32) -> Option<&Neighbour> {
        self.processes.iter().find(|process| process.pid == pid)
    }

    /// Processes other than this one that have a file of the database open.
    pub fn others(&self) -> impl Iterator<Item = &Neighbour> {
        self.processes.iter().filter(|process| !process.is_this_process)
    }

    /// Descriptors that are not of the files in the folder.
    pub fn lost_files(&self) -> impl Iterator<Item = (&Neighbour, &OpenFile)> {
        let of = |process| std::iter::repeat(process);
        let all = self.processes.iter().flat_map(move |it: &Neighbour| of(it).zip(&it.open));
        all.filter(|(_, file)| file.standing != Standing::InPlace)
    }

    /// Processes that use the index of this database's log, but have another database open, or
    /// another log: the files in the folder took the place of theirs, or theirs were renamed.
    pub fn with_other_files(&self) -> impl Iterator<Item = (&Neighbour, Which)> {
        let has = |it: &Neighbour, which| it.open.iter().any(|file| file.which == which);
        // A process that copies the file has it open too, but does not lock it.
        let is_user = |it: &&Neighbour| {
            let is_lock = |held: &LockHeld| {
                held.lock == SqliteLock::SharedMemory && held.pids.contains(&it.pid)
            };
            self.locks.iter().any(is_lock)
        };
        self.processes.iter().filter(is_user).filter_map(move |process| {
            let missing = [Which::Database, Which::Log].into_iter().find(|it| !has(process, *it));
            missing.map(|which| (process, which))
        })
    }
}

impl Neighbour {
    /// Files that have the code of SQLite in them. A process with two of them has two copies of
    /// SQLite; which of them has opened the database is not told by that.
    pub fn copies_of_sqlite(&self) -> Vec<&Library> {
        self.libraries.iter().filter(|library| library.holds_sqlite == Some(true)).collect()
    }
}
