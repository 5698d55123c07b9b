//! State that workers enter one after the other, in the order of their blocks.
//!
//! Blocks are worked on side by side, yet some steps depend on all blocks
//! before: where a quoted field ends, which rowid comes next, which page
//! number. Such a step is a *turn*. Blocks are claimed in ascending order and
//! a worker takes its turns before it claims another, so the worker of the
//! lowest block never waits and there is no deadlock.
//!
//! A worker that panics does not take its turn: [`Turns::halt`] must be called then, as
//! [`HaltOnPanic`] does.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::sync::lock;

/// State `T`, entered in order.
#[derive(Debug)]
pub struct Turns<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    next: u64,
    halted: bool,
    state: T,
}

impl<T> Turns<T> {
    pub fn new(state: T) -> Self {
        Self { inner: Mutex::new(Inner { next: 0, halted: false, state }), changed: Condvar::new() }
    }

    /// Waits for `turn`, then runs `step`; `None` if halted before.
    pub fn take<R>(&self, turn: u64, step: impl FnOnce(&mut T) -> R) -> Option<R> {
        let inner = lock(&self.inner);
        let mut inner = self
            .changed
            .wait_while(inner, |inner| inner.next != turn && !inner.halted)
            .unwrap_or_else(PoisonError::into_inner);
        if inner.halted {
            return None;
        }
        let result = step(&mut inner.state);
        inner.next += 1;
        drop(inner);
        self.changed.notify_all();
        Some(result)
    }

    /// Changes the state out of turn and refuses all further turns.
    pub fn interrupt(&self, step: impl FnOnce(&mut T)) {
        let mut inner = lock(&self.inner);
        step(&mut inner.state);
        inner.halted = true;
        drop(inner);
        self.changed.notify_all();
    }

    /// Refuses all further turns.
    pub fn halt(&self) {
        lock(&self.inner).halted = true;
        self.changed.notify_all();
    }

    pub fn into_state(self) -> T {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).state
    }
}

/// Guard of a worker: if it panics, the others do not wait for its turns.
pub struct HaltOnPanic<'t, A, B>(pub &'t Turns<A>, pub &'t Turns<B>);

impl<A, B> Drop for HaltOnPanic<'_, A, B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.halt();
            self.1.halt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_order() {
        let turns = Turns::new(Vec::new());
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let turns = &turns;
                scope.spawn(move || {
                    for turn in (worker..100).step_by(4) {
                        turns.take(turn, |seen| seen.push(turn));
                    }
                });
            }
        });
        assert_eq!(turns.into_state(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_halt_wakes_those_who_wait() {
        let turns = Turns::new(());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| turns.take(1, |()| ()));
            turns.halt();
            assert!(waiter.join().is_ok_and(|result| result.is_none()));
        });
    }
}
