//! Scan of a table: reads the rows from its leaves and sorts them as the index will have them.
//!
//! This thread, which has the connection, asks SQLite for one page after the other and hands the
//! leaves to workers in batches. A worker makes entries of the rows. If the index needs columns on
//! a row's overflow pages, the row comes back here, as only this thread can read pages.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use leafpress_format::{
    FirstColumns, FormatError, PageLayout, Projection, TablePage, read_overflow_page,
};
use rusqlite::{Statement, Transaction};

use super::PressPlan;
use crate::error::{Error, ErrorKind, Result};
use crate::load::existing::connect::Target;
use crate::load::options::CancelToken;
use crate::sort::{RunBuilder, SortKey, SortOptions, Sorted, Sorter};
use crate::threads;

/// Bytes of leaves that are handed over at once.
const BATCH_BYTES: usize = 256 << 10;
/// Limit of a tree's levels. No tree is deeper: a page has two children at least, and there are at
/// most 2^32 pages.
const LEVELS_MAX: usize = 40;

/// One scan.
pub struct Scan<'s> {
    pub transaction: &'s Transaction<'s>,
    pub target: &'s Target,
    pub cancel: &'s CancelToken,
    pub plan: &'s PressPlan,
    pub threads: usize,
    /// Number of pages of the database.
    pub pages: u32,
}

/// End of a scan.
pub enum ScanEnd {
    /// All entries, sorted by the index's columns and, where these are equal,
    /// by rowid.
    Sorted(Sorted),
    /// A row lacks a column whose value is then not NULL, so SQLite has to make the index.
    AbsentColumn,
}

/// Reason why a scan ended early.
enum Halt {
    AbsentColumn,
    Failed(Error),
    Malformed,
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<FormatError> for Halt {
    fn from(_: FormatError) -> Self {
        Self::Malformed
    }
}

/// A row whose leaf does not hold all that is needed.
struct LongRow {
    rowid: i64,
    record_bytes: u64,
    beginning: Vec<u8>,
    overflow: Option<u32>,
}

impl Scan<'_> {
    /// Reads and sorts.
    pub fn run(&self, options: SortOptions) -> Result<ScanEnd> {
        match self.sort(options) {
            Ok(sorted) => Ok(ScanEnd::Sorted(sorted)),
            Err(Halt::AbsentColumn) => Ok(ScanEnd::AbsentColumn),
            Err(Halt::Failed(error)) => Err(error),
            Err(Halt::Malformed) => Err(self
                .target
                .refusal("a page of the table is damaged")
                .to_do("see what leafpress verify says, and restore or recover it first")),
        }
    }

    fn sort(&self, options: SortOptions) -> Result<Sorted, Halt> {
        let mut pages = PageReader::new(self)?;
        let leaves = self.leaves(&mut pages)?;
        let first_rowid = self.first_rowid(&mut pages, &leaves)?;
        let entry = &self.plan.index.entry;
        // Equal keys come by rowid in both cases, as the index has them. If many keys are equal, it
        // is faster to compare rowids as columns. In a unique index the sorter has to find the
        // equal ones.
        let columns = if self.plan.index.unique { entry.unique_columns } else { entry.order.len() };
        let sorter = Sorter::new(options, SortKey::Columns(entry.order[..columns].to_vec()));
        std::thread::scope(|scope| {
            let (batches, receiver) = sync_channel::<Vec<u8>>(2 * self.threads);
            let (long_rows, long_receiver) = channel();
            let receiver = Mutex::new(receiver);
            let receiver = std::sync::Arc::new(receiver);
            let workers = threads::start_workers(scope, self.threads, || {
                let maker = EntryMaker::new(self.plan, first_rowid, sorter.run());
                let (receiver, long_rows) = (receiver.clone(), long_rows.clone());
                let layout = self.plan.layout;
                move || work(maker, &receiver, &long_rows, layout)
            })?;
            // Only workers hold these senders now: the channel closes when the last worker ends.
            drop((receiver, long_rows));
            let maker = EntryMaker::new(self.plan, first_rowid, sorter.run());
            let read = self.read(&mut pages, leaves, batches, &long_receiver, maker);
            let mut outcome = Ok(());
            for worker in workers {
                let end = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                outcome = outcome.and(end);
            }
            // If sending failed, the worker's error is the reason.
            outcome.and(read)
        })?;
        Ok(sorter.finish()?)
    }

    /// Page numbers of the leaves, in their order.
    fn leaves(&self, pages: &mut PageReader<'_>) -> Result<VecDeque<u32>, Halt> {
        let mut level = vec![self.plan.table_root];
        for _ in 0..LEVELS_MAX {
            let mut next_level = Vec::new();
            for &number in &level {
                match TablePage::read(pages.read(number)?, self.plan.layout)? {
                    // All leaves are on the same level.
                    TablePage::Leaf(_) if next_level.is_empty() => return Ok(level.into()),
                    TablePage::Leaf(_) => return Err(Halt::Malformed),
                    TablePage::Interior(children) => next_level.extend(children),
                }
            }
            if next_level.len() > self.pages as usize {
                return Err(Halt::Malformed);
            }
            level = next_level;
        }
        Err(Halt::Malformed)
    }

    fn first_rowid(&self, pages: &mut PageReader<'_>, leaves: &VecDeque<u32>) -> Result<i64, Halt> {
        let Some(&first) = leaves.front() else { return Ok(0) };
        match TablePage::read(pages.read(first)?, self.plan.layout)? {
            TablePage::Leaf(leaf) if leaf.rows() > 0 => Ok(leaf.row(0)?.rowid),
            TablePage::Leaf(_) => Ok(0),
            TablePage::Interior(_) => Err(Halt::Malformed),
        }
    }

    /// Reads all leaves for the workers, and the overflow pages of rows that they send back.
    fn read(
        &self,
        pages: &mut PageReader<'_>,
        mut leaves: VecDeque<u32>,
        batches: SyncSender<Vec<u8>>,
        long_rows: &Receiver<LongRow>,
        mut maker: EntryMaker<'_>,
    ) -> Result<(), Halt> {
        let mut batch = Vec::with_capacity(BATCH_BYTES);
        while let Some(number) = leaves.pop_front() {
            batch.extend_from_slice(pages.read(number)?);
            if batch.len() + self.plan.layout.page_bytes() <= BATCH_BYTES && !leaves.is_empty() {
                continue;
            }
            if self.cancel.is_cancelled() {
                return Err(Halt::Failed(ErrorKind::Cancelled.into()));
            }
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_BYTES));
            if batches.send(full).is_err() {
                return Err(Halt::Malformed);
            }
            for row in long_rows.try_iter() {
                maker.add_long(row, pages)?;
            }
        }
        drop(batches);
        // The loop ends when the last worker does.
        for row in long_rows {
            maker.add_long(row, pages)?;
        }
        maker.finish()
    }
}

/// Runs a worker, which makes entries of leaves.
fn work(
    mut maker: EntryMaker<'_>,
    batches: &Mutex<Receiver<Vec<u8>>>,
    long_rows: &Sender<LongRow>,
    layout: PageLayout,
) -> Result<(), Halt> {
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = batch else { return maker.finish() };
        for page in batch.chunks_exact(layout.page_bytes()) {
            let TablePage::Leaf(leaf) = TablePage::read(page, layout)? else {
                return Err(Halt::Malformed);
            };
            for index in 0..leaf.rows() {
                let row = leaf.row(index)?;
                if row.overflow.is_none() {
                    maker.add(row.rowid, row.local)?;
                } else if maker.has_all(row.local) {
                    maker.add_beginning(row.rowid, row.local)?;
                } else {
                    let long = LongRow {
                        rowid: row.rowid,
                        record_bytes: row.record_bytes,
                        beginning: row.local.to_vec(),
                        overflow: row.overflow,
                    };
                    if long_rows.send(long).is_err() {
                        return Err(Halt::Malformed);
                    }
                }
            }
        }
    }
}

/// Maker of one thread's entries.
struct EntryMaker<'s> {
    run: RunBuilder<'s>,
    projection: Projection,
    columns_needed: usize,
    absent_is_null: bool,
    first_rowid: i64,
    entry: Vec<u8>,
}

impl<'s> EntryMaker<'s> {
    fn new(plan: &PressPlan, first_rowid: i64, run: RunBuilder<'s>) -> Self {
        Self {
            run,
            projection: Projection::new(plan.index.entry.columns.clone()),
            columns_needed: plan.columns_needed,
            absent_is_null: plan.absent_is_null,
            first_rowid,
            entry: Vec::new(),
        }
    }

    /// Returns true if the record's beginning holds all needed columns.
    fn has_all(&self, beginning: &[u8]) -> bool {
        FirstColumns::look(beginning, self.columns_needed) != FirstColumns::Cut
    }

    /// Adds a row whose record is complete.
    #[inline]
    fn add(&mut self, rowid: i64, record: &[u8]) -> Result<(), Halt> {
        if self.absent_is_null {
            return self.push(rowid, record);
        }
        self.add_beginning(rowid, record)
    }

    /// Adds a row whose needed columns are all in `beginning`.
    fn add_beginning(&mut self, rowid: i64, beginning: &[u8]) -> Result<(), Halt> {
        match FirstColumns::look(beginning, self.columns_needed) {
            FirstColumns::Whole => self.push(rowid, beginning),
            FirstColumns::Absent if self.absent_is_null => self.push(rowid, beginning),
            FirstColumns::Absent => Err(Halt::AbsentColumn),
            FirstColumns::Cut => Err(Halt::Malformed),
        }
    }

    #[inline]
    fn push(&mut self, rowid: i64, record: &[u8]) -> Result<(), Halt> {
        self.entry.clear();
        self.projection.append(record, rowid, &mut self.entry);
        // The sequence has the order of the rowids, and is small for small rowids.
        let sequence = rowid.wrapping_sub(self.first_rowid) as u64;
        Ok(self.run.push(sequence, rowid, &self.entry)?)
    }

    /// Reads on until the needed columns are there.
    fn add_long(&mut self, row: LongRow, pages: &mut PageReader<'_>) -> Result<(), Halt> {
        let (mut record, mut overflow) = (row.beginning, row.overflow);
        while !self.has_all(&record) {
            let missing_bytes = row.record_bytes.saturating_sub(record.len() as u64);
            let Some(number) = overflow.filter(|_| missing_bytes > 0) else {
                return Err(Halt::Malformed);
            };
            let layout = pages.layout;
            let (content, next) = read_overflow_page(pages.read(number)?, layout)?;
            let bytes = content.len().min(usize::try_from(missing_bytes).unwrap_or(usize::MAX));
            record.extend_from_slice(&content[..bytes]);
            overflow = next;
        }
        self.add_beginning(row.rowid, &record)
    }

    fn finish(self) -> Result<(), Halt> {
        Ok(self.run.finish()?)
    }
}

/// Reads pages through SQLite, as the transaction sees them.
struct PageReader<'t> {
    statement: Statement<'t>,
    target: &'t Target,
    layout: PageLayout,
    page: Vec<u8>,
}

impl<'t> PageReader<'t> {
    fn new(scan: &Scan<'t>) -> Result<Self> {
        let sql = "SELECT data FROM sqlite_dbpage WHERE pgno = ?1";
        let refused = |error| scan.target.refused("read the table", error);
        let statement = scan.transaction.prepare(sql).map_err(refused)?;
        let layout = scan.plan.layout;
        Ok(Self { statement, target: scan.target, layout, page: Vec::new() })
    }

    fn read(&mut self, number: u32) -> Result<&[u8], Halt> {
        let page = &mut self.page;
        page.clear();
        let found = self.statement.query_row([number], |row| {
            page.extend_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        match found {
            Ok(()) => Ok(&self.page),
            Err(rusqlite::Error::QueryReturnedNoRows) => Err(Halt::Malformed),
            Err(error) => Err(Halt::Failed(self.target.refused("read the table", error))),
        }
    }
}
