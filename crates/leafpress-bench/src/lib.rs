//! The experiments of `leafpress bench`: each work done by Leafpress and by the best that its rivals
//! can do, side by side in one run.
//!
//! In the order that a run flows. Imports go one way only, from file to file: the experiment knows
//! the runs, these the groups, these the kinds of rungs, these the families, and these what all of
//! them share. No two files import one another, not even by way of others.
//!
//! | module | is |
//! |---|---|
//! | [`generate`], [`users`], [`events`] | the inputs: files, rows made in memory, rows with random keys |
//! | [`options`] | what can be asked for, and what is heard meanwhile |
//! | [`experiment`] | what was asked for: makes the inputs, runs the plan, writes the report |
//! | `plan`, `overview` | which rungs are compared with which, and which of them run when nothing is named |
//! | `machine_state`, `time_left` | the state of the machine before a group; the time that the rest will take |
//! | `input`, `parquet_file`, `fixture` | the files that are loaded, and the databases that stand beforehand |
//! | `group`, `group_run` | rungs that do one work; interleaved, checked, and summed up |
//! | [`rung`] | one rung, in a process of its own: the trait behind which it says and does everything, and the enum of all kinds |
//! | `loads` | rungs of files and rows into tables: by Leafpress, and by the best SQL |
//! | `ladder`, `batches`, `cycles` | rungs of the published experiments, each with its original's figures |
//! | `commits` | rungs of many small transactions: plan, callers, rivals |
//! | `atomic` | rungs of one-row transactions, with and without a journal: calls, bytes, memory |
//! | `queue` | rungs of a queue's jobs: pushes, claims, acknowledgements, wake-ups |
//! | `shared` | rungs of many processes on one database: members, callers, rivals |
//! | `pragmas`, `connect`, `warm_up`, `syncs`, `recording` | shared by the families: settings and their promises, connections, the first work of a process, syncs, times of calls |
//! | `usage` | processor seconds, peak memory and I/O of this process |
//! | `bound` | which resource bounded a rung |
//! | [`statistics`], `noise` | medians and pairwise ratios, and how sure they are |
//! | `simulated_disk` | what is said of a disk that is simulated |
//! | [`report`], `machine`, `settings` | the JSON that every experiment writes |
//! | [`charts`], [`numbers`] | which rungs are drawn together, and figures as people say them |
//! | `questions`, `order` | what an experiment answers; whether its rungs come in the original's order |
//! | `conclusions` | what follows from the figures |
//! | [`report_cache`], [`advise`] | the last run on each disk, and what `leafpress advise` makes of it |
//! | [`storage`] | the disk under a path, measured, for `leafpress storage` |
//! | `error`, `test_reports` | errors of an experiment; made-up reports for tests |
//! | [`html`], `csv_report` | the report as a page, and as a table for programs |
//!
//! Must never: time anything but the work, compare rungs that did not leave the same rows, or leave
//! files behind.

#![forbid(unsafe_code)]

pub mod advise;
mod atomic;
mod batches;
mod bound;
pub mod charts;
mod commits;
mod conclusions;
mod connect;
mod csv_report;
mod cycles;
mod error;
pub mod events;
pub mod experiment;
mod fixture;
pub mod generate;
mod group;
mod group_run;
pub mod html;
mod input;
mod ladder;
mod loads;
mod machine;
mod machine_state;
mod noise;
pub mod numbers;
pub mod options;
mod order;
mod overview;
#[cfg(feature = "parquet")]
mod parquet_file;
mod plan;
mod pragmas;
mod questions;
mod queue;
mod recording;
pub mod report;
pub mod report_cache;
pub mod rung;
mod settings;
mod shared;
mod simulated_disk;
pub mod statistics;
pub mod storage;
mod syncs;
#[cfg(test)]
mod test_reports;
mod time_left;
mod usage;
pub mod users;
mod warm_up;

pub use csv_report::csv;
pub use error::{Error, Result};
pub use plan::BILLION;
