//! Destinations that cannot be written, and moments at which they cannot.

use leafpress_testing::Mount;

use super::*;

fn inspect_error(path: &Path) -> String {
    inspect(path, WAIT).and_then(|it| it.refuse_unless_writable()).unwrap_err().to_string()
}

#[test]
fn what_is_no_database_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.db");
    assert!(inspect_error(&path).starts_with("cannot open "));
    assert!(inspect_error(folder.path()).contains("is a directory"));
    std::fs::write(&path, "name,age\nAda,36\n".repeat(100)).unwrap();
    assert!(inspect_error(&path).contains("is not a database"), "{}", inspect_error(&path));
    let mut state = 1_u64;
    let random: Vec<u8> = (0..8192)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as u8
        })
        .collect();
    std::fs::write(&path, random).unwrap();
    assert!(inspect_error(&path).contains("looks encrypted"), "{}", inspect_error(&path));
    std::fs::write(&path, "").unwrap();
    let empty = inspect(&path, WAIT).unwrap();
    assert!(empty.objects.is_empty() && empty.refuse_unless_writable().is_ok());
}

#[test]
fn a_damaged_database_is_refused() {
    let place = Place::new(OLD).press(4096, 100);
    let mut bytes = std::fs::read(&place.database).unwrap();
    bytes[100..4096].fill(0x5a);
    std::fs::write(&place.database, &bytes).unwrap();
    let error = inspect_error(&place.database);
    assert!(error.contains("is damaged") && error.contains("leafpress verify"), "{error}");
    assert_eq!(std::fs::read(&place.database).unwrap(), bytes);
}

#[test]
fn a_locked_database_is_refused_after_the_wait() {
    for journal in ["WAL", "DELETE"] {
        let place = Place::new(&format!("PRAGMA journal_mode={journal}; {OLD}")).press(4096, 100);
        let writer = open(&place.database);
        writer.execute_batch("BEGIN IMMEDIATE; UPDATE old SET a = 1").unwrap();
        let existing = inspect(&place.database, WAIT).unwrap();
        for error in [
            existing.refuse_unless_writable().unwrap_err(),
            move_in(&existing, &place.staged("new"), &settings()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("locked by another program"), "{error}");
            assert_eq!(error.state_on_disk(), Some("the database is as it was"));
        }
        writer.execute_batch("ROLLBACK").unwrap();
        place.expect_moved("new");
    }
}

#[test]
fn a_reader_sees_the_old_state_and_then_the_new_one() {
    for journal in ["WAL", "DELETE"] {
        let place = Place::new(&format!("PRAGMA journal_mode={journal}; {OLD}")).press(4096, 100);
        let reader = open(&place.database);
        reader.execute_batch("BEGIN; SELECT count(*) FROM old").unwrap();
        let outcome = place.move_in("new");
        // An open reader holds up a commit in rollback mode only.
        assert_eq!(outcome.is_ok(), journal == "WAL", "{outcome:?}");
        assert!(!has_table(&reader, "new"));
        assert_eq!(ask::<i64>(&reader, "SELECT count(*) FROM old"), 500);
        reader.execute_batch("COMMIT").unwrap();
        if outcome.is_err() {
            assert!(!has_table(&reader, "new"));
            place.expect_moved("new");
        }
        assert_eq!(ask::<i64>(&reader, "SELECT count(*) FROM \"new\""), 100);
        assert_sound(&place.database);
    }
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let cases = [
        ("CREATE TABLE NEW(a)", "there is a table NEW already"),
        ("CREATE VIEW new AS SELECT * FROM old", "there is a view new already"),
        ("CREATE INDEX new ON old(a)", "there is an index new already"),
    ];
    for (sql, reason) in cases {
        let place = Place::new(&format!("{OLD} {sql}")).press(4096, 10);
        let error = place.move_in("new").unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    // Taken between the inspection and the move, and then by one of the indexes.
    for (sql, reason) in [
        ("CREATE TABLE new(a)", "a table new was made by another program meanwhile"),
        ("CREATE TABLE \"in'dex\"(a)", "a table in'dex was made by another program meanwhile"),
    ] {
        let place = Place::new(OLD).stage(RICH);
        let existing = inspect(&place.database, WAIT).unwrap();
        open(&place.database).execute_batch(sql).unwrap();
        let before = std::fs::read(&place.database).unwrap();
        let error = move_in(&existing, &place.staged("new"), &settings()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!(std::fs::read(&place.database).unwrap(), before);
    }
}

#[test]
fn a_trigger_of_that_name_is_no_hindrance() {
    let setup = format!("{OLD} CREATE TRIGGER new AFTER INSERT ON old BEGIN SELECT 1; END");
    Place::new(&setup).press(4096, 10).expect_moved("new");
}

#[test]
fn rows_that_break_a_foreign_key_are_refused() {
    let stage = "CREATE TABLE new(a REFERENCES old(a)); INSERT INTO new VALUES (3), (501)";
    for (setup, is_copied) in [("", false), ("PRAGMA page_size=1024;", true)] {
        let place =
            Place::new(&format!("{setup} {OLD} CREATE UNIQUE INDEX u ON old(a)")).stage(stage);
        let before = std::fs::read(&place.database).unwrap();
        let error = place.move_in("new").unwrap_err().to_string();
        assert!(error.contains("row 2 of new refers to a row of old that is not there"), "{error}");
        assert_eq!(std::fs::read(&place.database).unwrap(), before);
        open(&place.database).execute_batch("INSERT INTO old VALUES (501, 'x')").unwrap();
        let outcome = place.expect_moved("new");
        assert_eq!(outcome.path.contains("copied"), is_copied);
    }
}

#[test]
fn a_stopped_move_changes_nothing() {
    for journal in ["WAL", "DELETE"] {
        let place = Place::new(&format!("PRAGMA journal_mode={journal}; {OLD}")).press(512, 400);
        let existing = inspect(&place.database, WAIT).unwrap();
        let settings = settings();
        settings.cancel.cancel();
        let error = move_in(&existing, &place.staged("new"), &settings).unwrap_err();
        assert!(matches!(error.kind(), crate::ErrorKind::Cancelled), "{error}");
        assert!(!has_table(&open(&place.database), "new"));
        assert_sound(&place.database);
    }
}

#[test]
fn a_damaged_staged_file_is_refused() {
    let place = Place::new(OLD).press(4096, 300);
    // Its rows are counted while they can be.
    let staged = place.staged("new");
    let mut bytes = std::fs::read(&place.staged).unwrap();
    let page = 4096 * (bytes.len() / 4096 / 2);
    bytes[page..page + 8].copy_from_slice(&[0xff; 8]);
    std::fs::write(&place.staged, bytes).unwrap();
    let before = std::fs::read(&place.database).unwrap();
    let existing = inspect(&place.database, WAIT).unwrap();
    assert!(move_in(&existing, &staged, &settings()).is_err());
    assert_eq!(std::fs::read(&place.database).unwrap(), before);
}

#[test]
#[cfg(unix)]
fn a_read_only_file_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let place = Place::new(OLD).press(4096, 10);
    let read_only = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(&place.database, read_only).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&place.database).is_ok() {
        // Root may write anything; a connection that may not says the same.
        let target = inspect(&place.database, WAIT).unwrap().target;
        let connection = Connection::open_with_flags(
            &place.database,
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
        );
        let error = connection.unwrap().execute_batch("CREATE TABLE x(a)").unwrap_err();
        let error = target.refused("write", error).to_string();
        assert!(error.contains("cannot be written"), "{error}");
        return;
    }
    assert!(inspect_error(&place.database).contains("you may not write to"));
}

#[test]
#[cfg(target_os = "linux")]
fn read_only_and_full_file_systems_are_refused() {
    let folder = TempDir::new().unwrap();
    let Some(mount) = Mount::new(folder.path(), "size=1m") else {
        leafpress_testing::say_skipped("no file system can be mounted here");
        return;
    };
    for journal in ["WAL", "DELETE"] {
        let place = Place::new("").press(4096, 900);
        let database = folder.path().join(format!("{journal}.db"));
        let setup = format!("PRAGMA journal_mode={journal}; {OLD}");
        open(&database).execute_batch(&with_series(&setup)).unwrap();
        let place = Place { database, ..place };
        let before = std::fs::read(&place.database).unwrap();
        let error = place.move_in("new").unwrap_err();
        assert!(error.to_string().contains("database or disk is full"), "{error}");
        assert_eq!(error.state_on_disk(), Some("the database is as it was"));
        assert_sound(&place.database);
        assert_eq!(std::fs::read(&place.database).unwrap().len(), before.len());
        mount.remount("ro,size=1m");
        let error = inspect_error(&place.database);
        assert!(error.contains("is mounted read-only"), "{journal}: {error}");
        mount.remount("rw,size=1m");
    }
}

/// A database that a backup is restored into while a table is pressed for it: its indexes would be in
/// another order than this database reads them in, and its texts in another encoding.
#[test]
fn a_database_of_another_form_is_refused_at_the_move() {
    for (setup, is_legacy, what) in [
        ("PRAGMA page_size=1024", false, "page size"),
        ("PRAGMA encoding='UTF-16le'", false, "text encoding"),
        ("", true, "schema format"),
    ] {
        let place = Place::new("").stage(RICH);
        let existing = inspect(&place.database, WAIT).unwrap();
        let restored = open(&place.database);
        let legacy = rusqlite::config::DbConfig::SQLITE_DBCONFIG_LEGACY_FILE_FORMAT;
        restored.set_db_config(legacy, is_legacy).unwrap();
        restored.execute_batch(&with_series(&format!("{setup}; {OLD}"))).unwrap();
        drop(restored);
        let before = std::fs::read(&place.database).unwrap();
        let error = move_in(&existing, &place.staged("new"), &settings()).unwrap_err();
        assert!(matches!(error.kind(), crate::ErrorKind::Changed { .. }), "{what}: {error}");
        let says = format!("its {what} was changed by another program meanwhile");
        assert!(error.to_string().contains(&says), "{error}");
        assert_eq!(std::fs::read(&place.database).unwrap(), before);
    }
}

/// A value of another class than its column's undoes the rows of its statement, which go in once more.
#[test]
fn rows_that_sqlite_undoes_are_counted_once() {
    let place = Place::new("CREATE TABLE t(k INTEGER PRIMARY KEY, v)").stage(
        "CREATE TABLE s(k, v); INSERT INTO s SELECT value, 1 FROM series(100);
         UPDATE s SET k = 'x' WHERE k = 50",
    );
    let existing = inspect(&place.database, WAIT).unwrap();
    let names = ["k".to_owned(), "v".to_owned()];
    let into = InsertInto { table: "t", columns: &names, mode: InsertMode::Append };
    let mut refusals = Refusals {
        stops: false,
        with_values: false,
        reads_database: false,
        decide: &mut |_| Ok(()),
    };
    let settings = settings();
    let staged = place.staged("s");
    let outcome = insert_one_by_one(&existing, &staged, &into, &settings, &mut refusals).unwrap();
    assert!(outcome.path.contains("between the rows"), "{}", outcome.path);
    assert_eq!(outcome.rows_changed, 99);
    assert_eq!(settings.rows_done.load(std::sync::atomic::Ordering::Relaxed), 99);
}
