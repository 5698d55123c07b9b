//! A run: items in memory, and the slots that order them.
//!
//! A run is filled by one thread, sealed, which sorts its slots and leaves the
//! items where they are, and then only read.

use super::arena::Arena;
use super::item::{self, Item};
use super::order::{Between, Order, SLOT_BYTES, Slot, sort_slots};

/// Memory for a run, used again for another run when this one's items are on disk.
#[derive(Debug)]
pub struct RunBuffer {
    bytes: Arena,
    used: usize,
    slots: Vec<Slot>,
    /// Memory for sorting them.
    spare: Vec<Slot>,
    /// Memory that items and slots may take together.
    limit_bytes: usize,
}

impl RunBuffer {
    /// Room for `limit_bytes` of items and their slots.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            bytes: Arena::new(limit_bytes),
            used: 0,
            slots: Vec::new(),
            spare: Vec::new(),
            limit_bytes,
        }
    }

    /// The memory that counts for it.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The memory that is really in use.
    pub fn used_bytes(&self) -> usize {
        self.used + self.slots.len() * SLOT_BYTES
    }

    /// Smallest size of a buffer that an item with this record fits.
    pub fn bytes_for(record: &[u8]) -> usize {
        item::bytes_max(record) + SLOT_BYTES
    }

    /// Appends an item, unless there is no room for it.
    #[inline]
    pub fn push(&mut self, order: &Order, item: &Item<'_>) -> bool {
        if self.used_bytes() + Self::bytes_for(item.record) > self.limit_bytes {
            return false;
        }
        self.slots.push(Slot::new(order.prefix(item), self.used as u64));
        self.used = item::write(&mut self.bytes, self.used, item.sequence, item.rowid, item.record);
        true
    }

    /// Forgets the items and keeps the memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.slots.clear();
    }

    /// Sorts the slots; nothing can be appended any more.
    pub fn seal(mut self, order: &Order) -> MemoryRun {
        let items = &self.bytes[..self.used];
        sort_slots(order, &mut self.slots, &mut std::mem::take(&mut self.spare), &|place| {
            item_at(items, place)
        });
        MemoryRun { buffer: self }
    }
}

/// A sealed run.
#[derive(Debug)]
pub struct MemoryRun {
    buffer: RunBuffer,
}

impl MemoryRun {
    /// Its slots, in order; their places are offsets for [`item`](Self::item).
    pub fn slots(&self) -> &[Slot] {
        &self.buffer.slots
    }

    /// The bytes of all items.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes[..self.buffer.used]
    }

    #[inline]
    pub fn item(&self, place: u64) -> Item<'_> {
        item_at(self.bytes(), place)
    }

    /// The memory that is really in use.
    pub fn used_bytes(&self) -> usize {
        self.buffer.used_bytes()
    }

    /// The memory that counts for it.
    pub fn limit_bytes(&self) -> usize {
        self.buffer.limit_bytes
    }

    /// Its memory, for another run.
    pub fn into_buffer(self) -> RunBuffer {
        self.buffer
    }

    /// The slots of the items between two keys.
    pub fn slots_between(&self, between: &Between<'_>) -> &[Slot] {
        let slots = self.slots();
        let start = slots.partition_point(|slot| {
            between.is_before(slot.prefix(), || self.item(slot.place).record)
        });
        let rest = &slots[start..];
        let count = rest.partition_point(|slot| {
            !between.is_behind(slot.prefix(), || self.item(slot.place).record)
        });
        &rest[..count]
    }
}

/// The item at `place`. An empty one stands for what cannot be: a place where
/// none was written.
#[inline]
pub fn item_at(bytes: &[u8], place: u64) -> Item<'_> {
    let found = bytes.get(place as usize..).and_then(item::read);
    found.map_or(Item { sequence: 0, rowid: 0, record: &[] }, |(item, _)| item)
}
