//! Rows for a table, from Python, and rows that a statement returned, for it.
//!
//! Must never: accept a row that has more or fewer values than there are columns, or change a text that is
//! not UTF-8.

use std::collections::HashMap;

use leafpress::counted;
use leafpress::rusqlite::types::{Type, Value, ValueRef};
use leafpress::rusqlite::{self, Row, Statement};
use leafpress::writer::{Executed, Parameters};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PySet, PyString, PyTuple};

use super::wait::before_row;
use crate::ending::{self, Inside};
use crate::errors::NotUtf8;
use crate::values::{data_error, is_large_integer, is_text_or_bytes, object_of, placed, value_of};

/// Rows, and for the place of each column with an integer beyond 64 bits the number of its row
/// from 0.
pub type Read = (Vec<Vec<Value>>, HashMap<usize, usize>);

/// The rows of an iterable of sequences, of which `before` came before them, for these columns.
///
/// # Errors
/// Those of the iterable; for a value that SQLite cannot hold.
pub fn rows_of(given: &Bound<'_, PyAny>, before: usize, columns: &[String]) -> PyResult<Read> {
    let py = given.py();
    let (mut rows, mut large) = (Vec::new(), HashMap::new());
    let _inside = Inside::enter(py);
    for (number, row) in given.try_iter()?.enumerate() {
        before_row(py, number)?;
        let mut note = |place| {
            large.entry(place).or_insert(number);
        };
        let values = values_of_row(&row?, &mut note)
            .and_then(|values| of_this_length(py, values, columns.len()));
        rows.push(values.map_err(|(error, place)| {
            let row = before + number + 1;
            let name = match place.map(|place| (place + 1, columns.get(place))) {
                None => format!("row {row}"),
                Some((_, Some(column))) => format!("row {row}, column {column:?}"),
                Some((value, None)) => format!("row {row}, value {value}"),
            };
            placed(py, error, &name, Some(row))
        })?);
    }
    Ok((rows, large))
}

/// The values of a row; `note` is told the places of integers that SQLite has texts for. Text, bytes
/// and mappings can be iterated over too: each character, byte or key would become a value. The values of
/// a set are in no order. An exception comes with the place of its value, if it is of one.
fn values_of_row(
    row: &Bound<'_, PyAny>,
    note: &mut impl FnMut(usize),
) -> Result<Vec<Value>, (PyErr, Option<usize>)> {
    let of_row = |error| (error, None);
    let is_set = row.is_instance_of::<PySet>() || row.is_instance_of::<PyFrozenSet>();
    if is_set || is_text_or_bytes(row) || row.is_instance_of::<PyDict>() {
        return Err(of_row(no_list(row)));
    }
    let value = |(place, object): (usize, PyResult<Bound<'_, PyAny>>)| {
        let object = object.map_err(of_row)?;
        let value = value_of(&object).map_err(|error| (error, Some(place)))?;
        if !object.is_instance_of::<PyString>() && is_large_integer(&value) {
            note(place);
        }
        Ok(value)
    };
    let values = row.try_iter().map_err(|error| match row.hasattr("__iter__") {
        Ok(false) => of_row(no_list(row)),
        _ => of_row(error),
    })?;
    values.enumerate().map(value).collect()
}

/// The values, if there is one for each column.
fn of_this_length(
    py: Python<'_>,
    values: Vec<Value>,
    columns: usize,
) -> Result<Vec<Value>, (PyErr, Option<usize>)> {
    if values.len() == columns {
        return Ok(values);
    }
    let has = counted(values.len() as u64, "value", "values");
    let wrong = format!("it has {has}, and there must be {columns}, one for each column");
    let error = data_error(py, &wrong);
    let advice = "give each row as many values, or name the columns that it has by `columns`";
    // The error is as good without its advice.
    let _ = error.value(py).setattr("to_do", advice);
    Err((error, None))
}

/// The exception for an object that is no row.
fn no_list(row: &Bound<'_, PyAny>) -> PyErr {
    match row.get_type().name() {
        Ok(kind) => data_error(row.py(), &format!("it is of type {kind}, and no list of values")),
        Err(error) => error,
    }
}

/// The values of a row that SQLite gives.
///
/// # Errors
/// SQLite's; with [`NotUtf8`] as cause for a text that is not UTF-8.
pub fn values_of(row: &Row<'_>) -> rusqlite::Result<Vec<Value>> {
    let count = row.as_ref().column_count();
    (0..count).map(|index| owned(row, index)).collect()
}

fn owned(row: &Row<'_>, index: usize) -> rusqlite::Result<Value> {
    Ok(match row.get_ref(index)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => Value::Integer(integer),
        ValueRef::Real(real) => Value::Real(real),
        ValueRef::Text(text) => {
            let Ok(text) = std::str::from_utf8(text) else {
                let column = row.as_ref().column_name(index)?.to_owned();
                let cause = Box::new(NotUtf8 { column });
                return Err(rusqlite::Error::FromSqlConversionFailure(index, Type::Text, cause));
            };
            Value::Text(text.to_owned())
        }
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    })
}

/// All rows of a query on a read-only connection, with the names of their columns.
pub fn all_rows(
    statement: &mut Statement<'_>,
    parameters: &Parameters,
) -> leafpress::Result<(Vec<String>, Vec<Vec<Value>>)> {
    bind(statement, parameters)?;
    let rows = statement.raw_query().mapped(values_of).collect::<rusqlite::Result<_>>()?;
    // Only now: the first step compiles a kept statement again for another schema.
    let columns = statement.column_names().map(str::to_owned).collect();
    Ok((columns, rows))
}

fn bind(statement: &mut Statement<'_>, parameters: &Parameters) -> rusqlite::Result<()> {
    statement.clear_bindings();
    match parameters {
        Parameters::Named(values) => {
            for (name, value) in values {
                if let Some(index) = statement.parameter_index(name)? {
                    statement.raw_bind_parameter(index, value)?;
                }
            }
        }
        Parameters::Positional(values) => {
            let wanted = statement.parameter_count();
            if values.len() != wanted {
                return Err(rusqlite::Error::InvalidParameterCount(values.len(), wanted));
            }
            for (index, value) in values.iter().enumerate() {
                statement.raw_bind_parameter(index + 1, value)?;
            }
        }
        _ => return Err(rusqlite::Error::InvalidQuery),
    }
    Ok(())
}

/// `leafpress.Executed` of a statement.
pub fn executed(py: Python<'_>, done: Executed) -> PyResult<Py<PyAny>> {
    static EXECUTED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = EXECUTED.import(py, "leafpress._result", "Executed")?;
    let made = ending::inside(py, || class.call1((done.rows_changed, done.last_insert_rowid)))?;
    Ok(made.unbind())
}

/// `leafpress.Result` of a statement.
pub fn result(
    py: Python<'_>,
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
    done: Executed,
) -> PyResult<Py<PyAny>> {
    static RESULT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let class = RESULT.import(py, "leafpress._result", "Result")?;
    let list = PyList::empty(py);
    for row in rows {
        let values: PyResult<Vec<_>> = row.iter().map(|value| object_of(py, value)).collect();
        list.append(PyTuple::new(py, values?)?)?;
    }
    let parts = (columns, list, done.rows_changed, done.last_insert_rowid);
    Ok(ending::inside(py, || class.call1(parts))?.unbind())
}
