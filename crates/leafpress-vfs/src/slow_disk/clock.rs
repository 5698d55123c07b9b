//! The time of a simulated disk, and waiting for it.
//!
//! A thread that sleeps wakes up late, on Linux by 50 µs and some (the kernel's timer
//! slack), which is a tenth of what a sync of a fast disk takes. So the clock learns how
//! late it is woken up, sleeps that much less, and spends the few microseconds that are
//! left awake. It never ends a wait early.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A clock, so that tests need none. Times are since it was made.
pub(super) trait Clock: Send + Sync {
    fn now(&self) -> Duration;

    /// Returns at that time, or at once if it is past.
    fn wait_until(&self, time: Duration);
}

/// Largest lateness that is learned from one wake-up: a machine that was busy elsewhere is late by
/// milliseconds, and says nothing about the next time.
const LATENESS_NS_MAX: u64 = 150_000;

/// The machine's own.
pub(super) struct SystemClock {
    epoch: Instant,
    /// Lateness of wake-ups, on average.
    lateness_ns: AtomicU64,
}

impl SystemClock {
    pub fn new() -> Self {
        Self { epoch: Instant::now(), lateness_ns: AtomicU64::new(50_000) }
    }

    fn sleep(&self, time: Duration) {
        let begun = Instant::now();
        thread::sleep(time);
        let late = begun.elapsed().saturating_sub(time).as_nanos();
        let late = u64::try_from(late).unwrap_or(LATENESS_NS_MAX).min(LATENESS_NS_MAX);
        // Another thread may have learned in between; either is right.
        let known = self.lateness_ns.load(Ordering::Relaxed);
        self.lateness_ns.store(known - known / 8 + late / 8, Ordering::Relaxed);
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    fn wait_until(&self, time: Duration) {
        let lateness = Duration::from_nanos(self.lateness_ns.load(Ordering::Relaxed));
        let asleep = time.saturating_sub(self.now()).saturating_sub(lateness);
        if !asleep.is_zero() {
            self.sleep(asleep);
        }
        while self.now() < time {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_wait_ends_early() {
        let clock = SystemClock::new();
        for microseconds in [0, 1, 10, 100, 1_000] {
            let until = clock.now() + Duration::from_micros(microseconds);
            clock.wait_until(until);
            assert!(clock.now() >= until);
        }
        clock.wait_until(Duration::ZERO);
    }
}
