//! A bar for each rung of a chart, drawn with block characters.
//!
//! Rungs stand under what they may lose, and those that a crash can corrupt below a line,
//! so that no eye compares the two.
//!
//! Must never: be wider than 80 columns, or draw what can corrupt beside what cannot.

use clap::builder::styling::Style;
use leafpress_bench::charts::Chart;
use leafpress_bench::numbers;
use leafpress_bench::report::{OriginalFigure, Rung};

use super::super::{INDENT, WIDTH};
use crate::human;
use crate::output::{FAINT, OURS, styled};

/// From this many times between the shortest and the longest on, the axis is logarithmic.
const LOG_SPAN: f64 = 20.0;
const LABEL_WIDTH_MAX: usize = 44;
const BAR_WIDTH_MIN: usize = 18;
/// The parts of a block, from one eighth on.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    /// On a logarithmic axis, what its left end stands for.
    log_from: Option<f64>,
    to: f64,
}

impl Scale {
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|it| it.is_finite() && *it > 0.0).collect();
        let from = values.iter().copied().fold(f64::INFINITY, f64::min);
        let to = values.iter().copied().fold(0.0, f64::max);
        // A whole decade below, so that the shortest bar is one too.
        let decade = 10_f64.powf((from * 0.7).log10().floor());
        Self { log_from: (to > from * LOG_SPAN).then_some(decade), to }
    }

    pub(super) fn is_log(self) -> bool {
        self.log_from.is_some()
    }

    /// From 0 to 1.
    pub(super) fn place(self, value: f64) -> f64 {
        if !(value > 0.0 && self.to > 0.0) {
            return 0.0;
        }
        let place = match self.log_from {
            Some(from) => (value / from).ln() / (self.to / from).ln(),
            None => value / self.to,
        };
        place.clamp(0.0, 1.0)
    }
}

/// A chart.
pub(super) fn of(chart: &Chart<'_>) -> String {
    let figure = chart.figure;
    let scale = Scale::of(chart.rungs.iter().filter_map(|rung| figure.of(rung)));
    let axis = if scale.is_log() { "; logarithmic axis" } else { "" };
    let has_original = |rung: &&Rung| rung.original.as_ref().is_some_and(|it| it.seconds.is_some());
    let originals = if chart.rungs.iter().any(has_original) { "; (the original's)" } else { "" };
    let heading = human::cut(chart.name, WIDTH - INDENT.len());
    let mut text = format!(
        "{INDENT}{heading}\n{INDENT}{}\n",
        styled(FAINT, &format!("{}{axis}{originals}", figure.heading()))
    );
    let values: Vec<String> = chart.rungs.iter().map(|rung| value(chart, rung)).collect();
    let value_width = human::widest(values.iter().map(String::as_str));
    let room = WIDTH.saturating_sub(INDENT.len() + value_width + 2);
    let label_width_max = room.saturating_sub(BAR_WIDTH_MIN).clamp(1, LABEL_WIDTH_MAX);
    let labels: Vec<String> =
        chart.rungs.iter().map(|rung| human::cut_inside(label(rung), label_width_max)).collect();
    let label_width = human::widest(labels.iter().map(String::as_str));
    let bar_width = room.saturating_sub(label_width);
    for (words, rungs) in sections(&chart.rungs) {
        text += &section_heading(&words, chart.rungs[rungs[0]]);
        for index in rungs {
            let rung = chart.rungs[index];
            let place = figure.of(rung).map_or(0.0, |value| scale.place(value));
            let bar = styled(style_of(rung), &bar(place, bar_width));
            let label = human::left(&labels[index], label_width);
            text += &format!("{INDENT}{label} {bar} {}\n", values[index]);
        }
    }
    text + &samples(&chart.rungs)
}

/// Label of a rung.
pub(super) fn label(rung: &Rung) -> &str {
    if rung.label.is_empty() { &rung.name } else { &rung.label }
}

/// Text at the end of a bar: its figure, and the original's.
fn value(chart: &Chart<'_>, rung: &Rung) -> String {
    let about = if rung.sample_rows.is_some() { "≈ " } else { "" };
    let value = chart.figure.of(rung).map(|value| chart.figure.in_words(value));
    let original = match &rung.original {
        Some(OriginalFigure { seconds: Some(seconds), .. }) => {
            format!(" ({})", in_seconds(*seconds))
        }
        _ => String::new(),
    };
    format!("{about}{}{original}", value.unwrap_or_default())
}

/// Seconds as the originals have them: "2,000 s", "5.26 s".
fn in_seconds(seconds: f64) -> String {
    if seconds < 99.95 {
        numbers::time(seconds)
    } else {
        format!("{} s", numbers::count(seconds as u64))
    }
}

/// Rungs by what they may lose: the safe ones first, what can corrupt last.
fn sections(rungs: &[&Rung]) -> Vec<(String, Vec<usize>)> {
    let mut sections: Vec<(u8, String, Vec<usize>)> = Vec::new();
    for (index, rung) in rungs.iter().enumerate() {
        let order = match rung.safety {
            it if it.keeps_all() => 0,
            it if it.can_corrupt() => 2,
            _ => 1,
        };
        let words = if rung.may_lose.is_empty() { rung.safety.may_lose() } else { &rung.may_lose };
        match sections.iter_mut().find(|it| it.0 == order && it.1 == words) {
            Some((_, _, indexes)) => indexes.push(index),
            None => sections.push((order, words.to_owned(), vec![index])),
        }
    }
    sections.sort_by_key(|(order, ..)| *order);
    sections.into_iter().map(|(_, words, indexes)| (words, indexes)).collect()
}

fn section_heading(may_lose: &str, first: &Rung) -> String {
    let words = if first.safety.keeps_all() && may_lose == "nothing" {
        "loses nothing, also in a power cut".to_owned()
    } else {
        format!("may lose {}", human::printable(may_lose))
    };
    let width = WIDTH - INDENT.len();
    if first.safety.can_corrupt() {
        let words = human::cut(&format!("── {words} "), width);
        let line = "─".repeat(width.saturating_sub(human::widest([words.as_str()])));
        return format!("{INDENT}{}\n", styled(FAINT, &format!("{words}{line}")));
    }
    format!("{INDENT}{}\n", styled(FAINT, &human::cut(&words, width)))
}

fn style_of(rung: &Rung) -> Style {
    match rung.is_ours {
        true => OURS,
        false if rung.safety.can_corrupt() => FAINT,
        false => Style::new(),
    }
}

/// A bar of eighths of blocks; what is there at all is one eighth at least.
fn bar(place: f64, width: usize) -> String {
    let eighths = (place * (width * 8) as f64).round() as usize;
    let eighths = if place > 0.0 { eighths.max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((eighths % 8).checked_sub(1).map(|part| EIGHTHS[part]));
    bar
}

/// Note on rungs that were scaled up, with their numbers of rows.
fn samples(rungs: &[&Rung]) -> String {
    let scaled = rungs.iter().filter_map(|rung| Some((label(rung), rung.sample_rows?)));
    let scaled: Vec<String> = scaled
        .map(|(label, rows)| format!("\"{label}\" from {} rows", numbers::count(rows)))
        .collect();
    if scaled.is_empty() {
        return String::new();
    }
    let text = human::printable(&format!("≈ scaled: {}", scaled.join(", ")));
    let text = human::wrapped(&text, WIDTH - INDENT.len(), INDENT.len() + 2);
    format!("{INDENT}{}\n", styled(FAINT, &text))
}
