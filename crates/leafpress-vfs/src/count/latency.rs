//! Latencies of calls: a histogram that is cheap enough for every call.
//!
//! Its [buckets](crate::buckets) are four to each power of two of nanoseconds, so that a bucket is
//! never wider than a quarter of its lower end, from [`BUCKET_FIRST_NS_MAX`] to beyond a minute:
//!
//! ```text
//! bucket    0     1    2    3    4    5   …
//! from ns   0     32   40   48   56   64  …
//! width     32    8    8    8    8    16  …   the last one is open
//! ```
//!
//! So few, and atomic: there are fifty pairs of file kind and operation, each on the path of every
//! I/O call.
//!
//! Invariants:
//! 1. Each time that is recorded is in one bucket, and in the total.
//! 2. A copy has no empty bucket at its end, so equal histograms are equal values.
//!
//! Must never: lose a time because it was out of range, lock, or allocate while it
//! counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::buckets;

/// Buckets to a power of two, as a power of two.
const SUB_BITS: u32 = 2;
/// All calls of the first bucket took at most this. Reading the clock twice takes about as long;
/// nothing below can be told apart.
pub const BUCKET_FIRST_NS_MAX: u64 = 31;
/// The first bucket's number among those of all values.
const FIRST: usize = buckets::bucket_of(BUCKET_FIRST_NS_MAX, SUB_BITS);
/// 2^36 ns are 69 seconds; `max` tells of longer times.
const BUCKETS: usize = buckets::bucket_of((1 << 36) - 1, SUB_BITS) - FIRST + 1;

/// The bucket of a time.
fn bucket_of(ns: u64) -> usize {
    let bucket = buckets::bucket_of(ns.max(BUCKET_FIRST_NS_MAX), SUB_BITS) - FIRST;
    bucket.min(BUCKETS - 1)
}

/// The longest time of a bucket; the last one has no end.
fn bucket_ns_max(index: usize) -> u64 {
    if index < BUCKETS - 1 { buckets::bucket_max(index + FIRST, SUB_BITS) } else { u64::MAX }
}

/// The histogram that calls are counted in, by any number of threads.
#[derive(Debug)]
pub(super) struct LatencyCounter {
    buckets: [AtomicU64; BUCKETS],
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for LatencyCounter {
    fn default() -> Self {
        let buckets = [const { AtomicU64::new(0) }; BUCKETS];
        Self { buckets, total_ns: AtomicU64::new(0), max_ns: AtomicU64::new(0) }
    }
}

impl LatencyCounter {
    #[inline]
    pub(super) fn record(&self, ns: u64) {
        self.buckets[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        // Nearly every call is not the longest, and a look costs less than an exchange.
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// A copy. While other threads count, one call may be in its bucket and not yet in
    /// the total.
    pub(super) fn snapshot(&self) -> Latency {
        let buckets = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        Latency {
            buckets: without_empty_end(buckets.collect()),
            total: Duration::from_nanos(self.total_ns.load(Ordering::Relaxed)),
            max: Duration::from_nanos(self.max_ns.load(Ordering::Relaxed)),
        }
    }
}

/// Invariant 2.
fn without_empty_end(mut buckets: Vec<u64>) -> Vec<u64> {
    let used = buckets.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    buckets.truncate(used);
    buckets.shrink_to_fit();
    buckets
}

/// Latencies of calls.
///
/// As JSON: `{"p50_ns":…,"p99_ns":…,"max_ns":…,"total_ns":…}`, or `null` if no call was
/// timed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// All timed calls together. After 584 years it starts again at 0.
    pub total: Duration,
    /// The longest call.
    ///
    /// Of a difference ([`IoStats::since`](super::IoStats::since)) the longest can be
    /// known only to its bucket if there was a longer one before; then this is the
    /// bucket's upper end.
    pub max: Duration,
    buckets: Vec<u64>,
}

impl Latency {
    /// Number of timed calls. Fewer than were counted, where some happen inside of others or are
    /// too short: see `folder_sync` and `map` of [`FileIo`](super::FileIo).
    pub fn calls(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The time that a share `q` (0 to 1) of the timed calls took at most;
    /// zero if none was timed.
    ///
    /// It is too long by at most a quarter, never too short, and never longer than the
    /// longest call. Up to 31 ns are not told apart.
    pub fn quantile(&self, q: f64) -> Duration {
        let bucket = buckets::quantile_bucket(&self.buckets, q);
        bucket.map_or(Duration::ZERO, |index| bucket_end(index).min(self.max))
    }

    /// The buckets that hold anything: the longest time of each, and how many calls
    /// took no more than that, but more than the bucket before. Exact bounds are not
    /// promised from version to version.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counts = self.buckets.iter().copied().enumerate();
        counts.filter(|&(_, count)| count > 0).map(|(index, count)| (bucket_end(index), count))
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |index| earlier.buckets.get(index).copied().unwrap_or(0);
        let buckets = self.buckets.iter().enumerate();
        let buckets = buckets.map(|(index, count)| count.saturating_sub(before(index))).collect();
        let buckets = without_empty_end(buckets);
        let bound = buckets.len().checked_sub(1).map_or(Duration::ZERO, bucket_end);
        Self { total: self.total.saturating_sub(earlier.total), max: self.max.min(bound), buckets }
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let count = |of: &Self, index| of.buckets.get(index).copied().unwrap_or(0);
        let buckets = 0..self.buckets.len().max(other.buckets.len());
        Self {
            total: self.total.saturating_add(other.total),
            max: self.max.max(other.max),
            buckets: buckets.map(|index| count(self, index) + count(other, index)).collect(),
        }
    }
}

fn bucket_end(index: usize) -> Duration {
    Duration::from_nanos(bucket_ns_max(index))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.buckets.is_empty() {
            return serializer.serialize_none();
        }
        let mut fields = serializer.serialize_struct("Latency", 4)?;
        fields.serialize_field("p50_ns", &nanoseconds(self.quantile(0.5)))?;
        fields.serialize_field("p99_ns", &nanoseconds(self.quantile(0.99)))?;
        fields.serialize_field("max_ns", &nanoseconds(self.max))?;
        fields.serialize_field("total_ns", &nanoseconds(self.total))?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ns(time: u64) -> Duration {
        Duration::from_nanos(time)
    }

    fn histogram(times: &[u64]) -> Latency {
        let counter = LatencyCounter::default();
        for &ns in times {
            counter.record(ns);
        }
        counter.snapshot()
    }

    #[test]
    fn buckets_meet_without_gap_and_are_a_quarter_wide_at_most() {
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
        for index in 0..BUCKETS - 1 {
            let (last, first_of_next) = (bucket_ns_max(index), bucket_ns_max(index) + 1);
            assert_eq!((bucket_of(last), bucket_of(first_of_next)), (index, index + 1));
            if index > 0 {
                let first = bucket_ns_max(index - 1) + 1;
                assert!((last - first + 1) * 4 <= first, "bucket {index}");
            }
        }
        assert_eq!(bucket_of(1 << 36), BUCKETS - 1, "a time beyond the range");
    }

    #[test]
    fn nothing_timed_is_zero_everywhere() {
        let none = Latency::default();
        assert_eq!(none, histogram(&[]));
        assert_eq!((none.calls(), none.quantile(0.5), none.quantile(1.0)), (0, ns(0), ns(0)));
        assert_eq!(none.buckets().count(), 0);
        assert_eq!(serde_json::to_string(&none).unwrap(), "null");
    }

    #[test]
    fn the_longest_of_a_difference_is_no_longer_than_its_bucket() {
        let before = histogram(&[5_000_000, 100]);
        let after = histogram(&[5_000_000, 100, 120, 300]);
        let between = after.since(&before);
        assert_eq!((between.calls(), between.total), (2, ns(420)));
        assert_eq!(between.max, bucket_end(bucket_of(300)), "not the 5 ms of before");
        assert_eq!(after.since(&after), Latency::default());
        assert_eq!(after.since(&Latency::default()), after);
        let longer = histogram(&[5_000_000, 100, 120, 300, 6_000_001]);
        assert_eq!(longer.since(&before).max, ns(6_000_001), "exact, as it is the longest of all");
    }

    /// Times as calls have them, some of them out of range.
    fn times() -> impl Strategy<Value = Vec<u64>> {
        let time = prop_oneof![0..200_u64, 0..100_000_u64, 0..10_000_000_000_u64, 0..1_u64 << 54];
        proptest::collection::vec(time, 1..300)
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_times_within_a_bucket(
            times in times(), q in 0.0..=1.0_f64,
        ) {
            let mut times = times;
            let latency = histogram(&times);
            times.sort_unstable();
            for q in [q, 0.0, 0.5, 0.99, 1.0] {
                let rank = ((q * times.len() as f64).ceil() as usize).clamp(1, times.len());
                let exact = times[rank - 1];
                let found = nanoseconds(latency.quantile(q));
                prop_assert!(found >= exact, "{q}: {found} for {exact}");
                prop_assert_eq!(bucket_of(found), bucket_of(exact));
            }
            prop_assert_eq!(latency.quantile(1.0), ns(times[times.len() - 1]));
            prop_assert_eq!(latency.calls(), times.len() as u64);
            prop_assert_eq!(latency.total, ns(times.iter().sum::<u64>()));
            prop_assert_eq!(latency.buckets().map(|(_, count)| count).sum::<u64>(), latency.calls());
        }

        #[test]
        fn a_difference_and_what_was_before_make_the_whole(
            times in times(), cut in any::<prop::sample::Index>(),
        ) {
            let cut = cut.index(times.len());
            let (before, whole) = (histogram(&times[..cut]), histogram(&times));
            let between = whole.since(&before);
            let alone = histogram(&times[cut..]);
            prop_assert_eq!(&between.buckets, &alone.buckets);
            prop_assert_eq!(between.total, alone.total);
            prop_assert!(between.max >= alone.max);
            prop_assert_eq!(before.plus(&alone), whole);
        }
    }
}
