//! The line for SQLite's write lock: first come, first served.
//!
//! The line is manners, not safety: SQLite's lock keeps the database right even if a process does
//! not stand in the line. So other programs get their turns too, and no member waits for one that
//! does not move.
//!
//! 1. A member takes a *ticket* only if it must wait: others wait already, or the lock is held.
//! 2. The member with the lowest ticket tries the lock; the end of each transaction wakes it.
//! 3. The first in the line loses its ticket if its process is gone; and if it does not move for
//!    [`PATIENCE`] while no transaction of a member is open, since it may be stopped. If it goes on
//!    later, it puts the ticket back.
//! 4. While the line does not move at all for [`PATIENCE_AT_LOCK`], its members ask SQLite's lock,
//!    which alone knows if a transaction is open.
//!
//! Must never: refuse a turn, or wait without an end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Sharing, wake_word};

/// Time after which a member loses its ticket that is first in the line and does not take the lock.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time after which a member no longer waits for a transaction that another one has begun.
const PATIENCE_AT_LOCK: Duration = Duration::from_secs(1);
/// Time between looks of a member that gets no wake-up.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Sharing {
    /// Waits for those that came before, as long as it `goes_on`.
    pub(crate) fn line_up(&self, goes_on: impl Fn() -> bool) {
        if self.first_of_others(u64::MAX).is_none() {
            return;
        }
        Self::count(&self.counts.waits_in_line);
        let ours = self.take_ticket();
        let own_word = &self.page.slot_wake_words()[self.membership.slot()];
        let (mut met, mut since) = (None, Instant::now());
        while goes_on() {
            let seen = wake_word::read(own_word);
            let Some((slot, ticket)) = self.first_of_others(ours) else { return };
            let holder = self.holder();
            if met != Some((slot, ticket, holder)) {
                (met, since) = (Some((slot, ticket, holder)), Instant::now());
                if self.membership.is_gone(slot) {
                    self.take_away(slot, ticket);
                    continue;
                }
            }
            if holder.is_none() && since.elapsed() >= PATIENCE {
                self.take_away(slot, ticket);
                continue;
            }
            if since.elapsed() >= PATIENCE_AT_LOCK {
                return;
            }
            // Another member may have taken ours away, while this process was stopped.
            self.own_ticket().store(ours, Ordering::Release);
            wake_word::sleep(own_word, seen, LOOK_EVERY);
        }
    }

    /// Sleeps until a transaction of a member ends; for `limit` at most, if no member has one open.
    pub(crate) fn wait_at_lock(&self, limit: Duration) {
        let own_word = &self.page.slot_wake_words()[self.membership.slot()];
        let seen = wake_word::read(own_word);
        if self.own_ticket().load(Ordering::Relaxed) == 0 {
            Self::count(&self.counts.waits_in_line);
            self.take_ticket();
        }
        // Its end wakes us; a look before could only meet the moment between two of its attempts.
        let is_held = self.holder().is_some_and(|slot| slot != self.membership.slot());
        wake_word::sleep(own_word, seen, if is_held { LOOK_EVERY } else { limit });
    }

    /// Says that our transaction has begun.
    pub(crate) fn begun(&self) {
        self.count_turn();
        self.page.holder().store(self.membership.slot() as u64 + 1, Ordering::Release);
        self.own_ticket().store(0, Ordering::Release);
    }

    /// Says that our transaction is about to end. Said later, a process that is stopped in between
    /// would seem to hold a lock that is free, and the line would wait for it.
    pub(crate) fn ending(&self) {
        self.page.clear_holder(self.membership.slot());
    }

    /// Says that our transaction has ended, or could not be begun, and wakes the first in the line.
    pub(crate) fn leave_line(&self) {
        self.own_ticket().store(0, Ordering::Release);
        if let Some((slot, _)) = self.first_of_others(u64::MAX) {
            wake_word::wake(&self.page.slot_wake_words()[slot]);
        }
    }

    fn own_ticket(&self) -> &std::sync::atomic::AtomicU64 {
        &self.page.tickets()[self.membership.slot()]
    }

    fn take_ticket(&self) -> u64 {
        let ours = self.page.last_ticket().fetch_add(1, Ordering::AcqRel).wrapping_add(1).max(1);
        self.own_ticket().store(ours, Ordering::Release);
        ours
    }

    /// The slot and the ticket of the first of the other members that wait with a lower ticket.
    fn first_of_others(&self, than: u64) -> Option<(usize, u64)> {
        let waiting = self.page.tickets().iter().enumerate().filter_map(|(slot, ticket)| {
            let ticket = ticket.load(Ordering::Acquire);
            let is_before = ticket != 0 && ticket < than && slot != self.membership.slot();
            is_before.then_some((slot, ticket))
        });
        waiting.min_by_key(|(_, ticket)| *ticket)
    }

    /// The member that lives and has begun a transaction.
    pub(super) fn holder(&self) -> Option<usize> {
        let holder = self.page.holder().load(Ordering::Acquire);
        let slot = (holder as usize).checked_sub(1)?;
        if self.membership.is_gone(slot) {
            self.page.clear_holder(slot);
            return None;
        }
        Some(slot)
    }

    fn take_away(&self, slot: usize, ticket: u64) {
        let release = Ordering::AcqRel;
        let _ = self.page.tickets()[slot].compare_exchange(ticket, 0, release, Ordering::Relaxed);
    }
}
