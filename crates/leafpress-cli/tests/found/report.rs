//! The report of `bench`, and documents.

use super::{Found, assert_all};

const CASES: &[Found] = &[];

#[test]
fn they_are_mended() {
    assert_all(CASES);
}
