//! Rows of Python: dicts, tuples, and objects with fields.
//!
//! The exact types of Python are read here. The shape of all other rows is asked once a type, from
//! `leafpress._rows.shape_of`, and their values are made plain by `leafpress._values.adapt`.
//!
//! A row may be a frame too: then the frames are parts of the table, and their columns go by name.
//!
//! Must never: let a row that is refused leave a column behind, or ask an iterator on that has ended.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::{Arc, Mutex};

use leafpress::load::{ArrowColumn, Value, ValueBatch, ValueRows};
use leafpress::vfs::sync::lock;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyIterator, PyList, PyString, PyTuple,
    PyType,
};

use super::caller::Caller;
use crate::arrow::{Exported, batches_of};
use crate::ending;
use crate::errors::misuse;

/// Largest number of rows in a batch.
const BATCH_ROWS_MAX: usize = 4096;
/// Size of a batch that is full.
const BATCH_BYTES: usize = 1 << 20;

/// The rows of an iterator, for the library.
pub struct PythonRows {
    caller: Caller,
    rows: Arc<Mutex<Rows>>,
}

impl PythonRows {
    pub fn new(caller: Caller, rows: Rows) -> Self {
        Self { caller, rows: Arc::new(Mutex::new(rows)) }
    }
}

impl ValueRows for PythonRows {
    fn columns(&self) -> Vec<String> {
        lock(&self.rows).names.clone()
    }

    fn fill(&mut self, batch: &mut ValueBatch) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let rows = Arc::clone(&self.rows);
        let mut filled = std::mem::take(batch);
        *batch = self.caller.ask(move |py| {
            lock(&rows).fill(py, &mut filled)?;
            Ok(filled)
        })?;
        Ok(())
    }
}

/// Rows of an iterator, with the columns that are known so far.
pub struct Rows {
    /// None after its end: it might begin anew.
    iterator: Option<Py<PyIterator>>,
    /// The frame whose rows come next.
    part: Option<Part>,
    names: Vec<String>,
    /// The names as keys of dicts are, one after the other.
    keys: Vec<Py<PyString>>,
    columns: HashMap<String, usize>,
    /// True if the caller has named the columns.
    is_fixed: bool,
    shapes: HashMap<usize, (Py<PyType>, Arc<Shape>)>,
}

/// The way to the values of a row, by its type.
enum Shape {
    /// One after the other.
    Positions,
    /// By names.
    Dict,
    /// One after the other, in columns of these names. A function gives them, or the row is them.
    Fields(Vec<String>, Option<Py<PyAny>>),
    /// A function makes a dict of the row.
    Mapping(Py<PyAny>),
    /// A frame, of any number of rows.
    Frame,
}

/// The reason why a row is not taken.
enum RowHalt {
    /// The row is bad.
    Bad(String),
    /// An exception that ends the load.
    Failed(PyErr),
    /// It is a frame.
    Frame,
}

impl From<PyErr> for RowHalt {
    fn from(error: PyErr) -> Self {
        Self::Failed(error)
    }
}

/// The fault of a value of a column. Only an exception that is none of a program's ends the load.
fn of_value(py: Python<'_>, column: &str, error: PyErr) -> RowHalt {
    if error.is_instance_of::<PyException>(py) {
        RowHalt::Bad(format!("column {column:?}: {}", error.value(py)))
    } else {
        RowHalt::Failed(error)
    }
}

impl Rows {
    /// The rows of an iterable, with the names of their columns if the caller gives them.
    ///
    /// # Errors
    /// The object cannot be iterated over.
    pub fn new(rows: &Bound<'_, PyAny>, names: Option<Vec<String>>) -> PyResult<Self> {
        let mut made = Self {
            iterator: Some(rows.try_iter()?.unbind()),
            part: None,
            names: Vec::new(),
            keys: Vec::new(),
            columns: HashMap::new(),
            is_fixed: names.is_some(),
            shapes: HashMap::new(),
        };
        for name in names.into_iter().flatten() {
            made.add_column(&PyString::new(rows.py(), &name), name);
        }
        Ok(made)
    }

    fn fill(&mut self, py: Python<'_>, batch: &mut ValueBatch) -> PyResult<()> {
        let mut values = Vec::new();
        while batch.rows() < BATCH_ROWS_MAX && batch.bytes() < BATCH_BYTES {
            if let Some(part) = self.part.take() {
                self.part = part.fill(py, self, batch)?;
                continue;
            }
            let Some(iterator) = &self.iterator else { break };
            ending::look(py);
            let Some(row) = iterator.bind(py).clone().next() else {
                self.iterator = None;
                break;
            };
            let row = row?;
            let known = self.names.len();
            match self.take(&row, &mut values).and_then(|()| self.put(py, &mut values, batch)) {
                Ok(()) => batch.end_row(),
                Err(RowHalt::Failed(error)) => return Err(error),
                Err(RowHalt::Frame) => self.part = Some(Part::of(&row)?),
                Err(RowHalt::Bad(reason)) => {
                    self.forget_columns_from(known);
                    batch.bad_row(&reason, &shown(&row, &self.names)?);
                }
            }
        }
        Ok(())
    }

    /// Takes the values of a row, in the order of the columns.
    fn take<'py>(
        &mut self,
        row: &Bound<'py, PyAny>,
        values: &mut Vec<Option<Bound<'py, PyAny>>>,
    ) -> Result<(), RowHalt> {
        values.clear();
        if let Ok(dict) = row.cast_exact::<PyDict>() {
            return self.take_dict(dict, values);
        }
        if row.is_exact_instance_of::<PyTuple>() {
            return self.take_positions(row, values);
        }
        let shape = self.shape_of(row)?;
        match &*shape {
            Shape::Frame => Err(RowHalt::Frame),
            Shape::Positions => self.take_positions(row, values),
            Shape::Dict => self.take_dict(row.cast().map_err(PyErr::from)?, values),
            Shape::Mapping(to_dict) => {
                let dict = to_dict.bind(row.py()).call1((row,))?;
                self.take_dict(dict.cast().map_err(PyErr::from)?, values)
            }
            Shape::Fields(names, get) => {
                let fields = match get {
                    Some(get) => get.bind(row.py()).call1((row,))?,
                    None => row.clone(),
                };
                self.take_fields(names, fields.cast().map_err(PyErr::from)?, values)
            }
        }
    }

    fn take_positions<'py>(
        &self,
        row: &Bound<'py, PyAny>,
        values: &mut Vec<Option<Bound<'py, PyAny>>>,
    ) -> Result<(), RowHalt> {
        if self.names.is_empty() {
            let message = "rows without names need the names of their columns";
            return Err(misuse(row.py(), format!("{message}: columns=[…]")).into());
        }
        if let Ok(tuple) = row.cast::<PyTuple>() {
            values.extend(tuple.iter().map(Some));
        } else {
            values.extend(row.cast::<PyList>().map_err(PyErr::from)?.iter().map(Some));
        }
        if values.len() == self.names.len() {
            return Ok(());
        }
        let (found, wanted) = (values.len(), self.names.len());
        Err(RowHalt::Bad(format!("the row has {found} values, and there are {wanted} columns")))
    }

    fn take_dict<'py>(
        &mut self,
        dict: &Bound<'py, PyDict>,
        values: &mut Vec<Option<Bound<'py, PyAny>>>,
    ) -> Result<(), RowHalt> {
        values.resize(self.names.len(), None);
        // No code of Python runs while the dict is looked at, so that it stays as it is.
        with_critical_section(dict, || {
            let mut expected = 0;
            for (key, value) in dict.iter() {
                let column = self.column_of_key(&key, expected)?;
                values.resize(self.names.len(), None);
                values[column] = Some(value);
                expected = column + 1;
            }
            Ok(())
        })
    }

    /// The column of a key, which is most often the one at `expected`.
    fn column_of_key(&mut self, key: &Bound<'_, PyAny>, expected: usize) -> Result<usize, RowHalt> {
        if self.keys.get(expected).is_some_and(|known| known.is(key)) {
            return Ok(expected);
        }
        let Ok(key) = key.cast::<PyString>() else {
            return Err(RowHalt::Bad(format!("a key is no text but {}", key.get_type().name()?)));
        };
        self.column_named(key)
    }

    fn column_named(&mut self, key: &Bound<'_, PyString>) -> Result<usize, RowHalt> {
        let name = key.to_str().map_err(|_| RowHalt::Bad("a key is no UTF-8".to_owned()))?;
        if let Some(column) = self.columns.get(name) {
            return Ok(*column);
        }
        if self.is_fixed {
            return Err(RowHalt::Bad(format!("the key {name:?} is none of the columns")));
        }
        self.add_column(key, name.to_owned());
        Ok(self.names.len() - 1)
    }

    fn take_fields<'py>(
        &mut self,
        names: &[String],
        fields: &Bound<'py, PyTuple>,
        values: &mut Vec<Option<Bound<'py, PyAny>>>,
    ) -> Result<(), RowHalt> {
        for (name, value) in names.iter().zip(fields.iter()) {
            let column = match self.columns.get(name) {
                Some(column) => *column,
                None => self.column_named(&PyString::new(fields.py(), name))?,
            };
            values.resize(self.names.len(), None);
            values[column] = Some(value);
        }
        Ok(())
    }

    /// For each column the place of the frame's column of its name. New ones are added.
    fn places_of<'n>(
        &mut self,
        py: Python<'_>,
        names: impl Iterator<Item = &'n str>,
    ) -> PyResult<Vec<Option<usize>>> {
        let mut places = vec![None; self.names.len()];
        for (place, name) in names.enumerate() {
            let column = match self.column_named(&PyString::new(py, name)) {
                Ok(column) => column,
                Err(RowHalt::Failed(error)) => return Err(error),
                Err(_) => {
                    let text =
                        format!("the frame has the column {name:?}, which is none of `columns`");
                    return Err(misuse(py, text));
                }
            };
            places.resize(self.names.len(), None);
            if places[column].replace(place).is_some() {
                return Err(misuse(py, format!("two columns of the frame have the name {name:?}")));
            }
        }
        Ok(places)
    }

    fn add_column(&mut self, key: &Bound<'_, PyString>, name: String) {
        self.columns.insert(name.clone(), self.names.len());
        self.names.push(name);
        self.keys.push(key.clone().unbind());
    }

    fn forget_columns_from(&mut self, known: usize) {
        for name in self.names.drain(known..) {
            self.columns.remove(&name);
        }
        self.keys.truncate(known);
    }

    /// The shape of a row, from its type.
    fn shape_of(&mut self, row: &Bound<'_, PyAny>) -> Result<Arc<Shape>, RowHalt> {
        let of = row.get_type();
        let address = of.as_ptr() as usize;
        if let Some((_, shape)) = self.shapes.get(&address) {
            return Ok(Arc::clone(shape));
        }
        let shape = Arc::new(self.ask_shape(row).map_err(|error| row_halt(row.py(), error))?);
        // The type is kept, so that no other one gets its address.
        self.shapes.insert(address, (of.unbind(), Arc::clone(&shape)));
        Ok(shape)
    }

    fn ask_shape(&self, row: &Bound<'_, PyAny>) -> PyResult<Shape> {
        static SHAPE_OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let shape_of = SHAPE_OF.import(row.py(), "leafpress._rows", "shape_of")?;
        let asked = shape_of.call1((row, self.is_fixed))?;
        let (kind, names, get): (String, Vec<String>, Option<Py<PyAny>>) = asked.extract()?;
        Ok(match (kind.as_str(), get) {
            ("fields", get) => Shape::Fields(names, get),
            ("frame", _) => Shape::Frame,
            ("dict", None) => Shape::Dict,
            ("dict", Some(get)) => Shape::Mapping(get),
            _ => Shape::Positions,
        })
    }

    /// Puts the values of a row in the batch.
    fn put(
        &self,
        py: Python<'_>,
        values: &mut Vec<Option<Bound<'_, PyAny>>>,
        batch: &mut ValueBatch,
    ) -> Result<(), RowHalt> {
        for (column, value) in values.drain(..).enumerate() {
            match value {
                None => batch.put(Value::Null),
                Some(value) => put_value(&value, batch)
                    .map_err(|error| of_value(py, &self.names[column], error))?,
            }
        }
        Ok(())
    }
}

/// The row as a person would look it up, with the names of its values.
fn shown(row: &Bound<'_, PyAny>, names: &[String]) -> PyResult<String> {
    static SHOWN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let shown = SHOWN.import(row.py(), "leafpress._rows", "row_as_json")?;
    shown.call1((row, names.to_vec()))?.extract()
}

/// A frame among the rows, of which some rows may be taken.
enum Part {
    /// Record batches, with the columns of the present one and the next row in it.
    Batches { batches: Exported, columns: Vec<ArrowColumn>, rows: usize, next: usize },
    /// Tuples, and the names of their values.
    Tuples(Py<PyIterator>, Vec<String>),
}

impl Part {
    fn of(frame: &Bound<'_, PyAny>) -> PyResult<Self> {
        static FRAME_OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let part =
            FRAME_OF.import(frame.py(), "leafpress._sources", "frame_of")?.call1((frame,))?;
        let given = part.getattr("given")?;
        Ok(match part.getattr("columns")?.extract::<Option<Vec<String>>>()? {
            Some(names) => Self::Tuples(given.try_iter()?.unbind(), names),
            None => Self::Batches {
                batches: batches_of(&given)?,
                columns: Vec::new(),
                rows: 0,
                next: 0,
            },
        })
    }

    /// Puts some rows in a batch; returns the part unless these were its last ones.
    fn fill(
        mut self,
        py: Python<'_>,
        known: &mut Rows,
        batch: &mut ValueBatch,
    ) -> PyResult<Option<Self>> {
        let is_whole = match &mut self {
            Self::Tuples(tuples, names) => fill_from_tuples(tuples.bind(py), names, known, batch)?,
            Self::Batches { batches, columns, rows, next } => {
                // A frame without rows has its columns too.
                let schema = batches.schema();
                let names = schema.fields().iter().map(|field| field.name().as_str());
                let places = known.places_of(py, names)?;
                if next == rows {
                    let given = py.detach(|| batches.next()).transpose();
                    let Some(given) = given.map_err(|error| of_frame(py, error.to_string()))?
                    else {
                        return Ok(None);
                    };
                    let made = given.columns().iter().map(ArrowColumn::new);
                    *columns = made.collect::<Result<_, _>>().map_err(|it| of_frame(py, it))?;
                    (*rows, *next) = (given.num_rows(), 0);
                }
                while next < rows && batch.rows() < BATCH_ROWS_MAX && batch.bytes() < BATCH_BYTES {
                    for place in &places {
                        batch.put(place.map_or(Value::Null, |place| columns[place].value(*next)));
                    }
                    batch.end_row();
                    *next += 1;
                }
                false
            }
        };
        Ok((!is_whole).then_some(self))
    }
}

/// Puts some tuples in a batch; true at their end.
fn fill_from_tuples(
    tuples: &Bound<'_, PyIterator>,
    names: &[String],
    known: &mut Rows,
    batch: &mut ValueBatch,
) -> PyResult<bool> {
    let py = tuples.py();
    known.places_of(py, names.iter().map(String::as_str))?;
    let (mut tuples, mut values) = (tuples.clone(), Vec::new());
    while batch.rows() < BATCH_ROWS_MAX && batch.bytes() < BATCH_BYTES {
        ending::look(py);
        let Some(tuple) = tuples.next().transpose()? else { return Ok(true) };
        values.clear();
        let taken = known.take_fields(names, tuple.cast()?, &mut values);
        match taken.and_then(|()| known.put(py, &mut values, batch)) {
            Ok(()) => batch.end_row(),
            Err(RowHalt::Failed(error)) => return Err(error),
            Err(RowHalt::Frame) => {}
            Err(RowHalt::Bad(reason)) => batch.bad_row(&reason, &shown(&tuple, names)?),
        }
    }
    Ok(false)
}

/// The exception for a frame that cannot be read.
fn of_frame(py: Python<'_>, reason: String) -> PyErr {
    crate::errors::exception(py, &leafpress::Error::input("<frame>", reason))
}

fn row_halt(py: Python<'_>, error: PyErr) -> RowHalt {
    if error.is_instance_of::<PyException>(py) {
        RowHalt::Bad(error.value(py).to_string())
    } else {
        RowHalt::Failed(error)
    }
}

/// Puts a value in the batch.
fn put_value(object: &Bound<'_, PyAny>, batch: &mut ValueBatch) -> PyResult<()> {
    if put_plain(object, batch)? {
        return Ok(());
    }
    let adapted = crate::values::adapted(object)?;
    if put_plain(&adapted, batch)? { Ok(()) } else { Err(crate::values::not_plain(object.py())) }
}

/// Puts a value of a type that SQLite has; false for another type.
fn put_plain(object: &Bound<'_, PyAny>, batch: &mut ValueBatch) -> PyResult<bool> {
    if object.is_none() {
        batch.put(Value::Null);
    } else if let Ok(text) = object.cast_exact::<PyString>() {
        batch.put(Value::Text(text.to_str()?.as_bytes()));
    } else if let Ok(integer) = object.cast_exact::<PyInt>() {
        batch.put(Value::Integer(crate::values::integer(integer)?));
    } else if let Ok(real) = object.cast_exact::<PyFloat>() {
        batch.put(Value::Real(real.value()));
    } else if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        batch.put(Value::Blob(bytes.as_bytes()));
    } else if let Ok(boolean) = object.cast::<PyBool>() {
        batch.put(Value::Integer(boolean.is_true().into()));
    } else if let Ok(bytes) = object.cast_exact::<PyByteArray>() {
        batch.put(Value::Blob(&bytes.to_vec()));
    } else {
        return Ok(false);
    }
    Ok(true)
}
