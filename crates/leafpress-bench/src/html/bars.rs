//! A bar for each rung: the time for all the work, or rows a second.
//!
//! Must never: draw a rung that can corrupt among those that cannot.

use maud::{Markup, html};

use super::draw::{self, percent};
use super::scale::{Scale, Unit};
use super::story;
use crate::charts::{Chart, Figure};
use crate::numbers;
use crate::report::Rung;

/// Top of the original's figure, in pixels from the top of a row.
const ORIGINAL_Y: &str = "31";

/// The bars of a chart; the first of a section is explained.
pub(super) fn of(chart: &Chart<'_>, figure: Figure, is_first: bool) -> Markup {
    let unit = if figure == Figure::PerSecond { Unit::PerSecond } else { Unit::Seconds };
    let has_originals = figure == Figure::Seconds;
    let scale = Scale::of_bars(&values(chart, figure, has_originals), unit);
    let (safe, risky) = draw::apart(&chart.rungs);
    let row = |rung: &Rung| row(rung, figure, &scale, has_originals);
    html! {
        p .how { @if is_first { (how(figure, &scale, chart, has_originals)) } @else { (in_short(figure, &scale)) } }
        div .plotted {
            (draw::axis(&scale))
            div .rows {
                (draw::grid(&scale))
                @for rung in safe { (row(rung)) }
                @if !risky.is_empty() {
                    (draw::apart_heading(&risky))
                    @for rung in risky { (row(rung)) }
                }
            }
        }
    }
}

fn values(chart: &Chart<'_>, figure: Figure, has_originals: bool) -> Vec<f64> {
    let mut values: Vec<f64> = chart.rungs.iter().filter_map(|rung| figure.of(rung)).collect();
    for rung in &chart.rungs {
        if let Some((low, high)) = range(rung, figure) {
            values.extend([low, high]);
        }
        if has_originals {
            values.extend(rung.original.as_ref().and_then(|original| original.seconds));
        }
    }
    values
}

/// The range of the runs, in the figure's unit.
fn range(rung: &Rung, figure: Figure) -> Option<(f64, f64)> {
    match figure {
        Figure::Seconds => draw::range(&rung.runs_s),
        Figure::PerSecond => {
            let rows = rung.rows? as f64;
            let rates: Vec<f64> = rung.runs_s.iter().map(|seconds| rows / seconds).collect();
            draw::range(&rates)
        }
        Figure::HalfOfCalls | Figure::SlowCalls => None,
    }
}

/// Heading of a chart that is read like the one before.
fn in_short(figure: Figure, scale: &Scale) -> &'static str {
    match (figure, scale.is_log) {
        (Figure::PerSecond, false) => "Rows a second; longer is better.",
        (Figure::PerSecond, true) => "Rows a second; longer is better. The axis is logarithmic.",
        (_, false) => "Time for all the work; shorter is better.",
        (_, true) => "Time for all the work; shorter is better. The axis is logarithmic.",
    }
}

/// Instruction for reading the chart, in one line.
fn how(figure: Figure, scale: &Scale, chart: &Chart<'_>, has_originals: bool) -> Markup {
    let measure = match figure {
        Figure::PerSecond => "Rows a second; longer is better.",
        _ => "Time for all the work; shorter is better.",
    };
    let has_runs = chart.rungs.iter().any(|rung| rung.runs_s.len() > 1);
    let originals = chart.rungs.iter().filter_map(|rung| rung.original.as_ref());
    let has_originals = has_originals && originals.filter_map(|it| it.seconds).count() > 0;
    html! {
        (measure)
        @if scale.is_log { " The axis is logarithmic: equal steps are equal factors." }
        @if has_runs { " The thin line is the range of the runs." }
        @if has_originals {
            " "
            svg .key width="11" height="11" viewBox="-5.5 -5.5 11 11" aria-hidden="true" {
                path .diamond d="M0-4.5L4.5 0L0 4.5L-4.5 0Z" {}
            }
            " is what the original found, on its machine and with as many rows as it had."
        }
    }
}

fn row(rung: &Rung, figure: Figure, scale: &Scale, has_originals: bool) -> Markup {
    let value = figure.of(rung).unwrap_or_default();
    let end = scale.at(value);
    let range = range(rung, figure).map(|(low, high)| (scale.at(low), scale.at(high)));
    // A range that is narrower than its own line says nothing.
    let range = range.filter(|(low, high)| high - low > 1.2);
    let text_at = range.map_or(end, |(_, high)| high.max(end));
    let original = rung.original.as_ref().filter(|_| has_originals);
    let original = original.and_then(|it| Some((scale.at(it.seconds?), draw::original_words(it)?)));
    let height = if original.is_some() { "40" } else { "30" };
    html! {
        div class={ "row " (draw::kind(rung)) } {
            (draw::name(rung))
            svg .track height=(height) role="img" tabindex="0" {
                title { (title(rung, figure)) }
                rect .bar width=(percent(end)) {}
                @if let Some((low, high)) = range { (whisker(low, high)) }
                svg x=(percent(text_at)) y="14.5" {
                    text .value x="7" dy=".35em" { (draw::in_words(figure, value)) }
                }
                @if let Some((at, words)) = &original { (diamond(*at, words)) }
            }
        }
    }
}

fn whisker(low: f64, high: f64) -> Markup {
    let (low, high) = (percent(low), percent(high));
    html! {
        g .whisker {
            line x1=(low) x2=(high) y1="14.5" y2="14.5" {}
            line x1=(low) x2=(low) y1="11" y2="18" {}
            line x1=(high) x2=(high) y1="11" y2="18" {}
        }
    }
}

/// The original's figure, below the bar; the row has room for its words at the right end.
fn diamond(at: f64, words: &str) -> Markup {
    html! {
        svg .original x=(percent(at)) y=(ORIGINAL_Y) {
            path .diamond d="M0-4.5L4.5 0L0 4.5L-4.5 0Z" {}
            text x="9" dy=".35em" { (words) }
        }
    }
}

/// All that is known of the bar, a line for each.
fn title(rung: &Rung, figure: Figure) -> String {
    let value = figure.of(rung).unwrap_or_default();
    let unit = if figure == Figure::PerSecond { " rows a second" } else { "" };
    let mut lines =
        vec![format!("{}: {}{unit}", story::label_of(rung), draw::in_words(figure, value))];
    if let Some((low, high)) = range(rung, figure) {
        let (low, high) = (draw::in_words(figure, low), draw::in_words(figure, high));
        lines.push(format!("{} runs, from {low} to {high}", rung.runs_s.len()));
    }
    if figure == Figure::Seconds && rung.per_second.is_finite() {
        lines.push(format!("{} rows a second", numbers::rate(rung.per_second)));
    }
    if let Some(rows) = rung.sample_rows {
        lines.push(format!("scaled from {} rows", numbers::count(rows)));
    }
    if let Some(words) = rung.original.as_ref().and_then(draw::original_words) {
        let note = rung.original.as_ref().and_then(|original| original.note.as_deref());
        let note = note.map_or_else(String::new, |note| format!(" ({})", story::shortened(note)));
        lines.push(format!("the original: {words}{note}"));
    }
    lines.push(story::loses(rung));
    lines.join("\n")
}
