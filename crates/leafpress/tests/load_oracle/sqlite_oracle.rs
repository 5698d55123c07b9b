//! Tables of other databases into a new table, judged by INSERTs of the same rows into its declaration.
//!
//! Checked: no value is lost or stored as SQLite would not store it, `integrity_check` says ok, and each row
//! is counted once. Without flags that change types, columns keep their declared types and all values.

use std::path::{Path, PathBuf};

use leafpress::load::{Loader, OnError, Report};
use leafpress::{Error, ErrorKind, quote_identifier};
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tempfile::tempdir;

/// Columns of all tables: the key, and two whose names mean something to SQLite and to lists.
const COLUMNS: [&str; 3] = ["k", "rowid", "c,d"];

const TYPES: [&str; 14] = [
    "",
    "INTEGER",
    "int",
    "DECIMAL(10, 2)",
    "varchar(20)",
    "REAL",
    "double precision",
    "TEXT",
    "BLOB",
    "datetime",
    "STRING",
    "FLOATING POINT",
    "ANY",
    "any",
];
const STRICT_TYPES: [&str; 6] = ["INTEGER", "INT", "REAL", "TEXT", "BLOB", "ANY"];

/// A table of another database.
#[derive(Debug, Clone)]
struct Source {
    strict: bool,
    types: Vec<&'static str>,
    encoding: &'static str,
    rows: Vec<Vec<Value>>,
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the loader has")]
struct Case {
    sources: Vec<Source>,
    key: Option<&'static str>,
    without_rowid: bool,
    strict: bool,
    all_text: bool,
    skips: bool,
}

fn value() -> impl Strategy<Value = Value> {
    let integers = vec![0, 1, -1, 5, 1000, i64::MAX, i64::MIN, (1 << 53) + 1];
    let reals = vec![0.5, -0.0, 2.0, 1e18, 9.3e18, 1e300, f64::INFINITY, 9_007_199_254_740_992.0];
    let texts = vec!["", "a", "A", "5", " 5", "5.0", "1e3", "0x10", "é", "inf"];
    let blobs = vec![vec![], vec![0, 255], b"5".to_vec()];
    prop_oneof![
        1 => Just(Value::Null),
        6 => select(integers).prop_map(Value::Integer),
        3 => select(reals).prop_map(Value::Real),
        4 => select(texts).prop_map(|text| Value::Text(text.to_owned())),
        1 => select(blobs).prop_map(Value::Blob),
    ]
}

fn source() -> impl Strategy<Value = Source> {
    let typed = any::<bool>().prop_flat_map(|strict| {
        let types = if strict { &STRICT_TYPES[..] } else { &TYPES[..] };
        (Just(strict), prop::collection::vec(select(types), COLUMNS.len()))
    });
    // Most tables hold integers in their keys.
    let row =
        (prop_oneof![9 => (0..30_i64).prop_map(Value::Integer), 1 => value()], value(), value());
    let rows = prop::collection::vec(row.prop_map(|(k, v, w)| vec![k, v, w]), 0..8);
    (typed, select(vec!["UTF-8", "UTF-16le"]), rows)
        .prop_map(|((strict, types), encoding, rows)| Source { strict, types, encoding, rows })
}

fn case() -> impl Strategy<Value = Case> {
    let sources = prop_oneof![3 => prop::collection::vec(source(), 1), 1 => prop::collection::vec(source(), 2..4)];
    let key = prop::option::of(select(COLUMNS.to_vec()));
    let rarely = || prop::bool::weighted(0.2);
    (sources, key, rarely(), rarely(), rarely(), any::<bool>()).prop_map(
        |(sources, key, without_rowid, strict, all_text, skips)| Case {
            sources,
            key,
            without_rowid: without_rowid && key.is_some(),
            strict,
            all_text,
            skips,
        },
    )
}

/// The columns' names as SQL has them.
fn names() -> String {
    COLUMNS.map(quote_identifier).join(", ")
}

fn rows_of(db: &Connection, table: &str) -> Vec<String> {
    let mut statement = db.prepare(&format!("SELECT {} FROM {table}", names())).unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        let values: rusqlite::Result<Vec<Value>> =
            (0..COLUMNS.len()).map(|at| row.get(at)).collect();
        Ok(format!("{:?}", values?))
    };
    let mut rows: Vec<_> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
    rows.sort();
    rows
}

fn types_of(db: &Connection, table: &str) -> Vec<String> {
    let mut statement = db.prepare("SELECT type FROM pragma_table_info(?1)").unwrap();
    statement.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

impl Source {
    /// Makes the table, and keeps the rows as it holds them.
    fn make(&mut self, path: &Path) {
        let db = Connection::open(path).unwrap();
        let columns = COLUMNS.iter().zip(&self.types);
        let columns = columns.map(|(name, it)| format!("{} {it}", quote_identifier(name)));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let (encoding, strict) = (self.encoding, if self.strict { "STRICT" } else { "" });
        db.execute_batch(&format!(
            "PRAGMA encoding='{encoding}'; CREATE TABLE s({columns}) {strict}"
        ))
        .unwrap();
        self.rows.retain(|row| {
            db.execute("INSERT INTO s VALUES (?, ?, ?)", params_from_iter(row)).is_ok()
        });
        let mut statement = db.prepare(&format!("SELECT {} FROM s NOT INDEXED", names())).unwrap();
        let held = |row: &rusqlite::Row<'_>| (0..COLUMNS.len()).map(|at| row.get(at)).collect();
        self.rows = statement.query_map([], held).unwrap().map(Result::unwrap).collect();
    }
}

impl Case {
    fn load(&self, path: &Path, files: &[PathBuf], skips: bool) -> Result<Report, Error> {
        let mut loader = Loader::new(path).table("t").strict(self.strict).all_text(self.all_text);
        if let Some(key) = self.key {
            loader = loader.primary_key(key).without_rowid(self.without_rowid);
        }
        if skips {
            loader = loader.on_error(OnError::Skip { rejects: None, max_rejects: None });
        }
        loader.load_files(files)
    }

    /// Inserts the rows of all sources into a table; returns how many of them are bad.
    fn insert(&self, db: &Connection) -> u64 {
        let key = self.key.and_then(|key| COLUMNS.iter().position(|name| *name == key));
        let sql = format!("INSERT INTO t({}) VALUES (?, ?, ?)", names());
        let rows = self.sources.iter().flat_map(|source| &source.rows);
        let is_bad = |row: &&Vec<Value>| {
            key.is_some_and(|at| row[at] == Value::Null)
                || db.execute(&sql, params_from_iter(*row)).is_err()
        };
        rows.filter(is_bad).count() as u64
    }
}

fn check(mut case: Case) {
    let folder = tempdir().unwrap();
    let files: Vec<_> =
        (0..case.sources.len()).map(|number| folder.path().join(format!("{number}.db"))).collect();
    for (source, file) in case.sources.iter_mut().zip(&files) {
        source.make(file);
    }
    let path = folder.path().join("new.db");
    let loaded = case.load(&path, &files, case.skips);
    let report = loaded.unwrap_or_else(|error| {
        let is_of_a_row =
            matches!(error.kind(), ErrorKind::BadRow(_) | ErrorKind::Constraint { .. });
        assert!(is_of_a_row && !case.skips && !path.exists(), "{error}");
        let report = case.load(&path, &files, true).unwrap_or_else(|error| panic!("{error}"));
        assert!(report.rows_rejected > 0, "{error}");
        report
    });
    let db = Connection::open(&path).unwrap();
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let sql: String = db
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 't'", [], |row| row.get(0))
        .unwrap();
    let model = Connection::open_in_memory().unwrap();
    model.execute_batch(&sql).unwrap();
    let bad = case.insert(&model);
    assert_eq!(rows_of(&db, "t"), rows_of(&model, "t"), "{sql}");
    let all: usize = case.sources.iter().map(|source| source.rows.len()).sum();
    assert_eq!((report.rows_read, report.rows_rejected), (all as u64, bad));
    assert_eq!(report.rows_loaded, all as u64 - bad);
    let [source] = &case.sources[..] else { return };
    if case.strict || case.all_text {
        return;
    }
    let from = Connection::open(&files[0]).unwrap();
    for ((name, new), old) in COLUMNS.iter().zip(types_of(&db, "t")).zip(types_of(&from, "s")) {
        let kept = if source.strict && old == "ANY" { "" } else { &old };
        assert!(case.key == Some(name) || new == kept, "{name}: {old:?} became {new:?}");
    }
    if case.key.is_none() {
        assert_eq!(rows_of(&db, "t"), rows_of(&from, "s"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn tables_of_databases_equal_inserts(case in case()) {
        check(case);
    }
}
