//! Mutexes whose data no panic can leave half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic of a thread that held it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
