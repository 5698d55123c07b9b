//! The calls that come while a group is made: the state of each, and the event on which their callers
//! wait.
//!
//! ```text
//! Entry, in the queue and then in a group ─┐
//!                                          ├─ CallPlace ─► GroupEvent: one lock, one list of states
//! Ticket, with the caller ─────────────────┘
//! ```
//!
//! The states of all these calls stand side by side: a thread that answers them takes one lock, writes one
//! stretch of memory, and wakes all threads by one call into the system. A list that is not fetched to its end
//! is kept as long as a ticket of it.
//!
//! Must never: run code of a caller under the lock, such as a waker or a destructor.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use super::call::{Answer, Call};
use super::caught::{Caught, wake};
use super::interrupt::Interrupts;
use crate::error::{Error, Result};
use crate::sync::lock;

/// The states of the calls that come while a group is made, and the event on which their callers wait.
#[derive(Debug)]
pub(super) struct GroupEvent {
    states: Mutex<States>,
    answered: Condvar,
    interrupts: Arc<Interrupts>,
    /// No call with a lower number has its state here.
    first_number: u64,
}

#[derive(Debug, Default)]
struct States {
    /// Number of threads that wait.
    waiting: usize,
    /// By the calls' numbers, from the first one on. A call beyond the end is queued.
    of_calls: Vec<State>,
}

/// State of a call.
#[derive(Debug)]
enum State {
    /// No thread has begun with it.
    Queued(Option<Waker>),
    /// Its group is being committed.
    Begun(Option<Waker>),
    /// The caller has not fetched the answer yet.
    Answered {
        answer: Caught<Result<Answer>>,
        /// The call that was carried out, if it is plain data, for the caller's thread to free: a
        /// thread frees several times as fast what it has allocated itself.
        spent: Option<Call<'static>>,
    },
    /// The answer is with the caller.
    Fetched,
    /// The ticket was dropped before there was an answer.
    Left,
}

/// An answer, and the call that was carried out, if it is plain data.
pub(super) type Answered = (Result<Answer>, Option<Call<'static>>);

/// Work that is left for the time after the lock.
#[derive(Debug, Default)]
struct Afterwards {
    wakers: Vec<Waker>,
    /// Answers that no caller fetches.
    unwanted: Vec<Caught<Answered>>,
}

impl GroupEvent {
    /// For calls from this number on, which `interrupts` can stop.
    pub(super) fn new(interrupts: &Arc<Interrupts>, first_number: u64) -> Arc<Self> {
        let (states, answered) = (Mutex::default(), Condvar::new());
        Arc::new(Self { states, answered, interrupts: Arc::clone(interrupts), first_number })
    }

    /// Another one, for calls from this number on.
    pub(super) fn anew(&self, first_number: u64) -> Arc<Self> {
        Self::new(&self.interrupts, first_number)
    }

    /// Returns true if the calls from this number on have their states here, and no earlier ones.
    pub(super) fn begins_at(&self, number: u64) -> bool {
        self.first_number == number
    }

    fn index(&self, number: u64) -> usize {
        (number - self.first_number) as usize
    }

    /// Marks calls as begun, so that they cannot be taken back any more. Gives the ordinals of those
    /// that were.
    pub(super) fn begin(&self, numbers: impl ExactSizeIterator<Item = u64>) -> Vec<usize> {
        let mut unwanted = Vec::new();
        let mut states = lock(&self.states);
        let missing = numbers.len().saturating_sub(states.of_calls.len());
        states.of_calls.reserve_exact(missing);
        for (ordinal, number) in numbers.enumerate() {
            let state = states.of_call(self.index(number));
            match state {
                State::Queued(waker) => {
                    let waker = waker.take();
                    *state = State::Begun(waker);
                }
                State::Left => {}
                State::Begun(_) | State::Answered { .. } | State::Fetched => unwanted.push(ordinal),
            }
        }
        unwanted
    }

    /// Leaves the answers of calls and wakes those who wait for them.
    pub(super) fn answer(&self, answers: impl Iterator<Item = (u64, Answered)>) {
        let mut afterwards = Afterwards::default();
        let mut states = lock(&self.states);
        for (number, answered) in answers {
            states.of_call(self.index(number)).answer(answered, &mut afterwards);
        }
        // Each caller that sees no answer under the lock waits on the condition once it is free.
        let is_awaited = states.waiting > 0;
        drop(states);
        afterwards.wakers.into_iter().for_each(wake);
        if is_awaited {
            // A call of the system, also where no thread waits.
            self.answered.notify_all();
        }
    }
}

impl States {
    fn is_answered(&self, index: usize) -> bool {
        self.of_calls.get(index).is_some_and(State::is_answered)
    }

    fn of_call(&mut self, index: usize) -> &mut State {
        if index >= self.of_calls.len() {
            self.of_calls.resize_with(index + 1, || State::Queued(None));
        }
        &mut self.of_calls[index]
    }
}

impl State {
    fn is_answered(&self) -> bool {
        matches!(self, Self::Answered { .. } | Self::Fetched)
    }

    /// Leaves the answer.
    fn answer(&mut self, (answer, spent): Answered, afterwards: &mut Afterwards) {
        match self {
            Self::Queued(waker) | Self::Begun(waker) => {
                afterwards.wakers.extend(waker.take());
                *self = Self::Answered { answer: Caught::new(answer), spent };
            }
            // Taken back: the first answer stays.
            Self::Left | Self::Answered { .. } | Self::Fetched => {
                afterwards.unwanted.push(Caught::new((answer, spent)));
            }
        }
    }

    /// The answer, once.
    fn take(&mut self) -> Option<(Caught<Result<Answer>>, Option<Call<'static>>)> {
        let Self::Answered { .. } = self else { return None };
        match std::mem::replace(self, Self::Fetched) {
            Self::Answered { answer, spent } => Some((answer, spent)),
            _ => None,
        }
    }
}

/// The call was not answered in time.
#[derive(Debug)]
pub(super) struct NotYet;

/// The place of a call among those of its event.
#[derive(Debug, Clone)]
pub(super) struct CallPlace {
    event: Arc<GroupEvent>,
    number: u64,
}

impl CallPlace {
    /// The place of the call of this number.
    pub(super) fn new(event: Arc<GroupEvent>, number: u64) -> Self {
        Self { event, number }
    }

    pub(super) fn event(&self) -> &Arc<GroupEvent> {
        &self.event
    }

    /// Number by which the call is interrupted.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(lock(&self.event.states).of_call(self.event.index(self.number)))
    }

    pub(super) fn is_answered(&self) -> bool {
        lock(&self.event.states).is_answered(self.event.index(self.number))
    }

    /// The answer, once.
    pub(super) fn fetch(&self) -> Option<Result<Answer>> {
        let (answer, spent) = self.with(State::take)?;
        drop(spent);
        Some(answer.into_inner())
    }

    /// Waits until the call is answered, or until `deadline`, and fetches the answer; `None` if it
    /// was fetched before.
    pub(super) fn wait_and_fetch(
        &self,
        deadline: Option<Instant>,
    ) -> Result<Option<Result<Answer>>, NotYet> {
        let (mut states, in_time) = self.wait_locked(deadline);
        if !in_time {
            return Err(NotYet);
        }
        let taken = states.of_call(self.event.index(self.number)).take();
        drop(states);
        Ok(taken.map(|(answer, spent)| {
            drop(spent);
            answer.into_inner()
        }))
    }

    /// Waits until the call is answered, or until `deadline`; false if it is not.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> bool {
        self.wait_locked(deadline).1
    }

    fn wait_locked(&self, deadline: Option<Instant>) -> (MutexGuard<'_, States>, bool) {
        let (event, index) = (&*self.event, self.event.index(self.number));
        let mut states = lock(&event.states);
        states.waiting += 1;
        let in_time = loop {
            if states.is_answered(index) {
                break true;
            }
            let Some(deadline) = deadline else {
                states = event.answered.wait(states).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            let woken = event.answered.wait_timeout(states, left);
            states = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        states.waiting -= 1;
        (states, in_time)
    }

    /// Answers `error`, if no thread has begun with the call; false if it is too late.
    pub(super) fn take_back(&self, error: impl FnOnce() -> Error) -> bool {
        let taken_back = self.with(|state| {
            let State::Queued(waker) = state else { return None };
            let waker = waker.take();
            *state = State::Answered { answer: Caught::new(Err(error())), spent: None };
            Some(waker)
        });
        if let Some(Some(waker)) = taken_back {
            wake(waker);
            return true;
        }
        taken_back.is_some()
    }

    /// Asks for the end of the call, if it has begun and is not answered.
    pub(super) fn interrupt(&self) -> bool {
        // While its state is locked, it cannot be answered, nor its number be forgotten.
        self.with(|state| {
            let has_begun = matches!(state, State::Begun(_));
            if has_begun {
                self.event.interrupts.ask(self.number);
            }
            has_begun
        })
    }

    /// Leaves `waker` to be woken; false if the answer is there.
    pub(super) fn wake_later(&self, waker: &Waker) -> bool {
        let mut new = None;
        loop {
            // Cloning and dropping a waker runs code of a caller, which must not be under the lock.
            let old = self.with(|state| {
                let (State::Queued(place) | State::Begun(place)) = state else { return Err(false) };
                if place.as_ref().is_some_and(|there| there.will_wake(waker)) {
                    return Err(true);
                }
                Ok(new.take().map(|new| place.replace(new)))
            });
            match old {
                Err(is_left) => return is_left,
                Ok(Some(old)) => {
                    drop(old);
                    return true;
                }
                Ok(None) => new = Some(waker.clone()),
            }
        }
    }

    /// The caller wants no answer any more.
    pub(super) fn leave(&self) {
        let left = self.with(|state| {
            let after = if state.is_answered() { State::Fetched } else { State::Left };
            std::mem::replace(state, after)
        });
        drop(left);
    }
}
