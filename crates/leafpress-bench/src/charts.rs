//! Rungs that are drawn together. Also their figures in the chart.
//!
//! Stands between a report and all that draws it: the terminal, the page, the verdict. Must
//! never: put rungs together that did other work, or leave out one that has a chart.

use crate::numbers;
use crate::report::{ExperimentReport, Rung};

/// Rungs that did the same work.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart<'r> {
    /// Their experiment.
    pub experiment: &'r str,
    /// The name of the chart, of which an experiment may have several.
    pub name: &'r str,
    /// In the order in which they were planned.
    pub rungs: Vec<&'r Rung>,
    /// Figure that is drawn of them.
    pub figure: Figure,
}

/// Figure that is drawn of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Seconds for all the work: the shorter the better.
    Seconds,
    /// Rows a second, where each rung did as many as it could: the longer the better.
    PerSecond,
    /// Time that half of the calls did not exceed.
    HalfOfCalls,
    /// Time that 999 of 1000 calls did not exceed.
    SlowCalls,
}

impl Figure {
    /// The figure of a rung; seconds, or rows a second.
    pub fn of(self, rung: &Rung) -> Option<f64> {
        match self {
            Self::Seconds => Some(rung.median_s),
            Self::PerSecond => Some(rung.per_second),
            Self::HalfOfCalls => rung.latency_us.map(|latency| latency.p50 / 1e6),
            Self::SlowCalls => rung.latency_us.map(|latency| latency.p999 / 1e6),
        }
    }

    /// The figure in words.
    pub fn in_words(self, value: f64) -> String {
        if self.is_longer_better() { numbers::rate(value) } else { numbers::time(value) }
    }

    /// Returns true if the longest bar is the best.
    pub fn is_longer_better(self) -> bool {
        self == Self::PerSecond
    }

    /// Meaning of the bars.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Seconds => "time for all the work; shorter is better",
            Self::PerSecond => "rows a second; longer is better",
            Self::HalfOfCalls => "what half of the calls took at most; shorter is better",
            Self::SlowCalls => "what 999 of 1,000 commits took at most; shorter is better",
        }
    }

    /// Figure that fits all of these rungs.
    pub(crate) fn fitting(rungs: &[&Rung]) -> Self {
        let all = |has: fn(&Rung) -> bool| rungs.iter().all(|rung| has(rung));
        if all(|rung| rung.from_call_us.is_some() && rung.latency_us.is_some()) {
            Self::HalfOfCalls
        } else if all(|rung| rung.wal_mb_max.is_some() && rung.latency_us.is_some()) {
            Self::SlowCalls
        } else if rungs.windows(2).all(|pair| pair[0].rows == pair[1].rows) {
            Self::Seconds
        } else {
            Self::PerSecond
        }
    }
}

impl<'r> Chart<'r> {
    /// Rung that people begin with: the first one of the others.
    pub fn default_rung(&self) -> Option<&'r Rung> {
        self.others().next()
    }

    /// The rungs that are not ours and make a database.
    pub fn others(&self) -> impl Iterator<Item = &'r Rung> {
        self.rungs.iter().copied().filter(|rung| !rung.is_ours && !rung.is_bound)
    }

    /// Ours at its best: the last rung of ours that no crash can corrupt.
    pub fn our_rung(&self) -> Option<&'r Rung> {
        let is_safe = |rung: &&&Rung| rung.is_ours && !rung.safety.can_corrupt();
        self.rungs.iter().rfind(is_safe).copied()
    }

    /// The fastest of the others that lose nothing in a power cut.
    pub fn best_other(&self) -> Option<&'r Rung> {
        let safe = self.others().filter(|rung| rung.safety.keeps_all());
        safe.max_by(|one, other| one.per_second.total_cmp(&other.per_second))
    }
}

/// All charts of a report, in the order of their first rungs.
pub fn charts(report: &ExperimentReport) -> Vec<Chart<'_>> {
    let mut charts: Vec<Chart<'_>> = Vec::new();
    for rung in report.rungs.iter().filter(|rung| !rung.chart.is_empty()) {
        let same = |chart: &&mut Chart<'_>| {
            chart.experiment == rung.experiment && chart.name == rung.chart
        };
        match charts.iter_mut().find(same) {
            Some(chart) => chart.rungs.push(rung),
            None => charts.push(Chart {
                experiment: &rung.experiment,
                name: &rung.chart,
                rungs: vec![rung],
                figure: Figure::Seconds,
            }),
        }
    }
    for chart in &mut charts {
        chart.figure = Figure::fitting(&chart.rungs);
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Latency, Safety};
    use crate::test_reports;

    #[test]
    fn rungs_stand_with_those_that_did_the_same() {
        let report = test_reports::report(vec![
            test_reports::rung("ladder", "rows", "a, SQL", Safety::Relaxed, 4.0),
            test_reports::rung("ladder", "pages", "b, SQL", Safety::Durable, 3.0),
            test_reports::rung("cycles", "rows", "c, SQL", Safety::Durable, 3.0),
            test_reports::rung("ladder", "rows", "d, SQL", Safety::Durable, 2.0),
            test_reports::rung("ladder", "rows", "e, SQL", Safety::Rebuildable, 1.0),
            test_reports::ours("ladder", "rows", "f, leafpress", Safety::Durable, 0.5),
            test_reports::rung("load", "", "g, SQL", Safety::Durable, 3.0),
        ]);
        let charts = charts(&report);
        let names: Vec<_> =
            charts.iter().map(|it| (it.experiment, it.name, it.rungs.len())).collect();
        assert_eq!(names, [("ladder", "rows", 4), ("ladder", "pages", 1), ("cycles", "rows", 1)]);
        let ladder = &charts[0];
        assert_eq!(ladder.default_rung().map(|it| it.label.as_str()), Some("a, SQL"));
        assert_eq!(ladder.best_other().map(|it| it.label.as_str()), Some("d, SQL"));
        assert_eq!(ladder.our_rung().map(|it| it.label.as_str()), Some("f, leafpress"));
        assert_eq!(charts[1].our_rung(), None);
    }

    #[test]
    fn the_figure_is_the_one_that_can_be_compared() {
        let latency = Latency { p50: 1e3, p99: 2e3, p999: 3e3, max: 4e3 };
        let figure = |change: fn(&mut Rung, Latency)| {
            let mut rungs = [1.0, 2.0]
                .map(|s| test_reports::rung("x", "y", "SQL", Safety::Durable, s))
                .to_vec();
            change(&mut rungs[0], latency);
            change(&mut rungs[1], latency);
            rungs[1].rows = rungs[1].rows.map(|rows| rows * 2);
            let report = test_reports::report(rungs);
            let figure = charts(&report)[0].figure;
            (figure, figure.of(&report.rungs[0]))
        };
        assert_eq!(figure(|_, _| ()), (Figure::PerSecond, Some(100_000.0)));
        assert_eq!(figure(|rung, _| rung.rows = None), (Figure::Seconds, Some(1.0)));
        let slow = figure(|rung, latency| {
            rung.latency_us = Some(latency);
            rung.wal_mb_max = Some(4.0);
        });
        assert_eq!(slow, (Figure::SlowCalls, Some(0.003)));
        let half = figure(|rung, latency| {
            rung.latency_us = Some(latency);
            rung.from_call_us = Some(latency);
        });
        assert_eq!(half, (Figure::HalfOfCalls, Some(0.001)));
    }
}
