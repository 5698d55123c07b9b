//! Ratios to the rivals, in words.
//!
//! Must never: leave out a ratio that is bad for us, or show the best round alone.

use leafpress_bench::report::{BoundBy, ExperimentReport, Ratio};

use super::super::{INDENT, WIDTH};
use crate::human;
use crate::output::{FAINT, styled};

const FIGURE_WIDTH: usize = 8;
/// Between what another run should be: "12.4–15.2".
const RANGE_WIDTH: usize = 13;

/// The ratios; "worst" is the pair worst for us.
pub(super) fn of(report: &ExperimentReport) -> String {
    if report.ratios.is_empty() {
        return String::new();
    }
    let has_calls = report.rungs.iter().any(|rung| rung.latency_us.is_some());
    let heading = if has_calls { "times better" } else { "times faster" };
    let shown: Vec<(&str, &Ratio)> = report
        .ratios
        .iter()
        .filter(|(name, _)| !has_parts(report, name))
        .map(|(name, ratio)| (name.as_str(), ratio))
        .collect();
    let has_ranges = shown.iter().any(|(_, ratio)| range(ratio).is_some());
    let figures_width = 3 * FIGURE_WIDTH + if has_ranges { RANGE_WIDTH } else { 0 };
    let names: Vec<String> = shown
        .iter()
        .map(|(name, _)| human::cut(name, WIDTH - INDENT.len() - figures_width))
        .collect();
    let name_width = human::widest(names.iter().map(String::as_str).chain([heading]));
    let line = |name: &str, figures: [String; 3], range: &str| {
        let figures = figures.map(|figure| human::right(&figure, FIGURE_WIDTH)).concat();
        let range = if has_ranges { human::right(range, RANGE_WIDTH) } else { String::new() };
        format!("{}{figures}{range}", human::left(name, name_width)).trim_end().to_owned()
    };
    let heading = line(heading, ["worst", "median", "best"].map(str::to_owned), "another run");
    let mut text = format!("\n{INDENT}{}\n", styled(FAINT, &heading));
    for (name, (_, ratio)) in names.iter().zip(&shown) {
        let figures = [ratio.min, ratio.value, ratio.max].map(figure);
        let range = range(ratio).unwrap_or_default();
        text += &format!("{INDENT}{}\n", line(name, figures, &range));
    }
    let of_what = "each is the median of the rounds' ratios, which may differ from the quotient of \
                   the medians above by as much as its range";
    let of_what = human::wrapped(of_what, WIDTH - INDENT.len(), INDENT.len());
    text += &format!("{INDENT}{}\n", styled(FAINT, &of_what));
    text + &bounds(&shown)
}

/// A line for each resource that bounded ours, with the ratios for which it did.
fn bounds(shown: &[(&str, &Ratio)]) -> String {
    let line = |bound: BoundBy| {
        let names = shown.iter().filter(|(_, ratio)| ratio.bound_by == Some(bound));
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        let said = format!("ours was bound by {}: {}", bound.in_words(), names.join(", "));
        let said = human::wrapped(&said, WIDTH - INDENT.len(), INDENT.len());
        (!names.is_empty()).then(|| format!("{INDENT}{}\n", styled(FAINT, &said)))
    };
    BoundBy::ALL.into_iter().filter_map(line).collect()
}

/// Returns true if the name stands for the weakest of several sizes or places, which are listed
/// too. (The name for several rivals is the best of them in each round, and stays.)
fn has_parts(report: &ExperimentReport, name: &str) -> bool {
    let is_part = |other: &str| {
        let rest = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
        rest.is_some_and(|rest| !rest.starts_with("vs_"))
    };
    let mut ratios = report.ratios.iter();
    ratios.any(|(other, it)| is_part(other) && Some(it) == report.ratios.get(name))
}

/// A ratio in words. The second digit matters where ours is near the rival, or behind.
fn figure(value: f64) -> String {
    match value {
        it if it < 9.95 => format!("{it:.2}"),
        it if it < 99.95 => format!("{it:.1}"),
        it if it < 999.5 => format!("{it:.0}"),
        it if it < 99_950.0 => format!("{:.1}k", it / 1e3),
        it => format!("{:.0}k", it / 1e3),
    }
}

fn range(ratio: &Ratio) -> Option<String> {
    Some(format!("{}–{}", figure(ratio.low?), figure(ratio.high?)))
}
