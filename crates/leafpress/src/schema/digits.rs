//! Up to sixteen digits of text as a number, by the widest instructions that the processor has.
//!
//! Must never: take a byte for a digit that is none.

#[cfg(all(target_arch = "x86_64", feature = "load"))]
use fearless_simd::{Level, Simd as _};

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Way to read digits.
pub trait Digits: Copy {
    /// The number that the last `count` (1 to 16) bytes of a window are, if each is a digit. If
    /// `scale` (0 to 8) is not 0, a point stands before the last `scale` of them, which must be in
    /// the window with them; it is not looked at.
    fn number(self, window: &[u8; 16], count: usize, scale: usize) -> Option<u64>;
}

/// Work that needs a way to read digits.
pub trait DigitsWork {
    /// Does the work.
    fn run(self, digits: impl Digits);
}

/// Runs `work`, compiled for processors with AVX2 where this is one, else for all.
#[inline(always)]
pub fn with_digits(work: impl DigitsWork) {
    #[cfg(all(target_arch = "x86_64", feature = "load"))]
    if let Some(avx2) = Level::new().as_avx2() {
        return avx2.vectorize(
            #[inline(always)]
            || work.run(wide::Wide(avx2)),
        );
    }
    work.run(Words);
}

/// Reads eight digits at a time, as a word.
#[derive(Debug, Clone, Copy)]
pub struct Words;

impl Digits for Words {
    #[inline(always)]
    fn number(self, window: &[u8; 16], count: usize, scale: usize) -> Option<u64> {
        let (mut high, mut low) = (word(window, 0), word(window, 8));
        if scale > 0 {
            // The bytes behind the point stay where they are, those before it move to its place.
            let behind = u64::MAX << ((8 * (8 - scale as u32)) & 63);
            low = (low & behind) | ((low << 8 | high >> 56) & !behind);
            high <<= 8;
        }
        if count <= 8 {
            return number_of(last_digits(low, count));
        }
        let high = number_of(last_digits(high, count - 8))?;
        Some(high * 100_000_000 + number_of(last_digits(low, 8))?)
    }
}

#[inline(always)]
fn word(window: &[u8; 16], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// The last `len` (1 to 8) bytes of a little-endian word of text, each less '0', behind zeros.
#[inline(always)]
pub(super) fn last_digits(word: u64, len: usize) -> u64 {
    let before = (8 * (8 - len as u32)) & 63;
    (word ^ ZEROS) >> before << before
}

/// The number that eight bytes are if each is a digit: pairs, then fours, then all.
#[inline(always)]
pub(super) fn number_of(digits: u64) -> Option<u64> {
    // Above 9 the sum sets a byte's highest bit; a carry comes only from a byte that has it itself.
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = (digits.wrapping_mul((10 << 8) + 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul((100 << 16) + 1) >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul((10_000 << 32) + 1) >> 32)
}

/// Sixteen digits at a time.
#[cfg(all(target_arch = "x86_64", feature = "load"))]
mod wide {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_cvtsi128_si64, _mm_madd_epi16,
        _mm_maddubs_epi16, _mm_max_epu8, _mm_movemask_epi8, _mm_packus_epi32, _mm_set1_epi8,
        _mm_set1_epi16, _mm_set1_epi32, _mm_shuffle_epi8, _mm_sub_epi8,
    };

    use fearless_simd::{Avx2, prelude::*, u8x16};

    use super::Digits;

    /// Zeros, then as many bytes with all bits set: from the n-th byte on, a mask of the last n.
    const LAST: [u8; 32] = {
        let mut bytes = [0; 32];
        let mut at = 16;
        while at < 32 {
            bytes[at] = 0xff;
            at += 1;
        }
        bytes
    };

    /// For each scale, the byte that comes to each place when the point is taken out.
    const WITHOUT_POINT: [[u8; 16]; 16] = {
        let mut orders = [[0; 16]; 16];
        let mut scale = 0;
        while scale < 16 {
            let mut at = 0;
            while at < 16 {
                let is_behind = scale == 0 || at + scale > 15;
                // A zero comes where the highest bit is set.
                orders[scale][at] = if is_behind { at as u8 } else { (at as u8).wrapping_sub(1) };
                at += 1;
            }
            scale += 1;
        }
        orders
    };

    #[derive(Debug, Clone, Copy)]
    pub struct Wide(pub Avx2);

    impl Digits for Wide {
        #[inline(always)]
        fn number(self, window: &[u8; 16], count: usize, scale: usize) -> Option<u64> {
            let last = LAST.get(count..).and_then(<[u8]>::first_chunk)?;
            let load = |bytes: &[u8; 16]| -> __m128i { u8x16::simd_from(self.0, *bytes).into() };
            number(self.0, load(window), load(&WITHOUT_POINT[scale & 15]), load(last))
        }
    }

    fearless_simd::kernel!(
        #[inline]
        fn number(avx2: Avx2, text: __m128i, order: __m128i, last: __m128i) -> Option<u64> {
            let _ = avx2;
            let text = _mm_shuffle_epi8(text, order);
            let digits = _mm_and_si128(_mm_sub_epi8(text, _mm_set1_epi8(0x30)), last);
            let nine = _mm_set1_epi8(9);
            let is_digit = _mm_cmpeq_epi8(_mm_max_epu8(digits, nine), nine);
            if _mm_movemask_epi8(is_digit) != 0xffff {
                return None;
            }
            // Pairs, fours, and two times eight digits.
            let pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(10 + (1 << 8)));
            let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(100 + (1 << 16)));
            let fours = _mm_packus_epi32(fours, fours);
            let eights = _mm_madd_epi16(fours, _mm_set1_epi32(10_000 + (1 << 16)));
            let eights = _mm_cvtsi128_si64(eights) as u64;
            Some((eights & 0xffff_ffff) * 100_000_000 + (eights >> 32))
        }
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Results of both ways for a window.
    fn both(window: [u8; 16], count: usize, scale: usize) -> Vec<Option<u64>> {
        struct Number<'f>([u8; 16], usize, usize, &'f mut Vec<Option<u64>>);
        impl DigitsWork for Number<'_> {
            #[inline(always)]
            fn run(self, digits: impl Digits) {
                self.3.push(digits.number(&self.0, self.1, self.2));
            }
        }
        let mut found = vec![Words.number(&window, count, scale)];
        with_digits(Number(window, count, scale, &mut found));
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn digits_are_read_as_the_standard_library_reads_them(
            text in "[0-9]{16}|[0-9,.:/-]{16}|[0-9]{0,8}[^0-9][0-9]{15}",
            more in 0..=15_usize,
            scale in 0..=8_usize,
        ) {
            let window: [u8; 16] = *text.as_bytes().last_chunk().unwrap();
            let has_point = scale > 0;
            let count = (scale.max(1) + more).min(16 - usize::from(has_point));
            let mut taken = window.to_vec();
            if has_point {
                taken.remove(15 - scale);
            }
            let taken = &taken[taken.len() - count..];
            let expected = taken.iter().all(u8::is_ascii_digit)
                .then(|| std::str::from_utf8(taken).unwrap().parse().unwrap());
            prop_assert_eq!(both(window, count, scale), vec![expected; 2]);
        }
    }
}
