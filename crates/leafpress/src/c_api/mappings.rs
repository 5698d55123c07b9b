//! Memory that SQLite maps from its files: the index of a write-ahead log, and databases
//! where `PRAGMA mmap_size` asks for it.
//!
//! A mapping keeps its file open, and so the locks of that opening held, also where no
//! descriptor is left. A child of `fork` would so hold its parent's locks after the parent
//! is dead, and could write into the index that the parent goes on with. So in a child
//! empty memory is put in the place of each mapping.
//!
//! Must never: miss a mapping: a call into the system and the note of it are one step for
//! a thread that forks.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a mapping begins, and its length in bytes.
type Mapping = (usize, usize);

static MAPPED: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

fn mapped() -> MutexGuard<'static, Vec<Mapping>> {
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// Taken by the thread that forks, which is the thread of the child.
    static HELD: RefCell<Option<MutexGuard<'static, Vec<Mapping>>>> = const { RefCell::new(None) };
}

/// Keeps other threads from mapping anything while this one forks. No other mutex is taken
/// under this one, so it is the last.
pub(super) fn hold_for_fork() {
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(mapped()));
}

pub(super) fn let_go_after_fork() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

/// In a child: puts empty memory in the place of what the parent has mapped.
pub(super) fn empty_in_child() {
    let Ok(Some(mut parents)) = HELD.try_with(|held| held.borrow_mut().take()) else { return };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
    for (at, bytes) in parents.drain(..) {
        // SAFETY: SQLite has mapped just that, and unmaps it by a call that comes by here.
        // What reads it finds zeros, which SQLite takes for an index to be made anew.
        unsafe { libc::mmap(at as *mut c_void, bytes, protection, flags, -1, 0) };
    }
}

/// What SQLite calls for `mmap`.
///
/// # Safety
/// As that of the C library.
pub(super) unsafe extern "C" fn map(
    at: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: i64,
) -> *mut c_void {
    let mut mapped = mapped();
    // SAFETY: the caller's word.
    let place =
        unsafe { libc::mmap(at, bytes, protection, flags, descriptor, offset as libc::off_t) };
    if place != libc::MAP_FAILED {
        mapped.push((place as usize, bytes));
    }
    place
}

/// What SQLite calls for `munmap`.
///
/// # Safety
/// As that of the C library.
pub(super) unsafe extern "C" fn unmap(at: *mut c_void, bytes: usize) -> c_int {
    let mut mapped = mapped();
    // SAFETY: the caller's word.
    let answer = unsafe { libc::munmap(at, bytes) };
    if answer == 0 {
        forget(&mut mapped, at as usize, bytes);
    }
    answer
}

/// What SQLite calls for `mremap`. Where the system has none, SQLite does not call it.
///
/// # Safety
/// As that of the C library.
pub(super) unsafe extern "C" fn remap(
    at: *mut c_void,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
) -> *mut c_void {
    let mut mapped = mapped();
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // SAFETY: the caller's word.
    let place = unsafe { libc::mremap(at, bytes, new_bytes, flags) };
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let (place, _) = (libc::MAP_FAILED, flags);
    if place != libc::MAP_FAILED {
        forget(&mut mapped, at as usize, bytes);
        mapped.push((place as usize, new_bytes));
    }
    place
}

/// Takes a range out of the list: SQLite unmaps the end of a mapping too.
fn forget(mapped: &mut Vec<Mapping>, at: usize, bytes: usize) {
    let end = at.saturating_add(bytes);
    let mut kept = Vec::new();
    mapped.retain_mut(|(start, length)| {
        let stop = *start + *length;
        if stop <= at || end <= *start {
            return true;
        }
        if end < stop {
            kept.push((end, stop - end));
        }
        *length = at.saturating_sub(*start);
        *length > 0
    });
    mapped.append(&mut kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unmapped_is_forgotten_whole_or_in_part() {
        let mut mapped = vec![(100, 50), (200, 100)];
        forget(&mut mapped, 100, 50);
        assert_eq!(mapped, [(200, 100)]);
        forget(&mut mapped, 280, 20);
        assert_eq!(mapped, [(200, 80)]);
        forget(&mut mapped, 200, 10);
        assert_eq!(mapped, [(210, 70)]);
        forget(&mut mapped, 220, 10);
        assert_eq!(mapped, [(210, 10), (230, 50)]);
        forget(&mut mapped, 300, 10);
        assert_eq!(mapped.len(), 2);
        forget(&mut mapped, 0, 1000);
        assert!(mapped.is_empty());
    }
}
