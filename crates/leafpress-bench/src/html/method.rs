//! Method of the measurements, what could not be measured, and how to repeat them.
//!
//! Must never: leave out what speaks against us.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use super::{head, story};
use crate::numbers;
use crate::report::ExperimentReport;

/// Texts longer than this are cut: they are in the JSON.
const TEXT_CHARS_MAX: usize = 600;

/// Settings that every reader should see, and their names.
const MAIN_SETTINGS: [(&str, &str); 7] = [
    ("repeats", "Runs of each rung"),
    ("left_out", "Left out"),
    ("order", "Order"),
    ("warm_up", "Warm-up"),
    ("page_cache", "Page cache"),
    ("between_runs", "Between two runs"),
    ("checked", "Checked after"),
];

/// The end of the page.
pub(super) fn of(report: &ExperimentReport) -> Markup {
    let text = |name: &str| report.settings.get(name).and_then(Value::as_str);
    html! {
        section .method #method {
            h2 { "How it was measured" }
            (in_short(report))
            @if let Some(command) = &report.command {
                p { "The same again, on any machine:" }
                pre .command { code { (command) } }
            }
            (list("What ours did not keep", &report.broken))
            (list("What could not be measured here", &report.unavailable))
            (ratios(report))
            (settings(report))
            p .end {
                @if let Some(version) = text("leafpress") {
                    "Measured with leafpress " (version)
                    @if let Some(version) = text("rival_sqlite") { " beside SQLite " (version) }
                    ". "
                }
                "Drawn by leafpress " (env!("CARGO_PKG_VERSION"))
                ". This page needs no network and sends nothing."
            }
        }
    }
}

/// Facts that decide whether the figures can be believed.
fn in_short(report: &ExperimentReport) -> Markup {
    let known = MAIN_SETTINGS
        .into_iter()
        .filter_map(|(name, heading)| Some((heading, report.settings.get(name)?)));
    let known: Vec<(&str, &Value)> = known.collect();
    html! {
        @if !known.is_empty() {
            dl .reasons {
                @for (heading, value) in known {
                    div { dt { (heading) } dd { (value_words(value)) } }
                }
            }
        }
    }
}

fn list(heading: &str, reasons: &BTreeMap<String, String>) -> Markup {
    html! {
        @if !reasons.is_empty() {
            h3 { (heading) }
            dl .reasons {
                @for (name, reason) in reasons {
                    div { dt { (story::shortened(name)) } dd { (reason) } }
                }
            }
        }
    }
}

fn ratios(report: &ExperimentReport) -> Markup {
    html! {
        @if !report.ratios.is_empty() {
            details .figures {
                summary { "All ratios: how many times better than the rival" }
                p {
                    "Each is the median of the ratios of the rounds, as the two stand side by side in \
                     a round. It may differ from the quotient of the two medians, which is what the \
                     first screen says, by as much as the range in the last column."
                }
                div .scroll tabindex="0" role="region" aria-label="Ratios" {
                    table {
                        thead { tr {
                            th scope="col" { "ratio" }
                            th scope="col" { "times" }
                            th scope="col" { "pairs of this run" }
                            th scope="col" { "another run" }
                            th scope="col" { "ours was bound by" }
                        } }
                        tbody {
                            @for (name, ratio) in &report.ratios {
                                tr {
                                    th scope="row" { (story::shortened(name)) }
                                    td { (numbers::ratio(ratio.value)) }
                                    td { (numbers::ratio(ratio.min)) " – " (numbers::ratio(ratio.max)) }
                                    td {
                                        @if let (Some(low), Some(high)) = (ratio.low, ratio.high) {
                                            (numbers::ratio(low)) " – " (numbers::ratio(high))
                                        }
                                    }
                                    td { @if let Some(bound) = ratio.bound_by { (bound.in_words()) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Everything that was set, as the report names it.
fn settings(report: &ExperimentReport) -> Markup {
    html! {
        @if !report.settings.is_empty() {
            details .figures {
                summary { "All settings" }
                dl .reasons {
                    @for (name, value) in &report.settings {
                        div {
                            dt { (story::capitalised(&name.replace('_', " "))) }
                            dd { (value_words(value)) }
                        }
                    }
                }
            }
        }
        @if let Some(source) = report.simulated.as_ref().map(|it| it.source.as_str()) {
            p { "The simulated disk's figures are from " (head::link(source, source)) "." }
        }
    }
}

fn value_words(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.as_u64().map_or_else(|| number.to_string(), numbers::count),
        other => other.to_string(),
    };
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}
