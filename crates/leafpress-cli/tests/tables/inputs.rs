//! Several inputs, patterns, `--format`, and formats that tell themselves.

use std::fs;

use super::{folder_with, load, load_with, refused, rows};

#[test]
fn several_files_go_into_one_table_by_the_names_of_their_columns() {
    let folder = folder_with(&[
        ("b.csv", "id,name\n1,one\n"),
        ("c.csv", "NAME,id\ntwo,2\n"),
        ("a.csv", "id,name\nx,three\n"),
    ]);
    let report = load(&folder, "a.db b.csv c.csv --json").expect_status(0).json();
    assert_eq!((&report["table"], &report["rows_loaded"]), (&"b".into(), &2.into()));
    assert_eq!(rows(&folder, "a.db", "SELECT * FROM b"), ["1|'one'", "2|'two'"]);

    load(&folder, "b.db ?.csv --table all_of_them").expect_status(0);
    let sql = "SELECT * FROM all_of_them";
    assert_eq!(rows(&folder, "b.db", sql), ["'x'|'three'", "'1'|'one'", "'2'|'two'"]);
    refused(&folder, "c.db [x-z].csv", 2, "no file fits [x-z].csv");
    refused(&folder, "c.db b.csv *.json", 2, "no file fits *.json");
}

#[test]
fn json_is_read_in_lines_and_in_arrays() {
    let lines = "{\"a\":1,\"b\":[1, 2]}\n{\"a\":null,\"c\":true}\n";
    let array = "[{\"a\": 1, \"b\": [1, 2]},\n {\"a\": null, \"c\": true}]";
    let folder = folder_with(&[("l.ndjson", lines), ("a.json", array), ("odd.csv", lines)]);
    for (database, words) in [
        ("l.db", "l.ndjson"),
        ("a.db", "a.json"),
        ("o.db", "odd.csv"),
        ("f.db", "odd.csv --format jsonl"),
    ] {
        load(&folder, &format!("{database} {words} --table t")).expect_status(0);
        assert_eq!(
            rows(&folder, database, "SELECT a, b, c FROM t"),
            ["1|'[1,2]'|NULL", "NULL|NULL|1"],
            "{words}"
        );
    }
    load(&folder, "c.db odd.csv --format csv --quote none").expect_status(3);
    refused(&folder, "c.db l.ndjson a.json --delimiter ;", 2, "--delimiter is for CSV");
}

#[test]
fn keys_that_only_some_json_files_have_are_null_in_the_others() {
    let folder = folder_with(&[
        ("1.json", "{\"a\":1}"),
        ("2.json", "{\"b\":2}"),
        ("3.json", "{\"c\":3,\"A\":4}"),
    ]);
    load(&folder, "a.db 1.json 2.json 3.json --table t").expect_status(0);
    let expected = ["1|NULL|NULL", "NULL|2|NULL", "4|NULL|3"];
    assert_eq!(rows(&folder, "a.db", "SELECT a, b, c FROM t"), expected);
}

#[test]
fn json_without_a_row_tells_no_columns() {
    let folder = folder_with(&[("0.json", ""), ("1.json", "[]"), ("2.json", "{\"a\":1}")]);
    refused(&folder, "a.db 0.json 1.json --table t", 3, "its columns are not known");
    load(&folder, "a.db 0.json 1.json 2.json --table t").expect_status(0);
    assert_eq!(rows(&folder, "a.db", "SELECT a FROM t"), ["1"]);
    load(&folder, "b.db 1.json --create CREATE/**/TABLE/**/t(a)").expect_status(0);
    assert_eq!(rows(&folder, "b.db", "SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn a_table_of_another_database_is_an_input() {
    let folder = folder_with(&[("p.csv", "id,zip\n2,00501\n1,10001\n")]);
    load(&folder, "old.db p.csv").expect_status(0);
    let report = load(&folder, "new.db old.db::p --pk id --json").expect_status(0).json();
    assert_eq!((&report["table"], &report["rows_loaded"]), (&"p".into(), &2.into()));
    assert_eq!(rows(&folder, "new.db", "SELECT * FROM p"), ["1|'10001'", "2|'00501'"]);
    load(&folder, "old.db new.db::p --table p2 --index zip").expect_status(0);
    assert_eq!(rows(&folder, "old.db", "SELECT zip FROM p2 ORDER BY id"), ["'10001'", "'00501'"]);
    refused(&folder, "x.db old.db::none", 2, "there are: p, p2");
    refused(&folder, "x.db p.csv old.db::p", 2, "load those of each kind by themselves");
}

#[test]
fn tabs_are_said_in_three_ways() {
    let folder = folder_with(&[("t.txt", "a\tb\n1\tx\n"), ("t.tsv", "a\tb\n1\tx\n")]);
    for (index, words) in
        ["t.txt --tsv", "t.txt --format tsv", "t.txt --delimiter tab", "t.tsv"].iter().enumerate()
    {
        load(&folder, &format!("{index}.db {words}")).expect_status(0);
        assert_eq!(rows(&folder, &format!("{index}.db"), "SELECT b FROM t"), ["'x'"], "{words}");
    }
    refused(&folder, "x.db t.txt --format tsv --delimiter ;", 2, "contradict");
    refused(&folder, "x.db t.txt --format tsv --tsv", 2, "cannot be used with");
}

#[test]
fn the_dry_run_of_many_flags_shows_all_of_the_schema() {
    let folder = folder_with(&[("p.csv", "id,name\n2,b\n1,a\nx,c\n")]);
    let words = "a.db p.csv --dry-run --type id=integer --pk id --on-error skip --index";
    let text = load_with(&folder, words, "name NOCASE").expect_status(1).stdout;
    for expected in ["INTEGER PRIMARY KEY", "CREATE INDEX", "COLLATE NOCASE", "p.csv:4:1", "path"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!folder.path().join("a.db").exists());
    fs::remove_file(folder.path().join("p.csv")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
#[cfg(unix)]
fn standard_input_is_loaded_by_itself() {
    use std::io::Write as _;
    use std::process::Stdio;

    let folder = folder_with(&[("a.csv", "a\n1\n")]);
    refused(&folder, "x.db a.csv -", 2, "'-' is standard input");
    let arguments = ["load", "a.db", "-", "--format", "json", "--pk", "k", "--table", "t", "-q"];
    let mut child =
        super::common::command(folder.path(), &arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"k\":2}\n{\"k\":1}\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(rows(&folder, "a.db", "SELECT k FROM t"), ["1", "2"]);
}
