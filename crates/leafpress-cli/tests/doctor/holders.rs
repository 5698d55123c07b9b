//! "The database is locked": each command names the process that holds it.

use std::fs;
use std::process::id;

use super::common::run;
use super::helpers::{database, folder};

#[test]
fn a_command_that_finds_the_database_locked_names_the_holder() {
    let folder = folder();
    let connection = database(folder.path(), "DELETE");
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    fs::write(folder.path().join("a.csv"), "a\n1\n").unwrap();
    let holder = format!("now: process {} (", id());
    for arguments in [
        &["load", "a.db", "a.csv", "--busy-timeout", "100"][..],
        &["load", "a.db", "a.csv", "--table", "t", "--append", "--busy-timeout", "100"],
        &["index", "a.db", "t", "a", "--busy-timeout", "100"],
        &["queue", "push", "a.db", "jobs", "x", "--busy-timeout", "100"],
        &["verify", "a.db"],
        &["io", "a.db", "-c", "DELETE FROM t", "--in-place", "--busy-timeout", "100"],
    ] {
        let outcome = run(folder.path(), arguments).expect_status(3);
        let says = &outcome.stderr;
        assert!(says.contains(&holder), "{arguments:?}: {says}");
        assert!(says.contains("holds the exclusive lock"), "{arguments:?}: {says}");
    }
    let arguments = ["index", "a.db", "t", "a", "--busy-timeout", "100", "--json"];
    let object = run(folder.path(), &arguments).expect_status(3).json();
    let held_by = object["error"]["held_by"].as_str().unwrap();
    assert!(held_by.starts_with(&format!("process {} (", id())), "{held_by}");
    assert_eq!(object["error"]["is_retryable"], true);
}

#[test]
fn a_writer_that_waits_in_vain_names_the_holder() {
    let folder = folder();
    database(folder.path(), "WAL").close().unwrap();
    run(folder.path(), &["queue", "push", "a.db", "jobs", "x"]).expect_status(0);
    let connection = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let arguments = ["queue", "push", "a.db", "jobs", "x", "--busy-timeout", "600"];
    let outcome = run(folder.path(), &arguments).expect_status(3);
    let holder = format!("now: process {} (", id());
    assert!(outcome.stderr.contains(&holder), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("holds the write lock"), "{}", outcome.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn the_processes_that_share_a_database_are_counted_and_the_others_named() {
    use std::process::{Child, Stdio};

    use super::common::command;

    let folder = folder();
    let connection = database(folder.path(), "WAL");
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)).unwrap();
    run(folder.path(), &["queue", "push", "a.db", "jobs", "x"]).expect_status(0);
    let arguments = ["queue", "work", "a.db", "jobs", "--exec", "cat"];
    let mut worker: Child = command(folder.path(), &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let finding = (0..600).find_map(|_| {
        let text = run(folder.path(), &["doctor", "a.db", "--json"]).stdout;
        std::thread::sleep(std::time::Duration::from_millis(50));
        text.contains("1 process shares it").then_some(text)
    });
    worker.kill().unwrap();
    worker.wait().unwrap();
    let text = finding.expect("the worker shares the database");
    assert!(text.contains("sharing_writer"), "{text}");
    assert!(text.contains(&format!("but not process {} (", id())), "{text}");
    drop(connection);
}
