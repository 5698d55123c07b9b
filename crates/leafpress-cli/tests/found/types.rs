//! Types of columns: those of the table that is loaded, of a key, and of the parts of shards.

use super::{Found, assert_all};

/// A table whose columns hold values that their types would not expect.
const LOOSE: &str = "CREATE TABLE s(k INTEGER, d DECIMAL(5,2), x, b); \
                     INSERT INTO s VALUES (1, 1.5, '7', x'41'), ('a', 2, 8, NULL), (0.5, 'n', 'x', '9')";
const TYPES: &str = "SELECT group_concat(name || ' ' || type, '|') FROM pragma_table_info('t')";

const OF_SOURCES: &[Found] = &[
    Found {
        finding: "a key that is declared INTEGER and holds texts got row numbers instead",
        databases: &[("s.db", LOOSE)],
        run: "leafpress load t.db s.db --table t --pk k",
        says: &["k       TEXT"],
        holds: &[
            ("t.db", "SELECT k, d, x FROM t", "'1',1.5,'7';'a',2,8;'0.5','n','x'"),
            ("t.db", TYPES, "'k TEXT|d DECIMAL(5,2)|x |b '"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "two databases that declare a column differently put texts into INTEGER",
        databases: &[
            ("a.db", "CREATE TABLE s(v INTEGER); INSERT INTO s VALUES (1)"),
            ("b.db", "CREATE TABLE s(v TEXT); INSERT INTO s VALUES ('2')"),
        ],
        run: "leafpress load t.db a.db b.db --table t",
        holds: &[
            ("t.db", "SELECT v FROM t", "'1';'2'"),
            ("t.db", TYPES, "'v TEXT'"),
            ("t.db", "PRAGMA integrity_check", "'ok'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "--all-text put texts into the columns' own types",
        databases: &[("s.db", LOOSE)],
        run: "leafpress load t.db s.db --table t --all-text",
        holds: &[
            (
                "t.db",
                "SELECT k, d, x, b FROM t",
                "'1','1.5','7',x'41';'a','2','8',NULL;'0.5','n','x','9'",
            ),
            ("t.db", TYPES, "'k TEXT|d TEXT|x TEXT|b TEXT'"),
            ("t.db", "PRAGMA integrity_check", "'ok'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "--all-text put a blob into a TEXT column of a STRICT table",
        databases: &[("s.db", LOOSE)],
        run: "leafpress load t.db s.db --table t --all-text --strict",
        status: 3,
        says: &["s.db::s:1:1: column \"b\": x'41' is not a TEXT", "nothing was written"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "a type in quotes became a primary key, and row numbers took the place of its values",
        databases: &[(
            "s.db",
            "CREATE TABLE s(k \"INTEGER PRIMARY KEY\", v \"NOT NULL\"); INSERT INTO s VALUES ('a', NULL), ('b', 2)",
        )],
        run: "leafpress load t.db s.db --table t",
        holds: &[
            ("t.db", "SELECT k, v FROM t", "'a',NULL;'b',2"),
            ("t.db", TYPES, "'k TEXT|v INTEGER'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "ANY of a STRICT table became NUMERIC, and its texts numbers",
        databases: &[("s.db", "CREATE TABLE s(v ANY) STRICT; INSERT INTO s VALUES ('5'), (5.0)")],
        run: "leafpress load t.db s.db --table t",
        holds: &[("t.db", "SELECT v FROM t", "'5';5.0"), ("t.db", TYPES, "'v '")],
        ..Found::NONE
    },
    Found {
        finding: "--strict from a STRICT table found types anew: a number in an ANY column became a text",
        databases: &[(
            "s.db",
            "CREATE TABLE s(k INT, v ANY, e REAL, c INT AS (1)) STRICT; \
             INSERT INTO s(k, v) VALUES (NULL, 5), (NULL, 'x')",
        )],
        run: "leafpress load t.db s.db --table t --strict",
        holds: &[
            ("t.db", "SELECT k, v, e FROM t", "NULL,5,NULL;NULL,'x',NULL"),
            ("t.db", TYPES, "'k INTEGER|v ANY|e REAL|c INTEGER'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "--strict from another table with a column without a type, whose numbers became texts too",
        databases: &[("s.db", "CREATE TABLE s(v, w INT); INSERT INTO s VALUES (5, 'y'), ('x', 1)")],
        run: "leafpress load t.db s.db --table t --strict",
        holds: &[
            ("t.db", "SELECT v, w FROM t", "5,'y';'x','1'"),
            ("t.db", TYPES, "'v ANY|w TEXT'"),
        ],
        ..Found::NONE
    },
];

const OF_KEYS: &[Found] = &[
    Found {
        finding: "--all-text made a key of integers TEXT, from JSON alone",
        files: &[("a.ndjson", b"{\"k\":1,\"v\":2}\n"), ("a.csv", b"k,v\n1,2\n")],
        run: "leafpress load j.db a.ndjson --table t --pk k --all-text && \
              leafpress load c.db a.csv --table t --pk k --all-text",
        holds: &[("j.db", "SELECT * FROM t", "1,'2'"), ("c.db", "SELECT * FROM t", "1,'2'")],
        ..Found::NONE
    },
    Found {
        finding: "--all-text made a key of other numbers REAL, so that 1.10 and 1.1 met",
        files: &[
            ("a.ndjson", b"{\"k\":1.10}\n{\"k\":\"1.1\"}\n{\"k\":2}\n"),
            ("a.csv", b"k\n1.10\n1.1\n2\n"),
        ],
        run: "leafpress load j.db a.ndjson --table t --pk k --all-text && \
              leafpress load c.db a.csv --table t --pk k --all-text",
        holds: &[
            ("j.db", "SELECT * FROM t", "'1.10';'1.1';'2'"),
            ("c.db", "SELECT * FROM t", "'1.10';'1.1';'2'"),
        ],
        ..Found::NONE
    },
];

const OF_SHARDS: &[Found] = &[
    Found {
        finding: "the types of a database were refused",
        databases: &[("s.db", LOOSE)],
        run: "leafpress shard s.db --out o --by rows --parts 1 --table t && \
              cp $(find o -name 00000-0.db) part.db",
        holds: &[
            ("part.db", "SELECT k, d, x, b FROM t", "1,1.5,'7',x'41';'a',2,8,NULL;0.5,'n','x','9'"),
            ("part.db", TYPES, "'k INTEGER|d DECIMAL(5,2)|x |b '"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "numbers of JSON that no one type holds were refused, in a STRICT table too",
        files: &[("a.ndjson", b"{\"v\":9007199254740993}\n{\"v\":0.5}\n")],
        run: "leafpress shard a.ndjson --out o --by rows --parts 1 --table t && \
              cp $(find o -name 00000-0.db) part.db && \
              leafpress shard a.ndjson --out s --by rows --parts 1 --table t --strict && \
              cp $(find s -name 00000-0.db) strict.db",
        holds: &[
            ("part.db", "SELECT v FROM t", "9007199254740993;0.5"),
            ("part.db", TYPES, "'v NUMERIC'"),
            ("strict.db", TYPES, "'v ANY'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "a key of integers is the rowid of parts under --all-text, as of a load",
        files: &[("a.csv", b"k,v\n2,2\n1,1\n")],
        run: "leafpress shard a.csv --out o --by 'hash(k)' --parts 1 --table t --pk k --all-text && \
              cp $(find o -name 00000-0.db) part.db",
        holds: &[("part.db", "SELECT rowid, k, v FROM t", "1,1,'1';2,2,'2'")],
        ..Found::NONE
    },
    Found {
        finding: "rows stay in their order beside a column with the name rowid",
        files: &[("a.csv", b"rowid\n3\n1\n2\n")],
        run: "leafpress shard a.csv --out o --by rows --parts 1 --table t && \
              cp $(find o -name 00000-0.db) part.db",
        holds: &[("part.db", "SELECT * FROM t", "3;1;2")],
        ..Found::NONE
    },
    Found {
        finding: "names in quotes were unknown to --by",
        files: &[("a.csv", b"\"a,b\",c\n1,2\n")],
        run: "leafpress shard a.csv --out o --by 'hash(\"a,b\", c)' --parts 1 --json && \
              leafpress shard a.csv --out o --by 'range(\"a,b\"c)' --parts 1",
        status: 2,
        says: &["\"by\":\"hash(\\\"a,b\\\",c)\"", "a comma is missing before 'c'"],
        ..Found::NONE
    },
    Found {
        finding: "advice named the flag --seed by a mark of the library",
        files: &[("a.csv", b"a\n1\n")],
        run: "leafpress shard a.csv --out o --by rows --parts 1 --seed 3",
        status: 2,
        says: &["leave out --seed, or split by a hash"],
        ..Found::NONE
    },
];

#[test]
fn a_table_of_a_database_keeps_its_values_and_types() {
    assert_all(OF_SOURCES);
}

#[test]
fn a_key_is_text_unless_it_is_of_integers_where_all_is_text() {
    assert_all(OF_KEYS);
}

#[test]
fn parts_of_shards_have_the_types_of_a_load() {
    assert_all(OF_SHARDS);
}
