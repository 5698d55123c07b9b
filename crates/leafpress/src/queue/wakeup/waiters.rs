//! Waiters at each queue, and their permits to look: plain numbers, no threads.
//!
//! Stands under [`WakeUps`](super::WakeUps), which guards it by a lock and calls it
//! for every wake-up, and under the wake-up thread, which calls it for due times.
//!
//! A **permit** says "look for a job again". A waiter that comes and finds one takes it and goes;
//! it does not matter for which waiter it was meant, since a look that begins after the permit was
//! given sees all jobs that it was given for. A permit is either for one job that was counted, or a
//! **search** for an unknown number of jobs: a waiter that finds one sends the next waiter to look,
//! and the first that finds none ends it.
//!
//! Invariants, for each queue:
//! 1. `permits <= waiters`: a look by each waiter finds whatever there is.
//! 2. `has_search` only with a permit, and at most one search goes on from it.
//! 3. No waiter sleeps while there is a permit, unless it is being woken: each new permit wakes
//!    one, and a waiter that comes takes one that is there. A waiter may be a thread or a task,
//!    so one of each is woken. A task that leaves while there is a permit wakes another one.
//! 4. `due_ms` is not after any due time that a waiter told since the last time
//!    that one was given as a search.
//!
//! Must never: keep a queue without waiters, or run a caller's code: wakers are handed out, to be
//! woken without the lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar};
use std::task::Waker;
use std::time::Instant;

use super::message;

/// Leave to look for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permit {
    /// For one job that was counted.
    Job,
    /// The number of jobs is not known: a waiter that finds one passes the permit on.
    Search,
}

/// A task that sleeps.
#[derive(Debug)]
struct Task {
    waker: Waker,
    deadline: Option<Instant>,
}

/// The waiters of one queue.
#[derive(Debug)]
struct QueueWaiters {
    /// The waiters sleep on it.
    woken: Arc<Condvar>,
    /// The tasks that sleep, by the order in which they came.
    tasks: BTreeMap<u64, Task>,
    /// Name of the queue in the messages of processes.
    hash: u64,
    waiters: u32,
    permits: u32,
    has_search: bool,
    /// Time at which the next job is due, unless a waiter was sent for it already.
    due_ms: Option<i64>,
}

impl QueueWaiters {
    fn new(queue: &str) -> Self {
        Self {
            woken: Arc::default(),
            tasks: BTreeMap::new(),
            hash: message::hash(queue),
            waiters: 0,
            permits: 0,
            has_search: false,
            due_ms: None,
        }
    }

    fn give(&mut self, jobs: u32, awake: &mut Vec<Waker>) {
        let permits = self.permits.saturating_add(jobs).min(self.waiters);
        for _ in self.permits..permits {
            self.wake_one(awake);
        }
        self.permits = permits;
    }

    fn give_search(&mut self, awake: &mut Vec<Waker>) {
        self.give(1, awake);
        self.has_search = self.permits > 0;
    }

    /// Wakes a thread and a task; the one that comes second sleeps on.
    fn wake_one(&mut self, awake: &mut Vec<Waker>) {
        self.woken.notify_one();
        awake.extend(self.tasks.pop_first().map(|(_, task)| task.waker));
    }

    fn take(&mut self) -> Option<Permit> {
        self.permits = self.permits.checked_sub(1)?;
        let is_search = std::mem::take(&mut self.has_search);
        Some(if is_search { Permit::Search } else { Permit::Job })
    }
}

/// The waiters of all queues that have one.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_queue: HashMap<Arc<str>, QueueWaiters>,
    last_task: u64,
    /// Wakers of tasks that do not sleep any more.
    awake: Vec<Waker>,
}

impl Waiters {
    /// Returns true if there is no waiter.
    pub(super) fn are_empty(&self) -> bool {
        self.by_queue.is_empty()
    }

    /// Registers a waiter; returns the queue's name, and the condition variable to sleep on.
    pub(super) fn enter(&mut self, queue: &str) -> (Arc<str>, Arc<Condvar>) {
        let name = self.by_queue.get_key_value(queue).map(|(name, _)| Arc::clone(name));
        let name = name.unwrap_or_else(|| Arc::from(queue));
        let of_queue =
            self.by_queue.entry(Arc::clone(&name)).or_insert_with(|| QueueWaiters::new(queue));
        of_queue.waiters += 1;
        let woken = Arc::clone(&of_queue.woken);
        self.assert_state();
        (name, woken)
    }

    /// Removes a waiter; `task` is its number if it is a task. A permit that it took and did not
    /// use goes to another. Returns its waker, to be dropped without the lock: a task that has left
    /// needs no wake-up.
    pub(super) fn leave(
        &mut self,
        queue: &str,
        task: Option<u64>,
        unused: Option<Permit>,
    ) -> Option<Waker> {
        let of_queue = self.by_queue.get_mut(queue)?;
        of_queue.waiters -= 1;
        let slept = task.and_then(|task| of_queue.tasks.remove(&task));
        of_queue.permits = of_queue.permits.min(of_queue.waiters);
        of_queue.has_search &= of_queue.permits > 0;
        match unused {
            Some(Permit::Job) => of_queue.give(1, &mut self.awake),
            Some(Permit::Search) => of_queue.give_search(&mut self.awake),
            None => {}
        }
        if task.is_some() && of_queue.permits > 0 {
            // It may have been this task that was woken for the permit.
            of_queue.wake_one(&mut self.awake);
        }
        if of_queue.waiters == 0 {
            self.by_queue.remove(queue);
        }
        self.assert_state();
        slept.map(|task| task.waker)
    }

    /// Gives permits for `jobs` more jobs, at most one for each waiter.
    pub(super) fn wake(&mut self, queue: &str, jobs: u32) {
        if let Some(of_queue) = self.by_queue.get_mut(queue) {
            of_queue.give(jobs, &mut self.awake);
        }
        self.assert_state();
    }

    /// Does as [`wake`](Self::wake), by the hash of a queue's name, which other processes send.
    /// If two names have the same hash, waiters of both queues are woken.
    pub(super) fn wake_by_hash(&mut self, hash: u64, jobs: u32) {
        for of_queue in self.by_queue.values_mut().filter(|of_queue| of_queue.hash == hash) {
            of_queue.give(jobs, &mut self.awake);
        }
        self.assert_state();
    }

    /// Sends another waiter to look, after one found a job and more may be there.
    pub(super) fn search_beside(&mut self, queue: &str) {
        if let Some(of_queue) = self.by_queue.get_mut(queue).filter(|of_queue| of_queue.waiters > 1)
        {
            of_queue.give_search(&mut self.awake);
        }
        self.assert_state();
    }

    /// Sends one waiter of every queue to look.
    pub(super) fn search_all(&mut self) {
        for of_queue in self.by_queue.values_mut() {
            of_queue.give_search(&mut self.awake);
        }
        self.assert_state();
    }

    /// Takes a permit, if there is one.
    pub(super) fn take(&mut self, queue: &str) -> Option<Permit> {
        let taken = self.by_queue.get_mut(queue).and_then(QueueWaiters::take);
        self.assert_state();
        taken
    }

    /// Notes when the next job of a waiter's queue is due.
    pub(super) fn tell_due(&mut self, queue: &str, due_ms: i64) {
        if let Some(of_queue) = self.by_queue.get_mut(queue) {
            of_queue.due_ms = Some(of_queue.due_ms.map_or(due_ms, |earlier| earlier.min(due_ms)));
        }
    }

    /// Gives a permit to one waiter of each queue with a due time that has come; returns the next
    /// due time of all queues.
    pub(super) fn give_due(&mut self, now_ms: i64) -> Option<i64> {
        for of_queue in self.by_queue.values_mut() {
            if of_queue.due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
                of_queue.due_ms = None;
                of_queue.give_search(&mut self.awake);
            }
        }
        self.assert_state();
        self.by_queue.values().filter_map(|of_queue| of_queue.due_ms).min()
    }

    /// Wakes all waiters, to see that the wake-ups are closed.
    pub(super) fn wake_all(&mut self) {
        for of_queue in self.by_queue.values_mut() {
            of_queue.woken.notify_all();
            let tasks = std::mem::take(&mut of_queue.tasks).into_values();
            self.awake.extend(tasks.map(|task| task.waker));
        }
    }

    /// A number for a waiter that is a task.
    pub(super) fn new_task(&mut self) -> u64 {
        self.last_task += 1;
        self.last_task
    }

    /// Lets a task sleep until `deadline`. Returns its earlier waker, to be dropped without the
    /// lock: to wake it would poll the task again and again.
    pub(super) fn sleep(
        &mut self,
        queue: &str,
        task: u64,
        waker: Waker,
        deadline: Option<Instant>,
    ) -> Option<Waker> {
        let of_queue = self.by_queue.get_mut(queue)?;
        of_queue.tasks.insert(task, Task { waker, deadline }).map(|earlier| earlier.waker)
    }

    /// Wakes the tasks whose deadline has come; the next deadline of the others.
    pub(super) fn wake_overdue(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for of_queue in self.by_queue.values_mut() {
            let is_overdue = |task: &Task| task.deadline.is_some_and(|at| at <= now);
            let overdue = of_queue.tasks.iter().filter(|(_, task)| is_overdue(task));
            let overdue: Vec<u64> = overdue.map(|(&number, _)| number).collect();
            let tasks = overdue.iter().filter_map(|number| of_queue.tasks.remove(number));
            self.awake.extend(tasks.map(|task| task.waker));
            let deadlines = of_queue.tasks.values().filter_map(|task| task.deadline);
            next = next.into_iter().chain(deadlines).min();
        }
        next
    }

    /// The wakers of tasks that do not sleep any more: to be woken without the lock.
    pub(super) fn take_awake(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.awake)
    }

    /// Invariants 1 and 2.
    fn assert_state(&self) {
        for of_queue in self.by_queue.values() {
            debug_assert!(
                of_queue.waiters > 0 && of_queue.permits <= of_queue.waiters,
                "{of_queue:?}"
            );
            debug_assert!(!of_queue.has_search || of_queue.permits > 0, "{of_queue:?}");
        }
    }
}
