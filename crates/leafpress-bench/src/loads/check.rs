//! That no rung did less than another: what a load left is read back with SQLite.
//!
//! Runs after a rung, outside of the time taken and outside of its process. Every run's rows are
//! counted and summed up column by column; the first run of each rung is also read value by value,
//! with types, and put to `integrity_check`.

use std::hash::{DefaultHasher, Hasher as _};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::rung::{LoadRung, Work};
use crate::connect;
use crate::error::Result;
use crate::generate::INDEXED_COLUMN;
use crate::rung::described::{Found, Left};
use crate::rung::result::RungResult;

/// Sums of a table. Integers are summed exactly (accounts in two halves, as a gigabyte of them
/// overflows 64 bits); reals as they come, which is alike for all rungs because rows come in one
/// order. Of random bytes, the place of one that is in some of them.
const DATA_SUMS: &str = "SELECT count(*), concat_ws(' ', sum(id), \
     sum(quantity), sum(account / 1000), sum(account % 1000), total(price), total(latitude), \
     sum(length(description)), sum(unicode(description)), min(day), max(day), \
     sum(length(city)), max(city)) FROM data";
/// Sums of a table that another version of SQLite may have made, whose decimal numbers can be off in
/// the last bit: they are summed as the whole numbers of their decimals, which the file has.
const SHELL_SUMS: &str = "SELECT count(*), concat_ws(' ', sum(id), \
     sum(quantity), sum(account / 1000), sum(account % 1000), \
     sum(CAST(round(price * 100) AS INTEGER)), sum(CAST(round(latitude * 1000000) AS INTEGER)), \
     sum(length(description)), sum(unicode(description)), min(day), max(day), \
     sum(length(city)), max(city)) FROM data";
const USER_SUMS: &str = "SELECT count(*), concat_ws(' ', sum(id), \
     count(area), sum(area), sum(age), sum(active)) FROM user";
const EVENT_SUMS: &str = "SELECT count(*), concat_ws(' ', \
     sum(length(key)), sum(length(payload)), sum(instr(key, x'07')), \
     sum(instr(payload, x'07')), hex(min(key)), hex(max(key))) FROM event";

const DATA_ROWS: &str = "SELECT * FROM data ORDER BY rowid";
const SHELL_ROWS: &str = "SELECT id, quantity, account, typeof(price), \
     CAST(round(price * 100) AS INTEGER), typeof(latitude), \
     CAST(round(latitude * 1000000) AS INTEGER), description, day, city FROM data ORDER BY rowid";
const USER_ROWS: &str = "SELECT * FROM user ORDER BY rowid";
const EVENT_ROWS: &str = "SELECT * FROM event ORDER BY key";

/// Queries that sum up the work, the table that was made or changed first.
const fn sums_queries(work: Work) -> &'static [&'static str] {
    match work {
        Work::Csv | Work::CsvIndex | Work::Ndjson | Work::Parquet | Work::Index => &[DATA_SUMS],
        Work::Process => &[SHELL_SUMS],
        Work::Users => &[USER_SUMS],
        Work::Attach => &[USER_SUMS, EVENT_SUMS],
        Work::Keys | Work::Append => &[EVENT_SUMS],
    }
}

/// Queries that read every value of the work.
const fn rows_queries(work: Work) -> &'static [&'static str] {
    match work {
        Work::Csv | Work::CsvIndex | Work::Ndjson | Work::Parquet | Work::Index => &[DATA_ROWS],
        Work::Process => &[SHELL_ROWS],
        Work::Users => &[USER_ROWS],
        Work::Attach => &[USER_ROWS, EVENT_ROWS],
        Work::Keys | Work::Append => &[EVENT_ROWS],
    }
}

/// Looks at the database that the rung left.
pub(super) fn check(rung: LoadRung, result: &RungResult, found: &Found<'_>) -> Result<Left> {
    let work = rung.work();
    let rows = if work.reads().is_some() { found.input_rows } else { rung.rows };
    let in_table = rows + rung.rows_before();
    let index =
        if work.has_index() { format!(", {in_table} entries in its index") } else { String::new() };
    let journal_mode = work.journal_left();
    let expected =
        format!("{rows} rows loaded, {in_table} rows in the table{index}; {journal_mode}; ok");
    let mut alike = Vec::new();
    let found = connect::look(found.database, found.is_first, |connection| {
        let (in_table, sums) = sums(connection, work)?;
        alike.push(sums);
        let index = if work.has_index() { index_in_words(connection)? } else { String::new() };
        // Without its index it cannot be read, and is found out already.
        if found.is_first && !found.is_alone && (index.is_empty() || has_index(connection)?) {
            alike.push(format!("values of digest {:x}", digest(connection, work)?));
        }
        Ok(format!("{} rows loaded, {in_table} rows in the table{index}", result.rows))
    })?;
    Ok(Left { expected, found, alike })
}

/// Rows of the table that was made or changed, and the sums of all tables.
fn sums(connection: &Connection, work: Work) -> rusqlite::Result<(i64, String)> {
    let mut tables: Vec<(i64, String)> = Vec::new();
    for query in sums_queries(work) {
        tables.push(connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    let rows = tables.first().map_or(0, |(rows, _)| *rows);
    let texts = tables.iter().map(|(rows, sums)| format!("{rows} rows, sums {sums}"));
    Ok((rows, texts.collect::<Vec<_>>().join(", ")))
}

fn has_index(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(index_name(connection)?.is_some())
}

fn index_in_words(connection: &Connection) -> rusqlite::Result<String> {
    if !has_index(connection)? {
        return Ok(format!(", no index on {INDEXED_COLUMN}"));
    }
    let query = index_query(connection, "count(*)", "")?;
    let entries: i64 = connection.query_row(&query, [], |row| row.get(0))?;
    Ok(format!(", {entries} entries in its index"))
}

/// Name of the index on the column that should have one: any name, one column, all rows.
fn index_name(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT list.name FROM pragma_index_list('data') list \
         JOIN pragma_index_info(list.name) info \
         WHERE NOT list.partial GROUP BY list.name HAVING count(*) = 1 AND max(info.name) = ?";
    connection.query_row(sql, [INDEXED_COLUMN], |row| row.get(0)).optional()
}

/// Query that reads the entries of the index in its own order, and nothing else.
fn index_query(connection: &Connection, columns: &str, order: &str) -> rusqlite::Result<String> {
    let name = index_name(connection)?.unwrap_or_default().replace('"', "\"\"");
    Ok(format!("SELECT {columns} FROM data INDEXED BY \"{name}\" {order}"))
}

/// Digest of every value and its type, in the order of the rows; and of the index in its own order.
fn digest(connection: &Connection, work: Work) -> rusqlite::Result<u64> {
    let mut digest = DefaultHasher::new();
    for query in rows_queries(work) {
        digest_query(&mut digest, connection, query)?;
    }
    if work.has_index() {
        let columns = format!("{INDEXED_COLUMN}, rowid");
        let query = index_query(connection, &columns, &format!("ORDER BY {columns}"))?;
        digest_query(&mut digest, connection, &query)?;
    }
    Ok(digest.finish())
}

fn digest_query(
    digest: &mut DefaultHasher,
    connection: &Connection,
    query: &str,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(query)?;
    let columns_count = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        digest_row(digest, row, columns_count)?;
    }
    Ok(())
}

fn digest_row(
    digest: &mut DefaultHasher,
    row: &Row<'_>,
    columns_count: usize,
) -> rusqlite::Result<()> {
    for index in 0..columns_count {
        match row.get_ref(index)? {
            ValueRef::Null => digest.write_u8(0),
            ValueRef::Integer(number) => {
                digest.write_u8(1);
                digest.write_i64(number);
            }
            ValueRef::Real(number) => {
                digest.write_u8(2);
                digest.write_u64(number.to_bits());
            }
            ValueRef::Text(text) => digest_bytes(digest, 3, text),
            ValueRef::Blob(bytes) => digest_bytes(digest, 4, bytes),
        }
    }
    Ok(())
}

fn digest_bytes(digest: &mut DefaultHasher, kind: u8, bytes: &[u8]) {
    digest.write_u8(kind);
    digest.write_usize(bytes.len());
    digest.write(bytes);
}

#[cfg(test)]
mod tests {
    use super::super::Load;
    use super::*;

    /// Contents found of a database that `sql` makes, as the first run of this load that did as much
    /// as it said.
    fn check_sql(by: Load, sql: &str) -> Left {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = folder.path().join("a.db");
        let connection = Connection::open(&database).expect("a new database");
        connection.execute_batch(sql).expect("a table");
        connection.close().expect("it closes");
        let rung = LoadRung { by, rows: 2, memory_bytes: None };
        let result = RungResult { rows: 2, ..RungResult::default() };
        let found = Found { database: &database, input_rows: 0, is_first: true, is_alone: false };
        check(rung, &result, &found).expect("it can be read")
    }

    /// Contents found of these users.
    fn users(values: &str) -> Left {
        let sql =
            format!("CREATE TABLE user(id, area, age, active); INSERT INTO user VALUES {values}");
        check_sql(Load::UsersSql, &sql)
    }

    #[test]
    fn equal_rows_are_equal() {
        let one = users("(1, '000123', 5, 1), (2, NULL, 6, 0)");
        assert_eq!(one, users("(1, '000123', 5, 1), (2, NULL, 6, 0)"));
        assert_eq!(one.found, one.expected);
        assert_eq!(one.alike.len(), 2);
    }

    #[test]
    fn a_missing_row_is_found() {
        let less = users("(1, 'a', 5, 1)");
        assert_ne!(less.found, less.expected);
        assert_ne!(less.alike, users("(1, 'a', 5, 1), (2, NULL, 6, 0)").alike);
    }

    #[test]
    fn another_type_or_order_shows_in_the_digest() {
        let [rows, typed, swapped] = [
            "(1, '123', 5, 1), (2, '456', 5, 1)",
            "(1, 123, 5, 1), (2, '456', 5, 1)",
            "(2, '456', 5, 1), (1, '123', 5, 1)",
        ]
        .map(|values| users(values).alike);
        assert_eq!(rows[0], typed[0]);
        assert_ne!(rows[1], typed[1]);
        assert_ne!(rows[1], swapped[1]);
    }

    #[test]
    fn an_index_must_be_there_whatever_its_name() {
        let with = |index: &str| {
            let sql = format!(
                "CREATE TABLE data(id, quantity, account, price, latitude, description, day, city); \
                 INSERT INTO data(id, description) VALUES (1, 'b'), (2, 'a'); {index}"
            );
            check_sql(Load::IndexSql, &sql)
        };
        let index = with("CREATE INDEX one ON data(description)");
        assert_eq!(index.found, index.expected);
        assert_eq!(with("CREATE INDEX \"the \"\"other\" ON data(description)"), index);
        for wrong in [
            "",
            "CREATE INDEX one ON data(day)",
            "CREATE INDEX one ON data(description, day)",
            "CREATE INDEX one ON data(description) WHERE id > 1",
        ] {
            let left = with(wrong);
            assert!(left.found.contains("no index on description"), "{wrong}: {}", left.found);
            assert_ne!(left.found, left.expected, "{wrong}");
        }
    }

    #[test]
    fn another_journal_mode_is_found() {
        for (mode, is_right) in [("WAL", true), ("DELETE", false)] {
            let sql = format!(
                "PRAGMA journal_mode = {mode}; \
                 CREATE TABLE event(key BLOB PRIMARY KEY, payload) WITHOUT ROWID; \
                 WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 22) \
                 INSERT INTO event SELECT zeroblob(n), x'01' FROM n"
            );
            let left = check_sql(Load::AppendSql, &sql);
            assert_eq!(left.found == left.expected, is_right, "{mode}: {}", left.found);
        }
    }
}
