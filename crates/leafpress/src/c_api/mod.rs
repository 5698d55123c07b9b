//! The one folder with `unsafe`: what rusqlite does not offer of SQLite's C interface,
//! and one call of Linux that goes with its locks.
//!
//! | | |
//! |---|---|
//! | `connection` | questions to an open connection: deferred keys |
//! | `database_file` | the file under an open database: syncing it |
//! | `memory` | how much of it SQLite uses; the lookaside block |
//! | `registration` | a `Vfs` under a name: the methods that SQLite calls with a path |
//! | `file` | the methods that SQLite calls with an open file of ours |
//! | `platform` | the way out again: SQLite's own VFS as a `Vfs` |
//! | `mapped` | a file's bytes in memory, for as long as SQLite may look at them |
//! | `shared_memory`, `control` | data that passes through without being looked into |
//! | `range_lock` | locks that belong to one opening of a file |
//! | `system_calls` | SQLite's calls of the system, replaced |
//! | `fork`, `mappings` | steps around `fork`; memory that a child must let go |
//! | `beside` | data of SQLite's calls for which the traits have no room |
//!
//! Everything that leaves this folder is safe to call with any argument. It must
//! never hand out a pointer of SQLite's, and never let a panic unwind into C.
#![allow(unsafe_code)]

mod beside;
pub(crate) mod connection;
pub(crate) mod control;
pub(crate) mod database_file;
mod file;
#[cfg(unix)]
pub(crate) mod fork;
pub(crate) mod mapped;
#[cfg(unix)]
mod mappings;
pub(crate) mod memory;
pub(crate) mod platform;
#[cfg(unix)]
pub(crate) mod range_lock;
pub(crate) mod registration;
pub(crate) mod shared_memory;
#[cfg(unix)]
pub(crate) mod system_calls;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::ffi;

use crate::vfs::{VfsError, VfsResult};

/// Runs what Rust does for a call from C and makes SQLite's code of the answer.
///
/// A panic ends here, as `SQLITE_IOERR`. Its payload is not dropped, since that may
/// panic once more.
fn guarded(call: impl FnOnce() -> VfsResult<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => ffi::SQLITE_OK,
        Ok(Err(VfsError(ffi::SQLITE_OK))) => ffi::SQLITE_IOERR,
        Ok(Err(VfsError(code))) => code,
        Err(payload) => {
            std::mem::forget(payload);
            ffi::SQLITE_IOERR
        }
    }
}

/// The other way: SQLite's code as a result.
fn checked(code: c_int) -> VfsResult<()> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(VfsError(code)) }
}
