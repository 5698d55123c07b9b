//! Bytes of a file that the platform mapped, as SQLite asks for after `PRAGMA mmap_size`.
//!
//! No Rust code reads them: SQLite reads its pages there. They stay mapped while a [`MappedBytes`]
//! is held, and the glue holds one for each pointer that SQLite has. Invariants:
//!
//! 1. A `MappedBytes` is one of the references that the platform counts. It is given
//!    back exactly once.
//! 2. The platform unmaps only when it counts none (`PlatformFile::unmap` sees to it)
//!    or when the file is closed, and the file is open as long as its handle is held.
//! 3. Only `PlatformFile`, through `&mut self`, gives a reference back, as the platform
//!    counts without a lock. One that is dropped, by whichever thread, is noted in
//!    [`Dropped`] until the file is used again or closed.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use super::handle::{PlatformHandle, Reference};

/// Bytes of a file, mapped into memory as long as this is held.
///
/// The file stays open as long, with its locks; so a decorator that keeps one longer than SQLite
/// needs it holds up others, and does no other harm. A process that cuts the file below the bytes
/// that SQLite looks at ends this process with a signal, as with every mapped file.
pub struct MappedBytes {
    reference: Reference,
    bytes: usize,
    /// `None` after it was given back.
    handle: Option<Arc<PlatformHandle>>,
}

impl MappedBytes {
    /// Bytes that the platform has just mapped for `handle`, and counts.
    pub(super) fn of_platform(
        reference: Reference,
        bytes: usize,
        handle: Arc<PlatformHandle>,
    ) -> Self {
        Self { reference, bytes, handle: Some(handle) }
    }

    /// Number of the bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of the bytes, as long as this is held.
    pub(super) const fn pointer(&self) -> *mut c_void {
        self.reference.pointer.0
    }

    /// The reference, to be given back now; `None` if it belongs to another file (and then it is
    /// dropped).
    pub(super) fn taken_back(mut self, by: &Arc<PlatformHandle>) -> Option<Reference> {
        self.handle.take_if(|handle| Arc::ptr_eq(handle, by)).map(|_| self.reference)
    }
}

impl Drop for MappedBytes {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.dropped.note(self.reference);
        }
    }
}

impl fmt::Debug for MappedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedBytes")
            .field("offset", &self.reference.offset)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
