//! From records to a finished database: table and indexes.
//!
//! ```text
//! workers: Encoder ──► in key order: leaves of a block ──► join (in turn) ──► write
//!                 └──► else: Sorter ─┐
//!                 └──► index entries: Sorter ─┴─ complete: partitions in key order ──► write
//! ```
//!
//! Knows records, rowids and a row's *sequence* (its ordinal among the input's
//! good rows), and nothing of where rows come from. A row that must not stand
//! in the table is known by its sequence.
//!
//! Invariants:
//! 1. What a B-tree holds depends on the rows and their order only, not on
//!    threads; of a sorted one, where its pages begin may.
//! 2. Which of several rows with the same key stays is decided by their
//!    sequences, as if they had been inserted one by one.

pub mod analyze;
mod conflicts;
mod encoder;
mod sorted;
pub mod sqlite;
mod through_sql;
pub mod turns;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use leafpress_format::{
    FormatError, IndexTree, LeafRun, PageLayout, PageRange, PlacedLeaves, SchemaEntry, SchemaKind,
    TableBuilder, Value, compare_records, key_has_null,
};

pub use self::conflicts::{Conflict, Dropped};
pub use self::encoder::{AddHalt, Encoder};
pub use self::through_sql::Refused;

use self::analyze::StatCounter;
use self::sorted::{Repeats, SortedPress, Target};
use self::through_sql::SqlTable;
use super::options::{CancelToken, OnConflict};
use crate::error::{Error, Result};
use crate::load::file::output::Output;
use crate::load::file::pages::{FileSize, Pages, refused, write_pieces, write_run};
use crate::new_file::disk;
use crate::schema::shape::{EntryShape, IndexShape, TableShape};
use crate::sort::{Partition, SortKey, SortOptions, Sorted, Sorter};

/// Settings of a build.
pub struct BuildOptions<'b> {
    pub layout: PageLayout,
    /// Pages that are kept free in front, for the schema and the interior pages.
    pub front_pages: u32,
    pub threads: usize,
    /// Memory for all sorting together.
    pub memory_bytes: usize,
    /// Folder for sorted runs that do not fit into memory.
    pub tmpdir: PathBuf,
    pub on_conflict: OnConflict,
    /// True if rows that are left out, as their key is there, are bad rows: these take no rowid.
    pub refuses_repeats: bool,
    /// Rows that SQLite refuses and that are listed, at most. With 0 the first of them ends the build.
    pub refused_max: usize,
    /// True if SQLite makes its indexes before the rows come, so that an index refuses a row by itself.
    pub indexes_first: bool,
    /// True if `sqlite_stat1` is filled.
    pub analyze: bool,
    pub cancel: &'b CancelToken,
    /// Rows done in the current stage, for the progress display.
    pub rows_done: &'b AtomicU64,
    pub output: &'b Output,
    /// The file that `output` writes.
    pub path: &'b Path,
}

/// Order in which the rows come, and how they are built if they have no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOrder {
    /// By rowid, or by the key of a WITHOUT ROWID table.
    Ascending,
    /// In no order: they are sorted.
    Unsorted,
    /// They are sorted by the columns of [`TableShape::key`] and numbered anew,
    /// in a table that has rowids.
    ByKey,
    /// As [`ByKey`](Self::ByKey), by the column that will be their rowid. If it is NULL in
    /// a row, all rows keep the order of the input ([`Built::order`]): SQLite gives that row a number
    /// that depends on the rows before it.
    ByRowidIfGiven,
    /// SQLite gets the rows in the order of the input.
    ThroughSql,
}

/// A table and its indexes in the making.
pub struct Build<'b> {
    pub shape: &'b TableShape,
    pub options: &'b BuildOptions<'b>,
    pub order: RowOrder,
    table: Option<Sorter>,
    /// Sorts rows once more, if they keep the order of the input after all.
    by_sequence: Option<Sorter>,
    /// One for each index that is pressed.
    indexes: Vec<(&'b IndexShape, Sorter)>,
    /// Rows that are left out, known from an earlier attempt.
    pub dropped: Dropped,
    /// Columns that rows give a value for; the others take their defaults.
    given: Vec<bool>,
}

/// Runs of at most this many pages are joined to one before they are placed: with each of many small
/// inputs in a page of its own, most of the file would be empty.
const SMALL_RUN_PAGES: usize = 16;

/// Bytes of small runs that are placed together.
const SMALL_RUNS_BYTES: usize = 1 << 20;

/// State of the join turns.
pub struct Joined {
    tree: Tree,
    /// Rows of small runs of a table, which come after those in `tree` and are in no page yet.
    small: LeafRun,
    pub pages: Pages,
    last_entry: Vec<u8>,
    rows: u64,
    last_rowid: i64,
    /// Statistics of a WITHOUT ROWID table's key, if its rows come in order.
    stat: Option<StatCounter>,
}

enum Tree {
    /// A rowid table whose rows come in order.
    Table(TableBuilder),
    /// A WITHOUT ROWID table whose rows come in order.
    Entries(IndexTree),
    /// A table that is pressed when all its rows are sorted.
    Later,
    /// A table that SQLite fills.
    Sql(Box<SqlTable>),
}

/// A finished build.
#[derive(Debug)]
pub struct Built {
    pub size: FileSize,
    /// Order in which the rows were built.
    pub order: RowOrder,
    pub rows: u64,
    /// Rows left out because SQLite refused them, with SQLite's words.
    pub refused: Vec<Refused>,
    /// Rows left out because other rows have their keys.
    pub dropped: Dropped,
    /// Number of rows that SQLite ignored because other rows have their keys.
    pub ignored: u64,
    /// Bytes spilled to temporary files while sorting.
    pub spilled_bytes: u64,
    /// Time from the end of the input to the last page.
    pub sort: Duration,
}

/// Reasons for a build to end without a database.
#[derive(Debug)]
pub enum BuildHalt {
    /// Two rows have the same key and that is an error.
    Conflict(Conflict),
    /// Rows must be left out, and the table was pressed with them already: the
    /// rows must be encoded once more.
    Again(Dropped),
    Failed(Error),
}

impl From<Error> for BuildHalt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Reason why rows were not joined to those before them.
#[derive(Debug)]
pub enum JoinHalt {
    /// The primary key does not ascend: the rows must be sorted.
    Unsorted,
    /// SQLite refuses this row, and that is an error.
    Refused(Refused),
    /// It failed.
    Failed(Error),
}

impl From<Error> for JoinHalt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<'b> Build<'b> {
    pub fn new(
        shape: &'b TableShape,
        options: &'b BuildOptions<'b>,
        order: RowOrder,
        given: Vec<bool>,
        dropped: Dropped,
    ) -> Self {
        let may_sort_again = order == RowOrder::ByRowidIfGiven;
        let sorts_table = may_sort_again || matches!(order, RowOrder::Unsorted | RowOrder::ByKey);
        let by_sql = order == RowOrder::ThroughSql;
        let pressed = shape.indexes.iter().filter(|i| !by_sql && i.through_sql.is_none());
        let pressed: Vec<_> = pressed.collect();
        // A table's records are as long as the entries of many indexes together.
        let shares = pressed.len() + if sorts_table { 3 } else { 0 } + usize::from(may_sort_again);
        let share_bytes = options.memory_bytes / shares.max(1);
        let sorter = |memory_bytes: usize, key, ends_in_rowid| {
            let sort = SortOptions {
                memory_bytes,
                threads: options.threads,
                folder: options.tmpdir.clone(),
                make_file: disk::make_unnamed,
                ends_in_rowid,
            };
            Sorter::new(sort, key)
        };
        let key = match &shape.key {
            Some(key) => SortKey::Columns(key.order.clone()),
            None => SortKey::Rowid,
        };
        let table = sorts_table.then(|| sorter(3 * share_bytes, key, false));
        let by_sequence = may_sort_again.then(|| sorter(share_bytes, SortKey::Rowid, false));
        let indexes = pressed.into_iter().map(|index| {
            let IndexShape { entry, .. } = index;
            let key = SortKey::Columns(entry.order.clone());
            (index, sorter(share_bytes, key, entry.ends_in_rowid()))
        });
        let indexes = indexes.collect();
        Self { shape, options, order, table, by_sequence, indexes, dropped, given }
    }

    /// The rowid of a row that brings none, as inserting row after row would
    /// give it: ignored rows take none but with AUTOINCREMENT, replaced ones have taken theirs.
    pub fn rowid(&self, sequence: u64) -> i64 {
        let ignored_take_one = self.shape.autoincrement && !self.options.refuses_repeats;
        let left_out = match self.options.on_conflict {
            OnConflict::Replace => 0,
            OnConflict::Ignore if ignored_take_one => 0,
            OnConflict::Abort | OnConflict::Ignore => self.dropped.before(sequence),
        };
        (sequence - left_out) as i64 + 1
    }

    /// The state of the join turns, before the first.
    pub fn start(&self) -> Result<Joined> {
        let layout = self.options.layout;
        let tree = match (self.order, &self.shape.key) {
            (RowOrder::ThroughSql, _) => Tree::Sql(Box::new(SqlTable::create(self, &self.given)?)),
            (RowOrder::Ascending, None) => Tree::Table(TableBuilder::new(layout)),
            (RowOrder::Ascending, Some(_)) => Tree::Entries(IndexTree::new(layout)),
            _ => Tree::Later,
        };
        let pages = Pages::new(layout, self.options.front_pages);
        let stat = self.key_stat();
        let small = LeafRun::new(layout, 0);
        Ok(Joined { tree, small, pages, last_entry: Vec::new(), rows: 0, last_rowid: 0, stat })
    }

    /// Joins a block's rows to those before it, in the blocks' order.
    pub fn join(
        &self,
        encoder: &mut Encoder<'_>,
        joined: &mut Joined,
    ) -> Result<Option<PageRange>, JoinHalt> {
        joined.rows += encoder.rows();
        joined.last_rowid = joined.last_rowid.max(encoder.last_rowid());
        if matches!(joined.tree, Tree::Table(_)) {
            return self.join_leaves(&encoder.leaves, joined);
        }
        let Joined { tree, pages, last_entry, stat, .. } = joined;
        let range = match tree {
            Tree::Entries(entries) => {
                let order = &self.key().order;
                if let Some((first, last)) = encoder.first_and_last() {
                    if !last_entry.is_empty() && compare_records(last_entry, first, order).is_ge() {
                        return Err(JoinHalt::Unsorted);
                    }
                    last_entry.clear();
                    last_entry.extend_from_slice(last);
                }
                if let (Some(so_far), Some(block)) = (stat, encoder.stat.take()) {
                    so_far.merge(block);
                }
                let appended = pages.append_entries(entries, &mut encoder.entries);
                Some(appended.map_err(|error| refused(error, self.options.path))?)
            }
            Tree::Table(_) | Tree::Later => None,
            Tree::Sql(table) => {
                encoder
                    .drain_rows(|sequence, rowid, record| table.insert(sequence, rowid, record))?;
                None
            }
        };
        pages.write_waiting(self.options.output, self.options.path)?;
        Ok(range)
    }

    /// Joins the leaves of a block. Those of a small one are added to the small ones before it.
    fn join_leaves(
        &self,
        leaves: &LeafRun,
        joined: &mut Joined,
    ) -> Result<Option<PageRange>, JoinHalt> {
        let refused = |error| match error {
            FormatError::NotAscending { .. } => JoinHalt::Unsorted,
            error => refused(error, self.options.path).into(),
        };
        let is_small = leaves.bytes() <= SMALL_RUN_PAGES * self.options.layout.page_bytes();
        if is_small && let Tree::Table(table) = &joined.tree {
            table.check_order(leaves.first_rowid()).map_err(refused)?;
            if joined.small.take_rows(leaves).map_err(refused)? {
                if joined.small.bytes() >= SMALL_RUNS_BYTES {
                    self.place_small(joined)?;
                }
                return Ok(None);
            }
        }
        self.place_small(joined)?;
        let Joined { tree: Tree::Table(table), pages, .. } = joined else { return Ok(None) };
        let range = pages.append(table, leaves).map_err(refused)?;
        pages.write_waiting(self.options.output, self.options.path)?;
        Ok(Some(range))
    }

    /// Places and writes the rows of small blocks.
    fn place_small(&self, joined: &mut Joined) -> Result<()> {
        let Joined { tree: Tree::Table(table), small, pages, .. } = joined else { return Ok(()) };
        if small.rows() == 0 {
            return Ok(());
        }
        let BuildOptions { layout, output, path, .. } = *self.options;
        small.close();
        let range = pages.append(table, small).map_err(|error| refused(error, path))?;
        pages.write_waiting(output, path)?;
        write_run(small, &range, layout, output, path)?;
        small.clear();
        Ok(())
    }

    /// Joins leaves that were placed and written before.
    pub fn join_placed(
        joined: &mut Joined,
        leaves: &PlacedLeaves,
        rows: u64,
    ) -> Result<(), FormatError> {
        joined.rows += rows;
        match &mut joined.tree {
            Tree::Table(table) => joined.pages.join(table, leaves),
            _ => Ok(()),
        }
    }

    /// Writes a block's pages, on any thread.
    pub fn write(&self, range: Option<PageRange>, encoder: &mut Encoder<'_>) -> Result<()> {
        let Some(range) = range else { return Ok(()) };
        let BuildOptions { layout, output, path, .. } = *self.options;
        match self.shape.key {
            None => write_run(&mut encoder.leaves, &range, layout, output, path),
            Some(_) => write_pieces(encoder.entries.number(&range), &range, layout, output, path),
        }
    }

    /// A counter for the key of a WITHOUT ROWID table whose rows come in order.
    fn key_stat(&self) -> Option<StatCounter> {
        let counts = self.order == RowOrder::Ascending && counts_stats(self.options, self.shape);
        let key = self.shape.key.as_ref().filter(|_| counts)?;
        Some(StatCounter::new(key, true))
    }

    fn key(&self) -> &EntryShape {
        self.shape.key.as_ref().expect("the rows are entries of a key, which the shape has")
    }

    /// Presses what was sorted, and ends the file. All encoders have ended.
    pub fn complete(self, mut joined: Joined) -> Result<Built, BuildHalt> {
        let started = Instant::now();
        self.place_small(&mut joined)?;
        let Self { shape, options, order: sought, table, by_sequence, indexes, dropped, .. } = self;
        let Joined { tree, pages, rows, last_rowid, stat, .. } = joined;
        let tree = match tree {
            Tree::Sql(table) => return table.finish(options, started).map_err(Into::into),
            tree => tree,
        };
        let mut sorted_table = table.map(Sorter::finish).transpose()?;
        let (mut order, mut spilled_bytes) = (sought, 0);
        if let (Some(sorted), Some(by_sequence)) = (&sorted_table, by_sequence)
            && first_key_is_null(sorted)?
        {
            spilled_bytes += sorted.spilled_bytes();
            sorted_table = Some(in_order_of_input(sorted, by_sequence, options.cancel)?);
            order = RowOrder::Ascending;
        }
        let indexes = indexes
            .into_iter()
            .map(|(index, sorter)| Ok((index, sorter.finish()?)))
            .collect::<Result<Vec<_>>>()?;
        let all_sorted = sorted_table.iter().chain(indexes.iter().map(|(_, sorted)| sorted));
        spilled_bytes += all_sorted.map(Sorted::spilled_bytes).sum::<u64>();
        let mut finish = Finish {
            shape,
            options,
            order: sought,
            sorted_table: sorted_table.as_ref(),
            indexes: &indexes,
            dropped,
            rows,
            last_rowid,
            stat,
        };
        let size = match tree {
            Tree::Later => finish.until_whole()?,
            tree => {
                let (size, groups) = finish.attempt(tree, pages)?;
                match size {
                    Some(size) => size,
                    None => return Err(finish.resolve(&groups)),
                }
            }
        };
        let (rows, dropped) = (finish.rows, finish.dropped);
        let (refused, sort) = (Vec::new(), started.elapsed());
        Ok(Built { size, order, rows, refused, dropped, ignored: 0, spilled_bytes, sort })
    }
}

/// The second half of a build: everything is sorted.
struct Finish<'f, 'b> {
    shape: &'b TableShape,
    options: &'b BuildOptions<'b>,
    order: RowOrder,
    sorted_table: Option<&'f Sorted>,
    indexes: &'f [(&'b IndexShape, Sorted)],
    dropped: Dropped,
    rows: u64,
    last_rowid: i64,
    /// Statistics of the key of a table that is pressed already.
    stat: Option<StatCounter>,
}

/// Groups of rows with the same key, for each constraint: the table's own key,
/// then its pressed indexes.
type Groups = Vec<Vec<Vec<u64>>>;

impl Finish<'_, '_> {
    /// Presses table and indexes; once more if rows turn out to be left out.
    fn until_whole(&mut self) -> Result<FileSize, BuildHalt> {
        let pages = Pages::new(self.options.layout, self.options.front_pages);
        let (size, groups) = self.attempt(Tree::Later, pages)?;
        if let Some(size) = size {
            return Ok(size);
        }
        match self.resolve(&groups) {
            BuildHalt::Again(dropped) => self.dropped = dropped,
            halt => return Err(halt),
        }
        let pages = Pages::new(self.options.layout, self.options.front_pages);
        let (size, _) = self.attempt(Tree::Later, pages)?;
        size.ok_or_else(|| {
            Error::bug("rows with the same key remain after they were left out").into()
        })
    }

    /// Chooses the rows to leave out, or reports the conflict if none may be left out.
    fn resolve(&self, groups: &Groups) -> BuildHalt {
        match self.options.on_conflict {
            OnConflict::Abort => match Conflict::first(groups) {
                Some(conflict) => BuildHalt::Conflict(conflict),
                None => Error::bug("a repeated key has no rows").into(),
            },
            OnConflict::Ignore => BuildHalt::Again(Dropped::later_ones(groups)),
            OnConflict::Replace => BuildHalt::Again(Dropped::earlier_ones(groups)),
        }
    }

    /// Presses everything. Returns no size if rows share a key; `groups` has those rows then.
    fn attempt(
        &mut self,
        tree: Tree,
        mut pages: Pages,
    ) -> Result<(Option<FileSize>, Groups), BuildHalt> {
        let mut groups = Groups::new();
        let mut entries = Vec::new();
        let mut stats = Vec::new();
        if !matches!(tree, Tree::Later) {
            groups.push(Vec::new());
            stats.extend(self.stat.take().map(|stat| (self.shape.name.clone(), stat)));
        }
        let root_page = match tree {
            Tree::Table(table) => pages.end_table(table).map_err(|e| self.refused(e))?,
            Tree::Entries(tree) => pages.end_index(tree).map_err(|e| self.refused(e))?,
            Tree::Later | Tree::Sql(_) => self.press_table(&mut pages, &mut groups, &mut stats)?,
        };
        let table = &self.shape.name;
        entries.push(SchemaEntry {
            kind: SchemaKind::Table,
            name: table.clone(),
            table_name: table.clone(),
            root_page,
            sql: Some(self.shape.sql.clone()),
        });
        for (index, sorted) in self.indexes {
            let repeats = if index.unique {
                Repeats::First(index.entry.order[..index.entry.unique_columns].to_vec())
            } else {
                Repeats::Allowed
            };
            let mut press = self.press(sorted, Target::Entries, repeats);
            if self.sorted_table.is_some() && self.closes_gaps() {
                press.close_gaps = Some(index.entry.columns.len());
            }
            press.stat = self.counts_stats().then(|| StatCounter::new(&index.entry, index.unique));
            let pressed = press.run(&mut pages)?;
            groups.push(pressed.groups);
            stats.extend(pressed.stat.map(|stat| (index.name.clone(), stat)));
            entries.push(SchemaEntry {
                kind: SchemaKind::Index,
                name: index.name.clone(),
                table_name: table.clone(),
                root_page: pressed.root_page,
                sql: index.sql.clone(),
            });
        }
        if groups.iter().any(|groups| !groups.is_empty()) {
            return Ok((None, groups));
        }
        self.add_side_tables(&mut pages, &mut entries, &stats)?;
        let size = pages.finish(&entries, self.options.output, self.options.path)?;
        Ok((Some(size), groups))
    }

    fn press_table(
        &mut self,
        pages: &mut Pages,
        groups: &mut Groups,
        stats: &mut Vec<(String, StatCounter)>,
    ) -> Result<u32, BuildHalt> {
        let Some(sorted) = self.sorted_table else {
            return Err(Error::bug("no sorted rows were kept for the table").into());
        };
        let (target, repeats) = match (self.order, &self.shape.key) {
            // The rows of a staged table, also where they keep the order of the input.
            (RowOrder::ByKey | RowOrder::ByRowidIfGiven, _) => {
                (Target::CountedRows, Repeats::Allowed)
            }
            (_, None) if self.closes_gaps() => (Target::CountedRows, Repeats::Allowed),
            (_, None) => (Target::Rows, Repeats::Key),
            (_, Some(_)) => (Target::Entries, Repeats::Key),
        };
        let mut press = self.press(sorted, target, repeats);
        let key = self.shape.key.as_ref().filter(|_| self.counts_stats());
        press.stat = key.map(|key| StatCounter::new(key, true));
        let pressed = press.run(pages)?;
        self.rows = pressed.rows;
        if self.options.refuses_repeats {
            self.last_rowid = pressed.last_rowid;
        }
        groups.push(pressed.groups);
        stats.extend(pressed.stat.map(|stat| (self.shape.name.clone(), stat)));
        Ok(pressed.root_page)
    }

    /// Returns true if rows that are left out leave no gap among the rowids. Ignored rows take no
    /// rowid. Replaced rows have taken theirs, and an INTEGER PRIMARY KEY is given.
    fn closes_gaps(&self) -> bool {
        self.shape.key.is_none()
            && self.shape.rowid_column.is_none()
            && self.options.on_conflict != OnConflict::Replace
    }

    fn counts_stats(&self) -> bool {
        counts_stats(self.options, self.shape)
    }

    fn press<'s>(
        &'s self,
        sorted: &'s Sorted,
        target: Target,
        repeats: Repeats,
    ) -> SortedPress<'s> {
        SortedPress {
            sorted,
            target,
            repeats,
            first_group_only: self.options.on_conflict == OnConflict::Abort,
            dropped: &self.dropped,
            layout: self.options.layout,
            threads: self.options.threads,
            cancel: self.options.cancel,
            rows_done: self.options.rows_done,
            output: self.options.output,
            path: self.options.path,
            stat: None,
            close_gaps: None,
        }
    }

    /// `sqlite_sequence` and `sqlite_stat1`, where they are needed.
    fn add_side_tables(
        &self,
        pages: &mut Pages,
        entries: &mut Vec<SchemaEntry>,
        stats: &[(String, StatCounter)],
    ) -> Result<()> {
        pages.put_all_in_front();
        let table = self.shape.name.as_str();
        if self.shape.autoincrement {
            let row = [table.into(), self.last_rowid.into()];
            let rows = if self.rows > 0 { vec![row.to_vec()] } else { Vec::new() };
            let sql = "CREATE TABLE sqlite_sequence(name,seq)";
            entries.push(self.side_table(pages, "sqlite_sequence", sql, &rows)?);
        }
        if self.counts_stats() {
            let texts: Vec<_> =
                stats.iter().filter_map(|(name, stat)| Some((name, stat.stat()?))).collect();
            let mut rows: Vec<Vec<Value<'_>>> = texts
                .iter()
                .map(|(name, stat)| vec![table.into(), name.as_str().into(), stat.as_str().into()])
                .collect();
            // Without an index ANALYZE notes how many rows there are.
            let count = self.rows.to_string();
            if stats.is_empty() && self.rows > 0 {
                rows.push(vec![table.into(), Value::Null, count.as_str().into()]);
            }
            let sql = "CREATE TABLE sqlite_stat1(tbl,idx,stat)";
            entries.push(self.side_table(pages, "sqlite_stat1", sql, &rows)?);
        }
        Ok(())
    }

    /// A table of a few rows.
    fn side_table(
        &self,
        pages: &mut Pages,
        name: &str,
        sql: &str,
        rows: &[Vec<Value<'_>>],
    ) -> Result<SchemaEntry> {
        let BuildOptions { layout, output, path, .. } = *self.options;
        let mut run = LeafRun::new(layout, rows.first().map_or(0, Vec::len));
        for (rowid, row) in (1..).zip(rows) {
            run.push_values(rowid, row).map_err(|error| refused(error, path))?;
        }
        run.close();
        let mut table = TableBuilder::new(layout);
        let range = pages.append(&mut table, &run).map_err(|error| refused(error, path))?;
        write_pieces(run.number(&range), &range, layout, output, path)?;
        let root_page = pages.end_table(table).map_err(|error| refused(error, path))?;
        Ok(SchemaEntry {
            kind: SchemaKind::Table,
            name: name.to_owned(),
            table_name: name.to_owned(),
            root_page,
            sql: Some(sql.to_owned()),
        })
    }

    fn refused(&self, error: FormatError) -> Error {
        refused(error, self.options.path)
    }
}

/// Returns true if the build counts the statistics itself. Where SQLite builds an index afterwards,
/// it runs ANALYZE as well.
fn counts_stats(options: &BuildOptions<'_>, shape: &TableShape) -> bool {
    options.analyze && shape.is_pressed_whole()
}

/// The columns by which a worker turns a table's records into those of a B-tree.
fn projection(entry: &EntryShape) -> leafpress_format::Projection {
    leafpress_format::Projection::new(entry.columns.clone())
}

/// Returns true if the first column of the first record is NULL: NULLs come before all keys.
fn first_key_is_null(sorted: &Sorted) -> Result<bool> {
    let mut partition = Partition::new();
    for number in 0..sorted.partitions() {
        sorted.load(number, &mut partition)?;
        if let Some(first) = partition.entries().next() {
            return Ok(key_has_null(first.record, 1));
        }
    }
    Ok(false)
}

/// Sorts rows by their sequences. Not all inputs could be read again for this.
fn in_order_of_input(sorted: &Sorted, by_sequence: Sorter, cancel: &CancelToken) -> Result<Sorted> {
    let (mut partition, mut run) = (Partition::new(), by_sequence.run());
    for number in 0..sorted.partitions() {
        cancel.check()?;
        sorted.load(number, &mut partition)?;
        for entry in partition.entries() {
            run.push(entry.sequence, entry.sequence as i64, entry.record)?;
        }
    }
    run.finish()?;
    by_sequence.finish()
}
