//! Each diagnosis, provoked by a real schema, on a disk that pretends to write pages whole.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use leafpress::profile::Locking;
use leafpress::script::split;
use leafpress::vfs::VfsError;
use leafpress::vfs::VfsResult;
use leafpress::vfs::atomic::{
    AtomicDisk, AtomicFile, AtomicProof, AtomicState, AtomicUnits, FileStamp, NoAtomicWrites,
    Stamp, WhyJournal,
};
use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::causes::Cause;
use super::diagnose::{Case, causes_around};
use super::*;

/// Database files that are never closed, as closing one drops SQLite's locks.
static FILES: Mutex<Option<HashMap<String, Arc<File>>>> = Mutex::new(None);

/// A disk that says that pages of these sizes are written whole.
struct Pretended(AtomicUnits);

struct PretendedFile(AtomicUnits, Arc<File>);

impl AtomicFile for PretendedFile {
    fn units(&self) -> AtomicUnits {
        self.0
    }

    #[cfg(unix)]
    fn write(&self, page: &[u8], offset: u64) -> VfsResult<()> {
        use std::os::unix::fs::FileExt as _;
        self.1.write_all_at(page, offset).map_err(|_| VfsError::IO_WRITE)
    }

    #[cfg(windows)]
    fn write(&self, page: &[u8], offset: u64) -> VfsResult<()> {
        use std::os::windows::fs::FileExt as _;
        let written = self.1.seek_write(page, offset).map_err(|_| VfsError::IO_WRITE)?;
        if written == page.len() { Ok(()) } else { Err(VfsError::IO_WRITE) }
    }
}

impl AtomicDisk for Pretended {
    fn open(
        &self,
        path: &str,
    ) -> VfsResult<std::result::Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        let mut files = FILES.lock().unwrap();
        let files = files.get_or_insert_default();
        let file = File::options().read(true).write(true).open(path).unwrap();
        let file = Arc::clone(files.entry(path.to_owned()).or_insert_with(|| Arc::new(file)));
        Ok(Ok(Arc::new(PretendedFile(self.0, file))))
    }

    fn sync_folder_of(&self, _path: &str) -> VfsResult<()> {
        Ok(())
    }

    fn sync_file(&self, _path: &str) -> VfsResult<()> {
        Ok(())
    }

    fn folder_stamp(&self, _path: &str) -> VfsResult<Option<Stamp>> {
        Ok(Some(Stamp(1)))
    }

    fn file_stamp(&self, _path: &str) -> VfsResult<FileStamp> {
        Ok(FileStamp::Absent)
    }
}

/// A disk without atomic writes.
struct Plain;

impl AtomicDisk for Plain {
    fn open(
        &self,
        _path: &str,
    ) -> VfsResult<std::result::Result<Arc<dyn AtomicFile>, NoAtomicWrites>> {
        Ok(Err(NoAtomicWrites::NotOffered))
    }

    fn sync_folder_of(&self, _path: &str) -> VfsResult<()> {
        Ok(())
    }

    fn sync_file(&self, _path: &str) -> VfsResult<()> {
        Ok(())
    }

    fn folder_stamp(&self, _path: &str) -> VfsResult<Option<Stamp>> {
        Ok(None)
    }

    fn file_stamp(&self, _path: &str) -> VfsResult<FileStamp> {
        Ok(FileStamp::There(None))
    }
}

fn whole_pages(bytes_min: u32, bytes_max: u32) -> Arc<dyn AtomicDisk> {
    Arc::new(Pretended(AtomicUnits { bytes_min, bytes_max, by: AtomicProof::Software }))
}

/// A database in a folder of its own.
struct Scene {
    folder: TempDir,
}

/// The name of each copy is its own, but the test's process may get a path again.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl Scene {
    fn new(schema: &str) -> Self {
        let prefix = format!("io-{}-", NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir().unwrap();
        let scene = Self { folder };
        scene.connect("a.db").execute_batch(schema).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn connect(&self, name: &str) -> Connection {
        Connection::open(self.path(name)).unwrap()
    }

    fn measure(&self, sql: &str, options: &IoOptions) -> Result<IoReport> {
        measure(&self.path("a.db"), &split("test.sql", sql)?, options)
    }

    /// On a disk that writes pages of 4 to 8 KiB whole.
    fn report(&self, sql: &str) -> IoReport {
        self.measure(sql, &atomic()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

fn on_disk(disk: Arc<dyn AtomicDisk>) -> IoOptions {
    IoOptions { disk, ..IoOptions::default() }
}

fn atomic() -> IoOptions {
    on_disk(whole_pages(4096, 8192))
}

fn causes(report: &IoReport) -> Vec<&'static str> {
    report.findings.iter().map(|it| it.cause).collect()
}

/// A table of rows of which five fill a page, and this many of them.
fn table(name: &str, rows: u32) -> String {
    format!(
        "CREATE TABLE {name} (id INTEGER PRIMARY KEY, n INTEGER, fill BLOB);
         WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {rows})
         INSERT INTO {name} SELECT i, 0, zeroblob(700) FROM c;"
    )
}

const ONE_ROW: &str = "UPDATE t SET n = n + 1 WHERE id = 2;";

/// The one finding of a script of one transaction.
fn only_finding(schema: &str, sql: &str) -> Finding {
    let report = Scene::new(schema).report(sql);
    assert_eq!(report.transactions.last().unwrap().findings, [0], "{:#?}", report.findings);
    assert_eq!(report.findings.len(), 1, "{:#?}", report.findings);
    assert_eq!((report.findings[0].transactions, report.findings[0].of), (1, 1));
    report.findings[0].clone()
}

#[test]
fn one_row_is_one_page_in_place() {
    let scene = Scene::new(&table("t", 20));
    let before = fs::read(scene.path("a.db")).unwrap();
    let report = scene.report(&ONE_ROW.repeat(3));
    assert_eq!((report.transactions_total, report.commits.in_place), (3, 3));
    assert_eq!(report.findings, []);
    // The first syncs what others may have left of journals.
    assert_eq!(report.transactions[0].calls.folder_sync, 1);
    for transaction in &report.transactions[1..] {
        assert_eq!(transaction.how, HowCommitted::InPlace);
        // The row's page, and page 1 with the change counter.
        let Calls { write_in_place, write_database, write_journal, sync, .. } = transaction.calls;
        assert_eq!((write_in_place, write_database, write_journal, sync), (2, 0, 0, 1));
        assert_eq!((transaction.pages_changed, transaction.bytes_written), (1, 8192));
    }
    assert_eq!(
        report.summary,
        ["3 of 3 transactions changed one page in place (2 writes, 1 sync, as a rule)"]
    );
    assert!(fs::read(scene.path("a.db")).unwrap() == before, "it ran on a copy");
    assert_eq!(scene.names(), ["a.db"]);

    let alone = scene
        .measure(&ONE_ROW.repeat(3), &IoOptions { locking: Locking::Exclusive, ..atomic() })
        .unwrap();
    let last = &alone.transactions[2];
    assert_eq!((last.calls.writes(), last.calls.sync, last.calls.read), (1, 1, 0), "{last:?}");
}

#[test]
fn an_index_is_a_page_of_its_own() {
    let schema = table("t", 20) + "CREATE INDEX t_by_n ON t (n);";
    let found = only_finding(&schema, ONE_ROW);
    assert_eq!(found.cause, "secondary_index");
    assert_eq!((found.table.as_deref(), found.with.as_deref()), (Some("t"), Some("t_by_n")));
    assert_eq!(found.why, "index t_by_n of table t is a page of its own");

    // An index on what does not change costs nothing.
    let other = table("t", 20) + "CREATE INDEX t_by_id ON t (id);";
    assert_eq!(Scene::new(&other).report(ONE_ROW).commits.in_place, 1);

    let schema = "CREATE TABLE t (id TEXT PRIMARY KEY, n); INSERT INTO t VALUES ('a', 1)";
    let found = only_finding(schema, "INSERT INTO t VALUES ('b', 2)");
    assert!(found.to_do.is_some_and(|it| it.contains("WITHOUT ROWID")));
    let without =
        "CREATE TABLE t (id TEXT PRIMARY KEY, n) WITHOUT ROWID; INSERT INTO t VALUES ('a', 1)";
    assert_eq!(Scene::new(without).report("INSERT INTO t VALUES ('b', 2)").commits.in_place, 1);
}

#[test]
fn a_sqlite_without_dbstat_leaves_the_rules_of_the_schema() {
    let schema = table("t", 20) + "CREATE INDEX t_by_n ON t (n);" + &table("other", 20);
    let report = Scene::new(&schema)
        .measure(ONE_ROW, &IoOptions { with_dbstat: false, ..atomic() })
        .unwrap();
    assert_eq!(causes(&report), ["secondary_index"]);
    assert_eq!(report.findings[0].with.as_deref(), Some("t_by_n"));
}

#[test]
fn autoincrement_is_a_page_of_its_own() {
    let schema =
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, n); INSERT INTO t VALUES (1, 1)";
    let found = only_finding(schema, "INSERT INTO t (n) VALUES (2)");
    assert_eq!((found.cause, found.table.as_deref()), ("autoincrement", Some("t")));
}

#[test]
fn tables_that_are_written_too_are_named_with_their_reason() {
    let two = table("t", 20) + &table("audit", 5);
    let found = only_finding(
        &two,
        &format!("BEGIN; {ONE_ROW} UPDATE audit SET n = 1 WHERE id = 1; COMMIT"),
    );
    assert_eq!(found.cause, "several_tables");
    assert!(found.why.ends_with("audit, t"), "{}", found.why);

    let trigger = "CREATE TRIGGER noted AFTER UPDATE ON t BEGIN
                   UPDATE audit SET n = new.n WHERE id = 1; END;";
    let found = only_finding(&(two.clone() + trigger), ONE_ROW);
    assert_eq!((found.cause, found.table.as_deref()), ("trigger", Some("audit")));
    assert_eq!(found.with.as_deref(), Some("noted"));

    let keys =
        "CREATE TABLE child (id INTEGER PRIMARY KEY, t INTEGER REFERENCES t ON DELETE CASCADE);
                INSERT INTO child VALUES (1, 2), (2, 3);";
    let found = only_finding(
        &(table("t", 20) + keys),
        "PRAGMA foreign_keys=ON; DELETE FROM t WHERE id = 2",
    );
    assert_eq!((found.cause, found.table.as_deref()), ("foreign_key", Some("child")));
    assert_eq!(found.with.as_deref(), Some("t"));
}

#[test]
fn more_pages_of_one_table_are_told_apart() {
    let insert = "INSERT INTO t (n, fill) VALUES (1, zeroblob(700));";
    let report = Scene::new(&table("t", 20)).report(&insert.repeat(20));
    assert_eq!(causes(&report), ["page_split"]);
    let splits = report.findings[0].transactions;
    assert!((3..=5).contains(&splits), "five rows fill a page: {splits}");
    assert_eq!(report.commits.in_place + splits, 20);

    let long = only_finding(&table("t", 20), "UPDATE t SET fill = zeroblob(9000) WHERE id = 20");
    assert_eq!((long.cause, long.table.as_deref()), ("overflow", Some("t")));

    let found = only_finding(&table("t", 20), "UPDATE t SET n = 1 WHERE id IN (2, 18)");
    assert_eq!(found.cause, "several_pages");

    let report = Scene::new(&table("t", 100)).report("DELETE FROM t WHERE id BETWEEN 20 AND 60");
    assert!(causes(&report).contains(&"pages_freed"), "{:?}", report.findings);
}

#[test]
fn auto_vacuum_keeps_a_map() {
    let schema = format!("PRAGMA auto_vacuum=FULL; {}", table("t", 20));
    let report = Scene::new(&schema).report("UPDATE t SET fill = zeroblob(9000) WHERE id = 20");
    assert!(causes(&report).contains(&"auto_vacuum"), "{:?}", report.findings);
    assert_eq!(Scene::new(&schema).report(ONE_ROW).commits.in_place, 1);
}

#[test]
fn attached_databases_are_copied_too_and_need_a_super_journal() {
    let scene = Scene::new(&table("t", 20));
    scene.connect("b.db").execute_batch(&table("u", 20)).unwrap();
    let before = fs::read(scene.path("b.db")).unwrap();
    let other = scene.path("b.db");
    let report = scene.report(&format!(
        "ATTACH '{}' AS b; BEGIN; {ONE_ROW} UPDATE b.u SET n = 1 WHERE id = 2; COMMIT;
         UPDATE b.u SET n = 2 WHERE id = 2; DETACH b;
         ATTACH '{}' AS new; CREATE TABLE new.v (x)",
        other.display(),
        scene.path("new.db").display()
    ));
    assert_eq!(report.commits.super_journal, 1, "{report:?}");
    assert_eq!(report.transactions[1].how, HowCommitted::SuperJournal);
    assert_eq!(report.findings[report.transactions[1].findings[0]].cause, "attached_databases");
    assert!(fs::read(other).unwrap() == before);
    assert_eq!(scene.names(), ["a.db", "b.db"], "the new one was a copy's too");

    fs::write(scene.path("c.db"), "a,b\n").unwrap();
    let attach = format!("ATTACH '{}' AS c", scene.path("c.db").display());
    let error = scene.measure(&attach, &atomic()).unwrap_err().to_string();
    assert!(error.contains("is not a database"), "{error}");
}

#[test]
fn nothing_leads_past_the_copies() {
    let scene = Scene::new(&table("t", 5));
    scene.connect("b.db").execute_batch(&table("u", 5)).unwrap();
    let platform = if cfg!(windows) { "win32" } else { "unix" };
    let other = scene.path("b.db").display().to_string();
    let new = scene.path("new.db").display().to_string();
    for sql in [
        format!("ATTACH 'file:{other}?vfs={platform}' AS b; UPDATE b.u SET n = 1"),
        format!("ATTACH 'fi' || 'le:{other}?vfs={platform}' AS b; UPDATE b.u SET n = 1"),
        format!("VACUUM INTO 'file:{new}?vfs={platform}'"),
        format!("VACUUM INTO 'fi' || 'le:{new}?vfs={platform}'"),
    ] {
        let error = scene.measure(&sql, &atomic()).unwrap_err().to_string();
        assert!(error.contains("must be a copy too"), "{sql}: {error}");
    }
    scene.report(&format!("VACUUM INTO '{new}'; ATTACH ':memory:' AS m; VACUUM"));
    assert_eq!(scene.names(), ["a.db", "b.db"]);
    let n: i64 =
        scene.connect("b.db").query_row("SELECT max(n) FROM u", [], |row| row.get(0)).unwrap();
    assert_eq!(n, 0);
    // A caller that names the database itself may do it.
    let sql = format!("ATTACH 'file:{other}?vfs={platform}' AS b; UPDATE b.u SET n = 1");
    scene.measure(&sql, &IoOptions { in_place: true, ..atomic() }).unwrap();
}

#[test]
fn the_schema_is_never_one_page() {
    let found = only_finding(&table("t", 5), "CREATE TABLE u (x)");
    assert_eq!((found.cause, found.to_do), ("schema_change", None));
}

#[test]
fn a_page_size_that_the_disk_does_not_write_whole_is_named() {
    let schema = format!("PRAGMA page_size=1024; {}", table("t", 5));
    let found = only_finding(&schema, ONE_ROW);
    assert_eq!(found.cause, "page_size");
    assert_eq!(found.to_do.as_deref(), Some("PRAGMA page_size=4096; VACUUM"));
    let options = on_disk(whole_pages(512, 65536));
    let report = Scene::new(&schema).measure(ONE_ROW, &options).unwrap();
    assert_eq!(report.commits.in_place, 1, "{:?}", report.findings);
    let schema = format!("PRAGMA page_size=16384; {}", table("t", 5));
    let found = only_finding(&schema, ONE_ROW);
    assert!(found.why.contains("16384") && found.why.contains("4096 to 8192"), "{}", found.why);
}

#[test]
fn a_disk_without_atomic_writes_is_named_with_what_it_would_bring() {
    let options = on_disk(Arc::new(Plain));
    let report = Scene::new(&table("t", 20)).measure(ONE_ROW, &options).unwrap();
    assert_eq!(causes(&report), ["no_atomic_writes"]);
    assert!(report.findings[0].to_do.as_ref().unwrap().contains("leafpress storage"));
    assert_eq!((report.commits.journal, report.commits.of_one_page), (1, 1));
    assert!(report.summary[1].contains("changed a single page"), "{:?}", report.summary);
}

#[test]
fn a_journal_that_stays_open_is_named() {
    let sql = format!(
        "UPDATE t SET n = 1; {ONE_ROW} {ONE_ROW}
                       PRAGMA journal_mode=MEMORY; PRAGMA journal_mode=DELETE; {ONE_ROW}"
    );
    let scene = Scene::new(&table("t", 20));
    let report =
        scene.measure(&sql, &IoOptions { locking: Locking::Exclusive, ..atomic() }).unwrap();
    let cause =
        |at: usize| report.transactions[at].findings.iter().map(|it| report.findings[*it].cause);
    assert_eq!(cause(0).collect::<Vec<_>>(), ["several_pages"]);
    assert_eq!(cause(1).collect::<Vec<_>>(), ["journal_open"]);
    assert_eq!(cause(2).collect::<Vec<_>>(), ["journal_open"]);
    assert_eq!(report.transactions[5].how, HowCommitted::InPlace);
    let found = report.findings.iter().find(|it| it.cause == "journal_open").unwrap();
    assert!(found.to_do.as_ref().unwrap().contains("journal_mode=MEMORY"));
}

#[test]
fn the_log_is_what_the_database_has_and_its_checkpoint_is_counted_apart() {
    let scene = Scene::new(&format!("PRAGMA journal_mode=WAL; {}", table("t", 20)));
    let report = scene.report(&ONE_ROW.repeat(3));
    assert_eq!(report.in_force.profile, Profile::Durable);
    assert_eq!((report.commits.log, report.commits.of_one_page), (3, 3));
    assert_eq!(causes(&report), ["write_ahead_log"]);
    assert_eq!(report.transactions[1].pages_changed, 1);
    assert_eq!(report.transactions[1].calls.write_database, 0);
    assert!(report.checkpoint.as_ref().unwrap().database.write.calls > 0);

    let report = scene.report(&format!("{ONE_ROW} PRAGMA wal_checkpoint; {ONE_ROW}"));
    assert_eq!(report.transactions[1].how, HowCommitted::Checkpoint);
    assert_eq!((report.commits.log, report.commits.checkpoint), (2, 1));

    let tried = scene
        .measure(ONE_ROW, &IoOptions { profile: Some(Profile::Rollback), ..atomic() })
        .unwrap();
    assert_eq!(tried.commits.in_place, 1, "{:?}", tried.findings);
    assert!(tried.checkpoint.is_none());
    let mode: String =
        scene.connect("a.db").pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal", "the database itself stays as it is");
}

#[test]
fn without_a_journal_on_disk_there_is_a_warning() {
    let scene = Scene::new(&table("t", 20));
    let report = scene
        .measure(
            "UPDATE t SET n = 1",
            &IoOptions { profile: Some(Profile::Rebuildable), ..atomic() },
        )
        .unwrap();
    assert_eq!(report.commits.unprotected, 1, "{report:?}");
    assert!(causes(&report).contains(&"no_journal"));
}

#[test]
fn what_the_build_lacks_is_named() {
    let why = WhyJournal::CompileOptions("this SQLite was compiled without it");
    let state = AtomicState::Journal { why };
    let case = Case {
        how: HowCommitted::Journal,
        changes: &[],
        writes: &BTreeSet::new(),
        state: &state,
        sql: &String::new,
    };
    let causes = causes_around(&case, true);
    let finding = causes.first().map(|it: &Cause| it.finding(1, 1)).unwrap();
    assert_eq!(finding.cause, "compile_options");
    assert!(finding.to_do.unwrap().contains("LIBSQLITE3_FLAGS"));
}

#[test]
fn transactions_end_where_autocommit_comes_back() {
    use HowCommitted::{InPlace, NoCalls, ReadOnly, RolledBack};

    let report = Scene::new(&table("t", 20)).report(&format!(
        "SELECT id FROM t; BEGIN; {ONE_ROW} {ONE_ROW} COMMIT; SAVEPOINT s; {ONE_ROW} RELEASE s;
         BEGIN; {ONE_ROW} ROLLBACK; SELECT 1; BEGIN; {ONE_ROW}"
    ));
    let how: Vec<_> = report.transactions.iter().map(|it| it.how).collect();
    assert_eq!(how, [ReadOnly, InPlace, InPlace, RolledBack, NoCalls, RolledBack]);
    let statements: Vec<_> = report.transactions.iter().map(|it| it.statements).collect();
    assert_eq!(statements, [1, 4, 3, 3, 1, 2]);
    assert_eq!(report.transactions[0].rows, 20);
    assert!(report.transactions[1].statement.starts_with("UPDATE t"));
}

#[test]
fn rounds_show_what_happens_now_and_then() {
    let insert = "INSERT INTO t (n, fill) VALUES (1, zeroblob(700))";
    let report =
        Scene::new(&table("t", 20)).measure(insert, &IoOptions { rounds: 40, ..atomic() }).unwrap();
    assert_eq!((report.transactions_total, report.transactions.len()), (40, 1));
    let transaction = &report.transactions[0];
    assert_eq!(transaction.how, HowCommitted::InPlace);
    assert!((6..=10).contains(&transaction.rounds_that_differ), "{transaction:?}");
    assert_eq!(transaction.findings_that_differ, [0]);
    assert_eq!(report.findings[0].cause, "page_split");
    assert_eq!(report.shapes.iter().map(|it| it.transactions).sum::<u64>(), 40);
    assert_eq!(report.shapes[0].how, HowCommitted::InPlace);
}

#[test]
fn the_list_is_bounded_and_the_counts_are_not() {
    let report = Scene::new(&table("t", 20))
        .measure(&ONE_ROW.repeat(9), &IoOptions { listed_max: 2, ..atomic() })
        .unwrap();
    assert_eq!((report.transactions.len(), report.transactions_left_out), (2, 7));
    assert_eq!(report.shapes.iter().map(|it| it.transactions).sum::<u64>(), 9);
}

#[test]
fn an_error_names_its_place_and_what_ran_before() {
    let scene = Scene::new(&table("t", 20));
    let before = fs::read(scene.path("a.db")).unwrap();
    let sql = format!("{ONE_ROW}\n{ONE_ROW}\n  SELECT nope\n FROM t");
    let error = scene.measure(&sql, &atomic()).unwrap_err();
    let ErrorKind::Script(found) = error.kind() else { panic!("{error}") };
    assert_eq!((found.line, found.column, found.transactions_committed), (3, 10, 0), "{error}");
    let state = error.state_on_disk().unwrap();
    assert!(state.contains("as it was") && state.contains("2 statements ran"), "{state}");
    assert_eq!(scene.names(), ["a.db"]);
    assert!(fs::read(scene.path("a.db")).unwrap() == before);
}

#[test]
fn in_place_means_it_and_says_what_stays() {
    let scene = Scene::new(&table("t", 20));
    let options = IoOptions { in_place: true, ..atomic() };
    let report = scene.measure(ONE_ROW, &options).unwrap();
    assert_eq!((report.ran_on, report.commits.in_place), (RanOn::Database, 1));
    let error = scene.measure(&format!("{ONE_ROW} BEGIN; {ONE_ROW} nope"), &options).unwrap_err();
    let ErrorKind::Script(found) = error.kind() else { panic!("{error}") };
    assert_eq!(found.transactions_committed, 1);
    assert!(error.state_on_disk().unwrap().contains("what 1 transaction before it"), "{error}");
    let n: i64 = scene
        .connect("a.db")
        .query_row("SELECT n FROM t WHERE id = 2", [], |row| row.get(0))
        .unwrap();
    assert_eq!(n, 2);
    assert_eq!(scene.names(), ["a.db"]);
}

#[test]
fn contradictions_are_refused_before_anything_is_made() {
    let scene = Scene::new(&table("t", 5));
    for (options, expected) in [
        (
            IoOptions { in_place: true, copy_to: Some("/".into()), ..atomic() },
            "a folder for the copy",
        ),
        (
            IoOptions { in_place: true, profile: Some(Profile::Rebuildable), ..atomic() },
            "can destroy",
        ),
    ] {
        let error = scene.measure(ONE_ROW, &options).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = scene.measure(" -- nothing", &atomic()).unwrap_err();
    assert!(error.to_string().contains("no statement"), "{error}");
    assert_eq!(scene.names(), ["a.db"]);
}

#[test]
fn a_database_that_is_held_is_not_waited_for_longer_than_asked() {
    let scene = Scene::new(&table("t", 5));
    let holder = scene.connect("a.db");
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let options = IoOptions { in_place: true, busy_timeout: Duration::from_millis(20), ..atomic() };
    let error = scene.measure(ONE_ROW, &options).unwrap_err();
    assert!(error.advice().unwrap().contains("try again"), "{error}");
    // A copy needs no such lock.
    assert_eq!(scene.report(ONE_ROW).commits.in_place, 1);
}

#[test]
fn a_wish_to_stop_ends_a_statement() {
    let scene = Scene::new(&table("t", 5));
    let looks = Arc::new(AtomicU32::new(0));
    let stop = move || looks.fetch_add(1, Ordering::Relaxed) > 50;
    let endless =
        "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT max(i) FROM c";
    let error =
        scene.measure(endless, &IoOptions { stop: Arc::new(stop), ..atomic() }).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
    assert_eq!(scene.names(), ["a.db"]);
}

#[test]
fn the_memory_is_told_where_it_is_asked_for() {
    let scene = Scene::new(&table("t", 5));
    assert!(scene.report(ONE_ROW).memory.is_none());
    let report =
        scene.measure(ONE_ROW, &IoOptions { memory: true, small: true, ..atomic() }).unwrap();
    assert!(report.memory.is_some() && report.in_force.small);
}

/// The names of an object's fields, in their order.
fn fields(object: &serde_json::Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_object_keeps_its_shape() {
    let schema = table("t", 20) + "CREATE INDEX t_by_n ON t (n);";
    let report = Scene::new(&schema).report(ONE_ROW);
    let object = serde_json::to_value(&report).unwrap();
    let mut names = fields(&object);
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "checkpoint",
            "commits",
            "database",
            "elapsed_s",
            "findings",
            "in_force",
            "io",
            "memory",
            "one_page_commits",
            "ran_on",
            "rounds",
            "shapes",
            "statements",
            "summary",
            "transactions",
            "transactions_left_out",
            "transactions_total",
        ]
    );
    assert_eq!(
        object["findings"][0],
        serde_json::json!({
            "cause": "secondary_index",
            "transactions": 1,
            "of": 1,
            "table": "t",
            "with": "t_by_n",
            "why": "index t_by_n of table t is a page of its own",
            "to_do": "drop it if no query needs it, or if the table has few rows",
        })
    );
    let transaction = &object["transactions"][0];
    assert_eq!(transaction["how"], "journal");
    assert_eq!(transaction["line"], 1);
    assert_eq!(transaction["source"], "test.sql");
    let nanoseconds = report.transactions[0].time.as_nanos();
    assert_eq!(transaction["time_us"], nanoseconds as f64 / 1e3);
    let mut calls = fields(&transaction["calls"]);
    calls.sort_unstable();
    assert_eq!(
        calls,
        [
            "folder_sync",
            "other",
            "read",
            "sync",
            "write_database",
            "write_in_place",
            "write_journal",
            "write_log",
            "write_temporary",
        ]
    );
    assert_eq!(object["one_page_commits"]["by"], "software");
    assert_eq!(object["ran_on"], "copy");
    assert_eq!(object["commits"]["journal"], 1);
}

/// Statements that touch one row or many, with every kind of reason among them.
fn any_statement() -> impl Strategy<Value = String> {
    let id = 1..60_u32;
    prop_oneof![
        id.clone().prop_map(|id| format!("UPDATE t SET n = n + 1 WHERE id = {id}")),
        id.clone()
            .prop_map(|id| format!("UPDATE t SET fill = zeroblob({}) WHERE id = {id}", id * 90)),
        id.clone().prop_map(|id| format!("DELETE FROM t WHERE id = {id}")),
        id.clone().prop_map(|id| format!("DELETE FROM t WHERE id > {id}")),
        id.clone().prop_map(|id| format!("UPDATE keyed SET n = {id} WHERE name < 'k{id}'")),
        id.prop_map(|id| format!("INSERT OR REPLACE INTO keyed VALUES ('k{id}', {id})")),
        Just("INSERT INTO t (n, fill) VALUES (1, zeroblob(700))".to_owned()),
        Just("INSERT INTO counted (n) VALUES (1)".to_owned()),
        Just("UPDATE t SET n = 1 WHERE id < 0".to_owned()),
        Just("BEGIN; UPDATE t SET n = 2 WHERE id = 3; UPDATE counted SET n = 7; COMMIT".to_owned()),
        Just("BEGIN; DELETE FROM t; ROLLBACK".to_owned()),
        Just("SELECT count(*) FROM t".to_owned()),
    ]
}

const SETTINGS: [&str; 3] = ["", "PRAGMA auto_vacuum=FULL;", "PRAGMA auto_vacuum=INCREMENTAL;"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_not_one_page_in_place_has_a_reason(
        settings in 0..SETTINGS.len(),
        index in any::<bool>(),
        with_dbstat in any::<bool>(),
        sql in proptest::collection::vec(any_statement(), 1..25),
    ) {
        let mut schema = SETTINGS[settings].to_owned() + &table("t", 40);
        schema += "CREATE TABLE keyed (name TEXT PRIMARY KEY, n) WITHOUT ROWID;
                   CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, n);
                   INSERT INTO counted (n) VALUES (1);";
        if index {
            schema += "CREATE INDEX t_by_n ON t (n)";
        }
        let options = IoOptions { with_dbstat, ..atomic() };
        let report = Scene::new(&schema).measure(&sql.join(";"), &options).unwrap();
        for transaction in &report.transactions {
            let is_journal = transaction.how == HowCommitted::Journal;
            prop_assert_eq!(transaction.findings.is_empty(), !is_journal, "{:#?}", transaction);
            let causes = transaction.findings.iter().map(|at| report.findings[*at].cause);
            let is_known = !causes.clone().any(|it| it == "unknown");
            prop_assert!(is_known || !with_dbstat, "{:#?}", transaction);
            if transaction.how == HowCommitted::InPlace {
                prop_assert_eq!(transaction.pages_changed, 1);
                prop_assert!(transaction.calls.sync >= 1 && transaction.calls.write_journal == 0);
            }
        }
        prop_assert_eq!(report.commits.in_place, report.commits.of_one_page);
    }
}
