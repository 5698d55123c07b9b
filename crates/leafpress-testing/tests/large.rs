//! Files of more than 1 GiB, which must leave the lock-byte page alone
//! (`make test-large`; some seconds and 2 GB of disk each, one at a time).
//!
//! Each file is judged by `integrity_check`, which complains of a used
//! lock-byte page and of every page that is lost, and by its rows.

use leafpress_format::{LeafRun, PageLayout, TableBuilder, Value, record};
use leafpress_testing::{PressedFile, assert_integrity};
use rusqlite::Connection;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

type LargeFile = PressedFile<File>;

/// Tests run on several threads: the disk need not hold two files.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn lock_byte_page(layout: PageLayout) -> u32 {
    (1 << 30) / layout.page_bytes() as u32 + 1
}

/// Presses a file into a folder of its own and judges it.
fn with_large_file(
    page_bytes: u32,
    press: impl FnOnce(&mut LargeFile, PageLayout),
    judge: impl FnOnce(&Connection),
) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let layout = PageLayout::new(page_bytes).expect("a page size");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.db");
    let mut file = PressedFile::new(layout, File::create(&path).expect("create"));
    press(&mut file, layout);
    let bytes = file.finish().metadata().expect("metadata").len();
    assert!(bytes > 1 << 30, "{bytes} bytes do not cross the lock-byte page");
    let db = open_file(&path);
    assert_integrity(&db);
    judge(&db);
}

fn open_file(path: &Path) -> Connection {
    let db = Connection::open(path).expect("open");
    db.execute_batch("PRAGMA mmap_size=4294967296; PRAGMA synchronous=OFF").expect("pragmas");
    db
}

/// A blob that is unlike others, and nowhere periodic in whole pages.
fn blob(seed: i64, bytes: usize) -> Vec<u8> {
    let word = |n: usize| (n as u64 ^ (seed as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..bytes.div_ceil(8)).flat_map(|n| word(n).to_le_bytes()).take(bytes).collect()
}

/// Presses a table `t(b)` of one big blob a row; returns the lengths.
fn press_blobs(file: &mut LargeFile, layout: PageLayout, lengths: &[usize]) {
    let mut table = TableBuilder::new(layout);
    let mut run = LeafRun::new(layout, 1);
    for (rowid, &bytes) in (1..).zip(lengths) {
        run.clear();
        run.push_values(rowid, &[Value::Blob(&blob(rowid, bytes))]).expect("push");
        file.append(&mut table, &mut run);
    }
    let root = file.finish_table(table);
    file.add_table("t", "CREATE TABLE t(b)", root);
}

fn judge_blobs(db: &Connection, lengths: &[usize]) {
    let mut rows = db.prepare("SELECT rowid, b FROM t").expect("prepare");
    let mut rows = rows.query([]).expect("query");
    for (rowid, &bytes) in (1..).zip(lengths) {
        let row = rows.next().expect("next").expect("a row");
        assert_eq!(row.get::<_, i64>(0).expect("rowid"), rowid);
        let stored = row.get_ref(1).expect("b").as_blob().expect("a blob").to_vec();
        assert!(stored == blob(rowid, bytes), "row {rowid} differs");
    }
    assert!(rows.next().expect("next").is_none());
}

/// An overflow chain goes on behind the lock-byte page.
fn chain_straddles(page_bytes: u32) {
    let lengths = [90_000_000; 13];
    with_large_file(
        page_bytes,
        |file, layout| {
            press_blobs(file, layout, &lengths);
            assert!(file.next_page() > lock_byte_page(layout) + 1);
        },
        |db| judge_blobs(db, &lengths),
    );
}

#[test]
fn an_overflow_chain_straddles_the_lock_byte_page_512() {
    chain_straddles(512);
}

#[test]
fn an_overflow_chain_straddles_the_lock_byte_page_4096() {
    chain_straddles(4096);
}

#[test]
fn an_overflow_chain_straddles_the_lock_byte_page_65536() {
    chain_straddles(65536);
}

/// Fills a file so that `pages_left` pages remain before the lock-byte page.
fn fill(file: &mut LargeFile, layout: PageLayout, pages_left: u32) {
    const PAGES_PER_ROW: u32 = 1500;
    // A leaf and full overflow pages a row; the root takes one page more.
    let mut pages = lock_byte_page(layout) - file.next_page() - pages_left - 1;
    let mut lengths = Vec::new();
    while pages > 0 {
        let row_pages = if pages <= PAGES_PER_ROW + 1 { pages } else { PAGES_PER_ROW };
        lengths.push((row_pages as usize - 1) * (layout.usable() - 4));
        pages -= row_pages;
    }
    press_blobs(file, layout, &lengths);
    let next_page = lock_byte_page(layout) - pages_left;
    assert_eq!(file.next_page(), if pages_left == 0 { next_page + 1 } else { next_page });
}

/// The lock-byte page comes right after, before or within what an index is made of:
/// leaves, interior pages and the overflow pages of its keys.
#[test]
fn an_index_meets_the_lock_byte_page() {
    for pages_left in [0, 1, 2, 7] {
        let keys: Vec<String> =
            (0..40).map(|n| format!("{n:04}{}", "k".repeat(n % 4 * 70_000))).collect();
        with_large_file(
            65536,
            |file, layout| {
                fill(file, layout, pages_left);
                let root = file
                    .index([0, 7, 1], keys.iter().map(|key| record(&[Value::from(key.as_str())])));
                let sql = "CREATE TABLE w(k PRIMARY KEY) WITHOUT ROWID";
                file.add_table("w", sql, root);
            },
            |db| {
                let stored: Vec<String> = db
                    .prepare("SELECT k FROM w")
                    .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect())
                    .expect("keys");
                assert!(stored == keys, "{pages_left} pages left");
                db.execute_batch("DELETE FROM t WHERE rowid < 4; INSERT INTO w VALUES('new')")
                    .expect("a change");
                assert_integrity(db);
            },
        );
    }
}

const ORDINARY_ROWS: i64 = 4_200_000;
const ROWS_PER_RUN: i64 = 20_000;

fn ordinary_name(rowid: i64) -> String {
    format!("name {:>1$}", rowid * 7919 % 1_000_003, 200 + (rowid % 90) as usize)
}

/// A run of ordinary rows, as a worker makes it.
fn ordinary_run(layout: PageLayout, first: i64) -> LeafRun {
    let mut run = LeafRun::new(layout, 4);
    for rowid in first..(first + ROWS_PER_RUN).min(ORDINARY_ROWS + 1) {
        let name = ordinary_name(rowid);
        let values = [
            Value::Null,
            Value::from(name.as_str()),
            Value::Integer(rowid % 100),
            Value::Real(0.5),
        ];
        run.push_values(rowid, &values).expect("push");
    }
    run.close();
    run
}

/// Two workers press runs of a table; an index follows behind 1 GiB.
#[test]
fn ordinary_rows_in_many_runs() {
    with_large_file(
        4096,
        |file, layout| {
            let mut table = TableBuilder::new(layout);
            for first in (1..=ORDINARY_ROWS).step_by(2 * ROWS_PER_RUN as usize) {
                let (mut one, mut two) = std::thread::scope(|scope| {
                    let two = scope.spawn(|| ordinary_run(layout, first + ROWS_PER_RUN));
                    (ordinary_run(layout, first), two.join().expect("a worker"))
                });
                file.append(&mut table, &mut one);
                file.append(&mut table, &mut two);
            }
            assert!(file.next_page() > lock_byte_page(layout));
            let root = file.finish_table(table);
            let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, name, age, share)";
            file.add_table("p", sql, root);
            let by_age = (0..100).flat_map(|age| {
                let first = if age == 0 { 100 } else { age };
                let rowids = (first..=ORDINARY_ROWS).step_by(100);
                rowids.map(move |rowid| record(&[age.into(), rowid.into()]))
            });
            let root = file.index([300_000; 13], by_age);
            file.add_index("p_age", "p", "CREATE INDEX p_age ON p(age)", root);
        },
        |db| {
            let sql = "SELECT count(*), sum(id), sum(age), total(share), count(DISTINCT id) FROM p";
            let sums: (i64, i64, i64, f64) = db
                .query_row(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)))
                .expect("sums");
            let ids = ORDINARY_ROWS * (ORDINARY_ROWS + 1) / 2;
            let ages = ORDINARY_ROWS / 100 * 4950;
            assert_eq!(sums, (ORDINARY_ROWS, ids, ages, ORDINARY_ROWS as f64 / 2.0));
            let mut find = db.prepare("SELECT name FROM p WHERE id = ?").expect("prepare");
            for rowid in (1..=ORDINARY_ROWS).step_by(997) {
                let name: String = find.query_row([rowid], |row| row.get(0)).expect("a row");
                assert_eq!(name, ordinary_name(rowid));
            }
        },
    );
}
