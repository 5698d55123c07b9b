//! A rung's connection: ours as a user of the library opens it, SQLite's with its
//! pragmas.
//!
//! The only file that knows how a counter is had: ours count by themselves where
//! pages may be written whole, and everybody else does when opened through a VFS
//! that does nothing but count.
//!
//! Must never: tune ours in a way that the library does not offer.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use leafpress::Profile;
use leafpress::profile::{self, AtomicWish, ProfileRequest};
use leafpress::vfs::atomic::AtomicState;
use leafpress::vfs::count::{Counted, IoCounters, IoStats};
use leafpress::vfs::{self, PlatformVfs, Registration};
use rusqlite::{Connection, OpenFlags};

use super::{AtomicRung, Journal, Locking, Opener, Pages, Synchronous};
use crate::error::{Error, Result};

/// A rung's connection.
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// What ours says of how it writes pages.
    pub(super) page_writes: Option<AtomicState>,
}

/// A name for a VFS that no other in this process has: tests run several rungs at
/// once.
pub(super) fn new_vfs_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("leafpress-bench-layer-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A VFS that counts and does nothing else; its name is withdrawn with it.
pub(super) struct CountingVfs {
    name: String,
    counters: IoCounters,
    _registration: Registration,
}

impl CountingVfs {
    pub(super) fn new() -> Result<Self> {
        let counters = IoCounters::new();
        let vfs = Counted::new(PlatformVfs::new(), &counters);
        let name = new_vfs_name();
        let registration = vfs::register(&name, vfs, false)?;
        Ok(Self { name, counters, _registration: registration })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn io(&self) -> IoStats {
        self.counters.snapshot()
    }
}

impl AtomicRung {
    /// Whether its connections go through Leafpress's own VFS, which counts.
    pub(super) fn counts_by_itself(self) -> bool {
        matches!(self.by.pages(), Some(Pages::WhereProven | Pages::Assumed))
    }

    /// What ours has counted in this process up to now.
    pub(super) fn own_io(self) -> Result<IoStats> {
        let is_assumed = self.by.pages() == Some(Pages::Assumed);
        Ok(vfs::leafpress_vfs(is_assumed)?.io())
    }

    /// Opens the rung's database, which is there; through this VFS if one is named.
    pub(super) fn open(self, database: &Path, vfs: Option<&str>) -> Result<Opened> {
        match self.by {
            Opener::Sql(journal, synchronous) => {
                let connection = self.open_sql(database, vfs, journal, synchronous)?;
                Ok(Opened { connection, page_writes: None })
            }
            Opener::Leafpress(pages) | Opener::LeafpressSmall(pages) => {
                let (connection, in_force) = profile::open(database, &self.request(pages, vfs))?;
                Ok(Opened { connection, page_writes: in_force.page_writes })
            }
        }
    }

    fn request(self, pages: Pages, vfs: Option<&str>) -> ProfileRequest {
        ProfileRequest {
            profile: Profile::Rollback,
            atomic: match pages {
                Pages::Journal => AtomicWish::Off,
                Pages::WhereProven => AtomicWish::WhereProven,
                Pages::Assumed => AtomicWish::Assume,
            },
            locking: match self.locking {
                Locking::Shared => profile::Locking::Shared,
                Locking::Exclusive => profile::Locking::Exclusive,
            },
            small: matches!(self.by, Opener::LeafpressSmall(_)),
            vfs: vfs.map(str::to_owned),
            ..ProfileRequest::default()
        }
    }

    fn open_sql(
        self,
        database: &Path,
        vfs: Option<&str>,
        journal: Journal,
        synchronous: Synchronous,
    ) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(database, flags, vfs),
            None => Connection::open_with_flags(database, flags),
        };
        let connection = connection.map_err(Error::sqlite("open the rival's database"))?;
        let locking = if self.locking == Locking::Exclusive { "exclusive" } else { "normal" };
        let set = |pragma: &str, value: &str| {
            connection.pragma_update_and_check(None, pragma, value, |row| row.get::<_, String>(0))
        };
        let set_up = || {
            set("locking_mode", locking)?;
            let in_force = set("journal_mode", journal.name())?;
            connection.pragma_update(None, "synchronous", synchronous.name())?;
            Ok(in_force)
        };
        let in_force = set_up().map_err(Error::sqlite("set up the rival's database"))?;
        if in_force == journal.name() {
            return Ok(connection);
        }
        let reason = format!("journal_mode is {in_force}, not {}", journal.name());
        Err(Error::Rung { name: self.name(), reason })
    }

    /// Closes the database so that nothing is left beside it.
    pub(super) fn close(self, connection: Connection) -> Result<()> {
        let closing = Error::sqlite("close the rung's database");
        if self.by.journal() != Journal::Wal {
            // Some leave a journal behind, void or empty: always PERSIST and TRUNCATE,
            // and ours where it has closed one that stood open. SQLite deletes it on
            // the way from PERSIST, if nobody holds the database alone.
            let give_back = "PRAGMA journal_mode = PERSIST; PRAGMA locking_mode = NORMAL; \
                 PRAGMA journal_mode = DELETE";
            connection.execute_batch(give_back).map_err(Error::sqlite("remove the journal"))?;
        }
        connection.close().map_err(|(_, error)| closing(error))
    }
}
