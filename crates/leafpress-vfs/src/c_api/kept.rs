//! A connection that keeps its statements compiled.
//!
//! rusqlite's own cache hashes the text at each use, and clears the parameters after it: some
//! thousand instructions, where a small transaction has ten thousand. Here a statement is found by
//! comparing texts, those that are used most often first, and stays as it is.
//!
//! 1. A statement is dropped before its connection.
//! 2. A statement is handed out once at a time, and a closure that runs it cannot keep it.
//!
//! Must never: keep a statement that has not succeeded once, or reset one: rusqlite's rows do.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;

use rusqlite::{Connection, PrepFlags, Statement};

/// A connection, and the statements that were run on it by [`compiled`](Self::compiled).
pub struct KeepingConnection {
    /// In the order in which they are looked through.
    kept: RefCell<Vec<Kept>>,
    kept_max: usize,
    /// Made by `Box::leak`, and freed by `drop`.
    connection: NonNull<Connection>,
}

struct Kept {
    sql: Rc<str>,
    /// None while it is handed out.
    statement: Option<Statement<'static>>,
}

/// A statement that is handed out, and goes back when this is dropped.
pub struct CompiledStatement<'c> {
    connection: &'c KeepingConnection,
    sql: Rc<str>,
    statement: Option<Statement<'static>>,
    has_succeeded: bool,
}

// SAFETY: the statements and their texts belong to the connection, and move with it: those that are
// handed out borrow it. It may be used by any thread, by one at a time: as it is not `Sync`, no two
// threads have a reference to it.
unsafe impl Send for KeepingConnection {}

impl KeepingConnection {
    /// Takes over a connection, of which at most `kept_max` statements are kept.
    pub fn new(connection: Connection, kept_max: usize) -> Self {
        let connection = NonNull::from(Box::leak(Box::new(connection)));
        Self { kept: RefCell::default(), kept_max, connection }
    }

    /// The statement `sql`, which is compiled if it is not kept, or handed out.
    ///
    /// # Errors
    /// That of compiling it.
    pub fn compiled(&self, sql: &str) -> rusqlite::Result<CompiledStatement<'_>> {
        if let Some(kept) = self.kept(sql) {
            return Ok(kept);
        }
        let flags = PrepFlags::SQLITE_PREPARE_PERSISTENT;
        let statement = Some(self.unbound().prepare_with_flags(sql, flags)?);
        let sql = sql.into();
        Ok(CompiledStatement { connection: self, sql, statement, has_succeeded: false })
    }

    /// The statement `sql`, if it is kept and not handed out. So it has succeeded once.
    pub fn kept(&self, sql: &str) -> Option<CompiledStatement<'_>> {
        let (sql, statement) = self.take(sql)?;
        let statement = Some(statement);
        Some(CompiledStatement { connection: self, sql, statement, has_succeeded: true })
    }

    /// Runs the statement `sql` once.
    ///
    /// # Errors
    /// That of compiling it, or that of `run`.
    pub fn with<T>(
        &self,
        sql: &str,
        run: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.compiled(sql)?.run(run)
    }

    /// The statement, if it is kept and not handed out. The next search finds it sooner.
    fn take(&self, sql: &str) -> Option<(Rc<str>, Statement<'static>)> {
        let kept = &mut *self.kept.borrow_mut();
        let place = kept.iter().position(|it| *it.sql == *sql)?;
        let sooner = place.saturating_sub(1);
        kept.swap(place, sooner);
        let Kept { sql, statement } = &mut kept[sooner];
        Some((Rc::clone(sql), statement.take()?))
    }

    fn put(&self, sql: Rc<str>, statement: Statement<'static>) {
        let mut kept = self.kept.borrow_mut();
        let same = |it: &&mut Kept| Rc::ptr_eq(&it.sql, &sql) || it.sql == sql;
        if let Some(place) = kept.iter_mut().find(same) {
            place.statement = Some(statement);
            return;
        }
        kept.truncate(self.kept_max.saturating_sub(1));
        kept.push(Kept { sql, statement: Some(statement) });
    }

    /// The connection, for as long as this value is not dropped.
    fn unbound(&self) -> &'static Connection {
        // SAFETY: it is freed when this value is dropped, after all statements, which alone hold
        // this reference. No `&mut Connection` is ever made of it before.
        unsafe { &*self.connection.as_ptr() }
    }
}

impl CompiledStatement<'_> {
    /// Returns true if it has succeeded once.
    pub fn has_succeeded(&self) -> bool {
        self.has_succeeded
    }

    /// Runs it.
    ///
    /// # Errors
    /// That of `run`.
    #[expect(clippy::missing_panics_doc, reason = "nothing but drop takes the statement")]
    pub fn run<T>(
        &mut self,
        run: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let statement = self.statement.as_mut().expect("only drop takes it");
        let outcome = run(statement);
        self.has_succeeded |= outcome.is_ok();
        outcome
    }
}

impl Drop for CompiledStatement<'_> {
    fn drop(&mut self) {
        if let (Some(statement), true) = (self.statement.take(), self.has_succeeded) {
            self.connection.put(Rc::clone(&self.sql), statement);
        }
    }
}

impl Deref for KeepingConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.unbound()
    }
}

impl Drop for KeepingConnection {
    fn drop(&mut self) {
        self.kept.get_mut().clear();
        // SAFETY: `new` made it of a box, nothing else frees it, and no reference is left: those of
        // `deref` end before this value does, and those of the statements have ended above.
        drop(unsafe { Box::from_raw(self.connection.as_ptr()) });
    }
}

impl fmt::Debug for KeepingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeepingConnection").field("connection", &**self).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    fn connection(kept_max: usize) -> KeepingConnection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        KeepingConnection::new(connection, kept_max)
    }

    /// Inserts a row. Returns how often the compiled statement has run.
    fn insert(connection: &KeepingConnection, sql: &str, x: i64) -> rusqlite::Result<i32> {
        connection.with(sql, |statement| {
            statement.execute([x])?;
            Ok(statement.get_status(StatementStatus::Run))
        })
    }

    #[test]
    fn a_statement_is_compiled_once_while_it_is_kept() {
        let connection = connection(3);
        let texts: Vec<String> =
            (0..4).map(|n| format!("INSERT INTO t VALUES (?1 + {n})")).collect();
        for runs in 1..6 {
            for sql in &texts[..3] {
                assert_eq!(insert(&connection, sql, 0), Ok(runs));
            }
        }
        // A fourth one takes the place of one of them.
        assert_eq!(insert(&connection, &texts[3], 0), Ok(1));
        let mut runs: Vec<i32> =
            texts[..3].iter().map(|sql| insert(&connection, sql, 0).unwrap()).collect();
        runs.sort_unstable();
        assert!(runs[0] == 1 && runs[2] == 6, "{runs:?}");
        let rows = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        assert_eq!(rows, Ok(19));
    }

    #[test]
    fn one_that_fails_stays_and_one_in_use_is_compiled_again() {
        let connection = connection(8);
        connection.execute_batch("CREATE UNIQUE INDEX u ON t (x)").unwrap();
        let sql = "INSERT INTO t VALUES (?1)";
        assert!(insert(&connection, "INSERT INTO none VALUES (?1)", 1).is_err());
        assert_eq!(insert(&connection, sql, 1), Ok(1));
        assert!(insert(&connection, sql, 1).is_err(), "it is not unique");
        assert_eq!(insert(&connection, sql, 2), Ok(3));
        let runs = connection.with(sql, |outer| {
            assert_eq!(insert(&connection, sql, 3), Ok(1));
            outer.execute([4])?;
            Ok(outer.get_status(StatementStatus::Run))
        });
        assert_eq!(runs, Ok(4));
        assert_eq!(insert(&connection, sql, 5), Ok(5));
    }

    #[test]
    fn the_connection_closes_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let connection = KeepingConnection::new(Connection::open(&path).unwrap(), 8);
        connection.with("PRAGMA journal_mode = WAL", |it| it.query_row([], |_| Ok(()))).unwrap();
        connection.with("CREATE TABLE t (x)", |it| it.execute([])).unwrap();
        insert(&connection, "INSERT INTO t VALUES (?1)", 1).unwrap();
        let log = path.with_extension("db-wal");
        assert!(log.exists());
        std::thread::spawn(move || drop(connection)).join().unwrap();
        assert!(!log.exists(), "the last connection removes the log when it is closed");
    }
}
