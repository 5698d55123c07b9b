//! Rungs of the Queue: jobs pushed, claimed and acknowledged, beside what a queue on
//! SQLite is without it.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung is: whose queue, under which promise, how many clients, which part of a job's life |
//! | `plan` | which rungs are compared with which |
//! | `jobs` | the payload of a job, by which every job can be checked |
//! | `clients` | threads that push, claim and acknowledge until their jobs or their time are over |
//! | `cycle` | one rung of them: opens, fills, runs, closes |
//! | `ours`, `sql` | what a client does, by the Queue and by plain SQLite |
//! | `fill` | databases with many jobs that wait, are leased or are delayed |
//! | `claim` | what a claim takes in them |
//! | `wakeup` | how long a consumer in another process takes to wake up |
//! | `inserts` | many rows in one transaction, and in as many transactions |
//! | `about` | the published experiment that `inserts` repeats, and why the order may not be its |
//! | `left` | that no job was lost, done twice or left out |
//!
//! Must never: count a job that was not acknowledged, or time anything before the first
//! call or after the last answer.

mod about;
mod claim;
mod clients;
mod cycle;
pub(crate) mod fill;
mod inserts;
mod jobs;
pub(crate) mod left;
mod ours;
pub(crate) mod plan;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
mod wakeup;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::group::size_name;
use crate::report::Safety;
use crate::rung::RungResult;

pub use self::about::{about as inserts_about, order as inserts_order};
pub(crate) use self::fill::Filling;
pub use self::inserts::{Inserter, InsertsRung, SqlSettings};

/// What our queues and tables are called where they need a name.
pub(crate) const QUEUE_NAME: &str = "bench";

/// One rung of the experiments "queue" and "queue-inserts".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueRung {
    /// Clients that push, claim and acknowledge.
    Cycle(CycleRung),
    /// Claims among many jobs.
    Claim(ClaimRung),
    /// A consumer in another process.
    Wakeup(WakeupRung),
    /// That consumer: the process that a rung of the kind above starts.
    Waiter(WakeupRung),
    /// Rows in one transaction or in many.
    Inserts(InsertsRung),
}

/// Whose queue it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeper {
    /// Leafpress's Queue over one Writer.
    Leafpress,
    /// A table of SQLite's, a connection for each client that waits for the others' locks.
    SqlConnections,
    /// The same table, one connection behind a mutex.
    SqlMutex,
}

impl Keeper {
    /// Its name in rungs.
    fn name(self) -> &'static str {
        match self {
            Self::Leafpress => "leafpress",
            Self::SqlConnections => "SQL, locking",
            Self::SqlMutex => "SQL, mutex",
        }
    }
}

/// Which part of a job's life is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Pushes alone.
    Push,
    /// Claims and acknowledgements of jobs that wait already.
    ClaimAck,
    /// Pushes, claims and acknowledgements, each client one after the other.
    Cycle,
}

impl Part {
    /// Its name in rungs.
    fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::ClaimAck => "claim, ack",
            Self::Cycle => "cycle",
        }
    }
}

/// Clients that push, claim and acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CycleRung {
    /// Whose queue it is.
    pub by: Keeper,
    /// What the clients do.
    pub part: Part,
    /// The profile, by its promise; SQLite gets the same pragmas.
    pub safety: Safety,
    /// Threads, each of which waits for its answer before its next call.
    pub clients: u32,
    /// Jobs of each call.
    pub batch: u32,
    /// Jobs, over all clients.
    pub jobs: u64,
    /// No cycle is begun after so long, and the jobs are then fewer.
    pub milliseconds_max: u64,
    /// So much longer each sync takes, for ours and the rivals alike.
    #[serde(default)]
    pub sync_delay_us: u32,
}

/// Claims among many jobs, by the Queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimRung {
    /// The profile, by its promise.
    pub safety: Safety,
    /// Jobs that are there meanwhile.
    pub among: Filling,
    /// Jobs of each claim.
    pub batch: u32,
    /// Claims that are timed.
    pub claims: u64,
}

/// How the consumer in the other process learns that there is a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waking {
    /// It waits in the Queue's own claim.
    Waits,
    /// It asks `PRAGMA data_version` each millisecond, then claims from the Queue.
    Polls,
    /// The same with a table of SQLite's, and SQL on both sides.
    SqlPolls,
}

/// A consumer in another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WakeupRung {
    /// How it learns that there is a job.
    pub by: Waking,
    /// How often.
    pub jobs: u64,
}

impl QueueRung {
    /// Its name in the report.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Cycle(rung) => {
                let CycleRung { by, part, safety, clients, batch, sync_delay_us, .. } = rung;
                let of = if batch == 1 { String::new() } else { format!(" of {batch}") };
                let (safety, by, part) = (safety.name(), by.name(), part.name());
                let slow = if sync_delay_us == 0 { "" } else { "slow, " };
                format!("{safety}, {slow}{by}, {clients} × {part}{of}")
            }
            Self::Claim(rung) => {
                let ClaimRung { safety, among, batch, .. } = rung;
                let of = if batch == 1 { String::new() } else { format!(" {batch}") };
                format!("{}, leafpress, claim{of}, {}", safety.name(), among.name())
            }
            Self::Wakeup(rung) => format!("wake-up, {}", rung.by.name()),
            Self::Waiter(rung) => format!("waiter, {}", rung.by.name()),
            Self::Inserts(rung) => rung.name(),
        }
    }

    /// What is left after a crash right after the work.
    pub(crate) fn safety(self) -> Safety {
        match self {
            Self::Cycle(rung) => rung.safety,
            Self::Claim(rung) => rung.safety,
            Self::Wakeup(_) | Self::Waiter(_) => Safety::Durable,
            Self::Inserts(rung) => rung.safety(),
        }
    }

    /// Which database it begins with, if it needs one that was filled before.
    pub(crate) fn filling(self) -> Option<Filling> {
        if let Self::Claim(rung) = self { Some(rung.among) } else { None }
    }

    /// What its files take on the disk at most, rounded up: 160 bytes for each job in
    /// the table and its index, again in a WAL; for claims the databases that were filled
    /// beforehand, all at once.
    pub(crate) fn room_mb(self) -> u64 {
        const JOB_BYTES: u64 = 160;
        const LOGS_MB: u64 = 100;
        let jobs = match self {
            Self::Cycle(rung) => rung.jobs.min(CYCLE_JOBS_ON_DISK_MAX),
            // The one that it gets is a copy.
            Self::Claim(rung) => 2 * rung.among.jobs(),
            Self::Wakeup(rung) | Self::Waiter(rung) => rung.jobs,
            Self::Inserts(rung) => rung.rows,
        };
        LOGS_MB + 2 * jobs.saturating_mul(JOB_BYTES) / 1_000_000
    }

    /// Does the work and measures it.
    pub(crate) fn run(self, database: &Path) -> Result<RungResult> {
        match self {
            Self::Cycle(rung) => cycle::run(rung, database),
            Self::Claim(rung) => claim::run(rung, database),
            Self::Wakeup(rung) => wakeup::run(rung, database),
            Self::Waiter(rung) => wakeup::wait(rung, database),
            Self::Inserts(rung) => inserts::run(rung, database),
        }
    }
}

/// Jobs of a cycle are gone when they are done, and those of a push are no more than this
/// in its time.
const CYCLE_JOBS_ON_DISK_MAX: u64 = 1_000_000;

impl Waking {
    /// Its name in rungs.
    fn name(self) -> &'static str {
        match self {
            Self::Waits => "leafpress, waiting",
            Self::Polls => "polling each ms, leafpress claim",
            Self::SqlPolls => "polling each ms, SQL",
        }
    }
}

impl Filling {
    /// "10m", or "1k + 100k leased".
    pub(crate) fn name(self) -> String {
        let beside = [(self.leased, "leased"), (self.delayed, "delayed")];
        let beside = beside.into_iter().filter(|(jobs, _)| *jobs > 0);
        let beside = beside.map(|(jobs, state)| format!(" + {} {state}", size_name(jobs)));
        size_name(self.waiting) + &beside.collect::<String>()
    }
}
