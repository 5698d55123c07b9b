//! A disk that fails on purpose. It lies over any other VFS.
//!
//! A test counts the I/Os of a workload first, then runs it once for each of them
//! with a fault there, and looks at what the callers were told and at what is left.
//!
//! ```text
//! SQLite ──► FaultyVfs ──► any Vfs          FaultControl: arm, disarm, counts
//!               ▲── rules ── FaultControl ◄── the test
//! ```
//!
//! Must never: fail at what no [`Rule`] names, so that a run without rules is the run
//! that is counted; or say an error after having done what was asked, unless the fault
//! is [`Fault::ErrorAfter`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leafpress::vfs::{
    Access, FileKind, FileLayer, LockLevel, OpenFlags, Opened, ShmRegion, SyncKind, Vfs, VfsError,
    VfsFile, VfsLayer, VfsResult,
};

/// Kind of an I/O that SQLite asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoKind {
    /// A file is opened.
    Open,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file is cut.
    Truncate,
    /// A file is synced.
    Sync,
    /// A file's size is asked for.
    Size,
    /// A lock is taken.
    Lock,
    /// A region of shared memory is asked for.
    ShmMap,
    /// A file is deleted.
    Delete,
    /// A file's existence is asked for.
    Exists,
}

/// Kind of the file that an I/O is done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultFile {
    /// The database.
    MainDb,
    /// A rollback journal or a super-journal.
    Journal,
    /// The write-ahead log.
    Wal,
    /// A temporary file.
    Temporary,
}

impl FaultFile {
    fn of_kind(kind: FileKind) -> Self {
        match kind {
            FileKind::MainDb => Self::MainDb,
            FileKind::MainJournal | FileKind::SuperJournal => Self::Journal,
            FileKind::Wal => Self::Wal,
            FileKind::TempDb
            | FileKind::TempJournal
            | FileKind::Subjournal
            | FileKind::TransientDb => Self::Temporary,
        }
    }

    /// SQLite names a journal after its database.
    fn of_path(path: &str) -> Self {
        if path.ends_with("-wal") {
            Self::Wal
        } else if path.contains("-journal") || path.contains("-mj") {
            Self::Journal
        } else {
            Self::MainDb
        }
    }
}

/// Fault of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and SQLite gets the device's error (EIO).
    Error,
    /// The I/O is done, and SQLite gets an error all the same: a journal that was deleted in
    /// a folder that could not be synced, say.
    ErrorAfter,
    /// Nothing is done, since the disk is full (ENOSPC).
    Full,
    /// The first half of the bytes is written, then the disk is full. With anything but
    /// a write as [`Full`](Self::Full).
    ShortWrite,
    /// The I/O is done well, but takes so long.
    Slow(Duration),
}

/// I/Os at which a rule holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// At the one I/O, and never again.
    Once,
    /// At the I/O and at all that follow.
    FromThenOn,
}

/// One fault: at the `nth` I/O (from 1) of those of this kind and on this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Kind of the I/Os that are counted; `None`: any kind.
    pub io: Option<IoKind>,
    /// File of the I/Os that are counted; `None`: any file.
    pub file: Option<FaultFile>,
    /// Number of the I/O that meets the fault, counted from 1 since the rule was armed.
    pub nth: u64,
    /// The fault.
    pub fault: Fault,
    /// Number of I/Os that meet it: one, or all that follow.
    pub lasting: Lasting,
}

/// Numbers of I/Os, by kind and file.
pub type IoCounts = BTreeMap<(IoKind, FaultFile), u64>;

#[derive(Default)]
struct State {
    /// Each rule with how many of its I/Os there were.
    rules: Vec<(Rule, u64)>,
    counts: IoCounts,
    faults: u64,
}

/// The test's hand on a [`FaultyVfs`]; clones are the same hand.
#[derive(Clone, Default)]
pub struct FaultControl(Arc<Mutex<State>>);

impl FaultControl {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on these rules hold, and no others; counts begin at zero.
    pub fn arm(&self, rules: impl IntoIterator<Item = Rule>) {
        let rules = rules.into_iter().map(|rule| (rule, 0)).collect();
        *self.state() = State { rules, ..State::default() };
    }

    /// From now on nothing fails. Counts go on.
    pub fn disarm(&self) {
        self.state().rules.clear();
    }

    /// Numbers of I/Os since the rules were armed, those that failed included.
    pub fn counts(&self) -> IoCounts {
        self.state().counts.clone()
    }

    /// Number of I/Os that met a fault.
    pub fn faults(&self) -> u64 {
        self.state().faults
    }

    /// Counts one I/O and says what goes wrong with it.
    fn at(&self, io: IoKind, file: FaultFile) -> Option<Fault> {
        let mut state = self.state();
        *state.counts.entry((io, file)).or_default() += 1;
        let mut fault = None;
        for (rule, seen) in &mut state.rules {
            let is_meant = rule.io.is_none_or(|wanted| wanted == io)
                && rule.file.is_none_or(|wanted| wanted == file);
            if is_meant {
                *seen += 1;
                let is_now = match rule.lasting {
                    Lasting::Once => *seen == rule.nth,
                    Lasting::FromThenOn => *seen >= rule.nth,
                };
                fault = fault.or(is_now.then_some(rule.fault));
            }
        }
        state.faults += u64::from(fault.is_some());
        fault
    }

    /// Does one I/O, or what is to become of it.
    fn run<T>(
        &self,
        io: IoKind,
        file: FaultFile,
        act: impl FnOnce() -> VfsResult<T>,
    ) -> VfsResult<T> {
        match self.at(io, file) {
            None => act(),
            Some(Fault::Error) => Err(error_of(io)),
            Some(Fault::ErrorAfter) => act().and(Err(error_of(io))),
            // As SQLite's own VFS says it where the shared memory cannot grow.
            Some(Fault::Full | Fault::ShortWrite) if io == IoKind::ShmMap => {
                Err(VfsError::IO_SHM_SIZE)
            }
            Some(Fault::Full | Fault::ShortWrite) => Err(VfsError::FULL),
            Some(Fault::Slow(duration)) => {
                std::thread::sleep(duration);
                act()
            }
        }
    }
}

/// Error code that SQLite gets for a failed I/O of this kind.
fn error_of(io: IoKind) -> VfsError {
    match io {
        IoKind::Open => VfsError::CANNOT_OPEN,
        IoKind::Read => VfsError::IO_READ,
        IoKind::Write => VfsError::IO_WRITE,
        IoKind::Truncate => VfsError::IO_TRUNCATE,
        IoKind::Sync => VfsError::IO_SYNC,
        IoKind::Size => VfsError::IO_SIZE,
        IoKind::Lock => VfsError::IO_LOCK,
        IoKind::ShmMap => VfsError::IO_SHM_MAP,
        IoKind::Delete => VfsError::IO_DELETE,
        IoKind::Exists => VfsError::IO_ACCESS,
    }
}

/// A VFS that does all that another does, but for the faults.
pub struct FaultyVfs<V> {
    inner: V,
    control: FaultControl,
    skips_syncs: bool,
}

impl<V: Vfs> FaultyVfs<V> {
    /// Makes a VFS without rules, which only counts. Keep a [`control`](Self::control).
    pub fn new(inner: V) -> Self {
        Self { inner, control: FaultControl::default(), skips_syncs: false }
    }

    /// Counts syncs and lets them fail, but does not pass them to the disk: without a power
    /// cut the result is the same, and thousands of runs take seconds.
    #[must_use]
    pub fn skipping_syncs(self) -> Self {
        Self { skips_syncs: true, ..self }
    }

    /// The hand on it, which works also when the VFS is registered.
    pub fn control(&self) -> FaultControl {
        self.control.clone()
    }
}

impl<V: Vfs> VfsLayer for FaultyVfs<V> {
    fn below(&self) -> &dyn Vfs {
        &self.inner
    }

    fn open(&self, path: Option<&str>, flags: OpenFlags) -> VfsResult<Opened> {
        let kind = FaultFile::of_kind(flags.kind());
        let Opened { file, flags } =
            self.control.run(IoKind::Open, kind, || self.inner.open(path, flags))?;
        let control = self.control.clone();
        let file = FaultyFile { inner: file, kind, control, skips_syncs: self.skips_syncs };
        Ok(Opened { file: Box::new(file), flags })
    }

    fn delete(&self, path: &str, sync_folder: bool) -> VfsResult<()> {
        let delete = || self.inner.delete(path, sync_folder && !self.skips_syncs);
        self.control.run(IoKind::Delete, FaultFile::of_path(path), delete)
    }

    fn exists(&self, path: &str, access: Access) -> VfsResult<bool> {
        let exists = || self.inner.exists(path, access);
        self.control.run(IoKind::Exists, FaultFile::of_path(path), exists)
    }
}

struct FaultyFile {
    inner: Box<dyn VfsFile>,
    kind: FaultFile,
    control: FaultControl,
    skips_syncs: bool,
}

impl FileLayer for FaultyFile {
    fn below(&self) -> &dyn VfsFile {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut dyn VfsFile {
        &mut *self.inner
    }

    fn read(&mut self, buffer: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.control.run(IoKind::Read, self.kind, || self.inner.read(buffer, offset))
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        match self.control.at(IoKind::Write, self.kind) {
            None => self.inner.write(bytes, offset),
            Some(Fault::Error) => Err(VfsError::IO_WRITE),
            Some(Fault::ErrorAfter) => {
                self.inner.write(bytes, offset)?;
                Err(VfsError::IO_WRITE)
            }
            Some(Fault::Full) => Err(VfsError::FULL),
            Some(Fault::ShortWrite) => {
                self.inner.write(&bytes[..bytes.len() / 2], offset)?;
                Err(VfsError::FULL)
            }
            Some(Fault::Slow(duration)) => {
                std::thread::sleep(duration);
                self.inner.write(bytes, offset)
            }
        }
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.control.run(IoKind::Truncate, self.kind, || self.inner.truncate(size))
    }

    fn sync(&mut self, kind: SyncKind) -> VfsResult<()> {
        let sync = || if self.skips_syncs { Ok(()) } else { self.inner.sync(kind) };
        self.control.run(IoKind::Sync, self.kind, sync)
    }

    fn size(&mut self) -> VfsResult<u64> {
        self.control.run(IoKind::Size, self.kind, || self.inner.size())
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        // A lock that was taken and denied would be held for ever.
        match self.control.at(IoKind::Lock, self.kind) {
            None | Some(Fault::Slow(_)) => self.inner.lock(level),
            Some(_) => Err(VfsError::IO_LOCK),
        }
    }

    fn shm_map(&mut self, region: u32, bytes: usize, extend: bool) -> VfsResult<Option<ShmRegion>> {
        self.control.run(IoKind::ShmMap, self.kind, || self.inner.shm_map(region, bytes, extend))
    }
}
