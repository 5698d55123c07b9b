//! Tables that the loader declares, from flags, and rows made in memory.

use std::fmt::Write as _;
use std::fs;

use leafpress::load::{Column, ColumnType, Loader, OnConflict, OnError, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use rusqlite::{Connection, params_from_iter};
use tempfile::tempdir;

use crate::declared::csv;
use crate::judge::{Compare, assert_same, bound, insert, insert_sql, open_sound};
use crate::schema::{self, Cell, Kind, Table};

const TYPES: [(ColumnType, Kind); 4] = [
    (ColumnType::Integer, Kind::Integer),
    (ColumnType::Real, Kind::Real),
    (ColumnType::Text, Kind::Text),
    (ColumnType::Blob, Kind::Blob),
];

/// What is asked for by flags.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the loader has")]
pub struct Flags {
    pub types: Vec<(ColumnType, Kind)>,
    pub rows: Vec<Vec<Cell>>,
    pub key: Vec<usize>,
    pub without_rowid: bool,
    pub strict: bool,
    pub not_null: Vec<usize>,
    pub indexes: Vec<(String, bool)>,
    pub on_conflict: OnConflict,
    pub skip: bool,
    pub threads: usize,
    pub memory_bytes: usize,
    pub analyze: bool,
    pub parts: usize,
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = (0..self.types.len()).map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let types: Vec<_> = self.types.iter().map(|(of, _)| of).collect();
        writeln!(
            f,
            "{types:?} key {:?} without rowid {} strict {} not null {:?} indexes {:?} {:?} skip {} \
             threads {} memory {} analyze {} parts {}\n{}",
            self.key,
            self.without_rowid,
            self.strict,
            self.not_null,
            self.indexes,
            self.on_conflict,
            self.skip,
            self.threads,
            self.memory_bytes,
            self.analyze,
            self.parts,
            csv(&names, &self.rows).0
        )
    }
}

pub fn name(at: usize) -> String {
    format!("c{at}")
}

fn index() -> impl Strategy<Value = (Vec<(Index, &'static str, &'static str)>, bool)> {
    let collation = select(vec!["", "", " NOCASE", " RTRIM"]);
    (vec((any::<Index>(), collation, select(vec!["", " DESC"])), 1..4), prop::bool::weighted(0.3))
}

pub fn flags() -> impl Strategy<Value = Flags> {
    let columns = vec(select(&TYPES[..]), 1..5).prop_flat_map(|types| {
        let columns: Vec<schema::Column> = types
            .iter()
            .enumerate()
            .map(|(at, (_, kind))| schema::Column { name: name(at), kind: *kind })
            .collect();
        let rows = schema::rows(&columns, 40);
        (Just(types), rows)
    });
    let asked = (
        vec(any::<Index>(), 0..3),
        any::<bool>(),
        prop::bool::weighted(0.2),
        vec(any::<Index>(), 0..2),
        vec(index(), 0..3),
    );
    let how = (
        select(vec![OnConflict::Abort, OnConflict::Ignore, OnConflict::Replace]),
        prop::bool::weighted(0.6),
        1..4_usize,
        select(vec![1_usize, 100_000, 1 << 28]),
        prop::bool::weighted(0.3),
        1..4_usize,
    );
    (columns, asked, how).prop_map(
        |(
            (types, rows),
            (key, without_rowid, strict, not_null, indexes),
            (on_conflict, skip, threads, memory_bytes, analyze, parts),
        )| {
            let mut key: Vec<usize> = key.iter().map(|index| index.index(types.len())).collect();
            key.dedup();
            let indexes = indexes.into_iter().map(|(terms, unique)| {
                let terms: Vec<String> = terms
                    .iter()
                    .map(|(index, collation, direction)| {
                        format!("{}{collation}{direction}", name(index.index(types.len())))
                    })
                    .collect();
                (terms.join(", "), unique)
            });
            // One that is asked for twice is refused.
            let mut distinct: Vec<(String, bool)> = Vec::new();
            for index in indexes {
                if !distinct.contains(&index) {
                    distinct.push(index);
                }
            }
            // Without a key the choice is refused.
            let has_key = !key.is_empty() || distinct.iter().any(|(_, unique)| *unique);
            let on_conflict = if has_key { on_conflict } else { OnConflict::Abort };
            Flags {
                indexes: distinct,
                without_rowid: without_rowid && !key.is_empty(),
                not_null: not_null.iter().map(|index| index.index(types.len())).collect(),
                types,
                rows,
                key,
                strict,
                on_conflict,
                skip,
                threads,
                memory_bytes,
                analyze,
                parts,
            }
        },
    )
}

impl Flags {
    pub fn loader(&self, database: &std::path::Path) -> Loader {
        let mut loader = Loader::new(database)
            .table("t")
            .without_rowid(self.without_rowid)
            .strict(self.strict)
            .on_conflict(self.on_conflict)
            .threads(self.threads)
            .memory(self.memory_bytes)
            .analyze(self.analyze);
        for key in &self.key {
            loader = loader.primary_key(name(*key));
        }
        for column in &self.not_null {
            loader = loader.not_null(name(*column));
        }
        for (index, unique) in &self.indexes {
            loader = if *unique { loader.unique(index) } else { loader.index(index) };
        }
        if self.skip {
            loader = loader.on_error(OnError::Skip { rejects: None, max_rejects: None });
        }
        loader
    }

    fn rowid(&self) -> Option<usize> {
        match self.key[..] {
            [key] if !self.without_rowid && self.types[key].0 == ColumnType::Integer => Some(key),
            _ => None,
        }
    }

    /// The table as it must be declared, in words of its own.
    pub fn table(&self) -> Table {
        let mut parts: Vec<String> = Vec::new();
        for (at, (column_type, _)) in self.types.iter().enumerate() {
            let mut part = format!("{} {}", name(at), crate::judge::type_name(*column_type));
            if self.rowid() == Some(at) {
                part.push_str(" PRIMARY KEY");
            }
            if self.not_null.contains(&at) {
                part.push_str(" NOT NULL");
            }
            parts.push(part);
        }
        if self.rowid().is_none() && !self.key.is_empty() {
            let names: Vec<String> = self.key.iter().map(|at| name(*at)).collect();
            parts.push(format!("PRIMARY KEY ({})", names.join(", ")));
        }
        let options = match (self.strict, self.without_rowid) {
            (false, false) => "",
            (true, false) => "STRICT",
            (false, true) => "WITHOUT ROWID",
            (true, true) => "STRICT, WITHOUT ROWID",
        };
        let mut sql = format!("CREATE TABLE t ({}) {options}", parts.join(", "));
        for (number, (index, unique)) in self.indexes.iter().enumerate() {
            let unique = if *unique { "UNIQUE" } else { "" };
            let index =
                index.replace(" NOCASE", " COLLATE NOCASE").replace(" RTRIM", " COLLATE RTRIM");
            write!(sql, "; CREATE {unique} INDEX i{number} ON t ({index})").unwrap();
        }
        let columns = self.types.iter().enumerate();
        let columns = columns.map(|(at, (_, kind))| schema::Column { name: name(at), kind: *kind });
        let (rowid, never_null) = (self.rowid(), self.key.clone());
        Table { sql, columns: columns.collect(), rowid, never_null }
    }
}

pub fn check_csv(flags: &Flags) {
    let folder = tempdir().unwrap();
    let names: Vec<String> = (0..flags.types.len()).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    fs::write(folder.path().join("in.csv"), csv(&names, &flags.rows).0).unwrap();
    let path = folder.path().join("a.db");
    let mut loader = flags.loader(&path).null_marker("\\N");
    for (at, (column_type, _)) in flags.types.iter().enumerate() {
        loader = loader.column_type(name(at), *column_type);
    }
    let outcome = loader.load_file(folder.path().join("in.csv"));
    let expected = insert(&flags.table(), &flags.rows, flags.on_conflict);
    if !flags.skip && !expected.refused.is_empty() {
        let error = outcome.unwrap_err();
        assert!(error.bad_row().is_some(), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        return;
    }
    let report = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.rows_rejected, expected.refused.len() as u64, "rows rejected");
    assert_as_declared(&expected.database, &report.create_sql, &path, flags.analyze);
}

/// The same rows in the table as the loader says that it declared it, which
/// must be the one that was asked for.
pub fn assert_as_declared(expected: &Connection, sql: &str, path: &std::path::Path, analyze: bool) {
    let ours = Connection::open_in_memory().unwrap();
    ours.execute_batch(sql).unwrap();
    let shape = "SELECT name, type, \"notnull\", pk FROM pragma_table_xinfo('t')";
    assert_eq!(crate::judge::answer(&ours, shape), crate::judge::answer(expected, shape));
    let indexes = "SELECT x.name, x.\"desc\", x.coll, x.key, l.\"unique\" FROM pragma_index_list('t') l, \
                   pragma_index_xinfo(l.name) x ORDER BY l.seq, x.seqno";
    assert_eq!(crate::judge::answer(&ours, indexes), crate::judge::answer(expected, indexes));
    let has_rowids = expected.prepare("SELECT rowid FROM t").is_ok();
    let names = crate::judge::texts(expected, "SELECT name FROM pragma_table_info('t')");
    let is_alias = crate::judge::texts(
        expected,
        "SELECT name FROM pragma_table_info('t') WHERE pk AND type = 'INTEGER' AND NOT EXISTS \
         (SELECT 1 FROM pragma_index_list('t') WHERE origin = 'pk')",
    );
    let mut columns = names.clone();
    if has_rowids && is_alias.is_empty() {
        columns.insert(0, "rowid".to_owned());
    }
    let select = format!("SELECT {} FROM t NOT INDEXED", columns.join(", "));
    let mut statement = expected.prepare(&select).unwrap();
    let mut rows = statement.query([]).unwrap();
    let marks = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT INTO t ({}) VALUES ({marks})", columns.join(", "));
    while let Some(row) = rows.next().unwrap() {
        let values: Vec<rusqlite::types::Value> =
            (0..columns.len()).map(|at| row.get(at).unwrap()).collect();
        ours.execute(&insert, params_from_iter(values)).unwrap();
    }
    assert_same(&ours, &open_sound(path), Compare { analyze, ..Compare::default() });
}

/// Rows made in memory: the cells as they are bound, in as many parts.
pub fn check_rows(flags: &Flags) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.db");
    let table = flags.table();
    let values: Vec<Vec<rusqlite::types::Value>> = flags
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&flags.types).enumerate();
            cells
                .map(|(at, (cell, (_, kind)))| match bound(*kind, cell) {
                    // Keys made in memory are integers, not texts of them.
                    rusqlite::types::Value::Text(text) if flags.rowid() == Some(at) => {
                        rusqlite::types::Value::Integer(text.trim().parse::<f64>().unwrap() as i64)
                    }
                    value => value,
                })
                .collect()
        })
        .collect();
    let rows: Vec<Vec<Value<'_>>> =
        values.iter().map(|row| row.iter().map(borrowed).collect()).collect();
    let columns: Vec<Column> =
        flags.types.iter().enumerate().map(|(at, (of, _))| Column::new(name(at), *of)).collect();
    let loader = flags.loader(&path);
    let size = rows.len().div_ceil(flags.parts).max(1);
    let outcome = if flags.parts == 1 {
        loader.load_rows(&columns, &rows)
    } else {
        loader.load_parts(&columns, rows.chunks(size).collect())
    };
    let expected = insert_values(&table, &values, flags.on_conflict);
    if !flags.skip && !expected.1.is_empty() {
        assert!(outcome.is_err(), "a bad row stops the load");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        return;
    }
    let report = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.rows_loaded + expected.1.len() as u64 + expected.2, rows.len() as u64);
    assert_as_declared(&expected.0, &report.create_sql, &path, flags.analyze);
}

fn borrowed(value: &rusqlite::types::Value) -> Value<'_> {
    match value {
        rusqlite::types::Value::Null => Value::Null,
        rusqlite::types::Value::Integer(integer) => Value::Integer(*integer),
        rusqlite::types::Value::Real(real) => Value::Real(*real),
        rusqlite::types::Value::Text(text) => Value::Text(text.as_bytes()),
        rusqlite::types::Value::Blob(blob) => Value::Blob(blob),
    }
}

/// The table, the rows that were refused, and how many are not there besides.
pub fn insert_values(
    table: &Table,
    rows: &[Vec<rusqlite::types::Value>],
    on_conflict: OnConflict,
) -> (Connection, Vec<usize>, u64) {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(&table.sql).unwrap();
    let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    let sql = insert_sql(&names, on_conflict);
    let mut refused = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let no_key = table.never_null.iter().any(|at| row[*at] == rusqlite::types::Value::Null);
        if no_key || database.prepare_cached(&sql).unwrap().execute(params_from_iter(row)).is_err()
        {
            refused.push(place);
        }
    }
    let count: i64 = database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    let others = rows.len() as u64 - count as u64 - refused.len() as u64;
    (database, refused, others)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(150)
    })]

    #[test]
    fn a_table_made_by_flags_is_what_inserts_make_of_it(flags in flags()) {
        check_csv(&flags);
    }

    #[test]
    fn rows_made_in_memory_are_what_inserts_make_of_them(flags in flags()) {
        check_rows(&flags);
    }
}
