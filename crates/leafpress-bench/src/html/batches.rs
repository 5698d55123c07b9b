//! A line for each rung, a point for each batch: which shows the slowdown as the table grows.
//!
//! Must never: leave a line without its name.

use maud::{Markup, html};

use super::lines::{self, Line, Plot, Point};
use super::scale::{Scale, Unit};
use super::{draw, story};
use crate::charts::Chart;
use crate::report::{Original, OriginalFigure};

/// Height of a chart of many lines, and of one of few.
const HEIGHT: f64 = 300.0;
const HEIGHT_OF_FEW: f64 = 190.0;
const FEW: usize = 3;
/// More points than this are thinned: no reader can tell them apart.
const POINTS_MAX: usize = 60;

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
    let places = lines.iter().filter_map(|line| line.points.last()).map(|it| it.place).max()?;
    let height = if lines.len() > FEW { HEIGHT } else { HEIGHT_OF_FEW };
    let plot = Plot { scale, places, height };
    Some(html! {
        p .how { @if is_first { (how(&lines, scale)) } @else { "Time for each batch; lower is better." } }
        (lines::of(&lines, &plot, "Seconds of each batch", &batch_axis(&plot)))
    })
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

fn lines(chart: &Chart<'_>, original: Option<&Original>, points_max: usize) -> Vec<Line> {
    let mut kinds = 0;
    let mut lines: Vec<Line> = Vec::new();
    let mut found: Vec<&OriginalFigure> = Vec::new();
    for rung in chart.rungs.iter().filter(|rung| !rung.batches_s.is_empty()) {
        lines.push(Line {
            label: story::label_of(rung),
            points: points(&rung.batches_s, points_max),
            class: lines::class(rung, &mut kinds),
            loses: Some(story::loses(rung)),
        });
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

fn points(batches_s: &[f64], points_max: usize) -> Vec<Point> {
    let step = batches_s.len().div_ceil(points_max).max(1);
    let last = batches_s.len().saturating_sub(1);
    let numbered = batches_s.iter().enumerate();
    numbered
        .filter(|(index, seconds)| (index % step == 0 || *index == last) && seconds.is_finite())
        .map(|(index, seconds)| Point {
            place: index + 1,
            value: *seconds,
            words: format!("{}\nbatch {} of {}", draw::time(*seconds), index + 1, batches_s.len()),
        })
        .collect()
}

fn batch_axis(plot: &Plot<'_>) -> Markup {
    let step = plot.places.div_ceil(10).max(1);
    html! {
        @for batch in (1..=plot.places).step_by(step) {
            (lines::tick(plot, batch, &batch.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(points.first().map(|it| it.place), Some(1));
        assert_eq!(points.last().map(|it| it.place), Some(1000));
    }
}
