//! The log's length, told by each member after its commits, for the one that makes the checkpoints.
//!
//! The turns are counted while SQLite's write lock is held, so they have its order, though members
//! tell of their commits after the lock is free.
//!
//! Must never: cost a commit more than some atomics, unless the checkpointer waits for just this one.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Sharing, wake_word};
use crate::checkpoint::{CommonLog, LogState};
use crate::sync::lock;

/// Bits for the frames, below those for the turn: 64 GB of the usual pages, and a thousand billion
/// turns. A longer log is noted with [`FRAMES_MAX`].
const FRAME_BITS: u32 = 24;
const FRAMES_MAX: u64 = (1 << FRAME_BITS) - 1;
/// Longest sleep at the lock, or for work, before another look.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const WORK_WITHIN: Duration = Duration::from_secs(60);

impl Sharing {
    /// Counts a turn. SQLite's write lock is ours.
    pub(super) fn count_turn(&self) {
        self.turn.store(self.page.turns().fetch_add(1, AcqRel).wrapping_add(1), Relaxed);
    }

    /// Tells how long the log is after the commit of the last turn.
    pub(crate) fn committed(&self, frames: u32) {
        let ours = packed(self.turn.load(Relaxed), frames);
        let before = self.page.log().fetch_max(ours, SeqCst);
        if before >= ours {
            return;
        }
        let has_rewound = frames_of(ours) < frames_of(before);
        if has_rewound {
            self.page.rewinds().fetch_add(1, SeqCst);
        }
        if has_rewound || frames_of(ours) >= self.page.copy_at().load(SeqCst) {
            self.page.copy_at().store(u64::MAX, SeqCst);
            wake_word::wake(self.page.copy_wake_word());
        }
    }
}

fn packed(turn: u64, frames: u32) -> u64 {
    turn << FRAME_BITS | u64::from(frames).min(FRAMES_MAX)
}

fn frames_of(packed: u64) -> u64 {
    packed & FRAMES_MAX
}

/// The log, for the checkpointer of one member.
#[derive(Debug)]
pub(crate) struct LogOfMembers {
    sharing: Arc<Sharing>,
    /// End of the wait for the write lock, while the checkpointer is in the line.
    in_line_until: Mutex<Option<Instant>>,
}

impl LogOfMembers {
    pub(crate) fn new(sharing: Arc<Sharing>) -> Self {
        Self { sharing, in_line_until: Mutex::default() }
    }
}

impl CommonLog for LogOfMembers {
    fn is_ours(&self) -> bool {
        let ours = &self.sharing.makes_checkpoints;
        if !ours.load(Relaxed) && self.sharing.membership.take_checkpoints() {
            ours.store(true, Relaxed);
        }
        ours.load(Relaxed)
    }

    fn state(&self) -> LogState {
        let (log, rewinds) = (self.sharing.page.log(), self.sharing.page.rewinds());
        let rewinds = rewinds.load(SeqCst) as u32;
        let log = log.load(SeqCst);
        LogState { frames: frames_of(log) as u32, commits: log >> FRAME_BITS, rewinds }
    }

    fn wake_word(&self) -> u32 {
        wake_word::read(self.sharing.page.copy_wake_word())
    }

    fn sleep(&self, seen: u32, at_most: Option<Duration>, wake_at_frames: u32) {
        let page = &self.sharing.page;
        let before = page.log().load(SeqCst);
        page.copy_at().store(u64::from(wake_at_frames), SeqCst);
        if page.log().load(SeqCst) == before {
            wake_word::sleep(page.copy_wake_word(), seen, at_most.unwrap_or(WORK_WITHIN));
        }
    }

    fn wake(&self) {
        wake_word::wake(self.sharing.page.copy_wake_word());
    }

    fn line_up(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        *lock(&self.in_line_until) = Some(until);
        self.sharing.line_up(|| Instant::now() < until);
    }

    fn wait_at_lock(&self) -> bool {
        let goes_on = lock(&self.in_line_until).is_some_and(|until| Instant::now() < until);
        if !goes_on || self.sharing.holder().is_none() {
            return false;
        }
        self.sharing.wait_at_lock(LOOK_EVERY);
        true
    }

    fn leave_line(&self) {
        *lock(&self.in_line_until) = None;
        self.sharing.leave_line();
    }

    fn note_emptied(&self, commits: u64) {
        let log = self.sharing.page.log();
        let now = log.load(Acquire);
        if now >> FRAME_BITS == commits {
            let _ = log.compare_exchange(now, commits << FRAME_BITS, AcqRel, Relaxed);
        }
    }

    fn is_last(&self) -> bool {
        self.sharing.membership.members() == 1
    }

    fn sync_failed(&self) {
        self.sharing.sync_failed();
    }

    fn has_failed(&self) -> bool {
        self.sharing.page.is_broken()
    }
}
