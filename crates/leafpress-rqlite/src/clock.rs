//! The clock of the cluster: the leader's, as it was read last, plus the time since.
//!
//! The time between two readings is that of the steady clock of this machine, which is never set. So the wall clock of a
//! client never counts, and the nodes get the time as a value, alike on each of them.
//!
//! Must never: ask this machine for the time of day.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Client, Level, Unread};

/// The clock of the node that carries it out: of the leader, for the answer is the leader's. rqlite leaves
/// a `subsec` without `now` alone, in all versions.
pub const CLOCK: &str = "SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";

/// A reading that is older is taken again before it is used: the leader may have changed.
const FRESH: Duration = Duration::from_secs(2);
/// The distance that the leader's clock may go back before leases are measured anew.
const BACK_MS: i64 = 1_000;

/// The leader's clock.
#[derive(Debug, Default)]
pub struct LeaderClock {
    reading: Option<(Instant, i64)>,
    is_doubtful: bool,
    went_back: bool,
}

impl LeaderClock {
    /// The time, in milliseconds since the Unix epoch. The leader is asked if the last reading is old;
    /// `limit`: the longest time for the answer.
    ///
    /// # Errors
    /// No node answers, or the node does not tell the time.
    pub fn now(&mut self, client: &mut Client, limit: Duration) -> Result<i64, Unread> {
        let is_fresh = self.reading.is_some_and(|(at, _)| at.elapsed() < FRESH);
        if let Some(now_ms) = self.now_ms().filter(|_| is_fresh && !self.is_doubtful) {
            return Ok(now_ms);
        }
        let rows = client.read(Level::Weak, &[json!([CLOCK])], limit)?;
        let now_ms = rows.first().and_then(|rows| rows.first()?.get(0)?.as_i64());
        let silent = || Unread::Denied("the node does not tell the time".to_owned());
        let now_ms = now_ms.ok_or_else(silent)?;
        self.set(now_ms);
        Ok(now_ms)
    }

    /// Takes in a reading, in milliseconds since the Unix epoch.
    pub fn set(&mut self, now_ms: i64) {
        self.went_back |= self.now_ms().is_some_and(|before| now_ms < before - BACK_MS);
        self.reading = Some((Instant::now(), now_ms));
        self.is_doubtful = false;
    }

    /// Has the leader asked for the next time: this machine may have slept, which its steady clock need not count.
    pub fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Returns true if the clock has gone back, until [`measured_anew`](Self::measured_anew).
    pub fn went_back(&self) -> bool {
        self.went_back
    }

    /// Leases and delays were measured anew.
    pub fn measured_anew(&mut self) {
        self.went_back = false;
    }

    /// The last reading and the time since; `None` before the first.
    fn now_ms(&self) -> Option<i64> {
        let (at, ms) = self.reading?;
        Some(ms.saturating_add(leafpress::times::in_milliseconds(at.elapsed())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_by_itself_and_notices_a_jump_back() {
        let mut clock = LeaderClock::default();
        assert_eq!(clock.now_ms(), None);
        clock.set(1_000_000);
        assert!(clock.now_ms().is_some_and(|now| (1_000_000..1_001_000).contains(&now)));
        clock.set(999_500);
        assert!(!clock.went_back());
        clock.set(900_000);
        clock.set(2_000_000);
        assert!(clock.went_back());
        clock.measured_anew();
        assert!(!clock.went_back());
    }
}
