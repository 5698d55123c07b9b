//! Whether rungs come in the order of a published experiment: in words, and only as far
//! as the runs can tell.

use std::cmp::Ordering::Equal;

use crate::report::Rung;

/// Two medians that differ by less are told to be about the same.
const TOLD_APART: f64 = 1.1;

/// The rungs that have a figure of the original's, and how they came out, from that
/// experiment's slowest to its fastest; `why` says of a rung that took longer than one it
/// beats there how that may be.
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
            span(slower.median_s),
            span(faster.median_s),
            span(there(slower)?),
            span(there(faster)?),
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
            span(first.median_s),
            span(there(first).unwrap_or_default()),
            last.label,
            span(last.median_s),
            span(there(last).unwrap_or_default()),
        );
    }
    format!(
        "The order is the original's as far as these runs can tell: {} took about the same here.",
        same.join(", ")
    )
}

/// Whether one took longer than the other beyond doubt: by more than the noise, and in
/// every run.
fn is_slower(one: &Rung, other: &Rung) -> bool {
    let fastest = one.runs_s.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = other.runs_s.iter().copied().fold(0.0, f64::max);
    one.median_s > other.median_s * TOLD_APART && fastest > slowest
}

/// A time as people say it: "2000 s", "5.85 s", "52 ms".
pub(crate) fn span(seconds: f64) -> String {
    let (number, unit) = match seconds {
        _ if seconds >= 1.0 => (seconds, "s"),
        _ if seconds >= 1e-3 => (seconds * 1e3, "ms"),
        _ => (seconds * 1e6, "µs"),
    };
    let decimals = match number {
        _ if number >= 100.0 => 0,
        _ if number >= 10.0 => 1,
        _ => 2,
    };
    format!("{number:.decimals$} {unit}")
}
