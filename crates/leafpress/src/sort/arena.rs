//! Memory for the items of a run.
//!
//! The system gives memory page by page, when one is written first: each page costs an interruption
//! of the program. So memory that will be filled is asked for in one call.
//!
//! It is made of small pages. Huge ones cost less where the system has them at hand. But a virtual
//! machine may have given all of them back to its host; taking them again was measured to cost three
//! times as much as small pages, a fifth of a load.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Size of a huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Smaller memory comes from the allocator, which has it at hand.
const MAPPED_BYTES_MIN: usize = 128 << 10;

/// A block of bytes that keeps its size.
#[derive(Debug)]
pub enum Arena {
    /// Memory mapped for it alone.
    Mapped(MmapMut),
    /// From the allocator.
    Allocated(Vec<u8>),
}

impl Arena {
    /// Memory that is filled again and again, from its beginning. No page stands behind it until it is
    /// written; then it is a huge one, if the system has any, as items are visited in no order.
    pub fn to_reuse(bytes: usize) -> Self {
        Self::new(bytes, HUGE_PAGE_BYTES, |map| {
            // A system without huge pages refuses, and small ones do as well.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            #[cfg(not(target_os = "linux"))]
            let _ = map;
        })
    }

    /// Memory that will be filled to its end, once.
    pub fn to_fill(bytes: usize) -> Self {
        Self::new(bytes, MAPPED_BYTES_MIN, |map| {
            // A system that cannot do that refuses, and gives page by page.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::PopulateWrite);
            #[cfg(not(target_os = "linux"))]
            let _ = map;
        })
    }

    fn new(bytes: usize, mapped_bytes_min: usize, advise: impl FnOnce(&MmapMut)) -> Self {
        if bytes < mapped_bytes_min {
            return Self::Allocated(vec![0; bytes]);
        }
        MmapMut::map_anon(bytes).map_or_else(
            |_| Self::Allocated(vec![0; bytes]),
            |map| {
                advise(&map);
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
