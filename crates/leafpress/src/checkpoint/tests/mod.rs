//! The checkpointer beside plain connections, which pass the gate as the writer does.

mod failing_disk;
mod policy;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::{CheckpointLimits, Checkpointer, Gate};
use crate::vfs::hooks;

/// Limits small enough that a test meets them all.
pub(super) fn small_limits() -> CheckpointLimits {
    CheckpointLimits {
        slice_frames: 50,
        wal_bytes_max: 300 * 4120,
        catch_up_bytes: 200 * 4120,
        pause_bytes: 100 * 4120,
        pause_before_pass: Duration::from_millis(5),
        idle_before_truncate: Duration::from_millis(40),
        stuck_reader_after: Duration::from_millis(50),
        catch_up_wait_max: Duration::from_millis(10),
        ..CheckpointLimits::default()
    }
}

pub(super) fn new_database(folder: &tempfile::TempDir) -> (PathBuf, Connection) {
    let path = folder.path().join("a.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT)",
        )
        .unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    (path, connection)
}

/// A writer as the checkpointer knows one: it passes the gate and tells the WAL's length.
pub(super) struct PlainWriter {
    connection: Connection,
    pub(super) gate: Arc<Gate>,
}

impl PlainWriter {
    pub(super) fn new(connection: Connection, gate: Arc<Gate>) -> Self {
        let told = Arc::clone(&gate);
        hooks::set_wal_hook(&connection, move |frames| told.committed(frames)).unwrap();
        Self { connection, gate }
    }

    pub(super) fn insert(&self) {
        let _group = self.gate.begin_group();
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO t (x) VALUES (printf('%100d', 7))")
            .unwrap();
        insert.execute(()).unwrap();
    }
}

pub(super) fn wal_file_bytes(path: &Path) -> u64 {
    let wal = path.with_extension("db-wal");
    std::fs::metadata(wal).map_or(0, |metadata| metadata.len())
}

/// Waits until `true`; a test that waits for ten seconds has failed.
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within ten seconds");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn assert_sound(path: &Path, rows: i64) {
    let connection = Connection::open(path).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let count: i64 = connection.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
    assert_eq!(count, rows);
}

/// A database, its checkpointer and a writer that passes the gate.
struct Scene {
    /// Goes away with the scene.
    folder: tempfile::TempDir,
    path: PathBuf,
    limits: CheckpointLimits,
    checkpointer: Checkpointer,
    writer: PlainWriter,
}

fn scene(limits: CheckpointLimits, oldest: impl Fn() -> Option<String> + Send + 'static) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let (path, connection) = new_database(&folder);
    let gate = limits.gate();
    let checkpointer =
        Checkpointer::start(&path, None, &limits, Arc::clone(&gate), None, oldest).unwrap();
    let writer = PlainWriter::new(connection, gate);
    Scene { folder, path, limits, checkpointer, writer }
}

#[test]
fn the_wal_stays_within_its_bound_and_goes_when_idle() {
    let Scene { folder: _folder, path, limits, checkpointer, writer } =
        scene(small_limits(), || None);
    for _ in 0..5_000 {
        writer.insert();
    }
    // One group of one or a few pages beyond the bound.
    assert!(wal_file_bytes(&path) <= limits.wal_bytes_max + 5 * 4120, "{}", wal_file_bytes(&path));
    let stats = checkpointer.stats();
    let begun_anew = u64::from(writer.gate.look().rewinds) + stats.truncations;
    assert!(begun_anew > 10, "5,000 frames of which 300 fit: {stats:?}");
    assert!(stats.wal_bytes_max <= limits.wal_bytes_max + 5 * 4120, "{stats:?}");
    eventually("an idle WAL is cut", || wal_file_bytes(&path) == 0);
    eventually("and counted", || {
        let stats = checkpointer.stats();
        stats.truncations > 0 && stats.wal_bytes == 0
    });
    writer.insert();
    checkpointer.stop().unwrap();
    assert_eq!(wal_file_bytes(&path), 0);
    assert_sound(&path, 5_001);
}

/// Reads again and again until told to stop, each time in a short transaction.
fn short_reader(path: PathBuf, stop: Arc<AtomicBool>) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "query_only", true).unwrap();
        let mut read =
            connection.prepare("SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM t ORDER BY id DESC LIMIT 300)").unwrap();
        let mut times = 0;
        while !stop.load(Ordering::Relaxed) {
            let (rows, keys): (i64, i64) =
                read.query_row((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            assert_eq!(rows, keys, "a snapshot is whole");
            times += 1;
        }
        times
    })
}

#[test]
fn short_readers_do_not_keep_the_wal_from_rewinding() {
    // A loud machine may leave a reader without a processor for seconds.
    let limits = CheckpointLimits { catch_up_wait_max: Duration::from_secs(60), ..small_limits() };
    let Scene { folder: _folder, path, limits, checkpointer, writer } = scene(limits, || None);
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3).map(|_| short_reader(path.clone(), Arc::clone(&stop))).collect();
    for _ in 0..3_000 {
        writer.insert();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    let stats = checkpointer.stats();
    assert!(stats.wal_bytes_max <= limits.wal_bytes_max + 5 * 4120, "{stats:?}");
    assert_eq!(stats.catch_ups_given_up, 0, "{stats:?}");
    checkpointer.stop().unwrap();
    assert_sound(&path, 3_000);
}

#[test]
fn a_reader_that_stays_is_named_and_when_it_ends_the_wal_shrinks() {
    let Scene { folder: _folder, path, limits, checkpointer, writer } =
        scene(small_limits(), || Some("report.rs:12".to_owned()));
    writer.insert();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    eventually("an alarm", || {
        writer.insert();
        checkpointer.stats().stuck_reader.is_some()
    });
    let stats = checkpointer.stats();
    let stuck = stats.stuck_reader.clone().unwrap();
    assert_eq!(stuck.name.as_deref(), Some("report.rs:12"));
    assert!(stuck.stuck_for >= limits.stuck_reader_after, "{stuck:?}");
    let json = serde_json::to_value(&stats).unwrap();
    assert!(json["stuck_reader"]["stuck_for_s"].as_f64() > Some(0.0), "{json}");
    assert_eq!(stats.truncations, 0);

    reader.execute_batch("COMMIT").unwrap();
    eventually("the WAL is cut", || wal_file_bytes(&path) == 0);
    eventually("the alarm is off", || checkpointer.stats().stuck_reader.is_none());
    checkpointer.stop().unwrap();
}

#[test]
fn a_reader_that_stays_holds_neither_the_writer_nor_stop() {
    let limits = CheckpointLimits { stop_wait_max: Duration::from_millis(1), ..small_limits() };
    let Scene { folder: _folder, path, checkpointer, writer, .. } = scene(limits, || None);
    writer.insert();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    for _ in 0..2_000 {
        writer.insert();
    }
    let stats = checkpointer.stats();
    assert_eq!(stats.writer_waits_broken_off, 0, "{stats:?}");
    checkpointer.stop().unwrap();
    assert!(wal_file_bytes(&path) > 2_000 * 4096, "what the reader keeps stays in the WAL");
    let seen: i64 = reader.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
    assert_eq!(seen, 1);
    reader.execute_batch("COMMIT").unwrap();
    assert_sound(&path, 2_001);
}

#[test]
fn others_may_write_and_checkpoint_beside_it() {
    let Scene { folder: _folder, path, checkpointer, writer, .. } = scene(small_limits(), || None);
    let other = {
        let path = path.clone();
        thread::spawn(move || {
            // Knows no gate, checkpoints on its own, and on purpose far too often.
            let connection = Connection::open(path).unwrap();
            connection.busy_timeout(Duration::from_secs(10)).unwrap();
            connection.pragma_update(None, "wal_autocheckpoint", 7).unwrap();
            for turn in 0..400 {
                connection.execute("INSERT INTO t (x) VALUES (printf('%100d', 9))", ()).unwrap();
                if turn % 50 == 0 {
                    // Busy is an answer, not an error.
                    connection
                        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
                        .unwrap();
                }
            }
        })
    };
    for _ in 0..1_500 {
        writer.insert();
    }
    other.join().unwrap();
    let stats = checkpointer.stats();
    assert_eq!(stats.errors, 0, "{stats:?}");
    writer.insert();
    eventually("an idle WAL is cut", || wal_file_bytes(&path) == 0);
    checkpointer.stop().unwrap();
    assert_sound(&path, 1_901);
}

#[test]
fn a_drop_without_stop_loses_nothing() {
    let limits =
        CheckpointLimits { idle_before_truncate: Duration::from_secs(600), ..small_limits() };
    let Scene { folder, path, checkpointer, writer, .. } = scene(limits, || None);
    for _ in 0..730 {
        writer.insert();
    }
    drop(checkpointer);
    // The writer goes on without a checkpointer, and the gate stays open.
    for _ in 0..730 {
        writer.insert();
    }
    assert!(wal_file_bytes(&path) > 0);
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
    assert_sound(&copy, 1_460);
    assert_eq!(writer.gate.held().broken_off, 0);
}

#[test]
fn a_wal_that_an_earlier_run_left_is_copied_and_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (path, connection) = new_database(&folder);
    for _ in 0..50 {
        connection.execute("INSERT INTO t (x) VALUES (1)", ()).unwrap();
    }
    assert!(wal_file_bytes(&path) > 0);
    let limits = small_limits();
    let checkpointer =
        Checkpointer::start(&path, None, &limits, limits.gate(), None, || None).unwrap();
    eventually("the WAL is cut", || wal_file_bytes(&path) == 0);
    drop(checkpointer);
    assert_sound(&path, 50);
}

#[test]
fn it_starts_only_on_a_database_in_wal_mode() {
    let folder = tempfile::tempdir().unwrap();
    let limits = small_limits();
    let start =
        |path: &Path| Checkpointer::start(path, None, &limits, limits.gate(), None, || None);
    let path = folder.path().join("rollback.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let error = start(&path).unwrap_err().to_string();
    assert!(error.contains("WAL") && error.contains("delete"), "{error}");
    let missing = folder.path().join("missing.db");
    assert!(start(&missing).is_err());
    assert!(!missing.exists(), "nothing is created");
}

#[test]
fn a_panic_of_the_one_who_names_readers_stops_nothing() {
    let Scene { folder: _folder, path, checkpointer, writer, .. } =
        scene(small_limits(), || panic!("a closure of the caller"));
    writer.insert();
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    eventually("an alarm without a name", || {
        writer.insert();
        checkpointer.stats().stuck_reader.is_some_and(|stuck| stuck.name.is_none())
    });
    reader.execute_batch("COMMIT").unwrap();
    eventually("the WAL is cut", || wal_file_bytes(&path) == 0);
    checkpointer.stop().unwrap();
}
