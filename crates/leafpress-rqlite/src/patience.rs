//! The times of a request that is sent again: before the next attempt, and for its answer.
//!
//! A node that is cut off does not say so, and another one may lead: so the first attempt gets little time. Each
//! further one gets twice as much, for a cluster that is only slow.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::Unread;

/// The time for which a cluster may be without a leader: an election takes less.
pub const ELECTION_MAX: Duration = Duration::from_secs(10);
/// Time for the answer to the first attempt.
pub const ANSWER_MIN: Duration = Duration::from_millis(2_500);
const ANSWER_MAX: Duration = Duration::from_secs(20);
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// The attempts of one request.
pub struct Patience {
    begun: Instant,
    answer: Duration,
    pause: Duration,
}

impl Patience {
    pub fn new() -> Self {
        Self { begun: Instant::now(), answer: ANSWER_MIN, pause: PAUSE_MIN }
    }

    /// Time since the first attempt began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Time for the answer to the next attempt.
    pub fn answer_max(&self) -> Duration {
        self.answer
    }

    /// As [`answer_max`](Self::answer_max), where all attempts have this time.
    pub fn answer_max_within(&self, limit: Duration) -> Duration {
        self.answer.min(limit.saturating_sub(self.elapsed()).max(ANSWER_MIN))
    }

    /// Asks until there is an answer, or asking again is of no use, or until this time is over. `ask` gets the
    /// longest time for its answer.
    ///
    /// # Errors
    /// The last one of `ask`.
    pub fn ask<T>(
        mut self,
        limit: Duration,
        mut ask: impl FnMut(Duration) -> Result<T, Unread>,
    ) -> Result<T, Unread> {
        loop {
            match ask(self.answer) {
                Err(unread) if !unread.is_final() && self.elapsed() < limit => self.pause(),
                answer => return answer,
            }
        }
    }

    /// Sleeps before the next attempt.
    pub fn pause(&mut self) {
        sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.answer = (self.answer * 2).min(ANSWER_MAX);
    }
}
