//! Findings of trials of the command, as a new user and as an adversary: one row of
//! a table per finding, with the command that showed it. A row fails without its fix.
//!
//! A command line is run by `sh` in a new folder, with the built `leafpress` first on the
//! path. Findings that a command line cannot show have a test beside the code they concern.
#![cfg(unix)]

mod beside;
mod columns;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod csv;
mod csv_advice;
mod csv_forms;
mod declarations;
mod encodings;
mod existing;
mod keys;
mod left_alone;
#[cfg(target_os = "linux")]
mod limits;
mod names;
mod numbers;
mod order;
mod private;
mod queue;
mod refusals;
mod report;
mod shards;
mod triggers;
mod types;
mod waits;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// One finding: what is there, what is run, and what is expected.
struct Found {
    /// Its name in the review, and the case: `B3 with --null`.
    finding: &'static str,
    /// Files that are there, with their content.
    files: &'static [(&'static str, &'static [u8])],
    /// Databases that are there, and the statements that made them.
    databases: &'static [(&'static str, &'static str)],
    /// A command line for `sh`.
    run: &'static str,
    /// It is run by a user who is not root, and who owns the folder.
    as_other_user: bool,
    /// The status of its last command.
    status: i32,
    /// Texts that standard output and standard error together contain, wherever lines break.
    says: &'static [&'static str],
    /// Texts that they do not contain.
    never_says: &'static [&'static str],
    /// Databases, queries, and the rows: values as SQL literals, with `,` between them and
    /// `;` between rows.
    holds: &'static [(&'static str, &'static str, &'static str)],
    /// Files that are not there afterwards.
    leaves_no: &'static [&'static str],
}

impl Found {
    const NONE: Self = Self {
        finding: "",
        files: &[],
        databases: &[],
        run: "",
        as_other_user: false,
        status: 0,
        says: &[],
        never_says: &[],
        holds: &[],
        leaves_no: &[],
    };

    /// The ways in which it is not as expected; empty if there are none.
    fn faults(&self) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for (name, content) in self.files {
            fs::write(folder.join(name), content).expect("a file is written");
        }
        for (name, sql) in self.databases {
            let connection = Connection::open(folder.join(name)).expect("a database");
            connection.execute_batch(sql).expect("its statements run");
        }
        let user = if self.as_other_user { other_user(folder) } else { User::Same };
        if matches!(user, User::Unable) {
            let why = format!("{}: another user cannot run the command here", self.finding);
            common::say_skipped(why);
            return String::new();
        }
        let (status, said) = shell_as(&user, folder, self.run);
        let mut faults = String::new();
        if status != self.status {
            let _ = writeln!(faults, "  status {status}, not {}", self.status);
        }
        if said.contains(['⟦', '⟧']) {
            let _ = writeln!(faults, "  it shows an option that is not spelled as a flag");
        }
        let as_one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let says = |text: &str| said.contains(text) || as_one_line.contains(text);
        for text in self.says.iter().filter(|text| !says(text)) {
            let _ = writeln!(faults, "  it does not say {text:?}");
        }
        for text in self.never_says.iter().filter(|text| said.contains(**text)) {
            let _ = writeln!(faults, "  it says {text:?}");
        }
        for (database, query, expected) in self.holds {
            let rows = rows(&folder.join(database), query);
            if rows != *expected {
                let _ = writeln!(faults, "  {query}\n    gives    {rows}\n    expected {expected}");
            }
        }
        for name in self.leaves_no.iter().filter(|name| folder.join(name).exists()) {
            let _ = writeln!(faults, "  it leaves {name:?}");
        }
        if !faults.is_empty() {
            let _ = writeln!(faults, "  it said:\n{said}");
        }
        faults
    }
}

/// The user who runs a command line.
enum User {
    /// The user of this test.
    Same,
    /// Root's choice of a user without rights.
    Other,
    /// The other user could not even run the command.
    Unable,
}

const OTHER_USER: u32 = 65534;

/// A user who is not root, to whom the folder is given.
fn other_user(folder: &Path) -> User {
    use std::os::unix::fs::{MetadataExt as _, chown};

    if fs::metadata(folder).expect("it is there").uid() != 0 {
        return User::Same;
    }
    chown(folder, Some(OTHER_USER), Some(OTHER_USER)).expect("root may give it away");
    match shell_as(&User::Other, folder, "leafpress --version") {
        (0, _) => User::Other,
        _ => User::Unable,
    }
}

/// Runs a command line to its end: its status, and all that it said.
fn shell(folder: &Path, line: &str) -> (i32, String) {
    shell_as(&User::Same, folder, line)
}

fn shell_as(user: &User, folder: &Path, line: &str) -> (i32, String) {
    use std::os::unix::process::CommandExt as _;

    let program = Path::new(env!("CARGO_BIN_EXE_leafpress"));
    let mut path = program.parent().expect("a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    if matches!(user, User::Other) {
        command.uid(OTHER_USER).gid(OTHER_USER);
    }
    let output = command
        .args(["-c", line])
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("PATH", path)
        .env("LEAFPRESS_CACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"))
        .output()
        .expect("sh runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

/// The rows of a query, as SQL literals.
fn rows(database: &Path, query: &str) -> String {
    let attempt = || -> rusqlite::Result<String> {
        let connection = Connection::open(database)?;
        let mut statement = connection.prepare(query)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let values = (0..columns).map(|index| row.get_ref(index).map(literal));
            all.push(values.collect::<rusqlite::Result<Vec<_>>>()?.join(","));
        }
        Ok(all.join(";"))
    };
    attempt().unwrap_or_else(|error| error.to_string())
}

fn literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => format!("{number:?}"),
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text).replace('\'', "''")),
        ValueRef::Blob(bytes) => {
            bytes.iter().fold("x'".to_owned(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }) + "'"
        }
    }
}

/// Asserts each row of a table, and shows all that fail.
fn assert_all(cases: &[Found]) {
    let mut failed = String::new();
    for case in cases {
        let faults = case.faults();
        if !faults.is_empty() {
            let _ = writeln!(failed, "{}: {}\n{faults}", case.finding, case.run);
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
}
