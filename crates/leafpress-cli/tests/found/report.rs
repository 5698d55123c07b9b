//! The report of `bench`, and documents.

use super::{Found, assert_all};

const REPORT: &[u8] = include_bytes!("../../../leafpress-bench/tests/reports/overview.json");

/// Words and units of reports.
const WORDS: &[Found] = &[
    Found {
        finding: "a dry run says what would be",
        files: &[("t.csv", b"a,b\n1,2\n"), ("e.csv", b"a,b\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE log(n); CREATE TABLE t(a INT UNIQUE, b INT REFERENCES t(a)); \
             INSERT INTO t VALUES (2, 2); \
             CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.a); END",
        )],
        run: "leafpress load t.db t.csv --append --dry-run; \
              leafpress load t.db e.csv --table t --replace --dry-run; \
              leafpress load t.db t.csv --append",
        says: &[
            "note: the triggers of t would run: tr",
            "note: the foreign keys of t would be enforced",
            "t would be empty: the row that was there would go, and none come",
            "note: the triggers of t ran: tr",
            "note: the foreign keys of t were enforced",
        ],
        never_says: &["is empty now"],
        ..Found::NONE
    },
    Found {
        finding: "lines of the doctor are broken, not cut",
        databases: &[("t.db", "CREATE TABLE t(a)")],
        run: "leafpress doctor t.db",
        says: &["a plain connection has no\n     limit, which is its own setting"],
        never_says: &["…"],
        ..Found::NONE
    },
    Found {
        finding: "verify names the virtual tables that it cannot check",
        databases: &[(
            "x.db",
            "CREATE TABLE t(a); PRAGMA writable_schema=ON; INSERT INTO sqlite_schema VALUES \
             ('table', 'v w', 'v w', 0, 'CREATE VIRTUAL TABLE \"v w\" USING vec0(x)')",
        )],
        run: "leafpress verify x.db --json",
        says: &[r#""sound":true"#, "table v w was not checked: its module vec0 is not built in"],
        ..Found::NONE
    },
    Found {
        finding: "one JSON object with the rows in an array is told of, and no file beside others",
        files: &[("t.json", b"{\"n\": 2,\n \"rows\": [{\"a\": 1}, {\"a\": 2}]}\n")],
        run: "leafpress load t.db t.json; cp t.json u.json; \
              leafpress load u.db t.json u.json | grep -c 'array of objects'; \
              for n in 1 2; do echo '{\"n\":1,\"rows\":[{\"a\":1}]}'; done >l.ndjson; \
              leafpress load l.db l.ndjson | grep -c 'array of objects'",
        says: &[
            "note: t.json: it is one object, so it is one row. \"rows\" in it",
            "jq '.\"rows\"[]'",
            "\n0\n0\n",
        ],
        holds: &[("t.db", "SELECT * FROM t", "2,'[{\"a\":1},{\"a\":2}]'")],
        status: 1,
        ..Found::NONE
    },
    Found {
        finding: "sizes have the units of the summary",
        files: &[("t.csv", b"a,b\n1,2\n")],
        run: "leafpress load t.db t.csv --pk a --dry-run --memory 64M",
        says: &[
            "not in key order, in up to 67.1\n",
            "MB of memory",
            " are needed in ",
            "B are free",
        ],
        never_says: &["iB"],
        ..Found::NONE
    },
    Found {
        finding: "a database that is there takes the rows twice, and its log once more",
        files: &[("t.csv", b"a,b\n1,2\n")],
        databases: &[
            ("d.db", "CREATE TABLE z(a)"),
            ("w.db", "PRAGMA journal_mode=WAL; CREATE TABLE z(a)"),
        ],
        run: "for d in new.db d.db w.db; do leafpress load $d t.csv --dry-run; done",
        says: &["about 8.27 kB are needed", "about 16.5 kB are needed", "about 24.8 kB are needed"],
        ..Found::NONE
    },
    Found {
        finding: "temporary files take the rows once, and pages have the size of those that are there",
        files: &[("t.csv", b"a,b\n1,2\n")],
        databases: &[
            ("w.db", "PRAGMA journal_mode=WAL; CREATE TABLE z(a)"),
            ("p.db", "PRAGMA page_size=65536; CREATE TABLE z(a)"),
        ],
        run: "for d in w.db p.db; do leafpress load $d t.csv --dry-run; done | tr -s '\\n ' ' '",
        says: &[
            "are free; 8.27 kB more if temporary files are needed",
            "about 262 kB are needed",
            "are free; 131 kB more if temporary files are needed",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a row without its key says so, in shards as in a load",
        files: &[("t.csv", b"id,n\n1,a\n,b\n")],
        run: "leafpress load t.db t.csv --pk id; \
              leafpress shard t.csv --out s --by 'hash(id)' --parts 2 --pk id; \
              leafpress shard t.csv --out s --by 'hash(n)' --parts 2 --pk id --not-null n",
        status: 3,
        says: &["t.csv:3:1: column \"id\": the primary key is empty"],
        never_says: &["NOT NULL"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
];

#[test]
fn words_and_units_are_those_of_the_work() {
    assert_all(WORDS);
}

const CASES: &[Found] = &[
    Found {
        finding: "the report's multiples, in the terminal: 14.73 s by 0.53 s, one thread each",
        files: &[("tour.json", REPORT)],
        run: "leafpress bench --from tour.json | tr -s '\\n ' ' '",
        says: &[
            "it is 28 times faster than SQLite's default, one thread each, and loses nothing",
            "0.53 s with \"Writer, 1 caller\" (one thread that waits for each answer), and in 14.7 s \
             with SQLite's default (28 times faster; another run: ",
            "A profile is a set of SQLite's settings and the promise that they keep",
            "each is the median of the rounds' ratios",
        ],
        never_says: &["260 times"],
        ..Found::NONE
    },
    Found {
        finding: "a key that an object repeats is no silent loss",
        files: &[("in.ndjson", b"{\"g\":0}\n{\"g\":1,\"g\":2}\n")],
        run: "leafpress load a.db in.ndjson; leafpress load b.db in.ndjson --json",
        says: &[
            "in.ndjson: 1 row has a key more than once, such as \"g\" in line 2",
            "such as \\\"g\\\" in line 2: its last value is loaded\"",
        ],
        holds: &[("a.db", "SELECT g FROM \"in\"", "0;2")],
        ..Found::NONE
    },
    Found {
        finding: "the report's range stands on its first screen",
        files: &[("tour.json", REPORT)],
        run: "leafpress bench --from tour.json --html page.html >/dev/null && cat page.html",
        says: &[
            "<span class=\"number\">28×</span> <span class=\"beside\">as fast as SQLite's default, one \
             thread each</span> <span class=\"beside\">another run: ",
            "which is what the first screen says",
        ],
        ..Found::NONE
    },
    Found {
        finding: "docs 9: a name that SQLite keeps to itself, for an index",
        databases: &[("s.db", "CREATE TABLE p(f); INSERT INTO p VALUES (1)")],
        run: "leafpress index s.db p f --name sqlite_x",
        status: 2,
        says: &[
            "SQLite refuses the index: object name reserved for internal use: sqlite_x",
            "--name",
        ],
        holds: &[("s.db", "SELECT count(*) FROM sqlite_schema", "1")],
        ..Found::NONE
    },
    Found {
        finding: "docs 9: the same of a table that is large enough to be pressed",
        databases: &[(
            "s.db",
            "CREATE TABLE p(f); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
             LIMIT 20000) INSERT INTO p SELECT i FROM n",
        )],
        run: "leafpress index s.db p f --name sqlite_x",
        status: 2,
        says: &["SQLite refuses the index"],
        holds: &[("s.db", "SELECT count(*) FROM sqlite_schema", "1")],
        ..Found::NONE
    },
    Found {
        finding: "docs 9: an input with too many columns is no mistake of the command line",
        run: "seq -s, 2500 >t.csv; seq -s, 2500 >>t.csv; leafpress load t.db t.csv",
        status: 3,
        says: &["it has 2500 columns, and a table of SQLite at most 2000", "--select"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "docs 9: the same of JSON",
        run: "{ printf '{\"k0\":0'; for i in $(seq 2500); do printf ',\"k%d\":1' $i; done; printf '}\\n'; } \
              >t.ndjson; leafpress load t.db t.ndjson",
        status: 3,
        says: &["it has 2501 columns, and a table of SQLite at most 2000"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
];

#[test]
fn they_are_fixed() {
    assert_all(CASES);
}
