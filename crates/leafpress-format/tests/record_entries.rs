//! Operations on encoded records, compared with the same operations on their values.
//!
//! Checked here:
//! 1. records compare as `compare_keys` compares their values;
//! 2. of two prefixes that differ, be it in a later part, the smaller belongs to the smaller key;
//! 3. a projection is the record that the values of its columns make;
//! 4. the columns of a record are the values that it was made of;
//! 5. no bytes, record or not, bring about a panic or an order that contradicts itself.

mod common;

use std::cmp::Ordering;

use common::{Owned, check_many};
use leafpress_format::{
    Collation, EntryColumn, KeyColumn, Projection, RecordColumns, RecordWriter, SerialTypes,
    SortOrder, Value, WRITE_SLACK_BYTES, compare_keys, compare_records, key_has_null, key_prefix,
    key_prefix_part, record_bytes_max,
};
use proptest::prelude::*;
use proptest::sample::select;

fn record(values: &[Value<'_>]) -> Vec<u8> {
    let mut serials = SerialTypes::new(values.len());
    let mut buf = vec![0; record_bytes_max(values) + WRITE_SLACK_BYTES];
    let end = buf.len();
    let mut writer = RecordWriter::new(&mut buf, end, &mut serials);
    for &value in values.iter().rev() {
        writer.value(value);
    }
    let at = writer.finish();
    buf.split_off(at)
}

fn record_of(row: &[Owned]) -> Vec<u8> {
    record(&row.iter().map(Owned::value).collect::<Vec<_>>())
}

/// Bytes of few kinds, so that many pairs are equal or nearly so, and some are
/// longer than a prefix.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let few = || select(b"aAbB_ \0\0\x01~Z[@`{".to_vec());
    let high = select(b"\x80\xff\xc1\xe1\xc3\xa9".to_vec());
    prop_oneof![
        4 => prop::collection::vec(prop_oneof![9 => few(), 1 => high], 0..4),
        2 => ("a{11,17}", prop::collection::vec(few(), 0..4))
            .prop_map(|(start, end)| [start.into_bytes(), end].concat()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
        1 => "[aA]{0,2} {0,3}".prop_map(String::into_bytes),
    ]
}

fn numbers() -> impl Strategy<Value = Owned> {
    let edges = [0, 1 << 7, 1 << 8, 1 << 16, 1 << 32, 1 << 48, 1 << 53, 1 << 56, i64::MIN];
    let near_integer =
        (select(edges.to_vec()), -2..=2_i64, any::<bool>()).prop_map(|(edge, off, negative)| {
            let edge = if negative { edge.wrapping_neg() } else { edge };
            Owned::Integer(edge.wrapping_add(off))
        });
    let near_real =
        (select(edges.to_vec()), -3..=3_i64, any::<bool>()).prop_map(|(edge, off, negative)| {
            let real = f64::from_bits((edge as f64).to_bits().wrapping_add_signed(off));
            Owned::Real(if negative { -real } else { real })
        });
    let quarters = (-9..9_i32).prop_map(|quarters| Owned::Real(f64::from(quarters) / 4.0));
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, f64::MAX, 5e-324, -5e-324];
    prop_oneof![
        2 => near_integer,
        2 => near_real,
        2 => (-3..3_i64).prop_map(Owned::Integer),
        2 => quarters,
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

fn key_columns(count: usize) -> impl Strategy<Value = Vec<KeyColumn>> {
    let collation = select(vec![Collation::Binary, Collation::NoCase, Collation::RTrim]);
    let order = select(vec![SortOrder::Ascending, SortOrder::Descending]);
    let column = (collation, order).prop_map(|(collation, order)| KeyColumn { collation, order });
    prop::collection::vec(column, count)
}

/// Two rows that share most of their values, and a key on some of their columns.
fn pairs() -> impl Strategy<Value = (Vec<KeyColumn>, Vec<Owned>, Vec<Owned>)> {
    (1..=4_usize).prop_flat_map(|key| {
        let column = (values(), prop::option::weighted(0.4, values()))
            .prop_map(|(value, other)| (value.clone(), other.unwrap_or(value)));
        let columns = prop::collection::vec(column, key..=key + 2);
        (key_columns(key), columns).prop_map(|(key, columns)| {
            let (left, right) = columns.into_iter().unzip();
            (key, left, right)
        })
    })
}

#[test]
fn records_compare_as_their_values_do_and_prefixes_never_contradict() {
    check_many(10_000, pairs(), |(key, left, right)| {
        let key_of = |row: &[Owned]| -> Vec<Owned> { row[..key.len()].to_vec() };
        let (left_key, right_key) = (key_of(&left), key_of(&right));
        let left_values: Vec<Value<'_>> = left_key.iter().map(Owned::value).collect();
        let right_values: Vec<Value<'_>> = right_key.iter().map(Owned::value).collect();
        let expected = compare_keys(&left_values, &right_values, &key);
        let (left, right) = (record_of(&left), record_of(&right));
        assert_eq!(compare_records(&left, &right, &key), expected);
        assert_eq!(compare_records(&right, &left, &key), expected.reverse());
        let parts = |record: &[u8]| [0, 1, 2].map(|part| key_prefix_part(record, &key, part));
        assert_eq!(parts(&left)[0], key_prefix(&left, &key));
        let goes_on = [left.as_slice(), &right].concat();
        assert_eq!(key_prefix(&goes_on, &key), key_prefix(&left, &key));
        let prefixes = parts(&left).cmp(&parts(&right));
        assert!(prefixes == expected || prefixes == Ordering::Equal, "{prefixes:?} {expected:?}");
    });
}

/// A fraction ends a prefix only where its bits are not all of it: then, what
/// stands behind must not decide.
#[test]
fn fractions_that_nearly_agree_are_told_apart_before_what_follows() {
    let near = (
        prop_oneof![Just(0.0), Just(1.0), -1.0..1.0_f64, -300.0..300.0_f64, any::<f64>()],
        prop_oneof![Just(0), -3..=3_i64],
        -70..=0_i32,
    );
    let row = |real: f64, off: i64, shift: i32| {
        let small = real * f64::from(shift).exp2();
        f64::from_bits(small.to_bits().wrapping_add_signed(off))
    };
    let rows = (near, any::<bool>(), -3..=3_i64, numbers(), numbers(), key_columns(2));
    check_many(20_000, rows, |((real, off, shift), is_shifted, other_off, left, right, key)| {
        let shift = if is_shifted { shift } else { 0 };
        let left = [Owned::Real(row(real, off, shift)), left];
        let right = [Owned::Real(row(real, other_off, shift)), right];
        let values = |row: &'_ [Owned; 2]| -> [Value<'static>; 2] {
            [0, 1].map(|at| match row[at] {
                Owned::Integer(integer) => Value::Integer(integer),
                Owned::Real(real) => Value::Real(real),
                _ => Value::Null,
            })
        };
        let expected = compare_keys(&values(&left), &values(&right), &key);
        let (left, right) = (record_of(&left), record_of(&right));
        for part in 1..=2 {
            let parts = |record: &[u8]| -> Vec<u128> {
                (0..=part).map(|part| key_prefix_part(record, &key, part)).collect()
            };
            let prefixes = parts(&left).cmp(&parts(&right));
            let is_right = prefixes == expected || prefixes == Ordering::Equal;
            assert!(is_right, "{prefixes:?} {expected:?}");
        }
    });
}

/// Whatever decides nothing has to be looked at again: so this must be rare.
#[test]
fn keys_that_differ_early_have_prefixes_that_differ() {
    let ascending = KeyColumn::default();
    let descending = KeyColumn { order: SortOrder::Descending, ..ascending };
    let nocase = KeyColumn { collation: Collation::NoCase, ..ascending };
    let decided = |columns: &[KeyColumn], left: &[Value<'_>], right: &[Value<'_>]| {
        let (left, right) = (record(left), record(right));
        key_prefix(&left, columns) < key_prefix(&right, columns)
    };
    let (mut low, mut high) = ([7; 20], [7; 20]);
    (low[14], high[14]) = (1, 2);
    assert!(decided(&[ascending], &[Value::Blob(&low)], &[Value::Blob(&high)]));
    assert!(decided(&[descending], &[Value::Text(&high)], &[Value::Text(&low)]));
    for integer in [0_i64, 255, 65_536, 1 << 40, i64::MAX - 1, -1, -2, -257, i64::MIN] {
        let (left, right) = (Value::Integer(integer), Value::Integer(integer + 1));
        assert!(decided(&[ascending], &[left], &[right]));
        assert!(decided(&[descending], &[right], &[left]));
        let half = Value::Real(integer as f64 + 0.5);
        if integer.unsigned_abs() < 1 << 50 {
            assert!(decided(&[ascending], &[left], &[half]));
            assert!(decided(&[ascending], &[half], &[right]));
            assert!(decided(&[descending], &[half], &[left]));
        }
    }
    (low[14], low[18]) = (2, 1);
    let (left, right) = (record(&[Value::Blob(&low)]), record(&[Value::Blob(&high)]));
    assert_eq!(key_prefix(&left, &[ascending]), key_prefix(&right, &[ascending]));
    let part = |record: &[u8]| key_prefix_part(record, &[ascending], 1);
    assert!(part(&left) < part(&right));
    assert_eq!(key_prefix_part(&left, &[ascending], 2), 0);
    let three = |first: i64, second: &'static str, third: f64| {
        [Value::Integer(first), Value::from(second), Value::Real(third)]
    };
    let columns = [ascending, nocase, descending];
    assert!(decided(&columns, &three(1, "ABC", 0.5), &three(1, "abd", 0.5)));
    assert!(decided(&columns, &three(1, "AB", 0.5), &three(1, "abc", 9.5)));
    assert!(decided(&columns, &three(1, "ABC", 0.75), &three(1, "abc", 0.5)));
    let price = |rowid: i64| [Value::Real(12.34), Value::Integer(rowid)];
    assert!(decided(&[ascending; 2], &price(1000), &price(1001)));
    assert!(decided(&[descending, ascending], &price(1000), &price(1001)));
}

#[test]
fn a_projection_is_the_record_of_its_values() {
    let entry_column = prop_oneof![
        5 => (0..130_usize).prop_map(EntryColumn::Column),
        1 => Just(EntryColumn::Rowid),
    ];
    // Few columns mostly, and sometimes more than a header length of one byte allows.
    let row = prop_oneof![
        9 => prop::collection::vec(values(), 1..6),
        1 => prop::collection::vec(values(), 100..140),
    ];
    let entry = prop_oneof![
        9 => prop::collection::vec(entry_column.clone(), 1..6),
        1 => prop::collection::vec(entry_column, 100..300),
    ];
    let rowids = numbers().prop_map(|number| match number {
        Owned::Integer(integer) => integer,
        _ => 1,
    });
    check_many(2_000, (row, entry, rowids, any::<bool>()), |(row, entry, rowid, fold)| {
        let entry: Vec<EntryColumn> = entry
            .iter()
            .map(|column| match *column {
                EntryColumn::Column(index) if fold => EntryColumn::Column(index % row.len()),
                other => other,
            })
            .collect();
        let expected: Vec<Value<'_>> = entry
            .iter()
            .map(|column| match *column {
                EntryColumn::Column(index) => row.get(index).map_or(Value::Null, Owned::value),
                EntryColumn::Rowid => Value::Integer(rowid),
            })
            .collect();
        let source = record_of(&row);
        let mut projection = Projection::new(entry);
        let mut out = b"before".to_vec();
        projection.append(&source, rowid, &mut out);
        assert_eq!(out[6..], record(&expected));
        projection.append(&source, rowid, &mut out);
        assert_eq!(out.len(), 6 + 2 * record(&expected).len());
        let bytes_max = projection.bytes_max(&source);
        let mut out = vec![b'.'; bytes_max + 3];
        let bytes = projection.project_into(&source, rowid, &mut out);
        assert_eq!(out[..bytes], record(&expected));
        assert_eq!(out[bytes_max..], *b"...");
    });
}

#[test]
fn the_columns_of_a_record_are_its_values() {
    let rows = prop::collection::vec(values(), 1..200);
    check_many(500, rows, |row| {
        let record = record_of(&row);
        let mut columns = RecordColumns::new();
        assert_eq!(columns.parse(&record), row.len());
        for (index, owned) in row.iter().enumerate() {
            let expected = match owned.value() {
                // No database holds a NaN.
                Value::Real(real) if real.is_nan() => Value::Null,
                value => value,
            };
            assert_eq!(columns.value(&record, index), expected);
        }
        assert_eq!(columns.value(&record, row.len()), Value::Null);
        for count in 0..=row.len() {
            let has_null = (0..count).any(|index| columns.value(&record, index) == Value::Null);
            assert_eq!(key_has_null(&record, count), has_null);
        }
        assert!(key_has_null(&record, row.len() + 1));
    });
}

/// Records with some bytes changed, cut short, or any bytes at all.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let record = prop::collection::vec(values(), 1..5).prop_map(|row| record_of(&row));
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let changed =
        (record, prop::collection::vec(change, 0..3), any::<prop::sample::Index>(), any::<bool>());
    let changed = changed.prop_map(|(mut record, changes, length, cut)| {
        for (index, byte) in changes {
            let index = index.index(record.len());
            record[index] = byte;
        }
        if cut {
            record.truncate(length.index(record.len() + 1));
        }
        record
    });
    prop_oneof![3 => changed, 1 => prop::collection::vec(any::<u8>(), 0..24)]
}

#[test]
fn no_bytes_are_too_strange() {
    let cases = (damaged(), damaged(), damaged(), key_columns(3));
    check_many(5_000, cases, |(one, two, three, key)| {
        let mut columns = RecordColumns::new();
        let mut out = Vec::new();
        let entry = vec![EntryColumn::Column(1), EntryColumn::Rowid, EntryColumn::Column(0)];
        let mut projection = Projection::new(entry);
        for record in [&one, &two, &three] {
            let count = columns.parse(record);
            assert_eq!(columns.value(record, count), Value::Null);
            // Another record than the one that was parsed.
            let _ = columns.value(&one, 0);
            out.clear();
            projection.append(record, 7, &mut out);
            assert_eq!(columns.parse(&out), 3);
            assert_eq!(compare_records(record, record, &key), Ordering::Equal);
        }
        let mut sorted = [&one, &two, &three];
        sorted.sort_by(|left, right| compare_records(left, right, &key));
        assert!(compare_records(sorted[0], sorted[2], &key).is_le());
        assert!(key_prefix(sorted[0], &key) <= key_prefix(sorted[1], &key));
        assert!(key_prefix(sorted[1], &key) <= key_prefix(sorted[2], &key));
    });
}

#[test]
fn what_is_no_record_has_no_columns() {
    let mut columns = RecordColumns::new();
    for bytes in [
        b"".as_slice(),
        b"\x00",
        b"\x01",
        b"\x05\x01",
        // The content is missing.
        b"\x02\x01",
        b"\x03\x09\x0f",
        // Reserved serial types.
        b"\x02\x0a",
        b"\x02\x0b",
        // A serial type that goes on beyond the header, and one that never ends.
        b"\x02\x81\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        assert_eq!(columns.parse(bytes), 0, "{bytes:x?}");
    }
    // Long forms of short numbers are still numbers.
    assert_eq!(columns.parse(b"\x80\x04\x80\x09"), 1);
    assert_eq!(columns.value(b"\x80\x04\x80\x09", 0), Value::Integer(1));
}
