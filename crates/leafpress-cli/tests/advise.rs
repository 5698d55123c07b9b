//! `leafpress advise` from the outside: what it says for every kind of program, what it
//! remembers of benches, and that a broken cache breaks nothing.

mod common;

use std::fs;
use std::path::Path;

use common::{Outcome, command, names_in};
use serde_json::Value;
use tempfile::TempDir;

/// Runs with a cache of its own.
fn run_with(cache: &Path, folder: &Path, arguments: &[&str]) -> Outcome {
    let output = command(folder, arguments).env("LEAFPRESS_CACHE", cache).output().unwrap();
    Outcome {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn assert_fits(text: &str) {
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
}

/// The one folder in the cache that is a disk's.
fn disk_of(cache: &Path) -> std::path::PathBuf {
    let bench = cache.join("leafpress/bench");
    let disks = names_in(&bench);
    assert_eq!(disks.len(), 1, "{disks:?}");
    bench.join(&disks[0])
}

#[test]
fn every_program_gets_a_profile_its_reasons_and_the_lines() {
    let (cache, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for (arguments, profile, expected) in [
        (&[][..], "durable", "Writer::builder(\"app.db\").open()?"),
        (&["--power-cut", "survives"], "durable", "survives a power cut"),
        (&["--power-cut", "may-lose-last"], "relaxed", ".profile(Profile::Relaxed)"),
        (&["--power-cut", "rebuildable"], "rebuildable", ".rebuildable_ok()"),
        (&["--attached"], "rollback", "ProfileRequest::new(Profile::Rollback);\n"),
        (&["--rows", "50M"], "durable", "leafpress load app.db rows.csv"),
        (&["--rows", "50M", "--writers", "16"], "durable", "for 16 callers"),
        (&["new.db", "--size", "4G"], "durable", "leafpress load"),
    ] {
        let arguments = [&["advise"], arguments].concat();
        let said = run_with(cache.path(), folder.path(), &arguments).expect_status(0);
        assert_eq!(said.stderr, "");
        // In memory, which a temporary folder may be, nothing is durable.
        let is_memory = said.stdout.contains("this is memory");
        let named = format!("profile {profile} (");
        assert!(is_memory || said.stdout.contains(&named), "{arguments:?}: {}", said.stdout);
        assert!(is_memory || said.stdout.contains(expected), "{expected}: {}", said.stdout);
        // No experiment measures attached databases.
        let is_measured = !arguments.contains(&"--attached");
        assert_eq!(
            said.stdout.contains("nothing was measured on this disk yet"),
            is_measured,
            "{}",
            said.stdout
        );
        assert_eq!(said.stdout.contains("leafpress bench "), is_measured, "{}", said.stdout);
        assert!(!said.stdout.contains('\x1b'), "no colours off a terminal");
        assert_fits(&said.stdout);
    }
    assert_eq!(names_in(folder.path()), [""; 0], "nothing is left");
    assert_eq!(names_in(cache.path()), [""; 0], "nor kept");
}

#[test]
fn contradictions_are_usage_errors() {
    let (cache, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for (arguments, expected) in [
        (&["--attached", "--power-cut", "rebuildable"][..], "leave one of both out"),
        (&["--rows", "100", "--size", "99"], "cannot fit into 99 bytes"),
        (&["--power-cut", "never"], "may-lose-last"),
        (&["--writers", "0"], "from 1 up"),
        (&["--rows", "0"], "from 1 up"),
        (&["--size", "much"], "from 1 up"),
        (&["a", "b"], "unexpected argument"),
    ] {
        let arguments = [&["advise"], arguments].concat();
        let said = run_with(cache.path(), folder.path(), &arguments).expect_status(2);
        assert!(said.stderr.contains(expected), "{arguments:?}: {}", said.stderr);
        let arguments = [&arguments[..], &["--json"]].concat();
        let said = run_with(cache.path(), folder.path(), &arguments).expect_status(2);
        assert_eq!(said.json()["error"]["kind"], "misuse");
    }
    let said = run_with(cache.path(), folder.path(), &["advise", "none/app.db"]).expect_status(3);
    assert!(said.stderr.contains("name a folder that is there"), "{}", said.stderr);
}

#[test]
fn a_bench_is_remembered_and_reckoned_with() {
    let (cache, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bench = ["bench", "ladder", "--quick", "--repeats", "1"];
    let said = run_with(cache.path(), folder.path(), &bench).expect_status(0);
    assert_eq!(said.stderr, "");
    let disk = disk_of(cache.path());
    assert_eq!(names_in(&disk), ["ladder-quick.json"]);

    let asked = ["advise", "--rows", "1M"];
    let said = run_with(cache.path(), folder.path(), &asked).expect_status(0);
    // Wherever its lines break.
    let words: Vec<&str> = said.stdout.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("1,000,000 rows: about "), "{words}");
    assert!(words.contains("a quick run: the order of magnitude only"), "{words}");
    assert!(!said.stdout.contains("nothing was measured"), "{}", said.stdout);
    assert_fits(&said.stdout);

    // What is no report any more is as if it were not there.
    for garbage in ["", "{", "[]", "{\"experiment\": \"ladder\"}", "\u{0}\u{ff}"] {
        fs::write(disk.join("ladder-quick.json"), garbage).unwrap();
        let said = run_with(cache.path(), folder.path(), &asked).expect_status(0);
        assert!(said.stdout.contains("nothing was measured"), "{garbage}: {}", said.stdout);
        assert_eq!(said.stderr, "", "{garbage}");
    }
}

#[test]
fn a_part_of_an_experiment_is_not_remembered() {
    let (cache, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bench = ["bench", "ladder", "--quick", "--repeats", "1", "--only", "ladder_vs_equal"];
    run_with(cache.path(), folder.path(), &bench).expect_status(0);
    assert_eq!(names_in(cache.path()), [""; 0]);
}

#[test]
fn a_cache_that_cannot_be_written_is_a_note_and_no_failure() {
    let folder = TempDir::new().unwrap();
    // Not even root can make a folder in a file.
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let bench = ["bench", "ladder", "--quick", "--repeats", "1", "--json", "r.json"];
    let said = run_with(&file, folder.path(), &bench).expect_status(0);
    assert!(said.stderr.contains("note: ") && said.stderr.contains("LEAFPRESS_CACHE"));
    assert!(said.stdout.contains("report: r.json"), "{}", said.stdout);
    let said = run_with(&file, folder.path(), &["advise"]).expect_status(0);
    assert!(said.stdout.contains("nothing was measured"), "{}", said.stdout);
    assert_eq!(names_in(folder.path()), ["file", "r.json"]);
}

/// Every field, those of objects inside as `outer.inner`, of lists as `outer.inner`.
fn fields_of(value: &Value, prefix: &str, fields: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                let path =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                fields_of(inner, &path, fields);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for item in items {
                fields_of(item, prefix, fields);
            }
        }
        _ => fields.push(prefix.to_owned()),
    }
}

#[test]
fn the_object_has_the_fields_that_are_documented() {
    let (cache, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bench = ["bench", "ladder", "--quick", "--repeats", "1"];
    run_with(cache.path(), folder.path(), &bench).expect_status(0);
    let asked = ["advise", "--rows", "1M", "--writers", "8", "--json"];
    let object = run_with(cache.path(), folder.path(), &asked).expect_status(0).json();
    let mut fields = Vec::new();
    fields_of(&object, "", &mut fields);
    // A way that was not measured has no estimate.
    fields.retain(|field| field != "ways.estimate");
    fields.sort();
    fields.dedup();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md");
    let docs = fs::read_to_string(path).unwrap();
    let (_, section) = docs.split_once("\n## Advise\n").unwrap();
    let (_, section) = section.split_once("\n### The JSON object\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let mut documented: Vec<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    documented.sort_unstable();
    assert_eq!(fields, documented);
}
