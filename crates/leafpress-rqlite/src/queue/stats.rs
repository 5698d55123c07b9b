//! Statistics of a queue: what it holds.
//!
//! One read counts by the indexes of the states, at the leader. What has happened is not counted: that
//! would be a write of each call to one row of all.
//!
//! Must never: count jobs by their rows.

use std::time::Duration;

use leafpress::Result;
use leafpress::queue::elsewhere::dropped;
use leafpress::queue::{JobCounts, UnixTime};
use serde::Serialize;
use serde_json::{Value, json};

use super::{RqliteQueue, confused};
use crate::clock::CLOCK;

/// ?1 the queue.
const STATS: &str = "SELECT is_paused, concurrency, group_concurrency,
         (SELECT count(*) FROM leafpress_job INDEXED BY leafpress_job_ready
          WHERE queue = ?1 AND state = 0),
         (SELECT count(*) FROM leafpress_job INDEXED BY leafpress_job_leased
          WHERE queue = ?1 AND state = 1),
         (SELECT count(*) FROM leafpress_job INDEXED BY leafpress_job_delayed
          WHERE queue = ?1 AND state = 2),
         (SELECT count(*) FROM leafpress_job INDEXED BY leafpress_job_blocked
          WHERE queue = ?1 AND state = 3),
         (SELECT count(*) FROM leafpress_job INDEXED BY leafpress_job_ended
          WHERE queue = ?1 AND state = 4 AND state IN (4, 5)),
         (SELECT count(*) FROM leafpress_job INDEXED BY leafpress_job_ended
          WHERE queue = ?1 AND state = 5 AND state IN (4, 5)),
         (SELECT count(DISTINCT ordering_group) FROM leafpress_job INDEXED BY leafpress_job_blocked
          WHERE queue = ?1 AND state = 3),
         (SELECT min(changed_at_ms) FROM leafpress_job INDEXED BY leafpress_job_leased
          WHERE queue = ?1 AND state = 1),
         (SELECT min(due_at_ms) FROM leafpress_job INDEXED BY leafpress_job_leased
          WHERE queue = ?1 AND state = 1),
         (SELECT min(due_at_ms) FROM leafpress_job INDEXED BY leafpress_job_delayed
          WHERE queue = ?1 AND state = 2)
     FROM leafpress_queue WHERE id = ?1";

/// Content of a queue on a cluster. Counts of what has happened, as of a local queue, are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RqliteQueueStats {
    /// The queue.
    pub queue: String,
    /// True if the queue is paused.
    pub is_paused: bool,
    /// Time of these figures, by the leader's clock.
    #[serde(rename = "now_ms")]
    pub now: UnixTime,
    /// Jobs by their states.
    pub jobs: JobCounts,
    /// Ordering groups in which jobs are blocked.
    pub groups_blocked: u64,
    /// Age of the oldest claim that still holds its job.
    #[serde(
        rename = "oldest_lease_ms",
        serialize_with = "leafpress::times::optional_milliseconds"
    )]
    pub oldest_lease: Option<Duration>,
    /// Time at which the first of the leases ends.
    #[serde(rename = "next_lease_end_ms")]
    pub next_lease_end: Option<UnixTime>,
    /// Time at which the next delayed job comes due.
    #[serde(rename = "next_due_ms")]
    pub next_due: Option<UnixTime>,
    /// Jobs in flight at once.
    pub concurrency: Option<u32>,
    /// Jobs of one ordering group that may be in flight at once.
    pub group_concurrency: u32,
}

impl RqliteQueue {
    /// Its present content.
    ///
    /// # Errors
    /// If the cluster cannot be read.
    pub fn stats(&self) -> Result<RqliteQueueStats> {
        let rows = self.queues.read(vec![json!([STATS, self.id]), json!([CLOCK])])?;
        let row = rows.first().and_then(|rows| rows.first()).ok_or_else(dropped)?;
        let now = rows.get(1).and_then(|rows| rows.first()?.get(0)?.as_i64());
        let now_ms = now.ok_or_else(confused)?;
        Ok(self.collected(row, now_ms))
    }

    fn collected(&self, row: &Value, now_ms: i64) -> RqliteQueueStats {
        let number = |at: usize| row.get(at)?.as_i64();
        let count = |at: usize| number(at).unwrap_or_default() as u64;
        let mut jobs = JobCounts::default();
        let counts = [
            &mut jobs.ready,
            &mut jobs.leased,
            &mut jobs.delayed,
            &mut jobs.blocked,
            &mut jobs.done,
            &mut jobs.dead,
        ];
        for (at, to) in counts.into_iter().enumerate() {
            *to = count(3 + at);
        }
        let age =
            |since_ms: i64| Duration::from_millis(now_ms.saturating_sub(since_ms).max(0) as u64);
        RqliteQueueStats {
            queue: self.name().to_owned(),
            is_paused: number(0) == Some(1),
            now: UnixTime::from_ms(now_ms),
            jobs,
            groups_blocked: count(9),
            oldest_lease: number(10).map(age),
            next_lease_end: number(11).map(UnixTime::from_ms),
            next_due: number(12).map(UnixTime::from_ms),
            concurrency: number(1).and_then(|it| u32::try_from(it).ok()),
            group_concurrency: count(2) as u32,
        }
    }
}
