//! Connections to the destination, and the meaning of SQLite's refusals.
//!
//! One module for both, so that all ways in open the file alike and report a locked, read-only or
//! damaged database alike.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::kept::{Held, Kept};
use super::overlay::Overlay;
use super::task::Settings;
use crate::candidate::uri;
use crate::connect;
use crate::error::{Error, ErrorKind, OR_FULL_OTHERWISE, Result};
use crate::failed_commit::FailedCommit;
use crate::failed_sync::{
    LogOnDisk, leave_found_log, leave_wal_as_it_is, make_log_whole, note_log,
};
use crate::load::at_rest::AtRest;
use crate::load::long_statements::end_if;
use crate::load::options::CancelToken;
use crate::load::report::Stage;
use crate::paths::companion_of;
use crate::profile::{refuse_log_of_another, refuse_second_name};
use crate::refusal::{Refusal, not_readable, refuse_unless_path};
use crate::sqlite_error::{is_unexplained, needs_its_application, sqlite_says, without_statement};
use crate::vfs::locks;
use crate::words::path_text;

/// State of the database that every error of this module names.
pub const UNCHANGED: &str = "the database is as it was";
/// Cache size that SQLite gets however little memory is given.
pub const CACHE_BYTES_MIN: u64 = 2 << 20;

/// Beginning of SQLite's refusal to use a database beside one with another encoding.
const ENCODINGS_DIFFER: &str = "attached databases must use the same text encoding";
const LEAVE_IT_TO_ITS_APPLICATION: &str = "let the application do it that has this function, \
     collation, module or tokenizer: rows can be loaded into a table of their own, from which it \
     copies them";
const UNEXPLAINED_TO_DO: &str = "look at the virtual tables that the table's triggers write to: one is \
     broken, or uses a module or tokenizer that only its application has";

type OpenFile = fn(String, OpenFlags) -> rusqlite::Result<Connection>;

/// A database that exists: where it is, how it is opened, and the errors that name it.
#[derive(Debug, Clone)]
pub struct ExistingDatabase {
    /// Path as the caller gave it.
    pub named: PathBuf,
    /// Absolute path, with links resolved.
    pub path: PathBuf,
    /// How long a connection waits for a lock of another program.
    pub busy_timeout: Duration,
    /// For a trial run by a user who may only read: the database at rest, which is read as a file that
    /// does not change.
    pub at_rest: Option<AtRest>,
    /// For a trial run: a view of the database that keeps all changes.
    pub overlay: Option<Arc<Overlay>>,
    /// The connection of the inspection.
    pub kept: Kept,
}

impl ExistingDatabase {
    /// Opens the database for reading and writing; it must exist.
    ///
    /// This connection commits durably, whatever settings other connections of the program have.
    /// With a rollback journal that takes EXTRA: below it the journal's removal is not synced, and
    /// a power cut can bring the journal back.
    pub fn open(&self) -> Result<Connection> {
        self.open_by(connect::open)
    }

    /// The URI and the flags by which SQLite opens the database.
    pub fn uri(&self) -> (String, OpenFlags) {
        let flags = OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if self.at_rest.is_some() {
            let uri = uri(&self.path, "mode=ro&immutable=1");
            return (uri, flags | OpenFlags::SQLITE_OPEN_READ_ONLY);
        }
        (uri(&self.path, "mode=rw"), flags | OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    /// The connection that was kept, or a new one that may be.
    pub fn hold(&self) -> Result<Held> {
        let open = || self.open_by(self.open_bulk());
        self.kept.take(&self.path).map_or_else(|| Held::open(&self.path, open), Ok)
    }

    fn open_by(&self, open_file: OpenFile) -> Result<Connection> {
        // A kept connection would keep other programs from leaving WAL mode as long as this one lasts.
        self.kept.close();
        let (uri, flags) = self.uri();
        let open = || {
            let (connection, durable) = if let Some(overlay) = &self.overlay {
                (overlay.open()?, "")
            } else {
                let connection = open_file(uri.clone(), flags)?;
                (connection, "PRAGMA synchronous=EXTRA;")
            };
            connection.busy_timeout(self.busy_timeout)?;
            leave_found_log(&connection);
            connection.execute_batch(&format!(
                "{durable} PRAGMA cell_size_check=ON; PRAGMA foreign_keys=ON"
            ))?;
            Ok(connection)
        };
        self.refuse_neighbours()?;
        open().map_err(|error| self.refused("open the database", error))
    }

    fn refuse_neighbours(&self) -> Result<()> {
        locks::refuse_beside_another_copy(&self.path)?;
        refuse_log_of_another(&self.path)?;
        refuse_second_name(&self.path)
    }

    /// Opens the database for a change that the cancel token can end.
    pub fn open_to_change(&self, settings: &Settings) -> Result<Connection> {
        self.prepared(self.open()?, settings)
    }

    /// Opens the database as [`open_to_change`](Self::open_to_change), for a change that writes many
    /// pages. The commit does not copy the log into the database: the caller does, by a checkpoint that
    /// keeps writers out, as only such a one gathers its writes.
    pub fn open_for_bulk(&self, settings: &Settings) -> Result<Connection> {
        let connection = match self.kept.take(&self.path) {
            Some(held) => {
                self.refuse_neighbours()?;
                held.connection
            }
            None => self.open_by(self.open_bulk())?,
        };
        let connection = self.prepared(connection, settings)?;
        connection
            .busy_timeout(settings.busy_timeout)
            .and_then(|()| connection.execute_batch("PRAGMA wal_autocheckpoint=0"))
            .map_err(|error| self.refused("open the database", error))?;
        Ok(connection)
    }

    /// The way to open the database for a change of many pages.
    fn open_bulk(&self) -> OpenFile {
        // A VFS of ours takes paths of UTF-8.
        let gathers = self.path.to_str().is_some() && self.at_rest.is_none();
        if gathers { connect::open_for_bulk } else { connect::open }
    }

    /// Opens the database as [`open_for_bulk`](Self::open_for_bulk); the file at `attached` will be
    /// attached.
    pub fn open_to_insert(&self, settings: &Settings, attached: &Path) -> Result<Connection> {
        // The attached file goes through the same VFS.
        if attached.to_str().is_some() {
            self.open_for_bulk(settings)
        } else {
            self.open_to_change(settings)
        }
    }

    fn prepared(&self, mut connection: Connection, settings: &Settings) -> Result<Connection> {
        let cache_kib = settings.memory_bytes.max(CACHE_BYTES_MIN) / 1024;
        let cancel = settings.cancel.clone();
        connection
            .execute_batch(&format!("PRAGMA cache_size=-{cache_kib}"))
            .and_then(|()| end_if(&mut connection, move || cancel.is_cancelled()))
            .map_err(|error| self.refused("open the database", error))?;
        if self.overlay.is_none() {
            let refused = |error| self.refused("write the log again", error);
            make_log_whole(&connection, &|| settings.cancel.is_cancelled(), refused)?;
        }
        Ok(connection)
    }

    /// Begins the transaction, which rolls back when it is dropped.
    pub fn begin<'c>(&self, connection: &'c mut Connection) -> Result<Transaction<'c>> {
        connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| self.refused("begin a transaction", error))
    }

    /// Commits the transaction. An error whose outcome is unknown leaves the database as it was or
    /// with all of the change; any other error leaves it as it was.
    /// `what` is the change, such as "the load", and the table that it changes.
    pub fn commit(
        &self,
        transaction: &Transaction<'_>,
        (what, table): (&'static str, &str),
        cancel: &CancelToken,
    ) -> Result<()> {
        if cancel.is_cancelled() {
            return Err(Error::from(ErrorKind::Cancelled).on_disk(UNCHANGED));
        }
        // Not `Transaction::commit`: it rolls back before the reason for a failure can be asked.
        transaction.execute_batch("COMMIT").map_err(|error| {
            if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
                return broken_reference(transaction, table, &error);
            }
            match FailedCommit::of(&error) {
                // Nothing that is done to an overlay reaches the database.
                FailedCommit::Unknown if self.overlay.is_none() => {
                    self.unknown_outcome(transaction, what, error)
                }
                _ => self.refused("commit", error),
            }
        })
    }

    /// Reads once by a new connection, so that SQLite plays back the journal of a failed change. After a
    /// full disk the connection that made the journal cannot do it. Without this the journal, and a file
    /// that is too long, would stay until the next opening.
    pub fn play_back(&self) {
        let journal = companion_of(&self.path, "-journal");
        if self.overlay.is_some() || !journal.metadata().is_ok_and(|it| it.len() > 0) {
            return;
        }
        let read = self.open().and_then(|connection| {
            let read = connect::begin_read(&connection);
            read.map_err(|error| self.refused("read the database", error))
        });
        tracing::debug!(?read, "the journal was played back");
    }

    /// The error of a COMMIT that may have put the change on disk. A checkpoint would copy pages
    /// whose sync failed and throw the log away, so closing the connection must make none.
    fn unknown_outcome(
        &self,
        connection: &Connection,
        what: &'static str,
        error: rusqlite::Error,
    ) -> Error {
        leave_wal_as_it_is(connection);
        note_log(connection, LogOnDisk::Unknown);
        let shown = path_text(&self.named);
        let has_log = ask::<String>(connection, "PRAGMA main.journal_mode")
            .is_ok_and(|mode| mode.eq_ignore_ascii_case("wal"));
        let (where_it_may_be, advice) = if has_log {
            (
                format!(": {shown}-wal may have all of it, and then the next opening takes it in"),
                format!("keep {shown}-wal, end the programs that have the database open, open it"),
            )
        } else {
            (String::new(), "open the database".to_owned())
        };
        let reason = format!("{shown}: the commit failed: {}", sqlite_says(&error));
        Error::uncertain_of(what, reason)
            .caused_by(error)
            .on_disk(format!("all of {what} or nothing of it{where_it_may_be}"))
            .to_do(format!("{advice} again, and look whether {what} is there before you repeat it"))
    }

    /// The error of a database that another program changed during the load.
    pub fn changed(&self, reason: &str) -> Error {
        Error::changed(format!("{}: {reason}", path_text(&self.named)))
            .on_disk(UNCHANGED)
            .to_do("load again")
    }

    /// The error of a database with another property than at its inspection, such as its page size.
    pub fn changed_by_another(&self, what: &str) -> Error {
        self.changed(&format!("its {what} was changed by another program meanwhile"))
    }

    /// Refuses a database that was read as a file that does not change, and did change.
    pub fn refuse_unless_at_rest(&self) -> Result<()> {
        if self.at_rest.is_some() && AtRest::of(&self.path) != self.at_rest {
            return Err(self.changed("was written to while it was read").to_do("try again"));
        }
        Ok(())
    }

    /// Refuses a database that this user may not write, before SQLite opens it.
    pub fn refuse_unless_writable(&self) -> Result<()> {
        self.refusal_of_sqlite().unless_writable().map_err(|error| error.on_disk(UNCHANGED))
    }

    /// The error for a refusal by the loader itself.
    pub fn refusal(&self, reason: impl Into<String>) -> Error {
        let kind = ErrorKind::Destination { path: self.named.clone(), reason: reason.into() };
        Error::from(kind).on_disk(UNCHANGED)
    }

    /// The error for a name that a table, view or index has.
    pub fn table_exists(&self, table: &str, reason: String) -> Error {
        let (path, table) = (self.named.clone(), table.to_owned());
        Error::from(ErrorKind::TableExists { path, table, reason }).on_disk(UNCHANGED)
    }

    /// The error for a database that can be read, but not written.
    pub fn read_only(&self) -> Error {
        self.refusal_of_sqlite().read_only("SQLite says that it is read-only").on_disk(UNCHANGED)
    }

    fn refusal_of_sqlite(&self) -> Refusal<'_> {
        Refusal { named: &self.named, file: Some(&self.path), waited: self.busy_timeout }
    }

    /// The error for SQLite's answer to a connection that is to write here.
    pub fn refused(&self, action: &'static str, error: rusqlite::Error) -> Error {
        if let Err(changed) = self.refuse_unless_at_rest() {
            return changed.caused_by(error);
        }
        let error = without_statement(error);
        let error = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                Error::no_space("write to", &self.named, Error::copy_of(&error)).to_do(format!(
                    "free some space; a load needs as much as the new rows, and twice that in \
                     WAL mode{OR_FULL_OTHERWISE}"
                ))
            }
            // Nothing is attached to a database that was in UTF-16 at its inspection.
            _ if sqlite_says(&error).starts_with(ENCODINGS_DIFFER) => {
                self.changed_by_another("text encoding").caused_by(error)
            }
            Some(ErrorCode::Unknown) if needs_its_application(&error) => {
                self.refusal_of_sqlite().error(action, error).to_do(LEAVE_IT_TO_ITS_APPLICATION)
            }
            Some(ErrorCode::Unknown) if is_unexplained(&error) && action == "insert the rows" => {
                self.refusal_of_sqlite().error(action, error).to_do(UNEXPLAINED_TO_DO)
            }
            // What the table's own statements say: those of a load are known to be right.
            Some(ErrorCode::Unknown | ErrorCode::ConstraintViolation)
                if action == "insert the rows" =>
            {
                self.refusal_of_sqlite().error(action, error).to_do(
                    "see which trigger or foreign key of the table it comes from, and correct that",
                )
            }
            _ => self.refusal_of_sqlite().error(action, error),
        };
        error.on_disk(UNCHANGED)
    }
}

/// The error for a deferred foreign key that does not hold, after a change of `table`. Foreign keys of
/// other tables may be broken since long before.
fn broken_reference(transaction: &Transaction<'_>, table: &str, error: &rusqlite::Error) -> Error {
    let sql = "SELECT \"table\", parent FROM pragma_foreign_key_check
               ORDER BY ?1 COLLATE NOCASE NOT IN (\"table\", parent) LIMIT 1";
    let broken = transaction
        .query_row(sql, [table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
    match broken {
        Ok((child, parent)) => {
            let reason = format!("a row would refer to a row of {parent} that is not there");
            constraint(&child, reason).caused_by(Error::copy_of(error))
        }
        // The count of broken keys, which SQLite keeps while rows go in, is not 0.
        Err(rusqlite::Error::QueryReturnedNoRows) => {
            let reason = format!(
                "{}: each row that is referred to is there, but a row refers to itself by a value of \
                 another type or form than its key's",
                sqlite_says(error)
            );
            constraint("", reason)
                .caused_by(Error::copy_of(error))
                .to_do("give the foreign key the type of the key that it refers to")
        }
        Err(_) => constraint("", sqlite_says(error)).caused_by(Error::copy_of(error)),
    }
}

/// The error for a row that would break a rule of a table.
pub fn constraint(table: &str, reason: String) -> Error {
    let table = table.to_owned();
    Error::from(ErrorKind::Constraint { table, reason, row: None, values: None }).on_disk(UNCHANGED)
}

/// The error for a table that does not exist.
pub fn table_missing(table: &str) -> Error {
    Error::no_such_table(table).on_disk(UNCHANGED)
}

/// Duration of each step.
#[derive(Debug)]
pub struct Steps {
    since: Instant,
    pub stages: Vec<Stage>,
}

impl Steps {
    pub fn start() -> Self {
        Self { since: Instant::now(), stages: Vec::new() }
    }

    /// Ends the step that began when the step before ended.
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
pub fn resolve(named: &Path, busy_timeout: Duration) -> Result<ExistingDatabase> {
    let path = refuse_unless_path(named)
        .and_then(|()| dunce::canonicalize(named).map_err(|source| not_readable(named, source)))
        .map_err(|error| error.on_disk("nothing was changed"))?;
    let named = named.to_owned();
    Ok(ExistingDatabase {
        named,
        path,
        busy_timeout,
        at_rest: None,
        overlay: None,
        kept: Kept::default(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use super::*;
    use crate::vfs::{
        FileKind, FileLayer, OpenFlags as FileFlags, Opened, PlatformVfs, SyncKind, Vfs, VfsError,
        VfsFile, VfsLayer, VfsResult, register,
    };

    /// The platform's disk, whose syncs of a write-ahead log fail as long as it is told so.
    struct Disk(PlatformVfs, Arc<AtomicBool>);

    impl VfsLayer for Disk {
        fn below(&self) -> &dyn Vfs {
            &self.0
        }

        fn open(&self, path: Option<&str>, flags: FileFlags) -> VfsResult<Opened> {
            let Opened { file, flags: opened } = self.0.open(path, flags)?;
            let fails = (flags.kind() == FileKind::Wal).then(|| Arc::clone(&self.1));
            Ok(Opened { file: Box::new(DiskFile(file, fails)), flags: opened })
        }
    }

    struct DiskFile(Box<dyn VfsFile>, Option<Arc<AtomicBool>>);

    impl FileLayer for DiskFile {
        fn below(&self) -> &dyn VfsFile {
            &*self.0
        }

        fn below_mut(&mut self) -> &mut dyn VfsFile {
            &mut *self.0
        }

        fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
            let fails = self.1.as_ref().is_some_and(|fails| fails.load(SeqCst));
            if fails { Err(VfsError::IO_SYNC) } else { self.0.sync(kind) }
        }
    }

    /// The next opening takes the load from the log, so the error must not say that nothing was
    /// loaded.
    #[test]
    fn a_commit_whose_sync_failed_may_be_there_at_the_next_opening() {
        let fails = Arc::new(AtomicBool::new(false));
        let name = "load-failed-sync-at-commit";
        let registration = register(name, Disk(PlatformVfs::new(), Arc::clone(&fails))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let made = connect::open(&path, OpenFlags::default()).unwrap();
        made.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a)").unwrap();
        drop(made);
        let target = resolve(&path, Duration::from_secs(5)).unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let mut connection = connect::open_through(&path, flags, Some(name)).unwrap();
        // The first commit syncs the log's header too, before it writes pages.
        let first = "PRAGMA synchronous=EXTRA; INSERT INTO t VALUES (0)";
        connection.execute_batch(first).unwrap();

        let transaction = target.begin(&mut connection).unwrap();
        transaction.execute_batch("INSERT INTO t VALUES (1), (2), (3)").unwrap();
        fails.store(true, SeqCst);
        let error =
            target.commit(&transaction, ("the load", "t"), &CancelToken::new()).unwrap_err();
        fails.store(false, SeqCst);
        assert!(error.is_outcome_unknown(), "{error}");
        let state = error.state_on_disk().unwrap();
        let said = error.to_string();
        assert!(said.starts_with("it is not known whether the load was committed: "), "{said}");
        assert!(state.contains("all of the load or nothing of it"), "{error}");
        assert!(state.contains("a.db-wal"), "{error}");
        assert!(error.advice().unwrap().contains("look whether the load is there"), "{error}");
        drop(transaction);
        drop((connection, registration));

        let anew = connect::open(&path, flags).unwrap();
        assert_eq!(ask::<i64>(&anew, "SELECT count(*) FROM t").unwrap(), 4);
    }

    #[test]
    fn a_commit_that_waits_in_vain_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let reader = connect::open(&path, OpenFlags::default()).unwrap();
        reader.execute_batch("CREATE TABLE t(a); BEGIN; SELECT * FROM t").unwrap();
        let target = resolve(&path, Duration::ZERO).unwrap();
        let mut connection = target.open().unwrap();
        let transaction = target.begin(&mut connection).unwrap();
        transaction.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        let error =
            target.commit(&transaction, ("the load", "t"), &CancelToken::new()).unwrap_err();
        assert!(!error.is_outcome_unknown(), "{error}");
        assert_eq!(error.state_on_disk(), Some(UNCHANGED));
    }
}
