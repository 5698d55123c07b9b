//! Atomic pages under power cuts and kills, on disks that keep their word, refuse
//! or lie, beside other processes that are plain SQLite.
//!
//! 1. A disk that writes pages whole, or refuses to: nothing that was acknowledged
//!    is lost, in any journal mode, shared or exclusive, over one database or two.
//! 2. So does one that has no such writes, as everything goes through the same code.
//! 3. A disk that tears what it called whole is *caught* at it.
//!
//! The safeguards are taken out in `crash_atomic_safeguards.rs`.

use leafpress_testing::crash::workload_atomic::{Plan, Recorded, Settings, record};
use leafpress_testing::crash::{Budget, DiskMode, Outcome, Promise};

/// Of 1,000 images that `make crash` asks for: so many for each row.
const SHARE: u64 = 18;
const IMAGES: u64 = 1_000;

const DELETE_FULL: Settings = Settings { journal_mode: "DELETE", synchronous: "FULL" };
const DELETE_EXTRA: Settings = Settings { journal_mode: "DELETE", synchronous: "EXTRA" };
const TRUNCATE_FULL: Settings = Settings { journal_mode: "TRUNCATE", synchronous: "FULL" };
const PERSIST_FULL: Settings = Settings { journal_mode: "PERSIST", synchronous: "FULL" };
const DURABLE: [Settings; 4] = [DELETE_FULL, DELETE_EXTRA, TRUNCATE_FULL, PERSIST_FULL];

fn survey(plan: Plan, promises: [Promise; 2]) -> Outcome {
    survey_by(Budget::new(IMAGES, SHARE), plan, promises)
}

fn survey_by(budget: Budget, plan: Plan, promises: [Promise; 2]) -> Outcome {
    let outcome = budget.survey(&plan.name(), |simulator, seed, effort| {
        plan.crash(simulator, seed, effort, promises)
    });
    outcome.assert_kept();
    assert!(outcome.power_cut.images > 0 && outcome.killed.images > 0);
    outcome
}

/// Nothing is lost in any of the modes, shared or exclusive.
fn durable(mode: DiskMode) {
    for ours in DURABLE {
        for is_exclusive in [false, true] {
            let plan = Plan { is_exclusive, ..Plan::new(ours, mode) };
            survey(plan, [Promise::AllAcknowledged; 2]);
        }
    }
}

#[test]
fn honest_disks_lose_nothing() {
    durable(DiskMode::Honest);
}

#[test]
fn refused_writes_lose_nothing() {
    durable(DiskMode::Refused);
}

#[test]
fn disks_without_such_writes_lose_nothing() {
    survey(Plan::new(DELETE_EXTRA, DiskMode::Plain), [Promise::AllAcknowledged; 2]);
}

/// SQLite cuts the file after the journal is gone, which is always synced here. Other
/// processes with DELETE and FULL do not sync it and may corrupt such a database.
#[test]
fn shrinking_databases_lose_nothing() {
    let others = &[DELETE_EXTRA, TRUNCATE_FULL, PERSIST_FULL];
    for ours in [DELETE_FULL, PERSIST_FULL] {
        let plan = Plan { shrinks: true, others, ..Plan::new(ours, DiskMode::Honest) };
        survey(plan, [Promise::AllAcknowledged; 2]);
    }
}

#[test]
fn two_databases_stay_together() {
    for ours in [DELETE_EXTRA, TRUNCATE_FULL] {
        let plan = Plan { databases: 2, ..Plan::new(ours, DiskMode::Honest) };
        survey(plan, [Promise::AllAcknowledged; 2]);
    }
    let plan = Plan { databases: 2, ..Plan::new(DELETE_EXTRA, DiskMode::Refused) };
    survey(plan, [Promise::AllAcknowledged; 2]);
}

/// Kills are left out: after one, the bytes that the disk could not write would still be in
/// the system's memory.
#[test]
fn a_failed_sync_loses_nothing() {
    for ours in DURABLE {
        for is_exclusive in [false, true] {
            let plan = Plan { fails_sync: true, is_exclusive, ..Plan::new(ours, DiskMode::Honest) };
            survey(plan, [Promise::AllAcknowledged, Promise::Anything]);
        }
    }
}

/// Rows that are longer than a sector, so that a torn one shows.
#[test]
fn disks_that_lie_are_caught() {
    for ours in [DELETE_EXTRA, TRUNCATE_FULL] {
        let plan = Plan {
            is_exclusive: true,
            others: &[],
            page_bytes: &[4096],
            row_bytes: 700,
            ..Plan::new(ours, DiskMode::Torn)
        };
        // Few of the torn ones show.
        let budget = Budget::new(4 * IMAGES, SHARE);
        let budget = budget.until(|outcome| {
            let tally = outcome.power_cut;
            tally.corrupt + tally.not_a_prefix > 0
        });
        let promises = [Promise::Anything, Promise::AllAcknowledged];
        let tally = survey_by(budget, plan, promises).power_cut;
        assert!(tally.corrupt + tally.not_a_prefix > 0, "{tally:?}");
    }
}

/// The surveys above meet both cases: pages that are written whole, and refused writes.
#[test]
fn the_workload_writes_pages_in_place() {
    for (mode, refuses) in [(DiskMode::Honest, false), (DiskMode::Refused, true)] {
        let runs = Budget::new(0, 0).seeds().take(10).map(|seed| {
            let Recorded { counts, history, .. } = record(&Plan::new(DELETE_EXTRA, mode), seed, 40);
            assert!(history.len() > 5);
            counts
        });
        let (written, refused) =
            runs.fold((0, 0), |sum, run| (sum.0 + run.written, sum.1 + run.refused));
        assert!(written > 100, "{written}");
        assert_eq!(refused > 5, refuses, "{refused}");
    }
    let none = record(&Plan::new(DELETE_EXTRA, DiskMode::Plain), 1, 40).counts;
    assert_eq!([none.written, none.refused], [0, 0]);
}
