//! The ends of a claim: ack, nack, fail, release, extend, or the end of its lease.
//!
//! 1. A call without a good token changes nothing.
//! 2. A job that comes back takes a slot of its group in the order of ids, as all do: nearly always
//!    its old one, so the group's order holds.
//! 3. An attempt that did not end in an ack leaves a row behind, which goes with its job.
//!
//! Must never: decide that a token is good by the time of another transaction.

use rusqlite::{Row, params};

use super::group;
use super::job::{JobState, LeaseLost, Nack, Payload, Retry, Token};
use super::key::{self, Key, Scope};
use super::session::{QueueRow, Work};
use super::stats::{self, Event};
use crate::error::{Error, ErrorKind, Result};
use crate::times::{UnixTime, in_milliseconds as to_ms};

const FIND: &str = "SELECT id, queue, state, claims, due_at_ms, releases, attempts_max,
         changed_at_ms, ordering_group, unique_key, unique_scope, worker, expires_at_ms
     FROM leafpress_job WHERE id = ?1";
const OUTCOME: &str = "SELECT outcome FROM leafpress_attempt WHERE job = ?1 AND claim = ?2";
/// Highest number that a job ever had. Used only for jobs that are not there.
const LAST_JOB: &str = "SELECT seq FROM sqlite_sequence WHERE name = 'leafpress_job'";
const DELETE: &str = "DELETE FROM leafpress_job WHERE id = ?1";
const DELETE_ATTEMPTS: &str = "DELETE FROM leafpress_attempt WHERE job = ?1";
const KEEP_DONE: &str = concat!(
    "UPDATE leafpress_job SET state = ",
    state!(Done),
    ", due_at_ms = ?2, changed_at_ms = ?3, result = ?4 WHERE id = ?1"
);
const BURY: &str = concat!(
    "UPDATE leafpress_job SET state = ",
    state!(Dead),
    ", due_at_ms = ?2, changed_at_ms = ?3, error = ?4 WHERE id = ?1"
);
const KEEP_ANEW: &str = concat!(
    "UPDATE leafpress_job SET due_at_ms = changed_at_ms + (
         SELECT min(iif(state = ",
    state!(Done),
    ", keep_done_ms, keep_dead_ms), 1 << 60) FROM leafpress_queue WHERE id = ?1)
     WHERE queue = +?1 AND ",
    state!(ended)
);
const GIVE_BACK: &str = "UPDATE leafpress_job SET state = ?2, due_at_ms = ?3, changed_at_ms = ?4,
         releases = releases + ?5, error = coalesce(?6, error) WHERE id = ?1";
const EXTEND: &str = "UPDATE leafpress_job SET due_at_ms = ?2, lease_ms = ?3 WHERE id = ?1";
const NOTE_ATTEMPT: &str = "INSERT OR REPLACE INTO leafpress_attempt(job, claim, worker,
         claimed_at_ms, ended_at_ms, outcome, error) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Columns of a job that settling needs.
#[derive(Debug)]
pub(super) struct JobRow {
    pub(super) id: i64,
    pub(super) queue: i64,
    state: i64,
    claims: u32,
    due_at_ms: Option<i64>,
    releases: u32,
    attempts_max: Option<u32>,
    /// Time of its claim, if it is leased.
    pub(super) changed_at_ms: i64,
    pub(super) group: Option<String>,
    pub(super) key: Option<Key>,
    worker: Option<String>,
    expires_at_ms: Option<i64>,
}

impl JobRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let text: Option<String> = row.get(9)?;
        let scope: Option<i64> = row.get(10)?;
        let scope = scope.map_or(Scope::Time, Scope::from_number);
        Ok(Self {
            id: row.get(0)?,
            queue: row.get(1)?,
            state: row.get(2)?,
            claims: row.get(3)?,
            due_at_ms: row.get(4)?,
            releases: row.get(5)?,
            attempts_max: row.get(6)?,
            changed_at_ms: row.get(7)?,
            group: row.get(8)?,
            key: text.map(|text| Key { text, scope }),
            worker: row.get(11)?,
            expires_at_ms: row.get(12)?,
        })
    }

    pub(super) fn state(&self) -> Option<JobState> {
        JobState::from_number(self.state)
    }

    /// Number of its attempts: claims without releases.
    pub(super) fn attempts(&self) -> u32 {
        self.claims.saturating_sub(self.releases)
    }

    pub(super) fn attempts_are_used_up(&self, queue: &QueueRow) -> bool {
        self.attempts() >= self.attempts_max.unwrap_or(queue.settings.attempts_max)
    }

    pub(super) fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }

    /// Returns true if it is leased, and the lease has ended.
    pub(super) fn lease_is_over(&self, now_ms: i64) -> bool {
        let has_ended = self.due_at_ms.is_some_and(|end_ms| end_ms <= now_ms);
        self.state() == Some(JobState::Leased) && has_ended
    }
}

/// The job, in any state.
pub(super) fn find(work: &Work<'_>, id: i64) -> Result<Option<JobRow>> {
    work.first(FIND, [id], JobRow::from_row)
}

/// The job of a good token, or the error that says why the token is not good. The outer result is
/// that of the query.
pub(super) fn check(work: &Work<'_>, token: Token) -> Result<Result<JobRow>> {
    let found = find(work, token.job)?;
    if !was_given(work, token, found.as_ref())? {
        return Ok(Err(no_such_claim(token)));
    }
    let checked = check_given(work, token, found)?;
    Ok(checked.map_err(|why| lease_lost(token, why)))
}

/// Returns true if a claim was ever answered with this token, as far as the tables tell. They do
/// not keep the number of claims of a job that is gone.
fn was_given(work: &Work<'_>, token: Token, job: Option<&JobRow>) -> Result<bool> {
    if token.claim == 0 {
        return Ok(false);
    }
    if let Some(job) = job {
        return Ok(token.claim <= job.claims);
    }
    let last: Option<i64> = work.first(LAST_JOB, [], |row| row.get(0))?;
    Ok((1..=last.unwrap_or(0)).contains(&token.job))
}

pub(super) fn no_such_claim(token: Token) -> Error {
    Error::from(ErrorKind::NoSuchClaim { token })
        .on_disk("nothing of this call")
        .to_do("use the token as a claim gave it; a database that was restored does not know the claims that came after its copy")
}

pub(super) fn lease_lost(token: Token, why: LeaseLost) -> Error {
    Error::from(ErrorKind::LeaseLost { token, why })
        .on_disk("nothing of this call")
        .to_do("take it that another consumer may do the job too; a longer lease, or `extend` while it runs, avoids that")
}

/// The job of a token that was given out, if the token is still good.
fn check_given(
    work: &Work<'_>,
    token: Token,
    found: Option<JobRow>,
) -> Result<Result<JobRow, LeaseLost>> {
    let Some(job) = found else { return Ok(Err(LeaseLost::Settled)) };
    if job.claims == token.claim && job.state() == Some(JobState::Leased) {
        let is_good = job.due_at_ms.is_some_and(|end_ms| end_ms > work.now_ms);
        return Ok(if is_good { Ok(job) } else { Err(LeaseLost::Expired) });
    }
    let outcome: Option<String> =
        work.first(OUTCOME, params![token.job, token.claim], |row| row.get(0))?;
    let has_ended = job.state().is_some_and(JobState::has_ended);
    Ok(Err(match outcome.as_deref() {
        Some("retried" | "released") => LeaseLost::GivenBack,
        Some("expired") if job.claims > token.claim => LeaseLost::ClaimedAgain,
        Some("expired") if !has_ended => LeaseLost::Expired,
        _ => LeaseLost::Settled,
    }))
}

/// Marks the job as done.
pub(super) fn ack(
    work: &Work<'_>,
    queue: &QueueRow,
    job: &JobRow,
    result: Option<&Payload>,
) -> Result<()> {
    if queue.settings.keep_done.is_zero() {
        delete(work, job)?;
    } else {
        let until_ms = work.now_ms.saturating_add(to_ms(queue.settings.keep_done));
        work.execute(KEEP_DONE, params![job.id, until_ms, work.now_ms, result])?;
    }
    let ran_ms = work.now_ms.saturating_sub(job.changed_at_ms);
    let acked = Event::Acked { ran_ms, attempts: job.attempts() };
    stats::note(work, queue.id, acked)?;
    ended(work, queue, job)
}

/// Deletes the job and its attempts from the tables; the caller frees keys and slots.
pub(super) fn delete(work: &Work<'_>, job: &JobRow) -> Result<()> {
    work.execute(DELETE, [job.id])?;
    // Only claimed jobs have attempts, and the first attempt leaves none if it is acked.
    if job.claims > 0 && (job.claims > 1 || job.state() != Some(JobState::Leased)) {
        work.execute(DELETE_ATTEMPTS, [job.id])?;
    }
    Ok(())
}

/// Ends a failed attempt. The job is tried again if it has attempts left.
pub(super) fn nack(
    work: &Work<'_>,
    queue: &QueueRow,
    job: &JobRow,
    nack: &Nack,
    chance: f64,
) -> Result<Retry> {
    let error = nack.error.as_deref();
    if job.attempts_are_used_up(queue) {
        note_attempt(work, job, "failed", error)?;
        bury(work, queue, job, error.unwrap_or("given back after the last attempt"))?;
        return Ok(Retry::Dead);
    }
    note_attempt(work, job, "retried", error)?;
    note_unless_expired(work, queue, job, Event::Retried)?;
    let delay_ms = match nack.delay {
        Some(delay) => to_ms(delay),
        None => queue.settings.backoff.delay_ms(job.attempts(), chance),
    };
    give_back(work, queue, job, work.now_ms.saturating_add(delay_ms), 0, error)
}

/// Makes a job that can never succeed a dead letter.
pub(super) fn fail(work: &Work<'_>, queue: &QueueRow, job: &JobRow, reason: &str) -> Result<()> {
    note_attempt(work, job, "failed", Some(reason))?;
    bury(work, queue, job, reason)
}

/// Gives the job to another consumer; that was no attempt.
pub(super) fn release(work: &Work<'_>, queue: &QueueRow, job: &JobRow) -> Result<()> {
    note_attempt(work, job, "released", None)?;
    note_unless_expired(work, queue, job, Event::Released)?;
    give_back(work, queue, job, work.now_ms, 1, None).map(drop)
}

/// Moves the end of the lease; returns it, in milliseconds since the Unix epoch.
pub(super) fn extend(work: &Work<'_>, job: &JobRow, lease_ms: i64) -> Result<i64> {
    let until_ms = work.now_ms.saturating_add(lease_ms);
    work.execute(EXTEND, params![job.id, until_ms, lease_ms])?;
    Ok(until_ms)
}

/// Ends a lease whose holder did not answer in time.
pub(super) fn lease_expired(work: &Work<'_>, queue: &QueueRow, job: &JobRow) -> Result<()> {
    note_attempt(work, job, "expired", None)?;
    stats::note(work, queue.id, Event::LeaseExpired)?;
    if job.attempts_are_used_up(queue) {
        return bury(work, queue, job, "the lease of the last attempt ended without an answer");
    }
    give_back(work, queue, job, work.now_ms, 0, None).map(drop)
}

/// Makes a dead letter of a job that was not claimed in time.
pub(super) fn expired(work: &Work<'_>, queue: &QueueRow, job: &JobRow) -> Result<()> {
    stats::note(work, queue.id, Event::Expired)?;
    bury(work, queue, job, "expired")
}

/// Makes a dead letter of a job in any state.
pub(super) fn bury(work: &Work<'_>, queue: &QueueRow, job: &JobRow, error: &str) -> Result<()> {
    let kept = queue.settings.keep_dead;
    let until_ms = kept.map(|kept| work.now_ms.saturating_add(to_ms(kept)));
    work.execute(BURY, params![job.id, until_ms, work.now_ms, error])?;
    stats::note(work, queue.id, Event::Dead)?;
    ended(work, queue, job)
}

/// Frees the key and the slot of a job that has ended.
pub(super) fn ended(work: &Work<'_>, queue: &QueueRow, job: &JobRow) -> Result<()> {
    if let Some(key) = &job.key {
        key::ended(work, queue.id, job.id, key)?;
    }
    if let Some(group) = &job.group {
        group::fill_slots(work, queue, group)?;
    }
    if queue.settings.concurrency.is_some() {
        work.wake(queue, 1);
    }
    Ok(())
}

/// Notes that a job is given back, but of one that [`give_back`] buries.
fn note_unless_expired(
    work: &Work<'_>,
    queue: &QueueRow,
    job: &JobRow,
    event: Event,
) -> Result<()> {
    if job.has_expired(work.now_ms) { Ok(()) } else { stats::note(work, queue.id, event) }
}

/// Makes the job wait again, unless it has expired meanwhile.
fn give_back(
    work: &Work<'_>,
    queue: &QueueRow,
    job: &JobRow,
    due_at_ms: i64,
    releases: u32,
    error: Option<&str>,
) -> Result<Retry> {
    let lost_slot_of = match job.group.as_deref() {
        Some(group) if !group::keeps_slot(work, queue, group, job.id)? => Some(group),
        _ => None,
    };
    let by_time = group::by_time(work, due_at_ms);
    let state = lost_slot_of.map_or(by_time, |_| JobState::Blocked).number();
    work.execute(GIVE_BACK, params![job.id, state, due_at_ms, work.now_ms, releases, error])?;
    if job.has_expired(work.now_ms) {
        expired(work, queue, job)?;
        return Ok(Retry::Dead);
    }
    if let Some(key) = &job.key {
        key::waits_again(work, queue.id, job.id, key)?;
    }
    if let Some(group) = lost_slot_of {
        group::fill_slots(work, queue, group)?;
    }
    // A job that is blocked frees a place of the queue's concurrency all the same.
    if lost_slot_of.is_none() || queue.settings.concurrency.is_some() {
        work.wake(queue, 1);
    }
    Ok(Retry::At { due_at: UnixTime::from_ms(due_at_ms) })
}

/// Keeps jobs that are done or dead as long as the settings say now.
pub(super) fn keep_anew(work: &Work<'_>, queue: i64) -> Result<()> {
    work.execute(KEEP_ANEW, [queue]).map(drop)
}

fn note_attempt(work: &Work<'_>, job: &JobRow, outcome: &str, error: Option<&str>) -> Result<()> {
    work.execute(
        NOTE_ATTEMPT,
        params![job.id, job.claims, job.worker, job.changed_at_ms, work.now_ms, outcome, error],
    )
    .map(drop)
}

/// The statements of this file that run often.
pub(super) const STATEMENTS: [(&str, &str); 9] = [
    ("find a job", FIND),
    ("an attempt's outcome", OUTCOME),
    ("delete a job", DELETE),
    ("delete attempts", DELETE_ATTEMPTS),
    ("keep a job that is done", KEEP_DONE),
    ("make a dead letter", BURY),
    ("give a job back", GIVE_BACK),
    ("extend a lease", EXTEND),
    ("note an attempt", NOTE_ATTEMPT),
];
