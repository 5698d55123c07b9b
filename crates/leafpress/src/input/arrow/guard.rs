//! Panics of the crates that read Parquet and Arrow, made errors.
//!
//! Those crates check what they read, but not everywhere: offsets and lengths
//! of a damaged file can still meet an assertion or an index out of bounds.
//! load must not die of its input, so each call into them that looks at
//! unchecked bytes goes through here. What the call was about to return is
//! dropped with the unwinding, and nothing else was being changed, so no half-made state
//! is seen afterwards.
//!
//! Must never: stand around code of our own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::words::panic_text;

/// The result of a call, or why it failed, be it an error or a panic.
pub(super) fn guarded<T, E: std::fmt::Display>(
    call: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(panic_text(&*panic).unwrap_or("it cannot be read").to_owned()),
    }
}
