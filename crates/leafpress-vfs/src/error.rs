//! The errors of this crate. Each says what happened, what is on disk, and what to do.
//!
//! Stands under all of this crate. A VFS answers SQLite with a
//! [`VfsError`](crate::VfsError); an [`Error`] is for the program that sets one up.
//!
//! Must never: know of databases as the library above does, which makes its own of these.

use std::fmt;
use std::path::PathBuf;

use crate::text::{path_text, printable, printable_lines};

/// The result of what can fail in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of a failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call itself is wrong, or comes at the wrong time.
    #[error("{0}")]
    Misuse(String),
    /// The platform or the SQLite of this build cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// A thing that is not there.
    #[error("{reason}")]
    #[non_exhaustive]
    NotFound {
        /// Kind of the thing, such as `simulated disk`.
        what: &'static str,
        /// Its name, as the call gave it.
        name: String,
        /// The message, with the name.
        reason: String,
    },
    /// Another part of this process has the database open in a way that would lose rows.
    #[error("{}: {reason}", path_text(path))]
    #[non_exhaustive]
    Destination {
        /// The database.
        path: PathBuf,
        /// Why it is not written.
        reason: String,
    },
    /// SQLite refused an operation.
    #[error("SQLite cannot {action}: {source}")]
    #[non_exhaustive]
    Sqlite {
        /// The operation that failed.
        action: &'static str,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// A call in a child of `fork`, on what its parent process had opened. Nothing was done.
    #[error(
        "this process was forked after the {thing} was opened: the {thing} belongs to its parent"
    )]
    #[non_exhaustive]
    Forked {
        /// Kind of the thing that was called.
        thing: &'static str,
    },
}

/// A failure, with the state of the disk after it and the way out.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    on_disk: Option<String>,
    to_do: Option<String>,
}

impl Error {
    /// An error of a call that is wrong.
    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        ErrorKind::Misuse(message.into()).into()
    }

    /// An error of a thing that is not there.
    pub(crate) fn not_found(what: &'static str, name: &str, reason: String) -> Self {
        ErrorKind::NotFound { what, name: name.to_owned(), reason }.into()
    }

    /// An error of a platform that cannot do it.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        ErrorKind::Unsupported(message.into()).into()
    }

    /// An error of a database that is not to be written.
    #[doc(hidden)]
    pub fn destination(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        ErrorKind::Destination { path: path.into(), reason: reason.into() }.into()
    }

    /// An error of a call in a child of `fork`.
    #[doc(hidden)]
    pub fn forked(thing: &'static str) -> Self {
        ErrorKind::Forked { thing }.into()
    }

    /// An error of SQLite.
    #[doc(hidden)]
    pub fn sqlite(action: &'static str, source: rusqlite::Error) -> Self {
        ErrorKind::Sqlite { action, source }.into()
    }

    #[must_use]
    pub(crate) fn on_disk(mut self, state: impl Into<String>) -> Self {
        self.0.on_disk = Some(state.into());
        self
    }

    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.0.to_do = Some(advice.into());
        self
    }

    /// Kind of the failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// State of the disk after it, if that is worth a word.
    pub fn state_on_disk(&self) -> Option<&str> {
        self.0.on_disk.as_deref()
    }

    /// Advice, if there is any.
    pub fn advice(&self) -> Option<&str> {
        self.0.to_do.as_deref()
    }

    /// The parts: the kind, the state of the disk, the advice.
    pub fn into_parts(self) -> (ErrorKind, Option<String>, Option<String>) {
        (self.0.kind, self.0.on_disk, self.0.to_do)
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, on_disk: None, to_do: None }))
    }
}

impl fmt::Display for Error {
    /// Each part in a line of its own. Names in it, which may hold anything, add none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_lines(&self.0.kind.to_string()))?;
        if let Some(state) = &self.0.on_disk {
            write!(f, "\non disk: {}", printable(state))?;
        }
        if let Some(advice) = &self.0.to_do {
            write!(f, "\nto do: {}", printable(advice))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_an_error_adds_no_line() {
        let error = Error::destination("a\n.db", "is open");
        let error = error.on_disk("nothing\nelse").advise("close it");
        assert_eq!(
            error.to_string(),
            "a\n  .db: is open\non disk: nothing\\nelse\nto do: close it"
        );
        assert_eq!(
            (error.state_on_disk(), error.advice()),
            (Some("nothing\nelse"), Some("close it"))
        );
    }
}
