//! A log that the writers of several processes share, as their checkpointers see it.
//!
//! One of these checkpointers works, for all. The others only ask now and then whether they are to
//! take over. The one that works learns from the others' commits how long the log has become. It
//! stands in the line of the writers before it takes SQLite's write lock, and does not close its
//! gate for longer than that: a gate holds one process only.
//!
//! Must never: be needed for safety. SQLite's locks keep two checkpoints apart.

use std::fmt::Debug;
use std::time::Duration;

/// Time after which a checkpointer that does not work asks again.
pub(super) const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Such a time while the log has reached its bound.
pub(super) const ASK_AGAIN_AT_THE_BOUND_AFTER: Duration = Duration::from_millis(20);
/// Time after which a checkpointer helps the one that works, if the log stays at twice its bound.
/// That process may have been stopped. Two that work at once stand in one another's way.
pub(super) const HELP_AFTER: Duration = Duration::from_secs(5);

/// The log at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogState {
    /// Frames after the last commit of any writer.
    pub(crate) frames: u32,
    /// A number that grows with each commit.
    pub(crate) commits: u64,
    /// Commits that found the log shorter than the one before.
    pub(crate) rewinds: u32,
}

/// A log that the writers of several processes share, as their checkpointers see it.
pub(crate) trait CommonLog: Debug + Send + Sync {
    /// Returns true if this checkpointer is the one that works. It is as soon as no other one is.
    fn is_ours(&self) -> bool;

    /// The log now.
    fn state(&self) -> LogState;

    /// The value of the log's wake word, to be read before [`state`](Self::state).
    fn wake_word(&self) -> u32;

    /// Sleeps until the log has `wake_at_frames`, is rewound, or [`wake`](Self::wake) was called
    /// since the wake word was read as `seen`; `at_most` for that long.
    fn sleep(&self, seen: u32, at_most: Option<Duration>, wake_at_frames: u32);

    /// Changes the wake word, and wakes the checkpointer that sleeps on it.
    fn wake(&self);

    /// Waits for the writers that came before, and for the lock in
    /// [`wait_at_lock`](Self::wait_at_lock), `at_most` for that long.
    fn line_up(&self, at_most: Duration);

    /// Waits a little while a writer has the lock; false if none has it, or after the time that
    /// [`line_up`](Self::line_up) was given.
    fn wait_at_lock(&self) -> bool;

    /// Lets the next one in the line go on.
    fn leave_line(&self);

    /// Notes that the log was cut to nothing, if there was no commit since `commits`.
    fn note_emptied(&self, commits: u64);

    /// Returns true if no other writer has joined.
    fn is_last(&self) -> bool;

    /// Tells all that a sync has failed: none may copy or commit any more.
    fn sync_failed(&self);

    /// Returns true if a sync has failed in any process.
    fn has_failed(&self) -> bool;
}
