//! `leafpress load`: from flags to a [`Loader`], and from its report to a summary.
//!
//! Must never: read or write a row itself, or begin a load whose flags contradict.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leafpress::load::{
    CancelToken, CsvOptions, DryRun, InputFormat, IntoTable, Loader, OnError, Ragged, Report,
};
use leafpress::vfs::locks;
use leafpress::{Error, ErrorKind};

use self::check::{all_names, check, is_stdin};
use crate::exit::Status;
use crate::flags::{FormatFlag, LoadFlags, NamedType, Names, OnErrorFlag, RaggedFlag, usage_error};
use crate::progress::{self, LoadBar};
use crate::stdin::{InterruptibleStdin, STDIN_NAME};
use crate::{interrupt, output, summary};

mod check;
mod paths;

/// Loads the inputs into one table.
///
/// # Errors
/// The flags contradict one another.
pub fn run(flags: &LoadFlags) -> Result<Status, clap::Error> {
    let as_usage_error = |message: String| usage_error("load", &message);
    let inputs = paths::expand(&flags.inputs).map_err(as_usage_error)?;
    check(flags, &inputs).map_err(as_usage_error)?;
    let token = CancelToken::new();
    let stop = token.clone();
    interrupt::on_interrupt(move || stop.cancel());

    let bar = Arc::new(LoadBar::new());
    let outcome = loader(flags, &inputs, &token, &bar).and_then(|loader| {
        if flags.run.dry_run {
            dry_run(loader, &inputs, &token).map(Outcome::Dry)
        } else {
            load(loader, &inputs, &token).map(Outcome::Loaded)
        }
    });
    bar.clear();
    Ok(match outcome {
        Ok(outcome) => report(&outcome, flags),
        Err(error) => output::print_failure(as_stop(error, &token), flags.run.json),
    })
}

enum Outcome {
    Loaded(Report),
    Dry(DryRun),
}

fn load(loader: Loader, inputs: &[PathBuf], token: &CancelToken) -> Result<Report, Error> {
    match inputs {
        [input] if is_stdin(input) => loader.load_reader(STDIN_NAME, stdin(token)?),
        inputs => loader.load_files(inputs),
    }
}

fn dry_run(loader: Loader, inputs: &[PathBuf], token: &CancelToken) -> Result<DryRun, Error> {
    match inputs {
        [input] if is_stdin(input) => loader.dry_run_reader(STDIN_NAME, stdin(token)?),
        inputs => loader.dry_run_files(inputs),
    }
}

fn stdin(token: &CancelToken) -> Result<InterruptibleStdin, Error> {
    if io::stdin().is_terminal() && output::stderr_is_terminal() {
        output::print_message("reading rows from the terminal; end them with ctrl-D\n");
    }
    InterruptibleStdin::new(token.clone())
        .map_err(|source| Error::io("read", Path::new(STDIN_NAME), source))
}

/// Standard input that is left because of ctrl-C fails as a read, which is
/// not what the user should hear.
fn as_stop(error: Error, token: &CancelToken) -> Error {
    let is_read = matches!(error.kind(), ErrorKind::Io { .. } | ErrorKind::Input { .. });
    if is_read && token.is_cancelled() { ErrorKind::Cancelled.into() } else { error }
}

/// A loader that is told all that the flags say.
fn loader(
    flags: &LoadFlags,
    inputs: &[PathBuf],
    token: &CancelToken,
    bar: &Arc<LoadBar>,
) -> Result<Loader, Error> {
    let mut loader = Loader::new(&flags.database)
        .on_error(on_error(flags))
        .busy_timeout(flags.existing.busy_timeout)
        .cancel(token.clone());
    loader = with_table(loader, flags, inputs)?;
    loader = with_columns(loader, flags);
    loader = with_keys(loader, flags);
    loader = with_input(loader, flags);
    if let Some((into, _)) = flags.existing.way() {
        let makes_missing = matches!(into, IntoTable::Append | IntoTable::Replace);
        loader = loader.into_table(into).create_missing(makes_missing);
    }
    if let Some(threads) = flags.run.threads {
        loader = loader.threads(threads);
    }
    if let Some(bytes) = flags.run.memory {
        loader = loader.memory(bytes);
    }
    if let Some(folder) = &flags.run.tmpdir {
        loader = loader.tmpdir(folder);
    }
    let is_silent = flags.run.quiet || flags.run.json || flags.run.no_progress;
    if progress::is_wanted(is_silent) {
        let bar = Arc::clone(bar);
        loader = loader.progress(move |progress| bar.update(progress));
    }
    Ok(loader)
}

fn with_table(mut loader: Loader, flags: &LoadFlags, inputs: &[PathBuf]) -> Result<Loader, Error> {
    let table = &flags.table;
    loader = loader.strict(table.strict);
    if let Some(bytes) = table.page_size {
        loader = loader.page_size(bytes);
    }
    if let Some(sql) = &table.create {
        loader = loader.declaration(sql);
    } else if let Some(path) = &table.schema {
        let read = locks::read_to_string(path);
        let failed = |source| Error::io("read", path, source);
        loader = loader.declaration(read.map_err(failed)?);
    }
    Ok(match &table.table {
        Some(name) => loader.table(name),
        // The declaration names it.
        None if table.create.is_some() || table.schema.is_some() => loader,
        None if inputs.iter().any(|input| is_stdin(input)) => loader.table("stdin"),
        None => loader,
    })
}

fn with_columns(mut loader: Loader, flags: &LoadFlags) -> Loader {
    let columns = &flags.columns;
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

fn with_keys(mut loader: Loader, flags: &LoadFlags) -> Loader {
    let keys = &flags.keys;
    loader = loader.without_rowid(keys.without_rowid).analyze(keys.analyze);
    for column in all_names(&keys.pk) {
        loader = loader.primary_key(column);
    }
    for columns in &keys.index {
        loader = loader.index(columns);
    }
    for columns in &keys.unique {
        loader = loader.unique(columns);
    }
    if let Some((column, form)) = &keys.uuid7 {
        loader = loader.uuid7(column, *form);
    }
    match keys.on_conflict {
        Some(on_conflict) => loader.on_conflict(on_conflict.into()),
        None => loader,
    }
}

fn with_input(mut loader: Loader, flags: &LoadFlags) -> Loader {
    let input = &flags.input;
    loader = loader.csv(csv_options(flags)).trim(input.trim).empty_null(input.empty_null);
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

fn csv_options(flags: &LoadFlags) -> CsvOptions {
    let input = &flags.input;
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

fn on_error(flags: &LoadFlags) -> OnError {
    match flags.bad_rows.on_error {
        OnErrorFlag::Stop => OnError::Stop,
        OnErrorFlag::Skip => OnError::Skip {
            rejects: flags.bad_rows.rejects.clone(),
            max_rejects: flags.bad_rows.max_rejects,
        },
    }
}

fn report(outcome: &Outcome, flags: &LoadFlags) -> Status {
    let rows_rejected = match outcome {
        Outcome::Loaded(report) => report.rows_rejected,
        Outcome::Dry(dry) => dry.would_reject,
    };
    match outcome {
        Outcome::Loaded(report) if flags.run.json => output::print_json(report),
        Outcome::Dry(dry) if flags.run.json => output::print_json(dry),
        _ if flags.run.quiet => {}
        Outcome::Loaded(report) => {
            let rejects = flags.bad_rows.rejects.as_deref();
            output::print_report(&summary::of_load(report, rejects));
        }
        Outcome::Dry(dry) => output::print_report(&summary::of_dry_run(dry)),
    }
    if rows_rejected == 0 { Status::Done } else { Status::DoneWithProblems }
}
