//! The purpose of each safeguard of atomic pages: without it a promise breaks.
//!
//! 1. With one safeguard taken out, a workload for it breaks a promise; with all of
//!    them the same workload breaks none.
//! 2. `SQLITE_ENABLE_ATOMIC_WRITE` as SQLite ships it, which is none of them, loses
//!    what was acknowledged and keeps transactions without those before them.
//!
//! The disk is honest in all of this: pages are written whole.

use leafpress::vfs::atomic::Safeguard;
use leafpress_testing::crash::workload_atomic::{Kind, Plan, Settings};
use leafpress_testing::crash::{Budget, DiskMode, OurDisk, Outcome, Promise};

/// Of 1,000 images that `make crash` asks for: so many for each row.
const SHARE: u64 = 5;
const IMAGES: u64 = 3_000;
/// Images of workloads of which few images break a promise.
const IMAGES_MANY: u64 = 6_000;

const DELETE_FULL: Settings = Settings { journal_mode: "DELETE", synchronous: "FULL" };
const DELETE_EXTRA: Settings = Settings { journal_mode: "DELETE", synchronous: "EXTRA" };
const TRUNCATE_FULL: Settings = Settings { journal_mode: "TRUNCATE", synchronous: "FULL" };
const TRUNCATE_NORMAL: Settings = Settings { journal_mode: "TRUNCATE", synchronous: "NORMAL" };
const PERSIST_FULL: Settings = Settings { journal_mode: "PERSIST", synchronous: "FULL" };

const KEPT: [Promise; 2] = [Promise::AllAcknowledged; 2];
const ANYTHING: [Promise; 2] = [Promise::Anything; 2];

const fn plan(ours: Settings) -> Plan {
    Plan::new(ours, DiskMode::Honest)
}

/// The finding without which a control does not end.
type Wanted = fn(&Outcome) -> bool;

fn survey(plan: Plan, promises: [Promise; 2]) -> Outcome {
    survey_by(Budget::new(IMAGES, SHARE), plan, &[], promises)
}

/// Without these safeguards, until this was found.
fn control(
    plan: Plan,
    without: &'static [Safeguard],
    promises: [Promise; 2],
    wanted: Wanted,
) -> Outcome {
    survey_by(Budget::new(IMAGES, SHARE).until(wanted), plan, without, promises)
}

fn survey_by(
    budget: Budget,
    plan: Plan,
    without: &'static [Safeguard],
    promises: [Promise; 2],
) -> Outcome {
    let plan = Plan { disk: OurDisk { without, ..plan.disk }, ..plan };
    let name = plan.name() + if without.is_empty() { ", all safeguards" } else { "" };
    budget.survey(&name, |simulator, seed, effort| plan.crash(simulator, seed, effort, promises))
}

/// The workload keeps its promises with all safeguards, and breaks one without these, as wanted.
fn needed(plan: Plan, safeguards: &'static [Safeguard], wanted: Wanted) -> Outcome {
    survey(plan, KEPT).assert_kept();
    let outcome = control(plan, safeguards, KEPT, wanted);
    assert!(outcome.failures_count > 0, "nothing breaks without {safeguards:?}");
    outcome
}

/// A transaction is there without one before it.
fn out_of_order(outcome: &Outcome) -> bool {
    outcome.power_cut.not_a_prefix > 0
}

/// With it FULL is as good as EXTRA; without, it loses the last transaction, as it
/// does in plain SQLite.
#[test]
fn a_deleted_journal_comes_back() {
    let loses: Wanted = |outcome| outcome.power_cut.images_with_losses > 0;
    let tally = needed(plan(DELETE_FULL), &[Safeguard::FolderSyncOnDelete], loses).power_cut;
    assert!(tally.images_with_losses > 0 && tally.lost_max == 1, "{tally:?}");
}

/// SQLite syncs it by itself with FULL. With NORMAL it does not; that a journal is
/// torn there, its header and its content being synced together, no safeguard changes.
#[test]
fn a_journal_cut_to_nothing_comes_back() {
    let alone = Plan { others: &[], ..plan(TRUNCATE_NORMAL) };
    let few_are_corrupt: Wanted =
        |outcome| outcome.power_cut.corrupt * 50 < outcome.power_cut.images;
    let with = control(alone, &[], ANYTHING, few_are_corrupt).power_cut;
    let without = control(alone, &[Safeguard::SyncOnTruncate], ANYTHING, |outcome| {
        outcome.power_cut.images_with_losses > 0 && outcome.power_cut.not_a_prefix > 0
    });
    let without = without.power_cut;
    assert!(with.images_with_losses == 0 && with.corrupt * 50 < with.images, "{with:?}");
    assert!(without.images_with_losses > 0 && without.not_a_prefix > 0, "{without:?}");
}

/// Another process rolled back or committed, and no process synced the deletion of its
/// journal: the journal comes back and takes back pages that were written in place since.
#[test]
fn a_journal_that_others_deleted_comes_back() {
    let others = Plan {
        others: &[DELETE_FULL],
        others_percent: 40,
        deaths_percent: 0,
        kinds: &[Kind::OnePage, Kind::OnePage, Kind::OnePageSpilled, Kind::ManySpilled],
        page_bytes: &[2048, 4096],
        ..plan(DELETE_EXTRA)
    };
    survey(others, KEPT).assert_kept();
    let budget = Budget::new(IMAGES_MANY, SHARE).until(|outcome| {
        let tally = outcome.power_cut;
        tally.images_with_losses + tally.not_a_prefix > 0
    });
    let tally = survey_by(budget, others, &[Safeguard::SyncBeforeFirst], ANYTHING).power_cut;
    assert!(tally.images_with_losses + tally.not_a_prefix > 0, "{tally:?}");
}

/// A process was killed after it had written a page in place and before the sync. The
/// next one reads that page, and what it writes may last longer.
#[test]
fn a_page_that_the_dead_left_is_lost_before_the_next() {
    let dying = Plan { deaths_percent: 40, kinds: &[Kind::OnePage], ..plan(DELETE_EXTRA) };
    let tally = needed(dying, &[Safeguard::SyncLeftPages], out_of_order).power_cut;
    assert!(tally.not_a_prefix > 0, "{tally:?}");
}

/// A full cache moves the journal from the memory into a file, unsynced. Beside an old
/// journal, as in PERSIST, even killing the process is enough.
#[test]
fn a_journal_that_left_the_memory_is_not_there() {
    let kinds = &[Kind::OnePageSpilled, Kind::Many];
    let without = &[Safeguard::SyncSpilledJournal];
    for ours in [DELETE_EXTRA, TRUNCATE_FULL] {
        let tally = needed(Plan { kinds, ..plan(ours) }, without, out_of_order).power_cut;
        assert!(tally.not_a_prefix > 0, "{tally:?}");
    }
    let small = Plan { kinds, page_bytes: &[512], ..plan(PERSIST_FULL) };
    let killed = needed(small, without, |outcome| outcome.killed.not_a_prefix > 0).killed;
    assert!(killed.not_a_prefix > 0, "{killed:?}");
}

/// Without the bit, a page is written past the place that syncs such a journal, which
/// breaks a promise. The counter on page 1 beside a journal breaks none, in 300,000
/// images: a page of which only the counter is newer is a good page.
#[test]
fn a_page_beside_an_open_journal_is_written_too_early() {
    let plan = Plan {
        is_exclusive: true,
        kinds: &[Kind::OnePageSpilled, Kind::Many],
        ..plan(DELETE_EXTRA)
    };
    needed(plan, &[Safeguard::NoBitBesideJournal], |outcome| outcome.failures_count > 0);
}

/// All of it together: the option of SQLite's by itself, over an honest disk.
#[test]
fn sqlite_as_shipped_loses_transactions() {
    for ours in [DELETE_FULL, DELETE_EXTRA, PERSIST_FULL] {
        let tally = control(plan(ours), &Safeguard::ALL, ANYTHING, out_of_order).power_cut;
        assert!(tally.not_a_prefix > 0, "{tally:?}");
    }
    // Not the last alone, as without the option, but several.
    let several: Wanted =
        |outcome| outcome.power_cut.lost_max > 1 && outcome.power_cut.not_a_prefix > 0;
    let tally = control(plan(TRUNCATE_NORMAL), &Safeguard::ALL, ANYTHING, several).power_cut;
    assert!(tally.lost_max > 1 && tally.not_a_prefix > 0, "{tally:?}");
}
