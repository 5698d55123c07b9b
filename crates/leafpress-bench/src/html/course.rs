//! Course of a run over time: half of the commits of each moment, and its slowest.
//!
//! Must never: thin away the slowest commit.

use maud::{Markup, html};

use super::draw::{self, percent, pixels};
use super::scale::{Scale, Unit};
use super::story;
use crate::report::{Course, Rung};

const HEIGHT: f64 = 120.0;
/// Points of a line: more than twice a panel's pixels tell no more.
const POINTS_MAX: usize = 200;
/// Places that can be pointed at.
const MARKS_MAX: usize = 40;

/// A part of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    /// From its begin to its end, as shares of the run.
    from: f64,
    to: f64,
    p50_us: Option<f64>,
    max_us: Option<f64>,
    wal_mb: Option<f64>,
}

/// The panels of these rungs, where they have a course; the first of a section are
/// explained.
pub(super) fn of(rungs: &[&Rung], points_max: usize, is_first: bool) -> Option<Markup> {
    let with_course: Vec<(&Rung, &Course)> = rungs
        .iter()
        .filter_map(|rung| rung.series.as_ref().map(|series| (*rung, series)))
        .filter(|(_, series)| !series.max_us.is_empty())
        .collect();
    if with_course.is_empty() {
        return None;
    }
    let courses = with_course.iter().map(|(_, series)| *series);
    let values: Vec<f64> = courses
        .flat_map(|series| series.max_us.iter().chain(&series.p50_us).flatten())
        .map(|us| us / 1e6)
        .collect();
    let scale = Scale::of_points(&values, Unit::Seconds);
    Some(html! {
        p .how { (how(&scale, is_first)) }
        div .panels {
            @for (rung, series) in with_course { (panel(rung, series, &scale, points_max)) }
        }
    })
}

fn how(scale: &Scale, is_first: bool) -> Markup {
    if !is_first {
        return html! { "The last run, from its begin to its end." };
    }
    html! {
        "How the last run went, from its begin to its end: "
        span .nowrap { (swatch("max")) " the slowest commit of each moment" } ", "
        span .nowrap { (swatch("p50")) " what half of them took at most" }
        ". All panels have the same axis"
        @if scale.is_log { ", which is logarithmic" }
        "."
    }
}

fn swatch(class: &str) -> Markup {
    html! {
        svg class={ "swatch " (class) } width="20" height="10" aria-hidden="true" {
            path class=(class) d="M1 5L19 5" {}
        }
    }
}

fn panel(rung: &Rung, series: &Course, scale: &Scale, points_max: usize) -> Markup {
    let fine = parts(series, POINTS_MAX.min(points_max));
    let slots = series.max_us.len();
    let all_s = series.slot_ms * slots as f64 / 1e3;
    html! {
        section class={ "panel course " (draw::kind(rung)) } {
            (draw::name(rung))
            svg .plot width="100%" height=(pixels(HEIGHT + 24.0)) role="group"
                aria-label={ "Course of " (story::label_of(rung)) } data-marks="near" {
                svg y="4" {
                    (draw::levels(scale, HEIGHT))
                    svg width="100%" height=(pixels(HEIGHT)) preserveAspectRatio="none"
                        viewBox={ "0 0 1000 " (pixels(HEIGHT)) } {
                        path .max d=(path(&fine, scale, |part| part.max_us))
                            vector-effect="non-scaling-stroke" {}
                        path .p50 d=(path(&fine, scale, |part| part.p50_us))
                            vector-effect="non-scaling-stroke" {}
                    }
                    @for part in parts(series, MARKS_MAX.min(points_max)) {
                        @if let Some(mark) = mark(&part, all_s, scale) { (mark) }
                    }
                    g .across aria-hidden="true" {
                        text x="0" y=(pixels(HEIGHT + 15.0)) { "0" }
                        text x="100%" y=(pixels(HEIGHT + 15.0)) text-anchor="end" {
                            (draw::time(all_s))
                        }
                    }
                }
            }
        }
    }
}

/// The course in at most this many parts: of each the largest figures, of the halves the
/// middle one.
fn parts(series: &Course, parts_max: usize) -> Vec<Part> {
    let slots = series.max_us.len();
    let stretch = slots.div_ceil(parts_max).max(1);
    let share = |slot: usize| slot.min(slots) as f64 / slots.max(1) as f64;
    let largest = |values: &[Option<f64>], from: usize| {
        let values = values.iter().skip(from).take(stretch).flatten();
        values.copied().filter(|value| value.is_finite()).reduce(f64::max)
    };
    let part = |from: usize| {
        let mut halves: Vec<f64> =
            series.p50_us.iter().skip(from).take(stretch).flatten().copied().collect();
        halves.sort_by(f64::total_cmp);
        Part {
            from: share(from),
            to: share(from + stretch),
            p50_us: halves.get(halves.len() / 2).copied().filter(|half| half.is_finite()),
            max_us: largest(&series.max_us, from),
            wal_mb: series.wal_mb.iter().skip(from).take(stretch).copied().reduce(f64::max),
        }
    };
    (0..slots).step_by(stretch).map(part).collect()
}

/// A line through all parts that have the figure, broken where one has not.
fn path(parts: &[Part], scale: &Scale, figure: impl Fn(&Part) -> Option<f64>) -> String {
    let mut path = String::new();
    let mut is_begun = false;
    for part in parts {
        let Some(us) = figure(part) else {
            is_begun = false;
            continue;
        };
        let x = pixels((f64::midpoint(part.from, part.to) * 1000.0).round());
        let y = pixels((HEIGHT * (1.0 - scale.at(us / 1e6) / 100.0)).round());
        path.extend([if is_begun { "L" } else { "M" }, &x, " ", &y]);
        if !is_begun {
            // A point alone is seen as well.
            path.push_str("h0");
        }
        is_begun = true;
    }
    path
}

/// A place to point at; none where nothing happened.
fn mark(part: &Part, all_s: f64, scale: &Scale) -> Option<Markup> {
    let max_us = part.max_us?;
    let x = percent(f64::midpoint(part.from, part.to) * 100.0);
    let y = pixels(HEIGHT * (1.0 - scale.at(max_us / 1e6) / 100.0));
    let time = |us: f64| draw::time(us / 1e6);
    Some(html! {
        circle cx=(x) cy=(y) {
            title {
                "At " (draw::time(part.from * all_s)) ": slowest " (time(max_us))
                @if let Some(half) = part.p50_us { "\nhalf within " (time(half)) }
                @if let Some(megabytes) = part.wal_mb { "\nWAL " (draw::megabytes(megabytes)) }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_slowest() {
        let mut max_us = vec![Some(5.0); 5_000];
        max_us[3_333] = Some(800.0);
        let series =
            Course { slot_ms: 1.0, p50_us: vec![Some(2.0); 5_000], max_us, wal_mb: vec![1.0; 10] };
        let parts = parts(&series, MARKS_MAX);
        assert!(parts.len() <= MARKS_MAX);
        assert_eq!(parts.iter().filter(|part| part.max_us == Some(800.0)).count(), 1);
        assert_eq!(parts[0].p50_us, Some(2.0));
        assert!((parts.last().map_or(0.0, |part| part.to) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_moment_without_commits_breaks_the_line() {
        let series = Course {
            slot_ms: 1.0,
            p50_us: vec![Some(2.0), None, Some(2.0)],
            max_us: vec![Some(2.0), None, Some(3.0)],
            wal_mb: Vec::new(),
        };
        let scale = Scale::of_points(&[2e-6, 3e-6], Unit::Seconds);
        let path = path(&parts(&series, 10), &scale, |part| part.max_us);
        assert_eq!(path.matches('M').count(), 2, "{path}");
    }
}
