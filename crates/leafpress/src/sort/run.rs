//! A run: items in memory, in small groups.
//!
//! The keys of a group are smaller than those of the next group; in a group the items are in any
//! order. A partition sorts its items of all runs itself; it only has to find its items in each run.
//! Groups suffice for that, and take half the time of sorting.
//!
//! A thread fills a [`RunBuffer`] with items in any order. When it is full, its slots are grouped
//! and the items are copied in that order to a [`MemoryRun`], which has memory for just them. The
//! buffer is small enough to stay in the processor's cache from the first item to the last copy,
//! and it is filled again after that. So what grows with the rows is the bytes of the items alone,
//! written once and read once, both in order.

use super::arena::Arena;
use super::item::{self, Item};
use super::order::{Between, FETCHED_ITEMS, Order, sort_slots};
use super::radix::group_by_prefix;
use super::samples::{Sampler, Samples};
use super::slot::{SLOT_BYTES, Slot};
use crate::error::Result;
use crate::vfs::fetch::fetch_ahead;

/// A slot, as much again for sorting, and the index of a group.
const SLOT_BYTES_SORTED: usize = 2 * SLOT_BYTES + size_of::<usize>();

/// Distance from one sample of a run to the next. So many bytes are read needlessly at each end
/// of a partition's stretch of a run.
const SAMPLE_STEP_BYTES: u64 = 2 << 10;

/// A cache line.
const LINE_BYTES: usize = 64;

/// Items of up to so many bytes are copied as if they had as many.
const COPIED_AT_ONCE: usize = 48;

/// Items of one thread, which are to become a run.
#[derive(Debug)]
pub struct RunBuffer {
    bytes: Arena,
    used: usize,
    slots: Vec<Slot>,
    /// Memory for sorting the slots.
    spare: Vec<Slot>,
    /// Indices of the slots that begin groups.
    starts: Vec<usize>,
    /// Memory that items and slots may take together.
    limit_bytes: usize,
    /// True if each record's last column is the rowid.
    ends_in_rowid: bool,
}

impl RunBuffer {
    /// Room for `limit_bytes` of items and their slots. `ends_in_rowid`: each record's last column
    /// is the rowid.
    pub fn new(limit_bytes: usize, ends_in_rowid: bool) -> Self {
        let (slots, spare, starts) = (Vec::new(), Vec::new(), Vec::new());
        let bytes = Arena::to_reuse(limit_bytes);
        Self { bytes, used: 0, slots, spare, starts, limit_bytes, ends_in_rowid }
    }

    /// Smallest size of a buffer into which an item with a record of `record_bytes` fits.
    pub fn bytes_for(record_bytes: usize) -> usize {
        item::bytes_max(record_bytes) + SLOT_BYTES_SORTED
    }

    #[inline]
    fn has_room(&self, record_bytes: usize) -> bool {
        let used_bytes = self.used + self.slots.len() * SLOT_BYTES_SORTED;
        used_bytes + Self::bytes_for(record_bytes) <= self.limit_bytes
    }

    /// Appends an item, unless there is no room for it.
    #[inline]
    pub fn push(&mut self, order: &Order, item: &Item<'_>) -> bool {
        if !self.has_room(item.record.len()) {
            return false;
        }
        self.slots.push(Slot::new(order.prefix(item), self.used as u64));
        self.used = item::write(&mut self.bytes, self.used, item);
        true
    }

    /// Appends an item whose record `make` writes, of at most `bytes_max` bytes, unless there is no
    /// room for it or the record does not end in the rowid.
    #[inline]
    pub fn push_in_place(
        &mut self,
        order: &Order,
        (sequence, rowid): (u64, i64),
        bytes_max: usize,
        make: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        if !self.ends_in_rowid || !self.has_room(bytes_max) {
            return false;
        }
        let record_at = self.used + item::ENTRY_HEADER_BYTES;
        let record_bytes = make(&mut self.bytes[record_at..]);
        let item = Item { sequence, rowid, record: &self.bytes[record_at..] };
        self.slots.push(Slot::new(order.prefix(&item), self.used as u64));
        self.used = item::end_entry(&mut self.bytes, self.used, (sequence, rowid), record_bytes);
        true
    }

    /// The bytes of its items.
    pub fn item_bytes(&self) -> usize {
        self.used
    }

    /// Moves its items, group by group, to a run in `memory`.
    pub fn seal(&mut self, order: &Order, memory: Arena) -> MemoryRun {
        let Self { slots, spare, starts, .. } = self;
        let items = &self.bytes[..self.used];
        starts.clear();
        // Slots that are in order, as of keys that ascend, need no groups.
        let in_groups =
            !slots.is_sorted_by_key(Slot::prefix) && group_by_prefix(slots, spare, starts);
        if !in_groups {
            sort_slots(order, slots, spare, &|place| item_at(items, place));
            starts.clear();
            starts.extend(0..slots.len());
        }
        let mut run = RunFiller::new(memory);
        let mut starts = starts.iter().peekable();
        for (index, slot) in slots.iter().enumerate() {
            if let Some(ahead) = slots.get(index + FETCHED_ITEMS) {
                fetch_item(items, ahead.place as usize);
            }
            if starts.next_if(|start| **start == index).is_some() {
                let end = starts.peek().map_or(slots.len(), |next| **next);
                run.begin_group(&slots[index..end]);
            }
            run.push(&items[slot.place as usize..]);
        }
        let run = run.finish(self.slots.len(), !in_groups);
        self.used = 0;
        self.slots.clear();
        run
    }
}

/// Copies items, which come group by group, to a run.
struct RunFiller {
    bytes: Arena,
    used: usize,
    sampler: Sampler,
}

impl RunFiller {
    fn new(bytes: Arena) -> Self {
        Self { bytes, used: 0, sampler: Sampler::new(0, SAMPLE_STEP_BYTES) }
    }

    /// Begins the group of these slots.
    #[inline]
    fn begin_group(&mut self, slots: &[Slot]) {
        let smallest = || slots.iter().map(Slot::prefix).min().unwrap_or(0);
        self.sampler.push(smallest, self.used as u64);
    }

    /// Copies the item that `bytes` begin with.
    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let length = item::record_place(bytes).map_or(0, |place| place.end);
        let room = &mut self.bytes[self.used..];
        // A copy of fixed length is no call. The next item overwrites what is too much.
        match (room.first_chunk_mut::<COPIED_AT_ONCE>(), bytes.first_chunk::<COPIED_AT_ONCE>()) {
            (Some(room), Some(bytes)) if length <= COPIED_AT_ONCE => *room = *bytes,
            _ => room[..length].copy_from_slice(&bytes[..length]),
        }
        self.used += length;
    }

    fn finish(self, items: usize, is_in_order: bool) -> MemoryRun {
        let Self { bytes, used, sampler } = self;
        let samples = sampler.finish(used as u64);
        MemoryRun { bytes, used, samples, items: items as u64, is_in_order }
    }
}

/// A sealed run.
#[derive(Debug)]
pub struct MemoryRun {
    bytes: Arena,
    used: usize,
    samples: Samples,
    items: u64,
    /// True if each group is one item, and several may have one prefix.
    is_in_order: bool,
}

impl MemoryRun {
    /// A run of one item, for which `memory` has room.
    pub fn of_one(order: &Order, item: &Item<'_>, mut memory: Arena) -> Self {
        let used = item::write(&mut memory, 0, item);
        let mut sampler = Sampler::new(0, SAMPLE_STEP_BYTES);
        sampler.push(|| order.prefix(item), 0);
        let filled = sampler.finish(used as u64);
        Self { bytes: memory, used, samples: filled, items: 1, is_in_order: true }
    }

    /// The bytes of all items, group by group.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    #[inline]
    pub fn item(&self, place: u64) -> Item<'_> {
        item_at(self.bytes(), place)
    }

    /// The memory that counts for a run of so many bytes, at most.
    pub fn memory_bytes_max(bytes: usize) -> usize {
        bytes + Sampler::bytes_max(bytes as u64, SAMPLE_STEP_BYTES)
    }

    /// The memory that counts for it.
    pub fn memory_bytes(&self) -> usize {
        Self::memory_bytes_max(self.bytes.len())
    }

    /// Its memory, for another run.
    pub fn into_memory(self) -> Arena {
        self.bytes
    }

    /// Calls `take` with the prefix and the place of each item between two keys.
    pub fn items_between(
        &self,
        between: &Between<'_>,
        mut take: impl FnMut(u128, u64),
    ) -> Result<()> {
        let stretch = if self.is_in_order {
            self.samples.stretch(between, |sample, divider| {
                let record = || self.item(sample.place).record;
                Ok(between.order.is_before(sample.prefix(), record, divider))
            })?
        } else {
            self.samples.stretch_of_groups(between)
        };
        let mut at = stretch.start;
        while at < stretch.end {
            let rest = &self.bytes()[at as usize..];
            let Some((prefix, place)) = between.order.prefix_at(rest) else {
                debug_assert!(false, "a run in memory has just items");
                break;
            };
            let record = || &rest[place.clone()];
            if !between.is_before(prefix, record) && !between.is_behind(prefix, record) {
                take(prefix, at);
            }
            at += place.end as u64;
        }
        Ok(())
    }
}

/// Has the processor fetch the first cache lines of the item that begins at `at`.
#[inline]
pub fn fetch_item(bytes: &[u8], at: usize) {
    for line in 0..3 {
        fetch_ahead(bytes, at + line * LINE_BYTES);
    }
}

/// The item at `place`; an empty one if none was written there, which cannot happen.
#[inline]
pub fn item_at(bytes: &[u8], place: u64) -> Item<'_> {
    let found = bytes.get(place as usize..).and_then(item::read);
    found.map_or(Item { sequence: 0, rowid: 0, record: &[] }, |(item, _)| item)
}

#[cfg(test)]
mod tests {
    use leafpress_format::{KeyColumn, Value, record};

    use super::*;
    use crate::sort::SortKey;

    /// A run of texts: about seven begin alike for longer than a prefix is.
    fn run_of_texts(order: &Order, count: u64) -> MemoryRun {
        let mut buffer = RunBuffer::new(4 << 20, false);
        for sequence in 0..count {
            let number = sequence * 7919 % count;
            let text = format!("{:04} and some more {number:05}", number % 700);
            let record = record(&[Value::Text(text.as_bytes())]);
            assert!(buffer.push(order, &Item { sequence, rowid: 0, record: &record }));
        }
        let memory = Arena::to_fill(buffer.item_bytes());
        buffer.seal(order, memory)
    }

    #[test]
    fn all_items_between_two_keys_are_found_in_groups() {
        let order = Order::new(SortKey::Columns(vec![KeyColumn::default()]));
        let run = run_of_texts(&order, 5_000);
        assert!(!run.is_in_order && run.samples().iter().count() > 50);
        let everything = Between { order: &order, lower: None, upper: None };
        let mut all = Vec::new();
        run.items_between(&everything, |_, at| all.push(at)).unwrap();
        assert_eq!(all.len(), 5_000);
        let divider = |&at: &u64| {
            let item = run.item(at);
            order.divider(order.prefix(&item), item.record)
        };
        let dividers: Vec<_> = all.iter().step_by(211).map(divider).collect();
        let ends = || dividers.iter().map(Some).chain([None]);
        for (lower, upper) in ends().flat_map(|lower| ends().map(move |upper| (lower, upper))) {
            let between = Between { order: &order, lower, upper };
            let mut found = Vec::new();
            run.items_between(&between, |_, at| found.push(at)).unwrap();
            let is_inside = |at: &u64| {
                let item = run.item(*at);
                let prefix = order.prefix(&item);
                !between.is_before(prefix, || item.record)
                    && !between.is_behind(prefix, || item.record)
            };
            let expected: Vec<u64> = all.iter().copied().filter(is_inside).collect();
            assert_eq!(found, expected);
        }
    }
}
