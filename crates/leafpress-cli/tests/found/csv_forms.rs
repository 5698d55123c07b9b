//! CSV inputs whose form is found: delimiters that are not sure, line ends, blank lines, and files of
//! other programs.

use super::{Found, assert_all};

/// Texts that mean NULL, where inputs of other formats are loaded too.
const NULLS: &[Found] = &[Found {
    finding: "--null holds for CSV beside JSON whose name does not tell",
    files: &[("a", b"id,v\n1,NA\n2,\n3,b\n"), ("b", b"{\"id\": 4, \"v\": \"NA\"}\n")],
    run: "leafpress load t.db a b --table t --null NA; \
              leafpress load t.db a b --table u --null NA --null ''",
    holds: &[
        ("t.db", "SELECT * FROM t ORDER BY id", "1,NULL;2,'';3,'b';4,'NA'"),
        ("t.db", "SELECT * FROM u ORDER BY id", "1,NULL;2,NULL;3,'b';4,'NA'"),
    ],
    ..Found::NONE
}];

#[test]
fn texts_that_mean_null_do_so_beside_other_formats() {
    assert_all(NULLS);
}

/// Delimiters that are taken, or asked for.
const DELIMITERS: &[Found] = &[
    Found {
        finding: "20.1: a ragged row among the first records makes no single column",
        files: &[
            ("t.csv", b"a;b\n1;2\n1;2;3\n"),
            ("u.csv", b"a|b|c\n1|x|2\n1|\"t\nu\"|2\n1|2\n3|y|4\n"),
            ("v.json", b"{\"a\": 1}\n"),
        ],
        run: "leafpress load n.db t.csv; leafpress load n.db u.csv --on-error skip; \
              leafpress load n.db t.csv --dry-run; leafpress load n.db t.csv v.json --table x; \
              leafpress load n.db t.csv --columns a,b --no-header --ragged pad; \
              leafpress load o.db u.csv --on-error skip --delimiter '|' -q",
        status: 1,
        says: &[
            "error: t.csv: it would be one column, but ';' divides its first record into 2 fields",
            "error: u.csv: it would be one column, but '|' divides its first record into 3 fields",
            "use --delimiter ';'",
            "If it is one column, use --delimiter ','",
        ],
        never_says: &["loaded"],
        holds: &[("o.db", "SELECT * FROM u", "1,'x',2;1,'t\nu',2;3,'y',4")],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "20.1: one column, as the caller says or as there is no doubt",
        files: &[("t.csv", b"a;b\n1;2\n1;2;3\n"), ("u.csv", b"note\na; b\nc\n")],
        run: "leafpress load n.db t.csv --delimiter , -q; \
              leafpress load n.db t.csv --columns x --table x -q; leafpress load n.db u.csv -q",
        holds: &[
            ("n.db", "SELECT * FROM t", "'1;2';'1;2;3'"),
            ("n.db", "SELECT x FROM x", "'1;2';'1;2;3'"),
            ("n.db", "SELECT note FROM u", "'a; b';'c'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "20.2: a comma in texts wins no longer over a delimiter that fits better",
        files: &[
            ("tie.csv", "\"id\";\"Name, Vorname\"\n\"1\";\"Müller, Hans\"\n".as_bytes()),
            ("eur.csv", b"Datum;An;Betrag, EUR;Konto\n01.01.2024;X;1,50;0012\n"),
            ("tab.csv", b"place\tlat, lon\nA\t52.0, 13.0\n"),
        ],
        run: "for f in tie eur tab; do leafpress load n.db $f.csv || exit; done",
        holds: &[
            ("n.db", "SELECT id, \"Name, Vorname\" FROM tie", "1,'Müller, Hans'"),
            ("n.db", "SELECT * FROM eur", "'01.01.2024','X','1,50','0012'"),
            ("n.db", "SELECT place, \"lat, lon\" FROM tab", "'A','52.0, 13.0'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "20.2: delimiters that fit equally well are asked for",
        files: &[("t.csv", b"1;2,5;3,5\n4;5,5;6,5\n"), ("u.csv", b"a,b;c\n1,2;3\n")],
        run: "leafpress load n.db u.csv; leafpress load n.db t.csv --no-header",
        status: 3,
        says: &[
            "error: u.csv: ',' and ';' divide its records equally well",
            "error: t.csv: ',' and ';' divide its records equally well",
            "say which of them separates its fields: --delimiter ',' or --delimiter ';'",
        ],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
];

/// Types, where a row that the table refuses stands first or last.
const TYPES: &[Found] = &[
    Found {
        finding: "20.3: a rejected row has no say in the types, wherever it stands",
        run: r#"n=0; for p in first last; do
              { echo a,b; [ $p = first ] && echo ,y; seq 120000 | sed 's/.*/&,&/'; [ $p = last ] && echo ,y; } > t.csv
              for f in '--pk a' '--not-null a' '--pk a --without-rowid' \
                  '--type a=integer --not-null a' '--pk a --type a=text --empty-null'; do
              for w in load.db dry.db; do
              [ $w = dry.db ] && dry=--dry-run || dry=
              leafpress load $w t.csv --table t$n $f --on-error skip --json $dry 2>/dev/null |
                  grep -oE '"create_sql": ?"([^"\\]|\\.)*"' > $w.sql || echo none
              done
              cmp load.db.sql dry.db.sql || echo differs; n=$((n+1)); done; done"#,
        never_says: &["differs", "none"],
        holds: &[(
            "load.db",
            "SELECT count(*), sum(sql LIKE '%\"b\" INTEGER%') FROM sqlite_master WHERE type = 'table'",
            "10,10",
        )],
        ..Found::NONE
    },
    Found {
        finding: "20.3: so it is in JSON",
        run: "{ echo '{\"b\":\"y\"}'; seq 20000 | sed 's/.*/{\"a\":&,\"b\":&}/'; } > t.json; \
              for f in '--pk a' '--not-null a'; do \
              leafpress load n.db t.json --table \"t $f\" $f --on-error skip -q; done; true",
        holds: &[(
            "n.db",
            "SELECT sum(sql LIKE '%\"b\" INTEGER%') FROM sqlite_master WHERE type = 'table'",
            "2",
        )],
        ..Found::NONE
    },
];

/// Lines.
const LINES: &[Found] = &[
    Found {
        finding: "20.4: blank lines of one column are rows, up to the last record",
        files: &[
            ("t.csv", b"name\na\n\nb\n\"\"\n"),
            ("u.csv", b"\r\n\r\nn\r\n1\r\n\r\n2\r\n\r\n\r\n"),
            ("v.csv", b"a,b\n\n1,2\n\n"),
        ],
        run: "leafpress load n.db t.csv; leafpress load n.db u.csv; leafpress load n.db v.csv; \
              leafpress load n.db t.csv --no-header --table w; \
              printf '\\na\\n' | leafpress load n.db - --no-header --table x; \
              printf 'n\\n1\\n\\nx\\n' | leafpress load n.db - --table y --type n=integer",
        status: 3,
        says: &[
            "u.csv: 2 blank lines behind its last row are no rows; those before it are",
            "<stdin>:4:1: column \"n\": 'x' is not an INTEGER",
        ],
        never_says: &["t.csv: ", "v.csv: "],
        holds: &[
            ("n.db", "SELECT name FROM t", "'a';'';'b';''"),
            ("n.db", "SELECT n FROM u", "1;NULL;2"),
            ("n.db", "SELECT * FROM v", "1,2"),
            ("n.db", "SELECT * FROM w", "'name';'a';'';'b';''"),
            ("n.db", "SELECT * FROM x", "'';'a'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "21.1: so they are if a row is ragged, or the first megabyte has few rows",
        files: &[("t.csv", b"name\nAda\n\nSmith, J\nBob\n")],
        run: "{ echo n; for n in 1 2 3 4 5 6; do head -c 200000 /dev/zero | tr '\\0' x; \
              printf '\n\n'; done; echo y; } > u.csv; \
              leafpress load n.db u.csv -q; leafpress load n.db t.csv --ragged truncate --table v -q; \
              leafpress load n.db t.csv --on-error skip -q",
        status: 1,
        holds: &[
            ("n.db", "SELECT name FROM t", "'Ada';'';'Bob'"),
            ("n.db", "SELECT name FROM v", "'Ada';'';'Smith';'Bob'"),
            ("n.db", "SELECT count(*), sum(n = ''), sum(length(n)) FROM u", "13,6,1200001"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "21.1: long rows are one column only if no other delimiter divides them",
        run: "{ echo 'id;blob'; for n in 1 2 3 4 5 6 7 8; do printf '%s;' $n; \
              head -c 200000 /dev/zero | tr '\\0' x; echo; done; } > t.csv; \
              leafpress load n.db t.csv",
        status: 3,
        says: &[
            "error: t.csv: it would be one column, but ';' divides its first record into 2 fields",
        ],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "20.5: MySQL's text format with line ends of Windows",
        files: &[("t.txt", b"1\tx\t5\r\n2\ty\t\\N\r\n"), ("u.txt", b"1\tx\r\n2\ty\n")],
        run: "leafpress load n.db t.txt --format mysqltext; leafpress load n.db u.txt --format mysqltext -q",
        says: &["note: t.txt: its lines end with a carriage return and a newline, and are read so"],
        holds: &[
            ("n.db", "SELECT * FROM t", "1,'x',5;2,'y',NULL"),
            ("n.db", "SELECT * FROM u", "1,'x\r';2,'y'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "20.6: line ends that were translated twice",
        files: &[("t.csv", b"a,b\r\r\n1,2\r\r\n3,\"x\r\n\"\r\r\n")],
        run: "leafpress load n.db t.csv",
        says: &["note: t.csv: its lines end with two carriage returns and a newline"],
        holds: &[("n.db", "SELECT a, b FROM t", "1,'2';3,'x\r\n'")],
        ..Found::NONE
    },
];

/// Files that are none of rows, and notes on what is not loaded.
const OTHERS: &[Found] = &[
    Found {
        finding: "20.7: scripts, pages and documents are refused, unless the caller says what they are",
        files: &[
            ("d.sql", b"-- MySQL dump 10.13\nCREATE TABLE t(a);\n"),
            ("d.csv", b"<!DOCTYPE html>\n<html></html>\n"),
            ("d.yml", b"a: 1\n"),
            ("t.sql", b"a,b\n1,2\n"),
        ],
        run: "for f in d.sql d.csv d.yml t.sql; do leafpress load n.db $f; done; \
              leafpress load n.db - --table t < d.csv; leafpress load o.db t.sql --format csv -q",
        says: &[
            "error: d.sql: is a script of SQL, which cannot be loaded",
            "sqlite3 DB < d.sql",
            "error: d.csv: is a page of HTML",
            "error: d.yml: is a file of YAML",
            "error: t.sql: is a script of SQL",
            "error: <stdin>: is a page of HTML",
            "say so by --format",
        ],
        holds: &[("o.db", "SELECT * FROM t", "1,2")],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "20.8: values in the names of folders are told",
        run: "mkdir -p y=2024/m=01 m=1; printf 'a\\n1\\n' > y=2024/m=01/p.csv; printf 'm\\n1\\n' > m=1/q.csv; \
              echo '{\"a\":1}' > y=2024/j.json; \
              leafpress load n.db '**/p.csv' --table p; leafpress load n.db m=1/q.csv; \
              leafpress load n.db y=2024/j.json",
        says: &[
            "note: y=2024/m=01/p.csv: folders of its path name values of y, m, and no column does",
            "note: y=2024/j.json: folders of its path name values of y, and no column does",
        ],
        never_says: &["q.csv: folders"],
        ..Found::NONE
    },
    Found {
        finding: "20.11: rows that are filled or cut are counted",
        files: &[("t.csv", b"a,b\n1,2\n3\n4,5,6\n7\n")],
        run: "leafpress load n.db t.csv --ragged pad --on-error skip; \
              leafpress load m.db t.csv --ragged truncate --on-error skip",
        status: 1,
        says: &[
            "note: t.csv: 2 rows have another number of fields, the first in line 3: missing fields are empty",
            "note: t.csv: 1 row has another number of fields, the first in line 4: surplus fields are dropped",
        ],
        ..Found::NONE
    },
    Found {
        finding: "20.11: other words for no value",
        files: &[("t.csv", b"a,b\n1,#DIV/0!\n\\N,2\n")],
        run: "leafpress load n.db t.csv",
        says: &["column a is TEXT because of '\\N'", "column b is TEXT because of '#DIV/0!'"],
        ..Found::NONE
    },
    Found {
        finding: "20.11: a header without the name of the first column",
        files: &[("t.csv", b"\"x\",\"y\"\n\"1\",5,6\n\"2\",7,8\n")],
        run: "leafpress load n.db t.csv; \
              leafpress load n.db t.csv --skip-lines 1 --no-header --columns n,x,y -q && exit 1",
        status: 1,
        says: &[
            "the header has one name less than the rows have fields",
            "leave it out with --skip-lines 1 and --no-header, and name all columns with --columns",
        ],
        never_says: &["lines stand above"],
        holds: &[("n.db", "SELECT * FROM t", "1,5,6;2,7,8")],
        ..Found::NONE
    },
    Found {
        finding: "20.9: a dictionary of decimals in Parquet",
        run: "echo 'H4sICC7xDGsCA2RkLnBhcnF1ZXQAbVFNS8NAEJ1dQ6gipS1syEIOuRgU0mqFehB7mK3WFi3WepCC\
              l1JK9GAbU208evQ3+Mv8Oc5s48fBCTvzdvLevCEZ4qipHHpKl0oqqAFIB+YKVE15MbUrylVu4EuY\
              8/HkboGqVQDYDCXlDSEkKEfHLfDd5fR+9jhR1CiTWvpitbNFwI3vOBPbc3SggwgCVdYtcCuaKEp6\
              jvcmvHcRxVHpfzfN2wAPBlpKwsmeqyPJ/qx0ohKpQQf+No5GV7fH6z38T7HP0UqQ4hrXcYGYo0mw\
              i5hgx75CYxDPGKyGxM8t1XDqFugcsY84RpPjgO/d33nGvDI0Vt/Dv1YF7I0Z9dkPrY+tA04dWxOe\
              2//R3GDBz9nqW3dquxa22+CH6SR7epk916dpWp9k2SIPV7Ns+bCYh4dHjYNGUwcBfZ4PATCkv/wF\
              eO+CZeoBAAA=' \
              | base64 -d | gzip -d > t.parquet; leafpress load n.db t.parquet",
        holds: &[("n.db", "SELECT * FROM t", "'1.10';NULL")],
        ..Found::NONE
    },
    Found {
        finding: "20.11: letters of DOS are no likely windows-1252, nor are halves of surrogate pairs",
        files: &[
            ("t.csv", b"a\nM\x81ller\nJ\x84ger\nGr\x94\xe1e\nK\x81che\nF\x81nf T\x81ren gr\x81n\n"),
            ("u.json", b"{\"a\": \"\xed\xa0\x80\"}\n{\"a\": \"\xed\xb0\x80\"}\n"),
        ],
        run: "leafpress load n.db t.csv --encoding auto; leafpress load n.db u.json",
        status: 3,
        says: &["t.csv is read as windows-1252: not sure: some bytes are control characters in it"],
        never_says: &["likely, by", "--encoding windows-1252"],
        ..Found::NONE
    },
    Found {
        finding: "20.9: a window of two gigabytes in Zstandard is no damage",
        run: "printf '\\050\\265\\057\\375\\000\\250\\101\\000\\000a,b\\n1,2\\n' > t.csv.zst; leafpress load n.db t.csv.zst",
        holds: &[("n.db", "SELECT * FROM t", "1,2")],
        ..Found::NONE
    },
    Found {
        finding: "20.11: gzip inside gzip",
        run: "printf 'a,b\\n1,2\\n' | gzip | gzip > t.csv.gz; leafpress load n.db t.csv.gz; \
              gzip -dc t.csv.gz | leafpress load n.db - --table t -q",
        says: &["is a gzip file inside another", "gzip -dc t.csv.gz | leafpress load DB -"],
        holds: &[("n.db", "SELECT * FROM t", "1,2")],
        ..Found::NONE
    },
];

#[test]
fn delimiters_are_sure_or_asked_for() {
    assert_all(DELIMITERS);
}

#[test]
fn rejected_rows_have_no_say_in_types() {
    assert_all(TYPES);
}

#[test]
fn lines_end_and_are_blank_as_the_file_means() {
    assert_all(LINES);
}

#[test]
fn what_is_not_loaded_is_told() {
    assert_all(OTHERS);
}
