//! Queues of a database that is only looked at: no file is made or written.
//!
//! For a folder or a file that this process must not write, where a
//! [`Writer`](crate::writer::Writer) cannot be opened. Stands beside [`Queue`](super::Queue), and reads by the same statements.
//!
//! Must never: write, or bring the tables to another version.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};

use super::clock::Clock;
use super::inspect::{self, Attempt, JobInfo, ListOptions};
use super::schedule::{self, ScheduleInfo};
use super::session::Work;
use super::stats::{self, QueueStats};
use super::{find_queue, schema};
use crate::candidate::Candidate;
use crate::error::{Error, Result};

/// The queues of a database. Each answer is of one moment, and no lock is held between two.
///
/// A database in WAL mode that nothing has open is read as it was when this was opened: open
/// it again to look again.
///
/// ```
/// use leafpress::queue::{Queue, QueuesView};
/// use leafpress::writer::Writer;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// let writer = Writer::builder(&path).open()?;
/// Queue::open(&writer, "mail")?.push("to ann")?;
/// writer.close()?;
///
/// let view = QueuesView::open(&path)?;
/// assert_eq!(view.names()?, ["mail"]);
/// assert_eq!(view.stats("mail")?.unwrap().jobs.ready, 1);
/// # Ok::<(), leafpress::Error>(())
/// ```
#[derive(Debug)]
pub struct QueuesView {
    candidate: Candidate,
    connection: Connection,
}

impl QueuesView {
    /// Opens a database for reading; nothing is made beside it.
    ///
    /// # Errors
    /// If there is no database, or one that SQLite must recover first, or the queue's tables
    /// are of another version.
    pub fn open(database: impl AsRef<Path>) -> Result<Self> {
        Self::of(Candidate::look_at(database.as_ref())?)
    }

    /// As [`open`](Self::open); waits up to `busy_timeout` for a program that holds the database.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_within(database: impl AsRef<Path>, busy_timeout: Duration) -> Result<Self> {
        Self::of(Candidate::look_at(database.as_ref())?.waiting(busy_timeout))
    }

    fn of(candidate: Candidate) -> Result<Self> {
        let refused = |error| candidate.refused("read the queues", error);
        let connection = candidate.open().map_err(refused)?;
        connection.execute_batch("SELECT 1 FROM sqlite_schema").map_err(refused)?;
        schema::refuse_unless_known(&connection)?;
        Ok(Self { candidate, connection })
    }

    /// The names of the queues, in alphabetical order.
    ///
    /// # Errors
    /// If the database cannot be read, or is written by a program that it keeps no lock against.
    pub fn names(&self) -> Result<Vec<String>> {
        self.read(inspect::names_of)
    }

    /// The figures of a queue; `None` if there is no such queue.
    ///
    /// # Errors
    /// As [`names`](Self::names).
    pub fn stats(&self, queue: &str) -> Result<Option<QueueStats>> {
        let now_ms = Clock::system().now_ms();
        self.of_queue(queue, |connection, queue| stats::collect_of(connection, queue, now_ms))
    }

    /// A page of a queue's jobs, as [`Queue::list`](super::Queue::list) gives it.
    ///
    /// # Errors
    /// As [`names`](Self::names).
    pub fn list(&self, queue: &str, options: &ListOptions) -> Result<Option<Vec<JobInfo>>> {
        self.of_queue(queue, |connection, queue| inspect::list_of(connection, queue, options))
    }

    /// The schedules of a queue, by name.
    ///
    /// # Errors
    /// As [`names`](Self::names).
    pub fn schedules(&self, queue: &str) -> Result<Option<Vec<ScheduleInfo>>> {
        self.of_queue(queue, |connection, queue| {
            schedule::list_of(&Work::outside(connection), queue)
        })
    }

    /// The job of this number, in whatever queue, and its attempts.
    ///
    /// # Errors
    /// As [`names`](Self::names).
    pub fn job(&self, id: i64) -> Result<Option<(JobInfo, Vec<Attempt>)>> {
        self.read(|connection| {
            if schema::version(connection)? == 0 {
                return Ok(None);
            }
            let sql = "SELECT queue FROM leafpress_job WHERE id = ?1";
            let queue = connection.query_row(sql, [id], |row| row.get(0)).optional();
            let queue = queue.map_err(|source| Error::sqlite("find a job", source))?;
            let Some(queue) = queue else { return Ok(None) };
            let job = inspect::job_of(connection, queue, id)?;
            let history = inspect::history_of(connection, queue, id)?;
            Ok(job.map(|job| (job, history)))
        })
    }

    fn of_queue<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Connection, i64) -> Result<T>,
    ) -> Result<Option<T>> {
        self.read(|connection| {
            if schema::version(connection)? == 0 {
                return Ok(None);
            }
            let queue = find_queue(&Work::outside(connection), name)?;
            queue.map(|queue| read(connection, queue)).transpose()
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let refused = |error| self.candidate.refused("read the queues", error);
        let moment = self.connection.unchecked_transaction().map_err(refused)?;
        let found = read(&moment)?;
        moment.finish().map_err(refused)?;
        self.candidate.still_the_same()?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Job, Queue};
    use crate::writer::Writer;

    #[test]
    fn it_shows_what_a_queue_shows_and_makes_no_file() {
        for profile in [crate::Profile::Durable, crate::Profile::Rollback] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("app.db");
            let writer = Writer::builder(&path).profile(profile).open().unwrap();
            let queue = Queue::open(&writer, "mail").unwrap();
            let first = queue.push(Job::new("to ann")).unwrap().id;
            queue.push(Job::new("to bob")).unwrap();
            let token = queue.claim().unwrap().unwrap().token;
            queue.fail(token, "no such address").unwrap();
            let listed = queue.list(&ListOptions::new()).unwrap();
            let history = queue.history(first).unwrap();
            drop(queue);
            writer.close().unwrap();
            let names = || std::fs::read_dir(folder.path()).unwrap().count();
            let before = names();

            let view = QueuesView::open(&path).unwrap();
            assert_eq!(view.names().unwrap(), ["mail"]);
            assert_eq!(view.list("mail", &ListOptions::new()).unwrap(), Some(listed));
            assert_eq!(view.job(first).unwrap().unwrap().1, history);
            let jobs = view.stats("mail").unwrap().unwrap().jobs;
            assert_eq!((jobs.ready, jobs.dead), (1, 1));
            assert_eq!(view.schedules("mail").unwrap(), Some(Vec::new()));
            assert!(view.list("none", &ListOptions::new()).unwrap().is_none());
            assert!(view.job(99).unwrap().is_none());
            assert_eq!(names(), before, "under {profile}");
        }
    }

    #[test]
    fn it_holds_no_lock_between_two_answers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let writer = Writer::builder(&path).profile(crate::Profile::Rollback).open().unwrap();
        let queue = Queue::open(&writer, "mail").unwrap();
        let view = QueuesView::open(&path).unwrap();
        for jobs in 1..4 {
            queue.push(Job::new("to ann")).unwrap();
            assert_eq!(view.stats("mail").unwrap().unwrap().jobs.ready, jobs);
        }
    }

    #[test]
    fn a_database_without_queues_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        let view = QueuesView::open(&path).unwrap();
        assert!(view.names().unwrap().is_empty());
        assert!(view.stats("mail").unwrap().is_none());
        assert!(view.job(1).unwrap().is_none());
    }
}
