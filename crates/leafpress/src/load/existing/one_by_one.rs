//! Rows into a table that exists, one by one: where SQLite refused some of them.
//!
//! ```text
//! insert.rs: all rows in one statement ──► refused ──► here: in the order of the input,
//!                                                      each row by itself
//! ```
//!
//! A row stays if SQLite takes it after the rows before it that stay. Foreign keys that can
//! hold only when all rows are there, as they are deferred or refer to the table itself, are
//! looked at in the end, as they are for one statement: rows that then refer to nothing go,
//! and what is left is inserted anew without them, until all hold.
//!
//! Must never: commit before the caller has agreed to leave the refused rows out.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, Row, Statement, params_from_iter};

use super::connect::{Steps, ask, constraint};
use super::declared::DeclaredTable;
use super::insert::{Counts, Insert, InsertMode, Into, read_declaration};
use super::inspect::Existing;
use super::pages::tidy_log;
use super::rows::{is_fault_of_a_row, shown, values};
use super::staged::open;
use super::{Outcome, Settings, Staged};
use crate::error::{Error, Result};
use crate::schema::quote_identifier;
use crate::sqlite_error::sqlite_says;

/// A row that SQLite refused.
#[derive(Debug, Clone)]
pub(in crate::load) struct RefusedRow {
    /// Its place among the staged rows, from 0.
    pub number: u64,
    /// SQLite's reason.
    pub reason: String,
    /// SQLite's extended code.
    pub code: i32,
    /// Its values, as SQL would write them, where they are wanted.
    pub values: Option<String>,
}

/// What the caller wants of refused rows.
pub(in crate::load) struct Refusals<'r> {
    /// Whether the first one is enough.
    pub stops: bool,
    /// Whether their values are wanted.
    pub with_values: bool,
    /// Whether the input is a transaction on the same database, which must be able to read
    /// until the commit.
    pub reads_database: bool,
    /// Is given them before the commit, in order; an error ends it all.
    pub decide: &'r mut dyn FnMut(&[RefusedRow]) -> Result<()>,
}

/// Takes the staged rows into a table of the destination, in one transaction, but for those
/// that SQLite refuses. After an error the destination is as it was.
pub(in crate::load) fn insert_one_by_one(
    existing: &Existing,
    staged: &Staged<'_>,
    into: &Into<'_>,
    settings: &Settings,
    refusals: &mut Refusals<'_>,
) -> Result<Outcome> {
    let &Into { table, columns, mode } = into;
    let target = &existing.target;
    let refused = |error| target.refused("insert the rows", error);
    let mut connection = target.open_to_change(settings)?;
    if refusals.reads_database {
        // With a rollback journal, pages that are written early lock readers out.
        connection.execute_batch("PRAGMA cache_spill=OFF").map_err(refused)?;
    }
    let counts = Counts::watch(&mut connection, table, settings).map_err(refused)?;
    let mut steps = Steps::start();
    let transaction = target.begin(&mut connection)?;
    steps.end("waiting for the lock");
    let declared = read_declaration(&transaction, target, table)?;
    let sorted = false;
    let insert = Insert {
        transaction: &transaction,
        target,
        staged,
        declared,
        columns,
        mode,
        sorted,
        settings,
    };
    insert.check()?;
    let mut outcome = Outcome::default();
    if mode == InsertMode::Replace {
        outcome.rows_removed = insert.empty_table().map_err(refused)?;
        steps.end("removing the old rows");
    }
    let rows = OneByOne::new(&insert, refusals)?;
    let (changed, refused_rows) = rows.run(&counts, &mut outcome)?;
    steps.end("inserting");
    insert.analyze(&mut steps)?;
    let rows_refused = refused_rows.len() as u64;
    if mode != InsertMode::Append && mode != InsertMode::Replace {
        outcome.rows_ignored = staged.rows.saturating_sub(changed + rows_refused);
    }
    outcome.path = String::from("SQL: row by row, as SQLite refused some, one transaction");
    outcome.notes = insert.notes(&outcome);
    drop(insert);
    outcome.pages =
        ask::<i64>(&transaction, "PRAGMA main.page_count").map_err(refused)?.unsigned_abs();
    (refusals.decide)(&refused_rows)?;
    target.commit(&transaction, &settings.cancel)?;
    drop(transaction);
    steps.end("committing");
    tidy_log(&connection, existing);
    steps.end("checkpointing");
    outcome.stages = steps.stages;
    Ok(outcome)
}

/// The rows on their way.
struct OneByOne<'o> {
    insert: &'o Insert<'o>,
    stops: bool,
    with_values: bool,
    source: Connection,
    select: String,
    sql: String,
    /// Queries for rows that refer to nothing: their identities, and what they refer to. None
    /// where foreign keys are not looked at in the end.
    dangling: Vec<String>,
    /// Whether a refused row may have had effects: a trigger's RAISE(FAIL) undoes none.
    has_triggers: bool,
}

impl<'o> OneByOne<'o> {
    fn new(insert: &'o Insert<'o>, refusals: &Refusals<'_>) -> Result<Self> {
        let refused = |error| insert.target.refused("insert the rows", error);
        let declared = &insert.declared;
        let defers = declared.has_deferred_keys || insert.mode == InsertMode::Replace;
        let keys_in_the_end = declared.is_child && (defers || declared.refers_to_itself());
        let returning = if keys_in_the_end {
            format!(" RETURNING {}", identity(declared))
        } else {
            String::new()
        };
        let dangling = if keys_in_the_end {
            dangling_sql(insert.transaction, declared).map_err(refused)?
        } else {
            Vec::new()
        };
        let columns = if insert.columns.is_empty() { "1".to_owned() } else { insert.column_list() };
        if keys_in_the_end {
            // Never to be turned off again: SQLite would forget what is broken so far.
            let defer = "PRAGMA defer_foreign_keys=ON";
            insert.transaction.execute_batch(defer).map_err(refused)?;
        }
        Ok(Self {
            insert,
            // A row that is refused first may stay in the end, if the one in its way goes.
            stops: refusals.stops && dangling.is_empty(),
            with_values: refusals.with_values || refusals.stops,
            source: open(insert.staged).map_err(refused)?,
            select: format!("SELECT {columns} FROM main.{}", quote_identifier(insert.staged.table)),
            sql: format!("{}{returning}", insert.insert_sql()?),
            dangling,
            has_triggers: !declared.triggers.is_empty(),
        })
    }

    /// Inserts what can be; how many rows changed the table, and which were refused.
    fn run(&self, counts: &Counts, outcome: &mut Outcome) -> Result<(u64, Vec<RefusedRow>)> {
        let failed = |error| self.insert.target.refused("insert the rows", error);
        let sql = |sql: &str| self.insert.transaction.execute_batch(sql).map_err(failed);
        let dangling_before = self.dangling().map_err(failed)?;
        let mut without: BTreeMap<u64, RefusedRow> = BTreeMap::new();
        sql("SAVEPOINT leafpress_rows")?;
        loop {
            let before = self.insert.before(counts)?;
            let mut pass = Pass::default();
            self.pass(&without, &mut pass)?;
            let is_decided = self.stops && !pass.refused.is_empty();
            let dangling =
                if is_decided { HashMap::new() } else { self.dangling().map_err(failed)? };
            let mut found = false;
            for (rowid, parent) in dangling {
                let number = pass.numbers.get(&rowid).copied();
                if let Some(number) = number.filter(|_| !dangling_before.contains_key(&rowid)) {
                    found = true;
                    without.insert(number, refers_to_nothing(number, &parent));
                }
            }
            if !found || self.stops {
                self.insert.count_rows(outcome, pass.changed, before, counts)?;
                pass.refused.extend(without);
                sql("RELEASE leafpress_rows")?;
                return Ok((pass.changed, pass.refused.into_values().collect()));
            }
            sql("ROLLBACK TO leafpress_rows")?;
        }
    }

    /// Inserts all rows but those that are known to go.
    fn pass(&self, without: &BTreeMap<u64, RefusedRow>, pass: &mut Pass) -> Result<()> {
        let Insert { transaction, target, settings, columns, .. } = *self.insert;
        let failed = |error| target.refused("insert the rows", error);
        let mut select = self.source.prepare(&self.select).map_err(failed)?;
        let mut statement = transaction.prepare(&self.sql).map_err(failed)?;
        let mut rows = select.query([]).map_err(failed)?;
        let mut number = 0_u64;
        while let Some(row) = rows.next().map_err(failed)? {
            let this = number;
            number += 1;
            if number.is_multiple_of(ROWS_BETWEEN_LOOKS) && settings.cancel.is_cancelled() {
                return Err(target.refused("insert the rows", interrupted()));
            }
            if without.contains_key(&this) {
                continue;
            }
            let Err(error) = self.insert_row(&mut statement, row, columns.len(), this, pass) else {
                continue;
            };
            if !is_fault_of_a_row(&error) {
                return Err(failed(error));
            }
            let code = error.sqlite_error().map_or(0, |error| error.extended_code);
            let values = self.with_values.then(|| shown(row, columns.len()));
            let reason = sqlite_says(&error);
            let refused = RefusedRow { number: this, reason, code, values };
            if transaction.is_autocommit() {
                return Err(self.rolled_back(refused.reason));
            }
            pass.refused.insert(this, refused);
            if self.stops {
                break;
            }
        }
        Ok(())
    }

    fn insert_row(
        &self,
        statement: &mut Statement<'_>,
        row: &Row<'_>,
        columns: usize,
        number: u64,
        pass: &mut Pass,
    ) -> rusqlite::Result<()> {
        let transaction = self.insert.transaction;
        if self.has_triggers {
            transaction.prepare_cached("SAVEPOINT leafpress_row")?.execute([])?;
        }
        let inserted = self.execute(statement, row, columns, number, pass);
        if self.has_triggers && !transaction.is_autocommit() {
            if inserted.is_err() {
                transaction.prepare_cached("ROLLBACK TO leafpress_row")?.execute([])?;
            }
            transaction.prepare_cached("RELEASE leafpress_row")?.execute([])?;
        }
        inserted
    }

    fn execute(
        &self,
        statement: &mut Statement<'_>,
        row: &Row<'_>,
        columns: usize,
        number: u64,
        pass: &mut Pass,
    ) -> rusqlite::Result<()> {
        let values = params_from_iter(values(row, columns)?);
        if self.dangling.is_empty() {
            pass.changed += statement.execute(values)? as u64;
            return Ok(());
        }
        let mut rowids = statement.query(values)?;
        while let Some(row) = rowids.next()? {
            pass.changed += 1;
            pass.numbers.insert(row.get(0)?, number);
        }
        Ok(())
    }

    /// Rows of the table that refer to nothing, and what they refer to.
    fn dangling(&self) -> rusqlite::Result<HashMap<String, String>> {
        let mut found = HashMap::new();
        for sql in &self.dangling {
            let mut statement = self.insert.transaction.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for row in rows {
                let (identity, parent) = row?;
                found.insert(identity, parent);
            }
        }
        Ok(found)
    }

    fn rolled_back(&self, reason: String) -> Error {
        constraint(&self.insert.declared.name, reason)
            .to_do("mend the row: a trigger, or ON CONFLICT ROLLBACK in the declaration, rolls the whole transaction back for it, so that it cannot be left out")
    }
}

/// What tells a row of the table from all others, as a text: its rowid, or its key.
fn identity(declared: &DeclaredTable) -> String {
    if let Some(rowid) = declared.rowid_name() {
        return format!("CAST({rowid} AS TEXT)");
    }
    let key = declared.primary_key();
    let parts: Vec<String> =
        key.iter().map(|name| format!("quote({})", quote_identifier(name))).collect();
    parts.join(" || '|' || ")
}

/// Queries for rows that refer to nothing. SQLite's own check names rows by their rowids; where
/// they have none, each key is asked for by a query of its own.
fn dangling_sql(
    connection: &Connection,
    declared: &DeclaredTable,
) -> rusqlite::Result<Vec<String>> {
    let table = quote_identifier(&declared.name);
    if declared.rowid_name().is_some() {
        return Ok(vec![format!(
            "SELECT CAST(rowid AS TEXT), parent FROM pragma_foreign_key_check({})",
            quote_text(&declared.name)
        )]);
    }
    let sql = "SELECT key.id, key.\"table\", key.\"from\", coalesce(key.\"to\",
                   (SELECT name FROM pragma_table_info(key.\"table\") WHERE pk = key.seq + 1))
               FROM pragma_foreign_key_list(?1) AS key ORDER BY key.id, key.seq";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([&declared.name])?;
    let mut keys: BTreeMap<i64, (String, Vec<String>, Vec<String>)> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (parent, from, to): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let key = keys.entry(row.get(0)?).or_insert_with(|| (parent, Vec::new(), Vec::new()));
        let from = format!("main.{table}.{}", quote_identifier(&from));
        // The parent's column comes first: its collation and affinity count.
        key.2.push(format!("leafpress_parent.{} = {from}", quote_identifier(&to)));
        key.1.push(format!("{from} IS NOT NULL"));
    }
    let queries = keys.into_values().map(|(parent, given, same)| {
        format!(
            "SELECT {}, {} FROM main.{table} WHERE {} AND NOT EXISTS
             (SELECT 1 FROM main.{} AS leafpress_parent WHERE {})",
            identity(declared),
            quote_text(&parent),
            given.join(" AND "),
            quote_identifier(&parent),
            same.join(" AND ")
        )
    });
    Ok(queries.collect())
}

fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn refers_to_nothing(number: u64, parent: &str) -> RefusedRow {
    let reason = format!("FOREIGN KEY constraint failed: there is no such row of {parent}");
    let code = rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY;
    RefusedRow { number, reason, code, values: None }
}

/// One pass over the rows.
#[derive(Default)]
struct Pass {
    changed: u64,
    refused: BTreeMap<u64, RefusedRow>,
    /// Of the rows that are in, by their identities.
    numbers: HashMap<String, u64>,
}

/// How often a pass looks whether it is to stop.
const ROWS_BETWEEN_LOOKS: u64 = 1024;

fn interrupted() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}
