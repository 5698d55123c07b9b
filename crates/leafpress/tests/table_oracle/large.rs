//! Inputs of many blocks and batches: sorted by several threads, spilled.

use std::fmt::Write as _;
use std::fs;

use leafpress::load::{Loader, OnConflict, OnError};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

use crate::judge::{Compare, assert_same, open_sound};

/// So many that sorters of the least memory must spill.
const ROWS: u64 = 120_000;

/// Keys in no order, of which each comes about three times in some stretches.
fn key(row: u64) -> u64 {
    let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    if (row / 1000).is_multiple_of(7) { mixed % 20_000 } else { mixed }
}

struct Large {
    folder: TempDir,
}

impl Large {
    fn create(json: bool, sorted: bool) -> Self {
        let folder = tempdir().unwrap();
        let mut keys: Vec<u64> = (0..ROWS).map(key).collect();
        if sorted {
            keys.sort_unstable();
            keys.dedup();
        }
        let mut text = if json { String::new() } else { "k,n,filler\n".to_owned() };
        for (n, key) in keys.iter().enumerate() {
            let name = if key % 2 == 0 { "Key" } else { "kEY" };
            let filler = "x".repeat(60 + n % 60);
            if json {
                writeln!(text, r#"{{"k":"{name} {key}","n":{n},"filler":"{filler}"}}"#).unwrap();
            } else {
                writeln!(text, "{name} {key},{n},{filler}").unwrap();
            }
        }
        fs::write(folder.path().join("in"), text).unwrap();
        Self { folder }
    }

    fn load(&self, database: &str, how: impl FnOnce(Loader) -> Loader) -> leafpress::load::Report {
        let loader = Loader::new(self.folder.path().join(database)).table("t");
        how(loader).load_file(self.folder.path().join("in")).unwrap_or_else(|e| panic!("{e}"))
    }

    /// The rows in the declared table, by INSERTs in the input's order.
    fn inserted(&self, sql: &str, or: &str, then: &str) -> Connection {
        self.load("plain.db", |loader| loader);
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch(sql).unwrap();
        let plain = self.folder.path().join("plain.db");
        database.execute("ATTACH ? AS plain", [plain.to_str().unwrap()]).unwrap();
        database
            .execute_batch(&format!(
                "INSERT {or} INTO t SELECT * FROM plain.t WHERE true ORDER BY plain.t.rowid {then};
                 DETACH plain"
            ))
            .unwrap();
        database
    }
}

const DECLARATIONS: [&str; 3] = [
    "CREATE TABLE t (k TEXT COLLATE NOCASE, n INTEGER, filler TEXT, PRIMARY KEY (k DESC)) \
     WITHOUT ROWID; CREATE INDEX by_filler ON t (filler, n DESC)",
    "CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER, filler TEXT); \
     CREATE INDEX by_filler ON t (filler DESC)",
    "CREATE TABLE t (k TEXT, n INTEGER, filler TEXT); CREATE UNIQUE INDEX one ON t (k); \
     CREATE UNIQUE INDEX other ON t (n, filler); CREATE INDEX third ON t (k COLLATE NOCASE DESC)",
];

const CONFLICTS: [(OnConflict, &str, &str); 2] =
    [(OnConflict::Ignore, "", "ON CONFLICT DO NOTHING"), (OnConflict::Replace, "OR REPLACE", "")];

#[test]
fn what_is_spilled_comes_back_as_it_was() {
    for (number, (json, sql)) in [false, true].into_iter().zip(DECLARATIONS).enumerate() {
        let large = Large::create(json, false);
        let (on_conflict, or, then) = CONFLICTS[number % 2];
        let expected = large.inserted(sql, or, then);
        let tmpdir = large.folder.path().join("tmp");
        fs::create_dir(&tmpdir).unwrap();
        let load = |name: &str, threads, memory| {
            large.load(name, |loader| {
                let loader = loader.declaration(sql).on_conflict(on_conflict);
                loader.threads(threads).memory(memory).tmpdir(&tmpdir).analyze(true)
            })
        };
        let in_memory = load("a.db", 1, 1 << 30);
        let spilled = load("b.db", 4, 1 << 20);
        assert_eq!(in_memory.spilled_bytes, 0);
        assert!(spilled.spilled_bytes > 1 << 20, "{}", spilled.spilled_bytes);
        assert!(spilled.rows_ignored > 0);
        assert_eq!(fs::read_dir(&tmpdir).unwrap().count(), 0, "temporary files are left");
        let compare = Compare { analyze: true, ..Compare::default() };
        for name in ["a.db", "b.db"] {
            assert_same(&expected, &open_sound(&large.folder.path().join(name)), compare);
        }
    }
}

#[test]
fn unique_indexes_over_many_blocks_keep_what_inserts_keep() {
    let large = Large::create(false, false);
    for (on_conflict, or, then) in CONFLICTS {
        let expected = large.inserted(DECLARATIONS[2], or, then);
        fs::remove_file(large.folder.path().join("plain.db")).unwrap();
        let how = |loader: Loader| loader.declaration(DECLARATIONS[2]).on_conflict(on_conflict);
        large.load("a.db", |loader| how(loader).threads(3).memory(3 << 20));
        let path = large.folder.path().join("a.db");
        assert_same(&expected, &open_sound(&path), Compare::default());
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn rows_in_key_order_are_not_sorted_until_one_is_not() {
    let sql = "CREATE TABLE t (k TEXT, n INTEGER PRIMARY KEY, filler TEXT)";
    let large = Large::create(false, true);
    let expected = large.inserted(sql, "", "");
    let report = large.load("a.db", |loader| loader.declaration(sql).threads(2));
    assert_eq!(report.path, "pressed");
    assert_same(&expected, &open_sound(&large.folder.path().join("a.db")), Compare::default());

    let input = fs::read_to_string(large.folder.path().join("in")).unwrap();
    fs::write(large.folder.path().join("in"), input + "late,-1,x\n").unwrap();
    expected.execute_batch("INSERT INTO t VALUES ('late', -1, 'x')").unwrap();
    let report = large.load("b.db", |loader| loader.declaration(sql).threads(2));
    assert_eq!(report.path, "sorted and pressed");
    assert_same(&expected, &open_sound(&large.folder.path().join("b.db")), Compare::default());
}

#[test]
fn repeats_over_many_blocks_are_rejected_in_the_input_s_order() {
    let large = Large::create(false, false);
    let rejects = large.folder.path().join("bad");
    let report = large.load("a.db", |loader| {
        let on_error = OnError::Skip { rejects: Some(rejects.clone()), max_rejects: None };
        loader.declaration(DECLARATIONS[0]).on_error(on_error).threads(3).memory(2 << 20)
    });
    let expected = large.inserted(DECLARATIONS[0], "", "ON CONFLICT DO NOTHING");
    assert_same(&expected, &open_sound(&large.folder.path().join("a.db")), Compare::default());
    let left_out: Vec<u64> = fs::read_to_string(&rejects)
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1).unwrap().parse().unwrap())
        .collect();
    assert_eq!(left_out.len() as u64, report.rows_rejected);
    assert!(left_out.is_sorted() && left_out.len() > 1000, "{}", left_out.len());
    let log = fs::read_to_string(large.folder.path().join("bad.log")).unwrap();
    assert!(log.lines().all(|line| line.contains("has its primary key already")), "{log:.300}");
}
