//! The memory of a sorter, and the spilling of runs when it is used up.
//!
//! Each thread fills a buffer, makes a run of its items, and fills it again. Runs stay in memory as
//! long as there is memory. When a thread needs memory and there is none, it takes some of the runs,
//! its own or others', and merges them into one run on disk. The memory of the merged runs is then
//! free for other runs. The other threads go on with the runs that were not taken.
//!
//! # Invariants
//!
//! 1. `held_bytes` counts every buffer and run that exists, and all samples. It exceeds
//!    the limit only where that cannot be avoided: for an item larger than the limit, or if there
//!    are more threads than were announced.
//! 2. A thread waits for memory only while another thread is spilling. That spill
//!    frees memory or fails, and either wakes the waiting thread; so no thread
//!    waits for ever.

use std::sync::{Arc, Condvar, Mutex};

use super::arena::Arena;
use super::item::{self, Item};
use super::limits::Limits;
use super::options::SortOptions;
use super::order::{Between, Order};
use super::partition::{for_each_merged, merge_runs};
use super::plan::Planner;
use super::run::{MemoryRun, RunBuffer};
use super::spill::{RunWriter, SpillFile, SpilledRun};
use crate::error::Result;
use crate::sync::lock;

/// Sizes of larger runs are multiples of this, so that one's memory does for another.
const GRANULE_BYTES: usize = 64 << 10;

/// Number of these from which a run counts as large.
const GRANULES_MIN: usize = 32;

/// The state of a sorter that all its threads share.
#[derive(Debug)]
pub struct Pool {
    pub options: SortOptions,
    pub limits: Limits,
    pub order: Order,
    state: Mutex<State>,
    /// Notified at each end of a spill.
    freed: Condvar,
}

/// The part of the pool that changes.
#[derive(Debug, Default)]
pub struct State {
    held_bytes: usize,
    pub sealed: Vec<MemoryRun>,
    /// Memory that no run uses at the moment.
    spare: Vec<Arena>,
    pub spilled: Vec<SpilledRun>,
    pub file: Option<Arc<SpillFile>>,
    /// Number of threads that are spilling right now.
    spilling: usize,
    pub rows: u64,
}

impl Pool {
    pub fn new(options: SortOptions, limits: Limits, order: Order) -> Self {
        let (state, freed) = (Mutex::default(), Condvar::new());
        Self { options, limits, order, state, freed }
    }

    /// A buffer to fill.
    pub fn buffer(&self) -> Result<RunBuffer> {
        self.reserve(self.limits.run_bytes)?;
        Ok(RunBuffer::new(self.limits.run_bytes, self.options.ends_in_rowid))
    }

    /// Takes a buffer back.
    pub fn give_back(&self, buffer: RunBuffer) {
        lock(&self.state).held_bytes -= self.limits.run_bytes;
        drop(buffer);
    }

    /// Makes a run of the buffer's items, which empties the buffer.
    pub fn seal(&self, buffer: &mut RunBuffer) -> Result<()> {
        let bytes = buffer.item_bytes();
        if bytes > 0 {
            let memory = self.memory(bytes)?;
            self.add(buffer.seal(&self.order, memory));
        }
        Ok(())
    }

    /// Makes a run of an item that is too large for a buffer.
    pub fn add_large(&self, item: &Item<'_>) -> Result<()> {
        let memory = self.memory(item::bytes_max(item.record.len()))?;
        self.add(MemoryRun::of_one(&self.order, item, memory));
        Ok(())
    }

    fn add(&self, run: MemoryRun) {
        let mut state = lock(&self.state);
        state.rows += run.items();
        state.sealed.push(run);
    }

    /// Memory for a run of so many bytes, which counts from now on, and its samples with it.
    fn memory(&self, bytes: usize) -> Result<Arena> {
        let granule = if bytes < GRANULE_BYTES * GRANULES_MIN { 1 } else { GRANULE_BYTES };
        let bytes = bytes.next_multiple_of(granule);
        {
            let mut state = lock(&self.state);
            let fits = |spare: &Arena| (bytes..=bytes + bytes / 8).contains(&spare.len());
            if let Some(at) = state.spare.iter().position(fits) {
                return Ok(state.spare.swap_remove(at));
            }
        }
        self.reserve(MemoryRun::memory_bytes_max(bytes))?;
        Ok(Arena::to_fill(bytes))
    }

    /// Counts `bytes` as held, when there is room for them. Runs are spilled for that.
    fn reserve(&self, bytes: usize) -> Result<()> {
        let mut state = lock(&self.state);
        loop {
            let has_room = state.held_bytes + bytes <= self.limits.runs_bytes;
            if !has_room && let Some(spare) = state.spare.pop() {
                state.held_bytes -= MemoryRun::memory_bytes_max(spare.len());
                continue;
            }
            // With nothing to spill and no spill under way, the limit must be exceeded (invariant 1).
            if has_room || (state.sealed.is_empty() && state.spilling == 0) {
                state.held_bytes += bytes;
                return Ok(());
            }
            if state.sealed.is_empty() {
                state = self.freed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
                continue;
            }
            drop(state);
            self.spill_share(bytes)?;
            state = lock(&self.state);
        }
    }

    /// Keeps the memory of a run for another run, or frees it: samples may need it.
    fn keep(&self, state: &mut State, memory: Arena) {
        if state.held_bytes <= self.limits.runs_bytes {
            state.spare.push(memory);
        } else {
            state.held_bytes -= MemoryRun::memory_bytes_max(memory.len());
        }
    }

    /// Makes room for partitions after a thread has pushed its last item, if runs have gone to
    /// disk and the sealed runs in memory take too much.
    pub fn settle(&self) -> Result<()> {
        loop {
            let state = lock(&self.state);
            let sealed_bytes: usize = state.sealed.iter().map(MemoryRun::memory_bytes).sum();
            if state.file.is_none() || sealed_bytes <= self.limits.runs_bytes_beside_partitions {
                return Ok(());
            }
            drop(state);
            self.spill_share(0)?;
        }
    }

    /// Makes the pool spill to `file` instead of a file of its own.
    #[cfg(test)]
    pub fn spill_to(&self, file: SpillFile) {
        lock(&self.state).file = Some(Arc::new(file));
    }

    /// The memory that counts at the moment.
    #[cfg(test)]
    pub fn held_bytes(&self) -> usize {
        lock(&self.state).held_bytes
    }

    /// The pool's state, when all threads are done.
    pub fn into_state(self) -> State {
        let mut state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.spare = Vec::new();
        state
    }

    /// Merges a thread's share of the sealed runs, and `bytes` of them at
    /// least, into one on disk.
    fn spill_share(&self, bytes: usize) -> Result<()> {
        let (spilling, file, runs, sample_step) = {
            let mut state = lock(&self.state);
            let mut taken_bytes = 0;
            let wanted_bytes = self.limits.spill_bytes.max(bytes).max(1);
            let taken = state.sealed.iter().take_while(|run| {
                let goes_on = taken_bytes < wanted_bytes;
                taken_bytes += run.memory_bytes();
                goes_on
            });
            let taken = taken.count();
            if taken == 0 {
                return Ok(());
            }
            let file = match &state.file {
                Some(file) => Arc::clone(file),
                None => Arc::new(SpillFile::new(&self.options.folder, self.options.make_file)?),
            };
            state.file = Some(Arc::clone(&file));
            let runs: Vec<MemoryRun> = state.sealed.drain(..taken).collect();
            let sample_step = file.bytes() / self.limits.samples_max;
            state.spilling += 1;
            (Spilling(self), file, runs, sample_step)
        };
        let run = self.write(&file, &runs, sample_step)?;
        let mut state = lock(&self.state);
        state.held_bytes += run.samples().bytes();
        state.spilled.push(run);
        for run in runs {
            self.keep(&mut state, run.into_memory());
        }
        drop(state);
        drop(spilling);
        Ok(())
    }

    /// Writes the items of `runs` in their order, part by part, so that the
    /// merge stays in the processor's cache.
    fn write(&self, file: &SpillFile, runs: &[MemoryRun], sample_step: u64) -> Result<SpilledRun> {
        let planner = Planner {
            order: &self.order,
            runs,
            spilled: &[],
            file: None,
            candidates_bytes_max: self.limits.spill_candidates_bytes,
        };
        let run_bytes: usize = runs.iter().map(|run| run.bytes().len()).sum();
        let items = runs.iter().map(MemoryRun::items).sum();
        let part_bytes = self.limits.partition_bytes_of(run_bytes as u64, items, runs.len() as u64);
        let dividers = planner.dividers(part_bytes)?;
        let mut writer =
            RunWriter::new(file, run_bytes as u64, self.limits.write_bytes, sample_step);
        let mut slots = Vec::new();
        let (mut spare, mut lower) = (Vec::new(), None);
        for upper in dividers.iter().map(Some).chain([None]) {
            slots.clear();
            let between = Between { order: &self.order, lower, upper };
            merge_runs(&between, runs, &mut slots, &mut spare)?;
            for_each_merged(runs, &slots, |prefix, bytes| writer.push(prefix, bytes))?;
            lower = upper;
        }
        writer.finish()
    }
}

/// A spill under way. The waiting threads are woken at its end, also if it fails (invariant 2).
struct Spilling<'p>(&'p Pool);

impl Drop for Spilling<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).spilling -= 1;
        self.0.freed.notify_all();
    }
}
