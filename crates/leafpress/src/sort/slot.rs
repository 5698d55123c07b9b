//! A slot: it stands for an item while items are sorted.
//!
//! Must never: know the order. It has the prefix of the item's key; `order.rs` says what that decides.

/// One item, as it is sorted.
///
/// The prefix in two halves: a `u128` would be aligned to 16 bytes, and a slot
/// be a third larger.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub high: u64,
    pub low: u64,
    /// The place of the item's bytes, in a numbering that the holder of the slot chooses.
    pub place: u64,
}

/// Memory that one slot takes.
pub const SLOT_BYTES: usize = size_of::<Slot>();

impl Slot {
    #[inline]
    pub fn new(prefix: u128, place: u64) -> Self {
        Self { high: (prefix >> 64) as u64, low: prefix as u64, place }
    }

    #[inline]
    pub fn prefix(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }
}
