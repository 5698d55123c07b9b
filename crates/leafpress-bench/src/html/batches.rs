//! A line for each rung, a point for each batch: which shows the slowdown as the table grows.
//!
//! Must never: leave a line without its name.

use maud::{Markup, html};

use super::draw::{self, percent, pixels};
use super::scale::{Scale, Unit};
use super::story;
use crate::charts::Chart;
use crate::report::{Original, OriginalFigure};

/// Height of a chart of many lines, and of one of few.
const HEIGHT: f64 = 300.0;
const HEIGHT_OF_FEW: f64 = 190.0;
const FEW: usize = 3;
/// Labels at the ends of the lines keep this many pixels between them.
const LABEL_HEIGHT: f64 = 17.0;
/// More letters do not fit beside the chart; the list below has the whole name.
const LABEL_CHARS_MAX: usize = 30;
/// More points than this are thinned: no reader can tell them apart.
const POINTS_MAX: usize = 60;
/// Lines that differ in more than colour: this many kinds there are in the style.
const KINDS: usize = 7;

/// One line.
struct Line {
    label: String,
    /// Batch from 1, and its seconds.
    points: Vec<(usize, f64)>,
    class: String,
    loses: Option<String>,
}

/// One axis for all charts of an experiment, so that its kinds of keys can be compared.
pub(super) fn scale(charts: &[Chart<'_>], original: Option<&Original>) -> Scale {
    let mut values: Vec<f64> = Vec::new();
    for rung in charts.iter().flat_map(|chart| &chart.rungs) {
        values.extend(&rung.batches_s);
        values.extend(rung.original.iter().flat_map(|original| &original.batches_s));
    }
    let figures = original.iter().flat_map(|original| &original.figures);
    values.extend(figures.flat_map(|figure| &figure.batches_s));
    Scale::of_points(&values, Unit::Seconds)
}

/// The chart of these rungs and of their originals, where there are batches.
pub(super) fn of(
    chart: &Chart<'_>,
    original: Option<&Original>,
    scale: &Scale,
    points_max: usize,
    is_first: bool,
) -> Option<Markup> {
    let lines = lines(chart, original, points_max.min(POINTS_MAX));
    let batches =
        lines.iter().filter_map(|line| line.points.last()).map(|(batch, _)| *batch).max()?;
    let height = if lines.len() > FEW { HEIGHT } else { HEIGHT_OF_FEW };
    let plot = Plot { scale, batches, height };
    let letters: Vec<char> = (0..lines.len()).map(letter).collect();
    Some(html! {
        p .how { @if is_first { (how(&lines, scale)) } @else { "Time for each batch; lower is better." } }
        div .lines {
            svg .plot width="100%" height=(pixels(height + 24.0)) role="group"
                aria-label="Seconds of each batch" data-marks="near" {
                (draw::levels(scale, height))
                (batch_axis(&plot))
                @for line in &lines { (drawn(line, &plot)) }
                (ends(&lines, &letters, &plot))
            }
        }
        (legend(&lines, &letters))
    })
}

/// Places of a chart's points.
struct Plot<'s> {
    scale: &'s Scale,
    batches: usize,
    height: f64,
}

impl Plot<'_> {
    /// In per cent.
    fn across(&self, batch: usize) -> f64 {
        if self.batches < 2 { 50.0 } else { (batch - 1) as f64 / (self.batches - 1) as f64 * 100.0 }
    }

    /// In pixels.
    fn down(&self, seconds: f64) -> f64 {
        self.height * (1.0 - self.scale.at(seconds) / 100.0)
    }
}

fn how(lines: &[Line], scale: &Scale) -> Markup {
    html! {
        "Time for each batch, from the first to the last; lower is better."
        @if scale.is_log { " The axis is logarithmic." }
        @if lines.iter().any(|line| line.class.contains("found")) {
            " Dashed: what the original found, with batches of its own size."
        }
    }
}

/// The names of the lines in full; needed only where those at their ends are letters or cut.
fn legend(lines: &[Line], letters: &[char]) -> Markup {
    let is_whole = lines.iter().all(|line| line.label.chars().count() <= LABEL_CHARS_MAX);
    html! {
        ol class=(if is_whole { "legend for-letters" } else { "legend" }) {
            @for (line, letter) in lines.iter().zip(letters) {
                li class=(line.class) {
                    span .letter { (letter) }
                    (swatch())
                    span { (line.label) @if let Some(loses) = &line.loses { ", " (loses) } }
                }
            }
        }
    }
}

fn lines(chart: &Chart<'_>, original: Option<&Original>, points_max: usize) -> Vec<Line> {
    let mut kinds = 0..;
    let mut lines: Vec<Line> = Vec::new();
    let mut found: Vec<&OriginalFigure> = Vec::new();
    for rung in chart.rungs.iter().filter(|rung| !rung.batches_s.is_empty()) {
        let class = if rung.is_ours {
            "line ours".to_owned()
        } else {
            format!("line kind{}", kinds.next().unwrap_or(0) % KINDS)
        };
        let class = if rung.safety.can_corrupt() { format!("{class} risky") } else { class };
        let points = points(&rung.batches_s, points_max);
        let loses = Some(story::loses(rung));
        lines.push(Line { label: story::label_of(rung), points, class, loses });
        found.extend(&rung.original);
    }
    // The experiment's original is drawn where no rung has one of its own.
    if !lines.is_empty() && !found.iter().any(|figure| !figure.batches_s.is_empty()) {
        found.extend(original.iter().flat_map(|original| &original.figures));
    }
    for figure in found.into_iter().filter(|figure| !figure.batches_s.is_empty()) {
        lines.push(Line {
            label: format!("original: {}", story::shortened(within(chart.name, &figure.label))),
            points: points(&figure.batches_s, points_max),
            class: "line found".to_owned(),
            loses: None,
        });
    }
    lines
}

/// A label without the name of its chart, which stands above it.
fn within<'l>(chart: &str, label: &'l str) -> &'l str {
    label.strip_prefix(chart).and_then(|rest| rest.strip_prefix(", ")).unwrap_or(label)
}

fn points(batches_s: &[f64], points_max: usize) -> Vec<(usize, f64)> {
    let step = batches_s.len().div_ceil(points_max).max(1);
    let last = batches_s.len().saturating_sub(1);
    let numbered = batches_s.iter().enumerate();
    numbered
        .filter(|(index, seconds)| (index % step == 0 || *index == last) && seconds.is_finite())
        .map(|(index, seconds)| (index + 1, *seconds))
        .collect()
}

fn letter(index: usize) -> char {
    char::from(b'A' + (index % 26) as u8)
}

fn batch_axis(plot: &Plot<'_>) -> Markup {
    let step = plot.batches.div_ceil(10).max(1);
    html! {
        g .across aria-hidden="true" {
            @for batch in (1..=plot.batches).step_by(step) {
                text x=(percent(plot.across(batch))) y=(pixels(plot.height + 18.0))
                    text-anchor="middle" { (batch) }
            }
        }
    }
}

fn drawn(line: &Line, plot: &Plot<'_>) -> Markup {
    let mut path = String::new();
    for (index, (batch, seconds)) in line.points.iter().enumerate() {
        let x = pixels(plot.across(*batch) * 10.0);
        let y = pixels(plot.down(*seconds));
        path.extend([if index == 0 { "M" } else { "L" }, &x, " ", &y]);
    }
    html! {
        g class=(line.class) {
            svg x="0" y="0" width="100%" height=(pixels(plot.height))
                viewBox={ "0 0 1000 " (pixels(plot.height)) } preserveAspectRatio="none" {
                path .stroke d=(path) vector-effect="non-scaling-stroke" {}
            }
            @for (batch, seconds) in &line.points {
                circle cx=(percent(plot.across(*batch))) cy=(pixels(plot.down(*seconds))) {
                    title {
                        (cut(&line.label)) ": " (draw::time(*seconds)) "\nbatch " (batch) " of " (plot.batches)
                    }
                }
            }
        }
    }
}

/// The names at the ends of the lines, moved apart where they would overlap.
fn ends(lines: &[Line], letters: &[char], plot: &Plot<'_>) -> Markup {
    let wanted: Vec<f64> =
        lines.iter().map(|line| line.points.last().map_or(0.0, |(_, s)| plot.down(*s))).collect();
    let places = spread(&wanted, LABEL_HEIGHT, plot.height);
    html! {
        svg .ends x="100%" y="0" {
            @for (index, line) in lines.iter().enumerate() {
                @let (from, to) = (wanted[index], places[index]);
                @let is_last = line.points.last().is_some_and(|(batch, _)| *batch == plot.batches);
                g class=(line.class) {
                    @if is_last {
                        path .leader d={ "M6 " (pixels(from)) "L16 " (pixels(to)) } {}
                    }
                    text .wide x="20" y=(pixels(to)) dy=".35em" { (cut(&line.label)) }
                    text .narrow x="18" y=(pixels(to)) dy=".35em" { (letters[index]) }
                }
            }
        }
    }
}

fn cut(label: &str) -> String {
    match label.char_indices().nth(LABEL_CHARS_MAX) {
        None => label.to_owned(),
        Some((at, _)) => format!("{}…", label[..at].trim_end()),
    }
}

/// Moves places apart until there is room between all, as little as that takes.
fn spread(wanted: &[f64], room: f64, height: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
    let mut places = wanted.to_vec();
    let mut above = f64::NEG_INFINITY;
    for index in &order {
        places[*index] = places[*index].max(above + room);
        above = places[*index];
    }
    let mut below = height + room;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(below - room);
        below = places[*index];
    }
    places
}

fn swatch() -> Markup {
    html! {
        svg .swatch width="26" height="10" aria-hidden="true" {
            path .stroke d="M1 5L25 5" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_their_order() {
        let places = spread(&[100.0, 101.0, 20.0, 102.0, 319.0, 318.0], 17.0, 320.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 16.9), "{places:?}");
        assert!(places[0] < places[1] && places[1] < places[3] && places[5] < places[4]);
        assert!(sorted.iter().all(|place| *place <= 320.0), "{places:?}");
        assert!((places[2] - 20.0).abs() < 1e-9, "who has room stays");
    }

    #[test]
    fn a_label_does_not_repeat_its_heading() {
        assert_eq!(within("UUIDv4", "UUIDv4, as they come"), "as they come");
        for label in ["as they come", "UUIDv4", "UUIDv47, as they come"] {
            assert_eq!(within("UUIDv4", label), label);
        }
    }

    #[test]
    fn long_lines_are_thinned_and_keep_their_ends() {
        let points = points(&vec![1.0; 1000], POINTS_MAX);
        assert!(points.len() <= POINTS_MAX + 1);
        assert_eq!(points.first(), Some(&(1, 1.0)));
        assert_eq!(points.last(), Some(&(1000, 1.0)));
    }
}
