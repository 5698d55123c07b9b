//! Processes that write one database: side by side, until they are killed, and until
//! the power fails.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use leafpress::vfs::leafpress_vfs;
use rusqlite::{Connection, OpenFlags};

use super::mount::{XfsMount, can_run, make_database, new_folder};
use super::text;

const ADDITIONS_EACH: u32 = 200;
const ROWS: u32 = 300;
const KILLS: u64 = 20;
const CUTS: u64 = 8;
/// Each so many transactions one needs a journal, which it syncs in any case; but none
/// whose number is that high.
const LARGER_EACH: i64 = 9;
const FOR_EVER: &str = "1000000000";
const NONE_LARGER_FROM: i64 = 3_000_000_000_000;

/// A connection with a rollback journal through this VFS.
pub fn connect(path: &Path, vfs: &str, locking: &str, synchronous: &str) -> Connection {
    // Registers it.
    leafpress_vfs().unwrap();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags_and_vfs(path, flags, vfs).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    let settings = format!(
        "PRAGMA locking_mode = {locking}; PRAGMA journal_mode = DELETE;
         PRAGMA synchronous = {synchronous};"
    );
    connection.execute_batch(&settings).unwrap();
    connection
}

/// One of several processes that count together.
pub fn add(path: &Path, vfs: &str, times: &str) {
    let connection = connect(path, vfs, "NORMAL", "EXTRA");
    for _ in 0..times.parse().unwrap() {
        let sql = "BEGIN IMMEDIATE; UPDATE t SET value = value + 1 WHERE id = 7; COMMIT";
        connection.execute_batch(sql).unwrap();
    }
}

/// A reader of a page that another process has changed in place since must see the change.
pub fn processes_write_beside_one_another(mount: &XfsMount) {
    let path = new_folder(mount, "beside").join("a.db");
    make_database(&path, ROWS);
    let times = ADDITIONS_EACH.to_string();
    let mut children: Vec<_> = ["leafpress", "unix", "leafpress"]
        .into_iter()
        .map(|vfs| Ended(start(&["--add", text(&path), vfs, &times])))
        .collect();
    let ours = connect(&path, "leafpress", "NORMAL", "EXTRA");
    let mut last = 0;
    for _ in 0..ADDITIONS_EACH {
        ours.execute_batch("UPDATE t SET value = value + 1 WHERE id = 7").unwrap();
        let now = value_of(&ours, 7);
        assert!(now > last, "{now} after {last}");
        last = now;
    }
    for child in &mut children {
        assert!(child.0.wait().unwrap().success());
    }
    assert_eq!(value_of(&ours, 7), 1_000_000_000_000 + 4 * i64::from(ADDITIONS_EACH));
    assert_whole(&ours);
    println!("4 writers beside one another, one of them plain: no addition was lost");
}

fn value_of(connection: &Connection, id: i64) -> i64 {
    connection.query_row("SELECT value FROM t WHERE id = ?1", [id], |row| row.get(0)).unwrap()
}

fn assert_whole(connection: &Connection) {
    let verdict = connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(verdict.unwrap(), "ok");
}

/// The child: transactions, most of one row, and after each of them its number on
/// standard output; after so many `times` it only waits.
pub fn write_until_killed(path: &Path, locking: &str, synchronous: &str, times: &str, first: &str) {
    let connection = connect(path, "leafpress", locking, synchronous);
    let mut update = connection.prepare("UPDATE t SET value = ?1 WHERE id IN (?2, ?3)").unwrap();
    let first: i64 = first.parse().unwrap();
    let times: i64 = times.parse().unwrap();
    for number in first..first + times {
        let (one, other) = rows_of(number);
        update.execute([number, one, other]).unwrap();
        // One write for the whole line, so that no line is torn.
        std::io::stdout().lock().write_all(format!("{number}\n").as_bytes()).unwrap();
        if locking == "EXCLUSIVE" && one != other {
            // Else the journal stands open for ever.
            let flip = "PRAGMA journal_mode = MEMORY; PRAGMA journal_mode = DELETE";
            connection.execute_batch(flip).unwrap();
        }
    }
    loop {
        thread::park();
    }
}

/// Which rows a transaction changes: one, or two on different pages.
fn rows_of(number: i64) -> (i64, i64) {
    let row = |number: i64| 1 + number.rem_euclid(i64::from(ROWS));
    let is_larger = number % LARGER_EACH == 0 && number < NONE_LARGER_FROM;
    let other = if is_larger { number + i64::from(ROWS / 2) } else { number };
    (row(number), row(other))
}

/// Killed, or waited for, also if a check fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself, which is found out elsewhere.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // A process that has lost the disk panics; its messages are no result.
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Promised values: the one that each row must have, or a later one.
#[derive(Default)]
struct Promises {
    values: BTreeMap<i64, i64>,
    transactions: usize,
}

impl Promises {
    fn keep(&mut self, number: i64) {
        let (one, other) = rows_of(number);
        self.values.insert(one, number);
        self.values.insert(other, number);
        self.transactions += 1;
    }

    /// Rows that are older than promised, and the newest value of all.
    fn broken(&self, connection: &Connection) -> usize {
        let is_broken = |(&row, &value): (&i64, &i64)| value_of(connection, row) < value;
        self.values.iter().filter(|&promise| is_broken(promise)).count()
    }
}

/// Lets a child write, and keeps what it acknowledges, so many transactions; then it
/// goes on, and what it still says can be read.
fn written_until(
    arguments: &[&str],
    answers: u64,
    promises: &mut Promises,
) -> (Ended, impl Iterator<Item = String> + use<>) {
    let mut child = start(arguments);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let child = Ended(child);
    for _ in 0..answers {
        let line = lines.next().expect("the child ended by itself").unwrap();
        promises.keep(line.parse().unwrap());
    }
    (child, lines.map_while(Result::ok))
}

/// After each end plain SQLite opens the database first, and rolls back what there is.
fn judge(path: &Path, promises: &Promises, context: &str) {
    let plain = Connection::open(path).unwrap();
    plain.busy_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(promises.broken(&plain), 0, "{context}");
    assert_whole(&plain);
}

fn randoms() -> impl Iterator<Item = u64> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(0x1234_5678_u64), next).map(|state| state >> 33)
}

pub fn kills_lose_nothing(mount: &XfsMount) {
    let path = new_folder(mount, "kills").join("a.db");
    make_database(&path, ROWS);
    let mut promises = Promises::default();
    for (kill, random) in (0..KILLS).zip(randoms()) {
        let locking = if kill % 2 == 0 { "NORMAL" } else { "EXCLUSIVE" };
        let first = (2_000_000_000_000 + i64::try_from(kill).unwrap() * 1_000_000).to_string();
        let arguments = ["--write-until-killed", text(&path), locking, "EXTRA", FOR_EVER, &first];
        let (child, lines) = written_until(&arguments, 1 + random % 150, &mut promises);
        thread::sleep(Duration::from_micros(random % 3_000));
        drop(child);
        // What it still said before it died; of a line that was cut off nothing is known.
        let is_whole = |line: &String| line.len() == first.len();
        for line in lines.filter(is_whole) {
            promises.keep(line.parse().unwrap());
        }
        judge(&path, &promises, &format!("kill {kill}, {locking}"));
    }
    println!("{KILLS} kills, {} transactions acknowledged, all there", promises.transactions);
}

pub fn power_cuts_lose_nothing(mount: &mut XfsMount) {
    if let Err(reason) = can_run("xfs_io", &["-V"]) {
        leafpress_testing::say_skipped(format!("power cuts: {reason}"));
        return;
    }
    // As SQLite is shipped, FULL is not enough: a journal whose deletion was not synced
    // would come back. Without any syncs something must be lost, or the cut was none.
    let safe = 2_000_000_000_000;
    for (synchronous, first) in [("EXTRA", safe), ("FULL", safe), ("OFF", NONE_LARGER_FROM)] {
        let path = new_folder(mount, &format!("cuts {synchronous}")).join("a.db");
        make_database(&path, ROWS);
        let mut promises = Promises::default();
        let mut lost = 0;
        for (cut, random) in (0..CUTS).zip(randoms()) {
            let locking = if cut % 2 == 0 { "NORMAL" } else { "EXCLUSIVE" };
            let first = (first + i64::try_from(cut).unwrap() * 1_000_000).to_string();
            let answers = 20 + random % 150;
            // Each second one has nothing behind its last transaction that might sync it.
            let is_still = cut / 2 % 2 == 0;
            let times = if is_still { answers.to_string() } else { FOR_EVER.to_owned() };
            let arguments =
                ["--write-until-killed", text(&path), locking, synchronous, &times, &first];
            let (child, _) = written_until(&arguments, answers, &mut promises);
            // What it says from here on is no promise: a sync in whose middle the file
            // system is shut down can answer that all is well. A machine without power
            // answers nothing.
            mount.cut_power().unwrap();
            drop(child);
            mount.start_again();
            if synchronous == "OFF" {
                lost += promises.broken(&Connection::open(&path).unwrap());
            } else {
                judge(&path, &promises, &format!("cut {cut}, {locking}, {synchronous}"));
            }
        }
        assert_eq!(lost > 0, synchronous == "OFF");
        println!(
            "{CUTS} power cuts with synchronous = {synchronous}: {} transactions acknowledged, \
             {lost} rows lost",
            promises.transactions
        );
    }
}
