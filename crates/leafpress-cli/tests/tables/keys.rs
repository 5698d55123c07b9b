//! `--pk`, `--without-rowid`, `--uuid7`, `--index`, `--unique`,
//! `--on-conflict`, `--analyze`, `--memory`, `--tmpdir`.

use std::fmt::Write as _;
use std::fs;

use super::{declared, folder_with, load, load_with, refused, rows};

const PEOPLE: &str = "id,name,born\n3,Zoë,1990\n1,ada,1815\n2,Grace,1906\n";
const TWINS: &str = "id,name\n1,first\n2,other\n1,last\n";

#[test]
fn a_key_of_integers_becomes_the_rowid_in_any_order() {
    let folder = folder_with(&[("p.csv", PEOPLE)]);
    let report = load(&folder, "a.db p.csv --pk id --json").expect_status(0).json();
    assert!(report["path"].as_str().unwrap().contains("sorted"), "{report}");
    let sql = "SELECT rowid, name FROM p";
    assert_eq!(rows(&folder, "a.db", sql), ["1|'ada'", "2|'Grace'", "3|'Zoë'"]);
    assert!(declared(&folder, "a.db", "p").contains("\"id\" INTEGER PRIMARY KEY"));
}

#[test]
fn other_keys_get_an_index_or_are_the_table() {
    let folder = folder_with(&[("p.csv", PEOPLE)]);
    load(&folder, "a.db p.csv --pk name,born").expect_status(0);
    assert!(declared(&folder, "a.db", "p").ends_with("PRIMARY KEY (\"name\", \"born\") )"));
    assert_eq!(rows(&folder, "a.db", "SELECT name FROM p"), ["'Grace'", "'Zoë'", "'ada'"]);

    load(&folder, "b.db p.csv --pk name --pk born --without-rowid").expect_status(0);
    assert!(declared(&folder, "b.db", "p").ends_with("WITHOUT ROWID"));
    assert_eq!(rows(&folder, "b.db", "SELECT id FROM p"), ["2", "3", "1"]);

    refused(&folder, "c.db p.csv --without-rowid", 2, "name its columns with --pk");
    assert!(!folder.path().join("c.db").exists());
}

#[test]
fn a_key_may_have_a_type() {
    let folder = folder_with(&[("p.csv", PEOPLE)]);
    load(&folder, "a.db p.csv --pk id --type id=text").expect_status(0);
    assert_eq!(rows(&folder, "a.db", "SELECT id FROM p ORDER BY id"), ["'1'", "'2'", "'3'"]);
    fs::write(folder.path().join("q.csv"), "id\n1\nx\n").unwrap();
    let outcome = load(&folder, "b.db q.csv --pk id --type id=integer").expect_status(3);
    assert!(outcome.stderr.contains("q.csv:3:1"), "{}", outcome.stderr);
}

/// A code is no integer: as a rowid, 007 would be 7, and another row's key.
#[test]
fn a_code_among_the_keys_makes_texts_of_them_wherever_it_stands() {
    let codes = "id,v\n007,c\n2.0,d\n+5,e\n";
    let mut late = "id,v\n".to_owned();
    for id in 10..400_000 {
        writeln!(late, "{id},x").unwrap();
    }
    late += "007,c\n2.0,d\n+5,e\n";
    let lines = "{\"id\":1}\n{\"id\":7}\n";
    let folder = folder_with(&[
        ("numbers.csv", "id,v\n1,a\n7,b\n"),
        ("codes.csv", codes),
        ("late.csv", &late),
        ("lines.ndjson", lines),
        ("words.ndjson", "{\"id\":\"007\"}\n{\"id\":\"+5\"}\n{\"id\":\"2.0\"}\n"),
    ]);
    let inputs =
        ["numbers.csv codes.csv", "codes.csv numbers.csv", "late.csv", "lines.ndjson words.ndjson"];
    for (at, input) in inputs.into_iter().enumerate() {
        let database = format!("{at}.db");
        load(&folder, &format!("{database} {input} --table t --pk id")).expect_status(0);
        assert!(declared(&folder, &database, "t").contains("\"id\" TEXT"), "{input}");
        let sql = "SELECT id FROM t WHERE id IN ('007', '2.0', '+5') ORDER BY id";
        assert_eq!(rows(&folder, &database, sql), ["'+5'", "'007'", "'2.0'"], "{input}");
    }
}

#[test]
fn a_key_that_is_the_rowid_takes_no_other_type_and_no_null() {
    let folder = folder_with(&[
        ("d.csv", "at,v\n2026-01-31,a\n1970-01-01,b\n"),
        ("d.ndjson", "{\"at\":\"2026-01-31\"}\n{\"at\":\"1970-01-01\"}\n"),
        ("b.csv", "at\nyes\nno\n"),
        ("n.csv", "id,v\n0,a\n1,b\n"),
    ]);
    for input in
        ["d.csv --type at=unixepoch", "d.ndjson --type at=unixepoch", "b.csv --type at=boolean"]
    {
        refused(&folder, &format!("none.db {input} --pk at"), 2, "the key 'at' is the rowid");
        load(&folder, &format!("a.db {input} --pk at --without-rowid --table t --replace"))
            .expect_status(0);
    }
    refused(
        &folder,
        "b.db n.csv --pk id --null 0",
        3,
        "n.csv:2:1: column \"id\": the primary key is empty",
    );
}

#[test]
fn indexes_have_collations_and_directions() {
    let folder = folder_with(&[("p.csv", PEOPLE)]);
    let words = "a.db p.csv --unique born --index name --analyze --index";
    load_with(&folder, words, "name NOCASE DESC, id").expect_status(0);
    let sql = "SELECT name FROM p INDEXED BY p_name_id ORDER BY name COLLATE NOCASE DESC";
    assert_eq!(rows(&folder, "a.db", sql), ["'Zoë'", "'Grace'", "'ada'"]);
    assert!(declared(&folder, "a.db", "p_born").starts_with("CREATE UNIQUE INDEX"));
    assert!(declared(&folder, "a.db", "p_name_id").contains("COLLATE NOCASE DESC"));
    let stat = "SELECT stat FROM sqlite_stat1 WHERE idx = 'p_born'";
    assert_eq!(rows(&folder, "a.db", stat), ["'3 1'"]);

    let outcome = load_with(&folder, "b.db p.csv --index", "name UP").expect_status(2);
    assert!(outcome.stderr.contains("'UP' after column 'name'"), "{}", outcome.stderr);
    refused(&folder, "b.db p.csv --index nope", 2, "'nope'");
}

#[test]
fn rows_with_one_key_are_an_error_or_the_first_or_the_last() {
    let folder = folder_with(&[("t.csv", TWINS)]);
    for key in ["--pk id", "--unique id", "--pk id --without-rowid"] {
        let outcome = load(&folder, &format!("a.db t.csv {key}")).expect_status(3);
        assert!(outcome.stderr.starts_with("error: t.csv:4:1: "), "{key}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("line 2 has its"), "{key}: {}", outcome.stderr);
    }
    let names = "SELECT id, name FROM t ORDER BY id";
    load(&folder, "b.db t.csv --pk id --on-conflict replace").expect_status(0);
    assert_eq!(rows(&folder, "b.db", names), ["1|'last'", "2|'other'"]);
    let outcome = load(&folder, "c.db t.csv --unique id --on-conflict ignore").expect_status(0);
    assert!(outcome.stdout.contains("ignored    1 row   others have"), "{}", outcome.stdout);
    assert_eq!(rows(&folder, "c.db", names), ["1|'first'", "2|'other'"]);

    let words = "d.db t.csv --pk id --on-error skip --rejects bad.csv --json";
    let report = load(&folder, words).expect_status(1).json();
    assert_eq!((&report["rows_rejected"], &report["rows_ignored"]), (&1.into(), &0.into()));
    assert!(fs::read_to_string(folder.path().join("bad.csv")).unwrap().contains("1,last"));
    refused(&folder, "e.db t.csv --pk id --on-conflict last", 2, "[possible values: abort");
}

#[test]
fn made_keys_ascend_and_have_the_form_that_is_asked_for() {
    let folder = folder_with(&[("p.csv", PEOPLE)]);
    load(&folder, "a.db p.csv --uuid7 key").expect_status(0);
    let forms = "SELECT DISTINCT typeof(key), length(key), substr(hex(key), 13, 1) FROM p";
    assert_eq!(rows(&folder, "a.db", forms), ["'blob'|16|'7'"]);
    assert_eq!(rows(&folder, "a.db", "SELECT id FROM p ORDER BY key"), ["3", "1", "2"]);
    assert!(declared(&folder, "a.db", "p").contains("PRIMARY KEY (\"key\")"));

    load(&folder, "b.db p.csv --uuid7 key=text --without-rowid").expect_status(0);
    let forms = "SELECT DISTINCT typeof(key), length(key), substr(key, 15, 1) FROM p";
    assert_eq!(rows(&folder, "b.db", forms), ["'text'|36|'7'"]);
    refused(&folder, "c.db p.csv --uuid7 id", 2, "has a column 'id' already");
    refused(&folder, "c.db p.csv --uuid7 key=uuid", 2, "COLUMN=text");
}

#[test]
fn made_keys_have_a_place_in_a_declared_table() {
    let folder = folder_with(&[("p.csv", "v\n1\n"), ("i.csv", "id,v\n1,1\n")]);
    for (words, create, reason) in [
        ("a.db p.csv --uuid7 id", "CREATE TABLE t(v INT)", "no column 'id' that could hold"),
        ("a.db i.csv --uuid7 id", "CREATE TABLE t(id TEXT, v INT)", "has a column 'id' already"),
        ("a.db p.csv --uuid7 id", "CREATE TABLE t(id TEXT, v INT) STRICT", "its keys are BLOB"),
        ("a.db p.csv --uuid7 id", "CREATE TABLE t(id INTEGER PRIMARY KEY, v)", "its keys are BLOB"),
    ] {
        let outcome = load_with(&folder, &format!("{words} --table t --create"), create);
        let outcome = outcome.expect_status(2);
        assert!(outcome.stderr.contains(reason), "{create}: {}", outcome.stderr);
    }
    for (words, create) in [
        ("a.db p.csv --uuid7 id=text", "CREATE TABLE t(id TEXT, v INT) STRICT"),
        ("b.db p.csv --uuid7 id", "CREATE TABLE t(id ANY, v INT) STRICT"),
        ("c.db p.csv --uuid7 id", "CREATE TABLE t(id TEXT, v INT)"),
    ] {
        load_with(&folder, &format!("{words} --table t --create"), create).expect_status(0);
        assert_eq!(rows(&folder, &words[..4], "PRAGMA integrity_check"), ["'ok'"], "{create}");
    }
}

#[test]
fn sorting_beyond_memory_spills_into_the_folder_that_is_named() {
    let mut input = "key,text\n".to_owned();
    // More than the least that sorting takes, which is 8 MiB.
    for row in 0..40_000_u64 {
        let key = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(input, "{key:016x},{row:0300}").unwrap();
    }
    let folder = folder_with(&[("k.csv", &input)]);
    fs::create_dir(folder.path().join("tmp")).unwrap();
    let words = "a.db k.csv --pk key --without-rowid --json";
    let whole = load(&folder, words).expect_status(0).json();
    assert_eq!(whole["spilled_bytes"], 0);
    let words = "b.db k.csv --pk key --without-rowid --memory 8M --tmpdir tmp --json";
    let spilled = load(&folder, words).expect_status(0).json();
    assert!(spilled["spilled_bytes"].as_u64().unwrap() > 1_000_000, "{spilled}");
    let sum = "SELECT count(*), sum(length(key) + length(text)), min(key), max(key) FROM k";
    assert_eq!(rows(&folder, "a.db", sum), rows(&folder, "b.db", sum));
    assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
    let outcome = load(&folder, "c.db k.csv --pk key --without-rowid --memory 8M --tmpdir none")
        .expect_status(2);
    assert!(outcome.stderr.contains("none"), "{}", outcome.stderr);
    assert!(!folder.path().join("c.db").exists());
}
