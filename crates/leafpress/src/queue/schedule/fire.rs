//! Pushes the jobs of schedules that have come due, inside of a claim's transaction.
//!
//! 1. What a look leaves over is the first thing that the next one does.
//! 2. A schedule moves on in the transaction in which its jobs are pushed.
//!
//! Must never: fail a claim over a row that makes no sense.

use jiff::Timestamp;

use super::missed;
use super::table::{self, DueRow, Plan};
use crate::error::Result;
use crate::queue::job::{Job, When};
use crate::queue::push;
use crate::queue::session::{QueueRow, Work};

/// Jobs that one look pushes, and schedules that it looks at: as much as a claim
/// can be made to wait for.
pub(super) const JOBS_PER_LOOK_MAX: usize = 100;

/// Pushes the jobs of the schedules that have come due, and moves these on. Returns true if some may
/// be left over.
pub(in crate::queue) fn fire_due(work: &Work<'_>, queue: &QueueRow) -> Result<bool> {
    let mut jobs_left = JOBS_PER_LOOK_MAX;
    let rows = table::due(work, queue.id, JOBS_PER_LOOK_MAX)?;
    let has_all_rows = rows.len() < JOBS_PER_LOOK_MAX;
    for row in rows {
        if jobs_left == 0 {
            break;
        }
        match &row.plan {
            Ok(plan) => jobs_left -= fire(work, queue, &row, plan, jobs_left)?,
            Err(reason) => disable(work, queue, &row, reason)?,
        }
    }
    Ok(jobs_left == 0 || !has_all_rows)
}

/// Time at which the next schedule of the queue comes due, for a waiter that sleeps until then.
pub(in crate::queue) fn next_due_ms(work: &Work<'_>, queue: &QueueRow) -> Result<Option<i64>> {
    table::first_due_ms(work, queue.id)
}

/// Deals with one schedule; how many of its occurrences were met.
fn fire(
    work: &Work<'_>,
    queue: &QueueRow,
    row: &DueRow,
    plan: &Plan,
    jobs_max: usize,
) -> Result<usize> {
    let Plan { recurrence, missed, template } = plan;
    let next_at_ms = row.next_at_ms.clamp(0, work.now_ms.max(0));
    let due = missed::decide(recurrence, *missed, next_at_ms, work.now_ms, jobs_max);
    let mut last_at_ms = None;
    for &at_ms in &due.fired_ms {
        let Some(job) = occurrence(work, template, &row.name, at_ms)? else {
            disable(work, queue, row, "the metadata are no JSON object")?;
            return Ok(0);
        };
        // Without a job if another one holds its unique key. One that has expired by now is a dead
        // letter soon, as one that was pushed in time would be.
        if push::insert_checked(work, queue, &job)?.is_new {
            last_at_ms = Some(at_ms);
        }
    }
    table::move_on(work, row.id, due.next_at_ms, last_at_ms)?;
    Ok(due.fired_ms.len())
}

/// The job of one occurrence; none if the template's metadata are no object.
fn occurrence(work: &Work<'_>, template: &Job, name: &str, at_ms: i64) -> Result<Option<Job>> {
    let at =
        Timestamp::from_millisecond(at_ms).map_or_else(|_| at_ms.to_string(), |at| at.to_string());
    let metadata = template.metadata.as_deref();
    let Some(metadata) = table::occurrence_metadata(work, metadata, name, &at, at_ms)? else {
        return Ok(None);
    };
    let mut job = template.clone();
    job.metadata = Some(metadata);
    job.correlation_id.get_or_insert_with(|| format!("{name}@{at}"));
    // However late the occurrence is met.
    job.expires = job.expires.map(|expires| When::At(expires.ms(at_ms)));
    Ok(Some(job))
}

fn disable(work: &Work<'_>, queue: &QueueRow, row: &DueRow, reason: &str) -> Result<()> {
    let (queue, schedule) = (&*queue.name, &*row.name);
    tracing::error!(queue, schedule, reason, "a schedule was disabled, as its row makes no sense");
    table::disable(work, row.id, reason)
}
