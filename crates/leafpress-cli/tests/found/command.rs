//! The command line: what names a database, what a script gets as JSON, what the queue is given.

use super::{Found, assert_all};

const NAMES: &[Found] = &[
    Found {
        finding: "a table to load into is named by a flag",
        files: &[("t.csv", b"a\n1\n")],
        databases: &[("app.db", "CREATE TABLE old(a)")],
        run: "leafpress load app.db::copy t.csv; leafpress load new.db::copy t.csv; s=$?; ls; exit $s",
        status: 2,
        says: &["leafpress load app.db … --table copy", "leafpress load new.db … --table copy"],
        leaves_no: &["app.db::copy", "new.db::copy", "new.db"],
        ..Found::NONE
    },
    Found {
        finding: "no storage of a database in memory, and none of a folder that is not there",
        run: "leafpress storage :memory: --quick; echo $?; leafpress storage none/app.db --quick --json",
        status: 3,
        says: &[
            "./:memory:",
            "2\n",
            "cannot look at none: No such file",
            "name a folder that is there, or a file in one",
        ],
        ..Found::NONE
    },
    Found {
        finding: "rows are split by the column that is named exactly",
        files: &[("t.csv", b"A,a\n1,5\n2,5\n3,5\n")],
        run: "leafpress shard t.csv --out s --by 'hash(b)' --parts 2; s=$?; \
              leafpress shard t.csv --out a --by 'hash(a)' --parts 2 -q && \
              leafpress shard t.csv --out s --by 'hash(A)' --parts 2 -q && exit $s",
        status: 2,
        says: &["there is no column 'b'"],
        ..Found::NONE
    },
];

const JSON: &[Found] = &[
    Found {
        finding: "bench --from of a report that is not there",
        run: "leafpress bench --from nope.json --json -",
        status: 3,
        says: &[
            r#"{"error":{"file":"nope.json","is_retryable":false,"kind":"not_found","message":"cannot "#,
            r#""on_disk":"no report was written, and no temporary file is left","to_do":"#,
            "\nto do: check the name\n",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a size may be one of terabytes, as in Python",
        run: "leafpress load a.db a.csv --memory 1T -q; leafpress index a.db a n --memory 1tib -q",
        files: &[("a.csv", b"n\n1\n")],
        never_says: &["error", "invalid"],
        holds: &[("a.db", "SELECT count(*) FROM sqlite_schema", "2")],
        ..Found::NONE
    },
    Found {
        finding: "an error of the command line has all that others have",
        run: "leafpress load a.db t.csv --json --quit; leafpress load a.db; \
              leafpress load a.db --json",
        status: 2,
        says: &[
            r#""on_disk":"nothing was changed","to_do":"a similar argument exists: '--quiet'; see the"#,
            r#""on_disk":"nothing was changed","to_do":"see the command's --help""#,
        ],
        leaves_no: &["a.db"],
        ..Found::NONE
    },
    Found {
        finding: "quiet goes with JSON",
        files: &[("t.csv", b"a\n1\n")],
        run: "leafpress load t.db t.csv --quiet --json; leafpress index t.db t a -q --json; \
              leafpress shard t.csv --out s --parts 1 -q --json; leafpress queue push t.db q x; \
              leafpress queue work t.db q --until-empty -q --json --exec true",
        says: &["\"rows_loaded\":1", "\"entries\":1", "\"parts\":1", "\"done\":1"],
        never_says: &["cannot be used with"],
        ..Found::NONE
    },
    Found {
        finding: "a part that failed has its error beside what was done",
        run: "leafpress queue push j.db q a b; leafpress queue claim j.db q; \
              leafpress queue ack j.db 1.1 9.1 --json; \
              leafpress queue remove j.db 2 9 --json; leafpress queue retry j.db 9 --json; \
              printf '{\"text\":\"x\"}\\n{\"text\"\\n' | \
              leafpress queue push j.db q --ndjson --batch 1 --json",
        status: 1,
        says: &[
            r#"{"acked":1,"error":{"is_retryable":false,"kind":"no_such_claim""#,
            r#""message":"j.db: job 9 is not there","name":"9""#,
            r#""not_done":[9],"removed":[2]}"#,
            r#""not_done":[9],"retried":[]}"#,
            r#"{"jobs":[{"id":3,"is_new":true}],"pushed":1,"error":{"column":7,"file":"<stdin>""#,
        ],
        ..Found::NONE
    },
];

/// A header, and 2000 rows of 11 bytes.
const PACKED: &[u8] =
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc6\xa9\x01\x00\x10\x00\x00\xc0\x6e\
    \x16\xc5\x48\x7e\x02\xfb\x47\x43\xa8\x77\xe9\x76\x8b\x37\x9f\x1e\x52\xcc\xa5\xb6\
    \x3e\xe6\x52\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\
    \x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\x55\
    \x55\x55\x55\x55\xd5\x9f\x3e\xdb\x48\xc9\x3c\xf8\x55\x00\x00";

const HINTS: &[Found] = &[
    Found {
        finding: "a text for a missing value makes a column TEXT",
        files: &[
            ("t.csv", b"id,price,size,name\n1,2.5,NA,a\n2,NA,NA,NA\n3,-1,7,-\n"),
            ("u.csv", b"price\n2.5\nNA\n"),
        ],
        run: "leafpress load t.db t.csv && leafpress load t.db u.csv --null NA && \
              leafpress load u.db u.csv --type price=text",
        says: &[
            "note: columns price, size are TEXT because of 'NA', first in line 3: if that means \
                 no value, say --null 'NA'\n",
        ],
        never_says: &["column price", "because of '-'", "in line 2:"],
        holds: &[("t.db", "SELECT price FROM u", "2.5;NULL")],
        ..Found::NONE
    },
    Found {
        finding: "of a database in WAL mode that was read no log is left",
        databases: &[(
            "w.db",
            "PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES (1)",
        )],
        run: "leafpress load a.db w.db::t -q && leafpress load b.db w.db::t -q --dry-run && ls",
        says: &["a.db\nw.db\n"],
        holds: &[("a.db", "SELECT a FROM t", "1"), ("w.db", "SELECT a FROM t", "1")],
        ..Found::NONE
    },
    Found {
        finding: "a dry run names the room of indexes",
        files: &[("make", b"i=0; while [ $i -lt 999 ]; do echo $i,name-of-$i; i=$((i+1)); done")],
        run: "echo id,name >t.csv; sh make >>t.csv; set -- --index name --index id --index name,id; \
              leafpress load t.db t.csv \"$@\" --dry-run | grep -o 'about [0-9.]* kB'; \
              leafpress load t.db t.csv \"$@\" | grep -o 'database *[0-9.]* kB'",
        says: &["about 110", "database"],
        ..Found::NONE
    },
    Found {
        finding: "a dry run names the room of what a compressed file holds",
        files: &[("t.csv.gz", PACKED)],
        run: "leafpress load t.db t.csv.gz --dry-run",
        says: &["about 42"],
        ..Found::NONE
    },
    Found {
        finding: "SQL that begins with a comment, and texts that begin with a dash",
        files: &[("t.csv", b"a\n1\n")],
        databases: &[("s.db", "CREATE TABLE t(a)")],
        run: "leafpress io s.db --in-place -c '-- hello\nINSERT INTO t VALUES (1)' --profile rollback && \
              leafpress load n.db t.csv --create '-- mine\nCREATE TABLE t(a)' -q && \
              leafpress queue push q.db m x && leafpress queue push q.db m y && \
              leafpress queue claim q.db m --count 2 && leafpress queue ack q.db 1.1 --result -1 && \
              leafpress queue fail q.db 2.1 --reason '- no address'",
        holds: &[
            ("s.db", "SELECT a FROM t", "1"),
            ("n.db", "SELECT a FROM t", "'1'"),
            ("q.db", "SELECT count(*) FROM leafpress_job", "1"),
        ],
        ..Found::NONE
    },
];

const PUSHES: &[Found] = &[
    Found {
        finding: "an empty standard input is no payload",
        run: "printf '' | leafpress queue push j.db q -; printf '' | leafpress queue push j.db q a -",
        status: 2,
        says: &["<stdin>: it is empty, and - is the payload", "without a payload write ''"],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "line ends and byte order marks of Windows",
        run: "printf 'ab\\r\\n\\r\\n' | leafpress queue push j.db q --lines && \
              printf '\\357\\273\\277cd\\n' | leafpress queue push j.db q --lines && \
              printf '\\357\\273\\277{\"text\": \"ef\"}\\r\\n' | leafpress queue push j.db q --ndjson && \
              printf '\\357\\273\\277[1]' | leafpress queue push j.db q - --as-json && \
              printf '\\357\\273\\277gh\\r\\n' | leafpress queue push j.db q -",
        says: &[
            "note: <stdin>: lines end with CR LF",
            "note: <stdin>: the first line begins with a byte",
        ],
        holds: &[(
            "j.db",
            "SELECT group_concat(hex(payload)) FROM leafpress_job",
            "'61620D,0D,EFBBBF6364,6566,5B315D,EFBBBF67680D0A'",
        )],
        ..Found::NONE
    },
    Found {
        finding: "the same of lines of JSON, which loses neither to them",
        run: "printf '\\357\\273\\277[1]\\r\\n' | leafpress queue push j.db q --lines --as-json",
        never_says: &["note:"],
        holds: &[("j.db", "SELECT json(payload) FROM leafpress_job", "'[1]'")],
        ..Found::NONE
    },
    Found {
        finding: "an array is no line",
        run: "printf '[{\"text\":\"a\"},{\"text\":\"b\"}]\\n' | leafpress queue push j.db q --ndjson",
        status: 3,
        says: &["<stdin>:1:1: it is an array", "jq -c '.[]'"],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "numbers that are too large",
        run: "leafpress queue push j.db q a --priority 9999999999; \
              leafpress queue push j.db q a --attempts 9999999999",
        status: 2,
        says: &["a whole number from -2147483648 to 2147483647", "a number from 1 to 4294967295"],
        ..Found::NONE
    },
];

#[test]
fn names_of_databases_and_columns_are_meant() {
    assert_all(NAMES);
}

#[test]
fn a_script_gets_each_error() {
    assert_all(JSON);
}

#[test]
fn a_load_says_what_helps() {
    assert_all(HINTS);
}

#[test]
fn what_is_pushed_is_what_was_meant() {
    assert_all(PUSHES);
}
