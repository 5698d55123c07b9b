//! What the values of a column say about its type.
//!
//! A column is INTEGER or REAL only if every value comes back as the text it
//! was; else it is TEXT. For REAL one form must fit the whole column, so that
//! the text can be had back from the number and the column's form alone:
//!
//! | form | `39` | `39.0` | `39.5` | `39.50` |
//! |---|---|---|---|---|
//! | shortest, whole numbers bare | yes | no | yes | no |
//! | shortest, whole numbers with `.0` | no | yes | yes | no |
//! | fixed: every value has the same number of decimals | no | one | one | two |
//!
//! So prices (`12.50`, `3.00`) are REAL, measurements (`39`, `39.02`) are
//! REAL, and version numbers (`1.1`, `1.10`) stay TEXT.
//!
//! Evidence of stretches of the input is merged in order, so that stretches
//! can be looked at on many threads with the same outcome.

use super::exact::{ExactReal, HEADROOM_BYTES, exact_integer, exact_real};
use super::table::ColumnType;

const SHORTEST_BARE: u8 = 1;
const SHORTEST_POINT_ZERO: u8 = 2;
const FIXED: u8 = 4;
const ALL_FORMS: u8 = SHORTEST_BARE | SHORTEST_POINT_ZERO | FIXED;

/// A value and the place where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Line of the value, from 1.
    pub line: u64,
    /// The value, cut where long.
    pub value: String,
}

impl Witness {
    /// Whether REAL would keep this value, if it were the only one.
    fn is_exact_real(&self) -> bool {
        let mut source = vec![0; HEADROOM_BYTES];
        source.extend_from_slice(self.value.as_bytes());
        exact_real(&source, HEADROOM_BYTES, source.len(), 0).is_some()
    }
}

/// What is known of one column after some values.
#[derive(Debug, Clone, Default)]
pub struct ColumnEvidence {
    first_value: Option<Witness>,
    first_not_integer: Option<Witness>,
    /// The value that left no form for REAL.
    first_not_real: Option<Witness>,
    forms: RealForms,
}

/// The forms of REAL that all values so far have.
#[derive(Debug, Clone, Copy)]
pub struct RealForms {
    alive: u8,
    scale: Option<u8>,
}

impl Default for RealForms {
    fn default() -> Self {
        Self { alive: ALL_FORMS, scale: None }
    }
}

impl RealForms {
    /// How many decimals the next value may well have.
    #[inline(always)]
    pub fn scale_hint(self) -> usize {
        usize::from(self.scale.unwrap_or(0))
    }

    /// Adds a value; false if no form is left.
    #[inline(always)]
    pub fn add(&mut self, real: ExactReal) -> bool {
        let scale = real.scale;
        let fits = match (scale, real.ends_in_zero) {
            (0, _) => SHORTEST_BARE,
            (1, true) => SHORTEST_POINT_ZERO | FIXED,
            (_, true) => FIXED,
            (_, false) => ALL_FORMS,
        };
        self.alive &= fits;
        if *self.scale.get_or_insert(scale) != scale {
            self.alive &= !FIXED;
        }
        self.alive != 0
    }

    /// Adds the forms of a later stretch; false if no form is left.
    pub fn merge(&mut self, later: Self) -> bool {
        self.alive &= later.alive;
        match (self.scale, later.scale) {
            (Some(one), Some(other)) if one != other => self.alive &= !FIXED,
            (None, scale) => self.scale = scale,
            _ => {}
        }
        self.alive != 0
    }
}

/// The type that the values leave, and the value that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The type; `None` if there was no value at all.
    pub column_type: Option<ColumnType>,
    /// The value that ruled the narrower type out.
    pub decided_by: Option<Witness>,
    /// Why, in words.
    pub reason: &'static str,
}

impl ColumnEvidence {
    /// Adds the value at `start..end` of `source`; `witness` says where it
    /// stands, and is called for few values.
    ///
    /// [`super::HEADROOM_BYTES`] must precede `start`.
    #[inline]
    pub fn add(&mut self, source: &[u8], start: usize, end: usize, witness: impl Fn() -> Witness) {
        if self.first_value.is_none() {
            self.first_value = Some(witness());
        }
        if self.first_not_integer.is_none() && exact_integer(source, start, end).is_none() {
            self.first_not_integer = Some(witness());
        }
        if self.first_not_real.is_none() {
            let real = exact_real(source, start, end, self.forms.scale_hint());
            if !real.is_some_and(|real| self.forms.add(real)) {
                self.first_not_real = Some(witness());
            }
        }
    }

    /// Adds what is known of a later stretch.
    pub fn merge(&mut self, later: Self) {
        let forms_left = self.forms.merge(later.forms);
        if self.first_not_real.is_none() {
            self.first_not_real = later.first_not_real;
            if self.first_not_real.is_none() && !forms_left {
                self.first_not_real.clone_from(&later.first_value);
            }
        }
        self.first_not_integer = self.first_not_integer.take().or(later.first_not_integer);
        self.first_value = self.first_value.take().or(later.first_value);
    }

    /// The type that is left.
    pub fn verdict(&self) -> Verdict {
        let (column_type, decided_by, reason) = if self.first_value.is_none() {
            (None, None, "no value: all fields are empty or null")
        } else if self.first_not_integer.is_none() {
            (Some(ColumnType::Integer), None, "every value is a whole number")
        } else if self.first_not_real.is_none() {
            (Some(ColumnType::Real), self.first_not_integer.clone(), "is not a whole number")
        } else {
            let reason = match &self.first_not_real {
                Some(witness) if witness.is_exact_real() => "no form of REAL fits it and the rest",
                _ => "would not come back from a number",
            };
            (Some(ColumnType::Text), self.first_not_real.clone(), reason)
        };
        Verdict { column_type, decided_by, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn evidence(values: &[&str], first_line: u64) -> ColumnEvidence {
        let mut evidence = ColumnEvidence::default();
        for (line, value) in (first_line..).zip(values) {
            let source = format!("________________{value},");
            let witness = || Witness { line, value: (*value).to_owned() };
            evidence.add(source.as_bytes(), 16, 16 + value.len(), witness);
        }
        evidence
    }

    fn detected(values: &[&str]) -> Option<ColumnType> {
        evidence(values, 1).verdict().column_type
    }

    #[test]
    fn a_column_keeps_its_text() {
        use ColumnType::{Integer, Real, Text};
        for (values, expected) in [
            (&["1", "-20", "0"][..], Some(Integer)),
            (&["9007199254740993", "1"], Some(Integer)),
            (&["9007199254740993", "1.5"], Some(Text)),
            (&["9007199254740993", "x"], Some(Text)),
            (&["39", "39.02"], Some(Real)),
            (&["39.0", "39.02"], Some(Real)),
            (&["39", "39.0"], Some(Text)),
            (&["12.50", "3.00"], Some(Real)),
            (&["1.1", "1.10"], Some(Text)),
            (&["12.50", "3"], Some(Text)),
            (&["00501", "1"], Some(Text)),
            (&["1e3"], Some(Text)),
            (&[], None),
        ] {
            assert_eq!(detected(values), expected, "{values:?}");
        }
    }

    #[test]
    fn the_verdict_names_the_value_that_decided() {
        let verdict = evidence(&["1", "2.5", "x", "y"], 10).verdict();
        let witness = Witness { line: 12, value: "x".into() };
        assert_eq!(
            (verdict.column_type, verdict.decided_by),
            (Some(ColumnType::Text), Some(witness))
        );
    }

    proptest! {
        /// However the input is cut, the verdict's type is the same.
        #[test]
        fn merging_equals_adding(
            values in prop::collection::vec("[1-3]|[1-3]\\.[0-2]|[1-3]\\.[0-2]{2}|9007199254740993|x", 0..8),
            cut in 0..8_usize,
        ) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let cut = cut.min(values.len());
            let mut merged = evidence(&values[..cut], 1);
            merged.merge(evidence(&values[cut..], 1 + cut as u64));
            prop_assert_eq!(merged.verdict().column_type, detected(&values));
        }
    }
}
