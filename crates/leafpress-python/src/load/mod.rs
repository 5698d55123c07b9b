//! `load`: files, streams, frames and rows of Python into a table.
//!
//! | module | is |
//! |---|---|
//! | `options` | keywords to a `Loader` |
//! | `cluster` | a cluster of rqlite in place of the database |
//! | `caller` | the caller's thread, which runs its code while others load |
//! | `rows` | dicts, tuples and objects as rows of values |
//!
//! Must never: hold the interpreter while pages are pressed.

mod caller;
#[cfg(feature = "rqlite")]
mod cluster;
mod options;
mod rows;

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use leafpress::load::{CancelToken, DryRun, Loader, Progress, Report, endings};
use leafpress::vfs::sync::lock;
use leafpress_cli::Outcome;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};

use self::caller::{Caller, serve};
use self::options::Options;
pub use self::options::layout_of;
use self::rows::{PythonRows, Rows};
use crate::arrow::{Exported, batches_of};
use crate::ending;
use crate::errors::{Raise, exception, misuse, of_option};
use crate::json::as_json;

/// The input of a load.
enum Input {
    Files(Vec<PathBuf>),
    Bytes(PyBackedBytes),
    /// The method that reads.
    Stream(Py<PyAny>),
    /// An object that exports record batches, and whether it does so again.
    Arrow(Py<PyAny>, bool),
    Rows(Box<Rows>),
}

/// Returns true if a file of this name is an input by its name, and no CSV.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as pyo3 gives them")]
pub fn is_other_than_csv(name: PathBuf) -> bool {
    name.to_str().is_some_and(endings::is_other_than_csv)
}

/// Loads an input, or only looks at it. Returns the report as JSON.
///
/// # Errors
/// The library's error, or the exception of the caller's own code.
#[pyfunction]
#[pyo3(signature = (database, kind, name, source, options, dry_run, progress))]
#[expect(clippy::too_many_arguments, reason = "one call of one Python function")]
#[expect(clippy::needless_pass_by_value, reason = "as pyo3 gives them")]
pub fn load(
    py: Python<'_>,
    database: PathBuf,
    kind: &str,
    name: &str,
    source: Bound<'_, PyAny>,
    options: Bound<'_, PyAny>,
    dry_run: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options: Options = options.extract().map_err(|error| of_option(py, error))?;
    let input = ending::inside(py, || input_of(kind, &source, &options))?;
    #[cfg(feature = "rqlite")]
    let first = first_name(name, &input);
    let token = CancelToken::new();
    let name = name.to_owned();
    let (outcome, fault) = serve(py, &token, |caller| {
        let told = progress.map(|callback| Told::new(caller.clone(), callback));
        let work = |loader: Loader| {
            let loader = match told.clone() {
                Some(told) => loader.progress(move |progress: &Progress| {
                    let Progress { bytes_read, bytes_total, rows, stage, .. } = *progress;
                    told.tell((stage, rows, bytes_read, bytes_total));
                }),
                None => loader,
            };
            if dry_run {
                tried(loader, &name, input, &caller).map(Outcome::Dry)
            } else {
                loaded(loader, &name, input, &caller).map(Outcome::Loaded)
            }
        };
        let outcome = match leafpress_cli::url_of(&database) {
            None => options.loader(database, &token).and_then(work),
            #[cfg(not(feature = "rqlite"))]
            Some(url) => Err(leafpress_cli::unreachable(url)),
            #[cfg(feature = "rqlite")]
            Some(url) => {
                let mut tell = |rows| {
                    if let Some(told) = &told {
                        told.tell(("sending", rows, 0, None));
                    }
                };
                let of_table = first.as_deref();
                cluster::run((url, &options), of_table, &token, &mut tell, work)
            }
        };
        match outcome? {
            Outcome::Loaded(report) => as_json(&report),
            Outcome::Dry(dry) => as_json(&dry),
        }
    })?;
    match fault {
        Some(fault) => Err(with_note(py, fault, &outcome)),
        None => outcome.raise(py),
    }
}

fn input_of(kind: &str, source: &Bound<'_, PyAny>, options: &Options) -> PyResult<Input> {
    Ok(match kind {
        "files" => Input::Files(files_of(source)?),
        "bytes" => Input::Bytes(source.extract()?),
        "stream" => Input::Stream(source.clone().unbind()),
        "frame" => Input::Arrow(source.clone().unbind(), true),
        "batches" => Input::Arrow(source.clone().unbind(), false),
        "rows" => Input::Rows(Box::new(Rows::new(source, options.columns())?)),
        other => return Err(misuse(source.py(), format!("there is no kind of input '{other}'"))),
    })
}

/// The files, with each pattern that names no file replaced by those that fit it, as the command does it.
fn files_of(paths: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    leafpress_cli::files_of(&paths.extract::<Vec<PathBuf>>()?).map_err(|reason| {
        let error = leafpress::Error::misuse(reason).to_do("check the pattern and the folder");
        exception(paths.py(), &error)
    })
}

/// The name of the input that may name the table.
#[cfg(feature = "rqlite")]
fn first_name(name: &str, input: &Input) -> Option<String> {
    match input {
        Input::Files(paths) => paths.first().map(leafpress::path_text),
        _ => Some(name.to_owned()),
    }
}

/// Stage, rows, bytes that were read and of all.
type Numbers = (&'static str, u64, u64, Option<u64>);

/// The caller's callback for progress, which the caller's thread runs. A slow callback gets the newest only.
#[derive(Clone)]
struct Told {
    caller: Caller,
    callback: Arc<Py<PyAny>>,
    newest: Arc<Mutex<Option<Numbers>>>,
}

impl Told {
    fn new(caller: Caller, callback: Py<PyAny>) -> Self {
        Self { caller, callback: Arc::new(callback), newest: Arc::default() }
    }

    fn tell(&self, numbers: Numbers) {
        if lock(&self.newest).replace(numbers).is_some() {
            // The callback is still to be called.
            return;
        }
        let (callback, newest) = (Arc::clone(&self.callback), Arc::clone(&self.newest));
        self.caller.tell(move |py| {
            let Some(progress) = lock(&newest).take() else { return Ok(()) };
            callback.call1(py, progress).map(drop)
        });
    }
}

fn loaded(loader: Loader, name: &str, input: Input, caller: &Caller) -> leafpress::Result<Report> {
    match input {
        Input::Files(paths) => loader.load_files(&paths),
        Input::Bytes(bytes) => loader.load_reader(name, &bytes[..]),
        Input::Stream(read) => loader.load_reader(name, Stream::new(caller, read)),
        Input::Arrow(object, true) => {
            loader.load_record_batch_source(name, || exported(caller, &object))
        }
        Input::Arrow(object, false) => exported(caller, &object)
            .map_err(leafpress::Error::aborted)
            .and_then(|batches| loader.load_record_batches(name, Fetched::new(caller, batches))),
        Input::Rows(rows) => loader.load_values(name, PythonRows::new(caller.clone(), *rows)),
    }
}

fn tried(loader: Loader, name: &str, input: Input, caller: &Caller) -> leafpress::Result<DryRun> {
    match input {
        Input::Files(paths) => loader.dry_run_files(&paths),
        Input::Bytes(bytes) => loader.dry_run_reader(name, &bytes[..]),
        Input::Stream(read) => loader.dry_run_reader(name, Stream::new(caller, read)),
        Input::Arrow(object, true) => {
            loader.dry_run_record_batch_source(name, || exported(caller, &object))
        }
        Input::Arrow(object, false) => exported(caller, &object)
            .map_err(leafpress::Error::aborted)
            .and_then(|batches| loader.dry_run_record_batches(name, Fetched::new(caller, batches))),
        Input::Rows(rows) => loader.dry_run_values(name, PythonRows::new(caller.clone(), *rows)),
    }
}

/// The record batches of an object, exported by the caller's thread.
fn exported(caller: &Caller, object: &Py<PyAny>) -> Result<Exported, caller::Gone> {
    let object = ending::attach(|py| object.clone_ref(py));
    caller.ask(move |py| batches_of(object.bind(py)))
}

/// Record batches that the caller's thread fetches, as code of Python may make them.
struct Fetched {
    caller: Caller,
    schema: SchemaRef,
    batches: Arc<Mutex<Exported>>,
}

impl Fetched {
    fn new(caller: &Caller, batches: Exported) -> Self {
        let (caller, schema) = (caller.clone(), batches.schema());
        Self { caller, schema, batches: Arc::new(Mutex::new(batches)) }
    }
}

impl Iterator for Fetched {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = Arc::clone(&self.batches);
        let next = self.caller.ask(move |py| Ok(py.detach(|| lock(&batches).next())));
        next.unwrap_or_else(|gone| Some(Err(ArrowError::ExternalError(Box::new(gone)))))
    }
}

impl RecordBatchReader for Fetched {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// The exception of the caller's own code, with a note on what is on disk.
fn with_note(py: Python<'_>, fault: PyErr, loaded: &leafpress::Result<String>) -> PyErr {
    let note = match loaded {
        Ok(_) => "leafpress: the load was complete before that, and stays".to_owned(),
        Err(error) => match error.state_on_disk() {
            Some(state) => format!("leafpress: {state}"),
            None => return fault,
        },
    };
    // Python 3.10 has no notes.
    let _ = fault.value(py).call_method1("add_note", (note,));
    fault
}

/// A file of Python, read by the caller's thread.
struct Stream {
    caller: Caller,
    read: Py<PyAny>,
    /// Bytes that were read and not yet taken, from `taken` on.
    bytes: Vec<u8>,
    taken: usize,
}

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

impl Stream {
    fn new(caller: &Caller, read: Py<PyAny>) -> Self {
        Self { caller: caller.clone(), read, bytes: Vec::new(), taken: 0 }
    }

    /// Reads on; no bytes at the end.
    fn read_on(&mut self) -> io::Result<()> {
        let read = ending::attach(|py| self.read.clone_ref(py));
        let bytes = self.caller.ask(move |py| {
            let read = read.call1(py, (READ_BYTES,))?;
            let read = read.bind(py);
            if let Ok(text) = read.cast::<PyString>() {
                return Ok(text.to_str()?.as_bytes().to_vec());
            }
            if let Ok(bytes) = read.cast::<PyBytes>() {
                return Ok(bytes.as_bytes().to_vec());
            }
            let found = read.get_type().to_string();
            Err(misuse(py, format!("the file gives neither bytes nor text but {found}")))
        });
        self.bytes = bytes.map_err(io::Error::other)?;
        self.taken = 0;
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.bytes.len() {
            self.read_on()?;
        }
        let left = &self.bytes[self.taken..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.taken += count;
        Ok(count)
    }
}
