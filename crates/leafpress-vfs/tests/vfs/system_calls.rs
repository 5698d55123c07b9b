//! The counters of I/O, compared with the system calls that `strace` sees. Folder syncs
//! are proven in no other way, as no VFS above the platform's can see them.
//!
//! The process that writes is this very test, run once more under `strace`: what it
//! shall do stands in its environment.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use leafpress_vfs::count::{Counted, IoCounters};
use leafpress_vfs::{PlatformVfs, register};

use crate::{set_journal_mode, through};

const FOLDER: &str = "LEAFPRESS_COUNTED_FOLDER";
const MODE: &str = "LEAFPRESS_COUNTED_MODE";
const CALLS: &str = "pwrite64,fdatasync,fsync,ftruncate,?unlink,?unlinkat";

/// The child: 100 transactions of one row, and one over two databases.
fn write(folder: &str, mode: &str) {
    let counters = IoCounters::new();
    let vfs = Counted::new(PlatformVfs::new(), &counters);
    let registration = register("counted-child", vfs).unwrap();
    let connection = through(&registration, Path::new(folder).join("a.db"));
    set_journal_mode(&connection, mode);
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = EXTRA; CREATE TABLE t(x); ATTACH '{folder}/b.db' AS b;
             PRAGMA b.journal_mode = {mode}; CREATE TABLE b.u(x);"
        ))
        .unwrap();
    for i in 0..100 {
        connection.execute("INSERT INTO t VALUES (?1)", [i]).unwrap();
    }
    connection
        .execute_batch("BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); COMMIT")
        .unwrap();
    drop(connection);
    let json = serde_json::to_string(&counters.snapshot()).unwrap();
    std::fs::write(Path::new(folder).join("counted.json"), json).unwrap();
}

/// Why strace cannot be used here, if so.
fn why_no_strace() -> Option<String> {
    let mut strace = Command::new("strace");
    strace.args(["-o", "/dev/null", "true"]).stdin(Stdio::null());
    match strace.output() {
        Err(error) => Some(format!("no strace ({error})")),
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Calls by kind of file and name of the call.
type Calls = BTreeMap<(String, String), u64>;

/// What a line such as `12 fdatasync(7</tmp/x/a.db-wal>) = 0` says of files in `folder`;
/// nothing of the shared memory of a WAL, which is not written as a file.
fn seen(line: &str, folder: &str) -> Option<(String, String)> {
    let (before, arguments) = line.split_once('(')?;
    let call = before.rsplit(' ').next()?;
    let start = arguments.find(folder)?;
    let path: String = arguments[start..].chars().take_while(|c| !['>', '"'].contains(c)).collect();
    let kind = match path.strip_prefix(folder)?.trim_start_matches('/') {
        "" => "folder",
        "counted.json" => return None,
        name if name.ends_with("-shm") => return None,
        name if name.ends_with("-journal") => "journal",
        name if name.ends_with("-wal") => "wal",
        name if name.contains("-mj") => "super_journal",
        _ => "database",
    };
    let operation = match call {
        "pwrite64" => "write",
        "ftruncate" => "truncate",
        "fdatasync" | "fsync" => "sync",
        "unlink" | "unlinkat" => "delete",
        _ => return None,
    };
    Some((kind.to_owned(), operation.to_owned()))
}

/// The same of what was counted, with all folder syncs in one place.
fn counted(json: &serde_json::Value) -> Calls {
    let mut calls = Calls::new();
    for (kind, operations) in json.as_object().unwrap() {
        for (operation, io) in operations.as_object().unwrap() {
            let of = match operation.as_str() {
                "write" | "truncate" | "sync" | "delete" => (kind.clone(), operation.clone()),
                "folder_sync" => ("folder".to_owned(), "sync".to_owned()),
                _ => continue,
            };
            *calls.entry(of).or_default() += io["calls"].as_u64().unwrap();
        }
    }
    calls
}

#[test]
fn counts_are_those_of_the_kernel() {
    if let (Ok(folder), Ok(mode)) = (std::env::var(FOLDER), std::env::var(MODE)) {
        return write(&folder, &mode);
    }
    if let Some(why) = why_no_strace() {
        // Not by println, which a test that passes keeps to itself.
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
        return;
    }
    for mode in ["delete", "truncate", "persist", "wal"] {
        let folder = tempfile::tempdir().unwrap();
        let folder_path = folder.path().canonicalize().unwrap();
        let log = tempfile::NamedTempFile::new().unwrap();
        let status = Command::new("strace")
            .args(["-f", "-y", "-qq", "-s", "4096", "-e", &format!("trace={CALLS}"), "-o"])
            .arg(log.path())
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "system_calls::counts_are_those_of_the_kernel"])
            .env(FOLDER, &folder_path)
            .env(MODE, mode)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{mode}: {status}");
        let json = std::fs::read_to_string(folder_path.join("counted.json")).unwrap();
        let mut calls = Calls::new();
        let trace = std::fs::read(log.path()).unwrap();
        for line in String::from_utf8_lossy(&trace).lines() {
            if let Some(of) = seen(line, folder_path.to_str().unwrap()) {
                *calls.entry(of).or_default() += 1;
            }
        }
        assert_eq!(counted(&serde_json::from_str(&json).unwrap()), calls, "{mode}");
        let writes: u64 =
            calls.iter().filter(|((_, name), _)| name == "write").map(|(_, calls)| calls).sum();
        assert!(writes > 100, "{mode}: {calls:?}");
    }
}
