//! Writing one page, whole or not at all.
//!
//! The kernel takes such a write only past the page cache, from memory that is
//! aligned, of a size that is a power of two and at a multiple of it. It throws away
//! what the page cache holds of the page, so that ordinary reads of this and other
//! processes see the new content.
//!
//! Must never: write the page in another way when the kernel refuses.

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use super::detect::Facts;
use crate::aligned::AlignedBuffer;
use crate::atomic::{AtomicFile, AtomicProof, AtomicUnits, NoAtomicWrites};
use crate::locks::FileHandle;
use crate::sync::lock;
use crate::text::path_text;
use crate::{VfsError, VfsResult};

/// `RWF_ATOMIC` of `<linux/fs.h>`, since Linux 6.11.
const ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);
/// The sizes that the user vouches for: any page that SQLite can have.
const ASSUMED: AtomicUnits =
    AtomicUnits { bytes_min: 512, bytes_max: 65536, by: AtomicProof::Assumed };
/// While another process reads the page through the page cache at this very moment, it cannot be
/// thrown away, and the kernel says "again". It is over as soon as that read is.
const TRIES_MAX: u32 = 200;
const TRIES_WITHOUT_PAUSE: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// Opens the file that `path` names for writes of whole pages, if it has them.
pub(super) fn open(path: &Path, is_assuming: bool) -> Result<Arc<dyn AtomicFile>, NoAtomicWrites> {
    let not_opened = |error: io::Error| {
        tracing::warn!(%error, path = %path_text(path), "no second descriptor for whole pages");
        NoAtomicWrites::NotOpened
    };
    let facts = Facts::of_path(path).map_err(not_opened)?;
    if !facts.is_regular {
        return Err(NoAtomicWrites::NotOpened);
    }
    let (units, direct) =
        if is_assuming { (ASSUMED, false) } else { (facts.atomic_units()?, true) };
    let file = FileHandle::open_for_pages(path, direct).map_err(not_opened)?;
    if Facts::of_open(&*file).map_err(not_opened)?.identity != facts.identity {
        return Err(not_opened(io::Error::other("another file has taken the database's name")));
    }
    Ok(Arc::new(PageFile { file, units, buffer: Mutex::default() }))
}

struct PageFile {
    file: FileHandle,
    units: AtomicUnits,
    buffer: Mutex<AlignedBuffer>,
}

impl AtomicFile for PageFile {
    fn units(&self) -> AtomicUnits {
        self.units
    }

    fn write(&self, page: &[u8], offset: u64) -> VfsResult<()> {
        if self.units.by == AtomicProof::Assumed {
            let bytes = u32::try_from(page.len()).unwrap_or(u32::MAX);
            let is_page = bytes.is_power_of_two() && self.units.cover(bytes);
            if !is_page || !offset.is_multiple_of(page.len() as u64) {
                return Err(VfsError::IO_WRITE);
            }
            return self.write_once(page, offset, ReadWriteFlags::empty());
        }
        let mut buffer = lock(&self.buffer);
        self.write_once(buffer.filled_with(page), offset, ATOMIC)
    }
}

impl PageFile {
    /// By a single call that writes all: one that wrote a part was not atomic.
    fn write_once(&self, page: &[u8], offset: u64, flags: ReadWriteFlags) -> VfsResult<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            match pwritev2(&*self.file, &[IoSlice::new(page)], offset, flags) {
                Ok(count) if count == page.len() => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if tries < TRIES_MAX => {
                    if tries < TRIES_WITHOUT_PAUSE {
                        thread::yield_now();
                    } else {
                        thread::sleep(PAUSE);
                    }
                }
                refused => {
                    tracing::warn!(?refused, offset, bytes = page.len(), "a page was not written");
                    return Err(meaning_of(refused));
                }
            }
        }
    }
}

/// SQLite's word for what the kernel answered to a write that was not carried out.
const fn meaning_of(answer: Result<usize, Errno>) -> VfsError {
    match answer {
        Err(Errno::NOSPC | Errno::DQUOT) => VfsError::FULL,
        _ => VfsError::IO_WRITE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_broken_one_and_a_part_is_no_success() {
        for error in [Errno::NOSPC, Errno::DQUOT] {
            assert_eq!(meaning_of(Err(error)), VfsError::FULL);
        }
        for error in [Errno::INVAL, Errno::OPNOTSUPP, Errno::IO, Errno::AGAIN] {
            assert_eq!(meaning_of(Err(error)), VfsError::IO_WRITE);
        }
        assert_eq!(meaning_of(Ok(512)), VfsError::IO_WRITE);
    }
}
