//! Questions to an error, for programs that decide by it: is it worth another try, is a rule
//! broken, is the disk full?
//!
//! They are answered by the kind, and by the extended result code of SQLite's own error where one
//! is at the bottom. So it does not matter which call failed: a statement, rows, a load or a job.
//!
//! A row of an input that a load refuses before SQLite sees it is [`ErrorKind::BadRow`].
//!
//! Must never: read an advice or a path to find an answer.

use rusqlite::ffi;

use super::{Error, ErrorKind, Mark};

/// Questions that are the same for all calls.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// # let writer = leafpress::Writer::builder(&path).open()?;
/// writer.execute_batch("CREATE TABLE user(name TEXT UNIQUE); INSERT INTO user VALUES ('ann')")?;
/// let status = match writer.execute("INSERT INTO user VALUES (?1)", ["ann"]) {
///     Ok(_) => 201,
///     Err(error) if error.is_unique_violation() => 409,
///     Err(error) if error.is_retryable() => 503,
///     Err(_) => 500,
/// };
/// assert_eq!(status, 409);
/// # Ok::<(), leafpress::Error>(())
/// ```
impl Error {
    /// [Extended result code](https://sqlite.org/rescode.html) of SQLite's error, if SQLite has
    /// refused the operation.
    pub fn sqlite_code(&self) -> Option<i32> {
        let first = std::error::Error::source(self);
        let mut causes = std::iter::successors(first, |cause| cause.source());
        causes.find_map(|cause| match cause.downcast_ref::<rusqlite::Error>()? {
            rusqlite::Error::SqliteFailure(answer, _)
            | rusqlite::Error::SqlInputError { error: answer, .. } => Some(answer.extended_code),
            _ => None,
        })
    }

    /// Returns true if another connection held the database for too long.
    pub fn is_busy(&self) -> bool {
        matches!(self.kind(), ErrorKind::Busy { .. })
            || self.has_primary_code(&[ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED])
    }

    /// Returns true if a row breaks a rule of its table: UNIQUE, NOT NULL, CHECK, a foreign key,
    /// a type.
    pub fn is_constraint(&self) -> bool {
        matches!(self.kind(), ErrorKind::Constraint { .. })
            || self.has_primary_code(&[ffi::SQLITE_CONSTRAINT])
    }

    /// Returns true if a key is there already: a primary key, a UNIQUE column or index.
    pub fn is_unique_violation(&self) -> bool {
        const CODES: [i32; 3] = [
            ffi::SQLITE_CONSTRAINT_UNIQUE,
            ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
            ffi::SQLITE_CONSTRAINT_ROWID,
        ];
        self.breaks(&CODES, "UNIQUE")
    }

    /// Returns true if a row refers to a row that is not there, or is referred to and was to go.
    pub fn is_foreign_key_violation(&self) -> bool {
        self.breaks(&[ffi::SQLITE_CONSTRAINT_FOREIGNKEY], "FOREIGN KEY")
    }

    /// Returns true if a NULL was to go where none may be.
    pub fn is_not_null_violation(&self) -> bool {
        self.breaks(&[ffi::SQLITE_CONSTRAINT_NOTNULL], "NOT NULL")
    }

    /// Returns true if a row breaks a CHECK.
    pub fn is_check_violation(&self) -> bool {
        self.breaks(&[ffi::SQLITE_CONSTRAINT_CHECK], "CHECK")
    }

    /// Returns true if a disk is full, or the quota of a user.
    pub fn is_full(&self) -> bool {
        matches!(self.kind(), ErrorKind::NoSpace { .. })
            || self.has_primary_code(&[ffi::SQLITE_FULL])
    }

    /// Returns true if the same call may succeed later, and nothing of it was done: the database
    /// was held by another connection, another program has made meanwhile what was to be made, the
    /// queue was full, or the call was stopped at its limit of time. A disk that is full, an unknown
    /// outcome, a call of several transactions of which some are done, and a writer that was closed at
    /// its limit of time are no such failures.
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            _ if self.has_mark(Mark::InPart) => false,
            ErrorKind::TimedOut { .. } => !self.has_mark(Mark::Closed),
            ErrorKind::QueueFull { .. } => true,
            ErrorKind::OutcomeUnknown { .. } => false,
            _ => {
                let is_marked = |mark| self.has_mark(mark);
                self.is_busy() || is_marked(Mark::MadeMeanwhile) || is_marked(Mark::Retryable)
            }
        }
    }

    /// Returns true if the call may be in the database, or not: only looking tells. After every
    /// other error of a call nothing of it is there.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self.kind(), ErrorKind::OutcomeUnknown { .. })
    }

    /// Returns true if SQLite gave one of these extended codes; where SQLite was not asked, as in
    /// a load that has pressed the rows itself, if the reason is about this kind of rule.
    fn breaks(&self, codes: &[i32], rule: &str) -> bool {
        if let Some(code) = self.sqlite_code() {
            return codes.contains(&code);
        }
        let ErrorKind::Constraint { reason, .. } = self.kind() else { return false };
        reason.strip_prefix(rule).is_some_and(|rest| rest.starts_with(" constraint failed"))
    }

    fn has_primary_code(&self, codes: &[i32]) -> bool {
        self.sqlite_code().is_some_and(|code| codes.contains(&(code & 0xff)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The answers to all questions.
    fn answers(error: &Error) -> Vec<&'static str> {
        let all = [
            ("busy", error.is_busy()),
            ("constraint", error.is_constraint()),
            ("unique", error.is_unique_violation()),
            ("foreign key", error.is_foreign_key_violation()),
            ("not null", error.is_not_null_violation()),
            ("check", error.is_check_violation()),
            ("full", error.is_full()),
            ("retryable", error.is_retryable()),
            ("unknown", error.is_outcome_unknown()),
        ];
        all.into_iter().filter_map(|(name, yes)| yes.then_some(name)).collect()
    }

    fn of_sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn sqlite_codes_answer_whatever_the_kind_is() {
        let statement = |code| Error::statement(of_sqlite(code));
        for (code, expected) in [
            (ffi::SQLITE_CONSTRAINT_UNIQUE, vec!["constraint", "unique"]),
            (ffi::SQLITE_CONSTRAINT_PRIMARYKEY, vec!["constraint", "unique"]),
            (ffi::SQLITE_CONSTRAINT_ROWID, vec!["constraint", "unique"]),
            (ffi::SQLITE_CONSTRAINT_FOREIGNKEY, vec!["constraint", "foreign key"]),
            (ffi::SQLITE_CONSTRAINT_NOTNULL, vec!["constraint", "not null"]),
            (ffi::SQLITE_CONSTRAINT_CHECK, vec!["constraint", "check"]),
            (ffi::SQLITE_CONSTRAINT_TRIGGER, vec!["constraint"]),
            (ffi::SQLITE_BUSY_SNAPSHOT, vec!["busy", "retryable"]),
            (ffi::SQLITE_LOCKED, vec!["busy", "retryable"]),
            (ffi::SQLITE_FULL, vec!["full"]),
            (ffi::SQLITE_ERROR, vec![]),
        ] {
            let error = statement(code);
            assert_eq!(answers(&error), expected, "{code}");
            assert_eq!(error.sqlite_code(), Some(code));
        }
    }

    #[test]
    fn kinds_answer_where_sqlite_was_not_asked() {
        let constraint = |reason: &str| {
            let (table, reason) = ("t".to_owned(), reason.to_owned());
            Error::from(ErrorKind::Constraint { table, reason, row: Some(1), values: None })
        };
        let limit = Duration::ZERO;
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        for (error, expected) in [
            (constraint("UNIQUE constraint failed: t.a"), vec!["constraint", "unique"]),
            (constraint("FOREIGN KEY constraint failed"), vec!["constraint", "foreign key"]),
            (constraint("UNIQUEness is not asked for"), vec!["constraint"]),
            (ErrorKind::QueueFull { capacity: 1 }.into(), vec!["retryable"]),
            (Error::timed_out(limit), vec!["retryable"]),
            (Error::not_closed_in_time(limit), vec![]),
            (Error::unknown_outcome("power"), vec!["unknown"]),
            (Error::io("write", std::path::Path::new("a"), full), vec!["full"]),
            (Error::misuse("no"), vec![]),
        ] {
            assert_eq!(answers(&error), expected, "{error}");
            assert_eq!(error.sqlite_code(), None);
        }
    }

    #[test]
    fn a_want_of_descriptors_or_memory_says_what_to_allow() {
        let no_memory = Error::sqlite("open it", of_sqlite(ffi::SQLITE_NOMEM));
        assert!(no_memory.advice().is_some_and(|advice| advice.contains("memory")), "{no_memory}");
        #[cfg(unix)]
        for code in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE] {
            let error = Error::io("open", std::path::Path::new("a"), code.into());
            assert!(error.advice().is_some_and(|advice| advice.contains("files")), "{error}");
            let error = crate::refusal::not_readable(std::path::Path::new("a"), code.into());
            assert!(error.advice().is_some_and(|advice| advice.contains("files")), "{error}");
        }
    }

    #[test]
    fn a_statement_that_cannot_be_compiled_has_a_code() {
        let connection = rusqlite::Connection::open_in_memory().expect("a database");
        let source = connection.execute("INSRT", ()).expect_err("no SQL");
        assert_eq!(Error::from(source).sqlite_code(), Some(ffi::SQLITE_ERROR));
    }

    #[test]
    fn the_cause_of_a_caller_answers_too() {
        let error = Error::aborted(of_sqlite(ffi::SQLITE_CONSTRAINT_UNIQUE));
        assert_eq!(answers(&error), ["constraint", "unique"]);
    }

    #[test]
    fn advice_for_a_full_database_names_all_causes() {
        let full = || {
            let code = ffi::Error::new(ffi::SQLITE_FULL);
            rusqlite::Error::SqliteFailure(code, None)
        };
        let path = std::path::Path::new("a.db");
        let refusal = crate::refusal::Refusal { named: path, file: None, waited: Duration::ZERO };
        for error in
            [Error::sqlite("write", full()).on_full_disk(path), refusal.error("write", full())]
        {
            assert!(error.is_full(), "{error}");
            let advice = error.advice().expect("there is some");
            for cause in ["the disk", "max_page_count", "last rowid"] {
                assert!(advice.contains(cause), "{advice}");
            }
        }
    }
}
