//! Random JSON, whole and damaged, with `serde_json` as the judge.
//!
//! 1. Whatever the spacing, the escapes, the form and the size of the blocks:
//!    the same values.
//! 2. A line is good if it is to `serde_json`, and bad otherwise.
//! 3. No input makes it panic, and nothing is a row that is no JSON object.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Number, Value as Json};

use super::{Owned, Reading, options, read, read_with};
use crate::input::json::JsonOptions;
use crate::input::json::batch::{JsonBatch, JsonPiece};
use crate::input::json::decode::{Form, NewKeys, decode};
use crate::input::json::keys::Keys;

/// The value that a value of an object should become.
pub(super) fn model(value: Option<&Json>) -> Owned {
    match value {
        None | Some(Json::Null) => Owned::Null,
        Some(Json::Bool(is)) => Owned::Integer((*is).into()),
        Some(Json::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Owned::Integer(integer),
            (None, Some(real)) if number.is_f64() => Owned::Real(real),
            _ => Owned::Text(number.to_string()),
        },
        Some(Json::String(text)) => Owned::Text(text.clone()),
        Some(nested) => Owned::Text(nested.to_string()),
    }
}

/// A way to write JSON: its blanks, and the characters that are escaped.
#[derive(Debug, Clone)]
struct Style {
    blanks: Vec<&'static str>,
    /// Every this many characters one is escaped that need not be; 0 for none.
    escape_every: u32,
}

struct Writer<'s> {
    style: &'s Style,
    out: String,
    blanks: usize,
}

impl Writer<'_> {
    fn blank(&mut self) {
        if let Some(count) = self.blanks.checked_rem(self.style.blanks.len()) {
            self.out += self.style.blanks[count];
            self.blanks += 1;
        }
    }

    fn mark(&mut self, mark: char) {
        self.blank();
        self.out.push(mark);
        self.blank();
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            let escape = self.style.escape_every;
            let is_special = matches!(character, '"' | '\\' | '\0'..' ');
            if is_special || (escape > 0 && u32::from(character).is_multiple_of(escape)) {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    write!(self.out, "\\u{unit:04x}").unwrap();
                }
            } else {
                self.out.push(character);
            }
        }
        self.out.push('"');
    }

    fn object<'v>(&mut self, members: impl IntoIterator<Item = (&'v String, &'v Json)>) {
        self.out.push('{');
        self.blank();
        for (index, (key, value)) in members.into_iter().enumerate() {
            if index > 0 {
                self.mark(',');
            }
            self.string(key);
            self.mark(':');
            self.value(value);
        }
        self.blank();
        self.out.push('}');
    }

    fn value(&mut self, value: &Json) {
        match value {
            Json::String(text) => self.string(text),
            Json::Object(members) => self.object(members),
            Json::Array(values) => {
                self.out.push('[');
                self.blank();
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        self.mark(',');
                    }
                    self.value(value);
                }
                self.blank();
                self.out.push(']');
            }
            plain => self.out += &plain.to_string(),
        }
    }
}

type Rows = Vec<Vec<(String, Json)>>;

fn written(style: &Style, write: impl FnOnce(&mut Writer<'_>)) -> String {
    let mut writer = Writer { style, out: String::new(), blanks: 0 };
    write(&mut writer);
    writer.out
}

/// The columns and values that rows should read as.
fn expected(rows: &Rows, style: &Style) -> (Vec<String>, Vec<Vec<Owned>>) {
    let mut columns: Vec<String> = Vec::new();
    for (key, _) in rows.iter().flatten() {
        if !columns.contains(key) {
            columns.push(key.clone());
        }
    }
    let tight = Style { blanks: Vec::new(), ..style.clone() };
    let value_of = |row: &[(String, Json)], column: &String| {
        // The last of a repeated key counts.
        let value = row.iter().rev().find(|(key, _)| key == column).map(|(_, value)| value);
        match value {
            Some(nested @ (Json::Array(_) | Json::Object(_))) => {
                Owned::Text(written(&tight, |writer| writer.value(nested)))
            }
            value => model(value),
        }
    };
    let values =
        rows.iter().map(|row| columns.iter().map(|column| value_of(row, column)).collect());
    let values = values.collect();
    (columns, values)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,12}", "[a-z ]{0,40}", "[\"\\\\{}\\[\\]:,\n\u{0}\u{e9}\u{1f600}]{0,6}"]
}

fn number() -> impl Strategy<Value = Json> {
    let real = any::<f64>().prop_filter_map("JSON has no such number", Number::from_f64);
    let short = (-9999..9999_i32).prop_map(|hundredths| f64::from(hundredths) / 100.0);
    prop_oneof![
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        (-100..100_i64).prop_map(Json::from),
        real.prop_map(Json::Number),
        short.prop_map(Json::from),
    ]
}

fn plain_value() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        number(),
        text().prop_map(Json::from),
    ]
}

fn value() -> impl Strategy<Value = Json> {
    let nested = plain_value().prop_recursive(3, 12, 4, |inner| {
        let members = vec((text(), inner.clone()), 0..4);
        prop_oneof![
            vec(inner, 0..4).prop_map(Json::from),
            members.prop_map(|members| Json::Object(Map::from_iter(members))),
        ]
    });
    prop_oneof![3 => plain_value(), 1 => nested]
}

fn rows() -> impl Strategy<Value = Rows> {
    let keys = ["id", "name", "a b", "é", "q\"uote", "back\\slash", "{[", "x", "y"];
    let row = vec((select(keys.to_vec()).prop_map(String::from), value()), 0..8);
    vec(row, 0..12)
}

fn style(blanks: &'static [&'static str]) -> impl Strategy<Value = Style> {
    (vec(select(blanks), 0..5), select(vec![0, 1, 2, 7]))
        .prop_map(|(blanks, escape_every)| Style { blanks, escape_every })
}

const BLANKS_IN_LINE: &[&str] = &["", " ", "  ", "\t", "\r"];
const BLANKS: &[&str] = &["", " ", "\n", "\n  ", "\t", "\r\n"];

/// Returns true if both are equal, but for the last digits of doubles, which the judge does not
/// always read right.
fn is_alike(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_alike(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            let both = one.iter().zip(other);
            one.len() == other.len()
                && both.into_iter().all(|(a, b)| a.0 == b.0 && is_alike(a.1, b.1))
        }
        (Json::Number(one), Json::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= one.abs() * 1e-15
        }
        _ => one == other,
    }
}

fn assert_reads_as(input: &str, options: JsonOptions, rows: &Rows, style: &Style) {
    let reading = read_with(input.as_bytes(), options).unwrap();
    let (columns, values) = expected(rows, style);
    assert_eq!(reading.columns, columns, "{input}");
    assert_eq!(reading.rows, values, "{input}");
    assert!(reading.bad.is_empty(), "{input}: {:?}", reading.bad);
    // The test's own writer is judged as well.
    for (original, row) in reading.originals.iter().zip(rows) {
        let object: Map<String, Json> = serde_json::from_str(original).unwrap();
        let written = Json::Object(Map::from_iter(row.clone()));
        assert!(is_alike(&Json::Object(object), &written), "{original}");
    }
    let starts = input.match_indices('\n').map(|(at, _)| at + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
    for (original, &line) in reading.originals.iter().zip(&reading.lines) {
        let first_line = original.split('\n').next().unwrap_or_default();
        assert!(input[starts[line as usize - 1]..].contains(first_line), "line {line}: {original}");
    }
}

/// Removes, changes and adds bytes.
fn damage(bytes: &mut Vec<u8>, wounds: &[(usize, u8, u8)]) {
    for &(place, kind, byte) in wounds {
        let at = place % (bytes.len() + 1);
        match kind % 4 {
            0 if at < bytes.len() => {
                bytes.remove(at);
            }
            1 if at < bytes.len() => bytes[at] = byte,
            2 => bytes.truncate(at.max(bytes.len() / 2)),
            _ => bytes.insert(at, byte),
        }
    }
}

fn wounds() -> impl Strategy<Value = Vec<(usize, u8, u8)>> {
    let byte = prop_oneof![
        3 => select(b"{}[]\":,\\\n0123456789.eE+-ntfu \t".to_vec()),
        1 => any::<u8>()
    ];
    vec((any::<usize>(), any::<u8>(), byte), 0..6)
}

/// Number of rows on a line; `None` if the line is bad.
fn judge_line(line: &[u8]) -> Option<usize> {
    let objects: Result<Vec<Map<String, Json>>, _> =
        serde_json::Deserializer::from_slice(line).into_iter().collect();
    objects.ok().map(|objects| objects.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn lines_read_as_they_were_written(
        rows in rows(), style in style(BLANKS_IN_LINE), block_bytes in 1..400_usize
    ) {
        let lines = rows.iter().map(|row| {
            written(&style, |writer| writer.object(row.iter().map(|(key, value)| (key, value))))
        });
        let input = lines.collect::<Vec<_>>().join("\n");
        // What the beginning shows must not matter.
        let options = JsonOptions { beginning_bytes: block_bytes, ..options(block_bytes) };
        assert_reads_as(&input, options, &rows, &style);
    }

    #[test]
    fn objects_read_as_they_were_written(
        rows in rows(), style in style(BLANKS), block_bytes in 1..400_usize
    ) {
        let input = written(&style, |writer| for row in &rows {
            writer.object(row.iter().map(|(key, value)| (key, value)));
            writer.blank();
        });
        assert_reads_as(&input, options(block_bytes), &rows, &style);
    }

    #[test]
    fn arrays_read_as_they_were_written(
        rows in rows(), style in style(BLANKS), block_bytes in 1..400_usize
    ) {
        let input = written(&style, |writer| {
            writer.mark('[');
            for (index, row) in rows.iter().enumerate() {
                if index > 0 {
                    writer.mark(',');
                }
                writer.object(row.iter().map(|(key, value)| (key, value)));
            }
            writer.mark(']');
        });
        let options = JsonOptions { beginning_bytes: block_bytes, ..options(block_bytes) };
        assert_reads_as(&input, options, &rows, &style);
    }

    /// Without the two things that only serde_json minds: numbers beyond a
    /// double's range, and lone surrogates in nested values.
    #[test]
    fn a_line_is_good_if_the_judge_says_so(rows in rows(), wounds in wounds()) {
        let style = Style { blanks: vec![" "], escape_every: 0 };
        let mut input = Vec::new();
        for row in &rows {
            let line = written(&style, |writer| {
                writer.object(row.iter().map(|(key, value)| (key, value)));
            });
            input.extend_from_slice(line.as_bytes());
            input.push(b'\n');
        }
        damage(&mut input, &wounds);
        input.push(b'\n');
        let (mut piece, mut batch) = (JsonPiece::default(), JsonBatch::default());
        piece.block.push(&input).unwrap();
        let keys = Keys::default();
        let done = decode("in", Form::Lines, &keys, NewKeys::Collect, &mut piece, &mut batch);
        prop_assert!(done.is_ok());
        for (line, number) in input.split(|&byte| byte == b'\n').zip(1..) {
            let is_odd = |text: &str| text.contains('e') || text.contains('E') || text.contains("\\u");
            if is_odd(&String::from_utf8_lossy(line)) {
                continue;
            }
            let good = batch.rows.iter().filter(|row| u64::from(row.lines_before) + 1 == number);
            let bad = batch.bad_rows.iter().filter(|bad| bad.bad_row.line == number);
            let expected = judge_line(line);
            let shown = String::from_utf8_lossy(line);
            prop_assert_eq!(good.count(), expected.unwrap_or(0), "{}", shown);
            prop_assert_eq!(bad.count(), usize::from(expected.is_none()), "{}", shown);
        }
    }

    #[test]
    fn no_damage_makes_it_panic(
        rows in rows(),
        style in style(BLANKS),
        wounds in wounds(),
        is_array: bool,
        block_bytes in 1..300_usize,
    ) {
        let mut input = written(&style, |writer| {
            if is_array { writer.mark('[') }
            for (index, row) in rows.iter().enumerate() {
                writer.mark(if is_array && index > 0 { ',' } else { ' ' });
                writer.object(row.iter().map(|(key, value)| (key, value)));
            }
            if is_array { writer.mark(']') }
        }).into_bytes();
        damage(&mut input, &wounds);
        // What cannot be read as a whole is an error, which is all right.
        if let Ok(Reading { rows, originals, .. }) = read(&input, block_bytes) {
            prop_assert_eq!(rows.len(), originals.len());
            for original in &originals {
                let is_object = original.starts_with('{') && original.ends_with('}');
                prop_assert!(is_object, "{}", original);
                let judged = serde_json::from_str::<Map<String, Json>>(original);
                let is_known = judged.is_ok()
                    || original.contains("\\u")
                    || original.contains(['e', 'E']);
                prop_assert!(is_known, "{}: {:?}", original, judged);
            }
        }
    }

    #[test]
    fn bytes_by_chance_do_not_make_it_panic(
        input in vec(select(b"{}[]\":,\\\n01.e-ntu a\xc3\xa9".to_vec()), 0..60),
        block_bytes in 1..70_usize,
    ) {
        if let Ok(reading) = read(&input, block_bytes) {
            prop_assert_eq!(reading.rows.len(), reading.originals.len());
        }
    }
}
