//! Histogram of numbers, for the writer and the queue.
//!
//! Counts stand in [buckets](leafpress_vfs::buckets); beside them are the exact sum
//! and the largest number.
//!
//! Must never: lose a count because a number was large.

use leafpress_vfs::buckets::{bucket_max, bucket_of, quantile_bucket};

/// Counts of numbers, each known to one part in `2^SPLIT_BITS`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Histogram<const SPLIT_BITS: u32> {
    /// Up to the last one that is used.
    buckets: Vec<u64>,
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) max: u64,
}

impl<const SPLIT_BITS: u32> Histogram<SPLIT_BITS> {
    /// Counts a number this many times.
    #[inline]
    pub(crate) fn record(&mut self, value: u64, times: u64) {
        let bucket = bucket_of(value, SPLIT_BITS);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] = self.buckets[bucket].saturating_add(times);
        self.count = self.count.saturating_add(times);
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
        self.max = self.max.max(value);
    }

    /// Adds the numbers of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.add_counts(other.counts(), other.sum, other.max);
    }

    /// Adds numbers of which the largest of each bucket and the bucket's count are known, as
    /// [`counts`](Self::counts) gives them. Buckets may be others, as of a later version.
    pub(crate) fn add_counts(
        &mut self,
        counts: impl IntoIterator<Item = (u64, u64)>,
        sum: u64,
        max: u64,
    ) {
        let (sum, max) = (self.sum.saturating_add(sum), self.max.max(max));
        for (at_most, count) in counts {
            self.record(at_most, count);
        }
        (self.sum, self.max) = (sum, max);
    }

    /// The buckets that are used: the largest number of each, and its count.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let used = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bucket, count)| (bucket_max(bucket, SPLIT_BITS), *count))
    }

    /// The number that this share of the numbers (0 to 1) did not exceed; 0 if there are none.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        let bucket = quantile_bucket(&self.buckets, share);
        // A bucket's upper end may be more than any number was.
        bucket.map_or(0, |bucket| bucket_max(bucket, SPLIT_BITS).min(self.max))
    }

    /// Count of the numbers that were not larger than this, to a bucket.
    pub(crate) fn count_at_most(&self, bound: u64) -> u64 {
        let counts = self.buckets.iter().take(bucket_of(bound, SPLIT_BITS) + 1);
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_numbers_to_an_eighth(
            mut values in prop::collection::vec(
                (0..64_u32, any::<u64>()).prop_map(|(bits, low)| low >> bits), 1..200),
            share in 0.0..1.0_f64,
        ) {
            let mut whole = Histogram::<3>::default();
            let mut parts = [Histogram::default(), Histogram::default()];
            for (index, &value) in values.iter().enumerate() {
                whole.record(value, 1);
                parts[index % 2].record(value, 1);
            }
            let [mut joined, other] = parts;
            joined.add(&other);
            prop_assert_eq!(&joined, &whole);
            values.sort_unstable();
            let wanted = (values.len() as f64 * share).ceil() as usize;
            let exact = values[wanted.max(1) - 1];
            let told = whole.quantile(share);
            prop_assert!(exact <= told && told - exact <= exact / 8, "{} for {}", told, exact);
            prop_assert_eq!((whole.count, whole.max), (values.len() as u64, values[values.len() - 1]));
            prop_assert_eq!(whole.count_at_most(u64::MAX), whole.count);
            let sum = values.iter().fold(0, |sum: u64, value| sum.saturating_add(*value));
            prop_assert_eq!(whole.sum, sum);
        }
    }
}
