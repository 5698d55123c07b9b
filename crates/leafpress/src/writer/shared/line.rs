//! The line for SQLite's write lock: first come, first served.
//!
//! The line is manners, not safety: SQLite's lock keeps the database right even if a process does
//! not stand in the line. So other programs get their turns too, and no member waits for one that
//! does not move.
//!
//! 1. A member takes a *ticket* only if it must wait: others wait already, or the lock is held.
//! 2. The member with the lowest ticket tries the lock; the end of each transaction rings for it.
//! 3. While no transaction of a member is open, a member that has not moved for [`PATIENCE`] loses
//!    its ticket: its process is gone, or stopped. If it goes on, it tries the lock as before.
//!
//! Must never: refuse a turn, or wait without an end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Sharing, bell};

/// Time after which a member loses its ticket that is first in the line and does not take the lock.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time between looks of a member that is not rung for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Sharing {
    /// Waits for those that came before, as long as it `goes_on`.
    pub(crate) fn line_up(&self, goes_on: impl Fn() -> bool) {
        if self.first_of_others(u64::MAX).is_none() {
            return;
        }
        Self::count(&self.counts.waits_in_line);
        let ours = self.take_ticket();
        let own_bell = &self.page.bells()[self.membership.slot()];
        let (mut met, mut since) = (None, Instant::now());
        while goes_on() {
            let heard = bell::heard(own_bell);
            let first = self.first_of_others(ours);
            let Some((slot, ticket)) = first else { return };
            if met != first || self.is_held() {
                (met, since) = (first, Instant::now());
            }
            if since.elapsed() >= PATIENCE {
                let release = Ordering::AcqRel;
                let place = &self.page.tickets()[slot];
                let _ = place.compare_exchange(ticket, 0, release, Ordering::Relaxed);
                continue;
            }
            bell::sleep(own_bell, heard, LOOK_EVERY);
        }
    }

    /// Sleeps until a transaction of a member ends, for `limit` at most: the lock is held.
    pub(crate) fn wait_at_lock(&self, limit: Duration) {
        let own_bell = &self.page.bells()[self.membership.slot()];
        let heard = bell::heard(own_bell);
        if self.own_ticket().load(Ordering::Relaxed) == 0 {
            Self::count(&self.counts.waits_in_line);
            self.take_ticket();
        }
        bell::sleep(own_bell, heard, limit);
    }

    /// Says that our transaction has begun.
    pub(crate) fn begun(&self) {
        self.page.holder().store(self.membership.slot() as u64 + 1, Ordering::Release);
        self.own_ticket().store(0, Ordering::Release);
    }

    /// Says that our transaction is about to end. Said later, a process that is stopped in between
    /// would seem to hold a lock that is free, and the line would wait for it.
    pub(crate) fn ending(&self) {
        let ours = self.membership.slot() as u64 + 1;
        let release = Ordering::AcqRel;
        let _ = self.page.holder().compare_exchange(ours, 0, release, Ordering::Relaxed);
    }

    /// Says that our transaction has ended, or could not be begun, and rings for the first in the
    /// line.
    pub(crate) fn leave_line(&self) {
        self.own_ticket().store(0, Ordering::Release);
        if let Some((slot, _)) = self.first_of_others(u64::MAX) {
            bell::ring(&self.page.bells()[slot]);
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

    /// Returns true if a member that lives has begun a transaction.
    fn is_held(&self) -> bool {
        let holder = self.page.holder().load(Ordering::Acquire);
        let Some(slot) = (holder as usize).checked_sub(1) else { return false };
        if self.membership.is_gone(slot) {
            let release = Ordering::AcqRel;
            let _ = self.page.holder().compare_exchange(holder, 0, release, Ordering::Relaxed);
            return false;
        }
        true
    }
}
