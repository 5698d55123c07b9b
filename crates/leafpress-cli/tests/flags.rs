//! The command line itself: help, documentation, contradictions, completions
//! and manual pages. Nothing here loads a row.

mod common;

use std::fs;
use std::path::Path;

use common::run;
use tempfile::TempDir;

/// Every `--flag` in a help text, as it stands at the start of its entry.
fn flags_of(help: &str) -> Vec<&str> {
    let mut flags: Vec<_> = help
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .filter_map(|line| line.split([' ', ',']).find(|word| word.starts_with("--")))
        .collect();
    flags.sort_unstable();
    flags.dedup();
    flags
}

#[test]
fn help_is_long_with_examples_and_short_without() {
    let folder = TempDir::new().unwrap();
    let long = run(folder.path(), &["load", "--help"]).expect_status(0).stdout;
    let short = run(folder.path(), &["load", "-h"]).expect_status(0).stdout;
    for heading in ["The table:", "The input:", "Bad rows:", "The run:"] {
        assert!(long.contains(heading) && short.contains(heading), "{heading}");
    }
    assert!(long.contains("Examples:") && !short.contains("Examples:"));
    assert!(long.contains("Exit status:"));
    assert!(short.lines().count() < long.lines().count() / 2);
    for text in [long, short] {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "too wide: {line}");
        }
    }
}

#[test]
fn every_flag_is_documented() {
    let folder = TempDir::new().unwrap();
    let commands = [
        (&["load"][..], "--dry-run", "loading.md"),
        (&["verify"], "--quick", "loading.md"),
        (&["index"], "--unique", "loading.md"),
        (&["bench", "load"], "--repeats", "benchmarks.md"),
    ];
    for (command, known, document) in commands {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
        let docs = fs::read_to_string(path).unwrap();
        let help = run(folder.path(), &[command, &["--help"]].concat()).expect_status(0).stdout;
        let flags = flags_of(&help);
        assert!(flags.contains(&known), "{flags:?}");
        for flag in flags {
            let is_documented = docs.lines().any(|line| {
                line.starts_with("| `") && line.split(['`', ' ', ',']).any(|word| word == flag)
            });
            assert!(is_documented, "{command:?} {flag} has no row in docs/{document}");
        }
    }
}

#[test]
fn every_example_of_the_help_is_a_valid_command_line() {
    let folder = TempDir::new().unwrap();
    let help = run(folder.path(), &["load", "--help"]).expect_status(0).stdout;
    let text = help.replace("\\\n", " ");
    let examples: Vec<_> =
        text.lines().map(str::trim).filter(|line| line.starts_with("leafpress load ")).collect();
    assert!(examples.len() >= 6, "{examples:?}");
    for example in examples {
        let words: Vec<_> =
            example.split_whitespace().skip(1).map(|word| word.trim_matches('\'')).collect();
        // Understood, and then there is no such input; stdin is empty.
        let status = run(folder.path(), &words).status;
        assert_ne!(status, 2, "{example}");
    }
}

#[test]
fn contradictions_are_usage_errors_that_say_what_to_do() {
    let folder = TempDir::new().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["a.db"], "INPUT"),
        (&["a.db", "a.csv", "b.csv"], "one INPUT per load for now"),
        (&["a.csv", "a.db"], "the database comes first"),
        (&["x", "x"], "the same file"),
        (&["-", "a.csv"], "must be a file"),
        (&["a.db", "a.csv", "--tsv", "--delimiter", ","], "cannot be used with"),
        (&["a.db", "a.csv", "--delimiter", "||"], "2 bytes"),
        (&["a.db", "a.csv", "--delimiter", "\""], "same character"),
        (&["a.db", "a.csv", "--escape", "\""], "same character"),
        (&["a.db", "a.csv", "--quote", "ab"], "2 bytes"),
        (&["a.db", "a.csv", "--rejects", "r"], "--on-error skip"),
        (&["a.db", "a.csv", "--max-rejects", "3"], "--on-error skip"),
        (&["a.db", "a.csv", "--on-error", "skip", "--rejects", "a.csv"], "overwrite the input"),
        (&["a.db", "a.csv", "--on-error", "skip", "--rejects", "a.db"], "overwrite the database"),
        (&["a.db", "a.csv", "--type", "a"], "COLUMN=TYPE"),
        (&["a.db", "a.csv", "--type", "a=int"], "perhaps integer"),
        (&["a.db", "a.csv", "--type", "a=text", "--type", "A=real"], "two types"),
        (&["a.db", "a.csv", "--pk", "id", "--type", "id=text"], "INTEGER PRIMARY KEY"),
        (&["a.db", "a.csv", "--page-size", "1000"], "page sizes are 512"),
        (&["a.db", "a.csv", "--threads", "0"], "from 1 up"),
        (&["a.db", "a.csv", "--ragged", "cut"], "truncate"),
        (&["a.db", "a.csv", "--quiet", "--json"], "cannot be used with"),
        (&["a.db", "a.csv", "--no-such-flag"], "--no-such-flag"),
    ];
    for (arguments, expected) in cases {
        let arguments = [&["load"], *arguments].concat();
        let outcome = run(folder.path(), &arguments).expect_status(2);
        assert!(outcome.stderr.contains(expected), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.starts_with("error: "), "{}", outcome.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_usage_error_is_an_object_too_where_json_is_asked_for() {
    let folder = TempDir::new().unwrap();
    for arguments in [
        &["load", "a.db", "a.csv", "--json", "--rejects", "r"][..],
        &["load", "a.db", "--json"],
        &["verify", "--json", "--nope"],
    ] {
        let outcome = run(folder.path(), arguments).expect_status(2);
        let error = &outcome.json()["error"];
        assert_eq!(error["kind"], "usage");
        assert!(!error["message"].as_str().unwrap().contains("Usage:"));
        assert!(outcome.stderr.contains("Usage:") || outcome.stderr.contains("--help"));
    }
}

#[test]
fn every_shell_gets_its_completions() {
    let folder = TempDir::new().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(folder.path(), &["completions", shell]).expect_status(0).stdout;
        assert!(script.contains("max-rejects") && script.contains("verify"), "{shell}");
    }
    run(folder.path(), &["completions", "cmd"]).expect_status(2);
}

#[test]
fn manual_pages_are_made_for_every_command() {
    let folder = TempDir::new().unwrap();
    let main = run(folder.path(), &["man"]).expect_status(0).stdout;
    assert!(main.contains(".TH leafpress 1"), "{main}");
    run(folder.path(), &["man", "pages/man1"]).expect_status(0);
    let made = |name: &str| fs::read_to_string(folder.path().join("pages/man1").join(name));
    assert!(made("leafpress.1").unwrap().contains("leafpress\\-load"));
    assert!(made("leafpress-load.1").unwrap().contains("max\\-rejects"));
    assert!(made("leafpress-verify.1").unwrap().contains("quick"));

    fs::write(folder.path().join("a-file"), "").unwrap();
    let outcome = run(folder.path(), &["man", "a-file"]).expect_status(3);
    assert!(outcome.stderr.contains("a-file"), "{}", outcome.stderr);
}

#[test]
#[cfg(unix)]
fn a_reader_that_leaves_early_causes_no_panic() {
    use std::process::Stdio;

    let folder = TempDir::new().unwrap();
    for arguments in [&["completions", "bash"][..], &["load", "--help"], &["man"]] {
        let mut child = common::command(folder.path(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}
