//! Rungs of many processes on one database: how they write, which work, how many.

use serde::{Deserialize, Serialize};

/// Way in which the processes write into one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    /// A Writer in each process, shared.
    Shared,
    /// A Writer in each process, which knows of no other one.
    Unshared,
    /// SQLite, a connection for each caller, with a busy timeout.
    BusyTimeout,
    /// SQLite, a connection for each caller: BEGIN IMMEDIATE, tried again after pauses of random
    /// length.
    Retries,
    /// SQLite, a connection for each caller, and the lock of a file around each transaction.
    MutexFile,
}

impl Access {
    /// The ways without sharing.
    pub(super) const RIVALS: [Self; 4] =
        [Self::Unshared, Self::BusyTimeout, Self::Retries, Self::MutexFile];

    /// End of the name of a ratio to it.
    pub(super) fn ratio(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Unshared => "unshared",
            Self::BusyTimeout => "busy_timeout",
            Self::Retries => "retries",
            Self::MutexFile => "mutex_file",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Shared => "leafpress, shared",
            Self::Unshared => "Writers, unshared",
            _ => self.label(),
        }
    }

    /// Name in charts.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Shared => "Writers, shared",
            Self::Unshared => "Writers, not shared",
            Self::BusyTimeout => "SQL, busy timeout",
            Self::Retries => "SQL, retries",
            Self::MutexFile => "SQL, mutex file",
        }
    }
}

/// Work of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// Rows, each in its own transaction.
    Rows,
    /// Jobs of a queue, each pushed, claimed and acknowledged.
    Jobs,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Jobs => "jobs",
        }
    }
}

/// Process of a rung.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// The rung's own process, which starts the members.
    #[default]
    Rung,
    /// The member of this number, from 0.
    Member(u32),
}

/// Many processes on one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedRung {
    /// Way in which they write.
    pub(crate) access: Access,
    /// Work of each caller.
    pub(crate) work: Work,
    /// Number of processes.
    pub(crate) processes: u32,
    /// Threads of each process, each of which waits for its answer before its next call.
    pub(crate) callers: u32,
    /// Time limit in milliseconds: no further call begins after it.
    pub(crate) milliseconds_max: u64,
    /// Delay added to each sync, in microseconds.
    #[serde(default)]
    pub(crate) sync_delay_us: u32,
    /// Wait for a member, besides the time of the calls, before it is killed.
    #[serde(default = "patience_ms")]
    pub(crate) patience_ms: u64,
    /// Process that this is.
    #[serde(default)]
    pub(crate) role: Role,
}

/// Patience with a member: the longest busy timeout several times over.
pub(super) fn patience_ms() -> u64 {
    60_000
}

impl SharedRung {
    /// Name in the report.
    pub(super) fn name(&self) -> String {
        let Self { processes, callers, .. } = self;
        let by = self.access.name();
        let slow = if self.sync_delay_us == 0 { "" } else { ", slow" };
        format!("{}{slow}, {by}, {processes} × {callers}", self.work.name())
    }

    /// Name of the chart: rungs of as many processes.
    pub(super) fn chart(&self) -> String {
        let processes = many(self.processes, "process", "processes");
        format!("{}, {processes} × {}", self.what(), self.each())
    }

    /// Name of the curve: rungs that differ in the number of processes, or in how they write.
    pub(super) fn curve(&self) -> String {
        format!("{}, {} in each process", self.what(), self.each())
    }

    fn what(&self) -> String {
        let what = match self.work {
            Work::Rows => "one-row transactions",
            Work::Jobs => "jobs pushed, claimed and acknowledged",
        };
        format!("{what}{}", self.syncs())
    }

    fn each(&self) -> String {
        many(self.callers, "caller", "callers")
    }

    fn syncs(&self) -> String {
        match self.sync_delay_us {
            0 => String::new(),
            delay_us => format!(", syncs {} ms longer", f64::from(delay_us) / 1e3),
        }
    }

    /// Number of a caller among those of all members.
    pub(super) fn caller(&self, member: u32, index: u32) -> u32 {
        member * self.callers.max(1) + index
    }
}

fn many(count: u32, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}
