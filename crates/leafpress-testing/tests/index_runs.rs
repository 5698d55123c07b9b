//! Index and WITHOUT ROWID trees joined from runs, against stock SQLite.
//!
//! Checked for every split of the records into runs: `integrity_check`, the
//! rows by value, and that SQLite goes on inserting and deleting in the tree.
//! Runs of none, one and two entries come often, and so do records at the
//! thresholds of the format: where runs meet, a record is needed that stands
//! between them.

use leafpress_format::{PageLayout, Value, record};
use leafpress_testing::{PressedFile, assert_integrity, assert_same_database, open};
use proptest::collection::vec;
use proptest::prelude::*;
use rusqlite::Connection;

/// A key of its own, ascending with its number.
fn key(number: usize, bytes: usize) -> Vec<u8> {
    let mut key = (number as u32).to_be_bytes().to_vec();
    key.extend((4..bytes).map(|at| (at ^ number) as u8));
    key
}

/// Presses the keys into a WITHOUT ROWID table and into an index of a rowid table.
fn press(layout: PageLayout, keys: &[Vec<u8>], runs: &[usize]) -> Vec<u8> {
    let mut file = PressedFile::in_memory(layout);
    let runs = || runs.iter().copied();
    let rows = keys.iter().map(|key| record(&[Value::Blob(key), Value::Integer(1)]));
    let root = file.index(runs(), rows);
    file.add_table("w", WITHOUT_ROWID, root);
    let root = file.table(1, 100, (1..).zip(keys.iter().map(|key| [Value::Blob(key)])));
    file.add_table("r", ROWID, root);
    let entry = |(rowid, key): (i64, &Vec<u8>)| record(&[Value::Blob(key), Value::Integer(rowid)]);
    let root = file.index(runs(), (1..).zip(keys).map(entry));
    file.add_index("i", "r", INDEX, root);
    file.into_bytes()
}

const WITHOUT_ROWID: &str = "CREATE TABLE w(k BLOB PRIMARY KEY, n INT) WITHOUT ROWID";
const ROWID: &str = "CREATE TABLE r(k BLOB)";
const INDEX: &str = "CREATE INDEX i ON r(k)";

fn insert_by_sqlite(keys: &[Vec<u8>]) -> Connection {
    let db = Connection::open_in_memory().expect("open");
    db.execute_batch(&format!("BEGIN; {WITHOUT_ROWID}; {ROWID}; {INDEX}")).expect("schema");
    for key in keys {
        db.execute("INSERT INTO w VALUES(?, 1)", [key]).expect("w");
        db.execute("INSERT INTO r VALUES(?)", [key]).expect("r");
    }
    db.execute_batch("COMMIT").expect("COMMIT");
    db
}

/// Deletes, inserts and lengthens entries all over the trees.
fn change(db: &Connection) {
    db.execute_batch(
        "BEGIN;
         DELETE FROM w WHERE (length(k) + substr(hex(k), 7, 2)) % 3 = 0;
         DELETE FROM r WHERE rowid % 3 = 0;
         INSERT INTO w SELECT k || zeroblob(3), 2 FROM w WHERE substr(hex(k), 8, 1) < '8';
         INSERT INTO r SELECT k || zeroblob(900) FROM r WHERE rowid % 2;
         UPDATE w SET n = zeroblob(length(k) % 500) WHERE substr(hex(k), 8, 1) = '5';
         COMMIT",
    )
    .expect("a change");
}

fn check(layout: PageLayout, keys: &[Vec<u8>], runs: &[usize]) {
    let (pressed, stock) = (open(&press(layout, keys, runs)), insert_by_sqlite(keys));
    assert_same_database(&pressed, &stock);
    change(&pressed);
    change(&stock);
    assert_same_database(&pressed, &stock);
    pressed.execute_batch("DELETE FROM w; DELETE FROM r").expect("DELETE");
    assert_integrity(&pressed);
}

fn layouts() -> impl Strategy<Value = PageLayout> {
    let shifts = prop_oneof![4 => Just(0_u32), 1 => Just(3), 1 => Just(7), 1 => 0_u32..8];
    let reserved_bytes = prop_oneof![3 => Just(0_u8), 1 => 0_u8..=32];
    (shifts, reserved_bytes).prop_map(|(shift, reserved_bytes)| {
        PageLayout::with_reserved(512 << shift, reserved_bytes).expect("a page size")
    })
}

/// Record lengths as shares of the page's thresholds, or short.
fn lengths() -> impl Strategy<Value = Vec<(u8, usize)>> {
    let one = prop_oneof![
        6 => (Just(0_u8), 4_usize..40),
        3 => (Just(0_u8), 40_usize..200),
        1 => (1_u8..5, 0_usize..24),
    ];
    let all_long = vec((1_u8..4, 0_usize..24), 0..60);
    prop_oneof![2 => vec(one, 0..400), 1 => all_long]
}

fn key_bytes(layout: PageLayout, (threshold, bytes): (u8, usize)) -> usize {
    let usable = layout.usable();
    let base = match threshold {
        0 => 24,
        1 => (usable - 12) * 32 / 255 - 23,
        2 => (usable - 12) * 64 / 255 - 23,
        3 => usable - 4 + (usable - 12) * 32 / 255 - 23,
        _ => 3 * usable,
    };
    (base - 20 + bytes).max(4)
}

fn runs() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![2 => Just(1_usize), 1 => Just(0), 1 => Just(2), 2 => 3_usize..90];
    vec(length, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_in_any_runs(layout in layouts(), lengths in lengths(), runs in runs()) {
        let keys: Vec<Vec<u8>> = (0..)
            .zip(lengths)
            .map(|(number, length)| key(number, key_bytes(layout, length)))
            .collect();
        check(layout, &keys, &runs);
    }
}

/// Two runs that meet at every place of a tree of two levels.
#[test]
fn two_runs_meet_anywhere() {
    let layout = PageLayout::new(512).expect("a page size");
    for bytes in [30, 90, 300] {
        let keys: Vec<Vec<u8>> = (0..70).map(|number| key(number, bytes)).collect();
        let stock = insert_by_sqlite(&keys);
        for first in 0..=keys.len() {
            assert_same_database(&open(&press(layout, &keys, &[first])), &stock);
        }
    }
}

/// Runs of the same length each, and every number of entries.
#[test]
fn short_runs_of_any_number() {
    let layout = PageLayout::new(512).expect("a page size");
    for entries in 0..45 {
        let keys: Vec<Vec<u8>> = (0..entries).map(|number| key(number, 90)).collect();
        let stock = insert_by_sqlite(&keys);
        for run in 1..14 {
            let runs = vec![run; entries / run];
            assert_same_database(&open(&press(layout, &keys, &runs)), &stock);
        }
    }
}

/// A run of one entry with many overflow pages, among others and by itself,
/// as the first, the last, and as the separator.
#[test]
fn giant_entries_in_runs_of_their_own() {
    for page_bytes in [512, 4096, 65536] {
        let layout = PageLayout::new(page_bytes).expect("a page size");
        for giants in 0_u32..64 {
            let bytes = |number: usize| if giants >> number & 1 == 1 { 300_000 } else { 60 };
            let keys: Vec<Vec<u8>> = (0..6).map(|number| key(number, bytes(number))).collect();
            let pressed = open(&press(layout, &keys, &[1; 6]));
            assert_same_database(&pressed, &insert_by_sqlite(&keys));
        }
    }
}
