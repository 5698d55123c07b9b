//! The ways in: which one when, the lines that it takes, and how long by what was measured.
//!
//! Must never: give the time of one profile for another.

use leafpress::Profile;
use leafpress::vfs::text::shell_word;

use super::question::{Estimate, Question, Way};
use crate::charts::{Chart, charts};
use crate::report::{ExperimentReport, Rung};

/// From this many rows at once on, a load is worth it.
const ROWS_OF_LOAD: u64 = 10_000;
const BYTES_OF_LOAD: u64 = 1_000_000;

/// The ways in, the best first.
pub(super) fn of(question: &Question, profile: Profile, measured: &[ExperimentReport]) -> Vec<Way> {
    let is_bulk = question.rows.is_some_and(|rows| rows >= ROWS_OF_LOAD)
        || question.bytes.is_some_and(|bytes| bytes >= BYTES_OF_LOAD);
    let mut ways = Vec::new();
    if is_bulk {
        ways.push(load(question, measured));
    }
    if question.attached {
        ways.push(connection(profile));
    } else if !is_bulk || question.writers > 1 {
        ways.push(writer(question, profile, measured));
    }
    ways
}

/// Command that measures what was not measured on this disk yet.
pub(super) fn bench_command(experiments: &[&str], folder: &str) -> String {
    let command = format!("leafpress bench {} --quick", experiments.join(" "));
    match folder {
        "." | "" => command,
        folder => format!("{command} --dir {}", shell_word(folder)),
    }
}

fn load(question: &Question, measured: &[ExperimentReport]) -> Way {
    Way {
        name: "leafpress load",
        what: "for rows that come at once: whole pages are written, and all are synced before it \
               returns, whatever the profile"
            .to_owned(),
        command: Some("leafpress load app.db rows.csv --table entry".to_owned()),
        rust: vec![
            "Loader::new(\"app.db\").table(\"entry\").load_file(\"rows.csv\")?;".to_owned(),
            "Loader::new(\"app.db\").table(\"entry\").load_rows(&columns, rows)?;".to_owned(),
        ],
        estimate: of_load(question, measured),
        measured_by: Some(if question.rows.is_some() { "ladder" } else { "load" }),
    }
}

/// By rows made in memory where these were loaded, else by the ladder's.
fn of_load(question: &Question, measured: &[ExperimentReport]) -> Option<Estimate> {
    if question.rows.is_none() {
        return of_file(question, measured);
    }
    of_experiment("ladder", measured).find_map(|report| {
        let chart = chart_with_ours(report)?;
        let (ours, default) = (chart.our_rung()?, chart.default_rung()?);
        let beside = "SQLite's default, a transaction a row";
        Some(estimate(report, question.rows, (ours, default), beside))
    })
}

/// Reports of an experiment, those to be trusted most first.
fn of_experiment<'m>(
    name: &str,
    measured: &'m [ExperimentReport],
) -> impl Iterator<Item = &'m ExperimentReport> {
    measured.iter().filter(move |it| it.experiment == name)
}

/// By the bytes of a CSV file.
fn of_file(question: &Question, measured: &[ExperimentReport]) -> Option<Estimate> {
    of_experiment("load", measured).find_map(|report| {
        let ours = rung(report, "csv, leafpress, types detected")?;
        let sql = rung(report, "csv, SQL, types known, one row a statement")?;
        let file_bytes = report.settings.get("csv_bytes")?.as_u64()?;
        let rows_of_file = ours.rows?;
        let rows =
            u128::from(question.bytes?) * u128::from(rows_of_file) / u128::from(file_bytes.max(1));
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        let beside = "tuned SQL that syncs nothing";
        Some(estimate(report, Some(rows), (ours, sql), beside))
    })
}

fn rung<'r>(report: &'r ExperimentReport, name: &str) -> Option<&'r Rung> {
    report.rungs.iter().find(|rung| rung.name == name)
}

fn writer(question: &Question, profile: Profile, measured: &[ExperimentReport]) -> Way {
    let callers = question.writers;
    let what = if callers > 1 {
        format!(
            "for {callers} callers: one Writer for all of them, which puts what waits into one commit"
        )
    } else {
        "for small transactions: checkpoints are made beside the commits, and it takes more callers \
         later"
            .to_owned()
    };
    let opened = match profile {
        Profile::Durable => ".open()?;".to_owned(),
        // The explicit word makes the line too long for a terminal.
        Profile::Rebuildable => {
            "\n    .profile(Profile::Rebuildable).rebuildable_ok().open()?;".to_owned()
        }
        profile => format!(".profile(Profile::{profile:?}).open()?;"),
    };
    let opened = format!("let writer = Writer::builder(\"app.db\"){opened}");
    let insert = "writer.execute(\"INSERT INTO entry VALUES (?1)\", [text])?;";
    Way {
        name: "Writer",
        what,
        command: None,
        rust: opened.lines().chain([insert]).map(str::to_owned).collect(),
        estimate: of_writer(question, profile, measured),
        measured_by: Some("writer"),
    }
}

/// By the Writer with as many callers as there are, or the next fewer.
fn of_writer(
    question: &Question,
    profile: Profile,
    measured: &[ExperimentReport],
) -> Option<Estimate> {
    let mut callers = [512, 64, 8, 1].into_iter().filter(|callers| *callers <= question.writers);
    let beside = "one thread of plain SQLite with the same settings";
    callers.find_map(|callers| {
        of_experiment("writer", measured).find_map(|report| {
            let ours = rung(report, &format!("{profile}, leafpress, {callers} blocking"))?;
            let sql = rung(report, &format!("{profile}, SQL, one commit a call"))?;
            Some(estimate(report, question.rows, (ours, sql), beside))
        })
    })
}

/// Transactions over attached databases: no rung measures them, so there is no time.
fn connection(profile: Profile) -> Way {
    Way {
        name: "one connection",
        what:
            "for transactions over attached databases: open each of the databases once under the \
               profile, then attach them to one connection"
                .to_owned(),
        command: None,
        rust: vec![
            format!("let request = ProfileRequest::new(Profile::{profile:?});"),
            "let (connection, in_force) = profile::open(\"app.db\", &request)?;".to_owned(),
        ],
        estimate: None,
        measured_by: None,
    }
}

fn chart_with_ours(report: &ExperimentReport) -> Option<Chart<'_>> {
    let has_both = |it: &Chart<'_>| it.our_rung().is_some() && it.default_rung().is_some();
    charts(report).into_iter().find(has_both)
}

fn estimate(
    report: &ExperimentReport,
    rows: Option<u64>,
    (ours, other): (&Rung, &Rung),
    beside: &str,
) -> Estimate {
    let seconds = |rung: &Rung| {
        let seconds = rows? as f64 / rung.per_second;
        seconds.is_finite().then_some(seconds)
    };
    let label = if ours.label.is_empty() { &ours.name } else { &ours.label };
    Estimate {
        rows_per_second: ours.per_second,
        seconds: seconds(ours),
        beside: beside.to_owned(),
        beside_rows_per_second: other.per_second,
        beside_seconds: seconds(other),
        by: format!("{}, {label}", report.experiment),
        measured_at: report.measured_at.clone(),
        quick: report.is_quick(),
    }
}
