//! The boundaries of partitions: keys that divide the items of all runs into parts of about the
//! same size.
//!
//! The keys are chosen from a sample of all runs, so that it does not matter how they are
//! distributed. A partition holds all items of its keys, so one key with many items makes one
//! large partition.

use super::order::{Divider, Order};
use super::run::MemoryRun;
use super::spill::{SpillFile, SpilledRun};
use crate::error::Result;

/// Number of candidates for each partition, if memory allows.
const CANDIDATES_PER_PARTITION: u64 = 16;

/// A key that may become a divider, and the bytes that it stands for.
struct Candidate {
    divider: Divider,
    bytes: u64,
}

/// The runs to divide, and the memory for it.
pub struct Planner<'r> {
    pub order: &'r Order,
    pub runs: &'r [MemoryRun],
    pub spilled: &'r [SpilledRun],
    pub file: Option<&'r SpillFile>,
    /// Memory that the candidates may take.
    pub candidates_bytes_max: usize,
}

impl Planner<'_> {
    /// Keys, ascending, that divide into parts of about `partition_bytes`.
    pub fn dividers(&self, mut partition_bytes: u64) -> Result<Vec<Divider>> {
        let mut per_partition = CANDIDATES_PER_PARTITION;
        let mut candidates = loop {
            if let Some(candidates) = self.candidates((partition_bytes / per_partition).max(1))? {
                break candidates;
            }
            // Fewer make partitions less even; when that does not help, keys are
            // so long that there must be fewer partitions.
            if per_partition > 1 {
                per_partition /= 2;
            } else {
                partition_bytes = partition_bytes.saturating_mul(2);
            }
        };
        candidates.sort_unstable_by(|left, right| {
            self.order.compare_dividers(&left.divider, &right.divider)
        });
        let mut dividers: Vec<Divider> = Vec::new();
        let mut bytes_since_last = 0;
        for candidate in candidates {
            let is_new = dividers
                .last()
                .is_none_or(|last| self.order.compare_dividers(last, &candidate.divider).is_lt());
            if bytes_since_last >= partition_bytes && is_new {
                dividers.push(candidate.divider);
                bytes_since_last = 0;
            }
            bytes_since_last += candidate.bytes;
        }
        Ok(dividers)
    }

    /// One candidate for about each `step_bytes`; `None` if they take too much memory.
    fn candidates(&self, step_bytes: u64) -> Result<Option<Vec<Candidate>>> {
        let mut candidates = Candidates::new(self.candidates_bytes_max);
        // Bytes that no candidate stands for yet.
        let mut carried = 0;
        for run in self.runs {
            for (sample, bytes) in run.samples().iter() {
                carried += bytes;
                if carried < step_bytes {
                    continue;
                }
                // The sample's prefix may be of another item of its group.
                let item = run.item(sample.place);
                let divider = self.order.divider(self.order.prefix(&item), item.record);
                if !candidates.push(divider, carried) {
                    return Ok(None);
                }
                carried = 0;
            }
        }
        let mut buffer = Vec::new();
        for (run, file) in self.spilled.iter().zip(std::iter::repeat(self.file)) {
            let Some(file) = file else { break };
            for (sample, bytes) in run.samples().iter() {
                carried += bytes;
                if carried < step_bytes {
                    continue;
                }
                let record = file.peek(sample, &mut buffer)?;
                if !candidates.push(self.order.divider(sample.prefix(), record), carried) {
                    return Ok(None);
                }
                carried = 0;
            }
        }
        Ok(Some(candidates.list))
    }
}

struct Candidates {
    list: Vec<Candidate>,
    bytes: usize,
    bytes_max: usize,
}

impl Candidates {
    fn new(bytes_max: usize) -> Self {
        Self { list: Vec::new(), bytes: 0, bytes_max }
    }

    /// Adds a candidate. Returns false if the candidates take too much memory now.
    fn push(&mut self, divider: Divider, bytes: u64) -> bool {
        self.bytes += divider.bytes();
        self.list.push(Candidate { divider, bytes });
        self.bytes <= self.bytes_max
    }
}
