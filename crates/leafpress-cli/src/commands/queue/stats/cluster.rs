//! `leafpress queue stats` of a cluster: what its queues hold.

use leafpress::Result;
use leafpress::queue::QueueStats;
use leafpress_rqlite::{RqliteQueueStats, RqliteQueues};
use serde_json::json;

use super::Seen;

/// Looks at the queue of this name, or at all queues.
pub fn look(queues: &RqliteQueues, queue: Option<&str>) -> Result<Seen> {
    let names = match queue {
        Some(name) => vec![name.to_owned()],
        None => queues.names()?,
    };
    let found = names.iter().map(|name| queues.existing(name)?.stats());
    let found = found.collect::<Result<Vec<_>>>()?;
    Ok(Seen { all: found.iter().map(as_of_a_file).collect(), json: json!({ "queues": found }) })
}

fn as_of_a_file(there: &RqliteQueueStats) -> QueueStats {
    let mut stats = QueueStats::default();
    stats.queue.clone_from(&there.queue);
    stats.now = there.now;
    stats.is_paused = there.is_paused;
    stats.jobs = there.jobs;
    stats.oldest_lease = there.oldest_lease;
    stats.next_due = there.next_due;
    stats
}
