//! Numbers that lose nothing when they are stored; all other texts stay text.
//!
//! The question here is not "does it look like a number" (SQLite's rules for
//! that are in `leafpress_format::affinity`) but "would nothing be lost if it
//! were stored as one". `00501`, `+1`, `-0` and integers beyond 64 bits are
//! texts; so is `10.357019999999998`, as its double prints as something else.
//! The [`RealRule`] says if the form may be lost (`1e3`, `2.50`).
//!
//! A load converts a hundred million fields a second, so digits are read eight at a time from
//! words that end where the field ends. So [`HEADROOM_BYTES`] bytes must stand in front of the
//! field; their values do not matter.

use leafpress_format::Number;

use super::decimal::{kept_decimal, kept_double};
use super::digits::{Digits, Words, last_digits, number_of};
use super::real::{DIGITS_SAFE, KeptReal, SIX_BYTE_INTEGERS, marks, stored_real};

/// Number of bytes of the source that must precede a field.
pub const HEADROOM_BYTES: usize = 16;

/// Powers of ten that a double holds exactly.
const POWERS_OF_TEN: [f64; 9] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/// Powers of ten as integers, up to eight zeros.
const INTEGER_POWERS_OF_TEN: [u64; 9] =
    [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// A double so large that a smaller one added to it loses its fraction.
const NO_FRACTION: f64 = (1_u64 << 52) as f64;

/// The rule that says which texts are reals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RealRule {
    /// Decimal numbers whose value a double keeps, in any form but that of a code.
    #[default]
    Value,
    /// Digits with a sign and a point, if the text can be made again from the double and the
    /// number of decimals.
    Exact,
}

/// The integer at `start..end` of `source`, if its canonical text is just that.
///
/// At least [`HEADROOM_BYTES`] must precede `end`.
#[inline(always)]
pub fn exact_integer(source: &[u8], start: usize, end: usize) -> Option<i64> {
    exact_integer_by(Words, source, start, end)
}

/// Does what [`exact_integer`] does, by a given way to read digits.
#[inline(always)]
pub fn exact_integer_by(
    digits: impl Digits,
    source: &[u8],
    start: usize,
    end: usize,
) -> Option<i64> {
    let len = end.wrapping_sub(start);
    if len.wrapping_sub(1) >= 16 {
        return exact_long_integer(source.get(start..end)?);
    }
    let window = last_16_bytes(source, end)?;
    let first = window[16 - len];
    let negative = first == b'-';
    let count = len - usize::from(negative);
    // Of a lone '-' it is looked at itself.
    let first_digit = window[(16 - count).min(15)];
    if first_digit.wrapping_sub(b'1') >= 9 && (first_digit != b'0' || len > 1) {
        return None;
    }
    let magnitude = digits.number(window, count, 0)? as i64;
    // Without a branch: every other number of a column may be negative.
    let sign = -i64::from(negative);
    Some((magnitude ^ sign) - sign)
}

/// Integers of more than 16 characters.
#[inline(never)]
fn exact_long_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.first().is_none_or(|first| !(b'1'..=b'9').contains(first)) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The real at `start..end` of `source`, if a double keeps its value.
///
/// At least [`HEADROOM_BYTES`] must precede `start`. `scale_hint` is the likely number of
/// digits behind the point; if it is right, the point need not be searched for.
#[inline(always)]
pub fn kept_real(
    source: &[u8],
    start: usize,
    end: usize,
    scale_hint: usize,
    rule: RealRule,
) -> Option<KeptReal> {
    hinted_real(Words, source, start, end, scale_hint)
        .or_else(|| kept_real_anywhere(source, start, end, rule))
}

/// The real at `start..end` of `source`, if it has `scale` (1 to 8) digits behind its point and few
/// before it.
///
/// At least [`HEADROOM_BYTES`] must precede `start`.
#[inline(always)]
pub fn hinted_real(
    digits: impl Digits,
    source: &[u8],
    start: usize,
    end: usize,
    scale: usize,
) -> Option<KeptReal> {
    let len = end.wrapping_sub(start);
    if len.wrapping_sub(3) >= DIGITS_SAFE - 1 || !matches!(scale, 1..=8) {
        return None;
    }
    let window = last_16_bytes(source, end)?;
    let negative = window[16 - len] == b'-';
    let count = len - 1 - usize::from(negative);
    if window[15 - scale] != b'.' || count.wrapping_sub(scale + 1) >= 8 || count > DIGITS_SAFE {
        return None;
    }
    if window[15 - count] == b'0' && count > scale + 1 {
        return None;
    }
    let mantissa = digits.number(window, count, scale)?;
    if mantissa == 0 && negative {
        return None;
    }
    let value = mantissa as i64 as f64 / POWERS_OF_TEN[scale];
    // No quotient of so few digits is rounded to a whole number.
    #[expect(clippy::float_cmp, reason = "exactly integral is the question")]
    let is_whole = (value + NO_FRACTION) - NO_FRACTION == value;
    let whole = if is_whole { Some(value as i64) } else { None };
    Some(real_with_point(value, whole, negative, scale, window[15] == b'0'))
}

/// A number that has a point, from its magnitude, which is that of an integer in `whole`.
#[inline(always)]
fn real_with_point(
    magnitude: f64,
    whole: Option<i64>,
    negative: bool,
    scale: usize,
    ends_in_zero: bool,
) -> KeptReal {
    let changed = u8::from(ends_in_zero && scale > 1) << marks::CHANGED_BIT;
    let form = if whole.is_some() { marks::OTHERWISE } else { marks::FRACTION };
    // Without a branch: every other number of a column may be negative.
    let sign_bit = u64::from(negative) << 63;
    let sign = -i64::from(negative);
    KeptReal {
        value: f64::from_bits(magnitude.to_bits() | sign_bit),
        scale: scale as u8,
        ends_in_zero,
        marks: form | changed,
        integral: whole.map(|whole| (whole ^ sign) - sign),
    }
}

/// The real whose point stands at `point_at`, with up to eight digits on
/// either side and up to [`DIGITS_SAFE`] in all.
#[inline(always)]
fn real_of_halves(
    source: &[u8],
    digits_at: usize,
    point_at: usize,
    end: usize,
    negative: bool,
) -> Option<KeptReal> {
    let (whole_digits, scale) = (point_at - digits_at, end - point_at - 1);
    if source[digits_at] == b'0' && whole_digits > 1 {
        return None;
    }
    let whole = number_of(last_digits(word_before(source, point_at), whole_digits))?;
    let fraction = number_of(last_digits(word_before(source, end), scale))?;
    let mantissa = whole * INTEGER_POWERS_OF_TEN[scale] + fraction;
    if mantissa == 0 && negative {
        return None;
    }
    let value = mantissa as f64 / POWERS_OF_TEN[scale];
    let whole = (fraction == 0).then_some(whole as i64);
    Some(real_with_point(value, whole, negative, scale, source[end - 1] == b'0'))
}

/// The real at `start..end`, wherever its point is.
#[inline(never)]
pub fn kept_real_anywhere(
    source: &[u8],
    start: usize,
    end: usize,
    rule: RealRule,
) -> Option<KeptReal> {
    let text = source.get(start..end)?;
    plain_real(source, start, end).or_else(|| match rule {
        RealRule::Value => kept_decimal(text),
        RealRule::Exact => exact_long_real(text),
    })
}

/// A number of few digits, written in the usual way.
#[inline(always)]
fn plain_real(source: &[u8], start: usize, end: usize) -> Option<KeptReal> {
    let negative = start < end && source[start] == b'-';
    let digits_at = start + usize::from(negative);
    let len = end.checked_sub(digits_at)?;
    let point = memchr::memchr(b'.', source.get(digits_at..end)?);
    match point {
        None if len <= DIGITS_SAFE => {
            let integer = exact_integer(source, start, end)?;
            let integral = SIX_BYTE_INTEGERS.contains(&integer).then_some(integer);
            let value = integer as f64;
            Some(KeptReal { value, scale: 0, ends_in_zero: false, marks: marks::PLAIN, integral })
        }
        Some(whole) if len <= DIGITS_SAFE + 1 && matches!(whole, 1..=8) && len - whole - 1 <= 8 => {
            if len == whole + 1 {
                return None;
            }
            real_of_halves(source, digits_at, digits_at + whole, end, negative)
        }
        _ => None,
    }
}

/// The slow way of [`RealRule::Exact`]: many digits, checked against the double's
/// shortest form.
#[inline(never)]
fn exact_long_real(text: &[u8]) -> Option<KeptReal> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let point = memchr::memchr(b'.', digits);
    let whole = &digits[..point.unwrap_or(digits.len())];
    let fraction = point.map_or(&b""[..], |point| &digits[point + 1..]);
    let canonical = !whole.is_empty()
        && (whole == b"0" || !whole.starts_with(b"0"))
        && (point.is_none() || !fraction.is_empty())
        && whole.iter().chain(fraction).all(u8::is_ascii_digit);
    if !canonical || fraction.len() > usize::from(u8::MAX) {
        return None;
    }
    let value = kept_double(text)?;
    if value == 0.0 && text.starts_with(b"-") {
        return None;
    }
    let integral = match stored_real(value) {
        Number::Integer(integer) => Some(integer),
        Number::Real(_) => None,
    };
    Some(KeptReal {
        value,
        scale: fraction.len() as u8,
        ends_in_zero: fraction.ends_with(b"0"),
        // Such columns come back as they were; nothing is asked about their values.
        marks: marks::FRACTION,
        integral,
    })
}

/// The 16 bytes before `end`.
#[inline(always)]
fn last_16_bytes(source: &[u8], end: usize) -> Option<&[u8; 16]> {
    source.get(..end)?.last_chunk()
}

/// The eight bytes before `end`.
#[inline(always)]
fn word_before(source: &[u8], end: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&source[end - 8..end]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::digits::{DigitsWork, with_digits};
    use super::*;
    use proptest::prelude::*;

    fn padded(text: &str) -> (Vec<u8>, usize, usize) {
        let mut source = b"9999999999999999".to_vec();
        source.extend_from_slice(text.as_bytes());
        source.extend_from_slice(b",123");
        (source, 16, 16 + text.len())
    }

    /// By all ways to read digits, as they must not matter.
    fn integer(text: &str) -> Option<i64> {
        struct Integer<'t>(&'t str, Option<i64>);
        impl DigitsWork for Integer<'_> {
            #[inline(always)]
            fn run(self, digits: impl Digits) {
                let (source, start, end) = padded(self.0);
                assert_eq!(exact_integer_by(digits, &source, start, end), self.1, "{}", self.0);
            }
        }
        let (source, start, end) = padded(text);
        let integer = exact_integer(&source, start, end);
        with_digits(Integer(text, integer));
        integer
    }

    /// A text, to be read by another way to read digits with a hint.
    struct Hinted<'t>(&'t str, usize);
    impl DigitsWork for Hinted<'_> {
        #[inline(always)]
        fn run(self, digits: impl Digits) {
            let (source, start, end) = padded(self.0);
            let found = hinted_real(digits, &source, start, end, self.1);
            assert_eq!(found, hinted_real(Words, &source, start, end, self.1), "{}", self.0);
        }
    }

    /// With every hint, as it must not matter.
    fn real_by(rule: RealRule, text: &str) -> Option<KeptReal> {
        let (source, start, end) = padded(text);
        let real = kept_real(&source, start, end, 0, rule);
        for hint in 1..12 {
            let hinted = kept_real(&source, start, end, hint, rule);
            assert_eq!(hinted, real, "{text} with hint {hint}");
            with_digits(Hinted(text, hint));
        }
        real
    }

    fn real(text: &str) -> Option<KeptReal> {
        real_by(RealRule::Exact, text)
    }

    /// The rule, said plainly: the text is what the integer prints as.
    fn integer_by_rule(text: &str) -> Option<i64> {
        text.parse::<i64>().ok().filter(|value| value.to_string() == text)
    }

    /// The rule, said plainly: the text is the shortest form of its double,
    /// but for zeros after the last digit behind the point.
    fn real_by_rule(text: &str) -> Option<f64> {
        let value: f64 = text.parse().ok()?;
        let fixed = shortest(value);
        let fixed = fixed.strip_suffix(".0").unwrap_or(&fixed);
        let rest = text.strip_prefix(fixed)?;
        let zeros = if fixed.contains('.') { rest } else { rest.strip_prefix('.').unwrap_or(rest) };
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
        let fits = zeros.bytes().all(|b| b == b'0')
            && !text.ends_with('.')
            && (rest.is_empty() || text.contains('.'))
            && !(text.starts_with('-') && value == 0.0);
        (plain && fits && text.len() < 200).then_some(value)
    }

    /// The standard library's shortest form. Where two are equally short and
    /// equally close it takes the odd digit and we, as Python, the even one.
    fn shortest(value: f64) -> String {
        let text = format!("{value}");
        let even = zmij::Buffer::new().format_finite(value).to_owned();
        let is_tie = even.len() == text.len() && even[..even.len() - 1] == text[..text.len() - 1];
        if is_tie { even } else { text }
    }

    #[test]
    fn what_stays_text() {
        for text in
            ["", "-", "00501", "+1", "1e3", "-0", "01", " 1", "1 ", "0x10", "99999999999999999999"]
        {
            assert_eq!(integer(text), None, "{text}");
        }
        for text in [
            "",
            ".",
            "5.",
            ".5",
            "-.5",
            "1.2.3",
            "-0.0",
            "1e3",
            "00.5",
            "1,5",
            "10.357019999999998",
        ] {
            assert_eq!(real(text), None, "{text}");
        }
    }

    #[test]
    fn limits() {
        assert_eq!(integer("9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer("9223372036854775808"), None);
        assert_eq!(real("10.357019999999999").map(|r| r.value), Some(10.357_019_999_999_999));
        assert_eq!(real("9007199254740993"), None);
        assert_eq!(real("9007199254740992").map(|r| r.value), Some(9_007_199_254_740_992.0));
        let half = real("1.50").unwrap_or_else(|| panic!("1.50 is a real"));
        assert!(half.ends_in_zero && half.scale == 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn integers_follow_the_rule(text in "-?[0-9]{0,21}|[-+0-9. e]{0,6}") {
            prop_assert_eq!(integer(&text), integer_by_rule(&text));
        }

        #[test]
        fn reals_follow_the_rule(
            text in "-?[0-9]{0,19}(\\.[0-9]{0,19})?|-?[1-9]?[0-9]{0,9}\\.[0-9]{1,6}|[-+0-9.e]{0,7}"
        ) {
            let ours = real(&text).map(|real| real.value.to_bits());
            prop_assert_eq!(ours, real_by_rule(&text).map(f64::to_bits), "{}", text);
        }

        /// The quick ways find what the slow way finds.
        #[test]
        fn quick_values_are_those_of_the_slow_way(
            text in "-?[0-9]{0,9}(\\.[0-9]{0,9})?|-?0\\.0{0,6}[0-9]{1,3}|-?[1-9][0-9]{9,18}|[-+0-9.e]{0,7}"
        ) {
            prop_assert_eq!(real_by(RealRule::Value, &text), kept_decimal(text.as_bytes()));
        }

        #[test]
        fn every_double_that_prints_plainly_is_kept(bits: u64) {
            let value = f64::from_bits(bits);
            let text = shortest(value);
            if value.is_finite() && text.len() < 60 && text != "-0" {
                prop_assert_eq!(real(&text).map(|real| real.value.to_bits()), Some(bits));
            }
        }
    }
}
