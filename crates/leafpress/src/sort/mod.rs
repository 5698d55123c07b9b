//! Sorting: items from several threads come out by key.
//!
//! Purpose: pressing a table or an index needs its rows in key order.
//! Rows that fit the given memory stay there; the rest goes to a temporary file, once.
//!
//! Must never: know what the records are for. It compares them by
//! their columns, with the format crate, and hands them out as they came in.
//!
//! Place: between the rows made of an input and the pages pressed
//! from them; only `load` uses it.
//!
//! # The way of an item
//!
//! ```text
//!  push ─► buffer, with slots ─► run: items in order ─┬────────────────► partition ─► entries
//!          (one per thread)      (in memory)          └─► merged, on disk ──┘
//! ```
//!
//! | | |
//! |---|---|
//! | `options.rs` | what a sorter may use |
//! | `item.rs` | an item's bytes |
//! | `slot.rs` | what stands for an item while it is sorted |
//! | `order.rs` | the order that slots are sorted in |
//! | `radix.rs` | slots sorted by their prefixes |
//! | `run.rs`, `arena.rs` | the buffer of a thread, and a run in memory |
//! | `samples.rs` | where in a run the keys of a partition lie |
//! | `pool.rs`, `limits.rs` | shares of the memory, and the runs that go to disk |
//! | `spill.rs` | runs on disk |
//! | `plan.rs` | which keys divide all runs into partitions |
//! | `sorted.rs`, `partition.rs` | partitions, merged from all runs |
//!
//! # Invariants
//!
//! 1. Entries come by key, and by sequence where keys are equal, whatever
//!    thread pushed them and wherever they lay.
//! 2. Equal keys are never in two partitions. So the items of one key must fit the
//!    memory of the machine, even if they are more than `memory_bytes`.
//! 3. Buffers, runs, samples and partitions together take no more than
//!    `memory_bytes`. Exceptions: invariant 2, one item that is larger by itself, and
//!    a partition that becomes larger than planned.

mod arena;
mod contents;
mod item;
mod limits;
mod options;
mod order;
mod partition;
mod plan;
mod pool;
mod radix;
mod run;
mod samples;
mod slot;
mod sorted;
mod spill;
#[cfg(test)]
mod tests;

pub use options::{MEMORY_BYTES_MIN, SortKey, SortOptions};
pub use partition::Partition;
pub use sorted::Sorted;

use leafpress_format::Projection;

use crate::error::Result;
use item::Item;
use limits::Limits;
use order::Order;
use pool::Pool;
use run::RunBuffer;

/// Takes items in any order.
///
/// Each thread pushes through a [`RunBuilder`] of its own.
#[derive(Debug)]
pub struct Sorter {
    pool: Pool,
}

impl Sorter {
    /// A sorter of nothing yet.
    pub fn new(options: SortOptions, key: SortKey) -> Self {
        let memory_bytes = options.memory_bytes.max(MEMORY_BYTES_MIN);
        Self::with_memory(options, key, memory_bytes)
    }

    /// A sorter with exactly this memory: [`MEMORY_BYTES_MIN`] does not apply.
    fn with_memory(options: SortOptions, key: SortKey, memory_bytes: usize) -> Self {
        let limits = Limits::new(memory_bytes, options.threads);
        Self { pool: Pool::new(options, limits, Order::new(key)) }
    }

    /// A [`RunBuilder`] for one thread, which pushes its items through it.
    pub fn run(&self) -> RunBuilder<'_> {
        RunBuilder { pool: &self.pool, buffer: None }
    }

    /// Divides what all threads have pushed, and finished, into partitions.
    ///
    /// # Errors
    /// Fails if the temporary file cannot be read.
    pub fn finish(self) -> Result<Sorted> {
        Sorted::new(self.pool)
    }
}

/// Takes the items of one thread.
///
/// The thread must call [`finish`](Self::finish) after its last item: without that call, the
/// items of the last run are lost.
#[derive(Debug)]
pub struct RunBuilder<'s> {
    pool: &'s Pool,
    /// The buffer being filled; nothing before the first item.
    buffer: Option<RunBuffer>,
}

impl RunBuilder<'_> {
    /// Adds an item. Of items with equal keys, the one with the smaller
    /// `sequence` will come first; no two have the same.
    ///
    /// # Errors
    /// Fails if the memory is used up and the temporary file cannot be written. The sorter must
    /// not be used after that.
    #[inline]
    pub fn push(&mut self, sequence: u64, rowid: i64, record: &[u8]) -> Result<()> {
        let item = Item { sequence, rowid, record };
        if let Some(buffer) = &mut self.buffer
            && buffer.push(&self.pool.order, &item)
        {
            return Ok(());
        }
        self.push_to_next(&item)
    }

    /// Adds an item as [`push`](Self::push) does, whose record is a projection of a row's.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    #[inline]
    pub fn push_projection(
        &mut self,
        (sequence, rowid): (u64, i64),
        row: &[u8],
        projection: &mut Projection,
    ) -> Result<()> {
        if let Some(buffer) = &mut self.buffer {
            let bytes_max = projection.bytes_max(row);
            let make = |entry: &mut [u8]| projection.project_into(row, rowid, entry);
            if buffer.push_in_place(&self.pool.order, (sequence, rowid), bytes_max, make) {
                return Ok(());
            }
        }
        self.push(sequence, rowid, projection.project(row, rowid))
    }

    /// Adds an item for which there is no room in the buffer.
    #[cold]
    #[inline(never)]
    fn push_to_next(&mut self, item: &Item<'_>) -> Result<()> {
        if RunBuffer::bytes_for(item.record.len()) > self.pool.limits.run_bytes {
            return self.pool.add_large(item);
        }
        let buffer = match &mut self.buffer {
            Some(full) => {
                self.pool.seal(full)?;
                full
            }
            None => self.buffer.insert(self.pool.buffer()?),
        };
        let has_room = buffer.push(&self.pool.order, item);
        debug_assert!(has_room, "an empty buffer has room for the item");
        Ok(())
    }

    /// Ends the pushing of this thread: its last run counts from now on.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn finish(self) -> Result<()> {
        if let Some(mut buffer) = self.buffer {
            self.pool.seal(&mut buffer)?;
            self.pool.give_back(buffer);
        }
        self.pool.settle()
    }
}
