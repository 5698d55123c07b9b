//! Queues that are only looked at, by `stats`, `list`, `show` and `schedule list`.
//!
//! If the database can be written it is opened as every other action does it, with the journal mode
//! that it has, which also recovers what a program that was killed left; the queues are read beside
//! the writer, and no look begins a write transaction. If it cannot (a folder or a disk that is
//! read-only), they are read without making any file.
//!
//! Must never: change anything that an action on jobs would not.

use std::path::Path;
use std::time::Duration;

use leafpress::queue::{Attempt, JobInfo, ListOptions, QueueStats, QueuesView, ScheduleInfo};
use leafpress::{Error, ErrorKind, Result};

use super::database::{Database, no_such_job, no_such_queue, refuse_missing};
use crate::flags::QueueLookFlags;

/// The queues of one database.
pub struct Looked {
    view: QueuesView,
    /// None if the database cannot be written.
    written: Option<Database>,
    database: std::path::PathBuf,
}

impl Looked {
    /// Opens a database that is there.
    ///
    /// # Errors
    /// If there is none, or it can be read in neither way: then why it cannot be written.
    pub fn at(path: &Path, common: &QueueLookFlags) -> Result<Self> {
        refuse_missing(path)?;
        let (view, written) = match Self::written(path, common) {
            Ok((view, database)) => (view, Some(database)),
            Err(error) if may_be_read_all_the_same(&error) => {
                // The attempt to write has waited already.
                let wait = if error.is_busy() { Duration::ZERO } else { common.busy_timeout };
                match QueuesView::open_within(path, wait) {
                    Ok(view) => (view, None),
                    Err(_) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        Ok(Self { view, written, database: path.to_owned() })
    }

    /// Opens it as one that can be written.
    fn written(path: &Path, common: &QueueLookFlags) -> Result<(QueuesView, Database)> {
        let database = Database::existing(path, &common.into())?;
        Ok((QueuesView::beside(&database.writer)?, database))
    }

    /// Returns true if it stays as it is, whatever other connections write, and must be opened
    /// again to be looked at again.
    pub fn is_of_one_moment(&self) -> bool {
        self.written.is_none()
    }

    /// The names of the queues.
    pub fn names(&self) -> Result<Vec<String>> {
        self.view.names()
    }

    /// The contents and the work of a queue, in numbers.
    pub fn stats(&self, name: &str) -> Result<QueueStats> {
        self.found(name, self.view.stats(name)?)
    }

    /// A page of a queue's jobs.
    pub fn list(&self, name: &str, options: &ListOptions) -> Result<Vec<JobInfo>> {
        self.found(name, self.view.list(name, options)?)
    }

    /// The schedules of a queue.
    pub fn schedules(&self, name: &str) -> Result<Vec<ScheduleInfo>> {
        self.found(name, self.view.schedules(name)?)
    }

    /// A job and its attempts.
    pub fn job(&self, id: i64) -> Result<(JobInfo, Vec<Attempt>)> {
        self.view.job(id)?.ok_or_else(|| no_such_job(&self.database, id))
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
