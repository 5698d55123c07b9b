//! Reading CSV files: line ends, escapes, encodings, delimiters, headers, limits.

use super::{Found, assert_all};

const CASES: &[Found] = &[];

#[test]
fn they_are_mended() {
    assert_all(CASES);
}
