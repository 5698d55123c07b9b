//! The rules against SQLite: what is written is what an INSERT of the same
//! text leaves in a column of that type.

use leafpress_format::Affinity;
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::sink::Values;
use super::super::uuid7::Uuid7Range;
use super::*;
use crate::input::csv::scan::RecordStripe;
use crate::input::csv::{FieldIndex, Scanner};
use crate::load::options::Uuid7Form;
use crate::schema::HEADROOM_BYTES;

/// A record alone in its block.
struct Input {
    bytes: Vec<u8>,
    index: FieldIndex,
}

impl Input {
    fn new(line: &str, dialect: Dialect) -> Self {
        let mut bytes = vec![b'9'; HEADROOM_BYTES];
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let mut index = FieldIndex::new();
        let mut scanner = Scanner::new(dialect);
        scanner.begin(HEADROOM_BYTES, &mut index);
        scanner.scan(&bytes, &mut index);
        Self { bytes, index }
    }

    fn span(&self) -> RecordSpan<'_> {
        let mut records = self.index.records(&self.bytes, HEADROOM_BYTES);
        records.next().unwrap_or_else(|| panic!("a record"))
    }
}

/// Result of a line in a load: its values, or its fault.
fn written(rules: &RowRules, line: &str, sequence: u64) -> Result<Vec<Value>, String> {
    let input = Input::new(line, rules.dialect);
    let (bytes, span) = (&input.bytes, input.span());
    let mut scratch = Scratch::new();
    let checked = rules.check(bytes, &span, true, &mut scratch);
    checked.clone().map_err(|misfit| misfit.reason)?;
    let mut forms = vec![RealForms::default(); rules.rules.len()];
    let mut values = Values::default();
    let written = write(rules, (bytes, &span), sequence, &mut values, &mut forms);
    match written {
        Written::Whole => {}
        Written::Refuted => return Err("refuted".to_owned()),
        Written::Bad => panic!("bad, though checked: {line}"),
    }
    values.0.reverse();
    let content: usize = values.0.iter().map(content_bytes).sum();
    assert!(content + values.0.len() * 9 < rules.record_bytes_max(&span) + 1, "{line}");
    Ok(values.0)
}

/// Writes a row as a load does.
fn write(
    rules: &RowRules,
    (bytes, span): (&[u8], &RecordSpan<'_>),
    sequence: u64,
    values: &mut Values,
    forms: &mut [RealForms],
) -> Written {
    let mut scratch = Scratch::new();
    if !rules.is_straight() {
        let none = (sequence, PreparedRow::NONE);
        return rules.write::<false>(bytes, span, none, values, forms, &mut scratch);
    }
    if span.field_ends.len() != rules.rules.len() {
        let none = (sequence, PreparedRow::NONE);
        return rules.write::<true>(bytes, span, none, values, forms, &mut scratch);
    }
    let mut stripe = Stripe::new(rules);
    let starts = [span.start as u32];
    let fields = span.field_ends.len();
    let records = RecordStripe { starts: &starts, field_ends: span.field_ends, fields };
    rules.prepare(bytes, &records, forms, &mut stripe);
    let prepared = (sequence, stripe.row(0));
    rules.write::<true>(bytes, span, prepared, values, forms, &mut scratch)
}

/// Checks that a bad row is one for both: the hot loop and the one that explains.
fn misfit(rules: &RowRules, line: &str) -> (usize, String) {
    let input = Input::new(line, rules.dialect);
    let (bytes, span) = (&input.bytes, input.span());
    let mut scratch = Scratch::new();
    let mut forms = vec![RealForms::default(); rules.rules.len()];
    let mut values = Values::default();
    if rules.check_shape(&span).is_ok() {
        let written = write(rules, (bytes, &span), 0, &mut values, &mut forms);
        assert_eq!(written, Written::Bad, "{line}");
    }
    let misfit = rules
        .check(bytes, &span, true, &mut scratch)
        .map_or_else(|misfit| misfit, |()| panic!("the row is good: {line}"));
    (misfit.at - HEADROOM_BYTES, misfit.reason)
}

fn content_bytes(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Blob(blob) => blob.len(),
        _ => 0,
    }
}

fn rules_of(rules: &[FieldRule], sources: Vec<ValueSource>, fields: usize) -> RowRules {
    let names = (0..rules.len()).map(|column| format!("c{column}")).collect();
    RowRules::new(names, rules.to_vec(), sources, fields, None, Dialect::default())
}

fn straight(rules: &[FieldRule]) -> RowRules {
    rules_of(rules, ValueSource::straight(rules.len()), rules.len())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Value that SQLite stores for a text in a column of that declared type.
fn inserted(declared_type: &str, text: &str) -> Value {
    let connection = Connection::open_in_memory().unwrap_or_else(|e| panic!("{e}"));
    connection
        .execute_batch(&format!("CREATE TABLE t(x {declared_type})"))
        .and_then(|()| connection.execute("INSERT INTO t VALUES (?)", [text]))
        .and_then(|_| connection.query_row("SELECT x FROM t", [], |row| row.get(0)))
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A REAL column reads back integral values as reals.
fn as_read(rule: FieldRule, value: Value) -> Value {
    match (rule, value) {
        (FieldRule::Given(ColumnType::Real), Value::Integer(integer)) => {
            Value::Real(integer as f64)
        }
        (_, value) => value,
    }
}

#[test]
fn columns_may_come_from_any_field_or_from_none() {
    let sources = vec![
        ValueSource::Field(2),
        ValueSource::Constant(OwnedValue::Text("new".into())),
        ValueSource::Field(0),
        ValueSource::Constant(OwnedValue::Null),
        ValueSource::Constant(OwnedValue::Blob(vec![7; 40])),
        ValueSource::Constant(OwnedValue::Integer(-5)),
        ValueSource::Field(2),
    ];
    let all = [
        FieldRule::Text,
        FieldRule::Text,
        FieldRule::Integer,
        FieldRule::Empty,
        FieldRule::Any,
        FieldRule::Given(ColumnType::Integer),
        FieldRule::Text,
    ];
    let rules = rules_of(&all, sources, 3);
    let expected = vec![
        text("a,b"),
        text("new"),
        Value::Integer(17),
        Value::Null,
        Value::Blob(vec![7; 40]),
        Value::Integer(-5),
        text("a,b"),
    ];
    assert_eq!(written(&rules, "17,unused,\"a,b\"", 0), Ok(expected));
    assert_eq!(written(&rules, "x,,y", 0), Err("refuted".to_owned()));
    let (at, reason) = misfit(&rules, "1,2");
    assert_eq!((at, reason.as_str()), (0, "the row has 2 fields, but the input has 3 columns"));
}

#[test]
fn a_constant_of_a_real_column_is_stored_as_sqlite_does() {
    let source = || vec![ValueSource::Constant(OwnedValue::Real(3.0)), ValueSource::Field(0)];
    let real = rules_of(&[FieldRule::Given(ColumnType::Real), FieldRule::Text], source(), 1);
    assert_eq!(written(&real, "x", 0), Ok(vec![Value::Integer(3), text("x")]));
    let any = rules_of(&[FieldRule::Any, FieldRule::Text], source(), 1);
    assert_eq!(written(&any, "x", 0), Ok(vec![Value::Real(3.0), text("x")]));
}

#[test]
fn keys_are_made_by_the_row_s_number() {
    let sources = vec![
        ValueSource::Uuid7(Uuid7Form::Blob),
        ValueSource::Uuid7(Uuid7Form::Text),
        ValueSource::Field(0),
    ];
    let keys = Uuid7Range::new(1_700_000_000_000, [42, 43]);
    let all = [FieldRule::Any, FieldRule::Any, FieldRule::Text];
    let rules = rules_of(&all, sources, 1)
        .demands(Demands { uuid7: Some(keys.clone()), ..Demands::default() });
    let key_text = String::from_utf8_lossy(&keys.text_at(9)).into_owned();
    let expected = vec![Value::Blob(keys.at(9).to_vec()), text(&key_text), text("x")];
    assert_eq!(written(&rules, "x", 9), Ok(expected));
}

#[test]
fn a_made_up_or_missing_rowid_is_null_in_the_record() {
    let rule = [FieldRule::Rowid, FieldRule::Text];
    let rules_by = |key, source| {
        let sources = vec![source, ValueSource::Field(0)];
        let names = vec!["id".to_owned(), "name".to_owned()];
        RowRules::new(names, rule.to_vec(), sources, 2, key, Dialect::default())
    };
    let rules = |source| rules_by(Some(0), source);
    let rowid = |rules: &RowRules, line: &str| {
        let input = Input::new(line, rules.dialect);
        rules.rowid(&input.bytes, &input.span(), &mut Scratch::new()).map_err(|m| (m.at, m.reason))
    };
    let null = ValueSource::Constant(OwnedValue::Null);
    let none = rules_by(None, null.clone());
    assert_eq!(rowid(&none, "a,7"), Ok(None));
    assert_eq!(written(&none, "a,7", 0), Ok(vec![Value::Null, text("a")]));
    let lacked = rules(null);
    let last = rules(ValueSource::Field(1));
    assert_eq!(rowid(&last, "abc,7"), Ok(Some(7)));
    assert_eq!(rowid(&last, "abc, 7"), Ok(Some(7)));
    let demanded = rules(ValueSource::Field(1)).demands(Demands::refusing_null(&[true, false]));
    assert_eq!(written(&demanded, "a,7", 0), Ok(vec![Value::Null, text("a")]));
    let at = |at: usize| HEADROOM_BYTES + at;
    let reason = "column \"id\": the primary key is empty".to_owned();
    assert_eq!(rowid(&lacked, "a,7"), Err((at(0), reason)));
    let reason = "column \"id\": 'x' is not an INTEGER".to_owned();
    assert_eq!(rowid(&last, "abc,x"), Err((at(4), reason)));
    let input = Input::new("abc,7", last.dialect);
    assert_eq!(last.column_start(&input.span(), 0), at(4));
    assert_eq!(none.column_start(&input.span(), 0), at(0));
}

#[test]
fn a_detected_key_is_bad_only_where_it_is_empty() {
    let names = vec!["id".to_owned(), "name".to_owned()];
    let all = vec![FieldRule::Rowid, FieldRule::Text];
    let straight = ValueSource::straight(2);
    let rules = RowRules::new(names, all, straight, 2, Some(0), Dialect::default())
        .null_markers(vec![b"NA".to_vec()]);
    let check = |rules: &RowRules, line: &str| {
        let input = Input::new(line, rules.dialect);
        rules.check(&input.bytes, &input.span(), true, &mut Scratch::new()).is_ok()
    };
    let lines = ["7,a", "x is empty,a", ",a", "NA,a"];
    assert_eq!(lines.map(|line| check(&rules, line)), [true, false, false, false]);
    let detected = rules.demands(Demands { key_is_detected: true, ..Demands::default() });
    assert_eq!(lines.map(|line| check(&detected, line)), [true, true, false, false]);
}

#[test]
fn trimming_takes_blanks_inside_and_outside_of_quotes() {
    let all = [FieldRule::Integer, FieldRule::Real, FieldRule::Text, FieldRule::Text];
    let rules = straight(&all).trim(true).null_markers(vec![b"NA".to_vec()]);
    let values = |line| written(&rules, line, 0);
    assert_eq!(
        values(" 1 ,\t2.5\t,\"  a b \", NA"),
        Ok(vec![Value::Integer(1), Value::Real(2.5), text("a b"), Value::Null])
    );
    assert_eq!(
        values("  ,,\" \"\" \",   "),
        Ok(vec![Value::Null, Value::Null, text("\""), text("")])
    );
    assert_eq!(
        written(&straight(&all), "1,2.5, a , NA", 0),
        Ok(vec![Value::Integer(1), Value::Real(2.5), text(" a "), text(" NA")])
    );
}

#[test]
fn an_escaped_null_marker_may_stand_between_blanks() {
    let dialect = Dialect::new(b',', None, Some(b'\\')).unwrap_or_else(|e| panic!("{e}"));
    let names = vec!["a".to_owned()];
    let rules =
        RowRules::new(names, vec![FieldRule::Text], ValueSource::straight(1), 1, None, dialect)
            .null_markers(vec![b"\\N".to_vec()]);
    assert_eq!(written(&rules, "\\N", 0), Ok(vec![Value::Null]));
    assert_eq!(written(&rules, " \\N ", 0), Ok(vec![text(" N ")]));
    assert_eq!(written(&rules.trim(true), " \\N ", 0), Ok(vec![Value::Null]));
}

#[test]
fn null_in_a_not_null_column_makes_a_bad_row() {
    let all = [FieldRule::Integer, FieldRule::Text, FieldRule::Given(ColumnType::Real)];
    let rules = || straight(&all).demands(Demands::refusing_null(&[true, true, false]));
    assert_eq!(written(&rules(), "1,,", 0), Ok(vec![Value::Integer(1), text(""), Value::Null]));
    let empty = "is NOT NULL, and the field is empty";
    assert_eq!(misfit(&rules(), ",a,"), (0, format!("the column \"c0\" {empty}")));
    let none = rules().empty_is_null(true);
    assert_eq!(misfit(&none, "12,,"), (3, format!("the column \"c1\" {empty}")));
    let marked = rules().null_markers(vec![b"NA".to_vec()]);
    let (at, reason) = misfit(&marked, "12,NA,1");
    assert_eq!(
        (at, reason.as_str()),
        (3, "the column \"c1\" is NOT NULL, and 'NA' stands for NULL")
    );
    let padded = rules().ragged(Ragged::Pad).empty_is_null(true);
    let (at, reason) = misfit(&padded, "12");
    assert_eq!(
        (at, reason.as_str()),
        (0, "the column \"c1\" is NOT NULL, and the field is missing")
    );
    let sources = vec![ValueSource::Constant(OwnedValue::Null), ValueSource::Field(0)];
    let constant = rules_of(&all[..2], sources, 1).demands(Demands::refusing_null(&[true, false]));
    let (at, reason) = misfit(&constant, "x");
    let expected = "the column \"c0\" is NOT NULL, and nothing gives it a value";
    assert_eq!((at, reason.as_str()), (0, expected));
}

#[test]
fn an_empty_field_is_text_only_where_text_is_kept() {
    let all = [FieldRule::Any, FieldRule::Numeric, FieldRule::Given(ColumnType::Blob)];
    let rules = straight(&all);
    assert_eq!(written(&rules, ",,", 0), Ok(vec![text(""), Value::Null, Value::Null]));
    let null = rules.empty_is_null(true);
    assert_eq!(written(&null, ",,", 0), Ok(vec![Value::Null, Value::Null, Value::Null]));
}

#[test]
fn timestamps_are_refused_by_name() {
    let rules = straight(&[FieldRule::Timestamp(TimestampForm::Seconds), FieldRule::Text]);
    let (at, reason) = misfit(&rules, "yesterday,x");
    let expected =
        "column \"c0\": 'yesterday' is not a date or time as in 2026-01-31 23:59:59+01:00";
    assert_eq!((at, reason.as_str()), (0, expected));
    assert_eq!(written(&rules, ",x", 0), Ok(vec![Value::Null, text("x")]));
}

/// Texts of which many are numbers, in one way or another.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,19}",
        "-?[0-9]{0,9}\\.[0-9]{0,6}",
        " ?[-+]?[0-9]{1,4}(\\.[0-9]{0,3})?([eE][-+]?[0-9]{1,2})? ?",
        "-?9223372036854775[78]0[0-9](\\.0)?",
        "0x[0-9a-f]{1,4}",
        "[a-z 0-9.+-]{1,6}",
        "[1-9]e1[0-9]",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// By-hand rules store what SQLite stores, or say that the type is another.
    #[test]
    fn values_are_those_of_an_insert(field in texts()) {
        for (declared_type, rule) in [
            ("NUMERIC", FieldRule::Numeric),
            ("DECIMAL(10,2)", FieldRule::Numeric),
            ("", FieldRule::Any),
            ("TEXT", FieldRule::Given(ColumnType::Text)),
            ("INTEGER", FieldRule::Given(ColumnType::Integer)),
            ("REAL", FieldRule::Given(ColumnType::Real)),
        ] {
            let expected = inserted(declared_type, &field);
            let class_fits = match rule {
                FieldRule::Given(ColumnType::Integer) => matches!(expected, Value::Integer(_)),
                FieldRule::Given(ColumnType::Real) => matches!(expected, Value::Real(_)),
                _ => true,
            };
            let rules = straight(&[rule]);
            // The same field through the other way, in another place.
            let sources = vec![ValueSource::Constant(OwnedValue::Null), ValueSource::Field(1)];
            let mapped = rules_of(&[FieldRule::Any, rule], sources, 2);
            let line = format!("unused,{field}");
            if class_fits {
                let values = written(&rules, &field, 0).unwrap_or_else(|e| panic!("{e}"));
                let through_map = written(&mapped, &line, 0).unwrap_or_else(|e| panic!("{e}"));
                prop_assert_eq!(&through_map[1..], &values[..]);
                let value = as_read(rule, values[0].clone());
                prop_assert_eq!(value, expected, "{} {:?}", declared_type, field);
            } else {
                prop_assert!(written(&rules, &field, 0).is_err(), "{} {:?}", declared_type, field);
                misfit(&rules, &field);
                prop_assert_eq!(misfit(&mapped, &line).0, "unused,".len());
            }
        }
    }

    /// Straight and mapped write the same, whatever the line.
    #[test]
    fn both_ways_agree(fields in prop::collection::vec("[ 0-9a.]{0,5}|\"[a\", \n]{0,3}\"", 3)) {
        let line = fields.join(",");
        let all = [FieldRule::Text, FieldRule::Numeric, FieldRule::Any];
        let rules = straight(&all).null_markers(vec![b"a".to_vec()]);
        let mut mapped = rules.clone();
        mapped.is_straight = false;
        let input = Input::new(&line, rules.dialect);
        if input.index.record_ends().len() == 1 && input.span().field_ends.len() == 3 {
            prop_assert_eq!(written(&mapped, &line, 0), written(&rules, &line, 0));
        }
    }

    /// Texts that both read give equal values in Leafpress and SQLite.
    #[test]
    fn timestamps_are_sqlite_s(
        (year, month, day) in (0..10_000_i32, 1..13_u8, 1..29_u8),
        (hour, minute, second) in (0..24_u8, 0..60_u8, 0..60_u8),
        fraction in "|\\.[0-9]{1,3}",
        zone in prop_oneof![
            Just(String::new()), Just("Z".to_owned()), Just(" Z".to_owned()),
            (0..14_u8, 0..60_u8, "[+-]", " ?")
                .prop_map(|(h, m, sign, blank)| format!("{blank}{sign}{h:02}:{m:02}")),
        ],
        (separator, parts) in ("[T ]", 0..4_u8),
    ) {
        let mut field = format!("{year:04}-{month:02}-{day:02}");
        let time = match parts {
            0 => String::new(),
            1 => format!("{separator}{hour:02}:{minute:02}{zone}"),
            2 => format!("{separator}{hour:02}:{minute:02}:{second:02}{zone}"),
            _ => format!("{separator}{hour:02}:{minute:02}:{second:02}{fraction}{zone}"),
        };
        field.push_str(&time);
        let connection = Connection::open_in_memory().unwrap_or_else(|e| panic!("{e}"));
        let sql = "SELECT unixepoch(?1),
                          cast(round(unixepoch(?1, 'subsec') * 1000) AS INTEGER),
                          date(?1), datetime(?1)";
        let expected: Vec<Value> = connection
            .query_row(sql, [&field], |row| (0..4).map(|column| row.get(column)).collect())
            .unwrap_or_else(|e| panic!("{e}"));
        let forms = [
            TimestampForm::Seconds,
            TimestampForm::Milliseconds,
            TimestampForm::Date,
            TimestampForm::DateTime,
        ];
        for (form, expected) in forms.into_iter().zip(expected) {
            let rules = straight(&[FieldRule::Timestamp(form)]);
            match expected {
                // Beyond the year 9999 in UTC.
                Value::Null => { misfit(&rules, &field); }
                expected => prop_assert_eq!(
                    written(&rules, &field, 0), Ok(vec![expected]), "{:?} {}", form, field
                ),
            }
        }
    }
}

#[test]
fn what_else_is_a_timestamp_and_what_is_none() {
    let rules = straight(&[FieldRule::Timestamp(TimestampForm::DateTime)]);
    for (field, expected) in [
        ("2026-01-31T23:59:59+0100", "2026-01-31 22:59:59"),
        ("2026-01-31 23:59:59+01", "2026-01-31 22:59:59"),
        ("2026-01-31 23:59:59 UTC", "2026-01-31 23:59:59"),
        ("2026-01-31t23:59:59z", "2026-01-31 23:59:59"),
        ("2026-01-31T23:59:59.999999999", "2026-01-31 23:59:59"),
        ("2026-01-31T23:59+01:00[Europe/Berlin]", "2026-01-31 22:59:00"),
        ("0000-01-01 00:30+01:00", "-0001-12-31 23:30:00"),
        ("9999-12-31", "9999-12-31 00:00:00"),
    ] {
        assert_eq!(written(&rules, field, 0), Ok(vec![text(expected)]), "{field}");
    }
    for field in [
        "2026-02-30",
        "2026-1-31",
        "20260131",
        "2026-01-31T",
        "2026-01-31 24:00",
        "2026-01-31 23:59:60",
        "2026-01-31 235959",
        "2026-01-31 12:00[Europe/Berlin]",
        "2026-01-31 12:00 CET",
        "12:00",
        "now",
        "2460000.5",
        "1769900399",
        "-2026-01-31",
        "2026-01-31 12:00:00 +99:99",
        "2026-01-31 12:00:00.0000000000000000000000000000000000000000000000000000",
    ] {
        misfit(&rules, field);
    }
}

#[test]
fn forms_of_timestamps_by_name() {
    assert_eq!("UNIXEPOCH_MS".parse(), Ok(TimestampForm::Milliseconds));
    assert_eq!("date".parse(), Ok(TimestampForm::Date));
    assert!("julian".parse::<TimestampForm>().is_err_and(|e| e.contains("choose unixepoch")));
    assert_eq!(TimestampForm::Seconds.column_type().affinity(), Affinity::Integer);
}
