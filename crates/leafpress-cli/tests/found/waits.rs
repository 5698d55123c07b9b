//! Waits: for a pipe that says nothing, and for a program that holds a database.

use rusqlite::Connection;

use super::{Found, assert_all, shell};

#[cfg(target_os = "linux")]
const PIPES: &[Found] = &[
    Found {
        finding: "SIGTERM ends the wait for the writer of a pipe",
        files: &[("t.csv", b"a\n1\n")],
        databases: &[("d.db", "CREATE TABLE t(a)")],
        run: "mkfifo f; for c in 'load x.db f' 'load x.db t.csv f' 'load x.db --schema f t.csv' \
              'io d.db f'; do timeout -k 3 1 leafpress $c; echo =$?; done",
        says: &["=124\n"],
        never_says: &["=137"],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
    Found {
        finding: "SIGTERM ends the wait for what a pipe says",
        run: "(printf 'a,b\\n1,2\\n'; sleep 8) | timeout -k 3 2 leafpress load x.db /dev/stdin",
        status: 124,
        says: &["stopped"],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
    Found {
        finding: "pipes by name are read to their end",
        files: &[("t.csv", b"a\n1\n")],
        run: "mkfifo f g; (sleep 1; printf 'a\\n2\\n' >f; printf 'CREATE TABLE t(a)' >g) & \
              leafpress load x.db t.csv f --table t -q && leafpress load y.db t.csv --schema g -q",
        holds: &[
            ("x.db", "SELECT a FROM t", "1;2"),
            ("y.db", "SELECT sql FROM sqlite_schema", "'CREATE TABLE t(a)'"),
        ],
        ..Found::NONE
    },
];

#[cfg(target_os = "linux")]
#[test]
fn pipes_by_name() {
    assert_all(PIPES);
}

const NO_DATABASE: &[Found] = &[
    Found {
        finding: "a command that takes a file says so of a cluster, and a misspelled cluster is no file",
        files: &[("t.csv", b"a\n1\n")],
        run: "for c in 'verify rqlite://h:1' 'storage rqlite://h:1' 'advise rqlite://h:1' \
              'index rqlite://h:1 t a' 'io rqlites://h:1 -c x' 'load rqlite:h:1 t.csv' \
              'doctor RQLITE://h:1'; do leafpress $c; echo =$?; done; ls",
        says: &["this command takes a file", "rqlite://HOST:PORT", "=2\nt.csv"],
        never_says: &["=0", "=3"],
        ..Found::NONE
    },
    Found {
        finding: "a pipe in the place of a queue's database is refused, not opened",
        run: "mkfifo f; for c in 'stats f' 'push f m x' 'list f m' \
          'work f m --until-empty --exec true'; do timeout 5 leafpress queue $c; echo =$?; done",
        says: &["=3\n", "f: is not a regular file"],
        never_says: &["=124"],
        ..Found::NONE
    },
];

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
