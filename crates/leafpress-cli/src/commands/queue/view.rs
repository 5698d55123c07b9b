//! Queues that are only looked at, by `stats`, `list`, `show` and `schedule list`.
//!
//! If the database can be written they are read as every other action does it, which
//! also recovers what a program that was killed left. If it cannot (a folder or a disk
//! that is read-only), they are read without making any file.
//!
//! Must never: change anything that an action on jobs would not.

use std::path::Path;
use std::time::Duration;

use leafpress::queue::{
    Attempt, JobInfo, ListOptions, Queue, QueueStats, QueuesView, ScheduleInfo, names,
};
use leafpress::{Error, ErrorKind, Result};

use super::database::{Database, no_such_job, no_such_queue, refuse_missing};
use crate::flags::QueueCommonFlags;

/// The queues of one database.
pub struct Looked {
    way: Way,
    database: std::path::PathBuf,
}

enum Way {
    Written(Database),
    ReadOnly(QueuesView),
}

impl Looked {
    /// Opens a database that is there.
    ///
    /// # Errors
    /// If there is none, or it can be read in neither way: then why it cannot be written.
    pub fn at(path: &Path, common: &QueueCommonFlags) -> Result<Self> {
        refuse_missing(path)?;
        let way = match Self::written(path, common) {
            Ok(database) => Way::Written(database),
            Err(error) if may_be_read_all_the_same(&error) => {
                // The attempt to write has waited already.
                let wait = if error.is_busy() { Duration::ZERO } else { common.busy_timeout };
                match QueuesView::open_within(path, wait) {
                    Ok(view) => Way::ReadOnly(view),
                    Err(_) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        Ok(Self { way, database: path.to_owned() })
    }

    /// Opens it to be written, and begins with its queues what needs that.
    fn written(path: &Path, common: &QueueCommonFlags) -> Result<Database> {
        let database = Database::existing(path, common)?;
        if let Some(first) = names(&database.writer)?.first() {
            Queue::builder(&database.writer, first).must_exist().open()?;
        }
        Ok(database)
    }

    /// Returns true if it stays as it is, whatever other connections write, and must be opened
    /// again to be looked at again.
    pub fn is_of_one_moment(&self) -> bool {
        matches!(self.way, Way::ReadOnly(_))
    }

    /// The names of the queues.
    pub fn names(&self) -> Result<Vec<String>> {
        match &self.way {
            Way::Written(database) => names(&database.writer),
            Way::ReadOnly(view) => view.names(),
        }
    }

    /// The contents and the work of a queue, in numbers.
    pub fn stats(&self, name: &str) -> Result<QueueStats> {
        match &self.way {
            Way::Written(database) => database.queue(name)?.stats(),
            Way::ReadOnly(view) => self.found(name, view.stats(name)?),
        }
    }

    /// A page of a queue's jobs.
    pub fn list(&self, name: &str, options: &ListOptions) -> Result<Vec<JobInfo>> {
        match &self.way {
            Way::Written(database) => database.queue(name)?.list(options),
            Way::ReadOnly(view) => self.found(name, view.list(name, options)?),
        }
    }

    /// The schedules of a queue.
    pub fn schedules(&self, name: &str) -> Result<Vec<ScheduleInfo>> {
        match &self.way {
            Way::Written(database) => database.queue(name)?.schedules(),
            Way::ReadOnly(view) => self.found(name, view.schedules(name)?),
        }
    }

    /// A job and its attempts.
    pub fn job(&self, id: i64) -> Result<(JobInfo, Vec<Attempt>)> {
        let found = match &self.way {
            Way::Written(database) => match database.queue_of(id)? {
                Some(queue) => match queue.job(id)? {
                    Some(job) => Some((job, queue.history(id)?)),
                    None => None,
                },
                None => None,
            },
            Way::ReadOnly(view) => view.job(id)?,
        };
        found.ok_or_else(|| no_such_job(&self.database, id))
    }

    fn found<T>(&self, name: &str, found: Option<T>) -> Result<T> {
        match found {
            Some(found) => Ok(found),
            None => Err(no_such_queue(&self.database, name, &self.names()?)),
        }
    }
}

/// Returns true if an error may come from a place that cannot be written.
fn may_be_read_all_the_same(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::Misuse(_)
            | ErrorKind::NotFound { .. }
            | ErrorKind::Changed { .. }
            | ErrorKind::Unsupported(_)
            | ErrorKind::Input { .. }
            | ErrorKind::Cancelled
    )
}
