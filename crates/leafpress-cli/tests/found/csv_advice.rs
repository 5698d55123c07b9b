//! CSV inputs that are read the wrong way, or hold nothing: what the messages say, and which
//! lines they name.

use super::{Found, assert_all};

/// Lines that are counted as an editor shows them.
const LINES: &[Found] = &[
    Found {
        finding: "a text for NULL that is given already is not advised",
        files: &[("in.csv", b"a,b\nx,\\\\N\n")],
        run: "leafpress load a.db in.csv --escape '\\' --null '\\N'",
        never_says: &["say --null"],
        holds: &[("a.db", "SELECT b FROM \"in\"", "'\\N'")],
        ..Found::NONE
    },
    Found {
        finding: "16.1: carriage returns, newlines and both inside quotes, in a file of returns",
        files: &[(
            "t.csv",
            b"id,n\r1,\"a\rb\"\r2,\"a\nb\"\r3,\"a\r\nb\"\r\"x\r\",\"\r\ry\"\rbad\r5,\"z\r\r\"\rworse\r",
        )],
        run: "leafpress load t.db t.csv; leafpress load t.db t.csv --on-error skip --rejects r; \
              cat r.log; leafpress load u.db t.csv --type id=integer --on-error skip",
        status: 1,
        says: &[
            "error: t.csv:12:1: the row has 1 field",
            "t.csv:16:1: the row has 1 field",
            "t.csv:8:1: column \"id\": 'x' is not an INTEGER",
        ],
        holds: &[(
            "t.db",
            "SELECT * FROM t",
            "'1','a\rb';'2','a\nb';'3','a\r\nb';'x\r','\r\ry';'5','z\r\r'",
        )],
        ..Found::NONE
    },
    Found {
        finding: "16.1: the same in files of newlines, where a return alone ends no line",
        files: &[
            ("lf.csv", b"id,n\n1,\"a\rb\"\n2,\"a\nb\"\n3,\"a\r\nb\"\nbad\n"),
            ("crlf.csv", b"id,n\r\n1,\"a\rb\"\r\n2,\"a\nb\"\r\n3,\"a\r\nb\"\r\nbad\r\n"),
        ],
        run: "leafpress load t.db lf.csv; leafpress load t.db crlf.csv",
        status: 3,
        says: &["lf.csv:7:1: the row has 1 field", "crlf.csv:7:1: the row has 1 field"],
        ..Found::NONE
    },
    Found {
        finding: "16.1: the lines that decide a type, and where a quote opens, in later blocks",
        run: "{ printf 'id,n\\r'; for i in $(seq 30000); do printf '%d,\"padding of\\ra row, which \
              goes on\"\\r' $i; done; printf 'x,y\\r30001,\"open\\r'; } > t.csv; \
              leafpress load t.db t.csv --dry-run",
        status: 1,
        says: &["line 60,002: 'x' is no number", "t.csv:60003:7: the quote that opens here"],
        ..Found::NONE
    },
    Found {
        finding: "16.1: lines above the header, and duplicate keys",
        files: &[("t.csv", b"\"Report\rby\nann\"\rid,n\r1,\"a\rb\"\r2,c\r1,d\r")],
        run: "leafpress load t.db t.csv; leafpress load t.db t.csv --skip-lines 3 --pk id",
        status: 3,
        says: &["leave them out with --skip-lines 3", "t.csv:8:1: column \"id\": line 5 has its"],
        ..Found::NONE
    },
];

/// A file of semicolons with a ragged record among the first ten.
const RAGGED: &[(&str, &[u8])] = &[
    ("t.csv", b"a;b;c\n1;2;3\n4;5\n6;7;8\n"),
    ("u.csv", b"a;b;c\n1;2;3\n"),
    ("v.csv", b"a|b\n1|2\n3|4|5\n"),
];
const TABLE: &[(&str, &str)] =
    &[("t.db", "CREATE TABLE t(a, b, c); INSERT INTO t VALUES (1, 2, 3)")];
const LOOKS: &str = "the file looks as if its delimiter were ';': use --delimiter ';'";

/// Delimiters that are not sure enough to be taken.
const DELIMITERS: &[Found] = &[
    Found {
        finding: "16.2: columns that are named and not there",
        files: RAGGED,
        run: "for f in '--pk a' '--select a' '--drop b' '--rename a=x' '--type a=text' '--index a' \
              '--not-null a' '--type a=exact' '--unique a'; do \
              leafpress load n.db t.csv $f 2>&1 | grep -c \"$(printf 'use --delimiter .;.')\"; done; \
              leafpress load n.db t.csv --pk a",
        status: 2,
        says: &[
            "1\n1\n1\n1\n1\n1\n1\n1\n1\n",
            "there is no column 'a'",
            LOOKS,
            "the columns are: a;b;c",
        ],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.2: a table that is there, and one that is declared",
        files: RAGGED,
        databases: TABLE,
        run: "leafpress load t.db t.csv --append; \
              leafpress load n.db t.csv --create 'CREATE TABLE t(a, b, c)'; \
              leafpress load n.db v.csv --table t --create 'CREATE TABLE t(a, b)'",
        status: 2,
        says: &[
            "only in the input: a;b;c",
            LOOKS,
            "Otherwise: choose columns with --select",
            "use --delimiter '|'",
        ],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.2: several inputs, of which one is found",
        files: RAGGED,
        run: "leafpress load n.db t.csv u.csv --table x; leafpress load n.db u.csv t.csv --table x; \
              leafpress load n.db u.csv t.csv --table x --delimiter ';' --on-error skip",
        status: 1,
        says: &["t.csv: the file looks as if its delimiter were ';': use --delimiter ';'"],
        never_says: &["u.csv: the file looks"],
        holds: &[("n.db", "SELECT * FROM x", "1,2,3;1,2,3;6,7,8")],
        ..Found::NONE
    },
    Found {
        finding: "16.2: --columns, and rows of other lengths",
        files: &[("t.csv", b"a;b\n1,5;2\n3;4\n5;6;7\n")],
        run: "leafpress load n.db t.csv --columns a,b; leafpress load n.db t.csv",
        status: 3,
        says: &[
            "the options name 2 columns, but t.csv has 1",
            LOOKS,
            "t.csv:2:1: the row has 2 fields",
        ],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.2: no advice where the delimiter fits",
        files: &[("t.csv", b"a,b;x\n1,2\n3,4\n5,6,7\n")],
        run: "leafpress load n.db t.csv --pk c; leafpress load n.db t.csv",
        status: 3,
        says: &["there is no column 'c'", "t.csv:4:1: the row has 3 fields"],
        never_says: &["--delimiter"],
        ..Found::NONE
    },
    Found {
        finding: "16.2: rejects load as they are, whatever their name",
        files: &[("t.csv", b"id;n\n1;2\n3;x,y\n"), ("t.tsv", b"id\tn\n1\t2\n3\tx;y\n")],
        run: "for f in t.csv t.tsv; do for r in bad.csv bad.tsv; do \
              rm -f n.db bad*; \
              leafpress load n.db $f --table t --type n=integer --on-error skip --rejects $r -q; \
              sed 's/x.y/9/' $r > m.$r; \
              leafpress load n.db m.$r --table t --append --on-error skip -q || exit 9; \
              leafpress load n.db $r --table t --append; \
              done; done",
        status: 3,
        says: &["bad.csv:3:3: column \"n\": 'x,y'", "bad.tsv:2:3: column \"n\": 'x;y'"],
        never_says: &["the columns of", "but the table has"],
        holds: &[("n.db", "SELECT id, n FROM t", "1,2;3,9")],
        ..Found::NONE
    },
    Found {
        finding: "16.2: rejects of --skip-lines and --encoding load by the same command line",
        files: &[("t.csv", b"Report\n\nname;n\nJos\xe9;2\nZo\xeb;x\n")],
        run: "c='--table t --skip-lines 2 --encoding latin1 --type n=integer --append --on-error skip'; \
              leafpress load n.db t.csv $c --rejects bad.csv -q; \
              sed 's/x/9/' bad.csv > m.csv; leafpress load n.db m.csv $c -q; \
              leafpress load n.db m.csv --table t --append -q",
        holds: &[("n.db", "SELECT name, n FROM t", "'José',2;'Zoë',9;'Zoë',9")],
        ..Found::NONE
    },
];

/// Quotes that are never closed.
const QUOTES: &[Found] = &[
    Found {
        finding: "16.3: in the header, whatever the flags",
        files: &[("t.csv", b"id,\"name\n1,a\n2,b\n")],
        databases: TABLE,
        run: "for f in 'n.db --pk id' 't.db --table t --append' 'n.db --on-error skip' \
              'n.db --dry-run' 'n.db --columns a,b' 'n.db --columns a,b --on-error skip'; do \
              leafpress load ${f%% *} t.csv ${f#* } 2>&1 | \
              grep -c 't.csv:1:4: the quote that opens here is never closed, so the header'; done; \
              leafpress load n.db t.csv",
        status: 3,
        says: &["1\n1\n1\n1\n1\n1\n", "to do: close the quote", "--quote none"],
        never_says: &["column1"],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.3: in the header, and closed by the first quote of a row",
        files: &[("t.csv", b"id,\"name\n1,\"x\"\n2,\"y\"\n")],
        run: "leafpress load n.db t.csv; leafpress load n.db t.csv --on-error skip",
        status: 3,
        says: &[
            "t.csv:1:4: the quote that opens here is perhaps never closed",
            "goes on to line 2",
        ],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.3: a name of two lines is one",
        files: &[("t.csv", b"id,\"amount\n(EUR)\"\n1,2\n")],
        run: "leafpress load n.db t.csv",
        holds: &[("n.db", "SELECT \"amount\n(EUR)\" FROM t", "2")],
        ..Found::NONE
    },
    Found {
        finding: "16.3: in a row, to the end of the file",
        files: &[("t.csv", b"id,n\n1,a\n2,\"b\n3,c\n")],
        run: "leafpress load n.db t.csv; leafpress load n.db t.csv --on-error skip",
        status: 1,
        says: &["t.csv:3:3: the quote that opens here is never closed"],
        holds: &[("n.db", "SELECT * FROM t", "1,'a'")],
        ..Found::NONE
    },
    Found {
        finding: "16.3: in a row, up to the next quote",
        files: &[("t.csv", b"id,n\n1,a\n2,\"b\n3,\"c\"\n"), ("u.csv", b"id,n\n1,\"b\n3,\"c\",d\n")],
        run: "leafpress load n.db t.csv; leafpress load n.db u.csv",
        status: 3,
        says: &[
            "Perhaps the quote that opens at line 3, column 3 is never closed",
            "u.csv:2:1: the row has 3 fields, but the table has 2 columns; perhaps the quote that opens at \
             line 2, column 3 is never closed",
        ],
        ..Found::NONE
    },
];

/// Comments above the header.
const COMMENTS: &[Found] = &[
    Found {
        finding: "16.4: where rows are ragged",
        files: &[("t.csv", b"# c1\n# c2\n\nid,name\n1,a\n2,b,c\n")],
        run: "leafpress load n.db t.csv; leafpress load n.db t.csv --comment '#' --on-error skip",
        status: 1,
        says: &["leave them out with --comment '#' (or with --skip-lines 3)"],
        holds: &[("n.db", "SELECT * FROM t", "1,'a'")],
        ..Found::NONE
    },
    Found {
        finding: "16.4: where the header is one column, and no row is ragged",
        files: &[("t.csv", b"# c1\nid;name\n1;a\n2;b;c\n"), ("u.csv", b"%c\nid\n1\n")],
        run: "leafpress load n.db t.csv; leafpress load n.db u.csv; leafpress load m.db t.csv --pk id; \
              leafpress load n.db u.csv --skip-lines 1 --replace --table v",
        says: &[
            "note: t.csv: the name of its first column is '# c1'; if lines that begin with '#' are",
            "--comment '#' (or with --skip-lines 1)",
            "--comment '%' (or with --skip-lines 1)",
            "error: there is no column 'id'",
        ],
        holds: &[("n.db", "SELECT id FROM v", "1")],
        leaves_no: &["m.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.4: a table that is there, and a comment with commas",
        files: &[("t.csv", b"# a, b\na,b,c\n1,2,3\n"), ("u.csv", b"# a, b\na,b\n1,2\n")],
        databases: TABLE,
        run: "leafpress load n.db u.csv; leafpress load t.db t.csv --append",
        status: 2,
        says: &["note: u.csv: the name of its first column is '# a'"],
        ..Found::NONE
    },
    Found {
        finding: "16.4: a header that begins with # is one",
        files: &[("t.tsv", b"#chrom\tstart\nchr1\t1\nchr2\t2\t3\n")],
        run: "leafpress load n.db t.tsv --on-error skip",
        status: 1,
        never_says: &["--comment"],
        holds: &[("n.db", "SELECT \"#chrom\", start FROM t", "'chr1',1")],
        ..Found::NONE
    },
];

/// Inputs without a row, for each way in.
const EMPTY: &[(&str, &[u8])] = &[
    ("zero.csv", b""),
    ("blank.csv", b"\n\r\n"),
    ("header.csv", b"a,b,c\n"),
    ("rows.csv", b"a,b,c\n1,2,3\n"),
];
const NOTHING: &[Found] = &[
    Found {
        finding: "16.5: an empty file is no rows for a table",
        files: EMPTY,
        databases: TABLE,
        run: "for f in zero blank; do \
              leafpress load t.db $f.csv --table t --append; \
              leafpress load t.db $f.csv --table t --append --on-error skip --rejects r.csv; \
              leafpress load t.db rows.csv $f.csv --table t --append; done",
        status: 3,
        says: &[
            "zero.csv: the input is empty: there is not even a header",
            "blank.csv: all lines are blank: there is not even a header",
            "if there is nothing to add, do not load this input",
            "leave this input out; or if there is nothing to add",
        ],
        never_says: &["to make an empty table"],
        holds: &[("t.db", "SELECT count(*) FROM t", "1")],
        leaves_no: &["r.csv", "r.csv.log"],
        ..Found::NONE
    },
    Found {
        finding: "16.5: an empty file does not empty a table",
        files: EMPTY,
        databases: TABLE,
        run: "leafpress load t.db zero.csv --table t --replace; \
              leafpress load t.db blank.csv --table t --replace --dry-run",
        status: 3,
        says: &[
            "on disk: nothing was written to t.db: the table keeps its rows",
            "to remove all rows of the table, load a file that has its header alone",
        ],
        holds: &[("t.db", "SELECT count(*) FROM t", "1")],
        ..Found::NONE
    },
    Found {
        finding: "16.5: a header alone does, and a note says so",
        files: EMPTY,
        databases: TABLE,
        run: "leafpress load t.db header.csv --table t --append && \
              leafpress load t.db header.csv --table t --replace",
        says: &["note: header.csv: it has a header and no row", "empty"],
        holds: &[("t.db", "SELECT count(*) FROM t", "0")],
        ..Found::NONE
    },
    Found {
        finding: "16.5: --columns empties a table, as it says what the rows would be",
        files: EMPTY,
        databases: TABLE,
        run: "leafpress load t.db zero.csv --table t --replace --columns a,b,c",
        holds: &[("t.db", "SELECT count(*) FROM t", "0")],
        ..Found::NONE
    },
    Found {
        finding: "16.5: new tables",
        files: EMPTY,
        run: "leafpress load n.db zero.csv --create 'CREATE TABLE t(a, b, c)'; \
              leafpress load n.db header.csv zero.csv --table t; \
              leafpress load n.db blank.csv --comment '#'; \
              leafpress load n.db zero.csv --no-header; \
              leafpress load h.db header.csv --create 'CREATE TABLE t(a, b, c)' && \
              leafpress load c.db zero.csv --create 'CREATE TABLE t(a, b, c)' --columns a,b,c && \
              leafpress load s.db header.csv rows.csv header.csv --table t",
        says: &[
            "name the columns with --columns to make an empty table",
            "leave this input out; or name the columns",
            "blank.csv: all lines are blank or comments",
            "the input is empty, so its columns are not known",
        ],
        holds: &[
            ("h.db", "SELECT count(*) FROM t", "0"),
            ("c.db", "SELECT count(*) FROM t", "0"),
            ("s.db", "SELECT count(*) FROM t", "1"),
        ],
        leaves_no: &["n.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.5: a header of numbers is one where the table has such columns",
        files: &[("t.csv", b"2020,2021\n")],
        databases: &[("t.db", "CREATE TABLE t(\"2020\", \"2021\")")],
        run: "leafpress load t.db t.csv --append",
        says: &["it has a header and no row"],
        ..Found::NONE
    },
];

/// Columns that a table computes itself.
const GENERATED: &[Found] = &[
    Found {
        finding: "16.6: a table that is there",
        files: &[("t.csv", b"a,b,Total\n1,2,3\n"), ("t.json", b"{\"a\":1,\"b\":2,\"total\":3}\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(a INT, b INT, total GENERATED ALWAYS AS (a + b) STORED)",
        )],
        run: "for i in csv json; do leafpress load t.db t.$i --append; done; \
              leafpress load t.db t.csv --append --drop total",
        says: &[
            "the columns of t.csv are not those of table 't'; generated by the table: Total",
            "the columns of t.json are not those of table 't'; generated by the table: total",
            "leave them out with --drop total",
        ],
        never_says: &["only in the input"],
        holds: &[("t.db", "SELECT * FROM t", "1,2,3")],
        ..Found::NONE
    },
    Found {
        finding: "16.6: a table that is declared, and a column that it lacks",
        files: &[("t.csv", b"a,b,total,x\n1,2,3,4\n")],
        run: "leafpress load t.db t.csv --create 'CREATE TABLE t(a, b, total AS (a + b))'",
        status: 2,
        says: &["only in the input: x; generated by the table: total", "--drop total"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
];

/// Bytes that mean two things.
const CLASHES: &[Found] = &[
    Found {
        finding: "16.7: the line sep= and other flags",
        files: &[("t.csv", b"sep=#\na#b\n1#2\n")],
        run: "for f in comment quote escape; do leafpress load t.db t.csv --$f '#'; done; \
              leafpress load t.db t.csv --comment '#' --delimiter ';'",
        status: 0,
        says: &[
            "t.csv: '#' separates the fields (its line 'sep=#' says so), and is the comment byte, too",
            "and is the quote byte, too",
            "and is the escape byte, too",
            "on disk: nothing was written to t.db",
            "to do: name another byte with --comment, or with --delimiter the one that separates",
        ],
        ..Found::NONE
    },
    Found {
        finding: "16.7: a name that says tabs, and the default",
        files: &[("t.tsv", b"a\tb\n1\t2\n"), ("t.csv", b"a\n1\n"), ("u.csv", b"a;b\n1;2\n")],
        run: "leafpress load t.db t.tsv --comment \"$(printf '\\t')\"; \
              leafpress load t.db t.csv --quote ,; leafpress load u.db u.csv --quote ,",
        status: 0,
        says: &[
            "t.tsv: '\\t' separates the fields (its name says so), and is the comment byte, too",
            "t.csv: ',' separates the fields (the default says so), and is the quote byte, too",
        ],
        holds: &[("u.db", "SELECT * FROM u", "1,2")],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.7: flags that name one byte twice",
        files: &[("t.csv", b"a\n1\n")],
        run: "leafpress load t.db t.csv --delimiter '\"'; \
              leafpress load t.db t.csv --delimiter ';' --comment ';'; \
              leafpress load t.db t.csv --escape '\\' --comment '\\'",
        status: 2,
        says: &[
            "--delimiter and --quote are the same byte, '\"' (the default of --quote)",
            "--delimiter and --comment are the same byte, ';'",
            "--escape and --comment are the same byte, '\\'",
            "name another one for one of them; nothing was read or written",
        ],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
];

/// Empty keys of tables that are declared, or there.
const KEYS: &[Found] = &[
    Found {
        finding: "16.9: an empty INTEGER PRIMARY KEY of a declared table is a bad row",
        files: &[("t.csv", b"id,n\n,2\n9,1\n,4\n"), ("t.json", b"{\"n\":1}\n{\"id\":7,\"n\":2}\n")],
        run: "leafpress load t.db t.csv --create 'CREATE TABLE t(id INTEGER PRIMARY KEY, n INT)' \
              --on-error skip; \
              leafpress load u.db t.csv --create 'CREATE TABLE t(id INTEGER PRIMARY KEY, n INT)' \
              --drop id; \
              leafpress load j.db t.json --create 'CREATE TABLE t(id INTEGER PRIMARY KEY, n INT)'",
        status: 3,
        says: &[
            "t.csv:2:1: column \"id\": the primary key is empty",
            "t.csv:4:1: column \"id\": the primary key is empty",
            "t.json:1:1: column \"id\": the primary key is empty",
        ],
        holds: &[
            ("t.db", "SELECT id, n FROM t", "9,1"),
            ("u.db", "SELECT id, n FROM t", "1,2;2,1;3,4"),
        ],
        leaves_no: &["j.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.9: NULL in other keys is SQLite's to refuse, and it does so rarely",
        files: &[("t.csv", b"id,n\n,2\n9,1\n,4\n")],
        run: "leafpress load t.db t.csv --create 'CREATE TABLE t(id INT PRIMARY KEY, n INT)'; \
              leafpress load u.db t.csv --create 'CREATE TABLE t(id INT PRIMARY KEY, n INT) WITHOUT ROWID'; \
              leafpress load v.db t.csv --create 'CREATE TABLE t(id TEXT PRIMARY KEY, n)'",
        status: 3,
        says: &[
            "t.csv:2:1: the column \"id\" is NOT NULL, and the field is empty",
            "t.csv:4:1: column \"id\": line 2 has its unique value already",
        ],
        holds: &[("t.db", "SELECT id, n FROM t", "NULL,2;9,1;NULL,4")],
        leaves_no: &["u.db", "v.db"],
        ..Found::NONE
    },
    Found {
        finding: "16.9: an empty INTEGER PRIMARY KEY of a table that is there gets a number",
        files: &[("t.csv", b"id,n\n,2\n")],
        databases: &[(
            "t.db",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, n INT); INSERT INTO t VALUES (5, 1)",
        )],
        run: "leafpress load t.db t.csv --append",
        holds: &[("t.db", "SELECT id, n FROM t", "5,1;6,2")],
        ..Found::NONE
    },
];

const MANY_COLUMNS: &[Found] = &[
    Found {
        finding: "more than 2,000 columns, of which some are chosen",
        run: "seq -s, 2001 | sed 's/[0-9]*/c&/g' >w.csv; seq -s, 2001 >>w.csv; \
              leafpress load w.db w.csv --select c2001,c7 && \
              leafpress load d.db w.csv --drop c1",
        holds: &[
            ("w.db", "SELECT c2001, c7 FROM w", "2001,7"),
            ("d.db", "SELECT count(*), min(c2), max(c2001) FROM w", "1,2,2001"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "more than 2,000 columns that are chosen",
        run: "seq -s, 2003 | sed 's/[0-9]*/c&/g' >w.csv; seq -s, 2003 >>w.csv; \
              leafpress load w.db w.csv --drop c1,c2",
        status: 3,
        says: &["it has 2001 columns, and a table of SQLite at most 2000"],
        leaves_no: &["w.db"],
        ..Found::NONE
    },
];

const ROWS_AS_HEADERS: &[Found] = &[
    Found {
        finding: "a first row of numbers and dates in place of a header",
        files: &[("h.csv", b"1,2026-01-31,\n3,2026-02-01,x\n")],
        run: "leafpress load h.db h.csv",
        says: &[
            "note: h.csv: its first record is taken as the header",
            "a number or a date, such as '1': if it is a row, load with --no-header",
        ],
        ..Found::NONE
    },
    Found {
        finding: "a first row in place of a header, with a number above numbers",
        files: &[
            ("h.csv", b"1,Goroka,2.5\n2,Madang,3.5\n"),
            ("d.csv", b"Goroka,2026-01-31\nMadang,2026-02-01\n"),
        ],
        run: "leafpress load h.db h.csv; leafpress load h.db d.csv",
        says: &[
            "h.csv: its first record is taken as the header, and its name '1' is a number, as are \
             the values below: if it is a row, load with --no-header",
            "d.csv: its first record is taken as the header, and its name '2026-01-31' is a date",
        ],
        ..Found::NONE
    },
    Found {
        finding: "names that are years or days above other numbers, or that count",
        files: &[
            ("y.csv", b"name,2019,2020\nAda,5,2020\n"),
            ("d.csv", b"name,2020-01-22\nAda,5\n"),
            ("c.csv", b"id,1,2,3\na,5,6,7\n"),
        ],
        run: "for f in y d c; do leafpress load h.db $f.csv; done",
        never_says: &["--no-header"],
        ..Found::NONE
    },
    Found {
        finding: "a header with one name",
        files: &[("h.csv", b"id,2024,2025\n1,2,3\n")],
        run: "leafpress load h.db h.csv",
        never_says: &["--no-header"],
        ..Found::NONE
    },
    Found {
        finding: "a header of numbers that are the columns of the table",
        databases: &[("h.db", "CREATE TABLE h(\"2024\", \"2025\")")],
        files: &[("h.csv", b"2024,2025\n2,3\n")],
        run: "leafpress load h.db h.csv --append",
        never_says: &["--no-header"],
        ..Found::NONE
    },
];

#[test]
fn more_columns_than_a_table_may_have() {
    assert_all(MANY_COLUMNS);
}

#[test]
fn rows_that_are_taken_as_headers() {
    assert_all(ROWS_AS_HEADERS);
}

#[test]
fn lines_are_those_of_an_editor() {
    assert_all(LINES);
}

#[test]
fn likely_delimiters_are_advised() {
    assert_all(DELIMITERS);
}

#[test]
fn open_quotes_are_named() {
    assert_all(QUOTES);
}

#[test]
fn comments_are_advised() {
    assert_all(COMMENTS);
}

#[test]
fn inputs_without_rows_are_told_by_what_they_are_for() {
    assert_all(NOTHING);
}

#[test]
fn generated_columns_are_named() {
    assert_all(GENERATED);
}

#[test]
fn bytes_with_two_meanings_are_refused() {
    assert_all(CLASHES);
}

#[test]
fn empty_keys_are_as_documented() {
    assert_all(KEYS);
}
