//! The settings that are in force on a connection, by asking it.
//!
//! Stands beside [`super::open`], which compares the answer with the profile, and serves callers
//! that want to look again later: a `PRAGMA` changes a connection's settings at any time, and in a
//! rollback mode another program can change the journal mode of the database.
//!
//! Must never: report a setting that was not read from the connection.

use std::fmt;
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;

use super::Profile;
use super::locking::ask_locking;
use super::page_writes::{self, page_writes};
use super::settings::{JournalMode, Locking, MAIN, Synchronous, ask};
use crate::error::{Error, Result};
use crate::memory::SMALL_CACHE_PAGES;
use crate::storage;
use crate::vfs::atomic::AtomicState;
use crate::vfs::connection::vfs_name;
use crate::vfs::database_file;

/// The settings of one connection, as SQLite itself tells them.
///
/// `Display` says it in plain words, over some lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "SQLite's answers, each by itself")]
#[non_exhaustive]
pub struct InForce {
    /// The profile that it was opened under.
    pub profile: Profile,
    /// The promise of that profile where the database lies.
    pub promise: String,
    /// Reasons for which no profile can promise here that something survives a power cut, as far as
    /// the system tells: the file system is memory, or syncs are switched off. A sentence each;
    /// empty if nothing is known against it. Not asked about a VFS that is not Leafpress's or the
    /// system's.
    pub not_durable: Vec<String>,
    /// Way in which half-done transactions are undone.
    pub journal_mode: JournalMode,
    /// Moments at which SQLite waits for the disk.
    pub synchronous: Synchronous,
    /// True if COMMIT leaves the sync of the log to the writers that share the database
    /// ([`WriterBuilder::shared`](crate::writer::WriterBuilder::shared)). `synchronous` is NORMAL
    /// then, and each call is answered after a sync all the same.
    pub shares_syncs: bool,
    /// After how many pages in the log a commit of this connection makes a
    /// checkpoint; 0 is never.
    pub wal_autocheckpoint_pages: u32,
    /// On macOS, true if a sync also empties the disk's own cache.
    pub full_fsync: bool,
    /// On macOS, true if the syncs of a checkpoint do so.
    pub checkpoint_full_fsync: bool,
    /// True if foreign keys are enforced on this connection.
    pub foreign_keys: bool,
    /// Longest wait for a lock.
    #[serde(rename = "busy_timeout_ms", serialize_with = "crate::times::milliseconds")]
    pub busy_timeout: Duration,
    /// Bytes in a page.
    pub page_size_bytes: u32,
    /// Connections that may use the database beside this one.
    pub locking: Locking,
    /// The VFS that it goes through; `None` if its name is no text.
    pub vfs: Option<String>,
    /// Way in which a transaction of one page is committed, at the moment of asking
    /// ([`page_writes`](super::page_writes) asks again). `None` under profiles other than
    /// [`Profile::Rollback`], and where Leafpress's VFS does not write the pages.
    pub page_writes: Option<AtomicState>,
    /// True if it keeps no more pages in memory than a small connection does.
    pub small: bool,
    /// The SQLite that is linked.
    pub sqlite_version: &'static str,
    /// True if SQLite was compiled to sync data without metadata that is not needed to read it, by
    /// `fdatasync`; `None` where that cannot be known. It costs time only: either call makes the
    /// same promise.
    pub uses_fdatasync: Option<bool>,
}

impl InForce {
    /// Asks `connection`, which was opened under `profile`.
    ///
    /// Reads the database's header, and so waits if another connection holds it alone.
    ///
    /// # Errors
    /// When SQLite does not answer. Nothing was changed.
    pub fn read(connection: &Connection, profile: Profile) -> Result<Self> {
        let unanswered = |source| Error::sqlite("tell its settings", source);
        let not_durable = not_durable(connection);
        Ok(Self {
            profile,
            promise: profile.promise_where(&not_durable),
            not_durable,
            journal_mode: ask(connection, "journal_mode").map_err(unanswered)?,
            synchronous: ask(connection, "synchronous").map_err(unanswered)?,
            shares_syncs: false,
            wal_autocheckpoint_pages: pages(connection).map_err(unanswered)?,
            full_fsync: ask(connection, "fullfsync").map_err(unanswered)?,
            checkpoint_full_fsync: ask(connection, "checkpoint_fullfsync").map_err(unanswered)?,
            foreign_keys: ask(connection, "foreign_keys").map_err(unanswered)?,
            busy_timeout: Duration::from_millis(
                ask::<i64>(connection, "busy_timeout").map_err(unanswered)?.unsigned_abs(),
            ),
            page_size_bytes: ask(connection, "page_size").map_err(unanswered)?,
            locking: ask_locking(connection).map_err(unanswered)?,
            vfs: vfs_name(connection),
            page_writes: if profile == Profile::Rollback { page_writes(connection)? } else { None },
            small: is_small(connection).map_err(unanswered)?,
            sqlite_version: rusqlite::version(),
            uses_fdatasync: uses_fdatasync(),
        })
    }

    /// Fails if a setting is not the one that the profile needs.
    ///
    /// Worth asking again after foreign code had the connection, or, in a rollback mode, after
    /// another program could have changed the database's journal mode.
    ///
    /// # Errors
    /// Names the first setting that is off. Nothing was changed.
    pub fn check(&self) -> Result<()> {
        let Self { profile, .. } = self;
        let differs = |what: &str, is: &dyn fmt::Display, wanted: &dyn fmt::Display| {
            let message =
                format!("profile {profile} needs {what} = {wanted}, but {is} is in force");
            Err(Error::unsupported(message))
        };
        if self.journal_mode != profile.journal_mode() {
            return differs("journal_mode", &self.journal_mode, &profile.journal_mode());
        }
        let synchronous =
            if self.shares_syncs { Synchronous::Normal } else { profile.synchronous() };
        if self.synchronous != synchronous {
            return differs("synchronous", &self.synchronous, &synchronous);
        }
        if profile.is_wal() && self.wal_autocheckpoint_pages != 0 {
            return differs("wal_autocheckpoint", &self.wal_autocheckpoint_pages, &0);
        }
        if needs_full_fsync(*profile) && !(self.full_fsync && self.checkpoint_full_fsync) {
            return differs("fullfsync and checkpoint_fullfsync", &"OFF", &"ON");
        }
        Ok(())
    }
}

impl InForce {
    /// Takes the sync out of COMMIT, for a writer that makes it itself, after the commit. Does
    /// nothing where COMMIT makes none.
    ///
    /// # Errors
    /// If SQLite does not do it. The promise is kept as it was.
    pub(crate) fn share_syncs(&mut self, connection: &Connection) -> Result<()> {
        // A full sync on macOS is more than a VFS is asked for afterwards.
        if self.journal_mode != JournalMode::Wal
            || self.synchronous != Synchronous::Full
            || self.full_fsync
        {
            return Ok(());
        }
        connection
            .pragma_update(MAIN, "synchronous", "NORMAL")
            .map_err(|source| Error::sqlite("share the syncs of the log", source))?;
        self.synchronous = ask(connection, "synchronous")
            .map_err(|source| Error::sqlite("tell its settings", source))?;
        self.shares_syncs = true;
        self.check()
    }

    fn page_writes_in_words(&self) -> String {
        match (&self.page_writes, &self.vfs) {
            (Some(state), _) => page_writes::in_words(state),
            (None, Some(vfs)) => {
                format!("with a journal, unless the VFS '{vfs}' says that it writes pages whole")
            }
            (None, None) => "as its VFS has it".to_owned(),
        }
    }
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, promise, journal_mode, synchronous, .. } = self;
        writeln!(f, "profile {profile}: {promise}")?;
        writeln!(f, "journal_mode {journal_mode}: {}", journal_in_words(*journal_mode))?;
        if self.shares_syncs {
            writeln!(
                f,
                "synchronous {synchronous}: each call waits for a sync that writers share"
            )?;
        } else {
            writeln!(f, "synchronous {synchronous}: {}", synchronous_in_words(*synchronous))?;
        }
        if *journal_mode == JournalMode::Wal {
            match self.wal_autocheckpoint_pages {
                0 => writeln!(f, "checkpoints: never by a commit of this connection")?,
                pages => writeln!(f, "checkpoints: by the commit that fills {pages} pages")?,
            }
        }
        let how = match (cfg!(target_vendor = "apple") && self.full_fsync, self.uses_fdatasync) {
            (true, _) => "F_FULLFSYNC, which empties the disk's cache too",
            (_, Some(true)) => "fdatasync",
            (_, Some(false)) => "fsync",
            (_, None) => "fdatasync or fsync, which this build of SQLite does not tell",
        };
        let how = if *synchronous == Synchronous::Off { "none" } else { how };
        writeln!(f, "sync call: {how}")?;
        writeln!(f, "locking {}: {}", self.locking, locking_in_words(self.locking))?;
        if *profile == Profile::Rollback {
            writeln!(f, "a transaction of one page: {}", self.page_writes_in_words())?;
        }
        if self.small {
            writeln!(f, "memory: small; {SMALL_CACHE_PAGES} pages are kept between transactions")?;
        }
        let keys = if self.foreign_keys { "enforced" } else { "not enforced" };
        write!(
            f,
            "foreign keys: {keys}; pages of {} bytes; SQLite {}",
            self.page_size_bytes, self.sqlite_version
        )
    }
}

fn journal_in_words(mode: JournalMode) -> &'static str {
    match mode {
        JournalMode::Wal => "new pages go to a log beside the database",
        JournalMode::Delete => "old pages go to a file that is deleted at the commit",
        JournalMode::Truncate => "old pages go to a file that is emptied at the commit",
        JournalMode::Persist => "old pages go to a file that is marked as void at the commit",
        JournalMode::Memory => "old pages are kept in memory, where a crash takes them",
        JournalMode::Off => "old pages are not kept",
    }
}

fn synchronous_in_words(synchronous: Synchronous) -> &'static str {
    match synchronous {
        Synchronous::Extra => "each commit waits for the disk, and for the folder as well",
        Synchronous::Full => "each commit waits for the disk",
        Synchronous::Normal => "only what keeps the file sound waits for the disk",
        Synchronous::Off => "nothing waits for the disk",
    }
}

fn locking_in_words(locking: Locking) -> &'static str {
    match locking {
        Locking::Shared => "others may read and write between this connection's transactions",
        Locking::Exclusive => "no other connection may read or write while this one is open",
    }
}

/// Returns true if this system's plain sync leaves the bytes in the disk's own cache.
pub(super) fn needs_full_fsync(profile: Profile) -> bool {
    cfg!(target_vendor = "apple") && profile.synchronous() > Synchronous::Off
}

/// SQLite lists no compile option for it. Both crates are built in one
/// environment, so that ours holds for the bundled library; a library that was
/// built elsewhere tells nothing.
fn uses_fdatasync() -> Option<bool> {
    let is_foreign = option_env!("LIBSQLITE3_SYS_USE_PKG_CONFIG").is_some();
    let flags = [option_env!("LIBSQLITE3_FLAGS"), option_env!("CFLAGS")];
    let is_asked_for = flags.into_iter().flatten().any(|it| it.contains("HAVE_FDATASYNC"));
    (!is_foreign).then_some(is_asked_for && !cfg!(target_vendor = "apple"))
}

/// Only the VFS of a caller knows where its files are.
fn not_durable(connection: &Connection) -> Vec<String> {
    let system = if cfg!(windows) { "win32" } else { "unix" };
    let is_known = super::ours(connection).is_some()
        || vfs_name(connection).is_some_and(|name| name.starts_with(system));
    match database_file::path(connection) {
        Some(path) if is_known => storage::not_durable(&path),
        _ => Vec::new(),
    }
}

/// The cache tells; what else a small connection does without, SQLite does not tell.
fn is_small(connection: &Connection) -> rusqlite::Result<bool> {
    let pages: i64 = connection.pragma_query_value(MAIN, "cache_size", |row| row.get(0))?;
    Ok(pages == i64::from(SMALL_CACHE_PAGES))
}

/// SQLite answers with a number below zero if it was set to one; both are never.
fn pages(connection: &Connection) -> rusqlite::Result<u32> {
    ask::<i64>(connection, "wal_autocheckpoint").map(|it| u32::try_from(it).unwrap_or(0))
}

/// The wait as SQLite takes it, in whole milliseconds, and never 0 by rounding.
pub(super) fn whole_milliseconds(wait: Duration) -> i32 {
    let rounded_up = wait.as_nanos().div_ceil(1_000_000);
    i32::try_from(rounded_up).unwrap_or(i32::MAX)
}
