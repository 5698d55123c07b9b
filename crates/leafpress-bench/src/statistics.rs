//! Medians and pairwise ratios.
//!
//! Times on a shared machine drift, so a ratio is never made of two medians:
//! the rungs run interleaved (A B A B …), each run is compared with the rival's
//! run of the same round, and the median of those ratios is the result.

use crate::report::{Latency, Ratio};

/// The median; the mean of the two middle ones for an even count. `None` when
/// there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(middle - 1)?, upper))
}

/// Ratio of `rival_s` to `ours_s`, round by round. Rounds that
/// only one of them has are left out; `None` when no round is left.
pub fn pairwise_ratio(ours_s: &[f64], rival_s: &[f64]) -> Option<Ratio> {
    let ratios: Vec<f64> = ours_s.iter().zip(rival_s).map(|(ours, rival)| rival / ours).collect();
    Some(Ratio {
        value: median(&ratios)?,
        min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        max: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ..Ratio::default()
    })
}

/// Exact percentiles of times in microseconds; `None` without a time.
pub(crate) fn latency(took_us: &[f64]) -> Option<Latency> {
    let mut sorted = took_us.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let count = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(count.saturating_sub(1)).copied()
    };
    Some(Latency { p50: at(0.5)?, p99: at(0.99)?, p999: at(0.999)?, max: at(1.0)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ratios_pair_the_runs_of_one_round() {
        // The machine slows down by ten after the first round: pairs still agree,
        // while the ratio of the medians would not.
        let ratio = pairwise_ratio(&[1.0, 10.0, 10.0], &[8.0, 90.0, 100.0]);
        assert_eq!(ratio, Some(Ratio { value: 9.0, min: 8.0, max: 10.0, ..Ratio::default() }));
    }

    #[test]
    fn percentiles_are_exact() {
        let took_us: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let latency = latency(&took_us).expect("times");
        let figures = (latency.p50, latency.p99, latency.p999, latency.max);
        assert_eq!(figures, (50.0, 99.0, 100.0, 100.0));
        assert_eq!(super::latency(&[]), None);
    }

    #[test]
    fn a_ratio_needs_a_round() {
        assert_eq!(pairwise_ratio(&[], &[1.0]), None);
    }
}
