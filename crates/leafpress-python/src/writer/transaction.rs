//! A transaction whose statements come one by one from Python.
//!
//! ```text
//! Python's thread or task ─► request ─► closure on the engine's thread ─► reply
//! ```
//!
//! 1. The closure waits for requests, and all other calls of the writer wait for it.
//! 2. If the group is carried out again, the closure carries out the requests so far again. Their
//!    results must be the same, since the caller has seen them: else the transaction fails.
//! 3. A transaction that no Python code can end any more is rolled back: when its object is
//!    dropped, and when the thread ends that began it.
//!
//! Must never: commit unless it was asked to, or wait in a child of `fork`: the thread that would
//! answer is the parent's.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use leafpress::queue::{Job, Queue};
use leafpress::rusqlite::ffi;
use leafpress::rusqlite::types::Value;
use leafpress::vfs::fork::Process;
use leafpress::vfs::sync::lock;
use leafpress::writer::{Executed, Parameters, PendingCall, Transaction};
use leafpress::{Error, ErrorKind, Result};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;

use super::parameters::parameters_of;
use super::reply::{self, Gone, Receiver, Sender};
use super::wait::block_on;
use super::{NativeWriter, rows};
use crate::bridge::{self, Loop, Task};
use crate::errors::{Raise, exception, misuse};
use crate::queue::{NativeQueue, NewJob};

/// A step of the transaction.
enum Step {
    Statement { sql: String, parameters: Parameters },
    Script(String),
    Rows { table: String, columns: Vec<String>, rows: Vec<Vec<Value>> },
    Push(Box<(Queue, Job)>),
}

/// Result of a step.
#[derive(Default)]
struct Outcome {
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    done: (u64, i64),
}

enum Request {
    Step(Step, Sender<Result<Outcome>>),
    Commit,
}

/// State shared by the object of Python and the thread that began the transaction.
pub struct Shared {
    /// The writer, by the address of its object.
    writer: usize,
    process: Process,
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    call: Mutex<Option<PendingCall<()>>>,
}

impl Shared {
    fn is_open(&self) -> bool {
        lock(&self.requests).is_some()
    }

    /// Has the closure end with a rollback.
    pub fn abandon(&self) {
        drop(lock(&self.requests).take());
    }

    fn send(&self, request: Request) -> bool {
        lock(&self.requests).as_ref().is_some_and(|requests| requests.send(request).is_ok())
    }
}

/// A transaction that was begun by this thread. When the thread ends, it is rolled back.
struct BegunHere(Weak<Shared>);

impl Drop for BegunHere {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.abandon();
        }
    }
}

thread_local! {
    static BEGUN_HERE: RefCell<Vec<BegunHere>> = const { RefCell::new(Vec::new()) };
}

/// Returns true if this thread has a transaction of the writer of this address open.
pub fn is_open_here(writer: usize) -> bool {
    BEGUN_HERE.with_borrow(|begun| {
        begun.iter().any(|it| {
            it.0.upgrade().is_some_and(|shared| shared.writer == writer && shared.is_open())
        })
    })
}

/// The exception for a call that would wait for the transaction around it.
pub fn waits_for_itself(py: Python<'_>) -> PyErr {
    let error = Error::misuse(
        "this call would wait for the end of the transaction that it is made in, for ever",
    )
    .on_disk("nothing of this call; the transaction is open")
    .to_do("use the transaction's own methods, or make the call after it");
    exception(py, &error)
}

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
    pub fn new(writer: Py<NativeWriter>, limit: Option<Duration>) -> Self {
        let (requests, call) = (Mutex::new(None), Mutex::new(None));
        let process = Process::current();
        let shared = Shared { writer: writer.get().address(), process, requests, call };
        let shared = Arc::new(shared);
        writer.get().watch(&shared);
        Self { writer, limit, shared }
    }

    /// Hands in the closure, which waits for requests once its turn has come.
    fn submit(&self, py: Python<'_>) -> PyResult<Begin> {
        if self.shared.is_open() {
            return Err(misuse(py, "the transaction has begun already"));
        }
        let mut writer = self.writer.get().get_to_submit(py)?.clone();
        if let Some(limit) = self.limit {
            writer = writer.with_call_limit(Some(limit));
        }
        let (requests, closures) = mpsc::channel();
        let (begun, has_begun) = reply::pair();
        let mut steps = Steps {
            requests: closures,
            begun: Some(begun),
            past: Vec::new(),
            is_to_commit: false,
            limit: self.limit,
        };
        *lock(&self.shared.requests) = Some(requests);
        *lock(&self.shared.call) = Some(writer.transaction_async(move |tx| steps.run(tx)));
        Ok(Begin { shared: Arc::clone(&self.shared), has_begun })
    }

    fn step(&self, py: Python<'_>, step: Step) -> PyResult<Stepped> {
        self.shared.process.check("transaction").map_err(Error::from).raise(py)?;
        let (reply, outcome) = reply::pair();
        if !self.shared.send(Request::Step(step, reply)) && !self.shared.is_open() {
            return Err(misuse(py, "the transaction is not open"));
        }
        Ok(Stepped { shared: Arc::clone(&self.shared), outcome })
    }

    /// The outcome of a step, for which this thread waits.
    fn block_on<T: Send>(
        &self,
        py: Python<'_>,
        future: impl Future<Output = Result<T>> + Send,
    ) -> PyResult<T> {
        let writer = self.writer.get().get_to_submit(py)?;
        let stop = || {
            if self.shared.is_open() {
                // The call that the writer carries out is this transaction.
                writer.interrupt();
            }
        };
        block_on(py, future, stop)?.raise(py)
    }
}

#[pymethods]
impl NativeTransaction {
    /// Begins it, and waits for its turn.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.writer.get().get(py)?;
        let begin = self.submit(py)?;
        // The call that the writer carries out now is another one: it is not to be stopped.
        if let Err(error) = block_on(py, begin, || ()).and_then(|begun| begun.raise(py)) {
            self.shared.abandon();
            lock(&self.shared.call).take();
            return Err(error);
        }
        BEGUN_HERE.with_borrow_mut(|begun| {
            begun.retain(|it| it.0.upgrade().is_some_and(|shared| shared.is_open()));
            begun.push(BegunHere(Arc::downgrade(&self.shared)));
        });
        Ok(())
    }

    /// Carries out a statement.
    fn execute(
        &self,
        py: Python<'_>,
        sql: String,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let parameters = parameters_of(&sql, parameters)?;
        let outcome = self.step(py, Step::Statement { sql, parameters })?;
        as_result(py, self.block_on(py, outcome)?)
    }

    /// Carries out a script.
    fn execute_batch(&self, py: Python<'_>, sql: String) -> PyResult<()> {
        let outcome = self.step(py, Step::Script(sql))?;
        self.block_on(py, outcome).map(drop)
    }

    /// Inserts rows.
    fn insert_many(
        &self,
        py: Python<'_>,
        table: String,
        columns: Vec<String>,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let rows = rows::rows_of(given)?;
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
            return Err(misuse(py, "the transaction is not open"));
        }
        let end = || block_on(py, End(Arc::clone(&self.shared)), || ());
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
        block_on(py, end, || ()).map(drop)
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
        sql: String,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Task> {
        let parameters = parameters_of(&sql, parameters)?;
        let outcome = self.step(py, Step::Statement { sql, parameters })?;
        bridge::start(py, to, answered, outcome, as_result)
    }

    /// As `execute_batch`, for a future of asyncio.
    fn execute_batch_async(
        &self,
        py: Python<'_>,
        to: &Loop,
        answered: Py<PyAny>,
        sql: String,
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
        columns: Vec<String>,
        given: &Bound<'_, PyAny>,
    ) -> PyResult<Task> {
        let rows = rows::rows_of(given)?;
        let outcome = self.step(py, Step::Rows { table, columns, rows })?;
        bridge::start(py, to, answered, outcome, |py, outcome| {
            Ok(outcome.done.0.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// As `commit`, for a future of asyncio.
    fn commit_async(&self, py: Python<'_>, to: &Loop, answered: Py<PyAny>) -> PyResult<Task> {
        if !self.shared.send(Request::Commit) && !self.shared.is_open() {
            return Err(misuse(py, "the transaction is not open"));
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
    rows::result(py, outcome.columns, outcome.rows, Executed::new(changed, rowid))
}

/// Waits until the closure runs.
struct Begin {
    shared: Arc<Shared>,
    has_begun: Receiver<()>,
}

impl Future for Begin {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(ended) = poll_call(&self.shared, context) {
            return Poll::Ready(ended);
        }
        match Pin::new(&mut self.has_begun).poll(context) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            // The call itself tells why.
            Poll::Ready(Err(Gone)) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Waits for the outcome of a step.
struct Stepped {
    shared: Arc<Shared>,
    outcome: Receiver<Result<Outcome>>,
}

impl Future for Stepped {
    type Output = Result<Outcome>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.outcome).poll(context) {
            Poll::Ready(Ok(outcome)) => Poll::Ready(outcome),
            Poll::Pending => Poll::Pending,
            // The closure has ended before the step.
            Poll::Ready(Err(Gone)) => poll_call(&self.shared, context).map(|ended| {
                ended.and_then(|()| Err(Error::misuse("the transaction was committed before")))
            }),
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

/// The closure, on the side of the writer.
struct Steps {
    requests: mpsc::Receiver<Request>,
    /// Told once, when the closure runs for the first time.
    begun: Option<Sender<()>>,
    /// The steps so far, and what the caller has seen of each.
    past: Vec<(Step, u64)>,
    is_to_commit: bool,
    limit: Option<Duration>,
}

impl Steps {
    fn run(&mut self, transaction: &Transaction<'_>) -> Result<()> {
        let began = Instant::now();
        for (step, seen) in &self.past {
            if digest(&carry_out(transaction, step)) != *seen {
                return Err(seen_otherwise());
            }
        }
        if let Some(begun) = self.begun.take() {
            begun.send(());
        }
        while !self.is_to_commit {
            match self.next(began)? {
                Request::Commit => self.is_to_commit = true,
                Request::Step(step, reply) => {
                    let outcome = carry_out(transaction, &step);
                    if let Err(error) = &outcome
                        && error.sqlite_code() == Some(ffi::SQLITE_INTERRUPT)
                    {
                        // Without a reply the caller gets the call's own error, which says why.
                        return outcome.map(drop);
                    }
                    self.past.push((step, digest(&outcome)));
                    reply.send(outcome);
                }
            }
        }
        Ok(())
    }

    /// The next request; an error if there will be none.
    fn next(&self, began: Instant) -> Result<Request> {
        let Some(limit) = self.limit else {
            return self.requests.recv().map_err(|_| rolled_back());
        };
        let left = limit.saturating_sub(began.elapsed());
        self.requests.recv_timeout(left).map_err(|failed| match failed {
            RecvTimeoutError::Disconnected => rolled_back(),
            RecvTimeoutError::Timeout => Error::timed_out(limit)
                .on_disk("nothing of the transaction")
                .to_do("make the transaction shorter, or give it more time with call_limit"),
        })
    }
}

fn rolled_back() -> Error {
    Error::from(ErrorKind::Cancelled).on_disk("nothing of the transaction")
}

fn seen_otherwise() -> Error {
    Error::aborted(
        "the transaction had to be carried out again, as another call undid the group's \
         transaction, and a statement now gives another result than the one that was seen",
    )
    .on_disk("nothing of the transaction")
    .to_do("run the transaction again")
}

fn carry_out(transaction: &Transaction<'_>, step: &Step) -> Result<Outcome> {
    match step {
        Step::Statement { sql, parameters } => {
            let returned = transaction.run(sql, parameters.clone(), rows::values_of)?;
            let executed = returned.executed;
            Ok(Outcome {
                columns: returned.columns,
                rows: returned.rows,
                done: (executed.rows_changed, executed.last_insert_rowid),
            })
        }
        Step::Script(sql) => transaction.execute_script(sql).map(|()| Outcome::default()),
        Step::Rows { table, columns, rows } => {
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            let rows = rows.iter().map(Vec::as_slice);
            let inserted = transaction.insert_many(table, &columns, rows)?;
            Ok(Outcome { done: (inserted, 0), ..Outcome::default() })
        }
        Step::Push(push) => {
            let (queue, job) = &**push;
            let pushed = queue.push_in(transaction, job.clone())?;
            Ok(Outcome { done: (pushed.is_new.into(), pushed.id), ..Outcome::default() })
        }
    }
}

/// A number that differs if the caller would see another outcome.
fn digest(outcome: &Result<Outcome>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match outcome {
        Err(error) => error.to_string().hash(&mut hasher),
        Ok(outcome) => {
            outcome.columns.hash(&mut hasher);
            outcome.done.hash(&mut hasher);
            for value in outcome.rows.iter().flatten() {
                match value {
                    Value::Null => 0_u8.hash(&mut hasher),
                    Value::Integer(integer) => (1_u8, integer).hash(&mut hasher),
                    Value::Real(real) => (2_u8, real.to_bits()).hash(&mut hasher),
                    Value::Text(text) => (3_u8, text).hash(&mut hasher),
                    Value::Blob(bytes) => (4_u8, bytes).hash(&mut hasher),
                }
            }
        }
    }
    hasher.finish()
}
