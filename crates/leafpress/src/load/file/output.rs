//! Output file of pages, written by position from many threads.
//!
//! While pages are written, a separate thread keeps asking the system to make them durable. So the
//! disk works from the start, and the sync at the end finds little to do.
//!
//! Must never: write a page twice, or keep an error of the disk from the caller.

use crate::sync::lock;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::new_file::disk::DiskFile;
use crate::threads;

/// Space is asked for in steps of this: the file system then finds it in one
/// piece and a write only fills it (measured: 8 GB/s against 3 to 6).
#[cfg(target_os = "linux")]
const ALLOCATION_STEP_BYTES: u64 = 256 << 20;

/// Longest time that written pages wait until the disk is asked to take them.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// A file written by position.
#[derive(Debug)]
pub struct Output {
    file: DiskFile,
    unsynced_bytes: AtomicU64,
    flush_error: Mutex<Option<io::Error>>,
    #[cfg(target_os = "linux")]
    allocated_bytes: AtomicU64,
    #[cfg(not(unix))]
    position: Mutex<()>,
}

impl Output {
    pub fn new(file: DiskFile) -> Self {
        Self {
            file,
            unsynced_bytes: AtomicU64::new(0),
            flush_error: Mutex::new(None),
            #[cfg(target_os = "linux")]
            allocated_bytes: AtomicU64::new(0),
            #[cfg(not(unix))]
            position: Mutex::new(()),
        }
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.unsynced_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        #[cfg(target_os = "linux")]
        self.allocate(offset + bytes.len() as u64);
        self.write_by_position(bytes, offset)?;
        self.file.wrote(bytes, offset);
        Ok(())
    }

    #[cfg(unix)]
    fn write_by_position(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self.file.file(), bytes, offset)
    }

    #[cfg(not(unix))]
    fn write_by_position(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        use std::io::{Seek, Write};
        let _alone = lock(&self.position);
        let mut file = self.file.file();
        file.seek(io::SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    /// Reserves space ahead of `end`. A refusal is no error: the write itself reports a full disk.
    #[cfg(target_os = "linux")]
    fn allocate(&self, end: u64) {
        let allocated = self.allocated_bytes.load(Ordering::Relaxed);
        // The first reservation waits until the file is large: most files are small.
        if end <= allocated.max(ALLOCATION_STEP_BYTES / 8) {
            return;
        }
        if rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_some() {
            // The kernel kills a process that asks for more than it may write.
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
            let _ = rustix::fs::fallocate(self.file.file(), flags, allocated, next - allocated);
        }
    }

    /// Runs `work`, while another thread makes its pages durable if `is_durable`.
    pub fn flushing<R>(&self, is_durable: bool, work: impl FnOnce() -> R) -> R {
        if !is_durable {
            return work();
        }
        std::thread::scope(|scope| {
            let (stop, stopped) = mpsc::channel::<()>();
            // Without the thread all is synced at the end.
            let _ = threads::start(scope, move || {
                while stopped.recv_timeout(FLUSH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    self.flush();
                }
            });
            // The guard wakes the thread at the end, also after a panic.
            let _stop = stop;
            work()
        })
    }

    fn flush(&self) {
        if self.unsynced_bytes.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        if let Err(error) = self.file.sync_data() {
            // The system reports a lost write to one sync only, so the error is kept.
            lock(&self.flush_error).get_or_insert(error);
        }
    }

    /// Cuts the file to this size.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Makes the content durable, if wanted, while `look` reads the file.
    pub fn sync_beside<R>(
        &self,
        is_durable: bool,
        look: impl FnOnce() -> R,
    ) -> (R, io::Result<()>) {
        if !is_durable {
            return (look(), Ok(()));
        }
        std::thread::scope(|scope| {
            let syncing = threads::start(scope, || self.sync());
            let seen = look();
            let Ok(syncing) = syncing else { return (seen, self.sync()) };
            let synced = syncing.join();
            (seen, synced.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// Makes the file's content durable.
    fn sync(&self) -> io::Result<()> {
        if let Some(error) = lock(&self.flush_error).take() {
            return Err(error);
        }
        self.file.sync_all()
    }
}
