//! Bytes of a file that processes lock to tell one another what they do.
//!
//! The locks belong to one opening of the file. The system drops them when the process ends, however
//! it ends, and a child of `fork` gives them up as its first step.
//!
//! Must never: wait for a lock, or be used for a database or a file of SQLite's.

use std::io;
use std::os::fd::AsRawFd as _;

use super::FileHandle;
use crate::c_api::range_lock::{Bytes, How, Lock, ask, is_held};

/// Bytes of a file that processes lock to tell one another what they do.
#[derive(Debug)]
pub struct LockFile(FileHandle);

impl LockFile {
    /// Locks will be those of this opening.
    pub fn new(file: FileHandle) -> Self {
        Self(file)
    }

    /// The file.
    pub fn file(&self) -> &FileHandle {
        &self.0
    }

    /// Takes a byte for this opening alone; false if another one has it.
    ///
    /// # Errors
    /// If such locks are not known here.
    pub fn try_exclusive(&self, byte: u32) -> io::Result<bool> {
        self.set(Lock::Write, byte)
    }

    /// Takes a byte that others may share; false if another opening has it alone.
    ///
    /// # Errors
    /// If such locks are not known here.
    pub fn try_shared(&self, byte: u32) -> io::Result<bool> {
        self.set(Lock::Read, byte)
    }

    /// Gives a byte back.
    ///
    /// # Errors
    /// If such locks are not known here.
    pub fn release(&self, byte: u32) -> io::Result<()> {
        self.set(Lock::None, byte).map(drop)
    }

    /// Returns true if another opening has this byte.
    ///
    /// # Errors
    /// If such locks are not known here.
    pub fn is_held(&self, byte: u32) -> io::Result<bool> {
        let found = ask(self.0.as_raw_fd(), How::Get, Lock::Write, only(byte))?;
        Ok(found.lock != Lock::None)
    }

    fn set(&self, lock: Lock, byte: u32) -> io::Result<bool> {
        match ask(self.0.as_raw_fd(), How::Set, lock, only(byte)) {
            Ok(_) => Ok(true),
            Err(error) if is_held(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

const fn only(byte: u32) -> Bytes {
    Bytes { start: byte as i64, length: 1 }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // The descriptor may stay open for the next that opens the file.
        drop(ask(self.0.as_raw_fd(), How::Set, Lock::None, Bytes::ALL));
    }
}
