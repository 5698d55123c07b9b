//! A row without Leafpress: a connection for each caller, WAL with FULL, and one of the three ways
//! in which applications keep their processes from refusing one another.
//!
//! Statements are prepared once, and SQLite makes its own checkpoints.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::callers::{Caller, is_refusal, until_taken};
use super::rung::{Access, SharedRung};
use crate::commits::{Call, INSERT};
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;

/// Longest wait for the lock of another connection, after which an application gives up.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Pauses between attempts: random, at most the first, which doubles up to the last.
const PAUSE_MAX: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(32));

/// Caller that adds rows.
pub(super) struct Inserting {
    connection: Connection,
    by: Way,
    caller: u32,
}

enum Way {
    BusyTimeout,
    Retries(Random),
    MutexFile(File),
}

/// File whose lock the members take in turns.
pub(super) fn mutex_file(database: &Path) -> PathBuf {
    database.with_extension("mutex")
}

impl Inserting {
    /// Opens a caller's connection.
    pub(super) fn open(
        rung: &SharedRung,
        database: &Path,
        vfs: Option<&str>,
        caller: u32,
    ) -> Result<Self> {
        let connection = connect::open(database, vfs)?;
        let wait = |limit| connection.busy_timeout(limit).map_err(Error::sqlite("set the timeout"));
        wait(BUSY_TIMEOUT)?;
        Pragmas::WAL_FULL.set(&connection)?;
        let by = match rung.access {
            Access::BusyTimeout => Way::BusyTimeout,
            Access::Retries => {
                wait(Duration::ZERO)?;
                Way::Retries(Random(u64::from(caller) + 1))
            }
            Access::MutexFile => {
                let path = mutex_file(database);
                let file = OpenOptions::new().create(true).append(true).open(&path);
                Way::MutexFile(file.map_err(Error::io("open", &path))?)
            }
            Access::Shared | Access::Unshared => return Err(Error::wrong_rival(rung.name())),
        };
        Ok(Self { connection, by, caller })
    }

    /// Closes the connection.
    pub(super) fn close(self) -> Result<()> {
        connect::close(self.connection)
    }
}

impl Caller for Inserting {
    fn call(&mut self, n: u64, refused: &mut u64) -> Result<()> {
        let call = Call::new(self.caller, n);
        let connection = &self.connection;
        match &mut self.by {
            Way::BusyTimeout => until_taken(refused, || insert(connection, &call)),
            Way::Retries(random) => {
                until_taken(refused, || insert_with_retries(connection, &call, random))
            }
            Way::MutexFile(file) => {
                let failed = |error| Error::rung("mutex file", format!("no lock: {error}"));
                file.lock().map_err(failed)?;
                let outcome = until_taken(refused, || insert(connection, &call));
                file.unlock().map_err(failed)?;
                outcome
            }
        }
    }
}

fn insert(connection: &Connection, call: &Call) -> Result<()> {
    let mut statement = connection
        .prepare_cached(INSERT)
        .map_err(Error::sqlite("prepare the rival's statement"))?;
    let inserted = statement.execute(params![call.caller, call.n as i64, call.text()]);
    inserted.map_err(Error::sqlite("commit the rival's row"))?;
    Ok(())
}

/// Tries for as long as a busy timeout would.
fn insert_with_retries(connection: &Connection, call: &Call, random: &mut Random) -> Result<()> {
    let begun = Instant::now();
    let (mut pause_max, longest) = PAUSE_MAX;
    let run = |sql: &str| -> Result<()> {
        let mut statement = connection
            .prepare_cached(sql)
            .map_err(Error::sqlite("prepare the rival's statement"))?;
        statement.execute([]).map_err(Error::sqlite("begin or end the rival's transaction"))?;
        Ok(())
    };
    loop {
        match run("BEGIN IMMEDIATE") {
            Err(error) if is_refusal(&error) && begun.elapsed() < BUSY_TIMEOUT => {
                thread::sleep(pause_max.mul_f64(random.share()));
                pause_max = (pause_max * 2).min(longest);
            }
            begun => {
                begun?;
                insert(connection, call)?;
                return run("COMMIT");
            }
        }
    }
}

/// Random numbers (xorshift), different for each caller and the same in each run.
struct Random(u64);

impl Random {
    /// A number from 0 to below 1.
    fn share(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_random_and_within_their_bounds() {
        let mut random = Random(1);
        let shares: Vec<f64> = (0..1000).map(|_| random.share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        let mean = shares.iter().sum::<f64>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }
}
