//! `leafpress queue claim`, `ack`, `nack`, `fail`, `release`, `extend`: a job by hand.
//!
//! A token names its job, and so its queue; none of these needs the queue's name
//! but `claim`.
//!
//! Must never: keep a claimed job whose token could not be printed.

use std::io::Write as _;
use std::time::Duration;

use leafpress::queue::{Claim, ClaimOptions, Nack, Payload, Retry, Token};
use leafpress::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::database::Database;
use super::json::{ClaimObject, Jobs};
use super::place::JobQueue;
use super::waiting::Waiting;
use super::work::worker_name;
use crate::cluster::url_of;
use crate::exit::Status;
use crate::flags::{
    QueueAckFlags, QueueClaimFlags, QueueCommonFlags, QueueExtendFlags, QueueFailFlags,
    QueueNackFlags, QueueReleaseFlags, usage_error,
};
use crate::{human, output};

/// Claims jobs, and prints their tokens and payloads.
pub fn claim(flags: &QueueClaimFlags) -> Status {
    let outcome = JobQueue::existing(&flags.place, &flags.common)
        .and_then(|queue| Ok((queue.claim_with(&claim_options(flags))?, queue)));
    let (claims, queue) = match outcome {
        Ok(claimed) => claimed,
        Err(error) => return output::print_failure(error, flags.common.json),
    };
    if let Err(error) = print_claims(&claims, flags.common.json) {
        output::print_error(&format!("cannot write to stdout: {error}; the jobs are given back"));
        for claim in &claims {
            // A job that cannot be given back comes again after its lease.
            let _ = queue.release(claim.token);
        }
        return Status::Failed;
    }
    if !claims.is_empty() {
        return Status::Done;
    }
    // The status says that there was no job; a count that fails changes nothing about that.
    if let Ok(Some(waiting)) = Waiting::of(&queue) {
        output::print_message(&waiting.line());
    }
    Status::DoneWithProblems
}

fn claim_options(flags: &QueueClaimFlags) -> ClaimOptions {
    let options = ClaimOptions::new()
        .jobs_max(flags.count as usize)
        .worker(worker_name(flags.worker.as_deref()));
    let options = match flags.lease {
        Some(lease) => options.lease(lease),
        None => options,
    };
    match flags.wait {
        Some(wait) => options.wait(wait.unwrap_or(Duration::MAX)),
        None => options,
    }
}

/// Prints the tokens. Unlike with a report, it is an error if stdout's reader has gone.
fn print_claims(claims: &[Claim], as_json: bool) -> std::io::Result<()> {
    let text: String = if as_json {
        let jobs = claims.iter().map(ClaimObject::from).collect();
        format!("{}\n", serde_json::to_string(&Jobs { jobs })?)
    } else {
        claims.iter().map(line_of).collect()
    };
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn line_of(claim: &Claim) -> String {
    let payload = String::from_utf8_lossy(claim.payload.as_bytes());
    // A tab ends the token.
    let payload = human::printable(&payload).replace('\t', "\\t");
    format!("{}\t{payload}\n", claim.token)
}

/// Acknowledges jobs as done.
///
/// # Errors
/// `--result` was given with several tokens.
pub fn ack(flags: &QueueAckFlags) -> Result<Status, clap::Error> {
    if flags.result.is_some() && flags.tokens.len() > 1 {
        return Err(usage_error("queue ack", "--result is for one token"));
    }
    let answers =
        JobQueue::any(&flags.database, &flags.common).and_then(|queue| match &flags.result {
            Some(result) => {
                let result = Payload::bytes(result.as_bytes());
                let is_kept = keeps_results(flags)?;
                queue.ack_with(flags.tokens[0], result).map(|()| {
                    if !is_kept {
                        output::print_warning(RESULT_NOT_KEPT);
                    }
                    vec![Ok(())]
                })
            }
            None => queue.ack_many(&flags.tokens),
        });
    Ok(match answers {
        Ok(answers) => print_acks(flags, answers),
        Err(error) => output::print_failure(error, flags.common.json),
    })
}

const RESULT_NOT_KEPT: &str = "the result is not kept, as the queue keeps no done jobs; let it \
                               keep them with: leafpress queue settings DB QUEUE --keep-done 7d";

/// Returns true if the queue of the job keeps its result.
fn keeps_results(flags: &QueueAckFlags) -> Result<bool> {
    if url_of(&flags.database).is_some() {
        // A token of a cluster does not lead to its queue.
        return Ok(true);
    }
    let database = Database::existing(&flags.database, &flags.common)?;
    match database.queue_of(flags.tokens[0].job)? {
        Some(queue) => Ok(!queue.settings()?.keep_done.is_zero()),
        // The answer to the token says what is wrong.
        None => Ok(true),
    }
}

fn print_acks(flags: &QueueAckFlags, answers: Vec<Result<()>>) -> Status {
    let all = answers.len();
    let mut refused = Vec::new();
    for (token, answer) in flags.tokens.iter().zip(answers) {
        if let Err(error) = answer {
            refused.push((*token, error));
        }
    }
    if all == 1
        && let Some((_, error)) = refused.pop()
    {
        return output::print_failure(error, flags.common.json);
    }
    let object = flags.common.json.then(|| {
        let why = |(token, error): &(Token, Error)| json!({"token": token, "why": why(error)});
        let each: Vec<Value> = refused.iter().map(why).collect();
        json!({"acked": all - refused.len(), "refused": each})
    });
    for (_, error) in &refused {
        output::print_error(&error.kind().to_string());
    }
    let status = match refused.len() {
        0 => Status::Done,
        refused if refused < all => Status::DoneWithProblems,
        _ => Status::Failed,
    };
    if let Some(object) = object {
        output::print_json_beside(object, refused.into_iter().next().map(|(_, error)| error));
    }
    status
}

fn why(error: &Error) -> Value {
    match error.kind() {
        ErrorKind::LeaseLost { why, .. } => json!(why),
        ErrorKind::NoSuchClaim { .. } => json!("no_such_claim"),
        other => json!(other.to_string()),
    }
}

/// Gives a job back that failed, to be tried again.
pub fn nack(flags: &QueueNackFlags) -> Status {
    let mut nack = Nack::new();
    if let Some(error) = &flags.error {
        nack = nack.error(error);
    }
    if let Some(delay) = flags.delay {
        nack = nack.delay(delay);
    }
    let retry = JobQueue::any(&flags.database, &flags.common)
        .and_then(|queue| queue.nack(flags.token, nack))
        .map(|retry| match retry {
            Retry::At { due_at } => json!({"retried": true, "due_at_ms": due_at}),
            Retry::Dead => json!({"retried": false}),
        });
    let text = |answer: &Value| {
        let is_retried = answer["retried"] == true;
        let says = if is_retried {
            "is tried again"
        } else {
            "is dead: that was its last attempt, or it has expired"
        };
        format!("job {} {says}\n", flags.token.job)
    };
    output::report(retry, flags.common.json, text, |_| Status::Done)
}

/// Moves a job that can never be done to the dead ones.
pub fn fail(flags: &QueueFailFlags) -> Status {
    let failed = JobQueue::any(&flags.database, &flags.common)
        .and_then(|queue| queue.fail(flags.token, &flags.reason));
    settled(failed, flags.token, &flags.common)
}

/// Gives a job back as if it had never been claimed.
pub fn release(flags: &QueueReleaseFlags) -> Status {
    let released =
        JobQueue::any(&flags.database, &flags.common).and_then(|queue| queue.release(flags.token));
    settled(released, flags.token, &flags.common)
}

fn settled(outcome: Result<()>, token: Token, common: &QueueCommonFlags) -> Status {
    let object = outcome.map(|()| json!({ "id": token.job }));
    output::report(object, common.json, |_| String::new(), |_| Status::Done)
}

/// Extends the lease of a job.
pub fn extend(flags: &QueueExtendFlags) -> Status {
    let object = JobQueue::any(&flags.database, &flags.common)
        .and_then(|queue| queue.extend(flags.token, flags.lease))
        .map(|until| json!({"id": flags.token.job, "lease_until_ms": until}));
    output::report(object, flags.common.json, |_| String::new(), |_| Status::Done)
}
