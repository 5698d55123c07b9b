//! Scan of a table: reads the rows from its leaves and sorts them as the index will have them.
//!
//! This thread, which has the connection, reads the interior pages through SQLite, and so has the
//! numbers of all leaves. Where the file holds what the transaction sees (`file_pages.rs`), workers
//! read the leaves from it. Else this thread asks SQLite for one leaf after the other, and hands
//! them to workers in batches; a row that needs columns on overflow pages comes back here then, as
//! only this thread can read pages.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{ScopedJoinHandle, scope};

use leafpress_format::TablePage;
use rusqlite::{Statement, Transaction};

use super::file_pages::{FilePage, FilePages, LogBefore};
use super::maker::{EntryMaker, Halt, LongRow, ReadPage};
use super::press_plan::PressPlan;
use crate::error::{ErrorKind, Result};
use crate::load::existing::connect::ExistingDatabase;
use crate::load::existing::dbpage::READ_PAGE;
use crate::load::options::CancelToken;
use crate::sort::{SortKey, SortOptions, Sorted, Sorter};
use crate::sync::lock;
use crate::threads;

/// Bytes of leaves that are read or handed over at once.
const BATCH_BYTES: usize = 256 << 10;
/// Limit of a tree's levels. No tree is deeper: a page has two children at least, and there are at
/// most 2^32 pages.
const LEVELS_MAX: usize = 40;

/// One scan.
pub struct Scan<'s> {
    pub transaction: &'s Transaction<'s>,
    pub target: &'s ExistingDatabase,
    pub cancel: &'s CancelToken,
    pub plan: &'s PressPlan,
    pub threads: usize,
    /// Number of pages of the database.
    pub pages: u32,
    pub log: LogBefore,
}

/// End of a scan.
pub enum ScanEnd {
    /// All entries, sorted by the index's columns and, where these are equal,
    /// by rowid.
    Sorted(Sorted),
    /// A row lacks a column whose value is then not NULL, so SQLite has to make the index.
    AbsentColumn,
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
        let mut leaves = self.leaves(&mut pages)?;
        let first_rowid = self.first_rowid(&mut pages, &leaves)?;
        // A file is read fastest from front to back, and the sorter takes rows in any order.
        leaves.sort_unstable();
        if leaves.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Halt::Malformed);
        }
        let entry = &self.plan.index.entry;
        // Equal keys come by rowid in both cases, as the index has them. If many keys are equal, it
        // is faster to compare rowids as columns. In a unique index the sorter has to find the
        // equal ones.
        let columns = if self.plan.index.unique { entry.unique_columns } else { entry.order.len() };
        let options = SortOptions { ends_in_rowid: entry.ends_in_rowid(), ..options };
        let sorter = Sorter::new(options, SortKey::Columns(entry.order[..columns].to_vec()));
        let maker = || EntryMaker::new(self.plan, first_rowid, sorter.run());
        match pages.file.take() {
            Some(file) => self.read_file(&file, &leaves, maker)?,
            None => self.read_through_sqlite(&mut pages, &leaves, maker)?,
        }
        Ok(sorter.finish()?)
    }

    /// Has workers read all leaves from the file.
    fn read_file<'m>(
        &self,
        file: &FilePages<'_>,
        leaves: &[u32],
        maker: impl Fn() -> EntryMaker<'m>,
    ) -> Result<(), Halt> {
        let next = AtomicUsize::new(0);
        let leaves = FileLeaves { file, numbers: leaves, next, cancel: self.cancel };
        scope(|scope| {
            let workers = threads::start_workers(scope, self.threads, || {
                let (leaves, maker) = (&leaves, maker());
                move || leaves.work(maker)
            })?;
            join_all(workers)
        })
    }

    /// Reads all leaves through SQLite, for workers.
    fn read_through_sqlite<'m>(
        &self,
        pages: &mut PageReader<'_>,
        leaves: &[u32],
        maker: impl Fn() -> EntryMaker<'m>,
    ) -> Result<(), Halt> {
        let page_bytes = self.plan.layout.page_bytes();
        scope(|scope| {
            let (batches, receiver) = sync_channel::<Vec<u8>>(2 * self.threads);
            let (long_rows, long_receiver) = channel();
            let receiver = Arc::new(Mutex::new(receiver));
            let workers = threads::start_workers(scope, self.threads, || {
                let (receiver, long_rows) = (receiver.clone(), long_rows.clone());
                let maker = maker();
                move || work(maker, &receiver, &long_rows, page_bytes)
            })?;
            // Only workers hold these senders now: the channel closes when the last worker ends.
            drop((receiver, long_rows));
            let read = self.hand_out(pages, leaves, batches, &long_receiver, maker());
            // If sending failed, the worker's error is the reason.
            join_all(workers).and(read)
        })
    }

    /// Page numbers of the leaves, in the order of their rows.
    fn leaves(&self, pages: &mut PageReader<'_>) -> Result<Vec<u32>, Halt> {
        let mut level = vec![self.plan.table_root];
        for _ in 0..LEVELS_MAX {
            let mut next_level = Vec::new();
            for &number in &level {
                match TablePage::read(pages.read(number)?, self.plan.layout)? {
                    // All leaves are on the same level.
                    TablePage::Leaf(_) if next_level.is_empty() => return Ok(level),
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

    fn first_rowid(&self, pages: &mut PageReader<'_>, leaves: &[u32]) -> Result<i64, Halt> {
        let Some(&first) = leaves.first() else { return Ok(0) };
        match TablePage::read(pages.read(first)?, self.plan.layout)? {
            TablePage::Leaf(leaf) if leaf.rows() > 0 => Ok(leaf.row(0)?.rowid),
            TablePage::Leaf(_) => Ok(0),
            TablePage::Interior(_) => Err(Halt::Malformed),
        }
    }

    /// Reads all leaves for the workers, and the overflow pages of rows that they send back.
    fn hand_out(
        &self,
        pages: &mut PageReader<'_>,
        leaves: &[u32],
        batches: SyncSender<Vec<u8>>,
        long_rows: &Receiver<LongRow>,
        mut maker: EntryMaker<'_>,
    ) -> Result<(), Halt> {
        for stretch in leaves.chunks(BATCH_BYTES / self.plan.layout.page_bytes()) {
            if self.cancel.is_cancelled() {
                return Err(Halt::Failed(ErrorKind::Cancelled.into()));
            }
            let mut batch = Vec::with_capacity(BATCH_BYTES);
            for &number in stretch {
                batch.extend_from_slice(pages.read(number)?);
            }
            if batches.send(batch).is_err() {
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

/// Waits for all workers; the first error is the scan's.
fn join_all(workers: Vec<ScopedJoinHandle<'_, Result<(), Halt>>>) -> Result<(), Halt> {
    let mut outcome = Ok(());
    for worker in workers {
        let end = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        outcome = outcome.and(end);
    }
    outcome
}

/// Runs a worker, which makes entries of the leaves that it is sent.
fn work(
    mut maker: EntryMaker<'_>,
    batches: &Mutex<Receiver<Vec<u8>>>,
    long_rows: &Sender<LongRow>,
    page_bytes: usize,
) -> Result<(), Halt> {
    loop {
        let batch = lock(batches).recv();
        let Ok(batch) = batch else { return maker.finish() };
        for page in batch.chunks_exact(page_bytes) {
            maker.add_leaf(page, |_, row| long_rows.send(row).map_err(|_| Halt::Malformed))?;
        }
    }
}

/// Leaves in the file, which workers take by stretches.
struct FileLeaves<'f> {
    file: &'f FilePages<'f>,
    numbers: &'f [u32],
    next: AtomicUsize,
    cancel: &'f CancelToken,
}

impl FileLeaves<'_> {
    /// Runs a worker, which reads leaves itself and makes entries of them.
    fn work(&self, maker: EntryMaker<'_>) -> Result<(), Halt> {
        let outcome = self.read(maker);
        if outcome.is_err() {
            // The others need not go on.
            self.next.store(self.numbers.len(), Ordering::Relaxed);
        }
        outcome
    }

    fn read(&self, mut maker: EntryMaker<'_>) -> Result<(), Halt> {
        let page_bytes = self.file.page_bytes();
        let leaves_at_once = BATCH_BYTES / page_bytes;
        let mut bytes = vec![0; leaves_at_once * page_bytes];
        let mut single = FilePage { file: self.file, page: Vec::new() };
        loop {
            let start = self.next.fetch_add(leaves_at_once, Ordering::Relaxed);
            let end = self.numbers.len().min(start.saturating_add(leaves_at_once));
            let Some(stretch) = self.numbers.get(start..end).filter(|it| !it.is_empty()) else {
                return maker.finish();
            };
            if self.cancel.is_cancelled() {
                return Err(Halt::Failed(ErrorKind::Cancelled.into()));
            }
            for neighbours in stretch.chunk_by(|one, next| one.checked_add(1) == Some(*next)) {
                let pages = &mut bytes[..neighbours.len() * page_bytes];
                self.file.read(neighbours[0], pages)?;
                for page in pages.chunks_exact(page_bytes) {
                    maker.add_leaf(page, |maker, row| maker.add_long(row, &mut single))?;
                }
            }
        }
    }
}

/// Reads pages through SQLite, as the transaction sees them.
struct PageReader<'t> {
    statement: Statement<'t>,
    target: &'t ExistingDatabase,
    page: Vec<u8>,
    /// The file, as long as it holds every page that was read.
    file: Option<FilePages<'t>>,
}

impl<'t> PageReader<'t> {
    fn new(scan: &Scan<'t>) -> Result<Self> {
        let (transaction, target) = (scan.transaction, scan.target);
        let refused = |error| target.refused("read the table", error);
        let statement = transaction.prepare(READ_PAGE).map_err(refused)?;
        let file = FilePages::open(transaction, target, scan.plan.layout, scan.pages, scan.log);
        let file =
            file.inspect_err(|reason| tracing::debug!(reason, "pages are read through SQLite"));
        Ok(Self { statement, target, page: Vec::new(), file: file.ok() })
    }
}

impl ReadPage for PageReader<'_> {
    fn read(&mut self, number: u32) -> Result<&[u8], Halt> {
        let page = &mut self.page;
        page.clear();
        let found = self.statement.query_row([number], |row| {
            page.extend_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        match found {
            Ok(()) => {}
            Err(rusqlite::Error::QueryReturnedNoRows) => return Err(Halt::Malformed),
            Err(error) => return Err(Halt::Failed(self.target.refused("read the table", error))),
        }
        self.file.take_if(|file| !file.holds(number, &self.page));
        Ok(&self.page)
    }
}
