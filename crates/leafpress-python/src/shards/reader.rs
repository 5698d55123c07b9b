//! A reader of shards, behind `leafpress.Shards`.
//!
//! Must never: hold the interpreter while SQLite reads.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use leafpress::rusqlite::types::Value as Owned;
use leafpress::vfs::fork::OfProcess;
use leafpress::vfs::locks;
use leafpress::vfs::sync::lock;
use leafpress::writer::{Executed, Parameters};
use leafpress_shards::{Cache, Key, Reader, Shards};
use pyo3::prelude::*;

use crate::errors::{Raise, misuse};
use crate::json::as_json;
use crate::values::value_of;
use crate::writer::{all_rows, parameters_of, result, signal_look, sql_of, take_signal, wait};

type Rows = (Vec<String>, Vec<Vec<Owned>>);

/// A reader of the run that was current, until it is closed.
#[pyclass(frozen, module = "leafpress._leafpress")]
pub struct NativeShards {
    reader: OfProcess<Mutex<Option<Arc<Reader>>>>,
}

impl NativeShards {
    /// The reader, in the process that opened it.
    fn reader(&self, py: Python<'_>) -> PyResult<&Mutex<Option<Arc<Reader>>>> {
        self.reader.get().map_err(leafpress::Error::from).raise(py)
    }

    /// The reader, if it is not closed.
    fn opened(&self, py: Python<'_>) -> PyResult<Arc<Reader>> {
        let reader = lock(self.reader(py)?).clone();
        reader.ok_or_else(|| misuse(py, "the shards are closed"))
    }

    fn read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Reader) -> leafpress::Result<T> + Send,
    ) -> PyResult<T> {
        let reader = self.opened(py)?;
        let read = py.detach(|| work(&reader));
        match take_signal() {
            Some(signal) => Err(signal),
            None => read.raise(py),
        }
    }
}

thread_local! {
    /// The stop of the scan that this thread reads parts for. Signals reach the main thread alone, which
    /// waits for the scan.
    static STOP: RefCell<Arc<AtomicBool>> = RefCell::default();
}

/// A function that tells reads of this thread to stop: for a signal, or with the scan that they are of.
fn stop_look() -> impl FnMut() -> bool + Clone + Send + Sync + 'static {
    let mut signal = signal_look();
    move || STOP.with_borrow(|stop| stop.load(Ordering::Relaxed)) || signal()
}

#[cfg(feature = "object-store")]
fn by_ranges(shards: &Shards) -> leafpress::Result<Reader> {
    shards.ranges_reader(leafpress_shards::remote::RemoteOptions::default())
}

/// Without object stores all parts are in a folder, and are read where they are.
#[cfg(not(feature = "object-store"))]
fn by_ranges(shards: &Shards) -> leafpress::Result<Reader> {
    shards.reader()
}

fn result_of(py: Python<'_>, (columns, rows): Rows) -> PyResult<Py<PyAny>> {
    result(py, columns, rows, Executed::new(0, 0))
}

#[pymethods]
impl NativeShards {
    #[new]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        cache: Option<(PathBuf, u64)>,
        ranges: bool,
    ) -> PyResult<Self> {
        let open = || {
            let shards = Shards::at(folder)?;
            let reader = match cache {
                Some((folder, bytes)) => shards.cached_reader(Cache::new(folder, bytes)?)?,
                None if ranges => by_ranges(&shards)?,
                None => shards.reader()?,
            };
            Ok(reader.stop_when(stop_look()))
        };
        // From then on forks are counted.
        locks::ensure();
        let reader = py.detach(open).raise(py)?;
        Ok(Self { reader: OfProcess::new("reader", Mutex::new(Some(Arc::new(reader)))) })
    }

    /// The manifest of the run, as JSON.
    fn manifest(&self, py: Python<'_>) -> PyResult<String> {
        self.read(py, |reader| as_json(reader.manifest()))
    }

    /// The part that has the rows of a key.
    fn part_of(&self, py: Python<'_>, key: Vec<Bound<'_, PyAny>>) -> PyResult<usize> {
        let key = key_of(&key)?;
        self.read(py, |reader| part_of(reader, &key))
    }

    /// The rows of a key, as a `Result`.
    fn get(&self, py: Python<'_>, key: Vec<Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let key = key_of(&key)?;
        let rows = self.read(py, |reader| {
            let part = part_of(reader, &key)?;
            let parameters = Parameters::Positional(key);
            reader.on_part(part, &reader.key_query(), |it| all_rows(it, &parameters))
        })?;
        result_of(py, rows)
    }

    /// The rows of a query on the part of a key, as a `Result`.
    fn query(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
        key: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (parameters, key) = (parameters_of(&sql, parameters)?, key_of(&key)?);
        let rows = self.read(py, |reader| {
            reader.on_part(part_of(reader, &key)?, &sql, |it| all_rows(it, &parameters))
        })?;
        result_of(py, rows)
    }

    /// The rows of a query on all parts, in the order of the parts, as a `Result`.
    fn scan(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = sql_of)] sql: String,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let parameters = parameters_of(&sql, parameters)?;
        let reader = self.opened(py)?;
        let stop = Arc::new(AtomicBool::new(false));
        let its_stop = Arc::clone(&stop);
        let scan = move || {
            reader.each_part(|part| {
                // Before it waits for the part.
                STOP.set(Arc::clone(&its_stop));
                reader.on_part(part, &sql, |it| all_rows(it, &parameters))
            })
        };
        let stop_all = || {
            stop.store(true, Ordering::Relaxed);
            true
        };
        let mut parts = wait::apart(py, scan, stop_all)?.raise(py)?.into_iter();
        let (columns, mut rows) = parts.next().unwrap_or_default();
        parts.for_each(|(_, more)| rows.extend(more));
        result_of(py, (columns, rows))
    }

    /// Closes the connections.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let reader = lock(self.reader(py)?).take();
        py.detach(|| drop(reader));
        Ok(())
    }
}

fn key_of(key: &[Bound<'_, PyAny>]) -> PyResult<Vec<Owned>> {
    key.iter().map(value_of).collect()
}

fn part_of(reader: &Reader, key: &[Owned]) -> leafpress::Result<usize> {
    let key: Vec<Key> = key.iter().map(Key::from).collect();
    let values: Vec<_> = key.iter().map(Key::value).collect();
    reader.part_of(&values)
}
