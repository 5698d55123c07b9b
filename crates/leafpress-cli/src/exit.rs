//! The exit statuses, and the status of each kind of error.
//!
//! Must never: give a status 3 that leaves something half done behind, since
//! scripts read it as "failed, and nothing changed".

use std::process::ExitCode;

use leafpress::ErrorKind;

/// Exit status of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Everything was done.
    Done = 0,
    /// The work was done, but rows were rejected; or problems were found; or only a part was done.
    DoneWithProblems = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The command failed, and nothing changed.
    Failed = 3,
}

impl Status {
    /// The status for a failure of this kind.
    pub fn of(kind: &ErrorKind) -> Self {
        match kind {
            // A table that is not there is as a column that is not there.
            ErrorKind::Usage(_) | ErrorKind::NoSuchTable { .. } => Self::Usage,
            // What was committed before it stays.
            ErrorKind::Script(error) if error.transactions_committed > 0 => Self::DoneWithProblems,
            _ => Self::Failed,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}
