//! Inputs that cannot be read: bytes that a filter refuses, and streams that are over.

use crate::Error;

/// A filter's message about bytes that it cannot read, passed on through [`io::Error`](std::io::Error).
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unreadable(pub(super) String);

/// The error of a stream that was read, of which there is no copy.
pub(super) fn read_once(name: &str) -> Error {
    Error::input(name, "cannot be read a second time").to_do("save it as a file, and load the file")
}
