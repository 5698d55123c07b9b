//! Rate limits: a bucket of claims for each queue, and for each of its groups.
//!
//! A bucket holds `jobs` claims and fills up again in `per`. What is stored is
//! one time: when it will be full again (the generic cell rate algorithm). A
//! claim moves that time on by `per / jobs`, and is allowed if it is then no more
//! than `per` away.
//!
//! Must never: wait for a time that a clock left in the future before it was set back. So a bucket
//! that is full later than one period from now is treated as empty.

use rusqlite::params;

use super::clock::BACK_MS;
use super::session::{QueueRow, Work};
use super::settings::{Rate, Settings};
use crate::error::Result;

const READ: &str = "SELECT full_at_us FROM leafpress_rate WHERE queue = ?1 AND ordering_group = ?2";
const WRITE: &str = "INSERT OR REPLACE INTO leafpress_rate(queue, ordering_group, full_at_us)
     VALUES (?1, ?2, ?3)";
const PURGE: &str = "DELETE FROM leafpress_rate WHERE (queue, ordering_group) IN (
     SELECT queue, ordering_group FROM leafpress_rate INDEXED BY leafpress_rate_full
     WHERE queue = +?1 AND full_at_us <= ?2 LIMIT +?3)";

/// Period of a bucket, in milliseconds. The longest is one that a time in microseconds can hold.
macro_rules! period_ms {
    () => {
        "coalesce((SELECT min(iif(ordering_group = '', rate_per_ms, group_rate_per_ms), 1 << 50)
             FROM leafpress_queue WHERE id = leafpress_rate.queue), 0)"
    };
}
/// Makes those buckets empty that would be full later than one period and [`BACK_MS`] from now.
const FROM_NOW: &str = concat!(
    "UPDATE leafpress_rate SET full_at_us = 1000 * (?1 + ",
    period_ms!(),
    ") WHERE full_at_us > 1000 * (?1 + ?2 + ",
    period_ms!(),
    ")"
);

/// The queue's own bucket has no name, and those of its groups have one.
const BOUND_OWN: &str = "UPDATE leafpress_rate SET full_at_us = ?2
     WHERE queue = ?1 AND ordering_group = '' AND full_at_us > ?2";
const BOUND_GROUPS: &str = "UPDATE leafpress_rate SET full_at_us = ?2
     WHERE queue = ?1 AND ordering_group > '' AND full_at_us > ?2";

/// Name of the queue's own bucket.
const WHOLE_QUEUE: &str = "";

/// Looks for a claim in the bucket of the queue or of a group. The error is the time (in
/// milliseconds) of the next claim; the result has to be stored once the claim is taken.
pub(super) fn look(
    work: &Work<'_>,
    queue: i64,
    group: Option<&str>,
    rate: Rate,
) -> Result<std::result::Result<Taken, i64>> {
    // The sign keeps a group without a name apart from the queue.
    let bucket = group.map_or_else(|| WHOLE_QUEUE.to_owned(), |group| format!("={group}"));
    let now_us = work.now_ms.saturating_mul(1_000);
    let (interval_us, whole_us) = (rate.interval_us(), rate.whole_us());
    let stored_us: Option<i64> = work.first(READ, params![queue, bucket], |row| row.get(0))?;
    let full_at_us = stored_us.unwrap_or(now_us).clamp(now_us, now_us.saturating_add(whole_us));
    let next_us = full_at_us.saturating_add(interval_us);
    let allowed_at_us = next_us.saturating_sub(whole_us);
    if allowed_at_us > now_us {
        return Ok(Err(allowed_at_us.saturating_add(999) / 1_000));
    }
    Ok(Ok(Taken { queue, bucket, full_at_us: next_us }))
}

/// A claim that a bucket allows.
#[derive(Debug)]
pub(super) struct Taken {
    queue: i64,
    bucket: String,
    full_at_us: i64,
}

impl Taken {
    /// Takes the claim from the bucket.
    pub(super) fn take(&self, work: &Work<'_>) -> Result<()> {
        work.execute(WRITE, params![self.queue, self.bucket, self.full_at_us]).map(drop)
    }
}

/// Bounds the buckets of a queue by its rates, as these have changed from `before`. Each look bounds
/// them by its own time, and would do so until an old rate's time is over.
pub(super) fn changed(work: &Work<'_>, queue: &QueueRow, before: &Settings) -> Result<()> {
    let settings = &queue.settings;
    let rates = [
        (BOUND_OWN, settings.rate, before.rate),
        (BOUND_GROUPS, settings.group_rate, before.group_rate),
    ];
    for (sql, rate, before) in rates {
        if let Some(rate) = rate.filter(|_| rate != before) {
            let now_us = work.now_ms.saturating_mul(1_000);
            work.execute(sql, params![queue.id, now_us.saturating_add(rate.whole_us())])?;
        }
    }
    Ok(())
}

/// Removes full buckets, at most `buckets_max`.
pub(super) fn purge(work: &Work<'_>, queue: i64, buckets_max: u32) -> Result<()> {
    work.execute(PURGE, params![queue, work.now_ms.saturating_mul(1_000), buckets_max]).map(drop)
}

/// Corrects all buckets after the clock was set back: each look bounds their times by its own time,
/// and would do so until the clock is where it was.
pub(super) fn measure_from_now(work: &Work<'_>) -> Result<()> {
    work.execute(FROM_NOW, [work.now_ms, BACK_MS]).map(drop)
}

/// The statements of this file that run often.
pub(super) const STATEMENTS: [(&str, &str); 5] = [
    ("read a bucket", READ),
    ("write a bucket", WRITE),
    ("purge buckets", PURGE),
    ("bound a queue's bucket", BOUND_OWN),
    ("bound the buckets of groups", BOUND_GROUPS),
];
