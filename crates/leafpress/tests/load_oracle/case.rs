//! Random inputs with random options.
//!
//! A field is written in a random way, at times one that reads as something
//! else: the reference reads the bytes too, so an input need not make sense.

use leafpress::load::{ColumnType, CsvOptions, Loader, OnError, Ragged};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::reference::WRITTEN_NULL;

/// An input and what is asked of its load.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the loader has")]
pub struct Case {
    pub input: Input,
    pub csv: CsvOptions,
    pub types: Vec<(String, ColumnType)>,
    pub all_text: bool,
    pub exact: bool,
    pub exact_column: Option<String>,
    pub strict: bool,
    pub primary_key: Option<String>,
    pub null_markers: Vec<&'static str>,
    pub empty_null: bool,
    pub page_bytes: u32,
    pub skip: bool,
}

/// Bytes that show as text where a case fails.
#[derive(Clone)]
pub struct Input(pub Vec<u8>);

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = &self.0[..self.0.len().min(4000)];
        write!(f, "{} bytes: {}", self.0.len(), shown.escape_ascii())
    }
}

impl Case {
    /// The loader that was asked for, into `database`.
    pub fn loader(&self, database: &std::path::Path) -> Loader {
        let on_error = if self.skip {
            OnError::Skip { rejects: None, max_rejects: None }
        } else {
            OnError::Stop
        };
        let mut loader = Loader::new(database)
            .table("t")
            .page_size(self.page_bytes)
            .strict(self.strict)
            .all_text(self.all_text)
            .exact(self.exact)
            .empty_null(self.empty_null)
            .csv(self.csv.clone())
            .on_error(on_error);
        for (name, column_type) in &self.types {
            loader = loader.column_type(name, *column_type);
        }
        if let Some(name) = &self.exact_column {
            loader = loader.exact_column(name);
        }
        for marker in &self.null_markers {
            loader = loader.null_marker(marker);
        }
        if let Some(name) = &self.primary_key {
            loader = loader.primary_key(name).column_type(name, ColumnType::Integer);
        }
        loader
    }

    /// The type that the caller gave a column.
    pub fn given(&self, name: &str) -> Option<ColumnType> {
        self.types.iter().rev().find(|(given, _)| given == name).map(|(_, given)| *given)
    }

    /// Returns true if the reals of a column must give their texts back.
    pub fn is_exact(&self, name: &str) -> bool {
        self.exact || self.exact_column.as_deref() == Some(name)
    }

    /// Tells whether a value is NULL. A marker with an escape in it counts where it is so written only.
    pub fn is_null(&self, value: &[u8]) -> bool {
        let is_of_value =
            |marker: &&&str| !self.csv.escape.is_some_and(|byte| marker.as_bytes().contains(&byte));
        let mut of_values = self.null_markers.iter().filter(is_of_value);
        value == WRITTEN_NULL || of_values.any(|marker| marker.as_bytes() == value)
    }
}

/// What the values of a column look like.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Integer,
    ShortReal,
    Money,
    /// Numbers in many forms.
    Decimal,
    /// Whole numbers, in many forms.
    Whole,
    Text,
    Nothing,
    Anything,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Integer),
        Just(Kind::ShortReal),
        Just(Kind::Money),
        Just(Kind::Decimal),
        Just(Kind::Whole),
        Just(Kind::Text),
        Just(Kind::Nothing),
        Just(Kind::Anything),
    ]
}

const ODD_NUMBERS: [&str; 31] = [
    "00501",
    "+1",
    "-0",
    "1e3",
    " 7",
    "7 ",
    "0x10",
    "7.0",
    "-0.0",
    ".5",
    "5.",
    "1.10",
    "-.5",
    "1e-05",
    "1E+05",
    "2.50e-3",
    "1e400",
    "1e-400",
    "1e0005",
    "0e0",
    "100000000000000000000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "9007199254740993",
    "10.357019999999999",
    "10.357019999999998",
    "12345678901234567890123",
    "1_000",
    "nan",
    "inf",
];

fn value(kind: Kind) -> BoxedStrategy<String> {
    let empty_or_null = prop_oneof![Just(""), Just("NA"), Just("\\N"), Just("na")];
    let odd = prop::sample::select(&ODD_NUMBERS[..]).prop_map(str::to_owned);
    let text = "[a-z0-9 ,;\t\"'\\\\\n\r\u{e9}\u{20ac}\u{1f600}\\x00]{0,12}";
    let usual = match kind {
        Kind::Integer => "-?[1-9][0-9]{0,17}|[0-9]".boxed(),
        Kind::ShortReal => "-?[1-9][0-9]{0,6}(\\.[0-9]{0,6}[1-9])?".boxed(),
        Kind::Money => "-?[1-9][0-9]{0,6}\\.[0-9]{2}".boxed(),
        Kind::Decimal => {
            "-?([1-9][0-9]{0,6})?\\.[0-9]{1,4}|-?[1-9][0-9]{0,3}(\\.[0-9]{0,3})?([eE][-+]?[0-9]{1,2})?"
                .boxed()
        }
        Kind::Whole => "[1-9][0-9]{0,2}(\\.0{0,2}|e0?[0-2])?|[1-9][0-9]{0,2}".boxed(),
        Kind::Text => text.boxed(),
        Kind::Nothing => Just(String::new()).boxed(),
        Kind::Anything => prop_oneof![odd.clone(), "[-+0-9.e]{0,25}", text].boxed(),
    };
    prop_oneof![
        300 => usual,
        20 => empty_or_null.prop_map(str::to_owned),
        1 => odd,
        1 => "[a-f0-9]{0,8}",
    ]
    .boxed()
}

/// How a value is written: plainly whatever is in it, or in quotes, or by escapes.
fn write_value(value: &str, style: u8, options: &CsvOptions, out: &mut Vec<u8>) {
    let delimiter = options.delimiter.unwrap_or(b',');
    let special = |byte: u8| {
        byte == delimiter
            || matches!(byte, b'\n' | b'\r')
            || Some(byte) == options.quote
            || Some(byte) == options.escape
    };
    match (style, options.quote, options.escape) {
        (0, ..) => out.extend_from_slice(value.as_bytes()),
        (1..=4, _, Some(escape)) => {
            for byte in value.bytes() {
                if special(byte) {
                    out.push(escape);
                }
                out.push(byte);
            }
        }
        (_, Some(quote), escape) if style.is_multiple_of(2) || value.bytes().any(special) => {
            out.push(quote);
            for byte in value.bytes() {
                if byte == quote || Some(byte) == escape {
                    out.push(escape.unwrap_or(quote));
                }
                out.push(byte);
            }
            out.push(quote);
        }
        // What cannot be written is left out.
        _ => out.extend(value.bytes().filter(|&byte| !special(byte))),
    }
}

/// Rows as values and the numbers that say how each is written.
#[derive(Debug, Clone)]
struct Rows {
    values: Vec<Vec<(String, u8)>>,
    /// Now and then a number that makes a row bad, or a line blank.
    oddities: Vec<u8>,
    crlf: bool,
    mark: bool,
    final_newline: bool,
}

/// Each text of a row is repeated until the row has about this many bytes.
fn write_rows(rows: &Rows, row_bytes: usize, options: &CsvOptions, out: &mut Vec<u8>) {
    let line_end: &[u8] = if rows.crlf { b"\r\n" } else { b"\n" };
    let delimiter = options.delimiter.unwrap_or(b',');
    for (row, oddity) in rows.values.iter().zip(rows.oddities.iter().cycle()) {
        let mut fields = row.clone();
        match oddity {
            1 => drop(fields.pop()),
            2 => fields.push(("surplus".to_owned(), 0)),
            3 => out.extend_from_slice(line_end),
            _ => {}
        }
        for (index, (value, style)) in fields.iter().enumerate() {
            if index > 0 {
                out.push(delimiter);
            }
            let is_text = value.bytes().any(|byte| byte.is_ascii_lowercase());
            let times = if is_text { (row_bytes / value.len()).max(1) } else { 1 };
            write_value(&value.repeat(times), *style, options, out);
        }
        match oddity {
            4 => out.push(b'\xff'),
            5 => out.extend_from_slice(b",\"stray\" quote"),
            _ => {}
        }
        out.extend_from_slice(line_end);
    }
    if !rows.final_newline {
        out.truncate(out.len() - line_end.len().min(out.len()));
    }
}

fn rows(kinds: Vec<Kind>, count: std::ops::Range<usize>) -> impl Strategy<Value = Rows> {
    let row: Vec<_> = kinds.into_iter().map(|kind| (value(kind), 0..12_u8)).collect();
    // Half of all inputs have no bad row.
    let oddities =
        prop_oneof![Just(vec![0]), vec(prop_oneof![100 => Just(0), 5 => 1..6_u8], 1..40)];
    (vec(row, count), oddities, any::<[bool; 3]>()).prop_map(|(values, oddities, flags)| Rows {
        values,
        oddities,
        crlf: flags[0],
        mark: flags[1],
        final_newline: flags[2],
    })
}

/// How the values of the primary key come.
#[derive(Debug, Clone, Copy)]
enum Keys {
    None,
    Ascending,
    Shuffled,
    Repeated,
    AnyInteger,
}

fn number_keys(rows: &mut Rows, keys: Keys) {
    let count = rows.values.len() as i64;
    for (index, row) in (0..count).zip(&mut rows.values) {
        let key = match keys {
            Keys::None => return,
            Keys::Ascending => index * 3 - 7,
            Keys::Shuffled => (index * 7919) % 10_007,
            Keys::Repeated => (index * 7919) % (count * 3 / 4 + 1),
            Keys::AnyInteger => continue,
        };
        row[0] = (key.to_string(), 12);
    }
}

fn csv_options() -> impl Strategy<Value = CsvOptions> {
    let bytes = prop_oneof![
        5 => Just((Some(b','), Some(b'"'), None)),
        1 => Just((Some(b';'), Some(b'\''), None)),
        1 => Just((Some(b'\t'), None, None)),
        1 => Just((Some(b','), Some(b'"'), Some(b'\\'))),
        1 => Just((Some(b'\t'), None, Some(b'\\'))),
    ];
    let ragged = prop_oneof![Just(Ragged::Reject), Just(Ragged::Pad), Just(Ragged::Truncate)];
    (bytes, any::<bool>(), any::<bool>(), ragged).prop_map(|(bytes, header, named, ragged)| {
        let (delimiter, quote, escape) = bytes;
        let csv = CsvOptions::default().delimiter(delimiter).quote(quote).escape(escape);
        csv.header(header).columns(named.then(Vec::new)).ragged(ragged)
    })
}

fn column_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        Just(ColumnType::Integer),
        Just(ColumnType::Real),
        Just(ColumnType::Text),
        Just(ColumnType::Blob)
    ]
}

fn is_rarely(one_in: u32) -> impl Strategy<Value = bool> {
    (0..one_in).prop_map(|number| number == 0)
}

/// A case whose table has so many rows, of about so many bytes where they hold text.
pub fn case(count: std::ops::Range<usize>, row_bytes: usize) -> impl Strategy<Value = Case> {
    let keys = prop_oneof![
        6 => Just(Keys::None),
        2 => Just(Keys::Ascending),
        2 => Just(Keys::Shuffled),
        1 => Just(Keys::Repeated),
        1 => Just(Keys::AnyInteger),
    ];
    let table = vec(kind(), 1..6).prop_flat_map(move |kinds| rows(kinds, count.clone()));
    let types = vec((any::<prop::sample::Index>(), column_type()), 0..3);
    let page_bytes = (9..17_u32).prop_map(|exponent| 1 << exponent);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), is_rarely(8), is_rarely(6));
    let exact = (is_rarely(3), proptest::option::weighted(0.2, any::<prop::sample::Index>()));
    (table, keys, csv_options(), types, is_rarely(2), page_bytes, flags, exact).prop_map(
        move |(mut rows, keys, mut csv, types, has_types, page_bytes, flags, exact)| {
            number_keys(&mut rows, keys);
            let column_count = rows.values.first().map_or(2, Vec::len);
            let names = name_columns(&mut csv, column_count);
            let mut input = if rows.mark { b"\xef\xbb\xbf".to_vec() } else { Vec::new() };
            if csv.header {
                let header = names.iter().map(|name| (name.clone(), 5)).collect();
                let header = Rows {
                    values: vec![header],
                    oddities: vec![0],
                    final_newline: true,
                    ..rows.clone()
                };
                write_rows(&header, 0, &csv, &mut input);
            }
            write_rows(&rows, row_bytes, &csv, &mut input);
            if has_many_nuls(&input) {
                csv = csv.encoding("utf-8");
            }
            let has_key = !matches!(keys, Keys::None);
            let types = types.into_iter().map(|(index, given)| (index.index(column_count), given));
            let types = types.filter(|(index, _)| has_types && !(has_key && *index == 0));
            let types = types.map(|(index, given)| (names[index].clone(), given)).collect();
            Case {
                input: Input(input),
                types,
                all_text: flags.3,
                exact: exact.0,
                exact_column: exact.1.map(|index| names[index.index(column_count)].clone()),
                strict: flags.0,
                primary_key: has_key.then(|| names[0].clone()),
                null_markers: if flags.1 { vec!["NA", "\\N"] } else { Vec::new() },
                empty_null: flags.4,
                page_bytes,
                skip: flags.2,
                csv,
            }
        },
    )
}

/// Returns true if the loader may take an input for UTF-16 or for no text, unless its encoding is named.
fn has_many_nuls(input: &[u8]) -> bool {
    let first = &input[..input.len().min(1024)];
    memchr::memchr_iter(0, first).count() * 4 > first.len()
}

/// Names from the header, from the caller, or invented.
fn name_columns(csv: &mut CsvOptions, count: usize) -> Vec<String> {
    if csv.header || csv.columns.is_some() {
        let names: Vec<String> = (0..count).map(|index| format!("name {index}, \u{e9}")).collect();
        csv.columns = csv.columns.as_ref().map(|_| names.clone());
        return names;
    }
    (1..=count).map(|position| format!("column{position}")).collect()
}
