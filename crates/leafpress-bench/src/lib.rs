//! The experiments of `leafpress bench`: the same work done by Leafpress and by
//! the best that its rivals can do, side by side in one run.
//!
//! In the order that a run flows. Imports go one way only: the experiment knows the
//! runs, they the plans, these the groups, and all of them the options.
//!
//! | module | does |
//! |---|---|
//! | [`generate`], [`events`] | the inputs: files, rows made in memory, rows with random keys |
//! | [`options`] | what can be asked for, and what is heard meanwhile |
//! | [`experiment`] | what was asked for: makes the inputs, runs the plan, writes the report |
//! | `plan`, `tour` | which rungs are compared with which, and which of them run when nothing is named |
//! | `caches`, `pace` | the state of the machine before a group; how long the rest will take |
//! | `input`, `fixture` | the CSV file, and the databases that stand beforehand |
//! | `group`, `group_run` | rungs that do the same work; interleaved, checked, and summed up |
//! | [`rung`] | one rung, in a process of its own: the work, timed |
//! | `ours`, `sql` | loads by Leafpress, and by the best SQL |
//! | [`ladder`], [`batches`], [`cycles`] | the published experiments, each with its original's figures |
//! | [`commits`] | the same for many small transactions: plan, callers, rivals, course over time |
//! | [`atomic`] | the same for one-row transactions, with and without a journal: calls, bytes, memory |
//! | [`queue`] | the same for jobs of a queue: pushes, claims, acknowledgements, wake-ups |
//! | `usage` | processor seconds, peak memory and I/O of this process |
//! | `check` | that nobody won by doing less |
//! | [`statistics`], `noise` | medians and pairwise ratios, and how sure they are |
//! | `simulated` | what is said of a disk that is played |
//! | [`report`], `machine`, `settings` | the JSON that every experiment writes |
//! | [`charts`], [`words`] | which rungs are drawn together, and figures as people say them |
//! | `about`, `drawn` | what an experiment answers; charts and short names of the larger ones |
//! | `advice` | what follows from the figures |
//! | [`remembered`], [`advise`] | the last run on each disk, and what `leafpress advise` makes of it |
//! | [`html`], `csv_report` | the report as a page, and as a table for programs |
//!
//! Must never: time anything but the work, compare rungs that did not leave the
//! same rows, or leave files behind.

mod about;
mod advice;
pub mod advise;
pub mod atomic;
pub mod batches;
mod caches;
pub mod charts;
mod check;
pub mod commits;
mod csv_report;
pub mod cycles;
mod drawn;
mod error;
pub mod events;
pub mod experiment;
mod fixture;
pub mod generate;
mod group;
mod group_run;
pub mod html;
mod input;
pub mod ladder;
mod machine;
#[cfg(test)]
mod made_up;
mod noise;
pub mod options;
mod ours;
mod pace;
mod plan;
pub mod queue;
pub mod remembered;
pub mod report;
pub mod rung;
mod settings;
mod simulated;
mod sql;
pub mod statistics;
mod tour;
mod usage;
pub mod words;

pub use csv_report::csv;
pub use error::{Error, Result};
pub use plan::BILLION;
