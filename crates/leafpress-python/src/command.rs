//! The command `leafpress`, for `python -m leafpress` and for the functions that run it.

use std::ffi::OsString;

use pyo3::prelude::*;

use crate::spelling;

/// Runs the command to its end, and gives its exit status. `again`: the program and first arguments
/// that start the command in a process of its own. `as_keywords`: advice names keywords of Python's
/// functions, and not flags.
///
/// For a process that is nothing but the command: it sets handlers of signals.
#[pyfunction]
pub fn main(
    py: Python<'_>,
    arguments: Vec<OsString>,
    again: Vec<OsString>,
    as_keywords: bool,
) -> u8 {
    py.detach(move || {
        if let [program, first_arguments @ ..] = &again[..] {
            leafpress_cli::start_by(program, first_arguments);
        }
        let spelling = if as_keywords { spelling::as_keyword } else { leafpress_cli::as_flag };
        leafpress_cli::run(&arguments, spelling)
    })
}
