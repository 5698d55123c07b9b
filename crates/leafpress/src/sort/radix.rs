//! Slots sorted by their prefixes alone, by distributing them.
//!
//! Comparing slots costs a branch that the processor cannot foresee for each level of a sort. So
//! slots are first dealt to many buckets, by the highest bits in which their prefixes differ. Of
//! keys that are spread evenly a bucket gets a few, which are then compared.
//!
//! Must never: take more than a few passes, whatever the keys are. A bucket that still has many
//! slots after [`PASSES_MAX`] passes is sorted by comparing.

use super::slot::Slot;

/// Fewer slots than this are sorted by comparing: it is as fast.
const DISTRIBUTED_SLOTS_MIN: usize = 48;

/// Slots that come in no more ascending stretches than this are merged.
const STRETCHES_MAX: usize = 8;

/// Number of times that a slot is dealt to a bucket at most.
const PASSES_MAX: u32 = 5;

/// Number of slots that a bucket should get, as a power of two.
const SLOTS_PER_BUCKET_BITS: u32 = 3;

/// A larger group would make a partition read many items that are not its own.
const GROUP_SLOTS_MAX: usize = 256;

/// More buckets than these would not stay in the processor's first cache, with the slots that
/// are added to them.
const BUCKET_BITS_MAX: u32 = 11;

const FEW_BUCKETS_BITS: u32 = 5;

/// Sorts `slots` by their prefixes. `spare` is memory for as many slots, to use again.
pub fn sort_by_prefix(slots: &mut [Slot], spare: &mut Vec<Slot>) {
    let descents = slots.windows(2).filter(|pair| pair[0].prefix() > pair[1].prefix()).count();
    if descents < STRETCHES_MAX {
        if descents > 0 {
            slots.sort_by_key(Slot::prefix);
        }
        return;
    }
    distribute(slots, make_room(spare, slots.len()), PASSES_MAX, &mut |bucket| {
        bucket.sort_by_key(Slot::prefix);
    });
}

/// Puts `slots` in the order of small groups: each has smaller prefixes than the next, and is in no
/// order itself. Adds the index of each group's first slot to `starts`, which is empty. Returns
/// false if a group would be large, as many prefixes are equal.
pub fn group_by_prefix(slots: &mut [Slot], spare: &mut Vec<Slot>, starts: &mut Vec<usize>) -> bool {
    let (mut end, mut largest) = (0, 0);
    distribute(slots, make_room(spare, slots.len()), PASSES_MAX, &mut |bucket| {
        starts.push(end);
        end += bucket.len();
        largest = largest.max(bucket.len());
    });
    largest <= GROUP_SLOTS_MAX
}

fn make_room(spare: &mut Vec<Slot>, slots: usize) -> &mut [Slot] {
    if spare.len() < slots {
        spare.resize(slots, Slot::new(0, 0));
    }
    spare
}

/// Deals slots to buckets, each of smaller prefixes than the next, and calls `end` with each bucket
/// that is not to be dealt further, in order.
fn distribute(
    slots: &mut [Slot],
    spare: &mut [Slot],
    passes_left: u32,
    end: &mut impl FnMut(&mut [Slot]),
) {
    if slots.len() < DISTRIBUTED_SLOTS_MIN || passes_left == 0 {
        end(slots);
        return;
    }
    // One half of the prefixes: that is half the work, and mostly the first half decides.
    let (smallest, largest) = extent(slots, |slot| slot.high);
    if smallest < largest {
        deal(slots, spare, (|slot| slot.high, smallest, largest), passes_left, end);
        return;
    }
    let (smallest, largest) = extent(slots, |slot| slot.low);
    if smallest < largest {
        deal(slots, spare, (|slot| slot.low, smallest, largest), passes_left, end);
    } else {
        end(slots);
    }
}

/// The smallest and the largest of one half of the prefixes.
#[inline]
fn extent(slots: &[Slot], half: impl Fn(&Slot) -> u64) -> (u64, u64) {
    slots
        .iter()
        .map(half)
        .fold((u64::MAX, 0), |(smallest, largest), half| (smallest.min(half), largest.max(half)))
}

/// Deals slots to buckets by one half of their prefixes, which is from `smallest` to `largest`.
#[inline]
fn deal(
    slots: &mut [Slot],
    spare: &mut [Slot],
    (half, smallest, largest): (impl Fn(&Slot) -> u64, u64, u64),
    passes_left: u32,
    end: &mut impl FnMut(&mut [Slot]),
) {
    let bits = (slots.len().ilog2() - SLOTS_PER_BUCKET_BITS).min(BUCKET_BITS_MAX);
    let bits_used = u64::BITS - (largest - smallest).leading_zeros();
    let shift = bits_used.saturating_sub(bits);
    let bucket_of = |slot: &Slot| ((half(slot) - smallest) >> shift) as usize;

    // Most calls are for a few slots, and to clear room for many buckets would take longer than to
    // deal these.
    let (mut of_few, mut of_many);
    let ends = if bits <= FEW_BUCKETS_BITS {
        of_few = [0_u32; 1 << FEW_BUCKETS_BITS];
        &mut of_few[..1 << bits]
    } else {
        of_many = [0_u32; 1 << BUCKET_BITS_MAX];
        &mut of_many[..1 << bits]
    };
    for slot in slots.iter() {
        ends[bucket_of(slot)] += 1;
    }
    let mut start = 0;
    for bucket_end in ends.iter_mut() {
        start += std::mem::replace(bucket_end, start);
    }
    let spare = &mut spare[..slots.len()];
    for slot in slots.iter() {
        let bucket_end = &mut ends[bucket_of(slot)];
        spare[*bucket_end as usize] = *slot;
        *bucket_end += 1;
    }
    let mut start = 0;
    for &bucket_end in ends.iter() {
        let bucket = start..bucket_end as usize;
        start = bucket.end;
        if !bucket.is_empty() {
            let slots = &mut slots[bucket.clone()];
            slots.copy_from_slice(&spare[bucket.clone()]);
            distribute(slots, &mut spare[bucket], passes_left - 1, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn check(prefixes: &[u128]) {
        let mut slots: Vec<Slot> =
            prefixes.iter().zip(0..).map(|(&prefix, place)| Slot::new(prefix, place)).collect();
        let mut expected: Vec<(u128, u64)> =
            slots.iter().map(|slot| (slot.prefix(), slot.place)).collect();
        expected.sort_by_key(|&(prefix, _)| prefix);
        sort_by_prefix(&mut slots, &mut Vec::new());
        let found: Vec<(u128, u64)> =
            slots.iter().map(|slot| (slot.prefix(), slot.place)).collect();
        assert_eq!(found, expected);
        check_groups(prefixes);
    }

    fn check_groups(prefixes: &[u128]) {
        let mut slots: Vec<Slot> =
            prefixes.iter().zip(0..).map(|(&prefix, place)| Slot::new(prefix, place)).collect();
        let mut starts = Vec::new();
        let are_small = group_by_prefix(&mut slots, &mut Vec::new(), &mut starts);
        let mut places: Vec<u64> = slots.iter().map(|slot| slot.place).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..prefixes.len() as u64));
        let ends = starts.iter().skip(1).copied().chain([slots.len()]);
        let groups: Vec<&[Slot]> =
            starts.iter().zip(ends).map(|(&start, end)| &slots[start..end]).collect();
        assert_eq!(groups.iter().map(|group| group.len()).sum::<usize>(), slots.len());
        assert_eq!(are_small, groups.iter().all(|group| group.len() <= GROUP_SLOTS_MAX));
        for pair in groups.windows(2) {
            let largest = pair[0].iter().map(Slot::prefix).max();
            assert!(largest < pair[1].iter().map(Slot::prefix).min());
        }
    }

    #[test]
    fn skewed_prefixes_are_sorted() {
        let count = 5_000_u128;
        check(&(0..count).collect::<Vec<_>>());
        check(&(0..count).rev().collect::<Vec<_>>());
        check(&vec![7; count as usize]);
        // Two clusters, far apart, and each power of two many times.
        check(&(0..count).map(|n| (n * 7919 % 1000) + ((n & 1) << 100)).collect::<Vec<_>>());
        check(&(0..count).map(|n| 1 << (n * 7919 % 128)).collect::<Vec<_>>());
        check(&(0..count).map(|n| ((n * 7919 % 5) << 126) + n % 3).collect::<Vec<_>>());
        check(&(0..count).map(|n| u128::MAX - (n * 7919 % 4999)).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn any_prefixes_are_sorted(
            prefixes in prop::collection::vec(any::<u128>(), 0..3_000),
            shift in select(vec![0_u32, 60, 64, 100, 120, 127]), left in any::<bool>(),
        ) {
            let shifted: Vec<u128> = prefixes
                .iter()
                .map(|&prefix| if left { prefix << shift } else { prefix >> shift })
                .collect();
            check(&shifted);
        }
    }
}
