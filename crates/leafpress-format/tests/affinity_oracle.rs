//! Affinity against stock SQLite: what is inserted there and read back must be
//! what [`Affinity::apply`] says, in storage class and value, doubles bit by bit.
//!
//! Checked here:
//! 1. hostile numeric-looking text, in columns of all five affinities;
//! 2. doubles and integers of all sizes, in the same columns;
//! 3. the affinity of declared types, plain and nested in one another;
//! 4. the boundary beyond which SQLite reads text to another double than we do
//!    (see the documentation of `number`): how far apart, and known examples.

mod common;

use common::check_many;
use leafpress_format::{Affinity, NumberText, Value};
use proptest::prelude::*;
use proptest::sample::select;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection};

const AFFINITIES: [Affinity; 5] =
    [Affinity::Blob, Affinity::Text, Affinity::Numeric, Affinity::Integer, Affinity::Real];

/// Stock SQLite with one table that has a column of each affinity.
struct Oracle(Connection);

impl Oracle {
    fn new() -> Self {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE t(b BLOB, x TEXT, n NUMERIC, i INTEGER, r REAL)")
            .unwrap();
        Self(connection)
    }

    fn prepared(&self, sql: &str) -> CachedStatement<'_> {
        self.0.prepare_cached(sql).unwrap()
    }

    /// Inserts `value` into all columns and hands over what they hold then.
    fn stored<T>(&self, value: Value<'_>, use_row: impl FnOnce([Value<'_>; 5]) -> T) -> T {
        let mut insert = self.prepared("REPLACE INTO t(rowid,b,x,n,i,r) VALUES(1,?1,?1,?1,?1,?1)");
        insert.execute([parameter(value)]).unwrap();
        let mut select = self.prepared("SELECT b, x, n, i, r FROM t");
        let mut rows = select.query([]).unwrap();
        let row = rows.next().unwrap().unwrap();
        use_row([0, 1, 2, 3, 4].map(|column| from_sqlite(row.get_ref_unwrap(column))))
    }

    /// Panics unless SQLite stores `value` as `apply` says, in all columns.
    fn agrees(&self, value: Value<'_>) {
        self.stored(value, |stored| {
            for (affinity, expected) in AFFINITIES.into_iter().zip(stored) {
                let mut scratch = NumberText::new();
                let applied = affinity.apply(value, &mut scratch);
                assert!(
                    is_same(applied, expected),
                    "{affinity:?} of {value:?} ({}): {applied:?}, but SQLite has {expected:?}",
                    value_text(value),
                );
            }
        });
    }
}

fn parameter(value: Value<'_>) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match value {
        Value::Null => ValueRef::Null,
        Value::Integer(integer) => ValueRef::Integer(integer),
        Value::Real(real) => ValueRef::Real(real),
        Value::Text(text) => ValueRef::Text(text),
        Value::Blob(blob) => ValueRef::Blob(blob),
    })
}

fn from_sqlite(value: ValueRef<'_>) -> Value<'_> {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => Value::Integer(integer),
        ValueRef::Real(real) => Value::Real(real),
        ValueRef::Text(text) => Value::Text(text),
        ValueRef::Blob(blob) => Value::Blob(blob),
    }
}

/// Equality in storage class and value; 0.0 and -0.0 are not the same.
fn is_same(left: Value<'_>, right: Value<'_>) -> bool {
    match (left, right) {
        (Value::Real(left), Value::Real(right)) => left.to_bits() == right.to_bits(),
        _ => left == right,
    }
}

fn value_text(value: Value<'_>) -> String {
    match value {
        Value::Text(text) | Value::Blob(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}

// 1. Hostile text.

/// A numeral in its parts, so that a test can count its digits.
#[derive(Debug, Clone)]
struct Numeral {
    before: String,
    sign: &'static str,
    whole: String,
    fraction: Option<String>,
    exponent: Option<(&'static str, u32)>,
    after: String,
}

impl Numeral {
    fn text(&self) -> String {
        let Self { before, sign, whole, fraction, exponent, after } = self;
        let fraction = fraction.as_ref().map_or(String::new(), |digits| format!(".{digits}"));
        let exponent = exponent.map_or(String::new(), |(mark, power)| format!("{mark}{power}"));
        format!("{before}{sign}{whole}{fraction}{exponent}{after}")
    }

    /// Digits between the first and the last that is not zero.
    fn significant_digits(&self) -> usize {
        // What comes after may be a fraction, too.
        let after = self.after.strip_prefix('.').unwrap_or_default();
        let fraction = self.fraction.as_deref().unwrap_or(after);
        let digits = format!("{}{fraction}", self.whole);
        digits.trim_matches('0').len()
    }
}

fn digits() -> impl Strategy<Value = String> {
    let edges = [
        "0",
        "1",
        "2251799813685247",
        "2251799813685248",
        "2251799813685249",
        "9007199254740991",
        "9007199254740993",
        "140737488355327",
        "140737488355328",
        "999999999999999999",
        "1844674407370955159",
        "9223372036854774784",
        "9223372036854775807",
        "9223372036854775808",
        "9223372036854775809",
    ];
    prop_oneof![
        4 => "[0-9]{0,6}",
        2 => "[0-9]{7,19}",
        1 => "0{1,30}[0-9]{0,4}",
        1 => "[0-9]{1,4}0{1,30}",
        2 => select(edges.to_vec()).prop_map(str::to_owned),
    ]
}

fn spaces() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(String::new()), 1 => "[ \t\n\u{b}\u{c}\r]{1,3}"]
}

fn numeral(digits: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = Numeral> {
    let marks = ["e", "E", "e+", "E-", "e-"];
    let garbage = [
        "\0", "\0 1", " \0x", "x", "e", "e+", "E-", ".", ".5", "-", "0x1", "_0", ",0", "\u{a0}",
        "\u{2003}", "\u{feff}", "%", " 1", "\u{85}", "\u{7f}", "\u{1c}",
    ];
    let power = prop_oneof![6 => 0..24_u32, 3 => 0..330_u32, 1 => 0..20_000_u32];
    let after = prop_oneof![
        6 => spaces(),
        1 => (spaces(), select(garbage.to_vec())).prop_map(|(spaces, tail)| spaces + tail),
    ];
    let before = prop_oneof![
        12 => spaces(),
        1 => select(["+", "-", "\u{a0}", "\0", ".", "x", "0x", "\u{1f}"].to_vec())
            .prop_map(str::to_owned),
    ];
    let sign = select(["", "", "", "-", "+"].to_vec());
    let fraction = prop::option::of(digits.clone());
    let exponent = prop::option::of((select(marks.to_vec()), power));
    (before, sign, digits, fraction, exponent, after).prop_map(
        |(before, sign, whole, fraction, exponent, after)| Numeral {
            before,
            sign,
            whole,
            fraction,
            exponent,
            after,
        },
    )
}

#[test]
fn numerals_of_up_to_nineteen_digits_are_stored_as_sqlite_stores_them() {
    let oracle = Oracle::new();
    let short = |numeral: &Numeral| numeral.significant_digits() <= 19;
    let digits = digits().boxed();
    check_many(20_000, numeral(digits).prop_filter("at most 19 digits", short), |numeral| {
        oracle.agrees(Value::Text(numeral.text().as_bytes()));
    });
}

#[test]
fn any_other_text_is_stored_as_sqlite_stores_it() {
    let oracle = Oracle::new();
    let soup = prop_oneof!["[-+0-9.eE \0x]{0,8}", "\\PC{0,6}", "[0-9]{1,3}\\PC"];
    check_many(10_000, soup, |text| oracle.agrees(Value::Text(text.as_bytes())));
    check_many(2_000, prop::collection::vec(any::<u8>(), 0..6), |bytes| {
        oracle.agrees(Value::Text(&bytes));
        oracle.agrees(Value::Blob(&bytes));
    });
}

#[test]
fn corner_cases_are_stored_as_sqlite_stores_them() {
    let oracle = Oracle::new();
    let zeros = "0".repeat(4000);
    let long = [format!("0.{zeros}1e4001"), format!("1{zeros}e-4000"), format!("{zeros}12")];
    for text in [
        "",
        " ",
        " 12 ",
        "5.",
        ".5",
        "1e3",
        "1e400",
        "-1e400",
        "1e-400",
        "-1e-400",
        "0x10",
        "+1",
        "007",
        "1.0",
        "-0",
        "-0.0",
        "-0e5",
        "9007199254740993.0",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "-9223372036854775808.0",
        "9223372036854775807.0",
        "9223372036854774784.0",
        "-9223372036854774784.0",
        "9007199254740993\0",
        "2251799813685247\0",
        "2251799813685248\0",
        "-2251799813685248\0",
        "-2251799813685249\0",
        "9223372036854775807\0x",
        "\u{a0}1",
        "1\u{a0}",
        "1e99999",
        "1e-99999",
        "1e999999999999",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.7976931348623158e308",
        "1.7976931348623159e308",
        "2.2250738585072011e-308",
        "9007199254740992.5",
        "0.1",
        "1e23",
        "8.5e22",
    ]
    .into_iter()
    .chain(long.iter().map(String::as_str))
    {
        oracle.agrees(Value::Text(text.as_bytes()));
    }
    oracle.agrees(Value::Null);
}

// 2. Numbers.

fn reals() -> impl Strategy<Value = f64> {
    let near = |real: f64, steps: i64| f64::from_bits(real.to_bits().wrapping_add_signed(steps));
    let powers = (-330..310_i32, -3..=3_i64)
        .prop_map(move |(power, steps)| near(format!("1e{power}").parse().unwrap(), steps));
    let powers_of_two = (-1074..1024_i32, -3..=3_i64)
        .prop_map(move |(power, steps)| near(2_f64.powi(power), steps));
    let decimals = (any::<i64>(), 0..19_u32, 0..25_i32, -2..=2_i64).prop_map(
        move |(integer, dropped, places, steps)| {
            let text = format!("{}e-{places}", integer / 10_i64.pow(dropped));
            near(text.parse().unwrap(), steps)
        },
    );
    // SQLite looks for a run of zeros elsewhere in large round numbers.
    let round =
        (1..1_000_000_u32, 0..303_u32, -1..=1_i64).prop_map(move |(integer, zeros, steps)| {
            near(format!("{integer}e{zeros}").parse().unwrap(), steps)
        });
    prop_oneof![
        3 => any::<u64>().prop_map(f64::from_bits),
        2 => round,
        2 => powers,
        1 => powers_of_two,
        4 => decimals,
        1 => any::<i64>().prop_map(|integer| integer as f64),
    ]
}

#[test]
fn reals_are_stored_as_sqlite_stores_them() {
    let oracle = Oracle::new();
    check_many(25_000, reals(), |real| oracle.agrees(Value::Real(real)));
    for real in [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN] {
        oracle.agrees(Value::Real(real));
    }
}

/// Where SQLite's own reading of 13 digits is off, so that it prints all 17.
#[test]
fn reals_that_sqlite_reads_wrongly_are_written_as_it_writes_them() {
    let oracle = Oracle::new();
    for text in KNOWN_DIFFERENCES {
        let real: f64 = text.parse().unwrap();
        for steps in -2..=2 {
            let near = f64::from_bits(real.to_bits().wrapping_add_signed(steps));
            oracle.agrees(Value::Real(near));
            oracle.agrees(Value::Real(-near));
        }
    }
}

#[test]
fn integers_are_stored_as_sqlite_stores_them() {
    let oracle = Oracle::new();
    let integers = (any::<i64>(), 0..64_u32).prop_map(|(integer, shift)| integer >> shift);
    check_many(5_000, integers, |integer| oracle.agrees(Value::Integer(integer)));
    for integer in [0, 1, -1, i64::MIN, i64::MAX, 1 << 47, 1 << 53, (1 << 53) + 1] {
        oracle.agrees(Value::Integer(integer));
    }
}

// 3. Declared types.

/// The affinity that SQLite sees in a type: casts of these two numbers end up
/// in different storage classes under every affinity.
fn affinity_in_sqlite(oracle: &Oracle, declared_type: &str) -> Affinity {
    let quoted = declared_type.replace('"', "\"\"");
    let sql = format!(
        r#"SELECT typeof(CAST(1.5 AS "{quoted}")) || ' ' || typeof(CAST(1 AS "{quoted}"))"#
    );
    let classes: String = oracle.0.query_row(&sql, [], |row| row.get(0)).unwrap();
    match classes.as_str() {
        "blob blob" => Affinity::Blob,
        "text text" => Affinity::Text,
        "real integer" => Affinity::Numeric,
        "integer integer" => Affinity::Integer,
        "real real" => Affinity::Real,
        other => panic!("{declared_type:?} casts to {other}"),
    }
}

#[test]
fn declared_types_have_the_affinity_that_sqlite_sees() {
    let oracle = Oracle::new();
    let parts = [
        "INT", "int", "iNt", "IN", "CHAR", "char", "CHA", "CLOB", "Clob", "TEXT", "text", "BLOB",
        "blob", "REAL", "real", "FLOA", "float", "DOUB", "Double", "STRING", "DATE", "BOOL", "(",
        "20", ")", " ", ",", "x", "é", "İNT", "ı", "\"", "_",
    ];
    let types = prop::collection::vec(select(parts.to_vec()), 1..6);
    check_many(5_000, types, |parts| {
        let declared_type = parts.concat();
        let expected = affinity_in_sqlite(&oracle, &declared_type);
        assert_eq!(Affinity::of_declared_type(&declared_type), expected, "{declared_type:?}");
    });
}

/// The same through CREATE TABLE and INSERT, with the type as SQLite shows it.
#[test]
fn columns_of_a_declared_type_store_what_its_affinity_says() {
    for declaration in [
        "",
        "INT",
        "BIGINT UNSIGNED",
        "VARCHAR(20)",
        "NATIVE CHARACTER (70)",
        "CLOB",
        "TEXT",
        "BLOB",
        "LONG VARBINARY",
        "REAL",
        "DOUBLE PRECISION",
        "FLOAT",
        "FLOATING POINT",
        "NUMERIC",
        "DECIMAL(10, 5)",
        "BOOLEAN",
        "DATE",
        "DATETIME",
        "STRING",
        "ANY",
        "any",
        "CHARINT",
        "BLOBTEXT",
        "REALBLOB",
        "\"a text\"",
        "[x int y]",
        "'quoted'",
    ] {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&format!("CREATE TABLE t(a {declaration})")).unwrap();
        let sql = "SELECT type FROM pragma_table_info('t')";
        let shown: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        let affinity = Affinity::of_declared_type(&shown);
        for value in [
            Value::from("1e3"),
            Value::from("1.5"),
            Value::from("x"),
            Value::from(7_i64),
            Value::from(8.0),
            Value::from(0.5),
            Value::Blob(b"1"),
        ] {
            connection.execute("DELETE FROM t", []).unwrap();
            connection.execute("INSERT INTO t VALUES(?1)", [parameter(value)]).unwrap();
            let mut select = connection.prepare_cached("SELECT a FROM t").unwrap();
            let mut rows = select.query([]).unwrap();
            let stored = from_sqlite(rows.next().unwrap().unwrap().get_ref_unwrap(0));
            let mut scratch = NumberText::new();
            let applied = affinity.apply(value, &mut scratch);
            assert!(is_same(applied, stored), "{declaration:?}: {applied:?}, SQLite {stored:?}");
        }
    }
}

/// The one declaration that its shown type does not tell; documented there.
#[test]
fn a_quoted_empty_type_is_numeric_but_shown_as_empty() {
    let oracle = Oracle::new();
    let sql = r#"CREATE TABLE e(a ""); INSERT INTO e VALUES('1')"#;
    oracle.0.execute_batch(sql).unwrap();
    let sql = "SELECT typeof(a), (SELECT type FROM pragma_table_info('e')) FROM e";
    let found = oracle.0.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(found, ("integer".to_owned(), String::new()));
}

// 4. The boundary.

/// Numerals of up to 15 digits that SQLite 3.54.1 does not read to the nearest
/// double.
const KNOWN_DIFFERENCES: [&str; 8] = [
    "0.00000001368458500557",
    "7368108517543e-19",
    "38682931581e278",
    "53587107423e-61",
    "53827010643e-200",
    "71803914657e293",
    "785651970453e52",
    "1346056669381e45",
];

fn real_in_sqlite(oracle: &Oracle, text: &str) -> f64 {
    oracle.stored(Value::from(text), |stored| match stored[4] {
        Value::Real(real) => real,
        other => panic!("{text} became {other:?}"),
    })
}

fn real_in_leafpress(text: &str) -> f64 {
    match Affinity::Real.apply(Value::from(text), &mut NumberText::new()) {
        Value::Real(real) => real,
        other => panic!("{text} became {other:?}"),
    }
}

/// How many doubles the two are apart. Both have the same sign.
fn steps_between(left: f64, right: f64) -> u64 {
    left.abs().to_bits().abs_diff(right.abs().to_bits())
}

#[test]
fn known_differences_are_one_step_and_only_ours_prints_back() {
    let oracle = Oracle::new();
    for text in KNOWN_DIFFERENCES {
        let (ours, theirs) = (real_in_leafpress(text), real_in_sqlite(&oracle, text));
        assert_eq!(steps_between(ours, theirs), 1, "{text}: {ours:e}, SQLite {theirs:e}");
        // Up to 15 digits survive a double, if it is the nearest.
        let digits = text.trim_start_matches(['0', '.']);
        let digits = digits.split('e').next().unwrap();
        let shown = |real: f64| format!("{real:e}").replace('.', "");
        assert!(shown(ours).starts_with(&format!("{digits}e")), "{text}: {ours:e}");
        assert!(!shown(theirs).starts_with(&format!("{digits}e")), "{text}: {theirs:e}");
    }
}

/// Digits beyond the nineteenth decide here, even on the storage class.
#[test]
fn the_twentieth_digit_counts_for_us_only() {
    let oracle = Oracle::new();
    let text = Value::from("3500000000000000.2500001");
    let mut scratch = NumberText::new();
    let ours = Affinity::Numeric.apply(text, &mut scratch);
    assert!(is_same(ours, Value::Real(3_500_000_000_000_000.5)), "{ours:?}");
    oracle.stored(text, |stored| {
        assert!(is_same(stored[2], Value::Integer(3_500_000_000_000_000)), "{:?}", stored[2]);
    });
}

#[test]
fn text_of_many_digits_is_at_most_one_step_from_what_sqlite_reads() {
    let oracle = Oracle::new();
    let fraction = prop::option::of("[0-9]{0,30}");
    let numerals = ("-?[1-9][0-9]{10,40}", fraction, prop::option::of(-320..280_i32));
    check_many(5_000, numerals, |(whole, fraction, exponent)| {
        let fraction = fraction.map_or(String::new(), |digits| format!(".{digits}"));
        let exponent = exponent.map_or(String::new(), |power| format!("e{power}"));
        let text = format!("{whole}{fraction}{exponent}");
        let (ours, theirs) = (real_in_leafpress(&text), real_in_sqlite(&oracle, &text));
        assert!(steps_between(ours, theirs) <= 1, "{text}: {ours:e}, SQLite {theirs:e}");
    });
}

/// Inside the boundary, where it is hardest: numerals of 19 digits next to the
/// middle between two doubles.
#[test]
fn hard_cases_inside_the_boundary_are_read_as_sqlite_reads_them() {
    let oracle = Oracle::new();
    let cases = (1_u128 << 53..1 << 54, -15..=12_i32, 1..=10_u128.pow(19), -1..=1_i64);
    check_many(20_000, cases, |(halves, place, below, off)| {
        let middle = halves | 1;
        let power = 10_u128.pow(place.unsigned_abs());
        let mut mantissa = if place < 0 { middle * power } else { (middle << 70) / power };
        while mantissa > below.max(10_u128.pow(16)) {
            mantissa >>= 1;
        }
        let mantissa = (mantissa as u64).wrapping_add_signed(off);
        oracle.agrees(Value::from(format!("{mantissa}e{place}").as_str()));
    });
}
