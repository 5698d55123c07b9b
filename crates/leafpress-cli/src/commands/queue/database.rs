//! A queue's database in a file: opened, or made with its first queue.
//!
//! Schedules, which a cluster does not keep, are refused there by [`refuse_cluster`]. Must never: make a
//! database or a queue for an action that only makes sense on one that is there, or change a journal
//! mode unasked.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use leafpress::load::make_new;
use leafpress::path_text;
use leafpress::queue::{Queue, QueuesView, names};
use leafpress::vfs::locks::FileHandle;
use leafpress::writer::{Writer, WriterBuilder};
use leafpress::{Error, ErrorKind, Profile, Result};
use leafpress_format::header;

#[cfg(not(feature = "rqlite"))]
use crate::cluster::unreachable as refused;
use crate::cluster::{name_of, url_of};
use crate::flags::{QueueCommonFlags, QueuePlaceFlags};
use crate::human;
use crate::output;

/// A database that is open, and its name in messages.
pub struct Database {
    path: PathBuf,
    pub writer: Writer,
}

impl Database {
    /// Opens a database that exists.
    pub fn existing(path: &Path, common: &QueueCommonFlags) -> Result<Self> {
        refuse_missing(path)?;
        Self::open(path, path, common)
    }

    /// Opens a database that exists, for work that lasts: beside other processes that write, unless
    /// `works_alone`.
    pub fn existing_for_long(
        path: &Path,
        common: &QueueCommonFlags,
        works_alone: bool,
    ) -> Result<Self> {
        if works_alone {
            return Self::existing(path, common);
        }
        refuse_missing(path)?;
        let database = Self::opened(path, builder(path, common).shared())?;
        note_if_it_does_not_share(path, &database.writer);
        Ok(database)
    }

    /// Opens a database that messages call `named`.
    fn open(path: &Path, named: &Path, common: &QueueCommonFlags) -> Result<Self> {
        Self::opened(named, builder(path, common))
    }

    fn opened(named: &Path, builder: WriterBuilder) -> Result<Self> {
        let writer = builder.open()?;
        note_what_is_not_durable(named, &writer);
        Ok(Self { path: named.to_owned(), writer })
    }

    /// A queue that is there.
    pub fn queue(&self, name: &str) -> Result<Queue> {
        match Queue::builder(&self.writer, name).must_exist().open() {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) => {
                Err(no_such_queue(&self.path, name, &names(&self.writer)?))
            }
            opened => opened,
        }
    }

    /// Any queue of the database: each of them takes the calls on tokens.
    pub fn any_queue(&self) -> Result<Queue> {
        let first = names(&self.writer)?.into_iter().next();
        let first = first.ok_or_else(|| self.not_found("queue", "", "it has no queue"))?;
        self.queue(&first)
    }

    /// The queue that a job is in, if there is such a job.
    pub fn queue_of(&self, job: i64) -> Result<Option<Queue>> {
        let found = QueuesView::beside(&self.writer)?.queue_of(job)?;
        found.map(|name| self.queue(&name)).transpose()
    }

    /// Error about something that the database does not have.
    pub fn not_found(&self, what: &'static str, name: &str, reason: &str) -> Error {
        not_found(&self.path, what, name, reason)
    }
}

fn builder(path: &Path, common: &QueueCommonFlags) -> WriterBuilder {
    let profile = common.profile.map_or_else(|| usual_profile(path), Profile::from);
    Writer::builder(path).profile(profile).busy_limit(common.busy_timeout)
}

pub fn refuse_missing(path: &Path) -> Result<()> {
    refuse_cluster(path)?;
    let error = match path.metadata() {
        // SQLite takes it for a new database, and opening it would make it one.
        Ok(found) if found.is_file() && found.len() == 0 => {
            let reason = format!("{} is empty: it has no queue yet", path_text(path));
            Error::not_found("file", path_text(path), reason).on_disk("nothing was changed")
        }
        Err(source) if source.kind() == io::ErrorKind::NotFound => Error::io("open", path, source)
            .on_disk("there is no such database, and nothing was made"),
        // Other errors are told when it is opened.
        _ => return Ok(()),
    };
    Err(error.to_do("look at the path, or make it with `leafpress queue push`"))
}

/// The error for something that a database does not have.
fn not_found(path: &Path, what: &'static str, name: &str, reason: &str) -> Error {
    Error::not_found(what, name, format!("{}: {reason}", name_of(path)))
        .on_disk("nothing was changed")
}

/// Limit of the names of queues that an error shows.
const NAMES_SHOWN_MAX: usize = 20;

pub fn no_such_queue(path: &Path, name: &str, names: &[String]) -> Error {
    let shown = &names[..names.len().min(NAMES_SHOWN_MAX)];
    let known = match (names.len(), names.len() - shown.len()) {
        (0, _) => "it has none".to_owned(),
        (_, 0) => format!("it has {}", shown.join(", ")),
        (_, more) => format!("it has {} and {more} more", shown.join(", ")),
    };
    not_found(path, "queue", name, &format!("there is no queue '{name}'"))
        .to_do(format!("{known}; pushing to a queue makes it"))
}

pub fn no_such_job(path: &Path, id: i64) -> Error {
    not_found(path, "job", &id.to_string(), &format!("there is no job {id}"))
        .to_do("see `leafpress queue list`; jobs that are done go, unless the queue keeps them")
}

/// Does something with a queue that is made if it is missing, as is its database.
///
/// # Errors
/// Those of `act`, and of a new database that cannot be finished: one that was missing is missing
/// still.
pub fn with_made_queue<T>(
    path: &Path,
    name: &str,
    common: &QueueCommonFlags,
    mut act: impl FnMut(&Queue) -> Result<T>,
) -> Result<T> {
    refuse_cluster(path)?;
    refuse_swapped(path, name)?;
    let mut act_at = |at: &Path| -> Result<(T, Result<()>)> {
        let database = Database::open(at, path, common)?;
        let done = act(&Queue::open(&database.writer, name)?)?;
        Ok((done, database.writer.close()))
    };
    if path.symlink_metadata().is_err() {
        let made = make_new(path, |hidden| {
            let (done, closed) = act_at(hidden)?;
            // The hidden file goes, and its log with it.
            let missing = |error: Error| {
                error
                    .on_disk_instead("no database was made")
                    .to_do_instead("see that the disk has room and is sound, and try again")
            };
            closed.map(|()| done).map_err(missing)
        });
        match made {
            // Another process has made it in the meantime.
            Err(error) if is_made_meanwhile(&error) && path.is_file() => {}
            made => return made,
        }
    }
    let (done, closed) = act_at(path)?;
    if let Err(error) = closed {
        // `act` has committed, and its commits are in the log. A failure reported here would make
        // a script that tries again push its jobs twice.
        warn_not_closed(path, &error);
    }
    Ok(done)
}

fn is_made_meanwhile(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Changed { .. } | ErrorKind::Destination { .. })
}

/// Warns that a database could not be tidied up after work that is done and stays done.
fn warn_not_closed(path: &Path, error: &Error) {
    let kept = "what was done is in the database and its -wal file, which belong together";
    output::print_warning(&format!("{}: {}; {kept}", path_text(path), error.kind()));
}

/// Endings of databases: a hint that DB and QUEUE are swapped.
const DATABASE_ENDINGS: [&str; 4] = ["db", "db3", "sqlite", "sqlite3"];

/// Refuses to make a database that has the name of a queue, for a queue that has that of a database.
fn refuse_swapped(path: &Path, queue: &str) -> Result<()> {
    let ending = Path::new(queue).extension().and_then(|ending| ending.to_str());
    let is_database = ending
        .is_some_and(|it| DATABASE_ENDINGS.iter().any(|known| known.eq_ignore_ascii_case(it)));
    if path.extension().is_some() || !is_database || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let name = path_text(path);
    let reason = format!("there is no database {name}, and {queue} is no name of a queue");
    Err(Error::misuse(reason)
        .on_disk("nothing was made")
        .to_do(format!("the database comes first, then the queue: {queue} {name}")))
}

/// The queue of these flags, if it is there.
pub fn existing_queue(place: &QueuePlaceFlags, common: &QueueCommonFlags) -> Result<Queue> {
    Database::existing(&place.database, common)?.queue(&place.queue)
}

/// Says on standard error if the database lies where nothing survives a power cut.
fn note_what_is_not_durable(path: &Path, writer: &Writer) {
    let Some(in_force) = writer.in_force().filter(|it| !it.not_durable.is_empty()) else { return };
    let path = path_text(path);
    output::print_message(&output::note(&human::printable(&format!(
        "{path}: nothing here survives a power cut: {}",
        in_force.not_durable.join("; ")
    ))));
}

/// Says on standard error why the writer does not share the database with other processes.
fn note_if_it_does_not_share(path: &Path, writer: &Writer) {
    let Some(why_not) = writer.stats().sharing.and_then(|sharing| sharing.why_not) else { return };
    let path = path_text(path);
    output::print_message(&output::note(&human::printable(&format!(
        "{path}: this process writes by itself, as with --no-shared: {why_not}"
    ))));
}

/// The profile that changes nothing about a database that is there: its header
/// tells whether it is in WAL mode. One that cannot be read is refused later.
///
/// Only a regular file is opened: a pipe without a writer would wait for ever.
fn usual_profile(path: &Path) -> Profile {
    if !path.is_file() {
        return Profile::Durable;
    }
    let mut start = [0; header::READ_VERSION + 1];
    let read = FileHandle::open(path).and_then(|mut file| file.read_exact(&mut start));
    match read {
        Ok(()) if start[header::READ_VERSION] != header::VERSION_WAL => Profile::Rollback,
        _ => Profile::Durable,
    }
}

/// Refuses the URL of a cluster, for an action that is done on files.
pub fn refuse_cluster(path: &Path) -> Result<()> {
    url_of(path).map_or(Ok(()), |url| Err(refused(url)))
}

/// The error of an action that is done on files.
#[cfg(feature = "rqlite")]
fn refused(_: &str) -> Error {
    Error::unsupported("this action is for a queue in a file, and that is a cluster of rqlite")
        .on_disk("nothing was changed")
        .to_do(
            "a queue on a cluster keeps no schedules: push from a program that a schedule starts",
        )
}
