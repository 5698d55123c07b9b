//! Words that all conclusions share: names of rungs, and entries of advice.

use super::multiple::Figure;
use super::terms;
use crate::report::{Advice, Ratio, Rung};

/// The settings of a connection that sets none.
pub(super) const DEFAULT: &str = "SQLite's default";

/// The time of a rung: "14.2 s", or "about 14.2 s" where it was scaled.
pub(super) fn taken(rung: &Rung) -> String {
    Figure::Time.in_words(rung)
}

/// The name of a rung, for a headline.
pub(super) fn named(rung: &Rung) -> String {
    format!("\"{}\"", label(rung))
}

/// The name of a rung and its meaning in brackets, for a sentence.
pub(super) fn quoted(rung: &Rung) -> String {
    match terms::meaning(label(rung)) {
        Some(meaning) => format!("{} ({meaning})", named(rung)),
        None => named(rung),
    }
}

/// The name of a rung and its meaning behind a comma, where a bracket or a comma follows.
pub(super) fn spelled_out(rung: &Rung) -> String {
    match terms::meaning(label(rung)) {
        Some(meaning) => format!("{}, {meaning}", named(rung)),
        None => named(rung),
    }
}

pub(super) fn label(rung: &Rung) -> &str {
    if rung.label.is_empty() { &rung.name } else { &rung.label }
}

/// The work of a rung under its settings, by its label: "a transaction each" of "WAL, a
/// transaction each".
pub(super) fn work_of(rung: &Rung) -> &str {
    label(rung).split_once(", ").map_or("", |(_, work)| work)
}

pub(super) fn advice(
    experiment: &str,
    headline: impl Into<String>,
    text: impl Into<String>,
) -> Advice {
    Advice {
        experiment: experiment.to_owned(),
        headline: headline.into(),
        text: text.into(),
        ..Advice::default()
    }
}

/// Adds to advice how many times faster it is, and than what.
pub(super) fn beside(advice: Advice, times: Ratio, what: impl Into<String>) -> Advice {
    Advice { times: Some(times), beside: Some(what.into()), ..advice }
}
