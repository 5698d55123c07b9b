//! Rungs of many small transactions: the Writer beside what SQLite's users do
//! without it, one row a call.
//!
//! | module | does |
//! |---|---|
//! | here | what a rung is: who commits, under which promise, how it is called, what goes on meanwhile |
//! | `plan` | which rungs are compared with which |
//! | `run` | opens, calls, records, closes |
//! | `calls` | the callers: threads, calls in flight, what each call took |
//! | `rivals`, `ours` | what a call does, by SQLite and by the Writer |
//! | `scene` | what goes on beside the callers: readers, slow syncs, a watch over the WAL |
//! | `record` | percentiles and the course over time |
//!
//! Must never: count a call that was not acknowledged, or time anything before
//! the first call or after the last acknowledgement.

mod calls;
mod ours;
pub(crate) mod plan;
pub(crate) mod record;
mod rivals;
mod run;
mod scene;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::Safety;

pub(crate) use self::calls::Call;
pub(crate) use self::ours::profile as profile_of;
pub(crate) use self::rivals::pragmas;
pub(crate) use self::run::{Ready, prepare};
pub(crate) use self::scene::{SlowedSyncs, sync_us_median};

/// The table that every call adds a row to.
pub(crate) const TABLE: &str =
    "CREATE TABLE call(id INTEGER PRIMARY KEY, caller INTEGER, n INTEGER, text TEXT)";

/// What every call does.
pub(crate) const INSERT: &str = "INSERT INTO call(caller, n, text) VALUES (?1, ?2, ?3)";

/// How far the WAL may grow under the Writer's default limits, while no reader
/// holds an old snapshot.
pub(crate) const WAL_BYTES_MAX: u64 = 64 << 20;

/// A page in the WAL.
const FRAME_BYTES: u64 = 4096 + 24;

/// Who makes the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Committer {
    /// SQLite, one connection, one commit per call.
    PerCall,
    /// SQLite, one connection behind a mutex, many threads, one commit per call.
    Mutex,
    /// SQLite behind a channel, one transaction for all that waits; a call that
    /// fails takes the others with it.
    BareGroups,
    /// The same with a savepoint for each call.
    SavepointGroups,
    /// SQLite, all rows in one transaction: no answer before the end.
    OneTransaction,
    /// Leafpress's Writer.
    Leafpress,
}

/// How it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calls {
    /// So many threads, each waits for its answer before its next call.
    Blocking(u32),
    /// One thread that has so many calls under way before it waits for the oldest.
    InFlight(u32),
}

impl Calls {
    /// Threads that call.
    pub(crate) fn callers(self) -> u32 {
        match self {
            Self::Blocking(callers) => callers.max(1),
            Self::InFlight(_) => 1,
        }
    }

    /// Calls that each has under way.
    pub(crate) fn in_flight(self) -> usize {
        match self {
            Self::Blocking(_) => 1,
            Self::InFlight(calls) => calls.max(1) as usize,
        }
    }
}

/// What goes on meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scene {
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
    /// What each sync takes longer.
    pub(crate) fn sync_delay(self) -> Duration {
        Duration::from_millis(if self == Self::SlowSyncs { 20 } else { 0 })
    }

    /// How its rungs are called.
    fn name(self) -> &'static str {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CommitRung {
    /// Who makes the commits.
    pub by: Committer,
    /// The profile, by its promise; SQLite gets the same pragmas.
    pub safety: Safety,
    /// How it is called.
    pub calls: Calls,
    /// What goes on meanwhile.
    pub scene: Scene,
    /// Calls, over all callers; each adds a row.
    pub rows: u64,
    /// No call is begun after so long, and the rows are then fewer. One
    /// transaction is never cut.
    pub milliseconds_max: u64,
}

impl CommitRung {
    /// Its name in the report.
    pub(crate) fn name(self) -> String {
        let who = match (self.by, self.scene) {
            (Committer::Leafpress, _) => "leafpress",
            (Committer::PerCall, Scene::Rate) => "SQL, one commit a call",
            (Committer::PerCall, Scene::NoCheckpoints) => "SQL, no checkpoints",
            (Committer::PerCall, _) => "SQL, autocheckpoint",
            (Committer::Mutex, _) => "SQL, mutex",
            (Committer::BareGroups, _) => "SQL, bare groups",
            (Committer::SavepointGroups, _) => "SQL, savepoints",
            (Committer::OneTransaction, _) => "SQL, one transaction",
        };
        let is_alone = self.calls == Calls::Blocking(1);
        let calls = match self.calls {
            Calls::Blocking(callers) if self.by == Committer::Leafpress || !is_alone => {
                format!(", {callers} blocking")
            }
            Calls::Blocking(_) => String::new(),
            Calls::InFlight(calls) => format!(", {calls} in flight"),
        };
        let scene = if self.scene == Scene::Rate { self.safety.name() } else { self.scene.name() };
        format!("{scene}, {who}{calls}")
    }

    /// Whether the course over time and the WAL's size are kept.
    pub(crate) fn has_course(self) -> bool {
        self.scene != Scene::Rate
    }

    /// What the WAL file may not exceed, where that is promised: the bound and one
    /// group, at a page or so for each call.
    pub(crate) fn wal_bytes_max(self) -> Option<u64> {
        const PAGES_BESIDE: u64 = 16;
        let is_promised =
            self.by == Committer::Leafpress && self.has_course() && self.scene != Scene::LongReader;
        let calls = u64::from(self.calls.callers()) * self.calls.in_flight() as u64;
        is_promised.then_some(WAL_BYTES_MAX + (calls + PAGES_BESIDE) * FRAME_BYTES)
    }

    /// What its files take on the disk at most, rounded up: 64 bytes a row in the
    /// table and again in a WAL or journal; a page and its frame's head for each
    /// commit while nothing can be moved from the WAL.
    pub(crate) fn room_mb(self) -> u64 {
        const ROW_BYTES: u64 = 2 * 64;
        let stuck_rows = match self.scene {
            Scene::NoCheckpoints => self.rows,
            Scene::LongReader => self.rows.div_ceil(3),
            _ => 0,
        };
        let bytes = self.rows.saturating_mul(ROW_BYTES) + stuck_rows.saturating_mul(FRAME_BYTES);
        bytes.saturating_add(WAL_BYTES_MAX).div_ceil(1_000_000)
    }
}
