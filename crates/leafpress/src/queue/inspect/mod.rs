//! Views of a queue: its jobs, one job, the ends of its attempts.
//!
//! Reads go beside the writer, by its readers, and hold up no caller. A writer that has the
//! database alone has no readers; then they are calls of it.
//!
//! A list is in the order of pushes, and no index has all jobs of a state in that
//! order. So it is looked for in two ways, of which one is short:
//!
//! 1. It walks on through the table from where the last page ended. If it is to
//!    show many of the jobs, the page is full soon.
//! 2. After [`BOUNDS`]`.walk_max` jobs that are mostly not to be shown, these are few, or
//!    far away: it looks them up by the index of their state.
//!
//! Must never: read the payloads of jobs that are not to be shown.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use serde::Serialize;

use super::job::{JobState, Payload, Token};
use super::{Queue, schema};
use crate::error::{Error, Result};
use crate::profile::Locking;
use crate::times::UnixTime;
use crate::writer::Writer;

/// Limits up to which a list goes one way before it takes the other.
#[derive(Clone, Copy)]
struct Bounds {
    /// Jobs that it looks at before it asks the indexes: some milliseconds.
    walk_max: usize,
    /// Priorities for which ready jobs are looked up one priority after the other.
    /// If there are more priorities, all ready jobs are sorted.
    priorities_max: usize,
}

const BOUNDS: Bounds = Bounds { walk_max: 20_000, priorities_max: 100 };

/// Columns as [`JobInfo::from_row`] reads them; then come the result and the payload.
macro_rules! job_columns {
    () => {
        "job.id, queue.name, job.state, job.priority, job.due_at_ms, job.changed_at_ms,
         job.pushed_at_ms, job.claims, job.releases, coalesce(job.attempts_max, queue.attempts_max),
         job.expires_at_ms, job.ordering_group, job.unique_key, job.unique_scope,
         job.unique_until_ms, job.correlation_id, job.metadata, job.worker, job.error"
    };
}

macro_rules! job_query {
    ($values:literal) => {
        concat!(
            "SELECT ",
            job_columns!(),
            ", ",
            $values,
            " FROM leafpress_job AS job JOIN leafpress_queue AS queue ON queue.id = job.queue
             WHERE job.id = ?1 AND job.queue = ?2"
        )
    };
}

pub(super) const JOB_COLUMNS: &str = job_columns!();
const JOB: &str = job_query!("job.result, job.payload");
const JOB_WITHOUT_PAYLOAD: &str = job_query!("NULL, NULL");
pub(super) const ATTEMPTS: &str = "SELECT claim, worker, claimed_at_ms, ended_at_ms, outcome, error
     FROM leafpress_attempt WHERE job = ?1 ORDER BY claim";
const NAMES: &str = "SELECT name FROM leafpress_queue ORDER BY name";
const FIRST_PRIORITIES: &str = concat!(
    "WITH RECURSIVE step(priority) AS (
         SELECT (SELECT max(priority) ",
    jobs_in!(Ready),
    ") UNION ALL
         SELECT (SELECT max(priority) ",
    jobs_in!(Ready),
    " AND priority < step.priority)
         FROM step WHERE step.priority IS NOT NULL LIMIT ?2)
     SELECT priority FROM step WHERE priority IS NOT NULL"
);

/// A statement that finds ids in the order of pushes: this many (?3) onwards from one
/// (?2), or backwards.
struct Ordered {
    onwards: &'static str,
    backwards: &'static str,
}

/// Both directions of a search for jobs.
macro_rules! ordered {
    ($from:expr) => {
        ordered!("id", $from)
    };
    ($columns:literal, $from:expr) => {
        Ordered {
            onwards: concat!("SELECT ", $columns, " ", $from, " AND id > ?2 ORDER BY id LIMIT ?3"),
            backwards: concat!(
                "SELECT ",
                $columns,
                " ",
                $from,
                " AND id < ?2 ORDER BY id DESC LIMIT ?3"
            ),
        }
    };
}

const WALK: Ordered = ordered!("id, state, queue = ?1", "FROM leafpress_job WHERE ?1 IS NOT NULL");
const READY_OF_PRIORITY: Ordered = ordered!(concat!(jobs_in!(Ready), " AND priority = ?4"));
/// Jobs of each state, in the order of [`JobState::ALL`].
const OF_STATE: [Ordered; 6] = [
    ordered!(jobs_in!(Ready)),
    ordered!(jobs_in!(Leased)),
    ordered!(jobs_in!(Delayed)),
    ordered!(jobs_in!(Blocked)),
    ordered!(jobs_in!(Done)),
    ordered!(jobs_in!(Dead)),
];
const OPEN_IN_GROUP: Ordered = ordered!(concat!(
    "FROM leafpress_job INDEXED BY leafpress_job_open
     WHERE queue = ?1 AND ordering_group = ?4 AND state = ?5 AND ",
    state!(open)
));
const BLOCKED_IN_GROUP: Ordered = ordered!(concat!(jobs_in!(Blocked), " AND ordering_group = ?4"));
const DONE_IN_GROUP: Ordered = ordered!(concat!(jobs_in!(Done), " AND ordering_group = ?4"));
const DEAD_IN_GROUP: Ordered = ordered!(concat!(jobs_in!(Dead), " AND ordering_group = ?4"));

/// A job as it stands in the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its number, in the order of pushes.
    pub id: i64,
    /// Its queue.
    pub queue: String,
    /// Its state.
    pub state: JobState,
    /// Jobs of a higher priority are claimed first.
    pub priority: i32,
    /// If it waits: time from which on it may run.
    #[serde(rename = "due_at_ms")]
    pub due_at: Option<UnixTime>,
    /// If it is leased: end of the lease.
    #[serde(rename = "lease_until_ms")]
    pub lease_until: Option<UnixTime>,
    /// If it is leased: token with which its holder acks it.
    pub token: Option<Token>,
    /// If it is done or dead: time at which it is removed. None: it is kept.
    #[serde(rename = "kept_until_ms")]
    pub kept_until: Option<UnixTime>,
    /// Time at which it came to its state.
    #[serde(rename = "changed_at_ms")]
    pub changed_at: UnixTime,
    /// Time of its push.
    #[serde(rename = "pushed_at_ms")]
    pub pushed_at: UnixTime,
    /// Number of its claims.
    pub claims: u32,
    /// Number of the claims that count as attempts.
    pub attempts: u32,
    /// Largest number of attempts.
    pub attempts_max: u32,
    /// Time at which it becomes a dead letter, if it is not claimed before.
    #[serde(rename = "expires_at_ms")]
    pub expires_at: Option<UnixTime>,
    /// Its ordering group.
    pub group: Option<String>,
    /// Its unique key, held or not.
    #[serde(rename = "unique")]
    pub unique_key: Option<String>,
    /// Scope of the key: `waiting`, `running` or `time`.
    pub unique_for: Option<&'static str>,
    /// End of that time, if the key is held for a time.
    #[serde(rename = "unique_until_ms")]
    pub unique_until: Option<UnixTime>,
    /// The application's own name for the work that the job belongs to.
    pub correlation_id: Option<String>,
    /// Its metadata, as JSON.
    pub metadata: Option<String>,
    /// The name that its last claim gave.
    pub worker: Option<String>,
    /// The error of its last attempt that gave one.
    pub error: Option<String>,
    /// Its result, if it was acked with one. None in lists, unless asked for.
    pub result: Option<Payload>,
    /// Its payload. None in lists, unless asked for.
    pub payload: Option<Payload>,
}

impl JobInfo {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number: i64 = row.get(2)?;
        let state = JobState::from_number(number)
            .ok_or(rusqlite::Error::IntegralValueOutOfRange(2, number))?;
        let (id, claims): (i64, u32) = (row.get(0)?, row.get(7)?);
        let at: Option<UnixTime> = row.get(4)?;
        let has_ended = state.has_ended();
        let is_leased = state == JobState::Leased;
        let value = |column| -> rusqlite::Result<Option<Payload>> {
            let value = row.get_ref(column)?;
            let is_there = value != ValueRef::Null;
            Ok(is_there.then(|| Payload::from_column(value)))
        };
        Ok(Self {
            id,
            queue: row.get(1)?,
            state,
            priority: row.get(3)?,
            due_at: at.filter(|_| !has_ended && !is_leased),
            lease_until: at.filter(|_| is_leased),
            token: is_leased.then_some(Token { job: id, claim: claims }),
            kept_until: at.filter(|_| has_ended),
            changed_at: row.get(5)?,
            pushed_at: row.get(6)?,
            claims,
            attempts: claims.saturating_sub(row.get(8)?),
            attempts_max: row.get(9)?,
            expires_at: row.get(10)?,
            group: row.get(11)?,
            unique_key: row.get(12)?,
            unique_for: row.get::<_, Option<i64>>(13)?.map(|scope| match scope {
                0 => "waiting",
                1 => "running",
                _ => "time",
            }),
            unique_until: row.get(14)?,
            correlation_id: row.get(15)?,
            metadata: row.get(16)?,
            worker: row.get(17)?,
            error: row.get(18)?,
            result: value(19)?,
            payload: value(20)?,
        })
    }
}

/// Filter of a list of jobs. By default the first 50 of all states, in the order of pushes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct ListOptions {
    pub(super) states: Vec<JobState>,
    pub(super) group: Option<String>,
    pub(super) after_id: Option<i64>,
    pub(super) newest_first: bool,
    pub(super) limit: usize,
    pub(super) with_payload: bool,
}

impl Default for ListOptions {
    fn default() -> Self {
        let (states, group, after_id) = (JobState::ALL.to_vec(), None, None);
        Self { states, group, after_id, newest_first: false, limit: 50, with_payload: false }
    }
}

impl ListOptions {
    /// The first 50 jobs of all states.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only jobs in one of these states.
    pub fn states(mut self, states: impl IntoIterator<Item = JobState>) -> Self {
        self.states = states.into_iter().collect();
        self
    }

    /// Only jobs of this ordering group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only jobs that come after this one in the list: the last one of the page before. It need not
    /// be there any more.
    pub fn after_id(mut self, id: i64) -> Self {
        self.after_id = Some(id);
        self
    }

    /// The last pushes first.
    pub fn newest_first(mut self, newest_first: bool) -> Self {
        self.newest_first = newest_first;
        self
    }

    /// Maximum number of jobs in the list.
    pub fn limit(mut self, jobs: usize) -> Self {
        self.limit = jobs;
        self
    }

    /// Lists payloads and results too, which may be large.
    pub fn with_payload(mut self, with_payload: bool) -> Self {
        self.with_payload = with_payload;
        self
    }
}

/// An attempt to do a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Attempt {
    /// Number of the claim of the job, from 1.
    pub claim: u32,
    /// The name that the claim gave.
    pub worker: Option<String>,
    /// Time of the claim; not known of one that was acked.
    #[serde(rename = "claimed_at_ms")]
    pub claimed_at: Option<UnixTime>,
    /// Time of its end, if it has ended.
    #[serde(rename = "ended_at_ms")]
    pub ended_at: Option<UnixTime>,
    /// Way in which it ended.
    pub outcome: AttemptOutcome,
    /// Error of the attempt.
    pub error: Option<String>,
}

impl Attempt {
    /// Reads a row of [`ATTEMPTS`].
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            claim: row.get(0)?,
            worker: row.get(1)?,
            claimed_at: row.get(2)?,
            ended_at: row.get(3)?,
            outcome: AttemptOutcome::from_name(&row.get::<_, String>(4)?),
            error: row.get(5)?,
        })
    }
}

/// End of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// The attempt has not ended.
    Running,
    /// The attempt ended with an ack.
    Acked,
    /// The attempt ended with an error, and the job was to be tried again.
    Retried,
    /// The attempt ended with an error, and the job is a dead letter.
    Failed,
    /// Its lease came to an end without an answer.
    Expired,
    /// The job was given back; the attempt does not count.
    Released,
}

impl AttemptOutcome {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Acked => "acked",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Released => "released",
        }
    }

    fn from_name(name: &str) -> Self {
        let known = [Self::Retried, Self::Expired, Self::Released];
        known.into_iter().find(|outcome| outcome.name() == name).unwrap_or(Self::Failed)
    }
}

impl std::fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The names of the queues in the writer's database, in alphabetical order.
///
/// # Errors
/// If the database cannot be read.
pub fn names(writer: &Writer) -> Result<Vec<String>> {
    read(writer, names_of)
}

pub(super) fn names_of(connection: &Connection) -> Result<Vec<String>> {
    if schema::version(connection)? == 0 {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(NAMES).map_err(not_read)?;
    let names = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect);
    names.map_err(not_read)
}

impl Queue {
    /// The job of this number, if this queue has it: all that is known of it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn job(&self, id: i64) -> Result<Option<JobInfo>> {
        let queue = self.id;
        self.read(move |connection| job_of(connection, queue, id))
    }

    /// A page of jobs, in the order of pushes.
    ///
    /// It takes some milliseconds, whatever the queue holds, with three exceptions
    /// that look at an index entry for each job of a state (0.2 s for a million):
    /// delayed or blocked jobs behind many others; ready ones of more than 100
    /// different priorities behind many others; done or dead ones of one group.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn list(&self, options: &ListOptions) -> Result<Vec<JobInfo>> {
        let (queue, options) = (self.id, options.clone());
        self.read(move |connection| list_of(connection, queue, &options))
    }

    /// The attempts of this job, in order; the one that is running, too. None if the job was never
    /// claimed, or is gone.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn history(&self, id: i64) -> Result<Vec<Attempt>> {
        let queue = self.id;
        self.read(move |connection| history_of(connection, queue, id))
    }

    /// Reads in one transaction, beside the writer if it has readers.
    pub(super) fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        read(&self.writer, run)
    }
}

/// Reads in one transaction, beside the writer if it has readers.
pub(super) fn read<T: Send + 'static>(
    writer: &Writer,
    mut run: impl FnMut(&Connection) -> Result<T> + Send + 'static,
) -> Result<T> {
    if writer.in_force().is_some_and(|in_force| in_force.locking == Locking::Exclusive) {
        return writer.internal(move |connection| run(connection));
    }
    let reader = writer.reader_named("a queue's list or statistics")?;
    // The transaction ends when the reader is given back, after an error too.
    reader.execute_batch("BEGIN").map_err(not_read)?;
    run(&reader)
}

pub(super) fn job_of(connection: &Connection, queue: i64, id: i64) -> Result<Option<JobInfo>> {
    job(connection, JOB, queue, id)
}

pub(super) fn list_of(
    connection: &Connection,
    queue: i64,
    options: &ListOptions,
) -> Result<Vec<JobInfo>> {
    let ids = page(connection, queue, options, BOUNDS).map_err(not_read)?;
    let sql = if options.with_payload { JOB } else { JOB_WITHOUT_PAYLOAD };
    let jobs = ids.into_iter().map(|id| job(connection, sql, queue, id).transpose());
    jobs.flatten().collect()
}

pub(super) fn history_of(connection: &Connection, queue: i64, id: i64) -> Result<Vec<Attempt>> {
    let Some(job) = job(connection, JOB_WITHOUT_PAYLOAD, queue, id)? else {
        return Ok(Vec::new());
    };
    let mut attempts = attempts(connection, id).map_err(not_read)?;
    attempts.extend(last_attempt(job));
    Ok(attempts)
}

fn job(connection: &Connection, sql: &'static str, queue: i64, id: i64) -> Result<Option<JobInfo>> {
    let mut statement = connection.prepare_cached(sql).map_err(not_read)?;
    statement.query_row((id, queue), JobInfo::from_row).optional().map_err(not_read)
}

fn attempts(connection: &Connection, id: i64) -> rusqlite::Result<Vec<Attempt>> {
    let mut statement = connection.prepare_cached(ATTEMPTS)?;
    statement.query_map([id], Attempt::from_row)?.collect()
}

/// The attempt that the job's own row tells of, and no row of its own.
pub(super) fn last_attempt(job: JobInfo) -> Option<Attempt> {
    let (claim, worker) = (job.claims, job.worker);
    match job.state {
        JobState::Leased => Some(Attempt {
            claim,
            worker,
            claimed_at: Some(job.changed_at),
            ended_at: None,
            outcome: AttemptOutcome::Running,
            error: None,
        }),
        JobState::Done => Some(Attempt {
            claim,
            worker,
            claimed_at: None,
            ended_at: Some(job.changed_at),
            outcome: AttemptOutcome::Acked,
            error: None,
        }),
        _ => None,
    }
}

/// A page that is being put together.
struct Page<'c> {
    connection: &'c Connection,
    queue: i64,
    options: &'c ListOptions,
    bounds: Bounds,
    ids: Vec<i64>,
}

/// The ids of the jobs to be listed, in order.
fn page(
    connection: &Connection,
    queue: i64,
    options: &ListOptions,
    bounds: Bounds,
) -> rusqlite::Result<Vec<i64>> {
    let mut page = Page { connection, queue, options, bounds, ids: Vec::new() };
    // A group's jobs are few, and an index has them.
    let is_whole = options.group.is_none() && page.walk()?;
    if !is_whole {
        page.ids.clear();
        for state in JobState::ALL {
            if options.states.contains(&state) {
                page.look_up(state)?;
            }
        }
    }
    let mut ids = page.ids;
    ids.sort_unstable();
    ids.dedup();
    if options.newest_first {
        ids.reverse();
    }
    ids.truncate(options.limit);
    Ok(ids)
}

impl Page<'_> {
    /// Walks through the table; returns true if that was enough for the page.
    fn walk(&mut self) -> rusqlite::Result<bool> {
        let (sql, from) = self.direction(&WALK);
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query((self.queue, from, self.bounds.walk_max as i64))?;
        let mut looked_at = 0;
        while self.ids.len() < self.options.limit {
            let Some(row) = rows.next()? else { break };
            looked_at += 1;
            let state = JobState::from_number(row.get(1)?);
            let is_of_queue: bool = row.get(2)?;
            if is_of_queue && state.is_some_and(|it| self.options.states.contains(&it)) {
                self.ids.push(row.get(0)?);
            }
        }
        Ok(self.ids.len() >= self.options.limit || looked_at < self.bounds.walk_max)
    }

    /// Adds the next jobs of this state, as many as a page may have.
    fn look_up(&mut self, state: JobState) -> rusqlite::Result<()> {
        if let Some(group) = &self.options.group {
            return match state {
                JobState::Blocked => self.search(&BLOCKED_IN_GROUP, &[group]),
                JobState::Done => self.search(&DONE_IN_GROUP, &[group]),
                JobState::Dead => self.search(&DEAD_IN_GROUP, &[group]),
                _ => self.search(&OPEN_IN_GROUP, &[group, &state.number()]),
            };
        }
        match state {
            JobState::Ready => self.look_up_ready(),
            _ => self.search(&OF_STATE[state as usize], &[]),
        }
    }

    /// Ready jobs stand by priority, and only within that in the order of pushes.
    fn look_up_ready(&mut self) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(FIRST_PRIORITIES)?;
        let rows = statement
            .query_map((self.queue, self.bounds.priorities_max as i64 + 1), |row| row.get(0))?;
        let priorities: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
        if priorities.len() > self.bounds.priorities_max {
            return self.search(&OF_STATE[JobState::Ready as usize], &[]);
        }
        priorities.iter().try_for_each(|priority| self.search(&READY_OF_PRIORITY, &[priority]))
    }

    /// Adds the jobs that this statement finds, as many as a page may have.
    fn search(&mut self, sql: &Ordered, more: &[&dyn ToSql]) -> rusqlite::Result<()> {
        let (sql, from) = self.direction(sql);
        let limit = i64::try_from(self.options.limit).unwrap_or(i64::MAX);
        let mut parameters: Vec<&dyn ToSql> = vec![&self.queue, &from, &limit];
        parameters.extend_from_slice(more);
        let mut statement = self.connection.prepare_cached(sql)?;
        let found = statement.query_map(parameters.as_slice(), |row| row.get(0))?;
        for id in found {
            self.ids.push(id?);
        }
        Ok(())
    }

    /// The statement of the list's direction, and the job that it begins behind.
    fn direction(&self, sql: &Ordered) -> (&'static str, i64) {
        let after = self.options.after_id;
        if self.options.newest_first {
            (sql.backwards, after.unwrap_or(i64::MAX))
        } else {
            (sql.onwards, after.unwrap_or(i64::MIN))
        }
    }
}

/// The statements of this file, in both directions. Those whose name begins with
/// "sort" look at all jobs of their state.
#[cfg(test)]
pub(super) fn statements() -> Vec<(&'static str, &'static str)> {
    let ordered = [
        ("walk through jobs", &WALK),
        ("list ready jobs of a priority", &READY_OF_PRIORITY),
        ("sort ready jobs", &OF_STATE[0]),
        ("sort leased jobs", &OF_STATE[1]),
        ("sort delayed jobs", &OF_STATE[2]),
        ("sort blocked jobs", &OF_STATE[3]),
        ("list done jobs", &OF_STATE[4]),
        ("list dead jobs", &OF_STATE[5]),
        ("list open jobs of a group", &OPEN_IN_GROUP),
        ("list blocked jobs of a group", &BLOCKED_IN_GROUP),
        ("list done jobs of a group", &DONE_IN_GROUP),
        ("list dead jobs of a group", &DEAD_IN_GROUP),
    ];
    let both =
        ordered.iter().flat_map(|(name, sql)| [(*name, sql.onwards), (*name, sql.backwards)]);
    let others = [
        ("show a job", JOB),
        ("show a job without its payload", JOB_WITHOUT_PAYLOAD),
        ("show attempts", ATTEMPTS),
        ("priorities of ready jobs", FIRST_PRIORITIES),
    ];
    both.chain(others).collect()
}

fn not_read(source: rusqlite::Error) -> Error {
    Error::sqlite("read the queue's jobs", source).on_disk("nothing was changed")
}

#[cfg(test)]
mod tests;
