//! `leafpress queue stats` of a cluster: what its queues hold, once.

use leafpress::queue::QueueStats;
use leafpress::{Error, Result};
use leafpress_rqlite::RqliteQueueStats;
use serde_json::json;

use crate::commands::queue::place::connect;
use crate::exit::Status;
use crate::flags::QueueStatsFlags;
use crate::{output, summary};

/// Shows what the queues hold.
pub fn run(url: &str, flags: &QueueStatsFlags) -> Status {
    match stats(url, flags) {
        Ok(all) if flags.common.json => {
            output::print_json(&json!({ "queues": all }));
            Status::Done
        }
        Ok(all) => {
            let texts: Vec<String> = all.iter().map(text).collect();
            output::print_report(&texts.join("\n"));
            Status::Done
        }
        Err(error) => output::print_failure(error, flags.common.json),
    }
}

fn stats(url: &str, flags: &QueueStatsFlags) -> Result<Vec<RqliteQueueStats>> {
    if flags.watch.is_some() {
        return Err(Error::unsupported("--watch is for a queue in a file"));
    }
    let queues = connect(url, &flags.common)?;
    let names = match &flags.queue {
        Some(name) => vec![name.clone()],
        None => queues.names()?,
    };
    names.iter().map(|name| queues.existing(name)?.stats()).collect()
}

fn text(there: &RqliteQueueStats) -> String {
    let mut stats = QueueStats::default();
    stats.queue.clone_from(&there.queue);
    stats.is_paused = there.is_paused;
    stats.jobs = there.jobs;
    stats.oldest_lease = there.oldest_lease;
    stats.next_due = there.next_due;
    summary::of_queue_contents(&stats)
}
