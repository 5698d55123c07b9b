//! Runs of the same job by one worker, told apart from runs of different jobs.
//!
//! The library's report counts runs. Must never: grow with the jobs that are done or dead.

use std::collections::HashMap;

use leafpress::queue::{JobContext, Outcome, WorkReport};

/// The runs of a worker so far, as far as they left jobs undone.
#[derive(Debug, Default)]
pub struct Runs {
    /// Jobs that were not settled for good, with the end of their last run.
    open: HashMap<i64, Left>,
    /// Runs of jobs that this worker had run before, by the end of the run before.
    again: [u64; 3],
}

#[derive(Debug, Clone, Copy)]
enum Left {
    Retried,
    Released,
    LeaseLost,
}

impl Runs {
    /// A run of this job begins.
    pub fn begin(&mut self, job: i64) {
        if let Some(left) = self.open.remove(&job) {
            self.again[left as usize] += 1;
        }
    }

    /// A run of this job has ended.
    pub fn end(&mut self, job: &JobContext, outcome: &Outcome) {
        let left = match outcome {
            _ if job.lease_is_lost() => Left::LeaseLost,
            Outcome::Retry { .. } if job.attempt < job.attempts_max => Left::Retried,
            Outcome::Release => Left::Released,
            _ => return,
        };
        self.open.insert(job.id, left);
    }

    /// The report with each job counted once, by the end of its last run.
    pub fn by_jobs(&self, by_runs: &WorkReport) -> WorkReport {
        let [retried, released, lease_lost] = self.again;
        let mut report = *by_runs;
        report.claimed = report.claimed.saturating_sub(retried + released + lease_lost);
        report.retried = report.retried.saturating_sub(retried);
        report.released = report.released.saturating_sub(released);
        report.lease_lost = report.lease_lost.saturating_sub(lease_lost);
        report
    }
}
