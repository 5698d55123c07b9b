//! A database that is held alone is held, wherever the wish is granted; and where it is not, the
//! error names the holder.

use std::fs;

use super::super::tests::{Place, pragma, request, rows};
use super::*;
use crate::profile::{InForce, Profile, ProfileRequest, open, open_reader};

fn alone(profile: Profile) -> ProfileRequest {
    ProfileRequest { locking: Locking::Exclusive, ..request(profile) }
}

fn journal_of(place: &Place) -> std::path::PathBuf {
    format!("{}-journal", place.path.display()).into()
}

#[test]
fn no_other_connection_reads_or_writes_what_is_held_alone() {
    for profile in [Profile::Rollback, Profile::Rebuildable] {
        for journal_mode in JournalMode::ALL {
            let place = Place::with_database(journal_mode, 4096);
            let (connection, in_force) = open(&place.path, &alone(profile)).unwrap();
            assert_eq!(in_force.locking, Locking::Exclusive);
            assert_eq!(in_force.journal_mode, profile.journal_mode());
            // Also before its first transaction, and between two.
            for _ in 0..2 {
                let other = place.plain();
                let busy = other.query_row("SELECT * FROM t", [], |_| Ok(())).unwrap_err();
                assert_eq!(busy.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
                connection.execute("INSERT INTO t VALUES (2)", []).unwrap();
            }
            assert_eq!(in_force, InForce::read(&connection, profile).unwrap());
            connection.close().unwrap();
            assert_eq!(rows(&place.plain()), 3);
        }
    }
}

#[test]
fn an_empty_file_is_held_without_a_byte_written() {
    let place = Place::new();
    let wanted = ProfileRequest { page_size: Some(8192), ..alone(Profile::Rollback) };
    let (connection, in_force) = open(&place.path, &wanted).unwrap();
    assert_eq!((in_force.locking, in_force.page_size_bytes), (Locking::Exclusive, 8192));
    assert_eq!(fs::metadata(&place.path).unwrap().len(), 0);
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 1);
    assert!(place.plain().execute_batch("CREATE TABLE theirs(a)").is_err());
    connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(pragma(&connection, "page_size"), "8192");
    connection.close().unwrap();
    assert_eq!(rows(&place.plain()), 1);
}

#[test]
fn shared_is_the_default_and_read_back() {
    for profile in Profile::ALL {
        let place = Place::new();
        let (_kept, in_force) = place.open(profile).unwrap();
        assert_eq!(in_force.locking, Locking::Shared);
        let text = in_force.to_string();
        assert!(text.contains("locking shared: others may read"), "{text}");
        place.plain().execute_batch("CREATE TABLE t(a)").unwrap();
    }
}

#[test]
fn what_is_in_force_says_who_else_may_use_the_database() {
    let place = Place::new();
    let (_kept, in_force) = open(&place.path, &alone(Profile::Rollback)).unwrap();
    let text = in_force.to_string();
    assert!(text.contains("locking exclusive: no other connection may read or write"), "{text}");
    assert_eq!(serde_json::to_value(&in_force).unwrap()["locking"], "exclusive");
}

#[test]
fn a_log_cannot_be_held_alone() {
    for profile in [Profile::Durable, Profile::Relaxed] {
        let place = Place::new();
        let error = open(&place.path, &alone(profile)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("needs a second connection"), "{text}");
        assert!(text.contains("choose the profile rollback, or shared locking"), "{text}");
        assert_eq!(error.state_on_disk(), Some("nothing was changed"));
        assert!(!place.path.exists());
    }
}

#[test]
fn the_process_in_the_way_is_looked_for() {
    for begin in ["BEGIN; SELECT * FROM t", "BEGIN IMMEDIATE; INSERT INTO t VALUES (2)"] {
        let place = Place::with_database(JournalMode::Delete, 4096);
        let other = place.plain();
        other.execute_batch(begin).unwrap();
        let error = open(&place.path, &alone(Profile::Rollback)).unwrap_err().to_string();
        assert!(error.contains("cannot be had alone"), "{error}");
        assert!(error.contains("held by another connection: "), "{error}");
        assert!(error.contains("fuser"), "{error}");
        other.execute_batch("COMMIT").unwrap();
        let before = rows(&other);
        // A connection that only stands by is not in the way.
        let (connection, _) = open(&place.path, &alone(Profile::Rollback)).unwrap();
        assert_eq!(rows(&connection), before);
    }
}

#[test]
fn a_journal_that_a_crash_left_is_rolled_back_by_who_holds_alone() {
    let source = Place::with_database(JournalMode::Delete, 4096);
    let writer = source.plain();
    writer.execute_batch("PRAGMA cache_size=2; BEGIN; UPDATE t SET a = zeroblob(40000)").unwrap();
    let crashed = Place::new();
    fs::copy(&source.path, &crashed.path).unwrap();
    fs::copy(journal_of(&source), journal_of(&crashed)).unwrap();
    let (connection, _) = open(&crashed.path, &alone(Profile::Rollback)).unwrap();
    let bytes: i64 = connection.query_row("SELECT length(a) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(bytes, 3 * 4096);
    assert_eq!(pragma(&connection, "integrity_check"), "ok");
}

#[test]
fn everything_of_sqlite_s_stays_possible() {
    let (place, beside) = (Place::new(), Place::new());
    let (connection, _) = open(&place.path, &alone(Profile::Rollback)).unwrap();
    connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
    connection.execute("ATTACH ?1 AS other", [beside.path.to_str().unwrap()]).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE other.t(a);
             BEGIN; INSERT INTO main.t VALUES (2); INSERT INTO other.t VALUES (2); COMMIT;",
        )
        .unwrap();
    // Only the database itself is held.
    assert_eq!(rows(&beside.plain()), 1);
    connection.execute_batch("DETACH other; VACUUM; PRAGMA journal_mode=WAL").unwrap();
    connection.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    assert_eq!(rows(&connection), 3);
    // SQLite keeps the lock as long as the log is there.
    connection.execute_batch("PRAGMA journal_mode=DELETE; PRAGMA locking_mode=NORMAL").unwrap();
    assert_eq!(rows(&connection), 3);
    assert_eq!(ask_locking(&connection).unwrap(), Locking::Shared);
    assert_eq!(rows(&open_reader(&place.path, None).unwrap()), 3);
}

#[test]
fn a_small_connection_keeps_few_pages() {
    for profile in Profile::ALL {
        let place = Place::with_database(JournalMode::Delete, 4096);
        let wanted = ProfileRequest { small: true, ..request(profile) };
        let (connection, in_force) = open(&place.path, &wanted).unwrap();
        assert!(in_force.small && in_force.to_string().contains("memory: small"), "{in_force}");
        for _ in 0..50 {
            connection.execute("INSERT INTO t VALUES (randomblob(3000))", []).unwrap();
        }
        assert_eq!(in_force, InForce::read(&connection, profile).unwrap());
        assert_eq!(pragma(&connection, "integrity_check"), "ok");
        drop(connection);
        assert!(!place.open(profile).unwrap().1.small);
        // The fault of a file is told as always.
        fs::write(&place.path, [0x5a; 4096]).unwrap();
        let error = open(&place.path, &wanted).unwrap_err().to_string();
        assert!(error.contains("not a database") || error.contains("name another file"), "{error}");
    }
}
