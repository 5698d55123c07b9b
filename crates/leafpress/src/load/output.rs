//! The file that pages are written to: by position, from many threads.
//!
//! Must never: write a page twice, or hand an error of the disk to anybody
//! but the caller.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU64, Ordering};

/// Space is asked for in steps of this: the file system then finds it in one
/// piece and a write only fills it (measured: 8 GB/s against 3 to 6).
#[cfg(target_os = "linux")]
const ALLOCATION_STEP_BYTES: u64 = 256 << 20;

/// A file written by position.
#[derive(Debug)]
pub struct Output {
    file: File,
    #[cfg(target_os = "linux")]
    allocated_bytes: AtomicU64,
    #[cfg(not(unix))]
    position: std::sync::Mutex<()>,
}

impl Output {
    pub fn new(file: File) -> Self {
        Self {
            file,
            #[cfg(target_os = "linux")]
            allocated_bytes: AtomicU64::new(0),
            #[cfg(not(unix))]
            position: std::sync::Mutex::new(()),
        }
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        self.allocate(offset + bytes.len() as u64);
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, offset);
        #[cfg(not(unix))]
        {
            use std::io::{Seek, Write};
            let _alone = self.position.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            (&self.file).seek(io::SeekFrom::Start(offset))?;
            (&self.file).write_all(bytes)
        }
    }

    /// Asks for space ahead of `end`. A refusal is no error: the write itself
    /// will say whether the disk is full.
    #[cfg(target_os = "linux")]
    fn allocate(&self, end: u64) {
        let allocated = self.allocated_bytes.load(Ordering::Relaxed);
        // The first step waits until the file is large: most files are small.
        if end <= allocated.max(ALLOCATION_STEP_BYTES / 8) {
            return;
        }
        let next = end.next_multiple_of(ALLOCATION_STEP_BYTES);
        let claim = self.allocated_bytes.compare_exchange(
            allocated,
            next,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if claim.is_ok() {
            let flags = rustix::fs::FallocateFlags::empty();
            let _ = rustix::fs::fallocate(&self.file, flags, allocated, next - allocated);
        }
    }

    /// Cuts the file to its length and makes its content durable.
    pub fn finish(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.file.sync_all()
    }
}
