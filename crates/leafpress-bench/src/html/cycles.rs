//! A dot for each cycle, a panel for each rung: which shows the calls that wait for checkpoints, and how much of
//! the time is spent outside of the cycles.
//!
//! Must never: thin away a checkpoint or the slowest cycle.

use maud::{Markup, html};

use super::draw::{self, percent, pixels};
use super::scale::{Scale, Unit};
use super::story;
use crate::numbers;
use crate::report::Rung;

const HEIGHT: f64 = 150.0;
/// Room above the highest dot, for the name of a spike.
const ABOVE: f64 = 16.0;
/// Dots of one panel; of more, the slowest of each stretch are drawn.
const DOTS_MAX: usize = 160;

/// A dot.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Dot {
    cycle: usize,
    us: f64,
    is_checkpoint: bool,
}

/// The panels of these rungs, where there are cycles.
pub(super) fn of(rungs: &[&Rung], points_max: usize) -> Option<Markup> {
    let with_cycles: Vec<&Rung> =
        rungs.iter().copied().filter(|rung| !rung.cycles_us.is_empty()).collect();
    if with_cycles.is_empty() {
        return None;
    }
    let values: Vec<f64> =
        with_cycles.iter().flat_map(|rung| rung.cycles_us.iter().map(|us| us / 1e6)).collect();
    let scale = Scale::of_points(&values, Unit::Seconds);
    let dots_max = points_max.min(DOTS_MAX);
    let has_checkpoints = with_cycles.iter().any(|rung| !rung.checkpoints.is_empty());
    Some(html! {
        p .how {
            "A dot for each cycle of the last run, from the first to the last; lower is better. "
            "All panels have the same axis"
            @if scale.is_log { ", which is logarithmic" }
            "."
            @if with_cycles.iter().any(|rung| rung.cycles_us.len() > dots_max) {
                " Of very many cycles the slowest of each stretch is drawn."
            }
            @if has_checkpoints {
                " "
                svg .key width="11" height="11" viewBox="-5.5 -5.5 11 11" aria-hidden="true" {
                    path .spike d="M0-5L4.6 3.5L-4.6 3.5Z" {}
                }
                " In this cycle a checkpoint moved pages."
            }
        }
        div .panels {
            @for rung in with_cycles { (panel(rung, &scale, dots_max)) }
        }
    })
}

fn panel(rung: &Rung, scale: &Scale, dots_max: usize) -> Markup {
    let dots = dots(rung, dots_max);
    let cycles = rung.cycles_us.len();
    let spike = dots.iter().filter(|dot| dot.is_checkpoint).max_by(|a, b| a.us.total_cmp(&b.us));
    html! {
        section class={ "panel " (draw::kind(rung)) } {
            (draw::name(rung))
            svg .plot width="100%" height=(pixels(HEIGHT + ABOVE + 20.0)) role="group"
                aria-label={ "Cycles of " (story::label_of(rung)) } data-marks="near" {
                svg y=(pixels(ABOVE)) {
                    (draw::levels(scale, HEIGHT))
                    g .across aria-hidden="true" {
                        text x="0" y=(pixels(HEIGHT + 15.0)) { "cycle 1" }
                        text x="100%" y=(pixels(HEIGHT + 15.0)) text-anchor="end" { (numbers::count(cycles as u64)) }
                    }
                    @for dot in &dots { (mark(*dot, cycles, scale)) }
                    @if let Some(spike) = spike { (named(*spike, cycles, scale)) }
                }
            }
            p .sum { (sum(rung)) }
        }
    }
}

/// The cycles, of very many the slowest of each stretch and every checkpoint.
fn dots(rung: &Rung, dots_max: usize) -> Vec<Dot> {
    let stretch = rung.cycles_us.len().div_ceil(dots_max).max(1);
    let dot = |cycle: usize, us: f64| {
        let is_checkpoint = rung.checkpoints.contains(&cycle);
        Dot { cycle, us: if us.is_finite() { us } else { 0.0 }, is_checkpoint }
    };
    let all: Vec<Dot> =
        rung.cycles_us.iter().enumerate().map(|(cycle, us)| dot(cycle, *us)).collect();
    // Of a stretch a checkpoint is kept before anything else, then the slowest.
    let kept = all.chunks(stretch).filter_map(|stretch| {
        let rank = |dot: &&Dot| (dot.is_checkpoint, dot.us);
        stretch.iter().max_by(|one, other| {
            let (one, other) = (rank(one), rank(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        })
    });
    kept.copied().collect()
}

fn across(cycle: usize, cycles: usize) -> f64 {
    // Half a dot of air at both ends.
    if cycles < 2 { 50.0 } else { 1.0 + cycle as f64 / (cycles - 1) as f64 * 98.0 }
}

fn down(us: f64, scale: &Scale) -> f64 {
    HEIGHT * (1.0 - scale.at(us / 1e6) / 100.0)
}

fn mark(dot: Dot, cycles: usize, scale: &Scale) -> Markup {
    let (x, y) = (percent(across(dot.cycle, cycles)), pixels(down(dot.us, scale).round()));
    let words = draw::time(dot.us / 1e6);
    html! {
        @if dot.is_checkpoint {
            svg .mark x=(x) y=(y) {
                title { "Cycle " (dot.cycle + 1) ": " (words) "\na checkpoint moved pages" }
                path .spike d="M0-5.5L5 4L-5 4Z" {}
            }
        } @else {
            circle cx=(x) cy=(y) { title { "Cycle " (dot.cycle + 1) ": " (words) } }
        }
    }
}

fn named(dot: Dot, cycles: usize, scale: &Scale) -> Markup {
    let at = across(dot.cycle, cycles);
    let is_far = at > 50.0;
    html! {
        svg x=(percent(at)) y=(pixels(down(dot.us, scale))) {
            text .spike-name y="-9" x=(if is_far { "5" } else { "-5" })
                text-anchor=(if is_far { "end" } else { "start" }) {
                "checkpoint, " (draw::time(dot.us / 1e6))
            }
        }
    }
}

/// The sum of the cycles against the whole run. Where only a part was run, the run's time
/// is scaled and the cycles are not, so both are not set against each other.
fn sum(rung: &Rung) -> String {
    let sum_s: f64 = rung.cycles_us.iter().sum::<f64>() / 1e6;
    let cycles = rung.cycles_us.len();
    let total = rung.runs_s.last().copied().unwrap_or(rung.median_s);
    let outside = rung.outside_s.map(|outside| {
        format!(" Outside of the cycles (the last commit, closing): {}.", draw::time(outside))
    });
    let outside = outside.unwrap_or_default();
    if total < sum_s && rung.sample_rows.is_none() {
        let (sum, total) = (draw::time(sum_s), draw::time(total));
        return format!("Several at once: {sum} in sum, {total} in all.{outside}");
    }
    if rung.sample_rows.is_some() || !total.is_finite() {
        let cycles = if cycles == 1 { "1 cycle".to_owned() } else { format!("{cycles} cycles") };
        return format!("{cycles} took {} in sum.{outside}", draw::time(sum_s));
    }
    format!("The cycles took {} of {} in all.{outside}", draw::time(sum_s), draw::time(total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Safety;
    use crate::test_reports;

    fn rung(cycles_us: Vec<f64>, checkpoints: Vec<usize>) -> Rung {
        let rung = test_reports::rung("cycles", "100 cycles", "WAL", Safety::Durable, 3.0);
        Rung { cycles_us, checkpoints, outside_s: Some(1.0), ..rung }
    }

    #[test]
    fn thinning_keeps_checkpoints_and_the_slowest() {
        let mut cycles_us = vec![10.0; 10_000];
        cycles_us[4_321] = 900.0;
        cycles_us[7_000] = 20.0;
        let dots = dots(&rung(cycles_us, vec![7_000]), DOTS_MAX);
        assert!(dots.len() <= DOTS_MAX);
        let has = |cycle| dots.iter().any(|dot| dot.cycle == cycle);
        assert!(has(4_321) && has(7_000));
    }

    #[test]
    fn the_sum_is_set_against_the_run_that_it_is_of() {
        let words = sum(&rung(vec![1e6, 1e6], vec![])).replace('\u{a0}', " ");
        assert_eq!(
            words,
            "The cycles took 2.00 s of 3.00 s in all. Outside of the cycles (the last commit, \
             closing): 1.00 s."
        );
        let sampled = Rung { sample_rows: Some(5), ..rung(vec![1e6], vec![]) };
        let at_once = Rung { runs_s: vec![0.5], ..rung(vec![1e6], vec![]) };
        assert!(
            sum(&at_once).starts_with("Several at once: 1.00\u{a0}s in sum, 0.50\u{a0}s in all.")
        );
        assert!(sum(&sampled).starts_with("1 cycle took 1.00\u{a0}s in sum."), "{}", sum(&sampled));
    }
}
