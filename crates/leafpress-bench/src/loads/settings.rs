//! Settings of the report that explain how loads are measured.

use serde_json::json;

use super::{process, sql};
use crate::generate;
use crate::input::Inputs;
use crate::options::BenchOptions;
use crate::report::{Settings, text};
use crate::rung::described::InputFormat;

/// Settings of the loads: the files that were made, and the memory of a sort that had too little.
pub(crate) fn settings(
    options: &BenchOptions,
    inputs: &Inputs,
    memory_bytes: Option<u64>,
) -> Settings {
    let between_runs = if options.is_quick() {
        "nothing"
    } else {
        "everything is synced, then half a second of rest"
    };
    let mut settings = Settings::from([
        ("between_runs", json!(between_runs)),
        ("rival_pragmas", json!(sql::PRAGMAS)),
        ("rival_index_pragmas", json!(sql::INDEX_PRAGMAS)),
        ("rival_pragmas_in_existing_databases", json!(sql::DURABLE_PRAGMAS)),
        text(
            "rival_ids",
            "rows made in memory: SQLite gives the same ids itself, as that is the fastest",
        ),
        text(
            "rival_sort",
            "whole keys with the row's number, on all cores, within the time taken; the rows are made anew as they are inserted, which is faster than to fetch them from memory in the order of the keys",
        ),
        text(
            "rival_durability",
            "new databases: none, no journal, no sync; existing ones: WAL, FULL, as ours",
        ),
        text(
            "leafpress_durability",
            "full: file and folder are synced within the time taken, to our disadvantage",
        ),
        text(
            "checked",
            "each run: rows and sums, no file left; first run of a rung: integrity_check, and every value and type, and every index in its order",
        ),
        ("indexed_column", json!(generate::INDEXED_COLUMN)),
    ]);
    if let Some(version) = process::shell_version() {
        settings.insert("sqlite3_version", json!(version));
        settings.extend([text(
            "whole_processes",
            "from the start of the process to its exit, the median of 3 to 15 runs into new databases; sqlite3 makes the table and imports in one transaction, rollback journal and synchronous FULL, 1 GB of cache",
        )]);
    }
    if let Some(memory_bytes) = memory_bytes {
        settings.insert("spill_memory_bytes", json!(memory_bytes));
    }
    for (format, file) in inputs.files() {
        let (bytes, rows) = match format {
            InputFormat::Csv => ("csv_bytes", "csv_rows"),
            InputFormat::Ndjson => ("ndjson_bytes", "ndjson_rows"),
            InputFormat::Parquet => ("parquet_bytes", "parquet_rows"),
        };
        let columns: Vec<&str> = generate::CSV_COLUMNS.iter().map(|(name, _)| *name).collect();
        settings.insert(bytes, json!(file.bytes));
        settings.insert(rows, json!(file.rows));
        settings.insert("csv_columns", json!(columns));
    }
    settings
}
