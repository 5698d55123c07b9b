//! New tables, moved in or copied.

use super::*;

#[test]
fn pressed_tables_move_into_databases_of_every_kind() {
    for journal in JOURNALS {
        for page_bytes in [512, 1024, 4096, 65536] {
            let place = Place::new(&format!(
                "PRAGMA page_size={page_bytes}; PRAGMA journal_mode={journal}; {OLD}"
            ))
            .press(page_bytes, 300);
            let outcome = place.expect_moved("new");
            assert!(outcome.path.contains("moved in"), "{}", outcome.path);
        }
    }
}

#[test]
fn indexes_sequences_and_statistics_move_too() {
    for journal in ["WAL", "DELETE"] {
        for page_bytes in [512, 4096] {
            for mode in ["NONE", "FULL", "INCREMENTAL"] {
                let setup = format!(
                    "PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum={mode};
                     PRAGMA journal_mode={journal}; {OLD}"
                );
                let stage = format!("PRAGMA page_size={page_bytes}; {RICH}");
                let place = Place::new(&setup).stage(&stage);
                let outcome = place.expect_moved("new");
                assert!(outcome.path.contains("moved in"), "{}", outcome.path);
                let connection = open(&place.database);
                let staged = open(&place.staged);
                for sql in [
                    "SELECT seq FROM sqlite_sequence WHERE name = 'new'",
                    "SELECT group_concat(idx || stat) FROM (SELECT * FROM sqlite_stat1 WHERE tbl = 'new' ORDER BY idx)",
                ] {
                    assert_eq!(
                        ask::<String>(&connection, &format!("SELECT CAST(({sql}) AS TEXT)")),
                        ask::<String>(&staged, &format!("SELECT CAST(({sql}) AS TEXT)"))
                    );
                }
                // What is allocated next must not be one of the new pages.
                let more = "INSERT INTO old SELECT value, randomblob(500) FROM series(400);
                    DELETE FROM \"new\" WHERE id % 3 = 0; DROP TABLE old; PRAGMA incremental_vacuum;";
                connection.execute_batch(&with_series(more)).unwrap();
                drop(connection);
                assert_sound(&place.database);
            }
        }
    }
}

#[test]
fn without_rowid_tables_move() {
    let stage = "CREATE TABLE \"new\"(a, b TEXT COLLATE NOCASE, c, PRIMARY KEY(b DESC, a)) WITHOUT ROWID;
        CREATE INDEX c ON \"new\"(c);
        INSERT INTO \"new\" SELECT value, hex(randomblob(abs(random()) % 4000)), value FROM series(700);";
    for mode in ["NONE", "FULL"] {
        let place = Place::new(&format!("PRAGMA auto_vacuum={mode}; {OLD}")).stage(stage);
        assert!(place.expect_moved("new").path.contains("moved in"));
    }
}

#[test]
fn free_pages_are_used_before_the_file_grows() {
    for mode in ["NONE", "INCREMENTAL"] {
        for (page_bytes, journal) in [(512, "DELETE"), (4096, "WAL"), (65536, "DELETE")] {
            for gone in [0, 1, 20, 400, 4000] {
                let setup = format!(
                    "PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum={mode};
                     PRAGMA journal_mode={journal}; {OLD}
                     CREATE TABLE gone(x); INSERT INTO gone SELECT randomblob(value * 37 % 4000) FROM series({gone});
                     CREATE TABLE kept AS SELECT value FROM series(500); DROP TABLE gone;"
                );
                let place =
                    Place::new(&setup).stage(&format!("PRAGMA page_size={page_bytes}; {RICH}"));
                let pages =
                    |name: &str| ask::<u32>(&open(&place.database), &format!("PRAGMA {name}"));
                let (pages_before, free_before) = (pages("page_count"), pages("freelist_count"));
                assert!(place.expect_moved("new").path.contains("moved in"));
                let (pages_after, free_after) = (pages("page_count"), pages("freelist_count"));
                let what = format!(
                    "{mode} {page_bytes} {gone}: {pages_before} pages, {free_before} free; {pages_after}, {free_after}"
                );
                assert!(free_before > 0 && free_after < free_before, "{what}");
                assert!(pages_after == pages_before || free_after == 0, "{what}");
                open(&place.database).execute_batch("PRAGMA incremental_vacuum").unwrap();
                assert_sound(&place.database);
                open(&place.database).execute_batch("VACUUM").unwrap();
                assert_sound(&place.database);
            }
        }
    }
}

#[test]
fn empty_tables_and_empty_databases() {
    let place = Place::new("").stage("CREATE TABLE \"new\"(a); CREATE INDEX i ON \"new\"(a)");
    assert_eq!(std::fs::metadata(&place.database).unwrap().len(), 0);
    assert_eq!(place.expect_moved("new").rows_changed, 0);
    let place = Place::new("").stage(RICH);
    place.expect_moved("new");
}

#[test]
fn what_cannot_be_moved_is_copied_and_says_why() {
    let cases = [
        ("PRAGMA encoding='UTF-16'", "the database's texts are UTF-16"),
        ("PRAGMA encoding='UTF-16be'; PRAGMA auto_vacuum=FULL", "the database's texts are UTF-16"),
        ("PRAGMA page_size=1024", "its pages have 1024 bytes and the pressed ones 4096"),
        ("", "the database has an old schema format"),
    ];
    for journal in ["WAL", "DELETE"] {
        for (setup, reason) in cases {
            for table in [
                RICH,
                "CREATE TABLE \"new\"(a PRIMARY KEY, b AS (a || 'x'), c) WITHOUT ROWID;
                 INSERT INTO \"new\" SELECT hex(value), value FROM series(300); CREATE INDEX i ON \"new\"(b)",
                "CREATE TABLE \"new\"(rowid, oid); INSERT INTO \"new\"(_rowid_, oid)
                 SELECT value * 3, value FROM series(300)",
                "CREATE TABLE \"new\"(a, b); INSERT INTO \"new\" SELECT value, value FROM series(300)",
                "CREATE TABLE \"new\"(a, b); CREATE INDEX i ON \"new\"(a DESC);
                 INSERT INTO \"new\"(rowid, a) SELECT value * 3, value FROM series(300)",
            ] {
                let place = Place::new("");
                let connection = open(&place.database);
                connection.set_db_config(LEGACY, reason.contains("old schema")).unwrap();
                let setup = format!("{setup}; PRAGMA journal_mode={journal}; {OLD}");
                connection.execute_batch(&with_series(&setup)).unwrap();
                drop(connection);
                let outcome = place.stage(table).expect_moved("new");
                assert!(outcome.path.ends_with(reason), "{setup} {table}: {}", outcome.path);
            }
        }
    }
}

#[test]
fn a_table_of_2000_columns_is_copied_too() {
    let columns: Vec<_> = (0..2000).map(|number| format!("c{number}")).collect();
    let stage = format!(
        "CREATE TABLE \"new\"({}); CREATE INDEX i ON \"new\"(c7);
         INSERT INTO \"new\"(c7) SELECT 30 - value FROM series(20)",
        columns.join(", ")
    );
    for setup in ["PRAGMA encoding='UTF-16'", "PRAGMA page_size=1024"] {
        let place = Place::new(&format!("{setup}; {OLD}")).stage(&stage);
        let outcome = place.move_in("new").unwrap();
        assert!(outcome.path.contains("copied"), "{}", outcome.path);
        let sql = "SELECT group_concat(rowid || ' ' || c7) FROM \"new\" NOT INDEXED";
        let [there, staged] =
            [&place.database, &place.staged].map(|path| ask::<String>(&open(path), sql));
        assert_eq!(there, staged);
        assert_sound(&place.database);
    }
}

#[test]
fn a_schema_with_bytes_that_are_not_utf8_takes_tables() {
    let setup = format!(
        "{OLD} CREATE TABLE latin(a /* caf? */); CREATE TRIGGER told AFTER INSERT ON latin BEGIN
         SELECT 'caf?'; END"
    );
    let place = Place::new(&setup).press(4096, 10);
    let connection = open(&place.database);
    let sql = "PRAGMA writable_schema=ON;
        UPDATE sqlite_schema SET sql = CAST(replace(sql, '?', x'e9') AS TEXT) WHERE tbl_name = 'latin'";
    connection.execute_batch(sql).unwrap();
    let is_utf8 =
        connection.query_row("SELECT sql FROM sqlite_schema WHERE name = 'latin'", [], |row| {
            row.get::<_, String>(0)
        });
    assert!(is_utf8.is_err(), "{is_utf8:?}");
    drop(connection);
    place.expect_moved("new");
}

const LEGACY: rusqlite::config::DbConfig =
    rusqlite::config::DbConfig::SQLITE_DBCONFIG_LEGACY_FILE_FORMAT;

#[test]
fn reserved_bytes_are_kept() {
    for (reserved, path) in
        [(0_u8, "moved in"), (32, "its pages have 32 reserved bytes and the pressed ones 0")]
    {
        let place = Place::new("PRAGMA user_version=7");
        let mut bytes = std::fs::read(&place.database).unwrap();
        bytes[20] = reserved;
        bytes[105..107].copy_from_slice(&(4096 - u16::from(reserved)).to_be_bytes());
        std::fs::write(&place.database, bytes).unwrap();
        open(&place.database).execute_batch(&with_series(OLD)).unwrap();
        let place = place.stage(RICH);
        let existing = inspect(&place.database, WAIT).unwrap();
        assert_eq!(existing.reserved_bytes, reserved);
        let outcome = place.expect_moved("new");
        assert!(outcome.path.contains(path), "{}", outcome.path);
        // Staged for the same layout, it can be moved.
        if reserved > 0 {
            std::fs::copy(&place.database, &place.staged).unwrap();
            open(&place.database).execute_batch("DROP TABLE \"new\"").unwrap();
            assert!(place.expect_moved("new").path.contains("moved in"));
        }
    }
}

/// Blows a database of 64 KiB pages up to just below 1 GiB: all that is between is a hole in the
/// file, of which nothing in the database knows.
fn blow_up(database: &Path) {
    const PAGE_BYTES: u32 = 65536;
    const PAGES: u32 = (1 << 30) / PAGE_BYTES - 2;

    let mut bytes = std::fs::read(database).unwrap();
    bytes[28..32].copy_from_slice(&PAGES.to_be_bytes());
    std::fs::write(database, bytes).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(database).unwrap();
    file.set_len(u64::from(PAGES) * u64::from(PAGE_BYTES)).unwrap();
}

/// The pages of which SQLite says that nothing knows of them.
fn pages_never_used(database: &Path) -> Vec<String> {
    let connection = open(database);
    let mut statement = connection.prepare("PRAGMA integrity_check(20000)").unwrap();
    let found = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let found: Vec<String> =
        found.flat_map(|it| it.unwrap().lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    assert!(found.iter().all(|it| it.contains("never used") || it.starts_with("***")), "{found:?}");
    found
}

#[test]
fn new_pages_skip_the_lock_byte_page() {
    for (mode, journal) in [("NONE", "DELETE"), ("INCREMENTAL", "WAL")] {
        let setup = format!(
            "PRAGMA page_size=65536; PRAGMA auto_vacuum={mode}; PRAGMA journal_mode={journal}; {OLD}
             CREATE TABLE gone AS SELECT randomblob(60000) FROM series(9); DROP TABLE gone;"
        );
        let place = Place::new(&setup).stage(&format!("PRAGMA page_size=65536; {RICH}"));
        // SQLite gives the roots free pages in front, which the pointer map knows.
        blow_up(&place.database);
        let before = pages_never_used(&place.database);
        assert!(before.len() > 16_000, "{} pages", before.len());
        assert!(place.move_in("new").unwrap().path.contains("moved in"));
        assert_eq!(pages_never_used(&place.database), before);
        let (staged, moved) = (open(&place.staged), open(&place.database));
        assert!(content(&staged, "new") == content(&moved, "new"));
        let pages: u32 = ask(&moved, "PRAGMA page_count");
        assert!(pages > (1 << 30) / 65536 + 1, "{pages}");
    }
}
