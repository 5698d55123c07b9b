//! Numbers in charts, on the page and in conclusions.
//!
//! Stands below all that speaks. Must never: give more digits than a measurement has.

/// Seconds as exact as it matters: "14 µs", "9.1 ms", "0.53 s", "14.2 s", "3 min 20 s".
pub fn time(seconds: f64) -> String {
    let seconds = bounded(seconds);
    let whole = seconds.round() as u64;
    match seconds {
        // Two digits here too, so that a reader can divide by it.
        it if (0.05e-6..9.95e-6).contains(&it) => format!("{:.1} µs", it * 1e6),
        it if it < 999.5e-6 => format!("{:.0} µs", it * 1e6),
        it if it < 9.95e-3 => format!("{:.1} ms", it * 1e3),
        it if it < 0.0995 => format!("{:.0} ms", it * 1e3),
        it if it < 9.995 => format!("{it:.2} s"),
        it if it < 59.95 => format!("{it:.1} s"),
        _ if whole < 3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// A ratio without its noun: "0.85", "1.3", "13", "1,500".
pub fn ratio(value: f64) -> String {
    match bounded(value) {
        it if it < 0.995 => format!("{it:.2}"),
        it if it < 9.95 => format!("{it:.1}"),
        it if it < 99.5 => format!("{it:.0}"),
        // Two digits are as many as such a figure has.
        it => {
            let digits = it.log10().floor() as i32 - 1;
            let step = 10_f64.powi(digits);
            count(((it / step).round() * step) as u64)
        }
    }
}

/// "1.3 times", "1,500 times".
pub fn times(value: f64) -> String {
    format!("{} times", ratio(value))
}

/// A count with commas: "4,120,000".
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Things a second: "840", "34,300", "1.48 million".
pub fn rate(per_second: f64) -> String {
    match bounded(per_second) {
        it if it < 9.95 => format!("{it:.1}"),
        it if it < 999.5 => format!("{it:.0}"),
        it if it < 999_500.0 => {
            let step = 10_f64.powi(it.log10().floor() as i32 - 2);
            count(((it / step).round() * step) as u64)
        }
        it if it < 999.5e6 => format!("{} million", three_digits(it / 1e6)),
        it => format!("{} billion", three_digits(it / 1e9)),
    }
}

/// Number within the range that can be printed: not below zero, and not beyond all measurements.
fn bounded(value: f64) -> f64 {
    if value > 0.0 { value.min(1e15) } else { 0.0 }
}

/// A number from 1 on with three digits, and no noughts at its end: "1.5", "12", "150".
fn three_digits(value: f64) -> String {
    let decimals = match value {
        it if it < 9.995 => 2,
        it if it < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A number of rows in a name: 100k, 10m, 1b.
pub(crate) fn size_name(rows: u64) -> String {
    for (one, unit) in [(1_000_000_000, 'b'), (1_000_000, 'm'), (1_000, 'k')] {
        if rows >= one && rows.is_multiple_of(one) {
            return format!("{}{unit}", rows / one);
        }
    }
    rows.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        let seconds =
            [0.0, 2.34e-6, 14e-6, 0.0091, 0.0532, 0.0999, 0.53, 9.999, 14.24, 200.4, 7500.0];
        assert_eq!(
            seconds.map(time),
            [
                "0 µs",
                "2.3 µs",
                "14 µs",
                "9.1 ms",
                "53 ms",
                "0.10 s",
                "0.53 s",
                "10.0 s",
                "14.2 s",
                "3 min 20 s",
                "2 h 05 min"
            ]
        );
    }

    #[test]
    fn ratios_have_two_digits() {
        let values = [0.853, 0.997, 1.26, 9.96, 12.9, 99.6, 1532.0, 12_345.0];
        assert_eq!(values.map(ratio), ["0.85", "1.0", "1.3", "10", "13", "100", "1,500", "12,000"]);
        assert_eq!(times(1.0), "1.0 times");
    }

    #[test]
    fn rates_have_three_digits() {
        let rates = [0.5, 12.4, 998.0, 34_321.0, 999_400.0, 1_480_000.0, 2e6, 150e6, 2.5e9];
        assert_eq!(
            rates.map(rate),
            [
                "0.5",
                "12",
                "998",
                "34,300",
                "999,000",
                "1.48 million",
                "2 million",
                "150 million",
                "2.5 billion"
            ]
        );
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        assert_eq!(size_name(100_000), "100k");
        assert_eq!(size_name(10_000_000), "10m");
        assert_eq!(size_name(1_000_000_000), "1b");
        assert_eq!(size_name(1_234), "1234");
    }

    #[test]
    fn nothing_makes_them_stumble() {
        for odd in [f64::NAN, f64::INFINITY, -1.0, 1e300, f64::MIN_POSITIVE] {
            for text in [time(odd), ratio(odd), rate(odd)] {
                assert!(!text.is_empty() && text.len() < 40, "{odd}: {text}");
                assert!(!text.contains("inf") && !text.contains("NaN"), "{odd}: {text}");
            }
        }
    }
}
