//! A disk that fails one sync and then the power: systems forget what they could
//! not write, and the next sync says that all is well.
//!
//! 1. Under `durable` and `rollback` what was acknowledged is there, whichever sync failed.
//! 2. Under `relaxed` what is there is a prefix.
//! 3. Callers are answered all the same, with success or with an error.
//! 4. Of two writers that share the syncs of the log, neither answers with success after the failure.
//!
//! A process that is killed is no matter here: it takes nothing that the system
//! still has in memory.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leafpress::Profile;
use leafpress::checkpoint::CheckpointLimits;
use leafpress::vfs::{FileKind, PlatformVfs, register};
use leafpress::writer::Writer;
use leafpress_testing::crash::{
    Budget, Digest, Effort, History, Log, Mark, Outcome, Promise, Random, Recorder, Run, Simulator,
};
use rusqlite::{Connection, params};

const CALLS: u64 = 60;
const SHARE: u64 = 30;
const IMAGES: u64 = 8_000;

fn create(path: &Path) {
    let sql = "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL;
        CREATE TABLE t (number INTEGER PRIMARY KEY, other INTEGER UNIQUE, payload BLOB)";
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Passes all the time, and many of them leave a rest.
fn limits() -> CheckpointLimits {
    let mut limits = CheckpointLimits::default();
    limits.slice_frames = 3;
    limits.wal_bytes_max = 60_000;
    limits.catch_up_bytes = 40_000;
    limits.pause_bytes = 10_000;
    limits.pause_before_pass = Duration::from_micros(500);
    limits.idle_before_truncate = Duration::from_millis(5);
    limits
}

fn content(connection: &Connection) -> rusqlite::Result<Digest> {
    let mut digest = Digest::new();
    digest.query(connection, "SELECT number, other, payload FROM t ORDER BY number")?;
    Ok(digest)
}

type Row = (i64, i64, i64);

/// Calls one after the other, of the writers in turn; beside a log also a reader at times that keeps
/// an old snapshot. The first call that was answered with an error is handed back.
fn work(writers: &[Writer], profile: Profile, log: &Log, random: &mut Random) -> Option<Row> {
    let mut reader = None;
    let mut refused = None;
    for (number, writer) in (0..CALLS).zip(writers.iter().cycle()) {
        let sql = "INSERT INTO t VALUES (?1, ?2, zeroblob(?3))";
        let length = random.choose(&[0, 100, 3000]);
        let other = random.number() as i64;
        match writer.execute(sql, params![number as i64, other, length]) {
            Ok(_) => {
                assert_eq!(refused, None, "a writer goes on after the failure");
                log.acknowledged(0, number);
            }
            Err(_) => refused = refused.or(Some((number as i64, other, length))),
        }
        match random.below(8) {
            0 if profile != Profile::Rollback => {
                let snapshot = writer.reader().unwrap();
                snapshot.execute_batch("BEGIN; SELECT * FROM t").unwrap();
                reader = Some(snapshot);
            }
            1 => reader = None,
            2 => std::thread::sleep(Duration::from_millis(3)),
            _ => {}
        }
    }
    drop(reader);
    refused
}

/// The states in order. The last may be that of the call that was refused: if its
/// outcome was not known, a crash may keep it though the process went on without.
fn history(path: &Path, refused: Option<Row>) -> History {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT number, other, payload FROM t ORDER BY number";
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut so_far = Digest::new();
    let mut history = History::new(&so_far);
    while let Some(row) = rows.next().unwrap() {
        (0..3).for_each(|column| so_far.value(row.get_ref(column).unwrap()));
        let number: i64 = row.get(0).unwrap();
        history.committed(Mark { caller: 0, number: number as u64 }, &so_far);
    }
    if let Some((number, other, length)) = refused.filter(|row| row.0 == history.len() as i64) {
        so_far.row(&[number.into(), other.into(), vec![0_u8; length as usize].into()]);
        history.committed(Mark { caller: 0, number: number as u64 }, &so_far);
    }
    history
}

/// One run at a time, as they share a name.
static ONE: Mutex<()> = Mutex::new(());

/// The writers' profile, their number, and the file whose sync fails.
type Case = (Profile, usize, FileKind);

fn crash(
    simulator: &mut Simulator,
    (profile, members, file): Case,
    promise: Promise,
    seed: u64,
    effort: Effort,
) -> Outcome {
    let random = &mut Random::of(&[seed, 1]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap().join("a.db");
    create(&path);
    let (recording, history) = {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let recorder = Arc::new(Recorder::new(PlatformVfs::new()));
        let registration = register("crash-failing", Arc::clone(&recorder)).unwrap();
        let log = recorder.watch(folder.path());
        log.fail_sync(file, 1 + random.below(12) as u64);
        let vfs = registration.name().to_str().unwrap();
        let beside = tempfile::tempdir().unwrap();
        let open = |_| {
            let builder = Writer::builder(&path).profile(profile).vfs(vfs);
            let builder = builder.checkpoint_limits(limits());
            match members {
                1 => builder.open(),
                _ => builder.shared_beside(beside.path().join("a.db")).open(),
            }
        };
        let Ok(writers) = (0..members).map(open).collect::<Result<Vec<_>, _>>() else {
            return Outcome::default();
        };
        let refused = work(&writers, profile, &log, random);
        for writer in writers {
            // An error of the disk is to be told here as well.
            let _ = writer.close();
        }
        (log.finish(), history(&path, refused))
    };
    let run = Run {
        name: "a failed sync",
        seed,
        recording: &recording,
        history: &history,
        database: "a.db",
        begins_absent: false,
        content,
        power_cut: promise,
        killed: Promise::Anything,
    };
    simulator.simulate(&run, effort)
}

fn survey(case: Case, promise: Promise) {
    let (profile, members, file) = case;
    let name = format!("{}, writers: {members}, a sync of {file:?} fails", profile.name());
    let outcome = Budget::new(IMAGES, SHARE)
        .survey(&name, |simulator, seed, effort| crash(simulator, case, promise, seed, effort));
    outcome.assert_kept();
}

#[test]
fn durable_bears_a_failed_sync_of_the_database() {
    survey((Profile::Durable, 1, FileKind::MainDb), Promise::AllAcknowledged);
}

#[test]
fn durable_bears_a_failed_sync_of_the_log() {
    survey((Profile::Durable, 1, FileKind::Wal), Promise::AllAcknowledged);
}

#[test]
fn shared_writers_bear_a_failed_sync_of_the_database() {
    survey((Profile::Durable, 2, FileKind::MainDb), Promise::AllAcknowledged);
}

#[test]
fn shared_writers_bear_a_failed_sync_of_the_log() {
    survey((Profile::Durable, 2, FileKind::Wal), Promise::AllAcknowledged);
}

#[test]
fn relaxed_bears_a_failed_sync_of_the_database() {
    survey((Profile::Relaxed, 1, FileKind::MainDb), Promise::Prefix);
}

#[test]
fn relaxed_bears_a_failed_sync_of_the_log() {
    survey((Profile::Relaxed, 1, FileKind::Wal), Promise::Prefix);
}

#[test]
fn rollback_bears_a_failed_sync() {
    for file in [FileKind::MainDb, FileKind::MainJournal] {
        survey((Profile::Rollback, 1, file), Promise::AllAcknowledged);
    }
}
