//! Queues under power cuts and kills at every moment: threads that push, claim
//! and settle at once, with clocks that jump.
//!
//! 1. What a caller was told is so, as far as the profile promises: a push, a
//!    claim, an ack, a job given back, a longer lease, a setting. Under every
//!    profile here what is there is a prefix of the commits.
//! 2. Whatever is there keeps the rules of the tables: slots of groups, holders of
//!    keys, leases with an end ([`broken_rules`]).
//! 3. Who opens it next, with another clock, loses nothing, gives no id again, and
//!    can do all the work (`queue_heirs/heir.rs`).
//!
//! Images are judged in memory by stock SQLite; of a few of each run the files
//! are written to a disk, and opened by a writer and its queues.

#[path = "queue_heirs/heir.rs"]
mod heir;

use std::sync::atomic::{AtomicU64, Ordering};

use leafpress::Profile;
use leafpress_testing::crash::queue_history::{Fact, states};
use leafpress_testing::crash::workload_queue::QueueWorkload;
use leafpress_testing::crash::{
    Budget, Digest, Disk, Effort, Event, Image, Outcome, Promise, Random, Recording, Run,
    Simulator, Tally, shared_recorder,
};
use leafpress_testing::queue_audit::broken_rules;
use rusqlite::Connection;

use heir::Heritage;

/// Of 1,000 images that `make crash` asks for: so many for each test.
const SHARE: u64 = 60;
const IMAGES: u64 = 7_000;
/// Of each run so many crashes are handed to heirs.
const HEIRS: u64 = 8;

/// All that is there, if it keeps the rules.
fn content(connection: &Connection) -> rusqlite::Result<Digest> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'leafpress_job'";
    if connection.query_row(sql, [], |row| row.get(0))? {
        let broken = broken_rules(connection)?;
        if !broken.is_empty() {
            return Err(rusqlite::Error::ToSqlConversionFailure(broken.join("; ").into()));
        }
    }
    Digest::whole(connection)
}

/// Hands some of what crashes leave to heirs; how many jobs they did.
fn hand_over(
    profile: Profile,
    seed: u64,
    recording: &Recording,
    facts: &[Fact],
    may_lack_the_last: bool,
) -> u64 {
    let random = &mut Random::of(&[seed, 31]);
    let mut points: Vec<_> = (0..HEIRS).map(|_| 1 + random.below(recording.events.len())).collect();
    points.sort_unstable();
    let (mut disk, mut image, mut done) = (Disk::new(recording), Image::new(), 0);
    for point in points {
        while disk.point() < point && disk.step().is_some() {}
        let is_killed = random.percent(30);
        if is_killed {
            image.kill(&disk);
        } else {
            image.cut_power(&disk, random);
        }
        let told = disk.acknowledged().iter().map(|mark| facts[mark.number as usize]);
        let told: Vec<_> = told.collect();
        let heritage = Heritage {
            profile,
            told: &told,
            may_lack_the_last: may_lack_the_last && !is_killed,
            files: &image.snapshot(),
        };
        // Kept until the heir is content.
        let folder = tempfile::tempdir().unwrap().keep();
        println!("{profile}, seed {seed}: an heir after {point} events, in {}", folder.display());
        done += heir::inherit(&heritage, &folder, random) as u64;
        std::fs::remove_dir_all(&folder).unwrap();
    }
    done
}

/// Records callers at their work, and crashes them.
fn crash(
    simulator: &mut Simulator,
    profile: Profile,
    (seed, effort): (u64, Effort),
    power_cut: Promise,
    forged: Option<fn(&Event) -> bool>,
    jobs_of_heirs: &AtomicU64,
) -> Outcome {
    let (recorder, registration) = shared_recorder();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("a.db");
    let log = recorder.watch(folder.path());
    let workload = QueueWorkload { profile, vfs: registration.name().to_str().unwrap(), seed };
    let facts = workload.run(&path, &log).unwrap().all();
    recorder.unwatch(path.parent().unwrap().to_str().unwrap());
    let mut recording = log.finish();
    let history = states(&recording, "a.db", &facts);
    if let Some(forged) = forged {
        recording.forge_syncs(forged);
    } else {
        let may_lack = power_cut == Promise::Prefix;
        let done = hand_over(profile, seed, &recording, &facts, may_lack);
        jobs_of_heirs.fetch_add(done, Ordering::Relaxed);
    }
    let run = Run {
        name: &format!("queue, {profile}"),
        seed,
        recording: &recording,
        history: &history,
        database: "a.db",
        begins_absent: true,
        content,
        power_cut,
        killed: Promise::AllAcknowledged,
    };
    simulator.simulate(&run, effort)
}

fn survey(profile: Profile, power_cut: Promise) -> Tally {
    survey_by(Budget::new(IMAGES, SHARE), profile, power_cut)
}

fn survey_by(budget: Budget, profile: Profile, power_cut: Promise) -> Tally {
    let jobs = AtomicU64::new(0);
    let name = format!("queue, {profile}");
    let outcome = budget.survey(&name, |simulator, seed, effort| {
        crash(simulator, profile, (seed, effort), power_cut, None, &jobs)
    });
    outcome.assert_kept();
    let jobs = jobs.into_inner();
    println!("{name}: heirs did {jobs} jobs");
    assert!(jobs > 0 && outcome.power_cut.images > 0 && outcome.killed.images > 0);
    outcome.power_cut
}

#[test]
fn durable_loses_nothing_that_was_told() {
    survey(Profile::Durable, Promise::AllAcknowledged);
}

#[test]
fn relaxed_loses_some_of_the_last_in_a_power_cut_only() {
    let budget = Budget::new(IMAGES, SHARE).until(|outcome| outcome.power_cut.lost_max > 1);
    let power_cut = survey_by(budget, Profile::Relaxed, Promise::Prefix);
    assert!(power_cut.lost_max > 1, "{power_cut:?}");
}

#[test]
fn rollback_loses_nothing_that_was_told() {
    survey(Profile::Rollback, Promise::AllAcknowledged);
}

/// The tests themselves: a disk that forgets its syncs (`synchronous=OFF`) must not pass.
#[test]
fn forgotten_syncs_are_caught() {
    let budget = Budget::new(500, 1)
        .until(|outcome| outcome.power_cut.lost_max > 1 && outcome.power_cut.corrupt > 0);
    let outcome = budget.survey("queue, no file synced", |simulator, seed, effort| {
        let forged = |event: &Event| matches!(event, Event::SyncFile { .. });
        let (profile, promise) = (Profile::Durable, Promise::AllAcknowledged);
        crash(simulator, profile, (seed, effort), promise, Some(forged), &AtomicU64::new(0))
    });
    assert!(outcome.power_cut.lost_max > 1 && outcome.power_cut.corrupt > 0);
    assert!(outcome.failures[0].text.contains("LEAFPRESS_CRASH_SEED="));
}
