//! Users, rows made in memory. The table is `user(id INTEGER PRIMARY KEY, area TEXT, age INTEGER,
//! active INTEGER)`, as in the open challenge to put a billion of them in SQLite within a minute:
//! the area is six digits, or NULL in every other row.
//!
//! As everything of [`crate::generate`], a row is a function of its number.
//!
//! Must never: read memory that is not in the processor's cache. The texts of all areas, in a table
//! of 6 MB, made each row wait for one: for longer than a loader took to press it.

use std::ops::Range;

use crate::generate::hash;

/// Digits of an area.
pub const AREA_DIGITS: usize = 6;

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    id: i64,
    area: [u8; AREA_DIGITS],
    has_area: bool,
    age: i64,
    is_active: bool,
}

impl User {
    /// The user of a row's number, from 0 on; the id is one more.
    #[inline]
    pub fn of_row(row: u64) -> Self {
        let bits = hash(row);
        Self {
            id: row.cast_signed() + 1,
            area: digits((bits >> 32) % 10_u64.pow(AREA_DIGITS as u32)),
            has_area: bits & 1 == 0,
            age: ((bits >> 8) & 0x7F).cast_signed(),
            is_active: bits & 2 == 0,
        }
    }

    /// The key, from 1 on.
    #[inline]
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The six digits of the area as text, if it has one.
    #[inline]
    pub fn area(&self) -> Option<&[u8]> {
        self.has_area.then_some(&self.area)
    }

    /// The age, up to 127.
    #[inline]
    pub fn age(&self) -> i64 {
        self.age
    }

    /// True for every other user.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active
    }
}

/// The last digits of a number, with zeros before it.
#[inline]
fn digits(mut number: u64) -> [u8; AREA_DIGITS] {
    let mut digits = [0; AREA_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

/// Users one after the other.
#[derive(Debug, Clone)]
pub struct Users {
    rows: Range<u64>,
}

impl Users {
    /// The users of these row numbers.
    pub fn new(rows: Range<u64>) -> Self {
        Self { rows }
    }

    /// The first `rows_count` users as `parts_count` consecutive parts of about
    /// the same size.
    pub fn parts(rows_count: u64, parts_count: u64) -> Vec<Self> {
        let parts_count = parts_count.max(1);
        let (each, rest) = (rows_count / parts_count, rows_count % parts_count);
        let start = |part: u64| part * each + part.min(rest);
        (0..parts_count).map(|part| Self::new(start(part)..start(part + 1))).collect()
    }
}

impl Iterator for Users {
    type Item = User;

    #[inline]
    fn next(&mut self) -> Option<User> {
        self.rows.next().map(User::of_row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_same_users_as_one_iterator() {
        let whole: Vec<User> = Users::new(0..1003).collect();
        let parts: Vec<User> = Users::parts(1003, 4).into_iter().flatten().collect();
        assert_eq!(whole, parts);
        assert_eq!((whole[0].id(), whole[1002].id()), (1, 1003));
        let with_area = whole.iter().filter_map(User::area);
        assert!(with_area.clone().all(|area| area.iter().all(u8::is_ascii_digit)));
        assert!((400..600).contains(&with_area.count()));
    }

    #[test]
    fn digits_have_zeros_before_them() {
        let found = [0, 123, 999_999].map(digits);
        assert_eq!(found, [*b"000000", *b"000123", *b"999999"]);
    }
}
