//! The process beside the two copies: starts the child, hears what was acknowledged,
//! writes to the same database, and kills.
//!
//! Must never: open the database but through SQLite while a child runs.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leafpress::Profile;
use rusqlite::Connection;

use super::Load;
use super::child::{arguments, transaction_of};

/// Ids of the transactions that the parent makes are by so much above those of a child.
const BESIDE_IDS: i64 = 1_000_000_000_000;

/// Makes the empty database in the journal mode of the profile.
///
/// # Panics
/// If SQLite does not.
pub fn make_database(path: &Path, profile: Profile) {
    let connection = Connection::open(path).unwrap();
    let journal_mode = if profile.is_wal() { "WAL" } else { "DELETE" };
    connection.pragma_update(None, "journal_mode", journal_mode).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE entry (id INTEGER NOT NULL, part INTEGER NOT NULL,
                 parts INTEGER NOT NULL, payload BLOB NOT NULL);
             CREATE INDEX entry_id ON entry (id);",
        )
        .unwrap();
}

/// A number that the environment asks for.
///
/// # Panics
/// If what it holds is none.
pub fn number_from_environment(name: &str, otherwise: i64) -> i64 {
    std::env::var(name).map_or(otherwise, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// The answers that a child told of.
#[derive(Debug, Default)]
pub struct Told {
    /// Ids of the transactions that were acknowledged, in the child and beside it.
    pub acknowledged: BTreeSet<i64>,
    /// Answers that must not be.
    pub broken: Vec<String>,
    /// True if the child ended by itself.
    pub is_done: bool,
}

impl Told {
    fn line(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("ack", id)) => {
                assert!(self.acknowledged.insert(id.parse().unwrap()), "told twice: {line}");
            }
            Some(("broken", what)) => self.broken.push(what.to_owned()),
            _ if line == "done" => self.is_done = true,
            _ => panic!("a child said {line:?}"),
        }
    }
}

/// A process with two copies. It is killed when this is dropped.
pub struct Child {
    process: std::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
    told: Told,
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Child {
    /// Starts this executable again, whose `main` calls [`run_if_child`](super::run_if_child).
    ///
    /// # Panics
    /// If the system does not.
    pub fn start(path: &Path, load: Load) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(arguments(path, load))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, told: Told::default() }
    }

    /// Hears it to its end; an end that is none of its own is told as a broken answer.
    ///
    /// # Panics
    /// If it says what no child says.
    pub fn hear_to_the_end(mut self) -> Told {
        while let Some(Ok(line)) = self.lines.next() {
            self.told.line(&line);
        }
        let status = self.process.wait().unwrap();
        let mut told = std::mem::take(&mut self.told);
        if !status.success() || !told.is_done {
            told.broken.push(format!("the process under load ended with {status}"));
        }
        told
    }

    /// Hears this many lines, waits for `pause`, and kills it.
    ///
    /// # Panics
    /// If it ends by itself before.
    pub fn kill_after(mut self, lines: u64, pause: Duration) -> Told {
        for _ in 0..lines {
            let line = self.lines.next().expect("the child ended by itself").unwrap();
            self.told.line(&line);
        }
        std::thread::sleep(pause);
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        // What it still said before it died.
        while let Some(Ok(line)) = self.lines.next() {
            self.told.line(&line);
        }
        std::mem::take(&mut self.told)
    }
}

/// Transactions of this process, which has one SQLite, beside the children.
pub struct Beside {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<rusqlite::Result<Vec<i64>>>,
}

impl Beside {
    /// Begins to insert rows. Of several, each needs a `first_id` of its own, as children do.
    pub fn start(path: &Path, first_id: i64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (path, until) = (path.to_owned(), Arc::clone(&stop));
        let first_id = BESIDE_IDS + first_id;
        Self { stop, thread: std::thread::spawn(move || insert_until(&path, first_id, &until)) }
    }

    /// Ends, and adds what it inserted to what was told.
    ///
    /// # Panics
    /// If its thread did.
    pub fn stop(self, told: &mut Told) {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.join().unwrap() {
            Ok(ids) => told.acknowledged.extend(ids),
            Err(error) => told.broken.push(format!("the process beside: {error}")),
        }
    }
}

fn insert_until(path: &Path, first_id: i64, stop: &AtomicBool) -> rusqlite::Result<Vec<i64>> {
    let mut acknowledged = Vec::new();
    let mut id = first_id;
    while !stop.load(Ordering::Relaxed) {
        match insert(path, id) {
            Ok(()) => {
                acknowledged.push(id);
                id += 1;
            }
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {}
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(acknowledged)
}

fn insert(path: &Path, id: i64) -> rusqlite::Result<()> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_millis(300))?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    for statement in transaction_of(id) {
        connection.execute_batch(&statement)?;
    }
    connection.execute_batch("COMMIT")
}
