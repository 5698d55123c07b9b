//! Asks SQLite whether a database is sound. It asks the bundled one.
//!
//! Stands beside the load, for its user: a pressed file is an ordinary
//! database, and SQLite's own `integrity_check` is the judge of that. One read
//! transaction covers `integrity_check` (or `quick_check`) and
//! `foreign_key_check`, so both speak of the same moment.
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
//! this process ([`crate::vfs::locks`]). Where a system has no locks that belong
//! to a descriptor (Unix systems but Linux and macOS), do not verify a database
//! in a process that has it open in rollback mode through another copy of SQLite.

use std::ffi::c_int;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leafpress_format::DATABASE_HEADER_BYTES;
use leafpress_format::header::{self, number_in};
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use serde::Serialize;

use crate::connect;
use crate::machine_memory::total_bytes;
use crate::neighbours::holders_sentence;
use crate::paths::companion_of;
use crate::refusal::{
    Refusal, not_readable, refuse_odd_companions, refuse_unless_file, refuse_unless_path,
};
use crate::sqlite_error::{needs_its_application, sqlite_says};
use crate::vfs::locks::FileHandle;
use crate::words::path_text;
use crate::{Error, ErrorKind, Result};

/// A sample large enough to tell encrypted bytes from any structured file.
const SAMPLE_BYTES: usize = 4096;
/// Steps of SQLite's machine between two looks at the caller's wish to stop.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;
/// Longest wait for a writer that holds the file alone.
const BUSY_WAIT: Duration = Duration::from_secs(5);
/// Cache of the connection, unless a quarter of the memory is less.
const CACHE_BYTES_MAX: usize = 64 << 20;

/// Options for verifying a database.
#[derive(Clone)]
#[must_use]
pub struct VerifyOptions {
    quick: bool,
    problems_max: usize,
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl fmt::Debug for VerifyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyOptions")
            .field("quick", &self.quick)
            .field("problems_max", &self.problems_max)
            .finish_non_exhaustive()
    }
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { quick: false, problems_max: 100, stop: Arc::new(|| false) }
    }
}

impl VerifyOptions {
    /// Runs `quick_check`, which leaves out whether the indexes agree with
    /// their tables.
    pub fn quick(mut self, quick: bool) -> Self {
        self.quick = quick;
        self
    }

    /// Reports at most this many problems (100 unless set).
    pub fn problems_max(mut self, problems_max: usize) -> Self {
        self.problems_max = problems_max;
        self
    }

    /// Asks `stop` again and again; once it says true, [`verify`] ends with
    /// [`ErrorKind::Cancelled`].
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Arc::new(stop);
        self
    }
}

/// SQLite's findings about a database.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The file.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub database: PathBuf,
    /// No problem was found.
    pub sound: bool,
    /// The check that ran: `integrity_check` or `quick_check`.
    pub check: &'static str,
    /// The problems, in SQLite's words.
    pub problems: Vec<String>,
    /// There are more problems than are listed.
    pub more_problems: bool,
    /// Pages in the file; unknown where the damage hides it.
    pub pages: Option<u64>,
    /// Bytes in a page.
    pub page_size_bytes: Option<u64>,
    /// Tables, without SQLite's own.
    pub tables: Option<u64>,
    /// Indexes, with those that a UNIQUE or PRIMARY KEY made.
    pub indexes: Option<u64>,
    /// The SQLite that checked.
    pub sqlite_version: &'static str,
    /// Notes on the check, for the user.
    pub notes: Vec<String>,
    /// Duration of the check.
    #[serde(rename = "elapsed_s", serialize_with = "crate::times::seconds")]
    pub elapsed: Duration,
}

/// Checks that `path` is a sound database; changes nothing.
///
/// A problem in the database is no error here: it stands in the report.
///
/// ```
/// use leafpress::verify::{VerifyOptions, verify};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// let report = verify(&path, &VerifyOptions::default())?;
/// assert!(report.sound, "{:?}", report.problems);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the file could not be checked: it is missing, no database, encrypted, waiting for
/// recovery, or it was written to meanwhile; or the caller stopped.
pub fn verify(path: impl AsRef<Path>, options: &VerifyOptions) -> Result<VerifyReport> {
    let started = Instant::now();
    let candidate = Candidate::look_at(path.as_ref()).map_err(unchanged)?;
    let mut check = Check {
        candidate: &candidate,
        options,
        problems: Vec::new(),
        notes: candidate.notes(),
        unreadable: None,
    };
    let facts = check.run().map_err(unchanged)?;
    candidate.still_the_same().map_err(unchanged)?;

    let more_problems = check.problems.len() > options.problems_max;
    let (mut problems, notes) = (check.problems, check.notes);
    let sound = problems.is_empty();
    problems.truncate(options.problems_max);
    Ok(VerifyReport {
        database: path.as_ref().to_owned(),
        sound,
        check: check_name(options),
        problems,
        more_problems,
        pages: facts.pages,
        page_size_bytes: facts.page_size_bytes,
        tables: facts.tables,
        indexes: facts.indexes,
        sqlite_version: rusqlite::version(),
        notes,
        elapsed: started.elapsed(),
    })
}

fn check_name(options: &VerifyOptions) -> &'static str {
    if options.quick { "quick_check" } else { "integrity_check" }
}

fn unchanged(error: Error) -> Error {
    error.on_disk("nothing was changed")
}

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
        let access = choose_access(named, &path, metadata.len())
            .map_err(|error| unreadable_log(named, &path).unwrap_or(error))?;
        let stamp = Stamp::of(&path);
        Ok(Self { named: named.to_owned(), path, access, stamp, busy_timeout: BUSY_WAIT })
    }

    /// Waits this long for a program that holds the database, in the place of 5 seconds.
    #[must_use]
    pub fn waiting(self, busy_timeout: Duration) -> Self {
        Self { busy_timeout, ..self }
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
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connect::open(uri(&self.path, parameters), flags)?;
        connection.busy_timeout(self.busy_timeout)?;
        // The file may come from an untrusted source: no function of its schema may have side
        // effects, and every cell's size is checked as it is read.
        let memory_bytes = total_bytes().map_or(CACHE_BYTES_MAX, |total| total / 4);
        connection.execute_batch(&format!(
            "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA cache_size=-{}",
            memory_bytes.min(CACHE_BYTES_MAX) / 1024
        ))?;
        Ok(connection)
    }

    fn notes(&self) -> Vec<String> {
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

/// The size of a file that need not exist.
fn length_bytes(path: &Path) -> Option<u64> {
    fs::metadata(path).map(|it| it.len()).ok()
}

fn read_sample(path: &Path) -> io::Result<Vec<u8>> {
    let mut sample = Vec::with_capacity(SAMPLE_BYTES);
    FileHandle::open(path)?.take(SAMPLE_BYTES as u64).read_to_end(&mut sample)?;
    Ok(sample)
}

/// Describes a file that does not begin as a database does.
fn what_else(sample: &[u8], length_bytes: u64) -> String {
    const KNOWN: [(&[u8], &str); 6] = [
        (b"\x1f\x8b", "it is compressed with gzip; unpack it first"),
        (b"\x28\xb5\x2f\xfd", "it is compressed with zstd; unpack it first"),
        (b"PK\x03\x04", "it is a zip archive; unpack it first"),
        (b"\x37\x7f\x06\x82", "it is a write-ahead log; name the database beside it"),
        (b"\x37\x7f\x06\x83", "it is a write-ahead log; name the database beside it"),
        (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", "it is a journal; name the database beside it"),
    ];
    if let Some((_, what)) = KNOWN.iter().find(|(magic, _)| sample.starts_with(magic)) {
        return format!("is not a database: {what}");
    }
    if length_bytes.is_multiple_of(512) && looks_random(sample) {
        return "is not a database that can be read: it looks encrypted (as by SQLCipher or SEE), \
                or it is overwritten"
            .to_owned();
    }
    "is not a database: it does not begin with \"SQLite format 3\"".to_owned()
}

/// Describes a file that SQLite does not take for a database; `None` if the file begins like
/// one that this SQLite knows, or cannot be read.
pub(crate) fn what_a_file_is(path: &Path) -> Option<String> {
    let sample = read_sample(path).ok()?;
    let length_bytes = length_bytes(path)?;
    if sample.starts_with(header::MAGIC) {
        newer_format(&sample)
    } else {
        Some(what_else(&sample, length_bytes))
    }
}

/// Describes a database whose format this SQLite does not know; `None` if the format is known.
fn newer_format(sample: &[u8]) -> Option<String> {
    let schema_format = number_in(sample, header::SCHEMA_FORMAT)?;
    let newer = if sample[header::READ_VERSION] > header::VERSION_WAL {
        format!("of a newer one: its read version is {}", sample[header::READ_VERSION])
    } else if schema_format > header::SCHEMA_FORMAT_NEWEST {
        // Ciphers leave the bytes before it as they are, so that SQLite finds the page size.
        format!("of a newer one or encrypted: its schema format is {schema_format}")
    } else {
        return None;
    };
    let version = rusqlite::version();
    Some(format!("is in a format that SQLite {version} does not know, {newer}"))
}

/// Returns true if the bytes are spread as evenly as those of a cipher.
///
/// Compares the sum of squared counts with what chance gives, n + n²/256;
/// text and pages of a database lie many times above that.
fn looks_random(sample: &[u8]) -> bool {
    if sample.len() < 512 {
        return false;
    }
    let mut counts = [0_u64; 256];
    for &byte in sample {
        counts[usize::from(byte)] += 1;
    }
    let squares: u64 = counts.iter().map(|count| count * count).sum();
    let bytes = sample.len() as u64;
    squares < (bytes + bytes * bytes / 256) * 5 / 4
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
        "let SQLite recover it, which writes to it: sqlite3 '{}' 'PRAGMA schema_version'; then \
         try again",
        path_text(path)
    ))
}

/// Facts that the database gives about itself; `None` for one that cannot be read.
#[derive(Debug, Default)]
struct Facts {
    pages: Option<u64>,
    page_size_bytes: Option<u64>,
    tables: Option<u64>,
    indexes: Option<u64>,
}

/// One run over one candidate; collects up to one problem more than is asked for.
struct Check<'a> {
    candidate: &'a Candidate,
    options: &'a VerifyOptions,
    problems: Vec<String>,
    notes: Vec<String>,
    /// SQLite's code for pages that the disk does not give.
    unreadable: Option<c_int>,
}

impl Check<'_> {
    fn run(&mut self) -> Result<Facts> {
        let mut connection = match self.candidate.open() {
            Ok(connection) => connection,
            Err(error) => return self.sort_out(error).map(|()| Facts::default()),
        };
        let stop = Arc::clone(&self.options.stop);
        connection
            .progress_handler(STEPS_BETWEEN_LOOKS, Some(move || stop()))
            .map_err(|source| Error::sqlite("watch for a stop", source))?;

        if let Err(error) = connection.execute_batch("BEGIN") {
            self.sort_out(error)?;
        }
        if let Err(error) = self.integrity(&connection) {
            self.sort_out(error)?;
        }
        if let Some(code) = self.unreadable {
            return Err(not_given_by_disk(&self.candidate.named, code));
        }
        if !self.is_full() {
            self.foreign_keys(&connection)?;
        }
        self.notes.extend(missing_modules(&connection).unwrap_or_default());
        Ok(Facts {
            pages: count(&connection, "PRAGMA page_count"),
            page_size_bytes: count(&connection, "PRAGMA page_size"),
            tables: count(&connection, &schema_count("table")),
            indexes: count(&connection, &schema_count("index")),
        })
    }

    fn is_full(&self) -> bool {
        self.problems.len() > self.options.problems_max
    }

    fn integrity(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let limit = self.options.problems_max.saturating_add(1);
        let sql = format!("PRAGMA {}({limit})", check_name(self.options));
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(0)?;
            self.unreadable = self.unreadable.or_else(|| code_of_unreadable(&text));
            let is_problem = |line: &&str| *line != "ok" && !line.starts_with("*** in database");
            self.problems.extend(text.lines().filter(is_problem).map(str::to_owned));
        }
        Ok(())
    }

    /// Table by table, since a key that fits no index of its parent ends the
    /// check of that table, and must not hide what is wrong with the others.
    fn foreign_keys(&mut self, connection: &Connection) -> Result<()> {
        let tables = match tables_with_foreign_keys(connection) {
            Ok(tables) => tables,
            Err(error) => return self.sort_out(error),
        };
        for table in tables {
            match self.foreign_keys_of(connection, &table) {
                Ok(()) => {}
                // SQLite's plain "error" here is a foreign key that cannot work.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => {
                    self.problems.push(format!("table {table}: {}", sqlite_says(&error)));
                }
                Err(error) => self.sort_out(error)?,
            }
        }
        Ok(())
    }

    fn foreign_keys_of(&mut self, connection: &Connection, table: &str) -> rusqlite::Result<()> {
        let mut statement =
            connection.prepare("SELECT rowid, parent FROM pragma_foreign_key_check(?1)")?;
        let mut rows = statement.query([table])?;
        while !self.is_full() {
            let Some(row) = rows.next()? else { break };
            let (rowid, parent): (Option<i64>, String) = (row.get(0)?, row.get(1)?);
            let which = rowid.map_or_else(|| "a row".to_owned(), |rowid| format!("row {rowid}"));
            self.problems.push(format!(
                "table {table}: {which} refers to a row of {parent} that is not there"
            ));
        }
        Ok(())
    }

    /// Tells damage, which is a finding, from what kept SQLite from checking.
    fn sort_out(&mut self, error: rusqlite::Error) -> Result<()> {
        match error.sqlite_error_code() {
            // Its first bytes, or the log beside it, are those of a database:
            // "not a database" means that its header is damaged.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                let problem = format!("SQLite gave up: {}", sqlite_says(&error));
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
                Ok(())
            }
            _ => Err(self.candidate.refused("check the database", error)),
        }
    }
}

/// Notes on virtual tables that SQLite leaves out of the check, as it does not have their modules.
fn missing_modules(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut statement = connection.prepare(
        "SELECT name, format('SELECT 1 FROM \"%w\"', name) FROM sqlite_schema
         WHERE type = 'table' AND rootpage = 0",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, sql): (String, String) = (row.get(0)?, row.get(1)?);
        let error = connection.prepare(&sql).err();
        let says = error.map(|error| sqlite_says(&error)).unwrap_or_default();
        if let Some(module) = says.strip_prefix("no such module: ") {
            notes.push(format!(
                "table {table} was not checked: its module {module} is not built in; let the \
                 application check it that has this module: PRAGMA integrity_check"
            ));
        }
    }
    Ok(notes)
}

/// The code in a problem of `integrity_check`, if a page could not be read: what the page holds is
/// then unknown, and no damage.
fn code_of_unreadable(problem: &str) -> Option<c_int> {
    let code_of = |line: &str| line.split_once("error code=")?.1.parse().ok();
    problem.lines().filter_map(code_of).find(|code: &c_int| code & 0xff == ffi::SQLITE_IOERR)
}

/// The error for pages that the disk does not give.
fn not_given_by_disk(named: &Path, code: c_int) -> Error {
    let source = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
    let says = format!("the system gives an error for some of its pages (SQLite's code {code})");
    Error::io("read", named, io::Error::other(says)).caused_by(source).to_do(
        "see the system's log for errors of the disk; copy the database elsewhere as long as it \
         can be read, or take a backup",
    )
}

fn tables_with_foreign_keys(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare(
            "SELECT DISTINCT name FROM sqlite_schema AS it
             WHERE type = 'table' AND EXISTS (SELECT 1 FROM pragma_foreign_key_list(it.name))",
        )?
        .query_map([], |row| row.get(0))?
        .collect()
}

fn schema_count(kind: &str) -> String {
    format!(
        "SELECT count(*) FROM sqlite_schema WHERE type = '{kind}'
         AND (type = 'index' OR name NOT LIKE 'sqlite\\_%' ESCAPE '\\')"
    )
}

fn count(connection: &Connection, sql: &str) -> Option<u64> {
    connection.query_row(sql, [], |row| row.get(0)).ok().and_then(|it: i64| it.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_disk_does_not_give_is_no_damage() {
        let told =
            "*** in database main ***\nTree 2 page 5: unable to get the page. error code=8458";
        assert_eq!(code_of_unreadable(told), Some(8458));
        for damage in ["Tree 2 page 5: unable to get the page. error code=11", "Page 3: never used"]
        {
            assert_eq!(code_of_unreadable(damage), None, "{damage}");
        }
        let error = not_given_by_disk(Path::new("app.db"), 8458);
        assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    }
}
