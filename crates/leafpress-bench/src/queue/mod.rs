//! Rungs of the Queue, beside a queue on plain SQLite. Jobs are pushed, claimed and
//! acknowledged.
//!
//! | module | does |
//! |---|---|
//! | `rung` | what the rungs are: whose queue, under which promise, how many clients, which part of a job's life |
//! | `jobs` | the payload of a job, by which every job can be checked |
//! | `clients` | threads that push, claim and acknowledge until their jobs or their time are over |
//! | `cycle` | one rung of them: opens, fills, runs, closes |
//! | `ours`, `sql` | what a client does, by the Queue and by plain SQLite |
//! | `fill` | databases with many jobs that wait, are leased or are delayed |
//! | `claim` | what a claim takes in them |
//! | `wakeup` | how long a consumer in another process takes to wake up |
//! | `inserts/` | many rows in one transaction, and in as many transactions |
//! | `check` | that no job was lost, done twice or left out |
//! | `plan`, `settings` | which rungs are compared with which, and what a reader must know |
//!
//! Must never: count a job that was not acknowledged, or time anything before the first call or
//! after the last answer.

mod check;
mod claim;
mod clients;
mod cycle;
mod fill;
mod inserts;
mod jobs;
mod ours;
mod plan;
mod rung;
mod settings;
mod sql;
#[cfg(test)]
mod tests;
mod wakeup;

pub(crate) use self::check::left_of_jobs;
pub(crate) use self::clients::Client;
pub(crate) use self::inserts::{InsertsRung, about as inserts_about, order as inserts_order};
pub(crate) use self::jobs::JobNumber;
pub(crate) use self::ours::{QUEUE_NAME, QueueClient};
pub(crate) use self::plan::{inserts_groups, queue_groups};
pub(crate) use self::rung::{ClaimRung, CycleRung, WakeupRung};
pub(crate) use self::settings::settings;
