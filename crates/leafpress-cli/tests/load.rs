//! `leafpress load` from the outside: what it makes, says, and how it ends.
//!
//! 1. Statuses: 0 all done, 1 rows rejected, 2 usage, 3 failed and nothing changed.
//! 2. With status 2 and 3 the folder holds what it held before.
//! 3. stdout holds the result and nothing else; messages go to stderr.

mod common;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use common::{command, names_in, run};
use rusqlite::Connection;
use tempfile::TempDir;

const PEOPLE: &str = "id,name,zip,height\n1,Ada,00501,1.65\n2,\"Grace, Rear Admiral\",10001,1.68\n";
const PEOPLE_WITH_BAD_ROWS: &str =
    "id,name,zip,height\n1,Ada,00501,1.65\n2,Grace,10001\n3,Alan,20002,1.78\n4,x\n";

fn folder_with(name: &str, content: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    folder
}

fn ask(folder: &Path, database: &str, sql: &str) -> String {
    let connection = Connection::open(folder.join(database)).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_simple_load_gives_status_0_and_a_summary() {
    let folder = folder_with("people.csv", PEOPLE);
    let outcome = run(folder.path(), &["load", "app.db", "people.csv"]).expect_status(0);
    assert_eq!(outcome.stderr, "", "quiet off a terminal");
    for expected in ["loaded 2 rows into table people of app.db", "rows/s", "zip", "TEXT"] {
        assert!(outcome.stdout.contains(expected), "{expected}: {}", outcome.stdout);
    }
    for line in outcome.stdout.lines() {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
    let values = "SELECT group_concat(typeof(id) || typeof(zip) || typeof(height) || name, ';')
                  FROM (SELECT * FROM people ORDER BY id)";
    assert_eq!(
        ask(folder.path(), "app.db", values),
        "integertextrealAda;integertextrealGrace, Rear Admiral"
    );
    run(folder.path(), &["verify", "app.db"]).expect_status(0);
    assert_eq!(names_in(folder.path()), ["app.db", "people.csv"]);
}

#[test]
fn json_is_one_object_and_quiet_is_silence() {
    let folder = folder_with("people.csv", PEOPLE);
    let outcome = run(folder.path(), &["load", "a.db", "people.csv", "--json"]).expect_status(0);
    let object = outcome.json();
    assert_eq!(object["table"], "people");
    assert_eq!(object["rows_read"], 2);
    assert_eq!(object["rows_loaded"], 2);
    assert_eq!(object["rows_rejected"], 0);
    assert_eq!(object["bytes_read"], PEOPLE.len());
    assert_eq!(object["columns"][2]["name"], "zip");
    assert_eq!(object["columns"][2]["declared_type"], "TEXT");
    assert_eq!(object["columns"][2]["decided_by"]["value"], "00501");
    assert_eq!(object["columns"][2]["decided_by"]["line"], 2);
    assert_eq!(outcome.stderr, "");

    let outcome = run(folder.path(), &["load", "b.db", "people.csv", "-q"]).expect_status(0);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""));
}

#[test]
fn the_object_has_the_fields_that_are_documented() {
    let folder = folder_with("people.csv", PEOPLE);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/loading.md");
    let docs = fs::read_to_string(path).unwrap();
    let section = docs.split("### JSON output").nth(1).unwrap().split("###").next().unwrap();
    for (words, paragraph) in [
        (&["a.db", "people.csv"][..], "After a load:"),
        (&["people.db", "people.csv", "--dry-run"], "After a dry run:"),
    ] {
        let text = section.split(paragraph).nth(1).unwrap().split("\n- ").next().unwrap();
        let mut documented: Vec<_> = text.split('`').skip(1).step_by(2).collect();
        documented.sort_unstable();
        let object = run(folder.path(), &[&["load", "--json"], words].concat()).json();
        let mut fields: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
        fields.sort_unstable();
        assert_eq!(fields, documented, "{paragraph}");
    }
}

#[test]
fn a_bad_row_stops_the_load_and_leaves_nothing() {
    let folder = folder_with("people.csv", PEOPLE_WITH_BAD_ROWS);
    let outcome = run(folder.path(), &["load", "app.db", "people.csv"]).expect_status(3);
    assert!(outcome.stderr.starts_with("error: people.csv:3:"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\n  2,Grace,10001\n"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\non disk: "), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    assert_eq!(names_in(folder.path()), ["people.csv"]);

    let outcome = run(folder.path(), &["load", "app.db", "people.csv", "--json"]).expect_status(3);
    let error = &outcome.json()["error"];
    assert_eq!(error["kind"], "bad_row");
    assert_eq!(error["file"], "people.csv");
    assert_eq!(error["line"], 3);
    assert_eq!(error["row"], "2,Grace,10001");
    assert!(outcome.stderr.starts_with("error: "), "{}", outcome.stderr);
}

#[test]
fn skipped_rows_give_status_1_and_stand_in_the_rejects() {
    let folder = folder_with("people.csv", PEOPLE_WITH_BAD_ROWS);
    let skip = ["load", "app.db", "people.csv", "--on-error", "skip", "--rejects", "bad.csv"];
    let outcome = run(folder.path(), &skip).expect_status(1);
    assert!(outcome.stdout.contains("bad.csv"), "{}", outcome.stdout);
    let rejects = fs::read_to_string(folder.path().join("bad.csv")).unwrap();
    assert!(rejects.contains("2,Grace,10001\n") && rejects.contains("4,x\n"), "{rejects}");
    let loaded = "SELECT group_concat(name) FROM (SELECT name FROM people ORDER BY id)";
    assert_eq!(ask(folder.path(), "app.db", loaded), "Ada,Alan");

    let limited =
        ["load", "b.db", "people.csv", "--on-error", "skip", "--max-rejects", "1", "--json"];
    let error = run(folder.path(), &limited).expect_status(3).json();
    assert_eq!(error["error"]["kind"], "too_many_rejects");
    assert!(!folder.path().join("b.db").exists());
    let enough =
        ["load", "b.db", "people.csv", "--on-error", "skip", "--max-rejects", "2", "--json"];
    assert_eq!(run(folder.path(), &enough).expect_status(1).json()["rows_rejected"], 2);
}

#[test]
fn an_existing_file_is_refused_and_left_as_it_is() {
    let folder = folder_with("people.csv", PEOPLE);
    fs::write(folder.path().join("app.db"), "not yours").unwrap();
    let outcome = run(folder.path(), &["load", "app.db", "people.csv"]).expect_status(3);
    assert!(outcome.stderr.contains("app.db"), "{}", outcome.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("app.db")).unwrap(), "not yours");
}

#[test]
fn a_dry_run_writes_nothing_and_tells_what_decided() {
    let folder = folder_with("people.csv", PEOPLE);
    let outcome = run(folder.path(), &["load", "app.db", "people.csv", "--dry-run"]);
    let text = outcome.expect_status(0).stdout;
    for expected in ["CREATE TABLE", "line 2: '00501'", "nothing was written"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let object = run(folder.path(), &["load", "app.db", "people.csv", "--dry-run", "--json"])
        .expect_status(0)
        .json();
    assert_eq!(object["would_reject"], 0);
    assert!(object["create_sql"].as_str().unwrap().starts_with("CREATE TABLE"));
    assert_eq!(names_in(folder.path()), ["people.csv"]);

    fs::write(folder.path().join("people.csv"), PEOPLE_WITH_BAD_ROWS).unwrap();
    let text = run(folder.path(), &["load", "app.db", "people.csv", "--dry-run"]);
    let text = text.expect_status(1).stdout;
    assert!(text.contains("people.csv:3:") && text.contains("  2,Grace,10001\n"), "{text}");
    let with_rejects = ["--dry-run", "--on-error", "skip", "--rejects", "bad.csv"];
    run(folder.path(), &[&["load", "app.db", "people.csv"], &with_rejects[..]].concat())
        .expect_status(1);
    assert_eq!(names_in(folder.path()), ["people.csv"]);
}

#[test]
fn what_only_the_input_can_tell_is_a_usage_error_too() {
    let folder = folder_with("people.csv", PEOPLE);
    let outcome = run(folder.path(), &["load", "app.db", "people.csv", "--type", "nope=text"])
        .expect_status(2);
    assert!(outcome.stderr.contains("nope"), "{}", outcome.stderr);
    assert_eq!(names_in(folder.path()), ["people.csv"]);
}

/// Rows of a table that SQLite fills, as it has a CHECK.
#[test]
fn objects_without_keys_are_ignored_if_their_key_is_there() {
    let folder = folder_with("rows.ndjson", "{}\n{}\n");
    let declared = "CREATE TABLE t(k TEXT UNIQUE DEFAULT 'x' CHECK (k > ''))";
    let mut load = vec!["load", "a.db", "rows.ndjson", "--table", "t", "--create", declared];
    run(folder.path(), &load).expect_status(3);
    load.extend(["--json", "--on-conflict", "ignore"]);
    let report = run(folder.path(), &load).expect_status(0).json();
    assert_eq!((&report["rows_loaded"], &report["rows_ignored"]), (&1.into(), &1.into()));
}

#[test]
fn a_missing_input_gives_status_3() {
    let folder = TempDir::new().unwrap();
    let outcome = run(folder.path(), &["load", "app.db", "nope.csv", "--json"]).expect_status(3);
    assert!(outcome.stderr.contains("nope.csv"), "{}", outcome.stderr);
    assert!(outcome.json()["error"]["message"].as_str().unwrap().contains("nope.csv"));
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn standard_input_is_loaded_into_the_table_that_is_named() {
    let folder = TempDir::new().unwrap();
    for (database, extra, table) in
        [("a.db", &[][..], "stdin"), ("b.db", &["--table", "people"], "people")]
    {
        let mut child = command(folder.path(), &[&["load", database, "-", "-q"], extra].concat())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(PEOPLE.as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let sql = format!("SELECT name FROM {table} WHERE zip = '00501'");
        assert_eq!(ask(folder.path(), database, &sql), "Ada");
    }
}

#[test]
#[cfg(unix)]
fn a_signal_ends_a_load_that_waits_for_its_input() {
    for signal in common::ending_signals() {
        let folder = TempDir::new().unwrap();
        let mut child = command(folder.path(), &["load", "app.db", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(PEOPLE.as_bytes()).unwrap();
        common::wait_for_handler(signal, child.id());
        common::send(signal, child.id());
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.starts_with("stopped"), "{message}");
        assert!(names_in(folder.path()).is_empty(), "{signal} left something");
    }
}

#[test]
#[cfg(unix)]
fn a_reader_that_leaves_early_does_not_undo_the_load() {
    let folder = folder_with("people.csv", PEOPLE);
    let mut child = command(folder.path(), &["load", "app.db", "people.csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(ask(folder.path(), "app.db", "SELECT name FROM people WHERE id = 1"), "Ada");
}

#[test]
fn the_example_data_set_loads_with_its_types() {
    let folder = TempDir::new().unwrap();
    let cities = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cities.csv");
    let rows = fs::read_to_string(&cities).unwrap().lines().count() - 1;
    let cities = cities.to_str().unwrap();
    let object = run(folder.path(), &["load", "c.db", cities, "--pk", "id", "--json"]);
    let object = object.expect_status(0).json();
    assert_eq!(object["rows_loaded"], rows);
    let types: Vec<_> = object["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["declared_type"].as_str().unwrap())
        .collect();
    let (integer, real, text) = ("INTEGER", "REAL", "TEXT");
    assert_eq!(types, [integer, text, text, real, real, integer, integer, text, text]);
    let code = "SELECT postal_code FROM cities WHERE name = 'Boston'";
    assert_eq!(ask(folder.path(), "c.db", code), "02108");
    let undated = "SELECT typeof(founded) FROM cities WHERE name = 'Paris'";
    assert_eq!(ask(folder.path(), "c.db", undated), "null");
    run(folder.path(), &["verify", "c.db"]).expect_status(0);
}
