//! Parameters of a statement, from Python.
//!
//! A mapping may have more keys than the statement has names, as with `sqlite3`. So the names are
//! read from the SQL, by the rules of SQLite's tokenizer.
//!
//! Must never: take a sign inside a string, a quoted name or a comment for a parameter.

use std::cell::OnceCell;

use leafpress::rusqlite::types::Value;
use leafpress::writer::Parameters;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyListMethods, PyMapping, PySequence, PyTuple};

use super::wait::before_row;
use crate::ending::Inside;
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
    Taker::new(given.py(), sql)?.take(given)
}

/// Parameters of a statement that were read before its call.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeParameters(Parameters);

#[pymethods]
impl NativeParameters {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 gives it so")]
    fn new(
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        parameters_of(&sql, parameters).map(Self)
    }
}

/// The parameters of `sql` for each row of an iterable.
///
/// # Errors
/// Those of the iterable, and those of [`parameters_of`], with the number of the row from 1.
pub fn many_parameters_of(sql: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<Parameters>> {
    let py = given.py();
    let mut taker = Taker::new(py, sql)?;
    let _inside = Inside::enter(py);
    // Other types may raise there, or tell any number.
    let known = given.cast_exact::<PyList>().map_or(0, PyListMethods::len);
    let mut rows = Vec::with_capacity(known);
    for row in given.try_iter()? {
        before_row(py, rows.len())?;
        let row = row?;
        taker.row = Some(rows.len() + 1);
        if row.is_none() {
            return Err(taker.wrong_kind(&row));
        }
        rows.push(taker.take(&row)?);
    }
    Ok(rows)
}

/// Takes the parameters of a statement, once or for each of many rows.
struct Taker<'s> {
    sql: &'s str,
    /// The names in the statement, once they are needed.
    names: OnceCell<Vec<&'s str>>,
    /// Number of the row from 1, of many.
    row: Option<usize>,
}

impl<'s> Taker<'s> {
    fn new(py: Python<'_>, sql: &'s str) -> PyResult<Self> {
        if let Some(at) = sql.bytes().position(|byte| byte == 0) {
            let text = format!("byte {at} of the SQL is NUL, where SQLite would end it");
            return Err(misuse(py, text));
        }
        Ok(Self { sql, names: OnceCell::new(), row: None })
    }

    fn take(&self, given: &Bound<'_, PyAny>) -> PyResult<Parameters> {
        if let Ok(values) = given.cast::<PyTuple>() {
            return self.positional(values.iter(), values.len());
        }
        if given.is_none() {
            return Ok(Parameters::Positional(Vec::new()));
        }
        if let Ok(values) = given.cast::<PyList>() {
            return self.positional(values.iter(), values.len());
        }
        if given.is_instance_of::<PyDict>() || given.cast::<PyMapping>().is_ok() {
            return self.named(given);
        }
        if !is_text_or_bytes(given)
            && let Ok(values) = given.cast::<PySequence>()
        {
            let values = values.to_list()?;
            return self.positional(values.iter(), values.len());
        }
        if let Ok(read) = given.cast::<NativeParameters>() {
            return Ok(read.get().0.clone());
        }
        Err(self.wrong_kind(given))
    }

    fn wrong_kind(&self, given: &Bound<'_, PyAny>) -> PyErr {
        let kind = match given.get_type().name() {
            Ok(kind) => kind,
            Err(error) => return error,
        };
        let what = "parameters are a sequence or a mapping, as (value,)";
        self.misuse(given.py(), &format!("{what}, and this is of type {kind}"))
    }

    fn positional<'py>(
        &self,
        given: impl Iterator<Item = Bound<'py, PyAny>>,
        count: usize,
    ) -> PyResult<Parameters> {
        let mut values = Vec::with_capacity(count);
        for (index, value) in given.enumerate() {
            let name = || (index + 1).to_string();
            let stored = value_of(&value);
            values.push(stored.map_err(|error| self.of_parameter(&value, error, &name()))?);
        }
        Ok(Parameters::Positional(values))
    }

    fn named(&self, given: &Bound<'_, PyAny>) -> PyResult<Parameters> {
        let py = given.py();
        let mut values: Vec<(String, Value)> = Vec::new();
        for name in self.names.get_or_init(|| names(self.sql)) {
            let Some(key) = name.get(1..).filter(|key| !key.is_empty()) else {
                let text = format!("the parameter {name} has no name, as a mapping needs");
                return Err(self.misuse(py, &text));
            };
            if values.iter().any(|(known, _)| known == name) {
                continue;
            }
            let value = given.get_item(key).map_err(|error| {
                if !error.is_instance_of::<PyKeyError>(py) {
                    return error;
                }
                self.misuse(py, &format!("there is no value for the parameter {name}"))
            })?;
            let stored =
                value_of(&value).map_err(|error| self.of_parameter(&value, error, name))?;
            values.push(((*name).to_owned(), stored));
        }
        Ok(Parameters::Named(values))
    }

    fn misuse(&self, py: Python<'_>, text: &str) -> PyErr {
        misuse(py, self.row.map_or_else(|| text.to_owned(), |row| format!("row {row}: {text}")))
    }

    /// The exception of a value that SQLite cannot hold, with its parameter.
    fn of_parameter(&self, value: &Bound<'_, PyAny>, error: PyErr, name: &str) -> PyErr {
        let row = self.row.map(|row| format!("row {row}, ")).unwrap_or_default();
        placed(value.py(), error, &format!("{row}parameter {name}"), self.row)
    }
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
