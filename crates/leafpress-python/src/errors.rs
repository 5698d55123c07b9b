//! Errors of the library as Python's exceptions.
//!
//! The classes are Python's (`python/leafpress/_errors.py`), since each inherits from one of
//! `sqlite3` too. An exception of the caller's own code, which came through the library as the
//! cause of an error, is raised as it is.
//!
//! Must never: lose what an error says about the disk, or what to do.

use std::fmt;

use leafpress::{Error, ErrorKind};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::ending;
use crate::values::data_error;

/// Turns a result of the library into one of Python.
pub trait Raise<T> {
    /// The value, or the exception.
    ///
    /// # Errors
    /// The library's error as an exception.
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for leafpress::Result<T> {
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

/// The exception for an error.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    if let ErrorKind::Aborted(source) = error.kind()
        && let Some(own) = source.downcast_ref::<PyErr>()
    {
        return own.clone_ref(py);
    }
    let text = causes(error).find_map(|cause| cause.downcast_ref::<NotUtf8>());
    let made = ending::inside(py, || match text {
        Some(text) => not_utf8(py, text),
        None => made(py, error),
    });
    match made {
        Ok(made) => PyErr::from_value(made),
        Err(failure) => failure,
    }
}

/// A misuse that this package finds itself, as the library would say it.
pub fn misuse(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, &ErrorKind::Misuse(message.into()).into())
}

/// The exception for a state that should be impossible.
pub fn bug(py: Python<'_>, message: &str) -> PyErr {
    exception(py, &ErrorKind::Bug(message.to_owned()).into())
}

/// The exception for an option of a wrong type: pyo3 names the field of a struct of ours, and has
/// what is wrong as the cause.
pub fn of_option(py: Python<'_>, error: PyErr) -> PyErr {
    let (mut name, mut innermost) = (None, error);
    while let Some(field) = innermost.value(py).to_string().strip_prefix(FIELD)
        && let Some(cause) = innermost.cause(py)
    {
        name = field.rsplit_once('.').map(|(_, name)| name.to_owned());
        innermost = cause;
    }
    name.map_or(innermost.clone_ref(py), |name| named(py, &name, &innermost))
}

/// The exception for an option that cannot have this value.
pub fn named(py: Python<'_>, option: &str, error: &PyErr) -> PyErr {
    let kind = error.get_type(py);
    if kind.is(py.get_type::<PyOverflowError>()) {
        return misuse(py, format!("{option}: the number is out of range: {}", error.value(py)));
    }
    if kind.is(py.get_type::<PyTypeError>()) {
        return misuse(py, format!("{option}: {}", error.value(py)));
    }
    if kind.is(py.get_type::<PyUnicodeEncodeError>()) {
        return data_error(py, &format!("{option} is no UTF-8: {}", error.value(py)));
    }
    error.clone_ref(py)
}

const FIELD: &str = "failed to extract field ";

fn made<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "leafpress._errors", "make")?;
    let parts = PyDict::new(py);
    parts.set_item("message", error.to_string())?;
    let kind = if has_wrong_parameters(error) { "misuse" } else { error.kind().name() };
    parts.set_item("kind", kind)?;
    parts.set_item("code", error.sqlite_code())?;
    parts.set_item("on_disk", error.state_on_disk())?;
    parts.set_item("to_do", error.advice())?;
    parts.set_item("is_retryable", error.is_retryable())?;
    if let ErrorKind::LeaseLost { why, .. } = error.kind() {
        let why = serde_json::to_value(why).ok();
        parts.set_item("why", why.as_ref().and_then(serde_json::Value::as_str))?;
    }
    if let Some(row) = error.bad_row() {
        parts.set_item("file", &row.file)?;
        parts.set_item("line", row.line)?;
        parts.set_item("column", row.column)?;
    } else {
        parts.set_item("line", error.failed_row())?;
    }
    make.call((), Some(&parts))
}

/// Cause of the error for a text that is not UTF-8, which Python has no object for.
#[derive(Debug)]
pub struct NotUtf8 {
    pub column: String,
}

impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text in column {:?} of the result is not UTF-8", self.column)
    }
}

impl std::error::Error for NotUtf8 {}

/// The exception for a text that Python has no object for.
fn not_utf8<'py>(py: Python<'py>, text: &NotUtf8) -> PyResult<Bound<'py, PyAny>> {
    py.import("leafpress._errors")?.getattr("not_utf8")?.call1((text.to_string(),))
}

/// Returns true for a call whose parameters do not fit its statement.
fn has_wrong_parameters(error: &Error) -> bool {
    causes(error).any(|cause| {
        use leafpress::rusqlite::Error::{InvalidParameterCount, InvalidParameterName};
        let cause = cause.downcast_ref();
        matches!(cause, Some(InvalidParameterCount(..) | InvalidParameterName(_)))
    })
}

/// The causes of an error, the nearest first.
fn causes(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |cause| cause.source())
}
