//! The recorded disk, as one that writes pages whole: or says so.
//!
//! | mode | says that it writes whole | and does |
//! |---|---|---|
//! | [`DiskMode::Honest`] | yes | yes: [`Event::WriteWhole`](super::Event::WriteWhole) |
//! | [`DiskMode::Torn`] | yes | no: a write like any other, torn in a power cut |
//! | [`DiskMode::Refused`] | yes | yes, or refuses: an error, and nothing was written |
//! | [`DiskMode::Plain`] | no | never asked |
//!
//! All four sync folders and files and stamp them, each recorded as the
//! [`Recorder`] records the calls of a VFS. Stamps are exact, or are not
//! offered at all.
//!
//! Must never: take or lose a lock on a file that SQLite has open.

use std::sync::{Arc, Mutex, PoisonError};

use leafpress::vfs::atomic::{
    AtomicDisk, AtomicFile, AtomicProof, AtomicUnits, FileStamp, NoAtomicWrites, Stamp,
};
use leafpress::vfs::{FileKind, VfsError, VfsResult};

use super::life::Life;
use super::log::{FileId, Log};
use super::memory_vfs::{FileBeside, MemoryVfs};
use super::random::Random;
use super::recorder::Recorder;

/// The disk's treatment of a write that shall be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskMode {
    /// Writes it whole.
    Honest,
    /// Tears it in a power cut, though it said that it would not.
    Torn,
    /// Refuses some, at random, and at times all from one on.
    Refused,
    /// Offers no such writes.
    Plain,
}

impl DiskMode {
    /// Name in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::Torn => "torn",
            Self::Refused => "refused",
            Self::Plain => "plain",
        }
    }
}

/// Numbers of whole writes, by what the disk did with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Written.
    pub written: u64,
    /// Refused.
    pub refused: u64,
}

/// The disk below one process.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    recorder: Arc<Recorder<MemoryVfs>>,
    mode: DiskMode,
    is_stamped: bool,
    life: Life,
    moods: Arc<Mutex<Moods>>,
}

/// State of a disk that refuses writes.
#[derive(Debug)]
struct Moods {
    random: Random,
    refuses_all: bool,
    counts: DiskCounts,
}

impl SimulatedDisk {
    /// The disk that `recorder` stands on, for the process of that `life`. What it
    /// refuses follows from `random`.
    pub fn new(
        recorder: Arc<Recorder<MemoryVfs>>,
        mode: DiskMode,
        is_stamped: bool,
        life: Life,
        random: Random,
    ) -> Self {
        let moods = Moods { random, refuses_all: false, counts: DiskCounts::default() };
        Self { recorder, mode, is_stamped, life, moods: Arc::new(Mutex::new(moods)) }
    }

    /// Numbers of whole writes so far.
    pub fn counts(&self) -> DiskCounts {
        self.moods.lock().unwrap_or_else(PoisonError::into_inner).counts
    }

    fn watched<'p>(&self, path: &'p str) -> VfsResult<(Arc<Log>, &'p str)> {
        self.recorder.watched(path).ok_or(VfsError::IO)
    }

    /// Returns true if the next write is done, and counts it.
    fn accepts(&self) -> bool {
        let moods = &mut *self.moods.lock().unwrap_or_else(PoisonError::into_inner);
        if self.mode == DiskMode::Refused && !moods.refuses_all {
            moods.refuses_all = moods.random.percent(1);
        }
        let refuses =
            self.mode == DiskMode::Refused && (moods.refuses_all || moods.random.percent(8));
        *(if refuses { &mut moods.counts.refused } else { &mut moods.counts.written }) += 1;
        !refuses
    }
}

impl AtomicDisk for SimulatedDisk {
    fn open(&self, path: &str) -> VfsResult<Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        self.life.look()?;
        if self.mode == DiskMode::Plain {
            return Ok(Err(NoAtomicWrites::NotOffered));
        }
        let (log, name) = self.watched(path)?;
        let state = log.lock();
        let file = state.file(name).ok_or(VfsError::CANNOT_OPEN)?;
        let beside = self.recorder.inner().beside(name).ok_or(VfsError::CANNOT_OPEN)?;
        drop(state);
        Ok(Ok(Arc::new(SimulatedFile { disk: self.clone(), log, file, beside })))
    }

    fn sync_folder_of(&self, path: &str) -> VfsResult<()> {
        self.life.act()?;
        let (log, _) = self.watched(path)?;
        log.lock().synced_folder();
        Ok(())
    }

    fn sync_file(&self, path: &str) -> VfsResult<()> {
        self.life.act()?;
        let (log, name) = self.watched(path)?;
        let mut state = log.lock();
        let Some(file) = state.file(name) else { return Ok(()) };
        // The file is opened for this sync, so that it knows of earlier failures.
        let mut knows_failure = state.has_failed(file);
        let covers = state
            .sync_begins(file, FileKind::MainJournal, &mut knows_failure)
            .ok_or(VfsError::IO_SYNC)?;
        state.sync_ends(file, covers, true);
        Ok(())
    }

    fn folder_stamp(&self, path: &str) -> VfsResult<Option<Stamp>> {
        self.life.look()?;
        let (log, _) = self.watched(path)?;
        let changed = log.lock().names_changed() as u128;
        Ok(self.is_stamped.then_some(Stamp(changed)))
    }

    fn file_stamp(&self, path: &str) -> VfsResult<FileStamp> {
        self.life.look()?;
        let (log, name) = self.watched(path)?;
        let state = log.lock();
        Ok(match state.file(name) {
            None => FileStamp::Absent,
            Some(file) => {
                let stamp = (u128::from(file) << 64) | state.content_changed(file) as u128;
                FileStamp::There(self.is_stamped.then_some(Stamp(stamp)))
            }
        })
    }
}

/// A file of which pages are written whole.
struct SimulatedFile {
    disk: SimulatedDisk,
    log: Arc<Log>,
    file: FileId,
    beside: FileBeside,
}

impl AtomicFile for SimulatedFile {
    fn units(&self) -> AtomicUnits {
        AtomicUnits { bytes_min: 512, bytes_max: 65_536, by: AtomicProof::Hardware }
    }

    fn write(&self, page: &[u8], offset: u64) -> VfsResult<()> {
        self.disk.life.act()?;
        let is_page = page.len().is_power_of_two() && (512..=65_536).contains(&page.len());
        if !is_page || !offset.is_multiple_of(page.len() as u64) || !self.disk.accepts() {
            return Err(VfsError::IO_WRITE);
        }
        self.beside.write(page, offset);
        match self.disk.mode {
            DiskMode::Torn => self.log.wrote(self.file, offset, page),
            _ => self.log.wrote_whole(self.file, offset, page),
        }
        Ok(())
    }
}
