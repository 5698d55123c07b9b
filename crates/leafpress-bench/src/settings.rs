//! What a reader of a report must know to judge its figures: what was asked for,
//! how it was measured, and what is for or against whom.
//!
//! Must never: claim anything that the experiments at hand do not do.

use std::collections::BTreeMap;
use std::path::Path;

use leafpress::storage::{Findings, StorageReport};
use serde_json::{Value, json};

use crate::atomic::{Place, changes};
use crate::commits::{self, WAL_BYTES_MAX};
use crate::error::Result;
use crate::group::Group;
use crate::input::CsvInput;
use crate::options::BenchOptions;
use crate::report::Safety;
use crate::rung::Work;
use crate::{generate, machine, queue, sql};

type Settings = BTreeMap<&'static str, Value>;

/// The settings of these groups, with the folder of each place and what was found of the
/// storage. Measures how fast the places sync, where commits are measured.
pub(crate) fn of<'p>(
    options: &BenchOptions,
    groups: &[Group],
    csv: Option<&CsvInput>,
    folder_of: &dyn Fn(Place) -> &'p Path,
    storage: Option<&StorageReport>,
) -> Result<BTreeMap<String, Value>> {
    let mut settings = BTreeMap::from([
        ("order", json!("interleaved: each round runs every rung of a group once")),
        ("quick", json!(options.is_quick())),
        ("size", json!(options.size.of("quick", "usual", "large"))),
        (
            "warm_up",
            json!(
                "before each group of rungs the program is read, the processor works for 30 ms, and nine syncs are made"
            ),
        ),
        ("leafpress", json!(env!("CARGO_PKG_VERSION"))),
        ("rival_sqlite", json!(rusqlite::version())),
    ]);
    if let Some(name) = &options.simulate {
        settings.insert("simulated_disk", json!(name));
        settings.insert(
            "simulated_disk_is",
            json!(
                "what the rungs write to, SQLite's and ours alike; what is said of the storage, of its syncs and of the machine is measured on the real disk"
            ),
        );
    }
    let (of_jobs, others): (Vec<&Group>, Vec<&Group>) =
        groups.iter().partition(|group| matches!(group.work, Work::Queue | Work::QueueClaims));
    let (_described, others): (Vec<&Group>, Vec<&Group>) =
        others.into_iter().partition(|group| group.work == Work::Described);
    let (of_one_row, others): (Vec<&Group>, Vec<&Group>) =
        others.into_iter().partition(|group| matches!(group.work, Work::Atomic | Work::Accounting));
    let (of_commits, of_loads): (Vec<&Group>, Vec<&Group>) =
        others.into_iter().partition(|group| group.work == Work::Commits);
    if let Some(group) = of_loads.first() {
        settings.insert("repeats", json!(group.rounds(options)));
        add_loads(&mut settings, options, &of_loads, csv);
    }
    if let Some(group) = of_commits.first() {
        let name = if of_loads.is_empty() { "repeats" } else { "repeats_of_commits" };
        settings.insert(name, json!(group.rounds(options)));
        add_commits(&mut settings, options, folder_of(Place::Disk))?;
    }
    if let Some(group) = of_one_row.first() {
        let name = if of_loads.is_empty() && of_commits.is_empty() {
            "repeats"
        } else {
            "repeats_of_one_row"
        };
        settings.insert(name, json!(group.rounds(options)));
        add_one_row(&mut settings, options, &of_one_row, folder_of)?;
    }
    if let Some(group) = of_jobs.first() {
        let is_alone = of_loads.is_empty() && of_commits.is_empty() && of_one_row.is_empty();
        let name = if is_alone { "repeats" } else { "repeats_of_jobs" };
        settings.insert(name, json!(group.rounds(options)));
        add_jobs(&mut settings, options, storage);
    }
    Ok(settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn add_loads(
    settings: &mut Settings,
    options: &BenchOptions,
    groups: &[&Group],
    csv: Option<&CsvInput>,
) {
    let between_runs = if options.is_quick() {
        "nothing"
    } else {
        "everything is synced, then half a second of rest"
    };
    settings.extend([
        ("between_runs", json!(between_runs)),
        ("rival_pragmas", json!(sql::PRAGMAS)),
        ("rival_index_pragmas", json!(sql::INDEX_PRAGMAS)),
        ("rival_pragmas_in_existing_databases", json!(sql::DURABLE_PRAGMAS)),
        (
            "rival_ids",
            json!("rows made in memory: SQLite gives the same ids itself, as that is the fastest"),
        ),
        (
            "rival_sort",
            json!(
                "whole keys with the row's number, on all cores, within the time taken; the rows are made anew as they are inserted, which is faster than to fetch them from memory in the order of the keys"
            ),
        ),
        (
            "rival_durability",
            json!("new databases: none, no journal, no sync; existing ones: WAL, FULL, as ours"),
        ),
        (
            "leafpress_durability",
            json!("full: file and folder are synced within the time taken, to our disadvantage"),
        ),
        (
            "checked",
            json!(
                "each run: rows and sums, no file left; first run of a rung: integrity_check, and every value and type, and every index in its order"
            ),
        ),
        ("indexed_column", json!(generate::INDEXED_COLUMN)),
    ]);
    if let Some(memory_bytes) = groups.iter().find_map(|group| group.memory_bytes) {
        settings.insert("spill_memory_bytes", json!(memory_bytes));
    }
    if let Some(csv) = csv {
        let columns: Vec<&str> = generate::CSV_COLUMNS.iter().map(|(name, _)| *name).collect();
        settings.insert("csv_bytes", json!(csv.file.bytes));
        settings.insert("csv_rows", json!(csv.file.rows));
        settings.insert("csv_columns", json!(columns));
    }
}

fn add_commits(settings: &mut Settings, options: &BenchOptions, folder: &Path) -> Result<()> {
    let between_runs = if options.is_quick() {
        "nothing"
    } else {
        "everything is synced, then a tenth of a second of rest"
    };
    let profiles = [Safety::Durable, Safety::Relaxed, Safety::Rollback, Safety::Rebuildable];
    let pragmas: BTreeMap<&str, &str> =
        profiles.iter().map(|safety| (safety.name(), commits::pragmas(*safety))).collect();
    settings.extend([
        ("between_runs_of_commits", json!(between_runs)),
        ("commits", json!(options.commits)),
        ("commit_table", json!(commits::TABLE)),
        ("commit_pragmas", json!(pragmas)),
        ("sync_us_median", json!(commits::sync_us_median(folder)?)),
        ("wal_bytes_max", json!(WAL_BYTES_MAX)),
        (
            "commit_rows",
            json!(
                "a rung of \"writer\" ends when its time is up or its rows are done, so slow rivals have fewer rows: rows a second are compared; in \"checkpoint\" scenes beside the first have a part of the commits, slow syncs a tenth"
            ),
        ),
        (
            "commit_time",
            json!(
                "from the first call to the last acknowledgement; opening and closing, and so the last checkpoint, are outside of it for everybody"
            ),
        ),
        (
            "commit_latency",
            json!(
                "of each call, exact; with several in flight until its caller sees the answer, after those before it"
            ),
        ),
        (
            "commits_checked",
            json!(
                "each run: every acknowledged row is there with its text, each caller's in the order made, and no other; journal mode; integrity_check"
            ),
        ),
    ]);
    Ok(())
}

fn add_one_row<'p>(
    settings: &mut Settings,
    options: &BenchOptions,
    groups: &[&Group],
    folder_of: &dyn Fn(Place) -> &'p Path,
) -> Result<()> {
    let mut places: BTreeMap<&str, Value> = BTreeMap::new();
    for place in [Place::Disk, Place::XfsLoop] {
        if groups.iter().any(|group| group.place() == place) {
            let folder = folder_of(place);
            let file_system = machine::describe(folder).filesystem;
            let sync_us_median = commits::sync_us_median(folder)?;
            let of_it = json!({"filesystem": file_system, "sync_us_median": sync_us_median});
            places.insert(place.name(), of_it);
        }
    }
    settings.extend([
        ("places", json!(places)),
        ("transactions", json!(options.atomic.transactions)),
        ("every_setting", json!(options.atomic.full)),
        ("assume_atomic", json!(options.atomic.assume)),
        ("one_row_table", json!(commits::TABLE)),
        ("rows_updated", json!(changes::ROWS_UPDATED)),
        (
            "one_row_time",
            json!(
                "from the first transaction to the last answer, after 10 that are not measured; a rung ends when its time is up or its transactions are done"
            ),
        ),
        (
            "one_row_calls",
            json!(
                "calls of SQLite to its files, on average of the transactions: ours within the time taken, as ours always count; SQLite's in as many more transactions right afterwards, as its own VFS does not count"
            ),
        ),
        (
            "one_row_memory",
            json!("SQLite's own book-keeping, after the last transaction of those that were timed"),
        ),
        (
            "one_row_checked",
            json!(
                "each run: every change is there, in its row, and no other; journal mode; integrity_check"
            ),
        ),
    ]);
    Ok(())
}

fn add_jobs(settings: &mut Settings, options: &BenchOptions, storage: Option<&StorageReport>) {
    if let Some(StorageReport { found: Findings { measured, .. }, .. }) = storage {
        settings.extend([
            ("storage_sync_after_append_us", json!(measured.sync_after_append)),
            ("storage_sync_after_overwrite_us", json!(measured.sync_after_overwrite)),
        ]);
    }
    settings.extend([
        ("between_runs_of_jobs", json!("everything is synced, then a tenth of a second of rest")),
        ("waiting_max", json!(options.waiting)),
        ("rival_queue_table", json!(queue::sql::TABLE)),
        (
            "rival_queue_ways",
            json!(
                "one transaction for each operation, BEGIN IMMEDIATE to COMMIT: a connection for each client with a busy timeout, or one connection behind a mutex; the ratio is to the better one of each round"
            ),
        ),
        (
            "job_time",
            json!(
                "from the first call to the last answer of all clients; opening, filling and closing are outside of it for everybody"
            ),
        ),
        (
            "claim_time",
            json!(
                "of the claims alone; after each, its jobs are acknowledged and as many pushed, not timed"
            ),
        ),
        (
            "wakeup_time",
            json!(
                "latency_us from the answer of the push in one process to the answer of the claim in the other, from_call_us from its call; cpu_s is that of the waiter"
            ),
        ),
        (
            "jobs_checked",
            json!(
                "each run: every job that was pushed was claimed once; what is left is ready, leased or delayed as it should be, none is missing and none besides; journal mode; integrity_check, except of more than 200,000 jobs"
            ),
        ),
    ]);
}
