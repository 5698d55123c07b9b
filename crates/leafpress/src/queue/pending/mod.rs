//! Calls of tasks: the queue's operations as futures that never block the thread that polls them.
//!
//! Each is a [`PendingCall`] of the writer, but a claim that waits: it waits for the wake-up as a
//! thread does, and the thread that rings wakes the task.
//!
//! 1. A claim whose future is dropped keeps no job: one that was claimed for it already is given
//!    back, and that was no attempt.
//!
//! Must never: wait, or depend on a runtime.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::claim::Found;
use super::session::Work;
use super::wakeup::Woken;
use super::{
    Claim, ClaimOptions, Job, Nack, Payload, Pushed, Queue, Retry, Token, extend_by, look, push,
    settle, settling,
};
use crate::error::{Error, Result};
use crate::times::UnixTime;
use crate::writer::PendingCall;

/// Calls of tasks. Each does what the call without `_async` does, and gives the same errors;
/// [`PendingCall`] says what becomes of a future that is dropped.
impl Queue {
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
        self.work_async(move |work, queue| push::insert(work, &*work.row(queue)?, &job))
    }

    /// As [`push_many`](Self::push_many), as a future.
    pub fn push_many_async(&self, jobs: impl IntoIterator<Item = Job>) -> PendingCall<Vec<Pushed>> {
        let jobs: Vec<Job> = jobs.into_iter().collect();
        self.work_async(move |work, queue| {
            let row = work.row(queue)?;
            jobs.iter().map(|job| push::insert(work, &row, job)).collect()
        })
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
        async move {
            options.check()?;
            if options.jobs_max == 0 {
                return Ok(Vec::new());
            }
            let wait = options.wait.unwrap_or_default();
            // Too far away for the clock is never.
            let deadline = Instant::now().checked_add(wait);
            let found = Look::new(&queue, &options).await?;
            if !found.claims.is_empty() || wait.is_zero() {
                return Ok(found.claims);
            }
            // From here on no ring is missed, so it must look once more.
            let mut waiter = queue.session.get()?.wake_ups().waiter(&queue.name)?;
            loop {
                let found = Look::new(&queue, &options).await?;
                if !found.claims.is_empty() {
                    waiter.found();
                    return Ok(found.claims);
                }
                waiter.begin_polls(found.next_due_ms);
                match poll_fn(|context| waiter.poll(deadline, context.waker())).await {
                    Woken::Look => {}
                    Woken::TimedOut => return Ok(Vec::new()),
                    Woken::Closed => return Err(Error::stopped("it was closed")),
                }
            }
        }
    }

    /// As [`ack`](Self::ack), as a future.
    pub fn ack_async(&self, token: Token) -> PendingCall<()> {
        self.work_async(settling(token, |work, queue, job| settle::ack(work, queue, job, None)))
    }

    /// As [`ack_with`](Self::ack_with), as a future.
    pub fn ack_with_async(&self, token: Token, result: impl Into<Payload>) -> PendingCall<()> {
        let result = result.into();
        self.work_async(settling(token, move |work, queue, job| {
            settle::ack(work, queue, job, Some(&result))
        }))
    }

    /// As [`nack`](Self::nack), as a future.
    pub fn nack_async(&self, token: Token, nack: Nack) -> PendingCall<Retry> {
        let chance = fastrand::f64();
        self.work_async(settling(token, move |work, queue, job| {
            settle::nack(work, queue, job, &nack, chance)
        }))
    }

    /// As [`fail`](Self::fail), as a future.
    pub fn fail_async(&self, token: Token, reason: &str) -> PendingCall<()> {
        let reason = reason.to_owned();
        self.work_async(settling(token, move |work, queue, job| {
            settle::fail(work, queue, job, &reason)
        }))
    }

    /// As [`release`](Self::release), as a future.
    pub fn release_async(&self, token: Token) -> PendingCall<()> {
        self.work_async(settling(token, settle::release))
    }

    /// As [`extend`](Self::extend), as a future.
    pub fn extend_async(&self, token: Token, lease: Duration) -> PendingCall<UnixTime> {
        match extend_by(lease) {
            Ok(extend) => self.work_async(settling(token, extend)),
            Err(error) => self.writer.refused_async(error),
        }
    }

    fn work_async<T: Send + 'static>(
        &self,
        run: impl FnMut(&Work<'_>, i64) -> Result<T> + Send + 'static,
    ) -> PendingCall<T> {
        self.writer.internal_async(self.operation(run))
    }

    /// Gives jobs back that no consumer has got. If that fails, they come again after their lease.
    fn leave(&self, claims: Vec<Claim>) {
        for claim in claims {
            if let Ok(operation) = self.operation(settling(claim.token, settle::release)) {
                self.writer.leave_internal(operation);
            }
        }
    }
}

/// A look for jobs, which gives back what it finds after it was dropped.
struct Look {
    queue: Queue,
    call: PendingCall<Found>,
}

impl Look {
    fn new(queue: &Queue, options: &ClaimOptions) -> Self {
        Self { queue: queue.clone(), call: queue.work_async(look(options)) }
    }
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

#[cfg(test)]
mod tests;
