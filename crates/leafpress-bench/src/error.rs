//! Errors of an experiment.
//!
//! Stands beside every other module. Whatever the error, the files that the
//! experiment made are gone when the caller sees it.

use leafpress::path_text;
use std::io;
use std::path::{Path, PathBuf};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why an experiment has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call itself is wrong.
    #[error("{0}")]
    Usage(String),
    /// The operating system refused an operation.
    #[error("cannot {action} {}: {source}", path_text(path))]
    Io {
        /// Action that was tried, as a verb: "read", "write", "start".
        action: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// SQLite refused an operation, in a rival's work or in a check.
    #[error("SQLite cannot {action}: {source}")]
    Sqlite {
        /// Action that was tried.
        action: &'static str,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// Leafpress's own work failed, which was to be timed.
    #[error(transparent)]
    Load(#[from] leafpress::Error),
    /// The generated CSV file does not read as what was generated.
    #[error("{}:{line}: {reason}", path_text(path))]
    Csv {
        /// The CSV file.
        path: PathBuf,
        /// Line of the record at fault, counted from 1.
        line: u64,
        /// Fault of the record.
        reason: String,
    },
    /// The process that ran a rung ended badly.
    #[error("the rung {name} failed: {reason}")]
    Rung {
        /// The rung's name.
        name: String,
        /// Its words on standard error, or its end.
        reason: String,
    },
    /// A rung left other rows than it should, so its time means nothing.
    #[error("the rung {name} left {found}, but {expected} was expected")]
    Unequal {
        /// The rung's name.
        name: String,
        /// Contents that the check found.
        found: String,
        /// Contents that it should have found.
        expected: String,
    },
    /// The caller asked to stop.
    #[error(
        "stopped before anything was measured, as asked: no report was written, and no temporary \
         file is left"
    )]
    Cancelled,
    /// The time for all experiments together is up.
    #[error("the time is up before anything was measured: name the experiments that you need")]
    TimeUp,
    /// An experiment would take more of the disk than it may.
    #[error(
        "{experiment} needs {needed_mb} MB, and at most {} may be taken: nothing was written; allow \
         more by --max-disk (such as 5G), or ask for less",
        size(*max_bytes)
    )]
    TooLarge {
        /// The group of rungs that was asked for.
        experiment: String,
        /// Room needed.
        needed_mb: u64,
        /// Room that may be taken.
        max_bytes: u64,
    },
    /// The disk has too little room for the experiment.
    #[error(
        "{experiment} needs {needed_mb} MB free, and {} has {free_mb} MB: nothing was written; \
         give a folder on a larger disk",
        path_text(path)
    )]
    Room {
        /// The group of rungs that was asked for.
        experiment: String,
        /// The folder that the experiment would use.
        path: PathBuf,
        /// Room needed.
        needed_mb: u64,
        /// Room found.
        free_mb: u64,
    },
}

/// A size as a user of `--max-disk` wrote it: whole megabytes, or bytes where it is not so many.
fn size(bytes: u64) -> String {
    if bytes.is_multiple_of(1_000_000) {
        format!("{} MB", bytes / 1_000_000)
    } else {
        format!("{bytes} bytes")
    }
}

impl Error {
    /// Error of the work of this rung, or of a part of it.
    pub(crate) fn rung(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Rung { name: name.into(), reason: reason.into() }
    }

    /// Error of a rung whose work was handed to the wrong rival.
    pub(crate) fn wrong_rival(name: impl Into<String>) -> Self {
        Self::rung(name, "its work was handed to the wrong rival")
    }

    /// Wraps an error of the operating system on `path`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Wraps an error of SQLite.
    pub(crate) fn sqlite(action: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Sqlite { action, source }
    }
}

impl From<leafpress::vfs::Error> for Error {
    fn from(error: leafpress::vfs::Error) -> Self {
        Self::Load(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_in_the_unit_that_loses_nothing() {
        let told = |max_bytes| {
            let experiment = "csv".to_owned();
            Error::TooLarge { experiment, needed_mb: 5, max_bytes }.to_string()
        };
        assert!(told(8_000).contains("at most 8000 bytes may be taken"), "{}", told(8_000));
        assert!(told(2_000_000).contains("at most 2 MB may be taken"), "{}", told(2_000_000));
    }
}
