//! Column affinity: what a column makes of a value. SQLite applies it while it stores the
//! value.
//!
//! Purpose: a pressed row must hold what stock SQLite would hold after
//! an INSERT into a column of the same declared type, in storage class and value.
//!
//! Must never: reject a value. Affinity converts what it can without
//! loss and leaves the rest alone; STRICT tables and hand-given types judge
//! the outcome elsewhere.
//!
//! Place: above [`crate::number`], before the record encoder. The encoder decides how a REAL
//! column packs an integral value; here the value is a real.

use crate::Value;
use crate::number::{NumberText, integral, text_to_number};

/// The conversion that a column applies to the values stored in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Affinity {
    /// Stores everything as it is.
    Blob,
    /// Stores numbers as text.
    Text,
    /// Stores text that looks like a number as one, and integral reals as integers.
    Numeric,
    /// Stores the same as `Numeric`; only casts tell them apart.
    Integer,
    /// Stores numbers, and text that looks like one, as reals.
    Real,
}

impl Affinity {
    /// The affinity of a column whose type was declared as `declared_type`, as
    /// `PRAGMA table_info` shows it: empty if none was declared.
    ///
    /// One declaration cannot be told from that text: the quoted empty type
    /// (`CREATE TABLE t(a "")`) is shown as empty too, but is NUMERIC.
    ///
    /// ```
    /// use leafpress_format::Affinity;
    /// assert_eq!(Affinity::of_declared_type("VARCHAR(20)"), Affinity::Text);
    /// assert_eq!(Affinity::of_declared_type("FLOATING POINT"), Affinity::Integer);
    /// assert_eq!(Affinity::of_declared_type("STRING"), Affinity::Numeric);
    /// ```
    pub fn of_declared_type(declared_type: &str) -> Self {
        let has = |part: &str| {
            let windows = declared_type.as_bytes().windows(part.len());
            windows.into_iter().any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
        };
        // The order is SQLite's: "CHARINT" is an integer, "BLOBTEXT" a text.
        if has("INT") {
            Self::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Self::Text
        } else if declared_type.is_empty() || has("BLOB") {
            Self::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Self::Real
        } else {
            Self::Numeric
        }
    }

    /// The value that a column of this affinity holds after `value` was inserted into it.
    ///
    /// `scratch` takes the text of a number under TEXT affinity; otherwise it
    /// is not touched. A NaN becomes NULL under every affinity.
    pub fn apply<'a>(self, value: Value<'a>, scratch: &'a mut NumberText) -> Value<'a> {
        match (self, value) {
            (_, Value::Real(real)) if real.is_nan() => Value::Null,
            (Self::Text, Value::Integer(integer)) => Value::Text(scratch.render_integer(integer)),
            (Self::Text, Value::Real(real)) => Value::Text(scratch.render_real(real)),
            (Self::Numeric | Self::Integer, Value::Text(text)) => {
                text_to_number(text).map_or(value, Value::from)
            }
            (Self::Numeric | Self::Integer, Value::Real(real)) => {
                integral(real).map_or(value, Value::Integer)
            }
            (Self::Real, Value::Text(text)) => {
                text_to_number(text).map_or(value, |number| Value::Real(number.to_real()))
            }
            (Self::Real, Value::Integer(integer)) => Value::Real(integer as f64),
            // SQLite goes through the integer 0 here, which has no sign.
            (Self::Real, Value::Real(0.0)) => Value::Real(0.0),
            _ => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(affinity: Affinity, value: Value<'_>) -> String {
        format!("{:?}", affinity.apply(value, &mut NumberText::new()))
    }

    #[test]
    fn declared_types_follow_the_order_of_the_rules() {
        for (declared_type, expected) in [
            ("", Affinity::Blob),
            ("INT", Affinity::Integer),
            ("bigint unsigned", Affinity::Integer),
            ("CHARINT", Affinity::Integer),
            ("FLOATING POINT", Affinity::Integer),
            ("VARCHAR(20)", Affinity::Text),
            ("NATIVE CHARACTER(70)", Affinity::Text),
            ("cLoB", Affinity::Text),
            ("BLOBTEXT", Affinity::Text),
            ("REALBLOB", Affinity::Blob),
            ("BLOBREAL", Affinity::Blob),
            ("DOUBLE PRECISION", Affinity::Real),
            ("float", Affinity::Real),
            ("REAL", Affinity::Real),
            ("STRING", Affinity::Numeric),
            ("DECIMAL(10,5)", Affinity::Numeric),
            ("BOOLEAN", Affinity::Numeric),
            ("ANY", Affinity::Numeric),
            (" ", Affinity::Numeric),
            ("IN T", Affinity::Numeric),
            ("ıNT", Affinity::Numeric),
        ] {
            assert_eq!(Affinity::of_declared_type(declared_type), expected, "{declared_type:?}");
        }
    }

    #[test]
    fn null_and_blob_never_change() {
        for affinity in
            [Affinity::Blob, Affinity::Text, Affinity::Numeric, Affinity::Integer, Affinity::Real]
        {
            assert_eq!(applied(affinity, Value::Null), "Null");
            assert_eq!(applied(affinity, Value::Blob(b"1")), "Blob([49])");
            assert_eq!(applied(affinity, Value::Real(f64::NAN)), "Null");
        }
    }

    #[test]
    fn a_real_column_shows_reals_without_minus_zero() {
        assert_eq!(applied(Affinity::Real, Value::Integer(i64::MAX)), "Real(9.223372036854776e18)");
        assert_eq!(
            applied(Affinity::Real, Value::from("9007199254740993")),
            "Real(9007199254740992.0)"
        );
        assert_eq!(applied(Affinity::Real, Value::Real(-0.0)), "Real(0.0)");
        assert_eq!(applied(Affinity::Real, Value::from("-0.0")), "Real(0.0)");
        assert_eq!(applied(Affinity::Real, Value::from("0x10")), "Text([48, 120, 49, 48])");
        assert_eq!(applied(Affinity::Blob, Value::Real(-0.0)), "Real(-0.0)");
    }

    #[test]
    fn a_text_column_holds_numbers_as_text() {
        assert_eq!(applied(Affinity::Text, Value::Integer(-7)), "Text([45, 55])");
        assert_eq!(applied(Affinity::Text, Value::Real(5.0)), "Text([53, 46, 48])");
        assert_eq!(applied(Affinity::Text, Value::from("5.0")), "Text([53, 46, 48])");
    }

    #[test]
    fn a_numeric_column_prefers_integers() {
        for affinity in [Affinity::Numeric, Affinity::Integer] {
            assert_eq!(applied(affinity, Value::Real(3.0)), "Integer(3)");
            assert_eq!(applied(affinity, Value::Real(3.5)), "Real(3.5)");
            assert_eq!(applied(affinity, Value::Real(-0.0)), "Integer(0)");
            assert_eq!(applied(affinity, Value::Real(9.3e18)), "Real(9.3e18)");
            assert_eq!(applied(affinity, Value::from("1e3")), "Integer(1000)");
            assert_eq!(applied(affinity, Value::from("")), "Text([])");
        }
    }
}
