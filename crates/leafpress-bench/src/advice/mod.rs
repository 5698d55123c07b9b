//! What follows from the figures of a run, in plain words, the most important first.
//!
//! | file | does |
//! |---|---|
//! | here | the order; when a difference is one |
//! | `multiple` | how many times better one printed figure is than another, and its range |
//! | `settings` | which profile, and which settings of plain SQLite |
//! | `work` | what ours takes for a piece of work, beside the best other way that is as safe |
//! | `commits` | many threads, checkpoints, jobs, single commits |
//! | `terms` | names of rungs that have to be explained |
//!
//! A pure function of a report, so that every kind of outcome can be tested without
//! measuring it.
//!
//! Must never: say what was not measured, advise what can corrupt a file, keep quiet about a
//! rival that is faster, or compare many threads with one where the headline does not say so.

mod commits;
mod multiple;
mod settings;
mod terms;
#[cfg(test)]
mod tests;
mod work;

use serde_json::Value;

use self::multiple::Figure;
use crate::charts::{Chart, charts};
use crate::report::{Advice, ExperimentReport, Ratio, Rung};
use crate::words;

/// The most entries of advice: readers take in no more.
const ADVICE_MAX: usize = 7;

/// The factor that counts as noise where a report does not name one.
const NOISE_TIMES: f64 = 1.1;

/// The settings of a connection that sets none.
const DEFAULT: &str = "SQLite's default";

/// The advice that follows from a run.
pub(crate) fn of(report: &ExperimentReport) -> Vec<Advice> {
    let run = Run::new(report);
    let all = [
        settings::profile(&run),
        work::many_rows(&run),
        work::random_keys(&run),
        work::files(&run),
        commits::many_threads(&run),
        settings::by_hand(&run),
        commits::checkpoints(&run),
        commits::jobs(&run),
        work::cycles(&run),
        commits::single(&run),
    ];
    all.into_iter().flatten().take(ADVICE_MAX).collect()
}

/// A run that is read for advice.
struct Run<'r> {
    report: &'r ExperimentReport,
    charts: Vec<Chart<'r>>,
    /// Figures that differ by less cannot be told apart.
    noise_times: f64,
}

/// The result of a comparison, for ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Better,
    /// The difference is within what this run can tell apart.
    Same,
    /// There is a difference, and another run may turn it round.
    Unsure,
    Worse,
}

impl<'r> Run<'r> {
    fn new(report: &'r ExperimentReport) -> Self {
        let noise_times = report.noise.as_ref().map_or(NOISE_TIMES, |noise| noise.times);
        let noise_times = if noise_times.is_finite() { noise_times.max(1.0) } else { NOISE_TIMES };
        Self { report, charts: charts(report), noise_times }
    }

    /// The disk that was measured.
    fn here(&self) -> String {
        match &self.report.simulated {
            Some(simulated) => format!("On the simulated {}", simulated.name),
            None => "On this disk".to_owned(),
        }
    }

    /// The first chart of an experiment in which ours stands beside others.
    fn chart(&self, experiment: &str) -> Option<&Chart<'r>> {
        let of_it = self.charts.iter().filter(|chart| chart.experiment == experiment);
        of_it.clone().find(|it| it.our_rung().is_some() && it.default_rung().is_some())
    }

    /// The rung of this name.
    fn rung(&self, name: &str) -> Option<&'r Rung> {
        self.report.rungs.iter().find(|rung| rung.name == name)
    }

    /// A ratio of the report.
    fn ratio(&self, name: &str) -> Option<Ratio> {
        let ratio = self.report.ratios.get(name)?;
        let is_usable = |it: f64| it.is_finite() && it > 0.0;
        let ends = [ratio.min, ratio.max, ratio.low.unwrap_or(1.0), ratio.high.unwrap_or(1.0)];
        (is_usable(ratio.value) && ends.into_iter().all(is_usable)).then_some(*ratio)
    }

    fn outcome(&self, ratio: Ratio) -> Outcome {
        let another_run_may_differ =
            ratio.low.is_some_and(|low| low < 1.0) && ratio.high.is_some_and(|high| high > 1.0);
        let is_noise = (1.0 / self.noise_times..=self.noise_times).contains(&ratio.value);
        match ratio.value {
            _ if is_noise => Outcome::Same,
            _ if another_run_may_differ => Outcome::Unsure,
            value if value > 1.0 => Outcome::Better,
            _ => Outcome::Worse,
        }
    }

    /// A sentence on why two figures count as one; empty where they do not.
    fn why_no_difference(&self, outcome: Outcome) -> String {
        match outcome {
            Outcome::Same => format!(
                " A difference of less than {} times is noise here.",
                words::ratio(self.noise_times)
            ),
            Outcome::Unsure => " Another run may turn that round.".to_owned(),
            Outcome::Better | Outcome::Worse => String::new(),
        }
    }

    /// True if this disk may lose what it was asked to sync, by the verdict of
    /// `leafpress storage`.
    fn doubts_syncs(&self) -> bool {
        let verdict = self.report.storage.as_ref().and_then(|storage| storage.get("verdict"));
        let Some(verdict) = verdict else { return false };
        let has_warnings = verdict["warnings"].as_array().is_some_and(|all| !all.is_empty());
        // Reports of earlier versions have warnings only.
        verdict.get("promise_in_doubt").and_then(Value::as_bool).unwrap_or(has_warnings)
    }

    /// The condition of a promise that rests on the syncs of this disk; nothing where they
    /// are not in doubt.
    fn if_it_syncs(&self) -> &'static str {
        if self.doubts_syncs() { ", if this disk keeps what it syncs" } else { "" }
    }

    /// A sentence on the rows of a rung that a power cut may take.
    fn power_cut(&self, rung: &Rung) -> String {
        if rung.safety.keeps_all() {
            format!(" A power cut takes nothing of them{}.", self.if_it_syncs())
        } else {
            format!(" But this {}.", may_lose(rung))
        }
    }
}

/// The loss that a rung risks, as a predicate: "may lose …".
fn may_lose(rung: &Rung) -> String {
    let words = if rung.may_lose.is_empty() { rung.safety.may_lose() } else { &rung.may_lose };
    format!("may lose {words}")
}

/// The time of a rung: "14.2 s", or "about 14.2 s" where it was scaled.
fn taken(rung: &Rung) -> String {
    Figure::Time.in_words(rung)
}

/// The name of a rung, for a headline.
fn named(rung: &Rung) -> String {
    format!("\"{}\"", label(rung))
}

/// The name of a rung and its meaning in brackets, for a sentence.
fn quoted(rung: &Rung) -> String {
    match terms::meaning(label(rung)) {
        Some(meaning) => format!("{} ({meaning})", named(rung)),
        None => named(rung),
    }
}

/// The name of a rung and its meaning behind a comma, where a bracket or a comma follows.
fn spelled_out(rung: &Rung) -> String {
    match terms::meaning(label(rung)) {
        Some(meaning) => format!("{}, {meaning}", named(rung)),
        None => named(rung),
    }
}

fn label(rung: &Rung) -> &str {
    if rung.label.is_empty() { &rung.name } else { &rung.label }
}

/// The work of a rung under its settings, by its label: "a transaction each" of "WAL, a
/// transaction each".
fn work_of(rung: &Rung) -> &str {
    label(rung).split_once(", ").map_or("", |(_, work)| work)
}

fn advice(experiment: &str, headline: impl Into<String>, text: impl Into<String>) -> Advice {
    Advice {
        experiment: experiment.to_owned(),
        headline: headline.into(),
        text: text.into(),
        ..Advice::default()
    }
}

/// Adds to advice how many times faster it is, and than what.
fn beside(advice: Advice, times: Ratio, what: impl Into<String>) -> Advice {
    Advice { times: Some(times), beside: Some(what.into()), ..advice }
}
