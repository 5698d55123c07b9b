//! SQLite's arithmetic from a double to decimal digits.
//!
//! Purpose: TEXT affinity stores a number as text, and that text must be
//! SQLite's to the last digit. SQLite does not print the shortest form: it takes
//! 18 digits from a 64-bit approximation, rounds them to 17, and drops a tail of
//! nines or zeros only if its own reading of the shorter form gives the number
//! back. So all three steps are repeated here, with the same precision as in
//! SQLite 3.54.1; a "better" result would be a different database.
//!
//! Must never: read text for a column. [`decimal_to_real`] is off by
//! one unit in the last place in rare cases (see [`crate::number`]), which is
//! right for imitating the printer and wrong for a user's data.
//!
//! Place: below `number`, which lays the digits out; nothing else
//! uses it.

use std::cmp::Ordering;

/// Powers of ten outside this range are 0 or infinite for every 64-bit factor.
const EXPONENT_MIN: i32 = -348;
const EXPONENT_MAX: i32 = 347;

/// Digits that a rendered double has at most.
const RENDERED_DIGITS: usize = 17;

/// The distance between two powers in [`SCALE`]: the largest such that all
/// powers below it (see [`BASE`]) fit 64 bits exactly, being 5^26 < 2^61.
const SCALE_STEP: i32 = 27;
/// Index of 10^0 in [`SCALE`].
const SCALE_ZERO: i32 = 13;

/// 10^0 to 10^26, shifted so that the top bit is set; exact.
const BASE: [u64; SCALE_STEP as usize] = {
    let mut base = [0; SCALE_STEP as usize];
    let mut index = 0;
    let mut power = 1_u128;
    while index < base.len() {
        base[index] = ((power << power.leading_zeros()) >> 64) as u64;
        power *= 10;
        index += 1;
    }
    base
};

/// 10^-351 to 10^324 in steps of 27, shifted so that the top bit is set and
/// rounded to 96 bits: the upper 64 and the lower 32.
const SCALE: [(u64, u32); 26] = {
    let mut scale = [(0, 0); 26];
    scale[SCALE_ZERO as usize] = (1 << 63, 0);
    // Both chains truncate at 128 bits in each step. Some 350 steps cost nine
    // bits, which leaves more than 20 correct bits below the 96 that are kept.
    let (mut up, mut down, mut exponent) = (1_u128 << 127, 1_u128 << 127, 1);
    while exponent <= SCALE_STEP * SCALE_ZERO {
        up = (up >> 3) * 5;
        up <<= up.leading_zeros();
        let fifth = down / 5;
        let shift = fifth.leading_zeros();
        down = (fifth << shift) | (((down % 5) << shift) / 5);
        if exponent % SCALE_STEP == 0 {
            let step = exponent / SCALE_STEP;
            if step + SCALE_ZERO < 26 {
                scale[(SCALE_ZERO + step) as usize] = rounded_to_96_bits(up);
            }
            scale[(SCALE_ZERO - step) as usize] = rounded_to_96_bits(down);
        }
        exponent += 1;
    }
    scale
};

const fn rounded_to_96_bits(mantissa: u128) -> (u64, u32) {
    let rounded = (mantissa >> 32) + ((mantissa >> 31) & 1);
    ((rounded >> 32) as u64, rounded as u32)
}

/// A positive number as decimal digits: `0.DIGITS * 10^point`.
pub(crate) struct Decimal {
    digits: [u8; 20],
    digit_count: usize,
    /// Number of digits before the decimal point; may be negative, or larger than the number of
    /// digits.
    pub(crate) point: i32,
}

impl Decimal {
    /// The digits that SQLite prints for `real`, which must be finite and
    /// greater than zero. The last digit is not zero.
    pub(crate) fn of(real: f64) -> Self {
        let (mantissa, exponent) = eighteen_digits(real);
        let mut decimal = Self::from_integer(mantissa, exponent);
        if decimal.digit_count > RENDERED_DIGITS {
            let kept = decimal.digits_to_keep(real, exponent);
            let dropped = decimal.digit_count - kept;
            let divisor = 10_u64.pow(dropped as u32);
            let half_up = u64::from(mantissa % divisor >= divisor / 2);
            decimal = Self::from_integer(mantissa / divisor + half_up, exponent + dropped as i32);
        }
        while decimal.digit_count > 1 && decimal.digits[decimal.digit_count - 1] == b'0' {
            decimal.digit_count -= 1;
        }
        decimal
    }

    /// The digits, in ASCII.
    pub(crate) fn digits(&self) -> &[u8] {
        &self.digits[..self.digit_count]
    }

    fn from_integer(mut mantissa: u64, exponent: i32) -> Self {
        let mut digits = [b'0'; 20];
        let digit_count = mantissa.checked_ilog10().map_or(1, |log| log as usize + 1);
        for digit in digits[..digit_count].iter_mut().rev() {
            *digit = b'0' + (mantissa % 10) as u8;
            mantissa /= 10;
        }
        Self { digits, digit_count, point: digit_count as i32 + exponent }
    }

    /// Number of digits that SQLite rounds to: 17; or, if the digits before a run of nines or
    /// zeros give `real` again by themselves, one more than these.
    fn digits_to_keep(&self, real: f64, exponent: i32) -> usize {
        let digits = self.digits();
        let before_run = |run: u8, end: usize| {
            digits[..end].iter().rposition(|&digit| digit != run).map_or(0, |last| last + 1)
        };
        let (kept, candidate) = if digits[14..16] == *b"99" {
            let kept = before_run(b'9', 14);
            (kept, number_of(&digits[..kept]) + 1)
        } else if exponent >= 0 || digits[13..16] == *b"000" {
            let kept = before_run(b'0', 13);
            (kept, number_of(&digits[..kept]))
        } else {
            return RENDERED_DIGITS;
        };
        let candidate_exponent = exponent + (digits.len() - kept) as i32;
        let same = decimal_to_real(candidate, candidate_exponent).total_cmp(&real);
        if same == Ordering::Equal { kept + 1 } else { RENDERED_DIGITS }
    }
}

fn number_of(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// `real` as about 18 decimal digits (17 to 19) and a power of ten.
fn eighteen_digits(real: f64) -> (u64, i32) {
    let bits = real.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = match (bits >> 52) as i32 & 0x7ff {
        0 => {
            let shift = fraction.leading_zeros();
            (fraction << shift, -1074 - shift as i32)
        }
        biased => ((fraction << 11) | (1 << 63), biased - 1086),
    };
    let power = 17 - log10_of_power_of_two(exponent + 63);
    let product = u128::from(mantissa) * u128::from(power_of_ten(power).0);
    let shift = -(exponent + log2_of_power_of_ten(power) + 2);
    let twice = ((product >> 64) as u64) >> shift;
    ((twice >> 1) + (twice & 1), -power)
}

/// `mantissa * 10^exponent` as SQLite 3.54.1 reads it: with powers of ten to 96
/// bits only, so that some numbers very near the middle between two doubles go
/// to the wrong side. `mantissa` must not be zero.
fn decimal_to_real(mantissa: u64, exponent: i32) -> f64 {
    if exponent < EXPONENT_MIN {
        return 0.0;
    }
    if exponent > EXPONENT_MAX {
        return f64::INFINITY;
    }
    let zeros = mantissa.leading_zeros() as i32;
    let log2 = log2_of_power_of_ten(exponent);
    // 53 bits are wanted, fewer for a subnormal number.
    let mut scale = zeros - 11 - log2;
    if scale >= 1130 {
        return 0.0;
    }
    scale = scale.min(1074);
    let shift = -(scale - zeros + log2 + 3);
    let (high, sticky) = upper_product(mantissa << zeros, exponent, shift);
    // Two bits more than the 53, the lowest of them "sticky".
    let mut quarters = (high >> shift) | u64::from(sticky);
    if quarters >= (1 << 55) - 2 {
        quarters = (quarters >> 1) | (quarters & 1);
        scale -= 1;
    }
    let rounded = (quarters + 1 + ((quarters >> 2) & 1)) >> 2;
    if scale <= -972 {
        return f64::INFINITY;
    }
    let hidden_bit = 1 << 52;
    if rounded & hidden_bit == 0 {
        return f64::from_bits(rounded);
    }
    f64::from_bits((rounded & !hidden_bit) | ((1075 - scale) as u64) << 52)
}

/// The upper 64 bits of `mantissa * 10^exponent`, and whether anything lies
/// below; the latter is looked at only if the lowest `shift` bits are zero.
fn upper_product(mantissa: u64, exponent: i32, shift: i32) -> (u64, bool) {
    // The power is taken rounded up, and what is too much subtracted below.
    let (mut power, mut excess) = power_of_ten(exponent);
    if excess != 0 {
        power += 1;
        excess = !excess;
    }
    let product = u128::from(mantissa) * u128::from(power);
    let high = (product >> 64) as u64;
    if high & ((1 << shift) - 1) != 0 {
        return (high, true);
    }
    let below = (product >> 32) as u32;
    let correction = ((u128::from(mantissa) * u128::from(excess)) >> 64) as u32;
    let sticky = below.wrapping_sub(correction) > 1;
    (high - u64::from(below < correction), sticky)
}

/// The upper 64 bits of `10^exponent`, exact, and the next 32, nearly so.
fn power_of_ten(exponent: i32) -> (u64, u32) {
    if exponent == -1 {
        return (0xcccc_cccc_cccc_cccc, 0xcccc_cccc);
    }
    let base = BASE[exponent.rem_euclid(SCALE_STEP) as usize];
    let (scale, scale_low) = SCALE[(exponent.div_euclid(SCALE_STEP) + SCALE_ZERO) as usize];
    if exponent.rem_euclid(SCALE_STEP) == 0 {
        return (scale, scale_low);
    }
    if (0..SCALE_STEP).contains(&exponent) {
        return (base, 0);
    }
    let product =
        u128::from(scale) * u128::from(base) + ((u128::from(scale_low) * u128::from(base)) >> 32);
    let (high, low) = ((product >> 64) as u64, (product >> 32) as u32);
    if high >> 63 == 1 {
        return (high, low);
    }
    ((high << 1) | u64::from(low >> 31), (low << 1) | 1)
}

/// `floor(log2(10^exponent))`, for the exponents that doubles need.
const fn log2_of_power_of_ten(exponent: i32) -> i32 {
    (exponent * 108_853) >> 15
}

/// `floor(log10(2^exponent))`, for the exponents that doubles need.
const fn log10_of_power_of_two(exponent: i32) -> i32 {
    (exponent * 78_913) >> 18
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A natural number of any size, in 32-bit limbs, the lowest first.
    fn multiply(number: &[u32], factor: u32) -> Vec<u32> {
        let mut carry = 0;
        let mut product = Vec::with_capacity(number.len() + 1);
        for limb in number {
            let sum = u64::from(*limb) * u64::from(factor) + carry;
            product.push(sum as u32);
            carry = sum >> 32;
        }
        product.push(carry as u32);
        while product.last() == Some(&0) {
            product.pop();
        }
        product
    }

    fn bit_count(number: &[u32]) -> usize {
        number.len() * 32 - number.last().map_or(0, |limb| limb.leading_zeros() as usize)
    }

    fn power_of_five(exponent: u32) -> Vec<u32> {
        (0..exponent).fold(vec![1], |power, _| multiply(&power, 5))
    }

    fn product(number: &[u32], factor: u64) -> Vec<u32> {
        let low = multiply(number, factor as u32);
        let mut sum = [vec![0], multiply(number, (factor >> 32) as u32)].concat();
        sum.resize(sum.len().max(low.len()) + 1, 0);
        let mut carry = 0;
        for (index, limb) in sum.iter_mut().enumerate() {
            let total = u64::from(*limb) + u64::from(low.get(index).copied().unwrap_or(0)) + carry;
            *limb = total as u32;
            carry = total >> 32;
        }
        while sum.last() == Some(&0) {
            sum.pop();
        }
        sum
    }

    #[test]
    fn the_upper_64_bits_of_every_power_are_exact() {
        for exponent in 0..=EXPONENT_MAX {
            let power = power_of_five(exponent.unsigned_abs());
            let wide = [vec![0, 0], power].concat();
            let skipped = bit_count(&wide) - 64;
            let bit = |index: usize| u64::from(wide[index / 32] >> (index % 32) & 1);
            let upper = (skipped..skipped + 64).rev().fold(0, |bits, index| bits << 1 | bit(index));
            assert_eq!(power_of_ten(exponent).0, upper, "10^{exponent}");
        }
        for exponent in EXPONENT_MIN..0 {
            let power = power_of_five(exponent.unsigned_abs());
            let upper = power_of_ten(exponent).0;
            // 5^n times its reciprocal, rounded down, is below a power of two;
            // with the next larger one it is not.
            let bits = bit_count(&product(&power, upper));
            assert_eq!(upper >> 63, 1, "10^{exponent}");
            assert!(upper == u64::MAX || bit_count(&product(&power, upper + 1)) == bits + 1);
        }
    }

    #[test]
    fn reading_is_exact_where_ninety_six_bits_suffice() {
        for (mantissa, exponent) in
            [(1, 0), (1, 23), (15, -1), (u64::MAX, 0), (5, -324), (3, -324), (2, -324), (17, 307)]
        {
            let expected: f64 = format!("{mantissa}e{exponent}").parse().unwrap();
            assert_eq!(decimal_to_real(mantissa, exponent).to_bits(), expected.to_bits());
        }
        for (mantissa, exponent) in [(1, -349), (u64::MAX, -348), (1, -330)] {
            assert_eq!(decimal_to_real(mantissa, exponent).to_bits(), 0);
        }
        assert_eq!(decimal_to_real(1, 348).total_cmp(&f64::INFINITY), Ordering::Equal);
        assert_eq!(decimal_to_real(18, 307).total_cmp(&f64::INFINITY), Ordering::Equal);
    }
}
