//! The threads on which requests to stores run.
//!
//! One runtime serves the process. A child of `fork` has none of its parent's threads, and makes a
//! runtime of its own. A caller waits outside of it, so a caller inside of another runtime may wait too.

use std::future::Future;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use leafpress::vfs::sync::lock;
use leafpress::{Error, ErrorKind, Result};
use tokio::runtime::{Builder, Handle};

const THREADS: usize = 2;

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
        answer.map_err(|_| ErrorKind::Bug("a request to a store has panicked".to_owned()).into())
    }
}

/// Begins some work on the runtime.
///
/// # Errors
/// [`Io`](ErrorKind::Io) if the system has no thread for it.
pub fn begin<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<Pending<T>> {
    let (sender, receiver) = channel();
    runtime()?.spawn(async move {
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

fn runtime() -> Result<Handle> {
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
