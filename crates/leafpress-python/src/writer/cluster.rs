//! A writer of a cluster of rqlite, where the path is its URL.
//!
//! Must never: pass over an option that a cluster does not have.

use std::path::PathBuf;

use leafpress::Writer;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Raise, exception};

/// Calls of one group at most.
const CAPACITY: usize = 512;

/// A writer of the cluster with this URL.
///
/// # Errors
/// The URL cannot be read, or an option has no meaning for a cluster.
pub fn open(py: Python<'_>, url: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Writer> {
    let mut capacity = CAPACITY;
    for (name, value) in options.into_iter().flatten() {
        let name: String = name.extract()?;
        match &*name {
            _ if value.is_none() => {}
            "queue_capacity" => capacity = super::options::from_1(&name, &value)?,
            _ => {
                let reason = format!("a Writer of a cluster of rqlite has no option '{name}'");
                let error = leafpress::Error::misuse(reason);
                return Err(exception(
                    py,
                    &error.to_do("leave it out: queue_capacity alone is one"),
                ));
            }
        }
    }
    writer(url, capacity).raise(py)
}

#[cfg(feature = "rqlite")]
fn writer(url: &str, capacity: usize) -> leafpress::Result<Writer> {
    let target = leafpress_rqlite::RqliteTarget::new(url.parse()?);
    Writer::with_target(target, capacity)
}

#[cfg(not(feature = "rqlite"))]
fn writer(url: &str, _: usize) -> leafpress::Result<Writer> {
    Err(leafpress_cli::unreachable(url))
}

/// The URL of a cluster without its credentials; `None` for the path of a database.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "as pyo3 gives them")]
pub fn cluster_shown(database: PathBuf) -> Option<String> {
    leafpress_cli::url_of(&database).map(leafpress_cli::shown)
}

/// The error of many rows of one statement, which are a closure.
pub fn no_many(py: Python<'_>) -> PyErr {
    let reason =
        "executemany on a cluster of rqlite would need a transaction of several statements";
    let error = leafpress::Error::unsupported(reason).on_disk("nothing of this call");
    exception(
        py,
        &error.to_do("use insert_many, or submit each row: calls that wait share a request"),
    )
}

/// The error for a queue, which reaches no cluster from Python.
pub fn no_queue(py: Python<'_>) -> PyErr {
    let reason = "a Queue of Python reaches no cluster of rqlite: the Writer and load do";
    let error = leafpress::Error::unsupported(reason).on_disk("nothing was changed");
    exception(py, &error.to_do("use the command, leafpress queue, or Rust"))
}
