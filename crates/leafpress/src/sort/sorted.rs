//! The result of a sort: all runs, and the keys where their partitions begin.

use std::sync::Arc;

use super::contents::Contents;
use super::limits::Limits;
use super::order::Divider;
use super::partition::Partition;
use super::plan::Planner;
use super::pool::{Pool, State};
use crate::error::Result;

/// All items that were pushed, in key order, partition by partition.
#[derive(Debug)]
pub struct Sorted {
    contents: Arc<Contents>,
    dividers: Vec<Divider>,
    rows: u64,
}

impl Sorted {
    pub(super) fn new(pool: Pool) -> Result<Self> {
        let (order, limits) = (pool.order.clone(), pool.limits.clone());
        let State { sealed, spilled, file, rows, .. } = pool.into_state();
        let contents = Contents { order, runs: sealed, spilled, file };
        let dividers = dividers(&contents, &limits, rows)?;
        Ok(Self { contents: Arc::new(contents), dividers, rows })
    }

    /// Number of items.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of bytes that had to go to disk.
    pub fn spilled_bytes(&self) -> u64 {
        self.contents.file.as_ref().map_or(0, |file| file.bytes())
    }

    /// Number of partitions, at least one; some may have no entries.
    pub fn partitions(&self) -> usize {
        self.dividers.len() + 1
    }

    /// Loads a partition, counted from 0 in key order. From any thread, in any order.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be read; `into` is empty then.
    pub fn load(&self, partition: usize, into: &mut Partition) -> Result<()> {
        let lower = partition.checked_sub(1).and_then(|before| self.dividers.get(before));
        into.fill(&self.contents, lower, self.dividers.get(partition))
    }
}

fn dividers(contents: &Contents, limits: &Limits, rows: u64) -> Result<Vec<Divider>> {
    let bytes_in_memory: usize = contents.runs.iter().map(|run| run.bytes().len()).sum();
    let bytes_in_memory = bytes_in_memory as u64;
    let partition_bytes = match &contents.file {
        None => limits.partition_bytes_of(bytes_in_memory, rows, contents.runs.len() as u64),
        Some(file) => limits.spilled_partition_bytes_of(
            bytes_in_memory + file.bytes(),
            rows,
            contents.spilled.len() as u64,
        ),
    };
    let planner = Planner {
        order: &contents.order,
        runs: &contents.runs,
        spilled: &contents.spilled,
        file: contents.file.as_deref(),
        candidates_bytes_max: limits.candidates_bytes,
    };
    planner.dividers(partition_bytes)
}
