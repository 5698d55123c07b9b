//! The figures of an experiment as tables: what the bars do not show.
//!
//! Must never: leave out a rung that no chart has.

use clap::builder::styling::Style;
use leafpress_bench::report::{ExperimentReport, Rung, Safety};

use super::super::{INDENT, WIDTH, one_row};
use crate::human;
use crate::output::{FAINT, STRONG, styled};

const FIGURE_WIDTH: usize = 7;

/// A table of rungs: those that it takes, and what it shows of each.
struct Table {
    takes: fn(&Rung) -> bool,
    headings: &'static [&'static str],
    figures: fn(&Rung) -> Vec<String>,
}

/// Every rung that no chart has, and all that have more than one figure, are in one of
/// them, or in those of [`one_row`]: what has a result as a whole; what answers each call;
/// that over time; what wakes a waiting thread; and what many processes do.
const TABLES: [Table; 5] = [
    Table {
        takes: |rung| !has_calls(rung) && rung.chart.is_empty(),
        headings: &["median", "rows/s", "CPU", "peak"],
        figures: whole_figures,
    },
    Table {
        takes: |rung| {
            let is_another =
                rung.wal_mb_max.is_some() || rung.one_row.is_some() || rung.processes.is_some();
            has_calls(rung) && rung.from_call_us.is_none() && !is_another
        },
        headings: &["rows/s", "p50", "p99.9", "worst"],
        figures: call_figures,
    },
    Table {
        takes: |rung| has_calls(rung) && rung.wal_mb_max.is_some(),
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
    Table {
        takes: |rung| has_calls(rung) && rung.processes.is_some(),
        headings: &["rows/s", "p99", "worst", "fair", "refused"],
        figures: process_figures,
    },
];

/// Returns true if its latency says more than the picture does: for cycles there is a curve.
fn has_calls(rung: &Rung) -> bool {
    let is_drawn = !rung.chart.is_empty() && !rung.cycles_us.is_empty();
    rung.latency_us.is_some() && !is_drawn
}

/// Figures that bars do not show: a table for each kind, with rungs by their promise.
pub(super) fn of(report: &ExperimentReport) -> Vec<String> {
    let tables = TABLES.iter().filter_map(|table| {
        let rungs: Vec<&Rung> = report.rungs.iter().filter(|rung| (table.takes)(rung)).collect();
        (!rungs.is_empty()).then(|| table.print(&rungs))
    });
    tables.chain(one_row::tables(report)).collect()
}

impl Table {
    fn print(&self, rungs: &[&Rung]) -> String {
        let promises = [
            (Safety::Durable, "durable: synced, survives a power cut"),
            (Safety::Relaxed, "relaxed: never corrupt, a power cut may take the last moments"),
            (Safety::Rollback, "rollback: durable through a journal"),
            (Safety::Rebuildable, "rebuildable: no promise, a crash can destroy the file"),
        ];
        let room = WIDTH - INDENT.len() - self.headings.len() * (FIGURE_WIDTH + 1);
        let name_width = human::widest(rungs.iter().map(|rung| rung.name.as_str())).min(room);
        let headings: Vec<String> = self.headings.iter().map(|it| (*it).to_owned()).collect();
        let mut text = line("", name_width, &headings, FAINT);
        for (safety, promise) in promises {
            let rungs = rungs.iter().filter(|rung| rung.safety == safety);
            for (index, rung) in rungs.enumerate() {
                if index == 0 {
                    text += &format!("{}\n", styled(STRONG, promise));
                }
                let name = human::cut_inside(&rung.name, name_width);
                text += &line(&name, name_width, &(self.figures)(rung), Style::new());
            }
        }
        text
    }
}

fn line(name: &str, name_width: usize, figures: &[String], style: Style) -> String {
    let figures = figures.iter().map(|figure| format!(" {}", human::right(figure, FIGURE_WIDTH)));
    let line = format!("{}{}", human::left(name, name_width), figures.collect::<String>());
    format!("{INDENT}{}\n", styled(style, &line))
}

fn whole_figures(rung: &Rung) -> Vec<String> {
    vec![
        human::time(rung.median_s),
        human::rate(rung.per_second),
        rung.cpu_s.map(human::time).unwrap_or_default(),
        rung.peak_mb.map(|peak_mb| format!("{peak_mb:.0} MB")).unwrap_or_default(),
    ]
}

fn call_figures(rung: &Rung) -> Vec<String> {
    let latencies = rung.latency_us.map(|latency| [latency.p50, latency.p999, latency.max]);
    let latencies = latencies.into_iter().flatten().map(human::latency);
    [human::rate(rung.per_second)].into_iter().chain(latencies).collect()
}

/// Times from the answer and from the call of the thread that wakes another; and the cost of
/// waiting.
fn wakeup_figures(rung: &Rung) -> Vec<String> {
    let from_answer = rung.latency_us.map(|latency| [latency.p50, latency.p99]);
    let from_call = rung.from_call_us.map(|latency| latency.p50);
    let figures = from_answer.into_iter().flatten().chain(from_call).map(human::latency);
    figures.chain(rung.cpu_s.map(human::time)).collect()
}

/// Times of all calls; "fair" is the share that the slowest process had of the mean.
fn process_figures(rung: &Rung) -> Vec<String> {
    let latencies = rung.latency_us.map(|latency| [latency.p99, latency.max]);
    let latencies = latencies.into_iter().flatten().map(human::latency);
    let of_processes = rung.processes.as_ref().map(|it| {
        [format!("{:.2}", it.slowest_of_mean), leafpress_bench::numbers::count(it.refused)]
    });
    [human::rate(rung.per_second)]
        .into_iter()
        .chain(latencies)
        .chain(of_processes.into_iter().flatten())
        .collect()
}
