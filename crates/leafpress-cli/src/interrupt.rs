//! Ctrl-C and SIGTERM end the work. The first asks the work to stop and clean up, the second
//! leaves at once.
//!
//! Must never: touch files itself. The code that does the work removes its own
//! unfinished files; the next load removes those that a second ctrl-C leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::exit::Status;
use crate::output;

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
    let times = AtomicU32::new(0);
    let handler = move || {
        let time = times.fetch_add(1, Ordering::Relaxed) + 1;
        if time > times_max {
            std::process::exit(Status::Failed as i32);
        }
        act(time);
    };
    // Where no handler can be set, a signal ends the process as it always
    // does, and the next load removes the temporary file.
    if let Err(error) = ctrlc::set_handler(handler) {
        output::print_warning(&format!("ctrl-C will end this without cleaning up: {error}"));
    }
}
