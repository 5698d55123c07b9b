//! The step that this thread is at while it drives the engine.
//!
//! Stands below the call queue and the tickets, which refuse a wait that would never end, and
//! below the engine, which says when a step begins and ends.

use std::cell::{Cell, RefCell};

use super::caught::caught;
use crate::fork::Process;

thread_local! {
    /// The process and the step of this thread, while it drives the engine: a closure that forks
    /// goes on in the child, and may use a new writer there.
    static IS_DRIVING: Cell<Option<(Process, Phase)>> = const { Cell::new(None) };
    /// Code that runs once the group is answered.
    static AFTER: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `code` on this thread once all calls of a group are answered, if a waker calls this while
/// they are being answered; at once otherwise. For runtimes that wake a thread once for a group
/// and not once for each call. A panic of `code` is logged.
pub fn after_answers(code: impl FnOnce() + 'static) {
    let driving = IS_DRIVING.get();
    if driving.is_some_and(|(process, phase)| process.is_current() && phase == Phase::Answering) {
        AFTER.with_borrow_mut(|after| after.push(Box::new(code)));
    } else {
        code();
    }
}

/// The step that a thread which drives the engine is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Calls are carried out, closures among them.
    CarryingOut,
    /// Calls are answered: wakers and destructors run.
    Answering,
}

/// Returns true if this thread carries out or answers calls at the moment: a wait for an
/// answer here would never end.
pub(super) fn is_driving() -> bool {
    IS_DRIVING.get().is_some_and(|(process, _)| process.is_current())
}

/// Returns true if this thread carries out a call at the moment, such as a closure.
pub(super) fn is_in_call() -> bool {
    let driving = IS_DRIVING.get();
    driving.is_some_and(|(process, phase)| process.is_current() && phase == Phase::CarryingOut)
}

/// Says that this thread drives the engine from now on, and at which step.
pub(super) fn begin(process: Process, phase: Phase) {
    IS_DRIVING.set(Some((process, phase)));
}

/// Says that this thread drives it no longer, and runs what was to run after the answers.
pub(super) fn end() {
    IS_DRIVING.set(None);
    for code in AFTER.take() {
        caught("code after a group", code);
    }
}
