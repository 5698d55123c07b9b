//! What follows from the figures of a run, in plain words, the most important first.
//!
//! | file | does |
//! |---|---|
//! | here | the order; what is compared, and when a difference is one |
//! | `settings` | which profile, and which settings for who wants no library |
//! | `work` | what ours takes for a piece of work, beside the default and the best that is as safe |
//! | `commits` | many callers, checkpoints, jobs, single commits |
//!
//! A pure function of a report, so that every kind of outcome can be tested without
//! measuring it.
//!
//! Must never: say what was not measured, advise what can corrupt a file, or keep quiet
//! about a rival that is faster.

mod commits;
mod settings;
#[cfg(test)]
mod tests;
mod work;

use crate::charts::{Chart, charts};
use crate::report::{Advice, ExperimentReport, Ratio, Rung};
use crate::words;

/// More is read by nobody.
const ADVICE_MAX: usize = 7;

/// Where a report does not say what it can tell apart.
const NOISE_TIMES: f64 = 1.1;

/// What people begin with.
const DEFAULT: &str = "SQLite's default";

/// What follows from a run.
pub(crate) fn of(report: &ExperimentReport) -> Vec<Advice> {
    let run = Run::new(report);
    let all = [
        settings::profile(&run),
        work::many_rows(&run),
        work::random_keys(&run),
        work::files(&run),
        commits::many_callers(&run),
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

/// How ours came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Better,
    /// The difference is within what this run can tell apart.
    Same,
    Worse,
}

impl<'r> Run<'r> {
    fn new(report: &'r ExperimentReport) -> Self {
        let noise_times = report.noise.as_ref().map_or(NOISE_TIMES, |noise| noise.times);
        Self { report, charts: charts(report), noise_times: noise_times.max(1.0) }
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

    /// A ratio of the report.
    fn ratio(&self, name: &str) -> Option<Ratio> {
        let ratio = self.report.ratios.get(name)?;
        (ratio.value.is_finite() && ratio.value > 0.0).then_some(*ratio)
    }

    /// How many times faster one rung of a chart is than another: the report's own ratio
    /// where it has one of this name, and else what their medians say.
    fn compared(&self, name: &str, ours: &Rung, other: &Rung) -> Option<Ratio> {
        let of_medians = || {
            let value = ours.per_second / other.per_second;
            (value.is_finite() && value > 0.0).then(|| Ratio::exactly(value))
        };
        self.ratio(name).or_else(of_medians)
    }

    fn outcome(&self, ratio: Ratio) -> Outcome {
        let another_run_may_differ =
            ratio.low.is_some_and(|low| low < 1.0) && ratio.high.is_some_and(|high| high > 1.0);
        let is_noise = (1.0 / self.noise_times..=self.noise_times).contains(&ratio.value);
        match ratio.value {
            _ if is_noise || another_run_may_differ => Outcome::Same,
            value if value > 1.0 => Outcome::Better,
            _ => Outcome::Worse,
        }
    }

    /// Why two figures count as one.
    fn as_fast(&self) -> String {
        format!("a difference of less than {} times is noise here", words::ratio(self.noise_times))
    }
}

/// What a rung took: "14.2 s", or "about 14.2 s" where it was scaled.
fn taken(rung: &Rung) -> String {
    let about = if rung.sample_rows.is_some() { "about " } else { "" };
    format!("{about}{}", words::time(rung.median_s))
}

/// What a rung may lose, behind "and" or "but".
fn and_loses(rung: &Rung) -> String {
    if rung.safety.keeps_all() {
        "and a power cut takes nothing of them".to_owned()
    } else {
        let may_lose =
            if rung.may_lose.is_empty() { rung.safety.may_lose() } else { &rung.may_lose };
        format!("but may lose {may_lose}")
    }
}

/// What a rung is called in a sentence.
fn quoted(rung: &Rung) -> String {
    let name = if rung.label.is_empty() { &rung.name } else { &rung.label };
    format!("\"{name}\"")
}

/// "13 times faster".
fn times_faster(value: f64) -> String {
    format!("{} faster", words::times(value))
}

fn advice(experiment: &str, headline: impl Into<String>, text: impl Into<String>) -> Advice {
    Advice {
        experiment: experiment.to_owned(),
        headline: headline.into(),
        text: text.into(),
        ..Advice::default()
    }
}

/// The same with how many times faster it is than what.
fn beside(advice: Advice, times: Ratio, what: &str) -> Advice {
    Advice { times: Some(times), beside: Some(what.to_owned()), ..advice }
}
