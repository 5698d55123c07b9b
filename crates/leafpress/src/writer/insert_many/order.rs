//! Rows in the order of a key, as they will be stored.

use leafpress_format::{KeyColumn, NumberText, Value, compare_keys};
use rusqlite::types;

use super::plan::KeyPart;

/// The places of the rows in the order of their keys, rows of equal keys as
/// they came; `None` if the rows are best left as they are.
pub(super) fn best_order(key: &[KeyPart], rows: &[Vec<types::Value>]) -> Option<Vec<usize>> {
    match key {
        [] => None,
        [part] if part.is_rowid => by_rowid(part, rows),
        _ => by_columns(key, rows),
    }
}

/// A NULL takes the number that follows those before it, and what is no
/// integer at all will be refused: both leave the rows as they are.
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
    let compare = |left: &usize, right: &usize| compare_keys(of(*left), of(*right), &columns);
    let mut places: Vec<usize> = (0..rows.len()).collect();
    if places.is_sorted_by(|left, right| compare(left, right).is_le()) {
        return None;
    }
    places.sort_by(compare);
    Some(places)
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

/// The text that a number becomes, if it does: it has to be kept somewhere.
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

/// What the column will hold, where that is not [`number_as_text`].
fn stored<'r>(part: &KeyPart, row: &'r [types::Value], scratch: &mut NumberText) -> Value<'r> {
    let given = given(part, row);
    match part.affinity.apply(given, scratch) {
        Value::Null => Value::Null,
        Value::Integer(integer) => Value::Integer(integer),
        Value::Real(real) => Value::Real(real),
        Value::Text(_) | Value::Blob(_) => given,
    }
}
