//! `leafpress bench` from the outside, with inputs so small that its figures
//! mean nothing.

mod common;

use std::fs;

use common::{names_in, run};
use tempfile::TempDir;

#[test]
fn a_quick_run_prints_rungs_and_ratios_and_writes_its_report() {
    let folder = TempDir::new().unwrap();
    let sizes = ["--quick", "--rows", "5k", "--keys", "2k"];
    let only = ["--only", "csv_vs_sql,rows_vs_sql,keys_vs_sql", "--json", "report.json"];
    let arguments = [&["bench", "load", "presort"], &sizes[..], &only].concat();
    let outcome = run(folder.path(), &arguments).expect_status(0);
    for expected in [
        "presort: ",
        "load: Files and rows into a new table",
        "a CSV file\n",
        "leafpress, types detected",
        "loses nothing, also in a power cut",
        "── may lose everything: any crash can corrupt the file ──",
        "what follows",
        "csv_vs_sql",
        "keys_vs_sql",
    ] {
        assert!(outcome.stdout.contains(expected), "{expected}: {}", outcome.stdout);
    }
    for line in outcome.stdout.lines() {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
    assert_eq!(outcome.stderr, "", "quiet where stderr is no terminal");
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["experiment"], "presort load");
    assert!(report["ratios"]["rows_vs_sql"]["value"].as_f64().unwrap() > 0.0);
    assert_eq!(names_in(folder.path()), ["report.json"], "nothing else is left");
}

#[test]
fn a_quick_run_of_commits_prints_what_each_call_took() {
    let folder = TempDir::new().unwrap();
    let arguments = ["bench", "writer", "checkpoint", "--quick", "--repeats", "1"];
    let only = ["--only", "blocking64,pipelined_vs_one_transaction,worst_commit"];
    let arguments = [&arguments[..], &only, &["--commits", "2k", "--json", "r.json"]].concat();
    let outcome = run(folder.path(), &arguments).expect_status(0);
    for expected in [
        "durable, leafpress, 64 blocking",
        "SQL, one transaction",
        "relaxed: never corrupt",
        "commits, SQL, autocheckpoint",
        "p99.9",
        "WAL",
        "times better",
        "pipelined_vs_one_transaction",
        "order of magnitude only",
    ] {
        assert!(outcome.stdout.contains(expected), "{expected}: {}", outcome.stdout);
    }
    for line in outcome.stdout.lines() {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
    let report = fs::read_to_string(folder.path().join("r.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["settings"]["commits"], 2000);
    assert_eq!(report["settings"]["repeats"], 1);
    assert_eq!(report["ratios"].as_object().unwrap().len(), 3);
    let slots = report["rungs"].as_array().unwrap().iter().filter(|it| it["series"].is_object());
    assert_eq!(slots.count(), 2);
    assert_eq!(names_in(folder.path()), ["r.json"], "nothing else is left");
}

#[test]
fn a_quick_run_of_one_row_transactions_prints_calls_time_and_memory() {
    let folder = TempDir::new().unwrap();
    let arguments = ["bench", "atomic", "--quick", "--repeats", "1", "--transactions", "10"];
    let arguments = [&arguments[..], &["--full", "--assume-atomic", "--json", "r.json"]].concat();
    let outcome = run(folder.path(), &arguments).expect_status(0);
    for expected in [
        "calls of SQLite to its files",
        "time, and bytes written",
        "memory of SQLite, in KB",
        "update, exclusive locking, on the disk",
        "insert, shared locking, on the disk",
        "leafpress, assumed rebuildable",
        "truncate extra     rollback",
        "memory normal      rebuildable",
        "a crash can corrupt the file",
        "counted_vs_plain",
    ] {
        assert!(outcome.stdout.contains(expected), "{expected}: {}", outcome.stdout);
    }
    for line in outcome.stdout.lines().filter(|line| !line.starts_with("note: ")) {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
    let report = fs::read_to_string(folder.path().join("r.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["settings"]["transactions"], 10);
    assert_eq!(report["settings"]["assume_atomic"], true);
    assert!(report["settings"]["places"]["disk"]["sync_us_median"].as_f64().unwrap() > 0.0);
    let rungs = report["rungs"].as_array().unwrap();
    let of_one_row = rungs.iter().filter(|rung| rung["one_row"].is_object());
    assert_eq!(of_one_row.count(), 4 * (3 + 18));
    assert_eq!(names_in(folder.path()), ["r.json"], "nothing else is left");
}

#[test]
fn a_quick_run_of_jobs_prints_clients_claims_and_wake_ups() {
    let folder = TempDir::new().unwrap();
    let arguments = ["bench", "queue", "queue-inserts", "--quick", "--repeats", "1"];
    let only = ["--only", "cycle64,claim_100k_leased,wakeup,push64_vs_transactions"];
    let arguments = [&arguments[..], &only, &["--waiting", "300", "--json", "r.json"]].concat();
    let outcome = run(folder.path(), &arguments).expect_status(0);
    for expected in [
        "durable, leafpress, 64 × cycle",
        "durable, SQL, locking, 64 × cycle",
        "relaxed, leafpress, claim, 200 + 500 leased",
        "wake-up, leafpress, waiting",
        "wake-up, polling each ms, SQL",
        "Queue, 64 callers",
        "default, a transaction each",
        "a consumer in another process wakes up",
        "claim_100k_leased",
        "order of magnitude only",
    ] {
        assert!(outcome.stdout.contains(expected), "{expected}: {}", outcome.stdout);
    }
    for line in outcome.stdout.lines() {
        assert!(line.chars().count() <= 80, "too wide: {line}");
    }
    let report = fs::read_to_string(folder.path().join("r.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["settings"]["waiting_max"], 300);
    assert_eq!(report["ratios"].as_object().unwrap().len(), 4);
    let sync_us = &report["settings"]["storage_sync_after_append_us"]["p50_us"];
    assert!(sync_us.as_f64().unwrap() > 0.0);
    assert_eq!(names_in(folder.path()), ["r.json"], "nothing else is left");
}

#[test]
fn a_report_that_was_written_is_shown_again() {
    let folder = TempDir::new().unwrap();
    let only = ["--quick", "--only", "csv_typed_vs_sql", "--json", "r.json"];
    let first = run(folder.path(), &[&["bench", "load"], &only[..]].concat()).expect_status(0);
    let again = run(folder.path(), &["bench", "--from", "r.json", "--json", "s.json"]);
    let again = again.expect_status(0);
    assert_eq!(first.stdout.replace("r.json", "s.json"), again.stdout);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("r.json"), read("s.json"));
    let report: serde_json::Value = serde_json::from_str(&read("r.json")).unwrap();
    let command = "leafpress bench load --quick --only csv_typed_vs_sql";
    assert_eq!(report["command"], command, "without the file that it wrote");
    fs::write(folder.path().join("s.json"), "{}").unwrap();
    let outcome = run(folder.path(), &["bench", "--from", "s.json"]).expect_status(2);
    assert!(outcome.stderr.contains("is no report of leafpress bench"), "{}", outcome.stderr);
    run(folder.path(), &["bench", "--from", "missing.json"]).expect_status(3);
}

/// A report that is there already.
const OVERVIEW: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../leafpress-bench/tests/reports/overview.json");

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_cannot_be_written_costs_nothing_else() {
    let (folder, cache) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bench = ["bench", "load", "--quick", "--repeats", "1", "--json", "/dev/full"];
    let rest = ["--html", "r.html", "--csv", "r.csv"];
    let mut command = common::command(folder.path(), &[&bench[..], &rest].concat());
    let output = command.env("LEAFPRESS_CACHE", cache.path()).output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert_eq!(stderr.matches("/dev/full").count(), 1, "{stderr}");
    assert!(!stderr.contains("no report was written"), "{stderr}");
    assert!(stdout.contains("csv_vs_sql"), "{stdout}");
    assert!(stdout.ends_with("report: r.html\nreport: r.csv\n"), "{stdout}");
    assert_eq!(names_in(folder.path()), ["r.csv", "r.html"]);
    assert_eq!(names_in(cache.path()), ["leafpress"]);

    // Stdout is what the run was for.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = common::command(folder.path(), &["bench", "--from", OVERVIEW]);
    let status = command.args(["--json", "-"]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(3));
}

#[test]
fn a_run_whose_answer_cannot_be_written_has_failed_whatever_it_found() {
    let folder = TempDir::new().unwrap();
    let mut report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(OVERVIEW).unwrap()).unwrap();
    report["stopped"] = "stopped".into();
    fs::write(folder.path().join("stopped.json"), report.to_string()).unwrap();
    let arguments = ["bench", "--from", "stopped.json", "--json", "-"];
    run(folder.path(), &arguments).expect_status(1);
    #[cfg(target_os = "linux")]
    {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let status = common::command(folder.path(), &arguments).stdout(full).status().unwrap();
        assert_eq!(status.code(), Some(3));
    }
}

#[test]
fn two_outputs_are_never_one_file() {
    let folder = TempDir::new().unwrap();
    let whole = folder.path().join("r");
    let whole = whole.to_str().unwrap();
    for other in ["r", "./r", whole] {
        let arguments = ["bench", "--from", OVERVIEW, "--json", "r", "--html", other];
        let said = run(folder.path(), &arguments).expect_status(2);
        assert!(said.stderr.contains("--json and --html both name"), "{}", said.stderr);
        assert_eq!(names_in(folder.path()), [""; 0]);
    }
    #[cfg(unix)]
    {
        fs::write(folder.path().join("r"), "").unwrap();
        std::os::unix::fs::symlink("r", folder.path().join("link")).unwrap();
        let arguments = ["bench", "--from", OVERVIEW, "--json", "link", "--html", "r"];
        run(folder.path(), &arguments).expect_status(2);
    }
    let arguments = ["bench", "--from", OVERVIEW, "--json", "r", "--html", "./s"];
    run(folder.path(), &arguments).expect_status(0);
}

#[test]
fn an_earlier_report_takes_no_flag_that_says_how_to_measure() {
    let folder = TempDir::new().unwrap();
    for flags in [
        &["ladder"][..],
        &["--bytes", "1M"],
        &["--rows", "1k"],
        &["--keys", "1k"],
        &["--commits", "1k"],
        &["--transactions", "9"],
        &["--full"],
        &["--xfs-loop"],
        &["--assume-atomic"],
        &["--waiting", "1k"],
        &["--repeats", "9"],
        &["--dir", "."],
        &["--only", "csv_vs_sql"],
        &["--quick"],
        &["--large"],
        &["--simulate", "hdd"],
        &["--max-disk", "1G"],
        &["--keep-cache"],
    ] {
        let arguments = [&["bench", "--from", OVERVIEW], flags].concat();
        let said = run(folder.path(), &arguments).expect_status(2);
        assert!(said.stderr.contains("cannot be used with"), "{flags:?}: {}", said.stderr);
    }
}

#[test]
fn a_quick_run_does_what_its_flags_say() {
    let folder = TempDir::new().unwrap();
    let flags = ["bench", "writer", "--quick", "--repeats", "3", "--only", "alone", "--json", "-"];
    let report = run(folder.path(), &flags).expect_status(0).json();
    assert_eq!(report["rungs"][0]["runs_s"].as_array().unwrap().len(), 3);
    assert_eq!(report["settings"]["repeats"], 3);
}

#[test]
fn runs_that_were_left_out_are_told() {
    let folder = TempDir::new().unwrap();
    let mut report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(OVERVIEW).unwrap()).unwrap();
    report["settings"]["left_out"] = "12 runs, to end in 10 minutes".into();
    fs::write(folder.path().join("r.json"), report.to_string()).unwrap();
    let said = run(folder.path(), &["bench", "--from", "r.json"]).expect_status(0);
    assert!(said.stdout.contains("left out: 12 runs, to end in 10 minutes"), "{}", said.stdout);
}

#[test]
fn json_on_stdout_is_one_object_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let arguments = ["bench", "load", "--quick", "--only", "csv_typed_vs_sql", "--json", "-"];
    let report = run(folder.path(), &arguments).expect_status(0).json();
    assert_eq!(report["rungs"].as_array().unwrap().len(), 2);
    let arguments = ["bench", "load", "--only", "nonsense", "--json", "-"];
    let error = run(folder.path(), &arguments).expect_status(2).json();
    assert_eq!(error["error"]["kind"], "misuse");
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn a_report_becomes_lines_for_a_spreadsheet() {
    let folder = TempDir::new().unwrap();
    let from = ["bench", "--from", OVERVIEW];
    let lines = run(folder.path(), &[&from[..], &["--csv", "-"]].concat()).expect_status(0).stdout;
    assert!(lines.starts_with("experiment,chart,rung,label,safety,may_lose,ours,rows,"), "{lines}");
    assert!(
        lines.contains("\nladder,\"100,000 rows\",\"ladder, leafpress, pressed\",pressed,durable,")
    );
    let report = fs::read_to_string(OVERVIEW).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(lines.lines().count(), 1 + report["rungs"].as_array().unwrap().len());

    let said = run(folder.path(), &[&from[..], &["--csv", "r.csv"]].concat()).expect_status(0);
    assert_eq!(fs::read_to_string(folder.path().join("r.csv")).unwrap(), lines);
    assert!(
        said.stdout.ends_with("report: r.csv\n") && said.stdout.contains('█'),
        "{}",
        said.stdout
    );
    assert!(!said.stdout.contains('\x1b'), "no colours off a terminal");
    run(folder.path(), &[&from[..], &["--csv", "-", "--json", "-"]].concat()).expect_status(2);
    run(folder.path(), &[&from[..], &["--csv", "none/r.csv"]].concat()).expect_status(2);
    assert_eq!(names_in(folder.path()), ["r.csv"]);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_measured() {
    let folder = TempDir::new().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--only", "nonsense"], "csv_vs_sql"),
        (&["--only", "keys_vs_sql"], "no keys_vs_sql in the experiment load"),
        (&["presort", "--only", "nonsense"], "csv_vs_sql"),
        (&["presort", "--only", "nonsense"], "keys_vs_sql"),
        (&["presort", "nonsense"], "presort"),
        (&["--keys", "0"], "from 1 up"),
        (&["--commits", "0"], "from 1 up"),
        (&["--transactions", "0"], "from 1 up"),
        (&["--waiting", "0"], "from 1 up"),
        (&["queue", "--only", "nonsense"], "claim_10m"),
        (&["queue-inserts", "--only", "cycle64"], "push64_vs_transactions"),
        (&["atomic", "--only", "nonsense"], "atomic_vs_journal_exclusive"),
        (&["writer", "--only", "nonsense"], "blocking64"),
        (&["checkpoint", "--only", "alone"], "worst_commit_slow"),
        (&["--json", "missing/report.json"], "no such folder"),
        (&["--json", "."], "a folder"),
        (&["--quick", "--max-disk", "1M"], "at most 1 MB may be taken"),
        (&["--quick", "--large"], "cannot be used with"),
        (&["--from", "missing.json"], "cannot be used with"),
        (&["--bytes", "0"], "from 1 up"),
        (&["--rows", "10M,x"], "from 1 up"),
        (&["--repeats", "0"], "from 1 up"),
    ];
    for (arguments, expected) in cases {
        let arguments = [&["bench", "load"], *arguments].concat();
        let outcome = run(folder.path(), &arguments).expect_status(2);
        assert!(outcome.stderr.contains(expected), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
    }
    run(folder.path(), &["bench", "nonsense"]).expect_status(2);
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn generate_makes_the_table_and_overwrites_nothing() {
    let folder = TempDir::new().unwrap();
    let arguments = ["bench", "generate", "--bytes", "100k", "data.csv"];
    run(folder.path(), &arguments).expect_status(0);
    let text = fs::read_to_string(folder.path().join("data.csv")).unwrap();
    assert!(text.len() >= 100_000 && text.starts_with("id,quantity,"), "{} bytes", text.len());
    let outcome = run(folder.path(), &arguments).expect_status(3);
    assert!(outcome.stderr.contains("exists already"), "{}", outcome.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("data.csv")).unwrap(), text);
    let rows = ["--rows", "2k", "--format", "ndjson", "data.ndjson"];
    run(folder.path(), &[&["bench", "generate"], &rows[..]].concat()).expect_status(0);
    let text = fs::read_to_string(folder.path().join("data.ndjson")).unwrap();
    assert!(text.starts_with("{\"id\":1,\"quantity\":"), "{}", &text[..60]);
    assert_eq!(text.lines().count(), 2000);
    run(folder.path(), &["bench", "generate", "more.csv"]).expect_status(2);
    let both = ["bench", "generate", "--rows", "1", "--bytes", "1", "more.csv"];
    run(folder.path(), &both).expect_status(2);
}

#[test]
fn a_rung_that_cannot_be_understood_fails() {
    let folder = TempDir::new().unwrap();
    let outcome = run(folder.path(), &["bench", "--rung", "{}"]).expect_status(2);
    assert!(outcome.stderr.contains("--rung"), "{}", outcome.stderr);
}

/// The request goes to the experiment alone, which has a rung that would take minutes.
#[test]
#[cfg(unix)]
fn sigterm_ends_the_rung_that_is_under_way() {
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    let folder = TempDir::new().unwrap();
    let large = ["--rows", "100M", "--max-disk", "9G"];
    let arguments = [&["bench", "load", "--only", "rows_vs_sql"], &large[..]].concat();
    let mut command = common::command(folder.path(), &arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let wait = |seconds: u64, mut is_done: Box<dyn FnMut() -> bool + '_>| {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        while !is_done() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let has_database = || {
        let folders = names_in(folder.path());
        folders.iter().any(|name| folder.path().join(name).join("bench.db").exists())
    };
    wait(300, Box::new(has_database));
    common::send("TERM", child.id());
    wait(30, Box::new(|| child.try_wait().unwrap().is_some()));
    let status = child.try_wait().unwrap();
    let _ = child.kill();
    assert_eq!(status.and_then(|it| it.code()), Some(3), "it goes on, or does not say so");
    assert_eq!(names_in(folder.path()), [""; 0]);
}

/// Starts a run, and interrupts it when so many of its rungs have begun. As on a terminal:
/// ctrl-C goes to the experiment and to its rung alike.
#[cfg(unix)]
fn interrupted(folder: &std::path::Path, arguments: &[&str], rungs_count: usize) -> (i32, String) {
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    let mut child = common::command(folder, arguments)
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    let has_database = || {
        let folders = names_in(folder);
        folders.iter().any(|name| folder.join(name).join("bench.db").exists())
    };
    let wait_until = |wanted: bool| {
        while has_database() != wanted {
            assert!(Instant::now() < deadline, "the rung does not come or go");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    for _ in 1..rungs_count {
        wait_until(true);
        wait_until(false);
    }
    wait_until(true);
    let group = format!("-{}", child.id());
    let sent = std::process::Command::new("kill").args(["-s", "INT", "--", &group]).status();
    assert!(sent.unwrap().success());
    let status = child.wait().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    (status.code().unwrap_or(-1), said)
}

#[test]
#[cfg(unix)]
fn ctrl_c_stops_and_leaves_nothing() {
    if common::is_skipped_without_ctrl_c() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let large = ["--rows", "100M", "--max-disk", "9G", "--json", "r"];
    let arguments = [&["bench", "load", "--only", "rows_vs_sql"], &large[..]].concat();
    let (status, said) = interrupted(folder.path(), &arguments, 1);
    assert_eq!(status, 3, "{said}");
    assert!(said.contains("stopped; nothing was measured, no report was written"), "{said}");
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
#[cfg(unix)]
fn ctrl_c_reports_what_is_done() {
    if common::is_skipped_without_ctrl_c() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let slow = ["--commits", "20k", "--repeats", "50", "--json", "r.json"];
    let arguments = [&["bench", "checkpoint", "--only", "worst_commit"], &slow[..]].concat();
    let (status, said) = interrupted(folder.path(), &arguments, 4);
    assert_eq!(status, 1, "{said}");
    assert_eq!(names_in(folder.path()), ["r.json"]);
    let report = fs::read_to_string(folder.path().join("r.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let stopped = report["stopped"].as_str().unwrap();
    assert!(stopped.contains("of 100 runs") && stopped.contains("checkpoint"), "{stopped}");
    assert!(report["ratios"]["worst_commit"]["value"].as_f64().unwrap() > 0.0);
    let rounds = report["rungs"][0]["runs_s"].as_array().unwrap().len();
    assert!((1..50).contains(&rounds), "{rounds} rounds");
}
