//! The writer's wait for another process's lock: in the line of the writers that share the database,
//! if it is one of them, and at SQLite's lock.
//!
//! Must never: wait once all calls are to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::interrupt::Interrupts;
use super::shared::Sharing;
use crate::error::{Error, ErrorKind};

/// Lengths of the first waits for another process's lock, and of the later ones:
/// short and even, so that a busy neighbour is met in one of its gaps.
const FIRST_BUSY_WAIT: Duration = Duration::from_micros(200);
const BUSY_WAIT: Duration = Duration::from_millis(1);

/// Measures the wait for another connection's lock, and ends it at the limit.
#[derive(Debug)]
pub(super) struct BusyClock {
    pub(super) limit: Duration,
    epoch: Instant,
    /// Nanoseconds after `epoch` at which the wait began. Time in which the writer worked makes it later.
    began_ns: AtomicU64,
    /// Nanoseconds after `epoch` at which the last pause of this wait ended.
    paused_ns: AtomicU64,
    interrupts: Arc<Interrupts>,
    /// The line that the writer stands in.
    sharing: Option<Arc<Sharing>>,
    /// True between a transaction that was rolled back and the next one of the same turn.
    keeps_turn: AtomicBool,
}

impl BusyClock {
    pub(super) fn new(
        limit: Duration,
        interrupts: Arc<Interrupts>,
        sharing: Option<Arc<Sharing>>,
    ) -> Self {
        Self {
            limit,
            epoch: Instant::now(),
            began_ns: AtomicU64::new(0),
            paused_ns: AtomicU64::new(0),
            interrupts,
            sharing,
            keeps_turn: AtomicBool::new(false),
        }
    }

    /// The writers that share the database, if this is one of them.
    pub(super) fn sharing(&self) -> Option<&Arc<Sharing>> {
        self.sharing.as_ref()
    }

    /// Begins a wait, and waits for those that came before, unless the turn is ours still.
    pub(super) fn line_up(&self) {
        self.restart();
        if !self.keeps_turn.swap(false, Ordering::Relaxed)
            && let Some(sharing) = &self.sharing
        {
            sharing.line_up(|| self.goes_on());
            self.paused_ns.store(self.now_ns(), Ordering::Relaxed);
        }
    }

    /// Keeps the turn after a transaction that was rolled back, for the next one.
    pub(super) fn keep_turn(&self) {
        self.keeps_turn.store(true, Ordering::Relaxed);
    }

    /// Gives back a turn that was kept, if no transaction has begun since.
    pub(super) fn give_turn_back(&self) {
        if self.keeps_turn.swap(false, Ordering::Relaxed) {
            self.ending();
            self.ended();
        }
    }

    /// Says that the lock is ours.
    pub(super) fn begun(&self) {
        if let Some(sharing) = &self.sharing {
            sharing.begun();
        }
    }

    /// Says that the lock will be free in a moment.
    pub(super) fn ending(&self) {
        if let Some(sharing) = &self.sharing {
            sharing.ending();
        }
    }

    /// Says that the lock is free again, or that the writer did not get it.
    pub(super) fn ended(&self) {
        if let Some(sharing) = &self.sharing {
            sharing.leave_line();
        }
    }

    /// Tells the writers that share the database that a sync has failed.
    pub(super) fn sync_failed(&self) {
        if let Some(sharing) = &self.sharing {
            sharing.sync_failed();
        }
    }

    fn goes_on(&self) -> bool {
        self.waited() < self.limit && !self.interrupts.is_asked_of_waiting()
    }

    pub(super) fn restart(&self) {
        let now = self.now_ns();
        self.began_ns.store(now, Ordering::Relaxed);
        self.paused_ns.store(now, Ordering::Relaxed);
    }

    fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn waited(&self) -> Duration {
        let began = Duration::from_nanos(self.began_ns.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(began)
    }

    /// Waits a little; returns false once the limit is reached, or the call that waits is to end: a
    /// statement that commits itself waits while it runs.
    pub(super) fn wait(&self, attempt: i32) -> bool {
        // A statement that commits itself has done its work since, and waits for the second time.
        let worked = self.now_ns().saturating_sub(self.paused_ns.load(Ordering::Relaxed));
        self.began_ns.fetch_add(worked, Ordering::Relaxed);
        if self.interrupts.stops_code() || !self.goes_on() {
            return false;
        }
        let pause = if attempt < 10 { FIRST_BUSY_WAIT } else { BUSY_WAIT };
        let began = Instant::now();
        match &self.sharing {
            Some(sharing) => sharing.wait_at_lock(pause),
            None => std::thread::sleep(pause),
        }
        self.interrupts.leave_out(began.elapsed());
        self.paused_ns.store(self.now_ns(), Ordering::Relaxed);
        true
    }

    pub(super) fn error(&self, source: rusqlite::Error) -> Error {
        Error::from(ErrorKind::Busy { waited: self.waited(), source }).to_do(
            "another process or connection holds the database: let it end its transaction, or \
             allow a longer wait with ⟦busy_limit⟧",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a statement that commits itself does: it waits, works, and waits for its commit.
    #[test]
    fn work_between_two_waits_is_no_wait() {
        let limit = Duration::from_millis(20);
        let clock = BusyClock::new(limit, Arc::default(), None);
        clock.restart();
        std::thread::sleep(2 * limit);
        assert!(clock.wait(0), "it has waited for nothing yet");
        std::thread::sleep(2 * limit);
        assert!(clock.wait(1), "its wait was short");
        let waits = (2..1_000_000).take_while(|attempt| clock.wait(*attempt)).count();
        assert!((1..1_000).contains(&waits), "{waits} waits end at the limit");
    }
}
