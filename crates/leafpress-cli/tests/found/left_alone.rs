//! Databases that a command must leave as they are, as it cannot do what was asked.

use super::{Found, assert_all};

/// A table whose trigger writes to a virtual table, and a row in it.
const REACHES_FTS: &str = "CREATE TABLE t(a INT CHECK(a < 9)); INSERT INTO t VALUES (1); \
     CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO f(rowid, x) VALUES (new.rowid, new.a); END; \
     PRAGMA writable_schema=ON;";
const OWN_TOKENIZER: &str = "CREATE VIRTUAL TABLE f USING fts5(x); \
     UPDATE sqlite_schema SET sql = replace(sql, 'fts5(x)', 'fts5(x, tokenize=ours)') WHERE name = 'f'";
const BROKEN_FTS: &str = "CREATE VIRTUAL TABLE f USING fts4(x); \
     DELETE FROM sqlite_schema WHERE name = 'f_content'";
const ROWS: (&str, &[u8]) = ("t.csv", b"a\n2\n3\n");

/// Virtual tables that take no row: no row is at fault.
#[test]
fn a_table_that_takes_no_row_is_not_emptied() {
    let tokenizer = format!("{REACHES_FTS} {OWN_TOKENIZER}").leak();
    let broken = format!("{REACHES_FTS} {BROKEN_FTS}").leak();
    let found = |finding, database, says| Found {
        finding,
        files: &[ROWS],
        databases: database,
        run: "leafpress load t.db t.csv --append; \
              leafpress load t.db t.csv --replace --on-error skip",
        status: 3,
        says,
        never_says: &["correct the row", "t.csv:2:1"],
        holds: &[("t.db", "SELECT a FROM t", "1")],
        ..Found::NONE
    };
    assert_all(&[
        found(
            "a tokenizer of the application",
            vec![("t.db", &*tokenizer)].leak(),
            &["no such tokenizer: ours", "to do: let the application do it that has this function"],
        ),
        found(
            "a broken full-text index",
            vec![("t.db", &*broken)].leak(),
            &["SQL logic error", "to do: look at the virtual tables that the table's triggers"],
        ),
        Found {
            finding: "all rows refused by a CHECK",
            files: &[("t.csv", b"a\n10\n11\n")],
            databases: &[("t.db", "CREATE TABLE t(a INT CHECK(a < 9)); INSERT INTO t VALUES (1)")],
            run: "leafpress load t.db t.csv --replace --on-error skip --dry-run; \
                  leafpress load t.db t.csv --replace --on-error skip --rejects r.csv",
            status: 3,
            says: &[
                "t.csv: no row is left to replace those of t: all of its 2 rows are bad",
                "a < 9",
            ],
            holds: &[("t.db", "SELECT a FROM t", "1")],
            leaves_no: &["r.csv"],
            ..Found::NONE
        },
        Found {
            finding: "one row of two refused by a CHECK",
            files: &[("t.csv", b"a\n10\n8\n")],
            databases: &[("t.db", "CREATE TABLE t(a INT CHECK(a < 9)); INSERT INTO t VALUES (1)")],
            run: "leafpress load t.db t.csv --replace --on-error skip",
            status: 1,
            holds: &[("t.db", "SELECT a FROM t", "8")],
            ..Found::NONE
        },
    ]);
}

/// Declarations that name what only the application has.
#[test]
fn what_only_the_application_has_is_left_to_it() {
    const TO_DO: &str =
        "to do: let the application do it that has this function, collation, module";
    const FUNCTION: &str = "CREATE TABLE t(a); CREATE INDEX i ON t(abs(a)); PRAGMA writable_schema=ON; \
         UPDATE sqlite_schema SET sql = replace(sql, 'abs(', 'ours(')";
    const COLLATION: &str = "CREATE TABLE t(a); CREATE INDEX i ON t(a COLLATE NOCASE); \
         PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, 'NOCASE', 'ours')";
    const MODULE: &str = "CREATE TABLE t(a); CREATE VIRTUAL TABLE f USING fts5(x); \
         CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO f VALUES (new.a); END; \
         PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, 'fts5', 'ours')";
    let found = |finding, databases, says| Found {
        finding,
        files: &[ROWS],
        databases,
        run: "leafpress load t.db t.csv --append",
        status: 3,
        says,
        never_says: &["INSERT", "doctor", "to do: see which trigger"],
        ..Found::NONE
    };
    assert_all(&[
        found("a function", &[("t.db", FUNCTION)], &["unknown function: ours()", TO_DO]),
        found("a collation", &[("t.db", COLLATION)], &["no such collation sequence: ours", TO_DO]),
        found("a module", &[("t.db", MODULE)], &["no such module: ours", TO_DO]),
    ]);
    assert_all(&[Found {
        finding: "an index on a column with a collation of the application",
        databases: &[(
            "t.db",
            "CREATE TABLE t(a COLLATE NOCASE); PRAGMA writable_schema=ON; \
             UPDATE sqlite_schema SET sql = replace(sql, 'NOCASE', 'ours')",
        )],
        run: "leafpress index t.db t a",
        status: 2,
        says: &["no such collation sequence: ours", "let the application make the index"],
        never_says: &["another name"],
        ..Found::NONE
    }]);
}

const LEFT_ALONE: &[Found] = &[
    Found {
        finding: "the log beside an emptied database",
        files: &[ROWS, ("a.db", b""), ("a.db-wal", b"\x37\x7f\x06\x82 the last commits")],
        run: "leafpress load a.db t.csv --dry-run; leafpress load a.db t.csv; \
              leafpress load b.db a.db::t; leafpress index a.db t a; leafpress verify a.db; \
              leafpress queue push a.db q 1; test -s a.db-wal && test ! -s a.db",
        says: &[
            "a.db-wal: is the write-ahead log of a.db, which is empty now: SQLite would delete it",
        ],
        leaves_no: &["b.db"],
        ..Found::NONE
    },
    Found {
        finding: "an empty file is no database to those who look only",
        files: &[("a.db", b"")],
        run: "leafpress queue stats a.db; leafpress queue list a.db q; leafpress queue claim a.db q; \
              leafpress queue purge a.db q --state failed --yes; leafpress queue show a.db 1; \
              leafpress queue schedule list a.db; s=$?; ls; test ! -s a.db && exit $s",
        status: 3,
        says: &["a.db is empty: it has no queue yet", "or make it with `leafpress queue push`"],
        never_says: &["a.db-wal", "there is no"],
        ..Found::NONE
    },
    Found {
        finding: "a file that is shorter than a header",
        files: &[ROWS, ("a.db", b"\n"), ("b.db", b"SQLite format 3\0")],
        run: "leafpress queue list a.db q; leafpress queue push a.db q 1; leafpress load a.db t.csv; \
              leafpress index a.db t a; leafpress load c.db a.db::t; leafpress load b.db t.csv; \
              cat a.db b.db | wc -c",
        says: &["a.db: is not a database", "b.db: is cut short: it ends inside", "17\n"],
        never_says: &["no such table", "there is no queue"],
        leaves_no: &["c.db"],
        ..Found::NONE
    },
    Found {
        finding: "a cipher that leaves the first bytes as they are",
        files: &[ROWS],
        databases: &[("t.db", "CREATE TABLE t(a)")],
        run: "printf '\\022\\064\\126\\170' | dd of=t.db bs=1 seek=44 conv=notrunc 2>/dev/null; \
              leafpress load t.db t.csv --append",
        status: 3,
        says: &["of a newer one or encrypted: its schema format is 305419896"],
        ..Found::NONE
    },
    Found {
        finding: "a newer format, with the name that was given",
        databases: &[("t.db", "CREATE TABLE t(a)")],
        run: "printf '\\003' | dd of=t.db bs=1 seek=18 conv=notrunc 2>/dev/null; \
              leafpress io --in-place t.db -c 'SELECT 1'; leafpress io t.db -c 'SELECT 1'",
        status: 3,
        says: &[
            "error: t.db: cannot be written: its write version is 3",
            "a newer version of SQLite",
        ],
        never_says: &["leafpress-io", "change the permissions"],
        ..Found::NONE
    },
];

#[test]
fn what_cannot_be_used_stays_as_it_is() {
    assert_all(LEFT_ALONE);
}
