//! Opening queues, and their settings.
//!
//! A change of settings reads them first, and is made only if they are still the same.
//!
//! Must never: take up a queue with what a cluster does not keep: rates and schedules.

use std::time::Duration;

use leafpress::queue::elsewhere;
use leafpress::queue::{Backoff, Settings};
use leafpress::{Error, Result};
use serde_json::{Value, json};

use super::group::{Answer, Call, Change};
use super::{RqliteQueue, RqliteQueues, confused, milliseconds, sql};

/// Number of the tables of every queue, and of those of queues on a cluster, that are there.
const TABLES_THERE: &str = "SELECT
         count(*) FILTER (WHERE name IN ('leafpress_schema', 'leafpress_job', 'leafpress_jobs')),
         count(*) FILTER (WHERE name IN ('_leafpress_queue_group', '_leafpress_queue_step',
             '_leafpress_floor'))
     FROM sqlite_schema";
const TABLES: i64 = 3;
const CLUSTER_TABLES: i64 = 3;
const VERSION: &str = "SELECT version FROM leafpress_schema WHERE part = 'queue'";
const QUEUE: &str = "SELECT id, rate_jobs IS NOT NULL OR group_rate_jobs IS NOT NULL,
         EXISTS (SELECT 1 FROM leafpress_schedule WHERE queue = leafpress_queue.id)
     FROM leafpress_queue WHERE name = ?1";
const QUEUE_OF: &str = "SELECT queue.name FROM leafpress_job AS job
     JOIN leafpress_queue AS queue ON queue.id = job.queue WHERE job.id = ?1";
const NAMES: &str = "SELECT name FROM leafpress_queue ORDER BY name";
const MAKE: &str = "INSERT INTO leafpress_queue(name) VALUES (?1) ON CONFLICT(name) DO NOTHING";
const SETTINGS: &str = "SELECT lease_ms, attempts_max, backoff_first_ms, backoff_factor,
         backoff_max_ms, backoff_jitter, keep_done_ms, keep_dead_ms, concurrency,
         group_concurrency FROM leafpress_queue WHERE id = ?1";
const CONFIGURE: &str = "UPDATE leafpress_queue SET lease_ms = ?2, attempts_max = ?3,
         backoff_first_ms = ?4, backoff_factor = ?5, backoff_max_ms = ?6, backoff_jitter = ?7,
         keep_done_ms = ?8, keep_dead_ms = ?9, concurrency = ?10, group_concurrency = ?11
     WHERE id = ?1 AND lease_ms IS ?12 AND attempts_max IS ?13 AND backoff_first_ms IS ?14
         AND backoff_factor IS ?15 AND backoff_max_ms IS ?16 AND backoff_jitter IS ?17
         AND keep_done_ms IS ?18 AND keep_dead_ms IS ?19 AND concurrency IS ?20
         AND group_concurrency IS ?21";
const PAUSE: &str = "UPDATE leafpress_queue SET is_paused = ?2 WHERE id = ?1";

/// A change of settings is tried so often beside those of other programs.
const CHANGES_MAX: usize = 10;

/// The names of the queues.
pub fn names(queues: &RqliteQueues) -> Result<Vec<String>> {
    if Tables::of(queues)?.version.is_none() {
        return Ok(Vec::new());
    }
    let rows = queues.read(vec![json!([NAMES])])?;
    let name = |row: &Value| row.get(0)?.as_str().map(str::to_owned);
    Ok(rows.first().into_iter().flatten().filter_map(name).collect())
}

/// The tables on a cluster.
struct Tables {
    /// Their version; `None` if one of them is missing.
    version: Option<usize>,
    /// True if those that only a cluster has are there too. A file that was booted lacks them.
    is_whole: bool,
}

impl Tables {
    fn of(queues: &RqliteQueues) -> Result<Self> {
        let rows = queues.read(vec![json!([TABLES_THERE])])?;
        let count = |at| number(&rows, at).ok_or_else(confused);
        if count(0)? < TABLES {
            return Ok(Self { version: None, is_whole: false });
        }
        let is_whole = count(1)? == CLUSTER_TABLES;
        let rows = queues.read(vec![json!([VERSION])])?;
        let version = Some(number(&rows, 0).unwrap_or_default() as usize);
        Ok(Self { version, is_whole })
    }

    /// Fails if they are of another version than this crate knows.
    fn check(&self) -> Result<()> {
        let known = elsewhere::TABLES_VERSION;
        let Some(version) = self.version.filter(|&version| version != known) else { return Ok(()) };
        Err(Error::unsupported(format!(
            "the queue's tables are of version {version}, and this leafpress knows version {known}"
        ))
        .on_disk("nothing was changed")
        .to_do(if version > known {
            "use the leafpress that made them, or a later one"
        } else {
            "open the queue by this leafpress where it is a file, and boot that"
        }))
    }
}

fn number(rows: &[Vec<Value>], at: usize) -> Option<i64> {
    rows.first()?.first()?.get(at)?.as_i64()
}

/// The queue of this name; if `makes`, it is made if it is missing.
pub fn open(queues: &RqliteQueues, name: &str, makes: bool) -> Result<RqliteQueue> {
    if name.is_empty() {
        return Err(Error::misuse("a queue needs a name").on_disk("nothing was changed"));
    }
    if !has_tables(queues, makes)? {
        return Err(no_such_queue(name));
    }
    if let Some(queue) = find(queues, name)? {
        return Ok(queue);
    }
    if !makes {
        return Err(no_such_queue(name));
    }
    queues.repeatable(vec![json!([MAKE, name])])?;
    find(queues, name)?.ok_or_else(confused)
}

/// The queue that a job is in.
pub fn queue_of(queues: &RqliteQueues, job: i64) -> Result<Option<RqliteQueue>> {
    if !has_tables(queues, false)? {
        return Ok(None);
    }
    let rows = queues.read(vec![json!([QUEUE_OF, job])])?;
    let name = rows.first().and_then(|rows| rows.first()?.get(0)?.as_str());
    name.map_or(Ok(None), |name| find(queues, name))
}

/// Returns true if the tables are there, or if `makes`. Those that are missing then are made.
fn has_tables(queues: &RqliteQueues, makes: bool) -> Result<bool> {
    let tables = Tables::of(queues)?;
    tables.check()?;
    let has = makes || tables.version.is_some();
    if has && !tables.is_whole {
        queues.repeatable(sql::make_tables())?;
    }
    Ok(has)
}

fn find(queues: &RqliteQueues, name: &str) -> Result<Option<RqliteQueue>> {
    let rows = queues.read(vec![json!([QUEUE, name])])?;
    let Some(id) = number(&rows, 0) else { return Ok(None) };
    for (at, what) in [(1, "a rate limit"), (2, "schedules")] {
        if number(&rows, at) != Some(0) {
            return Err(Error::unsupported(format!(
                "the queue '{name}' has {what}, which a queue on a cluster does not keep"
            ))
            .on_disk("nothing was changed")
            .to_do("take it away where the database is a file, before it is booted"));
        }
    }
    Ok(Some(RqliteQueue { queues: queues.clone(), id, name: name.into() }))
}

fn no_such_queue(name: &str) -> Error {
    Error::not_found("queue", name, format!("there is no queue '{name}' on this cluster"))
        .on_disk("nothing was changed")
        .to_do("push to it, which makes it")
}

fn dropped() -> Error {
    elsewhere::dropped().on_disk("nothing was changed")
}

impl RqliteQueue {
    /// Its settings, as they stand in the database now.
    ///
    /// # Errors
    /// If the cluster cannot be read.
    pub fn settings(&self) -> Result<Settings> {
        let rows = self.queues.read(vec![json!([SETTINGS, self.id])])?;
        let row = rows.first().and_then(|rows| rows.first()).ok_or_else(dropped)?;
        settings(row).ok_or_else(confused)
    }

    /// Changes its settings, for all processes, in whole milliseconds. `change` is called again if another program
    /// has changed them meanwhile.
    ///
    /// # Errors
    /// If they would make the queue unusable, or have a rate limit, which a queue on a cluster does
    /// not keep; [`Changed`](leafpress::ErrorKind::Changed), if the queue was dropped or other programs change
    /// it all the time. This call has changed nothing then. Only after
    /// [`OutcomeUnknown`](leafpress::ErrorKind::OutcomeUnknown) it is not known.
    pub fn configure(&self, mut change: impl FnMut(&mut Settings)) -> Result<Settings> {
        for _ in 0..CHANGES_MAX {
            let before = self.settings()?;
            let mut after = before.clone();
            change(&mut after);
            after.check()?;
            if after.rate.is_some() || after.group_rate.is_some() {
                return Err(Error::unsupported("a queue on a cluster keeps no rate limit")
                    .on_disk("the settings are as they were"));
            }
            // As they are stored: in whole milliseconds.
            let after = settings(&json!(columns(&after))).ok_or_else(confused)?;
            if after == before {
                return Ok(after);
            }
            let mut configure = vec![json!(CONFIGURE), json!(self.id)];
            configure.extend(columns(&after));
            configure.extend(columns(&before));
            let kept = |settings: &Settings| (settings.keep_done, settings.keep_dead);
            let mut then = vec![sql::NARROW_ALL, sql::FILL_ALL];
            then.extend((kept(&after) != kept(&before)).then_some(sql::KEEP_ANEW));
            if self.change_settings(Value::Array(configure), then)? {
                return Ok(after);
            }
        }
        Err(Error::changed("other programs change the settings all the time")
            .on_disk("the settings are theirs")
            .to_do("try again"))
    }

    /// Lets no jobs be claimed until [`resume`](Self::resume).
    ///
    /// # Errors
    /// [`Changed`](leafpress::ErrorKind::Changed), if the queue was dropped; if no node answers. Nothing is changed
    /// then. Only after [`OutcomeUnknown`](leafpress::ErrorKind::OutcomeUnknown) it is not known.
    pub fn pause(&self) -> Result<()> {
        self.set_paused(true)
    }

    /// Lets jobs be claimed again.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn resume(&self) -> Result<()> {
        self.set_paused(false)
    }

    fn set_paused(&self, is_paused: bool) -> Result<()> {
        let statement = json!([PAUSE, self.id, u8::from(is_paused)]);
        self.change_settings(statement, Vec::new())?.then_some(()).ok_or_else(dropped)
    }

    /// Carries out a statement in a group, so that it is applied once, and not after a later one. Returns true if
    /// it has changed the queue.
    fn change_settings(&self, statement: Value, then: Vec<&'static str>) -> Result<bool> {
        match self.queues.call(Call::Change(Change { statement, queue: self.id, then }))? {
            Answer::Changed(is_changed) => Ok(is_changed),
            _ => Err(confused()),
        }
    }
}

fn columns(settings: &Settings) -> [Value; 10] {
    let Settings { backoff, .. } = settings;
    [
        json!(milliseconds(settings.lease)),
        json!(settings.attempts_max),
        json!(milliseconds(backoff.first)),
        json!(backoff.factor),
        json!(milliseconds(backoff.max)),
        json!(backoff.jitter),
        json!(milliseconds(settings.keep_done)),
        json!(settings.keep_dead.map(milliseconds)),
        json!(settings.concurrency),
        json!(settings.group_concurrency),
    ]
}

fn settings(row: &Value) -> Option<Settings> {
    let time = |at: usize| Some(Duration::from_millis(row.get(at)?.as_i64()?.max(0) as u64));
    let count = |at: usize| u32::try_from(row.get(at)?.as_i64()?).ok();
    let mut settings = Settings::default();
    settings.lease = time(0)?;
    settings.attempts_max = count(1)?;
    settings.backoff = Backoff {
        first: time(2)?,
        factor: row.get(3)?.as_f64()?,
        max: time(4)?,
        jitter: row.get(5)?.as_f64()?,
    };
    settings.keep_done = time(6)?;
    settings.keep_dead = time(7);
    settings.concurrency = count(8);
    settings.group_concurrency = count(9)?;
    Some(settings)
}
