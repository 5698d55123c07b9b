//! Wake words: numbers in the shared page on which a thread sleeps until a thread of any process
//! changes them, or for a while.
//!
//! Must never: be the only way to learn something. A process may be killed before it wakes others.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The shortest and the longest sleep where the system cannot wake a thread by such a word.
#[cfg(not(target_os = "linux"))]
const NAP: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(10));

/// The value of a word, to be read before the thread looks for what it waits for.
pub(super) fn read(word: &AtomicU32) -> u32 {
    word.load(Ordering::Acquire)
}

/// Sleeps until a thread calls [`wake`], if none has since the word was read as `seen`; for `limit`
/// at most, and perhaps shorter.
pub(super) fn sleep(word: &AtomicU32, seen: u32, limit: Duration) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex;

        let Ok(limit) = limit.try_into() else { return };
        // It ends early for a wake-up, a signal, or a word that has changed already.
        let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&limit));
    }
    #[cfg(not(target_os = "linux"))]
    if word.load(Ordering::Acquire) == seen {
        std::thread::sleep((limit / 20).clamp(NAP.0, NAP.1).min(limit));
    }
}

/// Changes the word, and wakes all threads that sleep on it.
pub(super) fn wake(word: &AtomicU32) {
    word.fetch_add(1, Ordering::AcqRel);
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::futex;

        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}
