//! The kinds of failures, by what the caller can do, and their names for programs.
//!
//! Must never: give one failure two kinds.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{BadRow, ScriptError};
use crate::lease::{LeaseLost, Token};
use crate::words::{counted, path_text, printable};

/// Kind of a failure, by what the caller can do about it. One failure has one kind, by
/// whichever call it is met.
///
/// Where a variant does not say otherwise, the call that failed changed nothing;
/// [`Error::state_on_disk`](super::Error::state_on_disk) tells the state in words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A row of the input cannot be loaded and skipping was not allowed: correct the row, or
    /// allow skipping.
    #[error("{0}")]
    BadRow(Box<BadRow>),
    /// More rows were rejected than allowed: correct them, or allow more. The rejected rows are in
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
    /// The input as a whole cannot be read as what it should be: name its format or correct it.
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
    /// A table, view or index of that name is there, and changing it was not allowed: choose
    /// another name, or allow the change.
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
    /// A disk is full, the database is as large as its `PRAGMA max_page_count` allows, or a table's
    /// last rowid is taken: free some space, or allow more pages, and try again.
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
    /// input, if it came from one, says [`Error::bad_row`](super::Error::bad_row).
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
    /// A statement of a script failed: correct it. The transactions before it stay, if it did not
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
    #[non_exhaustive]
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
    #[error("{}", out_of_time(*limit, *is_for_reader, *is_for_closing))]
    #[non_exhaustive]
    TimedOut {
        /// The longest time that it may take.
        limit: Duration,
        /// True for the wait for a reader: nothing was run.
        is_for_reader: bool,
        /// True for the closing of a writer.
        is_for_closing: bool,
    },
    /// The writer's queue has no room, and the call was not to wait for it: try again later.
    #[error("the writer's queue is full: {capacity} calls wait already")]
    #[non_exhaustive]
    QueueFull {
        /// Calls that may wait.
        capacity: usize,
    },
    /// Another connection held the database for too long: try again when it is free, or wait
    /// longer.
    #[error("{}: {source}", held(*waited))]
    #[non_exhaustive]
    Busy {
        /// Time for which the call waited.
        waited: Duration,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// The writer takes no calls any more: open it again.
    #[error("the writer takes no calls any more: {reason}")]
    #[non_exhaustive]
    Stopped {
        /// Reason of the stop.
        reason: String,
    },
    /// A call in a child of `fork`, on what its parent process had opened. Nothing was
    /// done, and the parent goes on undisturbed: open a new one in the child.
    #[error(
        "this process was forked after the {thing} was opened: the {thing} belongs to its parent"
    )]
    #[non_exhaustive]
    Forked {
        /// Kind of the object that was called, such as "writer", "queue" or "ticket".
        thing: &'static str,
    },
    /// A call or a load may have been committed, as a whole, or not at all: open the database again
    /// and look.
    #[error("it is not known whether {what} was committed: {reason}")]
    #[non_exhaustive]
    OutcomeUnknown {
        /// Subject of the message: "the call", "the load", "the index" or "the new database".
        what: &'static str,
        /// The failure that led to this.
        reason: String,
    },
    /// The caller's closure panicked; its transaction was undone.
    #[error("the closure of the call panicked: {message}")]
    #[non_exhaustive]
    Panicked {
        /// Message of the panic.
        message: String,
    },
    /// A statement that would touch other callers' transactions.
    #[error("the writer refuses the statement: {reason}")]
    #[non_exhaustive]
    Refused {
        /// Effect that it would have on others.
        reason: String,
    },
    /// A claim of a job that does not hold any more: the call came too late.
    #[error("job {} is not yours any more: {why}", token.job)]
    #[non_exhaustive]
    LeaseLost {
        /// The token of the claim.
        token: Token,
        /// Fate of the job, as far as it is known.
        why: LeaseLost,
    },
    /// A token that no claim was answered with, of a job that is there or of none that ever was.
    #[error("there is no such claim: {token} was never given")]
    #[non_exhaustive]
    NoSuchClaim {
        /// The token.
        token: Token,
    },
    /// A queue transaction was not committed in time, and does nothing any more: begin another.
    #[error("the queue transaction has expired, at {} ms since the Unix epoch", expires_at.as_ms())]
    #[non_exhaustive]
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

fn held(waited: Duration) -> String {
    if waited < Duration::from_millis(50) {
        return "the database is held by another connection".to_owned();
    }
    format!("the database was held by another connection for {:.1} s", waited.as_secs_f64())
}

fn out_of_time(limit: Duration, is_for_reader: bool, is_for_closing: bool) -> String {
    if is_for_reader {
        format!("no reader became free within {limit:?}")
    } else if is_for_closing {
        format!("closing the writer took longer than the {limit:?} that it may")
    } else {
        format!("it was stopped, as it took longer than the {limit:?} that it may")
    }
}

fn in_table(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!("{}: ", printable(table)) }
}

fn refused_row(row: Option<u64>, values: Option<&str>) -> String {
    let number = row.map_or_else(String::new, |row| format!("\n  row {row}"));
    number + &values.map_or_else(String::new, |values| format!(": {}", printable(values)))
}
