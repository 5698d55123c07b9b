//! Made-up reports, for tests. They are for all that reads a report.
//!
//! Must never: be used by anything but tests.

use std::collections::BTreeMap;

use serde_json::json;

use crate::report::{ExperimentReport, Noise, Ratio, Rung, Safety};

/// Rows of each rung.
pub(crate) const ROWS: u64 = 100_000;

/// A rival's rung of this many seconds.
pub(crate) fn rung(
    experiment: &str,
    chart: &str,
    label: &str,
    safety: Safety,
    seconds: f64,
) -> Rung {
    let rung = json!({
        "name": format!("{experiment}, {chart}, {label}"), "safety": safety.name(),
        "median_s": seconds, "runs_s": [seconds], "per_second": ROWS as f64 / seconds,
        "rows": ROWS, "experiment": experiment, "chart": chart, "label": label,
        "may_lose": safety.may_lose(),
    });
    serde_json::from_value(rung).expect("the shape of a rung")
}

/// Our rung of this many seconds.
pub(crate) fn ours(
    experiment: &str,
    chart: &str,
    label: &str,
    safety: Safety,
    seconds: f64,
) -> Rung {
    Rung { is_ours: true, ..rung(experiment, chart, label, safety, seconds) }
}

/// A report of these rungs, on a machine where 1.2 times cannot be told from nothing.
pub(crate) fn report(rungs: Vec<Rung>) -> ExperimentReport {
    let noise = Noise { times: 1.2, in_words: "quiet".to_owned(), busy_elsewhere: None };
    ExperimentReport { version: 1, rungs, noise: Some(noise), ..ExperimentReport::default() }
}

/// A report of these rungs with these ratios.
pub(crate) fn with_ratios(rungs: Vec<Rung>, ratios: &[(&str, f64)]) -> ExperimentReport {
    let ratios: BTreeMap<String, Ratio> =
        ratios.iter().map(|(name, value)| ((*name).to_owned(), Ratio::exactly(*value))).collect();
    ExperimentReport { ratios, ..report(rungs) }
}

/// A run of all experiments, of which nothing is left out: the file that the command's
/// tests read too.
pub(crate) fn overview() -> ExperimentReport {
    serde_json::from_str(include_str!("../tests/reports/overview.json")).expect("a report")
}

mod tests {
    use super::*;

    #[test]
    fn the_overview_is_a_report_as_it_is_written() {
        let overview = overview();
        let text = include_str!("../tests/reports/overview.json");
        let file: serde_json::Value = serde_json::from_str(text).expect("JSON");
        // Too long to be shown where it fails.
        let written = serde_json::to_value(&overview).expect("JSON");
        assert!(written == file, "a field has another name or form");
        let mut names: Vec<&str> = overview.rungs.iter().map(|rung| rung.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "each name is there once");
        for rung in &overview.rungs {
            assert_eq!(rung.is_ours, rung.name.contains("leafpress"), "{}", rung.name);
        }
    }
}
