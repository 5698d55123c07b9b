//! All runs of a sorter, in memory and on disk.

use std::sync::Arc;

use super::order::Order;
use super::run::MemoryRun;
use super::spill::{SpillFile, SpilledRun};

/// All runs, in memory and on disk.
#[derive(Debug)]
pub struct Contents {
    pub order: Order,
    pub runs: Vec<MemoryRun>,
    pub spilled: Vec<SpilledRun>,
    pub file: Option<Arc<SpillFile>>,
}
