//! SQLite's order of keys, slow and plain. It is written as the documentation says it.

use crate::schema::{Collation, KeyColumn, Row};
use crate::value::OwnedValue;
use std::cmp::Ordering;

/// Compares the same key columns of two rows.
pub fn compare_keys(key: &[KeyColumn], left: &Row, right: &Row) -> Ordering {
    key.iter()
        .map(|part| {
            let (a, b) = (&left.values[part.column_index], &right.values[part.column_index]);
            let order = compare(a, b, part.collation);
            if part.descending { order.reverse() } else { order }
        })
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn compare(left: &OwnedValue, right: &OwnedValue, collation: Collation) -> Ordering {
    use OwnedValue::{Blob, Integer, Real, Text};
    match (left, right) {
        _ if class(left) != class(right) => class(left).cmp(&class(right)),
        (Integer(a), Integer(b)) => a.cmp(b),
        (Integer(a), Real(b)) => compare_integer_real(*a, *b),
        (Real(a), Integer(b)) => compare_integer_real(*b, *a).reverse(),
        (Real(a), Real(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (Text(a), Text(b)) => compare_text(a.as_bytes(), b.as_bytes(), collation),
        (Blob(a), Blob(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

/// NULL, numbers, text, blobs.
fn class(value: &OwnedValue) -> u8 {
    match value {
        _ if value.is_null() => 0,
        OwnedValue::Null => 0,
        OwnedValue::Integer(_) | OwnedValue::Real(_) => 1,
        OwnedValue::Text(_) => 2,
        OwnedValue::Blob(_) => 3,
    }
}

/// Compares by value, without rounding the integer: 2^53 + 1 is above 2^53 as a real.
fn compare_integer_real(integer: i64, real: f64) -> Ordering {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if real >= TWO_TO_63 {
        Ordering::Less
    } else if real < -TWO_TO_63 {
        Ordering::Greater
    } else {
        let whole = real.trunc();
        integer.cmp(&(whole as i64)).then(0.0_f64.partial_cmp(&(real - whole)).expect("no NaN"))
    }
}

fn compare_text(left: &[u8], right: &[u8], collation: Collation) -> Ordering {
    match collation {
        Collation::Binary => left.cmp(right),
        Collation::NoCase => left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase()),
        Collation::RTrim => trim(left).cmp(trim(right)),
    }
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [front @ .., b' '] = text {
        text = front;
    }
    text
}
