//! `leafpress io` from the outside: statuses, tables, messages, JSON, no traces.
//! The tests in `io_report` check the counts and their reasons.

mod common;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use common::{Outcome, command, names_in, run};
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

const ONE_ROW: &str = "UPDATE stock SET n = n - 1 WHERE id = 7";

/// `shop.db`, in a folder of its own.
fn shop(settings: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    let connection = Connection::open(folder.path().join("shop.db")).unwrap();
    connection
        .execute_batch(&format!(
            "{settings};
             CREATE TABLE stock (id INTEGER PRIMARY KEY, n INTEGER, what TEXT);
             CREATE TABLE sale (id INTEGER PRIMARY KEY, stock INTEGER, n INTEGER);
             WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100)
             INSERT INTO stock SELECT i, 1000, printf('thing number %d %0300d', i, i) FROM c;"
        ))
        .unwrap();
    folder
}

fn io(folder: &TempDir, arguments: &[&str]) -> Outcome {
    run(folder.path(), &[&["io", "shop.db"], arguments].concat())
}

fn stock(folder: &TempDir) -> i64 {
    let connection = Connection::open(folder.path().join("shop.db")).unwrap();
    connection.query_row("SELECT n FROM stock WHERE id = 7", [], |row| row.get(0)).unwrap()
}

fn fits_the_terminal(text: &str) {
    assert!(!text.contains('\x1b'), "no colours off a terminal");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
}

#[test]
fn each_transaction_has_a_line_and_the_database_stays_as_it_was() {
    let folder = shop("");
    let before = fs::read(folder.path().join("shop.db")).unwrap();
    let text = io(&folder, &["-c", ONE_ROW, "-c", "SELECT * FROM stock"]).expect_status(0).stdout;
    fits_the_terminal(&text);
    for part in [
        "2 transactions on a copy of shop.db\n",
        "profile rollback: DELETE, EXTRA",
        "UPDATE stock SET n",
        "SELECT * FROM stock",
        "what it was",
        "1 of 2 transactions read only",
        "database  ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("thing number"), "rows are not shown");
    assert!(fs::read(folder.path().join("shop.db")).unwrap() == before);
    assert_eq!(names_in(folder.path()), ["shop.db"]);
}

#[test]
#[cfg(target_os = "linux")]
fn one_row_is_one_page_where_the_disk_is_taken_at_its_word() {
    let folder = shop("");
    let flags = ["-c", ONE_ROW, "--repeat", "5", "--assume-atomic"];
    let object = io(&folder, &[&flags[..], &["--json"]].concat()).expect_status(0).json();
    assert_eq!(object["commits"]["in_place"], 5, "{object}");
    assert_eq!(object["one_page_commits"]["by"], "assumed");
    assert_eq!(object["findings"], serde_json::json!([]));
    let calls = &object["transactions"][0]["calls"];
    assert_eq!((&calls["write_in_place"], &calls["write_journal"]), (&2.into(), &0.into()));
    let text = io(&folder, &flags).expect_status(0).stdout;
    fits_the_terminal(&text);
    for part in ["ASSUMED on your word alone", "changed one page in place", "assumed, not proven"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    let alone = ["-c", ONE_ROW, "--repeat", "5", "--assume-atomic", "--locking", "exclusive"];
    let object = io(&folder, &[&alone[..], &["--json"]].concat()).expect_status(0).json();
    let calls = &object["transactions"][0]["calls"];
    let figure = |name: &str| calls[name].as_u64().unwrap();
    assert_eq!((figure("write_in_place"), figure("write_database"), figure("sync")), (1, 0, 1));
}

#[test]
#[cfg(target_os = "linux")]
fn what_defeats_it_is_said_with_what_to_do() {
    let folder = shop("");
    let index = Connection::open(folder.path().join("shop.db")).unwrap();
    index.execute_batch("CREATE INDEX stock_by_n ON stock (n)").unwrap();
    drop(index);
    let text = io(&folder, &["-c", ONE_ROW, "--assume-atomic"]).expect_status(0).stdout;
    fits_the_terminal(&text);
    for part in [
        "why not one page in place",
        "1 of 1: index stock_by_n of table stock is a page of its own",
        "to do: drop it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let small = shop("PRAGMA page_size=512");
    let text = io(&small, &["-c", ONE_ROW]).expect_status(0).stdout;
    assert!(text.contains("why not one page in place"), "{text}");
}

#[test]
fn the_profile_is_that_of_the_database_unless_another_is_tried() {
    let folder = shop("PRAGMA journal_mode=WAL");
    let object = io(&folder, &["-c", ONE_ROW, "--json"]).expect_status(0).json();
    assert_eq!(object["in_force"]["profile"], "durable");
    assert_eq!(
        (&object["commits"]["log"], &object["commits"]["of_one_page"]),
        (&1.into(), &1.into())
    );
    assert!(object["checkpoint"]["database"]["write"]["calls"].as_u64().unwrap() > 0);
    let text = io(&folder, &["-c", ONE_ROW]).expect_status(0).stdout;
    fits_the_terminal(&text);
    assert!(text.contains("the checkpoint that was due afterwards"), "{text}");
    for (profile, commit) in
        [("relaxed", "log"), ("rollback", "journal"), ("rebuildable", "unprotected")]
    {
        let flags = ["-c", ONE_ROW, "--profile", profile, "--json"];
        let object = io(&folder, &flags).expect_status(0).json();
        assert_eq!(object["in_force"]["profile"], profile);
        let commits = &object["commits"];
        let is_in_place = profile == "rollback" && commits["in_place"] == 1;
        assert!(commits[commit] == 1 || is_in_place, "{profile}: {commits}");
    }
    assert_eq!(names_in(folder.path()), ["shop.db"]);
}

#[test]
fn a_file_and_standard_input_are_run_too() {
    let folder = shop("");
    let script = format!("BEGIN;\n{ONE_ROW};\nINSERT INTO sale (stock, n) VALUES (7, 1);\nCOMMIT;");
    fs::write(folder.path().join("day.sql"), &script).unwrap();
    let object = io(&folder, &["day.sql", "--json"]).expect_status(0).json();
    assert_eq!(object["transactions"][0]["statements"], 4);
    assert_eq!(object["transactions"][0]["source"], "day.sql");
    assert!(
        object["findings"].as_array().unwrap().iter().any(|it| it["cause"] == "several_tables")
    );

    let mut child = command(folder.path(), &["io", "shop.db", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["transactions"][0]["source"], "<stdin>");
}

#[test]
fn many_transactions_are_shown_in_groups() {
    let folder = shop("");
    let script = format!("{ONE_ROW};\n").repeat(60) + "SELECT count(*) FROM stock;";
    fs::write(folder.path().join("day.sql"), script).unwrap();
    let text = io(&folder, &["day.sql"]).expect_status(0).stdout;
    fits_the_terminal(&text);
    assert!(text.contains("alike") && text.contains("61 transactions"), "{text}");
    assert!(text.lines().count() < 60, "{text}");
    let object = io(&folder, &["day.sql", "--json"]).expect_status(0).json();
    assert_eq!(object["transactions"].as_array().unwrap().len(), 61);
}

#[test]
fn memory_is_shown_where_it_is_asked_for() {
    let folder = shop("");
    let text = io(&folder, &["-c", ONE_ROW, "--memory", "--small"]).expect_status(0).stdout;
    fits_the_terminal(&text);
    assert!(text.contains("largest allocation"), "{text}");
    let object = io(&folder, &["-c", ONE_ROW, "--json"]).expect_status(0).json();
    assert_eq!(object["memory"], Value::Null);
}

#[test]
fn errors_name_their_place_and_leave_the_database_as_it_was() {
    let folder = shop("");
    fs::write(folder.path().join("day.sql"), format!("{ONE_ROW};\nSELECT nope FROM stock;"))
        .unwrap();
    let outcome = io(&folder, &["day.sql"]).expect_status(3);
    for part in
        ["day.sql:2:8: no such column: nope", "the database is as it was", "1 statement ran"]
    {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    assert_eq!(outcome.stdout, "");
    let error = &io(&folder, &["day.sql", "--json"]).expect_status(3).json()["error"];
    assert_eq!(
        (&error["kind"], &error["line"], &error["column"]),
        (&"script".into(), &2.into(), &8.into())
    );
    assert_eq!(error["transactions_committed"], 0);

    fs::write(folder.path().join("data.csv"), "a,b\n").unwrap();
    for (arguments, status, expected) in [
        (&["missing.db", "-c", ONE_ROW][..], 3, "cannot open missing.db"),
        (&["data.csv", "-c", ONE_ROW], 3, "is not a database"),
        (&["shop.db", "missing.sql"], 3, "cannot read missing.sql"),
        (&["shop.db", "-c", "SELECT 'a"], 3, "-c:1:8: the string that begins here has no end"),
        (&["shop.db", "-c", " "], 2, "no statement"),
        (&["shop.db"], 2, "--command <SQL>|FILE"),
        (&["shop.db", "-c", ONE_ROW, "--repeat", "0"], 2, "from 1 up"),
        (&["shop.db", "-c", ONE_ROW, "--in-place", "--copy-to", "."], 2, "cannot be used with"),
        (&["shop.db", "-c", ONE_ROW, "--in-place", "--profile", "rebuildable"], 2, "can destroy"),
        (
            &["shop.db", "-c", ONE_ROW, "--locking", "exclusive", "--profile", "durable"],
            2,
            "exclusive",
        ),
        (&["shop.db", "-c", ONE_ROW, "--copy-to", "none"], 3, "--in-place"),
    ] {
        let outcome = run(folder.path(), &[&["io"], arguments].concat()).expect_status(status);
        assert!(outcome.stderr.contains(expected), "{arguments:?}: {}", outcome.stderr);
    }
    assert_eq!(stock(&folder), 1000);
    assert_eq!(names_in(folder.path()), ["data.csv", "day.sql", "shop.db"]);
}

#[test]
fn in_place_changes_the_database_and_says_what_stays_after_an_error() {
    let folder = shop("");
    let text = io(&folder, &["-c", ONE_ROW, "--in-place"]).expect_status(0).stdout;
    assert!(text.contains("the database itself was changed"), "{text}");
    assert_eq!(stock(&folder), 999);
    let outcome = io(&folder, &["-c", ONE_ROW, "-c", "nope", "--in-place"]).expect_status(1);
    assert!(
        outcome.stderr.contains("what 1 transaction before it had committed"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("-c 2:1:1"), "{}", outcome.stderr);
    assert_eq!(stock(&folder), 998);
    io(&folder, &["-c", "nope", "--in-place"]).expect_status(3);
    assert_eq!(names_in(folder.path()), ["shop.db"]);
}

#[test]
#[cfg(unix)]
fn a_folder_that_cannot_be_written_to_takes_the_copy_elsewhere() {
    use std::os::unix::fs::PermissionsExt as _;

    let (folder, elsewhere) = (shop(""), TempDir::new().unwrap());
    let set_mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode));
    set_mode(0o555).unwrap();
    // Root may write all the same.
    let is_writable = fs::write(folder.path().join("probe"), "").is_ok();
    let outcome = io(&folder, &["-c", ONE_ROW]);
    if !is_writable {
        assert_eq!(outcome.status, 3);
        assert!(outcome.stderr.contains("--copy-to DIR"), "{}", outcome.stderr);
    }
    let elsewhere_name = elsewhere.path().to_str().unwrap();
    io(&folder, &["-c", ONE_ROW, "--copy-to", elsewhere_name]).expect_status(0);
    assert_eq!(names_in(elsewhere.path()), Vec::<String>::new());
    set_mode(0o755).unwrap();
}

#[test]
#[cfg(unix)]
fn a_signal_removes_the_copy() {
    use std::time::{Duration, Instant};

    let folder = shop("");
    let endless =
        "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT max(i) FROM c";
    let child = command(folder.path(), &["io", "shop.db", "-c", endless])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while names_in(folder.path()).len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "it never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    common::send("TERM", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("stopped; the database is as it was"), "{message}");
    assert_eq!(names_in(folder.path()), ["shop.db"]);
}

/// The fields in the tables of docs/io.md.
fn documented() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/io.md");
    let docs = fs::read_to_string(path).unwrap();
    let section = docs.split("## The JSON object").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| {
        let names = row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn the_object_has_the_fields_that_are_documented() {
    let folder = shop("");
    let object =
        io(&folder, &["-c", "CREATE INDEX i ON stock (n)", "--json"]).expect_status(0).json();
    let mut fields: Vec<String> = object.as_object().unwrap().keys().cloned().collect();
    for (name, prefix) in
        [("transactions", "transactions[]"), ("shapes", "shapes[]"), ("findings", "findings[]")]
    {
        let inner = object[name][0].as_object().unwrap();
        fields.extend(inner.keys().map(|field| format!("{prefix}.{field}")));
    }
    let commits = object["commits"].as_object().unwrap();
    fields.extend(commits.keys().map(|field| format!("commits.{field}")));
    let calls = object["transactions"][0]["calls"].as_object().unwrap();
    fields.extend(calls.keys().map(|field| format!("calls.{field}")));
    let mut documented = documented();
    fields.sort_unstable();
    documented.sort_unstable();
    assert_eq!(fields, documented);
}

#[test]
fn the_examples_of_the_help_are_valid_command_lines() {
    let folder = TempDir::new().unwrap();
    let help = run(folder.path(), &["io", "--help"]).expect_status(0).stdout;
    let examples: Vec<_> =
        help.lines().map(str::trim).filter(|line| line.starts_with("leafpress io ")).collect();
    assert_eq!(examples.len(), 5, "{examples:?}");
    for example in examples {
        let words: Vec<&str> = example
            .split('\'')
            .enumerate()
            .flat_map(
                |(at, part)| {
                    if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }
                },
            )
            .skip(1)
            .collect();
        // Understood, and then there is no such file.
        let outcome = run(folder.path(), &words).expect_status(3);
        assert!(outcome.stderr.contains("No such file"), "{example}: {}", outcome.stderr);
    }
}
