//! The division of a sorter's memory among its parts.
//!
//! | part | is for |
//! |---|---|
//! | 7/8 | buffers that threads fill, runs in memory, samples of all runs |
//! | 1/8 | what a spill or a partition in memory needs: slots to merge, keys to divide by, write buffers |
//! | 1/2 | partitions read from disk |
//!
//! The first two rows hold until partitions are read from disk. The third holds from then on: before that, runs
//! in memory are spilled until they take no more than the other half.

use super::slot::SLOT_BYTES;

/// Buffers are not larger than this, but for [`BUFFERS_PER_MEMORY`]: items are sorted in the
/// cache, and copied from there. Smaller ones make more runs, and of each run a partition
/// reads some items that it does not need.
const RUN_BYTES_MAX: usize = 8 << 20;

/// A buffer may be this part of all memory: else very many runs would have items of one partition.
const BUFFERS_PER_MEMORY: usize = 512;

/// Number of buffers that a thread has memory for: one to fill, others to merge when sealed.
const RUNS_PER_THREAD: usize = 4;

/// A partition's size with its slots, where memory allows: they fit the cache.
const PARTITION_BYTES: u64 = 6 << 20;

/// Least size of a partition's part of each run in memory: some items beside it are looked at.
const STRETCH_IN_MEMORY_BYTES_MIN: u64 = 8 << 10;

/// Least size of a partition's part of each spilled run, else reads become small.
const STRETCH_BYTES_MIN: u64 = 64 << 10;

/// Memory of a merge for each item: its slot, and as much again for sorting at worst.
const MERGE_BYTES_PER_ITEM: u64 = 2 * SLOT_BYTES as u64;

/// Writes larger than this were measured to be slower.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// The sizes that follow from the memory given and the number of threads.
#[derive(Debug, Clone)]
pub struct Limits {
    /// A buffer: items, their slots, and as much again for sorting these.
    pub run_bytes: usize,
    /// All buffers, runs and samples.
    pub runs_bytes: usize,
    /// The part of `runs_bytes` that may stay in use while partitions are read from disk.
    pub runs_bytes_beside_partitions: usize,
    /// Bytes of sealed runs that a thread spills at once.
    pub spill_bytes: usize,
    /// Size of one write.
    pub write_bytes: usize,
    /// Memory for the keys from which the parts of a spill are chosen.
    pub spill_candidates_bytes: usize,
    /// Memory for the keys from which partitions are chosen, before any partition is loaded.
    pub candidates_bytes: usize,
    /// Measure for the number of samples of spilled runs: when the data double, fewer than
    /// this many samples are added.
    pub samples_max: u64,
    /// Memory that a merge may take in one thread.
    merge_bytes: u64,
    /// Memory that a partition read from disk may take in one thread.
    spilled_partition_bytes: u64,
}

impl Limits {
    pub fn new(memory_bytes: usize, threads: usize) -> Self {
        let threads = threads.max(1);
        let eighth = memory_bytes / 8;
        let runs_bytes = memory_bytes - eighth;
        let run_bytes_max = RUN_BYTES_MAX.max(memory_bytes / BUFFERS_PER_MEMORY);
        let write_bytes = (eighth / threads / 4).clamp(1, WRITE_BYTES_MAX);
        Self {
            run_bytes: (runs_bytes / (RUNS_PER_THREAD * threads)).clamp(1, run_bytes_max),
            runs_bytes,
            runs_bytes_beside_partitions: memory_bytes / 2,
            spill_bytes: runs_bytes / threads,
            write_bytes,
            spill_candidates_bytes: eighth / threads / 4,
            candidates_bytes: memory_bytes / 4,
            samples_max: (eighth / 4 / SLOT_BYTES).max(1) as u64,
            merge_bytes: (eighth / threads / 2) as u64,
            spilled_partition_bytes: (memory_bytes / 2 / threads) as u64,
        }
    }

    /// The size of partitions of `runs` in memory, `items` of `bytes` in all.
    pub fn partition_bytes_of(&self, bytes: u64, items: u64, runs: u64) -> u64 {
        let bytes_per_item = bytes / items.max(1) + 1;
        let items_max = self.merge_bytes / MERGE_BYTES_PER_ITEM;
        let items_wanted = PARTITION_BYTES / (bytes_per_item + MERGE_BYTES_PER_ITEM);
        let wanted = (items_wanted * bytes_per_item).max(runs * STRETCH_IN_MEMORY_BYTES_MIN);
        wanted.min(items_max * bytes_per_item).max(bytes_per_item)
    }

    /// The size of partitions if `runs` of the runs are on disk.
    pub fn spilled_partition_bytes_of(&self, bytes: u64, items: u64, runs: u64) -> u64 {
        let bytes_per_item = bytes / items.max(1) + 1;
        // Half as much again, as samples do not divide evenly.
        let room_per_item = (bytes_per_item + MERGE_BYTES_PER_ITEM) * 3 / 2;
        let items_max = self.spilled_partition_bytes / room_per_item;
        let wanted = PARTITION_BYTES.max(runs * STRETCH_BYTES_MIN);
        wanted.min(items_max * bytes_per_item).max(bytes_per_item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_no_more_than_the_whole() {
        for memory_bytes in [8 << 20, 100 << 20, 512 << 20, usize::MAX / 4] {
            for threads in [1, 2, 7, 64, 500] {
                let limits = Limits::new(memory_bytes, threads);
                let at_work = limits.merge_bytes as usize
                    + limits.write_bytes
                    + limits.spill_candidates_bytes;
                assert!(limits.runs_bytes + threads * at_work <= memory_bytes);
                assert!(RUNS_PER_THREAD * threads * limits.run_bytes <= limits.runs_bytes);
                let partitions = threads * limits.spilled_partition_bytes as usize;
                assert!(limits.runs_bytes_beside_partitions + partitions <= memory_bytes);
            }
        }
    }

    #[test]
    fn partitions_and_their_slots_fit() {
        for (bytes, items) in [(1_u64 << 30, 8_u64 << 20), (1 << 40, 1 << 35), (1 << 30, 10)] {
            for memory_bytes in [8 << 20, 512 << 20] {
                let limits = Limits::new(memory_bytes, 2);
                let bytes_per_item = bytes / items + 1;
                let in_memory = limits.partition_bytes_of(bytes, items, 5000);
                let slots = in_memory / bytes_per_item * MERGE_BYTES_PER_ITEM;
                assert!(in_memory == bytes_per_item || slots <= limits.merge_bytes);
                let spilled = limits.spilled_partition_bytes_of(bytes, items, 1000);
                let slots = spilled / bytes_per_item * MERGE_BYTES_PER_ITEM;
                let room = limits.spilled_partition_bytes;
                assert!(spilled == bytes_per_item || spilled + slots <= room);
                // A few spilled runs do not make small partitions larger than need be.
                assert!(limits.spilled_partition_bytes_of(bytes, items, 3) <= spilled);
            }
        }
        assert!(Limits::new(0, 0).partition_bytes_of(0, 0, 0) > 0);
    }
}
