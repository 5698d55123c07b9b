//! The thread of the checkpointer: asks the policy, carries out a step, and tells the policy.
//!
//! Must never: go on after a sync has failed or the database was moved, or keep the gate closed when it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::common_log::{ASK_AGAIN_AFTER, ASK_AGAIN_AT_THE_BOUND_AFTER, CommonLog, HELP_AFTER};
use super::gate::{Gate, Look, NEVER};
use super::limits::CheckpointLimits;
use super::policy::{Outcome, Policy, Step};
use super::stats::StuckReader;
use super::{MOVED, Shared, look};
use crate::failed_sync::{
    LogOnDisk, STILL_IN_THE_WAL, leave_wal_as_it_is, leave_wal_if_unsynced, note_log,
};
use crate::vfs::database_file::{self, has_moved};
use crate::words::path_text;
use crate::{Error, Result};

/// The thread: asks the policy, carries out, tells the policy.
pub(super) struct Worker {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) limits: CheckpointLimits,
    pub(super) policy: Policy,
    pub(super) gate: Arc<Gate>,
    /// Present if writers of other processes share the log.
    pub(super) log: Option<Arc<dyn CommonLog>>,
    pub(super) shared: Arc<Shared>,
    pub(super) oldest_reader: Box<dyn Fn() -> Option<String> + Send>,
    pub(super) started: Instant,
    /// Time since which the shared log has been twice as long as its bound, or longer.
    pub(super) too_long_since: Option<Duration>,
    /// Time for which the WAL could not shrink, at which the next warning is due.
    pub(super) next_alarm: Duration,
}

impl Worker {
    /// Runs until it is told to stop, or a sync has failed.
    pub(super) fn run(mut self) -> Result<()> {
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
            if self.breaks_off_if_moved() {
                break;
            }
            let began = Instant::now();
            let (outcome, held) = self.carry_out(step, look.commits);
            let now = self.started.elapsed();
            self.policy.after(step, outcome, held, now);
            self.record(step, outcome, began.elapsed());
            self.alarm(now);
        }
        if self.shared.finish.load(Ordering::SeqCst) {
            self.breaks_off_if_moved();
        }
        if let Some(reason) = self.gate.broken() {
            leave_wal_as_it_is(&self.connection);
            return Err(Error::stopped(reason).on_disk(STILL_IN_THE_WAL));
        }
        if self.shared.finish.load(Ordering::SeqCst) {
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
            // It may have been the sync of a checkpoint.
            note_log(&self.connection, LogOnDisk::Uncopied);
            self.gate.break_off("a sync of the log failed in another process".to_owned());
        }
        let mut look = look(&self.gate, self.log.as_deref());
        // A commit that reaches the bound closes a gate of its own process only.
        look.shut |= self.log.is_some() && look.frames >= self.policy.bound_frames();
        look
    }

    /// Ends all checkpoints if the database was moved; returns true then. The log beside the name may be
    /// that of another database by now, which has the same file for it.
    fn breaks_off_if_moved(&self) -> bool {
        let has_moved = has_moved(&self.connection) == Some(true);
        if has_moved {
            self.gate.break_off(MOVED.to_owned());
        }
        has_moved
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
            (ASK_AGAIN_AT_THE_BOUND_AFTER, NEVER)
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
                self.note_emptied(commits);
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
            self.note_emptied(commits);
        }
        drop(closed);
        (outcome, since.elapsed())
    }

    fn note_emptied(&self, commits: u64) {
        if let Some(log) = &self.log {
            log.note_emptied(commits);
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

    /// After a failed sync there is no further checkpoint, not even as the connection closes.
    fn break_off_if_unsynced(&self, error: &rusqlite::Error) {
        if leave_wal_if_unsynced(&self.connection, error) {
            if let Some(log) = &self.log {
                log.sync_failed();
            }
            let path = path_text(&self.path);
            self.gate.break_off(format!("a sync of {path} failed in a checkpoint: {error}"));
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
            let error = error.on_disk(STILL_IN_THE_WAL).to_do(advice);
            return Err(error.on_full_disk(&self.path).of_damaged(&self.path));
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

pub(super) fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Outcome> {
    let sql = format!("PRAGMA main.wal_checkpoint({mode})");
    connection.prepare_cached(&sql)?.query_row((), |row| {
        let (busy, log, copied): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let frames = u32::try_from(log).ok().zip(u32::try_from(copied).ok());
        Ok(Outcome::Done { busy, frames })
    })
}
