//! Calls of tasks: futures that never block the thread that polls them.
//!
//! ```text
//! execute_async ─► first poll ─► queue, or its overflow if it is full ─► group ─► answer ─► the task
//! ```
//!
//! Stands beside the calls that wait (`mod.rs`), which block a thread while the queue is full
//! and until their group is committed. A task does neither: its call waits for room, and
//! the thread that answers wakes the task. No runtime is needed, and any will do.
//!
//! 1. Nothing is done before the first poll.
//! 2. A future that is dropped frees its place in the overflow at once, and its place in the queue
//!    when the next group is taken. Its call is taken back if no thread had begun with it;
//!    otherwise it is committed.
//!
//! Must never: wait, or depend on a runtime.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::call::Call;
use super::request::{Batch, Executed, IntoParameters, insert_many_request};
use super::ticket::{Take, Ticket, fetched_before, waits_in_closure};
use super::transaction::Transaction;
use super::{Writer, closure_call, done, driving, execute_call, executed, inserted, value};
use crate::error::Result;

/// A call of a task: a future that waits for room in the queue and then for the commit.
///
/// Polling it never blocks, in any runtime or in none. Nothing is done before the first poll.
/// Calls take effect in the order in which they were first polled.
///
/// If it is dropped before a thread has begun with the call, the call is taken back, and nothing
/// of it is written. If it is dropped later, the call is committed all the same, and its answer
/// is lost. If it waited for room, its place is free at once, else when the next group is taken.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.db");
/// use leafpress::writer::Writer;
///
/// async fn note(writer: &Writer, text: &str) -> leafpress::Result<i64> {
///     let done = writer.execute_async("INSERT INTO note VALUES (?1)", [text]).await?;
///     Ok(done.last_insert_rowid)
/// }
///
/// let writer = Writer::builder(&path).open()?;
/// writer.execute_batch("CREATE TABLE note(text)")?;
/// # fn block_on<F: std::future::Future>(future: F) -> F::Output {
/// #     let (mut future, waker) = (std::pin::pin!(future), std::task::Waker::noop());
/// #     loop {
/// #         let mut context = std::task::Context::from_waker(waker);
/// #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
/// #             return output;
/// #         }
/// #         std::thread::yield_now();
/// #     }
/// # }
/// assert_eq!(block_on(note(&writer, "from a task"))?, 1);
/// # Ok::<(), leafpress::Error>(())
/// ```
#[must_use = "nothing is done before it is awaited"]
pub struct PendingCall<T> {
    writer: Writer,
    take: Take<T>,
    state: State<T>,
}

enum State<T> {
    /// It was not polled yet; or the error of its arguments.
    New(Result<Call<'static>>),
    /// It is in the overflow, in the queue, in a group, or answered.
    Submitted(Ticket<T>),
    /// The answer is with the caller, or the call was taken back.
    Over,
}

impl<T> PendingCall<T> {
    pub(super) fn new(writer: &Writer, call: Result<Call<'static>>, take: Take<T>) -> Self {
        Self { writer: writer.clone(), take, state: State::New(call) }
    }

    fn hand_in(&self, call: Result<Call<'static>>) -> Result<Ticket<T>> {
        let shared = self.writer.shared.get()?;
        if driving::is_in_call() {
            return Err(waits_in_closure());
        }
        shared.queue.push_or_overflow((call?, self.writer.call_limit), self.take)
    }

    /// The answer, for a thread: it waits here, and carries out the call itself if no other thread
    /// runs the engine.
    ///
    /// # Errors
    /// Those of the call.
    pub fn wait(mut self) -> Result<T> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::New(call) => self.writer.carry_out(call?, self.take),
            State::Submitted(ticket) => ticket.wait(),
            State::Over => Err(fetched_before()),
        }
    }

    /// The answer, for a thread that must look for signals: it carries out the call itself, in a group of
    /// its own, if the writer has nothing else to do. It calls `is_to_end` about each 50 ms, while
    /// statements run and while it waits for another process's lock; true interrupts the call, as
    /// [`interrupt`](Self::interrupt) does. `is_to_end` must wait for no call of this writer, nor
    /// for a thread that does.
    ///
    /// # Errors
    /// The call again, if the writer has other calls, or commits its groups elsewhere; inside, those of
    /// the call.
    pub fn carry_out_if_idle(
        mut self,
        is_to_end: fn() -> bool,
    ) -> std::result::Result<Result<T>, Self> {
        let call = match std::mem::replace(&mut self.state, State::Over) {
            State::New(Ok(call)) => call,
            before => {
                self.state = before;
                return Err(self);
            }
        };
        match self.writer.carry_out_if_idle(call, is_to_end) {
            Ok(answer) => Ok(answer.and_then(self.take)),
            Err(call) => {
                self.state = State::New(Ok(call));
                Err(self)
            }
        }
    }

    /// As [`submit`](Self::submit), and waits at most for `limit`.
    ///
    /// # Errors
    /// The call again, if there is no room yet. It keeps its place among those that wait.
    pub fn submit_timeout(
        mut self,
        limit: Duration,
    ) -> std::result::Result<Result<Ticket<T>>, Self> {
        let ticket = match std::mem::replace(&mut self.state, State::Over) {
            State::New(call) => match self.hand_in(call) {
                Ok(ticket) => ticket,
                Err(error) => return Ok(Err(error)),
            },
            State::Submitted(ticket) => ticket,
            State::Over => return Ok(Err(fetched_before())),
        };
        let has_room = match (self.writer.shared.here(), ticket.number()) {
            (Some(shared), Some(number)) => shared.queue.wait_for_room(number, limit),
            // In a child of `fork` the ticket says so.
            _ => Ok(true),
        };
        match has_room {
            Ok(true) => Ok(Ok(ticket)),
            Ok(false) => {
                self.state = State::Submitted(ticket);
                Err(self)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Hands in the call of a thread, which waits for room and not for the answer.
    ///
    /// # Errors
    /// As [`Writer::submit`].
    pub fn submit(mut self) -> Result<Ticket<T>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::New(call) => self.writer.submit_call(call?, self.take),
            State::Submitted(ticket) => Ok(ticket),
            State::Over => Err(fetched_before()),
        }
    }

    /// Takes the call back if no thread has begun with it, and stops it if it runs, also while its
    /// group waits for a lock: then nothing of it is written, and other callers' calls are carried
    /// out. Returns false if it was not polled yet, or is answered. As
    /// [`Ticket::interrupt`](super::Ticket::interrupt), true does not say that it fails.
    pub fn interrupt(&self) -> bool {
        matches!(&self.state, State::Submitted(ticket) if ticket.interrupt())
    }

    /// Hands in the call without waiting for room or for the answer, and forgets it. For code
    /// that runs where calls are answered, and for destructors.
    pub fn leave(mut self) {
        if let State::New(Ok(call)) = std::mem::replace(&mut self.state, State::Over)
            && let Some(shared) = self.writer.shared.here()
            && let Err(error) = shared.queue.push_or_overflow((call, None), self.take)
        {
            tracing::debug!(%error, "a call that no caller waits for was refused");
        }
    }

    /// Takes the call back, if no thread has begun with it. If it is too late for that, the
    /// ticket for the answer that the future would have given.
    pub(crate) fn take_back(&mut self) -> Option<Ticket<T>> {
        let State::Submitted(ticket) = std::mem::replace(&mut self.state, State::Over) else {
            return None;
        };
        if !ticket.cancel() {
            return Some(ticket);
        }
        if let (Some(shared), Some(number)) = (self.writer.shared.here(), ticket.number()) {
            shared.queue.leave_overflow(number);
        }
        None
    }
}

impl<T> Future for PendingCall<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut ticket = match std::mem::replace(&mut this.state, State::Over) {
            State::New(call) => match this.hand_in(call) {
                Ok(ticket) => ticket,
                Err(error) => return Poll::Ready(Err(error)),
            },
            State::Submitted(ticket) => ticket,
            State::Over => return Poll::Ready(Err(fetched_before())),
        };
        let polled = Pin::new(&mut ticket).poll(context);
        if polled.is_pending() {
            this.state = State::Submitted(ticket);
        }
        polled
    }
}

impl<T> Drop for PendingCall<T> {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

impl<T> fmt::Debug for PendingCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::New(_) => "new",
            State::Submitted(ticket) if ticket.is_answered() => "answered",
            State::Submitted(_) => "submitted",
            State::Over => "over",
        };
        f.debug_struct("PendingCall").field("state", &state).finish_non_exhaustive()
    }
}

/// Calls of tasks. Each does what the call without `_async` does, and gives the same errors.
impl Writer {
    /// As [`execute`](Self::execute), as a future.
    pub fn execute_async(
        &self,
        sql: impl AsRef<str>,
        parameters: impl IntoParameters,
    ) -> PendingCall<Executed> {
        PendingCall::new(self, execute_call(sql.as_ref(), parameters), executed)
    }

    /// As [`execute_batch`](Self::execute_batch), as a future.
    pub fn execute_batch_async(&self, batch: impl Into<Batch>) -> PendingCall<()> {
        PendingCall::new(self, Ok(Call::Batch(batch.into())), done)
    }

    /// As [`transaction`](Self::transaction), as a future. The closure itself is not
    /// asynchronous: it runs on [some thread](Self::transaction), and all calls wait for it.
    pub fn transaction_async<T: Send + 'static>(
        &self,
        body: impl FnMut(&Transaction<'_>) -> Result<T> + Send + 'static,
    ) -> PendingCall<T> {
        PendingCall::new(self, Ok(closure_call(body)), value)
    }

    /// As [`insert_many`](Self::insert_many), as a future.
    pub fn insert_many_async<R: IntoParameters>(
        &self,
        table: &str,
        columns: &[&str],
        rows: impl IntoIterator<Item = R>,
    ) -> PendingCall<u64> {
        let request = insert_many_request(table, columns, rows).map(Call::InsertMany);
        PendingCall::new(self, request, inserted)
    }
}
