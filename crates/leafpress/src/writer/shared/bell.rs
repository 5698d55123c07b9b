//! Bells: a thread sleeps until a thread of any process rings, or for a while.
//!
//! Must never: be the only way to learn something. A process may be killed before it rings.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The shortest and the longest sleep where the system has no such bells.
#[cfg(not(target_os = "linux"))]
const NAP: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(10));

/// The state of a bell, to be read before the thread looks for what it waits for.
pub(super) fn heard(bell: &AtomicU32) -> u32 {
    bell.load(Ordering::Acquire)
}

/// Sleeps until the bell rings, if it has not since it was `heard`; for `limit` at most, and perhaps
/// shorter.
pub(super) fn sleep(bell: &AtomicU32, heard: u32, limit: Duration) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex;

        let Ok(limit) = limit.try_into() else { return };
        // It ends early for a ring, a signal, or a bell that has rung already.
        let _ = futex::wait(bell, futex::Flags::empty(), heard, Some(&limit));
    }
    #[cfg(not(target_os = "linux"))]
    if bell.load(Ordering::Acquire) == heard {
        std::thread::sleep((limit / 20).clamp(NAP.0, NAP.1).min(limit));
    }
}

/// Wakes all threads that sleep on the bell.
pub(super) fn ring(bell: &AtomicU32) {
    bell.fetch_add(1, Ordering::AcqRel);
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex;

        let _ = futex::wake(bell, futex::Flags::empty(), i32::MAX as u32);
    }
}
