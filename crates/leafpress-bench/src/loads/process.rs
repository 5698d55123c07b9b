//! A small CSV file by whole processes: `leafpress load`, and SQLite's shell.
//!
//! The time is from the start of the process to its exit, as a user at a terminal waits for it. One
//! run takes some milliseconds, so a rung makes several, each into a new database, and its time is
//! their median.
//!
//! Must never: count the making of the CSV file, or let one tool run with another one's settings.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use leafpress::vfs::paths::folder_of;

use super::sql::DATA_TABLE;
use crate::error::{Error, Result};
use crate::generate::{self, FileSize, TextFormat};
use crate::rung::request::command_again;
use crate::rung::result::RungResult;
use crate::statistics::median;
use crate::usage::cpu_s_of_children;

/// SQLite's shell, as it is found on `PATH`.
const SHELL: &str = "sqlite3";

/// Runs of a rung: as many as fit into the time, within these bounds.
const RUNS_MIN: usize = 3;
const RUNS_MAX: usize = 15;
const TIME: Duration = Duration::from_millis(500);

/// Tool that is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// `leafpress load`.
    Leafpress,
    /// `sqlite3`, `.import`.
    Shell,
}

/// Version of SQLite's shell, if there is one on `PATH`.
pub(super) fn shell_version() -> Option<&'static str> {
    static VERSION: OnceLock<Option<String>> = OnceLock::new();
    let ask = || {
        let output = Command::new(SHELL).arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_whitespace().next()?.to_owned();
        output.status.success().then_some(version)
    };
    VERSION.get_or_init(ask).as_deref()
}

/// Reason why this machine cannot show these loads.
pub(super) fn missing(is_simulated: bool) -> Option<String> {
    if is_simulated {
        return Some("the processes of other tools do not play the simulated disk".to_owned());
    }
    let reason = "there is no sqlite3 on PATH, SQLite's shell, to compare with";
    shell_version().is_none().then(|| reason.to_owned())
}

/// The statements and commands of the shell: the table and its rows in one transaction, under the
/// durable settings that a new database has.
///
/// Measured: a transaction for the table and one for `.import` take a third longer, and a write-ahead
/// log twice as long. The cache is large enough that no page is written before the end.
fn shell_script(csv: &str) -> [String; 5] {
    [
        "PRAGMA cache_size = -1000000".to_owned(),
        format!("BEGIN; {DATA_TABLE}"),
        ".mode csv".to_owned(),
        format!(".import --skip 1 {csv} data"),
        "COMMIT".to_owned(),
    ]
}

/// Loads a CSV file of so many rows by the tool, and measures its processes.
pub(super) fn load(tool: Tool, rows: u64, database: &Path) -> Result<RungResult> {
    let csv = database.with_extension("csv");
    generate::write_table(&csv, TextFormat::Csv, FileSize::Rows(rows), &mut |_| ())?;
    let result = runs(&mut || started(tool, &csv, database), database);
    fs::remove_file(&csv).map_err(Error::io("remove", &csv))?;
    Ok(RungResult { rows, ..result? })
}

/// Runs the command until its time is a median of enough; the database of the last run stays.
fn runs(command: &mut dyn FnMut() -> Result<Command>, database: &Path) -> Result<RungResult> {
    // The first run reads the program from the disk, which is the time of no other.
    timed(&mut command()?)?;
    let cpu_before_s = cpu_s_of_children();
    let (mut took_s, begun) = (Vec::new(), Instant::now());
    while took_s.len() < RUNS_MIN || (took_s.len() < RUNS_MAX && begun.elapsed() < TIME) {
        fs::remove_file(database).map_err(Error::io("remove", database))?;
        took_s.push(timed(&mut command()?)?);
    }
    let cpu_s = cpu_s_of_children().zip(cpu_before_s).map(|(now, before)| now - before);
    let cpu_s = cpu_s.map(|cpu_s| cpu_s / took_s.len() as f64);
    let wall_s = median(&took_s).unwrap_or_default();
    Ok(RungResult { wall_s, cpu_s, ..RungResult::default() })
}

/// Seconds from the start of the process to its exit.
fn timed(command: &mut Command) -> Result<f64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let name = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let output = command.output().map_err(Error::io("start", Path::new(&name)))?;
    let took_s = start.elapsed().as_secs_f64();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::rung(name, format!("{}\n{}", output.status, said.trim_end())));
    }
    Ok(took_s)
}

/// The command that loads the file into the new database.
fn started(tool: Tool, csv: &Path, database: &Path) -> Result<Command> {
    match tool {
        Tool::Leafpress => {
            let mut command = command_again()?;
            command.arg("load").arg(database).arg(csv).args(["--table", "data"]);
            Ok(command)
        }
        Tool::Shell => {
            let name = |path: &Path| path.file_name().map(OsString::from).unwrap_or_default();
            let mut command = Command::new(SHELL);
            // Names without a folder need no quotes in a command of the shell.
            command.current_dir(folder_of(database));
            // Nothing from the user's own file of settings.
            command.args(["-batch", "-bail", "-init"]);
            command.arg(if cfg!(windows) { "NUL" } else { "/dev/null" }).arg(name(database));
            command.args(shell_script(&name(csv).to_string_lossy()));
            Ok(command)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Load, LoadRung};
    use super::*;
    use crate::rung::described::{Described as _, Found};

    #[test]
    fn the_shell_loads_what_was_generated() {
        if shell_version().is_none() {
            return;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = folder.path().join("a.db");
        let result = load(Tool::Shell, 1_000, &database).expect("it loads");
        assert!(result.wall_s > 0.0);
        let files = fs::read_dir(folder.path()).expect("it can be listed").count();
        assert_eq!(files, 1, "the CSV file is gone");
        let rung = LoadRung { by: Load::ProcessShell, rows: 1_000, memory_bytes: None };
        let found = Found { database: &database, input_rows: 0, is_first: true, is_alone: false };
        let left = rung.check(&result, &found).expect("it can be read");
        assert_eq!(left.found, left.expected);
        // The rows of the rival that inserts them.
        let csv = folder.path().join("b.csv");
        let by_sql = folder.path().join("b.db");
        generate::write_table(&csv, TextFormat::Csv, FileSize::Rows(1_000), &mut |_| ()).unwrap();
        super::super::sql::load_csv(&csv, &by_sql, 1).expect("it loads");
        let by_sql = rung.check(&result, &Found { database: &by_sql, ..found });
        assert_eq!(by_sql.expect("it can be read"), left);
    }

    #[test]
    fn a_process_that_fails_is_named() {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let error = timed(command.arg("--no-such-flag")).expect_err("it refuses");
        assert!(matches!(error, Error::Rung { .. }), "{error}");
    }

    #[test]
    fn nothing_is_compared_on_a_disk_that_is_simulated() {
        assert!(missing(true).is_some_and(|reason| reason.contains("simulated")));
        assert_eq!(missing(false).is_none(), shell_version().is_some());
    }
}
