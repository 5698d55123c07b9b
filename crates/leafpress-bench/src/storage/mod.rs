//! The disk under a path, measured, for `leafpress storage`.
//!
//! | file | does |
//! |---|---|
//! | here | measures by the library, and puts the verdict beside what was found |
//! | `verdict.rs` | from facts to a profile, in plain words |
//!
//! Must never: measure by itself.

mod verdict;

use std::path::Path;
use std::time::{Duration, Instant};

use leafpress::storage::{self, Findings, StorageOptions};
use serde::Serialize;

pub use verdict::Verdict;

/// Findings, and their meaning. As JSON it is one object, in which the fields of `found` stand
/// beside the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StorageReport {
    /// The facts.
    #[serde(flatten)]
    pub found: Findings,
    /// Their meaning.
    pub verdict: Verdict,
    /// Duration of measuring.
    #[serde(rename = "elapsed_s", serialize_with = "leafpress::times::seconds")]
    pub elapsed: Duration,
}

/// Finds out what the storage under `path` can do, as [`leafpress::storage::measure`], and which
/// profile fits it.
///
/// # Errors
/// As of [`leafpress::storage::measure`].
pub fn measure(
    path: impl AsRef<Path>,
    options: &StorageOptions,
) -> leafpress::Result<StorageReport> {
    let started = Instant::now();
    let found = storage::measure(path, options)?;
    let verdict = verdict::judge(&found);
    Ok(StorageReport { found, verdict, elapsed: started.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_one_object_of_facts_and_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let options = StorageOptions::default().time(Duration::from_millis(1));
        let report = measure(folder.path(), &options).unwrap();
        assert!(!report.verdict.why.is_empty() && !report.elapsed.is_zero());
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["verdict"]["profile"], report.verdict.profile.name());
        assert_eq!(json["file_system"]["kind"], report.found.file_system.kind);
        assert!(json["measured"]["sync_after_append"]["p50_us"].is_number(), "{json}");
        assert!(json["atomic_writes"]["by"].is_string(), "{json}");
    }
}
