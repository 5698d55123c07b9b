//! The wake-up thread: it wakes waiters for events outside this process, and for times.
//!
//! ```text
//!        ┌───────────────► plan: what is due? until when to sleep?
//!        │                   │
//!   look, once a second      ▼
//!        │                 sleep ──► a datagram: wake waiters of the queue that it names
//!        └───────────────────┘
//! ```
//!
//! Stands between [`WakeUps`](super::WakeUps), which starts it with the first waiter, and the socket.
//! It ends when there was no waiter for [`LINGER`], so that a consumer that waits for every job
//! does not start it for every job.
//!
//! 1. It says under the lock that it ends, and only while there is no waiter: a waiter that comes
//!    later starts another one.
//! 2. While there is no waiter and others send wake-ups, it does not listen: their datagrams fill
//!    its socket, which costs them little, and it nothing.
//! 3. Its socket may have been full, and then a datagram did not arrive, which
//!    may have been for any queue: so a full socket wakes a waiter of every queue.
//! 4. It looks into the folder once a second; where its socket is gone it makes
//!    another one, and then wakes a waiter of every queue.
//! 5. It sleeps for a second at most, so that a clock that jumps does no harm. If the clock was set
//!    back, it wakes a waiter of every queue: only a look measures leases and delays anew.
//!
//! Must never: keep the [`WakeUps`](super::WakeUps) alive, which end when the last
//! of their users does, or read the clock under the lock: it may be a test's.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::foreign::{Foreign, Seen};
use super::message::Message;
use super::socket::OwnSocket;
use super::{LOOK_EVERY, Listener, Shared};
use crate::sync::lock;

/// Time for which the thread stays after the last waiter.
const LINGER: Duration = Duration::from_secs(2);

/// The thread's own things; dropped when it ends.
struct WakeUpThread {
    shared: Arc<Shared>,
    alarm: Arc<Alarm>,
    socket: Option<OwnSocket>,
    /// When to see whether the socket is still there.
    socket_at: Instant,
    foreign: Foreign,
    /// Time of the next look for changes of the database.
    look_at: Instant,
    /// The clock's time as it was last read.
    last_ms: i64,
    /// The messages of the last datagrams; kept for its memory.
    messages: Vec<Message>,
}

/// Makes the socket, then starts the thread. Without a socket it goes too.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let alarm = Arc::new(Alarm::new()?);
    let socket = open_socket(shared);
    let (pace, now) = (shared.pace, Instant::now());
    let wake_up_thread = WakeUpThread {
        look_at: now + if socket.is_some() { pace.look_every } else { pace.look_every_deaf },
        socket,
        socket_at: now + pace.look_every,
        shared: Arc::clone(shared),
        alarm: Arc::clone(&alarm),
        foreign: Foreign::new(shared.database.clone(), shared.vfs.clone()),
        last_ms: (shared.now_ms)(),
        messages: Vec::new(),
    };
    // Before it runs: it ends when there is no listener.
    lock(&shared.state).listener = Some(Listener { alarm, is_deaf: false, wakes_at: now });
    let builder = std::thread::Builder::new().name("leafpress-wake-up".to_owned());
    builder.spawn(|| wake_up_thread.run()).inspect_err(|_| lock(&shared.state).listener = None)
}

fn open_socket(shared: &Shared) -> Option<OwnSocket> {
    let place = shared.place.as_ref()?;
    let opened = OwnSocket::open(place);
    opened.inspect_err(|error| tracing::debug!(?place, %error, "wake-up: no socket")).ok()
}

/// From one time to a later one; none if it is not later.
pub(super) fn until(later_ms: i64, now_ms: i64) -> Duration {
    let left_ms = u64::try_from(later_ms.saturating_sub(now_ms)).unwrap_or(0);
    Duration::from_millis(left_ms).min(LOOK_EVERY)
}

impl WakeUpThread {
    fn run(mut self) {
        while let Some((until, listens)) = self.plan() {
            let socket = self.socket.as_ref().filter(|_| listens);
            let has_datagram = self.alarm.sleep(socket, until);
            #[cfg(test)]
            self.shared.wakes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if has_datagram {
                self.hear();
            }
            self.look();
        }
    }

    /// Sends waiters to look for the jobs that are due. Returns the end of the next sleep, and true if
    /// the thread is to listen to the socket meanwhile; `None` if the thread is to end.
    fn plan(&mut self) -> Option<(Instant, bool)> {
        let now_ms = (self.shared.now_ms)();
        let went_back = now_ms < self.last_ms;
        self.last_ms = now_ms;
        self.shared.change(|state| {
            if went_back {
                state.waiters.search_all();
            }
            let now = Instant::now();
            let wakes_at = if state.waiters.are_empty() {
                state.idle_since + LINGER
            } else {
                let due_ms = state.waiters.give_due(now_ms);
                let due_at = due_ms.map(|due_ms| now + until(due_ms, now_ms));
                let deadline = state.waiters.wake_overdue(now);
                due_at.into_iter().chain(deadline).fold(self.look_at, Instant::min)
            };
            let is_over = state.is_closed || (state.waiters.are_empty() && wakes_at <= now);
            if is_over {
                state.listener = None;
            }
            let listener = state.listener.as_mut()?;
            listener.wakes_at = wakes_at.min(now + LOOK_EVERY);
            Some((listener.wakes_at, !listener.is_deaf))
        })
    }

    /// Wakes the waiters that the datagrams are for.
    fn hear(&mut self) {
        let Some(socket) = &self.socket else { return };
        self.messages.clear();
        let was_full = socket.drain(&mut self.messages);
        self.shared.change(|state| {
            for message in &self.messages {
                state.waiters.wake_by_hash(message.queue_hash, message.jobs);
            }
            if was_full {
                state.waiters.search_all();
            }
            let is_idle = state.waiters.are_empty();
            if let Some(listener) = &mut state.listener {
                listener.is_deaf = is_idle;
            }
        });
    }

    /// Sees after the socket and the database, when it is time.
    fn look(&mut self) {
        let now = Instant::now();
        if now < self.look_at || lock(&self.shared.state).waiters.are_empty() {
            return;
        }
        let seen = self.foreign.look();
        let has_new_socket = now >= self.socket_at && self.restore_socket();
        let is_deaf = self.socket.is_none() && seen != Seen::Nothing;
        let pace = self.shared.pace;
        self.look_at = now + if is_deaf { pace.look_every_deaf } else { pace.look_every };
        if seen != Seen::Same || has_new_socket {
            self.shared.change(|state| state.waiters.search_all());
        }
    }

    /// Makes a new socket where the old one is gone; whether it did.
    fn restore_socket(&mut self) -> bool {
        self.socket_at = Instant::now() + self.shared.pace.look_every;
        if self.socket.as_ref().is_some_and(OwnSocket::is_there) {
            return false;
        }
        self.socket = None;
        self.socket = open_socket(&self.shared);
        self.socket.is_some()
    }
}
