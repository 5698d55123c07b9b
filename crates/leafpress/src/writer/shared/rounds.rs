//! Rounds of syncs: the commits of all members wait for one sync.
//!
//! ```text
//! counted as c ─► synced ≥ c? ─ yes ─────────────────────────────► answer
//!                    │ no
//!                    ├─ the baton is free: take it, gather, n = committed, sync, synced = n
//!                    └─ another member has it: sleep until it wakes us, and look again
//! ```
//!
//! The *baton* is a lock on a byte of the file `-shared`, which the system takes from a process that
//! dies. A member that waits for too long makes a sync of its own, which is right at any time; as long
//! as that round does not end, the others do so at once.
//!
//! 1. `synced` becomes n only after a sync that began when `committed` was n at least.
//! 2. A commit is counted after it was written.
//!
//! Must never: make a commit wait for others for longer than a sync takes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Sharing, wake_word};

/// A round waits until it has as many commits as the last one. It waits no longer than the last sync
/// took, as a second sync would cost as much, and never longer than this.
const GATHER_MAX: Duration = Duration::from_millis(2);
/// Sleep while another member syncs, in lengths of the last sync; for this long at least, at most.
const SLEEP_SYNCS: u32 = 2;
const SLEEP_BETWEEN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));
/// Time after which a member syncs by itself, in lengths of the last sync; for this long at least, at
/// most.
const LONELY_AFTER_SYNCS: u32 = 8;
const LONELY_BETWEEN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The reason why a commit is not known to be on disk.
#[derive(Debug)]
pub(crate) enum NotSynced {
    /// The sync of this process has failed.
    Here(rusqlite::Error),
    /// That of another one.
    Elsewhere,
}

impl Sharing {
    /// Waits until the commit that was written last is on disk: after `sync` of the log, or that of
    /// another member.
    ///
    /// # Errors
    /// If it is not known to be there. No later sync of any member says that it is.
    pub(crate) fn make_durable(
        &self,
        mut sync: impl FnMut() -> rusqlite::Result<()>,
    ) -> Result<(), NotSynced> {
        let page = &self.page;
        let ours = page.committed().fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        let gather_at = page.gather_at().load(Ordering::Acquire);
        if gather_at != 0 && ours >= gather_at {
            wake_word::wake(page.gathered_wake_word());
        }
        let began = Instant::now();
        loop {
            let seen = wake_word::read(page.synced_wake_word());
            if page.is_synced(ours) {
                Self::count(&self.counts.syncs_of_others);
                return Ok(());
            }
            if page.is_broken() {
                return Err(NotSynced::Elsewhere);
            }
            if self.membership.take_baton() {
                let synced = self.round(ours, &mut sync);
                self.membership.leave_baton();
                wake_word::wake(page.synced_wake_word());
                return synced;
            }
            let last = Duration::from_nanos(page.sync_ns().load(Ordering::Relaxed));
            let limit = within(last * LONELY_AFTER_SYNCS, LONELY_BETWEEN);
            if page.is_stuck() || began.elapsed() > limit {
                page.set_stuck();
                Self::count(&self.counts.lonely_syncs);
                return self.sync(&mut sync);
            }
            wake_word::sleep(
                page.synced_wake_word(),
                seen,
                within(last * SLEEP_SYNCS, SLEEP_BETWEEN),
            );
        }
    }

    /// One sync for all commits that are counted as it begins. The baton is ours.
    fn round(
        &self,
        ours: u64,
        sync: &mut impl FnMut() -> rusqlite::Result<()>,
    ) -> Result<(), NotSynced> {
        let page = &self.page;
        page.rounds().fetch_add(1, Ordering::Relaxed);
        if page.is_synced(ours) {
            Self::count(&self.counts.syncs_of_others);
            return Ok(());
        }
        let before = page.synced().load(Ordering::Acquire);
        self.gather(before);
        let covered = page.committed().load(Ordering::Acquire);
        let began = Instant::now();
        self.sync(sync)?;
        Self::count(&self.counts.own_syncs);
        page.sync_ns().store(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        page.last_round().store(covered.saturating_sub(before), Ordering::Relaxed);
        // Not the larger of the two, so that nonsense there is overwritten. Only the holder of the
        // baton stores.
        page.synced().store(covered, Ordering::Release);
        Ok(())
    }

    /// Waits until as many commits are counted as the last round had, for a while.
    fn gather(&self, before: u64) {
        let page = &self.page;
        let wanted = before.saturating_add(page.last_round().load(Ordering::Relaxed));
        let last = Duration::from_nanos(page.sync_ns().load(Ordering::Relaxed));
        let deadline = Instant::now() + last.min(GATHER_MAX);
        if page.committed().load(Ordering::Acquire) >= wanted {
            return;
        }
        page.gather_at().store(wanted, Ordering::Release);
        loop {
            let seen = wake_word::read(page.gathered_wake_word());
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || page.committed().load(Ordering::Acquire) >= wanted {
                break;
            }
            wake_word::sleep(page.gathered_wake_word(), seen, left);
        }
        page.gather_at().store(0, Ordering::Release);
    }

    /// A sync of our own.
    fn sync(&self, sync: &mut impl FnMut() -> rusqlite::Result<()>) -> Result<(), NotSynced> {
        sync().map_err(|error| {
            self.sync_failed();
            NotSynced::Here(error)
        })?;
        // The system tells a failure once, perhaps to another process.
        if self.page.is_broken() { Err(NotSynced::Elsewhere) } else { Ok(()) }
    }

    /// Says that a sync of the log has failed here: no other member may go on either.
    pub(crate) fn sync_failed(&self) {
        self.page.set_broken();
        wake_word::wake(self.page.synced_wake_word());
        wake_word::wake(self.page.copy_wake_word());
    }
}

fn within(time: Duration, (least, most): (Duration, Duration)) -> Duration {
    time.clamp(least, most)
}
