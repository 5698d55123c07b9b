//! Plain SQLite with a fault at each of its I/Os: what it acknowledged is there, and
//! what it refused is there as a whole or not at all.
//!
//! It proves the fault injection (a fault must hurt, and be counted) as much as SQLite.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use leafpress::vfs::{PlatformVfs, Registration, register};
use leafpress_testing::faults::{
    Fault, FaultControl, FaultFile, FaultyVfs, IoCounts, IoKind, Lasting, Rule,
};
use rusqlite::{Connection, OpenFlags};

fn registered(name: &str) -> (Registration, FaultControl) {
    let vfs = FaultyVfs::new(PlatformVfs::new()).skipping_syncs();
    let control = vfs.control();
    (register(name, vfs).unwrap(), control)
}

fn open(registration: &Registration, path: &Path) -> Connection {
    let flags = OpenFlags::default();
    Connection::open_with_flags_and_vfs(path, flags, registration.name()).unwrap()
}

const TRANSACTIONS: i64 = 6;

fn prepare(path: &Path, settings: &str) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(settings).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    connection.execute_batch("CREATE TABLE t (number, part, filling)").unwrap();
}

/// Transactions of two rows each; says which were acknowledged. One that fails may be
/// rolled back already.
fn workload(connection: &Connection, settings: &str) -> BTreeSet<i64> {
    let mut acknowledged = BTreeSet::new();
    if connection.execute_batch(settings).is_err() {
        return acknowledged;
    }
    for number in 0..TRANSACTIONS {
        let sql = format!(
            "BEGIN IMMEDIATE; INSERT INTO t VALUES ({number}, 0, zeroblob(3000));
             INSERT INTO t VALUES ({number}, 1, zeroblob(3000)); COMMIT"
        );
        if connection.execute_batch(&sql).is_ok() {
            acknowledged.insert(number);
        } else if !connection.is_autocommit() {
            // An error here has rolled back already.
            let _ = connection.execute_batch("ROLLBACK");
        }
        if number == TRANSACTIONS / 2 {
            let _ = connection.execute_batch("PRAGMA wal_checkpoint(RESTART)");
        }
    }
    acknowledged
}

/// Looks at what is left with stock SQLite.
fn judge(path: &Path, acknowledged: &BTreeSet<i64>, rule: &Rule) {
    let stock = Connection::open(path).unwrap();
    stock.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let check: String = stock.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(check, "ok", "{rule:?}");
    let mut statement = stock.prepare("SELECT number, count(*) FROM t GROUP BY number").unwrap();
    let found: Vec<(i64, i64)> = statement
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(found.iter().all(|(_, parts)| *parts == 2), "whole transactions: {found:?}, {rule:?}");
    let found: BTreeSet<i64> = found.into_iter().map(|(number, _)| number).collect();
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "lost {lost:?} by {rule:?}");
}

struct Session {
    acknowledged: BTreeSet<i64>,
    faults: u64,
    counts: IoCounts,
}

fn session(name: &str, settings: &str, rule: Option<Rule>) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    prepare(&path, settings);
    let (registration, control) = registered(name);
    let connection = open(&registration, &path);
    connection.busy_timeout(Duration::ZERO).unwrap();
    control.arm(rule);
    let acknowledged = workload(&connection, settings);
    let (faults, counts) = (control.faults(), control.counts());
    drop(connection);
    control.disarm();
    if let Some(rule) = rule {
        judge(&path, &acknowledged, &rule);
    }
    Session { acknowledged, faults, counts }
}

fn fail_at_each(name: &str, settings: &str, fault: Fault) {
    let quiet = session(name, settings, None);
    assert_eq!(quiet.acknowledged.len() as i64, TRANSACTIONS, "all goes well without faults");
    assert_eq!(quiet.faults, 0);
    let total: u64 = quiet.counts.values().sum();
    assert!(total > 30, "{:?}", quiet.counts);
    let mut refusals = 0;
    for nth in 1..=total {
        for lasting in [Lasting::Once, Lasting::FromThenOn] {
            let rule = Rule { io: None, file: None, nth, fault, lasting };
            let session = session(name, settings, Some(rule));
            assert!(session.faults > 0, "the fault was met: {rule:?}");
            assert!(lasting != Lasting::Once || session.faults == 1, "{rule:?}");
            refusals += u64::from((session.acknowledged.len() as i64) < TRANSACTIONS);
        }
    }
    assert!(refusals > total / 2, "{refusals} of {total} faults were told to a caller");
}

#[test]
fn an_error_at_each_io_in_wal_mode() {
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;";
    fail_at_each("plain-wal-error", settings, Fault::Error);
}

#[test]
fn an_error_after_each_io_in_wal_mode() {
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;";
    fail_at_each("plain-wal-after", settings, Fault::ErrorAfter);
}

#[test]
fn an_error_at_each_io_in_rollback_mode() {
    let settings = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;";
    fail_at_each("plain-delete-error", settings, Fault::Error);
}

#[test]
fn an_error_after_each_io_in_rollback_mode() {
    let settings = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA;";
    fail_at_each("plain-delete-after", settings, Fault::ErrorAfter);
}

#[test]
fn a_full_disk_at_each_write() {
    for (mode, file) in [("WAL", FaultFile::Wal), ("DELETE", FaultFile::Journal)] {
        let settings = format!("PRAGMA journal_mode = {mode}; PRAGMA synchronous = EXTRA;");
        let quiet = session("plain-full", &settings, None);
        for file in [file, FaultFile::MainDb] {
            for nth in 1..=quiet.counts[&(IoKind::Write, file)] {
                for fault in [Fault::Full, Fault::ShortWrite] {
                    let (io, file) = (Some(IoKind::Write), Some(file));
                    let rule = Rule { io, file, nth, fault, lasting: Lasting::Once };
                    let session = session("plain-full", &settings, Some(rule));
                    assert_eq!(session.faults, 1, "{rule:?}");
                }
            }
        }
    }
}

#[test]
fn a_short_write_leaves_half_of_the_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let (registration, control) = registered("plain-short");
    let connection = open(&registration, &path);
    let rule = Rule {
        io: Some(IoKind::Write),
        file: Some(FaultFile::MainDb),
        nth: 1,
        fault: Fault::ShortWrite,
        lasting: Lasting::Once,
    };
    connection.execute_batch("PRAGMA journal_mode = OFF").unwrap();
    control.arm([rule]);
    let error = connection.execute_batch("CREATE TABLE t (x)").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 2048, "half of a page");
}

/// Sleeping takes at least as long as said, so this never depends on the machine.
#[test]
fn a_slow_sync_takes_its_time_and_does_no_harm() {
    let delay = Duration::from_millis(20);
    let rule = Rule {
        io: Some(IoKind::Sync),
        file: None,
        nth: 2,
        fault: Fault::Slow(delay),
        lasting: Lasting::FromThenOn,
    };
    let started = Instant::now();
    let settings = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;";
    let session = session("plain-slow", settings, Some(rule));
    assert_eq!(session.acknowledged.len() as i64, TRANSACTIONS);
    assert!(session.faults > 3);
    assert!(started.elapsed() >= delay * session.faults as u32);
}
