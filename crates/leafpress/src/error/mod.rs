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

mod questions;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::advice::spelled;
use crate::lease::{LeaseLost, Token};
use crate::sqlite_error::{is_refusal, sqlite_says};
use crate::words::path_text;
use crate::words::{counted, printable, printable_lines};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A row that could not be loaded: the reason, and its place in the input.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BadRow {
    /// The input's name: a path, or `<stdin>`.
    pub file: String,
    /// Line of the field at fault (or of the row's start), counted from 1.
    pub line: u64,
    /// Byte column in that line, counted from 1.
    pub column: u64,
    /// The fault, naming the column where one is to blame.
    pub reason: String,
    /// The row as it stands in the input, without its line end; cut where long.
    pub row: String,
}

impl BadRow {
    /// A fault of a row at a place of a file, without the row's text.
    #[must_use]
    pub fn new(file: String, line: u64, column: u64, reason: String) -> Self {
        Self { file, line, column, reason, row: String::new() }
    }

    /// Shows the row as it stands in the input.
    #[must_use]
    pub fn with_row(mut self, row: String) -> Self {
        self.row = row;
        self
    }
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, reason, row } = self;
        let [file, reason, row] = [file, reason, row].map(|text| printable(text));
        write!(f, "{file}:{line}:{column}: {reason}\n  {row}")
    }
}

/// A statement of a script that SQLite refused, or a text that is none.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ScriptError {
    /// The script's name: a path, `<stdin>`, or the flag it stands behind.
    pub file: String,
    /// Line of the word at fault (or of the statement's start), counted from 1.
    pub line: u64,
    /// Byte column in that line, counted from 1.
    pub column: u64,
    /// The fault, in SQLite's words where it said it.
    pub reason: String,
    /// The statement; cut where long.
    pub sql: String,
    /// Transactions before it that were committed, and stay; 0 where it ran on a copy.
    pub transactions_committed: u64,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, reason, sql, .. } = self;
        let ([file, reason], sql) =
            ([file, reason].map(|text| printable(text)), printable_lines(sql));
        write!(f, "{file}:{line}:{column}: {reason}\n  {sql}")
    }
}

/// Kind of a failure, by what the caller can do about it. One failure has one kind, by
/// whichever call it is met.
///
/// Where a variant does not say otherwise, the call that failed changed nothing;
/// [`Error::state_on_disk`] tells the state in words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A row of the input cannot be loaded and no leave was given to skip it: mend the row, or
    /// give that leave.
    #[error("{0}")]
    BadRow(Box<BadRow>),
    /// More rows were rejected than allowed: mend them, or allow more. The rejected rows are in
    /// the file for them, if one was named.
    #[error(
        "{} rejected, more than the {limit} allowed; the last was\n{last}",
        counted(*rejected, "row was", "rows were")
    )]
    #[non_exhaustive]
    TooManyRejects {
        /// Rows rejected so far.
        rejected: u64,
        /// The limit that was given.
        limit: u64,
        /// The row that went over it.
        last: Box<BadRow>,
    },
    /// The call itself is wrong: options that contradict, a name that is empty. It fails each
    /// time, until the caller changes it.
    #[error("{0}")]
    Misuse(String),
    /// A thing of that name is not there: correct the name, or make the thing.
    #[error("{reason}")]
    #[non_exhaustive]
    NotFound {
        /// Kind of the thing, in one or two words: `table`, `column`, `file`, `queue`.
        what: &'static str,
        /// Its name, as the call gave it.
        name: String,
        /// The message, with the name.
        reason: String,
        /// The answer of the operating system, if that looked for it.
        source: Option<io::Error>,
    },
    /// The input or the database was changed by others while it was in use: try again.
    #[error("{reason}")]
    #[non_exhaustive]
    Changed {
        /// The thing that was changed, and how.
        reason: String,
    },
    /// The system starts no further thread: end some threads or processes, or allow more.
    #[error("the system has no thread {purpose}: {source}")]
    #[non_exhaustive]
    Thread {
        /// Purpose of the thread, such as "for the writer".
        purpose: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// This platform, this SQLite or this build cannot do it: take another one, or leave the
    /// option out.
    #[error("{0}")]
    Unsupported(String),
    /// The pages of a database contradict one another. Restore it, or recover it with
    /// `sqlite3 FILE .recover`.
    #[error("{}: {reason}", path.as_deref().map_or_else(|| "the database".to_owned(), path_text))]
    #[non_exhaustive]
    Damaged {
        /// The database, where the place of the failure knows it.
        path: Option<PathBuf>,
        /// The damage, in SQLite's words where SQLite found it.
        reason: String,
    },
    /// An error of Leafpress itself: its data are in a state that should be impossible. The
    /// call is undone, as after any other error; report it.
    #[error("{0}: this is a bug in leafpress")]
    Bug(String),
    /// The input as a whole cannot be read as what it should be: name its format or mend it.
    #[error("{file}: {reason}")]
    #[non_exhaustive]
    Input {
        /// The input's name.
        file: String,
        /// The fault of the input.
        reason: String,
    },
    /// Something stands in the way of the database, such as an old journal, or it cannot be used
    /// in this way: see the reason.
    #[error("{}: {reason}", path_text(path))]
    #[non_exhaustive]
    Destination {
        /// The file in the way.
        path: PathBuf,
        /// Reason why it is in the way.
        reason: String,
    },
    /// A database, its folder or its file system cannot be written: change its rights, or use a
    /// copy.
    #[error("{}: {reason}", path_text(path))]
    #[non_exhaustive]
    ReadOnly {
        /// The database.
        path: PathBuf,
        /// The evidence for it.
        reason: String,
    },
    /// A table, view or index of that name is there, and no leave was given to change it: choose
    /// another name, or give that leave.
    #[error("{}: {reason}", path_text(path))]
    #[non_exhaustive]
    TableExists {
        /// The database.
        path: PathBuf,
        /// The name.
        table: String,
        /// The thing of that name.
        reason: String,
    },
    /// A file is no SQLite database that can be read: name another one.
    #[error("{}: {reason}", path_text(path))]
    #[non_exhaustive]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// The kind of file, as far as can be seen.
        reason: String,
    },
    /// A disk is full: free some space and try again.
    #[error("cannot {action} {}: {source}", path_text(path))]
    #[non_exhaustive]
    NoSpace {
        /// The step that was tried, as a verb.
        action: &'static str,
        /// The file, or the database, that did not fit.
        path: PathBuf,
        /// The answer of the system or of SQLite.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A row breaks a rule of the table that it should go into. Where the row stands in the
    /// input, if it came from one, says [`Error::bad_row`].
    #[error("{}{}{}", in_table(table), printable(reason), refused_row(*row, values.as_deref()))]
    #[non_exhaustive]
    Constraint {
        /// The table; empty where it is a statement that broke the rule, whose reason names it
        /// if SQLite does.
        table: String,
        /// The broken rule, in SQLite's words.
        reason: String,
        /// Number of the row, from 1, in the order in which the rows went in.
        row: Option<u64>,
        /// Its values, as SQL would write them, cut where long.
        values: Option<String>,
    },
    /// A statement of a script failed: mend it. The transactions before it stay, if it did not
    /// run on a copy; the error counts them.
    #[error("{0}")]
    Script(Box<ScriptError>),
    /// The operating system refused an operation. Its answer tells if trying again helps.
    #[error("cannot {action} {}: {source}", path_text(path))]
    #[non_exhaustive]
    Io {
        /// The operation that failed, as a verb: "read", "write", "sync".
        action: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// SQLite refused an operation, for a reason that has no kind of its own.
    #[error("SQLite cannot {action}: {source}")]
    Sqlite {
        /// The operation that failed.
        action: &'static str,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// The caller asked to stop before the work was done.
    #[error("stopped before the end, as asked")]
    Cancelled,
    /// A call of the writer was interrupted before it was done.
    #[error("the call was interrupted, as asked")]
    Interrupted,
    /// A call of the writer, closing it, or the wait for a reader took longer than it may: try
    /// again, or allow more time.
    #[error("it was stopped, as it took longer than the {:?} that it may", limit)]
    TimedOut {
        /// The longest time that it may take.
        limit: Duration,
    },
    /// The writer's queue has no room, and the call was not to wait for it: try again later.
    #[error("the writer's queue is full: {capacity} calls wait already")]
    QueueFull {
        /// Calls that may wait.
        capacity: usize,
    },
    /// Another connection held the database for too long: try again when it is free, or wait
    /// longer.
    #[error("the database was held by another connection for {:.1} s: {source}", waited.as_secs_f64())]
    Busy {
        /// Time for which the call waited.
        waited: Duration,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// The writer takes no calls any more: open it again.
    #[error("the writer takes no calls any more: {reason}")]
    Stopped {
        /// Reason of the stop.
        reason: String,
    },
    /// A call in a child of `fork`, on what its parent process had opened. Nothing was
    /// done, and the parent goes on undisturbed: open a new one in the child.
    #[error(
        "this process was forked after the {thing} was opened: the {thing} belongs to its parent"
    )]
    Forked {
        /// Kind of the object that was called, such as "writer", "queue" or "ticket".
        thing: &'static str,
    },
    /// A call may have been committed, as a whole, or not at all: open the database again and
    /// look.
    #[error("it is not known whether the call was committed: {reason}")]
    OutcomeUnknown {
        /// The failure that led to this.
        reason: String,
    },
    /// The caller's closure panicked; its transaction was undone.
    #[error("the closure of the call panicked: {message}")]
    Panicked {
        /// Message of the panic.
        message: String,
    },
    /// A statement that would touch other callers' transactions.
    #[error("the writer refuses the statement: {reason}")]
    Refused {
        /// Effect that it would have on others.
        reason: String,
    },
    /// A claim of a job that does not hold any more: the call came too late.
    #[error("job {} is not yours any more: {why}", token.job)]
    LeaseLost {
        /// The token of the claim.
        token: Token,
        /// Fate of the job, as far as it is known.
        why: LeaseLost,
    },
    /// A token that no claim was answered with, of a job that is there or of none that ever was.
    #[error("there is no such claim: {token} was never given")]
    NoSuchClaim {
        /// The token.
        token: Token,
    },
    /// A queue transaction was not committed in time, and does nothing any more: begin another.
    #[error("the queue transaction has expired, at {} ms since the Unix epoch", expires_at.as_ms())]
    TransactionExpired {
        /// End of its time.
        expires_at: crate::times::UnixTime,
    },
    /// The caller's closure gave up, and its transaction was undone.
    #[error("the call was given up: {0}")]
    Aborted(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Names the kinds.
macro_rules! kind_names {
    ($($variant:ident => $name:literal,)+) => {
        impl ErrorKind {
            /// Names of all kinds.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Name of the kind, for programs in other languages and for logs. It stays as it is.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)+
                }
            }
        }
    };
}

kind_names! {
    BadRow => "bad_row",
    TooManyRejects => "too_many_rejects",
    Misuse => "misuse",
    NotFound => "not_found",
    Changed => "changed",
    Thread => "thread",
    Unsupported => "unsupported",
    Damaged => "damaged",
    Bug => "bug",
    Input => "input",
    Destination => "destination",
    ReadOnly => "read_only",
    TableExists => "table_exists",
    NotADatabase => "not_a_database",
    NoSpace => "no_space",
    Constraint => "constraint",
    Script => "script",
    Io => "io",
    Sqlite => "sqlite",
    Cancelled => "cancelled",
    Interrupted => "interrupted",
    TimedOut => "timed_out",
    QueueFull => "queue_full",
    Busy => "busy",
    Stopped => "stopped",
    Forked => "forked",
    OutcomeUnknown => "outcome_unknown",
    Panicked => "panicked",
    Refused => "refused",
    LeaseLost => "lease_lost",
    NoSuchClaim => "no_such_claim",
    TransactionExpired => "transaction_expired",
    Aborted => "aborted",
}

fn in_table(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!("{}: ", printable(table)) }
}

fn refused_row(row: Option<u64>, values: Option<&str>) -> String {
    let number = row.map_or_else(String::new, |row| format!("\n  row {row}"));
    number + &values.map_or_else(String::new, |values| format!(": {}", printable(values)))
}

/// A failure, with the state of the disk after it and the way out.
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
    /// SQLite's own error, where the kind does not hold it.
    cause: Option<rusqlite::Error>,
}

/// The statement of a batch or a script that failed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct FailedStatement {
    /// Number of the statement, from 1.
    pub ordinal: u64,
    /// The line of its text on which it begins, counted from 1.
    pub line: u64,
    /// The statement; cut where long.
    pub sql: String,
}

impl fmt::Display for FailedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ordinal, line, sql } = self;
        write!(f, "statement {ordinal}, line {line}: {sql}")
    }
}

impl Error {
    /// A call that is wrong.
    pub fn misuse(message: impl Into<String>) -> Self {
        ErrorKind::Misuse(message.into()).into()
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
    pub(crate) fn changed(reason: impl Into<String>) -> Self {
        ErrorKind::Changed { reason: reason.into() }.into()
    }

    /// A thread that the system does not start. `purpose`: such as "for the writer".
    pub(crate) fn no_thread(purpose: &'static str, source: io::Error) -> Self {
        Self::from(ErrorKind::Thread { purpose, source })
            .to_do("end some threads or processes, or allow this process more of them")
    }

    /// Something that this platform, this SQLite or this build cannot do.
    pub(crate) fn unsupported(reason: impl Into<String>) -> Self {
        ErrorKind::Unsupported(reason.into()).into()
    }

    /// A database whose pages contradict one another.
    pub(crate) fn damaged(path: Option<&Path>, says: &str) -> Self {
        let shown = path.map_or_else(|| "DB".to_owned(), path_text);
        let (path, reason) = (path.map(Path::to_owned), format!("is damaged: {says}"));
        Self::from(ErrorKind::Damaged { path, reason }).to_do(format!(
            "see what leafpress verify {shown} says, and restore it or recover it \
             (sqlite3 {shown} .recover) first"
        ))
    }

    /// A state that should be impossible.
    pub(crate) fn bug(state: impl Into<String>) -> Self {
        Self::from(ErrorKind::Bug(state.into()))
            .to_do("please report it, with this message and with the call or command that met it")
    }

    /// An error of the operating system, on `path`.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::no_space(action, path, source)
            }
            io::ErrorKind::NotFound => {
                let (name, source) = (path_text(path), Some(source));
                let says = source.as_ref().map_or_else(String::new, ToString::to_string);
                let reason = format!("cannot {action} {name}: {says}");
                ErrorKind::NotFound { what: "file", name, reason, source }.into()
            }
            _ => ErrorKind::Io { action, path: path.to_owned(), source }.into(),
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

    /// An error of SQLite.
    pub(crate) fn sqlite(action: &'static str, source: rusqlite::Error) -> Self {
        if source.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt) {
            return Self::damaged(None, &sqlite_says(&source)).caused_by(source);
        }
        ErrorKind::Sqlite { action, source }.into()
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
                rusqlite::Error::SqliteFailure(*code, message.clone())
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

    /// The caller's own reason to give up a transaction; to be returned from
    /// its closure.
    pub fn aborted(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Aborted(reason.into()).into()
    }

    /// The writer takes no calls any more.
    pub(crate) fn stopped(reason: impl Into<String>) -> Self {
        Self::from(ErrorKind::Stopped { reason: reason.into() })
            .on_disk("nothing of this call")
            .to_do("open the writer again")
    }

    /// It is unknown if a call was committed.
    pub(crate) fn unknown_outcome(reason: impl Into<String>) -> Self {
        Self::from(ErrorKind::OutcomeUnknown { reason: reason.into() })
            .on_disk("all of this call or nothing of it")
            .to_do("open the database again and look whether the call's changes are there")
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
            ErrorKind::TimedOut { limit } => ErrorKind::TimedOut { limit: *limit },
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
        let Inner { row, on_disk, held_by, to_do, .. } = &*self.0;
        let (on_disk, held_by, to_do) = (on_disk.clone(), held_by.clone(), to_do.clone());
        let (statement, cause) = (None, None);
        Self(Box::new(Inner { kind, row: row.clone(), on_disk, held_by, to_do, statement, cause }))
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
            && named == hidden
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
                self.to_do("free some space, and try again")
            }
            _ => self,
        }
    }

    /// Adds how many transactions of a script stay, to the error of one that came after.
    #[must_use]
    pub(crate) fn with_commits(mut self, transactions: u64) -> Self {
        if let ErrorKind::Script(error) = &mut self.0.kind {
            error.transactions_committed = transactions;
        }
        self
    }

    /// Adds which row of the input it is about.
    #[must_use]
    pub(crate) fn of_row(mut self, row: BadRow) -> Self {
        self.0.row = Some(Box::new(row));
        self
    }

    /// Adds what is on disk now, unless a place nearer to the failure knew it.
    #[must_use]
    pub fn on_disk(mut self, state: impl Into<String>) -> Self {
        self.0.on_disk.get_or_insert_with(|| state.into());
        self
    }

    /// Adds who holds a database now, where the system tells. For errors that say that it is
    /// locked: the holder is looked up after the failure, and may be another one by then.
    #[must_use]
    pub(crate) fn held_by(mut self, holders: Option<String>) -> Self {
        self.0.held_by = self.0.held_by.or(holders);
        self
    }

    /// Adds what to do about it, unless a place nearer to the failure knew it.
    #[must_use]
    pub fn to_do(mut self, advice: impl Into<String>) -> Self {
        self.0.to_do.get_or_insert_with(|| spelled(&advice.into()));
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

    /// Advice about the failure.
    pub fn advice(&self) -> Option<&str> {
        self.0.to_do.as_deref()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        let (row, on_disk, held_by, to_do) = (None, None, None, None);
        let (statement, cause) = (None, None);
        Self(Box::new(Inner { kind, row, on_disk, held_by, to_do, statement, cause }))
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
