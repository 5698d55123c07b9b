//! Order of the rows in tables that are there.

use super::{Found, assert_all};

const INPUT: (&str, &[u8]) = ("t.csv", b"k,v\nz,1\nm,2\na,3\n");

/// Rows went in in the order of an index, and that showed.
const ORDER: &[Found] = &[
    Found {
        finding: "a log with an index, of two files",
        databases: &[("t.db", "CREATE TABLE t(k, v); CREATE INDEX i ON t(k)")],
        files: &[INPUT, ("u.csv", b"k,v\nb,4\n")],
        run: "leafpress load t.db t.csv u.csv --table t --append",
        holds: &[("t.db", "SELECT rowid, * FROM t", "1,'z','1';2,'m','2';3,'a','3';4,'b','4'")],
        ..Found::NONE
    },
    Found {
        finding: "numbers that SQLite gives",
        databases: &[("t.db", "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, k UNIQUE, v)")],
        files: &[INPUT],
        run: "leafpress load t.db t.csv --append",
        holds: &[("t.db", "SELECT * FROM t ORDER BY id", "1,'z','1';2,'m','2';3,'a','3'")],
        ..Found::NONE
    },
    Found {
        finding: "a trigger",
        databases: &[(
            "t.db",
            "CREATE TABLE t(k PRIMARY KEY, v); CREATE TABLE log(k); CREATE TRIGGER r AFTER INSERT
             ON t BEGIN INSERT INTO log VALUES (new.k); END",
        )],
        files: &[INPUT],
        run: "leafpress load t.db t.csv --append",
        holds: &[("t.db", "SELECT * FROM log", "'z';'m';'a'")],
        ..Found::NONE
    },
    Found {
        finding: "an upsert that another row changes",
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, k UNIQUE); INSERT INTO t VALUES(3, 'A')",
        )],
        files: &[("t.csv", b"id,k\n7,A\n3,e\n")],
        run: "leafpress load t.db t.csv --upsert",
        status: 3,
        says: &["t.csv:2:", "UNIQUE constraint failed: t.k"],
        holds: &[("t.db", "SELECT * FROM t", "3,'A'")],
        ..Found::NONE
    },
];

#[test]
fn the_order_of_the_input_stays_where_it_shows() {
    assert_all(ORDER);
}
