//! Declarations of new tables: what SQLite adds itself, and the names and rules in them.

use super::{Found, assert_all};

const PEOPLE: (&str, &[u8]) = ("t.csv", b"a\nx\ny\nx\n");
const INDEXES: &str = "SELECT name FROM sqlite_schema WHERE type <> 'table' ORDER BY 1";

/// A comment at the end of a stored statement hid what was run behind it.
const COMMENTS: &[Found] = &[
    Found {
        finding: "a comment behind the last index, or view, hid the COMMIT, and all of them were lost",
        files: &[
            PEOPLE,
            (
                "s.sql",
                b"CREATE TABLE t(a TEXT);\nCREATE INDEX i ON t(lower(a));\n\
                  CREATE VIEW v AS SELECT a FROM t -- note\n;",
            ),
            ("u.sql", b"CREATE TABLE t(a TEXT); CREATE INDEX i ON t(lower(a)) /* search"),
        ],
        run: "leafpress load t.db t.csv --schema s.sql --analyze && \
              leafpress load u.db t.csv --schema u.sql && \
              leafpress load w.db t.csv --create \
                'CREATE TABLE t(a TEXT); CREATE INDEX i ON t(lower(a)) -- search'",
        holds: &[
            ("t.db", INDEXES, "'i';'v'"),
            ("t.db", "SELECT stat FROM sqlite_stat1", "'3 2'"),
            ("u.db", INDEXES, "'i'"),
            ("w.db", INDEXES, "'i'"),
            ("w.db", "SELECT count(*) FROM t INDEXED BY i WHERE lower(a) = 'x'", "2"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "a comment behind a table hid its unique index, and equal rows went in",
        files: &[PEOPLE],
        run: "leafpress load t.db t.csv --unique a --create \
                \"CREATE TABLE t(a TEXT CHECK(a<>'')) STRICT -- people\"; \
              leafpress load u.db t.csv --unique a --on-error skip --create \
                \"CREATE TABLE t(a TEXT CHECK(a<>'')) STRICT /* people\"",
        status: 1,
        says: &["t.csv:4:1: UNIQUE constraint failed"],
        holds: &[("u.db", INDEXES, "'t_a'"), ("u.db", "SELECT * FROM t", "'x';'y'")],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "a comment behind a view hid a trigger; one behind the last index, the COMMIT",
        files: &[
            PEOPLE,
            (
                "s.sql",
                b"CREATE TABLE t(a TEXT); CREATE TABLE log(a); CREATE VIEW v AS SELECT a FROM t -- note\n\
                  ; CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.a); END;\n\
                  CREATE INDEX i ON t(a) -- c",
            ),
        ],
        run: "leafpress load t.db t.csv --schema s.sql --table t",
        holds: &[("t.db", INDEXES, "'g';'i';'v'"), ("t.db", "SELECT count(*) FROM log", "3")],
        ..Found::NONE
    },
    Found {
        finding: "a dry run prints statements that can be run",
        files: &[PEOPLE],
        run: "leafpress load t.db t.csv --unique a --on-conflict ignore --dry-run \
                --create 'CREATE TABLE t(a TEXT) STRICT -- people'",
        says: &["CREATE TABLE t(a TEXT) STRICT;\nCREATE UNIQUE INDEX \"t_a\" ON \"t\" (\"a\");\n"],
        ..Found::NONE
    },
];

#[test]
fn comments_in_a_declaration_hide_nothing() {
    assert_all(COMMENTS);
}

/// Indexes that SQLite makes when the rows are there.
const LATE: &[Found] = &[
    Found {
        finding: "the row that an index on an expression cannot take was neither named nor left out",
        run: "(echo v; seq 3000; echo '{bad'; echo 0) > t.csv; \
              leafpress load t.db t.csv --create \
                \"CREATE TABLE t(v); CREATE INDEX i ON t(json_extract(v,'$.a'))\"; \
              cat t.csv | leafpress load t.db - --table t --on-error skip --create \
                \"CREATE TABLE t(v); CREATE INDEX i ON t(json_extract(v,'$.a'))\"",
        status: 1,
        says: &["t.csv:3002:1: malformed JSON", "3,001 rows"],
        holds: &[
            ("t.db", "SELECT count(*), sum(v = '{bad') FROM t", "3001,0"),
            ("t.db", INDEXES, "'i'"),
            ("t.db", "PRAGMA integrity_check", "'ok'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "a row far behind the first one that a CHECK refuses was named, as all of them were read",
        run: "(echo a; seq 1000000; printf '\\377\\n') > t.csv; \
              leafpress load t.db t.csv --create 'CREATE TABLE t(a INTEGER CHECK (a < 5))'",
        status: 3,
        says: &["t.csv:6:1: CHECK constraint failed: a < 5"],
        never_says: &["1000002"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "the same in a table with a CHECK, in a database that is there",
        databases: &[("t.db", "CREATE TABLE other(a)")],
        run: "(echo v; seq 3000; echo '{bad'; echo 0) > t.csv; \
              leafpress load t.db t.csv --on-error skip --create \"CREATE TABLE t(v CHECK (v > '')); \
                CREATE INDEX i ON t(v) WHERE json_extract(v,'$.a') IS NULL\"",
        status: 1,
        says: &["t.csv:3002:1: malformed JSON", "3,001 rows"],
        holds: &[("t.db", "SELECT count(*) FROM t", "3001"), ("t.db", INDEXES, "'i'")],
        ..Found::NONE
    },
];

#[test]
fn the_row_that_an_index_cannot_take_is_named() {
    assert_all(LATE);
}

/// Names of indexes, and rules of other tables, in a declaration.
const NAMES: &[Found] = &[
    Found {
        finding: "the name of an index that a flag asks for was declared for another table, or taken",
        files: &[PEOPLE],
        databases: &[("t.db", "CREATE TABLE t_a(x)")],
        run: "leafpress load n.db t.csv --index a --table t --create \
                'CREATE TABLE t(a); CREATE TABLE u(x); CREATE INDEX T_A ON u(x)' && \
              leafpress load t.db t.csv --index a --create 'CREATE TABLE t(a)'",
        holds: &[("n.db", INDEXES, "'T_A';'t_a_2'"), ("t.db", INDEXES, "'t_a_2'")],
        ..Found::NONE
    },
    Found {
        finding: "a preset for old copies of SQLite overlooked a STRICT table beside the loaded one",
        files: &[PEOPLE],
        run: "leafpress load t.db t.csv --preset mobile --table t --create \
                'CREATE TABLE t(a); CREATE TABLE u(x INT) STRICT'",
        status: 2,
        says: &["STRICT"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
];

#[test]
fn names_and_rules_of_all_that_is_declared_count() {
    assert_all(NAMES);
}
