//! Names, folders and files that cannot be meant.

use super::keys::{KEYED, NO_TABLE};
use super::{Found, assert_all};

/// Names that no table, column, file or folder can have, or that name none.
const B27_TO_B38: &[Found] = &[
    Found {
        finding: "B27",
        files: &[("t.csv", b"k\n1\n")],
        run: "leafpress load t.db t.csv --table ''",
        status: 2,
        says: &["a table needs a name"],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B27 in SQL",
        files: &[("t.csv", b"k\n1\n")],
        run: "leafpress load t.db t.csv --create 'create table \"\"(k)'",
        status: 2,
        says: &["a table needs a name"],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B27 of an index",
        databases: KEYED,
        run: "leafpress index t.db t n --name ''",
        status: 2,
        says: &["an index needs a name"],
        ..Found::NONE
    },
    Found {
        finding: "B31 with bad rows only",
        files: &[("t.csv", b"id,n\nx,1\n")],
        databases: KEYED,
        run: "leafpress load t.db t.csv --replace --on-error skip",
        status: 3,
        says: &["no row is left to replace those of t: its only row is bad at t.csv:2:1: "],
        holds: &[("t.db", "SELECT * FROM t", "1,1")],
        ..Found::NONE
    },
    Found {
        finding: "a path that SQLite cannot open",
        files: &[("t.csv", b"k\n1\n")],
        run: "d=$(printf '%0250d/%0250d' 0 0); mkdir -p $d; \
              leafpress load $d/t.db t.csv && exit 9; \
              leafpress queue push $d/t.db jobs x && exit 9; ls -A $d; exit 2",
        status: 2,
        says: &["the path is too long: it has", "and SQLite opens none of over 504"],
        never_says: &["\nt.db\n"],
        ..Found::NONE
    },
    Found {
        finding: "B37",
        files: &[("t.csv", b"k\n1\n")],
        run: "leafpress load t.db t.csv --tmpdir nodir",
        status: 2,
        says: &["the folder for temporary files is not there: nodir"],
        leaves_no: NO_TABLE,
        ..Found::NONE
    },
    Found {
        finding: "B37 of an index",
        databases: KEYED,
        run: "leafpress index t.db t n --tmpdir nodir",
        status: 2,
        says: &["the folder for temporary files is not there: nodir"],
        ..Found::NONE
    },
    Found {
        finding: "B38",
        files: &[("t.csv", b"k\n1\n")],
        run: "leafpress load t.db t.csv --on-error skip --rejects -",
        status: 2,
        says: &["--rejects - names no file"],
        leaves_no: &["t.db", "-", "-.log"],
        ..Found::NONE
    },
];

#[test]
fn names_folders_and_files_that_cannot_be_meant() {
    assert_all(B27_TO_B38);
}
