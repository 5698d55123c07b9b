//! A transaction whose statements come one by one from Python.
//!
//! ```text
//! Python's thread or task ─► request ─► closure on the engine's thread ─► reply
//! ```
//!
//! The closure is in `writer/steps.rs`.
//!
//! 1. A transaction that no Python code can end any more is rolled back: when its object is
//!    dropped, and when all threads that used it have ended.
//! 2. A step whose caller gives it up is stopped, or left out, and the transaction rolled back.
//!
//! Must never: commit unless it was asked to, or wait in a child of `fork`: the thread that would
//! answer is the parent's.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;

use leafpress::vfs::sync::lock;
use leafpress::writer::Executed;
use leafpress::{Error, Result};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;

use crate::bridge::{self, Loop, Task};
use crate::errors::{Raise, misuse};
use crate::queue::{NativeQueue, NewJob};
use crate::writer::open_here::{Shared, note_in_context, use_here};
use crate::writer::reply::{self, Gone, Receiver};
use crate::writer::steps::{Outcome, Request, Step, Steps};
use crate::writer::wait::{block_on, block_on_until};
use crate::writer::{
    NativeRows, NativeWriter, columns_of, executed, many_parameters_of, options, parameters_of,
    result, sql_of,
};

/// A transaction of a writer.
#[pyclass(frozen, weakref, module = "leafpress._leafpress")]
pub struct NativeTransaction {
    writer: Py<NativeWriter>,
    limit: Option<Duration>,
    shared: Arc<Shared>,
}

impl Drop for NativeTransaction {
    fn drop(&mut self) {
        self.shared.abandon();
    }
}

impl NativeTransaction {
    /// Hands in the closure, which waits for requests once its turn has come.
    fn submit(&self, py: Python<'_>) -> PyResult<Begin> {
        if self.shared.is_open() {
            return Err(misuse(py, "the transaction has begun already"));
        }
        let writer = self.writer.get();
        let limit = self.limit.or(writer.call_limit());
        let writer = writer.get_to_submit(py)?.with_call_limit(limit);
        let (requests, closures) = mpsc::channel();
        let (begun, has_begun) = reply::pair();
        let mut steps = Steps::new(closures, begun, limit);
        *lock(&self.shared.requests) = Some(requests);
        *lock(&self.shared.call) = Some(writer.transaction_async(move |tx| steps.run(tx)));
        Ok(Begin { shared: Arc::clone(&self.shared), has_begun, is_over: false })
    }

    fn step(&self, py: Python<'_>, step: Step) -> PyResult<Stepped> {
        self.shared.process.check("transaction").map_err(Error::from).raise(py)?;
        let (reply, outcome) = reply::pair();
        if !self.shared.send(Request::Step(step, reply)) && !self.shared.is_open() {
            return Err(self.shared.not_open(py));
        }
        Ok(Stepped { shared: Arc::clone(&self.shared), outcome, is_over: false })
    }

    /// The outcome of a step, for which this thread waits.
    fn block_on<T: Send>(
        &self,
        py: Python<'_>,
        future: impl Future<Output = Result<T>> + Send,
    ) -> PyResult<T> {
        use_here(&self.shared, false);
        block_on(py, future)?.raise(py)
    }
}

#[pymethods]
impl NativeTransaction {
    /// A transaction that has not begun.
    #[new]
    #[pyo3(signature = (writer, call_limit=None))]
    fn new(writer: Py<NativeWriter>, call_limit: Option<Bound<'_, PyAny>>) -> PyResult<Self> {
        let limit = call_limit.map(|it| options::duration("call_limit", &it)).transpose()?;
        let shared = Arc::new(Shared::new(writer.get().address()));
        writer.get().watch(&shared);
        Ok(Self { writer, limit, shared })
    }

    /// Begins it, and waits for its turn, at most for `timeout`; false if it has not come then.
    fn begin(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let limit = timeout.map(|it| options::duration("timeout", it)).transpose()?;
        self.writer.get().get(py)?;
        let turn = block_on_until(py, self.submit(py)?, limit)
            .and_then(|turn| turn.map(|begun| begun.raise(py)).transpose());
        if turn?.is_none() {
            return Ok(false);
        }
        use_here(&self.shared, true);
        note_in_context(py, &self.shared)?;
        Ok(true)
    }

    /// Carries out a statement.
    fn execute(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let parameters = parameters_of(&sql, parameters)?;
        let outcome = self.step(py, Step::Statement { sql, parameters })?;
        as_result(py, self.block_on(py, outcome)?)
    }

    /// Carries out a statement for each row.
    fn executemany(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let rows = many_parameters_of(&sql, given)?;
        let outcome = self.step(py, Step::Many { sql, rows })?;
        as_executed(py, self.block_on(py, outcome)?.done)
    }

    /// Carries out a script.
    fn execute_batch(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
    ) -> PyResult<()> {
        let outcome = self.step(py, Step::Script(sql))?;
        self.block_on(py, outcome).map(drop)
    }

    /// Inserts rows.
    fn insert_many(
        &self,
        py: Python<'_>,
        table: String,
        #[pyo3(from_py_with = columns_of)] columns: Vec<String>,
        given: &NativeRows,
    ) -> PyResult<u64> {
        let rows = given.take();
        let outcome = self.step(py, Step::Rows { table, columns, rows })?;
        self.block_on(py, outcome).map(|outcome| outcome.done.0)
    }

    /// Pushes a job to a queue of the same writer.
    fn push(
        &self,
        py: Python<'_>,
        to: Option<(Py<Loop>, Py<PyAny>)>,
        queue: &NativeQueue,
        job: NewJob<'_>,
    ) -> PyResult<Py<PyAny>> {
        let outcome = self.step(py, Step::Push(Box::new((queue.queue.clone(), job.job(py)?))))?;
        match to {
            None => as_pushed(py, self.block_on(py, outcome)?.done),
            Some((to, answered)) => {
                bridge::start(py, to.get(), answered, outcome, |py, outcome| {
                    as_pushed(py, outcome.done)
                })?
                .into_py_any(py)
            }
        }
    }

    /// Commits it, and waits until that is done.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        if !self.shared.send(Request::Commit) && !self.shared.is_open() {
            return Err(self.shared.not_open(py));
        }
        let end = || block_on(py, End(Arc::clone(&self.shared)));
        match end() {
            Ok(ended) => ended.raise(py),
            Err(signal) => {
                // The commit comes to its end; the caller shall find it done.
                drop(end()?);
                Err(signal)
            }
        }
    }

    /// Rolls it back, and waits until that is done.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.abandon();
        let end = End(Arc::clone(&self.shared));
        // Its error says that it was rolled back.
        block_on(py, end).map(drop)
    }

    /// As `begin`, for a future of asyncio.
    fn begin_async(&self, py: Python<'_>, to: &Loop, answered: Py<PyAny>) -> PyResult<Task> {
        let begin = self.submit(py)?;
        bridge::start(py, to, answered, begin, |py, ()| Ok(py.None()))
    }

    /// As `execute`, for a future of asyncio.
    fn execute_async(
        &self,
        py: Python<'_>,
        to: &Loop,
        answered: Py<PyAny>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Task> {
        let parameters = parameters_of(&sql, parameters)?;
        let outcome = self.step(py, Step::Statement { sql, parameters })?;
        bridge::start(py, to, answered, outcome, as_result)
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
        let rows = many_parameters_of(&sql, given)?;
        let outcome = self.step(py, Step::Many { sql, rows })?;
        bridge::start(py, to, answered, outcome, |py, outcome| as_executed(py, outcome.done))
    }

    /// As `execute_batch`, for a future of asyncio.
    fn execute_batch_async(
        &self,
        py: Python<'_>,
        to: &Loop,
        answered: Py<PyAny>,
        #[pyo3(from_py_with = sql_of)] sql: String,
    ) -> PyResult<Task> {
        let outcome = self.step(py, Step::Script(sql))?;
        bridge::start(py, to, answered, outcome, |py, _| Ok(py.None()))
    }

    /// As `insert_many`, for a future of asyncio.
    fn insert_many_async(
        &self,
        py: Python<'_>,
        to: &Loop,
        answered: Py<PyAny>,
        table: String,
        #[pyo3(from_py_with = columns_of)] columns: Vec<String>,
        given: &NativeRows,
    ) -> PyResult<Task> {
        let rows = given.take();
        let outcome = self.step(py, Step::Rows { table, columns, rows })?;
        bridge::start(py, to, answered, outcome, |py, outcome| {
            Ok(outcome.done.0.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// As `commit`, for a future of asyncio.
    fn commit_async(&self, py: Python<'_>, to: &Loop, answered: Py<PyAny>) -> PyResult<Task> {
        if !self.shared.send(Request::Commit) && !self.shared.is_open() {
            return Err(self.shared.not_open(py));
        }
        let end = End(Arc::clone(&self.shared));
        bridge::start(py, to, answered, end, |py, ()| Ok(py.None()))
    }

    /// Rolls it back without waiting for that.
    fn abandon(&self) {
        self.shared.abandon();
    }

    /// True from its begin to its commit or rollback.
    fn is_open(&self) -> bool {
        self.shared.is_open()
    }
}

fn as_pushed(py: Python<'_>, (is_new, id): (u64, i64)) -> PyResult<Py<PyAny>> {
    (id, is_new == 1).into_py_any(py)
}

fn as_result(py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
    let (changed, rowid) = outcome.done;
    result(py, outcome.columns, outcome.rows, Executed::new(changed, rowid))
}

fn as_executed(py: Python<'_>, (changed, rowid): (u64, i64)) -> PyResult<Py<PyAny>> {
    executed(py, Executed::new(changed, rowid))
}

/// Waits until the closure runs. If it is dropped before, the closure is not to run any more.
struct Begin {
    shared: Arc<Shared>,
    has_begun: Receiver<()>,
    is_over: bool,
}

impl Future for Begin {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut polled = poll_call(&self.shared, context);
        if polled.is_pending() {
            polled = match Pin::new(&mut self.has_begun).poll(context) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
                // The call itself tells why.
                Poll::Ready(Err(Gone)) | Poll::Pending => Poll::Pending,
            };
        }
        self.is_over = polled.is_ready();
        polled
    }
}

impl Drop for Begin {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.give_up();
        }
    }
}

/// Waits for the outcome of a step. If it is dropped before, the caller has given up the step: as
/// others may build on it, the transaction is rolled back.
struct Stepped {
    shared: Arc<Shared>,
    outcome: Receiver<Result<Outcome>>,
    is_over: bool,
}

impl Future for Stepped {
    type Output = Result<Outcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match Pin::new(&mut self.outcome).poll(context) {
            Poll::Ready(Ok(outcome)) => Poll::Ready(outcome),
            Poll::Pending => Poll::Pending,
            // The closure has ended before the step.
            Poll::Ready(Err(Gone)) => poll_call(&self.shared, context).map(|ended| {
                ended.and_then(|()| Err(Error::misuse("the transaction was committed before")))
            }),
        };
        self.is_over = polled.is_ready();
        polled
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.stop();
        }
    }
}

/// Waits for the end of the transaction.
struct End(Arc<Shared>);

impl Future for End {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = poll_call(&self.0, context);
        if ended.is_ready() {
            self.0.abandon();
        }
        ended
    }
}

/// The end of the call that the closure is.
fn poll_call(shared: &Shared, context: &mut Context<'_>) -> Poll<Result<()>> {
    let mut place = lock(&shared.call);
    let Some(call) = place.as_mut() else {
        return Poll::Ready(Err(Error::misuse("the transaction has ended before")));
    };
    let polled = Pin::new(call).poll(context);
    if polled.is_ready() {
        place.take();
        drop(place);
        shared.abandon();
    }
    polled
}
