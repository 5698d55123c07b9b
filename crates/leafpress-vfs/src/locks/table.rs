//! The descriptors of this process, and when one of them may be closed.
//!
//! A descriptor that SQLite or Leafpress is done with is *parked*: it stays open, and is
//! handed out again when its file is opened again. Once all of a file are parked, an OFD
//! lock on the whole file is tried, by one more opening of it. The system gives it only while no
//! other owner holds any lock there, and keeps others out as long as it is held; so the
//! descriptors are closed under it, and no lock is dropped. For that moment others find the
//! file busy, as during a commit. If the system refuses it, closing is tried again when
//! other files are opened or released.
//!
//! ```text
//!      all locks are            a lock on the whole file,
//!      given back               or on the pending byte, and a look
//! used ─────────────► parked ─────────────────────────────► closed
//!      ◄─────────────
//!      opened again
//! ```
//!
//! Another *process* that has the database open holds locks for as long, though closing a file here
//! drops none of its locks. So once many files are parked, those are closed that no other descriptor
//! of this process leads to ([`foreign`]). No connection may begin between that look and the closing:
//! each begins with the pending byte of the database, which is locked meanwhile. A `-shm` file has no
//! such byte, so it is closed only while its database is parked too, and guarded.
//!
//! Must never: close a descriptor in another way, or follow a path twice and believe that
//! it names one file.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString, c_int};
use std::fs::File;
use std::io;
use std::mem;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leafpress_format::header::MAGIC;
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::file_locks::{FileLocks, Owner, PENDING_BYTE, none_here};
use super::foreign;
use super::numbers::{self, Answer};
use crate::FileIdentity;
use crate::c_api::range_lock::{Bytes, How, Lock, ask, is_locked, lock_whole_file};
use crate::c_api::system_calls::{close_inherited, put_in_place_of, with_descriptor};
use crate::streams::{self, dead_file};
use crate::sync;

/// One open file of ours.
struct Descriptor {
    file: Arc<File>,
    /// The flags of its opening that make a difference later.
    flags: OFlags,
    user: Option<User>,
}

/// The user of a descriptor. Only SQLite takes locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    Sqlite,
    Leafpress,
}

/// All descriptors of one file.
struct Known {
    locks: Arc<FileLocks>,
    descriptors: Vec<Descriptor>,
    /// The database that the file is the index of the log of.
    database: Option<FileIdentity>,
    /// The opening of the last try to close, which could not have the lock. It is among the descriptors
    /// too: to close it alone could drop the locks of another owner.
    tried: Option<Arc<File>>,
}

impl Known {
    fn is_used(&self) -> bool {
        self.descriptors.iter().any(|it| it.user.is_some())
    }

    fn is_used_by_sqlite(&self) -> bool {
        self.descriptors.iter().any(|it| it.user == Some(User::Sqlite))
    }
}

#[derive(Default)]
struct Table {
    files: HashMap<FileIdentity, Known>,
    /// Files of which no descriptor is used, to be closed as soon as it may be.
    parked: VecDeque<FileIdentity>,
    /// Number of parked files that the last look at their locks has left.
    left: usize,
    /// Spare descriptor: closed when a look needs one and the process has no more.
    reserve: Option<OwnedFd>,
}

/// Pause between two tries to open a file on which another process has a lease.
const LEASE_PAUSE: Duration = Duration::from_millis(2);
/// Longest wait for a lease: the system takes it away after 45 seconds, unless told otherwise.
const LEASE_WAIT_MAX: Duration = Duration::from_secs(60);

/// Limits of the files that are parked before their locks are looked at: with fewer it is not worth
/// the time, and more would take too much of the descriptors that a process may have.
const PARKED_MAX: RangeInclusive<usize> = 16..=1024;

/// Databases whose pending bytes are locked at once: other processes cannot begin with them meanwhile.
const GUARDED_MAX: usize = 16;

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// The byte with which each connection to a database begins.
const PENDING: Bytes = Bytes { start: PENDING_BYTE, length: 1 };

/// Flags that change what a descriptor can do. Others (`CREATE`, `CLOEXEC`, `NOFOLLOW`)
/// matter for the opening alone.
fn lasting(flags: OFlags) -> OFlags {
    let opening_only = OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NOCTTY
        | OFlags::NONBLOCK
        | OFlags::EXCL
        | OFlags::TRUNC;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let opening_only = opening_only | OFlags::LARGEFILE;
    flags.difference(opening_only)
}

fn is_writable(flags: OFlags) -> bool {
    flags.intersects(OFlags::RDWR | OFlags::WRONLY)
}

/// A file that was opened: one that the table knows and that must be released, or any other.
pub(super) enum OpenedFile {
    Known(Arc<File>),
    Plain(File),
}

fn table() -> MutexGuard<'static, Option<Table>> {
    sync::lock(&TABLE)
}

/// Opens a file for SQLite, as `open(2)` does.
pub(super) fn open_for_sqlite(path: &CStr, flags: c_int, mode: c_int) -> io::Result<RawFd> {
    let flags = OFlags::from_bits_retain(flags as _);
    let mode = Mode::from_raw_mode(mode as _);
    match open(path, flags, mode, User::Sqlite)? {
        OpenedFile::Known(file) => Ok(file.as_raw_fd()),
        OpenedFile::Plain(file) => Ok(file.into_raw_fd()),
    }
}

/// Opens a file: by a parked descriptor of it, or anew.
///
/// The table is held meanwhile, so that no child of a fork inherits a descriptor that the
/// table does not know: it would keep the lock under which that is closed one day.
///
/// A file server (Samba, NFS) may have a lease on the file, which it gives back when the file is
/// opened. `open(2)` waits for that; here the table is free between two tries.
///
/// # Errors
/// As `open(2)`.
pub(super) fn open(path: &CStr, flags: OFlags, mode: Mode, user: User) -> io::Result<OpenedFile> {
    let began = Instant::now();
    let regular = loop {
        match open_regular(path, flags, mode, user) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    && began.elapsed() < LEASE_WAIT_MAX =>
            {
                std::thread::sleep(LEASE_PAUSE);
            }
            other => break other?,
        }
    };
    if let Some(file) = regular {
        return Ok(OpenedFile::Known(file));
    }
    // Such a file has no locks that matter, and opening a pipe may take for ever.
    Ok(OpenedFile::Plain(open_anew(path, flags, mode)?))
}

/// Opens a regular file; `None` if it is another kind of file.
///
/// # Errors
/// As `open(2)`; `WouldBlock` while another process has a lease on the file.
fn open_regular(
    path: &CStr,
    flags: OFlags,
    mode: Mode,
    user: User,
) -> io::Result<Option<Arc<File>>> {
    let mut table = table();
    let table = table.get_or_insert_default();
    let follow =
        if flags.contains(OFlags::NOFOLLOW) { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
    let is_new = flags.contains(OFlags::CREATE | OFlags::EXCL);
    if let Ok(facts) = rustix::fs::statat(CWD, path, follow) {
        if !is_regular(&facts) {
            return Ok(None);
        }
        if !is_new
            && let Some(file) =
                table.parked_descriptor(FileIdentity::from(&facts), path, flags, user)
        {
            return Ok(Some(file));
        }
    }
    // Should a pipe have taken the file's name, this must not wait.
    let open = || open_anew(path, flags | OFlags::NONBLOCK, mode);
    let file = match open() {
        Err(Errno::MFILE | Errno::NFILE) if table.make_room() => open()?,
        opened => opened?,
    };
    let facts = rustix::fs::fstat(&file)?;
    if !is_regular(&facts) {
        return Ok(None);
    }
    let file = Arc::new(file);
    table.add(FileIdentity::from(&facts), &file, (flags, user), database_of(path));
    table.close_some_parked();
    Ok(Some(file))
}

fn open_anew(path: &CStr, flags: OFlags, mode: Mode) -> rustix::io::Result<File> {
    streams::occupy()?;
    rustix::fs::open(path, flags, mode).map(File::from)
}

/// The database of a `-shm` file, by their names.
fn database_of(path: &CStr) -> Option<FileIdentity> {
    let database = CString::new(path.to_bytes().strip_suffix(b"-shm")?).ok()?;
    FileIdentity::of_name(&database).ok()
}

fn is_regular(facts: &Stat) -> bool {
    FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile
}

/// Takes a number back that SQLite was given; `false` if it was given none such.
pub(super) fn release_number(number: RawFd) -> bool {
    let mut table = table();
    let Some(table) = table.as_mut() else { return false };
    let Some(identity) = numbers::identity_of(number) else { return false };
    table.release(identity, number);
    true
}

/// Closes a descriptor that SQLite opened before its system calls were replaced, or that is
/// no regular file.
pub(super) fn close_unknown(descriptor: OwnedFd) {
    let mut table = table();
    let identity = identity_of(&descriptor);
    let known =
        identity.and_then(|identity| Some((identity, table.as_mut()?.files.get_mut(&identity)?)));
    let Some((identity, known)) = known else { return };
    // With POSIX locks SQLite itself knows when it may close.
    if known.locks.owner() != Owner::Descriptor {
        return;
    }
    let flags = rustix::fs::fcntl_getfl(&descriptor).unwrap_or(OFlags::RDONLY);
    let file = Arc::new(File::from(descriptor));
    known.descriptors.push(Descriptor { file, flags: lasting(flags), user: None });
    if let Some(table) = table.as_mut() {
        table.close_or_park(identity);
    }
}

/// A lock, as SQLite asks for it by a descriptor's number; `None` leaves it to the system.
pub(super) fn lock(number: RawFd, how: How, lock: Lock, bytes: Bytes) -> Option<io::Result<Lock>> {
    match numbers::lock(number, how, lock, bytes) {
        Answer::Done(answer) => Some(answer),
        Answer::LeftToSystem => None,
        Answer::Unknown => lock_unknown(number, how, lock, bytes),
    }
}

/// A lock on a file that SQLite opened before its calls were replaced. Another connection may
/// have opened it since; a `-shm` file is opened once for all connections.
fn lock_unknown(number: RawFd, how: How, lock: Lock, bytes: Bytes) -> Option<io::Result<Lock>> {
    if bytes.start < PENDING_BYTE && lock != Lock::None {
        return None;
    }
    let locks = {
        let table = table();
        let known = table.as_ref()?.files.get(&identity_of_number(number)?)?;
        known.is_used_by_sqlite().then(|| Arc::clone(&known.locks))?
    };
    locks.lock(how, lock, bytes)
}

fn identity_of(descriptor: impl AsFd) -> Option<FileIdentity> {
    rustix::fs::fstat(descriptor).ok().map(|facts| FileIdentity::from(&facts))
}

fn identity_of_number(number: RawFd) -> Option<FileIdentity> {
    with_descriptor(number, |descriptor| identity_of(descriptor))
}

/// Registers a descriptor for its user. A write lock on a descriptor that cannot be written
/// fails (`EBADF`), so the file's locks move to this one if it is the first that can be.
fn hand_out(locks: &Arc<FileLocks>, number: RawFd, flags: OFlags) {
    locks.prefer(number, is_writable(flags));
    numbers::set(number, Some(Arc::clone(locks)));
}

impl Table {
    /// Makes an open file known, which is used from now on.
    fn add(
        &mut self,
        identity: FileIdentity,
        file: &Arc<File>,
        (flags, user): (OFlags, User),
        database: Option<FileIdentity>,
    ) {
        let number = file.as_raw_fd();
        let known = self.files.entry(identity).or_insert_with(|| Known {
            locks: Arc::new(FileLocks::new(identity, number, is_writable(flags))),
            descriptors: Vec::with_capacity(1),
            database,
            tried: None,
        });
        let file = Arc::clone(file);
        known.descriptors.push(Descriptor { file, flags: lasting(flags), user: Some(user) });
        hand_out(&known.locks, number, flags);
    }

    /// A parked descriptor of the file that `path` names, if it could be opened so now.
    fn parked_descriptor(
        &mut self,
        identity: FileIdentity,
        path: &CStr,
        flags: OFlags,
        user: User,
    ) -> Option<Arc<File>> {
        let known = self.files.get_mut(&identity)?;
        // A thread may have closed a standard stream while the file was opened. SQLite does not take
        // such a number, and would ask for ever.
        let fits = |it: &&mut Descriptor| {
            it.user.is_none() && it.flags == lasting(flags) && it.file.as_raw_fd() > 2
        };
        let found = known.descriptors.iter_mut().find(fits)?;
        let mut rights = Access::empty();
        rights.set(Access::READ_OK, !flags.contains(OFlags::WRONLY));
        rights.set(Access::WRITE_OK, is_writable(flags));
        // The rights may have changed since it was opened.
        rustix::fs::accessat(CWD, path, rights, AtFlags::EACCESS).ok()?;
        if flags.contains(OFlags::TRUNC) {
            rustix::fs::ftruncate(&found.file, 0).ok()?;
        }
        rustix::fs::seek(&found.file, rustix::fs::SeekFrom::Start(0)).ok()?;
        found.user = Some(user);
        hand_out(&known.locks, found.file.as_raw_fd(), flags);
        Some(Arc::clone(&found.file))
    }

    /// Parks a descriptor.
    fn release(&mut self, identity: FileIdentity, number: RawFd) {
        numbers::set(number, None);
        let Some(known) = self.files.get_mut(&identity) else { return };
        let is_it = |it: &&mut Descriptor| it.file.as_raw_fd() == number;
        if let Some(descriptor) = known.descriptors.iter_mut().find(is_it) {
            descriptor.user = None;
        }
        if !known.is_used_by_sqlite() {
            known.locks.give_back();
        }
        self.close_or_park(identity);
        self.close_some_parked();
    }

    /// Closes all descriptors of a file if none is used, or keeps them for later.
    fn close_or_park(&mut self, identity: FileIdentity) {
        let Some(known) = self.files.get_mut(&identity) else { return };
        if known.is_used() {
            return;
        }
        if known.lock_to_close() {
            known.close();
            self.files.remove(&identity);
        } else if !self.parked.contains(&identity) {
            self.parked.push_back(identity);
            if self.reserve.is_none() {
                self.reserve = dead_file().ok();
            }
        }
    }

    /// Tries again with all of those that could not be closed; returns true if fewer are left.
    fn make_room(&mut self) -> bool {
        let before = self.parked.len();
        for identity in mem::take(&mut self.parked) {
            self.close_or_park(identity);
        }
        self.close_what_other_processes_lock();
        self.parked.len() < before
    }

    /// Closes the parked files that no other descriptor of this process leads to: the locks there
    /// are those of other processes, which no closing here drops.
    fn close_what_other_processes_lock(&mut self) {
        let parked: Vec<_> = mem::take(&mut self.parked).into();
        let is_parked = |known: &&Known| !known.is_used();
        let database_of = |identity: &FileIdentity| {
            let known = self.files.get(identity).filter(is_parked)?;
            Some((known.database.unwrap_or(*identity), *identity))
        };
        // Each database with the `-shm` file beside it.
        let mut groups: HashMap<FileIdentity, Vec<FileIdentity>> = HashMap::new();
        for (database, identity) in parked.iter().filter_map(database_of) {
            groups.entry(database).or_default().push(identity);
        }
        let groups: Vec<_> = groups.into_iter().collect();
        for some in groups.chunks(GUARDED_MAX) {
            self.close_groups(some);
        }
        self.left = self.parked.len();
    }

    /// Closes what may be closed of some databases and the files beside them, and parks the rest.
    ///
    /// Meanwhile no connection of another copy can begin with them. The look comes after the locks,
    /// and needs a descriptor.
    fn close_groups(&mut self, groups: &[(FileIdentity, Vec<FileIdentity>)]) {
        let mut guarded = Vec::new();
        for (database, files) in groups {
            let has_it = files.contains(database);
            let guards = files.iter().all(|file| {
                let known = self.files.get_mut(file);
                known.is_some_and(|known| (has_it || known.database.is_none()) && known.guard())
            });
            if guards {
                guarded.push(files);
            } else {
                self.park_again(files);
            }
        }
        self.reserve = None;
        let foreign = foreign::identities(&self.numbers());
        for files in guarded {
            let is_ours = |file: &FileIdentity| {
                foreign.as_ref().is_some_and(|foreign| !foreign.contains(file))
            };
            if !files.iter().all(is_ours) {
                self.park_again(files);
                continue;
            }
            // The databases, whose locks guard the files beside them, are closed last.
            let (beside, databases): (Vec<_>, Vec<_>) = files
                .iter()
                .filter_map(|file| self.files.remove(file))
                .partition(|known| known.database.is_some());
            beside.into_iter().chain(databases).for_each(|mut known| known.close());
        }
        self.reserve = dead_file().ok();
    }

    /// Ends the guards of these files, and keeps them for later.
    fn park_again(&mut self, files: &[FileIdentity]) {
        for file in files {
            if let Some(known) = self.files.get(file) {
                known.end_guard();
            }
            self.parked.push_back(*file);
        }
    }

    /// Numbers of all descriptors.
    fn numbers(&self) -> Vec<RawFd> {
        let descriptors = self.files.values().flat_map(|known| &known.descriptors);
        descriptors.map(|it| it.file.as_raw_fd()).collect()
    }

    /// Numbers of the descriptors that SQLite does not use.
    fn numbers_unused_by_sqlite(&self) -> Vec<RawFd> {
        let descriptors = self.files.values().flat_map(|known| &known.descriptors);
        let unused = descriptors.filter(|it| it.user != Some(User::Sqlite));
        unused.map(|it| it.file.as_raw_fd()).collect()
    }

    /// Tries again with some of those that could not be closed; with all of them a process
    /// with many databases would wait.
    fn close_some_parked(&mut self) {
        const TRIES: usize = 2;
        for _ in 0..TRIES.min(self.parked.len()) {
            let Some(identity) = self.parked.pop_front() else { return };
            self.close_or_park(identity);
        }
        // Those that a look has left would be left again: the next one waits for as many more.
        let parked = self.parked.len();
        if parked >= *PARKED_MAX.start() && parked >= parked_max().max(2 * self.left) {
            self.close_what_other_processes_lock();
        }
    }
}

impl Known {
    /// Locks the whole file, where it can be written, so that its descriptors can be closed. Returns
    /// true if closing all of them drops no lock of another owner.
    ///
    /// The lock is on a new opening: a process that another thread starts has the descriptors
    /// until its `exec`, and would keep a lock that is on one of them for as long.
    fn lock_to_close(&mut self) -> bool {
        if none_here() {
            return true;
        }
        let Some(first) = self.descriptors.first() else { return true };
        if is_locked(&first.file).unwrap_or(false) {
            return false;
        }
        let writable = self.writable().map(|it| Arc::clone(&it.file));
        // Between this question and the closing another copy may take a lock. Databases are
        // opened once more to be sure.
        if writable.is_none() && !may_be_reopened(&first.file) {
            return true;
        }
        // Each try that fails leaves an opening here. So the next one begins with a question to that:
        // a file system that has no such locks refuses them to any opening, and would get ever more.
        if self.tried.as_ref().is_some_and(|tried| !can_lock_whole_file(tried)) {
            return false;
        }
        let (file, is_new) = match (self.reopen_for_writing(), writable) {
            (Ok(file), _) => (file, true),
            (Err(_), Some(file)) => (file, false),
            (Err(error), None) => return !is_passing(error),
        };
        // An error: better open for ever than a lock dropped.
        let is_locked = lock_whole_file(&file).unwrap_or(false);
        self.tried = Some(file).filter(|_| is_new && !is_locked);
        is_locked
    }

    /// Adds a parked descriptor that can be written.
    ///
    /// # Errors
    /// The system's, most of all where that is not allowed.
    fn reopen_for_writing(&mut self) -> rustix::io::Result<Arc<File>> {
        let first = self.descriptors.first().ok_or(Errno::BADF)?;
        let file = Arc::new(reopened_for_writing(&first.file)?);
        let parked = Descriptor { file: Arc::clone(&file), flags: OFlags::RDWR, user: None };
        self.descriptors.push(parked);
        Ok(file)
    }

    /// Keeps other connections from beginning with the file, if it is a database: each of them first
    /// locks the pending byte. False if it cannot be locked now.
    fn guard(&mut self) -> bool {
        let file = match self.writable() {
            Some(writable) => Arc::clone(&writable.file),
            None if !self.descriptors.first().is_some_and(|it| may_be_reopened(&it.file)) => {
                return true;
            }
            None => match self.reopen_for_writing() {
                Ok(file) => file,
                // One that may only be read needs no guard.
                Err(error) => return !is_passing(error),
            },
        };
        ask(file.as_raw_fd(), How::Set, Lock::Write, PENDING).is_ok()
    }

    fn end_guard(&self) {
        if let Some(writable) = self.writable() {
            let _ = ask(writable.file.as_raw_fd(), How::Set, Lock::None, PENDING);
        }
    }

    /// The descriptor that was opened last of those that can be written.
    fn writable(&self) -> Option<&Descriptor> {
        self.descriptors.iter().rfind(|it| is_writable(it.flags))
    }

    /// Closes all, the one that holds the lock on the whole file at last.
    fn close(&mut self) {
        let last = self.writable().map(|it| Arc::clone(&it.file));
        self.tried = None;
        self.descriptors.clear();
        drop(last);
    }
}

/// Returns true if the whole file could be locked just now. The lock is given back at once, so a process
/// that has inherited the opening does not hold it.
fn can_lock_whole_file(file: &File) -> bool {
    let can_be = lock_whole_file(file).unwrap_or(false);
    can_be && ask(file.as_raw_fd(), How::Set, Lock::None, Bytes::ALL).is_ok()
}

/// Returns true if the file begins as databases do.
fn is_database(file: &File) -> bool {
    let mut start = [0; 16];
    file.read_exact_at(&mut start, 0).is_ok() && start == *MAGIC
}

/// Returns true if a file that was opened for reading may be opened for writing, to be locked. Files that
/// are no database are left as they are: programs that watch a file are told that it was written. And an
/// overlay (a container's image) would make a copy of the whole file.
fn may_be_reopened(file: &File) -> bool {
    is_database(file) && !is_on_overlay(file)
}

#[cfg(target_os = "linux")]
fn is_on_overlay(file: &File) -> bool {
    const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == OVERLAYFS_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_on_overlay(_file: &File) -> bool {
    false
}

/// Another opening of an open file, to be written.
///
/// # Errors
/// The system's; `OPNOTSUPP` if it has no name for open files.
fn reopened_for_writing(file: &File) -> rustix::io::Result<File> {
    if !cfg!(target_os = "linux") {
        return Err(Errno::OPNOTSUPP);
    }
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    // The table is held: a lease of another process must not be waited for.
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    streams::occupy()?;
    rustix::fs::open(name, flags, Mode::empty()).map(File::from)
}

/// Returns true if the same file may be opened later: a lease is on it, or too many are open.
fn is_passing(error: Errno) -> bool {
    matches!(error, Errno::WOULDBLOCK | Errno::MFILE | Errno::NFILE | Errno::INTR)
}

/// Number of files that may be parked before their locks are looked at.
fn parked_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let share = limit.and_then(|limit| usize::try_from(limit / 8).ok());
    share.unwrap_or(usize::MAX).clamp(*PARKED_MAX.start(), *PARKED_MAX.end())
}

/// The locks of a file that SQLite uses here.
pub(super) fn locks_of(path: &Path) -> Option<Arc<FileLocks>> {
    let identity = FileIdentity::from(&rustix::fs::stat(path).ok()?);
    let table = table();
    let known = table.as_ref()?.files.get(&identity)?;
    known.is_used_by_sqlite().then(|| Arc::clone(&known.locks))
}

/// Numbers of all descriptors here.
pub(super) fn all_numbers() -> Vec<RawFd> {
    table().as_ref().map(Table::numbers).unwrap_or_default()
}

/// Numbers of the descriptors here that SQLite does not use.
pub(super) fn numbers_unused_by_sqlite() -> Vec<RawFd> {
    table().as_ref().map(Table::numbers_unused_by_sqlite).unwrap_or_default()
}

/// Owner of the locks on a file; `None` if this copy of SQLite has not locked it.
#[cfg(test)]
pub(super) fn owner_of(path: &Path) -> Option<Owner> {
    let identity = FileIdentity::from(&rustix::fs::stat(path).ok()?);
    let table = table();
    let owner = table.as_ref()?.files.get(&identity)?.locks.owner();
    (owner != Owner::Undecided).then_some(owner)
}

/// Does what [`Known::lock_to_close`] does with a file whose parked descriptors can only be read.
#[cfg(test)]
pub(super) fn reopen_parked(path: &Path) {
    let identity = FileIdentity::from(&rustix::fs::stat(path).unwrap());
    let mut table = table();
    let known = table.as_mut().and_then(|table| table.files.get_mut(&identity)).unwrap();
    assert!(!known.is_used() && known.writable().is_none());
    known.reopen_for_writing().unwrap();
}

/// Number of a file's descriptors that are open here.
#[cfg(test)]
pub(super) fn count_of(path: &Path) -> usize {
    let Ok(facts) = rustix::fs::stat(path) else { return 0 };
    let table = table();
    let known = table.as_ref().and_then(|table| table.files.get(&FileIdentity::from(&facts)));
    known.map_or(0, |known| known.descriptors.len())
}

struct HeldForFork {
    table: MutexGuard<'static, Option<Table>>,
    numbers: numbers::Held,
}

thread_local! {
    /// Guards that the thread that forks holds meanwhile.
    static HELD: RefCell<Option<HeldForFork>> = const { RefCell::new(None) };
}

/// Keeps the table from changing while this thread forks.
pub(super) fn hold_for_fork() {
    let table = table();
    let numbers = numbers::hold();
    // A thread that ends has no thread-local variables any more: the table is not held then.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(HeldForFork { table, numbers }));
}

pub(super) fn let_go_after_fork() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

/// Replaces each descriptor by a dead file, in a child (invariant 4), and forgets
/// them all. The parent's locks stay, as the parent has the same files open; and they go
/// with the parent, as the child has them open no more. (A parent that is killed before its child has
/// run at all leaves them until then.)
pub(super) fn start_anew_in_child() {
    let Ok(Some(mut held)) = HELD.try_with(|held| held.borrow_mut().take()) else { return };
    let parents = mem::take(&mut *held.table);
    held.numbers.clear();
    drop(held);
    let mut dead = dead_file();
    let is_full = dead.is_err();
    for known in parents.into_iter().flat_map(|table| table.files.into_values()) {
        for descriptor in known.descriptors {
            let number = descriptor.file.as_raw_fd();
            // Its number may be closed by what inherited it, or never will.
            mem::forget(descriptor.file);
            if let Ok(dead) = &dead {
                put_in_place_of(number, dead);
            } else {
                // There was no free number. Now there is this one, which the dead file gets.
                close_inherited(number);
                dead = dead_file();
            }
        }
    }
    if is_full {
        // It stands at the number of one of them.
        mem::forget(dead);
    }
}
