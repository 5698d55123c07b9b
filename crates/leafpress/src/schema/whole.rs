//! Whole numbers that a column writes both as plain integers and otherwise.
//!
//! Purpose: `1000` and `1e3`, or `39` and `39.0`, in a column of whole numbers only may be codes;
//! as REAL they would become the same number. `99999` and `1e+05` beside one another are numbers
//! as R writes them.
//!
//! Must never: grow with the input. For a column with more than [`DIFFERENT_MAX`] different
//! numbers nothing is kept.

use std::collections::{BTreeMap, BTreeSet};

use super::witness::Witness;

/// The number of different numbers of a kind that are kept.
const DIFFERENT_MAX: usize = 1_000;

/// The different whole numbers of a column so far, as bits of their doubles.
#[derive(Debug, Clone, Default)]
pub struct WholeNumbers {
    plain: BTreeSet<u64>,
    /// The first of each that is written otherwise.
    otherwise: BTreeMap<u64, Witness>,
    are_many: bool,
}

impl WholeNumbers {
    /// Adds a number, by how it is written.
    #[inline]
    pub fn add(&mut self, number: f64, is_plain: bool, witness: impl Fn() -> Witness) {
        if self.are_many {
            return;
        }
        if is_plain {
            self.plain.insert(number.to_bits());
        } else {
            self.otherwise.entry(number.to_bits()).or_insert_with(witness);
        }
        self.bound();
    }

    /// Adds those of a later stretch.
    pub fn merge(&mut self, later: Self) {
        self.are_many |= later.are_many;
        self.plain.extend(later.plain);
        for (number, witness) in later.otherwise {
            self.otherwise.entry(number).or_insert(witness);
        }
        self.bound();
    }

    fn bound(&mut self) {
        if self.are_many || self.plain.len().max(self.otherwise.len()) > DIFFERENT_MAX {
            *self = Self { are_many: true, ..Self::default() };
        }
    }

    /// The first number written otherwise that is there as a plain integer too.
    pub fn written_both_ways(&self) -> Option<&Witness> {
        let twice = self.otherwise.iter().filter(|(number, _)| self.plain.contains(number));
        twice.map(|(_, witness)| witness).min_by_key(|witness| witness.place())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_numbers_are_forgotten_however_they_are_cut() {
        let witness = || Witness { input: 0, line: 1, value: "1.0".to_owned() };
        let numbers = |range: std::ops::Range<usize>| {
            let mut numbers = WholeNumbers::default();
            range.for_each(|number| numbers.add(number as f64, true, witness));
            numbers
        };
        for (first, second) in [(0..1_000, 0..1_000), (0..1_000, 1_000..1_001), (0..1_001, 0..0)] {
            let all = first.end.max(second.end);
            let mut merged = numbers(first);
            merged.merge(numbers(second));
            merged.add(1.0, false, witness);
            assert_eq!(merged.written_both_ways().is_some(), all <= DIFFERENT_MAX);
        }
    }
}
