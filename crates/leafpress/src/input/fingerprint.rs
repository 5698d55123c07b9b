//! Size and time of a file: if they differ at a second look, the file has changed.
//!
//! Must never: open a file.

use std::fs::Metadata;
use std::time::SystemTime;

use crate::Error;

/// The properties of a file that are compared, to find out that it changed between two passes.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Fingerprint {
    pub(super) bytes: u64,
    modified: Option<SystemTime>,
}

impl Fingerprint {
    pub fn of(metadata: &Metadata) -> Self {
        Self { bytes: metadata.len(), modified: metadata.modified().ok() }
    }

    /// The error of a file that has changed.
    pub(super) fn changed(name: &str) -> Error {
        Error::changed(format!("{name}: {Changed}")).to_do(
            "load it again once nothing writes to it any more; a log that grows can be piped in, \
                 with - as the input",
        )
    }
}

/// A file that changed while it was read, passed on through [`io::Error`](std::io::Error).
#[derive(Debug, thiserror::Error)]
#[error("has changed while it was read")]
pub(super) struct Changed;
