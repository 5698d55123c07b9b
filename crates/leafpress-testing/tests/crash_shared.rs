//! Writers that share a database under power cuts and kills at every moment: two or three of them,
//! as of two or three processes, each with callers and a checkpointer of its own.
//!
//! 1. What a caller was told to be done is there, whole, whichever writer's sync covered it; what is
//!    there is a prefix of the calls in the order of their commits, each of them once.
//! 2. A call that was not answered is there whole or not at all; one that failed has left nothing.
//! 3. This holds while each writer's checkpointer copies, rewinds and cuts the log.
//! 4. Without the shared syncs (`relaxed`) answered calls are lost, and the simulator says so.
//!
//! Threads meet in another way each time, so a seed repeats the calls and not their order.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leafpress::Profile;
use leafpress::checkpoint::CheckpointLimits;
use leafpress::writer::Writer;
use leafpress_testing::crash::workload_writer::{
    ROUNDS, SCHEMA, limits, schema, simulate, work_and_rest,
};
use leafpress_testing::crash::{
    Budget, Effort, Outcome, Promise, Random, Simulator, shared_recorder,
};

/// Of 1,000 images that `make crash` asks for: so many for each test.
const SHARE: u64 = 100;
const IMAGES: u64 = 6_000;

/// Numbers of all runs.
#[derive(Default)]
struct Counts {
    own_syncs: AtomicU64,
    syncs_of_others: AtomicU64,
    passes: AtomicU64,
    truncations: AtomicU64,
}

impl Counts {
    fn add(&self, writer: &Writer) {
        let stats = writer.stats();
        let sharing = stats.sharing.unwrap();
        assert_eq!(sharing.why_not, None);
        let checkpoints = stats.checkpoints.unwrap();
        assert_eq!(checkpoints.last_error, None);
        for (count, more) in [
            (&self.own_syncs, sharing.own_syncs),
            (&self.syncs_of_others, sharing.syncs_of_others),
            (&self.passes, checkpoints.passes),
            (&self.truncations, checkpoints.truncations),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn assert_all_worked(&self) {
        let Self { own_syncs, syncs_of_others, passes, truncations } = self;
        let all = [own_syncs, syncs_of_others, passes, truncations];
        let counts = all.map(|count| count.load(Ordering::Relaxed));
        println!("own syncs, those of others, passes, truncations: {counts:?}");
        assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
    }
}

/// Records the writers with their callers, and crashes them.
fn crash(
    simulator: &mut Simulator,
    profile: Profile,
    (seed, effort): (u64, Effort),
    power_cut: Promise,
    counts: &Counts,
) -> Outcome {
    let (recorder, registration) = shared_recorder();
    let random = &mut Random::of(&[seed, 1]);
    let folder = tempfile::tempdir().unwrap();
    let beside = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("a.db");
    let log = recorder.watch(folder.path());
    let page_size = random.choose(&[512, 1024, 4096]);
    // Without the small limits the log grows, and many commits lie between two syncs of its content.
    let is_cut_often = random.percent(70);
    let mut open = || {
        let builder = Writer::builder(&path)
            .profile(profile)
            .vfs(registration.name().to_str().unwrap())
            .page_size(page_size)
            .shared_beside(beside.path().join("a.db"))
            .max_group(random.choose(&[1, 3, 1000]));
        let limits = if is_cut_often {
            limits(seed, random)
        } else {
            let mut limits = CheckpointLimits::default();
            limits.idle_before_truncate = Duration::from_millis(2);
            limits
        };
        builder.checkpoint_limits(limits).open().unwrap()
    };
    let mut writers = vec![open()];
    writers[0].execute_batch(schema()).unwrap();
    log.acknowledged(SCHEMA.caller, SCHEMA.number);
    writers.extend((0..=seed % 2).map(|_| open()));
    for round in 0..ROUNDS {
        work_and_rest(&writers, [seed, round], &log);
        if round == 1 {
            // A member leaves, and another one joins.
            let left = writers.remove(0);
            counts.add(&left);
            left.close().unwrap();
            writers.push(open());
        }
    }
    for writer in writers {
        counts.add(&writer);
        writer.close().unwrap();
    }
    recorder.unwatch(path.parent().unwrap().to_str().unwrap());
    let recording = log.finish();
    let promises = [power_cut, Promise::AllAcknowledged];
    simulate(simulator, (profile, &path), &recording, (seed, effort), promises)
}

fn survey(budget: Budget, profile: Profile, power_cut: Promise) -> (Outcome, Counts) {
    let counts = Counts::default();
    let name = format!("{}, shared", profile.name());
    let outcome = budget.survey(&name, |simulator, seed, effort| {
        crash(simulator, profile, (seed, effort), power_cut, &counts)
    });
    outcome.assert_kept();
    (outcome, counts)
}

#[test]
fn what_one_of_many_writers_was_answered_is_there() {
    let budget = Budget::new(IMAGES, SHARE);
    let (_, counts) = survey(budget, Profile::Durable, Promise::AllAcknowledged);
    if !budget.repeats_one_run() {
        counts.assert_all_worked();
    }
}

/// The simulator itself: answers without the shared syncs must not pass for durable ones.
#[test]
fn without_the_shared_syncs_answered_calls_are_lost() {
    let budget = Budget::new(500, 10).until(|outcome| outcome.power_cut.lost_max > 1);
    let (outcome, _) = survey(budget, Profile::Relaxed, Promise::Prefix);
    assert!(outcome.power_cut.lost_max > 1, "{:?}", outcome.power_cut);
}
