//! Databases, other processes, and the numbers of the checks that say "care".

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use leafpress::storage::FileSystem;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use super::common::run;

/// A folder beside the built command: `/tmp` is memory on some machines, of which the doctor
/// rightly warns.
pub fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The checks that warn of the place where the tests run, which no test can help.
pub fn place_needs_care() -> Vec<u64> {
    let place = FileSystem::of(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    if place.warnings().is_empty() { Vec::new() } else { vec![25] }
}

/// A database `a.db` with a table `t(a)`, and an open connection to it.
pub fn database(folder: &Path, journal_mode: &str) -> Connection {
    let connection = Connection::open(folder.join("a.db")).unwrap();
    let sql =
        format!("PRAGMA page_size=512; PRAGMA journal_mode={journal_mode}; CREATE TABLE t(a)");
    connection.execute_batch(&sql).unwrap();
    connection
}

/// The result of a look that does not watch for long.
pub fn look(folder: &Path, name: &str) -> Value {
    let outcome = run(folder, &["doctor", name, "--json", "--busy-timeout", "400"]);
    let object = outcome.json();
    assert_eq!(outcome.status == 0, object["healthy"] == true, "{}", outcome.stdout);
    assert!(outcome.status < 2, "{}", outcome.stdout);
    object
}

/// The numbers of the checks that say "care".
pub fn cares_of(object: &Value) -> Vec<u64> {
    let checks = object["checks"].as_array().unwrap().iter();
    checks.filter(|it| it["verdict"] == "care").map(|it| it["number"].as_u64().unwrap()).collect()
}

pub fn cares(folder: &Path, name: &str) -> Vec<u64> {
    cares_of(&look(folder, name))
}

/// Asserts that these checks need care, and no others but those that warn of the place.
/// Returns what was seen by the first of them.
pub fn expect_care(object: &Value, expected: &[u64]) -> String {
    let mut found = cares_of(object);
    let place = place_needs_care();
    found.retain(|number| expected.contains(number) || !place.contains(number));
    assert_eq!(found, expected, "{object:#}");
    let checks = object["checks"].as_array().unwrap();
    let first = checks.iter().find(|it| it["number"] == expected[0]).unwrap();
    assert!(first["risk"].is_string() && first["fix"].is_string());
    first["evidence"].as_str().unwrap().to_owned()
}

/// Returns true if this test is among the processes that have the database open. A child that another
/// test is about to start may be there too, until it runs its own program.
pub fn names_this_process(object: &Value) -> bool {
    let processes = object["neighbours"]["processes"].as_array().unwrap();
    processes.iter().any(|process| process["pid"] == std::process::id())
}

/// The verdict of a check, and what was seen.
pub fn finding(object: &Value, number: u64) -> (String, String) {
    let checks = object["checks"].as_array().unwrap();
    let check = checks.iter().find(|it| it["number"] == number).unwrap();
    let text = |name: &str| check[name].as_str().unwrap().to_owned();
    (text("verdict"), text("evidence"))
}

/// The advice of a check.
pub fn fix_of(object: &Value, number: u64) -> String {
    let checks = object["checks"].as_array().unwrap();
    let check = checks.iter().find(|it| it["number"] == number).unwrap();
    check["fix"].as_str().unwrap().to_owned()
}

/// A Python process that runs some lines and then waits until it is dropped.
pub struct Python(Child);

impl Python {
    pub fn at(folder: &Path, lines: &str) -> Self {
        Self::with(folder, lines, &[])
    }

    /// With variables in its environment.
    pub fn with(folder: &Path, lines: &str, environment: &[(&str, &Path)]) -> Self {
        let program = format!(
            "import fcntl, os, struct, sys\n{lines}\nprint('ready', flush=True)\nsys.stdin.read()\n"
        );
        let mut child = Command::new("python3")
            .args(["-c", &program])
            .current_dir(folder)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "of {lines}");
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // Forks of it end with its stdin.
        drop(self.0.stdin.take());
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
