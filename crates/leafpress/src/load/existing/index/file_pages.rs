//! The database file itself, read by many threads at a time where it holds what the transaction
//! sees.
//!
//! SQLite gives one page after the other to the one thread that has the connection. The file gives
//! many pages at once to every thread. It is the truth only sometimes:
//!
//! | journal | the file holds all pages of the transaction |
//! |---|---|
//! | rollback | once the transaction has the write lock: no other program writes until it ends, and SQLite rolls a left journal back when a transaction begins |
//! | WAL | if the whole log was copied into the file, and no connection has committed between that and the write lock: there is nothing that a checkpoint could write |
//!
//! Invariants:
//! 1. The file is read only while the transaction has the write lock and has changed no page.
//! 2. It is the file that SQLite has open: the platform's own VFS serves it, also below gathered writes,
//!    the file was not renamed, and the file that is opened is the one at the path now.
//! 3. In all other cases, and where one of the pages that SQLite reads for the scan differs from
//!    the file's, all pages are read through SQLite.
//!
//! Must never: open the file but through the table of descriptors ([`crate::vfs::locks`]), as
//! closing it could drop SQLite's locks; write to it.

use leafpress_format::{PageLayout, header};
use rusqlite::{Connection, Transaction};

use super::maker::{Halt, ReadPage};
use crate::error::Error;
use crate::failed_sync::leave_wal_if_unsynced;
use crate::load::existing::connect::{ExistingDatabase, UNCHANGED, ask};
use crate::load::existing::dbpage::read_page;
use crate::vfs::connection::vfs_name;
use crate::vfs::database_file::has_moved;
use crate::vfs::gathered_database::gathered_database_vfs;
use crate::vfs::locks::FileHandle;

/// Name of the VFS whose files hold the pages as they are, from byte 0 on. Windows has none: a lock
/// there keeps other handles of the same process from reading, too.
const PLATFORM_VFS: &str = "unix";

/// State of the write-ahead log before the transaction.
#[derive(Debug, Clone, Copy)]
pub struct LogBefore {
    /// The number by which SQLite tells that another connection has committed; `None` if the log
    /// was not copied, or there is none.
    copied_at: Option<i64>,
}

impl LogBefore {
    /// Has SQLite copy the log into the database, as far as readers let it. Call it before the
    /// transaction begins. Waits for no other connection.
    ///
    /// # Errors
    /// A sync failed: then pages that were copied may be lost, and the log must stay as it is.
    pub fn copy(connection: &Connection) -> rusqlite::Result<Self> {
        let copy = || {
            let version = data_version(connection)?;
            let sql = "PRAGMA main.wal_checkpoint(PASSIVE)";
            let (busy, frames, copied) = connection.query_row(sql, [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
            })?;
            // Both are -1 without a log.
            let is_copied = busy == 0 && frames >= 0 && frames == copied;
            Ok::<_, rusqlite::Error>(is_copied.then_some(version))
        };
        let copied = copy();
        tracing::debug!(?copied, "the log before an index");
        match copied {
            Err(error) if leave_wal_if_unsynced(connection, &error) => Err(error),
            copied => Ok(Self { copied_at: copied.unwrap_or_default() }),
        }
    }

    /// Returns true if the file has held all that was committed since the log was copied.
    fn is_still_copied(self, transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
        Ok(self.copied_at.is_some() && self.copied_at == Some(data_version(transaction)?))
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    ask(connection, "PRAGMA main.data_version")
}

/// The pages of a database, in its file.
#[derive(Debug)]
pub struct FilePages<'t> {
    target: &'t ExistingDatabase,
    file: FileHandle,
    layout: PageLayout,
    /// Number of pages of the database.
    pages: u32,
}

impl<'t> FilePages<'t> {
    /// Opens the file if it holds what the transaction sees; the error is the reason why not. The
    /// transaction has the write lock, and has changed nothing.
    pub fn open(
        transaction: &Transaction<'_>,
        target: &'t ExistingDatabase,
        layout: PageLayout,
        pages: u32,
        log: LogBefore,
    ) -> Result<Self, &'static str> {
        let unknown = |_| "SQLite does not say enough";
        let is_plain =
            |name: String| name == PLATFORM_VFS || Some(name.as_str()) == gathered_database_vfs();
        if !vfs_name(transaction).is_some_and(is_plain) {
            return Err("another VFS than the platform's serves the database");
        }
        let mode: String = ask(transaction, "PRAGMA main.journal_mode").map_err(unknown)?;
        let has_log = mode == "wal";
        if has_log && !log.is_still_copied(transaction).map_err(unknown)? {
            return Err("the log holds pages");
        }
        let file = FileHandle::open(&target.path).map_err(|_| "the file cannot be opened")?;
        let facts = file.metadata().map_err(|_| "the file cannot be looked at")?;
        let named = std::fs::metadata(&target.path).map_err(|_| "the file has no name")?;
        if has_moved(transaction) != Some(false) || !platform::is_one_file(&facts, &named) {
            return Err("the file was moved");
        }
        if !facts.is_file() || facts.len() < u64::from(pages) * layout.page_bytes() as u64 {
            return Err("the file is shorter than the database");
        }
        let read = Self { target, file, layout, pages };
        let first = read_page(transaction, 1).map_err(unknown)?;
        let says_log = first.get(header::WRITE_VERSION) == Some(&header::VERSION_WAL);
        if says_log != has_log || !read.holds(1, &first) {
            return Err("the first page in the file is not the one that SQLite has");
        }
        Ok(read)
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.layout.page_bytes()
    }

    /// Returns true if the file holds this page, as SQLite has read it.
    pub fn holds(&self, number: u32, page: &[u8]) -> bool {
        let mut found = vec![0; self.page_bytes()];
        self.read(number, &mut found).is_ok() && found == page
    }

    /// Reads neighbouring pages, from the page `first` on, as many as `into` has room for.
    pub fn read(&self, first: u32, into: &mut [u8]) -> Result<(), Halt> {
        let count = (into.len() / self.page_bytes()) as u64;
        if first == 0 || u64::from(first) - 1 + count > u64::from(self.pages) {
            return Err(Halt::Malformed);
        }
        let at = (u64::from(first) - 1) * self.page_bytes() as u64;
        platform::read_at(&self.file, at, into).map_err(|source| {
            Halt::Failed(Error::io("read", &self.target.named, source).on_disk(UNCHANGED))
        })
    }
}

/// Reads single pages of the file.
pub struct FilePage<'f> {
    pub file: &'f FilePages<'f>,
    pub page: Vec<u8>,
}

impl ReadPage for FilePage<'_> {
    fn read(&mut self, number: u32) -> Result<&[u8], Halt> {
        self.page.resize(self.file.page_bytes(), 0);
        self.file.read(number, &mut self.page)?;
        Ok(&self.page)
    }
}

#[cfg(unix)]
mod platform {
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::unix::fs::FileExt as _;

    use crate::vfs::FileIdentity;

    /// Returns true if these are the facts of one file.
    pub fn is_one_file(facts: &Metadata, others: &Metadata) -> bool {
        FileIdentity::from(facts) == FileIdentity::from(others)
    }

    pub fn read_at(file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(into, at)
    }
}

/// Systems without the VFS, where no file is read.
#[cfg(not(unix))]
mod platform {
    use std::fs::{File, Metadata};
    use std::io;

    pub fn is_one_file(_: &Metadata, _: &Metadata) -> bool {
        false
    }

    pub fn read_at(_: &File, _: u64, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use rusqlite::{OpenFlags, TransactionBehavior};
    use tempfile::TempDir;

    use super::*;
    use crate::load::existing::connect::resolve;
    use crate::vfs::{PlatformVfs, register};

    const TABLE: &str = "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)";

    fn database(mode: &str) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let sql = format!("PRAGMA journal_mode={mode}; {TABLE}");
        open(&path).execute_batch(&sql).unwrap();
        (folder, path)
    }

    fn open(path: &Path) -> Connection {
        Connection::open(path).unwrap()
    }

    fn insert(connection: &Connection) {
        connection.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    }

    const READ: Result<(), &str> = Ok(());
    const MOVED: Result<(), &str> = Err("the file was moved");
    const LOG_HOLDS_PAGES: Result<(), &str> = Err("the log holds pages");

    /// Reason why an index by `connection` would not read the file at `path`; asserts that the file's
    /// pages are SQLite's if it would. `between` runs after the look at the log and before the
    /// transaction.
    fn read(
        mut connection: Connection,
        path: &Path,
        between: impl FnOnce(),
    ) -> Result<(), &'static str> {
        let target = resolve(path, Duration::from_secs(1)).unwrap();
        let log = LogBefore::copy(&connection).unwrap();
        between();
        let immediate = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(immediate).unwrap();
        let pages = ask(&transaction, "PRAGMA page_count").unwrap();
        let layout = PageLayout::new(4096).unwrap();
        let file = FilePages::open(&transaction, &target, layout, pages, log)?;
        for number in 1..=pages {
            assert!(file.holds(number, &read_page(&transaction, number).unwrap()), "{number}");
        }
        for number in [0, pages + 1, u32::MAX] {
            assert!(matches!(file.read(number, &mut vec![0; 4096]), Err(Halt::Malformed)));
        }
        READ
    }

    #[test]
    fn with_a_rollback_journal_the_file_is_read() {
        for mode in ["delete", "truncate", "persist"] {
            let (_folder, path) = database(mode);
            assert_eq!(read(open(&path), &path, || insert(&open(&path))), READ, "{mode}");
        }
    }

    #[test]
    fn with_a_log_the_file_is_read_if_all_was_copied() {
        let (_folder, path) = database("wal");
        let beside = open(&path);
        insert(&beside);
        assert_eq!(read(open(&path), &path, || {}), READ);
        let written = read(open(&path), &path, || insert(&beside));
        assert_eq!(written, LOG_HOLDS_PAGES, "written between");
        let checkpoint = || {
            insert(&beside);
            beside.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        };
        let written = read(open(&path), &path, checkpoint);
        assert_eq!(written, LOG_HOLDS_PAGES, "written and copied between");
        beside.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        assert_eq!(read(open(&path), &path, || {}), READ, "a reader of what is in the file");
        insert(&open(&path));
        assert_eq!(read(open(&path), &path, || {}), LOG_HOLDS_PAGES, "a reader keeps the log");
        beside.execute_batch("COMMIT").unwrap();
        assert_eq!(read(open(&path), &path, || {}), READ);
    }

    #[test]
    fn a_journal_that_changes_is_seen() {
        let (_folder, path) = database("delete");
        let to = |mode: &str| open(&path).execute_batch(&format!("PRAGMA journal_mode={mode}"));
        assert_eq!(read(open(&path), &path, || to("wal").unwrap()), LOG_HOLDS_PAGES);
        assert_eq!(read(open(&path), &path, || {}), READ);
        let connection = open(&path);
        to("delete").unwrap();
        assert_eq!(read(connection, &path, || {}), READ);
    }

    #[test]
    fn another_vfs_or_no_file_is_not_read() {
        let (_folder, path) = database("delete");
        let registration = register("not-the-platforms", PlatformVfs::new()).unwrap();
        let flags = OpenFlags::default();
        let name = registration.name();
        let through = Connection::open_with_flags_and_vfs(&path, flags, name).unwrap();
        let another = Err("another VFS than the platform's serves the database");
        assert_eq!(read(through, &path, || {}), another);
        let memory = Connection::open_in_memory().unwrap();
        memory.execute_batch(TABLE).unwrap();
        assert_eq!(read(memory, &path, || {}), MOVED, "it has no file at that path");
    }

    #[test]
    fn another_file_of_the_name_is_not_read() {
        let (folder, path) = database("delete");
        let moved = folder.path().join("moved.db");
        let connection = open(&path);
        insert(&connection);
        std::fs::rename(&path, &moved).unwrap();
        std::fs::copy(&moved, &path).unwrap();
        // SQLite itself refuses to write there.
        let target = resolve(&path, Duration::ZERO).unwrap();
        let log = LogBefore::copy(&connection).unwrap();
        let transaction = connection.unchecked_transaction().unwrap();
        let layout = PageLayout::new(4096).unwrap();
        let refused = FilePages::open(&transaction, &target, layout, 2, log);
        assert_eq!(refused.map(drop), MOVED);
    }

    #[test]
    fn a_file_that_differs_from_what_sqlite_has_is_not_read() {
        let (_folder, path) = database("delete");
        let connection = open(&path);
        // It stays in SQLite's cache, as the counter of changes is another field.
        connection.execute_batch("PRAGMA locking_mode=EXCLUSIVE").unwrap();
        insert(&connection);
        let mut file = std::fs::File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(3000)).unwrap();
        file.write_all(b"other").unwrap();
        let differs = Err("the first page in the file is not the one that SQLite has");
        assert_eq!(read(connection, &path, || {}), differs);
    }
}
