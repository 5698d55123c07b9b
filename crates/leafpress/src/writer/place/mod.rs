//! Checks that the database still stands where the writer has opened it.
//!
//! A file that is deleted, or whose name is given to another file, can be written on: each
//! commit succeeds, and its rows are where no other program finds them. The same goes for the
//! log beside it, which then is another log for each process. So the writer looks at the
//! names of both before it answers a group.
//!
//! | looked at | how often |
//! |---|---|
//! | the path that was opened, links followed, and `-wal` | after each commit, before its answers |
//! | the same and `-shm` | before a group, if the last look is a while ago |
//!
//! Each look is one system call for each name, which does not ask for the times of the file. Where
//! a caller named the VFS, that is asked instead. A writer that has looked often asks the kernel for
//! notices of moved files (`moves.rs`), and looks after a commit only if there is one.
//!
//! Must never: take a file that may not be looked at for one that is gone, or open one.

#[cfg(target_os = "linux")]
mod moves;
#[cfg(not(target_os = "linux"))]
#[path = "moves_elsewhere.rs"]
mod moves;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};

use self::moves::Moves;
use crate::error::{Error, ErrorKind, Result};
use crate::paths::companion_of;
use crate::profile::{OpenHere, ProfileRequest};
use crate::vfs::FileIdentity;
use crate::vfs::database_file;
use crate::words::path_text;

/// A look that is as old as this is taken anew before a group, so that a call that comes after
/// a pause is refused with nothing done.
const FRESH_FOR: Duration = Duration::from_millis(10);

/// Number of looks after which notices are asked for: to end them can take the kernel 20 ms, which
/// looks cost only after some thousands.
const LOOKS_BEFORE_NOTICES: u32 = 4000;

/// Returns true if SQLite refused a statement because the database was moved.
pub(super) fn is_moved_database(source: &rusqlite::Error) -> bool {
    source.sqlite_error().is_some_and(|it| it.extended_code == ffi::SQLITE_READONLY_DBMOVED)
}

/// Returns true if this is the error of such a statement.
pub(super) fn is_moved(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|it| it.downcast_ref());
    source.is_some_and(is_moved_database)
}

/// A file that must keep its name.
#[derive(Debug)]
pub(super) struct Watched {
    /// Its name in messages, such as "the database".
    what: &'static str,
    path: PathBuf,
    #[cfg(unix)]
    name: std::ffi::CString,
    identity: Option<FileIdentity>,
    /// True if the place is checked before groups only.
    is_rarely_asked: bool,
}

/// Checks that the database still stands where the writer has opened it.
#[derive(Debug)]
pub(super) struct DatabasePlace {
    files: Vec<Watched>,
    /// True if only the VFS knows where the database is.
    asks_vfs: bool,
    path: PathBuf,
    looked_at: Instant,
    /// Number of looks so far, up to the one after which notices are asked for.
    looks: u32,
    /// Notices about the files that are looked at after each commit, if the kernel gives them.
    moves: Option<Moves>,
    /// Note of the database and its log.
    open_here: Option<OpenHere>,
}

/// The outcome of a look at a name.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    File(FileIdentity),
    Nothing,
    /// The system does not say.
    Unknown,
}

impl DatabasePlace {
    /// The place of a database that was just opened by `path`, as the request says.
    ///
    /// # Errors
    /// If it was moved or replaced since it was opened.
    pub(super) fn of(
        connection: &Connection,
        path: &Path,
        request: &ProfileRequest,
    ) -> Result<Self> {
        let asks_vfs = request.vfs.is_some();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut place = Self {
            files: Vec::new(),
            asks_vfs,
            path: path.clone(),
            looked_at: Instant::now(),
            looks: 0,
            moves: None,
            open_here: None,
        };
        if !asks_vfs {
            let resolved = database_file::path(connection).unwrap_or_else(|| path.clone());
            place.open_here = OpenHere::note(&resolved, request.profile);
            let beside = |suffix| companion_of(&resolved, suffix);
            place.files = [
                Watched::database(path),
                Watched::new("the log of the database", beside("-wal"), false),
                Watched::new("the index of the log", beside("-shm"), true),
            ]
            .into_iter()
            .flatten()
            .collect();
        }
        if database_file::has_moved(connection) == Some(true) {
            return Err(place.refusal("was moved or replaced while it was being opened"));
        }
        Ok(place)
    }

    /// Checks the place before a group, if the last look is a while ago. The error is the reason
    /// for which no group may be begun.
    pub(super) fn check_before(&mut self, connection: &Connection) -> Result<(), String> {
        if self.looked_at.elapsed() < FRESH_FOR {
            return Ok(());
        }
        self.look(connection, true)
    }

    /// Checks the place after a commit. The error is the reason for which its calls may not be
    /// answered with success.
    pub(super) fn check_after(&mut self, connection: &Connection) -> Result<(), String> {
        if self.moves.as_ref().is_some_and(|moves| !moves.any()) {
            return Ok(());
        }
        self.look(connection, false)?;
        if self.ask_for_notices() {
            // A file may have been moved before its notices began.
            return self.look(connection, false);
        }
        Ok(())
    }

    /// Asks for notices, once, after many looks. Returns true if they have begun.
    fn ask_for_notices(&mut self) -> bool {
        if self.looks == LOOKS_BEFORE_NOTICES {
            return false;
        }
        self.looks += 1;
        if self.looks < LOOKS_BEFORE_NOTICES || self.asks_vfs {
            return false;
        }
        // A file that is not there yet has no name to lose.
        let there = self.files.iter().filter(|file| !file.is_rarely_asked);
        let there = there.filter(|file| file.identity.is_some());
        self.moves = Moves::of(there.map(|file| file.path.as_path()));
        self.moves.is_some()
    }

    fn look(&mut self, connection: &Connection, at_all: bool) -> Result<(), String> {
        self.looked_at = Instant::now();
        if self.asks_vfs && database_file::has_moved(connection) == Some(true) {
            let path = path_text(&self.path);
            return Err(format!("the database {path} is gone or another file, says its VFS"));
        }
        let mut due = self.files.iter_mut().filter(|file| at_all || !file.is_rarely_asked);
        due.try_for_each(Watched::check).map_err(|reason| self.with_files_left_behind(reason))
    }

    /// Adds which files the old database has left beside the new one.
    fn with_files_left_behind(&mut self, reason: String) -> String {
        match self.open_here.as_ref().and_then(OpenHere::leave_behind) {
            Some(left) => format!(
                "{reason}; files of the old database are beside it ({left}): move them away \
                 before anything opens the new one, or SQLite writes the old pages into it"
            ),
            None => reason,
        }
    }

    fn refusal(&self, reason: &str) -> Error {
        let (path, reason) = (self.path.clone(), reason.to_owned());
        Error::from(ErrorKind::Destination { path, reason }).to_do("open it again")
    }
}

impl Watched {
    /// The file of this name; `None` where the system has no such names.
    #[cfg(unix)]
    fn new(what: &'static str, path: PathBuf, is_rarely_asked: bool) -> Option<Self> {
        use std::os::unix::ffi::OsStrExt as _;

        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
        let mut file = Self { what, path, name, identity: None, is_rarely_asked };
        // A log is made when it is needed; a database that is not there is none of the system.
        if let Found::File(identity) = file.found() {
            file.identity = Some(identity);
        } else if file.what == "the database" {
            return None;
        }
        Some(file)
    }

    #[cfg(not(unix))]
    fn new(_what: &'static str, _path: PathBuf, _is_rarely_asked: bool) -> Option<Self> {
        // Windows does not let go of the name of a file that is open.
        None
    }

    #[cfg(unix)]
    fn found(&self) -> Found {
        use rustix::io::Errno;

        match FileIdentity::of_name(&self.name) {
            Ok(identity) => Found::File(identity),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Found::Nothing,
            // After a change of user, for example, the folder may not be looked into.
            Err(_) => Found::Unknown,
        }
    }

    #[cfg(not(unix))]
    fn found(&self) -> Found {
        Found::Unknown
    }

    /// The database at this path; `None` where the system has no such names.
    pub(super) fn database(path: PathBuf) -> Option<Self> {
        Self::new("the database", path, false)
    }

    /// Checks the name, and takes the file of a name that had none.
    fn check(&mut self) -> Result<(), String> {
        if self.identity.is_some() {
            return self.look();
        }
        if let Found::File(now) = self.found() {
            self.identity = Some(now);
        }
        Ok(())
    }

    /// Looks at the name. The error says how it is another file's now.
    pub(super) fn look(&self) -> Result<(), String> {
        let what = self.what;
        let Some(then) = self.identity else { return Ok(()) };
        match self.found() {
            Found::Unknown => Ok(()),
            Found::File(now) if now == then => Ok(()),
            Found::Nothing => Err(format!(
                "{what} is gone from {}: it or its folder was deleted or moved while the writer \
                 had it open",
                path_text(&self.path)
            )),
            Found::File(_) => Err(format!(
                "{} is another file now: {what} was replaced while the writer had it open",
                path_text(&self.path)
            )),
        }
    }
}
