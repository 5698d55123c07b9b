//! The promises of plain SQLite under each journal mode and `synchronous`, checked
//! after power cuts and kills at every moment.
//!
//! 1. Settings that promise durability lose nothing, ever.
//! 2. Settings that are known to lose or to corrupt are *caught* at it: a
//!    simulator that finds no fault in them proves nothing elsewhere.
//!
//! `make crash` runs the same over a million images.

use leafpress_testing::crash::workload::{self, Settings};
use leafpress_testing::crash::{
    Budget, Effort, Outcome, Promise, Run, Simulator, Tally, shared_recorder,
};

const TRANSACTIONS: u64 = 30;
/// Of 1,000 images that `make crash` asks for: so many for each row.
const SHARE: u64 = 30;
const IMAGES: u64 = 3_000;

/// Records a run of the workload on a real folder, and crashes it.
fn crash(
    simulator: &mut Simulator,
    settings: Settings,
    seed: u64,
    effort: Effort,
    [power_cut, killed]: [Promise; 2],
) -> Outcome {
    let (recorder, registration) = shared_recorder();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    workload::create(&path, settings, seed).unwrap();
    let log = recorder.watch(folder.path());
    let vfs = registration.name().to_str().unwrap();
    let history = workload::run(&path, vfs, settings, seed, TRANSACTIONS, &log).unwrap();
    recorder.unwatch(folder.path().canonicalize().unwrap().to_str().unwrap());
    let recording = log.finish();
    let name = settings.name();
    simulator.simulate(
        &Run {
            name: &name,
            seed,
            recording: &recording,
            history: &history,
            database: "a.db",
            begins_absent: false,
            content: workload::content,
            power_cut,
            killed,
        },
        effort,
    )
}

/// Crashes many runs of a workload that also shrinks the database.
fn survey(
    journal_mode: &'static str,
    synchronous: &'static str,
    promises: [Promise; 2],
) -> Outcome {
    survey_of(Settings { journal_mode, synchronous, shrinks: true }, promises)
}

/// Crashes many runs as `survey` does, and goes on until this was found.
fn control(
    journal_mode: &'static str,
    synchronous: &'static str,
    promises: [Promise; 2],
    wanted: fn(&Outcome) -> bool,
) -> Outcome {
    let settings = Settings { journal_mode, synchronous, shrinks: true };
    survey_by(Budget::new(IMAGES, SHARE).until(wanted), settings, promises)
}

/// Crashes many runs, and prints what was found.
fn survey_of(settings: Settings, promises: [Promise; 2]) -> Outcome {
    survey_by(Budget::new(IMAGES, SHARE), settings, promises)
}

fn survey_by(budget: Budget, settings: Settings, promises: [Promise; 2]) -> Outcome {
    let outcome = budget.survey(&settings.name(), |simulator, seed, effort| {
        crash(simulator, settings, seed, effort, promises)
    });
    outcome.assert_kept();
    outcome
}

/// Neither a power cut, nor one during the recovery, nor a kill takes anything.
fn durable(journal_mode: &'static str, synchronous: &'static str) {
    let outcome = survey(journal_mode, synchronous, [Promise::AllAcknowledged; 2]);
    assert!(outcome.power_cut.images > 0 && outcome.recovery.images > 0);
}

/// After a power cut anything may be found, and is; `killed` as it says.
fn hopeless(journal_mode: &'static str, synchronous: &'static str, killed: Promise) -> Outcome {
    let outcome = control(journal_mode, synchronous, [Promise::Anything, killed], |outcome| {
        let Tally { images, lost_max, corrupt, not_a_prefix, .. } = outcome.power_cut;
        corrupt * 10 > images && lost_max > 1 && not_a_prefix > 0
    });
    let Tally { images, lost_max, corrupt, not_a_prefix, .. } = outcome.power_cut;
    assert!(corrupt * 10 > images, "{corrupt} of {images} images are corrupt");
    assert!(lost_max > 1 && not_a_prefix > 0, "{:?}", outcome.power_cut);
    outcome
}

#[test]
fn wal_full_loses_nothing() {
    durable("WAL", "FULL");
}

#[test]
fn wal_extra_loses_nothing() {
    durable("WAL", "EXTRA");
}

#[test]
fn wal_normal_loses_some_of_the_last_and_never_the_middle() {
    let promises = [Promise::Prefix, Promise::AllAcknowledged];
    let outcome = control("WAL", "NORMAL", promises, |outcome| outcome.power_cut.lost_max > 1);
    assert!(outcome.power_cut.lost_max > 1, "{:?}", outcome.power_cut);
}

#[test]
fn wal_off_breaks_in_a_power_cut_only() {
    hopeless("WAL", "OFF", Promise::AllAcknowledged);
}

#[test]
fn delete_extra_loses_nothing() {
    durable("DELETE", "EXTRA");
}

#[test]
fn delete_full_may_lose_the_last() {
    let settings = Settings { journal_mode: "DELETE", synchronous: "FULL", shrinks: false };
    let budget = Budget::new(IMAGES, SHARE).until(|outcome| outcome.power_cut.lost_max > 0);
    let promises = [Promise::AtMostOneLost, Promise::AllAcknowledged];
    let outcome = survey_by(budget, settings, promises);
    assert_eq!(outcome.power_cut.lost_max, 1, "no lost transaction was found");
}

/// SQLite cuts the file after it has deleted the journal. If the cut survives
/// and the deletion does not, the journal comes back and cannot bring back what
/// was cut off. EXTRA, which syncs the folder in between, prevents it.
#[test]
fn delete_full_breaks_where_the_database_shrinks() {
    let promises = [Promise::Anything, Promise::AllAcknowledged];
    let outcome = control("DELETE", "FULL", promises, |outcome| {
        outcome.power_cut.lost_max > 0 && outcome.power_cut.corrupt > 0
    });
    let Tally { lost_max, corrupt, .. } = outcome.power_cut;
    assert!(lost_max == 1 && corrupt > 0, "{:?}", outcome.power_cut);
}

/// The journal's header is synced together with its content, or its end not at
/// all: it may be rolled back where it is incomplete (its checksums look at each
/// 200th byte only), or come back beside a newer database.
#[test]
fn normal_journals_lose_the_last_or_break() {
    for journal_mode in ["DELETE", "TRUNCATE", "PERSIST"] {
        let promises = [Promise::Anything, Promise::AllAcknowledged];
        let settings = Settings { journal_mode, synchronous: "NORMAL", shrinks: false };
        let budget = Budget::new(IMAGES, SHARE).until(|outcome| {
            let Tally { images, images_with_losses, corrupt, .. } = outcome.power_cut;
            images_with_losses + corrupt > 0 && corrupt * 10 < images
        });
        let tally = survey_by(budget, settings, promises).power_cut;
        let Tally { images, images_with_losses, lost_max, corrupt, .. } = tally;
        assert!(images_with_losses + corrupt > 0 && lost_max <= 1, "{journal_mode}: {tally:?}");
        assert!(corrupt * 10 < images, "{journal_mode}: {corrupt} of {images} images are corrupt");
    }
}

#[test]
fn truncate_full_loses_nothing() {
    durable("TRUNCATE", "FULL");
}

#[test]
fn persist_full_loses_nothing() {
    durable("PERSIST", "FULL");
}

#[test]
fn memory_off_breaks() {
    hopeless("MEMORY", "OFF", Promise::Anything);
}

#[test]
fn off_off_breaks() {
    hopeless("OFF", "OFF", Promise::Anything);
}

/// Even a killed process corrupts the database, however much is synced.
#[test]
fn memory_breaks_when_the_process_is_killed() {
    let outcome = survey("MEMORY", "EXTRA", [Promise::Anything; 2]);
    let Tally { images, corrupt, .. } = outcome.killed;
    assert!(corrupt * 20 > images, "{corrupt} of {images} images are corrupt");
}
