//! A rung's connection: ours as a user of the library opens it, SQLite's with its
//! pragmas.
//!
//! The only file that knows how a counter is had: ours count by themselves where
//! pages may be written whole, and all others do when opened through a VFS that does
//! nothing but count.
//!
//! Must never: tune ours in a way that the library does not offer.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use leafpress::Profile;
use leafpress::profile::{self, AtomicWish, JournalMode, ProfileRequest};
use leafpress::vfs::atomic::AtomicState;
use leafpress::vfs::count::{Counted, IoCounters, IoStats};
use leafpress::vfs::{self, PlatformVfs, Registration};
use rusqlite::Connection;

use super::rung::{AtomicRung, Opener, Pages};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::set_locking;

/// A rung's connection.
pub(super) struct Opened {
    pub(super) connection: Connection,
    /// Leafpress's own words on how it writes pages.
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
        let registration = vfs::register(&name, vfs)?;
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
    /// Returns true if its connections go through Leafpress's own VFS, which counts.
    pub(super) fn counts_by_itself(self) -> bool {
        matches!(self.by.pages(), Some(Pages::WhereProven | Pages::Assumed))
    }

    /// Counters of ours in this process up to now.
    pub(super) fn own_io(self) -> Result<IoStats> {
        let vfs = match self.by.pages() {
            Some(Pages::Assumed) => vfs::leafpress_vfs_assumed()?,
            _ => vfs::leafpress_vfs()?,
        };
        Ok(vfs.io())
    }

    /// Opens the rung's database, which is there; through this VFS if one is named.
    pub(super) fn open(self, database: &Path, vfs: Option<&str>) -> Result<Opened> {
        match self.by {
            Opener::Sql(pragmas) => {
                let connection = connect::open(database, vfs)?;
                set_locking(&connection, self.locking)?;
                pragmas.set(&connection)?;
                Ok(Opened { connection, page_writes: None })
            }
            Opener::Leafpress(pages) | Opener::LeafpressSmall(pages) => {
                let (connection, in_force) = profile::open(database, &self.request(pages, vfs))?;
                Ok(Opened { connection, page_writes: in_force.page_writes })
            }
        }
    }

    fn request(self, pages: Pages, vfs: Option<&str>) -> ProfileRequest {
        let wish = match pages {
            Pages::Journal => AtomicWish::Off,
            Pages::WhereProven => AtomicWish::WhereProven,
            Pages::Assumed => AtomicWish::Assume,
        };
        let mut request = ProfileRequest::new(Profile::Rollback).atomic(wish).locking(self.locking);
        request.small = matches!(self.by, Opener::LeafpressSmall(_));
        request.vfs = vfs.map(str::to_owned);
        request
    }

    /// Closes the database so that nothing is left beside it.
    pub(super) fn close(self, connection: Connection) -> Result<()> {
        if self.by.pragmas().journal != JournalMode::Wal {
            // Some leave a journal behind, void or empty: always PERSIST and TRUNCATE,
            // and ours where it has closed one that stood open. SQLite deletes it on
            // the way from PERSIST, if no connection holds the database alone.
            let give_back = "PRAGMA journal_mode = PERSIST; PRAGMA locking_mode = NORMAL; \
                 PRAGMA journal_mode = DELETE";
            connection.execute_batch(give_back).map_err(Error::sqlite("remove the journal"))?;
        }
        connect::close(connection)
    }
}
