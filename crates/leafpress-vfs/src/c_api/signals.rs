//! Tells if this process ignores a signal: the safe crates for signals do not.

use std::mem::MaybeUninit;
use std::ptr;

/// Returns true if this process ignores the signal: the program that started it wants it to go on, as `nohup`
/// does.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing; with 0 it has filled the old one.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
