//! The price of locks that belong to descriptors: plain `rusqlite` with and without them.
//!
//! Each sample is a process of its own, this executable once more, as the locks stay for the
//! life of a process. Samples of the two take turns, and the ratio is that of the medians of
//! pairs. `make bench-locks` runs it; `cargo bench` does too. As a test, with `--test`, it
//! takes a few steps only.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

/// A measured piece of work: its name, the journal mode, how often, and once.
type Work = (&'static str, &'static str, u32, fn(&Connection, u32));

const WORKS: [Work; 5] = [
    ("read transaction, WAL", "wal", 200_000, read),
    ("read transaction, DELETE", "delete", 200_000, read),
    ("one-row commit, WAL + FULL", "wal", 4_000, write),
    ("one-row commit, WAL + NORMAL", "wal_normal", 40_000, write),
    ("one-row commit, DELETE + EXTRA", "delete", 1_000, write),
];
const OPENING: &str = "opening, a read and closing, WAL";
const PAIRS: usize = 15;

fn read(connection: &Connection, _: u32) {
    let mut statement = connection.prepare_cached("SELECT x FROM t WHERE rowid = 1").unwrap();
    statement.query_row([], |row| row.get::<_, i64>(0)).unwrap();
}

fn write(connection: &Connection, step: u32) {
    connection
        .prepare_cached("UPDATE t SET x = ?1 WHERE rowid = 1")
        .unwrap()
        .execute([step])
        .unwrap();
}

fn open(path: &Path, mode: &str) -> Connection {
    let connection = Connection::open_with_flags(path, OpenFlags::default()).unwrap();
    let (journal, synchronous) = match mode {
        "wal" => ("wal", "FULL"),
        "wal_normal" => ("wal", "NORMAL"),
        _ => ("delete", "EXTRA"),
    };
    let sql = format!("PRAGMA journal_mode={journal}; PRAGMA synchronous={synchronous}");
    connection.execute_batch(&sql).unwrap();
    connection
}

/// One sample, in a process of its own: nanoseconds a step on its standard output.
fn sample(name: &str, folder: &Path, is_ours: bool, divisor: u32) {
    if is_ours {
        leafpress::vfs::locks::install().unwrap();
    }
    let path = folder.join("a.db");
    let elapsed = if name == OPENING {
        // Another connection, so that the log is not made and removed each time.
        let held = open(&path, "wal");
        held.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        let steps = 4_000 / divisor;
        let began = Instant::now();
        for step in 0..steps {
            read(&Connection::open(&path).unwrap(), step);
        }
        began.elapsed() / steps
    } else {
        let (_, mode, steps, work) = WORKS.into_iter().find(|it| it.0 == name).unwrap();
        let connection = open(&path, mode);
        connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        let steps = (steps / divisor).max(1);
        (0..steps / 10).for_each(|step| work(&connection, step));
        let began = Instant::now();
        (0..steps).for_each(|step| work(&connection, step));
        began.elapsed() / steps
    };
    println!("{}", elapsed.as_nanos());
}

fn measured(name: &str, is_ours: bool, divisor: u32) -> Duration {
    // Cargo runs it in the folder of the package, whatever the current one is.
    let disk = std::env::var_os("BENCH_DIR").unwrap_or_else(|| ".".into());
    let folder = tempfile::tempdir_in(disk).unwrap();
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--sample", name, if is_ours { "ours" } else { "plain" }, &divisor.to_string()]);
    let output = command.arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Duration::from_nanos(text.trim().parse().unwrap())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name, whose, divisor, folder] = arguments.as_slice()
        && flag == "--sample"
    {
        sample(name, Path::new(folder), whose == "ours", divisor.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|it| it == "--list") {
        return ExitCode::SUCCESS;
    }
    // `cargo bench` says so; as a test it only has to work.
    let is_short = !arguments.iter().any(|it| it == "--bench");
    let (pairs, divisor) = if is_short { (1, 1_000) } else { (PAIRS, 1) };
    println!("| work | plain, µs | ours, µs | ours / plain, median of {pairs} pairs (range) |");
    println!("|---|---|---|---|");
    for name in WORKS.into_iter().map(|it| it.0).chain([OPENING]) {
        let mut rounds: Vec<(f64, f64)> = (0..pairs)
            .map(|pair| {
                // Each is the first as often as the other.
                let first = measured(name, pair % 2 == 0, divisor).as_secs_f64();
                let second = measured(name, pair % 2 == 1, divisor).as_secs_f64();
                if pair % 2 == 0 { (second, first) } else { (first, second) }
            })
            .collect();
        let median = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let mut plain: Vec<f64> = rounds.iter().map(|it| it.0).collect();
        let mut ours: Vec<f64> = rounds.iter().map(|it| it.1).collect();
        let mut ratios: Vec<f64> = rounds.drain(..).map(|(plain, ours)| ours / plain).collect();
        let ratio = median(&mut ratios);
        println!(
            "| {name} | {:.2} | {:.2} | {ratio:.3} ({:.3}–{:.3}) |",
            median(&mut plain) * 1e6,
            median(&mut ours) * 1e6,
            ratios[0],
            ratios[ratios.len() - 1],
        );
    }
    ExitCode::SUCCESS
}
