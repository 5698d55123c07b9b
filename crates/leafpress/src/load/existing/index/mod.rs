//! `leafpress index`: an index on a table that exists.
//!
//! ```text
//! table's leaves ──► entries ──► sorted ──► index pages ──► behind the last page,
//!  (`scan.rs`)      (workers)               (`build.rs`)     through sqlite_dbpage
//! ```
//!
//! All of it happens in one transaction that holds the write lock from its
//! start, so nothing is written between the scan and the commit. Pages are
//! written through SQLite, and its journal or its WAL protects them. Leaves are
//! read from the file where it holds what the transaction sees
//! (`file_pages.rs`), else through SQLite. The schema row is the last to be
//! written, and SQLite looks at both ends of the index before the commit.
//!
//! Invariants:
//! 1. After an error the database is as it was.
//! 2. The index holds what CREATE INDEX would have put into it, in its order.
//!
//! SQLite itself makes an index that cannot be pressed, and the report says why.

mod build;
mod file_pages;
mod maker;
mod press_plan;
mod scan;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leafpress_format::{PageLayout, SortOrder};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, params};

use self::build::{Built, NOT_UNIQUE_TO_DO, Press, Presser};
use self::file_pages::LogBefore;
use self::press_plan::PressPlan;
use self::scan::{Scan, ScanEnd};
use super::commit::{commit, look_at_ends};
use super::connect::{ExistingDatabase, Steps, UNCHANGED, ask, constraint};
use super::inspect::{Existing, inspect, read_header};
use super::task::Settings;
use super::write_out::WriteOut;
use crate::connect::BUSY_TIMEOUT_MAX;
use crate::error::{Error, Result};
use crate::load::long_statements::set_sorter;
use crate::load::memory;
use crate::load::options::{BUSY_TIMEOUT_DEFAULT, CancelToken};
use crate::load::report::Stage;
use crate::new_file::disk;
use crate::new_file::refuse_unless_folder;
use crate::paths::folder_of;
use crate::schema::ddl::IndexRequest;
use crate::schema::describe::{describe_existing, describe_index};
use crate::schema::names::ColumnName;
use crate::schema::quote_identifier;
use crate::schema::shape::{EntryColumn, IndexShape, OwnedValue, TableShape};
use crate::sort::SortOptions;
use crate::sqlite_error::{is_refusal, needs_its_application, sqlite_says};

/// Pages are used once here: a larger cache wins nothing.
const CACHE_BYTES: u64 = 16 << 20;

/// An index is made of free pages if they are this part of the database, or more: a quarter, so
/// that indexes which are made and dropped in turn lengthen the file by a third at most.
const FREE_PAGES_PART: u32 = 4;
/// With fewer free pages than this, the index is built behind the end of the file.
const FREE_PAGES_MIN: u32 = 64;

/// Makes an index on a table of a database that exists.
///
/// ```no_run
/// let report = leafpress::load::Indexer::new("people.db", "person")
///     .build("family_name NOCASE, born DESC")?;
/// println!("{}: {} entries in {:?}", report.index, report.entries, report.elapsed);
/// # Ok::<(), leafpress::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Indexer {
    database: PathBuf,
    table: String,
    name: Option<String>,
    unique: bool,
    only_if_missing: bool,
    analyze: bool,
    threads: usize,
    memory_bytes: usize,
    folder: Option<PathBuf>,
    busy_timeout: Duration,
    cancel: CancelToken,
}

/// Report of an index that was made, or that existed already.
#[derive(Debug, Clone, serde::Serialize)]
#[non_exhaustive]
pub struct IndexReport {
    /// Path of the database.
    #[serde(serialize_with = "crate::words::path_as_text")]
    pub database: PathBuf,
    /// Name of the table.
    pub table: String,
    /// Name of the index.
    pub index: String,
    /// The statement that declares it; empty for one that a constraint of the table made.
    pub create_sql: String,
    /// True if the index existed already, and nothing was done.
    pub existed: bool,
    /// Number of entries, which is that of the table's rows.
    pub entries: u64,
    /// Number of pages by which the database grew.
    pub pages: u64,
    /// Way in which it was made: "pressed", or "SQL: " and the reason.
    pub path: String,
    /// Time from the call to the commit.
    #[serde(rename = "elapsed_s", serialize_with = "crate::times::seconds")]
    pub elapsed: Duration,
    /// Time by stage.
    pub stages: Vec<Stage>,
}

impl Indexer {
    /// An indexer for that table.
    pub fn new(database: impl Into<PathBuf>, table: impl Into<String>) -> Self {
        crate::vfs::memory::one_heap_where_limited();
        Self {
            database: database.into(),
            table: table.into(),
            name: None,
            unique: false,
            only_if_missing: false,
            analyze: false,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            memory_bytes: memory::default_bytes(),
            folder: None,
            busy_timeout: BUSY_TIMEOUT_DEFAULT,
            cancel: CancelToken::new(),
        }
    }

    /// Name of the index; by default made of the table's and the columns' names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Refuses rows with the same values in the columns of the index, if true.
    pub fn unique(mut self, unique: bool) -> Self {
        self.unique = unique;
        self
    }

    /// If true, an equal index that exists already is left as it is, and is no error.
    pub fn only_if_missing(mut self, only_if_missing: bool) -> Self {
        self.only_if_missing = only_if_missing;
        self
    }

    /// Fills `sqlite_stat1` for the index, as ANALYZE does, if true.
    pub fn analyze(mut self, analyze: bool) -> Self {
        self.analyze = analyze;
        self
    }

    /// Number of threads; by default the number of cores.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Memory for the sort; what exceeds it goes to a temporary file. By default as for a load
    /// ([`Loader::memory`](crate::load::Loader::memory)).
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory_bytes = memory::at_most_all(bytes);
        self
    }

    /// Folder for temporary files; by default the database's. SQLite sorts an index that it makes in the
    /// folder that the variable `SQLITE_TMPDIR` names.
    pub fn tmpdir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Longest wait for other programs that write; five seconds by default, and 24 days at most.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout.min(BUSY_TIMEOUT_MAX);
        self
    }

    /// Token by which another thread can stop it.
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Makes the index of these columns: names between commas, each with a
    /// collation and a direction if it wants (`name NOCASE DESC`).
    ///
    /// # Errors
    ///
    /// An unknown table or column, an equal index that exists already
    /// ([`TableExists`](crate::ErrorKind::TableExists)), rows that are not unique but should be, a
    /// database that is locked, read-only or damaged, a full disk: the
    /// database is as it was then.
    pub fn build(self, columns: &str) -> Result<IndexReport> {
        let since = Instant::now();
        let report = self.checked(columns).map_err(|error| error.on_disk(UNCHANGED))?;
        Ok(IndexReport { elapsed: since.elapsed(), ..report })
    }

    fn checked(&self, columns: &str) -> Result<IndexReport> {
        if self.name.as_deref() == Some("") {
            let error = Error::misuse("an index needs a name");
            return Err(error.to_do("name it with ⟦index_name⟧, or leave that out"));
        }
        self.folder.as_deref().map_or(Ok(()), refuse_unless_folder)?;
        let existing = inspect(&self.database, self.busy_timeout)?;
        self.build_in(&existing, columns).inspect_err(|error| existing.tidy_after(error))
    }

    fn build_in(&self, existing: &Existing, columns: &str) -> Result<IndexReport> {
        let mut steps = Steps::start();
        let target = &existing.target;
        let settings = self.settings();
        let mut connection = target.open_for_bulk(&settings)?;
        let refused = |error| target.refused("make the index", error);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).map_err(refused)?;
        let log = LogBefore::copy(&connection).map_err(|error| {
            target.refused("copy the log into the database", error).on_disk(UNCHANGED)
        })?;
        let transaction = target.begin(&mut connection)?;
        steps.end("waiting for the lock");
        let pages_before: u32 = ask(&transaction, "PRAGMA page_count").map_err(refused)?;
        let plan = match Plan::make(self, existing, &transaction, columns)? {
            Planned::Make(plan) => plan,
            Planned::Exists(there) => return self.existing_index(existing, &there),
        };
        let job = Job {
            indexer: self,
            target,
            transaction: &transaction,
            plan: &plan,
            pages_before,
            log,
        };
        let _write_out = WriteOut::begin(&target.path);
        let made = job.run(&mut steps)?;
        if self.analyze {
            job.analyze(made.statistics.as_deref()).map_err(refused)?;
        }
        let pages: u32 = ask(&transaction, "PRAGMA page_count").map_err(refused)?;
        commit(&transaction, existing, ("the index", &plan.table), &self.cancel, &mut steps)?;
        Ok(IndexReport {
            database: self.database.clone(),
            table: plan.table,
            index: plan.name,
            create_sql: plan.sql,
            existed: false,
            entries: made.entries,
            pages: u64::from(pages - pages_before),
            path: made.path,
            elapsed: Duration::ZERO,
            stages: steps.stages,
        })
    }

    /// The report or error for an index that exists already.
    fn existing_index(&self, existing: &Existing, there: &IndexThere) -> Result<IndexReport> {
        let IndexThere { table, name, sql } = there;
        if !self.only_if_missing {
            let reason = format!("the index {name} on table {table} does the same already");
            return Err(existing
                .target
                .table_exists(name, reason)
                .to_do("leave it at that, or say ⟦if_not_exists⟧ where it may be there"));
        }
        Ok(IndexReport {
            database: self.database.clone(),
            table: table.clone(),
            index: name.clone(),
            create_sql: sql.clone(),
            existed: true,
            entries: 0,
            pages: 0,
            path: "nothing was done: it is there".to_owned(),
            elapsed: Duration::ZERO,
            stages: Vec::new(),
        })
    }

    fn settings(&self) -> Settings {
        Settings {
            busy_timeout: self.busy_timeout,
            memory_bytes: CACHE_BYTES,
            threads: self.threads,
            cancel: self.cancel.clone(),
            rows_done: Arc::default(),
            analyze: false,
        }
    }

    fn sort_options(&self, target: &ExistingDatabase) -> SortOptions {
        let beside = || folder_of(&target.path).to_owned();
        SortOptions {
            memory_bytes: self.memory_bytes,
            threads: self.threads,
            folder: self.folder.clone().unwrap_or_else(beside),
            make_file: disk::make_unnamed,
            ends_in_rowid: false,
        }
    }
}

/// The wanted index, and the way to make it.
struct Plan {
    table: String,
    name: String,
    sql: String,
    manner: Manner,
}

/// Decision after a look at the schema.
enum Planned {
    Make(Plan),
    Exists(IndexThere),
}

/// An index that exists already.
struct IndexThere {
    table: String,
    name: String,
    sql: String,
}

/// An index of the table with the same entries in the same order as the wanted one. A unique index
/// can stand for one that is not unique.
fn equal_index(
    transaction: &Transaction<'_>,
    table: &TableShape,
    wanted: Option<&IndexShape>,
    unique: bool,
) -> Result<Option<IndexThere>> {
    let Some(wanted) = wanted.filter(|it| it.through_sql.is_none()) else { return Ok(None) };
    let there = describe_existing(transaction, "main", &table.name)?;
    let equal = there.indexes.into_iter().find(|index| {
        index.through_sql.is_none()
            && index.unique >= unique
            && index.entry.order.len() == wanted.entry.order.len()
            && index.entry.columns == wanted.entry.columns
            && index.entry.order == wanted.entry.order
    });
    Ok(equal.map(|index| IndexThere {
        table: table.name.clone(),
        name: index.name,
        sql: index.sql.unwrap_or_default(),
    }))
}

/// The two ways to make an index.
enum Manner {
    Pressed(Box<PressPlan>),
    /// SQLite makes the index; with the reason.
    ThroughSql(String),
}

impl Plan {
    fn make(
        indexer: &Indexer,
        existing: &Existing,
        transaction: &Transaction<'_>,
        columns: &str,
    ) -> Result<Planned> {
        let table = describe_existing(transaction, "main", &indexer.table)?;
        let names: Vec<ColumnName> =
            table.columns.iter().map(|column| column.name.as_str().into()).collect();
        let request = IndexRequest::parse(columns, indexer.unique, &names)?;
        let probe = "leafpress probe";
        let mut wanted = describe_index(&table, request.create_sql(probe, &table.name), probe);
        let header = read_header(transaction);
        let header = header.map_err(|error| existing.target.refused("read the database", error))?;
        if let Some(wanted) = wanted.as_mut()
            && header.is_some_and(|it| !it.is_of_this_format())
        {
            // SQLite passes over DESC there.
            wanted.entry.order.iter_mut().for_each(|key| key.order = SortOrder::Ascending);
        }
        let equal = equal_index(transaction, &table, wanted.as_ref(), indexer.unique)?;
        if let Some(there) = equal {
            return Ok(Planned::Exists(there));
        }
        let taken = existing.target.names(transaction)?;
        let is_taken = |name: &str| taken.iter().any(|taken| taken.eq_ignore_ascii_case(name));
        let name = match &indexer.name {
            Some(name) if is_taken(name) => {
                let refusal = format!("there is something called {name} already");
                return Err(existing
                    .target
                    .table_exists(name, refusal)
                    .to_do("choose another name with ⟦index_name⟧"));
            }
            Some(name) => name.clone(),
            None => request.name(&table.name, is_taken),
        };
        let sql = request.create_sql(&name, &table.name);
        // SQLite reads the statement before any work. It refuses reserved names, which would
        // otherwise be entered where pages are pressed.
        transaction.prepare(&sql).map_err(|error| existing.target.refused_statement(error))?;
        let wanted =
            wanted.map(|it| IndexShape { name: name.clone(), sql: Some(sql.clone()), ..it });
        let manner = manner(existing, transaction, &table, wanted)?;
        Ok(Planned::Make(Self { table: table.name, name, sql, manner }))
    }
}

impl ExistingDatabase {
    /// The error for a statement that SQLite refuses: the caller has to change it. All other errors
    /// are those of [`refused`](Self::refused).
    fn refused_statement(&self, error: rusqlite::Error) -> Error {
        let is_wrong = matches!(
            error.sqlite_error(),
            Some(it) if it.extended_code & 0xff == rusqlite::ffi::SQLITE_ERROR
        );
        if !is_wrong {
            return self.refused("make the index", error);
        }
        let to_do = if needs_its_application(&error) {
            "name other columns, or let the application make the index that has this function, \
             collation or module"
        } else {
            "choose another name with ⟦index_name⟧, or other columns"
        };
        Error::misuse(format!("SQLite refuses the index: {}", sqlite_says(&error))).to_do(to_do)
    }

    /// All names of the schema.
    fn names(&self, transaction: &Transaction<'_>) -> Result<Vec<String>> {
        let read = || {
            transaction
                .prepare("SELECT name FROM main.sqlite_schema")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()
        };
        read().map_err(|error| self.refused("read the schema", error))
    }
}

/// Chooses the way.
fn manner(
    existing: &Existing,
    transaction: &Transaction<'_>,
    table: &TableShape,
    wanted: Option<IndexShape>,
) -> Result<Manner> {
    let through_sql = |reason: &str| Ok(Manner::ThroughSql(reason.to_owned()));
    if let Some(reason) = existing.why_not_moved {
        return through_sql(reason);
    }
    let refused = |error| existing.target.refused("read the database", error);
    if ask::<i64>(transaction, "PRAGMA auto_vacuum").map_err(refused)? != 0 {
        return through_sql("the database gives free pages back (auto_vacuum)");
    }
    if table.key.is_some() {
        return through_sql("the table is WITHOUT ROWID");
    }
    if table.columns.iter().any(|column| column.generated) {
        return through_sql("the table has a generated column");
    }
    if has_many_free_pages(transaction).map_err(refused)? {
        return through_sql("it is put into the free pages of the database");
    }
    let Some(index) = wanted else {
        return through_sql("the table cannot be declared anew");
    };
    if let Some(reason) = index.through_sql {
        return Ok(Manner::ThroughSql(reason));
    }
    let Some(layout) = layout(transaction).map_err(refused)? else {
        return through_sql("its pages may have another form");
    };
    let columns = index.entry.columns.iter().filter_map(|column| match column {
        EntryColumn::Column(column) => Some(*column),
        EntryColumn::Rowid => None,
    });
    let root = "SELECT rootpage FROM main.sqlite_schema WHERE type = 'table' AND name = ?1";
    Ok(Manner::Pressed(Box::new(PressPlan {
        layout,
        table_root: transaction
            .query_row(root, [&table.name], |row| row.get(0))
            .map_err(refused)?,
        columns_needed: columns.clone().max().map_or(0, |last| last + 1),
        absent_is_null: columns
            .clone()
            .all(|column| table.columns[column].default == Some(OwnedValue::Null)),
        index,
    })))
}

/// Returns true if free pages are so large a part of the database that SQLite shall make the index
/// out of them: pressed ones always go behind the last page.
fn has_many_free_pages(connection: &Connection) -> rusqlite::Result<bool> {
    let pages: u32 = ask(connection, "PRAGMA page_count")?;
    let free: u32 = ask(connection, "PRAGMA freelist_count")?;
    Ok(free >= FREE_PAGES_MIN && free >= pages / FREE_PAGES_PART)
}

/// Layout of the pages, read with the lock held: another program may have changed it just before.
fn layout(connection: &Connection) -> rusqlite::Result<Option<PageLayout>> {
    let page_bytes: u32 = ask(connection, "PRAGMA page_size")?;
    let header = read_header(connection)?.filter(|header| header.is_of_this_format());
    Ok(header.and_then(|it| PageLayout::with_reserved(page_bytes, it.reserved_bytes).ok()))
}

/// Result of the work.
struct Made {
    entries: u64,
    path: String,
    statistics: Option<String>,
}

/// The work within the transaction.
struct Job<'j> {
    indexer: &'j Indexer,
    target: &'j ExistingDatabase,
    transaction: &'j Transaction<'j>,
    plan: &'j Plan,
    pages_before: u32,
    log: LogBefore,
}

impl Job<'_> {
    fn run(&self, steps: &mut Steps) -> Result<Made> {
        let press = match &self.plan.manner {
            Manner::Pressed(press) => press,
            Manner::ThroughSql(reason) => return self.through_sql(reason, steps),
        };
        let scan = Scan {
            transaction: self.transaction,
            target: self.target,
            cancel: &self.indexer.cancel,
            plan: press,
            threads: self.indexer.threads,
            pages: self.pages_before,
            log: self.log,
        };
        let sorted = match scan.run(self.indexer.sort_options(self.target))? {
            ScanEnd::Sorted(sorted) => sorted,
            ScanEnd::AbsentColumn => {
                let reason = "some rows are older than a column of the index";
                return self.through_sql(reason, steps);
            }
        };
        steps.end("reading the table");
        let built = Press {
            transaction: self.transaction,
            cancel: &self.indexer.cancel,
            threads: self.indexer.threads,
            of: Presser {
                table: &self.plan.table,
                target: self.target,
                index: &press.index,
                layout: press.layout,
                analyze: self.indexer.analyze,
            },
        }
        .run(&sorted, self.pages_before)?;
        steps.end("pressing");
        let refused = |error| self.target.refused("make the index", error);
        self.declare(&built).map_err(refused)?;
        self.look_at(&press.index).map_err(refused)?;
        steps.end("checking");
        Ok(Made {
            entries: built.entries,
            path: "pressed".into(),
            statistics: built.statistics.and_then(|statistics| statistics.stat()),
        })
    }

    /// Enters the tree into the schema, and has SQLite read that anew.
    fn declare(&self, built: &Built) -> rusqlite::Result<()> {
        let version: i64 = ask(self.transaction, "PRAGMA main.schema_version")?;
        self.transaction.execute_batch("PRAGMA writable_schema=ON")?;
        let row = "INSERT INTO main.sqlite_schema(type, name, tbl_name, rootpage, sql)
                   VALUES ('index', ?1, ?2, ?3, ?4)";
        let Plan { table, name, sql, .. } = self.plan;
        self.transaction.execute(row, params![name, table, built.root, sql])?;
        let version = version.wrapping_add(1) as i32;
        self.transaction.execute_batch(&format!(
            "PRAGMA main.schema_version={version}; PRAGMA writable_schema=RESET"
        ))
    }

    /// Reads an entry from each end of the index, as a last check before the commit.
    fn look_at(&self, index: &IndexShape) -> rusqlite::Result<()> {
        let first = "SELECT name, coll FROM pragma_index_xinfo(?1) WHERE seqno = 0";
        let (column, collation): (String, String) =
            self.transaction
                .query_row(first, [&index.name], |row| Ok((row.get(0)?, row.get(1)?)))?;
        look_at_ends(self.transaction, &self.plan.table, &index.name, &column, &collation)
    }

    /// Has SQLite make the index.
    fn through_sql(&self, reason: &str, steps: &mut Steps) -> Result<Made> {
        let entries = || {
            set_sorter(self.transaction, self.indexer.threads)?;
            self.transaction.execute_batch(&self.plan.sql)?;
            let table = quote_identifier(&self.plan.table);
            ask::<i64>(self.transaction, &format!("SELECT count(*) FROM main.{table}"))
        };
        let entries = entries().map_err(|error| {
            if is_refusal(&error) {
                let refusal = constraint(&self.plan.table, sqlite_says(&error));
                return refusal.to_do(NOT_UNIQUE_TO_DO);
            }
            self.target.refused("make the index", error)
        })?;
        steps.end("SQL");
        let path = format!("SQL: {reason}");
        Ok(Made { entries: entries.unsigned_abs(), path, statistics: None })
    }

    /// Gives the planner the statistics of the index: those that were counted, or SQLite's own.
    fn analyze(&self, statistics: Option<&str>) -> rusqlite::Result<()> {
        let Plan { table, name, .. } = self.plan;
        let Some(statistics) = statistics else {
            return self
                .transaction
                .execute_batch(&format!("ANALYZE main.{}", quote_identifier(name)));
        };
        // Makes the table `sqlite_stat1` where there is none, and gathers no statistics.
        self.transaction.execute_batch("ANALYZE main.sqlite_schema")?;
        let remove = "DELETE FROM main.sqlite_stat1 WHERE tbl = ?1 AND (idx = ?2 OR idx IS NULL)";
        self.transaction.execute(remove, [table, name])?;
        let add = "INSERT INTO main.sqlite_stat1(tbl, idx, stat) VALUES (?1, ?2, ?3)";
        self.transaction.execute(add, params![table, name, statistics]).map(|_| ())
    }
}
