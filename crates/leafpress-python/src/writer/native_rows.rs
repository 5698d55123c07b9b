//! Rows for `insert_many`, of frames and of iterables, behind `leafpress._insert`.
//!
//! Must never: forget that a text was an integer beyond 64 bits, which a column of numbers would
//! make a real.

use std::collections::HashMap;
use std::sync::Mutex;

use leafpress::rusqlite::types::Value;
use leafpress::vfs::sync::lock;
use pyo3::prelude::*;

use super::parameters::columns_of;
use super::reader::{signal_look, take_signal};
use super::rows::rows_of;
use crate::arrow::FrameRows;
use crate::ending;

/// Rows in memory, until they are taken.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeRows(Mutex<Given>);

#[derive(Default)]
struct Given {
    rows: Vec<Vec<Value>>,
    /// For the place of each column with an integer beyond 64 bits, the number of its row from 1.
    large: HashMap<usize, usize>,
}

impl Given {
    fn add(&mut self, rows: Vec<Vec<Value>>, large: HashMap<usize, usize>) {
        for (place, row) in large {
            self.large.entry(place).or_insert(self.rows.len() + row + 1);
        }
        self.rows.extend(rows);
    }
}

impl NativeRows {
    /// The rows, once.
    pub fn take(&self) -> Vec<Vec<Value>> {
        std::mem::take(&mut lock(&self.0).rows)
    }
}

#[pymethods]
impl NativeRows {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    /// Adds the rows of an iterable of sequences, for these columns.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 gives it so")]
    fn add(
        &self,
        rows: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = columns_of)] columns: Vec<String>,
    ) -> PyResult<()> {
        let before = lock(&self.0).rows.len();
        let (rows, large) = rows_of(rows, before, &columns)?;
        lock(&self.0).add(rows, large);
        Ok(())
    }

    /// Adds the rows of a frame. `places_of` gives the places of the wanted columns for the names of
    /// its columns.
    fn add_frame(&self, frame: &Bound<'_, PyAny>, places_of: &Bound<'_, PyAny>) -> PyResult<()> {
        let read = FrameRows::of(frame, signal_look());
        if let Some(signal) = take_signal() {
            return Err(signal);
        }
        let FrameRows { names, mut rows, mut large } = read?;
        let is_all = |places: &[usize]| places.iter().copied().eq(0..names.len());
        let places = ending::inside(frame.py(), || places_of.call1((names.clone(),)))?;
        let places: Vec<usize> = places.extract()?;
        if !is_all(&places) {
            for row in &mut rows {
                *row = places.iter().filter_map(|place| row.get(*place).cloned()).collect();
            }
            let at = places.iter().enumerate();
            large = at.filter_map(|(at, place)| large.get(place).map(|row| (at, *row))).collect();
        }
        lock(&self.0).add(rows, large);
        Ok(())
    }

    /// Places of columns with an integer beyond 64 bits, each with the number of its row from 1.
    #[getter]
    fn large(&self) -> HashMap<usize, usize> {
        lock(&self.0).large.clone()
    }
}
