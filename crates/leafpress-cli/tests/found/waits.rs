//! Waits: for a pipe that says nothing, and for a program that holds a database.

use super::{Found, assert_all};

const NO_DATABASE: &[Found] = &[Found {
    finding: "a pipe in the place of a queue's database is refused, not opened",
    run: "mkfifo f; for c in 'stats f' 'push f m x' 'list f m' \
          'work f m --until-empty --exec true'; do timeout 5 leafpress queue $c; echo =$?; done",
    says: &["=3\n", "f: is not a regular file"],
    never_says: &["=124"],
    ..Found::NONE
}];

#[test]
fn a_pipe_is_no_database() {
    assert_all(NO_DATABASE);
}
