//! The system calls that Rust's library does not have: fork, and what goes with it.
//!
//! The one file of these tests with `unsafe`. Must never: judge anything.
#![allow(unsafe_code)]

use std::ffi::CString;

/// In which process a fork has returned.
pub enum Side {
    /// In the one that called it; the child has this number.
    Parent(i32),
    Child,
}

/// The end of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// Forks this process, as `os.fork` of Python does.
pub fn fork() -> Side {
    // SAFETY: what a child of several threads may do is what these tests are about: it
    // uses the C library, whose own locks are free there, and this library.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => Side::Child,
        child => Side::Parent(child),
    }
}

/// Ends this process at once, without any code of it running.
pub fn leave(code: i32) -> ! {
    // SAFETY: a number is passed, and it does not return.
    unsafe { libc::_exit(code) }
}

/// Has the system kill this process in so many seconds: it hangs then.
pub fn kill_me_in(seconds: u32) {
    // SAFETY: a number is passed.
    unsafe { libc::alarm(seconds) };
}

/// Kills a process.
pub fn kill(process: i32) {
    // SAFETY: numbers are passed.
    unsafe { libc::kill(process, libc::SIGKILL) };
}

/// Waits for a child to end.
pub fn wait(child: i32) -> End {
    let mut status = 0;
    loop {
        // SAFETY: the place for the status outlives the call.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            break;
        }
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "no child {child}: {error}");
    }
    if libc::WIFEXITED(status) {
        End::Exited(libc::WEXITSTATUS(status))
    } else {
        End::Killed(libc::WTERMSIG(status))
    }
}

/// Starts a program as shells of old do: the child shares this process's memory, and its
/// thread waits, until the program runs.
#[inline(never)]
pub fn vfork_and_exec(program: &str, arguments: &[&str]) -> i32 {
    let text = |text: &str| CString::new(text).unwrap();
    let program = text(program);
    let arguments: Vec<CString> = arguments.iter().map(|it| text(it)).collect();
    let mut pointers: Vec<_> =
        std::iter::once(&program).chain(&arguments).map(|it| it.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: between the two returns of vfork nothing but execv and _exit is called, with
    // memory that was made before; the texts end with a zero, the list with a null.
    #[allow(deprecated, reason = "it is what is tested")]
    let child = unsafe {
        let child = libc::vfork();
        if child == 0 {
            libc::execv(program.as_ptr(), pointers.as_ptr());
            libc::_exit(127);
        }
        child
    };
    assert!(child > 0, "no vfork: {}", std::io::Error::last_os_error());
    child
}
