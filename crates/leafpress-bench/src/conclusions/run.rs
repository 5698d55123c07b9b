//! A run as the conclusions read it: its charts and rungs, and when a difference is one.

use serde_json::Value;

use crate::charts::{Chart, charts};
use crate::numbers;
use crate::report::{ExperimentReport, Ratio, Rung};

/// The factor that counts as noise where a report does not name one.
const NOISE_TIMES: f64 = 1.1;

/// A run that is read for advice.
pub(super) struct Run<'r> {
    pub(super) report: &'r ExperimentReport,
    pub(super) charts: Vec<Chart<'r>>,
    /// Figures that differ by less cannot be told apart.
    pub(super) noise_times: f64,
}

/// The result of a comparison, for ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Better,
    /// The difference is within what this run can tell apart.
    Same,
    /// There is a difference, and another run may turn it round.
    Unsure,
    Worse,
}

impl<'r> Run<'r> {
    pub(super) fn new(report: &'r ExperimentReport) -> Self {
        let noise_times = report.noise.as_ref().map_or(NOISE_TIMES, |noise| noise.times);
        let noise_times = if noise_times.is_finite() { noise_times.max(1.0) } else { NOISE_TIMES };
        Self { report, charts: charts(report), noise_times }
    }

    /// The disk that was measured.
    pub(super) fn here(&self) -> String {
        match &self.report.simulated {
            Some(simulated) => format!("On the simulated {}", simulated.name),
            None => "On this disk".to_owned(),
        }
    }

    /// The first chart of an experiment in which ours stands beside others.
    pub(super) fn chart(&self, experiment: &str) -> Option<&Chart<'r>> {
        let of_it = self.charts.iter().filter(|chart| chart.experiment == experiment);
        of_it.clone().find(|it| it.our_rung().is_some() && it.default_rung().is_some())
    }

    /// The rung of this name.
    pub(super) fn rung(&self, name: &str) -> Option<&'r Rung> {
        self.report.rungs.iter().find(|rung| rung.name == name)
    }

    /// A ratio of the report.
    pub(super) fn ratio(&self, name: &str) -> Option<Ratio> {
        let ratio = self.report.ratios.get(name)?;
        let is_usable = |it: f64| it.is_finite() && it > 0.0;
        let ends = [ratio.min, ratio.max, ratio.low.unwrap_or(1.0), ratio.high.unwrap_or(1.0)];
        (is_usable(ratio.value) && ends.into_iter().all(is_usable)).then_some(*ratio)
    }

    pub(super) fn outcome(&self, ratio: Ratio) -> Outcome {
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
    pub(super) fn why_no_difference(&self, outcome: Outcome) -> String {
        match outcome {
            Outcome::Same => format!(
                " A difference of less than {} times is noise here.",
                numbers::ratio(self.noise_times)
            ),
            Outcome::Unsure => " Another run may turn that round.".to_owned(),
            Outcome::Better | Outcome::Worse => String::new(),
        }
    }

    /// True if this disk may lose what it was asked to sync, by the verdict of
    /// `leafpress storage`.
    pub(super) fn doubts_syncs(&self) -> bool {
        let verdict = self.report.storage.as_ref().and_then(|storage| storage.get("verdict"));
        let Some(verdict) = verdict else { return false };
        let has_warnings = verdict["warnings"].as_array().is_some_and(|all| !all.is_empty());
        // Reports of earlier versions have warnings only.
        verdict.get("promise_in_doubt").and_then(Value::as_bool).unwrap_or(has_warnings)
    }

    /// The condition of a promise that rests on the syncs of this disk; nothing where they
    /// are not in doubt.
    pub(super) fn if_it_syncs(&self) -> &'static str {
        if self.doubts_syncs() { ", if this disk keeps what it syncs" } else { "" }
    }

    /// A sentence on the rows of a rung that a power cut may take.
    pub(super) fn power_cut(&self, rung: &Rung) -> String {
        if rung.safety.keeps_all() {
            format!(" A power cut takes nothing of them{}.", self.if_it_syncs())
        } else {
            format!(" But this {}.", may_lose(rung))
        }
    }
}

/// The loss that a rung risks, as a predicate: "may lose …".
pub(super) fn may_lose(rung: &Rung) -> String {
    let words = if rung.may_lose.is_empty() { rung.safety.may_lose() } else { &rung.may_lose };
    format!("may lose {words}")
}
