//! Statistics of a queue: counts, ages, rates, latencies.
//!
//! ```text
//! push, claim, … ─ note ─► counters ─ once a second, within a transaction
//!                                  that happens anyway ─► leafpress_minute
//! stats() = counts of the tables' indexes, and the minutes, after writing the counters
//! ```
//!
//! The operations say what they did by [`note`]; that is counted in memory, once
//! it is committed, and written at most once a second (and by the first operation
//! after a pause, and when the writer is closed). So a process that is killed
//! loses at most the counts of its last second, and never a job. All processes
//! add to the same minutes.
//!
//! Must never: make an operation wait for anything but memory, or fail because of a figure that was
//! changed from outside.

mod calls;
mod collect;
mod counters;
mod events;
mod histogram;
mod minutes;
mod prometheus;

use std::time::Duration;

use serde::{Serialize, Serializer};

pub(super) use self::counters::{Counters, Event};
pub use self::events::Events;

use super::job::JobState;
use super::session::{Work, failed};
use super::settings::Rate;
use crate::error::Result;
use crate::times::{UnixTime, in_milliseconds};
use crate::writer::Bucket;

/// Time between writes of the counters.
const WRITE_EVERY_MS: i64 = 1_000;

/// Statistics of a queue: its jobs now, and the events so far.
///
/// All of it is of one moment and exact, but for what other processes have
/// counted and not written yet: that of their last second of work. Jobs that are
/// pushed on connections of the application's own are in the totals at once, and in
/// the rates when the next process writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// True if the queue is paused.
    pub is_paused: bool,
    /// Time of these figures.
    #[serde(rename = "now_ms")]
    pub now: UnixTime,
    /// Jobs by their states.
    pub jobs: JobCounts,
    /// Ordering groups in which jobs are blocked.
    pub groups_blocked: u64,
    /// For how long the ready job that was pushed first could have been claimed.
    /// (Of at most 1,000 priorities, the lowest, which wait the longest.)
    #[serde(rename = "oldest_ready_ms", serialize_with = "crate::times::optional_milliseconds")]
    pub oldest_ready: Option<Duration>,
    /// Age of the oldest claim that still holds its job.
    #[serde(rename = "oldest_lease_ms", serialize_with = "crate::times::optional_milliseconds")]
    pub oldest_lease: Option<Duration>,
    /// Time at which the first of the leases ends.
    #[serde(rename = "next_lease_end_ms")]
    pub next_lease_end: Option<UnixTime>,
    /// Time at which the next delayed job comes due.
    #[serde(rename = "next_due_ms")]
    pub next_due: Option<UnixTime>,
    /// Limits for claims.
    pub limits: Limits,
    /// Events since the queue was made. These counts only grow.
    pub totals: Events<u64>,
    /// Events of the last minute, per second in the mean.
    pub per_second_last_minute: Events<f64>,
    /// Events of the last hour, per second in the mean.
    pub per_second_last_hour: Events<f64>,
    /// Attempts that it took until an ack, in the mean of the last hour's acks; none
    /// if there were none.
    pub attempts_per_ack: Option<f64>,
    /// From the time that a job was due to its claim, in the last hour.
    pub wait: Times,
    /// From claim to ack, in the last hour.
    pub run: Times,
    /// From the time that a job was due to its claim, since the queue was made.
    pub totals_wait: Times,
    /// From claim to ack since the queue was made.
    pub totals_run: Times,
}

/// Jobs in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobCounts {
    /// Jobs that may be claimed.
    pub ready: u64,
    /// Jobs that a consumer has.
    pub leased: u64,
    /// Jobs that wait for their time.
    pub delayed: u64,
    /// Jobs that wait for their group.
    pub blocked: u64,
    /// Jobs that were acked, and are kept for a while.
    pub done: u64,
    /// Dead letters.
    pub dead: u64,
}

impl JobCounts {
    /// The states' names and their counts.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("ready", self.ready),
            ("leased", self.leased),
            ("delayed", self.delayed),
            ("blocked", self.blocked),
            ("done", self.done),
            ("dead", self.dead),
        ]
    }

    /// Number of jobs in this state.
    pub fn of(&self, state: JobState) -> u64 {
        match state {
            JobState::Ready => self.ready,
            JobState::Leased => self.leased,
            JobState::Delayed => self.delayed,
            JobState::Blocked => self.blocked,
            JobState::Done => self.done,
            JobState::Dead => self.dead,
        }
    }

    /// Number of jobs that are still to be done: all but done and dead.
    pub fn open(&self) -> u64 {
        self.ready + self.leased + self.delayed + self.blocked
    }
}

/// The limits that the settings set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Limits {
    /// Jobs in flight at once.
    pub concurrency: Option<u32>,
    /// Jobs of one ordering group that may be in flight at once.
    pub group_concurrency: u32,
    /// Limit of the rate of claims.
    pub rate: Option<Rate>,
    /// Claims of one ordering group in a time.
    pub group_rate: Option<Rate>,
}

/// Durations. The quantiles are at most an eighth too high.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Times {
    /// Number of durations.
    pub count: u64,
    /// All of it together.
    #[serde(rename = "sum_ms", serialize_with = "crate::times::milliseconds")]
    pub sum: Duration,
    /// The mean.
    #[serde(rename = "mean_ms", serialize_with = "crate::times::exact_milliseconds")]
    pub mean: Duration,
    /// Half took at most this.
    #[serde(rename = "p50_ms", serialize_with = "crate::times::milliseconds")]
    pub p50: Duration,
    /// Nine of ten took at most this.
    #[serde(rename = "p90_ms", serialize_with = "crate::times::milliseconds")]
    pub p90: Duration,
    /// 99 of 100 took at most this.
    #[serde(rename = "p99_ms", serialize_with = "crate::times::milliseconds")]
    pub p99: Duration,
    /// The longest, exactly.
    #[serde(rename = "max_ms", serialize_with = "crate::times::milliseconds")]
    pub max: Duration,
    /// Numbers of durations up to each bound; as JSON in milliseconds.
    #[serde(serialize_with = "buckets_in_milliseconds")]
    pub buckets: Vec<Bucket<Duration>>,
}

fn whole_milliseconds(time: Duration) -> u64 {
    in_milliseconds(time).unsigned_abs()
}

fn buckets_in_milliseconds<S: Serializer>(
    buckets: &[Bucket<Duration>],
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.collect_seq(buckets.iter().map(|it| it.in_unit(whole_milliseconds)))
}

/// Says that something happened in this queue, to be counted if the transaction
/// is committed. Some tens of nanoseconds, and no SQL, but on a connection of the
/// application's own.
#[inline]
pub(super) fn note(work: &Work<'_>, queue: i64, event: Event) -> Result<()> {
    match work.session {
        Some(session) => {
            session.counters().note(queue, work.now_ms, event);
            Ok(())
        }
        None => note_outside(work, queue, event),
    }
}

/// Notes an event on a connection of the application's own: of a push, which may end the job that
/// holds its key.
fn note_outside(work: &Work<'_>, queue: i64, event: Event) -> Result<()> {
    let mut counts = counters::Counts::default();
    counts.apply(event, 1);
    minutes::add_outside(work.connection, queue, &counts).map_err(failed)
}

/// Writes the counts, if they were not written in the last second. Each operation does this last, so
/// that its own events are counted too.
#[inline]
pub(super) fn write_if_due(work: &Work<'_>) -> Result<()> {
    match work.session {
        Some(session) if session.counters().is_due(work.now_ms, WRITE_EVERY_MS) => write(work),
        _ => Ok(()),
    }
}

/// Writes the counts, in the open transaction.
pub(super) fn write(work: &Work<'_>) -> Result<()> {
    let Some(session) = work.session else { return Ok(()) };
    let counted = session.counters().take_for_writing(work.now_ms);
    minutes::write(work.connection, &counted, work.now_ms).map_err(failed)
}

/// All figures of a queue, as they stand in the database.
pub(super) fn collect_of(
    connection: &rusqlite::Connection,
    queue: i64,
    now_ms: i64,
) -> Result<QueueStats> {
    collect::collect(connection, queue, now_ms)
}

/// The statements of this folder, for tests of their plans.
#[cfg(test)]
pub(super) fn statements() -> Vec<(&'static str, &'static str)> {
    [collect::STATEMENTS.as_slice(), minutes::STATEMENTS.as_slice()].concat()
}

#[cfg(test)]
mod tests;
