//! Times in the queue's tables, durations in reports. The unit is the end of a field's name.
//!
//! Must never: ask a clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use serde::{Deserialize, Serialize, Serializer};

/// A point in time: milliseconds since the Unix epoch, as the tables hold it and JSON shows it.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use leafpress::queue::UnixTime;
///
/// let at = UnixTime::from_ms(1_500);
/// assert_eq!(SystemTime::from(at), SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
/// assert_eq!(UnixTime::from(SystemTime::from(at)).as_ms(), 1_500);
/// ```
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixTime(i64);

impl UnixTime {
    /// The time of this number of milliseconds since the Unix epoch.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_ms(self) -> i64 {
        self.0
    }
}

impl From<SystemTime> for UnixTime {
    fn from(at: SystemTime) -> Self {
        Self(match at.duration_since(UNIX_EPOCH) {
            Ok(after) => in_milliseconds(after),
            Err(before) => in_milliseconds(before.duration()).saturating_neg(),
        })
    }
}

impl From<UnixTime> for SystemTime {
    /// The epoch stands for times that the system's type cannot hold: some systems' ends in the
    /// year 30828.
    fn from(at: UnixTime) -> Self {
        let distance = Duration::from_millis(at.0.unsigned_abs());
        let time = if at.0 < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        time.unwrap_or(UNIX_EPOCH)
    }
}

impl FromSql for UnixTime {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}

/// Milliseconds of a duration, no more than SQLite's largest integer.
pub fn in_milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Whole microseconds of a duration.
pub fn in_microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Writes a duration as seconds.
pub fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// Writes a duration, if there is one, as seconds.
pub fn optional_seconds<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}

/// Writes a duration as whole milliseconds.
pub fn milliseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_i64(in_milliseconds(*time))
}

/// Writes a duration as milliseconds with a fraction.
pub fn exact_milliseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_nanos() as f64 / 1e6)
}

/// Writes a duration as whole microseconds.
pub fn whole_microseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(in_microseconds(*time))
}

/// Writes a duration as microseconds with a fraction.
pub fn microseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_nanos() as f64 / 1e3)
}

/// Writes a duration, if there is one, as whole milliseconds.
pub fn optional_milliseconds<S: Serializer>(
    time: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_some(&in_milliseconds(*time)),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Times {
        #[serde(rename = "elapsed_s", serialize_with = "seconds")]
        elapsed: Duration,
        #[serde(rename = "lease_ms", serialize_with = "milliseconds")]
        lease: Duration,
        #[serde(rename = "mean_ms", serialize_with = "exact_milliseconds")]
        mean: Duration,
        #[serde(rename = "time_us", serialize_with = "microseconds")]
        time: Duration,
        #[serde(rename = "max_us", serialize_with = "whole_microseconds")]
        max: Duration,
        #[serde(rename = "age_ms", serialize_with = "optional_milliseconds")]
        age: Option<Duration>,
        #[serde(rename = "due_at_ms")]
        due_at: Option<UnixTime>,
    }

    #[test]
    fn json_has_plain_numbers_in_the_unit_of_the_name() {
        let time = Duration::from_nanos(2_500_400);
        let due_at = Some(UnixTime::from_ms(-7));
        let age = Some(time);
        let some = Times { elapsed: time, lease: time, mean: time, time, max: time, age, due_at };
        let expected = json!({
            "elapsed_s": 0.002_500_4, "lease_ms": 2, "mean_ms": 2.500_4, "time_us": 2500.4,
            "max_us": 2500, "age_ms": 2, "due_at_ms": -7,
        });
        assert_eq!(serde_json::to_value(some).expect("numbers"), expected);
        let none = Times {
            elapsed: Duration::ZERO,
            lease: Duration::MAX,
            mean: Duration::ZERO,
            time: Duration::ZERO,
            max: Duration::ZERO,
            age: None,
            due_at: None,
        };
        let none = serde_json::to_value(none).expect("numbers");
        assert_eq!((&none["age_ms"], &none["due_at_ms"]), (&json!(null), &json!(null)));
        assert_eq!(none["lease_ms"], json!(i64::MAX));
    }

    #[test]
    fn a_time_goes_to_the_system_and_back() {
        // Windows begins in 1601.
        let first = if cfg!(windows) { -11_644_473_600_000 } else { -62_135_596_800_000 };
        for ms in [0, 1, -1, 1_764_000_000_123, first] {
            let at = UnixTime::from_ms(ms);
            assert_eq!(UnixTime::from(SystemTime::from(at)), at, "{ms}");
        }
        for ms in [i64::MIN, i64::MAX] {
            let _ = SystemTime::from(UnixTime::from_ms(ms));
        }
    }
}
