//! All kinds of rungs, as a request names them, and the one `match` that leads to each.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::described::Described;
use crate::atomic::{AccountingRung, AtomicRung};
use crate::batches::BatchesRung;
use crate::commits::CommitRung;
use crate::cycles::CyclesRung;
use crate::ladder::LadderRung;
use crate::loads::LoadRung;
use crate::queue::{ClaimRung, CycleRung, InsertsRung, WakeupRung};
use crate::shared::SharedRung;

/// Work, and its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RungKind {
    /// Files and rows into a table, or an index on one.
    Load(LoadRung),
    /// Many small transactions.
    Commits(CommitRung),
    /// One-row transactions, one after the other.
    Atomic(AtomicRung),
    /// Rows in one transaction, with and without counting.
    Accounting(AccountingRung),
    /// Jobs of a queue.
    Queue(QueueRung),
    /// A step of the ladder.
    Ladder(LadderRung),
    /// Rows in batches, by kind of key.
    Batches(BatchesRung),
    /// Cycles of inserts and deletes.
    Cycles(CyclesRung),
    /// Many processes on one database.
    Shared(SharedRung),
}

/// Rungs of the experiments "queue" and "queue-inserts".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QueueRung {
    /// Clients that push, claim and acknowledge.
    Cycle(CycleRung),
    /// Claims among many jobs.
    Claim(ClaimRung),
    /// A consumer in another process.
    Wakeup(WakeupRung),
    /// Rows in one transaction or in many.
    Inserts(InsertsRung),
}

/// Everything that a rung says and does is its family's.
impl Deref for RungKind {
    type Target = dyn Described;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Load(rung) => rung,
            Self::Commits(rung) => rung,
            Self::Atomic(rung) => rung,
            Self::Accounting(rung) => rung,
            Self::Queue(QueueRung::Cycle(rung)) => rung,
            Self::Queue(QueueRung::Claim(rung)) => rung,
            Self::Queue(QueueRung::Wakeup(rung)) => rung,
            Self::Queue(QueueRung::Inserts(rung)) => rung,
            Self::Ladder(rung) => rung,
            Self::Batches(rung) => rung,
            Self::Cycles(rung) => rung,
            Self::Shared(rung) => rung,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::rung::process::RungRequest;

    /// `rivals/bench_queue.py` sends this.
    #[test]
    fn a_rung_is_asked_for_in_this_shape() {
        let request = r#"{"kind": {"queue": {"cycle": {"by": "leafpress", "part": "cycle",
            "safety": "durable", "clients": 64, "batch": 1, "jobs": 10000000,
            "milliseconds_max": 2000}}}, "database": "queue.db"}"#;
        let request: RungRequest = serde_json::from_str(request).expect("the shape");
        assert_eq!(request.kind.name(), "durable, leafpress, 64 × cycle");
    }

    /// A wake-up's process asks for its waiter so.
    #[test]
    fn a_waiter_is_asked_for_in_this_shape() {
        let request = r#"{"kind": {"queue": {"wakeup": {"by": "sql_polls", "process": "waiter",
            "jobs": 0}}}, "database": "queue.db"}"#;
        let request: RungRequest = serde_json::from_str(request).expect("the shape");
        assert_eq!(request.kind.name(), "waiter, polling each ms, SQL");
    }

    /// A rung of many processes asks for its members so.
    #[test]
    fn a_member_is_asked_for_in_this_shape() {
        let request = r#"{"kind": {"shared": {"access": "mutex_file", "work": "rows",
            "processes": 8, "callers": 2, "milliseconds_max": 9, "role": {"member": 7}}},
            "database": "shared.db"}"#;
        let request: RungRequest = serde_json::from_str(request).expect("the shape");
        assert_eq!(request.kind.name(), "rows, SQL, mutex file, 8 × 2");
    }
}
