//! The states that a database with queues went through, and since which of
//! them each answer is true.
//!
//! Many threads call at once, jobs change and go, so a test cannot know beforehand
//! in which order the commits are. But a recording does: at each of its points the
//! files as a killed process leaves them have a content, and that changes from
//! one commit to the next. [`states`] walks through all of them by stock SQLite.
//! An answer is a [`Fact`], which is true from the commit on that made it so.
//!
//! Must never: ask the code under test what is there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use leafpress::vfs::{Registration, register};
use rusqlite::{Connection, OpenFlags};

use super::disk::Disk;
use super::history::{Digest, History};
use super::image::Image;
use super::log::{Event, Log, Mark, Recording};
use super::memory_vfs::MemoryVfs;

/// Answer to a caller. Ids are of jobs, claims are the numbers of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The application's own tables are there.
    Application,
    /// The queue of this place among the workload's is there.
    Queue(i64),
    /// The job was pushed.
    Pushed(i64),
    /// The job was pushed, and the application's row of this number is there.
    PushedWithRow(i64, i64),
    /// The job was claimed so often.
    Claimed(i64, u32),
    /// The job was acknowledged.
    Acked(i64),
    /// That claim ended without an ack.
    GivenBack(i64, u32),
    /// That claim's lease has this length in milliseconds, another one each time: when
    /// it ends may change with the clock.
    Extended(i64, u32, i64),
    /// The setting that the workload makes ever greater.
    Configured(i64),
}

/// A job, as far as facts need it.
#[derive(Clone, Copy, Debug)]
pub struct JobSeen {
    /// Its state's number.
    pub state: i64,
    /// Claims so far.
    pub claims: u32,
    /// `lease_ms`.
    pub lease_ms: Option<i64>,
}

/// Content of a database, as far as facts need it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    has_application: bool,
    queues: i64,
    /// The highest id that was ever given.
    pub id_last: i64,
    /// Its jobs.
    pub jobs: BTreeMap<i64, JobSeen>,
    attempts: HashSet<(i64, u32)>,
    rows: HashMap<i64, i64>,
    attempts_max: i64,
}

impl Seen {
    /// Looks at a database, with or without the queue's tables.
    ///
    /// # Errors
    /// As SQLite says.
    pub fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let has = |table: &str| {
            let sql = "SELECT count(*) FROM sqlite_schema WHERE name = ?1";
            connection.query_row(sql, [table], |row| row.get::<_, bool>(0))
        };
        let mut seen = Self { has_application: has("application")?, ..Self::default() };
        if seen.has_application {
            let mut rows = connection.prepare("SELECT number, job FROM application")?;
            let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            seen.rows = rows.collect::<rusqlite::Result<_>>()?;
        }
        if !has("leafpress_queue")? {
            return Ok(seen);
        }
        (seen.queues, seen.attempts_max) = connection.query_row(
            "SELECT count(*), coalesce(max(attempts_max), 0) FROM leafpress_queue",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        seen.id_last = connection.query_row(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'leafpress_job'",
            [],
            |row| row.get(0),
        )?;
        let mut jobs =
            connection.prepare("SELECT id, state, claims, lease_ms FROM leafpress_job")?;
        let jobs = jobs.query_map([], |row| {
            let job = JobSeen { state: row.get(1)?, claims: row.get(2)?, lease_ms: row.get(3)? };
            Ok((row.get(0)?, job))
        })?;
        seen.jobs = jobs.collect::<rusqlite::Result<_>>()?;
        let mut attempts = connection.prepare("SELECT job, claim FROM leafpress_attempt")?;
        let attempts = attempts.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        seen.attempts = attempts.collect::<rusqlite::Result<_>>()?;
        Ok(seen)
    }

    /// Returns true if the fact is true of the content. Once true it stays so, but for
    /// [`Fact::Extended`] when the lease is extended again.
    pub fn has(&self, fact: Fact) -> bool {
        let is_gone = |job: i64| job <= self.id_last && !self.jobs.contains_key(&job);
        let is_claimed =
            |job, claim| is_gone(job) || self.jobs.get(&job).is_some_and(|job| job.claims >= claim);
        match fact {
            Fact::Application => self.has_application,
            Fact::Queue(place) => self.queues > place,
            Fact::Pushed(job) => job <= self.id_last,
            Fact::PushedWithRow(job, number) => {
                job <= self.id_last && self.rows.get(&number) == Some(&job)
            }
            Fact::Claimed(job, claim) => is_claimed(job, claim),
            Fact::Acked(job) => {
                is_gone(job) || self.jobs.get(&job).is_some_and(|job| job.state == DONE)
            }
            Fact::GivenBack(job, claim) => is_gone(job) || self.attempts.contains(&(job, claim)),
            Fact::Extended(job, claim, lease_ms) => {
                let holds = |job: &JobSeen| {
                    job.state != LEASED || job.claims > claim || job.lease_ms == Some(lease_ms)
                };
                is_claimed(job, claim) && self.jobs.get(&job).is_none_or(holds)
            }
            Fact::Configured(attempts_max) => self.attempts_max >= attempts_max,
        }
    }
}

const LEASED: i64 = 1;
const DONE: i64 = 4;

/// The facts that callers were told, by their marks.
#[derive(Debug, Default)]
pub struct Facts(Mutex<Vec<Fact>>);

impl Facts {
    /// A caller was told so, just now.
    pub fn told(&self, log: &Log, fact: Fact) {
        let mut facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.acknowledged(0, facts.len() as u64);
        facts.push(fact);
    }

    /// All of them; the number of a mark is a place in here.
    pub fn all(&self) -> Vec<Fact> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Opens what a killed process leaves, at any point.
struct Opener {
    vfs: Arc<MemoryVfs>,
    registration: Registration,
    image: Image,
}

impl Opener {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("crash-history-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let vfs = Arc::new(MemoryVfs::new());
        let registration = register(&name, Arc::clone(&vfs)).unwrap();
        Self { vfs, registration, image: Image::new() }
    }

    /// The content, and what is seen of it; `None` if there is no database yet.
    fn look(&mut self, disk: &Disk<'_>, database: &str) -> Option<(Digest, Seen)> {
        self.image.kill(disk);
        self.vfs.put(&mut self.image);
        if !self.vfs.has(database) {
            return None;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let name = self.registration.name();
        let connection = Connection::open_with_flags_and_vfs(database, flags, name).unwrap();
        Some((Digest::whole(&connection).unwrap(), Seen::of(&connection).unwrap()))
    }
}

/// The states of a recorded database, from its commits, and since which of them
/// the facts hold.
///
/// # Panics
/// If a fact holds nowhere: a caller was told of a change that was never made. If a
/// killed process left files that SQLite cannot read.
pub fn states(recording: &Recording, database: &str, facts: &[Fact]) -> History {
    let mut opener = Opener::new();
    let mut disk = Disk::new(recording);
    let mut history = History::new(&Digest::new());
    let mut waiting: Vec<(u64, Fact)> = facts.iter().copied().zip(0..).map(swap).collect();
    let mut last = None;
    while let Some(event) = disk.step() {
        // These events change no content.
        if matches!(
            event,
            Event::SyncFile { .. } | Event::SyncFolder { .. } | Event::Acknowledged(_)
        ) {
            continue;
        }
        let Some((content, seen)) = opener.look(&disk, database) else { continue };
        if last.replace(content.so_far()) == Some(content.so_far()) {
            continue;
        }
        let number = history.reached(&content);
        waiting.retain(|(caller_number, fact)| {
            let holds = seen.has(*fact);
            if holds {
                history.marked(Mark { caller: 0, number: *caller_number }, number);
            }
            !holds
        });
    }
    assert!(waiting.is_empty(), "told, and never there: {waiting:?}");
    history
}

fn swap((fact, number): (Fact, u64)) -> (u64, Fact) {
    (number, fact)
}
