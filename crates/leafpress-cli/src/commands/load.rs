//! `leafpress load`: from flags to a [`Loader`], and from its report to a summary.
//!
//! Must never: read or write a row itself, or begin a load whose flags contradict.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;

use leafpress::load::{CancelToken, CsvOptions, DryRun, Loader, OnError, Ragged, Report};
use leafpress::{Error, ErrorKind};

use crate::exit::Status;
use crate::flags::{LoadFlags, NamedType, OnErrorFlag, RaggedFlag, usage_error};
use crate::progress::{self, LoadBar};
use crate::stdin::{InterruptibleStdin, STDIN_NAME};
use crate::{interrupt, output, summary};

/// Endings of files that are read, not made: a hint that DB and INPUT are swapped.
const INPUT_ENDINGS: [&str; 8] = ["csv", "tsv", "tab", "txt", "gz", "zst", "json", "parquet"];

/// Loads one input into a new database.
///
/// # Errors
/// Where the flags contradict one another.
pub fn run(flags: &LoadFlags) -> Result<Status, clap::Error> {
    let input = check(flags).map_err(|message| usage_error("load", &message))?;
    let token = CancelToken::new();
    let stop = token.clone();
    interrupt::on_interrupt(move || stop.cancel());

    let bar = Arc::new(LoadBar::new());
    let loader = loader(flags, input, &token, &bar);
    let outcome = if flags.run.dry_run {
        dry_run(loader, input, &token).map(Outcome::Dry)
    } else {
        load(loader, input, &token).map(Outcome::Loaded)
    };
    bar.clear();
    Ok(match outcome {
        Ok(outcome) => report(&outcome, flags),
        Err(error) => output::print_failure(&as_stop(error, &token), flags.run.json),
    })
}

enum Outcome {
    Loaded(Report),
    Dry(DryRun),
}

fn load(loader: Loader, input: &Path, token: &CancelToken) -> Result<Report, Error> {
    if is_stdin(input) {
        loader.load_reader(STDIN_NAME, stdin(token)?)
    } else {
        loader.load_file(input)
    }
}

fn dry_run(loader: Loader, input: &Path, token: &CancelToken) -> Result<DryRun, Error> {
    if is_stdin(input) {
        loader.dry_run_reader(STDIN_NAME, stdin(token)?)
    } else {
        loader.dry_run_file(input)
    }
}

fn stdin(token: &CancelToken) -> Result<InterruptibleStdin, Error> {
    if io::stdin().is_terminal() && output::stderr_is_terminal() {
        output::print_message("reading rows from the terminal; end them with ctrl-D\n");
    }
    InterruptibleStdin::new(token.clone())
        .map_err(|source| ErrorKind::Io { action: "read", path: STDIN_NAME.into(), source }.into())
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Standard input that is left because of ctrl-C fails as a read, which is
/// not what the user should hear.
fn as_stop(error: Error, token: &CancelToken) -> Error {
    let is_read = matches!(error.kind(), ErrorKind::Io { .. } | ErrorKind::Input { .. });
    if is_read && token.is_cancelled() { ErrorKind::Cancelled.into() } else { error }
}

fn loader(flags: &LoadFlags, input: &Path, token: &CancelToken, bar: &Arc<LoadBar>) -> Loader {
    let mut loader = Loader::new(&flags.database)
        .page_size(flags.table.page_size)
        .strict(flags.table.strict)
        .all_text(flags.table.all_text)
        .empty_null(flags.input.empty_null)
        .csv(csv_options(flags))
        .on_error(on_error(flags))
        .cancel(token.clone());
    if let Some(table) = &flags.table.table {
        loader = loader.table(table);
    } else if is_stdin(input) {
        loader = loader.table("stdin");
    }
    if let Some(column) = &flags.table.pk {
        loader = loader.primary_key(column);
    }
    for (column, named_type) in &flags.table.types {
        loader = loader.column_type(column, (*named_type).into());
    }
    for marker in &flags.input.null {
        loader = loader.null_marker(marker);
    }
    if let Some(threads) = flags.run.threads {
        loader = loader.threads(threads);
    }
    let is_silent = flags.run.quiet || flags.run.json || flags.run.no_progress;
    if progress::is_wanted(is_silent) {
        let bar = Arc::clone(bar);
        loader = loader.progress(move |progress| bar.update(progress));
    }
    loader
}

fn csv_options(flags: &LoadFlags) -> CsvOptions {
    let input = &flags.input;
    CsvOptions {
        delimiter: if input.tsv { Some(b'\t') } else { input.delimiter },
        quote: input.quote.0,
        escape: input.escape,
        header: !input.no_header,
        columns: input.columns.clone(),
        ragged: match input.ragged {
            RaggedFlag::Reject => Ragged::Reject,
            RaggedFlag::Pad => Ragged::Pad,
            RaggedFlag::Truncate => Ragged::Truncate,
        },
        encoding: input.encoding.clone(),
        ..CsvOptions::default()
    }
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

/// Finds what contradicts, and gives the one input.
fn check(flags: &LoadFlags) -> Result<&Path, String> {
    let [input] = flags.inputs.as_slice() else {
        return Err(format!(
            "one INPUT per load for now, and {} are named: load each into its own database",
            flags.inputs.len()
        ));
    };
    check_files(flags, input)?;
    check_bytes(flags)?;
    check_columns(flags)?;
    if flags.bad_rows.on_error == OnErrorFlag::Stop {
        let given = [
            ("--rejects", flags.bad_rows.rejects.is_some()),
            ("--max-rejects", flags.bad_rows.max_rejects.is_some()),
        ];
        if let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(format!(
                "{name} is for bad rows that are skipped, and the load stops at the first one: \
                 add --on-error skip"
            ));
        }
    }
    Ok(input)
}

fn check_files(flags: &LoadFlags, input: &Path) -> Result<(), String> {
    let database = &flags.database;
    if is_stdin(database) {
        return Err("the database must be a file; '-' is for the input".to_owned());
    }
    let (first, second) = (database.display(), input.display());
    if looks_like_input(database) && !looks_like_input(input) && !is_stdin(input) {
        return Err(format!(
            "the database comes first, then the input: leafpress load {second} {first}"
        ));
    }
    if database == input {
        return Err(format!("the database and the input are the same file, {first}"));
    }
    match &flags.bad_rows.rejects {
        Some(rejects) if rejects == database || rejects == input => Err(format!(
            "--rejects {} would overwrite {}",
            rejects.display(),
            if rejects == database { "the database" } else { "the input" }
        )),
        _ => Ok(()),
    }
}

fn looks_like_input(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| INPUT_ENDINGS.iter().any(|it| it.eq_ignore_ascii_case(ending)))
}

fn check_bytes(flags: &LoadFlags) -> Result<(), String> {
    let input = &flags.input;
    let delimiter = if input.tsv { Some(b'\t') } else { input.delimiter };
    let named =
        [("--delimiter", delimiter), ("--quote", input.quote.0), ("--escape", input.escape)];
    for (index, (name, byte)) in named.iter().enumerate() {
        let twin = named[index + 1..].iter().find(|(_, other)| byte.is_some() && other == byte);
        if let Some((twin_name, _)) = twin {
            return Err(format!("{name} and {twin_name} are the same character"));
        }
    }
    Ok(())
}

fn check_columns(flags: &LoadFlags) -> Result<(), String> {
    let types = &flags.table.types;
    for (index, (column, named_type)) in types.iter().enumerate() {
        let before = types[..index].iter().find(|(other, _)| other.eq_ignore_ascii_case(column));
        if before.is_some_and(|(_, other)| other != named_type) {
            return Err(format!("--type names two types for the column '{column}'"));
        }
        let is_key = flags.table.pk.as_ref().is_some_and(|pk| pk.eq_ignore_ascii_case(column));
        if is_key && *named_type != NamedType::Integer {
            return Err(format!(
                "--pk {column} makes an INTEGER PRIMARY KEY, and --type says otherwise"
            ));
        }
    }
    Ok(())
}
