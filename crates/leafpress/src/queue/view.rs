//! Queues of a database that is only looked at: no file is made or written.
//!
//! For a folder or a file that this process must not write, where a
//! [`Writer`](crate::writer::Writer) cannot be opened. Stands beside [`Queue`](super::Queue), and reads by the same statements.
//! A view of a writer reads by its readers, so that no look begins a write transaction.
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
use crate::writer::Writer;

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
pub struct QueuesView(ViewSource);

#[derive(Debug)]
enum ViewSource {
    Candidate { candidate: Candidate, connection: Connection },
    Writer(Writer),
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
        Ok(Self(ViewSource::Candidate { candidate, connection }))
    }

    /// The queues of a writer's database, read beside the writer.
    ///
    /// # Errors
    /// If the queue's tables are of another version.
    #[doc(hidden)]
    pub fn beside(writer: &Writer) -> Result<Self> {
        inspect::read(writer, schema::refuse_unless_known)?;
        Ok(Self(ViewSource::Writer(writer.clone())))
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
        self.of_queue(queue, move |connection, queue| stats::collect_of(connection, queue, now_ms))
    }

    /// A page of a queue's jobs, as [`Queue::list`](super::Queue::list) gives it.
    ///
    /// # Errors
    /// As [`names`](Self::names).
    pub fn list(&self, queue: &str, options: &ListOptions) -> Result<Option<Vec<JobInfo>>> {
        let options = options.clone();
        let list = move |connection: &_, queue| inspect::list_of(connection, queue, &options);
        self.of_queue(queue, list)
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

    /// The name of the queue that has the job of this number.
    ///
    /// # Errors
    /// As [`names`](Self::names).
    #[doc(hidden)]
    pub fn queue_of(&self, id: i64) -> Result<Option<String>> {
        self.read(move |connection| {
            if schema::version(connection)? == 0 {
                return Ok(None);
            }
            let sql = "SELECT name FROM leafpress_queue
                       WHERE id = (SELECT queue FROM leafpress_job WHERE id = ?1)";
            let name = connection.query_row(sql, [id], |row| row.get(0)).optional();
            name.map_err(|source| Error::sqlite("find the queue of a job", source))
        })
    }

    /// The job of this number, in whatever queue, and its attempts.
    ///
    /// # Errors
    /// As [`names`](Self::names).
    pub fn job(&self, id: i64) -> Result<Option<(JobInfo, Vec<Attempt>)>> {
        self.read(move |connection| {
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

    fn of_queue<T: Send + 'static>(
        &self,
        name: &str,
        read: impl Fn(&Connection, i64) -> Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let name = name.to_owned();
        self.read(move |connection| {
            if schema::version(connection)? == 0 {
                return Ok(None);
            }
            let queue = find_queue(&Work::outside(connection), &name)?;
            queue.map(|queue| read(connection, queue)).transpose()
        })
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (candidate, connection) = match &self.0 {
            ViewSource::Candidate { candidate, connection } => (candidate, connection),
            ViewSource::Writer(writer) => return inspect::read(writer, read),
        };
        let refused = |error| candidate.refused("read the queues", error);
        let moment = connection.unchecked_transaction().map_err(refused)?;
        let found = read(&moment)?;
        moment.finish().map_err(refused)?;
        candidate.still_the_same()?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Job, Queue};

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
    fn beside_a_writer_it_reads_what_another_transaction_holds_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        let writer = Writer::builder(&path).open().unwrap();
        let queue = Queue::open(&writer, "mail").unwrap();
        let first = queue.push(Job::new("to ann")).unwrap().id;
        let view = QueuesView::beside(&writer).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert_eq!(view.names().unwrap(), ["mail"]);
        assert_eq!(view.stats("mail").unwrap().unwrap().jobs.ready, 1);
        assert_eq!(view.list("mail", &ListOptions::new()).unwrap().unwrap().len(), 1);
        assert_eq!(view.schedules("mail").unwrap(), Some(Vec::new()));
        assert_eq!(view.job(first).unwrap().unwrap().0.queue, "mail");
        other.execute_batch("ROLLBACK").unwrap();
        queue.push(Job::new("to bob")).unwrap();
        assert_eq!(view.stats("mail").unwrap().unwrap().jobs.ready, 2);
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

    #[test]
    fn a_wait_may_be_longer_than_sqlite_knows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        let view = QueuesView::open_within(&path, Duration::MAX).unwrap();
        assert!(view.names().unwrap().is_empty());
    }
}
