//! Which columns become numbers, and what the report says of it.

use super::{Found, assert_all};

const CASES: &[Found] = &[
    Found {
        finding: "numbers: prices, and a measurement with an exponent",
        files: &[("t.csv", b"price,measured\n1.5,0.25\n2.50,1e-05\n3,.5\n")],
        run: "leafpress load t.db t.csv",
        says: &[
            "numbers keep their value and not their form in price (1 value, such as '2.50' in \
             line 3, now 2.5)",
            "measured (2 values, such as '1e-05' in line 3, now 1.0e-05)",
        ],
        holds: &[
            ("t.db", "SELECT price FROM t WHERE price > 2", "2.5;3.0"),
            ("t.db", "SELECT measured FROM t", "0.25;1e-5;0.5"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "numbers: in --json",
        files: &[("t.csv", b"price\n1.5\n2.50\n3.00\n")],
        run: "leafpress load t.db t.csv --json; leafpress load u.db t.csv --dry-run --json",
        says: &[r#""changed_form":{"values":2,"line":3,"value":"2.50","becomes":"2.5"}"#],
        ..Found::NONE
    },
    Found {
        finding: "numbers: a dry run says the same",
        files: &[("t.csv", b"price\n1.5\n2.50\n")],
        run: "leafpress load t.db t.csv --dry-run",
        says: &["\"price\" REAL", "(1 value, such as '2.50' in line 3, now 2.5)"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "numbers: codes stay texts",
        files: &[(
            "t.csv",
            b"a,b,c,d,e,f,g\n007,+5,0x1F,NaN,1_000,12345678901234567890,10.357019999999998\n\
              1,1,1,1,1,1,1\n",
        )],
        run: "leafpress load t.db t.csv",
        holds: &[(
            "t.db",
            "SELECT * FROM t",
            "'007','+5','0x1F','NaN','1_000','12345678901234567890','10.357019999999998';\
             '1','1','1','1','1','1','1'",
        )],
        ..Found::NONE
    },
    Found {
        finding: "numbers: whole numbers, one of them in two ways",
        files: &[("t.csv", b"a,b,c\n1000,39,99999\n1e3,39.0,1e+05\n7,8,123456\n")],
        run: "leafpress load t.db t.csv",
        says: &["line 3: '1e3' stands there as a plain integer too"],
        holds: &[(
            "t.db",
            "SELECT * FROM t",
            "'1000','39',99999.0;'1e3','39.0',100000.0;'7','8',123456.0",
        )],
        ..Found::NONE
    },
    Found {
        finding: "numbers: --exact",
        files: &[("t.csv", b"price,fixed\n1.5,1.50\n2.50,2.50\n")],
        run: "leafpress load t.db t.csv --exact",
        says: &["line 3: '2.50' has another form than the numbers"],
        never_says: &["not their form"],
        holds: &[("t.db", "SELECT * FROM t", "'1.5',1.5;'2.50',2.5")],
        ..Found::NONE
    },
    Found {
        finding: "numbers: --type price=exact",
        files: &[("t.csv", b"price,other\n1.5,1.5\n2.50,2.50\n")],
        run: "leafpress load t.db t.csv --type price=exact",
        holds: &[("t.db", "SELECT * FROM t", "'1.5',1.5;'2.50',2.5")],
        ..Found::NONE
    },
    Found {
        finding: "numbers: exact is about texts",
        files: &[("t.json", b"{\"a\":1.50}\n")],
        run: "leafpress load t.db t.json --type a=exact",
        status: 2,
        says: &["only CSV has texts that a number may not give back"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "numbers: the flag beside a file that is no CSV",
        files: &[("t.json", b"{\"a\":1.50}\n")],
        run: "leafpress load t.db t.json --exact",
        status: 2,
        says: &["--exact is for CSV"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "numbers: numbers of JSON have a value and no form",
        files: &[("t.json", b"{\"a\":2.50,\"b\":1e5}\n{\"a\":3,\"b\":7}\n")],
        run: "leafpress load t.db t.json",
        holds: &[("t.db", "SELECT a, b FROM t", "2.5,100000.0;3.0,7.0")],
        ..Found::NONE
    },
    Found {
        finding: "numbers: words of truth stay texts",
        files: &[("t.csv", b"flag\nTRUE\nFALSE\n")],
        run: "leafpress load t.db t.csv",
        holds: &[("t.db", "SELECT flag FROM t", "'TRUE';'FALSE'")],
        ..Found::NONE
    },
    Found {
        finding: "numbers: --type flag=boolean",
        files: &[("t.csv", b"flag\nTRUE\nno\n\"\"\n1\n")],
        run: "leafpress load t.db t.csv --type flag=boolean",
        holds: &[("t.db", "SELECT flag FROM t", "1;0;NULL;1")],
        ..Found::NONE
    },
    Found {
        finding: "numbers: what is no boolean is a bad row",
        files: &[("t.csv", b"flag\ntrue\nperhaps\n")],
        run: "leafpress load t.db t.csv --type flag=boolean",
        status: 3,
        says: &["t.csv:3:1:", "'perhaps' is not a boolean"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "numbers: a boolean of JSON, and in a table declared by hand",
        files: &[("t.json", b"{\"flag\":true}\n{\"flag\":\"no\"}\n")],
        run: "leafpress load t.db t.json --create 'CREATE TABLE t (flag BOOLEAN)' \
              --type flag=boolean",
        holds: &[("t.db", "SELECT flag FROM t", "1;0")],
        ..Found::NONE
    },
    Found {
        finding: "B28: the value that decided, and its line",
        files: &[("t.csv", b"a\n9007199254740993\n12345678901234567890\n")],
        run: "leafpress load t.db t.csv --dry-run",
        says: &["line 3: '12345678901234567890' is an integer beyond 64 bits, and \
             '9007199254740993' in line 2 has more digits than REAL keeps"],
        ..Found::NONE
    },
    Found {
        finding: "B28: a sentence where no form fits",
        files: &[("t.csv", b"a\n1.5\n2.50\n")],
        run: "leafpress load t.db t.csv --dry-run --exact",
        says: &[
            "line 3: '2.50' has another form than the numbers before it: their texts could not \
             be had back from REAL",
        ],
        never_says: &["no form of REAL"],
        ..Found::NONE
    },
    Found {
        finding: "B28: no line of another file",
        files: &[("a.csv", b"v\n9007199254740993\n"), ("b.csv", b"v\n1.5\n")],
        run: "leafpress load t.db a.csv b.csv --table t --json",
        says: &[
            r#""file":"b.csv","line":2,"value":"1.5","reason":"is not a whole number, and "#,
            "'9007199254740993' of an earlier input has more digits than REAL keeps",
        ],
        ..Found::NONE
    },
    Found {
        finding: "B28: the file, where there are several",
        files: &[("a.csv", b"v\n1\n"), ("b.csv", b"v\n2\nx\n")],
        run: "leafpress load t.db a.csv b.csv --table t --json",
        says: &[r#""decided_by":{"file":"b.csv","line":3,"value":"x""#],
        ..Found::NONE
    },
];

#[test]
fn they_are_fixed() {
    assert_all(CASES);
}
