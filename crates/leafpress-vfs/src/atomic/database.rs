//! Knowledge that all openings of one database in this process share.
//!
//! The database file, its journal and its WAL are opened apart, by several
//! connections; each of them tells the others here what the bit depends on.
//!
//! Invariants:
//! 1. `journals_open` and `wals_open` count open files, also those of connections
//!    that do nothing at the moment.
//! 2. `synced` says how names and journal looked when all of it had been synced by us
//!    under a lock that kept every other writer of this database away.
//! 3. `is_refused` never becomes false again while the database is open anywhere.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use leafpress_format::header::page_bytes_in;

use super::{
    AtomicDisk, AtomicState, AtomicUnits, FileStamp, NoAtomicWrites, Safeguard, Stamp, WhyJournal,
};
use crate::VfsResult;
use crate::sync::lock;

/// The disk, and the safeguards that are in force on it: all of them, except in crash tests.
pub(super) struct GuardedDisk {
    pub inner: Box<dyn AtomicDisk>,
    without: Vec<Safeguard>,
}

impl GuardedDisk {
    pub fn new(inner: Box<dyn AtomicDisk>) -> Self {
        Self { inner, without: Vec::new() }
    }

    pub fn take_out(&mut self, safeguard: Safeguard) {
        self.without.push(safeguard);
    }

    pub fn has(&self, safeguard: Safeguard) -> bool {
        self.without.is_empty() || !self.without.contains(&safeguard)
    }
}

/// Knowledge of one opening of the database file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub is_writable: bool,
    pub units: Result<AtomicUnits, NoAtomicWrites>,
    /// The header as it was last read or written.
    pub header: Option<Header>,
}

/// The facts about all pages that page 1 holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub page_bytes: u32,
    pub is_wal: bool,
}

impl Header {
    /// Bytes at the start of the file that hold it.
    pub const BYTES: usize = 20;

    /// Reads the header from the first bytes of the file; `None` if they make no sense.
    pub fn read(start: &[u8]) -> Option<Self> {
        let versions = start.get(18..20)?;
        let page_bytes = page_bytes_in(start)?;
        let is_sound = page_bytes.is_power_of_two() && (512..=65536).contains(&page_bytes);
        is_sound.then_some(Self { page_bytes, is_wal: versions.iter().any(|&version| version > 1) })
    }
}

/// The number on page 1 that each transaction makes another one, except those of a
/// connection that keeps its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeCounter([u8; 4]);

impl ChangeCounter {
    /// Its offset in the file.
    const START: u64 = 24;

    /// Reads it, if `bytes`, which stand at `offset`, hold it.
    pub fn look(bytes: &[u8], offset: u64) -> Option<Self> {
        let start = usize::try_from(Self::START.checked_sub(offset)?).ok()?;
        Some(Self(bytes.get(start..start + 4)?.try_into().ok()?))
    }
}

/// The names in the folder and the journal, as they looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Names {
    folder: Stamp,
    journal: FileStamp,
}

/// One database, by its path.
pub(super) struct Database {
    path: String,
    journal_path: String,
    journals_open: AtomicU32,
    wals_open: AtomicU32,
    /// SQLite was told that it needs no journal file: it keeps the next one in memory.
    has_promised: AtomicBool,
    /// The journal in memory has become a file, which was not synced.
    has_spilled_journal: AtomicBool,
    is_refused: AtomicBool,
    synced: Mutex<Option<Names>>,
    /// The change counter as all pages had been synced by us.
    counter_synced: Mutex<Option<ChangeCounter>>,
    /// Facts of the opening that learned something last; for reports.
    latest: Mutex<Option<Facts>>,
}

impl Database {
    pub fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            journal_path: format!("{path}-journal"),
            journals_open: AtomicU32::new(0),
            wals_open: AtomicU32::new(0),
            has_promised: AtomicBool::new(false),
            has_spilled_journal: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            synced: Mutex::new(None),
            counter_synced: Mutex::new(None),
            latest: Mutex::new(None),
        }
    }

    /// State now: whole with the size of a page that may be written in place, or the reason why
    /// none may.
    pub fn state(&self, facts: &Facts, disk: &GuardedDisk) -> AtomicState {
        match self.page_bytes_or_why(facts, disk) {
            Ok((units, page_bytes)) => AtomicState::Whole { by: units.by, page_bytes },
            Err(why) => AtomicState::Journal { why },
        }
    }

    /// The size of a page that may be written in place now.
    pub fn page_bytes_in_place(&self, facts: &Facts, disk: &GuardedDisk) -> Option<u32> {
        self.page_bytes_or_why(facts, disk).ok().map(|(_, page_bytes)| page_bytes)
    }

    /// The size, for an answer to SQLite: notes the promise.
    pub fn promise(&self, facts: &Facts, disk: &GuardedDisk) -> Option<u32> {
        let page_bytes = self.page_bytes_in_place(facts, disk);
        if page_bytes.is_some() {
            self.has_promised.store(true, Ordering::Release);
        }
        page_bytes
    }

    fn page_bytes_or_why(
        &self,
        facts: &Facts,
        disk: &GuardedDisk,
    ) -> Result<(AtomicUnits, u32), WhyJournal> {
        if !facts.is_writable {
            return Err(WhyJournal::ReadOnly);
        }
        let units = facts.units.map_err(WhyJournal::NoAtomicWrites)?;
        let header = facts.header.ok_or(WhyJournal::NotKnownYet)?;
        if header.is_wal || self.wals_open.load(Ordering::Acquire) > 0 {
            return Err(WhyJournal::Wal);
        }
        if !units.cover(header.page_bytes) {
            return Err(WhyJournal::PageSize { page_bytes: header.page_bytes, units });
        }
        if self.is_refused.load(Ordering::Acquire) {
            return Err(WhyJournal::Refused);
        }
        if self.journal_is_open() && disk.has(Safeguard::NoBitBesideJournal) {
            return Err(WhyJournal::JournalOpen);
        }
        Ok((units, header.page_bytes))
    }

    pub fn learned(&self, facts: &Facts) {
        let mut latest = lock(&self.latest);
        // An opening that only reads does not know the ways in which others write.
        if facts.is_writable || latest.is_none() {
            *latest = Some(*facts);
        }
    }

    pub fn latest(&self) -> Option<Facts> {
        *lock(&self.latest)
    }

    pub fn refuse(&self) {
        self.is_refused.store(true, Ordering::Release);
    }

    pub fn journal_is_open(&self) -> bool {
        self.journals_open.load(Ordering::Acquire) > 0
    }

    /// A journal file was opened. If SQLite could have kept it in memory, it did so
    /// until now, and nothing that it holds has been synced.
    pub fn journal_opened(&self, disk: &GuardedDisk) {
        self.journals_open.fetch_add(1, Ordering::AcqRel);
        let may_be_spilled = self.has_promised.swap(false, Ordering::AcqRel);
        if may_be_spilled && disk.has(Safeguard::SyncSpilledJournal) {
            self.has_spilled_journal.store(true, Ordering::Release);
        }
    }

    pub fn journal_closed(&self) {
        self.journals_open.fetch_sub(1, Ordering::AcqRel);
        self.has_spilled_journal.store(false, Ordering::Release);
    }

    pub fn journal_synced(&self) {
        self.has_spilled_journal.store(false, Ordering::Release);
    }

    pub fn wal_opened(&self) {
        self.wals_open.fetch_add(1, Ordering::AcqRel);
    }

    pub fn wal_closed(&self) {
        self.wals_open.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns true if the journal file that is open may have been in memory until now.
    pub fn may_be_spilled(&self) -> bool {
        self.has_spilled_journal.load(Ordering::Acquire)
    }

    /// Before a page is written beside a journal: syncs the journal that SQLite moved there from
    /// its memory without a sync.
    pub fn sync_spilled_journal(&self, disk: &GuardedDisk) -> VfsResult<()> {
        if self.may_be_spilled() {
            self.sync_journal_and_names(disk)?;
            self.journal_synced();
        }
        Ok(())
    }

    fn sync_journal_and_names(&self, disk: &GuardedDisk) -> VfsResult<()> {
        disk.inner.sync_file(&self.journal_path)?;
        disk.inner.sync_folder_of(&self.path)
    }

    /// All pages were synced by the holder of the lock; `None`: that failed.
    pub fn pages_synced(&self, counter: Option<ChangeCounter>) {
        *lock(&self.counter_synced) = counter;
    }

    /// The change counter as that was done last.
    pub fn counter_synced(&self) -> Option<ChangeCounter> {
        *lock(&self.counter_synced)
    }

    /// Before the first page is written in place after others may have written: what
    /// they did to the journal and to its name must not be undone by a power cut.
    ///
    /// Called with the database locked for writing.
    pub fn sync_what_others_left(&self, disk: &GuardedDisk) -> VfsResult<()> {
        let mut synced = lock(&self.synced);
        let now = self.names(disk, *synced)?;
        if now.is_some() && *synced == now {
            return Ok(());
        }
        *synced = None;
        self.sync_journal_and_names(disk)?;
        // The state from *before* the syncs, so that a later change is seen next time.
        *synced = now;
        Ok(())
    }

    /// The journal was deleted and the folder synced, under a lock for writing: no other opening
    /// has touched this journal since.
    pub fn journal_deleted(&self, disk: &GuardedDisk) {
        // Only for pages in place does it matter how it looks now.
        let has_pages = self.latest().is_some_and(|facts| facts.units.is_ok());
        let folder = has_pages.then(|| disk.inner.folder_stamp(&self.path).ok().flatten());
        *lock(&self.synced) =
            folder.flatten().map(|folder| Names { folder, journal: FileStamp::Absent });
    }

    /// The names as they look now; `None` where that cannot be relied on.
    fn names(&self, disk: &GuardedDisk, before: Option<Names>) -> VfsResult<Option<Names>> {
        let Some(folder) = disk.inner.folder_stamp(&self.path)? else { return Ok(None) };
        // No name was made since, so that what was absent is so still.
        if let Some(before) = before
            && before == (Names { folder, journal: FileStamp::Absent })
        {
            return Ok(Some(before));
        }
        let journal = disk.inner.file_stamp(&self.journal_path)?;
        let is_certain = journal != FileStamp::There(None);
        Ok(is_certain.then_some(Names { folder, journal }))
    }
}
