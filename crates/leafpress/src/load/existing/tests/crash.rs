//! Kills a process that changes a database, at moments over the whole change,
//! while others read.
//!
//! 1. A reader sees the old state or the new one, whole, at any time.
//! 2. After the kill the database holds one of the two, and is sound.
//!
//! The process is this very test, run once more: what it shall do stands in
//! its environment.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::*;

const DATABASE: &str = "LEAFPRESS_TEST_DATABASE";
const STAGED: &str = "LEAFPRESS_TEST_STAGED";
/// Kills for each kind of database.
const KILLS: u32 = 50;
/// Line that the child prints when it begins.
const READY: &str = "ready to be killed";
/// Rows of the table before a replacement, and after it.
const ROWS: [i64; 2] = [400, 700];

const PLACES: [&str; 4] = [
    "PRAGMA journal_mode=WAL; PRAGMA auto_vacuum=NONE;",
    "PRAGMA journal_mode=DELETE; PRAGMA auto_vacuum=NONE;",
    "PRAGMA auto_vacuum=FULL; PRAGMA journal_mode=WAL;",
    "PRAGMA auto_vacuum=FULL; PRAGMA journal_mode=DELETE;",
];

/// The child's part: does the work, if this is the child.
fn is_child(work: impl Fn(&Existing, &Path, &Settings)) -> bool {
    let (Some(database), Some(staged)) = (std::env::var_os(DATABASE), std::env::var_os(STAGED))
    else {
        return false;
    };
    let settings = Settings { busy_timeout: Duration::from_secs(20), ..settings() };
    println!("\n{READY}");
    let existing = inspect(Path::new(&database), settings.busy_timeout).unwrap();
    work(&existing, Path::new(&staged), &settings);
    true
}

fn spawn(test: &str, place: &Place) -> Child {
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(DATABASE, &place.database)
        .env(STAGED, &place.staged)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == READY), "{name} is no test");
    child
}

/// Numbers that look random and are the same in each run.
fn delay(number: u32, whole: Duration) -> Duration {
    let scattered = number.wrapping_mul(2_654_435_769) >> 16;
    whole * scattered / (1 << 16)
}

/// Strikes the test's child again and again. `state` asserts that what it
/// sees is whole, and says whether it is the new state; `reset` brings back
/// the old one.
fn strike(
    test: &str,
    place: &Place,
    state: impl Fn(&Connection) -> rusqlite::Result<bool> + Sync,
    reset: &str,
) -> [u32; 2] {
    let started = Instant::now();
    assert!(spawn(test, place).wait().unwrap().success());
    let whole = started.elapsed();
    let connection = open(&place.database);
    assert!(state(&connection).unwrap());
    connection.execute_batch(reset).unwrap();

    let is_over = AtomicBool::new(false);
    let mut tally = [0; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let reader = open(&place.database);
            while !is_over.load(Ordering::Relaxed) {
                reader.execute_batch("BEGIN").unwrap();
                state(&reader).unwrap();
                reader.execute_batch("COMMIT").unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let _end = SetOnDrop(&is_over);
        for number in 0..KILLS {
            let mut child = spawn(test, place);
            std::thread::sleep(delay(number, whole));
            let _ = child.kill();
            child.wait().unwrap();
            let is_new = state(&connection).unwrap();
            assert_eq!(ask::<String>(&connection, "PRAGMA integrity_check"), "ok");
            tally[usize::from(is_new)] += 1;
            if is_new {
                connection.execute_batch(reset).unwrap();
            }
        }
    });
    tally
}

/// Ends the reader, also when an assertion fails.
struct SetOnDrop<'f>(&'f AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn count(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.query_row(sql, [], |row| row.get(0))
}

#[test]
fn killed_moves_leave_the_old_state_or_the_new_one() {
    let work = |existing: &Existing, staged: &Path, settings: &Settings| {
        move_in(existing, &Staged { file: staged, table: "new", rows: 0 }, settings).unwrap();
    };
    if is_child(work) {
        return;
    }
    let mut tally = [0; 2];
    for setup in PLACES {
        let place = Place::new(&format!("{setup} {OLD}"))
            .stage(&RICH.replace("series(900)", "series(300)"));
        let rows: i64 = ask(&open(&place.staged), "SELECT count(*) FROM new");
        let state = |connection: &Connection| {
            assert_eq!(
                count(connection, "SELECT count(*) FROM old INDEXED BY old_b WHERE b > ''")?,
                500
            );
            let trees =
                count(connection, "SELECT count(*) FROM sqlite_schema WHERE tbl_name = 'new'")?;
            if trees > 0 {
                assert_eq!(trees, 5);
                assert_eq!(count(connection, "SELECT count(*) FROM new NOT INDEXED")?, rows);
                assert_eq!(
                    count(connection, "SELECT count(*) FROM new INDEXED BY \"in'dex\"")?,
                    rows
                );
                assert_eq!(
                    count(connection, "SELECT count(*) FROM sqlite_sequence WHERE name = 'new'")?,
                    1
                );
            }
            Ok(trees > 0)
        };
        let found = strike(
            "killed_moves_leave_the_old_state_or_the_new_one",
            &place,
            state,
            "DROP TABLE new; VACUUM",
        );
        tally = [tally[0] + found[0], tally[1] + found[1]];
    }
    assert_eq!(tally[0] + tally[1], 200);
    assert!(tally[0] > 10 && tally[1] > 10, "not struck at moments of all kinds: {tally:?}");
}

#[test]
fn killed_replacements_leave_the_old_rows_or_the_new_ones() {
    let replace = |existing: &Existing, staged: &Path, settings: &Settings| {
        let staged = Staged { file: staged, table: "s", rows: 700 };
        let columns = ["k".to_owned(), "v".to_owned()];
        let into = InsertInto { table: "t", columns: &columns, mode: InsertMode::Replace };
        insert(existing, &staged, &into, true, settings).unwrap();
    };
    if is_child(replace) {
        return;
    }
    let [old, new] = ROWS;
    let mut tally = [0; 2];
    for setup in &PLACES[..2] {
        let fill = format!("INSERT INTO t SELECT value, randomblob(900) FROM series({old});");
        let place = Place::new(&format!(
            "{setup} CREATE TABLE t(k INTEGER PRIMARY KEY, v); CREATE INDEX t_v ON t(v); {fill}"
        ));
        let place = place.stage(&format!(
            "CREATE TABLE s(k, v); INSERT INTO s SELECT value, randomblob(900) FROM series({new})"
        ));
        let state = |connection: &Connection| {
            let rows = count(connection, "SELECT count(*) FROM t NOT INDEXED")?;
            assert_eq!(
                count(connection, "SELECT count(*) FROM t INDEXED BY t_v WHERE v > x''")?,
                rows
            );
            assert!(rows == old || rows == new, "{rows}");
            Ok(rows == new)
        };
        let reset = format!("BEGIN; DELETE FROM t; {} COMMIT; VACUUM", with_series(&fill));
        let found =
            strike("killed_replacements_leave_the_old_rows_or_the_new_ones", &place, state, &reset);
        tally = [tally[0] + found[0], tally[1] + found[1]];
    }
    assert!(tally[0] > 5 && tally[1] > 5, "not struck at moments of all kinds: {tally:?}");
}
