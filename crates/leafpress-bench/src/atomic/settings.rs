//! Settings of the report that explain how one-row transactions are measured.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::changes::ROWS_UPDATED;
use crate::commits::TABLE;
use crate::error::Result;
use crate::machine;
use crate::options::BenchOptions;
use crate::report::{Settings, text};
use crate::rung::described::Place;
use crate::syncs::sync_us_median;

/// Settings of the experiment "atomic" on these disks, each with its folder. Measures how fast they
/// sync.
pub(crate) fn settings(options: &BenchOptions, folders: &[(Place, &Path)]) -> Result<Settings> {
    let mut places: BTreeMap<&str, Value> = BTreeMap::new();
    for (place, folder) in folders {
        let file_system = machine::describe(folder).filesystem;
        let sync_us_median = sync_us_median(folder)?;
        let of_it = json!({"filesystem": file_system, "sync_us_median": sync_us_median});
        places.insert(place.name(), of_it);
    }
    Ok(Settings::from([
        ("places", json!(places)),
        ("transactions", json!(options.atomic.transactions)),
        ("every_setting", json!(options.atomic.full)),
        ("assume_atomic", json!(options.atomic.assume)),
        ("one_row_table", json!(TABLE)),
        ("rows_updated", json!(ROWS_UPDATED)),
        text(
            "one_row_time",
            "from the first transaction to the last answer, after 10 that are not measured; a rung ends when its time is up or its transactions are done",
        ),
        text(
            "one_row_calls",
            "calls of SQLite to its files, on average of the transactions: ours within the time taken, as ours always count; SQLite's in as many more transactions right afterwards, as its own VFS does not count",
        ),
        text(
            "one_row_memory",
            "SQLite's own book-keeping, after the last transaction of those that were timed",
        ),
        text(
            "one_row_checked",
            "each run: every change is there, in its row, and no other; journal mode; integrity_check",
        ),
    ]))
}
