//! Axes: where a value stands between 0 and 100 per cent, and what is written beside.
//!
//! Must never: give a place that is not a number between 0 and 100, whatever it is asked.

use crate::numbers;

/// A span of values wider than this is drawn on a logarithmic axis.
const LINEAR_TIMES_MAX: f64 = 20.0;
/// More labels than this do not fit a phone.
const LABELS_MAX: usize = 7;

/// Unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    PerSecond,
}

/// An axis from `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub is_log: bool,
    low: f64,
    high: f64,
    unit: Unit,
}

/// A line across the chart with what is written at it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Per cent from the low end.
    pub at: f64,
    pub text: String,
    /// Left out where there is little room.
    pub is_spare: bool,
}

impl Scale {
    /// For bars, which need some length even for the smallest value.
    pub(super) fn of_bars(values: &[f64], unit: Unit) -> Self {
        let mut scale = Self::fitting(values, unit);
        if scale.is_log {
            scale.low = nice_below(scale.low / 1.6, unit);
        }
        scale
    }

    /// For points, with some air above and below.
    pub(super) fn of_points(values: &[f64], unit: Unit) -> Self {
        let mut scale = Self::fitting(values, unit);
        if scale.is_log {
            scale.low /= 1.4;
            scale.high *= 1.3;
        } else {
            scale.high *= 1.06;
        }
        scale
    }

    fn fitting(values: &[f64], unit: Unit) -> Self {
        let usable = values.iter().copied().filter(|value| value.is_finite() && *value > 0.0);
        // Nothing shorter than a nanosecond was measured, nothing longer than some years.
        let usable = usable.map(|value| value.clamp(1e-9, 1e15));
        let (low, high) = usable
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        if high <= 0.0 {
            return Self { is_log: false, low: 0.0, high: 1.0, unit };
        }
        let is_log = high / low > LINEAR_TIMES_MAX;
        Self { is_log, low: if is_log { low } else { 0.0 }, high, unit }
    }

    /// Place of a value, in per cent from the low end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        // Also what is no number stands somewhere: at the low end.
        if share > 0.0 { share.min(1.0) * 100.0 } else { 0.0 }
    }

    /// The lines across the chart.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let mut values = if self.is_log { self.log_values() } else { self.linear_values() };
        while values.len() > LABELS_MAX {
            values = values.into_iter().step_by(2).collect();
        }
        let is_crowded = values.len() > 5;
        let text = |value: f64| match self.unit {
            Unit::Seconds => time(value),
            Unit::PerSecond => numbers::rate(value),
        };
        values
            .into_iter()
            .enumerate()
            .map(|(index, value)| Tick {
                at: self.at(value),
                text: if value == 0.0 { "0".to_owned() } else { text(value) },
                is_spare: is_crowded && index % 2 == 1,
            })
            .collect()
    }

    fn log_values(&self) -> Vec<f64> {
        let inside = |value: &f64| *value >= self.low * 0.999 && *value <= self.high * 1.001;
        let all: Vec<f64> = nice_values(self.unit, false).into_iter().filter(inside).collect();
        if all.len() <= LABELS_MAX {
            return all;
        }
        nice_values(self.unit, true).into_iter().filter(inside).collect()
    }

    fn linear_values(&self) -> Vec<f64> {
        let one = match self.unit {
            Unit::Seconds if self.high >= 2.0 * 3600.0 => 3600.0,
            Unit::Seconds if self.high >= 120.0 => 60.0,
            _ => 1.0,
        };
        let rough = self.high / one / 4.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough);
        let step = step.unwrap_or(10.0) * power * one;
        (0..=8).map(|index| index as f64 * step).filter(|value| *value <= self.high).collect()
    }
}

/// Values that people know by heart: 1, 2, 5, 10 … ; of seconds also minutes and hours.
fn nice_values(unit: Unit, only_large_steps: bool) -> Vec<f64> {
    let steps: &[f64] = if only_large_steps { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = -9..16;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
    match unit {
        Unit::PerSecond => all.collect(),
        Unit::Seconds => {
            let longer = [60.0, 3600.0, 36_000.0, 360_000.0, 3.6e6, 3.6e7];
            let between = [120.0, 300.0, 600.0, 1200.0, 7200.0, 18_000.0];
            let mut values: Vec<f64> = all.filter(|value| *value < 55.0).collect();
            values.extend(longer);
            if only_large_steps {
                values.push(600.0);
            } else {
                values.extend(between);
            }
            values.sort_by(f64::total_cmp);
            values
        }
    }
}

/// The largest of these values that is not above.
fn nice_below(value: f64, unit: Unit) -> f64 {
    let below = nice_values(unit, false).into_iter().rfind(|nice| *nice <= value);
    below.unwrap_or(value)
}

/// A time at an axis: a whole number where it is one.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        it if it < 0.9995e-6 => (it * 1e9, "ns"),
        it if it < 0.9995e-3 => (it * 1e6, "µs"),
        it if it < 0.0995 => (it * 1e3, "ms"),
        it if it < 59.95 => (it, "s"),
        it if it < 3599.5 => (it / 60.0, "min"),
        it => (it / 3600.0, "h"),
    };
    let text = format!("{value:.2}");
    format!("{}\u{a0}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.text.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn wide_spans_are_logarithmic_and_narrow_ones_begin_at_zero() {
        let wide = Scale::of_bars(&[0.004, 2000.0], Unit::Seconds);
        assert!(wide.is_log);
        assert_eq!(texts(wide), ["10 ms", "0.1 s", "1 s", "10 s", "1 min", "10 min"]);
        let narrow = Scale::of_bars(&[2.5, 11.1], Unit::Seconds);
        assert!(!narrow.is_log);
        assert_eq!(texts(narrow), ["0", "5 s", "10 s"]);
        let rates = Scale::of_bars(&[30.0, 40_000.0], Unit::PerSecond);
        assert_eq!(texts(rates), ["10", "100", "1,000", "10,000"]);
        let minutes = Scale::of_bars(&[100.0, 600.0], Unit::Seconds);
        assert_eq!(texts(minutes), ["0", "5 min", "10 min"]);
    }

    #[test]
    fn places_grow_with_the_values_and_stay_on_the_chart() {
        for values in [vec![1.0, 3.0], vec![1e-6, 1e3], vec![7.0], vec![0.0, 5.0]] {
            let scale = Scale::of_bars(&values, Unit::Seconds);
            let mut places: Vec<f64> = values.iter().map(|value| scale.at(*value)).collect();
            assert!((places.last().unwrap_or(&0.0) - 100.0).abs() < 1e-9, "{values:?}");
            places.dedup();
            assert!(places.is_sorted(), "{values:?}: {places:?}");
            assert_eq!(places.len(), values.len());
        }
    }

    #[test]
    fn the_smallest_bar_of_a_logarithmic_axis_can_be_seen() {
        let scale = Scale::of_bars(&[0.010, 1.0], Unit::Seconds);
        assert!(scale.at(0.010) > 3.0, "{}", scale.at(0.010));
    }

    #[test]
    fn no_value_leaves_the_chart() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e300, 1e-300];
        for values in [vec![], odd.to_vec(), vec![0.0], vec![1e-300, 1e300]] {
            for unit in [Unit::Seconds, Unit::PerSecond] {
                for scale in [Scale::of_bars(&values, unit), Scale::of_points(&values, unit)] {
                    for value in odd {
                        assert!((0.0..=100.0).contains(&scale.at(value)), "{scale:?} {value}");
                    }
                    let ticks = scale.ticks();
                    assert!(ticks.len() <= LABELS_MAX);
                    assert!(ticks.iter().all(|tick| (0.0..=100.0).contains(&tick.at)));
                }
            }
        }
    }
}
