//! Serial types: how a value's content is stored. `record.rs` lists them.

/// Set in the index of [`SERIAL_BY_BITS`] for the integers 0 and 1.
const NO_CONTENT: usize = 128;

/// Serial type of an integer by the number of bits it needs, sign included; 0
/// and 1, of one and two bits, stand apart. A table, as a branch would be
/// mispredicted for every other flag.
const SERIAL_BY_BITS: [u8; 256] = {
    let mut table = [6; 256];
    let mut bits = 0;
    while bits <= 48 {
        table[bits] = match bits {
            0..=8 => 1,
            9..=16 => 2,
            17..=24 => 3,
            25..=32 => 4,
            _ => 5,
        };
        bits += 1;
    }
    table[NO_CONTENT + 1] = 8;
    table[NO_CONTENT + 2] = 9;
    table
};

/// Serial type of a text without content.
pub const TEXT: u8 = 13;

/// Serial type of an integer that takes as few bytes as it can.
#[inline(always)]
pub fn of_integer(value: i64) -> u8 {
    let magnitude = (value ^ (value >> 63)) as u64;
    let bits = 65 - magnitude.leading_zeros() as usize;
    let is_0_or_1 = usize::from(value as u64 <= 1);
    SERIAL_BY_BITS[(bits | (is_0_or_1 * NO_CONTENT)) & 0xff]
}
