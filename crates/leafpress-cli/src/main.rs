//! The executable `leafpress`: the command of the library beside it.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    leafpress_cli::run(&arguments, leafpress_cli::as_flag).into()
}
