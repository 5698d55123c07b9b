//! Calls that wait for their group, in the order in which they were made.
//!
//! Stands between the callers' threads, which push, and the writer's thread, which takes all
//! that is there as the next group. The calls that arrive while a group is being committed are
//! the next group; no timer is involved.
//!
//! 1. Calls leave in the order in which they came.
//! 2. At most `capacity` calls wait; a caller that comes then waits for room, or gets an error.
//! 3. Once closed, nothing is accepted, and all that was accepted still leaves.
//! 4. Calls that wait for room, of threads and of tasks, are the *overflow*, in the order in which
//!    they came. It has a call only while calls wait for their group, and each group that leaves
//!    gives its room to the first calls of the overflow.
//!
//! Must never: run a caller's code under its lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::call::Call;
use super::driving;
use super::group_event::GroupEvent;
use super::interrupt::Interrupts;
use super::ticket::{Entry, Take, Ticket, waits_in_closure};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;

/// Rules for making a group of the calls that wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grouping {
    /// Calls in one group at most.
    pub(super) calls_max: usize,
    /// Longest wait of a group's first call for others to join it.
    pub(super) delay_max: Duration,
}

/// The thread that carries out a call that is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CarriedOutBy {
    /// The writer's thread.
    Thread,
    /// The thread that pushes it, or the thread that drives the engine at that moment.
    Caller,
}

/// The queue of one writer.
#[derive(Debug)]
pub(super) struct CallQueue {
    state: Mutex<QueueState>,
    /// The writer's thread waits here for calls.
    arrived: Condvar,
    /// The thread that makes a group waits here for more calls.
    gathered: Condvar,
    /// Callers wait here while the queue is full.
    room: Condvar,
    capacity: usize,
    interrupts: Arc<Interrupts>,
    /// Held by a caller that waits for the engine, to do its work itself.
    turn: Mutex<()>,
}

/// A call, and how long it may run.
pub(super) type Limited = (Call<'static>, Option<Duration>);

#[derive(Debug)]
struct QueueState {
    entries: Vec<Entry>,
    /// Calls that wait for room, by their numbers.
    overflow: BTreeMap<u64, Entry>,
    /// The event of the next group, on which the callers that push now will wait.
    event: Arc<GroupEvent>,
    /// Number of the last call that came.
    last_number: u64,
    /// Reason why no call is accepted any more.
    closed: Option<String>,
    /// Number of the first call of the overflow when the queue was closed.
    refused_from: Option<u64>,
    /// True if the queue was closed by a failure.
    has_failed: bool,
    /// The writer's thread sleeps, and no thread has woken it yet.
    thread_sleeps: bool,
    /// Number of calls for which the thread that makes a group waits; 0 if none waits.
    gather_at: usize,
    /// Threads whose call is in the overflow.
    threads_in_overflow: usize,
    depth_max: usize,
}

impl CallQueue {
    pub(super) fn new(capacity: usize, interrupts: Arc<Interrupts>) -> Self {
        let state = QueueState {
            entries: Vec::new(),
            overflow: BTreeMap::new(),
            event: GroupEvent::new(&interrupts, 1),
            last_number: 0,
            closed: None,
            refused_from: None,
            has_failed: false,
            thread_sleeps: false,
            gather_at: 0,
            threads_in_overflow: 0,
            depth_max: 0,
        };
        Self {
            state: Mutex::new(state),
            arrived: Condvar::new(),
            gathered: Condvar::new(),
            room: Condvar::new(),
            capacity: capacity.max(1),
            interrupts,
            turn: Mutex::default(),
        }
    }

    /// Calls that are to end.
    pub(super) fn interrupts(&self) -> &Arc<Interrupts> {
        &self.interrupts
    }

    /// Takes a call in; if the queue is full, waits for room. The writer's thread
    /// is woken, unless `by` is the caller itself, who will see to it that the
    /// call is carried out.
    ///
    /// # Errors
    /// If the queue is closed.
    pub(super) fn push<T>(
        &self,
        call: Limited,
        take: Take<T>,
        by: CarriedOutBy,
    ) -> Result<Ticket<T>> {
        let mut state = self.locked_if_open()?;
        // With room, the overflow is empty.
        if state.entries.len() < self.capacity {
            return Ok(self.accept(&mut state, call, take, by));
        }
        if driving::is_driving() {
            return Err(waits_in_closure());
        }
        let (number, ticket) = state.enter_overflow(call, take);
        self.wait_in_overflow(state, number, None)?;
        Ok(ticket)
    }

    /// Waits until the call of this number has left the overflow, at most for `limit`; false if it
    /// has not left then.
    ///
    /// # Errors
    /// If the queue was closed, and the call is refused.
    pub(super) fn wait_for_room(&self, number: u64, limit: Duration) -> Result<bool> {
        self.wait_in_overflow(lock(&self.state), number, Some(limit))
    }

    fn wait_in_overflow(
        &self,
        mut state: MutexGuard<'_, QueueState>,
        number: u64,
        limit: Option<Duration>,
    ) -> Result<bool> {
        let waits = |state: &mut QueueState| state.overflow.contains_key(&number);
        state.threads_in_overflow += 1;
        let mut state = match limit {
            None => self.room.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.room.wait_timeout_while(state, limit, waits);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.threads_in_overflow -= 1;
        match (&state.closed, state.refused_from) {
            (Some(reason), Some(first)) if number >= first => Err(Error::stopped(reason.clone())),
            _ => Ok(!state.overflow.contains_key(&number)),
        }
    }

    /// Takes a call in, if there is room.
    ///
    /// # Errors
    /// If the queue is full or closed.
    pub(super) fn try_push<T>(&self, call: Limited, take: Take<T>) -> Result<Ticket<T>> {
        let mut state = self.locked_if_open()?;
        if state.entries.len() >= self.capacity {
            return Err(Error::from(ErrorKind::QueueFull { capacity: self.capacity })
                .on_disk("nothing of this call")
                .to_do("wait for an earlier ticket and try again, or let the call wait for room"));
        }
        Ok(self.accept(&mut state, call, take, CarriedOutBy::Thread))
    }

    /// Takes a call in, or puts it into the overflow if there is no room. Never waits.
    ///
    /// # Errors
    /// If the queue is closed. A call of the overflow is answered with that error.
    pub(super) fn push_or_overflow<T>(&self, call: Limited, take: Take<T>) -> Result<Ticket<T>> {
        let mut state = self.locked_if_open()?;
        if state.entries.len() < self.capacity {
            return Ok(self.accept(&mut state, call, take, CarriedOutBy::Thread));
        }
        Ok(state.enter_overflow(call, take).1)
    }

    /// A number for a call that does not go through the queue.
    pub(super) fn new_number(&self) -> u64 {
        let mut state = lock(&self.state);
        state.last_number += 1;
        state.last_number
    }

    /// Returns true if a call with a lower number waits for its group or, in the overflow, for room.
    pub(super) fn has_earlier(&self, number: u64) -> bool {
        let state = lock(&self.state);
        let first_of_overflow = state.overflow.first_key_value().map(|(&first, _)| first);
        let mut waiting = state.entries.iter().map(Entry::number).chain(first_of_overflow);
        // The overflow is empty if no entries are there.
        !state.entries.is_empty() && waiting.any(|earlier| earlier < number)
    }

    /// Takes the call of this number out of the overflow, if it is there. It must have been taken back.
    pub(super) fn leave_overflow(&self, number: u64) {
        let left = lock(&self.state).overflow.remove(&number);
        if let Some(mut entry) = left {
            entry.begin();
        }
    }

    /// Returns true if no call waits, and the queue is open.
    pub(super) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        // The overflow is empty if no entries are there.
        state.entries.is_empty() && state.closed.is_none()
    }

    /// Calls in the overflow.
    #[cfg(test)]
    pub(super) fn overflow_len(&self) -> usize {
        lock(&self.state).overflow.len()
    }

    /// Gives the room of the group that left to the first calls of the overflow.
    fn admit(&self, state: &mut QueueState) {
        while state.entries.len() < self.capacity {
            let Some((_, entry)) = state.overflow.pop_first() else { break };
            state.entries.push(entry);
        }
        state.depth_max = state.depth_max.max(state.entries.len());
    }

    /// The locked state, if the queue is open. A call that is refused must be dropped without the
    /// lock, as its destructor is code of its caller.
    fn locked_if_open(&self) -> Result<MutexGuard<'_, QueueState>> {
        let state = lock(&self.state);
        match &state.closed {
            Some(reason) => Err(Error::stopped(reason.clone())),
            None => Ok(state),
        }
    }

    fn accept<T>(
        &self,
        state: &mut QueueState,
        call: Limited,
        take: Take<T>,
        by: CarriedOutBy,
    ) -> Ticket<T> {
        let (entry, ticket) = state.enter(call, take);
        state.entries.push(entry);
        state.depth_max = state.depth_max.max(state.entries.len());
        if state.entries.len() == state.gather_at {
            self.gathered.notify_one();
        }
        if by == CarriedOutBy::Thread && std::mem::take(&mut state.thread_sleeps) {
            self.arrived.notify_one();
        }
        ticket
    }

    /// The next turn at the engine, for a caller that does its work itself; to be held until the
    /// engine is locked.
    pub(super) fn take_turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    /// Lets a caller pass that has taken the next turn.
    pub(super) fn let_pass(&self) {
        drop(self.take_turn());
    }

    /// Returns true if a caller has taken the next turn.
    pub(super) fn has_turn_taken(&self) -> bool {
        matches!(self.turn.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Wakes the writer's thread, if calls wait and it does not know.
    pub(super) fn wake_thread(&self) {
        let mut state = lock(&self.state);
        if !state.entries.is_empty() && std::mem::take(&mut state.thread_sleeps) {
            self.arrived.notify_one();
        }
    }

    /// Waits for calls, on the writer's thread. False once the queue is closed
    /// and empty.
    pub(super) fn wait(&self) -> bool {
        let mut state = lock(&self.state);
        loop {
            if !state.entries.is_empty() {
                state.thread_sleeps = false;
                return true;
            }
            if state.closed.is_some() {
                return false;
            }
            state.thread_sleeps = true;
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Moves the next group to `group`; false if no call waits. `expected` is how
    /// many calls the last group had: as many may well be on their way again,
    /// and are given `gather_max` to arrive.
    pub(super) fn take(
        &self,
        grouping: Grouping,
        expected: usize,
        gather_max: Duration,
        group: &mut Vec<Entry>,
    ) -> bool {
        let mut state = lock(&self.state);
        if state.entries.is_empty() {
            return false;
        }
        let (awaited, wait_max) = if grouping.delay_max.is_zero() {
            (expected.min(grouping.calls_max), gather_max)
        } else {
            (grouping.calls_max, grouping.delay_max)
        };
        let awaited = awaited.min(self.capacity);
        if state.entries.len() < awaited {
            state = self.gather(state, awaited, wait_max);
        }
        if state.entries.len() <= grouping.calls_max {
            std::mem::swap(&mut state.entries, group);
        } else {
            group.extend(state.entries.drain(..grouping.calls_max));
        }
        state.event = state.event.anew(state.last_number + 1);
        self.admit(&mut state);
        if state.threads_in_overflow > 0 {
            self.room.notify_all();
        }
        true
    }

    /// Waits until this number of calls is there, the time is up or the queue is closed.
    fn gather<'q>(
        &self,
        mut state: MutexGuard<'q, QueueState>,
        awaited: usize,
        wait_max: Duration,
    ) -> MutexGuard<'q, QueueState> {
        // A time that the clock does not have never comes.
        let deadline = Instant::now().checked_add(wait_max);
        state.gather_at = awaited;
        while state.entries.len() < awaited && state.closed.is_none() {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.unwrap_or(wait_max);
            if left.is_zero() {
                break;
            }
            let woken = self.gathered.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.gather_at = 0;
        state
    }

    /// Accepts nothing from now on; `reason` is what callers are told.
    pub(super) fn close(&self, reason: &str) {
        let mut state = lock(&self.state);
        state.closed.get_or_insert_with(|| reason.to_owned());
        let overflow = std::mem::take(&mut state.overflow);
        let first = overflow.first_key_value().map(|(&first, _)| first);
        state.refused_from = state.refused_from.or(first);
        drop(state);
        self.arrived.notify_all();
        self.gathered.notify_all();
        self.room.notify_all();
        refuse(overflow.into_values(), reason);
    }

    /// Closes the queue as [`close`](Self::close) does, because of a failure.
    pub(super) fn fail(&self, reason: &str) {
        {
            let mut state = lock(&self.state);
            // The reason of a failure replaces that of an ordinary close.
            if !std::mem::replace(&mut state.has_failed, true) {
                state.closed = Some(reason.to_owned());
            }
        }
        self.close(reason);
    }

    /// The failure that ended it, if one did.
    pub(super) fn failure(&self) -> Option<String> {
        let state = lock(&self.state);
        state.closed.clone().filter(|_| state.has_failed)
    }

    /// Answers all that wait that nothing of them was done, for this reason; how many of them callers
    /// have made.
    pub(super) fn refuse_waiting(&self, reason: &str) -> usize {
        let (last_work, entries): (Vec<_>, Vec<_>) = std::mem::take(&mut lock(&self.state).entries)
            .into_iter()
            .partition(|entry| self.interrupts.is_last_work(entry.number()));
        refuse(last_work, reason);
        refuse(entries, reason)
    }

    /// Accepts nothing from now on and answers all that wait that nothing of
    /// them was done.
    pub(super) fn stop(&self, reason: &str) {
        self.fail(reason);
        self.refuse_waiting(reason);
    }

    /// Calls that wait now, and the most that ever did.
    pub(super) fn depth(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.entries.len(), state.depth_max)
    }

    /// Reason why no call is accepted any more.
    pub(super) fn closed(&self) -> Option<String> {
        lock(&self.state).closed.clone()
    }
}

impl QueueState {
    /// A call with the next number, on its way into the queue, and the ticket for it.
    fn enter<T>(&mut self, call: Limited, take: Take<T>) -> (Entry, Ticket<T>) {
        self.last_number += 1;
        // It would keep a state for each number that a call outside of the queue has taken.
        if self.entries.is_empty() && !self.event.begins_at(self.last_number) {
            self.event = self.event.anew(self.last_number);
        }
        Entry::new(call, self.last_number, Arc::clone(&self.event), take)
    }

    /// Puts a call at the end of the overflow; its number, and the ticket for it.
    fn enter_overflow<T>(&mut self, call: Limited, take: Take<T>) -> (u64, Ticket<T>) {
        let (entry, ticket) = self.enter(call, take);
        let number = entry.number();
        self.overflow.insert(number, entry);
        (number, ticket)
    }
}

/// Answers calls that nothing of them was done, for this reason; how many. To be called without
/// the lock: wakers are code of callers.
fn refuse(entries: impl IntoIterator<Item = Entry>, reason: &str) -> usize {
    let mut refused = 0;
    for mut entry in entries {
        if entry.begin() {
            entry.answer(Err(Error::stopped(reason)));
            refused += 1;
        }
    }
    refused
}

/// The calls arrive in order; these tests are about the queue's only decision: how a group is cut.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::call::Answer;
    use crate::writer::request::Batch;

    #[expect(clippy::needless_pass_by_value, reason = "tickets take answers like that")]
    fn done(answer: Answer) -> Result<()> {
        matches!(answer, Answer::Done).then_some(()).ok_or_else(|| Error::misuse("another answer"))
    }

    fn call(name: &str) -> Limited {
        (Call::Batch(Batch::from(name)), None)
    }

    fn queue_of(capacity: usize) -> CallQueue {
        CallQueue::new(capacity, Arc::default())
    }

    const NATURAL: Grouping = Grouping { calls_max: 3, delay_max: Duration::ZERO };

    #[test]
    fn a_wait_without_an_end_is_ended_by_enough_calls() {
        let queue = queue_of(10);
        let endless = Grouping { calls_max: 2, delay_max: Duration::MAX };
        for _ in 0..2 {
            drop(queue.push(call("1"), done, CarriedOutBy::Thread).expect("room"));
        }
        assert!(queue.take(endless, 1, Duration::ZERO, &mut Vec::new()));
        drop(queue.push(call("1"), done, CarriedOutBy::Thread).expect("room"));
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| queue.take(endless, 1, Duration::ZERO, &mut Vec::new()));
            drop(queue.push(call("2"), done, CarriedOutBy::Thread).expect("room"));
            assert!(taking.join().expect("no panic"));
        });
    }

    #[test]
    fn groups_are_what_waits_in_order_and_no_larger_than_allowed() {
        let queue = queue_of(10);
        let tickets: Vec<_> = (0..5)
            .map(|n| queue.push(call(&n.to_string()), done, CarriedOutBy::Thread).expect("room"))
            .collect();
        let mut group = Vec::new();
        assert!(queue.take(NATURAL, 1, Duration::ZERO, &mut group));
        let calls: Vec<_> =
            group.iter_mut().map(|entry| format!("{:?}", entry.take_call())).collect();
        assert_eq!(calls.len(), 3);
        assert!(calls[0].contains("\"0\"") && calls[2].contains("\"2\""), "{calls:?}");
        group.clear();
        queue.close("closed");
        assert!(queue.take(NATURAL, 1, Duration::ZERO, &mut group));
        assert_eq!(group.len(), 2);
        assert!(queue.push(call("late"), done, CarriedOutBy::Thread).is_err());
        group.clear();
        assert!(!queue.take(NATURAL, 1, Duration::ZERO, &mut group) && !queue.wait());
        // Entries that were dropped unanswered say so.
        for ticket in tickets {
            let error = ticket.wait().expect_err("no target committed it");
            assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown { .. }), "{error}");
        }
    }

    #[test]
    fn a_full_queue_says_so_and_a_cancelled_call_is_not_begun() {
        let queue = queue_of(1);
        let ticket = queue.try_push(call("first"), done).expect("room");
        let full = queue.try_push(call("second"), done).expect_err("no room");
        assert!(matches!(full.kind(), ErrorKind::QueueFull { capacity: 1 }), "{full}");
        assert!(ticket.cancel() && !ticket.cancel());
        let mut group = Vec::new();
        assert!(queue.take(NATURAL, 1, Duration::ZERO, &mut group));
        assert!(!group[0].begin());
        let error = ticket.wait().expect_err("it was cancelled");
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    }

    #[test]
    fn a_wait_for_room_has_a_limit() {
        let queue = queue_of(1);
        let first = queue.push_or_overflow(call("first"), done).expect("it is open");
        let second = queue.push_or_overflow(call("second"), done).expect("it is open");
        let third = queue.push_or_overflow(call("third"), done).expect("it is open");
        let has_room = |ticket: &Ticket<()>| {
            queue.wait_for_room(ticket.number().expect("no fork"), Duration::ZERO)
        };
        assert!(has_room(&first).expect("it is open") && !has_room(&second).expect("it is open"));
        let mut group = Vec::new();
        assert!(queue.take(NATURAL, 1, Duration::ZERO, &mut group));
        assert!(has_room(&second).expect("it is open") && !has_room(&third).expect("it is open"));
        queue.close("closed");
        assert!(has_room(&second).is_ok() && has_room(&third).is_err());
    }

    #[test]
    fn calls_outside_of_the_queue_take_no_memory_in_it() {
        let queue = queue_of(10);
        for _ in 0..3 {
            let last = (0..1000).map(|_| queue.new_number()).max();
            let ticket = queue.try_push(call("1"), done).expect("room");
            let number = ticket.number().expect("no fork");
            assert_eq!(Some(number - 1), last);
            assert!(lock(&queue.state).event.begins_at(number));
            let mut group = Vec::new();
            assert!(queue.take(NATURAL, 1, Duration::ZERO, &mut group));
            group[0].answer(Ok(Answer::Done));
            ticket.wait().expect("it was answered");
        }
    }

    #[test]
    fn who_waits_for_room_gets_it() {
        let queue = Arc::new(queue_of(1));
        let first = queue.push(call("first"), done, CarriedOutBy::Thread).expect("room");
        let other = Arc::clone(&queue);
        let waiting = std::thread::spawn(move || {
            other.push(call("second"), done, CarriedOutBy::Thread)?.wait()
        });
        let mut seen = 0;
        let mut group = Vec::new();
        while seen < 2 {
            assert!(queue.wait() && queue.take(NATURAL, 1, Duration::ZERO, &mut group));
            for mut entry in group.drain(..) {
                assert!(entry.begin());
                entry.answer(Ok(Answer::Done));
                seen += 1;
            }
        }
        first.wait().expect("an answer");
        waiting.join().expect("no panic").expect("an answer");
    }

    fn numbers(group: &mut Vec<Entry>) -> Vec<u64> {
        group.drain(..).map(|mut entry| (entry.number(), entry.begin()).0).collect()
    }

    #[test]
    fn the_overflow_moves_up_in_order_and_a_place_in_it_can_be_left() {
        let queue = queue_of(2);
        let tickets: Vec<_> =
            (0..6).map(|n| queue.push_or_overflow(call(&n.to_string()), done)).collect();
        assert_eq!((queue.depth().0, queue.overflow_len()), (2, 4));
        let leaves = tickets[3].as_ref().expect("open");
        assert!(leaves.cancel());
        queue.leave_overflow(4);
        assert_eq!(queue.overflow_len(), 3);
        let mut group = Vec::new();
        for expected in [vec![1, 2], vec![3, 5], vec![6]] {
            assert!(queue.take(NATURAL, 1, Duration::ZERO, &mut group));
            assert_eq!(numbers(&mut group), expected);
        }
        assert!(!queue.take(NATURAL, 1, Duration::ZERO, &mut group) && queue.overflow_len() == 0);
    }

    #[test]
    fn closing_answers_the_overflow_and_keeps_what_was_accepted() {
        let queue = queue_of(1);
        let accepted = queue.push_or_overflow(call("accepted"), done).expect("room");
        let waiting =
            queue.push_or_overflow(call("waits for room"), done).expect("a place in the overflow");
        queue.close("closed");
        let error = waiting.wait().expect_err("it was not accepted");
        assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
        assert!(!accepted.is_answered());
        assert!(queue.push_or_overflow(call("late"), done).is_err());
    }

    #[test]
    fn threads_and_tasks_get_room_in_the_order_in_which_they_came() {
        let queue = Arc::new(queue_of(1));
        drop(queue.push(call("first"), done, CarriedOutBy::Thread).expect("room"));
        let mut threads = Vec::new();
        for number in 2..8 {
            if number % 2 == 0 {
                let other = Arc::clone(&queue);
                threads.push(std::thread::spawn(move || {
                    other.push(call("thread"), done, CarriedOutBy::Thread).map(drop)
                }));
            } else {
                drop(queue.push_or_overflow(call("task"), done).expect("a place in the overflow"));
            }
            while queue.overflow_len() < number - 1 {
                std::thread::yield_now();
            }
        }
        let mut group = Vec::new();
        for expected in 1..8 {
            assert!(queue.take(NATURAL, 1, Duration::ZERO, &mut group));
            assert_eq!(numbers(&mut group), [expected]);
        }
        for thread in threads {
            thread.join().expect("no panic").expect("it had room");
        }
    }

    #[test]
    fn a_thread_that_waits_for_room_is_refused_if_the_queue_is_closed() {
        let queue = Arc::new(queue_of(1));
        let accepted = queue.push(call("accepted"), done, CarriedOutBy::Thread).expect("room");
        let other = Arc::clone(&queue);
        let thread = std::thread::spawn(move || {
            other.push(call("thread"), done, CarriedOutBy::Thread).map(drop)
        });
        while queue.overflow_len() < 1 {
            std::thread::yield_now();
        }
        queue.close("closed");
        let error = thread.join().expect("no panic").expect_err("it had no room");
        assert!(matches!(error.kind(), ErrorKind::Stopped { .. }), "{error}");
        assert!(!accepted.is_answered());
    }

    #[test]
    fn threads_and_tasks_that_wait_for_room_both_get_it() {
        let queue = Arc::new(queue_of(1));
        let first = queue.push(call("first"), done, CarriedOutBy::Thread).expect("room");
        let of_task = queue.push_or_overflow(call("task"), done).expect("a place in the overflow");
        let other = Arc::clone(&queue);
        let thread = std::thread::spawn(move || {
            other.push(call("thread"), done, CarriedOutBy::Thread)?.wait()
        });
        let (mut seen, mut group) = (0, Vec::new());
        while seen < 3 {
            assert!(queue.wait() && queue.take(NATURAL, 1, Duration::ZERO, &mut group));
            for mut entry in group.drain(..) {
                assert!(entry.begin());
                entry.answer(Ok(Answer::Done));
                seen += 1;
            }
        }
        for answer in [first.wait(), of_task.wait(), thread.join().expect("no panic")] {
            answer.expect("an answer");
        }
    }
}
