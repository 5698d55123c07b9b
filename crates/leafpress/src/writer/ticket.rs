//! A caller's place in the queue: where the answer to its call will be.
//!
//! A [`Ticket`] waits in a thread or as a `Future`, with no runtime of its own.
//! The answers of one group are in one [`GroupEvent`], so that a commit wakes hundreds of threads
//! with one call into the system.
//!
//! Must never: answer a call twice, or leave one without an answer: an [`Entry`] that is dropped
//! unanswered answers that its outcome is unknown.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::call::{Answer, Call};
use super::driving;
use super::group_event::{Answered, CallPlace, GroupEvent, NotYet};
use crate::error::{Error, ErrorKind, Result};
use crate::fork::OfProcess;
use crate::sync::lock;

/// A call on its way: in the queue, then in a group.
#[derive(Debug)]
pub(super) struct Entry {
    call: Option<Call<'static>>,
    pub(super) submitted: Instant,
    /// The longest time that it may run.
    pub(super) limit: Option<Duration>,
    place: CallPlace,
    is_answered: bool,
}

impl Entry {
    /// A call whose answer will be in `event`, and the ticket for it. No other call of the writer
    /// has its `number`.
    pub(super) fn new<T>(
        (call, limit): (Call<'static>, Option<Duration>),
        number: u64,
        event: Arc<GroupEvent>,
        take: Take<T>,
    ) -> (Self, Ticket<T>) {
        let place = CallPlace::new(event, number);
        let ticket = Ticket {
            place: OfProcess::new("ticket", place.clone()),
            take,
            is_fetched: AtomicBool::new(false),
            value: PhantomData,
        };
        let (call, submitted) = (Some(call), Instant::now());
        (Self { call, submitted, limit, place, is_answered: false }, ticket)
    }

    /// Number by which the call is interrupted.
    pub(super) fn number(&self) -> u64 {
        self.place.number()
    }

    /// Marks calls as begun, so that they cannot be taken back any more, and drops those that were.
    pub(super) fn begin_all(entries: &mut Vec<Self>) {
        let mut any_unwanted = false;
        for run in entries.chunk_by_mut(Self::are_of_one_event) {
            for unwanted in run[0].place.event().begin(run.iter().map(Self::number)) {
                run[unwanted].is_answered = true;
                any_unwanted = true;
            }
        }
        if any_unwanted {
            entries.retain(|entry| !entry.is_answered);
        }
    }

    fn are_of_one_event(&self, next: &Self) -> bool {
        Arc::ptr_eq(self.place.event(), next.place.event())
    }

    /// Marks the call as begun, so that it cannot be taken back any more; returns false if it is
    /// not wanted any more.
    pub(super) fn begin(&mut self) -> bool {
        self.is_answered |= !self.place.event().begin(std::iter::once(self.number())).is_empty();
        !self.is_answered
    }

    /// The call that is to be carried out. It can be taken once.
    pub(super) fn take_call(&mut self) -> Call<'static> {
        self.call.take().expect("a call is taken once")
    }

    /// Leaves the answers of all calls, in their order, and wakes those who wait for them. No answer
    /// may run code of a caller when it is made.
    pub(super) fn answer_all(entries: &mut Vec<Self>, mut answers: impl Iterator<Item = Answered>) {
        for run in entries.chunk_by_mut(Self::are_of_one_event) {
            let event = Arc::clone(run[0].place.event());
            let numbered = run.iter_mut().map(|entry| {
                entry.is_answered = true;
                entry.number()
            });
            event.answer(numbered.zip(&mut answers));
        }
        entries.clear();
    }

    /// Leaves the answer, and wakes those who wait for it.
    pub(super) fn answer(&mut self, answer: Result<Answer>) {
        self.is_answered = true;
        let answered = std::iter::once((self.number(), (answer, None)));
        self.place.event().answer(answered);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer(Err(Error::unknown_outcome("the writer ended in the middle of it")));
        }
    }
}

/// Makes the caller's value of an answer.
pub(super) type Take<T> = fn(Answer) -> Result<T>;

/// The answer to a call that was submitted: it can be waited for, here or as a
/// `Future`.
///
/// A ticket that is dropped changes nothing: its call is committed all the same, and its answer is
/// lost.
///
/// In a child of `fork` every wait ends at once with [`Forked`](ErrorKind::Forked);
/// the call goes its way in the parent.
#[must_use = "an error of the call is only told here"]
#[derive(Debug)]
pub struct Ticket<T> {
    place: OfProcess<CallPlace>,
    take: Take<T>,
    is_fetched: AtomicBool,
    value: PhantomData<fn() -> T>,
}

impl<T> Ticket<T> {
    /// Waits until the call's group is committed as the profile promises.
    ///
    /// # Errors
    /// The error of this call; nothing of it is in the database then, unless the kind is
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown).
    pub fn wait(self) -> Result<T> {
        let place = self.place.get()?;
        if driving::is_driving() && !place.is_answered() {
            return Err(refuse_to_closure(place));
        }
        self.taken(place.wait_and_fetch(None).unwrap_or_default())
    }

    /// As [`wait`](Self::wait), and waits at most for `limit`.
    ///
    /// # Errors
    /// The ticket again, if there is no answer yet. The call goes on.
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<T>, Self> {
        let place = match self.place.get() {
            Ok(place) => place,
            Err(forked) => return Ok(Err(forked.into())),
        };
        if driving::is_driving() && !place.is_answered() {
            return Ok(Err(refuse_to_closure(place)));
        }
        let deadline = Instant::now().checked_add(limit);
        match place.wait_and_fetch(deadline) {
            Ok(answer) => Ok(self.taken(answer)),
            Err(NotYet) => Err(self),
        }
    }

    /// Waits at most for `limit` (`None`: without an end) until the answer is there, and leaves it.
    /// Returns false if it is not there yet. In a child of `fork` it does not wait.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) in a closure inside a transaction, where it would wait for
    /// ever; the call is taken back if that can be.
    pub fn wait_answered(&self, limit: Option<Duration>) -> Result<bool> {
        let Some(place) = self.place.here() else { return Ok(true) };
        if driving::is_driving() && !place.is_answered() {
            return Err(refuse_to_closure(place));
        }
        Ok(place.wait(limit.and_then(|limit| Instant::now().checked_add(limit))))
    }

    /// The answer, if it is there. It can be fetched once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn fetch(&self) -> Option<Result<T>> {
        match self.place.get() {
            Ok(place) => place.fetch().map(|answer| self.taken(Some(answer))),
            Err(forked) => Some(Err(forked.into())),
        }
    }

    /// The caller's value of the answer; an error if there is none, as it was fetched before.
    fn taken(&self, answer: Option<Result<Answer>>) -> Result<T> {
        self.is_fetched.store(true, Ordering::Relaxed);
        answer.unwrap_or_else(|| Err(fetched_before())).and_then(self.take)
    }

    /// Returns true if the answer is there. In a child of `fork` it is: the error that each wait
    /// gives there.
    pub fn is_answered(&self) -> bool {
        self.place.here().is_none_or(CallPlace::is_answered)
    }

    /// Takes the call back, if no thread has begun with it: then nothing of it is written, and the
    /// ticket answers [`Cancelled`](ErrorKind::Cancelled). Returns false if it is too late for
    /// that, and in a child of `fork`; the call is then carried out as if this had not been called.
    pub fn cancel(&self) -> bool {
        let Some(place) = self.place.here() else { return false };
        place.take_back(|| Error::from(ErrorKind::Cancelled).on_disk("nothing of this call"))
    }

    /// Number of the call; `None` in a child of `fork`.
    pub(super) fn number(&self) -> Option<u64> {
        self.place.here().map(CallPlace::number)
    }

    /// Takes the call back if no thread has begun with it, and stops it if it runs: then nothing
    /// of it is written, other callers' calls are carried out, and the ticket answers
    /// [`Interrupted`](ErrorKind::Interrupted).
    ///
    /// Returns false if the call is answered already, and in a child of `fork`. True does not
    /// say that it fails: a statement may end before it is stopped, and a commit that has
    /// begun is never stopped. A closure is stopped in its next statement, not in code of its
    /// own. To wait for the outcome, wait for the ticket.
    pub fn interrupt(&self) -> bool {
        let Some(place) = self.place.here() else { return false };
        let error = || Error::from(ErrorKind::Interrupted).on_disk("nothing of this call");
        place.take_back(error) || place.interrupt()
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if !*self.is_fetched.get_mut()
            && let Some(place) = self.place.here()
        {
            place.leave();
        }
    }
}

/// Says why a closure cannot wait for this call, which is taken back if that can be.
fn refuse_to_closure(place: &CallPlace) -> Error {
    if place.take_back(waits_in_closure) {
        return waits_in_closure();
    }
    // The call is in the group of the closure, or another writer has begun with it.
    let reason = "a closure inside a transaction cannot wait for a call to a writer, and this \
                  one had begun: it goes its way";
    Error::unknown_outcome(reason).to_do("wait for the ticket after the transaction")
}

impl<T: 'static> Ticket<T> {
    /// Has `tell` called with the answer: at once if it is there, otherwise on the thread that
    /// answers. `tell` must not wait. Does nothing in a child of `fork`.
    pub(crate) fn on_answer(self, tell: impl FnOnce(Result<T>) + Send + 'static) {
        let Some(place) = self.place.here().cloned() else { return };
        let told = Arc::new(OnAnswer(Mutex::new(Some((self, tell)))));
        if !place.wake_later(&Waker::from(Arc::clone(&told))) {
            told.wake();
        }
    }
}

/// A ticket, and the code that gets its answer.
struct OnAnswer<T, F>(Mutex<Option<(Ticket<T>, F)>>);

impl<T: 'static, F: FnOnce(Result<T>) + Send + 'static> Wake for OnAnswer<T, F> {
    fn wake(self: Arc<Self>) {
        let Some((ticket, tell)) = lock(&self.0).take() else { return };
        // In a child of `fork` nothing is told.
        if ticket.place.here().is_some()
            && let Some(answer) = ticket.fetch()
        {
            tell(answer);
        }
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let place = match self.place.get() {
            Ok(place) => place,
            Err(forked) => return Poll::Ready(Err(forked.into())),
        };
        if driving::is_in_call() && !place.is_answered() {
            // A closure that polls here waits here, and would do so for ever.
            return Poll::Ready(Err(refuse_to_closure(place)));
        }
        if place.wake_later(context.waker()) {
            return Poll::Pending;
        }
        Poll::Ready(self.taken(place.fetch()))
    }
}

/// A closure in a transaction that waits for a call of a writer. Its own would wait for
/// itself; another one's might wait for that, and would not be undone with the closure.
pub(super) fn waits_in_closure() -> Error {
    Error::misuse(
        "a closure inside a transaction cannot wait for a call to a writer: its own carries out \
         the call after the closure, and another writer's call would stay if the closure is undone \
         or runs again",
    )
    .on_disk("nothing of this call")
    .to_do(
        "use the transaction that the closure was given; call another writer before or after the \
         transaction",
    )
}

pub(super) fn fetched_before() -> Error {
    Error::misuse("the answer of this ticket was fetched before")
}
