//! Rungs of one-row transactions in this process.
//!
//! Ours counts by itself, for the whole process, so exact figures of its counters
//! are tested where each rung has a process of its own.

use leafpress::profile::{JournalMode, Locking, Synchronous};

use super::accounting::Layers;
use super::*;
use crate::pragmas::Pragmas;
use crate::report::{FileIo, Memory};

const DELETE_EXTRA: Opener = Opener::Sql(Pragmas::DELETE_EXTRA);

const TRANSACTIONS: u64 = 10;

fn rung(by: Opener, change: Change, locking: Locking) -> AtomicRung {
    AtomicRung {
        by,
        change,
        locking,
        place: Place::Disk,
        transactions: TRANSACTIONS,
        milliseconds_max: u64::from(u32::MAX),
    }
}

fn is(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

/// Runs the rung on a new database, which is checked and must be the only file.
fn run_checked(rung: &dyn Described) -> RungResult {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("a.db");
    let given = Given { database: &database, input: folder.path() };
    let result = rung.run(&given).unwrap_or_else(|error| panic!("{}: {error}", rung.name()));
    let files: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    assert_eq!(files.len(), 1, "{}: {files:?}", rung.name());
    let found = Found { database: &database, input_rows: 0, is_first: true, is_alone: false };
    let left = rung.check(&result, &found).expect("it can be read");
    assert_eq!(left.found, left.expected, "{}", rung.name());
    result
}

/// Runs a rung of transactions to its end.
fn run_whole(rung: AtomicRung) -> RungResult {
    let result = run_checked(&rung);
    assert_eq!(result.rows, TRANSACTIONS, "{}", rung.name());
    assert!(result.latency_us.is_some() && result.wall_s > 0.0, "{result:?}");
    result
}

fn io_of(rung: AtomicRung) -> FileIo {
    let io = run_whole(rung).io.and_then(|io| io.per_transaction);
    io.unwrap_or_else(|| panic!("{} counted nothing", rung.name()))
}

#[test]
fn every_setting_leaves_every_change_and_nothing_else() {
    for journal in JournalMode::ALL {
        for synchronous in Synchronous::ALL {
            for (locking, change) in
                [(Locking::Shared, Change::Insert), (Locking::Exclusive, Change::Update)]
            {
                let io =
                    io_of(rung(Opener::Sql(Pragmas::new(journal, synchronous)), change, locking));
                assert!(io.calls >= 1.0 && io.transactions == TRANSACTIONS, "{io:?}");
                assert!(is(io.calls_of("write_atomic"), 0.0), "{io:?}");
            }
        }
    }
}

#[test]
fn a_journal_is_counted_as_what_it_is() {
    let sql = DELETE_EXTRA;
    let io = io_of(rung(sql, Change::Update, Locking::Shared));
    let calls = |file: &str, call: &str| {
        io.files.get(file).and_then(|calls| calls.get(call)).map_or(0.0, |call| call.calls)
    };
    // The page, and the change counter on the first one.
    assert!(is(calls("database", "write"), 2.0) && is(calls("database", "sync"), 1.0), "{io:?}");
    assert!(is(calls("journal", "open"), 1.0) && is(calls("journal", "delete"), 1.0), "{io:?}");
    assert!(io.calls > 20.0 && io.written_bytes > 4.0 * 4096.0, "{io:?}");
    let page_1_too = io_of(rung(sql, Change::Update, Locking::Exclusive));
    assert!(page_1_too.calls < io.calls, "{page_1_too:?}");
}

#[test]
fn ours_with_a_journal_asks_for_what_sqlite_asks_for() {
    let sql = DELETE_EXTRA;
    for locking in [Locking::Shared, Locking::Exclusive] {
        let theirs = io_of(rung(sql, Change::Update, locking));
        let ours = rung(Opener::Leafpress(Pages::Journal), Change::Update, locking);
        let ours = io_of(ours);
        assert!(is(ours.calls, theirs.calls), "{ours:?} {theirs:?}");
        assert!(is(ours.written_bytes, theirs.written_bytes), "{ours:?} {theirs:?}");
    }
}

#[test]
fn a_disk_that_does_not_give_it_is_said_and_a_small_connection_is_smaller() {
    for pages in [Pages::Journal, Pages::WhereProven, Pages::Assumed] {
        let used = [Opener::Leafpress(pages), Opener::LeafpressSmall(pages)].map(|by| {
            let result = run_whole(rung(by, Change::Update, Locking::Exclusive));
            // In words, if at all: which it is depends on the disk of this machine.
            assert!(pages != Pages::Journal || result.not_given.is_none(), "{result:?}");
            let says_why = result.not_given.as_deref().is_none_or(|why| why.len() > 10);
            assert!(says_why, "{result:?}");
            assert_eq!(result.page_writes.is_some(), pages != Pages::Journal, "{result:?}");
            result.memory.unwrap_or_default()
        });
        // Other figures are of the whole process, with the other tests.
        let slots = used.map(|memory: Memory| memory.lookaside_slots_max);
        assert!(slots[0] > 0 && slots[1] == 0, "{used:?}");
    }
}

#[test]
fn what_the_time_cuts_is_counted_as_often_as_it_was_done() {
    let sql = DELETE_EXTRA;
    let rung = AtomicRung {
        transactions: 1_000_000,
        milliseconds_max: 5,
        ..rung(sql, Change::Insert, Locking::Shared)
    };
    let result = run_checked(&rung);
    assert!((1..1_000_000).contains(&result.rows), "{result:?}");
    let counted = result.io.and_then(|io| io.per_transaction).map(|it| it.transactions);
    assert_eq!(counted, Some(result.rows));
}

#[test]
fn the_layers_leave_the_same_rows() {
    for layers in [Layers::None, Layers::Plain, Layers::Counted] {
        let result = run_checked(&AccountingRung { layers, rows: 500 });
        assert_eq!(result.rows, 500, "{layers:?}");
    }
}
