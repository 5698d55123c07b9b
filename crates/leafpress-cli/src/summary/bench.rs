//! What an experiment found, as tables.
//!
//! Must never: leave out a rung, a ratio that is bad for us, or a limit that was not kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::builder::styling::Style;
use leafpress_bench::report::{ExperimentReport, Ratio, Rung, Safety};

use super::{INDENT, notes, one_row};
use crate::human;
use crate::output::{FAINT, STRONG, styled};

/// A table of rungs: those that it takes, and what it shows of each.
struct Table {
    takes: fn(&Rung) -> bool,
    headings: &'static [&'static str],
    figures: fn(&Rung) -> Vec<String>,
}

/// Every rung is in one of them, or in those of [`one_row`]: what has a result as a
/// whole; what answers each call; that over time; and what wakes somebody up.
const TABLES: [Table; 4] = [
    Table {
        takes: |rung| rung.latency_us.is_none(),
        headings: &["median", "rows/s", "CPU", "peak"],
        figures: whole_figures,
    },
    Table {
        takes: |rung| {
            let is_another = rung.wal_mb_max.is_some() || rung.one_row.is_some();
            rung.latency_us.is_some() && rung.from_call_us.is_none() && !is_another
        },
        headings: &["rows/s", "p50", "p99.9", "worst"],
        figures: call_figures,
    },
    Table {
        takes: |rung| rung.latency_us.is_some() && rung.wal_mb_max.is_some(),
        headings: &["rows/s", "p50", "p99.9", "worst", "WAL"],
        figures: |rung| {
            let wal = rung.wal_mb_max.map(|wal_mb| format!("{wal_mb:.0} MB"));
            call_figures(rung).into_iter().chain(wal).collect()
        },
    },
    Table {
        takes: |rung| rung.from_call_us.is_some(),
        headings: &["p50", "p99", "call", "CPU"],
        figures: wakeup_figures,
    },
];

/// What an experiment found: rungs by what they promise, then the ratios.
pub fn of_bench(report: &ExperimentReport, written_to: &[&Path]) -> String {
    let tables = TABLES.iter().filter_map(|table| {
        let rungs: Vec<&Rung> = report.rungs.iter().filter(|rung| (table.takes)(rung)).collect();
        (!rungs.is_empty()).then(|| table.print(&rungs))
    });
    let tables: Vec<String> = tables.chain(one_row::tables(report)).collect();
    let mut text = tables.join("\n");
    text += &ratios(report);
    text += &notes(&unavailable(report));
    let broken = report.broken.iter();
    text += &notes(&broken.map(|(name, how)| format!("{name}: {how}")).collect::<Vec<_>>());
    if report.settings.get("quick").and_then(serde_json::Value::as_bool) == Some(true) {
        text += &notes(&["a quick run: its figures mean nothing".to_owned()]);
    }
    for path in written_to {
        text += &format!("report: {}\n", human::printable(&path.display().to_string()));
    }
    text
}

impl Table {
    fn print(&self, rungs: &[&Rung]) -> String {
        let promises = [
            (Safety::Durable, "durable: synced, survives a power cut"),
            (Safety::Relaxed, "relaxed: never corrupt, a power cut may take the last moments"),
            (Safety::Rollback, "rollback: durable through a journal"),
            (Safety::Rebuildable, "rebuildable: no promise, a crash can destroy the file"),
        ];
        let name_width = human::widest(rungs.iter().map(|rung| rung.name.as_str()));
        let headings: Vec<String> = self.headings.iter().map(|it| (*it).to_owned()).collect();
        let mut text = line("", name_width, &headings, FAINT);
        for (safety, promise) in promises {
            let rungs = rungs.iter().filter(|rung| rung.safety == safety);
            for (index, rung) in rungs.enumerate() {
                if index == 0 {
                    text += &format!("{}\n", styled(STRONG, promise));
                }
                text += &line(&rung.name, name_width, &(self.figures)(rung), Style::new());
            }
        }
        text
    }
}

fn line(name: &str, name_width: usize, figures: &[String], style: Style) -> String {
    const FIGURE_WIDTH: usize = 7;
    let figures = figures.iter().map(|figure| format!(" {}", human::right(figure, FIGURE_WIDTH)));
    let line = format!("{}{}", human::left(name, name_width), figures.collect::<String>());
    format!("{INDENT}{}\n", styled(style, &line))
}

fn whole_figures(rung: &Rung) -> Vec<String> {
    let time = |seconds: f64| human::duration(Duration::from_secs_f64(seconds.max(0.0)));
    vec![
        time(rung.median_s),
        human::rate(rung.per_second),
        rung.cpu_s.map(time).unwrap_or_default(),
        rung.peak_mb.map(|peak_mb| format!("{peak_mb:.0} MB")).unwrap_or_default(),
    ]
}

fn call_figures(rung: &Rung) -> Vec<String> {
    let latencies = rung.latency_us.map(|latency| [latency.p50, latency.p999, latency.max]);
    let latencies = latencies.into_iter().flatten().map(human::latency);
    [human::rate(rung.per_second)].into_iter().chain(latencies).collect()
}

/// From the answer of what wakes somebody up, and from its call; and what waiting cost.
fn wakeup_figures(rung: &Rung) -> Vec<String> {
    let from_answer = rung.latency_us.map(|latency| [latency.p50, latency.p99]);
    let from_call = rung.from_call_us.map(|latency| latency.p50);
    let figures = from_answer.into_iter().flatten().chain(from_call).map(human::latency);
    let cpu = rung.cpu_s.map(|cpu_s| human::duration(Duration::from_secs_f64(cpu_s.max(0.0))));
    figures.chain(cpu).collect()
}

/// What could not be measured, once for each reason.
fn unavailable(report: &ExperimentReport) -> Vec<String> {
    /// The report has them all.
    const NAMES_MAX: usize = 3;
    let mut names_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, reason) in &report.unavailable {
        names_of.entry(reason).or_default().push(name);
    }
    let note = |(reason, names): (&str, Vec<&str>)| {
        let (shown, rest) = names.split_at(names.len().min(NAMES_MAX));
        let more =
            if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        format!("{}{more}: {reason}", shown.join(", "))
    };
    names_of.into_iter().map(note).collect()
}

/// How many times better than the rival; "worst" is the pair worst for us.
fn ratios(report: &ExperimentReport) -> String {
    if report.ratios.is_empty() {
        return String::new();
    }
    let has_calls = report.rungs.iter().any(|rung| rung.latency_us.is_some());
    let heading = if has_calls { "times better" } else { "times faster" };
    let name_width = human::widest(report.ratios.keys().map(String::as_str).chain([heading]));
    let line = |name: &str, figures: [String; 3]| {
        let figures = figures.iter().map(|figure| human::right(figure, 8)).collect::<String>();
        format!("{}{figures}", human::left(name, name_width))
    };
    let heading = line(heading, ["worst", "median", "best"].map(str::to_owned));
    let mut text = format!("\n{INDENT}{}\n", styled(FAINT, &heading));
    // The plain name of several sizes or places is the weakest of them once more. (That of
    // several rivals is the best of them in each round, and stays.)
    let has_parts = |name: &str| {
        let is_part = |other: &str| {
            let rest = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
            rest.is_some_and(|rest| !rest.starts_with("vs_"))
        };
        let mut ratios = report.ratios.iter();
        ratios.any(|(other, it)| is_part(other) && Some(it) == report.ratios.get(name))
    };
    for (name, Ratio { value, min, max, .. }) in &report.ratios {
        if has_parts(name) {
            continue;
        }
        // Where ours is near the rival, or behind, the second digit matters.
        let figures = [min, value, max].map(|figure| {
            if *figure < 9.95 { format!("{figure:.2}") } else { format!("{figure:.1}") }
        });
        text += &format!("{INDENT}{}\n", line(name, figures));
    }
    text
}
