//! Push: inserts a job, unless its key is held.
//!
//! Must never: leave a job without its key, or a key without its job; both are
//! in one transaction.

use rusqlite::params;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::job::{Job, JobState, Payload, Pushed, UniqueFor, check_each};
use super::key::{self, Key};
use super::session::{QueueRow, Work};
use super::stats::{self, Event};
use super::{due, group};
use crate::error::Result;
use crate::times::in_milliseconds as to_ms;

/// The row has the length of a leased one, so that a claim need not make it longer: SQLite then
/// overwrites only the changed bytes and leaves the payload alone.
const INSERT: &str = "INSERT INTO leafpress_job(queue, state, priority, due_at_ms, changed_at_ms,
         pushed_at_ms, claims, releases, attempts_max, expires_at_ms, ordering_group, unique_key,
         unique_scope, unique_until_ms, correlation_id, metadata, payload, lease_ms)
     VALUES (?1, ?2, ?3, ?4, ?5, ?5, 0, 0, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

impl rusqlite::ToSql for Payload {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Json(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

impl Payload {
    /// Value of a column, which people may have changed.
    pub(super) fn from_column(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Bytes(Vec::new()),
            ValueRef::Integer(number) => Self::Json(number.to_string()),
            ValueRef::Real(number) => Self::Json(number.to_string()),
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_owned()),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => Self::Json(text.to_owned()),
                Err(_) => Self::Bytes(text.to_owned()),
            },
        }
    }
}

/// Pushes a job, unless its unique key is held.
pub(super) fn insert(work: &Work<'_>, queue: &QueueRow, job: &Job) -> Result<Pushed> {
    job.check(work.now_ms)?;
    insert_checked(work, queue, job)
}

/// As [`insert`], of a job that [`Job::check`] has passed, or of an occurrence of a schedule.
pub(super) fn insert_checked(work: &Work<'_>, queue: &QueueRow, job: &Job) -> Result<Pushed> {
    let unique = job.unique.as_ref();
    if let Some((key, _)) = unique
        && let Some(id) = holder(work, queue, key)?
    {
        stats::note(work, queue.id, Event::Duplicate)?;
        return Ok(Pushed { id, is_new: false });
    }
    let due_at_ms = job.when.ms(work.now_ms);
    let state = group::waiting_state(work, queue, job.group.as_deref(), due_at_ms)?;
    let key = unique.map(|(text, scope)| Key { text: text.clone(), scope: (*scope).into() });
    let held_ms = unique.and_then(|(_, scope)| match scope {
        UniqueFor::Time(time) => Some(to_ms(*time)),
        UniqueFor::Waiting | UniqueFor::WaitingOrRunning => None,
    });
    work.execute(
        INSERT,
        params![
            queue.id,
            state.number(),
            job.priority,
            due_at_ms,
            work.now_ms,
            job.attempts_max,
            job.expires.map(|expires| expires.ms(work.now_ms)),
            job.group,
            key.as_ref().map(|key| &key.text),
            key.as_ref().map(|key| key.scope.number()),
            held_ms.map(|held_ms| work.now_ms.saturating_add(held_ms)),
            job.correlation_id,
            job.metadata,
            job.payload,
            to_ms(queue.settings.lease),
        ],
    )?;
    let id = work.connection.last_insert_rowid();
    if let Some(key) = &key {
        key::hold(work, queue.id, id, key, held_ms)?;
    }
    if state != JobState::Blocked {
        work.wake(queue, 1);
    }
    stats::note(work, queue.id, Event::Pushed)?;
    Ok(Pushed { id, is_new: true })
}

/// Pushes all jobs, or none of them.
pub(super) fn insert_all(work: &Work<'_>, queue: &QueueRow, jobs: &[Job]) -> Result<Vec<Pushed>> {
    check_each(jobs, |job| job.check(work.now_ms))?;
    jobs.iter().map(|job| insert_checked(work, queue, job)).collect()
}

/// The job that holds the key. One whose time is over gets its end here, and frees the key: the
/// next claim would bury it, and the work of this push would be lost with it.
pub(super) fn holder(work: &Work<'_>, queue: &QueueRow, key: &str) -> Result<Option<i64>> {
    let Some(holder) = key::holder(work, queue.id, key)? else { return Ok(None) };
    let is_free = !holder.is_for_a_time && due::end_if_over(work, queue, holder.job)?;
    Ok((!is_free).then_some(holder.job))
}

/// The statements of this file.
pub(super) const STATEMENTS: [(&str, &str); 1] = [("push", INSERT)];
