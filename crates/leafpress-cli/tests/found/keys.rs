//! Keys, conflicts, rejects, dry runs and existing tables.

use super::{Found, assert_all};

/// An input whose second row has no key.
const EMPTY_KEY: &[(&str, &[u8])] = &[("t.csv", b"a,b\n1,1\n,2\n")];
const EMPTY_KEY_SAYS: &[&str] = &["t.csv:3:1: column \"a\": the primary key is empty"];
pub(super) const NO_TABLE: &[&str] = &["t.db"];

/// Loads of an empty key.
const B3: &[Found] = &[
    Found {
        finding: "a key that is made is no rowid",
        files: &[("t.csv", b"a\n1\n2\n"), ("t.ndjson", b"{\"a\":1}\n{\"a\":2}\n")],
        run: "leafpress load t.db t.csv --uuid7 u --pk u && \
              leafpress load s.db t.ndjson --uuid7 u=text --pk U",
        holds: &[
            ("t.db", "SELECT typeof(u), a FROM t", "'blob',1;'blob',2"),
            ("s.db", "SELECT typeof(u), a FROM t", "'text',1;'text',2"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "B3",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --pk a",
        status: 3,
        says: EMPTY_KEY_SAYS,
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B3 with --null",
        files: &[("t.csv", b"a,b\n1,1\nNA,2\n")],
        run: "leafpress load t.db t.csv --pk a --null NA",
        status: 3,
        says: EMPTY_KEY_SAYS,
        ..Found::NONE
    },
    Found {
        finding: "B3 with --empty-null and a key of text",
        files: &[("t.csv", b"a,b\nx,1\n,2\n")],
        run: "leafpress load t.db t.csv --pk a --empty-null",
        status: 3,
        says: EMPTY_KEY_SAYS,
        ..Found::NONE
    },
    Found {
        finding: "B3 with --all-text",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --pk a --all-text",
        status: 3,
        says: EMPTY_KEY_SAYS,
        ..Found::NONE
    },
    Found {
        finding: "B3 with --strict",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --pk a --strict",
        status: 3,
        says: EMPTY_KEY_SAYS,
        ..Found::NONE
    },
    Found {
        finding: "B3 with --without-rowid",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --pk a --without-rowid",
        status: 3,
        says: EMPTY_KEY_SAYS,
        ..Found::NONE
    },
    Found {
        finding: "B3 with a compound key",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --pk b,a",
        status: 3,
        says: EMPTY_KEY_SAYS,
        ..Found::NONE
    },
    Found {
        finding: "B3 from standard input",
        files: EMPTY_KEY,
        run: "leafpress load t.db - --pk a < t.csv",
        status: 3,
        says: &["<stdin>:3:1: column \"a\": the primary key is empty"],
        ..Found::NONE
    },
    Found {
        finding: "B3 in JSON",
        files: &[("t.ndjson", b"{\"a\":1}\n{\"b\":2}\n")],
        run: "leafpress load t.db t.ndjson --pk a",
        status: 3,
        says: &["t.ndjson:2:1: column \"a\": the primary key is empty"],
        ..Found::NONE
    },
    Found {
        finding: "B3 from a database",
        databases: &[("s.db", "CREATE TABLE t(a INT, b); INSERT INTO t VALUES (1, 1), (NULL, 2)")],
        run: "leafpress load t.db s.db::t --pk a",
        status: 3,
        says: &["column \"a\": the primary key is empty"],
        ..Found::NONE
    },
    Found {
        finding: "B3 with --on-error skip",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --pk a --on-error skip",
        status: 1,
        says: EMPTY_KEY_SAYS,
        holds: &[("t.db", "SELECT a, b FROM t", "1,1")],
        ..Found::NONE
    },
    Found {
        finding: "B3 in JSON with --on-error skip, and a later key that is no integer",
        files: &[("t.ndjson", b"{\"a\":1}\n{\"b\":2}\n{\"a\":\"x\"}\n")],
        run: "leafpress load t.db t.ndjson --pk a --on-error skip",
        status: 1,
        says: &["t.ndjson:2:1: column \"a\": the primary key is empty"],
        holds: &[("t.db", "SELECT a FROM t", "'1';'x'")],
        ..Found::NONE
    },
    Found {
        finding: "B3 with --dry-run",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --pk a --dry-run",
        status: 1,
        says: &["would reject  1 row", EMPTY_KEY_SAYS[0]],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
];

pub(super) const KEYED: &[(&str, &str)] = &[(
    "t.db",
    "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT CHECK(n > 0)); INSERT INTO t VALUES (1, 1)",
)];

/// Nothing to append, and second runs.
const B4_B5: &[Found] = &[
    Found {
        finding: "B4",
        files: &[("t.ndjson", b"")],
        databases: KEYED,
        run: "leafpress load t.db t.ndjson --append",
        status: 0,
        holds: &[("t.db", "SELECT * FROM t", "1,1")],
        ..Found::NONE
    },
    Found {
        finding: "B4 with an empty array",
        files: &[("t.json", b"[]")],
        databases: KEYED,
        run: "leafpress load t.db t.json --ignore",
        status: 0,
        holds: &[("t.db", "SELECT * FROM t", "1,1")],
        ..Found::NONE
    },
    Found {
        finding: "B4 and B31, with --replace",
        files: &[("t.json", b"[]")],
        databases: KEYED,
        run: "leafpress load t.db t.json --replace",
        status: 0,
        says: &["note: t is empty now: the row that was there went, and none came"],
        holds: &[("t.db", "SELECT * FROM t", "")],
        ..Found::NONE
    },
    Found {
        finding: "B4 with objects that have no keys: rows of defaults",
        files: &[("t.ndjson", b"{}\n{}\n")],
        databases: KEYED,
        run: "leafpress load t.db t.ndjson --append",
        status: 0,
        holds: &[("t.db", "SELECT * FROM t", "1,1;2,NULL;3,NULL")],
        ..Found::NONE
    },
    Found {
        finding: "B4 with bad rows only",
        files: &[("t.ndjson", b"{\"id\":}\n{\"id\":\"x\"}\n")],
        databases: KEYED,
        run: "leafpress load t.db t.ndjson --append --on-error skip",
        status: 1,
        says: &["t.ndjson:1:7: ", "t.ndjson:2:"],
        holds: &[("t.db", "SELECT * FROM t", "1,1")],
        ..Found::NONE
    },
    Found {
        finding: "B5",
        files: &[("d.csv", b"id,b\n1,2\n")],
        run: "for d in 1 2; do leafpress load app.db d.csv --table t --replace --on-error skip \
              --rejects bad.csv -q || exit; done",
        status: 0,
        holds: &[("app.db", "SELECT * FROM t", "1,2")],
        leaves_no: &["bad.csv", "bad.csv.log"],
        ..Found::NONE
    },
    Found {
        finding: "B5 after a night with bad rows: they are kept",
        files: &[("d.csv", b"id,b\n1,2\nx\n")],
        run: "for d in 1 2; do leafpress load app.db d.csv --table t --replace --on-error skip \
              --rejects bad.csv; done",
        status: 3,
        says: &["bad.csv: it exists already, and rejects never overwrite a file"],
        ..Found::NONE
    },
    Found {
        finding: "B5 with an empty file that is there",
        files: &[("d.csv", b"id,b\n1,2\nx\n"), ("bad.csv", b""), ("bad.csv.log", b"")],
        run: "leafpress load app.db d.csv --on-error skip --rejects bad.csv -q; cat bad.csv bad.csv.log",
        status: 0,
        says: &["id,b\nx\nd.csv:3:1: the row has 1 field, but the table has 2 columns\n"],
        ..Found::NONE
    },
    Found {
        finding: "an input without rows needs no column",
        files: &[
            ("1.ndjson", b"{\"a\":1,\"b\":2}\n"),
            ("2.ndjson", b""),
            ("3.json", b"[]\n"),
            ("4.ndjson", b"{}\n"),
        ],
        databases: &[
            ("t.db", "CREATE TABLE t(a INT NOT NULL, b)"),
            ("w.db", "CREATE TABLE t(a INT PRIMARY KEY, b) WITHOUT ROWID"),
            ("d.db", "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c DEFAULT (random() IS NULL))"),
        ],
        run: "for i in 2.ndjson 3.json '1.ndjson 2.ndjson' '3.json 1.ndjson'; do \
              leafpress load t.db $i --table t --append -q; echo =$?; \
              leafpress load w.db $i --table t --upsert -q; echo =$?; done; \
              leafpress load d.db 1.ndjson 2.ndjson --table t --append -q; echo =$?; \
              leafpress load n.db 2.ndjson 1.ndjson --create 'CREATE TABLE t(a NOT NULL, b)' -q; \
              echo =$?; leafpress load t.db 4.ndjson --table t --append -q",
        status: 2,
        says: &["=0\n", "NOT NULL and missing in the input: a"],
        never_says: &["=1", "=2", "=3"],
        holds: &[
            ("t.db", "SELECT a, b FROM t", "1,2;1,2"),
            ("w.db", "SELECT a, b FROM t", "1,2"),
            ("d.db", "SELECT a, b, c FROM t", "1,2,0"),
            ("n.db", "SELECT a, b FROM t", "1,2"),
        ],
        ..Found::NONE
    },
];

/// Bad rows for a table that is there.
const B9: &[Found] = &[
    Found {
        finding: "B9",
        files: &[("t.csv", b"id,n\n2,-5\n3,1\n")],
        databases: KEYED,
        run: "leafpress load t.db t.csv --append --on-error skip --rejects r && exit 9; cat r r.log",
        status: 0,
        says: &["loaded     1 row", "rejected   1 row", "id,n\n2,-5\nt.csv:2:1: CHECK constraint failed: n > 0"],
        holds: &[("t.db", "SELECT * FROM t", "1,1;3,1")],
        ..Found::NONE
    },
    Found {
        finding: "B9 with keys that are there, and repeated in the input",
        files: &[("t.csv", b"id,n\n5,1\n1,7\n5,2\n4,3\nx,1\n")],
        databases: KEYED,
        run: "leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &[
            "t.csv:3:1: UNIQUE constraint failed: t.id",
            "t.csv:4:1: UNIQUE constraint failed: t.id",
            "t.csv:6:1: column \"id\": 'x' is not an INTEGER",
        ],
        holds: &[("t.db", "SELECT * FROM t", "1,1;4,3;5,1")],
        ..Found::NONE
    },
    Found {
        finding: "B9 with NOT NULL, STRICT and a foreign key",
        files: &[("t.ndjson", b"{\"id\":1,\"p\":7}\n{\"id\":2,\"p\":8}\n{\"id\":3,\"p\":null}\n{\"id\":4,\"p\":\"x\"}\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE p(k INTEGER PRIMARY KEY); INSERT INTO p VALUES (7);
             CREATE TABLE t(id INT PRIMARY KEY, p INT NOT NULL REFERENCES p) STRICT",
        )],
        run: "leafpress load t.db t.ndjson --append --on-error skip",
        status: 1,
        says: &["t.ndjson:2:1: FOREIGN KEY constraint failed", "t.ndjson:3:1: ", "t.ndjson:4:1: "],
        holds: &[("t.db", "SELECT * FROM t", "1,7")],
        ..Found::NONE
    },
    Found {
        finding: "B9 with a tree whose children come first, and one that has no root",
        files: &[("t.csv", b"id,up\n3,2\n2,1\n1,\n6,5\n5,4\n")],
        databases: &[("t.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, up INT REFERENCES t)")],
        run: "leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &["t.csv:5:1: FOREIGN KEY", "t.csv:6:1: FOREIGN KEY"],
        holds: &[("t.db", "SELECT * FROM t", "1,NULL;2,1;3,2")],
        ..Found::NONE
    },
    Found {
        finding: "B9 with such a tree whose rows have no rowid, in place of the old ones",
        files: &[("t.csv", b"id,up\n3,2\n2,1\n1,\n6,5\n5,4\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INT PRIMARY KEY, up INT REFERENCES t) WITHOUT ROWID;
             INSERT INTO t VALUES (4, NULL)",
        )],
        run: "leafpress load t.db t.csv --replace --on-error skip",
        status: 1,
        says: &["t.csv:5:1: FOREIGN KEY", "t.csv:6:1: FOREIGN KEY"],
        holds: &[("t.db", "SELECT * FROM t", "1,NULL;2,1;3,2")],
        ..Found::NONE
    },
    Found {
        finding: "B9 with a deferred foreign key",
        files: &[("t.csv", b"id,p\n1,7\n2,8\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE p(k INTEGER PRIMARY KEY); INSERT INTO p VALUES (7);
             CREATE TABLE t(id INTEGER PRIMARY KEY, p INT REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        )],
        run: "leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &["t.csv:3:1: FOREIGN KEY constraint failed: there is no such row of p"],
        holds: &[("t.db", "SELECT * FROM t", "1,7")],
        ..Found::NONE
    },
    Found {
        finding: "B9 with --upsert, and a trigger that refuses a row after a change",
        files: &[("t.csv", b"id,n\n1,5\n2,99\n3,1\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1);
             CREATE TABLE seen(id);
             CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO seen VALUES (new.id);
             SELECT RAISE(FAIL, 'too many') WHERE new.n > 50; END",
        )],
        run: "leafpress load t.db t.csv --upsert --on-error skip",
        status: 1,
        says: &["t.csv:3:1: too many"],
        holds: &[("t.db", "SELECT * FROM t", "1,5;3,1"), ("t.db", "SELECT * FROM seen", "3")],
        ..Found::NONE
    },
];

/// Dry runs that count what the load rejects.
const B10: &[Found] = &[
    Found {
        finding: "B10 with --not-null",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --dry-run --not-null a",
        status: 1,
        says: &["would reject  1 row", "t.csv:3:1: the column \"a\" is NOT NULL"],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B10 with --without-rowid",
        files: EMPTY_KEY,
        run: "leafpress load t.db t.csv --dry-run --pk a --without-rowid",
        status: 1,
        says: &["would reject  1 row"],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B10 with a CHECK",
        files: &[("t.csv", b"a,b\n1,1\n7,2\n")],
        run: "leafpress load t.db t.csv --dry-run --create 'create table t(a int check(a>5),b)'",
        status: 1,
        says: &["would reject  1 row", "t.csv:2:1: CHECK constraint failed: a>5"],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B10 with repeated keys",
        files: &[("t.csv", b"a,b\n1,1\n1,2\n2,1\n")],
        run: "leafpress load t.db t.csv --dry-run --pk a --unique b",
        status: 1,
        says: &["would reject  2 rows", "t.csv:3:1: ", "t.csv:4:3: "],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B10 for a new table whose rows refer to nothing: the load would fail",
        files: &[("t.csv", b"id,p\n1,7\n2,8\n")],
        databases: &[("t.db", "CREATE TABLE p(k INTEGER PRIMARY KEY); INSERT INTO p VALUES (7)")],
        run: "leafpress load t.db t.csv --create 'create table t(id, p references p)' --dry-run",
        status: 3,
        says: &["t.csv:3:3: FOREIGN KEY constraint failed: there is no such row of p"],
        holds: &[("t.db", "SELECT name FROM sqlite_schema", "'p'")],
        ..Found::NONE
    },
    Found {
        finding: "B10 for a table that is there",
        files: &[("t.csv", b"id,n\n1,7\n2,-5\n3,1\n3,2\n")],
        databases: KEYED,
        run: "cp t.db before; leafpress load t.db t.csv --append --dry-run && exit 9; cmp t.db before",
        as_other_user: false,
        status: 0,
        says: &["would reject  3 rows", "t.csv:2:1: ", "t.csv:3:1: ", "t.csv:5:1: "],
        never_says: &["differ"],
        holds: &[("t.db", "SELECT * FROM t", "1,1")],
        leaves_no: &["t.db-journal", "t.db-wal"],
    },
];

/// Bad JSON, copies within a database, and what is said of refused rows.
const B13_TO_B22: &[Found] = &[
    Found {
        finding: "B13",
        files: &[("t.json", b"{\"a\": }\n")],
        run: "leafpress load t.db t.json",
        status: 3,
        says: &["t.json:1:7: expected a value, found '}'"],
        ..Found::NONE
    },
    Found {
        finding: "B13 with --on-error skip",
        files: &[("t.json", b"{\"a\": }\n{\"b\n\x1b\": 1}\n")],
        run: "leafpress load t.db t.json --on-error skip",
        status: 3,
        says: &["rows are bad", "t.json:1:7: expected a value, found '}'", "t.json:2:"],
        ..Found::NONE
    },
    Found {
        finding: "B15",
        databases: &[("s.db", "CREATE TABLE a(x); INSERT INTO a VALUES (1), (2)")],
        run: "leafpress load s.db s.db::a --table b",
        status: 0,
        holds: &[("s.db", "SELECT * FROM b", "1;2")],
        ..Found::NONE
    },
    Found {
        finding: "B15 into a table that is there, with bad rows",
        databases: &[(
            "s.db",
            "CREATE TABLE a(x); INSERT INTO a VALUES (1), (2), (2);
             CREATE TABLE b(x INTEGER PRIMARY KEY); INSERT INTO b VALUES (1)",
        )],
        run: "leafpress load s.db s.db::a --table b --append --on-error skip",
        status: 1,
        says: &["rejected   2 rows", "s.db::a:1:1: UNIQUE constraint failed: b.x"],
        holds: &[("s.db", "SELECT * FROM b", "1;2")],
        ..Found::NONE
    },
    Found {
        finding: "B17",
        files: &[("t.csv", b"id,n\n5,7\n1,8\n")],
        databases: KEYED,
        run: "leafpress load t.db t.csv --append",
        status: 3,
        says: &["t.csv:3:1: UNIQUE constraint failed: t.id", "1,8", "--ignore"],
        holds: &[("t.db", "SELECT * FROM t", "1,1")],
        ..Found::NONE
    },
    Found {
        finding: "B17 as JSON",
        files: &[("t.csv", b"id,n\n5,7\n1,8\n")],
        databases: KEYED,
        run: "leafpress load t.db t.csv --append --json",
        status: 3,
        says: &["\"kind\":\"constraint\"", "\"line\":3", "\"file\":\"t.csv\""],
        ..Found::NONE
    },
    Found {
        finding: "B17, advice for a CHECK",
        files: &[("t.csv", b"id,n\n5,7\n6,-8\n")],
        databases: KEYED,
        run: "leafpress load t.db t.csv --append",
        status: 3,
        says: &["t.csv:3:1: CHECK constraint failed"],
        never_says: &["--ignore", "--upsert"],
        ..Found::NONE
    },
    Found {
        finding: "B17, advice for a foreign key",
        files: &[("t.csv", b"id,p\n5,7\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE p(k INTEGER PRIMARY KEY); CREATE TABLE t(id INTEGER PRIMARY KEY, p REFERENCES p)",
        )],
        run: "leafpress load t.db t.csv --append",
        status: 3,
        says: &[
            "t.csv:2:1: FOREIGN KEY constraint failed",
            "load the rows that it refers to first",
        ],
        never_says: &["--ignore", "--upsert"],
        ..Found::NONE
    },
    Found {
        finding: "D12: a repeated key of a new table is of the same kind",
        files: &[("t.csv", b"id,n\n5,7\n5,8\n")],
        run: "leafpress load t.db t.csv --pk id --json",
        status: 3,
        says: &["\"kind\":\"constraint\"", "\"line\":3"],
        ..Found::NONE
    },
    Found {
        finding: "D11: each cause has its kind",
        files: &[("t.csv", b"id,n\n5,7\n"), ("x.db", b"no database, but a text of some length")],
        databases: KEYED,
        run: "leafpress load t.db t.csv --json; leafpress load x.db t.csv --json; \
              leafpress load t.db t.csv --table u --ignore --json",
        status: 2,
        says: &[
            "\"kind\":\"table_exists\"",
            "\"kind\":\"not_a_database\"",
            "\"kind\":\"not_found\"",
        ],
        ..Found::NONE
    },
    Found {
        finding: "B21",
        databases: &[("s.db", "CREATE TABLE p(f, g); INSERT INTO p VALUES (1, 2)")],
        run: "leafpress index s.db p f -q && leafpress index s.db p f",
        status: 3,
        says: &["the index p_f on table p does the same already", "--if-not-exists"],
        holds: &[("s.db", "SELECT name FROM sqlite_schema WHERE type = 'index'", "'p_f'")],
        ..Found::NONE
    },
    Found {
        finding: "B21 with --if-not-exists",
        databases: &[("s.db", "CREATE TABLE p(f, g, UNIQUE(f)); CREATE INDEX i ON p(g DESC)")],
        run: "leafpress index s.db p f --if-not-exists && leafpress index s.db p g --if-not-exists -q \
              && leafpress index s.db p 'g DESC' --if-not-exists --name other -q",
        status: 0,
        says: &["there is the index"],
        holds: &[("s.db", "SELECT name FROM sqlite_schema WHERE sql LIKE '%INDEX%'", "'i';'p_g'")],
        ..Found::NONE
    },
    Found {
        finding: "B21 in a load",
        files: &[("t.csv", b"k\n1\n")],
        run: "leafpress load t.db t.csv --index k --index k",
        status: 2,
        says: &["the index on k is asked for twice"],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B22",
        files: &[("t.csv", b"id,n\n1,2\nx,3\n4\n5,6\n")],
        run: "leafpress load z.db t.csv --type id=integer --on-error skip --rejects bad.csv && exit 9; \
              sed -i 's/^x/3/; s/^4$/4,5/' bad.csv; \
              leafpress load z.db bad.csv --table t --append -q && cat bad.csv.log",
        status: 0,
        says: &[
            "t.csv:3:1: column \"id\": 'x' is not an INTEGER",
            "t.csv:4:1: the row has 1 field, but the table has 2 columns",
        ],
        holds: &[("z.db", "SELECT * FROM t", "1,2;5,6;3,3;4,5")],
        ..Found::NONE
    },
    Found {
        finding: "B22 of inputs whose columns stand in other orders",
        files: &[("a.csv", b"id,n\nx,3\n"), ("b.tsv", b"n\tid\n\"a\tb\"\ty\nc,d\tz\n")],
        run: "leafpress load z.db a.csv b.tsv --table t --type id=integer --on-error skip \
              --rejects bad.csv -q; cat bad.csv",
        status: 0,
        says: &["id,n\nx,3\ny,\"a\tb\"\nz,\"c,d\"\n"],
        ..Found::NONE
    },
    Found {
        finding: "B22 as JSON: all kinds, and the first ten",
        files: &[("t.csv", b"a\n1\nb1\nb2\nb3\nb4\nb5\nb6\nb7\nb8\nb9\nb10\nb11\nb12\n1,2\n")],
        run: "leafpress load z.db t.csv --type a=integer --on-error skip --json",
        status: 1,
        says: &[
            "\"reject_reasons\":[{\"reason\":\"column \\\"a\\\": '…' is not an INTEGER\",\"rows\":12},",
            "\"rows\":1}]",
            "\"line\":12",
        ],
        never_says: &["\"line\":13"],
        ..Found::NONE
    },
    Found {
        finding: "reasons are counted with the whole text of a CHECK",
        files: &[("t.csv", b"a\n1\n20\n2\n")],
        run: "leafpress load z.db t.csv --create 'CREATE TABLE t(a INT CHECK (a > 10))' \
              --on-error skip --json",
        status: 1,
        says: &["\"reject_reasons\":[{\"reason\":\"CHECK constraint failed: a > 10\",\"rows\":2}]"],
        ..Found::NONE
    },
    Found {
        finding: "the first row of the input that refers to nothing, of a new table",
        databases: &[("t.db", PARENT)],
        files: &[("t.csv", b"id,n,parent\n3,x,1\n2,y,\n9,z,7\n1,z,8\n")],
        run: "leafpress load t.db t.csv --create \
              'CREATE TABLE t(id INTEGER PRIMARY KEY, n, parent INT REFERENCES p)'",
        status: 3,
        says: &[
            "t.csv:4:5: FOREIGN KEY constraint failed: there is no such row of p",
            "load p first",
            "the database is as it was",
        ],
        holds: &[("t.db", "SELECT name FROM sqlite_schema", "'p'")],
        ..Found::NONE
    },
    Found {
        finding: "the same of a table without rowids, with a CHECK, that refers to itself",
        databases: &[("t.db", PARENT)],
        files: &[("t.csv", b"id,parent\nb,a\nc,B\na,\nd,e\n")],
        run: "leafpress load t.db t.csv --create 'CREATE TABLE t(id TEXT PRIMARY KEY CHECK (id <> 7), \
              parent REFERENCES t) WITHOUT ROWID' --null ''",
        status: 3,
        says: &["t.csv:3:3: FOREIGN KEY constraint failed: there is no such row of t"],
        holds: &[("t.db", "SELECT name FROM sqlite_schema", "'p'")],
        ..Found::NONE
    },
    Found {
        finding: "the same of a dry run, and of rows among which one is ignored",
        databases: &[("t.db", PARENT)],
        files: &[("t.csv", b"id,parent\n1,1\n1,8\n2,9\n")],
        run: "leafpress load t.db t.csv --on-conflict ignore --dry-run --create \
              'CREATE TABLE t(id INTEGER PRIMARY KEY, parent INT REFERENCES p)'",
        status: 3,
        says: &["t.csv:4:3: FOREIGN KEY constraint failed: there is no such row of p"],
        ..Found::NONE
    },
];

/// A table that others refer to.
const PARENT: &str = "CREATE TABLE p(k INTEGER PRIMARY KEY); INSERT INTO p VALUES (1)";

/// A declaration that replaces rows, and a trigger that ignores words which are there.
const REPLACING: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT REPLACE, v);
    CREATE TABLE words(v PRIMARY KEY);
    CREATE TRIGGER after_t AFTER INSERT ON t BEGIN INSERT OR IGNORE INTO words VALUES(new.v); END;
    INSERT INTO t VALUES(1, 'there')";

/// Rows that meet a key which is there, and were lost without a word.
const MEETING: &[Found] = &[
    Found {
        finding: "an upsert of a row without its rowid",
        databases: &[("t.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, n)")],
        files: &[("t.csv", b"id,n\n1,b\n,a\n")],
        run: "leafpress load t.db t.csv --upsert",
        holds: &[("t.db", "SELECT * FROM t", "1,'b';2,'a'")],
        ..Found::NONE
    },
    Found {
        finding: "rows without their rowid beside --ignore",
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES(5, 'old')",
        )],
        files: &[("t.csv", b"id,n\n6,b\n,a\n")],
        run: "leafpress load t.db t.csv --ignore",
        holds: &[("t.db", "SELECT * FROM t", "5,'old';6,'b';7,'a'")],
        ..Found::NONE
    },
    Found {
        finding: "an append to a table that is declared with ON CONFLICT REPLACE",
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT REPLACE, v); INSERT INTO t VALUES(1, 'there')",
        )],
        files: &[("t.csv", b"id,v\n2,a\n1,new\n")],
        run: "leafpress load t.db t.csv --append",
        status: 3,
        says: &["t.csv:3:1"],
        holds: &[("t.db", "SELECT * FROM t", "1,'there'")],
        ..Found::NONE
    },
    Found {
        finding: "ON CONFLICT ROLLBACK, and the row that is there",
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK, v); INSERT INTO t VALUES(1, 'there')",
        )],
        files: &[("t.csv", b"id,v\n2,a\n1,new\n")],
        run: "leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &["t.csv:3:1"],
        holds: &[("t.db", "SELECT * FROM t", "1,'there';2,'a'")],
        ..Found::NONE
    },
    Found {
        finding: "ON CONFLICT REPLACE of a table with a trigger, whose own OR IGNORE counts",
        databases: &[("t.db", REPLACING)],
        files: &[("t.csv", b"id,v\n2,a\n1,new\n3,a\n")],
        run: "leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &["t.csv:3:1: UNIQUE constraint failed: t.id", "row by row"],
        holds: &[
            ("t.db", "SELECT * FROM t", "1,'there';2,'a';3,'a'"),
            ("t.db", "SELECT * FROM words", "'there';'a'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "the same without a bad row, and in one statement",
        databases: &[("t.db", REPLACING)],
        files: &[("t.csv", b"id,v\n2,a\n3,a\n")],
        run: "leafpress load t.db t.csv --append",
        says: &["INSERT"],
        holds: &[("t.db", "SELECT * FROM words", "'there';'a'")],
        ..Found::NONE
    },
    Found {
        finding: "an upsert by one key of a table that is declared to replace by another",
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE ON CONFLICT REPLACE);
             CREATE TRIGGER after_t AFTER INSERT ON t BEGIN SELECT 1; END;
             INSERT INTO t VALUES(1, 'x'), (2, 'y')",
        )],
        files: &[("t.csv", b"id,u\n1,z\n3,y\n")],
        run: "leafpress load t.db t.csv --upsert --on-error skip",
        status: 1,
        says: &["t.csv:3:3: UNIQUE constraint failed: t.u"],
        holds: &[("t.db", "SELECT * FROM t", "1,'z';2,'y'")],
        ..Found::NONE
    },
    Found {
        finding: "a trigger that leaves rows out by RAISE(IGNORE) refuses none",
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY ON CONFLICT REPLACE, v);
             CREATE TRIGGER before_t BEFORE INSERT ON t WHEN new.v = 'no' BEGIN SELECT RAISE(IGNORE); END",
        )],
        files: &[("t.csv", b"id,v\n1,a\n2,no\n3,b\n")],
        run: "leafpress load t.db t.csv --append",
        holds: &[("t.db", "SELECT * FROM t", "1,'a';3,'b'")],
        ..Found::NONE
    },
    Found {
        finding: "the sequence of AUTOINCREMENT after rows that were refused",
        files: &[("t.csv", b"id,u\n5,a\n900,a\n7,b\n")],
        run: "leafpress load t.db t.csv --on-error skip \
              --create 'CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE)'",
        status: 1,
        holds: &[("t.db", "SELECT * FROM sqlite_sequence", "'t',7")],
        ..Found::NONE
    },
    Found {
        finding: "the same of rows that were ignored, which SQLite counts",
        files: &[("t.csv", b"id,u\n5,a\n7,b\n900,a\n")],
        run: "leafpress load t.db t.csv --on-conflict ignore \
              --create 'CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE)'",
        holds: &[("t.db", "SELECT * FROM sqlite_sequence", "'t',900")],
        ..Found::NONE
    },
    Found {
        finding: "with AUTOINCREMENT an ignored row takes a number, a refused one does not",
        files: &[("t.csv", b"u\na\na\nb\nb\n")],
        databases: &[("o.db", "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE)")],
        run: "leafpress load n.db t.csv -q --on-conflict ignore \
                --create 'CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE)'; \
              leafpress load o.db t.csv -q --ignore; \
              leafpress load s.db t.csv -q --on-error skip \
                --create 'CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, u UNIQUE)'",
        status: 1,
        holds: &[
            ("n.db", "SELECT * FROM t", "1,'a';3,'b'"),
            ("n.db", "SELECT * FROM sqlite_sequence", "'t',4"),
            ("o.db", "SELECT * FROM t", "1,'a';3,'b'"),
            ("o.db", "SELECT * FROM sqlite_sequence", "'t',4"),
            ("s.db", "SELECT * FROM t", "1,'a';2,'b'"),
            ("s.db", "SELECT * FROM sqlite_sequence", "'t',2"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "--ignore keeps the first row of the input",
        databases: &[("t.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, u TEXT UNIQUE)")],
        files: &[("t.csv", b"id,u\n14,u8\n3,u8\n")],
        run: "leafpress load t.db t.csv --ignore",
        holds: &[("t.db", "SELECT * FROM t", "14,'u8'")],
        ..Found::NONE
    },
];

#[test]
fn keys_that_are_empty() {
    assert_all(B3);
}

#[test]
fn nothing_to_append_and_second_runs() {
    assert_all(B4_B5);
}

#[test]
fn bad_rows_for_a_table_that_is_there() {
    assert_all(B9);
}

#[test]
fn dry_runs() {
    assert_all(B10);
}

#[test]
fn what_is_said_of_refused_rows() {
    assert_all(B13_TO_B22);
}

#[test]
fn rows_that_meet_a_key() {
    assert_all(MEETING);
}
