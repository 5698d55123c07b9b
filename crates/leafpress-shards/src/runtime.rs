//! The threads on which requests to stores run.
//!
//! One runtime serves the process. A child of `fork` has none of its parent's threads, and makes a
//! runtime of its own. So it is made in a [`Turn`]: no other thread makes it while the process forks, and
//! the child finds its mutex free. A caller waits outside of it, so a caller inside of another runtime may
//! wait too.

use std::future::Future;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use leafpress::vfs::fork::Turn;
use leafpress::vfs::locks;
use leafpress::vfs::sync::lock;
use leafpress::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Handle};

use crate::threads::WAIT_SLICE;

const THREADS: usize = 2;

/// The process that made the runtime, and the runtime. Locked in [`Turn::Requests`] only.
static RUNTIME: Mutex<Option<(u32, Handle)>> = Mutex::new(None);

/// An answer that is still to come.
#[derive(Debug)]
pub struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// Waits for it.
    ///
    /// # Errors
    /// [`Bug`](ErrorKind::Bug) if the work has panicked.
    pub fn get(self) -> Result<T> {
        let answer = self.0.recv();
        answer.map_err(|_| panicked())
    }

    /// Waits for it, unless the caller wants the work to stop: the request goes on then, and its answer is dropped.
    ///
    /// # Errors
    /// [`Cancelled`](ErrorKind::Cancelled) once `stop` returns true; as [`get`](Self::get).
    pub fn get_unless(self, stop: &dyn Fn() -> bool) -> Result<T> {
        loop {
            match self.0.recv_timeout(WAIT_SLICE) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
                Err(RecvTimeoutError::Timeout) if stop() => return Err(ErrorKind::Cancelled.into()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn panicked() -> Error {
    ErrorKind::Bug("a request to a store has panicked".to_owned()).into()
}

/// Begins some work on the runtime.
///
/// # Errors
/// [`Thread`](ErrorKind::Thread) if the system has no thread for it.
pub fn begin<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<Pending<T>> {
    let (sender, receiver) = channel();
    handle()?.spawn(async move {
        // A caller that has gone away needs no answer.
        let _ = sender.send(work.await);
    });
    Ok(Pending(receiver))
}

/// Carries out some work on the runtime.
///
/// # Errors
/// As [`begin`] and [`Pending::get`].
pub fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    begin(work)?.get()
}

/// The runtime.
///
/// # Errors
/// [`Thread`](ErrorKind::Thread) if the system has no thread for it.
pub fn handle() -> Result<Handle> {
    // From then on the process waits for the turns when it forks.
    locks::ensure();
    let _turn = Turn::Requests.take();
    let mut known = lock(&RUNTIME);
    let process = std::process::id();
    if let Some((of, handle)) = &*known
        && *of == process
    {
        return Ok(handle.clone());
    }
    let made = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("leafpress-store")
        .enable_all()
        .build();
    let made = made.map_err(|source| Error::no_thread("for requests to a store", source))?;
    let handle = made.handle().clone();
    // It serves until the process ends.
    std::mem::forget(made);
    *known = Some((process, handle.clone()));
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn threads_start_in_a_turn() {
        let turn = Turn::Requests.take();
        let (sender, receiver) = channel();
        std::thread::spawn(move || sender.send(handle().is_ok()));
        assert!(receiver.recv_timeout(Duration::from_millis(200)).is_err(), "a fork might come");
        drop(turn);
        assert_eq!(receiver.recv(), Ok(true));
    }
}
