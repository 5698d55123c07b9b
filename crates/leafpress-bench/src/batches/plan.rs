//! Groups of rungs of the batches that are compared: a group for each kind of key, as each is a
//! chart.
//!
//! "Equal" is all of SQL's rungs of a chart, of which the best of each round counts: they all
//! survive a power cut, as ours do. "Default" is to insert the rows as they come.

use super::rung::{BatchesRung, Filler, Keys};
use crate::group::{Group, Measure, RatioPlan};
use crate::options::{BenchOptions, Experiment};
use crate::rung::kind::RungKind;

const BATCHES: u32 = 10;

/// A comparison: the name of its ratio, ours, and the rivals beside it.
type Comparison = (&'static str, Filler, &'static [Filler]);

/// The groups of the batches.
pub(crate) fn batches_groups(options: &BenchOptions) -> Vec<Group> {
    use Filler::{InsertMany, Pressed, SqlAsTheyCome, SqlSorted, SqlSortedByPrefix};
    // A million unsorted rows a batch take minutes, which an overview does not have.
    let large = if options.is_overview() { 200_000 } else { 1_000_000 };
    let batch_rows = options.size.of(20_000, 200_000, large);
    let group =
        |keys, by: &[Filler], comparisons: &[Comparison]| group(keys, batch_rows, by, comparisons);
    vec![
        group(
            Keys::Bytes,
            &[SqlAsTheyCome, SqlSortedByPrefix, SqlSorted, InsertMany, Pressed],
            &[
                ("presort_vs_equal", Pressed, &[SqlAsTheyCome, SqlSortedByPrefix, SqlSorted]),
                ("presort_vs_default", Pressed, &[SqlAsTheyCome]),
                ("presort_insert_many_vs_as_it_comes", InsertMany, &[SqlAsTheyCome]),
                ("presort_insert_many_vs_presorted", InsertMany, &[SqlSortedByPrefix, SqlSorted]),
            ],
        ),
        group(
            Keys::Uuid4,
            &[SqlAsTheyCome, SqlSorted, Pressed],
            &[("presort_uuid4_vs_equal", Pressed, &[SqlAsTheyCome, SqlSorted])],
        ),
        group(
            Keys::Uuid7,
            &[SqlAsTheyCome, Pressed],
            &[("presort_uuid7_vs_equal", Pressed, &[SqlAsTheyCome])],
        ),
        group(
            Keys::Integer,
            &[SqlAsTheyCome, Pressed],
            &[("presort_integer_vs_equal", Pressed, &[SqlAsTheyCome])],
        ),
    ]
}

fn group(keys: Keys, batch_rows: u64, by: &[Filler], comparisons: &[Comparison]) -> Group {
    let rung = |by: &Filler| {
        RungKind::Batches(BatchesRung { keys, by: *by, batches: BATCHES, batch_rows })
    };
    // All that are compared have a rung.
    let place = |filler: &Filler| by.iter().position(|it| it == filler);
    let ratio = |(name, ours, rivals): &Comparison| {
        let rivals: Vec<usize> = rivals.iter().filter_map(place).collect();
        Some(RatioPlan::new(*name, place(ours)?, &rivals, Measure::Wall))
    };
    Group {
        kinds: by.iter().map(rung).collect(),
        ratios: comparisons.iter().filter_map(ratio).collect(),
        ..Group::new(Experiment::Presort)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::options::Size;
    use crate::rung::described::{Described as _, Found};
    use crate::rung::process::{RungRequest, run_rung};

    fn groups(size: Size) -> Vec<Group> {
        batches_groups(&BenchOptions { size, ..BenchOptions::default() })
    }

    #[test]
    fn every_ratio_has_its_rungs_and_ours_comes_last() {
        let mut names = BTreeSet::new();
        for group in groups(Size::Usual) {
            let charts: BTreeSet<String> = group.kinds.iter().map(|kind| kind.chart()).collect();
            assert_eq!(charts.len(), 1, "{charts:?}");
            for kind in &group.kinds {
                let name = kind.name();
                assert_eq!(name.contains("leafpress"), kind.is_ours(), "{name}");
                assert!(kind.safety().keeps_all(), "{name}");
                assert!(names.insert(name));
            }
            let last = group.kinds.last().map(|kind| kind.label());
            assert_eq!(last.as_deref(), Some("pressed in one load"));
            for ratio in &group.ratios {
                assert!(!ratio.rivals.is_empty(), "{}", ratio.name);
                assert!(names.insert(ratio.name.clone()), "{}", ratio.name);
            }
        }
        assert_eq!(names.len(), 12 + 7);
    }

    #[test]
    fn the_cache_has_the_same_share_of_rows_at_every_size() {
        let pages = |size| match groups(size)[0].kinds[0] {
            RungKind::Batches(rung) => (rung.rows(), rung.cache_pages()),
            _ => (0, 0),
        };
        assert_eq!(pages(Size::Large), (10_000_000, 15_625));
        for size in [Size::Quick, Size::Usual] {
            let (rows, pages) = pages(size);
            let exact = rows as f64 * 15_625.0 / 1e7;
            assert!((pages as f64 - exact).abs() < 1.0, "{rows} rows, {pages} pages");
        }
    }

    /// Does a rung of few rows in this process, and lets `spoil` change what it left.
    fn left(keys: Keys, by: Filler, spoil: &str) -> (String, String) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = folder.path().join("a.db");
        let rung = BatchesRung { keys, by, batches: 3, batch_rows: 500 };
        let request = RungRequest::new(RungKind::Batches(rung), &database);
        let result = run_rung(&request).expect("it runs");
        assert_eq!(result.rows, 1_500);
        let (batches, outside) = if by == Filler::Pressed { (0, false) } else { (3, true) };
        assert_eq!(result.batches_s.len(), batches, "{keys:?} {by:?}");
        assert_eq!(result.outside_s.is_some(), outside, "{keys:?} {by:?}");
        let within: f64 = result.batches_s.iter().sum::<f64>() + result.outside_s.unwrap_or(0.0);
        assert!(within <= result.wall_s + 1e-9, "{within} of {} s", result.wall_s);
        let connection = rusqlite::Connection::open(&database).expect("it opens");
        connection.execute_batch(spoil).expect("it is done");
        drop(connection);
        let found = Found { database: &database, input_rows: 0, is_first: true, is_alone: false };
        let left = rung.check(&result, &found).expect("it can be read");
        (left.expected, left.found)
    }

    #[test]
    fn every_rung_leaves_its_rows() {
        for group in groups(Size::Quick) {
            for kind in group.kinds {
                let RungKind::Batches(rung) = kind else { continue };
                let (expected, found) = left(rung.keys, rung.by, "");
                assert_eq!(found, expected, "{}", rung.name());
            }
        }
    }

    #[test]
    fn whatever_is_spoiled_is_found_out() {
        let one = "WHERE id = (SELECT min(id) FROM event)";
        let other = "WHERE id = (SELECT max(id) FROM event)";
        for (spoil, expected) in [
            (format!("DELETE FROM event {one}"), "1499 rows, each its own"),
            (format!("UPDATE event SET data = x'00' {one}"), "data of no row after 0 rows"),
            (
                format!("UPDATE event SET data = (SELECT data FROM event {other}) {one}"),
                "under another key",
            ),
            (format!("UPDATE event SET id = zeroblob(20) {one}"), "under another key"),
            ("PRAGMA journal_mode = DELETE".to_owned(), "delete"),
        ] {
            let (should, found) = left(Keys::Bytes, Filler::SqlSorted, &spoil);
            assert_ne!(found, should, "{spoil}");
            assert!(found.contains(expected), "{spoil}: {found}");
        }
    }
}
