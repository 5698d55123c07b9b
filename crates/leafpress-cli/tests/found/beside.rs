//! Files beside a database: those that a user who may only read must not leave there, and those of
//! others that are in the way.

use super::{Found, assert_all};

const WAL: &str = "PRAGMA journal_mode = WAL; CREATE TABLE a(x INTEGER PRIMARY KEY, y); \
                   INSERT INTO a VALUES (1, 2)";

/// Runs each call, and tells of the log and its index if it leaves them.
const EACH: &str = r#"each() { for c in "load w.db in.csv --table a --append" "load w.db in.csv --table n" \
    "index w.db a y" "queue push w.db q x" "queue work w.db q --until-empty --exec cat" \
    "load w.db in.csv --table a --upsert --dry-run" "load w.db in.csv --table n --dry-run" \
    "queue stats w.db" "load x.db w.db::a" "verify w.db" "io w.db -c VACUUM"; do \
    timeout 60 leafpress $c >said 2>&1; s=$?; echo "$s of $c"; cat said; \
    for left in w.db-wal w.db-shm; do [ -f $left ] && echo "LEFT by $c: $left"; done; done; }; "#;

const ONLY_READ: &[Found] = &[Found {
    finding: "a user who may only read leaves no log, which would keep the owner from writing",
    files: &[("in.csv", b"x,y\n5,6\n1,3\n")],
    databases: &[("w.db", WAL)],
    as_other_user: true,
    run: "chmod 444 w.db 2>errors; EACH each; ls -A",
    says: &[
        "3 of load w.db in.csv --table a --append",
        "3 of load w.db in.csv --table n\n",
        "3 of index w.db",
        "3 of queue push",
        "3 of queue work",
        "0 of load w.db in.csv --table a --upsert --dry-run",
        "0 of load w.db in.csv --table n --dry-run",
        "0 of queue stats",
        "0 of load x.db",
        "0 of verify",
        "0 of io",
        "w.db: cannot be written: you may not write to",
        "a load would fail now: you may not write to w.db",
    ],
    never_says: &["LEFT"],
    holds: &[("w.db", "SELECT x, y FROM a", "1,2"), ("x.db", "SELECT x, y FROM a", "1,2")],
    leaves_no: &["w.db-wal", "w.db-shm"],
    ..Found::NONE
}];

const OF_OTHERS: &[Found] = &[
    Found {
        finding: "the log of a source that is refused",
        databases: &[("w.db", "PRAGMA journal_mode=WAL; CREATE TABLE t(a); CREATE TABLE u(a)")],
        run: "rm -f w.db-*; leafpress load n.db w.db::no; leafpress load n.db w.db; \
              leafpress shard w.db::no --out parts --parts 2",
        status: 2,
        says: &["has no table", "has 2 tables"],
        leaves_no: &["w.db-wal", "w.db-shm", "n.db"],
        ..Found::NONE
    },
    Found {
        finding: "a log of another user is named when the database is opened to be written",
        files: &[("in.csv", b"x,y\n5,6\n")],
        databases: &[("of_root.db", WAL)],
        as_other_user: true,
        run: "cp of_root.db w.db; for f in w.db-wal w.db-shm; do : >$f; chmod 444 $f; \
              for c in 'load w.db in.csv --table a --append' 'index w.db a y' 'queue push w.db q x'; \
              do leafpress $c --json 2>errors; echo \"=$?\"; done; rm -f $f; done",
        says: &[
            "w.db-wal\"",
            "w.db-shm\"",
            "=3\n",
            "\"kind\":\"read_only\"",
            "the last one removes its",
        ],
        never_says: &["=0", "\"kind\":\"sqlite\""],
        ..Found::NONE
    },
    Found {
        finding: "a log that may not be read is named by all",
        files: &[("in.csv", b"x,y\n5,6\n")],
        databases: &[("of_root.db", WAL)],
        as_other_user: true,
        run: "cp of_root.db w.db; for shm in no yes; do rm -f w.db-*; echo log >w.db-wal; \
              [ $shm = no ] || : >w.db-shm; chmod 000 w.db-wal; \
              for c in 'load w.db in.csv --table a --append' 'queue stats w.db' 'verify w.db' \
              'io w.db -c COMMIT'; do leafpress $c; echo \"=$?\"; done; done; rm -f w.db-wal",
        says: &["=3\n", "w.db-wal: Permission denied", "so that you may read and write it"],
        never_says: &["=0", "=1", "network share", "needs recovery"],
        ..Found::NONE
    },
    Found {
        finding: "what is no file has the name of a log, its index or a journal",
        files: &[("in.csv", b"x,y\n5,6\n")],
        databases: &[("w.db", WAL)],
        run: "EACH for f in wal shm journal; do for make in mkfifo 'ln -s none' mkdir; do \
              $make w.db-$f; each; timeout 60 leafpress queue push new.db q x; rm -rf w.db-$f; done; done",
        says: &[
            "w.db-wal: is not a regular file",
            "w.db-shm: is a symbolic link",
            "w.db-journal: is a directory",
            "keeps a file of w.db",
            "move it away",
        ],
        never_says: &["\n0 of", "124 of", "\n1 of", "LEFT"],
        holds: &[("w.db", "SELECT x, y FROM a", "1,2")],
        ..Found::NONE
    },
    Found {
        finding: "a page of the manual replaces a link of its name",
        files: &[("mine", b"mine\n")],
        run: "mkdir pages; ln -s ../mine pages/leafpress.1; leafpress man pages && cat mine && \
              ls -A pages && grep -c leafpress pages/leafpress.1",
        says: &["mine\n", "leafpress-load.1"],
        never_says: &[".leafpress-man"],
        ..Found::NONE
    },
];

fn with_each(case: &Found) -> Found {
    Found { run: case.run.replace("EACH ", EACH).leak(), ..*case }
}

#[test]
fn who_may_only_read_leaves_nothing() {
    assert_all(&ONLY_READ.iter().map(with_each).collect::<Vec<_>>());
}

#[test]
fn files_of_others_are_named() {
    assert_all(&OF_OTHERS.iter().map(with_each).collect::<Vec<_>>());
}
