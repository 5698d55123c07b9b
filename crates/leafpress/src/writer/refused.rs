//! Errors of callers' statements: why SQLite, or the guard, refused one.

use rusqlite::ErrorCode;

use super::guard::Guard;
use super::place::is_moved_database;
use super::statement::is_no_statement;
use crate::checkpoint::MOVED;
use crate::error::{Error, ErrorKind};
use crate::sqlite_error::sqlite_says;

/// The error of a caller's statement, in the guard's words if it was refused.
pub(super) fn refused(guard: &Guard, source: rusqlite::Error) -> Error {
    if source.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied)
        && let Some(reason) = guard.take_refusal()
    {
        return Error::from(ErrorKind::Refused { reason });
    }
    if is_moved_database(&source) {
        return Error::stopped(MOVED).caused_by(source);
    }
    if sqlite_says(&source).starts_with("cannot VACUUM") {
        return Error::statement(source).to_do(
            "call the writer's method `maintain`, with the work `vacuum`; for VACUUM INTO, which \
             makes a copy, its method `backup_to`",
        );
    }
    if let rusqlite::Error::NulError(nul) = &source {
        let at = nul.nul_position();
        return Error::misuse(format!("byte {at} of the SQL is NUL, where SQLite would end it"))
            .to_do("bind the text as a parameter, or leave the character out");
    }
    if matches!(source, rusqlite::Error::MultipleStatement) {
        return Error::misuse("the text holds several statements, and this call carries out one")
            .to_do("give each to a call of its own, or all of them to execute_batch");
    }
    if is_no_statement(&source) {
        return Error::misuse("the text holds no statement, but only blanks or comments")
            .to_do("leave the call out, or use execute_batch, for which a text may be empty");
    }
    Error::statement(source)
}
