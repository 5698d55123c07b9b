//! Work on all parts of a run, on several threads at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Duration;

use leafpress::vfs::sync::lock;
use leafpress::{ErrorKind, Result};

/// Time between two looks at the caller's wish to stop during a wait: for another thread, or for a store.
pub const WAIT_SLICE: Duration = Duration::from_millis(50);

/// Carries out `work` for each part, on at most so many threads, or fewer where the system gives no more; the
/// results are in the order of the parts. After an error no other part is begun.
///
/// # Errors
/// Those of `work`; of several the one of the first part.
pub fn on_parts<T: Send>(
    threads: usize,
    parts: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let done: Vec<_> = (0..parts).map(|_| Mutex::new(None)).collect();
    let take_parts = || loop {
        let part = next.fetch_add(1, Ordering::Relaxed);
        let Some(slot) = done.get(part) else { break };
        let result = work(part);
        if result.is_err() {
            next.store(parts, Ordering::Relaxed);
        }
        *lock(slot) = Some(result);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(parts) {
            if Builder::new().spawn_scoped(scope, take_parts).is_err() {
                break;
            }
        }
        take_parts();
    });
    let unfinished = || Err(ErrorKind::Bug("a part was left out".to_owned()).into());
    let results = done.into_iter().map(|slot| lock(&slot).take().unwrap_or_else(unfinished));
    results.collect()
}

#[cfg(test)]
mod tests {
    use leafpress::Error;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_parts_and_an_error_ends_the_work() {
        for threads in [1, 3] {
            assert_eq!(on_parts(threads, 20, |part| Ok(part * 2)).unwrap()[7], 14);
            assert!(on_parts(threads, 0, |_| Ok(())).unwrap().is_empty());
            let begun = AtomicUsize::new(0);
            let error = on_parts(threads, 1_000, |part| {
                begun.fetch_add(1, Ordering::Relaxed);
                if part < 5 { Ok(()) } else { Err(Error::misuse("no such part")) }
            });
            assert!(matches!(error.unwrap_err().kind(), ErrorKind::Misuse(_)));
            assert!(begun.into_inner() <= 5 + threads, "parts were begun after the error");
        }
    }
}
