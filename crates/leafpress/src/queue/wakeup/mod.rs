//! Wake-ups: waiting for jobs without polling.
//!
//! ```text
//! waiter() ──► look for a job ──► found ──► go
//!                 ▲      └─ none ──► wait ──┐
//!                 └──────── Look ◄──────────┤
//!                                           ├─ wake(), in this process      (waiters)
//!          thread "leafpress-wake-up": ─────┼─ a datagram of another one    (socket)
//!                                           ├─ a job is due
//!                                           └─ the database was changed    (foreign)
//! ```
//!
//! Stands under the claims of a queue that wait, and above nothing: it knows no job. A caller that
//! has committed jobs calls [`WakeUps::wake`].
//!
//! Other processes are reached through sockets in the folder `<database>-wakeups`, one of each
//! process that waits ([`socket`]). The thread that listens there lives while there is a waiter, and
//! a little longer.
//!
//! Invariants (those of the waiters are in `waiters.rs`, those of the folder in `socket/`):
//! 1. A waiter looks for each job that is committed and followed by [`WakeUps::wake`], if there is
//!    a waiter: it is counted, and its process's socket is in the folder, before it looks; a
//!    sender reads both after the commit. So either the look sees the job or the wake-up reaches
//!    the waiter.
//! 2. A permit is used for a look, or goes to the next waiter: one that times
//!    out takes a permit that is there, and one that leaves hands it on.
//! 3. When a job is due, one waiter of its queue is sent to look, not all. If it finds a job, it sends
//!    the next waiter; if not, its look tells the next time at which a job is due.
//! 4. Without any wake-up a waiter looks within a second of a change of the database by any connection
//!    ([`LOOK_EVERY`]). That is also how it learns of due times that came up while it waited, such
//!    as the end of a lease.
//! 5. While nothing happens, a process wakes once a second, however many wait.
//! 6. The folder and the files in it are of no importance: other programs that put files there or
//!    remove them can do no more than cost looks, or delay one to 4.
//!
//! A look too many is harmless, one that is missed is a bug.
//!
//! Must never: fail or delay a push, hold a lock over a call into the file
//! system that a waiter could be held up by, or keep a database open after
//! [`WakeUps::close`]. In a child of a fork no wake-up is sent or heard, and nothing is removed: a
//! queue's `OfProcess` keeps the wake-ups from it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::alarm::Alarm;
use self::message::Message;
use self::socket::{Sender, SocketFolder};
use self::waiters::{Permit, Waiters};
use crate::error::{Error, Result};
use crate::fork::Process;
use crate::sync::lock;
use crate::writer::wake;

mod alarm;
mod foreign;
mod message;
#[cfg(test)]
mod tests;
mod thread;
mod waiters;

#[cfg(unix)]
mod socket;
#[cfg(not(unix))]
#[path = "socket/elsewhere.rs"]
mod socket;

/// Time between looks at the database for changes by connections that send no wake-up, on systems
/// where processes can send wake-ups to one another.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Time between looks on systems where processes cannot do so: a look takes about 10 µs.
const LOOK_EVERY_DEAF: Duration = Duration::from_millis(50);
/// Times between looks at the database; others than these in tests only.
#[derive(Debug, Clone, Copy)]
struct Pace {
    look_every: Duration,
    look_every_deaf: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { look_every: LOOK_EVERY, look_every_deaf: LOOK_EVERY_DEAF }
    }
}

/// The first pause of a waiter whose queue says time and again that something
/// is due already, and then gives nothing; it doubles up to [`LOOK_EVERY`].
const PAUSE_FIRST: Duration = Duration::from_millis(1);

/// The time, in milliseconds since the Unix epoch; a test's own clock perhaps.
pub(super) type NowMs = Arc<dyn Fn() -> i64 + Send + Sync>;

/// The wake-ups of one database: to send, and to wait for.
///
/// Close it before the writer's connection goes: while there is a waiter it reads through a
/// connection of its own.
pub(super) struct WakeUps {
    shared: Arc<Shared>,
    sender: Sender,
    /// Taken to start and to end the thread; never while `shared.state` is held.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The part of the wake-ups that the wake-up thread shares.
struct Shared {
    /// Waiters in this process, so that a wake-up without a waiter need not lock.
    waiters: AtomicU32,
    state: Mutex<State>,
    now_ms: NowMs,
    pace: Pace,
    /// Folder of the sockets of other processes; none where the database is no file.
    place: Option<SocketFolder>,
    database: PathBuf,
    vfs: Option<String>,
    /// Number of times that the thread has woken.
    #[cfg(test)]
    wakes: std::sync::atomic::AtomicU64,
}

impl Shared {
    /// Changes the state, and then wakes the tasks that are to look: wakers are code of callers,
    /// which must not run under the lock.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let value = change(&mut state);
        let awake = state.waiters.take_awake();
        drop(state);
        awake.into_iter().for_each(wake);
        value
    }
}

struct State {
    waiters: Waiters,
    is_closed: bool,
    /// Present while the thread runs.
    listener: Option<Listener>,
    /// When the last waiter left.
    idle_since: Instant,
}

/// The wake-up thread, as others see it.
struct Listener {
    alarm: Arc<Alarm>,
    /// True if it does not listen for datagrams, because there was no waiter when one came.
    is_deaf: bool,
    /// Time at which it looks at due times again, unless it is woken.
    wakes_at: Instant,
}

impl WakeUps {
    /// Wake-ups of a database that is there, for all its queues. `vfs`: the writer's.
    /// Does nothing yet; if the path leads to no file of the system (a VFS may
    /// keep it elsewhere), other processes get no wake-ups, and theirs are not heard.
    pub(super) fn new(database: &Path, vfs: Option<&str>, now_ms: NowMs) -> Arc<Self> {
        Self::with_pace(database, vfs, now_ms, Pace::default())
    }

    fn with_pace(database: &Path, vfs: Option<&str>, now_ms: NowMs, pace: Pace) -> Arc<Self> {
        let beside = SocketFolder::of(database);
        let shared = Shared {
            waiters: AtomicU32::new(0),
            state: Mutex::new(State {
                waiters: Waiters::default(),
                is_closed: false,
                listener: None,
                idle_since: Instant::now(),
            }),
            now_ms,
            pace,
            place: beside.clone(),
            database: database.to_owned(),
            vfs: vfs.map(str::to_owned),
            #[cfg(test)]
            wakes: std::sync::atomic::AtomicU64::new(0),
        };
        Arc::new(Self {
            shared: Arc::new(shared),
            sender: Sender::new(beside),
            thread: Mutex::new(None),
        })
    }

    /// Says that `jobs` more may be claimed now, or that something is due at
    /// another time than before (`jobs` is 1 then). To be called after the commit.
    ///
    /// Sends at most this many waiters to look, in this process and in each other one. Without a
    /// waiter this is one atomic load and one failed `stat`.
    pub(super) fn wake(&self, queue: &str, jobs: u32) {
        if jobs == 0 {
            return;
        }
        // Invariant 1, against the fence in `waiter`.
        fence(Ordering::SeqCst);
        if self.shared.waiters.load(Ordering::SeqCst) > 0 {
            self.shared.change(|state| state.waiters.wake(queue, jobs));
        }
        self.sender.send(|| Message { queue_hash: message::hash(queue), jobs });
    }

    /// Registers a waiter that is about to look for a job of a queue.
    ///
    /// Call it before the look, so that no wake-up is lost between that and
    /// [`Waiter::wait`]; and best only after a first look that found nothing,
    /// since it costs a lock, and the first of a process starts a thread.
    ///
    /// # Errors
    /// If the thread cannot be started. No waiter is registered then.
    pub(super) fn waiter(self: &Arc<Self>, queue: &str) -> Result<Waiter> {
        self.shared.waiters.fetch_add(1, Ordering::SeqCst);
        let mut state = lock(&self.shared.state);
        let (queue, woken) = state.waiters.enter(queue);
        let is_heard = match &mut state.listener {
            Some(listener) => {
                if std::mem::take(&mut listener.is_deaf) {
                    listener.alarm.call();
                }
                true
            }
            None => state.is_closed,
        };
        drop(state);
        let wake_ups = Arc::clone(self);
        let is_interrupted = Arc::default();
        let process = Process::current();
        let waiter = Waiter {
            process,
            wake_ups,
            queue,
            woken,
            is_interrupted,
            holds: None,
            pause: None,
            task: None,
        };
        if !is_heard {
            self.start_thread()?;
        }
        fence(Ordering::SeqCst);
        Ok(waiter)
    }

    /// Ends all waits, now and later ones, with [`Woken::Closed`]. When it
    /// returns the thread, its connection and the socket are gone, but if a waker on that thread has
    /// called it: then they go after that. Wake-ups can still be sent to others.
    pub(super) fn close(&self) {
        self.shared.change(|state| {
            state.is_closed = true;
            state.waiters.wake_all();
            if let Some(listener) = &state.listener {
                listener.alarm.call();
            }
        });
        let thread = lock(&self.thread).take();
        // A waker that runs on the thread may have dropped the last queue. It ends by itself.
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if let Some(thread) = thread.filter(|thread| !is_own(thread)) {
            let _ = thread.join();
        }
    }

    /// Starts the thread if it does not run. Returns once the socket is there.
    fn start_thread(&self) -> Result<()> {
        let mut thread = lock(&self.thread);
        {
            let state = lock(&self.shared.state);
            if state.listener.is_some() || state.is_closed {
                return Ok(());
            }
        }
        if let Some(ended) = thread.take() {
            // The thread has reported its end, and only removes its socket.
            let _ = ended.join();
        }
        *thread = Some(thread::start(&self.shared).map_err(|error| {
            Error::no_thread("for waiting claims", error).on_disk("nothing was changed")
        })?);
        Ok(())
    }
}

impl fmt::Debug for WakeUps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.shared.state);
        let Shared { waiters, place, .. } = &*self.shared;
        f.debug_struct("WakeUps")
            .field("place", place)
            .field("waiters", waiters)
            .field("waiters", &state.waiters)
            .field("is_closed", &state.is_closed)
            .finish_non_exhaustive()
    }
}

impl Drop for WakeUps {
    fn drop(&mut self) {
        self.close();
    }
}

/// Reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// There may be a job: look again.
    Look,
    /// The deadline has come.
    TimedOut,
    /// The wake-ups were closed: this process gets no more of them.
    Closed,
}

/// A registered wait at a queue, from before its first look until it is dropped.
#[derive(Debug)]
pub(super) struct Waiter {
    process: Process,
    wake_ups: Arc<WakeUps>,
    queue: Arc<str>,
    /// The waiter sleeps on it.
    woken: Arc<Condvar>,
    /// Set by [`WaitEnder::end_wait`] to end the wait.
    is_interrupted: Arc<AtomicBool>,
    /// The permit for the look that it is at.
    holds: Option<Permit>,
    /// Length of its last pause, if the queue said that a job was due.
    pause: Option<Duration>,
    /// Its number, if it is a task that has slept.
    task: Option<u64>,
}

impl Waiter {
    /// Waits after a look that found nothing. `next_due_ms`: the time at which the look saw the
    /// next job to become due (a delay, a lease, a schedule, a rate).
    ///
    /// A time that has come already ends the wait at once, but not twice in a
    /// row: then after a pause that doubles up to a second. A paused queue should
    /// say `None`.
    pub(super) fn wait(&mut self, next_due_ms: Option<i64>, deadline: Option<Instant>) -> Woken {
        let now_ms = (self.wake_ups.shared.now_ms)();
        // The permit was used for the look.
        self.holds = None;
        let again_at = self.look_again_at(next_due_ms.is_some_and(|due_ms| due_ms <= now_ms));
        let until = [again_at, deadline].into_iter().flatten().min();
        let mut state = lock(&self.wake_ups.shared.state);
        if let Some(due_ms) = next_due_ms.filter(|due_ms| *due_ms > now_ms) {
            state.tell_due(&self.queue, due_ms, now_ms);
        }
        loop {
            if state.is_closed {
                return Woken::Closed;
            }
            self.holds = state.waiters.take(&self.queue);
            let now = Instant::now();
            if self.holds.is_none() && again_at.is_some_and(|again_at| again_at <= now) {
                self.holds = Some(Permit::Search);
            }
            // A permit first: it may have been this waiter that was woken for it, and
            // one that goes away without it would leave the others asleep.
            if self.holds.is_some() || self.is_interrupted.swap(false, Ordering::SeqCst) {
                return Woken::Look;
            }
            let left = until.map(|until| until.saturating_duration_since(now));
            state = match left {
                Some(Duration::ZERO) => return Woken::TimedOut,
                Some(left) => {
                    let waited = self.woken.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.woken.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Begins the wait of a task after a look that found nothing, as [`wait`](Self::wait) does
    /// for a thread; [`poll`](Self::poll) is to follow. A pause ends as a due time does, as a
    /// task has no clock.
    pub(super) fn begin_polls(&mut self, next_due_ms: Option<i64>) {
        let now_ms = (self.wake_ups.shared.now_ms)();
        self.holds = None;
        let pause = self.next_pause(next_due_ms.is_some_and(|due_ms| due_ms <= now_ms));
        let due_ms = match pause {
            Some(pause) if pause.is_zero() => {
                self.holds = Some(Permit::Search);
                return;
            }
            Some(pause) => Some(now_ms.saturating_add(pause.as_millis() as i64)),
            None => next_due_ms,
        };
        if let Some(due_ms) = due_ms {
            self.wake_ups.shared.change(|state| state.tell_due(&self.queue, due_ms, now_ms));
        }
    }

    /// The end of a task's wait; if it goes on, `waker` is woken.
    pub(super) fn poll(&mut self, deadline: Option<Instant>, waker: &Waker) -> Poll<Woken> {
        if self.holds.is_some() {
            return Poll::Ready(Woken::Look);
        }
        // Cloning and dropping wakers runs code of a caller.
        let (mut ours, mut earlier) = (Some(waker.clone()), None);
        let wake_ups = Arc::clone(&self.wake_ups);
        let polled = wake_ups.shared.change(|state| {
            if state.is_closed {
                return Poll::Ready(Woken::Closed);
            }
            self.holds = state.waiters.take(&self.queue);
            if self.holds.is_some() {
                return Poll::Ready(Woken::Look);
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Poll::Ready(Woken::TimedOut);
            }
            let task = *self.task.get_or_insert_with(|| state.waiters.new_task());
            if let Some(waker) = ours.take() {
                earlier = state.waiters.sleep(&self.queue, task, waker, deadline);
            }
            if let Some(deadline) = deadline {
                state.wake_thread_at(deadline);
            }
            Poll::Pending
        });
        drop((ours, earlier));
        polled
    }

    /// A handle for a thread that may have to end the waits of this one.
    pub(super) fn wait_ender(&self) -> WaitEnder {
        WaitEnder {
            shared: Arc::clone(&self.wake_ups.shared),
            woken: Arc::clone(&self.woken),
            is_interrupted: Arc::clone(&self.is_interrupted),
        }
    }

    /// Call it when the look found a job, before the waiter is dropped:
    /// else its permit goes to another waiter, which looks again for nothing.
    pub(super) fn found(&mut self) {
        if self.holds.take() == Some(Permit::Search) {
            // The search found a job, and there may be more.
            self.wake_ups.shared.change(|state| state.waiters.search_beside(&self.queue));
        }
    }

    /// When to look again without a wake-up, if something is due already.
    fn look_again_at(&mut self, is_due: bool) -> Option<Instant> {
        self.next_pause(is_due).map(|pause| Instant::now() + pause)
    }

    /// Pause before that look.
    fn next_pause(&mut self, is_due: bool) -> Option<Duration> {
        let pause = self.pause.map_or(Duration::ZERO, |last| (last * 2).max(PAUSE_FIRST));
        self.pause = is_due.then(|| pause.min(LOOK_EVERY));
        self.pause
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // Its look may have run a caller's closure that forked.
        if !self.process.is_current() {
            return;
        }
        let shared = &self.wake_ups.shared;
        let own = shared.change(|state| {
            let own = state.waiters.leave(&self.queue, self.task, self.holds.take());
            if state.waiters.are_empty() {
                state.idle_since = Instant::now();
            }
            shared.waiters.fetch_sub(1, Ordering::SeqCst);
            own
        });
        drop(own);
    }
}

/// Ends the wait of one waiter, whatever it waits for.
#[derive(Clone)]
pub(super) struct WaitEnder {
    shared: Arc<Shared>,
    woken: Arc<Condvar>,
    is_interrupted: Arc<AtomicBool>,
}

impl WaitEnder {
    /// Ends the waiter's wait, or its next one, with [`Woken::Look`].
    pub(super) fn end_wait(&self) {
        self.is_interrupted.store(true, Ordering::SeqCst);
        // A waiter that did not see it under this lock is asleep once the lock is free.
        drop(lock(&self.shared.state));
        self.woken.notify_all();
    }
}

impl State {
    /// Notes when the next job is due, and wakes the thread if it would sleep longer.
    fn tell_due(&mut self, queue: &str, due_ms: i64, now_ms: i64) {
        self.waiters.tell_due(queue, due_ms);
        self.wake_thread_at(Instant::now() + thread::until(due_ms, now_ms));
    }

    /// Wakes the thread if it would sleep longer than until then.
    fn wake_thread_at(&mut self, due_at: Instant) {
        let Some(listener) = &mut self.listener else { return };
        if due_at < listener.wakes_at {
            listener.wakes_at = due_at;
            listener.alarm.call();
        }
    }
}
