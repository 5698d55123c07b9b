//! The rungs' order compared with a published experiment's. In words, and only as far as the
//! runs can tell.

use std::cmp::Ordering::Equal;

use crate::numbers::time;
use crate::options::Experiment;
use crate::report::Rung;

/// Two medians that differ by less count as about equal.
const TOLD_APART: f64 = 1.1;

/// Rungs of an experiment that have a figure of its original.
pub(crate) fn steps(rungs: &[Rung], experiment: Experiment) -> Vec<&Rung> {
    let is_step = |rung: &&Rung| rung.experiment == experiment.name() && rung.original.is_some();
    rungs.iter().filter(is_step).collect()
}

/// Result for rungs that have a figure of the original, from that experiment's slowest to its
/// fastest; `why` explains a rung that took longer here than one that it beats there.
pub(crate) fn in_words(rungs: &[&Rung], why: impl Fn(&Rung) -> String) -> String {
    let mut steps: Vec<&Rung> = rungs.to_vec();
    let there = |rung: &Rung| rung.original.as_ref().and_then(|figure| figure.seconds);
    steps.retain(|rung| there(rung).is_some());
    // Stable: what took the same there stays in the order given.
    steps.sort_by(|one, other| there(other).partial_cmp(&there(one)).unwrap_or(Equal));
    let [first, .., last] = steps.as_slice() else {
        return "Too few of the original's steps were measured to compare their order.".to_owned();
    };
    let late = steps.iter().enumerate().filter_map(|(index, slower)| {
        let before = steps[..index].iter().filter(|faster| is_slower(slower, faster));
        // The one that it should have beaten most easily.
        let faster = before.min_by(|one, other| one.median_s.total_cmp(&other.median_s))?;
        Some(format!(
            " \"{}\" took longer than \"{}\": {} and {} here, {} and {} there. {}",
            slower.label,
            faster.label,
            time(slower.median_s),
            time(faster.median_s),
            time(there(slower)?),
            time(there(faster)?),
            why(slower)
        ))
    });
    let late: String = late.collect();
    if !late.is_empty() {
        return format!("The order is not quite the original's.{late}");
    }
    let same: Vec<String> = steps
        .windows(2)
        .filter(|pair| !is_slower(pair[0], pair[1]))
        .map(|pair| format!("\"{}\" and \"{}\"", pair[0].label, pair[1].label))
        .collect();
    if same.is_empty() {
        return format!(
            "The order is the original's, from \"{}\" ({}, there {}) to \"{}\" ({}, there {}).",
            first.label,
            time(first.median_s),
            time(there(first).unwrap_or_default()),
            last.label,
            time(last.median_s),
            time(there(last).unwrap_or_default()),
        );
    }
    format!(
        "The order is the original's as far as these runs can tell: {} took about the same here.",
        same.join(", ")
    )
}

/// Returns true if one took longer than the other beyond doubt: by more than the noise, and in
/// every run.
fn is_slower(one: &Rung, other: &Rung) -> bool {
    let fastest = one.runs_s.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = other.runs_s.iter().copied().fold(0.0, f64::max);
    one.median_s > other.median_s * TOLD_APART && fastest > slowest
}
