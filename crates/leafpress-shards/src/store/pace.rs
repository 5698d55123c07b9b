//! Number of requests with large bodies, pieces and whole parts, that go up to a store at once.
//!
//! Each has the time limit of a request, and together they share the network. So one goes first; while they are
//! fast there is room for one more after each, and for one fewer after a slow one.

use std::error::Error as _;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use leafpress::vfs::sync::lock;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::{Error, Result as Answer};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Requests that go up at once, at most.
const AT_ONCE_MAX: usize = 32;
/// A request that took less leaves room for another one. Far below the time limit, so that a network may become
/// slower meanwhile.
const FAST: Duration = Duration::from_secs(4);
/// A request that took more gives its room back.
const SLOW: Duration = Duration::from_secs(10);
/// So many failures, one after the other, end the wait of the others.
const FAILURES_MAX: usize = 2;

/// The pace of one store, in the process that opened it.
pub struct Pace {
    rooms: Semaphore,
    /// Number of rooms, taken or free.
    count: Mutex<usize>,
    failures: Mutex<Failures>,
}

/// Requests that have failed since the last one that did not.
#[derive(Default)]
struct Failures {
    count: usize,
    last: Option<(HttpErrorKind, String)>,
}

impl Pace {
    /// The pace of the first request.
    pub fn new() -> Self {
        Self { rooms: Semaphore::new(1), count: Mutex::new(1), failures: Mutex::default() }
    }

    /// Sends a request once there is room for it. If others fail meanwhile, one after the other, it is not sent: a
    /// store that does not answer is an error after the time of a few requests, not of all that wait.
    pub async fn send<T>(&self, request: impl Future<Output = Answer<T>>) -> Answer<T> {
        let failures = lock(&self.failures).count;
        let room = self.rooms.acquire().await;
        let room = room.map_err(|closed| generic(HttpErrorKind::Unknown, closed.to_string()))?;
        self.check(failures)?;
        let began = Instant::now();
        let answer = request.await;
        self.note(answer.as_ref().err());
        self.learn(room, began.elapsed());
        answer
    }

    /// Refuses a request that has waited since there were so many failures.
    fn check(&self, failures_before: usize) -> Answer<()> {
        let failures = lock(&self.failures);
        match &failures.last {
            Some((kind, last)) if failures.count >= failures_before + FAILURES_MAX => {
                Err(generic(*kind, format!("it was not sent, as those before it failed: {last}")))
            }
            _ => Ok(()),
        }
    }

    fn note(&self, error: Option<&Error>) {
        let mut failures = lock(&self.failures);
        failures.count = error.map_or(0, |_| failures.count + 1);
        failures.last = error.map(|error| (kind_of(error), error.to_string()));
    }

    fn learn(&self, room: SemaphorePermit<'_>, took: Duration) {
        let mut count = lock(&self.count);
        let were_all_taken = self.rooms.available_permits() == 0;
        if took < FAST && were_all_taken && *count < AT_ONCE_MAX {
            *count += 1;
            self.rooms.add_permits(1);
        } else if took > SLOW && *count > 1 {
            *count -= 1;
            room.forget();
        }
    }
}

fn generic(kind: HttpErrorKind, text: String) -> Error {
    let source = Box::new(HttpError::new(kind, io::Error::other(text)));
    Error::Generic { store: "store", source }
}

/// The kind of the failed request behind an error.
pub fn kind_of(error: &Error) -> HttpErrorKind {
    let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
    let found = causes.find_map(|cause| cause.downcast_ref::<HttpError>());
    found.map_or(HttpErrorKind::Unknown, HttpError::kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many rooms, and gives them back after requests that took so long.
    fn take(pace: &Pace, rooms: usize, took: Duration) {
        let taken: Vec<_> = (0..rooms).map(|_| pace.rooms.try_acquire().unwrap()).collect();
        for room in taken {
            pace.learn(room, took);
        }
    }

    #[test]
    fn fast_requests_make_room_and_slow_ones_give_it_back() {
        let pace = Pace::new();
        let rooms = |pace: &Pace| (pace.rooms.available_permits(), *lock(&pace.count));
        for count in 1..AT_ONCE_MAX {
            assert_eq!(rooms(&pace), (count, count));
            take(&pace, count, FAST / 2);
        }
        assert_eq!(rooms(&pace), (AT_ONCE_MAX, AT_ONCE_MAX));
        take(&pace, AT_ONCE_MAX, FAST / 2);
        assert_eq!(rooms(&pace), (AT_ONCE_MAX, AT_ONCE_MAX), "there is a bound");
        take(&pace, AT_ONCE_MAX, FAST * 2);
        assert_eq!(rooms(&pace), (AT_ONCE_MAX, AT_ONCE_MAX), "neither fast nor slow");
        take(&pace, AT_ONCE_MAX, SLOW * 2);
        assert_eq!(rooms(&pace), (1, 1));
        take(&pace, 1, SLOW * 2);
        assert_eq!(rooms(&pace), (1, 1), "one may always go");

        // Rooms that no request used show nothing.
        let pace = Pace::new();
        take(&pace, 1, FAST / 2);
        take(&pace, 1, FAST / 2);
        assert_eq!(rooms(&pace), (2, 2));
    }

    #[test]
    fn a_request_that_waits_while_others_fail_is_not_sent() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pace = Pace::new();
        let failing = || async {
            // The others ask for room.
            tokio::task::yield_now().await;
            Err::<(), _>(generic(HttpErrorKind::Timeout, "no answer".to_owned()))
        };
        let fine = || async { Ok(()) };
        let (_, after_one) = runtime
            .block_on(async { futures_util::join!(pace.send(failing()), pace.send(fine())) });
        after_one.unwrap();
        let all = async {
            futures_util::join!(pace.send(failing()), pace.send(failing()), pace.send(fine()))
        };
        let (first, second, third) = runtime.block_on(all);
        for sent in [first, second] {
            assert!(!sent.unwrap_err().to_string().contains("not sent"));
        }
        let error = third.unwrap_err();
        assert_eq!(kind_of(&error), HttpErrorKind::Timeout);
        let text = error.to_string();
        assert!(text.contains("it was not sent") && text.contains("no answer"), "{text}");
        runtime.block_on(pace.send(fine())).unwrap();
    }
}
