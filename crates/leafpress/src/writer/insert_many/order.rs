//! Order of rows by a key, in which they are stored fastest.

use std::cmp::Ordering;

use leafpress_format::{Collation, KeyColumn, NumberText, SortOrder, Value, compare_keys};
use rusqlite::types;

use super::plan::KeyPart;

/// The places of the rows in the order of their keys; rows of equal keys stay in the given order.
/// `None` if the given order should stay.
pub(super) fn best_order(key: &[KeyPart], rows: &[Vec<types::Value>]) -> Option<Vec<usize>> {
    match key {
        [] => None,
        [part] if part.is_rowid => by_rowid(part, rows),
        _ => by_columns(key, rows),
    }
}

/// Order by rowid. Both a NULL, which takes the number after those before it, and a value that is
/// no integer, which will be refused, leave the rows as they are.
fn by_rowid(part: &KeyPart, rows: &[Vec<types::Value>]) -> Option<Vec<usize>> {
    let mut scratch = NumberText::new();
    let rowid = |(at, row): (usize, &Vec<types::Value>)| match part
        .affinity
        .apply(given(part, row), &mut scratch)
    {
        Value::Integer(rowid) => Some((rowid, at)),
        _ => None,
    };
    let mut places: Vec<(i64, usize)> =
        rows.iter().enumerate().map(rowid).collect::<Option<_>>()?;
    if places.is_sorted() {
        return None;
    }
    places.sort_unstable();
    Some(places.into_iter().map(|(_, at)| at).collect())
}

fn by_columns(key: &[KeyPart], rows: &[Vec<types::Value>]) -> Option<Vec<usize>> {
    let columns: Vec<KeyColumn> = key.iter().map(|part| part.order).collect();
    let parts = || rows.iter().flat_map(|row| key.iter().map(move |part| (part, row)));
    let mut scratch = NumberText::new();
    let texts: Vec<Option<Vec<u8>>> =
        parts().map(|(part, row)| number_as_text(part, row, &mut scratch)).collect();
    let values: Vec<Value<'_>> = parts()
        .zip(&texts)
        .map(|((part, row), text)| match text {
            Some(text) => Value::Text(text),
            None => stored(part, row, &mut scratch),
        })
        .collect();
    let of = |at: usize| &values[at * key.len()..][..key.len()];
    let compare = |left: &(u128, usize), right: &(u128, usize)| match left.0.cmp(&right.0) {
        Ordering::Equal => compare_keys(of(left.1), of(right.1), &columns),
        decided => decided,
    };
    let mut places: Vec<(u128, usize)> =
        (0..rows.len()).map(|at| (head(&of(at)[0], columns[0]), at)).collect();
    if places.is_sorted_by(|left, right| compare(left, right).is_le()) {
        return None;
    }
    places.sort_unstable_by(|left, right| compare(left, right).then(left.1.cmp(&right.1)));
    Some(places.into_iter().map(|(_, at)| at).collect())
}

/// The first bytes of a key, so that most rows are sorted without a look at their values,
/// which lie far apart. `head(a) < head(b)` means that a comes before b; equal heads decide
/// nothing.
///
/// | value | code | then |
/// |---|---|---|
/// | NULL | 0 | |
/// | number | 1 | its whole part, as a number without a sign |
/// | text, where its bytes decide | 2 | its first 15 bytes |
/// | other text | 2 | |
/// | blob | 3 | its first 15 bytes |
fn head(value: &Value<'_>, column: KeyColumn) -> u128 {
    let number = |whole: i64| u128::from(whole.cast_unsigned() ^ 1 << 63) << 56;
    let (code, rest) = match value {
        Value::Null => (0, 0),
        Value::Integer(integer) => (1, number(*integer)),
        // A number beyond 64 bits gets the head of the last integer; equal heads decide nothing.
        Value::Real(real) => (1, number(real.floor() as i64)),
        Value::Text(text) if column.collation == Collation::Binary => (2, first_bytes(text)),
        Value::Text(_) => (2, 0),
        Value::Blob(blob) => (3, first_bytes(blob)),
    };
    let head = code << 120 | rest;
    match column.order {
        SortOrder::Ascending => head,
        SortOrder::Descending => !head,
    }
}

/// The first 15 bytes as a number; a shorter text is filled with zeros.
fn first_bytes(bytes: &[u8]) -> u128 {
    let mut word = [0; 16];
    let count = bytes.len().min(15);
    word[1..=count].copy_from_slice(&bytes[..count]);
    u128::from_be_bytes(word)
}

fn given<'r>(part: &KeyPart, row: &'r [types::Value]) -> Value<'r> {
    match &row[part.at] {
        types::Value::Null => Value::Null,
        types::Value::Integer(integer) => Value::Integer(*integer),
        types::Value::Real(real) => Value::Real(*real),
        types::Value::Text(text) => Value::Text(text.as_bytes()),
        types::Value::Blob(blob) => Value::Blob(blob),
    }
}

/// The text that a number becomes in a TEXT column. The caller has to keep it.
fn number_as_text(
    part: &KeyPart,
    row: &[types::Value],
    scratch: &mut NumberText,
) -> Option<Vec<u8>> {
    let given = given(part, row);
    if !matches!(given, Value::Integer(_) | Value::Real(_)) {
        return None;
    }
    match part.affinity.apply(given, scratch) {
        Value::Text(text) => Some(text.to_vec()),
        _ => None,
    }
}

/// The value that the column will hold, unless [`number_as_text`] gives it.
fn stored<'r>(part: &KeyPart, row: &'r [types::Value], scratch: &mut NumberText) -> Value<'r> {
    let given = given(part, row);
    match part.affinity.apply(given, scratch) {
        Value::Null => Value::Null,
        Value::Integer(integer) => Value::Integer(integer),
        Value::Real(real) => Value::Real(real),
        Value::Text(_) | Value::Blob(_) => given,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = types::Value> {
        let edges = prop::sample::select(vec![
            0.0,
            -0.5,
            2.5,
            -1e300,
            1e300,
            9_223_372_036_854_775_808.0,
            -9_223_372_036_854_775_808.0,
        ]);
        prop_oneof![
            Just(types::Value::Null),
            prop::sample::select(vec![i64::MIN, -1, 0, 1, 2, 3, i64::MAX])
                .prop_map(types::Value::Integer),
            any::<i64>().prop_map(types::Value::Integer),
            edges.prop_map(types::Value::Real),
            (-1e19..1e19).prop_map(types::Value::Real),
            "[a-cA-C ]{0,18}".prop_map(types::Value::Text),
            prop::collection::vec(0_u8..3, 0..18).prop_map(types::Value::Blob),
        ]
    }

    fn as_stored(value: &types::Value) -> Value<'_> {
        match value {
            types::Value::Null => Value::Null,
            types::Value::Integer(integer) => Value::Integer(*integer),
            types::Value::Real(real) => Value::Real(*real),
            types::Value::Text(text) => Value::Text(text.as_bytes()),
            types::Value::Blob(blob) => Value::Blob(blob),
        }
    }

    proptest! {
        #[test]
        fn what_heads_decide_whole_keys_decide_too(left in values(), right in values()) {
            let (left, right) = (as_stored(&left), as_stored(&right));
            for collation in [Collation::Binary, Collation::NoCase, Collation::RTrim] {
                for order in [SortOrder::Ascending, SortOrder::Descending] {
                    let column = KeyColumn { collation, order };
                    let heads = head(&left, column).cmp(&head(&right, column));
                    let keys = compare_keys(&[left], &[right], &[column]);
                    prop_assert!(heads.is_eq() || heads == keys, "{left:?} {right:?} {column:?}");
                }
            }
        }
    }

    #[test]
    fn heads_tell_random_keys_apart() {
        let column = KeyColumn::default();
        let first = head(&Value::Blob(b"0123456789abcde"), column);
        assert!(first < head(&Value::Blob(b"0123456789abcdf"), column));
        assert_eq!(first, head(&Value::Blob(b"0123456789abcdef"), column));
        assert!(head(&Value::Integer(-2), column) < head(&Value::Integer(-1), column));
    }
}
