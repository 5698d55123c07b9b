//! Databases that are read without a trace, by `verify`, `io` and all that only looks.
//!
//! Must never: create, change or repair a file. A plain read-only connection
//! is not enough for that: on a database in WAL mode, SQLite creates the
//! `-wal` and `-shm` files beside it and leaves them there. Hence:
//!
//! | journal mode | files beside it | how it is opened |
//! |---|---|---|
//! | rollback | | read-only, under SQLite's locks |
//! | WAL | no `-wal`, or an empty one: no connection is open | `immutable=1`, and at the end a look whether the file changed meanwhile |
//! | WAL | `-wal` and `-shm` | read-only, `readonly_shm=1`: the log is read as well |
//! | WAL | `-wal` without `-shm` | not at all: the log must be recovered first, which writes |
//! | rollback | a hot `-journal` | not at all, for the same reason |
//!
//! To tell these apart the header is read past SQLite, unless `-wal` and
//! `-shm` are there. The handle is one of those whose closing drops no lock of
//! this process ([`crate::vfs::locks`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use leafpress_format::DATABASE_HEADER_BYTES;
use leafpress_format::header;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::connect;
use crate::file_kind::{length_bytes, newer_format, read_sample, what_else};
use crate::machine_memory::usable_bytes;
use crate::neighbours::holders_sentence;
use crate::paths::companion_of;
use crate::refusal::{
    Refusal, not_readable, refuse_odd_companions, refuse_unless_file, refuse_unless_path,
};
use crate::sqlite_error::{needs_its_application, sqlite_says};
use crate::vfs::text::shell_word;
use crate::words::path_text;
use crate::{Error, ErrorKind, Result};

/// Longest wait for a writer that holds the file alone.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Cache of the connection, unless a quarter of the memory is less.
const CACHE_BYTES_MAX: usize = 64 << 20;

/// A way to read a database without a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Rollback mode, under SQLite's locks.
    Locked,
    /// WAL mode with its log and its shared memory, both read-only.
    WithLog,
    /// WAL mode, and no connection has the database open.
    Immutable,
}

/// A file that looks like a database, and how it stood at the start.
///
/// All that reads a database without a trace begins with a candidate, `leafpress io` too.
#[doc(hidden)]
#[derive(Debug)]
pub struct Candidate {
    /// The path as the caller named it, for messages.
    named: PathBuf,
    /// Absolute, links resolved, as SQLite does before it looks for the files beside it.
    path: PathBuf,
    access: Access,
    stamp: Stamp,
    /// Longest wait for a program that holds the database.
    busy_timeout: Duration,
}

/// The properties of a database's files that a writer changes.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    database: Option<(u64, SystemTime)>,
    log_bytes: Option<u64>,
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let database = fs::metadata(path).and_then(|it| Ok((it.len(), it.modified()?))).ok();
        Self { database, log_bytes: length_bytes(&companion_of(path, "-wal")) }
    }
}

impl Candidate {
    /// Finds out how the file can be read.
    ///
    /// # Errors
    /// When it is missing, is no database, or would have to be recovered first.
    pub fn look_at(named: &Path) -> Result<Self> {
        refuse_unless_path(named)?;
        let path = dunce::canonicalize(named).map_err(|source| not_readable(named, source))?;
        let metadata = fs::metadata(&path).map_err(|source| not_readable(named, source))?;
        refuse_unless_file(named, &metadata)?;
        refuse_odd_companions(named)?;
        if metadata.len() == 0 {
            let reason = "is empty: SQLite takes that for a new database, with nothing in it";
            return Err(not_checkable(named, reason));
        }
        // Before the choice, so that a log that appears after it is seen.
        let stamp = Stamp::of(&path);
        let access = choose_access(named, &path, metadata.len())
            .map_err(|error| unreadable_log(named, &path).unwrap_or(error))?;
        Ok(Self { named: named.to_owned(), path, access, stamp, busy_timeout: BUSY_WAIT })
    }

    /// Waits this long for a program that holds the database, in the place of 5 seconds.
    #[must_use]
    pub fn waiting(self, busy_timeout: Duration) -> Self {
        Self { busy_timeout: busy_timeout.min(connect::BUSY_TIMEOUT_MAX), ..self }
    }

    /// Its path: absolute, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the database is in WAL mode.
    pub fn is_wal(&self) -> bool {
        self.access != Access::Locked
    }

    /// Refuses a database that only a newer SQLite may write to.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`].
    pub fn refuse_unless_written_here(&self) -> Result<()> {
        let (named, file, waited) =
            (self.named.as_path(), Some(self.path.as_path()), Duration::ZERO);
        Refusal { named, file, waited }.unless_newer()
    }

    /// A connection that reads, and makes no file.
    ///
    /// # Errors
    /// SQLite's; [`refused`](Self::refused) says more.
    pub fn open(&self) -> rusqlite::Result<Connection> {
        let parameters = match self.access {
            Access::Locked => "mode=ro",
            Access::WithLog => "mode=ro&readonly_shm=1",
            Access::Immutable => "mode=ro&immutable=1",
        };
        let flags = connect::READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = connect::open(uri(&self.path, parameters), flags)?;
        connection.busy_timeout(self.busy_timeout)?;
        // The file may come from an untrusted source: no function of its schema may have side
        // effects, and every cell's size is checked as it is read.
        let memory_bytes = usable_bytes().map_or(CACHE_BYTES_MAX, |total| total / 4);
        connection.execute_batch(&format!(
            "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA cache_size=-{}",
            memory_bytes.min(CACHE_BYTES_MAX) / 1024
        ))?;
        Ok(connection)
    }

    /// The path as the caller named it.
    pub(crate) fn named(&self) -> &Path {
        &self.named
    }

    /// Notes on how it is read, for the user.
    pub(crate) fn notes(&self) -> Vec<String> {
        match self.access {
            Access::Immutable => vec![
                "in WAL mode and open nowhere: read without locks (immutable=1), so that no \
                 -wal and -shm files are made"
                    .to_owned(),
            ],
            Access::WithLog => vec!["in WAL mode: the -wal file was read as well".to_owned()],
            Access::Locked => Vec::new(),
        }
    }

    /// Checks that what was read without locks belongs together.
    ///
    /// # Errors
    /// When the database was read without locks and was written to meanwhile.
    pub fn still_the_same(&self) -> Result<()> {
        if self.access == Access::Immutable && Stamp::of(&self.path) != self.stamp {
            let reason =
                format!("{}: was written to while it was being read", path_text(&self.named));
            return Err(Error::from(ErrorKind::Changed { reason })
                .to_do("try again; a database that is in use is read together with its log"));
        }
        Ok(())
    }

    /// The error for SQLite's answer to an attempt to read it.
    pub fn refused(&self, action: &'static str, error: rusqlite::Error) -> Error {
        let named = &self.named;
        let refusal = Refusal { named, file: Some(&self.path), waited: self.busy_timeout };
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
                refusal.unreadable().unwrap_or_else(|| needs_recovery(named))
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Error::damaged(Some(named), &sqlite_says(&error))
            }
            Some(ErrorCode::OperationInterrupted) => refusal.error(action, error),
            _ => {
                let advice = if needs_its_application(&error) {
                    "let the application check it that has this function, collation, module or \
                     tokenizer: PRAGMA integrity_check"
                } else {
                    "see what leafpress doctor says of the database"
                };
                refusal.error(action, error).to_do(advice)
            }
        }
    }
}

fn choose_access(named: &Path, path: &Path, file_bytes: u64) -> Result<Access> {
    let log_bytes = length_bytes(&companion_of(path, "-wal"));
    let has_shared_memory = length_bytes(&companion_of(path, "-shm")).is_some();
    if log_bytes.is_some() && has_shared_memory {
        // Perhaps open in this very process: the header is not touched.
        return Ok(Access::WithLog);
    }
    let is_wal = header_says_wal(named, path, file_bytes)?;
    match (is_wal, log_bytes) {
        (true, None | Some(0)) => Ok(Access::Immutable),
        (false, None | Some(0)) => Ok(Access::Locked),
        (_, Some(_)) => Err(held_or_left(named, path)),
    }
}

/// The error for a log without its `-shm`: a program that keeps the database for itself makes none,
/// and one that was killed may have lost it.
fn held_or_left(named: &Path, path: &Path) -> Error {
    if holders_sentence(path).is_none() {
        return needs_recovery(named);
    }
    let busy = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None);
    Refusal { named, file: Some(path), waited: Duration::ZERO }.locked(
        "is kept by a program that lets no other one in",
        &busy,
        "try again when that program has closed it",
    )
}

/// The error if the log is there and may not be read: SQLite could not recover the database either.
fn unreadable_log(named: &Path, path: &Path) -> Option<Error> {
    let refusal = Refusal { named, file: Some(path), waited: BUSY_WAIT };
    length_bytes(&companion_of(path, "-wal")).and_then(|_| refusal.unreadable())
}

fn header_says_wal(named: &Path, path: &Path, length_bytes: u64) -> Result<bool> {
    let sample = read_sample(path).map_err(|source| not_readable(named, source))?;
    if !sample.starts_with(header::MAGIC) {
        return Err(not_a_database(named, what_else(&sample, length_bytes)));
    }
    if sample.len() < DATABASE_HEADER_BYTES {
        return Err(not_checkable(named, "is cut short: it ends inside a database's header"));
    }
    if let Some(newer) = newer_format(&sample) {
        return Err(not_a_database(named, newer));
    }
    Ok(sample[header::READ_VERSION] == header::VERSION_WAL)
}

fn not_a_database(path: &Path, reason: String) -> Error {
    let path = path.to_owned();
    Error::from(ErrorKind::NotADatabase { path, reason }).to_do("name another file")
}

fn not_checkable(path: &Path, reason: &str) -> Error {
    ErrorKind::Input { file: path_text(path), reason: reason.to_owned() }.into()
}

/// The error for a database that would have to be changed before it can be read.
pub(crate) fn needs_recovery(path: &Path) -> Error {
    not_checkable(
        path,
        "needs recovery: a program that was writing it did not end in order, and the journal or \
         log beside it holds the way back to a whole database",
    )
    .to_do(format!(
        "let SQLite recover it, which writes to it: sqlite3 {} 'PRAGMA schema_version'; then try \
         again",
        shell_word(&path_text(path))
    ))
}

/// A `file:` URI, so that SQLite takes parameters; every byte of the path survives.
pub(crate) fn uri(path: &Path, parameters: &str) -> String {
    use std::fmt::Write as _;

    let mut bytes = path.as_os_str().as_encoded_bytes();
    let mut uri = String::from("file://");
    if cfg!(windows) {
        // file:///C:/folder/name, file:////server/share/name
        if let Some(rest) = bytes.strip_prefix(br"\\?\UNC\") {
            uri.push_str("//");
            bytes = rest;
        } else {
            bytes = bytes.strip_prefix(br"\\?\").unwrap_or(bytes);
            uri.push_str(if bytes.starts_with(br"\") { "" } else { "/" });
        }
    }
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' | b':' => {
                uri.push(char::from(byte));
            }
            b'\\' if cfg!(windows) => uri.push('/'),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri.push('?');
    uri.push_str(parameters);
    uri
}
