//! The order of keys against stock SQLite.
//!
//! Checked here:
//! 1. `<`, `=` and `>` of pairs of values, under each collation;
//! 2. the order in which an index with several columns, collations and
//!    directions returns its rows, with the rowid as the last word.

mod common;

use std::cmp::Ordering;

use common::{Owned, check_many};
use leafpress_format::{Collation, KeyColumn, SortOrder, Value, compare_keys, compare_values};
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, params};

const COLLATIONS: [(Collation, &str); 3] =
    [(Collation::Binary, "BINARY"), (Collation::NoCase, "NOCASE"), (Collation::RTrim, "RTRIM")];

fn parameter(value: &Owned) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Owned::Null => ValueRef::Null,
        Owned::Integer(integer) => ValueRef::Integer(*integer),
        Owned::Real(real) => ValueRef::Real(*real),
        Owned::Text(text) => ValueRef::Text(text),
        Owned::Blob(blob) => ValueRef::Blob(blob),
    })
}

/// Texts of few letters, so that many pairs are equal or nearly so.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let few = select(b"aAbB_ \t\0~Z[".to_vec());
    let high = select(b"\x80\xff\xc3\xa9\xe9".to_vec());
    let byte = prop_oneof![9 => few, 1 => high];
    prop_oneof![
        4 => prop::collection::vec(byte, 0..4),
        1 => "[aA]{0,2}[éÉa ]{0,2} {0,3}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ]
}

fn numbers() -> impl Strategy<Value = Owned> {
    let edges = [0, 1, -1, 1 << 51, 1 << 52, 1 << 53, -(1 << 53), 1 << 62, i64::MAX, i64::MIN];
    // Integers and reals around the same places, so that exactness decides.
    let near_integer = (select(edges.to_vec()), -3..=3_i64)
        .prop_map(|(edge, off)| Owned::Integer(edge.wrapping_add(off)));
    let near_real = (select(edges.to_vec()), -3..=3_i64).prop_map(|(edge, off)| {
        Owned::Real(f64::from_bits((edge as f64).to_bits().wrapping_add_signed(off)))
    });
    let small_real = (-9..9_i32).prop_map(|quarters| Owned::Real(f64::from(quarters) / 4.0));
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 0.0, f64::MAX, 5e-324];
    prop_oneof![
        2 => near_integer,
        2 => near_real,
        1 => (-3..3_i64).prop_map(Owned::Integer),
        1 => small_real,
        1 => any::<i64>().prop_map(Owned::Integer),
        1 => any::<u64>().prop_map(|bits| Owned::Real(f64::from_bits(bits))),
        1 => select(special.to_vec()).prop_map(Owned::Real),
    ]
}

fn values() -> impl Strategy<Value = Owned> {
    prop_oneof![
        1 => Just(Owned::Null),
        5 => numbers(),
        5 => bytes().prop_map(Owned::Text),
        2 => bytes().prop_map(Owned::Blob),
    ]
}

/// What SQLite says about a pair; `None` if it says NULL.
fn ordering_in_sqlite(
    connection: &Connection,
    collation: &str,
    left: &Owned,
    right: &Owned,
) -> Option<Ordering> {
    let sql = format!(
        "SELECT ?1 < ?2 COLLATE {collation}, ?1 = ?2 COLLATE {collation}, ?1 > ?2 COLLATE {collation}"
    );
    let mut statement = connection.prepare_cached(&sql).unwrap();
    let answers: [Option<bool>; 3] = statement
        .query_row(params![parameter(left), parameter(right)], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?])
        })
        .unwrap();
    match answers {
        [None, None, None] => None,
        [Some(true), Some(false), Some(false)] => Some(Ordering::Less),
        [Some(false), Some(true), Some(false)] => Some(Ordering::Equal),
        [Some(false), Some(false), Some(true)] => Some(Ordering::Greater),
        other => panic!("{left:?} and {right:?}: {other:?}"),
    }
}

#[test]
fn pairs_compare_as_in_sqlite() {
    let connection = Connection::open_in_memory().unwrap();
    let pairs = prop_oneof![
        1 => (values(), values()),
        2 => (numbers(), numbers()),
        2 => (bytes().prop_map(Owned::Text), bytes().prop_map(Owned::Text)),
    ];
    check_many(15_000, pairs, |(left, right)| {
        for (collation, name) in COLLATIONS {
            let ours = compare_values(&left.value(), &right.value(), collation);
            // NULL has no answer here; the index below puts it in its place.
            if let Some(theirs) = ordering_in_sqlite(&connection, name, &left, &right) {
                assert_eq!(ours, theirs, "{name}: {left:?} and {right:?}");
            }
            let reverse = compare_values(&right.value(), &left.value(), collation);
            assert_eq!(ours, reverse.reverse(), "{name}: {left:?} and {right:?}");
        }
    });
}

fn key_columns() -> impl Strategy<Value = Vec<(KeyColumn, String)>> {
    let orders = [(SortOrder::Ascending, "ASC"), (SortOrder::Descending, "DESC")];
    let column = (select(COLLATIONS.to_vec()), select(orders.to_vec())).prop_map(
        |((collation, collation_name), (order, order_name))| {
            let sql = format!("COLLATE {collation_name} {order_name}");
            (KeyColumn { collation, order }, sql)
        },
    );
    prop::collection::vec(column, 3)
}

/// The rowids of `rows` in the order of an index on them.
fn order_in_sqlite(
    connection: &Connection,
    columns: &[(KeyColumn, String)],
    rows: &[[Owned; 3]],
) -> Vec<i64> {
    let [a, b, c] = [&columns[0].1, &columns[1].1, &columns[2].1];
    // A savepoint undoes the index with its rows: cheaper than a new database.
    let sql = format!("SAVEPOINT s; CREATE INDEX k ON t(a {a}, b {b}, c {c})");
    connection.execute_batch(&sql).unwrap();
    let mut insert = connection.prepare_cached("INSERT INTO t VALUES(?1, ?2, ?3)").unwrap();
    for [a, b, c] in rows {
        insert.execute(params![parameter(a), parameter(b), parameter(c)]).unwrap();
    }
    let sql = format!("SELECT rowid FROM t INDEXED BY k ORDER BY a {a}, b {b}, c {c}");
    let mut select = connection.prepare(&sql).unwrap();
    let plan: String =
        connection.query_row(&format!("EXPLAIN QUERY PLAN {sql}"), [], |row| row.get(3)).unwrap();
    assert!(plan.contains("INDEX k"), "the order must come from the index: {plan}");
    let rowids = select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    drop(select);
    connection.execute_batch("ROLLBACK TO s; RELEASE s").unwrap();
    rowids
}

#[test]
fn keys_stand_in_an_index_as_in_sqlite() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t(a, b, c)").unwrap();
    let row = (values(), values(), values()).prop_map(|(a, b, c)| [a, b, c]);
    let cases = (key_columns(), prop::collection::vec(row, 0..40));
    check_many(500, cases, |(columns, rows)| {
        let keys: Vec<Vec<Value<'_>>> = rows
            .iter()
            .zip(1..)
            .map(|(row, rowid)| {
                row.iter().map(Owned::value).chain([Value::Integer(rowid)]).collect()
            })
            .collect();
        let key_columns: Vec<KeyColumn> = columns.iter().map(|(column, _)| *column).collect();
        let mut ours: Vec<i64> = (1..).take(rows.len()).collect();
        // Backwards first, so that the rowid in the key must decide among equals.
        ours.reverse();
        ours.sort_by(|left, right| {
            let key = |rowid: i64| &keys[rowid as usize - 1];
            compare_keys(key(*left), key(*right), &key_columns)
        });
        assert_eq!(ours, order_in_sqlite(&connection, &columns, &rows), "{columns:?} {rows:?}");
    });
}
