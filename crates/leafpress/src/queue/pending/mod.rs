//! Calls of tasks: the queue's operations as futures that never block the thread that polls them.
//!
//! Each is a [`PendingCall`] of the writer. The call of a thread makes the same one and waits for
//! it. Two are more than that: a claim that waits does so for the wake-up, as a thread does, and
//! the thread that sends the wake-up wakes the task; a call of several transactions is one
//! `async` function for threads and tasks, which is told its [`Caller`].
//!
//! 1. A claim whose future is dropped keeps no job: one that was claimed for it already is given
//!    back, and that was no attempt.
//!
//! Must never: wait for a task, or depend on a runtime.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::claim::Found;
use super::session::{QueueRow, Work};
use super::settle::JobRow;
use super::wakeup::Woken;
use super::{
    Claim, ClaimOptions, Job, Nack, Payload, Pushed, Queue, Retry, Settings, Token, claim,
    configure, push, settle,
};
use crate::error::{Error, Result};
use crate::times::{UnixTime, in_milliseconds as to_ms};
use crate::writer::PendingCall;

/// Caller of an operation, which waits for its answers in one way or the other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Caller {
    /// A thread, which waits.
    Thread,
    /// A task, which is woken.
    Task,
}

impl Caller {
    /// The answer to a call.
    pub(super) async fn answer<T: Send + 'static>(self, call: PendingCall<T>) -> Result<T> {
        match self {
            Self::Thread => call.wait(),
            Self::Task => call.await,
        }
    }

    /// The jobs that a look has found.
    pub(super) async fn found(self, queue: &Queue, call: PendingCall<Found>) -> Result<Found> {
        match self {
            Self::Thread => call.wait(),
            Self::Task => Look { queue: queue.clone(), call }.await,
        }
    }
}

/// The output of an operation whose [`Caller`] is a thread: all waits are in its only poll.
pub(super) fn now<T>(operation: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(operation).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => Err(Error::bug("a call of a thread waits as a task does")),
    }
}

/// Calls of tasks. Each does what the call without `_async` does, and gives the same errors;
/// [`PendingCall`] says what becomes of a future that is dropped.
impl Queue {
    /// As [`settings`](Self::settings), as a future.
    pub fn settings_async(&self) -> PendingCall<Settings> {
        self.call(|work, queue| Ok(work.row(queue)?.settings.clone()))
    }

    /// As [`configure`](Self::configure), as a future.
    pub fn configure_async(
        &self,
        mut change: impl FnMut(&mut Settings) + Send + 'static,
    ) -> PendingCall<Settings> {
        self.call(move |work, queue| configure(work, queue, &mut change))
    }

    /// As [`push`](Self::push), as a future.
    ///
    /// ```
    /// use leafpress::queue::{Job, Queue};
    ///
    /// async fn work_off(queue: &Queue) -> leafpress::Result<()> {
    ///     queue.push_async(Job::json(&("welcome", "ann@example.org"))?).await?;
    ///     let claim = queue.claim_async().await?; // sleeps until there is a job
    ///     queue.ack_async(claim.token).await
    /// }
    /// ```
    pub fn push_async(&self, job: impl Into<Job>) -> PendingCall<Pushed> {
        let job = job.into();
        self.call(move |work, queue| push::insert(work, &*work.row(queue)?, &job))
    }

    /// As [`push_many`](Self::push_many), as a future.
    pub fn push_many_async(&self, jobs: impl IntoIterator<Item = Job>) -> PendingCall<Vec<Pushed>> {
        let jobs: Vec<Job> = jobs.into_iter().collect();
        self.call(move |work, queue| push::insert_all(work, &*work.row(queue)?, &jobs))
    }

    /// Claims the next job, and waits until there is one, without an end: drop the future to stop
    /// waiting. A job that was claimed for a future that is dropped is given back.
    ///
    /// # Errors
    /// As [`claim_with`](Self::claim_with).
    pub fn claim_async(&self) -> impl Future<Output = Result<Claim>> + Send + use<> {
        let claims = self.claim_with_async(&ClaimOptions::new().wait(Duration::MAX));
        async move {
            let claim = claims.await?.pop();
            claim.ok_or_else(|| Error::stopped("the wait for a job ended without one"))
        }
    }

    /// As [`claim_with`](Self::claim_with), as a future; it waits as long as the options say. A
    /// job that was claimed for a future that is dropped is given back.
    ///
    /// # Errors
    /// As [`claim_with`](Self::claim_with).
    pub fn claim_with_async(
        &self,
        options: &ClaimOptions,
    ) -> impl Future<Output = Result<Vec<Claim>>> + Send + use<> {
        let (queue, options) = (self.clone(), options.clone());
        async move { queue.claim_by(Caller::Task, &options).await }
    }

    /// A single look of [`claim_with`](Self::claim_with), which waits for no job: for a thread that carries
    /// out its calls itself. True beside no jobs says that it was cut short to let other calls in between,
    /// and is to be made again.
    ///
    /// # Errors
    /// As [`claim_with`](Self::claim_with).
    pub fn look_once_async(&self, options: &ClaimOptions) -> PendingCall<(Vec<Claim>, bool)> {
        if let Err(error) = options.check() {
            return self.writer.refused_async(error);
        }
        let options = options.clone();
        self.call(move |work, queue| {
            let found = claim::claim(work, &*work.row(queue)?, &options)?;
            Ok((found.claims, found.is_cut_short))
        })
    }

    pub(super) async fn claim_by(
        &self,
        caller: Caller,
        options: &ClaimOptions,
    ) -> Result<Vec<Claim>> {
        options.check()?;
        if options.jobs_max == 0 {
            return Ok(Vec::new());
        }
        let wait = options.wait.unwrap_or_default();
        // Too far away for the clock is never.
        let deadline = Instant::now().checked_add(wait);
        let found = self.look_through(caller, options).await?;
        if !found.claims.is_empty() || wait.is_zero() {
            return Ok(found.claims);
        }
        // From here on no wake-up is missed, so it must look once more.
        let mut waiter = self.session.get()?.wake_ups().waiter(&self.name)?;
        loop {
            let found = self.look_through(caller, options).await?;
            if !found.claims.is_empty() {
                waiter.found();
                return Ok(found.claims);
            }
            let woken = match caller {
                Caller::Thread => waiter.wait(found.next_due_ms, deadline),
                Caller::Task => {
                    waiter.begin_polls(found.next_due_ms);
                    poll_fn(|context| waiter.poll(deadline, context.waker())).await
                }
            };
            match woken {
                Woken::Look => {}
                Woken::TimedOut => return Ok(Vec::new()),
                Woken::Closed => return Err(Error::stopped("it was closed")),
            }
        }
    }

    /// Looks until there is a job, or surely none. Each look is a transaction of its own, so that
    /// others get in between.
    async fn look_through(&self, caller: Caller, options: &ClaimOptions) -> Result<Found> {
        loop {
            let found = caller.found(self, self.look_async(options)).await?;
            if !found.is_cut_short {
                return Ok(found);
            }
        }
    }

    /// As [`ack`](Self::ack), as a future.
    pub fn ack_async(&self, token: Token) -> PendingCall<()> {
        self.settle(token, |work, queue, job| settle::ack(work, queue, job, None))
    }

    /// As [`ack_with`](Self::ack_with), as a future.
    pub fn ack_with_async(&self, token: Token, result: impl Into<Payload>) -> PendingCall<()> {
        let result = result.into();
        self.settle(token, move |work, queue, job| settle::ack(work, queue, job, Some(&result)))
    }

    /// As [`ack_many`](Self::ack_many), as a future.
    pub fn ack_many_async(&self, tokens: &[Token]) -> PendingCall<Vec<Result<()>>> {
        self.settle_many(tokens, |work, queue, job| settle::ack(work, queue, job, None))
    }

    /// As [`nack`](Self::nack), as a future.
    pub fn nack_async(&self, token: Token, nack: Nack) -> PendingCall<Retry> {
        let chance = fastrand::f64();
        self.settle(token, move |work, queue, job| settle::nack(work, queue, job, &nack, chance))
    }

    /// As [`fail`](Self::fail), as a future.
    pub fn fail_async(&self, token: Token, reason: &str) -> PendingCall<()> {
        let reason = reason.to_owned();
        self.settle(token, move |work, queue, job| settle::fail(work, queue, job, &reason))
    }

    /// As [`release`](Self::release), as a future.
    pub fn release_async(&self, token: Token) -> PendingCall<()> {
        self.settle(token, settle::release)
    }

    /// As [`extend`](Self::extend), as a future.
    pub fn extend_async(&self, token: Token, lease: Duration) -> PendingCall<UnixTime> {
        match extend_by(lease) {
            Ok(extend) => self.settle(token, extend),
            Err(error) => self.writer.refused_async(error),
        }
    }

    /// As [`extend_many`](Self::extend_many), as a future.
    pub fn extend_many_async(
        &self,
        tokens: &[Token],
        lease: Duration,
    ) -> PendingCall<Vec<Result<UnixTime>>> {
        match extend_by(lease) {
            Ok(extend) => self.settle_many(tokens, extend),
            Err(error) => self.writer.refused_async(error),
        }
    }

    /// Does something with a job that this token is good for.
    fn settle<T: Send + 'static>(
        &self,
        token: Token,
        mut run: impl FnMut(&Work<'_>, &QueueRow, &JobRow) -> Result<T> + Send + 'static,
    ) -> PendingCall<T> {
        self.call(move |work, _| settle_one(work, token, &mut run)?)
    }

    /// Does something with each job that one of these tokens is good for.
    fn settle_many<T: Send + 'static>(
        &self,
        tokens: &[Token],
        mut run: impl FnMut(&Work<'_>, &QueueRow, &JobRow) -> Result<T> + Send + 'static,
    ) -> PendingCall<Vec<Result<T>>> {
        let tokens = tokens.to_owned();
        self.call(move |work, _| {
            tokens.iter().map(|&token| settle_one(work, token, &mut run)).collect()
        })
    }

    /// A look for jobs, which does not wait for one.
    pub(super) fn look_async(&self, options: &ClaimOptions) -> PendingCall<Found> {
        let options = options.clone();
        self.call(move |work, queue| claim::claim(work, &*work.row(queue)?, &options))
    }

    /// An operation as one call of the writer. An error undoes all of it.
    pub(super) fn call<T: Send + 'static>(
        &self,
        run: impl FnMut(&Work<'_>, i64) -> Result<T> + Send + 'static,
    ) -> PendingCall<T> {
        self.writer.internal_async(self.operation(run))
    }

    /// Gives jobs back that no consumer has got. If that fails, they come again after their lease.
    fn leave(&self, claims: Vec<Claim>) {
        for claim in claims {
            self.release_async(claim.token).leave();
        }
    }
}

/// A look for jobs. If it is dropped before its end, the jobs that it claims are given back.
struct Look {
    queue: Queue,
    call: PendingCall<Found>,
}

impl Future for Look {
    type Output = Result<Found>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.call).poll(context)
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        if let Some(ticket) = self.call.take_back() {
            let queue = self.queue.clone();
            ticket.on_answer(move |answer| {
                if let Ok(found) = answer {
                    queue.leave(found.claims);
                }
            });
        }
    }
}

/// Does something with the job that this token is good for; the inner error is that of a token
/// which is good for none.
fn settle_one<T>(
    work: &Work<'_>,
    token: Token,
    run: &mut impl FnMut(&Work<'_>, &QueueRow, &JobRow) -> Result<T>,
) -> Result<Result<T>> {
    match settle::check(work, token)? {
        Ok(job) => run(work, &*work.row(job.queue)?, &job).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

fn extend_by(
    lease: Duration,
) -> Result<impl FnMut(&Work<'_>, &QueueRow, &JobRow) -> Result<UnixTime> + Send + 'static> {
    let lease_ms = to_ms(lease);
    if lease_ms == 0 {
        return Err(Error::misuse("a lease of at least a millisecond is needed")
            .to_do("to give a job back, use `release`"));
    }
    Ok(move |work: &Work<'_>, _: &QueueRow, job: &JobRow| {
        settle::extend(work, job, lease_ms).map(UnixTime::from_ms)
    })
}

#[cfg(test)]
mod tests;
