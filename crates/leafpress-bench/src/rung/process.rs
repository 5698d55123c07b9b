//! A rung in a process of its own, so that processor time and peak memory are the rung's alone.
//!
//! The experiment starts the process and reads its answer; the process hands its request to
//! [`run_rung_line`] and prints the answer as one line. Only the work is timed: neither the start
//! of the process nor the making of what both rivals are given.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use leafpress::vfs;

use super::kind::RungKind;
use super::request::{RUNG_FLAG, Request};
use super::result::{RungResult, SimulatedWork};
use crate::error::{Error, Result};

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

/// Runs a rung in a process of its own; `rests` lets the disk come to rest before.
pub(crate) fn run_in_child(request: &RungRequest, rests: bool) -> Result<RungResult> {
    let name = request.kind.name();
    let mut command = request.command(&name)?;
    if rests {
        let_the_disk_rest(request.kind.rest());
    }
    let output = command.output().map_err(Error::io("start", Path::new(command.get_program())))?;
    if was_interrupted(output.status) {
        // Ctrl-C goes to both, and the child may be gone before our own handler has run.
        return Err(Error::Cancelled);
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::rung(name, format!("{}\n{}", output.status, said.trim_end())));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| Error::rung(name, error.to_string()))
}

/// Waits until the disk has written what the rung before left: a rival that syncs nothing leaves
/// a gigabyte, which must not slow the next rung.
fn let_the_disk_rest(rest: Duration) {
    #[cfg(target_os = "linux")]
    rustix::fs::sync();
    std::thread::sleep(rest);
}

/// Returns true if a process died of ctrl-C.
#[cfg(unix)]
fn was_interrupted(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    // The number of SIGINT, which POSIX gives.
    const INTERRUPT: i32 = 2;
    status.signal() == Some(INTERRUPT)
}

/// Returns true if a process died of ctrl-C: its status does not tell here.
#[cfg(not(unix))]
fn was_interrupted(_status: ExitStatus) -> bool {
    false
}
