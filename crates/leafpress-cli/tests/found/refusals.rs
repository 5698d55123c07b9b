//! Files that cannot be read, written or made: one cause has one answer, by whichever command
//! it is met, and a dry run gives the answer of the load.

use super::{Found, assert_all};

const TWO_BAD: &[u8] = b"a,b\n1,2\n3\n4\n5,6\n";
const TABLE: &str = "CREATE TABLE t(s, n); INSERT INTO t VALUES ('secret', 1)";

const OTHER_INPUTS: &[Found] = &[
    Found {
        finding: "text under the name of another format is the page of a failed download",
        files: &[
            ("a.parquet", b"<html><body>403 Forbidden</body></html>\n"),
            ("b.Parquet", b"PAR1PAR1"),
            ("c.feather", b"a,b\n1,2\n"),
        ],
        run: "for f in a.parquet b.Parquet c.feather; do leafpress load x.db $f; echo =$?; done; \
              leafpress load y.db c.feather --format csv",
        says: &["=3\n", "and does not begin as one", "say so by --format", "loaded 1 row"],
        never_says: &["=0", "=1"],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
    Found {
        finding: "a process that may open no more files says so, and not that the name is wrong",
        files: &[("in.csv", b"a\n1\n")],
        databases: &[("x.db", "PRAGMA journal_mode = WAL; CREATE TABLE t(a)")],
        run: "for n in 5 6 7 8 9 10 11; do ulimit -S -n $n; \
              for c in 'load x.db in.csv --table t --append' 'queue push x.db m x' 'verify x.db'; do \
              leafpress $c 2>e || { grep -q 'ulimit -n' e && echo told || cat e; }; done; done",
        says: &["told"],
        never_says: &["error", "to do"],
        ..Found::NONE
    },
    Found {
        finding: "scripts, pages and documents in a pipe are no CSV, unless that is said",
        run: "for t in 'INSERT INTO t VALUES(1);' 'BEGIN;\\nCREATE TABLE t(a);' 'DROP TABLE t;' \
              'CREATE TABLE t(a);' '<table>\\n<tr>' '---\\na: 1'; do \
              printf '%b\\n' \"$t\" | leafpress load x.db - --table t; echo =$?; done; \
              printf 'INSERT INTO t\\n1\\n' | leafpress load y.db - --table t --format csv",
        says: &[
            "is a script of SQL, which cannot be loaded",
            "is a page of HTML",
            "is a file of YAML",
            "say so by --format",
            "=3\n=3\n=3\n=3\n=3\n=3\nloaded 1 row",
        ],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
    Found {
        finding: "a URL as an input is told how it can be one",
        run: "leafpress load x.db s3://bucket/people.csv",
        status: 3,
        says: &["inputs are files, not URLs", "pipe it in"],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
];

const DRY_RUNS: &[Found] = &[
    Found {
        finding: "a dry run keeps to --max-rejects, as the load does",
        files: &[("in.csv", TWO_BAD)],
        databases: &[("x.db", "CREATE TABLE t(a, b)")],
        run: "for f in '' --dry-run; do for d in 'new.db' 'x.db --table t --append'; do \
              leafpress load $d in.csv --on-error skip --max-rejects 1 $f; echo =$?; done; done; \
              leafpress load new.db in.csv --on-error skip --max-rejects 2 --dry-run",
        status: 1,
        says: &["=3\n", "2 rows were rejected, more than the 1 allowed", "allow more"],
        never_says: &["=0", "=1", "=2"],
        leaves_no: &["new.db"],
        ..Found::NONE
    },
    Found {
        finding: "a dry run looks whether the rejects can be made",
        files: &[("in.csv", TWO_BAD), ("r", b"mine\n"), ("s.log", b"mine\n"), ("empty", b"")],
        run: "for r in r s none/r in.csv/r; do for f in '' --dry-run; do \
              leafpress load x.db in.csv --on-error skip --rejects $r $f; echo =$?; done; done; \
              leafpress load x.db in.csv --on-error skip --rejects empty --dry-run -q; ls; cat r",
        says: &[
            "=3\n",
            "cannot create none/r",
            "never overwrite",
            "cannot create in.csv/r",
            "mine\n",
        ],
        never_says: &["=0", "=1", "=2"],
        leaves_no: &["x.db", "empty.log", "s", "none"],
        ..Found::NONE
    },
    Found {
        finding: "a dry run looks whether the rejects may be made",
        files: &[("in.csv", TWO_BAD)],
        as_other_user: true,
        run: "mkdir ro; chmod 555 ro; for f in '' --dry-run; do \
              leafpress load x.db in.csv --on-error skip --rejects ro/r $f; echo =$?; done",
        says: &["=3\n", "cannot create ro/r", "you may not write to ro", "to do: "],
        never_says: &["=0", "=1"],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
    Found {
        finding: "a dry run meets what a load would meet",
        files: &[("in.csv", b"a\n1\n"), ("x.db-wal", b"old")],
        run: "for d in x.db none/y.db; do for f in '' --dry-run; do \
              leafpress load $d in.csv $f; echo =$?; done; done; true",
        says: &[
            "=3\n",
            "belongs to a database that was here before",
            "cannot create a file in none",
        ],
        never_says: &["=0", "=1"],
        ..Found::NONE
    },
    Found {
        finding: "what --max-rejects leaves is told",
        files: &[("in.csv", TWO_BAD)],
        run: "leafpress load x.db in.csv --on-error skip --rejects r --max-rejects 1; s=$?; \
              cat r r.log; exit $s",
        status: 3,
        says: &[
            "on disk: nothing was written to x.db; 2 rows that were rejected are in r, their \
             places and reasons in r.log",
            "a,b\n3\n4\nin.csv:3:1: ",
        ],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
    Found {
        finding: "a new database whose name a power cut could take away is refused at the start",
        files: &[("in.csv", b"a\n1\n")],
        as_other_user: true,
        run: "mkdir hidden; chmod 333 hidden; for f in '' --dry-run; do \
              leafpress load hidden/x.db in.csv $f --json; echo =$?; done; chmod 700 hidden; ls -A hidden",
        says: &[
            "=3\n",
            "you may not read hidden",
            "nothing was written",
            "change the permissions of the folder (chmod), so that you may read it",
        ],
        never_says: &["outcome_unknown", "=0"],
        leaves_no: &["hidden/x.db"],
        ..Found::NONE
    },
    Found {
        finding: "no thread for the parts of a run",
        as_other_user: true,
        run: "(echo a; seq 300000) >in.csv; ulimit -u 1 2>errors || ulimit -p 1; \
              exec leafpress shard in.csv --out parts --by 'hash(a)' --parts 2",
        status: 3,
        says: &["the system has no thread"],
        never_says: &["panicked"],
        ..Found::NONE
    },
    Found {
        finding: "a dry run in a folder that cannot be written",
        files: &[("in.csv", b"a\n1\n")],
        as_other_user: true,
        run: "mkdir ro; cp in.csv ro; chmod 555 ro; cd ro; \
              leafpress load x.db in.csv --pk a --dry-run; echo =$?; \
              cat in.csv | leafpress load x.db - --pk a --dry-run; echo =$?; \
              leafpress load x.db in.csv --pk a --dry-run --tmpdir ..; echo =$?; \
              leafpress load x.db in.csv; echo =$?",
        says: &["=3\n", "with --tmpdir", "=0\n", "a load would fail now: you may not write to ."],
        never_says: &["=1", "=2"],
        ..Found::NONE
    },
];

const NAMES: &[Found] = &[
    Found {
        finding: "names that are not UTF-8 are shown so that they can be told apart",
        files: &[("in.csv", b"a,b\n1,2\n3\n")],
        run: r#"c=$(printf 'caf\351.csv'); e=$(printf 'caf\350.csv'); d=$(printf 'd\351.db'); r=$(printf 'r\351'); \
              cp in.csv "$c"; cp in.csv "$e"; \
              leafpress load "$d" "$c" --on-error skip --rejects "$r"; cat "$r.log"; \
              leafpress load "$d" "$c"; leafpress load "$d" "$e" --on-error skip -q; leafpress load "$d" "$c" --dry-run; \
              leafpress verify "$d"; leafpress doctor "$d"; leafpress index "$d" "nix" a; leafpress index "no$d" t a; \
              leafpress queue stats "$d"; leafpress queue push "$d/x" q a; leafpress storage "$d" --quick; \
              leafpress io "$d" -c "SELECT"; leafpress load "$d" "no$c"; leafpress load y.db "$d::nix"; \
              leafpress "$c"; leafpress load y.db "$c" --no-such="$c"; mv "$d" d.db"#,
        says: &[
            r"into table caf\xE9 of d\xE9.db",
            r"in r\xE9",
            r"caf\xE9.csv:3:1: ",
            r"'caf\xE9.csv'",
            r"nod\xE9.db",
        ],
        never_says: &["\u{fffd}"],
        holds: &[("d.db", "SELECT name FROM sqlite_schema ORDER BY 1", r"'caf\xE8';'caf\xE9'")],
        ..Found::NONE
    },
    Found {
        finding: "a name that looks like one that is not UTF-8",
        files: &[(r"caf\xE9.csv", b"a\n1\n")],
        run: r"leafpress load x.db 'caf\xE9.csv'; leafpress load x.db 'a\b'",
        status: 3,
        says: &[r"into table caf\x5CxE9 of x.db", r"cannot open a\b: "],
        ..Found::NONE
    },
];

/// Each command that reaches a database `y.db`, its status, and the kind of its error.
const EACH: &str = r#"each() { for c in "load y.db in.csv --table t --append" "load y.db in.csv --table new" \
     "load y.db in.csv --table t --append --dry-run" "index y.db t s" "queue push y.db q x" "queue stats y.db" \
     "queue work y.db q --exec true --drain" "load z.db y.db::t" "verify y.db" \
     "io y.db --in-place -c COMMIT"; do \
     leafpress $c --json >said 2>err; s=$?; echo "$s $(grep -o '"kind":"[a-z_]*"' said) of $c"; cat said err; done; }; "#;

const REACHED: &[Found] = &[
    Found {
        finding: "a file without rights is told as such by every command",
        files: &[("in.csv", b"s,n\n1,2\n")],
        databases: &[("x.db", TABLE)],
        as_other_user: true,
        run: "EACH cp x.db y.db; chmod 000 y.db; each; chmod 600 y.db; cmp x.db y.db",
        says: &["cannot open y.db: Permission denied", "on_disk", "to_do"],
        never_says: &[
            "\n0 ",
            "\n1 ",
            "\n2 ",
            "\"kind\":\"destination\"",
            "\"kind\":\"input\"",
            "journal",
            "recovery",
            "null",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a text is no database for every command",
        files: &[
            ("in.csv", b"s,n\n1,2\n"),
            ("y.db", b"a text that is no database, and long enough\n"),
        ],
        run: "EACH each",
        says: &["3 \"kind\":\"not_a_database\" of load", "of queue push", "of verify", "of io"],
        never_says: &[
            "\n0 ",
            "\n1 ",
            "\n2 ",
            "\"kind\":\"destination\"",
            "\"kind\":\"input\"",
            "null",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a folder is no database for every command",
        files: &[("in.csv", b"s,n\n1,2\n")],
        run: "EACH mkdir y.db; each",
        says: &["3 \"kind\":\"not_a_database\" of load", "of queue push", "of verify", "of io"],
        never_says: &[
            "\n0 ",
            "\n1 ",
            "\n2 ",
            "\"kind\":\"destination\"",
            "\"kind\":\"input\"",
            "null",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a folder that cannot be written is told as such",
        files: &[("in.csv", b"s,n\n1,2\n")],
        databases: &[("x.db", "PRAGMA journal_mode=WAL; CREATE TABLE t(s, n)")],
        as_other_user: true,
        run: "mkdir ro; cp x.db ro/y.db; cp in.csv ro; chmod 555 ro; cd ro; for c in \
              'load y.db in.csv --table t --append' 'load y.db in.csv --table t --append --dry-run' \
              'load new.db in.csv' 'index y.db t s' 'queue push y.db q x' 'queue push new.db q x' \
              'load ../z.db y.db::t'; do \
              leafpress $c --json; echo \"=$?\"; done; true",
        says: &["\"kind\":\"read_only\"", "you may not write to", "=3\n", "where SQLite makes"],
        never_says: &["=0", "=1", "=2", "\"kind\":\"destination\"", "\"kind\":\"io\"", "null"],
        ..Found::NONE
    },
    Found {
        finding: "index --name ''",
        databases: &[("x.db", TABLE)],
        run: "leafpress index x.db t s --name ''; leafpress index x.db t s --tmpdir none",
        status: 2,
        says: &["an index needs a name\non disk: the database is as it was\nto do: name it"],
        ..Found::NONE
    },
    Found {
        finding: "every failure says what is on disk and what to do",
        files: &[("in.csv", b"a\n1\n"), ("latin.csv", b"a\ncaf\xe9\n"), ("empty.csv", b"")],
        databases: &[("x.db", TABLE)],
        run: r#"for c in "load x.db in.csv --table t" "load x.db none.csv" "load x.db latin.csv" "load x.db empty.csv" \
              "load x.db in.csv --table n --pk z" "load none/x.db in.csv" "load x.db x.db::none" "load x.db ." \
              "index x.db none s" "index x.db t none" "index none.db t s" "verify none.db" "verify in.csv" \
              "doctor none.db" "storage none/none" "io x.db -c SELECT" "io none.db -c COMMIT" "io in.csv -c COMMIT" \
              "queue stats none.db" "queue stats x.db none" "queue show x.db 7" "queue ack x.db 1.1" \
              "queue push none/x.db q a" "queue push in.csv q a" "queue purge x.db none --state dead"; do \
              leafpress $c >said 2>&1; s=$?; grep -q "on disk: " said || echo "LACKS on disk: $c ($s) $(cat said)"; \
              grep -q "to do: " said || echo "LACKS to do: $c ($s) $(cat said)"; done"#,
        never_says: &["LACKS"],
        ..Found::NONE
    },
];

const MESSAGES: &[Found] = &[
    Found {
        finding: "--upsert without a column of the key",
        databases: &[("u.db", "CREATE TABLE u(a PRIMARY KEY, b)")],
        files: &[("u.csv", b"b\n1\n")],
        run: "leafpress load u.db u.csv --upsert",
        status: 2,
        says: &["the input has no column a, which is part of the key of u", "give the input the"],
        never_says: &["doctor"],
        ..Found::NONE
    },
    Found {
        finding: "doctor of no file",
        run: "leafpress doctor nope.db",
        status: 3,
        says: &["cannot open nope.db: No such file or directory"],
        ..Found::NONE
    },
    Found {
        finding: "a delimiter as C writes it",
        files: &[("x.csv", b"a\n1\n")],
        run: r"leafpress load d.db x.csv --delimiter '\x01'; leafpress load d.db x.csv --quote 'ab'",
        status: 2,
        says: &[
            r"invalid value '\x01' for '--delimiter <C>': it has 4 bytes and must have one",
            r"in bash and zsh with $'\x01'",
            "'ab' for '--quote <C>': it has 2 bytes and must have one\n",
        ],
        ..Found::NONE
    },
    Found {
        finding: "text behind a quote that closes",
        files: &[("q.csv", b"a,b\n\"x\"y,2\n")],
        run: "leafpress load q.db q.csv",
        says: &[
            "note: q.csv: 1 quote stands",
            "text behind a quote that closes belongs to the field, other quotes are kept",
        ],
        holds: &[("q.db", "SELECT a FROM q", "'xy'")],
        ..Found::NONE
    },
    Found {
        finding: "two columns of one name",
        files: &[("x.csv", b"a,b\n1,2\n")],
        run: "leafpress load d.db x.csv --rename b=a",
        status: 2,
        says: &["two columns would be called 'a'", "--rename OLD=NEW"],
        ..Found::NONE
    },
    Found {
        finding: "verify of an index over a function of its application",
        databases: &[(
            "f.db",
            "CREATE TABLE t(a); INSERT INTO t VALUES (1); CREATE INDEX i ON t(abs(a)); \
             PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, 'abs', 'mine')",
        )],
        run: "leafpress verify f.db",
        status: 3,
        says: &["unknown function: mine()", "let the application check it"],
        never_says: &["leafpress verify say"],
        ..Found::NONE
    },
    Found {
        finding: "texts that are no JSON",
        run: "echo nope | leafpress queue push q.db x --ndjson -; \
              leafpress queue push q.db x --as-json '{bad'",
        status: 2,
        says: &[
            "<stdin>:1:2: it is not JSON: a word other than null, true and false needs",
            "the payload is not JSON: line 1, column 2: a key needs double quotes",
            "to do: correct the JSON; or leave out --as-json",
        ],
        leaves_no: &["q.db"],
        ..Found::NONE
    },
];

fn with_each(case: &Found) -> Found {
    let run: &'static str = Box::leak(case.run.replacen("EACH ", EACH, 1).into_boxed_str());
    Found { run, ..*case }
}

#[test]
fn what_is_no_input_is_told() {
    assert_all(OTHER_INPUTS);
}

#[test]
fn a_dry_run_says_what_happens() {
    assert_all(DRY_RUNS);
}

#[test]
fn names_that_are_not_utf_8_are_told_apart() {
    assert_all(NAMES);
}

#[test]
fn messages_say_what_is_wrong_and_what_helps() {
    assert_all(MESSAGES);
}

#[test]
fn one_cause_has_one_answer() {
    assert_all(&REACHED.iter().map(with_each).collect::<Vec<_>>());
}

const EMPTY: &str = "see the command's --help";

/// Advice that helps, where it was to look at the help.
const ADVICE: &[Found] = &[
    Found {
        finding: "a column that is not there, and a view, for an index",
        databases: &[("t.db", "CREATE TABLE t(a, b); CREATE VIEW v AS SELECT a FROM t")],
        files: &[("t.csv", b"a,b\n1,2\n")],
        run: "leafpress index t.db t c; leafpress load u.db t.csv --index c; \
              leafpress index t.db v a",
        status: 2,
        says: &[
            "there is no column 'c'; columns: a, b\n\
             on disk: the database is as it was\nto do: name one of these columns",
            "nothing was written to u.db\nto do: name one of these columns",
            "to do: name a table; a view uses the indexes of the tables that it reads",
        ],
        never_says: &[EMPTY],
        ..Found::NONE
    },
    Found {
        finding: "names for --columns that are too many, and a declaration with a slip",
        files: &[("t.csv", b"a,b\n1,2\n")],
        run: "leafpress load u.db t.csv --columns x,y,z; \
              leafpress load u.db t.csv --create 'CREATE TABEL t(a, b)'; \
              leafpress load u.db t.csv --create 'CREATE TABLE t(a, b'",
        status: 2,
        says: &[
            "to do: name each column in --columns, with commas between",
            "to do: correct it where the message says; such as CREATE TABLE",
        ],
        never_says: &[EMPTY],
        leaves_no: &["u.db"],
        ..Found::NONE
    },
    Found {
        finding: "a program that is not there",
        run: "leafpress queue push q.db m a; leafpress queue work q.db m --exec nosuchprog",
        status: 2,
        says: &["there is no program nosuchprog\non disk: no job was taken\n\
             to do: check its name and the folders of PATH"],
        never_says: &[EMPTY],
        ..Found::NONE
    },
    Found {
        finding: "a file in place of a folder of shards",
        files: &[("t.csv", b"a,b\n1,2\n"), ("p.csv", b"a,b\n1,2\n")],
        run: "leafpress shard t.csv --out p.csv --by 'hash(a)' --parts 2",
        status: 3,
        says: &["p.csv: it is a file, and shards are a folder", "to do: name a folder with --out"],
        never_says: &["sound"],
        ..Found::NONE
    },
    Found {
        finding: "a file in place of a folder, and a name of a database that is one of a folder",
        files: &[("t.csv", b"a\n1\n")],
        run: "leafpress shards list t.csv; echo =$?; leafpress load t.db/ t.csv",
        status: 3,
        says: &["=3\n", "to do: check the path: what is before a slash must be a folder"],
        never_says: &["sound"],
        ..Found::NONE
    },
    Found {
        finding: "a virtual table is no view, and a partial index no key",
        files: &[("t.csv", b"a\n1\n")],
        databases: &[
            ("f.db", "CREATE VIRTUAL TABLE t USING fts5(a)"),
            ("p.db", "CREATE TABLE t(a); CREATE UNIQUE INDEX i ON t(a) WHERE a > 1"),
        ],
        run: "leafpress load f.db t.csv --append; leafpress load p.db t.csv --upsert",
        status: 3,
        says: &[
            "INSERT … SELECT from there",
            "(one with WHERE, or of an expression, does not serve)",
        ],
        never_says: &["a view uses"],
        ..Found::NONE
    },
    Found {
        finding: "a mistake in the flags has nothing to do with a database",
        files: &[("t.csv", b"id\n1\n")],
        run: "leafpress shard t.csv --out s --parts 0; leafpress queue push q.db m x --metadata no; \
              leafpress load x.db t.csv --index id --index id; \
              leafpress load x.db t.csv --rename id=a --rename id=b",
        status: 2,
        says: &[
            "to do: see the command's --help",
            "to do: leave one of them out",
            "--rename gives the column 'id' two names",
        ],
        never_says: &["what the database holds"],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
    Found {
        finding: "a trigger that names a table that is not there",
        files: &[("t.csv", b"a\n1\n")],
        databases: &[(
            "d.db",
            "CREATE TABLE t(a); CREATE TRIGGER z AFTER INSERT ON t BEGIN INSERT INTO no VALUES (1); END",
        )],
        run: "leafpress load d.db t.csv --append",
        status: 3,
        says: &["no such table: main.no", "to do: see which trigger or foreign key of the table"],
        never_says: &["verify"],
        ..Found::NONE
    },
    Found {
        finding: "a folder as an input",
        run: "mkdir in; leafpress load y.db in --table q",
        status: 3,
        says: &["to do: name the files in it, or a pattern in quotes, such as 'folder/*.csv'"],
        leaves_no: &["y.db"],
        ..Found::NONE
    },
    Found {
        finding: "a copy of a pipe that has no room",
        run: "yes 1,2 | head -c 300000 | (ulimit -f 100; leafpress load y.db - --tmpdir . --table q)",
        status: 3,
        says: &["cannot write a temporary file in .: ", "to do: the file may not grow further"],
        leaves_no: &["y.db"],
        ..Found::NONE
    },
];

#[test]
fn advice_says_what_to_do() {
    assert_all(ADVICE);
}
