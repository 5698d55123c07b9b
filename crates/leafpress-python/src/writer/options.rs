//! Options of a Writer, from keywords of Python.
//!
//! Must never: ignore a keyword that it does not know.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use leafpress::Profile;
use leafpress::checkpoint::CheckpointLimits;
use leafpress::profile::{AtomicWish, Locking};
use leafpress::writer::WriterBuilder;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ending;
use crate::errors::{Raise, misuse, named};

/// A builder with the options, and the number of its readers; None stands for the default of each.
///
/// # Errors
/// For an unknown option, or a value that it cannot have.
pub fn builder(
    py: Python<'_>,
    path: PathBuf,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(WriterBuilder, usize)> {
    let mut builder = leafpress::Writer::builder(path);
    let mut readers = (16, Duration::from_secs(5));
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        if !value.is_none() {
            builder = with_option(builder, &mut readers, &name, &value)
                .map_err(|error| named(py, &name, &error))?;
        }
    }
    Ok((builder.readers(readers.0, readers.1), readers.0))
}

/// The option `call_limit` of these.
///
/// # Errors
/// As [`duration`].
pub fn call_limit(options: Option<&Bound<'_, PyDict>>) -> PyResult<Option<Duration>> {
    let given = options.map(|options| options.get_item("call_limit")).transpose()?.flatten();
    let given = given.filter(|limit| !limit.is_none());
    given.map(|limit| duration("call_limit", &limit)).transpose()
}

fn with_option(
    builder: WriterBuilder,
    readers: &mut (usize, Duration),
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<WriterBuilder> {
    let py = value.py();
    let is_on = || value.extract::<bool>();
    Ok(match name {
        "profile" => builder.profile(Profile::from_str(&value.extract::<String>()?).raise(py)?),
        "rebuildable_ok" if is_on()? => builder.rebuildable_ok(),
        "shared" if is_on()? => builder.shared(),
        "small" if is_on()? => builder.small(),
        "rebuildable_ok" | "shared" | "small" => builder,
        "foreign_keys" => builder.foreign_keys(is_on()?),
        "page_size" => builder.page_size(value.extract()?),
        "atomic" => builder.atomic(atomic(value)?),
        "locking" => builder.locking(locking(value)?),
        "busy_timeout" => builder.busy_limit(duration(name, value)?),
        "queue_capacity" => builder.queue_capacity(from_1(name, value)?),
        "max_group" => builder.max_group(from_1(name, value)?),
        "max_delay" => builder.max_delay(duration(name, value)?),
        "call_limit" => builder.call_limit(duration(name, value)?),
        "checkpoint" => builder.checkpoint_limits(checkpoint(value.cast()?)?),
        "readers" => {
            readers.0 = from_1(name, value)?;
            builder
        }
        "reader_wait" => {
            readers.1 = duration(name, value)?;
            builder
        }
        _ => return Err(misuse(py, format!("a Writer has no option '{name}'"))),
    })
}

/// A number from 1 on.
///
/// # Errors
/// For another object, or 0.
pub fn from_1<'py, N>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<N>
where
    N: for<'a> FromPyObject<'a, 'py, Error = PyErr> + From<u8> + PartialEq,
{
    let number: N = value.extract()?;
    if number == N::from(0) {
        return Err(misuse(value.py(), format!("{name} is 0, and must be a number from 1")));
    }
    Ok(number)
}

/// A duration of so many seconds.
///
/// # Errors
/// For an object that is no number, or a number that is negative, not finite or too large.
pub fn duration(name: &str, seconds: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let py = seconds.py();
    let number: f64 = seconds.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyTypeError>(py) {
            return not_a_number(name, seconds);
        }
        named(py, name, &error)
    })?;
    Duration::try_from_secs_f64(number).map_err(|_| {
        misuse(py, format!("{name} is {number}, and must be a number of seconds from 0"))
    })
}

fn not_a_number(name: &str, object: &Bound<'_, PyAny>) -> PyErr {
    let py = object.py();
    let shown = ending::inside(py, || -> PyResult<String> {
        py.import("leafpress._values")?.getattr("_shown")?.call1((object,))?.extract()
    });
    match shown {
        Ok(shown) => misuse(py, format!("{name} is a number, not {shown}")),
        Err(failure) => failure,
    }
}

fn atomic(value: &Bound<'_, PyAny>) -> PyResult<AtomicWish> {
    match value.extract::<String>()?.as_str() {
        "where_proven" => Ok(AtomicWish::WhereProven),
        "assume" => Ok(AtomicWish::Assume),
        "off" => Ok(AtomicWish::Off),
        _ => Err(one_of(value, "atomic", "where_proven, assume or off")),
    }
}

fn locking(value: &Bound<'_, PyAny>) -> PyResult<Locking> {
    match value.extract::<String>()?.as_str() {
        "shared" => Ok(Locking::Shared),
        "exclusive" => Ok(Locking::Exclusive),
        _ => Err(one_of(value, "locking", "shared or exclusive")),
    }
}

fn one_of(value: &Bound<'_, PyAny>, name: &str, values: &str) -> PyErr {
    misuse(value.py(), format!("{name} is '{value}', and must be {values}"))
}

fn checkpoint(options: &Bound<'_, PyDict>) -> PyResult<CheckpointLimits> {
    let mut limits = CheckpointLimits::default();
    for (name, value) in options {
        let name: String = name.extract()?;
        let wait = || duration(&name, &value);
        match name.as_str() {
            "slice_frames" => limits.slice_frames = from_1(&name, &value)?,
            "wal_bytes_max" => limits.wal_bytes_max = value.extract()?,
            "catch_up_bytes" => limits.catch_up_bytes = value.extract()?,
            "pause_bytes" => limits.pause_bytes = value.extract()?,
            "pause_before_pass" => limits.pause_before_pass = wait()?,
            "idle_before_truncate" => limits.idle_before_truncate = wait()?,
            "stuck_reader_after" => limits.stuck_reader_after = wait()?,
            "catch_up_wait_max" => limits.catch_up_wait_max = wait()?,
            "gate_wait_max" => limits.gate_wait_max = wait()?,
            "stop_wait_max" => limits.stop_wait_max = wait()?,
            _ => return Err(misuse(options.py(), format!("checkpoint has no limit '{name}'"))),
        }
    }
    Ok(limits)
}
