//! `leafpress doctor` from the outside: each planted fault is found by its check and by no
//! other, and a healthy database has none.
//!
//! Other processes are this test itself, by connections of its own, and Python where another
//! SQLite or a process that is killed is needed.

#![cfg(target_os = "linux")]

mod common;
#[path = "doctor/faults_of_files.rs"]
mod faults_of_files;
#[path = "doctor/faults_of_processes.rs"]
mod faults_of_processes;
#[path = "doctor/helpers.rs"]
mod helpers;
#[path = "doctor/holders.rs"]
mod holders;

use std::fs;
use std::path::Path;

use common::{names_in, run};
use leafpress::Profile;
use leafpress::profile::{self, ProfileRequest};
use leafpress::writer::Writer;
use rusqlite::Connection;

use helpers::{cares, database, folder, place_needs_care};

#[test]
fn a_healthy_database_needs_no_care_in_any_profile() {
    for profile in [Profile::Durable, Profile::Relaxed, Profile::Rollback, Profile::Rebuildable] {
        let folder = folder();
        let path = folder.path().join("a.db");
        let request = ProfileRequest::new(profile).rebuildable_ok();
        let (connection, _) = profile::open(&path, &request).unwrap();
        connection.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
        assert_eq!(cares(folder.path(), "a.db"), place_needs_care(), "{profile}, open");
        connection.close().unwrap();
        assert_eq!(cares(folder.path(), "a.db"), place_needs_care(), "{profile}, closed");
    }
}

#[test]
fn a_database_in_use_by_a_writer_needs_no_care() {
    let folder = folder();
    let writer = Writer::builder(folder.path().join("a.db")).open().unwrap();
    writer.execute_batch("CREATE TABLE t(a)").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                writer.execute("INSERT INTO t VALUES (?1)", ["some text"]).unwrap();
            }
        });
        for _ in 0..3 {
            assert_eq!(cares(folder.path(), "a.db"), place_needs_care());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_look_changes_nothing_and_leaves_nothing() {
    for mode in ["WAL", "DELETE"] {
        let folder = folder();
        database(folder.path(), mode).close().unwrap();
        let bytes = fs::read(folder.path().join("a.db")).unwrap();
        run(folder.path(), &["doctor", "a.db"]);
        assert_eq!(names_in(folder.path()), ["a.db"], "{mode}");
        assert_eq!(fs::read(folder.path().join("a.db")).unwrap(), bytes, "{mode}");
    }
}

#[test]
fn the_text_fits_a_terminal_and_begins_with_the_verdict() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    fs::hard_link(folder.path().join("a.db"), folder.path().join("b.db")).unwrap();
    let outcome = run(folder.path(), &["doctor", "a.db"]).expect_status(1);
    let text = outcome.stdout;
    assert!(text.starts_with("a.db: 1 thing needs care\n") || !place_needs_care().is_empty());
    for part in [
        "30 names of the database\n",
        "seen  the file has 2 names",
        "\n     risk  ",
        "\n     fix   ",
        "\n  fine\n",
        "\n  cannot be told\n",
        " 1 WAL-reset bug: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for line in text.lines().filter(|line| !line.starts_with("     fix   ")) {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
    drop(connection);
}

#[test]
fn a_fix_is_one_line_to_be_copied() {
    let folder = folder();
    let name = "the  database.db";
    database(folder.path(), "DELETE").close().unwrap();
    fs::rename(folder.path().join("a.db"), folder.path().join(name)).unwrap();
    fs::hard_link(folder.path().join(name), folder.path().join("b.db")).unwrap();
    let object = helpers::look(folder.path(), name);
    let fix = helpers::fix_of(&object, 30);
    assert!(fix.contains(&format!("{name}'; keep one")), "{fix}");
    let text = run(folder.path(), &["doctor", name]).expect_status(1).stdout;
    assert!(text.contains(&format!("\n     fix   {fix}\n")), "{text}");
}

#[test]
fn the_object_names_each_check_of_the_guide() {
    let folder = folder();
    let connection = database(folder.path(), "WAL");
    let object = run(folder.path(), &["doctor", "a.db", "--json"]).json();
    assert_eq!(object["healthy"], place_needs_care().is_empty());
    assert_eq!(object["neighbours"]["asked"], "proc");
    assert!(helpers::names_this_process(&object), "{object:#}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let guide = fs::read_to_string(path).unwrap();
    let checks = object["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 16);
    for check in checks {
        let row = format!("| {} | {} |", check["number"], check["name"].as_str().unwrap());
        assert!(guide.contains(&row), "docs/doctor.md has no row {row}");
        assert!(["ok", "care", "unknown"].contains(&check["verdict"].as_str().unwrap()));
        assert_eq!(check["fix"].is_null(), check["verdict"] != "care");
    }
    drop(connection);
}

#[test]
fn what_cannot_be_looked_at_is_an_error() {
    let folder = folder();
    fs::write(folder.path().join("text.db"), "just a text, and no database").unwrap();
    fs::write(folder.path().join("empty.db"), "").unwrap();
    for (name, says) in [
        ("none.db", "there is no such database"),
        ("text.db", "is not a database"),
        ("empty.db", "is empty"),
        (".", "is a directory"),
        ("none/a.db", "none/a.db"),
    ] {
        let outcome = run(folder.path(), &["doctor", name]).expect_status(3);
        assert!(outcome.stderr.contains(says), "{name}: {}", outcome.stderr);
        let outcome = run(folder.path(), &["doctor", name, "--json"]).expect_status(3);
        assert!(outcome.json()["error"]["message"].is_string());
    }
    run(folder.path(), &["doctor"]).expect_status(2);
    assert_eq!(names_in(folder.path()), ["empty.db", "text.db"]);
}

#[test]
fn a_link_to_a_database_is_followed() {
    let folder = folder();
    let connection: Connection = database(folder.path(), "WAL");
    let links = helpers::folder();
    let link = links.path().join("link.db");
    std::os::unix::fs::symlink(folder.path().join("a.db"), &link).unwrap();
    let object = run(links.path(), &["doctor", "link.db", "--json"]).json();
    assert!(helpers::names_this_process(&object), "{object:#}");
    assert_eq!(object["healthy"], place_needs_care().is_empty());
    drop(connection);
}
