//! Claim: the next jobs go to a consumer, for a lease.
//!
//! A claim searches an index that has ready jobs only, so it takes as long with ten million jobs as
//! with ten; leased, delayed and blocked jobs are elsewhere.
//!
//! 1. Jobs are claimed by priority, then in the order of their ids.
//! 2. No limit (concurrency, rates) is exceeded, by this transaction's own look.
//! 3. The number of claims of a job only grows, so a token is never given twice.
//!
//! Must never: use RETURNING, which costs four times as much as reading first.

use rusqlite::{Row, params};

use super::job::{Claim, Payload, Token};
use super::key::{self, Key, Scope};
use super::session::{QueueRow, Work};
use super::stats::{self, Event};
use super::{ClaimOptions, due, rate, schedule};
use crate::error::Result;
use crate::times::{UnixTime, in_milliseconds as to_ms};

const NEXT: &str = concat!(
    "SELECT id, claims, releases, attempts_max, expires_at_ms, ordering_group,
         unique_key, unique_scope, correlation_id, metadata, priority, pushed_at_ms, payload,
         due_at_ms ",
    jobs_in!(Ready),
    " ORDER BY priority DESC, id LIMIT +?2"
);
const LEASE: &str = concat!(
    "UPDATE leafpress_job SET state = ",
    state!(Leased),
    ", due_at_ms = ?2, changed_at_ms = ?3,
         claims = claims + 1, worker = ?4, lease_ms = ?5 WHERE id = ?1"
);
const HOLD_OFF: &str = concat!(
    "UPDATE leafpress_job SET state = ",
    state!(Delayed),
    ", due_at_ms = ?2, changed_at_ms = ?3, ",
    held_off!(set),
    " WHERE id = ?1"
);
const LET_GO: &str = concat!(
    "UPDATE leafpress_job SET state = ",
    state!(Ready),
    ", due_at_ms = ?2, changed_at_ms = ?2 WHERE id IN (SELECT id ",
    jobs_in!(Delayed),
    " AND ",
    held_off!(),
    ")"
);
const LET_GO_BLOCKED: &str = concat!(
    "UPDATE leafpress_job SET due_at_ms = ?2, changed_at_ms = ?2 WHERE id IN (SELECT id ",
    jobs_in!(Blocked),
    " AND ",
    held_off!(),
    ")"
);
const COUNT_LEASED: &str =
    concat!("SELECT count(*) FROM (SELECT 1 ", jobs_in!(Leased), " LIMIT +?2)");
const FIRST_LEASE_END: &str =
    concat!("SELECT due_at_ms ", jobs_in!(Leased), " ORDER BY due_at_ms LIMIT 1");
const FIRST_DELAYED: &str =
    concat!("SELECT due_at_ms ", jobs_in!(Delayed), " ORDER BY due_at_ms LIMIT 1");
/// A job that waits and expires may free a slot of its group.
const FIRST_EXPIRY: &str = concat!(
    "SELECT expires_at_ms FROM leafpress_job INDEXED BY leafpress_job_expiry
     WHERE queue = +?1 AND expires_at_ms IS NOT NULL AND ",
    state!(waiting),
    " ORDER BY expires_at_ms LIMIT 1"
);

/// Limit of ready jobs that one claim may pass over (expired, or over their group's rate) before it
/// leaves the rest to the next look: without it, a million of them would hold up all other
/// transactions.
const TURNED_AWAY_MAX: usize = 1_000;

/// Result of a claim.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) claims: Vec<Claim>,
    /// Next time at which there may be a job, if there was none and the time is known.
    pub(super) next_due_ms: Option<i64>,
    /// True if the look has found no job, and ended early at a limit, so that other calls do not wait:
    /// only another look tells whether there is a job.
    pub(super) is_cut_short: bool,
}

/// A ready job.
struct Candidate {
    id: i64,
    claims: u32,
    releases: u32,
    attempts_max: Option<u32>,
    expires_at_ms: Option<i64>,
    group: Option<String>,
    key: Option<Key>,
    correlation_id: Option<String>,
    metadata: Option<String>,
    priority: i32,
    pushed_at_ms: i64,
    payload: Payload,
    due_at_ms: Option<i64>,
}

impl Candidate {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let text: Option<String> = row.get(6)?;
        let scope: Option<i64> = row.get(7)?;
        let scope = scope.map_or(Scope::Time, Scope::from_number);
        Ok(Self {
            id: row.get(0)?,
            claims: row.get(1)?,
            releases: row.get(2)?,
            attempts_max: row.get(3)?,
            expires_at_ms: row.get(4)?,
            group: row.get(5)?,
            key: text.map(|text| Key { text, scope }),
            correlation_id: row.get(8)?,
            metadata: row.get(9)?,
            priority: row.get(10)?,
            pushed_at_ms: row.get(11)?,
            payload: Payload::from_column(row.get_ref(12)?),
            due_at_ms: row.get(13)?,
        })
    }

    fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }
}

/// Decision about one ready job, which has not expired.
enum Decision {
    Claimed(Claim),
    /// The job was passed over.
    TurnedAway,
    /// The queue gives no more jobs before this time.
    NotBefore(i64),
}

/// Claims the next jobs.
pub(super) fn claim(work: &Work<'_>, queue: &QueueRow, options: &ClaimOptions) -> Result<Found> {
    let has_more_due = due::make_changes(work, queue)?;
    let mut found = Found::default();
    if queue.is_paused {
        // Only a claim pushes the jobs of schedules, so a waiter is to come back for them.
        found.next_due_ms = next_due_ms(work, queue)?;
        return Ok(found);
    }
    let room = room(work, queue, options.jobs_max)?;
    let mut turned_away = 0;
    'look: while found.claims.len() < room && turned_away < TURNED_AWAY_MAX {
        let candidates = next(work, queue, room - found.claims.len())?;
        if candidates.is_empty() {
            break;
        }
        let expired = candidates.iter().filter(|job| job.has_expired(work.now_ms));
        let expired: Vec<i64> =
            expired.map(|job| job.id).take(TURNED_AWAY_MAX - turned_away).collect();
        if !expired.is_empty() {
            // All at once, as each look reads payloads; those behind them in their groups are next.
            expired.iter().try_for_each(|&id| due::expired(work, queue, id))?;
            turned_away += expired.len();
            continue;
        }
        for candidate in candidates {
            match decide(work, queue, candidate, options)? {
                Decision::Claimed(claim) => found.claims.push(claim),
                Decision::TurnedAway => turned_away += 1,
                Decision::NotBefore(at_ms) => {
                    found.next_due_ms = Some(at_ms);
                    break 'look;
                }
            }
        }
    }
    let claimed = u32::try_from(found.claims.len()).unwrap_or(u32::MAX);
    if claimed > due::JOBS_MAX {
        // Else old rows would become more and more, as each claimed job may leave one.
        due::remove_old(work, queue, claimed)?;
    }
    if found.claims.is_empty() {
        // Where the queue's rate allows no job now, there is none, whatever a look would meet.
        let is_at_limit = has_more_due || turned_away >= TURNED_AWAY_MAX;
        found.is_cut_short = is_at_limit && found.next_due_ms.is_none();
        let known = if found.is_cut_short { Some(work.now_ms) } else { found.next_due_ms };
        found.next_due_ms = earliest(known, next_due_ms(work, queue)?);
    }
    Ok(found)
}

/// Number of jobs that the queue's concurrency allows to be claimed.
fn room(work: &Work<'_>, queue: &QueueRow, wanted: usize) -> Result<usize> {
    let Some(limit) = queue.settings.concurrency else { return Ok(wanted) };
    let counted = params![queue.id, limit];
    let leased: u32 =
        work.run(COUNT_LEASED, |compiled| compiled.query_row(counted, |row| row.get(0)))?;
    Ok(wanted.min(limit.saturating_sub(leased) as usize))
}

fn next(work: &Work<'_>, queue: &QueueRow, jobs_max: usize) -> Result<Vec<Candidate>> {
    let jobs_max = i64::try_from(jobs_max).unwrap_or(i64::MAX);
    work.all(NEXT, params![queue.id, jobs_max], Candidate::from_row)
}

fn decide(
    work: &Work<'_>,
    queue: &QueueRow,
    job: Candidate,
    options: &ClaimOptions,
) -> Result<Decision> {
    let mut taken = Vec::new();
    if let (Some(group), Some(limit)) = (job.group.as_deref(), queue.settings.group_rate) {
        match rate::look(work, queue.id, Some(group), limit)? {
            Ok(claim) => taken.push(claim),
            Err(at_ms) => {
                work.execute(HOLD_OFF, params![job.id, at_ms, work.now_ms])?;
                return Ok(Decision::TurnedAway);
            }
        }
    }
    if let Some(limit) = queue.settings.rate {
        match rate::look(work, queue.id, None, limit)? {
            Ok(claim) => taken.push(claim),
            Err(at_ms) => return Ok(Decision::NotBefore(at_ms)),
        }
    }
    taken.iter().try_for_each(|claim| claim.take(work))?;
    lease(work, queue, job, options).map(Decision::Claimed)
}

fn lease(
    work: &Work<'_>,
    queue: &QueueRow,
    job: Candidate,
    options: &ClaimOptions,
) -> Result<Claim> {
    let lease_ms = to_ms(options.lease.unwrap_or(queue.settings.lease));
    let lease_until_ms = work.now_ms.saturating_add(lease_ms);
    work.execute(LEASE, params![job.id, lease_until_ms, work.now_ms, options.worker, lease_ms])?;
    if let Some(key) = &job.key {
        key::claimed(work, queue.id, job.id, key)?;
    }
    let due_at_ms = job.due_at_ms.unwrap_or(work.now_ms);
    let waited_ms = work.now_ms.saturating_sub(due_at_ms);
    stats::note(work, queue.id, Event::Claimed { waited_ms })?;
    let claim = job.claims.saturating_add(1);
    Ok(Claim {
        token: Token { job: job.id, claim },
        id: job.id,
        queue: queue.name.to_string(),
        payload: job.payload,
        attempt: claim.saturating_sub(job.releases),
        attempts_max: job.attempts_max.unwrap_or(queue.settings.attempts_max),
        priority: job.priority,
        group: job.group,
        correlation_id: job.correlation_id,
        metadata: job.metadata,
        pushed_at: UnixTime::from_ms(job.pushed_at_ms),
        lease_until: UnixTime::from_ms(lease_until_ms),
    })
}

/// Lets the jobs go that their group's rate holds off, as it is another rate now. Those that have lost
/// their slot meanwhile wait for one, and for nothing else.
pub(super) fn let_go(work: &Work<'_>, queue: &QueueRow) -> Result<()> {
    for sql in [LET_GO, LET_GO_BLOCKED] {
        work.execute(sql, params![queue.id, work.now_ms])?;
    }
    Ok(())
}

/// Next time at which a lease ends, a delay is over, a job expires or a schedule comes due.
fn next_due_ms(work: &Work<'_>, queue: &QueueRow) -> Result<Option<i64>> {
    let first = |sql| work.first(sql, [queue.id], |row| row.get(0));
    let due_ms = earliest(first(FIRST_LEASE_END)?, first(FIRST_DELAYED)?);
    let due_ms = earliest(due_ms, first(FIRST_EXPIRY)?);
    Ok(earliest(due_ms, schedule::next_due_ms(work, queue)?))
}

fn earliest(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

/// The statements of this file.
pub(super) const STATEMENTS: [(&str, &str); 9] = [
    ("the next jobs", NEXT),
    ("lease a job", LEASE),
    ("hold a job off", HOLD_OFF),
    ("let jobs go that were held off", LET_GO),
    ("let blocked jobs go that were held off", LET_GO_BLOCKED),
    ("count leases", COUNT_LEASED),
    ("the first lease to end", FIRST_LEASE_END),
    ("the first delay to be over", FIRST_DELAYED),
    ("the first job to expire", FIRST_EXPIRY),
];
