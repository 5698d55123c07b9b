//! Decimal numbers by their value: which texts a double keeps, however they are written.
//!
//! Purpose: a REAL column by the default rule takes `2.50`, `1e-05`, `.5` and
//! `-0.0`, as a double keeps their values. All rules, JSON's too, ask here whether a double
//! keeps the digits of a text. It does if the double's shortest form has the same digits;
//! zeros at either end, the point and the exponent are taken away before the comparison.
//!
//! Must never: take a text that may be a code. A leading zero (`007`), a plus
//! sign, an integer beyond 64 bits, `-0`, and exponents of four digits and more (every
//! double is written with three) are no numbers here.

use leafpress_format::Number;

use super::real::{DIGITS_SAFE, KeptReal, marks, stored_real};

/// Powers of ten that a double holds exactly: one rounding is the right one.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Digits of an exponent.
const EXPONENT_DIGITS_MAX: usize = 3;

/// The number that a text is, if a double keeps its value and the text looks like no code.
#[inline(never)]
pub fn kept_decimal(text: &[u8]) -> Option<KeptReal> {
    let parts = Parts::of(text)?;
    if parts.exponent_digits().is_some_and(|digits| !(1..=EXPONENT_DIGITS_MAX).contains(&digits)) {
        return None;
    }
    if parts.whole.len() > 1 && parts.whole[0] == b'0' {
        return None;
    }
    let value = parts.double()?;
    let is_plain = parts.is_plain();
    if is_plain && (parse_integer(text).is_none() || (parts.negative && value == 0.0)) {
        return None;
    }
    let form = if is_plain {
        marks::PLAIN
    } else if value.fract() == 0.0 {
        marks::OTHERWISE
    } else {
        marks::FRACTION
    };
    let is_changed = match parts.exponent {
        Some(_) => shown_real(value).as_bytes() != text,
        None => parts.has_odd_digits() || (parts.negative && value == 0.0),
    };
    let changed = if is_changed { marks::CHANGED } else { 0 };
    let integral = match stored_real(value) {
        Number::Integer(integer) => Some(integer),
        Number::Real(_) => None,
    };
    Some(KeptReal {
        value,
        scale: u8::try_from(parts.fraction.len()).unwrap_or(u8::MAX),
        ends_in_zero: parts.fraction.ends_with(b"0"),
        marks: form | changed,
        integral,
    })
}

/// The double that has the value of a decimal number; `None` if there is none. Zero has
/// no sign.
pub fn kept_double(text: &[u8]) -> Option<f64> {
    Parts::of(text)?.double()
}

fn parse_integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A real in as few digits as it needs, with a point, and with an exponent where SQLite
/// writes one: `2.5`, `39.0`, `1.0e-05`.
pub fn shown_real(value: f64) -> String {
    const EXPONENT_BELOW: f64 = 1e-4;
    const EXPONENT_FROM: f64 = 1e17;
    let size = value.abs();
    if value == 0.0 || (EXPONENT_BELOW..EXPONENT_FROM).contains(&size) {
        let text = value.to_string();
        return if text.contains('.') { text } else { text + ".0" };
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if mantissa.contains('.') { "" } else { ".0" };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}{point}e{sign}{exponent:0>2}")
}

/// A decimal number, taken apart: digits, perhaps with a sign, a point and an exponent.
struct Parts<'t> {
    text: &'t [u8],
    negative: bool,
    whole: &'t [u8],
    has_point: bool,
    fraction: &'t [u8],
    /// With its sign; `None` if there is no `e`.
    exponent: Option<&'t [u8]>,
}

impl<'t> Parts<'t> {
    /// `None` if the text is not of that form, or has no digit.
    fn of(text: &'t [u8]) -> Option<Self> {
        let unsigned = text.strip_prefix(b"-").unwrap_or(text);
        let digits = |from: &[u8]| from.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (whole, mut rest) = unsigned.split_at(digits(unsigned));
        let (mut has_point, mut fraction) = (false, &b""[..]);
        if let Some(after) = rest.strip_prefix(b".") {
            has_point = true;
            (fraction, rest) = after.split_at(digits(after));
        }
        let exponent = match rest {
            [] => None,
            [b'e' | b'E', exponent @ ..] => {
                let unsigned = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+"));
                let unsigned = unsigned.unwrap_or(exponent);
                if unsigned.is_empty() || digits(unsigned) < unsigned.len() {
                    return None;
                }
                Some(exponent)
            }
            _ => return None,
        };
        let negative = unsigned.len() < text.len();
        let has_digit = !whole.is_empty() || !fraction.is_empty();
        has_digit.then_some(Self { text, negative, whole, has_point, fraction, exponent })
    }

    fn is_plain(&self) -> bool {
        !self.has_point && self.exponent.is_none()
    }

    /// Returns true if a number without exponent has a needless zero, or lacks a digit beside
    /// its point.
    fn has_odd_digits(&self) -> bool {
        let ends_in_zero = self.fraction.len() > 1 && self.fraction.ends_with(b"0");
        let lacks_digit = self.whole.is_empty() || self.fraction.is_empty();
        self.has_point && (ends_in_zero || lacks_digit)
    }

    fn exponent_digits(&self) -> Option<usize> {
        self.exponent.map(|exponent| exponent.iter().filter(|byte| byte.is_ascii_digit()).count())
    }

    /// The double, if its shortest form has the same digits.
    fn double(&self) -> Option<f64> {
        let ours = self.significant();
        if ours.count == 0 {
            return Some(0.0);
        }
        if ours.count <= DIGITS_SAFE && ours.power.unsigned_abs() < POWERS_OF_TEN.len() as u64 {
            let magnitude =
                ours.digits().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
            let factor = POWERS_OF_TEN[ours.power.unsigned_abs() as usize];
            let magnitude = magnitude as f64;
            let value = if ours.power < 0 { magnitude / factor } else { magnitude * factor };
            return Some(if self.negative { -value } else { value });
        }
        let value: f64 = std::str::from_utf8(self.text).ok()?.parse().ok()?;
        if !value.is_finite() || value == 0.0 {
            return None;
        }
        let mut buffer = zmij::Buffer::new();
        let shortest = Parts::of(buffer.format_finite(value).as_bytes())?;
        let shortest = shortest.significant();
        let same = ours.power == shortest.power && ours.digits().eq(shortest.digits());
        same.then_some(value)
    }

    fn significant(&self) -> Significant<'t> {
        let digits = || self.whole.iter().chain(self.fraction);
        let is_zero = |digit: &&u8| **digit == b'0';
        let all = self.whole.len() + self.fraction.len();
        let leading = digits().take_while(is_zero).count();
        if leading == all {
            return Significant { whole: b"", fraction: b"", leading: 0, count: 0, power: 0 };
        }
        let trailing = digits().rev().take_while(is_zero).count();
        let exponent = self.exponent.map_or(0, saturating_integer);
        let power = exponent.saturating_sub(self.fraction.len() as i64);
        Significant {
            whole: self.whole,
            fraction: self.fraction,
            leading,
            count: all - leading - trailing,
            power: power.saturating_add(trailing as i64),
        }
    }
}

/// The digits of a number without zeros at either end, and the power of ten of the last
/// of them.
struct Significant<'t> {
    whole: &'t [u8],
    fraction: &'t [u8],
    leading: usize,
    count: usize,
    power: i64,
}

impl Significant<'_> {
    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.whole.iter().chain(self.fraction).skip(self.leading).take(self.count).copied()
    }
}

/// The integer; the smallest or the largest 64-bit one for an exponent that does not fit 64 bits.
fn saturating_integer(digits: &[u8]) -> i64 {
    let end = if digits.starts_with(b"-") { i64::MIN } else { i64::MAX };
    parse_integer(digits).unwrap_or(end)
}

/// The reason why a text is no integer as an INTEGER column takes it, in words that follow it.
pub fn why_no_integer(text: &str) -> &'static str {
    let Some(parts) = Parts::of(text.as_bytes()) else { return why_no_number(text) };
    if !parts.is_plain() {
        return match parts.exponent {
            Some(_) => "has an exponent",
            None if parts.double().is_some_and(|value| value.fract() == 0.0) => "has a point",
            None => "is not a whole number",
        };
    }
    why_code(&parts).unwrap_or("is an integer beyond 64 bits")
}

/// The reason why a text is no real as a REAL column takes it, in words that follow it.
pub fn why_no_real(text: &str) -> &'static str {
    let Some(parts) = Parts::of(text.as_bytes()) else { return why_no_number(text) };
    if let Some(why) = why_code(&parts) {
        return why;
    }
    if parts.is_plain() && parse_integer(text.as_bytes()).is_none() {
        return "is an integer beyond 64 bits";
    }
    if parts.exponent_digits().is_some_and(|digits| digits > EXPONENT_DIGITS_MAX) {
        return "has too long an exponent for a number";
    }
    match text.parse::<f64>() {
        Ok(value) if !value.is_finite() => "is too large for REAL",
        Ok(value) if value == 0.0 && parts.double().is_none() => "is too small for REAL",
        _ if parts.double().is_some() => "would not come back from a number as it is written",
        _ => "has more digits than REAL keeps",
    }
}

fn why_code(parts: &Parts<'_>) -> Option<&'static str> {
    if parts.whole.len() > 1 && parts.whole[0] == b'0' {
        Some("has a leading zero")
    } else if parts.negative && parts.is_plain() && parts.whole == b"0" {
        Some("is a zero with a sign")
    } else {
        None
    }
}

fn why_no_number(text: &str) -> &'static str {
    let trimmed = text.trim();
    if trimmed.len() < text.len() && Parts::of(trimmed.as_bytes()).is_some() {
        "has blanks around its number"
    } else if text.strip_prefix('+').is_some_and(|rest| Parts::of(rest.as_bytes()).is_some()) {
        "has a plus sign"
    } else {
        "is no number"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Option<f64> {
        kept_decimal(text.as_bytes()).map(|real| real.value)
    }

    #[test]
    fn values_that_a_double_keeps() {
        for (text, expected) in [
            ("2.50", 2.5),
            ("1e-05", 1e-5),
            ("1E+05", 1e5),
            (".5", 0.5),
            ("-.5", -0.5),
            ("5.", 5.0),
            ("-0.0", 0.0),
            ("0e0", 0.0),
            ("0E-10", 0.0),
            ("1.50000000000000000000000000", 1.5),
            ("1.7976931348623157e308", f64::MAX),
            ("5e-324", 5e-324),
            ("0.30000000000000004", 0.1 + 0.2),
            ("1e23", 1e23),
            ("100000000000000000000.0", 1e20),
            ("9007199254740992", 9_007_199_254_740_992.0),
        ] {
            assert_eq!(value(text).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        }
    }

    #[test]
    fn codes_and_what_no_double_keeps() {
        for text in [
            "",
            "-",
            ".",
            "-.",
            "e5",
            "1e",
            "1e+",
            "1.2.3",
            "007",
            "00.5",
            "-01",
            "+5",
            "0x1F",
            "NaN",
            "inf",
            "1_000",
            "1,5",
            " 1",
            "1 ",
            "-0",
            "1e400",
            "1e-400",
            "4.9e-324",
            "1e0005",
            "0e4620",
            "9007199254740993",
            "9223372036854775808",
            "100000000000000000000",
            "10.357019999999998",
            "--1",
            "1e5.0",
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn forms_that_change() {
        let changed = |text: &str| {
            kept_decimal(text.as_bytes()).unwrap_or_else(|| panic!("{text}")).marks & marks::CHANGED
                != 0
        };
        for text in ["2.5", "39", "39.0", "0.00001", "1.0e-05", "1.5e+20", "2100000.2344422", "0.0"]
        {
            assert!(!changed(text), "{text}");
        }
        for text in ["2.50", "39.00", "0.000010", "1e-05", "1e5", ".5", "5.", "-0.0", "1E3"] {
            assert!(changed(text), "{text}");
        }
    }

    #[test]
    fn reasons_are_words_that_follow_the_value() {
        for (text, integer, real) in [
            ("007", "has a leading zero", "has a leading zero"),
            ("1.5", "is not a whole number", "would not come back from a number as it is written"),
            ("2.0", "has a point", "would not come back from a number as it is written"),
            ("1e3", "has an exponent", "would not come back from a number as it is written"),
            ("x", "is no number", "is no number"),
            ("+5", "has a plus sign", "has a plus sign"),
            (" 5", "has blanks around its number", "has blanks around its number"),
            ("-0", "is a zero with a sign", "is a zero with a sign"),
            ("1e400", "has an exponent", "is too large for REAL"),
            ("1e-400", "has an exponent", "is too small for REAL"),
            ("9007199254740993", "is an integer beyond 64 bits", "has more digits than REAL keeps"),
            (
                "12345678901234567890",
                "is an integer beyond 64 bits",
                "is an integer beyond 64 bits",
            ),
        ] {
            assert_eq!((why_no_integer(text), why_no_real(text)), (integer, real), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// The standard library is the judge of the value.
        #[test]
        fn values_are_the_nearest_double(
            text in "-?[1-9][0-9]{0,17}(\\.[0-9]{0,8})?([eE][-+]?[0-9]{1,3})?"
        ) {
            let nearest: f64 = text.parse().unwrap_or(f64::NAN);
            if let Some(value) = value(&text) {
                prop_assert_eq!(value.to_bits(), nearest.to_bits(), "{}", text);
            }
        }

        #[test]
        fn every_double_is_kept(bits: u64) {
            let double = f64::from_bits(bits);
            if double.is_finite() && double != 0.0 {
                let text = zmij::Buffer::new().format_finite(double).to_owned();
                prop_assert_eq!(kept_double(text.as_bytes()), Some(double), "{}", text);
            }
        }
    }
}
