//! Statements of files and of standard input.
//!
//! Must never: change a byte of them, since SQLite's errors point into them.

use std::io::Read;
use std::path::Path;

use leafpress::load::{CancelToken, Pipe};
use leafpress::script::{Statement, split};
use leafpress::{Error, Result, path_text};

const NOTHING_RUN: &str = "nothing was run";

/// The statements of a file. If it is a pipe, it is awaited until the token is cancelled.
///
/// # Errors
/// When it cannot be read or is not UTF-8, and those of [`split`].
pub fn of_file(path: &Path, token: &CancelToken) -> Result<Vec<Statement>> {
    let mut bytes = Vec::new();
    let read = Pipe::open(path, token).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|source| {
        Error::io("read", path, source).on_disk(NOTHING_RUN).to_do("check the name")
    })?;
    of_bytes(&path_text(path), bytes)
}

/// The statements of a reader, which is read to its end.
///
/// # Errors
/// As [`of_file`].
pub fn of_reader(source: &str, mut reader: impl Read) -> Result<Vec<Statement>> {
    let mut bytes = Vec::new();
    reader
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("read", Path::new(source), error).on_disk(NOTHING_RUN))?;
    of_bytes(source, bytes)
}

fn of_bytes(source: &str, bytes: Vec<u8>) -> Result<Vec<Statement>> {
    match String::from_utf8(bytes) {
        Ok(text) => split(source, text.strip_prefix('\u{feff}').unwrap_or(&text)),
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.split(|byte| *byte == b'\n').count();
            Err(Error::input(source, format!("line {line} is not UTF-8"))
                .on_disk(NOTHING_RUN)
                .to_do("SQL is read as UTF-8: convert the file"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_must_be_utf_8() {
        let error = of_reader("x.sql", &b"SELECT 1;\nSELECT '\xff'"[..]).unwrap_err();
        assert!(error.to_string().contains("x.sql: line 2 is not UTF-8"), "{error}");
        let statements = of_reader("x.sql", "\u{feff}SELECT 1".as_bytes()).unwrap();
        assert_eq!(statements[0].sql, "SELECT 1");
    }
}
