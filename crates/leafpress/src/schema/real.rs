//! A real number as it was read from a text, and as SQLite stores it.
//!
//! Below `exact.rs` and `decimal.rs`, which read texts. Must never: read a text.

use leafpress_format::Number;

/// Decimal digits that always survive a double (`DBL_DIG`).
pub const DIGITS_SAFE: usize = 15;

/// Integers that fit six bytes.
pub const SIX_BYTE_INTEGERS: std::ops::Range<i64> = -(1 << 47)..1 << 47;

/// The bits of [`KeptReal::marks`].
pub mod marks {
    /// The number has a fraction. Each number has exactly one of this and the next two marks.
    pub const FRACTION: u8 = 1;
    /// A whole number, written as a plain integer.
    pub const PLAIN: u8 = 2;
    /// A whole number, written with a point or an exponent.
    pub const OTHERWISE: u8 = 4;
    /// Written otherwise than `shown_real` writes it: with a
    /// needless zero or exponent, without a digit before or after the point, or as a
    /// negative zero. The `.0` of a whole number may be there or not.
    pub const CHANGED: u8 = 1 << CHANGED_BIT;
    /// The place of [`CHANGED`].
    pub const CHANGED_BIT: u8 = 3;
}

/// A real number and how its text was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeptReal {
    /// The double; its shortest decimal form has the text's value.
    pub value: f64,
    /// Digits after the point; 0 if there is none.
    pub scale: u8,
    /// True if the last digit after the point is a zero.
    pub ends_in_zero: bool,
    /// The kind of number, and whether its form changes: see [`marks`].
    pub marks: u8,
    /// The number as an integer, if it is a whole number that fits six bytes: SQLite stores
    /// such a number as an integer, also in a REAL column.
    pub integral: Option<i64>,
}

impl KeptReal {
    /// The number as a REAL column stores it.
    #[inline(always)]
    pub fn stored(self) -> Number {
        self.integral.map_or(Number::Real(self.value), Number::Integer)
    }
}

/// Returns the number that a REAL column stores for `value`: SQLite stores whole numbers of up
/// to six bytes as integers.
#[inline(always)]
pub fn stored_real(value: f64) -> Number {
    let integer = value as i64;
    #[expect(clippy::float_cmp, reason = "exactly integral is the question")]
    if integer as f64 == value && SIX_BYTE_INTEGERS.contains(&integer) {
        Number::Integer(integer)
    } else {
        Number::Real(value)
    }
}
