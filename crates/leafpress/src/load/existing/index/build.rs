//! Press of the sorted entries: makes the index's pages and writes them behind the database's last
//! page.
//!
//! Workers press partitions side by side. This thread, which has the connection, joins them in
//! order and writes their pages. A worker takes an empty run before it takes a partition, and there
//! are few runs. So the partition that is due always has one, and only few partitions wait.
//!
//! Invariants:
//! 1. Every page added behind the former end is part of the tree, or is the lock page.
//! 2. SQLite learns the new count before it allocates again: it reads it from
//!    page 1 when a savepoint is released.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use leafpress_format::header;
use leafpress_format::{
    FinishedPages, FormatError, IndexRun, IndexTree, PageLayout, PageNumbers, RecordColumns,
    key_has_null,
};
use rusqlite::{Statement, Transaction, params};

use crate::error::{Error, ErrorKind, Result};
use crate::load::bound::value_ref;
use crate::load::existing::connect::{ExistingDatabase, constraint};
use crate::load::existing::dbpage::{WRITE_PAGE, read_page, write_page};
use crate::load::options::CancelToken;
use crate::load::tree::analyze::StatCounter;
use crate::schema::shape::IndexShape;
use crate::sort::{Partition, Sorted};
use crate::sqlite_error::broken_rule;
use crate::sync::lock;
use crate::threads;
use crate::words::shown_value;

/// Settings of one press.
pub struct Press<'p> {
    pub transaction: &'p Transaction<'p>,
    pub cancel: &'p CancelToken,
    pub threads: usize,
    pub of: Presser<'p>,
}

/// Settings of the workers.
#[derive(Debug, Clone, Copy)]
pub struct Presser<'p> {
    pub table: &'p str,
    pub target: &'p ExistingDatabase,
    pub index: &'p IndexShape,
    pub layout: PageLayout,
    pub analyze: bool,
}

/// A tree that was written.
pub struct Built {
    pub root: u32,
    pub entries: u64,
    pub statistics: Option<StatCounter>,
}

/// A partition, pressed.
struct Piece {
    run: IndexRun,
    statistics: Option<StatCounter>,
}

impl Press<'_> {
    /// Writes the index's pages behind the pages that there are.
    ///
    /// SQLite knows of the pages then, but not yet of the index.
    pub fn run(&self, sorted: &Sorted, pages_before: u32) -> Result<Built> {
        let refused = |error| self.of.target.refused("write the index", error);
        self.transaction.execute_batch("SAVEPOINT leafpress").map_err(refused)?;
        let next_partition = AtomicUsize::new(0);
        let joined = std::thread::scope(|scope| {
            let (empty_runs, empty) = channel();
            let (pieces, done) = channel();
            // Two runs for each worker and one that is written, so that none waits for an empty one.
            let runs = 2 * self.threads + 1;
            for _ in 0..runs {
                let _ = empty_runs.send(IndexRun::new(self.of.layout));
            }
            let empty = std::sync::Arc::new(Mutex::new(empty));
            threads::start_workers(scope, self.threads, || {
                let (empty, pieces, next) = (empty.clone(), pieces.clone(), &next_partition);
                let presser = self.of;
                move || presser.work(sorted, next, &empty, &pieces)
            })?;
            drop((empty, pieces));
            self.join(sorted, pages_before, &done, empty_runs)
        });
        let (built, page_count) = joined?;
        let mut page_1 = read_page(self.transaction, 1).map_err(refused)?;
        page_1[header::PAGES].copy_from_slice(&page_count.to_be_bytes());
        write_page(self.transaction, 1, &page_1).map_err(refused)?;
        self.transaction.execute_batch("RELEASE leafpress").map_err(refused)?;
        Ok(built)
    }

    /// Joins the pieces in order and writes them; returns the number of pages, too.
    #[expect(clippy::needless_pass_by_value, reason = "workers end when it is dropped")]
    fn join(
        &self,
        sorted: &Sorted,
        pages_before: u32,
        done: &Receiver<(usize, Result<Piece>)>,
        empty_runs: Sender<IndexRun>,
    ) -> Result<(Built, u32)> {
        let refused = |error| self.of.target.refused("write the index", error);
        let mut statement = self.transaction.prepare(WRITE_PAGE).map_err(refused)?;
        let mut numbers = PageNumbers::starting_at(self.of.layout, pages_before + 1);
        let mut finished = FinishedPages::new(self.of.layout);
        let mut tree = IndexTree::new(self.of.layout);
        let mut waiting = BTreeMap::new();
        let mut statistics: Option<StatCounter> = None;
        for partition in 0..sorted.partitions() {
            let mut piece = next_piece(partition, done, &mut waiting)?;
            let range = tree
                .append(&mut piece.run, &mut numbers, &mut finished)
                .map_err(|error| self.of.too_much(error))?;
            for (first, pages) in range.pieces(piece.run.number(&range), self.of.layout) {
                self.write(&mut statement, first, pages).map_err(refused)?;
            }
            self.write_finished(&mut statement, &mut finished).map_err(refused)?;
            match (&mut statistics, piece.statistics) {
                (Some(statistics), Some(later)) => statistics.merge(later),
                (statistics, later) => *statistics = later.or(statistics.take()),
            }
            piece.run.clear();
            // Sending fails only when all workers are done.
            let _ = empty_runs.send(piece.run);
            if self.cancel.is_cancelled() {
                return Err(ErrorKind::Cancelled.into());
            }
        }
        let root =
            tree.finish(&mut numbers, &mut finished).map_err(|error| self.of.too_much(error))?;
        self.write_finished(&mut statement, &mut finished).map_err(refused)?;
        Ok((Built { root, entries: sorted.rows(), statistics }, numbers.page_count()))
    }

    fn write(
        &self,
        statement: &mut Statement<'_>,
        first: u32,
        pages: &[u8],
    ) -> rusqlite::Result<()> {
        for (number, page) in (first..).zip(pages.chunks_exact(self.of.layout.page_bytes())) {
            statement.execute(params![number, page])?;
        }
        Ok(())
    }

    fn write_finished(
        &self,
        statement: &mut Statement<'_>,
        finished: &mut FinishedPages,
    ) -> rusqlite::Result<()> {
        for (first, pages) in finished.pieces() {
            self.write(statement, first, pages)?;
        }
        finished.clear();
        Ok(())
    }
}

impl Presser<'_> {
    /// Runs a worker. It ends when there is no partition left, or the receiver is gone.
    fn work(
        &self,
        sorted: &Sorted,
        next_partition: &AtomicUsize,
        empty: &Mutex<Receiver<IndexRun>>,
        pieces: &Sender<(usize, Result<Piece>)>,
    ) {
        let mut entries = Partition::new();
        loop {
            let (run, partition) = {
                // Both are taken under one lock, so that runs go out in the order of partitions.
                let empty = lock(empty);
                let Ok(run) = empty.recv() else { return };
                (run, next_partition.fetch_add(1, Ordering::Relaxed))
            };
            if partition >= sorted.partitions() {
                return;
            }
            let piece = self.press(sorted, partition, run, &mut entries);
            let failed = piece.is_err();
            if pieces.send((partition, piece)).is_err() || failed {
                return;
            }
        }
    }

    fn press(
        &self,
        sorted: &Sorted,
        partition: usize,
        mut run: IndexRun,
        entries: &mut Partition,
    ) -> Result<Piece> {
        sorted.load(partition, entries)?;
        let key = &self.index.entry.order[..self.index.entry.unique_columns];
        let mut statistics =
            self.analyze.then(|| StatCounter::new(&self.index.entry, self.index.unique));
        let mut rowid_before = 0;
        for entry in entries.entries() {
            if entry.repeats_key && self.index.unique && !key_has_null(entry.record, key.len()) {
                return Err(self.not_unique(rowid_before, entry.rowid, entry.record));
            }
            rowid_before = entry.rowid;
            run.push(entry.record).map_err(|error| self.too_much(error))?;
            if let Some(statistics) = &mut statistics {
                statistics.add(entry.record);
            }
        }
        run.close();
        Ok(Piece { run, statistics })
    }

    fn too_much(&self, error: FormatError) -> Error {
        self.target.refusal(error.to_string())
    }

    fn not_unique(&self, one: i64, other: i64, record: &[u8]) -> Error {
        let mut columns = RecordColumns::new();
        columns.parse(record);
        let key = 0..self.index.entry.unique_columns;
        let values: Vec<String> =
            key.map(|at| shown_value(value_ref(columns.value(record, at)))).collect();
        let refusal = format!("rows {one} and {other} have the same key: {}", values.join(", "));
        constraint(self.table, refusal)
            .caused_by(broken_rule(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE))
            .to_do(NOT_UNIQUE_TO_DO)
    }
}

/// Advice for rows that are not unique.
pub const NOT_UNIQUE_TO_DO: &str =
    "change or delete one of these rows, or make an index that is not unique";

/// The piece of the next partition; those after it wait.
fn next_piece(
    partition: usize,
    done: &Receiver<(usize, Result<Piece>)>,
    waiting: &mut BTreeMap<usize, Result<Piece>>,
) -> Result<Piece> {
    loop {
        if let Some(piece) = waiting.remove(&partition) {
            return piece;
        }
        // The sender is gone if a worker has panicked; the scope reports the panic.
        let (done, piece) = done.recv().map_err(|_| Error::from(ErrorKind::Cancelled))?;
        waiting.insert(done, piece);
    }
}
