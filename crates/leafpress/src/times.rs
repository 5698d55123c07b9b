//! Durations as JSON shows them: the unit is the end of the field's name.
//!
//! Must never: be where a value is measured or compared.

use std::time::Duration;

use serde::Serializer;

/// Writes a duration as seconds.
pub fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}
