//! Dates, times, intervals and decimals as text.
//!
//! Dates and times are written as SQLite's date functions read them, and so
//! that their order as text is their order in time:
//!
//! ```text
//! 2026-11-21                          date
//! 2026-11-21 05:30:00                 timestamp, to the second where it has no fraction
//! 2026-11-21 05:30:00.250             else in groups of three digits
//! 2026-11-21 05:30:00.250+00:00       timestamp with a time zone: the instant, in UTC
//! 05:30:00.250                        time of day
//! P1M2DT0.500S                        interval, in ISO 8601
//! ```
//!
//! `+00:00` and not `Z`, as `Z` sorts after the dot of a fraction. Years before
//! 0 or after 9999 have a sign, as ISO 8601 wants it; SQLite does not read them.
//!
//! Must never: panic, whatever the number, or lose a digit.

use std::io::Write;

const SECONDS_PER_DAY: i64 = 86_400;

/// A count of parts of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// Number of units in a second.
    pub per_second: i64,
    /// Decimal digits of a fraction of a second.
    pub digits: usize,
}

impl Unit {
    pub const SECOND: Self = Self { per_second: 1, digits: 0 };
    pub const MILLISECOND: Self = Self { per_second: 1_000, digits: 3 };
    pub const MICROSECOND: Self = Self { per_second: 1_000_000, digits: 6 };
    pub const NANOSECOND: Self = Self { per_second: 1_000_000_000, digits: 9 };
}

/// Writes the date that is `days` after 1 January 1970.
pub(super) fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    if (0..=9999).contains(&year) {
        push_digits(year as u64, 4, out);
    } else {
        out.push(if year < 0 { b'-' } else { b'+' });
        push_digits(year.unsigned_abs(), 4, out);
    }
    out.push(b'-');
    push_digits(month, 2, out);
    out.push(b'-');
    push_digits(day, 2, out);
}

/// Year, month and day of the proleptic Gregorian calendar: the count of days
/// is split into eras of 400 years, which are all alike, beginning on 1 March,
/// so that the leap day is a year's last.
fn civil(days: i64) -> (i64, u64, u64) {
    const DAYS_PER_ERA: i64 = 146_097;
    // 1 March of year 0. Days come from 64-bit counts of milliseconds or of
    // seconds, divided: there is room.
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u64, day as u64)
}

/// Writes the date that is `milliseconds` after the start of 1970, with its
/// time of day if it has one, which it should not.
pub(super) fn write_date_of_milliseconds(milliseconds: i64, out: &mut Vec<u8>) {
    if milliseconds % (SECONDS_PER_DAY * 1_000) == 0 {
        write_date(milliseconds / (SECONDS_PER_DAY * 1_000), out);
    } else {
        write_timestamp(milliseconds, Unit::MILLISECOND, false, out);
    }
}

/// Writes the point in time `count` units after the start of 1970.
pub(super) fn write_timestamp(count: i64, unit: Unit, has_zone: bool, out: &mut Vec<u8>) {
    let seconds = count.div_euclid(unit.per_second);
    let fraction = count.rem_euclid(unit.per_second);
    write_date(seconds.div_euclid(SECONDS_PER_DAY), out);
    out.push(b' ');
    write_clock(seconds.rem_euclid(SECONDS_PER_DAY) as u64, out);
    write_fraction(fraction as u64, unit.digits, out);
    if has_zone {
        out.extend_from_slice(b"+00:00");
    }
}

/// Writes a time of day. What is no such time, being negative or more than a
/// day, is written as what it is.
pub(super) fn write_time(count: i64, unit: Unit, out: &mut Vec<u8>) {
    if count < 0 {
        out.push(b'-');
    }
    let per_second = unit.per_second.unsigned_abs();
    write_clock(count.unsigned_abs() / per_second, out);
    write_fraction(count.unsigned_abs() % per_second, unit.digits, out);
}

fn write_clock(seconds: u64, out: &mut Vec<u8>) {
    push_digits(seconds / 3_600, 2, out);
    out.push(b':');
    push_digits(seconds / 60 % 60, 2, out);
    out.push(b':');
    push_digits(seconds % 60, 2, out);
}

/// Writes a fraction of a second in as few groups of three digits as it needs.
fn write_fraction(mut fraction: u64, mut digits: usize, out: &mut Vec<u8>) {
    if fraction == 0 {
        return;
    }
    while fraction.is_multiple_of(1_000) {
        fraction /= 1_000;
        digits -= 3;
    }
    out.push(b'.');
    push_digits(fraction, digits, out);
}

/// Writes a number with at least `width` digits.
fn push_digits(number: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut rest = number;
    let mut start = digits.len();
    while rest > 0 || digits.len() - start < width {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[start..]);
}

/// Writes an interval in ISO 8601, each part with a sign of its own.
pub(super) fn write_interval(months: i32, days: i32, nanoseconds: i64, out: &mut Vec<u8>) {
    out.push(b'P');
    let (years, months) = (months / 12, months % 12);
    for (part, letter) in [(years, b'Y'), (months, b'M'), (days, b'D')] {
        if part != 0 {
            // Writing to memory does not fail.
            let _ = write!(out, "{part}");
            out.push(letter);
        }
    }
    if nanoseconds != 0 || out.ends_with(b"P") {
        out.push(b'T');
        if nanoseconds < 0 {
            out.push(b'-');
        }
        let per_second = Unit::NANOSECOND.per_second.unsigned_abs();
        push_digits(nanoseconds.unsigned_abs() / per_second, 1, out);
        write_fraction(nanoseconds.unsigned_abs() % per_second, 9, out);
        out.push(b'S');
    }
}

/// Writes `digits`, an integer as text, divided by ten to the power of `scale`.
/// All digits of the scale are written, as SQL writes a DECIMAL.
pub(super) fn write_decimal(digits: &str, scale: i8, out: &mut Vec<u8>) {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    out.extend_from_slice(sign.as_bytes());
    if scale <= 0 {
        out.extend_from_slice(digits.as_bytes());
        if digits != "0" {
            out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(scale));
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole.as_bytes() });
    out.push(b'.');
    out.resize(out.len() + scale - fraction.len(), b'0');
    out.extend_from_slice(fraction.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates() {
        let date = |days| text(|out| write_date(days, out));
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(-1), "1969-12-31");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_778), "2026-11-21");
        assert_eq!(date(2_932_896), "9999-12-31");
        assert_eq!(date(2_932_897), "+10000-01-01");
        assert_eq!(date(-719_528), "0000-01-01");
        assert_eq!(date(-719_529), "-0001-12-31");
        assert_eq!(date(i64::from(i32::MIN)), "-5877641-06-23");
        assert_eq!(text(|out| write_date_of_milliseconds(-86_400_000, out)), "1969-12-31");
        assert_eq!(
            text(|out| write_date_of_milliseconds(1_500, out)),
            "1970-01-01 00:00:01.500",
            "a date with a time of day keeps it"
        );
    }

    /// Each day of eight centuries follows the day before, by SQLite's own calendar.
    #[test]
    fn dates_are_those_of_sqlite() {
        let database = rusqlite::Connection::open_in_memory().unwrap();
        let mut ask = database.prepare("SELECT date(?1 * 86400, 'unixepoch')").unwrap();
        for days in (-719_528..2_932_897).step_by(97) {
            let theirs: String = ask.query_row([days], |row| row.get(0)).unwrap();
            assert_eq!(text(|out| write_date(days, out)), theirs, "{days}");
        }
    }

    #[test]
    fn timestamps() {
        let at = |count, unit, zone| text(|out| write_timestamp(count, unit, zone, out));
        assert_eq!(at(0, Unit::NANOSECOND, false), "1970-01-01 00:00:00");
        assert_eq!(at(-1, Unit::SECOND, true), "1969-12-31 23:59:59+00:00");
        assert_eq!(at(-1, Unit::MILLISECOND, false), "1969-12-31 23:59:59.999");
        assert_eq!(at(1_500_000, Unit::MICROSECOND, true), "1970-01-01 00:00:01.500+00:00");
        assert_eq!(at(1_000_001, Unit::MICROSECOND, false), "1970-01-01 00:00:01.000001");
        assert_eq!(at(1, Unit::NANOSECOND, false), "1970-01-01 00:00:00.000000001");
        assert_eq!(at(i64::MAX, Unit::NANOSECOND, false), "2262-04-11 23:47:16.854775807");
        assert_eq!(at(i64::MAX, Unit::SECOND, false), "+292277026596-12-04 15:30:07");
        assert_eq!(at(i64::MIN, Unit::SECOND, false), "-292277022657-01-27 08:29:52");
    }

    #[test]
    fn timestamps_sort_as_text_as_they_do_in_time() {
        let counts = [-1, 0, 1, 999, 1_000, 1_001, 500_000, 999_999, 1_000_000, 1_000_001];
        for has_zone in [false, true] {
            let texts: Vec<String> = counts
                .iter()
                .map(|count| text(|out| write_timestamp(*count, Unit::MICROSECOND, has_zone, out)))
                .collect();
            assert!(texts.is_sorted(), "{texts:?}");
        }
    }

    #[test]
    fn times() {
        let time = |count, unit| text(|out| write_time(count, unit, out));
        assert_eq!(time(0, Unit::SECOND), "00:00:00");
        assert_eq!(time(86_399_250, Unit::MILLISECOND), "23:59:59.250");
        assert_eq!(time(1_000, Unit::NANOSECOND), "00:00:00.000001");
        assert_eq!(time(-1, Unit::SECOND), "-00:00:01");
        assert_eq!(time(i64::MIN, Unit::SECOND), "-2562047788015215:30:08");
    }

    #[test]
    fn intervals() {
        let interval =
            |months, days, nanoseconds| text(|out| write_interval(months, days, nanoseconds, out));
        assert_eq!(interval(0, 0, 0), "PT0S");
        assert_eq!(interval(14, 0, 0), "P1Y2M");
        assert_eq!(interval(-1, 3, -1_500_000_000), "P-1M3DT-1.500S");
        assert_eq!(interval(i32::MIN, i32::MIN, i64::MIN), {
            "P-178956970Y-8M-2147483648DT-9223372036.854775808S"
        });
    }

    #[test]
    fn decimals() {
        let decimal = |digits, scale| text(|out| write_decimal(digits, scale, out));
        assert_eq!(decimal("12345", 2), "123.45");
        assert_eq!(decimal("-5", 3), "-0.005");
        assert_eq!(decimal("0", 2), "0.00");
        assert_eq!(decimal("-123", 3), "-0.123");
        assert_eq!(decimal("123", 0), "123");
        assert_eq!(decimal("-123", -2), "-12300");
        assert_eq!(decimal("0", -2), "0");
        assert_eq!(decimal("1", i8::MIN).len(), 129);
        assert_eq!(decimal("1", i8::MAX).len(), 129);
    }
}
