//! Ctrl-C and SIGTERM: the first asks the work to stop and clean up, the
//! second leaves at once.
//!
//! Must never: touch files itself. Whoever does the work removes what it
//! began; what a second ctrl-C leaves lying is removed by the next load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let asked_before = AtomicBool::new(false);
    let handler = move || {
        if asked_before.swap(true, Ordering::Relaxed) {
            std::process::exit(Status::Failed as i32);
        }
        stop();
        if output::stderr_is_terminal() {
            output::print_message("\nstopping and cleaning up; ctrl-C again leaves at once\n");
        }
    };
    // Where no handler can be set, a signal ends the process as it always
    // does, and the next load removes the temporary file.
    if let Err(error) = ctrlc::set_handler(handler) {
        output::print_warning(&format!("ctrl-C will end this without cleaning up: {error}"));
    }
}
