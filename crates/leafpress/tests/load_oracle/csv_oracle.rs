//! Random CSV inputs with random options.

use std::fs;
use std::path::Path;

use leafpress::ErrorKind;
use proptest::prelude::*;
use tempfile::tempdir;

use crate::case::{Case, case};
use crate::expected::{BadPlace, Expected};
use crate::reference::Reading;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn small_inputs_load_as_sqlite_stores_them(case in case(0..40, 0), threads in 2..9_usize) {
        check(&case, &[1, threads]);
    }
}

proptest! {
    // Each is three to six megabytes: several blocks, cut anywhere in a field.
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 32,
        failure_persistence: None,
        ..ProptestConfig::with_cases(5)
    })]

    #[test]
    fn inputs_of_several_blocks_load_as_sqlite_stores_them(case in case(100..150, 40_000)) {
        check(&case, &[1, 2, 3, 8]);
    }
}

/// Loads a case and compares with what must come of it.
fn check(case: &Case, threads: &[usize]) {
    let folder = tempdir().unwrap();
    let input = folder.path().join("input.csv");
    fs::write(&input, &case.input.0).unwrap();
    let reading = Reading::of(&case.input.0, &case.csv).keeping(&case.null_markers, &case.csv);
    let is_large = case.input.0.len() > 100_000;
    if reading.may_end_lines_by_returns(case.csv.quote)
        || (is_large && reading.is_of_one_column_at_first())
    {
        // Read by other rules, which have tests of their own.
        return;
    }
    let Some(expected) = Expected::of(case, &reading) else {
        let error = case.loader(&folder.path().join("none.db")).load_file(&input).unwrap_err();
        let is_right = matches!(
            error.kind(),
            ErrorKind::Misuse(_)
                | ErrorKind::NotFound { .. }
                | ErrorKind::Input { .. }
                | ErrorKind::BadRow(_)
        );
        assert!(is_right, "{error}");
        return assert_only_input_is_in(folder.path());
    };
    let bad = first_bad(&expected);
    check_dry_run(case, &input, &expected);
    let mut first_file: Option<Vec<u8>> = None;
    for threads in threads {
        let database = folder.path().join(format!("{threads}.db"));
        let outcome = case.loader(&database).threads(*threads).load_file(&input);
        let report = match (outcome, bad.filter(|_| !case.skip)) {
            (Ok(report), None) => report,
            (Ok(_), Some(place)) => panic!("the row at {place:?} was taken"),
            (Err(error), Some(place)) => {
                assert_bad_row(&error, &input, place);
                assert_only_input_is_in(folder.path());
                continue;
            }
            (Err(error), None) => panic!("{error}"),
        };
        let rejected = (expected.bad.len() + expected.repeated.len()) as u64;
        assert_eq!(report.rows_read, expected.rows_read);
        assert_eq!(report.rows_rejected, rejected);
        assert_eq!(report.rows_loaded, expected.rows_read - rejected);
        assert_eq!(declared(&report.columns), declared_types(&expected));
        assert_eq!(changed(&report.columns), expected.changed);
        let file = fs::read(&database).unwrap();
        assert_eq!(report.bytes_written, file.len() as u64);
        if let Some(first) = &first_file {
            assert_same_file(case, &expected, &database, first);
            continue;
        }
        expected.assert_equals(&database);
        expected.assert_texts_come_back(case, &database);
        first_file = Some(file);
    }
    if let Some(first_file) = first_file {
        let database = folder.path().join("read.db");
        case.loader(&database).load_reader("input.csv", &case.input.0[..]).unwrap();
        assert_same_file(case, &expected, &database, &first_file);
    }
}

/// Asserts that a load by other threads or from a reader made the same bytes; where rows may have been
/// sorted, which lets pages end elsewhere, the same rows.
fn assert_same_file(case: &Case, expected: &Expected, database: &Path, first_file: &[u8]) {
    if fs::read(database).unwrap() != first_file {
        assert!(case.primary_key.is_some(), "{} has other bytes", database.display());
        expected.assert_equals(database);
    }
}

fn check_dry_run(case: &Case, input: &Path, expected: &Expected) {
    let folder = input.parent().unwrap();
    let dry = case.loader(&folder.join("dry.db")).dry_run_file(input).unwrap();
    assert_eq!(dry.rows_read, expected.rows_read);
    let mut bad: Vec<BadPlace> = expected.bad.iter().chain(&expected.repeated).copied().collect();
    bad.sort_by_key(|place| (place.line, place.column));
    assert_eq!(dry.would_reject, bad.len() as u64);
    let places: Vec<_> =
        dry.rejects.iter().map(|b| BadPlace { line: b.line, column: b.column }).collect();
    assert_eq!(places, bad[..bad.len().min(20)]);
    assert_eq!(declared(&dry.columns), declared_types(expected));
    assert_eq!(changed(&dry.columns), expected.changed);
    assert_only_input_is_in(folder);
}

/// The row that ends a load: rows that are bad by themselves are found first.
fn first_bad(expected: &Expected) -> Option<BadPlace> {
    expected.bad.first().or(expected.repeated.first()).copied()
}

/// The number of values of each column that change their form, and the first's line and text.
fn changed(columns: &[leafpress::load::ColumnReport]) -> Vec<Option<(u64, u64, String)>> {
    let changed = columns.iter().map(|column| column.changed_form.as_ref());
    changed.map(|it| it.map(|it| (it.values, it.line, it.value.clone()))).collect()
}

fn declared(columns: &[leafpress::load::ColumnReport]) -> Vec<(&str, &str)> {
    columns.iter().map(|column| (&column.name[..], &column.declared_type[..])).collect()
}

fn declared_types(expected: &Expected) -> Vec<(&str, &'static str)> {
    let types = expected.types.iter().map(|column_type| crate::expected::type_name(*column_type));
    expected.names.iter().map(String::as_str).zip(types).collect()
}

fn assert_bad_row(error: &leafpress::Error, input: &Path, place: BadPlace) {
    let Some(bad) = error.bad_row() else { panic!("not a bad row: {error}") };
    let found = BadPlace { line: bad.line, column: bad.column };
    assert_eq!(found, place, "{error}");
    let start = format!("{}:{}:{}: {}\n", input.display(), place.line, place.column, bad.reason);
    assert!(error.to_string().starts_with(&start), "{error}");
}

fn assert_only_input_is_in(folder: &Path) {
    let names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["input.csv"]);
}
