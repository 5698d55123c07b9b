//! `leafpress queue retry`, `remove`, `purge`, `pause`, `resume`.
//!
//! Must never: remove jobs that are neither done nor dead without a yes.

use std::io::{self, BufRead as _, IsTerminal as _};

use leafpress::queue::elsewhere::after_a_part;
use leafpress::queue::{Affected, JobState, Purge};
use leafpress::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::place::{Finder, JobQueue};
use crate::exit::Status;
use crate::flags::{
    QueueNamedFlags, QueuePurgeFlags, QueueRemoveFlags, QueueRetryFlags, QueueStateFlag,
    usage_error,
};
use crate::{human, output};

/// Has dead jobs tried again.
///
/// # Errors
/// The words name neither jobs nor one queue.
pub fn retry(flags: &QueueRetryFlags) -> Result<Status, clap::Error> {
    let as_usage_error = |message: String| usage_error("queue retry", &message);
    let all_of = flags.queue().map_err(as_usage_error)?;
    let ids = if all_of.is_some() { Vec::new() } else { flags.ids().map_err(as_usage_error)? };
    let as_json = flags.common.json;
    let finder = match Finder::existing(&flags.database, &flags.common) {
        Ok(finder) => finder,
        Err(error) => return Ok(output::print_failure(error, as_json)),
    };
    let Some(name) = all_of else {
        let retry = |queue: &JobQueue, id| {
            let retried = queue.retry(id)?;
            note_without_key(retried);
            Ok(retried.jobs > 0)
        };
        return Ok(each(&finder, &ids, as_json, "retried", "not dead", retry));
    };
    let mut retried = Affected::default();
    let outcome = finder.queue(name).and_then(|queue| queue.retry_dead(&mut retried));
    note_without_key(retried);
    let text = format!("{} tried again", human::counted(retried.jobs, "job is", "jobs are"));
    Ok(report_batches(outcome, retried.jobs, as_json, "retried", &text))
}

/// Reports what was done to many jobs, and the error that ended it.
fn report_batches(
    outcome: Result<()>,
    jobs: u64,
    as_json: bool,
    done_word: &str,
    text: &str,
) -> Status {
    let object = json!({ done_word: jobs });
    match outcome {
        Err(error) if jobs > 0 => {
            output::print_failure_beside(error, as_json.then_some(object));
            output::print_message(&format!("before it: {text}\n"));
            Status::DoneWithProblems
        }
        _ => {
            let object = outcome.map(|()| object);
            output::report(object, as_json, |_| format!("{text}\n"), |_| Status::Done)
        }
    }
}

/// Says which of the jobs are not alone with their key any more.
fn note_without_key(retried: Affected) {
    if retried.without_key > 0 {
        let jobs = human::counted(retried.without_key, "job goes", "jobs go");
        output::print_message(&output::note(&format!(
            "{jobs} without a unique key: another job holds it by now, and both may run at a time"
        )));
    }
}

/// Removes jobs.
pub fn remove(flags: &QueueRemoveFlags) -> Status {
    match Finder::existing(&flags.database, &flags.common) {
        Ok(finder) => {
            let as_json = flags.common.json;
            each(&finder, &flags.ids, as_json, "removed", "not there", JobQueue::remove)
        }
        Err(error) => output::print_failure(error, flags.common.json),
    }
}

/// Does one action to each of the jobs; says of which jobs it was refused.
fn each(
    finder: &Finder,
    ids: &[i64],
    as_json: bool,
    done_word: &str,
    not_word: &str,
    act: impl Fn(&JobQueue, i64) -> Result<bool>,
) -> Status {
    let (mut done, mut not_done, mut first_error) = (Vec::new(), Vec::new(), None);
    for id in ids {
        let acted = finder.queue_of(*id).and_then(|queue| match queue {
            Some(queue) => Ok((act(&queue, *id)?, not_word)),
            None => Ok((false, "not there")),
        });
        match acted {
            Ok((true, _)) => done.push(*id),
            Ok((false, why)) => {
                not_done.push(*id);
                let says = format!("{}: job {id} is {why}", finder.database());
                output::print_error(&says);
                first_error.get_or_insert_with(|| not_such(*id, says));
            }
            Err(error) => {
                let object = as_json.then(|| json!({done_word: &done, "not_done": &not_done}));
                return stopped_at(error, &done, object, done_word);
            }
        }
    }
    if as_json {
        output::print_json_beside(json!({done_word: &done, "not_done": &not_done}), first_error);
    } else if !done.is_empty() {
        output::print_report(&format!("{done_word} {}\n", list(&done)));
    }
    match (done.is_empty(), not_done.is_empty()) {
        (_, true) => Status::Done,
        (false, false) => Status::DoneWithProblems,
        (true, false) => Status::Failed,
    }
}

/// The error of a job for which an action has no meaning.
fn not_such(id: i64, says: String) -> Error {
    Error::not_found("job", id.to_string(), says)
        .on_disk("nothing of this job was changed")
        .to_do("see `leafpress queue list`; jobs that are done go, unless the queue keeps them")
}

fn stopped_at(error: Error, done: &[i64], object: Option<Value>, done_word: &str) -> Status {
    if done.is_empty() {
        return output::print_failure_beside(error, object);
    }
    output::print_failure_beside(after_a_part(error, done.len() as u64), object);
    output::print_message(&format!("{done_word} before it: {}\n", list(done)));
    Status::DoneWithProblems
}

fn list(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

/// Removes the jobs in some states.
pub fn purge(flags: &QueuePurgeFlags) -> Status {
    let mut removed = 0;
    let outcome = JobQueue::existing(&flags.place, &flags.common).and_then(|queue| {
        confirm(flags, &queue)?;
        let states = flags.state.iter().map(|state| JobState::from(*state));
        let mut purge = Purge::new().states(states);
        if let Some(age) = flags.older_than {
            purge = purge.older_than(age);
        }
        queue.purge(&purge, &mut removed)
    });
    let text = format!("removed {}", human::counted(removed, "job", "jobs"));
    report_batches(outcome, removed, flags.common.json, "removed", &text)
}

/// Asks before jobs that are neither done nor dead are removed.
fn confirm(flags: &QueuePurgeFlags, queue: &JobQueue) -> Result<()> {
    let is_harmless =
        |state: &QueueStateFlag| matches!(state, QueueStateFlag::Done | QueueStateFlag::Dead);
    let to_be_done = flags.state.iter().filter(|state| !is_harmless(state));
    let states: Vec<String> = to_be_done.map(|state| JobState::from(*state).to_string()).collect();
    if flags.yes || states.is_empty() {
        return Ok(());
    }
    let states = states.join(", ");
    if !io::stdin().is_terminal() || flags.common.json {
        let reason = format!("{states}: these jobs are not done yet, and would be lost");
        return Err(Error::from(ErrorKind::Misuse(reason))
            .on_disk("nothing was changed")
            .to_do("add --yes if that is meant"));
    }
    let name = human::printable(queue.name());
    output::print_message(&format!("remove the jobs of {name} that are {states}? [y/N] "));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match read {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Error::from(ErrorKind::Cancelled).on_disk("nothing was changed")),
    }
}

/// Stops the delivery of jobs.
pub fn pause(flags: &QueueNamedFlags) -> Status {
    set_paused(flags, JobQueue::pause, true)
}

/// Has jobs delivered again.
pub fn resume(flags: &QueueNamedFlags) -> Status {
    set_paused(flags, JobQueue::resume, false)
}

fn set_paused(
    flags: &QueueNamedFlags,
    act: impl FnOnce(&JobQueue) -> Result<()>,
    is_paused: bool,
) -> Status {
    let outcome = JobQueue::existing(&flags.place, &flags.common).and_then(|queue| act(&queue));
    let object = outcome.map(|()| json!({"queue": flags.place.queue, "is_paused": is_paused}));
    output::report(object, flags.common.json, |_| String::new(), |_| Status::Done)
}
