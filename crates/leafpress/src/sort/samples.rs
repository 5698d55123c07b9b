//! The samples of a run: where in its bytes the keys between two others lie.
//!
//! A run on disk is in key order. One in memory is in groups, of which each has smaller keys than the
//! next; a sample is a group: the place of its first item, and the smallest of its prefixes.

use std::ops::Range;

use super::order::{Between, Divider};
use super::slot::Slot;
use crate::error::Result;

/// In a run on disk: the prefix of an item's key, and the place of the item. In a run in memory: the
/// smallest prefix of a group, and the place of the group.
pub type Sample = Slot;

/// Samples of a run's items, by key.
#[derive(Debug)]
pub struct Samples {
    list: Vec<Sample>,
    /// The places where the run begins and where it ends.
    run: Range<u64>,
}

/// Takes samples while a run is written.
pub struct Sampler {
    list: Vec<Sample>,
    start: u64,
    step_bytes: u64,
    next_at: u64,
}

impl Sampler {
    /// No more than one sample for `step_bytes` of a run that begins at `start`.
    pub fn new(start: u64, step_bytes: u64) -> Self {
        let next_at = start + (spread(start) * step_bytes as f64) as u64;
        Self { list: Vec::new(), start, step_bytes, next_at }
    }

    /// Memory that the samples of a run take at most.
    pub fn bytes_max(run_bytes: u64, step_bytes: u64) -> usize {
        (run_bytes / step_bytes + 1) as usize * size_of::<Sample>()
    }

    /// Takes note of an item, which is written at `at`.
    #[inline]
    pub fn push(&mut self, prefix: impl FnOnce() -> u128, at: u64) {
        if at >= self.next_at {
            self.list.push(Sample::new(prefix(), at));
            self.next_at = at + self.step_bytes;
        }
    }

    /// The samples of a run that ends at `end`.
    pub fn finish(mut self, end: u64) -> Samples {
        self.list.shrink_to_fit();
        Samples { list: self.list, run: self.start..end }
    }
}

impl Samples {
    /// Samples, in order, each with the bytes from it to the next.
    pub fn iter(&self) -> impl Iterator<Item = (&Sample, u64)> {
        let ends = self.list.iter().skip(1).map(|next| next.place).chain([self.run.end]);
        self.list.iter().zip(ends).map(|(sample, end)| (sample, end - sample.place))
    }

    /// The memory that they take.
    pub fn bytes(&self) -> usize {
        self.list.len() * size_of::<Sample>()
    }

    /// The places between which the items between two keys lie, in a run in key order. A few items
    /// at both ends may be outside of these keys.
    ///
    /// `is_before` is asked about samples whose prefix is the divider's.
    pub fn stretch(
        &self,
        between: &Between<'_>,
        mut is_before: impl FnMut(&Sample, &Divider) -> Result<bool>,
    ) -> Result<Range<u64>> {
        let start = match between.lower {
            None => self.run.start,
            Some(divider) => {
                let first_not_before = self.first_not_before(divider, &mut is_before)?;
                self.list[..first_not_before].last().map_or(self.run.start, |last| last.place)
            }
        };
        let end = match between.upper {
            None => self.run.end,
            Some(divider) => {
                let first_not_before = self.first_not_before(divider, &mut is_before)?;
                let end = self.list.get(first_not_before);
                end.map_or(self.run.end, |sample| sample.place)
            }
        };
        Ok(start..end.max(start))
    }

    /// As [`stretch`](Self::stretch), in a run in groups, each with other prefixes. Items anywhere in
    /// the stretch may be outside of these keys.
    pub fn stretch_of_groups(&self, between: &Between<'_>) -> Range<u64> {
        let start = between.lower.map_or(self.run.start, |divider| {
            let before = self.list.partition_point(|sample| sample.prefix() < divider.prefix);
            self.list[..before].last().map_or(self.run.start, |last| last.place)
        });
        let end = between.upper.map_or(self.run.end, |divider| {
            let before = self.list.partition_point(|sample| sample.prefix() <= divider.prefix);
            self.list.get(before).map_or(self.run.end, |sample| sample.place)
        });
        start..end.max(start)
    }

    /// The first sample whose key is not before `divider`.
    fn first_not_before(
        &self,
        divider: &Divider,
        is_before: &mut impl FnMut(&Sample, &Divider) -> Result<bool>,
    ) -> Result<usize> {
        let mut low = self.list.partition_point(|sample| sample.prefix() < divider.prefix);
        let rest = &self.list[low..];
        let mut high = low + rest.partition_point(|sample| sample.prefix() <= divider.prefix);
        while low < high {
            let middle = low.midpoint(high);
            if is_before(&self.list[middle], divider)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

/// Reads the items of a stretch of a run in key order, and calls `take` with the prefix of each that is between
/// the keys, and with where it begins. Returns the range of bytes that these items take; `None` if
/// the bytes are no items.
pub fn read_items(
    bytes: &[u8],
    between: &Between<'_>,
    mut take: impl FnMut(u128, usize),
) -> Option<Range<usize>> {
    let (mut start, mut at) = (None, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (prefix, place) = between.order.prefix_at(rest)?;
        let record = || &rest[place.clone()];
        if start.is_some() || !between.is_before(prefix, record) {
            if between.is_behind(prefix, record) {
                break;
            }
            start.get_or_insert(at);
            take(prefix, at);
        }
        at += place.end;
    }
    Some(start.unwrap_or(at)..at)
}

/// A number from 0 up to 1, evenly spread: where in its first step a run is
/// sampled first. If all began at the same place, the candidates of all runs
/// would be the same few keys.
fn spread(ordinal: u64) -> f64 {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    (ordinal.wrapping_mul(GOLDEN_RATIO) >> 32) as f64 / (1_u64 << 32) as f64
}
