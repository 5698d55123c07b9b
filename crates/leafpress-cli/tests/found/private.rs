//! Rights of files, paths, names in messages, and odds and ends of the command.

use super::{Found, assert_all};

const CASES: &[Found] = &[];

#[test]
fn they_are_mended() {
    assert_all(CASES);
}
