//! Stock SQLite: the tables that INSERTs make, and what two databases must have in common.

use std::path::Path;

use leafpress::load::{ColumnType, OnConflict};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use crate::schema::{Cell, Kind, Table, quoted};

/// What SQLite makes of rows.
pub struct Expected {
    pub database: Connection,
    /// The rows that it refused, by their places.
    pub refused: Vec<usize>,
    /// The rows that it passed over.
    pub ignored: Vec<usize>,
}

/// What is bound for a field of a column.
pub fn bound(kind: Kind, cell: &Cell) -> Value {
    match (kind, cell) {
        (_, None) => Value::Null,
        (Kind::Blob, Some(digits)) => Value::Blob(
            (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect(),
        ),
        (_, Some(text)) => Value::Text(text.clone()),
    }
}

/// Returns true if rows of the table `t` can share a key.
pub fn has_key(sql: &str) -> bool {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(sql).unwrap();
    let sql = "SELECT EXISTS (SELECT 1 FROM pragma_table_xinfo('t') WHERE pk > 0)
               OR EXISTS (SELECT 1 FROM pragma_index_list('t') WHERE \"unique\")";
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The statement that inserts a row as the loader promises to.
pub fn insert_sql(names: &[String], on_conflict: OnConflict) -> String {
    let (or, then) = match on_conflict {
        OnConflict::Abort => ("", ""),
        OnConflict::Ignore => ("", " ON CONFLICT DO NOTHING"),
        OnConflict::Replace => (" OR REPLACE", ""),
        other => unreachable!("{other:?}"),
    };
    let marks = vec!["?"; names.len()].join(", ");
    let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
    format!("INSERT{or} INTO t ({}) VALUES ({marks}){then}", names.join(", "))
}

/// Inserts row after row into the table as it is declared.
pub fn insert(table: &Table, rows: &[Vec<Cell>], on_conflict: OnConflict) -> Expected {
    let database = Connection::open_in_memory().unwrap();
    database.execute_batch(&table.sql).unwrap_or_else(|error| panic!("{error}: {}", table.sql));
    insert_into(database, table, rows, on_conflict)
}

/// Inserts row after row into a table that is there.
pub fn insert_into(
    database: Connection,
    table: &Table,
    rows: &[Vec<Cell>],
    on_conflict: OnConflict,
) -> Expected {
    let (mut refused, mut ignored) = (Vec::new(), Vec::new());
    let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    database.execute_batch("BEGIN").unwrap();
    {
        let mut insert = database.prepare(&insert_sql(&names, on_conflict)).unwrap();
        for (place, row) in rows.iter().enumerate() {
            if table.never_null.iter().any(|column| row[*column].is_none()) {
                // A key that is missing is no wish for a new one.
                refused.push(place);
                continue;
            }
            let values =
                table.columns.iter().zip(row).map(|(column, cell)| bound(column.kind, cell));
            match insert.execute(params_from_iter(values)) {
                Ok(0) => ignored.push(place),
                Ok(_) => {}
                Err(error) => {
                    let code = error.sqlite_error_code();
                    let expected = Some(rusqlite::ErrorCode::ConstraintViolation);
                    assert_eq!(code, expected, "{error}");
                    refused.push(place);
                }
            }
        }
    }
    database.execute_batch("COMMIT").unwrap();
    Expected { database, refused, ignored }
}

/// Opens what a load made, which must be sound.
pub fn open_sound(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    let check: Vec<String> = texts(&database, "PRAGMA integrity_check");
    assert_eq!(check, ["ok"]);
    database
}

pub fn texts(database: &Connection, sql: &str) -> Vec<String> {
    let mut statement = database.prepare(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// All rows of an answer, in its order, as texts that tell types apart.
pub fn answer(database: &Connection, sql: &str) -> Vec<String> {
    let mut statement = database.prepare(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut answer = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let values = (0..columns).map(|column| match row.get_ref(column).unwrap() {
            ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
            ValueRef::Blob(blob) => format!("x{blob:02x?}"),
            value => format!("{value:?}"),
        });
        answer.push(values.collect::<Vec<_>>().join("|"));
    }
    answer
}

/// What is compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Compare {
    /// Rowids need not be the same.
    pub without_rowids: bool,
    /// Whether `sqlite_stat1` is as ANALYZE would fill it.
    pub analyze: bool,
}

/// Asserts that two databases hold the same schema, rows and indexes.
pub fn assert_same(expected: &Connection, found: &Connection, compare: Compare) {
    if compare.analyze {
        expected.execute_batch("ANALYZE").unwrap();
    }
    let schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> 'sqlite_stat4' \
                  ORDER BY type, name";
    assert_eq!(answer(found, schema), answer(expected, schema));
    let tables = texts(
        expected,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_stat%'",
    );
    for table in tables {
        assert_same_table(expected, found, &table, compare.without_rowids);
    }
    if compare.analyze {
        let stat = "SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY 1, 2, 3";
        assert_eq!(answer(found, stat), answer(expected, stat), "sqlite_stat1");
    }
}

fn assert_same_table(expected: &Connection, found: &Connection, table: &str, without_rowids: bool) {
    let name = quoted(table);
    let has_rowids = expected.prepare(&format!("SELECT rowid FROM {name}")).is_ok();
    let sql = match (has_rowids, without_rowids) {
        (true, false) => format!("SELECT rowid, * FROM {name} NOT INDEXED ORDER BY rowid"),
        _ => format!("SELECT * FROM {name} NOT INDEXED"),
    };
    let (mut rows, mut wanted) = (answer(found, &sql), answer(expected, &sql));
    if without_rowids {
        rows.sort();
        wanted.sort();
    }
    assert_eq!(rows, wanted, "table {table}");
    assert_indexes_agree(found, table);
}

/// Asserts that each index gives the rows that a scan gives.
pub fn assert_indexes_agree(database: &Connection, table: &str) {
    let list = format!(
        "SELECT name FROM pragma_index_list({0}) AS list WHERE partial = 0 AND NOT EXISTS \
         (SELECT 1 FROM pragma_index_info(list.name) WHERE cid = -2) AND NOT (origin = 'pk' AND EXISTS \
         (SELECT 1 FROM pragma_table_list WHERE name = {0} AND wr))",
        format_args!("'{table}'")
    );
    for index in texts(database, &list) {
        let info = format!(
            "SELECT '\"' || replace(name, '\"', '\"\"') || '\" COLLATE ' || coll || \
             CASE WHEN \"desc\" THEN ' DESC' ELSE '' END FROM pragma_index_xinfo('{index}') \
             WHERE key ORDER BY seqno"
        );
        let order = texts(database, &info).join(", ");
        // The rest of the columns settles ties.
        let all = texts(
            database,
            &format!(
                "SELECT '\"' || replace(name, '\"', '\"\"') || '\"' FROM pragma_table_xinfo('{table}')"
            ),
        );
        let terms: Vec<String> = all.iter().map(|name| format!("{name} COLLATE BINARY")).collect();
        let ask = |how: &str| {
            answer(
                database,
                &format!(
                    "SELECT * FROM {} {how} ORDER BY {order}, {}",
                    quoted(table),
                    terms.join(", ")
                ),
            )
        };
        let by_index = ask(&format!("INDEXED BY {}", quoted(&index)));
        assert_eq!(by_index, ask("NOT INDEXED"), "index {index}");
    }
}

pub fn type_name(column_type: ColumnType) -> &'static str {
    match column_type {
        ColumnType::Integer => "INTEGER",
        ColumnType::Real => "REAL",
        ColumnType::Text => "TEXT",
        ColumnType::Blob => "BLOB",
    }
}
