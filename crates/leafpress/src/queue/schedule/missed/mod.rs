//! Rules for occurrences that passed while no consumer claimed.
//!
//! A schedule is looked at when a consumer claims from its queue, so an occurrence is always met
//! late, by a millisecond or by a week. This file decides which occurrences get a job; it reads no
//! clock and no database.
//!
//! Invariants:
//! 1. Every occurrence from the next one on until now is either fired or passed
//!    over, once: the new next one is the first occurrence after the last of them.
//! 2. One look fires at most as many as it is allowed; only [`Missed::All`]
//!    leaves some for the next look.
//!
//! Must never: take time that grows with the time since the last look.

use std::fmt;
use std::str::FromStr;

use super::recurrence::Recurrence;

/// An occurrence that is met later than this was missed: [`Missed::Skip`]
/// gives it no job.
pub(super) const MISSED_AFTER_MS: i64 = 60_000;

/// Rule for occurrences that passed while no consumer claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Missed {
    /// Nothing: only an occurrence that is at most a minute late gets a job,
    /// and of several the last. For jobs that are worth nothing when they are
    /// late. Mind that a queue all of whose workers are busy for longer than a
    /// minute misses occurrences too.
    Skip,
    /// One job for all of them, that of the last occurrence.
    #[default]
    Once,
    /// A job for each, the oldest first: at most 100 per look, and the next
    /// look goes on from there, so a month of missed minutes is made up for in
    /// order and no claim waits for all of it.
    All,
}

impl Missed {
    fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Once => "once",
            Self::All => "all",
        }
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Missed {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Skip, Self::Once, Self::All].into_iter().find(|rule| rule.name() == text).ok_or_else(
            || {
                let reason = format!("\"{text}\" is not a rule for missed occurrences");
                crate::Error::not_found("rule for missed occurrences", text, reason)
                    .to_do("use skip, once or all")
            },
        )
    }
}

/// Result of one look at a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    /// The occurrences that get a job, in order.
    pub(super) fired_ms: Vec<i64>,
    /// The one to wait for; none if there is no further one.
    pub(super) next_at_ms: Option<i64>,
}

/// Decides about the occurrences from `next_at_ms` on until now, which is not before it.
pub(super) fn decide(
    recurrence: &Recurrence,
    missed: Missed,
    next_at_ms: i64,
    now_ms: i64,
    jobs_max: usize,
) -> Due {
    if missed == Missed::All {
        return all(recurrence, next_at_ms, now_ms, jobs_max);
    }
    let last_ms = recurrence.last_until_ms(next_at_ms, now_ms);
    let is_missed = missed == Missed::Skip && now_ms - last_ms > MISSED_AFTER_MS;
    Due {
        fired_ms: if is_missed { Vec::new() } else { vec![last_ms] },
        next_at_ms: recurrence.next_after_ms(last_ms),
    }
}

fn all(recurrence: &Recurrence, first_ms: i64, now_ms: i64, jobs_max: usize) -> Due {
    let mut fired_ms = Vec::new();
    let mut next_at_ms = Some(first_ms);
    while let Some(occurrence_ms) = next_at_ms.filter(|&at_ms| at_ms <= now_ms) {
        if fired_ms.len() == jobs_max {
            break;
        }
        fired_ms.push(occurrence_ms);
        next_at_ms = recurrence.next_after_ms(occurrence_ms);
    }
    Due { fired_ms, next_at_ms }
}

#[cfg(test)]
mod tests;
