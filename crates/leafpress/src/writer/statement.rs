//! Single statements: compiled once, found again, carried out to their end.
//!
//! Callers mostly send one statement over and over, so [`LastStatement`] has it at hand from call
//! to call of a group. The connection keeps this one and others compiled.
//!
//! Must never: keep a PRAGMA compiled, since only its compilation is seen by the
//! guard; or find one of the writer's own statements compiled, which the guard
//! let pass.

use std::borrow::Borrow;
use std::cell::{RefCell, RefMut};
use std::ffi::CString;
use std::sync::Arc;

use rusqlite::{Connection, ffi};

use super::batch::all_rows;
use super::request::{Executed, Parameters};
use crate::script::split;
use crate::vfs::kept::{CompiledStatement, KeepingConnection};

/// Facts of the statement of the last single call that its words alone tell.
#[derive(Debug, Default)]
pub(super) struct KnownStatement {
    sql: Arc<str>,
    /// True if it may leave a part of its changes when it fails.
    may_fail: bool,
    /// True if the guard must see it each time.
    is_seen: bool,
}

/// The statement of the last single call, for the next one.
pub(super) struct LastStatement<'c> {
    connection: &'c KeepingConnection,
    known: RefMut<'c, KnownStatement>,
    compiled: Option<CompiledStatement<'c>>,
    /// True if the last run came to the statement's first step.
    has_begun: bool,
}

impl<'c> LastStatement<'c> {
    /// Begins with the facts that are kept of the statement before.
    pub(super) fn new(
        connection: &'c KeepingConnection,
        known: &'c RefCell<KnownStatement>,
    ) -> Self {
        Self { connection, known: known.borrow_mut(), compiled: None, has_begun: false }
    }

    /// Takes this statement as the last one, and drops the compiled one if that is another.
    pub(super) fn select(&mut self, sql: &Arc<str>) {
        if !Arc::ptr_eq(&self.known.sql, sql) && self.known.sql != *sql {
            self.compiled = None;
            self.known.sql = Arc::clone(sql);
            self.known.may_fail = contains_word(sql.as_bytes(), b"fail");
            self.known.is_seen = must_be_seen(sql);
        }
    }

    /// Returns true if SQLite's own atomicity is enough for the statement: with OR FAIL, half of it
    /// would stay.
    pub(super) fn is_atomic(&self) -> bool {
        !self.known.may_fail
    }

    /// Looks for the statement among those that are compiled; returns true if it is there, and has
    /// succeeded before.
    pub(super) fn find_compiled(&mut self) -> bool {
        if self.compiled.is_none() && !self.known.is_seen {
            self.compiled = self.connection.kept(&self.known.sql);
        }
        self.compiled.as_ref().is_some_and(CompiledStatement::has_succeeded)
    }

    /// Returns true if SQLite has undone the last run, which failed with this error, also inside a
    /// transaction.
    ///
    /// It takes back a statement by its own journal, which it keeps only for statements that were
    /// compiled with a constraint that may break, or RAISE. Any other error half way, such as
    /// that of a type in a STRICT table or of a sum that is too large, leaves the rows before it.
    pub(super) fn is_undone(&self, source: &rusqlite::Error) -> bool {
        let code = source.sqlite_error().map(|error| error.extended_code);
        !self.has_begun || code.is_some_and(|code| UNDONE_AFTER.contains(&code))
    }

    /// Carries it out. Parameters that are given away are freed once they are bound: SQLite
    /// has copies of long ones.
    pub(super) fn execute(
        &mut self,
        parameters: impl Borrow<Parameters>,
    ) -> rusqlite::Result<Executed> {
        let Self { connection, known, compiled, has_begun } = self;
        *has_begun = false;
        let run = |compiled: &mut rusqlite::Statement<'_>| {
            bound(compiled, parameters, |compiled| {
                *has_begun = true;
                step_through(connection, compiled)
            })
        };
        if compiled.is_none() {
            without_nul(&known.sql)?;
        }
        if known.is_seen {
            return run(&mut connection.prepare(&known.sql)?);
        }
        match compiled {
            Some(compiled) => compiled.run(run),
            none => none.insert(connection.compiled(&known.sql)?).run(run),
        }
    }
}

/// Errors after which nothing of a statement is left.
const UNDONE_AFTER: [i32; 7] = [
    ffi::SQLITE_CONSTRAINT_CHECK,
    ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
    ffi::SQLITE_CONSTRAINT_NOTNULL,
    ffi::SQLITE_CONSTRAINT_PRIMARYKEY,
    ffi::SQLITE_CONSTRAINT_ROWID,
    ffi::SQLITE_CONSTRAINT_TRIGGER,
    ffi::SQLITE_CONSTRAINT_UNIQUE,
];

/// A longer value is not left bound to a statement that is kept.
const LONG_VALUE_BYTES: usize = 1024;

const NO_STATEMENT: &str = "no statement";

/// The error of a statement; SQLite has no word for a text that holds none.
fn unless_empty(compiled: &rusqlite::Statement<'_>, source: rusqlite::Error) -> rusqlite::Error {
    if compiled.expanded_sql().is_some() {
        return source;
    }
    let misuse = ffi::Error::new(ffi::SQLITE_MISUSE);
    rusqlite::Error::SqliteFailure(misuse, Some(NO_STATEMENT.to_owned()))
}

/// Returns true if this is the error of a text that holds no statement.
pub(super) fn is_no_statement(source: &rusqlite::Error) -> bool {
    matches!(source, rusqlite::Error::SqliteFailure(error, Some(words))
        if error.extended_code == ffi::SQLITE_MISUSE && words == NO_STATEMENT)
}

/// Carries out one statement, whatever it is; rows that it returns are dropped.
pub(super) fn execute(
    connection: &KeepingConnection,
    sql: &str,
    parameters: &Parameters,
) -> rusqlite::Result<Executed> {
    prepared(connection, sql, parameters, |compiled| step_through(connection, compiled))
}

/// Compiles a statement, or finds it compiled, and runs it with these parameters.
pub(super) fn prepared<T>(
    connection: &KeepingConnection,
    sql: &str,
    parameters: &Parameters,
    run: impl FnOnce(&mut rusqlite::Statement<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    without_nul(sql)?;
    let run = |compiled: &mut rusqlite::Statement<'_>| bound(compiled, parameters, run);
    if must_be_seen(sql) { run(&mut connection.prepare(sql)?) } else { connection.with(sql, run) }
}

/// Returns true if the text is an INSERT, UPDATE or DELETE, also behind WITH.
///
/// # Errors
/// That of compiling it, and that of a text that holds no statement.
pub(super) fn changes_rows(connection: &Connection, sql: &str) -> rusqlite::Result<bool> {
    without_nul(sql)?;
    let compiled = connection.prepare(sql)?;
    if compiled.expanded_sql().is_none() {
        return Err(unless_empty(&compiled, rusqlite::Error::InvalidQuery));
    }
    let parts = split("", sql).unwrap_or_default();
    let is_word = |word: &&str| {
        parts
            .first()
            .and_then(|it| it.sql.get(..word.len()))
            .is_some_and(|it| it.eq_ignore_ascii_case(word))
    };
    let changes = ["INSERT", "REPLACE", "UPDATE", "DELETE", "WITH"].iter().any(is_word);
    Ok(changes && !compiled.readonly())
}

/// Refuses a text with a NUL character: SQLite would take what stands before it for all of it, and
/// `DELETE FROM t` would lose its WHERE.
pub(super) fn without_nul(sql: &str) -> rusqlite::Result<()> {
    if memchr::memchr(0, sql.as_bytes()).is_none() {
        return Ok(());
    }
    CString::new(sql).map(drop).map_err(rusqlite::Error::NulError)
}

/// Binds the parameters and runs the statement. Parameters that are given away are freed once they
/// are bound, and SQLite's copies of long ones after the run, as the statement is kept.
fn bound<T>(
    compiled: &mut rusqlite::Statement<'_>,
    parameters: impl Borrow<Parameters>,
    run: impl FnOnce(&mut rusqlite::Statement<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let has_long = parameters.borrow().has_longer_than(LONG_VALUE_BYTES);
    let outcome = bind(compiled, parameters.borrow()).and_then(|()| {
        drop(parameters);
        run(compiled)
    });
    if has_long {
        compiled.clear_bindings();
    }
    outcome.map_err(|source| unless_empty(compiled, source))
}

/// Takes all steps: one with RETURNING is done only after its last row.
fn step_through(
    connection: &Connection,
    compiled: &mut rusqlite::Statement<'_>,
) -> rusqlite::Result<Executed> {
    let before = connection.total_changes();
    all_rows(compiled.raw_query())?;
    Ok(executed(connection, before))
}

/// The result of the last statement, before which there were so many changes.
pub(super) fn executed(connection: &Connection, before: u64) -> Executed {
    // SQLite tells the last statement's count again after one that counts nothing.
    let changed = connection.total_changes() != before;
    let rows_changed = if changed { connection.changes() } else { 0 };
    Executed { rows_changed, last_insert_rowid: connection.last_insert_rowid() }
}

/// Binds the parameters: each place has its value, or NULL where the others have names.
fn bind(compiled: &mut rusqlite::Statement<'_>, parameters: &Parameters) -> rusqlite::Result<()> {
    match parameters {
        Parameters::Positional(values) => {
            let wanted = compiled.parameter_count();
            if values.len() != wanted {
                return Err(rusqlite::Error::InvalidParameterCount(values.len(), wanted));
            }
            for (index, value) in values.iter().enumerate() {
                compiled.raw_bind_parameter(index + 1, value)?;
            }
        }
        Parameters::Named(values) => {
            // A parameter without a value is NULL, not the value of the last call.
            compiled.clear_bindings();
            for (name, value) in values {
                let index = compiled.parameter_index(name)?;
                let index =
                    index.ok_or_else(|| rusqlite::Error::InvalidParameterName(name.clone()))?;
                compiled.raw_bind_parameter(index, value)?;
            }
        }
    }
    Ok(())
}

/// Returns true if the guard must see the statement each time: it may be a PRAGMA, or contain the
/// words of one of the writer's own statements.
fn must_be_seen(sql: &str) -> bool {
    contains_word(sql.as_bytes(), b"pragma") || contains_word(sql.as_bytes(), b"leafpress")
}

/// Returns true if `sql` contains these letters, in any case.
pub(super) fn contains_word(sql: &[u8], word: &[u8]) -> bool {
    let (lower, upper) = (word[0], word[0].to_ascii_uppercase());
    memchr::memchr2_iter(lower, upper, sql)
        .any(|at| sql.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_at_any_end() {
        for sql in ["FAIL", "insert or Fail into t", "xfail", "f fa fai fail"] {
            assert!(contains_word(sql.as_bytes(), b"fail"), "{sql}");
        }
        for sql in ["", "fai", "f a i l", "INSERT OR ROLLBACK"] {
            assert!(!contains_word(sql.as_bytes(), b"fail"), "{sql}");
        }
    }

    #[test]
    fn a_text_is_not_cut_at_a_nul() {
        let connection = Connection::open_in_memory().expect("a database");
        let connection = KeepingConnection::new(connection, 8);
        connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").expect("a row");
        let (known, none) = (RefCell::default(), Parameters::Positional(Vec::new()));
        for sql in ["DELETE FROM t\0 WHERE a = 2", "PRAGMA user_version\0 = 5"] {
            let mut last = LastStatement::new(&connection, &known);
            last.select(&sql.into());
            for refused in [last.execute(&none), execute(&connection, sql, &none)] {
                assert!(matches!(refused, Err(rusqlite::Error::NulError(_))), "{refused:?}");
            }
        }
        let whole = execute(&connection, "DELETE FROM t", &none).expect("a statement");
        assert_eq!(whole.rows_changed, 1, "the row is there still");
    }

    #[test]
    fn a_statement_is_kept_and_counts_only_its_own_changes() {
        let connection = Connection::open_in_memory().expect("a database");
        let connection = KeepingConnection::new(connection, 8);
        connection.execute_batch("CREATE TABLE t(a)").expect("a table");
        let known = RefCell::default();
        let mut last = LastStatement::new(&connection, &known);
        let values = |a: i64| Parameters::Positional(vec![a.into()]);
        for a in 0..3 {
            last.select(&"INSERT INTO t VALUES (?1)".into());
            assert!(last.is_atomic());
            assert_eq!(last.execute(values(a)).expect("it goes in").rows_changed, 1);
        }
        last.select(&"CREATE TABLE u(b)".into());
        assert!(last.is_atomic());
        let none = Parameters::Positional(Vec::new());
        assert_eq!(last.execute(&none).expect("a table").rows_changed, 0);
        last.select(&"UPDATE t SET a = a + 1 RETURNING a".into());
        assert!(last.is_atomic());
        assert_eq!(last.execute(&none).expect("all rows").rows_changed, 3);
        last.select(&"INSERT OR FAIL INTO t VALUES (1)".into());
        assert!(!last.is_atomic());
        let wrong = last.execute(values(1)).expect_err("one value too many");
        assert!(matches!(wrong, rusqlite::Error::InvalidParameterCount(1, 0)), "{wrong}");
    }
}
