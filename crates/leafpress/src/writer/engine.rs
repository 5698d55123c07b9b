//! The engine: takes groups from the queue, has them committed, and hands out
//! the answers.
//!
//! ```text
//! queue ─► entries ─► those not cancelled ─► target.commit ─► answers ─► one wake-up for all
//! ```
//!
//! One thread at a time runs the engine: the writer's thread, or a caller that is waiting for its
//! own answer. So a caller that is alone pays for no change of threads, which takes longer than a
//! small commit without a sync.
//!
//! 1. One thread drives it at a time.
//! 2. A thread that leaves the engine looks at the queue once more, and wakes the writer's
//!    thread if a call waits. So no call is left behind by callers that found the engine
//!    busy.
//! 3. A caller that does its work itself (`alone.rs`) takes the next turn: threads that drive
//!    the engine again and again let it pass, or it might wait for ever.
//! 4. A caller's closure may fork. In the child nothing of the group is answered
//!    or dropped, and no lock is taken any more.
//!
//! Must never: hand out an answer before the target has returned, or stop while a caller waits.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::call::{Answer, Call};
use super::call_queue::{CallQueue, Grouping};
use super::caught::panicked;
use super::driving::{self, Phase};
use super::local::LocalCounts;
use super::stats::{Detours, GroupDone, Recorder};
use super::target::{CommitTarget, Group};
use super::ticket::Entry;
use crate::error::{Error, ErrorKind, Result};
use crate::fork::Process;
use crate::sync::lock;

/// A group waits for the callers of the last group. It waits no longer than that group's COMMIT
/// took, as a second commit would cost as much, and never longer than this.
const GATHER_MAX: Duration = Duration::from_millis(2);

/// The target of the groups, and the state that is kept from one group to the next.
pub(super) struct Engine {
    /// The process that the engine belongs to.
    process: Process,
    /// Present until the writer's thread has closed it.
    target: Option<Box<dyn CommitTarget>>,
    grouping: Grouping,
    queue: Arc<CallQueue>,
    recorder: Arc<Recorder>,
    counts: Option<Arc<LocalCounts>>,
    work: Work,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("grouping", &self.grouping).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine for the calls of `queue`.
    pub(super) fn new(
        target: Box<dyn CommitTarget>,
        grouping: Grouping,
        queue: Arc<CallQueue>,
        recorder: Arc<Recorder>,
        counts: Option<Arc<LocalCounts>>,
    ) -> Self {
        let (process, target) = (Process::current(), Some(target));
        let work = Work::new(&queue);
        Self { process, target, grouping, queue, recorder, counts, work }
    }

    /// Commits the next group, if calls wait.
    pub(super) fn commit_next(&mut self) {
        driving::begin(self.process, Phase::CarryingOut);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let Work { expected, gather_max, entries, .. } = &mut self.work;
            if !self.queue.take(self.grouping, *expected, *gather_max, entries) {
                return Ok(());
            }
            self.commit()
        }));
        if !self.process.is_current() {
            driving::end();
            let work = Work::new(&self.queue);
            std::mem::forget(std::mem::replace(&mut self.work, work));
            return;
        }
        let reason = match outcome {
            Ok(Ok(())) => {
                driving::end();
                return;
            }
            Ok(Err(reason)) => reason,
            Err(panic) => reason_of(panic, self.counts.is_some()),
        };
        tracing::error!(%reason, "the writer stops");
        self.queue.stop(&reason);
        // Entries that are left answer for themselves when they are dropped.
        self.work = Work::new(&self.queue);
        // Closures were dropped up to here, and with them perhaps the last clone of the writer.
        driving::end();
    }

    /// Commits the taken calls and answers them.
    fn commit(&mut self) -> Result<(), String> {
        let Self { process, target, queue, recorder, counts, work, .. } = self;
        let Some(target) = target else { return Err("it was closed".to_owned()) };
        let taken = work.entries.len();
        Entry::begin_all(&mut work.entries);
        work.detours.cancelled += (taken - work.entries.len()) as u64;
        if work.entries.is_empty() {
            return Ok(());
        }
        work.group.clear();
        work.submitted.clear();
        for entry in &mut work.entries {
            work.submitted.push(entry.submitted);
            let call = entry.take_call();
            work.group.push(call, entry.number(), entry.limit);
        }
        let begun = Instant::now();
        let outcome = target.commit(&mut work.group);
        if !process.is_current() {
            return Ok(());
        }
        if let Err(reason) = &outcome {
            // A caller that gets an answer must find the writer stopped.
            queue.fail(reason);
        }
        driving::begin(*process, Phase::Answering);
        let answered = Instant::now();
        let commit = work.count(counts.as_deref(), answered - begun);
        let failed = work.answer();
        queue.interrupts().forget_asked();
        let done = work.done(counts.as_deref(), failed, begun, commit, answered);
        recorder.group_committed(&done, work.submitted.iter().copied());
        tracing::trace!(calls = work.submitted.len(), failed, ?commit, "group committed");
        work.expected = worth_waiting_for(work.submitted.len(), answered - begun, commit);
        work.gather_max = commit.min(GATHER_MAX);
        outcome
    }

    /// Commits the groups of the calls that wait now, for a caller that comes after them.
    ///
    /// # Errors
    /// In a child of `fork`, if one of these calls has forked.
    fn catch_up(&mut self) -> Result<()> {
        let ours = self.queue.new_number();
        while self.queue.has_earlier(ours) {
            self.commit_next();
            self.process.check("writer")?;
        }
        Ok(())
    }

    /// The target, if work that does not go through the queue may be done now.
    fn open_target(&mut self) -> Result<&mut Box<dyn CommitTarget>> {
        if let Some(reason) = self.queue.closed() {
            return Err(Error::stopped(reason));
        }
        self.target.as_mut().ok_or_else(|| Error::stopped("it was closed"))
    }

    /// Commits one call that does not go through the queue, after those that wait now, in a
    /// group of its own. The caller's thread is this one.
    pub(super) fn commit_alone(
        &mut self,
        call: Call<'_>,
        limit: Option<Duration>,
    ) -> Result<Answer> {
        self.catch_up()?;
        self.commit_before_others(call, limit)
    }

    /// As [`commit_alone`](Self::commit_alone), and before the calls that wait now.
    pub(super) fn commit_before_others(
        &mut self,
        call: Call<'_>,
        limit: Option<Duration>,
    ) -> Result<Answer> {
        let (process, submitted) = (self.process, Instant::now());
        let (queue, number) = (Arc::clone(&self.queue), self.queue.new_number());
        let target = self.open_target()?;
        let mut group = Group::interrupted_by(Arc::clone(queue.interrupts()));
        group.push(call, number, limit);
        driving::begin(process, Phase::CarryingOut);
        let outcome = catch_unwind(AssertUnwindSafe(|| target.commit(&mut group)));
        if let Err(forked) = process.check("writer") {
            driving::end();
            std::mem::forget(group);
            return Err(forked.into());
        }
        let is_local = self.counts.is_some();
        let outcome = outcome.unwrap_or_else(|panic| Err(reason_of(panic, is_local)));
        if let Err(reason) = &outcome {
            tracing::error!(%reason, "the writer stops");
            queue.stop(reason);
        }
        driving::begin(process, Phase::Answering);
        queue.interrupts().forget_asked();
        let answer = group.take_answers().next().map(|(answer, _)| answer);
        let answer = answer.unwrap_or_else(|| Err(Error::unknown_outcome("it has no answer")));
        let answered = Instant::now();
        let commit = self.work.count(self.counts.as_deref(), answered - submitted);
        let (counts, failed) = (self.counts.as_deref(), u64::from(answer.is_err()));
        let done = self.work.done(counts, failed, submitted, commit, answered);
        self.recorder.group_committed(&done, std::iter::once(submitted));
        drop(group);
        driving::end();
        answer
    }

    /// Does work on the target that is no group, after the calls that wait now.
    pub(super) fn between_groups(
        &mut self,
        work: impl FnOnce(&mut dyn CommitTarget) -> Result<()>,
    ) -> Result<()> {
        self.catch_up()?;
        let (process, queue) = (self.process, Arc::clone(&self.queue));
        let (interrupts, number) = (queue.interrupts(), queue.new_number());
        let target = self.open_target()?;
        driving::begin(process, Phase::CarryingOut);
        let run = || interrupts.begin(number, None).and_then(|()| work(&mut **target));
        let done = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let reason = reason_of(panic, self.counts.is_some());
            queue.stop(&reason);
            Err(Error::stopped(reason))
        });
        interrupts.end();
        interrupts.forget_asked();
        driving::end();
        done
    }
}

/// Reason why a writer stops whose target has panicked. Only a target that is not local may be a
/// caller's code.
fn reason_of(panic: Box<dyn Any + Send>, is_local: bool) -> String {
    let error = panicked(panic);
    match error.kind() {
        ErrorKind::Panicked { message } if !is_local => {
            format!("the target of the writer panicked: {message}")
        }
        _ => "the writer panicked, which is a bug in leafpress".to_owned(),
    }
}

/// End of a writer, and its outcome for all callers that close it.
#[derive(Default)]
pub(super) struct End {
    outcome: Mutex<Option<Result<()>>>,
    told: Condvar,
    /// The rest of the shutdown, left to the caller that closes a writer which had stopped: until
    /// then its readers go on.
    rest: Mutex<Option<ShutDown>>,
    /// True if no caller waits for it.
    is_left_alone: AtomicBool,
    /// True once no call runs any more, and the database is being closed.
    is_closing: AtomicBool,
}

impl End {
    /// Waits until the writer's thread has ended, at most for `limit`; `None` if it has not.
    pub(super) fn wait(&self, limit: Option<Duration>) -> Option<Result<()>> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut outcome = lock(&self.outcome);
        loop {
            if let Some(outcome) = &*outcome {
                return Some(outcome.as_ref().copied().map_err(Error::again));
            }
            let Some(deadline) = deadline else {
                outcome = self.told.wait(outcome).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let woken = self.told.wait_timeout(outcome, left);
            outcome = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets the thread end by itself, and log its errors.
    pub(super) fn leave_alone(&self) {
        self.is_left_alone.store(true, Ordering::Relaxed);
        self.shut_down_rest();
    }

    /// Runs the rest of the shutdown, if it was left to the caller.
    pub(super) fn shut_down_rest(&self) {
        let rest = lock(&self.rest).take();
        if let Some(Err(error)) = rest.map(|shut_down| shut_down()) {
            tracing::error!(%error, "closing the writer failed");
        }
    }

    /// Runs the rest of the shutdown as [`shut_down_rest`](Self::shut_down_rest), and waits for it
    /// until `deadline` at most. After that it goes on by itself.
    pub(super) fn shut_down_rest_until(self: &Arc<Self>, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return self.shut_down_rest() };
        if lock(&self.rest).is_none() {
            return;
        }
        let (done, is_done) = channel();
        let end = Arc::clone(self);
        let run = move || {
            end.shut_down_rest();
            // The caller may have gone on at the deadline.
            let _ = done.send(());
        };
        match Builder::new().name("leafpress-closing".to_owned()).spawn(run) {
            Ok(_) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let _ = is_done.recv_timeout(left);
            }
            Err(_) => self.shut_down_rest(),
        }
    }

    /// Returns true if no call runs any more, and the database is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Leaves the rest to the caller that closes the writer, or ends it if there is none.
    fn leave_rest(&self, shut_down: ShutDown) {
        let mut rest = lock(&self.rest);
        *rest = Some(shut_down);
        drop(rest);
        if self.is_left_alone() {
            self.shut_down_rest();
        }
    }

    /// Returns true if the thread ends by itself.
    pub(super) fn is_left_alone(&self) -> bool {
        self.is_left_alone.load(Ordering::Relaxed)
    }

    fn tell(&self, outcome: Result<()>) {
        if let (Err(error), true) = (&outcome, self.is_left_alone()) {
            tracing::error!(%error, "closing the writer failed");
        }
        *lock(&self.outcome) = Some(outcome);
        self.told.notify_all();
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}

/// Ends the readers and checkpoints of the database.
pub(super) type ShutDown = Box<dyn FnOnce() -> Result<()> + Send>;

/// Starts the writer's thread. It ends once the queue is closed and empty, closes the target and
/// then the rest, and gives `end` the outcome.
pub(super) fn start_thread(
    engine: Arc<Mutex<Engine>>,
    queue: Arc<CallQueue>,
    end: Arc<End>,
    shut_down: ShutDown,
) -> Result<JoinHandle<()>> {
    let process = Process::current();
    let run = move || {
        while queue.wait() {
            queue.let_pass();
            lock(&engine).commit_next();
            if !process.is_current() {
                // A closure has forked. In the child only this thread ends.
                std::mem::forget((engine, queue, end, shut_down));
                return;
            }
        }
        // Closed before the checkpointer: the last connection that closes a database tidies up.
        let (target, is_local) = {
            let mut engine = lock(&engine);
            (engine.target.take(), engine.counts.is_some())
        };
        end.is_closing.store(true, Ordering::Relaxed);
        let closing = || {
            let closed = target.map_or(Ok(()), |mut target| target.close());
            if queue.failure().is_some() {
                end.leave_rest(shut_down);
                return closed;
            }
            closed.and(shut_down())
        };
        let outcome = catch_unwind(AssertUnwindSafe(closing)).unwrap_or_else(|panic| {
            if is_local {
                return Err(Error::bug("closing the writer panicked"));
            }
            Err(Error::stopped(reason_of(panic, is_local)))
        });
        end.tell(queue.failure().map_or(outcome, |reason| Err(stopped_before(reason))));
    };
    Builder::new()
        .name("leafpress-writer".to_owned())
        .spawn(run)
        .map_err(|source| Error::no_thread("for the writer", source))
}

/// The error of closing a writer that had stopped before.
fn stopped_before(reason: String) -> Error {
    Error::from(ErrorKind::Stopped { reason })
        .on_disk(
            "what was answered with success; if the database was moved, in the file that was moved",
        )
        .to_do("fix what it names, drop the readers, and open the writer again")
}

/// The engine, if no other thread has it.
pub(super) fn try_lock(engine: &Mutex<Engine>) -> Option<MutexGuard<'_, Engine>> {
    match engine.try_lock() {
        Ok(engine) => Some(engine),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Drives the engine until `is_answered`; leaves at once if another thread drives it.
pub(super) fn help(engine: &Mutex<Engine>, queue: &CallQueue, is_answered: impl Fn() -> bool) {
    let process = Process::current();
    while !driving::is_driving() && !is_answered() {
        if queue.has_turn_taken() {
            // The thread whose turn it is wakes the writer's thread before it leaves.
            return;
        }
        // The thread that drives the engine looks at the queue again before it leaves.
        let Some(mut engine) = try_lock(engine) else { return };
        engine.commit_next();
        drop(engine);
        if !process.is_current() {
            return;
        }
        queue.wake_thread();
    }
}

/// Number of calls that the next group waits for: as many as the last one had, but no more than
/// take twice as long to carry out as to commit. With those, the callers and the thread that
/// carries them out lose more by waiting for each other than a larger group saves.
fn worth_waiting_for(calls: usize, whole: Duration, commit: Duration) -> usize {
    if calls < 2 {
        return calls;
    }
    let carrying_out = whole.saturating_sub(commit).as_nanos().max(1);
    let enough = 2 * commit.as_nanos() * calls as u128 / carrying_out;
    usize::try_from(enough).map_or(calls, |enough| calls.min(enough))
}

/// Buffers and measures that are kept from group to group.
struct Work {
    entries: Vec<Entry>,
    submitted: Vec<Instant>,
    group: Group<'static>,
    expected: usize,
    gather_max: Duration,
    detours: Detours,
}

impl Work {
    fn new(queue: &CallQueue) -> Self {
        Self {
            entries: Vec::new(),
            submitted: Vec::new(),
            group: Group::interrupted_by(Arc::clone(queue.interrupts())),
            expected: 0,
            gather_max: Duration::ZERO,
            detours: Detours::default(),
        }
    }

    /// Adds the counts of the target; returns the duration of COMMIT.
    fn count(&mut self, counts: Option<&LocalCounts>, whole: Duration) -> Duration {
        let Some(counts) = counts else { return whole };
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        self.detours.rolled_back += take(&counts.rolled_back);
        self.detours.calls_replayed += take(&counts.calls_replayed);
        self.detours.busy_waits += take(&counts.busy_waits);
        Duration::from_nanos(take(&counts.commit_ns))
    }

    /// Measures of a group that is committed. The counts of detours start anew.
    fn done(
        &mut self,
        counts: Option<&LocalCounts>,
        failed: u64,
        begun: Instant,
        commit: Duration,
        answered: Instant,
    ) -> GroupDone {
        let wal_bytes = counts.map_or(0, |counts| counts.wal_bytes.load(Ordering::Relaxed));
        let detours = std::mem::take(&mut self.detours);
        GroupDone { failed, begun, commit, answered, wal_bytes, detours }
    }

    /// Hands out the answers and wakes those who wait for them; returns the number of errors.
    fn answer(&mut self) -> u64 {
        self.group.drop_closures();
        let mut failed = 0;
        let answers = self.group.take_answers().inspect(|(answer, _)| {
            failed += u64::from(answer.is_err());
        });
        Entry::answer_all(&mut self.entries, answers);
        failed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;
    use crate::writer::Writer;

    /// A target that is closed once the test says so.
    struct SlowToClose(Receiver<()>);

    impl CommitTarget for SlowToClose {
        fn commit(&mut self, group: &mut Group<'_>) -> Result<(), String> {
            for index in 0..group.len() {
                group.answer(index, Ok(Answer::Done));
            }
            Ok(())
        }

        fn close(&mut self) -> Result<()> {
            self.0.recv().map_err(|_| Error::misuse("the test is gone"))
        }
    }

    /// A target that panics.
    struct Panicking;

    impl CommitTarget for Panicking {
        fn commit(&mut self, _group: &mut Group<'_>) -> Result<(), String> {
            panic!("no quorum");
        }
    }

    #[test]
    fn a_writer_whose_target_panicked_says_so() {
        let writer = Writer::with_target(Panicking, 10).unwrap();
        let error = writer.execute_batch("SELECT 1").unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        let error = writer.execute_batch("SELECT 1").unwrap_err();
        let ErrorKind::Stopped { reason } = error.kind() else { panic!("{error}") };
        assert_eq!(reason, "the target of the writer panicked: no quorum");
    }

    /// No call runs then, so the error must not name one.
    #[test]
    fn closing_within_a_limit_says_that_the_last_checkpoint_goes_on() {
        let (go_on, may_go_on) = channel();
        let writer = Writer::with_target(SlowToClose(may_go_on), 10).unwrap();
        writer.execute_batch("SELECT 1").unwrap();
        let error = writer.close_timeout(Duration::from_millis(10)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut { .. }), "{error}");
        let state = error.state_on_disk().unwrap();
        assert!(state.contains("until the last checkpoint is done"), "{error}");
        assert!(!state.contains("the call that runs"), "{error}");
        go_on.send(()).unwrap();
    }

    #[test]
    fn the_rest_of_a_shutdown_is_waited_for_until_a_deadline() {
        let (go_on, may_go_on) = channel::<()>();
        let (done, is_done) = channel();
        let end = Arc::<End>::default();
        end.leave_rest(Box::new(move || {
            may_go_on.recv().unwrap();
            done.send(()).unwrap();
            Ok(())
        }));
        end.shut_down_rest_until(Instant::now().checked_add(Duration::from_millis(10)));
        assert!(is_done.try_recv().is_err(), "it still goes on");
        go_on.send(()).unwrap();
        is_done.recv().unwrap();
    }
}
