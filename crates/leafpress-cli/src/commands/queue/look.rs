//! `leafpress queue list` and `show`.
//!
//! Must never: change anything, be it the journal mode.

use leafpress::Result;
use leafpress::queue::{Attempt, JobInfo, JobState, ListOptions};

use super::database::no_such_job;
use super::json::{JobObject, Jobs};
use super::place::{Finder, JobQueue};
use super::view::Looked;
use crate::cluster::url_of;
use crate::exit::Status;
use crate::flags::{QueueListFlags, QueueShowFlags};
use crate::{output, summary};

/// Shows the jobs of a queue.
pub fn list(flags: &QueueListFlags) -> Status {
    match jobs(flags) {
        Ok(jobs) if flags.common.json => {
            let jobs = jobs.iter().map(JobObject::from).collect();
            output::print_answer(true, &Jobs { jobs }, String::new)
        }
        Ok(jobs) => output::print_result(&summary::of_jobs(&jobs, flags.limit as usize)),
        Err(error) => output::print_failure(error, flags.common.json),
    }
}

fn jobs(flags: &QueueListFlags) -> Result<Vec<JobInfo>> {
    let mut options = ListOptions::new()
        .newest_first(flags.newest)
        .limit(flags.limit as usize)
        .with_payload(true);
    if !flags.state.is_empty() {
        options = options.states(flags.state.iter().map(|state| JobState::from(*state)));
    }
    if let Some(group) = &flags.group {
        options = options.group(group);
    }
    if let Some(id) = flags.after {
        options = options.after_id(id);
    }
    let place = &flags.place;
    if url_of(&place.database).is_some() {
        return JobQueue::existing(place, &(&flags.common).into())?.list(&options);
    }
    Looked::at(&place.database, &flags.common)?.list(&place.queue, &options)
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    job: JobObject<'a>,
    attempts: &'a [Attempt],
}

/// Shows one job and its attempts.
pub fn show(flags: &QueueShowFlags) -> Status {
    match job(flags) {
        Ok((job, history)) => {
            let shown = Shown { job: (&job).into(), attempts: &history };
            output::print_answer(flags.common.json, &shown, || summary::of_job(&job, &history))
        }
        Err(error) => output::print_failure(error, flags.common.json),
    }
}

fn job(flags: &QueueShowFlags) -> Result<(JobInfo, Vec<Attempt>)> {
    if url_of(&flags.database).is_none() {
        return Looked::at(&flags.database, &flags.common)?.job(flags.id);
    }
    let found =
        match Finder::existing(&flags.database, &(&flags.common).into())?.queue_of(flags.id)? {
            Some(queue) => queue.job(flags.id)?.map(|job| (job, queue)),
            None => None,
        };
    match found {
        Some((job, queue)) => Ok((job, queue.history(flags.id)?)),
        None => Err(no_such_job(&flags.database, flags.id)),
    }
}
