//! The step that this thread is at while it drives the engine.
//!
//! Stands below the call queue and the tickets, which refuse a wait that would never end, and
//! below the engine, which says when a step begins and ends.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use super::caught::caught;
use crate::fork::Process;

/// Time between two looks of a thread that carries out a call: no user notices it.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Code by which a thread finds out that the call which it carries out is to end.
#[derive(Clone, Copy)]
struct Look {
    is_to_end: fn() -> bool,
    due: Instant,
}

/// Code of one thread that waits for the end of a group.
type Waiting = RefCell<Vec<Box<dyn FnOnce()>>>;

thread_local! {
    /// The process and the step of this thread, while it drives the engine: a closure that forks
    /// goes on in the child, and may use a new writer there.
    static IS_DRIVING: Cell<Option<(Process, Phase)>> = const { Cell::new(None) };
    /// Code that runs once the group is answered. It has no destructor, so a thread that ends still
    /// has it: destructors of other thread-local variables may call a writer. [`end`] leaves it empty.
    static AFTER: ManuallyDrop<Waiting> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
    static LOOK: Cell<Option<Look>> = const { Cell::new(None) };
}

/// Does work on this thread, which calls `is_to_end` about each 50 ms meanwhile: while statements
/// run, and while it waits for another process's lock.
pub(super) fn looking<T>(is_to_end: fn() -> bool, work: impl FnOnce() -> T) -> T {
    struct Looking;
    impl Drop for Looking {
        fn drop(&mut self) {
            LOOK.set(None);
        }
    }
    LOOK.set(Some(Look { is_to_end, due: Instant::now() + BETWEEN_LOOKS }));
    let _looking = Looking;
    work()
}

/// Looks, if that is due; true if the call is to end.
pub(super) fn is_to_end() -> bool {
    let Some(look) = LOOK.get() else { return false };
    if Instant::now() < look.due {
        return false;
    }
    let to_end = (look.is_to_end)();
    LOOK.set(Some(Look { due: Instant::now() + BETWEEN_LOOKS, ..look }));
    to_end
}

/// Runs `code` on this thread once all calls of a group are answered, if a waker calls this while
/// they are being answered; at once otherwise. For runtimes that wake a thread once for a group
/// and not once for each call. A panic of `code` is logged.
pub fn after_answers(code: impl FnOnce() + 'static) {
    let driving = IS_DRIVING.get();
    if driving.is_some_and(|(process, phase)| process.is_current() && phase == Phase::Answering) {
        AFTER.with(|after| after.borrow_mut().push(Box::new(code)));
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
    for code in AFTER.with(|after| after.take()) {
        caught("code after a group", code);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::OnceCell;
    use std::panic::catch_unwind;
    use std::sync::mpsc::{Sender, channel};

    use crate::Writer;

    /// Calls a writer when its thread ends.
    struct CallAtEnd(Writer, Sender<Option<u64>>);

    impl Drop for CallAtEnd {
        fn drop(&mut self) {
            let Self(writer, calls) = self;
            // A panic here would abort the process.
            let execute = || writer.execute("INSERT INTO t VALUES (2)", ()).unwrap().rows_changed;
            let _ = calls.send(catch_unwind(std::panic::AssertUnwindSafe(execute)).ok());
        }
    }

    #[test]
    fn a_destructor_of_a_thread_local_variable_may_call_a_writer() {
        thread_local!(static CALL: OnceCell<CallAtEnd> = const { OnceCell::new() });
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::builder(folder.path().join("t.db")).open().unwrap();
        writer.execute_batch("CREATE TABLE t(a)").unwrap();
        let (calls, made) = channel();
        let call = CallAtEnd(writer.clone(), calls);
        let thread = std::thread::spawn(move || {
            CALL.with(|place| assert!(place.set(call).is_ok()));
            CALL.with(|call| {
                call.get().unwrap().0.execute("INSERT INTO t VALUES (1)", ()).unwrap()
            });
        });
        thread.join().unwrap();
        assert_eq!(made.recv(), Ok(Some(1)));
        writer.close().unwrap();
    }
}
