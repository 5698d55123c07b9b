//! Files into a table that is there, judged by INSERTs of the same rows, one by one.
//!
//! Checked: the table and what its triggers wrote are the same, `integrity_check` says ok, each row is
//! counted once, and after an error the database is as it was. The files differ in their formats, and
//! in the columns that they have.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use leafpress::load::{IntoTable, Loader, OnError, Report};
use leafpress::{Error, ErrorKind};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tempfile::tempdir;

use crate::declared_table;

/// Columns of all tables: an integer, a text, and a number.
const COLUMNS: [&str; 3] = ["i", "t", "n"];

/// A table that is there.
#[derive(Debug, Clone)]
pub struct Table {
    pub sql: String,
    /// Its key, by which an upsert finds rows; empty if it has none.
    pub key: Vec<&'static str>,
    /// Columns that each input must have, as they are NOT NULL and have no DEFAULT.
    pub needed: Vec<&'static str>,
    /// All columns that are NOT NULL.
    pub not_null: Vec<&'static str>,
    /// True if it has a unique key of any kind.
    pub has_unique: bool,
}

/// Tables by their SQL, their key, and their columns that are NOT NULL and have no DEFAULT.
const TABLES: [(&str, &[&str], &[&str]); 8] = [
    (
        "CREATE TABLE t(i INTEGER PRIMARY KEY, t TEXT DEFAULT 'none', n REAL); CREATE INDEX t_t ON t(t)",
        &["i"],
        &[],
    ),
    (
        "CREATE TABLE t(i INTEGER DEFAULT 7, t TEXT COLLATE NOCASE PRIMARY KEY, n NUMERIC NOT NULL) WITHOUT ROWID",
        &["t"],
        &["n", "t"],
    ),
    (
        "CREATE TABLE t(i INTEGER, t TEXT NOT NULL DEFAULT 'd', n NUMERIC UNIQUE, PRIMARY KEY (t, i DESC)); \
              CREATE UNIQUE INDEX t_i ON t(i) WHERE i > 20",
        &["t", "i"],
        &[],
    ),
    (
        "CREATE TABLE t(i INTEGER UNIQUE CHECK (i < 30), t TEXT, n REAL, g AS (t || i) STORED)",
        &["i"],
        &[],
    ),
    (
        "CREATE TABLE t(i INT, t TEXT PRIMARY KEY, n REAL) STRICT; CREATE INDEX t_n ON t(lower(t), n)",
        &["t"],
        &["t"],
    ),
    (
        "CREATE TABLE t(i INTEGER PRIMARY KEY, t TEXT, n REAL); CREATE TABLE log(x); \
              CREATE TRIGGER passes BEFORE INSERT ON t WHEN new.n < 2 BEGIN SELECT RAISE(IGNORE); END; \
              CREATE TRIGGER tells AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (old.t || new.t); END",
        &["i"],
        &[],
    ),
    (
        "CREATE TABLE t(i INTEGER NOT NULL ON CONFLICT IGNORE, t TEXT UNIQUE ON CONFLICT REPLACE, n REAL)",
        &["t"],
        &["i"],
    ),
    (
        "CREATE TABLE t(i INTEGER NOT NULL ON CONFLICT IGNORE, t TEXT PRIMARY KEY, n REAL); \
              CREATE TABLE log(x); CREATE TRIGGER tells BEFORE INSERT ON t BEGIN INSERT INTO log VALUES (new.t); END",
        &["t"],
        &["i"],
    ),
];

/// Rows of one file.
#[derive(Debug, Clone)]
struct Input {
    is_csv: bool,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Value>>,
}

#[derive(Debug, Clone)]
struct Case {
    table: Table,
    encoding: &'static str,
    journal: &'static str,
    page_bytes: u32,
    old: Vec<Vec<Value>>,
    inputs: Vec<Input>,
    mode: IntoTable,
    skips: bool,
}

fn value(column: &str) -> BoxedStrategy<Value> {
    let integer = (0_i64..40).prop_map(Value::Integer);
    let text = select(vec!["a", "A", "b", "B ", "ä", "c", "dd", "7", "1.0"]);
    match column {
        "i" => prop_oneof![9 => integer, 1 => Just(Value::Null)].boxed(),
        "t" => {
            prop_oneof![9 => text.prop_map(|it| Value::Text(it.into())), 1 => Just(Value::Null)]
                .boxed()
        }
        _ => prop_oneof![4 => integer, 4 => (0..8_i64).prop_map(|it| Value::Real(it as f64 / 4.0)), 1 => Just(Value::Null)].boxed(),
    }
}

fn rows(columns: &[&'static str], fewest: usize) -> impl Strategy<Value = Vec<Vec<Value>>> + use<> {
    let row: Vec<_> = columns.iter().map(|column| value(column)).collect();
    prop::collection::vec(row, fewest..10)
}

fn input() -> impl Strategy<Value = Input> {
    let columns = prop_oneof![
        Just(COLUMNS.to_vec()).prop_shuffle(),
        subsequence(COLUMNS.to_vec(), 1..=3).prop_shuffle(),
    ];
    let of = |columns: Vec<&'static str>| (any::<bool>(), rows(&columns, 1), Just(columns));
    columns.prop_flat_map(of).prop_map(|(is_csv, rows, columns)| {
        let mut input = Input { is_csv, columns, rows };
        input.rows.iter_mut().for_each(|row| input_as_format(is_csv, row));
        input
    })
}

/// An empty field is no NULL in a text column.
fn input_as_format(is_csv: bool, row: &mut [Value]) {
    for value in row.iter_mut().filter(|it| is_csv && **it == Value::Null) {
        *value = Value::Integer(4);
    }
}

fn case() -> impl Strategy<Value = Case> {
    let table = prop_oneof![select(TABLES.to_vec()).prop_map(fixed), declared_table::table()];
    let files = prop::collection::vec(input(), 1..4);
    let encoding = prop_oneof![4 => Just("UTF-8"), 1 => Just("UTF-16le")];
    let database = (table, encoding, select(vec!["DELETE", "WAL"]), select(vec![512, 4096]));
    let case = (database, rows(&COLUMNS, 0), files, any::<prop::sample::Index>(), any::<bool>());
    case.prop_map(|((table, encoding, journal, page_bytes), old, inputs, mode, skips)| Case {
        mode: *mode.get(&table.modes()),
        table,
        encoding,
        journal,
        page_bytes,
        old,
        inputs,
        skips,
    })
}

fn fixed((sql, key, needed): (&'static str, &[&'static str], &[&'static str])) -> Table {
    let (key, needed) = (key.to_vec(), needed.to_vec());
    Table { sql: sql.to_owned(), key, not_null: needed.clone(), needed, has_unique: true }
}

impl Table {
    /// The ways into it that say which rows are the same.
    fn modes(&self) -> Vec<IntoTable> {
        let mut modes = vec![IntoTable::Append, IntoTable::Replace];
        modes.extend(self.has_unique.then_some(IntoTable::Ignore));
        modes.extend((!self.key.is_empty()).then_some(IntoTable::Upsert));
        modes
    }
}

impl Input {
    fn text(&self) -> String {
        let mut text = String::new();
        if self.is_csv {
            writeln!(text, "{}", self.columns.join(",")).unwrap();
        }
        for row in &self.rows {
            let fields = row.iter().map(|value| match value {
                Value::Null => "null".to_owned(),
                Value::Integer(integer) => integer.to_string(),
                Value::Real(real) => format!("{real:?}"),
                Value::Text(text) => format!("\"{text}\""),
                Value::Blob(_) => unreachable!("there is none"),
            });
            if self.is_csv {
                writeln!(text, "{}", fields.collect::<Vec<_>>().join(",")).unwrap();
            } else {
                let named = self.columns.iter().zip(fields);
                let named: Vec<_> = named.map(|(name, it)| format!("\"{name}\":{it}")).collect();
                writeln!(text, "{{{}}}", named.join(",")).unwrap();
            }
        }
        text
    }
}

impl Case {
    /// Makes the database, without the rows that the table refuses.
    fn make(&self, path: &Path) {
        let db = Connection::open(path).unwrap();
        let Self { table: Table { sql, .. }, encoding, journal, page_bytes, .. } = self;
        let setup = format!(
            "PRAGMA encoding='{encoding}'; PRAGMA page_size={page_bytes}; \
             PRAGMA journal_mode={journal}; {sql}"
        );
        db.execute_batch(&setup).unwrap();
        for row in &self.old {
            let sql = "INSERT OR IGNORE INTO t(i, t, n) VALUES (?, ?, ?)";
            let _ = db.execute(sql, params_from_iter(row));
        }
    }

    /// Returns true if it is open what the rows mean, so that the load is refused.
    fn is_refused(&self) -> bool {
        let columns: Vec<BTreeSet<&str>> =
            self.inputs.iter().map(|input| input.columns.iter().copied().collect()).collect();
        let Table { key, needed, .. } = &self.table;
        columns.iter().any(|it| !needed.iter().all(|needed| it.contains(needed)))
            || self.mode == IntoTable::Upsert
                && (!key.iter().all(|key| columns[0].contains(key))
                    || columns.iter().any(|it| *it != columns[0]))
    }

    fn statement(&self, columns: &[&str]) -> String {
        let marks = vec!["?"; columns.len()].join(", ");
        let insert = format!("INTO t({}) VALUES ({marks})", columns.join(", "));
        let key = &self.table.key;
        let rest: Vec<_> = columns.iter().filter(|column| !key.contains(column)).collect();
        match self.mode {
            IntoTable::Ignore => format!("INSERT {insert} ON CONFLICT DO NOTHING"),
            IntoTable::Upsert => {
                let set = rest.iter().map(|it| format!("{it} = excluded.{it}"));
                let set = set.collect::<Vec<_>>().join(", ");
                let then = if set.is_empty() { "NOTHING" } else { &format!("UPDATE SET {set}") };
                format!("INSERT {insert} ON CONFLICT ({}) DO {then}", key.join(", "))
            }
            _ => format!("INSERT {insert}"),
        }
    }

    /// Inserts the rows; returns how many SQLite refused, and how many changed nothing.
    fn insert(&self, db: &Connection) -> (u64, u64) {
        let (mut refused, mut ignored) = (0, 0);
        if self.mode == IntoTable::Replace {
            db.execute("DELETE FROM t", []).unwrap();
        }
        for input in &self.inputs {
            let sql = self.statement(&input.columns).replacen("INSERT", self.verb(), 1);
            for row in &input.rows {
                // The declaration would pass over it, and the load does not let it decide.
                let is_bad = self.declares_conflicts() && self.is_null_where_none_may(input, row);
                db.execute_batch("SAVEPOINT row").unwrap();
                if !is_bad && let Ok(changed) = db.execute(&sql, params_from_iter(row)) {
                    ignored += u64::from(changed == 0);
                } else {
                    refused += 1;
                    db.execute_batch("ROLLBACK TO row").unwrap();
                }
                db.execute_batch("RELEASE row").unwrap();
            }
        }
        (refused, ignored)
    }

    /// The verb that keeps an ON CONFLICT of the declaration out.
    fn verb(&self) -> &'static str {
        if self.declares_conflicts() { "INSERT OR ABORT" } else { "INSERT" }
    }

    fn declares_conflicts(&self) -> bool {
        self.table.sql.contains("ON CONFLICT")
    }

    fn is_null_where_none_may(&self, input: &Input, row: &[Value]) -> bool {
        let mut values = input.columns.iter().zip(row);
        values.any(|(column, value)| *value == Value::Null && self.table.not_null.contains(column))
    }

    fn load(&self, path: &Path, folder: &Path) -> Result<Report, Error> {
        let files = self.inputs.iter().enumerate().map(|(number, input)| {
            let ending = if input.is_csv { "csv" } else { "ndjson" };
            let file = folder.join(format!("{number}.{ending}"));
            std::fs::write(&file, input.text()).unwrap();
            file
        });
        let files: Vec<_> = files.collect();
        let mut loader = Loader::new(path).table("t").into_table(self.mode).threads(2);
        if self.skips {
            loader = loader.on_error(OnError::Skip { rejects: None, max_rejects: None });
        }
        loader.load_files(&files)
    }
}

/// All that a database holds, in order.
fn content(db: &Connection) -> Vec<String> {
    let has_log: bool = db
        .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'log'", [], |row| row.get(0))
        .unwrap();
    let mut found = Vec::new();
    for table in ["t", "log"].iter().take(1 + usize::from(has_log)) {
        let mut statement = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let row = |row: &rusqlite::Row<'_>| {
            let values: rusqlite::Result<Vec<Value>> = (0..columns).map(|at| row.get(at)).collect();
            Ok(format!("{table} {:?}", values?))
        };
        found.extend(statement.query_map([], row).unwrap().map(Result::unwrap));
    }
    found.sort();
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    found.push(sound);
    found
}

fn check(case: &Case) {
    let folder = tempdir().unwrap();
    let [ours, theirs] = ["ours.db", "theirs.db"].map(|name| folder.path().join(name));
    case.make(&ours);
    case.make(&theirs);
    let db = Connection::open(&theirs).unwrap();
    let before = content(&db);
    let loaded = case.load(&ours, folder.path());
    let found = content(&Connection::open(&ours).unwrap());
    if case.is_refused() {
        // Bad rows may be found first, and then no row is left.
        assert!(loaded.is_err() || loaded.is_ok_and(|report| report.rows_loaded == 0));
        assert_eq!(found, before);
        return;
    }
    db.execute_batch("BEGIN").unwrap();
    let (refused, ignored) = case.insert(&db);
    if refused > 0 && !case.skips {
        let error = loaded.expect_err("a row that SQLite refuses");
        assert!(
            matches!(error.kind(), ErrorKind::BadRow(_) | ErrorKind::Constraint { .. }),
            "{error}"
        );
        assert_eq!(found, before);
        return;
    }
    let all = case.inputs.iter().map(|input| input.rows.len() as u64).sum::<u64>();
    if case.mode == IntoTable::Replace && refused > 0 && refused == all {
        let error = loaded.expect_err("no row is left to replace the old ones by");
        assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
        assert_eq!(found, before);
        return;
    }
    let report = loaded.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found, content(&db));
    let loaded = all - refused - ignored;
    assert_eq!(
        (report.rows_read, report.rows_loaded, report.rows_rejected, report.rows_ignored),
        (all, loaded, refused, ignored)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn files_into_a_table_equal_inserts(case in case()) {
        check(&case);
    }
}
