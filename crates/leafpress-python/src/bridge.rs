//! Futures of Rust for an event loop of asyncio.
//!
//! ```text
//! call ─► Task: first poll ─► … ─► waker ─► mailbox ─► one byte in a pipe ─► the loop's thread
//!                                                        drain: poll ─► set_result
//! ```
//!
//! 1. A task is polled by the loop's thread only.
//! 2. Wakers never need the interpreter: they run on the thread that commits.
//! 3. The first waker after a drain has one byte written once the group is answered, so all calls
//!    of a commit group cost one wake-up of the loop.
//!
//! Must never: wait.

use std::future::Future;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};

use leafpress::vfs::sync::lock;
use leafpress::writer::after_answers;
use pyo3::intern;
use pyo3::prelude::*;

use crate::ending;

/// The tasks of one event loop that are to be polled again.
struct Mailbox {
    woken: Mutex<Vec<Arc<dyn Polled>>>,
    /// True if the byte that wakes the loop is written.
    is_signalled: AtomicBool,
    pipe: PipeWriter,
}

impl Mailbox {
    fn put(self: &Arc<Self>, task: Arc<dyn Polled>) {
        lock(&self.woken).push(task);
        if !self.is_signalled.swap(true, Ordering::SeqCst) {
            let mailbox = Arc::clone(self);
            after_answers(move || {
                // A pipe that its loop has closed has no task to wake.
                let _ = (&mailbox.pipe).write_all(&[0]);
            });
        }
    }
}

/// Side of an event loop where its tasks are woken. The loop calls `drain` when `fileno` can be
/// read.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct Loop {
    mailbox: Arc<Mailbox>,
    pipe: PipeReader,
    drains: AtomicU64,
}

#[pymethods]
impl Loop {
    #[new]
    fn new() -> PyResult<Self> {
        let (pipe, writer) = std::io::pipe()?;
        let woken = Mutex::new(Vec::new());
        let is_signalled = AtomicBool::new(false);
        let mailbox = Arc::new(Mailbox { woken, is_signalled, pipe: writer });
        Ok(Self { mailbox, pipe, drains: AtomicU64::new(0) })
    }

    /// The descriptor that can be read when tasks are woken.
    fn fileno(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.pipe)
    }

    /// Number of wake-ups so far.
    fn drains(&self) -> u64 {
        self.drains.load(Ordering::Relaxed)
    }

    /// Polls all tasks that were woken, and gives the answers to their futures.
    fn drain(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        this.drains.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        // The loop calls this when there is a byte, so it does not wait.
        let _ = (&this.pipe).read(&mut bytes)?;
        this.mailbox.is_signalled.store(false, Ordering::SeqCst);
        let woken = std::mem::take(&mut *lock(&this.mailbox.woken));
        for task in woken {
            // The others must have their answers all the same.
            if let Err(error) = task.poll(py) {
                error.write_unraisable(py, Some(slf.as_any()));
            }
        }
        Ok(())
    }
}

/// A task of any type, as its mailbox uses it.
trait Polled: Send + Sync {
    fn poll(self: Arc<Self>, py: Python<'_>) -> PyResult<()>;
    fn drop_future(&self);
}

/// A future of Rust, and what is done with its output.
struct Call<F, C> {
    /// None once it is answered or dropped. The future of asyncio refers to the task, so both would
    /// refer to each other for ever.
    parts: Mutex<Option<Parts<F, C>>>,
    mailbox: Weak<Mailbox>,
}

struct Parts<F, C> {
    future: Pin<Box<F>>,
    convert: C,
    /// The future of asyncio that gets the output.
    answered: Py<PyAny>,
}

impl<F, C, T> Polled for Call<F, C>
where
    F: Future<Output = leafpress::Result<T>> + Send + 'static,
    C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    T: 'static,
{
    fn poll(self: Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let waker = Waker::from(Arc::clone(&self));
        let mut place = lock(&self.parts);
        let Some(parts) = place.as_mut() else { return Ok(()) };
        let Poll::Ready(output) = parts.future.as_mut().poll(&mut Context::from_waker(&waker))
        else {
            return Ok(());
        };
        let Some(Parts { convert, answered, .. }) = place.take() else { return Ok(()) };
        drop(place);
        let answered = answered.bind(py);
        let _inside = ending::Inside::enter(py);
        let output = match output {
            Ok(output) => convert(py, output),
            Err(error) => Err(crate::errors::exception(py, &error)),
        };
        let given = match output {
            Ok(value) => answered.call_method1(intern!(py, "set_result"), (value,)),
            Err(error) => answered.call_method1(intern!(py, "set_exception"), (error,)),
        };
        match given {
            // It was cancelled before it had its task.
            Err(_) if answered.call_method0(intern!(py, "done"))?.is_truthy()? => Ok(()),
            given => given.map(drop),
        }
    }

    fn drop_future(&self) {
        let parts = lock(&self.parts).take();
        drop(parts);
    }
}

impl<F, C, T> Wake for Call<F, C>
where
    F: Future<Output = leafpress::Result<T>> + Send + 'static,
    C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    T: 'static,
{
    fn wake(self: Arc<Self>) {
        if let Some(mailbox) = self.mailbox.upgrade() {
            mailbox.put(self);
        }
    }
}

/// A future of Rust that an event loop carries out.
///
/// The collector of cycles is not told of the future of asyncio: until that has its answer, the
/// writer refers to it too, which the collector cannot see.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct Task(Arc<dyn Polled>);

#[pymethods]
impl Task {
    /// Drops the future: its call is taken back if it has not begun, and that of a Writer is stopped.
    fn cancel(&self) {
        self.0.drop_future();
    }
}

/// Carries out a future for `answered`, a future of asyncio of that loop, which gets what
/// `convert` makes of the output. Called by the loop's thread.
///
/// # Errors
/// Those of `answered` itself.
pub fn start<F, C, T>(
    py: Python<'_>,
    to: &Loop,
    answered: Py<PyAny>,
    future: F,
    convert: C,
) -> PyResult<Task>
where
    F: Future<Output = leafpress::Result<T>> + Send + 'static,
    C: FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    T: 'static,
{
    let parts = Mutex::new(Some(Parts { future: Box::pin(future), convert, answered }));
    let call = Arc::new(Call { parts, mailbox: Arc::downgrade(&to.mailbox) });
    Arc::clone(&call).poll(py)?;
    Ok(Task(call))
}
