//! The counters of I/O are right: compared with a list of all calls, with the work of
//! threads together, and (`system_calls.rs`) with the kernel's system calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leafpress_vfs::count::{Counted, IoCounters, IoStats};
use leafpress_vfs::{PlatformVfs, Registration, VfsError, register};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::errors::busy_session;
use crate::hooked::{Call, Hooked};
use crate::memory_vfs::MemoryVfs;
use crate::recording::{Log, Recording, Tally, tally_of};
use crate::{rows, set_journal_mode, through, work};

/// Names must differ for as long as a test has them registered.
fn unique(name: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("count-{name}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// One thing that a program does; errors are part of it.
#[derive(Debug, Clone)]
enum Step {
    /// Rows of so many bytes together: a page or more than the cache holds.
    Insert(u32),
    UpdateOne,
    InBoth,
    /// A temporary table that its cache does not hold.
    Temporary(u32),
    Sort,
    Savepoint,
    RollBack,
    Vacuum,
    Checkpoint,
    ByAnother,
    OpenAgain,
}

impl Step {
    fn sql(&self) -> String {
        match self {
            Self::Insert(bytes) => format!("INSERT INTO t(x) VALUES (randomblob({bytes}))"),
            Self::UpdateOne => "UPDATE t SET x = 'one' WHERE id = 1".to_owned(),
            Self::InBoth => {
                "BEGIN; INSERT INTO t(x) VALUES (1); INSERT INTO b.u VALUES (1); COMMIT".to_owned()
            }
            Self::Temporary(bytes) => {
                format!(
                    "CREATE TEMP TABLE IF NOT EXISTS s(x); INSERT INTO s SELECT randomblob({bytes});
                     DELETE FROM s WHERE rowid % 2"
                )
            }
            Self::Sort => "CREATE TEMP TABLE r AS SELECT DISTINCT hex(x) FROM t ORDER BY 1;
                           DROP TABLE r"
                .to_owned(),
            Self::Savepoint => {
                "BEGIN; UPDATE t SET x = 2; SAVEPOINT s; UPDATE t SET x = zeroblob(999);
                                ROLLBACK TO s; COMMIT"
                    .to_owned()
            }
            Self::RollBack => "BEGIN; DELETE FROM t; ROLLBACK".to_owned(),
            Self::Vacuum => "VACUUM".to_owned(),
            Self::Checkpoint => "PRAGMA wal_checkpoint(TRUNCATE)".to_owned(),
            Self::ByAnother => {
                "UPDATE t SET x = 'another' WHERE id = 1; SELECT count(*) FROM t".to_owned()
            }
            Self::OpenAgain => String::new(),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..60_000_u32).prop_map(Step::Insert),
        Just(Step::UpdateOne),
        Just(Step::InBoth),
        (1..60_000_u32).prop_map(Step::Temporary),
        Just(Step::Sort),
        Just(Step::Savepoint),
        Just(Step::RollBack),
        Just(Step::Vacuum),
        Just(Step::Checkpoint),
        Just(Step::ByAnother),
        Just(Step::OpenAgain),
    ]
}

/// A connection with a tiny cache and an attached database. What fails fails.
fn open(registration: &Registration, mode: &str, locking: &str) -> rusqlite::Result<Connection> {
    let flags = rusqlite::OpenFlags::default();
    let connection = Connection::open_with_flags_and_vfs("a.db", flags, registration.name())?;
    connection.busy_timeout(Duration::ZERO)?;
    connection.execute_batch(&format!(
        "PRAGMA cache_size = 5; PRAGMA temp_store = FILE; PRAGMA synchronous = EXTRA;
         ATTACH '/b.db' AS b; PRAGMA locking_mode = {locking}; PRAGMA journal_mode = {mode};
         PRAGMA temp.cache_size = 5; PRAGMA b.synchronous = EXTRA;
         CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x);
         CREATE TABLE IF NOT EXISTS b.u(x); INSERT INTO t(x) VALUES (0)"
    ))?;
    Ok(connection)
}

/// Runs the steps, and gives what was counted and what was recorded below. Each
/// `fails_each`th call fails, if it is not 0.
fn run(mode: &str, locking: &str, steps: &[Step], fails_each: u32) -> (IoStats, Tally) {
    let calls = AtomicU32::new(0);
    let hook = move |call| {
        let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = fails_each > 0 && number.is_multiple_of(fails_each);
        match call {
            Call::Close(_) => Ok(()),
            Call::Delete if fails => Err(VfsError::IO_SYNC_FOLDER),
            _ if fails => Err(VfsError::IO),
            _ => Ok(()),
        }
    };
    let (counters, log) = (IoCounters::new(), Log::default());
    let recording = Recording::new(Hooked::new(MemoryVfs::default(), hook), &log);
    let vfs = Counted::new(recording, &counters);
    let registration = register(&unique("steps"), vfs).unwrap();
    let mut connection = open(&registration, mode, locking);
    for step in steps {
        let outcome = match (&connection, step) {
            (Ok(_), Step::OpenAgain) | (Err(_), _) => {
                drop(connection);
                connection = open(&registration, mode, locking);
                Ok(())
            }
            (Ok(_), Step::ByAnother) => open(&registration, mode, "normal")
                .and_then(|another| another.execute_batch(&step.sql()))
                // It is locked out as long as the other one is exclusive.
                .or(if locking == "exclusive" {
                    Ok(())
                } else {
                    Err(rusqlite::Error::InvalidQuery)
                }),
            (Ok(connection), step) => {
                let outcome = connection.execute_batch(&step.sql());
                if !connection.is_autocommit() {
                    let _ = connection.execute_batch("ROLLBACK");
                }
                outcome
            }
        };
        assert!(outcome.is_ok() || fails_each > 0, "{step:?}: {outcome:?}");
    }
    drop(connection);
    drop(registration);
    (counters.snapshot(), log.tally())
}

const MODES: [&str; 4] = ["delete", "truncate", "persist", "wal"];
const LOCKINGS: [&str; 2] = ["normal", "exclusive"];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn counts_are_those_of_a_list_of_all_calls(
        mode in prop::sample::select(&MODES), locking in prop::sample::select(&LOCKINGS),
        steps in prop::collection::vec(step(), 1..25),
        fails_each in prop_oneof![Just(0_u32), 20..400_u32],
    ) {
        let (stats, recorded) = run(mode, locking, &steps, fails_each);
        prop_assert_eq!(tally_of(&stats), recorded);
        for (_, io) in stats.kinds() {
            for (operation, io) in io.operations() {
                let is_timed = !["folder_sync", "map"].contains(&operation);
                let timed_calls = if is_timed { io.calls } else { 0 };
                prop_assert_eq!(io.latency.calls(), timed_calls, "{}", operation);
            }
        }
    }
}

/// So that the property above is known to speak of every figure that SQLite can make.
#[test]
fn all_kinds_and_operations_are_seen() {
    let steps = [
        Step::Insert(50_000),
        Step::InBoth,
        Step::Temporary(50_000),
        Step::Savepoint,
        Step::Sort,
        Step::ByAnother,
        Step::Checkpoint,
    ];
    let mut seen = Tally::new();
    for mode in MODES {
        let (stats, recorded) = run(mode, "normal", &steps, 0);
        assert_eq!(tally_of(&stats), recorded);
        seen.extend(recorded);
    }
    let seen: Vec<String> = seen.keys().map(|(kind, name)| format!("{kind} {name}")).collect();
    let mut expected = vec![
        "database lock",
        "database open",
        "database read",
        "database stat",
        "database sync",
        "database write",
        "journal delete",
        "journal open",
        "journal read",
        "journal stat",
        "journal sync",
        "journal truncate",
        "journal write",
        "super_journal delete",
        "super_journal open",
        "super_journal stat",
        "super_journal sync",
        "super_journal write",
        "temp open",
        "temp read",
        "temp stat",
        "temp write",
        "wal delete",
        "wal lock",
        "wal map",
        "wal open",
        "wal read",
        "wal stat",
        "wal sync",
        "wal truncate",
        "wal write",
    ];
    if cfg!(unix) {
        expected.extend(["journal folder_sync", "super_journal folder_sync", "wal folder_sync"]);
    }
    for name in expected {
        assert!(seen.contains(&name.to_owned()), "{name} is not among {seen:#?}");
    }
}

/// Mapped pages are counted as such, and read no more.
#[test]
fn pages_that_are_mapped_are_counted_too() {
    let folder = tempfile::tempdir().unwrap();
    let (counters, log) = (IoCounters::new(), Log::default());
    let vfs = Counted::new(Recording::new(PlatformVfs::new(), &log), &counters);
    let registration = register(&unique("mapped"), vfs).unwrap();
    let connection = through(&registration, folder.path().join("a.db"));
    connection.execute_batch("PRAGMA mmap_size = 100000000").unwrap();
    work(&connection);
    let before = counters.snapshot();
    rows(&connection);
    drop((connection, registration));
    let since = counters.snapshot().since(&before).database;
    assert!(since.map.calls > 0 && since.map.bytes > 0, "{since:?}");
    assert_eq!(since.map.latency.calls(), 0);
    assert_eq!(tally_of(&counters.snapshot()), log.tally());
}

/// Two threads share a database, two have their own; another thread reads the counters
/// meanwhile.
#[test]
fn threads_count_together_and_lose_nothing() {
    let (counters, log) = (IoCounters::new(), Log::default());
    let vfs = Counted::new(Recording::new(MemoryVfs::default(), &log), &counters);
    let registration = register(&unique("threads"), vfs).unwrap();
    set_journal_mode(&through(&registration, "shared.db"), "wal");
    std::thread::scope(|scope| {
        let writers = ["shared.db", "shared.db", "c.db", "d.db"].map(|path| {
            let registration = &registration;
            scope.spawn(move || {
                let connection = through(registration, path);
                connection.busy_timeout(Duration::from_secs(60)).unwrap();
                connection.execute_batch("CREATE TABLE IF NOT EXISTS t(x)").unwrap();
                for i in 0..300 {
                    connection.execute("INSERT INTO t VALUES (?1)", [i]).unwrap();
                }
            })
        });
        let mut before = IoStats::default();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let now = counters.snapshot();
            let (before_total, now_total) = (before.total(), now.total());
            for ((name, before), (_, now)) in before_total.operations().zip(now_total.operations())
            {
                assert!(now.calls >= before.calls && now.bytes >= before.bytes, "{name}");
                assert!(now.latency.max >= before.latency.max, "{name}");
            }
            before = now;
        }
    });
    drop(registration);
    let stats = counters.snapshot();
    assert_eq!(tally_of(&stats), log.tally());
    assert!(stats.wal.write.calls >= 1200 && stats.journal.delete.calls >= 600, "{stats}");
}

/// Both ways to the disk of a process count in one place.
#[test]
fn several_layers_count_together_and_clones_are_the_same_counters() {
    let (counters, vfs) = (IoCounters::new(), Arc::new(MemoryVfs::default()));
    let clone = counters.clone();
    let one = register(&unique("one"), Counted::new(Arc::clone(&vfs), &counters)).unwrap();
    let two = register(&unique("two"), Counted::new(vfs, &clone)).unwrap();
    for registration in [&one, &two] {
        drop(through(registration, "a.db"));
    }
    assert_eq!(counters.snapshot().database.open.calls, 2);
    assert_eq!(counters.snapshot(), clone.snapshot());
}

/// What a slow call took is seen where it was slow.
#[test]
fn times_are_those_of_the_calls() {
    let slow = Duration::from_millis(20);
    let counters = IoCounters::new();
    let below = leafpress_vfs::SlowSync::new(MemoryVfs::default(), slow);
    let registration = register(&unique("slow"), Counted::new(below, &counters)).unwrap();
    let connection = through(&registration, "a.db");
    connection.execute_batch("PRAGMA synchronous = EXTRA; CREATE TABLE t(x)").unwrap();
    let stats = counters.snapshot();
    assert!(stats.database.sync.latency.quantile(0.0) >= slow, "{stats}");
    assert!(stats.journal.delete.latency.max >= slow, "{stats}");
    assert!(stats.database.sync.latency.total >= slow * stats.database.sync.calls as u32);
}

/// The bytes on the disk do not depend on who counts.
#[test]
fn the_files_are_those_of_the_platforms_vfs() {
    let folder = tempfile::tempdir().unwrap();
    for mode in MODES {
        let path = |name: &str| folder.path().join(format!("{name}-{mode}.db"));
        let counters = IoCounters::new();
        let vfs = Counted::new(PlatformVfs::new(), &counters);
        let registration = register(&unique("files"), vfs).unwrap();
        let counted = through(&registration, path("counted"));
        let plain = Connection::open(path("plain")).unwrap();
        for connection in [&counted, &plain] {
            set_journal_mode(connection, mode);
            work(connection);
        }
        drop((counted, plain));
        let bytes = [path("counted"), path("plain")].map(|path| std::fs::read(path).unwrap());
        assert!(bytes[0] == bytes[1], "{mode}");
        assert!(counters.snapshot().database.write.bytes >= bytes[0].len() as u64);
    }
}

#[test]
fn a_busy_session_is_counted_as_it_is_recorded() {
    let (counters, log) = (IoCounters::new(), Log::default());
    let vfs = Counted::new(Recording::new(MemoryVfs::default(), &log), &counters);
    let registration = register(&unique("session"), vfs).unwrap();
    busy_session(&registration).unwrap();
    drop(registration);
    assert_eq!(tally_of(&counters.snapshot()), log.tally());
}
