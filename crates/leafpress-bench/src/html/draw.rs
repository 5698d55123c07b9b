//! Parts that all charts share: places in per cent, the axis, the lines of the grid, a row with a
//! name and a track, the words about a rung.
//!
//! Must never: use a size that depends on the width of the page.

use maud::{Markup, html};

use super::scale::{Scale, Tick};
use super::story;
use crate::charts::Figure;
use crate::numbers;
use crate::report::{OriginalFigure, Rung, Safety};

/// A time in words that no line breaks apart.
pub(super) fn time(seconds: f64) -> String {
    numbers::time(seconds).replace(' ', "\u{a0}")
}

/// A figure in words that no line breaks apart.
pub(super) fn in_words(figure: Figure, value: f64) -> String {
    figure.in_words(value).replace(' ', "\u{a0}")
}

/// Megabytes as exact as it matters.
pub(super) fn megabytes(megabytes: f64) -> String {
    let usable = if megabytes.is_finite() { megabytes.clamp(0.0, 1e12) } else { 0.0 };
    let decimals = usize::from(usable < 10.0);
    format!("{usable:.decimals$}\u{a0}MB")
}

/// "37.2%", short where it can be: on any screen a tenth of a per cent is about a pixel.
pub(super) fn percent(place: f64) -> String {
    let text = format!("{place:.1}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text.as_str()
    };
    format!("{text}%")
}

/// A number of pixels with one decimal at most.
pub(super) fn pixels(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The hatching of what can corrupt and the signs of what may be lost, once for all charts.
pub(super) fn patterns() -> Markup {
    html! {
        svg .patterns width="0" height="0" aria-hidden="true" {
            defs {
                pattern #hatch width="6" height="6" patternUnits="userSpaceOnUse"
                    patternTransform="rotate(45)" {
                    rect .ground width="6" height="6" {}
                    rect .stripe width="2.6" height="6" {}
                }
                g #loses-nothing { circle .full cx="5" cy="5" r="4" {} }
                g #loses-last {
                    circle cx="5" cy="5" r="3.4" {}
                    path .full d="M5 1.6A3.4 3.4 0 0 0 5 8.4Z" {}
                }
                path #loses-all d="M2 2L8 8M8 2L2 8" {}
            }
        }
    }
}

/// The labels of a horizontal axis, above the rows.
pub(super) fn axis(scale: &Scale) -> Markup {
    let ticks = scale.ticks();
    html! {
        div .axis-row aria-hidden="true" {
            svg .axis width="100%" height="16" {
                @for tick in &ticks {
                    text x=(percent(tick.at)) y="11" text-anchor=(anchor(tick))
                        class=[tick.is_spare.then_some("spare")] { (tick.text) }
                }
            }
        }
    }
}

/// A label at the low end must not leave the chart to the left.
fn anchor(tick: &Tick) -> &'static str {
    if tick.at < 2.0 { "start" } else { "middle" }
}

/// The lines behind all rows.
pub(super) fn grid(scale: &Scale) -> Markup {
    html! {
        svg .grid aria-hidden="true" width="100%" height="100%" {
            @for tick in scale.ticks() {
                @let x = percent(tick.at);
                line class=[(tick.at < 0.01).then_some("base")] x1=(x) x2=(x) y1="0" y2="100%" {}
            }
        }
    }
}

/// The horizontal lines of a plot with their labels, for a plot of this height in pixels.
pub(super) fn levels(scale: &Scale, height: f64) -> Markup {
    html! {
        g .levels aria-hidden="true" {
            @for tick in scale.ticks() {
                @let y = pixels(height * (1.0 - tick.at / 100.0));
                line x2="100%" y1=(y) y2=(y) {}
                text x="-7" y=(y) dy="4" { (tick.text) }
            }
        }
    }
}

/// Kind of a rung, for its colours.
pub(super) fn kind(rung: &Rung) -> &'static str {
    match (rung.is_ours, rung.safety.can_corrupt()) {
        (true, false) => "ours",
        (true, true) => "ours risky",
        (false, true) => "risky",
        (false, false) => "theirs",
    }
}

/// The name of a rung with what it may lose.
pub(super) fn name(rung: &Rung) -> Markup {
    named(rung, "")
}

/// Name of a rung with a note.
pub(super) fn named(rung: &Rung, note: &str) -> Markup {
    html! {
        div .name {
            span .label { (story::label_of(rung)) }
            " "
            span .loses { (safety_sign(rung.safety)) (story::loses(rung)) }
            @if let Some(rows) = rung.sample_rows {
                " "
                span .sample { "scaled from " (numbers::count(rows)) " rows" }
            }
            @if !note.is_empty() { " " span .sample { (note) } }
        }
    }
}

/// A full circle loses nothing, a half one the last moments, a cross everything.
fn safety_sign(safety: Safety) -> Markup {
    let sign = match safety {
        _ if safety.can_corrupt() => "#loses-all",
        _ if safety.keeps_all() => "#loses-nothing",
        _ => "#loses-last",
    };
    html! {
        svg .sign aria-hidden="true" { use href=(sign) {} }
    }
}

/// "the original: 5.85 s".
pub(super) fn original_words(original: &OriginalFigure) -> Option<String> {
    original.seconds.filter(|seconds| seconds.is_finite()).map(time)
}

/// The rungs that cannot corrupt, and those that can.
pub(super) fn apart<'r>(rungs: &[&'r Rung]) -> (Vec<&'r Rung>, Vec<&'r Rung>) {
    rungs.iter().copied().partition(|rung| !rung.safety.can_corrupt())
}

/// The rule above the rungs that can corrupt, in their own words.
pub(super) fn apart_heading(rungs: &[&Rung]) -> Markup {
    let mut words: Vec<String> = rungs.iter().map(|rung| story::loses(rung)).collect();
    words.dedup();
    html! {
        p .apart { strong { "Drawn apart: " } "each " (words.join("; ")) "." }
    }
}

/// A sentence of the report's, in which `this` is code.
pub(super) fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// The smallest and the largest of the runs, where they differ.
pub(super) fn range(runs: &[f64]) -> Option<(f64, f64)> {
    let usable = runs.iter().copied().filter(|run| run.is_finite());
    let (low, high) = usable
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), run| (low.min(run), high.max(run)));
    (low < high).then_some((low, high))
}
