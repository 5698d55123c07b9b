//! Stock SQLite: it inserts the same rows and judges.

use crate::reader::{Entry, StoredColumn, TreeReader};
use crate::schema::{Case, Table, TableKind};
use leafpress_format::PageLayout;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, ToSql, params_from_iter};

/// Opens a file's bytes with the bundled SQLite.
///
/// # Panics
///
/// If SQLite refuses them.
pub fn open(bytes: &[u8]) -> Connection {
    let mut db = Connection::open_in_memory().expect("open");
    db.deserialize_read_exact("main", bytes, bytes.len(), false).expect("deserialize");
    db
}

/// The bytes of a database in memory.
///
/// # Panics
///
/// If SQLite does not give them.
pub fn serialized(db: &mut Connection) -> Vec<u8> {
    db.serialize("main").expect("serialize").to_vec()
}

/// An empty database in memory that SQLite has laid out itself.
///
/// # Panics
///
/// If SQLite refuses it.
pub fn empty_database(layout: PageLayout) -> Connection {
    let mut db = Connection::open_in_memory().expect("open");
    let page_bytes = layout.page_bytes();
    // Setting anything writes page 1.
    let sql = format!("PRAGMA page_size={page_bytes}; PRAGMA user_version=0");
    db.execute_batch(&sql).expect("page size");
    if layout.reserved_bytes() == 0 {
        return db;
    }
    // Only SQLite's C interface reserves bytes: say so in the header, and let
    // the empty schema table's content start where the usable page ends.
    let mut bytes = serialized(&mut db);
    bytes[20] = layout.reserved_bytes();
    bytes[105..107].copy_from_slice(&(layout.usable() as u16).to_be_bytes());
    open(&bytes)
}

/// A database in memory with a case's tables, indexes and rows, by INSERTs.
///
/// # Panics
///
/// If SQLite refuses a statement.
pub fn insert_by_sqlite(case: &Case) -> Connection {
    let db = empty_database(case.layout);
    db.execute_batch("BEGIN").expect("BEGIN");
    for table in &case.tables {
        db.execute_batch(&table.create_sql()).expect("CREATE TABLE");
        insert_rows(&db, table);
        // Later than the rows: an INSERT that also feeds an index on a REAL
        // column stores integral reals in eight bytes instead of fewer.
        for index in &table.indexes {
            db.execute_batch(&table.create_index_sql(index)).expect("CREATE INDEX");
        }
    }
    db.execute_batch("COMMIT").expect("COMMIT");
    db
}

fn insert_rows(db: &Connection, table: &Table) {
    let mut names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    match table.kind {
        TableKind::Rowid => names.insert(0, "rowid"),
        TableKind::RowidAlias => names.insert(0, "id"),
        TableKind::WithoutRowid(_) => {}
    }
    let marks = vec!["?"; names.len()].join(",");
    let sql = format!("INSERT INTO {}({}) VALUES({marks})", table.name, names.join(","));
    let mut insert = db.prepare(&sql).expect("INSERT");
    for row in &table.rows {
        let rowid: &dyn ToSql = &row.rowid;
        let rowid = table.has_rowid().then_some(rowid);
        let values = row.values.iter().map(|value| value as &dyn ToSql);
        insert.execute(params_from_iter(rowid.into_iter().chain(values))).expect("INSERT");
    }
}

/// `PRAGMA integrity_check` says ok.
///
/// # Panics
///
/// With what it says, if it says anything else.
pub fn assert_integrity(db: &Connection) {
    let mut check = db.prepare("PRAGMA integrity_check").expect("integrity_check");
    let said: Vec<String> =
        check.query_map([], |row| row.get(0)).and_then(Iterator::collect).expect("integrity_check");
    assert_eq!(said, ["ok"], "integrity_check");
}

/// Asserts that both tables have equal rows in one order, by storage class and value.
///
/// # Panics
///
/// At the first difference.
pub fn assert_same_rows(pressed: &Connection, stock: &Connection, table: &str) {
    let sql = "SELECT wr FROM pragma_table_list WHERE name = ?";
    let without_rowid: bool = stock.query_row(sql, [table], |row| row.get(0)).expect("table_list");
    // NOT INDEXED: an index that covers the columns must not answer for the table.
    let from = format!("FROM \"{table}\" NOT INDEXED");
    assert_same_answer(pressed, stock, &format!("SELECT * {from}"));
    // Apart from the columns: 2,000 of them leave no room for it.
    if !without_rowid {
        assert_same_answer(pressed, stock, &format!("SELECT rowid {from}"));
    }
}

/// Asserts that both indexes have equal entries in one order, read from the index alone.
///
/// # Panics
///
/// At the first difference.
pub fn assert_same_index(pressed: &Connection, stock: &Connection, table: &str, index: &str) {
    let sql = "SELECT coalesce(name, 'rowid') FROM pragma_index_xinfo(?)";
    let columns: Vec<String> = stock
        .prepare(sql)
        .and_then(|mut columns| columns.query_map([index], |row| row.get(0))?.collect())
        .expect("index_xinfo");
    let sql = format!("SELECT {} FROM \"{table}\" INDEXED BY \"{index}\"", columns.join(", "));
    assert_same_answer(pressed, stock, &sql);
}

/// Asserts that both schemas are equal, root pages aside.
///
/// # Panics
///
/// At the first difference.
pub fn assert_same_schema(pressed: &Connection, stock: &Connection) {
    let sql = "SELECT rowid, type, name, tbl_name, rootpage = 0, sql FROM sqlite_schema";
    assert_same_answer(pressed, stock, sql);
}

/// Asserts that schema, tables and indexes are equal, and that the pressed file is sound.
///
/// # Panics
///
/// At the first difference.
pub fn assert_same_database(pressed: &Connection, stock: &Connection) {
    assert_integrity(pressed);
    assert_same_schema(pressed, stock);
    for (kind, name, table, _) in trees(stock) {
        if kind == "table" {
            assert_same_rows(pressed, stock, &name);
        } else {
            assert_same_index(pressed, stock, &table, &name);
        }
    }
}

fn trees(db: &Connection) -> Vec<(String, String, String, u32)> {
    let sql = "SELECT type, name, tbl_name, rootpage FROM sqlite_schema WHERE rootpage > 0";
    db.prepare(sql)
        .and_then(|mut trees| {
            trees
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
                .collect()
        })
        .expect("sqlite_schema")
}

/// Every record of every tree is the same byte for byte: nothing is stored
/// that SQLite reads but would not write.
///
/// With one exception. Where a REAL column is part of an index entry or of a
/// WITHOUT ROWID row, SQLite stores an integral value now as an integer, now
/// as a float, depending on what its registers went through. There the pressed
/// record may have the integer, as SQLite's tables have.
///
/// # Panics
///
/// At the first difference.
pub fn assert_same_records(pressed: &[u8], stock: &mut Connection) {
    let stock_trees = trees(stock);
    let stock = serialized(stock);
    let (pressed_file, stock_file) = (TreeReader::new(pressed), TreeReader::new(&stock));
    for (tree, stock_tree) in trees(&open(pressed)).into_iter().zip(stock_trees) {
        let entries = pressed_file.entries(tree.3);
        let expected = stock_file.entries(stock_tree.3);
        assert_eq!(entries.len(), expected.len(), "entries of {}", tree.1);
        for (index, (entry, expected)) in entries.iter().zip(&expected).enumerate() {
            let same =
                entry == expected || entry.rowid.is_none() && same_but_reals(entry, expected);
            assert!(same, "entry {index} of {}: {entry:x?}, stock {expected:x?}", tree.1);
        }
    }
}

/// Equal, or an integer where SQLite has a float of the same value.
fn same_but_reals(pressed: &Entry, stock: &Entry) -> bool {
    let (pressed, stock) = (pressed.columns(), stock.columns());
    let same = |(a, b): (&StoredColumn<'_>, &StoredColumn<'_>)| {
        a == b || b.serial_type == 7 && a.integer().is_some_and(|i| Some(i as f64) == b.real())
    };
    pressed.len() == stock.len() && pressed.iter().zip(&stock).all(same)
}

/// Both answer a query with the same rows.
fn assert_same_answer(pressed: &Connection, stock: &Connection, sql: &str) {
    let mut left = pressed.prepare(sql).unwrap_or_else(|e| panic!("pressed: {sql}: {e}"));
    let mut right = stock.prepare(sql).unwrap_or_else(|e| panic!("stock: {sql}: {e}"));
    let columns = left.column_count();
    assert_eq!(columns, right.column_count(), "{sql}: number of columns");
    for index in 0..columns {
        assert_eq!(left.column_name(index), right.column_name(index), "{sql}: column names");
    }
    let (mut left, mut right) = (left.query([]).expect("query"), right.query([]).expect("query"));
    for row_index in 0.. {
        let pair = (left.next().expect("pressed row"), right.next().expect("stock row"));
        match pair {
            (None, None) => return,
            (Some(left), Some(right)) => assert_same_row(left, right, columns, row_index, sql),
            (left, _) => {
                let fewer = if left.is_none() { "pressed" } else { "stock" };
                panic!("{sql}: {fewer} ends at row {row_index}");
            }
        }
    }
}

fn assert_same_row(left: &Row<'_>, right: &Row<'_>, columns: usize, row_index: usize, sql: &str) {
    for column in 0..columns {
        let (a, b) = (left.get_ref(column).expect("value"), right.get_ref(column).expect("value"));
        let same = match (a, b) {
            (ValueRef::Real(a), ValueRef::Real(b)) => a.to_bits() == b.to_bits(),
            _ => a == b,
        };
        assert!(same, "{sql}: row {row_index}, column {column}: pressed {a:?}, stock {b:?}");
    }
}
