//! Properties of every page, whatever is in the report.

mod markup;
mod synthetic;

use std::collections::BTreeMap;

use super::page;
use crate::report::{Advice, ExperimentReport, Latency, Ratio, Rung, Safety, Simulated};
use crate::test_reports;

/// Largest size of a page, and the size that one of an overview should have.
const BYTES_MAX: usize = 2_000_000;
const BYTES_OF_A_TOUR: usize = 400_000;

/// Checks the properties of every page; gives it without style and script.
fn checked(report: &ExperimentReport) -> String {
    let page = page(report);
    assert!(page.len() < BYTES_MAX, "{} bytes", page.len());
    let body = markup::without_style_and_script(&page);
    if let Err(error) = markup::check(&body) {
        panic!("{error}");
    }
    let words = body.split(|char: char| !char.is_ascii_alphanumeric());
    for word in words {
        assert!(!["NaN", "inf", "infinity", "null", "None"].contains(&word), "{word} on the page");
    }
    for rung in &report.rungs {
        let label = if rung.chart.is_empty() { &rung.name } else { &rung.label };
        let begin: String = label.rsplit(", ").next().unwrap_or(label).chars().take(60).collect();
        assert!(body.contains(&markup::escaped(&begin)), "{begin} is not on the page");
    }
    body
}

#[test]
fn the_tour_is_all_on_the_page() {
    let report = test_reports::overview();
    let body = checked(&report);
    for about in &report.experiments {
        assert!(body.contains(&format!("<h2>{}</h2>", about.title)), "{}", about.title);
        assert!(body.contains(&about.question));
    }
    for ratio in report.ratios.keys() {
        assert!(body.contains(ratio), "{ratio}");
    }
    for reason in report.unavailable.values() {
        assert!(body.contains(reason), "{reason}");
    }
    assert!(body.contains(">leafpress bench --html report.html<"));
    assert!(body.contains("<dt>Runs of each rung</dt><dd>3</dd>"));
    assert!(body.contains("21 November 2026, 18:00 UTC"));
}

#[test]
fn every_kind_of_chart_is_drawn_and_small() {
    let report = synthetic::full();
    let body = checked(&report);
    assert!(body.len() < BYTES_OF_A_TOUR, "{} bytes", body.len());
    for part in [
        "class=\"bar\"",
        "class=\"whisker\"",
        "class=\"diamond\"",
        "class=\"p999\"",
        "class=\"spike\"",
        "class=\"line ours\"",
        "class=\"line found\"",
        "class=\"panel course ours\"",
        "scaled from 2,000 rows",
        "a checkpoint moved pages",
    ] {
        assert!(body.contains(part), "no {part}");
    }
}

#[test]
fn figures_of_every_size_are_drawn() {
    for values in [
        vec![0.0, 0.0],
        vec![1e-9, 1e9],
        vec![5.0],
        vec![f64::NAN, 1.0],
        vec![f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MIN_POSITIVE, 1e300],
    ] {
        let mut rungs: Vec<Rung> = Vec::new();
        for (index, value) in values.iter().enumerate() {
            for safety in [Safety::Durable, Safety::Rebuildable] {
                let label = format!("step {index} {}", safety.name());
                let rung = test_reports::rung("ladder", "a chart", &label, safety, 1.0);
                rungs.push(synthetic::with_everything(rung, *value));
            }
        }
        let ratio = Ratio { low: Some(values[0]), high: Some(1.0), ..Ratio::exactly(values[0]) };
        let ratios = BTreeMap::from([("ladder_vs_default".to_owned(), ratio)]);
        checked(&ExperimentReport { ratios, ..test_reports::report(rungs) });
    }
}

#[test]
fn an_empty_report_has_a_page() {
    checked(&ExperimentReport::default());
}

#[test]
fn no_report_makes_a_page_too_large() {
    let long = "x".repeat(1_000_000);
    let report = synthetic::huge(&long);
    let body = checked(&report);
    assert!(!body.contains(&long), "long names are cut");
}

#[test]
fn names_are_never_read_as_markup() {
    let hostile = "</title></style></script><script>alert(1)</script><img src=x onerror='a' \
                   x=\"b\">&amp;&";
    let report = synthetic::named(hostile);
    let body = checked(&report);
    assert!(!body.contains("<script>alert"), "it got out");
    assert!(!body.contains("<img"), "it got out");
    assert!(!body.contains("href=\"javascript"), "only links of the web are links");
    let whole = page(&report);
    assert_eq!(whole.matches("<script").count(), 1);
    assert_eq!(whole.matches("</script").count(), 1);
}

#[test]
fn nothing_is_fetched() {
    let page = page(&synthetic::full());
    assert!(page.contains("content=\"default-src 'none'; "));
    for way in ["@import", "src=", "url(http", "url(//", "<link", "<img", "<iframe", "fetch("] {
        assert!(!page.contains(way), "{way}");
    }
}

#[test]
fn what_a_page_must_not_hide_is_said() {
    let overview = test_reports::overview();
    let body = checked(&overview);
    assert!(!body.contains("mark-loud") && !body.contains("mark-quiet"));
    let simulated = Simulated {
        name: "sdcard".to_owned(),
        what: "an SD card of class A1".to_owned(),
        figures: "8 ms for a sync".to_owned(),
        source: "https://example.org/a1".to_owned(),
    };
    let mut report = ExperimentReport {
        simulated: Some(simulated),
        stopped: Some("ctrl-C after the ladder".to_owned()),
        ..overview
    };
    report.settings.insert("quick".to_owned(), true.into());
    let body = checked(&report);
    for words in
        ["An SD card of class A1", "8 ms for a sync", "ctrl-C after the ladder", "quick run"]
    {
        assert!(body.contains(words), "{words}");
    }
    let marks = body.matches("class=\"simulated\"").count();
    assert_eq!(marks, report.experiments.len(), "every experiment says it");
}

#[test]
fn the_verdict_comes_first_and_ratios_stand_in_for_it() {
    let mut report = synthetic::full();
    let advice = |headline: &str| Advice {
        experiment: "ladder".to_owned(),
        headline: headline.to_owned(),
        text: "As `this` says.".to_owned(),
        times: Some(Ratio::exactly(380.0)),
        beside: Some("the default".to_owned()),
    };
    report.advice = vec![advice("Load with `leafpress load`"), advice("And a second")];
    let body = checked(&report);
    let first = body.find("Load with <code>leafpress load</code>").expect("the headline");
    assert!(body.find("<section class=\"experiment\"").is_some_and(|figures| first < figures));
    assert!(body.contains(">380×<"));

    report.advice.clear();
    let body = checked(&report);
    assert!(body.contains("class=\"lead\""), "the ratios stand in for it");
    report.ratios.clear();
    assert!(!checked(&report).contains("class=\"lead\""), "without ratios nothing is claimed");
}

#[test]
fn reports_of_earlier_versions_have_a_page() {
    let old = r#"{"experiment": "writer checkpoint", "version": 1, "machine": {}, "settings": {},
        "rungs": [
            {"name": "durable, SQL, one commit a call", "safety": "durable", "median_s": 1.5,
             "runs_s": [1.5], "per_second": 2.0, "rows": 3,
             "latency_us": {"p50": 1.0, "p99": 2.0, "p999": 3.0, "max": 4.0}},
            {"name": "durable, leafpress, 1 blocking", "safety": "durable", "median_s": 1.0,
             "runs_s": [1.0], "per_second": 3.0, "rows": 3},
            {"name": "alone", "safety": "rebuildable", "median_s": 1.0, "runs_s": [],
             "per_second": 3.0}],
        "ratios": {"alone": {"value": 0.5, "min": 0.4, "max": 0.6}}}"#;
    let report: ExperimentReport = serde_json::from_str(old).expect("the first shape");
    let body = checked(&report);
    assert!(body.contains("loses nothing"), "the words of the profiles stand in");
    assert!(body.contains("Writer checkpoint"));
}

#[test]
fn rungs_that_can_corrupt_stand_apart() {
    let rungs = vec![
        test_reports::rung("ladder", "rows", "danger", Safety::Rebuildable, 1.0),
        test_reports::rung("ladder", "rows", "default", Safety::Relaxed, 2.0),
        test_reports::ours("ladder", "rows", "pressed", Safety::Durable, 0.5),
    ];
    let body = checked(&test_reports::report(rungs));
    let place = |label: &str| body.find(&format!(">{label}<")).expect("a bar");
    assert!(place("default") < place("pressed") && place("pressed") < place("danger"));
    let apart = body.find("class=\"apart\"").expect("the rule above them");
    assert!(place("pressed") < apart && apart < place("danger"));
}

#[test]
fn a_mark_is_said_with_its_figures() {
    let mut rung = test_reports::rung("ladder", "rows", "default", Safety::Relaxed, 2.0);
    rung.runs_s = vec![1.9, 2.0, 2.5];
    rung.latency_us = Some(Latency { p50: 10.0, p99: 20.0, p999: 30.0, max: 4e3 });
    let body = checked(&test_reports::report(vec![rung])).replace('\u{a0}', " ");
    for title in [
        "default: 2.00 s\n3 runs, from 1.90 s to 2.50 s\n50,000 rows a second\nmay lose the last \
         moments before a power cut",
        "default: half within 10 µs\n99 of 100 within 20 µs\n999 of 1,000 within 30 µs\nthe \
         slowest 4.0 ms",
    ] {
        assert!(body.contains(title), "{title}");
    }
}
