//! The checkpointer: copies the WAL off the writer's path.
//!
//! SQLite on its own makes the commit that crosses 1,000 pages pay for a checkpoint.
//! Here no connection of ours does that (`wal_autocheckpoint = 0`); a thread with its
//! own connection does, and meets the writer only at the *gate*. It stands beside
//! the writer: `gate` is where they meet, `policy` decides, `worker` carries out.
//!
//! The steps, and the waits of the writer for them:
//!
//! | step | when | the writer waits for |
//! |---|---|---|
//! | pass (`PASSIVE`) | each [`slice_frames`](CheckpointLimits::slice_frames) new frames, or a pause in the writing with a long WAL | nothing; near the bound, if it is four slices ahead of the pass, for the rest of the pass |
//! | catch-up (`RESTART`) | the WAL is near its bound | two syncs with what they have to write, readers [`catch_up_wait_max`](CheckpointLimits::catch_up_wait_max); then the next commit syncs the WAL's new header |
//! | truncation | nothing was committed for [`idle_before_truncate`](CheckpointLimits::idle_before_truncate) | one `ftruncate` at most, if it commits in that moment |
//!
//! The writer must be held now and then: a WAL rewinds only if, when a write begins, all its frames
//! are in the database and no reader uses it. Against a writer without a pause a `PASSIVE` pass
//! never gets there. The writer is held for three syncs: after the last commit of the old WAL, its
//! frames must be safe before they are copied, the database before the WAL is overwritten, and the
//! new header before the first frame, each after the other, and a commit in between begins it all
//! anew. So on a disk with syncs of 20 ms one commit in some ten thousand takes 60 ms, where SQLite
//! alone makes one in a thousand take 40 and the next one 20. Fewer frames (groups), a larger
//! bound, or pauses in the writing help: in pauses no caller waits.
//!
//! If writers of several processes share the log (`common_log`), one checkpointer works for all. A
//! gate holds one process only, so the gate is not closed at the bound. A catch-up waits in the line
//! of the writers and holds all of them by SQLite's lock. So the WAL may outgrow its bound by what
//! the others write during a pass.
//!
//! Invariants, which `policy` keeps and its tests check:
//!
//! 1. (P1) The gate is closed between groups only, and always opened again: by a guard,
//!    whatever happens. A writer waits there `gate_wait_max` at most.
//! 2. (P2) The gate closes only if the WAL is near its bound, or the writer pauses.
//! 3. (P3) It does not close for a catch-up while a snapshot is known to stand in the way, unless at most
//!    64 frames are left to copy.
//! 4. (P4) After a step that failed or was obstructed there is a pause, which doubles:
//!    the checkpointer never retries in a loop. If the writer was held and nothing was gained, it
//!    is then not held for 20 times as long.
//! 5. (P5) While no reader stands in the way, the WAL does not outgrow
//!    [`wal_bytes_max`](CheckpointLimits::wal_bytes_max) by more than one group.
//! 6. (P6) Once there is no writer and no reader, the WAL file comes down to zero bytes.
//!
//! Must never: write a row, wait for a reader with the writer held beyond the limits,
//! or take an error for success. An error loses nothing: the frames stay in the WAL.
//! After a failed *sync* that holds only if nothing touches the WAL again, so that
//! error is the end of the checkpointer and of the writer.

mod common_log;
mod gate;
mod limits;
mod policy;
mod stats;
#[cfg(test)]
mod tests;
mod worker;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

pub(crate) use self::common_log::{CommonLog, LogState};
pub(crate) use self::gate::Gate;
use self::gate::Look;
pub use self::limits::CheckpointLimits;
use self::policy::Policy;
pub use self::stats::{CheckpointStats, StuckReader};
use self::worker::Worker;
use crate::connect;
use crate::failed_sync::STILL_IN_THE_WAL;
use crate::sync::lock;
use crate::vfs::hooks;
use crate::{Error, ErrorKind, Result};

/// The checkpointer's thread, seen from its owner.
///
/// Dropped without [`stop`](Self::stop) the thread ends too, without a last checkpoint:
/// the commits in the WAL stay there, and are part of the database.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    gate: Arc<Gate>,
    log: Option<Arc<dyn CommonLog>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// State that the thread shares with its owner.
#[derive(Debug, Default)]
struct Shared {
    stats: Mutex<CheckpointStats>,
    /// `stop` was called, not only drop: make a last checkpoint.
    finish: std::sync::atomic::AtomicBool,
}

impl Shared {
    fn with_stats<T>(&self, change: impl FnOnce(&mut CheckpointStats) -> T) -> T {
        change(&mut lock(&self.stats))
    }
}

impl Checkpointer {
    /// Opens the database `path`, which must be in WAL mode, and starts the thread.
    ///
    /// `log` is the log that the writers of several processes share, if they do.
    /// `oldest_reader` names the reader that has been open for longest; it is asked
    /// only when one keeps the WAL from shrinking.
    ///
    /// # Errors
    /// The database cannot be opened, or is not in WAL mode. Nothing was changed.
    pub(crate) fn start(
        path: &Path,
        vfs: Option<&str>,
        limits: &CheckpointLimits,
        gate: Arc<Gate>,
        log: Option<Arc<dyn CommonLog>>,
        oldest_reader: impl Fn() -> Option<String> + Send + 'static,
    ) -> Result<Self> {
        let connection = open(path, vfs)
            .map_err(|error| Error::sqlite("open the checkpointer's connection", error))?;
        let page_size = in_wal_mode(&connection, path)?;
        // From here on SQLite itself waits for no other connection, see `waiting`.
        match log.clone() {
            Some(log) => hooks::set_busy_handler(&connection, move |_| log.wait_at_lock()),
            None => connection.busy_timeout(Duration::ZERO),
        }
        .map_err(|error| Error::sqlite("prepare the checkpointer's connection", error))?;
        let shared = Arc::new(Shared::default());
        shared.with_stats(|stats| stats.page_size = page_size);
        let policy = Policy::new(limits.thresholds(page_size));
        // The bound holds before the thread has had its first turn.
        gate.let_go(policy.bound_frames(), 0);
        let worker = Worker {
            path: path.to_owned(),
            connection,
            limits: limits.clone(),
            policy,
            gate: Arc::clone(&gate),
            log: log.clone(),
            shared: Arc::clone(&shared),
            oldest_reader: Box::new(oldest_reader),
            started: Instant::now(),
            too_long_since: None,
            next_alarm: limits.stuck_reader_after,
        };
        let thread = std::thread::Builder::new()
            .name("leafpress-checkpoint".to_owned())
            .spawn(move || worker.run())
            .map_err(|error| Error::no_thread("for the checkpointer", error))?;
        Ok(Self { gate, log, shared, thread: Some(thread) })
    }

    /// The numbers so far.
    pub(crate) fn stats(&self) -> CheckpointStats {
        let mut stats = self.shared.with_stats(|stats| stats.clone());
        stats.add_gate(&look(&self.gate, self.log.as_deref()), self.gate.held());
        stats
    }

    /// Makes a last checkpoint, cuts the WAL to nothing and ends the thread.
    ///
    /// The writer must have ended its last group. If readers are still open, the frames that they
    /// need stay in the WAL, and that is no error.
    ///
    /// # Errors
    /// The last checkpoint failed: each commit is still in the WAL and counts, and the next opening
    /// of the database copies it.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.shared.finish.store(true, std::sync::atomic::Ordering::SeqCst);
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.gate.stop();
        if let Some(log) = &self.log {
            log.wake();
        }
        thread.join().unwrap_or_else(|_| {
            let error = rusqlite::Error::UnwindingPanic;
            Err(Error::sqlite("make the last checkpoint", error).on_disk(STILL_IN_THE_WAL))
        })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        if let Err(error) = self.join() {
            tracing::warn!(%error, "the checkpointer ended with an error");
        }
    }
}

/// Reason of an error.
pub(crate) const MOVED: &str = "the database is gone or another file: it was deleted, moved or \
     replaced while the writer had it open";

fn open(path: &Path, vfs: Option<&str>) -> rusqlite::Result<Connection> {
    let connection = connect::open_through(path, connect::READ_WRITE, vfs)?;
    // NORMAL and FULL sync alike in a checkpoint; OFF would break every promise.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // Means something on macOS only, where a plain sync stops at the drive's cache.
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    Ok(connection)
}

/// The page size of a database that is in WAL mode.
fn in_wal_mode(connection: &Connection, path: &Path) -> Result<u32> {
    let question = "read the journal mode for the checkpointer";
    let mode: String = connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .map_err(|error| Error::sqlite(question, error))?;
    if mode != "wal" {
        let reason = format!("a checkpointer needs journal mode WAL, and this is {mode}");
        return Err(ErrorKind::Destination { path: path.to_owned(), reason }.into());
    }
    connection
        .pragma_query_value(None, "page_size", |row| row.get(0))
        .map_err(|error| Error::sqlite(question, error))
}

/// The gate, with the length of the log that several processes share, if they do.
fn look(gate: &Gate, log: Option<&dyn CommonLog>) -> Look {
    let own = gate.look();
    let Some(log) = log else { return own };
    let LogState { frames, commits, rewinds } = log.state();
    // The others do not tell when they committed.
    Look { frames, commits, quiet_for: Duration::ZERO, rewinds, ..own }
}
