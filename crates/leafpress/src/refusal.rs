//! Kinds of errors, where SQLite refuses a database. There is one for each cause.
//!
//! All ways into a database ask here: the loader, [`profile::open`](crate::profile::open) and
//! with it the writer and the queue, readers, databases as inputs, and
//! [`verify`](crate::verify). SQLite says "unable to open database file" of a file without
//! rights, of a folder without rights and of a log without rights; so the file system is asked
//! which of them it is.
//!
//! | cause | kind |
//! |---|---|
//! | a connection holds it | [`ErrorKind::Busy`] |
//! | file, folder or file system cannot be written | [`ErrorKind::ReadOnly`] |
//! | the file or its folder is not there | [`ErrorKind::NotFound`] |
//! | the file cannot be opened, even to be read | [`ErrorKind::Io`] |
//! | a folder, no database, or one of a format that is newer than this SQLite | [`ErrorKind::NotADatabase`] |
//! | damage | [`ErrorKind::Damaged`] |
//! | locks that do not work | [`ErrorKind::Destination`] |
//! | a full disk | [`ErrorKind::NoSpace`] |
//!
//! Must never: say what is on disk, which only its caller knows.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafpress_format::{DATABASE_HEADER_BYTES, header};
use rusqlite::ErrorCode;

use crate::error::{
    Error, ErrorKind, FEWER_FILES, OR_FULL_OTHERWISE, Result, has_no_inodes, lack_of_files,
};
use crate::file_kind::what_a_file_is;
use crate::neighbours::holders_sentence;
use crate::paths::{companion_of, folder_of, why_too_long};
use crate::rights::unnamed_file;
use crate::sqlite_error::sqlite_says;
use crate::vfs::locks::FileHandle;
use crate::words::path_text;

/// A database that SQLite refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal<'r> {
    /// Its path, as its caller named it.
    pub named: &'r Path,
    /// Its file; `None` behind a VFS of the caller, which alone knows where its files are.
    pub file: Option<&'r Path>,
    /// Duration for which a lock was waited for.
    pub waited: Duration,
}

impl Refusal<'_> {
    /// The error for SQLite's answer.
    pub fn error(&self, action: &'static str, source: rusqlite::Error) -> Error {
        match self.known(&source) {
            Some(error) => error.caused_by(source),
            None => Error::sqlite(action, source),
        }
    }

    /// The error for SQLite's answer if the answer has a known cause.
    pub fn known(&self, source: &rusqlite::Error) -> Option<Error> {
        let says = sqlite_says(source);
        Some(match source.sqlite_error_code()? {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => self.locked(
                "is locked by another program that writes it, or that reads it for a long time",
                source,
                "try again when that is done, or wait for it longer",
            ),
            ErrorCode::ReadOnly => self.read_only(&says),
            ErrorCode::CannotOpen => self.not_opened(&says),
            ErrorCode::NotADatabase => self.no_database(),
            ErrorCode::Unknown if says == "unsupported file format" => self.no_database(),
            ErrorCode::DatabaseCorrupt => Error::damaged(Some(self.named), &says),
            ErrorCode::DiskFull => self.no_space(Error::copy_of(source)),
            // The memory that connections share in WAL mode lies in a file too.
            ErrorCode::SystemIoFailure if self.has_no_room() => {
                self.no_space(format!("{says}, as the disk or the quota is full"))
            }
            ErrorCode::FileLockingProtocolFailed => {
                self.unreadable().unwrap_or_else(|| self.not_locked(&says))
            }
            ErrorCode::OperationInterrupted => ErrorKind::Cancelled.into(),
            _ => return None,
        })
    }

    fn not_locked(&self, says: &str) -> Error {
        self.in_the_way(format!(
            "cannot be locked: {says}; the file system (a network share?) has no locks that SQLite \
             can use"
        ))
        .to_do("use it on the machine that has the disk")
    }

    /// The error of a database that a connection holds; `how` says in which way.
    pub fn locked(&self, how: &str, source: &rusqlite::Error, advice: &str) -> Error {
        let code = source.sqlite_error().copied();
        let code = code.unwrap_or(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY));
        let text = format!("{} {how}", path_text(self.named));
        let source = rusqlite::Error::SqliteFailure(code, Some(text));
        Error::from(ErrorKind::Busy { waited: self.waited, source })
            .held_by(holders_sentence(self.file.unwrap_or(self.named)))
            .to_do(advice)
    }

    fn no_space(&self, answer: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let advice = format!("free some space, and try again{OR_FULL_OTHERWISE}");
        Error::no_space("write to", self.named, answer).to_do(advice)
    }

    /// Returns true if the disk, or the quota of this user, has no room for the files that SQLite keeps
    /// beside a database. A quota is not told by the file system's figures, so a file is tried.
    fn has_no_room(&self) -> bool {
        const ENOUGH_BYTES: usize = 64 << 10;
        let Some(file) = self.file.map(real_path) else { return false };
        let folder = folder_of(&file);
        let free = crate::storage::free_bytes(folder);
        if free.is_some_and(|free| free < ENOUGH_BYTES as u64) {
            return true;
        }
        let tried = unnamed_file(folder).and_then(|mut it| it.write_all(&vec![0; ENOUGH_BYTES]));
        matches!(
            tried.map_err(|error| error.kind()),
            Err(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        )
    }

    /// The error of a database that can be read, but not written.
    pub fn read_only(&self, says: &str) -> Error {
        if let Err(newer) = self.unless_newer() {
            return newer;
        }
        let file = self.file.map(real_path);
        let beside = |file: &PathBuf| companions(file).find_map(|it| why_not_writable(&it));
        let own = file.as_deref().and_then(why_not_writable);
        if let Some(why) = file.as_ref().filter(|_| own.is_none()).and_then(beside) {
            return self.not_writable(&why).to_do(
                "end the programs that have the database open, as the last one removes its -wal and \
                 -shm files; if they stay, have their owner give you leave to write to them, or remove \
                 both if the -wal file is empty",
            );
        }
        let why = own.or_else(|| why_no_journal(folder_of(file.as_deref()?)));
        self.not_writable(why.as_deref().unwrap_or(says)).to_do(
            "give yourself leave to write to the file and its folder, or use a copy in a folder \
             that you may write to",
        )
    }

    /// Refuses a database that only a newer SQLite may write to.
    pub fn unless_newer(&self) -> Result<()> {
        let why = self.file.map(real_path).as_deref().and_then(newer_to_write);
        let refusal = |why: String| {
            Err(self.not_writable(&why).to_do("write to it by a newer version of SQLite"))
        };
        why.map_or(Ok(()), refusal)
    }

    /// Refuses a file that this user may not write, or whose log, index of the log or journal this user
    /// may not write.
    ///
    /// It is asked before SQLite opens a file to write: for a connection that cannot write SQLite makes
    /// the `-wal` and `-shm` files of a database in WAL mode too. They would be this user's and stay, so
    /// that those who may write to the database could not do it any more.
    pub fn unless_writable(&self) -> Result<()> {
        let Some(file) = self.file.map(real_path) else { return Ok(()) };
        let mut all = std::iter::once(file.clone()).chain(companions(&file));
        if all.all(|it| why_not_writable(&it).is_none()) {
            return Ok(());
        }
        Err(self.unreadable().unwrap_or_else(|| self.read_only("you may not write to it")))
    }

    fn not_writable(&self, why: &str) -> Error {
        let reason = format!("cannot be written: {why}");
        ErrorKind::ReadOnly { path: self.named.to_owned(), reason }.into()
    }

    /// An error for a reason that has no kind of its own.
    pub fn in_the_way(&self, reason: String) -> Error {
        ErrorKind::Destination { path: self.named.to_owned(), reason }.into()
    }

    /// The error if SQLite could not open the database, or a file beside it.
    fn not_opened(&self, says: &str) -> Error {
        let Some(file) = self.file.map(real_path) else {
            return self.in_the_way(format!("cannot be opened: {says}"));
        };
        if let Some(error) = self.unreadable() {
            return error;
        }
        let is_writable = why_not_writable(&file)
            .or_else(|| companions(&file).find_map(|it| why_not_writable(&it)))
            .or_else(|| why_no_journal(folder_of(&file)))
            .is_none();
        if is_writable && has_no_inodes(&file) {
            return Error::no_space("make a file beside", self.named, says).to_do(FEWER_FILES);
        }
        if is_writable && self.has_no_room() {
            return self.no_space(format!("{says}, as the disk or the quota is full"));
        }
        if is_writable {
            return self
                .in_the_way(format!("cannot be opened: {says}"))
                .to_do("check its name, and whether you may write to it and to its folder");
        }
        self.read_only(says)
    }

    /// The error if the file, or one that SQLite keeps beside it, may not be read, or if this process
    /// may not open as many files as SQLite needs; `None` if they can be read.
    pub fn unreadable(&self) -> Option<Error> {
        let file = real_path(self.file?);
        let failed = |path: &Path| FileHandle::open(path).err();
        if let Some(source) = failed(&file) {
            return Some(not_readable(self.named, source));
        }
        let beside = companions(&file).find_map(|path| {
            let source = failed(&path).filter(|it| it.kind() != io::ErrorKind::NotFound)?;
            Some(not_readable(&path, source))
        });
        beside.or_else(|| Some(Error::io("open", self.named, lack_of_files()?)))
    }

    /// The error of a file that is no database: no connection can have it open.
    fn no_database(&self) -> Error {
        let what = self.file.and_then(what_a_file_is);
        let unknown = || "is not a database, or it is damaged or encrypted".to_owned();
        let (path, reason) = (self.named.to_owned(), what.unwrap_or_else(unknown));
        Error::from(ErrorKind::NotADatabase { path, reason }).to_do("name another file")
    }
}

/// The reason why a name is a URI or a database in memory to SQLite and not a path, or a path that is
/// too long; `None` if it is a path.
///
/// A URI has parameters that change how the database is opened (`?nolock=1`), and what is looked at
/// by its name would be another file than the one that is opened.
#[doc(hidden)]
pub fn why_no_path(name: &Path) -> Option<String> {
    if name.as_os_str() == ":memory:" {
        let says = "a database in memory outlives nothing: name a file; one that is called so is \
                    ./:memory:";
        return Some(says.to_owned());
    }
    let bytes = name.as_os_str().as_encoded_bytes();
    if bytes.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"file:")) {
        return Some(format!(
            "a database is named by its path, not by a URI; a file of that name is ./{}",
            path_text(name)
        ));
    }
    why_too_long(name)
}

/// Refuses a name that is a URI or a database in memory to SQLite, or too long for it.
pub(crate) fn refuse_unless_path(name: &Path) -> Result<()> {
    why_no_path(name).map_or(Ok(()), |reason| Err(Error::misuse(reason)))
}

/// Refuses what is there and no file, and a file that is shorter than a database's header. SQLite
/// takes one such as a single line end for an empty database, and writes over it.
pub(crate) fn refuse_unless_file(path: &Path, found: &fs::Metadata) -> Result<()> {
    let (reason, advice) = if found.is_dir() {
        ("is a directory, not a database".to_owned(), "name a file in it")
    } else if !found.is_file() {
        ("is not a regular file, so it cannot be a database".to_owned(), "name a file")
    } else if (1..DATABASE_HEADER_BYTES as u64).contains(&found.len()) {
        let cut = || "is cut short: it ends inside a database's header".to_owned();
        (what_a_file_is(path).unwrap_or_else(cut), "name another file")
    } else {
        return Ok(());
    };
    let path = path.to_owned();
    Err(Error::from(ErrorKind::NotADatabase { path, reason }).to_do(advice))
}

/// Refuses a database with a folder, a link, a FIFO or the like where SQLite keeps its log, the index
/// of that, or its journal. SQLite follows no link there, and would wait for the other end of a FIFO.
pub(crate) fn refuse_odd_companions(file: &Path) -> Result<()> {
    for path in companions(&real_path(file)) {
        let Ok(found) = path.symlink_metadata() else { continue };
        let what = match found.file_type() {
            it if it.is_file() => continue,
            it if it.is_dir() => "a directory",
            it if it.is_symlink() => "a symbolic link",
            _ => "not a regular file",
        };
        let reason =
            format!("is {what}, and by that name SQLite keeps a file of {}", path_text(file));
        let error = Error::from(ErrorKind::Destination { path, reason });
        return Err(error.to_do("see what it is for, and move it away"));
    }
    refuse_log_of_emptied(file)
}

/// Refuses an empty database beside a log, which SQLite would delete. The log is looked at first: a
/// database that is made meanwhile has its log later than its first page.
fn refuse_log_of_emptied(file: &Path) -> Result<()> {
    let log = companion_of(&real_path(file), "-wal");
    if !holds_something(&log) || !fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() == 0) {
        return Ok(());
    }
    let shown = path_text(file);
    let reason =
        format!("is the write-ahead log of {shown}, which is empty now: SQLite would delete it");
    let error = Error::from(ErrorKind::Destination { path: log, reason });
    Err(error.to_do(format!("put {shown} back from a copy; else move the -wal file away")))
}

/// Returns true if a log or journal is not empty. SQLite zeroes the first bytes of a journal that
/// it keeps and is done with.
pub(crate) fn holds_something(companion: &Path) -> bool {
    if !fs::metadata(companion).is_ok_and(|it| it.is_file() && it.len() > 0) {
        return false;
    }
    let mut first = [0];
    let read = FileHandle::open(companion).and_then(|mut file| file.read_exact(&mut first));
    // A file that cannot be read counts as not empty.
    read.is_err() || first != [0]
}

/// A file that the system does not let this user read.
pub(crate) fn not_readable(path: &Path, source: io::Error) -> Error {
    let advice = match source.kind() {
        io::ErrorKind::NotFound => "check the name; no file was made",
        io::ErrorKind::PermissionDenied => {
            "give yourself leave to read and write it and to enter its folder, or run as its owner"
        }
        _ => "check the path: each part of it but the last must be a folder, or a link to one",
    };
    Error::io("open", path, source).to_do(advice)
}

/// The reason why this user may not write to an existing file or into an existing folder;
/// `None` if there is none, or the system does not tell.
#[cfg(unix)]
pub(crate) fn why_not_writable(path: &Path) -> Option<String> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;

    let mut wish = Access::WRITE_OK;
    if path.is_dir() {
        wish |= Access::EXEC_OK;
    }
    let shown = path_text(path);
    match accessat(CWD, path, wish, AtFlags::EACCESS) {
        Err(Errno::ACCESS | Errno::PERM) => Some(format!("you may not write to {shown}")),
        Err(Errno::ROFS) => Some(format!("the file system of {shown} is mounted read-only")),
        _ => None,
    }
}

#[cfg(not(unix))]
pub(crate) fn why_not_writable(_path: &Path) -> Option<String> {
    // Windows has no single permission check; SQLite's own error is reported.
    None
}

/// The reason why names in a folder cannot be synced, which takes a descriptor that reads it; `None` if
/// there is none.
#[cfg(unix)]
pub(crate) fn why_not_synced(folder: &Path) -> Option<String> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;

    let access = accessat(CWD, folder, Access::READ_OK, AtFlags::EACCESS);
    (access == Err(Errno::ACCESS)).then(|| {
        format!(
            "you may not read {}, so that the names in it cannot be made safe from a power cut",
            path_text(folder)
        )
    })
}

#[cfg(not(unix))]
pub(crate) fn why_not_synced(_folder: &Path) -> Option<String> {
    None
}

fn why_no_journal(folder: &Path) -> Option<String> {
    why_not_writable(folder)
        .map(|why| format!("{why}, where SQLite makes its journal, or -wal and -shm files"))
}

/// Files of this write version may be read by every SQLite, and written by newer ones only.
fn newer_to_write(file: &Path) -> Option<String> {
    let mut start = [0; header::WRITE_VERSION + 1];
    FileHandle::open(file).and_then(|mut file| file.read_exact(&mut start)).ok()?;
    let version = start[header::WRITE_VERSION];
    (version > header::VERSION_WAL).then(|| {
        format!(
            "its write version is {version}, and SQLite {} writes up to {}",
            rusqlite::version(),
            header::VERSION_WAL
        )
    })
}

/// Files that SQLite keeps beside a database, as far as they are there.
fn companions(file: &Path) -> impl Iterator<Item = PathBuf> {
    let names = ["-journal", "-wal", "-shm"].map(|suffix| companion_of(file, suffix));
    names.into_iter().filter(|name| name.symlink_metadata().is_ok())
}

/// Links are followed: files beside a database stand beside the file itself.
fn real_path(file: &Path) -> PathBuf {
    dunce::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}
