//! The end of the program, while other threads of it are inside calls.
//!
//! Before 3.14, Python ends a thread that wants the interpreter back from a program that has ended: it
//! unwinds the thread's stack. A thread that waits in `Python::detach` or `Python::attach` is kept by `pyo3`
//! instead. But a thread in code of Python that was called from here is unwound through frames of Rust,
//! whose destructors need the interpreter, and the process dies by a signal.
//!
//! 1. Code of Python is called [`inside`], so that it is known how many threads are there.
//! 2. The last step of the program ([`end_of_program`]) waits until none is, for a short time.
//! 3. After it, a thread [rests](look) before it calls Python. The program ends meanwhile, and the thread
//!    never comes back.
//!
//! Must never: hold up the end of the program for long, or keep a thread for ever that a later
//! function of `atexit` still waits for.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// The thread that ends the program, once it does.
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();
/// Threads that are in code of Python.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Calls of Python that this thread is in, one in the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Longest wait for code of Python: that of a caller may wait itself, for ever.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// Length of a rest: longer than the program takes from there to its end.
const REST: Duration = Duration::from_millis(500);

/// Sign of a thread that is in code of Python.
pub struct Inside;

impl Inside {
    /// Enters it, after a rest if the program ends.
    pub fn enter(py: Python<'_>) -> Self {
        if DEPTH.replace(DEPTH.get() + 1) == 0 {
            INSIDE.fetch_add(1, Ordering::SeqCst);
        }
        let inside = Self;
        look(py);
        inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if DEPTH.replace(DEPTH.get() - 1) == 1 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Runs work that calls Python.
pub fn inside<R>(py: Python<'_>, work: impl FnOnce() -> R) -> R {
    let _inside = Inside::enter(py);
    work()
}

/// As `Python::attach`, for work that calls Python, and for threads that may outlive it.
pub fn attach<R>(work: impl for<'py> FnOnce(Python<'py>) -> R) -> R {
    let mut work = Some(work);
    let done = Python::try_attach(|py| work.take().map(|work| inside(py, || work(py))));
    match (done.flatten(), work) {
        (Some(done), _) => done,
        (None, Some(work)) if !is_ending() => Python::attach(work),
        (None, _) => loop {
            thread::park();
        },
    }
}

/// Rests if the program ends, and lets other threads have the interpreter meanwhile. For loops in which
/// each turn calls Python.
pub fn look(py: Python<'_>) {
    if !is_ending() {
        return;
    }
    let is_counted = usize::from(DEPTH.get() > 0);
    INSIDE.fetch_sub(is_counted, Ordering::SeqCst);
    py.detach(|| thread::sleep(REST));
    INSIDE.fetch_add(is_counted, Ordering::SeqCst);
}

/// Returns true if another thread ends the program.
fn is_ending() -> bool {
    ENDED_BY.get().is_some_and(|ended_by| *ended_by != thread::current().id())
}

/// The last step of the program: other threads call Python no more, as far as they can be waited for.
#[pyfunction]
pub fn end_of_program(py: Python<'_>) {
    ENDED_BY.get_or_init(|| thread::current().id());
    py.detach(|| {
        let began = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 0 && began.elapsed() < WAIT_MAX {
            thread::sleep(Duration::from_millis(1));
        }
    });
}
