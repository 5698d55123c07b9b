//! The command `leafpress`, for `python -m leafpress`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command to its end, and gives its exit status. `again`: the program and first arguments
/// that start the command in a process of its own.
///
/// For a process that is nothing but the command: it sets handlers of signals.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>, again: Vec<OsString>) -> u8 {
    py.detach(|| {
        if let [program, first_arguments @ ..] = &again[..] {
            leafpress_cli::start_by(program, first_arguments);
        }
        leafpress_cli::run(&arguments)
    })
}
