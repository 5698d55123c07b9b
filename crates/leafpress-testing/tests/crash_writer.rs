//! The Writer under power cuts and kills at every moment: concurrent callers,
//! calls of all kinds, a checkpointer that works all the time.
//!
//! 1. What a caller was told to be done is there, whole, as far as the profile
//!    promises; under every profile but `rebuildable` what is there is a prefix
//!    of the calls in the order of their commits.
//! 2. A call that was not answered is there whole or not at all; one that
//!    failed has left nothing.
//! 3. This holds at every step of the checkpointer: passes beside the writer,
//!    catch-ups, rewinds, truncations, the end.
//! 4. `rebuildable` promises nothing, and is caught at breaking.
//!
//! Threads meet in another way each time, so a seed repeats the calls and not
//! their order: a failure keeps the files of its image besides.

use std::sync::atomic::{AtomicU64, Ordering};

use leafpress::Profile;
use leafpress::writer::Writer;
use leafpress_testing::crash::workload_writer::{
    ROUNDS, SCHEMA, limits, schema, simulate, work_and_rest,
};
use leafpress_testing::crash::{
    Budget, Effort, Event, FAILURES_MAX, Outcome, Promise, Random, Simulator, Tally,
    shared_recorder,
};

/// Of 1,000 images that `make crash` asks for: so many for each test.
const SHARE: u64 = 120;
const IMAGES: u64 = 8_000;

/// Numbers of the checkpointer in all runs.
#[derive(Default)]
struct Checkpoints {
    passes: AtomicU64,
    catch_ups: AtomicU64,
    truncations: AtomicU64,
}

/// Records a writer with its callers, and crashes it.
fn crash(
    simulator: &mut Simulator,
    profile: Profile,
    (seed, effort): (u64, Effort),
    [power_cut, killed]: [Promise; 2],
    forged: fn(&Event) -> bool,
    checkpoints: &Checkpoints,
) -> Outcome {
    let (recorder, registration) = shared_recorder();
    let random = &mut Random::of(&[seed, 1]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("a.db");
    let log = recorder.watch(folder.path());
    let builder = Writer::builder(&path)
        .profile(profile)
        .vfs(registration.name().to_str().unwrap())
        .page_size(random.choose(&[512, 1024, 4096]))
        .max_group(random.choose(&[1, 3, 1000]))
        .checkpoint_limits(limits(seed, random));
    let writer = if profile == Profile::Rebuildable { builder.rebuildable_ok() } else { builder };
    let writer = writer.open().unwrap();
    writer.execute_batch(schema()).unwrap();
    log.acknowledged(SCHEMA.caller, SCHEMA.number);
    for round in 0..ROUNDS {
        work_and_rest(std::slice::from_ref(&writer), [seed, round], &log);
    }
    if let Some(stats) = writer.stats().checkpoints {
        checkpoints.passes.fetch_add(stats.passes, Ordering::Relaxed);
        checkpoints.catch_ups.fetch_add(stats.catch_ups, Ordering::Relaxed);
        checkpoints.truncations.fetch_add(stats.truncations, Ordering::Relaxed);
        assert_eq!(stats.last_error, None);
    }
    writer.close().unwrap();
    recorder.unwatch(path.parent().unwrap().to_str().unwrap());
    let mut recording = log.finish();
    recording.forge_syncs(forged);
    simulate(simulator, (profile, &path), &recording, (seed, effort), [power_cut, killed])
}

fn survey(profile: Profile, promises: [Promise; 2]) -> (Tally, Tally) {
    survey_by(Budget::new(IMAGES, SHARE), profile, promises)
}

fn survey_by(budget: Budget, profile: Profile, promises: [Promise; 2]) -> (Tally, Tally) {
    let checkpoints = Checkpoints::default();
    let outcome = budget.survey(profile.name(), |simulator, seed, effort| {
        crash(simulator, profile, (seed, effort), promises, |_| false, &checkpoints)
    });
    outcome.assert_kept();
    if matches!(profile, Profile::Durable | Profile::Relaxed) && !budget.repeats_one_run() {
        let [passes, catch_ups, truncations] =
            [&checkpoints.passes, &checkpoints.catch_ups, &checkpoints.truncations]
                .map(|count| count.load(Ordering::Relaxed));
        println!("{passes} passes, {catch_ups} catch-ups, {truncations} truncations");
        assert!(passes > 0 && catch_ups > 0 && truncations > 0, "the checkpointer did not work");
    }
    (outcome.power_cut, outcome.killed)
}

#[test]
fn durable_loses_nothing_that_was_acknowledged() {
    survey(Profile::Durable, [Promise::AllAcknowledged; 2]);
}

#[test]
fn relaxed_loses_some_of_the_last_in_a_power_cut_only() {
    let budget = Budget::new(IMAGES, SHARE).until(|outcome| outcome.power_cut.lost_max > 1);
    let promises = [Promise::Prefix, Promise::AllAcknowledged];
    let (power_cut, _) = survey_by(budget, Profile::Relaxed, promises);
    assert!(power_cut.lost_max > 1, "{power_cut:?}");
}

#[test]
fn rollback_loses_nothing_that_was_acknowledged() {
    survey(Profile::Rollback, [Promise::AllAcknowledged; 2]);
}

#[test]
fn rebuildable_breaks() {
    let budget = Budget::new(IMAGES, SHARE).until(|outcome| {
        let Outcome { power_cut, killed, .. } = outcome;
        power_cut.corrupt > 0 && power_cut.lost_max > 1 && killed.corrupt > 0
    });
    let (power_cut, killed) = survey_by(budget, Profile::Rebuildable, [Promise::Anything; 2]);
    assert!(power_cut.corrupt > 0 && power_cut.lost_max > 1, "{power_cut:?}");
    assert!(killed.corrupt > 0 && killed.lost_max == 0, "{killed:?}");
}

/// The simulator itself: a disk that forgets its syncs must not pass.
#[test]
fn forgotten_syncs_are_caught() {
    let budget = Budget::new(500, 1).until(|outcome| {
        let tally = outcome.power_cut;
        tally.lost_max > 1 && tally.corrupt > 0 && outcome.failures.len() == FAILURES_MAX
    });
    let outcome = budget.survey("durable, no file synced", |simulator, seed, effort| {
        let forged = |event: &Event| matches!(event, Event::SyncFile { .. });
        let promises = [Promise::AllAcknowledged; 2];
        let (run, checkpoints) = ((seed, effort), Checkpoints::default());
        crash(simulator, Profile::Durable, run, promises, forged, &checkpoints)
    });
    assert!(outcome.power_cut.lost_max > 1 && outcome.power_cut.corrupt > 0);
    assert_eq!(outcome.failures.len(), FAILURES_MAX, "each failure says how to repeat it");
    assert!(outcome.failures[0].text.contains("LEAFPRESS_CRASH_SEED="));
}
