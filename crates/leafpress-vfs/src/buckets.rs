//! Buckets of histograms: the larger a value, the wider its bucket.
//!
//! Each power of two is split into as many buckets of equal width, `2^split_bits`, and smaller
//! values have a bucket each. With `split_bits` 3:
//!
//! ```text
//! value   0 1 2 … 15 | 16-17 18-19 … 30-31 | 32-35 … | 64-71 … | …
//! bucket  0 1 2 … 15 | 16    17    … 23    | 24    … | 32    … | …   eight a doubling
//! ```
//!
//! So a value is known to one part in `2^split_bits`, whatever it is, and histograms add up
//! bucket by bucket.
//!
//! Must never: allocate or lock, as each I/O call is counted by these buckets.

/// The bucket of a value.
pub const fn bucket_of(value: u64, split_bits: u32) -> usize {
    let shift = (u64::BITS - 1 - split_bits).saturating_sub(value.leading_zeros());
    ((shift as usize) << split_bits) + (value >> shift) as usize
}

/// The largest value of a bucket.
pub const fn bucket_max(bucket: usize, split_bits: u32) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> split_bits).saturating_sub(1);
    // The value after the last bucket would be 2^64, which is 0 here.
    ((bucket - (shift << split_bits) + 1) << shift).wrapping_sub(1)
}

/// The bucket with the smallest value that is not exceeded by a share `q` (0 to 1) of all values
/// counted; `None` if there are none.
pub fn quantile_bucket(counts: &[u64], q: f64) -> Option<usize> {
    let all = counts.iter().fold(0, |sum: u64, &count| sum.saturating_add(count));
    let wanted = ((q * all as f64).ceil() as u64).clamp(1, all.max(1));
    let mut seen = 0_u64;
    counts.iter().position(|&count| {
        seen = seen.saturating_add(count);
        seen >= wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        for split_bits in [2, 3, 7] {
            let mut next = 0;
            for bucket in 0..=bucket_of(u64::MAX, split_bits) {
                assert_eq!(bucket_of(next, split_bits), bucket, "{next}");
                let last = bucket_max(bucket, split_bits);
                assert_eq!(bucket_of(last, split_bits), bucket, "{last}");
                assert!(last - next <= next >> split_bits, "{next} to {last}");
                next = last.wrapping_add(1);
            }
            assert_eq!(next, 0, "the last bucket ends with the largest value");
        }
    }
}
