//! The call that runs at the moment, and the calls that are to end before they are done.
//!
//! ```text
//! Ticket::interrupt, Writer::interrupt ─► asked: numbers of calls ─┐
//! look of the thread itself ─► asked ──────────────────────────────┤
//! call_limit ─► the deadline of the call that runs ────────────────┼─► SQLite's progress handler
//! close_timeout ─► all ────────────────────────────────────────────┘   and each step of a closure
//! ```
//!
//! `sqlite3_interrupt` would stop any call that runs when it arrives: the next call, or COMMIT.
//! Here each call has a number that no other call of its writer has, and SQLite asks, on the
//! thread that runs the statement, if *this* call is to end.
//!
//! 1. Nothing is stopped but code of the call that was asked for: BEGIN, COMMIT, savepoints
//!    and the writer's own statements never are. Only the wait for another process's lock ends
//!    once all calls that BEGIN is for are to end.
//! 2. Once a call was stopped, it fails, whatever it makes of SQLite's error.
//!
//! Must never: run a caller's code, except the look of a caller that carries out its call itself;
//! or cost more than a few loads for a call that is not interrupted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::driving;
use crate::error::{Error, ErrorKind};
use crate::sync::lock;

/// Steps of SQLite's virtual machine between two questions: less than a millisecond.
pub(super) const STEPS_BETWEEN: i32 = 4_096;
/// A deadline that no call reaches.
const NEVER_NS: u64 = u64::MAX;

const NOTHING: &str = "nothing of this call; other callers' are not touched";

/// Reason why a call is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The caller asked for it.
    Asked,
    /// The call has run for longer than allowed.
    Limit,
}

/// State shared by a writer's callers, its queue and its connection.
#[derive(Debug)]
pub(super) struct Interrupts {
    epoch: Instant,
    /// Number of the call that is carried out; 0 if none is.
    number: AtomicU64,
    /// True while the call's own code runs, and not the writer's around it.
    runs: AtomicBool,
    /// Deadline of the call, in nanoseconds after `epoch`.
    deadline_ns: AtomicU64,
    /// Longest time that the call may run, in nanoseconds.
    limit_ns: AtomicU64,
    /// 0 if the call was not stopped, or one more than a `Why`.
    stopped: AtomicU64,
    /// True if there is a number in `asked`, or all calls are to end.
    is_asked: AtomicBool,
    asked: Mutex<Vec<u64>>,
    /// Numbers of the calls for which a transaction is begun.
    waiting: Mutex<Vec<u64>>,
    /// True if all calls are to end.
    all: AtomicBool,
    /// True if a caller's call was stopped because all are to end.
    all_stopped: AtomicBool,
    /// Number of the hooks' last work, which no caller has made.
    last_work: AtomicU64,
}

impl Default for Interrupts {
    fn default() -> Self {
        Self {
            epoch: Instant::now(),
            number: AtomicU64::new(0),
            runs: AtomicBool::new(false),
            deadline_ns: AtomicU64::new(NEVER_NS),
            limit_ns: AtomicU64::new(NEVER_NS),
            stopped: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            asked: Mutex::default(),
            waiting: Mutex::default(),
            all: AtomicBool::new(false),
            all_stopped: AtomicBool::new(false),
            last_work: AtomicU64::new(0),
        }
    }
}

/// For callers.
impl Interrupts {
    /// Asks for the end of this call, which has begun or is about to.
    pub(super) fn ask(&self, number: u64) {
        lock(&self.asked).push(number);
        self.is_asked.store(true, Ordering::Release);
    }

    /// Asks for the end of the call that is carried out now; false if none is.
    pub(super) fn ask_running(&self) -> bool {
        let number = self.number.load(Ordering::Acquire);
        if number != 0 {
            self.ask(number);
        }
        number != 0
    }

    /// Asks for the end of all calls, for good.
    pub(super) fn ask_all(&self) {
        self.all.store(true, Ordering::Release);
        self.is_asked.store(true, Ordering::Release);
    }

    /// Returns true once all calls are to end, or all of those that wait for a transaction.
    pub(super) fn is_asked_of_waiting(&self) -> bool {
        self.look();
        self.is_asked.load(Ordering::Acquire)
            && (self.all.load(Ordering::Acquire) || {
                let (waiting, asked) = (lock(&self.waiting), lock(&self.asked));
                !waiting.is_empty() && waiting.iter().all(|number| asked.contains(number))
            })
    }

    /// Says that the call of this number is the hooks' last work.
    pub(super) fn set_last_work(&self, number: u64) {
        self.last_work.store(number, Ordering::Release);
    }

    /// Returns true if the call of this number is the hooks' last work.
    pub(super) fn is_last_work(&self, number: u64) -> bool {
        self.last_work.load(Ordering::Acquire) == number
    }

    /// Returns true if a caller's call failed because all were to end.
    pub(super) fn has_stopped_all(&self) -> bool {
        self.all_stopped.load(Ordering::Acquire)
    }

    /// Returns true if the end of this call was asked for.
    pub(super) fn is_asked(&self, number: u64) -> bool {
        self.is_asked.load(Ordering::Acquire)
            && (self.all.load(Ordering::Acquire) || lock(&self.asked).contains(&number))
    }
}

/// For the thread that drives the engine.
impl Interrupts {
    /// Sets the calls for which a transaction is to be begun.
    pub(super) fn waits_for(&self, numbers: impl Iterator<Item = u64>) {
        let mut waiting = lock(&self.waiting);
        waiting.clear();
        waiting.extend(numbers);
    }

    /// Makes SQLite check for interrupts from now on.
    pub(super) fn watch(
        self: &std::sync::Arc<Self>,
        connection: &mut Connection,
    ) -> rusqlite::Result<()> {
        let asked = std::sync::Arc::clone(self);
        connection.progress_handler(STEPS_BETWEEN, Some(move || asked.stops_code()))
    }

    /// Begins a call. Returns its error if its end was asked for before.
    pub(super) fn begin(&self, number: u64, limit: Option<Duration>) -> Result<(), Error> {
        let (deadline_ns, limit_ns) = match limit {
            None => (NEVER_NS, NEVER_NS),
            Some(limit) => {
                let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(NEVER_NS);
                (self.now_ns().saturating_add(limit_ns), limit_ns)
            }
        };
        self.deadline_ns.store(deadline_ns, Ordering::Relaxed);
        self.limit_ns.store(limit_ns, Ordering::Relaxed);
        self.stopped.store(0, Ordering::Relaxed);
        self.number.store(number, Ordering::Release);
        if self.is_asked(number) {
            self.stop(Why::Asked);
        }
        self.stopped().map_or(Ok(()), Err)
    }

    /// Ends the call, also one that has stopped being a call in a child of `fork`.
    pub(super) fn end(&self) {
        self.number.store(0, Ordering::Release);
    }

    /// Runs code of the call: only this code can be stopped.
    pub(super) fn run<T>(&self, code: impl FnOnce() -> T) -> T {
        struct Running<'i>(&'i AtomicBool);
        impl Drop for Running<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        self.runs.store(true, Ordering::Relaxed);
        let _running = Running(&self.runs);
        code()
    }

    /// Says that the code of the call is over, though [`run`](Self::run) has not returned: what
    /// comes now is a commit.
    pub(super) fn leave_code(&self) {
        self.runs.store(false, Ordering::Relaxed);
    }

    /// Returns true if code of the call runs that is to end.
    pub(super) fn stops_code(&self) -> bool {
        self.runs.load(Ordering::Relaxed) && self.must_end()
    }

    /// Leaves a wait for another process's lock out of the time of the call: a statement that commits
    /// itself takes its lock while it runs.
    pub(super) fn leave_out(&self, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(NEVER_NS);
        let deadline_ns = self.deadline_ns.load(Ordering::Relaxed);
        self.deadline_ns.store(deadline_ns.saturating_add(wait_ns), Ordering::Relaxed);
    }

    /// The error of the call, if it is to end or was stopped; asked by each step of a closure.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.must_end();
        self.stopped().map_or(Ok(()), Err)
    }

    /// The error of the call, if it was stopped.
    pub(super) fn stopped(&self) -> Option<Error> {
        let kind = match self.stopped.load(Ordering::Relaxed) {
            0 => return None,
            1 => ErrorKind::Interrupted,
            _ => {
                let limit = Duration::from_nanos(self.limit_ns.load(Ordering::Relaxed));
                let error = Error::timed_out(limit).on_disk(NOTHING);
                return Some(error.to_do(
                    "make the statement faster, or give the call more time with call_limit",
                ));
            }
        };
        Some(Error::from(kind).on_disk(NOTHING))
    }

    /// Forgets the numbers of the calls to end, once all calls that had begun are answered.
    pub(super) fn forget_asked(&self) {
        if self.is_asked.load(Ordering::Acquire) && !self.all.load(Ordering::Acquire) {
            let mut asked = lock(&self.asked);
            asked.clear();
            self.is_asked.store(false, Ordering::Release);
        }
    }

    /// Asks for the end of the calls of this thread, if its own look says so: it carries out no others
    /// then.
    fn look(&self) {
        if driving::is_to_end() {
            self.ask_running();
            lock(&self.waiting).iter().for_each(|&number| self.ask(number));
        }
    }

    fn must_end(&self) -> bool {
        if self.stopped.load(Ordering::Relaxed) != 0 {
            return true;
        }
        self.look();
        if self.is_asked(self.number.load(Ordering::Relaxed)) {
            self.stop(Why::Asked);
            return true;
        }
        let deadline_ns = self.deadline_ns.load(Ordering::Relaxed);
        if deadline_ns != NEVER_NS && self.now_ns() >= deadline_ns {
            self.stop(Why::Limit);
            return true;
        }
        false
    }

    fn stop(&self, why: Why) {
        self.stopped.store(why as u64 + 1, Ordering::Relaxed);
        let is_callers = !self.is_last_work(self.number.load(Ordering::Relaxed));
        if is_callers && self.all.load(Ordering::Acquire) {
            self.all_stopped.store(true, Ordering::Release);
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(NEVER_NS)
    }
}
