//! System calls of a transaction of one row, as strace sees them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use leafpress::vfs::leafpress_vfs;

use super::mount::{XfsMount, can_run, make_database, new_folder};
use super::text;
use super::writers::connect;

const TRANSACTIONS: u32 = 1_000;
const ROWS: u32 = 300;
const BEGIN: &str = "counted from here on\n";
const END: &str = "counted up to here\n";
/// System calls that a transaction may need at most. The limits are exact, as even one
/// call more for each transaction is a cost.
const CALLS_EXCLUSIVE_MAX: u32 = 5;
/// The paper's figure, to be undercut.
const CALLS_SHARED_MAX: u32 = 23;

/// The traced child.
pub fn update(path: &Path, vfs: &str, locking: &str, times: &str) {
    let connection = connect(path, vfs, locking, "EXTRA");
    let mut update = connection.prepare("UPDATE t SET value = ?1 WHERE id = ?2").unwrap();
    let times: u32 = times.parse().unwrap();
    // The first few find out what holds for all.
    for number in 0..10 {
        update.execute([number, 1]).unwrap();
    }
    if vfs == "leafpress" {
        println!("{}", leafpress_vfs().unwrap().state(path).unwrap());
    }
    eprint!("{BEGIN}");
    let started = std::time::Instant::now();
    for number in 0..times {
        update.execute([number, 1 + number % ROWS]).unwrap();
    }
    let elapsed = started.elapsed();
    eprint!("{END}");
    println!("{:.0} transactions a second", f64::from(times) / elapsed.as_secs_f64());
}

pub fn a_transaction_is_one_page_and_one_sync(mount: &XfsMount) {
    if let Err(reason) = can_run("strace", &["-o", "/dev/null", "true"]) {
        leafpress_testing::say_skipped(format!("counting system calls: {reason}"));
        return;
    }
    let folder = new_folder(mount, "calls");
    let path = folder.join("a.db");
    make_database(&path, ROWS);

    let exclusive = traced(&path, "EXCLUSIVE");
    exclusive.print("exclusive locking");
    assert!(exclusive.total() <= CALLS_EXCLUSIVE_MAX * TRANSACTIONS);
    assert_eq!(exclusive.of("pwritev2"), TRANSACTIONS);
    assert_eq!(exclusive.journal, 0, "exclusive locking needs no look at the journal");

    let shared = traced(&path, "NORMAL");
    shared.print("shared locking");
    assert!(shared.total() <= CALLS_SHARED_MAX * TRANSACTIONS);
    assert_eq!(shared.of("pwritev2"), 2 * TRANSACTIONS);
    assert_eq!(shared.journal, shared.journal_looked_for, "the journal is looked for, not more");

    for calls in [exclusive, shared] {
        assert_eq!(calls.of("fdatasync") + calls.of("fsync"), TRANSACTIONS);
        for call in ["write", "pwrite64", "openat", "open", "unlink", "ftruncate", "close"] {
            assert_eq!(calls.of(call), 0, "{call}");
        }
    }
}

/// Numbers of calls by name, and of those that named a journal.
#[derive(Default)]
struct Calls {
    by_name: BTreeMap<String, u32>,
    journal: u32,
    /// By calls that only ask whether it is there.
    journal_looked_for: u32,
}

impl Calls {
    /// Of the lines of a trace: `PID name(arguments) = answer`.
    fn of_trace(trace: &str) -> Self {
        let (begin, end) = (BEGIN.trim(), END.trim());
        let lines = trace.lines().skip_while(|line| !line.contains(begin)).skip(1);
        let mut calls = Self::default();
        let mut is_ended = false;
        for line in lines {
            if line.contains(end) {
                is_ended = true;
                break;
            }
            let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
            let Some((name, arguments)) = call.split_once('(') else { continue };
            *calls.by_name.entry(name.to_owned()).or_default() += 1;
            if arguments.contains("-journal") {
                calls.journal += 1;
                let is_look = ["access", "faccessat", "faccessat2", "stat", "newfstatat", "statx"];
                calls.journal_looked_for += u32::from(is_look.contains(&name));
            }
        }
        assert!(is_ended, "the trace has no end:\n{trace}");
        calls
    }

    fn of(&self, name: &str) -> u32 {
        self.by_name.get(name).copied().unwrap_or(0)
    }

    fn total(&self) -> u32 {
        self.by_name.values().sum()
    }

    fn print(&self, what: &str) {
        let each = |count: u32| f64::from(count) / f64::from(TRANSACTIONS);
        println!("{what}: {:.3} system calls a transaction", each(self.total()));
        for (name, &count) in &self.by_name {
            println!("  {name:12} {:.3}", each(count));
        }
    }
}

fn traced(path: &Path, locking: &str) -> Calls {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-s", "4096", "-o", text(trace.path())])
        .arg(std::env::current_exe().unwrap())
        .args(["--update", text(path), "leafpress", locking, &TRANSACTIONS.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("atomic pages of 4096 bytes"), "{said}");
    Calls::of_trace(&std::fs::read_to_string(trace.path()).unwrap())
}
