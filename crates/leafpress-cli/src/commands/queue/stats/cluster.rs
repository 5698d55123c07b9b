//! `leafpress queue stats` of a cluster: what its queues hold.

use leafpress::Result;
use leafpress::queue::QueueStats;
use leafpress_rqlite::{RqliteQueueStats, RqliteQueues};

/// Looks at the queue of this name, or at all queues.
pub fn look(queues: &RqliteQueues, queue: Option<&str>) -> Result<Vec<RqliteQueueStats>> {
    let names = match queue {
        Some(name) => vec![name.to_owned()],
        None => queues.names()?,
    };
    names.iter().map(|name| queues.existing(name)?.stats()).collect()
}

/// Numbers of a queue on a cluster, in the form of those of a file.
pub fn as_of_a_file(there: &RqliteQueueStats) -> QueueStats {
    let mut stats = QueueStats::default();
    stats.queue.clone_from(&there.queue);
    stats.now = there.now;
    stats.is_paused = there.is_paused;
    stats.jobs = there.jobs;
    stats.oldest_lease = there.oldest_lease;
    stats.next_due = there.next_due;
    stats
}
