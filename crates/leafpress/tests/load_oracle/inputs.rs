//! Sources of the bytes, and inputs at the edges: all sources make the same database.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use leafpress::load::{ColumnType, CsvOptions, Loader, Report};
use leafpress::{Error, ErrorKind};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

/// Two million bytes of whole numbers; the guess from the first block is INTEGER.
fn numbers() -> String {
    let mut input = "id,a,b\n".to_owned();
    for id in 0..150_000 {
        writeln!(input, "{id},{},{}.5", id * 7, id).unwrap();
    }
    input
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn load(&self, name: &str, content: impl AsRef<[u8]>) -> Result<Report, Error> {
        let input = self.write("in.csv", content);
        Loader::new(self.path(name)).table("t").load_file(input)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}

fn ask(database: &Path, sql: &str) -> String {
    let connection = Connection::open(database).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A reader that gives a few bytes at a time, as a pipe may.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.0.len().min(self.1).min(buffer.len());
        let (now, later) = self.0.split_at(count);
        buffer[..count].copy_from_slice(now);
        (self.0, self.1) = (later, self.1 % 4096 + 13);
        Ok(count)
    }
}

#[test]
fn every_way_in_makes_the_same_file() {
    every_way_makes_the_same(&numbers(), false, "INTEGER");
    every_way_makes_the_same(&format!("{}x,y,1.25\n", numbers()), false, "TEXT");
}

#[test]
fn every_way_in_makes_the_same_file_where_a_guess_is_wrong_over_two_blocks_only() {
    // Each block by itself has one form.
    let mut cents = String::new();
    for number in 0..200_000 {
        writeln!(cents, "{number}.25").unwrap();
    }
    let two_forms = format!("r\n1.5\n{cents}{}", cents.replace(".25", ".50"));
    every_way_makes_the_same(&two_forms, false, "REAL");
    every_way_makes_the_same(&two_forms, true, "TEXT");
}

#[test]
fn every_way_in_makes_the_same_file_of_whole_numbers_with_others_before_and_behind() {
    let sevens = "0\n1\n2\n3\n4\n5\n6\n".repeat(600_000 / 7);
    every_way_makes_the_same(&format!("n\n{sevens}1e+05\n"), false, "REAL");
    every_way_makes_the_same(&format!("n\n{sevens}3.0\n"), false, "TEXT");
    every_way_makes_the_same(&format!("n\n5\n3.0\n{sevens}"), false, "TEXT");
    every_way_makes_the_same(&format!("n\n5\n3.0\n{sevens}.50\n"), false, "REAL");
}

/// Loads the same content from files and readers, packed and not, by several numbers of threads.
fn every_way_makes_the_same(content: &str, exact: bool, expected: &str) {
    let folder = Folder::new();
    let input = folder.write("in.csv", content);
    let report =
        Loader::new(folder.path("plain.db")).table("t").exact(exact).load_file(&input).unwrap();
    assert_eq!(report.columns[0].declared_type, expected);
    let content = content.as_bytes();
    let second = content.len() / 2;
    let packed = [gzip(&content[..second]), gzip(&content[second..])].concat();
    let zstd = zstd::encode_all(content, 1).unwrap();
    let mut loaders = 0;
    let mut loader = || {
        loaders += 1;
        Loader::new(folder.path(&format!("{loaders}.db"))).table("t").exact(exact)
    };
    for threads in [1, 3, 8] {
        let again = loader().threads(threads).load_file(&input).unwrap();
        assert_eq!(again.columns[0].changed_form, report.columns[0].changed_form);
    }
    loader().load_file(folder.write("packed", &packed)).unwrap();
    loader().load_file(folder.write("zstd", &zstd)).unwrap();
    loader().load_reader("<stdin>", Trickle(content, 1)).unwrap();
    loader().load_reader("<stdin>", Trickle(&packed, 1)).unwrap();
    loader().load_reader("<stdin>", Trickle(&zstd, 1)).unwrap();
    let plain = folder.bytes("plain.db");
    for number in 1..=loaders {
        assert!(folder.bytes(&format!("{number}.db")) == plain, "way {number}");
    }
    let left: Vec<_> = fs::read_dir(folder.0.path()).unwrap().collect();
    assert_eq!(left.len(), 1 + 1 + 2 + 8, "the spool has no name: {left:?}");
}

#[test]
fn a_refuted_guess_gives_what_a_survey_gives() {
    let folder = Folder::new();
    let report = folder.load("late.db", format!("{}x,y,1.25\n", numbers())).unwrap();
    let types: Vec<_> = report.columns.iter().map(|column| &column.declared_type[..]).collect();
    assert_eq!(types, ["TEXT", "TEXT", "REAL"]);
    let decided = report.columns[0].decided_by.as_ref().unwrap();
    assert_eq!((decided.line, decided.value.as_str()), (150_002, "x"));
    let early = folder.load("early.db", format!("id,a,b\nx,y,1.25\n{}", &numbers()[7..])).unwrap();
    assert_eq!(early.create_sql, report.create_sql);
    for name in ["late.db", "early.db"] {
        let sql = "SELECT count(*) || ' ' || sum(length(id)) || ' ' || sum(b) || ' ' || typeof(a)
                   FROM t";
        assert_eq!(ask(&folder.path(name), sql), "150001 788891 11250000001.25 text");
    }
}

#[test]
fn an_unsorted_key_does_not_hide_a_wrong_guess() {
    let folder = Folder::new();
    let mut input = "id,a,r\n5,1,1.5\n3,2,1.5\n".to_owned();
    for id in 10..120_000 {
        writeln!(input, "{id},{id},1.5").unwrap();
    }
    input.push_str("1,text,2.5x\n");
    let input = folder.write("in.csv", input);
    let report =
        Loader::new(folder.path("a.db")).table("t").primary_key("id").load_file(input).unwrap();
    assert_eq!(report.path, "sorted and pressed");
    let sql = "SELECT group_concat(a || r || typeof(a) || typeof(r)) FROM t WHERE id < 6";
    assert_eq!(ask(&folder.path("a.db"), sql), "text2.5xtexttext,21.5texttext,11.5texttext");
}

#[test]
fn a_real_by_the_callers_word_may_be_written_in_any_form() {
    let folder = Folder::new();
    let input = folder.write("in.csv", "a\n0\n654949.40\n7.0\n1e3\n");
    let loader = Loader::new(folder.path("a.db")).table("t");
    loader.column_type("a", ColumnType::Real).load_file(input).unwrap();
    let sql = "SELECT group_concat(a) FROM t";
    assert_eq!(ask(&folder.path("a.db"), sql), "0.0,654949.4,7.0,1000.0");
}

#[test]
fn a_field_of_twenty_megabytes_loads() {
    let folder = Folder::new();
    let long = "0123456789,\n\"\"".repeat(20_000_000 / 14);
    let report = folder.load("a.db", format!("a,b\n1,\"{long}\"\n2,z\n")).unwrap();
    assert_eq!(report.rows_loaded, 2);
    let sql = "SELECT group_concat(length(b)) FROM t";
    let expected = format!("{},1", long.len() / 14 * 13);
    assert_eq!(ask(&folder.path("a.db"), sql), expected);
    assert_eq!(ask(&folder.path("a.db"), "PRAGMA integrity_check"), "ok");
}

#[test]
fn inputs_without_rows_or_a_last_newline() {
    let folder = Folder::new();
    assert_eq!(folder.load("header.db", "a,b\n").unwrap().rows_loaded, 0);
    assert_eq!(folder.load("no_newline.db", "a,b").unwrap().rows_loaded, 0);
    assert_eq!(folder.load("one.db", "a,b\r\n1,").unwrap().rows_loaded, 1);
    assert_eq!(ask(&folder.path("one.db"), "SELECT a || quote(b) FROM t"), "1''");
    for (number, empty) in ["", "\n\r\n\n", "\u{feff}", "\u{feff}\n"].into_iter().enumerate() {
        let error = folder.load("empty.db", empty).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{error}");
        let columns = vec!["x".to_owned(), "y".to_owned()];
        let input = folder.write("in.csv", empty);
        let csv = CsvOptions::default().columns(columns);
        let loader = Loader::new(folder.path(&format!("named{number}.db"))).csv(csv);
        let report = loader.load_file(input).unwrap();
        assert_eq!((report.rows_read, report.columns.len()), (0, 2), "{empty:?}");
    }
    assert!(!folder.path("empty.db").exists());
}

#[test]
fn utf16_loads_where_it_is_asked_for() {
    let folder = Folder::new();
    let text = "\u{feff}name,n\ngr\u{fc}n \u{1f600},1\n";
    for (label, bytes) in [
        ("utf-16le", text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()),
        ("utf-16be", text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
    ] {
        let error = folder.load("a.db", &bytes).unwrap_err();
        assert!(error.to_string().contains(&format!("CsvOptions::encoding({label})")), "{error}");
        for asked in [label, "utf-16"] {
            let database = folder.path(&format!("{label}-{asked}.db"));
            let loader = Loader::new(&database).table("t");
            let loader = loader.csv(CsvOptions::default().encoding(asked));
            loader.load_file(folder.path("in.csv")).unwrap();
            assert_eq!(ask(&database, "SELECT name || n FROM t"), "gr\u{fc}n \u{1f600}1");
        }
    }
}

#[test]
fn a_marker_that_begins_with_the_escape_byte_is_one_unquoted_only() {
    let folder = tempdir().unwrap();
    let (input, database) = (folder.path().join("a.csv"), folder.path().join("a.db"));
    fs::write(&input, "a,b\n1,\\N\n2,\"x\\\"y\"\n3,N\n").unwrap();
    let csv = CsvOptions::default().escape(b'\\');
    Loader::new(&database).csv(csv).null_marker("\\N").load_file(&input).unwrap();
    let sql = "SELECT group_concat(coalesce(b, 'NULL'), ' ') FROM a";
    assert_eq!(ask(&database, sql), "NULL x\"y N");
}

#[test]
fn a_column_may_be_called_rowid() {
    let folder = tempdir().unwrap();
    let (input, database) = (folder.path().join("a.csv"), folder.path().join("a.db"));
    fs::write(&input, "rowid,b\n7,x\n5,y\n").unwrap();
    Loader::new(&database).load_file(&input).unwrap();
    assert_eq!(ask(&database, "SELECT group_concat(rowid || b, ' ') FROM a"), "7x 5y");
}
