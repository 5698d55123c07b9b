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
    fn new(rows: Vec<Option<Vec<Owned>>>, batch_rows: usize) -> Self {
        Self { rows: rows.into_iter(), width: 0, batch_rows }
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
            for value in &row {
                batch.put(value.borrow());
            }
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
            .load_values("t", Given::new(rows.clone(), batch_rows));
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
    Given::new(keys.into_iter().map(row).collect(), 100)
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
        let source = std::error::Error::source(&error);
        assert!(source.and_then(|it| it.downcast_ref::<Gone>()).is_some(), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// Rows of one batch, in two columns.
struct Batch(fn(&mut ValueBatch));

impl ValueRows for Batch {
    fn columns(&self) -> Vec<String> {
        names(2)
    }

    fn fill(
        &mut self,
        batch: &mut ValueBatch,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        std::mem::replace(&mut self.0, |_| ())(batch);
        Ok(())
    }
}

fn put_row(batch: &mut ValueBatch, values: &[Value<'_>]) {
    for value in values {
        batch.put(*value);
    }
    batch.end_row();
}

#[test]
fn a_row_that_fits_no_column_and_a_text_that_is_not_utf8_are_bad_rows() {
    let rows = |batch: &mut ValueBatch| {
        put_row(batch, &[Value::Integer(1), Value::Text(b"caf\xc3\xa9")]);
        put_row(batch, &[Value::Integer(2), Value::Text(b"caf\xe9")]);
        put_row(batch, &[Value::Integer(3), Value::Null, Value::Text(b"\xe9")]);
        put_row(batch, &[Value::Integer(4), Value::Blob(b"\xe9")]);
    };
    let reasons = [
        (2, "column \"c1\": invalid UTF-8: byte 0xe9"),
        (3, "the row has 3 values, but there are 2 columns"),
    ];
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.db");
    let error = Loader::new(&path).load_values("t", Batch(rows)).unwrap_err();
    let row = error.bad_row().map(|row| (row.line, row.reason.as_str()));
    assert_eq!(row, Some(reasons[0]), "{error}");
    assert!(!path.exists());
    // The second load reads the rows again, as the key is not in order.
    for key in [None, Some("c1")] {
        let mut loader = Loader::new(folder.path().join(format!("{}.db", key.unwrap_or("no"))));
        if let Some(key) = key {
            loader = loader.primary_key(key);
        }
        let skip = OnError::Skip { rejects: None, max_rejects: None };
        let report = loader.on_error(skip).load_values("t", Batch(rows)).unwrap();
        let found: Vec<_> =
            report.rejects.iter().map(|row| (row.line, row.reason.as_str())).collect();
        assert_eq!(found, reasons);
        assert_eq!(report.rejects[1].row, "{\"c0\":3,\"c1\":null,\"column3\":\"\u{fffd}\"}");
        assert_eq!(report.rows_loaded, 2);
    }
}

#[test]
fn a_row_that_is_not_ended_is_an_error() {
    let folder = tempdir().unwrap();
    for rows in [
        |batch: &mut ValueBatch| batch.put(Value::Integer(1)),
        |batch: &mut ValueBatch| {
            put_row(batch, &[Value::Integer(1)]);
            batch.put(Value::Integer(2));
        },
    ] {
        let loader = Loader::new(folder.path().join("a.db"));
        let error = loader.load_values("t", Batch(rows)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misuse { .. }), "{error:?}");
        assert!(error.to_string().contains("without end_row"), "{error}");
    }
}
