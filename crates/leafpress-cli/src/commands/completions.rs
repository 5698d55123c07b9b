//! `leafpress completions`: a completion script, made from the flags.
//!
//! Must never: install anything; the shell's folders are its user's.

use clap::CommandFactory as _;

use crate::exit::Status;
use crate::flags::{CompletionsFlags, Flags};
use crate::output;

/// Prints the script for one shell.
pub fn run(flags: &CompletionsFlags) -> Status {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Flags::command(), "leafpress", &mut script);
    output::print_result(&String::from_utf8_lossy(&script))
}
