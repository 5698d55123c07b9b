//! The expected result of a case: which rows are bad and where, which types are left,
//! and the table that stock SQLite makes by INSERTs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use leafpress::load::{ColumnType, Ragged};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use crate::case::Case;
use crate::reference::{Reading, Record};

/// A row that must be refused, and the place that must be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadPlace {
    pub line: u64,
    pub column: u64,
}

/// The outcome that a load must have.
pub struct Expected {
    pub names: Vec<String>,
    pub types: Vec<ColumnType>,
    pub database: Connection,
    /// Bad by what the row itself holds, in order.
    pub bad: Vec<BadPlace>,
    /// Bad as the key was there before, in order.
    pub repeated: Vec<BadPlace>,
    pub rows_read: u64,
    /// The texts of the rows that are not bad by themselves.
    texts: Vec<Vec<Vec<u8>>>,
    /// For each column the values that change their form: how many, and the line and text
    /// of the first.
    pub changed: Vec<Option<(u64, u64, String)>>,
}

impl Expected {
    /// Judges a case; `None` where the call itself makes no sense.
    pub fn of(case: &Case, reading: &Reading) -> Option<Self> {
        let first = reading.records.first();
        let width = first.map(|record| record.fields.len());
        let names = match (&case.csv.columns, first, case.csv.header) {
            (Some(names), None, _) => names.clone(),
            (Some(names), _, _) => {
                let fits = case.csv.ragged != Ragged::Reject || width == Some(names.len());
                fits.then(|| names.clone())?
            }
            (None, Some(header), true) => text_names(header)?,
            (None, Some(_), false) => (1..=width?).map(|n| format!("column{n}")).collect(),
            (None, None, _) => return None,
        };
        let given = case.types.iter().map(|(name, _)| name);
        // SQLite makes no table of more columns.
        if names.len() > 2_000 {
            return None;
        }
        let mut mentioned = given.chain(&case.primary_key).chain(&case.exact_column);
        if !mentioned.all(|name| names.contains(name)) {
            return None;
        }
        let mut outcome = Self {
            types: vec![ColumnType::Text; names.len()],
            database: Connection::open_in_memory().unwrap(),
            names,
            bad: Vec::new(),
            repeated: Vec::new(),
            rows_read: 0,
            texts: Vec::new(),
            changed: Vec::new(),
        };
        let rules = Judge::new(case, &outcome.names);
        let (mut keys_at, mut lines) = (Vec::new(), Vec::new());
        for record in reading.records.iter().skip(usize::from(case.csv.header)) {
            outcome.rows_read += 1;
            if let Some(at) = rules.fault(reading, record) {
                outcome.bad.push(place(reading, at));
                continue;
            }
            keys_at.push(field_start(record, rules.key.unwrap_or_default()));
            outcome.texts.push(rules.texts(record));
            lines.push(reading.place(record.start).0);
        }
        if let Some(field_start) = reading.unfinished {
            outcome.rows_read += 1;
            outcome.bad.push(place(reading, field_start));
        }
        outcome.decide_types(case);
        outcome.note_changed(case, &lines);
        outcome.insert(case, reading, &keys_at);
        Some(outcome)
    }

    fn decide_types(&mut self, case: &Case) {
        for (index, name) in self.names.iter().enumerate() {
            let texts = self.texts.iter().map(|row| &row[index][..]);
            let values: Vec<&[u8]> =
                texts.filter(|text| !text.is_empty() && !case.is_null(text)).collect();
            self.types[index] = if case.primary_key.as_ref() == Some(name) {
                ColumnType::Integer
            } else if let Some(given) = case.given(name) {
                given
            } else if case.all_text {
                ColumnType::Text
            } else {
                type_of(&values, case.is_exact(name))
            };
        }
    }

    /// Finds the values of detected REAL columns that are written otherwise than their
    /// numbers are.
    fn note_changed(&mut self, case: &Case, lines: &[u64]) {
        for (index, name) in self.names.iter().enumerate() {
            let is_detected = case.given(name).is_none() && !case.is_exact(name);
            let mut changed: Option<(u64, u64, String)> = None;
            for (row, line) in self.texts.iter().zip(lines) {
                let text = &row[index];
                let is_number = !text.is_empty() && !case.is_null(text);
                if !is_detected || self.types[index] != ColumnType::Real || !is_number {
                    continue;
                }
                let text = std::str::from_utf8(text).unwrap();
                if !is_usual(text) {
                    changed.get_or_insert((0, *line, text.to_owned())).0 += 1;
                }
            }
            self.changed.push(changed);
        }
    }

    /// Has SQLite store the rows; it finds the keys that are there already.
    fn insert(&mut self, case: &Case, reading: &Reading, keys_at: &[usize]) {
        let columns: Vec<String> = self
            .names
            .iter()
            .zip(&self.types)
            .map(|(name, column_type)| {
                let is_key = case.primary_key.as_ref() == Some(name);
                let key = if is_key { " PRIMARY KEY" } else { "" };
                format!("\"{name}\" {}{key}", type_name(*column_type))
            })
            .collect();
        let strict = if case.strict { " STRICT" } else { "" };
        let create = format!("CREATE TABLE t ({}){strict}; BEGIN", columns.join(","));
        self.database.execute_batch(&create).unwrap();
        let marks = vec!["?"; self.names.len()].join(",");
        let mut insert = self.database.prepare(&format!("INSERT INTO t VALUES ({marks})")).unwrap();
        for (row, key_at) in self.texts.iter().zip(keys_at) {
            let values = row
                .iter()
                .zip(&self.types)
                .map(|(text, column_type)| stored(case, text, *column_type));
            match insert.execute(params_from_iter(values)) {
                Ok(_) => {}
                Err(error) => {
                    let code = error.sqlite_error().map(|error| error.extended_code);
                    assert_eq!(code, Some(rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY), "{error}");
                    self.repeated.push(place(reading, *key_at));
                }
            }
        }
    }

    /// Asserts that the database at `path` holds just this table, in good order.
    pub fn assert_equals(&self, path: &Path) {
        let pressed = Connection::open(path).unwrap();
        let check: String =
            pressed.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        assert_same_rows(&self.database, &pressed, self.names.len());
    }

    /// Asserts that the values of all detected columns can be had back, and by the exact
    /// rule their texts.
    pub fn assert_texts_come_back(&self, case: &Case, path: &Path) {
        if case.primary_key.is_some() {
            // The rows may stand in another order.
            return;
        }
        let pressed = Connection::open(path).unwrap();
        for (index, name) in self.names.iter().enumerate() {
            if case.given(name).is_some() {
                continue;
            }
            let mut texts = self.texts.iter().map(|row| &row[index]);
            let sql = format!("SELECT {} FROM t ORDER BY rowid", quoted(name));
            let mut statement = pressed.prepare(&sql).unwrap();
            let mut rows = statement.query([]).unwrap();
            let mut reals = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                let text = texts.next().unwrap();
                match row.get_ref(0).unwrap() {
                    ValueRef::Null => assert!(text.is_empty() || case.is_null(text)),
                    ValueRef::Integer(integer) => assert_eq!(integer.to_string().as_bytes(), text),
                    ValueRef::Real(real) => reals.push((real, text.clone())),
                    ValueRef::Text(stored) => assert_eq!(stored, text),
                    ValueRef::Blob(_) => panic!("no blob is detected"),
                }
            }
            if !case.is_exact(name) {
                for (real, text) in reals {
                    let text = std::str::from_utf8(&text).unwrap();
                    assert_eq!(decimal(&format!("{real:e}")), decimal(text), "{name}: {text}");
                }
                continue;
            }
            let decimals = |text: &[u8]| {
                text.iter().position(|&byte| byte == b'.').map_or(0, |at| text.len() - at - 1)
            };
            let first_decimals = reals.first().map_or(0, |(_, text)| decimals(text));
            let forms: [&dyn Fn(f64) -> String; 3] =
                [&|real| format!("{real}"), &|real| format!("{real:?}"), &|real| {
                    format!("{real:.first_decimals$}")
                }];
            let fits = |form: &dyn Fn(f64) -> String| {
                reals.iter().all(|(real, text)| form(*real).as_bytes() == text)
            };
            assert!(forms.iter().any(|form| fits(form)), "{name}: {reals:?}");
        }
    }
}

/// Asserts that two tables `t` hold the same rowids, types and values; reals up
/// to one unit in the last place.
pub fn assert_same_rows(expected: &Connection, found: &Connection, columns: usize) {
    let count = |connection: &Connection| -> i64 {
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(found), count(expected));
    let sql = "SELECT rowid, * FROM t ORDER BY rowid";
    let mut statements = [expected.prepare(sql).unwrap(), found.prepare(sql).unwrap()];
    let [one, other] = &mut statements;
    let (mut one, mut other) = (one.query([]).unwrap(), other.query([]).unwrap());
    let mut number = 0;
    while let (Some(one), Some(other)) = (one.next().unwrap(), other.next().unwrap()) {
        for column in 0..=columns {
            let (one, other) = (one.get_ref(column).unwrap(), other.get_ref(column).unwrap());
            let is_same = match (one, other) {
                // SQLite reads some texts of twenty digits and more as a neighbour of the
                // nearest double; ours is the nearest.
                (ValueRef::Real(one), ValueRef::Real(other)) => {
                    one.to_bits().abs_diff(other.to_bits()) <= 1
                }
                (one, other) => one == other,
            };
            assert!(is_same, "row {number}, column {column}: {one:?} expected, {other:?} found");
        }
        number += 1;
    }
}

pub fn type_name(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Integer => "INTEGER",
        ColumnType::Real => "REAL",
        ColumnType::Text => "TEXT",
        ColumnType::Blob => "BLOB",
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn place(reading: &Reading, offset: usize) -> BadPlace {
    let (line, column) = reading.place(offset);
    BadPlace { line, column }
}

fn text_names(header: &Record) -> Option<Vec<String>> {
    let names = header.fields.iter().map(|field| String::from_utf8(field.value.clone()));
    names.collect::<Result<_, _>>().ok()
}

/// What is bound for a text, by the documented rules of empty fields and NULL.
fn stored(case: &Case, text: &[u8], column_type: ColumnType) -> Value {
    let keeps_empty = column_type == ColumnType::Text && !case.empty_null;
    if case.is_null(text) || (text.is_empty() && !keeps_empty) {
        return Value::Null;
    }
    match column_type {
        ColumnType::Blob => Value::Blob(from_hex(text).expect("other rows are bad")),
        _ => Value::Text(String::from_utf8(text.to_vec()).unwrap()),
    }
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix("0x").or(text.strip_prefix("\\x")).unwrap_or(text);
    let pairs = (0..digits.len()).step_by(2).map(|at| {
        let pair = digits.get(at..at + 2).filter(|pair| !pair.contains('+'));
        pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    pairs.collect()
}

/// INTEGER, REAL or TEXT, by the rules in the words of the documentation.
fn type_of(values: &[&[u8]], exact: bool) -> ColumnType {
    let texts: Option<Vec<&str>> = values.iter().map(|v| std::str::from_utf8(v).ok()).collect();
    let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return ColumnType::Text };
    let is_integer =
        |text: &&str| text.parse::<i64>().is_ok_and(|value| value.to_string() == **text);
    if texts.iter().all(is_integer) {
        return ColumnType::Integer;
    }
    if !exact {
        return by_value(&texts);
    }
    let shortest = |text: &&str| is_shortest(text);
    let with_point = |text: &&str| {
        text.contains('.')
            && (is_shortest(text) || text.strip_suffix(".0").is_some_and(is_shortest))
    };
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let fixed = |text: &&str| {
        decimals(text) > 0
            && decimals(text) == decimals(texts[0])
            && is_shortest(text.trim_end_matches('0').trim_end_matches('.'))
    };
    if texts.iter().all(shortest) || texts.iter().all(with_point) || texts.iter().all(fixed) {
        ColumnType::Real
    } else {
        ColumnType::Text
    }
}

/// REAL or TEXT, by the values.
fn by_value(texts: &[&str]) -> ColumnType {
    if !texts.iter().all(|text| is_number(text)) {
        return ColumnType::Text;
    }
    let value = |text: &&str| text.parse::<f64>().unwrap() + 0.0;
    if texts.iter().any(|text| value(text).fract() != 0.0) {
        return ColumnType::Real;
    }
    // Only whole numbers: none may stand both as a plain integer and otherwise.
    let (plain, otherwise): (Vec<&str>, Vec<&str>) =
        texts.iter().partition(|text| text.parse::<i64>().is_ok());
    let bits = |texts: &[&str]| texts.iter().map(|text| value(text).to_bits()).collect();
    let (plain, otherwise): (BTreeSet<u64>, BTreeSet<u64>) = (bits(&plain), bits(&otherwise));
    if plain.is_disjoint(&otherwise) { ColumnType::Real } else { ColumnType::Text }
}

/// Returns true if a text is a decimal number whose value a double keeps, and no code.
fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_digit = whole.len() + fraction.map_or(0, str::len) > 0;
    let has_leading_zero = whole.len() > 1 && whole.starts_with('0');
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        is_digits(digits) && matches!(digits.len(), 1..=3)
    });
    let looks_right = is_digits(whole)
        && fraction.is_none_or(is_digits)
        && has_digit
        && !has_leading_zero
        && exponent_fits;
    let is_plain = fraction.is_none() && exponent.is_none();
    if !looks_right || (is_plain && (text == "-0" || text.parse::<i64>().is_err())) {
        return false;
    }
    let value: f64 = text.parse().unwrap();
    value.is_finite() && decimal(&format!("{value:e}")) == decimal(text)
}

/// Returns true if a number is written in as few digits as it needs, a whole one with `.0`
/// or without; with an exponent only where SQLite writes one, and as it does.
fn is_usual(text: &str) -> bool {
    let value = text.parse::<f64>().unwrap() + 0.0;
    if !text.contains(['e', 'E']) {
        return text == value.to_string() || text == format!("{value}.0");
    }
    if (1e-4..1e17).contains(&value.abs()) || value == 0.0 {
        return false;
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or_default();
    let shortest = format!("{value:e}");
    let (digits, power) = shortest.split_once('e').unwrap();
    let power: i32 = power.parse().unwrap();
    let digits = if digits.contains('.') { digits.to_owned() } else { format!("{digits}.0") };
    mantissa == digits && exponent == format!("{power:+03}")
}

/// A number as its sign, its digits without zeros at either end, and the power of ten of
/// the last of them. Zero has no sign.
fn decimal(text: &str) -> (bool, String, i32) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = mantissa.trim_start_matches('-').replace('.', "");
    let decimals = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let kept = digits.trim_end_matches('0');
    let power = exponent.parse::<i32>().unwrap() - decimals as i32;
    let power = power + (digits.len() - kept.len()) as i32;
    match kept.trim_start_matches('0') {
        "" => (false, String::new(), 0),
        kept => (text.starts_with('-'), kept.to_owned(), power),
    }
}

/// Whether the text is how its double prints without an exponent.
fn is_shortest(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(|value| {
        let mut printed = String::new();
        write!(printed, "{value}").unwrap();
        value.is_finite() && printed == text && printed != "-0"
    })
}

/// Finds what is bad about a row by itself; SQLite says what fits a given type.
struct Judge<'c> {
    case: &'c Case,
    names: &'c [String],
    key: Option<usize>,
    types: Connection,
}

impl<'c> Judge<'c> {
    fn new(case: &'c Case, names: &'c [String]) -> Self {
        let types = Connection::open_in_memory().unwrap();
        types.execute_batch("CREATE TABLE i (v INTEGER); CREATE TABLE r (v REAL); BEGIN").unwrap();
        let key = case.primary_key.as_ref().and_then(|key| names.iter().position(|n| n == key));
        Self { case, names, key, types }
    }

    /// Values by column: surplus fields dropped, missing ones empty.
    fn texts(&self, record: &Record) -> Vec<Vec<u8>> {
        let value = |index: usize| record.fields.get(index).map(|field| field.value.clone());
        (0..self.names.len()).map(|index| value(index).unwrap_or_default()).collect()
    }

    /// Where the first fault of a row stands.
    fn fault(&self, reading: &Reading, record: &Record) -> Option<usize> {
        let raw = &reading.bytes[record.start..record.end];
        if let Err(error) = std::str::from_utf8(raw) {
            return Some(record.start + error.valid_up_to());
        }
        let (found, wanted) = (record.fields.len(), self.names.len());
        let fits = match self.case.csv.ragged {
            Ragged::Reject => found == wanted,
            Ragged::Pad => found <= wanted,
            Ragged::Truncate => found >= wanted,
            other => unreachable!("{other:?}"),
        };
        if !fits {
            return Some(record.start);
        }
        let texts = self.texts(record);
        if let Some(key) = self.key
            && !self.is_stored_as(&texts[key], ColumnType::Integer, false)
        {
            return Some(field_start(record, key));
        }
        let misfit = self.names.iter().zip(&texts).position(|(name, text)| {
            let given = self.case.given(name);
            given.is_some_and(|given| !self.is_stored_as(text, given, true))
        });
        misfit.map(|index| field_start(record, index))
    }

    fn is_stored_as(&self, text: &[u8], column_type: ColumnType, or_null: bool) -> bool {
        if text.is_empty() || self.case.is_null(text) {
            return or_null;
        }
        let (table, class) = match column_type {
            ColumnType::Text => return true,
            ColumnType::Blob => return from_hex(text).is_some(),
            ColumnType::Integer => ("i", "integer"),
            ColumnType::Real => ("r", "real"),
        };
        let text = std::str::from_utf8(text).unwrap();
        let insert = format!("INSERT INTO {table} VALUES (?)");
        self.types.prepare_cached(&insert).unwrap().execute([text]).unwrap();
        let ask = format!("SELECT typeof(v) FROM {table} WHERE rowid = last_insert_rowid()");
        let stored: String =
            self.types.prepare_cached(&ask).unwrap().query_row([], |row| row.get(0)).unwrap();
        stored == class
    }
}

fn field_start(record: &Record, index: usize) -> usize {
    record.fields.get(index).map_or(record.start, |field| field.start)
}
