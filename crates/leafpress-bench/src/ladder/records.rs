//! The rows: a number, a name, a number as text, an amount. Each a function of its number.
//!
//! The post says nothing of its table; these are small rows as an application's list of
//! articles has them.

use crate::generate::hash;

/// Letters of a name.
const NAME_LETTERS: u32 = 8;
/// The number as text has six digits.
const NUMBERS: u64 = 1_000_000;
/// Amounts are below this.
const AMOUNT_MAX: u64 = 1_000_000;
/// Hashes that a row takes.
const HASHES: u64 = 4;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// From 1.
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) number: String,
    pub(crate) amount: i64,
}

/// A row's values as SQLite's statement and the loader take them.
pub(crate) type Parameters<'r> = (i64, &'r str, &'r str, i64);

impl Record {
    /// The row of this number, from 0.
    pub(crate) fn of_row(row: u64) -> Self {
        let bits = |index: u64| hash(row.wrapping_mul(HASHES).wrapping_add(index));
        let letters = bits(0);
        // Five bits a letter; those beyond z begin again at a.
        let letter = |place: u32| char::from(b'a' + (letters >> (5 * place)) as u8 % 32 % 26);
        Self {
            id: (row + 1).cast_signed(),
            name: (0..NAME_LETTERS).map(letter).collect(),
            number: format!("{:06}", bits(1) % NUMBERS),
            amount: (bits(2) % AMOUNT_MAX).cast_signed(),
        }
    }

    /// Its values.
    #[inline]
    pub(crate) fn parameters(&self) -> Parameters<'_> {
        (self.id, &self.name, &self.number, self.amount)
    }

    /// This many rows, in the order of their numbers.
    pub(crate) fn all(rows: u64) -> Vec<Self> {
        (0..rows).map(Self::of_row).collect()
    }
}
