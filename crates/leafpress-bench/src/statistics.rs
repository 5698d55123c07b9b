//! Medians and pairwise ratios.
//!
//! Times on a shared machine drift, so a ratio is never made of two medians:
//! the rungs run interleaved (A B A B …), each run is compared with the rival's
//! run of the same round, and the median of those ratios is the result.

use crate::report::Ratio;

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

/// How many times faster `ours_s` is than `rival_s`, round by round. Rounds that
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
    fn a_ratio_needs_a_round() {
        assert_eq!(pairwise_ratio(&[], &[1.0]), None);
    }
}
