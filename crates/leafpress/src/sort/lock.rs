//! Mutexes of the sorter.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic elsewhere leaves nothing half done here.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
