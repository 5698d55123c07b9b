//! Waits of Python's threads.
//!
//! The main thread gets the signals of the process, and Python's handlers run only where the thread
//! asks for them. So it waits in slices; other threads wait in one piece.
//!
//! Must never: hold the interpreter while it waits.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::hint;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use leafpress::vfs::fork::Process;
use leafpress::writer::{PendingCall, Ticket};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyTuple};

use super::reply::{self, Gone};
use crate::ending;
use crate::errors::{Raise, bug};

/// Rows between two looks at signals: they take about a millisecond.
const ROWS_AT_ONCE: usize = 4096;
/// Time between two looks for signals: no user notices it.
pub const SLICE: Duration = Duration::from_millis(50);

/// Time for which a thread looks for an answer before it sleeps. A step of a transaction takes a few
/// microseconds; to wake a thread on another core takes about 40, on a virtual machine.
const AWAKE: Duration = Duration::from_micros(20);
/// Looks between two offers of the processor to other threads: about a microsecond.
const LOOKS_AT_ONCE: usize = 32;

/// Calls `look` until it gives a value; `None` if it gave none for 20 µs.
pub fn look_awake<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        for _ in 0..LOOKS_AT_ONCE {
            if let Some(value) = look() {
                return Some(value);
            }
            hint::spin_loop();
        }
        if began.elapsed() >= AWAKE {
            return None;
        }
        thread::yield_now();
    }
}

/// Returns true if this thread is the one that runs Python's signal handlers.
pub fn is_main(py: Python<'_>) -> PyResult<bool> {
    thread_local! {
        /// In a child of `fork`, the thread that forked is the main one.
        static IS_MAIN: Cell<Option<(Process, bool)>> = const { Cell::new(None) };
    }
    if let Some((process, known)) = IS_MAIN.get()
        && process.is_current()
    {
        return Ok(known);
    }
    let _inside = ending::Inside::enter(py);
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let is_main = main.eq(threading.call_method0("get_ident")?)?;
    IS_MAIN.set(Some((Process::current(), is_main)));
    Ok(is_main)
}

/// Rests if the program ends, before a row is taken from Python. After each 4,096 rows, it lets other
/// threads have the interpreter, and looks at signals.
///
/// # Errors
/// The exception of a signal handler, as `KeyboardInterrupt`.
pub fn before_row(py: Python<'_>, rows_before: usize) -> PyResult<()> {
    ending::look(py);
    if rows_before % ROWS_AT_ONCE == ROWS_AT_ONCE - 1 {
        py.detach(|| ());
        py.check_signals()?;
    }
    Ok(())
}

/// The ticket of a call that is handed in; waits for room only.
///
/// # Errors
/// The exception of a signal handler, as `KeyboardInterrupt`: then nothing of the call is committed
/// unless its commit had begun. Else those of the call.
pub fn submitted<T: 'static>(py: Python<'_>, mut call: PendingCall<T>) -> PyResult<Ticket<T>> {
    if !is_main(py)? {
        return py.detach(|| call.submit()).raise(py);
    }
    loop {
        match py.detach(|| call.submit_timeout(SLICE)) {
            Ok(ticket) => return ticket.raise(py),
            Err(waiting) => call = waiting,
        }
        if let Err(signal) = py.check_signals() {
            call.interrupt();
            // If it had begun meanwhile, its statement stops within milliseconds.
            py.detach(|| call.submit()?.wait_answered(None)).raise(py)?;
            return Err(signal);
        }
    }
}

/// Waits for the answer of a ticket, at most for `limit`; false if it is not there then.
///
/// # Errors
/// The exception of a signal handler, as `KeyboardInterrupt`: then the call is interrupted, and this
/// waits for its end first.
pub fn wait_answered<T: 'static>(
    py: Python<'_>,
    ticket: &Ticket<T>,
    limit: Option<Duration>,
) -> PyResult<bool> {
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    let slice = is_main(py)?.then_some(SLICE);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let wait = left.into_iter().chain(slice).min();
        if py.detach(|| ticket.wait_answered(wait)).raise(py)? {
            return Ok(true);
        }
        if slice.is_some()
            && let Err(signal) = py.check_signals()
        {
            ticket.interrupt();
            // The statement stops within milliseconds; a commit that has begun comes to its end.
            py.detach(|| ticket.wait_answered(None)).raise(py)?;
            return Err(signal);
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(false);
        }
    }
}

thread_local! {
    /// Exception that a signal handler raised while this thread carried out a call.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Objects of Python by which signals are looked at.
struct Interpreter {
    /// All signals of this system, as a tuple.
    signals: Py<PyAny>,
    /// The function that tells the handler of one.
    handler_of: Py<PyAny>,
    /// The handler of Ctrl-C that Python sets.
    usual: Py<PyAny>,
    map: Py<PyAny>,
    gc: Py<PyModule>,
}

impl Interpreter {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static FOUND: PyOnceLock<Interpreter> = PyOnceLock::new();
        FOUND.get_or_try_init(py, || {
            let _inside = ending::Inside::enter(py);
            // The functions of `signal` are Python's code, which takes longer.
            let signal = py.import("_signal")?;
            let builtins = py.import("builtins")?;
            let signals = signal.call_method0("valid_signals")?;
            Ok(Self {
                signals: builtins.getattr("tuple")?.call1((signals,))?.unbind(),
                handler_of: signal.getattr("getsignal")?.unbind(),
                usual: signal.getattr("default_int_handler")?.unbind(),
                map: builtins.getattr("map")?.unbind(),
                gc: py.import("gc")?.unbind(),
            })
        })
    }

    /// Returns true if the program has signal handlers of its own. They may wait for other threads'
    /// calls, so they cannot run in the middle of one. Only the main thread sets handlers.
    fn has_own_handlers(&self, py: Python<'_>) -> PyResult<bool> {
        for handler in self.map.bind(py).call1((&self.handler_of, &self.signals))?.try_iter()? {
            let handler = handler?;
            if handler.is_callable() && !handler.is(&self.usual) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the signal handlers, and no finalizers, which may wait for other threads' calls too: since
    /// 3.12 Python collects garbage there, and before 3.13 also if that is disabled.
    fn check_signals_only(&self, py: Python<'_>) -> PyResult<()> {
        const NEVER: (i32, i32, i32) = (i32::MAX, i32::MAX, i32::MAX);
        let gc = self.gc.bind(py);
        let is_enabled = gc.call_method0("isenabled")?.is_truthy()?;
        gc.call_method0("disable")?;
        let thresholds = gc.call_method0("get_threshold")?.cast_into::<PyTuple>()?;
        gc.call_method1("set_threshold", NEVER)?;
        let checked = py.check_signals();
        gc.call_method1("set_threshold", thresholds)?;
        if is_enabled {
            gc.call_method0("enable")?;
        }
        checked
    }
}

/// Looks at Ctrl-C; true if it has raised, so that the call is to end.
fn signals_raise() -> bool {
    let raised = Python::attach(|py| Interpreter::get(py)?.check_signals_only(py)).err();
    let is_raised = raised.is_some();
    if is_raised {
        RAISED.set(raised);
    }
    is_raised
}

/// The answer of a call, which this thread carries out itself if no other one does. The main thread leaves
/// it to the writer's thread if a signal could run code of the program meanwhile.
///
/// # Errors
/// The exception of a signal handler, as `KeyboardInterrupt`: then the call is interrupted, and this
/// waits for its end first. Else those of the call.
pub fn carried_out<T: Send + 'static>(py: Python<'_>, call: PendingCall<T>) -> PyResult<T> {
    if !is_main(py)? {
        return py.detach(|| call.wait()).raise(py);
    }
    let call = if Interpreter::get(py)?.has_own_handlers(py)? {
        call
    } else {
        let done = py.detach(|| call.carry_out_if_idle(signals_raise));
        if let Some(signal) = RAISED.take() {
            return Err(signal);
        }
        match done {
            Ok(done) => return done.raise(py),
            Err(call) => call,
        }
    };
    answer(py, &submitted(py, call)?)
}

/// The answer of a ticket, for which this thread waits.
///
/// # Errors
/// Those of `wait_answered`, and that of the call.
pub fn answer<T: Send + 'static>(py: Python<'_>, ticket: &Ticket<T>) -> PyResult<T> {
    wait_answered(py, ticket, None)?;
    match ticket.fetch() {
        Some(answer) => answer.raise(py),
        None => Err(bug(py, "the answer was fetched before")),
    }
}

/// The output of a future, for which this thread waits. If a signal handler raises, the future is
/// dropped.
///
/// # Errors
/// The exception of the signal handler.
pub fn block_on<F: Future + Send>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F::Output: Send,
{
    let output = block_on_until(py, future, None)?;
    output.ok_or_else(|| bug(py, "a wait without a limit has ended"))
}

/// As `block_on`, but at most for `limit`: `None` if the future has no output then.
///
/// # Errors
/// As `block_on`.
pub fn block_on_until<F: Future + Send>(
    py: Python<'_>,
    future: F,
    limit: Option<Duration>,
) -> PyResult<Option<F::Output>>
where
    F::Output: Send,
{
    let end = limit.and_then(|limit| Instant::now().checked_add(limit));
    let slice = is_main(py)?.then_some(SLICE);
    let mut future = pin!(future);
    let look = || match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    };
    if let Some(output) = py.detach(|| look_awake(look)) {
        return Ok(Some(output));
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let wait = left.into_iter().chain(slice).min();
        let polled = py.detach(|| {
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_pending() {
                wait.map_or_else(thread::park, thread::park_timeout);
            }
            polled
        });
        if let Poll::Ready(output) = polled {
            return Ok(Some(output));
        }
        if slice.is_some() {
            py.check_signals()?;
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
    }
}

/// The result of work that waits where it cannot look for signals: in the main thread another one
/// does it. `stop` is called if a signal handler raises, and tells whether to wait for the end of the
/// work, which is near then; else the work goes on.
///
/// # Errors
/// The exception of the signal handler; `OSError` if the system gives no thread.
pub fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    stop: impl FnOnce() -> bool,
) -> PyResult<T> {
    if !is_main(py)? {
        return Ok(py.detach(work));
    }
    let (reply, mut done) = reply::pair();
    let run = move || reply.send(work());
    let thread = thread::Builder::new().name("leafpress-wait".to_owned()).spawn(run)?;
    match block_on(py, &mut done) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Gone)) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => Err(bug(py, "the work gave no result")),
        },
        Err(signal) => {
            if stop() {
                // Its result does not matter any more.
                py.detach(|| drop(thread.join()));
            }
            Err(signal)
        }
    }
}

/// Wakes a thread that waits in `block_on`.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
