//! Destination of the rows. It is a new database, a new table in an existing one, or an
//! existing table.
//!
//! In all three cases the rows are first built into a hidden file beside the destination:
//!
//! | destination | then |
//! |---|---|
//! | no file | the built file gets its name |
//! | a database without the table | the built table is moved in |
//! | a database with the table | the rows, sorted by its key, are inserted from the built file |

mod refuse;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leafpress_format::{KeyColumn, PageLayout};

use self::refuse::{
    check_for_later, missing_rule, refuse_other_order, refuse_other_page_size, refuse_others,
    refuse_without_key, way_to_make,
};
use super::existing::{
    BestOrder, Existing, InsertHalt, InsertInto, InsertMode, Orphan, Outcome, Refusals, Settings,
    Staged, UNCHANGED, describe_table, find_orphan, insert, insert_one_by_one, inspect, key_column,
    look_at, move_in, order_of,
};
use super::monitor::Monitor;
use super::options::{IntoTable, LoadOptions, OnConflict};
use super::preset::Layout;
use crate::error::{Error, Result};
use crate::load::passes::feed::TableAhead;
use crate::load::passes::plan::{Plan, declared_table, with_indexes};
use crate::load::tree::RowOrder;
use crate::new_file::{Destination, followed, refuse_if_made, refuse_without_folder};
use crate::paths::folder_of;
use crate::refusal::{not_readable, refuse_unless_path, why_not_writable};
use crate::schema::declared::DeclaredTable;
use crate::schema::names::{column_named, names_there};
use crate::schema::shape::{ShapeColumn, TableShape, staged_shape};
use crate::schema::sql_words::{declares_conflicts, sql_words};

/// The destination of a load.
pub struct Target {
    table: String,
    /// The table to be built, if its shape is known before: declared by hand, or for rows that go
    /// into an existing table.
    declared: Option<TableShape>,
    place: Place,
    /// True if rows for an existing table stay in the input's order.
    keeps_order: bool,
    /// True if SQLite makes the indexes that cannot be pressed before the rows come.
    indexes_first: bool,
    /// Page size in bytes of a new database, if its values have shown it.
    page_bytes: Option<u32>,
}

enum Place {
    /// The built file becomes the database.
    New,
    /// The built table becomes one of the database's.
    NewTable(Box<Existing>),
    /// The built rows go into the existing table.
    Table {
        existing: Box<Existing>,
        mode: InsertMode,
        /// Statement that declares the table.
        sql: String,
        /// The declaration as SQLite has read it.
        declared: Box<DeclaredTable>,
    },
}

/// Result of publishing.
#[derive(Debug, Default)]
pub struct Published {
    /// Number of rows, if it differs from the built file's.
    pub rows: Option<u64>,
    pub rows_ignored: u64,
    pub bytes: Option<u64>,
    pub pages: Option<u64>,
    pub path: Option<String>,
    pub notes: Vec<String>,
    pub elapsed: Duration,
}

impl Target {
    /// Inspects the destination, before any work is done.
    pub fn open(options: &LoadOptions, table: &str) -> Result<Self> {
        let target = Self::find(options, table, inspect)?;
        target.existing().map_or(Ok(()), Existing::refuse_unless_writable)?;
        Ok(target)
    }

    /// Inspects the destination for a dry run, without an attempt to write.
    pub fn look(options: &LoadOptions, table: &str) -> Result<Self> {
        let target = Self::find(options, table, look_at)?;
        target.let_go();
        Ok(target)
    }

    /// The database that the rows go into, if it is there.
    fn existing(&self) -> Option<&Existing> {
        match &self.place {
            Place::New => None,
            Place::NewTable(existing) | Place::Table { existing, .. } => Some(existing),
        }
    }

    /// Closes the kept connection, so that other programs can leave WAL mode during a long build.
    pub fn let_go(&self) {
        self.existing().inspect(|it| it.let_go());
    }

    /// The reason why a load could not write; a dry run goes on.
    pub fn why_not_writable(&self, options: &LoadOptions) -> Option<String> {
        let database = options.database.as_path();
        let file = (!self.is_new()).then(|| why_not_writable(database)).flatten();
        let why = file.or_else(|| why_not_writable(folder_of(database)))?;
        Some(format!("a load would fail now: {why}"))
    }

    fn find(
        options: &LoadOptions,
        table: &str,
        inspect: fn(&Path, Duration) -> Result<Existing>,
    ) -> Result<Self> {
        let declared =
            options.declaration.as_deref().map(|sql| declared_table(options, sql)).transpose()?;
        if let Some(preset) = options.preset {
            let strict = options.strict || declared.as_ref().is_some_and(TableShape::needs_strict);
            preset.check(options.given_page_bytes, options.given_layout, strict)?;
        }
        let table = declared.as_ref().map_or(table, |shape| &shape.name).to_owned();
        if table.is_empty() {
            return Err(Error::misuse("a table needs a name").to_do("name it with ⟦table⟧"));
        }
        refuse_unless_path(&options.database)?;
        let is_there = options.database.try_exists();
        if !is_there.map_err(|source| not_readable(&options.database, source))? {
            return match options.into {
                Some(_) if !options.makes_missing() => {
                    let database = options.destination();
                    let way = way_to_make(options);
                    let advice = format!("there is no database {database}; {way}");
                    Err(Error::no_such_table(&table).to_do(advice))
                }
                _ => {
                    check_for_later(options, declared.as_ref())?;
                    let path = followed(&options.database);
                    refuse_if_made(&path)?;
                    refuse_without_folder(&path)?;
                    let taken = options.later_database.as_ref().map_or(&[][..], |it| &it.1);
                    Self::of_new_table(options, table, (declared, taken), Place::New)
                }
            };
        }
        refuse_other_order(options)?;
        let existing = inspect(&options.database, options.busy_timeout)?;
        refuse_other_page_size(options, existing.page_bytes)?;
        match (existing.has_table(&table), insert_mode(options)) {
            (true, Some(mode)) => {
                Self::of_table(options, existing, &table, mode, declared.is_some())
            }
            (false, Some(_)) if !options.makes_missing() => {
                existing.refuse_if_named(&table)?;
                let advice = format!("name a table that is there; {}", way_to_make(options));
                Err(Error::no_such_table(&table).on_disk(UNCHANGED).to_do(advice))
            }
            (true, None) | (false, _) => {
                existing.refuse_if_named(&table)?;
                if let Some(shape) = &declared {
                    refuse_others(shape)?;
                    existing.refuse_if_indexes_are_named(shape)?;
                }
                let taken = existing.names();
                let place = Place::NewTable(Box::new(existing));
                Self::of_new_table(options, table, (declared, &taken), place)
            }
        }
    }

    /// The destination for the rows of a new table. The indexes that the options add to its declaration get
    /// none of the names that are taken.
    fn of_new_table(
        options: &LoadOptions,
        table: String,
        (declared, names_taken): (Option<TableShape>, &[String]),
        place: Place,
    ) -> Result<Self> {
        let indexed = declared.map(|shape| with_indexes(options, shape, names_taken));
        Ok(Self::new(table, indexed.transpose()?, place))
    }

    fn new(table: String, declared: Option<TableShape>, place: Place) -> Self {
        let (keeps_order, indexes_first) = (false, false);
        Self { table, declared, place, keeps_order, indexes_first, page_bytes: None }
    }

    /// The destination for rows of an existing table, which are staged in a plain table of its
    /// columns.
    fn of_table(
        options: &LoadOptions,
        existing: Existing,
        table: &str,
        mode: InsertMode,
        is_declared: bool,
    ) -> Result<Self> {
        if is_declared || options.all_text || options.exact {
            let reason = format!("the table '{table}' is there, with its own declaration");
            return Err(Error::misuse(reason)
                .to_do("leave out ⟦declaration⟧, ⟦declaration_file⟧, ⟦all_text⟧ and ⟦exact⟧"));
        }
        if mode == InsertMode::Replace && options.on_conflict != OnConflict::Abort {
            return Err(Error::misuse(
                "rows that replace a table's rows must differ in their keys",
            )
            .to_do("leave out ⟦on_conflict⟧, or load with ⟦upsert⟧"));
        }
        let (mut there, read) = describe_table(&existing, table)?;
        refuse_without_key(options, &there)?;
        if mode == InsertMode::Upsert && options.uuid7.is_some() {
            return Err(Error::misuse(
                "a made key is new in each load, so rows that are there would get other keys",
            )
            .to_do("leave out ⟦uuid7⟧: the rows of the input must bring the key that tells which row each one changes"));
        }
        if let Some((lacks, option)) = missing_rule(options, &there, &read.primary_key())? {
            let reason =
                format!("the table '{table}' is there, with its own declaration: it {lacks}");
            return Err(Error::misuse(reason).to_do(format!(
                "leave out {option}, or make it what the table has; to have it, load into a new table"
            )));
        }
        if let Some(rowid) = there.rowid_column {
            // SQLite gives a row without a value there a number, also if NULL is refused.
            there.columns[rowid].not_null = false;
        }
        if existing.has_before_trigger(table) && !declares_conflicts(&sql_words(&there.sql)) {
            // The trigger may pass over a row, before SQLite refuses its NULLs. By an ON CONFLICT,
            // SQLite might not refuse them.
            there.columns.iter_mut().for_each(|column| column.not_null = false);
        }
        if matches!(mode, InsertMode::Ignore | InsertMode::Upsert) {
            // A row without the key that was named would be added again by each load.
            let names = names_there(there.columns.iter().map(|column| column.name.as_str()));
            for key in &options.primary_key {
                there.columns[column_named(&names, key)?].not_null = true;
            }
        }
        let (generated, mut columns): (Vec<ShapeColumn>, Vec<ShapeColumn>) =
            there.columns.into_iter().partition(|column| column.generated);
        for column in &mut columns {
            // A value kept as it is has no type where the table is not STRICT.
            if there.strict && column.declared_type.eq_ignore_ascii_case("ANY") {
                column.declared_type.clear();
            }
        }
        let generated_there = generated.into_iter().map(|column| column.name).collect();
        let staged = TableShape { generated_there, ..staged_shape(table, columns, None) };
        let place = Place::Table {
            existing: Box::new(existing),
            mode,
            sql: there.sql,
            declared: Box::new(read),
        };
        Ok(Self::new(there.name, Some(staged), place))
    }

    /// Way of the built table to its place, if it is more than a rename.
    pub fn path_ahead(&self) -> Option<&'static str> {
        match &self.place {
            Place::New => None,
            Place::NewTable(_) => Some("then moved into the database in one transaction"),
            Place::Table { .. } => Some("then inserted into the table in one transaction"),
        }
    }

    /// Makes the hidden file that is built.
    pub fn stage(&self, options: &LoadOptions) -> Result<Destination> {
        match self.place {
            Place::New => {
                // A file in another order is copied, and only the copy stays.
                let stays = options.layout() != Layout::Remote;
                let listener = options.listener.clone().filter(|_| stays);
                Ok(Destination::create(&options.database, options.rights)?.tell_of_writes(listener))
            }
            Place::NewTable(_) | Place::Table { .. } => Destination::staged(&options.database),
        }
    }

    pub fn table(&self) -> &str {
        &self.table
    }

    /// The table that the rows go into, as far as it is known.
    pub fn ahead(&self, options: &LoadOptions) -> Result<TableAhead<'_>> {
        let names_taken = match (&self.place, &options.later_database) {
            (Place::NewTable(existing), _) => existing.names(),
            (Place::New, Some((_, names))) => names.clone(),
            (Place::New | Place::Table { .. }, _) => Vec::new(),
        };
        let page_bytes = self.layout(options)?.page_bytes();
        let declared = self.declared.as_ref();
        Ok(TableAhead { name: &self.table, declared, names_taken, page_bytes })
    }

    /// Returns true if the rows go into an existing table.
    pub fn is_table(&self) -> bool {
        matches!(self.place, Place::Table { .. })
    }

    /// Puts an overlay over the database, so that nothing is written to it.
    pub fn only_try(&mut self, folder: &Path) -> Result<()> {
        match &mut self.place {
            Place::New => Ok(()),
            Place::NewTable(existing) | Place::Table { existing, .. } => existing.only_try(folder),
        }
    }

    /// Refuses a database that changed during a dry run, if nothing else would have told.
    pub fn refuse_unless_at_rest(&self) -> Result<()> {
        self.existing().map_or(Ok(()), Existing::refuse_unless_at_rest)
    }

    /// Number of times that the rows are on the disk at the end of a load: in the temporary file, in the
    /// database that is there, and in its log.
    pub fn times_written(&self) -> u64 {
        match self.existing() {
            None => 1,
            Some(existing) if existing.journal_mode == "wal" => 3,
            Some(_) => 2,
        }
    }

    /// Returns true if the rows of a new table may have foreign keys, which only the database can
    /// check.
    pub fn checks_foreign_keys(&self, shape: &TableShape) -> bool {
        matches!(self.place, Place::NewTable(_))
            && sql_words(&shape.sql).iter().any(|word| word.is("REFERENCES"))
    }

    /// Builds the rows in the input's order from now on, into a table without rules.
    pub fn keep_order(&mut self) {
        self.keeps_order = true;
    }

    /// Has SQLite make the indexes that cannot be pressed before the rows come, from now on. Returns false
    /// if it did so already.
    pub fn make_indexes_first(&mut self) -> bool {
        !std::mem::replace(&mut self.indexes_first, true)
    }

    pub fn makes_indexes_first(&self) -> bool {
        self.indexes_first
    }

    /// Builds a new database with pages of this size from now on.
    pub fn take_page_bytes(&mut self, bytes: u32) {
        self.page_bytes = Some(bytes);
    }

    /// Returns true if the built file becomes the database.
    pub fn is_new(&self) -> bool {
        matches!(self.place, Place::New)
    }

    /// Declaration of the table that the rows go to, if it is not the built one.
    pub fn create_sql(&self) -> Option<String> {
        match &self.place {
            Place::Table { sql, .. } => Some(sql.clone()),
            Place::New | Place::NewTable(_) => None,
        }
    }

    /// The layout of the pages.
    pub fn layout(&self, options: &LoadOptions) -> Result<PageLayout> {
        let (bytes, reserved) = match self.existing() {
            None => (self.page_bytes.unwrap_or(options.page_bytes()), 0),
            Some(existing) => (existing.page_bytes, existing.reserved_bytes),
        };
        PageLayout::with_reserved(bytes, reserved).map_err(|error| Error::misuse(error.to_string()))
    }

    /// Shape and order of the table to be built. Rows for an existing table are sorted in the order
    /// that it takes fastest.
    pub fn to_build(&self, options: &LoadOptions, plan: &Plan) -> Result<(TableShape, RowOrder)> {
        let Place::Table { mode, declared, .. } = &self.place else {
            refuse_without_key(options, &plan.shape)?;
            return Ok(if self.keeps_order {
                (without_rules(&plan.shape), RowOrder::ThroughSql)
            } else {
                new_table(plan, self.indexes_first)
            });
        };
        if self.keeps_order {
            return Ok((plan.shape.clone(), RowOrder::Ascending));
        }
        let columns = plan.shape.columns.clone();
        let best = order_of(declared, &plan.given_names(), *mode);
        let row_order = match best {
            BestOrder::Rowid(_) => RowOrder::ByRowidIfGiven,
            BestOrder::Columns(_) | BestOrder::Any => RowOrder::ByKey,
        };
        let order = match best {
            BestOrder::Any => return Ok((plan.shape.clone(), RowOrder::Ascending)),
            BestOrder::Rowid(name) => vec![(name, KeyColumn::default())],
            BestOrder::Columns(columns) => columns.iter().map_while(key_column).collect(),
        };
        let columns_of_order = order.iter().filter_map(|(name, key)| {
            let at = columns.iter().position(|c| c.name.eq_ignore_ascii_case(name))?;
            Some((at, *key))
        });
        let mut order: Vec<(usize, KeyColumn)> = Vec::new();
        for (at, key) in columns_of_order {
            // An index may have the same column twice, with another collation.
            if order.iter().any(|(before, _)| *before == at) {
                break;
            }
            order.push((at, key));
        }
        if order.is_empty() {
            return Ok((plan.shape.clone(), RowOrder::Ascending));
        }
        Ok((staged_shape(&plan.shape.name, columns, Some(&order)), row_order))
    }

    /// Moves the table of the built file into the database.
    pub fn move_in(
        &self,
        options: &LoadOptions,
        staged: &Destination,
        rows: u64,
        monitor: &Monitor,
    ) -> Result<Published> {
        let started = Instant::now();
        let Place::NewTable(existing) = &self.place else {
            return Err(Error::bug("there is no database to move the table into"));
        };
        monitor.enter_counting("moving in");
        let from = Staged { file: staged.temporary(), table: &self.table, rows };
        let outcome = move_in(existing, &from, &settings(options, monitor))
            .inspect_err(|error| existing.tidy_after(error))?;
        Ok(published(existing, outcome, started))
    }

    /// Returns the first row of the input with a foreign key without its parent row, if that kept
    /// the table out; `rows` holds the rows as they are built after
    /// [`keep_order`](Self::keep_order).
    pub fn find_orphan(
        &self,
        options: &LoadOptions,
        staged: &Destination,
        rows: &Path,
        monitor: &Monitor,
    ) -> Option<Orphan> {
        let Place::NewTable(existing) = &self.place else { return None };
        let from = Staged { file: staged.temporary(), table: &self.table, rows: 0 };
        find_orphan(existing, &from, rows, &settings(options, monitor))
    }

    /// Inserts the rows of the built file into the existing table, by one statement. `order` is the
    /// order in which they were built.
    pub fn insert(
        &self,
        options: &LoadOptions,
        built: &BuiltRows<'_>,
        order: RowOrder,
        monitor: &Monitor,
    ) -> Result<Published, InsertHalt> {
        let started = Instant::now();
        let (existing, mode) = self.table_there()?;
        monitor.enter_counting("inserting");
        let into = InsertInto { table: &self.table, columns: built.columns, mode };
        let sorted = matches!(order, RowOrder::ByKey | RowOrder::ByRowidIfGiven);
        let settings = settings(options, monitor);
        let outcome = insert(existing, &self.staged(built), &into, sorted, &settings);
        if let Err(InsertHalt::Failed(error)) = &outcome {
            existing.tidy_after(error);
        }
        let outcome = outcome?;
        Ok(published(existing, outcome, started))
    }

    /// Inserts the rows one by one, without the refused ones if the caller agrees.
    pub fn insert_one_by_one(
        &self,
        options: &LoadOptions,
        built: &BuiltRows<'_>,
        refusals: &mut Refusals<'_>,
        monitor: &Monitor,
    ) -> Result<Published> {
        let started = Instant::now();
        let (existing, mode) = self.table_there()?;
        monitor.enter_counting("inserting");
        let into = InsertInto { table: &self.table, columns: built.columns, mode };
        let settings = settings(options, monitor);
        let outcome = insert_one_by_one(existing, &self.staged(built), &into, &settings, refusals)
            .inspect_err(|error| existing.tidy_after(error))?;
        Ok(published(existing, outcome, started))
    }

    fn staged<'s>(&'s self, built: &BuiltRows<'s>) -> Staged<'s> {
        let table = self.declared.as_ref().map_or(&self.table, |shape| &shape.name);
        Staged { file: built.file, table, rows: built.rows }
    }

    fn table_there(&self) -> Result<(&Existing, InsertMode)> {
        match &self.place {
            Place::Table { existing, mode, .. } => Ok((existing, *mode)),
            Place::New | Place::NewTable(_) => Err(Error::bug("there is no table to insert into")),
        }
    }
}

/// Rows that were built for an existing table.
#[derive(Debug, Clone, Copy)]
pub struct BuiltRows<'b> {
    /// Path of the file with the rows.
    pub file: &'b Path,
    /// Number of the rows.
    pub rows: u64,
    /// Names of the columns that they have values for.
    pub columns: &'b [String],
}

fn settings(options: &LoadOptions, monitor: &Monitor) -> Settings {
    Settings {
        busy_timeout: options.busy_timeout,
        memory_bytes: options.memory_bytes as u64,
        threads: options.threads,
        cancel: options.cancel.clone(),
        rows_done: Arc::clone(&monitor.rows),
        analyze: options.analyze,
    }
}

fn published(existing: &Existing, outcome: Outcome, started: Instant) -> Published {
    Published {
        rows: Some(outcome.rows_changed),
        rows_ignored: outcome.rows_ignored,
        // Not the length of the file: a reader can keep pages in the log.
        bytes: Some(outcome.pages * u64::from(existing.page_bytes)),
        pages: Some(outcome.pages),
        path: Some(outcome.path),
        notes: outcome.notes,
        elapsed: started.elapsed(),
    }
}

fn insert_mode(options: &LoadOptions) -> Option<InsertMode> {
    Some(match (options.into?, options.on_conflict) {
        (IntoTable::Append, OnConflict::Ignore) | (IntoTable::Ignore, _) => InsertMode::Ignore,
        (IntoTable::Append, OnConflict::Replace) | (IntoTable::Upsert, _) => InsertMode::Upsert,
        (IntoTable::Append, OnConflict::Abort) => InsertMode::Append,
        (IntoTable::Replace, _) => InsertMode::Replace,
    })
}

/// A new table, which SQLite fills where it has to make a value.
fn new_table(plan: &Plan, indexes_first: bool) -> (TableShape, RowOrder) {
    let mut shape = plan.shape.clone();
    let mut indexes = shape.indexes.iter().filter(|_| indexes_first);
    if let Some(reason) = indexes.find_map(|index| index.through_sql.clone()) {
        shape.through_sql.get_or_insert(reason);
        return (shape, RowOrder::ThroughSql);
    }
    let Some(at) = plan.filled_by_sqlite().next() else { return (shape, plan.order) };
    let reason =
        format!("the DEFAULT of column \"{}\" is made for each row", shape.columns[at].name);
    shape.through_sql.get_or_insert(reason);
    (shape, RowOrder::ThroughSql)
}

/// A table with the same columns and without keys. SQLite fills it, and numbers the rows in the
/// order of the input.
fn without_rules(shape: &TableShape) -> TableShape {
    let TableShape { name, columns, rowid_column, .. } = shape.clone();
    TableShape { rowid_column, ..staged_shape(&name, columns, None) }
}
