//! Memory for the items of a run: zeros that no page stands behind until they
//! are written.
//!
//! The memory is made of huge pages, if the system has any: filling fresh memory in small pages
//! costs as much as copying the items into it, and visiting items in key order misses the
//! processor's table of pages each time.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Size of a huge page. A smaller arena gains nothing from huge pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A block of bytes that keeps its size.
#[derive(Debug)]
pub enum Arena {
    /// Memory mapped for it alone.
    Mapped(MmapMut),
    /// From the allocator.
    Allocated(Vec<u8>),
}

impl Arena {
    pub fn new(bytes: usize) -> Self {
        if bytes < HUGE_PAGE_BYTES {
            return Self::Allocated(vec![0; bytes]);
        }
        MmapMut::map_anon(bytes).map_or_else(
            |_| Self::Allocated(vec![0; bytes]),
            |map| {
                // A system without huge pages refuses, and small ones do as well.
                #[cfg(target_os = "linux")]
                let _ = map.advise(memmap2::Advice::HugePage);
                Self::Mapped(map)
            },
        )
    }
}

impl Deref for Arena {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Allocated(bytes) => bytes,
        }
    }
}

impl DerefMut for Arena {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Allocated(bytes) => bytes,
        }
    }
}
