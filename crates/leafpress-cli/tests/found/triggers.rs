//! Rows that a trigger of a new table refuses: SQLite fills such a table itself.

use super::{Found, assert_all};

const INPUT: (&str, &[u8]) = ("t.csv", b"id,v\n1,a\n2,b\n3,c\n");
const LOAD: &str = "leafpress load t.db t.csv --table t --schema s.sql --on-error skip";
const HOLDS: &[(&str, &str, &str)] = &[
    ("t.db", "SELECT * FROM t", "1,'a';3,'c'"),
    ("t.db", "SELECT * FROM log", "1;3"),
    ("t.db", "PRAGMA integrity_check", "'ok'"),
];

/// A load whose second row is refused, so that the others and their effects stay.
const fn refused(
    finding: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    says: &'static [&'static str],
) -> Found {
    Found { finding, files, run: LOAD, status: 1, says, holds: HOLDS, ..Found::NONE }
}

/// A row that is refused had effects, which stayed with the row.
const REFUSED: &[Found] = &[
    refused(
        "RAISE(ABORT) in a new table",
        &[
            INPUT,
            (
                "s.sql",
                b"CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE log(n);
          CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.id);
          SELECT RAISE(ABORT, 'no') WHERE new.id = 2; END",
            ),
        ],
        &["t.csv:3:1: no"],
    ),
    refused(
        "RAISE(FAIL) in a new table",
        &[
            INPUT,
            (
                "s.sql",
                b"CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE log(n);
          CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.id);
          SELECT RAISE(FAIL, 'no') WHERE new.id = 2; END",
            ),
        ],
        &["t.csv:3:1: no"],
    ),
    refused(
        "a trigger whose own INSERT breaks a rule",
        &[
            INPUT,
            (
                "s.sql",
                b"CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE log(n UNIQUE);
          CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.id);
          INSERT INTO log SELECT 1 WHERE new.id = 2; END",
            ),
        ],
        &["t.csv:3:1: UNIQUE constraint failed: log.n"],
    ),
    refused(
        "a trigger whose expression fails",
        &[
            INPUT,
            (
                "s.sql",
                b"CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE log(n);
          CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.id);
          SELECT abs(-9223372036854775807 - 1) WHERE new.id = 2; END",
            ),
        ],
        &["t.csv:3:1: integer overflow"],
    ),
    Found {
        finding: "RAISE(ROLLBACK) in a new table",
        files: &[
            INPUT,
            (
                "s.sql",
                b"CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TRIGGER a AFTER INSERT ON t
                  BEGIN SELECT RAISE(ROLLBACK, 'no') WHERE new.id = 2; END",
            ),
        ],
        run: LOAD,
        status: 3,
        says: &["t: no", "row 2", "undoes the whole transaction"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "ON CONFLICT ROLLBACK in a new table",
        files: &[("t.csv", b"id,v\n1,a\n1,b\n3,c\n")],
        run: "leafpress load t.db t.csv --on-error skip \
              --create 'CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK, v)'",
        status: 3,
        says: &["UNIQUE constraint failed: t.id", "row 2", "undoes the whole transaction"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
];

#[test]
fn a_row_that_a_trigger_refuses_leaves_nothing() {
    assert_all(REFUSED);
}

const PASSED_OVER: &[Found] = &[
    Found {
        finding: "rows whose place later ones took, in a table that SQLite fills",
        files: &[("t.csv", b"id,v\n1,4\n2,5\n1,6\n")],
        run: "leafpress load t.db t.csv --on-conflict replace \
              --create 'CREATE TABLE t(id INTEGER PRIMARY KEY, v INT CHECK (v > 0))'",
        says: &["loaded     2 rows", "ignored    1 row"],
        holds: &[("t.db", "SELECT * FROM t", "1,6;2,5")],
        ..Found::NONE
    },
    Found {
        finding: "a BEFORE trigger that passes over the rows with a NULL in a NOT NULL column",
        files: &[("t.csv", b"id,v\n1,4\n2,\n3,6\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER NOT NULL); CREATE TRIGGER b \
             BEFORE INSERT ON t WHEN new.v IS NULL BEGIN SELECT RAISE(IGNORE); END",
        )],
        run: "leafpress load t.db t.csv --append",
        says: &["ignored    1 row", "the triggers of t passed over 1 row, as by RAISE(IGNORE)"],
        holds: &[("t.db", "SELECT * FROM t", "1,4;3,6")],
        ..Found::NONE
    },
    Found {
        finding: "the same in a new table",
        files: &[
            ("t.csv", b"id,v\n1,4\n2,\n3,6\n"),
            (
                "s.sql",
                b"CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER NOT NULL); CREATE TRIGGER b \
                  INSERT ON t WHEN new.v IS NULL BEGIN SELECT RAISE(IGNORE); END",
            ),
        ],
        run: "leafpress load t.db t.csv --schema s.sql --on-error skip",
        says: &["ignored    1 row"],
        holds: &[("t.db", "SELECT * FROM t", "1,4;3,6")],
        ..Found::NONE
    },
    Found {
        finding: "a NULL that SQLite passes over by the declaration, as there is a trigger",
        files: &[("t.csv", b"id,v\n1,4\n2,\n3,6\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER NOT NULL ON CONFLICT IGNORE); \
             INSERT INTO t VALUES (9, 9); CREATE TRIGGER b BEFORE INSERT ON t BEGIN SELECT 1; END",
        )],
        run: "for mode in append ignore upsert replace; do \
              leafpress load t.db t.csv --$mode; echo $mode: $?; done",
        says: &["t.csv:3:3: ", "append: 3", "ignore: 3", "upsert: 3", "replace: 3"],
        holds: &[("t.db", "SELECT * FROM t", "9,9")],
        ..Found::NONE
    },
    Found {
        finding: "a key of an expression that is taken, as there is a trigger and ON CONFLICT",
        files: &[("t.csv", b"a,b\n1,5\n2,6\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(a INTEGER, b UNIQUE ON CONFLICT IGNORE); CREATE TABLE log(x); \
             CREATE UNIQUE INDEX \"t's key\" ON t(a + 0); INSERT INTO t VALUES (1, 1); \
             CREATE TRIGGER l AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.a); END",
        )],
        run: "leafpress load t.db t.csv --append; echo append: $?; \
              leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &[
            "t.csv:2:1: UNIQUE constraint failed: index 't''s key'",
            "append: 3",
            "rejected   1 row",
        ],
        never_says: &["RAISE(IGNORE)", "ignored    1 row"],
        holds: &[("t.db", "SELECT * FROM t", "1,1;2,'6'"), ("t.db", "SELECT * FROM log", "2")],
        ..Found::NONE
    },
    Found {
        finding: "a NULL that an AFTER trigger comes too late for",
        files: &[("t.csv", b"id,v\n1,4\n2,\n3,6\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER NOT NULL); CREATE TRIGGER b \
             AFTER INSERT ON t WHEN new.v IS NULL BEGIN SELECT RAISE(IGNORE); END",
        )],
        run: "leafpress load t.db t.csv --append",
        status: 3,
        says: &["t.csv:3:3: "],
        holds: &[("t.db", "SELECT count(*) FROM t", "0")],
        ..Found::NONE
    },
    Found {
        finding: "a NULL that no trigger passes over",
        files: &[("t.csv", b"id,v\n1,4\n2,\n3,6\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INTEGER NOT NULL); CREATE TRIGGER b \
             BEFORE INSERT ON t WHEN new.id = 9 BEGIN SELECT RAISE(IGNORE); END",
        )],
        run: "leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &["t.csv:3:3: NOT NULL constraint failed: t.v"],
        holds: &[("t.db", "SELECT * FROM t", "1,4;3,6")],
        ..Found::NONE
    },
];

#[test]
fn a_trigger_that_runs_first_decides_about_a_null() {
    assert_all(PASSED_OVER);
}

/// A trigger that changes the table itself.
const OWN_ROWS: &[Found] = &[Found {
    finding: "the rows that a trigger adds or removes are not counted as rows of the input",
    files: &[
        ("t.csv", b"id,v\n1,a\n2,b\n"),
        (
            "s.sql",
            b"CREATE TABLE t(id INTEGER PRIMARY KEY, v);
          CREATE TRIGGER a AFTER INSERT ON t WHEN new.id < 10
          BEGIN INSERT INTO t VALUES (new.id + 10, 'more'); END",
        ),
        (
            "u.sql",
            b"CREATE TABLE u(id INTEGER PRIMARY KEY, v);
          CREATE TRIGGER b AFTER INSERT ON u BEGIN DELETE FROM u WHERE id < new.id; END",
        ),
    ],
    run: "leafpress load t.db t.csv --table t --schema s.sql && \
          leafpress load u.db t.csv --table u --schema u.sql",
    says: &["loaded 2 rows into table t", "loaded 2 rows into table u"],
    never_says: &["ignored"],
    holds: &[("t.db", "SELECT count(*) FROM t", "4"), ("u.db", "SELECT count(*) FROM u", "1")],
    ..Found::NONE
}];

#[test]
fn a_trigger_that_changes_the_table_itself_changes_no_count() {
    assert_all(OWN_ROWS);
}
