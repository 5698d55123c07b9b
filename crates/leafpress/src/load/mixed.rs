//! An input of any format, for loads whose inputs are of several formats.
//!
//! Columns are matched by name; one that an input does not have is NULL in its rows.
//!
//! Must never: know more of a format than that it gives rows.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leafpress_format::Value;

use super::csv::CsvRows;
use crate::error::Result;
#[cfg(feature = "arrow")]
use crate::input::arrow::ArrowSource;
use crate::input::json::JsonSource;
use crate::input::rows::{
    BadInputRow, DecodeHalt, RowBatch, RowDecoder, RowReader, RowSource, SourceColumn, ValueKinds,
};

type ReaderOf<S> = <S as RowSource>::Reader;
type DecoderOf<S> = <S as RowSource>::Decoder;
type RawOf<S> = <ReaderOf<S> as RowReader>::Raw;
type BatchOf<S> = <DecoderOf<S> as RowDecoder>::Batch;

/// An input of one of the formats.
pub enum MixedSource<'l> {
    Csv(Box<CsvRows<'l>>),
    Json(Box<JsonSource<'l>>),
    #[cfg(feature = "arrow")]
    Arrow(Box<ArrowSource<'l>>),
}

/// Reads an input of one of the formats.
pub enum MixedReader<'l> {
    Csv(Box<ReaderOf<CsvRows<'l>>>),
    Json(Box<ReaderOf<JsonSource<'l>>>),
    #[cfg(feature = "arrow")]
    Arrow(Box<ReaderOf<ArrowSource<'l>>>),
}

/// Takes pieces of one of the formats apart.
pub enum MixedDecoder {
    Csv(Box<DecoderOf<CsvRows<'static>>>),
    Json(DecoderOf<JsonSource<'static>>),
    #[cfg(feature = "arrow")]
    Arrow(DecoderOf<ArrowSource<'static>>),
}

/// A piece of an input of one of the formats.
pub enum MixedRaw {
    Csv(Box<RawOf<CsvRows<'static>>>),
    Json(Box<RawOf<JsonSource<'static>>>),
    #[cfg(feature = "arrow")]
    Arrow(Box<RawOf<ArrowSource<'static>>>),
}

/// Rows of one of the formats.
pub enum MixedBatch {
    Csv(Box<BatchOf<CsvRows<'static>>>),
    Json(Box<BatchOf<JsonSource<'static>>>),
    #[cfg(feature = "arrow")]
    Arrow(Box<BatchOf<ArrowSource<'static>>>),
}

/// Does the same with a value of any variant.
macro_rules! each {
    ($of:ident, $value:expr, |$it:ident| $does:expr) => {
        match $value {
            $of::Csv($it) => $does,
            $of::Json($it) => $does,
            #[cfg(feature = "arrow")]
            $of::Arrow($it) => $does,
        }
    };
}

impl Default for MixedRaw {
    fn default() -> Self {
        Self::Json(Box::default())
    }
}

impl Default for MixedBatch {
    fn default() -> Self {
        Self::Json(Box::default())
    }
}

impl<'l> RowSource for MixedSource<'l> {
    type Reader = MixedReader<'l>;
    type Decoder = MixedDecoder;

    const HAS_OPTIONAL_COLUMNS: bool = true;

    fn name(&self) -> &str {
        each!(Self, self, |source| source.name())
    }

    fn notes(&self) -> Vec<String> {
        each!(Self, self, |source| source.notes())
    }

    fn notes_at_end(&self) -> Vec<String> {
        each!(Self, self, |source| source.notes_at_end())
    }

    fn nan_counts(&self) -> Vec<u64> {
        each!(Self, self, |source| source.nan_counts())
    }

    fn value_kinds(&self) -> ValueKinds {
        each!(Self, self, |source| source.value_kinds())
    }

    fn columns(&self) -> &[SourceColumn] {
        each!(Self, self, |source| source.columns())
    }

    fn is_empty(&self) -> bool {
        each!(Self, self, |source| source.is_empty())
    }

    fn is_stream(&self) -> bool {
        each!(Self, self, |source| source.is_stream())
    }

    fn opens_again(&self) -> bool {
        each!(Self, self, |source| source.opens_again())
    }

    fn open(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<(MixedReader<'l>, MixedDecoder)> {
        Ok(match self {
            Self::Csv(source) => {
                let (reader, decoder) = source.open(bytes_read)?;
                (MixedReader::Csv(Box::new(reader)), MixedDecoder::Csv(Box::new(decoder)))
            }
            Self::Json(source) => {
                let (reader, decoder) = source.open(bytes_read)?;
                (MixedReader::Json(Box::new(reader)), MixedDecoder::Json(decoder))
            }
            #[cfg(feature = "arrow")]
            Self::Arrow(source) => {
                let (reader, decoder) = source.open(bytes_read)?;
                (MixedReader::Arrow(Box::new(reader)), MixedDecoder::Arrow(decoder))
            }
        })
    }

    fn check_unchanged(&self) -> Result<()> {
        each!(Self, self, |source| source.check_unchanged())
    }

    fn discover_columns(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<()> {
        each!(Self, self, |source| source.discover_columns(bytes_read))
    }
}

impl RowReader for MixedReader<'_> {
    type Raw = MixedRaw;

    fn claim(&mut self, raw: &mut MixedRaw) -> Result<bool> {
        macro_rules! claimed {
            ($format:ident, $reader:ident) => {{
                let mut piece = Box::default();
                let is_there = $reader.claim(&mut piece)?;
                *raw = MixedRaw::$format(piece);
                Ok(is_there)
            }};
        }
        match self {
            Self::Csv(reader) => claimed!(Csv, reader),
            Self::Json(reader) => claimed!(Json, reader),
            #[cfg(feature = "arrow")]
            Self::Arrow(reader) => claimed!(Arrow, reader),
        }
    }

    fn bytes_total(&self) -> Option<u64> {
        each!(Self, self, |reader| reader.bytes_total())
    }
}

impl RowDecoder for MixedDecoder {
    type Raw = MixedRaw;
    type Batch = MixedBatch;

    fn decode(&self, raw: &mut MixedRaw, batch: &mut MixedBatch) -> Result<(), DecodeHalt> {
        macro_rules! decoded {
            ($format:ident, $decoder:ident) => {{
                let mut rows = Box::default();
                if let MixedRaw::$format(piece) = raw {
                    $decoder.decode(piece, &mut rows)?;
                }
                *batch = MixedBatch::$format(rows);
            }};
        }
        match self {
            Self::Csv(decoder) => decoded!(Csv, decoder),
            Self::Json(decoder) => decoded!(Json, decoder),
            #[cfg(feature = "arrow")]
            Self::Arrow(decoder) => decoded!(Arrow, decoder),
        }
        Ok(())
    }
}

impl RowBatch for MixedBatch {
    fn rows(&self) -> usize {
        each!(Self, self, |batch| batch.rows())
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        each!(Self, self, |batch| batch.value(row, column))
    }

    fn text(&self, row: usize, column: usize) -> Option<&[u8]> {
        each!(Self, self, |batch| batch.text(row, column))
    }

    fn whole_number(&self, row: usize, column: usize) -> Option<(f64, bool)> {
        each!(Self, self, |batch| batch.whole_number(row, column))
    }

    fn content_bytes(&self, row: usize) -> usize {
        each!(Self, self, |batch| batch.content_bytes(row))
    }

    fn line(&self, row: usize) -> u64 {
        each!(Self, self, |batch| batch.line(row))
    }

    fn excerpt(&self, row: usize) -> String {
        each!(Self, self, |batch| batch.excerpt(row))
    }

    fn original(&self, row: usize) -> Vec<u8> {
        each!(Self, self, |batch| batch.original(row))
    }

    fn bad_rows(&self) -> &[BadInputRow] {
        each!(Self, self, |batch| batch.bad_rows())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use rusqlite::Connection;
    use tempfile::TempDir;

    use crate::load::{CsvOptions, IntoTable, Loader, OnError, Ragged};

    struct Case {
        folder: TempDir,
        inputs: Vec<PathBuf>,
    }

    impl Case {
        fn new(inputs: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let write = |(name, text): &(&str, &str)| {
                let path = folder.path().join(name);
                fs::write(&path, text).expect("an input");
                path
            };
            Self { inputs: inputs.iter().map(write).collect(), folder }
        }

        fn database(&self) -> PathBuf {
            self.folder.path().join("a.db")
        }

        fn loader(&self) -> Loader {
            Loader::new(self.database()).table("t")
        }

        /// All values with their types, a row a line.
        fn rows(&self, columns: &[&str]) -> Vec<String> {
            let quoted = columns.iter().map(|name| format!("quote({name})"));
            let all = quoted.collect::<Vec<_>>().join(" || ' ' || ");
            let connection = Connection::open(self.database()).expect("a database");
            let mut statement = connection.prepare(&format!("SELECT {all} FROM t")).expect("sql");
            let rows = statement.query_map([], |row| row.get(0)).expect("rows");
            rows.collect::<Result<_, _>>().expect("a row")
        }
    }

    #[test]
    fn each_value_is_as_in_a_load_of_its_format_alone() {
        let case = Case::new(&[
            ("a.csv", "id,zip,price,note\n1,00501,2.50,\n2,12,,\"a \"\"b\"\"\"\n"),
            ("b.ndjson", "{\"id\": 3, \"price\": 1, \"note\": null, \"new\": [1]}\n{\"id\": 4}\n"),
        ]);
        let report = case.loader().load_files(&case.inputs).expect("a load");
        assert_eq!(report.rows_loaded, 4);
        assert_eq!(
            report.create_sql,
            "CREATE TABLE \"t\" (\n  \"id\" INTEGER,\n  \"zip\" TEXT,\n  \"price\" REAL,\n  \
             \"note\" TEXT,\n  \"new\" TEXT\n)"
        );
        assert_eq!(
            case.rows(&["id", "zip", "price", "note", "new"]),
            [
                "1 '00501' 2.5 '' NULL",
                "2 '12' NULL 'a \"b\"' NULL",
                "3 NULL 1.0 NULL '[1]'",
                "4 NULL NULL NULL NULL"
            ]
        );
    }

    #[test]
    fn whole_numbers_in_two_forms_stay_texts_beside_other_formats() {
        let (fraction, no_fraction) = ("{\"code\": 2.5}\n", "{\"code\": null}\n");
        let many = "39\n".repeat(200_000);
        for (csv, json, first, is_text) in [
            ("1000\n1e3\n", no_fraction, 0, true),
            ("1000\n1e3\n", no_fraction, 1, true),
            ("1e3\n", "{\"code\": 1000}\n", 0, false),
            ("1000\n1e3\n", fraction, 0, false),
            (&format!("1e3\n{many}1000\n"), no_fraction, 0, true),
            (&format!("1e3\n1000\n{many}0.5\n"), no_fraction, 0, false),
        ] {
            let mut case = Case::new(&[("a.csv", &format!("code\n{csv}")), ("b.json", json)]);
            case.inputs.rotate_left(first);
            let report = case.loader().load_files(&case.inputs).expect("a load");
            let declared = if is_text { "TEXT" } else { "REAL" };
            assert_eq!(report.columns[0].declared_type, declared, "{}", &csv[..9.min(csv.len())]);
            let is_kept = case.rows(&["code"]).contains(&"'1e3'".to_owned());
            assert_eq!(is_kept, is_text);
        }
    }

    #[test]
    fn what_a_pass_over_csv_shows_is_noted_beside_other_formats() {
        let notes = |csv: &str, ragged| {
            let case = Case::new(&[("a.csv", csv), ("b.json", "{\"id\": 9}\n")]);
            let options = CsvOptions::default().ragged(ragged);
            let report = case.loader().csv(options).load_files(&case.inputs).expect("a load");
            report.notes.join("\n")
        };
        let strays = notes("id,t\n1,\"abc\n2,x\n3,\"y\n", Ragged::Reject);
        assert!(strays.contains("a.csv: 1 quote stands where none belongs, the first in line 4"));
        assert!(strays.contains("the quote that opens at line 2, column 3 is never closed"));
        let cut = notes("id,t\n1,a\n2,b,c\n3,d,e\n", Ragged::Truncate);
        let expected = "a.csv: 2 rows have another number of fields, the first in line 3: surplus";
        assert!(cut.contains(expected), "{cut}");
        let missing = notes("id,t\n1,5\n2,NA\n", Ragged::Reject);
        assert!(
            missing.contains("column t is TEXT because of 'NA', first in line 3 of"),
            "{missing}"
        );
    }

    #[test]
    fn a_declared_column_takes_each_value_as_from_its_format_alone() {
        let case = Case::new(&[
            ("a.csv", "id,bytes,anything,name\n1,12,1.50,\n2,,,x\n3,zz,,\n4,00ff,7,\n"),
            (
                "b.ndjson",
                "{\"id\":5,\"bytes\":\"12\",\"anything\":1.50,\"name\":\"\"}\n\
              {\"id\":6,\"bytes\":12,\"name\":\"\"}\n{\"id\":7,\"name\":null}\n",
            ),
        ]);
        let sql =
            "CREATE TABLE t(id INTEGER PRIMARY KEY, bytes BLOB, anything, name TEXT NOT NULL)";
        let skip = OnError::Skip { rejects: None, max_rejects: None };
        let loader = case.loader().declaration(sql).on_error(skip);
        let report = loader.load_files(&case.inputs).expect("a load");
        assert_eq!(report.rejects.iter().map(|row| row.line).collect::<Vec<_>>(), [4, 2, 3]);
        assert_eq!(
            case.rows(&["id", "bytes", "anything", "name"]),
            ["1 X'12' '1.50' ''", "2 NULL '' 'x'", "4 X'00FF' '7' ''", "5 X'12' 1.5 ''"]
        );
    }

    #[test]
    fn keys_and_later_texts_cost_another_pass_and_no_value() {
        let csv: Vec<_> = (0..50_000).map(|n| format!("{},{n}\n", 99_999 - n)).collect();
        let json: Vec<_> =
            (0..50_000).map(|n| format!("{{\"n\":\"x{n}\",\"id\":{n}}}\n")).collect();
        let case =
            Case::new(&[("a.csv", &format!("id,n\n{}", csv.concat())), ("b.json", &json.concat())]);
        let report = case.loader().primary_key("id").load_files(&case.inputs).expect("a load");
        assert_eq!(report.rows_loaded, 100_000);
        let rows = case.rows(&["id", "n"]);
        assert_eq!(rows.len(), 100_000);
        assert_eq!(
            [&rows[7], &rows[50_000], &rows[99_999]],
            ["7 'x7'", "50000 '49999'", "99999 '0'"]
        );
        let error = case.loader().into_table(IntoTable::Append).load_files(&case.inputs);
        assert!(error.expect_err("keys are taken").is_unique_violation());
        assert_eq!(case.rows(&["id", "n"]), rows);
    }

    #[test]
    fn bad_rows_of_all_formats_are_rejected_with_their_places() {
        let case = Case::new(&[
            ("a.csv", "id,what\n1,start\nbroken\n2,stop\n3,\"open"),
            ("b.ndjson", "{\"id\": 4}\n{\"id\": \n{\"id\": 5}\n"),
        ]);
        let stopped = case.loader().load_files(&case.inputs).expect_err("a bad row");
        assert_eq!(stopped.bad_row().expect("it is named").line, 3);
        assert!(!case.database().exists());
        let path = case.folder.path().join("bad.txt");
        let skip = || OnError::Skip { rejects: Some(path.clone()), max_rejects: None };
        let shown = case.loader().on_error(skip()).dry_run_files(&case.inputs).expect("a dry run");
        assert_eq!(shown.would_reject, 3);
        let report = case.loader().on_error(skip()).load_files(&case.inputs).expect("a load");
        let places: Vec<_> =
            report.rejects.iter().map(|row| (&row.file[row.file.len() - 8..], row.line)).collect();
        assert_eq!(report.rows_read, 7);
        assert_eq!(places.iter().map(|place| place.1).collect::<Vec<_>>(), [3, 5, 2]);
        assert!(places[0].0.ends_with("a.csv") && places[2].0.ends_with("b.ndjson"), "{places:?}");
        assert_eq!(case.rows(&["id"]), ["1", "2", "4", "5"]);
        let rejected = fs::read_to_string(&path).expect("the rejects");
        assert_eq!(rejected, "broken\n3,\"open\n{\"id\": \n");
    }
}
