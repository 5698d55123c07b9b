//! Multiples: by how many times one printed figure is better than another, and the range in
//! which another run should come out.
//!
//! Every multiple in the advice is made here, of the two figures that stand before it in its
//! sentence. The report's own ratios are medians of the ratios of the rounds: they are the
//! better estimate, but a reader who divides the printed medians gets another number. So they
//! give the range only, and the multiple is what division gives.
//!
//! Must never: print a multiple that its figures do not make, or leave out a range that is
//! known.

use super::run::Run;
use crate::numbers;
use crate::report::{Ratio, Rung};
use crate::statistics::pairwise_ratio;

/// A figure of a rung that is printed beside a multiple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// Seconds for all its rows.
    Time,
    /// Rows, calls or jobs a second.
    Rate,
    /// The time that 999 of 1,000 operations did not exceed.
    P999,
    /// The slowest operation.
    Slowest,
}

impl Figure {
    fn of(self, rung: &Rung) -> Option<f64> {
        let value = match self {
            Self::Time => rung.median_s,
            Self::Rate => rung.per_second,
            Self::P999 => rung.latency_us?.p999 / 1e6,
            Self::Slowest => rung.latency_us?.max / 1e6,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }

    /// The figure in words: "14.2 s", "about 14.2 s" where it was scaled, "840 a second".
    pub(super) fn in_words(self, rung: &Rung) -> String {
        let value = self.of(rung).unwrap_or(0.0);
        let about = if self == Self::Time && rung.sample_rows.is_some() { "about " } else { "" };
        match self {
            Self::Rate => format!("{} a second", numbers::rate(value)),
            _ => format!("{about}{}", numbers::time(value)),
        }
    }

    /// The quotient of two figures, larger than 1 where ours is better.
    fn quotient(self, ours: &Rung, other: &Rung) -> Option<f64> {
        let (ours_is, other_is) = (self.of(ours)?, self.of(other)?);
        // Times for other work cannot be compared.
        if self == Self::Time && ours.rows != other.rows {
            return None;
        }
        let value = if self == Self::Rate { ours_is / other_is } else { other_is / ours_is };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

impl Run<'_> {
    /// The multiple of two printed figures. Its range is that of the report's ratio of this name,
    /// where it has one, widened to hold the multiple.
    pub(super) fn compared(
        &self,
        name: &str,
        figure: Figure,
        ours: &Rung,
        other: &Rung,
    ) -> Option<Ratio> {
        let value = figure.quotient(ours, other)?;
        let of_rounds = || match figure {
            Figure::Time => pairwise_ratio(&ours.runs_s, &other.runs_s),
            _ => None,
        };
        let rounds = self.ratio(name).or_else(of_rounds);
        let (min, max) = rounds.map_or((value, value), |it| (it.min, it.max));
        let judged = rounds.and_then(|it| Some((it.low?, it.high?)));
        let (low, high) = judged.unwrap_or_else(|| {
            // An old report, or one of a single round, has no noise: then the rounds alone count.
            let times = if self.report.noise.is_some() { self.noise_times } else { 1.0 };
            (min.min(value / times), max.max(value * times))
        });
        let (low, high) = (low.min(value), high.max(value));
        let is_range = low < high && high.is_finite();
        let end = |end: f64| is_range.then_some(end);
        Some(Ratio { value, min, max, low: end(low), high: end(high), bound_by: None })
    }
}

/// The multiple from the other side: how many times better the other is.
pub(super) fn inverse(ratio: Ratio) -> Ratio {
    Ratio {
        value: 1.0 / ratio.value,
        min: 1.0 / ratio.max,
        max: 1.0 / ratio.min,
        low: ratio.high.map(|high| 1.0 / high),
        high: ratio.low.map(|low| 1.0 / low),
        bound_by: None,
    }
}

/// "9.9 times faster; another run: 8.5 to 12", or "1.8 times slower; …".
pub(super) fn faster(ratio: Ratio) -> String {
    in_words(ratio, "faster", "slower")
}

/// The multiple of two times of one operation: "shorter", or "longer".
pub(super) fn shorter(ratio: Ratio) -> String {
    in_words(ratio, "shorter", "longer")
}

fn in_words(ratio: Ratio, better: &str, worse: &str) -> String {
    let (ratio, word) = if ratio.value < 1.0 { (inverse(ratio), worse) } else { (ratio, better) };
    let range = match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => {
            format!("; another run: {} to {}", numbers::ratio(low), numbers::ratio(high))
        }
        _ => String::new(),
    };
    format!("{} {word}{range}", numbers::times(ratio.value))
}
