//! Databases and tables that are there, and such as appear while a load runs.

use super::{Found, assert_all};

const GIVEN_REAL: &[Found] = &[
    Found {
        finding: "--type real, for a column without a type",
        databases: &[("r.db", "CREATE TABLE r(x, y BLOB)")],
        files: &[("r.csv", b"x,y\n1,7\n2.5,\"8\"\n,1e2\n"), ("r.json", b"{\"x\": 3, \"y\": 4.0}")],
        run: "leafpress load r.db r.csv --append --type x=real --type y=real && \
              leafpress load r.db r.json --append --type x=real --type y=real",
        holds: &[(
            "r.db",
            "SELECT typeof(x), x, y FROM r",
            "'real',1.0,7.0;'real',2.5,8.0;'null',NULL,100.0;'real',3.0,4.0",
        )],
        ..Found::NONE
    },
    Found {
        finding: "--type real, for a column without a type in --create",
        files: &[("r.csv", b"x\n1\n2\n")],
        run: "leafpress load r.db r.csv --create 'CREATE TABLE r(x)' --type x=real --index x",
        holds: &[("r.db", "SELECT x FROM r ORDER BY x", "1.0;2.0")],
        ..Found::NONE
    },
    Found {
        finding: "--type real, a value that is none",
        databases: &[("r.db", "CREATE TABLE r(x)")],
        files: &[("r.csv", b"x\n1\ntwo\n")],
        run: "leafpress load r.db r.csv --append --type x=real",
        status: 3,
        says: &["r.csv:3:1", "'two' is not a REAL"],
        ..Found::NONE
    },
];

#[test]
fn reals_in_columns_of_any_type() {
    assert_all(GIVEN_REAL);
}
