//! `leafpress storage` from the outside: statuses, messages, JSON, no traces.
//! The library's tests of `storage` check the measurements and the verdict.

mod common;

use std::fs;
use std::path::Path;

use common::{names_in, run};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn a_folder_is_measured_and_left_as_it_was() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("app.db"), "not touched").unwrap();
    for path in [&[][..], &["."], &["app.db"], &["new.db"]] {
        let arguments = [&["storage", "--quick"], path].concat();
        let text = run(folder.path(), &arguments).expect_status(0).stdout;
        for part in ["profile ", "file system", "sync after", "4 KiB at random", "why"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\x1b'), "no colours off a terminal");
        for line in text.lines().skip(1) {
            assert!(line.chars().count() <= 80, "too wide: {line}");
        }
    }
    assert_eq!(names_in(folder.path()), ["app.db"]);
    assert_eq!(fs::read(folder.path().join("app.db")).unwrap(), b"not touched");
}

/// Every field, those of objects inside as `outer.inner`.
fn fields_of(value: &Value, prefix: &str, fields: &mut Vec<String>) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        fields_of(inner, &format!("{path}."), fields);
        if !inner.is_object() {
            fields.push(path);
        }
    }
}

#[test]
fn the_object_has_the_fields_that_are_documented() {
    let folder = TempDir::new().unwrap();
    let object = run(folder.path(), &["storage", "--quick", "--json"]).expect_status(0).json();
    let mut fields = Vec::new();
    fields_of(&object, "", &mut fields);

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/durability.md");
    let docs = fs::read_to_string(path).unwrap();
    let section = docs.split("### The JSON object").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let documented: Vec<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    // Three latencies and two rates have the same fields each.
    let short = |field: &str| {
        let parts: Vec<_> = field.split('.').collect();
        match parts[..] {
            ["measured", what, figure] if what.starts_with("sync_") => format!("sync.{figure}"),
            ["measured", _, figure] => format!("writes.{figure}"),
            _ => field.to_owned(),
        }
    };
    for field in &fields {
        assert!(documented.contains(&short(field).as_str()), "{field} is not documented");
    }
    let device_or_folder = |field: &str| field.starts_with("device") || field.contains("_of_");
    for field in documented {
        let is_there = fields.iter().any(|it| short(it) == field);
        // A disk that the system does not name is null as a whole.
        assert!(is_there || device_or_folder(field) || object.get(field).is_some(), "{field}");
    }
    assert!(object["measured"]["sync_after_append"]["p50_us"].as_f64().unwrap() > 0.0);
    let profile = object["verdict"]["profile"].as_str().unwrap();
    assert!(["durable", "relaxed", "rollback"].contains(&profile), "{profile}");
}

#[test]
fn a_path_that_is_not_there_is_told() {
    let folder = TempDir::new().unwrap();
    let outcome = run(folder.path(), &["storage", "nodir", "--quick"]).expect_status(0);
    let note = "note: nodir is not there; its folder was measured";
    assert!(outcome.stdout.contains(note), "{}", outcome.stdout);
    let outcome = run(folder.path(), &["storage", ".", "--quick"]).expect_status(0);
    assert!(!outcome.stdout.contains("is not there"), "{}", outcome.stdout);
}

#[test]
fn what_cannot_be_measured_gives_status_3_and_a_reason() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for (path, expected, kind) in [
        ("none/app.db", "name a folder that is there", "not_found"),
        ("file/app.db", "cannot look at", "io"),
    ] {
        let outcome = run(folder.path(), &["storage", path, "--quick"]).expect_status(3);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("on disk: nothing was left behind"), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "");
        let error = run(folder.path(), &["storage", path, "--quick", "--json"]).expect_status(3);
        assert_eq!(error.json()["error"]["kind"], kind);
    }
    assert_eq!(names_in(folder.path()), ["file"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_written_to_gives_status_3() {
    let folder = TempDir::new().unwrap();
    let outcome = run(folder.path(), &["storage", "/proc/self"]).expect_status(3);
    assert!(outcome.stderr.contains("that you may write to"), "{}", outcome.stderr);
}

#[test]
fn contradictions_are_usage_errors() {
    let folder = TempDir::new().unwrap();
    for (arguments, expected) in [
        (&["--quick", "--seconds", "3"][..], "cannot be used with"),
        (&["--seconds", "0"], "name seconds"),
        (&["--seconds", "nan"], "name seconds"),
        (&["--seconds=-1"], "name seconds"),
        (&["--seconds", "100000"], "up to 3600"),
        (&["a", "b"], "unexpected argument"),
        (&[""], "a value is required"),
    ] {
        let outcome = run(folder.path(), &[&["storage"], arguments].concat()).expect_status(2);
        assert!(outcome.stderr.contains(expected), "{arguments:?}: {}", outcome.stderr);
    }
}

#[test]
#[cfg(unix)]
fn a_signal_removes_the_file() {
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    let folder = TempDir::new().unwrap();
    let child = common::command(folder.path(), &["storage", "--seconds", "600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while names_in(folder.path()).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    common::send("TERM", child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("stopped; nothing was left behind"), "{message}");
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}
