//! A rung in a process of its own, so that processor time and peak memory are the rung's alone.
//!
//! The experiment starts the process and reads its answer; the process hands its request to
//! [`run_rung_line`] and prints the answer as one line. Only the work is timed: neither the start
//! of the process nor the making of what both rivals are given.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use leafpress::vfs;

use super::kind::RungKind;
use super::request::{RUNG_FLAG, Request};
use super::result::{RungResult, SimulatedWork};
use crate::error::{Error, Result};

/// Longest time until a request to stop is seen while a rung runs.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Request to the process of any rung.
pub(crate) type RungRequest = Request<RungKind>;

/// Runs a rung: in a process of its own, except in tests.
pub(crate) type Runner<'a> = &'a mut dyn FnMut(&RungRequest) -> Result<RungResult>;

/// Does the work of a rung's process: takes its request as JSON, and gives the result as one
/// line of JSON.
///
/// # Errors
/// If the request does not parse, or the work fails; the database may then be there, half made,
/// for the caller to remove.
pub fn run_rung_line(request: &str) -> Result<String> {
    let request: RungRequest = serde_json::from_str(request)
        .map_err(|error| Error::Usage(format!("{RUNG_FLAG} {request}: {error}")))?;
    let result = run_rung(&request)?;
    serde_json::to_string(&result)
        .map_err(|error| Error::rung(request.kind.name(), error.to_string()))
}

/// Does the work in this process and measures it.
///
/// A simulated disk stays to the end of the process, so that only a rung's own process may be
/// asked for it.
///
/// # Errors
/// If the work fails; the database may then be there, half made.
pub(crate) fn run_rung(request: &RungRequest) -> Result<RungResult> {
    // Before anything is opened: the simulation does not slow what is open already.
    let disk = match &request.simulate {
        Some(name) => Some(vfs::simulate(name.parse()?)?),
        None => None,
    };
    let result = request.kind.run(&request.given())?;
    let played = disk.map(|disk| {
        let stats = disk.stats();
        SimulatedWork {
            syncs: stats.syncs,
            late_syncs: stats.late_syncs,
            busy_s: stats.busy.as_secs_f64(),
            late_s: stats.late.as_secs_f64(),
        }
    });
    // The processes that it started answered theirs.
    let played = played.into_iter().chain(result.played).reduce(SimulatedWork::plus);
    Ok(RungResult { played, ..result })
}

/// Runs a rung in a process of its own; `rests` lets the disk come to rest before. Once `cancel` is set,
/// the process is killed, with those that it started.
pub(crate) fn run_in_child(
    request: &RungRequest,
    rests: bool,
    cancel: &AtomicBool,
) -> Result<RungResult> {
    let name = request.kind.name();
    let mut command = request.command(&name)?;
    if rests {
        let_the_disk_rest(request.kind.rest());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = command.spawn();
    let child = child.map_err(Error::io("start", Path::new(command.get_program())))?;
    let output = output_unless(cancel, child)?;
    if was_stopped(output.status) {
        // What ends all programs at once, such as a shutdown, ends this one too.
        return Err(Error::Cancelled);
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::rung(name, format!("{}\n{}", output.status, said.trim_end())));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| Error::rung(name, error.to_string()))
}

/// Waits for the end of a process, and kills it once `cancel` is set.
fn output_unless(cancel: &AtomicBool, mut child: Child) -> Result<Output> {
    let (stdout, stderr) = (read_aside(child.stdout.take()), read_aside(child.stderr.take()));
    let failed = |error: io::Error| Error::rung("a rung's process", error.to_string());
    let stdout = loop {
        match stdout.recv_timeout(LOOK_INTERVAL) {
            Err(RecvTimeoutError::Timeout) if cancel.load(Ordering::Relaxed) => {
                kill_all_of(&mut child);
                child.wait().map_err(failed)?;
                return Err(Error::Cancelled);
            }
            Err(RecvTimeoutError::Timeout) => {}
            said => break said.unwrap_or_default(),
        }
    };
    let status = child.wait().map_err(failed)?;
    Ok(Output { status, stdout, stderr: stderr.recv().unwrap_or_default() })
}

/// All bytes of a pipe, once it is closed.
fn read_aside(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, all) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is told.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        sender.send(bytes)
    });
    all
}

/// Kills a process, and on Unix all that it started.
fn kill_all_of(child: &mut Child) {
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        // It may be gone already.
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }
    let _ = child.kill();
}

/// Waits until the disk has written what the rung before left: a rival that syncs nothing leaves
/// a gigabyte, which must not slow the next rung.
fn let_the_disk_rest(rest: Duration) {
    #[cfg(target_os = "linux")]
    rustix::fs::sync();
    std::thread::sleep(rest);
}

/// Returns true if a process died of a signal that asks programs to end.
#[cfg(unix)]
fn was_stopped(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    // SIGHUP, SIGINT and SIGTERM, by the numbers that POSIX gives.
    matches!(status.signal(), Some(1 | 2 | 15))
}

/// Returns true if a process died of being asked to end: its status does not tell here.
#[cfg(not(unix))]
fn was_stopped(_status: ExitStatus) -> bool {
    false
}
