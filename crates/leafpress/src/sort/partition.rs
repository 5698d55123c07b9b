//! Partitions: what lies between two dividers in all runs, merged.
//!
//! A partition's items are read in a stretch of each run, which is in order already. Their slots
//! are gathered on the way and sorted. Items in memory stay where they are, items on disk are read
//! into the partition's buffer.
//!
//! Items are then visited in an order that is random in memory. They are in the cache, if not in
//! its first level, so the processor is told of each some time before it is due.

use std::sync::Arc;

use super::contents::Contents;
use super::item::{self, Item};
use super::order::{Between, Divider, FETCHED_ITEMS, sort_slots};
use super::run::{MemoryRun, fetch_item, item_at};
use super::slot::Slot;
use super::spill::{SpillFile, SpilledRun};
use crate::error::Result;

/// Low bits of a place that hold the offset in a run; the bits above them hold the run's
/// number.
const OFFSET_BITS: u32 = 40;

/// The run that stands for the partition's buffer.
const BUFFER_RUN: u64 = u64::MAX >> OFFSET_BITS;

fn place(run: u64, offset: u64) -> u64 {
    run << OFFSET_BITS | offset
}

fn run_and_offset(place: u64) -> (u64, u64) {
    (place >> OFFSET_BITS, place & ((1 << OFFSET_BITS) - 1))
}

/// Appends to `slots` those of the items in memory between two keys.
fn gather(between: &Between<'_>, runs: &[MemoryRun], slots: &mut Vec<Slot>) -> Result<()> {
    runs.iter().zip(0..).try_for_each(|(run, number)| {
        run.items_between(between, |prefix, at| slots.push(Slot::new(prefix, place(number, at))))
    })
}

/// The bytes that hold a slot's item, and where it begins in them.
#[inline]
fn locate<'b>(runs: &'b [MemoryRun], buffer: &'b [u8], place: u64) -> (&'b [u8], usize) {
    let (run, offset) = run_and_offset(place);
    (runs.get(run as usize).map_or(buffer, MemoryRun::bytes), offset as usize)
}

/// Has the processor fetch the item of the slot at `index`, if there is one.
#[inline]
fn fetch(runs: &[MemoryRun], buffer: &[u8], slots: &[Slot], index: usize) {
    if let Some(slot) = slots.get(index) {
        let (bytes, at) = locate(runs, buffer, slot.place);
        fetch_item(bytes, at);
    }
}

/// Fills `slots` with those of the items between two keys, in order.
pub fn merge_runs(
    between: &Between<'_>,
    runs: &[MemoryRun],
    slots: &mut Vec<Slot>,
    spare: &mut Vec<Slot>,
) -> Result<()> {
    slots.clear();
    gather(between, runs, slots)?;
    sort_slots(between.order, slots, spare, &|place| {
        let (bytes, at) = locate(runs, &[], place);
        item_at(bytes, at as u64)
    });
    Ok(())
}

/// Calls `visit` with the prefix and the bytes of each item.
pub fn for_each_merged<E>(
    runs: &[MemoryRun],
    slots: &[Slot],
    mut visit: impl FnMut(u128, &[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    for (index, slot) in slots.iter().enumerate() {
        fetch(runs, &[], slots, index + FETCHED_ITEMS);
        let (bytes, at) = locate(runs, &[], slot.place);
        let rest = &bytes[at..];
        let length = item::record_place(rest).map_or(0, |place| place.end);
        visit(slot.prefix(), &rest[..length])?;
    }
    Ok(())
}

/// An item of a partition, in key order.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'e> {
    /// The ordinal that it was pushed with.
    pub sequence: u64,
    /// The rowid that it was pushed with.
    pub rowid: i64,
    /// Its record.
    pub record: &'e [u8],
    /// True if the entry has the key of the entry before it. Entries of one key are in the
    /// order of their sequences, and never in two partitions.
    pub repeats_key: bool,
}

/// The items between two keys, to use again for another partition.
#[derive(Debug, Default)]
pub struct Partition {
    slots: Vec<Slot>,
    /// Memory for sorting them.
    spare: Vec<Slot>,
    /// The items read from disk, at its beginning; the buffer may be longer than they are.
    buffer: Vec<u8>,
    /// The runs that the slots point into; `None` before the first load and after an error.
    contents: Option<Arc<Contents>>,
}

impl Partition {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The entries, in key order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        Entries {
            contents: self.contents.as_deref(),
            buffer: &self.buffer,
            slots: &self.slots,
            next: 0,
            previous: None,
        }
    }

    /// Fills it with the items between two keys.
    ///
    /// After an error it is empty.
    pub(super) fn fill(
        &mut self,
        contents: &Arc<Contents>,
        lower: Option<&Divider>,
        upper: Option<&Divider>,
    ) -> Result<()> {
        self.slots.clear();
        self.contents = None;
        let (order, runs) = (&contents.order, contents.runs.as_slice());
        let between = Between { order, lower, upper };
        gather(&between, runs, &mut self.slots)?;
        if let Some(file) = &contents.file {
            let outcome = self.read(file, &contents.spilled, &between);
            outcome.inspect_err(|_| self.slots.clear())?;
        }
        let buffer = self.buffer.as_slice();
        sort_slots(order, &mut self.slots, &mut self.spare, &|place| {
            let (bytes, at) = locate(runs, buffer, place);
            item_at(bytes, at as u64)
        });
        self.contents = Some(Arc::clone(contents));
        Ok(())
    }

    /// Reads what is on disk.
    fn read(&mut self, file: &SpillFile, runs: &[SpilledRun], between: &Between<'_>) -> Result<()> {
        let Self { slots, buffer, .. } = self;
        let mut filled = 0;
        for run in runs {
            let stretch = run.stretch(file, between)?;
            filled = file.read_stretch(stretch, buffer, filled, between, |prefix, at| {
                slots.push(Slot::new(prefix, place(BUFFER_RUN, at as u64)));
            })?;
        }
        Ok(())
    }
}

/// The entries of a partition.
struct Entries<'p> {
    contents: Option<&'p Contents>,
    buffer: &'p [u8],
    slots: &'p [Slot],
    next: usize,
    previous: Option<(u128, &'p [u8])>,
}

impl<'p> Iterator for Entries<'p> {
    type Item = Entry<'p>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'p>> {
        let slot = self.slots.get(self.next)?;
        let Contents { order, runs, .. } = self.contents?;
        fetch(runs, self.buffer, self.slots, self.next + FETCHED_ITEMS);
        self.next += 1;
        let (bytes, at) = locate(runs, self.buffer, slot.place);
        let Item { sequence, rowid, record } = item_at(bytes, at as u64);
        let current = (slot.prefix(), record);
        let repeats_key =
            self.previous.is_some_and(|previous| order.is_same_key(previous, current));
        self.previous = Some(current);
        Some(Entry { sequence, rowid, record, repeats_key })
    }
}
