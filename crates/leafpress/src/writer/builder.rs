//! Opening of a writer, and its limits.
//!
//! Every limit is documented with the failure that it prevents.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;

use super::busy::BusyClock;
use super::call_queue::{CallQueue, Grouping};
use super::engine::{self, End, Engine};
use super::interrupt::Interrupts;
use super::local::LocalTarget;
use super::log_room::LogRoom;
use super::on_connect::OnConnect;
use super::place::DatabasePlace;
use super::readers::{ReaderLimits, ReaderPool};
use super::shared::{LogOfMembers, NotJoined, Sharing};
use super::stats::Recorder;
use super::target::CommitTarget;
use super::transaction_hooks::TransactionHooksPlace;
use super::{Local, Shared, Writer};
use crate::checkpoint::{CheckpointLimits, Checkpointer, CommonLog};
use crate::error::{Error, Result};
use crate::fork::OfProcess;
use crate::new_file::disk;
use crate::paths::folder_of;
use crate::profile::{self, AtomicWish, InForce, Locking, Profile, ProfileRequest};
use crate::storage::FileSystem;
use crate::vfs::{database_file, locks};
use crate::words::path_text;

/// Default of the calls that may wait before `submit` waits too.
const QUEUE_CAPACITY: usize = 8_192;
/// Default of the calls in one group.
const GROUP_CALLS_MAX: usize = 8_192;

const AFTER_A_FAILED_SYNC: &str = "a sync of its log has failed for a writer that is still open, so a \
     commit after that may be lost in a power cut";

/// Opens a [`Writer`].
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// use leafpress::Profile;
/// use leafpress::writer::Writer;
///
/// let writer = Writer::builder(&path).profile(Profile::Relaxed).max_group(1_000).open()?;
/// writer.execute_batch("CREATE TABLE note(text)")?;
/// writer.close()?;
/// # Ok::<(), leafpress::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is opened before `open`"]
pub struct WriterBuilder {
    path: PathBuf,
    request: ProfileRequest,
    queue_capacity: usize,
    grouping: Grouping,
    checkpoint_limits: CheckpointLimits,
    reader_limits: ReaderLimits,
    call_limit: Option<Duration>,
    on_connect: OnConnect,
    is_shared: bool,
    beside: Option<PathBuf>,
}

impl WriterBuilder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            request: ProfileRequest::default(),
            queue_capacity: QUEUE_CAPACITY,
            grouping: Grouping { calls_max: GROUP_CALLS_MAX, delay_max: Duration::ZERO },
            checkpoint_limits: CheckpointLimits::default(),
            reader_limits: ReaderLimits::default(),
            call_limit: None,
            on_connect: OnConnect::default(),
            is_shared: false,
            beside: None,
        }
    }

    /// Promise of the commits; [`Profile::Durable`] without this call.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.request.profile = profile;
        self
    }

    /// Allows [`Profile::Rebuildable`]: the file can be made anew.
    pub fn rebuildable_ok(mut self) -> Self {
        self.request.may_be_rebuilt = true;
        self
    }

    /// Turns foreign keys on or off. Without this call the linked SQLite's own default holds; the
    /// SQLite that is built in enforces them.
    pub fn foreign_keys(mut self, enforced: bool) -> Self {
        self.request.foreign_keys = Some(enforced);
        self
    }

    /// Bytes in a page, for a new database.
    pub fn page_size(mut self, bytes: u32) -> Self {
        self.request.page_size = Some(bytes);
        self
    }

    /// Name of a registered VFS through which the database is opened.
    pub fn vfs(mut self, name: impl Into<String>) -> Self {
        self.request.vfs = Some(name.into());
        self
    }

    /// Sets when transactions of one page may be written in place, without a journal, under
    /// [`Profile::Rollback`]. Without this call: where the disk proves that it writes pages whole.
    pub fn atomic(mut self, wish: AtomicWish) -> Self {
        self.request.atomic = wish;
        self
    }

    /// Sets which connections may use the database beside this writer: all, without this call.
    /// [`Locking::Exclusive`] is for profiles without a write-ahead log; such a writer is faster,
    /// and has no readers.
    pub fn locking(mut self, locking: Locking) -> Self {
        self.request.locking = locking;
        self
    }

    /// Shares the database with the writers of other processes that ask for the same: they write one
    /// after the other, first come, first served, and one sync of the log serves all that have
    /// committed before it. Without this call each process syncs for itself, and processes that
    /// write at the same time meet at SQLite's lock.
    ///
    /// Nothing else has to run, and no process needs another one: any of them may be killed at any
    /// time, and each call of the others is answered as always. The processes meet at the file
    /// `<database>-shared`, which only those may open who may write the database; the last one removes it. Programs
    /// that use SQLite without Leafpress may read and write beside them.
    ///
    /// Under [`Profile::Durable`] a commit can be read by others a moment before it is on disk, as
    /// under [`Profile::Relaxed`]; its own call is answered when it is there. Where processes cannot
    /// share (another version of Leafpress, a system without such files, a VFS of the caller's own),
    /// the writer works by itself; [`stats`](Writer::stats) says why.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// use leafpress::writer::Writer;
    ///
    /// let writer = Writer::builder(&path).shared().open()?; // in each process
    /// writer.execute_batch("CREATE TABLE IF NOT EXISTS note(text)")?;
    /// writer.execute("INSERT INTO note VALUES (?1)", ["from one of them"])?;
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    pub fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// As [`shared`](Self::shared), with the file `-shared` beside another path than that of the
    /// database, and through any VFS. For tests.
    #[doc(hidden)]
    pub fn shared_beside(mut self, path: impl Into<PathBuf>) -> Self {
        self.beside = Some(path.into());
        self.shared()
    }

    /// Uses less memory for the writer's connection, for devices where a few hundred kilobytes
    /// matter. Its readers keep what they need.
    pub fn small(mut self) -> Self {
        self.request.small = true;
        self
    }

    /// Longest wait for the lock of another connection (5 s). After it the calls of a group are
    /// answered [`Busy`](crate::ErrorKind::Busy): else a neighbour that never ends its transaction
    /// would stop all callers for ever.
    pub fn busy_limit(mut self, limit: Duration) -> Self {
        self.request.busy_timeout = limit;
        self
    }

    /// Largest number of calls that may wait for their group (8,192): without it, callers faster
    /// than the disk would fill the memory.
    pub fn queue_capacity(mut self, calls: usize) -> Self {
        self.queue_capacity = calls;
        self
    }

    /// Largest number of calls in one group (8,192): one that fails late makes the others wait for
    /// a replay of the group.
    pub fn max_group(mut self, calls: usize) -> Self {
        self.grouping.calls_max = calls.max(1);
        self
    }

    /// Longest wait of a group's first call for others to join it (none). Groups form by themselves
    /// while the last one is being committed. A delay makes fewer, larger commits, for disks that
    /// wear out.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.grouping.delay_max = delay;
        self
    }

    /// The longest time that one call may run (no limit) before it is stopped and answered
    /// [`TimedOut`](crate::ErrorKind::TimedOut): else a statement that never ends would stop
    /// all callers for ever. Nothing of that call is written, and the others of its group are
    /// carried out.
    ///
    /// Waiting for its turn, for locks and for the commit is not counted. A closure is stopped
    /// in its next statement, not in code of its own, and one that ends too late without
    /// another statement is committed all the same.
    /// [`Writer::with_call_limit`] sets another limit for some calls.
    pub fn call_limit(mut self, limit: Duration) -> Self {
        self.call_limit = Some(limit);
        self
    }

    /// Prepares each connection on which SQL of callers runs, before any does: the writer's own,
    /// and each [`reader`](Writer::reader) as it is opened. For functions, collations, modules
    /// and extensions that the schema or its callers need, and for pragmas. A second call adds a
    /// second closure.
    ///
    /// It may not change what the profile has set, nor leave a transaction open or a database
    /// attached: then opening fails. An authorizer, a busy or progress handler or a commit hook that it
    /// sets is replaced by Leafpress's own: for untrusted SQL open a connection of your own.
    ///
    /// Collations, functions and the like are behind features of rusqlite: add that crate, in the
    /// version of [`leafpress::rusqlite`](crate::rusqlite), with `collation` or `functions`.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// use leafpress::writer::Writer;
    ///
    /// let by_length = |a: &str, b: &str| a.len().cmp(&b.len());
    /// let writer = Writer::builder(&path)
    ///     .on_connect(move |connection| Ok(connection.create_collation("by_length", by_length)?))
    ///     .open()?;
    /// writer.execute_batch("CREATE TABLE word(text UNIQUE COLLATE by_length)")?;
    /// writer.execute("INSERT INTO word VALUES ('tea')", ())?;
    /// assert!(writer.execute("INSERT INTO word VALUES ('cup')", ()).is_err());
    /// let is_there = "SELECT count(*) FROM word WHERE text = 'pot'";
    /// let found = writer.reader()?.query_row(is_there, [], |row| row.get::<_, i64>(0))?;
    /// assert_eq!(found, 1);
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    pub fn on_connect(
        mut self,
        prepare: impl Fn(&Connection) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_connect.add(prepare);
        self
    }

    /// When the write-ahead log is copied into the database, and how large it
    /// may become.
    pub fn checkpoint_limits(mut self, limits: CheckpointLimits) -> Self {
        self.checkpoint_limits = limits;
        self
    }

    /// Largest number of readers that may be out at once (16), and longest wait of
    /// [`reader`](Writer::reader) for one to come back (5 s): without it, a leak of readers would
    /// use up the process's files.
    pub fn readers(mut self, size_max: usize, wait_max: Duration) -> Self {
        self.reader_limits = ReaderLimits { size_max, wait_max };
        self
    }

    /// Opens the database, and makes it if it is missing.
    ///
    /// # Errors
    /// As [`profile::open`]; and if the linked SQLite cannot make checkpoints in
    /// the background without danger, under a profile with a write-ahead log; and, of a
    /// [`shared`](Self::shared) writer, if a sync of the log has failed for one that is still open.
    pub fn open(self) -> Result<Writer> {
        if self.request.profile.is_wal() {
            profile::check_background_checkpoints(rusqlite::version_number())?;
        }
        let (connection, mut in_force) = profile::open(&self.path, &self.request)?;
        self.on_connect.prepare_writer(&connection, &mut in_force)?;
        let sharing =
            if self.is_shared { Some(self.share(&connection, &mut in_force)?) } else { None };
        let place = DatabasePlace::of(&connection, &self.path, &self.request)?;
        // The readers use the same VFS. Two VFSs in one process would not know of one another's
        // descriptors, and closing one descriptor releases all POSIX locks of the file.
        let ours = profile::ours(&connection).map(|(vfs, _)| vfs.name().to_owned());
        let vfs = ours.or_else(|| self.request.vfs.clone());
        // The absolute path: later opens must not depend on the folder that the process is in then.
        let path = dunce::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let readers = ReaderPool::new(&path, vfs, self.reader_limits, self.on_connect);
        let readers = if self.request.vfs.is_none() { readers.watching_place() } else { readers };
        let is_wal = self.request.profile.is_wal();
        let joined = sharing.as_ref().and_then(|it| it.as_ref().ok()).map(Arc::clone);
        let sharing = sharing.map(|it| it.map(|sharing| Arc::downgrade(&sharing)));
        let gate = self.checkpoint_limits.gate();
        let checkpointer = if is_wal {
            let log = joined.as_ref().map(|sharing| LogOfMembers::new(Arc::clone(sharing)));
            let log = log.map(|log| Arc::new(log) as Arc<dyn CommonLog>);
            let pool = readers.clone();
            let oldest = move || pool.oldest().map(|reader| reader.name);
            let (vfs, limits) = (self.request.vfs.as_deref(), &self.checkpoint_limits);
            Some(Checkpointer::start(&path, vfs, limits, Arc::clone(&gate), log, oldest)?)
        } else {
            None
        };
        let hooks = TransactionHooksPlace::default();
        let interrupts = Arc::<Interrupts>::default();
        let busy = BusyClock::new(self.request.busy_timeout, Arc::clone(&interrupts), joined);
        let target = LocalTarget::new(
            connection,
            busy,
            is_wal.then_some(gate),
            &in_force,
            hooks.clone(),
            Arc::clone(&interrupts),
            place,
        )
        .map_err(|source| Error::sqlite("prepare the writer's connection", source))?;
        let room = LogRoom::of(&in_force, self.checkpoint_limits.wal_bytes_max);
        let target = target.with_log_room(room).with_readers(readers.clone());
        let counts = target.counts();
        let checkpointer = Arc::new(Mutex::new(checkpointer));
        let local = Local { in_force, readers, checkpointer, counts, hooks, sharing };
        let queue = CallQueue::new(self.queue_capacity, interrupts);
        let mut writer = Self::start(Box::new(target), queue, self.grouping, Some(local))?;
        writer.call_limit = self.call_limit;
        Ok(writer)
    }

    /// Joins the writers that share the database; the inner error is the reason why this one works
    /// by itself.
    fn share(
        &self,
        connection: &Connection,
        in_force: &mut InForce,
    ) -> Result<Result<Arc<Sharing>, String>> {
        match self.join(connection, in_force) {
            Ok(sharing) => {
                in_force.share_syncs(connection)?;
                Ok(Ok(Arc::new(sharing)))
            }
            Err(NotJoined::Alone(reason)) => Ok(Err(reason)),
            Err(NotJoined::SyncFailed) => Err(Error::destination(&self.path, AFTER_A_FAILED_SYNC)
                .on_disk("what was there before")
                .to_do("close the database in all processes, and open it again")),
        }
    }

    fn join(&self, connection: &Connection, in_force: &InForce) -> Result<Sharing, NotJoined> {
        let database = match (&self.beside, database_file::path(connection)) {
            (Some(path), _) => path.clone(),
            (None, _) if self.request.vfs.is_some() => {
                return Err("only the VFS that was named knows where the files are".into());
            }
            (None, Some(path)) => path,
            (None, None) => return Err("the database is no file, or its name is no text".into()),
        };
        if in_force.locking == Locking::Exclusive {
            return Err("no other connection may use the database (exclusive locking)".into());
        }
        if let Ok(found) = FileSystem::of(folder_of(&database))
            && found.nature.refuses_wal()
        {
            return Err(format!(
                "the database lies on {found}, and machines share no memory by which writers could"
            )
            .into());
        }
        if in_force.profile.is_wal() && self.beside.is_none() {
            // The log was made by now, and the process that made it syncs the folder later.
            let folder = folder_of(&database);
            disk::Folder::open(folder)
                .and_then(|folder| folder.sync())
                .map_err(|it| format!("{} cannot be synced: {it}", path_text(folder)))?;
        }
        Sharing::join(&database)
    }

    pub(super) fn start(
        target: Box<dyn CommitTarget>,
        queue: CallQueue,
        grouping: Grouping,
        local: Option<Local>,
    ) -> Result<Writer> {
        // From now on forks are counted, also where no database of this process is open.
        locks::ensure();
        let queue = Arc::new(queue);
        let recorder = Arc::new(Recorder::new());
        let counts = local.as_ref().map(|local| Arc::clone(&local.counts));
        let engine =
            Engine::new(target, grouping, Arc::clone(&queue), Arc::clone(&recorder), counts);
        let engine = Arc::new(Mutex::new(engine));
        let end = Arc::<End>::default();
        let shut_down = local.as_ref().map_or_else(|| Box::new(|| Ok(())) as _, Local::shut_down);
        let (for_thread, of_thread) = (Arc::clone(&queue), Arc::clone(&end));
        let thread = engine::start_thread(Arc::clone(&engine), for_thread, of_thread, shut_down)?;
        let shared = Shared { queue, engine, recorder, local, end, thread: Some(thread).into() };
        Ok(Writer { shared: Arc::new(OfProcess::new("writer", shared)), call_limit: None })
    }
}
