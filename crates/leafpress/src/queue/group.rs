//! Ordering groups: the jobs of a group that may be claimed.
//!
//! A group has slots, one if not said otherwise. Jobs that are ready, leased or
//! delayed (to be tried again, or not due) have one; those behind them are
//! blocked. So a claim needs no look at groups at all.
//!
//! 1. At most `group_concurrency` jobs of a group have a slot, as far as that
//!    was so when they got it.
//! 2. While a slot is free, no job of the group is blocked.
//! 3. Slots are given in the order of ids.
//!
//! Must never: read more jobs than there are slots.

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
const FIRST_BLOCKED: &str = concat!(
    "SELECT id, due_at_ms ",
    jobs_in!(Blocked),
    " AND ordering_group = +?2 ORDER BY id LIMIT 1"
);
const UNBLOCK: &str = concat!(
    "UPDATE leafpress_job SET state = ?2, changed_at_ms = ?3 WHERE id = ?1 AND state = ",
    state!(Blocked)
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
    let slots = queue.settings.group_concurrency;
    let counted = params![queue.id, group, slots];
    let open: u32 =
        work.run(COUNT_OPEN, |compiled| compiled.query_row(counted, |row| row.get(0)))?;
    Ok(open < slots)
}

/// Gives free slots of the group to the next jobs, as a job may have left its slot.
pub(super) fn fill_slots(work: &Work<'_>, queue: &QueueRow, group: &str) -> Result<()> {
    while has_free_slot(work, queue, group)? {
        let first = work
            .first(FIRST_BLOCKED, params![queue.id, group], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((job, due_at_ms)): Option<(i64, i64)> = first else { break };
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

/// The statements of this file.
pub(super) const STATEMENTS: [(&str, &str); 4] = [
    ("count a group's slots", COUNT_OPEN),
    ("a group's next job", FIRST_BLOCKED),
    ("give a slot", UNBLOCK),
    ("groups that wait", BLOCKED_GROUPS),
];
