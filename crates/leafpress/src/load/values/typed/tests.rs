//! The rules against SQLite: what is written is what an INSERT of the same
//! value leaves in a column of that type, and what is detected loses nothing.

use proptest::collection::vec;
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value as Sql;

use super::super::sink::Values;
use super::super::uuid7::Uuid7Range;
use super::*;
use crate::input::rows::ValueKinds;
use crate::load::options::Uuid7Form;
use crate::schema::shape::ShapeColumn;

/// A value that owns its content, and how the input spells it.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    value: Sql,
    spelled: Option<String>,
}

impl Cell {
    fn value(&self) -> Value<'_> {
        match &self.value {
            Sql::Null => Value::Null,
            Sql::Integer(integer) => Value::Integer(*integer),
            Sql::Real(real) => Value::Real(*real),
            Sql::Text(text) => Value::Text(text.as_bytes()),
            Sql::Blob(blob) => Value::Blob(blob),
        }
    }
}

impl<V: Into<Sql>> From<V> for Cell {
    fn from(value: V) -> Self {
        Self { value: value.into(), spelled: None }
    }
}

#[derive(Default)]
struct Table(Vec<Vec<Cell>>);

impl RowBatch for Table {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        self.0[row][column].value()
    }

    fn text(&self, row: usize, column: usize) -> Option<&[u8]> {
        let cell = &self.0[row][column];
        match (&cell.spelled, cell.value()) {
            (Some(text), _) => Some(text.as_bytes()),
            (None, Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn content_bytes(&self, row: usize) -> usize {
        let bytes = |cell: &Cell| match cell.value() {
            Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
            _ => cell.spelled.as_ref().map_or(0, String::len),
        };
        self.0[row].iter().map(bytes).sum()
    }

    fn line(&self, row: usize) -> u64 {
        row as u64 + 1
    }

    fn excerpt(&self, row: usize) -> String {
        format!("{:?}", self.0[row])
    }

    fn original(&self, row: usize) -> Vec<u8> {
        self.excerpt(row).into_bytes()
    }
}

fn rules_of(rules: &[TypeRule], sources: Vec<ValueSource>) -> TypedRules {
    let names = (0..rules.len()).map(|column| format!("c{column}")).collect();
    TypedRules::new(names, rules.to_vec(), sources, None)
}

fn straight(rules: &[TypeRule]) -> TypedRules {
    rules_of(rules, ValueSource::straight(rules.len()))
}

/// Result of a row in a load: its values, or its fault.
fn written(rules: &TypedRules, cells: Vec<Cell>) -> Result<Vec<Sql>, String> {
    let batch = Table(vec![cells]);
    let mut values = Values::default();
    let written = rules.write(&batch, 0, 7, &mut values, &mut NumberText::new());
    let checked = rules.check(&batch, 0);
    match written {
        TypedWritten::Whole => checked.unwrap_or_else(|fault| panic!("{fault}, though written")),
        TypedWritten::Refuted => return Err("refuted".to_owned()),
        TypedWritten::Bad(_) => return Err(checked.err().unwrap_or_else(|| panic!("no reason"))),
    }
    values.0.reverse();
    let content: usize = values
        .0
        .iter()
        .map(|value| match value {
            Sql::Text(text) => text.len(),
            Sql::Blob(blob) => blob.len(),
            _ => 0,
        })
        .sum();
    assert!(content + 9 * values.0.len() <= rules.record_bytes_max(&batch, 0));
    Ok(values.0)
}

fn shape(declared_type: &str, strict: bool) -> ShapeColumn {
    let affinity = if strict && declared_type == "ANY" {
        Affinity::Blob
    } else {
        Affinity::of_declared_type(declared_type)
    };
    ShapeColumn {
        name: "x".to_owned(),
        declared_type: declared_type.to_owned(),
        affinity,
        not_null: false,
        default: None,
        generated: false,
    }
}

/// Value that SQLite stores in a column of that type; `None` if it refuses.
fn inserted(declared_type: &str, strict: bool, value: &Sql) -> Option<Sql> {
    let connection = Connection::open_in_memory().unwrap_or_else(|e| panic!("{e}"));
    let end = if strict { "STRICT" } else { "" };
    connection
        .execute_batch(&format!("CREATE TABLE t(x {declared_type}) {end}"))
        .unwrap_or_else(|e| panic!("{e}"));
    connection.execute("INSERT INTO t VALUES (?)", [value]).ok()?;
    let stored = connection.query_row("SELECT x FROM t", [], |row| row.get(0));
    Some(stored.unwrap_or_else(|e| panic!("{e}")))
}

/// A REAL column reads back integral values as reals.
fn as_read(declared_type: &str, value: Sql) -> Sql {
    match value {
        Sql::Integer(integer) if declared_type == "REAL" => Sql::Real(integer as f64),
        value => value,
    }
}

fn values() -> impl Strategy<Value = Sql> {
    prop_oneof![
        1 => Just(Sql::Null),
        4 => (-300..300_i64).prop_map(Sql::Integer),
        2 => any::<i64>().prop_map(Sql::Integer),
        2 => prop::sample::select(vec![i64::MAX, i64::MIN, 1 << 53, (1 << 53) + 1])
            .prop_map(Sql::Integer),
        3 => (-9000..9000_i32).prop_map(|n| Sql::Real(f64::from(n) / 8.0)),
        2 => any::<f64>().prop_map(Sql::Real),
        1 => prop::sample::select(vec![f64::NAN, -0.0, f64::INFINITY, 1e15, 9.3e18, -9.2e18])
            .prop_map(Sql::Real),
        3 => "[-+]?[0-9]{1,12}(\\.[0-9]{0,4})?(e[0-9])? ?".prop_map(Sql::Text),
        2 => ".{0,12}".prop_map(Sql::Text),
        2 => vec(any::<u8>(), 0..12).prop_map(Sql::Blob),
    ]
}

/// Equal, and NaN as the NULL that SQLite stores for it.
fn same(one: &Sql, other: &Sql) -> bool {
    match (one, other) {
        (Sql::Real(one), Sql::Real(other)) => one.to_bits() == other.to_bits(),
        (Sql::Real(nan), Sql::Null) | (Sql::Null, Sql::Real(nan)) => nan.is_nan(),
        _ => one == other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// By-hand rules store what SQLite stores, and refuse what STRICT refuses.
    #[test]
    fn declared_columns_store_what_an_insert_stores(value in values()) {
        for (declared_type, may_be_strict) in [
            ("INTEGER", true), ("REAL", true), ("TEXT", true), ("BLOB", true), ("ANY", true),
            ("", false), ("DECIMAL(9,2)", false), ("VARCHAR", false),
        ] {
            for strict in [false, true] {
                if strict && !may_be_strict {
                    continue;
                }
                let rule = TypeRule::for_column(&shape(declared_type, strict), strict, ValueKinds::All);
                let ours = written(&straight(&[rule]), vec![value.clone().into()]);
                let expected = inserted(declared_type, strict, &value).filter(|stored| {
                    match (declared_type, stored) {
                        (_, Sql::Null) => true,
                        ("INTEGER", stored) => matches!(stored, Sql::Integer(_)),
                        ("REAL", stored) => matches!(stored, Sql::Real(_)),
                        _ => true,
                    }
                });
                match (ours, expected) {
                    (Ok(ours), Some(expected)) => {
                        let ours = as_read(declared_type, ours[0].clone());
                        prop_assert!(same(&ours, &expected), "{} {:?}", declared_type, value);
                    }
                    (Err(_), None) => {}
                    (ours, expected) => prop_assert!(
                        false, "{declared_type} {strict}: {value:?} {ours:?} {expected:?}"
                    ),
                }
            }
        }
    }

    /// A detected type refuses none of the values that it was detected from,
    /// and gives each of them back.
    #[test]
    fn detected_columns_lose_nothing(
        column in prop_oneof![
            vec(values(), 0..6),
            vec((-300..300_i64).prop_map(Sql::Integer), 1..6),
            vec(prop_oneof![any::<i64>().prop_map(Sql::Integer),
                            any::<f64>().prop_map(Sql::Real)], 1..6),
            vec(prop_oneof![(-300..300_i64).prop_map(Sql::Integer),
                            (-30..30_i32).prop_map(|n| Sql::Real(f64::from(n) / 4.0))], 1..6),
            vec(vec(any::<u8>(), 0..3).prop_map(Sql::Blob), 1..4),
        ],
        cut in 0..6_usize,
        strict: bool,
    ) {
        let evidence = |from: usize, to: usize| {
            let mut evidence = TypedEvidence::default();
            for (row, value) in column[from..to].iter().enumerate() {
                let cell = Cell::from(value.clone());
                let line = (from + row) as u64;
                let witness = || Witness { input: 0, line, value: shown_value(cell.value()) };
                evidence.add(cell.value(), witness);
            }
            evidence
        };
        let whole = evidence(0, column.len()).verdict(strict);
        let cut = cut.min(column.len());
        let mut merged = evidence(0, cut);
        merged.merge(evidence(cut, column.len()));
        prop_assert_eq!(merged.verdict(strict), whole.clone());
        let rules = straight(&[whole.rule]);
        for value in &column {
            let stored = written(&rules, vec![value.clone().into()])
                .unwrap_or_else(|e| panic!("{whole:?} {value:?}: {e}"));
            let inserted = inserted(whole.declared_type, strict, value)
                .unwrap_or_else(|| panic!("{whole:?} refuses {value:?}"));
            let read = as_read(whole.declared_type, stored[0].clone());
            prop_assert!(same(&read, &inserted), "{:?} {:?} {:?}", whole, value, read);
            prop_assert!(is_kept(value, &read), "{:?} {:?} {:?}", whole, value, read);
        }
    }
}

/// Returns true if a value comes back: numbers by their value, or as their text.
fn is_kept(value: &Sql, stored: &Sql) -> bool {
    match (value, stored) {
        (Sql::Real(real), Sql::Null) => real.is_nan(),
        (Sql::Integer(integer), Sql::Real(real)) => *real as i128 == i128::from(*integer),
        #[expect(clippy::float_cmp, reason = "the same value is what is asked for")]
        (Sql::Real(real), Sql::Integer(integer)) => *integer as f64 == *real,
        #[expect(clippy::float_cmp, reason = "the same value is what is asked for")]
        (Sql::Real(one), Sql::Real(other)) => one == other,
        (Sql::Integer(integer), Sql::Text(text)) => text.parse() == Ok(*integer),
        (Sql::Real(_), Sql::Text(_)) => true,
        (value, stored) => value == stored,
    }
}

fn verdict(column: &[Cell]) -> (&'static str, Option<u64>) {
    let mut evidence = TypedEvidence::default();
    for (line, cell) in (1..).zip(column) {
        let witness = || Witness { input: 0, line, value: shown_value(cell.value()) };
        evidence.add(cell.value(), witness);
    }
    let verdict = evidence.verdict(false);
    (verdict.declared_type, verdict.decided_by.map(|witness| witness.line))
}

#[test]
fn the_values_decide_the_type() {
    let (null, one, wide) = (Cell::from(Sql::Null), Cell::from(1), Cell::from(i64::MAX));
    let nan = Cell::from(f64::NAN);
    let (half, text, blob) = (Cell::from(0.5), Cell::from("x".to_owned()), Cell::from(vec![1_u8]));
    for (column, expected) in [
        (vec![&null, &null], ("TEXT", None)),
        (vec![&null, &nan], ("REAL", None)),
        (vec![&nan, &one], ("INTEGER", None)),
        (vec![&nan, &blob], ("BLOB", None)),
        (vec![&one, &null, &wide], ("INTEGER", None)),
        (vec![&one, &null, &half, &half], ("REAL", Some(3))),
        (vec![&half, &one, &wide], ("NUMERIC", Some(3))),
        (vec![&wide, &half], ("NUMERIC", Some(1))),
        (vec![&one, &half, &text], ("TEXT", Some(3))),
        (vec![&blob, &null], ("BLOB", None)),
        (vec![&blob, &blob, &one, &text], ("", Some(3))),
        (vec![&one, &text, &blob], ("", Some(3))),
    ] {
        let column: Vec<Cell> = column.into_iter().cloned().collect();
        assert_eq!(verdict(&column), expected, "{column:?}");
    }
}

#[test]
fn numbers_in_a_text_column_keep_their_spelling() {
    let spelled = |value: Sql, text: &str| Cell { value, spelled: Some(text.to_owned()) };
    for rule in
        [TypeRule::Text, TypeRule::Affinity(Affinity::Text), TypeRule::Given(ColumnType::Text)]
    {
        let rules = straight(&[rule, rule, rule]);
        let cells =
            vec![spelled(Sql::Real(1.5), "1.50"), spelled(Sql::Integer(1), "true"), 2.0.into()];
        let expected: Vec<Sql> = ["1.50", "true", "2.0"].map(|t| Sql::Text(t.to_owned())).into();
        assert_eq!(written(&rules, cells), Ok(expected));
    }
}

#[test]
fn detected_types_are_refuted_by_what_they_cannot_hold() {
    let refutes = |rule, cell: Cell| {
        assert_eq!(written(&straight(&[rule]), vec![cell.clone()]), Err("refuted".to_owned()));
        // That makes no bad row.
        assert_eq!(straight(&[rule]).check(&Table(vec![vec![cell]]), 0), Ok(()));
    };
    refutes(TypeRule::Integer, 1.0.into());
    refutes(TypeRule::Integer, "1".to_owned().into());
    refutes(TypeRule::Real, ((1_i64 << 53) + 1).into());
    refutes(TypeRule::Real, i64::MAX.into());
    refutes(TypeRule::Number, "1".to_owned().into());
    refutes(TypeRule::Text, vec![1_u8].into());
    refutes(TypeRule::Blob, "1".to_owned().into());
    refutes(TypeRule::Empty, 0.into());
    refutes(TypeRule::Empty, f64::NAN.into());
    refutes(TypeRule::EmptyReal, 1.into());
    refutes(TypeRule::EmptyReal, 1.5.into());
    let empty = straight(&[TypeRule::EmptyReal]);
    assert_eq!(written(&empty, vec![f64::NAN.into()]), Ok(vec![Sql::Null]));
    let rules = straight(&[TypeRule::Real]);
    assert_eq!(
        written(&rules, vec![(1_i64 << 53).into()]),
        Ok(vec![Sql::Real((1_u64 << 53) as f64)])
    );
}

#[test]
fn columns_may_come_from_elsewhere() {
    let keys = Uuid7Range::new(1_700_000_000_000, [1, 2]);
    let sources = vec![
        ValueSource::Field(1),
        ValueSource::Constant(OwnedValue::Real(2.0)),
        ValueSource::Uuid7(Uuid7Form::Blob),
        ValueSource::Uuid7(Uuid7Form::Text),
        ValueSource::Field(1),
    ];
    let any = TypeRule::Affinity(Affinity::Blob);
    let rules = rules_of(&[any, TypeRule::Given(ColumnType::Real), any, any, any], sources)
        .demands(Demands { uuid7: Some(keys.clone()), ..Demands::default() });
    let cells = vec![1.into(), "x".repeat(100).into()];
    let long = Sql::Text("x".repeat(100));
    let key = Sql::Text(String::from_utf8_lossy(&keys.text_at(7)).into_owned());
    let expected = vec![long.clone(), Sql::Integer(2), Sql::Blob(keys.at(7).to_vec()), key, long];
    assert_eq!(written(&rules, cells), Ok(expected));
}

#[test]
fn bad_rows_name_the_column_and_the_value() {
    let reason = |rules: &TypedRules, cells: Vec<Cell>| {
        written(rules, cells).err().unwrap_or_else(|| panic!("the row is good"))
    };
    let text = |text: &str| Cell::from(text.to_owned());
    let given = |column_type| TypeRule::Given(column_type);
    let rules = straight(&[given(ColumnType::Integer), given(ColumnType::Blob)]);
    let first = reason(&rules, vec![text("x"), text("y")]);
    assert_eq!(first, "column \"c0\": 'x' is not an INTEGER");
    let second = reason(&rules, vec![text(" 7"), 1.5.into()]);
    assert_eq!(second, "column \"c1\": 1.5 is not a BLOB");
    let third = reason(&rules, vec![vec![1_u8, 255].into(), Sql::Null.into()]);
    assert_eq!(third, "column \"c0\": x'01ff' is not an INTEGER");
    let rules = rules.demands(Demands::refusing_null(&[false, true]));
    let null = reason(&rules, vec![1.into(), Sql::Null.into()]);
    assert_eq!(null, "the column \"c1\" is NOT NULL, and the value is NULL");
    let real = straight(&[TypeRule::Real]).demands(Demands::refusing_null(&[true]));
    let nan = reason(&real, vec![f64::NAN.into()]);
    assert_eq!(nan, "the column \"c0\" is NOT NULL, and NaN stands for NULL");
    let constant = rules_of(&[TypeRule::Text], vec![ValueSource::Constant(OwnedValue::Null)]);
    let nothing = reason(&constant.demands(Demands::refusing_null(&[true])), vec![]);
    assert_eq!(nothing, "the column \"c0\" is NOT NULL, and nothing gives it a value");
}

#[test]
fn blobs_come_as_digits_where_the_input_has_none() {
    let rule = TypeRule::for_column(&shape("BLOB", false), false, ValueKinds::Json);
    let rules = straight(&[rule]);
    let value = |cell: Cell| written(&rules, vec![cell]);
    assert_eq!(value("00ff".to_owned().into()), Ok(vec![Sql::Blob(vec![0, 255])]));
    assert_eq!(value(vec![3_u8].into()), Ok(vec![Sql::Blob(vec![3])]));
    let reason = "column \"c0\": 'xyz' is not a BLOB in hexadecimal digits".to_owned();
    assert_eq!(value("xyz".to_owned().into()), Err(reason));
    let untyped = TypeRule::for_column(&shape("", false), false, ValueKinds::Json);
    assert_eq!(untyped, TypeRule::Affinity(Affinity::Blob));
}

#[test]
fn timestamps_come_as_text() {
    let forms = [TimestampForm::Seconds, TimestampForm::DateTime];
    let rules = straight(&forms.map(TypeRule::Timestamp));
    let text = |text: &str| Cell::from(text.to_owned());
    assert_eq!(
        written(&rules, vec![text("1970-01-02"), text("1970-01-02")]),
        Ok(vec![Sql::Integer(86400), Sql::Text("1970-01-02 00:00:00".to_owned())])
    );
    let reason = written(&rules, vec![86400.into(), Sql::Null.into()]);
    assert!(reason.is_err_and(|reason| reason.contains("86400 is not a date or time")));
}

#[test]
fn the_rowid_is_an_integer_by_affinity() {
    let names = vec!["id".to_owned()];
    let rules = TypedRules::new(names, vec![TypeRule::Rowid], ValueSource::straight(1), Some(0));
    let rowid = |cell: Cell| rules.rowid(&Table(vec![vec![cell]]), 0);
    assert_eq!(rowid(7.into()), Ok(Some(7)));
    assert_eq!(rowid(7.0.into()), Ok(Some(7)));
    assert_eq!(rowid(" 7".to_owned().into()), Ok(Some(7)));
    assert_eq!(rowid(7.5.into()), Err("column \"id\": 7.5 is not an INTEGER".to_owned()));
    assert_eq!(rowid(Sql::Null.into()), Err("column \"id\": the primary key is empty".to_owned()));
    assert_eq!(written(&rules, vec![7.into()]), Ok(vec![Sql::Null]));
}

#[test]
fn open_columns_are_observed() {
    let rules = rules_of(
        &[TypeRule::Empty, TypeRule::Integer, TypeRule::Empty],
        vec![ValueSource::Field(1), ValueSource::Field(0), ValueSource::Constant(OwnedValue::Null)],
    );
    let spelled = Cell { value: Sql::Real(1.5), spelled: Some("1.50".to_owned()) };
    let batch = Table(vec![vec![1.into(), 2.into()], vec![1.into(), spelled]]);
    let mut evidence = vec![TypedEvidence::default(); 3];
    for row in 0..2 {
        rules.observe((0, &batch, row), &mut evidence);
    }
    let witness = Witness { input: 0, line: 2, value: "1.50".to_owned() };
    assert_eq!(evidence[0].verdict(false).decided_by, Some(witness));
    assert_eq!(evidence[1].verdict(false).rule, TypeRule::Empty);
    assert_eq!(evidence[2].verdict(false).rule, TypeRule::Empty);
}
