//! The experiments of `leafpress bench`: the same work done by Leafpress and by
//! the best that its rivals can do, side by side in one run.
//!
//! In the order that a run flows:
//!
//! | module | does |
//! |---|---|
//! | [`generate`] | the inputs: a CSV file, rows made in memory |
//! | [`load`] | plans the experiment "load", interleaves its rungs, checks, sums up |
//! | [`rung`] | one rung, in a process of its own: the work, timed |
//! | `ours`, `sql` | the work by Leafpress, and by the best SQL |
//! | `usage` | processor seconds, peak memory and I/O of this process |
//! | `check` | that nobody won by doing less |
//! | [`statistics`] | medians and pairwise ratios |
//! | [`report`], `machine` | the JSON that every experiment writes |
//!
//! Must never: time anything but the work, compare rungs that did not leave the
//! same rows, or leave files behind.

mod check;
mod error;
pub mod generate;
pub mod load;
mod machine;
mod ours;
pub mod report;
pub mod rung;
mod sql;
pub mod statistics;
mod usage;

pub use error::{Error, Result};
