//! Sweeps over what random cases meet too seldom: each record length of a
//! small page, each number of rows around a new level, wide and short rows,
//! schemas of all sizes.

use leafpress_format::{PageLayout, SchemaKind, Value};
use leafpress_testing::{
    Affinity, Case, Collation, Column, Index, KeyColumn, OwnedValue, PressedFile, Row, Table,
    TableKind, assert_integrity, check_case, check_usable, insert_by_sqlite, open, serialized,
};

const KEY: KeyColumn =
    KeyColumn { column_index: 0, collation: Collation::Binary, descending: false };

fn layout(page_bytes: u32) -> PageLayout {
    PageLayout::new(page_bytes).expect("a page size")
}

/// A table of columns without a type, with these rows and rowids.
fn table(name: &str, columns: usize, rows: Vec<(i64, Vec<OwnedValue>)>) -> Table {
    Table {
        name: name.to_owned(),
        kind: TableKind::Rowid,
        columns: (0..columns)
            .map(|index| Column { name: format!("c{index}"), affinity: Affinity::Any })
            .collect(),
        comment_bytes: 0,
        rows: rows.into_iter().map(|(rowid, values)| Row { rowid, values }).collect(),
        runs: 1,
        indexes: Vec::new(),
    }
}

/// Keys of a length, ascending, no two equal.
fn key(number: usize, bytes: usize) -> OwnedValue {
    let digits = format!("{number:05}");
    let front = &digits[digits.len() - digits.len().min(bytes)..];
    OwnedValue::Text(front.to_owned() + &"k".repeat(bytes - front.len()))
}

/// Three kinds of trees from the same keys: a table, an index, a WITHOUT ROWID table.
fn three_trees(suffix: usize, rows: usize, bytes: usize) -> [Table; 2] {
    let values = |n: usize| vec![key(n, bytes)];
    let mut by_rowid =
        table(&format!("r{suffix}"), 1, (0..rows).map(|n| (n as i64 - 3, values(n))).collect());
    by_rowid.indexes.push(Index { name: format!("i{suffix}"), columns: vec![KEY] });
    by_rowid.runs = 1 + rows % 3;
    let rows = (0..rows).map(|n| (0, values(n))).collect();
    let mut by_key = table(&format!("w{suffix}"), 1, rows);
    by_key.kind = TableKind::WithoutRowid(vec![KEY]);
    [by_rowid, by_key]
}

#[test]
fn every_record_length_of_the_smallest_page() {
    for from in (5..1700).step_by(100) {
        let tables = (from..from + 100).flat_map(|bytes| three_trees(bytes, 6, bytes)).collect();
        check_case(&Case { layout: layout(512), tables });
    }
}

#[test]
fn record_lengths_around_every_threshold_of_all_pages() {
    for shift in 1..8 {
        let layout = layout(512 << shift);
        let usable = layout.usable();
        let least = (usable - 12) * 32 / 255 - 23;
        let index_most = (usable - 12) * 64 / 255 - 23;
        for base in [least, index_most, usable - 35, least + usable - 4, usable - 39 + usable] {
            // A record has 2 to 10 bytes besides its text.
            let lengths = base - 12..base + 3;
            let tables = lengths.flat_map(|bytes| three_trees(bytes, 4, bytes)).collect();
            check_case(&Case { layout, tables });
        }
    }
}

/// Reserved bytes move every threshold, and SQLite keeps them when it goes on.
#[test]
fn record_lengths_around_every_threshold_with_reserved_bytes() {
    for (page_bytes, reserved_bytes) in [(512, 1), (512, 32), (1024, 255), (4096, 8), (65536, 255)]
    {
        let layout = PageLayout::with_reserved(page_bytes, reserved_bytes).expect("a page size");
        let usable = layout.usable();
        let least = (usable - 12) * 32 / 255 - 23;
        let index_most = (usable - 12) * 64 / 255 - 23;
        for base in [least, index_most, usable - 35, least + usable - 4, usable - 39 + usable] {
            let lengths = base - 12..base + 3;
            let tables = lengths.flat_map(|bytes| three_trees(bytes, 4, bytes)).collect();
            let case = Case { layout, tables };
            let bytes = check_case(&case);
            let stock = serialized(&mut insert_by_sqlite(&case));
            assert_eq!((bytes[20], stock[20]), (reserved_bytes, reserved_bytes));
            for page in bytes.chunks_exact(layout.page_bytes()) {
                assert!(page[usable..].iter().all(|&byte| byte == 0), "reserved bytes are used");
            }
            check_usable(&case, base as u64);
        }
    }
}

/// A new interior page, and a new level, begin at every possible place: the
/// right edge must never be left without a cell.
#[test]
fn every_number_of_rows_of_an_index_with_long_keys() {
    for from in (0..420).step_by(60) {
        let tables = (from..from + 60).flat_map(|rows| three_trees(rows, rows, 90)).collect();
        check_case(&Case { layout: layout(512), tables });
    }
}

/// One row a leaf and rowids of nine bytes: 33 children an interior page, so
/// that the third level begins near 1,100 rows and the pages of the second
/// fill at every multiple of 33.
#[test]
fn every_number_of_leaves_around_a_new_level() {
    let rowid = |n: usize| (1_i64 << 60) + n as i64;
    let blob = vec![7; 400];
    for leaves in (0..140).chain(1085..1160) {
        let mut file = PressedFile::in_memory(layout(512));
        let rows = (0..leaves).map(|n| (rowid(n), [Value::Blob(&blob)]));
        let root = file.table(1, 50, rows);
        file.add_table("t", "CREATE TABLE t(b)", root);
        let db = open(&file.into_bytes());
        assert_integrity(&db);
        let (count, last): (i64, Option<i64>) = db
            .query_row("SELECT count(*), max(rowid) FROM t", [], |r| Ok((r.get(0)?, r.get(1)?)))
            .expect("count");
        assert_eq!((count, last), (leaves as i64, leaves.checked_sub(1).map(rowid)));
        for n in (0..leaves).step_by(37) {
            let found: bool = db
                .query_row("SELECT b = ? FROM t WHERE rowid = ?", (&blob, rowid(n)), |r| r.get(0))
                .expect("a row");
            assert!(found);
        }
    }
}

#[test]
fn wide_rows() {
    for columns in [1, 2, 63, 124, 125, 126, 127, 128, 129, 500, 1999, 2000] {
        let value = |n: usize| match n % 5 {
            0 => OwnedValue::Null,
            1 => OwnedValue::Integer(n as i64 * 1_000_003),
            2 => OwnedValue::Text("t".repeat(n % 70)),
            3 => OwnedValue::Blob(vec![n as u8; n % 9]),
            _ => OwnedValue::Real(n as f64 / 3.0),
        };
        let row = |rowid: i64| (rowid, (0..columns).map(|n| value(n + rowid as usize)).collect());
        for page_bytes in [512, 4096, 65536] {
            let wide = table("wide", columns, (0..8).map(row).collect());
            let nulls = table("nulls", columns, vec![(1, vec![OwnedValue::Null; columns])]);
            check_case(&Case { layout: layout(page_bytes), tables: vec![wide, nulls] });
        }
    }
}

/// Rows from before an `ALTER TABLE ADD COLUMN` have fewer columns than the
/// table: SQLite gives the rest their defaults.
#[test]
fn rows_with_fewer_columns_than_the_table() {
    let values = [Value::Integer(1), Value::Text(b"two"), Value::Real(3.5)];
    for columns in 1..=values.len() {
        let mut file = PressedFile::in_memory(layout(512));
        let rows = (1..=200).map(|rowid| (rowid, &values[..columns]));
        let root = file.table(3, 64, rows);
        file.add_table("t", "CREATE TABLE t(a DEFAULT 1, b DEFAULT 'two', c DEFAULT 3.5)", root);
        let db = open(&file.into_bytes());
        assert_integrity(&db);
        let sql = "SELECT count(*) FROM t WHERE a IS 1 AND b IS 'two' AND c IS 3.5";
        let count: i64 = db.query_row(sql, [], |row| row.get(0)).expect("count");
        assert_eq!(count, 200, "{columns} columns");
    }
}

/// The schema table on page 1, on page 1 and others, and so large that page 1
/// itself has to be split; at every number of entries up to there.
#[test]
fn schemas_of_every_size() {
    for (page_bytes, entries_max, step) in [(512, 300, 1), (1024, 60, 1), (4096, 2400, 401)] {
        for entries in (0..entries_max).step_by(step) {
            check_views(page_bytes, entries, |n| 60 + n % 13);
        }
    }
}

/// Statements so long that the schema table needs overflow pages.
#[test]
fn schema_statements_of_every_length() {
    for page_bytes in [512, 1024, 65536] {
        let base = page_bytes as usize - 260;
        for comment_bytes in base..base + 270 {
            check_views(page_bytes, 1 + comment_bytes % 3, |_| comment_bytes);
        }
    }
    check_views(512, 9, |n| n * 5000);
}

/// Presses an empty table and views of it, and lets SQLite parse them all.
fn check_views(page_bytes: u32, views: usize, comment_bytes: impl Fn(usize) -> usize) {
    let mut file = PressedFile::in_memory(layout(page_bytes));
    let root = file.table(1, 1, std::iter::empty::<(i64, [Value<'_>; 1])>());
    file.add_table("t", "CREATE TABLE t(a)", root);
    let sql = |n: usize| {
        let comment = "x".repeat(comment_bytes(n));
        format!("CREATE VIEW v{n} AS SELECT /*{comment}*/ {n}")
    };
    for n in 0..views {
        let name = format!("v{n}");
        file.add_entry(SchemaKind::View, &name, &name, &sql(n), 0);
    }
    let db = open(&file.into_bytes());
    assert_integrity(&db);
    let said: Vec<String> = db
        .prepare("SELECT sql FROM sqlite_schema WHERE type = 'view' ORDER BY rowid")
        .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect())
        .expect("views");
    assert!(said.iter().eq((0..views).map(sql).collect::<Vec<_>>().iter()), "{views} views");
    if let Some(last) = views.checked_sub(1) {
        let answer: i64 =
            db.query_row(&format!("SELECT * FROM v{last}"), [], |row| row.get(0)).expect("view");
        assert_eq!(answer, last as i64);
    }
    db.execute_batch("CREATE TABLE added(a); DROP TABLE t; VACUUM").expect("the schema changes");
    assert_integrity(&db);
}

#[test]
fn many_tables() {
    for (page_bytes, count) in [(512, 300), (4096, 60)] {
        let one = |n: usize| {
            let mut table = table(&format!("t{n}"), 2, Vec::new());
            table.rows.extend((0..n as i64 % 4).map(|rowid| Row {
                rowid,
                values: vec![OwnedValue::Integer(rowid - 1), OwnedValue::Text("x".repeat(n))],
            }));
            table.indexes.push(Index { name: format!("i{n}"), columns: vec![KEY] });
            table.comment_bytes = n * 3;
            table
        };
        check_case(&Case { layout: layout(page_bytes), tables: (0..count).map(one).collect() });
    }
}
