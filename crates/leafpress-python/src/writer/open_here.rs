//! Transactions that are open, and the threads and contexts of Python that have begun them.
//!
//! A call that would wait for the transaction around it is told by this. A transaction is also rolled
//! back when all threads that used it have ended.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};

use leafpress::vfs::fork::Process;
use leafpress::vfs::sync::lock;
use leafpress::writer::PendingCall;
use leafpress::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::steps::Request;
use crate::errors::{exception, misuse};

/// State shared by the object of Python and the thread that began the transaction.
pub struct Shared {
    /// The writer, by the address of its object.
    writer: usize,
    pub process: Process,
    /// Number of its last begin in this process.
    number: AtomicU64,
    /// Threads that have used it and have not ended.
    threads: AtomicUsize,
    /// True once a step was cancelled.
    is_stopped: AtomicBool,
    pub requests: Mutex<Option<mpsc::Sender<Request>>>,
    pub call: Mutex<Option<PendingCall<()>>>,
}

impl Shared {
    /// A transaction that has not begun, of the writer of this address.
    pub fn new(writer: usize) -> Self {
        Self {
            writer,
            process: Process::current(),
            number: AtomicU64::new(0),
            threads: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            requests: Mutex::new(None),
            call: Mutex::new(None),
        }
    }

    /// Rolls it back, and stops the step that runs: no further one is carried out.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.abandon();
        if let Some(call) = lock(&self.call).as_ref() {
            call.interrupt();
        }
    }

    /// The exception for a request to a transaction that is not open.
    pub fn not_open(&self, py: Python<'_>) -> PyErr {
        if !self.is_stopped.load(Ordering::SeqCst) {
            return misuse(py, "the transaction is not open");
        }
        let error = Error::from(ErrorKind::Cancelled)
            .on_disk("nothing of the transaction: it was rolled back when a step was cancelled")
            .to_do("run the transaction again, or give the step more time");
        exception(py, &error)
    }

    /// True from its begin to its commit or rollback.
    pub fn is_open(&self) -> bool {
        lock(&self.requests).is_some()
    }

    /// Has the closure end with a rollback.
    pub fn abandon(&self) {
        drop(lock(&self.requests).take());
    }

    /// Takes back the call that no caller waits for any more, also while its group waits for a lock.
    pub fn give_up(&self) {
        self.abandon();
        let call = lock(&self.call).take();
        if let Some(call) = call {
            call.interrupt();
        }
    }

    /// Hands a request in; false if nothing takes it any more.
    pub fn send(&self, request: Request) -> bool {
        lock(&self.requests).as_ref().is_some_and(|requests| requests.send(request).is_ok())
    }
}

/// A transaction that this thread has used. When all threads that have used it end, it is rolled back.
struct UsedHere {
    shared: Weak<Shared>,
    has_begun_here: bool,
}

impl Drop for UsedHere {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade()
            && shared.threads.fetch_sub(1, Ordering::SeqCst) == 1
        {
            shared.abandon();
        }
    }
}

thread_local! {
    static USED_HERE: RefCell<Vec<UsedHere>> = const { RefCell::new(Vec::new()) };
}

/// Notes that this thread uses a transaction, and whether it has begun it.
pub fn use_here(shared: &Arc<Shared>, has_begun_here: bool) {
    USED_HERE.with_borrow_mut(|used| {
        let is_it = |it: &&mut UsedHere| std::ptr::eq(it.shared.as_ptr(), Arc::as_ptr(shared));
        if let Some(known) = used.iter_mut().find(is_it) {
            // It may be begun again, after its end.
            known.has_begun_here |= has_begun_here;
            return;
        }
        used.retain(|it| it.shared.upgrade().is_some_and(|shared| shared.is_open()));
        shared.threads.fetch_add(1, Ordering::SeqCst);
        used.push(UsedHere { shared: Arc::downgrade(shared), has_begun_here });
    });
}

/// Returns true if this thread has begun a transaction of the writer of this address, and has it
/// open. A thread of a pool may have begun it for a request, and serve another one now: each
/// request has a context of its own.
pub fn is_open_here(py: Python<'_>, writer: usize) -> bool {
    let found = USED_HERE.with_borrow(|used| {
        let begun = used.iter().filter(|it| it.has_begun_here);
        // In a child of `fork` it is the parent's.
        let open = |shared: &Arc<Shared>| {
            shared.writer == writer && shared.process.is_current() && shared.is_open()
        };
        begun.filter_map(|it| it.shared.upgrade()).find(open)
    });
    found.is_some_and(|shared| is_in_context(py, &shared).unwrap_or(true))
}

/// The variable of Python that has, for each writer, the number of the last transaction that was
/// begun in a context.
fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        Ok::<_, PyErr>(class.call1(("leafpress_begun",))?.unbind())
    };
    Ok(VARIABLE.get_or_try_init(py, make)?.bind(py))
}

/// Notes the transaction as the last one that was begun in the context of this thread. A begin before
/// this one may have been in another context.
pub fn note_in_context(py: Python<'_>, shared: &Shared) -> PyResult<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    shared.number.store(number, Ordering::Relaxed);
    let noted = PyDict::new(py);
    if let Ok(known) = variable(py)?.call_method1("get", (py.None(),))?.cast_into::<PyDict>() {
        noted.update(known.as_mapping())?;
    }
    noted.set_item(shared.writer, number)?;
    variable(py)?.call_method1("set", (noted,)).map(drop)
}

fn is_in_context(py: Python<'_>, shared: &Shared) -> PyResult<bool> {
    let noted = variable(py)?.call_method1("get", (PyDict::new(py),))?;
    let number = noted.call_method1("get", (shared.writer,))?;
    Ok(number.extract::<Option<u64>>()? == Some(shared.number.load(Ordering::Relaxed)))
}

/// The exception for a call that would wait for the transaction around it.
pub fn waits_for_itself(py: Python<'_>) -> PyErr {
    let error = Error::misuse(
        "this call would wait for the end of the transaction that it is made in, for ever",
    )
    .on_disk("nothing of this call; the transaction is open")
    .to_do("use the transaction's own methods, or make the call after it");
    exception(py, &error)
}
