//! Atomic pages on a real disk: XFS on a loop device, which Linux 6.16 and later let
//! write whole pages by software, on any machine where root may mount it.
//!
//! On a machine without it the test says why and does nothing. It starts its own
//! executable again, as other processes that look, write, are traced and are killed,
//! so it has no test harness.
//!
//! | file | shows |
//! |---|---|
//! | `all.rs` | the list of tests, and of what the other processes do |
//! | `mount.rs` | the file system, made and removed again; its power cuts |
//! | `pages.rs` | whole pages are written, refused ones are not, and every reader sees them |
//! | `locks.rs` | no lock of a plain connection is lost; stamps tell every change |
//! | `writers.rs` | processes that write beside one another, are killed, or lose their power |
//! | `calls.rs` | system calls of a transaction, counted by strace |

#[cfg(unix)]
#[path = "atomic_real/all.rs"]
mod all;

fn main() {
    #[cfg(unix)]
    all::main();
    #[cfg(not(unix))]
    println!("skipped: atomic writes on a real disk: only Linux has them");
}
