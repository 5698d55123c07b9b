use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::plan::STEPS;
use super::*;
use crate::options::{BenchOptions, Size};
use crate::report::Rung;
use crate::rung::kind::RungKind;

/// Long enough for every test.
const PATIENT: u64 = 600_000;

fn rung(by: Step) -> LadderRung {
    LadderRung { by, rows: 90, milliseconds_max: PATIENT }
}

fn all_steps() -> Vec<Step> {
    STEPS
        .into_iter()
        .chain([Step::Pages(512), Step::Pages(65_536), Step::PressedPages(8192)])
        .collect()
}

/// Runs a rung on this database.
fn run(rung: LadderRung, database: &Path) -> RungResult {
    rung.run(&Given { database, input: database }).expect("the rung runs")
}

/// The contents of a database, beside those that the rung should have left.
fn left(rung: LadderRung, result: &RungResult, database: &Path) -> Left {
    let found = Found { database, input_rows: 0, is_first: true, is_alone: false };
    rung.check(result, &found).expect("it can be read")
}

/// Runs a rung; what it gave, and what was found of what it left after `spoil`.
fn run_and_spoil(rung: LadderRung, spoil: &dyn Fn(&Path)) -> (RungResult, Left) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("a.db");
    let result = run(rung, &database);
    let files = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 1, "{} leaves only its database", rung.name());
    spoil(&database);
    let left = left(rung, &result, &database);
    (result, left)
}

fn sql(statement: &'static str) -> impl Fn(&Path) {
    move |database: &Path| {
        let connection = Connection::open(database).expect("it opens");
        connection.execute_batch(statement).expect("it is done");
    }
}

#[test]
fn every_step_leaves_every_row() {
    for step in all_steps() {
        let (result, left) = run_and_spoil(rung(step), &|_| ());
        assert_eq!(left.found, left.expected, "{step:?}");
        assert!(left.found.starts_with("90 rows, each its own; "), "{}", left.found);
        assert_eq!((result.rows, result.rows_in_full), (90, None), "{step:?}");
        assert!(result.wall_s > 0.0);
    }
}

#[test]
fn planted_faults_are_found() {
    for (statement, expected) in [
        ("DELETE FROM record WHERE id = 90", "89 rows,"),
        ("DELETE FROM record WHERE id = 7", "where Record { id: 7,"),
        ("UPDATE record SET name = 'x' WHERE id = 9", "where Record { id: 9,"),
        ("UPDATE record SET number = CAST(number AS BLOB) WHERE id = 2", "Blob("),
        ("INSERT INTO record VALUES (91, 'a', 'b', 1)", "Integer(91)"),
        ("PRAGMA journal_mode = WAL", "; wal;"),
        ("PRAGMA page_size = 8192; VACUUM", "pages of 8192"),
    ] {
        let (_, left) = run_and_spoil(rung(Step::Prepared(Pragmas::DEFAULT)), &sql(statement));
        assert_ne!(left.found, left.expected, "{statement}");
        assert!(left.found.contains(expected), "{statement}: {}", left.found);
    }
}

#[test]
fn a_rung_out_of_patience_is_scaled_and_says_so() {
    for by in [Step::EachRow(Pragmas::DEFAULT), Step::WriterBlocking, Step::WriterInFlight(4)] {
        let hasty = LadderRung { milliseconds_max: 0, ..rung(by) };
        let (result, left) = run_and_spoil(hasty, &|_| ());
        assert_eq!((result.rows, result.rows_in_full), (1, Some(90)), "{by:?}");
        assert_eq!(left.found, left.expected);
        let wall_s = result.wall_s;
        let scaled = result.scaled();
        assert_eq!((scaled.rows, scaled.sample_rows), (90, Some(1)));
        assert!((scaled.wall_s / wall_s - 90.0).abs() < 1e-6);
    }
}

#[test]
fn a_rung_that_does_less_in_silence_is_found_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = folder.path().join("a.db");
    let rung = rung(Step::Prepared(Pragmas::DEFAULT));
    let lazy = LadderRung { rows: 89, ..rung };
    let result = run(lazy, &database);
    let left = left(rung, &result, &database);
    assert_ne!(left.found, left.expected);
}

#[test]
fn settings_promise_no_more_than_they_keep() {
    let safety = |by| rung(by).safety();
    assert_eq!(safety(Step::EachRow(Pragmas::DEFAULT)), Safety::Relaxed);
    assert_eq!(safety(Step::Mapped), Safety::Relaxed);
    assert_eq!(safety(Step::Pages(512)), Safety::Relaxed);
    assert_eq!(safety(Step::Prepared(Pragmas::WAL_NORMAL)), Safety::Relaxed);
    assert_eq!(safety(Step::Prepared(Pragmas::WAL_FULL)), Safety::Durable);
    assert_eq!(safety(Step::Prepared(Pragmas::DELETE_EXTRA)), Safety::Rollback);
    assert_eq!(safety(Step::Prepared(Pragmas::MEMORY_OFF)), Safety::Rebuildable);
    for by in [Step::WriterBlocking, Step::WriterInFlight(8), Step::WriterMany, Step::Pressed] {
        assert_eq!(safety(by), Safety::Durable);
    }
}

#[test]
fn the_plan_compares_equals_and_ends_with_ours() {
    let groups = ladder_groups(&BenchOptions::sized(Size::Usual));
    let [settings, pages] = groups.as_slice() else { panic!("two charts") };
    let ratio = |name: &str| {
        let ratio = settings.ratios.iter().find(|ratio| ratio.name == name).expect(name);
        let names = |index: &usize| settings.kinds[*index].name();
        (names(&ratio.ours), ratio.rivals.iter().map(names).collect::<Vec<_>>())
    };
    let (ours, rivals) = ratio("ladder_vs_equal");
    assert_eq!(ours, "ladder, leafpress, pressed");
    assert_eq!(
        rivals,
        [
            "ladder, SQL, WAL + FULL, a transaction a row",
            "ladder, SQL, WAL + FULL, prepared",
            "ladder, SQL, DELETE + EXTRA, prepared",
        ]
    );
    assert_eq!(ratio("ladder_vs_default").1, ["ladder, SQL, default, a transaction a row"]);
    for group in [settings, pages] {
        let last = group.kinds.last().expect("rungs");
        assert!(last.is_ours() && last.name().contains("pressed"));
        let charts: std::collections::BTreeSet<String> =
            group.kinds.iter().map(|kind| kind.chart()).collect();
        assert_eq!(charts.len(), 1, "{charts:?}");
    }
}

#[test]
fn every_name_and_label_is_its_own_and_says_whose_it_is() {
    let groups = ladder_groups(&BenchOptions::sized(Size::Quick));
    let mut names = std::collections::BTreeSet::new();
    for kind in groups.iter().flat_map(|group| &group.kinds) {
        let name = kind.name();
        assert_eq!(name.contains("leafpress"), kind.is_ours(), "{name}");
        assert!(names.insert(name) && names.insert(kind.label() + &kind.chart()));
    }
}

#[test]
fn the_originals_figures_stand_at_their_steps() {
    let original = about().original.expect("an original");
    let seconds: Vec<f64> = original.figures.iter().filter_map(|figure| figure.seconds).collect();
    assert_eq!(seconds, [2000.0, 18.5, 5.85, 5.257, 4.036]);
    let groups = ladder_groups(&BenchOptions::sized(Size::Usual));
    let kinds = groups.iter().flat_map(|group| &group.kinds);
    let attached: Vec<OriginalFigure> = kinds.filter_map(|kind| kind.original()).collect();
    assert_eq!(attached, original.figures);
}

/// The post's steps with these times.
fn measured(seconds: [f64; 5]) -> Vec<Rung> {
    let groups = ladder_groups(&BenchOptions::sized(Size::Usual));
    let kinds = groups[0].kinds.iter().filter(|kind| kind.original().is_some());
    let rung = |(kind, seconds): (&RungKind, f64)| {
        let value = serde_json::json!({
            "name": kind.name(), "safety": "durable", "median_s": seconds,
            "runs_s": [seconds, seconds], "per_second": 1.0, "rows": 100_000, "label": kind.label(),
            "original": kind.original(), "experiment": "ladder",
        });
        serde_json::from_value(value).expect("a rung")
    };
    kinds.zip(seconds).map(rung).collect()
}

#[test]
fn the_order_is_told_as_it_came_out() {
    let words = order(&measured([10.0, 0.5, 0.3, 0.2, 0.1]));
    assert!(words.starts_with("The order is the original's, from"), "{words}");
    let words = order(&measured([10.0, 0.5, 0.3, 0.29, 0.1]));
    assert!(words.contains("as far as these runs can tell"), "{words}");
    assert!(words.contains("\"default, prepared\" and \"WAL + NORMAL, prepared\""), "{words}");
    let words = order(&measured([10.0, 0.2, 0.1, 0.15, 0.05]));
    assert!(words.starts_with("The order is not quite the original's."), "{words}");
    assert!(words.contains("\"WAL + NORMAL, prepared\" took longer than"), "{words}");
    assert!(words.contains("0.15 s and 0.10 s here, 5.26 s and 5.85 s there"), "{words}");
    assert!(words.contains("takes 100 µs here"), "{words}");
    assert!(order(&[]).contains("Too few"));
}
