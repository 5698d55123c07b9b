//! Rows made in memory: any value in any column, against INSERTs of the same.

use std::fs;

use leafpress::ErrorKind;
use leafpress::load::{Column, ColumnType, IntoTable, Loader, Value};
use proptest::collection::vec;
use proptest::prelude::*;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, params_from_iter};
use tempfile::tempdir;

use crate::expected::assert_same_rows;

/// A value that owns what it holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Owned {
    pub fn borrow(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(integer) => Value::Integer(*integer),
            Self::Real(real) => Value::Real(*real),
            Self::Text(text) => Value::Text(text.as_bytes()),
            Self::Blob(blob) => Value::Blob(blob),
        }
    }
}

impl ToSql for Owned {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Real(real) => ValueRef::Real(*real),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(blob) => ValueRef::Blob(blob),
        }))
    }
}

/// Texts that are numbers. With a fraction they have 19 digits at most: SQLite may take a neighbour
/// of the nearest double for a longer one, and store the integer that the neighbour is.
const NUMERALS: &str =
    "[-+]?([0-9]{1,20}|[0-9]{1,15}(\\.[0-9]{0,4})?(e[0-9]{1,2})?|[0-9]{16,18}\\.[0-9])";

pub fn value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        Just(Owned::Null),
        any::<i64>().prop_map(Owned::Integer),
        (-300..300_i64).prop_map(Owned::Integer),
        any::<f64>().prop_map(Owned::Real),
        (-1000..1000_i32).prop_map(|whole| Owned::Real(f64::from(whole))),
        prop::sample::select(vec![f64::NAN, -0.0, f64::INFINITY, 1e15, 1e300, 9.3e18, -9.2e18])
            .prop_map(Owned::Real),
        ".{0,20}".prop_map(Owned::Text),
        NUMERALS.prop_map(Owned::Text),
        (0..3_usize, 400..9000_usize)
            .prop_map(|(letter, len)| { Owned::Text(["x", "\u{e9}", "\0"][letter].repeat(len)) }),
        vec(any::<u8>(), 0..20).prop_map(Owned::Blob),
        vec(any::<u8>(), 900..1100).prop_map(Owned::Blob),
    ]
}

/// Declared types: those of STRICT tables, and any.
const STRICT_TYPES: [&str; 6] = ["INTEGER", "INT", "REAL", "TEXT", "BLOB", "ANY"];
const TYPES: [&str; 10] = [
    "INTEGER",
    "REAL",
    "TEXT",
    "BLOB",
    "",
    "DECIMAL(10, 2)",
    "varchar(20)",
    "double precision",
    "datetime",
    "ANY",
];

fn columns(strict: bool) -> impl Strategy<Value = Vec<Column>> {
    let types = if strict { &STRICT_TYPES[..] } else { &TYPES[..] };
    vec(prop::sample::select(types), 1..6).prop_map(|types| {
        let columns = types.into_iter().enumerate();
        columns.map(|(index, it)| Column::declared(format!("c{index}"), it)).collect()
    })
}

fn table() -> impl Strategy<Value = (bool, Vec<Column>, Vec<Vec<Owned>>)> {
    let with_columns = |strict| columns(strict).prop_map(move |columns| (strict, columns));
    any::<bool>().prop_flat_map(with_columns).prop_flat_map(|(strict, columns)| {
        let row = vec(value(), columns.len());
        (Just(strict), Just(columns), vec(row, 0..60))
    })
}

fn sqlite_table(columns: &[Column], strict: bool) -> Connection {
    let columns: Vec<String> =
        columns.iter().map(|it| format!("{} {}", it.name, it.declared_type)).collect();
    let strict = if strict { " STRICT" } else { "" };
    let connection = Connection::open_in_memory().unwrap();
    let create = format!("CREATE TABLE t ({}){strict}; BEGIN", columns.join(","));
    connection.execute_batch(&create).unwrap();
    connection
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn any_value_in_any_column_is_stored_as_sqlite_does(
        (strict, columns, rows) in table(),
        page_bytes in (9..17_u32).prop_map(|exponent| 1 << exponent),
        parts in 1..5_usize,
    ) {
        let folder = tempdir().unwrap();
        let expected = sqlite_table(&columns, strict);
        let marks = vec!["?"; columns.len()].join(",");
        let insert = format!("INSERT INTO t VALUES ({marks})");
        let mut insert = expected.prepare(&insert).unwrap();
        let refused = rows.iter().position(|row| insert.execute(params_from_iter(row)).is_err());
        let borrowed: Vec<Vec<Value<'_>>> =
            rows.iter().map(|row| row.iter().map(Owned::borrow).collect()).collect();
        let loader = |name: &str| {
            let database = folder.path().join(name);
            Loader::new(database).table("t").strict(strict).page_size(page_bytes).threads(3)
        };
        let outcome = loader("rows.db").load_rows(&columns, &borrowed);
        let size = borrowed.len().div_ceil(parts).max(1);
        let in_parts = loader("parts.db").load_parts(&columns, borrowed.chunks(size).collect());
        if let Some(index) = refused {
            let error = outcome.unwrap_err();
            let Some(bad) = error.bad_row() else { panic!("{error}") };
            prop_assert_eq!(bad.line, index as u64 + 1, "{}", error);
            prop_assert!(in_parts.unwrap_err().bad_row().is_some());
            prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            return Ok(());
        }
        prop_assert_eq!(outcome.unwrap().rows_loaded, rows.len() as u64);
        in_parts.unwrap();
        for name in ["rows.db", "parts.db"] {
            let pressed = Connection::open(folder.path().join(name)).unwrap();
            let check: String =
                pressed.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            prop_assert_eq!(check, "ok");
            assert_same_rows(&expected, &pressed, columns.len());
        }
    }
}

#[test]
fn a_declared_type_that_is_none_is_refused() {
    let folder = tempdir().unwrap();
    for wrong in ["INT, x", "TEXT DEFAULT 'a'", "INT GENERATED ALWAYS AS (1", "a\"b"] {
        let columns = [Column::declared("a", wrong)];
        let loader = Loader::new(folder.path().join("a.db")).table("t");
        let error = loader.load_rows(&columns, [(1_i64,)]).unwrap_err();
        assert!(error.to_string().contains("is no declared type"), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn tuples_of_every_type_are_rows() {
    let folder = tempdir().unwrap();
    let types = [
        ColumnType::Integer,
        ColumnType::Integer,
        ColumnType::Real,
        ColumnType::Real,
        ColumnType::Text,
        ColumnType::Text,
        ColumnType::Blob,
        ColumnType::Blob,
        ColumnType::Integer,
        ColumnType::Text,
    ];
    let columns: Vec<Column> =
        types.iter().enumerate().map(|(n, t)| Column::new(format!("c{n}"), *t)).collect();
    let row = |id: i64| {
        let none: Option<f64> = None;
        (id, true, 1.5, 7_i32, "text", format!("{id}"), vec![1_u8], &[2_u8][..], none, 12_u32)
    };
    let database = folder.path().join("a.db");
    let loader = Loader::new(&database).table("t").primary_key("c0");
    loader.load_rows(&columns, (1..=3000).map(row)).unwrap();
    let connection = Connection::open(&database).unwrap();
    let sql = "SELECT group_concat(quote(c0) || quote(c1) || quote(c2) || quote(c3) || quote(c4) ||
               quote(c5) || quote(c6) || quote(c7) || quote(c8) || quote(c9)) FROM t
               WHERE c0 IN (1, 3000)";
    let found: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(
        found,
        "111.57.0'text''1'X'01'X'02'NULL'12',300011.57.0'text''3000'X'01'X'02'NULL'12'"
    );
}

#[test]
fn keys_come_in_any_order_but_differ_and_are_integers() {
    let columns = [Column::new("id", ColumnType::Integer), Column::new("x", ColumnType::Text)];
    let folder = tempdir().unwrap();
    let database = folder.path().join("a.db");
    let loader = || Loader::new(&database).table("t").primary_key("id");
    let rows = |keys: &[i64]| keys.iter().map(|key| (*key, "x")).collect::<Vec<_>>();
    for keys in [&[1, 1][..], &[2, 1, 3, 2], &[1, 2, 3, -1, 3]] {
        let error = loader().load_rows(&columns, rows(keys)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Constraint { .. }), "{error}");
        let Some(bad) = error.bad_row() else { panic!("{error}") };
        assert_eq!(bad.line, keys.len() as u64, "{error}");
    }
    let error = loader().load_parts(&columns, vec![rows(&[1, 2]), rows(&[2, 3])]).unwrap_err();
    assert!(error.to_string().contains("<rows of part 1>:1"), "{error}");
    // The pressed rows are read again, those with overflow pages too.
    let long = "long ".repeat(5000);
    let wide = |keys: std::ops::Range<i64>| keys.map(|key| (key, long.as_str()));
    for parts in [
        vec![wide(1000..1900).collect::<Vec<_>>(), wide(0..700).collect()],
        vec![wide(0..800).chain(wide(-5..-1)).chain(wide(900..1200)).collect(), rows(&[850])],
    ] {
        let mut expected: Vec<_> =
            parts.iter().flatten().map(|(key, text)| format!("{key} {}", text.len())).collect();
        expected.sort_by_key(|row| row.split(' ').next().unwrap().parse::<i64>().unwrap());
        loader().load_parts(&columns, parts).unwrap();
        let connection = Connection::open(&database).unwrap();
        let mut statement = connection.prepare("SELECT id || ' ' || length(x) FROM t").unwrap();
        let found = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(found.collect::<Result<Vec<_>, _>>().unwrap(), expected);
        let check: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        drop(statement);
        drop(connection);
        fs::remove_file(&database).unwrap();
    }
    let no_key: [(Option<i64>, &str); 2] = [(Some(1), "x"), (None, "y")];
    let error = loader().load_rows(&columns, no_key).unwrap_err();
    assert!(error.to_string().contains("the primary key is no integer"), "{error}");
    let too_wide = loader().load_rows(&columns, [(1_i64, "x", 2_i64)]).unwrap_err();
    assert!(too_wide.to_string().contains("3 values"), "{too_wide}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let report = loader().load_parts(&columns, vec![rows(&[i64::MIN, -7]), rows(&[0, i64::MAX])]);
    assert_eq!(report.unwrap().rows_loaded, 4);
    let none = Loader::new(folder.path().join("b.db")).table("t");
    let empty: Vec<Vec<(i64, &str)>> = Vec::new();
    assert_eq!(none.load_parts(&columns, empty).unwrap().rows_loaded, 0);
}

#[test]
fn rows_are_appended_to_a_table_that_is_there() {
    let folder = tempdir().unwrap();
    let database = folder.path().join("a.db");
    let connection = Connection::open(&database).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t(a TEXT, id INTEGER PRIMARY KEY, d DEFAULT 7);
             INSERT INTO t VALUES ('x', 5, 0)",
        )
        .unwrap();
    let columns = [Column::new("ID", ColumnType::Integer), Column::new("a", ColumnType::Integer)];
    let loader = || Loader::new(&database).table("t").into_table(IntoTable::Append);
    let report = loader().load_rows(&columns, [(9_i64, 1_i64), (2, 22), (7, 333)]).unwrap();
    assert_eq!(report.rows_loaded, 3);
    let sql = "SELECT group_concat(id || quote(a) || d) FROM t";
    let rows: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, "2'22'7,5'x'0,7'333'7,9'1'7");
    let unknown = [Column::new("b", ColumnType::Integer)];
    let error = loader().load_rows(&unknown, [(1_i64,)]).unwrap_err();
    assert!(error.to_string().contains("no column 'b'"), "{error}");
}

#[test]
fn a_text_of_twenty_digits_becomes_the_nearest_real() {
    let folder = tempdir().unwrap();
    let columns = [Column::new("r", ColumnType::Real)];
    let texts = ["9223400199413072896.1", "9223400199413072896", "-9223400199413072896.1e3"];
    let database = folder.path().join("a.db");
    Loader::new(&database).table("t").load_rows(&columns, texts.map(|text| (text,))).unwrap();
    let pressed = Connection::open(database).unwrap();
    let mut statement = pressed.prepare("SELECT r FROM t").unwrap();
    let reals = statement.query_map([], |row| row.get::<_, f64>(0)).unwrap();
    for (real, text) in reals.zip(texts) {
        assert_eq!(real.unwrap().to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
    }
}
