//! The way from one profile into another, under power cuts and kills at every
//! moment of it.
//!
//! 1. A database that goes from profile to profile keeps, at each step and
//!    between them, what its profiles promise: changing the journal mode loses
//!    nothing, however weak or strong the settings before and after are.
//! 2. Where one of them is `relaxed`, a power cut may take the last, never the
//!    middle.
//!
//! Every database begins in some journal mode of SQLite's, made by SQLite.

use std::path::Path;

use leafpress::Profile;
use leafpress::profile::{self, ProfileRequest};
use leafpress_testing::crash::workload::{self, Settings};
use leafpress_testing::crash::{
    Budget, Effort, History, Log, Mark, Outcome, Promise, Random, Run, Simulator, shared_recorder,
};
use rusqlite::{Connection, params};

const STAGES: usize = 5;
/// Of 1,000 images that `make crash` asks for: so many for each test.
const SHARE: u64 = 30;
const IMAGES: u64 = 3_000;

/// Commits some transactions, each acknowledged and known to the history.
fn commit_some(
    connection: &Connection,
    random: &mut Random,
    log: &Log,
    history: &mut History,
) -> rusqlite::Result<()> {
    for _ in 0..random.choose(&[0, 1, 2, 5]) {
        let payload = vec![random.number() as u8; random.choose(&[10, 700, 5000])];
        connection.execute_batch("BEGIN IMMEDIATE; UPDATE turns SET count = count + 1")?;
        connection.execute(
            "INSERT INTO t (k, v) VALUES (?, ?)",
            params![random.below(1000) as i64, payload],
        )?;
        // So that the file also shrinks in use.
        connection.execute("DELETE FROM t WHERE id < (SELECT max(id) - 8 FROM t)", [])?;
        connection.execute_batch("COMMIT")?;
        let number = history.len() as u64;
        log.acknowledged(0, number);
        history.committed(Mark { caller: 0, number }, &workload::content(connection)?);
        if random.percent(15) {
            connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))?;
        }
    }
    Ok(())
}

/// Opens the database under one profile after the other.
fn work(path: &Path, profiles: &[Profile], random: &mut Random, log: &Log) -> History {
    let mut history = History::new(&workload::content(&Connection::open(path).unwrap()).unwrap());
    let vfs = shared_recorder().1.name().to_str().unwrap();
    for _ in 0..STAGES {
        let request = ProfileRequest::new(random.choose(profiles)).vfs(vfs);
        let (connection, _) = profile::open(path, &request).unwrap();
        commit_some(&connection, random, log, &mut history).unwrap();
        connection.close().unwrap();
    }
    history
}

fn crash(
    simulator: &mut Simulator,
    profiles: &[Profile],
    power_cut: Promise,
    seed: u64,
    effort: Effort,
) -> Outcome {
    let mut random = Random::of(&[seed, 11]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let journal_mode = random.choose(&["DELETE", "WAL"]);
    let settings = Settings { journal_mode, synchronous: "FULL", shrinks: true };
    workload::create(&path, settings, seed).unwrap();
    let recorder = &shared_recorder().0;
    let log = recorder.watch(folder.path());
    let history = work(&path, profiles, &mut random, &log);
    recorder.unwatch(folder.path().canonicalize().unwrap().to_str().unwrap());
    let recording = log.finish();
    simulator.simulate(
        &Run {
            name: "profiles in turn",
            seed,
            recording: &recording,
            history: &history,
            database: "a.db",
            begins_absent: false,
            content: workload::content,
            power_cut,
            killed: Promise::AllAcknowledged,
        },
        effort,
    )
}

fn survey(name: &str, profiles: &[Profile], power_cut: Promise) -> Outcome {
    let budget = Budget::new(IMAGES, SHARE);
    let outcome = budget.survey(name, |simulator, seed, effort| {
        crash(simulator, profiles, power_cut, seed, effort)
    });
    outcome.assert_kept();
    assert!(outcome.power_cut.images > 0 && outcome.killed.images > 0);
    outcome
}

#[test]
fn between_durable_and_rollback_nothing_is_lost() {
    let profiles = [Profile::Durable, Profile::Rollback];
    survey("durable, rollback in turn", &profiles, Promise::AllAcknowledged);
}

#[test]
fn beside_relaxed_only_the_last_may_be_lost() {
    let profiles = [Profile::Relaxed, Profile::Durable, Profile::Rollback];
    survey("relaxed, durable, rollback in turn", &profiles, Promise::Prefix);
}
