//! Loads of the same rows in every format, to tables made by flags.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray};
use leafpress::load::{ColumnType, Loader, Report, Value as Given, ValueBatch, ValueRows};
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use rusqlite::types::Value;
use tempfile::tempdir;

use crate::made::{Flags, assert_as_declared, flags, insert_values, name};

/// A format and what is around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Csv,
    NdJson,
    JsonArray,
    Parquet,
    ArrowFile,
    ArrowStream,
}

const FORMATS: [Format; 6] = [
    Format::Csv,
    Format::NdJson,
    Format::JsonArray,
    Format::Parquet,
    Format::ArrowFile,
    Format::ArrowStream,
];

/// How an input comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    File,
    Gzip,
    Zstd,
    Reader,
    /// In two files, the second with its columns in another order.
    TwoFiles,
}

const WAYS: [Way; 5] = [Way::File, Way::Gzip, Way::Zstd, Way::Reader, Way::TwoFiles];

/// The cells as values of the columns' types.
fn typed(flags: &Flags) -> Vec<Vec<Value>> {
    let value = |cell: &Option<String>, of: ColumnType| match (cell, of) {
        (None, _) => Value::Null,
        (Some(text), ColumnType::Integer) => Value::Integer(
            text.trim()
                .parse::<i64>()
                .unwrap_or_else(|_| text.trim().parse::<f64>().unwrap() as i64),
        ),
        (Some(text), ColumnType::Real) => Value::Real(text.parse().unwrap()),
        (Some(text), ColumnType::Text) => Value::Text(text.clone()),
        (Some(text), ColumnType::Blob) => Value::Blob(text.as_bytes().to_vec()),
    };
    let row = |row: &Vec<Option<String>>| -> Vec<Value> {
        row.iter().zip(&flags.types).map(|(cell, (of, _))| value(cell, *of)).collect()
    };
    flags.rows.iter().map(row).collect()
}

/// A table of values to be written.
struct Content<'c> {
    types: Vec<(String, ColumnType)>,
    rows: Vec<Vec<&'c Value>>,
}

impl<'c> Content<'c> {
    fn of(flags: &Flags, rows: &'c [Vec<Value>], reversed: bool) -> Self {
        let types = flags.types.iter().enumerate().map(|(at, (of, _))| (name(at), *of));
        let mut types: Vec<_> = types.collect();
        let mut rows: Vec<Vec<&Value>> = rows.iter().map(|row| row.iter().collect()).collect();
        if reversed {
            types.reverse();
            for row in &mut rows {
                row.reverse();
            }
        }
        Self { types, rows }
    }

    fn bytes(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Csv => self.csv(),
            Format::NdJson => self.objects().join("\n").into_bytes(),
            Format::JsonArray => format!("[{}]", self.objects().join(",\n")).into_bytes(),
            Format::Parquet => {
                let batch = self.batch();
                let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
                writer.write(&batch).unwrap();
                writer.into_inner().unwrap()
            }
            Format::ArrowFile => {
                let batch = self.batch();
                let mut writer =
                    arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
                writer.write(&batch).unwrap();
                writer.into_inner().unwrap()
            }
            Format::ArrowStream => {
                let batch = self.batch();
                let mut writer =
                    arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
                writer.write(&batch).unwrap();
                writer.into_inner().unwrap()
            }
        }
    }

    fn csv(&self) -> Vec<u8> {
        let names = self.types.iter().map(|(name, _)| name.clone());
        let mut out = names.collect::<Vec<_>>().join(",");
        out.push('\n');
        for row in &self.rows {
            let fields = row.iter().map(|value| match value {
                Value::Null => "\\N".to_owned(),
                Value::Integer(integer) => integer.to_string(),
                Value::Real(real) => format!("{real:?}"),
                Value::Text(text) => format!("\"{}\"", text.replace('"', "\"\"")),
                Value::Blob(blob) => hex(blob),
            });
            out.push_str(&fields.collect::<Vec<_>>().join(","));
            out.push('\n');
        }
        out.into_bytes()
    }

    /// JSON objects; NULL stands there or is missing, but the first names all keys.
    fn objects(&self) -> Vec<String> {
        let object = |(number, row): (usize, &Vec<&Value>)| {
            let mut object = serde_json::Map::new();
            for ((name, _), value) in self.types.iter().zip(row) {
                let json = match value {
                    Value::Null if number % 2 == 1 => continue,
                    Value::Null => serde_json::Value::Null,
                    Value::Integer(integer) => (*integer).into(),
                    Value::Real(real) => (*real).into(),
                    Value::Text(text) => text.clone().into(),
                    Value::Blob(blob) => hex(blob).into(),
                };
                object.insert(name.clone(), json);
            }
            serde_json::Value::Object(object).to_string()
        };
        self.rows.iter().enumerate().map(object).collect()
    }

    fn batch(&self) -> RecordBatch {
        let columns = self.types.iter().enumerate().map(|(at, (name, of))| {
            let values = self.rows.iter().map(|row| row[at]);
            let array: ArrayRef = match of {
                ColumnType::Integer => Arc::new(values.map(as_integer).collect::<Int64Array>()),
                ColumnType::Real => Arc::new(values.map(as_real).collect::<Float64Array>()),
                ColumnType::Text => Arc::new(values.map(as_text).collect::<StringArray>()),
                ColumnType::Blob => Arc::new(values.map(as_blob).collect::<BinaryArray>()),
            };
            (name.clone(), array, true)
        });
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }
}

fn as_integer(value: &Value) -> Option<i64> {
    if let Value::Integer(integer) = value { Some(*integer) } else { None }
}

fn as_real(value: &Value) -> Option<f64> {
    if let Value::Real(real) = value { Some(*real) } else { None }
}

fn as_text(value: &Value) -> Option<&str> {
    if let Value::Text(text) = value { Some(text) } else { None }
}

fn as_blob(value: &Value) -> Option<&[u8]> {
    if let Value::Blob(blob) = value { Some(blob) } else { None }
}

fn hex(blob: &[u8]) -> String {
    let pairs: Vec<String> = blob.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.concat()
}

fn packed(bytes: Vec<u8>, way: Way) -> Vec<u8> {
    match way {
        Way::Gzip => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(&bytes).unwrap();
            writer.finish().unwrap()
        }
        Way::Zstd => zstd::encode_all(&bytes[..], 1).unwrap(),
        _ => bytes,
    }
}

/// Loads the rows in a format, in a way.
fn load(
    flags: &Flags,
    loader: Loader,
    rows: &[Vec<Value>],
    (format, way): (Format, Way),
    folder: &Path,
) -> leafpress::Result<Report> {
    let file = |name: &str, bytes: Vec<u8>| -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let all = || packed(Content::of(flags, rows, false).bytes(format), way);
    match way {
        Way::Reader => loader.load_reader("in", &all()[..]),
        Way::TwoFiles => {
            let (one, other) = rows.split_at(rows.len().div_ceil(2));
            let one = file("one", Content::of(flags, one, false).bytes(format));
            let other = file("other", Content::of(flags, other, true).bytes(format));
            loader.load_files(&[one, other])
        }
        _ => loader.load_file(file("in", all())),
    }
}

pub fn check((flags, format, way): &(Flags, Format, Way)) {
    let rows = typed(flags);
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mut loader = flags.loader(&path).null_marker("\\N");
    for (at, (column_type, _)) in flags.types.iter().enumerate() {
        loader = loader.column_type(name(at), *column_type);
    }
    let expected = insert_values(&flags.table(), &rows, flags.on_conflict);
    let is_json = matches!(format, Format::NdJson | Format::JsonArray);
    if is_json && rows.len() < 4 {
        // JSON without objects has no columns.
        return;
    }
    let outcome = load(flags, loader, &rows, (*format, *way), folder.path());
    if !flags.skip && !expected.1.is_empty() {
        let error = outcome.expect_err("a bad row stops the load");
        assert!(error.bad_row().is_some(), "{error}");
        assert!(!path.exists());
        return;
    }
    let report = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.rows_rejected, expected.1.len() as u64, "rows rejected");
    assert_as_declared(&expected.0, &report.create_sql, &path, flags.analyze);
}

pub fn input() -> impl Strategy<Value = (Flags, Format, Way)> {
    (flags(), prop::sample::select(&FORMATS[..]), prop::sample::select(&WAYS[..]))
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(250)
    })]

    #[test]
    fn every_format_gives_the_table_that_inserts_give(input in input()) {
        check(&input);
    }
}

/// Rows of one key, and at the end one with another key.
struct Late(u32);

impl ValueRows for Late {
    fn columns(&self) -> Vec<String> {
        let names = if self.0 > 2 { &["a", "late"][..] } else { &["a"] };
        names.iter().copied().map(str::to_owned).collect()
    }

    fn fill(
        &mut self,
        batch: &mut ValueBatch,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0 += 1;
        if self.0 <= 3 {
            batch.put(Given::Integer(1));
            if self.0 == 3 {
                batch.put(Given::Integer(2));
            }
            batch.end_row();
        }
        Ok(())
    }
}

#[test]
fn flags_may_name_a_key_that_comes_late() {
    let folder = tempdir().unwrap();
    let input = folder.path().join("in.json");
    let early = format!("{{\"a\":1}}{}\n", " ".repeat(10_000));
    let json = early.repeat(150) + "{\"a\":1,\"late\":2}\n";
    fs::write(&input, &json).unwrap();
    let loader = || Loader::new(folder.path().join("a.db")).table("t");
    let load = |loader: Loader, way: u8| -> Report {
        let outcome = match way {
            0 => loader.load_file(&input),
            1 => loader.load_reader("<stdin>", json.as_bytes()),
            _ => loader.load_values("rows", Late(0)),
        };
        outcome.unwrap_or_else(|error| panic!("{way}: {error}"))
    };
    for way in 0..3 {
        for (flagged, columns) in [
            (loader().column_type("late", ColumnType::Text), "\"a\" INTEGER,\n  \"late\" TEXT"),
            (loader().drop_column("late"), "\"a\" INTEGER"),
            (loader().select("late"), "\"late\" INTEGER"),
            (loader().rename("late", "b"), "\"a\" INTEGER,\n  \"b\" INTEGER"),
            (loader().index("late"), "\"a\" INTEGER,\n  \"late\" INTEGER"),
            (loader().all_text(true), "\"a\" TEXT,\n  \"late\" TEXT"),
        ] {
            let report = load(flagged, way);
            let table = format!("CREATE TABLE \"t\" (\n  {columns}\n)");
            assert!(report.create_sql.starts_with(&table), "{}", report.create_sql);
            fs::remove_file(folder.path().join("a.db")).unwrap();
        }
        let missing = loader().drop_column("never").load_file(&input).unwrap_err().to_string();
        assert!(missing.contains("the columns are: a, late"), "{missing}");
    }
}

#[test]
fn damage_in_the_first_batch_of_a_pipe_is_named() {
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from(vec![1]))),
        ("name", Arc::new(StringArray::from(vec!["a text that is none"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    let mut bytes = writer.into_inner().unwrap();
    let at = bytes.windows(6).position(|window| window == b"a text").unwrap();
    bytes[at] = 0xff;
    let folder = tempdir().unwrap();
    let loader = Loader::new(folder.path().join("a.db")).table("t").primary_key("id");
    let error = loader.load_reader("<stdin>", &bytes[..]).unwrap_err().to_string();
    assert!(error.contains("record batch 1 is damaged"), "{error}");
}
