//! Evidence about a typed column: the type that its values allow.
//!
//! | values | declared | result |
//! |---|---|---|
//! | none | TEXT | |
//! | none but NaN, which is stored as NULL | REAL | |
//! | integers | INTEGER | |
//! | reals, and integers that a double holds exactly | REAL | integers become reals of the same value |
//! | whole numbers of CSV, one in two forms | TEXT | |
//! | other numbers | NUMERIC | all keep their value; integral reals become integers |
//! | text, perhaps with numbers | TEXT | numbers become text, as the input spells them |
//! | blobs | BLOB | |
//! | blobs and others | none | all stay as they are |
//!
//! STRICT tables have no NUMERIC and no column without a type: both become ANY, and all values stay
//! as they are.
//!
//! Evidence of stretches of the input is merged in order, so that threads can read stretches side
//! by side with the same outcome.

use leafpress_format::{Affinity, Value};

use super::{TypeRule, is_exact_in_double};
use crate::schema::{WholeNumbers, Witness};

/// Evidence of one column so far: the first value of each class.
#[derive(Debug, Clone, Default)]
pub struct TypedEvidence {
    integer: Option<Witness>,
    /// An integer that no double equals.
    wide_integer: Option<Witness>,
    real: Option<Witness>,
    text: Option<Witness>,
    blob: Option<Witness>,
    has_nan: bool,
    /// True if a number has a fraction.
    has_fraction: bool,
    /// Whole numbers that stand as texts in their inputs.
    wholes: WholeNumbers,
    /// True if the very first value was a blob.
    begins_with_blob: bool,
}

/// Type that fits all values, with the value that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedVerdict {
    /// Type to declare; empty for none.
    pub declared_type: &'static str,
    /// Way in which values are stored.
    pub rule: TypeRule,
    /// First value that ruled a narrower type out.
    pub decided_by: Option<Witness>,
    /// Reason, in words.
    pub reason: &'static str,
}

impl TypedEvidence {
    /// Adds a value. `witness` returns its place; it is called for few values.
    #[inline]
    pub fn add(&mut self, value: Value<'_>, witness: impl Fn() -> Witness) {
        let first = match value {
            Value::Null => return,
            Value::Integer(integer) => {
                if self.wide_integer.is_none() && !is_exact_in_double(integer) {
                    self.wide_integer = Some(witness());
                }
                &mut self.integer
            }
            // SQLite stores NaN as NULL.
            Value::Real(real) if real.is_nan() => {
                self.has_nan = true;
                return;
            }
            Value::Real(real) => {
                self.has_fraction |= real.fract() != 0.0;
                &mut self.real
            }
            Value::Text(_) => &mut self.text,
            Value::Blob(_) => &mut self.blob,
        };
        if first.is_some() {
            return;
        }
        *first = Some(witness());
        let is_blob = matches!(value, Value::Blob(_));
        self.begins_with_blob |= is_blob && !self.has_other_than_blob();
    }

    /// Adds a whole number that stands as a text in its input, by how it is written there.
    pub fn add_whole(&mut self, number: f64, is_plain: bool, witness: impl Fn() -> Witness) {
        self.wholes.add(number, is_plain, witness);
    }

    /// Returns true if all values so far are numbers without a fraction, and some are no plain integers:
    /// whether they may be REAL is open until all values are known.
    pub fn is_whole_real(&self) -> bool {
        self.real.is_some() && !self.has_fraction && self.text.is_none() && self.blob.is_none()
    }

    fn whole_in_two_forms(&self) -> Option<&Witness> {
        self.wholes.written_both_ways().filter(|_| !self.has_fraction)
    }

    fn has_other_than_blob(&self) -> bool {
        self.integer.is_some() || self.real.is_some() || self.text.is_some()
    }

    fn is_empty(&self) -> bool {
        self.blob.is_none() && !self.has_other_than_blob()
    }

    /// Adds the evidence of a later stretch.
    pub fn merge(&mut self, later: Self) {
        let has_nan = self.has_nan || later.has_nan;
        if self.is_empty() {
            *self = Self { has_nan, ..later };
            return;
        }
        self.has_nan = has_nan;
        self.has_fraction |= later.has_fraction;
        self.wholes.merge(later.wholes);
        self.integer = self.integer.take().or(later.integer);
        self.wide_integer = self.wide_integer.take().or(later.wide_integer);
        self.real = self.real.take().or(later.real);
        self.text = self.text.take().or(later.text);
        self.blob = self.blob.take().or(later.blob);
    }

    /// The type that fits, for a table that is STRICT or not.
    pub fn verdict(&self, strict: bool) -> TypedVerdict {
        let as_they_are = TypeRule::Affinity(Affinity::Blob);
        let untyped = if strict { "ANY" } else { "" };
        let (declared_type, rule, decided_by, reason) = if self.is_empty() && self.has_nan {
            ("REAL", TypeRule::EmptyReal, None, "no value but NaN, which is stored as null")
        } else if self.is_empty() {
            ("TEXT", TypeRule::Empty, None, "no value: all are null")
        } else if self.blob.is_some() {
            if !self.has_other_than_blob() {
                ("BLOB", TypeRule::Blob, None, "every value is a blob")
            } else if self.begins_with_blob {
                let others = [&self.integer, &self.real, &self.text].into_iter().flatten();
                let other = others.min_by_key(|witness| witness.place()).cloned();
                (untyped, as_they_are, other, "is no blob, as others are")
            } else {
                (untyped, as_they_are, self.blob.clone(), "is a blob, and others are not")
            }
        } else if self.text.is_some() {
            ("TEXT", TypeRule::Text, self.text.clone(), "is text")
        } else if self.real.is_none() {
            ("INTEGER", TypeRule::Integer, None, "every value is a whole number")
        } else if let Some(witness) = self.whole_in_two_forms() {
            let reason = "stands there as a plain integer too, and all are whole numbers";
            ("TEXT", TypeRule::Text, Some(witness.clone()), reason)
        } else if self.wide_integer.is_none() {
            ("REAL", TypeRule::Real, self.real.clone(), "is a real number")
        } else {
            let reason = "is too large an integer for REAL, as other values are";
            let (declared, rule) =
                if strict { (untyped, as_they_are) } else { ("NUMERIC", TypeRule::Number) };
            (declared, rule, self.wide_integer.clone(), reason)
        };
        TypedVerdict { declared_type, rule, decided_by, reason }
    }
}
