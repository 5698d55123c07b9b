//! The meaning of a COMMIT that failed: nothing is committed, or the outcome is unknown.
//!
//! In WAL mode SQLite writes all pages of a transaction to the log, the last one with the mark of a
//! commit, and then syncs the log. If the sync fails, COMMIT fails, and the connection forgets the
//! transaction. The log still has it: the next opening of the database reads the log from its start
//! and takes the transaction for committed. So neither "it is committed" nor "nothing of it is there"
//! would be true. Stands below the writer and the loader, which both ask here.
//!
//! Must never: take an error that came after the first write to the log for "nothing is committed".

use rusqlite::ErrorCode;

/// Outcome of a COMMIT that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedCommit {
    /// Nothing is committed: another connection holds the database.
    Locked,
    /// Nothing is committed, for another reason.
    Nothing,
    /// All of the transaction is committed, or nothing of it.
    Unknown,
}

impl FailedCommit {
    /// Finds the meaning of COMMIT's error.
    pub fn of(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(
                ErrorCode::DiskFull
                | ErrorCode::ConstraintViolation
                | ErrorCode::OperationInterrupted
                | ErrorCode::TooBig,
            ) => Self::Nothing,
            // Also memory that is short: SQLite enters the frames into its index of the log, which takes
            // memory, after it has written them.
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn an_error_that_may_come_after_the_write_is_unknown() {
        let of =
            |code| FailedCommit::of(&rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        assert_eq!(of(ffi::SQLITE_BUSY), FailedCommit::Locked);
        assert_eq!(of(ffi::SQLITE_FULL), FailedCommit::Nothing);
        for code in [ffi::SQLITE_NOMEM, ffi::SQLITE_IOERR_NOMEM, ffi::SQLITE_IOERR_FSYNC] {
            assert_eq!(of(code), FailedCommit::Unknown);
        }
    }
}
