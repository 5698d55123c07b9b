use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

use super::*;

struct Database {
    folder: TempDir,
    writer: Connection,
}

impl Database {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let writer = Connection::open(folder.path().join("a.db")).unwrap();
        writer
            .execute_batch(
                "PRAGMA journal_mode=WAL; CREATE TABLE t(a);
                 INSERT INTO t VALUES(1), (2), (3), (4), (5)",
            )
            .unwrap();
        Self { folder, writer }
    }

    fn pool(&self, size_max: usize) -> ReaderPool {
        let limits = ReaderLimits { size_max, wait_max: Duration::from_millis(5) };
        ReaderPool::new(self.path(), None, limits, OnConnect::default())
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.db")
    }
}

fn count(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

fn idle(pool: &ReaderPool) -> usize {
    pool.shared.state().idle.len()
}

#[test]
fn a_reader_reads_and_cannot_write() {
    let database = Database::new();
    let pool = database.pool(2);
    let reader = pool.get(None).unwrap();
    assert_eq!(count(&reader), 5);
    let refused = reader.execute("INSERT INTO t VALUES(6)", []).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly));
    let pages: i64 = reader.query_row("PRAGMA wal_autocheckpoint", [], |row| row.get(0)).unwrap();
    assert_eq!(pages, 0);
}

#[test]
fn a_connection_comes_back_with_its_statements_and_sees_new_rows() {
    let database = Database::new();
    let pool = database.pool(1);
    let reader = pool.get(None).unwrap();
    assert_eq!(count(&reader), 5);
    drop(reader);
    assert_eq!(idle(&pool), 1);
    database.writer.execute("INSERT INTO t VALUES(6)", []).unwrap();
    assert_eq!(count(&pool.get(None).unwrap()), 6);
    assert_eq!(idle(&pool), 1);
}

#[test]
fn a_transaction_left_open_is_rolled_back() {
    let database = Database::new();
    let pool = database.pool(1);
    let reader = pool.get(None).unwrap();
    reader.execute_batch("BEGIN; SAVEPOINT a").unwrap();
    assert_eq!(count(&reader), 5);
    drop(reader);
    database.writer.execute("INSERT INTO t VALUES(6)", []).unwrap();
    let reader = pool.get(None).unwrap();
    assert!(reader.is_autocommit());
    assert_eq!(count(&reader), 6);
    assert_eq!(pool.oldest().map(|it| it.in_transaction), Some(false));
}

#[test]
fn connections_that_cannot_be_reset_are_closed() {
    let database = Database::new();
    let pool = database.pool(1);
    let reader = pool.get(None).unwrap();
    reader.execute_batch("ATTACH ':memory:' AS other").unwrap();
    drop(reader);
    assert_eq!(idle(&pool), 0);
    let reader = pool.get(None).unwrap();
    reader.execute_batch("PRAGMA query_only=OFF").unwrap();
    drop(reader);
    assert_eq!(idle(&pool), 0);
    let reader = pool.get(None).unwrap();
    let mut statement = reader.prepare("SELECT a FROM t").unwrap();
    let mut rows = statement.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    // Rows that are never dropped leave their statement running.
    std::mem::forget(rows);
    std::mem::forget(statement);
    drop(reader);
    assert_eq!(idle(&pool), 0);
    assert_eq!(pool.oldest(), None);
}

#[test]
fn names_are_those_given_or_the_place_of_the_call() {
    let database = Database::new();
    let pool = database.pool(2);
    let here = pool.get(None).unwrap();
    let line = line!() - 1;
    let oldest = pool.oldest().unwrap();
    assert!(Path::new(&oldest.name).ends_with(format!("readers/tests.rs:{line}")), "{oldest}");
    assert!(oldest.to_string().starts_with(&format!("{} for ", oldest.name)), "{oldest}");
    drop(here);
    let _report = pool.get(Some("report")).unwrap();
    assert_eq!(pool.oldest().unwrap().name, "report");
}

#[test]
fn the_oldest_is_the_one_that_went_first_unless_a_later_one_is_in_a_transaction() {
    let database = Database::new();
    let pool = database.pool(3);
    let oldest = || pool.oldest().map(|it| (it.name, it.in_transaction));
    assert_eq!(oldest(), None);
    let first = pool.get(Some("first")).unwrap();
    let second = pool.get(Some("second")).unwrap();
    let third = pool.get(Some("third")).unwrap();
    assert_eq!(oldest(), Some(("first".to_owned(), false)));
    third.execute_batch("BEGIN").unwrap();
    assert_eq!(oldest(), Some(("third".to_owned(), true)));
    second.execute_batch("BEGIN").unwrap();
    assert_eq!(oldest(), Some(("second".to_owned(), true)));
    drop(second);
    third.execute_batch("COMMIT").unwrap();
    assert_eq!(oldest(), Some(("first".to_owned(), false)));
    drop(first);
    assert_eq!(oldest(), Some(("third".to_owned(), false)));
}

#[test]
fn a_statement_that_is_stepped_through_is_a_read_transaction() {
    let database = Database::new();
    let pool = database.pool(1);
    let in_transaction = || pool.oldest().is_some_and(|it| it.in_transaction);
    let reader = pool.get(None).unwrap();
    let mut statement = reader.prepare("SELECT a FROM t").unwrap();
    assert!(!in_transaction());
    let mut rows = statement.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    assert!(in_transaction());
    while rows.next().unwrap().is_some() {
        assert!(in_transaction());
    }
    assert!(!in_transaction());
    drop(rows);
    let mut rows = statement.query([]).unwrap();
    assert!(rows.next().unwrap().is_some());
    assert!(in_transaction());
    // Dropped before its end.
    drop(rows);
    assert!(!in_transaction());
}

#[test]
fn transactions_are_seen_by_their_words_and_corrected_at_the_next_use() {
    let database = Database::new();
    let pool = database.pool(1);
    let in_transaction = || pool.oldest().is_some_and(|it| it.in_transaction);
    let reader = pool.get(None).unwrap();
    for (sql, expected) in [
        ("begin; SELECT a FROM t", true),
        (" SAVEPOINT inner", true),
        ("ROLLBACK TO inner", true),
        ("RELEASE inner", true),
        ("ROLLBACK", false),
        ("BEGIN; SELECT a FROM t; END", false),
        ("savepoint outer", true),
        ("ROLLBACK TRANSACTION TO outer", true),
        ("COMMIT", false),
    ] {
        reader.execute_batch(sql).unwrap();
        assert_eq!(in_transaction(), expected, "{sql}");
    }
    reader.execute_batch("/* hidden */ BEGIN").unwrap();
    assert!(!in_transaction());
    assert!(!reader.is_autocommit());
    assert!(in_transaction());
    reader.execute_batch("ROLLBACK").unwrap();
    // It fails, and its word is wrong until the reader is used.
    reader.execute_batch("SELECT a FROM t").unwrap();
    reader.execute_batch("BEGIN TRANSACTION; BEGIN").unwrap_err();
    assert!(in_transaction());
    reader.execute_batch("COMMIT").unwrap();
    reader.execute_batch("SELECT a FROM missing").unwrap_err();
    assert!(!in_transaction());
}

#[test]
fn when_all_are_out_the_error_names_the_holders() {
    let database = Database::new();
    let pool = database.pool(2);
    let report = pool.get(Some("report")).unwrap();
    report.execute_batch("BEGIN").unwrap();
    let _export = pool.get(Some("export")).unwrap();
    let error = pool.get(Some("third")).unwrap_err().to_string();
    assert!(error.contains("all 2 are out"), "{error}");
    assert!(error.starts_with("no reader became free within "), "{error}");
    let message = error.lines().find(|line| line.contains("are out")).unwrap();
    let holders = message.split_once("are out: ").unwrap().1;
    let holder = |name: &str| holders.split("; ").find(|it| it.starts_with(name));
    assert!(holder("report for ").unwrap().ends_with(" s, in a read transaction"), "{error}");
    assert!(holder("export for ").unwrap().ends_with(" s"), "{error}");
    assert_eq!(holder("third"), None, "{error}");
    drop(report);
    assert_eq!(count(&pool.get(None).unwrap()), 5);
}

#[test]
fn a_waiting_thread_gets_the_reader_that_comes_back() {
    let database = Database::new();
    let limits = ReaderLimits { size_max: 2, wait_max: Duration::from_secs(3_600) };
    let pool = ReaderPool::new(database.path(), None, limits, OnConnect::default());
    let out = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let reader = pool.get(None).unwrap();
                    assert!(out.fetch_add(1, Ordering::SeqCst) < 2);
                    assert_eq!(count(&reader), 5);
                    out.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(idle(&pool) <= 2 && idle(&pool) >= 1);
    assert!(pool.shared.state().out.is_empty());
}

#[test]
fn functions_of_one_borrower_do_not_reach_the_next() {
    use rusqlite::functions::FunctionFlags;

    let database = Database::new();
    let pool = database.pool(1);
    let call = "SELECT secret(7)";
    let reader = pool.get(None).unwrap();
    let secret = |context: &rusqlite::functions::Context<'_>| Ok(context.get::<i64>(0)? * 2);
    reader.create_scalar_function("secret", 1, FunctionFlags::SQLITE_UTF8, secret).unwrap();
    assert_eq!(reader.query_row(call, [], |row| row.get::<_, i64>(0)).unwrap(), 14);
    drop(reader);
    assert_eq!(idle(&pool), 0);
    let error = pool.get(None).unwrap().query_row(call, [], |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("no such function: secret"), "{error}");
    // A function of SQLite itself is no reason to close a connection.
    let reader = pool.get(None).unwrap();
    let own = "SELECT upper('a'), count(*), sum(1) OVER (), json('{}'), bm25(t) IS 1 FROM t";
    let _ = reader.prepare(own);
    reader.query_row("SELECT UPPER('a') || max(1, 2) || like('a', 'b')", [], |_| Ok(())).unwrap();
    reader.query_row("SELECT count(*), json('{}') FROM sqlite_schema", [], |_| Ok(())).unwrap();
    drop(reader);
    assert_eq!(idle(&pool), 1);
}

#[test]
fn a_failure_to_open_leaves_the_place_free() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ReaderLimits { size_max: 1, wait_max: Duration::ZERO };
    let pool =
        ReaderPool::new(folder.path().join("missing.db"), None, limits, OnConnect::default());
    for _ in 0..3 {
        let error = pool.get(None).unwrap_err().to_string();
        assert!(error.contains("missing.db"), "{error}");
    }
    let pool = ReaderPool::new(
        folder.path().join("a.db"),
        Some("no such".to_owned()),
        limits,
        OnConnect::default(),
    );
    assert!(pool.get(None).unwrap_err().to_string().contains("no such vfs"));
    assert_eq!(pool.oldest(), None);
}

#[test]
fn a_closed_pool_lends_nothing_and_closes_what_comes_back() {
    let database = Database::new();
    let pool = database.pool(2);
    let reader = pool.get(None).unwrap();
    drop(pool.get(None).unwrap());
    assert_eq!(idle(&pool), 1);
    pool.close();
    assert_eq!(idle(&pool), 0);
    assert_eq!(count(&reader), 5);
    drop(reader);
    assert_eq!(idle(&pool), 0);
    assert!(pool.get(None).unwrap_err().to_string().contains("closed"));
}

#[test]
fn a_function_of_the_holder_stops_its_reads_and_no_other_ones() {
    const LONG: &str =
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 1000000)
                        SELECT count(*) FROM n";
    let database = Database::new();
    let pool = database.pool(1);
    let mut reader = pool.get(None).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let times = Arc::clone(&asked);
    reader.stop_when(move || times.fetch_add(1, Ordering::Relaxed) == 2).unwrap();
    let read = |reader: &Reader| reader.query_row(LONG, [], |row| row.get::<_, i64>(0));
    let stopped = read(&reader).unwrap_err();
    assert_eq!(stopped.sqlite_error_code(), Some(ErrorCode::OperationInterrupted));
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert_eq!(read(&reader).unwrap(), 1_000_000, "the next read begins anew");
    let asked_before = asked.load(Ordering::Relaxed);
    drop(reader);
    assert_eq!(idle(&pool), 1);
    assert_eq!(read(&pool.get(None).unwrap()).unwrap(), 1_000_000);
    assert_eq!(asked.load(Ordering::Relaxed), asked_before, "the next holder is not asked");
}
