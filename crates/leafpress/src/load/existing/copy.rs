//! A new table whose pages cannot be moved in: its rows are copied by SQLite.
//!
//! If the staged file can be attached, INSERT … SELECT from a table of the
//! same declaration copies whole records, and the indexes' entries in their
//! order. Only a destination in UTF-16 takes its rows one by one.

use rusqlite::{Connection, Transaction};

use super::commit::{check_foreign_keys, commit, remember};
use super::connect::{ExistingDatabase, Steps, ask};
use super::inspect::Existing;
use super::orphan::Search;
use super::pages::refuse_if_taken;
use super::rows::insert_rows;
use super::staged::{STAGED, StagedTable, attach, count_rows, is_numbered, open};
use super::task::{Outcome, Settings, Staged};
use crate::error::Result;
use crate::schema::declared::{ColumnList, DeclaredTable};
use crate::schema::quote_identifier;
use crate::schema::sql_words::sql_words;

/// Makes the table in the destination; `reason` says why its pages are not moved.
pub(super) fn copy_table(
    existing: &Existing,
    staged: &Staged<'_>,
    table: &StagedTable,
    reason: &str,
    settings: &Settings,
    search: Option<&mut Search<'_>>,
) -> Result<Outcome> {
    let mut steps = Steps::start();
    let target = &existing.target;
    let refused = |error| target.refused("copy the table", error);
    let mut connection = target.open_to_change(settings)?;
    // The foreign keys are checked afterwards for all rows at once: the copy of whole records does
    // not check them.
    connection.execute_batch("PRAGMA foreign_keys=OFF").map_err(refused)?;
    let attached = attach(&connection, existing, staged).map_err(refused)?;
    let transaction = target.begin(&mut connection)?;
    steps.end("waiting for the lock");

    refuse_if_taken(&transaction, target, table)?;
    let rows = if attached {
        copy_attached(&transaction, table).map_err(refused)?
    } else {
        copy_one_by_one(&transaction, target, staged, table, settings)?
    };
    steps.end("copying rows");
    remember(&transaction, table).map_err(refused)?;
    check_foreign_keys(&transaction, target, &table.table.name, search)?;
    let pages: i64 = ask(&transaction, "PRAGMA main.page_count").map_err(refused)?;
    steps.end("checking");
    commit(&transaction, existing, ("the load", &table.table.name), &settings.cancel, &mut steps)?;
    Ok(Outcome {
        rows_changed: rows,
        pages: pages.unsigned_abs(),
        path: format!("then copied by SQLite: {reason}"),
        stages: steps.stages,
        ..Outcome::default()
    })
}

fn copy_attached(transaction: &Transaction<'_>, table: &StagedTable) -> rusqlite::Result<u64> {
    transaction.execute_batch(table.table.sql.as_deref().unwrap_or_default())?;
    let declared = DeclaredTable::read(transaction, &table.table.name)?;
    let name = quote_identifier(&table.table.name);
    let from = format!("{STAGED}.{name}");
    let make_indexes = || {
        let sql = table.indexes.iter().filter_map(|it| it.sql.as_deref());
        sql.into_iter().try_for_each(|sql| transaction.execute_batch(sql))
    };
    // INSERT … SELECT copies whole records, without sorting for the indexes, if the indexes are alike. But without
    // an index or a key SQLite numbers the rows anew then, and generated columns have no value to insert.
    let is_plain = declared.columns.iter().all(|it| !it.generated);
    let has_alike_indexes = !table.indexes.is_empty() && !has_descending_keys(table);
    let rowid = if is_plain && has_alike_indexes {
        None
    } else {
        rowid_to_copy(transaction, &declared, &from)?
    };
    if is_plain && rowid.is_none() {
        make_indexes()?;
        return transaction
            .execute(&format!("INSERT INTO main.{name} SELECT * FROM {from}"), [])
            .map(|it| it as u64);
    }
    let columns = columns_to_copy(&declared, rowid).sql;
    let sql =
        format!("INSERT INTO main.{name}({columns}) SELECT {columns} FROM {from} NOT INDEXED");
    let rows = transaction.execute(&sql, [])?;
    make_indexes()?;
    Ok(rows as u64)
}

/// Returns true if an index may have a key in descending order. A database of an old schema format has it in ascending
/// order, so that the indexes are not alike.
fn has_descending_keys(table: &StagedTable) -> bool {
    let trees = std::iter::once(&table.table).chain(&table.indexes);
    let mut declarations = trees.filter_map(|it| it.sql.as_deref());
    declarations.any(|sql| sql_words(sql).iter().any(|word| word.is("DESC")))
}

fn copy_one_by_one(
    transaction: &Transaction<'_>,
    target: &ExistingDatabase,
    staged: &Staged<'_>,
    table: &StagedTable,
    settings: &Settings,
) -> Result<u64> {
    let refused = |error| target.refused("copy the table", error);
    let source = open(staged).map_err(refused)?;
    transaction.execute_batch(table.table.sql.as_deref().unwrap_or_default()).map_err(refused)?;
    let declared = DeclaredTable::read(transaction, &table.table.name).map_err(refused)?;
    let name = quote_identifier(&table.table.name);
    let from = format!("main.{name}");
    let rowid = rowid_to_copy(&source, &declared, &from).map_err(refused)?;
    let ColumnList { sql: columns, count } = columns_to_copy(&declared, rowid);
    let select = format!("SELECT {columns} FROM {from} NOT INDEXED");
    let marks = vec!["?"; count].join(",");
    let insert = format!("INSERT INTO main.{name}({columns}) VALUES ({marks})");
    let rows = insert_rows(&source, &select, transaction, &insert, settings).map_err(refused)?;
    for sql in table.indexes.iter().filter_map(|it| it.sql.as_deref()) {
        transaction.execute_batch(sql).map_err(refused)?;
    }
    Ok(rows)
}

/// The name of the rowid, if no column is it and SQLite would number the rows otherwise. A table of 2,000 columns
/// could not be copied with it: SQLite allows no more values in one statement.
fn rowid_to_copy(
    source: &Connection,
    declared: &DeclaredTable,
    from: &str,
) -> rusqlite::Result<Option<&'static str>> {
    let Some(rowid) = declared.rowid_name().filter(|_| declared.rowid_alias.is_none()) else {
        return Ok(None);
    };
    let is_numbered = is_numbered(source, from, rowid, count_rows(source, from)?)?;
    Ok((!is_numbered).then_some(rowid))
}

/// The rowid, if it is named, and the columns that take a value.
fn columns_to_copy(declared: &DeclaredTable, rowid: Option<&str>) -> ColumnList {
    let columns = declared.columns.iter().filter(|it| !it.generated).map(|it| it.name.as_str());
    ColumnList::new(rowid.into_iter().chain(columns))
}
