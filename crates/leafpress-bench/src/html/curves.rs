//! Curves over the number of processes: a line for each way to write, a point for each number; one
//! chart for the rate, one for the slowest hundredth of the calls.
//!
//! Must never: join points that differ in anything but the number of processes.

use maud::{Markup, html};

use super::lines::{self, Line, Plot, Point};
use super::scale::{Scale, Unit};
use super::{draw, story};
use crate::charts::Chart;
use crate::numbers;
use crate::report::{Processes, Rung};

const HEIGHT: f64 = 260.0;
/// More curves than this are no report of ours.
const CURVES_MAX: usize = 12;

/// A figure of a rung, and its words.
struct Figure {
    heading: &'static str,
    unit: Unit,
    of: fn(&Rung) -> Option<f64>,
    in_words: fn(f64) -> String,
}

const FIGURES: [Figure; 2] = [
    Figure {
        heading: "Calls a second of all processes; higher is better.",
        unit: Unit::PerSecond,
        of: |rung| Some(rung.per_second),
        in_words: |rate| format!("{} a second", numbers::rate(rate)),
    },
    Figure {
        heading: "What 99 of 100 calls took at most; lower is better.",
        unit: Unit::Seconds,
        of: |rung| Some(rung.latency_us?.p99 / 1e6),
        in_words: draw::time,
    },
];

/// Rungs of one curve: they differ in the number of processes, or in how they write.
struct Curve<'r> {
    name: &'r str,
    rungs: Vec<(&'r Processes, &'r Rung)>,
}

/// The curves of an experiment, of those with several numbers of processes.
pub(super) fn of(charts: &[Chart<'_>]) -> Markup {
    html! {
        @for curve in curves(charts).iter().take(CURVES_MAX) {
            @let places = curve.places();
            @if places.len() > 1 {
                figure .chart {
                    figcaption { h3 { (story::capitalised(curve.name)) } }
                    @for figure in &FIGURES { (drawn(curve, &places, figure)) }
                }
            }
        }
    }
}

fn curves<'r>(charts: &[Chart<'r>]) -> Vec<Curve<'r>> {
    let mut curves: Vec<Curve<'r>> = Vec::new();
    for rung in charts.iter().flat_map(|chart| chart.rungs.iter().copied()) {
        let Some(processes) = &rung.processes else { continue };
        match curves.iter_mut().find(|curve| curve.name == processes.curve) {
            Some(curve) => curve.rungs.push((processes, rung)),
            None => {
                curves.push(Curve { name: &processes.curve, rungs: vec![(processes, rung)] });
            }
        }
    }
    curves
}

impl<'r> Curve<'r> {
    /// The numbers of processes, each once, from the smallest.
    fn places(&self) -> Vec<u32> {
        let mut places: Vec<u32> = self.rungs.iter().map(|(it, _)| it.processes).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The rungs of each way to write, by the number of processes.
    fn ways(&self) -> Vec<Vec<(&'r Processes, &'r Rung)>> {
        let mut ways: Vec<Vec<(&Processes, &Rung)>> = Vec::new();
        for (processes, rung) in &self.rungs {
            match ways.iter_mut().find(|way| way[0].1.label == rung.label) {
                Some(way) => way.push((processes, rung)),
                None => ways.push(vec![(processes, rung)]),
            }
        }
        for way in &mut ways {
            way.sort_by_key(|(processes, _)| processes.processes);
        }
        ways
    }
}

fn drawn(curve: &Curve<'_>, places: &[u32], figure: &Figure) -> Markup {
    let lines = lines_of(curve, places, figure);
    let values: Vec<f64> =
        lines.iter().flat_map(|line| line.points.iter().map(|point| point.value)).collect();
    let scale = Scale::of_points(&values, figure.unit);
    let plot = Plot { scale: &scale, places: places.len(), height: HEIGHT };
    let axis = html! {
        @for (index, processes) in places.iter().enumerate() {
            (lines::tick(&plot, index + 1, &many(*processes)))
        }
    };
    html! {
        p .how {
            (figure.heading)
            @if scale.is_log { " The axis is logarithmic." }
        }
        (lines::of(&lines, &plot, figure.heading, &axis))
    }
}

fn lines_of(curve: &Curve<'_>, places: &[u32], figure: &Figure) -> Vec<Line> {
    let mut kinds = 0;
    let line = |way: &Vec<(&Processes, &Rung)>| {
        let point = |(processes, rung): &(&Processes, &Rung)| {
            let value = (figure.of)(rung).filter(|value| value.is_finite())?;
            let place = places.iter().position(|it| *it == processes.processes)? + 1;
            let words = format!("{}\n{}", (figure.in_words)(value), many(processes.processes));
            Some(Point { place, value, words })
        };
        let (_, rung) = way[0];
        Line {
            label: story::label_of(rung),
            points: way.iter().filter_map(point).collect(),
            class: lines::class(rung, &mut kinds),
            loses: Some(story::loses(rung)),
        }
    };
    curve.ways().iter().map(line).filter(|line| !line.points.is_empty()).collect()
}

fn many(processes: u32) -> String {
    if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts;
    use crate::report::{Latency, Safety};
    use crate::test_reports;

    fn rung(label: &str, processes: u32, curve: &str, per_second: f64) -> Rung {
        let chart = format!("{processes} processes of {curve}");
        let rung = test_reports::rung("shared", &chart, label, Safety::Durable, 1.0);
        let us = 1e9 / per_second;
        Rung {
            per_second,
            latency_us: Some(Latency { p50: us, p99: us, p999: us, max: us }),
            processes: Some(Processes {
                processes,
                callers: 8,
                curve: curve.to_owned(),
                slowest_of_mean: 1.0,
                ..Processes::default()
            }),
            ..rung
        }
    }

    #[test]
    fn a_curve_has_a_line_for_each_way_and_a_point_for_each_number() {
        let report = test_reports::report(vec![
            rung("shared", 4, "rows", 9_000.0),
            rung("SQL", 4, "rows", 100.0),
            rung("shared", 1, "rows", 5_000.0),
            rung("SQL", 1, "rows", 2_000.0),
            rung("shared", 4, "jobs", 700.0),
        ]);
        let page = of(&charts::charts(&report)).into_string();
        assert_eq!(page.matches("<figure").count(), 1, "one number makes no curve");
        assert_eq!(page.matches("<path class=\"stroke\" d=\"M").count(), 2 * (2 + 2), "{page}");
        assert_eq!(page.matches("<circle").count(), 2 * 4);
        let points = ["SQL: 100 a second\n4 processes", "shared: 0.20\u{a0}s\n1 process"];
        for words in [&["Rows", "The axis is logarithmic"][..], &points].concat() {
            assert!(page.contains(words), "{words}: {page}");
        }
    }

    #[test]
    fn rungs_without_processes_make_no_curve() {
        let plain = test_reports::rung("ladder", "rows", "SQL", Safety::Durable, 1.0);
        let report = test_reports::report(vec![plain]);
        assert_eq!(of(&charts::charts(&report)).into_string(), "");
    }
}
