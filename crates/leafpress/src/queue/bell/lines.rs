//! Waiters at each queue, and their permits to look: plain numbers, no threads.
//!
//! Stands under [`Bells`](super::Bells), which guards it by a lock and calls it
//! for every bell, and under the bell thread, which calls it for due times.
//!
//! A **permit** says "look for a job again". A waiter that comes and finds one takes it and goes;
//! it does not matter for which waiter it was meant, since a look that begins after the permit was
//! given sees all jobs that it was given for. A permit is either for one job that was counted, or a
//! **search** for an unknown number of jobs: a waiter that finds one sends the next waiter to look,
//! and the first that finds none ends it.
//!
//! Invariants, for each line:
//! 1. `permits <= waiters`: a look by each waiter finds whatever there is.
//! 2. `has_search` only with a permit, and at most one search goes on from it.
//! 3. No waiter sleeps while there is a permit, unless it is being woken: each new permit wakes
//!    one, and a waiter that comes takes one that is there.
//! 4. `due_ms` is not after any due time that a waiter told since the last time
//!    that one was given as a search.
//!
//! Must never: hold a line without waiters.

use std::collections::HashMap;
use std::sync::{Arc, Condvar};

use super::message;

/// Leave to look for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permit {
    /// For one job that was counted.
    Job,
    /// The number of jobs is not known: a waiter that finds one passes the permit on.
    Search,
}

/// The waiters of one queue.
#[derive(Debug)]
struct Line {
    /// The waiters sleep on it.
    rung: Arc<Condvar>,
    /// Name of the queue in the messages of processes.
    hash: u64,
    waiters: u32,
    permits: u32,
    has_search: bool,
    /// Time at which the next job is due, unless a waiter was sent for it already.
    due_ms: Option<i64>,
}

impl Line {
    fn new(queue: &str) -> Self {
        Self {
            rung: Arc::default(),
            hash: message::hash(queue),
            waiters: 0,
            permits: 0,
            has_search: false,
            due_ms: None,
        }
    }

    fn give(&mut self, jobs: u32) {
        let permits = self.permits.saturating_add(jobs).min(self.waiters);
        for _ in self.permits..permits {
            self.rung.notify_one();
        }
        self.permits = permits;
    }

    fn give_search(&mut self) {
        self.give(1);
        self.has_search = self.permits > 0;
    }

    fn take(&mut self) -> Option<Permit> {
        self.permits = self.permits.checked_sub(1)?;
        let is_search = std::mem::take(&mut self.has_search);
        Some(if is_search { Permit::Search } else { Permit::Job })
    }
}

/// The lines of all queues that have a waiter.
#[derive(Debug, Default)]
pub(super) struct Lines(HashMap<Arc<str>, Line>);

impl Lines {
    /// Returns true if there is no waiter.
    pub(super) fn are_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Registers a waiter; returns the queue's name, and the condition variable to sleep on.
    pub(super) fn enter(&mut self, queue: &str) -> (Arc<str>, Arc<Condvar>) {
        let name = self.0.get_key_value(queue).map(|(name, _)| Arc::clone(name));
        let name = name.unwrap_or_else(|| Arc::from(queue));
        let line = self.0.entry(Arc::clone(&name)).or_insert_with(|| Line::new(queue));
        line.waiters += 1;
        let rung = Arc::clone(&line.rung);
        self.assert_state();
        (name, rung)
    }

    /// Removes a waiter. A permit that it took and did not use goes to another.
    pub(super) fn leave(&mut self, queue: &str, unused: Option<Permit>) {
        let Some(line) = self.0.get_mut(queue) else { return };
        line.waiters -= 1;
        line.permits = line.permits.min(line.waiters);
        line.has_search &= line.permits > 0;
        match unused {
            Some(Permit::Job) => line.give(1),
            Some(Permit::Search) => line.give_search(),
            None => {}
        }
        if line.waiters == 0 {
            self.0.remove(queue);
        }
        self.assert_state();
    }

    /// Gives permits for `jobs` more jobs, at most one for each waiter.
    pub(super) fn ring(&mut self, queue: &str, jobs: u32) {
        if let Some(line) = self.0.get_mut(queue) {
            line.give(jobs);
        }
        self.assert_state();
    }

    /// Does as [`ring`](Self::ring), by the hash of a queue's name, which other processes send.
    /// If two names have the same hash, both queues are rung.
    pub(super) fn ring_hash(&mut self, hash: u64, jobs: u32) {
        for line in self.0.values_mut().filter(|line| line.hash == hash) {
            line.give(jobs);
        }
        self.assert_state();
    }

    /// Sends another waiter to look, after one found a job and more may be there.
    pub(super) fn search_beside(&mut self, queue: &str) {
        if let Some(line) = self.0.get_mut(queue).filter(|line| line.waiters > 1) {
            line.give_search();
        }
        self.assert_state();
    }

    /// Sends one waiter of every queue to look.
    pub(super) fn search_all(&mut self) {
        for line in self.0.values_mut() {
            line.give_search();
        }
        self.assert_state();
    }

    /// Takes a permit, if there is one.
    pub(super) fn take(&mut self, queue: &str) -> Option<Permit> {
        let taken = self.0.get_mut(queue).and_then(Line::take);
        self.assert_state();
        taken
    }

    /// Notes when the next job of a waiter's queue is due.
    pub(super) fn tell_due(&mut self, queue: &str, due_ms: i64) {
        if let Some(line) = self.0.get_mut(queue) {
            line.due_ms = Some(line.due_ms.map_or(due_ms, |earlier| earlier.min(due_ms)));
        }
    }

    /// Gives a permit to one waiter of each queue with a due time that has come; returns the next
    /// due time of all queues.
    pub(super) fn give_due(&mut self, now_ms: i64) -> Option<i64> {
        for line in self.0.values_mut() {
            if line.due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
                line.due_ms = None;
                line.give_search();
            }
        }
        self.assert_state();
        self.0.values().filter_map(|line| line.due_ms).min()
    }

    /// Wakes all waiters, to see that the bells are closed.
    pub(super) fn wake_all(&self) {
        for line in self.0.values() {
            line.rung.notify_all();
        }
    }

    /// Invariants 1 and 2.
    fn assert_state(&self) {
        for line in self.0.values() {
            debug_assert!(line.waiters > 0 && line.permits <= line.waiters, "{line:?}");
            debug_assert!(!line.has_search || line.permits > 0, "{line:?}");
        }
    }
}
