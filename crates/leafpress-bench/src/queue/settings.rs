//! Settings of the report that explain how jobs are measured.

use leafpress::storage::Findings;
use serde_json::json;

use super::sql::TABLE;
use crate::options::BenchOptions;
use crate::report::{Settings, text};
use crate::storage::StorageReport;

/// Settings of the experiments "queue" and "queue-inserts", with what was found of the storage.
pub(crate) fn settings(options: &BenchOptions, storage: Option<&StorageReport>) -> Settings {
    let mut settings = Settings::new();
    if let Some(StorageReport { found: Findings { measured, .. }, .. }) = storage {
        settings.extend([
            ("storage_sync_after_append_us", json!(measured.sync_after_append)),
            ("storage_sync_after_overwrite_us", json!(measured.sync_after_overwrite)),
        ]);
    }
    settings.extend([
        ("between_runs_of_jobs", json!("everything is synced, then a tenth of a second of rest")),
        ("waiting_max", json!(options.waiting)),
        ("rival_queue_table", json!(TABLE)),
        text(
            "rival_queue_ways",
            "one transaction for each operation, BEGIN IMMEDIATE to COMMIT: a connection for each client with a busy timeout, or one connection behind a mutex; the ratio is to the better one of each round",
        ),
        text(
            "job_time",
            "from the first call to the last answer of all clients; opening, filling and closing are outside of it for all of them",
        ),
        text(
            "claim_time",
            "of the claims alone; after each, its jobs are acknowledged and as many pushed, not timed",
        ),
        text(
            "wakeup_time",
            "latency_us from the answer of the push in one process to the answer of the claim in the other, from_call_us from its call; cpu_s is that of the waiter",
        ),
        text(
            "jobs_checked",
            "each run: every job that was pushed was claimed once; what is left is ready, leased or delayed as it should be, none is missing and none besides; journal mode; integrity_check, except of more than 200,000 jobs",
        ),
    ]);
    settings
}
