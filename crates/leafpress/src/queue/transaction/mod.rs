//! Claims and pushes that are one: the queue transaction, with an expiry.
//!
//! Claims are leases that end with the transaction; pushes wait in memory; commit
//! is one call of the writer.
//!
//! 1. Commit does all of it or nothing, and it does nothing unless all claims are
//!    still held and the transaction has not expired.
//! 2. A job that is pushed cannot be seen before the commit, and is gone without it.
//! 3. A claim is given back only while it is still held, so that a later holder of the job is not
//!    disturbed.
//!
//! Must never: write anything in a drop during a panic: a job that makes its
//! worker panic would come again without an attempt, for ever.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::job::check_each;
use super::pending::{Caller, now};
use super::session::Work;
use super::settle::JobRow;
use super::{Claim, ClaimOptions, Job, Pushed, Queue, Token, claim, latest, push, settle};
use crate::error::{Error, ErrorKind, Result};
use crate::times::{UnixTime, in_milliseconds as to_ms};
use crate::writer::{PendingCall, Transaction};

/// Claims and pushes that become one commit, or nothing.
///
/// Jobs that are claimed in it stay claimed until the transaction's expiry; jobs that are pushed in
/// it wait in memory. Commit acks the ones and pushes the others in one transaction of SQLite, so a
/// job moves from queue to queue, or becomes several, without being lost or doubled on the way.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let writer = leafpress::writer::Writer::builder(folder.path().join("app.db")).open()?;
/// # use std::time::Duration;
/// use leafpress::queue::Queue;
///
/// let (orders, mails) = (Queue::open(&writer, "orders")?, Queue::open(&writer, "mails")?);
/// orders.push("order 17")?;
///
/// let mut transaction = orders.begin(Duration::from_secs(30))?;
/// while let Some(claim) = transaction.claim()? {
///     transaction.push_to(&mails, claim.payload)?;
/// }
/// let committed = transaction.commit()?;
/// assert_eq!((committed.acked, committed.pushed.len()), (1, 1));
/// # assert!(orders.claim()?.is_none() && mails.claim()?.is_some());
/// # Ok::<(), leafpress::Error>(())
/// ```
///
/// | after | on disk of the claims | on disk of the pushes |
/// |---|---|---|
/// | `begin` | nothing | nothing |
/// | `claim`, `include` | leased until the expiry | nothing |
/// | `push`, `push_to` | as before | nothing |
/// | `commit`, `commit_with` | acked | all of them |
/// | a commit that failed, `rollback`, drop | given back, without an attempt | nothing |
/// | a crash, a panic, a drop once the writer is closed, or just before that while its queue is full | leased until the expiry, then an attempt | nothing |
///
/// Dropping it rolls it back, without waiting for that to be done. In a child of
/// `fork` dropping does nothing: the claims are the parent's.
#[derive(Debug)]
#[must_use = "dropping it gives its claims back"]
pub struct QueueTransaction {
    queue: Queue,
    expiry: Expiry,
    /// Tokens of the claims that it holds, as far as it knows.
    tokens: Vec<Token>,
    /// Jobs to be pushed, each with its queue.
    jobs: Vec<(i64, Job)>,
}

/// Result of a queue transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Committed {
    /// Number of claims that were acked: all.
    pub acked: usize,
    /// Result of each push, in order.
    pub pushed: Vec<Pushed>,
}

impl Queue {
    /// Begins a transaction of claims and pushes that must be committed within
    /// this time. Nothing is written yet.
    ///
    /// # Errors
    /// If the time is less than a millisecond.
    pub fn begin(&self, expiry: Duration) -> Result<QueueTransaction> {
        let time_ms = usable(expiry)?;
        let now_ms = self.session.get()?.clock().now_ms();
        Ok(QueueTransaction {
            queue: self.clone(),
            expiry: Expiry { at_ms: now_ms.saturating_add(time_ms), time_ms },
            tokens: Vec::new(),
            jobs: Vec::new(),
        })
    }
}

impl QueueTransaction {
    /// Time at which it expires.
    pub fn expires_at(&self) -> UnixTime {
        UnixTime::from_ms(self.expiry.at_ms)
    }

    /// Claims the next job of the queue, if there is one, until the transaction
    /// expires. It does not wait: to wait, claim from the queue and
    /// [`include`](Self::include) the claim.
    ///
    /// # Errors
    /// [`TransactionExpired`](ErrorKind::TransactionExpired), and as [`Queue::claim`].
    pub fn claim(&mut self) -> Result<Option<Claim>> {
        Ok(self.claim_many(1)?.pop())
    }

    /// As [`claim`](Self::claim), as a future. A job that was claimed for a future that is dropped
    /// is given back.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn claim_async(&mut self) -> Result<Option<Claim>> {
        Ok(self.claim_many_async(1).await?.pop())
    }

    /// Claims at most this number of jobs, until the transaction expires.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub fn claim_many(&mut self, jobs_max: usize) -> Result<Vec<Claim>> {
        now(self.claim_by(Caller::Thread, jobs_max))
    }

    /// As [`claim_many`](Self::claim_many), as a future. Jobs that were claimed for a future that
    /// is dropped are given back.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn claim_many_async(&mut self, jobs_max: usize) -> Result<Vec<Claim>> {
        self.claim_by(Caller::Task, jobs_max).await
    }

    async fn claim_by(&mut self, caller: Caller, jobs_max: usize) -> Result<Vec<Claim>> {
        if jobs_max == 0 {
            return Ok(Vec::new());
        }
        let expiry = self.expiry;
        loop {
            let call = self.queue.call(move |work, queue| {
                let left = Duration::from_millis(expiry.left_ms(work)?.unsigned_abs());
                let options = ClaimOptions::new().jobs_max(jobs_max).lease(left);
                claim::claim(work, &*work.row(queue)?, &options)
            });
            let found = caller.found(&self.queue, call).await?;
            if !found.is_cut_short {
                self.tokens.extend(found.claims.iter().map(|claim| claim.token));
                return Ok(found.claims);
            }
        }
    }

    /// Makes a claim that is held already (of any queue of this database) part of
    /// the transaction: its lease now ends when the transaction expires.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if it is not held any more,
    /// [`TransactionExpired`](ErrorKind::TransactionExpired), and as
    /// [`Queue::extend`]. The lease is as it was, and the claim no part of this.
    pub fn include(&mut self, token: Token) -> Result<()> {
        now(self.include_by(Caller::Thread, token))
    }

    /// As [`include`](Self::include), as a future. If the future is dropped, the claim is not
    /// included. But a thread may already have set the end of its lease to that of the transaction.
    ///
    /// # Errors
    /// As [`include`](Self::include).
    pub async fn include_async(&mut self, token: Token) -> Result<()> {
        self.include_by(Caller::Task, token).await
    }

    async fn include_by(&mut self, caller: Caller, token: Token) -> Result<()> {
        let expiry = self.expiry;
        let call = self.queue.call(move |work, _| {
            let claimed = all_held(work, &[token])?;
            let lease_ms = expiry.left_ms(work)?;
            claimed.iter().try_for_each(|job| settle::extend(work, job, lease_ms).map(drop))
        });
        caller.answer(call).await?;
        if !self.tokens.contains(&token) {
            self.tokens.push(token);
        }
        Ok(())
    }

    /// Pushes a job to the queue, at commit, which refuses one that has expired by then.
    pub fn push(&mut self, job: impl Into<Job>) {
        self.jobs.push((self.queue.id, job.into()));
    }

    /// Pushes a job to another queue of the same [`Writer`](crate::writer::Writer), at commit.
    ///
    /// # Errors
    /// If it is one of another writer, which could not be committed with this.
    pub fn push_to(&mut self, queue: &Queue, job: impl Into<Job>) -> Result<()> {
        if !Arc::ptr_eq(self.queue.session.get()?, queue.session.get()?) {
            let (ours, other) = (self.queue.name(), queue.name());
            return Err(Error::misuse(format!(
                "the queue '{other}' is not of the writer that '{ours}' is of, so no transaction \
                 is of both"
            ))
            .on_disk("nothing was changed")
            .to_do("open both queues with one writer, of one database"));
        }
        self.jobs.push((queue.id, job.into()));
        Ok(())
    }

    /// Lets the transaction, and with it the lease of each claim, end this long after now; returns
    /// the time of its end.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) of a claim that is not held any more,
    /// [`TransactionExpired`](ErrorKind::TransactionExpired), and as
    /// [`Queue::extend`]. No lease is extended then.
    pub fn extend(&mut self, expiry: Duration) -> Result<UnixTime> {
        now(self.extend_by(Caller::Thread, expiry))
    }

    /// As [`extend`](Self::extend), as a future. If the future is dropped, the transaction expires
    /// when it did before. But a thread may already have set the ends of the leases to the new time.
    ///
    /// # Errors
    /// As [`extend`](Self::extend).
    pub async fn extend_async(&mut self, expiry: Duration) -> Result<UnixTime> {
        self.extend_by(Caller::Task, expiry).await
    }

    async fn extend_by(&mut self, caller: Caller, expiry: Duration) -> Result<UnixTime> {
        let time_ms = usable(expiry)?;
        let (tokens, expiry) = (self.tokens.clone(), self.expiry);
        let call = self.queue.call(move |work, _| {
            let claimed = all_held(work, &tokens)?;
            expiry.left_ms(work)?;
            for job in &claimed {
                settle::extend(work, job, time_ms)?;
            }
            Ok(work.now_ms.saturating_add(time_ms))
        });
        self.expiry = Expiry { at_ms: caller.answer(call).await?, time_ms };
        Ok(self.expires_at())
    }

    /// Acks all claims and pushes all jobs, as one transaction, and waits until
    /// that is on disk. A push whose unique key is held is answered with the job
    /// that holds it, and does not stop the others.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) with the first claim that is not held
    /// any more; [`TransactionExpired`](ErrorKind::TransactionExpired); as
    /// [`Queue::push`]. Nothing is acked and nothing pushed then, and claims that
    /// are still held are given back. If the outcome is unknown, all was done or nothing.
    pub fn commit(self) -> Result<Committed> {
        now(self.commit_by(Caller::Thread))
    }

    /// As [`commit`](Self::commit), as a future. If it is dropped before a thread has begun with the
    /// commit, all is rolled back; if later, all is committed.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn commit_async(self) -> Result<Committed> {
        self.commit_by(Caller::Task).await
    }

    async fn commit_by(mut self, caller: Caller) -> Result<Committed> {
        let settlement = self.settlement();
        let call = self.queue.call(move |work, _| settlement.carry_out(work));
        let committed = caller.answer(call).await?;
        // In other cases the drop gives back what is still held.
        self.tokens.clear();
        Ok(committed)
    }

    /// As [`commit`](Self::commit), with what `body` does to the application's own
    /// tables in the same transaction: so the work of a job that is done there is
    /// done exactly once. `body` is called only if all claims are still held; as
    /// that of [`Writer::transaction`](crate::writer::Writer::transaction), it may
    /// be called again.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let writer = leafpress::writer::Writer::builder(folder.path().join("shop.db")).open()?;
    /// # use std::time::Duration;
    /// # use leafpress::queue::Queue;
    /// # writer.execute_batch("CREATE TABLE paid(invoice TEXT)")?;
    /// # let invoices = Queue::open(&writer, "invoices")?;
    /// # invoices.push("invoice 17")?;
    /// let mut transaction = invoices.begin(Duration::from_secs(30))?;
    /// if let Some(claim) = transaction.claim()? {
    ///     let invoice = String::from_utf8_lossy(claim.payload.as_bytes()).into_owned();
    ///     transaction.commit_with(move |tx| {
    ///         tx.execute("INSERT INTO paid VALUES (?1)", [invoice.as_str()])
    ///     })?;
    /// }
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`commit`](Self::commit), and those of `body`: nothing of either is done then.
    pub fn commit_with<T: Send + 'static>(
        self,
        body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<(Committed, T)> {
        now(self.commit_with_by(Caller::Thread, body))
    }

    /// As [`commit_with`](Self::commit_with), as a future. If it is dropped before a thread has
    /// begun with the commit, all is rolled back; if later, all is committed.
    ///
    /// # Errors
    /// As [`commit_with`](Self::commit_with).
    pub async fn commit_with_async<T: Send + 'static>(
        self,
        body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<(Committed, T)> {
        self.commit_with_by(Caller::Task, body).await
    }

    async fn commit_with_by<T: Send + 'static>(
        mut self,
        caller: Caller,
        mut body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> Result<(Committed, T)> {
        let (session, settlement) = (Arc::clone(self.queue.session.get()?), self.settlement());
        let call = self.queue.writer.transaction_async(move |transaction| {
            transaction.internal(&session, |connection| {
                settlement.all_held(&Work::new(connection, &session)).map(drop)
            })?;
            let value = body(transaction)?;
            let committed = transaction.internal(&session, |connection| {
                let work = Work::new(connection, &session);
                let committed = settlement.carry_out(&work)?;
                latest::note(&work)?;
                Ok(committed)
            })?;
            Ok((committed, value))
        });
        let done = caller.answer(call).await?;
        self.tokens.clear();
        Ok(done)
    }

    /// The work of the commit; the pushes are not needed any more then.
    fn settlement(&mut self) -> Settlement {
        Settlement {
            tokens: self.tokens.clone(),
            jobs: std::mem::take(&mut self.jobs),
            expiry: self.expiry,
        }
    }

    /// Gives all claims back, to be claimed by any consumer at once, without an attempt, and
    /// forgets the pushes.
    ///
    /// # Errors
    /// As [`Queue::release`], but for claims that are not held any more, which
    /// are left alone. The leases end with the transaction's expiry then.
    pub fn rollback(self) -> Result<()> {
        now(self.rollback_by(Caller::Thread))
    }

    /// As [`rollback`](Self::rollback), as a future. If it is dropped, that is the rollback of a
    /// drop.
    ///
    /// # Errors
    /// As [`rollback`](Self::rollback).
    pub async fn rollback_async(self) -> Result<()> {
        self.rollback_by(Caller::Task).await
    }

    async fn rollback_by(mut self, caller: Caller) -> Result<()> {
        if self.tokens.is_empty() {
            return Ok(());
        }
        caller.answer(self.release_all()).await?;
        self.tokens.clear();
        Ok(())
    }

    fn release_all(&self) -> PendingCall<()> {
        let tokens = self.tokens.clone();
        self.queue.call(move |work, _| release_all(work, &tokens))
    }
}

impl Drop for QueueTransaction {
    fn drop(&mut self) {
        if !self.tokens.is_empty() && !std::thread::panicking() {
            // No wait here: this may be the writer's own thread, or a task.
            self.release_all().leave();
        }
    }
}

/// The work of a commit.
struct Settlement {
    tokens: Vec<Token>,
    jobs: Vec<(i64, Job)>,
    expiry: Expiry,
}

impl Settlement {
    /// The jobs of all claims, if all are held and it is not too late.
    fn all_held(&self, work: &Work<'_>) -> Result<Vec<JobRow>> {
        let claimed = all_held(work, &self.tokens)?;
        self.expiry.left_ms(work)?;
        Ok(claimed)
    }

    fn carry_out(&self, work: &Work<'_>) -> Result<Committed> {
        check_each(&self.jobs, |(_, job)| job.check(work.now_ms))?;
        for job in self.all_held(work)? {
            settle::ack(work, &*work.row(job.queue)?, &job, None)?;
        }
        let push = |(queue, job): &(i64, Job)| push::insert_checked(work, &*work.row(*queue)?, job);
        let pushed = self.jobs.iter().map(push).collect::<Result<_>>()?;
        Ok(Committed { acked: self.tokens.len(), pushed })
    }
}

/// A time that something can be done in.
fn usable(expiry: Duration) -> Result<i64> {
    match to_ms(expiry) {
        0 => Err(Error::misuse("a transaction needs at least a millisecond until it expires")
            .on_disk("nothing was changed")),
        expiry_ms => Ok(expiry_ms),
    }
}

/// Time at which a transaction expires.
#[derive(Debug, Clone, Copy)]
struct Expiry {
    at_ms: i64,
    /// Time that the caller gave it. No lease is longer, even if the clock is set back meanwhile.
    time_ms: i64,
}

impl Expiry {
    /// Milliseconds until then, at least one.
    fn left_ms(self, work: &Work<'_>) -> Result<i64> {
        match self.at_ms.saturating_sub(work.now_ms) {
            left_ms @ 1.. => Ok(left_ms.min(self.time_ms)),
            _ => Err(Error::from(ErrorKind::TransactionExpired {
                expires_at: UnixTime::from_ms(self.at_ms),
            })
            .on_disk("nothing of this call; any consumer can claim the jobs that it had")
            .to_do(
                "do its work again in a new transaction, with a longer expiry or with `extend`",
            )),
        }
    }
}

/// The jobs of all claims, or the first of them that is not held. Before anything
/// is changed, so that a failure costs no other caller's transaction.
fn all_held(work: &Work<'_>, tokens: &[Token]) -> Result<Vec<JobRow>> {
    let held = |&token: &Token| settle::check(work, token)?;
    tokens.iter().map(held).collect()
}

/// Gives back those that are still held.
fn release_all(work: &Work<'_>, tokens: &[Token]) -> Result<()> {
    for &token in tokens {
        if let Ok(job) = settle::check(work, token)? {
            settle::release(work, &*work.row(job.queue)?, &job)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
