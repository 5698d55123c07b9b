//! A report as CSV: a line for each rung. Spreadsheets and other programs read it.
//!
//! Columns may be added at the end, never renamed and never moved. What does not apply is
//! empty.
//!
//! Must never: leave out a rung, or that it was measured on a sample.

use crate::error::{Error, Result};
use crate::report::{ExperimentReport, Rung};

/// The header.
const COLUMNS: [&str; 25] = [
    "experiment",
    "chart",
    "rung",
    "label",
    "safety",
    "may_lose",
    "ours",
    "rows",
    "sample_rows",
    "median_s",
    "min_s",
    "max_s",
    "per_second",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "cpu_s",
    "peak_mb",
    "original_s",
    "processes",
    "callers",
    "slowest_of_mean",
    "refused",
    "syncs_per_row",
];

/// The rungs of a report as CSV, with a header.
///
/// # Errors
/// If they cannot be written, for which there is no reason in memory.
pub fn csv(report: &ExperimentReport) -> Result<String> {
    let failed = |reason: String| Error::Usage(format!("the report cannot be CSV: {reason}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS).map_err(|error| failed(error.to_string()))?;
    for rung in &report.rungs {
        writer.write_record(fields(rung)).map_err(|error| failed(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}

/// One rung, in the order of the header.
fn fields(rung: &Rung) -> [String; COLUMNS.len()] {
    let number = |value: Option<f64>| {
        value.filter(|it| it.is_finite()).map(|it| it.to_string()).unwrap_or_default()
    };
    let whole = |value: Option<u64>| value.map(|it| it.to_string()).unwrap_or_default();
    let processes = rung.processes.as_ref();
    let each_run = || rung.runs_s.iter().copied();
    let latency =
        |figure: fn(&crate::report::Latency) -> f64| number(rung.latency_us.as_ref().map(figure));
    [
        rung.experiment.clone(),
        rung.chart.clone(),
        rung.name.clone(),
        rung.label.clone(),
        rung.safety.name().to_owned(),
        rung.may_lose.clone(),
        rung.is_ours.to_string(),
        whole(rung.rows),
        whole(rung.sample_rows),
        number(Some(rung.median_s)),
        number(each_run().reduce(f64::min)),
        number(each_run().reduce(f64::max)),
        number(Some(rung.per_second)),
        latency(|it| it.p50),
        latency(|it| it.p99),
        latency(|it| it.p999),
        latency(|it| it.max),
        number(rung.cpu_s),
        number(rung.peak_mb),
        number(rung.original.as_ref().and_then(|it| it.seconds)),
        whole(processes.map(|it| u64::from(it.processes))),
        whole(processes.map(|it| u64::from(it.callers))),
        number(processes.map(|it| it.slowest_of_mean)),
        whole(processes.map(|it| it.refused)),
        number(processes.and_then(|it| it.syncs_per_row)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Safety;
    use crate::test_reports;

    fn lines(report: &ExperimentReport) -> Vec<csv::StringRecord> {
        let text = csv(report).expect("CSV");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names: Vec<_> = reader.headers().expect("a header").iter().map(str::to_owned).collect();
        assert_eq!(names, COLUMNS);
        reader.records().map(|it| it.expect("a line")).collect()
    }

    #[test]
    fn every_rung_is_a_line() {
        let overview = test_reports::overview();
        let lines = lines(&overview);
        assert_eq!(lines.len(), overview.rungs.len());
        let line: Vec<&str> = lines[0].iter().collect();
        assert_eq!(
            line,
            [
                "ladder",
                "100,000 rows",
                "ladder, SQL, each insert its own transaction",
                "each insert its own transaction",
                "relaxed",
                "the last moments before a power cut",
                "false",
                "100000",
                "2042",
                "147.3",
                "141.408",
                "154.665",
                "678.9",
                "",
                "",
                "",
                "",
                "73.65",
                "12.5",
                "2000",
                "",
                "",
                "",
                "",
                ""
            ]
        );
        let writer = lines.iter().find(|it| &it[0] == "writer").expect("a line");
        assert_eq!((&writer[13], &writer[15], &writer[19]), ("28", "141", ""));
        assert_eq!(lines.iter().filter(|it| &it[6] == "true").count(), 13);
    }

    #[test]
    fn names_with_commas_quotes_and_lines_come_back_whole() {
        let mut rung = test_reports::rung("x", "y", "a", Safety::Durable, 1.0);
        rung.label = "a, \"b\"\n;é".to_owned();
        rung.per_second = f64::NAN;
        rung.runs_s.clear();
        let lines = lines(&test_reports::report(vec![rung]));
        assert_eq!(&lines[0][3], "a, \"b\"\n;é");
        assert_eq!((&lines[0][10], &lines[0][12]), ("", ""), "no number is empty");
    }

    #[test]
    fn a_report_without_rungs_is_its_header() {
        let text = csv(&ExperimentReport::default()).expect("CSV");
        assert_eq!(text, format!("{}\n", COLUMNS.join(",")));
    }

    #[test]
    fn the_columns_are_documented() {
        let docs = include_str!("../../../docs/benchmarks.md");
        for column in COLUMNS {
            assert!(docs.contains(&format!("`{column}`")), "{column}");
        }
    }
}
