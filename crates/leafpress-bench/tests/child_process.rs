//! The experiments as people run them: every rung in a process of its own.
//!
//! The runner starts its own executable again, so this test has no harness:
//! started as `bench --rung REQUEST` it is the rung, else it is the test.

use std::path::Path;

use leafpress::load::Loader;
use leafpress_bench::experiment::run;
use leafpress_bench::generate::{FileSize, TextFormat, write_table};
use leafpress_bench::options::{AtomicOptions, BenchOptions, Experiment, Size};
use leafpress_bench::report::{ExperimentReport, Safety};
use leafpress_bench::rung::{RUNG_FLAG, run_rung_line};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, "bench", RUNG_FLAG, request] => {
            play_member_that_fails(request);
            play_rung(request);
        }
        [_, "load", database, csv, "--table", table] => play_load(database, csv, table),
        [_, flags @ ..] if flags.contains(&"--list") => {}
        _ => {
            a_quick_run_of_many_processes_compares_everything();
            a_member_that_fails_or_hangs_is_named();
            a_quick_run_compares_everything();
            a_child_does_every_rivals_rung();
            only_one_ratio_runs_only_its_rungs();
            a_quick_run_of_commits_compares_everything();
            a_quick_run_of_one_row_transactions_compares_everything();
            a_quick_run_of_jobs_compares_everything();
            a_simulated_disk_is_played_in_every_rungs_process();
            a_folder_that_is_not_there_is_said();
        }
    }
}

fn play_rung(request: &str) {
    match run_rung_line(request) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(3);
        }
    }
}

/// `leafpress load`, which a rung starts as a whole process.
fn play_load(database: &str, csv: &str, table: &str) {
    Loader::new(database).table(table).load_file(csv).expect("it loads");
}

fn quick(dir: &Path) -> BenchOptions {
    BenchOptions { dir: dir.to_owned(), ..BenchOptions::sized(Size::Quick) }
}

fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("the folder can be listed");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// All but those of batches in the post's order, which take most of the time: tests of their own run these
/// rungs.
const RATIOS: [&str; 16] = [
    "csv_vs_sql",
    "csv_vs_disk",
    "csv_typed_vs_sql",
    "csv_index_vs_sql",
    "ndjson_vs_sql",
    "rows_vs_sql",
    "rows_vs_disk",
    "rows_iterator_vs_sql",
    "attach_vs_insert",
    "keys_vs_sql",
    "keys_vs_presorted",
    "keys_vs_disk",
    "presort_integer_vs_equal",
    "spill_vs_batches",
    "index_vs_sql",
    "append_vs_insert",
];
/// Those that this build or machine may not have.
const RATIOS_OF_SOME: [&str; 4] =
    ["parquet_vs_sql", "load10_vs_sqlite3", "load1000_vs_sqlite3", "load100000_vs_sqlite3"];

/// The work that sorts, as its rivals do it, in the order in which each finds what
/// it needs: a database of its own, or what one before it left.
fn a_child_does_every_rivals_rung() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rung = |by: &str, database: &str, rows: u64| {
        let database = folder.path().join(database);
        let csv = folder.path().join("a.csv");
        let request = serde_json::json!({
            "kind": {"load": {"by": by, "rows": rows}}, "database": database, "input": csv
        });
        let program = std::env::current_exe().expect("this program");
        let output = std::process::Command::new(program)
            .args(["bench", RUNG_FLAG, &request.to_string()])
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{by}: {}", String::from_utf8_lossy(&output.stderr));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let expected = if rows == 0 { 1000 } else { rows };
        assert_eq!(result["rows"], expected, "{by}: {result}");
        assert!(result["wall_s"].as_f64().is_some_and(|wall_s| wall_s > 0.0), "{by}: {result}");
    };
    let csv = folder.path().join("a.csv");
    write_table(&csv, TextFormat::Csv, FileSize::Rows(1000), &mut |_| ()).expect("a CSV file");
    rung("keys_sql", "unsorted.db", 1000);
    rung("keys_presorted_sql", "presorted.db", 1000);
    rung("keys_batched_sql", "batches.db", 1000);
    rung("append_sql", "batches.db", 100);
    rung("attach_sql", "unsorted.db", 1000);
    rung("attach_batched_sql", "presorted.db", 1000);
    rung("csv_index_sql", "index.db", 0);
    rung("csv_sql", "data.db", 0);
    rung("index_sql", "data.db", 1000);
    rung("csv_batched_sql", "more.db", 0);
    rung("index_durable_sql", "more.db", 1000);
}

fn a_quick_run_compares_everything() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiments = vec![Experiment::Load, Experiment::Presort];
    let options = BenchOptions { experiments, ..quick(folder.path()) };
    let only = RATIOS.iter().chain(&RATIOS_OF_SOME).map(|name| (*name).to_owned()).collect();
    let options = BenchOptions { repeats: Some(1), only, ..options };
    let mut events_count = 0;
    let report = run(&options, &mut |_| events_count += 1).expect("the experiment runs");
    assert!(events_count > report.rungs.len());
    assert!(names_in(folder.path()).is_empty(), "nothing is left");
    for name in RATIOS {
        let ratio = report.ratios.get(name).expect(name);
        assert!(ratio.min <= ratio.value && ratio.value <= ratio.max, "{name} {ratio:?}");
    }
    for name in RATIOS_OF_SOME {
        let is_there = report.ratios.get(name).is_some_and(|ratio| ratio.value > 0.0);
        let reason = report.unavailable.get(name);
        assert!(is_there != reason.is_some(), "{name}: {reason:?}");
    }
    for rung in &report.rungs {
        assert_eq!(rung.runs_s.len(), 1, "{rung:?}");
        let is_ours = rung.name.contains("leafpress");
        assert!(!is_ours || rung.safety == Safety::Durable, "{rung:?}");
        // A process that only starts others has no memory worth a figure.
        if cfg!(target_os = "linux") && !rung.name.starts_with("whole process") {
            assert!(rung.peak_mb.is_some() && rung.cpu_s.is_some(), "{rung:?}");
        }
    }
}

/// Those that the issue names, and one of each other kind.
const COMMIT_RATIOS: [&str; 19] = [
    "alone",
    "blocking64",
    "pipelined512",
    "pipelined_vs_one_transaction",
    "triggers_vs_one_transaction",
    "foreign_keys_vs_one_transaction",
    "five_indexes_vs_one_transaction",
    "full_text_vs_one_transaction",
    "full_text_closures_vs_one_transaction",
    "full_text_insert_many_vs_one_transaction",
    "blocking64_vs_mutex",
    "pipelined512_vs_savepoints",
    "relaxed_blocking64",
    "rollback_alone",
    "rebuildable_pipelined_vs_one_transaction",
    "worst_commit",
    "p999_commit",
    "worst_commit_slow",
    "worst_commit_long_reader",
];

fn a_quick_run_of_commits_compares_everything() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiments = vec![Experiment::Writer, Experiment::Checkpoint];
    let only = COMMIT_RATIOS.map(str::to_owned).to_vec();
    let options = BenchOptions { experiments, only, repeats: Some(1), ..quick(folder.path()) };
    let report = run(&options, &mut |_| ()).expect("the experiments run");
    assert_eq!(report.experiment, "writer checkpoint");
    for name in COMMIT_RATIOS {
        let ratio = report.ratios.get(name).expect(name);
        assert!(ratio.value > 0.0 && ratio.min <= ratio.max, "{name} {ratio:?}");
    }
    for rung in &report.rungs {
        assert!(rung.name.starts_with(rung.safety.name()) || rung.series.is_some(), "{rung:?}");
        let is_whole = rung.name.contains("one transaction");
        assert_eq!(rung.latency_us.is_none(), is_whole, "{rung:?}");
        assert_eq!(rung.worst_us.len(), usize::from(!is_whole), "{rung:?}");
        assert!(rung.rows > Some(0), "{rung:?}");
        if let Some(course) = &rung.series {
            assert!(rung.wal_mb_max > Some(0.0), "{}", rung.name);
            assert!(course.max_us.iter().flatten().count() > 0, "{}", rung.name);
            assert_eq!(course.max_us.len(), course.wal_mb.len(), "{}", rung.name);
        }
    }
    assert!(report.settings["sync_us_median"].as_f64().is_some_and(|us| us > 0.0));
    assert_eq!(names_in(folder.path()), [""; 0]);
}

/// On the disk of this machine, which may have whole pages or not, and on XFS where
/// this process may mount it.
fn a_quick_run_of_one_row_transactions_compares_everything() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiments = vec![Experiment::Atomic];
    let options = BenchOptions { experiments, repeats: Some(1), ..quick(folder.path()) };
    let atomic = AtomicOptions { transactions: 40, xfs_loop: true, ..AtomicOptions::default() };
    let options = BenchOptions { atomic, ..options };
    let report = run(&options, &mut |_| ()).expect("the experiment runs");
    assert_eq!(names_in(folder.path()), [""; 0], "neither a file nor a mount is left");
    for name in ["atomic_vs_journal", "atomic_vs_persist", "atomic_vs_wal", "calls_vs_journal"] {
        for (prefix, locking) in [("", "exclusive"), ("insert_", "shared")] {
            for place in ["disk", "xfs_loop"] {
                let name = format!("{prefix}{name}_{locking}_{place}");
                let is_there = report.ratios.get(&name).is_some_and(|ratio| ratio.value > 0.0);
                let reason = report.unavailable.get(&name);
                assert!(is_there != reason.is_some(), "{name}: {reason:?}");
            }
        }
    }
    for name in ["counted_vs_plain", "counted_vs_sqlite"] {
        assert!(report.ratios.get(name).is_some_and(|ratio| ratio.value > 0.0), "{name}");
    }
    for rung in report.rungs.iter().filter(|rung| rung.one_row.is_some()) {
        assert!(rung.rows.is_some_and(|rows| (1..=40).contains(&rows)), "{rung:?}");
        assert!(rung.latency_us.is_some() && rung.memory.is_some(), "{rung:?}");
        let io = rung.io.as_ref().and_then(|io| io.per_transaction.as_ref()).expect("counted");
        assert!(io.calls > 0.0 && io.written_bytes > 0.0, "{rung:?}");
        assert_eq!(rung.name.contains("can corrupt"), rung.safety == Safety::Rebuildable);
    }
    one_write_and_one_sync(&report);
}

/// A sync takes 6.3 ms on it, and there is one at least in each of these transactions; no
/// rung can be faster, and this process is as fast as ever.
fn a_simulated_disk_is_played_in_every_rungs_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiments = vec![Experiment::Load, Experiment::Atomic, Experiment::Queue];
    let only = ["rows_vs_sql", "atomic_vs_wal_exclusive", "wakeup_vs_same_claim"];
    let only = only.map(str::to_owned).to_vec();
    let atomic = AtomicOptions { transactions: 5, xfs_loop: true, ..AtomicOptions::default() };
    let simulate = Some("phone2016".to_owned());
    let options = BenchOptions { experiments, only, repeats: Some(1), ..quick(folder.path()) };
    let report = run(&BenchOptions { atomic, simulate, ..options }, &mut |_| ()).expect("it runs");
    assert_eq!(names_in(folder.path()), [""; 0], "nothing is left");
    let played = report.simulated.as_ref().expect("it is said");
    assert_eq!((played.name.as_str(), played.what.contains("2016")), ("phone2016", true));
    assert!(played.figures.starts_with("6.3 ms a sync") && played.source.contains("https://"));
    assert_eq!(report.settings["simulated_disk"], "phone2016");
    // Pages are not written whole on it, and no other disk takes part.
    let reason = |name: &str| report.unavailable.get(name).map(String::as_str).unwrap_or_default();
    assert!(reason("atomic_vs_wal_exclusive_disk").contains("disk that is simulated"));
    assert!(reason("atomic_vs_wal_exclusive_xfs_loop").contains("simulated"));
    let mut transactions = 0;
    for rung in &report.rungs {
        match (&rung.latency_us, &rung.from_call_us) {
            // A wake-up: pushed and claimed by two processes, both on that disk.
            (Some(_), Some(from_call)) => assert!(from_call.p50 >= 6_300.0, "{rung:?}"),
            (Some(latency), None) => assert!(latency.p50 >= 6_300.0, "{rung:?}"),
            _ => {
                let is_ours = rung.name.contains("leafpress");
                assert!(!is_ours || rung.median_s >= 0.0063, "a load is synced: {rung:?}");
            }
        }
        transactions += usize::from(rung.latency_us.is_some());
    }
    assert!(transactions >= 3, "{:?}", report.rungs);
}

/// Where pages are whole, an update under exclusive locking is one write, one sync,
/// and no journal.
fn one_write_and_one_sync(report: &ExperimentReport) {
    for rung in &report.rungs {
        let Some(one_row) = rung.one_row.as_ref().filter(|it| it.opened_by.ends_with("atomic"))
        else {
            continue;
        };
        let name = format!("atomic_vs_journal_{}_{}", one_row.locking, one_row.place);
        let is_whole = !report.unavailable.contains_key(&name);
        if one_row.change != "update" || !is_whole {
            continue;
        }
        let io = rung.io.as_ref().and_then(|io| io.per_transaction.as_ref()).expect("counted");
        let writes = if one_row.locking == "exclusive" { 1.0 } else { 2.0 };
        let is = |found: f64, expected: f64| (found - expected).abs() < 1e-9;
        assert!(is(io.calls_of("write_atomic"), writes), "{}: {io:?}", rung.name);
        assert!(is(io.calls_of("write"), 0.0) && is(io.calls_of("sync"), 1.0), "{io:?}");
        assert!(is(io.written_bytes, writes * 4096.0), "{io:?}");
        assert!(one_row.page_writes.is_some(), "{one_row:?}");
    }
}

/// Of all processes the slowest, of all calls the rate and the latency.
fn a_quick_run_of_many_processes_compares_everything() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiments = vec![Experiment::Shared];
    let names =
        ["shared4", "shared4_p99", "shared4_vs_mutex_file", "shared1_alone", "shared4_jobs_1ms"];
    let only = names.map(str::to_owned).to_vec();
    let options = BenchOptions { experiments, only, repeats: Some(1), ..quick(folder.path()) };
    let report = run(&options, &mut |_| ()).expect("the experiment runs");
    assert_eq!(names_in(folder.path()), [""; 0], "nothing is left");
    for rung in &report.rungs {
        let processes = rung.processes.as_ref().expect("many processes");
        assert!(rung.rows > Some(0) && rung.latency_us.is_some(), "{rung:?}");
        assert!((0.0..=1.0).contains(&processes.slowest_of_mean), "{rung:?}");
        let is_shared = rung.is_ours && report.unavailable.is_empty();
        assert_eq!(processes.syncs_per_row.is_some(), is_shared, "{rung:?}");
        if rung.chart.contains("syncs 1 ms longer") {
            assert!(rung.latency_us.is_some_and(|it| it.p50 >= 1_000.0), "{rung:?}");
        }
        assert!(!rung.is_ours || processes.refused == 0, "{rung:?}");
    }
    // Elsewhere processes may not share.
    for name in names {
        let is_there = report.ratios.get(name).is_some_and(|ratio| ratio.value > 0.0);
        assert!(is_there != report.unavailable.contains_key(name), "{name}");
        assert!(is_there || !cfg!(target_os = "linux"), "{name}: {:?}", report.unavailable);
    }
    assert!(report.settings["shared_checked"].is_string());
}

/// Variable that says what the first member does instead of its work.
const FIRST_MEMBER: &str = "LEAFPRESS_TEST_FIRST_MEMBER";

fn play_member_that_fails(request: &str) {
    if !request.contains(r#""member":0"#) {
        return;
    }
    match std::env::var(FIRST_MEMBER).as_deref() {
        Ok("fails") => {
            eprintln!("the disk is gone");
            std::process::exit(7);
        }
        Ok("hangs") => std::thread::sleep(std::time::Duration::from_secs(3600)),
        _ => {}
    }
}

fn a_member_that_fails_or_hangs_is_named() {
    for (does, patience_ms, expected) in [
        (
            "fails",
            60_000,
            "member 1 of 3 ended before its answer (exit status: 7): the disk is gone",
        ),
        ("hangs", 500, "member 1 of 3 did not answer within 500.0ms and was killed"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let request = serde_json::json!({
            "kind": {"shared": {"access": "busy_timeout", "work": "rows", "processes": 3,
                "callers": 1, "milliseconds_max": 50, "patience_ms": patience_ms}},
            "database": folder.path().join("x.db"),
        });
        let program = std::env::current_exe().expect("this program");
        let output = std::process::Command::new(program)
            .args(["bench", RUNG_FLAG, &request.to_string()])
            .env(FIRST_MEMBER, does)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{does}: {said}");
        assert!(said.contains(expected) || (does == "fails" && cfg!(windows)), "{does}: {said}");
    }
}

/// Those that the issue names, and one of each other kind.
const JOB_RATIOS: [&str; 14] = [
    "cycle64",
    "cycle64_vs_mutex",
    "cycle64_vs_connections",
    "cycle1_batch100",
    "relaxed_cycle8",
    "rollback_cycle64_batch100",
    "rebuildable_cycle1",
    "claim_10m",
    "claim_10m_batch100",
    "claim_100k_leased",
    "wakeup",
    "wakeup_from_call",
    "push64_vs_transactions",
    "push_many_vs_one_transaction",
];

fn a_quick_run_of_jobs_compares_everything() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let experiments = vec![Experiment::Queue, Experiment::QueueInserts];
    let only = JOB_RATIOS.map(str::to_owned).to_vec();
    let options = BenchOptions { experiments, only, repeats: Some(1), ..quick(folder.path()) };
    let report = run(&options, &mut |_| ()).expect("the experiments run");
    assert_eq!(report.experiment, "queue-inserts queue");
    assert_eq!(names_in(folder.path()), [""; 0], "nothing is left");
    for name in JOB_RATIOS {
        let ratio = report.ratios.get(name).expect(name);
        assert!(ratio.value > 0.0 && ratio.min <= ratio.max, "{name} {ratio:?}");
    }
    for rung in &report.rungs {
        assert!(rung.rows > Some(0) && rung.median_s > 0.0, "{rung:?}");
        let is_whole = rung.name.starts_with("inserts");
        assert_eq!(rung.latency_us.is_none(), is_whole, "{rung:?}");
        assert_eq!(rung.from_call_us.is_some(), rung.name.starts_with("wake-up"), "{rung:?}");
    }
    let better = report.ratios["cycle64_vs_mutex"].value;
    let better = better.min(report.ratios["cycle64_vs_connections"].value);
    assert!((report.ratios["cycle64"].value - better).abs() < 1e-9, "the better of both counts");
    let sync_us = &report.settings["storage_sync_after_append_us"]["p50_us"];
    assert!(sync_us.as_f64().is_some_and(|us| us > 0.0), "{sync_us}");
}

fn only_one_ratio_runs_only_its_rungs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let only = vec!["csv_typed_vs_sql".to_owned()];
    let report = run(&BenchOptions { only, ..quick(folder.path()) }, &mut |_| ())
        .expect("the experiment runs");
    assert_eq!(report.ratios.keys().collect::<Vec<_>>(), ["csv_typed_vs_sql"]);
    assert!(report.rungs.iter().all(|rung| rung.runs_s.len() == 2), "{:?}", report.rungs);
    let names: Vec<&str> = report.rungs.iter().map(|rung| rung.name.as_str()).collect();
    assert_eq!(
        names,
        ["csv, SQL, types known, one row a statement", "csv, leafpress, types given"]
    );
    assert_eq!(names_in(folder.path()), [""; 0]);
}

fn a_folder_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let missing = folder.path().join("missing");
    let error = run(&quick(&missing), &mut |_| ()).expect_err("there is no such folder");
    assert!(error.to_string().contains("missing"), "{error}");
}
