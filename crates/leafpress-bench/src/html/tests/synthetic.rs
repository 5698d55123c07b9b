//! Reports with everything that a page can show, and with what no page should have to show.

use crate::report::{
    About, Advice, Course, ExperimentReport, Latency, Noise, Original, OriginalFigure, Processes,
    Ratio, Rung, Safety, Simulated,
};
use crate::test_reports;

/// The overview, with a course for each rung of "checkpoint", checkpoints among the cycles, an
/// original for each batch, and a rung that was scaled.
pub(super) fn full() -> ExperimentReport {
    let mut report = test_reports::overview();
    for rung in &mut report.rungs {
        match rung.experiment.as_str() {
            "checkpoint" => rung.series = Some(course(500, 1.0)),
            "cycles" => {
                rung.cycles_us = (0..100).map(|cycle| 100.0 + cycle as f64).collect();
                rung.cycles_us[90] = 4.5e6;
                rung.checkpoints = vec![45, 90];
            }
            _ => {}
        }
    }
    report.rungs[0].sample_rows = Some(2_000);
    for about in &mut report.experiments {
        let figure = OriginalFigure {
            label: "as they come".to_owned(),
            batches_s: vec![2.48, 4.0, 11.1],
            ..OriginalFigure::default()
        };
        about.original = Some(Original { figures: vec![figure], ..original("a post") });
        about.order = Some("The same as in the original.".to_owned());
    }
    report.broken.insert("a rung".to_owned(), "the WAL grew to 80 MB".to_owned());
    report
}

/// This rung with a figure of each kind.
pub(super) fn with_everything(rung: Rung, value: f64) -> Rung {
    let latency = Latency { p50: value, p99: value, p999: value, max: value };
    let figure = OriginalFigure {
        label: "the same".to_owned(),
        seconds: Some(value),
        ..OriginalFigure::default()
    };
    Rung {
        median_s: value,
        runs_s: vec![value, 1.0, value],
        per_second: value,
        cpu_s: Some(value),
        peak_mb: Some(value),
        latency_us: Some(latency),
        from_call_us: Some(latency),
        wal_mb_max: Some(value),
        series: Some(course(3, value)),
        original: Some(figure),
        batches_s: vec![value, 1.0, value],
        cycles_us: vec![value, 1.0, value],
        checkpoints: vec![0, 7],
        outside_s: Some(value),
        processes: Some(Processes {
            processes: 2,
            callers: 8,
            curve: rung.chart.clone(),
            slowest_of_mean: value,
            refused: 3,
            syncs_per_row: Some(value),
        }),
        ..rung
    }
}

/// More rungs than any run has, each with far too many points and too long a name.
pub(super) fn huge(long: &str) -> ExperimentReport {
    let rung = |index: usize| {
        let label = format!("rung {index} {long}");
        let chart = format!("chart {} {long}", index % 20);
        let name = format!("experiment {}", index % 8);
        let rung = test_reports::rung(&name, &chart, "", Safety::Durable, 1.0 + index as f64);
        let rung = with_everything(rung, 1.0 + index as f64);
        Rung {
            name: label.clone(),
            label,
            batches_s: vec![1.0; 2_000],
            cycles_us: vec![1.0; 20_000],
            series: Some(course(20_000, 1.0)),
            ..rung
        }
    };
    let report = test_reports::report((0..150).map(rung).collect());
    let ratio = |index: usize| (format!("ratio {index} {long}"), Ratio::exactly(2.0));
    ExperimentReport { ratios: (0..200).map(ratio).collect(), ..report }
}

/// Everything that has a name has this one.
pub(super) fn named(name: &str) -> ExperimentReport {
    let text = || name.to_owned();
    let rung = test_reports::rung(name, name, name, Safety::Durable, 1.0);
    let rung = with_everything(Rung { may_lose: text(), ..rung }, 1.0);
    let about = About {
        name: text(),
        title: text(),
        question: text(),
        original: Some(Original {
            title: text(),
            url: format!("javascript:alert('{name}')"),
            date: text(),
            machine: text(),
            figures: vec![OriginalFigure {
                label: text(),
                note: Some(text()),
                ..OriginalFigure::default()
            }],
        }),
        order: Some(text()),
    };
    let advice = Advice {
        experiment: text(),
        headline: text(),
        text: text(),
        times: Some(Ratio::exactly(2.0)),
        beside: Some(text()),
    };
    let mut report = test_reports::report(vec![rung]);
    report.experiment = text();
    report.machine.cpu = Some(text());
    report.machine.filesystem = Some(text());
    report.settings.insert(text(), name.into());
    report.ratios.insert(text(), Ratio::exactly(2.0));
    report.unavailable.insert(text(), text());
    report.broken.insert(text(), text());
    report.experiments = vec![about];
    report.storage = Some(
        serde_json::json!({"device": {"model": name}, "verdict": {"profile": name, "why": [name], "warnings": [name]}}),
    );
    report.simulated = Some(Simulated {
        name: text(),
        what: text(),
        figures: text(),
        source: format!("javascript:{name}"),
    });
    report.noise = Some(Noise { times: 1.0, in_words: text(), busy_elsewhere: None });
    report.advice = vec![advice.clone(), advice];
    report.stopped = Some(text());
    report.measured_at = Some(text());
    report.command = Some(text());
    report
}

fn course(slots: usize, value: f64) -> Course {
    let mut max_us = vec![Some(value); slots];
    max_us[slots / 2] = None;
    Course { slot_ms: 1.0, p50_us: max_us.clone(), max_us, wal_mb: vec![value; slots] }
}

fn original(title: &str) -> Original {
    Original {
        title: title.to_owned(),
        url: "https://example.org/post".to_owned(),
        date: "2016-08-25".to_owned(),
        machine: "a phone".to_owned(),
        figures: Vec::new(),
    }
}
