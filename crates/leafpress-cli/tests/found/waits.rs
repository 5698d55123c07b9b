//! Waits: for a pipe that says nothing, and for a program that holds a database.

use rusqlite::Connection;

use super::{Found, assert_all, shell};

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

#[test]
fn each_command_waits_as_long_as_it_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let holder = Connection::open(folder.path().join("l.db")).expect("a database");
    holder.execute_batch("CREATE TABLE t(a); BEGIN EXCLUSIVE").expect("it runs");
    let actions = [
        "queue stats l.db",
        "queue list l.db m",
        "queue show l.db 1",
        "queue schedule list l.db",
        "io l.db -c 'SELECT 1'",
        "load n.db l.db::t",
    ];
    for action in actions {
        // Less than SQLite's 5 seconds.
        let line = format!("timeout 4 leafpress {action} --busy-timeout 100");
        let (status, said) = shell(folder.path(), &line);
        assert_eq!(status, 3, "{action}: {said}");
        assert!(said.contains("is locked"), "{action}: {said}");
    }
}
