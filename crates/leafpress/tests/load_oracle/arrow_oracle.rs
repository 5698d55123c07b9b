//! Record batches of Arrow, with NULLs, against INSERTs of the same values into the table that the
//! loader declares for them.
//!
//! The columns of a batch are prepared before its rows are written, by their types; so each type has
//! all kinds of its values here, in batches of more rows than are prepared together.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Float64Array, Int32Array, Int64Array,
    LargeStringArray, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
    StringViewArray,
};
use leafpress::load::{ColumnType, IntoTable, Loader};
use proptest::collection::vec;
use proptest::prelude::*;
use rusqlite::types::ToSql;
use rusqlite::{Connection, params_from_iter};
use tempfile::tempdir;

use crate::expected::{assert_same_rows, type_name};
use crate::rows_oracle::Owned;

/// Type of an array.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Int32,
    Int64,
    Float64,
    Text,
    LargeText,
    TextView,
    Binary,
    Boolean,
    Date,
}

const KINDS: [Kind; 9] = [
    Kind::Int32,
    Kind::Int64,
    Kind::Float64,
    Kind::Text,
    Kind::LargeText,
    Kind::TextView,
    Kind::Binary,
    Kind::Boolean,
    Kind::Date,
];

/// Days of the dates whose texts are the values of [`Kind::Date`]: the first of each month from 1970 on.
fn days(text: &str) -> i32 {
    let mut numbers = text.split('-').map(|part| part.parse::<i32>().unwrap());
    let (year, month) = (numbers.next().unwrap(), numbers.next().unwrap());
    let is_leap = |year: i32| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let of_month = |month: i32| match month {
        2 => 28 + i32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let years: i32 = (1970..year).map(|year| 365 + i32::from(is_leap(year))).sum();
    years + (1..month).map(of_month).sum::<i32>()
}

impl Kind {
    fn value(self) -> BoxedStrategy<Owned> {
        let reals = vec![f64::NAN, -0.0, 0.0, f64::INFINITY, 1e15, 140_737_488_355_328.0, 5e-324];
        match self {
            Self::Int32 => any::<i32>().prop_map(|it| Owned::Integer(it.into())).boxed(),
            Self::Int64 => prop_oneof![
                any::<i64>(),
                (0..63_u32, -2..3_i64).prop_map(|(bits, near)| (1_i64 << bits).wrapping_add(near)),
                -300..300_i64,
            ]
            .prop_map(Owned::Integer)
            .boxed(),
            Self::Float64 => prop_oneof![
                any::<f64>(),
                (-1000..1000_i32).prop_map(f64::from),
                prop::sample::select(reals),
            ]
            .prop_map(Owned::Real)
            .boxed(),
            Self::Text | Self::LargeText | Self::TextView => prop_oneof![
                "[a-z]{0,16}",
                ".{0,9}",
                // Around the longest whose serial type is one byte, and longer than a page.
                (54..62_usize).prop_map(|len| "x".repeat(len)),
                (4000..9000_usize).prop_map(|len| "\u{e9}".repeat(len)),
            ]
            .prop_map(Owned::Text)
            .boxed(),
            Self::Boolean => any::<bool>().prop_map(|it| Owned::Integer(it.into())).boxed(),
            Self::Date => (1970..2100, 1..13)
                .prop_map(|(year, month)| Owned::Text(format!("{year}-{month:02}-01")))
                .boxed(),
            Self::Binary => vec(any::<u8>(), 0..70).prop_map(Owned::Blob).boxed(),
        }
    }

    /// Types that hold all values.
    fn declared(self) -> Vec<Option<ColumnType>> {
        match self {
            Self::Int32 | Self::Int64 => {
                vec![None, Some(ColumnType::Integer), Some(ColumnType::Text)]
            }
            Self::Float64 => vec![None, Some(ColumnType::Real), Some(ColumnType::Text)],
            Self::Boolean => vec![None, Some(ColumnType::Integer)],
            Self::Text | Self::LargeText | Self::TextView | Self::Date => {
                vec![None, Some(ColumnType::Text)]
            }
            Self::Binary => vec![None, Some(ColumnType::Blob)],
        }
    }

    fn array(self, values: &[&Owned]) -> ArrayRef {
        let integers =
            || values.iter().map(|it| if let Owned::Integer(it) = it { Some(*it) } else { None });
        let texts = || {
            values.iter().map(|it| if let Owned::Text(it) = it { Some(it.as_str()) } else { None })
        };
        match self {
            Self::Int32 => {
                Arc::new(integers().map(|it| it.map(|it| it as i32)).collect::<Int32Array>())
            }
            Self::Int64 => Arc::new(integers().collect::<Int64Array>()),
            Self::Float64 => {
                let reals =
                    values.iter().map(|it| if let Owned::Real(it) = it { Some(*it) } else { None });
                Arc::new(reals.collect::<Float64Array>())
            }
            Self::Text => Arc::new(texts().collect::<StringArray>()),
            Self::LargeText => Arc::new(texts().collect::<LargeStringArray>()),
            Self::Boolean => {
                Arc::new(integers().map(|it| it.map(|it| it != 0)).collect::<BooleanArray>())
            }
            Self::Date => Arc::new(texts().map(|it| it.map(days)).collect::<Date32Array>()),
            Self::TextView => Arc::new(texts().collect::<StringViewArray>()),
            Self::Binary => {
                let blobs = values
                    .iter()
                    .map(|it| if let Owned::Blob(it) = it { Some(it.as_slice()) } else { None });
                Arc::new(blobs.collect::<BinaryArray>())
            }
        }
    }
}

/// Columns with their declared types, and rows.
type Table = (Vec<(Kind, Option<ColumnType>)>, Vec<Vec<Owned>>);

fn table() -> impl Strategy<Value = Table> {
    let column =
        (prop::sample::select(KINDS.to_vec()), any::<bool>()).prop_flat_map(|(kind, has_nulls)| {
            (Just(kind), prop::sample::select(kind.declared()), Just(has_nulls))
        });
    vec(column, 1..12).prop_flat_map(|columns| {
        let value = |&(kind, _, has_nulls): &(Kind, _, bool)| {
            let nulls = u32::from(has_nulls);
            prop_oneof![nulls => Just(Owned::Null), 4 => kind.value()].boxed()
        };
        let row: Vec<_> = columns.iter().map(value).collect();
        let columns = columns.into_iter().map(|(kind, declared, _)| (kind, declared)).collect();
        (Just(columns), vec(row, 1..150))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(120) })]

    #[test]
    fn record_batches_are_stored_as_sqlite_stores_their_values(
        (columns, rows) in table(),
        skipped in 0..3_usize,
        has_key: bool,
    ) {
        let array = |(column, (kind, _)): (usize, &(Kind, Option<ColumnType>))| {
            let values: Vec<&Owned> = rows.iter().map(|row| &row[column]).collect();
            (format!("c{column}"), kind.array(&values), true)
        };
        let arrays = columns.iter().enumerate().map(array);
        let batch = RecordBatch::try_from_iter_with_nullable(arrays).unwrap();
        // A slice, whose arrays begin within their buffers.
        let skipped = skipped.min(rows.len());
        let batch = batch.slice(skipped, rows.len() - skipped);
        let rows = &rows[skipped..];

        let folder = tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut loader = Loader::new(&path).threads(2);
        for (column, (_, declared)) in columns.iter().enumerate() {
            if let Some(declared) = declared {
                loader = loader.column_type(format!("c{column}"), *declared);
            }
        }
        // Rows of a table with an index take another way than those of one without.
        if has_key {
            loader = loader.index("c0");
        }
        let schema = batch.schema();
        let report = loader
            .load_record_batches("t", RecordBatchIterator::new([Ok(batch)], schema))
            .unwrap();
        prop_assert_eq!(report.rows_loaded, rows.len() as u64);
        for (column, (_, declared)) in report.columns.iter().zip(&columns) {
            if let Some(declared) = declared {
                prop_assert_eq!(&column.declared_type, type_name(*declared));
            }
        }

        let expected = Connection::open_in_memory().unwrap();
        expected.execute_batch(&format!("{}; BEGIN", report.create_sql)).unwrap();
        let insert = format!("INSERT INTO t VALUES ({})", vec!["?"; columns.len()].join(","));
        let mut insert = expected.prepare(&insert).unwrap();
        for row in rows {
            insert.execute(params_from_iter(row.iter().map(|it| it as &dyn ToSql))).unwrap();
        }
        let pressed = Connection::open(&path).unwrap();
        let check: String = pressed.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        prop_assert_eq!(check, "ok");
        assert_same_rows(&expected, &pressed, columns.len());
    }
}

#[test]
fn nan_values_that_become_null_are_counted_by_column() {
    let null_over_nan = Float64Array::new(
        vec![f64::NAN, f64::NAN, 1.0].into(),
        Some(vec![true, false, true].into()),
    );
    let columns: [(_, ArrayRef); 3] = [
        ("a", Arc::new(null_over_nan)),
        ("b", Arc::new(Float64Array::from(vec![1.0, f64::INFINITY, 2.0]))),
        ("c", Arc::new(Float64Array::from(vec![f64::NAN, f64::NAN, 2.0]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    // With an index the rows take another way; a column that is left out becomes nothing.
    for (indexes, selects, expected) in [
        (&[][..], &[][..], Some("a (1 value), c (2 values)")),
        (&["a"], &[], Some("a (1 value), c (2 values)")),
        (&[], &["b", "a"], Some("a (1 value)")),
        (&[], &["b"], None),
    ] {
        let folder = tempdir().unwrap();
        let mut loader = Loader::new(folder.path().join("a.db"));
        for index in indexes {
            loader = loader.index(*index);
        }
        for select in selects {
            loader = loader.select(*select);
        }
        let batches = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
        let notes = loader.load_record_batches("t", batches).unwrap().notes;
        let wanted = expected.map(|columns| format!("NaN becomes NULL, as in SQLite: {columns}"));
        assert_eq!(notes.len(), usize::from(wanted.is_some()), "{notes:?}");
        assert!(wanted.is_none_or(|wanted| notes[0].ends_with(&wanted)), "{notes:?}");
    }
}

#[test]
fn a_source_begins_anew_if_another_program_makes_the_database_meanwhile() {
    let folder = tempdir().unwrap();
    let database = folder.path().join("a.db");
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let mut openings = 0;
    let open = || {
        openings += 1;
        let (is_first, made) = (openings == 1, database.clone());
        let read = move |batch| {
            if is_first {
                let other = Connection::open(&made).unwrap();
                other.execute_batch("CREATE TABLE IF NOT EXISTS t(n INTEGER)").unwrap();
            }
            Ok(batch)
        };
        let batches = std::iter::once(batch.clone()).map(read);
        let reader: Box<dyn RecordBatchReader + Send> =
            Box::new(RecordBatchIterator::new(batches, batch.schema()));
        Ok::<_, std::io::Error>(reader)
    };
    let loader =
        Loader::new(&database).table("t").into_table(IntoTable::Append).create_missing(true);
    let report = loader.load_record_batch_source("t", open).expect("it begins anew");
    assert_eq!(report.rows_loaded, 2);
    assert!(openings > 1);
    let connection = Connection::open(&database).unwrap();
    let sum: i64 = connection.query_row("SELECT sum(n) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 3);
}
