//! Progress of a load, reported to the caller. It does not slow the load down.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{ScopedJoinHandle, Thread};
use std::time::Duration;

use super::options::Progress;
use crate::sync::lock;
use crate::threads;

/// Time between two calls of the callback.
const INTERVAL: Duration = Duration::from_millis(100);

/// Counters that the workers raise and the progress thread reads.
#[derive(Debug, Default)]
pub struct Monitor {
    /// Bytes of the input read in the current pass.
    pub bytes_read: Arc<AtomicU64>,
    /// Rows done in the current pass.
    pub rows: Arc<AtomicU64>,
    bytes_total: AtomicU64,
    stage: Mutex<&'static str>,
    done: AtomicBool,
}

impl Monitor {
    /// Enters a stage that counts its own rows, which the stage before has counted already.
    pub fn enter_counting(&self, stage: &'static str) {
        let mut current = lock(&self.stage);
        *current = stage;
        self.rows.store(0, Ordering::Relaxed);
        drop(current);
        tracing::debug!(stage, "load");
    }

    /// Sets the name of the current stage.
    pub fn enter(&self, stage: &'static str) {
        *lock(&self.stage) = stage;
        tracing::debug!(stage, "load");
    }

    /// Size of the input that is read, or was last, if it is known.
    pub fn bytes_total(&self) -> Option<u64> {
        let total = self.bytes_total.load(Ordering::Relaxed);
        (total != u64::MAX).then_some(total)
    }

    /// Sets the size of the input; `None` if unknown.
    pub fn set_total(&self, bytes_total: Option<u64>) {
        self.bytes_total.store(bytes_total.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        let total = self.bytes_total.load(Ordering::Relaxed);
        // Rows are read under the lock, as a new stage may begin to count its own.
        let stage = lock(&self.stage);
        Progress {
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_total: (total != u64::MAX).then_some(total),
            rows: self.rows.load(Ordering::Relaxed),
            stage: *stage,
        }
    }

    /// Runs `work` while `callback` is told of its progress.
    pub fn watch<R>(
        &self,
        callback: Option<&(dyn Fn(&Progress) + Send + Sync)>,
        work: impl FnOnce() -> R,
    ) -> R {
        let Some(callback) = callback else { return work() };
        std::thread::scope(|scope| {
            // Without the thread the callback is told of the end only.
            let watcher = threads::start(scope, || {
                while !self.done.load(Ordering::Acquire) {
                    callback(&self.progress());
                    std::thread::park_timeout(INTERVAL);
                }
            });
            let watcher = watcher.ok();
            let thread = watcher.as_ref().map(ScopedJoinHandle::thread);
            let stop = StopWatching { monitor: self, watcher: thread };
            let result = work();
            callback(&self.progress());
            drop(stop);
            threads::join_all(watcher);
            result
        })
    }
}

/// Guard that ends the progress thread, also when the work panics.
struct StopWatching<'m> {
    monitor: &'m Monitor,
    watcher: Option<&'m Thread>,
}

impl Drop for StopWatching<'_> {
    fn drop(&mut self) {
        self.monitor.done.store(true, Ordering::Release);
        if let Some(watcher) = self.watcher {
            watcher.unpark();
        }
    }
}
