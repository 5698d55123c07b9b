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
//!    dropped, and when all threads that used it have ended.
//! 4. A step whose caller gives it up is stopped, or left out, and the transaction rolled back.
//!
//! Must never: commit unless it was asked to, or wait in a child of `fork`: the thread that would
//! answer is the parent's.

use std::cell::RefCell;
use std::collections::hash_map::DefaultHasher;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::parameters::{columns_of, parameters_of, sql_of};
use super::reply::{self, Gone, Receiver, Sender};
use super::wait::{block_on, block_on_until};
use super::{NativeRows, NativeWriter, options, rows};
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
    /// Number of the transaction in this process.
    number: u64,
    /// Threads that have used it and have not ended.
    threads: AtomicUsize,
    /// True once a step was cancelled.
    is_stopped: AtomicBool,
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    call: Mutex<Option<PendingCall<()>>>,
}

impl Shared {
    fn new(writer: usize) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            writer,
            process: Process::current(),
            number: LAST.fetch_add(1, Ordering::Relaxed),
            threads: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            requests: Mutex::new(None),
            call: Mutex::new(None),
        }
    }

    /// Rolls it back, and stops the step that runs: no further one is carried out.
    fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.abandon();
        if let Some(call) = lock(&self.call).as_ref() {
            call.interrupt();
        }
    }

    /// The exception for a request to a transaction that is not open.
    fn not_open(&self, py: Python<'_>) -> PyErr {
        if !self.is_stopped.load(Ordering::SeqCst) {
            return misuse(py, "the transaction is not open");
        }
        let error = Error::from(ErrorKind::Cancelled)
            .on_disk("nothing of the transaction: it was rolled back when a step was cancelled")
            .to_do("run the transaction again, or give the step more time");
        exception(py, &error)
    }

    fn is_open(&self) -> bool {
        lock(&self.requests).is_some()
    }

    /// Has the closure end with a rollback.
    pub fn abandon(&self) {
        drop(lock(&self.requests).take());
    }

    /// Takes back the call that no caller waits for any more, also while its group waits for a lock.
    fn give_up(&self) {
        self.abandon();
        let call = lock(&self.call).take();
        if let Some(call) = call {
            call.interrupt();
        }
    }

    fn send(&self, request: Request) -> bool {
        lock(&self.requests).as_ref().is_some_and(|requests| requests.send(request).is_ok())
    }
}

/// A transaction that this thread has used. When all threads that have used it end, it is rolled back.
struct UsedHere {
    shared: Weak<Shared>,
    has_begun_here: bool,
}

impl Drop for UsedHere {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade()
            && shared.threads.fetch_sub(1, Ordering::SeqCst) == 1
        {
            shared.abandon();
        }
    }
}

thread_local! {
    static USED_HERE: RefCell<Vec<UsedHere>> = const { RefCell::new(Vec::new()) };
}

/// Notes that this thread uses a transaction.
fn use_here(shared: &Arc<Shared>, has_begun_here: bool) {
    USED_HERE.with_borrow_mut(|used| {
        if used.iter().any(|it| std::ptr::eq(it.shared.as_ptr(), Arc::as_ptr(shared))) {
            return;
        }
        used.retain(|it| it.shared.upgrade().is_some_and(|shared| shared.is_open()));
        shared.threads.fetch_add(1, Ordering::SeqCst);
        used.push(UsedHere { shared: Arc::downgrade(shared), has_begun_here });
    });
}

/// Returns true if this thread has begun a transaction of the writer of this address, and has it
/// open. A thread of a pool may have begun it for a request, and serve another one now: each
/// request has a context of its own.
pub fn is_open_here(py: Python<'_>, writer: usize) -> bool {
    let found = USED_HERE.with_borrow(|used| {
        let begun = used.iter().filter(|it| it.has_begun_here);
        // In a child of `fork` it is the parent's.
        let open = |shared: &Arc<Shared>| {
            shared.writer == writer && shared.process.is_current() && shared.is_open()
        };
        begun.filter_map(|it| it.shared.upgrade()).find(open)
    });
    found.is_some_and(|shared| is_in_context(py, &shared).unwrap_or(true))
}

/// The variable of Python that has, for each writer, the number of the last transaction that was
/// begun in a context.
fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || {
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        Ok::<_, PyErr>(class.call1(("leafpress_begun",))?.unbind())
    };
    Ok(VARIABLE.get_or_try_init(py, make)?.bind(py))
}

fn note_in_context(py: Python<'_>, shared: &Shared) -> PyResult<()> {
    let noted = PyDict::new(py);
    if let Ok(known) = variable(py)?.call_method1("get", (py.None(),))?.cast_into::<PyDict>() {
        noted.update(known.as_mapping())?;
    }
    noted.set_item(shared.writer, shared.number)?;
    variable(py)?.call_method1("set", (noted,)).map(drop)
}

fn is_in_context(py: Python<'_>, shared: &Shared) -> PyResult<bool> {
    let noted = variable(py)?.call_method1("get", (PyDict::new(py),))?;
    let number = noted.call_method1("get", (shared.writer,))?;
    Ok(number.extract::<Option<u64>>()? == Some(shared.number))
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
        let shared = Arc::new(Shared::new(writer.get().address()));
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
    rows::result(py, outcome.columns, outcome.rows, Executed::new(changed, rowid))
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
    .retryable()
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
