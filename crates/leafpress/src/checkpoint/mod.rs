//! The checkpointer: copies the WAL off the writer's path.
//!
//! SQLite on its own makes the commit that crosses 1,000 pages pay for a checkpoint.
//! Here no connection of ours does that (`wal_autocheckpoint = 0`); a thread with its
//! own connection does, and meets the writer only at the *gate*. It stands beside
//! the writer: `gate` is where they meet, `policy` decides, this file carries out.
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
//! 3. (P3) It does not close for a catch-up while a snapshot is known to stand in the way.
//! 4. (P4) After a step that failed or was obstructed there is a pause, which doubles:
//!    never a spin. A writer that was held in vain then goes free for 20 times as long.
//! 5. (P5) While no reader stands in the way, the WAL does not outgrow
//!    [`wal_bytes_max`](CheckpointLimits::wal_bytes_max) by more than one group.
//! 6. (P6) Once there is no writer and no reader, the WAL file comes down to zero bytes.
//!
//! Must never: write a row, wait for a reader with the writer held beyond the limits,
//! or take an error for success. An error loses nothing: the frames stay in the WAL.
//! After a failed *sync* that holds only if nothing touches the WAL again, so that
//! error is the end of the checkpointer and of the writer.

mod common_log;
#[cfg(test)]
mod failing_disk;
mod gate;
mod policy;
#[cfg(test)]
mod policy_tests;
mod stats;
#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use self::common_log::{ASK_AGAIN_AFTER, ASK_AGAIN_AT_THE_BOUND_AFTER, HELP_AFTER};
pub(crate) use self::common_log::{CommonLog, LogState};
pub(crate) use self::gate::Gate;
use self::gate::Look;
use self::policy::{Outcome, Policy, Step, Thresholds};
pub use self::stats::{CheckpointStats, StuckReader};
use crate::connect;
use crate::failed_commit::{is_failed_sync, leave_wal_as_it_is};
use crate::sync::lock;
use crate::vfs::database_file;
use crate::words::path_text;
use crate::{Error, ErrorKind, Result};

/// Limits of the checkpointer. Each names the failure that it prevents.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointLimits {
    /// A pass each time the WAL has grown by this many frames (one frame is one page).
    /// Fewer: more syncs, which compete with the writer's own. More: the disk gets
    /// its writes in larger lumps, and readers' lookups in the WAL take longer.
    pub slice_frames: u32,
    /// The WAL does not outgrow this, plus one group, unless a reader holds an old
    /// snapshot. Without a bound a WAL fills the disk and slows each reader.
    pub wal_bytes_max: u64,
    /// From here on a catch-up is prepared and made. The distance to `wal_bytes_max`
    /// is for what the writer adds meanwhile; used up, the writer waits for the passes too. Where a
    /// pass takes 10 ms, it is three quarters of `wal_bytes_max` at least: each catch-up holds all
    /// callers for three syncs.
    pub catch_up_bytes: u64,
    /// A WAL of this length is copied whole when the writing pauses for `pause_before_pass`, so
    /// that it rewinds without holding the writer. A smaller one is left: each rewind costs the
    /// next commit the sync of a header.
    pub pause_bytes: u64,
    /// Time without a commit that is a pause.
    pub pause_before_pass: Duration,
    /// Time without a commit after which the WAL file is cut to zero bytes. If it is shorter, a
    /// writer with rare commits pays for a new WAL each time.
    pub idle_before_truncate: Duration,
    /// Time after which a reader that keeps the WAL from shrinking is reported by name.
    pub stuck_reader_after: Duration,
    /// The writer is held for readers of old snapshots so long at most (and for the
    /// syncs of the disk in any case). Longer stalls commits; much shorter, and
    /// readers of that length never let the WAL rewind.
    pub catch_up_wait_max: Duration,
    /// A writer that found the gate closed goes on after this whatever is under way:
    /// no failure of the checkpointer or its disk stops the writing for longer.
    pub gate_wait_max: Duration,
    /// Longest wait for readers as it closes; after it the rest stays in the WAL.
    pub stop_wait_max: Duration,
}

impl Default for CheckpointLimits {
    fn default() -> Self {
        Self {
            slice_frames: 1_000,
            wal_bytes_max: 64 << 20,
            catch_up_bytes: 8 << 20,
            pause_bytes: 4 << 20,
            pause_before_pass: Duration::from_millis(20),
            idle_before_truncate: Duration::from_secs(2),
            stuck_reader_after: Duration::from_secs(10),
            catch_up_wait_max: Duration::from_millis(15),
            gate_wait_max: Duration::from_secs(1),
            stop_wait_max: Duration::from_millis(500),
        }
    }
}

impl CheckpointLimits {
    /// A gate at which writers wait as these limits say.
    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::new(Gate::new(self.gate_wait_max))
    }

    fn thresholds(&self, page_size: u32) -> Thresholds {
        let frame_bytes = u64::from(page_size) + stats::FRAME_HEADER_BYTES;
        // One frame less than NEVER, so that an absurd limit is still a number of frames.
        let frames = |bytes: u64| (bytes / frame_bytes).clamp(1, u64::from(gate::NEVER - 1)) as u32;
        let bound_frames = frames(self.wal_bytes_max);
        let catch_up_frames = frames(self.catch_up_bytes).min(bound_frames);
        Thresholds {
            slice_frames: self.slice_frames.max(1),
            bound_frames,
            catch_up_frames,
            pause_frames: frames(self.pause_bytes).min(catch_up_frames),
            pause: self.pause_before_pass,
            idle: self.idle_before_truncate.max(self.pause_before_pass),
            stays_after: self.catch_up_wait_max,
            stuck_after: self.stuck_reader_after,
        }
    }
}

/// The checkpointer's thread, seen from its owner.
///
/// Dropped without [`stop`](Self::stop) the thread ends too, without a last checkpoint:
/// what is in the WAL stays there, and counts.
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
        let mut connection = open(path, vfs)
            .map_err(|error| Error::sqlite("open the checkpointer's connection", error))?;
        let page_size = in_wal_mode(&connection, path)?;
        // From here on SQLite itself waits for no other connection, see `waiting`.
        match log.clone() {
            Some(log) => connection.busy_handler(Some(move |_| log.wait_at_lock())),
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
    /// The writer must have ended its last group. If readers are still open, what they
    /// keep in the WAL stays there, and that is no error.
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

const STILL_IN_THE_WAL: &str =
    "every commit is in the database or its -wal file, which belong together";

fn open(path: &Path, vfs: Option<&str>) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connect::open_through(path, flags, vfs)?;
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

/// The thread: asks the policy, carries out, tells the policy.
struct Worker {
    path: PathBuf,
    connection: Connection,
    limits: CheckpointLimits,
    policy: Policy,
    gate: Arc<Gate>,
    /// Present if writers of other processes share the log.
    log: Option<Arc<dyn CommonLog>>,
    shared: Arc<Shared>,
    oldest_reader: Box<dyn Fn() -> Option<String> + Send>,
    started: Instant,
    /// The shared log has been of twice its bound since then.
    too_long_since: Option<Duration>,
    /// The next warning is due when the WAL was kept from shrinking for so long.
    next_alarm: Duration,
}

impl Worker {
    fn run(mut self) -> Result<()> {
        let _opened_at_the_end = OpenAtTheEnd(Arc::clone(&self.gate));
        loop {
            let seen = self.log.as_ref().map(|log| log.wake_word());
            let look = self.look();
            if look.stopping || self.gate.broken().is_some() {
                break;
            }
            if !self.works(&look) {
                self.gate.open_for_good();
                self.sleep_until_asked_for(&look);
                continue;
            }
            let now = self.started.elapsed();
            let step = self.policy.decide(&look, now);
            if matches!(step, Step::Sleep { .. } | Step::Pass) {
                self.let_go(step, now, &look);
            }
            if let Step::Sleep { until, wake_at_frames } = step {
                let at_most = until.map(|until| until.saturating_sub(self.started.elapsed()));
                match (&self.log, seen) {
                    (Some(log), Some(seen)) => log.sleep(seen, at_most, wake_at_frames),
                    _ => self.gate.sleep(at_most, wake_at_frames, look.commits),
                }
                continue;
            }
            let began = Instant::now();
            let (outcome, held) = self.carry_out(step, look.commits);
            let now = self.started.elapsed();
            self.policy.after(step, outcome, held, now);
            self.record(step, outcome, began.elapsed());
            self.alarm(now);
        }
        if let Some(reason) = self.gate.broken() {
            self.leave_wal_as_it_is();
            return Err(Error::stopped(reason).on_disk(STILL_IN_THE_WAL));
        }
        if self.shared.finish.load(std::sync::atomic::Ordering::SeqCst) {
            return self.finish();
        }
        Ok(())
    }

    /// The gate and the log now.
    fn look(&self) -> Look {
        if let Some(log) = &self.log
            && log.has_failed()
            && self.gate.broken().is_none()
        {
            self.gate.break_off("a sync of the log failed in another process".to_owned());
        }
        let mut look = look(&self.gate, self.log.as_deref());
        // A commit that reaches the bound closes a gate of its own process only.
        look.shut |= self.log.is_some() && look.frames >= self.policy.bound_frames();
        look
    }

    /// Returns true if this checkpointer is to work: it alone has the log, or it is the one of
    /// several that makes the checkpoints, or that one seems to be stopped.
    fn works(&mut self, look: &Look) -> bool {
        let Some(log) = &self.log else { return true };
        let is_far_too_long = look.frames >= self.policy.bound_frames().saturating_mul(2);
        let now = self.started.elapsed();
        self.too_long_since = is_far_too_long.then(|| self.too_long_since.unwrap_or(now));
        log.is_ours() || self.too_long_since.is_some_and(|since| now >= since + HELP_AFTER)
    }

    /// Sleeps while another checkpointer works. A commit of our own that finds the log at its bound
    /// ends the sleep: that checkpointer may be gone.
    fn sleep_until_asked_for(&self, look: &Look) {
        let bound_frames = self.policy.bound_frames();
        let (at_most, wake_at_frames) = if look.frames < bound_frames {
            (ASK_AGAIN_AFTER, bound_frames)
        } else {
            (ASK_AGAIN_AT_THE_BOUND_AFTER, gate::NEVER)
        };
        self.gate.sleep(Some(at_most), wake_at_frames, self.gate.look().commits);
    }

    /// Lets the writer go on. Closing the gate at the bound would hold one process of several.
    fn let_go(&self, step: Step, now: Duration, look: &Look) {
        match self.log {
            Some(_) => self.gate.open_for_good(),
            None => self.gate.let_go(self.policy.shut_at_frames(step, now), look.commits),
        }
    }

    /// The outcome, and for how long the gate was closed.
    fn carry_out(&self, step: Step, commits: u64) -> (Outcome, Duration) {
        match step {
            Step::Sleep { .. } | Step::Pass => (self.pass(), Duration::ZERO),
            Step::CatchUp { cut } => self.catch_up(cut),
            Step::Truncate => self.truncate(commits),
        }
    }

    /// SQLite syncs the database only if there was no commit during the pass, which its results do
    /// not tell: with a busy writer, the sync of all that the passes wrote would be left for the
    /// moment in which the writer is held. So the database is synced here.
    fn pass(&self) -> Outcome {
        let outcome = self.checkpoint("PASSIVE");
        let (_, copied_before) = self.policy.frames();
        if let Outcome::Done { frames: Some((_, copied)), .. } = outcome
            && copied > 0
            && copied != copied_before
            && let Err(error) = database_file::sync(&self.connection)
        {
            return self.failed("sync", &error);
        }
        outcome
    }

    fn catch_up(&self, cut: bool) -> (Outcome, Duration) {
        let Some(closed) = self.gate.close() else { return (Outcome::Left, Duration::ZERO) };
        let since = Instant::now();
        let mode = if cut { "TRUNCATE" } else { "RESTART" };
        if let Some(log) = &self.log {
            // Half of the time for which the writer waits at the gate.
            log.line_up(self.limits.gate_wait_max / 2);
        }
        let commits = self.look().commits;
        let outcome = waiting(self.limits.catch_up_wait_max, || self.checkpoint(mode));
        if let Some(log) = &self.log {
            log.leave_line();
        }
        if matches!(outcome, Outcome::Done { busy: false, .. }) {
            if self.log.is_none() {
                closed.wal_rewinds(self.policy.bound_frames());
            }
            if cut {
                self.is_empty_since(commits);
                closed.wal_is_empty();
            }
        }
        drop(closed);
        (outcome, since.elapsed())
    }

    fn truncate(&self, commits: u64) -> (Outcome, Duration) {
        // The syncs come first, with the gate open.
        let pass = self.checkpoint("PASSIVE");
        let whole = matches!(
            pass,
            Outcome::Done { busy: false, frames: Some((frames, copied)) } if copied >= frames
        );
        if !whole {
            return (pass, Duration::ZERO);
        }
        let own_commits = match &self.log {
            Some(log) if log.state().commits != commits => return (Outcome::Left, Duration::ZERO),
            Some(_) => self.gate.look().commits,
            None => commits,
        };
        let Some(closed) = self.gate.close_if_quiet(own_commits) else {
            return (Outcome::Left, Duration::ZERO);
        };
        let since = Instant::now();
        let outcome = self.checkpoint("TRUNCATE");
        if matches!(outcome, Outcome::Done { busy: false, .. }) {
            closed.wal_is_empty();
            self.is_empty_since(commits);
        }
        drop(closed);
        (outcome, since.elapsed())
    }

    fn is_empty_since(&self, commits: u64) {
        if let Some(log) = &self.log {
            log.is_empty_since(commits);
        }
    }

    fn checkpoint(&self, mode: &str) -> Outcome {
        match checkpoint(&self.connection, mode) {
            Ok(outcome) => outcome,
            Err(error) => self.failed(mode, &error),
        }
    }

    fn failed(&self, mode: &str, error: &rusqlite::Error) -> Outcome {
        let path = path_text(&self.path);
        tracing::warn!(%error, %path, mode, "a checkpoint failed; it is tried again");
        self.shared.with_stats(|stats| stats.note_error(error));
        self.break_off_if_unsynced(error);
        Outcome::Failed
    }

    /// After a failed sync the pages that were copied may be lost, though SQLite counts them as
    /// copied and the next sync succeeds. A WAL that is left alone has them all: so there is no
    /// further checkpoint, not even as the connection closes. The next opening of the database
    /// reads the WAL from its start and copies all of it.
    fn break_off_if_unsynced(&self, error: &rusqlite::Error) {
        if is_failed_sync(error) {
            if let Some(log) = &self.log {
                log.sync_failed();
            }
            let path = path_text(&self.path);
            self.gate.break_off(format!("a sync of {path} failed in a checkpoint: {error}"));
            self.leave_wal_as_it_is();
        }
    }

    fn leave_wal_as_it_is(&self) {
        if let Err(error) = leave_wal_as_it_is(&self.connection) {
            tracing::warn!(%error, "closing may copy the WAL");
        }
    }

    fn record(&self, step: Step, outcome: Outcome, took: Duration) {
        let (frames, copied) = self.policy.frames();
        tracing::debug!(?step, ?outcome, ?took, frames, copied, "checkpoint");
        self.shared.with_stats(|stats| stats.record(step, outcome, frames, copied, took));
    }

    fn alarm(&mut self, now: Duration) {
        let Some(lasted) = self.policy.alarm(now) else {
            if self.shared.with_stats(|stats| stats.stuck_reader.take()).is_some() {
                tracing::info!(path = %path_text(&self.path), "the WAL can shrink again");
            }
            self.next_alarm = self.limits.stuck_reader_after;
            return;
        };
        // Code of the caller's: its panic is no reason to stop checkpointing.
        let name = catch_unwind(AssertUnwindSafe(|| (self.oldest_reader)())).unwrap_or_default();
        self.shared.with_stats(|stats| {
            stats.stuck_reader = Some(StuckReader { name: name.clone(), stuck_for: lasted });
        });
        if lasted < self.next_alarm {
            return;
        }
        self.next_alarm = lasted.saturating_mul(2);
        let (frames, copied) = self.policy.frames();
        tracing::warn!(
            path = %path_text(&self.path),
            oldest_reader = name.as_deref().unwrap_or("none of this process"),
            stuck_for_s = lasted.as_secs_f64(),
            wal_frames = frames,
            copied_frames = copied,
            "a reader keeps the WAL from shrinking: end its transaction"
        );
    }

    /// The last checkpoint; readers may keep something in the WAL.
    fn finish(self) -> Result<()> {
        self.gate.open_for_good();
        if self.log.as_ref().is_some_and(|log| !log.is_last()) {
            // Another writer makes the checkpoints. If it leaves now too, closing the last
            // connection copies the log.
            return Ok(());
        }
        let began = Instant::now();
        let mut failure = None;
        let outcome = waiting(self.limits.stop_wait_max, || {
            checkpoint(&self.connection, "TRUNCATE").unwrap_or_else(|error| {
                failure = Some(error);
                Outcome::Failed
            })
        });
        if let Some(error) = failure {
            self.break_off_if_unsynced(&error);
            self.shared.with_stats(|stats| stats.note_error(&error));
            let advice =
                "keep both files together; the next opening of the database copies the rest";
            let error = Error::sqlite("make the last checkpoint", error);
            return Err(error.on_disk(STILL_IN_THE_WAL).to_do(advice));
        }
        self.shared
            .with_stats(|stats| stats.record(Step::Truncate, outcome, 0, 0, began.elapsed()));
        if let Outcome::Done { busy: true, .. } = outcome {
            let path = path_text(&self.path);
            tracing::info!(%path, "another connection still uses the database: its WAL stays");
        }
        Ok(())
    }
}

/// The gate, with the length of the log that several processes share, if they do.
fn look(gate: &Gate, log: Option<&dyn CommonLog>) -> Look {
    let own = gate.look();
    let Some(log) = log else { return own };
    let LogState { frames, commits, rewinds } = log.state();
    Look { frames, commits, rewinds, ..own }
}

/// Tries again while others stand in the way, at most for this time.
///
/// SQLite's own waiting would not do: it decides for which readers to wait when it begins, by the
/// places that they hold. Readers without a pause between them hand such a place on to one another,
/// and it waits for the last of them, which never comes. Tried anew, it sees that they read the
/// newest snapshot and are not in the way.
fn waiting(at_most: Duration, mut attempt: impl FnMut() -> Outcome) -> Outcome {
    /// Far below what a caller of the writer could notice.
    const STEP: Duration = Duration::from_micros(200);
    let since = Instant::now();
    loop {
        let outcome = attempt();
        let obstructed = matches!(outcome, Outcome::Done { busy: true, .. });
        if !obstructed || since.elapsed() >= at_most {
            return outcome;
        }
        std::thread::sleep(STEP);
    }
}

/// Opens the gate when the thread ends, by a panic too: no writer waits for it any more.
struct OpenAtTheEnd(Arc<Gate>);

impl Drop for OpenAtTheEnd {
    fn drop(&mut self) {
        self.0.open_for_good();
    }
}

fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Outcome> {
    let sql = format!("PRAGMA main.wal_checkpoint({mode})");
    connection.prepare_cached(&sql)?.query_row((), |row| {
        let (busy, log, copied): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let frames = u32::try_from(log).ok().zip(u32::try_from(copied).ok());
        Ok(Outcome::Done { busy, frames })
    })
}
