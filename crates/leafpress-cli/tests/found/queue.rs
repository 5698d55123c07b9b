//! The queue's command.

use super::{Found, assert_all};

const CASES: &[Found] = &[];

#[test]
fn they_are_mended() {
    assert_all(CASES);
}
