//! Settings of a queue: leases, attempts, backoff, retention, limits.
//!
//! Settings stand in the database, so that they are the same to all processes.
//!
//! Must never: hold a value that makes a queue unusable; [`Settings::check`]
//! refuses those.

use std::time::Duration;

use rusqlite::{Connection, Row, params};
use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::times::in_milliseconds as to_ms;

/// A queue: its settings, then its name, then whether it is paused.
pub(super) const READ_QUEUE: &str = "SELECT lease_ms, attempts_max, backoff_first_ms,
         backoff_factor, backoff_max_ms, backoff_jitter, keep_done_ms, keep_dead_ms, concurrency,
         group_concurrency, rate_jobs, rate_per_ms, group_rate_jobs, group_rate_per_ms,
         name, is_paused
     FROM leafpress_queue WHERE id = ?1";

/// Delay before a job is tried again: the first time `first`, then `factor` times as long each
/// time, never longer than `max`; each time a random part of up to `jitter` more or less, so that
/// jobs that failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Backoff {
    /// Delay after the first attempt.
    #[serde(rename = "backoff_first", serialize_with = "crate::times::seconds")]
    pub first: Duration,
    /// Factor by which each further delay is longer; at least 1.
    #[serde(rename = "backoff_factor")]
    pub factor: f64,
    /// Longest delay, before the jitter.
    #[serde(rename = "backoff_max", serialize_with = "crate::times::seconds")]
    pub max: Duration,
    /// Share of it that may come on top or be left out, from 0 to 1.
    #[serde(rename = "backoff_jitter")]
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_secs(3600),
            jitter: 0.2,
        }
    }
}

impl Backoff {
    /// The delay after this many attempts, in milliseconds. `chance` is from 0 to 1.
    pub(super) fn delay_ms(&self, attempts: u32, chance: f64) -> i64 {
        let first_ms = to_ms(self.first) as f64;
        let exponent = f64::from(attempts.saturating_sub(1));
        // No delay at all stays none, and is not multiplied by infinity.
        let grown = self.factor.powf(exponent).min(f64::MAX);
        let delay_ms = (first_ms * grown).min(to_ms(self.max) as f64);
        // A float beyond i64 becomes the largest i64.
        (delay_ms * (1.0 + self.jitter * (2.0 * chance - 1.0))).round() as i64
    }
}

/// A number of jobs in a time. As JSON: `[jobs, seconds]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Jobs; after a pause this many may be claimed at once.
    pub jobs: u32,
    /// Time for these jobs.
    pub per: Duration,
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.jobs, self.per.as_secs_f64()).serialize(to)
    }
}

/// Settings of a queue. As JSON: a flat object, whose times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Settings {
    /// Length of a lease, if the claim does not say so itself. 30 s.
    #[serde(serialize_with = "crate::times::seconds")]
    pub lease: Duration,
    /// Attempts before a job is a dead letter, if it does not say so itself. 5.
    pub attempts_max: u32,
    /// Delay before the next attempt.
    #[serde(flatten)]
    pub backoff: Backoff,
    /// Time for which jobs are kept after their ack, with their results. Not at all.
    #[serde(serialize_with = "crate::times::seconds")]
    pub keep_done: Duration,
    /// Time for which dead letters are kept. `None`: until they are purged.
    #[serde(serialize_with = "crate::times::optional_seconds")]
    pub keep_dead: Option<Duration>,
    /// Jobs in flight at once. `None`: any number.
    pub concurrency: Option<u32>,
    /// Jobs of one ordering group that may be in flight at once. 1: in order.
    pub group_concurrency: u32,
    /// Rate limit of claims: at most this many jobs per period.
    pub rate: Option<Rate>,
    /// Rate limit of claims of one ordering group.
    pub group_rate: Option<Rate>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            attempts_max: 5,
            backoff: Backoff::default(),
            keep_done: Duration::ZERO,
            keep_dead: None,
            concurrency: None,
            group_concurrency: 1,
            rate: None,
            group_rate: None,
        }
    }
}

/// A queue's settings, with its name and its pause: a row of [`READ_QUEUE`].
pub(super) struct NamedSettings {
    pub(super) name: String,
    pub(super) is_paused: bool,
    pub(super) settings: Settings,
}

impl NamedSettings {
    /// Reads a row of [`READ_QUEUE`] by place, as every transaction does it and names take ten
    /// times as long.
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { name: row.get(14)?, is_paused: row.get(15)?, settings: Settings::from_row(row)? })
    }
}

impl Settings {
    /// Refuses settings that would make a queue unusable.
    ///
    /// # Errors
    /// The name of the setting, and the values that it may have.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        let rates = [("rate", self.rate), ("group_rate", self.group_rate)];
        let bad_rate = rates.iter().find(|(_, rate)| {
            rate.is_some_and(|rate| {
                rate.jobs == 0 || to_ms(rate.per) == 0 || rate.interval_us() == 0
            })
        });
        let Backoff { first, factor, max, jitter } = self.backoff;
        let problem = if to_ms(self.lease) == 0 {
            "a lease of at least a millisecond is needed".to_owned()
        } else if self.attempts_max == 0 {
            "attempts_max must be at least 1".to_owned()
        } else if !(factor.is_finite() && factor >= 1.0) {
            format!("the backoff's factor must be at least 1, and is {factor}")
        } else if max < first {
            format!(
                "the backoff's longest delay, {max:?}, must not be less than its first, {first:?}"
            )
        } else if !(0.0..=1.0).contains(&jitter) {
            format!("the backoff's jitter must be from 0 to 1, and is {jitter}")
        } else if self.concurrency == Some(0) {
            "a concurrency of 0 would stop the queue: pause it instead".to_owned()
        } else if self.group_concurrency == 0 {
            "group_concurrency must be at least 1".to_owned()
        } else if let Some((name, _)) = bad_rate {
            format!(
                "{name} must be at least one job in a time of at least a millisecond, and at most one a microsecond"
            )
        } else {
            return Ok(());
        };
        Err(Error::misuse(problem).on_disk("the settings are as they were"))
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let rate = |jobs: usize, per: usize| -> rusqlite::Result<Option<Rate>> {
            let (jobs, per): (Option<u32>, Option<i64>) = (row.get(jobs)?, row.get(per)?);
            let rate =
                |(jobs, per): (u32, i64)| Rate { jobs: jobs.max(1), per: from_ms(per.max(1)) };
            Ok(jobs.zip(per).map(rate))
        };
        Ok(Self {
            lease: from_ms(row.get(0)?),
            attempts_max: row.get(1)?,
            backoff: Backoff {
                first: from_ms(row.get(2)?),
                factor: row.get(3)?,
                max: from_ms(row.get(4)?),
                jitter: row.get(5)?,
            },
            keep_done: from_ms(row.get(6)?),
            keep_dead: row.get::<_, Option<i64>>(7)?.map(from_ms),
            concurrency: row.get(8)?,
            group_concurrency: row.get(9)?,
            rate: rate(10, 11)?,
            group_rate: rate(12, 13)?,
        })
    }

    /// Writes them to the queue's row.
    pub(super) fn store(&self, connection: &Connection, queue: i64) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "UPDATE leafpress_queue SET lease_ms = ?2, attempts_max = ?3,
                     backoff_first_ms = ?4, backoff_factor = ?5, backoff_max_ms = ?6,
                     backoff_jitter = ?7, keep_done_ms = ?8, keep_dead_ms = ?9,
                     concurrency = ?10, group_concurrency = ?11, rate_jobs = ?12,
                     rate_per_ms = ?13, group_rate_jobs = ?14, group_rate_per_ms = ?15
                 WHERE id = ?1",
            )?
            .execute(params![
                queue,
                to_ms(self.lease),
                self.attempts_max,
                to_ms(self.backoff.first),
                self.backoff.factor,
                to_ms(self.backoff.max),
                self.backoff.jitter,
                to_ms(self.keep_done),
                self.keep_dead.map(to_ms),
                self.concurrency,
                self.group_concurrency,
                self.rate.map(|rate| rate.jobs),
                self.rate.map(|rate| to_ms(rate.per)),
                self.group_rate.map(|rate| rate.jobs),
                self.group_rate.map(|rate| to_ms(rate.per)),
            ])
            .map(drop)
    }
}

impl Rate {
    /// The time that one job takes up, in microseconds.
    pub(super) fn interval_us(self) -> i64 {
        to_ms(self.per).saturating_mul(1_000) / i64::from(self.jobs.max(1))
    }

    /// The time in which an empty bucket fills up, in microseconds.
    pub(super) fn whole_us(self) -> i64 {
        self.interval_us().saturating_mul(i64::from(self.jobs))
    }
}

fn from_ms(time_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(time_ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_limit_and_strays_within_its_jitter() {
        let backoff = Backoff::default();
        assert_eq!(
            [1, 2, 3].map(|attempts| backoff.delay_ms(attempts, 0.5)),
            [1_000, 2_000, 4_000]
        );
        assert_eq!(backoff.delay_ms(1, 0.0), 800);
        assert_eq!(backoff.delay_ms(1, 1.0), 1_200);
        assert_eq!(backoff.delay_ms(u32::MAX, 0.5), 3_600_000);
        let at_once = Backoff { first: Duration::ZERO, ..backoff };
        assert_eq!(at_once.delay_ms(u32::MAX, 1.0), 0);
        let endless = Backoff { max: Duration::MAX, ..backoff };
        assert_eq!(endless.delay_ms(u32::MAX, 1.0), i64::MAX);
    }

    #[test]
    fn settings_that_stop_a_queue_are_refused() {
        Settings::default().check().expect("the defaults are good");
        let bad: [fn(&mut Settings); 8] = [
            |settings| settings.lease = Duration::ZERO,
            |settings| settings.attempts_max = 0,
            |settings| settings.backoff.factor = f64::NAN,
            |settings| settings.backoff.jitter = 1.5,
            |settings| settings.backoff.first = Duration::from_secs(7200),
            |settings| settings.concurrency = Some(0),
            |settings| settings.group_concurrency = 0,
            |settings| settings.rate = Some(Rate { jobs: 5, per: Duration::ZERO }),
        ];
        for spoil in bad {
            let mut settings = Settings::default();
            spoil(&mut settings);
            assert!(settings.check().is_err(), "{settings:?}");
        }
    }
}
