//! Loads whose indexes, or whose last transaction, take longer than rows of groups stay.
//!
//! 1. The row of such a group stays as long as its load waits for it.
//! 2. If it is deleted all the same, the load says that the outcome is unknown.
//! 3. No other load drops the staging table meanwhile.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leafpress::{ErrorKind, Result};
use leafpress_rqlite::load::{Destination, Mode, OnProgress, Progress, Sent};
use rusqlite::Connection;

use super::floor::{MINUTE_MS, count, write_groups};
use super::server::{Fault, Server};

const ROWS: i64 = 50;

/// A file with a table of that name, as a load presses it.
fn pressed(folder: &Path, table: &str) -> std::path::PathBuf {
    let path = folder.join(table);
    let file = Connection::open(&path).unwrap();
    let make = format!(
        "CREATE TABLE {table}(id INTEGER PRIMARY KEY, name TEXT);
         CREATE INDEX {table}_name ON {table}(name);
         WITH RECURSIVE row(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM row WHERE id < {ROWS})
         INSERT INTO {table} SELECT id, 'name ' || id FROM row"
    );
    file.execute_batch(&make).unwrap();
    path
}

fn load(server: &Server, folder: &Path, table: &str) -> Result<Sent> {
    load_with(server, folder, table, None, &mut |_| Ok(()))
}

fn load_with(
    server: &Server,
    folder: &Path,
    table: &str,
    mode: Option<Mode>,
    on_progress: OnProgress<'_>,
) -> Result<Sent> {
    let address = server.url.parse().unwrap();
    let destination = Destination::look(&address, Some(table), mode, true)?;
    let columns = ["id", "name"].map(str::to_owned);
    destination.load(&pressed(folder, table), table, &columns, false, on_progress)
}

/// Loads a table, and carries out `meanwhile` while the request that holds `text` is not answered.
fn load_while(
    server: &Server,
    (text, fault): (&'static str, Fault),
    meanwhile: impl FnOnce(&Path),
) -> Result<Sent> {
    let folder = tempfile::tempdir().unwrap();
    server.plan(text, fault);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load(server, folder.path(), "people"));
        let begun = Instant::now();
        while !server.is_past_plans() {
            assert!(begun.elapsed() < Duration::from_secs(5), "the load has not come so far");
            std::thread::sleep(Duration::from_millis(5));
        }
        // The server applies it in this time.
        std::thread::sleep(Duration::from_millis(100));
        meanwhile(folder.path());
        load.join().unwrap()
    })
}

const LAST: &str = "RENAME TO";
const INDEX: &str = "CREATE INDEX people_name";
const PEOPLE: &str = "SELECT count(*) FROM people";
const STAGES: &str = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '_leafpress_load_%'";

fn time_passes(server: &Server, minutes: i64) {
    server.clock_ms.fetch_add(minutes * MINUTE_MS, Ordering::Relaxed);
    // Writers that go on delete old rows.
    write_groups(server);
}

#[test]
fn the_row_of_a_last_transaction_stays_as_long_as_the_load_waits() {
    let server = Server::start(0, 1);
    let sent = load_while(&server, (LAST, Fault::Silent), |_| time_passes(&server, 30)).unwrap();
    assert_eq!((sent.rows as i64, count(&server, PEOPLE)), (ROWS, ROWS));
}

#[test]
fn a_last_transaction_whose_row_was_deleted_has_an_unknown_outcome() {
    let server = Server::start(0, 1);
    let done = load_while(&server, (LAST, Fault::Silent), |_| time_passes(&server, 60));
    let error = done.unwrap_err();
    assert_eq!(count(&server, PEOPLE), ROWS);
    assert!(error.is_outcome_unknown(), "{error}");
    let says = error.to_string();
    assert!(says.contains("look whether the rows are in people"), "{says}");
    assert!(!says.contains("as they were"), "{says}");
}

#[test]
fn no_other_load_drops_the_table_of_a_load_that_makes_an_index() {
    for fault in [Fault::Silent, Fault::Held] {
        let server = Server::start(0, 1);
        let sent = load_while(&server, (INDEX, fault), |folder| {
            server.clock_ms.fetch_add(30 * MINUTE_MS, Ordering::Relaxed);
            assert_eq!(load(&server, folder, "other").unwrap().left_over, 0);
        });
        assert_eq!((sent.unwrap().rows as i64, count(&server, PEOPLE)), (ROWS, ROWS));
        assert_eq!(count(&server, STAGES), 0);
    }
}

/// The answer is that of a later request, which was refused; the first one has come meanwhile.
#[test]
fn a_late_last_transaction_counts_though_a_later_request_was_refused() {
    const REFUSED: &str = r#"{"results":[{},{},{"error":"database is full"}]}"#;
    let server = Server::start(0, 1);
    server.plan(LAST, Fault::LostBefore);
    server.plan(LAST, Fault::AnsweredWith(REFUSED));
    let folder = tempfile::tempdir().unwrap();
    let sent = load(&server, folder.path(), "people").unwrap();
    assert_eq!((sent.rows as i64, count(&server, PEOPLE)), (ROWS, ROWS));
    assert!(server.is_past_plans());
}

/// Both are the first loads of a cluster: the other one begins between two questions of this one.
#[test]
fn a_first_load_leaves_the_table_of_another_first_load() {
    const OTHER: &str = "CREATE TABLE _leafpress_applied(session TEXT, number INTEGER,
             attempt INTEGER NOT NULL, at INTEGER NOT NULL, counts TEXT NOT NULL,
             PRIMARY KEY (session, number)) WITHOUT ROWID;
         CREATE TABLE _leafpress_load_01(a);
         INSERT INTO _leafpress_applied VALUES ('01', 1, 0, 1000000000, '')";
    let server = Server::start(0, 1);
    server.plan("name = '_leafpress_applied'", Fault::Then(OTHER));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(load(&server, folder.path(), "people").unwrap().left_over, 0);
    assert!(server.is_past_plans());
    assert_eq!(count(&server, STAGES), 1);
}

/// The cluster answers no group: the load tells of its wait, which can be ended. What may be left is named.
#[test]
fn a_wait_is_told_and_can_be_ended() {
    for (drops, left) in [(true, 0), (false, 1)] {
        let server = Server::start(0, 1);
        server.plan("name 7", Fault::Held);
        if !drops {
            server.plan("DROP TABLE IF EXISTS", Fault::Held);
        }
        let folder = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let error = load_with(&server, folder.path(), "people", None, &mut |progress| {
            let Progress::Waiting(wait) = progress else { return Ok(()) };
            told.push((wait.reason.to_owned(), wait.left > Duration::from_secs(2)));
            Err(ErrorKind::Cancelled.into())
        });
        let error = error.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
        assert_eq!(told[0], ("no answer in time".to_owned(), true));
        let state = error.state_on_disk().unwrap_or_default();
        assert!(state.starts_with("the tables of the cluster are as they were"), "{state}");
        assert_eq!(state.contains("_leafpress_load_"), !drops, "{state}");
        assert_eq!(count(&server, STAGES), left);
    }
}

#[test]
fn a_key_that_is_taken_is_named() {
    let server = Server::start(0, 1);
    let there = "CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT);
                 INSERT INTO people VALUES (9, 'nine'), (99, 'other')";
    server.database.lock().unwrap().execute_batch(there).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let append = Some(Mode::Append);
    let error = load_with(&server, folder.path(), "people", append, &mut |_| Ok(()));
    let says = error.unwrap_err().to_string();
    assert!(says.contains("people.id: the table has a row already with id = 9"), "{says}");
    assert!(says.contains("the tables of the cluster are as they were"), "{says}");
    assert_eq!((count(&server, PEOPLE), count(&server, STAGES)), (2, 0));
}

#[test]
fn the_table_of_a_load_that_was_killed_is_dropped_later() {
    let server = Server::start(0, 1);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(load(&server, folder.path(), "first").unwrap().left_over, 0);
    let left = "CREATE TABLE _leafpress_load_00(a)";
    server.database.lock().unwrap().execute_batch(left).unwrap();
    assert_eq!(load(&server, folder.path(), "second").unwrap().left_over, 1);
}

/// A later load would drop such a table, as one that was left over.
#[test]
fn names_that_are_taken_or_reserved_are_refused() {
    let server = Server::start(0, 1);
    server.database.lock().unwrap().execute_batch("CREATE VIEW v AS SELECT 1").unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["_leafpress_load_00", "_LEAFPRESS_x"] {
        let error = load(&server, folder.path(), name).unwrap_err();
        assert!(error.to_string().contains("belong to Leafpress"), "{error}");
    }
    let error = load(&server, folder.path(), "v").unwrap_err();
    assert!(error.to_string().contains("there is a view v already"), "{error}");
    assert!(!error.advice().unwrap_or_default().contains("append"), "{error}");
    assert_eq!(count(&server, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"), 0);
}
