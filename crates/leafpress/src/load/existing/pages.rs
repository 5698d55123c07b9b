//! A new table's pages, moved into the destination within one transaction.
//!
//! SQLite itself declares the table and its indexes, which gives them roots.
//! All other pages of the staged trees are written behind the last page of the
//! database through `sqlite_dbpage`, with new numbers in them; the staged
//! roots are written over the empty ones; page 1 gets the new page count. For
//! SQLite these are page writes like any others, so the journal or the WAL
//! protects them.
//!
//! ```text
//! staged file        1 │ 2 3 4 5 6 7 │ 8 root │ 9 sqlite_sequence
//!                        └───────┐ └─────────┐
//! destination   1 … │ root │ … N │ N+1 … N+6 │      the root goes to the root
//! ```
//!
//! Invariants:
//! 1. Every page up to the new count is part of a tree, or of the pointer map.
//! 2. SQLite learns the new count before it allocates again: it reads it from
//!    page 1 when a savepoint is released. Else it would give out the new
//!    pages once more.
//! 3. No other database is attached: a write through `sqlite_dbpage` would
//!    begin a write transaction on it too.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use leafpress_format::{FormatError, MAP_ENTRY_BYTES, NewPages, PageLayout, entries_per_map_page};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, params};

use super::connect::{Steps, Target, ask};
use super::declared::DeclaredTable;
use super::inspect::{Existing, read_header};
use super::staged::{StagedTable, has_table};
use super::walk::{PageSource, Role, Visit};
use super::{Outcome, Settings, Staged};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::quote_identifier;

/// Pages travel from the thread that reads them in pieces of this size, a few at a time.
const BATCH_BYTES: usize = 256 << 10;
const BATCHES_WAITING: usize = 4;
/// Where page 1 holds the number of pages.
const PAGE_COUNT_AT: usize = 28;
/// More than a few pages in the cache win nothing: each is written once.
const CACHE_BYTES_MAX: u64 = 16 << 20;

/// Moves the table in. `None` if the database is no longer as it was
/// inspected, so that its rows must be copied after all; nothing is changed then.
pub(super) fn move_pages(
    existing: &Existing,
    staged: &Staged<'_>,
    table: &StagedTable,
    settings: &Settings,
) -> Result<Outcome> {
    let mut steps = Steps::start();
    let target = &existing.target;
    let few =
        Settings { memory_bytes: settings.memory_bytes.min(CACHE_BYTES_MAX), ..settings.clone() };
    let mut connection = target.open_to_change(&few)?;
    let refused = |error| target.refused("move the table in", error);
    // Off unless a program that has us built in turned it on for all.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).map_err(refused)?;
    let transaction = target.begin(&mut connection)?;
    steps.end("waiting for the lock");

    refuse_if_changed(&transaction, target, table)?;
    declare(&transaction, table).map_err(refused)?;
    let moved = Move::prepare(&transaction, target, staged, table, settings)?.run()?;
    steps.end("moving pages");

    remember(&transaction, table).map_err(refused)?;
    // The empty roots are still in SQLite's cache as it parsed them.
    transaction.cache_flush().map_err(refused)?;
    transaction.release_memory().map_err(refused)?;
    look_at(&transaction, table).map_err(refused)?;
    check_foreign_keys(&transaction, target, &table.table.name)?;
    let pages: i64 = ask(&transaction, "PRAGMA page_count").map_err(refused)?;
    steps.end("checking");
    target.commit(transaction, &settings.cancel)?;
    steps.end("committing");
    tidy_log(&connection, existing);
    steps.end("checkpointing");
    Ok(Outcome {
        rows_inserted: moved.rows,
        pages: pages.unsigned_abs(),
        path: format!("pressed, then moved in: {} pages, one transaction", moved.pages),
        stages: steps.stages,
        ..Outcome::default()
    })
}

/// Another program may have made something of that name since the inspection.
pub(super) fn refuse_if_taken(
    transaction: &Transaction<'_>,
    target: &Target,
    name: &str,
) -> Result<()> {
    let refused = |error| target.refused("read the database", error);
    let sql =
        "SELECT type FROM main.sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type <> 'trigger'";
    let mut statement = transaction.prepare(sql).map_err(refused)?;
    let Some(row) = statement
        .query([name])
        .map_err(refused)?
        .next()
        .map_err(refused)?
        .map(|row| row.get::<_, String>(0))
    else {
        return Ok(());
    };
    let kind = row.map_err(refused)?;
    Err(target.refusal(format!("a {kind} {name} was made by another program meanwhile")))
}

/// The decision to move was made before the lock was taken.
fn refuse_if_changed(
    transaction: &Transaction<'_>,
    target: &Target,
    table: &StagedTable,
) -> Result<()> {
    let refused = |error| target.refused("read the database", error);
    refuse_if_taken(transaction, target, &table.table.name)?;
    let page_bytes: u32 = ask(transaction, "PRAGMA page_size").map_err(refused)?;
    let reserved_bytes = read_header(transaction).map_err(refused)?.map(|it| it.reserved_bytes);
    if page_bytes as usize != table.layout.page_bytes()
        || reserved_bytes != Some(table.layout.reserved_bytes())
    {
        return Err(target
            .refusal("its page size was changed by another program meanwhile")
            .to_do("run the load again"));
    }
    Ok(())
}

/// Lets SQLite make the table and its indexes, empty.
fn declare(transaction: &Transaction<'_>, table: &StagedTable) -> rusqlite::Result<()> {
    table
        .trees()
        .filter_map(|it| it.sql.as_deref())
        .try_for_each(|sql| transaction.execute_batch(sql))
}

/// What was moved.
struct Moved {
    pages: u32,
    rows: u64,
}

/// One move: everything is known but the pages.
struct Move<'m> {
    transaction: &'m Transaction<'m>,
    target: &'m Target,
    settings: &'m Settings,
    source: PageSource,
    numbers: Renumbering,
    /// Staged roots and theirs, the table's first.
    roots: Vec<(u32, u32)>,
    layout: PageLayout,
    map: Option<Vec<[u8; MAP_ENTRY_BYTES]>>,
}

/// Which number a staged page gets.
#[derive(Debug, Clone)]
struct Renumbering {
    roots: Vec<(u32, u32)>,
    /// Staged pages that do not move, ascending.
    left_out: Vec<u32>,
    new_pages: NewPages,
}

impl Renumbering {
    fn number(&self, staged: u32) -> Result<u32, FormatError> {
        match self.left_out.binary_search(&staged) {
            // A root has a place; nothing else that is left out may be named.
            Ok(_) => {
                let root = self.roots.iter().find(|(from, _)| *from == staged);
                root.map(|&(_, to)| to).ok_or(FormatError::MalformedPage)
            }
            Err(left_out_before) => self.new_pages.number(staged - 1 - left_out_before as u32),
        }
    }

    /// Its place among the new pages; a root has none.
    fn rank(&self, staged: u32) -> Option<usize> {
        let left_out_before = self.left_out.binary_search(&staged).err()?;
        Some(staged as usize - 1 - left_out_before)
    }
}

/// Pages ready to be written.
#[derive(Default)]
struct Batch {
    places: Vec<Place>,
    bytes: Vec<u8>,
    rows: u64,
}

struct Place {
    number: u32,
    /// Its place in the pointer map and what stands there.
    map_entry: Option<(usize, [u8; MAP_ENTRY_BYTES])>,
}

impl<'m> Move<'m> {
    fn prepare(
        transaction: &'m Transaction<'m>,
        target: &'m Target,
        staged: &Staged<'_>,
        table: &StagedTable,
        settings: &'m Settings,
    ) -> Result<Self> {
        let refused = |error| target.refused("move the table in", error);
        let mut source = PageSource::open(staged.file, table.layout, table.page_count)?;
        let roots = table
            .trees()
            .map(|tree| {
                let sql =
                    "SELECT rootpage FROM sqlite_schema WHERE name = ?1 AND type <> 'trigger'";
                Ok((tree.root, transaction.query_row(sql, [&tree.name], |row| row.get(0))?))
            })
            .collect::<rusqlite::Result<Vec<_>>>()
            .map_err(refused)?;
        let pages: u32 = ask(transaction, "PRAGMA page_count").map_err(refused)?;
        let has_map = ask::<i64>(transaction, "PRAGMA auto_vacuum").map_err(refused)? != 0;
        let numbers = Renumbering {
            roots: roots.clone(),
            left_out: table.left_out(&mut source)?,
            new_pages: NewPages::after(table.layout, pages, has_map),
        };
        let map = has_map.then(Vec::new);
        Ok(Self {
            transaction,
            target,
            settings,
            source,
            numbers,
            roots,
            layout: table.layout,
            map,
        })
    }

    /// Writes all pages; one thread reads and renumbers, this one writes.
    fn run(mut self) -> Result<Moved> {
        let page_count = self.source_pages();
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let refused = |error| self.target.refused("move the table in", error);
        self.transaction.execute_batch("SAVEPOINT leafpress").map_err(refused)?;
        let (numbers, roots, layout) = (self.numbers.clone(), self.roots.clone(), self.layout);
        let has_map = self.map.is_some();
        let source = &mut self.source;
        let (transaction, settings, map) = (self.transaction, self.settings, &mut self.map);
        let (read, written) = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                Reader { numbers: &numbers, layout, has_map, sender, batch: Batch::default() }
                    .read(source, &roots)
            });
            let written = write_batches(transaction, &receiver, layout, settings, map);
            // Before the join: a reader that cannot send any more ends.
            drop(receiver);
            (reader.join(), written)
        });
        let moved = written.map_err(refused)?;
        read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        if moved.pages != page_count {
            return Err(self.target.refusal(format!(
                "{} of the {page_count} pages of the temporary database are in no tree of the table",
                page_count.abs_diff(moved.pages)
            )));
        }
        self.finish(moved.pages).map_err(|error| match error {
            Unfinished::Sqlite(error) => refused(error),
            Unfinished::Format(error) => self.target.refusal(error.to_string()),
        })?;
        self.transaction.execute_batch("RELEASE leafpress").map_err(refused)?;
        Ok(moved)
    }

    /// Pages that the staged trees must have, the roots included.
    fn source_pages(&self) -> u32 {
        self.source.page_count() - self.numbers.left_out.len() as u32 + self.roots.len() as u32
    }

    /// The pointer map, and the new page count.
    fn finish(&mut self, moved_pages: u32) -> Result<(), Unfinished> {
        let new_pages = moved_pages - self.roots.len() as u32;
        if new_pages == 0 {
            return Ok(());
        }
        let numbers = &self.numbers.new_pages;
        if let Some(map) = &self.map {
            write_map(self.transaction, numbers, map, self.layout)?;
        }
        let last = numbers.number(new_pages - 1)?;
        let mut page_1 = read_page(self.transaction, 1)?;
        page_1[PAGE_COUNT_AT..PAGE_COUNT_AT + 4].copy_from_slice(&last.to_be_bytes());
        Ok(write_page(self.transaction, 1, &page_1)?)
    }
}

enum Unfinished {
    Sqlite(rusqlite::Error),
    Format(FormatError),
}

impl From<rusqlite::Error> for Unfinished {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<FormatError> for Unfinished {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

/// The thread that reads and renumbers.
struct Reader<'r> {
    numbers: &'r Renumbering,
    layout: PageLayout,
    has_map: bool,
    sender: SyncSender<Batch>,
    batch: Batch,
}

impl Reader<'_> {
    fn read(mut self, source: &mut PageSource, roots: &[(u32, u32)]) -> Result<()> {
        for (index, &(root, _)) in roots.iter().enumerate() {
            let numbers = self.numbers;
            source.walk(
                root,
                |page| numbers.number(page),
                |visit, page| self.add(visit, page, index == 0),
            )?;
        }
        self.send()
    }

    fn add(&mut self, visit: Visit, page: &[u8], is_table: bool) -> Result<()> {
        let too_many = |error: FormatError| Error::usage(error.to_string());
        let number = self.numbers.number(visit.page).map_err(too_many)?;
        let parent = self.numbers.number(visit.parent).map_err(too_many)?;
        let rank = self.numbers.rank(visit.page).filter(|_| self.has_map);
        let map_entry = rank.map(|rank| (rank, map_entry(visit.role, parent)));
        self.batch.places.push(Place { number, map_entry });
        self.batch.bytes.extend_from_slice(page);
        self.batch.rows += if is_table { u64::from(visit.entries) } else { 0 };
        if self.batch.bytes.len() + self.layout.page_bytes() > BATCH_BYTES {
            self.send()
        } else {
            Ok(())
        }
    }

    /// Fails only if the writer has failed, whose error is the one to tell.
    fn send(&mut self) -> Result<()> {
        let mut empty = Batch::default();
        empty.bytes.reserve(BATCH_BYTES);
        let full = std::mem::replace(&mut self.batch, empty);
        self.sender.send(full).map_err(|_| ErrorKind::Cancelled.into())
    }
}

/// File format, section 1.8: 1 is a root, which SQLite enters itself.
fn map_entry(role: Role, parent: u32) -> [u8; MAP_ENTRY_BYTES] {
    let kind = match role {
        Role::Root => 1,
        Role::FirstOverflow => 3,
        Role::NextOverflow => 4,
        Role::Tree => 5,
    };
    let [a, b, c, d] = parent.to_be_bytes();
    [kind, a, b, c, d]
}

fn write_batches(
    transaction: &Transaction<'_>,
    batches: &Receiver<Batch>,
    layout: PageLayout,
    settings: &Settings,
    map: &mut Option<Vec<[u8; MAP_ENTRY_BYTES]>>,
) -> rusqlite::Result<Moved> {
    let mut moved = Moved { pages: 0, rows: 0 };
    let mut statement = transaction.prepare(WRITE_PAGE)?;
    for batch in batches {
        if settings.cancel.is_cancelled() {
            let interrupted = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT);
            return Err(rusqlite::Error::SqliteFailure(interrupted, None));
        }
        let pages = batch.bytes.chunks_exact(layout.page_bytes());
        for (place, page) in batch.places.iter().zip(pages) {
            statement.execute(params![place.number, page])?;
            if let (Some(map), Some((rank, entry))) = (map.as_mut(), place.map_entry) {
                if map.len() <= rank {
                    map.resize(rank + 1, [0; MAP_ENTRY_BYTES]);
                }
                map[rank] = entry;
            }
        }
        moved.pages += batch.places.len() as u32;
        moved.rows += batch.rows;
        settings.rows_done.fetch_add(batch.rows, Ordering::Relaxed);
    }
    Ok(moved)
}

const WRITE_PAGE: &str = "INSERT INTO sqlite_dbpage(pgno, data) VALUES (?1, ?2)";

fn write_page(transaction: &Transaction<'_>, number: u32, page: &[u8]) -> rusqlite::Result<()> {
    transaction.prepare_cached(WRITE_PAGE)?.execute(params![number, page]).map(|_| ())
}

fn read_page(transaction: &Transaction<'_>, number: u32) -> rusqlite::Result<Vec<u8>> {
    let sql = "SELECT data FROM sqlite_dbpage WHERE pgno = ?1";
    transaction.prepare_cached(sql)?.query_row([number], |row| row.get(0))
}

/// Enters the new pages into the pointer map, whose last page so far may have
/// room for some of them.
fn write_map(
    transaction: &Transaction<'_>,
    numbers: &NewPages,
    map: &[[u8; MAP_ENTRY_BYTES]],
    layout: PageLayout,
) -> Result<(), Unfinished> {
    let pages_before: u32 = ask(transaction, "PRAGMA page_count")?;
    let mut open: Option<(u32, Vec<u8>)> = None;
    for (rank, entry) in map.iter().enumerate() {
        let number = numbers.number(rank as u32)?;
        let Some(map_page) = numbers.map_page_of(number) else { continue };
        if open.as_ref().is_none_or(|(open, _)| *open != map_page) {
            if let Some((number, page)) = open.take() {
                write_page(transaction, number, &page)?;
            }
            let is_there = map_page <= pages_before;
            let page = if is_there {
                read_page(transaction, map_page)?
            } else {
                vec![0; layout.page_bytes()]
            };
            open = Some((map_page, page));
        }
        if let Some((map_page, page)) = &mut open {
            let index = number - *map_page - 1;
            debug_assert!(index < entries_per_map_page(layout), "invariant 1");
            let at = index as usize * MAP_ENTRY_BYTES;
            page[at..at + MAP_ENTRY_BYTES].copy_from_slice(entry);
        }
    }
    if let Some((number, page)) = open {
        write_page(transaction, number, &page)?;
    }
    Ok(())
}

/// The rows about the table that stand in SQLite's own tables.
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
        // Makes the table, and gathers nothing.
        transaction.execute_batch("ANALYZE main.sqlite_schema")?;
    }
    transaction.execute("DELETE FROM main.sqlite_stat1 WHERE tbl = ?1", [name])?;
    let sql = "INSERT INTO main.sqlite_stat1(tbl, idx, stat) VALUES (?1, ?2, ?3)";
    for (index, statistics) in &table.statistics {
        transaction.execute(sql, params![name, index, statistics])?;
    }
    Ok(())
}

/// Reads a row from the table and from each end of its indexes: the last look
/// before the commit.
fn look_at(transaction: &Transaction<'_>, table: &StagedTable) -> rusqlite::Result<()> {
    let declared = DeclaredTable::read(transaction, &table.table.name)?;
    let name = quote_identifier(&declared.name);
    let read = |sql: &str| {
        let mut statement = transaction.prepare(sql)?;
        let mut rows = statement.query([])?;
        rows.next().map(|_| ())
    };
    read(&format!("SELECT * FROM main.{name} NOT INDEXED LIMIT 1"))?;
    // A partial index, or one on an expression, cannot answer this.
    for index in declared.indexes.iter().filter(|it| !it.partial && it.origin == "c") {
        let Some(Some(column)) = index.columns.first() else { continue };
        let (index, column) = (quote_identifier(&index.name), quote_identifier(&column.name));
        for end in ["ASC", "DESC"] {
            read(&format!(
                "SELECT {column} FROM main.{name} INDEXED BY {index} ORDER BY {column} {end} LIMIT 1"
            ))?;
        }
    }
    Ok(())
}

/// Pressed rows have passed no foreign key yet.
pub(super) fn check_foreign_keys(
    transaction: &Transaction<'_>,
    target: &Target,
    table: &str,
) -> Result<()> {
    let refused = |error| target.refused("check the foreign keys", error);
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
    Err(target
        .refusal(format!("{which} of {table} refers to a row of {parent} that is not there"))
        .to_do(format!("load {parent} first, or leave the foreign key out of the declaration")))
}

/// A long log stays as long as it is, so it is emptied if nobody needs it now.
/// The commit has been: whatever this says is no failure.
pub(super) fn tidy_log(connection: &Connection, existing: &Existing) {
    if existing.journal_mode != "wal" {
        return;
    }
    let tidied = connection
        .busy_timeout(std::time::Duration::ZERO)
        .and_then(|()| ask::<i64>(connection, "PRAGMA wal_checkpoint(TRUNCATE)"));
    tracing::debug!(?tidied, "checkpoint");
}
