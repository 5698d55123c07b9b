//! Files that Leafpress opens itself: inputs, copies, files that a load makes, pages that
//! are written whole.
//!
//! Any path may name a database, or a file that becomes one. So all go through the table of
//! descriptors, and closing one drops no lock. Nothing else in this crate opens a file: a
//! lint (`disallowed-methods` in `clippy.toml`) sees to it.
//!
//! Must never: give out the file itself, which its receiver might close or duplicate.
#![allow(clippy::disallowed_methods, reason = "the one place that opens files")]

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, OnceLock};

#[cfg(unix)]
use crate::file_identity::FileIdentity;
use crate::fork::Process;
use crate::rights::Rights;

/// Options for opening a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; the file must exist.
    Read,
    /// For reading; the file must exist. A pipe is opened without a wait for its writer, and read
    /// without a wait for its bytes.
    ReadAtOnce,
    /// For reading and writing; the file must exist.
    ReadWrite,
    /// For reading and writing; the file must exist, and a link at its place is refused.
    ReadWriteNoLink,
    /// For reading and writing, emptied first; the file must exist.
    Emptied,
}

/// An open file whose closing drops no lock, not even one of another copy of SQLite.
///
/// It is read as any file; it is closed when it is dropped and no lock goes with it, and
/// used again by the next that opens the same file.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// # rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
/// let mut database = leafpress_vfs::locks::FileHandle::open(&path)?;
/// let bytes = std::io::copy(&mut database, &mut std::io::sink())?;
/// # assert!(bytes > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileHandle {
    /// Dropped before `release`, which may close the descriptor.
    file: Arc<File>,
    /// The process in which [`lock`](Self::lock) or [`try_lock`](Self::try_lock) has locked the file.
    locked_in: OnceLock<Process>,
    #[cfg_attr(not(unix), expect(dead_code, reason = "closing a file gives its lock back there"))]
    release: Release,
}

impl FileHandle {
    fn new(file: Arc<File>, release: Release) -> Self {
        Self { file, locked_in: OnceLock::new(), release }
    }

    /// Waits for the lock of the file, as [`File::lock`], and holds it until this is dropped. It keeps
    /// no other opening from reading or writing, on Windows either.
    ///
    /// # Errors
    /// The system's; a file system may have no such locks.
    #[doc(hidden)]
    pub fn lock(&self) -> io::Result<()> {
        #[cfg(windows)]
        crate::c_api::byte_lock::lock(&self.file)?;
        #[cfg(not(windows))]
        self.file.lock()?;
        self.locked_in.get_or_init(Process::current);
        Ok(())
    }

    /// Takes the lock that [`lock`](Self::lock) waits for, and holds it until this is dropped.
    ///
    /// # Errors
    /// If another opening has it; the system's.
    #[doc(hidden)]
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        #[cfg(windows)]
        crate::c_api::byte_lock::try_lock(&self.file)?;
        #[cfg(not(windows))]
        self.file.try_lock()?;
        self.locked_in.get_or_init(Process::current);
        Ok(())
    }

    /// Returns true if the path names this file, and not one that has taken its place. A link is another
    /// file.
    #[cfg(unix)]
    #[doc(hidden)]
    pub fn is_at(&self, path: &Path) -> bool {
        let there = path.symlink_metadata().ok().map(|facts| FileIdentity::from(&facts));
        there.is_some()
            && there == self.file.metadata().ok().map(|facts| FileIdentity::from(&facts))
    }

    /// Returns true if there is a file at the path, as nothing tells files apart here.
    #[cfg(not(unix))]
    #[doc(hidden)]
    pub fn is_at(&self, path: &Path) -> bool {
        path.exists()
    }

    /// Opens a file to be read.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::open_as(path, Open::Read)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The system's.
    #[cfg(unix)]
    #[doc(hidden)]
    pub fn open_as(path: impl AsRef<Path>, how: Open) -> io::Result<Self> {
        use rustix::fs::OFlags;

        let flags = match how {
            Open::Read => OFlags::RDONLY,
            Open::ReadAtOnce => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            Open::ReadWrite => OFlags::RDWR,
            Open::ReadWriteNoLink => {
                // Should a pipe have taken the file's name, this must not wait.
                OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY
            }
            Open::Emptied => OFlags::RDWR | OFlags::TRUNC,
        };
        Self::open_with(path.as_ref(), flags, 0)
    }

    /// Makes a file, to be read and written; nothing must be there. The one way to make one
    /// that has a name.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` where something has that name.
    #[cfg(unix)]
    #[doc(hidden)]
    pub fn create(path: impl AsRef<Path>, rights: Rights) -> io::Result<Self> {
        use rustix::fs::OFlags;

        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = Self::open_with(path.as_ref(), flags, rights.mode())?;
        rights.give_away(&*file);
        Ok(file)
    }

    /// Makes a file, to be read and written; nothing must be there.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` where something has that name.
    #[cfg(not(unix))]
    #[doc(hidden)]
    pub fn create(path: impl AsRef<Path>, _rights: Rights) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        Ok(Self::new(Arc::new(file), Release {}))
    }

    /// Opens a file.
    ///
    /// # Errors
    /// The system's.
    #[cfg(not(unix))]
    #[doc(hidden)]
    pub fn open_as(path: impl AsRef<Path>, how: Open) -> io::Result<Self> {
        let mut options = File::options();
        match how {
            Open::Read | Open::ReadAtOnce => options.read(true),
            Open::ReadWrite | Open::ReadWriteNoLink => options.read(true).write(true),
            Open::Emptied => options.read(true).write(true).truncate(true),
        };
        Ok(Self::new(Arc::new(options.open(path)?), Release {}))
    }

    /// Takes a temporary file without a name, which nothing else can open.
    #[doc(hidden)]
    pub fn of_unnamed(file: File) -> Self {
        let release = Release {
            #[cfg(unix)]
            number: None,
        };
        Self::new(Arc::new(file), release)
    }

    /// Opens a database for writes of whole pages, past the page cache if they are `direct`.
    ///
    /// # Errors
    /// The system's.
    #[cfg(target_os = "linux")]
    #[doc(hidden)]
    pub fn open_for_pages(path: &Path, direct: bool) -> io::Result<Self> {
        use rustix::fs::OFlags;

        // Should a pipe have taken the file's name, this must not wait.
        let mut flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::DIRECT, direct);
        Self::open_with(path, flags, 0)
    }

    /// Starts to write the changed pages of the file from the page cache, and does not wait for the disk.
    /// It promises nothing: a sync is still needed. Systems other than Linux do nothing.
    #[doc(hidden)]
    pub fn start_writing(&self) {
        #[cfg(target_os = "linux")]
        crate::c_api::write_out::start(std::os::fd::AsFd::as_fd(&*self.file));
    }

    #[cfg(unix)]
    fn open_with(path: &Path, flags: rustix::fs::OFlags, mode: u32) -> io::Result<Self> {
        use std::ffi::CString;
        use std::os::fd::AsRawFd as _;
        use std::os::unix::ffi::OsStrExt as _;

        use rustix::fs::OFlags;

        use super::table::{self, OpenedFile, User};

        let path = CString::new(path.as_os_str().as_bytes())?;
        let mode = rustix::fs::Mode::from_raw_mode(mode as _);
        Ok(match table::open(&path, flags | OFlags::CLOEXEC, mode, User::Leafpress)? {
            OpenedFile::Known(file) => {
                let number = Some(file.as_raw_fd());
                Self::new(file, Release { number })
            }
            OpenedFile::Plain(file) => Self::new(Arc::new(file), Release { number: None }),
        })
    }
}

#[cfg(unix)]
impl Drop for FileHandle {
    fn drop(&mut self) {
        // A descriptor that the table has is not closed as long as any other one of its file is used,
        // and its lock would stay. A child of `fork` shares the lock, and must leave it to its parent.
        let is_ours = self.locked_in.get().is_some_and(|process| process.is_current());
        if self.release.number.is_some() && is_ours {
            let _ = self.file.unlock();
        }
    }
}

impl Deref for FileHandle {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl Read for FileHandle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.file).read(buffer)
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        (&*self.file).read_to_end(buffer)
    }
}

impl Seek for FileHandle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self.file).seek(to)
    }
}

impl Write for FileHandle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.file).flush()
    }
}

/// Gives the descriptor back to the table.
#[derive(Debug)]
struct Release {
    #[cfg(unix)]
    number: Option<std::os::fd::RawFd>,
}

#[cfg(unix)]
impl Drop for Release {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            super::table::release_number(number);
        }
    }
}

/// All bytes of a file, as [`std::fs::read`], without a risk to locks.
///
/// # Errors
/// The system's.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    FileHandle::open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// A file's text, as [`std::fs::read_to_string`], without a risk to locks.
///
/// # Errors
/// The system's; `InvalidData` if it is no UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
