//! Sorted records, pressed to the pages of one B-tree on all cores.
//!
//! Workers take partitions in key order, press each by itself and join them in
//! turn. What the order brings to light is found on the way: rows that share a
//! key, and how many distinct keys there are.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use leafpress_format::{
    EntryColumn, FormatError, IndexRun, IndexTree, KeyColumn, LeafRun, PageLayout, PageRange,
    Projection, TableBuilder, compare_records, key_has_null,
};

use super::analyze::StatCounter;
use super::conflicts::Dropped;
use super::turns::{HaltOnPanic, Turns};
use crate::error::{Error, Result};
use crate::load::file::output::Output;
use crate::load::file::pages::{Pages, refused, write_pieces};
use crate::load::options::CancelToken;
use crate::sort::{Partition, Sorted};
use crate::sync::lock;
use crate::threads;

/// Kind of the sorted records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Rows of a table, each with its rowid.
    Rows,
    /// Rows of a table whose rowids are counted from 1.
    CountedRows,
    /// Entries of an index or rows of a WITHOUT ROWID table.
    Entries,
}

/// Rule for rows with the same key.
#[derive(Debug)]
pub enum Repeats {
    /// Rows may share a key.
    Allowed,
    /// No two rows have the same whole key.
    Key,
    /// No two entries are the same in these first columns, unless one is NULL.
    First(Vec<KeyColumn>),
}

/// Presses one B-tree.
pub struct SortedPress<'p> {
    pub sorted: &'p Sorted,
    pub target: Target,
    pub repeats: Repeats,
    /// True if one group of rows with the same key is enough: the one that inserting would meet first.
    pub first_group_only: bool,
    pub dropped: &'p Dropped,
    pub layout: PageLayout,
    pub threads: usize,
    pub cancel: &'p CancelToken,
    pub rows_done: &'p AtomicU64,
    pub output: &'p Output,
    pub path: &'p Path,
    /// Counter of distinct keys, if ANALYZE is wanted.
    pub stat: Option<StatCounter>,
    /// Closes the gaps that rows which are left out leave among the rowids: the number of columns in
    /// an index's records, which end with the rowid; `None` where there are no gaps to close.
    pub close_gaps: Option<usize>,
}

/// A finished B-tree.
pub struct PressedTree {
    pub root_page: u32,
    pub rows: u64,
    /// The largest rowid of a table's rows, if it is above 0.
    pub last_rowid: i64,
    /// Groups of rows with the same key, where that is not allowed. The tree is of no use then.
    pub groups: Vec<Vec<u64>>,
    pub stat: Option<StatCounter>,
}

/// State that the join turns share.
struct Joining<'j> {
    pages: &'j mut Pages,
    tree: Tree,
    rows: u64,
    last_rowid: i64,
    groups: Groups,
    /// Last entry so far, to compare with the first one of the next partition.
    last: Vec<u8>,
    last_sequence: u64,
    stat: Option<StatCounter>,
    failed: Option<Error>,
}

enum Tree {
    Table(TableBuilder),
    Index(IndexTree),
}

/// A worker's memory.
struct Worker {
    partition: Partition,
    leaves: LeafRun,
    entries: IndexRun,
    groups: Groups,
    stat: Option<StatCounter>,
    first: Vec<u8>,
    first_sequence: u64,
    last: Vec<u8>,
    last_sequence: u64,
    kept: u64,
    /// Puts a row's new rowid into its entry.
    gap_closer: Option<Projection>,
    closed: Vec<u8>,
}

impl SortedPress<'_> {
    pub fn run(&self, pages: &mut Pages) -> Result<PressedTree> {
        self.rows_done.store(0, Ordering::Relaxed);
        let tree = match self.target {
            Target::Entries => Tree::Index(IndexTree::new(self.layout)),
            Target::Rows | Target::CountedRows => Tree::Table(TableBuilder::new(self.layout)),
        };
        let join = Turns::new(Joining {
            pages,
            tree,
            rows: 0,
            last_rowid: 0,
            groups: Groups::new(self.first_group_only),
            last: Vec::new(),
            last_sequence: 0,
            stat: self.stat.clone(),
            failed: None,
        });
        let count = Turns::new(0_u64);
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        let work = || {
            let _guard = HaltOnPanic(&join, &count);
            let mut worker = self.worker();
            loop {
                let partition = next.fetch_add(1, Ordering::Relaxed);
                if partition >= self.sorted.partitions() {
                    break;
                }
                match self.step(partition, &mut worker, &count, &join) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        lock(&failed).get_or_insert(error);
                        join.halt();
                        count.halt();
                        break;
                    }
                }
            }
        };
        if self.sorted.partitions() <= 1 {
            // A thread costs more than a small partition.
            work();
        } else {
            std::thread::scope(|scope| {
                let threads = self.threads.min(self.sorted.partitions());
                threads::start_workers(scope, threads, || work).map(threads::join_all)
            })?;
        }
        if let Some(error) = failed.into_inner().unwrap_or_default() {
            return Err(error);
        }
        let Joining { pages, tree, rows, last_rowid, groups, stat, failed, .. } = join.into_state();
        if let Some(error) = failed {
            return Err(error);
        }
        let root = match tree {
            Tree::Table(table) => pages.end_table(table),
            Tree::Index(tree) => pages.end_index(tree),
        };
        let root_page = root.map_err(|error| self.refused(error))?;
        pages.write_waiting(self.output, self.path)?;
        Ok(PressedTree { root_page, rows, last_rowid, groups: groups.into_sorted(), stat })
    }

    fn worker(&self) -> Worker {
        Worker {
            partition: Partition::new(),
            leaves: LeafRun::new(self.layout, 0),
            entries: IndexRun::new(self.layout),
            groups: Groups::new(self.first_group_only),
            stat: None,
            first: Vec::new(),
            first_sequence: 0,
            last: Vec::new(),
            last_sequence: 0,
            kept: 0,
            gap_closer: self.gap_closer(),
            closed: Vec::new(),
        }
    }

    /// Presses one partition. Returns false if another worker has failed.
    fn step(
        &self,
        partition: usize,
        worker: &mut Worker,
        count: &Turns<u64>,
        join: &Turns<Joining<'_>>,
    ) -> Result<bool> {
        self.cancel.check()?;
        self.sorted.load(partition, &mut worker.partition)?;
        let mut base = 0;
        if self.target == Target::CountedRows {
            let kept = self.kept(&worker.partition);
            let Some(before) = count.take(partition as u64, |rows| {
                let before = *rows;
                *rows += kept;
                before
            }) else {
                return Ok(false);
            };
            base = before;
        }
        self.fill(base, worker)?;
        let range = join.take(partition as u64, |joining| self.join(worker, joining));
        let Some(range) = range else { return Ok(false) };
        let range = range.map_err(|error| self.refused(error))?;
        let pages = match self.target {
            Target::Entries => worker.entries.number(&range),
            Target::Rows | Target::CountedRows => worker.leaves.number(&range),
        };
        write_pieces(pages, &range, self.layout, self.output, self.path)?;
        self.rows_done.fetch_add(worker.kept, Ordering::Relaxed);
        Ok(true)
    }

    /// The projection that gives an entry its new rowid and leaves the rest. Old and new rowids are
    /// both in the order of the sequences, so the entries stay in order.
    fn gap_closer(&self) -> Option<Projection> {
        let columns = self.close_gaps.filter(|_| !self.dropped.is_empty())?;
        let columns = (0..columns - 1).map(EntryColumn::Column).chain([EntryColumn::Rowid]);
        Some(Projection::new(columns.collect()))
    }

    fn kept(&self, partition: &Partition) -> u64 {
        let entries = partition.entries();
        entries.filter(|entry| !self.dropped.contains(entry.sequence)).count() as u64
    }

    /// Presses the partition's records to a run of leaves.
    fn fill(&self, base: u64, worker: &mut Worker) -> Result<()> {
        let Worker { partition, leaves, entries, groups, stat, gap_closer, closed, .. } = worker;
        leaves.clear();
        entries.clear();
        groups.all.clear();
        stat.clone_from(&self.stat);
        let mut kept = 0_u64;
        let mut last: Option<(u64, &[u8])> = None;
        let mut first: Option<(u64, &[u8])> = None;
        // True if a new key began since the last row that stays. The first row of that key may be
        // left out.
        let mut is_new_key = true;
        for entry in partition.entries() {
            is_new_key |= !entry.repeats_key;
            if self.dropped.contains(entry.sequence) {
                continue;
            }
            let repeats_key = !std::mem::replace(&mut is_new_key, false);
            if let Some((last_sequence, last)) = last
                && self.repeats(last, entry.record, repeats_key)
            {
                groups.add(&[last_sequence, entry.sequence]);
            } else {
                let pushed = match self.target {
                    Target::Rows => leaves.push_record(entry.rowid, entry.record),
                    Target::CountedRows => {
                        leaves.push_record((base + kept) as i64 + 1, entry.record)
                    }
                    Target::Entries => match gap_closer {
                        None => entries.push(entry.record),
                        Some(gap_closer) => {
                            let rowid = entry.rowid - self.dropped.before(entry.sequence) as i64;
                            closed.clear();
                            gap_closer.append(entry.record, rowid, closed);
                            entries.push(closed)
                        }
                    },
                };
                pushed.map_err(|error| self.refused(error))?;
                kept += 1;
                if let Some(stat) = stat {
                    stat.add(entry.record);
                }
            }
            first.get_or_insert((entry.sequence, entry.record));
            last = Some((entry.sequence, entry.record));
        }
        leaves.close();
        entries.close();
        let remember = |record: &mut Vec<u8>, sequence: &mut u64, from: Option<(u64, &[u8])>| {
            record.clear();
            if let Some((from_sequence, from)) = from {
                record.extend_from_slice(from);
                *sequence = from_sequence;
            }
        };
        remember(&mut worker.first, &mut worker.first_sequence, first);
        remember(&mut worker.last, &mut worker.last_sequence, last);
        worker.kept = kept;
        Ok(())
    }

    /// Returns true if the two neighbours must not both stand in the tree.
    #[inline]
    fn repeats(&self, last: &[u8], record: &[u8], repeats_key: bool) -> bool {
        match &self.repeats {
            Repeats::Allowed => false,
            Repeats::Key => repeats_key,
            Repeats::First(columns) => {
                compare_records(last, record, columns).is_eq()
                    && !key_has_null(record, columns.len())
            }
        }
    }

    fn join(
        &self,
        worker: &mut Worker,
        joining: &mut Joining<'_>,
    ) -> Result<PageRange, FormatError> {
        if let Repeats::First(_) = self.repeats
            && !worker.first.is_empty()
            && !joining.last.is_empty()
            && self.repeats(&joining.last, &worker.first, false)
        {
            joining.groups.add(&[joining.last_sequence, worker.first_sequence]);
        }
        if !worker.last.is_empty() {
            std::mem::swap(&mut joining.last, &mut worker.last);
            joining.last_sequence = worker.last_sequence;
        }
        worker.groups.all.iter().for_each(|group| joining.groups.add(group));
        joining.rows += worker.kept;
        let last_rowid = worker.leaves.last_rowid().unwrap_or(0);
        joining.last_rowid = joining.last_rowid.max(last_rowid);
        if let (Some(so_far), Some(stat)) = (&mut joining.stat, worker.stat.take()) {
            so_far.merge(stat);
        }
        let range = match &mut joining.tree {
            Tree::Table(table) => joining.pages.append(table, &worker.leaves)?,
            Tree::Index(tree) => joining.pages.append_entries(tree, &mut worker.entries)?,
        };
        if let Err(error) = joining.pages.write_waiting(self.output, self.path) {
            joining.failed.get_or_insert(error);
        }
        Ok(range)
    }

    fn refused(&self, error: FormatError) -> Error {
        refused(error, self.path)
    }
}

/// Rows with the same key, in groups, as neighbours in key order show them.
struct Groups {
    all: Vec<Vec<u64>>,
    /// True if no more is kept than the group that inserting would meet first, and those at both ends, which
    /// may have members in the partitions beside this one.
    first_only: bool,
}

/// A group is shortened beyond so many rows if only the first one is wanted.
const GROUP_ROWS_MAX: usize = 64;

impl Groups {
    fn new(first_only: bool) -> Self {
        Self { all: Vec::new(), first_only }
    }

    /// Adds neighbours; they belong to the last group if they begin with its last row.
    fn add(&mut self, rows: &[u64]) {
        match self.all.last_mut() {
            Some(group) if group.last() == rows.first() => {
                group.extend_from_slice(&rows[1..]);
                if self.first_only && group.len() > GROUP_ROWS_MAX {
                    shorten(group);
                }
            }
            _ => {
                if self.first_only && self.all.len() == 3 {
                    let last = self.all.pop().unwrap_or_default();
                    if second(&last) < second(&self.all[1]) {
                        self.all[1] = last;
                    }
                }
                self.all.push(rows.to_vec());
            }
        }
    }

    /// The groups, each in the order of the input.
    fn into_sorted(mut self) -> Vec<Vec<u64>> {
        // An index's entries with the same key come by rowid, which need not be that order.
        for group in &mut self.all {
            group.sort_unstable();
            group.dedup();
        }
        self.all
    }
}

/// The row of a group that inserting would refuse first.
fn second(group: &[u64]) -> Option<u64> {
    let first = group.iter().min();
    group.iter().filter(|row| Some(*row) != first).min().copied()
}

/// Leaves the two rows of a group that inserting would meet first, between those at its ends.
fn shorten(group: &mut Vec<u64>) {
    let (first, last) = (group.first().copied(), group.last().copied());
    let met_first = group.iter().min().copied().into_iter().chain(second(group));
    *group = first.into_iter().chain(met_first).chain(last).collect();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Conflict;
    use super::*;

    #[test]
    fn neighbours_grow_to_groups() {
        let mut groups = Groups::new(false);
        for pair in [[9, 3], [3, 5], [7, 8]] {
            groups.add(&pair);
        }
        assert_eq!(groups.into_sorted(), [vec![3, 5, 9], vec![7, 8]]);
    }

    proptest! {
        #[test]
        fn the_first_conflict_is_the_same_if_only_that_is_kept(
            rows in Just((0..400).collect::<Vec<u64>>()).prop_shuffle(),
            equal in prop::collection::vec(prop::bool::weighted(0.97), 400),
            ends in prop::collection::vec(prop::bool::weighted(0.05), 400),
        ) {
            let (mut all, mut joined, mut own) =
                (Groups::new(false), Groups::new(true), Groups::new(true));
            for at in 1..rows.len() {
                let pair = [rows[at - 1], rows[at]];
                if ends[at] {
                    own.all.drain(..).for_each(|group| joined.add(&group));
                }
                if equal[at] {
                    all.add(&pair);
                    if ends[at] { joined.add(&pair) } else { own.add(&pair) }
                }
            }
            own.all.iter().for_each(|group| joined.add(group));
            prop_assert!(joined.all.len() <= 3);
            prop_assert!(joined.all.iter().all(|group| group.len() <= GROUP_ROWS_MAX));
            let first = |groups: Groups| Conflict::first(&[groups.into_sorted()]);
            prop_assert_eq!(first(joined), first(all));
        }
    }
}
