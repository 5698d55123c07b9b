//! Memory that several openings of a database share, as SQLite asks for it in WAL mode.
//!
//! No Rust code looks into it: SQLite writes the index of the WAL there. It must *live* long
//! enough: as long as a [`ShmRegion`] is held, and the glue holds one for each pointer that SQLite
//! was given.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::handle::{PlatformHandle, PlatformPointer};

/// One region of shared memory. A clone is the same memory.
#[derive(Clone)]
pub struct ShmRegion {
    memory: Memory,
    bytes: usize,
    read_only: bool,
}

#[derive(Clone)]
enum Memory {
    /// In words, as SQLite wants them aligned; atomic, as several threads write them.
    Owned(Arc<[AtomicU64]>),
    /// Mapped by the platform's file, which unmaps it when it is not held any longer.
    Platform { pointer: PlatformPointer, _keeps_mapped: Arc<PlatformHandle> },
}

impl ShmRegion {
    /// Zeroed memory of this process, of at least this many bytes. Hand out clones of it
    /// to all openings of the same database.
    pub fn owned(bytes: usize) -> Self {
        let words = bytes.div_ceil(size_of::<u64>());
        let memory = std::iter::repeat_with(|| AtomicU64::new(0)).take(words).collect();
        Self { memory: Memory::Owned(memory), bytes, read_only: false }
    }

    /// Memory that the platform mapped for `handle`, valid until `handle` unmaps it.
    pub(super) fn of_platform(
        pointer: *mut c_void,
        bytes: usize,
        read_only: bool,
        handle: Arc<PlatformHandle>,
    ) -> Self {
        let pointer = PlatformPointer(pointer);
        Self { memory: Memory::Platform { pointer, _keeps_mapped: handle }, bytes, read_only }
    }

    /// Number of its bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if SQLite may only read it, as the platform's file says for a read-only `-shm`.
    pub(super) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Its address, as long as this or a clone of it is held.
    pub(super) fn pointer(&self) -> *mut c_void {
        match &self.memory {
            Memory::Owned(words) => words.as_ptr().cast_mut().cast(),
            Memory::Platform { pointer, .. } => pointer.0,
        }
    }
}

impl fmt::Debug for ShmRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = match self.memory {
            Memory::Owned(_) => "this process",
            Memory::Platform { .. } => "the platform",
        };
        f.debug_struct("ShmRegion")
            .field("of", &owner)
            .field("bytes", &self.bytes)
            .field("read_only", &self.read_only)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_the_same_memory_and_words_are_aligned() {
        let region = ShmRegion::owned(32 * 1024 - 3);
        let clone = region.clone();
        assert_eq!(region.pointer(), clone.pointer());
        assert_eq!(region.pointer() as usize % 8, 0);
        assert_eq!(region.bytes(), 32 * 1024 - 3);
        assert_ne!(region.pointer(), ShmRegion::owned(8).pointer());
        let Memory::Owned(words) = &clone.memory else { panic!("{clone:?}") };
        assert_eq!(words.len(), 4096);
        drop(region);
        // SAFETY: `clone` keeps the memory alive, and the word is in it.
        unsafe { clone.pointer().cast::<u64>().add(4095).write_volatile(7) };
        assert_eq!(words[4095].load(std::sync::atomic::Ordering::Relaxed), 7);
    }
}
