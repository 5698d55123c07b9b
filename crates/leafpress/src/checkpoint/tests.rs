//! The checkpointer beside plain connections, which pass the gate as the writer does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::{CheckpointLimits, Checkpointer, Gate};

/// Limits small enough that a test meets them all.
fn small_limits() -> CheckpointLimits {
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

fn new_database(folder: &tempfile::TempDir) -> (PathBuf, Connection) {
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
struct PlainWriter {
    connection: Connection,
    gate: Arc<Gate>,
}

impl PlainWriter {
    fn new(mut connection: Connection, gate: Arc<Gate>) -> Self {
        let told = Arc::clone(&gate);
        connection
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, frames: std::ffi::c_int| {
                told.committed(u32::try_from(frames).unwrap());
                Ok(())
            }))
            .unwrap();
        Self { connection, gate }
    }

    fn insert(&self) {
        let _group = self.gate.begin_group();
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO t (x) VALUES (printf('%100d', 7))")
            .unwrap();
        insert.execute(()).unwrap();
    }
}

fn wal_file_bytes(path: &Path) -> u64 {
    let wal = path.with_extension("db-wal");
    std::fs::metadata(wal).map_or(0, |metadata| metadata.len())
}

/// Waits until `true`; a test that waits for ten seconds has failed.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within ten seconds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn assert_sound(path: &Path, rows: i64) {
    let connection = Connection::open(path).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let count: i64 = connection.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
    assert_eq!(count, rows);
}

#[test]
fn the_wal_stays_within_its_bound_and_goes_when_idle() {
    let folder = tempfile::tempdir().unwrap();
    let (path, connection) = new_database(&folder);
    let limits = small_limits();
    let gate = limits.gate();
    let checkpointer =
        Checkpointer::start(&path, None, &limits, Arc::clone(&gate), || None).unwrap();
    let writer = PlainWriter::new(connection, gate);
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
    eventually("and counted", || checkpointer.stats().truncations > 0);
    writer.insert();
    checkpointer.stop().unwrap();
    assert_eq!(wal_file_bytes(&path), 0);
    assert_sound(&path, 5_001);
}
