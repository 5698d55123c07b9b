//! `leafpress`, the command, as a library: [`run`] reads the flags, runs one command, and gives the
//! exit status. The executable and the Python package call it.
//!
//! The map: `flags` is the one definition of the command line; each file in
//! `commands` runs one command; `io_report` does the work of `leafpress io`;
//! `loading` is shared by the commands that load files;
//! `summary` turns a command's result into text with the shapes of `human`;
//! `output` writes results and messages; `progress` draws on a terminal;
//! `interrupt` and `stdin` let ctrl-C stop the work; `cluster` tells the URL of a
//! cluster from a path; `exit` knows what the exit statuses mean.
//!
//! Must never: do what a user of the library needs too (that is the library's), panic on bad
//! input or on a closed pipe, or write anything but results to stdout.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod cluster;
mod commands;
mod exit;
mod flags;
mod human;
mod interrupt;
mod io_report;
mod loading;
mod output;
mod progress;
mod stdin;
mod summary;

use std::ffi::OsString;

pub use leafpress_bench::rung::start_by;

#[cfg(not(feature = "rqlite"))]
pub use crate::cluster::unreachable;
pub use crate::cluster::{shown, url_of};
pub use crate::commands::load::both::Outcome;
#[cfg(feature = "rqlite")]
pub use crate::commands::load::cluster::ClusterLoad;
pub use crate::flags::as_flag;
pub use crate::loading::paths::files_of;

use crate::exit::Status;
use crate::flags::{Command, Flags};

/// Runs the command to its end, and gives its exit status, 0 to 3. The first argument is the
/// name of the program. Advice names options of the library by `spelling`.
///
/// For a process of its own: results go to its stdout and messages to its stderr, and signals that
/// end it get handlers. A second ctrl-C ends the process at once.
pub fn run(arguments: &[OsString], spelling: leafpress::Spelling) -> u8 {
    // Before the first connection, also of the rivals that a benchmark plays. What is refused
    // leaves SQLite as it is.
    let _ = leafpress::vfs::locks::install();
    leafpress::spell_options(spelling);
    interrupt::survive_file_size_limit();
    interrupt::learn_how_programs_end();
    // Before the first thread: one that has a heap keeps it.
    leafpress::vfs::memory::one_heap_where_limited();
    let status = match Flags::read(arguments) {
        Ok(flags) => run_command(&flags.command, arguments),
        Err(error) => Err(error),
    };
    status.unwrap_or_else(|error| refuse(&error, arguments)) as u8
}

fn run_command(command: &Command, arguments: &[OsString]) -> Result<Status, clap::Error> {
    match command {
        Command::Load(flags) => commands::load::run(flags),
        Command::Bench(flags) => Ok(commands::bench::run(flags, arguments)),
        Command::Index(flags) => Ok(commands::index::run(flags)),
        Command::Verify(flags) => Ok(commands::verify::run(flags)),
        Command::Doctor(flags) => Ok(commands::doctor::run(flags)),
        Command::Storage(flags) => Ok(commands::storage::run(flags)),
        Command::Advise(flags) => commands::advise::run(flags),
        Command::Io(flags) => Ok(commands::io::run(flags)),
        Command::Queue(flags) => commands::queue::run(flags),
        Command::Shard(flags) => commands::shard::run(flags),
        Command::Shards(flags) => Ok(commands::shards::run(flags)),
        Command::Completions(flags) => Ok(commands::completions::run(flags)),
        Command::Man(flags) => Ok(commands::man::run(flags)),
    }
}

/// Shows help and versions, which arrive as errors too, or what is wrong with the flags.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> Status {
    if !error.use_stderr() {
        return output::print_result(&error.render().ansi().to_string());
    }
    // The flags could not be read, so whether an object is awaited on stdout
    // has to be read off the words themselves.
    let message = error.render();
    if awaits_json(arguments) {
        output::print_usage_json(&without_passwords(message.to_string(), arguments));
    }
    let message = without_passwords(message.ansi().to_string(), arguments);
    output::print_message(&without_raw_words(message, arguments));
    Status::Usage
}

/// The message with the URLs of the command line that it quotes cut short, as they may hold passwords.
fn without_passwords(mut message: String, arguments: &[OsString]) -> String {
    for word in arguments {
        // As it stands in the message.
        let word = String::from_utf8_lossy(word.as_encoded_bytes());
        let value = word.split_once('=').map(|(_, value)| value);
        for part in [Some(&*word), value].into_iter().flatten() {
            if let Some(short) = cluster::shortened(part) {
                message = message.replace(part, &short);
            }
        }
    }
    message
}

/// The message with the words of the command line that it quotes made printable.
fn without_raw_words(mut message: String, arguments: &[OsString]) -> String {
    for word in arguments {
        let bytes = word.as_encoded_bytes();
        let value = bytes.iter().position(|&byte| byte == b'=').map(|at| &bytes[at + 1..]);
        for part in [Some(bytes), value].into_iter().flatten() {
            // As it stands in the message.
            let raw = String::from_utf8_lossy(part);
            let clean = match std::str::from_utf8(part) {
                Ok(text) => human::printable(text),
                Err(_) => human::printable(&leafpress::bytes_text(part)),
            };
            if clean != raw {
                message = message.replace(&*raw, &clean);
            }
        }
    }
    message
}

/// Returns true if the arguments ask for a JSON object on stdout. `--json FILE`
/// of `bench` asks for a file instead.
fn awaits_json(arguments: &[OsString]) -> bool {
    let is_bench = arguments.get(1).is_some_and(|word| word == "bench");
    let mut words = arguments.iter().take_while(|word| *word != "--").peekable();
    while let Some(word) = words.next() {
        let is_to_stdout = !is_bench || words.peek().is_some_and(|word| *word == "-");
        if word == "--json=-" || (word == "--json" && is_to_stdout) {
            return true;
        }
    }
    false
}
