//! Columns of a declared table that an input lacks, or one of several inputs.

use super::{Found, assert_all};

const TWO_INPUTS: &[(&str, &[u8])] =
    &[("short.csv", b"id\n1\n"), ("long.csv", b"id,v\n2,22\n"), ("none.ndjson", b"")];
const TABLE: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT DEFAULT 7)";
const MADE: &str =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT NOT NULL DEFAULT (hex(randomblob(4))))";
const ALL_MADE: &str = "SELECT id, length(u) FROM t";

const LACKED: &[Found] = &[
    Found {
        finding: "values of a column that the first input lacks, in a table that is there",
        files: TWO_INPUTS,
        databases: &[("append.db", TABLE), ("ignore.db", TABLE), ("replace.db", TABLE)],
        run: "for mode in append ignore replace; do \
              leafpress load $mode.db short.csv long.csv --table t --$mode || exit; done",
        holds: &[
            ("append.db", "SELECT * FROM t", "1,7;2,22"),
            ("ignore.db", "SELECT * FROM t", "1,7;2,22"),
            ("replace.db", "SELECT * FROM t", "1,7;2,22"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "values of a column that the first input lacks, in a table that SQLite fills",
        files: TWO_INPUTS,
        run: "leafpress load t.db short.csv long.csv --table t \
              --create 'CREATE TABLE t(id INTEGER PRIMARY KEY, v INT DEFAULT 7 CHECK (v < 100))'",
        holds: &[("t.db", "SELECT * FROM t", "1,7;2,22")],
        ..Found::NONE
    },
    Found {
        finding: "an upsert whose inputs differ would put the DEFAULT over values",
        files: TWO_INPUTS,
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT DEFAULT 7); INSERT INTO t VALUES (1, 11)",
        )],
        run: "leafpress load t.db long.csv short.csv --table t --upsert; echo $?; \
              leafpress load t.db none.ndjson long.csv --table t --upsert",
        says: &[
            "short.csv has no column v, and long.csv has: an upsert changes",
            "2\n",
            "to do: load such files",
        ],
        holds: &[("t.db", "SELECT * FROM t", "1,11;2,22")],
        ..Found::NONE
    },
    Found {
        finding: "a DEFAULT that is another one in each row, NOT NULL, in a table that is there",
        files: TWO_INPUTS,
        databases: &[("append.db", MADE), ("upsert.db", MADE), ("replace.db", MADE)],
        run: "for mode in append upsert replace; do \
              leafpress load $mode.db short.csv --table t --$mode || exit; done",
        holds: &[
            ("append.db", ALL_MADE, "1,8"),
            ("upsert.db", ALL_MADE, "1,8"),
            ("replace.db", ALL_MADE, "1,8"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "a DEFAULT that is another one in each row, in a new table",
        files: &[("t.csv", b"id\n1\n2\n"), ("u.csv", b"id,u\n3,three\n")],
        run: "leafpress load t.db t.csv --create 'CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT NOT NULL \
              DEFAULT (hex(randomblob(4))), w DEFAULT (\"random\"()))' && \
              leafpress load u.db t.csv u.csv --create 'CREATE TABLE t(id, u DEFAULT (random()))'",
        status: 2,
        says: &[
            "SQL: the DEFAULT of column \"u\" is made for each row",
            "t.csv has no column u, and u.csv has: SQLite makes its DEFAULT for all rows or for none",
        ],
        holds: &[(
            "t.db",
            "SELECT count(DISTINCT u), count(DISTINCT w), min(length(u)) FROM t",
            "2,2,8",
        )],
        leaves_no: &["u.db"],
        ..Found::NONE
    },
    Found {
        finding: "rows of an input without the key that others have",
        files: &[
            ("none.ndjson", b"{\"v\":5}\n"),
            ("some.ndjson", b"{\"id\":4,\"v\":6}\n"),
            ("none.csv", b"v\n5\n"),
            ("some.csv", b"id,v\n4,6\n"),
        ],
        run: "for form in csv ndjson; do for order in 'none some' 'some none'; do set -- $order; \
              leafpress load by_hand.db $1.$form $2.$form --table t \
              --create 'CREATE TABLE t(id INTEGER PRIMARY KEY, v)'; echo $?; done; done; \
              leafpress load made.db none.ndjson some.ndjson --table t --pk id --on-error skip",
        status: 1,
        says: &[
            "none.csv:2:1: column \"id\": the primary key is empty",
            "none.ndjson:1:1: column \"id\": the primary key is empty",
            "3\n3\n3\n3\n",
        ],
        holds: &[("made.db", "SELECT * FROM t", "6,4")],
        leaves_no: &["by_hand.db"],
        ..Found::NONE
    },
    Found {
        finding: "a DEFAULT that the column does not take",
        files: TWO_INPUTS,
        run: "leafpress load t.db short.csv --table t \
              --create \"CREATE TABLE t(id INTEGER PRIMARY KEY, v INT DEFAULT 'x') STRICT\"",
        status: 3,
        says: &["short.csv:2:1: cannot store TEXT value in INT column t.v"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
];

const ONE_LACKS_B: &[(&str, &[u8])] =
    &[("1.ndjson", b"{\"a\":3}\n"), ("2.ndjson", b"{\"a\":4,\"b\":44}\n")];

const FLAGS: &[Found] = &[
    Found {
        finding: "flags that name a column that only some files of JSON have",
        files: ONE_LACKS_B,
        run: "leafpress load t.db [12].ndjson --table dropped --drop b && \
              leafpress load t.db [12].ndjson --table renamed --rename b=z && \
              leafpress load t.db [12].ndjson --table selected --select b,a && \
              leafpress load t.db [12].ndjson --table alone --select b",
        holds: &[
            ("t.db", "SELECT * FROM dropped", "3;4"),
            ("t.db", "SELECT a, z FROM renamed", "3,NULL;4,44"),
            ("t.db", "SELECT * FROM selected", "NULL,3;44,4"),
            ("t.db", "SELECT * FROM alone", "NULL;44"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "a column that no file has, and flags that leave none",
        files: ONE_LACKS_B,
        run: "leafpress load t.db [12].ndjson --table t --drop c; \
              leafpress load t.db [12].ndjson --table t --drop a,b",
        status: 2,
        says: &["there is no column 'c'", "no column is left to load"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
];

#[test]
fn flags_name_columns_of_any_input() {
    assert_all(FLAGS);
}

#[test]
fn columns_that_inputs_lack() {
    assert_all(LACKED);
}
