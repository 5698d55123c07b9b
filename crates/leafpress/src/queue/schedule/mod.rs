//! Recurring jobs: cron expressions in a table, and jobs pushed when they come due.
//!
//! ```text
//! claim ─► due ─► fire ─► missed ─► recurrence
//!                   └─► push, one job per occurrence; next_at_ms moves on; one transaction
//! ```
//!
//! 1. Each occurrence is pushed in the transaction that moves `next_at_ms` past
//!    it: exactly once, whatever number of processes claims.
//! 2. `next_at_ms` only moves on: a clock that is set back repeats nothing. One
//!    that is set forwards makes occurrences missed ones.
//! 3. A row that people edited into nonsense is disabled, with the reason in `disabled_because` and
//!    in the log, and shown by [`Queue::schedules`]; no claim fails over it.
//!
//! Must never: make a claim wait for more than a bounded number of jobs.

mod calls;
mod fire;
mod missed;
mod recurrence;
mod table;

use serde::Serialize;

pub(super) use self::fire::{fire_due, next_due_ms};
pub use self::missed::Missed;
pub(super) use self::table::STATEMENTS;

use self::recurrence::{BadSchedule, Recurrence};
use super::job::{Job, Payload, When};
use crate::error::{Error, Result};
use crate::times::UnixTime;

/// Jobs that recur: their times, and the job that is pushed each time.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let writer = leafpress::writer::Writer::builder(folder.path().join("app.db")).open()?;
/// use leafpress::queue::{Job, Missed, Queue, Schedule};
///
/// let queue = Queue::open(&writer, "reports")?;
/// let nightly = Schedule::cron("nightly", "30 2 * * MON-FRI")?
///     .timezone("Europe/Berlin")?
///     .missed(Missed::Once)
///     .job(Job::json(&["yesterday"])?.priority(5));
/// queue.schedule(&nightly)?;
/// assert_eq!(queue.schedules()?[0].name, "nightly");
/// assert!(queue.unschedule("nightly")?);
/// # Ok::<(), leafpress::Error>(())
/// ```
///
/// No process of its own is needed: a claim from the queue pushes the jobs that have come due, and
/// a claim that waits sleeps until the next occurrence at most. So nothing is pushed while no
/// consumer claims, and [`Missed`] is the rule for those occurrences. A paused queue's schedules go
/// on: their jobs wait.
///
/// A job tells where it comes from: its metadata has
/// `"leafpress_schedule": {"name": "nightly", "at": "2026-11-23T01:30:00Z", "at_ms": 1795397400000}`
/// besides those of the template, and its correlation id is
/// `nightly@2026-11-23T01:30:00Z` if the template has none.
#[derive(Debug, Clone)]
#[must_use = "it is kept by `Queue::schedule`"]
pub struct Schedule {
    name: String,
    cron: String,
    timezone: String,
    missed: Missed,
    job: Job,
}

impl Schedule {
    /// A schedule of that name, in UTC, with jobs that have no payload.
    ///
    /// The expression has five fields as in crontab (minute, hour, day of the
    /// month, month, day of the week), or six with seconds in front, or seven
    /// with the year at the end; numbers, lists, ranges, steps (`*/15`, `9-17/2`),
    /// names (`MON-FRI`, `JAN`), `L` (the last day), `15W` (the weekday nearest the 15th), `FRI#2`
    /// (the second Friday), `FRI#L` (the last); or it is `@hourly`, `@daily`,
    /// `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`. If both day
    /// fields are given, either is enough, as in crontab; `+MON` wants both.
    ///
    /// # Errors
    /// If the name is empty, or the expression is none or never happens; the
    /// message names the field at fault. Nothing is on disk.
    pub fn cron(name: impl Into<String>, expression: impl Into<String>) -> Result<Self> {
        let (name, cron) = (name.into(), expression.into().trim().to_owned());
        if name.is_empty() {
            return Err(Error::misuse("a schedule needs a name"));
        }
        recurrence::parse_cron(&cron).map_err(|bad| refused(&name, bad))?;
        let (timezone, missed) = ("UTC".to_owned(), Missed::default());
        Ok(Self { name, cron, timezone, missed, job: Job::new(Payload::bytes([])) })
    }

    /// In the time zone of that name in the IANA database, as `Europe/Berlin`.
    ///
    /// When clocks are set forwards, a schedule with one time of day that falls
    /// in the gap (02:30) comes at the first moment after it (03:00), and of
    /// several times of day those in the gap are left out. When clocks are set
    /// back, one time of day comes once, the first time round, and several come
    /// both times round.
    ///
    /// # Errors
    /// If there is no such time zone. Nothing is on disk.
    pub fn timezone(mut self, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        recurrence::parse_zone(&name).map_err(|bad| refused(&self.name, bad))?;
        self.timezone = name;
        Ok(self)
    }

    /// Sets the rule for occurrences that passed while no consumer claimed.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// The job that is pushed: payload, priority, group, attempts, correlation id, metadata (an
    /// object), an expiry that is measured from the occurrence: if no consumer claims until then, the
    /// job is a dead letter. With a unique key an occurrence is left
    /// out while another job holds the key.
    pub fn job(mut self, job: impl Into<Job>) -> Self {
        self.job = job.into();
        self
    }

    /// The first occurrence after a moment; none if there is no further one.
    pub fn next_after(&self, after: UnixTime) -> Option<UnixTime> {
        let recurrence = Recurrence::parse(&self.cron, &self.timezone).ok()?;
        recurrence.next_after_ms(after.as_ms()).map(UnixTime::from_ms)
    }

    /// Refuses a template of which not every occurrence can be made.
    fn check_template(&self) -> Result<()> {
        let problem = if self.job.when != When::Now {
            "its job has a delay or a due time, and each occurrence has its own"
        } else if matches!(self.job.expires, Some(When::At(_))) {
            "its job expires at one moment, and occurrences go on: use `expires_in`"
        } else if self.job.when.check_expiry(self.job.expires, 0).is_err() {
            "its job expires at once, and would never be claimed"
        } else if !self.job.metadata.as_deref().is_none_or(is_object) {
            "its job's metadata are JSON, but no object, so the occurrence has no place in them"
        } else {
            return Ok(());
        };
        Err(Error::misuse(format!("the schedule \"{}\" cannot be kept: {problem}", self.name))
            .on_disk("nothing was changed"))
    }
}

/// Returns true if a text, which is JSON, is an object.
fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

fn refused(name: &str, bad: BadSchedule) -> Error {
    Error::misuse(format!("the schedule \"{name}\": {}", bad.reason))
        .on_disk("nothing was changed")
        .to_do(bad.to_do)
}

/// A schedule as it stands in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name, one of its queue.
    pub name: String,
    /// The expression.
    pub cron: String,
    /// The time zone.
    pub timezone: String,
    /// Rule for occurrences that passed while no consumer claimed.
    pub missed: Missed,
    /// The next occurrence. None if there is no further one, or the schedule is disabled.
    #[serde(rename = "next_at_ms")]
    pub next_at: Option<UnixTime>,
    /// The last occurrence that got a job.
    #[serde(rename = "last_at_ms")]
    pub last_at: Option<UnixTime>,
    /// Reason for which it is disabled, or will be when it comes due: its row was edited.
    pub disabled_because: Option<String>,
}

/// The schedules of a queue, by name.
pub(super) fn list_of(work: &super::session::Work<'_>, queue: i64) -> Result<Vec<ScheduleInfo>> {
    table::list(work, queue)
}

#[cfg(test)]
mod tests;
