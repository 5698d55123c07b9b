//! A caller's place in the queue: where the answer to its call will be.
//!
//! A [`Ticket`] waits in a thread or as a `Future`, with no runtime of its own.
//! All callers of one group wait on one [`GroupEvent`], so that a commit wakes
//! hundreds of threads with one call into the system.
//!
//! Must never: answer a call twice, or leave one without an answer: an [`Entry`] that is dropped
//! unanswered answers that its outcome is unknown.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::call::{Answer, Call};
use super::caught::{Caught, wake};
use super::driving;
use super::interrupt::Interrupts;
use crate::error::{Error, ErrorKind, Result};
use crate::fork::OfProcess;
use crate::sync::lock;

/// The event on which the callers of one group wait.
#[derive(Debug)]
pub(super) struct GroupEvent {
    /// Number of threads that wait.
    waiting: Mutex<usize>,
    answered: Condvar,
    interrupts: Arc<Interrupts>,
}

impl GroupEvent {
    /// For calls that `interrupts` can stop.
    pub(super) fn new(interrupts: &Arc<Interrupts>) -> Arc<Self> {
        let interrupts = Arc::clone(interrupts);
        Arc::new(Self { waiting: Mutex::default(), answered: Condvar::new(), interrupts })
    }

    /// Wakes all who wait. Their answers must be there.
    pub(super) fn notify(&self) {
        // Each caller that saw no answer under this lock waits on the condition once it is free.
        let is_awaited = *lock(&self.waiting) > 0;
        if is_awaited {
            // A call of the system, also where no thread waits.
            self.answered.notify_all();
        }
    }

    /// Waits until `is_answered`, or until `deadline`.
    fn wait(&self, deadline: Option<Instant>, is_answered: impl Fn() -> bool) -> bool {
        let mut waiting = lock(&self.waiting);
        *waiting += 1;
        let in_time = loop {
            if is_answered() {
                break true;
            }
            let Some(deadline) = deadline else {
                waiting = self.answered.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            let woken = self.answered.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        *waiting -= 1;
        in_time
    }
}

/// State of a call.
#[derive(Debug)]
enum State {
    /// No thread has begun with it.
    Queued(Option<Waker>),
    /// Its group is being committed.
    Begun(Option<Waker>),
    /// The caller has not fetched the answer yet, and perhaps never will.
    Answered {
        answer: Caught<Result<Answer>>,
        /// The call that was carried out, if it is plain data, for the caller's thread to free: a
        /// thread frees several times as fast what it has allocated itself.
        spent: Option<Call<'static>>,
    },
    /// The answer is with the caller.
    Fetched,
}

/// Shared by the caller's ticket and the entry in the queue.
#[derive(Debug)]
struct Slot {
    state: Mutex<State>,
    event: Arc<GroupEvent>,
    number: u64,
}

impl Slot {
    fn is_answered(&self) -> bool {
        matches!(*lock(&self.state), State::Answered { .. } | State::Fetched)
    }

    /// Leaves the answer, and gives whom to wake for it.
    fn answer(&self, answer: Result<Answer>, spent: Option<Call<'static>>) -> Option<Waker> {
        let answered = State::Answered { answer: Caught::new(answer), spent };
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, answered) {
            State::Queued(waker) | State::Begun(waker) => waker,
            // Cancelled: the first answer stays.
            earlier => {
                *state = earlier;
                None
            }
        }
    }

    /// The answer, once.
    fn fetch<T>(&self, take: Take<T>) -> Option<Result<T>> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Fetched) {
            State::Answered { answer, spent } => {
                drop(state);
                drop(spent);
                Some(answer.into_inner().and_then(take))
            }
            earlier => {
                *state = earlier;
                None
            }
        }
    }

    /// Answers `error`, if no thread has begun with the call; false if it is too late.
    fn take_back(&self, error: Error) -> bool {
        let mut state = lock(&self.state);
        let State::Queued(waker) = &mut *state else { return false };
        let waker = waker.take();
        *state = State::Answered { answer: Caught::new(Err(error)), spent: None };
        drop(state);
        if let Some(waker) = waker {
            wake(waker);
        }
        true
    }

    /// Says why a closure cannot wait for this call, which is taken back if that can be.
    fn refuse_to_closure(&self) -> Error {
        if self.take_back(waits_in_closure()) {
            return waits_in_closure();
        }
        // The call is in the group of the closure, or another writer has begun with it.
        let reason = "a closure inside a transaction cannot wait for a call to a writer, and this \
                      one had begun: it goes its way";
        Error::unknown_outcome(reason).to_do("wait for the ticket after the transaction")
    }

    /// Leaves `waker` to be woken; false if the answer is there.
    fn wake_later(&self, waker: &Waker) -> bool {
        let mut new = None;
        loop {
            let mut state = lock(&self.state);
            let (State::Queued(place) | State::Begun(place)) = &mut *state else { return false };
            if place.as_ref().is_some_and(|there| there.will_wake(waker)) {
                return true;
            }
            // Cloning and dropping a waker runs code of a caller, which must not be under a lock.
            if let Some(new) = new.take() {
                let old = place.replace(new);
                drop(state);
                drop(old);
                return true;
            }
            drop(state);
            new = Some(waker.clone());
        }
    }
}

/// A call on its way: in the queue, then in a group.
#[derive(Debug)]
pub(super) struct Entry {
    call: Option<Call<'static>>,
    pub(super) submitted: Instant,
    /// The longest time that it may run.
    pub(super) limit: Option<Duration>,
    slot: Arc<Slot>,
    is_answered: bool,
}

impl Entry {
    /// A call that waits on `event`, and the ticket for it. No other call of the writer has
    /// its `number`.
    pub(super) fn new<T>(
        (call, limit): (Call<'static>, Option<Duration>),
        number: u64,
        event: Arc<GroupEvent>,
        take: Take<T>,
    ) -> (Self, Ticket<T>) {
        let slot = Arc::new(Slot { state: Mutex::new(State::Queued(None)), event, number });
        let slot_of_ticket = OfProcess::new("ticket", Arc::clone(&slot));
        let ticket = Ticket { slot: slot_of_ticket, take, value: PhantomData };
        let (call, submitted) = (Some(call), Instant::now());
        (Self { call, submitted, limit, slot, is_answered: false }, ticket)
    }

    /// Number by which the call is interrupted.
    pub(super) fn number(&self) -> u64 {
        self.slot.number
    }

    /// Marks the call as begun, so that it cannot be cancelled any more; returns false if it is not
    /// wanted any more.
    pub(super) fn begin(&mut self) -> bool {
        let mut state = lock(&self.slot.state);
        if let State::Queued(waker) = &mut *state {
            *state = State::Begun(waker.take());
            return true;
        }
        drop(state);
        self.is_answered = true;
        false
    }

    /// The call that is to be carried out. It can be taken once.
    pub(super) fn take_call(&mut self) -> Call<'static> {
        self.call.take().expect("a call is taken once")
    }

    /// Leaves the answer, and the call that was carried out, if it is plain data; threads that
    /// wait see the answer after [`Self::event`]'s `notify`.
    pub(super) fn answer(&mut self, answer: Result<Answer>, spent: Option<Call<'static>>) {
        self.is_answered = true;
        if let Some(waker) = self.slot.answer(answer, spent) {
            wake(waker);
        }
    }

    /// The event on which the caller waits.
    pub(super) fn event(&self) -> &Arc<GroupEvent> {
        &self.slot.event
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer(Err(Error::unknown_outcome("the writer ended in the middle of it")), None);
            self.slot.event.notify();
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
    slot: OfProcess<Arc<Slot>>,
    take: Take<T>,
    value: PhantomData<fn() -> T>,
}

impl<T> Ticket<T> {
    /// Waits until the call's group is committed as the profile promises.
    ///
    /// # Errors
    /// The error of this call; nothing of it is in the database then, unless the kind is
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown).
    pub fn wait(self) -> Result<T> {
        let slot = self.slot.get()?;
        if driving::is_driving() && !slot.is_answered() {
            return Err(slot.refuse_to_closure());
        }
        slot.event.wait(None, || slot.is_answered());
        slot.fetch(self.take).unwrap_or_else(|| Err(fetched_before()))
    }

    /// Waits so long at most.
    ///
    /// # Errors
    /// The ticket again, if there is no answer yet. The call goes on.
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<T>, Self> {
        let slot = match self.slot.get() {
            Ok(slot) => slot,
            Err(forked) => return Ok(Err(forked.into())),
        };
        if driving::is_driving() && !slot.is_answered() {
            return Ok(Err(slot.refuse_to_closure()));
        }
        let deadline = Instant::now().checked_add(limit);
        if slot.event.wait(deadline, || slot.is_answered()) {
            Ok(slot.fetch(self.take).unwrap_or_else(|| Err(fetched_before())))
        } else {
            Err(self)
        }
    }

    /// Waits at most for `limit` (`None`: without an end) until the answer is there, and leaves it.
    /// Returns false if it is not there yet. In a child of `fork` it does not wait.
    ///
    /// # Errors
    /// [`Misuse`](ErrorKind::Misuse) in a closure inside a transaction, where it would wait for
    /// ever; the call is taken back if that can be.
    pub fn wait_answered(&self, limit: Option<Duration>) -> Result<bool> {
        let Some(slot) = self.slot.here() else { return Ok(true) };
        if driving::is_driving() && !slot.is_answered() {
            return Err(slot.refuse_to_closure());
        }
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        Ok(slot.event.wait(deadline, || slot.is_answered()))
    }

    /// The answer, if it is there. It can be fetched once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn fetch(&self) -> Option<Result<T>> {
        match self.slot.get() {
            Ok(slot) => slot.fetch(self.take),
            Err(forked) => Some(Err(forked.into())),
        }
    }

    /// Returns true if the answer is there. In a child of `fork` it is: the error that each wait
    /// gives there.
    pub fn is_answered(&self) -> bool {
        self.slot.here().is_none_or(|slot| slot.is_answered())
    }

    /// Takes the call back, if no thread has begun with it: then nothing of it is written, and the
    /// ticket answers [`Cancelled`](ErrorKind::Cancelled). Returns false if it is too late for
    /// that, and in a child of `fork`; the call is then carried out as if this had not been called.
    pub fn cancel(&self) -> bool {
        let Some(slot) = self.slot.here() else { return false };
        slot.take_back(Error::from(ErrorKind::Cancelled).on_disk("nothing of this call"))
    }

    /// Number of the call; `None` in a child of `fork`.
    pub(super) fn number(&self) -> Option<u64> {
        self.slot.here().map(|slot| slot.number)
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
        let Some(slot) = self.slot.here() else { return false };
        if slot.take_back(Error::from(ErrorKind::Interrupted).on_disk("nothing of this call")) {
            return true;
        }
        // While its state is locked, it cannot be answered, nor its number be forgotten.
        let state = lock(&slot.state);
        let has_begun = matches!(*state, State::Begun(_));
        if has_begun {
            slot.event.interrupts.ask(slot.number);
        }
        has_begun
    }
}

impl<T: 'static> Ticket<T> {
    /// Has `tell` called with the answer: at once if it is there, otherwise on the thread that
    /// answers. `tell` must not wait. Does nothing in a child of `fork`.
    pub(crate) fn on_answer(self, tell: impl FnOnce(Result<T>) + Send + 'static) {
        let Some(slot) = self.slot.here().map(Arc::clone) else { return };
        let told = Arc::new(OnAnswer(Mutex::new(Some((self, tell)))));
        if !slot.wake_later(&Waker::from(Arc::clone(&told))) {
            told.wake();
        }
    }
}

/// A ticket, and the code that gets its answer.
struct OnAnswer<T, F>(Mutex<Option<(Ticket<T>, F)>>);

impl<T: 'static, F: FnOnce(Result<T>) + Send + 'static> Wake for OnAnswer<T, F> {
    fn wake(self: Arc<Self>) {
        let Some((ticket, tell)) = lock(&self.0).take() else { return };
        if let Some(slot) = ticket.slot.here()
            && let Some(answer) = slot.fetch(ticket.take)
        {
            tell(answer);
        }
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = match self.slot.get() {
            Ok(slot) => slot,
            Err(forked) => return Poll::Ready(Err(forked.into())),
        };
        if driving::is_in_call() && !slot.is_answered() {
            // A closure that polls here waits here, and would do so for ever.
            return Poll::Ready(Err(slot.refuse_to_closure()));
        }
        if slot.wake_later(context.waker()) {
            return Poll::Pending;
        }
        Poll::Ready(slot.fetch(self.take).unwrap_or_else(|| Err(fetched_before())))
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
