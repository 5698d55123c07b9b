//! Bad rows among rows made in memory, and implementations of [`Row`] that break its rules.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use leafpress_format::Value;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::ErrorKind;
use crate::load::{
    Column, ColumnType, IntoTable, Loader, OnError, Report, Row, TypedRecord, Uuid7Form,
};

struct Case(TempDir);

impl Case {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn loader(&self) -> Loader {
        Loader::new(self.path("a.db")).table("t").threads(3)
    }

    fn skipping(&self) -> Loader {
        let rejects = Some(self.path("bad"));
        self.loader().on_error(OnError::Skip { rejects, max_rejects: None })
    }

    /// The lines of a file of rejects.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(name)).expect("the rejects");
        text.lines().map(str::to_owned).collect()
    }

    /// The result of a query, a row a line, from a database that is sound.
    fn rows(&self, sql: &str) -> Vec<String> {
        let connection = Connection::open(self.path("a.db")).expect("a database");
        let check = "PRAGMA integrity_check";
        let check = connection.query_row(check, [], |row| row.get::<_, String>(0));
        assert_eq!(check.as_deref(), Ok("ok"));
        let mut statement = connection.prepare(sql).expect("sql");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("a row")
    }
}

fn columns() -> [Column; 2] {
    [Column::new("id", ColumnType::Integer), Column::new("name", ColumnType::Text)]
}

type Values = Vec<Value<'static>>;

fn row(id: i64, name: &'static str) -> Values {
    vec![Value::Integer(id), Value::Text(name.as_bytes())]
}

/// Rows of which all but the first and the last are bad, each for another reason.
fn spoilt(first: i64) -> Vec<Values> {
    vec![
        row(first, "first"),
        vec![Value::Integer(7)],
        vec![Value::Null, Value::Text(b"no id")],
        vec![Value::Integer(8), Value::Text(b"\xff")],
        row(first + 1, "last"),
    ]
}

#[test]
fn bad_rows_are_left_out_as_those_of_a_file() {
    let case = Case::new();
    let loader = case.skipping().not_null("id").index("name").unique("id");
    let report = loader.load_parts(&columns(), vec![spoilt(1), spoilt(3)]).expect("a load");
    assert_eq!((report.rows_read, report.rows_loaded, report.rows_rejected), (10, 4, 6));
    let rows = case.rows("SELECT rowid || ' ' || id || ' ' || name FROM t ORDER BY rowid");
    assert_eq!(rows, ["1 1 first", "2 2 last", "3 3 first", "4 4 last"]);
    let by_index = case.rows("SELECT rowid || '' FROM t INDEXED BY t_name WHERE name = 'last'");
    assert_eq!(by_index, ["2", "4"]);
    let half =
        ["{\"id\":7}", "{\"id\":null,\"name\":\"no id\"}", "{\"id\":8,\"name\":\"\u{fffd}\"}"];
    assert_eq!(case.lines("bad"), [half, half].concat());
    let log = case.lines("bad.log");
    assert!(log[0].starts_with("<rows of part 0>:2:1: the row has 1 values"), "{log:?}");
    assert!(log[5].starts_with("<rows of part 1>:4:1: column \"name\": invalid UTF-8"), "{log:?}");
}

#[test]
fn rows_without_a_key_that_are_pressed_are_numbered_without_gaps() {
    let case = Case::new();
    let loader = case.skipping().not_null("id");
    let report = loader.load_parts(&columns(), vec![spoilt(1), spoilt(3)]).expect("a load");
    assert_eq!((report.rows_loaded, report.path.as_str()), (4, "pressed"));
    assert_eq!(case.rows("SELECT rowid || ' ' || id FROM t"), ["1 1", "2 2", "3 3", "4 4"]);
}

#[test]
fn bad_rows_with_keys_keep_their_places() {
    let case = Case::new();
    // Out of order behind a bad row: the rows before it are read again from their pages.
    let rows = vec![
        row(5, "e"),
        vec![Value::Null, Value::Text(b"?")],
        row(9, "i"),
        row(3, "c"),
        vec![Value::Text(b"x"), Value::Text(b"?")],
        row(9, "again"),
    ];
    let report = case.skipping().primary_key("id").load_rows(&columns(), rows).expect("a load");
    assert_eq!((report.rows_loaded, report.rows_rejected), (3, 3));
    assert_eq!(case.rows("SELECT id || name FROM t ORDER BY id"), ["3c", "5e", "9i"]);
    let bad = case.lines("bad");
    assert_eq!(bad[..2], ["{\"id\":null,\"name\":\"?\"}", "{\"id\":\"x\",\"name\":\"?\"}"]);
    assert_eq!(bad[2], "row 6 of its part", "its values are gone");
    let log = case.lines("bad.log");
    assert!(log[0].contains(":2:1: the primary key is no integer"), "{log:?}");
    assert!(log[2].contains(":6:1: column \"id\": line 3 has its primary key already"), "{log:?}");
}

#[test]
fn rows_for_a_table_that_is_there_are_left_out_too() {
    let case = Case::new();
    case.loader().strict(true).load_rows(&columns(), [(1_i64, "a")]).expect("a table");
    let append = case.skipping().into_table(IntoTable::Append);
    let rows = vec![row(2, "b"), vec![Value::Text(b"x"), Value::Null], row(3, "c")];
    let report = append.load_rows(&columns(), rows).expect("a load");
    assert_eq!((report.rows_loaded, report.rows_rejected), (2, 1));
    assert_eq!(case.rows("SELECT id || name FROM t"), ["1a", "2b", "3c"]);
    assert!(case.lines("bad").iter().all(|line| line.contains('x')), "{:?}", case.lines("bad"));
}

#[test]
fn keys_are_equal_as_the_table_that_is_there_stores_them() {
    for (mode, kept) in [(IntoTable::Upsert, "b"), (IntoTable::Ignore, "a")] {
        let case = Case::new();
        let make = "CREATE TABLE t(id INTEGER PRIMARY KEY, name)";
        Connection::open(case.path("a.db")).unwrap().execute_batch(make).unwrap();
        let columns = ["id", "name"].map(|name| Column::declared(name, ""));
        let rows = [(Value::Text(b"1"), "a"), (Value::Integer(1), "b")];
        case.loader().into_table(mode).load_rows(&columns, rows).expect("a load");
        assert_eq!(case.rows("SELECT id || name FROM t"), [format!("1{kept}")]);
    }
}

#[test]
fn settings_that_these_rows_cannot_follow_are_refused() {
    let case = Case::new();
    for (name, loader) in [
        ("drop_column", case.loader().drop_column("name")),
        ("select", case.loader().select("id")),
        ("rename", case.loader().rename("name", "n")),
        ("column_type", case.loader().boolean("id")),
        ("null_marker", case.loader().null_marker("a")),
        ("uuid7", case.loader().uuid7("key", Uuid7Form::Text)),
    ] {
        let error = loader.load_rows(&columns(), [(1_i64, "a")]).expect_err(name).to_string();
        assert!(error.contains(&format!("and {name} is for inputs")), "{error}");
        assert!(!case.path("a.db").exists());
    }
}

#[test]
fn more_bad_rows_than_allowed_and_texts_that_are_none_end_a_load() {
    let case = Case::new();
    let max_rejects = Some(2);
    let few = case.loader().on_error(OnError::Skip { rejects: None, max_rejects }).not_null("id");
    let error = few.load_rows(&columns(), spoilt(1)).expect_err("three bad rows").to_string();
    assert!(error.contains("<rows of part 0>:4"), "{error}");
    let rows = [(1_i64, Value::Text(b"ok")), (2, Value::Text(b"\xc3"))];
    let error = case.loader().load_rows(&columns(), rows).expect_err("no UTF-8").to_string();
    assert!(error.contains("<rows of part 0>:2:1: column \"name\": invalid UTF-8"), "{error}");
    assert!(!case.path("a.db").exists());
}

/// A row that breaks one rule of the trait.
struct Odd {
    columns: usize,
    content_bytes: usize,
    /// Columns that it writes, in this order.
    puts: &'static [usize],
    /// The value of the second column, which becomes this at the second call.
    changes_to: Option<Value<'static>>,
    calls: AtomicI64,
}

impl Default for Odd {
    fn default() -> Self {
        let calls = AtomicI64::new(0);
        Self { columns: 2, content_bytes: 4, puts: &[1, 0], changes_to: None, calls }
    }
}

impl Row for Odd {
    fn columns(&self) -> usize {
        self.columns
    }

    fn value(&self, column: usize) -> Value<'_> {
        let is_again = column == 1 && self.calls.fetch_add(1, Ordering::Relaxed) > 0;
        match self.changes_to.filter(|_| is_again) {
            Some(value) => value,
            None if column == 0 => Value::Integer(1),
            None => Value::Text(b"text"),
        }
    }

    fn content_bytes(&self) -> usize {
        self.content_bytes
    }

    fn write(&self, record: &mut TypedRecord<'_, '_>) {
        for &column in self.puts {
            record.put(column, self.value(column));
        }
    }
}

/// Bad rows without an end, which no good row interrupts.
#[test]
fn bad_rows_alone_end_with_a_limit_or_a_cancellation() {
    use crate::load::CancelToken;

    for keyed in [false, true] {
        let case = Case::new();
        let loader = || if keyed { case.loader().index("name") } else { case.loader() };
        let bad = || std::iter::repeat_with(|| vec![Value::Integer(1)]);
        let skip = |max_rejects| OnError::Skip { rejects: None, max_rejects };
        let limited = loader().on_error(skip(Some(10)));
        let error = limited.load_rows(&columns(), bad()).expect_err("there is a limit");
        let is_eleven = matches!(error.kind(), ErrorKind::TooManyRejects { rejected: 11, .. });
        assert!(is_eleven, "{error}");
        let token = CancelToken::new();
        let cancelled = loader().on_error(skip(None)).cancel(token.clone());
        let mut left = 100_000;
        let bad = bad().inspect(|_| {
            left -= 1;
            if left == 0 {
                token.cancel();
            }
        });
        let error = cancelled.load_rows(&columns(), bad).expect_err("it is cancelled");
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
        assert!(!case.path("a.db").exists());
    }
}

#[test]
fn a_load_that_is_cancelled_is_not_published() {
    use std::sync::atomic::AtomicUsize;

    use crate::load::CancelToken;

    // Rows that can be read after the look at the token.
    const READ_MORE_MAX: usize = 1;
    let names = ["plain", "sorted", "existing", "parts"];
    for (cancelled_at, name) in [0, 1, 5, 9_999].into_iter().flat_map(|at| names.map(|it| (at, it)))
    {
        let case = Case::new();
        let token = CancelToken::new();
        let loader = case.loader().cancel(token.clone());
        let loader = match name {
            "sorted" => loader.primary_key("id"),
            "existing" => {
                case.loader().load_rows(&columns(), [row(-1, "one")]).expect("a table");
                loader.into_table(IntoTable::Append)
            }
            _ => loader,
        };
        if cancelled_at == 0 {
            token.cancel();
        }
        let read = AtomicUsize::new(0);
        let rows = (1..=10_000).rev().map(|id| {
            if read.fetch_add(1, Ordering::Relaxed) + 1 == cancelled_at {
                token.cancel();
            }
            (id, "a name")
        });
        let outcome = match name {
            "parts" => loader.load_parts(&columns(), vec![rows]),
            _ => loader.load_rows(&columns(), rows),
        };
        let error = outcome.expect_err("it is cancelled");
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{name}: {error}");
        let read = read.into_inner();
        assert!(read <= cancelled_at + READ_MORE_MAX, "{name}: {read} rows");
        match name {
            "existing" => assert_eq!(case.rows("SELECT count(*) || '' FROM t"), ["1"]),
            _ => assert!(!case.path("a.db").exists(), "{name}"),
        }
    }
}

#[test]
fn a_reader_that_gives_little_at_a_time_can_be_cancelled() {
    use std::io::Read;

    use crate::load::CancelToken;

    struct Slow<'r>(&'r CancelToken, &'r mut usize);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            *self.1 += 1;
            if *self.1 == 50 {
                self.0.cancel();
            }
            // Ends, so that the test does too.
            Ok(if *self.1 < 10_000 { (&b"a,b\n"[..]).read(buffer)? } else { 0 })
        }
    }
    for name in ["t.csv", "t.ndjson"] {
        let (case, token, mut reads) = (Case::new(), CancelToken::new(), 0);
        let loader = case.loader().cancel(token.clone());
        let error = loader.load_reader(name, Slow(&token, &mut reads)).expect_err("cancelled");
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
        assert_eq!(reads, 50);
        assert!(!case.path("a.db").exists());
    }
}

#[test]
fn a_row_that_breaks_a_rule_of_its_trait_is_named() {
    let puts = |puts| Odd { puts, ..Odd::default() };
    let case = Case::new();
    let load = |loader: Loader, odd: Odd| -> String {
        let loaded: crate::Result<Report> = loader.load_rows(&columns(), [odd]);
        assert!(!case.path("a.db").exists());
        loaded.expect_err("it breaks a rule").to_string()
    };
    for keyed in [false, true] {
        let loader = |skips: bool| {
            let loader = if skips { case.skipping() } else { case.loader() };
            if keyed { loader.index("name") } else { loader }
        };
        for skips in [false, true] {
            for wrong in [&[1][..], &[0], &[], &[0, 1], &[1, 1, 0], &[2, 1, 0], &[1, 0, 0]] {
                let error = load(loader(skips), puts(wrong));
                assert!(error.contains("row 1 of part 1: Row::write"), "{wrong:?}: {error}");
            }
            let error = load(loader(skips), Odd { content_bytes: 3, ..Odd::default() });
            assert!(error.contains("Row::content_bytes"), "{error}");
        }
        let error = load(loader(false), Odd { content_bytes: 2_000_000_000, ..Odd::default() });
        assert!(error.contains("longer than SQLite's limit"), "{error}");
        assert!(error.contains("to do: each row") && error.contains("1 GB in all"), "{error}");
        let error = load(loader(false), Odd { columns: 3, ..Odd::default() });
        assert!(error.contains("3 values"), "{error}");
        let changes_to = Some(Value::Text(b"a longer text"));
        let error = load(loader(true), Odd { changes_to, ..Odd::default() });
        assert!(error.contains("Row::content_bytes"), "{error}");
        let changes_to = Some(Value::Text(b"\xff"));
        let error = load(loader(true), Odd { changes_to, ..Odd::default() });
        assert!(error.contains("Row::value"), "{error}");
    }
}

/// A column of numbers, and the part of a load whose rows these are.
fn numbers<'n>(numbers: impl Iterator<Item = i64> + Send + 'n) -> NumberPart<'n> {
    Box::new(numbers.map(|number| (number,)))
}

type NumberPart<'n> = Box<dyn Iterator<Item = (i64,)> + Send + 'n>;

/// Loads parts that panic; returns the message of the panic.
fn panic_of_parts(case: &Case, parts: Vec<NumberPart<'_>>) -> String {
    let columns = [Column::new("a", ColumnType::Integer)];
    let load = || case.loader().load_parts(&columns, parts).map(drop);
    let panic = catch_unwind(AssertUnwindSafe(load)).expect_err("a part panics");
    assert_eq!(fs::read_dir(case.0.path()).expect("the folder").count(), 0);
    panic.downcast_ref::<&str>().copied().unwrap_or("another one").to_owned()
}

#[test]
fn a_panic_in_a_part_keeps_its_message_on_each_thread() {
    let (test, begun) = (std::thread::current().id(), Barrier::new(2));
    for in_test in [false, true] {
        let part = |number| {
            if number == 0 {
                begun.wait();
                let panics = (std::thread::current().id() == test) == in_test;
                assert!(!panics, "as the part says");
            }
            number
        };
        let parts = vec![numbers((0..10).map(part)), numbers((0..10).map(part))];
        assert_eq!(panic_of_parts(&Case::new(), parts), "as the part says", "{in_test}");
    }
}

#[test]
fn a_panic_in_a_part_ends_those_behind_it() {
    const ROWS: i64 = 5_000_000;
    let (panics, taken) = (AtomicBool::new(false), AtomicI64::new(0));
    let first = |_| {
        panics.store(true, Ordering::Release);
        panic!("the first part")
    };
    let second = |number| {
        while !panics.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        taken.fetch_add(1, Ordering::Relaxed);
        number
    };
    let parts = vec![numbers((0..1).map(first)), numbers((0..ROWS).map(second))];
    assert_eq!(panic_of_parts(&Case::new(), parts), "the first part");
    assert!(taken.into_inner() < ROWS);
}

#[test]
fn fields_are_of_the_types_that_parameters_of_the_writer_have() {
    use std::borrow::Cow;
    use std::sync::Arc;

    let case = Case::new();
    assert!(format!("{:?}", case.loader()).contains("a.db"));
    let text = ColumnType::Text;
    let types = [ColumnType::Integer, text, text, ColumnType::Blob, text];
    let mut names = "abcde".chars();
    let columns = types.map(|it| Column::new(names.next().expect("a name"), it));
    let row =
        (-1_i8, Cow::from("cow"), Box::<str>::from("box"), [1_u8, 2], Arc::<str>::from("arc"));
    case.loader().load_rows(&columns, [row]).expect("a load");
    let values = case.rows("SELECT concat_ws(',', a, b, c, hex(d), e) FROM t");
    assert_eq!(values, ["-1,cow,box,0102,arc"]);
}

#[test]
fn advice_for_a_folder_names_the_call_for_its_files() {
    let case = Case::new();
    let error = case.loader().load_file(case.0.path()).expect_err("a folder").to_string();
    assert!(error.contains("name the files in it, or all of them with load_files"), "{error}");
}

/// Rows that tell a wrong number of them.
struct Told(std::vec::IntoIter<Values>, usize);

impl Iterator for Told {
    type Item = Values;

    fn next(&mut self) -> Option<Values> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

#[test]
fn parts_that_tell_a_wrong_number_of_rows_are_refused() {
    let rows = || vec![row(1, "a"), row(2, "b"), row(3, "c")].into_iter();
    for told in [2, 5] {
        for index in ["name", ""] {
            let case = Case::new();
            let loader = if index.is_empty() { case.loader() } else { case.loader().index(index) };
            let parts = vec![Told(rows(), told), Told(rows(), 3)];
            let error = loader.load_parts(&columns(), parts).expect_err("rows would share a rowid");
            let says = format!("<rows of part 0>: it has 3 rows, and its size_hint said {told}");
            assert!(error.to_string().contains(&says), "{error}");
        }
    }
    let case = Case::new();
    let parts = vec![Told(rows(), 3), Told(rows(), 9)];
    case.loader().index("name").load_parts(&columns(), parts).expect("no part is behind the last");
    assert_eq!(case.rows("SELECT count(*) || '' FROM t"), ["6"]);
}
