//! The writer's thread: takes groups from the queue, has them committed, and
//! hands out the answers.
//!
//! ```text
//! queue ─► entries ─► those not cancelled ─► target.commit ─► answers ─► one wake-up for all
//! ```
//!
//! Must never: hand out an answer before the target has returned, or end while
//! somebody waits.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::local::LocalCounts;
use super::queue::{CallQueue, Grouping};
use super::stats::{Detours, GroupDone, Recorder};
use super::target::{CommitTarget, Group};
use super::ticket::Entry;
use crate::error::{Error, Result};

/// A group waits no longer for those who were in the last one than this part of
/// the time that a commit takes: what it costs is little beside what a second
/// commit would.
const GATHER_PART: u32 = 4;
const GATHER_MAX: Duration = Duration::from_millis(2);

thread_local! {
    static IS_WRITER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is a writer's thread: what waits for an answer here, waits for
/// ever.
pub(super) fn is_writer() -> bool {
    IS_WRITER.get()
}

/// What the thread works with.
pub(super) struct Parts {
    pub(super) target: Box<dyn CommitTarget>,
    pub(super) grouping: Grouping,
    pub(super) queue: Arc<CallQueue>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) counts: Option<Arc<LocalCounts>>,
}

/// Starts it. It ends once the queue is closed and empty, and says how the
/// target was closed.
pub(super) fn start(parts: Parts) -> Result<JoinHandle<Result<()>>> {
    Builder::new().name("leafpress-writer".to_owned()).spawn(move || run(parts)).map_err(|source| {
        Error::usage(format!("the system has no thread for the writer: {source}"))
    })
}

fn run(mut parts: Parts) -> Result<()> {
    IS_WRITER.set(true);
    let mut loop_state = Loop::default();
    let queue = Arc::clone(&parts.queue);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        while queue.take(
            parts.grouping,
            loop_state.expected,
            loop_state.gather_max,
            &mut loop_state.entries,
        ) {
            if let Err(reason) = loop_state.commit(&mut parts) {
                tracing::error!(%reason, "the writer stops");
                queue.stop(&reason);
            }
        }
        parts.target.close()
    }));
    // Entries that are left in `loop_state` answer for themselves as they go.
    drop(loop_state);
    outcome.unwrap_or_else(|_| {
        let reason = "the writer's thread panicked, which is a bug in leafpress";
        queue.stop(reason);
        Err(Error::stopped(reason))
    })
}

/// What is kept from group to group.
#[derive(Default)]
struct Loop {
    entries: Vec<Entry>,
    submitted: Vec<Instant>,
    group: Group,
    expected: usize,
    gather_max: Duration,
    detours: Detours,
}

impl Loop {
    /// Commits what was taken and answers it.
    fn commit(&mut self, parts: &mut Parts) -> Result<(), String> {
        let taken = self.entries.len();
        self.entries.retain_mut(Entry::begin);
        self.detours.cancelled += (taken - self.entries.len()) as u64;
        if self.entries.is_empty() {
            return Ok(());
        }
        self.group.clear();
        self.submitted.clear();
        for entry in &mut self.entries {
            self.submitted.push(entry.submitted);
            self.group.push(entry.take_call());
        }
        let begun = Instant::now();
        let outcome = parts.target.commit(&mut self.group);
        if let Err(reason) = &outcome {
            // Whoever is answered must find the writer stopped.
            parts.queue.close(reason);
        }
        let answered = Instant::now();
        let commit = self.count(parts, answered - begun);
        let failed = self.answer();
        let wal_bytes =
            parts.counts.as_ref().map_or(0, |counts| counts.wal_bytes.load(Ordering::Relaxed));
        let detours = std::mem::take(&mut self.detours);
        let done = GroupDone { failed, begun, commit, answered, wal_bytes, detours };
        parts.recorder.group_committed(&done, self.submitted.iter().copied());
        tracing::trace!(calls = self.submitted.len(), failed, ?commit, "group committed");
        self.expected = self.submitted.len();
        self.gather_max = ((answered - begun) / GATHER_PART).min(GATHER_MAX);
        outcome
    }

    /// Takes over what the target counted; how long COMMIT took.
    fn count(&mut self, parts: &Parts, whole: Duration) -> Duration {
        let Some(counts) = &parts.counts else { return whole };
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        self.detours.rolled_back += take(&counts.rolled_back);
        self.detours.calls_replayed += take(&counts.calls_replayed);
        self.detours.busy_waits += take(&counts.busy_waits);
        Duration::from_nanos(take(&counts.commit_ns))
    }

    /// Hands out the answers, then wakes those who wait; how many failed.
    fn answer(&mut self) -> u64 {
        let mut failed = 0;
        for (entry, answer) in self.entries.iter_mut().zip(self.group.take_answers()) {
            failed += u64::from(answer.is_err());
            entry.answer(answer);
        }
        let mut last = None;
        for entry in self.entries.drain(..) {
            let event = entry.event();
            // Neighbours nearly always wait on the same.
            if !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, event)) {
                event.notify();
                last = Some(Arc::clone(event));
            }
        }
        failed
    }
}
