//! The clock of the queue.
//!
//! Wall-clock milliseconds, as leases and due times must mean the same to all processes and after a
//! reboot. Wall clocks jump: `ClockWatch` compares them with a steady clock.
//!
//! Must never: give a time to be stored outside of a write transaction.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use crate::sync::lock;
use crate::times::UnixTime;
use crate::times::in_milliseconds as to_ms;

/// Distance that the wall clock may go back before leases are measured anew. Clocks that are set by
/// the network are off by less, all the time.
pub(super) const BACK_MS: i64 = 1_000;

/// The queue's clock.
#[derive(Debug, Clone, Default)]
pub struct Clock(TimeSource);

#[derive(Debug, Clone, Default)]
enum TimeSource {
    #[default]
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The system's wall clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that is set by hand, for tests: its time, and the handle that sets it.
    pub fn manual(start_ms: i64) -> (Self, ManualClock) {
        let time = Arc::new(AtomicI64::new(start_ms));
        (Self(TimeSource::Manual(Arc::clone(&time))), ManualClock(time))
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            TimeSource::System => UnixTime::from(SystemTime::now()).as_ms(),
            TimeSource::Manual(time) => time.load(Ordering::SeqCst),
        }
    }
}

/// Sets a [`Clock::manual`].
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Sets the clock, forwards or backwards.
    pub fn set_ms(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }

    /// Moves the clock on, or back.
    pub fn advance_ms(&self, by_ms: i64) {
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Time of the clock.
    pub fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Comparison of the wall clock with a steady one.
#[derive(Debug)]
pub(super) struct ClockWatch {
    /// `None` beside a clock that is set by hand: it stands still while time goes by, and would
    /// look as if it were set back.
    started: Option<Instant>,
    /// Largest lead of the wall clock over `started`, since it last jumped back.
    ahead_ms: Mutex<i64>,
}

impl ClockWatch {
    /// Watches `clock` from now on.
    pub(super) fn new(clock: &Clock) -> Self {
        let started = matches!(clock.0, TimeSource::System).then(Instant::now);
        Self { started, ahead_ms: Mutex::new(clock.now_ms()) }
    }

    /// Returns true if the wall clock was set back since the last call.
    pub(super) fn went_back(&self, now_ms: i64) -> bool {
        let passed_ms = self.started.map_or(0, |started| to_ms(started.elapsed()));
        let ahead_ms = now_ms.saturating_sub(passed_ms);
        let mut most = lock(&self.ahead_ms);
        let went_back = ahead_ms < most.saturating_sub(BACK_MS);
        *most = if went_back { ahead_ms } else { ahead_ms.max(*most) };
        went_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_jump_back_is_one() {
        let watch = ClockWatch::new(&Clock::manual(1_000_000).0);
        assert!(!watch.went_back(1_000_000));
        assert!(!watch.went_back(1_500_000), "forwards");
        assert!(watch.went_back(1_400_000));
        assert!(!watch.went_back(1_400_000), "it is told once");
        assert!(watch.went_back(0));
    }
}
