//! Settings of the report that explain how many processes are measured.

use std::path::Path;

use serde_json::json;

use crate::error::Result;
use crate::report::{Settings, text};
use crate::syncs::sync_us_median;

/// Settings of the experiment "shared". Measures how fast this folder syncs.
pub(crate) fn settings(folder: &Path) -> Result<Settings> {
    Ok(Settings::from([
        ("sync_us_median", json!(sync_us_median(folder)?)),
        text(
            "shared_rivals",
            "all WAL + FULL, a connection for each caller: a busy timeout of 5 s; BEGIN IMMEDIATE, tried again for 5 s after random pauses of up to 1, 2, 4 … 32 ms; the lock of a file (flock) around each transaction; and a Writer in each process that does not share",
        ),
        text(
            "shared_time",
            "all processes begin at one moment, when each of them has opened the database, and begin no call after the time is up; from the first call to the last answer of all",
        ),
        text(
            "shared_latency",
            "of each call of all processes, exact, from its first attempt to its answer; a call that is refused (\"database is locked\", a timeout) is made again at once and counted",
        ),
        text(
            "shared_slow_syncs",
            "in each process each sync sleeps for so much longer, for ours and the rivals alike; syncs of two processes do not slow each other",
        ),
        text(
            "shared_checked",
            "each run: every acknowledged row is there once with its text, each caller's in the order made, and no other; every pushed job was claimed once and none is left; journal mode; integrity_check",
        ),
    ]))
}
