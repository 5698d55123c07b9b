//! Rungs of commits in this process.

use std::path::Path;

use super::rung::{Calls, Scene};
use super::table::Table;
use super::{CommitRung, Committer, left_of_calls};
use crate::report::Safety;
use crate::rung::described::{Described as _, Found, Given};
use crate::rung::result::RungResult;

fn rung(by: Committer, safety: Safety, calls: Calls) -> CommitRung {
    let (scene, table, milliseconds_max) = (Scene::Rate, Table::Plain, u64::from(u32::MAX));
    CommitRung { by, safety, calls, scene, rows: 100, milliseconds_max, table }
}

/// Runs the rung on a new database; the contents that it left must be those expected.
fn run(rung: CommitRung, folder: &Path) -> (RungResult, String) {
    let database = folder.join("calls.db");
    let given = Given { database: &database, input: folder };
    let result = rung.run(&given).unwrap_or_else(|error| panic!("{}: {error}", rung.name()));
    let files: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().collect();
    assert_eq!(files.len(), 1, "{}: {files:?}", rung.name());
    let found = Found { database: &database, input_rows: 0, is_first: true, is_alone: false };
    let left = rung.check(&result, &found).expect("it can be read");
    assert_eq!(left.found, left.expected, "{}", rung.name());
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        std::fs::remove_file(entry.path()).expect("it can be removed");
    }
    (result, left.found)
}

#[test]
fn every_committer_leaves_every_row_under_every_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let work = [
        (Committer::PerCall, Calls::Blocking(1)),
        (Committer::Mutex, Calls::Blocking(3)),
        (Committer::BareGroups, Calls::Blocking(3)),
        (Committer::BareGroups, Calls::InFlight(16)),
        (Committer::SavepointGroups, Calls::InFlight(16)),
        (Committer::OneTransaction, Calls::Blocking(1)),
        (Committer::Leafpress, Calls::Blocking(1)),
        (Committer::Leafpress, Calls::Blocking(3)),
        (Committer::Leafpress, Calls::InFlight(16)),
    ];
    for safety in Safety::ALL {
        for (by, calls) in work {
            let rung = rung(by, safety, calls);
            let (result, found) = run(rung, folder.path());
            let journal_mode = match safety {
                Safety::Durable | Safety::Relaxed => "wal",
                _ => "delete",
            };
            let expected = format!("100 rows, each call's own; {journal_mode}; ok");
            assert_eq!(found, expected, "{}", rung.name());
            assert_eq!(result.rows, 100, "{}", rung.name());
            assert_eq!(result.latency_us.is_some(), by != Committer::OneTransaction);
            assert!(result.series.is_none() && result.wall_s > 0.0, "{result:?}");
        }
    }
}

#[test]
fn every_table_gets_all_that_it_is_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for table in Table::LADEN {
        for (by, calls) in [
            (Committer::OneTransaction, Calls::Blocking(1)),
            (Committer::BareGroups, Calls::InFlight(16)),
            (Committer::Mutex, Calls::Blocking(2)),
            (Committer::Leafpress, Calls::InFlight(16)),
            (Committer::Leafpress, Calls::Closures(16)),
            (Committer::Leafpress, Calls::Many(30)),
        ] {
            // These calls have no statement that computes further columns.
            if matches!(calls, Calls::Many(_)) && table != Table::FullText {
                continue;
            }
            let rung = CommitRung { table, ..rung(by, Safety::Durable, calls) };
            assert!(rung.name().contains(table.name()), "{}", rung.name());
            let (_, found) = run(rung, folder.path());
            assert_eq!(found, "100 rows, each call's own, all done for each; wal; ok");
        }
    }
}

#[test]
fn foreign_keys_are_enforced_and_what_is_not_done_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("calls.db");
    let writer = crate::connect::open_writer(Safety::Durable, &database, None).expect("it opens");
    writer.execute_batch(Table::ForeignKeys.schema()).expect("a table");
    let no_parent = "INSERT INTO call(tenant, item) VALUES (-1, 0)";
    writer.execute(no_parent, ()).expect_err("there is no such tenant");
    writer.close().expect("it closes");
    for (table, sql) in [
        (Table::Trigger, "DROP TRIGGER call_logged"),
        (Table::ForeignKeys, "PRAGMA foreign_keys = OFF; DELETE FROM tenant"),
        (Table::FiveIndexes, "DROP INDEX call_code"),
        (
            Table::FullText,
            "DROP TABLE call; CREATE VIRTUAL TABLE call USING fts5(caller, n, text UNINDEXED)",
        ),
    ] {
        std::fs::remove_file(&database).expect("it can be removed");
        let connection = rusqlite::Connection::open(&database).expect("it opens");
        connection.execute_batch(&format!("{}; {sql}", table.schema())).expect("a table");
        let call = super::Call::new(0, 0);
        connection.execute(table.insert(), rusqlite::params![0, 0, call.text()]).expect("a row");
        drop(connection);
        let found = super::check::left_in_table(&database, table).expect("it can be read");
        assert!(found.contains("0 of it done"), "{table:?}: {found}");
    }
}

#[test]
fn every_scene_keeps_its_course() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for scene in [Scene::Course, Scene::NoCheckpoints, Scene::LongReader, Scene::ShortReaders] {
        let rung = rung(Committer::PerCall, Safety::Relaxed, Calls::Blocking(1));
        let rung = CommitRung { scene, rows: 1500, ..rung };
        let (result, found) = run(rung, folder.path());
        assert_eq!(found, "1500 rows, each call's own; wal; ok", "{scene:?}");
        let course = result.series.expect("a course");
        assert!(course.max_us.iter().flatten().count() > 0, "{scene:?}");
        let wal_bytes_max = result.wal_bytes_max.expect("the WAL was watched");
        assert!(wal_bytes_max > 4096, "{scene:?}: {wal_bytes_max}");
        // 1,000 pages are the limit of the autocheckpoint.
        let grows = scene == Scene::NoCheckpoints;
        assert!(!grows || wal_bytes_max > 1500 * 4096, "{scene:?}: {wal_bytes_max}");
    }
}

#[test]
fn a_slow_sync_takes_its_time_for_the_rival_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rung = rung(Committer::PerCall, Safety::Durable, Calls::Blocking(1));
    let rung = CommitRung { scene: Scene::SlowSyncs, rows: 5, ..rung };
    let (result, found) = run(rung, folder.path());
    assert_eq!(found, "5 rows, each call's own; wal; ok");
    let latency = result.latency_us.expect("calls");
    // Never less than what is slept.
    assert!(latency.p50 >= 20_000.0, "{latency:?}");
}

#[test]
fn the_check_finds_what_is_missing_and_what_is_out_of_order() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("calls.db");
    let found_after = |sql: &str| {
        let _ = std::fs::remove_file(&database);
        let connection = rusqlite::Connection::open(&database).expect("it opens");
        connection.execute_batch(super::TABLE).expect("a table");
        let rows = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)];
        for (caller, n) in rows {
            let call = super::Call::new(caller, n);
            let row = rusqlite::params![caller, n as i64, call.text()];
            connection.execute(super::INSERT, row).expect("a row");
        }
        connection.execute_batch(sql).expect("it is done");
        drop(connection);
        left_of_calls(&database).expect("it can be read")
    };
    assert_eq!(found_after(""), "5 rows, each call's own; delete; ok");
    assert!(found_after("DELETE FROM call WHERE id = 3").starts_with("call 2 of caller 0"));
    assert!(found_after("DELETE FROM call WHERE id = 5").starts_with("4 rows"));
    assert!(found_after("UPDATE call SET text = 'x' WHERE id = 4").contains("caller 1"));
    assert!(found_after("UPDATE call SET n = 1 WHERE id = 1").starts_with("call 1 of caller 0"));
    let twice = "INSERT INTO call(caller, n, text) SELECT caller, n, text FROM call WHERE id = 5";
    assert!(found_after(twice).starts_with("call 2 of caller 0"));
}

#[test]
fn names_say_who_and_how() {
    let name = |by, calls| rung(by, Safety::Durable, calls).name();
    assert_eq!(name(Committer::Leafpress, Calls::Blocking(1)), "durable, leafpress, 1 blocking");
    assert_eq!(name(Committer::PerCall, Calls::Blocking(1)), "durable, SQL, one commit a call");
    let pipelined = name(Committer::BareGroups, Calls::InFlight(4096));
    assert_eq!(pipelined, "durable, SQL, bare groups, 4096 in flight");
}
