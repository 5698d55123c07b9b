//! Shards from the outside: SQLite reads the parts, and judges them together.

mod reader;
mod runs;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use leafpress::load::{Loader, Value};
use leafpress::rusqlite::Connection;
use leafpress::rusqlite::types::Value as SqlValue;
use leafpress::{ErrorKind, Result};
use leafpress_shards::{Manifest, RouteBy, ShardReport, Sharder, Shards};
use proptest::prelude::*;
use tempfile::TempDir;

fn shard(folder: &Path, csv: &str, by: &str, parts: usize) -> Result<ShardReport> {
    let input = folder.join("input.csv");
    fs::write(&input, csv).expect("an input");
    let by: RouteBy = by.parse().expect("a rule");
    let shards = Shards::at(folder.join("out"))?;
    Sharder::new(shards, by, parts).run(|stage| stage.table("t").load_file(&input))
}

fn manifest(folder: &Path) -> Manifest {
    Shards::open(folder.join("out")).expect("shards").manifest().expect("a manifest")
}

/// All rows with their types, counted.
fn rows_of(path: &Path) -> BTreeMap<String, u32> {
    let connection = Connection::open(path).expect("a database");
    let mut statement = connection.prepare("SELECT * FROM t").expect("a statement");
    let columns = statement.column_count();
    let mut rows = statement.query([]).expect("rows");
    let mut counts = BTreeMap::new();
    while let Some(row) = rows.next().expect("a row") {
        let values: Vec<SqlValue> = (0..columns).map(|at| row.get(at).expect("a value")).collect();
        *counts.entry(format!("{values:?}")).or_insert(0) += 1;
    }
    counts
}

fn rows_of_all(folder: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for part in &manifest(folder).parts {
        for (row, count) in rows_of(&folder.join("out").join(&part.path)) {
            *counts.entry(row).or_insert(0) += count;
        }
    }
    counts
}

fn csv(rows: &[(i64, String, Option<f64>)]) -> String {
    let mut text = "id,name,size\n".to_owned();
    for (id, name, size) in rows {
        let size = size.map_or(String::new(), |size| size.to_string());
        let _ = writeln!(text, "{id},\"{}\",{size}", name.replace('"', "\"\""));
    }
    text
}

/// A text of the lines for these numbers.
fn lines(numbers: std::ops::Range<usize>, line: impl Fn(usize) -> String) -> String {
    numbers.map(line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The parts have the rows of one load, and each row is where its key leads.
    #[test]
    fn parts_hold_each_row_once(
        rows in prop::collection::vec((-50..50_i64, "[a-c\"é ]{0,6}", prop::option::of(-9.5..9.5_f64)), 0..200),
        by in prop::sample::select(vec!["hash(id)", "hash(name,id)", "hash(size)", "range(id)", "range(name)", "range(size)", "rows", "bytes"]),
        parts in 1..9_usize,
    ) {
        let folder = TempDir::new().expect("a folder");
        let text = csv(&rows);
        let report = shard(folder.path(), &text, by, parts).expect("a run");
        let whole = folder.path().join("whole.db");
        Loader::new(&whole).table("t").load_file(folder.path().join("input.csv")).expect("a load");
        prop_assert_eq!(rows_of_all(folder.path()), rows_of(&whole));
        prop_assert_eq!(report.rows, rows.len() as u64);

        let found = manifest(folder.path());
        let by: RouteBy = by.parse().expect("a rule");
        let columns: Vec<String> = by.columns().iter().map(|name| format!("\"{name}\"")).collect();
        for part in found.parts.iter().filter(|_| !columns.is_empty()) {
            let connection = Connection::open(folder.path().join("out").join(&part.path)).expect("a part");
            let mut statement = connection.prepare(&format!("SELECT {} FROM t", columns.join(","))).expect("SQL");
            let mut rows = statement.query([]).expect("rows");
            while let Some(row) = rows.next().expect("a row") {
                let key: Vec<SqlValue> = (0..columns.len()).map(|at| row.get(at).expect("a value")).collect();
                let key: Vec<Value<'_>> = key.iter().map(|value| match value {
                    SqlValue::Null => Value::Null,
                    SqlValue::Integer(integer) => Value::Integer(*integer),
                    SqlValue::Real(real) => Value::Real(*real),
                    SqlValue::Text(text) => Value::Text(text.as_bytes()),
                    SqlValue::Blob(blob) => Value::Blob(blob),
                }).collect();
                prop_assert_eq!(found.routing.part_of(&key, found.parts.len()), Some(part.part));
                if key[0] != Value::Null {
                    prop_assert!(part.smallest.compare(&key[0]).is_le());
                    prop_assert!(part.largest.compare(&key[0]).is_ge());
                }
            }
        }
        let verdict = Shards::open(folder.path().join("out")).expect("shards").verify(|| false).expect("a verdict");
        prop_assert!(verdict.sound, "{:?}", verdict.problems);
    }
}

#[test]
fn parts_have_keys_and_indexes_and_the_same_schema() {
    let folder = TempDir::new().expect("a folder");
    let input = folder.path().join("p.csv");
    let rows = lines(0..5000, |id| format!("{},n{}\n", id * 7919 % 5000, id % 10));
    fs::write(&input, format!("id,name\n{rows}")).expect("an input");
    let out = folder.path().join("out");
    let by = "hash(id)".parse().expect("a rule");
    Sharder::new(Shards::at(&out).expect("a folder"), by, 3)
        .threads(2)
        .with_parts(|loader| loader.primary_key("id").index("name").page_size(1024))
        .run(|stage| stage.load_file(&input))
        .expect("a run");
    let found = Shards::open(&out).and_then(|shards| shards.manifest()).expect("a manifest");
    assert_eq!(found.schema.sql.len(), 2, "{:?}", found.schema);
    for part in &found.parts {
        let connection = Connection::open(out.join(&part.path)).expect("a part");
        let schema = "SELECT group_concat(sql, ';') FROM sqlite_schema";
        let sql: String = connection.query_row(schema, [], |row| row.get(0)).expect("SQL");
        assert_eq!(sql, found.schema.sql.join(";"));
        assert_eq!((part.page_size, part.pages * 1024), (1024, part.bytes));
        // SQLite's own list of interior pages.
        let mut statement = connection
            .prepare("SELECT pageno FROM dbstat WHERE pagetype = 'internal' ORDER BY pageno")
            .expect("SQL");
        let pages = statement.query_map([], |row| row.get::<_, i64>(0)).expect("pages");
        let pages: Vec<i64> = pages.map(|page| page.expect("a page")).collect();
        let runs = part.interior_pages.as_ref().expect("they are known");
        // All of them: a small file has few runs.
        let recorded = runs.iter().flat_map(|run| run.first..run.first + run.pages);
        assert_eq!(recorded.map(|page| page as i64).collect::<Vec<_>>(), pages);
        assert!(!pages.is_empty());
    }
}

#[test]
fn rows_and_bytes_are_shared_evenly() {
    let folder = TempDir::new().expect("a folder");
    let text = lines(0..1000, |id| format!("{id},{}\n", "x".repeat(id / 10)));
    let report = shard(folder.path(), &format!("id,text\n{text}"), "rows", 7).expect("a run");
    assert!(report.rows_max - report.rows_min <= 1, "{report:?}");
    let report = shard(folder.path(), &format!("id,text\n{text}"), "bytes", 7).expect("a run");
    assert!(report.rows_min < 100 && report.rows_max > 200, "{report:?}");
    let report = shard(folder.path(), &format!("id,text\n{text}"), "range(id)", 10).expect("a run");
    assert_eq!((report.parts, report.rows_min, report.rows_max), (10, 100, 100));
}

#[test]
fn a_seed_without_a_hash_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let shards = Shards::at(folder.path().join("out")).expect("a folder");
    for by in ["rows", "bytes", "range(id)"] {
        let sharder = Sharder::new(shards.clone(), by.parse().expect("a rule"), 2).seed(5);
        let error = sharder.run(|_| unreachable!()).expect_err("there is no hash");
        assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
    }
    assert!(!shards.root().exists());
}
