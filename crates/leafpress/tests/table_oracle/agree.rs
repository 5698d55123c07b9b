//! A dry run says what happens: a dry run, a load that skips bad rows and a plain load
//! agree with one another, and with SQLite's own INSERTs, row by row in one transaction.
//!
//! For random tables, new and existing, and inputs with bad rows of all kinds:
//! 1. the dry run changes no byte and leaves no file;
//! 2. it counts the rows, and names the lines, that the load with `skip` rejects;
//! 3. those are the rows that SQLite refuses, and the table holds what SQLite's does;
//! 4. the plain load goes through if there are none, else it names one of them and changes
//!    nothing.
//!
//! `LEAFPRESS_CASES` says how many tables are tried.

use std::fs;
use std::path::Path;

use leafpress::load::{DryRun, IntoTable, Loader, OnConflict, OnError};
use leafpress::{ErrorKind, Result};
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::{Connection, params_from_iter};
use tempfile::tempdir;

use crate::declared::csv;
use crate::existing::{Host, host, statement};
use crate::judge::{Compare, assert_same, bound, insert_sql, open_sound};
use crate::schema::{Cell, Column, Kind, Table, rows, table};

/// Parents are 1 to 6.
const PARENTS: &str = "CREATE TABLE parent (k INTEGER PRIMARY KEY);
    INSERT INTO parent VALUES (1), (2), (3), (4), (5), (6);";

/// A table, where it is, and what is loaded.
#[derive(Clone)]
struct Agreement {
    table: Table,
    /// Rows of a table that is there; none if it is made.
    old: Option<Vec<Vec<Cell>>>,
    /// Rows, and whether a field too many makes them bad.
    new: Vec<(Vec<Cell>, bool)>,
    into: IntoTable,
    host: Host,
    threads: usize,
    json: bool,
    /// True if a foreign key is looked at in the end only.
    deferred: bool,
    has_parent: bool,
}

impl std::fmt::Debug for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> =
            self.table.columns.iter().map(|column| column.name.as_str()).collect();
        let Self { into, host, threads, json, deferred, .. } = self;
        let shown = |rows: &[Vec<Cell>]| csv(&names, rows).0;
        let new: Vec<Vec<Cell>> = self.new.iter().map(|(row, _)| row.clone()).collect();
        let too_long: Vec<bool> = self.new.iter().map(|(_, too_long)| *too_long).collect();
        writeln!(
            f,
            "{into:?} {host:?} threads {threads} json {json} deferred {deferred}\n{}\nold {:?}\nnew\n{}too long {too_long:?}",
            self.table.sql,
            self.old.as_deref().map(shown),
            shown(&new)
        )
    }
}

fn agreement() -> impl Strategy<Value = Agreement> {
    let content = (table(), any::<bool>()).prop_flat_map(|(mut table, has_parent)| {
        if has_parent {
            table.columns.push(Column { name: "parent".to_owned(), kind: Kind::Integer });
        }
        let old = prop::option::weighted(0.75, rows(&table.columns, 12));
        let new = rows(&table.columns, 24);
        (Just((table, has_parent)), old, new)
    });
    let into = select(vec![
        IntoTable::Append,
        IntoTable::Append,
        IntoTable::Replace,
        IntoTable::Ignore,
        IntoTable::Upsert,
    ]);
    let spoilt = prop::collection::vec(0..40_u8, 24);
    (content, spoilt, into, host(), 1..4_usize, any::<bool>(), any::<bool>()).prop_map(
        |(((table, has_parent), old, new), spoilt, into, host, threads, json, deferred)| {
            let mut rows: Vec<(Vec<Cell>, bool)> =
                new.into_iter().zip(&spoilt).map(|(row, how)| (row, *how == 0 && !json)).collect();
            for ((row, _), how) in rows.iter_mut().zip(&spoilt) {
                spoil(&table.columns, row, *how);
            }
            let with_parent = |row: &mut Vec<Cell>, number: usize| {
                if let Some(cell) = row.last_mut().filter(|_| has_parent) {
                    *cell = (!number.is_multiple_of(9)).then(|| (number % 9).to_string());
                }
            };
            for (number, (row, _)) in rows.iter_mut().enumerate() {
                with_parent(row, number * 7 + usize::from(spoilt[number % spoilt.len()]));
            }
            let old = old.map(|mut old| {
                for row in &mut old {
                    with_parent(row, 3);
                }
                old
            });
            // A parent is another table, which only a database that is there can have.
            let has_parent = has_parent && old.is_some();
            let mut table = table;
            if !has_parent && table.columns.last().is_some_and(|it| it.name == "parent") {
                table.columns.pop();
                for (row, _) in &mut rows {
                    row.pop();
                }
            }
            Agreement { table, old, new: rows, into, host, threads, json, deferred, has_parent }
        },
    )
}

/// Makes a row one that the loader refuses by itself: a value that does not fit its column.
fn spoil(columns: &[Column], row: &mut [Cell], how: u8) {
    let Some(at) = usize::from(how).checked_sub(1).filter(|at| *at < columns.len()) else { return };
    match columns[at].kind {
        Kind::Integer | Kind::Real => row[at] = Some("x!".to_owned()),
        Kind::Blob => row[at] = Some("xyz".to_owned()),
        Kind::Text | Kind::Numeric | Kind::Any => {}
    }
}

/// Returns true if a value does not fit its column, by the loader's rule.
fn is_misfit(column: &Column, cell: &Cell) -> bool {
    let Some(text) = cell else { return false };
    match column.kind {
        Kind::Integer | Kind::Real => text == "x!",
        Kind::Blob => text == "xyz",
        Kind::Text | Kind::Numeric | Kind::Any => false,
    }
}

impl Agreement {
    /// The statements that make the table.
    fn setup(&self) -> Vec<String> {
        let table = self.table.sql.clone();
        if !self.has_parent {
            return vec![table];
        }
        let defer = if self.deferred { " DEFERRABLE INITIALLY DEFERRED" } else { "" };
        let parent = format!("ALTER TABLE t ADD COLUMN parent INT REFERENCES parent(k){defer}");
        vec![PARENTS.to_owned(), table, parent]
    }

    fn names(&self) -> Vec<String> {
        self.table.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// Makes the database at a path, if there is to be one.
    fn create(&self, path: &Path) -> Option<Connection> {
        let old = self.old.as_ref()?;
        let database = self.host.create(path);
        database.execute_batch("PRAGMA foreign_keys=ON").unwrap();
        self.setup().iter().for_each(|sql| database.execute_batch(sql).unwrap());
        let sql = insert_sql(&self.names(), OnConflict::Ignore);
        for row in old {
            let values = self.table.columns.iter().zip(row);
            let values = values.map(|(column, cell)| bound(column.kind, cell));
            // One that SQLite refuses is not there.
            let _ = database.execute(&sql, params_from_iter(values));
        }
        Some(database)
    }

    fn loader(&self, database: &Path) -> Loader {
        let loader = Loader::new(database).table("t").null_marker("\\N").threads(self.threads);
        if self.old.is_some() {
            loader.into_table(self.into)
        } else {
            loader.declaration(&self.table.sql)
        }
    }

    /// The input, and the line in which each row begins.
    fn input(&self) -> (String, Vec<u64>) {
        let names = self.names();
        if !self.json || self.new.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let rows = self.new.iter().map(|(row, too_long)| {
                let mut row = row.clone();
                row.extend(too_long.then(|| Some("one too many".to_owned())));
                row
            });
            return csv(&names, &rows.collect::<Vec<_>>());
        }
        let objects = self.new.iter().map(|(row, _)| {
            let fields = names.iter().zip(row).map(|(name, cell)| {
                let value = cell.clone().map_or(serde_json::Value::Null, Into::into);
                (name.clone(), value)
            });
            serde_json::Value::Object(fields.collect()).to_string()
        });
        let lines = (1..=self.new.len() as u64).collect();
        (objects.collect::<Vec<_>>().join("\n"), lines)
    }

    /// Inserts row after row, as SQLite does: the places of those that were refused.
    fn judge(&self, database: &Connection, sql: &str) -> Vec<usize> {
        database.execute_batch("PRAGMA foreign_keys=ON; BEGIN").unwrap();
        if self.old.is_some() && self.into == IntoTable::Replace {
            database.execute_batch("DELETE FROM t").unwrap();
        }
        let mut refused = Vec::new();
        let mut insert = database.prepare(sql).unwrap();
        for (place, (row, too_long)) in self.new.iter().enumerate() {
            let cells = || self.table.columns.iter().zip(row);
            let is_orphan = self.has_parent && self.deferred && is_orphan(row);
            // A key that is missing is no wish for a new one, in a table that is made.
            let no_key = self.old.is_none()
                && self.table.never_null.iter().any(|column| row[*column].is_none());
            let is_bad =
                *too_long || no_key || cells().any(|(column, cell)| is_misfit(column, cell));
            let values = cells().map(|(column, cell)| bound(column.kind, cell));
            database.execute_batch("SAVEPOINT one").unwrap();
            // An orphan that is ignored, as its key is there, has no parent to look for.
            let is_taken = !is_bad
                && insert
                    .execute(params_from_iter(values))
                    .is_ok_and(|changes| !is_orphan || changes == 0);
            if !is_taken {
                database.execute_batch("ROLLBACK TO one").unwrap();
                refused.push(place);
            }
            database.execute_batch("RELEASE one").unwrap();
        }
        drop(insert);
        database.execute_batch("COMMIT").unwrap();
        refused
    }

    /// The statement that stands for the load; none where what is left depends on the order
    /// of the rows, or no such load is possible.
    fn statement(&self, database: &Connection) -> Option<String> {
        if self.old.is_none() {
            return Some(insert_sql(&self.names(), OnConflict::Abort));
        }
        let gets_rowids =
            self.table.rowid.is_some_and(|key| self.new.iter().any(|(row, _)| row[key].is_none()));
        if gets_rowids || self.has_orphan_with_a_repeated_key(database) {
            return None;
        }
        statement(database, &self.table, self.into)
    }

    /// Returns true if a row without its parent, which is looked for in the end only, shares a key
    /// with another new row: then it depends on the order which of the two is there in the end.
    /// One statement of an upsert looks in the end, too, and SQLite after each row of the judge.
    fn has_orphan_with_a_repeated_key(&self, database: &Connection) -> bool {
        let in_the_end = self.deferred || self.into == IntoTable::Upsert;
        if !(self.has_parent && in_the_end) {
            return false;
        }
        let sql = "SELECT DISTINCT info.name FROM pragma_index_list('t') list,
                       pragma_index_info(list.name) info WHERE list.\"unique\"";
        let mut keys = database.prepare(sql).unwrap();
        let keys: Vec<Option<String>> =
            keys.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        // An index over an expression names no column.
        let names = self.names();
        let in_a_key = |at: &usize| {
            self.table.rowid == Some(*at)
                || keys.iter().any(|key| key.as_ref().is_none_or(|key| *key == names[*at]))
        };
        let key_columns: Vec<usize> = (0..names.len() - 1).filter(in_a_key).collect();
        let rows = || self.new.iter().map(|(row, _)| row).enumerate();
        rows().filter(|(_, row)| is_orphan(row)).any(|(place, orphan)| {
            rows().any(|(other, row)| {
                other != place && key_columns.iter().any(|at| may_be_equal(&row[*at], &orphan[*at]))
            })
        })
    }
}

/// Returns true if two values may be one for some collation and affinity.
fn may_be_equal(one: &Cell, other: &Cell) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
    match (one.trim().parse::<f64>(), other.trim().parse::<f64>()) {
        (Ok(one), Ok(other)) => one.partial_cmp(&other) == Some(std::cmp::Ordering::Equal),
        _ => one.trim_end().eq_ignore_ascii_case(other.trim_end()),
    }
}

/// Returns true if a row's last value names a parent that is not there.
fn is_orphan(row: &[Cell]) -> bool {
    row.last().is_some_and(|key| key.as_deref().is_some_and(|key| !("1"..="6").contains(&key)))
}

/// All files of a folder with their bytes, but the index of a log.
fn bytes_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let mut files: Vec<_> = files
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            let bytes =
                if name.ends_with("-shm") { Vec::new() } else { fs::read(entry.path()).unwrap() };
            (name, bytes)
        })
        .collect();
    files.sort();
    files
}

/// The places of rows, by the lines that a log names. A fault may stand in a later line of
/// its row.
fn places(log: &str, lines: &[u64]) -> Vec<usize> {
    let line_of = |entry: &str| -> u64 {
        let rest = entry.split_once("in.csv:").unwrap().1;
        rest.split_once(':').unwrap().0.parse().unwrap()
    };
    let place = |line: u64| lines.partition_point(|begin| *begin <= line) - 1;
    log.lines()
        .filter(|entry| entry.contains("in.csv:"))
        .map(|entry| place(line_of(entry)))
        .collect()
}

/// Where each row is bad, nothing replaces the old rows, and a dry run says so.
fn check_nothing_to_replace_by(case: &Agreement, folder: &Path, dry: Result<DryRun>) {
    let database = folder.join("skip/a.db");
    let before = fs::read(&database).unwrap();
    let skip = OnError::Skip { rejects: None, max_rejects: None };
    let loaded = case.loader(&database).on_error(skip).load_file(folder.join("in.csv"));
    for error in [dry.unwrap_err(), loaded.unwrap_err()] {
        assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
    }
    assert_eq!(fs::read(&database).unwrap(), before);
    let plain = case.loader(&folder.join("plain/a.db")).load_file(folder.join("in.csv"));
    assert!(plain.unwrap_err().bad_row().is_some());
}

fn check(case: &Agreement) {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["dry", "skip", "plain", "judge"] {
        fs::create_dir(at(name)).unwrap();
        drop(case.create(&at(name).join("a.db")));
    }
    let judge = if case.old.is_some() {
        Connection::open(at("judge/a.db")).unwrap()
    } else {
        let judge = Connection::open_in_memory().unwrap();
        judge.execute_batch(&case.table.sql).unwrap();
        judge
    };
    let Some(sql) = case.statement(&judge) else { return };
    let (input, lines) = case.input();
    fs::write(at("in.csv"), &input).unwrap();
    let refused = case.judge(&judge, &sql);

    let before = bytes_of(&at("dry"));
    let dry = case.loader(&at("dry/a.db")).dry_run_file(at("in.csv"));
    let replaces = case.old.is_some() && case.into == IntoTable::Replace;
    if replaces && !refused.is_empty() && refused.len() == case.new.len() {
        check_nothing_to_replace_by(case, folder.path(), dry);
        assert_eq!(bytes_of(&at("dry")), before, "a dry run changes nothing");
        return;
    }
    let dry = dry.unwrap_or_else(|error| panic!("dry run: {error}"));
    assert_eq!(bytes_of(&at("dry")), before, "a dry run changes nothing");
    assert_eq!(dry.would_reject, refused.len() as u64, "dry run: {:?}", dry.rejects);

    let skip = OnError::Skip { rejects: Some(at("rejects")), max_rejects: None };
    let report = case.loader(&at("skip/a.db")).on_error(skip).load_file(at("in.csv"));
    let report = report.unwrap_or_else(|error| panic!("skip: {error}"));
    let log = fs::read_to_string(at("rejects.log")).unwrap_or_default();
    assert_eq!(places(&log, &lines), refused, "{log}");
    assert_eq!(report.rows_rejected, refused.len() as u64);
    assert_eq!(report.rows_read, case.new.len() as u64);
    let said = |rows: &[leafpress::BadRow]| -> Vec<(u64, u64, String)> {
        rows.iter().map(|row| (row.line, row.column, row.reason.clone())).collect()
    };
    let shown = report.rejects.len();
    assert_eq!(said(&report.rejects), said(&dry.rejects)[..shown]);
    assert_eq!(report.reject_reasons, dry.reject_reasons);
    let skipped = open_sound(&at("skip/a.db"));
    let without_rowids = case.table.rowid.is_none() && case.old.is_some();
    let compare = Compare { without_rowids, ..Compare::default() };
    assert_same(&judge, &skipped, compare);

    let before = bytes_of(&at("plain"));
    let plain = case.loader(&at("plain/a.db")).load_file(at("in.csv"));
    match plain {
        Ok(_) => {
            assert!(refused.is_empty(), "the plain load takes {refused:?}");
            let plain = open_sound(&at("plain/a.db"));
            assert_same(&skipped, &plain, Compare { without_rowids, ..Compare::default() });
        }
        Err(error) => {
            let Some(row) = error.bad_row() else { panic!("plain: {error}") };
            let place = lines.partition_point(|begin| *begin <= row.line) - 1;
            assert!(refused.contains(&place), "{error}");
            let content = |files: Vec<(String, Vec<u8>)>| -> Vec<Vec<u8>> {
                files.into_iter().filter(|(name, _)| name == "a.db").map(|it| it.1).collect()
            };
            assert_eq!(content(bytes_of(&at("plain"))), content(before));
        }
    }
}

/// A log that a program left behind, as after a kill, is read and stays where it is.
#[test]
fn a_dry_run_leaves_a_log_as_it_is() {
    let folder = tempdir().unwrap();
    let running = folder.path().join("running.db");
    let database = Connection::open(&running).unwrap();
    let sql = "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
               CREATE TABLE t (id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES (1, 1)";
    database.execute_batch(sql).unwrap();
    let left = folder.path().join("left");
    fs::create_dir(&left).unwrap();
    for ending in ["", "-wal"] {
        let from = folder.path().join(format!("running.db{ending}"));
        fs::copy(from, left.join(format!("a.db{ending}"))).unwrap();
    }
    fs::write(folder.path().join("in.csv"), "id,n\n1,2\n2,2\n").unwrap();
    let before = bytes_of(&left);
    let loader = Loader::new(left.join("a.db")).table("t").into_table(IntoTable::Append);
    let dry = loader.dry_run_file(folder.path().join("in.csv")).unwrap();
    assert_eq!(dry.would_reject, 1, "{:?}", dry.rejects);
    let mut after = bytes_of(&left);
    after.retain(|(name, _)| !name.ends_with("-shm"));
    assert_eq!(after, before);
}

/// A foreign key of an upsert is checked once all rows are there, whether or not another row is
/// refused.
#[test]
fn a_row_without_its_parent_stays_if_a_later_row_of_the_upsert_changes_it() {
    for (others, refused) in [("", 0), ("9,1\n", 1), ("3,8\n", 1), ("9,1\n3,8\n", 2)] {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a.db");
        let database = Connection::open(&path).unwrap();
        let table = "CREATE TABLE t (k INTEGER PRIMARY KEY CHECK (k <> 9), p REFERENCES parent(k))";
        database.execute_batch(&format!("{PARENTS} {table}; INSERT INTO t VALUES (1, 1)")).unwrap();
        let input = folder.path().join("in.csv");
        fs::write(&input, format!("k,p\n1,7\n2,8\n{others}2,5\n1,2\n")).unwrap();
        let loader = || Loader::new(&path).table("t").into_table(IntoTable::Upsert);
        let dry = loader().dry_run_file(&input).unwrap();
        assert_eq!(dry.would_reject, refused, "{others:?} {:?}", dry.rejects);
        let skip = OnError::Skip { rejects: None, max_rejects: None };
        let report = loader().on_error(skip).load_file(&input).unwrap();
        assert_eq!(report.rows_rejected, refused, "{others:?} {:?}", report.rejects);
        let sql = "SELECT group_concat(k || '|' || p, ',') FROM t";
        let rows: String = database.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(rows, "1|2,2|5", "{others:?}");
    }
}

#[test]
fn of_keys_that_differ_behind_a_nul_the_row_without_a_parent_goes() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.db");
    let database = Connection::open(&path).unwrap();
    let table = "CREATE TABLE t (k TEXT PRIMARY KEY, p TEXT REFERENCES t(k)) WITHOUT ROWID";
    database.execute_batch(table).unwrap();
    let input = folder.path().join("in.ndjson");
    let rows = r#"{"k":"a\u0000b","p":"none"}{"k":"a\u0000c","p":null}"#;
    fs::write(&input, rows.replace("}{", "}\n{")).unwrap();
    let skip = OnError::Skip { rejects: None, max_rejects: None };
    let loader = Loader::new(&path).table("t").into_table(IntoTable::Append).on_error(skip);
    let report = loader.load_file(&input).unwrap();
    assert_eq!(report.rows_rejected, 1, "{:?}", report.rejects);
    let left: String = database.query_row("SELECT hex(k) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(left, "610063");
}

/// A foreign key of another table is broken since before, and is not what the commit fails for. The rows of
/// the table have no names, so that no row is.
#[test]
fn the_foreign_key_that_is_named_is_one_of_the_table() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.db");
    let database = Connection::open(&path).unwrap();
    let tables = "CREATE TABLE old (p REFERENCES gone(k)); CREATE TABLE gone (k PRIMARY KEY);
        INSERT INTO old VALUES (1); CREATE TABLE u (k PRIMARY KEY);
        CREATE TABLE t (rowid, oid, _rowid_, p REFERENCES u(k) DEFERRABLE INITIALLY DEFERRED)";
    database.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
    database.execute_batch(tables).unwrap();
    let input = folder.path().join("in.csv");
    fs::write(&input, "p\n7\n").unwrap();
    let loader = Loader::new(&path).table("t").into_table(IntoTable::Append);
    let error = loader.load_file(&input).unwrap_err().to_string();
    assert!(error.contains("a row of u that is not there"), "{error}");
}

fn cases() -> u32 {
    let asked = std::env::var("LEAFPRESS_CASES").ok().and_then(|cases| cases.parse().ok());
    asked.unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        // A case takes four loads.
        max_shrink_iters: 400,
        ..ProptestConfig::with_cases(cases())
    })]

    #[test]
    fn a_dry_run_says_what_happens(case in agreement()) {
        check(&case);
    }
}
