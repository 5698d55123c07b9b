//! The type of a column, found from its values.
//!
//! A column is INTEGER if every value is the usual text of a 64-bit integer. The [`RealRule`]
//! decides which columns are REAL; all others are TEXT.
//!
//! **By value**, the default: every value is a decimal number that a double keeps. One exception:
//! a column of whole numbers only is not REAL if it has the same number both as a plain integer
//! and in another form (`39` and `39.0`, `1000` and `1e3`), as those may be codes. This is
//! checked only if the column has at most a thousand different numbers of either form.
//!
//! **Exact**: every value comes back as the text it was. One form must fit the whole
//! column, so that the number and the column's form alone give the text back:
//!
//! | form | `39` | `39.0` | `39.5` | `39.50` |
//! |---|---|---|---|---|
//! | shortest, whole numbers bare | yes | no | yes | no |
//! | shortest, whole numbers with `.0` | no | yes | yes | no |
//! | fixed: every value has the same number of decimals | no | one | one | two |
//!
//! The evidence of stretches of the input is merged in their order, so the outcome is the same if
//! many threads look at the stretches.

use super::decimal::{why_no_integer, why_no_real};
use super::exact::{RealRule, exact_integer, kept_real};
use super::real::{KeptReal, marks};
use super::table::ColumnType;
use super::whole::WholeNumbers;
use super::witness::Witness;

const SHORTEST_BARE: u8 = 1;
const SHORTEST_POINT_ZERO: u8 = 2;
const FIXED: u8 = 4;
const ALL_FORMS: u8 = SHORTEST_BARE | SHORTEST_POINT_ZERO | FIXED;
const FORMS: [u8; 3] = [SHORTEST_BARE, SHORTEST_POINT_ZERO, FIXED];

/// A value that a type does not take, and why, in words that follow it.
#[derive(Debug, Clone)]
struct Refusal {
    witness: Witness,
    why: &'static str,
}

impl Refusal {
    fn earlier(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let both = one.into_iter().chain(other);
        both.min_by_key(|refusal| refusal.witness.place())
    }
}

/// Refusal of a value that is a number by the exact rule, but whose form differs from that of
/// the others.
const WHY_NO_FORM: &str = "has another form than the numbers before it: their texts could not be \
                           had back from REAL";

/// The evidence for one column's type, from the values seen so far.
#[derive(Debug, Clone, Default)]
pub struct ColumnEvidence {
    rule: RealRule,
    first_value: Option<Witness>,
    not_integer: Option<Refusal>,
    not_real: Option<Refusal>,
    forms: RealForms,
    /// The first value that does not have each of the [`FORMS`]; for the exact rule.
    out_of_form: [Option<Witness>; 3],
    /// The first value whose form changes, and its number.
    changed: Option<(Witness, f64)>,
    wholes: WholeNumbers,
}

/// The forms in which the reals so far are written.
#[derive(Debug, Clone, Copy)]
pub struct RealForms {
    /// The forms of the exact rule that all have.
    alive: u8,
    scale: Option<u8>,
    /// All of their [`marks`].
    seen: u8,
    /// The number of those that change their form.
    changed: u64,
}

impl Default for RealForms {
    fn default() -> Self {
        Self { alive: ALL_FORMS, scale: None, seen: 0, changed: 0 }
    }
}

impl RealForms {
    /// Likely number of decimals of the next value.
    #[inline(always)]
    pub fn scale_hint(self) -> usize {
        usize::from(self.scale.unwrap_or(0))
    }

    /// Adds a value.
    #[inline(always)]
    pub fn add(&mut self, real: KeptReal) {
        self.scale.get_or_insert(real.scale);
        self.seen |= real.marks;
        self.changed += u64::from(real.marks >> marks::CHANGED_BIT);
    }

    /// Adds a value by the exact rule; false if no form is left.
    #[inline(always)]
    pub fn add_exact(&mut self, real: KeptReal) -> bool {
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

    /// Adds the forms of a later stretch; false if no form of the exact rule is left.
    pub fn merge(&mut self, later: Self) -> bool {
        self.alive &= later.alive;
        match (self.scale, later.scale) {
            (Some(one), Some(other)) if one != other => self.alive &= !FIXED,
            (None, scale) => self.scale = scale,
            _ => {}
        }
        self.seen |= later.seen;
        self.changed += later.changed;
        self.alive != 0
    }

    /// The number of values that change their form.
    pub fn changed(self) -> u64 {
        self.changed
    }

    /// Returns true if all are whole numbers, some of them written as plain integers and some
    /// not: only a look at all of them tells whether they may be REAL.
    pub fn is_mixed_whole(self) -> bool {
        let whole = marks::PLAIN | marks::OTHERWISE;
        self.seen & (whole | marks::FRACTION) == whole
    }
}

/// The type that the values leave, and the value that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The type; `None` if there was no value at all.
    pub column_type: Option<ColumnType>,
    /// The value that ruled the narrower type out.
    pub decided_by: Option<Witness>,
    /// The reason, in words.
    pub reason: String,
}

impl Verdict {
    fn without_witness(column_type: Option<ColumnType>, reason: &str) -> Self {
        Self { column_type, decided_by: None, reason: reason.to_owned() }
    }
}

impl ColumnEvidence {
    /// No value yet, of a column whose reals follow this rule.
    pub fn new(rule: RealRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Adds the value at `start..end` of `source`; `witness` says where it
    /// stands, and is called for few values.
    ///
    /// [`super::HEADROOM_BYTES`] must precede `start`.
    #[inline]
    pub fn add(&mut self, source: &[u8], start: usize, end: usize, witness: impl Fn() -> Witness) {
        if self.first_value.is_none() {
            self.first_value = Some(witness());
        }
        if self.not_integer.is_none() && exact_integer(source, start, end).is_none() {
            self.not_integer = Some(refusal(&source[start..end], why_no_integer, &witness));
        }
        if self.not_real.is_some() {
            return;
        }
        match kept_real(source, start, end, self.forms.scale_hint(), self.rule) {
            Some(real) => self.add_real(real, witness),
            None => self.not_real = Some(refusal(&source[start..end], why_no_real, &witness)),
        }
    }

    #[inline]
    fn add_real(&mut self, real: KeptReal, witness: impl Fn() -> Witness) {
        if self.rule == RealRule::Exact {
            let before = self.forms.alive;
            self.forms.add_exact(real);
            if before != self.forms.alive {
                self.note_out_of_form(self.forms.alive, &witness);
            }
            return;
        }
        self.forms.add(real);
        if real.marks & marks::CHANGED != 0 && self.changed.is_none() {
            self.changed = Some((witness(), real.value));
        }
        if self.forms.seen & marks::FRACTION != 0 {
            self.wholes = WholeNumbers::default();
        } else {
            self.wholes.add(real.value, real.marks & marks::PLAIN != 0, witness);
        }
    }

    /// Notes a value for the forms that it ruled out, and what that means for REAL.
    fn note_out_of_form(&mut self, alive: u8, witness: &impl Fn() -> Witness) {
        for (form, first) in FORMS.iter().zip(&mut self.out_of_form) {
            if alive & form == 0 && first.is_none() {
                *first = Some(witness());
            }
        }
        self.refuse_without_form();
    }

    /// Refuses REAL by the value that ruled the last form out.
    fn refuse_without_form(&mut self) {
        if self.out_of_form.iter().any(Option::is_none) {
            return;
        }
        let last = self.out_of_form.iter().flatten().max_by_key(|witness| witness.place());
        let refused = last.map(|last| Refusal { witness: last.clone(), why: WHY_NO_FORM });
        self.not_real = Refusal::earlier(self.not_real.take(), refused);
    }

    /// Adds the evidence of a later stretch.
    pub fn merge(&mut self, later: Self) {
        let other_scale = matches!((self.forms.scale, later.forms.scale),
            (Some(one), Some(other)) if one != other);
        self.forms.merge(later.forms);
        for (form, (first, later_first)) in
            FORMS.iter().zip(self.out_of_form.iter_mut().zip(later.out_of_form))
        {
            let later_first =
                if *form == FIXED && other_scale { later.first_value.clone() } else { later_first };
            *first = first.take().or(later_first);
        }
        self.not_real = self.not_real.take().or(later.not_real);
        if self.rule == RealRule::Exact {
            self.refuse_without_form();
        }
        self.not_integer = self.not_integer.take().or(later.not_integer);
        self.changed = self.changed.take().or(later.changed);
        self.first_value = self.first_value.take().or(later.first_value);
        if self.forms.seen & marks::FRACTION != 0 {
            self.wholes = WholeNumbers::default();
        } else {
            self.wholes.merge(later.wholes);
        }
    }

    /// The type to begin with, if these are the first values of several: one that holds
    /// if the others are like them.
    pub fn guess(&self) -> Option<ColumnType> {
        match self.verdict().column_type {
            // A number with a fraction, later on, makes the column REAL after all.
            Some(ColumnType::Text) if self.not_real.is_none() => Some(ColumnType::Real),
            column_type => column_type,
        }
    }

    /// The type that is left, if these are all values.
    pub fn verdict(&self) -> Verdict {
        let both_ways = self.wholes.written_both_ways();
        if self.not_integer.is_none() || (self.not_real.is_none() && both_ways.is_none()) {
            return self.as_number();
        }
        let text = |witness: &Witness, reason: String| Verdict {
            column_type: Some(ColumnType::Text),
            decided_by: Some(witness.clone()),
            reason,
        };
        match (&self.not_integer, &self.not_real, both_ways) {
            (Some(integer), Some(real), _) if integer.witness.place() > real.witness.place() => {
                let Witness { input, line, value } = &real.witness;
                let place = if *input == integer.witness.input {
                    format!("in line {line}")
                } else {
                    "of an earlier input".to_owned()
                };
                let reason = format!(
                    "{}, and '{value}' {place} {}",
                    integer.why,
                    no_real_after_integers(real.why)
                );
                text(&integer.witness, reason)
            }
            (_, Some(real), _) => text(&real.witness, real.why.to_owned()),
            (_, None, Some(witness)) => {
                let reason = "stands there as a plain integer too, and all are whole numbers";
                text(witness, reason.to_owned())
            }
            (_, None, None) => self.as_number(),
        }
    }

    /// The verdict for a column that is REAL, INTEGER or without values.
    pub fn as_number(&self) -> Verdict {
        match (&self.first_value, &self.not_integer) {
            (None, _) => Verdict::without_witness(None, "no value: all fields are empty or null"),
            (_, None) => {
                let reason = "every value is a whole number";
                Verdict::without_witness(Some(ColumnType::Integer), reason)
            }
            (_, Some(Refusal { witness, why })) => Verdict {
                column_type: Some(ColumnType::Real),
                decided_by: Some(witness.clone()),
                reason: (*why).to_owned(),
            },
        }
    }

    /// The count of values that change their form in a REAL column, the first of them and its
    /// number.
    pub fn changed(&self) -> Option<(u64, &Witness, f64)> {
        let (witness, number) = self.changed.as_ref()?;
        Some((self.forms.changed, witness, *number))
    }
}

/// Reason why a column that began with integers is not REAL, in words that follow the value.
fn no_real_after_integers(why: &'static str) -> &'static str {
    if why == WHY_NO_FORM { "has another form" } else { why }
}

#[cold]
fn refusal(text: &[u8], why: fn(&str) -> &'static str, witness: &impl Fn() -> Witness) -> Refusal {
    let why = std::str::from_utf8(text).map_or("is no number", why);
    Refusal { witness: witness(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn evidence(rule: RealRule, values: &[&str], first_line: u64) -> ColumnEvidence {
        let mut evidence = ColumnEvidence::new(rule);
        for (line, value) in (first_line..).zip(values) {
            let source = format!("________________{value},");
            let witness = || Witness { input: 0, line, value: (*value).to_owned() };
            evidence.add(source.as_bytes(), 16, 16 + value.len(), witness);
        }
        evidence
    }

    fn detected(rule: RealRule, values: &[&str]) -> Option<ColumnType> {
        evidence(rule, values, 1).verdict().column_type
    }

    #[test]
    fn a_column_keeps_its_values() {
        use ColumnType::{Integer, Real, Text};
        for (values, expected, exact) in [
            (&["1", "-20", "0"][..], Some(Integer), Some(Integer)),
            (&["9007199254740993", "1"], Some(Integer), Some(Integer)),
            (&["9007199254740993", "1.5"], Some(Text), Some(Text)),
            (&["9007199254740993", "x"], Some(Text), Some(Text)),
            (&["39", "39.02"], Some(Real), Some(Real)),
            (&["39.0", "39.02"], Some(Real), Some(Real)),
            (&["39", "39.0"], Some(Text), Some(Text)),
            (&["39", "40.0"], Some(Real), Some(Text)),
            (&["39", "39.0", "39.5"], Some(Real), Some(Text)),
            (&["99999", "1e+05", "123456"], Some(Real), Some(Text)),
            (&["1000", "1e3"], Some(Text), Some(Text)),
            (&["39.0", "39.00"], Some(Real), Some(Text)),
            (&["12.50", "3.00"], Some(Real), Some(Real)),
            (&["1.5", "2.50"], Some(Real), Some(Text)),
            (&["1.1", "1.10"], Some(Real), Some(Text)),
            (&["12.50", "3"], Some(Real), Some(Text)),
            (&["1.5", "1e-05"], Some(Real), Some(Text)),
            (&[".5", "5.", "-0.0"], Some(Real), Some(Text)),
            (&["0", "-0"], Some(Text), Some(Text)),
            (&["00501", "1"], Some(Text), Some(Text)),
            (&["1e3"], Some(Real), Some(Text)),
            (&[], None, None),
        ] {
            assert_eq!(detected(RealRule::Value, values), expected, "{values:?}");
            assert_eq!(detected(RealRule::Exact, values), exact, "{values:?}, exactly");
        }
    }

    #[test]
    fn the_verdict_names_the_value_that_decided() {
        let none = "has another form than the numbers before it: their texts could not be had \
                    back from REAL";
        for (rule, values, line, reason) in [
            (RealRule::Value, &["1", "2.5", "x", "y"][..], 3, "is no number"),
            (RealRule::Value, &["1", "2.5"], 2, "is not a whole number"),
            (RealRule::Value, &["1", "2.0", "7.5"], 2, "has a point"),
            (
                RealRule::Value,
                &["9007199254740993", "12345678901234567890"],
                2,
                "is an integer beyond 64 bits, and '9007199254740993' in line 1 has more digits \
                 than REAL keeps",
            ),
            (RealRule::Value, &["1.5", "9007199254740993"], 2, "has more digits than REAL keeps"),
            (
                RealRule::Value,
                &["5", "39.0", "39", "5.0"],
                2,
                "stands there as a plain integer too, and all are whole numbers",
            ),
            (RealRule::Exact, &["39", "39.5", "39.0", "40.0"], 3, none),
            (
                RealRule::Exact,
                &["1.5", "1e3"],
                2,
                "would not come back from a number as it is written",
            ),
        ] {
            for cut in 0..values.len() {
                let mut verdict = evidence(rule, &values[..cut], 1);
                verdict.merge(evidence(rule, &values[cut..], 1 + cut as u64));
                let verdict = verdict.verdict();
                let witness = verdict.decided_by.map(|witness| witness.line);
                assert_eq!((witness, verdict.reason.as_str()), (Some(line), reason), "{values:?}");
            }
        }
    }

    #[test]
    fn values_that_change_their_form_are_counted() {
        let evidence = evidence(RealRule::Value, &["1.5", "2.50", "3", "4.0", "1e5"], 1);
        let (count, witness, number) = evidence.changed().unwrap_or_else(|| panic!("two are"));
        assert_eq!((count, witness.line, number.to_string().as_str()), (2, 2, "2.5"));
    }

    proptest! {
        /// The verdict is the same, however the input is cut.
        #[test]
        fn merging_equals_adding(
            values in prop::collection::vec(
                "[1-3]|[1-3]\\.[0-2]|[1-3]\\.[0-2]{2}|[1-3]e[01]|9007199254740993|x", 0..8),
            cut in 0..8_usize,
            exact: bool,
        ) {
            let rule = if exact { RealRule::Exact } else { RealRule::Value };
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let cut = cut.min(values.len());
            let mut merged = evidence(rule, &values[..cut], 1);
            merged.merge(evidence(rule, &values[cut..], 1 + cut as u64));
            let whole = evidence(rule, &values, 1);
            prop_assert_eq!(merged.verdict(), whole.verdict());
            prop_assert_eq!(merged.guess(), whole.guess());
            if whole.verdict().column_type == Some(ColumnType::Real) {
                prop_assert_eq!(merged.changed(), whole.changed());
            }
        }
    }
}
