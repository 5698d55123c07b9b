//! A JSON number to an integer or a double, if nothing is lost by it.
//!
//! JSON gives numbers a value and no presentation: `1.50` and `15e-1` are the
//! same number. So what counts is whether the value survives: an integer of 64
//! bits always does, a decimal if its double's shortest form has the value of
//! the text. What does not survive (`12345678901234567890`,
//! `0.1000000000000000055`, `1e400`) stays the text that it is.
//!
//! The columns of a CSV file have the same rule for reals, but for texts that may be
//! codes (see `schema::decimal`).
//!
//! Must never: take what is no number in JSON (`01`, `+1`, `.5`, `1.`, `NaN`).

use super::fault::{Fault, What};
use crate::schema::kept_double;

/// Digits that always survive a double (`DBL_DIG`).
const DIGITS_SAFE: usize = 15;

/// Powers of ten that a double holds exactly: one rounding is the right one.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// Digits that always fit 64 bits.
const INTEGER_DIGITS_SAFE: usize = 18;

/// A number as it is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A 64-bit integer.
    Integer(i64),
    /// A double.
    Real(f64),
    /// Its text.
    Text,
}

/// Reads the number at `at`; returns it and the offset behind it.
#[inline(always)]
pub fn number(bytes: &[u8], at: usize) -> Result<(Number, usize), Fault> {
    let negative = bytes.get(at) == Some(&b'-');
    let digits_at = at + usize::from(negative);
    let mut magnitude = 0_u64;
    let mut end = digits(bytes, digits_at, &mut magnitude);
    let count = end - digits_at;
    if count == 0 {
        return Err(Fault::new(end, What::DigitExpected));
    }
    if count > 1 && bytes[digits_at] == b'0' {
        return Err(Fault::new(digits_at, What::LeadingZero));
    }
    let mut scale = 0;
    let mut exponent = 0;
    match bytes.get(end) {
        Some(b'.' | b'e' | b'E') => {}
        _ if count <= INTEGER_DIGITS_SAFE => {
            let magnitude = magnitude as i64;
            return Ok((Number::Integer(if negative { -magnitude } else { magnitude }), end));
        }
        _ => return Ok((long_integer(&bytes[at..end]), end)),
    }
    if bytes[end] == b'.' {
        let fraction_at = end + 1;
        end = digits(bytes, fraction_at, &mut magnitude);
        scale = end - fraction_at;
        if scale == 0 {
            return Err(Fault::new(end, What::DigitExpected));
        }
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        (exponent, end) = read_exponent(bytes, end + 1)?;
    }
    let power = exponent.saturating_sub(scale as i32);
    if count + scale > DIGITS_SAFE || power.unsigned_abs() as usize >= POWERS_OF_TEN.len() {
        return Ok((long_real(&bytes[at..end]), end));
    }
    let factor = POWERS_OF_TEN[power.unsigned_abs() as usize];
    let magnitude = magnitude as f64;
    let value = if power < 0 { magnitude / factor } else { magnitude * factor };
    // SQLite has no negative zero.
    Ok((Number::Real(if negative && value != 0.0 { -value } else { value }), end))
}

/// Adds the digits at `at` to `magnitude`, which wraps; returns where they end.
#[inline(always)]
fn digits(bytes: &[u8], mut at: usize, magnitude: &mut u64) -> usize {
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0'))
        && digit <= 9
    {
        *magnitude = magnitude.wrapping_mul(10).wrapping_add(digit.into());
        at += 1;
    }
    at
}

/// Reads the exponent at `at`, behind the `e`; it saturates.
#[inline(never)]
fn read_exponent(bytes: &[u8], at: usize) -> Result<(i32, usize), Fault> {
    let negative = bytes.get(at) == Some(&b'-');
    let mut end = at + usize::from(matches!(bytes.get(at), Some(b'-' | b'+')));
    let digits_at = end;
    let mut magnitude = 0_i32;
    while let Some(digit @ b'0'..=b'9') = bytes.get(end) {
        magnitude = magnitude.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
        end += 1;
    }
    if end == digits_at {
        return Err(Fault::new(end, What::DigitExpected));
    }
    Ok((if negative { -magnitude } else { magnitude }, end))
}

#[inline(never)]
fn long_integer(text: &[u8]) -> Number {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    parsed.map_or(Number::Text, Number::Integer)
}

/// Many digits or a far exponent: compared with the double's shortest form.
#[inline(never)]
fn long_real(text: &[u8]) -> Number {
    kept_double(text).map_or(Number::Text, Number::Real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Number {
        let (number, end) = number(text.as_bytes(), 0).unwrap_or_else(|_| panic!("{text}"));
        assert_eq!(end, text.len(), "{text}");
        number
    }

    #[test]
    fn integers_are_exact_or_text() {
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("7", 7),
            ("-42", -42),
            ("999999999999999999", 999_999_999_999_999_999),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(read(text), Number::Integer(expected), "{text}");
        }
        for text in ["9223372036854775808", "-9223372036854775809", "18446744073709551616"] {
            assert_eq!(read(text), Number::Text, "{text}");
        }
    }

    #[test]
    fn reals_keep_their_value_or_are_text() {
        for (text, expected) in [
            ("0.1", 0.1),
            ("1.50", 1.5),
            ("1e3", 1000.0),
            ("1E+3", 1000.0),
            ("15e-1", 1.5),
            ("-2.5e-3", -0.0025),
            ("5.0", 5.0),
            ("1e22", 1e22),
            ("1e300", 1e300),
            ("1.7976931348623157e308", f64::MAX),
            ("5e-324", 5e-324),
            ("0.30000000000000004", 0.1 + 0.2),
            ("100000000000000000000.0", 1e20),
            ("0.00000000000000000000000000001", 1e-29),
            ("0e999999999999999999999999", 0.0),
        ] {
            assert_eq!(read(text), Number::Real(expected), "{text}");
        }
        let Number::Real(zero) = read("-0.0") else { panic!("-0.0 is a real") };
        assert!(zero.is_sign_positive());
        for text in [
            "1e400",
            "1e-400",
            "-1e99999999999999999999999",
            "0.1000000000000000055511151231257827",
            "12345678901234567890.5",
            "10.357019999999998",
            "9007199254740993.0",
        ] {
            assert_eq!(read(text), Number::Text, "{text}");
        }
    }

    #[test]
    fn what_is_no_number() {
        for (text, at) in
            [("-", 1), ("01", 0), ("-00", 1), ("1.", 2), ("1.e5", 2), ("1e", 2), ("1e+", 3)]
        {
            let fault = number(text.as_bytes(), 0).unwrap_err();
            assert_eq!(fault.at, at, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// The standard library is the judge of the value.
        #[test]
        fn short_decimals_are_the_nearest_double(
            text in "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,9})?([eE][-+]?[0-9]{1,2})?"
        ) {
            let expected: f64 = text.parse().unwrap();
            match read(&text) {
                Number::Integer(integer) => prop_assert_eq!(text.parse::<i64>().unwrap(), integer),
                // Zero has no sign here.
                Number::Real(real) => {
                    prop_assert_eq!(real.to_bits(), (expected + 0.0).to_bits(), "{}", text);
                }
                Number::Text => prop_assert!(text.len() > DIGITS_SAFE, "{}", text),
            }
        }

        #[test]
        fn every_double_is_kept(bits: u64) {
            let value = f64::from_bits(bits);
            if value.is_finite() && value != 0.0 {
                let text = zmij::Buffer::new().format_finite(value).to_owned();
                prop_assert_eq!(read(&text), Number::Real(value), "{}", text);
            }
        }
    }
}
