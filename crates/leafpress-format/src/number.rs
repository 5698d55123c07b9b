//! Numbers to text and back, as SQLite does it.
//!
//! Purpose: affinity (see [`crate::affinity`]) turns text into numbers
//! and numbers into text while a row is stored, and a pressed row must hold
//! what an INSERT would have stored.
//!
//! Must never: guess. Text that SQLite leaves alone is `None` here.
//!
//! Place: above the digits of `decimal`, below `affinity`.
//!
//! # Where SQLite 3.54.1 and this module differ
//!
//! Text becomes the *nearest* double here. SQLite's own reading is the same
//! where these hold, and it is tested to be the same bit by bit:
//!
//! 1. the text has at most 19 significant digits, zeros at either end not
//!    counted (SQLite ignores what comes after some 19 digits), and
//! 2. the last of them stands at a place between 10^-15 and 10^12.
//!
//! With 19 digits or fewer at other places SQLite multiplies by a power of ten
//! of only 96 bits. It then misses the nearest double by one unit in the last
//! place for about one number in 2^42, such as `0.00000001368458500557`: a loss
//! for the user that is not worth imitating. Beyond 19 digits it misses more
//! often (`3500000000000000.2500001` becomes the integer 3500000000000000 there).
//! Exponents of six digits and more count as 10000 there, which shows only in
//! texts of thousands of digits. Whether text is a number at all, and all 64-bit
//! integers, never differ.

use crate::Value;
use crate::decimal::Decimal;

/// A number as an INTEGER or NUMERIC column holds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A signed 64-bit integer.
    Integer(i64),
    /// A double; never a NaN, and never an integral one that [`integral`] knows.
    Real(f64),
}

impl Number {
    /// The number as a REAL column shows it: integers become the nearest double.
    pub fn to_real(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Real(real) => real,
        }
    }
}

impl From<Number> for Value<'_> {
    fn from(number: Number) -> Self {
        match number {
            Number::Integer(integer) => Self::Integer(integer),
            Number::Real(real) => Self::Real(real),
        }
    }
}

/// The number that `text` is for SQLite, or `None` if it "does not look like a
/// number" and so stays text under every affinity.
///
/// A number is decimal digits with an optional sign, point and exponent, with
/// ASCII white space around it. It ends at a NUL, whatever comes after that.
/// Numbers without a fraction are integers, however written (`1e3`, `5.`), if
/// they fit 64 bits; of the two ends of that range, only integers written as
/// such are taken.
///
/// ```
/// use leafpress_format::number::{Number, text_to_number};
/// assert_eq!(text_to_number(b" 12 "), Some(Number::Integer(12)));
/// assert_eq!(text_to_number(b"1e3"), Some(Number::Integer(1000)));
/// assert_eq!(text_to_number(b".5"), Some(Number::Real(0.5)));
/// assert_eq!(text_to_number(b"0x10"), None);
/// ```
pub fn text_to_number(text: &[u8]) -> Option<Number> {
    let numeral = Numeral::find(text)?;
    // Only ASCII got through, so neither of the conversions fails.
    let digits = std::str::from_utf8(numeral.text).ok()?;
    // Before a NUL even an integer goes through a double, as it does in SQLite:
    // 9007199254740993 loses its last bit there.
    if numeral.is_integer
        && numeral.ends_text
        && let Ok(integer) = digits.parse::<i64>()
    {
        return Some(Number::Integer(integer));
    }
    let real = digits.parse::<f64>().ok()?;
    Some(integral(real).map_or(Number::Real(real), Number::Integer))
}

/// The integer that an INTEGER or NUMERIC column stores instead of `real`: any
/// of the same value, but neither the smallest nor the largest 64-bit one.
#[expect(clippy::float_cmp, reason = "exactly the same value is what is asked for")]
pub fn integral(real: f64) -> Option<i64> {
    // `as` saturates, so what does not fit meets one of the two ends.
    let integer = real as i64;
    let same = integer as f64 == real;
    (same && integer > i64::MIN && integer < i64::MAX).then_some(integer)
}

/// White space around a number, for SQLite: as C's `isspace` in its plain locale.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

/// The part of a text that is a number.
struct Numeral<'a> {
    /// Sign, digits, point and exponent, in ASCII.
    text: &'a [u8],
    /// True if it is a sign and digits only.
    is_integer: bool,
    /// True if it ends where the text does; false if a NUL cut it short.
    ends_text: bool,
}

impl<'a> Numeral<'a> {
    fn find(text: &'a [u8]) -> Option<Self> {
        let count_while = |from: usize, test: fn(u8) -> bool| {
            text[from..].iter().take_while(|&&byte| test(byte)).count()
        };
        let is_at =
            |index: usize, wanted: &[u8]| text.get(index).is_some_and(|byte| wanted.contains(byte));
        let is_digit = |byte: u8| byte.is_ascii_digit();

        let start = count_while(0, is_space);
        let mut end = start + usize::from(is_at(start, b"+-"));
        let mut digit_count = count_while(end, is_digit);
        end += digit_count;
        let mut is_integer = true;
        if is_at(end, b".") {
            let decimals = count_while(end + 1, is_digit);
            digit_count += decimals;
            end += 1 + decimals;
            is_integer = false;
        }
        if digit_count == 0 {
            return None;
        }
        if is_at(end, b"eE") {
            let exponent = end + 1 + usize::from(is_at(end + 1, b"+-"));
            let exponent_digits = count_while(exponent, is_digit);
            if exponent_digits > 0 {
                end = exponent + exponent_digits;
                is_integer = false;
            }
        }
        let rest = end + count_while(end, is_space);
        let ends_text = rest == text.len();
        (ends_text || text[rest] == 0).then(|| Self {
            text: &text[start..end],
            is_integer,
            ends_text,
        })
    }
}

/// A number as text, in a buffer of its own that never allocates.
///
/// Made for a row encoder: keep one for each column that needs it, and let
/// [`crate::Affinity::apply`] fill it in.
#[derive(Debug, Clone, Copy, Default)]
pub struct NumberText {
    /// The longest is a double such as `-2.2250738585072014e-308`: 24 bytes.
    bytes: [u8; 32],
    size: usize,
}

impl NumberText {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text that was rendered last, in ASCII; empty before.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }

    /// `integer` in decimal digits.
    pub fn render_integer(&mut self, integer: i64) -> &[u8] {
        self.size = 0;
        if integer < 0 {
            self.push(b"-");
        }
        let mut rest = integer.unsigned_abs();
        let digit_count = rest.checked_ilog10().map_or(1, |log| log as usize + 1);
        let end = self.size + digit_count;
        for digit in self.bytes[self.size..end].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.size = end;
        self.as_bytes()
    }

    /// `real` as SQLite 3.54.1 writes it under TEXT affinity, up to 17 digits:
    /// `5.0`, `0.0001`, `1.0e+17`, `-Inf`. Minus zero is `0.0`.
    ///
    /// A NaN is `NaN`, though no database holds one: SQLite stores NULL for it.
    pub fn render_real(&mut self, real: f64) -> &[u8] {
        self.size = 0;
        if real < 0.0 {
            self.push(b"-");
        }
        if real == 0.0 {
            self.push(b"0.0");
        } else if real.is_nan() {
            self.push(b"NaN");
        } else if real.is_infinite() {
            self.push(b"Inf");
        } else {
            self.push_decimal(&Decimal::of(real.abs()));
        }
        self.as_bytes()
    }

    fn push_decimal(&mut self, decimal: &Decimal) {
        let digits = decimal.digits();
        match decimal.point {
            ..=-4 | 18.. => {
                self.push_with_point(digits, 1);
                self.push_exponent(decimal.point - 1);
            }
            point @ -3..=0 => {
                self.push(b"0.");
                self.push(&b"000"[..point.unsigned_abs() as usize]);
                self.push(digits);
            }
            point @ 1..=17 => self.push_with_point(digits, point as usize),
        }
    }

    /// The digits with a point after `point` of them, filled up with zeros; at
    /// least one digit follows the point.
    fn push_with_point(&mut self, digits: &[u8], point: usize) {
        let (whole, fraction) = digits.split_at(point.min(digits.len()));
        self.push(whole);
        self.push(&[b'0'; 17][..point - whole.len()]);
        self.push(b".");
        self.push(if fraction.is_empty() { b"0" } else { fraction });
    }

    /// `e`, the sign, and at least two digits.
    fn push_exponent(&mut self, exponent: i32) {
        let size = exponent.unsigned_abs();
        self.push(if exponent < 0 { b"e-" } else { b"e+" });
        let digit = |value: u32| b'0' + (value % 10) as u8;
        if size >= 100 {
            self.push(&[digit(size / 100)]);
        }
        self.push(&[digit(size / 10), digit(size)]);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.size..self.size + bytes.len()].copy_from_slice(bytes);
        self.size += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_however_they_are_written() {
        for (text, expected) in [
            (" 12 ", 12),
            ("\t\n\u{b}\u{c}\r 7", 7),
            ("5.", 5),
            ("+1", 1),
            ("007", 7),
            ("1.0", 1),
            ("1e3", 1000),
            ("12E-0", 12),
            ("-.5e1 ", -5),
            ("-0", 0),
            ("-0.0", 0),
            ("1e-400", 0),
            ("9007199254740993", 9_007_199_254_740_993),
            ("9007199254740993.0", 9_007_199_254_740_992),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("0000000000000000000000000000009223372036854775807", i64::MAX),
            ("9223372036854774784.0", 9_223_372_036_854_774_784),
        ] {
            assert_eq!(
                text_to_number(text.as_bytes()),
                Some(Number::Integer(expected)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_does_not_fit_an_integer_is_real() {
        for (text, expected) in [
            (".5", 0.5),
            ("9223372036854775808", 9_223_372_036_854_775_808.0),
            ("-9223372036854775809", -9_223_372_036_854_775_808.0),
            ("-9223372036854775808.0", -9_223_372_036_854_775_808.0),
            ("9223372036854775807.0", 9_223_372_036_854_775_808.0),
            ("1e400", f64::INFINITY),
            ("-1e400", f64::NEG_INFINITY),
            ("4.9e-324", 5e-324),
        ] {
            assert_eq!(text_to_number(text.as_bytes()), Some(Number::Real(expected)), "{text:?}");
        }
    }

    #[test]
    fn other_text_is_no_number() {
        for text in [
            "",
            " ",
            ".",
            "-",
            "+",
            "-.",
            "e5",
            ".e5",
            "1e",
            "1e+",
            "1 2",
            "0x10",
            "1_000",
            "1,5",
            "+-1",
            "- 1",
            "inf",
            "NaN",
            "Infinity",
            "1.2.3",
            "1\u{a0}",
            "\u{a0}1",
            "١",
            "\0",
            " \0",
            "\u{feff}1",
            "1f",
            "1e5e5",
        ] {
            assert_eq!(text_to_number(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_nul_ends_the_number_and_costs_exactness() {
        assert_eq!(text_to_number(b"12\0"), Some(Number::Integer(12)));
        assert_eq!(text_to_number(b"12 \0abc"), Some(Number::Integer(12)));
        assert_eq!(text_to_number(b"12a\0"), None);
        assert_eq!(
            text_to_number(b"9007199254740993\0"),
            Some(Number::Integer(9_007_199_254_740_992))
        );
        assert_eq!(
            text_to_number(b"9223372036854775807\0"),
            Some(Number::Real(9_223_372_036_854_775_808.0))
        );
    }

    #[test]
    fn text_beyond_nineteen_digits_goes_to_the_nearest_double() {
        assert_eq!(
            text_to_number(b"3500000000000000.2500001"),
            Some(Number::Real(3_500_000_000_000_000.5))
        );
        assert_eq!(
            text_to_number(b"0.00000001368458500557"),
            Some(Number::Real(0.000_000_013_684_585_005_57))
        );
    }

    #[test]
    fn integers_are_written_plainly() {
        let mut text = NumberText::new();
        assert_eq!(text.as_bytes(), b"");
        for integer in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN] {
            assert_eq!(text.render_integer(integer), integer.to_string().as_bytes());
        }
    }

    #[test]
    fn reals_are_written_as_sqlite_writes_them() {
        let mut text = NumberText::new();
        for (real, expected) in [
            (0.0, "0.0"),
            (-0.0, "0.0"),
            (5.0, "5.0"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (49.47, "49.47"),
            (0.0001, "0.0001"),
            (0.000_01, "1.0e-05"),
            (1e15, "1000000000000000.0"),
            (1e16, "10000000000000000.0"),
            (1e17, "1.0e+17"),
            (1e100, "1.0e+100"),
            (1.0 / 3.0, "0.33333333333333332"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::INFINITY, "Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(text.render_real(real), expected.as_bytes(), "{real:e}");
        }
    }
}
