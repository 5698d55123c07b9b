//! Times that jobs waited and ran: counts in buckets whose width grows with the time.
//!
//! ```text
//! ms      0 1 2 … 15 | 16-17 18-19 … 30-31 | 32-35 … | 64-71 … | …
//! bucket  0 1 2 … 15 | 16    17    … 23    | 24    … | 32    … | …   eight a doubling
//! ```
//!
//! So a quantile is at most one eighth too high, whatever the time is, and
//! the histograms of several processes and minutes add up bucket by bucket.
//! Stored as JSON text, by the buckets' upper ends, those that are empty left
//! out: `{"sum_ms":57,"max_ms":33,"at_most_ms":{"4":6,"35":1}}`.
//!
//! Must never: lose a count because a time was out of range (longer ones count
//! as two years).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Buckets for each doubling, as a power of two.
const SPLIT_BITS: u32 = 3;
const SPLIT: u64 = 1 << SPLIT_BITS;
/// Longer times count as this: 2.2 years.
const VALUE_MAX_MS: u64 = (1 << 36) - 1;
const BUCKETS: usize = bucket_of(VALUE_MAX_MS) + 1;

/// Counts of times; see the module.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Stored", from = "Stored")]
pub(in crate::queue) struct Histogram {
    buckets: [u64; BUCKETS],
    count: u64,
    sum_ms: u64,
    max_ms: u64,
}

/// The stored form.
#[expect(clippy::struct_field_names, reason = "the keys of the JSON say their unit")]
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    sum_ms: u64,
    max_ms: u64,
    at_most_ms: BTreeMap<u64, u64>,
}

const fn bucket_of(value_ms: u64) -> usize {
    if value_ms < SPLIT {
        return value_ms as usize;
    }
    let shift = u64::BITS - 1 - value_ms.leading_zeros() - SPLIT_BITS;
    ((shift as usize) << SPLIT_BITS) + (value_ms >> shift) as usize
}

/// The largest time in a bucket.
const fn at_most_ms(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SPLIT {
        return bucket;
    }
    let shift = (bucket >> SPLIT_BITS) - 1;
    ((SPLIT + (bucket & (SPLIT - 1)) + 1) << shift) - 1
}

impl Histogram {
    /// Counts a time this many times.
    #[inline]
    pub(in crate::queue) fn record(&mut self, value_ms: u64, times: u64) {
        let value_ms = value_ms.min(VALUE_MAX_MS);
        self.buckets[bucket_of(value_ms)] += times;
        self.count += times;
        self.sum_ms = self.sum_ms.saturating_add(value_ms.saturating_mul(times));
        self.max_ms = self.max_ms.max(value_ms);
    }

    /// Adds what another one counted.
    pub(in crate::queue) fn add(&mut self, other: &Self) {
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *own = own.saturating_add(*more);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum_ms = self.sum_ms.saturating_add(other.sum_ms);
        self.max_ms = self.max_ms.max(other.max_ms);
    }

    /// Number of times that were counted.
    pub(in crate::queue) fn count(&self) -> u64 {
        self.count
    }

    /// All of them together.
    pub(in crate::queue) fn sum_ms(&self) -> u64 {
        self.sum_ms
    }

    /// The longest, exactly.
    pub(in crate::queue) fn max_ms(&self) -> u64 {
        self.max_ms
    }

    /// The time that this share of the times (0 to 1) did not exceed; 0 if there are none.
    pub(in crate::queue) fn quantile_ms(&self, share: f64) -> u64 {
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0_u64;
        for (bucket, count) in self.buckets.iter().enumerate() {
            below = below.saturating_add(*count);
            if below >= wanted {
                // A bucket's upper end may be more than anything took.
                return at_most_ms(bucket).min(self.max_ms);
            }
        }
        self.max_ms
    }

    /// Number of times that were not longer than this, to a bucket.
    pub(in crate::queue) fn count_at_most(&self, bound_ms: u64) -> u64 {
        let last = bucket_of(bound_ms.min(VALUE_MAX_MS));
        self.buckets[..=last].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl From<Histogram> for Stored {
    fn from(it: Histogram) -> Self {
        let counted = it.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        let at_most_ms = counted.map(|(bucket, count)| (at_most_ms(bucket), *count)).collect();
        Self { sum_ms: it.sum_ms, max_ms: it.max_ms, at_most_ms }
    }
}

impl From<Stored> for Histogram {
    /// Other upper ends than ours, as of a later version, go to the bucket they are in.
    fn from(stored: Stored) -> Self {
        let mut read = Self { sum_ms: stored.sum_ms, max_ms: stored.max_ms, ..Self::default() };
        for (at_most, count) in stored.at_most_ms {
            let bucket = &mut read.buckets[bucket_of(at_most.min(VALUE_MAX_MS))];
            *bucket = bucket.saturating_add(count);
            read.count = read.count.saturating_add(count);
        }
        read
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], count: 0, sum_ms: 0, max_ms: 0 }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} times, {} ms together, at most {}", self.count, self.sum_ms, self.max_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(next), bucket, "{next} ms");
            let last = at_most_ms(bucket);
            assert_eq!(bucket_of(last), bucket, "{last} ms");
            assert!(last - next <= next / SPLIT, "{next} to {last} ms");
            next = last + 1;
        }
        assert_eq!(next, VALUE_MAX_MS + 1);
    }

    fn stored(some: &Histogram) -> String {
        serde_json::to_string(some).expect("numbers have a text")
    }

    #[test]
    fn the_text_is_readable() {
        let mut some = Histogram::default();
        some.record(4, 6);
        some.record(33, 1);
        assert_eq!(stored(&some), r#"{"sum_ms":57,"max_ms":33,"at_most_ms":{"4":6,"35":1}}"#);
        assert_eq!([some.quantile_ms(0.5), some.quantile_ms(0.99)], [4, 33]);
    }

    #[test]
    fn nothing_is_lost_out_of_range_or_overflows() {
        let mut some = Histogram::default();
        some.record(u64::MAX, 2);
        assert_eq!((some.count(), some.max_ms()), (2, VALUE_MAX_MS));
        let full = r#"{"sum_ms":1,"at_most_ms":{"16":18446744073709551615,"17":1}}"#;
        let mut read: Histogram = serde_json::from_str(full).expect("a histogram");
        read.add(&read.clone());
        assert_eq!((read.count(), read.count_at_most(u64::MAX)), (u64::MAX, u64::MAX));
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_times_to_an_eighth(
            mut times_ms in prop::collection::vec(
                (0..40_u32, any::<u32>()).prop_map(|(bits, low)| u64::from(low) >> bits.min(31)), 1..200),
            share in 0.0..1.0_f64,
        ) {
            let mut whole = Histogram::default();
            let mut parts = [Histogram::default(), Histogram::default()];
            for (index, &time_ms) in times_ms.iter().enumerate() {
                whole.record(time_ms, 1);
                parts[index % 2].record(time_ms, 1);
            }
            let [mut joined, other] = parts;
            joined.add(&other);
            prop_assert_eq!(&joined, &whole);
            let read: Histogram = serde_json::from_str(&stored(&whole)).expect("a histogram");
            prop_assert_eq!(&read, &whole);
            times_ms.sort_unstable();
            let wanted = (times_ms.len() as f64 * share).ceil() as usize;
            let exact = times_ms[wanted.max(1) - 1];
            let told = whole.quantile_ms(share);
            prop_assert!(exact <= told && told <= exact + exact / SPLIT, "{} for {}", told, exact);
            prop_assert_eq!(whole.count_at_most(u64::MAX), times_ms.len() as u64);
            prop_assert_eq!(whole.max_ms(), *times_ms.last().unwrap());
            prop_assert_eq!(whole.sum_ms(), times_ms.iter().sum::<u64>());
        }
    }
}
