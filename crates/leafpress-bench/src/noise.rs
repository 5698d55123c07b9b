//! Noise of a run's figures. It comes from the spread of what was measured more than once, and
//! from what other programs did meanwhile.
//!
//! Each ratio has a value for each round. How far these lie apart says how far the
//! median of another run may lie from this one's. A single ratio of three rounds says
//! that badly, so the spread of all of them together counts too: the larger of both.
//!
//! A run may also be steady in itself, and the machine another one a minute later. Before
//! each group of rungs the speed of a core, of all cores and of a sync is looked at, and
//! how far these moments lie apart widens the range as well.
//!
//! Must never: make a figure better, or leave out a ratio that is uncertain.

use crate::machine_state::MachineState;
use crate::report::{ExperimentReport, Noise, Ratio};
use crate::statistics::median;

/// Between two medians of this many rounds each, nineteen times of twenty: the median's
/// standard error is 1.25 times that of a mean, two of them differ by √2 times that,
/// and 1.96 such differences cover 95 %.
const DEVIATIONS: f64 = 1.25 * std::f64::consts::SQRT_2 * 1.96;

/// No run of ours agreed better than this with the next one.
const TIMES_MIN: f64 = 1.05;

/// From here on a run is said to be noisy.
const NOISY_TIMES: f64 = 1.5;
const BUSY_SHARE: f64 = 0.1;

/// The range of this many normal values in standard deviations, on average: from tables of
/// control charts (d2), for 2 to 10 values.
const RANGE_OF: [f64; 9] = [1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847, 2.970, 3.078];

/// Says how noisy the run was, and between what each ratio of another run should be.
pub(crate) fn judge(
    report: &mut ExperimentReport,
    states: &[MachineState],
    busy_elsewhere: Option<f64>,
) {
    let rounds = rounds(report);
    if rounds < 2 {
        report.noise = None;
        return;
    }
    let deviations: Vec<f64> =
        report.ratios.values().filter_map(|ratio| deviation(ratio, rounds)).collect();
    let common = median(&deviations).unwrap_or(0.0);
    let drift = drift(states);
    for ratio in report.ratios.values_mut() {
        let own = deviation(ratio, rounds).unwrap_or(0.0);
        let times = times_of(own.max(common), rounds).max(drift);
        ratio.low = Some(ratio.min.min(ratio.value / times));
        ratio.high = Some(ratio.max.max(ratio.value * times));
    }
    let times = times_of(common, rounds).max(drift);
    report.noise = Some(Noise { times, in_words: in_words(times, busy_elsewhere), busy_elsewhere });
}

/// Number of runs of most rungs.
fn rounds(report: &ExperimentReport) -> usize {
    let runs: Vec<f64> = report.rungs.iter().map(|rung| rung.runs_s.len() as f64).collect();
    median(&runs).unwrap_or(0.0) as usize
}

/// The standard deviation of the logarithms of a ratio's rounds, from their range.
fn deviation(ratio: &Ratio, rounds: usize) -> Option<f64> {
    let range_of = RANGE_OF[(rounds - 2).min(RANGE_OF.len() - 1)];
    let range = (ratio.max / ratio.min).ln();
    (ratio.min > 0.0 && range.is_finite()).then_some(range / range_of)
}

fn times_of(deviation: f64, rounds: usize) -> f64 {
    (DEVIATIONS * deviation / (rounds as f64).sqrt()).exp().max(TIMES_MIN)
}

/// By how much the machine's speed differed between moments of the run: of each speed the
/// largest beside the smallest, without the outermost where there are enough, and of the
/// three the worst.
fn drift(states: &[MachineState]) -> f64 {
    const ENOUGH: usize = 8;
    let speeds: [fn(&MachineState) -> f64; 3] =
        [|state| state.one_core, |state| state.all_cores, |state| state.sync_us];
    let of_speed = |speed: fn(&MachineState) -> f64| {
        let mut seen: Vec<f64> = states.iter().map(speed).filter(|it| *it > 0.0).collect();
        seen.sort_by(f64::total_cmp);
        let cut = usize::from(seen.len() >= ENOUGH);
        let inner = seen.get(cut..seen.len().saturating_sub(cut)).unwrap_or_default();
        inner.first().zip(inner.last()).map_or(1.0, |(least, most)| most / least)
    };
    speeds.map(of_speed).into_iter().fold(1.0, f64::max)
}

fn in_words(times: f64, busy_elsewhere: Option<f64>) -> String {
    let is_noisy = times >= NOISY_TIMES;
    let words = if is_noisy {
        format!(
            "This machine was too noisy to tell figures apart that differ by less than {times:.1}×"
        )
    } else {
        format!("Figures that differ by less than {times:.2}× cannot be told apart")
    };
    let busy = busy_elsewhere.filter(|share| *share >= BUSY_SHARE);
    let busy = busy.map(|share| format!("; others took {:.0} % of the processor", share * 100.0));
    let advice = ". Close other programs and run it again, or take more --repeats";
    [words.as_str(), busy.as_deref().unwrap_or(""), if is_noisy { advice } else { "" }, "."]
        .concat()
}

/// Work of the processors up to a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Processors {
    /// Time of all cores, in ticks.
    all: f64,
    /// Of that, not idle and not waiting for the disk.
    busy: f64,
    /// Of that, this process and its children that have ended.
    own: f64,
}

impl Processors {
    /// Up to now, where the system tells.
    pub(crate) fn now() -> Option<Self> {
        let read = |path| std::fs::read_to_string(path).ok();
        Self::parse(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }

    /// `/proc/stat` begins with user, nice, system, idle, iowait, irq, softirq and steal of
    /// all cores; fields 14 to 17 of `/proc/self/stat` are the times of the process and of
    /// its children.
    fn parse(stat: &str, own: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<f64> =
            line.split_ascii_whitespace().take(8).filter_map(|it| it.parse().ok()).collect();
        let all: f64 = ticks.iter().sum();
        let idle: f64 = ticks.get(3)? + ticks.get(4)?;
        let (_, after_name) = own.rsplit_once(')')?;
        let own = after_name.split_ascii_whitespace().skip(11).take(4);
        let own = own.filter_map(|it| it.parse::<f64>().ok()).sum();
        Some(Self { all, busy: all - idle, own })
    }

    /// The share that others took since `earlier`, from 0 to 1.
    pub(crate) fn busy_elsewhere_since(self, earlier: Self) -> Option<f64> {
        let all = self.all - earlier.all;
        let others = (self.busy - earlier.busy) - (self.own - earlier.own);
        (all > 0.0).then(|| (others / all).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Rung;

    fn report_of(ratios: &[(f64, f64, f64)], rounds: usize) -> ExperimentReport {
        let rung: Rung = serde_json::from_value(serde_json::json!({
            "name": "a", "safety": "durable", "median_s": 1.0, "per_second": 1.0,
            "runs_s": vec![1.0; rounds]
        }))
        .expect("a rung");
        let ratios = ratios.iter().enumerate().map(|(index, (min, value, max))| {
            let ratio = Ratio { value: *value, min: *min, max: *max, ..Ratio::default() };
            (index.to_string(), ratio)
        });
        let (rungs, ratios) = (vec![rung], ratios.collect());
        ExperimentReport { rungs, ratios, ..ExperimentReport::default() }
    }

    #[test]
    fn a_quiet_run_tells_small_differences_apart() {
        let mut report = report_of(&[(9.9, 10.0, 10.1), (1.98, 2.0, 2.02)], 3);
        judge(&mut report, &[], Some(0.01));
        let noise = report.noise.expect("it is judged");
        assert!(noise.times < 1.1, "{noise:?}");
        assert!(!noise.in_words.contains("noisy") && !noise.in_words.contains("others"));
        let ratio = report.ratios["0"];
        assert!(ratio.low.unwrap() <= 9.9 && ratio.high.unwrap() >= 10.1, "{ratio:?}");
    }

    #[test]
    fn a_noisy_run_says_so_and_widens_every_range() {
        let steady = (9.9, 10.0, 10.1);
        let mut report = report_of(&[(5.0, 10.0, 20.0), (1.0, 2.0, 4.0), steady], 3);
        judge(&mut report, &[], Some(0.4));
        let noise = report.noise.expect("it is judged");
        assert!(noise.times > 2.0 && noise.in_words.contains("too noisy"), "{noise:?}");
        assert!(noise.in_words.contains("40 %"), "{noise:?}");
        // The steady one may have been lucky.
        let ratio = report.ratios["2"];
        assert!(ratio.low.unwrap() < 5.0 && ratio.high.unwrap() > 20.0, "{ratio:?}");
    }

    #[test]
    fn a_machine_that_drifts_widens_every_range() {
        let state = |one_core, all_cores, sync_us| MachineState { one_core, all_cores, sync_us };
        let steady = [state(100.0, 200.0, 20.0); 4];
        assert!((drift(&steady) - 1.0).abs() < 1e-9 && (drift(&[]) - 1.0).abs() < 1e-9);
        let mut report = report_of(&[(9.9, 10.0, 10.1)], 3);
        let slower = state(100.0, 110.0, 22.0);
        judge(&mut report, &[steady[0], slower], None);
        let ratio = report.ratios["0"];
        assert!(ratio.low.unwrap() < 5.6 && ratio.high.unwrap() > 18.0, "{ratio:?}");
        assert!(report.noise.is_some_and(|noise| noise.in_words.contains("too noisy")));
        // One moment of many is left out.
        let many = [&[steady[0]; 9][..], &[slower]].concat();
        assert!((drift(&many) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_round_says_nothing() {
        let mut report = report_of(&[(10.0, 10.0, 10.0)], 1);
        judge(&mut report, &[], None);
        assert_eq!((report.noise, report.ratios["0"].low), (None, None));
    }

    /// Seeded runs of a machine of known noise: the medians of a second run must lie in
    /// the ranges of the first nearly always.
    #[test]
    fn another_run_stays_within_the_range() {
        let mut state = 7_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        // The sum of twelve uniform values is nearly normal.
        let mut pair = |value: f64| {
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            value * (0.2 * normal).exp()
        };
        let mut run = || {
            let ratios: Vec<(f64, f64, f64)> = (1..=20)
                .map(|value| {
                    let mut pairs = [0.0; 3].map(|_: f64| pair(f64::from(value)));
                    pairs.sort_by(f64::total_cmp);
                    (pairs[0], pairs[1], pairs[2])
                })
                .collect();
            report_of(&ratios, 3)
        };
        let (mut within, mut all) = (0, 0);
        for _ in 0..50 {
            let (mut first, second) = (run(), run());
            judge(&mut first, &[], None);
            for (name, ratio) in &first.ratios {
                let again = second.ratios[name].value;
                all += 1;
                within += usize::from(ratio.low.unwrap() <= again && again <= ratio.high.unwrap());
            }
        }
        assert!(within * 100 >= all * 93, "{within} of {all}");
    }

    #[test]
    fn others_are_what_is_busy_and_not_ours() {
        let stat = |busy: u32, idle: u32| format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1\n");
        let own = |ticks: u32| format!("7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 {ticks} 0 0 0 20 0\n");
        let at = |busy, idle, ticks| Processors::parse(&stat(busy, idle), &own(ticks));
        let (before, after) = (at(100, 100, 10).unwrap(), at(160, 140, 40).unwrap());
        assert_eq!(after.busy_elsewhere_since(before), Some(0.3));
        assert_eq!(before.busy_elsewhere_since(before), None);
        assert_eq!(Processors::parse("", ""), None);
    }
}
