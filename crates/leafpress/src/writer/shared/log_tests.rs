//! Checkpoints of two writers that share a database; more processes stand in the testing crate.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::checkpoint::CheckpointLimits;
use crate::writer::{Writer, WriterStats};

const FRAME: u64 = 4_120;

fn open(path: &Path) -> Writer {
    let limits = CheckpointLimits {
        slice_frames: 50,
        wal_bytes_max: 300 * FRAME,
        catch_up_bytes: 200 * FRAME,
        pause_bytes: 100 * FRAME,
        pause_before_pass: Duration::from_millis(5),
        idle_before_truncate: Duration::from_millis(40),
        ..CheckpointLimits::default()
    };
    Writer::builder(path).shared().checkpoint_limits(limits).open().unwrap()
}

fn log_bytes(path: &Path) -> u64 {
    std::fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len())
}

/// Waits until it is so. Fails only after so long that it never comes.
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn makes_checkpoints(stats: &WriterStats) -> bool {
    stats.sharing.as_ref().unwrap().makes_checkpoints
}

#[test]
fn one_writer_copies_the_log_of_both_and_the_other_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let first = open(&path);
    first.execute_batch("CREATE TABLE t (x)").unwrap();
    eventually("the first one works", || makes_checkpoints(&first.stats()));
    let second = open(&path);
    let write = |writer: &Writer| {
        for _ in 0..3_000 {
            writer.execute("INSERT INTO t VALUES (printf('%100d', 7))", ()).unwrap();
        }
    };
    write(&second);
    // More than 3,000 frames were written, of which 300 fit.
    assert!(log_bytes(&path) < 1_500 * FRAME, "{}", log_bytes(&path));
    eventually("the log of a pause is cut", || log_bytes(&path) == 0);
    let (worked, slept) = (first.stats(), second.stats());
    let (worked_steps, slept_steps) = (worked.checkpoints.unwrap(), slept.checkpoints.clone());
    assert!(worked_steps.passes > 0 && worked_steps.catch_ups > 0, "{worked_steps:?}");
    assert_eq!(worked_steps.errors, 0, "{worked_steps:?}");
    let slept_steps = slept_steps.unwrap();
    assert!(!makes_checkpoints(&slept), "{slept:?}");
    assert_eq!((slept_steps.passes, slept_steps.catch_ups), (0, 0), "{slept_steps:?}");
    assert_eq!(slept_steps.writer_held, 0, "{slept_steps:?}");

    second.execute("INSERT INTO t VALUES (1)", ()).unwrap();
    first.close().unwrap();
    eventually("the second one takes over", || makes_checkpoints(&second.stats()));
    write(&second);
    eventually("the log is cut again", || log_bytes(&path) == 0);
    second.execute("INSERT INTO t VALUES (2)", ()).unwrap();
    second.close().unwrap();
    assert_eq!(log_bytes(&path), 0, "the last one leaves no log");
    assert!(!path.with_extension("db-shared").exists());
    let connection = rusqlite::Connection::open(&path).unwrap();
    let rows: i64 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 6_002);
}

#[test]
fn a_writer_that_is_not_the_last_leaves_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let limits = CheckpointLimits {
        idle_before_truncate: Duration::from_secs(600),
        ..CheckpointLimits::default()
    };
    let open = || {
        let builder = Writer::builder(&path).shared().checkpoint_limits(limits.clone());
        builder.open().unwrap()
    };
    let (first, second) = (open(), open());
    first.execute_batch("CREATE TABLE t (x)").unwrap();
    first.close().unwrap();
    assert!(log_bytes(&path) > 0);
    second.close().unwrap();
    assert_eq!(log_bytes(&path), 0);
}

#[test]
fn another_checkpointer_helps_one_that_does_not_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    std::fs::write(&path, "").unwrap();
    // As that of a process that is stopped.
    let stopped = super::Sharing::join(&path).unwrap();
    assert!(stopped.membership.take_checkpoints());
    let writer = open(&path);
    writer.execute_batch("CREATE TABLE t (x)").unwrap();
    let write = || writer.execute("INSERT INTO t VALUES (printf('%100d', 7))", ()).unwrap();
    eventually("the log grows over twice its bound", || {
        write();
        log_bytes(&path) > 700 * FRAME
    });
    let steps = || writer.stats().checkpoints.unwrap();
    assert_eq!(steps().catch_ups, 0);
    eventually("it copies all of the log", || {
        write();
        steps().catch_ups > 0
    });
    assert!(!makes_checkpoints(&writer.stats()));
    drop(stopped);
    eventually("it takes over", || makes_checkpoints(&writer.stats()));
    writer.close().unwrap();
    assert_eq!(log_bytes(&path), 0);
}

#[test]
fn after_a_failed_sync_no_writer_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (first, second) = (open(&path), open(&path));
    first.execute_batch("CREATE TABLE t (x)").unwrap();
    let sharing = super::Sharing::join(&path).unwrap();
    sharing.sync_failed();
    for writer in [&first, &second] {
        eventually("the writer stops", || {
            writer.execute("INSERT INTO t VALUES (1)", ()).is_err() && writer.stopped().is_some()
        });
    }
    // What the log has is all that is sure: no checkpoint touches it any more.
    let left = log_bytes(&path);
    assert!(left > 0);
    drop((first.close(), second.close()));
    assert_eq!(log_bytes(&path), left);
}

#[cfg(target_os = "linux")]
#[test]
fn the_neighbours_of_a_database_name_the_writers_that_share_it() {
    use crate::neighbours::{SqliteLock, Which, neighbours};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let alone = Writer::builder(&path).open().unwrap();
    let has = |lock| neighbours(&path).unwrap().locks.iter().any(|held| held.lock == lock);
    assert!(neighbours(&path).unwrap().file(Which::Sharing).is_none());
    let (first, second) = (open(&path), open(&path));
    let found = neighbours(&path).unwrap();
    assert!(found.file(Which::Sharing).is_some());
    let writers = found.locks.iter().find(|held| held.lock == SqliteLock::SharingWriter).unwrap();
    assert_eq!(writers.pids, [std::process::id()]);
    eventually("one makes the checkpoints", || has(SqliteLock::SharingCheckpoints));
    assert!(found.to_string().contains("sharing_writer"), "{found}");
    first.close().unwrap();
    second.close().unwrap();
    assert!(!has(SqliteLock::SharingWriter));
    alone.close().unwrap();
}
