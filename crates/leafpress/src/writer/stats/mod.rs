//! Numbers of the writer's work so far.
//!
//! The writer's thread tells the [`Recorder`] once per group; a caller that asks gets a
//! [`WriterStats`], which is a copy and changes no more.
//!
//! ```text
//! submit ──────── wait ────────► BEGIN … statements … COMMIT ──► answer
//!   │                            │                    └commit┘     │
//!   └──────────────────────── total ───────────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. Every call that was in a committed group is counted once in `calls`, in
//!    `wait` and in `total`; every group once in `commits`, in `commit` and in
//!    `group_size`. So a replay counts nothing twice.
//! 2. A snapshot is of one moment: its numbers belong together, but for those
//!    of the queue, which moves on meanwhile.
//!
//! Must never: make the writer's thread wait for a reader of the numbers longer than it takes
//! to copy four histograms (under 20 µs), or lose a count because a time was out of range.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leafpress_vfs::text::scaled;
use serde::{Serialize, Serializer};

use super::readers::OldestReader;
use super::shared::SharingStats;
use crate::checkpoint::CheckpointStats;
use crate::histogram::Histogram;
use crate::sync::lock;
use crate::times::in_microseconds;

/// Quantiles are exact to one part in 128. With a third digit each histogram would take eight times
/// the memory, and copying it would make commits wait.
type Distribution = Histogram<7>;

/// Upper ends of the buckets that are shown, as Prometheus likes them: the
/// same in all versions and few enough to be kept for years.
const LATENCY_BOUNDS_US: [u64; 19] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];
const GROUP_SIZE_BOUNDS: [u64; 15] =
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384];

/// Numbers of a writer's work since it was opened. All counts only grow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WriterStats {
    /// Time since the Writer was opened.
    #[serde(rename = "open_s", serialize_with = "crate::times::seconds")]
    pub open_for: Duration,
    /// Groups that were committed.
    pub commits: u64,
    /// Calls that were in them, failed ones too.
    pub calls: u64,
    /// Calls that were answered with an error, whatever became of their group.
    pub calls_failed: u64,
    /// Calls that were taken back before they began.
    pub calls_cancelled: u64,
    /// Calls that were sent away as the queue was full.
    pub queue_full: u64,
    /// Groups that were lost as a whole, because one of their calls (or the
    /// disk) undid them; their other calls ran again.
    pub groups_rolled_back: u64,
    /// Calls that ran again because of that.
    pub calls_replayed: u64,
    /// Groups that found another connection writing when they should begin.
    pub busy_waits: u64,
    /// Calls in a group.
    pub group_size: GroupSizes,
    /// From the submit of a call to the begin of its group.
    pub wait: Latency,
    /// The COMMIT alone, with its sync if the profile has one.
    pub commit: Latency,
    /// From the submit of a call to its answer.
    pub total: Latency,
    /// Calls that wait in the queue now.
    pub queue_depth: u64,
    /// The most that ever waited there at once.
    pub queue_depth_max: u64,
    /// Size of the write-ahead log after the last commit; 0 without one, and once it was cut to
    /// nothing since.
    pub wal_bytes: u64,
    /// The largest it has been after a commit.
    pub wal_bytes_max: u64,
    /// The reader to look at first, if any is out; see
    /// [`OldestReader`] for how precise that is.
    pub oldest_reader: Option<OldestReader>,
    /// Its part in sharing the database with other processes; `None` if it was not opened
    /// [`shared`](super::WriterBuilder::shared), and after it was closed.
    pub sharing: Option<SharingStats>,
    /// Numbers of the checkpointer; none without a write-ahead log, or once the writer is closed.
    pub checkpoints: Option<CheckpointStats>,
}

/// Durations of one step of the writer's work.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Latency {
    /// Number of durations.
    pub count: u64,
    /// All of it together.
    #[serde(rename = "sum_us", serialize_with = "crate::times::whole_microseconds")]
    pub sum: Duration,
    /// The mean.
    #[serde(rename = "mean_us", serialize_with = "crate::times::microseconds")]
    pub mean: Duration,
    /// Half were at most this; exact to 1 %, like the next two.
    #[serde(rename = "p50_us", serialize_with = "crate::times::whole_microseconds")]
    pub p50: Duration,
    /// 99 of 100 were at most this.
    #[serde(rename = "p99_us", serialize_with = "crate::times::whole_microseconds")]
    pub p99: Duration,
    /// 999 of 1,000 were at most this.
    #[serde(rename = "p999_us", serialize_with = "crate::times::whole_microseconds")]
    pub p999: Duration,
    /// The longest, exactly.
    #[serde(rename = "max_us", serialize_with = "crate::times::whole_microseconds")]
    pub max: Duration,
    /// Numbers of durations up to each bound; as JSON in microseconds.
    #[serde(serialize_with = "buckets_in_microseconds")]
    pub buckets: Vec<Bucket<Duration>>,
}

/// Numbers of calls that were committed at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupSizes {
    /// Groups.
    pub count: u64,
    /// Calls in all of them.
    pub sum: u64,
    /// The mean.
    pub mean: f64,
    /// Half of the groups had at most this many calls; exact to 1 %, like the next.
    pub p50: u64,
    /// 99 of 100 had at most this many.
    pub p99: u64,
    /// The largest, exactly.
    pub max: u64,
    /// Numbers of groups up to each number of calls.
    pub buckets: Vec<Bucket>,
}

/// A bucket of a histogram, as Prometheus counts: those below included. Those
/// above the last bound are in the histogram's `count` alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Bucket<T = u64> {
    /// The largest value in it (exact to 1 %).
    pub at_most: T,
    /// Number of values that are not larger.
    pub count: u64,
}

impl<T> Bucket<T> {
    /// The buckets of a histogram that end at these bounds; `shown` makes a bound of a number.
    pub(crate) fn all<const SPLIT_BITS: u32>(
        of: &Histogram<SPLIT_BITS>,
        bounds: &[u64],
        shown: fn(u64) -> T,
    ) -> Vec<Self> {
        let bucket = |&bound| Self { at_most: shown(bound), count: of.count_at_most(bound) };
        bounds.iter().map(bucket).collect()
    }
}

impl Bucket<Duration> {
    /// The bucket with its bound as a number of some unit.
    pub(crate) fn in_unit(&self, unit: fn(Duration) -> u64) -> Bucket {
        Bucket { at_most: unit(self.at_most), count: self.count }
    }
}

fn buckets_in_microseconds<S: Serializer>(
    buckets: &[Bucket<Duration>],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(buckets.iter().map(|it| it.in_unit(in_microseconds)))
}

/// Measures of a committed group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupDone {
    /// Those of its calls that were answered with an error.
    pub failed: u64,
    /// When its BEGIN was about to run.
    pub begun: Instant,
    /// Duration of its COMMIT.
    pub commit: Duration,
    /// When its callers were answered, or about to be.
    pub answered: Instant,
    /// Size of the write-ahead log now; 0 without one.
    pub wal_bytes: u64,
    /// Events that were no part of its plain way.
    pub detours: Detours,
}

/// Events besides the commit while a group was made and committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Detours {
    /// Calls that were taken back before it began.
    pub cancelled: u64,
    /// Times that its transaction was lost.
    pub rolled_back: u64,
    /// Calls that ran again because of that.
    pub calls_replayed: u64,
    /// Times that another connection's lock was waited for.
    pub busy_waits: u64,
}

/// Takes the numbers as they come. The writer's thread tells it of groups,
/// other threads of their queue.
#[derive(Debug)]
pub(crate) struct Recorder {
    opened: Instant,
    groups: Mutex<Groups>,
    queue_full: AtomicU64,
}

/// Numbers that the writer's thread writes.
#[derive(Debug, Clone, Default)]
struct Groups {
    calls_failed: u64,
    detours: Detours,
    wal_bytes: u64,
    wal_bytes_max: u64,
    size: Distribution,
    wait: Distribution,
    commit: Distribution,
    total: Distribution,
}

impl Detours {
    fn add(&mut self, more: &Self) {
        self.cancelled += more.cancelled;
        self.rolled_back += more.rolled_back;
        self.calls_replayed += more.calls_replayed;
        self.busy_waits += more.busy_waits;
    }
}

impl Recorder {
    /// A recorder of nothing yet.
    pub fn new() -> Self {
        Self { opened: Instant::now(), groups: Mutex::default(), queue_full: AtomicU64::new(0) }
    }

    /// A group is committed; `submitted` tells of each of its calls when it was
    /// submitted. Calls that failed by themselves belong to it.
    pub fn group_committed(&self, group: &GroupDone, submitted: impl Iterator<Item = Instant>) {
        let mut groups = self.groups();
        let mut calls = 0;
        for submitted in submitted {
            calls += 1;
            groups
                .wait
                .record(in_microseconds(group.begun.saturating_duration_since(submitted)), 1);
            groups
                .total
                .record(in_microseconds(group.answered.saturating_duration_since(submitted)), 1);
        }
        groups.size.record(calls, 1);
        groups.commit.record(in_microseconds(group.commit), 1);
        groups.calls_failed += group.failed;
        groups.detours.add(&group.detours);
        groups.wal_bytes = group.wal_bytes;
        groups.wal_bytes_max = groups.wal_bytes_max.max(group.wal_bytes);
    }

    /// A call was sent away as the queue was full.
    pub fn queue_full(&self) {
        self.queue_full.fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers of this moment. The caller adds those of the queue, the readers and the
    /// checkpointer.
    pub fn snapshot(&self) -> WriterStats {
        // Quantiles are looked for in a copy, while the next group goes on.
        let groups = self.groups().clone();
        let group_size = group_sizes(&groups.size);
        WriterStats {
            open_for: self.opened.elapsed(),
            commits: group_size.count,
            calls: group_size.sum,
            calls_failed: groups.calls_failed,
            calls_cancelled: groups.detours.cancelled,
            queue_full: self.queue_full.load(Ordering::Relaxed),
            groups_rolled_back: groups.detours.rolled_back,
            calls_replayed: groups.detours.calls_replayed,
            busy_waits: groups.detours.busy_waits,
            group_size,
            wait: latency(&groups.wait),
            commit: latency(&groups.commit),
            total: latency(&groups.total),
            queue_depth: 0,
            queue_depth_max: 0,
            wal_bytes: groups.wal_bytes,
            wal_bytes_max: groups.wal_bytes_max,
            oldest_reader: None,
            sharing: None,
            checkpoints: None,
        }
    }

    /// A panic while it was locked leaves at worst one group half counted.
    fn groups(&self) -> MutexGuard<'_, Groups> {
        lock(&self.groups)
    }
}

fn mean(of: &Distribution) -> f64 {
    if of.count == 0 { 0.0 } else { of.sum as f64 / of.count as f64 }
}

fn latency(of: &Distribution) -> Latency {
    let quantile = |share| Duration::from_micros(of.quantile(share));
    Latency {
        count: of.count,
        sum: Duration::from_micros(of.sum),
        mean: Duration::from_secs_f64(mean(of) / 1e6),
        p50: quantile(0.5),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: Duration::from_micros(of.max),
        buckets: Bucket::all(of, &LATENCY_BOUNDS_US, Duration::from_micros),
    }
}

fn group_sizes(of: &Distribution) -> GroupSizes {
    GroupSizes {
        count: of.count,
        sum: of.sum,
        mean: mean(of),
        p50: of.quantile(0.5),
        p99: of.quantile(0.99),
        max: of.max,
        buckets: Bucket::all(of, &GROUP_SIZE_BOUNDS, |calls| calls),
    }
}

/// A small table for people.
impl fmt::Display for WriterStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = &self.group_size;
        writeln!(f, "commits        {} in {:.1} s", self.commits, self.open_for.as_secs_f64())?;
        writeln!(
            f,
            "calls          {}: {} failed, {} cancelled, {} sent away as the queue was full",
            self.calls, self.calls_failed, self.calls_cancelled, self.queue_full
        )?;
        writeln!(
            f,
            "calls a commit {:.1} in the mean, half at most {}, 99 % at most {}, at most {}",
            size.mean, size.p50, size.p99, size.max
        )?;
        writeln!(
            f,
            "rolled back    {} groups, {} calls ran again; {} waits for other writers",
            self.groups_rolled_back, self.calls_replayed, self.busy_waits
        )?;
        writeln!(f, "queue          {} calls, at most {}", self.queue_depth, self.queue_depth_max)?;
        writeln!(f, "WAL            {} bytes, at most {}", self.wal_bytes, self.wal_bytes_max)?;
        if let Some(reader) = &self.oldest_reader {
            writeln!(f, "oldest reader  {reader}")?;
        }
        if let Some(sharing) = &self.sharing {
            writeln!(f, "sharing        {sharing}")?;
        }
        if let Some(checkpoints) = &self.checkpoints {
            writeln!(
                f,
                "checkpoints    {} passes, {} catch-ups, {} given up, {} truncations, {} errors",
                checkpoints.passes,
                checkpoints.catch_ups,
                checkpoints.catch_ups_given_up,
                checkpoints.truncations,
                checkpoints.errors
            )?;
        }
        write!(f, "               {}", columns(["p50", "p99", "p99.9", "max", "mean"]))?;
        for (name, latency) in
            [("wait", &self.wait), ("commit", &self.commit), ("total", &self.total)]
        {
            let Latency { p50, p99, p999, max, mean, .. } = *latency;
            let shown = [p50, p99, p999, max, mean].map(|it| {
                scaled((it.as_nanos() as f64 / 1e3).round(), 1_000.0, &["µs", "ms", "s"])
            });
            write!(f, "\n{name:<15}{}", columns(shown.each_ref().map(String::as_str)))?;
        }
        Ok(())
    }
}

fn columns(texts: [&str; 5]) -> String {
    texts.map(|text| format!("{text:>10}")).concat()
}

#[cfg(test)]
pub(super) mod tests;
