//! The alarm of the wake-up thread: the thread sleeps on a time, a call, and its socket.
//!
//! Stands under the wake-up thread. On Unix a pair of sockets takes the calls, so
//! that the thread can wait for them and for its own socket at once; elsewhere
//! there is no socket, and a condition variable does.
//!
//! A call is never lost: one that comes while the thread is awake ends its next
//! sleep at once.

#[cfg(unix)]
pub(super) use unix::Alarm;

#[cfg(not(unix))]
pub(super) use elsewhere::Alarm;

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::unix::net::UnixDatagram;
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;

    use crate::queue::wakeup::socket::OwnSocket;

    #[derive(Debug)]
    pub(in crate::queue::wakeup) struct Alarm {
        sleeper: UnixDatagram,
        caller: UnixDatagram,
    }

    impl Alarm {
        pub(in crate::queue::wakeup) fn new() -> io::Result<Self> {
            let (sleeper, caller) = UnixDatagram::pair()?;
            sleeper.set_nonblocking(true)?;
            caller.set_nonblocking(true)?;
            Ok(Self { sleeper, caller })
        }

        /// Ends the sleep.
        pub(in crate::queue::wakeup) fn call(&self) {
            // If the socket is full, a call is in it already.
            let _ = self.caller.send(&[1]);
        }

        /// Sleeps until `until`, a call, or a datagram; whether there is one.
        pub(in crate::queue::wakeup) fn sleep(
            &self,
            socket: Option<&OwnSocket>,
            until: Instant,
        ) -> bool {
            let left = until.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
            let mut watched = [
                PollFd::new(&self.sleeper, PollFlags::IN),
                // Twice the same where there is no socket.
                PollFd::new(socket.map_or(&self.sleeper, OwnSocket::socket), PollFlags::IN),
            ];
            match poll(&mut watched, Some(&timeout)) {
                // Interrupted by a signal: as if the time were over.
                Ok(_) | Err(Errno::INTR) => {}
                // Out of memory, say: not to be tried again at once.
                Err(_) => thread::sleep(left.min(Duration::from_millis(10))),
            }
            let is_called = !watched[0].revents().is_empty();
            let has_datagram = socket.is_some() && !watched[1].revents().is_empty();
            while is_called && self.sleeper.recv(&mut [0]).is_ok() {}
            has_datagram
        }
    }
}

#[cfg(not(unix))]
mod elsewhere {
    use std::io;
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Instant;

    use crate::queue::wakeup::socket::OwnSocket;
    use crate::sync::lock;

    #[derive(Debug, Default)]
    pub(in crate::queue::wakeup) struct Alarm {
        is_called: Mutex<bool>,
        called: Condvar,
    }

    impl Alarm {
        #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
        pub(in crate::queue::wakeup) fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        /// Ends the sleep.
        pub(in crate::queue::wakeup) fn call(&self) {
            *lock(&self.is_called) = true;
            self.called.notify_one();
        }

        /// Sleeps until `until` or a call; there are no datagrams here.
        pub(in crate::queue::wakeup) fn sleep(
            &self,
            _: Option<&OwnSocket>,
            until: Instant,
        ) -> bool {
            let is_called = lock(&self.is_called);
            let left = until.saturating_duration_since(Instant::now());
            let woken = self.called.wait_timeout_while(is_called, left, |is_called| !*is_called);
            *woken.unwrap_or_else(PoisonError::into_inner).0 = false;
            false
        }
    }
}
