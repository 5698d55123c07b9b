//! Databases and tables that are there, and such as appear while a load runs.

use std::fs;

use rusqlite::Connection;

use super::{Found, assert_all, rows, shell};

/// Rows that an index on an expression, or a foreign key of the table itself, decides about.
const DECIDED_LATE: &[Found] = &[
    Found {
        finding: "an index on an expression that is built anew refuses a row, and not the load",
        databases: &[("t.db", "CREATE TABLE t(v); CREATE INDEX a ON t(json_extract(v, '$.a'))")],
        run: "(echo v; seq 10000; echo '{bad'; echo 0) > t.csv; \
              leafpress load t.db t.csv --append; \
              leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &["t.csv:10002:1: malformed JSON", "rejected       1 row"],
        holds: &[("t.db", "SELECT count(*), sum(v IS NULL) FROM t", "10001,0")],
        ..Found::NONE
    },
    Found {
        finding: "an empty --replace counts the rows that go with others",
        files: &[("t.csv", b"id,p\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, p REFERENCES t ON DELETE CASCADE); \
             INSERT INTO t VALUES (1, NULL), (2, 1), (3, 2)",
        )],
        run: "leafpress load t.db t.csv --replace",
        says: &["3 rows that were there went"],
        holds: &[("t.db", "SELECT count(*) FROM t", "0")],
        ..Found::NONE
    },
];

#[test]
fn indexes_and_foreign_keys_decide_late() {
    assert_all(DECIDED_LATE);
}

/// Keys that the flags name and the table has, in a form that no flag can state.
const NAMED: &[Found] = &[
    Found {
        finding: "--pk names the key that a table has, whatever its collations and directions",
        files: &[("t.csv", b"k,v\nA,2\nb,3\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE a(k TEXT PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO a VALUES ('A', 1); \
             CREATE TABLE b(k TEXT COLLATE NOCASE PRIMARY KEY, v); INSERT INTO b VALUES ('a', 1); \
             CREATE TABLE c(k TEXT, v, PRIMARY KEY (v DESC, k)); INSERT INTO c VALUES ('A', 2)",
        )],
        run: "leafpress load t.db t.csv --table a --upsert --pk k -q && \
              leafpress load t.db t.csv --table b --upsert --pk k -q && \
              leafpress load t.db t.csv --table c --ignore --pk k,v -q",
        holds: &[
            ("t.db", "SELECT * FROM a", "'A','2';'b','3'"),
            ("t.db", "SELECT * FROM b ORDER BY k", "'a','2';'b','3'"),
            ("t.db", "SELECT count(*) FROM c", "3"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "--pk and --index name what a table has not",
        files: &[("t.csv", b"k,v\nA,2\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE a(k, v, w); CREATE UNIQUE INDEX a_k ON a(k) WHERE v > 1; \
             CREATE INDEX a_v ON a(v); CREATE UNIQUE INDEX a_w ON a(w)",
        )],
        run: "leafpress load t.db t.csv --table a --append --pk k; \
              leafpress load t.db t.csv --table a --append --unique v; \
              leafpress load t.db t.csv --table a --append --index 'v NOCASE'",
        status: 2,
        says: &["has another primary key", "has no unique index of v", "has no index of v NOCASE"],
        holds: &[("t.db", "SELECT count(*) FROM a", "0")],
        ..Found::NONE
    },
    Found {
        finding: "the row without its parent is named, also beside a column called rowid",
        files: &[("t.csv", b"rowid,r\nz,1\na,99\n")],
        databases: &[("t.db", "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1)")],
        run: "leafpress load t.db t.csv --create \
              'CREATE TABLE t(\"rowid\" TEXT, r REFERENCES p(id))'",
        status: 3,
        says: &["t.csv:3:"],
        never_says: &["t.csv:2:"],
        holds: &[("t.db", "SELECT count(*) FROM sqlite_schema", "1")],
        ..Found::NONE
    },
];

#[test]
fn keys_are_named_as_a_table_has_them() {
    assert_all(NAMED);
}

/// Tables that are missing, for rows that change what is there.
const MISSING: &[Found] = &[
    Found {
        finding: "--upsert --pk makes a missing table, and works again",
        files: &[("t.csv", b"id,n\n1,a\n2,b\n1,c\n"), ("u.csv", b"id,n\n2,d\n3,e\n")],
        run: "for f in t u; do leafpress load t.db $f.csv --table t --upsert --pk id || exit; done; \
              for f in t u; do leafpress load i.db $f.csv --table t --ignore --pk id || exit; done",
        holds: &[
            ("t.db", "SELECT * FROM t ORDER BY id", "1,'c';2,'d';3,'e'"),
            ("i.db", "SELECT * FROM t ORDER BY id", "1,'a';2,'b';3,'e'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "--upsert without a key, or with two, says how a missing table is made",
        files: &[("t.csv", b"id,n\n1,a\n")],
        databases: &[("t.db", "CREATE TABLE other(a)")],
        run: "leafpress load t.db t.csv --upsert; leafpress load u.db t.csv --ignore; \
              leafpress load t.db t.csv --upsert --pk id --unique n",
        status: 2,
        says: &[
            "no such table: t\non disk: the database is as it was\n\
             to do: name a table that is there; with --pk a missing table is made, and the same call works",
            "to do: there is no database u.db; with --pk a missing table is made",
            "--append with --on-conflict replace makes a missing table",
        ],
        holds: &[("t.db", "SELECT name FROM sqlite_schema", "'other'")],
        leaves_no: &["u.db"],
        ..Found::NONE
    },
    Found {
        finding: "--append to a view says that it is one",
        files: &[("t.csv", b"id\n1\n")],
        databases: &[("t.db", "CREATE VIEW t AS SELECT 1 AS id")],
        run: "leafpress load t.db t.csv --append",
        status: 3,
        says: &["there is a view t already", "to do: give the table another name with --table"],
        never_says: &["no such table"],
        ..Found::NONE
    },
];

/// Names of indexes and of types in the database.
const NAMES: &[Found] = &[
    Found {
        finding: "an index of a table that was renamed has the name that a new table's index would get",
        files: &[("t.csv", b"a,b\n1,2\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE old(a); CREATE INDEX t_a ON old(a); CREATE VIEW t_b AS SELECT 1",
        )],
        run: "leafpress load t.db t.csv --index a --unique b",
        holds: &[(
            "t.db",
            "SELECT name FROM sqlite_schema WHERE tbl_name = 't' ORDER BY 1",
            "'t';'t_a_2';'t_b_2'",
        )],
        ..Found::NONE
    },
    Found {
        finding: "the name of a declared index that is taken was told at the end, and not by a dry run",
        files: &[("t.csv", b"a\n1\n")],
        databases: &[("t.db", "CREATE TABLE s(a); CREATE INDEX i ON s(a)")],
        run: "for name in i S; do \
                leafpress load t.db t.csv --dry-run --create \"CREATE TABLE t(a); CREATE INDEX $name ON t(a)\"; \
              done",
        status: 3,
        says: &[
            "there is an index i already\non disk: the database is as it was\n\
             to do: give the index another name",
            "there is a table s already",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a schema with a function of mathematics, which the sqlite3 shell has",
        files: &[("t.csv", b"a\n2\n2.5\n")],
        databases: &[("t.db", "CREATE TABLE t(a REAL CHECK (a = floor(a)), root AS (sqrt(a)))")],
        run: "leafpress load t.db t.csv --append --on-error skip; leafpress verify t.db",
        says: &["t.csv:3:1: CHECK constraint failed"],
        holds: &[("t.db", "SELECT a FROM t", "2.0")],
        ..Found::NONE
    },
    Found {
        finding: "a type with a quoted name could not be written into the staged table",
        files: &[("t.csv", b"id,a,b\n1,007,x\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a [nvarchar](50), b \"weird, x\")",
        )],
        run: "leafpress load t.db t.csv --append && leafpress load t.db t.csv --upsert --pk id",
        holds: &[("t.db", "SELECT * FROM t", "1,'007','x'")],
        ..Found::NONE
    },
];

#[test]
fn names_in_the_database_are_no_hindrance_or_told_at_once() {
    assert_all(NAMES);
}

#[test]
fn missing_tables_are_made_for_a_key_that_is_named() {
    assert_all(MISSING);
}

#[test]
fn the_reader_is_named_that_a_load_waits_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let reader = Connection::open(folder.path().join("t.db")).expect("a database");
    reader.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").expect("a table");
    fs::write(folder.path().join("t.csv"), "a\n3\n").expect("a file");
    let mut statement = reader.prepare("SELECT a FROM t").expect("a query");
    let mut rows = statement.query([]).expect("it begins");
    rows.next().expect("it reads");
    let load = "leafpress load t.db t.csv --append --busy-timeout 300";
    let (status, said) = shell(folder.path(), load);
    assert_eq!(status, 3, "{said}");
    let named = format!("now: process {} (", std::process::id());
    assert!(said.contains(&named), "{said}");
    assert!(said.contains(") reads it, and the commit waits until that has ended"), "{said}");
    assert!(!said.contains("this process"), "{said}");
}

const GIVEN_REAL: &[Found] = &[
    Found {
        finding: "--type real, for a column without a type",
        databases: &[("r.db", "CREATE TABLE r(x, y BLOB)")],
        files: &[("r.csv", b"x,y\n1,7\n2.5,\"8\"\n,1e2\n"), ("r.json", b"{\"x\": 3, \"y\": 4.0}")],
        run: "leafpress load r.db r.csv --append --type x=real --type y=real && \
              leafpress load r.db r.json --append --type x=real --type y=real",
        holds: &[(
            "r.db",
            "SELECT typeof(x), x, y FROM r",
            "'real',1.0,7.0;'real',2.5,8.0;'null',NULL,100.0;'real',3.0,4.0",
        )],
        ..Found::NONE
    },
    Found {
        finding: "--type real, for a column without a type in --create",
        files: &[("r.csv", b"x\n1\n2\n")],
        run: "leafpress load r.db r.csv --create 'CREATE TABLE r(x)' --type x=real --index x",
        holds: &[("r.db", "SELECT x FROM r ORDER BY x", "1.0;2.0")],
        ..Found::NONE
    },
    Found {
        finding: "--type real, a value that is none",
        databases: &[("r.db", "CREATE TABLE r(x)")],
        files: &[("r.csv", b"x\n1\ntwo\n")],
        run: "leafpress load r.db r.csv --append --type x=real",
        status: 3,
        says: &["r.csv:3:1", "'two' is not a REAL"],
        ..Found::NONE
    },
];

const AT_ONCE: &[Found] = &[
    Found {
        finding: "loads at once that append to a database that is not there",
        run: "seq 100000 | sed '1s/.*/n/' >x.csv; s=0; for i in 1 2 3 4; do \
              leafpress load t.db x.csv --table t --append -q & pids=\"$pids $!\"; done; \
              for pid in $pids; do wait $pid || s=$?; done; exit $s",
        holds: &[("t.db", "SELECT count(*) FROM t", "399996")],
        ..Found::NONE
    },
    Found {
        finding: "loads at once into tables of their own",
        run: "seq 100000 | sed '1s/.*/n/' >x.csv; s=0; for i in 1 2 3 4; do \
              leafpress load t.db x.csv --table t$i -q & pids=\"$pids $!\"; done; \
              for pid in $pids; do wait $pid || s=$?; done; exit $s",
        holds: &[(
            "t.db",
            "SELECT (SELECT count(*) FROM t1), (SELECT count(*) FROM t2), \
             (SELECT count(*) FROM t3), (SELECT count(*) FROM t4)",
            "99999,99999,99999,99999",
        )],
        ..Found::NONE
    },
    Found {
        finding: "loads at once, with rejects",
        run: "seq 100000 | sed '1s/.*/n/; 9s/$/,/' >x.csv; s=0; for i in 1 2 3 4; do \
              leafpress load t.db x.csv --table t$i -q --on-error skip --rejects bad$i & \
              pids=\"$pids $!\"; done; for pid in $pids; do wait $pid; \
              [ $? = 1 ] || s=9; done; cat bad?; exit $s",
        says: &["n\n9,\nn\n9,\nn\n9,\nn\n9,\n"],
        ..Found::NONE
    },
    Found {
        finding: "a load of standard input, which is gone when another load was faster",
        files: &[("x.csv", b"n\n1\n")],
        run: "{ seq 1000000 | sed '1s/.*/n/'; while [ ! -e t.db ]; do sleep 0.1; done; echo 2; } | \
              leafpress load t.db - --table t --append & \
              until ls -A | grep -q leafpress-; do sleep 0.1; done; \
              leafpress load t.db x.csv --table t; wait $!",
        status: 3,
        says: &["t.db: it was made by another program meanwhile", "to do: try again"],
        holds: &[("t.db", "SELECT n FROM t", "1")],
        ..Found::NONE
    },
];

const LINKS: &[Found] = &[
    Found {
        finding: "a link to a database that is not there",
        files: &[("x.csv", b"n\n1\n")],
        run: "mkdir there; ln -s there/t.db l.db; leafpress load l.db x.csv --table t && \
              test -L l.db && ls -A there",
        says: &["t.db\n"],
        holds: &[("there/t.db", "SELECT n FROM t", "1")],
        ..Found::NONE
    },
    Found {
        finding: "a link to a link, and a folder that is not there",
        files: &[("x.csv", b"n\n1\n")],
        run: "ln -s nowhere/t.db a.db; ln -s \"$PWD/a.db\" l.db; \
              leafpress load l.db x.csv --table t --append; s=$?; ls -A; exit $s",
        status: 3,
        says: &["cannot create a file in", "/nowhere"],
        never_says: &["leafpress-"],
        ..Found::NONE
    },
    Found {
        finding: "a link to a database that is not there, whose old journal is",
        files: &[("x.csv", b"n\n1\n")],
        run: "mkdir there; echo x >there/t.db-journal; ln -s there/t.db l.db; \
              leafpress load l.db x.csv --table t",
        status: 3,
        says: &["there/t.db-journal: it belongs to a database that was here before"],
        ..Found::NONE
    },
];

const PAGE_SIZES: &[Found] = &[
    Found {
        finding: "--page-size for a database that is there",
        databases: &[("t.db", "PRAGMA page_size=1024; CREATE TABLE t(n)")],
        files: &[("x.csv", b"n\n1\n")],
        run: "leafpress load t.db x.csv --table t --append --page-size 8192",
        status: 2,
        says: &["its pages have 1024 bytes, not 8192", "leave out --page-size"],
        holds: &[("t.db", "SELECT count(*) FROM t", "0")],
        ..Found::NONE
    },
    Found {
        finding: "--page-size that the database has",
        databases: &[("t.db", "PRAGMA page_size=1024; CREATE TABLE t(n)")],
        files: &[("x.csv", b"n\n1\n")],
        run: "leafpress load t.db x.csv --table t --append --page-size 1024",
        holds: &[("t.db", "SELECT count(*) FROM t", "1")],
        ..Found::NONE
    },
];

const MEETING: &[Found] = &[
    Found {
        finding: "--on-conflict replace of rows that are appended, as documented",
        databases: &[(
            "t.db",
            "CREATE TABLE t(a INT PRIMARY KEY, b INT, c); INSERT INTO t VALUES (1, 2, 3)",
        )],
        files: &[("t.csv", b"a,b\n1,7\n1,8\n")],
        run: "leafpress load t.db t.csv --append --on-conflict replace -q && leafpress load --help",
        says: &["the same as --upsert: the old row stays and gets the"],
        holds: &[("t.db", "SELECT * FROM t", "1,8,3")],
        ..Found::NONE
    },
    Found {
        finding: "less memory than a load sorts in, and text for a BLOB column, as documented",
        databases: &[("t.db", "CREATE TABLE t(a BLOB)")],
        files: &[("t.csv", b"a\nc0ff\n"), ("t.json", b"{\"a\": \"ee\"}")],
        run: "leafpress load t.db t.csv --append --memory 1K -q && \
              leafpress load t.db t.json --append -q && leafpress load --help",
        says: &["Less than 8M counts as 8M"],
        holds: &[("t.db", "SELECT a FROM t", "x'c0ff';x'ee'")],
        ..Found::NONE
    },
    Found {
        finding: "integers that no double has, beside reals, as documented",
        files: &[("n.json", b"{\"n\": 9007199254740993}\n{\"n\": 1.5}\n")],
        run: "leafpress load n.db n.json -q && leafpress load s.db n.json --strict -q",
        holds: &[
            (
                "n.db",
                "SELECT n, type FROM n, pragma_table_info('n')",
                "9007199254740993,'NUMERIC';1.5,'NUMERIC'",
            ),
            (
                "s.db",
                "SELECT n, type FROM n, pragma_table_info('n')",
                "9007199254740993,'ANY';1.5,'ANY'",
            ),
        ],
        ..Found::NONE
    },
];

#[test]
fn what_the_documents_say_of_tables_that_are_there() {
    assert_all(MEETING);
}

#[test]
fn reals_in_columns_of_any_type() {
    assert_all(GIVEN_REAL);
}

#[test]
fn databases_that_appear_meanwhile() {
    assert_all(AT_ONCE);
}

#[test]
fn links_to_databases_that_are_not_there() {
    assert_all(LINKS);
}

#[test]
fn page_sizes_of_databases_that_are_there() {
    assert_all(PAGE_SIZES);
}

const KEYS: &[Found] = &[
    Found {
        finding: "rows without a key among rows with keys",
        files: &[("t.csv", b"id,x\n5,a\n,b\n7,c\n,d\n")],
        databases: &[("k.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)")],
        run: "leafpress load k.db t.csv --append",
        holds: &[("k.db", "SELECT * FROM t", "5,'a';6,'b';7,'c';8,'d'")],
        ..Found::NONE
    },
    Found {
        finding: "the same with --replace and AUTOINCREMENT",
        files: &[("t.csv", b"id,x\n5,a\n,b\n7,c\n,d\n")],
        databases: &[(
            "k.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, x); INSERT INTO t VALUES (3, 'z')",
        )],
        run: "leafpress load k.db t.csv --replace",
        holds: &[("k.db", "SELECT * FROM t", "5,'a';6,'b';7,'c';8,'d'")],
        ..Found::NONE
    },
    Found {
        finding: "the same with --ignore: a key that a row without one was given before is taken",
        files: &[("t.csv", b"id,x\n5,a\n,b\n6,c\n,d\n")],
        databases: &[("k.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)")],
        run: "leafpress load k.db t.csv --ignore",
        holds: &[("k.db", "SELECT * FROM t", "5,'a';6,'b';7,'d'")],
        ..Found::NONE
    },
    Found {
        finding: "the same with --upsert",
        files: &[("t.csv", b"id,x\n5,a\n,b\n6,c\n,d\n")],
        databases: &[("k.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)")],
        run: "leafpress load k.db t.csv --upsert",
        holds: &[("k.db", "SELECT * FROM t", "5,'a';6,'c';7,'d'")],
        ..Found::NONE
    },
    Found {
        finding: "an empty INTEGER NOT NULL PRIMARY KEY, which SQLite numbers",
        files: &[("t.csv", b"id,x\n,a\n,b\n")],
        databases: &[("k.db", "CREATE TABLE t(id integer NOT NULL PRIMARY KEY AUTOINCREMENT, x)")],
        run: "leafpress load k.db t.csv --append",
        holds: &[("k.db", "SELECT * FROM t", "1,'a';2,'b'")],
        ..Found::NONE
    },
    Found {
        finding: "an INTEGER NOT NULL PRIMARY KEY that the input lacks",
        files: &[("t.csv", b"x\na\nb\n")],
        databases: &[("k.db", "CREATE TABLE t(id integer NOT NULL PRIMARY KEY AUTOINCREMENT, x)")],
        run: "leafpress load k.db t.csv --append && \
              leafpress load n.db t.csv --create 'CREATE TABLE t(id INTEGER NOT NULL PRIMARY KEY, x)'",
        holds: &[
            ("k.db", "SELECT * FROM t", "1,'a';2,'b'"),
            ("n.db", "SELECT * FROM t", "1,'a';2,'b'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "a row that refers to itself by a number, where its key is a text",
        files: &[("t.jsonl", b"{\"id\": \"5\", \"r\": 5}\n{\"id\": \"6\", \"r\": \"6\"}\n{\"id\": \"7\", \"r\": 6}\n")],
        databases: &[("k.db", "CREATE TABLE t(id TEXT PRIMARY KEY, r REFERENCES t(id))")],
        run: "leafpress load k.db t.jsonl --append --on-error skip",
        status: 1,
        says: &["r refers to the row itself by a value of another type or form than that of id"],
        holds: &[("k.db", "SELECT * FROM t", "'6','6';'7',6")],
        ..Found::NONE
    },
    Found {
        finding: "the same with an upsert, which cannot name the row",
        files: &[("t.jsonl", b"{\"id\": \"5\", \"r\": 5}\n")],
        databases: &[("k.db", "CREATE TABLE t(id TEXT PRIMARY KEY, r REFERENCES t(id))")],
        run: "leafpress load k.db t.jsonl --upsert --on-error skip",
        status: 3,
        says: &["a row refers to itself by a value of another type or form than its key's"],
        holds: &[("k.db", "SELECT count(*) FROM t", "0")],
        ..Found::NONE
    },
];

/// Rows and tables of unusual forms.
const FORMS: &[Found] = &[
    Found {
        finding: "rows without a value for any column, which a CHECK refuses, are named",
        files: &[("t.ndjson", b"{}\n{}\n"), ("u.ndjson", b"{}\n{}\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(a, b, CHECK (a IS NOT NULL)); CREATE TABLE u(a, b DEFAULT 7)",
        )],
        run: "leafpress load t.db u.ndjson --append || exit 9; \
              leafpress load t.db t.ndjson --append; echo abort: $?; \
              leafpress load t.db t.ndjson --append --on-error skip",
        status: 1,
        says: &["t.ndjson:1:1: CHECK constraint failed", "abort: 3", "rejected   2 rows"],
        never_says: &["syntax error"],
        holds: &[
            ("t.db", "SELECT count(*) FROM t", "0"),
            ("t.db", "SELECT * FROM u", "NULL,7;NULL,7"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "a row is refused, and columns hide the names of the rowids",
        files: &[
            ("t.csv", b"rowid,v,p\n1,1,1\n2,9,1\n3,3,1\n"),
            ("u.csv", b"v,p\n2,1\n9,1\n4,7\n"),
        ],
        databases: &[(
            "t.db",
            "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1); \
             CREATE TABLE t(rowid, _rowid_, oid, v INT CHECK (v <> 9), \
             p REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        )],
        run: "leafpress load t.db t.csv --append --on-error skip; echo first: $?; \
              leafpress load t.db u.csv --table t --append --on-error skip",
        status: 3,
        says: &[
            "t.csv:3:1: CHECK constraint failed",
            "first: 1",
            "a row would refer to a row of p that is not there",
        ],
        never_says: &["syntax error"],
        holds: &[("t.db", "SELECT rowid, v, p FROM t", "'1',1,'1';'3',3,'1'")],
        ..Found::NONE
    },
    Found {
        finding: "the same with a primary key, which then tells the rows apart",
        files: &[("t.csv", b"rowid,v,p\n1,1,1\n2,9,1\n3,3,7\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1); \
             CREATE TABLE t(rowid, _rowid_, oid, v PRIMARY KEY, \
             p REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
        )],
        run: "leafpress load t.db t.csv --append --on-error skip",
        status: 1,
        says: &["t.csv:4:1: FOREIGN KEY constraint failed: there is no such row of p"],
        holds: &[("t.db", "SELECT rowid, v, p FROM t", "'1','1','1';'2','9','1'")],
        ..Found::NONE
    },
    Found {
        finding: "a text with a quote, in the error for an index whose rows are not unique",
        databases: &[("t.db", "CREATE TABLE t(a); INSERT INTO t VALUES ('it''s'), ('it''s')")],
        run: "leafpress index t.db t a --unique",
        status: 3,
        says: &["rows 1 and 2 have the same key: 'it''s'\n"],
        ..Found::NONE
    },
];

#[test]
fn rows_and_tables_of_unusual_forms() {
    assert_all(FORMS);
}

#[test]
fn keys_of_tables_that_are_there() {
    assert_all(KEYS);
}

/// A command that only reads leaves a database alone that another program left in mid-transaction.
#[test]
fn a_hot_journal_stays() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let connection = Connection::open(folder.join("running.db")).unwrap();
    let sql = "PRAGMA page_size=1024; PRAGMA cache_size=2; CREATE TABLE t(a); \
               WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500) \
               INSERT INTO t SELECT randomblob(500) FROM n; \
               BEGIN; UPDATE t SET a = zeroblob(500)";
    connection.execute_batch(sql).unwrap();
    // As a crash in the middle of the transaction leaves them.
    fs::copy(folder.join("running.db"), folder.join("hot.db")).unwrap();
    fs::copy(folder.join("running.db-journal"), folder.join("hot.db-journal")).unwrap();
    fs::write(folder.join("x.csv"), "a\n1\n").unwrap();
    let state =
        || (fs::read(folder.join("hot.db")).unwrap(), folder.join("hot.db-journal").exists());
    let before = state();
    for line in [
        "leafpress load hot.db x.csv --table t --append --dry-run",
        "leafpress load hot.db x.csv --table new --dry-run",
        "leafpress load o.db hot.db::t",
        "leafpress load o.db hot.db::t --dry-run",
    ] {
        let (status, said) = shell(folder, line);
        assert_eq!(status, 3, "{line}: {said}");
        assert!(said.contains("hot.db: needs recovery: "), "{line}: {said}");
        assert!(said.contains("sqlite3 hot.db 'PRAGMA schema_version'"), "{line}: {said}");
        assert!(!said.contains("change the permissions"), "{line}: {said}");
        assert!(state() == before, "{line} writes to the database");
    }
    let (status, said) = shell(folder, "leafpress load hot.db x.csv --table t --append");
    assert_eq!(status, 0, "a load recovers it: {said}");
    assert_eq!(
        rows(&folder.join("hot.db"), "SELECT sum(a = zeroblob(500)), count(*) FROM t"),
        "0,501"
    );
}
