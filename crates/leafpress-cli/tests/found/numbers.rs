//! Which columns become numbers, and what the report says of it.

use super::{Found, assert_all};

const CASES: &[Found] = &[];

#[test]
fn they_are_mended() {
    assert_all(CASES);
}
