//! The order of keys in an index. In a WITHOUT ROWID table it is the same.
//!
//! Purpose: pressing an index means writing its entries in exactly the
//! order in which SQLite will later search them; one pair the wrong way round
//! is a corrupt index.
//!
//! Must never: apply affinity. The values compared are those
//! already stored.
//!
//! Place: used by the code that sorts rows before pages are built, and by the code that checks
//! them afterwards.
//!
//! # Invariants
//!
//! 1. NULL < numbers < TEXT < BLOB.
//! 2. Integers and reals compare by exact value, also beyond 2^53, where the
//!    conversion of an integer to a double is not exact.
//! 3. The order is total: a NaN, which no database holds, counts as NULL.
//! 4. Values that compare as equal need not be the same: 1 and 1.0, or `a` and
//!    `A` under NOCASE.

use std::cmp::Ordering;

use crate::Value;

/// The rule by which two texts compare. Only text has a collation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Collation {
    /// Byte by byte.
    #[default]
    Binary,
    /// The 26 letters of ASCII without case, as lower-case letters; text after a
    /// NUL that both have at the same place counts by its size only, as in SQLite.
    NoCase,
    /// Byte by byte, without the spaces (U+0020 only) at the end.
    RTrim,
}

/// The direction in which a key column runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SortOrder {
    /// Small values first, NULL before all.
    #[default]
    Ascending,
    /// Large values first, NULL after all.
    Descending,
}

/// One column of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct KeyColumn {
    /// The rule by which its texts compare.
    pub collation: Collation,
    /// Direction of the column's order.
    pub order: SortOrder,
}

impl Collation {
    /// Compares two texts.
    pub fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Self::Binary => left.cmp(right),
            Self::NoCase => compare_without_case(left, right),
            Self::RTrim => without_spaces_at_end(left).cmp(without_spaces_at_end(right)),
        }
    }
}

fn without_spaces_at_end(text: &[u8]) -> &[u8] {
    let size = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &text[..size]
}

fn compare_without_case(left: &[u8], right: &[u8]) -> Ordering {
    for (left_byte, right_byte) in left.iter().zip(right) {
        match left_byte.to_ascii_lowercase().cmp(&right_byte.to_ascii_lowercase()) {
            Ordering::Equal if *left_byte == 0 => break,
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    left.len().cmp(&right.len())
}

/// Compares two values in ascending order.
pub fn compare_values(left: &Value<'_>, right: &Value<'_>, collation: Collation) -> Ordering {
    match (*left, *right) {
        (Value::Integer(left), Value::Integer(right)) => left.cmp(&right),
        (Value::Text(left), Value::Text(right)) => collation.compare(left, right),
        (Value::Blob(left), Value::Blob(right)) => left.cmp(right),
        // Without an answer one of them is a NaN, which the classes tell apart.
        (Value::Real(left_real), Value::Real(right_real)) => {
            left_real.partial_cmp(&right_real).unwrap_or_else(|| class(left).cmp(&class(right)))
        }
        (Value::Integer(integer), Value::Real(real)) => compare_integer_to_real(integer, real),
        (Value::Real(real), Value::Integer(integer)) => {
            compare_integer_to_real(integer, real).reverse()
        }
        _ => class(left).cmp(&class(right)),
    }
}

/// Compares two keys of the same index, column by column.
///
/// Values beyond `columns` compare as `KeyColumn::default()` says, which is
/// right for the rowid at the end of an index entry. Of two keys that are equal
/// as far as they go, the shorter comes first.
pub fn compare_keys(left: &[Value<'_>], right: &[Value<'_>], columns: &[KeyColumn]) -> Ordering {
    let columns = columns.iter().copied().chain(std::iter::repeat(KeyColumn::default()));
    for ((left, right), column) in left.iter().zip(right).zip(columns) {
        let ordering = compare_values(left, right, column.collation);
        if ordering != Ordering::Equal {
            return match column.order {
                SortOrder::Ascending => ordering,
                SortOrder::Descending => ordering.reverse(),
            };
        }
    }
    left.len().cmp(&right.len())
}

/// The place of a value's storage class in the order (invariant 1).
fn class(value: &Value<'_>) -> u8 {
    match value {
        Value::Null => 0,
        Value::Real(real) if real.is_nan() => 0,
        Value::Integer(_) | Value::Real(_) => 1,
        Value::Text(_) => 2,
        Value::Blob(_) => 3,
    }
}

/// Compares by exact value (invariant 2): first with the real's integral part,
/// then, if that is the same, with its fraction.
fn compare_integer_to_real(integer: i64, real: f64) -> Ordering {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() || real < -TWO_TO_63 {
        return Ordering::Greater;
    }
    if real >= TWO_TO_63 {
        return Ordering::Less;
    }
    let fraction = real.fract();
    integer.cmp(&(real as i64)).then_with(|| {
        // A real with a fraction is below 2^52, and so is the integer then.
        0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(left: &Value<'_>, right: &Value<'_>) -> Ordering {
        compare_values(left, right, Collation::Binary)
    }

    #[test]
    fn classes_and_numbers_stand_in_sqlites_order() {
        let ascending = [
            Value::Null,
            Value::Real(f64::NEG_INFINITY),
            Value::Integer(i64::MIN),
            Value::Real(-1.5),
            Value::Integer(-1),
            Value::Real(-0.5),
            Value::Integer(0),
            Value::Real(0.5),
            Value::Integer(1),
            Value::Real(1.5),
            Value::Integer(9_007_199_254_740_992),
            Value::Integer(9_007_199_254_740_993),
            Value::Real(9_007_199_254_740_994.0),
            Value::Integer(i64::MAX),
            Value::Real(9_223_372_036_854_775_808.0),
            Value::Real(f64::INFINITY),
            Value::Text(b""),
            Value::Text(b"A"),
            Value::Text(b"a"),
            Value::Text(b"a "),
            Value::Text("é".as_bytes()),
            Value::Blob(b""),
            Value::Blob(b"\0"),
            Value::Blob(b"a"),
        ];
        for (left_index, left) in ascending.iter().enumerate() {
            for (right_index, right) in ascending.iter().enumerate() {
                let expected = left_index.cmp(&right_index);
                assert_eq!(binary(left, right), expected, "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn equal_values_of_different_kinds_are_equal() {
        assert_eq!(binary(&Value::Integer(1), &Value::Real(1.0)), Ordering::Equal);
        assert_eq!(binary(&Value::Real(-0.0), &Value::Integer(0)), Ordering::Equal);
        assert_eq!(binary(&Value::Real(-0.0), &Value::Real(0.0)), Ordering::Equal);
        let smallest = Value::Real(-9_223_372_036_854_775_808.0);
        assert_eq!(binary(&Value::Integer(i64::MIN), &smallest), Ordering::Equal);
    }

    #[test]
    fn a_nan_counts_as_null() {
        let nan = Value::Real(f64::NAN);
        assert_eq!(binary(&nan, &nan), Ordering::Equal);
        assert_eq!(binary(&nan, &Value::Null), Ordering::Equal);
        assert_eq!(binary(&nan, &Value::Integer(i64::MIN)), Ordering::Less);
        assert_eq!(binary(&Value::Real(f64::NEG_INFINITY), &nan), Ordering::Greater);
    }

    #[test]
    fn nocase_folds_ascii_only() {
        let nocase =
            |left: &str, right: &str| Collation::NoCase.compare(left.as_bytes(), right.as_bytes());
        assert_eq!(nocase("ABC", "abc"), Ordering::Equal);
        assert_eq!(nocase("É", "é"), Ordering::Less);
        assert_eq!(nocase("a", "AB"), Ordering::Less);
        // Folding goes to lower case, so '_' stands before the letters.
        assert_eq!(nocase("_", "A"), Ordering::Less);
        assert_eq!(nocase("a\0x", "A\0y"), Ordering::Equal);
        assert_eq!(nocase("a\0xx", "A\0y"), Ordering::Greater);
    }

    #[test]
    fn rtrim_ignores_spaces_at_the_end_only() {
        let rtrim =
            |left: &str, right: &str| Collation::RTrim.compare(left.as_bytes(), right.as_bytes());
        assert_eq!(rtrim("a  ", "a"), Ordering::Equal);
        assert_eq!(rtrim("   ", ""), Ordering::Equal);
        assert_eq!(rtrim(" a", "a"), Ordering::Less);
        assert_eq!(rtrim("a\t", "a"), Ordering::Greater);
        assert_eq!(rtrim("a\u{a0}", "a"), Ordering::Greater);
    }

    #[test]
    fn keys_compare_column_by_column_and_descending_ones_in_reverse() {
        let descending = KeyColumn { order: SortOrder::Descending, ..KeyColumn::default() };
        let columns = [descending, KeyColumn::default()];
        let key = |first, second: i64| [first, Value::Integer(second)];
        let compare = |left: &[Value<'_>], right: &[Value<'_>]| compare_keys(left, right, &columns);
        assert_eq!(compare(&key(Value::Integer(2), 1), &key(Value::Integer(1), 1)), Ordering::Less);
        assert_eq!(compare(&key(Value::Null, 1), &key(Value::Integer(1), 1)), Ordering::Greater);
        assert_eq!(compare(&key(Value::Null, 1), &key(Value::Null, 2)), Ordering::Less);
        assert_eq!(compare_keys(&[Value::Null], &[Value::Null, Value::Null], &[]), Ordering::Less);
    }
}
