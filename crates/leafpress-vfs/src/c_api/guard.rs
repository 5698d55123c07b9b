//! Calls between C and Rust: results as SQLite's codes, and codes as results.
//!
//! Must never: let a panic unwind into C.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::ffi;

use super::words::{VfsError, VfsResult};

/// Runs what Rust does for a call from C and makes SQLite's code of the answer.
///
/// A panic ends here, as `SQLITE_IOERR`. Its payload is not dropped, since that may
/// panic once more.
pub(super) fn guarded(call: impl FnOnce() -> VfsResult<()>) -> c_int {
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
pub(super) fn checked(code: c_int) -> VfsResult<()> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(VfsError(code)) }
}
