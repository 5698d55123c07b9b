//! Bad rows: how they are named, where they go, and what stays on disk.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use leafpress::load::{ColumnType, CsvOptions, IntoTable, Loader, OnError, Report};
use leafpress::{BadRow, Error, ErrorKind};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

struct Folder(TempDir);

impl Folder {
    fn with_input(content: impl AsRef<[u8]>) -> Self {
        let folder = Self(tempdir().unwrap());
        fs::write(folder.path("in.csv"), content).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn loader(&self) -> Loader {
        Loader::new(self.path("a.db")).table("t")
    }

    fn skipping(&self, max_rejects: Option<u64>) -> Loader {
        let rejects = Some(self.path("bad.csv"));
        self.loader().on_error(OnError::Skip { rejects, max_rejects })
    }

    fn load(&self, loader: Loader) -> Result<Report, Error> {
        loader.load_file(self.path("in.csv"))
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap()).into_owned()
    }
}

fn bad_row(error: &Error) -> BadRow {
    error.bad_row().unwrap_or_else(|| panic!("not a bad row: {error}")).clone()
}

fn ask(database: &Path, sql: &str) -> String {
    Connection::open(database).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// An input, the load's options, and the place and reason that must be named.
type BadCase = (&'static [u8], fn(Loader) -> Loader, (u64, u64), &'static str);

#[test]
fn the_place_and_the_reason_are_named_and_nothing_is_left() {
    let integer = |loader: Loader| loader.column_type("b", ColumnType::Integer);
    let as_it_is = |loader: Loader| loader;
    let key = |loader: Loader| loader.primary_key("b").column_type("b", ColumnType::Integer);
    let cases: [BadCase; 10] = [
        (
            b"a,b\n1,2\n\n\"x\ny\",2,3\n",
            as_it_is,
            (4, 1),
            "the row has 3 fields, but the table has 2 columns",
        ),
        (b"a,b\n1\n", as_it_is, (2, 1), "the row has 1 field, but the table has 2 columns"),
        (b"a,b\n\"x\ny\",gr\xfcn\n", as_it_is, (3, 6), "invalid UTF-8: byte 0xfc"),
        (b"a,b\n1,\"2\n\n", as_it_is, (2, 3), "the quote that opens here is never closed"),
        (b"a,b\n\"x\ny\",abc\n", integer, (3, 4), "column \"b\": 'abc' is not an INTEGER"),
        (b"a,b\r\n1,1.5\r\n", integer, (2, 3), "column \"b\": '1.5' is not an INTEGER"),
        (b"a,b\n1,\n", key, (2, 3), "column \"b\": the primary key is empty"),
        (b"a,b\n1,x\n", key, (2, 3), "column \"b\": 'x' is not an INTEGER"),
        (b"a,b\n1,7\n\n2,7\n", key, (4, 3), "column \"b\": line 2 has its primary key already"),
        // A guess that is refuted first must not change what is said.
        (
            b"a,b\nx,1\n1,y,z\n",
            as_it_is,
            (3, 1),
            "the row has 3 fields, but the table has 2 columns",
        ),
    ];
    for (content, options, (line, column), reason) in cases {
        let folder = Folder::with_input(content);
        let error = folder.load(options(folder.loader())).unwrap_err();
        let bad = bad_row(&error);
        let context = content.escape_ascii();
        assert_eq!(
            (bad.line, bad.column, bad.reason.as_str()),
            (line, column, reason),
            "{context}"
        );
        let file = folder.path("in.csv").display().to_string();
        let start = format!("{file}:{line}:{column}: {reason}\n  ");
        assert!(error.to_string().starts_with(&start), "{error}");
        assert_eq!(folder.names(), ["in.csv"], "{context}");
    }
}

#[test]
fn a_bad_row_far_down_stops_like_one_at_the_top() {
    let mut content = "a,b\n".to_owned();
    for row in 0..300_000 {
        writeln!(content, "{row},x").unwrap();
    }
    let late_text = format!("{content}text,y\n1,2,3\n4\n");
    for threads in [1, 3] {
        let folder = Folder::with_input(&late_text);
        let bad = bad_row(&folder.load(folder.loader().threads(threads)).unwrap_err());
        assert_eq!((bad.line, bad.column, bad.row.as_str()), (300_003, 1, "1,2,3"));
        assert_eq!(folder.names(), ["in.csv"]);
    }
}

const MIXED: &str = "id,n\r\n1,1\r\n2,x\r\n3\r\n4,\"a\r\nb\"\r\n5,5\r\n1,6\r\n6,7,8";

#[test]
fn skipped_rows_stand_in_the_rejects_as_they_were() {
    let folder = Folder::with_input(MIXED);
    let loader = folder.skipping(Some(5)).column_type("n", ColumnType::Integer);
    let report = folder.load(loader).unwrap();
    assert_eq!((report.rows_read, report.rows_loaded, report.rows_rejected), (7, 3, 4));
    assert_eq!(folder.names(), ["a.db", "bad.csv", "bad.csv.log", "in.csv"]);
    assert_eq!(folder.read("bad.csv"), "id,n\r\n2,x\r\n3\r\n4,\"a\r\nb\"\r\n6,7,8\n");
    let file = folder.path("in.csv").display().to_string();
    let log = folder.read("bad.csv.log").replace(&file, "F");
    assert_eq!(
        log,
        "F:3:3: column \"n\": 'x' is not an INTEGER\n\
         F:4:1: the row has 1 field, but the table has 2 columns\n\
         F:5:3: column \"n\": 'a\\r\\nb' is not an INTEGER\n\
         F:9:1: the row has 3 fields, but the table has 2 columns\n"
    );
    assert_eq!(ask(&folder.path("a.db"), "SELECT group_concat(n) FROM t"), "1,5,6");
}

#[test]
fn repeated_keys_are_rejected_in_the_order_of_the_input() {
    let mut content = "id,n\n".to_owned();
    let mut rejected = content.clone();
    for row in 0..200_000 {
        let (text, is_bad) = match row % 20_000 {
            19_998 => (format!("{},again\n", row - 100), true),
            19_999 => (format!("{row},short,of\n"), true),
            _ => (format!("{row},usual\n"), false),
        };
        content.push_str(&text);
        if is_bad {
            rejected.push_str(&text);
        }
    }
    for threads in [1, 3] {
        let folder = Folder::with_input(&content);
        let loader = folder.skipping(None).primary_key("id").threads(threads);
        let report = folder.load(loader).unwrap();
        assert_eq!((report.rows_loaded, report.rows_rejected), (199_980, 20));
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&folder.read("bad.csv")), sorted(&rejected));
        assert_eq!(folder.read("bad.csv"), rejected, "{threads} threads");
    }
}

#[test]
fn one_bad_row_too_many_leaves_the_rejects_only() {
    let folder = Folder::with_input(MIXED);
    let loader = folder.skipping(Some(2)).column_type("n", ColumnType::Integer);
    let error = folder.load(loader).unwrap_err();
    let ErrorKind::TooManyRejects { rejected, limit, last, .. } = error.kind() else {
        panic!("{error}")
    };
    assert_eq!((*rejected, *limit, last.line), (3, 2, 5));
    assert_eq!(folder.names(), ["bad.csv", "bad.csv.log", "in.csv"]);
    assert_eq!(folder.read("bad.csv"), "id,n\r\n2,x\r\n3\r\n4,\"a\r\nb\"\r\n");
}

#[test]
fn rejects_that_exist_are_not_touched() {
    for name in ["bad.csv", "bad.csv.log"] {
        let folder = Folder::with_input(MIXED);
        fs::write(folder.path(name), "mine").unwrap();
        let error = folder.load(folder.skipping(None)).unwrap_err();
        assert!(error.to_string().contains("rejects never overwrite a file"), "{error}");
        assert_eq!(folder.read(name), "mine");
        assert_eq!(folder.names().len(), 2);
    }
}

#[test]
fn a_first_record_that_never_ends_is_an_error_also_if_bad_rows_are_skipped() {
    for content in ["\"a,b\n1,2\n", "\"a"] {
        let folder = Folder::with_input(content);
        let bad = bad_row(&folder.load(folder.loader()).unwrap_err());
        assert_eq!((bad.line, bad.column), (1, 1));
        let skipped = bad_row(&folder.load(folder.skipping(None)).unwrap_err());
        assert_eq!((skipped.line, skipped.column), (1, 1));
        assert_eq!(folder.names(), ["in.csv"]);
    }
}

/// The ways to read an input whose rejects are loaded again.
struct Again {
    delimiter: u8,
    csv: CsvOptions,
    /// Lines above the header.
    above: &'static str,
    /// The last field of each row, in the input's encoding.
    word: &'static [u8],
}

impl Again {
    fn all() -> Vec<Self> {
        let csv = CsvOptions::default;
        let plain = |delimiter, csv| Self { delimiter, csv, above: "", word: b"x" };
        vec![
            plain(b',', csv()),
            plain(b';', csv()),
            plain(b'\t', csv()),
            plain(b'|', csv()),
            plain(b';', csv().delimiter(b';')),
            plain(b':', csv().delimiter(b':')),
            plain(b';', csv().header(false)),
            Self {
                above: "Report, 2024\n# by ann\n",
                csv: csv().skip_lines(1).comment(b'#'),
                ..plain(b';', csv())
            },
            Self { word: b"caf\xe9", csv: csv().encoding("latin1"), ..plain(b';', csv()) },
            Self { word: b"caf\xe9", csv: csv().encoding("auto"), ..plain(b'|', csv()) },
        ]
    }

    /// An input whose last rows lack a field.
    fn input(&self, bad_rows: usize) -> Vec<u8> {
        let mut input = self.above.as_bytes().to_vec();
        let mut push = |fields: &[&[u8]]| {
            input.extend(fields.join(&self.delimiter));
            input.push(b'\n');
        };
        if self.csv.header {
            push(&[b"id", b"n", b"s"]);
        }
        for _ in 0..20 {
            push(&[b"1", b"2", self.word]);
        }
        for _ in 0..bad_rows {
            push(&[b"1", b"7"]);
        }
        input
    }
}

#[test]
fn rejects_load_again_as_they_are_by_the_call_that_rejected_them() {
    for again in Again::all() {
        for (bad_rows, name) in [(1, "bad.csv"), (2, "bad.tsv"), (20, "bad"), (1, "bad.tsv")] {
            let folder = Folder::with_input(again.input(bad_rows));
            let load = |input: &str, rejects: &str| {
                let on_error =
                    OnError::Skip { rejects: Some(folder.path(rejects)), max_rejects: None };
                let loader = folder.loader().csv(again.csv.clone()).on_error(on_error);
                let loader = loader.into_table(IntoTable::Append).create_missing(true);
                loader.load_file(folder.path(input)).unwrap()
            };
            let counts = |report: &Report| (report.rows_loaded, report.rows_rejected as usize);
            let case = format!("{:?}, {bad_rows} rows in {name}", again.csv);
            assert_eq!(counts(&load("in.csv", name)), (20, bad_rows), "{case}");
            if again.csv.header {
                // As they are they are bad for the same reason, and for no other. (Without a
                // header the first row says how many columns there are.)
                let as_they_are = load(name, "again");
                assert_eq!(counts(&as_they_are), (0, bad_rows), "{case}");
                let reason = "the row has 2 fields, but the table has 3 columns";
                assert_eq!(as_they_are.rejects[0].reason, reason, "{case}");
            }
            let (from, to) = (format!("1{}7", char::from(again.delimiter)), again.delimiter);
            let corrected = folder.read(name).replace(&from, &format!("1{0}7{0}y", char::from(to)));
            fs::write(folder.path(name), corrected).unwrap();
            assert_eq!(counts(&load(name, "more")), (bad_rows as u64, 0), "{case}");
            let query = "SELECT group_concat(n, '') FROM (SELECT * FROM (SELECT count(*) AS n \
                         FROM t GROUP BY rowid > 20))";
            assert_eq!(ask(&folder.path("a.db"), query), format!("20{bad_rows}"), "{case}");
        }
    }
}

#[test]
fn rejects_begin_with_a_line_for_the_delimiter_only_where_one_is_needed() {
    for (content, name, expected) in [
        ("a,b\n1,2,3\n", "bad.csv", "a,b\n1,2,3\n"),
        ("a,b;c\n1,2,3\n", "bad.csv", "sep=,\na,b;c\n1,2,3\n"),
        ("a,b\n1,2,3\n", "bad.tsv", "sep=,\na,b\n1,2,3\n"),
        ("a,b\n1,2;3,4\n", "bad", "a,b\n1,2;3,4\n"),
    ] {
        let folder = Folder::with_input(content);
        let rejects = Some(folder.path(name));
        let on_error = OnError::Skip { rejects, max_rejects: None };
        let csv = CsvOptions::default().delimiter(b',');
        folder.load(folder.loader().csv(csv).on_error(on_error)).unwrap();
        assert_eq!(folder.read(name), expected, "{content:?}");
    }
}
