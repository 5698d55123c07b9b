//! The table `leafpress_schedule`: the columns of a schedule, written and read.
//!
//! Stands between the schedules and SQLite. People may edit the table, so what
//! is read is checked as if a stranger had written it.
//!
//! Must never: fail over what a row says; only over what SQLite says.

use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use std::time::Duration;

use super::recurrence::Recurrence;
use super::{Missed, Schedule, ScheduleInfo};
use crate::error::Result;
use crate::queue::job::{Job, Payload, UniqueFor, When};
use crate::queue::key::Scope;
use crate::queue::session::Work;
use crate::times::in_milliseconds as to_ms;

const KEPT: &str = "SELECT next_at_ms FROM leafpress_schedule
     WHERE queue = ?1 AND name = ?2 AND cron = ?3 AND timezone = ?4
         AND disabled_because IS NULL AND typeof(next_at_ms) = 'integer'";
const IS_THERE: &str = "SELECT 1 FROM leafpress_schedule
     WHERE queue = ?1 AND name = ?2 AND cron = ?3 AND timezone = ?4";
const KEEP: &str = "INSERT INTO leafpress_schedule(queue, name, cron, timezone, missed, next_at_ms,
         priority, expires_after_ms, attempts_max, ordering_group, unique_key, unique_scope,
         unique_for_ms, correlation_id, metadata, payload)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
     ON CONFLICT(queue, name) DO UPDATE SET cron = excluded.cron, timezone = excluded.timezone,
         missed = excluded.missed, next_at_ms = excluded.next_at_ms, disabled_because = NULL,
         priority = excluded.priority, expires_after_ms = excluded.expires_after_ms,
         attempts_max = excluded.attempts_max, ordering_group = excluded.ordering_group,
         unique_key = excluded.unique_key, unique_scope = excluded.unique_scope,
         unique_for_ms = excluded.unique_for_ms, correlation_id = excluded.correlation_id,
         metadata = excluded.metadata, payload = excluded.payload";
const FORGET: &str = "DELETE FROM leafpress_schedule WHERE queue = ?1 AND name = ?2";
const LIST: &str = "SELECT * FROM leafpress_schedule WHERE queue = ?1 ORDER BY name";
const DUE_SCHEDULES: &str = "SELECT * FROM leafpress_schedule INDEXED BY leafpress_schedule_next
     WHERE queue = +?1 AND next_at_ms <= ?2 ORDER BY next_at_ms LIMIT +?3";
// Whatever is no number of milliseconds is greater than all that are.
const FIRST_DUE: &str = "SELECT CAST(next_at_ms AS INTEGER) FROM leafpress_schedule
     INDEXED BY leafpress_schedule_next
     WHERE queue = +?1 AND next_at_ms < 9223372036854775807 ORDER BY next_at_ms LIMIT 1";
const MOVE_ON: &str = "UPDATE leafpress_schedule SET next_at_ms = ?2,
         last_at_ms = coalesce(?3, last_at_ms), disabled_because = NULL WHERE id = ?1";
const DISABLE: &str = "UPDATE leafpress_schedule SET next_at_ms = NULL, disabled_because = ?2
     WHERE id = ?1";
const OCCURRENCE_METADATA: &str = "SELECT CASE
         WHEN NOT json_valid(coalesce(?1, '{}')) THEN NULL
         WHEN json_type(coalesce(?1, '{}')) = 'object'
         THEN json_set(coalesce(?1, '{}'), '$.leafpress_schedule',
             json_object('name', ?2, 'at', ?3, 'at_ms', ?4)) END";

/// A schedule that has come due, as far as its row makes sense.
#[derive(Debug)]
pub(super) struct DueRow {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) next_at_ms: i64,
    /// The content of the row, or the reason why it makes no sense.
    pub(super) plan: Result<Plan, String>,
}

/// The content of a row.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) recurrence: Recurrence,
    pub(super) missed: Missed,
    pub(super) template: Job,
}

impl Plan {
    fn read(row: &Row<'_>) -> Result<Self, String> {
        let cron: String = column(row, "cron")?;
        let timezone: String = column(row, "timezone")?;
        let missed: String = column(row, "missed")?;
        let template = read_template(row)?;
        let words = |error: crate::Error| error.kind().to_string();
        template.when.check_expiry(template.expires, 0).map_err(words)?;
        Ok(Self {
            recurrence: Recurrence::parse(&cron, &timezone).map_err(|bad| bad.reason)?,
            missed: missed.parse().map_err(words)?,
            template,
        })
    }
}

fn read_template(row: &Row<'_>) -> Result<Job, String> {
    let payload = row.get_ref("payload").map_err(|source| source.to_string())?;
    let mut job = Job::new(Payload::from_column(payload));
    job.priority = column(row, "priority")?;
    job.expires = millis(row, "expires_after_ms")?.map(When::After);
    job.attempts_max = column(row, "attempts_max")?;
    job.group = column(row, "ordering_group")?;
    job.correlation_id = column(row, "correlation_id")?;
    job.metadata = column(row, "metadata")?;
    if let Some(key) = column::<Option<String>>(row, "unique_key")? {
        let scope = column::<Option<i64>>(row, "unique_scope")?.unwrap_or(-1);
        let scope = match Scope::from_number(scope) {
            Scope::Waiting => UniqueFor::Waiting,
            Scope::WaitingOrRunning => UniqueFor::WaitingOrRunning,
            Scope::Time => UniqueFor::Time(millis(row, "unique_for_ms")?.unwrap_or(Duration::ZERO)),
        };
        job.unique = Some((key, scope));
    }
    Ok(job)
}

/// Reads a column. Refuses one whose type is not the one that it should have, and names it.
fn column<T: rusqlite::types::FromSql>(row: &Row<'_>, name: &str) -> Result<T, String> {
    row.get(name).map_err(|_| {
        let found = row.get_ref(name).map_or_else(|_| "nothing".into(), shown);
        format!("the column {name} has {found}, which cannot be meant")
    })
}

fn millis(row: &Row<'_>, name: &str) -> Result<Option<Duration>, String> {
    let time_ms: Option<i64> = column(row, name)?;
    Ok(time_ms.map(|time_ms| Duration::from_millis(u64::try_from(time_ms).unwrap_or(0))))
}

/// A value for people, whatever it is.
fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("a BLOB of {} bytes", bytes.len()),
    }
}

/// The next occurrence of the schedule of this name, if it is for the same moments.
pub(super) fn kept_next_ms(
    work: &Work<'_>,
    queue: i64,
    schedule: &Schedule,
) -> Result<Option<i64>> {
    work.first(KEPT, params![queue, schedule.name, schedule.cron, schedule.timezone], |row| {
        row.get(0)
    })
}

/// Returns true if the schedule of this name is for the same moments, to come or not.
pub(super) fn is_there(work: &Work<'_>, queue: i64, schedule: &Schedule) -> Result<bool> {
    let same = params![queue, schedule.name, schedule.cron, schedule.timezone];
    Ok(work.first(IS_THERE, same, |_| Ok(()))?.is_some())
}

/// Inserts the schedule, or replaces that of its name.
pub(super) fn keep(
    work: &Work<'_>,
    queue: i64,
    schedule: &Schedule,
    next_at_ms: Option<i64>,
) -> Result<()> {
    let Schedule { name, cron, timezone, missed, job } = schedule;
    let expires_after_ms = match job.expires {
        Some(When::After(time)) => Some(to_ms(time)),
        _ => None,
    };
    let scope = job.unique.as_ref().map(|(_, scope)| *scope);
    let unique_for_ms = match scope {
        Some(UniqueFor::Time(time)) => Some(to_ms(time)),
        _ => None,
    };
    work.execute(
        KEEP,
        params![
            queue,
            name,
            cron,
            timezone,
            missed.to_string(),
            next_at_ms,
            job.priority,
            expires_after_ms,
            job.attempts_max,
            job.group,
            job.unique.as_ref().map(|(key, _)| key),
            scope.map(|scope| Scope::from(scope).number()),
            unique_for_ms,
            job.correlation_id,
            job.metadata,
            job.payload,
        ],
    )
    .map(drop)
}

/// Deletes the schedule of this name; whether there was one.
pub(super) fn forget(work: &Work<'_>, queue: i64, name: &str) -> Result<bool> {
    Ok(work.execute(FORGET, params![queue, name])? > 0)
}

/// All schedules of a queue, by name.
pub(super) fn list(work: &Work<'_>, queue: i64) -> Result<Vec<ScheduleInfo>> {
    work.all(LIST, [queue], |row| {
        let disabled: Option<String> = row
            .get_ref("disabled_because")
            .map(|value| if value == ValueRef::Null { None } else { Some(shown(value)) })?;
        Ok(ScheduleInfo {
            name: row.get_ref("name").map(shown)?,
            cron: row.get_ref("cron").map(shown)?,
            timezone: row.get_ref("timezone").map(shown)?,
            missed: row.get_ref("missed").map(shown)?.parse().unwrap_or_default(),
            next_at: row.get("next_at_ms").unwrap_or_default(),
            last_at: row.get("last_at_ms").unwrap_or_default(),
            disabled_because: disabled.or_else(|| Plan::read(row).err()),
        })
    })
}

/// Schedules that have come due, the first to come due first, this many at most.
pub(super) fn due(work: &Work<'_>, queue: i64, schedules_max: usize) -> Result<Vec<DueRow>> {
    work.all(DUE_SCHEDULES, params![queue, work.now_ms, schedules_max as i64], |row| {
        Ok(DueRow {
            id: row.get("id")?,
            name: row.get_ref("name").map(shown)?,
            // A value that is no whole number of milliseconds is due at once.
            next_at_ms: row.get("next_at_ms").unwrap_or(0),
            plan: Plan::read(row),
        })
    })
}

/// The earliest next occurrence of a queue.
pub(super) fn first_due_ms(work: &Work<'_>, queue: i64) -> Result<Option<i64>> {
    work.first(FIRST_DUE, [queue], |row| row.get(0))
}

/// Occurrences until `next_at_ms` are dealt with.
pub(super) fn move_on(
    work: &Work<'_>,
    id: i64,
    next_at_ms: Option<i64>,
    last_at_ms: Option<i64>,
) -> Result<()> {
    work.execute(MOVE_ON, params![id, next_at_ms, last_at_ms]).map(drop)
}

/// Lets no further occurrence come due until the row is corrected.
pub(super) fn disable(work: &Work<'_>, id: i64, reason: &str) -> Result<()> {
    work.execute(DISABLE, params![id, reason]).map(drop)
}

/// The template's metadata with the occurrence; none if they are no object.
/// By SQLite, which leaves the rest of the text as it is.
pub(super) fn occurrence_metadata(
    work: &Work<'_>,
    metadata: Option<&str>,
    name: &str,
    at: &str,
    at_ms: i64,
) -> Result<Option<String>> {
    let parameters = params![metadata, name, at, at_ms];
    work.run(OCCURRENCE_METADATA, |compiled| compiled.query_row(parameters, |row| row.get(0)))
}

/// The statements of this file that read or write tables.
pub(in crate::queue) const STATEMENTS: [(&str, &str); 9] = [
    ("is the schedule kept already", KEPT),
    ("is the schedule there", IS_THERE),
    ("keep a schedule", KEEP),
    ("forget a schedule", FORGET),
    ("list schedules", LIST),
    ("schedules that have come due", DUE_SCHEDULES),
    ("the first schedule to come due", FIRST_DUE),
    ("move a schedule on", MOVE_ON),
    ("disable a schedule", DISABLE),
];
