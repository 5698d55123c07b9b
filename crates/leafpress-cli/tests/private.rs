//! Files that a command makes beside a private database, while it runs and after a kill.
//!
//! 1. With an umask of 000 no other user may read, at any moment that is looked at, a file,
//!    a folder or an open descriptor that holds rows of a database of mode 0600.
//! 2. What SIGKILL leaves is as private, and the next command removes it.
//!
//! That no moment is left out is shown beside the code: all of them are made by one function
//! (`leafpress-vfs/src/rights.rs`), with their final rights.
//!
//! Linux only: `/proc` tells what a process has open.
#![cfg(target_os = "linux")]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{names_in, run};
use rusqlite::Connection;

/// So long a command may take to make what is looked at.
const HANG: Duration = Duration::from_secs(120);
const OF_OTHERS: u32 = 0o077;

fn private_database(folder: &Path) -> PathBuf {
    let path = folder.join("t.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, s);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 999)
             INSERT INTO t SELECT i, 'secret ' || i FROM n",
        )
        .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// The command with an umask that takes nothing away.
fn start(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_leafpress")])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command.spawn().unwrap()
}

/// All below a folder that other users may reach: what lies in a folder that is closed to
/// them is not.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // It may be gone by now.
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        if metadata.mode() & OF_OTHERS == 0 {
            continue;
        }
        found.push(format!("{:o} {}", metadata.mode() & 0o7777, entry.path().display()));
        if metadata.is_dir() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

/// Files that a process has open for writing, and that have rights for others.
///
/// A file that is open for reading only holds no rows that this process wrote. The libraries
/// that the system's loader opens at the start of each program are such files.
fn descriptors_open_to_others(process: u32) -> Vec<String> {
    let mut found = Vec::new();
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
    for entry in descriptors.into_iter().flatten().flatten() {
        // It may be closed by now.
        let (Ok(metadata), Ok(target), Some(true)) = (
            fs::metadata(entry.path()),
            fs::read_link(entry.path()),
            is_open_for_writing(process, &entry.file_name().to_string_lossy()),
        ) else {
            continue;
        };
        let is_of_system = ["/dev", "/proc", "/sys"].iter().any(|it| target.starts_with(it));
        if metadata.is_file() && !is_of_system && metadata.mode() & OF_OTHERS != 0 {
            found.push(format!("{:o} {}", metadata.mode() & 0o7777, target.display()));
        }
    }
    found
}

/// Reads the access mode from the octal line `flags:` of `/proc/PID/fdinfo/FD` (proc(5)).
fn is_open_for_writing(process: u32, descriptor: &str) -> Option<bool> {
    const ACCESS_MODE: u32 = 0o3;
    const READ_ONLY: u32 = 0;
    let facts = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
    let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"))?;
    Some(u32::from_str_radix(flags.trim(), 8).ok()? & ACCESS_MODE != READ_ONLY)
}

/// Looks at all that a running command makes until `is_made` says that it is there.
fn watch(child: &Child, folder: &Path, is_made: impl Fn(&[String]) -> bool) {
    let deadline = Instant::now() + HANG;
    loop {
        let open = [open_to_others(folder), descriptors_open_to_others(child.id())].concat();
        assert!(open.is_empty(), "open to others: {open:#?}");
        if is_made(&names_in(folder)) {
            return;
        }
        assert!(Instant::now() < deadline, "it makes nothing: {:?}", names_in(folder));
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A folder that others may look into, as most are.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn a_load_into_a_private_database_shows_its_rows_to_no_other_user() {
    for options in [&["--append"][..], &["--replace"], &["--append", "--memory", "1M"]] {
        let folder = folder();
        let folder = folder.path();
        private_database(folder);
        let arguments = [&["load", "t.db", "-", "--table", "t"], options].concat();
        let mut child = start(folder, &arguments);
        let mut stdin = child.stdin.take().unwrap();
        let mut rows = String::from("id,s\n");
        for id in (2000..200_000).rev() {
            let _ = writeln!(rows, "{id},secret {id}");
        }
        let feeder = std::thread::spawn(move || {
            // The pipe stays open, so that the load waits for more.
            let _ = stdin.write_all(rows.as_bytes());
            stdin
        });
        watch(&child, folder, |names| names.iter().any(|name| name.contains(".tmp")));
        let stdin = feeder.join().unwrap();
        watch(&child, folder, |_| true);
        kill(child);
        drop(stdin);
        let left = open_to_others(folder);
        assert!(left.is_empty(), "{options:?}: left open to others: {left:#?}");
        fs::write(folder.join("in.csv"), "id,s\n1500,more\n").unwrap();
        run(folder, &["load", "t.db", "in.csv", "--table", "t", "--append"]).expect_status(0);
        assert_eq!(names_in(folder), ["in.csv", "t.db"], "{options:?}: the leftover is gone");
    }
}

#[test]
fn a_copy_of_a_private_database_is_private() {
    let folder = folder();
    let folder = folder.path();
    private_database(folder);
    fs::create_dir(folder.join("elsewhere")).unwrap();
    fs::set_permissions(folder.join("elsewhere"), fs::Permissions::from_mode(0o700)).unwrap();
    // It never ends by itself.
    let sql = "UPDATE t SET s = s || 'x'; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 \
               FROM n) INSERT INTO t(s) SELECT i FROM n";
    for attempt in ["beside", "again"] {
        let child = start(folder, &["io", "t.db", "-c", sql]);
        let is_copied = |names: &[String]| {
            let copy = names.iter().find(|name| name.contains(".leafpress-io-"));
            copy.is_some_and(|copy| folder.join(copy).join("t.db-journal").exists())
        };
        watch(&child, folder, is_copied);
        let copy = names_in(folder).into_iter().find(|it| it.contains(".leafpress-io-")).unwrap();
        let copy = folder.join(copy);
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o7777, 0o700, "{attempt}");
        for name in names_in(&copy) {
            let mode = fs::metadata(copy.join(&name)).unwrap().mode() & 0o7777;
            assert_eq!(mode, 0o600, "{attempt}: {name}");
        }
        kill(child);
        assert!(open_to_others(folder).is_empty(), "{attempt}");
    }
    run(folder, &["io", "t.db", "-c", "UPDATE t SET s = 1"]).expect_status(0);
    assert_eq!(names_in(folder), ["elsewhere", "t.db"], "the leftovers are gone");
}

/// The control of this file: an open file without a name is seen, and one for reading is not.
#[test]
fn a_descriptor_that_others_may_read_is_seen() {
    let file = tempfile::tempfile().unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o644)).unwrap();
    let folder = folder();
    let readable = folder.path().join("library.so");
    fs::write(&readable, "x").unwrap();
    let _library = fs::File::open(&readable).unwrap();
    let seen = || descriptors_open_to_others(std::process::id());
    assert!(seen().iter().any(|it| it.starts_with("644") && it.ends_with("(deleted)")));
    assert!(!seen().iter().any(|it| it.contains("library.so")), "{:?}", seen());
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!seen().iter().any(|it| it.ends_with("(deleted)")), "{:?}", seen());
}

/// A database that is not private is made by the umask, as SQLite makes it.
#[test]
fn a_new_database_has_the_rights_that_sqlite_gives() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("in.csv"), "a\n1\n").unwrap();
    for (umask, expected) in [("000", 0o644), ("022", 0o644), ("027", 0o640), ("077", 0o600)] {
        let made = |name: &str| fs::metadata(folder.join(name)).unwrap().mode() & 0o7777;
        let (load, push) = (format!("load{umask}.db"), format!("push{umask}.db"));
        let line =
            format!("umask {umask}; \"$0\" load {load} in.csv && \"$0\" queue push {push} q a");
        let status = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_leafpress")])
            .current_dir(folder)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!((made(&load), made(&push)), (expected, expected), "umask {umask}");
    }
}
