//! One value from one thread to another, which waits for it as a future.
//!
//! Must never: leave the receiver waiting for a sender that is gone.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use leafpress::vfs::sync::lock;

/// The sender is gone without a value.
#[derive(Debug)]
pub struct Gone;

struct State<T> {
    value: Option<T>,
    is_sent: bool,
    waker: Option<Waker>,
}

/// Side that gives the value.
pub struct Sender<T>(Arc<Mutex<State<T>>>);

/// Side that gets it.
pub struct Receiver<T>(Arc<Mutex<State<T>>>);

/// Both sides.
pub fn pair<T>() -> (Sender<T>, Receiver<T>) {
    let state = Arc::new(Mutex::new(State { value: None, is_sent: false, waker: None }));
    (Sender(Arc::clone(&state)), Receiver(state))
}

impl<T> Sender<T> {
    /// Gives the value.
    pub fn send(self, value: T) {
        lock(&self.0).value = Some(value);
        // Dropping tells the receiver.
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        state.is_sent = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Gone>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0);
        if state.is_sent {
            return Poll::Ready(state.value.take().ok_or(Gone));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
