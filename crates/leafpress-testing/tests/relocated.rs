//! Trees of pressed files moved to other page numbers, and judged by SQLite.
//!
//! Checked: moved into a database that SQLite made, they pass
//! `integrity_check`, hold the same rows and can be changed, also where SQLite
//! keeps a pointer map (auto-vacuum); under any permutation they come back
//! byte for byte; whatever is broken in a file gives an error or a move in
//! which no page is written twice.

use leafpress_format::{
    POINTER_MAP_ENTRY_BYTES, PageLayout, PageMover, PageOwner, PointerMap, RelocateError, relocate,
};
use leafpress_testing::{
    Case, OwnedValue, Recipe, assert_integrity, assert_same_index, assert_same_rows,
    empty_database, insert_by_sqlite, open, press, serialized, strategy,
};
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

/// Moves pages between files in memory; a broken promise is a panic.
struct Mover<'f> {
    layout: PageLayout,
    from: &'f [u8],
    to: Vec<u8>,
    /// By old number; 0 is for pages that are not to be moved.
    new_numbers: Vec<u32>,
    /// Old numbers in the order of their writing.
    written: Vec<u32>,
    seen: BTreeSet<u32>,
    owners: BTreeMap<u32, PageOwner>,
    last_read: u32,
}

impl<'f> Mover<'f> {
    fn new(layout: PageLayout, from: &'f [u8], to: Vec<u8>, new_numbers: Vec<u32>) -> Self {
        let (written, seen, owners) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        Self { layout, from, to, new_numbers, written, seen, owners, last_read: 0 }
    }
}

impl PageMover for Mover<'_> {
    type Error = std::convert::Infallible;

    fn read(&mut self, page: u32, into: &mut [u8]) -> Result<(), Self::Error> {
        let page_bytes = self.layout.page_bytes();
        into.copy_from_slice(&self.from[(page as usize - 1) * page_bytes..][..page_bytes]);
        self.last_read = page;
        Ok(())
    }

    fn new_number(&self, page: u32) -> u32 {
        assert_ne!(self.new_numbers[page as usize], 0, "page {page} is in no tree");
        self.new_numbers[page as usize]
    }

    fn write(&mut self, new_number: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        assert_eq!(self.new_number(self.last_read), new_number);
        assert!(self.seen.insert(self.last_read), "page {} twice", self.last_read);
        self.written.push(self.last_read);
        let at = (new_number as usize - 1) * self.layout.page_bytes();
        if self.to.len() < at + bytes.len() {
            self.to.resize(at + bytes.len(), 0);
        }
        self.to[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn owned_by(&mut self, new_number: u32, owner: PageOwner) {
        assert_eq!(self.owners.insert(new_number, owner), None, "owners of page {new_number}");
    }
}

fn page_count(layout: PageLayout, file: &[u8]) -> u32 {
    (file.len() / layout.page_bytes()) as u32
}

/// Everything keeps its number.
fn identity(layout: PageLayout, file: &[u8]) -> Vec<u32> {
    (0..=page_count(layout, file)).collect()
}

/// A tree as the schema names it.
struct Tree {
    kind: String,
    name: String,
    table: String,
    root: u32,
    sql: Option<String>,
}

fn trees(db: &Connection) -> Vec<Tree> {
    let sql = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE rootpage > 0";
    db.prepare(sql)
        .and_then(|mut rows| {
            rows.query_map([], |row| {
                let (kind, name, table) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(Tree { kind, name, table, root: row.get(3)?, sql: row.get(4)? })
            })?
            .collect()
        })
        .expect("sqlite_schema")
}

fn roots(trees: &[Tree]) -> Vec<u32> {
    trees.iter().map(|tree| tree.root).collect()
}

fn assert_same_trees(moved: &Connection, stock: &Connection, trees: &[Tree]) {
    for tree in trees {
        if tree.kind == "table" {
            assert_same_rows(moved, stock, &tree.name);
        } else {
            assert_same_index(moved, stock, &tree.table, &tree.name);
        }
    }
}

/// A database of SQLite's in which pages are in use already.
fn occupied(layout: PageLayout, filler_bytes: u32) -> Vec<u8> {
    let mut db = empty_database(layout);
    db.execute_batch("CREATE TABLE filler(b)").expect("CREATE");
    db.execute("INSERT INTO filler VALUES(zeroblob(?))", [filler_bytes]).expect("INSERT");
    serialized(&mut db)
}

/// Says how many pages the file has by now.
fn set_page_count(layout: PageLayout, file: &mut [u8]) {
    let pages = page_count(layout, file);
    file[28..32].copy_from_slice(&pages.to_be_bytes());
}

fn set_schema(db: &Connection, sql: &str, trees: &[Tree], root: impl Fn(u32) -> u32) {
    db.execute_batch("PRAGMA writable_schema=ON; BEGIN").expect("writable_schema");
    for Tree { kind, name, table, root: old_root, sql: create } in trees {
        let values: [&dyn rusqlite::ToSql; 5] = [kind, name, table, &root(*old_root), create];
        db.execute(sql, values).expect(sql);
    }
    db.execute_batch("COMMIT; PRAGMA writable_schema=RESET").expect("COMMIT");
}

/// Moves the trees of a case behind the pages of a database that SQLite made.
fn check_moved_in(case: &Case, filler_bytes: u32, skipped_tables: usize) {
    let layout = case.layout;
    let pressed = press(case);
    let mut trees = trees(&open(&pressed));
    let skipped = &case.tables[..skipped_tables.min(case.tables.len() - 1)];
    trees.retain(|tree| skipped.iter().all(|table| table.name != tree.table));
    let roots = roots(&trees);
    let count = page_count(layout, &pressed);

    let mut found = Mover::new(layout, &pressed, Vec::new(), identity(layout, &pressed));
    let pages = relocate(layout, count, &roots, &mut found).expect("a walk");
    assert_eq!(pages as usize, found.written.len());
    assert_eq!(found.owners.len(), found.written.len());
    found.written.sort_unstable();

    let into = occupied(layout, filler_bytes);
    let mut new_numbers = vec![0; count as usize + 1];
    for (new, &old) in (page_count(layout, &into) + 1..).zip(&found.written) {
        new_numbers[old as usize] = new;
    }
    let mut into = Mover::new(layout, &pressed, into, new_numbers.clone());
    relocate(layout, count, &roots, &mut into).expect("a move");
    let mut file = into.to;
    set_page_count(layout, &mut file);

    let (db, stock) = (open(&file), insert_by_sqlite(case));
    let insert = "INSERT INTO sqlite_schema VALUES(?1, ?2, ?3, ?4, ?5)";
    set_schema(&db, insert, &trees, |root| new_numbers[root as usize]);
    assert_integrity(&db);
    assert_same_trees(&db, &stock, &trees);
    for tree in trees.iter().filter(|tree| tree.kind == "table") {
        db.execute(&format!("DELETE FROM {}", tree.name), []).expect("DELETE");
    }
    db.execute_batch("DROP TABLE filler; CREATE TABLE more AS SELECT zeroblob(99999) AS b")
        .expect("a change");
    assert_integrity(&db);
}

/// Moves the trees of a case to an auto-vacuum database, onto the roots that
/// its CREATE statements made there.
fn check_moved_into_auto_vacuum(case: &Case, filler_bytes: u32) {
    let layout = case.layout;
    let pressed = press(case);
    let trees = trees(&open(&pressed));
    let count = page_count(layout, &pressed);
    let mut found = Mover::new(layout, &pressed, Vec::new(), identity(layout, &pressed));
    relocate(layout, count, &roots(&trees), &mut found).expect("a walk");

    let mut db = empty_database(layout);
    db.execute_batch("PRAGMA auto_vacuum=FULL; VACUUM; CREATE TABLE filler(b)").expect("filler");
    db.execute("INSERT INTO filler VALUES(zeroblob(?))", [filler_bytes]).expect("INSERT");
    for tree in &trees {
        db.execute_batch(tree.sql.as_deref().expect("SQL")).expect("CREATE");
    }
    let new_roots = self::trees(&db).into_iter().map(|tree| (tree.name, tree.root));
    let new_roots: BTreeMap<String, u32> = new_roots.collect();
    let into = serialized(&mut db);

    let map = PointerMap::new(layout);
    let first = page_count(layout, &into) + 1;
    let range = map.take_range(first, count).expect("numbers");
    let mut new_numbers = vec![0; count as usize + 1];
    for tree in &trees {
        new_numbers[tree.root as usize] = new_roots[&tree.name];
    }
    let mut index = 0;
    for old in found.written {
        if new_numbers[old as usize] == 0 {
            new_numbers[old as usize] = range.number(index);
            index += 1;
        }
    }
    let mut into = Mover::new(layout, &pressed, into, new_numbers);
    relocate(layout, count, &roots(&trees), &mut into).expect("a move");
    let Mover { to: mut file, owners, .. } = into;
    for (page, owner) in owners {
        let (map_page, at) = map.place(page).expect("a page of a tree");
        let at = (map_page as usize - 1) * layout.page_bytes() + at;
        file[at..at + POINTER_MAP_ENTRY_BYTES].copy_from_slice(&owner.pointer_map_entry());
    }
    set_page_count(layout, &mut file);

    let (db, stock) = (open(&file), insert_by_sqlite(case));
    let mode: i64 = db.query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).expect("mode");
    assert_eq!(mode, 1, "auto_vacuum");
    assert_integrity(&db);
    assert_same_trees(&db, &stock, &trees);
    // SQLite moves the last pages to the places that become free.
    db.execute_batch("DROP TABLE filler").expect("DROP");
    assert_integrity(&db);
    assert_same_trees(&db, &stock, &trees);
}

/// A permutation that `seed` stands for.
fn shuffle(pages: &mut [u32], mut seed: u64) {
    for at in (1..pages.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        pages.swap(at, (seed >> 33) as usize % (at + 1));
    }
}

/// Pages change places at random, which makes chains and trees that no writer
/// makes, and back again.
fn check_shuffled(case: &Case, seed: u64) {
    let layout = case.layout;
    let pressed = press(case);
    let trees = trees(&open(&pressed));
    let count = page_count(layout, &pressed);
    let mut found = Mover::new(layout, &pressed, Vec::new(), identity(layout, &pressed));
    relocate(layout, count, &roots(&trees), &mut found).expect("a walk");

    let mut shuffled = found.written.clone();
    shuffle(&mut shuffled, seed);
    let (mut there, mut back) = (vec![0; count as usize + 1], vec![0; count as usize + 1]);
    for (&old, &new) in found.written.iter().zip(&shuffled) {
        there[old as usize] = new;
        back[new as usize] = old;
    }
    let mut mover = Mover::new(layout, &pressed, pressed.clone(), there.clone());
    relocate(layout, count, &roots(&trees), &mut mover).expect("a move");
    let elsewhere = mover.to;

    let roots: Vec<u32> = trees.iter().map(|tree| there[tree.root as usize]).collect();
    let mut mover = Mover::new(layout, &elsewhere, elsewhere.clone(), back);
    relocate(layout, count, &roots, &mut mover).expect("a move back");
    assert!(mover.to == pressed, "the way back leads elsewhere");

    let db = open(&elsewhere);
    let sql = "UPDATE sqlite_schema SET rootpage = ?4
               WHERE type = ?1 AND name = ?2 AND tbl_name = ?3 AND sql IS ?5";
    set_schema(&db, sql, &trees, |root| there[root as usize]);
    assert_integrity(&db);
    assert_same_trees(&db, &insert_by_sqlite(case), &trees);
}

fn config(one_in: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig {
        cases: config.cases.div_ceil(one_in),
        max_shrink_iters: 2_000,
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config(8))]

    #[test]
    fn trees_move_into_a_database(
        recipe in strategy::recipes(), filler_bytes in 0_u32..5000, skipped_tables in 0_usize..3
    ) {
        check_moved_in(&recipe.resolve(), filler_bytes, skipped_tables);
    }

    #[test]
    fn trees_move_into_an_auto_vacuum_database(
        recipe in strategy::recipes(), filler_bytes in 0_u32..99_999
    ) {
        check_moved_into_auto_vacuum(&recipe.resolve(), filler_bytes);
    }

    #[test]
    fn pages_change_places_and_return(recipe in strategy::recipes(), seed: u64) {
        check_shuffled(&recipe.resolve(), seed);
    }

    #[test]
    fn broken_files_are_no_danger(
        recipe in strategy::recipes(),
        breaks in proptest::collection::vec((any::<u32>(), 0_usize..24, any::<u8>()), 1..6),
    ) {
        check_broken(&recipe, &breaks);
    }
}

/// Bytes near the front of pages change: kinds, counts, pointers, chains.
fn check_broken(recipe: &Recipe, breaks: &[(u32, usize, u8)]) {
    let case = recipe.resolve();
    let layout = case.layout;
    let mut file = press(&case);
    let roots = roots(&trees(&open(&file)));
    let count = page_count(layout, &file);
    for &(page, at, byte) in breaks {
        // Small numbers are page numbers that exist.
        let byte = if at % 4 == 3 { byte % count.min(255) as u8 } else { byte };
        file[(page % count) as usize * layout.page_bytes() + at] = byte;
    }
    let mut mover = Mover::new(layout, &file, Vec::new(), identity(layout, &file));
    let result = relocate(layout, count, &roots, &mut mover);
    if let Ok(moved) = result {
        assert_eq!(moved as usize, mover.written.len());
    }
}

/// A file with an interior root, leaves, and a chain of 20 overflow pages.
fn small_file() -> (PageLayout, Vec<u8>, u32) {
    let layout = PageLayout::new(512).expect("a page size");
    let mut file = leafpress_testing::PressedFile::in_memory(layout);
    let long = OwnedValue::Blob(vec![1; 10_000]);
    let short = OwnedValue::Blob(vec![2; 300]);
    let rows = [(1, [short.as_value()]), (2, [long.as_value()]), (3, [short.as_value()])];
    let root = file.table(1, 9, rows);
    file.add_table("t", "CREATE TABLE t(b)", root);
    (layout, file.into_bytes(), root)
}

fn problem_of(layout: PageLayout, file: &[u8], roots: &[u32]) -> &'static str {
    let mut mover = Mover::new(layout, file, Vec::new(), identity(layout, file));
    match relocate(layout, page_count(layout, file), roots, &mut mover) {
        Err(RelocateError::Malformed { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn malformed_files_are_refused() {
    let (layout, file, root) = small_file();
    let with = |page: u32, at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        let at = (page as usize - 1) * 512 + at;
        file[at..at + bytes.len()].copy_from_slice(bytes);
        problem_of(layout, &file, &[root])
    };
    let elsewhere = "it names a page that belongs elsewhere";
    let nowhere = "it names a page that no tree can have";
    // Page 2 is the first leaf, page 3 the next, its chain follows.
    assert_eq!(with(8, 0, &[0, 0, 0, 5]), elsewhere);
    assert_eq!(with(8, 0, &[0, 0, 0, 2]), elsewhere);
    assert_eq!(with(8, 0, &[0, 0, 0, 8]), elsewhere);
    assert_eq!(with(8, 0, &[0, 0, 0, 1]), nowhere);
    assert_eq!(with(8, 0, &[1, 0, 0, 0]), nowhere);
    assert_eq!(with(root, 8, &root.to_be_bytes()), elsewhere);
    assert_eq!(with(root, 0, &[7]), "it is no page of a tree");
    assert_eq!(with(2, 0, &[0]), "it is no page of a tree");
    assert_eq!(with(2, 3, &[1, 0]), "it has more cells than fit a page");
    assert_eq!(with(2, 8, &[0, 9]), "a cell lies among the pointers");
    assert_eq!(with(2, 8, &[2, 0]), "a cell goes beyond the page's end");
    assert_eq!(with(3, 0, &[5, 0, 0, 0, 0]), "it lies at another depth than its neighbours");
    assert_eq!(problem_of(layout, &file, &[root, root]), elsewhere);
    let no_root = "its first pages lead to one that no tree can have";
    assert_eq!(problem_of(layout, &file, &[1]), no_root);
    assert_eq!(problem_of(layout, &file, &[0]), no_root);
    assert_eq!(problem_of(layout, &file, &[10_000]), no_root);
    // The left-most child of the root is the root.
    let cell = root as usize * 512 - 512 + 12;
    let cell_at = usize::from(u16::from_be_bytes([file[cell], file[cell + 1]]));
    assert_eq!(with(root, cell_at, &root.to_be_bytes()), "the tree is deeper than any");
}

/// Pages of a pressed table come in the order of the file.
#[test]
fn tables_move_in_ascending_order() {
    let (layout, file, root) = small_file();
    let mut mover = Mover::new(layout, &file, Vec::new(), identity(layout, &file));
    relocate(layout, page_count(layout, &file), &[root], &mut mover).expect("a move");
    assert!(mover.written.is_sorted());
    assert!(mover.to[512..] == file[512..], "pages that keep their numbers change");
}
