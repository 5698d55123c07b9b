//! The one error type. It says what happened, where, what is on disk now, and what to do.
//!
//! Stands beside every stage; none of them prints. An [`Error`] has a
//! [`kind`](Error::kind) for programs, and reads as a message for people:
//!
//! ```text
//! people.csv:17:9: column "age": 'abc' is not an INTEGER
//!   Ada,abc,London
//! on disk: nothing was written to app.db
//! to do: load the column as it is with --type age=text, …
//! ```
//!
//! Must never: swallow the cause of a failure, or claim a state of the disk
//! that the code which made the error did not bring about.

mod faults;
mod kind;
mod limits;
mod questions;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use faults::{BadRow, FailedStatement, ScriptError};
pub use kind::ErrorKind;
pub(crate) use limits::{FEWER_FILES, OR_FULL_OTHERWISE, has_no_inodes, lack_of_files};
use limits::{MORE_MEMORY, what_to_allow};

use crate::advice::spelled;
use crate::sqlite_error::{is_refusal, sqlite_says};
use crate::words::{path_text, printable, printable_lines};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the state of the disk after it and the way out.
///
/// It prints as the whole message, of several lines, with the text of its [source](std::error::Error::source). What
/// prints an error with all its sources, as `{:#}` of `anyhow` does, repeats that text behind the
/// advice: print it with `{}` there. [`kind`](Self::kind) prints as what happened alone.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    /// The row of the input, of a kind that does not hold it.
    row: Option<Box<BadRow>>,
    on_disk: Option<String>,
    held_by: Option<String>,
    to_do: Option<String>,
    statement: Option<Box<FailedStatement>>,
    /// The row of a call with many, from 1, where the kind does not hold it.
    failed_row: Option<u64>,
    /// SQLite's own error, where the kind does not hold it.
    cause: Option<rusqlite::Error>,
    mark: Option<Mark>,
}

/// A fact that Leafpress itself acts upon, and that the kind does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The columns of an input are not those that were named.
    Columns,
    /// Another program has made what was to be made: the same work would now go another way.
    MadeMeanwhile,
    /// Others came in between: the same call may succeed now.
    Retryable,
    /// A part of the work is done: the same call would do more than the rest.
    InPart,
    /// The writer is closed: the same call cannot succeed, though it only had too little time.
    Closed,
}

impl Error {
    /// A call that is wrong.
    pub fn misuse(message: impl Into<String>) -> Self {
        ErrorKind::Misuse(message.into()).into()
    }

    /// Work that took longer than it may.
    #[doc(hidden)]
    pub fn timed_out(limit: std::time::Duration) -> Self {
        ErrorKind::TimedOut { limit, is_for_reader: false, is_for_closing: false }.into()
    }

    /// A writer that was not closed in time: it takes no calls any more.
    pub(crate) fn not_closed_in_time(limit: std::time::Duration) -> Self {
        let kind = ErrorKind::TimedOut { limit, is_for_reader: false, is_for_closing: true };
        Self::from(kind).marked(Mark::Closed)
    }

    /// A thing that is not there. `what`: its kind, such as `table`; `reason`: the message, with
    /// the name.
    pub fn not_found(
        what: &'static str,
        name: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let (name, reason) = (name.into(), reason.into());
        ErrorKind::NotFound { what, name, reason, source: None }.into()
    }

    /// A table that is not there, in SQLite's words.
    pub(crate) fn no_such_table(table: &str) -> Self {
        Self::not_found("table", table, format!("no such table: {table}"))
    }

    /// An input or a database that was changed by others while it was in use.
    pub fn changed(reason: impl Into<String>) -> Self {
        ErrorKind::Changed { reason: reason.into() }.into()
    }

    /// A thing that was to be made, and that another program has made since the look at its place.
    pub(crate) fn made_meanwhile(what: impl fmt::Display) -> Self {
        let reason = format!("{what} was made by another program meanwhile");
        Self::changed(reason).marked(Mark::MadeMeanwhile)
    }

    /// A thread that the system does not start. `purpose`: such as "for the writer".
    #[doc(hidden)]
    pub fn no_thread(purpose: &'static str, source: io::Error) -> Self {
        Self::from(ErrorKind::Thread { purpose, source })
            .to_do("end some threads or processes, or allow this process more of them")
    }

    /// Something that this platform, this SQLite or this build cannot do.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        ErrorKind::Unsupported(reason.into()).into()
    }

    /// A database whose pages contradict one another.
    pub(crate) fn damaged(path: Option<&Path>, says: &str) -> Self {
        let shown = path.map_or_else(|| "DB".to_owned(), path_text);
        let (path, reason) = (path.map(Path::to_owned), format!("is damaged: {says}"));
        Self::from(ErrorKind::Damaged { path, reason }).to_do(what_of_damage(&shown))
    }

    /// A state that should be impossible.
    #[doc(hidden)]
    pub fn bug(state: impl Into<String>) -> Self {
        Self::from(ErrorKind::Bug(state.into()))
            .to_do("please report it, with this message and with the call or command that met it")
    }

    /// An input that cannot be read as what it should be.
    #[doc(hidden)]
    pub fn input(file: impl Into<String>, reason: impl Into<String>) -> Self {
        ErrorKind::Input { file: file.into(), reason: reason.into() }.into()
    }

    /// Something at `path` that stands in the way of a database.
    #[doc(hidden)]
    pub fn destination(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        ErrorKind::Destination { path: path.into(), reason: reason.into() }.into()
    }

    /// An error of the operating system, on `path`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let error = Self::no_space(action, path, source);
                if has_no_inodes(path) { error.to_do(FEWER_FILES) } else { error }
            }
            io::ErrorKind::NotFound => {
                let (name, source) = (path_text(path), Some(source));
                let says = source.as_ref().map_or_else(String::new, ToString::to_string);
                let reason = format!("cannot {action} {name}: {says}");
                ErrorKind::NotFound { what: "file", name, reason, source }.into()
            }
            _ => {
                let advice = what_to_allow(&source);
                let error = Self::from(ErrorKind::Io { action, path: path.to_owned(), source });
                if let Some(advice) = advice { error.to_do(advice) } else { error }
            }
        }
    }

    /// A disk that is full.
    pub(crate) fn no_space(
        action: &'static str,
        path: &Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        ErrorKind::NoSpace { action, path: path.to_owned(), source: source.into() }.into()
    }

    /// An error of the operating system, on a file or folder that is to be made.
    #[doc(hidden)]
    pub fn not_made(action: &'static str, path: &Path, source: io::Error) -> Self {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};

        if !matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem) {
            return Self::io(action, path, source);
        }
        let reason = format!("cannot {action} it: {source}");
        let error = Self::from(ErrorKind::ReadOnly { path: path.to_owned(), reason });
        error.to_do("choose a folder that you may write to")
    }

    /// An error of SQLite. `action`: the operation that failed, as a verb.
    #[doc(hidden)]
    pub fn sqlite(action: &'static str, source: rusqlite::Error) -> Self {
        if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) {
            return Self::damaged(None, &sqlite_says(&source)).caused_by(source);
        }
        let advice = match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OutOfMemory) => Some(MORE_MEMORY),
            Some(rusqlite::ErrorCode::CannotOpen) => {
                lack_of_files().and_then(|limit| what_to_allow(&limit))
            }
            _ => None,
        };
        let error = Self::from(ErrorKind::Sqlite { action, source });
        match advice {
            Some(advice) => error.to_do(advice),
            None => error,
        }
    }

    /// An error of SQLite about a caller's statement. A rule that it breaks and a table that is
    /// not there have kinds of their own, as in other calls.
    pub(crate) fn statement(source: rusqlite::Error) -> Self {
        let reason = sqlite_says(&source);
        let error = if is_refusal(&source) {
            ErrorKind::Constraint { table: String::new(), reason, row: None, values: None }.into()
        } else if let Some(table) = reason.strip_prefix("no such table: ") {
            Self::no_such_table(table)
        } else {
            return Self::sqlite("carry out the call", source);
        };
        error.caused_by(source)
    }

    /// Adds SQLite's own error, which is the source then.
    #[must_use]
    pub(crate) fn caused_by(mut self, source: rusqlite::Error) -> Self {
        self.0.cause.get_or_insert(source);
        self
    }

    /// SQLite's own error, once more.
    pub(crate) fn copy_of(source: &rusqlite::Error) -> rusqlite::Error {
        match source {
            rusqlite::Error::SqliteFailure(code, message) => {
                let sentence = || rusqlite::ffi::code_to_str(code.extended_code).to_owned();
                let message = message.clone().unwrap_or_else(sentence);
                rusqlite::Error::SqliteFailure(*code, Some(message))
            }
            other => rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
                Some(other.to_string()),
            ),
        }
    }

    /// Adds which statement failed, unless a place nearer to the failure knew it.
    #[must_use]
    pub(crate) fn at_statement(mut self, statement: FailedStatement) -> Self {
        self.0.statement.get_or_insert_with(|| Box::new(statement));
        self
    }

    /// Adds which row of a call with many failed, counted from 1.
    #[must_use]
    pub(crate) fn at_row(mut self, row: u64) -> Self {
        self.0.failed_row.get_or_insert(row);
        self
    }

    /// The caller's own reason to give up a transaction; to be returned from
    /// its closure.
    pub fn aborted(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Aborted(reason.into()).into()
    }

    /// The writer takes no calls any more.
    #[doc(hidden)]
    pub fn stopped(reason: impl Into<String>) -> Self {
        Self::from(ErrorKind::Stopped { reason: reason.into() })
            .on_disk("nothing of this call")
            .to_do("close the writer and its readers, and open it again")
    }

    /// A statement that would touch other callers' transactions, or that the target of the writer
    /// cannot carry out alike each time.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::from(ErrorKind::Refused { reason: reason.into() }).on_disk("nothing of this call")
    }

    /// A statement that broke a rule of a table, in SQLite's words.
    pub fn constraint(reason: impl Into<String>) -> Self {
        let (table, reason) = (String::new(), reason.into());
        Self::from(ErrorKind::Constraint { table, reason, row: None, values: None })
            .on_disk("nothing of this call")
    }

    /// It is unknown if a call was committed.
    pub fn unknown_outcome(reason: impl Into<String>) -> Self {
        Self::uncertain(reason)
            .on_disk("all of this call or nothing of it")
            .to_do("open the database again and look whether the call's changes are there")
    }

    /// It is unknown if a change was made; the caller says what is on disk then.
    #[doc(hidden)]
    pub fn uncertain(reason: impl Into<String>) -> Self {
        Self::uncertain_of("the call", reason)
    }

    /// As [`uncertain`](Self::uncertain), for a change that is not a call, such as "the load".
    pub(crate) fn uncertain_of(what: &'static str, reason: impl Into<String>) -> Self {
        ErrorKind::OutcomeUnknown { what, reason: reason.into() }.into()
    }

    /// A copy of the error, for another caller who met it too.
    pub(crate) fn again(&self) -> Self {
        let copy = Self::copy_of;
        let kind = match self.kind() {
            ErrorKind::Busy { waited, source } => {
                ErrorKind::Busy { waited: *waited, source: copy(source) }
            }
            ErrorKind::Sqlite { action, source } => {
                ErrorKind::Sqlite { action, source: copy(source) }
            }
            ErrorKind::Destination { path, reason } => {
                ErrorKind::Destination { path: path.clone(), reason: reason.clone() }
            }
            ErrorKind::Stopped { reason } => ErrorKind::Stopped { reason: reason.clone() },
            ErrorKind::OutcomeUnknown { what, reason } => {
                ErrorKind::OutcomeUnknown { what, reason: reason.clone() }
            }
            &ErrorKind::TimedOut { limit, is_for_reader, is_for_closing } => {
                ErrorKind::TimedOut { limit, is_for_reader, is_for_closing }
            }
            ErrorKind::ReadOnly { path, reason } => {
                ErrorKind::ReadOnly { path: path.clone(), reason: reason.clone() }
            }
            ErrorKind::NotADatabase { path, reason } => {
                ErrorKind::NotADatabase { path: path.clone(), reason: reason.clone() }
            }
            ErrorKind::NoSpace { action, path, source } => {
                let source: Box<dyn std::error::Error + Send + Sync> = match source.downcast_ref() {
                    Some(answer) => Box::new(copy(answer)),
                    None => source.to_string().into(),
                };
                ErrorKind::NoSpace { action, path: path.clone(), source }
            }
            ErrorKind::Damaged { path, reason } => {
                ErrorKind::Damaged { path: path.clone(), reason: reason.clone() }
            }
            ErrorKind::Changed { reason } => ErrorKind::Changed { reason: reason.clone() },
            ErrorKind::Unsupported(reason) => ErrorKind::Unsupported(reason.clone()),
            ErrorKind::Bug(state) => ErrorKind::Bug(state.clone()),
            other => ErrorKind::Stopped { reason: other.to_string() },
        };
        let Inner { row, on_disk, held_by, to_do, mark, .. } = &*self.0;
        let (on_disk, held_by, to_do) = (on_disk.clone(), held_by.clone(), to_do.clone());
        let (row, mark) = (row.clone(), *mark);
        let (statement, failed_row, cause) = (None, self.0.failed_row, None);
        let inner =
            Inner { kind, row, on_disk, held_by, to_do, statement, failed_row, cause, mark };
        Self(Box::new(inner))
    }

    /// Names `path` where the error names `hidden`, a file that is to become `path`.
    #[must_use]
    pub(crate) fn with_path(mut self, hidden: &Path, path: &Path) -> Self {
        if let ErrorKind::Destination { path: named, .. }
        | ErrorKind::Damaged { path: Some(named), .. }
        | ErrorKind::ReadOnly { path: named, .. }
        | ErrorKind::NotADatabase { path: named, .. }
        | ErrorKind::NoSpace { path: named, .. }
        | ErrorKind::Io { path: named, .. } = &mut self.0.kind
            // SQLite names it by its absolute path.
            && named.file_name() == hidden.file_name()
        {
            path.clone_into(named);
        }
        if let ErrorKind::NotFound { name, reason, .. } = &mut self.0.kind
            && *name == path_text(hidden)
        {
            *reason = reason.replace(name.as_str(), &path_text(path));
            *name = path_text(path);
        }
        self
    }

    /// Gives an answer of SQLite that a disk is full the kind for it; other errors stay.
    #[must_use]
    pub(crate) fn on_full_disk(mut self, database: &Path) -> Self {
        let full = Some(rusqlite::ErrorCode::DiskFull);
        match &self.0.kind {
            ErrorKind::Sqlite { source, .. } if source.sqlite_error_code() == full => {
                let source = Box::new(Self::copy_of(source));
                let path = database.to_owned();
                self.0.kind = ErrorKind::NoSpace { action: "write to", path, source };
                self.to_do(format!("free some space, and try again{OR_FULL_OTHERWISE}"))
            }
            _ => self,
        }
    }

    /// Names the database in an error about its damage that SQLite gave without a name; other errors
    /// stay.
    #[must_use]
    pub(crate) fn of_damaged(mut self, database: &Path) -> Self {
        if let ErrorKind::Damaged { path: path @ None, .. } = &mut self.0.kind {
            *path = Some(database.to_owned());
            return self.to_do_instead(what_of_damage(&path_text(database)));
        }
        self
    }

    /// Adds which row of the input it is about.
    #[must_use]
    pub(crate) fn of_row(mut self, row: BadRow) -> Self {
        self.0.row = Some(Box::new(row));
        self
    }

    /// Says that nothing was done, and that the same call may succeed now.
    #[doc(hidden)]
    #[must_use]
    pub fn retryable(self) -> Self {
        self.marked(Mark::Retryable)
    }

    /// Adds a fact that Leafpress acts upon.
    #[must_use]
    pub(crate) fn marked(mut self, mark: Mark) -> Self {
        self.0.mark = Some(mark);
        self
    }

    /// Returns true if the error has this mark.
    pub(crate) fn has_mark(&self, mark: Mark) -> bool {
        self.0.mark == Some(mark)
    }

    /// Names the one of several things that a wrong call is about, in front of the message.
    pub(crate) fn of_one(mut self, name: &str) -> Self {
        if let ErrorKind::Misuse(message) = &mut self.0.kind {
            *message = format!("{name}: {message}");
        }
        self
    }

    /// Adds what is on disk now, unless a place nearer to the failure knew it.
    #[must_use]
    pub fn on_disk(mut self, state: impl Into<String>) -> Self {
        self.0.on_disk.get_or_insert_with(|| state.into());
        self
    }

    /// Replaces what is known to be on disk.
    #[doc(hidden)]
    #[must_use]
    pub fn on_disk_instead(mut self, state: impl Into<String>) -> Self {
        self.0.on_disk = Some(state.into());
        self
    }

    /// Adds who holds a database now, where the system tells. For errors that say that it is
    /// locked: the holder is looked up after the failure, and may be another one by then.
    #[doc(hidden)]
    #[must_use]
    pub fn held_by(mut self, holders: Option<String>) -> Self {
        self.0.held_by = self.0.held_by.or(holders);
        self
    }

    /// Adds what to do about it, unless a place nearer to the failure knew it.
    #[must_use]
    pub fn to_do(mut self, advice: impl Into<String>) -> Self {
        self.0.to_do.get_or_insert_with(|| spelled(&advice.into()));
        self
    }

    /// Replaces what is known to do about it.
    #[doc(hidden)]
    #[must_use]
    pub fn to_do_instead(mut self, advice: impl AsRef<str>) -> Self {
        self.0.to_do = Some(spelled(advice.as_ref()));
        self
    }

    /// Adds an advice in front of what is known to do about it.
    #[must_use]
    pub(crate) fn advise_first(mut self, advice: impl Into<String>) -> Self {
        let (advice, known) = (spelled(&advice.into()), self.0.to_do.take());
        self.0.to_do = Some(match known {
            Some(known) => format!("{advice}. Otherwise: {known}"),
            None => advice,
        });
        self
    }

    /// Kind of the failure, for programs.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The row of the input that the failure is about, if it is about one: where it stands,
    /// and what is wrong with it.
    pub fn bad_row(&self) -> Option<&BadRow> {
        match self.kind() {
            ErrorKind::BadRow(row) | ErrorKind::TooManyRejects { last: row, .. } => Some(row),
            _ => self.0.row.as_deref(),
        }
    }

    /// State on disk after the failure.
    pub fn state_on_disk(&self) -> Option<&str> {
        self.0.on_disk.as_deref()
    }

    /// The holders of the database just after the failure, in a sentence, if the error is that it
    /// was locked and the system tells.
    pub fn holders(&self) -> Option<&str> {
        self.0.held_by.as_deref()
    }

    /// The statement of a batch or a script that failed, if known.
    pub fn failed_statement(&self) -> Option<&FailedStatement> {
        self.0.statement.as_deref()
    }

    /// The row that failed, of a call with many, counted from 1, if known.
    pub fn failed_row(&self) -> Option<u64> {
        match self.kind() {
            ErrorKind::Constraint { row: Some(row), .. } => Some(*row),
            _ => self.0.failed_row,
        }
    }

    /// Advice about the failure.
    pub fn advice(&self) -> Option<&str> {
        self.0.to_do.as_deref()
    }
}

/// Advice about a damaged database.
fn what_of_damage(shown: &str) -> String {
    format!(
        "see what leafpress verify {shown} says, and restore it or recover it (sqlite3 {shown} \
         .recover) first"
    )
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        let (row, on_disk, held_by, to_do) = (None, None, None, None);
        let (statement, failed_row, cause, mark) = (None, None, None, None);
        let inner =
            Inner { kind, row, on_disk, held_by, to_do, statement, failed_row, cause, mark };
        Self(Box::new(inner))
    }
}

impl From<rusqlite::Error> for Error {
    fn from(source: rusqlite::Error) -> Self {
        Self::statement(source)
    }
}

impl From<BadRow> for Error {
    fn from(row: BadRow) -> Self {
        ErrorKind::BadRow(Box::new(row)).into()
    }
}

impl fmt::Display for Error {
    /// Each part in a line of its own. Names in it, which may hold anything, add none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match &self.0.row {
            Some(row) => row.to_string(),
            None => self.0.kind.to_string(),
        };
        match self.0.kind {
            // The message has several lines, made of escaped parts.
            ErrorKind::BadRow(_)
            | ErrorKind::TooManyRejects { .. }
            | ErrorKind::Script(_)
            | ErrorKind::Constraint { .. } => f.write_str(&message)?,
            // The message may show a statement.
            ErrorKind::Sqlite { .. } | ErrorKind::Busy { .. } => {
                f.write_str(&printable_lines(&message))?;
            }
            _ => f.write_str(&printable(&message))?,
        }
        if let Some(statement) = &self.0.statement {
            write!(f, "\n  {}", printable(&statement.to_string()))?;
        }
        if let Some(row) = self.0.failed_row {
            write!(f, "\n  row {row} of the call")?;
        }
        if let Some(state) = &self.0.on_disk {
            write!(f, "\non disk: {}", printable(state))?;
        }
        if let Some(holders) = &self.0.held_by {
            write!(f, "\nnow: {}", printable(holders))?;
        }
        if let Some(advice) = &self.0.to_do {
            write!(f, "\nto do: {}", printable(advice))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.cause {
            Some(cause) => Some(cause),
            None => std::error::Error::source(&self.0.kind),
        }
    }
}
