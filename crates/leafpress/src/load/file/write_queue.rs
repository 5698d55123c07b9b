//! Writes that wait for a thread of their own, which writes past the page cache.
//!
//! A page of the cache costs processor time: the system must find memory for it and clear it
//! (measured: 0.1 to 0.8 s for 450 MB, by how much memory the system has at hand). The load does
//! not read its pages again, so they need no place there.
//!
//! Must never: lose a write without an error that [`WriteQueue::drain`] returns, or let a caller wait
//! for a thread that has ended.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sync::lock;
use crate::vfs::aligned::AlignedBuffer;

/// Bytes of one write. Larger ones are not faster (measured from 1 to 4 MiB).
const WRITE_BYTES: usize = 1 << 20;

/// Largest number of bytes that are taken over in their memory: spare buffers stay as large.
const TAKEN_BYTES_MAX: usize = 4 << 20;

/// Number of buffers: the disk has work while threads fill the next ones.
const BUFFERS: usize = 4;

/// Writes that wait, and the buffers for more.
#[derive(Debug)]
pub struct WriteQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    is_open: bool,
    waiting: VecDeque<Piece>,
    spare: Vec<AlignedBuffer>,
    failure: Option<io::Error>,
}

/// Bytes to be written at an offset.
#[derive(Debug)]
struct Piece {
    buffer: AlignedBuffer,
    offset: u64,
}

impl WriteQueue {
    /// A queue that no thread serves yet.
    pub fn new() -> Self {
        let spare = (0..BUFFERS).map(|_| AlignedBuffer::default()).collect();
        let state = State { is_open: false, waiting: VecDeque::new(), spare, failure: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Lets a thread serve the queue, as long as the answer lives.
    pub fn open(&self) -> Opened<'_> {
        lock(&self.state).is_open = true;
        Opened(self)
    }

    /// Returns true while a thread may serve the queue.
    pub fn is_open(&self) -> bool {
        lock(&self.state).is_open
    }

    /// Copies `bytes` into the queue; waits while that is full.
    ///
    /// # Errors
    /// That of the first write that failed.
    pub fn put(&self, bytes: &[u8], mut offset: u64) -> io::Result<()> {
        for part in bytes.chunks(WRITE_BYTES) {
            let mut buffer = self.take_spare()?;
            buffer.filled_with(part);
            lock(&self.state).waiting.push_back(Piece { buffer, offset });
            self.changed.notify_all();
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Takes `memory` into the queue, and leaves other memory in its place; waits while the queue is
    /// full. More bytes than buffers should hold are copied.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn take(&self, memory: &mut AlignedBuffer, offset: u64) -> io::Result<()> {
        if memory.len() > TAKEN_BYTES_MAX {
            return self.put(memory.bytes(), offset);
        }
        let buffer = std::mem::replace(memory, self.take_spare()?);
        lock(&self.state).waiting.push_back(Piece { buffer, offset });
        self.changed.notify_all();
        Ok(())
    }

    fn take_spare(&self) -> io::Result<AlignedBuffer> {
        let mut state = self.wait_until(|state| !state.spare.is_empty());
        state.check()?;
        state.spare.pop().ok_or_else(thread_ended)
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// That of the first write that failed.
    pub fn drain(&self) -> io::Result<()> {
        let state = self.wait_until(|state| state.spare.len() == BUFFERS);
        state.check()?;
        if state.spare.len() == BUFFERS { Ok(()) } else { Err(thread_ended()) }
    }

    fn wait_until(&self, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = lock(&self.state);
        let waited = self.changed.wait_while(state, |state| state.is_open && !is_so(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out the writes until the queue is closed. Calls `idle` after each `interval` without
    /// one.
    pub fn serve(
        &self,
        interval: Duration,
        write: impl Fn(&[u8], u64) -> io::Result<()>,
        idle: impl Fn(),
    ) {
        let _opened = Opened(self);
        let mut state = lock(&self.state);
        loop {
            if let Some(piece) = state.waiting.pop_front() {
                drop(state);
                let parts = piece.buffer.bytes().chunks(WRITE_BYTES);
                let mut parts = (piece.offset..).step_by(WRITE_BYTES).zip(parts);
                let written = parts.try_for_each(|(offset, part)| write(part, offset));
                state = lock(&self.state);
                state.spare.push(piece.buffer);
                if let Err(failure) = written {
                    state.failure.get_or_insert(failure);
                }
                self.changed.notify_all();
            } else if !state.is_open {
                return;
            } else {
                let waited = self.changed.wait_timeout_while(state, interval, |state| {
                    state.is_open && state.waiting.is_empty()
                });
                let (next, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                state = next;
                if waited.timed_out() {
                    drop(state);
                    idle();
                    state = lock(&self.state);
                }
            }
        }
    }
}

impl State {
    fn check(&self) -> io::Result<()> {
        let Some(failure) = &self.failure else { return Ok(()) };
        Err(match failure.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(failure.kind(), failure.to_string()),
        })
    }
}

fn thread_ended() -> io::Error {
    io::Error::other("the thread that writes the file ended")
}

/// An open queue. When it is dropped, also after a panic, [`WriteQueue::serve`] ends after the writes
/// that wait.
#[derive(Debug)]
pub struct Opened<'q>(&'q WriteQueue);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).is_open = false;
        self.0.changed.notify_all();
    }
}

/// Returns true if a disk accepts such a write past the page cache, and the page cache has no page
/// that holds only a part of it.
#[cfg(target_os = "linux")]
pub fn takes_direct(bytes: &[u8], offset: u64) -> bool {
    let alignment = rustix::param::page_size().max(crate::vfs::aligned::ALIGNMENT);
    bytes.len().is_multiple_of(alignment) && offset.is_multiple_of(alignment as u64)
}

/// Returns false: writes past the page cache are for Linux only.
#[cfg(not(target_os = "linux"))]
pub fn takes_direct(_bytes: &[u8], _offset: u64) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::panic::AssertUnwindSafe;
    use std::thread;

    use super::*;
    use crate::vfs::aligned::ALIGNMENT;

    const INTERVAL: Duration = Duration::from_millis(1);

    /// Serves the queue by `write` on another thread, while `work` runs.
    fn serving<R>(
        queue: &WriteQueue,
        write: impl Fn(&[u8], u64) -> io::Result<()> + Send,
        work: impl FnOnce() -> R,
    ) -> R {
        thread::scope(|scope| {
            let _opened = queue.open();
            scope.spawn(|| queue.serve(INTERVAL, write, || ()));
            work()
        })
    }

    #[test]
    fn what_threads_put_is_written_whole_before_a_drain_returns() {
        let (queue, written) = (WriteQueue::new(), Mutex::new(BTreeMap::new()));
        let write = |bytes: &[u8], offset: u64| {
            assert!(bytes.as_ptr().align_offset(ALIGNMENT) == 0 && bytes.len() <= WRITE_BYTES);
            lock(&written).insert(offset, bytes.to_vec());
            Ok(())
        };
        let sizes = [ALIGNMENT, WRITE_BYTES, 3 * WRITE_BYTES + ALIGNMENT];
        serving(&queue, write, || {
            thread::scope(|scope| {
                for (thread, size) in sizes.into_iter().cycle().take(12).enumerate() {
                    let queue = &queue;
                    scope.spawn(move || {
                        queue.put(&vec![thread as u8; size], thread as u64 * (8 << 20))
                    });
                }
            });
            queue.drain().unwrap();
            let sum: usize = lock(&written).values().map(Vec::len).sum();
            assert_eq!(sum, 4 * sizes.iter().sum::<usize>());
        });
        for (offset, bytes) in lock(&written).iter() {
            assert!(bytes.iter().all(|&byte| u64::from(byte) == offset / (8 << 20)));
        }
    }

    #[test]
    fn memory_that_is_taken_is_written_in_parts_and_replaced() {
        let (queue, written) = (WriteQueue::new(), Mutex::new(BTreeMap::new()));
        let write = |bytes: &[u8], offset: u64| {
            assert!(bytes.as_ptr().align_offset(ALIGNMENT) == 0 && bytes.len() <= WRITE_BYTES);
            lock(&written).insert(offset, bytes.to_vec());
            Ok(())
        };
        let sizes = [ALIGNMENT, WRITE_BYTES + ALIGNMENT, TAKEN_BYTES_MAX + ALIGNMENT];
        let places: Vec<_> =
            (0..12_u64).zip(sizes.into_iter().cycle()).map(|(at, size)| (at << 23, size)).collect();
        serving(&queue, write, || {
            let mut memory = AlignedBuffer::default();
            for &(offset, size) in &places {
                memory.filled_with(&vec![(offset >> 23) as u8; size]);
                queue.take(&mut memory, offset).unwrap();
            }
            queue.drain().unwrap();
        });
        let written = lock(&written);
        let sum: usize = written.values().map(Vec::len).sum();
        assert_eq!(sum, places.iter().map(|(_, size)| size).sum::<usize>());
        for (offset, bytes) in written.iter() {
            assert!(bytes.iter().all(|&byte| u64::from(byte) == offset >> 23));
        }
    }

    #[test]
    fn a_failure_meets_every_later_caller_and_the_drain() {
        let queue = WriteQueue::new();
        let full = || io::Error::from_raw_os_error(28);
        serving(
            &queue,
            |_, offset| if offset == 0 { Err(full()) } else { Ok(()) },
            || {
                queue.put(&[1; ALIGNMENT], 0).unwrap();
                for _ in 0..2 {
                    assert_eq!(queue.drain().unwrap_err().raw_os_error(), Some(28));
                    assert_eq!(
                        queue.put(&[2; ALIGNMENT], 8192).unwrap_err().raw_os_error(),
                        Some(28)
                    );
                }
            },
        );
    }

    #[test]
    fn no_caller_waits_for_a_thread_that_panicked() {
        let queue = WriteQueue::new();
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| {
            serving(
                &queue,
                |_, _| panic!("as the test wants"),
                || {
                    while queue.put(&[1; ALIGNMENT], 0).is_ok() {}
                    assert!(queue.drain().is_err());
                },
            );
        }));
        assert!(ended.is_err() && !queue.is_open());
    }

    #[test]
    fn only_whole_pages_go_past_the_page_cache() {
        let page = vec![0; 65536];
        assert_eq!(takes_direct(&page, 65536), cfg!(target_os = "linux"));
        assert!(!takes_direct(&page[..512], 0) && !takes_direct(&page, 512));
    }
}
