//! A new table's pages, moved into the destination within one transaction.
//!
//! SQLite itself declares the table and its indexes, which gives them roots.
//! All other pages of the staged trees are written over free pages, then behind
//! the last page of the database, through `sqlite_dbpage`, with new numbers in
//! them; the staged roots are written over the empty ones; page 1 gets the new
//! page count and free list. For SQLite these are page writes like any others,
//! so the journal or the WAL protects them.
//!
//! ```text
//! staged file        1 │ 2 3 4 5 6 7 │ 8 root │ 9 sqlite_sequence
//!                        ├──┐ └──┐ └─────────┐
//! destination   1 … │ free, free │ … N │ N+1 … N+4      the root goes to the root
//! ```
//!
//! Invariants:
//! 1. Every page added behind the former end is part of a tree or of the pointer map, or is the lock page.
//! 2. SQLite learns the new count before it allocates again: it reads it from
//!    page 1 when a savepoint is released. Else it would give out the new
//!    pages once more.
//! 3. No other database is attached: a write through `sqlite_dbpage` would
//!    begin a write transaction on it too.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};

use leafpress_format::header;
use leafpress_format::{PageLayout, PageNumbers, PointerMap, RelocateError, relocate};
use rusqlite::config::DbConfig;
use rusqlite::{Transaction, params};

use super::carry::{
    BATCH_BYTES, Batch, Carrier, MapEntries, NewPages, PageSource, PagesBehind, Renumbering,
    damaged,
};
use super::commit::{check_foreign_keys, commit, look_at_ends, read_a_row, remember};
use super::connect::{ExistingDatabase, Steps, UNCHANGED, ask};
use super::dbpage::{WRITE_PAGE, read_page, write_page};
use super::free_pages::FreePages;
use super::inspect::{Existing, Header, TextEncoding, read_encoding, read_header};
use super::orphan::Search;
use super::staged::{StagedTable, StagedTree};
use super::task::{Outcome, Settings, Staged};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::declared::DeclaredTable;
use crate::schema::quote_identifier;
use crate::threads;
use crate::words::{counted, path_text};

/// Limit of batches between the reading and the writing thread.
const BATCHES_WAITING: usize = 4;
/// Limit of the cache: a larger one wins nothing, as each page is written once.
const CACHE_BYTES_MAX: u64 = 16 << 20;

/// Moves the table in. Refuses a database that has changed since its inspection in a way that
/// matters here. After an error it is as it was, unless the error is that of an unknown outcome.
pub(super) fn move_pages(
    existing: &Existing,
    staged: &Staged<'_>,
    table: &StagedTable,
    settings: &Settings,
    search: Option<&mut Search<'_>>,
) -> Result<Outcome> {
    let mut steps = Steps::start();
    let target = &existing.target;
    let few =
        Settings { memory_bytes: settings.memory_bytes.min(CACHE_BYTES_MAX), ..settings.clone() };
    let mut connection = target.open_for_bulk(&few)?;
    let refused = |error| target.refused("move the table in", error);
    // Defensive mode is off, unless the program that contains this library turned it on for all
    // connections.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false).map_err(refused)?;
    let transaction = target.begin(&mut connection)?;
    steps.end("waiting for the lock");

    refuse_if_changed(&transaction, target, table)?;
    declare(&transaction, table).map_err(refused)?;
    let moved = Move { transaction: &transaction, target, staged, table, settings }.run()?;
    steps.end("moving pages");

    // SQLite's cache still holds the empty roots. In a database with a pointer map, making
    // sqlite_stat1 may move a page that a root refers to.
    transaction.cache_flush().map_err(refused)?;
    transaction.release_memory().map_err(refused)?;
    remember(&transaction, table).map_err(refused)?;
    look_at(&transaction, table).map_err(refused)?;
    check_foreign_keys(&transaction, target, &table.table.name, search)?;
    let pages: i64 = ask(&transaction, "PRAGMA page_count").map_err(refused)?;
    steps.end("checking");
    commit(&transaction, existing, ("the load", &table.table.name), &settings.cancel, &mut steps)?;
    Ok(Outcome {
        rows_changed: staged.rows,
        pages: pages.unsigned_abs(),
        path: format!("then moved in: {}, one transaction", counted(moved as u64, "page", "pages")),
        stages: steps.stages,
        ..Outcome::default()
    })
}

/// Refuses the table if another program has taken its name, or that of an index, since the inspection.
pub(super) fn refuse_if_taken(
    transaction: &Transaction<'_>,
    target: &ExistingDatabase,
    table: &StagedTable,
) -> Result<()> {
    let mut declared = table.trees().filter(|it| it.sql.is_some());
    declared.try_for_each(|it| refuse_if_named(transaction, target, &it.name))
}

fn refuse_if_named(
    transaction: &Transaction<'_>,
    target: &ExistingDatabase,
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
    let article = if kind == "index" { "an" } else { "a" };
    let what = format!("{}: {article} {kind} {name}", path_text(&target.named));
    Err(Error::made_meanwhile(what).on_disk(UNCHANGED).to_do("load again"))
}

/// Refuses a database that changed between the decision to move pages and the lock.
fn refuse_if_changed(
    transaction: &Transaction<'_>,
    target: &ExistingDatabase,
    table: &StagedTable,
) -> Result<()> {
    let refused = |error| target.refused("read the database", error);
    refuse_if_taken(transaction, target, table)?;
    let page_bytes: u32 = ask(transaction, "PRAGMA page_size").map_err(refused)?;
    let encoding = read_encoding(transaction).map_err(refused)?;
    let header = read_header(transaction).map_err(refused)?;
    let reserved_bytes = header.as_ref().map(|it| it.reserved_bytes);
    let what = if page_bytes as usize != table.layout.page_bytes()
        || reserved_bytes != Some(table.layout.reserved_bytes())
    {
        "page size"
    } else if encoding != TextEncoding::Utf8 {
        "text encoding"
    } else if !header.is_some_and(Header::is_of_this_format) {
        "schema format"
    } else {
        return Ok(());
    };
    Err(target.changed_by_another(what))
}

/// Has SQLite make the table and its indexes, empty.
fn declare(transaction: &Transaction<'_>, table: &StagedTable) -> rusqlite::Result<()> {
    table
        .trees()
        .filter_map(|it| it.sql.as_deref())
        .try_for_each(|sql| transaction.execute_batch(sql))
}

/// Move of the pages.
struct Move<'m> {
    transaction: &'m Transaction<'m>,
    target: &'m ExistingDatabase,
    staged: &'m Staged<'m>,
    table: &'m StagedTable,
    settings: &'m Settings,
}

/// New numbers of the pages.
struct Numbers {
    renumbering: Renumbering,
    /// Number of pages besides the roots.
    new_pages: u32,
    /// First page that the destination does not have yet.
    first: u32,
    /// The free list without the pages that are taken.
    free: FreePages,
    map: Option<PointerMap>,
}

impl Move<'_> {
    fn run(&self) -> Result<u32> {
        let refused = |error| self.target.refused("move the table in", error);
        let mut numbers = self.numbers()?;
        let (new_pages, first, map) = (numbers.new_pages, numbers.first, numbers.map);
        let last = new_pages.checked_sub(1).map(|last| numbers.renumbering.new_pages.number(last));
        let free = std::mem::take(&mut numbers.free);
        self.transaction.execute_batch("SAVEPOINT leafpress").map_err(refused)?;
        let (written, handed_on) = self.carry(numbers)?;
        let expected = new_pages + self.table.trees().count() as u32;
        if written != expected || handed_on.numbers.is_broken.get() {
            let problem = format!("its trees have {written} pages, and {expected} would be all");
            return Err(damaged(self.staged.file, &problem).on_disk(UNCHANGED));
        }
        if let (Some(map), Some(entries)) = (map, &handed_on.map) {
            write_map(self.transaction, map, entries, first - 1, self.table.layout)
                .map_err(refused)?;
        }
        if let Some(last) = last {
            let mut page_1 = read_page(self.transaction, 1).map_err(refused)?;
            let pages = last.max(first - 1);
            page_1[header::PAGES].copy_from_slice(&pages.to_be_bytes());
            free.write(self.transaction, &mut page_1).map_err(refused)?;
            write_page(self.transaction, 1, &page_1).map_err(refused)?;
        }
        self.transaction.execute_batch("RELEASE leafpress").map_err(refused)?;
        Ok(written)
    }

    fn numbers(&self) -> Result<Numbers> {
        let (transaction, table) = (self.transaction, self.table);
        let refused = |error| self.target.refused("move the table in", error);
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1 AND type <> 'trigger'";
        let root = |tree: &StagedTree| {
            Ok((tree.root, transaction.query_row(sql, [&tree.name], |row| row.get(0))?))
        };
        let roots =
            table.trees().map(root).collect::<rusqlite::Result<Vec<_>>>().map_err(refused)?;
        let pages: u32 = ask(transaction, "PRAGMA page_count").map_err(refused)?;
        let has_map = ask::<i64>(transaction, "PRAGMA auto_vacuum").map_err(refused)? != 0;
        let left_out = table.left_out(self.staged)?;
        let new_pages = (table.page_count as usize).saturating_sub(left_out.len()) as u32;
        let map = has_map.then(|| PointerMap::new(table.layout));
        let first = pages + 1;
        let free = FreePages::choose(transaction, table.layout, map.as_ref(), pages, new_pages)
            .map_err(refused)?;
        let behind = new_pages - free.taken.len() as u32;
        let behind = match &map {
            Some(map) => map.take_range(first, behind).map(PagesBehind::Mapped),
            None => PageNumbers::starting_at(table.layout, first)
                .take_range(behind)
                .map(PagesBehind::Plain),
        };
        let behind = behind.map_err(|error| self.target.refusal(error.to_string()))?;
        let numbers = NewPages { free: free.taken.clone(), behind };
        let renumbering =
            Renumbering { roots, left_out, new_pages: numbers, is_broken: Cell::new(false) };
        Ok(Numbers { renumbering, new_pages, first, free, map })
    }

    /// Writes all pages. If they are many, another thread reads and renumbers them meanwhile.
    fn carry(&self, numbers: Numbers) -> Result<(u32, Carrier)> {
        let (layout, page_count) = (self.table.layout, self.table.page_count);
        let (sender, receiver) = sync_channel(BATCHES_WAITING);
        let taken = numbers.renumbering.new_pages.free.iter().map(|&page| (page, [0; _])).collect();
        let entries = MapEntries { taken, first: numbers.first, entries: Vec::new() };
        let mut carrier = Carrier {
            source: PageSource::open(self.staged.file, layout, page_count)?,
            numbers: numbers.renumbering,
            map: numbers.map.map(|_| entries),
            sender: Some(sender),
            batch: Batch::default(),
        };
        let roots: Vec<u32> = self.table.trees().map(|it| it.root).collect();
        let carry = move || {
            let handed_on = relocate(layout, page_count, &roots, &mut carrier);
            let sent = handed_on.map(|_| carrier.send());
            // Without a sender the writer ends.
            carrier.sender = None;
            (sent, carrier)
        };
        let (handed_on, written) = if page_count as usize * layout.page_bytes() <= BATCH_BYTES {
            // All of them can wait for the writer, and a thread costs more than they do.
            (Ok(carry()), self.write_batches(&receiver))
        } else {
            std::thread::scope(|scope| {
                let carry = threads::start(scope, carry)?;
                let written = self.write_batches(&receiver);
                // Dropped before the join: a carrier without a receiver ends.
                drop(receiver);
                Ok::<_, Error>((carry.join(), written))
            })
            .map_err(|error| error.on_disk(UNCHANGED))?
        };
        let (sent, carrier) = handed_on.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let written = written?;
        match sent {
            Ok(sent) => sent?,
            Err(RelocateError::Mover(error)) => return Err(error),
            Err(other) => {
                return Err(damaged(self.staged.file, &other.to_string()).on_disk(UNCHANGED));
            }
        }
        Ok((written, carrier))
    }

    fn write_batches(&self, batches: &Receiver<Batch>) -> Result<u32> {
        let refused = |error| self.target.refused("move the table in", error);
        let mut statement = self.transaction.prepare(WRITE_PAGE).map_err(refused)?;
        let (mut written, mut rows_told) = (0, 0);
        for batch in batches {
            if self.settings.cancel.is_cancelled() {
                return Err(Error::from(ErrorKind::Cancelled).on_disk(UNCHANGED));
            }
            let pages = batch.bytes.chunks_exact(self.table.layout.page_bytes());
            for (number, page) in batch.numbers.iter().zip(pages) {
                statement.execute(params![number, page]).map_err(refused)?;
            }
            written += batch.numbers.len() as u32;
            let rows = rows_on(self.staged.rows, written, self.table.page_count);
            self.settings.rows_done.fetch_add(rows - rows_told, Ordering::Relaxed);
            rows_told = rows;
        }
        // The roots are written elsewhere, so these are a little less than all pages.
        let rest = self.staged.rows.saturating_sub(rows_told);
        self.settings.rows_done.fetch_add(rest, Ordering::Relaxed);
        Ok(written)
    }
}

/// Number of rows on some of the pages, if each has as many.
fn rows_on(rows: u64, some_pages: u32, all_pages: u32) -> u64 {
    let rows = u128::from(rows) * u128::from(some_pages) / u128::from(all_pages.max(1));
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// Enters the new pages into the pointer map, whose last page may have room for some of them.
fn write_map(
    transaction: &Transaction<'_>,
    map: PointerMap,
    new: &MapEntries,
    pages_before: u32,
    layout: PageLayout,
) -> rusqlite::Result<()> {
    let mut open: Option<(u32, Vec<u8>)> = None;
    let taken = new.taken.iter().map(|(number, entry)| (*number, entry));
    for (number, entry) in taken.chain((new.first..).zip(&new.entries)) {
        let Some((map_page, at)) = map.place(number) else { continue };
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
        if let Some((_, page)) = &mut open {
            page[at..at + entry.len()].copy_from_slice(entry);
        }
    }
    open.map_or(Ok(()), |(number, page)| write_page(transaction, number, &page))
}

/// Reads a row from the table and from each end of its indexes, as a last check before the commit.
fn look_at(transaction: &Transaction<'_>, table: &StagedTable) -> rusqlite::Result<()> {
    let declared = DeclaredTable::read(transaction, &table.table.name)?;
    let name = quote_identifier(&declared.name);
    read_a_row(transaction, &format!("SELECT * FROM main.{name} NOT INDEXED LIMIT 1"))?;
    // A partial index, or one on an expression, cannot answer this query.
    for index in declared.indexes.iter().filter(|it| !it.partial && it.origin == "c") {
        let Some(Some(column)) = index.columns.first() else { continue };
        look_at_ends(transaction, &declared.name, &index.name, &column.name, &column.collation)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_large_files_are_counted_by_their_pages() {
        let (rows, pages) = (1 << 40, 1 << 30);
        assert_eq!(rows_on(rows, pages / 2, pages), rows / 2);
        assert_eq!(rows_on(rows, pages, pages), rows);
        assert_eq!(rows_on(7, 1, 0), 7);
    }
}
