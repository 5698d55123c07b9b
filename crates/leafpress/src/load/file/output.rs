//! Output file of pages, written by position from many threads.
//!
//! While pages are written, a separate thread keeps the disk at work, so that the sync at the end
//! finds little to do. It asks the system to make the pages durable. If the disk turns out to be fast,
//! that thread writes the pages after those itself, past the page cache.
//!
//! Must never: write a page twice in one attempt, or keep an error of the disk from the caller.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::write_queue::{WriteQueue, takes_direct};
use crate::new_file::disk::DiskFile;
use crate::sync::lock;
use crate::threads;
use crate::vfs::aligned::AlignedBuffer;
use crate::vfs::locks::FileHandle;

/// Space is asked for in steps of this: the file system then finds it in one
/// piece and a write only fills it (measured: 8 GB/s against 3 to 6).
#[cfg(target_os = "linux")]
const RESERVATION_BYTES: u64 = 256 << 20;

/// A smaller file gets no reservation: most files are small.
#[cfg(target_os = "linux")]
const SMALL_FILE_BYTES: u64 = 32 << 20;

/// Bytes a second that make a disk fast. There the page cache costs the load more than its readers
/// gain: they get the pages from the disk in time. A slow disk bounds the load, and its readers gain.
const FAST_DISK_BYTES_PER_S: f64 = 500e6;

/// A flush of fewer bytes says little about the speed of the disk.
const TELLING_FLUSH_BYTES: u64 = 8 << 20;

/// A sync of fewer bytes does not gain from a thread beside it.
const BYTES_WORTH_A_THREAD: u64 = 1 << 20;

/// Longest time that written pages wait until the disk is asked to take them.
const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// A file written by position.
#[derive(Debug)]
pub struct Output {
    file: DiskFile,
    unsynced_bytes: AtomicU64,
    flush_error: Mutex<Option<io::Error>>,
    #[cfg(target_os = "linux")]
    reserved_bytes: AtomicU64,
    queue: WriteQueue,
    /// The file for writes past the page cache, once the disk has shown to be fast.
    direct: OnceLock<Option<FileHandle>>,
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
            reserved_bytes: AtomicU64::new(0),
            queue: WriteQueue::new(),
            direct: OnceLock::new(),
            #[cfg(not(unix))]
            position: Mutex::new(()),
        }
    }

    /// Returns true if a listener is told of the writes.
    pub fn has_listener(&self) -> bool {
        self.file.has_listener()
    }

    /// Writes all of `bytes` at `offset`, at the latest before [`Output::drain`] returns.
    ///
    /// # Errors
    /// The system's, for this write or an earlier one.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        self.reserve(offset + bytes.len() as u64);
        if self.is_direct(bytes, offset) {
            return self.queue.put(bytes, offset);
        }
        self.write_cached(bytes, offset)
    }

    /// Writes all of `memory` as [`write_at`](Self::write_at) does, but without a copy of it: other
    /// memory may be in its place afterwards.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn write_memory(&self, memory: &mut AlignedBuffer, offset: u64) -> io::Result<()> {
        if !self.is_direct(memory.bytes(), offset) {
            return self.write_at(memory.bytes(), offset);
        }
        #[cfg(target_os = "linux")]
        self.reserve(offset + memory.len() as u64);
        self.queue.take(memory, offset)
    }

    /// Returns true if these bytes are written past the page cache.
    fn is_direct(&self, bytes: &[u8], offset: u64) -> bool {
        matches!(self.direct.get(), Some(Some(_)))
            && self.queue.is_open()
            && takes_direct(bytes, offset)
    }

    /// Waits until all writes are carried out.
    ///
    /// # Errors
    /// That of the first write that failed.
    pub fn drain(&self) -> io::Result<()> {
        self.queue.drain()
    }

    fn write_cached(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.unsynced_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
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

    /// Carries out a write of the queue. Where the system refuses to write past the page cache,
    /// that takes it.
    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(unix)]
        if let Some(Some(file)) = self.direct.get()
            && std::os::unix::fs::FileExt::write_all_at(&**file, bytes, offset).is_ok()
        {
            self.file.wrote(bytes, offset);
            return Ok(());
        }
        self.write_cached(bytes, offset)
    }

    /// Reserves space ahead of `end`. A refusal is no error: the write itself reports a full disk.
    #[cfg(target_os = "linux")]
    fn reserve(&self, end: u64) {
        let reserved = self.reserved_bytes.load(Ordering::Relaxed);
        if end <= reserved.max(SMALL_FILE_BYTES) {
            return;
        }
        if rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_some() {
            // The kernel kills a process that asks for more than it may write.
            return;
        }
        let next = end.next_multiple_of(RESERVATION_BYTES);
        let claim = self.reserved_bytes.compare_exchange(
            reserved,
            next,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if claim.is_ok() {
            let flags = rustix::fs::FallocateFlags::empty();
            let _ = rustix::fs::fallocate(self.file.file(), flags, reserved, next - reserved);
        }
    }

    /// Runs `work`, while another thread makes its pages durable if `is_durable`.
    pub fn flushing<R>(&self, is_durable: bool, work: impl FnOnce() -> R) -> R {
        if !is_durable {
            return work();
        }
        std::thread::scope(|scope| {
            let opened = self.queue.open();
            let started = threads::start(scope, || {
                let write = |bytes: &[u8], offset| self.write_direct(bytes, offset);
                self.queue.serve(FLUSH_INTERVAL, write, || self.flush());
            });
            // Without the thread `work` writes all, and it is synced at the end.
            let _opened = started.is_ok().then_some(opened);
            work()
        })
    }

    fn flush(&self) {
        let bytes = self.unsynced_bytes.swap(0, Ordering::Relaxed);
        if bytes == 0 {
            return;
        }
        let started = Instant::now();
        if let Err(error) = self.file.sync_data() {
            // The system reports a lost write to one sync only, so the error is kept.
            lock(&self.flush_error).get_or_insert(error);
            return;
        }
        let bytes_per_s = bytes as f64 / started.elapsed().as_secs_f64();
        if bytes >= TELLING_FLUSH_BYTES && bytes_per_s >= FAST_DISK_BYTES_PER_S {
            self.direct.get_or_init(|| self.file.open_direct());
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
        if self.unsynced_bytes.load(Ordering::Relaxed) < BYTES_WORTH_A_THREAD {
            return (look(), self.sync());
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::FileExt as _;
    use std::path::Path;

    use super::*;
    use crate::rights::Rights;

    const UNIT: usize = 65536;

    /// Writes units of the file from several threads, after `prepare`; returns the file's content.
    fn written(units: &[(usize, usize)], prepare: impl Fn(&Output, &Path)) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let rights = Rights::of(&path);
        let output = Output::new(DiskFile::create_new(&path, rights).unwrap());
        output.flushing(true, || {
            prepare(&output, &path);
            std::thread::scope(|scope| {
                for (number, &(start, end)) in units.iter().enumerate() {
                    let output = &output;
                    let bytes = vec![number as u8 + 1; end - start];
                    scope.spawn(move || {
                        if number % 2 == 0 {
                            return output.write_at(&bytes, start as u64).unwrap();
                        }
                        let mut memory = AlignedBuffer::default();
                        memory.filled_with(&bytes);
                        output.write_memory(&mut memory, start as u64).unwrap();
                    });
                }
            });
            output.drain().unwrap();
        });
        output.sync_beside(true, || ()).1.unwrap();
        let mut content = Vec::new();
        FileHandle::open(&path).unwrap().read_to_end(&mut content).unwrap();
        content
    }

    /// Whole pages, and some that are none: they go through the page cache beside the others.
    fn units() -> Vec<(usize, usize)> {
        let large = (0..16).map(|at| (at * 3 * UNIT, (at + 1) * 3 * UNIT));
        let odd = [(48 * UNIT, 48 * UNIT + 512), (48 * UNIT + 512, 49 * UNIT)];
        large.chain(odd).collect()
    }

    fn expected() -> Vec<u8> {
        let mut content = vec![0; 49 * UNIT];
        for (number, (start, end)) in units().into_iter().enumerate() {
            content[start..end].fill(number as u8 + 1);
        }
        content
    }

    #[test]
    fn writes_past_the_page_cache_and_through_it_make_the_same_file() {
        let direct = |output: &Output, _: &Path| {
            let opened = output.direct.get_or_init(|| output.file.open_direct());
            if opened.is_none() {
                leafpress_testing::say_skipped("no writes past the page cache in this folder");
            }
        };
        assert!(written(&units(), |_, _| ()) == expected());
        assert!(written(&units(), direct) == expected());
    }

    #[test]
    fn the_page_cache_takes_what_the_system_refuses_past_it() {
        let refusing = |output: &Output, path: &Path| {
            // Opened for reading only, so that each write to it fails.
            let read_only = FileHandle::open(path).unwrap();
            assert!(read_only.write_at(&[1], 0).is_err());
            output.direct.get_or_init(|| Some(read_only));
        };
        assert!(written(&units(), refusing) == expected());
    }
}
