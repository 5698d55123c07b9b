//! Last steps of a change: what SQLite's own tables are told, the checks, the commit, and the log.
//!
//! Stands behind all ways of rows and pages into a database.
//!
//! Must never: fail after the commit.

use std::time::Duration;

use rusqlite::{Connection, Transaction, params};

use super::connect::{ExistingDatabase, Steps, ask, constraint};
use super::inspect::Existing;
use super::orphan::Search;
use super::staged::{StagedTable, has_table};
use crate::error::Result;
use crate::failed_sync::leave_wal_if_unsynced;
use crate::load::options::CancelToken;
use crate::schema::quote_identifier;
use crate::sqlite_error::broken_rule;

/// Writes the table's rows in SQLite's own tables.
pub(super) fn remember(transaction: &Transaction<'_>, table: &StagedTable) -> rusqlite::Result<()> {
    let name = &table.table.name;
    if let Some(sequence) = table.sequence {
        transaction.execute("DELETE FROM main.sqlite_sequence WHERE name = ?1", [name])?;
        let sql = "INSERT INTO main.sqlite_sequence(name, seq) VALUES (?1, ?2)";
        transaction.execute(sql, params![name, sequence])?;
    }
    if table.statistics.is_empty() {
        return Ok(());
    }
    if !has_table(transaction, "sqlite_stat1")? {
        // Makes the table `sqlite_stat1`, and gathers no statistics.
        transaction.execute_batch("ANALYZE main.sqlite_schema")?;
    }
    transaction.execute("DELETE FROM main.sqlite_stat1 WHERE tbl = ?1", [name])?;
    let sql = "INSERT INTO main.sqlite_stat1(tbl, idx, stat) VALUES (?1, ?2, ?3)";
    for (index, statistics) in &table.statistics {
        transaction.execute(sql, params![name, index, statistics])?;
    }
    Ok(())
}

/// Reads an entry from each end of an index whose first column this is, with its collation there.
pub(super) fn look_at_ends(
    transaction: &Transaction<'_>,
    table: &str,
    index: &str,
    column: &str,
    collation: &str,
) -> rusqlite::Result<()> {
    let queries = queries_of_ends(table, index, column, collation);
    queries.iter().try_for_each(|sql| read_a_row(transaction, sql))
}

/// Without the index's own collation, SQLite would sort the whole index for its first entry.
fn queries_of_ends(table: &str, index: &str, column: &str, collation: &str) -> [String; 2] {
    let [table, index, column, collation] = [table, index, column, collation].map(quote_identifier);
    ["ASC", "DESC"].map(|end| {
        format!(
            "SELECT {column} FROM main.{table} INDEXED BY {index}
             ORDER BY {column} COLLATE {collation} {end} LIMIT 1"
        )
    })
}

/// Reads the first row of a query, if there is one.
pub(super) fn read_a_row(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    rows.next().map(|_| ())
}

/// Checks the foreign keys of the pressed rows. A search always ends in an error.
pub(super) fn check_foreign_keys(
    transaction: &Transaction<'_>,
    target: &ExistingDatabase,
    table: &str,
    search: Option<&mut Search<'_>>,
) -> Result<()> {
    let refused = |error| target.refused("check the foreign keys", error);
    if let Some(search) = search {
        search.run(transaction, table).map_err(refused)?;
        let reason = "the table was moved in only to find a row".to_owned();
        return Err(constraint(table, reason));
    }
    let mut keys =
        transaction.prepare("SELECT 1 FROM pragma_foreign_key_list(?1)").map_err(refused)?;
    if !keys.exists([table]).map_err(refused)? {
        return Ok(());
    }
    let sql = "SELECT \"rowid\", parent FROM pragma_foreign_key_check(?1) LIMIT 1";
    let mut statement = transaction.prepare(sql).map_err(refused)?;
    let mut rows = statement.query([table]).map_err(refused)?;
    let Some(row) = rows.next().map_err(refused)? else { return Ok(()) };
    let (rowid, parent): (Option<i64>, String) =
        row.get(0).and_then(|rowid| Ok((rowid, row.get(1)?))).map_err(refused)?;
    let which = rowid.map_or_else(|| "a row".to_owned(), |rowid| format!("row {rowid}"));
    let reason = format!("{which} of {table} refers to a row of {parent} that is not there");
    Err(constraint(table, reason)
        .caused_by(broken_rule(rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY))
        .to_do(format!("load {parent} first, or leave the foreign key out of the declaration")))
}

/// Commits the transaction, and tidies the log. `change` is its name, such as "the load", and the table.
pub(super) fn commit(
    transaction: &Transaction<'_>,
    existing: &Existing,
    change: (&'static str, &str),
    cancel: &CancelToken,
    steps: &mut Steps,
) -> Result<()> {
    existing.target.commit(transaction, change, cancel)?;
    steps.end("committing");
    tidy_log(transaction, existing);
    steps.end("checkpointing");
    Ok(())
}

/// Empties a long log if no connection uses it: SQLite leaves it at its size. The commit is done,
/// so an error here is no failure.
fn tidy_log(connection: &Connection, existing: &Existing) {
    if existing.journal_mode != "wal" {
        return;
    }
    let tidied = connection
        .busy_timeout(Duration::ZERO)
        .and_then(|()| ask::<i64>(connection, "PRAGMA wal_checkpoint(TRUNCATE)"));
    tracing::debug!(?tidied, "checkpoint");
    if tidied.is_err_and(|error| leave_wal_if_unsynced(connection, &error)) {
        tracing::warn!("a sync failed in a checkpoint: the log stays as it is");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_an_index_are_read_without_a_sort() {
        let connection = Connection::open_in_memory().unwrap();
        let sql = "CREATE TABLE t(a TEXT COLLATE NOCASE); CREATE INDEX i ON t(a COLLATE BINARY)";
        connection.execute_batch(sql).unwrap();
        for query in queries_of_ends("t", "i", "a", "BINARY") {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let steps = plan.query_map([], |row| row.get(3)).unwrap();
            let steps = steps.collect::<rusqlite::Result<Vec<String>>>().unwrap();
            // A second step would be "USE TEMP B-TREE FOR ORDER BY".
            assert!(steps.len() == 1 && steps[0].ends_with("INDEX i"), "{query}: {steps:?}");
        }
    }
}
