//! Runs the built binary in a folder of its own.

use std::path::Path;
use std::process::{Command, Stdio};

/// How a run ended and what it said.
pub struct Outcome {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The command, in a folder, with nothing on stdin.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leafpress"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
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
