//! One experiment: its question, its charts, what its original found, its figures.
//!
//! Must never: leave an experiment's rung out of both chart and table.

use maud::{Markup, html};

use super::head::link;
use super::story::{self, Section};
use super::{bars, batches, course, cycles, draw, ranges, table};
use crate::charts::{Chart, Figure};
use crate::report::{About, Original};

/// More panels than this are folded away: they are many of a kind.
const COURSES_SHOWN_MAX: usize = 4;

/// The experiment's part of the page.
pub(super) fn of(section: &Section<'_>, points_max: usize, is_simulated: bool) -> Markup {
    let about = section.about;
    html! {
        section .experiment id=(section.id()) {
            h2 { (section.title) }
            @if is_simulated { p .simulated { "on a simulated disk" } }
            @if let Some(about) = about {
                @if !about.question.is_empty() { p .question { (about.question) } }
            }
            @if section.charts.is_empty() { p { "Nothing of it was measured." } }
            @for (index, chart) in section.charts.iter().enumerate() { (figure(section, chart, points_max, index == 0)) }
            @if let Some(about) = about { (beside(about)) }
            @if !section.charts.is_empty() { (table::of(&section.charts)) }
        }
    }
}

fn figure(section: &Section<'_>, chart: &Chart<'_>, points_max: usize, is_first: bool) -> Markup {
    let original = section.about.and_then(|about| about.original.as_ref());
    let latencies = ranges::of(&chart.rungs, is_first);
    // Where the chart is about latencies, rows a second are not what was asked.
    let is_of_latencies = matches!(chart.figure, Figure::HalfOfCalls | Figure::SlowCalls);
    let courses = chart.rungs.iter().filter(|rung| rung.series.is_some()).count();
    html! {
        figure .chart {
            @if section.charts.len() > 1 && !chart.name.is_empty() {
                figcaption { h3 { (story::capitalised(chart.name)) } }
            }
            @if !is_of_latencies || latencies.is_none() { (bars::of(chart, chart.figure)) }
            @if let Some(latencies) = latencies { (latencies) }
            @if let Some(lines) = batches::of(&chart.rungs, original, points_max) { (lines) }
            @if let Some(dots) = cycles::of(&chart.rungs, points_max) { (dots) }
            @if let Some(courses_drawn) = course::of(&chart.rungs, points_max, is_first) {
                @if courses <= COURSES_SHOWN_MAX { (courses_drawn) }
                @else {
                    details .courses {
                        summary { "How these " (courses) " runs went over time" }
                        (courses_drawn)
                    }
                }
            }
        }
    }
}

/// What stands beside our figures: the original, and whether the order is the same.
fn beside(about: &About) -> Markup {
    html! {
        @if about.original.is_some() || about.order.is_some() {
            aside .beside-it {
                @if let Some(original) = &about.original { (found(original)) }
                @if let Some(order) = &about.order {
                    div { h3 { "The same order?" } p { (draw::prose(order)) } }
                }
            }
        }
    }
}

fn found(original: &Original) -> Markup {
    let facts = [original.machine.as_str(), original.date.as_str()];
    let facts: Vec<&str> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    html! {
        div {
            h3 { "What the original found" }
            p .source { (link(&original.url, &original.title)) @if !facts.is_empty() { br; (facts.join(", ")) } }
            dl .found {
                @for figure in &original.figures {
                    div {
                        dt {
                            (figure.label)
                            @if let Some(note) = &figure.note { " " span .note { "(" (note) ")" } }
                        }
                        dd {
                            @if let Some(seconds) = figure.seconds { (draw::time(seconds)) }
                            @else if let Some(ends) = ends(&figure.batches_s) { (ends) }
                        }
                    }
                }
            }
        }
    }
}

/// The first batch and the last.
fn ends(batches_s: &[f64]) -> Option<String> {
    let (first, last) = (batches_s.first()?, batches_s.last()?);
    Some(format!("{} → {}", draw::time(*first), draw::time(*last)))
}
