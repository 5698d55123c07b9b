//! Parameters of a statement, from Python.
//!
//! A mapping may have more keys than the statement has names, as with `sqlite3`. So the names are
//! read from the SQL, by the rules of SQLite's tokenizer.
//!
//! Must never: take a sign inside a string, a quoted name or a comment for a parameter.

use leafpress::rusqlite::types::Value;
use leafpress::writer::Parameters;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PySequence, PyTuple};

use crate::errors::{self, misuse};
use crate::values::{is_text_or_bytes, placed, value_of};

/// The text of one statement or several, as an argument.
///
/// # Errors
/// If it is no text, or has half of a surrogate pair.
pub fn sql_of(object: &Bound<'_, PyAny>) -> PyResult<String> {
    object.extract().map_err(|error| errors::named(object.py(), "sql", &error))
}

/// The names of columns, as an argument.
///
/// # Errors
/// As [`sql_of`].
pub fn columns_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    object.extract().map_err(|error| errors::named(object.py(), "columns", &error))
}

/// The parameters of `sql`: None, a sequence of values in order, or a mapping of names without
/// their sign.
///
/// # Errors
/// For a name that the mapping does not have, a value that SQLite cannot hold, and a text with a
/// NUL character: SQLite would take what stands before it for all of it. The library refuses it
/// too, but not on connections that only read.
pub fn parameters_of(sql: &str, given: &Bound<'_, PyAny>) -> PyResult<Parameters> {
    if let Some(at) = sql.bytes().position(|byte| byte == 0) {
        let text = format!("byte {at} of the SQL is NUL, where SQLite would end it");
        return Err(misuse(given.py(), text));
    }
    if let Ok(values) = given.cast::<PyTuple>() {
        return positional(values.iter(), values.len());
    }
    if given.is_none() {
        return Ok(Parameters::Positional(Vec::new()));
    }
    if let Ok(values) = given.cast::<PyList>() {
        return positional(values.iter(), values.len());
    }
    if given.is_instance_of::<PyDict>() || given.cast::<PyMapping>().is_ok() {
        return named(sql, given);
    }
    if !is_text_or_bytes(given)
        && let Ok(values) = given.cast::<PySequence>()
    {
        let values = values.to_list()?;
        return positional(values.iter(), values.len());
    }
    let kind = given.get_type().name()?;
    let what = "parameters are a sequence or a mapping, as (value,)";
    Err(misuse(given.py(), format!("{what}, and this is of type {kind}")))
}

fn positional<'py>(
    given: impl Iterator<Item = Bound<'py, PyAny>>,
    count: usize,
) -> PyResult<Parameters> {
    let mut values = Vec::with_capacity(count);
    for (index, value) in given.enumerate() {
        let name = || (index + 1).to_string();
        values.push(value_of(&value).map_err(|error| of_parameter(&value, error, &name()))?);
    }
    Ok(Parameters::Positional(values))
}

fn named(sql: &str, given: &Bound<'_, PyAny>) -> PyResult<Parameters> {
    let py = given.py();
    let mut values: Vec<(String, Value)> = Vec::new();
    for name in names(sql) {
        let Some(key) = name.get(1..).filter(|key| !key.is_empty()) else {
            return Err(misuse(
                py,
                format!("the parameter {name} has no name, as a mapping needs"),
            ));
        };
        if values.iter().any(|(known, _)| known == name) {
            continue;
        }
        let value = given.get_item(key).map_err(|error| {
            if !error.is_instance_of::<PyKeyError>(py) {
                return error;
            }
            misuse(py, format!("there is no value for the parameter {name}"))
        })?;
        let stored = value_of(&value).map_err(|error| of_parameter(&value, error, name))?;
        values.push((name.to_owned(), stored));
    }
    Ok(Parameters::Named(values))
}

/// The exception of a value that SQLite cannot hold, with its parameter.
fn of_parameter(value: &Bound<'_, PyAny>, error: PyErr, name: &str) -> PyErr {
    placed(value.py(), error, &format!("parameter {name}"), None)
}

/// The parameters in a text of SQL, with their signs; of one by number the sign alone.
fn names(sql: &str) -> Vec<&str> {
    let bytes = sql.as_bytes();
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = bytes.get(at + 1..).unwrap_or_default();
        let word = rest.iter().take_while(|byte| is_of_word(**byte)).count();
        at += 1 + match (byte, rest.first()) {
            (b'\'' | b'"' | b'`', _) => length_to(rest, &[byte]),
            (b'[', _) => length_to(rest, b"]"),
            (b'-', Some(b'-')) => length_to(rest, b"\n"),
            (b'/', Some(b'*')) => 1 + length_to(rest.get(1..).unwrap_or_default(), b"*/"),
            (b':' | b'@' | b'$', _) if word > 0 => {
                names.extend(sql.get(at..=at + word));
                word
            }
            (b'?', _) => {
                names.push("?");
                word
            }
            _ if is_of_word(byte) => word,
            _ => 0,
        };
    }
    names
}

/// Bytes up to the end of `mark`.
fn length_to(bytes: &[u8], mark: &[u8]) -> usize {
    let found = bytes.windows(mark.len()).position(|window| window == mark);
    found.map_or(bytes.len(), |at| at + mark.len())
}

/// Bytes of which SQLite makes names.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}
