//! The queue of an action: in a file, or on a cluster of rqlite.
//!
//! Must never: take a cluster for a file.

use std::path::Path;

#[cfg(feature = "rqlite")]
use leafpress::Error;
use leafpress::Result;
use leafpress::queue::{
    Affected, Attempt, Claim, ClaimOptions, Job, JobCounts, JobInfo, ListOptions, Nack, Payload,
    Purge, Pushed, Queue, Retry, Settings, Token, UnixTime, Worker,
};

use super::database::{Database, existing_queue};
#[cfg(not(feature = "rqlite"))]
use crate::cluster::unreachable as refused;
use crate::cluster::{name_of, url_of};
use crate::flags::{QueueCommonFlags, QueuePlaceFlags};

/// A queue that takes calls on jobs.
pub enum JobQueue {
    File(Queue),
    #[cfg(feature = "rqlite")]
    Cluster(leafpress_rqlite::RqliteQueue),
}

/// A call that both kinds have.
macro_rules! call {
    ($self:ident, $queue:ident => $call:expr) => {
        match $self {
            Self::File($queue) => $call,
            #[cfg(feature = "rqlite")]
            Self::Cluster($queue) => $call,
        }
    };
}

impl JobQueue {
    /// A queue that is there.
    pub fn existing(place: &QueuePlaceFlags, common: &QueueCommonFlags) -> Result<Self> {
        match url_of(&place.database) {
            Some(url) => on_cluster(url, common, &Name::Existing(&place.queue)),
            None => Ok(Self::File(existing_queue(place, common)?)),
        }
    }

    /// A queue that is there, for work that lasts.
    pub fn existing_for_long(
        place: &QueuePlaceFlags,
        common: &QueueCommonFlags,
        works_alone: bool,
    ) -> Result<Self> {
        if url_of(&place.database).is_some() {
            return Self::existing(place, common);
        }
        let database = Database::existing_for_long(&place.database, common, works_alone)?;
        database.queue(&place.queue).map(Self::File)
    }

    /// Any queue of the database: each of them takes the calls on tokens.
    pub fn any(path: &Path, common: &QueueCommonFlags) -> Result<Self> {
        match url_of(path) {
            Some(url) => on_cluster(url, common, &Name::Any),
            None => Database::existing(path, common)?.any_queue().map(Self::File),
        }
    }

    /// The queue on a cluster, which is made if it is missing; `None` if the place is a file.
    pub fn made_on_cluster(
        place: &QueuePlaceFlags,
        common: &QueueCommonFlags,
    ) -> Option<Result<Self>> {
        url_of(&place.database).map(|url| on_cluster(url, common, &Name::Made(&place.queue)))
    }

    pub fn name(&self) -> &str {
        call!(self, queue => queue.name())
    }

    pub fn settings(&self) -> Result<Settings> {
        call!(self, queue => queue.settings())
    }

    /// Counts of the jobs; and true if the queue is paused.
    pub fn jobs_and_pause(&self) -> Result<(JobCounts, bool)> {
        call!(self, queue => queue.stats().map(|stats| (stats.jobs, stats.is_paused)))
    }

    /// Number of jobs that their group's rate holds off. A cluster has no rates.
    pub fn held_off(&self) -> Result<u64> {
        match self {
            Self::File(queue) => queue.held_off(),
            #[cfg(feature = "rqlite")]
            Self::Cluster(_) => Ok(0),
        }
    }

    pub fn worker(&self) -> Worker {
        match self {
            Self::File(queue) => Worker::new(queue),
            #[cfg(feature = "rqlite")]
            Self::Cluster(queue) => queue.worker(),
        }
    }

    pub fn push_many(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<Pushed>> {
        call!(self, queue => queue.push_many(jobs))
    }

    pub fn claim_with(&self, options: &ClaimOptions) -> Result<Vec<Claim>> {
        call!(self, queue => queue.claim_with(options))
    }

    pub fn ack_with(&self, token: Token, result: Payload) -> Result<()> {
        call!(self, queue => queue.ack_with(token, result))
    }

    pub fn ack_many(&self, tokens: &[Token]) -> Result<Vec<Result<()>>> {
        call!(self, queue => queue.ack_many(tokens))
    }

    pub fn nack(&self, token: Token, nack: Nack) -> Result<Retry> {
        call!(self, queue => queue.nack(token, nack))
    }

    pub fn fail(&self, token: Token, reason: &str) -> Result<()> {
        call!(self, queue => queue.fail(token, reason))
    }

    pub fn release(&self, token: Token) -> Result<()> {
        call!(self, queue => queue.release(token))
    }

    pub fn extend(&self, token: Token, lease: std::time::Duration) -> Result<UnixTime> {
        call!(self, queue => queue.extend(token, lease))
    }

    pub fn list(&self, options: &ListOptions) -> Result<Vec<JobInfo>> {
        call!(self, queue => queue.list(options))
    }

    pub fn job(&self, id: i64) -> Result<Option<JobInfo>> {
        call!(self, queue => queue.job(id))
    }

    pub fn history(&self, id: i64) -> Result<Vec<Attempt>> {
        call!(self, queue => queue.history(id))
    }

    pub fn configure(
        &self,
        change: impl FnMut(&mut Settings) + Send + 'static,
    ) -> Result<Settings> {
        call!(self, queue => queue.configure(change))
    }

    /// Retries a job. A cluster does not tell which of them go without their key.
    pub fn retry(&self, id: i64) -> Result<Affected> {
        match self {
            Self::File(queue) => queue.retry_counted(id),
            #[cfg(feature = "rqlite")]
            Self::Cluster(queue) => {
                queue.retry(id).map(|is_retried| on_a_cluster(is_retried.into()))
            }
        }
    }

    /// Retries all dead jobs, as [`retry`](Self::retry); adds them to `done`, also those before an
    /// error.
    pub fn retry_dead(&self, done: &mut Affected) -> Result<()> {
        match self {
            Self::File(queue) => queue.retry_dead_counted(done),
            #[cfg(feature = "rqlite")]
            Self::Cluster(queue) => queue.retry_dead_counted(&mut done.jobs),
        }
    }

    pub fn remove(&self, id: i64) -> Result<bool> {
        call!(self, queue => queue.remove(id))
    }

    /// Removes jobs; adds them to `removed`, also those before an error.
    pub fn purge(&self, purge: &Purge, removed: &mut u64) -> Result<()> {
        call!(self, queue => queue.purge_counted(purge, removed))
    }

    pub fn pause(&self) -> Result<()> {
        call!(self, queue => queue.pause())
    }

    pub fn resume(&self) -> Result<()> {
        call!(self, queue => queue.resume())
    }
}

#[cfg(feature = "rqlite")]
fn on_a_cluster(jobs: u64) -> Affected {
    Affected { jobs, without_key: 0 }
}

/// Finds the queues of jobs by their numbers.
pub struct Finder {
    database: String,
    way: Way,
}

enum Way {
    File(Database),
    #[cfg(feature = "rqlite")]
    Cluster(leafpress_rqlite::RqliteQueues),
}

impl Finder {
    /// In a database that is there.
    pub fn existing(path: &Path, common: &QueueCommonFlags) -> Result<Self> {
        let way = match url_of(path) {
            #[cfg(feature = "rqlite")]
            Some(url) => Way::Cluster(connect(url, common)?),
            #[cfg(not(feature = "rqlite"))]
            Some(url) => return Err(refused(url)),
            None => Way::File(Database::existing(path, common)?),
        };
        Ok(Self { database: name_of(path), way })
    }

    /// The name of the database in messages.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The queue that a job is in, if there is such a job.
    pub fn queue_of(&self, job: i64) -> Result<Option<JobQueue>> {
        match &self.way {
            Way::File(database) => Ok(database.queue_of(job)?.map(JobQueue::File)),
            #[cfg(feature = "rqlite")]
            Way::Cluster(queues) => Ok(queues.queue_of(job)?.map(JobQueue::Cluster)),
        }
    }

    /// The queue of this name.
    pub fn queue(&self, name: &str) -> Result<JobQueue> {
        match &self.way {
            Way::File(database) => database.queue(name).map(JobQueue::File),
            #[cfg(feature = "rqlite")]
            Way::Cluster(queues) => queues.existing(name).map(JobQueue::Cluster),
        }
    }
}

/// The queue that is meant on a cluster.
#[cfg_attr(not(feature = "rqlite"), expect(dead_code, reason = "there is no cluster to ask"))]
enum Name<'a> {
    Any,
    Existing(&'a str),
    Made(&'a str),
}

#[cfg(feature = "rqlite")]
fn on_cluster(url: &str, common: &QueueCommonFlags, name: &Name<'_>) -> Result<JobQueue> {
    let queues = connect(url, common)?;
    let queue = match name {
        Name::Existing(name) => queues.existing(name),
        Name::Made(name) => queues.open(name),
        Name::Any => match queues.names()?.first() {
            Some(first) => queues.existing(first),
            None => Err(Error::not_found("queue", "", "the cluster has no queue".to_owned())),
        },
    };
    queue.map(JobQueue::Cluster)
}

/// A session with the cluster at this URL.
#[cfg(feature = "rqlite")]
pub fn connect(url: &str, common: &QueueCommonFlags) -> Result<leafpress_rqlite::RqliteQueues> {
    if common.profile.is_some() {
        return Err(Error::misuse("--profile is for a file: a cluster has its own promise"));
    }
    leafpress_rqlite::RqliteQueues::builder(url.parse()?).connect()
}

#[cfg(not(feature = "rqlite"))]
fn on_cluster(url: &str, _: &QueueCommonFlags, _: &Name<'_>) -> Result<JobQueue> {
    Err(refused(url))
}
