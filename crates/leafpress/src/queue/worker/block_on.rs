//! Runs one future on the thread that calls, which sleeps until it is woken.
//!
//! Stands under the handlers that are `async`. Must never: offer timers or sockets, which are a
//! runtime's.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark {
    thread: Thread,
    /// Kept beside the token of `park`: code of the future that parks itself takes that one.
    is_woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// The output of the future.
pub(in crate::queue) fn block_on<F: Future>(future: F) -> F::Output {
    let unpark = Arc::new(Unpark { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => {
                while !unpark.is_woken.swap(false, Ordering::Acquire) {
                    thread::park();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_future_that_parks_after_it_was_woken_is_polled_again() {
        let (done, is_done) = channel();
        thread::spawn(move || {
            let mut polls = 0;
            block_on(poll_fn(|context| {
                polls += 1;
                if polls == 2 {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                // As the end of `thread::scope` and a channel do.
                thread::park();
                Poll::Pending
            }));
            done.send(()).expect("the test waits");
        });
        is_done.recv_timeout(Duration::from_secs(20)).expect("it is polled again");
    }
}
