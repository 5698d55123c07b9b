//! Connections to the destination, and what SQLite's refusals mean.
//!
//! One place for both, so that each way in opens the file in the same way and
//! says the same of a database that is locked, read-only or damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::overlay::Overlay;
use super::task::Settings;
use crate::connect;
use crate::error::{Error, ErrorKind, Result};
use crate::load::options::CancelToken;
use crate::load::report::Stage;
use crate::refusal::{Refusal, not_readable};
use crate::sqlite_error::sqlite_says;
use crate::verify::uri;
use crate::vfs::locks;
use crate::words::path_text;

/// What stands in every error of this module.
pub const UNCHANGED: &str = "the database is as it was";
/// Steps of SQLite's machine between two looks at the wish to stop.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;
/// SQLite keeps this much however little memory is given.
const CACHE_BYTES_MIN: u64 = 2 << 20;

/// The destination's name, and how its errors are told.
#[derive(Debug, Clone)]
pub struct Target {
    /// As the caller named it.
    pub named: PathBuf,
    /// Absolute, links resolved.
    pub path: PathBuf,
    /// How long it is waited for, for messages.
    pub busy_timeout: Duration,
    /// Whether a log stays as it is when it is closed, which SQLite would copy into the database.
    pub keeps_log: bool,
    /// Where what is done is only tried: a look at the database that keeps all changes.
    pub overlay: Option<Arc<Overlay>>,
}

impl Target {
    /// Opens the database for reading and writing; it must exist.
    ///
    /// Whatever the program's other connections do, this one commits
    /// durably: with a rollback journal that takes EXTRA, as below it the
    /// journal's removal is not synced and a power cut can bring it back.
    pub fn open(&self, busy_timeout: Duration) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let (connection, durable) = if let Some(overlay) = &self.overlay {
                (overlay.open()?, "")
            } else {
                let connection = connect::open(uri(&self.path, "mode=rw"), flags)?;
                (connection, "PRAGMA synchronous=EXTRA;")
            };
            connection.busy_timeout(busy_timeout)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, self.keeps_log)?;
            connection.execute_batch(&format!(
                "{durable} PRAGMA cell_size_check=ON; PRAGMA foreign_keys=ON"
            ))?;
            Ok(connection)
        };
        locks::refuse_beside_another_copy(&self.path)?;
        open().map_err(|error| self.refused("open the database", error))
    }

    /// Opens it for a change, which ends when the caller wishes so.
    pub fn open_to_change(&self, settings: &Settings) -> Result<Connection> {
        let mut connection = self.open(settings.busy_timeout)?;
        let cache_kib = settings.memory_bytes.max(CACHE_BYTES_MIN) / 1024;
        let cancel = settings.cancel.clone();
        connection
            .execute_batch(&format!("PRAGMA cache_size=-{cache_kib}"))
            .and_then(|()| {
                connection
                    .progress_handler(STEPS_BETWEEN_LOOKS, Some(move || cancel.is_cancelled()))
            })
            .map_err(|error| self.refused("open the database", error))?;
        Ok(connection)
    }

    /// Begins the transaction. Rolls back when it is dropped.
    pub fn begin<'c>(&self, connection: &'c mut Connection) -> Result<Transaction<'c>> {
        connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| self.refused("begin a transaction", error))
    }

    /// Ends it: the one moment at which the new state becomes the state.
    pub fn commit(&self, transaction: &Transaction<'_>, cancel: &CancelToken) -> Result<()> {
        if cancel.is_cancelled() {
            return Err(Error::from(ErrorKind::Cancelled).on_disk(UNCHANGED));
        }
        // Not the guard's own way, which would roll back before it can be asked why.
        transaction.execute_batch("COMMIT").map_err(|error| {
            if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
                return broken_reference(transaction, &error);
            }
            self.refused("commit", error)
        })
    }

    /// The error of a database that another program changed during the load.
    pub fn changed(&self, reason: &str) -> Error {
        Error::changed(format!("{}: {reason}", path_text(&self.named)))
            .on_disk(UNCHANGED)
            .to_do("load again")
    }

    /// A refusal that is not SQLite's.
    pub fn refusal(&self, reason: impl Into<String>) -> Error {
        let kind = ErrorKind::Destination { path: self.named.clone(), reason: reason.into() };
        Error::from(kind).on_disk(UNCHANGED)
    }

    /// A table, view or index of that name is there.
    pub fn table_exists(&self, table: &str, reason: String) -> Error {
        let (path, table) = (self.named.clone(), table.to_owned());
        Error::from(ErrorKind::TableExists { path, table, reason }).on_disk(UNCHANGED)
    }

    /// The database can be read, and not be written.
    pub fn read_only(&self) -> Error {
        self.refusal_of_sqlite().read_only("SQLite says that it is read-only").on_disk(UNCHANGED)
    }

    fn refusal_of_sqlite(&self) -> Refusal<'_> {
        Refusal { named: &self.named, file: Some(&self.path), waited: self.busy_timeout }
    }

    /// The error for SQLite's answer to a connection that is to write here.
    pub fn refused(&self, action: &'static str, error: rusqlite::Error) -> Error {
        let error = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Error::no_space("write to", &self.named, error).to_do(
                "free some space; a load needs as much as the new rows, and twice that in WAL mode",
            ),
            _ => self.refusal_of_sqlite().error(action, error),
        };
        error.on_disk(UNCHANGED)
    }
}

/// A deferred foreign key does not hold.
fn broken_reference(transaction: &Transaction<'_>, error: &rusqlite::Error) -> Error {
    let sql = "SELECT \"table\", parent FROM pragma_foreign_key_check LIMIT 1";
    let broken = transaction
        .query_row(sql, [], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    match broken {
        Ok((child, parent)) => {
            let reason = format!("a row would refer to a row of {parent} that is not there");
            constraint(&child, reason)
        }
        Err(_) => constraint("", sqlite_says(error)),
    }
}

/// A rule of a table that would be broken.
pub fn constraint(table: &str, reason: String) -> Error {
    let table = table.to_owned();
    Error::from(ErrorKind::Constraint { table, reason, row: None, values: None }).on_disk(UNCHANGED)
}

/// There is no table of that name.
pub fn table_missing(table: &str) -> Error {
    Error::no_such_table(table).on_disk(UNCHANGED)
}

/// Notes how long each step took.
#[derive(Debug)]
pub struct Steps {
    since: Instant,
    pub stages: Vec<Stage>,
}

impl Steps {
    pub fn start() -> Self {
        Self { since: Instant::now(), stages: Vec::new() }
    }

    /// Ends the step that began with the end of the one before.
    pub fn end(&mut self, name: &'static str) {
        let seconds = self.since.elapsed().as_secs_f64();
        tracing::debug!(name, seconds, "existing database");
        self.stages.push(Stage { name, seconds });
        self.since = Instant::now();
    }
}

/// The first column of a query's first row.
pub fn ask<T: rusqlite::types::FromSql>(connection: &Connection, sql: &str) -> rusqlite::Result<T> {
    connection.query_row(sql, [], |row| row.get(0))
}

/// The absolute path of a file that exists, links resolved.
pub fn resolve(named: &Path, busy_timeout: Duration) -> Result<Target> {
    let path = std::fs::canonicalize(named)
        .map_err(|source| not_readable(named, source).on_disk("nothing was changed"))?;
    let named = named.to_owned();
    Ok(Target { named, path, busy_timeout, keeps_log: false, overlay: None })
}
