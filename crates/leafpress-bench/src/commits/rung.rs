//! Rungs of commits: who commits, under which promise, how the committer is called, what goes on
//! meanwhile.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::table::Table;
use crate::report::Safety;

/// Limit of the WAL under the Writer's defaults, while no reader holds an old snapshot.
pub(crate) const WAL_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a page in the WAL.
pub(super) const FRAME_BYTES: u64 = 4096 + 24;

/// Rival that makes the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Committer {
    /// SQLite, one connection, one commit per call.
    PerCall,
    /// SQLite, one connection behind a mutex, many threads, one commit per call.
    Mutex,
    /// SQLite behind a channel, one transaction for all that waits; a call that
    /// fails takes the others with it.
    BareGroups,
    /// Such groups with a savepoint for each call.
    SavepointGroups,
    /// SQLite, all rows in one transaction: no answer before the end.
    OneTransaction,
    /// Leafpress's Writer.
    Leafpress,
}

/// Way in which the committer is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Calls {
    /// This many threads; each waits for its answer before its next call.
    Blocking(u32),
    /// One thread that has this many calls under way before it waits for the oldest.
    InFlight(u32),
    /// One thread that has this many closures under way, each of which adds a row (Leafpress only).
    Closures(u32),
    /// One thread that adds this many rows by each `insert_many` (Leafpress only).
    Many(u32),
}

impl Calls {
    /// Threads that call.
    pub(crate) fn callers(self) -> u32 {
        match self {
            Self::Blocking(callers) => callers.max(1),
            Self::InFlight(_) | Self::Closures(_) | Self::Many(_) => 1,
        }
    }

    /// Rows that each has under way.
    pub(crate) fn in_flight(self) -> usize {
        match self {
            Self::Blocking(_) => 1,
            Self::InFlight(rows) | Self::Closures(rows) | Self::Many(rows) => rows.max(1) as usize,
        }
    }
}

/// Events beside the callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scene {
    /// Nothing; only the rate matters.
    Rate,
    /// Nothing; the course over time is kept.
    Course,
    /// No checkpoint at all: the WAL grows (SQLite only).
    NoCheckpoints,
    /// A read transaction that is held while the second third of the rows comes.
    LongReader,
    /// Read transactions of a few milliseconds, one after the other.
    ShortReaders,
    /// Each sync takes 20 ms longer, as on an SD card.
    SlowSyncs,
}

impl Scene {
    /// Time that each sync takes longer.
    pub(crate) fn sync_delay(self) -> Duration {
        Duration::from_millis(if self == Self::SlowSyncs { 20 } else { 0 })
    }

    /// First word of its rungs' names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rate => "",
            Self::Course | Self::NoCheckpoints => "commits",
            Self::LongReader => "long reader",
            Self::ShortReaders => "short readers",
            Self::SlowSyncs => "slow syncs",
        }
    }
}

/// One rung of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommitRung {
    /// Rival that makes the commits.
    pub(crate) by: Committer,
    /// The profile, by its promise; SQLite gets the same pragmas.
    pub(crate) safety: Safety,
    /// Way in which the committer is called.
    pub(crate) calls: Calls,
    /// Events beside the callers.
    pub(crate) scene: Scene,
    /// Calls, over all callers; each adds a row.
    pub(crate) rows: u64,
    /// Time limit in milliseconds: no further call begins after it. One
    /// transaction is never cut.
    pub(crate) milliseconds_max: u64,
    /// Table that the rows go to.
    #[serde(default)]
    pub(crate) table: Table,
}

impl CommitRung {
    /// Name in the report.
    pub(crate) fn name(self) -> String {
        let is_alone = self.calls == Calls::Blocking(1);
        let calls = match self.calls {
            Calls::Blocking(callers) if self.by == Committer::Leafpress || !is_alone => {
                format!(", {callers} blocking")
            }
            Calls::Blocking(_) => String::new(),
            Calls::InFlight(calls) => format!(", {calls} in flight"),
            Calls::Closures(calls) => format!(", {calls} closures in flight"),
            Calls::Many(rows) => format!(", {rows} rows a call"),
        };
        let scene = if self.scene == Scene::Rate { self.safety.name() } else { self.scene.name() };
        let table = if self.table.is_plain() { "" } else { ", " };
        format!("{scene}{table}{}, {}{calls}", self.table.name(), self.who())
    }

    /// Rival, and its way of committing.
    pub(super) fn who(self) -> &'static str {
        match (self.by, self.scene) {
            (Committer::Leafpress, _) => "leafpress",
            (Committer::PerCall, Scene::Rate) => "SQL, one commit a call",
            (Committer::PerCall, Scene::NoCheckpoints) => "SQL, no checkpoints",
            (Committer::PerCall, _) => "SQL, autocheckpoint",
            (Committer::Mutex, _) => "SQL, mutex",
            (Committer::BareGroups, _) => "SQL, bare groups",
            (Committer::SavepointGroups, _) => "SQL, savepoints",
            (Committer::OneTransaction, _) => "SQL, one transaction",
        }
    }

    /// Returns true if the course over time and the WAL's size are kept.
    pub(crate) fn has_course(self) -> bool {
        self.scene != Scene::Rate
    }
}
