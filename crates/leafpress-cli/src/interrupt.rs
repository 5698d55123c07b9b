//! Ctrl-C, SIGTERM and SIGHUP end the work. The first asks the work to stop and clean up, the
//! second leaves at once.
//!
//! A signal that the process ignores from its start stays ignored: `nohup` wants that of SIGHUP, and
//! a shell of SIGINT for the commands that a script runs in the background.
//!
//! Must never: touch files itself. The code that does the work removes its own
//! unfinished files; the next load removes those that a second ctrl-C leaves.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[cfg(unix)]
use leafpress::vfs::signals::is_ignored;

use crate::exit::Status;
use crate::output;

/// A signal that comes again this soon is the same request: `timeout` sends it to the process, and at
/// once to the process's group.
const SAME_REQUEST_WITHIN: Duration = Duration::from_millis(100);

/// A flag that is set at the first signal; the second ends the process.
pub fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    on_interrupt(move || raised.store(true, Ordering::Relaxed));
    flag
}

/// Calls `stop` at the first signal, and ends the process at the second.
pub fn on_interrupt(stop: impl Fn() + Send + 'static) {
    on_each_interrupt(1, move |_| {
        stop();
        if output::stderr_is_terminal() {
            output::print_message("\nstopping and cleaning up; ctrl-C again leaves at once\n");
        }
    });
}

/// Calls `act` with 1 at the first signal, with 2 at the second, up to
/// `times_max`, and ends the process at the next.
pub fn on_each_interrupt(times_max: u32, act: impl Fn(u32) + Send + 'static) {
    let mut times = 0;
    let mut last: Option<(i32, Instant)> = None;
    let handler = move |signal| {
        if last.is_some_and(|(it, at)| it == signal && at.elapsed() < SAME_REQUEST_WITHIN) {
            return;
        }
        last = Some((signal, Instant::now()));
        times += 1;
        if times > times_max {
            std::process::exit(Status::Failed as i32);
        }
        act(times);
    };
    // Where no handler can be set, a signal ends the process as it always
    // does, and the next load removes the temporary file.
    if let Err(error) = listen(handler) {
        output::print_warning(&format!("ctrl-C will end this without cleaning up: {error}"));
    }
}

#[cfg(unix)]
fn listen(handler: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let ending = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal));
    let mut signals = signal_hook::iterator::Signals::new(ending)?;
    let listen = move || signals.forever().for_each(handler);
    std::thread::Builder::new().name("leafpress-signals".to_owned()).spawn(listen)?;
    Ok(())
}

#[cfg(not(unix))]
fn listen(mut handler: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    // It does not tell which signal came.
    ctrlc::set_handler(move || handler(0)).map_err(io::Error::other)
}

/// Lets a write beyond the limit on the size of files (`ulimit -f`) fail with an error, which says so
/// and leaves nothing behind: SIGXFSZ would end the process there.
///
/// The signal gets a handler; if it were ignored, programs that this one starts would ignore it too.
#[cfg(unix)]
pub fn survive_file_size_limit() {
    use signal_hook::consts::SIGXFSZ;

    if !is_ignored(SIGXFSZ) {
        // Without it the signal ends the process, as it always does.
        handle_without_an_act(SIGXFSZ);
    }
}

/// Does nothing: the system has no such signal.
#[cfg(not(unix))]
pub fn survive_file_size_limit() {}

/// Lets the process learn how programs end that it starts: where what started the process ignores
/// SIGCHLD, the system would not keep that.
#[cfg(unix)]
pub fn learn_how_programs_end() {
    use signal_hook::consts::SIGCHLD;

    if is_ignored(SIGCHLD) {
        handle_without_an_act(SIGCHLD);
    }
}

/// Does nothing: the system has no such signal.
#[cfg(not(unix))]
pub fn learn_how_programs_end() {}

#[cfg(unix)]
fn handle_without_an_act(signal: i32) {
    let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
}
