//! A small curve for each rung whose work comes in batches or in cycles: whether it slows
//! down, and where it stumbles.
//!
//! Each curve has its own height, from nothing to its worst, as it is its form that tells;
//! the figures stand beside it.
//!
//! Must never: be wider than 80 columns, or smooth away the worst.

use leafpress_bench::charts::Chart;
use leafpress_bench::numbers;
use leafpress_bench::report::Rung;
use leafpress_bench::statistics::median;

use super::super::{INDENT, WIDTH};
use super::bars::label;
use crate::human;
use crate::output::{FAINT, OURS, styled};

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const LABEL_WIDTH_MAX: usize = 44;
const CURVE_WIDTH_MAX: usize = 20;

/// The curves of a chart; nothing where its work comes in one piece.
pub(super) fn of(chart: &Chart<'_>) -> String {
    let batches = |rung: &Rung| rung.batches_s.clone();
    let cycles = |rung: &Rung| rung.cycles_us.iter().map(|us| us / 1e6).collect();
    curves(chart, "each batch: first → last, the worst (its number)", batches, |_, seconds| {
        let ends = seconds.first().zip(seconds.last());
        let ends = ends.map(|(first, last)| [first, last].map(|it| numbers::time(*it)).join(" → "));
        format!("{}, {}", ends.unwrap_or_default(), worst(seconds, &[]))
    }) + &curves(
        chart,
        "each cycle: half take at most, the worst (its number; c: a checkpoint)",
        cycles,
        |rung, seconds| {
            let median = median(seconds).map(numbers::time).unwrap_or_default();
            format!("{median}, {}", worst(seconds, &rung.checkpoints))
        },
    )
}

fn curves(
    chart: &Chart<'_>,
    heading: &str,
    seconds_of: impl Fn(&Rung) -> Vec<f64>,
    figures: impl Fn(&Rung, &[f64]) -> String,
) -> String {
    let courses: Vec<(&Rung, Vec<f64>)> =
        chart.rungs.iter().map(|rung| (*rung, seconds_of(rung))).collect();
    let courses: Vec<_> = courses.into_iter().filter(|(_, seconds)| seconds.len() > 1).collect();
    if courses.is_empty() {
        return String::new();
    }
    let figures: Vec<String> =
        courses.iter().map(|(rung, seconds)| figures(rung, seconds)).collect();
    let figures_width = human::widest(figures.iter().map(String::as_str));
    let label_width_max = WIDTH
        .saturating_sub(INDENT.len() + CURVE_WIDTH_MAX + figures_width + 2)
        .clamp(1, LABEL_WIDTH_MAX);
    let labels: Vec<String> =
        courses.iter().map(|(rung, _)| human::cut_inside(label(rung), label_width_max)).collect();
    let label_width = human::widest(labels.iter().map(String::as_str));
    let mut text = format!("{INDENT}{}\n", styled(FAINT, heading));
    for (((rung, seconds), label), figures) in courses.iter().zip(&labels).zip(&figures) {
        let drawn = curve(seconds, CURVE_WIDTH_MAX);
        let drawn = if rung.is_ours { styled(OURS, &drawn) } else { drawn };
        text += &format!("{INDENT}{} {drawn} {figures}\n", human::left(label, label_width));
    }
    text
}

/// "27 ms (91c)".
fn worst(seconds: &[f64], checkpoints: &[usize]) -> String {
    let worst = seconds.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
    let Some((index, worst)) = worst else { return String::new() };
    let checkpoint = if checkpoints.contains(&index) { "c" } else { "" };
    format!("{} ({}{checkpoint})", numbers::time(*worst), index + 1)
}

/// One character for each value, or for the largest of those that have to share one.
pub(super) fn curve(values: &[f64], width_max: usize) -> String {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let width = values.len().min(width_max);
    (0..width)
        .map(|place| {
            let (from, to) = (place * values.len() / width, (place + 1) * values.len() / width);
            let value = values[from..to].iter().copied().fold(0.0, f64::max);
            let level = if highest > 0.0 { (value / highest * 8.0).ceil() } else { 0.0 };
            LEVELS[(level as usize).clamp(1, 8) - 1]
        })
        .collect()
}
