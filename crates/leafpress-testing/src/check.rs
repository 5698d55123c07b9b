//! The judgements that every case has to pass.

use crate::oracle::{
    assert_integrity, assert_same_database, assert_same_records, insert_by_sqlite, open,
};
use crate::press::press;
use crate::schema::{Case, Table};
use rusqlite::Connection;

/// Presses a case and compares the file with what stock SQLite makes of it:
/// 1. `integrity_check` says ok;
/// 2. schema, rows and index entries are equal, by storage class and value;
/// 3. every stored record is equal byte for byte.
///
/// Returns the pressed bytes.
///
/// # Panics
///
/// At the first difference.
pub fn check_case(case: &Case) -> Vec<u8> {
    let bytes = press(case);
    let mut stock = insert_by_sqlite(case);
    assert_same_database(&open(&bytes), &stock);
    assert_same_records(&bytes, &mut stock);
    bytes
}

/// Presses a case and then uses the file: the same deletes, updates and
/// inserts, chosen by `seed`, leave it equal to the one that SQLite made,
/// before and after VACUUM.
///
/// # Panics
///
/// At the first difference.
pub fn check_usable(case: &Case, seed: u64) {
    let (pressed, stock) = (open(&press(case)), insert_by_sqlite(case));
    for db in [&pressed, &stock] {
        for (index, table) in case.tables.iter().enumerate() {
            change(db, table, seed.wrapping_add(index as u64));
        }
        db.execute_batch("CREATE TABLE added(a, b); INSERT INTO added VALUES(1, zeroblob(99999))")
            .expect("a new table");
    }
    assert_same_database(&pressed, &stock);
    for db in [&pressed, &stock] {
        db.execute_batch("VACUUM").expect("VACUUM");
        assert_integrity(db);
    }
    assert_same_database(&pressed, &stock);
}

/// Changes about half the rows, in a way that depends on their order only.
fn change(db: &Connection, table: &Table, seed: u64) {
    let name = &table.name;
    let (divisor, rest) = (2 + seed % 5, seed / 5 % 2);
    let numbered = if table.has_rowid() {
        format!("(rowid & 1023) % {divisor}")
    } else {
        format!("(length(quote({})) + 7) % {divisor}", table.columns[0].name)
    };
    let run = |sql: String| {
        db.execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    };
    run("BEGIN".to_owned());
    run(format!("DELETE FROM {name} WHERE {numbered} = {rest}"));
    if let Some(last) = table.columns.last()
        && table.has_rowid()
    {
        let column = &last.name;
        let grow = format!("CAST(coalesce({column}, 'x') AS BLOB) || zeroblob(700)");
        run(format!("UPDATE {name} SET {column} = {grow} WHERE {numbered} = {}", 1 - rest));
        let step = 3 + seed % 1000;
        run(format!(
            "INSERT OR IGNORE INTO {name}(rowid, {column})
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
             SELECT i * {step}, substr('abcdefghijklmnopqrstuvwxyz', 1, i % 27) FROM n"
        ));
    } else {
        let columns: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        let values = vec!["'new' || i"; columns.len()].join(", ");
        run(format!(
            "INSERT OR IGNORE INTO {name}({})
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
             SELECT {values} FROM n",
            columns.join(", ")
        ));
    }
    run("COMMIT".to_owned());
}
