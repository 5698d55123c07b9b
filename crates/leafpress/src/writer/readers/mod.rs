//! Read-only connections beside the Writer's own.
//!
//! ```text
//! idle ──► get ──► Reader (a guard) ──► drop ──► reset ──► idle
//!                                                  └──► closed, if it cannot be
//! ```
//!
//! Each reader that is out has a name, and the pool knows for how long it has
//! been out: a read transaction that is forgotten stops every checkpoint from
//! finishing, and the write-ahead log then grows without end.
//!
//! Invariants:
//! 1. No more than `size_max` connections are open, those being opened included.
//! 2. A connection in `idle` is in no transaction, has no statement running,
//!    reads nothing but its own database, and cannot write.
//!
//! Must never: touch a connection that is lent out, from another thread. Its reader notes what it
//! does in an [`Activity`], and other threads read that.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::{AuthContext, Authorization};
use serde::Serialize;

use self::activity::Activity;
use super::interrupt::STEPS_BETWEEN;
use super::on_connect::OnConnect;
use super::place::Watched;
use crate::error::{Error, ErrorKind, Result};
use crate::fork::OfProcess;
use crate::profile::open_reader;
use crate::sync::lock;

mod activity;
#[cfg(test)]
mod tests;

/// Limits of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReaderLimits {
    /// Connections that may be open at once. Each has a page cache of its own
    /// (2 MB by SQLite's default) and file descriptors.
    pub size_max: usize,
    /// Longest wait for a reader to come back while all are out. Without an end a thread that holds
    /// one and asks for another would wait for itself.
    pub wait_max: Duration,
}

impl Default for ReaderLimits {
    fn default() -> Self {
        Self { size_max: 16, wait_max: Duration::from_secs(5) }
    }
}

/// A pool of read-only connections.
#[derive(Debug, Clone)]
pub(crate) struct ReaderPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    vfs: Option<String>,
    limits: ReaderLimits,
    on_connect: OnConnect,
    state: Mutex<State>,
    /// The place of the database, where only its file tells.
    place: Option<Watched>,
    /// Notified when a reader comes back or the pool is closed.
    returned: Condvar,
    /// The functions of a connection before its holder adds to them.
    functions: OnceLock<Arc<activity::Functions>>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Pooled>,
    /// Those that are out or being opened, in the order in which they went.
    out: BTreeMap<u64, Out>,
    next: u64,
    /// Reason why no reader is lent any more.
    closed: Option<String>,
}

/// A connection, and what it tells of itself.
#[derive(Debug)]
struct Pooled {
    connection: Connection,
    activity: Arc<Activity>,
}

#[derive(Debug)]
struct Out {
    name: String,
    since: Instant,
    activity: Arc<Activity>,
}

/// A read-only connection, lent until it is dropped.
///
/// Read from it as from any [`rusqlite::Connection`]; that takes `()`, `[]`, tuples, arrays and named
/// parameters as the Writer does. It sees what is committed
/// when a statement or transaction of its own begins. One statement that is
/// stepped through slowly, or one `BEGIN` that is never ended, holds that state
/// for as long, and no checkpoint can go past it: so drop rows, statements and
/// the reader itself as soon as they are done with.
///
/// When it is dropped, a transaction left open is rolled back, and another
/// caller gets the connection with its prepared statements; settings made by
/// PRAGMA stay too. A connection that has databases attached, that was made
/// writable, whose statements called functions of your own, or that cannot be brought to rest
/// is closed instead. A function that was made and not called stays, and so do collations and
/// functions that replace SQLite's own: to use these, open a connection of your own.
///
/// A reader belongs to the process that asked for it. In a child of `fork` it refuses each
/// statement (`SQLITE_AUTH`, "not authorized"), and dropping it does nothing: open a new
/// [`Writer`](super::Writer) there, which has readers of its own. Statements and rows that
/// were under way at the fork must not be used there: they could wait for ever.
#[derive(Debug)]
pub struct Reader {
    lent: OfProcess<Lent>,
    /// The connection that stands in for it in a child of `fork`.
    in_child: OnceCell<Connection>,
}

/// A connection that is out, and the way back.
#[derive(Debug)]
struct Lent {
    /// Present until drop takes it.
    pooled: Option<Pooled>,
    /// True if a function of the holder may stop its reads.
    may_stop: bool,
    id: u64,
    shared: Arc<Shared>,
}

/// A reader that is out.
///
/// Of all readers that are out, this is the one to look at first: the one that has been out longest
/// of those in a read transaction, else the one that has been out longest.
///
/// Precision: the statements of a reader tell when they begin and end, and each use of the
/// reader shows if `BEGIN` was among them. So a running statement is always seen, and a
/// transaction from its `BEGIN` on, even if it has not read anything yet (and then holds
/// nothing). A transaction that begins in another way than by a statement with that first word,
/// such as a comment before it, is seen when the reader is used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OldestReader {
    /// Its name, or the place in the program that asked for it, `src/file.rs:12`.
    pub name: String,
    /// Time since the reader went out; as JSON in seconds, `open_for_s`.
    #[serde(rename = "open_for_s", serialize_with = "crate::times::seconds")]
    pub open_for: Duration,
    /// True if it is in a read transaction, which stops checkpoints.
    pub in_transaction: bool,
}

impl fmt::Display for OldestReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transaction = if self.in_transaction { ", in a read transaction" } else { "" };
        write!(f, "{} for {:.1} s{transaction}", self.name, self.open_for.as_secs_f64())
    }
}

impl ReaderPool {
    /// The database.
    pub(super) fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The VFS that it is opened with, if it is not the default.
    pub(super) fn vfs(&self) -> Option<&str> {
        self.shared.vfs.as_deref()
    }

    /// A pool for the database at `path`, opened with the VFS of that name.
    /// Nothing is opened before it is needed.
    pub fn new(
        path: impl Into<PathBuf>,
        vfs: Option<String>,
        limits: ReaderLimits,
        on_connect: OnConnect,
    ) -> Self {
        let (path, state, returned) = (path.into(), Mutex::default(), Condvar::new());
        let functions = OnceLock::new();
        let shared =
            Shared { path, vfs, limits, on_connect, state, place: None, returned, functions };
        Self { shared: Arc::new(shared) }
    }

    /// Closes the pool once the file at the path is another one: readers that were opened before and
    /// after would see two databases. Call it before the pool is shared.
    pub(super) fn watching_place(mut self) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.place = Watched::database(shared.path.clone());
        }
        self
    }

    /// Lends a connection, by `name` or by the place that calls.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] when `size_max` readers are out and none comes back within
    /// `wait_max`: the error names those that are out. When a database cannot be opened for
    /// reading, or the pool is closed. Nothing is changed by any of them.
    #[track_caller]
    pub fn get(&self, name: Option<&str>) -> Result<Reader> {
        let place = Location::caller();
        let name = name.map_or_else(|| format!("{}:{}", place.file(), place.line()), str::to_owned);
        if let Some(Err(reason)) = self.shared.place.as_ref().map(Watched::look) {
            self.close_because(&reason);
        }
        let (id, idle) = self.take_place(name)?;
        // Gives the place back, also after an error or a panic of `on_connect`.
        let shared = Arc::clone(&self.shared);
        let mut lent = Lent { pooled: idle, may_stop: false, id, shared };
        let pooled = match lent.pooled.take() {
            Some(pooled) => pooled,
            // This caller has its place in the pool already, so no other waits while the file is
            // opened.
            None => self.shared.open()?,
        };
        if let Some(out) = self.shared.state().out.get_mut(&id) {
            out.activity = Arc::clone(&pooled.activity);
        }
        lent.pooled = Some(pooled);
        Ok(Reader { lent: OfProcess::new("reader", lent), in_child: OnceCell::new() })
    }

    /// Enters the name among those that are out, and takes an idle connection if there is one.
    fn take_place(&self, name: String) -> Result<(u64, Option<Pooled>)> {
        let ReaderLimits { size_max, wait_max } = self.shared.limits;
        let is_full =
            |state: &mut State| state.closed.is_none() && state.out.len() >= size_max.max(1);
        let state = self.shared.state();
        let waited = self.shared.returned.wait_timeout_while(state, wait_max, is_full);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = &state.closed {
            return Err(Error::stopped(reason.clone()));
        }
        if waited.timed_out() {
            return Err(all_out(&state, wait_max));
        }
        let idle = state.idle.pop();
        let activity = Arc::default();
        let id = state.next;
        state.next += 1;
        state.out.insert(id, Out { name, since: Instant::now(), activity });
        Ok((id, idle))
    }

    /// The reader to look at first, if one is out; [`OldestReader`] says which it is.
    pub fn oldest(&self) -> Option<OldestReader> {
        let state = self.shared.state();
        let mut oldest: Option<OldestReader> = None;
        for out in state.out.values() {
            let it = out.shown();
            if oldest.as_ref().is_none_or(|oldest| it.in_transaction && !oldest.in_transaction) {
                oldest = Some(it);
            }
        }
        oldest
    }

    /// Closes the idle readers. Readers that are out go on, and are closed when they come back;
    /// later callers get an error.
    pub fn close(&self) {
        self.close_because("it is closed, and its readers with it");
    }

    /// Does as [`close`](Self::close), for another reason. The first one counts.
    pub fn close_because(&self, reason: &str) {
        let idle = {
            let mut state = self.shared.state();
            state.closed.get_or_insert_with(|| reason.to_owned());
            std::mem::take(&mut state.idle)
        };
        self.shared.returned.notify_all();
        drop(idle);
    }
}

impl Out {
    fn shown(&self) -> OldestReader {
        OldestReader {
            name: self.name.clone(),
            open_for: self.since.elapsed(),
            in_transaction: self.activity.in_transaction(),
        }
    }
}

fn all_out(state: &State, waited: Duration) -> Error {
    let holders: Vec<String> = state.out.values().map(|it| it.shown().to_string()).collect();
    let all = format!("all {} are out: {}", holders.len(), holders.join("; "));
    Error::from(ErrorKind::TimedOut { limit: waited, is_for_reader: true, is_for_closing: false })
        .held_by(Some(format!("no reader came back; {all}")))
        .to_do("drop readers when they are done with, or allow more of them")
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn open(&self) -> Result<Pooled> {
        let mut connection = open_reader(&self.path, self.vfs.as_deref())?;
        self.on_connect.prepare_reader(&connection)?;
        let functions = if let Some(functions) = self.functions.get() {
            Arc::clone(functions)
        } else {
            let own = activity::functions_of(&connection)
                .map_err(|error| Error::sqlite("list the functions of a reader", error))?;
            Arc::clone(self.functions.get_or_init(|| Arc::new(own)))
        };
        let watched = Activity::watch(&mut connection, functions);
        let activity = watched.map_err(|error| Error::sqlite("watch a reader", error))?;
        Ok(Pooled { connection, activity })
    }

    /// Ends what went out as `id`; the connection is idle again if there is one.
    fn give_back(&self, id: u64, pooled: Option<Pooled>) {
        let mut state = self.state();
        state.out.remove(&id);
        let to_close = if state.closed.is_some() {
            pooled
        } else {
            state.idle.extend(pooled);
            None
        };
        drop(state);
        self.returned.notify_one();
        // Closing may take a while, so not under the lock.
        drop(to_close);
    }
}

impl Reader {
    /// Asks `stop` every 4,096 steps of SQLite's virtual machine, which are less than a millisecond, on
    /// the thread that reads. Once it returns true, the read ends with the error `SQLITE_INTERRUPT`; later reads begin anew, and ask again.
    ///
    /// Only the last function that was given counts, as long as this reader is out.
    ///
    /// # Errors
    /// When SQLite refuses it.
    pub fn stop_when(&mut self, stop: impl FnMut() -> bool + Send + 'static) -> Result<()> {
        let Some(lent) = self.lent.here_mut() else { return Ok(()) };
        lent.may_stop = true;
        // Present until drop takes it.
        let Some(pooled) = lent.pooled.as_mut() else { return Ok(()) };
        let set = pooled.connection.progress_handler(STEPS_BETWEEN, Some(stop));
        set.map_err(|error| Error::sqlite("watch a reader", error))
    }
}

impl Deref for Reader {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        let Some(lent) = self.lent.here() else {
            return self.in_child.get_or_init(without_a_database);
        };
        let pooled = lent.pooled.as_ref();
        let pooled = pooled.expect("a reader has its connection until it is dropped");
        pooled.activity.used(&pooled.connection);
        &pooled.connection
    }
}

/// A connection that refuses everything. That of the parent would do more harm than to fail:
/// another thread may have been in one of SQLite's mutexes for the file.
fn without_a_database() -> Connection {
    let refuses = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_in_memory()?;
        connection.authorizer(Some(|_: AuthContext<'_>| Authorization::Deny))?;
        Ok(connection)
    };
    refuses().expect("memory for a connection to no file")
}

impl Drop for Lent {
    fn drop(&mut self) {
        let may_stop = self.may_stop;
        let pooled = self.pooled.take().and_then(|mut it| {
            let may_return = !it.activity.has_own_functions()
                && bring_to_rest(&mut it.connection, may_stop).unwrap_or(false);
            may_return.then_some(it)
        });
        self.shared.give_back(self.id, pooled);
    }
}

/// Makes a connection as if it had not been used yet (invariant 2), and returns true if that
/// worked.
fn bring_to_rest(connection: &mut Connection, may_stop: bool) -> rusqlite::Result<bool> {
    if may_stop {
        connection.progress_handler(0, None::<fn() -> bool>)?;
    }
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    // A statement that was leaked, or an attached database (the third name).
    if connection.is_busy() || connection.db_name(2).is_ok() {
        return Ok(false);
    }
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.prepare_cached("PRAGMA query_only")?.query_row([], |row| row.get(0))
}

/// In WAL mode readers wait only for a recovery or an exclusive lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
