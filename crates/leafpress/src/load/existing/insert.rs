//! Rows into a table that exists: append, replace, ignore, upsert.
//!
//! The staged file is attached, read-only, and one INSERT … SELECT takes all
//! of its rows, in its own order: the caller sees to it that this is the order
//! of the table's key (`order.rs`), or has SQLite sort. Triggers run and
//! foreign keys hold, as with any INSERT. Its SQL is in `insert_sql.rs`.
//!
//! Must never: leave out a row without counting it, or take out rows of other
//! tables that a foreign key ties to replaced ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::hooks::Action;
use rusqlite::{Connection, Statement, Transaction};

use super::commit::commit;
use super::connect::{CACHE_BYTES_MIN, ExistingDatabase, Steps, ask};
use super::indexes::{ROWS_MIN, SetAside};
use super::inspect::{Existing, no_such_table};
use super::order::{BestOrder, InsertMode, order_of};
use super::read_ahead::ReadAhead;
use super::rows::insert_rows;
use super::staged::{STAGED, attach, count_rows, is_numbered, open};
use super::task::{Outcome, Settings, Staged};
use super::upper_levels::UpperLevels;
use super::write_out::WriteOut;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::declared::{DeclaredTable, rowid_name};
use crate::schema::quote_identifier;
use crate::sqlite_error::{is_fault_of_a_row, sqlite_says};
use crate::words::counted;

/// Limit of SQLite's cache where rows go in by the order of each B-tree. A larger one only keeps
/// changed pages back until the commit: a million rows into ten million with 1 GiB took 10.5 s, with
/// 256 or 64 MiB 6.9 s, with 16 MiB 8.6 s (two Intel cores, WAL).
const CACHE_BYTES_IN_ORDER: u64 = 64 << 20;

/// Destination of the rows, and the way to insert them.
#[derive(Debug, Clone, Copy)]
pub(in crate::load) struct InsertInto<'i> {
    /// Name of the table.
    pub table: &'i str,
    /// Columns that the rows have; the staged table has the same names. The other columns take
    /// their defaults.
    pub columns: &'i [String],
    /// Treatment of the rows that are there.
    pub mode: InsertMode,
}

/// Reason why no row went in.
#[derive(Debug)]
pub(in crate::load) enum InsertHalt {
    /// SQLite refused one of the rows. Inserting row by row finds out which.
    Refused(String),
    /// Any other error.
    Failed(Error),
}

impl From<Error> for InsertHalt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Takes the staged rows into a table of the destination, in one transaction.
///
/// `sorted` says that the staged rows are in [`best_order`](super::order::best_order).
///
/// After an error the destination is as it was.
pub(in crate::load) fn insert(
    existing: &Existing,
    staged: &Staged<'_>,
    into: &InsertInto<'_>,
    sorted: bool,
    settings: &Settings,
) -> Result<Outcome, InsertHalt> {
    let target = &existing.target;
    let refused = |error| target.refused("insert the rows", error);
    let _write_out = takes_long(target, staged).then(|| WriteOut::begin(&target.path));
    let mut connection = target.open_to_insert(settings, staged.file)?;
    let attached = attach(&connection, existing, staged).map_err(refused)?;
    Counts::watch(&mut connection, into.table, settings).map_err(refused)?;
    let mut steps = Steps::start();
    let transaction = target.begin(&mut connection)?;
    steps.end("waiting for the lock");

    let insert = Insert::new(&transaction, target, staged, into, sorted, settings)?;
    let mut outcome = insert.run(attached, &mut steps)?;
    drop(insert);
    outcome.pages =
        ask::<i64>(&transaction, "PRAGMA main.page_count").map_err(refused)?.unsigned_abs();
    if let Err(error) =
        commit(&transaction, existing, ("the load", into.table), &settings.cancel, &mut steps)
    {
        // A foreign key that SQLite checks at the end.
        return Err(match error.kind() {
            ErrorKind::Constraint { reason, .. } => InsertHalt::Refused(reason.clone()),
            _ => error.into(),
        });
    }
    outcome.stages = steps.stages;
    Ok(outcome)
}

/// Returns true if the insert is worth threads beside it.
fn takes_long(target: &ExistingDatabase, staged: &Staged<'_>) -> bool {
    staged.rows >= ROWS_MIN && target.overlay.is_none()
}

fn read_declaration(
    connection: &Connection,
    target: &ExistingDatabase,
    table: &str,
) -> Result<DeclaredTable> {
    let refused = |error| target.refused("read the table's declaration", error);
    let sql = "SELECT type FROM main.sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')";
    let mut statement = connection.prepare(sql).map_err(refused)?;
    let mut rows = statement.query([table]).map_err(refused)?;
    let kind = rows.next().map_err(refused)?.map(|row| row.get::<_, String>(0));
    match kind.transpose().map_err(refused)?.as_deref() {
        Some("table") => DeclaredTable::read(connection, table).map_err(refused),
        Some(_) => Err(target.refusal(format!("{table} is a view, and rows go into tables"))),
        None => Err(no_such_table(table)),
    }
}

/// Counts what SQLite does to the table, row by row.
#[derive(Debug)]
pub(super) struct Counts {
    rows_done: Arc<AtomicU64>,
}

impl Counts {
    /// Counts the changes of a table. SQLite's update hook reports no rows of a WITHOUT ROWID
    /// table.
    pub(super) fn watch(
        connection: &mut Connection,
        table: &str,
        settings: &Settings,
    ) -> rusqlite::Result<Self> {
        let (table, done) = (table.to_owned(), Arc::clone(&settings.rows_done));
        let hook = move |action: Action, database: &str, of: &str, _rowid: i64| {
            let is_change = action != Action::SQLITE_DELETE;
            if is_change && database == "main" && of.eq_ignore_ascii_case(&table) {
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        connection.update_hook(Some(hook))?;
        Ok(Self { rows_done: Arc::clone(&settings.rows_done) })
    }

    /// Number of rows inserted or changed so far.
    pub(super) fn done(&self) -> u64 {
        self.rows_done.load(Ordering::Relaxed)
    }

    /// Forgets rows that were inserted and then undone by SQLite, which does not report that.
    pub(super) fn take_back(&self, rows: u64) {
        self.rows_done.fetch_sub(rows, Ordering::Relaxed);
    }
}

/// One insert, with its settings.
pub(super) struct Insert<'i> {
    pub transaction: &'i Transaction<'i>,
    pub target: &'i ExistingDatabase,
    pub staged: &'i Staged<'i>,
    pub declared: DeclaredTable,
    pub columns: &'i [String],
    pub mode: InsertMode,
    pub sorted: bool,
    pub settings: &'i Settings,
}

impl<'i> Insert<'i> {
    /// Reads the declaration of the table, and refuses what cannot work before anything is done.
    pub fn new(
        transaction: &'i Transaction<'i>,
        target: &'i ExistingDatabase,
        staged: &'i Staged<'i>,
        into: &InsertInto<'i>,
        sorted: bool,
        settings: &'i Settings,
    ) -> Result<Self> {
        let &InsertInto { table, columns, mode } = into;
        let declared = read_declaration(transaction, target, table)?;
        let insert =
            Self { transaction, target, staged, declared, columns, mode, sorted, settings };
        insert.check()?;
        Ok(insert)
    }

    fn check(&self) -> Result<()> {
        let declared = &self.declared;
        let table = &declared.name;
        let unknown: Vec<&str> = self
            .columns
            .iter()
            .filter(|it| declared.column(it).is_none())
            .map(String::as_str)
            .collect();
        if !unknown.is_empty() {
            let known: Vec<&str> = declared.columns.iter().map(|it| it.name.as_str()).collect();
            return Err(self
                .target
                .refusal(format!(
                    "the table {table} has no column {}; its columns are {}",
                    unknown.join(", "),
                    known.join(", ")
                ))
                .to_do("leave the column out with ⟦drop⟧, rename it with ⟦rename⟧, or add it to the table"));
        }
        if let Some(column) =
            self.columns.iter().find(|it| declared.column(it).is_some_and(|it| it.generated))
        {
            return Err(self
                .target
                .refusal(format!("the column {column} of {table} is generated and takes no value"))
                .to_do("leave the column out with ⟦drop⟧"));
        }
        if declared.is_virtual && matches!(self.mode, InsertMode::Ignore | InsertMode::Upsert) {
            return Err(self
                .target
                .refusal(format!("{table} is a virtual table, whose keys SQLite does not know"))
                .to_do("add the rows with ⟦append⟧, or give it new ones with ⟦replace⟧"));
        }
        if self.mode == InsertMode::Replace { self.check_replace() } else { Ok(()) }
    }

    /// Refuses an exchange of rows that would delete or change rows of other tables.
    fn check_replace(&self) -> Result<()> {
        let table = &self.declared.name;
        for (child, on_delete) in &self.declared.referring {
            let is_own = child.eq_ignore_ascii_case(table);
            if is_own || on_delete == "NO ACTION" {
                continue;
            }
            let sql = format!("SELECT 1 FROM main.{} LIMIT 1", quote_identifier(child));
            let refused = |error| self.target.refused("read the tables that refer to it", error);
            let has_rows =
                self.transaction.prepare(&sql).and_then(|mut it| it.exists([])).map_err(refused)?;
            if has_rows {
                return Err(self
                    .target
                    .refusal(format!(
                        "{child} refers to {table} with ON DELETE {on_delete}: replacing the rows \
                         would touch those of {child}"
                    ))
                    .to_do("load with ⟦upsert⟧, which leaves rows where they are"));
            }
        }
        Ok(())
    }

    fn run(&self, attached: bool, steps: &mut Steps) -> Result<Outcome, InsertHalt> {
        let refused = |error| self.target.refused("insert the rows", error);
        let mut outcome = Outcome::default();
        let set_aside = self.set_aside().map_err(refused)?;
        set_aside.drop_indexes(self.transaction).map_err(refused)?;
        if self.mode == InsertMode::Replace {
            outcome.rows_removed = self.empty_table().map_err(refused)?;
            steps.end("removing the old rows");
        }
        self.limit_cache().map_err(refused)?;
        let rows_staged = self.staged.rows;
        let changed = match (self.columns.is_empty(), attached) {
            // An INSERT of no rows would begin to count the rowids of an AUTOINCREMENT table.
            _ if rows_staged == 0 => 0,
            (true, _) => self.insert_defaults()?,
            (false, true) => self.insert_attached()?,
            (false, false) => self.insert_by_values()?,
        };
        if self.passes_over_keys() && changed < rows_staged {
            return Err(InsertHalt::Refused("a key is there already".to_owned()));
        }
        steps.end("inserting");
        if set_aside.is_any() {
            let threads = self.settings.threads;
            let built = set_aside.build_indexes(self.transaction, threads);
            built.map_err(|error| self.halt(error))?;
            steps.end("building indexes");
        }
        self.record_rows(&mut outcome, changed);
        self.analyze(steps)?;
        outcome.path = self.path(attached, &set_aside);
        outcome.notes = self.notes(&outcome);
        Ok(outcome)
    }

    /// Counts the staged rows by their result; `changed` of them changed the table.
    pub fn record_rows(&self, outcome: &mut Outcome, changed: u64) {
        outcome.rows_changed = changed;
        // An upsert of nothing but keys has nothing to change, and a trigger may pass over any row.
        outcome.rows_ignored = self.staged.rows.saturating_sub(changed);
    }

    /// Reason why no row went in, if SQLite fails with this error.
    fn halt(&self, error: rusqlite::Error) -> InsertHalt {
        if is_fault_of_a_row(&error) {
            return InsertHalt::Refused(sqlite_says(&error));
        }
        self.target.refused("insert the rows", error).into()
    }

    /// Updates the planner's statistics, if wanted.
    pub fn analyze(&self, steps: &mut Steps) -> Result<()> {
        if !self.settings.analyze {
            return Ok(());
        }
        let sql = format!("ANALYZE main.{}", quote_identifier(&self.declared.name));
        let analyzed = self.transaction.execute_batch(&sql);
        analyzed.map_err(|error| self.target.refused("insert the rows", error))?;
        steps.end("analysing");
        Ok(())
    }

    fn set_aside(&self) -> rusqlite::Result<SetAside> {
        let old_rows_stay = self.mode != InsertMode::Replace;
        SetAside::choose(self.transaction, &self.declared, self.staged.rows, old_rows_stay)
    }

    /// Lets SQLite write pages early where no row comes back to them.
    fn limit_cache(&self) -> rusqlite::Result<()> {
        if !self.is_in_order() {
            return Ok(());
        }
        let kib = self.cache_bytes_in_order() / 1024;
        self.transaction.execute_batch(&format!("PRAGMA main.cache_size=-{kib}"))
    }

    fn cache_bytes_in_order(&self) -> u64 {
        self.settings.memory_bytes.clamp(CACHE_BYTES_MIN, CACHE_BYTES_IN_ORDER)
    }

    /// Returns true if each B-tree that the insert reads or changes is passed once from its beginning to
    /// its end.
    fn is_in_order(&self) -> bool {
        let declared = &self.declared;
        let reads_others =
            !declared.triggers.is_empty() || !declared.referring.is_empty() || declared.is_child;
        let ordered = match order_of(declared, self.columns, self.mode) {
            BestOrder::Columns(_) => 1,
            BestOrder::Rowid(_) | BestOrder::Any => 0,
        };
        self.sorted && !declared.is_virtual && !reads_others && declared.indexes.len() == ordered
    }

    /// Deletes all rows. They may refer to one another and to the new rows, so deferred foreign
    /// keys are checked at the end.
    pub fn empty_table(&self) -> rusqlite::Result<u64> {
        self.transaction.execute_batch("PRAGMA defer_foreign_keys=ON")?;
        // SQLite does not count the rows that go as they refer to others.
        let rows = if self.declared.refers_to_itself() { Some(self.count()?) } else { None };
        let sql = format!("DELETE FROM main.{}", quote_identifier(&self.declared.name));
        let deleted = self.transaction.execute(&sql, [])? as u64;
        Ok(rows.unwrap_or(deleted))
    }

    fn count(&self) -> rusqlite::Result<u64> {
        count_rows(self.transaction, &format!("main.{}", quote_identifier(&self.declared.name)))
    }

    fn insert_attached(&self) -> Result<u64, InsertHalt> {
        let (columns, on_conflict) = (self.column_list(), self.on_conflict()?);
        let (name, from) =
            (quote_identifier(&self.declared.name), quote_identifier(self.staged.table));
        let refused = |error| self.target.refused("insert the rows", error);
        let page_bytes = self.log_page_bytes().map_err(refused)?;
        let _ahead = page_bytes.and_then(|bytes| self.read_ahead(bytes));
        let (of_piece, upper_levels) = page_bytes.and_then(|bytes| self.pieces(bytes)).unzip();
        let select = self.select(&columns, &format!("{STAGED}.{from}"), of_piece.as_deref());
        let verb = self.verb();
        let sql = format!("{verb} INTO main.{name}({columns}) {select}{on_conflict}");
        let mut statement = self.transaction.prepare(&sql).map_err(refused)?;
        let inserted = match upper_levels {
            Some(upper_levels) => self.insert_pieces(&mut statement, upper_levels),
            None => statement.execute([]).map(|rows| rows as u64),
        };
        inserted.map_err(|error| self.halt(error))
    }

    /// Page size, if this is a long insert in the order of the key into a table with rows, in WAL mode.
    fn log_page_bytes(&self) -> rusqlite::Result<Option<u32>> {
        let has_rows = self.mode != InsertMode::Replace && takes_long(self.target, self.staged);
        if !has_rows || !self.is_in_order() {
            return Ok(None);
        }
        let journal_mode: String = ask(self.transaction, "PRAGMA main.journal_mode")?;
        let page_bytes = ask(self.transaction, "PRAGMA main.page_size")?;
        Ok((journal_mode == "wal").then_some(page_bytes))
    }

    fn read_ahead(&self, page_bytes: u32) -> Option<ReadAhead> {
        ReadAhead::begin(self.target, self.staged, page_bytes, self.look_up()?)
    }

    /// Name of the rowid of the attached staged rows, if that is 1 and up in their order.
    pub(super) fn numbered_rowid(&self) -> Option<&'static str> {
        let rowid = rowid_name(|name| self.gives(name))?;
        let from = format!("{STAGED}.{}", quote_identifier(self.staged.table));
        let is_numbered = is_numbered(self.transaction, &from, rowid, self.staged.rows);
        // An error means that the table is WITHOUT ROWID.
        is_numbered.unwrap_or(false).then_some(rowid)
    }

    /// The condition for a piece of the staged rows, by its first and last rowid, and the pages to be
    /// used between two pieces. None if the rowids are not 1 and up in the order of the rows, or SQLite
    /// gives no single pages.
    fn pieces(&self, page_bytes: u32) -> Option<(String, UpperLevels<'_>)> {
        let rowid = self.numbered_rowid()?;
        let cache_pages = (self.cache_bytes_in_order() / u64::from(page_bytes)) as usize;
        let upper_levels = UpperLevels::of(self.transaction, &self.declared.name, cache_pages);
        Some((format!("{rowid} BETWEEN ?1 AND ?2"), upper_levels.ok()?))
    }

    fn insert_pieces(
        &self,
        statement: &mut Statement<'_>,
        mut upper_levels: UpperLevels<'_>,
    ) -> rusqlite::Result<u64> {
        let rows = upper_levels.rows_between();
        let mut changed = 0;
        for first in (1..=self.staged.rows.cast_signed()).step_by(rows) {
            changed += statement.execute([first, first + (rows - 1) as i64])? as u64;
            upper_levels.keep();
        }
        Ok(changed)
    }

    /// Query that looks up the keys of the staged rows, in their order, in the B-tree that the insert
    /// searches; none if that is not all that the insert reads.
    pub(super) fn look_up(&self) -> Option<String> {
        if !self.is_in_order() {
            return None;
        }
        // Without the plus the staged column's affinity could keep SQLite from using the index.
        let equal = |column: &str| {
            let column = quote_identifier(column);
            format!("there.{column} = +new.{column}")
        };
        let equal = match order_of(&self.declared, self.columns, self.mode) {
            BestOrder::Rowid(column) => vec![equal(&column)],
            BestOrder::Columns(columns) => columns
                .iter()
                .map(|it| {
                    format!("{} COLLATE {}", equal(&it.name), quote_identifier(&it.collation))
                })
                .collect(),
            BestOrder::Any => return None,
        };
        Some(format!(
            "SELECT count(*) FROM {STAGED}.{} AS new CROSS JOIN main.{} AS there ON {}",
            quote_identifier(self.staged.table),
            quote_identifier(&self.declared.name),
            equal.join(" AND ")
        ))
    }

    /// Inserts rows without a value for any column, such as objects of JSON without keys.
    fn insert_defaults(&self) -> Result<u64, InsertHalt> {
        let refused = |error| self.target.refused("insert the rows", error);
        let mut statement = self.transaction.prepare(&self.insert_sql()?).map_err(refused)?;
        let mut changed = 0;
        for _ in 0..self.staged.rows {
            changed += statement.execute([]).map_err(|error| self.halt(error))? as u64;
        }
        Ok(changed)
    }

    /// Inserts the rows by bound values: nothing can be attached to a database in UTF-16.
    fn insert_by_values(&self) -> Result<u64, InsertHalt> {
        let refused = |error| self.target.refused("insert the rows", error);
        let source = open(self.staged).map_err(refused)?;
        let columns = self.column_list();
        let from = quote_identifier(self.staged.table);
        let select = self.select(&columns, &format!("main.{from}"), None);
        let insert = self.insert_sql()?;
        match insert_rows(&source, &select, self.transaction, &insert, self.settings) {
            Ok(rows) => Ok(rows),
            Err(error) if is_fault_of_a_row(&error) => {
                Err(InsertHalt::Refused(sqlite_says(&error)))
            }
            Err(error) => Err(refused(error).into()),
        }
    }

    fn path(&self, attached: bool, set_aside: &SetAside) -> String {
        let way = match (attached, self.sorted) {
            (true, true) => "SQL: INSERT … SELECT of presorted rows, one transaction",
            (true, false) => "SQL: INSERT … SELECT, one transaction",
            (false, _) => "SQL: row by row, as the database's texts are UTF-16, one transaction",
        };
        format!("{way}{}", set_aside.said())
    }

    pub fn notes(&self, outcome: &Outcome) -> Vec<String> {
        let mut notes = Vec::new();
        let table = &self.declared.name;
        let removed = outcome.rows_removed;
        let is_dry = self.target.overlay.is_some();
        if removed > 0 && outcome.rows_changed == 0 {
            let rows = if removed == 1 {
                "row that was".to_owned()
            } else {
                format!("{removed} rows that were")
            };
            notes.push(if is_dry {
                format!("{table} would be empty: the {rows} there would go, and none come")
            } else {
                format!("{table} is empty now: the {rows} there went, and none came")
            });
        }
        let adds = matches!(self.mode, InsertMode::Append | InsertMode::Replace);
        let passed_over = if adds { outcome.rows_ignored } else { 0 };
        notes.extend(notes_of_triggers(table, &self.declared.triggers, passed_over, is_dry));
        if self.declared.is_child || !self.declared.referring.is_empty() {
            let were = if is_dry { "would be" } else { "were" };
            notes.push(format!("the foreign keys of {table} {were} enforced"));
        }
        notes
    }
}

/// Notes on the triggers of a table, which passed over so many rows.
pub fn notes_of_triggers(
    table: &str,
    triggers: &[String],
    rows_passed_over: u64,
    is_dry: bool,
) -> Vec<String> {
    if triggers.is_empty() {
        return Vec::new();
    }
    let ran = if is_dry { "would run" } else { "ran" };
    let mut notes = vec![format!("the triggers of {table} {ran}: {}", triggers.join(", "))];
    if rows_passed_over > 0 {
        notes.push(format!(
            "the triggers of {table} {} {}, as by RAISE(IGNORE)",
            if is_dry { "would pass over" } else { "passed over" },
            counted(rows_passed_over, "row", "rows")
        ));
    }
    notes
}
