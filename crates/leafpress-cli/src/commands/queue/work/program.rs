//! One program for one job: started, fed, watched, ended in time.
//!
//! ```text
//! payload ─► stdin │ program │ stdout ─► ours, or kept
//!                  │         │ stderr ─► ours, and its end kept
//! events: it exited, its lease is lost, the grace ends, kill it, its time is up
//! ```
//!
//! Must never: hand anything of a job to a shell, or take a payload for
//! anything but bytes.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use leafpress::queue::{JobContext, Payload};
use leafpress::{Error, path_text};

use super::control::{Control, Event};
use super::output::{self, Collected};
use super::platform::Process;

/// Time between the request to end and the end by force.
const TERMINATE_FOR: Duration = Duration::from_secs(5);
/// Bytes that fit into the smallest possible pipe, so that writing them needs no thread.
const PIPE_BYTES_MIN: usize = 4_096;
const VARIABLES: &str = "LEAFPRESS_JOB_";

/// A program and how to run it.
pub struct Program {
    pub words: Vec<OsString>,
    pub folder: Option<PathBuf>,
    pub timeout: Option<Duration>,
    pub keeps_output: bool,
    /// True if the worker prints its own result to stdout.
    pub stdout_is_ours: bool,
}

/// Reason for which a program was made to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedFor {
    Timeout,
    LeaseLost,
    Stop,
}

/// End of a program.
pub struct Ended {
    pub status: ExitStatus,
    /// Reason for which the worker ended it, if it did.
    pub made_to_end_for: Option<EndedFor>,
    /// The last lines of its stderr.
    pub said: String,
    /// Its stdout, if it was to be kept and is not too long.
    pub output: Option<Vec<u8>>,
}

impl Program {
    /// Refuses a program that cannot be started, as far as that is known beforehand.
    pub fn check(&self) -> leafpress::Result<()> {
        let refuse = |reason: String, advice: &str| {
            Err(Error::misuse(reason).on_disk("no job was taken").to_do(advice))
        };
        if let Some(folder) = self.folder.as_deref().filter(|folder| !folder.is_dir()) {
            let reason = format!("--chdir {}: there is no such folder", path_text(folder));
            return refuse(reason, "name a folder that is there");
        }
        let name = Path::new(&self.words[0]);
        let is_there = if name.components().count() > 1 {
            self.folder.as_deref().unwrap_or(Path::new("")).join(name).is_file()
        } else {
            // Without PATH, the system looks in folders of its own.
            let Some(folders) = std::env::var_os("PATH") else { return Ok(()) };
            let mut file = name.as_os_str().to_owned();
            file.push(std::env::consts::EXE_SUFFIX);
            std::env::split_paths(&folders)
                .any(|folder| folder.join(name).is_file() || folder.join(&file).is_file())
        };
        if is_there {
            return Ok(());
        }
        let advice = "check its name and the folders of PATH, or give its path; a line for the \
                      shell is for --shell";
        refuse(format!("there is no program {}", path_text(name)), advice)
    }

    /// Runs the program to its end.
    pub fn run(&self, job: &JobContext, control: &Control) -> io::Result<Ended> {
        let (sender, events) = channel();
        let mut process = Process::start(&mut self.command(job), sender.clone(), events)?;
        let _listening = control.listen(sender.clone());
        job.on_lease_lost(move || {
            // The job has ended, and its listener with it.
            let _ = sender.send(Event::LeaseLost);
        });
        let pipes = Pipes::connect(&mut process, job);
        if pipes.is_err() {
            process.kill();
        }
        let made_to_end_for = self.watch(&mut process);
        if made_to_end_for.is_some() {
            // Kills the children that the program left behind in its group.
            process.kill();
        }
        let status = process.reap()?;
        let pipes = pipes?;
        let said = pipes.stderr.and_then(|it| it.get()).unwrap_or_default();
        let output = pipes.stdout.and_then(|it| it.get()).flatten();
        Ok(Ended { status, made_to_end_for, said, output })
    }

    fn command(&self, job: &JobContext) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::piped()).stderr(Stdio::piped());
        command.stdout(match (self.keeps_output, self.stdout_is_ours) {
            (true, _) => Stdio::piped(),
            (false, true) => Stdio::from(io::stderr()),
            (false, false) => Stdio::inherit(),
        });
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        // Another worker may run this worker: its variables are not for our programs.
        let inherited = std::env::vars_os().map(|(name, _)| name);
        let is_ours = |name: &OsString| name.as_encoded_bytes().starts_with(VARIABLES.as_bytes());
        for name in inherited.filter(|name| is_ours(name)) {
            command.env_remove(name);
        }
        for (name, value) in variables(job) {
            // No variable can hold it; the program sees that it is missing.
            if !value.contains('\0') {
                command.env(format!("{VARIABLES}{name}"), value);
            }
        }
        command
    }

    /// Waits until the program has ended, and ends it when its time is up.
    fn watch(&self, process: &mut Process) -> Option<EndedFor> {
        let times_out_at = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut deadline = times_out_at.map(|at| (at, EndedFor::Timeout));
        let mut ended_for = None;
        let mut kill_at = None;
        loop {
            let next = kill_at.or(deadline.map(|(at, _)| at));
            let reason = match process.next_event(next) {
                Some(Event::Exited) => return ended_for,
                Some(Event::GraceEnds(at)) => {
                    if deadline.is_none_or(|(timeout, _)| at < timeout) {
                        deadline = Some((at, EndedFor::Stop));
                    }
                    continue;
                }
                Some(Event::Kill) => {
                    process.kill();
                    ended_for.get_or_insert(EndedFor::Stop);
                    continue;
                }
                Some(Event::LeaseLost) => EndedFor::LeaseLost,
                None if kill_at.is_some() => {
                    process.kill();
                    // The program ends now: wait for that alone.
                    (kill_at, deadline) = (None, None);
                    continue;
                }
                None => deadline.map_or(EndedFor::Timeout, |(_, reason)| reason),
            };
            if ended_for.is_none() {
                ended_for = Some(reason);
                process.terminate();
                kill_at = Some(Instant::now() + TERMINATE_FOR);
            }
            deadline = None;
        }
    }
}

fn variables(job: &JobContext) -> Vec<(&'static str, String)> {
    let claim = job.claim();
    let mut variables = vec![
        ("ID", claim.id.to_string()),
        ("TOKEN", claim.token.to_string()),
        ("QUEUE", claim.queue.clone()),
        ("ATTEMPT", claim.attempt.to_string()),
        ("ATTEMPTS_MAX", claim.attempts_max.to_string()),
        ("PRIORITY", claim.priority.to_string()),
    ];
    let optional = [
        ("GROUP", &claim.group),
        ("CORRELATION_ID", &claim.correlation_id),
        ("METADATA", &claim.metadata),
    ];
    variables.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    variables
}

/// Our ends of a program's pipes.
struct Pipes {
    stderr: Option<Collected<String>>,
    stdout: Option<Collected<Option<Vec<u8>>>>,
}

impl Pipes {
    fn connect(process: &mut Process, job: &JobContext) -> io::Result<Self> {
        let child = &mut process.child;
        let stderr = child.stderr.take().map(output::pass_on).transpose()?;
        let stdout = child.stdout.take().map(output::keep).transpose()?;
        if let Some(stdin) = child.stdin.take() {
            let payload = match &job.claim().payload {
                Payload::Bytes(bytes) => &bytes[..],
                Payload::Json(text) => text.as_bytes(),
            };
            feed(stdin, payload)?;
        }
        Ok(Self { stderr, stdout })
    }
}

/// Writes the payload and closes the pipe. A program that does not read it to
/// its end is free to do so.
fn feed(mut stdin: ChildStdin, payload: &[u8]) -> io::Result<()> {
    if payload.len() <= PIPE_BYTES_MIN {
        let _ = stdin.write_all(payload);
        return Ok(());
    }
    let payload = payload.to_vec();
    let thread = std::thread::Builder::new().name("leafpress-stdin".to_owned());
    thread.spawn(move || {
        let _ = stdin.write_all(&payload);
    })?;
    Ok(())
}
