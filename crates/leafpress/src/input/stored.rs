//! A file that is read at any place, by several threads at once.
//!
//! Parquet and Arrow files have their table of contents at the end. An input that cannot be read
//! from its end (a pipe, a compressed file) is first copied to a temporary file without a name.
//!
//! Must never: allocate what a damaged file only claims to have.

use std::io;
use std::path::Path;

use super::fingerprint::Fingerprint;
use crate::vfs::locks::FileHandle;
use crate::{Error, ErrorKind, Result};

/// A file, and its name in messages.
#[derive(Debug)]
pub(crate) struct Stored {
    name: String,
    file: FileHandle,
    seen: Fingerprint,
    #[cfg(not(unix))]
    position: std::sync::Mutex<()>,
}

impl Stored {
    /// Takes an open file.
    ///
    /// # Errors
    /// Fails if the system does not tell the file's length.
    pub fn new(name: &str, file: FileHandle) -> Result<Self> {
        let metadata =
            file.metadata().map_err(|error| Error::io("read", Path::new(name), error))?;
        Ok(Self {
            name: name.to_owned(),
            file,
            seen: Fingerprint::of(&metadata),
            #[cfg(not(unix))]
            position: std::sync::Mutex::default(),
        })
    }

    /// The input's name.
    #[cfg(feature = "parquet")]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file's length.
    pub fn bytes(&self) -> u64 {
        self.seen.bytes
    }

    /// Reads bytes at a place.
    ///
    /// # Errors
    /// Fails if the file ends before them, or the system refuses.
    pub fn read_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.bytes()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = vec![0; length];
        self.fill_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes` from a place.
    ///
    /// # Errors
    /// Fails if the file ends before they are full, or the system refuses.
    pub fn fill_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_exact_at(&*self.file, bytes, offset);
        #[cfg(not(unix))]
        {
            use std::io::{Read, Seek};
            let _alone = crate::sync::lock(&self.position);
            (&*self.file).seek(io::SeekFrom::Start(offset))?;
            (&*self.file).read_exact(bytes)
        }
    }

    /// Checks, before and after each pass, that the file is unchanged.
    ///
    /// # Errors
    /// Fails if the file is not what it was at first.
    pub fn check_unchanged(&self) -> Result<()> {
        let failed = |error| Error::io("read", Path::new(&self.name), error);
        let now = Fingerprint::of(&self.file.metadata().map_err(failed)?);
        if now == self.seen { Ok(()) } else { Err(Fingerprint::changed(&self.name)) }
    }

    /// Makes an error of a failed read of a part of the file: the system refused, or the part
    /// is damaged.
    pub fn describe(&self, error: io::Error, part: &str) -> Error {
        // What the system refuses has a code.
        if error.raw_os_error().is_some() {
            return Error::io("read", Path::new(&self.name), error);
        }
        self.damaged(
            part,
            if error.kind() == io::ErrorKind::UnexpectedEof {
                "it lies beyond the file's end".to_owned()
            } else {
                error.to_string()
            },
        )
    }

    /// An error that says which part of the file is damaged, and how.
    pub fn damaged(&self, part: &str, reason: impl std::fmt::Display) -> Error {
        damaged(&self.name, part, reason)
    }
}

/// An error that says which part of an input is damaged, and how.
pub(crate) fn damaged(name: &str, part: &str, reason: impl std::fmt::Display) -> Error {
    let reason = format!("{part} is damaged: {reason}");
    ErrorKind::Input { file: name.to_owned(), reason }.into()
}
