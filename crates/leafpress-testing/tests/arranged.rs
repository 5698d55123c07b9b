//! Databases arranged for readers at a distance, and judged by SQLite.
//!
//! Checked: of a pressed database and of one that SQLite filled, all rows, entries and the schema are
//! the same afterwards and `integrity_check` says ok; the schema and all interior pages lie in the
//! first run of pages; each chain of overflow pages is in one piece; the leaves of a tree ascend;
//! whatever is broken in a file gives an error or a file without a page that was written twice.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use leafpress_format::{Arrangement, PageLayout, SchemaEntry, SchemaKind};
use leafpress_testing::{
    Case, assert_integrity, assert_same_database, insert_by_sqlite, open, press, serialized,
    strategy,
};
use proptest::prelude::*;
use rusqlite::Connection;

fn schema_of(db: &Connection) -> Vec<SchemaEntry> {
    let sql = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema ORDER BY rowid";
    let mut statement = db.prepare(sql).expect(sql);
    let entries = statement.query_map([], |row| {
        let kind = match row.get::<_, String>(0)?.as_str() {
            "table" => SchemaKind::Table,
            "index" => SchemaKind::Index,
            "view" => SchemaKind::View,
            _ => SchemaKind::Trigger,
        };
        Ok(SchemaEntry {
            kind,
            name: row.get(1)?,
            table_name: row.get(2)?,
            root_page: row.get(3)?,
            sql: row.get(4)?,
        })
    });
    entries.and_then(Iterator::collect).expect(sql)
}

/// The arranged file, or what is wrong with the file.
fn arranged(layout: PageLayout, file: &[u8], schema: &[SchemaEntry]) -> Result<Vec<u8>, String> {
    let page_bytes = layout.page_bytes();
    let page_count = (file.len() / page_bytes) as u32;
    let roots: Vec<u32> = schema.iter().map(|it| it.root_page).filter(|&root| root != 0).collect();
    let read = |page: u32, into: &mut [u8]| -> Result<(), Infallible> {
        into.copy_from_slice(&file[(page as usize - 1) * page_bytes..][..page_bytes]);
        Ok(())
    };
    let mut found =
        Arrangement::find(layout, page_count, &roots, read).map_err(|error| error.to_string())?;
    let wanted = found.fitting_page_bytes().map_err(|error| error.to_string())?;
    assert!(wanted as usize >= page_bytes && wanted <= 65536, "{wanted}");
    let (mut out, mut seen) = (Vec::new(), BTreeSet::new());
    let pages = found
        .write(&mut schema.to_vec(), |number, page| {
            assert!(seen.insert(number), "page {number} twice");
            assert_eq!(page.len(), page_bytes);
            let at = (number as usize - 1) * page_bytes;
            if out.len() < at + page_bytes {
                out.resize(at + page_bytes, 0);
            }
            out[at..at + page_bytes].copy_from_slice(page);
            Ok(())
        })
        .map_err(|error| error.to_string())?;
    assert_eq!(out.len(), pages as usize * page_bytes);
    Ok(out)
}

/// A page as SQLite's own `dbstat` tells it.
#[derive(Debug)]
struct Page {
    number: u32,
    tree: String,
    path: String,
    kind: String,
}

fn pages(db: &Connection) -> Vec<Page> {
    let sql = "SELECT pageno, name, path, pagetype FROM dbstat";
    let mut statement = db.prepare(sql).expect(sql);
    let page = |row: &rusqlite::Row<'_>| {
        Ok(Page { number: row.get(0)?, tree: row.get(1)?, path: row.get(2)?, kind: row.get(3)? })
    };
    statement.query_map([], page).and_then(Iterator::collect).expect(sql)
}

/// The order of the pages is that of the drawing in `arrange.rs`.
fn assert_order(db: &Connection, layout: PageLayout) {
    let pages = pages(db);
    let is_front =
        |page: &&Page| page.kind == "internal" || page.path == "/" || page.tree == "sqlite_schema";
    let mut front: Vec<u32> = pages.iter().filter(is_front).map(|page| page.number).collect();
    front.sort_unstable();
    let run: Vec<u32> =
        (1..).filter(|&page| page != layout.lock_byte_page()).take(front.len()).collect();
    assert_eq!(front, run, "the front is not in one run");
    let last_of_front = front.last().copied().unwrap_or_default();
    let mut by_path: Vec<&Page> = pages.iter().filter(|it| it.tree != "sqlite_schema").collect();
    by_path.sort_by_key(|page| (&page.tree, steps(page)));
    for page in &by_path {
        assert!(is_front(page) || page.number > last_of_front, "{page:?} is in the front");
    }
    let mut chains = BTreeMap::<_, Vec<u32>>::new();
    for page in by_path.iter().filter(|page| page.kind == "overflow") {
        let head = page.path.split('+').next();
        chains.entry((&page.tree, head)).or_default().push(page.number);
    }
    for ((tree, head), chain) in chains {
        let is_piece = chain
            .windows(2)
            .all(|it| it[1] == it[0] + 1 + u32::from(it[0] + 1 == layout.lock_byte_page()));
        assert!(is_piece, "the chain of {tree}, {head:?}, is in pieces: {chain:?}");
    }
    let leaves: Vec<&&Page> =
        by_path.iter().filter(|page| page.kind == "leaf" && page.path != "/").collect();
    for neighbours in leaves.windows(2) {
        let [before, page] = neighbours else { continue };
        let ascends = before.tree != page.tree || before.number < page.number;
        assert!(ascends, "{page:?} lies before its neighbour");
    }
}

/// The way from the root to a page, and its place in a chain.
fn steps(page: &Page) -> Vec<u32> {
    let steps = page.path.split(['/', '+']).filter(|step| !step.is_empty());
    steps.map(|step| u32::from_str_radix(step, 16).expect("hexadecimal digits")).collect()
}

fn check(case: &Case) {
    let stock = insert_by_sqlite(case);
    let pressed = press(case);
    let by_sqlite = serialized(&mut insert_by_sqlite(case));
    for file in [pressed, by_sqlite] {
        let schema = schema_of(&open(&file));
        let db = open(&arranged(case.layout, &file, &schema).expect("a sound file"));
        assert_same_database(&db, &stock);
        assert_order(&db, case.layout);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_database_is_the_same_with_its_interior_pages_in_front(recipe in strategy::recipes()) {
        check(&recipe.resolve());
    }

    #[test]
    fn a_broken_file_gives_an_error_or_no_page_twice(
        recipe in strategy::recipes(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let case = recipe.resolve();
        let mut file = press(&case);
        let schema = schema_of(&open(&file));
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        // What is asserted stands in `arranged`.
        let _ = arranged(case.layout, &file, &schema);
    }
}

#[test]
fn scattered_chains_and_freed_pages_are_put_in_order() {
    let mut db = Connection::open_in_memory().unwrap();
    db.execute_batch(
        "PRAGMA page_size=1024; CREATE TABLE t(id INTEGER PRIMARY KEY, b); CREATE INDEX i ON t(b);
         CREATE VIEW v AS SELECT id FROM t; CREATE TABLE gone(b);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
             INSERT INTO t SELECT i, randomblob(i * 37 % 9000) FROM n;
         INSERT INTO gone SELECT b FROM t; DELETE FROM t WHERE id % 3 = 0;
         UPDATE t SET b = randomblob(7000) WHERE id % 5 = 0; DROP TABLE gone;
         INSERT INTO t SELECT id + 1000, randomblob(5000) FROM t;",
    )
    .unwrap();
    let rows = |db: &Connection| -> Vec<(i64, Vec<u8>)> {
        let mut all = db.prepare("SELECT id, b FROM t ORDER BY id").unwrap();
        all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).and_then(Iterator::collect).unwrap()
    };
    let before = rows(&db);
    let file = serialized(&mut db);
    let layout = PageLayout::new(1024).unwrap();
    // The control: SQLite's own order has neither.
    assert!(std::panic::catch_unwind(|| assert_order(&open(&file), layout)).is_err());
    let db = open(&arranged(layout, &file, &schema_of(&open(&file))).unwrap());
    assert_integrity(&db);
    assert_order(&db, layout);
    assert_eq!(rows(&db), before);
    let free: i64 = db.query_row("PRAGMA freelist_count", [], |row| row.get(0)).unwrap();
    assert_eq!(free, 0);
    db.execute_batch("DELETE FROM t; INSERT INTO t VALUES(1, zeroblob(99999))").unwrap();
    assert_integrity(&db);
}

#[test]
fn rows_that_would_fit_a_larger_page_ask_for_it() {
    let wanted = |row_bytes: i64, rows: i64| {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch("PRAGMA page_size=8192; CREATE TABLE t(id INTEGER PRIMARY KEY, b)")
            .unwrap();
        for _ in 0..rows {
            db.execute("INSERT INTO t(b) VALUES(zeroblob(?))", [row_bytes]).unwrap();
        }
        db.execute("INSERT INTO t(b) VALUES(zeroblob(12000))", []).unwrap();
        let file = serialized(&mut db);
        let layout = PageLayout::new(8192).unwrap();
        let read = |page: u32, into: &mut [u8]| -> Result<(), Infallible> {
            into.copy_from_slice(&file[(page as usize - 1) * 8192..][..8192]);
            Ok(())
        };
        let pages = (file.len() / 8192) as u32;
        let mut found = Arrangement::find(layout, pages, &[2], read).unwrap();
        found.fitting_page_bytes().unwrap()
    };
    assert_eq!(wanted(100, 500), 8192, "one long row in 500");
    assert_eq!(wanted(100, 50), 16384, "one long row in 50");
    assert_eq!(wanted(8000, 500), 8192);
    assert_eq!(wanted(9000, 500), 16384);
    assert_eq!(wanted(30_000, 50), 32768);
    assert_eq!(wanted(100_000, 50), 16384, "no page takes such rows, so only the other one counts");
}
