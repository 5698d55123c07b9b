//! Collects the numbers of [`QueueStats`].
//!
//! One transaction reads all of them, so that they fit together.
//!
//! Must never: count jobs by their rows; each state has an index of its own.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::counters::{Counts, minute_of};
use super::histogram::Histogram;
use super::{Events, JobCounts, Limits, QueueStats, Times, minutes};
use crate::error::{Error, Result};
use crate::queue::job::JobState;
use crate::queue::session::dropped;
use crate::queue::settings::{NamedSettings, READ_QUEUE};
use crate::times::UnixTime;
use crate::writer::Bucket;

/// Number of the jobs of each state, in the order of [`JobState::ALL`].
const COUNTS: [&str; 6] = [
    concat!("SELECT count(*) ", jobs_in!(Ready)),
    concat!("SELECT count(*) ", jobs_in!(Leased)),
    concat!("SELECT count(*) ", jobs_in!(Delayed)),
    concat!("SELECT count(*) ", jobs_in!(Blocked)),
    concat!("SELECT count(*) ", jobs_in!(Done)),
    concat!("SELECT count(*) ", jobs_in!(Dead)),
];
const GROUPS_BLOCKED: &str = concat!("SELECT count(DISTINCT ordering_group) ", jobs_in!(Blocked));
/// One seek for each priority, from the lowest up.
const OLDEST_READY: &str = concat!(
    "WITH RECURSIVE step(priority) AS (
         SELECT (SELECT min(priority) ",
    jobs_in!(Ready),
    ") UNION ALL
         SELECT (SELECT min(priority) ",
    jobs_in!(Ready),
    " AND priority > step.priority)
         FROM step WHERE step.priority IS NOT NULL LIMIT 1001)
     SELECT due_at_ms FROM leafpress_job WHERE id = (
         SELECT min((SELECT id ",
    jobs_in!(Ready),
    " AND leafpress_job.priority = step.priority ORDER BY id LIMIT 1))
         FROM step WHERE step.priority IS NOT NULL)"
);
const OLDEST_LEASE: &str = concat!("SELECT min(changed_at_ms) ", jobs_in!(Leased));
const NEXT_LEASE_END: &str = concat!("SELECT min(due_at_ms) ", jobs_in!(Leased));
const NEXT_DUE: &str = concat!("SELECT min(due_at_ms) ", jobs_in!(Delayed));

const HELD_OFF: &str = concat!("SELECT count(*) ", jobs_in!(Delayed), " AND lease_ms < 0");

/// Upper ends of the buckets that are shown, as Prometheus likes them.
const BOUNDS_MS: [u64; 16] = [
    1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000,
    14_400_000, 86_400_000,
];

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Number of jobs in this state.
fn count(connection: &Connection, queue: i64, state: JobState) -> Result<u64> {
    counted(connection, COUNTS[state as usize], queue).map_err(not_read)
}

/// Number of jobs that their group's rate holds off; they are delayed ones.
pub(super) fn held_off(connection: &Connection, queue: i64) -> Result<u64> {
    counted(connection, HELD_OFF, queue).map_err(not_read)
}

/// All numbers of a queue.
pub(super) fn collect(connection: &Connection, queue: i64, now_ms: i64) -> Result<QueueStats> {
    let mut stats = holds(connection, queue, now_ms)?;
    happened(connection, queue, &mut stats).map_err(not_read)?;
    Ok(stats)
}

/// Counts and ages of the jobs in the queue.
fn holds(connection: &Connection, queue: i64, now_ms: i64) -> Result<QueueStats> {
    let row = connection
        .prepare_cached(READ_QUEUE)
        .and_then(|mut statement| statement.query_row([queue], NamedSettings::from_row).optional())
        .map_err(not_read)?;
    let NamedSettings { name, is_paused, settings } = row.ok_or_else(dropped)?;
    let age = |since_ms: Option<i64>| {
        let age_ms = |since_ms| now_ms.saturating_sub(since_ms).max(0) as u64;
        since_ms.map(|since_ms| Duration::from_millis(age_ms(since_ms)))
    };
    let first = |sql| first(connection, sql, queue).map_err(not_read);
    let count = |state| count(connection, queue, state);
    Ok(QueueStats {
        queue: name,
        is_paused,
        now: UnixTime::from_ms(now_ms),
        jobs: JobCounts {
            ready: count(JobState::Ready)?,
            leased: count(JobState::Leased)?,
            delayed: count(JobState::Delayed)?,
            blocked: count(JobState::Blocked)?,
            done: count(JobState::Done)?,
            dead: count(JobState::Dead)?,
        },
        groups_blocked: counted(connection, GROUPS_BLOCKED, queue).map_err(not_read)?,
        oldest_ready: age(first(OLDEST_READY)?),
        oldest_lease: age(first(OLDEST_LEASE)?),
        next_lease_end: first(NEXT_LEASE_END)?.map(UnixTime::from_ms),
        next_due: first(NEXT_DUE)?.map(UnixTime::from_ms),
        limits: Limits {
            concurrency: settings.concurrency,
            group_concurrency: settings.group_concurrency,
            rate: settings.rate,
            group_rate: settings.group_rate,
        },
        ..QueueStats::default()
    })
}

/// Adds the events of the queue: totals and rates.
fn happened(connection: &Connection, queue: i64, stats: &mut QueueStats) -> rusqlite::Result<()> {
    let now_ms = stats.now.as_ms();
    let life = minutes::life(connection, queue)?;
    stats.totals = life.events;
    (stats.totals_wait, stats.totals_run) = (times(&life.wait), times(&life.run));

    let since = minutes::since(connection, queue, minute_of(now_ms - HOUR_MS))?;
    let mut hour = Counts::default();
    let (mut in_minute, mut in_hour) = (Events::<f64>::default(), Events::<f64>::default());
    for (minute, counts) in &since {
        let events = counts.events.map(|number| number as f64);
        for (sum, window_ms) in [(&mut in_minute, MINUTE_MS), (&mut in_hour, HOUR_MS)] {
            let share = share_within(*minute, now_ms, window_ms);
            *sum = sum.zip(&events, |sum, more| sum + share * more);
        }
        if share_within(*minute, now_ms, HOUR_MS) > 0.0 {
            hour.add(counts);
        }
    }
    stats.per_second_last_minute = in_minute.map(|sum| sum / 60.0);
    stats.per_second_last_hour = in_hour.map(|sum| sum / 3_600.0);
    let acked = hour.events.acked;
    stats.attempts_per_ack = (acked > 0).then(|| hour.acked_attempts as f64 / acked as f64);
    (stats.wait, stats.run) = (times(&hour.wait), times(&hour.run));
    Ok(())
}

/// Share of this minute that was in the last `window_ms`, if its events are evenly spread. A minute
/// in the future (the clock was set back) has none.
fn share_within(minute: i64, now_ms: i64, window_ms: i64) -> f64 {
    let began_ms = minute.saturating_mul(MINUTE_MS);
    if began_ms > now_ms {
        return 0.0;
    }
    let end_ms = began_ms + MINUTE_MS;
    let within_ms = end_ms - (now_ms - window_ms).clamp(began_ms, end_ms);
    within_ms as f64 / MINUTE_MS as f64
}

fn times(counted: &Histogram) -> Times {
    let (count, sum) = (counted.count, Duration::from_millis(counted.sum));
    let quantile = |share| Duration::from_millis(counted.quantile(share));
    Times {
        count,
        sum,
        mean: if count == 0 { Duration::ZERO } else { sum.div_f64(count as f64) },
        p50: quantile(0.5),
        p90: quantile(0.9),
        p99: quantile(0.99),
        max: Duration::from_millis(counted.max),
        buckets: Bucket::all(counted, &BOUNDS_MS, Duration::from_millis),
    }
}

fn counted(connection: &Connection, sql: &str, queue: i64) -> rusqlite::Result<u64> {
    let number: i64 = connection.prepare_cached(sql)?.query_row([queue], |row| row.get(0))?;
    Ok(number as u64)
}

/// The first value, if there is a row and it has one.
fn first(connection: &Connection, sql: &str, queue: i64) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([queue], |row| row.get(0)).optional()?.flatten())
}

fn not_read(source: rusqlite::Error) -> Error {
    Error::sqlite("read the queue's statistics", source).on_disk("nothing was changed")
}

/// The statements of this file.
#[cfg(test)]
pub(super) const STATEMENTS: [(&str, &str); 12] = [
    ("count jobs that are held off", HELD_OFF),
    ("count ready jobs", COUNTS[0]),
    ("count leased jobs", COUNTS[1]),
    ("count delayed jobs", COUNTS[2]),
    ("count blocked jobs", COUNTS[3]),
    ("count done jobs", COUNTS[4]),
    ("count dead jobs", COUNTS[5]),
    ("count blocked groups", GROUPS_BLOCKED),
    ("the oldest ready job", OLDEST_READY),
    ("the oldest lease", OLDEST_LEASE),
    ("the first lease to end", NEXT_LEASE_END),
    ("the next delayed job", NEXT_DUE),
];

#[cfg(test)]
mod tests {
    use super::share_within;

    #[test]
    fn the_window_slides_over_the_minutes() {
        let share =
            |minute, now_ms, window_ms| (share_within(minute, now_ms, window_ms) * 100.0) as i64;
        let now_ms = 10 * 60_000 + 15_000;
        let last_minute: Vec<i64> = (7..12).map(|minute| share(minute, now_ms, 60_000)).collect();
        // All that happened in this minute so far, and three quarters of the last.
        assert_eq!(last_minute, [0, 0, 75, 100, 0]);
        assert_eq!(share(0, now_ms, 3_600_000), 100);
    }
}
