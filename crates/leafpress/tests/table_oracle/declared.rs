//! Declared tables of all kinds, filled from CSV.

use std::fs;
use std::path::{Path, PathBuf};

use leafpress::Error;
use leafpress::load::{Loader, OnConflict, OnError, Report};
use proptest::prelude::*;
use proptest::sample::select;
use tempfile::tempdir;

use crate::judge::{Compare, Expected, assert_same, has_key, insert, open_sound};
use crate::schema::{Cell, Table, rows, table};

/// A table, rows for it, and how they are loaded.
#[derive(Clone)]
pub struct Case {
    pub table: Table,
    pub rows: Vec<Vec<Cell>>,
    pub on_conflict: OnConflict,
    pub skip: bool,
    pub threads: usize,
    pub memory_bytes: Option<usize>,
    pub page_bytes: u32,
    pub analyze: bool,
    /// Whether the input comes as a stream, which is read once.
    pub stream: bool,
}

impl std::fmt::Debug for Case {
    /// As short as a case that failed can be told.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            table,
            rows,
            on_conflict,
            skip,
            threads,
            memory_bytes,
            page_bytes,
            analyze,
            stream,
        } = self;
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        writeln!(
            f,
            "{on_conflict:?} skip {skip} threads {threads} memory {memory_bytes:?} page {page_bytes} \
             analyze {analyze} stream {stream}\n{}\n{}",
            table.sql,
            csv(&names, rows).0
        )
    }
}

pub fn case(len: usize) -> impl Strategy<Value = Case> {
    let tables = (table(), any::<bool>())
        .prop_map(|(table, is_numbered)| if is_numbered { table.without_rowids() } else { table });
    let rows = tables.prop_flat_map(move |table| {
        let rows = rows(&table.columns, len);
        (Just(table), rows)
    });
    let conflicts = select(vec![OnConflict::Abort, OnConflict::Ignore, OnConflict::Replace]);
    let how = (
        conflicts,
        prop::bool::weighted(0.6),
        1..5_usize,
        prop::option::of(select(vec![1_usize, 20_000, 200_000])),
        select(vec![512_u32, 1024, 4096, 65536]),
        prop::bool::weighted(0.3),
        any::<bool>(),
    );
    (rows, how).prop_map(
        |(
            (table, rows),
            (on_conflict, skip, threads, memory_bytes, page_bytes, analyze, stream),
        )| {
            // Without a key the choice is refused.
            let on_conflict = if has_key(&table.sql) { on_conflict } else { OnConflict::Abort };
            Case {
                table,
                rows,
                on_conflict,
                skip,
                threads,
                memory_bytes,
                page_bytes,
                analyze,
                stream,
            }
        },
    )
}

/// The rows as CSV, and in which line each begins.
pub fn csv(names: &[&str], rows: &[Vec<Cell>]) -> (String, Vec<u64>) {
    let field = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = names.iter().map(|name| field(name)).collect::<Vec<_>>().join(",");
    out.push('\n');
    let mut lines = Vec::new();
    for row in rows {
        lines.push(out.bytes().filter(|&byte| byte == b'\n').count() as u64 + 1);
        let fields = row.iter().map(|cell| cell.as_deref().map_or("\\N".to_owned(), field));
        out.push_str(&fields.collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    (out, lines)
}

impl Case {
    pub fn loader(&self, database: &Path, rejects: &Path) -> Loader {
        let on_error = if self.skip {
            OnError::Skip { rejects: Some(rejects.to_owned()), max_rejects: None }
        } else {
            OnError::Stop
        };
        let loader = Loader::new(database)
            .table("t")
            .declaration(&self.table.sql)
            .null_marker("\\N")
            .on_conflict(self.on_conflict)
            .on_error(on_error)
            .threads(self.threads)
            .page_size(self.page_bytes)
            .analyze(self.analyze);
        match self.memory_bytes {
            Some(bytes) => loader.memory(bytes),
            None => loader,
        }
    }
}

/// A load that was tried, in a folder of its own.
struct Tried {
    folder: tempfile::TempDir,
    outcome: Result<Report, Error>,
    lines: Vec<u64>,
}

impl Tried {
    fn of(case: &Case) -> Self {
        let folder = tempdir().unwrap();
        let names: Vec<&str> =
            case.table.columns.iter().map(|column| column.name.as_str()).collect();
        let (input, lines) = csv(&names, &case.rows);
        let loader = case.loader(&folder.path().join("a.db"), &folder.path().join("bad"));
        let outcome = if case.stream {
            loader.load_reader("in.csv", input.as_bytes())
        } else {
            fs::write(folder.path().join("in.csv"), &input).unwrap();
            let outcome = loader.load_file(folder.path().join("in.csv"));
            fs::remove_file(folder.path().join("in.csv")).unwrap();
            outcome
        };
        Self { folder, outcome, lines }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn assert_refused(tried: &Tried, expected: &Expected) {
    let error = tried.outcome.as_ref().expect_err("a bad row stops the load");
    let first = tried.lines[expected.refused[0]];
    assert!(tried.names().is_empty(), "{:?}", tried.names());
    let Some(bad) = error.bad_row() else { panic!("{error}") };
    // A row that is bad by itself is met before any two with the same key.
    let is_repeat = bad.reason.contains("already");
    let may_be = |place: &usize| tried.lines[*place] == bad.line;
    assert!(
        expected.refused.iter().any(may_be) || bad.line > first,
        "line {} is good: {error}",
        bad.line
    );
    if is_repeat {
        assert_eq!(bad.line - bad_offset(bad.line, &tried.lines), first, "{error}");
    }
}

/// How far into its row a line is.
fn bad_offset(line: u64, lines: &[u64]) -> u64 {
    line - lines.iter().copied().filter(|&start| start <= line).max().unwrap_or(line)
}

fn assert_loaded(case: &Case, tried: &Tried, expected: &Expected) {
    let report = tried.outcome.as_ref().unwrap_or_else(|error| panic!("{error}"));
    let found = open_sound(&tried.path("a.db"));
    let compare = Compare { analyze: case.analyze, ..Compare::default() };
    assert_same(&expected.database, &found, compare);
    let count: i64 =
        expected.database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(report.rows_read, case.rows.len() as u64, "rows read");
    assert_eq!(report.rows_loaded, count as u64, "rows loaded");
    assert_eq!(report.rows_rejected, expected.refused.len() as u64, "rows rejected");
    if case.on_conflict == OnConflict::Ignore {
        assert_eq!(report.rows_ignored, expected.ignored.len() as u64, "rows ignored");
    }
    if !case.skip {
        return assert_eq!(tried.names(), ["a.db"]);
    }
    if expected.refused.is_empty() {
        return assert_eq!(tried.names(), ["a.db"]);
    }
    assert_eq!(tried.names(), ["a.db", "bad", "bad.log"]);
    let log = fs::read_to_string(tried.path("bad.log")).unwrap();
    let starts: Vec<u64> = log.lines().map(|line| row_start(line, &tried.lines)).collect();
    let wanted: Vec<u64> = expected.refused.iter().map(|place| tried.lines[*place]).collect();
    assert_eq!(starts, wanted, "{log}");
}

/// The first line of the row that a line of the log names.
fn row_start(log: &str, lines: &[u64]) -> u64 {
    let after_name = log.split_once("in.csv:").expect("a name").1;
    let line: u64 = after_name.split_once(':').unwrap().0.parse().unwrap();
    line - bad_offset(line, lines)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(250)
    })]

    #[test]
    fn a_declared_table_is_what_inserts_make_of_it(case in case(60)) {
        check(&case);
    }
}

pub fn check(case: &Case) {
    let expected = insert(&case.table, &case.rows, case.on_conflict);
    let tried = Tried::of(case);
    if !case.skip && !expected.refused.is_empty() {
        assert_refused(&tried, &expected);
        return;
    }
    assert_loaded(case, &tried, &expected);
    let other = Case {
        threads: case.threads % 4 + 1,
        stream: !case.stream,
        memory_bytes: None,
        ..case.clone()
    };
    let other = Tried::of(&other);
    assert!(
        fs::read(tried.path("a.db")).unwrap() == fs::read(other.path("a.db")).unwrap(),
        "the file depends on threads or memory"
    );
}
