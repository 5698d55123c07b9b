//! Rungs of the Queue: whose queue, under which promise, how many clients, which part of a job's
//! life.

use serde::{Deserialize, Serialize};

use crate::numbers::size_name;
use crate::report::Safety;

/// Jobs that are there meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filling {
    /// Jobs that may be claimed.
    pub(crate) waiting: u64,
    /// Jobs whose lease runs for another day.
    pub(crate) leased: u64,
    /// Jobs that are due in a day.
    pub(crate) delayed: u64,
}

/// Keeper of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Keeper {
    /// Leafpress's Queue over one Writer.
    Leafpress,
    /// A table of SQLite's, a connection for each client that waits for the others' locks.
    SqlConnections,
    /// A table of SQLite's, one connection behind a mutex.
    SqlMutex,
}

impl Keeper {
    /// Name in rungs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Leafpress => "leafpress",
            Self::SqlConnections => "SQL, locking",
            Self::SqlMutex => "SQL, mutex",
        }
    }

    /// Name in charts.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Leafpress => "Queue",
            Self::SqlConnections | Self::SqlMutex => self.name(),
        }
    }
}

/// Measured part of a job's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Pushes alone.
    Push,
    /// Claims and acknowledgements of jobs that wait already.
    ClaimAck,
    /// Pushes, claims and acknowledgements, each client one after the other.
    Cycle,
}

impl Part {
    /// Name in rungs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::ClaimAck => "claim, ack",
            Self::Cycle => "cycle",
        }
    }
}

/// Clients that push, claim and acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CycleRung {
    /// Keeper of the queue.
    pub(crate) by: Keeper,
    /// Work of the clients.
    pub(crate) part: Part,
    /// The profile, by its promise; SQLite gets the same pragmas.
    pub(crate) safety: Safety,
    /// Threads, each of which waits for its answer before its next call.
    pub(crate) clients: u32,
    /// Jobs of each call.
    pub(crate) batch: u32,
    /// Jobs, over all clients.
    pub(crate) jobs: u64,
    /// Time limit in milliseconds: no further cycle begins after it.
    pub(crate) milliseconds_max: u64,
    /// Delay added to each sync, in microseconds, for ours and the rivals alike.
    #[serde(default)]
    pub(crate) sync_delay_us: u32,
}

/// Claims among many jobs, by the Queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClaimRung {
    /// The profile, by its promise.
    pub(crate) safety: Safety,
    /// Jobs that are there meanwhile.
    pub(crate) among: Filling,
    /// Jobs of each claim.
    pub(crate) batch: u32,
    /// Claims that are timed.
    pub(crate) claims: u64,
}

/// Way in which the consumer in the other process learns that there is a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Waking {
    /// It waits in the Queue's own claim.
    Waits,
    /// It asks `PRAGMA data_version` each millisecond, then claims from the Queue.
    Polls,
    /// It asks so of a table of SQLite's, with SQL on both sides.
    SqlPolls,
}

/// A consumer in another process, and the process that pushes its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WakeupRung {
    /// Way in which the consumer learns that there is a job.
    pub(crate) by: Waking,
    /// Process that this is.
    #[serde(default)]
    pub(crate) process: WakeupProcess,
    /// Number of jobs, each of which wakes the consumer up.
    pub(crate) jobs: u64,
}

/// One of the two processes of a wake-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WakeupProcess {
    /// The one that pushes: the rung. It starts the other.
    #[default]
    Pusher,
    /// The one that waits.
    Waiter,
}

impl CycleRung {
    /// Name in the report.
    pub(super) fn name(&self) -> String {
        let of = if self.batch == 1 { String::new() } else { format!(" of {}", self.batch) };
        let (safety, by, part) = (self.safety.name(), self.by.name(), self.part.name());
        let slow = if self.sync_delay_us == 0 { "" } else { "slow, " };
        format!("{safety}, {slow}{by}, {} × {part}{of}", self.clients)
    }
}

impl Waking {
    /// Name in rungs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Waits => "leafpress, waiting",
            Self::Polls => "polling each ms, leafpress claim",
            Self::SqlPolls => "polling each ms, SQL",
        }
    }
}

impl Filling {
    /// "10m", or "1k + 100k leased".
    pub(super) fn name(self) -> String {
        let beside = [(self.leased, "leased"), (self.delayed, "delayed")];
        let beside = beside.into_iter().filter(|(jobs, _)| *jobs > 0);
        let beside = beside.map(|(jobs, state)| format!(" + {} {state}", size_name(jobs)));
        size_name(self.waiting) + &beside.collect::<String>()
    }

    /// All jobs.
    pub(super) fn jobs(self) -> u64 {
        self.waiting.saturating_add(self.leased).saturating_add(self.delayed)
    }
}

/// Room that the files of this many jobs take at most: 160 bytes for each job in the table and its
/// index, and again in a WAL.
pub(super) fn jobs_mb(jobs: u64) -> u64 {
    const JOB_BYTES: u64 = 160;
    2 * jobs.saturating_mul(JOB_BYTES) / 1_000_000
}

/// Room that the logs of a rung take at most.
pub(super) const LOGS_MB: u64 = 100;
