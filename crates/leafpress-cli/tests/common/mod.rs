//! Runs the built binary in a folder of its own.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::fmt::Display;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Outcome of a run: its exit status and its output.
pub struct Outcome {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The command, in a folder, with nothing on stdin.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leafpress"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    // Never the user's own.
    command.env("LEAFPRESS_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command
}

/// Runs the command to its end.
pub fn run(folder: &Path, arguments: &[&str]) -> Outcome {
    let output = command(folder, arguments).output().expect("the binary starts");
    Outcome {
        status: output.status.code().expect("it ends by itself"),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

/// Runs the command with a reader that has gone before it reads anything: that ends it
/// in silence, and well.
pub fn run_with_reader_gone(folder: &Path, arguments: &[&str]) {
    let mut child = command(folder, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
}

/// Says that a test, or a part of one, is skipped, and why. Not by `println!`, which a test that
/// passes keeps to itself. It fails if `LEAFPRESS_REQUIRE_TOOLS` is set.
pub fn say_skipped(why: impl Display) {
    assert!(std::env::var_os("LEAFPRESS_REQUIRE_TOOLS").is_none(), "skipped: {why}");
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The signals that end the command: without that of ctrl-C where this process ignores it, as in the
/// background of a script, since the command then ignores it too.
#[cfg(unix)]
pub fn ending_signals() -> Vec<&'static str> {
    let is_ignored = leafpress::vfs::signals::is_ignored(signal_hook::consts::SIGINT);
    if is_ignored { vec!["TERM"] } else { vec!["INT", "TERM"] }
}

/// Waits until a process has set its handler of a signal; where no `/proc` tells, for half a second.
#[cfg(unix)]
pub fn wait_for_handler(signal: &str, id: u32) {
    use std::time::Duration;

    if !Path::new("/proc/self/status").exists() {
        std::thread::sleep(Duration::from_millis(500));
        return;
    }
    let number = match signal {
        "INT" => signal_hook::consts::SIGINT,
        _ => signal_hook::consts::SIGTERM,
    };
    for _ in 0..10_000 {
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        let caught = u64::from_str_radix(caught.trim(), 16).expect("hexadecimal digits");
        if caught >> (number - 1) & 1 == 1 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("the command has no handler of {signal}");
}

/// Sends a signal to a process that is there.
#[cfg(unix)]
pub fn send(signal: &str, id: u32) {
    let sent = Command::new("kill").args(["-s", signal, &id.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Returns true, and says that the test is skipped, where this process ignores ctrl-C.
#[cfg(unix)]
pub fn is_skipped_without_ctrl_c() -> bool {
    let is_skipped = !ending_signals().contains(&"INT");
    if is_skipped {
        say_skipped("ctrl-C is ignored here");
    }
    is_skipped
}

/// The names in a folder, in order.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name in UTF-8");
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort_unstable();
    names
}

impl Outcome {
    /// Asserts the status, and shows what was said where it differs.
    pub fn expect_status(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// The one JSON object on stdout.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.stdout.matches('\n').count(), 1, "one line: {}", self.stdout);
        serde_json::from_str(&self.stdout).expect("stdout is JSON")
    }
}
