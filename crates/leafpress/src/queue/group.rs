//! Ordering groups: the jobs of a group that may be claimed.
//!
//! A group has slots, one if not said otherwise. Jobs that are ready, leased or
//! delayed (to be tried again, or not due) have one; those behind them are
//! blocked. So a claim needs no look at groups at all.
//!
//! 1. At most `group_concurrency` jobs of a group have a slot, but for leased ones of the time
//!    before it was made smaller.
//! 2. While a slot is free, no job of the group is blocked.
//! 3. Slots are given in the order of ids.
//!
//! Must never: read more jobs than there are slots, but when the number of slots is changed.

use rusqlite::params;

use super::job::JobState;
use super::session::{QueueRow, Work};
use crate::error::Result;

const COUNT_OPEN: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 FROM leafpress_job INDEXED BY leafpress_job_open
     WHERE queue = +?1 AND ordering_group = +?2 AND ",
    state!(open),
    " LIMIT +?3)"
);
/// A job that was due when it became blocked still is, even if the clock was set back.
const FIRST_BLOCKED: &str = concat!(
    "SELECT id, CASE WHEN due_at_ms > changed_at_ms THEN due_at_ms ELSE ?3 END ",
    jobs_in!(Blocked),
    " AND ordering_group = +?2 ORDER BY id LIMIT 1"
);
const UNBLOCK: &str = concat!(
    "UPDATE leafpress_job SET state = ?2, changed_at_ms = ?3 WHERE id = ?1 AND state = ",
    state!(Blocked)
);
/// Blocks the last of those that wait, where a group has more open jobs than slots.
const NARROW: &str = concat!(
    "UPDATE leafpress_job SET state = ",
    state!(Blocked),
    ", due_at_ms = iif(state = ",
    state!(Ready),
    ", min(due_at_ms, ?2), due_at_ms), changed_at_ms = ?2
     WHERE id IN (SELECT id FROM (
         SELECT id, state, row_number() OVER (
             PARTITION BY ordering_group ORDER BY state = ",
    state!(Leased),
    " DESC, id) AS place
         FROM leafpress_job INDEXED BY leafpress_job_open
         WHERE queue = +?1 AND ordering_group IS NOT NULL AND ",
    state!(open),
    ") WHERE place > ?3 AND state != ",
    state!(Leased),
    ")"
);
const BLOCKED_GROUPS: &str = concat!("SELECT DISTINCT ordering_group ", jobs_in!(Blocked));

/// State of a job that is to wait until `due_at_ms`, if its group allows it.
pub(super) fn waiting_state(
    work: &Work<'_>,
    queue: &QueueRow,
    group: Option<&str>,
    due_at_ms: i64,
) -> Result<JobState> {
    if let Some(group) = group
        && !has_free_slot(work, queue, group)?
    {
        return Ok(JobState::Blocked);
    }
    Ok(by_time(work, due_at_ms))
}

/// State by the time: ready, or delayed.
pub(super) fn by_time(work: &Work<'_>, due_at_ms: i64) -> JobState {
    if due_at_ms > work.now_ms { JobState::Delayed } else { JobState::Ready }
}

fn has_free_slot(work: &Work<'_>, queue: &QueueRow, group: &str) -> Result<bool> {
    Ok(count_open(work, queue, group)? < queue.settings.group_concurrency)
}

/// Number of the group's jobs that have a slot, or one more than there are slots.
fn count_open(work: &Work<'_>, queue: &QueueRow, group: &str) -> Result<u32> {
    let counted = params![queue.id, group, queue.settings.group_concurrency.saturating_add(1)];
    work.run(COUNT_OPEN, |compiled| compiled.query_row(counted, |row| row.get(0)))
}

/// The group's next job, and when it may run.
fn first_blocked(work: &Work<'_>, queue: &QueueRow, group: &str) -> Result<Option<(i64, i64)>> {
    work.first(FIRST_BLOCKED, params![queue.id, group, work.now_ms], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// Returns true if a job that comes back has its slot again: no job before it waits for one, and
/// there are as many slots as jobs that have one.
pub(super) fn keeps_slot(work: &Work<'_>, queue: &QueueRow, group: &str, id: i64) -> Result<bool> {
    let is_first = first_blocked(work, queue, group)?.is_none_or(|(first, _)| id < first);
    Ok(is_first && count_open(work, queue, group)? <= queue.settings.group_concurrency)
}

/// Gives free slots of the group to the next jobs, as a job may have left its slot.
pub(super) fn fill_slots(work: &Work<'_>, queue: &QueueRow, group: &str) -> Result<()> {
    while has_free_slot(work, queue, group)? {
        let Some((job, due_at_ms)) = first_blocked(work, queue, group)? else { break };
        let state = by_time(work, due_at_ms);
        work.execute(UNBLOCK, params![job, state.number(), work.now_ms])?;
        work.wake(queue, 1);
    }
    Ok(())
}

/// Gives free slots of all groups to the next jobs, as there may be more slots now.
pub(super) fn fill_all(work: &Work<'_>, queue: &QueueRow) -> Result<()> {
    let groups: Vec<String> = work.all(BLOCKED_GROUPS, [queue.id], |row| row.get(0))?;
    groups.iter().try_for_each(|group| fill_slots(work, queue, group))
}

/// Takes slots from jobs that wait, as there are fewer slots now.
pub(super) fn narrow_all(work: &Work<'_>, queue: &QueueRow) -> Result<()> {
    let slots = queue.settings.group_concurrency;
    work.execute(NARROW, params![queue.id, work.now_ms, slots]).map(drop)
}

/// The statements of this file that run often.
pub(super) const STATEMENTS: [(&str, &str); 4] = [
    ("count a group's slots", COUNT_OPEN),
    ("a group's next job", FIRST_BLOCKED),
    ("give a slot", UNBLOCK),
    ("groups that wait", BLOCKED_GROUPS),
];
