//! Names of the numbers in the page that all members have mapped.
//!
//! Must never: be trusted for more than an order: any process that may write the database may write
//! here.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::vfs::shared_page::SharedPage;

/// Writers that may stand in the line at once.
pub(super) const SLOTS: usize = 128;

/// The first number of the page: a name and a version.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"LPshare1");

/// Not 1: nonsense in the page does not look like a sync that failed.
const BROKEN: u64 = u64::from_le_bytes(*b"LPbroken");

/// The page that all members have mapped.
#[derive(Debug)]
pub(super) struct Page(SharedPage);

impl Page {
    pub(super) fn new(page: SharedPage) -> Self {
        Self(page)
    }

    /// [`MAGIC`], once the page is ready.
    pub(super) fn magic(&self) -> &AtomicU64 {
        &self.0.numbers[0]
    }

    /// Commits so far.
    pub(super) fn committed(&self) -> &AtomicU64 {
        &self.0.numbers[8]
    }

    /// Number of commits that are synced, from the first one on.
    pub(super) fn synced(&self) -> &AtomicU64 {
        &self.0.numbers[16]
    }

    /// Commits that the last round has covered.
    pub(super) fn last_round(&self) -> &AtomicU64 {
        &self.0.numbers[17]
    }

    /// Nanoseconds of the last sync.
    pub(super) fn sync_ns(&self) -> &AtomicU64 {
        &self.0.numbers[18]
    }

    /// [`BROKEN`] after a sync that failed.
    pub(super) fn broken(&self) -> &AtomicU64 {
        &self.0.numbers[19]
    }

    /// Rounds that have begun.
    pub(super) fn rounds(&self) -> &AtomicU64 {
        &self.0.numbers[20]
    }

    /// The round for which a member has waited for too long; see [`is_stuck`](Self::is_stuck).
    pub(super) fn stuck(&self) -> &AtomicU64 {
        &self.0.numbers[21]
    }

    /// The commit for which a round waits; 0 if none waits.
    pub(super) fn gather_at(&self) -> &AtomicU64 {
        &self.0.numbers[24]
    }

    /// The last place in the line that was given.
    pub(super) fn last_ticket(&self) -> &AtomicU64 {
        &self.0.numbers[32]
    }

    /// Turns that were begun.
    pub(super) fn turns(&self) -> &AtomicU64 {
        &self.0.numbers[41]
    }

    /// The last turn that has committed, and the log's frames after it; see `log.rs`.
    pub(super) fn log(&self) -> &AtomicU64 {
        &self.0.numbers[48]
    }

    /// Commits that found the log shorter than the one before.
    pub(super) fn rewinds(&self) -> &AtomicU64 {
        &self.0.numbers[49]
    }

    /// Frames at which the checkpointer is to be woken.
    pub(super) fn copy_at(&self) -> &AtomicU64 {
        &self.0.numbers[56]
    }

    /// The slot of the member that has begun a transaction, counted from 1; 0 if none has.
    pub(super) fn holder(&self) -> &AtomicU64 {
        &self.0.numbers[40]
    }

    /// Places in the line, one for each slot; 0 for a member that does not wait.
    pub(super) fn tickets(&self) -> &[AtomicU64] {
        &self.0.numbers[128..128 + SLOTS]
    }

    /// Wakes the members that wait for a round: changed after each round.
    pub(super) fn synced_wake_word(&self) -> &AtomicU32 {
        &self.0.wake_words[0]
    }

    /// Wakes the round that gathers: changed by the commit for which it waits.
    pub(super) fn gathered_wake_word(&self) -> &AtomicU32 {
        &self.0.wake_words[16]
    }

    /// Wakes the checkpointer: changed when the log has grown to [`copy_at`](Self::copy_at), or was
    /// rewound.
    pub(super) fn copy_wake_word(&self) -> &AtomicU32 {
        &self.0.wake_words[32]
    }

    /// Wake words of the slots: that of the first in the line is changed when a transaction ends.
    pub(super) fn slot_wake_words(&self) -> &[AtomicU32] {
        &self.0.wake_words[128..128 + SLOTS]
    }
}

impl Page {
    /// Returns true if the page is one of this version.
    pub(super) fn is_ready(&self) -> bool {
        self.magic().load(Ordering::Acquire) == MAGIC
    }

    /// Returns true if a sync has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken().load(Ordering::Acquire) == BROKEN
    }

    /// Says that a sync has failed.
    pub(super) fn set_broken(&self) {
        self.broken().store(BROKEN, Ordering::Release);
    }

    /// Returns true if a member has waited for too long for the round that began last. The process
    /// that makes that round may be stopped.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck().load(Ordering::Relaxed) == self.this_round()
    }

    /// Says that a member has waited for too long for the round that began last.
    pub(super) fn set_stuck(&self) {
        self.stuck().store(self.this_round(), Ordering::Relaxed);
    }

    /// Number of the round that began last; 1 before the first one, so never the 0 of a new page.
    fn this_round(&self) -> u64 {
        self.rounds().load(Ordering::Relaxed).wrapping_add(1)
    }

    /// Returns true if this commit is synced. Not if the page has nonsense: then each member makes
    /// syncs of its own, until one of them has put it right.
    pub(super) fn is_synced(&self, commit: u64) -> bool {
        let synced = self.synced().load(Ordering::Acquire);
        synced >= commit && synced <= self.committed().load(Ordering::Acquire)
    }

    /// Clears a slot, which may still have the numbers of an earlier member.
    pub(super) fn clear_slot(&self, slot: usize) {
        self.tickets()[slot].store(0, Ordering::Release);
        self.clear_holder(slot);
    }

    /// Says that no transaction of this member is open. Another member may have begun one already.
    pub(super) fn clear_holder(&self, slot: usize) {
        let held = slot as u64 + 1;
        let _ = self.holder().compare_exchange(held, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}
