//! The calls of [`every_call`](super): all functions of `leafpress` that take a database's
//! path or a Writer, what the standard library does to files, and what a neighbour does.
//!
//! Must never: change the rows that the test counts, those of table `t`.

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafpress::load::{Indexer, IntoTable, Loader};
use leafpress::profile::{self, ProfileRequest};
use leafpress::queue::{self, Job, Queue, QueuesView};
use leafpress::storage::{self, FileSystem, StorageOptions};
use leafpress::verify::{VerifyOptions, verify};
use leafpress::vfs::{PlatformVfs, leafpress_vfs, register};
use leafpress::writer::{Maintenance, Writer};
use leafpress::{Profile, memory};
use leafpress_neighbour::{Connection as NeighboursConnection, Neighbour};
use rusqlite::{Connection, OpenFlags};

use super::writer_of;

/// The database and the Writer that a call is given.
pub struct Given<'a> {
    pub path: &'a Path,
    pub profile: Profile,
    pub writer: &'a Writer,
}

impl Given<'_> {
    fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    fn request(&self) -> ProfileRequest {
        let request = ProfileRequest::new(self.profile).rebuildable_ok();
        request.busy_timeout(Duration::from_millis(100))
    }

    fn neighbour(&self) -> Result<NeighboursConnection, leafpress_neighbour::Error> {
        Neighbour::load().open(self.path, Duration::from_millis(100))
    }

    fn neighbour_by(&self, option: &str) -> Result<i64, leafpress_neighbour::Error> {
        let uri = format!("file:{}?{option}", self.path.display());
        Neighbour::load().open_by(&uri, Duration::ZERO, None)?.query_i64(COUNT)
    }
}

const COUNT: &str = "SELECT count(*) FROM t";

/// The answers that a call may give beside an open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meets {
    /// It is done meanwhile and must succeed.
    Succeeds,
    /// It may be answered that others hold locks.
    MayBeRefused,
    /// Any answer is right: what matters is what it does to locks.
    IsHarmless,
    /// It needs the writer itself, so it is done only where no transaction is open.
    Waits,
}

type Answer = Result<(), Box<dyn Error>>;
type Call = (&'static str, Meets, fn(&Given<'_>) -> Answer);

/// Whose work a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Our copy's.
    Ours,
    /// The standard library's. It drops a neighbour's locks, and our copy cannot help it.
    Files,
    /// The second copy's.
    Neighbour,
}

fn done<T, E: Into<Box<dyn Error>>>(outcome: Result<T, E>) -> Answer {
    outcome.map(drop).map_err(Into::into)
}

/// All calls.
pub fn calls() -> Vec<(By, Call)> {
    let groups = [
        (By::Ours, [looks(), opens(), writes()].concat()),
        (By::Files, past_sqlite()),
        (By::Neighbour, neighbours()),
    ];
    let calls =
        groups.into_iter().flat_map(|(by, calls)| calls.into_iter().map(move |it| (by, it)));
    calls.collect()
}

/// Functions that look at a database.
fn looks() -> Vec<Call> {
    use Meets::{MayBeRefused, Succeeds};
    vec![
        ("verify", MayBeRefused, |it| done(verify(it.path, &VerifyOptions::default()))),
        ("verify, quick", MayBeRefused, |it| {
            done(verify(it.path, &VerifyOptions::default().quick(true)))
        }),
        ("Loader::load_file of it", Succeeds, |it| {
            done(Loader::new(it.beside("loaded.db")).load_file(it.path))
        }),
        ("Loader::load_file of its table", Succeeds, |it| {
            let table = format!("{}::t", it.path.display());
            done(Loader::new(it.beside("loaded-table.db")).load_file(table))
        }),
        ("Loader::dry_run_file of it", Succeeds, |it| {
            done(Loader::new(it.beside("dry.db")).dry_run_file(it.path))
        }),
        ("Loader::dry_run_reader into it", Succeeds, |it| {
            done(Loader::new(it.path).table("u").dry_run_reader("u.csv", &b"x\n1\n"[..]))
        }),
        ("storage::measure", Succeeds, |it| {
            let options = StorageOptions::default().time(Duration::from_millis(20));
            done(storage::measure(it.path, &options))
        }),
        ("storage::FileSystem::of", Succeeds, |it| done(FileSystem::of(it.path))),
        ("memory::of, memory::shrink", Succeeds, |it| {
            let connection = Connection::open(it.path)?;
            memory::of(&connection);
            done(memory::shrink(&connection))
        }),
        ("Writer::stats, in_force", Succeeds, |it| {
            it.writer.in_force().map(ToString::to_string);
            it.writer.stats();
            Ok(())
        }),
        ("queue::names", MayBeRefused, |it| done(queue::names(it.writer))),
        ("queue::QueuesView", MayBeRefused, |it| {
            done(QueuesView::open(it.path).and_then(|view| view.names()))
        }),
    ]
}

/// Connections and writers that come and go.
fn opens() -> Vec<Call> {
    use Meets::{MayBeRefused, Succeeds};
    vec![
        ("profile::open", MayBeRefused, |it| done(profile::open(it.path, &it.request()))),
        ("profile::open_reader", Succeeds, |it| {
            let connection = profile::open_reader(it.path, None)?;
            done(connection.query_row(COUNT, [], |row| row.get::<_, i64>(0)))
        }),
        ("Writer::reader", MayBeRefused, |it| {
            let reader = it.writer.reader()?;
            done(reader.query_row(COUNT, [], |row| row.get::<_, i64>(0)))
        }),
        ("another Writer", MayBeRefused, |it| done(writer_of(it.path, it.profile)?.close())),
        ("leafpress_vfs", Succeeds, |it| {
            let name = leafpress_vfs()?.name();
            let flags = OpenFlags::default();
            let connection = Connection::open_with_flags_and_vfs(it.path, flags, name)?;
            done(connection.query_row(COUNT, [], |row| row.get::<_, i64>(0)))
        }),
        ("vfs::register", Succeeds, |it| {
            let registration = register("every-call", PlatformVfs::new())?;
            let (flags, name) = (OpenFlags::default(), registration.name());
            let connection = Connection::open_with_flags_and_vfs(it.path, flags, name)?;
            done(connection.query_row(COUNT, [], |row| row.get::<_, i64>(0)))
        }),
        ("rusqlite, opened and closed", Succeeds, |it| done(Connection::open(it.path))),
        ("rusqlite, a query", Succeeds, |it| {
            let connection = Connection::open(it.path)?;
            done(connection.query_row(COUNT, [], |row| row.get::<_, i64>(0)))
        }),
        ("rusqlite, a checkpoint", MayBeRefused, |it| {
            let connection = Connection::open(it.path)?;
            connection.busy_timeout(Duration::from_millis(100))?;
            done(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
        }),
    ]
}

/// Functions that write to the same database.
fn writes() -> Vec<Call> {
    use Meets::Waits;
    vec![
        ("Loader::load_reader into it", Waits, |it| {
            let loader = Loader::new(it.path).table("u");
            done(loader.load_reader("u.csv", &b"x\n1\n2\n"[..]))
        }),
        ("Loader::load_reader, a table more", Waits, |it| {
            it.writer.execute_batch("CREATE TABLE w (x INTEGER)")?;
            let loader = Loader::new(it.path).table("w").into_table(IntoTable::Append);
            done(loader.load_reader("w.csv", &b"x\n1\n2\n"[..]))
        }),
        ("Indexer", Waits, |it| done(Indexer::new(it.path, "t").build("x"))),
        ("queue: open, push, claim, ack", Waits, |it| {
            let queue = Queue::open(it.writer, "jobs")?;
            queue.push_many([Job::bytes(*b"one"), Job::bytes(*b"two")])?;
            let claim = queue.claim()?.ok_or("no job")?;
            queue.ack(claim.token)?;
            queue.stats()?;
            done(queue.purge(&queue::Purge::new()))
        }),
        ("queue: push_on", Waits, |it| {
            drop(Queue::open(it.writer, "jobs")?);
            let mut connection = Connection::open(it.path)?;
            let transaction = connection.transaction()?;
            Queue::push_on(&transaction, "jobs", Job::bytes(*b"one"))?;
            done(transaction.commit())
        }),
        ("Writer::transaction_scoped, maintain", Waits, |it| {
            it.writer.transaction_scoped(|tx| tx.execute_script("CREATE TABLE s (x INTEGER)"))?;
            it.writer.maintain(Maintenance::Vacuum)?;
            done(it.writer.maintain(Maintenance::Optimize))
        }),
        ("Writer::backup_to", Waits, |it| {
            let copy = it.path.with_extension("backup");
            it.writer.backup_to(&copy)?;
            done(fs::remove_file(copy))
        }),
        ("queue: drop_queue", Waits, |it| done(Queue::open(it.writer, "jobs")?.drop_queue())),
    ]
}

/// Uses of the files without SQLite, such as a backup or a checksum.
fn past_sqlite() -> Vec<Call> {
    use Meets::Succeeds;
    vec![
        ("std::fs::read", Succeeds, |it| done(fs::read(it.path))),
        ("std::fs::copy", Succeeds, |it| done(fs::copy(it.path, it.beside("copy.db")))),
        ("File::open, and dropped", Succeeds, |it| done(File::open(it.path))),
        ("File::open of all files beside it", Succeeds, |it| {
            for end in ["-wal", "-shm", "-journal"] {
                let beside = it.beside(&format!("a.db{end}"));
                if beside.exists() {
                    File::options().read(true).write(true).open(beside)?;
                }
            }
            Ok(())
        }),
        ("std::fs::read of all files beside it", Succeeds, |it| {
            for end in ["-wal", "-shm", "-journal"] {
                let beside = it.beside(&format!("a.db{end}"));
                if beside.exists() {
                    fs::read(beside)?;
                }
            }
            Ok(())
        }),
    ]
}

/// Uses of the database by another copy of SQLite.
fn neighbours() -> Vec<Call> {
    use Meets::{IsHarmless, MayBeRefused, Succeeds};
    vec![
        ("neighbour, opened and closed", Succeeds, |it| {
            drop(it.neighbour().map_err(text)?);
            Ok(())
        }),
        ("neighbour, a query", Succeeds, |it| {
            done(it.neighbour().map_err(text)?.query_i64(COUNT).map_err(text))
        }),
        ("neighbour, immutable=1", IsHarmless, |it| {
            done(it.neighbour_by("immutable=1").map_err(text))
        }),
        ("neighbour, mode=ro", Succeeds, |it| done(it.neighbour_by("mode=ro").map_err(text))),
        ("neighbour, nolock=1", IsHarmless, |it| {
            done(it.neighbour_by("nolock=1&mode=ro").map_err(text))
        }),
        ("neighbour, a checkpoint", MayBeRefused, |it| {
            let connection = it.neighbour().map_err(text)?;
            done(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").map_err(text))
        }),
        ("neighbour, BEGIN IMMEDIATE", MayBeRefused, |it| {
            done(it.neighbour().map_err(text)?.execute("BEGIN IMMEDIATE").map_err(text))
        }),
    ]
}

fn text(error: leafpress_neighbour::Error) -> String {
    format!("{error:?}")
}
