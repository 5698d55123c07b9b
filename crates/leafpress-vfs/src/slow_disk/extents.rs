//! The blocks of a file that wait in memory to be written, as runs of neighbours.
//!
//! A block that is written twice is here once: that is what makes many small writes
//! before a sync cheap on a real disk too. Runs, and not single blocks, as a stream of a
//! gigabyte is one run. Plain data: knows neither files nor time.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that a file system writes at once at least.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// A set of block numbers.
///
/// Invariants: the runs are not empty, and no two of them touch; `blocks` is the sum of
/// their lengths.
#[derive(Debug, Default)]
pub(super) struct Extents {
    /// The first block of each run, and the first after it.
    runs: BTreeMap<u64, u64>,
    blocks: u64,
}

/// The blocks that these bytes lie in.
pub(super) fn blocks_of(offset: u64, bytes: u64) -> Range<u64> {
    if bytes == 0 {
        return 0..0;
    }
    offset / BLOCK_BYTES..(offset.saturating_add(bytes - 1)) / BLOCK_BYTES + 1
}

impl Extents {
    /// Number of blocks.
    pub fn len(&self) -> u64 {
        self.blocks
    }

    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Adds blocks; returns the number of new ones.
    pub fn insert(&mut self, blocks: Range<u64>) -> u64 {
        if blocks.is_empty() {
            return 0;
        }
        let before = self.blocks;
        let Range { mut start, mut end } = blocks;
        // The run before may reach into it, or touch it.
        if let Some((&first, &after)) = self.runs.range(..start).next_back()
            && after >= start
        {
            self.remove_run(first, after);
            (start, end) = (first, end.max(after));
        }
        while let Some((&first, &after)) = self.runs.range(start..=end).next() {
            self.remove_run(first, after);
            end = end.max(after);
        }
        self.runs.insert(start, end);
        self.blocks += end - start;
        self.blocks - before
    }

    fn remove_run(&mut self, first: u64, after: u64) {
        self.runs.remove(&first);
        self.blocks -= after - first;
    }

    /// Takes all of them out, in order.
    pub fn take_all(&mut self) -> Vec<Range<u64>> {
        self.blocks = 0;
        std::mem::take(&mut self.runs).into_iter().map(|(start, end)| start..end).collect()
    }

    /// Takes at most `blocks_max` out: the run at block `from`, those behind it, and then
    /// those before, as the kernel goes round a file that it writes back.
    pub fn take(&mut self, from: u64, blocks_max: u64) -> Vec<Range<u64>> {
        let (mut taken, mut from, mut left) = (Vec::new(), from, blocks_max);
        while left > 0 {
            let Some((first, after)) = self.run_from(from) else { break };
            self.remove_run(first, after);
            let end = after.min(first + left);
            if end < after {
                self.insert(end..after);
            }
            left -= end - first;
            from = end;
            taken.push(first..end);
        }
        taken
    }

    /// The run that block `from` is in, or the next, or the first of all.
    fn run_from(&self, from: u64) -> Option<(u64, u64)> {
        let run = |(&first, &after): (&u64, &u64)| (first, after);
        let around = self.runs.range(..from).next_back().map(run);
        around
            .filter(|(_, after)| *after > from)
            .or_else(|| self.runs.range(from..).next().map(run))
            .or_else(|| self.runs.first_key_value().map(run))
    }

    /// Forgets the blocks from this one on, as the file was cut there; returns their number.
    pub fn cut_at(&mut self, block: u64) -> u64 {
        let before = self.blocks;
        let behind = self.runs.split_off(&block);
        self.blocks -= behind.iter().map(|(first, after)| after - first).sum::<u64>();
        if let Some((&first, &after)) = self.runs.range(..block).next_back()
            && after > block
        {
            self.runs.insert(first, block);
            self.blocks -= after - block;
        }
        before - self.blocks
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn check(extents: &Extents, model: &BTreeSet<u64>) {
        let listed: Vec<u64> =
            extents.runs.iter().flat_map(|(first, after)| *first..*after).collect();
        assert!(listed.iter().eq(model), "{listed:?} {model:?}");
        assert_eq!(extents.len(), model.len() as u64);
        assert_eq!(extents.is_empty(), model.is_empty());
        let ends: Vec<_> = extents.runs.iter().collect();
        assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0), "no two touch: {ends:?}");
    }

    /// A small generator of numbers, the same in each run of the test.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state = 7_u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        }
    }

    #[test]
    fn it_is_a_set_of_blocks() {
        let mut next = numbers();
        let (mut extents, mut model) = (Extents::default(), BTreeSet::new());
        for _ in 0..20_000 {
            let start = next(100);
            match next(20) {
                0 => {
                    let blocks_max = next(30);
                    let before = model.clone();
                    let taken = extents.take(start, blocks_max);
                    for block in taken.iter().cloned().flatten() {
                        assert!(model.remove(&block), "{block} was not there");
                    }
                    let taken_count = before.len() - model.len();
                    assert_eq!(taken_count, before.len().min(blocks_max as usize));
                }
                1 => {
                    let gone = extents.cut_at(start);
                    let kept: BTreeSet<u64> = model.range(..start).copied().collect();
                    assert_eq!(gone, (model.len() - kept.len()) as u64);
                    model = kept;
                }
                2 if next(10) == 0 => {
                    let taken: Vec<u64> = extents.take_all().into_iter().flatten().collect();
                    assert!(taken.iter().eq(&model));
                    model.clear();
                }
                _ => {
                    let blocks = start..start + next(8);
                    let new = blocks.clone().filter(|block| model.insert(*block)).count();
                    assert_eq!(extents.insert(blocks), new as u64);
                }
            }
            check(&extents, &model);
        }
    }

    #[test]
    fn bytes_lie_in_the_blocks_that_they_touch() {
        assert_eq!(blocks_of(0, 0), 0..0);
        assert_eq!(blocks_of(5000, 0), 0..0);
        assert_eq!(blocks_of(0, 1), 0..1);
        assert_eq!(blocks_of(0, 4096), 0..1);
        assert_eq!(blocks_of(0, 4097), 0..2);
        assert_eq!(blocks_of(4095, 2), 0..2);
        // A frame of a WAL: a header of 24 bytes and a page, behind the WAL's own of 32.
        assert_eq!(blocks_of(32 + 4120, 4120), 1..3);
    }

    #[test]
    fn it_goes_round_the_file() {
        let mut extents = Extents::default();
        for blocks in [0..2, 10..14, 20..21] {
            extents.insert(blocks);
        }
        // From within a run its beginning is taken along, as it is one request then.
        assert_eq!(extents.take(12, 3).first(), Some(&(10..13)));
        assert_eq!(extents.take(13, 3), [13..14, 20..21, 0..1]);
        assert_eq!(extents.take(1, 9).first(), Some(&(1..2)));
        assert!(extents.take(2, 9).is_empty());
    }
}
