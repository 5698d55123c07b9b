//! The Writer, behind `leafpress.Writer` and `leafpress.AsyncWriter`.
//!
//! Must never: hold the interpreter while it waits for a commit.

pub mod cluster;
mod native_rows;
pub mod open_here;
pub mod options;
mod parameters;
mod reader;
pub mod reply;
mod rows;
pub mod steps;
mod ticket;
pub mod wait;

use std::future::Future;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use leafpress::Writer;
use leafpress::vfs::sync::lock;
use leafpress::writer::{Executed, Maintenance, PendingCall};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub use self::native_rows::NativeRows;
pub use self::parameters::{
    NativeParameters, columns_of, many_parameters_of, parameters_of, sql_of,
};
pub use self::reader::{NativeReader, StopRead, signal_look, take_signal};
pub use self::rows::{all_rows, executed, result};
pub use self::ticket::NativeTicket;
use crate::bridge::{self, Loop, Task};
use crate::errors::{Raise, misuse};
use crate::json::as_json;

/// A writer, until it is closed.
#[pyclass(frozen, weakref, module = "leafpress._leafpress")]
pub struct NativeWriter {
    writer: Writer,
    /// True if it writes to a cluster of rqlite, and not to a file.
    pub is_of_cluster: bool,
    call_limit: Option<Duration>,
    is_closed: AtomicBool,
    /// Its transactions, for the end of the program.
    transactions: Mutex<Vec<Weak<open_here::Shared>>>,
    work: Mutex<Vec<Weak<dyn EndsBefore>>>,
    readers_max: usize,
    /// Each of its readers that is out has a clone.
    reader_out: Arc<()>,
}

/// Work in threads of its own that is to end before its writer is closed.
pub trait EndsBefore: Send + Sync {
    /// Ends the work; waits until then at most.
    fn end(&self, until: Option<Instant>);
}

impl NativeWriter {
    /// The address of the object, which is not moved.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Longest time that each of its calls may run, if no other one is given.
    pub fn call_limit(&self) -> Option<Duration> {
        self.call_limit
    }

    /// Remembers a transaction, to end it with the program.
    pub fn watch(&self, transaction: &Arc<open_here::Shared>) {
        let mut all = lock(&self.transactions);
        all.retain(|it| it.strong_count() > 0);
        all.push(Arc::downgrade(transaction));
    }

    /// The writer, for a call that this thread waits for.
    ///
    /// # Errors
    /// If it is closed, and those of [`refuse_inside`](Self::refuse_inside).
    pub fn get(&self, py: Python<'_>) -> PyResult<&Writer> {
        self.refuse_inside(py)?;
        self.get_to_submit(py)
    }

    /// Refuses a call that this thread would wait for inside of a transaction of its own.
    ///
    /// # Errors
    /// There is such a transaction: the call would wait for its end, and the thread for the call.
    pub fn refuse_inside(&self, py: Python<'_>) -> PyResult<()> {
        if open_here::is_open_here(py, self.address()) {
            return Err(open_here::waits_for_itself(py));
        }
        Ok(())
    }

    /// The writer, for a call that this thread does not wait for.
    ///
    /// # Errors
    /// If it is closed.
    pub fn get_to_submit(&self, py: Python<'_>) -> PyResult<&Writer> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(misuse(py, "the writer is closed"));
        }
        Ok(&self.writer)
    }

    /// Refuses many rows of one statement, for a cluster.
    fn refuse_many(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_of_cluster { Err(cluster::no_many(py)) } else { Ok(()) }
    }

    /// Has this work end before the writer is closed.
    pub fn end_before_close(&self, work: Weak<dyn EndsBefore>) {
        let mut all = lock(&self.work);
        all.retain(|work| work.strong_count() > 0);
        all.push(work);
    }

    /// Ends it, at most for `limit`: first its work, then the accepted calls.
    fn ending(
        &self,
        limit: Option<Duration>,
    ) -> impl FnOnce() -> leafpress::Result<()> + Send + use<> {
        let writer = self.writer.clone();
        // It stays there: after Ctrl-C another call may wait for its end.
        let all = lock(&self.work).clone();
        move || {
            let until = limit.and_then(|limit| Instant::now().checked_add(limit));
            for work in all.iter().filter_map(Weak::upgrade) {
                work.end(until);
            }
            match (limit, until) {
                (Some(limit), Some(until)) => writer.close_until(until, limit),
                _ => writer.close(),
            }
        }
    }

    /// The writer for a call that may run so long.
    fn limited(&self, py: Python<'_>, limit: Option<Bound<'_, PyAny>>) -> PyResult<Writer> {
        self.get(py)?;
        self.limited_to_submit(py, limit)
    }

    /// As `limited`, for a call that this thread does not wait for.
    fn limited_to_submit(
        &self,
        py: Python<'_>,
        limit: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Writer> {
        let writer = self.get_to_submit(py)?;
        let Some(seconds) = limit else { return Ok(writer.clone()) };
        Ok(writer.with_call_limit(Some(options::duration("call_limit", &seconds)?)))
    }
}

impl Drop for NativeWriter {
    fn drop(&mut self) {
        // The last clone of the writer waits for its calls.
        if !self.is_closed.load(Ordering::Relaxed) {
            let end = self.ending(None);
            Python::attach(|py| py.detach(|| drop(end())));
        }
    }
}

#[pymethods]
impl NativeWriter {
    #[new]
    #[pyo3(signature = (path, options=None))]
    fn open(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (writer, call_limit, readers_max, is_of_cluster) =
            if let Some(url) = leafpress_cli::url_of(&path) {
                (cluster::open(py, url, options)?, None, 0, true)
            } else {
                let (builder, readers_max) = options::builder(py, path, options)?;
                let call_limit = options::call_limit(options)?;
                // A writer that comes too late is closed at once.
                let writer = wait::apart(py, || builder.open(), || false)?.raise(py)?;
                (writer, call_limit, readers_max, false)
            };
        let (is_closed, transactions) = (AtomicBool::new(false), Mutex::default());
        let (work, reader_out) = (Mutex::default(), Arc::default());
        Ok(Self {
            writer,
            is_of_cluster,
            call_limit,
            is_closed,
            transactions,
            work,
            readers_max,
            reader_out,
        })
    }

    /// Carries out one statement, and waits until it is committed.
    #[pyo3(signature = (sql, parameters, call_limit=None))]
    fn execute(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
        call_limit: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let writer = self.limited(py, call_limit)?;
        let parameters = parameters_of(&sql, parameters)?;
        executed(py, wait::carried_out(py, writer.execute_async(sql, parameters))?)
    }

    /// Carries out one statement for each row, as one transaction, and waits until it is committed.
    fn executemany(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        self.refuse_many(py)?;
        let call = many(self.get(py)?, sql, given)?;
        executed(py, wait::carried_out(py, call)?)
    }

    /// Submits one statement; waits for room only, and not for that `if_room`.
    #[pyo3(signature = (sql, parameters, call_limit=None, if_room=false))]
    fn submit(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
        call_limit: Option<Bound<'_, PyAny>>,
        if_room: bool,
    ) -> PyResult<NativeTicket> {
        let parameters = parameters_of(&sql, parameters)?;
        let writer = self.limited_to_submit(py, call_limit)?;
        let ticket = if if_room || open_here::is_open_here(py, self.address()) {
            // There is no room before the transaction ends, for which this thread must go on.
            writer.try_submit(sql, parameters).raise(py)?
        } else {
            wait::submitted(py, writer.execute_async(sql, parameters))?
        };
        Ok(NativeTicket::new(ticket, self.address()))
    }

    /// Carries out a script as one transaction, and waits until it is committed.
    fn execute_batch(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
    ) -> PyResult<()> {
        let writer = self.get(py)?;
        wait::carried_out(py, writer.execute_batch_async(sql))
    }

    /// Inserts rows as one transaction, and waits until it is committed.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 gives it so")]
    fn insert_many(
        &self,
        py: Python<'_>,
        table: &str,
        #[pyo3(from_py_with = columns_of)] columns: Vec<String>,
        given: &NativeRows,
    ) -> PyResult<u64> {
        let writer = self.get(py)?;
        let rows = given.take();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let call = py.detach(|| writer.insert_many_async(table, &columns, rows));
        wait::carried_out(py, call)
    }

    /// As `execute`, for a future of asyncio.
    #[pyo3(signature = (to, answered, sql, parameters, call_limit=None))]
    fn execute_async(
        &self,
        py: Python<'_>,
        to: &Loop,
        answered: Py<PyAny>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
        call_limit: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Task> {
        let parameters = parameters_of(&sql, parameters)?;
        let call = if call_limit.is_none() {
            self.get_to_submit(py)?.execute_async(sql, parameters)
        } else {
            self.limited_to_submit(py, call_limit)?.execute_async(sql, parameters)
        };
        bridge::start(py, to, answered, StoppedWhenDropped(call), executed)
    }

    /// As `executemany`, for a future of asyncio.
    fn executemany_async(
        &self,
        py: Python<'_>,
        to: &Loop,
        answered: Py<PyAny>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<Task> {
        self.refuse_many(py)?;
        let call = StoppedWhenDropped(many(self.get_to_submit(py)?, sql, given)?);
        bridge::start(py, to, answered, call, executed)
    }

    /// As `execute_batch`, for a future of asyncio.
    fn execute_batch_async(
        &self,
        py: Python<'_>,
        to: &Loop,
        answered: Py<PyAny>,
        #[pyo3(from_py_with = sql_of)] sql: String,
    ) -> PyResult<Task> {
        let call = StoppedWhenDropped(self.get_to_submit(py)?.execute_batch_async(sql));
        bridge::start(py, to, answered, call, |py, ()| Ok(py.None()))
    }

    /// As `insert_many`, for a future of asyncio.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 gives it so")]
    fn insert_many_async(
        &self,
        py: Python<'_>,
        to: &Loop,
        answered: Py<PyAny>,
        table: &str,
        #[pyo3(from_py_with = columns_of)] columns: Vec<String>,
        given: &NativeRows,
    ) -> PyResult<Task> {
        let rows = given.take();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let call = self.get_to_submit(py)?.insert_many_async(table, &columns, rows);
        let call = StoppedWhenDropped(call);
        let count = |py: Python<'_>, rows: u64| Ok(rows.into_pyobject(py)?.into_any().unbind());
        bridge::start(py, to, answered, call, count)
    }

    /// A read-only connection of the pool, by name.
    fn reader(&self, py: Python<'_>, name: &str) -> PyResult<NativeReader> {
        let writer = self.get_to_submit(py)?;
        let out = Arc::clone(&self.reader_out);
        // The writer's own one is among them.
        let reader = if Arc::strong_count(&out) <= self.readers_max + 1 {
            py.detach(|| writer.reader_named(name))
        } else {
            let (writer, name) = (writer.clone(), name.to_owned());
            // A reader that comes too late goes back at once.
            wait::apart(py, move || writer.reader_named(&name), || false)?
        };
        NativeReader::new(py, reader.raise(py)?, out)
    }

    /// The settings in force, as JSON; `null` if there are none.
    fn in_force(&self, py: Python<'_>) -> PyResult<String> {
        as_json(&self.writer.in_force()).raise(py)
    }

    /// Numbers of the work so far, as JSON.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        as_json(&py.detach(|| self.writer.stats())).raise(py)
    }

    /// Reason why it takes no calls any more.
    fn stopped(&self) -> Option<String> {
        self.writer.stopped()
    }

    /// Stops the call that is carried out now; false if none is.
    fn interrupt(&self) -> bool {
        self.writer.interrupt()
    }

    /// Copies the database into a new file, until `stop`.
    #[pyo3(signature = (path, stop=None))]
    fn backup(&self, py: Python<'_>, path: PathBuf, stop: Option<&StopRead>) -> PyResult<()> {
        let writer = self.get(py)?.clone();
        let state = Arc::new(AtomicU8::new(WAITS));
        let its_state = Arc::clone(&state);
        let asked = stop.map(StopRead::asked).unwrap_or_default();
        let copy = move || {
            writer.backup_with(path, |_| match its_state.swap(AT_WORK, Ordering::SeqCst) {
                DONE => ControlFlow::Break(()),
                _ if asked.load(Ordering::Relaxed) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        };
        let stop = || state.swap(DONE, Ordering::SeqCst) == AT_WORK;
        wait::apart(py, copy, stop)?.raise(py)
    }

    /// Maintains the database as a whole: VACUUM, PRAGMA optimize, REINDEX or a checkpoint.
    /// It does not begin after `stop`.
    #[pyo3(signature = (work, stop=None))]
    fn maintain(&self, py: Python<'_>, work: &str, stop: Option<&StopRead>) -> PyResult<()> {
        let work = match work {
            "vacuum" => Maintenance::Vacuum,
            "optimize" => Maintenance::Optimize,
            "reindex" => Maintenance::Reindex,
            "checkpoint" => Maintenance::Checkpoint,
            _ => {
                let words = "it is vacuum, optimize, reindex or checkpoint";
                return Err(misuse(py, format!("there is no work '{work}': {words}")));
            }
        };
        let writer = self.get(py)?.clone();
        let (interrupted, state) = (writer.clone(), Arc::new(AtomicU8::new(WAITS)));
        let changes = |state: &AtomicU8, to| {
            state.compare_exchange(WAITS, to, Ordering::SeqCst, Ordering::SeqCst)
        };
        let its_state = Arc::clone(&state);
        let asked = stop.map(StopRead::asked).unwrap_or_default();
        let done = move || {
            let is_wanted = || !asked.load(Ordering::Relaxed);
            let done =
                writer.maintain_if(work, || is_wanted() && changes(&its_state, AT_WORK).is_ok());
            its_state.store(DONE, Ordering::SeqCst);
            done
        };
        let stop = || changes(&state, DONE) == Err(AT_WORK) && interrupted.interrupt();
        wait::apart(py, done, stop)?.raise(py)
    }

    /// Closes it at the end of the program: transactions that are open are rolled back, and Ctrl-C
    /// stops the call that runs. A second one ends the wait.
    fn close_at_exit(&self, py: Python<'_>) -> PyResult<()> {
        for transaction in lock(&self.transactions).iter() {
            if let Some(transaction) = transaction.upgrade() {
                transaction.abandon();
            }
        }
        let closed = self.close(py, None);
        if closed.is_err() && self.writer.interrupt() { self.close(py, None) } else { closed }
    }

    /// Waits until all accepted calls are committed, at most for `timeout` seconds, and closes
    /// the database.
    #[pyo3(signature = (timeout=None))]
    fn close(&self, py: Python<'_>, timeout: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        self.refuse_inside(py)?;
        let limit = timeout.map(|it| options::duration("timeout", &it)).transpose()?;
        self.is_closed.store(true, Ordering::Relaxed);
        // After Ctrl-C it goes on, and what was accepted is committed.
        wait::apart(py, self.ending(limit), || false)?.raise(py)
    }
}

/// A call that carries out one statement for each row.
fn many(writer: &Writer, sql: String, given: &Bound<'_, PyAny>) -> PyResult<PendingCall<Executed>> {
    let rows = many_parameters_of(&sql, given)?;
    Ok(writer.transaction_async(move |tx| tx.execute_many(&sql, &rows)))
}

/// A backup or maintenance before its turn, at it, and after it or not wanted any more.
const WAITS: u8 = 0;
const AT_WORK: u8 = 1;
const DONE: u8 = 2;

/// A call of a task of asyncio, or of the main thread: a task that is cancelled stops it, as Ctrl-C
/// does in a thread.
struct StoppedWhenDropped<T>(PendingCall<T>);

impl<T> Future for StoppedWhenDropped<T> {
    type Output = leafpress::Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for StoppedWhenDropped<T> {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}
