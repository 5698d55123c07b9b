//! `--select`, `--rename`, `--drop`, `--type`, `--all-text`, `--not-null`,
//! `--trim`, `--null`, `--empty-null`, `--strict`.

use std::fs;

use super::{declared, files_in, folder_with, load, refused, rows};

const VISITS: &str = "page,at,zip,ms\n/,2026-01-31T23:59:59+01:00,00501,12\n/a,2026-02-01,,7\n";

#[test]
fn columns_are_chosen_ordered_and_renamed() {
    let folder = folder_with(&[("v.csv", VISITS)]);
    load(&folder, "a.db v.csv --select zip,page --rename zip=code --select ms").expect_status(2);
    load(&folder, "a.db v.csv --select code,page --rename zip=code --select ms").expect_status(0);
    assert_eq!(
        rows(&folder, "a.db", "SELECT code, page, ms FROM v"),
        ["'00501'|'/'|12", "''|'/a'|7"]
    );
    assert_eq!(
        declared(&folder, "a.db", "v"),
        "CREATE TABLE \"v\" ( \"code\" TEXT, \"page\" TEXT, \"ms\" INTEGER )"
    );

    load(&folder, "b.db v.csv --drop AT,ms --drop zip").expect_status(0);
    assert_eq!(rows(&folder, "b.db", "SELECT * FROM v"), ["'/'", "'/a'"]);
    refused(&folder, "c.db v.csv --drop nope", 2, "there is no column 'nope'");
    refused(&folder, "c.db v.csv --select page --drop at", 2, "cannot be used with");
    refused(&folder, "c.db v.csv --rename zip=page", 2, "two columns would be called 'page'");
    refused(&folder, "c.db v.csv --drop page,at,zip,ms", 2, "no column is left");
    assert!(!folder.path().join("c.db").exists());
}

#[test]
fn a_name_with_commas_stands_in_quotes() {
    let folder = folder_with(&[("a.csv", "\"x,y\",z\n1,2\n")]);
    load(&folder, "a.db a.csv --select \"x,y\"").expect_status(0);
    assert_eq!(rows(&folder, "a.db", "SELECT \"x,y\" FROM a"), ["1"]);
}

#[test]
fn dates_become_what_is_asked_for() {
    let folder = folder_with(&[("v.csv", VISITS)]);
    let cases = [
        ("unixepoch", ["1769900399", "1769904000"]),
        ("unixepoch-ms", ["1769900399000", "1769904000000"]),
        ("date", ["'2026-01-31'", "'2026-02-01'"]),
        ("datetime", ["'2026-01-31 22:59:59'", "'2026-02-01 00:00:00'"]),
        ("text", ["'2026-01-31T23:59:59+01:00'", "'2026-02-01'"]),
    ];
    for (index, (form, expected)) in cases.iter().enumerate() {
        load(&folder, &format!("{index}.db v.csv --type at={form}")).expect_status(0);
        assert_eq!(rows(&folder, &format!("{index}.db"), "SELECT at FROM v"), *expected, "{form}");
    }
    refused(&folder, "x.db v.csv --type page=date", 3, "column \"page\"");
    assert!(!folder.path().join("x.db").exists());
}

#[test]
fn types_are_given_or_all_text() {
    let folder = folder_with(&[("v.csv", VISITS)]);
    load(&folder, "a.db v.csv --all-text --type ms=real --pk page").expect_status(0);
    let types = "SELECT typeof(page), typeof(zip), typeof(ms) FROM v LIMIT 1";
    assert_eq!(rows(&folder, "a.db", types), ["'text'|'text'|'real'"]);

    let outcome = load(&folder, "b.db v.csv --type zip=integer --type zip=INTEGER --strict");
    outcome.expect_status(0);
    assert_eq!(rows(&folder, "b.db", "SELECT zip FROM v"), ["501", "NULL"]);
    assert!(declared(&folder, "b.db", "v").ends_with("STRICT"));
    refused(&folder, "c.db v.csv --type nope=text", 2, "'nope'");
}

#[test]
fn not_null_makes_bad_rows() {
    let folder = folder_with(&[("v.csv", VISITS)]);
    let words = "a.db v.csv --empty-null --not-null zip,page";
    let outcome = load(&folder, words).expect_status(3);
    assert!(outcome.stderr.contains("v.csv:3:"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\"zip\""), "{}", outcome.stderr);
    let report = load(&folder, &format!("{words} --on-error skip --json")).expect_status(1).json();
    assert_eq!((&report["rows_loaded"], &report["rows_rejected"]), (&1.into(), &1.into()));
    assert!(declared(&folder, "a.db", "v").contains("\"zip\" TEXT NOT NULL"));
    refused(&folder, "b.db v.csv --not-null nope", 2, "'nope'");
}

#[test]
fn blanks_around_fields_are_trimmed_if_asked() {
    let folder = folder_with(&[("a.csv", "n,t\n 1 ,  x\n\t2,NA \n")]);
    load(&folder, "a.db a.csv").expect_status(0);
    assert_eq!(rows(&folder, "a.db", "SELECT * FROM a"), ["' 1 '|'  x'", "'\t2'|'NA '"]);
    load(&folder, "b.db a.csv --trim --null NA").expect_status(0);
    assert_eq!(rows(&folder, "b.db", "SELECT * FROM a"), ["1|'x'", "2|NULL"]);
}

#[test]
fn a_refusal_makes_nothing() {
    let folder = folder_with(&[("v.csv", VISITS)]);
    fs::write(folder.path().join("w.csv"), "page,at\n/,1\n").unwrap();
    refused(&folder, "a.db v.csv w.csv", 2, "only in v.csv: zip, ms");
    refused(&folder, "a.db v.csv none.csv", 3, "none.csv");
    refused(&folder, "a.db v*.csv --pk nope", 2, "there is no column 'nope'");
    assert_eq!(files_in(folder.path()), 2);
}
