//! The order that items are sorted in.
//!
//! Items come in the order of their keys, those of one key in the order of
//! their sequences. A [`Slot`] stands for an item: the prefix of the item's key decides most
//! comparisons. The slot also has the place of the item's bytes, and these decide the rest.
//!
//! # Invariants
//!
//! 1. Of two slots with different prefixes, the smaller prefix has the smaller
//!    key. By rowid, the prefix is the key with the sequence behind it.

use std::cmp::Ordering;
use std::ops::Range;

use leafpress_format::{EntryColumn, Projection, compare_records, key_prefix, key_prefix_part};

use super::item::{self, Item};
use super::options::SortKey;
use super::radix::sort_by_prefix;
use super::slot::Slot;

/// Bits of a rowid's prefix that hold the sequence.
const SEQUENCE_BITS: u32 = 64;

/// The order of items by a key.
#[derive(Debug, Clone)]
pub struct Order {
    key: SortKey,
}

impl Order {
    pub fn new(key: SortKey) -> Self {
        Self { key }
    }

    /// The prefix of an item (invariant 1). What is behind the record may be with it: with some bytes
    /// more it takes half the time.
    #[inline]
    pub fn prefix(&self, item: &Item<'_>) -> u128 {
        match &self.key {
            SortKey::Rowid => rowid_prefix(item.rowid) | u128::from(item.sequence),
            SortKey::Columns(columns) => key_prefix(item.record, columns),
        }
    }

    /// The prefix of the item at the start of `bytes`, and the place of its record, with which it ends;
    /// `None` if there is no item, or not all of it.
    #[inline]
    pub fn prefix_at(&self, bytes: &[u8]) -> Option<(u128, Range<usize>)> {
        let place = item::record_place(bytes).filter(|place| place.end <= bytes.len())?;
        let prefix = match &self.key {
            SortKey::Rowid => self.prefix(&item::read(bytes)?.0),
            SortKey::Columns(columns) => key_prefix(&bytes[place.start..], columns),
        };
        Some((prefix, place))
    }

    /// The bytes of the key that follow its prefix, as if that went on; the
    /// prefix itself is part 0.
    fn prefix_part(&self, item: &Item<'_>, part: usize) -> u128 {
        match &self.key {
            SortKey::Rowid => 0,
            SortKey::Columns(columns) => key_prefix_part(item.record, columns, part),
        }
    }

    /// Compares two items that have the same prefix: by the rest of the key, then by the sequence.
    pub fn compare_rest(&self, left: &Item<'_>, right: &Item<'_>) -> Ordering {
        self.compare_rest_of_key(left.record, right.record)
            .then_with(|| left.sequence.cmp(&right.sequence))
    }

    #[inline]
    fn compare_rest_of_key(&self, left: &[u8], right: &[u8]) -> Ordering {
        match &self.key {
            SortKey::Rowid => Ordering::Equal,
            SortKey::Columns(columns) => compare_records(left, right, columns),
        }
    }

    /// Returns true if two items, of which the second follows the first, have the same key.
    #[inline]
    pub fn is_same_key(&self, left: (u128, &[u8]), right: (u128, &[u8])) -> bool {
        match &self.key {
            SortKey::Rowid => left.0 >> SEQUENCE_BITS == right.0 >> SEQUENCE_BITS,
            SortKey::Columns(_) => {
                left.0 == right.0 && self.compare_rest_of_key(left.1, right.1).is_eq()
            }
        }
    }

    /// The key of an item alone, to divide others by.
    pub fn divider(&self, prefix: u128, record: &[u8]) -> Divider {
        match &self.key {
            SortKey::Rowid => {
                let prefix = prefix >> SEQUENCE_BITS << SEQUENCE_BITS;
                Divider { prefix, record: Vec::new() }
            }
            SortKey::Columns(columns) => {
                let columns = (0..columns.len()).map(EntryColumn::Column).collect();
                let mut key = Vec::new();
                Projection::new(columns).append(record, 0, &mut key);
                Divider { prefix, record: key }
            }
        }
    }

    /// Compares two dividers.
    pub fn compare_dividers(&self, left: &Divider, right: &Divider) -> Ordering {
        left.prefix
            .cmp(&right.prefix)
            .then_with(|| self.compare_rest_of_key(&left.record, &right.record))
    }

    /// Returns true if an item's key comes before `divider`. `record` is called only if the
    /// prefixes are equal.
    #[inline]
    pub fn is_before<'r>(
        &self,
        prefix: u128,
        record: impl FnOnce() -> &'r [u8],
        divider: &Divider,
    ) -> bool {
        match prefix.cmp(&divider.prefix) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.compare_rest_of_key(record(), &divider.record).is_lt(),
        }
    }
}

/// A key that divides items: those of smaller keys from all others.
#[derive(Debug, Clone)]
pub struct Divider {
    pub prefix: u128,
    /// The key's columns; nothing if the order is by rowid.
    record: Vec<u8>,
}

impl Divider {
    /// The memory it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.record.len()
    }
}

/// The keys of a partition: from `lower` on, and before `upper`.
#[derive(Debug, Clone, Copy)]
pub struct Between<'d> {
    pub order: &'d Order,
    pub lower: Option<&'d Divider>,
    pub upper: Option<&'d Divider>,
}

impl Between<'_> {
    /// Returns true if the key comes before all keys of the range.
    #[inline]
    pub fn is_before<'r>(&self, prefix: u128, record: impl FnOnce() -> &'r [u8]) -> bool {
        self.lower.is_some_and(|lower| self.order.is_before(prefix, record, lower))
    }

    /// Returns true if the key comes after all keys of the range.
    #[inline]
    pub fn is_behind<'r>(&self, prefix: u128, record: impl FnOnce() -> &'r [u8]) -> bool {
        self.upper.is_some_and(|upper| !self.order.is_before(prefix, record, upper))
    }
}

#[inline]
fn rowid_prefix(rowid: i64) -> u128 {
    u128::from(rowid as u64 ^ 1 << 63) << SEQUENCE_BITS
}

/// Groups of equal prefixes up to this are compared by their records at once.
const COMPARED_ITEMS_MAX: usize = 6;

/// Number of parts of a prefix after which records are compared: the key is long, and each
/// further part would have to find its place in the key again.
const PARTS_MAX: usize = 8;

/// Number of items that the processor is told of before they are due, so that it fetches all of them
/// from memory at once.
pub const FETCHED_ITEMS: usize = 16;

/// Sorts slots whose items `item_of` finds by their places. `spare` is memory for the sort, to use
/// again.
///
/// Items are looked at only if prefixes are equal. If many are equal, as with keys that all begin
/// alike, their slots are sorted by the next part of the prefix. That part is made once for each
/// item, where comparing records would look at two items for each comparison.
pub fn sort_slots<'i>(
    order: &Order,
    slots: &mut [Slot],
    spare: &mut Vec<Slot>,
    item_of: &impl Fn(u64) -> Item<'i>,
) {
    sort_by_prefix(slots, spare);
    sort_groups(order, slots, spare, 1, item_of);
}

/// Sorts each group of slots with equal prefixes by the `part` that follows.
fn sort_groups<'i>(
    order: &Order,
    slots: &mut [Slot],
    spare: &mut Vec<Slot>,
    part: usize,
    item_of: &impl Fn(u64) -> Item<'i>,
) {
    for group in slots.chunk_by_mut(|left, right| left.prefix() == right.prefix()) {
        if group.len() > 1 {
            sort_group(order, group, spare, part, item_of);
        }
    }
}

fn sort_group<'i>(
    order: &Order,
    group: &mut [Slot],
    spare: &mut Vec<Slot>,
    part: usize,
    item_of: &impl Fn(u64) -> Item<'i>,
) {
    let prefix = group[0].prefix();
    // If a part is all zeros the key has ended, or its prefix.
    let goes_on = part < PARTS_MAX && (prefix != 0 || part == 1);
    if group.len() <= COMPARED_ITEMS_MAX || !goes_on {
        group
            .sort_by(|left, right| order.compare_rest(&item_of(left.place), &item_of(right.place)));
        return;
    }
    for slots in group.chunks_mut(FETCHED_ITEMS) {
        let touched = slots.iter().map(|slot| item_of(slot.place).record.first());
        std::hint::black_box(touched.flatten().fold(0, |sum, byte| sum ^ byte));
        for slot in slots {
            *slot = Slot::new(order.prefix_part(&item_of(slot.place), part), slot.place);
        }
    }
    sort_by_prefix(group, spare);
    sort_groups(order, group, spare, part + 1, item_of);
    for slot in group {
        *slot = Slot::new(prefix, slot.place);
    }
}
