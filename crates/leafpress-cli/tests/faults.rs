//! The files that a load leaves when it is killed, stopped, or refused by the disk.
//!
//! 1. The destination is absent, or a whole database: its rows, and sound.
//! 2. With status 3 the folder holds what it held before.
//! 3. What SIGKILL leaves is hidden, and the next load removes it.
//!
//! Linux only: signals, limits, mounts.
#![cfg(target_os = "linux")]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{command, names_in, run, say_skipped};
use rusqlite::Connection;
use tempfile::TempDir;

const ROWS: i64 = 60_000;
/// Loads that are struck by each of the two signals.
const STRIKES: u32 = 100;
/// Loads at once.
const WORKERS: u32 = 4;

/// A folder with an input that takes about a tenth of a second.
fn folder_with_input() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("in.csv"), rows_from(0)).unwrap();
    folder
}

fn rows_from(first: i64) -> String {
    let mut input = "id,name,height,note\n".to_owned();
    for id in first..first + ROWS {
        let height = id % 1000;
        writeln!(input, "{id},name {id},{height}.25,\"a, note\nof {id}\"").unwrap();
    }
    input
}

/// Asserts that the database holds all rows and is sound.
fn assert_whole(database: &Path) {
    let connection = Connection::open(database).unwrap();
    let rows: i64 =
        connection.query_row("SELECT count(*) FROM \"in\"", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, ROWS);
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

fn assert_failed(output: &Output, message: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{:?} {stderr}", output.status);
    assert!(stderr.contains(message), "{stderr}");
}

/// Numbers that look random and are the same in each run.
fn delay(number: u32, whole: Duration) -> Duration {
    let scattered = number.wrapping_mul(2_654_435_769) >> 16;
    whole * scattered / (1 << 16)
}

/// The rows with one out of order, which a load with a key has to sort.
fn unsorted_rows() -> String {
    rows_from(0).replacen("\n0,", "\n9000000,", 1)
}

/// Time that an undisturbed load takes beside others of its kind.
fn usual_duration(folder: &Path, options: &[&str]) -> Duration {
    let mut durations: Vec<Duration> = (0..3)
        .map(|number| {
            let started = Instant::now();
            let database = format!("usual{number}.db");
            run(folder, &[&["load", &database], options].concat()).expect_status(0);
            let elapsed = started.elapsed();
            fs::remove_file(folder.join(database)).unwrap();
            elapsed
        })
        .collect();
    durations.sort();
    durations[1]
}

/// Files that an interrupted load left.
#[derive(Default)]
struct Tally {
    absent: u32,
    whole: u32,
    leftovers: u32,
}

/// Strikes loads at moments over their whole duration, every other one on its
/// way through SQL.
fn strike(signal: &'static str, check: impl Fn(&Path, &Output) + Sync) -> Tally {
    let tally = std::sync::Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (tally, check) = (&tally, &check);
            scope.spawn(move || {
                let folder = folder_with_input();
                let mut options = vec!["in.csv", "-q"];
                if worker % 2 == 1 {
                    fs::write(folder.path().join("in.csv"), unsorted_rows()).unwrap();
                    options.extend(["--pk", "id"]);
                }
                // The others slow each one down.
                let whole = usual_duration(folder.path(), &options) * 13 / 10;
                for number in (worker..STRIKES).step_by(WORKERS as usize) {
                    let child =
                        command(folder.path(), &[&["load", "app.db"], &options[..]].concat())
                            .stderr(Stdio::piped())
                            .stdout(Stdio::piped())
                            .spawn()
                            .unwrap();
                    std::thread::sleep(delay(number + 1, whole));
                    send(signal, child.id());
                    judge(folder.path(), child, check, tally);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

/// Looks at what a struck load left.
fn judge(
    folder: &Path,
    child: std::process::Child,
    check: &impl Fn(&Path, &Output),
    tally: &std::sync::Mutex<Tally>,
) {
    let output = child.wait_with_output().unwrap();
    let database = folder.join("app.db");
    let is_there = database.exists();
    if is_there {
        assert_whole(&database);
    }
    check(folder, &output);
    let left = names_in(folder).iter().any(|name| name.starts_with(".app.db.leafpress-"));
    let mut tally = tally.lock().unwrap();
    tally.leftovers += u32::from(left);
    *(if is_there { &mut tally.whole } else { &mut tally.absent }) += 1;
    drop(tally);
    if is_there {
        fs::remove_file(database).unwrap();
    }
}

/// A load that has ended already cannot be struck any more.
fn send(signal: &str, id: u32) {
    let id = id.to_string();
    let _ = Command::new("kill").args(["-s", signal, &id]).stderr(Stdio::null()).status().unwrap();
}

#[test]
fn killed_loads_leave_nothing_or_a_whole_database() {
    let tally = strike("KILL", |folder, _| {
        let strangers: Vec<_> = names_in(folder)
            .into_iter()
            .filter(|name| name != "in.csv" && name != "app.db")
            .filter(|name| !name.starts_with(".app.db.leafpress-"))
            .collect();
        assert!(strangers.is_empty(), "{strangers:?}");
    });
    assert!(tally.absent > 0 && tally.leftovers > 0, "no load was struck in time");

    let folder = folder_with_input();
    let leftover = folder.path().join(".app.db.leafpress-1-0.tmp");
    fs::write(leftover, "half a database").unwrap();
    let report = run(folder.path(), &["load", "app.db", "in.csv", "--json"]).expect_status(0);
    assert_eq!(report.json()["rows_loaded"], ROWS);
    assert_eq!(names_in(folder.path()), ["app.db", "in.csv"]);
}

#[test]
fn interrupted_loads_clean_up_and_say_so() {
    let tally = strike("TERM", |folder, output| {
        let is_there = folder.join("app.db").exists();
        let expected: &[&str] = if is_there { &["app.db", "in.csv"] } else { &["in.csv"] };
        assert_eq!(names_in(folder), expected);
        let stderr = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => assert!(is_there),
            Some(3) => assert!(!is_there && stderr.starts_with("stopped"), "{stderr}"),
            // Before there was a handler, and before the first file.
            _ => assert!(!is_there && output.status.signal() == Some(15), "{stderr}"),
        }
    });
    assert!(tally.absent > 0, "no load was struck in time");
    assert_eq!(tally.leftovers, 0);
}

#[test]
fn of_two_loads_to_one_destination_one_wins() {
    for _ in 0..5 {
        let folder = folder_with_input();
        let start = || {
            let mut load = command(folder.path(), &["load", "app.db", "in.csv", "-q"]);
            load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let outputs = [start(), start()].map(|child| child.wait_with_output().unwrap());
        let won = outputs.iter().filter(|output| output.status.code() == Some(0)).count();
        assert_eq!(won, 1, "{outputs:?}");
        let lost = outputs.iter().find(|output| output.status.code() != Some(0)).unwrap();
        assert_failed(lost, "there is a table in already");
        assert_whole(&folder.path().join("app.db"));
        assert_eq!(names_in(folder.path()), ["app.db", "in.csv"]);
    }
}

/// A small file system in memory, for those who may mount one.
struct Mount(PathBuf);

impl Mount {
    fn new(folder: &Path, options: &str) -> Option<Self> {
        let path = folder.join("mount");
        fs::create_dir(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(&path)
            .stderr(Stdio::null())
            .status();
        match mounted {
            Ok(status) if status.success() => Some(Self(path)),
            _ => None,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_leaves_nothing() {
    let folder = folder_with_input();
    let Some(mount) = Mount::new(folder.path(), "size=1m") else {
        say_skipped("no file system can be mounted here; the limit on files is tested");
        return;
    };
    fs::write(folder.path().join("unsorted.csv"), unsorted_rows()).unwrap();
    for arguments in [&["in.csv"][..], &["in.csv", "--pk", "id"], &["unsorted.csv", "--pk", "id"]] {
        let arguments = [&["load", "mount/app.db"], arguments].concat();
        let output = command(folder.path(), &arguments).output().unwrap();
        assert_failed(&output, "No space left on device");
        assert_failed(&output, "on disk: nothing was written to mount/app.db");
        assert!(names_in(&mount.0).is_empty(), "{arguments:?}");
    }
    // The copy of a stream fills the disk too.
    let mut child = command(folder.path(), &["load", "mount/app.db", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It ends before all is written.
    let _ = child.stdin.take().unwrap().write_all(rows_from(0).as_bytes());
    assert_failed(&child.wait_with_output().unwrap(), "No space left on device");
    assert!(names_in(&mount.0).is_empty());
    // So do rejects.
    let skip = ["--type", "name=integer", "--on-error", "skip", "--rejects", "mount/bad.csv"];
    let arguments = [&["load", "app.db", "in.csv"], &skip[..]].concat();
    let output = command(folder.path(), &arguments).output().unwrap();
    assert_failed(&output, "No space left on device");
    assert!(names_in(&mount.0).is_empty() && !folder.path().join("app.db").exists());
}

/// The commit writes the pages. After it fails, a journal would stay that has yet to be played back.
#[test]
fn a_full_disk_at_the_commit_leaves_no_journal() {
    let folder = folder_with_input();
    let mut failed_at_the_commit = 0;
    for free_kib in [4_000, 5_000, 6_000, 7_000, 8_000] {
        let Some(mount) = Mount::new(folder.path(), "size=16m") else {
            say_skipped("no file system can be mounted here");
            return;
        };
        let database = mount.0.join("app.db");
        let connection = Connection::open(&database).unwrap();
        connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
        drop(connection);
        let bytes = fs::metadata(&database).unwrap().len();
        fill(&mount, free_kib);
        let load = ["load", "mount/app.db", "in.csv", "--pk", "id", "--index", "name"];
        let output = command(folder.path(), &load).output().unwrap();
        assert_eq!(names_in(&mount.0), ["app.db", "fill"], "{free_kib} KiB");
        let as_it_was = fs::metadata(&database).unwrap().len() == bytes;
        assert_eq!(as_it_was, !output.status.success(), "{free_kib} KiB");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("Error code"), "{stderr}");
        if stderr.contains("cannot write to mount/app.db: database or disk is full") {
            assert_failed(&output, "on disk: the database is as it was");
            failed_at_the_commit += 1;
        }
        drop(mount);
        fs::remove_dir(folder.path().join("mount")).unwrap();
    }
    assert!(failed_at_the_commit > 0, "choose other sizes");
}

/// Fills a file system up to this room.
fn fill(mount: &Mount, free_kib: u64) {
    let fill = format!(
        "head -c $((($(df -k --output=avail '{0}' | tail -1) - {free_kib}) * 1024)) /dev/zero \
         >'{0}/fill'",
        mount.0.display()
    );
    assert!(Command::new("sh").args(["-c", &fill]).status().unwrap().success());
}

/// A script that takes status 3 for "nothing changed" would push again.
#[test]
fn a_push_is_pushed_if_the_disk_is_full_only_for_the_last_checkpoint() {
    /// Room for the log of the push and the memory that connections share, and not for a copy of
    /// the payload's pages in the database too.
    const FREE_KIB: u64 = 148;
    let folder = TempDir::new().unwrap();
    let Some(mount) = Mount::new(folder.path(), "size=3m") else {
        say_skipped("no file system can be mounted here");
        return;
    };
    run(folder.path(), &["queue", "push", "mount/q.db", "x", "small"]).expect_status(0);
    fill(&mount, FREE_KIB);
    let payload = "a".repeat(60_000);
    let push = ["queue", "push", "mount/q.db", "x", &payload];
    let outcome = run(folder.path(), &push).expect_status(0);
    assert_eq!(outcome.stdout, "2\n", "the number of the job");
    assert!(outcome.stderr.contains("warning: mount/q.db: "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("database or disk is full"), "{}", outcome.stderr);

    fs::remove_file(mount.0.join("fill")).unwrap();
    let listed = run(folder.path(), &["queue", "list", "mount/q.db", "x", "--json"]);
    let jobs = listed.expect_status(0).json()["jobs"].as_array().unwrap().len();
    assert_eq!(jobs, 2);
}

#[test]
fn a_first_push_that_fails_leaves_nothing_and_says_so() {
    for size_kib in (200..1_400).step_by(200) {
        let folder = TempDir::new().unwrap();
        let Some(mount) = Mount::new(folder.path(), &format!("size={size_kib}k")) else {
            say_skipped("no file system can be mounted here");
            return;
        };
        let push = ["queue", "push", "mount/q.db", "x", "a"];
        let output = command(folder.path(), &push).output().unwrap();
        if output.status.success() {
            assert!(size_kib > 200);
            continue;
        }
        assert_failed(&output, "to do: ");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            !stderr.contains("-wal") && !stderr.contains(".leafpress-"),
            "{size_kib}: {stderr}"
        );
        assert!(names_in(&mount.0).is_empty(), "{size_kib}: {stderr}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_leaves_nothing() {
    let folder = folder_with_input();
    for before in ["", "trap '' XFSZ; "] {
        let load = format!(
            "{before}ulimit -f 512; exec {} load app.db in.csv",
            env!("CARGO_BIN_EXE_leafpress")
        );
        let output =
            Command::new("sh").args(["-c", &load]).current_dir(folder.path()).output().unwrap();
        assert_failed(&output, "File too large");
        assert_failed(&output, "may not grow further: raise the limit (ulimit -f)");
        assert_eq!(names_in(folder.path()), ["in.csv"]);
    }
}

/// As `nohup` starts a program, and `&` in a script.
#[test]
fn a_signal_that_is_ignored_at_the_start_stays_ignored() {
    for signal in ["HUP", "INT", "TERM"] {
        let folder = TempDir::new().unwrap();
        let load = format!(
            "trap '' {signal}; exec {} load app.db - --table in",
            env!("CARGO_BIN_EXE_leafpress")
        );
        let mut child = Command::new("sh")
            .args(["-c", &load])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let rows = rows_from(0);
        let (first, rest) = rows.split_at(rows.len() / 2);
        // More than a pipe holds: once it is written the load reads, and its handlers are set.
        stdin.write_all(first.as_bytes()).unwrap();
        common::send(signal, child.id());
        stdin.write_all(rest.as_bytes()).unwrap();
        drop(stdin);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        assert_whole(&folder.path().join("app.db"));
    }
}

#[test]
fn a_read_only_folder_is_refused() {
    let folder = folder_with_input();
    let mount = Mount::new(folder.path(), "ro,size=1m");
    let read_only = folder.path().join("mount");
    if mount.is_none() {
        let mut permissions = fs::metadata(&read_only).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&read_only, permissions).unwrap();
    }
    let output = command(folder.path(), &["load", "mount/app.db", "in.csv"]).output().unwrap();
    assert_failed(&output, "cannot create a file in mount");
    assert_failed(&output, "to do: choose a folder that exists and that you may write to");
    assert!(names_in(&read_only).is_empty());
    let output = command(folder.path(), &["load", "nowhere/app.db", "in.csv"]).output().unwrap();
    assert_failed(&output, "cannot create a file in nowhere");
}

#[test]
fn whatever_stands_at_the_destination_stays() {
    let folder = folder_with_input();
    let path = folder.path().join("app.db");
    let refuse = |message: &str| {
        let before = names_in(folder.path());
        let output = command(folder.path(), &["load", "app.db", "in.csv"]).output().unwrap();
        assert_failed(&output, message);
        assert_eq!(names_in(folder.path()), before);
    };
    std::os::unix::fs::symlink("nowhere/app.db", &path).unwrap();
    refuse("cannot create a file in ./nowhere");
    assert!(!folder.path().join("nowhere").exists() && path.is_symlink());
    fs::remove_file(&path).unwrap();

    fs::create_dir(&path).unwrap();
    refuse("app.db: is a directory, not a database");
    fs::remove_dir(&path).unwrap();

    fs::write(&path, "mine").unwrap();
    refuse("app.db: is not a database");
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    fs::remove_file(&path).unwrap();

    for (suffix, says) in
        [("-journal", "belongs to"), ("-wal", "belongs to"), ("-shm", "is left of")]
    {
        let companion = folder.path().join(format!("app.db{suffix}"));
        fs::write(&companion, "of a former database").unwrap();
        refuse(&format!("app.db{suffix}: it {says} a database that was here before"));
        fs::remove_file(companion).unwrap();
    }
    run(folder.path(), &["load", "app.db", "in.csv"]).expect_status(0);
}

#[test]
fn a_standard_input_or_output_that_fails() {
    let folder = folder_with_input();
    let directory = fs::File::open(folder.path()).unwrap();
    let output =
        command(folder.path(), &["load", "app.db", "-"]).stdin(directory).output().unwrap();
    assert_failed(&output, "cannot read <stdin>: Is a directory");
    assert_eq!(names_in(folder.path()), ["in.csv"]);

    let binary = env!("CARGO_BIN_EXE_leafpress");
    let shell = |redirect: &str| {
        let load = format!("exec {binary} load app.db {redirect}");
        Command::new("sh").args(["-c", &load]).current_dir(folder.path()).output().unwrap()
    };
    assert_failed(&shell("- <&-"), "the input is empty");
    assert_eq!(names_in(folder.path()), ["in.csv"]);

    for redirect in ["in.csv >&-", "in.csv >/dev/full"] {
        let output = shell(redirect);
        assert_eq!(output.status.code(), Some(0), "the load itself is done: {output:?}");
        assert_whole(&folder.path().join("app.db"));
        fs::remove_file(folder.path().join("app.db")).unwrap();
    }
}
