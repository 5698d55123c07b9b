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
    for heading in [
        "The table:",
        "Columns:",
        "Keys and indexes:",
        "A table that is there already:",
        "The input:",
        "Bad rows:",
        "The run:",
    ] {
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
        (&["doctor"], "--busy-timeout", "doctor.md"),
        (&["storage"], "--seconds", "durability.md"),
        (&["io"], "--repeat", "io.md"),
        (&["advise"], "--power-cut", "experiments.md"),
        (&["bench", "load"], "--repeats", "benchmarks.md"),
        (&["queue", "push"], "--ndjson", "queue.md"),
        (&["queue", "work"], "--exec", "queue.md"),
        (&["queue", "claim"], "--wait", "queue.md"),
        (&["queue", "ack"], "--result", "queue.md"),
        (&["queue", "nack"], "--error", "queue.md"),
        (&["queue", "fail"], "--reason", "queue.md"),
        (&["queue", "release"], "--profile", "queue.md"),
        (&["queue", "extend"], "--lease", "queue.md"),
        (&["queue", "list"], "--newest", "queue.md"),
        (&["queue", "show"], "--json", "queue.md"),
        (&["queue", "stats"], "--watch", "queue.md"),
        (&["queue", "retry"], "--all-dead", "queue.md"),
        (&["queue", "remove"], "--json", "queue.md"),
        (&["queue", "purge"], "--older-than", "queue.md"),
        (&["queue", "pause"], "--json", "queue.md"),
        (&["queue", "resume"], "--json", "queue.md"),
        (&["queue", "settings"], "--backoff", "queue.md"),
        (&["queue", "schedule", "add"], "--missed", "queue.md"),
        (&["queue", "schedule", "list"], "--json", "queue.md"),
        (&["queue", "schedule", "remove"], "--json", "queue.md"),
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
fn the_examples_of_the_help_are_valid_command_lines() {
    let folder = TempDir::new().unwrap();
    let help = run(folder.path(), &["load", "--help"]).expect_status(0).stdout;
    let text = help.replace("\\\n", " ");
    let examples: Vec<_> =
        text.lines().map(str::trim).filter(|line| line.starts_with("leafpress load ")).collect();
    // One of them needs the feature rqlite.
    assert_eq!(examples.len(), 10 + usize::from(cfg!(feature = "rqlite")), "{examples:?}");
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).unwrap();
    fs::write(logs.join("2026-01.ndjson.gz"), "").unwrap();
    for example in examples {
        let words = shell_words(example);
        let words: Vec<_> = words.iter().skip(1).map(String::as_str).collect();
        // Understood, and then there is no such input, or an empty one.
        let outcome = run(folder.path(), &words);
        let reason = format!("{example}: {}", outcome.stderr);
        assert!(outcome.status == 3 || outcome.stderr.contains("no column is left"), "{reason}");
    }
}

/// Words between blanks, in single quotes where they hold some.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (index, part) in line.split('\'').enumerate() {
        let is_quoted = index % 2 == 1;
        for (index, piece) in part.split(|it: char| !is_quoted && it == ' ').enumerate() {
            if index > 0 {
                words.push(String::new());
            }
            words.last_mut().unwrap().push_str(piece);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn contradictions_are_usage_errors_that_say_what_to_do() {
    let folder = TempDir::new().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["a.db"], "INPUT"),
        (&["a.db", "a.csv", "-"], "loaded by itself"),
        (&["a.db", "*.csv"], "no file fits *.csv"),
        (&["a.csv", "a.db"], "the database comes first"),
        (&["x", "x"], "the same file"),
        (&["-", "a.csv"], "must be a file"),
        (&["a.db", "a.csv", "--tsv", "--delimiter", ","], "cannot be used with"),
        (&["a.db", "a.csv", "--delimiter", "||"], "2 bytes"),
        (&["a.db", "a.csv", "--delimiter", "\""], "same byte"),
        (&["a.db", "a.csv", "--escape", "\""], "same byte"),
        (&["a.db", "a.csv", "--quote", "ab"], "2 bytes"),
        (&["a.db", "a.csv", "--rejects", "r"], "--on-error skip"),
        (&["a.db", "a.csv", "--max-rejects", "3"], "--on-error skip"),
        (&["a.db", "a.csv", "--on-error", "skip", "--rejects", "a.csv"], "overwrite the input"),
        (&["a.db", "a.csv", "--on-error", "skip", "--rejects", "a.db"], "overwrite the database"),
        (
            &["a.db", "a.csv", "--on-error", "skip", "--rejects", "a.db-wal"],
            "overwrite a file of the database",
        ),
        (&["a.db", "a.csv", "--type", "a"], "COLUMN=TYPE"),
        (&["a.db", "a.csv", "--type", "a=int"], "perhaps integer"),
        (&["a.db", "a.csv", "--type", "a=text", "--type", "a=real"], "two types"),
        (&["a.db", "a.csv", "--type", "a=timestamp"], "perhaps datetime"),
        (&["a.db", "a.csv", "--create", "x", "--schema", "y"], "cannot be used with"),
        (&["a.db", "a.csv", "--create", "x", "--pk", "id"], "leave out --pk"),
        (&["a.db", "a.csv", "--schema", "x", "--strict"], "leave out --strict"),
        (&["a.db", "a.csv", "--create", "x", "--all-text"], "leave out --all-text"),
        (&["a.db", "a.csv", "--create", "x", "--not-null", "a"], "leave out --not-null"),
        (&["a.db", "a.csv", "--append", "--replace"], "cannot be used with"),
        (&["a.db", "a.csv", "--upsert", "--on-conflict", "ignore"], "leave out --on-conflict"),
        (&["a.db", "a.csv", "--ignore", "--on-conflict", "ignore"], "leave out --on-conflict"),
        (&["a.db", "a.csv", "--select", "a", "--drop", "b"], "cannot be used with"),
        (&["a.db", "a.csv", "--rename", "a"], "OLD=NEW"),
        (&["a.db", "a.csv", "--memory", "lots"], "such as 512M"),
        (&["a.db", "a.csv", "--busy-timeout", "5s"], "milliseconds"),
        (&["a.db", "a.csv", "--format", "xml"], "json"),
        (&["a.db", "a.json", "--tsv"], "add --format csv"),
        (&["a.db", "a.csv", "--format", "ndjson", "--no-header"], "--no-header is for CSV"),
        (&["a.db", "a.csv", "--page-size", "1000"], "page sizes are 512"),
        (&["a.db", "a.csv", "--threads", "0"], "from 1 up"),
        (&["a.db", "a.csv", "--ragged", "cut"], "truncate"),
        (&["a.db", "a.csv", "--no-such-flag"], "--no-such-flag"),
        (&["rqlite://h:4001", "a.csv", "--append", "--on-conflict", "ignore"], "alone decides"),
        (&["rqlite://h:4001", "b.db::t", "--append"], "add --table"),
        (&["rqlite://h:4001", "a.csv", "--append", "--create", "CREATE TABLE t(a)"], "add --table"),
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
fn help_shows_clusters_where_the_build_reaches_them() {
    let folder = TempDir::new().unwrap();
    for command in ["load", "doctor", "queue"] {
        let help = run(folder.path(), &[command, "--help"]).expect_status(0).stdout;
        assert_eq!(help.contains("rqlite://"), cfg!(feature = "rqlite"), "{help}");
    }
}

/// A cluster is behind a feature, and its URL is no path.
#[test]
#[cfg(not(feature = "rqlite"))]
fn a_cluster_needs_a_build_that_knows_it() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.csv"), "id\n1\n").unwrap();
    for arguments in [
        &["load", "rqlite://h:4001", "a.csv"][..],
        &["queue", "push", "rqlite://h:4001", "mail", "x"],
        &["queue", "claim", "rqlites://h:4001", "mail"],
        &["queue", "list", "rqlite://h:4001", "mail"],
        &["queue", "stats", "rqlite://h:4001"],
        &["doctor", "rqlite://h:4001"],
    ] {
        let outcome = run(folder.path(), arguments).expect_status(2);
        assert!(outcome.stderr.contains("--features rqlite"), "{}", outcome.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn messages_show_no_password() {
    let folder = TempDir::new().unwrap();
    for arguments in [
        &["verify", "rqlite://ann:sw0rdfish@db1:4001"][..],
        &["verify", "rqlite://ann:sw0rdfish"],
        &["verify", "a.db", "rqlite://ann:sw0rdfish@db1:4001"],
        &["index", "rqlite://ann:sw0rdfish@db1:4001", "t", "a"],
        &["io", "rqlites://ann:sw0rdfish@db1:4001", "-c", "x"],
        &["storage", "rqlite://ann:pa?sw0rdfish@db1:4001"],
        &["advise", "rqlite://ann:sw0rdfish@db1:4001"],
        &["load", "rqlite:/ann:sw0rdfish@db1", "a.csv"],
        &["load", "RQLITE://ann:sw0rdfish@db1", "a.csv"],
        &["load", "rqlite://ann:sw0rdfish@db1", "a.csv", "--rqlite://ann:sw0rdfish@db1"],
        &["load", "a.db", "a.csv", "--type=rqlite://ann:sw0rdfish"],
        &["doctor", "rqlite:/ann:sw0rdfish@db1"],
        &["doctor", "rqlite://ann:sw0rdfish"],
        &["queue", "push", "Rqlite://ann:sw0rdfish@db1", "mail", "x"],
        &["shards", "list", "s3://AKIA:wJalr/sw0rdfish@bucket/x"],
        &["shards", "list", "az://container/x?sig=sw0rdfish"],
        &["shards", "list", "s3://bucket/x", "s3://AKIA:sw0rdfish@bucket/x"],
    ] {
        for json in [&[][..], &["--json"]] {
            let outcome = run(folder.path(), &[arguments, json].concat());
            assert!((2..=3).contains(&outcome.status), "{arguments:?}");
            let said = outcome.stdout + &outcome.stderr;
            assert!(!said.is_empty() && !said.contains("sw0rdfish"), "{said}");
        }
    }
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
        assert_eq!(error["kind"], "misuse");
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
    let folder = TempDir::new().unwrap();
    for arguments in [&["completions", "bash"][..], &["load", "--help"], &["man"]] {
        common::run_with_reader_gone(folder.path(), arguments);
    }
}
