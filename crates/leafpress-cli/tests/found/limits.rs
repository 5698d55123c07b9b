//! Limits of the system, and a standard output that takes nothing: a command does what it can
//! within them, or fails and says so. For Linux, which bounds a process as asked, and has a device
//! that is always full.

use super::{Found, assert_all};

const MEMORY: &[Found] = &[
    Found {
        finding: "threads of a load take no address space that was left to it (ulimit -v)",
        run: "seq 100000 -1 1 | awk '{print $1*7919%1000003 \",name \" $1*31%99991}' > t.csv; \
              for v in 180000 190000 200000 250000; do rm -f t.db; (ulimit -v $v; \
              leafpress load t.db t.csv --no-header --columns k,name --pk k --index name -q) \
              || exit; done",
        holds: &[("t.db", "SELECT count(*) FROM t", "100000")],
        ..Found::NONE
    },
    Found {
        finding: "a load takes a part of what the limit on data leaves (ulimit -d)",
        run: "seq 100000 -1 1 | \
              awk '{print $1*7919%1000003 \",name \" $1*31%99991 \",note \" $1}' > t.csv; \
              ulimit -d 60000; leafpress load t.db t.csv --no-header --columns k,name,note --pk k \
              --index name --index note -q",
        holds: &[("t.db", "SELECT count(*) FROM t", "100000")],
        ..Found::NONE
    },
];

const FILES: &[Found] = &[Found {
    finding: "a new database has its name only if its folder can be opened to be synced",
    files: &[("in.csv", b"a\n1\n")],
    run: "for n in 5 6 7 8 9; do rm -f x.db; \
          (ulimit -S -n $n; exec leafpress load x.db in.csv -q) 2>>said; s=$?; \
          case $s$(ls x.db 2>no) in 0x.db|3) ;; *) echo \"wrong: $n $s\"; ls;; esac; done; cat said",
    never_says: &["not known", "wrong"],
    ..Found::NONE
}];

const FULL: &[Found] = &[
    Found {
        finding: "a command that changes nothing fails where its answer cannot be written",
        files: &[("in.csv", b"a\n1\n")],
        databases: &[("x.db", "CREATE TABLE t(a)")],
        run: "leafpress queue push q.db q a >ids; for j in '' --json; do for c in 'queue list q.db q' \
              'queue show q.db 1' 'queue stats q.db' 'queue stats q.db --watch=1' \
              'queue schedule list q.db' 'verify x.db' 'io x.db -c SELECT(1)' \
              'load n.db in.csv --dry-run'; do \
              leafpress $c $j >/dev/full 2>errors; s=$?; test $s = 3 || echo \"$c $j: $s\"; \
              grep -q 'No space left' errors || cat errors; done; done",
        never_says: &[": 0", ": 1", "error"],
        ..Found::NONE
    },
    Found {
        finding: "work that is done stays done where its report cannot be written",
        files: &[("in.csv", b"a\n1\n")],
        run: "leafpress load x.db in.csv >/dev/full && \
              leafpress queue push q.db q a b --json >/dev/full",
        says: &["warning: the report cannot be written"],
        holds: &[
            ("x.db", "SELECT a FROM \"in\"", "1"),
            ("q.db", "SELECT count(*) FROM leafpress_job", "2"),
        ],
        ..Found::NONE
    },
];

#[test]
fn limits_are_kept() {
    assert_all(MEMORY);
    assert_all(FILES);
}

#[test]
fn answers_that_cannot_be_written_are_failures() {
    assert_all(FULL);
}
