//! Steps around `fork`, so that a child can use SQLite.
//!
//! A child of `fork` has one thread, and a copy of all memory: mutexes that other threads
//! of the parent held stay locked in it for ever. So the thread that forks takes SQLite's
//! static mutexes and those of `locks/` first, and both processes give them back. The
//! child's own steps are given by `locks/`.
//!
//! `vfork`, `posix_spawn` and system calls made without the C library do not run these steps. The
//! first two end in another program, which inherits nothing of ours: `exec` closes all descriptors.
//!
//! Must never: allocate in the child before the mutexes are free again.

use std::ffi::c_int;
use std::sync::OnceLock;

use rusqlite::ffi;

use super::handle::Platform;
use crate::fork;

/// Steps to take: before the fork, after it in the parent, after it in the child.
pub struct AroundFork {
    pub before: fn(),
    pub in_parent: fn(),
    pub in_child: fn(),
}

static STEPS: OnceLock<&'static AroundFork> = OnceLock::new();

/// Static mutexes of SQLite, in the order in which one may be taken while another is held:
/// `OPEN` before `MAIN`, both before those of the VFS, all before memory and randomness.
const MUTEXES: [c_int; 12] = [
    ffi::SQLITE_MUTEX_STATIC_OPEN,
    ffi::SQLITE_MUTEX_STATIC_MAIN,
    ffi::SQLITE_MUTEX_STATIC_APP1,
    ffi::SQLITE_MUTEX_STATIC_APP2,
    ffi::SQLITE_MUTEX_STATIC_APP3,
    ffi::SQLITE_MUTEX_STATIC_VFS1,
    ffi::SQLITE_MUTEX_STATIC_VFS2,
    ffi::SQLITE_MUTEX_STATIC_VFS3,
    ffi::SQLITE_MUTEX_STATIC_LRU,
    ffi::SQLITE_MUTEX_STATIC_PMEM,
    ffi::SQLITE_MUTEX_STATIC_MEM,
    ffi::SQLITE_MUTEX_STATIC_PRNG,
];

/// Registers `steps` for each `fork` of this process and its children; SQLite must be initialised.
/// Call it once.
///
/// # Errors
/// If there is no memory for it; nothing is registered then.
pub fn register(steps: &'static AroundFork) -> std::io::Result<()> {
    let _ = STEPS.set(steps);
    // SAFETY: the three functions live as long as the program, or, in a library that is
    // unloaded, as long as the library, whose registrations the C library then drops.
    match unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) } {
        0 => Ok(()),
        code => Err(std::io::Error::from_raw_os_error(code)),
    }
}

unsafe extern "C" fn before() {
    // It initialises itself under a lock of its own.
    let _ = Platform::find();
    fork::take_all_turns();
    for mutex in MUTEXES {
        // SAFETY: SQLite is initialised, and a static mutex lives for ever.
        unsafe { ffi::sqlite3_mutex_enter(ffi::sqlite3_mutex_alloc(mutex)) };
    }
    if let Some(steps) = STEPS.get() {
        (steps.before)();
    }
    super::mappings::hold_for_fork();
}

unsafe extern "C" fn in_parent() {
    super::mappings::let_go_after_fork();
    if let Some(steps) = STEPS.get() {
        (steps.in_parent)();
    }
    leave_mutexes();
    fork::give_turns_back();
}

unsafe extern "C" fn in_child() {
    let generation = fork::count_child();
    super::system_calls::mask_devices(generation);
    super::mappings::empty_in_child();
    if let Some(steps) = STEPS.get() {
        (steps.in_child)();
    }
    leave_mutexes();
    fork::give_turns_back();
}

fn leave_mutexes() {
    for mutex in MUTEXES.into_iter().rev() {
        // SAFETY: this thread took it before the fork.
        unsafe { ffi::sqlite3_mutex_leave(ffi::sqlite3_mutex_alloc(mutex)) };
    }
}
