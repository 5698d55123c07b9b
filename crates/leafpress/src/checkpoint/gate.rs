//! The gate: it stands between the writer's commit loop and the checkpointer.
//!
//! The writer passes the [`Gate`] before each group of transactions and tells it
//! after each commit how long the WAL has become. The checkpointer sleeps at the
//! gate until there is work, and closes it for the moments in which the WAL is to
//! rewind: a writer that waits here goes on at once when the gate opens, whereas
//! one that met SQLite's own lock would sleep in steps of milliseconds.
//!
//! The gate is manners, not safety: SQLite's locks keep the database right even if a writer does
//! not pass the gate. So a writer waits here [`Gate::wait_max`] at most and goes on in any case,
//! also if the checkpointer has died.
//!
//! Must never: know SQLite, or do anything that lasts while its mutex is held.

use crate::sync::lock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A number of frames that no WAL reaches: "do not wake me for growth".
pub(crate) const NEVER: u32 = u32::MAX;

/// Decides which of the writer's commit loop and the checkpointer may go on, and when.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// Writers wait here until the gate opens.
    opened: Condvar,
    /// The checkpointer waits here for work, or for the last group to end.
    called: Condvar,
    /// Frames in the WAL after the last commit.
    frames: AtomicU32,
    /// Commits since the start.
    commits: AtomicU64,
    /// Microseconds from `opened_at` to the last commit.
    committed_us: AtomicU64,
    opened_at: Instant,
    /// Number of commits that found the WAL shorter than the one before.
    rewinds: AtomicU32,
    /// The commit that reaches this number of frames wakes the checkpointer.
    wake_at_frames: AtomicU32,
    /// The commit that reaches this number of frames closes the gate behind itself.
    shut_at_frames: AtomicU32,
    wait_max: Duration,
    /// A sync failed: nothing may be copied or rewound any more.
    broken: OnceLock<String>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    /// Groups between `begin_group` and the drop of their guard.
    groups: u32,
    /// The checkpointer was called since it last slept.
    called: bool,
    stopping: bool,
    held: Held,
}

/// Number and length of the writer's waits at the gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Groups that found the gate closed.
    pub(crate) groups: u64,
    /// The longest wait.
    pub(crate) longest: Duration,
    /// All waits together.
    pub(crate) total: Duration,
    /// Waits that were broken off after [`Gate::wait_max`].
    pub(crate) broken_off: u64,
}

/// State of the gate at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Frames in the WAL after the last commit that passed here.
    pub(crate) frames: u32,
    /// Commits since the start.
    pub(crate) commits: u64,
    /// Time since the last commit; zero if it is not known.
    pub(crate) quiet_for: Duration,
    /// Times that the WAL was found rewound.
    pub(crate) rewinds: u32,
    /// The gate closed itself because the WAL reached its bound.
    pub(crate) shut: bool,
    /// [`Gate::stop`] was called.
    pub(crate) stopping: bool,
}

impl Gate {
    /// An open gate at which a writer waits `wait_max` at most.
    pub(crate) fn new(wait_max: Duration) -> Self {
        Self {
            state: Mutex::default(),
            opened: Condvar::new(),
            called: Condvar::new(),
            frames: AtomicU32::new(0),
            commits: AtomicU64::new(0),
            committed_us: AtomicU64::new(0),
            opened_at: Instant::now(),
            rewinds: AtomicU32::new(0),
            wake_at_frames: AtomicU32::new(NEVER),
            shut_at_frames: AtomicU32::new(NEVER),
            wait_max,
            broken: OnceLock::new(),
        }
    }

    /// A sync failed. What was to be written may be forgotten by the system, and the
    /// next sync would not say so. Only the WAL has it then, and must stay as it is.
    pub(crate) fn break_off(&self, reason: String) {
        tracing::error!(%reason, "no further checkpoint is made");
        let _ = self.broken.set(reason);
    }

    /// The reason for which nothing may be committed or copied any more, if there is one.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    /// The writer passes here before BEGIN and drops the guard after COMMIT or ROLLBACK.
    ///
    /// Returns at once unless the WAL is just being rewound; then it waits, at most
    /// as long as the gate was told when it was made. The thread that holds a guard
    /// must not ask for a second one.
    pub(crate) fn begin_group(&self) -> GateGuard<'_> {
        let mut state = self.lock();
        if state.closed {
            state = self.wait_until_open(state);
        }
        state.groups += 1;
        GateGuard { gate: self }
    }

    fn wait_until_open<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let since = Instant::now();
        let (mut state, result) = self
            .opened
            .wait_timeout_while(state, self.wait_max, |state| state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let waited = since.elapsed();
        state.held.groups += 1;
        state.held.longest = state.held.longest.max(waited);
        state.held.total += waited;
        if result.timed_out() {
            // The checkpointer or its disk hangs: no other group shall wait for it.
            state.held.broken_off += 1;
            state.closed = false;
            self.shut_at_frames.store(NEVER, SeqCst);
            self.opened.notify_all();
        }
        state
    }

    /// From the writer's WAL hook, after each commit: the frames now in the WAL.
    pub(crate) fn committed(&self, wal_frames: u32) {
        let before = self.frames.swap(wal_frames, SeqCst);
        // Before the number: a look that knows the commit does not take an older time for its own.
        self.committed_us.store(self.now_us(), SeqCst);
        self.commits.fetch_add(1, SeqCst);
        let rewound = wal_frames < before;
        if rewound
            || wal_frames >= self.wake_at_frames.load(SeqCst)
            || wal_frames >= self.shut_at_frames.load(SeqCst)
        {
            self.call(wal_frames, rewound);
        }
    }

    /// The rare half of [`committed`](Self::committed).
    #[cold]
    fn call(&self, wal_frames: u32, rewound: bool) {
        if rewound {
            self.rewinds.fetch_add(1, SeqCst);
        }
        self.wake_at_frames.store(NEVER, SeqCst);
        let mut state = self.lock();
        if wal_frames >= self.shut_at_frames.load(SeqCst) {
            state.closed = true;
        }
        state.called = true;
        drop(state);
        self.called.notify_one();
    }

    /// The state of this moment.
    pub(crate) fn look(&self) -> Look {
        let state = self.lock();
        let commits = self.commits.load(SeqCst);
        let committed_us = self.committed_us.load(SeqCst);
        Look {
            frames: self.frames.load(SeqCst),
            commits,
            quiet_for: Duration::from_micros(self.now_us().saturating_sub(committed_us)),
            rewinds: self.rewinds.load(SeqCst),
            shut: state.closed,
            stopping: state.stopping,
        }
    }

    fn now_us(&self) -> u64 {
        self.opened_at.elapsed().as_micros() as u64
    }

    /// The writer's waits here so far.
    pub(crate) fn held(&self) -> Held {
        self.lock().held
    }

    /// Lets the writer go on until the commit that reaches `shut_at_frames`, which closes
    /// the gate behind itself.
    ///
    /// `commits` is the number that the checkpointer knew when it chose that limit: if
    /// there were more meanwhile, the limit may have been reached already.
    pub(super) fn let_go(&self, shut_at_frames: u32, commits: u64) {
        let mut state = self.lock();
        self.shut_at_frames.store(shut_at_frames, SeqCst);
        let is_news = self.commits.load(SeqCst) != commits;
        state.closed = is_news && self.frames.load(SeqCst) >= shut_at_frames;
        if !state.closed {
            drop(state);
            self.opened.notify_all();
        }
    }

    /// The checkpointer sleeps until a commit brings the WAL to `wake_at_frames` or
    /// rewinds it, `at_most` is over or it is to stop. `commits` is the number at its
    /// last look.
    pub(super) fn sleep(&self, at_most: Option<Duration>, wake_at_frames: u32, commits: u64) {
        self.wake_at_frames.store(wake_at_frames, SeqCst);
        let mut state = self.lock();
        let reached = self.frames.load(SeqCst) >= wake_at_frames;
        if std::mem::take(&mut state.called) || reached && self.commits.load(SeqCst) != commits {
            return;
        }
        let nothing_to_do = |state: &mut State| !state.called && !state.stopping;
        let mut state = match at_most {
            Some(at_most) => {
                self.called
                    .wait_timeout_while(state, at_most, nothing_to_do)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
            None => {
                self.called.wait_while(state, nothing_to_do).unwrap_or_else(PoisonError::into_inner)
            }
        };
        state.called = false;
    }

    /// Closes the gate and waits until the group that is inside has ended.
    ///
    /// The writer loses nothing by that wait: it is at work. `None`: the checkpointer
    /// is to stop; the gate is open then.
    pub(super) fn close(&self) -> Option<ClosedGate<'_>> {
        let mut state = self.lock();
        state.closed = true;
        let mut state = self
            .called
            .wait_while(state, |state| state.groups > 0 && !state.stopping)
            .unwrap_or_else(PoisonError::into_inner);
        let free = state.groups == 0;
        state.called = false;
        drop(state);
        let closed = ClosedGate { gate: self };
        free.then_some(closed)
    }

    /// Closes the gate if no group is inside and nothing was committed since `commits`.
    pub(super) fn close_if_quiet(&self, commits: u64) -> Option<ClosedGate<'_>> {
        let mut state = self.lock();
        if state.groups > 0 || self.commits.load(SeqCst) != commits {
            return None;
        }
        state.closed = true;
        Some(ClosedGate { gate: self })
    }

    /// Tells the checkpointer to end; no writer waits at this gate any more.
    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.called.notify_one();
    }

    /// Opens the gate for good: no commit closes it any more.
    pub(super) fn open_for_good(&self) {
        self.let_go(NEVER, 0);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of the state is whole, so a panic elsewhere breaks nothing.
        lock(&self.state)
    }
}

/// A group of transactions under way; dropped after its end.
#[derive(Debug)]
#[must_use = "the checkpointer takes the group to have ended when this is dropped"]
pub(crate) struct GateGuard<'a> {
    gate: &'a Gate,
}

impl Drop for GateGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.groups -= 1;
        let last_before_close = state.closed && state.groups == 0;
        drop(state);
        if last_before_close {
            self.gate.called.notify_one();
        }
    }
}

/// No group begins as long as this lives.
#[derive(Debug)]
pub(super) struct ClosedGate<'a> {
    gate: &'a Gate,
}

impl ClosedGate<'_> {
    /// The WAL was copied whole and has no reader: the next commit begins at its start. The commit
    /// that reaches `shut_at_frames` then closes the gate again, also if the checkpointer does not
    /// get a turn before.
    pub(super) fn wal_rewinds(&self, shut_at_frames: u32) {
        self.gate.shut_at_frames.store(shut_at_frames, SeqCst);
    }

    /// The WAL was emptied: what is known of its length is out of date.
    pub(super) fn wal_is_empty(&self) {
        self.gate.frames.store(0, SeqCst);
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.gate.lock().closed = false;
        self.gate.opened.notify_all();
    }
}
