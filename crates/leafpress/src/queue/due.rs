//! Due changes of a queue: leases end, delays are over, jobs expire, kept jobs are removed.
//!
//! A claim makes them before it looks for jobs: at most once a millisecond, and only a limited number
//! at a time, so that it is soon done. No other call depends on them but a push with a unique key,
//! which ends the holder of the key if that is due.
//!
//! 1. A due change is made by the first claim after its time, or (if there are more than
//!    fit) by the claims that follow at once.
//! 2. No lease ends more than a second later than its length from now, as it was when it was
//!    claimed or last extended, even if the clock is set back.
//!
//! Must never: look at rows that are not due.

use rusqlite::params;

use super::clock::BACK_MS;
use super::job::JobState;
use super::session::{QueueRow, Work};
use super::{key, latest, rate, schedule, settle};
use crate::error::Result;

const EXPIRED_LEASES: &str =
    concat!("SELECT id ", jobs_in!(Leased), " AND due_at_ms <= ?2 ORDER BY due_at_ms LIMIT +?3");
const DUE_JOBS: &str =
    concat!("SELECT id ", jobs_in!(Delayed), " AND due_at_ms <= ?2 ORDER BY due_at_ms LIMIT +?3");
const MAKE_READY: &str = concat!(
    "UPDATE leafpress_job SET state = ",
    state!(Ready),
    ", changed_at_ms = ?2 WHERE id = ?1"
);
const EXPIRED: &str = concat!(
    "SELECT id FROM leafpress_job INDEXED BY leafpress_job_expiry
     WHERE queue = +?1 AND expires_at_ms <= ?2 AND ",
    state!(waiting),
    " ORDER BY expires_at_ms LIMIT +?3"
);
const KEPT_LONG_ENOUGH: &str = concat!(
    "SELECT id FROM leafpress_job INDEXED BY leafpress_job_purge
     WHERE queue = +?1 AND due_at_ms <= ?2 AND ",
    state!(ended),
    " ORDER BY due_at_ms LIMIT +?3"
);
const LEASES_FROM_NOW: &str = concat!(
    "UPDATE leafpress_job
     SET due_at_ms = ?1 + lease_ms, changed_at_ms = min(changed_at_ms, ?1)
     WHERE due_at_ms > ?1 + ?2 + lease_ms AND state = ",
    state!(Leased)
);
/// Delays that no caller gave: of retries, and of jobs that their group's rate holds off.
const DELAYS_FROM_NOW: &str = concat!(
    "UPDATE leafpress_job
     SET due_at_ms = ?1 + (due_at_ms - changed_at_ms), changed_at_ms = ?1
     WHERE (claims > 0 OR ",
    held_off!(),
    ") AND changed_at_ms > ?1 + ?2 AND state = ",
    state!(Delayed)
);

/// Limit of the jobs of each kind that one call deals with.
pub(super) const JOBS_MAX: u32 = 256;

/// Makes the due changes. Returns true if some may be left over that can make a job ready; then the
/// next look goes on with them, even in the same millisecond.
pub(super) fn make_changes(work: &Work<'_>, queue: &QueueRow) -> Result<bool> {
    if let Some(session) = work.session {
        if !session.begin_due_changes(queue.id, work.now_ms) {
            return Ok(false);
        }
        if session.begin_measuring_anew() {
            measure_from_now(work)?;
        }
    }
    let is_full = |ids: &[i64]| ids.len() >= JOBS_MAX as usize;
    let ended = due(work, EXPIRED_LEASES, queue)?;
    let mut has_more = is_full(&ended);
    for id in ended {
        if let Some(job) = settle::find(work, id)? {
            settle::lease_expired(work, queue, &job)?;
        }
    }
    let delayed = due(work, DUE_JOBS, queue)?;
    has_more |= is_full(&delayed);
    for id in delayed {
        work.execute(MAKE_READY, params![id, work.now_ms])?;
        work.wake(queue, 1);
    }
    let too_late = due(work, EXPIRED, queue)?;
    has_more |= is_full(&too_late);
    for id in too_late {
        expired(work, queue, id)?;
    }
    has_more |= schedule::fire_due(work, queue)?;
    remove_old(work, queue, JOBS_MAX)?;
    if let Some(session) = work.session.filter(|_| has_more) {
        session.repeat_due_changes(queue.id);
    }
    Ok(has_more)
}

fn due(work: &Work<'_>, sql: &'static str, queue: &QueueRow) -> Result<Vec<i64>> {
    work.all(sql, params![queue.id, work.now_ms, JOBS_MAX], |row| row.get(0))
}

/// Removes jobs that were kept long enough, keys and buckets whose time is over, at most `rows_max`
/// of each.
pub(super) fn remove_old(work: &Work<'_>, queue: &QueueRow, rows_max: u32) -> Result<()> {
    let kept = params![queue.id, work.now_ms, rows_max];
    for id in work.all(KEPT_LONG_ENOUGH, kept, |row| row.get(0))? {
        if let Some(job) = settle::find(work, id)? {
            settle::delete(work, &job)?;
        }
    }
    key::purge(work, queue.id, rows_max)?;
    if queue.settings.rate.is_some() || queue.settings.group_rate.is_some() {
        rate::purge(work, queue.id, rows_max)?;
    }
    Ok(())
}

/// Buries a job that was not claimed in time.
pub(super) fn expired(work: &Work<'_>, queue: &QueueRow, id: i64) -> Result<()> {
    match settle::find(work, id)? {
        Some(job) if job.state().is_some_and(JobState::is_waiting) => {
            settle::expired(work, queue, &job)
        }
        _ => Ok(()),
    }
}

/// Buries a job now that the next claim would bury first of all: it has expired, or its last lease
/// has ended. Returns true if the job has ended.
pub(super) fn end_if_over(work: &Work<'_>, queue: &QueueRow, id: i64) -> Result<bool> {
    let Some(job) = settle::find(work, id)? else { return Ok(false) };
    let has_expired = job.has_expired(work.now_ms);
    let would_end = has_expired || job.attempts_are_used_up(queue);
    if would_end && job.lease_is_over(work.now_ms) {
        settle::lease_expired(work, queue, &job)?;
    }
    if has_expired {
        expired(work, queue, id)?;
    }
    let job = settle::find(work, id)?;
    Ok(job.and_then(|job| job.state()).is_some_and(JobState::has_ended))
}

/// Measures times anew if the clock was set back since any process stored one: as a queue is opened.
pub(super) fn measure_if_set_back(work: &Work<'_>) -> Result<()> {
    if latest::is_ahead(work)? { measure_from_now(work) } else { Ok(()) }
}

/// Corrects times after the clock was set back: leases, the delays of retries and those of a group's
/// rate that began more than a second from now begin anew. Due times that a caller asked for stay.
pub(super) fn measure_from_now(work: &Work<'_>) -> Result<()> {
    for sql in [LEASES_FROM_NOW, DELAYS_FROM_NOW] {
        work.execute(sql, [work.now_ms, BACK_MS])?;
    }
    rate::measure_from_now(work)?;
    latest::set(work)
}

/// The statements of this file that run often. The two others read all leases and delays, and run
/// when a clock was set back.
pub(super) const STATEMENTS: [(&str, &str); 5] = [
    ("leases that ended", EXPIRED_LEASES),
    ("delays that are over", DUE_JOBS),
    ("make a job ready", MAKE_READY),
    ("jobs that expired", EXPIRED),
    ("jobs that were kept long enough", KEPT_LONG_ENOUGH),
];
