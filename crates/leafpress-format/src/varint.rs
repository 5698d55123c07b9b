//! SQLite's variable-length integers, written backwards.
//!
//! ```text
//! bytes 1–8   1xxxxxxx  seven bits each, most significant group first
//! last byte   0xxxxxxx
//! byte 9      xxxxxxxx  all eight bits, if the first eight did not suffice
//! ```
//!
//! Pages fill from their end downwards, and so do records (see `record.rs`): the bytes before a
//! thing are written after it, when its size is known.

/// The longest varint, in bytes.
pub const VARINT_BYTES_MAX: usize = 9;

/// Number of bytes that `value` takes.
///
/// ```
/// assert_eq!(leafpress_format::varint_len(127), 1);
/// assert_eq!(leafpress_format::varint_len(128), 2);
/// assert_eq!(leafpress_format::varint_len(u64::MAX), 9);
/// ```
#[inline]
pub const fn varint_len(value: u64) -> usize {
    if value < 0x80 {
        return 1;
    }
    let bits = 64 - value.leading_zeros() as usize;
    let groups = bits.div_ceil(7);
    if groups > VARINT_BYTES_MAX { VARINT_BYTES_MAX } else { groups }
}

/// Writes `value` so that it ends just before `end`, and returns where it begins.
///
/// # Panics
///
/// If there is no room for it in front of `end`.
#[inline]
pub fn put_varint_before(buf: &mut [u8], end: usize, value: u64) -> usize {
    if value < 0x80 {
        buf[end - 1] = value as u8;
        return end - 1;
    }
    put_long_varint_before(buf, end, value)
}

/// Writes as [`put_varint_before`] does, but may overwrite up to [`VARINT_BYTES_MAX`] bytes in
/// front: without a loop for values below 2^28, as rowids mostly are.
#[inline(always)]
pub(crate) fn put_varint_with_slack_before(buf: &mut [u8], end: usize, value: u64) -> usize {
    if value >> 28 != 0 {
        return put_long_varint_before(buf, end, value);
    }
    let value = value as u32;
    let groups = (value & 0x7f)
        | (value & 0x3f80) << 1
        | (value & 0x1f_c000) << 2
        | (value & 0xfe0_0000) << 3
        | 0x8080_8000;
    buf[end - 4..end].copy_from_slice(&groups.to_be_bytes());
    let more = |limit: u32| usize::from(value >= limit);
    end - 1 - more(1 << 7) - more(1 << 14) - more(1 << 21)
}

#[inline(never)]
fn put_long_varint_before(buf: &mut [u8], end: usize, mut value: u64) -> usize {
    let mut at = end - 1;
    if value >> 56 == 0 {
        buf[at] = (value & 0x7f) as u8;
        value >>= 7;
    } else {
        buf[at] = value as u8;
        value >>= 8;
        // A nine-byte varint has eight bytes in front of its last, even if
        // the first of them carries only zeros.
        for _ in 0..8 {
            at -= 1;
            buf[at] = 0x80 | (value & 0x7f) as u8;
            value >>= 7;
        }
        return at;
    }
    while value != 0 {
        at -= 1;
        buf[at] = 0x80 | (value & 0x7f) as u8;
        value >>= 7;
    }
    at
}

/// The varint at the front of `bytes` and its length; none if it has no end.
#[inline]
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    // Lengths take one byte mostly, and rowids up to four: without a loop then.
    if let Some(&first) = bytes.first()
        && first < 0x80
    {
        return Some((u64::from(first), 1));
    }
    if let Some(&word) = bytes.first_chunk::<4>() {
        let word = u32::from_be_bytes(word);
        let ends = !word & 0x0080_8080;
        if ends != 0 {
            let length = ends.leading_zeros() as usize / 8 + 1;
            let word = word >> (32 - 8 * length);
            let groups = word & 0x7f
                | (word & 0x7f00) >> 1
                | (word & 0x7f_0000) >> 2
                | (word & 0x7f00_0000) >> 3;
            return Some((u64::from(groups), length));
        }
    }
    read_long_varint(bytes)
}

#[inline(never)]
fn read_long_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        if index == VARINT_BYTES_MAX - 1 {
            return Some((value << 8 | u64::from(byte), VARINT_BYTES_MAX));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An independent reading of the format's description.
    fn read(bytes: &[u8]) -> (u64, usize) {
        let mut value = 0;
        for (i, &byte) in bytes.iter().enumerate() {
            if i == 8 {
                return (value << 8 | u64::from(byte), 9);
            }
            value = value << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return (value, i + 1);
            }
        }
        panic!("no end");
    }

    fn check(value: u64) {
        let mut buf = [0xee; 12];
        let at = put_varint_before(&mut buf, 11, value);
        assert_eq!(11 - at, varint_len(value), "{value:#x}");
        assert_eq!(read(&buf[at..11]), (value, varint_len(value)));
        assert_eq!(read_varint(&buf[at..]), Some((value, varint_len(value))));
        assert_eq!(read_varint(&buf[at..10]), None);
        assert_eq!(buf[11], 0xee);
        let mut slack = [0xee; 12];
        assert_eq!(put_varint_with_slack_before(&mut slack, 11, value), at);
        assert_eq!(slack[at..], buf[at..]);
    }

    #[test]
    fn every_power_of_two_and_its_neighbours() {
        for bit in 0..64 {
            let value = 1u64 << bit;
            check(value);
            check(value - 1);
            check(!value);
        }
    }

    proptest! {
        #[test]
        fn reads_back(value: u64, shift in 0..64) {
            check(value >> shift);
        }
    }
}
