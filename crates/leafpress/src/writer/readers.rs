//! Read-only connections beside the Writer's own.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A reader that is out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OldestReader {
    /// Its name, or the place in the program that asked for it, `file.rs:12`.
    pub name: String,
    /// How long it has been out; as JSON in seconds, `open_for_s`.
    #[serde(rename = "open_for_s", serialize_with = "as_seconds")]
    pub open_for: Duration,
    /// Whether it was in a read transaction when its holder last used it.
    pub in_transaction: bool,
}

impl fmt::Display for OldestReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transaction = if self.in_transaction { ", in a read transaction" } else { "" };
        write!(f, "{} for {:.1} s{transaction}", self.name, self.open_for.as_secs_f64())
    }
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
