//! `leafpress queue work`: a pool of programs, one for each job.
//!
//! The library has the pool. This file runs a program for each job, with the payload
//! on its stdin, and turns the program's end into the outcome of the job.
//!
//! Must never: lose a job because the worker ends: a job whose program the worker
//! killed for that is given back, not failed.

mod control;
mod output;
mod platform;
mod program;
mod runs;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leafpress::path_text;
use leafpress::queue::{JobContext, Outcome, Payload, Stop, WorkReport};
use leafpress::vfs::sync::lock;
use leafpress::vfs::text::shell_word;
use leafpress::{Error, ErrorKind, Result};
use serde::Serialize;

use self::control::Control;
use self::program::{Ended, EndedFor, Program};
use self::runs::Runs;
use super::place::JobQueue;
use super::waiting::Waiting;
use crate::cluster::name_of;
use crate::exit::Status;
use crate::flags::QueueWorkFlags;
use crate::{human, interrupt, output as messages, summary};

/// Result of a worker, as `--json` shows it.
#[derive(Serialize)]
struct Worked {
    #[serde(flatten)]
    by_runs: WorkReport,
    /// Different jobs among those that were claimed.
    jobs: u64,
    /// Jobs that were due, and could not be claimed, or were not as a signal came first.
    waiting: Option<Waiting>,
    #[serde(skip)]
    by_jobs: WorkReport,
}

/// Works until a signal, or until the flags say that it is done.
pub fn run(flags: &QueueWorkFlags) -> Status {
    let (done, failure) = match work(flags) {
        Ok(outcome) => outcome,
        Err(error) => return messages::print_failure(error, flags.common.json),
    };
    let runs = &done.by_runs;
    if let Some(error) = failure {
        return if runs.claimed > runs.released {
            print_failure_after_jobs(flags, &done, error)
        } else {
            messages::print_failure(error, flags.common.json)
        };
    }
    print_summary(flags, &done);
    let is_bounded = flags.until_empty || flags.max_jobs.is_some();
    messages::report(
        Ok(done),
        flags.common.json,
        |_| String::new(),
        |done| {
            let WorkReport { retried, dead, released, lease_lost, .. } = done.by_jobs;
            let undone = retried + dead + released + lease_lost;
            let is_undone = undone > 0 || done.waiting.is_some();
            if is_bounded && is_undone { Status::DoneWithProblems } else { Status::Done }
        },
    )
}

/// Prints the summary to stderr: programs write to stdout, and it would be noise between their lines.
fn print_summary(flags: &QueueWorkFlags, done: &Worked) {
    if !flags.quiet && !flags.common.json {
        let begin = if may_stand_in_a_line(flags, &done.by_runs) { "\n" } else { "" };
        messages::print_message(&format!("{begin}{}", text_of(done)));
    }
}

/// Reports a failure that came after jobs were run, with the counts of those that are settled.
fn print_failure_after_jobs(flags: &QueueWorkFlags, done: &Worked, error: Error) -> Status {
    print_summary(flags, done);
    let runs = &done.by_runs;
    let settled = runs.done + runs.retried + runs.dead + runs.released + runs.lease_lost;
    let state = match runs.claimed.saturating_sub(settled) {
        0 => "each job that was run is settled".to_owned(),
        unsettled => format!(
            "the jobs that are counted are settled; {} will come again at the end of the lease",
            human::counted(unsettled, "job", "jobs")
        ),
    };
    let object = flags.common.json.then(|| serde_json::json!(done));
    messages::print_failure_beside(error.on_disk_instead(state), object);
    Status::DoneWithProblems
}

fn text_of(done: &Worked) -> String {
    let jobs = summary::of_work(done.by_runs.claimed, &done.by_jobs);
    match &done.waiting {
        Some(waiting) if done.jobs == 0 => waiting.line(),
        Some(waiting) => jobs + &waiting.line(),
        None => jobs,
    }
}

/// True if the last output of a program may stand on the line of a terminal to which the summary
/// goes: a terminal does not tell whether that line was ended.
fn may_stand_in_a_line(flags: &QueueWorkFlags, done: &WorkReport) -> bool {
    let both_are_terminals = io::stdout().is_terminal() && messages::stderr_is_terminal();
    done.claimed > 0 && !flags.keep_output && both_are_terminals
}

/// Works; the failure is one after which no job was claimed any more.
fn work(flags: &QueueWorkFlags) -> Result<(Worked, Option<Error>)> {
    let program = program(flags);
    program.check()?;
    let place = &flags.place;
    let queue = JobQueue::existing_for_long(place, &flags.common, flags.no_shared)?;
    if flags.keep_output {
        refuse_unless_kept(&queue, flags)?;
    }

    warn_of_misplaced(flags);
    let (stop, control) = (Stop::new(), Control::default());
    obey_signals(flags, &stop, &control);
    let mut worker =
        queue.worker().concurrency(flags.concurrency).name(worker_name(flags.worker.as_deref()));
    if let Some(lease) = flags.lease {
        worker = worker.lease(lease);
    }
    if flags.until_empty {
        worker = worker.until_empty();
    }
    if let Some(jobs) = flags.max_jobs {
        worker = worker.jobs_max(jobs);
    }
    let handler = JobHandler {
        flags,
        program,
        stop: &stop,
        control,
        failure: Mutex::default(),
        runs: Mutex::default(),
    };
    let (report, failure) = worker.run_and_count(&stop, |job| handler.handle(job))?;
    let not_run = handler.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    let failure = not_run.or(failure);
    let runs = handler.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let by_jobs = runs.by_jobs(&report);
    let is_at_max = flags.max_jobs.is_some_and(|jobs_max| report.claimed >= jobs_max);
    let is_to_be_empty = flags.until_empty && !is_at_max && failure.is_none();
    let waiting = if is_to_be_empty { left_in(&queue, &stop) } else { None };
    Ok((Worked { by_runs: report, jobs: by_jobs.claimed, waiting, by_jobs }, failure))
}

/// The jobs that a worker left in a queue which it was to empty. They are settled, so a count that
/// fails is no failure of the work.
fn left_in(queue: &JobQueue, stop: &Stop) -> Option<Waiting> {
    let count = if stop.is_asked() { Waiting::after_signal } else { Waiting::of };
    count(queue).unwrap_or_default()
}

/// Warns of flags behind --exec: the program gets them, and most likely all jobs fail by that.
fn warn_of_misplaced(flags: &QueueWorkFlags) {
    let misplaced = flags.misplaced();
    if misplaced.is_empty() || flags.quiet {
        return;
    }
    messages::print_warning(&format!(
        "{} behind --exec: an argument of the program; flags of the worker come before --exec",
        misplaced.join(", ")
    ));
}

/// The output of a program is kept with its job, which goes at once where the queue keeps no
/// done jobs.
fn refuse_unless_kept(queue: &JobQueue, flags: &QueueWorkFlags) -> Result<()> {
    if !queue.settings()?.keep_done.is_zero() {
        return Ok(());
    }
    let (name, database) = (queue.name(), name_of(&flags.place.database));
    let reason = format!(
        "--keep-output keeps what programs print with their jobs, and the queue '{name}' keeps no \
         done jobs"
    );
    Err(Error::from(ErrorKind::Misuse(reason)).on_disk("no job was taken").to_do(format!(
        "let it keep them for a time: leafpress queue settings {} {} --keep-done 7d",
        shell_word(&database),
        shell_word(name)
    )))
}

/// The worker's name in lists, which shows the process that has a job.
pub fn worker_name(given: Option<&str>) -> String {
    given.map_or_else(|| format!("leafpress {}", std::process::id()), str::to_owned)
}

fn program(flags: &QueueWorkFlags) -> Program {
    let words = match &flags.shell {
        Some(line) => vec![OsString::from("sh"), OsString::from("-c"), line.clone()],
        None => flags.exec.clone(),
    };
    Program {
        words,
        folder: flags.chdir.clone(),
        timeout: flags.timeout,
        keeps_output: flags.keep_output,
        stdout_is_ours: flags.common.json,
    }
}

/// Handles signals: the first ends the claiming, the second the programs, the third the worker.
fn obey_signals(flags: &QueueWorkFlags, stop: &Stop, control: &Control) {
    let (stop, control, grace) = (stop.clone(), control.clone(), flags.grace);
    interrupt::on_each_interrupt(2, move |times| {
        let says = if times == 1 {
            stop.now();
            control.end_after(grace);
            "taking no more jobs; again kills those that run"
        } else {
            control.kill();
            "killing the programs and giving their jobs back; again leaves at once"
        };
        if messages::stderr_is_terminal() {
            messages::print_message(&format!("\n{says}\n"));
        }
    });
}

/// Runs the program for each job; all threads of the pool share it.
struct JobHandler<'a> {
    flags: &'a QueueWorkFlags,
    program: Program,
    stop: &'a Stop,
    control: Control,
    /// Failure of the worker itself, which is no job's fault.
    failure: Mutex<Option<Error>>,
    runs: Mutex<Runs>,
}

impl JobHandler<'_> {
    fn handle(&self, job: &JobContext) -> Outcome {
        self.runs().begin(job.id);
        let outcome = match self.program.run(job, &self.control) {
            Ok(ended) => self.judge(job, ended),
            Err(error) => self.not_run(job, error),
        };
        self.runs().end(job, &outcome);
        outcome
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        lock(&self.runs)
    }

    /// Ends the worker: a program that cannot be run is no job's fault, and without this every job
    /// would use up its attempts on it.
    fn not_run(&self, job: &JobContext, error: io::Error) -> Outcome {
        let name = &self.program.words[0];
        if error.kind() == io::ErrorKind::ArgumentListTooLong {
            // The job's texts do not fit into an environment.
            let reason = format!("cannot run {}: {error}", path_text(name));
            self.warn_of_failure(job, "is dead", &reason);
            return Outcome::Dead { reason };
        }
        let advice = platform::advice(&error);
        let mut error = Error::io("run", Path::new(name), error)
            .on_disk("each job that was claimed for it is given back");
        if let Some(advice) = advice {
            error = error.to_do(advice);
        }
        let mut failure = lock(&self.failure);
        failure.get_or_insert(error);
        self.stop.now();
        Outcome::Release
    }

    fn judge(&self, job: &JobContext, ended: Ended) -> Outcome {
        let outcome = outcome(self.flags, ended);
        let (what, says) = match &outcome {
            Outcome::Done if self.flags.keep_output => {
                self.warn_of_lost_output(job);
                return outcome;
            }
            Outcome::Retry { error, .. } => ("failed", error),
            Outcome::Dead { reason } => ("is dead", reason),
            _ => return outcome,
        };
        self.warn_of_failure(job, what, says);
        outcome
    }

    fn warn_of_lost_output(&self, job: &JobContext) {
        if !self.flags.quiet {
            let limit = human::bytes(output::RESULT_BYTES_MAX as u64);
            messages::print_warning(&format!(
                "job {}: its output was not kept: it is longer than {limit}, or something that \
                 the program left behind still holds it",
                job.id
            ));
        }
    }

    fn warn_of_failure(&self, job: &JobContext, what: &str, says: &str) {
        if !self.flags.quiet {
            let first_line = human::cut(says.lines().next().unwrap_or_default(), 120);
            let (id, attempt) = (job.id, job.attempt);
            messages::print_warning(&format!("job {id} {what}, attempt {attempt}: {first_line}"));
        }
    }
}

/// Outcome of a job, from the way its program ended.
fn outcome(flags: &QueueWorkFlags, ended: Ended) -> Outcome {
    let Ended { status, made_to_end_for, said, output } = ended;
    let with_words = |says: String| if said.is_empty() { says } else { format!("{says}\n{said}") };
    match made_to_end_for {
        // The program did not end by itself, so its exit code means nothing.
        Some(EndedFor::Stop | EndedFor::LeaseLost) => return Outcome::Release,
        Some(EndedFor::Timeout) => {
            let time = human::duration(flags.timeout.unwrap_or_default());
            let error = with_words(format!("it ran longer than {time}"));
            return Outcome::Retry { error, delay: None };
        }
        None => {}
    }
    let Some(code) = status.code() else {
        let signal = platform::signal_of(status);
        let by = signal.map_or_else(String::new, |signal| format!(" {signal}"));
        return Outcome::Retry { error: with_words(format!("killed by signal{by}")), delay: None };
    };
    let says = || with_words(format!("exit code {code}"));
    match (code, output) {
        (0, Some(output)) => Outcome::DoneWith(Payload::Bytes(output)),
        (0, None) => Outcome::Done,
        (code, _) if flags.dead_on.iter().any(|dead| i32::from(*dead) == code) => {
            Outcome::Dead { reason: says() }
        }
        _ => Outcome::Retry { error: says(), delay: None },
    }
}
