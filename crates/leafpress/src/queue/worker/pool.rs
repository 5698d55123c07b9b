//! Threads of a worker: one that claims, those that run handlers, and their shared state.
//!
//! Stands between the queue and the handlers. The thread that called `run`
//! claims, as many jobs as handlers are idle in one call, and waits for the
//! queue's wake-ups while there are none. Must never: hold the lock while the
//! database or a handler is at work.
//!
//! 1. The thread that takes a job out of `running` settles and counts it, and no other does.
//! 2. `busy` handlers have a job, from the claim until it is settled.
//! 3. Every change that a thread waits for is made under the lock, and then signalled.
//! 4. A handler may fork, and so may a caller's closure that runs inside of a claim. A
//!    child that comes back from there ends: the pool's threads are not there, so
//!    that there is nothing to come back to ([`Pool::lock`]).

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::source::{Settled, WorkerQueue};
use super::{JobContext, Outcome, Stop, WorkReport, Worker, keeper};
use crate::error::{Error, ErrorKind, Result};
use crate::fork::Process;
use crate::queue::elsewhere::QueueElsewhere;
use crate::queue::wakeup::{WaitEnder, Waiter, Woken};
use crate::queue::{Claim, ClaimOptions, Queue, Token};
use crate::sync::lock;
use crate::words::panic_text;

/// The pauses after an answer that another connection holds the database: the first, and the
/// longest. The writer may be told not to wait, and then a thread without them would spin.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(200);

pub(super) struct Pool {
    process: Process,
    pub(super) queue: WorkerQueue,
    pub(super) lease: Duration,
    worker: Worker,
    stop: Stop,
    state: Mutex<State>,
    /// Wakes handlers: a job waits, or the work ends.
    job_came: Condvar,
    /// Wakes the keepers of the leases: there is a new lease, or the work ends.
    lease_came: Condvar,
    /// Wakes the claiming thread: a handler is idle, a stop was asked for, or there is a failure.
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    /// Claimed jobs, for the next idle handlers.
    waiting: VecDeque<Arc<JobContext>>,
    /// Claimed jobs that are not being settled, by job and claim.
    pub(super) running: BTreeMap<Token, Running>,
    busy: usize,
    failure: Option<Error>,
    report: WorkReport,
    /// Wakes the claiming thread from its wait for jobs.
    wait_ender: Option<WaitEnder>,
    pub(super) is_over: bool,
    /// The moment since when a call extends leases, or fails to.
    pub(super) extending_since: Option<Instant>,
}

pub(super) struct Running {
    context: Arc<JobContext>,
    pub(super) extended_at: Instant,
}

/// Guard that ends the threads, also if the claiming thread panics.
struct End<'a>(&'a Pool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.job_came.notify_all();
        self.0.lease_came.notify_all();
    }
}

impl Pool {
    pub(super) fn new(worker: &Worker, lease: Duration, stop: &Stop) -> Arc<Self> {
        Arc::new(Self {
            process: Process::current(),
            queue: worker.queue.clone(),
            lease,
            worker: worker.clone(),
            stop: stop.clone(),
            state: Mutex::default(),
            job_came: Condvar::new(),
            lease_came: Condvar::new(),
            changed: Condvar::new(),
        })
    }

    /// Runs handlers until it is stopped, an error occurs or, if the worker is to end then, the queue
    /// is empty; then waits for the handlers that still run.
    pub(super) fn run<H>(self: &Arc<Self>, handler: &H) -> Result<(WorkReport, Option<Error>)>
    where
        H: Fn(&JobContext) -> Outcome + Send + Sync,
    {
        let pool = Arc::clone(self);
        let _registration = self.stop.on_stop(move || pool.wake())?;
        thread::scope(|scope| {
            let end = End(self);
            let spawned = self.spawn(scope, handler);
            if let Err(error) = spawned.and_then(|()| self.claim_jobs()) {
                self.fail(error);
            }
            self.wait_for_handlers();
            drop(end);
        });
        let mut state = self.lock();
        Ok((state.report, state.failure.take()))
    }

    fn spawn<'scope, H>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        handler: &'scope H,
    ) -> Result<()>
    where
        H: Fn(&JobContext) -> Outcome + Send + Sync,
    {
        let thread = |name: &str| thread::Builder::new().name(format!("leafpress-{name}"));
        let none = |source| Error::no_thread("for a worker", source);
        thread("leases").spawn_scoped(scope, || keeper::keep(self)).map_err(none)?;
        thread("lease-ends").spawn_scoped(scope, || keeper::watch(self)).map_err(none)?;
        for _ in 0..self.worker.concurrency {
            thread("job").spawn_scoped(scope, || self.handle_jobs(handler)).map_err(none)?;
        }
        Ok(())
    }

    /// Claims for the idle handlers, until there is a reason to end.
    fn claim_jobs(&self) -> Result<()> {
        let mut waiter: Option<Waiter> = None;
        let mut pause = PAUSE_MIN;
        while let Some(jobs_max) = self.wait_for_idle() {
            let mut options = ClaimOptions::new().jobs_max(jobs_max).lease(self.lease);
            if let Some(name) = &self.worker.name {
                options = options.worker(name);
            }
            let busy_before = self.lock().busy;
            // The lease begins within the call, which may take long to commit.
            let asked_at = Instant::now();
            let found = match self.queue.look(&options) {
                Err(error) if is_busy(&error) => {
                    self.pause_unless_ended(&mut pause);
                    continue;
                }
                other => other?,
            };
            pause = PAUSE_MIN;
            if found.is_cut_short {
                continue;
            }
            if !found.claims.is_empty() {
                if let Some(mut waiter) = waiter.take() {
                    waiter.found();
                }
                self.hand_out(found.claims, asked_at);
            } else if self.worker.until_empty && busy_before == 0 {
                break;
            } else {
                match &self.queue {
                    WorkerQueue::Local(queue) => {
                        self.wait_for_jobs(queue, &mut waiter, found.next_due_ms)?;
                    }
                    WorkerQueue::Elsewhere(queue) => self.look_until_jobs(&**queue, busy_before)?,
                }
            }
        }
        Ok(())
    }

    /// Waits for a wake-up; the first time it only asks for one.
    fn wait_for_jobs(
        &self,
        queue: &Queue,
        waiter: &mut Option<Waiter>,
        next_due_ms: Option<i64>,
    ) -> Result<()> {
        if let Some(waiter) = waiter {
            return match waiter.wait(next_due_ms, None) {
                Woken::Look | Woken::TimedOut => Ok(()),
                Woken::Closed => Err(Error::stopped("it was closed")),
            };
        }
        // From here on no wake-up is missed, so it looks once more.
        let ours = queue.session.get()?.wake_ups().waiter(&queue.name)?;
        self.lock().wait_ender = Some(ours.wait_ender());
        *waiter = Some(ours);
        Ok(())
    }

    /// Looks again and again until there may be a job, or it may be time to end: if the worker is to
    /// end with the last job, once fewer than `busy` handlers have one.
    fn look_until_jobs(&self, queue: &dyn QueueElsewhere, busy: usize) -> Result<()> {
        loop {
            let state = self.lock();
            let may_be_last = self.worker.until_empty && state.busy < busy;
            if state.failure.is_some() || self.stop.is_asked() || may_be_last {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, queue.pause());
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            if queue.may_have_jobs()? {
                return Ok(());
            }
        }
    }

    /// Waits until jobs may be claimed, and returns their number; `None` if it is time to end.
    fn wait_for_idle(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            let left = self.worker.jobs_max.map(|max| max.saturating_sub(state.report.claimed));
            if state.failure.is_some() || self.stop.is_asked() || left == Some(0) {
                return None;
            }
            let idle = self.worker.concurrency - state.busy;
            if idle > 0 {
                return Some(left.map_or(idle, |left| idle.min(left as usize)));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits before a claim is tried again, unless it is time to end; the next pause is longer.
    fn pause_unless_ended(&self, pause: &mut Duration) {
        let state = self.lock();
        if state.failure.is_none() && !self.stop.is_asked() {
            self.pause(state, pause);
        }
    }

    /// Waits for a while, or until something has changed; the next pause is longer.
    fn pause(&self, state: MutexGuard<'_, State>, pause: &mut Duration) {
        let waited = self.changed.wait_timeout(state, *pause);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        *pause = (*pause * 2).min(PAUSE_MAX);
    }

    /// Gives the jobs to handlers, or back where it was asked to stop meanwhile. Their leases count
    /// from `asked_at`.
    fn hand_out(&self, claims: Vec<Claim>, asked_at: Instant) {
        let mut state = self.lock();
        state.report.claimed += claims.len() as u64;
        if self.stop.is_asked() {
            drop(state);
            for claim in claims {
                self.give_back(claim.token, asked_at + self.lease);
            }
            return;
        }
        for claim in claims {
            let token = claim.token;
            let context = Arc::new(JobContext::new(claim, self.stop.clone()));
            let job = Running { context: Arc::clone(&context), extended_at: asked_at };
            state.running.insert(token, job);
            state.waiting.push_back(context);
            state.busy += 1;
            self.job_came.notify_one();
        }
        self.lease_came.notify_all();
    }

    /// Waits until every handler is idle; after the grace their jobs are given back.
    fn wait_for_handlers(&self) {
        let mut grace_ends: Option<Instant> = None;
        let mut is_over = false;
        let mut state = self.lock();
        while state.busy > 0 {
            if self.stop.is_asked() && grace_ends.is_none() {
                grace_ends = self.worker.grace.and_then(|grace| Instant::now().checked_add(grace));
            }
            let left = grace_ends.filter(|_| !is_over);
            let left = left.map(|end| end.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => {
                    is_over = true;
                    drop(state);
                    self.give_all_back();
                    self.lock()
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn give_all_back(&self) {
        let running = std::mem::take(&mut self.lock().running);
        for (token, job) in running {
            job.context.lose_lease();
            self.give_back(token, job.extended_at + self.lease);
        }
    }

    /// Gives a job back whose lease lasts until then.
    fn give_back(&self, token: Token, until: Instant) {
        self.settle_until(token, &Outcome::Release, until);
    }

    /// One handler: job after job, until all is over.
    fn handle_jobs<H>(&self, handler: &H)
    where
        H: Fn(&JobContext) -> Outcome,
    {
        while let Some(context) = self.next_job() {
            // The pool has given it back already, or it would not be over.
            if context.lease_is_lost() {
                self.be_idle();
                continue;
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| handler(&context)));
            let outcome = outcome.unwrap_or_else(|panic| {
                self.lock().report.panicked += 1;
                let text = panic_text(&*panic).unwrap_or("(without a text)");
                Outcome::Retry { error: format!("the handler panicked: {text}"), delay: None }
            });
            self.settle(&context, &outcome);
            self.be_idle();
        }
    }

    fn be_idle(&self) {
        self.lock().busy -= 1;
        if self.worker.until_empty {
            // It may have been the last job.
            self.wake();
        } else {
            self.changed.notify_all();
        }
    }

    fn next_job(&self) -> Option<Arc<JobContext>> {
        let mut state = self.lock();
        loop {
            if let Some(context) = state.waiting.pop_front() {
                return Some(context);
            }
            if state.is_over {
                return None;
            }
            state = self.job_came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn settle(&self, context: &JobContext, outcome: &Outcome) {
        // If another thread has removed it, its lease is lost, and that is counted.
        let Some(job) = self.lock().running.remove(&context.token) else { return };
        self.settle_until(context.token, outcome, job.extended_at + self.lease);
    }

    /// Settles and counts a job: while another connection holds the database, again and again until
    /// the lease ends. An error is the result of the run; the other jobs are settled all the same.
    fn settle_until(&self, token: Token, outcome: &Outcome, until: Instant) {
        let mut pause = PAUSE_MIN;
        let settled = loop {
            match self.queue.settle(token, outcome) {
                Err(error) if is_busy(&error) && Instant::now() < until => {
                    self.pause(self.lock(), &mut pause);
                }
                settled => break settled,
            }
        };
        let counted = count(&mut self.lock().report, settled);
        if let Err(error) = counted {
            self.fail(error);
        }
    }

    /// The lease of this job counts from then.
    pub(super) fn lease_extended(&self, token: Token, at: Instant) {
        if let Some(job) = self.lock().running.get_mut(&token) {
            job.extended_at = at;
        }
    }

    /// Tells the handler of a job that its lease is lost. A job that is being settled meanwhile is
    /// no longer among those that run.
    pub(super) fn lease_lost(&self, token: Token) {
        let mut state = self.lock();
        let Some(job) = state.running.remove(&token) else { return };
        state.report.lease_lost += 1;
        drop(state);
        job.context.lose_lease();
    }

    /// Time at which the first lease of a running job ends.
    pub(super) fn first_end(&self, state: &State) -> Option<Instant> {
        state.running.values().filter_map(|job| job.extended_at.checked_add(self.lease)).min()
    }

    /// Notes that a call extends leases from now on, unless one has failed before it.
    pub(super) fn extension_begins(&self, state: &mut State) {
        state.extending_since.get_or_insert_with(Instant::now);
        // The thread that tells of ended leases waits for this.
        self.lease_came.notify_all();
    }

    /// Tells the handlers whose leases have ended, as nothing has extended them: others may have
    /// their jobs by now.
    pub(super) fn leases_ended(&self, now: Instant) {
        let has_ended =
            |job: &Running| job.extended_at.checked_add(self.lease).is_some_and(|end| end <= now);
        let state = self.lock();
        let ended = state.running.iter().filter(|(_, job)| has_ended(job));
        let ended: Vec<Token> = ended.map(|(token, _)| *token).collect();
        drop(state);
        for token in ended {
            self.lease_lost(token);
        }
    }

    /// Takes in an error of the database; the first one is the result.
    pub(super) fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.wake();
    }

    /// Has the thread that claims look again.
    fn wake(&self) {
        // Under the lock, or a look that is just over would miss it.
        let wait_ender = self.lock().wait_ender.clone();
        self.changed.notify_all();
        if let Some(wait_ender) = wait_ender {
            wait_ender.end_wait();
        }
    }

    pub(super) fn wait_for_lease<'a>(
        &self,
        state: MutexGuard<'a, State>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        match time {
            Some(time) => {
                let waited = self.lease_came.wait_timeout(state, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.lease_came.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// The shared state. Ends a child of `fork` that has come back from a handler: the
    /// lock may be held there for ever, and the threads that [`Pool::run`] waits for
    /// do not exist.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        if !self.process.is_current() {
            std::process::exit(1);
        }
        lock(&self.state)
    }
}

/// Returns true if another connection holds the database.
fn is_busy(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Busy { .. })
}

/// Counts what became of a job; a lease that was lost is no error.
fn count(report: &mut WorkReport, settled: Result<Settled>) -> Result<()> {
    match settled {
        Ok(Settled::Done) => report.done += 1,
        Ok(Settled::Retried) => report.retried += 1,
        Ok(Settled::Dead) => report.dead += 1,
        Ok(Settled::Released) => report.released += 1,
        Err(error) if keeper::is_lost(&error) => report.lease_lost += 1,
        Err(error) => return Err(error),
    }
    Ok(())
}
