//! A pool of handlers that work off a queue: claim, run, settle, with leases
//! kept alive and an end that loses nothing.
//!
//! ```text
//! run ─► dispatcher ─ claim_with(idle handlers) ─► handlers ─► ack, nack, fail, release
//!            └ waits for the wake-ups       keeper ─ extend_many, at a third of the lease
//! ```
//!
//! Stands on the queue's public functions and on its wake-ups. Must never: settle a
//! job that its handler has not answered for (but give it back at the end of
//! the grace), or poll a queue of this machine.
//!
//! 1. Never more jobs are claimed than handlers are idle, so no lease runs out in a line.
//! 2. Every job that is claimed is settled once by [`Worker::run`], or its lease
//!    was lost.
//! 3. A panic of a handler is the job's failure, never the pool's.
//! 4. Once it is asked to stop, nothing is claimed any more.
//! 5. After an error of the database nothing is claimed any more; jobs that ran
//!    are settled as far as they can be, and the first error is the result.

pub(super) mod block_on;
mod context;
mod keeper;
mod pool;
mod source;
mod stop;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::context::{JobContext, Outcome};
pub use self::stop::Stop;

use self::pool::Pool;
use self::source::WorkerQueue;
use super::elsewhere::QueueElsewhere;
use super::{ClaimOptions, Queue};
use crate::error::{Error, Result};

/// Longest lease: times of leases are added to the time of now, which has an end.
const LEASE_MAX: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Works off one queue with a number of handlers.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("jobs.db");
/// use leafpress::queue::{Outcome, Queue, Stop, Worker};
/// use leafpress::writer::Writer;
///
/// let writer = Writer::builder(&path).open()?;
/// let queue = Queue::open(&writer, "emails")?;
/// queue.push("to ann")?;
///
/// let report = Worker::new(&queue).concurrency(4).until_empty().run(&Stop::new(), |job| {
///     println!("job {} for the {}. time", job.id, job.attempt);
///     Outcome::Done
/// })?;
/// assert_eq!(report.done, 1);
/// # Ok::<(), leafpress::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is done before `run`"]
pub struct Worker {
    queue: WorkerQueue,
    concurrency: usize,
    lease: Option<Duration>,
    name: Option<String>,
    grace: Option<Duration>,
    jobs_max: Option<u64>,
    until_empty: bool,
}

/// Result of a worker's run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct WorkReport {
    /// Jobs that it claimed: the sum of those that were done, retried, dead, released or lost their
    /// lease.
    pub claimed: u64,
    /// Done.
    pub done: u64,
    /// Jobs that are to be tried again later.
    pub retried: u64,
    /// Dead: at once, or because it was their last attempt.
    pub dead: u64,
    /// Given back, as if never claimed.
    pub released: u64,
    /// Jobs whose lease was lost before they were settled; others have them now.
    pub lease_lost: u64,
    /// Handlers that panicked; their jobs are among those retried or dead.
    pub panicked: u64,
    /// Duration of the run.
    #[serde(rename = "elapsed_s", serialize_with = "crate::times::seconds")]
    pub elapsed: Duration,
}

impl Worker {
    /// Most handlers that run at once. Each is a thread, and more than this are a slip of the keyboard.
    pub const CONCURRENCY_MAX: usize = 4_096;

    /// A worker of this queue: one handler, the queue's lease, until it is stopped.
    pub fn new(queue: &Queue) -> Self {
        Self::of(WorkerQueue::Local(queue.clone()))
    }

    /// A worker of a queue that is on another machine.
    #[doc(hidden)]
    pub fn elsewhere(queue: Arc<dyn QueueElsewhere>) -> Self {
        Self::of(WorkerQueue::Elsewhere(queue))
    }

    fn of(queue: WorkerQueue) -> Self {
        Self {
            queue,
            concurrency: 1,
            lease: None,
            name: None,
            grace: None,
            jobs_max: None,
            until_empty: false,
        }
    }

    /// Handlers that run at once (1), each on a thread of its own; at most
    /// [`CONCURRENCY_MAX`](Self::CONCURRENCY_MAX).
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.concurrency = handlers;
        self
    }

    /// Time for which others wait for a job after this worker has vanished (the queue's lease). It
    /// is extended at a third of it, for as long as a handler runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Name of the worker in the queue's lists and histories.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Time for which handlers may go on after the wish to stop (for ever). Then their jobs are
    /// given back, and the handlers see a lost lease; their answers change nothing, and
    /// [`run`](Self::run) returns when the last handler does.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Ends the worker after this number of jobs.
    pub fn jobs_max(mut self, jobs: u64) -> Self {
        self.jobs_max = Some(jobs);
        self
    }

    /// Ends when no job can be claimed and none of its own runs. Jobs that are
    /// due later, such as retries, stay.
    pub fn until_empty(mut self) -> Self {
        self.until_empty = true;
        self
    }

    /// Works until it is told to stop, or the queue is empty or enough jobs are
    /// done, where that was asked for. Sleeps while there is nothing to do.
    ///
    /// The handler is called on several threads at once. It may fork; the child has
    /// neither the job nor the queue, and ends with the exit status 1 if the handler
    /// returns there, unless it has ended or become another program before.
    ///
    /// # Errors
    /// If the settings make no sense; if the database fails, then with its
    /// first error: jobs whose handlers had ended are settled or come again
    /// after their lease.
    pub fn run<H>(&self, stop: &Stop, handler: H) -> Result<WorkReport>
    where
        H: Fn(&JobContext) -> Outcome + Send + Sync,
    {
        let (report, failure) = self.run_and_count(stop, handler)?;
        failure.map_or(Ok(report), Err)
    }

    /// Works as [`run`](Self::run), and gives the report also where the database failed meanwhile,
    /// with its first error.
    ///
    /// # Errors
    /// As [`run`](Self::run), before any job was claimed.
    #[doc(hidden)]
    pub fn run_and_count<H>(&self, stop: &Stop, handler: H) -> Result<(WorkReport, Option<Error>)>
    where
        H: Fn(&JobContext) -> Outcome + Send + Sync,
    {
        let started = Instant::now();
        if !(1..=Self::CONCURRENCY_MAX).contains(&self.concurrency) {
            let (most, asked) = (Self::CONCURRENCY_MAX, self.concurrency);
            let wrong = format!("a worker has 1 to {most} handlers, not {asked}");
            return Err(Error::misuse(wrong).on_disk("nothing was changed"));
        }
        let lease = match self.lease {
            Some(lease) => lease,
            None => self.queue.lease()?,
        };
        ClaimOptions::new().lease(lease).check()?;
        let (mut report, failure) = Pool::new(self, lease.min(LEASE_MAX), stop).run(&handler)?;
        report.elapsed = started.elapsed();
        Ok((report, failure))
    }

    /// As [`run`](Self::run), for handlers that are `async`. Each is polled on its handler's
    /// thread, so it need not be `Send`, and blocks that thread alone.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("jobs.db");
    /// # use leafpress::queue::{Outcome, Queue, Stop, Worker};
    /// # use leafpress::writer::Writer;
    /// # let writer = Writer::builder(&path).open()?;
    /// # let [mail, sent] = ["mail", "sent"].map(|name| Queue::open(&writer, name).unwrap());
    /// mail.push("to ann")?;
    /// let report = Worker::new(&mail).until_empty().run_async(&Stop::new(), async |job| {
    ///     sent.push_async(job.payload.clone()).await.map(drop).into()
    /// })?;
    /// assert_eq!(report.done, 1);
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    ///
    /// The threads belong to no runtime. A handler that uses the timers or sockets of one is run
    /// by that one; with tokio:
    ///
    /// ```ignore
    /// let handle = tokio::runtime::Handle::current();
    /// let work = move || worker.run(&stop, |job| handle.block_on(send(job)));
    /// let report = tokio::task::spawn_blocking(work).await??;
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_async<H>(&self, stop: &Stop, handler: H) -> Result<WorkReport>
    where
        H: AsyncFn(&JobContext) -> Outcome + Send + Sync,
    {
        self.run(stop, |job| block_on::block_on(handler(job)))
    }
}

impl fmt::Display for WorkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { claimed, done, retried, dead, released, lease_lost, .. } = self;
        write!(f, "{claimed} claimed: {done} done, {retried} to retry, {dead} dead, ")?;
        write!(f, "{released} released, {lease_lost} lost their lease")
    }
}
