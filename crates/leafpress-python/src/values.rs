//! Values of Python as SQLite's, and back.
//!
//! The five types that SQLite has are converted here. All others (dates, decimals, scalars of
//! numpy, nested values) are made one of these by `leafpress._values.adapt`, in Python.
//!
//! Must never: change a number, or a text.

use leafpress::rusqlite::types::Value;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyMemoryView, PyString};

use crate::ending;

/// The value of an object.
///
/// # Errors
/// `leafpress.DataError` for an integer beyond 64 bits and for an object of a type that SQLite
/// has no value for.
pub fn value_of(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Some(value) = plain(object)? {
        return Ok(value);
    }
    plain(&adapted(object)?)?.ok_or_else(|| not_plain(object.py()))
}

/// A plain object for one of another type.
///
/// # Errors
/// `leafpress.DataError` for a type that SQLite has no value for.
pub fn adapted<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static ADAPT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let adapt = ADAPT.import(object.py(), "leafpress._values", "adapt")?;
    ending::inside(object.py(), || adapt.call1((object,)))
}

/// The error of an object that was adapted, and is not plain still.
pub fn not_plain(py: Python<'_>) -> PyErr {
    data_error(py, "adapt gave no value of SQLite")
}

/// The number of an integer.
///
/// # Errors
/// `leafpress.DataError` if it needs more than 64 bits.
pub fn integer(integer: &Bound<'_, PyInt>) -> PyResult<i64> {
    integer.extract().map_err(|error| beyond_64_bits(integer, error))
}

/// Returns true for a text that is an integer beyond 64 bits, which a column of numbers would make a
/// real.
pub fn is_large_integer(value: &Value) -> bool {
    let Value::Text(text) = value else { return false };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer && text.parse::<i64>().is_err()
}

/// The characters of a text.
///
/// # Errors
/// `leafpress.DataError` for half of a surrogate pair, which UTF-8 has no bytes for.
pub fn text_of<'t>(text: &'t Bound<'_, PyString>) -> PyResult<&'t str> {
    text.to_str().map_err(|error| {
        let py = text.py();
        data_error(py, &format!("the text is no UTF-8: {}", error.value(py)))
    })
}

/// The value of an object of one of the types that SQLite has; `None` for another type, which may be one
/// of these with an adapter of its own.
fn plain(object: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    Ok(Some(if object.is_none() {
        Value::Null
    } else if let Ok(text) = object.cast_exact::<PyString>() {
        Value::Text(text_of(text)?.to_owned())
    } else if let Ok(integer) = object.cast_exact::<PyInt>() {
        Value::Integer(self::integer(integer)?)
    } else if let Ok(real) = object.cast_exact::<PyFloat>() {
        Value::Real(real.value())
    } else if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        Value::Blob(bytes.as_bytes().to_vec())
    } else if let Ok(boolean) = object.cast::<PyBool>() {
        Value::Integer(boolean.is_true().into())
    } else if let Ok(bytes) = object.cast_exact::<PyByteArray>() {
        Value::Blob(bytes.to_vec())
    } else {
        return Ok(None);
    }))
}

/// The exception for an integer that is too large; `adapt` words it.
fn beyond_64_bits(integer: &Bound<'_, PyInt>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyOverflowError>(integer.py()) {
        return error;
    }
    adapted(integer.as_any()).err().unwrap_or(error)
}

/// Returns true for text and bytes, which are sequences too: each character or byte would be a value.
pub fn is_text_or_bytes(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyByteArray>()
        || object.is_instance_of::<PyMemoryView>()
}

/// The exception of a value, with its place in the call, such as `parameter 2`; `row` from 1, if it is in
/// one. Other exceptions stay as they are.
pub fn placed(py: Python<'_>, error: PyErr, place: &str, row: Option<usize>) -> PyErr {
    let placed = ending::inside(py, || {
        py.import("leafpress._errors")
            .and_then(|errors| errors.getattr("placed"))
            .and_then(|placed| placed.call1((error.clone_ref(py), place, row)))
    });
    placed.map_or(error, PyErr::from_value)
}

/// An exception for a value that cannot be stored.
pub fn data_error(py: Python<'_>, message: &str) -> PyErr {
    let made = ending::inside(py, || {
        py.import("leafpress._errors")
            .and_then(|errors| errors.getattr("unfit"))
            .and_then(|unfit| unfit.call1((message,)))
    });
    match made {
        Ok(made) => PyErr::from_value(made),
        Err(failure) => failure,
    }
}

/// The object of a value.
pub fn object_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Integer(integer) => integer.into_pyobject(py)?.into_any(),
        Value::Real(real) => real.into_pyobject(py)?.into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Blob(bytes) => PyBytes::new(py, bytes).into_any(),
    })
}
