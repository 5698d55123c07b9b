use std::time::Instant;

use rusqlite::Connection;

use super::plan::CYCLERS;
use super::rung::{Cycler, Span};
use super::*;
use crate::options::{BenchOptions, Size};
use crate::report::Rung;

/// Long enough for every test.
const PATIENT: u64 = 600_000;

fn rung(by: Cycler, cycles: u32) -> CyclesRung {
    CyclesRung { by, cycles, milliseconds_max: PATIENT }
}

/// The contents of a database, beside those that the rung should have left.
fn left(rung: CyclesRung, result: &RungResult, database: &Path) -> Left {
    let found = Found { database, input_rows: 0, is_first: true, is_alone: false };
    rung.check(result, &found).expect("it can be read")
}

/// Runs a rung; what it gave, and what was found of what it left after `statement`.
fn run_and_spoil(rung: CyclesRung, statement: &str) -> (RungResult, Left) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("a.db");
    let given = Given { database: &database, input: folder.path() };
    let result = rung.run(&given).expect("the rung runs");
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 1, "{} leaves only its database", rung.name());
    let connection = Connection::open(&database).expect("it opens");
    connection.execute_batch(statement).expect("it is done");
    connection.close().expect("it closes");
    (result.clone(), left(rung, &result, &database))
}

#[test]
fn every_way_leaves_the_last_cycle() {
    for by in CYCLERS {
        let (result, left) = run_and_spoil(rung(by, 7), "");
        assert_eq!(left.found, left.expected, "{by:?}");
        assert!(left.found.starts_with("7 cycles, then entry 5 of cycle 6,"), "{}", left.found);
        assert_eq!((result.rows, result.rows_in_full), (70, None), "{by:?}");
        assert_eq!(result.cycles_us.len(), 7);
        let in_cycles_s = result.cycles_us.iter().sum::<f64>() / 1e6;
        let outside_s = result.outside_s.expect("the time outside");
        assert!(outside_s > 0.0 && outside_s <= result.wall_s, "{by:?}: {outside_s}");
        let overlaps = matches!(by, Cycler::WriterInFlight(_));
        assert!(overlaps || (in_cycles_s + outside_s - result.wall_s).abs() < 1e-9, "{by:?}");
        let slowest = result.cycles_us.iter().copied().fold(0.0, f64::max);
        assert_eq!(result.latency_us.map(|latency| latency.max), Some(slowest));
    }
}

#[test]
fn planted_faults_are_found() {
    let by = Cycler::Sql(Pragmas::DEFAULT, Span::Cycle);
    for (statement, expected) in [
        ("DELETE FROM entry WHERE id = 3", "cycle 2, entry 6 of cycle 2, entry 8"),
        ("UPDATE entry SET text = 'x' WHERE id = 1", "then x, entry 6"),
        ("INSERT INTO entry(text) VALUES ('more')", "entry 9 of cycle 2, more;"),
        ("PRAGMA journal_mode = WAL", "; wal;"),
    ] {
        let (_, left) = run_and_spoil(rung(by, 3), statement);
        assert_ne!(left.found, left.expected, "{statement}");
        assert!(left.found.contains(expected), "{statement}: {}", left.found);
    }
}

#[test]
fn a_cycle_that_was_left_out_in_silence_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("a.db");
    let by = Cycler::WriterCycles;
    let given = Given { database: &database, input: folder.path() };
    let mut result = rung(by, 2).run(&given).expect("it runs");
    let missing = left(rung(by, 3), &result, &database);
    assert_ne!(missing.found, missing.expected);
    result.cycles_us.pop();
    let left = left(rung(by, 2), &result, &database);
    assert_ne!(left.found, left.expected);
}

#[test]
fn a_rung_out_of_patience_is_scaled_and_says_so() {
    for by in CYCLERS {
        let hasty = CyclesRung { milliseconds_max: 0, ..rung(by, 50) };
        let (result, left) = run_and_spoil(hasty, "");
        assert_eq!((result.rows, result.rows_in_full), (10, Some(500)), "{by:?}");
        assert_eq!(left.found, left.expected);
        let scaled = result.scaled();
        assert_eq!((scaled.rows, scaled.sample_rows), (500, Some(10)));
    }
}

#[test]
fn the_log_of_single_statements_is_full_in_cycle_91() {
    let by = Cycler::Sql(Pragmas::WAL_NORMAL, Span::Statement);
    let (result, _) = run_and_spoil(rung(by, 100), "");
    // Eleven pages a cycle, and two before the first: the post saw it in cycle 91 too.
    assert!(result.checkpoints.contains(&90), "{:?}", result.checkpoints);
    // What follows within the file system's tick may not be seen, what precedes cannot be.
    assert!(result.checkpoints.iter().all(|cycle| *cycle >= 90), "{:?}", result.checkpoints);
    let (whole, _) = run_and_spoil(rung(Cycler::Sql(Pragmas::WAL_NORMAL, Span::Cycle), 100), "");
    assert_eq!(whole.checkpoints, [0; 0]);
    let (unchecked, _) = run_and_spoil(rung(Cycler::SqlUnchecked(Pragmas::WAL_NORMAL), 100), "");
    assert_eq!(unchecked.checkpoints, [0; 0]);
    // 1,100 pages and more, each with a header of 24 bytes.
    assert!(unchecked.wal_bytes_max > Some(1_100 * 4_120), "{:?}", unchecked.wal_bytes_max);
    assert!(result.wal_bytes_max < unchecked.wal_bytes_max);
    let journal = Cycler::Sql(Pragmas::DEFAULT, Span::Cycle);
    let (journal, _) = run_and_spoil(rung(journal, 5), "");
    assert_eq!(journal.checkpoints, [0; 0], "a journal has none");
}

#[test]
fn a_change_of_the_file_is_seen_as_a_checkpoint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("a.db");
    std::fs::write(&database, "one").expect("a file");
    let mut record = record::Record::begin(rung(Cycler::WriterCycles, 4), &database);
    record.cycle(Instant::now());
    std::fs::write(&database, "longer").expect("a file");
    record.cycle(Instant::now());
    record.cycle(Instant::now());
    std::fs::write(&database, "").expect("a file");
    record.cycle(Instant::now());
    assert_eq!(record.end().checkpoints, [1, 3]);
}

#[test]
fn the_plan_compares_equals_and_ends_with_ours() {
    let groups = cycles_groups(&BenchOptions::sized(Size::Usual));
    let [group] = groups.as_slice() else { panic!("one chart") };
    let names = |index: &usize| group.kinds[*index].name();
    let ratio = |name: &str| {
        let ratio = group.ratios.iter().find(|ratio| ratio.name == name).expect(name);
        (names(&ratio.ours), ratio.rivals.iter().map(names).collect::<Vec<_>>())
    };
    let (ours, rivals) = ratio("cycles_vs_equal");
    assert_eq!(Some(&*ours), group.kinds.last().map(|kind| kind.name()).as_deref());
    assert_eq!(
        rivals,
        [
            "cycles, SQL, WAL + FULL, a transaction a statement",
            "cycles, SQL, WAL + FULL, a transaction a cycle",
        ]
    );
    let default = "cycles, SQL, default, a transaction a statement";
    assert_eq!(ratio("cycles_vs_default").1, [default]);
    assert_eq!(ratio("cycles_worst").0, "cycles, leafpress, Writer, a call a statement");
    let mut seen = std::collections::BTreeSet::new();
    for kind in &group.kinds {
        let name = kind.name();
        assert_eq!(name.contains("leafpress"), kind.is_ours(), "{name}");
        assert!(seen.insert(name) && seen.insert(kind.label()));
    }
}

#[test]
fn the_originals_figures_stand_at_their_settings() {
    let original = about().original.expect("an original");
    let seconds: Vec<f64> = original.figures.iter().filter_map(|figure| figure.seconds).collect();
    assert_eq!(seconds, [3000.0, 3.53, 7.19, 2.29]);
    let groups = cycles_groups(&BenchOptions::sized(Size::Usual));
    let kinds = groups[0].kinds.iter();
    let attached: Vec<OriginalFigure> = kinds.filter_map(|kind| kind.original()).collect();
    assert_eq!(attached.len(), 4);
    assert!(original.figures.iter().all(|figure| attached.contains(figure)));
}

/// A rung of the report.
fn measured(by: Cycler, seconds: f64, checkpoints: &[usize]) -> Rung {
    let rung = rung(by, 100);
    let value = serde_json::json!({
        "name": rung.name(), "label": rung.label(), "experiment": "cycles", "safety": "durable", "median_s": seconds,
        "runs_s": [seconds], "per_second": 1.0, "original": rung.original(),
        "latency_us": {"p50": 100.0, "p99": 100.0, "p999": 100.0, "max": 2500.0},
        "cycles_us": vec![2500.0; 100], "checkpoints": checkpoints, "wal_mb_max": 4.5,
        "outside_s": 0.002,
    });
    serde_json::from_value(value).expect("a rung")
}

#[test]
fn the_order_and_the_spike_are_told_as_they_came_out() {
    let wal = Cycler::Sql(Pragmas::WAL_NORMAL, Span::Statement);
    let rungs = |once_s, checkpoints: &[usize]| {
        [
            measured(Cycler::Sql(Pragmas::DEFAULT, Span::Statement), 1.0, &[]),
            measured(Cycler::Sql(Pragmas::DEFAULT, Span::Everything), once_s, &[]),
            measured(wal, 0.05, checkpoints),
            measured(Cycler::Sql(Pragmas::WAL_NORMAL, Span::Everything), 0.01, &[]),
            measured(Cycler::SqlUnchecked(Pragmas::WAL_NORMAL), 0.05, &[]),
        ]
    };
    let words = order(&rungs(0.02, &[90]));
    assert!(words.starts_with("The order is the original's, from"), "{words}");
    assert!(words.contains("The checkpoint came in cycle 91"), "{words}");
    assert!(
        words.contains("The usual cycle took 100 µs, and that one 2.5 ms (25 times as long)"),
        "{words}"
    );
    assert!(words.contains("the log grew to 4.5 MB"), "{words}");
    let words = order(&rungs(0.2, &[]));
    assert!(words.contains("\"default, one transaction\" took longer than"), "{words}");
    assert!(words.contains("No checkpoint came within the cycles"), "{words}");
    assert!(order(&[]).contains("Too few"));
}
