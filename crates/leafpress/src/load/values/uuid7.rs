//! Keys that ascend in the order of time: UUID version 7 (RFC 9562).
//!
//! Rows are worked on in blocks on many threads. So a key is a pure function of the row's ordinal
//! in the input: it does not depend on the thread, and keys ascend as the rows do.
//!
//! ```text
//! bits   48             4    12              2   8              54
//!       ┌──────────────┬────┬───────────────┬───┬──────────────┬─────────────────┐
//!       │ milliseconds │ 7  │ count, high   │ 2 │ count, low   │ random          │
//!       └──────────────┴────┴───────────────┴───┴──────────────┴─────────────────┘
//! ```
//!
//! The count is the row's number within its millisecond: a million rows share one millisecond, then
//! the next begins. So the last key of a billion rows is a second later than the first, which is
//! nearly always before the load ends.
//!
//! Must never: give two rows of a load the same key, or another on another run
//! of the same range.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bits of the count, in `rand_a` and at the start of `rand_b`.
const COUNT_BITS: u32 = 20;
/// Number of the count's bits that go to `rand_b`.
const COUNT_LOW_BITS: u32 = COUNT_BITS - 12;
/// Number of random bits, the rest of `rand_b`.
const RANDOM_BITS: u32 = 62 - COUNT_LOW_BITS;
const VERSION: u64 = 7;
const VARIANT: u64 = 2;

/// Bytes of the text of a key: 32 digits and four hyphens.
pub const TEXT_BYTES: usize = 36;

/// The keys of one load's rows.
#[derive(Debug, Clone)]
pub struct Uuid7Range {
    start_ms: u64,
    seed: [u64; 2],
}

impl Uuid7Range {
    /// Keys from a time on, in milliseconds since 1970. The same seed gives the same keys.
    pub const fn new(start_ms: u64, seed: [u64; 2]) -> Self {
        Self { start_ms, seed }
    }

    /// Keys from now on, with a random seed.
    pub fn now() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let random = RandomState::new();
        // Siblings that `fork` makes share the state of their parent's random generator, so the
        // A child made by `fork` has its parent's random state, as its siblings have: the process
        // id makes their keys differ.
        let word = |number: u32| random.hash_one((number, std::process::id()));
        Self::new(since_1970.as_millis() as u64, [word(0), word(1)])
    }

    /// Key of row number `sequence`.
    pub fn at(&self, sequence: u64) -> [u8; 16] {
        let time_ms = self.start_ms + (sequence >> COUNT_BITS);
        let count = sequence & ((1 << COUNT_BITS) - 1);
        let random = sip_hash(self.seed, sequence) >> (64 - RANDOM_BITS);
        let high = time_ms << 16 | VERSION << 12 | count >> COUNT_LOW_BITS;
        let count_low = count & ((1 << COUNT_LOW_BITS) - 1);
        let low = VARIANT << 62 | count_low << RANDOM_BITS | random;
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }

    /// Key as text, in lower case; texts ascend as the bytes do.
    pub fn text_at(&self, sequence: u64) -> [u8; TEXT_BYTES] {
        const HYPHENS_AFTER: [usize; 4] = [3, 5, 7, 9];
        let mut text = [b'-'; TEXT_BYTES];
        let mut at = 0;
        for (index, byte) in self.at(sequence).into_iter().enumerate() {
            text[at] = b"0123456789abcdef"[usize::from(byte >> 4)];
            text[at + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
            at += 2 + usize::from(HYPHENS_AFTER.contains(&index));
        }
        text
    }
}

/// SipHash-2-4 of one word: looks random without the seed.
fn sip_hash(seed: [u64; 2], word: u64) -> u64 {
    let round = |[mut a, mut b, mut c, mut d]: [u64; 4]| {
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        d = d.rotate_left(21) ^ a;
        [a, b, c.rotate_left(32), d]
    };
    let mut state = [
        seed[0] ^ 0x736f_6d65_7073_6575,
        seed[1] ^ 0x646f_7261_6e64_6f6d,
        seed[0] ^ 0x6c79_6765_6e65_7261,
        seed[1] ^ 0x7465_6462_7974_6573,
    ];
    // The second word holds the length, eight bytes, and no content.
    for word in [word, 8 << 56] {
        state[3] ^= word;
        state = round(round(state));
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    state = round(round(round(round(state))));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START_MS: u64 = 0x017f_22e2_79b0;

    #[test]
    fn the_hash_is_siphash_2_4() {
        // Test vectors of its authors' reference: the key 00 01 … 0f, eight bytes.
        let seed = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(sip_hash(seed, seed[0]), 0x93f5_f579_9a93_2462);
    }

    #[test]
    fn a_key_has_the_form_of_version_7() {
        let range = Uuid7Range::new(START_MS, [1, 2]);
        let text = String::from_utf8(range.text_at(0).to_vec()).expect("text");
        assert!(text.starts_with("017f22e2-79b0-7000-80"), "{text}");
        assert_eq!(text.bytes().filter(|&byte| byte == b'-').count(), 4);
        let digits = u128::from_str_radix(&text.replace('-', ""), 16).expect("digits");
        assert_eq!(digits.to_be_bytes(), range.at(0));
        // The last row of a millisecond, and the first of the next.
        assert!(range.text_at((1 << 20) - 1).starts_with(b"017f22e2-79b0-7fff-bf"));
        assert!(range.text_at(1 << 20).starts_with(b"017f22e2-79b1-7000-80"));
    }

    #[test]
    fn other_ranges_of_the_same_time_have_other_keys() {
        let [one, other] = [Uuid7Range::now(), Uuid7Range::now()];
        assert_ne!(one.at(5)[10..], other.at(5)[10..]);
        assert_eq!(one.at(5), one.clone().at(5));
    }

    proptest! {
        #[test]
        fn keys_and_their_texts_ascend(
            sequence in 0..1_u64 << 40,
            near in prop::bool::ANY,
            step in 1..1_u64 << 30,
        ) {
            let range = Uuid7Range::new(START_MS, [3, 4]);
            let next = sequence + if near { 1 } else { step };
            prop_assert!(range.at(sequence) < range.at(next));
            prop_assert!(range.text_at(sequence) < range.text_at(next));
            let key = range.at(sequence);
            prop_assert_eq!((key[6] >> 4, key[8] >> 6), (7, 2));
        }
    }
}
