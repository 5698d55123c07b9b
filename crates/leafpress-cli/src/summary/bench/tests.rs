//! Pictures of invented reports: widths, order, marks.

use leafpress_bench::report::{Advice, ExperimentReport, Noise, Ratio, Simulated};

use super::bars::Scale;
use super::of_bench;
use super::sparks::curve;
use crate::human;

fn tour() -> ExperimentReport {
    let text = include_str!("../../../../leafpress-bench/tests/reports/overview.json");
    let mut report: ExperimentReport = serde_json::from_str(text).unwrap();
    let advice = |headline: &str, text: &str| Advice {
        headline: headline.to_owned(),
        text: text.to_owned(),
        ..Advice::default()
    };
    report.advice = vec![
        advice(
            "On this disk: use the profile durable; it is 260 times faster than the default and loses nothing",
            "10,000 rows take 57 ms, and 14.7 s by SQLite's default.",
        ),
        advice("Checkpoints: leave them to the `Writer`", "It makes them beside the commits."),
    ];
    report
}

/// Without colours, as a pipe gets it.
fn plain(report: &ExperimentReport) -> String {
    anstream::adapter::strip_str(&of_bench(report, &[])).to_string()
}

fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(human::widest([line]) <= 80, "too wide: {line}");
    }
}

#[test]
fn a_whole_run_fits_into_80_columns_and_leaves_nothing_out() {
    let tour = tour();
    let text = plain(&tour);
    assert_fits(&text);
    for rung in &tour.rungs {
        let label = &rung.label;
        let ends = || (&label[..14.min(label.len())], &label[label.len().saturating_sub(14)..]);
        let is_cut = || text.lines().any(|line| line.contains(ends().0) && line.contains(ends().1));
        assert!(text.contains(label) || is_cut(), "{label}");
    }
    for name in tour.ratios.keys() {
        assert!(text.contains(name), "{name}");
    }
    for expected in [
        "ladder: A hundred thousand inserts",
        "time for all the work; shorter is better; logarithmic axis; (the original's)",
        "loses nothing, also in a power cut",
        "may lose the last moments before a power cut",
        "≈ 2 min 27 s (2,000 s)",
        "≈ scaled: \"each insert its own transaction\" from 2,042 rows",
        "each batch: first → last, the worst",
        "0.21 s → 0.95 s",
        "27 ms (91c)",
        "rows a second; longer is better",
        "what 999 of 1,000 commits took at most",
        "what follows",
        "another run",
        "note: this machine is too noisy to tell 1.15 times apart",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn what_can_corrupt_stands_below_a_line_and_nothing_safe_below_it() {
    let text = plain(&tour());
    let (chart, _) = text.split_once("≈ scaled").unwrap();
    let (above, below) = chart.split_once("── may lose everything").unwrap();
    assert!(below.contains("MEMORY + OFF") && !above.contains("MEMORY + OFF"), "{chart}");
    assert!(above.contains("pressed") && !below.contains("pressed"), "{chart}");
}

#[test]
fn the_simulated_disk_is_the_first_thing_and_a_stop_is_said() {
    let simulated = Simulated {
        name: "sdcard".to_owned(),
        what: "an SD card of class A1".to_owned(),
        figures: "A sync takes 20 ms.".to_owned(),
        source: "a data sheet".to_owned(),
    };
    let stopped = Some("stopped: cycles are missing".to_owned());
    let report = ExperimentReport { simulated: Some(simulated), stopped, ..tour() };
    let text = plain(&report);
    assert!(text.starts_with("simulated: sdcard\n"), "{text}");
    assert!(text.contains("these are figures of an SD card of class A1, played on this disk."));
    assert!(text.contains("note: stopped: cycles are missing"), "{text}");
    assert_fits(&text);
}

#[test]
fn long_and_hostile_names_neither_widen_nor_steer() {
    let mut report = tour();
    for rung in &mut report.rungs {
        rung.label = format!("{}\x1b[2J\n{}", rung.label, "long ".repeat(30));
        rung.chart += &"wide ".repeat(30);
        rung.may_lose = format!("much\x07 {}", "indeed ".repeat(30));
        rung.latency_us = None;
        rung.one_row = None;
    }
    let ratio = Ratio { low: Some(17_595.4), high: Some(248_400.0), ..Ratio::exactly(20_700.0) };
    let name = "insert_atomic_vs_journal_exclusive_xfs_loop".to_owned();
    report.ratios.insert(name, ratio);
    let simulated = Simulated { name: "x\x1b[1m".to_owned(), ..Simulated::default() };
    report.simulated = Some(simulated);
    report.noise = Some(Noise { in_words: "many words ".repeat(30), ..Noise::default() });
    let text = plain(&report);
    assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text}");
    assert_fits(&text);
}

#[test]
fn figures_that_are_none_draw_no_bar() {
    let mut report = tour();
    for rung in &mut report.rungs {
        rung.median_s = 0.0;
        rung.per_second = 0.0;
        rung.batches_s = vec![0.0; 3];
        rung.cycles_us = vec![];
        rung.latency_us = None;
    }
    let text = plain(&report);
    assert!(text.contains("▁▁▁") && !text.contains('█'), "{text}");
    let nothing = plain(&ExperimentReport::default());
    assert_eq!(nothing, "");
}

#[test]
fn the_axis_is_logarithmic_only_where_spans_are_large() {
    let near = Scale::of([1.0, 19.0].into_iter());
    assert!(!near.is_log());
    assert!((near.place(9.5) - 0.5).abs() < 1e-9);
    let far = Scale::of([0.001, 0.01, 10.0].into_iter());
    assert!(far.is_log());
    let places = [0.001, 0.01, 10.0].map(|value| far.place(value));
    assert!((places[0] - 0.2).abs() < 1e-9 && (places[1] - 0.4).abs() < 1e-9, "{places:?}");
    assert!((places[2] - 1.0).abs() < 1e-9);
    assert!(Scale::of(std::iter::empty()).place(1.0).abs() < 1e-9);
}

#[test]
fn a_curve_keeps_the_worst_of_those_that_share_a_place() {
    assert_eq!(curve(&[1.0, 2.0, 4.0, 8.0], 24), "▁▂▄█");
    let mut values = vec![1.0; 100];
    values[57] = 8.0;
    let drawn = curve(&values, 10);
    assert_eq!(drawn, "▁▁▁▁▁█▁▁▁▁");
}

#[test]
fn without_charts_there_are_tables() {
    let mut report = tour();
    for rung in &mut report.rungs {
        rung.chart.clear();
    }
    let text = plain(&report);
    for expected in ["durable: synced", "ladder, SQL, prepared", "median", "p99.9"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains('█'));
}
