//! Databases that are there already: new tables moved in, and rows for tables that are there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use leafpress::Error;
use leafpress::load::{IntoTable, Loader, OnConflict};
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::{Connection, params_from_iter};
use tempfile::{TempDir, tempdir};

use crate::declared::{Case, case, csv};
use crate::judge::{Compare, answer, assert_same, bound, insert_sql, open_sound, texts};
use crate::schema::{Cell, Table, quoted, rows, table};

/// What kind of database is there.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    journal: &'static str,
    auto_vacuum: u8,
    page_bytes: u32,
    encoding: &'static str,
}

pub fn host() -> impl Strategy<Value = Host> {
    (
        select(vec!["WAL", "DELETE"]),
        0..3_u8,
        select(vec![512_u32, 4096, 65536]),
        prop_oneof![4 => Just("UTF-8"), 1 => Just("UTF-16le"), 1 => Just("UTF-16be")],
    )
        .prop_map(|(journal, auto_vacuum, page_bytes, encoding)| Host {
            journal,
            auto_vacuum,
            page_bytes,
            encoding,
        })
}

/// What must not change: how the database is set up.
const SETUP: [&str; 6] =
    ["journal_mode", "auto_vacuum", "page_size", "encoding", "user_version", "application_id"];

impl Host {
    /// A database with other things in it.
    pub fn create(self, path: &Path) -> Connection {
        let database = Connection::open(path).unwrap();
        let Self { journal, auto_vacuum, page_bytes, encoding } = self;
        database
            .execute_batch(&format!(
                "PRAGMA page_size={page_bytes}; PRAGMA auto_vacuum={auto_vacuum};
                 PRAGMA encoding='{encoding}'; PRAGMA user_version=7; PRAGMA application_id=9;
                 CREATE TABLE other (id INTEGER PRIMARY KEY AUTOINCREMENT, x TEXT UNIQUE);
                 INSERT INTO other(x) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
                 WHERE i < 200) SELECT hex(i) || 'x' FROM n; DELETE FROM other WHERE id % 3 = 0;"
            ))
            .unwrap();
        let _: String = database
            .query_row(&format!("PRAGMA journal_mode={journal}"), [], |row| row.get(0))
            .unwrap();
        database
    }
}

fn setup(database: &Connection) -> Vec<String> {
    let ask = |name: &&str| answer(database, &format!("PRAGMA {name}")).join(",");
    SETUP.iter().map(ask).collect()
}

/// A database and its twin, which SQLite alone writes.
struct Twins {
    folder: TempDir,
    twin: Connection,
}

impl Twins {
    fn create(host: Host, fill: impl Fn(&Connection)) -> Self {
        let folder = tempdir().unwrap();
        fs::create_dir(folder.path().join("twin")).unwrap();
        fill(&host.create(&folder.path().join("a.db")));
        let twin = host.create(&folder.path().join("twin/a.db"));
        fill(&twin);
        Self { folder, twin }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.db")
    }

    fn assert_alike(&self, compare: Compare) {
        let ours = open_sound(&self.path());
        assert_eq!(setup(&ours), setup(&self.twin));
        assert_same(&self.twin, &ours, compare);
        drop(ours);
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !["twin", "in.csv", "a.db-journal"].contains(&name.as_str()));
        names.sort();
        assert_eq!(names, ["a.db"]);
    }

    fn input(&self, table: &Table, rows: &[Vec<Cell>]) -> PathBuf {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let path = self.folder.path().join("in.csv");
        fs::write(&path, csv(&names, rows).0).unwrap();
        path
    }
}

/// A new table in a database.
pub fn check_new((case, host): &(Case, Host)) {
    let twins = Twins::create(*host, |_| {});
    // ANALYZE of an empty table only makes an empty sqlite_stat1.
    let analyze = case.analyze && !case.rows.is_empty();
    let page_bytes = host.page_bytes;
    let case = Case { skip: false, analyze, page_bytes, ..case.clone() };
    let input = twins.input(&case.table, &case.rows);
    let outcome = case.loader(&twins.path(), Path::new("")).load_file(input);
    if case.table.declares_others() {
        let error = outcome.expect_err("nothing but a table is moved in");
        assert!(error.to_string().contains("declares more than the table"), "{error}");
        twins.assert_alike(Compare::default());
        return;
    }
    let names: Vec<String> = case.table.columns.iter().map(|column| column.name.clone()).collect();
    twins.twin.execute_batch("SAVEPOINT load").unwrap();
    twins.twin.execute_batch(&case.table.sql).unwrap();
    let refused = insert(&twins.twin, &case.table, &names, &case.rows, case.on_conflict);
    if refused {
        twins.twin.execute_batch("ROLLBACK TO load; RELEASE load").unwrap();
        let error = outcome.expect_err("a bad row stops the load");
        assert!(error.bad_row().is_some(), "{error}");
        twins.assert_alike(Compare::default());
        return;
    }
    twins.twin.execute_batch("RELEASE load").unwrap();
    outcome.unwrap_or_else(|error| panic!("{error}"));
    if case.analyze {
        twins.twin.execute_batch("ANALYZE t").unwrap();
    }
    twins.assert_alike(Compare::default());
    if case.analyze {
        let stat = "SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY 1, 2, 3";
        let ours = Connection::open(twins.path()).unwrap();
        assert_eq!(answer(&ours, stat), answer(&twins.twin, stat), "sqlite_stat1");
    }
}

/// Whether a row was refused.
fn insert(
    database: &Connection,
    table: &Table,
    names: &[String],
    rows: &[Vec<Cell>],
    on_conflict: OnConflict,
) -> bool {
    let mut insert = database.prepare(&insert_sql(names, on_conflict)).unwrap();
    rows.iter().any(|row| {
        let no_key = table.rowid.is_some_and(|column| row[column].is_none());
        let values = table.columns.iter().zip(row);
        let values = values.map(|(column, cell)| bound(column.kind, cell));
        no_key || insert.execute(params_from_iter(values)).is_err()
    })
}

/// A table with rows, more rows for it, and how they go in.
#[derive(Clone)]
pub struct More {
    table: Table,
    old: Vec<Vec<Cell>>,
    new: Vec<Vec<Cell>>,
    into: IntoTable,
    host: Host,
    threads: usize,
    memory_bytes: usize,
    json: bool,
}

impl std::fmt::Debug for More {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> =
            self.table.columns.iter().map(|column| column.name.as_str()).collect();
        let Self { into, host, threads, json, .. } = self;
        writeln!(
            f,
            "{into:?} {host:?} threads {threads} json {json}\n{}\nold\n{}new\n{}",
            self.table.sql,
            csv(&names, &self.old).0,
            csv(&names, &self.new).0
        )
    }
}

pub fn more() -> impl Strategy<Value = More> {
    let content = table().prop_flat_map(|table| {
        let (old, new) = (rows(&table.columns, 20), rows(&table.columns, 20));
        (Just(table), old, new)
    });
    let into =
        select(vec![IntoTable::Append, IntoTable::Replace, IntoTable::Ignore, IntoTable::Upsert]);
    (content, into, host(), 1..4_usize, select(vec![1_usize, 1 << 26]), any::<bool>()).prop_map(
        |((table, old, new), into, host, threads, memory_bytes, json)| More {
            table,
            old,
            new,
            into,
            host,
            threads,
            memory_bytes,
            json,
        },
    )
}

/// The statement that stands for the mode, or none where it makes no sense, or
/// where the outcome depends on the order of the rows.
pub fn statement(database: &Connection, table: &Table, into: IntoTable) -> Option<String> {
    let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let key = texts(database, "SELECT name FROM pragma_table_info('t') WHERE pk ORDER BY pk");
    let uniques = "SELECT name FROM pragma_index_list('t') WHERE \"unique\"";
    let uniques = texts(database, uniques).len() + usize::from(table.rowid.is_some());
    match into {
        IntoTable::Append | IntoTable::Replace => Some(insert_sql(&names, OnConflict::Abort)),
        // Without a key the load is refused.
        IntoTable::Ignore => (uniques == 1).then(|| insert_sql(&names, OnConflict::Ignore)),
        IntoTable::Upsert => {
            if uniques > 1 || key.is_empty() {
                return None;
            }
            let key: Vec<String> = key.iter().map(|name| quoted(name)).collect();
            let rest = names.iter().map(|name| quoted(name)).filter(|name| !key.contains(name));
            let rest: Vec<String> = rest.map(|name| format!("{name} = excluded.{name}")).collect();
            let then = if rest.is_empty() {
                "NOTHING".to_owned()
            } else {
                format!("UPDATE SET {}", rest.join(", "))
            };
            let insert = insert_sql(&names, OnConflict::Abort);
            Some(format!("{insert} ON CONFLICT ({}) DO {then}", key.join(", ")))
        }
        other => unreachable!("{other:?}"),
    }
}

pub fn check_more(more: &More) {
    let More { table, old, new, into, host, .. } = more;
    let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let twins = Twins::create(*host, |database| {
        database.execute_batch(&table.sql).unwrap();
        database.execute_batch("BEGIN").unwrap();
        for row in old {
            insert(database, table, &names, std::slice::from_ref(row), OnConflict::Ignore);
        }
        database.execute_batch("COMMIT").unwrap();
    });
    let Some(sql) = statement(&twins.twin, table, *into) else { return };
    let outcome = load(more, &twins);
    twins.twin.execute_batch("SAVEPOINT load").unwrap();
    if *into == IntoTable::Replace {
        twins.twin.execute_batch("DELETE FROM t").unwrap();
    }
    let refused = {
        let mut insert = twins.twin.prepare(&sql).unwrap();
        new.iter().any(|row| {
            let values = table.columns.iter().zip(row);
            let values = values.map(|(column, cell)| bound(column.kind, cell));
            insert.execute(params_from_iter(values)).is_err()
        })
    };
    if refused {
        twins.twin.execute_batch("ROLLBACK TO load; RELEASE load").unwrap();
        assert!(outcome.is_err(), "a row that SQLite refuses stops the load");
        twins.assert_alike(Compare::default());
        return;
    }
    twins.twin.execute_batch("RELEASE load").unwrap();
    let report = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.rows_loaded + report.rows_ignored, new.len() as u64);
    // Rows go in in the order of the key, which gives them other rowids.
    let without_rowids = table.rowid.is_none();
    twins.assert_alike(Compare { without_rowids, ..Compare::default() });
}

fn load(more: &More, twins: &Twins) -> Result<leafpress::load::Report, Error> {
    let loader = Loader::new(twins.path())
        .table("t")
        .into_table(more.into)
        .null_marker("\\N")
        .threads(more.threads)
        .memory(more.memory_bytes);
    if !more.json || more.new.is_empty() {
        return loader.load_file(twins.input(&more.table, &more.new));
    }
    let objects = more.new.iter().map(|row| {
        let fields = more.table.columns.iter().zip(row);
        let fields = fields.map(|(column, cell)| {
            let value = cell.clone().map_or(serde_json::Value::Null, Into::into);
            (column.name.clone(), value)
        });
        serde_json::Value::Object(fields.collect()).to_string()
    });
    let path = twins.folder.path().join("in.csv");
    fs::write(&path, objects.collect::<Vec<_>>().join("\n")).unwrap();
    loader.load_file(path)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(120)
    })]

    #[test]
    fn a_table_moved_in_is_what_inserts_make_of_it(input in (case(40), host())) {
        check_new(&input);
    }

    #[test]
    fn rows_for_a_table_that_is_there_go_in_as_inserts_do(more in more()) {
        check_more(&more);
    }
}

/// A row that overflows, and statistics of more than one index, in a database
/// whose pages are on a map.
#[test]
fn overflowing_rows_with_statistics_are_moved_into_an_auto_vacuum_database() {
    let host = Host { journal: "WAL", auto_vacuum: 2, page_bytes: 4096, encoding: "UTF-8" };
    for analyze in [false, true] {
        let twins = Twins::create(host, |_| {});
        let long = "long ".repeat(900);
        fs::write(twins.folder.path().join("in.csv"), format!("a,b\n{long},1\n")).unwrap();
        let sql = "CREATE TABLE t (a TEXT PRIMARY KEY, b INT); CREATE INDEX i ON t (b, a)";
        let loader = Loader::new(twins.path()).declaration(sql).analyze(analyze);
        let input = twins.folder.path().join("in.csv");
        loader.load_file(input).unwrap_or_else(|error| panic!("{analyze} {error}"));
        open_sound(&twins.path());
    }
}

/// The last of what a load tells of its progress, and the most rows that it tells of.
fn told(loader: Loader, input: &Path) -> (&'static str, u64, u64) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let loader = loader.progress(move |it| tell.lock().unwrap().push((it.stage, it.rows)));
    loader.load_file(input).unwrap();
    let told = told.lock().unwrap();
    let (stage, rows) = *told.last().unwrap();
    (stage, rows, told.iter().map(|(_, rows)| *rows).max().unwrap())
}

#[test]
fn a_stage_counts_its_own_rows_only() {
    for encoding in ["UTF-8", "UTF-16le"] {
        let host = Host { journal: "WAL", auto_vacuum: 0, page_bytes: 4096, encoding };
        let twins = Twins::create(host, |_| {});
        let input = twins.folder.path().join("in.csv");
        let rows: Vec<String> = (0..20_000).map(|n| format!("{n},text {n}")).collect();
        fs::write(&input, format!("a,b\n{}\n", rows.join("\n"))).unwrap();
        let loader = || Loader::new(twins.path()).table("t");
        let moved = told(loader().index("b"), &input);
        assert_eq!(moved, ("moving in", 20_000, 20_000), "{encoding}");
        let inserted = told(loader().into_table(IntoTable::Append), &input);
        assert_eq!(inserted, ("inserting", 20_000, 20_000), "{encoding}");
    }
}
