//! A file control on its way through: decorators see its number, and no more.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

/// A question or a hint to an open file, from SQLite or from the program.
///
/// The opcode decides its content, which is a matter between SQLite and the platform's file, so
/// only those two look inside.
#[derive(Debug)]
pub struct FileControl<'a> {
    pub(super) opcode: c_int,
    pub(super) argument: *mut c_void,
    call: PhantomData<&'a mut ()>,
}

impl FileControl<'_> {
    /// Made by the glue for one call.
    pub(super) const fn new(opcode: c_int, argument: *mut c_void) -> Self {
        Self { opcode, argument, call: PhantomData }
    }

    /// Number of the operation: SQLite's `SQLITE_FCNTL_…`.
    pub const fn opcode(&self) -> i32 {
        self.opcode
    }
}
