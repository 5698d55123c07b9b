//! Flags for inputs and columns to a [`Loader`]: what the commands share that load files.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use leafpress::load::{CancelToken, CsvOptions, InputFormat, Loader, OnError, Ragged, Report};
use leafpress::{Error, ErrorKind};

use crate::flags::{
    BadRowFlags, ColumnFlags, FormatFlag, InputFlags, NamedType, Names, OnErrorFlag, RaggedFlag,
};
use crate::output;
use crate::stdin::{InterruptibleStdin, STDIN_NAME};

pub mod check;
pub mod paths;

/// The loader with the flags for columns.
pub fn with_columns(mut loader: Loader, columns: &ColumnFlags) -> Loader {
    loader = loader.all_text(columns.all_text).exact(columns.exact);
    for (old, new) in &columns.rename {
        loader = loader.rename(old, new);
    }
    for column in all_names(&columns.select) {
        loader = loader.select(column);
    }
    for column in all_names(&columns.drop) {
        loader = loader.drop_column(column);
    }
    for column in all_names(&columns.not_null) {
        loader = loader.not_null(column);
    }
    for (column, named_type) in &columns.types {
        loader = match *named_type {
            NamedType::Column(column_type) => loader.column_type(column, column_type),
            NamedType::Timestamp(form) => loader.timestamp(column, form),
            NamedType::Boolean => loader.boolean(column),
            NamedType::Exact => loader.exact_column(column),
        };
    }
    loader
}

/// The loader with the flags for the input.
pub fn with_input(mut loader: Loader, input: &InputFlags) -> Loader {
    loader = loader.csv(csv_options(input)).trim(input.trim).empty_null(input.empty_null);
    for marker in &input.null {
        loader = loader.null_marker(marker);
    }
    match input.format {
        Some(FormatFlag::Json) => loader.format(InputFormat::Json),
        Some(FormatFlag::Csv | FormatFlag::Tsv) => loader.format(InputFormat::Csv),
        Some(FormatFlag::Pgtext) => loader.format(InputFormat::PostgresText),
        Some(FormatFlag::Mysqltext) => loader.format(InputFormat::MysqlText),
        None if input.tsv => loader.format(InputFormat::Csv),
        None => loader,
    }
}

fn csv_options(input: &InputFlags) -> CsvOptions {
    let ragged = match input.ragged {
        None | Some(RaggedFlag::Reject) => Ragged::Reject,
        Some(RaggedFlag::Pad) => Ragged::Pad,
        Some(RaggedFlag::Truncate) => Ragged::Truncate,
    };
    let mut csv = CsvOptions::default()
        .delimiter(if input.is_tsv() { Some(b'\t') } else { input.delimiter })
        .quote(input.quote_byte())
        .escape(input.escape)
        .header(!input.no_header)
        .columns(input.columns.as_ref().map(|Names(names)| names.clone()))
        .ragged(ragged)
        .skip_lines(input.skip_lines)
        .comment(input.comment);
    csv.encoding.clone_from(&input.encoding);
    if let Some(bytes) = input.max_row_bytes {
        csv = csv.max_record_bytes(bytes);
    }
    csv
}

/// Treatment of bad rows.
pub fn on_error(flags: &BadRowFlags) -> OnError {
    match flags.on_error {
        OnErrorFlag::Stop => OnError::Stop,
        OnErrorFlag::Skip => {
            OnError::Skip { rejects: flags.rejects.clone(), max_rejects: flags.max_rejects }
        }
    }
}

/// Loads the inputs, or standard input for `-`.
pub fn load(loader: Loader, inputs: &[PathBuf], token: &CancelToken) -> Result<Report, Error> {
    match inputs {
        [input] if is_stdin(input) => loader.load_reader(STDIN_NAME, stdin(token)?),
        inputs => loader.load_files(inputs),
    }
}

/// Standard input, which ctrl-C ends.
pub fn stdin(token: &CancelToken) -> Result<InterruptibleStdin, Error> {
    if io::stdin().is_terminal() && output::stderr_is_terminal() {
        output::print_message("reading rows from the terminal; end them with ctrl-D\n");
    }
    InterruptibleStdin::new(token.clone())
        .map_err(|source| Error::io("read", Path::new(STDIN_NAME), source))
}

/// Standard input that is left because of ctrl-C fails as a read, which is
/// not what the user should hear.
pub fn as_stop(error: Error, token: &CancelToken) -> Error {
    let is_read = matches!(error.kind(), ErrorKind::Io { .. } | ErrorKind::Input { .. });
    if is_read && token.is_cancelled() { ErrorKind::Cancelled.into() } else { error }
}

/// Returns true if the path stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// All names of a flag that may be repeated.
pub fn all_names(lists: &[Names]) -> impl Iterator<Item = &String> {
    lists.iter().flat_map(|Names(names)| names)
}
