//! SQLite's errors: the sentence, the cause.
//!
//! Stands below every stage. Must never: know what was tried when the error came.

use rusqlite::ErrorCode;

/// SQLite's own sentence, without the wrapper's.
pub fn sqlite_says(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// The error without the statement, for one that its reader did not write.
pub(crate) fn without_statement(error: rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqlInputError { error, msg, .. } => {
            rusqlite::Error::SqliteFailure(error, Some(msg))
        }
        other => other,
    }
}

/// Returns true if the row is to blame, and not the disk or another program.
pub(crate) fn is_refusal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    )
}

/// Returns true if a row that was given to a prepared INSERT caused its failure. SQLite has no code
/// of its own for an expression of an index or a CHECK that fails on a value. The same code comes from
/// a virtual table that cannot take any row, here or at all.
pub(crate) fn is_fault_of_a_row(error: &rusqlite::Error) -> bool {
    let may_be_of_a_value = || {
        error.sqlite_error_code() == Some(ErrorCode::Unknown)
            && !is_unexplained(error)
            && !needs_its_application(error)
    };
    is_refusal(error) || may_be_of_a_value()
}

/// Returns true if SQLite gives no reason. Expressions that fail on a value give one.
pub(crate) fn is_unexplained(error: &rusqlite::Error) -> bool {
    sqlite_says(error) == "SQL logic error"
}

/// Returns true if the schema needs a function, a collation, a module or a tokenizer that only its
/// application has.
pub(crate) fn needs_its_application(error: &rusqlite::Error) -> bool {
    const MISSING: [&str; 6] = [
        "unknown function",
        "no such function",
        "no such collation",
        "no such module",
        "no such tokenizer",
        "unknown tokenizer",
    ];
    let says = sqlite_says(error);
    MISSING.iter().any(|it| says.contains(it))
}

/// Advice for a row for which SQLite has rolled the whole transaction back.
pub(crate) const ROLLED_BACK_TO_DO: &str = "correct the row: its trigger or ON CONFLICT ROLLBACK undoes the whole transaction, so the row cannot be skipped";

/// Returns true if a connection that may not write met a journal or log that must be applied to the
/// database first.
pub(crate) fn wants_to_write(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_READONLY_RECOVERY, SQLITE_READONLY_ROLLBACK};

    let code = error.sqlite_error().map(|it| it.extended_code);
    matches!(code, Some(SQLITE_READONLY_ROLLBACK | SQLITE_READONLY_RECOVERY))
}

/// The error that SQLite has for a rule, for rows whose fault a load found before SQLite did.
pub(crate) fn broken_rule(extended_code: std::ffi::c_int) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(extended_code), None)
}
