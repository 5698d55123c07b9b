//! All figures of an experiment, a row for each rung.
//!
//! Must never: have a column in which no rung has a figure.

use maud::{Markup, html};

use super::{draw, story};
use crate::charts::Chart;
use crate::numbers;
use crate::report::{Latency, Rung};

/// A column: its heading, and what stands in it.
struct Column {
    heading: &'static str,
    cell: fn(&Rung) -> Option<String>,
}

/// All columns, in their order.
const COLUMNS: [Column; 17] = [
    Column { heading: "time, median", cell: |rung| Some(draw::time(rung.median_s)) },
    Column { heading: "range of the runs", cell: range },
    Column { heading: "rows", cell: |rung| rung.rows.map(numbers::count) },
    Column { heading: "rows a second", cell: |rung| Some(numbers::rate(rung.per_second)) },
    Column { heading: "original", cell: |rung| draw::original_words(rung.original.as_ref()?) },
    Column { heading: "half within", cell: |rung| latency(rung, |it| it.p50) },
    Column { heading: "99 of 100 within", cell: |rung| latency(rung, |it| it.p99) },
    Column { heading: "999 of 1,000 within", cell: |rung| latency(rung, |it| it.p999) },
    Column { heading: "slowest", cell: |rung| latency(rung, |it| it.max) },
    Column { heading: "slowest process of the mean", cell: fairness },
    Column {
        heading: "refused",
        cell: |rung| Some(numbers::count(rung.processes.as_ref()?.refused)),
    },
    Column { heading: "syncs a row", cell: syncs },
    Column { heading: "last batch", cell: |rung| rung.batches_s.last().copied().map(draw::time) },
    Column { heading: "outside", cell: |rung| rung.outside_s.map(draw::time) },
    Column { heading: "CPU", cell: |rung| rung.cpu_s.map(draw::time) },
    Column { heading: "memory", cell: |rung| rung.peak_mb.map(draw::megabytes) },
    Column { heading: "WAL at most", cell: |rung| rung.wal_mb_max.map(draw::megabytes) },
];

/// The tables of these charts, folded away until they are wanted.
pub(super) fn of(charts: &[Chart<'_>]) -> Markup {
    html! {
        details .figures {
            summary { "All figures" }
            @for chart in charts { (table(chart, charts.len())) }
        }
    }
}

fn table(chart: &Chart<'_>, charts: usize) -> Markup {
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| chart.rungs.iter().any(|rung| (column.cell)(rung).is_some()))
        .collect();
    html! {
        div .scroll tabindex="0" role="region" aria-label="Figures" {
            table {
                @if charts > 1 && !chart.name.is_empty() {
                    caption { (story::capitalised(chart.name)) }
                }
                thead {
                    tr {
                        th scope="col" { "rung" }
                        @for column in &columns { th scope="col" { (column.heading) } }
                        th .text scope="col" { "a crash" }
                    }
                }
                tbody {
                    @for rung in &chart.rungs {
                        tr class=[rung.is_ours.then_some("ours")] {
                            th scope="row" { (story::label_of(rung)) (sample(rung)) }
                            @for column in &columns {
                                td { (((column.cell)(rung)).unwrap_or_default()) }
                            }
                            td .text { (story::loses(rung)) }
                        }
                    }
                }
            }
        }
    }
}

fn sample(rung: &Rung) -> Markup {
    html! {
        @if let Some(rows) = rung.sample_rows {
            span .note { " scaled from " (numbers::count(rows)) " rows" }
        }
    }
}

fn range(rung: &Rung) -> Option<String> {
    let (low, high) = draw::range(&rung.runs_s)?;
    Some(format!("{} – {}", draw::time(low), draw::time(high)))
}

fn fairness(rung: &Rung) -> Option<String> {
    Some(numbers::ratio(rung.processes.as_ref()?.slowest_of_mean))
}

fn syncs(rung: &Rung) -> Option<String> {
    let syncs = rung.processes.as_ref()?.syncs_per_row.filter(|syncs| syncs.is_finite())?;
    Some(format!("{:.3}", syncs.clamp(0.0, 1e3)))
}

fn latency(rung: &Rung, figure: fn(&Latency) -> f64) -> Option<String> {
    rung.latency_us.as_ref().map(|latency| draw::time(figure(latency) / 1e6))
}
