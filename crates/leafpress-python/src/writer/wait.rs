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

/// As [`has_own_handlers`], or as that was less than 100 ms ago.
fn had_own_handlers(py: Python<'_>) -> PyResult<bool> {
    thread_local! {
        static KNOWN: Cell<Option<(Instant, bool)>> = const { Cell::new(None) };
    }
    match KNOWN.get() {
        Some((at, known)) if at.elapsed() < 2 * SLICE => Ok(known),
        _ => {
            let known = has_own_handlers(py)?;
            KNOWN.set(Some((Instant::now(), known)));
            Ok(known)
        }
    }
}

/// Signals of this system, the handler that Python sets by default, and the function that tells a handler.
type Signals = (Vec<i32>, Py<PyAny>, Py<PyAny>);

/// Returns true if the program has signal handlers of its own. They may wait for other threads' calls, so
/// they cannot run in the middle of one.
fn has_own_handlers(py: Python<'_>) -> PyResult<bool> {
    static SIGNALS: PyOnceLock<Signals> = PyOnceLock::new();
    let find = || -> PyResult<Signals> {
        let _inside = ending::Inside::enter(py);
        // The functions of `signal` are Python's code, which runs the handlers of signals that wait.
        let signal = py.import("_signal")?;
        let valid = signal.call_method0("valid_signals")?;
        let numbers = valid.try_iter()?.map(|number| number?.extract()).collect::<PyResult<_>>()?;
        let usual = signal.getattr("default_int_handler")?;
        Ok((numbers, usual.unbind(), signal.getattr("getsignal")?.unbind()))
    };
    let (numbers, usual, handler_of) = SIGNALS.get_or_try_init(py, find)?;
    for number in numbers {
        let handler = handler_of.bind(py).call1((number,))?;
        if handler.is_callable() && !handler.is(usual) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks at Ctrl-C; true if it has raised, so that the call is to end.
fn signals_raise() -> bool {
    let raised = Python::attach(|py| match has_own_handlers(py) {
        Ok(true) => None,
        Ok(false) => py.check_signals().err(),
        Err(error) => Some(error),
    });
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
    let call = if had_own_handlers(py)? {
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
