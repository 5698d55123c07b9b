//! `leafpress queue push`: jobs from arguments, standard input, and lines.
//!
//! 1. Without --batch everything is read and understood before anything is
//!    pushed, and then pushed as one transaction.
//! 2. A payload is bytes: it is never trimmed, decoded or interpreted, but for
//!    the line ends of --lines, and a byte order mark in front of JSON.
//! 3. The answers are printed when their transaction is committed; after a signal, one that has
//!    begun ends first.
//!
//! Must never: wait for a terminal without saying so.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use leafpress::path_text;
use leafpress::queue::{Job, Pushed, UniqueFor};
use leafpress::vfs::locks::FileHandle;
use leafpress::vfs::sync::lock;
use leafpress::{Error, ErrorKind, Result};
use serde_json::json;

use super::database::with_made_queue;
use super::ndjson;
use super::place::JobQueue;
use super::template::{Template, bad_value, without_bom};
use crate::exit::Status;
use crate::flags::{QueuePushFlags, When, usage_error};
use crate::stdin::STDIN_NAME;
use crate::{human, interrupt, output};

/// Read before anything is pushed: more would fill the memory.
const WHOLE_BYTES_MAX: u64 = 1 << 30;

/// Pushes the jobs of the command line or of standard input.
///
/// # Errors
/// The flags contradict one another.
pub fn run(flags: &QueuePushFlags) -> Result<Status, clap::Error> {
    check(flags).map_err(|message| usage_error("queue push", &message))?;
    let so_far = Arc::new(Mutex::new(PushedSoFar::new(flags.common.json)));
    stop_at_signal(&so_far);
    let outcome = push(flags, &so_far);
    Ok(lock(&so_far).report(outcome))
}

/// At a signal, waits for the transaction that has begun, reports, and ends the process: it may wait
/// for input that never comes.
fn stop_at_signal(so_far: &Arc<Mutex<PushedSoFar>>) {
    let so_far = Arc::clone(so_far);
    interrupt::on_interrupt(move || {
        let so_far = Arc::clone(&so_far);
        let stop = move || {
            let mut so_far = lock(&so_far);
            if !so_far.is_reported {
                let stopped = Err(ErrorKind::Cancelled.into());
                std::process::exit(so_far.report(stopped) as i32);
            }
        };
        if thread::Builder::new().spawn(stop).is_err() {
            std::process::exit(Status::Failed as i32);
        }
    });
}

fn check(flags: &QueuePushFlags) -> Result<(), String> {
    let reads_lines = flags.lines || flags.ndjson.is_some();
    let dashes = flags.payloads.iter().filter(|payload| *payload == "-").count();
    let is_stdin = |path: &Path| path.as_os_str() == "-";
    let reads_stdin =
        flags.ndjson.as_deref().map_or(flags.lines || flags.payloads.is_empty(), is_stdin);
    if flags.batch.is_some() && !reads_lines {
        return Err("--batch needs --lines or --ndjson".to_owned());
    }
    if dashes > 1 {
        return Err("- stands for standard input, which can be read once".to_owned());
    }
    if flags.ndjson.is_some() && flags.job.as_json {
        return Err("--ndjson lines say themselves what is JSON; leave out --as-json".to_owned());
    }
    if flags.unique_for.is_some() && flags.unique.is_none() && flags.ndjson.is_none() {
        return Err("--unique-for says how long a key is taken: add --unique KEY".to_owned());
    }
    if reads_stdin && flags.payloads.is_empty() && !reads_lines && io::stdin().is_terminal() {
        return Err("name a payload, or - to type one".to_owned());
    }
    Ok(())
}

/// The jobs that were pushed so far. The answer for each is on stdout as soon as its transaction is
/// committed, and is not kept: there may be more of them than memory.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
struct PushedSoFar {
    as_json: bool,
    /// Jobs with an answer.
    answered: u64,
    /// Those of them that are new.
    new_jobs: u64,
    /// True if the object on stdout is begun.
    is_begun: bool,
    /// False once stdout refused a part: then there is no more to print.
    is_writable: bool,
    is_reported: bool,
}

impl PushedSoFar {
    fn new(as_json: bool) -> Self {
        Self {
            as_json,
            answered: 0,
            new_jobs: 0,
            is_begun: false,
            is_writable: true,
            is_reported: false,
        }
    }

    /// Prints the answers for the jobs of a transaction: each job's number in a line, or the next
    /// elements of the object.
    fn add(&mut self, pushed: &[Pushed]) {
        let mut text = String::new();
        if self.as_json && !self.is_begun {
            self.is_begun = true;
            text.push_str("{\"jobs\":[");
        }
        for it in pushed {
            // Writing to a String cannot fail.
            let _ = if self.as_json {
                let comma = if self.answered > 0 { "," } else { "" };
                write!(text, "{comma}{}", json!({"id": it.id, "is_new": it.is_new}))
            } else {
                writeln!(text, "{}", it.id)
            };
            self.answered += 1;
            self.new_jobs += u64::from(it.is_new);
        }
        self.is_writable = self.is_writable && output::print_part(&text);
    }

    /// Prints all that there is to say at the end.
    fn report(&mut self, outcome: Result<()>) -> Status {
        self.is_reported = true;
        if outcome.is_ok() && self.as_json {
            self.add(&[]);
        }
        let rest = format!("],\"pushed\":{}", self.new_jobs);
        let is_begun = self.is_begun && self.is_writable;
        let there_already = self.answered - self.new_jobs;
        if there_already > 0 && !self.as_json {
            let jobs = human::counted(there_already, "job was", "jobs were");
            output::print_message(&format!(
                "{jobs} not pushed: another with the same unique key is there, whose number is \
                 shown\n"
            ));
        }
        let Err(mut error) = outcome else {
            if is_begun {
                output::print_report(&format!("{rest}}}\n"));
            }
            return Status::Done;
        };
        if self.new_jobs > 0 {
            // What was committed before it stays.
            error = error.on_disk("the jobs that were pushed before it are in the queue");
        }
        let status = if is_begun {
            output::print_failure_within(error, &rest)
        } else {
            output::print_failure(error, self.as_json && self.is_writable)
        };
        if self.new_jobs > 0 { Status::DoneWithProblems } else { status }
    }
}

fn push(flags: &QueuePushFlags, so_far: &Mutex<PushedSoFar>) -> Result<()> {
    let mut template = Template::new(&flags.job);
    template.due = flags.delay.map(When::After).or(flags.due.map(When::At));
    template.expires = flags.expires;
    template.unique.clone_from(&flags.unique);
    template.unique_for = flags.unique_for.unwrap_or(UniqueFor::WaitingOrRunning);

    if let Some(file) = &flags.ndjson {
        let (name, input) = open(file)?;
        return push_lines(flags, so_far, &name, input, |number, line| {
            ndjson::job(&name, number, line, &template)
        });
    }
    if flags.lines {
        return push_lines(flags, so_far, STDIN_NAME, io::stdin().lock(), |number, line| {
            let name = format!("line {number} of {STDIN_NAME}");
            template.job(template.payload(line.to_vec(), &name)?)
        });
    }
    let stdin_alone = ["-".to_owned()];
    let payloads = if flags.payloads.is_empty() { &stdin_alone[..] } else { &flags.payloads };
    let mut jobs = Vec::with_capacity(payloads.len());
    for payload in payloads {
        let (bytes, name) = match payload.as_str() {
            "-" => (read_stdin()?, STDIN_NAME),
            payload => (payload.as_bytes().to_vec(), payload),
        };
        if bytes.is_empty() && payload == "-" {
            return Err(nothing_to_push(flags));
        }
        jobs.push(template.job(template.payload(bytes, &human::cut(name, 60))?)?);
    }
    let mut so_far = lock(so_far);
    so_far.add(&push_all(flags, &jobs)?);
    Ok(())
}

/// The payload of a job is that of standard input, which has none: as where the program before the
/// pipe failed, or in a cron job where a payload stands in the place of the queue's name.
fn nothing_to_push(flags: &QueuePushFlags) -> Error {
    if !flags.payloads.is_empty() {
        return bad_value(STDIN_NAME, "it is empty, and - is the payload that it has")
            .to_do("see to the program that writes it; for a job without a payload write ''");
    }
    let queue = &flags.place.queue;
    bad_value(STDIN_NAME, &format!("it is empty, and no payload for the queue '{queue}' was named"))
        .to_do(
            "name the payload behind the queue: leafpress queue push DB QUEUE PAYLOAD; for a job \
             without one the PAYLOAD is ''",
        )
}

/// Pushes jobs as one transaction; the database and the queue are made if they are missing.
fn push_all(flags: &QueuePushFlags, jobs: &[Job]) -> Result<Vec<Pushed>> {
    let place = &flags.place;
    if let Some(queue) = JobQueue::made_on_cluster(place, &flags.common) {
        return queue?.push_many(jobs.iter().cloned());
    }
    with_made_queue(&place.database, &place.queue, &flags.common, |queue| {
        queue.push_many(jobs.iter().cloned())
    })
}

fn read_stdin() -> Result<Vec<u8>> {
    if io::stdin().is_terminal() && output::stderr_is_terminal() {
        output::print_message("reading the payload from the terminal; end it with ctrl-D\n");
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(WHOLE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|source| not_read(STDIN_NAME, source))?;
    if bytes.len() as u64 > WHOLE_BYTES_MAX {
        return Err(bad_value(STDIN_NAME, "a payload can have 1 GiB at most"));
    }
    Ok(bytes)
}

fn not_read(name: &str, source: io::Error) -> Error {
    Error::io("read", Path::new(name), source)
}

/// Opens an input; returns its name for messages and its reader.
fn open(path: &Path) -> Result<(String, Box<dyn BufRead>)> {
    if path.as_os_str() == "-" {
        return Ok((STDIN_NAME.to_owned(), Box::new(io::stdin().lock())));
    }
    let name = path_text(path);
    let file = FileHandle::open(path).map_err(|source| {
        not_read(&name, source).on_disk("nothing was pushed").to_do("name a file that you may read")
    })?;
    Ok((name, Box::new(BufReader::with_capacity(1 << 16, file))))
}

/// Makes jobs of lines and pushes them, all at once or batch by batch.
fn push_lines(
    flags: &QueuePushFlags,
    so_far: &Mutex<PushedSoFar>,
    name: &str,
    mut input: impl BufRead,
    mut job_of: impl FnMut(u64, &[u8]) -> Result<Job>,
) -> Result<()> {
    let batch_jobs_max = flags.batch.map_or(usize::MAX, |jobs| jobs as usize);
    let mut queue: Option<JobQueue> = None;
    let mut send = |jobs: &mut Vec<Job>| -> Result<()> {
        let jobs = std::mem::take(jobs);
        let mut so_far = lock(so_far);
        if let Some(queue) = &queue {
            if !jobs.is_empty() {
                so_far.add(&queue.push_many(jobs)?);
            }
            return Ok(());
        }
        so_far.add(&push_all(flags, &jobs)?);
        if flags.batch.is_some() {
            let (place, is_alone) = (&flags.place, flags.no_shared);
            queue = Some(JobQueue::existing_for_long(place, &flags.common, is_alone)?);
        }
        Ok(())
    };
    let (mut jobs, mut line, mut number, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line).map_err(|source| not_read(name, source))?;
        if read == 0 {
            return send(&mut jobs);
        }
        (number, bytes) = (number + 1, bytes + read as u64);
        let content = line.strip_suffix(b"\n").unwrap_or(&line);
        if number == 1 && flags.lines && !flags.job.as_json {
            note_what_windows_adds(content);
        }
        if content.is_empty() || (flags.ndjson.is_some() && content.trim_ascii().is_empty()) {
            continue;
        }
        let made = job_of(number, content);
        jobs.push(made.map_err(|error| error.on_disk(in_front(&lock(so_far))))?);
        if jobs.len() >= batch_jobs_max {
            send(&mut jobs)?;
            bytes = 0;
        }
        if bytes > WHOLE_BYTES_MAX {
            return Err(bad_value(
                name,
                "it is longer than 1 GiB, which is the most for one transaction",
            )
            .to_do("push it in several with --batch 10000"));
        }
    }
}

/// Says of the first line what programs of Windows add to lines, which becomes a part of payloads.
fn note_what_windows_adds(line: &[u8]) {
    let says = if without_bom(line).len() < line.len() {
        "the first line begins with a byte order mark (BOM), which is a part of its payload"
    } else if line.ends_with(b"\r") {
        "lines end with CR LF, and the CR is a part of the payloads; to take it away: tr -d '\\r'"
    } else {
        return;
    };
    output::print_message(&output::note(&format!("{STDIN_NAME}: {says}")));
}

fn in_front(so_far: &PushedSoFar) -> String {
    match so_far.answered {
        0 => "nothing was pushed".to_owned(),
        jobs => format!("the batches before it, {}", human::counted(jobs, "job", "jobs")),
    }
}
