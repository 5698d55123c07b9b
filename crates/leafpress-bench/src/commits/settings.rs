//! Settings of the report that explain how commits are measured.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use super::call::TABLE;
use super::rung::WAL_BYTES_MAX;
use crate::error::Result;
use crate::options::BenchOptions;
use crate::pragmas::Pragmas;
use crate::report::{Safety, Settings, text};
use crate::syncs::sync_us_median;

/// Settings of the experiments "writer" and "checkpoint". Measures how fast this folder syncs.
pub(crate) fn settings(options: &BenchOptions, folder: &Path) -> Result<Settings> {
    let between_runs = if options.is_quick() {
        "nothing"
    } else {
        "everything is synced, then a tenth of a second of rest"
    };
    let pragmas: BTreeMap<&str, String> =
        Safety::ALL.map(|safety| (safety.name(), Pragmas::of(safety).sql())).into();
    Ok(Settings::from([
        ("between_runs_of_commits", json!(between_runs)),
        ("commits", json!(options.commits)),
        ("commit_table", json!(TABLE)),
        ("commit_pragmas", json!(pragmas)),
        ("sync_us_median", json!(sync_us_median(folder)?)),
        ("wal_bytes_max", json!(WAL_BYTES_MAX)),
        text(
            "commit_rows",
            "a rung of \"writer\" ends when its time is up or its rows are done, so slow rivals have fewer rows: rows a second are compared; in \"checkpoint\" scenes beside the first have a part of the commits, slow syncs a tenth",
        ),
        text(
            "commit_time",
            "from the first call to the last acknowledgement; opening and closing, and so the last checkpoint, are outside of it for all of them",
        ),
        text(
            "commit_latency",
            "of each call, exact; with several in flight until its caller sees the answer, after those before it",
        ),
        text(
            "commits_checked",
            "each run: every acknowledged row is there with its text, each caller's in the order made, and no other; journal mode; integrity_check",
        ),
    ]))
}
