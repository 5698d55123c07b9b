//! Code of callers that runs where calls are carried out, although no caller waits there:
//! destructors and wakers.
//!
//! A closure is dropped after its group, and so is the value of a ticket that was dropped. A panic
//! of such a destructor on the thread that drives the engine would answer all callers of the group
//! that their outcome is unknown. So each such place goes through here, and a panic is only logged:
//! the call that it belongs to is answered already.
//!
//! Must never: hide a panic of a caller's closure, which is that call's error.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::error::{Error, ErrorKind};
use crate::words::panic_text;

/// A value whose destructor is the caller's: its panic is logged, and goes no further.
pub(super) struct Caught<T>(Option<T>);

impl<T> Caught<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Some(value))
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only into_inner and drop take the value")
    }

    pub(super) fn into_inner(mut self) -> T {
        self.0.take().expect("only into_inner and drop take the value")
    }
}

impl<T> Drop for Caught<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            drop_caught(value);
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Caught<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Drops a value that belongs to a caller.
pub(super) fn drop_caught<T>(value: T) {
    if std::mem::needs_drop::<T>() {
        caught("a destructor", || drop(value));
    }
}

/// Wakes a task that belongs to a caller.
pub(crate) fn wake(waker: Waker) {
    caught("a waker", || waker.wake());
}

/// Runs code of a caller.
pub(crate) fn caught(what: &str, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        let message = message_of(&*panic);
        tracing::error!(%message, "{what} of a caller panicked; no call fails by that");
        // The destructor of the panic's own value may panic too.
        std::mem::forget(panic);
    }
}

/// The error of a call whose code panicked.
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let message = message_of(&*panic).to_owned();
    drop_caught(panic);
    ErrorKind::Panicked { message }.into()
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    panic_text(panic).unwrap_or("a panic without a message")
}
