//! Jobs that wait because the queue's rules keep them from being claimed.
//!
//! Asked where a claim gave no job, so that a queue that is paused, or at a limit, does not look
//! like an empty one. Must never: count jobs that are not due, unless the queue is paused.

use leafpress::Result;
use leafpress::queue::{JobCounts, Settings};
use serde::Serialize;

use super::place::JobQueue;
use crate::human;

/// Jobs that wait, and the rule that keeps them waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    jobs: u64,
    why: &'static str,
}

impl Waiting {
    /// The jobs of a queue from which nothing can be claimed.
    pub fn of(queue: &JobQueue) -> Result<Option<Self>> {
        let (jobs, is_paused) = queue.jobs_and_pause()?;
        Ok(if is_paused {
            Self::some(jobs.open() - jobs.leased, "paused")
        } else {
            let settings = queue.settings()?;
            let held_off = if settings.group_rate.is_some() { queue.held_off()? } else { 0 };
            Self::at_limit(&jobs, held_off, &settings)
        })
    }

    /// The jobs that a worker left, as a signal ended it.
    pub fn after_signal(queue: &JobQueue) -> Result<Option<Self>> {
        let (jobs, _) = queue.jobs_and_pause()?;
        match Self::some(jobs.ready, "stopped by a signal") {
            Some(left) => Ok(Some(left)),
            None => Self::of(queue),
        }
    }

    /// The jobs at a limit of the queue. A job that is ready without one was pushed just now. Those
    /// that a group's rate holds off are delayed.
    fn at_limit(jobs: &JobCounts, held_off: u64, settings: &Settings) -> Option<Self> {
        let is_full = settings.concurrency.is_some_and(|limit| jobs.leased >= u64::from(limit));
        let rate = match (settings.rate, settings.group_rate) {
            (Some(_), None) => Some("at the limit of --rate"),
            (None, Some(_)) => Some("at the limit of --group-rate"),
            (Some(_), Some(_)) => Some("at the limit of --rate or --group-rate"),
            (None, None) => None,
        };
        match rate {
            _ if is_full => Self::some(jobs.ready + jobs.blocked, "at the limit of --concurrency"),
            Some(rate) if jobs.ready + held_off > 0 => {
                // If no other job keeps its group waiting, the blocked ones wait for this.
                let is_alone = held_off > 0 && jobs.delayed == held_off && jobs.leased == 0;
                let behind = if is_alone { jobs.blocked } else { 0 };
                Self::some(jobs.ready + held_off + behind, rate)
            }
            // What keeps a group may be a job that runs, or one that waits for its time.
            _ if jobs.leased > 0 && jobs.delayed > 0 => {
                Self::some(jobs.blocked, "behind a job of their group that runs or is not due")
            }
            _ if jobs.leased > 0 => Self::some(jobs.blocked, "at the limit of --group-concurrency"),
            _ => None,
        }
    }

    fn some(jobs: u64, why: &'static str) -> Option<Self> {
        (jobs > 0).then_some(Self { jobs, why })
    }

    /// The line that says so.
    pub fn line(&self) -> String {
        format!("{}: {}\n", self.why, human::counted(self.jobs, "job waits", "jobs wait"))
    }
}

#[cfg(test)]
mod tests {
    use leafpress::queue::Rate;

    use super::*;

    fn at_limit(ready: u64, leased: u64, blocked: u64, settings: &Settings) -> Option<String> {
        at_limit_with(0, ready, leased, blocked, settings)
    }

    fn at_limit_with(
        delayed: u64,
        ready: u64,
        leased: u64,
        blocked: u64,
        settings: &Settings,
    ) -> Option<String> {
        let mut jobs = JobCounts::default();
        (jobs.ready, jobs.leased, jobs.blocked) = (ready, leased, blocked);
        jobs.delayed = delayed;
        Waiting::at_limit(&jobs, 0, settings).map(|waiting| waiting.line())
    }

    #[test]
    fn jobs_wait_at_a_limit_that_is_reached() {
        let free = Settings::default();
        assert_eq!(at_limit(1, 1, 0, &free), None);
        assert_eq!(at_limit_with(7, 0, 0, 3, &free), None, "the first of the group is not due");
        let either = at_limit_with(7, 0, 1, 3, &free);
        let says = "behind a job of their group that runs or is not due: 3 jobs wait\n";
        assert_eq!(either.unwrap(), says);
        let group = at_limit(0, 1, 3, &free);
        assert_eq!(group.unwrap(), "at the limit of --group-concurrency: 3 jobs wait\n");
        let mut rated = Settings::default();
        rated.group_rate = Some(Rate { jobs: 1, per: std::time::Duration::from_secs(9) });
        assert_eq!(
            at_limit(2, 0, 0, &rated).unwrap(),
            "at the limit of --group-rate: 2 jobs wait\n"
        );
        let held_off = |delayed, held_off| {
            let mut jobs = JobCounts::default();
            (jobs.delayed, jobs.blocked) = (delayed, 3);
            Waiting::at_limit(&jobs, held_off, &rated).map(|waiting| waiting.line())
        };
        assert_eq!(held_off(2, 2).unwrap(), "at the limit of --group-rate: 5 jobs wait\n");
        assert_eq!(held_off(3, 2).unwrap(), "at the limit of --group-rate: 2 jobs wait\n");
        assert_eq!(held_off(2, 0), None, "they are not due");
        rated.rate = rated.group_rate;
        let both = at_limit(2, 0, 0, &rated);
        assert_eq!(both.unwrap(), "at the limit of --rate or --group-rate: 2 jobs wait\n");
        let mut limited = Settings::default();
        limited.concurrency = Some(2);
        assert_eq!(at_limit(1, 1, 0, &limited), None);
        let full = at_limit(1, 2, 0, &limited);
        assert_eq!(full.unwrap(), "at the limit of --concurrency: 1 job waits\n");
    }
}
