//! The connection of the inspection, and what becomes of it.

use super::*;

/// Leaves a mark in the connection that is kept.
fn mark(existing: &Existing) {
    let held = existing.target.hold().unwrap();
    held.connection.execute_batch("CREATE TEMP TABLE mark(a)").unwrap();
    existing.target.kept.keep(held);
}

fn is_marked(connection: &Connection) -> bool {
    connection.prepare("SELECT * FROM temp.mark").is_ok()
}

#[test]
fn the_connection_of_the_inspection_makes_the_change() {
    for journal in ["WAL", "DELETE"] {
        let place = Place::new(&format!("PRAGMA journal_mode={journal}; CREATE TABLE t(k, v)"));
        let existing = inspect(&place.database, WAIT).unwrap();
        mark(&existing);
        describe_table(&existing, "t").unwrap();
        existing.refuse_unless_writable().unwrap();
        let opened = || existing.target.open_for_bulk(&settings()).unwrap();
        let connection = opened();
        assert!(is_marked(&connection), "{journal}");
        // What the look whether it can be written left behind.
        assert_eq!(ask::<i64>(&connection, "PRAGMA synchronous"), 3, "{journal}");
        assert!(!is_marked(&opened()), "{journal}: one change has it");
        mark(&existing);
        let other = existing.target.open_to_change(&settings()).unwrap();
        assert!(!is_marked(&other) && !is_marked(&opened()), "{journal}: another way to open it");
    }
}

#[test]
#[cfg(unix)]
fn a_database_that_took_the_name_meanwhile_gets_the_rows() {
    for journal in ["WAL", "DELETE"] {
        let setup = format!("PRAGMA journal_mode={journal}; CREATE TABLE t(k, v);");
        let place = Place::new(&setup).stage("CREATE TABLE s(k, v); INSERT INTO s VALUES (1, 2)");
        let another = Place::new(&format!("{setup} INSERT INTO t VALUES (3, 4)"));
        let existing = inspect(&place.database, WAIT).unwrap();
        mark(&existing);
        std::fs::rename(&another.database, &place.database).unwrap();
        let names = ["k".to_owned(), "v".to_owned()];
        let into = InsertInto { table: "t", columns: &names, mode: InsertMode::Append };
        insert(&existing, &place.staged("s"), &into, false, &settings()).unwrap();
        let count = "SELECT count(*) FROM t";
        assert_eq!(ask::<i64>(&open(&place.database), count), 2, "{journal}");
    }
}

#[test]
fn a_dry_run_does_not_get_the_connection() {
    let place = Place::new("PRAGMA journal_mode=WAL; CREATE TABLE t(k)");
    let mut existing = inspect(&place.database, WAIT).unwrap();
    mark(&existing);
    existing.only_try(place.database.parent().unwrap()).unwrap();
    let connection = existing.target.open_for_bulk(&settings()).unwrap();
    assert!(!is_marked(&connection));
    connection.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(ask::<i64>(&open(&place.database), "SELECT count(*) FROM t"), 0);
}

#[test]
fn others_may_leave_wal_mode_once_the_connection_is_let_go() {
    let place = Place::new("PRAGMA journal_mode=WAL; CREATE TABLE t(k)");
    let existing = inspect(&place.database, WAIT).unwrap();
    let other = open(&place.database);
    other.busy_timeout(WAIT).unwrap();
    let leave = || -> Option<String> {
        other.query_row("PRAGMA journal_mode=DELETE", [], |row| row.get(0)).ok()
    };
    assert_ne!(leave().as_deref(), Some("delete"));
    existing.let_go();
    assert_eq!(leave().as_deref(), Some("delete"));
}
