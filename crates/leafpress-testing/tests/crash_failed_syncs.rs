//! A disk that fails one sync and then the power: systems forget what they could
//! not write, and the next sync says that all is well.
//!
//! 1. Under `durable` and `rollback` what was acknowledged is there, whichever sync failed.
//! 2. Under `relaxed` what is there is a prefix.
//! 3. Callers are answered all the same, with success or with an error.
//! 4. Of two writers that share the syncs of the log, neither answers with success after the failure.
//! 5. What is acknowledged after the database was opened again is there, too. SQLite by itself, as the
//!    control, loses some of it: it goes on behind frames that the disk lacks.
//! 6. While a connection of the process keeps the database open, no writer goes on after a failed sync
//!    of a checkpoint.
//!
//! A process that is killed is no matter here: it takes nothing that the system
//! still has in memory.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leafpress::checkpoint::CheckpointLimits;
use leafpress::vfs::{FileKind, PlatformVfs, register};
use leafpress::writer::Writer;
use leafpress::{ErrorKind, Profile};
use leafpress_testing::crash::{
    Budget, Digest, Effort, History, Log, Mark, Outcome, Promise, Random, Recorder, Run, Simulator,
};
use rusqlite::{Connection, OpenFlags, params};

const CALLS: u64 = 60;
/// Calls after the database was opened again.
const CALLS_AFTER: u64 = 12;
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

/// The states in order. If the outcome of the call that was refused was not known, a crash may keep it
/// though the process went on without.
fn history(path: &Path, mut refused: Option<Row>) -> History {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT number, other, payload FROM t ORDER BY number";
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut so_far = Digest::new();
    let mut history = History::new(&so_far);
    while let Some(row) = rows.next().unwrap() {
        let number: i64 = row.get(0).unwrap();
        if let Some(lost) = refused.take_if(|it| it.0 <= number).filter(|it| it.0 < number) {
            history.failed(&with(so_far.clone(), lost));
        }
        (0..3).for_each(|column| so_far.value(row.get_ref(column).unwrap()));
        history.committed(Mark { caller: 0, number: number as u64 }, &so_far);
    }
    if let Some(row) = refused.filter(|row| row.0 == history.len() as i64) {
        history.committed(Mark { caller: 0, number: row.0 as u64 }, &with(so_far, row));
    }
    history
}

fn with(mut content: Digest, (number, other, length): Row) -> Digest {
    content.row(&[number.into(), other.into(), vec![0_u8; length as usize].into()]);
    content
}

/// One run at a time, as they share a name.
static ONE: Mutex<()> = Mutex::new(());

/// Step after the writers were closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// A writer goes on.
    Reopened,
    /// A writer of another profile goes on.
    ReopenedAs(Profile),
    /// A writer goes on, while another connection of the process has stayed open.
    ReopenedBesideAnother,
    /// SQLite by itself goes on, as durable.
    ReopenedBySqlite,
}

/// The writers' profile, their number, the file whose sync fails, and what follows.
type Case = (Profile, usize, FileKind, Then);

fn connect(path: &Path, vfs: &str) -> Connection {
    Connection::open_with_flags_and_vfs(path, OpenFlags::SQLITE_OPEN_READ_WRITE, vfs).unwrap()
}

/// Opens the database again and writes more rows, until a call is answered with an error: the sync may
/// fail only now. That row is handed back.
fn go_on(path: &Path, vfs: &str, (profile, _, _, then): Case, log: &Log) -> Option<Row> {
    const SQL: &str = "INSERT INTO t VALUES (?1, -?1, zeroblob(900))";
    let write = |execute: &dyn Fn(i64) -> bool| {
        let mut numbers = CALLS..CALLS + CALLS_AFTER;
        let refused = numbers.find(|&number| {
            let is_done = execute(number as i64);
            if is_done {
                log.acknowledged(0, number);
            }
            !is_done
        });
        refused.map(|number| (number as i64, -(number as i64), 900))
    };
    match then {
        Then::Nothing => None,
        Then::ReopenedBySqlite => {
            let connection = connect(path, vfs);
            connection.execute_batch("PRAGMA synchronous = FULL").unwrap();
            write(&|number| connection.execute(SQL, [number]).is_ok())
        }
        Then::Reopened | Then::ReopenedAs(_) | Then::ReopenedBesideAnother => {
            let profile = if let Then::ReopenedAs(other) = then { other } else { profile };
            let builder = Writer::builder(path).profile(profile).vfs(vfs);
            match builder.checkpoint_limits(limits()).open() {
                Ok(writer) => {
                    let refused = write(&|number| writer.execute(SQL, [number]).is_ok());
                    // An error of the disk is to be told here as well.
                    let _ = writer.close();
                    refused
                }
                Err(error) => {
                    let is_refused = matches!(error.kind(), ErrorKind::Destination { .. });
                    // A checkpoint syncs the log, too.
                    assert!(is_refused && then == Then::ReopenedBesideAnother, "{error}");
                    None
                }
            }
        }
    }
}

fn crash(
    simulator: &mut Simulator,
    case: Case,
    promise: Promise,
    seed: u64,
    effort: Effort,
) -> Outcome {
    let (profile, members, file, then) = case;
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
        let another = (then == Then::ReopenedBesideAnother).then(|| connect(&path, vfs));
        if let Some(another) = &another {
            another.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
        }
        let refused = work(&writers, profile, &log, random);
        for writer in writers {
            // An error of the disk is to be told here as well.
            let _ = writer.close();
        }
        let refused_later = go_on(&path, vfs, case, &log);
        assert!(refused.is_none() || refused_later.is_none(), "only one sync fails");
        drop(another);
        (log.finish(), history(&path, refused.or(refused_later)))
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
    survey_by(Budget::new(IMAGES, SHARE), case, promise);
}

fn survey_by(budget: Budget, case: Case, promise: Promise) -> Outcome {
    let (profile, members, file, then) = case;
    let then = match then {
        Then::Nothing => "",
        Then::Reopened => ", opened again",
        Then::ReopenedAs(_) => ", opened again in another journal mode",
        Then::ReopenedBesideAnother => ", opened again beside another connection",
        Then::ReopenedBySqlite => ", opened again by SQLite itself",
    };
    let name = format!("{profile}, writers: {members}, a sync of {file:?} fails{then}");
    let outcome = budget
        .survey(&name, |simulator, seed, effort| crash(simulator, case, promise, seed, effort));
    outcome.assert_kept();
    outcome
}

#[test]
fn what_is_written_after_a_failed_sync_and_an_opening_is_kept() {
    for file in [FileKind::Wal, FileKind::MainDb] {
        let as_rollback = Then::ReopenedAs(Profile::Rollback);
        for then in [Then::Reopened, as_rollback, Then::ReopenedBesideAnother] {
            survey((Profile::Durable, 1, file, then), Promise::AllAcknowledged);
        }
    }
}

#[test]
fn sqlite_by_itself_loses_what_is_written_after_a_failed_sync_and_an_opening() {
    let case = (Profile::Durable, 1, FileKind::Wal, Then::ReopenedBySqlite);
    let has_lost = |outcome: &Outcome| outcome.power_cut.lost_max > 1;
    let outcome = survey_by(Budget::new(IMAGES, SHARE).until(has_lost), case, Promise::Anything);
    assert!(has_lost(&outcome), "{:?}", outcome.power_cut);
}

#[test]
fn durable_bears_a_failed_sync_of_the_database() {
    survey((Profile::Durable, 1, FileKind::MainDb, Then::Nothing), Promise::AllAcknowledged);
}

#[test]
fn durable_bears_a_failed_sync_of_the_log() {
    survey((Profile::Durable, 1, FileKind::Wal, Then::Nothing), Promise::AllAcknowledged);
}

#[test]
fn shared_writers_bear_a_failed_sync_of_the_database() {
    survey((Profile::Durable, 2, FileKind::MainDb, Then::Nothing), Promise::AllAcknowledged);
}

#[test]
fn shared_writers_bear_a_failed_sync_of_the_log() {
    survey((Profile::Durable, 2, FileKind::Wal, Then::Nothing), Promise::AllAcknowledged);
}

#[test]
fn relaxed_bears_a_failed_sync_of_the_database() {
    survey((Profile::Relaxed, 1, FileKind::MainDb, Then::Nothing), Promise::Prefix);
}

#[test]
fn relaxed_bears_a_failed_sync_of_the_log() {
    survey((Profile::Relaxed, 1, FileKind::Wal, Then::Nothing), Promise::Prefix);
}

#[test]
fn rollback_bears_a_failed_sync() {
    for file in [FileKind::MainDb, FileKind::MainJournal] {
        survey((Profile::Rollback, 1, file, Then::Nothing), Promise::AllAcknowledged);
    }
}
