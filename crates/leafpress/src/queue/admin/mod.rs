//! Calls of operators on a queue: retry, remove, purge, pause, drop.
//!
//! Each keeps groups and unique keys right, as the operations of jobs do: they are made of the same
//! parts. A call that may touch many jobs does so in transactions of [`BATCH`] jobs, so that others
//! get in between, and a call that fails in the middle (or a process that dies) leaves a queue that
//! is sound, with a part done.
//!
//! 1. A job that is removed frees its slot and its key in the same transaction.
//! 2. Where several states go, blocked jobs go first: else each removal would
//!    free the next of its group.
//! 3. Every call ends, however fast others push or jobs die again meanwhile.
//!
//! Must never: hold a transaction for longer than a batch takes (some ms).

use std::future::Future;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::job::JobState;
use super::pending::{Caller, now};
use super::session::{QueueRow, Work, failed};
use super::settle::{self, JobRow};
use super::{Queue, group, key, push};
use crate::error::{Error, ErrorKind, Mark, Result};
use crate::times::in_milliseconds as to_ms;
use crate::writer::PendingCall;

/// Jobs that one transaction looks at.
const BATCH: usize = 500;

const RETRY: &str = "UPDATE leafpress_job SET state = ?2, due_at_ms = ?3, changed_at_ms = ?3,
         releases = claims, expires_at_ms = CASE WHEN expires_at_ms > ?3 THEN expires_at_ms END
     WHERE id = ?1";
const DEAD: &str = concat!("SELECT id ", jobs_in!(Dead), " AND id > ?2 ORDER BY id LIMIT ?3");
const DONE: &str = concat!("SELECT id ", jobs_in!(Done), " AND id > ?2 ORDER BY id LIMIT ?3");
const READY: &str = concat!("SELECT id ", jobs_in!(Ready), " LIMIT ?2");
const LEASED: &str = concat!("SELECT id ", jobs_in!(Leased), " LIMIT ?2");
const DELAYED: &str = concat!("SELECT id ", jobs_in!(Delayed), " LIMIT ?2");
const BLOCKED: &str = concat!("SELECT id ", jobs_in!(Blocked), " LIMIT ?2");
/// All jobs of all queues, for those whose age counts: no index knows that.
const WALK: &str = "SELECT id FROM leafpress_job WHERE id > ?1 ORDER BY id LIMIT ?2";
/// It reads one row, or an empty table.
const NEWEST: &str = "SELECT coalesce(max(id), 0) FROM leafpress_job";
const SET_PAUSED: &str =
    "UPDATE leafpress_queue SET is_paused = ?2 WHERE id = ?1 AND is_paused != ?2";
const DROP_KEYS: &str = "DELETE FROM leafpress_key WHERE queue = ?1 AND key IN (
     SELECT key FROM leafpress_key WHERE queue = ?1 LIMIT ?2)";
const DROP_RATES: &str = "DELETE FROM leafpress_rate WHERE queue = ?1 AND ordering_group IN (
     SELECT ordering_group FROM leafpress_rate WHERE queue = ?1 LIMIT ?2)";

/// The order in which states are dealt with (invariant 2).
pub(super) const ORDER: [JobState; 6] = [
    JobState::Blocked,
    JobState::Delayed,
    JobState::Ready,
    JobState::Leased,
    JobState::Done,
    JobState::Dead,
];

/// Filter of jobs that are to be thrown away. By default all that are done or dead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Purge {
    pub(super) states: Vec<JobState>,
    pub(super) older_than: Option<Duration>,
    pub(super) limit: Option<u64>,
}

impl Default for Purge {
    fn default() -> Self {
        Self { states: vec![JobState::Done, JobState::Dead], older_than: None, limit: None }
    }
}

impl Purge {
    /// Jobs that are done or dead.
    pub fn new() -> Self {
        Self::default()
    }

    /// Restricts the selection to jobs in one of these states. The holder of a leased one is
    /// refused its ack.
    pub fn states(mut self, states: impl IntoIterator<Item = JobState>) -> Self {
        self.states = states.into_iter().collect();
        self
    }

    /// Only jobs that have been in their state for longer than this.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = Some(age);
        self
    }

    /// Maximum number of jobs to throw away.
    pub fn limit(mut self, jobs: u64) -> Self {
        self.limit = Some(jobs);
        self
    }
}

/// Counts of the jobs that a call has tried again or removed.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Affected {
    /// All of them.
    pub jobs: u64,
    /// Of those that are tried again: jobs without their unique key, as another job holds it.
    pub without_key: u64,
}

/// Result of one transaction.
struct Step {
    /// Jobs that it dealt with as asked.
    jobs: u64,
    /// Of retried jobs: those that go without their unique key.
    without_key: u64,
    /// The last job that it looked at, if it looked at as many as it may: then there may be more.
    more_after: Option<i64>,
    /// The job of the database that was pushed last.
    newest: i64,
}

impl Queue {
    /// Pushes a dead letter anew, under its old id: its attempts count from none,
    /// an expiry that is over holds no more, and if another job holds its unique
    /// key by now, it goes without. Its history stays. Returns false if it is not there or
    /// not dead.
    ///
    /// # Errors
    /// As [`Writer::execute`](crate::writer::Writer::execute): nothing is changed.
    pub fn retry(&self, id: i64) -> Result<bool> {
        self.retry_async(id).wait()
    }

    /// As [`retry`](Self::retry), as a future.
    pub fn retry_async(&self, id: i64) -> PendingCall<bool> {
        self.call(move |work, queue| Ok(retry_one(work, queue, id)?.jobs > 0))
    }

    /// As [`retry`](Self::retry); tells whether the job goes without its unique key.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    #[doc(hidden)]
    pub fn retry_counted(&self, id: i64) -> Result<Affected> {
        self.call(move |work, queue| retry_one(work, queue, id)).wait()
    }

    /// Retries dead letters, all or a number of them, the oldest pushes first, and returns their
    /// number. Each is tried once, even if it dies again meanwhile.
    ///
    /// # Errors
    /// Those of [`retry`](Self::retry), but that the jobs before have been retried.
    pub fn retry_dead(&self, limit: Option<u64>) -> Result<u64> {
        let mut done = Affected::default();
        now(self.clone().retry_dead_by(Caller::Thread, limit, &mut done))?;
        Ok(done.jobs)
    }

    /// Retries all dead letters; adds them to `done`, also those before an error.
    ///
    /// # Errors
    /// As [`retry_dead`](Self::retry_dead).
    #[doc(hidden)]
    pub fn retry_dead_counted(&self, done: &mut Affected) -> Result<()> {
        now(self.clone().retry_dead_by(Caller::Thread, None, done))
    }

    /// As [`retry_dead`](Self::retry_dead), as a future. If it is dropped, the jobs of the
    /// transactions before stay retried.
    ///
    /// # Errors
    /// As [`retry_dead`](Self::retry_dead).
    pub fn retry_dead_async(
        &self,
        limit: Option<u64>,
    ) -> impl Future<Output = Result<u64>> + Send + use<> {
        let queue = self.clone();
        async move {
            let mut done = Affected::default();
            queue.retry_dead_by(Caller::Task, limit, &mut done).await?;
            Ok(done.jobs)
        }
    }

    async fn retry_dead_by(
        self,
        caller: Caller,
        limit: Option<u64>,
        done: &mut Affected,
    ) -> Result<()> {
        let step_of = |after, room| {
            self.call(move |work, queue| {
                let queue = work.row(queue)?;
                let ids =
                    work.all(DEAD, params![queue.id, after, BATCH as i64], |row| row.get(0))?;
                let mut without_key = 0;
                let step = step(work, &queue, &ids, room, |job| {
                    let retried = retry(work, &queue, job)?;
                    without_key += retried.without_key;
                    Ok(retried.jobs > 0)
                })?;
                Ok(Step { without_key, ..step })
            })
        };
        in_steps(caller, limit.unwrap_or(u64::MAX), done, step_of).await
    }

    /// Removes a job, in any state, with its history. Its holder gets
    /// [`Settled`](super::LeaseLost::Settled) when it acks. Returns false if there is no such job.
    ///
    /// # Errors
    /// As [`Writer::execute`](crate::writer::Writer::execute): nothing is changed.
    pub fn remove(&self, id: i64) -> Result<bool> {
        self.remove_async(id).wait()
    }

    /// As [`remove`](Self::remove), as a future.
    pub fn remove_async(&self, id: i64) -> PendingCall<bool> {
        self.call(move |work, queue| {
            let queue = work.row(queue)?;
            let Some(job) = find(work, &queue, id)? else { return Ok(false) };
            remove(work, &queue, &job)?;
            Ok(true)
        })
    }

    /// Removes many jobs, and returns their number.
    ///
    /// It takes about as long for each as an ack. With [`Purge::older_than`] and a
    /// state that is neither done nor dead, it looks at every job of the database,
    /// a thousandth of a second at a time, as no index knows their ages.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), but that those before are removed.
    pub fn purge(&self, purge: &Purge) -> Result<u64> {
        let mut removed = 0;
        self.purge_counted(purge, &mut removed)?;
        Ok(removed)
    }

    /// As [`purge`](Self::purge); adds the jobs to `removed`, also those before an error.
    ///
    /// # Errors
    /// As [`purge`](Self::purge).
    #[doc(hidden)]
    pub fn purge_counted(&self, purge: &Purge, removed: &mut u64) -> Result<()> {
        now(self.clone().purge_by(Caller::Thread, purge.clone(), removed))
    }

    /// As [`purge`](Self::purge), as a future. If it is dropped, the jobs of the transactions
    /// before stay removed.
    ///
    /// Without [`Purge::older_than`] it reads the ids of all jobs of a state that is neither done nor
    /// dead as a call of the writer: other calls wait for that, about 0.1 s for a million.
    ///
    /// # Errors
    /// As [`purge`](Self::purge).
    pub fn purge_async(&self, purge: &Purge) -> impl Future<Output = Result<u64>> + Send + use<> {
        let (queue, purge) = (self.clone(), purge.clone());
        async move {
            let mut removed = 0;
            queue.purge_by(Caller::Task, purge, &mut removed).await?;
            Ok(removed)
        }
    }

    async fn purge_by(self, caller: Caller, purge: Purge, removed: &mut u64) -> Result<()> {
        let mut done = Affected::default();
        let limit = purge.limit.unwrap_or(u64::MAX);
        for state in ORDER {
            if purge.states.contains(&state) {
                let purged =
                    self.purge_state(caller, state, purge.older_than, limit, &mut done).await;
                *removed = done.jobs;
                purged?;
            }
        }
        Ok(())
    }

    async fn purge_state(
        &self,
        caller: Caller,
        state: JobState,
        age: Option<Duration>,
        limit: u64,
        done: &mut Affected,
    ) -> Result<()> {
        let has_ended = state.has_ended();
        if !has_ended && age.is_none() {
            return self.purge_those_of_now(caller, state, limit, done).await;
        }
        let step_of = |after, room| {
            self.call(move |work, queue| {
                let queue = work.row(queue)?;
                let before_ms = age.map(|age| work.now_ms.saturating_sub(to_ms(age)));
                let ids = if has_ended {
                    some_of(work, queue.id, state, after, BATCH)?
                } else {
                    work.all(WALK, params![after, BATCH as i64], |row| row.get(0))?
                };
                step(work, &queue, &ids, room, |job| {
                    let is_old = before_ms.is_none_or(|before_ms| job.changed_at_ms < before_ms);
                    Ok(is_old && remove_from(work, &queue, job, state)?)
                })
            })
        };
        in_steps(caller, limit, done, step_of).await
    }

    /// Removes the jobs that are in this state now. Those that come to it meanwhile stay: each
    /// removal may free the next job of a group, which no order and no number of jobs tells apart.
    async fn purge_those_of_now(
        &self,
        caller: Caller,
        state: JobState,
        limit: u64,
        done: &mut Affected,
    ) -> Result<()> {
        let (queue, limit) = (self.id, limit - done.jobs);
        let ids = match caller {
            Caller::Thread => self.read(move |connection| ids_in(connection, queue, state, limit)),
            Caller::Task => {
                self.call(move |work, _| ids_in(work.connection, queue, state, limit)).await
            }
        }
        .map_err(|error| after_a_part(error, done.jobs))?;
        for batch in ids.chunks(BATCH) {
            let batch = batch.to_vec();
            let call = self.call(move |work, queue| {
                let queue = work.row(queue)?;
                let each = |job: &JobRow| remove_from(work, &queue, job, state);
                step(work, &queue, &batch, u64::MAX, each)
            });
            let taken = caller.answer(call).await;
            done.jobs += taken.map_err(|error| after_a_part(error, done.jobs))?.jobs;
        }
        Ok(())
    }

    /// Gives no jobs to any caller until [`resume`](Self::resume), in all processes. Pushes go on,
    /// and jobs that are claimed may be acked. Leases and delays end in their time.
    ///
    /// # Errors
    /// As [`Writer::execute`](crate::writer::Writer::execute): nothing is changed.
    pub fn pause(&self) -> Result<()> {
        self.pause_async().wait()
    }

    /// As [`pause`](Self::pause), as a future.
    pub fn pause_async(&self) -> PendingCall<()> {
        self.set_paused(true)
    }

    /// Gives jobs again, and wakes those who wait.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn resume(&self) -> Result<()> {
        self.resume_async().wait()
    }

    /// As [`resume`](Self::resume), as a future.
    pub fn resume_async(&self) -> PendingCall<()> {
        self.set_paused(false)
    }

    fn set_paused(&self, is_paused: bool) -> PendingCall<()> {
        self.call(move |work, queue| {
            // A queue that was dropped is an error.
            let row = work.row(queue)?;
            let changed = work.execute(SET_PAUSED, params![queue, is_paused])?;
            if changed > 0 {
                work.forget_row(queue);
                work.wake(&row, u32::MAX);
            }
            Ok(())
        })
    }

    /// Removes the queue with all its jobs, schedules and statistics, and returns the number of
    /// jobs. Others who have it open get an error at their next call; the next one that opens it
    /// makes a new one.
    ///
    /// # Errors
    /// As [`remove`](Self::remove), but that a part of the jobs may be removed.
    pub fn drop_queue(self) -> Result<u64> {
        now(self.drop_by(Caller::Thread))
    }

    /// As [`drop_queue`](Self::drop_queue), as a future. If that is dropped, the queue has the rest
    /// of its jobs.
    pub fn drop_queue_async(self) -> impl Future<Output = Result<u64>> + Send {
        self.drop_by(Caller::Task)
    }

    async fn drop_by(self, caller: Caller) -> Result<u64> {
        let mut jobs = 0;
        let purge = Purge::new().states(ORDER);
        self.clone().purge_by(caller, purge, &mut jobs).await?;
        // Each batch is larger than the one before, so that producers do not keep it from its end.
        for batch in (BATCH..).step_by(BATCH) {
            let call = self.call(move |work, queue| drop_some(work, queue, batch));
            let taken = caller.answer(call).await;
            let (removed, is_gone) = taken.map_err(|error| after_a_part(error, jobs))?;
            jobs += removed;
            if is_gone {
                break;
            }
        }
        Ok(jobs)
    }
}

/// Takes steps until there is no more to do, or `done` has come to `limit`. A step is
/// given the last job that was looked at and how many it may deal with. Jobs that were pushed after the
/// first step are left: producers may be faster than the steps.
async fn in_steps(
    caller: Caller,
    limit: u64,
    done: &mut Affected,
    mut step: impl FnMut(i64, u64) -> PendingCall<Step>,
) -> Result<()> {
    let (mut after, mut newest) = (i64::MIN, None);
    while done.jobs < limit {
        let taken = caller.answer(step(after, limit - done.jobs)).await;
        let taken = taken.map_err(|error| after_a_part(error, done.jobs))?;
        done.jobs += taken.jobs;
        done.without_key += taken.without_key;
        match taken.more_after {
            Some(last) if last < *newest.get_or_insert(taken.newest) => after = last,
            _ => break,
        }
    }
    Ok(())
}

/// The error of a step, which undoes nothing of the steps before: those have done this many jobs.
pub fn after_a_part(error: Error, jobs: u64) -> Error {
    if jobs == 0 {
        return error;
    }
    let rest = match error.kind() {
        ErrorKind::OutcomeUnknown { .. } => "all of the next batch or nothing of it",
        _ => "nothing of the rest",
    };
    let state = format!("what was done before it stays; {rest}");
    error.on_disk_instead(state).marked(Mark::InPart)
}

/// Does something with each of these jobs, until this many were ones to count.
fn step(
    work: &Work<'_>,
    queue: &QueueRow,
    ids: &[i64],
    room: u64,
    mut each: impl FnMut(&JobRow) -> Result<bool>,
) -> Result<Step> {
    let (mut jobs, newest) = (0, newest(work)?);
    for &id in ids {
        if jobs == room {
            return Ok(Step { jobs, without_key: 0, more_after: None, newest });
        }
        if let Some(job) = find(work, queue, id)? {
            jobs += u64::from(each(&job)?);
        }
    }
    let more_after = ids.last().copied().filter(|_| ids.len() >= BATCH);
    Ok(Step { jobs, without_key: 0, more_after, newest })
}

fn newest(work: &Work<'_>) -> Result<i64> {
    work.first(NEWEST, (), |row| row.get(0)).map(Option::unwrap_or_default)
}

/// The job, if it is one of this queue.
fn find(work: &Work<'_>, queue: &QueueRow, id: i64) -> Result<Option<JobRow>> {
    Ok(settle::find(work, id)?.filter(|job| job.queue == queue.id))
}

fn retry_one(work: &Work<'_>, queue: i64, id: i64) -> Result<Affected> {
    let queue = work.row(queue)?;
    let found = find(work, &queue, id)?;
    found.map_or(Ok(Affected::default()), |job| retry(work, &queue, &job))
}

/// Retries a job, if it is dead.
fn retry(work: &Work<'_>, queue: &QueueRow, job: &JobRow) -> Result<Affected> {
    if job.state() != Some(JobState::Dead) {
        return Ok(Affected::default());
    }
    let state = group::waiting_state(work, queue, job.group.as_deref(), work.now_ms)?;
    work.execute(RETRY, params![job.id, state.number(), work.now_ms])?;
    let has_key = match &job.key {
        Some(key) => {
            // As for a push: a holder whose time is over leaves the key.
            push::holder(work, queue, &key.text)?;
            key::waits_again(work, queue.id, job.id, key)?
        }
        None => true,
    };
    if state != JobState::Blocked {
        work.wake(queue, 1);
    }
    Ok(Affected { jobs: 1, without_key: u64::from(!has_key) })
}

fn remove(work: &Work<'_>, queue: &QueueRow, job: &JobRow) -> Result<()> {
    settle::delete(work, job)?;
    if job.state().is_some_and(JobState::has_ended) {
        // Its key and slot were free from its end on.
        return Ok(());
    }
    settle::ended(work, queue, job)
}

/// Removes a job that is in this state; returns false if it is in another one.
fn remove_from(work: &Work<'_>, queue: &QueueRow, job: &JobRow, state: JobState) -> Result<bool> {
    let is_meant = job.state() == Some(state);
    if is_meant {
        remove(work, queue, job)?;
    }
    Ok(is_meant)
}

/// Removes at most `batch` of the queue's jobs, and the queue if it has fewer. Returns the number of
/// jobs, and true if the queue is gone.
fn drop_some(work: &Work<'_>, queue: i64, batch: usize) -> Result<(u64, bool)> {
    let row = work.row(queue)?;
    let mut jobs = 0;
    for state in ORDER {
        for id in some_of(work, queue, state, i64::MIN, batch - jobs)? {
            if let Some(job) = find(work, &row, id)? {
                remove(work, &row, &job)?;
                jobs += 1;
            }
        }
    }
    for sql in [DROP_KEYS, DROP_RATES] {
        if jobs >= batch || work.execute(sql, params![queue, batch as i64])? >= batch {
            return Ok((jobs as u64, false));
        }
    }
    for sql in [
        "DELETE FROM leafpress_schedule WHERE queue = ?1",
        "DELETE FROM leafpress_minute WHERE queue = ?1",
        "DELETE FROM leafpress_queue WHERE id = ?1",
    ] {
        work.execute(sql, [queue])?;
    }
    work.forget_row(queue);
    // Those who wait are to learn of it.
    work.wake(&row, u32::MAX);
    Ok((jobs as u64, true))
}

/// Some jobs of this state: of those that are done or dead, the first after `after`; of others any.
fn some_of(
    work: &Work<'_>,
    queue: i64,
    state: JobState,
    after: i64,
    jobs_max: usize,
) -> Result<Vec<i64>> {
    let jobs_max = jobs_max as i64;
    let sql = any_of(state);
    if state.has_ended() {
        return work.all(sql, params![queue, after, jobs_max], |row| row.get(0));
    }
    work.all(sql, params![queue, jobs_max], |row| row.get(0))
}

/// The statement that reads the ids of jobs of this state.
fn any_of(state: JobState) -> &'static str {
    match state {
        JobState::Ready => READY,
        JobState::Leased => LEASED,
        JobState::Delayed => DELAYED,
        JobState::Blocked => BLOCKED,
        JobState::Done => DONE,
        JobState::Dead => DEAD,
    }
}

/// The jobs of a state that is neither done nor dead, at most `jobs_max`: their ids, by an index
/// alone.
fn ids_in(connection: &Connection, queue: i64, state: JobState, jobs_max: u64) -> Result<Vec<i64>> {
    let jobs_max = i64::try_from(jobs_max).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(any_of(state)).map_err(failed)?;
    let ids = statement.query_map(params![queue, jobs_max], |row| row.get(0)).map_err(failed)?;
    ids.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// The statements of this file that may meet many jobs, for tests of their plans.
#[cfg(test)]
pub(super) const STATEMENTS: [(&str, &str); 11] = [
    ("retry a dead letter", RETRY),
    ("dead letters", DEAD),
    ("jobs that are done", DONE),
    ("some ready jobs", READY),
    ("some leased jobs", LEASED),
    ("some delayed jobs", DELAYED),
    ("some blocked jobs", BLOCKED),
    ("walk through all jobs", WALK),
    ("the newest job", NEWEST),
    ("drop some keys", DROP_KEYS),
    ("drop some buckets", DROP_RATES),
];

#[cfg(test)]
mod tests;
