//! JSON as the loader reads it: source, reader, decoder and batch together, on
//! blocks of any size.
//!
//! The model is `serde_json`: what it reads from an input is what must come
//! out. Beside that: damaged inputs are told of and never panic, and a row's
//! line is its line.

mod properties;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leafpress_format::Value;

use super::batch::{JsonBatch, JsonPiece};
use super::decode::Form;
use super::{JsonOptions, JsonSource};
use crate::input::rows::{DecodeHalt, RowBatch, RowDecoder, RowReader, RowSource};
use crate::input::source::Source;
use crate::{ErrorKind, Result};

/// A value that outlives its batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

impl From<Value<'_>> for Owned {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(integer) => Self::Integer(integer),
            Value::Real(real) => Self::Real(real),
            Value::Text(text) => Self::Text(String::from_utf8(text.to_vec()).unwrap()),
            Value::Blob(blob) => panic!("JSON has no blobs, but here is {blob:?}"),
        }
    }
}

fn text(text: &str) -> Owned {
    Owned::Text(text.to_owned())
}

/// A bad row: how many good ones come before, line, column, reason, original.
pub(super) type Bad = (usize, u64, u64, String, String);

/// All that an input reads as.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Reading {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Owned>>,
    pub lines: Vec<u64>,
    pub originals: Vec<String>,
    pub texts: Vec<Vec<Option<String>>>,
    pub bad: Vec<Bad>,
    pub lines_total: u64,
    /// Number of passes over the whole input.
    pub passes: usize,
}

pub(super) fn options(block_bytes: usize) -> JsonOptions {
    JsonOptions { block_bytes, ..JsonOptions::default() }
}

pub(super) fn read(input: &[u8], block_bytes: usize) -> Result<Reading> {
    read_with(input, options(block_bytes))
}

pub(super) fn read_with(input: &[u8], options: JsonOptions) -> Result<Reading> {
    let spool = tempfile::tempdir().unwrap();
    let source = Source::reader("in.json", input, Some(spool.path()));
    let bytes_read = Arc::new(AtomicU64::new(0));
    let mut source = JsonSource::new(source, options, &bytes_read)?;
    let mut passes = 0;
    loop {
        passes += 1;
        assert!(passes <= 2, "a second pass knows all columns");
        if let Some(reading) = pass(&mut source, &bytes_read)? {
            return Ok(Reading { passes, ..reading });
        }
        source.discover_columns(&bytes_read)?;
    }
}

/// One pass; `None` if a column is new.
fn pass(source: &mut JsonSource<'_>, bytes_read: &Arc<AtomicU64>) -> Result<Option<Reading>> {
    let (mut reader, decoder) = source.open(bytes_read)?;
    let columns: Vec<String> = source.columns().iter().map(|c| c.name.name.clone()).collect();
    let mut reading = Reading { columns, ..Reading::default() };
    let (mut piece, mut batch) = (JsonPiece::default(), JsonBatch::default());
    while reader.claim(&mut piece)? {
        match decoder.decode(&mut piece, &mut batch) {
            Ok(()) => add(&batch, &mut reading),
            Err(DecodeHalt::Failed(error)) => return Err(error),
            Err(DecodeHalt::NewColumn) => {
                // A stream can be read again only if it was read to its end.
                while reader.claim(&mut piece)? {}
                return Ok(None);
            }
        }
    }
    assert!(!reader.claim(&mut piece)?, "the end stays the end");
    reading.lines_total = reader.lines_total();
    Ok(Some(reading))
}

fn add(batch: &JsonBatch, reading: &mut Reading) {
    for bad in batch.bad_rows() {
        let row = &bad.bad_row;
        let before = reading.rows.len() + bad.good_rows_before;
        let original = String::from_utf8_lossy(&bad.original).into_owned();
        reading.bad.push((before, row.line, row.column, row.reason.clone(), original));
    }
    for row in 0..batch.rows() {
        let columns = 0..reading.columns.len();
        let values: Vec<Owned> =
            columns.clone().map(|column| batch.value(row, column).into()).collect();
        let content =
            values.iter().map(|value| if let Owned::Text(t) = value { t.len() } else { 0 });
        assert!(content.sum::<usize>() <= batch.content_bytes(row));
        let to_text = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
        reading.texts.push(columns.map(|c| batch.text(row, c).map(to_text)).collect());
        reading.rows.push(values);
        reading.lines.push(batch.line(row));
        reading.originals.push(String::from_utf8(batch.original(row)).unwrap());
    }
}

pub(super) fn message(result: Result<Reading>) -> String {
    result.unwrap_err().to_string()
}

pub(super) const SIZES: [usize; 7] = [1, 2, 7, 16, 33, 100, 1 << 20];

/// Reads with blocks of many sizes, which must make no difference.
pub(super) fn read_at_all_sizes(input: &str) -> Reading {
    let whole = read(input.as_bytes(), 1 << 20).unwrap();
    for block_bytes in SIZES {
        let reading = read(input.as_bytes(), block_bytes).unwrap();
        assert_eq!(Reading { passes: whole.passes, ..reading }, whole, "blocks of {block_bytes}");
    }
    whole
}

#[test]
fn lines_are_rows() {
    let input = "{\"id\": 1, \"name\": \"Ada\", \"score\": 1.50}\n\n  \
                 {\"id\":2,\"score\":null,\"ok\":true}\r\n{\"name\":\"Bo\",\"id\":3}";
    let reading = read_at_all_sizes(input);
    assert_eq!(reading.columns, ["id", "name", "score", "ok"]);
    assert_eq!(
        reading.rows,
        [
            vec![Owned::Integer(1), text("Ada"), Owned::Real(1.5), Owned::Null],
            vec![Owned::Integer(2), Owned::Null, Owned::Null, Owned::Integer(1)],
            vec![Owned::Integer(3), text("Bo"), Owned::Null, Owned::Null],
        ]
    );
    assert_eq!(reading.lines, [1, 3, 4]);
    assert_eq!(reading.lines_total, 4);
    assert_eq!(reading.originals[2], "{\"name\":\"Bo\",\"id\":3}");
    assert_eq!(reading.texts[0][2].as_deref(), Some("1.50"));
    assert_eq!(reading.texts[1][3].as_deref(), Some("true"));
    assert_eq!(reading.texts[1][2], None);
    assert!(reading.bad.is_empty());
}

#[test]
fn objects_may_spread_over_lines_or_share_one() {
    let pretty = "{\n  \"a\": 1,\n  \"b\": [1, 2]\n}\n{\n  \"a\": 2,\n  \"b\": {}\n}\n";
    let reading = read_at_all_sizes(pretty);
    assert_eq!(reading.columns, ["a", "b"]);
    assert_eq!(reading.rows[0], [Owned::Integer(1), text("[1,2]")]);
    assert_eq!(reading.rows[1], [Owned::Integer(2), text("{}")]);
    assert_eq!(reading.lines, [1, 5]);
    assert_eq!(reading.lines_total, 8);
    assert_eq!(reading.originals[1], "{\n  \"a\": 2,\n  \"b\": {}\n}");

    for joined in ["{\"a\":1}{\"a\":2} {\"a\":3}", "{\"a\":1}{\"a\":2}\n{\"a\":3}\n"] {
        let reading = read_at_all_sizes(joined);
        let values: Vec<_> = reading.rows.iter().map(|row| row[0].clone()).collect();
        assert_eq!(values, [Owned::Integer(1), Owned::Integer(2), Owned::Integer(3)]);
    }
}

#[test]
fn a_pretty_input_is_known_in_spite_of_blank_lines_and_long_rows() {
    let long = "x".repeat(500);
    let input = format!("\n\n{{\n\"a\": \"{long}\"\n}}\n{{\n\"a\": 1\n}}\n");
    let reading = read_at_all_sizes(&input);
    assert_eq!(reading.rows, [[text(&long)], [Owned::Integer(1)]]);
    assert_eq!(reading.lines, [3, 6]);
}

#[test]
fn arrays_are_read_element_by_element() {
    for input in [
        "[{\"a\":1},{\"a\":2}]",
        " [ {\"a\" : 1}\n , {\"a\" : 2}\n ]\n\n",
        "\u{feff}[\n{\"a\":1\n},\n{\n\"a\":2}]",
    ] {
        let reading = read_at_all_sizes(input);
        assert_eq!(reading.rows, [[Owned::Integer(1)], [Owned::Integer(2)]], "{input}");
    }
    for input in ["[]", " [\n]\n", "[{}]"] {
        assert!(read_at_all_sizes(input).columns.is_empty(), "{input}");
    }
    assert_eq!(read_at_all_sizes("[{},{}]").rows.len(), 2);
}

#[test]
fn an_empty_input_has_no_columns_and_no_rows() {
    for input in ["", "\n \n", "\u{feff}"] {
        assert_eq!(read_at_all_sizes(input).rows.len(), 0);
        let array = JsonOptions { lines: Some(false), ..options(4) };
        assert!(read_with(input.as_bytes(), array).unwrap().columns.is_empty());
    }
}

#[test]
fn what_is_no_input_of_objects_is_refused() {
    for (input, reason) in [
        ("[[\"a\",1],[\"b\",2]]", "line 1: a row must be an object, this is an array"),
        ("[1, 2, 3]", "line 1: a row must be an object, this is a number"),
        ("[null]", "line 1: a row must be an object, this is a plain word"),
        ("\n\"text\"\n", "line 2: a row must be an object, this is a string"),
        ("12", "line 1: a row must be an object, this is a number"),
        ("id,name\n1,Ada\n", "line 1: expected an object in braces, found 'i'"),
    ] {
        for block_bytes in [5, 1000] {
            let message = message(read(input.as_bytes(), block_bytes));
            let start = "in.json: JSON to load must be objects, one a line, or one array of \
                         objects, but ";
            let rest = message.strip_prefix(start).unwrap_or_else(|| panic!("{message}"));
            assert!(rest.starts_with(reason), "{rest}");
        }
    }
    let array = JsonOptions { lines: Some(false), ..options(100) };
    assert!(message(read_with(b"{\"a\":1}", array)).contains("it does not begin with '['"));
    let lines = JsonOptions { lines: Some(true), ..options(100) };
    assert!(message(read_with(b"[{\"a\":1}]", lines)).contains("this is an array"));
}

/// Reads one bad line between two good ones.
fn bad_line(line: &str) -> Bad {
    let input = format!("{{\"a\":1}}\n{line}\n{{\"a\":2}}\n");
    let lines = JsonOptions { lines: Some(true), ..options(1 << 20) };
    let reading = read_with(input.as_bytes(), lines).unwrap();
    assert_eq!(reading.rows, [[Owned::Integer(1)], [Owned::Integer(2)]], "{line}");
    assert_eq!(reading.lines, [1, 3]);
    let [bad] = &reading.bad[..] else { panic!("one bad row in {input}: {:?}", reading.bad) };
    assert_eq!((bad.0, bad.1, bad.4.as_str()), (1, 2, line));
    bad.clone()
}

#[test]
fn bad_lines_say_where_and_why() {
    for (line, column, reason) in [
        ("{\"a\":1", 7, "the row ends where ',' or '}' is expected"),
        ("{\"a\":", 6, "the row ends where a value is expected"),
        ("{", 2, "the row ends where a key in double quotes is expected"),
        ("{\"a\":1}}", 8, "'}' follows the row on its line"),
        ("{\"a\":1},", 8, "a comma follows the row: only in an array one may"),
        ("{\"a\":1} {\"b\":2} x", 17, "'x' follows the row on its line"),
        ("{a:1}", 2, "expected a key in double quotes, found 'a'"),
        (
            "{'a':1}",
            2,
            "expected a key in double quotes, found a single quote (JSON has double ones)",
        ),
        ("{\"a\" 1}", 6, "expected ':', found '1'"),
        ("{\"a\":1 \"b\":2}", 8, "expected ',' or '}', found '\"'"),
        ("{\"a\":1,}", 8, "expected a key in double quotes, found '}'"),
        ("{\"a\":NaN}", 6, "NaN is no JSON value (null, true, false are)"),
        ("{\"a\":-Infinity}", 6, "-Infinity is no JSON value (null, true, false are)"),
        ("{\"a\":None}", 6, "None is no JSON value (null, true, false are)"),
        ("{\"a\":nul}", 6, "expected a value, found 'n'"),
        ("{\"a\":nullx}", 10, "expected ',' or '}', found 'x'"),
        ("{\"a\":012}", 6, "a number begins with 0: JSON has no leading zeros (a string may)"),
        ("{\"a\":1.}", 8, "a number lacks a digit here"),
        ("{\"a\":+1}", 6, "expected a value, found '+'"),
        ("{\"a\":\"x}", 9, "the line ends within a string"),
        ("{\"a\":\"x\\", 8, "the line ends within a string"),
        ("{\"a\":\"x\ty\"}", 8, "a string holds the control character the byte 0x09, not escaped"),
        ("{\"a\":\"\\x41\"}", 7, "a backslash in a string is followed by no JSON escape"),
        ("{\"a\":\"\\u12g4\"}", 7, "a backslash in a string is followed by no JSON escape"),
        (
            "{\"a\":\"ok \\ud83d!\"}",
            10,
            "half of a surrogate pair (\\ud800 to \\udfff) is no character",
        ),
        ("{\"a\":\"\\ude00\"}", 7, "half of a surrogate pair (\\ud800 to \\udfff) is no character"),
        ("{\"a\":[1,}", 9, "expected a value, found '}'"),
        ("{\"a\":{\"b\":1]}", 12, "expected ',' or '}', found ']'"),
        ("[\"a\",1]", 1, "a row must be an object, this is an array"),
        ("12", 1, "a row must be an object, this is a number"),
        ("hello", 1, "expected an object in braces, found 'h'"),
    ] {
        let bad = bad_line(line);
        assert_eq!((bad.2, bad.3.as_str()), (column, reason), "{line}");
    }
}

#[test]
fn bytes_that_are_not_utf8_make_their_row_bad() {
    let input = b"{\"a\":\"\xc3\xa9\"}\n{\"a\":\"ok \xff\"}\n{\"a\xfe\":1}\n{\"a\":2}\n";
    for block_bytes in SIZES {
        let reading = read(input, block_bytes).unwrap();
        assert_eq!(reading.columns, ["a"], "a bad row's key is no column");
        assert_eq!(reading.rows, [[text("é")], [Owned::Integer(2)]]);
        let places: Vec<_> = reading.bad.iter().map(|bad| (bad.0, bad.1, bad.2)).collect();
        assert_eq!(places, [(1, 2, 10), (1, 3, 4)]);
        assert!(reading.bad.iter().all(|bad| bad.3 == "this is not UTF-8"));
    }
}

#[test]
fn objects_on_any_lines_go_on_after_a_bad_one() {
    let input = "{\n\"a\": 1\n}\n{\n\"a\": 1 2,\n\"b\": {\"c\": \"}\"}\n} {\n\"a\": 3\n}\njunk\n\
                 [{\"a\": 4}]\n{\n\"a\": 5\n}\n{\n\"a\": 6";
    let reading = read_at_all_sizes(input);
    let values: Vec<_> = reading.rows.iter().map(|row| row[0].clone()).collect();
    assert_eq!(values, [Owned::Integer(1), Owned::Integer(3), Owned::Integer(5)]);
    assert_eq!(reading.lines, [1, 7, 12]);
    let bad: Vec<_> =
        reading.bad.iter().map(|(before, line, column, ..)| (*before, *line, *column)).collect();
    assert_eq!(bad, [(1, 5, 8), (2, 10, 1), (2, 11, 1), (3, 16, 7)]);
    assert_eq!(reading.bad[0].4, "{\n\"a\": 1 2,\n\"b\": {\"c\": \"}\"}\n}");
    assert_eq!(reading.bad[1].4, "junk");
    assert_eq!(reading.bad[2].4, "[{\"a\": 4}]");
}

#[test]
fn an_array_goes_on_after_an_element_that_is_no_row() {
    let input = "[{\"a\":1},\n 5, [{}], \"x\",\n{\"a\":\"\\ud800\"}, {\"a\":2}]";
    let reading = read_at_all_sizes(input);
    assert_eq!(reading.rows, [[Owned::Integer(1)], [Owned::Integer(2)]]);
    let bad: Vec<_> = reading.bad.iter().map(|bad| (bad.0, bad.1, bad.2, &*bad.4)).collect();
    assert_eq!(
        bad,
        [(1, 2, 2, "5"), (1, 2, 5, "[{}]"), (1, 2, 11, "\"x\""), (1, 3, 7, "{\"a\":\"\\ud800\"}")]
    );
}

#[test]
fn a_broken_array_says_where() {
    for (input, reason) in [
        ("[{\"a\":1},\n{\"a\":}]", "line 2, column 6: expected a value, found '}'"),
        ("[{\"a\":1}\n{\"a\":2}]", "line 2, column 1: expected ',' or ']', found '{'"),
        ("[{\"a\":1},]", "line 1, column 10: expected an object, found ']'"),
        ("[{\"a\":1}] 5", "line 1, column 11: something follows the end of the array"),
        ("[{\"a\":1}],{\"a\":1}", "line 1, column 10: something follows the end of the array"),
        ("[{\"a\":1},{\"a\":\"x", "line 1, column 17: the line ends within a string"),
        ("[{\"a\":1},\n{\"a\":1}", "the array is not closed: the input ends after line 2"),
        ("[", "the array is not closed: the input ends after line 1"),
        ("[{\"a\":1},", "line 1, column 10: the row ends where an object is expected"),
    ] {
        for block_bytes in SIZES {
            let message = message(read(input.as_bytes(), block_bytes));
            let expected = format!("in.json: {reason}\nto do: ");
            assert!(message.starts_with(&expected), "{message}\n  not: {expected}");
        }
    }
}

#[test]
fn places_in_one_long_line_are_counted_over_blocks() {
    let mut input = "[".to_owned();
    for number in 0..50 {
        write!(input, "{{\"a\":{number}}},").unwrap();
    }
    let column = input.len() + 7;
    input += "{\"a\": 7x}]";
    for block_bytes in SIZES {
        let message = message(read(input.as_bytes(), block_bytes));
        let place = format!("line 1, column {}: ", column + 1);
        assert!(message.contains(&place), "{message}, not {place}");
    }
}

#[test]
fn late_keys_become_columns_in_a_second_pass() {
    let mut input = String::new();
    for number in 0..200 {
        let late = match number {
            120 => ",\"late\":true",
            150 => ",\"Later\":[1, {}],\"late\":null",
            _ => "",
        };
        writeln!(input, "{{\"id\":{number}{late}}}").unwrap();
    }
    let whole = read(input.as_bytes(), 1 << 20).unwrap();
    assert_eq!(
        (whole.passes, &whole.columns[..]),
        (1, &["id", "late", "Later"].map(String::from)[..])
    );
    for form in [input.clone(), format!("[{}]", input.trim_end().replace('\n', ",\n"))] {
        for block_bytes in [1, 50, 1000] {
            let short = JsonOptions { beginning_bytes: 100, ..options(block_bytes) };
            let reading = read_with(form.as_bytes(), short).unwrap();
            assert_eq!(reading.passes, 2);
            assert_eq!(reading.columns, whole.columns);
            assert_eq!(reading.rows, whole.rows);
            assert_eq!(reading.lines, whole.lines);
        }
    }
}

#[test]
fn a_bad_row_brings_no_column() {
    let input = "{\"a\":1}\n{\"a\":1,\"b\":2} x\n{\"a\":1,\"c\":\n";
    for block_bytes in SIZES {
        let reading = read(input.as_bytes(), block_bytes).unwrap();
        assert_eq!((reading.columns, reading.passes), (vec!["a".to_owned()], 1));
        assert_eq!(reading.bad.len(), 2);
    }
}

#[test]
fn of_a_repeated_key_the_last_value_counts() {
    let input = "{\"a\":1,\"b\":2,\"a\":3,\"\\u0061\":4}\n{\"b\":5,\"a\":6,\"b\":null}\n";
    let reading = read_at_all_sizes(input);
    assert_eq!(reading.columns, ["a", "b"]);
    assert_eq!(
        reading.rows,
        [[Owned::Integer(4), Owned::Integer(2)], [Owned::Integer(6), Owned::Null]]
    );
}

#[test]
fn repeated_keys_are_counted_once_however_often_the_input_is_read() {
    let repeats =
        "{\"a\":1}\n{}\n{\"b\":1,\"b\":2}\n{\"a\":1,\"a\":2} x\n{\"a\":1,\"b\":1,\"a\":1}\n";
    let distinct = "{\"a\":1,\"b\":2}\n{\"b\":1,\"a\":2}\n";
    for block_bytes in SIZES {
        for (input, expected) in [
            (
                repeats,
                &[
                    "in: 2 rows have a key more than once, such as \"b\" in line 3: its last value is \
                   loaded",
                ][..],
            ),
            (distinct, &[]),
        ] {
            let bytes_read = Arc::default();
            let spool = tempfile::tempdir().unwrap();
            let input = Source::reader("in", input.as_bytes(), Some(spool.path()));
            let mut source = JsonSource::new(input, options(block_bytes), &bytes_read).unwrap();
            for _ in 0..3 {
                pass(&mut source, &bytes_read).unwrap().expect("no column is new");
                assert_eq!(source.notes_at_end(), expected);
            }
        }
    }
}

#[test]
fn keys_become_names_that_a_table_can_have() {
    let input =
        "{\"id\":1,\"ID\":2,\"\":3,\"a\\\"b\":4,\"caf\\u00e9\":5}\n{\"ID\":6,\"a\\u0022b\":7}";
    let reading = read_at_all_sizes(input);
    assert_eq!(reading.columns, ["id", "ID_2", "column3", "a\"b", "café"]);
    assert_eq!(reading.rows[1][1..4], [Owned::Integer(6), Owned::Null, Owned::Integer(7)]);
    let source = Source::reader("in.json", input.as_bytes(), None);
    let source = JsonSource::new(source, JsonOptions::default(), &Arc::default()).unwrap();
    assert_eq!(source.form(), Form::Lines);
    assert_eq!(source.notes().len(), 2, "{:?}", source.notes());
}

#[test]
fn strings_and_nested_values() {
    for (json, value, is_text_of) in [
        (r#""""#, text(""), ""),
        (r#""a\"\\\/\b\f\n\r\tz""#, text("a\"\\/\u{8}\u{c}\n\r\tz"), "a\"\\/\u{8}\u{c}\n\r\tz"),
        (r#""\u0000\u00E9\ud83d\ude00""#, text("\0é😀"), "\0é😀"),
        (r#""é😀 beyond eight bytes""#, text("é😀 beyond eight bytes"), "é😀 beyond eight bytes"),
        ("[]", text("[]"), "[]"),
        ("[ ]", text("[]"), "[]"),
        ("{ \t}", text("{}"), "{}"),
        (r#"[1,{"a":"b c"},null]"#, text(r#"[1,{"a":"b c"},null]"#), r#"[1,{"a":"b c"},null]"#),
        (
            r#"{ "a" : [ 1.0 , "x\u0041 \" y" ] }"#,
            text(r#"{"a":[1.0,"x\u0041 \" y"]}"#),
            r#"{"a":[1.0,"x\u0041 \" y"]}"#,
        ),
        (r#"["\ud800"]"#, text(r#"["\ud800"]"#), r#"["\ud800"]"#),
        ("false", Owned::Integer(0), "false"),
        ("-0", Owned::Integer(0), "-0"),
        ("1.50", Owned::Real(1.5), "1.50"),
        ("18446744073709551615", text("18446744073709551615"), "18446744073709551615"),
        ("1e999", text("1e999"), "1e999"),
    ] {
        let reading = read_at_all_sizes(&format!("{{\"a\" : {json} }}"));
        assert_eq!(reading.rows, [[value]], "{json}");
        assert_eq!(reading.texts[0][0].as_deref(), Some(is_text_of), "{json}");
    }
}

#[test]
fn depth_has_a_limit_and_takes_no_stack() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(read_at_all_sizes(&nested(128)).rows.len(), 1);
    for depth in [129, 100_000] {
        let bad = bad_line(&nested(depth));
        assert_eq!((bad.2, bad.3.as_str()), (134, "values are nested more than 128 deep"));
    }
    let open = format!("{{\"a\":{}", "[{\"b\":".repeat(100_000));
    assert_eq!(bad_line(&open).3, "values are nested more than 128 deep");
}

#[test]
fn many_keys_in_any_order() {
    let forward: Vec<String> = (0..2500).map(|key| format!("\"k{key}\":{key}")).collect();
    let backward: Vec<String> = forward.iter().rev().cloned().collect();
    let every_third: Vec<String> = backward.iter().step_by(3).cloned().collect();
    let rows = [forward, backward, every_third].map(|keys| format!("{{{}}}\n", keys.join(",")));
    let reading = read(rows.concat().as_bytes(), 1 << 20).unwrap();
    for column in 0..2500 {
        let value = Owned::Integer(column as i64);
        assert_eq!(reading.rows[0][column], value);
        assert_eq!(reading.rows[1][column], value);
        let third = if (2499 - column) % 3 == 0 { value } else { Owned::Null };
        assert_eq!(reading.rows[2][column], third, "{column}");
    }
}

#[test]
fn a_huge_row_is_read_up_to_the_limit() {
    let long = "x".repeat(3 << 20);
    for input in [
        format!("{{\"a\":1}}\n{{\"a\":\"{long}\"}}\n{{\"a\":2}}\n"),
        format!("[{{\"a\":1}},{{\"a\":\"{long}\"}},{{\"a\":2}}]"),
        format!("{{\n\"a\":1}}\n{{\"a\":\n\"{long}\"}}\n{{\"a\":2}}\n"),
        format!("{{\"a\":\"{long}\"}}"),
    ] {
        let reading = read(input.as_bytes(), 1 << 16).unwrap();
        assert!(reading.rows.contains(&vec![text(&long)]));
        let limited = JsonOptions { record_bytes_max: 1 << 20, ..options(1 << 16) };
        let message = message(read_with(input.as_bytes(), limited));
        assert!(message.contains("is longer than 1048576 bytes\nto do: "), "{message}");
    }
}

#[test]
fn other_encodings_and_compression() {
    let utf16: Vec<u8> =
        "\u{feff}{\"a\":\"é\"}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(message(read(&utf16, 100)).contains("UTF-16LE"));
    let labelled = JsonOptions { encoding: Some("utf-16".to_owned()), ..options(100) };
    assert_eq!(read_with(&utf16, labelled).unwrap().rows, [[text("é")]]);
    let zstd = zstd::encode_all(&b"{\"a\":1}\n{\"a\":2}\n"[..], 1).unwrap();
    assert_eq!(read(&zstd, 3).unwrap().rows.len(), 2);
}

fn movies() -> Option<PathBuf> {
    use std::io::Write as _;

    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("LEAFPRESS_DATA").map_or_else(beside, PathBuf::from);
    let movies = folder.join("movies.json");
    if movies.is_file() {
        return Some(movies);
    }
    let shown = movies.display();
    let _ = writeln!(std::io::stderr(), "skipped: there is no {shown}; set LEAFPRESS_DATA");
    None
}

#[test]
fn a_real_file_reads_as_serde_json_reads_it() {
    let Some(path) = movies() else { return };
    let bytes = std::fs::read(path).unwrap();
    let expected: Vec<serde_json::Map<String, serde_json::Value>> =
        serde_json::from_slice(&bytes).unwrap();
    for block_bytes in [1000, 1 << 20] {
        let reading = read(&bytes, block_bytes).unwrap();
        assert!(reading.bad.is_empty());
        assert_eq!(reading.columns.len(), 16);
        assert_eq!(reading.rows.len(), expected.len());
        for (row, object) in reading.rows.iter().zip(&expected) {
            for (value, name) in row.iter().zip(&reading.columns) {
                assert_eq!(value, &properties::model(object.get(name)), "{name}");
            }
        }
    }
}

#[test]
fn a_bad_row_in_the_input_is_not_an_error_of_the_input() {
    let error = read(b"[1]", 100).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Input { .. }));
    assert_eq!(read(b"{\"a\":1", 100).unwrap().bad.len(), 1, "an object that is cut off is a row");
}
