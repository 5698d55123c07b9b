//! The first sixteen bytes of a key, as two numbers. Comparing them decides the order of most
//! records without looking at the records.
//!
//! Purpose: a sort that touches only its index. 128 bits of random keys are hardly ever equal;
//! keys with equal prefixes are compared as records are.
//!
//! Must never: order two keys otherwise than
//! [`compare_records`](crate::compare_records) does. Equal prefixes decide nothing.
//!
//! # The bytes
//!
//! Each column is written so that bytes compare as its values do, until 16 bytes
//! are full; a descending column's bytes are inverted.
//!
//! | value | code | then |
//! |---|---|---|
//! | NULL | 0x48 | |
//! | number below −2^63 | 0x50 | the double's 8 bytes, inverted |
//! | integral part −(256^n) and above, below −(256^(n−1)) | 0x60 − n | its low n bytes |
//! | integral part below 256^n | 0x61 + n | its n bytes |
//! | 2^63 and above | 0x70 | the double's 8 bytes |
//! | (after the integral part, if there is a fraction) | 0xc0 to 0xff | with the fraction's 62 bits |
//! | text, as its collation sees it | 0x80 | its bytes, 0x00 as 0x00 0xff, and a 0x00 |
//! | blob | 0x88 | the same |
//! | no more columns | 0x80 | |
//!
//! # Invariants
//!
//! 1. Codes, inverted or not, are 0x40 to 0xbf. So whatever follows a number is
//!    below the mark of a fraction if it ascends, above it if it descends; and
//!    what follows the end of a text is below the 0xff of an escaped zero.
//! 2. The integral part is the floor, so a fraction always makes a number larger.
//! 3. Where bytes would not be exact, they are the last. Behind a fraction follow
//!    ones, as the number is above the one with just its bits; behind anything
//!    else zeros, and equal bytes before them mean that the other key ends there
//!    as well.

use crate::entry::{Field, Walk};
use crate::key::{Collation, KeyColumn, SortOrder};
use crate::value::Value;

const BITS: u32 = u128::BITS;
const CODE_BITS: u32 = 8;
/// Bytes of text or blob that fit behind the code.
const CONTENT_BYTES_MAX: usize = (BITS - CODE_BITS) as usize / 8;

const NULL: u8 = 0x48;
const BELOW_INTEGERS: u8 = 0x50;
const NEGATIVE: u8 = 0x60;
const POSITIVE: u8 = 0x61;
const ABOVE_INTEGERS: u8 = 0x70;
const TEXT: u8 = 0x80;
const BLOB: u8 = 0x88;
const END: u8 = 0x80;
/// The two highest bits of a fraction's mark; its own bits follow.
const FRACTION: u64 = 0b11 << FRACTION_BITS;
const FRACTION_BITS: u32 = 62;
const ESCAPE: u8 = 0xff;

const TWO_TO_62: f64 = 4_611_686_018_427_387_904.0;
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The first sixteen bytes of a record's key, which is its first
/// `columns.len()` columns.
///
/// `key_prefix(a) < key_prefix(b)` means that a comes before b; equal prefixes
/// decide nothing.
///
/// `record` may go on behind the record: with 16 bytes more it takes half the time, as no content is
/// too near to the end to be read by one load.
///
/// ```
/// use leafpress_format::{KeyColumn, key_prefix};
/// let columns = [KeyColumn::default()];
/// assert!(key_prefix(&[2, 1, 7], &columns) < key_prefix(&[2, 15, b'7'], &columns));
/// ```
#[inline]
pub fn key_prefix(record: &[u8], columns: &[KeyColumn]) -> u128 {
    prefix_behind(record, columns, 0)
}

/// The next sixteen bytes of a record's key, as if its prefix went on: `part`
/// times sixteen bytes are left out.
///
/// If the parts of two keys up to this one are equal, the key with the smaller part comes
/// first; equal parts decide nothing. A key that has ended goes on with zeros.
///
/// ```
/// use leafpress_format::{KeyColumn, key_prefix, key_prefix_part};
/// let columns = [KeyColumn::default()];
/// let (left, right) = (b"\x02\x3dhttps://www.sqlite.org/a", b"\x02\x3dhttps://www.sqlite.org/b");
/// assert_eq!(key_prefix(left, &columns), key_prefix(right, &columns));
/// assert!(key_prefix_part(left, &columns, 1) < key_prefix_part(right, &columns, 1));
/// ```
pub fn key_prefix_part(record: &[u8], columns: &[KeyColumn], part: usize) -> u128 {
    prefix_behind(record, columns, part.saturating_mul(BITS as usize))
}

/// Returns 16 bytes of the key's code, from bit `skip` on.
#[inline(always)]
fn prefix_behind(record: &[u8], columns: &[KeyColumn], skip: usize) -> u128 {
    let mut walk = Walk::new(record);
    let mut prefix = Prefix { bits: 0, used: 0, flip: 0, skip };
    for column in columns {
        prefix.flip = match column.order {
            SortOrder::Ascending => 0,
            SortOrder::Descending => u128::MAX,
        };
        let goes_on = match walk.next() {
            None => prefix.push_code(NULL),
            Some(field) => prefix.push_field(record, &field, column.collation),
        };
        if !goes_on {
            return prefix.bits;
        }
    }
    prefix.flip = 0;
    prefix.push_code(END);
    prefix.bits
}

/// A prefix in the making. Every `push` says whether there can be more.
struct Prefix {
    bits: u128,
    /// Number of bits that are taken, from the highest; below [`BITS`] before a push.
    used: u32,
    /// All ones in a descending column.
    flip: u128,
    /// Number of bits that are still to be left out, instead of taken.
    skip: usize,
}

impl Prefix {
    /// Appends the `count` highest bits of `bits`, at least one and at most all; the others are
    /// zero.
    #[inline]
    fn push(&mut self, bits: u128, count: u32) -> bool {
        if self.skip > 0 {
            return self.push_behind(bits, count);
        }
        let bits = match self.flip {
            0 => bits,
            _ => !bits & !(u128::MAX.checked_shr(count).unwrap_or(0)),
        };
        self.bits |= bits >> self.used;
        self.used += count;
        self.used < BITS
    }

    /// Appends bits as [`push`](Self::push) does, while some bits are still to be left out.
    #[inline(never)]
    fn push_behind(&mut self, bits: u128, count: u32) -> bool {
        if self.skip >= count as usize {
            self.skip -= count as usize;
            return true;
        }
        let left_out = self.skip as u32;
        self.skip = 0;
        self.push(bits << left_out, count - left_out)
    }

    #[inline]
    fn push_code(&mut self, code: u8) -> bool {
        self.push(high(code), CODE_BITS)
    }

    #[inline]
    fn push_field(&mut self, record: &[u8], field: &Field, collation: Collation) -> bool {
        match field.serial_type {
            text if text >= 13 && text & 1 == 1 => self.push_text(record, field, collation),
            1..=6 => self.push_integer(field.integer(record)),
            8 => self.push_integer(0),
            9 => self.push_integer(1),
            7 => match field.value(record) {
                Value::Real(real) => self.push_real(real),
                _ => self.push_code(NULL),
            },
            0..12 => self.push_code(NULL),
            _ => self.push_content(BLOB, content(record, field.at, field.bytes), || {
                &record[field.at..field.at + field.bytes]
            }),
        }
    }

    #[inline]
    fn push_integer(&mut self, integer: i64) -> bool {
        // The sign is in the code, so the bytes without it will do.
        let bits = 64 - (integer ^ integer >> 63).leading_zeros();
        let bytes = bits.div_ceil(8);
        let code = if integer < 0 { NEGATIVE - bytes as u8 } else { POSITIVE + bytes as u8 };
        // Its bytes from the highest of a word on: shifts of 64 bits take less time than of 128.
        let low = (integer as u64).checked_shl(u64::BITS - 8 * bytes).unwrap_or(0);
        let bits = u128::from(u64::from(code) << 56 | low >> 8) << 64 | u128::from(low << 56);
        self.push(bits, CODE_BITS + 8 * bytes)
    }

    #[expect(clippy::float_cmp, reason = "exact is what it asks for")]
    #[inline]
    fn push_real(&mut self, real: f64) -> bool {
        if real >= TWO_TO_63 {
            return self.push_double(ABOVE_INTEGERS, real.to_bits());
        }
        if real < -TWO_TO_63 {
            return self.push_double(BELOW_INTEGERS, !real.to_bits());
        }
        let floor = real.floor();
        if !self.push_integer(floor as i64) {
            return false;
        }
        let fraction = real - floor;
        if fraction > 0.0 {
            // Between −1 and 0 the difference may have been rounded, the sum is exact.
            let back = floor + fraction;
            let fraction = if back > real { fraction.next_down() } else { fraction };
            return self.push_fraction(fraction, back == real);
        }
        true
    }

    /// A fraction below 1; unless `exact`, the number's own is a little larger.
    #[expect(clippy::float_cmp, reason = "exact is what it asks for")]
    #[inline]
    fn push_fraction(&mut self, fraction: f64, exact: bool) -> bool {
        let scaled = fraction * TWO_TO_62;
        let bits = scaled as u64;
        let mut goes_on = self.push(u128::from(FRACTION | bits) << 64, u64::BITS);
        if exact && bits as f64 == scaled {
            return goes_on;
        }
        // Invariant 3: this number is above the one that has just these bits.
        while goes_on {
            goes_on = self.push(u128::MAX, BITS);
        }
        false
    }

    #[inline(never)]
    fn push_double(&mut self, code: u8, bits: u64) -> bool {
        self.push(high(code) | u128::from(bits) << 56, CODE_BITS + u64::BITS)
    }

    #[inline]
    fn push_text(&mut self, record: &[u8], field: &Field, collation: Collation) -> bool {
        let whole = || &record[field.at..field.at + field.bytes];
        match collation {
            Collation::Binary => {
                self.push_content(TEXT, content(record, field.at, field.bytes), whole)
            }
            Collation::NoCase => {
                let (bits, bytes) = content(record, field.at, field.bytes);
                if self.skip > 0 || has_zero(bits, bytes) {
                    return self.push_folded(whole());
                }
                self.push_content(TEXT, (lower_case(bits), bytes), whole)
            }
            Collation::RTrim => {
                let text = whole();
                let bytes = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
                self.push_content(TEXT, content(record, field.at, bytes), || &text[..bytes])
            }
        }
    }

    /// Text or a blob, by its first bytes and their number; `whole` gives all
    /// of it where there are zeros among them, or more is needed.
    #[inline]
    fn push_content<'r>(
        &mut self,
        code: u8,
        (bits, bytes): (u128, usize),
        whole: impl FnOnce() -> &'r [u8],
    ) -> bool {
        if self.skip > 0 || has_zero(bits, bytes) {
            return self.push_escaped(code, whole());
        }
        // Bits beyond the content are zero, and so is the byte that ends it.
        let count = CODE_BITS + 8 * bytes as u32 + 8;
        self.push(high(code) | bits >> CODE_BITS, count.min(BITS))
    }

    #[inline(never)]
    fn push_escaped(&mut self, code: u8, content: &[u8]) -> bool {
        if self.skip > 0 {
            return self.push_escaped_behind(code, content);
        }
        // One byte more than can be taken: an escaped zero is two.
        let mut bytes = [0; 1 + BITS as usize / 8];
        let (mut end, last) = (1, bytes.len() - 1);
        bytes[0] = code;
        for &byte in content {
            if end >= last {
                break;
            }
            bytes[end] = byte;
            end += 1;
            if byte == 0 {
                bytes[end] = ESCAPE;
                end += 1;
            }
        }
        // The zero behind the content is there already.
        let bits = bytes.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
        self.push(bits, BITS.min(8 * (end as u32 + 1)))
    }

    /// As [`push_escaped`](Self::push_escaped), while some bits are still to be left out.
    fn push_escaped_behind(&mut self, code: u8, content: &[u8]) -> bool {
        let mut goes_on = self.push_code(code);
        for &byte in content {
            goes_on = goes_on && self.push_code(byte);
            if byte == 0 {
                goes_on = goes_on && self.push_code(ESCAPE);
            }
            if !goes_on {
                return false;
            }
        }
        goes_on && self.push_code(0)
    }

    /// NOCASE text, byte by byte. Of two texts that are the same up to a NUL,
    /// only the sizes count: nothing that would help is lost by stopping there.
    #[inline(never)]
    fn push_folded(&mut self, text: &[u8]) -> bool {
        let mut goes_on = self.push_code(TEXT);
        for &byte in text {
            goes_on = goes_on && self.push_code(byte.to_ascii_lowercase());
            if byte == 0 {
                let _ = goes_on && self.push_code(ESCAPE);
                return false;
            }
            if !goes_on {
                return false;
            }
        }
        goes_on && self.push_code(0)
    }
}

/// `byte` as the highest of a prefix.
#[inline]
fn high(byte: u8) -> u128 {
    u128::from(byte) << (BITS - CODE_BITS)
}

/// The first bytes of a content of `bytes` bytes, from the highest, and how
/// many they are: no more than fit behind a code.
#[inline]
fn content(record: &[u8], at: usize, bytes: usize) -> (u128, usize) {
    let bytes = bytes.min(CONTENT_BYTES_MAX);
    let word = record.get(at..).and_then(|rest| rest.first_chunk::<16>()).copied();
    let word = word.unwrap_or_else(|| {
        let mut word = [0; 16];
        word[..bytes].copy_from_slice(&record[at..at + bytes]);
        word
    });
    let word = u128::from_be_bytes(word);
    (word & !BEHIND[bytes], bytes)
}

/// Ones in all bytes but the highest: so many as the index says. A shift by a variable takes longer.
const BEHIND: [u128; 1 + CONTENT_BYTES_MAX] = {
    let mut table = [u128::MAX; 1 + CONTENT_BYTES_MAX];
    let mut bytes = 1;
    while bytes <= CONTENT_BYTES_MAX {
        table[bytes] = u128::MAX >> (8 * bytes);
        bytes += 1;
    }
    table
};

/// Each byte of a word the same.
const fn all(byte: u8) -> u128 {
    u128::from_be_bytes([byte; 16])
}

/// Returns true if any of the `bytes` highest bytes is zero; `bytes` is at most 15.
#[inline]
fn has_zero(bits: u128, bytes: usize) -> bool {
    let filled = bits | BEHIND[bytes];
    // Subtracting borrows into the high bit of a zero byte; that a borrow may
    // go on into the next does no harm, there is a zero then.
    filled.wrapping_sub(all(1)) & !filled & all(0x80) != 0
}

/// The letters of ASCII in lower case, sixteen bytes at once.
#[inline]
fn lower_case(bits: u128) -> u128 {
    let low = bits & all(0x7f);
    let from_a = low + all(0x80 - b'A');
    let beyond_z = low + all(0x7f - b'Z');
    let upper = from_a & !beyond_z & !bits & all(0x80);
    // From the high bit to the one that makes a letter small, 0x20.
    bits | upper >> 2
}
