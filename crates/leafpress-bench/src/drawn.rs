//! What the rungs of the larger experiments are drawn together with, and what they are
//! called there: loads, commits, single transactions, jobs. (Those of the published
//! experiments say so themselves.)
//!
//! Rungs of one chart did the same work, or as much of it as they could.
//!
//! Must never: put two rungs of the same label into one chart.

use crate::atomic::{AtomicRung, Change, Locking, Opener, Pages, Place};
use crate::commits::{Calls, CommitRung, Committer, Scene};
use crate::queue::{ClaimRung, CycleRung, Keeper, Part, QueueRung, WakeupRung, Waking};
use crate::report::Safety;
use crate::rung::{RungKind, Work};

/// A chart, and a name within it.
pub(crate) struct Drawn {
    pub(crate) chart: String,
    pub(crate) label: String,
}

impl Drawn {
    fn new(chart: impl Into<String>, label: impl Into<String>) -> Self {
        Self { chart: chart.into(), label: label.into() }
    }
}

/// Where a rung is drawn; `None` where it says so itself.
pub(crate) fn of(kind: &RungKind) -> Option<Drawn> {
    match *kind {
        RungKind::Commits(rung) => Some(commits(rung)),
        RungKind::Atomic(rung) => Some(single(rung)),
        RungKind::Accounting(_) => {
            let label = kind.name().trim_start_matches("accounting, ").to_owned();
            Some(Drawn::new("what counting costs: one transaction", label))
        }
        RungKind::Queue(rung) => jobs(rung),
        _ if kind.described().is_some() => None,
        _ => Some(load(kind)),
    }
}

/// The first word of a load's name says what is loaded, and the rest by whom.
fn load(kind: &RungKind) -> Drawn {
    let name = kind.name();
    let (what, who) = name.split_once(", ").unwrap_or((&name, ""));
    let chart = match what {
        "csv" => "a CSV file",
        "csv and index" => "a CSV file, with an index",
        "rows" => "rows made in memory",
        "attach" => "a new table in an existing database",
        "keys" => "random keys",
        "append" => "more rows with random keys",
        "index" => "an index on a table",
        other => other,
    };
    Drawn::new(chart, who)
}

fn commits(rung: CommitRung) -> Drawn {
    let calls = match (rung.by, rung.calls) {
        // It has one caller always.
        (Committer::PerCall | Committer::OneTransaction, _) => String::new(),
        (_, Calls::Blocking(1)) => ", 1 caller".to_owned(),
        (_, Calls::Blocking(callers)) => format!(", {callers} callers"),
        (_, Calls::InFlight(calls)) => format!(", {calls} in flight"),
    };
    let who = match (rung.by, rung.scene) {
        (Committer::Leafpress, _) => "Writer",
        (Committer::PerCall, Scene::Rate) => "SQL, one commit a call",
        (Committer::PerCall, Scene::NoCheckpoints) => "SQL, no checkpoints",
        (Committer::PerCall, _) => "SQL, its own checkpoints",
        (Committer::Mutex, _) => "SQL, mutex",
        (Committer::BareGroups, _) => "SQL, bare groups",
        (Committer::SavepointGroups, _) => "SQL, savepoints",
        (Committer::OneTransaction, _) => "SQL, one transaction",
    };
    let chart = match rung.scene {
        Scene::Rate => format!("one-row transactions, {}", rung.safety.name()),
        Scene::Course | Scene::NoCheckpoints => "commits, nothing besides".to_owned(),
        Scene::LongReader => "commits beside a long reader".to_owned(),
        Scene::ShortReaders => "commits beside short readers".to_owned(),
        Scene::SlowSyncs => "commits where each sync takes 20 ms longer".to_owned(),
    };
    Drawn::new(chart, format!("{who}{calls}"))
}

fn single(rung: AtomicRung) -> Drawn {
    let change = match rung.change {
        Change::Insert => "one-row inserts",
        Change::Update => "one-row updates",
    };
    let locking = match rung.locking {
        Locking::Shared => "shared locking",
        Locking::Exclusive => "exclusive locking",
    };
    let place = if rung.place == Place::Disk { "" } else { ", on the XFS loop" };
    let ours = |pages| match pages {
        Pages::Journal => "rollback, journal",
        Pages::WhereProven => "rollback",
        Pages::Assumed => "rollback, assumed",
    };
    let label = match rung.by {
        Opener::Sql(journal, synchronous) => {
            format!("{} + {}", journal.name(), synchronous.name()).to_uppercase()
        }
        Opener::Leafpress(pages) => format!("leafpress {}", ours(pages)),
        Opener::LeafpressSmall(pages) => format!("leafpress {}, small", ours(pages)),
    };
    Drawn::new(format!("{change}, {locking}{place}"), label)
}

fn jobs(rung: QueueRung) -> Option<Drawn> {
    Some(match rung {
        QueueRung::Cycle(rung) => clients(rung),
        QueueRung::Claim(ClaimRung { safety, among, batch, .. }) => {
            let of = if batch == 1 { "claims".to_owned() } else { format!("claims of {batch}") };
            let promise = if safety == Safety::Relaxed { "" } else { ", durable" };
            Drawn::new(format!("{of} among many jobs{promise}"), among.name())
        }
        QueueRung::Wakeup(WakeupRung { by, .. }) | QueueRung::Waiter(WakeupRung { by, .. }) => {
            let label = match by {
                Waking::Waits => "waiting in the Queue's claim",
                Waking::Polls => "polling each ms, then the Queue's claim",
                Waking::SqlPolls => "polling each ms, SQL",
            };
            Drawn::new("a consumer in another process wakes up", label)
        }
        // They describe themselves.
        QueueRung::Inserts(_) => return None,
    })
}

fn clients(rung: CycleRung) -> Drawn {
    let CycleRung { by, part, safety, clients, batch, sync_delay_us, .. } = rung;
    let who = match by {
        Keeper::Leafpress => "Queue",
        Keeper::SqlConnections => "SQL, locking",
        Keeper::SqlMutex => "SQL, mutex",
    };
    let what = match part {
        Part::Push => "jobs pushed",
        Part::ClaimAck => "jobs claimed and acknowledged",
        Part::Cycle => "jobs, the whole cycle",
    };
    let batch = if batch == 1 { String::new() } else { format!(", {batch} a call") };
    let slow = if sync_delay_us == 0 { "" } else { ", slower syncs" };
    let clients = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
    // Of a part alone there is only the Queue: its numbers of clients are compared.
    if part == Part::Cycle {
        Drawn::new(format!("{what}{batch}, {clients}, {}{slow}", safety.name()), who)
    } else {
        Drawn::new(format!("{what}{batch}, {}{slow}", safety.name()), format!("{who}, {clients}"))
    }
}

/// Whether the size of a group belongs into the names of its charts, as another group
/// does the same at another size.
pub(crate) fn has_sizes(work: Work) -> bool {
    matches!(work, Work::Users | Work::Keys)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::group::size_name;
    use crate::options::{AtomicOptions, BenchOptions, Experiment, Size};
    use crate::plan::plan;

    #[test]
    fn every_rung_has_a_chart_and_a_label_of_its_own_in_it() {
        let atomic = AtomicOptions { transactions: 9, full: true, xfs_loop: true, assume: true };
        for (size, atomic) in [
            (Size::Quick, AtomicOptions { full: false, xfs_loop: false, ..atomic }),
            (Size::Large, atomic),
        ] {
            let experiments = Experiment::ALL.to_vec();
            let options = BenchOptions { experiments, atomic, ..BenchOptions::sized(size) };
            let mut seen = BTreeSet::new();
            for group in plan(&options).expect("a plan") {
                for kind in &group.kinds {
                    let size =
                        if has_sizes(group.work) { size_name(group.rows) } else { String::new() };
                    let place = (group.experiment, format!("{}{size}", kind.chart()), kind.label());
                    assert!(!place.1.is_empty() && !place.2.is_empty(), "{}", kind.name());
                    assert!(seen.insert(place.clone()), "{}: {place:?}", kind.name());
                }
            }
        }
    }

    #[test]
    fn a_chart_holds_what_did_the_same() {
        let experiments = Experiment::ALL.to_vec();
        let options = BenchOptions { experiments, ..BenchOptions::sized(Size::Large) };
        let groups = plan(&options).expect("a plan");
        let charts: BTreeSet<String> =
            groups.iter().flat_map(|group| &group.kinds).map(RungKind::chart).collect();
        for chart in [
            "one-row transactions, durable",
            "one-row updates, shared locking",
            "commits beside a long reader",
            "jobs, the whole cycle, 64 clients, durable",
            "jobs pushed, 100 a call, relaxed",
            "a consumer in another process wakes up",
            "a CSV file",
            "rows made in memory",
        ] {
            assert!(charts.contains(chart), "{chart}: {charts:?}");
        }
    }
}
