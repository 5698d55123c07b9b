//! Indexes that were pressed, against those that SQLite makes.

use std::path::Path;

use leafpress_testing::{Entry, TreeReader};
use proptest::prelude::*;
use rusqlite::config::DbConfig;
use rusqlite::types::Value as SqlValue;
use tempfile::TempDir;

use super::*;
use crate::error::ErrorKind;

/// A folder with a database that was made by that SQL.
fn database(sql: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.db");
    let connection = Connection::open(&path).expect("a database");
    connection.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (folder, path)
}

fn open(path: &Path) -> Connection {
    Connection::open(path).expect("a database")
}

/// Records of the index's tree.
fn entries(path: &Path, index: &str) -> Vec<Entry> {
    let connection = open(path);
    // The file holds all of it after this.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("checkpoint");
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root = connection.query_row(sql, [index], |row| row.get(0)).expect("a root page");
    let file = std::fs::read(path).expect("the file");
    TreeReader::new(&file).entries(root)
}

fn assert_sound(path: &Path) {
    let said: String =
        open(path).query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a verdict");
    assert_eq!(said, "ok");
}

/// Builds the index twice, by us and by SQLite on a copy; both must be the same.
fn compare(path: &Path, indexer: Indexer, columns: &str) -> IndexReport {
    compare_beside(path, indexer, columns, None)
}

/// Begins to read an old state. As long as it does so, what is written from now on stays in the log.
fn keep_log(path: &Path) -> Connection {
    let reader = open(path);
    reader.execute_batch("BEGIN; SELECT * FROM sqlite_schema").expect("a snapshot");
    reader
}

/// As `compare`, with a connection that is closed when the index is built.
fn compare_beside(
    path: &Path,
    indexer: Indexer,
    columns: &str,
    beside: Option<Connection>,
) -> IndexReport {
    let copy = path.with_extension("copy");
    let _ = std::fs::remove_file(&copy);
    open(path).execute("VACUUM INTO ?1", [copy.to_str()]).expect("a copy");
    let report = indexer.threads(3).analyze(true).build(columns).unwrap_or_else(|e| panic!("{e}"));
    drop(beside);
    let connection = open(&copy);
    connection.execute_batch(&report.create_sql).expect("CREATE INDEX");
    connection.execute_batch(&format!("ANALYZE \"{}\"", report.index)).expect("ANALYZE");
    assert_eq!(statistics(path, &report.index), statistics(&copy, &report.index));
    drop(connection);
    assert_sound(path);
    assert_eq!(entries(path, &report.index), entries(&copy, &report.index));
    let sql = "SELECT sql FROM sqlite_schema WHERE name = ?1";
    let declared = |path: &Path| -> String {
        open(path).query_row(sql, [&report.index], |row| row.get(0)).expect("a statement")
    };
    assert_eq!(declared(path), declared(&copy));
    assert_eq!(declared(path), report.create_sql);
    report
}

fn statistics(path: &Path, index: &str) -> Option<String> {
    let sql = "SELECT stat FROM sqlite_stat1 WHERE idx = ?1";
    open(path).query_row(sql, [index], |row| row.get(0)).ok()
}

const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ";

#[test]
fn a_large_index_in_each_journal_mode_equals_sqlites() {
    for (mode, page_bytes) in [("delete", 4096), ("wal", 512), ("persist", 1024), ("wal", 65536)] {
        let (_folder, path) = database(&format!(
            "PRAGMA page_size={page_bytes}; PRAGMA journal_mode={mode};
             CREATE TABLE gone(a); INSERT INTO gone {NUMBERS} 200) SELECT hex(randomblob(200)) FROM n;
             CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT, c REAL);
             INSERT INTO t {NUMBERS} 20000) SELECT i * 3 - 30000, i * 7919 % 1000, hex(i % 77), i / 4.0 FROM n;
             DROP TABLE gone;"
        ));
        let report = compare(&path, Indexer::new(&path, "T"), "b NOCASE DESC, a, id, c");
        assert_eq!((report.path.as_str(), report.entries), ("pressed", 20_000));
        assert_eq!(report.index, "t_b_a_id_c");
        assert!(report.pages > 0);
        let mode_after: String =
            open(&path).query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
        assert_eq!(mode_after == "wal", mode == "wal");
        // What the file had free is still free, and is used again.
        open(&path)
            .execute_batch(&format!("INSERT INTO t {NUMBERS} 3000) SELECT NULL, i, i, i FROM n"))
            .expect("more rows");
        assert_sound(&path);
    }
}

#[test]
fn rows_on_overflow_pages_are_indexed() {
    let (_folder, path) = database(&format!(
        "PRAGMA page_size=512;
         CREATE TABLE t(a, long TEXT, b, c);
         INSERT INTO t {NUMBERS} 300)
             SELECT i % 50, replace(hex(zeroblob(i % 40 * 40)), '0', char(65 + i % 26)), 1000 - i, i FROM n;"
    ));
    for columns in ["a", "b", "long", "c DESC, long"] {
        let report = compare(&path, Indexer::new(&path, "t"), columns);
        assert_eq!(report.path, "pressed", "{columns}");
    }
}

#[test]
fn a_log_that_a_reader_keeps_is_read_too() {
    for page_bytes in [512, 4096, 65536] {
        let (_folder, path) = database(&format!(
            "PRAGMA page_size={page_bytes}; PRAGMA journal_mode=WAL; CREATE TABLE t(a, long, b);
             INSERT INTO t {NUMBERS} 3000) SELECT -i, hex(zeroblob(i % 900)), i * 7919 % 3000 FROM n;"
        ));
        let reader = keep_log(&path);
        // It is not copied into the file before the reader ends.
        open(&path)
            .execute_batch("UPDATE t SET b = b + 1 WHERE a % 7 = 0; DELETE FROM t WHERE a % 11 = 0")
            .expect("changes");
        let report = compare_beside(&path, Indexer::new(&path, "t"), "b, a", Some(reader));
        assert_eq!(report.path, "pressed");
        assert_eq!(compare(&path, Indexer::new(&path, "t"), "a").path, "pressed");
    }
}

#[test]
fn a_journal_that_a_program_left_is_rolled_back_first() {
    let (folder, path) = database(&format!(
        "CREATE TABLE t(a, b); INSERT INTO t {NUMBERS} 20000) SELECT i * 7919 % 20000, hex(i) FROM n;"
    ));
    let left = folder.path().join("left.db");
    let writer = open(&path);
    // Changed pages reach the file before the commit.
    writer
        .execute_batch("PRAGMA cache_size=5; BEGIN; UPDATE t SET a = -1, b = b || 'x'")
        .expect("rows");
    std::fs::copy(&path, &left).expect("a copy");
    std::fs::copy(folder.path().join("some.db-journal"), folder.path().join("left.db-journal"))
        .expect("its journal");
    let changed = std::fs::read(&left).expect("the file");
    writer.execute_batch("ROLLBACK").expect("the old state");
    assert_ne!(changed, std::fs::read(&path).expect("the file"));
    assert_eq!(compare(&left, Indexer::new(&left, "t"), "a").path, "pressed");
    let least: i64 = open(&left)
        .query_row("SELECT min(a) FROM t INDEXED BY t_a", [], |row| row.get(0))
        .expect("a row");
    assert_eq!(least, 0);
}

#[test]
fn others_write_and_copy_the_log_meanwhile() {
    for mode in ["wal", "delete"] {
        let (_folder, path) = database(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(a, b);
             INSERT INTO t {NUMBERS} 20000) SELECT i * 7919 % 20000, hex(i) FROM n;"
        ));
        let stop = std::sync::atomic::AtomicBool::new(false);
        let ordering = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            for way in ["PASSIVE", "TRUNCATE"] {
                let (path, stop) = (&path, &stop);
                scope.spawn(move || {
                    let connection = open(path);
                    connection.busy_timeout(Duration::from_millis(1)).expect("a timeout");
                    let change = "UPDATE t SET a = a + 1, b = b || 'y' WHERE rowid % 1999 = 3;
                                  INSERT INTO t VALUES (random() % 20000, 'new')";
                    while !stop.load(ordering) {
                        // Either may find the database busy.
                        let _ = connection.execute_batch(change);
                        let _ = connection
                            .execute_batch(&format!("PRAGMA wal_checkpoint({way}); SELECT 1"));
                        // The index waits for its turn, too.
                        std::thread::sleep(Duration::from_millis(2));
                    }
                });
            }
            for round in 0..4 {
                let indexer = Indexer::new(&path, "t").name(format!("i{round}")).threads(3);
                let indexer = indexer.busy_timeout(Duration::from_secs(60));
                // A column more each time, as an equal index is there already.
                let built = indexer.build(&format!("a{}", ", b".repeat(round)));
                if let Err(error) = &built {
                    stop.store(true, ordering);
                    panic!("{mode}: {error}");
                }
            }
            stop.store(true, ordering);
        });
        assert_sound(&path);
    }
}

#[test]
fn rows_older_than_a_column_have_its_default() {
    let (_folder, path) = database(
        "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2);
         ALTER TABLE t ADD COLUMN b; ALTER TABLE t ADD COLUMN c DEFAULT 'x'; INSERT INTO t VALUES (3, 4, 5);",
    );
    assert_eq!(compare(&path, Indexer::new(&path, "t"), "b,a").path, "pressed");
    let report = compare(&path, Indexer::new(&path, "t"), "c");
    assert_eq!(report.path, "SQL: some rows are older than a column of the index");
    open(&path).execute_batch("UPDATE t SET a = a").expect("new rows");
    open(&path).execute_batch("DROP INDEX t_c").expect("no index");
    let report = compare(&path, Indexer::new(&path, "t"), "c");
    assert_eq!(report.path, "pressed");
}

#[test]
fn small_tables_are_no_exception() {
    for rows in 0..4 {
        let (_folder, path) = database(&format!(
            "CREATE TABLE t(a); INSERT INTO t {NUMBERS} {rows}) SELECT -i FROM n LIMIT {rows};"
        ));
        let report = compare(&path, Indexer::new(&path, "t").unique(true), "a");
        assert_eq!((report.path.as_str(), report.entries), ("pressed", rows));
    }
}

#[test]
fn what_cannot_be_pressed_goes_through_sql() {
    for (sql, reason) in [
        ("PRAGMA auto_vacuum=FULL; CREATE TABLE t(a)", "auto_vacuum"),
        ("PRAGMA encoding='UTF-16'; CREATE TABLE t(a)", "UTF-16"),
        ("CREATE TABLE t(b PRIMARY KEY, a) WITHOUT ROWID", "WITHOUT ROWID"),
        ("CREATE TABLE t(b AS (a) VIRTUAL, a)", "generated"),
    ] {
        let (_folder, path) = database(&format!("{sql}; INSERT INTO t(a) SELECT 1 WHERE 0"));
        let report = compare(&path, Indexer::new(&path, "t"), "a");
        assert!(report.path.starts_with("SQL: "), "{}", report.path);
        assert!(report.path.contains(reason), "{}", report.path);
    }
}

#[test]
fn an_index_made_again_and_again_takes_the_free_pages() {
    let (_folder, path) = database(&format!(
        "PRAGMA page_size=512; CREATE TABLE t(a, b);
         INSERT INTO t {NUMBERS} 9000) SELECT i * 7919 % 9001, hex(i) FROM n"
    ));
    let pages = || -> u32 {
        open(&path).query_row("PRAGMA page_count", [], |row| row.get(0)).expect("a count")
    };
    let (before, mut ways) = (pages(), Vec::new());
    let mut with_index = 0;
    for round in 0..8 {
        let report = compare(&path, Indexer::new(&path, "t"), "b, a");
        ways.push(report.path == "pressed");
        open(&path).execute_batch("DROP INDEX t_b_a").expect("no index");
        with_index = if round == 0 { pages() } else { with_index };
    }
    let index = with_index - before;
    assert!(index > before / 4, "{before} pages, the index has {index}");
    assert!(pages() <= with_index * 4 / 3 + index, "{before}, {with_index}, {}: {ways:?}", pages());
    assert!(ways[0] && !ways[7], "{ways:?}");
}

#[test]
fn rows_that_are_not_unique_are_named_and_nothing_changes() {
    let (_folder, path) = database(&format!(
        "CREATE TABLE t(a TEXT COLLATE NOCASE, b);
         INSERT INTO t {NUMBERS} 3000) SELECT 'x' || i, i % 5 FROM n;
         INSERT INTO t VALUES (NULL, 1), (NULL, 1), ('X77', 2);"
    ));
    let before = std::fs::read(&path).expect("the file");
    let error = Indexer::new(&path, "t").unique(true).build("a, b").expect_err("not unique");
    assert!(matches!(error.kind(), ErrorKind::Constraint { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("rows 77 and 3003 have the same key: 'X77', 2"), "{text}");
    assert_eq!(error.state_on_disk(), Some(UNCHANGED));
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    open(&path).execute("DELETE FROM t WHERE rowid = 77", []).expect("a deletion");
    compare(&path, Indexer::new(&path, "t").unique(true), "a, b");
}

#[test]
fn refusals_say_what_to_do() {
    let (_folder, path) =
        database("CREATE TABLE t(a); CREATE INDEX t_a ON t(a); CREATE VIEW v AS SELECT 1");
    let said = |indexer: Indexer, columns: &str| {
        indexer.build(columns).expect_err("a refusal").to_string()
    };
    assert!(said(Indexer::new(&path, "u"), "a").contains("no table 'u'; tables: t"));
    assert!(said(Indexer::new(&path, "v"), "a").contains("'v' is a view"));
    assert!(said(Indexer::new(&path, "t"), "b").contains("no column 'b'; columns: a"));
    assert!(said(Indexer::new(&path, "t").name("T_A"), "a DESC").contains("called T_A already"));
    let error = Indexer::new(&path, "t").name("new").build("A").expect_err("an equal index");
    assert!(matches!(error.kind(), ErrorKind::TableExists { .. }), "{error}");
    assert!(error.to_string().contains("the index t_a on table t does the same"), "{error}");
    let there = Indexer::new(&path, "t").only_if_missing(true).build("a").expect("it is there");
    assert!(there.existed && there.index == "t_a");
    // It refuses rows with the same values, which the other one does not.
    let report = Indexer::new(&path, "t").unique(true).build("a").expect("another name");
    assert_eq!((report.index.as_str(), report.existed), ("t_a_2", false));
    let writer = open(&path);
    writer.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let locked = Indexer::new(&path, "t").busy_timeout(Duration::from_millis(10));
    assert!(said(locked, "a DESC").contains("locked"));
    let cancelled = CancelToken::new();
    cancelled.cancel();
    writer.execute_batch("COMMIT").expect("no lock");
    let error = Indexer::new(&path, "t").cancel(cancelled).build("a DESC").expect_err("cancelled");
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
}

#[test]
fn a_reader_sees_the_old_state_or_the_new() {
    for mode in ["wal", "delete"] {
        let (_folder, path) = database(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(a);
             INSERT INTO t {NUMBERS} 5000) SELECT i * 37 % 1000 FROM n;"
        ));
        let reader = open(&path);
        let count = "SELECT count(*) FROM t WHERE a = 74";
        let mut statement = reader.prepare(count).expect("a query");
        assert_eq!(statement.query_row([], |row| row.get::<_, i64>(0)), Ok(5));
        let plan = || -> String {
            let sql = format!("EXPLAIN QUERY PLAN {count}");
            reader.query_row(&sql, [], |row| row.get(3)).expect("a plan")
        };
        assert!(plan().starts_with("SCAN"), "{}", plan());
        if mode == "wal" {
            reader.execute_batch("BEGIN; SELECT * FROM t LIMIT 1").expect("a snapshot");
        }
        Indexer::new(&path, "t").build("a").expect("an index");
        if mode == "wal" {
            assert!(plan().starts_with("SCAN"), "{}", plan());
            reader.execute_batch("COMMIT").expect("the end of the snapshot");
        }
        // A statement that runs makes the reader look at the schema again.
        assert_eq!(statement.query_row([], |row| row.get::<_, i64>(0)), Ok(5));
        assert!(plan().contains("USING COVERING INDEX t_a"), "{}", plan());
    }
}

#[test]
fn a_sort_that_spills_makes_the_same_index() {
    let (folder, path) = database(&format!(
        "CREATE TABLE t(a, b); INSERT INTO t {NUMBERS} 150000) SELECT hex(i * 7919 % 150000), i FROM n;"
    ));
    let indexer = Indexer::new(&path, "t").memory(1).tmpdir(folder.path());
    let report = compare(&path, indexer, "a DESC");
    assert_eq!(report.path, "pressed");
}

fn value_strategy() -> impl Strategy<Value = SqlValue> {
    prop_oneof![
        Just(SqlValue::Null),
        (-3..3_i64).prop_map(SqlValue::Integer),
        any::<i64>().prop_map(SqlValue::Integer),
        (-4..4_i8).prop_map(|half| SqlValue::Real(f64::from(half) / 2.0)),
        "[aAbB ]{0,4}".prop_map(SqlValue::Text),
        (0..1500_usize, "[ab]").prop_map(|(length, text)| SqlValue::Text(text.repeat(length))),
        prop::collection::vec(0..3_u8, 0..4).prop_map(SqlValue::Blob),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Any rows, any columns, any page size, UNIQUE or not.
    #[test]
    fn the_index_is_the_one_that_sqlite_makes(
        rows in prop::collection::vec(
            (prop::option::of(any::<i64>()), prop::collection::vec(value_strategy(), 3)), 0..60),
        columns in prop::collection::vec((0..4_u8, 0..4_u8, any::<bool>()), 1..4),
        page_shift in 0..8_u32,
        unique: bool,
        wal: bool,
        keeps_log: bool,
    ) {
        let mode = if wal { "wal" } else { "truncate" };
        let (_folder, path) = database(&format!(
            "PRAGMA page_size={}; PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF;
             CREATE TABLE t(a TEXT COLLATE RTRIM, id INTEGER PRIMARY KEY, b REAL, c)",
            512 << page_shift
        ));
        let connection = open(&path);
        let reader = (wal && keeps_log).then(|| keep_log(&path));
        connection.execute_batch("PRAGMA synchronous=OFF; BEGIN").expect("a transaction");
        for (rowid, values) in &rows {
            let sql = "INSERT OR IGNORE INTO t(id, a, b, c) VALUES (?1, ?2, ?3, ?4)";
            connection.execute(sql, params![rowid, values[0], values[1], values[2]]).expect("a row");
        }
        connection.execute_batch("COMMIT").expect("a commit");
        drop(connection);
        let names = ["a", "id", "b", "c"];
        let collations = ["", " BINARY", " NOCASE", " RTRIM"];
        let part = |&(column, collation, descending): &(u8, u8, bool)| {
            let order = if descending { " DESC" } else { "" };
            format!("{}{}{order}", names[usize::from(column)], collations[usize::from(collation)])
        };
        let columns: Vec<String> = columns.iter().map(part).collect();
        let indexer = Indexer::new(&path, "t").name("i");
        let columns = columns.join(",");
        let is_unique = unique && {
            // SQLite's word for whether the rows are unique.
            let sql = indexer_sql(&columns);
            let connection = open(&path);
            connection.execute_batch("BEGIN").expect("a transaction");
            connection.execute_batch(&sql).is_ok()
        };
        if unique && !is_unique {
            let error = indexer.unique(true).build(&columns).expect_err("not unique").to_string();
            prop_assert!(error.contains("have the same key"), "{}", error);
        } else {
            let report = compare_beside(&path, indexer.unique(is_unique), &columns, reader);
            prop_assert_eq!(report.path, "pressed");
        }
    }
}

#[test]
fn an_index_in_descending_order_of_an_old_schema_format_is_there_already() {
    let (_folder, path) = database("");
    let connection = open(&path);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_LEGACY_FILE_FORMAT, true).unwrap();
    let sql = "VACUUM; CREATE TABLE t(a, b); CREATE INDEX i ON t(a DESC)";
    connection.execute_batch(sql).unwrap();
    drop(connection);
    let indexer = || Indexer::new(&path, "t").only_if_missing(true);
    assert!(indexer().build("a DESC").unwrap().existed);
    assert!(!indexer().build("b DESC").unwrap().existed);
    assert!(indexer().build("b").unwrap().existed, "SQLite passes over DESC there");
}

fn indexer_sql(columns: &str) -> String {
    let names = ["a", "id", "b", "c"].map(ColumnName::from);
    let request = IndexRequest::parse(columns, true, &names).expect("columns of the table");
    request.create_sql("i", "t")
}
