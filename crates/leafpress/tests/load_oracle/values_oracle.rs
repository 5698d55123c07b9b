//! Rows of values without declared types, against INSERTs of the same into the table that the
//! loader declares for them.

use std::fs;

use leafpress::ErrorKind;
use leafpress::load::{IntoTable, Loader, OnError, Value, ValueBatch, ValueRows};
use proptest::collection::vec;
use proptest::prelude::*;
use rusqlite::types::ToSql;
use rusqlite::{Connection, params_from_iter};
use tempfile::tempdir;

use crate::expected::assert_same_rows;
use crate::rows_oracle::{Owned, value};

/// Rows as a program gives them; `None` is a bad one.
struct Given {
    rows: std::vec::IntoIter<Option<Vec<Owned>>>,
    /// Number of columns so far.
    width: usize,
    batch_rows: usize,
}

impl Given {
    fn new(rows: &[Option<Vec<Owned>>], batch_rows: usize) -> Self {
        Self { rows: rows.to_vec().into_iter(), width: 0, batch_rows }
    }
}

fn names(width: usize) -> Vec<String> {
    (0..width).map(|column| format!("c{column}")).collect()
}

impl ValueRows for Given {
    fn columns(&self) -> Vec<String> {
        names(self.width)
    }

    fn fill(
        &mut self,
        batch: &mut ValueBatch,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        for row in self.rows.by_ref().take(self.batch_rows) {
            // What is put before a row turns out to be bad is forgotten.
            let Some(row) = row else {
                batch.put(Value::Integer(5));
                batch.bad_row("the sensor was off", "off");
                continue;
            };
            row.iter().for_each(|value| batch.put(value.borrow()));
            batch.end_row();
            self.width = self.width.max(row.len());
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn values_are_stored_as_sqlite_stores_them(
        rows in vec(prop::option::weighted(0.9, vec(value(), 0..5)), 1..60),
        batch_rows in 1..20_usize,
        threads in 1..4_usize,
        strict: bool,
    ) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("a.db");
        let good: Vec<&Vec<Owned>> = rows.iter().flatten().collect();
        let width = good.iter().map(|row| row.len()).max().unwrap_or(0);
        let loaded = Loader::new(&path)
            .strict(strict)
            .threads(threads)
            .on_error(OnError::Skip { rejects: None, max_rejects: None })
            .load_values("t", Given::new(&rows, batch_rows));
        if width == 0 {
            let error = loaded.unwrap_err();
            prop_assert!(matches!(error.kind(), ErrorKind::Input { .. }), "{}", error);
            prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
            return Ok(());
        }
        let report = loaded.unwrap();
        prop_assert_eq!((report.rows_read, report.rows_loaded), (rows.len() as u64, good.len() as u64));
        let bad = (1..).zip(&rows).filter(|(_, row)| row.is_none()).map(|(line, _)| line).take(10);
        let rejects = report.rejects.iter().map(|row| row.line).collect::<Vec<u64>>();
        prop_assert_eq!(rejects, bad.collect::<Vec<u64>>());
        let columns: Vec<_> = report.columns.iter().map(|column| column.name.clone()).collect();
        prop_assert_eq!(columns, names(width));

        let expected = Connection::open_in_memory().unwrap();
        expected.execute_batch(&format!("{}; BEGIN", report.create_sql)).unwrap();
        let insert = format!("INSERT INTO t VALUES ({})", vec!["?"; width].join(","));
        let mut insert = expected.prepare(&insert).unwrap();
        for row in good {
            let missing = std::iter::repeat_n(&Owned::Null, width - row.len());
            insert.execute(params_from_iter(row.iter().chain(missing).map(|it| it as &dyn ToSql))).unwrap();
        }
        let pressed = Connection::open(&path).unwrap();
        let check: String = pressed.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        prop_assert_eq!(check, "ok");
        assert_same_rows(&expected, &pressed, width);
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

fn keyed(keys: impl IntoIterator<Item = i64>) -> Given {
    let row = |key| Some(vec![Owned::Integer(key), Owned::Text(format!("value {key}"))]);
    Given::new(&keys.into_iter().map(row).collect::<Vec<_>>(), 100)
}

#[test]
fn rows_are_read_again_for_keys_and_for_a_table_that_is_there() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.db");
    let loader = || Loader::new(&path).table("t");
    let report = loader().primary_key("c0").load_values("rows", keyed((0..5000).rev())).unwrap();
    assert_eq!(report.rows_loaded, 5000);
    let append = || loader().into_table(IntoTable::Append);
    let error = append().load_values("rows", keyed([6000, 7000, 4999])).unwrap_err();
    assert_eq!(error.bad_row().map(|row| (row.file.as_str(), row.line)), Some(("rows", 3)));
    assert_eq!(error.sqlite_code(), Some(rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY));
    append().load_values("rows", keyed([6000, 7000])).unwrap();
    let repeated = Loader::new(folder.path().join("b.db")).primary_key("c0");
    let error = repeated.load_values("t", keyed([1, 2, 1])).unwrap_err();
    assert_eq!(error.bad_row().map(|row| row.line), Some(3), "{error}");
    let dry = loader().into_table(IntoTable::Upsert).dry_run_values("rows", keyed([1])).unwrap();
    assert_eq!((dry.rows_read, dry.would_reject), (1, 0));
    let database = Connection::open(&path).unwrap();
    let count: i64 = database.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 5002);
}

#[derive(Debug, thiserror::Error)]
#[error("the sensor is gone")]
struct Gone;

/// Rows that fail after some batches.
struct Failing(usize);

impl ValueRows for Failing {
    fn columns(&self) -> Vec<String> {
        names(1)
    }

    fn fill(
        &mut self,
        batch: &mut ValueBatch,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0 = self.0.checked_sub(1).ok_or(Gone)?;
        batch.put(Value::Integer(7));
        batch.end_row();
        Ok(())
    }
}

#[test]
fn an_error_of_the_rows_is_the_cause() {
    let folder = tempdir().unwrap();
    for batches in [0, 1, 5000] {
        let loader = Loader::new(folder.path().join("a.db"));
        let error = loader.load_values("t", Failing(batches)).unwrap_err();
        assert!(std::error::Error::source(&error).is_some_and(|it| it.is::<Gone>()), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
