//! When to close the journal that a larger transaction left open, under
//! exclusive locking.
//!
//! SQLite keeps it open there, and then writes every transaction to it, also
//! those of one page that could go without. Closing it (`regain_atomic_pages`)
//! makes those cheap again, but the next larger transaction must make a journal
//! anew, and sync its name. In syncs, which are nearly all the time that a
//! commit takes:
//!
//! | transaction | journal open | journal closed before it |
//! |---|---|---|
//! | one page | 4 | 1 |
//! | several pages | 4 | 5, and the journal is open after it |
//!
//! So closing it saves three syncs if a transaction of one page follows, and
//! costs one more if another follows. The next transaction is not known. So the
//! syncs that were saved are counted, and no more than these are risked.
//!
//! Invariants:
//! 1. A journal is closed only for credit that is there. Credit is what
//!    transactions of one page have saved, at most [`CREDIT_MAX`], and 2 % of
//!    what all transactions beside an open journal cost.
//! 2. So, whatever the workload, it costs no more than 2 % and
//!    [`CREDIT_AT_FIRST`] more syncs than never to close the journal.
//!
//! Must never: close a journal inside of a transaction.

use rusqlite::Connection;

use crate::error::Result;
use crate::profile::{self, InForce, Locking};
use crate::vfs::LeafpressVfs;
use crate::vfs::atomic::AtomicState;

/// One sync, in the unit of credit.
const SYNC: u32 = 100;
/// The saving of a transaction of one page that needs no journal.
const SAVED: u32 = 3 * SYNC;
/// The cost of a journal that has to be made anew.
const STAKE: u32 = SYNC;
/// 2 % of the four syncs of a transaction with an open journal.
const ALLOWANCE: u32 = 4 * SYNC / 50;
/// Largest credit: else a long time of small transactions would pay for a long time of losses.
const CREDIT_MAX: u32 = 8 * SYNC;
/// Tries before anything is known.
const CREDIT_AT_FIRST: u32 = 3 * SYNC;

/// Decides when to close the journal that a larger transaction left open, under exclusive locking.
#[derive(Debug)]
pub(super) struct OpenJournal {
    vfs: &'static LeafpressVfs,
    /// The path as that VFS knows the database.
    path: String,
    rows_changed: u64,
    credit: Credit,
}

impl OpenJournal {
    /// `None` where a journal never stands open needlessly: with shared locking,
    /// and where pages are not written in place.
    pub fn watch(connection: &Connection, in_force: &InForce) -> Option<Self> {
        let is_alone = in_force.locking == Locking::Exclusive;
        let is_in_place = matches!(in_force.page_writes, Some(AtomicState::Whole { .. }));
        let (vfs, path) = profile::ours(connection).filter(|_| is_alone && is_in_place)?;
        let (path, rows_changed) = (path.to_owned(), connection.total_changes());
        Some(Self { vfs, path, rows_changed, credit: Credit::default() })
    }

    /// Closes the journal after a commit if that will probably pay; returns true if it did.
    ///
    /// # Errors
    /// If the journal is in memory now: nothing more may be written then.
    pub fn committed(&mut self, connection: &Connection) -> Result<bool> {
        let rows_changed = connection.total_changes();
        let has_written = rows_changed != std::mem::replace(&mut self.rows_changed, rows_changed);
        let is_open = self.vfs.journal_is_open_at(&self.path);
        let closes = self.credit.committed(has_written, is_open);
        if closes {
            profile::close_journal(connection)?;
        }
        Ok(closes)
    }
}

#[derive(Debug)]
struct Credit(u32);

impl Default for Credit {
    fn default() -> Self {
        Self(CREDIT_AT_FIRST)
    }
}

impl Credit {
    /// Returns true if the journal is to be closed now, after a commit.
    fn committed(&mut self, has_written: bool, journal_is_open: bool) -> bool {
        if has_written {
            let earned = if journal_is_open { ALLOWANCE } else { SAVED };
            self.0 = (self.0 + earned).min(CREDIT_MAX);
        }
        let stakes = journal_is_open && self.0 >= STAKE;
        if stakes {
            self.0 -= STAKE;
        }
        stakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Syncs for a sequence of transactions (`true`: one page), closing the
    /// journal as `closes` says after each.
    fn syncs(of_one_page: &[bool], mut closes: impl FnMut(bool) -> bool) -> u32 {
        let (mut total, mut is_open) = (0, false);
        for &is_one in of_one_page {
            total += match (is_one, is_open) {
                (_, true) => 4,
                (true, false) => 1,
                (false, false) => 5,
            };
            is_open |= !is_one;
            if closes(is_open) {
                is_open = false;
            }
        }
        total
    }

    fn never(of_one_page: &[bool]) -> u32 {
        syncs(of_one_page, |_| false)
    }

    fn by_credit(of_one_page: &[bool]) -> u32 {
        let mut credit = Credit::default();
        syncs(of_one_page, |is_open| credit.committed(true, is_open))
    }

    fn repeated(pattern: &[bool]) -> Vec<bool> {
        pattern.iter().copied().cycle().take(10_000).collect()
    }

    #[test]
    fn it_never_costs_more_than_two_percent_whatever_comes() {
        let mut seed = 7_u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for run in 0..400 {
            // From hardly any of one page to nearly all, alone and in runs.
            let (share, run_length) = (run % 20, 1 + run % 7);
            let mut work = Vec::new();
            while work.len() < 5_000 {
                let is_one = random() % 20 < share;
                work.extend(std::iter::repeat_n(is_one, (1 + random() % run_length) as usize));
            }
            let (never, credit) = (never(&work), by_credit(&work));
            let allowed = never + never / 50 + CREDIT_AT_FIRST / SYNC;
            assert!(credit <= allowed, "share {share}, runs of {run_length}: {credit} > {allowed}");
        }
    }

    #[test]
    fn even_against_one_who_knows_what_it_will_do() {
        // Each time that the journal was closed a larger transaction comes, and
        // one of one page each time that it was not.
        let mut credit = Credit::default();
        let (mut work, mut is_open) = (Vec::new(), false);
        for _ in 0..10_000 {
            let is_one = is_open;
            work.push(is_one);
            is_open |= !is_one;
            if credit.committed(true, is_open) {
                is_open = false;
            }
        }
        let (never, by_credit) = (never(&work), by_credit(&work));
        assert!(by_credit <= never + never / 50 + 3, "{by_credit} against {never}");
    }

    #[test]
    fn where_small_ones_come_it_gains_what_there_is_to_gain() {
        for (pattern, least_gain) in [
            (&[false, true][..], 0.24),
            (&[false, true, true], 0.41),
            (&[false, false, true], 0.07),
            (&[false, true, true, true, true, true, true, true, true, true], 0.64),
        ] {
            let work = repeated(pattern);
            let gain = 1.0 - f64::from(by_credit(&work)) / f64::from(never(&work));
            assert!(gain > least_gain, "{pattern:?}: {gain}");
        }
    }

    #[test]
    fn what_writes_nothing_earns_nothing() {
        let mut credit = Credit(0);
        for is_open in [true, false] {
            assert!(!credit.committed(false, is_open));
        }
        assert_eq!(credit.0, 0);
        for _ in 0..12 {
            assert!(!credit.committed(true, true));
        }
        assert!(credit.committed(true, true), "2 % of thirteen transactions are one sync");
        assert!(!credit.committed(true, false), "what is closed is not closed again");
        assert_eq!(credit.0, 4 + SAVED);
    }
}
