//! Overlay over a database for a dry run: keeps all changes to itself.
//!
//! ```text
//! connection of the dry run ──► OverlayFile ── pages that were changed ──► a temporary file
//!                                    └──────── all others ──► sqlite_dbpage of the snapshot
//! ```
//!
//! The *snapshot* is a connection to the real database within one read transaction. It gives
//! the pages, from the log too where there is one. So all that SQLite knows of the table
//! (keys, triggers, foreign keys, expressions) is asked of SQLite itself, and costs only the
//! pages that are touched.
//!
//! Invariants:
//! 1. Nothing is written to the real database or beside it, and no write lock is taken.
//! 2. All reads show the database as it was at one moment, with the changes made here.
//!
//! The read transaction lasts as long as the overlay. In WAL mode it keeps no other program
//! waiting; with a rollback journal others cannot commit until it ends, as with any reader.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use leafpress_format::header;
use rusqlite::{Connection, OpenFlags};

use super::connect::{ExistingDatabase, UNCHANGED, ask};
use super::dbpage::READ_PAGE;
use crate::connect;
use crate::error::{Error, Result};
use crate::failed_sync::leave_found_log;
use crate::sync::lock;
use crate::vfs::{
    Access, FileKind, LockLevel, OpenFlags as FileFlags, Opened, PlatformVfs, Registration,
    SyncKind, Vfs, VfsError, VfsFile, VfsResult, register,
};

/// Name under which SQLite opens the overlay.
const NAME: &str = "leafpress-overlay";

/// Number of the next overlay, for a unique name.
static OVERLAYS: AtomicU64 = AtomicU64::new(0);

/// A database whose changes are lost when it is dropped.
#[derive(Debug)]
pub struct Overlay {
    registration: Registration,
}

impl Overlay {
    /// Begins the read transaction. Changed pages will go to an unnamed file in `folder`.
    pub fn new(target: &ExistingDatabase, folder: &Path) -> Result<Self> {
        let refused = |error| target.refused("read the database", error);
        let snapshot = snapshot(target).map_err(refused)?;
        let page_bytes = ask::<u32>(&snapshot, "PRAGMA page_size").map_err(refused)? as usize;
        let pages = ask::<u32>(&snapshot, "PRAGMA page_count").map_err(refused)?;
        if snapshot.prepare(READ_PAGE).is_err() {
            return Err(no_table_of_pages());
        }
        let changes = crate::rights::unnamed_file(folder)
            .map_err(|source| Error::io("create a temporary file in", folder, source))
            .map_err(|error| error.to_do("name a folder that you may write to with ⟦tmpdir⟧"))?;
        let bytes = u64::from(pages) * page_bytes as u64;
        let slots = HashMap::new();
        let pages = Pages { snapshot, page_bytes, bytes, snapshot_bytes: bytes, changes, slots };
        let vfs = OverlayVfs { platform: PlatformVfs::new(), pages: Arc::new(Mutex::new(pages)) };
        let number = OVERLAYS.fetch_add(1, Ordering::Relaxed);
        let name = format!("leafpress-overlay-{}-{number}", std::process::id());
        Ok(Self { registration: register(&name, vfs)? })
    }

    /// Opens a connection that reads and changes the overlay.
    pub fn open(&self) -> rusqlite::Result<Connection> {
        let flags = connect::READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let vfs = self.registration.name().to_string_lossy();
        let connection = connect::open_through(NAME, flags, Some(&vfs))?;
        connection.execute_batch("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF")?;
        Ok(connection)
    }
}

/// The error where SQLite has no table of pages.
fn no_table_of_pages() -> Error {
    let reason = "this SQLite is built without SQLITE_ENABLE_DBPAGE_VTAB, so a dry run cannot try \
                  what the table would refuse";
    Error::unsupported(reason).on_disk(UNCHANGED).to_do(
        "build with LIBSQLITE3_FLAGS=\"-DSQLITE_ENABLE_DBPAGE_VTAB\" in the [env] of \
         .cargo/config.toml",
    )
}

fn snapshot(target: &ExistingDatabase) -> rusqlite::Result<Connection> {
    let (uri, flags) = target.uri();
    let connection = connect::open(uri, flags)?;
    connection.busy_timeout(target.busy_timeout)?;
    leave_found_log(&connection);
    connection.execute_batch("PRAGMA query_only=ON; BEGIN")?;
    connect::begin_read(&connection)?;
    Ok(connection)
}

/// Pages as seen through the overlay.
struct Pages {
    snapshot: Connection,
    page_bytes: usize,
    /// Bytes of the database as seen through the overlay.
    bytes: u64,
    /// Bytes at its start that the snapshot has.
    snapshot_bytes: u64,
    changes: File,
    /// Places of the changed pages in `changes`, counted in pages.
    slots: HashMap<u64, u64>,
}

impl Pages {
    /// Reads a page, counted from 0.
    fn read_page(&mut self, index: u64, page: &mut [u8]) -> VfsResult<()> {
        let start = index * self.page_bytes as u64;
        if let Some(slot) = self.slots.get(&index) {
            let at = slot * self.page_bytes as u64;
            return self
                .changes
                .seek(SeekFrom::Start(at))
                .and_then(|_| self.changes.read_exact(page))
                .map_err(|_| VfsError::IO_READ);
        }
        if start >= self.snapshot_bytes {
            page.fill(0);
            return Ok(());
        }
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.snapshot.prepare_cached(READ_PAGE)?;
            statement.query_row([index as i64 + 1], |row| {
                let data = row.get_ref(0)?.as_blob()?;
                let bytes = data.len().min(page.len());
                page[..bytes].copy_from_slice(&data[..bytes]);
                Ok(())
            })
        };
        read().map_err(|_| VfsError::IO_READ)?;
        if index == 0 {
            // An overlay has no log.
            page[header::VERSIONS].fill(header::VERSION_ROLLBACK);
        }
        Ok(())
    }

    fn write_page(&mut self, index: u64, page: &[u8]) -> VfsResult<()> {
        let next = self.slots.len() as u64;
        let slot = *self.slots.entry(index).or_insert(next);
        let at = slot * self.page_bytes as u64;
        let written =
            self.changes.seek(SeekFrom::Start(at)).and_then(|_| self.changes.write_all(page));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => VfsError::FULL,
            _ => VfsError::IO_WRITE,
        })
    }
}

/// VFS that opens the overlay by its name, and all other files by the platform's VFS.
struct OverlayVfs {
    platform: PlatformVfs,
    pages: Arc<Mutex<Pages>>,
}

impl Vfs for OverlayVfs {
    fn open(&self, path: Option<&str>, flags: FileFlags) -> VfsResult<Opened> {
        match path {
            Some(NAME) if flags.kind() == FileKind::MainDb => {
                Ok(Opened { file: Box::new(OverlayFile(Arc::clone(&self.pages))), flags })
            }
            // The journal is kept in memory, and there is no log.
            Some(path) if is_beside(path) => Err(VfsError::CANNOT_OPEN),
            path => self.platform.open(path, flags),
        }
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        if is_beside(path) {
            return Err(VfsError::IO_DELETE_NO_ENTRY);
        }
        self.platform.delete(path, sync_folder)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        if is_beside(path) { Ok(path == NAME) } else { self.platform.exists(path, access) }
    }

    fn full_path(&self, path: &str) -> VfsResult<String> {
        if path == NAME { Ok(path.to_owned()) } else { self.platform.full_path(path) }
    }
}

/// Returns true for the overlay's name and for files that SQLite would keep beside it. Other paths
/// are absolute.
fn is_beside(path: &str) -> bool {
    path.starts_with(NAME)
}

/// The overlay, opened by SQLite.
struct OverlayFile(Arc<Mutex<Pages>>);

impl VfsFile for OverlayFile {
    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        let mut pages = lock(&self.0);
        let page_bytes = pages.page_bytes as u64;
        let end = (offset + buffer.len() as u64).min(pages.bytes);
        let mut page = vec![0; pages.page_bytes];
        let mut at = offset;
        while at < end {
            let (index, from) = (at / page_bytes, (at % page_bytes) as usize);
            let count = (page.len() - from).min((end - at) as usize);
            pages.read_page(index, &mut page)?;
            let to = (at - offset) as usize;
            buffer[to..to + count].copy_from_slice(&page[from..from + count]);
            at += count as u64;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let mut pages = lock(&self.0);
        let page_bytes = pages.page_bytes as u64;
        let end = offset + bytes.len() as u64;
        let mut page = vec![0; pages.page_bytes];
        let mut at = offset;
        while at < end {
            let (index, from) = (at / page_bytes, (at % page_bytes) as usize);
            let count = (page.len() - from).min((end - at) as usize);
            if count < page.len() {
                pages.read_page(index, &mut page)?;
            }
            let source = (at - offset) as usize;
            page[from..from + count].copy_from_slice(&bytes[source..source + count]);
            pages.write_page(index, &page)?;
            at += count as u64;
        }
        pages.bytes = pages.bytes.max(end);
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        let mut pages = lock(&self.0);
        let first_gone = size.div_ceil(pages.page_bytes as u64);
        // The file may grow again there: its bytes must be new then, not the snapshot's.
        pages.snapshot_bytes = pages.snapshot_bytes.min(size);
        let zeros = vec![0; pages.page_bytes];
        let gone: Vec<u64> =
            pages.slots.keys().copied().filter(|index| *index >= first_gone).collect();
        for index in gone {
            pages.write_page(index, &zeros)?;
        }
        pages.bytes = size;
        Ok(())
    }

    fn sync(&mut self, _kind: SyncKind) -> VfsResult<()> {
        Ok(())
    }

    fn size(&mut self) -> VfsResult<u64> {
        Ok(lock(&self.0).bytes)
    }

    /// Locks nothing: only one connection of this process has the overlay open.
    fn lock(&mut self, _level: LockLevel) -> VfsResult<()> {
        Ok(())
    }

    fn unlock(&mut self, _level: LockLevel) -> VfsResult<()> {
        Ok(())
    }

    fn is_reserved(&mut self) -> VfsResult<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::connect::resolve;
    use super::*;

    fn made(path: &Path, sql: &str) -> Connection {
        let connection = connect::open(path, OpenFlags::default()).unwrap();
        connection.execute_batch(sql).unwrap();
        connection
    }

    /// Content of all files in a folder, by name.
    fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: std::path::PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, crate::vfs::locks::read(&path).unwrap())
        };
        let mut files: Vec<_> = entries.map(named).collect();
        files.retain(|(name, _)| !name.ends_with("-shm"));
        files.sort();
        files
    }

    const ROWS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000)
                        INSERT INTO t(b) SELECT hex(randomblob(i % 90)) FROM n";

    // On Windows the files of the overlay cannot be read beside it.
    #[cfg(unix)]
    #[test]
    fn changes_are_seen_in_it_and_nowhere_else() {
        for mode in ["DELETE", "WAL"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            let sql = format!(
                "PRAGMA page_size=1024; PRAGMA journal_mode={mode};
                 CREATE TABLE t(a INTEGER PRIMARY KEY, b, UNIQUE(b, a)); {ROWS}"
            );
            let real = made(&path, &sql);
            let before = files(folder.path());
            let target = resolve(&path, Duration::from_secs(5)).unwrap();
            let overlay = Overlay::new(&target, folder.path()).unwrap();
            let connection = overlay.open().unwrap();
            connection.execute_batch("PRAGMA cache_size=5").unwrap();
            connection.execute_batch(ROWS).unwrap();
            connection.execute_batch("DELETE FROM t WHERE a % 3 = 0; VACUUM").unwrap();
            connection.execute_batch(ROWS).unwrap();
            let seen: i64 = ask(&connection, "SELECT count(*) FROM t").unwrap();
            assert_eq!(seen, 7_000, "{mode}");
            let sound: String = ask(&connection, "PRAGMA integrity_check").unwrap();
            assert_eq!(sound, "ok", "{mode}");
            assert_eq!(files(folder.path()), before, "{mode}");
            let there: i64 = ask(&real, "SELECT count(*) FROM t").unwrap();
            assert_eq!(there, 3_000, "{mode}");
        }
    }

    #[test]
    fn another_program_may_begin_to_write_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let real = made(&path, "PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
        let target = resolve(&path, Duration::from_secs(5)).unwrap();
        let overlay = Overlay::new(&target, folder.path()).unwrap();
        let connection = overlay.open().unwrap();
        connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO t(b) VALUES (1)").unwrap();
        real.execute_batch("INSERT INTO t(b) VALUES (2), (3)").unwrap();
        let seen: i64 = ask(&connection, "SELECT count(*) FROM t").unwrap();
        assert_eq!(seen, 1, "one moment, and its own changes");
    }
}
