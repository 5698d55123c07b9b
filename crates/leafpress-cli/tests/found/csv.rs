//! Reading CSV files: line ends, escapes, encodings, delimiters, headers, limits.

use super::{Found, assert_all};

/// Line ends and escapes as they are read.
const LINES_AND_ESCAPES: &[Found] = &[
    Found {
        finding: "each small input had a page of its own",
        run: "for n in $(seq 1000 1299); do echo \"id,v\n$n,x\" > $n.csv; echo \"{\\\"id\\\":$n}\" > $n.json; done; \
              (echo id,v; seq 2000 30000 | sed 's/$/,yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy/') > 2000.csv; \
              leafpress load c.db '1*.csv' --table t --pk id && leafpress load j.db '*.json' --table t && \
              leafpress load m.db 1000.csv 1001.csv 2000.csv --table t --pk id && \
              leafpress load u.db 1001.csv 2000.csv 1000.csv --table t --pk id && leafpress verify m.db",
        holds: &[
            (
                "c.db",
                "SELECT count(*), sum(id), (SELECT page_count FROM pragma_page_count) FROM t",
                "300,344850,2",
            ),
            (
                "j.db",
                "SELECT count(*), sum(id), (SELECT page_count FROM pragma_page_count) FROM t",
                "300,344850,2",
            ),
            ("m.db", "SELECT count(*), min(id), max(id) FROM t", "28003,1000,30000"),
            ("u.db", "SELECT count(*), min(id), max(id) FROM t", "28003,1000,30000"),
            ("u.db", "PRAGMA integrity_check", "'ok'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "B7: carriage returns alone end lines",
        files: &[("t.csv", b"id,n\r5,6\r7,8\r")],
        run: "leafpress load t.db t.csv",
        says: &["note: t.csv: its lines end with a carriage return alone"],
        holds: &[("t.db", "SELECT id, n FROM t", "5,6;7,8")],
        ..Found::NONE
    },
    Found {
        finding: "B7: they are data inside quotes, where Macs write newlines, too",
        files: &[("t.csv", b"id,n\r5,\"a\rb\nc\"\r6,x\r")],
        run: "leafpress load t.db t.csv",
        holds: &[("t.db", "SELECT id, n FROM t", "5,'a\rb\nc';6,'x'")],
        ..Found::NONE
    },
    Found {
        finding: "B7: a bad row is named by its line, also from standard input",
        files: &[("t.csv", b"id,n\r5,6\r7\r")],
        run: "leafpress load t.db - --table t < t.csv",
        status: 3,
        says: &["<stdin>:3:1: the row has 1 field, but the table has 2 columns"],
        ..Found::NONE
    },
    Found {
        finding: "B8: PostgreSQL's text format",
        files: &[(
            "pg.tsv",
            b"1\tfoo\\tbar\n2\ta\\nb\n3\t\\N\n4\t\\\\N\n5\t\\303\\251\\x41\n\\.\n\nSELECT 1;\n",
        )],
        run: "leafpress load t.db pg.tsv --format pgtext --columns id,s",
        says: &["note: pg.tsv: the line \\. ends the data"],
        holds: &[("t.db", "SELECT id, s FROM pg", "1,'foo\tbar';2,'a\nb';3,NULL;4,'\\N';5,'éA'")],
        ..Found::NONE
    },
    Found {
        finding: "B8: an escape of PostgreSQL's that makes no UTF-8 is a bad row",
        files: &[("pg.tsv", b"1\ta\n2\t\\xff\n")],
        run: "leafpress load t.db pg.tsv --format pgtext; echo $?; \
              leafpress load t.db pg.tsv --format pgtext --on-error skip",
        status: 1,
        says: &["pg.tsv:2:3: an escape in this field makes byte 0xff", "3\nloaded 1 row"],
        holds: &[("t.db", "SELECT * FROM pg", "1,'a'")],
        ..Found::NONE
    },
    Found {
        finding: "B8: MySQL's text format",
        files: &[("my.txt", b"1\ta\\tb\\\nc\\0\\Z\n2\t\\N\n3\tx\r\n")],
        run: "leafpress load t.db my.txt --format mysqltext",
        holds: &[(
            "t.db",
            "SELECT column1, hex(column2) FROM my",
            "1,'6109620A63001A';2,'';3,'780D'",
        )],
        ..Found::NONE
    },
    Found {
        finding: "B8: into a table that is there",
        files: &[("pg.txt", b"1\ta\n2\t\\N\n")],
        databases: &[("t.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, s TEXT)")],
        run: "leafpress load t.db pg.txt --format pgtext --table t --append; \
              leafpress load t.db pg.txt --format pgtext --table t --append --columns id,s",
        says: &["to do: the input has no header: name its columns with --columns"],
        holds: &[("t.db", "SELECT id, s FROM t", "1,'a';2,NULL")],
        ..Found::NONE
    },
    Found {
        finding: "B8: a blank line is a row of one empty text",
        files: &[("pg.txt", b"a\n\nb\n")],
        run: "leafpress load t.db pg.txt --format pgtext",
        holds: &[("t.db", "SELECT column1 FROM pg", "'a';'';'b'")],
        ..Found::NONE
    },
    Found {
        finding: "B8: escapes that a database means otherwise are told",
        files: &[("pg.tsv", b"0\tx\n1\tfoo\\tbar\n")],
        run: "leafpress load t.db pg.tsv --no-header --escape '\\' --null '\\N'",
        says: &["note: pg.tsv: in line 2", "--format pgtext (PostgreSQL)", "--format mysqltext"],
        ..Found::NONE
    },
    Found {
        finding: "B8: an escaped backslash is no escaped letter, and no NULL",
        files: &[("t.tsv", b"1\tc:\\\\temp\n2\t\\\\N\n3\t\\N\n")],
        run: "leafpress load t.db t.tsv --no-header --escape '\\' --null '\\N'",
        never_says: &["pgtext"],
        holds: &[("t.db", "SELECT column2 FROM t", "'c:\\temp';'\\N';NULL")],
        ..Found::NONE
    },
];

/// Encodings and delimiters that are found.
const ENCODINGS_AND_DELIMITERS: &[Found] = &[
    Found {
        finding: "B14: the encoding that fits is named",
        files: &[("t.csv", b"name\nJos\xe9\n")],
        run: "leafpress load t.db t.csv",
        status: 3,
        says: &["t.csv:2:4: invalid UTF-8: byte 0xe9", "--encoding windows-1252", "not sure"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "B14: in the header, too",
        files: &[("t.csv", b"n\xe9e,b\n1,2\n")],
        run: "leafpress load t.db t.csv",
        status: 3,
        says: &["the name of column 1 is not UTF-8", "--encoding windows-1252"],
        ..Found::NONE
    },
    Found {
        finding: "a file that is no text is given no encoding",
        files: &[("t.csv", b"\x7fXYZ\x02\x01\x00\xe9,\x00\xe8\n\x00\xff")],
        run: "leafpress load t.db t.csv --primary-key a",
        status: 3,
        says: &["the name of column 1 is not UTF-8", "NUL bytes", "--encoding utf-16le"],
        never_says: &["windows"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "B14: in JSON, too",
        files: &[("t.json", b"{\"a\":1}\n{\"a\":\"Jos\xe9 Hern\xe1ndez\"}\n")],
        run: "leafpress load t.db t.json",
        status: 3,
        says: &["this is not UTF-8", "--encoding windows-1252"],
        ..Found::NONE
    },
    Found {
        finding: "B14: one bad byte among much UTF-8 is no other encoding",
        files: &[("t.csv", b"name\nJos\xc3\xa9\nZo\xc3\xab\nx\xe9\n")],
        run: "leafpress load t.db t.csv",
        status: 3,
        says: &["t.csv:4:2: invalid UTF-8: byte 0xe9", "to do: correct the row"],
        never_says: &["windows-1252"],
        ..Found::NONE
    },
    Found {
        finding: "B14: where bad rows are skipped, and in a dry run",
        files: &[("t.csv", b"a,b\nx,Jos\xe9\ny,2\n")],
        run: "leafpress load t.db t.csv --dry-run; leafpress load t.db t.csv --on-error skip --json",
        status: 1,
        says: &[
            "note: t.csv: rows are not UTF-8; the encoding that fits is windows-1252",
            "load it with --encoding windows-1252\"",
        ],
        holds: &[("t.db", "SELECT * FROM t", "'y',2")],
        ..Found::NONE
    },
    Found {
        finding: "B14: where too many rows are bad",
        files: &[("t.csv", b"a,b\nx,Jos\xe9\ny,2\n"), ("d.csv", b"a;b\n1,5;x\n")],
        run: "leafpress load t.db t.csv --on-error skip --max-rejects 0; \
              leafpress load t.db d.csv --delimiter , --on-error skip --max-rejects 0",
        status: 3,
        says: &[
            "load it with --encoding windows-1252",
            "the file looks as if its delimiter were ';': use --delimiter ';'",
        ],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "16 % are not UTF-8: --encoding auto takes what fits",
        files: &[("t.csv", b"name;city\nJos\xe9;Besan\xe7on\nH\xe9l\xe8ne;N\xeemes\n")],
        run: "leafpress load t.db t.csv --encoding auto; \
              leafpress load t.db - --table u --encoding AUTO < t.csv",
        says: &[
            "note: t.csv is read as windows-1252: not sure: it rests on 5 bytes",
            "note: <stdin> is read as windows-1252",
        ],
        holds: &[
            ("t.db", "SELECT name, city FROM t", "'José','Besançon';'Hélène','Nîmes'"),
            ("t.db", "SELECT count(*) FROM u WHERE name = 'José'", "1"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "--encoding auto leaves UTF-8 as it is, reads marks, and JSON",
        files: &[
            ("u.csv", "a\né\n".as_bytes()),
            ("w.csv", b"\xff\xfea\0\n\x001\0\n\0"),
            ("j.json", b"{\"a\":\"Jos\xe9 Hern\xe1ndez\"}\n"),
        ],
        run: "for f in u.csv w.csv j.json; do leafpress load t.db $f --encoding auto; done",
        says: &[
            "u.csv is read as utf-8: all of it is valid",
            "w.csv is read as utf-16le: its byte order mark says so",
            "j.json is read as windows-1252",
        ],
        holds: &[
            ("t.db", "SELECT a FROM u", "'é'"),
            ("t.db", "SELECT a FROM w", "1"),
            ("t.db", "SELECT a FROM j", "'José Hernández'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "UTF-16 without a byte order mark is named with its byte order",
        files: &[("t.csv", b"\0i\0d\0,\0n\0a\0m\0e\0\n\0a\0,\0b\0\n\0c\0,\0d\0\n\0e\0,\0f\0\n\0g\0,\0h\0\n\0i\0,\0j\0\n\0k\0,\0l\0\n")],
        run: "leafpress load t.db t.csv",
        status: 3,
        says: &["t.csv: this looks like UTF-16BE", "--encoding utf-16be"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "B14: the delimiter is found",
        files: &[("t.csv", b"a;b\n1,5;x\n"), ("p.txt", b"a|b\n1|x\n"), ("b.dat", b"a\tb\n1\tx\n")],
        run: "for f in t.csv p.txt b.dat; do leafpress load t.db $f; done",
        says: &["note: t.csv: fields are separated by ';', as its first 2 records tell"],
        holds: &[
            ("t.db", "SELECT a, b FROM t", "'1,5','x'"),
            ("t.db", "SELECT a, b FROM p", "1,'x'"),
            ("t.db", "SELECT a, b FROM b", "1,'x'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "B14: --delimiter decides, and a row that does not fit it gets the hint",
        files: &[("t.csv", b"a;b\n1,5;x\n"), ("c.tsv", b"a,b\n1,2\n3\t4,5\n")],
        run: "leafpress load t.db t.csv --delimiter ,; leafpress load t.db c.tsv",
        status: 3,
        says: &[
            "t.csv:2:1: the row has 2 fields, but the table has 1 column\n",
            "the file looks as if its delimiter were ';': use --delimiter ';'",
            "the file looks as if its delimiter were ',': use --delimiter ','",
        ],
        ..Found::NONE
    },
    Found {
        finding: "B14: the hint where bad rows are skipped",
        files: &[("t.csv", b"a;b\n1,5;x\n")],
        run: "leafpress load t.db t.csv --delimiter , --on-error skip",
        status: 1,
        says: &["note: t.csv: rows have another number of fields; the file looks as if"],
        ..Found::NONE
    },
    Found {
        finding: "B14: backslashes before quotes",
        files: &[("t.csv", b"a,b\n1,\"say \\\"hi, you\\\", ok\"\n")],
        run: "leafpress load t.db t.csv; leafpress load t.db t.csv --escape '\\'",
        says: &["t.csv:2:1: the row has 4 fields", "load it with --escape '\\'; or correct the row"],
        holds: &[("t.db", "SELECT b FROM t", "'say \"hi, you\", ok'")],
        ..Found::NONE
    },
    Found {
        finding: "Excel's first line names the delimiter",
        files: &[("t.csv", b"sep=;\r\na;b\r\n1,5;x\r\n2;y;z\r\n")],
        run: "leafpress load t.db t.csv --on-error skip --rejects r; cat r.log",
        says: &[
            "note: t.csv: its line 1 says how fields are separated",
            "t.csv:4:1: the row has 3",
        ],
        holds: &[("t.db", "SELECT a, b FROM t", "'1,5','x'")],
        ..Found::NONE
    },
];

/// Headers, lines in front of them, comments, and names.
const HEADERS: &[Found] = &[
    Found {
        finding: "--skip-lines and --comment, with the lines of the file",
        files: &[("t.csv", b"Report \"Q1\n\n# by ann\na;b\n1;2\n# x\n3;4;5\n")],
        run: "leafpress load t.db t.csv --skip-lines 2 --comment '#' --delimiter ';' \
              --on-error skip --rejects r; \
              cat r.log",
        says: &["t.csv:7:1: the row has 3 fields"],
        holds: &[("t.db", "SELECT a, b FROM t", "1,2")],
        ..Found::NONE
    },
    Found {
        finding: "lines above the header are told, and what leaves them out",
        files: &[("t.csv", b"Report for 2024\n\na;b;c\n1;2;3\n4;5;6\n")],
        run: "leafpress load t.db t.csv --delimiter ';'; leafpress load t.db t.csv --skip-lines 2",
        says: &["t.csv:3:1: the row has 3 fields", "leave them out with --skip-lines 2"],
        holds: &[("t.db", "SELECT a, b, c FROM t", "1,2,3;4,5,6")],
        ..Found::NONE
    },
    Found {
        finding: "more lines skipped than there are",
        files: &[("t.csv", b"a\n1\n")],
        run: "leafpress load t.db t.csv --skip-lines 5",
        status: 3,
        says: &[
            "the input is empty behind the 5 lines that are left out: there is not even a header",
        ],
        ..Found::NONE
    },
    Found {
        finding: "rows that landed in the header do not pass",
        files: &[("t.csv", b"id,n\x1e5,6\x1e7,8"), ("n.csv", b"1,2,ann\n")],
        run: "leafpress load t.db t.csv; leafpress load t.db n.csv; \
              leafpress load t.db n.csv --columns a,b,c",
        status: 3,
        says: &[
            "t.csv: it is a single record, which is taken as the header, but reads like data",
            "n.csv: it is a single record",
            "load it with --no-header",
        ],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "a header alone is an empty table, and a note says so",
        files: &[("t.csv", b"id,name\n\n")],
        run: "leafpress load t.db t.csv && leafpress load t.db t.csv --append --columns id,name",
        says: &["note: t.csv: it has a header and no row"],
        holds: &[("t.db", "SELECT count(*) FROM t", "0")],
        ..Found::NONE
    },
    Found {
        finding: "a line of very many fields is told truthfully",
        run: "(seq -s , 2500 | sed 's/,/,c/g'; echo 1) > t.csv; leafpress load t.db t.csv",
        status: 3,
        says: &["it has 2500 columns, and a table of SQLite at most 2000"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "B18: --trim trims the header",
        files: &[("t.csv", b" id , b \n1,2\n")],
        run: "leafpress load t.db t.csv --trim --pk id",
        holds: &[("t.db", "SELECT id, b FROM t", "1,2")],
        ..Found::NONE
    },
    Found {
        finding: "B29: only known endings are taken off",
        files: &[("2024.01.sales.csv", b"a\n1\n"), ("v1.2-final.csv", b"a\n1\n")],
        run: "leafpress load t.db 2024.01.sales.csv && leafpress load t.db v1.2-final.csv",
        holds: &[(
            "t.db",
            "SELECT name FROM sqlite_schema ORDER BY 1",
            "'2024.01.sales';'v1.2-final'",
        )],
        ..Found::NONE
    },
    Found {
        finding: "B39: notes and columns are capped",
        run: "(seq -s , 31 | sed 's/[0-9]//g'; seq -s , 31) > t.csv; leafpress load t.db t.csv",
        says: &["… and 21 more; --json lists all", "note: … and 21 more; --json lists all"],
        never_says: &["column11"],
        ..Found::NONE
    },
    Found {
        finding: "B39: all of them in --json, and few in an error",
        run: "(seq -s , 31 | sed 's/[0-9]//g'; seq -s , 31) > t.csv; \
              leafpress load t.db t.csv --json; leafpress load u.db t.csv --pk no",
        status: 2,
        says: &["column 31 has no name", "column10 and 21 more"],
        ..Found::NONE
    },
];

/// Limits, flags, and compressed files.
const LIMITS: &[Found] = &[
    Found {
        finding: "B24: --max-row-bytes",
        files: &[("t.csv", b"a,b\n1,xxxxxxxxxx\n2,y\n")],
        run: "leafpress load t.db t.csv --max-row-bytes 11; leafpress load t.db t.csv --max-row-bytes 12",
        says: &["the record that starts at line 2 is longer than 11 bytes", "--max-row-bytes"],
        holds: &[("t.db", "SELECT count(*) FROM t", "2")],
        ..Found::NONE
    },
    Found {
        finding: "B36: --null takes no flag for its text",
        files: &[("t.csv", b"a\n-\n-999\n--x\n1\n")],
        run: "leafpress load t.db t.csv --null --append; \
              leafpress load t.db t.csv --null - --null -999 --null=--x",
        says: &["--null <TEXT>"],
        holds: &[("t.db", "SELECT a FROM t", "NULL;NULL;NULL;1")],
        ..Found::NONE
    },
    Found {
        finding: "B40: zeros behind gzip's data",
        files: &[("t.csv", b"a\n1\n")],
        run: "gzip t.csv && head -c 700 /dev/zero >> t.csv.gz && leafpress load t.db t.csv.gz",
        holds: &[("t.db", "SELECT a FROM t", "1")],
        ..Found::NONE
    },
];

/// Rows for which there is no memory. Only Linux bounds a process's memory as asked.
#[cfg(target_os = "linux")]
const MEMORY: &[Found] = &[Found {
    finding: "B24: an endless line ends with an error where memory ends",
    run: "head -c 100000000 /dev/zero | tr '\\0' x > t.csv; leafpress load t.db t.csv -j 1; \
              ulimit -v 260000; leafpress load t.db t.csv -j 1 --no-header",
    status: 3,
    says: &[
        "its first record, which should be the header, has 100000000 bytes",
        "there is no memory for the row at line 1",
        "--max-row-bytes",
    ],
    leaves_no: &["t.db"],
    ..Found::NONE
}];

#[test]
#[cfg(target_os = "linux")]
fn memory_that_ends_is_fixed() {
    assert_all(MEMORY);
}

#[test]
fn lines_and_escapes_are_fixed() {
    assert_all(LINES_AND_ESCAPES);
}

#[test]
fn encodings_and_delimiters_are_fixed() {
    assert_all(ENCODINGS_AND_DELIMITERS);
}

#[test]
fn headers_are_fixed() {
    assert_all(HEADERS);
}

#[test]
fn limits_are_fixed() {
    assert_all(LIMITS);
}
