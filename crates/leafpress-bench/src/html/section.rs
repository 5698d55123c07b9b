//! One experiment: its question, its charts, what its original found, its figures.
//!
//! Must never: leave an experiment's rung out of both chart and table.

use maud::{Markup, html};

use super::head::link;
use super::scale::Scale;
use super::story::{self, Section};
use super::{bars, batches, course, curves, cycles, draw, ranges, table};
use crate::charts::{Chart, Figure};
use crate::report::{About, Original, Rung};

/// More panels than this are folded away: they are many of a kind.
const COURSES_SHOWN_MAX: usize = 4;

/// The experiment's part of the page.
pub(super) fn of(section: &Section<'_>, points_max: usize, is_simulated: bool) -> Markup {
    let about = section.about;
    let original = about.and_then(|about| about.original.as_ref());
    let of_batches = batches::scale(&section.charts, original);
    let shared = Shared { section, original, of_batches, points_max };
    html! {
        section .experiment id=(section.id()) {
            h2 { (section.title) }
            @if is_simulated { p .simulated { "on a simulated disk" } }
            @if let Some(about) = about {
                @if !about.question.is_empty() { p .question { (about.question) } }
            }
            @if section.charts.is_empty() { p { "Nothing of it was measured." } }
            (curves::of(&section.charts))
            @for (index, chart) in section.charts.iter().enumerate() {
                (figure(&shared, chart, index == 0))
            }
            @if let Some(about) = about { (beside(about)) }
            @if !section.charts.is_empty() { (table::of(&section.charts)) }
        }
    }
}

/// Parts that all charts of a section share.
struct Shared<'s, 'r> {
    section: &'s Section<'r>,
    original: Option<&'r Original>,
    of_batches: Scale,
    points_max: usize,
}

fn figure(shared: &Shared<'_, '_>, chart: &Chart<'_>, is_first: bool) -> Markup {
    let rungs = chart.rungs.as_slice();
    // Where each cycle is drawn, nothing is left to say of most of them.
    let has_dots = rungs.iter().any(|rung| !rung.cycles_us.is_empty());
    let latencies = if has_dots { None } else { ranges::of(rungs, is_first) };
    // Where the chart is about latencies, rows a second are not what was asked.
    let is_of_latencies = matches!(chart.figure, Figure::HalfOfCalls | Figure::SlowCalls);
    html! {
        figure .chart {
            @if shared.section.charts.len() > 1 && !chart.name.is_empty() {
                figcaption { h3 { (story::capitalised(chart.name)) } }
            }
            @if !is_of_latencies || latencies.is_none() { (bars::of(chart, chart.figure, is_first)) }
            @if let Some(latencies) = latencies { (latencies) }
            @if let Some(lines) =
                batches::of(chart, shared.original, &shared.of_batches, shared.points_max, is_first) { (lines) }
            @if let Some(dots) = cycles::of(rungs, shared.points_max) { (dots) }
            (courses(rungs, shared.points_max, is_first))
        }
    }
}

fn courses(rungs: &[&Rung], points_max: usize, is_first: bool) -> Markup {
    let count = rungs.iter().filter(|rung| rung.series.is_some()).count();
    let Some(courses) = course::of(rungs, points_max, is_first) else { return html! {} };
    html! {
        @if count <= COURSES_SHOWN_MAX {
            (courses)
        } @else {
            details .courses {
                summary { "How these " (count) " runs went over time" }
                (courses)
            }
        }
    }
}

/// Comparison of our figures with the original's, and of their order.
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
