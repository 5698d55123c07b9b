//! The log of a database that four processes write without a pause stays bounded, though one of them
//! makes the checkpoints for all and is killed in between.
//!
//! This executable starts itself again as the processes that write, so it has no test harness.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use leafpress::Profile;
use leafpress::checkpoint::CheckpointLimits;
use leafpress::writer::Writer;
use rusqlite::Connection;

const CHILD_FLAG: &str = "--write";
const PROCESSES: usize = 4;
const ROWS_EACH: i64 = 4_000;
const ROW_BYTES: i64 = 4_096;
const BOUND: u64 = 4 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, CHILD_FLAG, profile, path] => write(profile.parse().unwrap(), path.as_ref()),
        [_, flags @ ..] if flags.contains(&"--list") => {}
        _ => {
            for profile in [Profile::Durable, Profile::Relaxed] {
                the_log_stays_bounded(profile);
            }
        }
    }
}

fn open(profile: Profile, path: &Path) -> Writer {
    let mut limits = CheckpointLimits::default();
    limits.wal_bytes_max = BOUND;
    limits.catch_up_bytes = BOUND / 2;
    limits.pause_bytes = BOUND / 4;
    limits.slice_frames = 200;
    let builder = Writer::builder(path).profile(profile).shared().checkpoint_limits(limits);
    let writer = builder.busy_limit(Duration::from_secs(120)).open().unwrap();
    let sharing = writer.stats().sharing.unwrap();
    assert_eq!(sharing.why_not, None);
    writer
}

/// The child: some callers, each commit one row of a page.
fn write(profile: Profile, path: &Path) {
    let writer = open(profile, path);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROWS_EACH / 2 {
                    writer.execute("INSERT INTO t VALUES (zeroblob(?1))", [ROW_BYTES]).unwrap();
                }
            });
        }
    });
    writer.close().unwrap();
}

fn the_log_stays_bounded(profile: Profile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    // Makes the checkpoints first, and dies before they are all made.
    let mut first = start(profile, &path);
    let began = Instant::now();
    let mut others: Vec<Child> = (1..PROCESSES).map(|_| start(profile, &path)).collect();
    let log = path.with_extension("db-wal");
    let (mut longest, mut killed) = (0, false);
    while others.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        let bytes = std::fs::metadata(&log).map_or(0, |facts| facts.len());
        longest = longest.max(bytes);
        if !killed && began.elapsed() > Duration::from_millis(700) {
            first.kill().unwrap();
            killed = true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = first.kill();
    let _ = first.wait();
    assert!(others.iter_mut().all(|child| child.wait().unwrap().success()));
    let rows: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .unwrap();
    let least = (PROCESSES as i64 - 1) * ROWS_EACH;
    println!(
        "{profile}: {rows} rows in {:.1} s, the log {longest} bytes at most, of {BOUND}",
        began.elapsed().as_secs_f64()
    );
    assert!(rows >= least, "{rows}");
    // Writers that wait for no sync fill the log for as long as a pass lasts.
    if profile == Profile::Durable {
        assert!(longest < (rows * ROW_BYTES) as u64 / 2, "{longest} bytes");
    }
    open(profile, &path).close().unwrap();
    assert_eq!(std::fs::metadata(&log).map_or(0, |facts| facts.len()), 0);
    assert!(!path.with_extension("db-shared").exists());
}

fn start(profile: Profile, path: &Path) -> Child {
    // The table is made before any of them writes.
    let writer = open(profile, path);
    writer.execute_batch("CREATE TABLE IF NOT EXISTS t (x)").unwrap();
    writer.close().unwrap();
    Command::new(std::env::current_exe().unwrap())
        .args([CHILD_FLAG, profile.name(), path.to_str().unwrap()])
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}
