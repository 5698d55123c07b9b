//! The VFS: which file of a database is what, and what deleting a journal means.
//!
//! Must never: open or delete anything by itself; the VFS below does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::database::{Database, Facts, GuardedDisk};
use super::file::DatabaseFile;
use super::journal::{JournalFile, WalFile};
use super::{AtomicDisk, AtomicState, AtomicUnits, NoAtomicWrites, Safeguard};
use crate::sync::lock;
use crate::{FileKind, OpenFlags, Opened, Vfs, VfsLayer, VfsResult};

/// A VFS over another, with commits of one page in place where `disk` allows them.
///
/// Connections need `synchronous = FULL` or `EXTRA` and a rollback journal; the profile
/// `rollback` sets both. See the [module](crate::atomic) for when a page is written in
/// place.
pub struct AtomicPages<V> {
    below: V,
    disk: Arc<GuardedDisk>,
    databases: Mutex<HashMap<String, Weak<Database>>>,
}

impl<V: Vfs> AtomicPages<V> {
    /// Ordinary calls go to `below`, whole pages and their syncs to `disk`.
    pub fn new(below: V, disk: impl AtomicDisk) -> Self {
        Self {
            below,
            disk: Arc::new(GuardedDisk::new(Box::new(disk))),
            databases: Mutex::default(),
        }
    }

    /// For crash tests only: leaves something out, so that databases break.
    ///
    /// # Panics
    /// If a file has been opened through it.
    #[doc(hidden)]
    #[must_use]
    pub fn without(mut self, safeguard: Safeguard) -> Self {
        Arc::get_mut(&mut self.disk).expect("no file is open").take_out(safeguard);
        self
    }

    /// The way in which a transaction of one page would be committed in the database at `path` (as
    /// [`Vfs::full_path`] made it); `None` if it is not open.
    pub fn state(&self, path: &str) -> Option<AtomicState> {
        let database = self.open_database(path)?;
        let facts = database.latest()?;
        Some(database.state(&facts, &self.disk))
    }

    /// The sizes of whole writes in the database at `path`, whatever the size of its pages; `None`
    /// if it is not open.
    pub fn units(&self, path: &str) -> Option<Result<AtomicUnits, NoAtomicWrites>> {
        Some(self.open_database(path)?.latest()?.units)
    }

    /// Returns true if a connection of this process has the journal file of this database open.
    pub fn journal_is_open(&self, path: &str) -> bool {
        self.open_database(path).is_some_and(|database| database.journal_is_open())
    }

    fn databases(&self) -> MutexGuard<'_, HashMap<String, Weak<Database>>> {
        lock(&self.databases)
    }

    fn open_database(&self, path: &str) -> Option<Arc<Database>> {
        self.databases().get(path)?.upgrade()
    }

    fn database(&self, path: &str) -> Arc<Database> {
        let mut databases = self.databases();
        if let Some(database) = databases.get(path).and_then(Weak::upgrade) {
            return database;
        }
        databases.retain(|_, database| database.strong_count() > 0);
        let database = Arc::new(Database::new(path));
        databases.insert(path.to_owned(), Arc::downgrade(&database));
        database
    }

    fn open_main(&self, path: &str, opened: Opened) -> VfsResult<Opened> {
        let Opened { file, flags } = opened;
        let is_writable = flags.contains(OpenFlags::READ_WRITE);
        let found =
            if is_writable { self.disk.inner.open(path)? } else { Err(NoAtomicWrites::NotOpened) };
        let units = found.as_ref().map(|whole| whole.units()).map_err(|&why| why);
        let facts = Facts { is_writable, units, header: None };
        let (database, disk) = (self.database(path), Arc::clone(&self.disk));
        let file = Box::new(DatabaseFile::new(file, found.ok(), facts, database, disk));
        Ok(Opened { file, flags })
    }
}

impl<V: Vfs> VfsLayer for AtomicPages<V> {
    fn below(&self) -> &dyn Vfs {
        &self.below
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let opened = self.below.open(path, flags)?;
        let Some(path) = path else { return Ok(opened) };
        match flags.kind() {
            FileKind::MainDb => self.open_main(path, opened),
            FileKind::MainJournal => Ok(self.open_beside(path, "-journal", opened)),
            FileKind::Wal => Ok(self.open_beside(path, "-wal", opened)),
            _ => Ok(opened),
        }
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        let Some(of) = path.strip_suffix("-journal") else {
            return self.below.delete(path, sync_folder);
        };
        if !self.disk.has(Safeguard::FolderSyncOnDelete) {
            return self.below.delete(path, sync_folder);
        }
        self.below.delete(path, false)?;
        // Not by the VFS below: SQLite's own reports a folder as synced that it cannot open.
        self.disk.inner.sync_folder_of(path)?;
        if let Some(database) = self.open_database(of) {
            database.journal_deleted(&self.disk);
        }
        Ok(())
    }
}

impl<V: Vfs> AtomicPages<V> {
    /// A journal or WAL, whose database is known by its name.
    fn open_beside(&self, path: &str, suffix: &str, opened: Opened) -> Opened {
        let Some(of) = path.strip_suffix(suffix) else { return opened };
        let Opened { file, flags } = opened;
        let database = self.database(of);
        let file: Box<dyn crate::VfsFile> = if suffix == "-wal" {
            Box::new(WalFile::new(file, database))
        } else {
            Box::new(JournalFile::new(file, database, Arc::clone(&self.disk)))
        };
        Opened { file, flags }
    }
}
