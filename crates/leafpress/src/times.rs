//! Durations as JSON shows them: the unit is the end of the field's name.
//!
//! Must never: be where a value is measured or compared.

use std::time::Duration;

use serde::Serializer;

/// Milliseconds of a duration, no more than SQLite's largest integer.
pub fn in_milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Writes a duration as seconds.
pub fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// Writes a duration as whole milliseconds.
pub fn milliseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_i64(in_milliseconds(*time))
}

/// Writes a duration as milliseconds with a fraction.
pub fn exact_milliseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_nanos() as f64 / 1e6)
}

/// Writes a duration as microseconds with a fraction.
pub fn microseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_nanos() as f64 / 1e3)
}

/// Writes a duration, if there is one, as whole milliseconds.
#[expect(clippy::ref_option, reason = "as serde calls it")]
pub fn optional_milliseconds<S: Serializer>(
    time: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_some(&in_milliseconds(*time)),
        None => to.serialize_none(),
    }
}
