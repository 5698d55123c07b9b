//! `leafpress load`: from flags to a [`Loader`], and from its report to a summary.
//!
//! Must never: read or write a row itself, or begin a load whose flags contradict.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leafpress::load::{CancelToken, DryRun, InputFormat, Loader, Pipe};
use leafpress::{Error, path_text};

use self::both::{Later, Outcome, is_silent, makes_missing};
use self::check::check;
use crate::exit::Status;
use crate::flags::{LoadFlags, usage_error};
use crate::loading::{
    all_names, as_stop, is_stdin, load, on_error, paths, stdin, with_columns, with_input,
};
use crate::progress::{self, LoadBar};
use crate::stdin::STDIN_NAME;
use crate::{interrupt, output, summary};

pub mod both;
mod check;
#[cfg(feature = "rqlite")]
pub mod cluster;
#[cfg(feature = "rqlite")]
mod to_cluster;

use crate::cluster::{name_of, url_of};

/// Loads the inputs into one table.
///
/// # Errors
/// The flags contradict one another.
pub fn run(flags: &LoadFlags) -> Result<Status, clap::Error> {
    let as_usage_error = |message: String| usage_error("load", &message);
    let inputs = paths::files_of(&flags.inputs).map_err(as_usage_error)?;
    check(flags, &inputs).map_err(as_usage_error)?;
    leafpress::vfs::memory::keep_freed();
    let token = CancelToken::new();
    let stop = token.clone();
    interrupt::on_interrupt(move || stop.cancel());

    let bar = Arc::new(LoadBar::new());
    let work = |database: &Path, later: Later| {
        let mut loader = loader(flags, database, &inputs, &token, &bar)?;
        if let Some((page_bytes, names)) = later.database {
            loader = loader.later_database(page_bytes, names);
        }
        if let Some(sql) = later.declaration {
            // Keys meet the rows that are there.
            loader = loader.declaration(sql);
            if flags.existing.upsert {
                loader = loader.later_upsert();
            }
        } else {
            loader = into_table(with_keys(loader, flags), flags);
        }
        if flags.run.dry_run {
            dry_run(loader, &inputs, &token).map(Outcome::Dry)
        } else {
            load(loader, &inputs, &token).map(Outcome::Loaded)
        }
    };
    let outcome = match url_of(&flags.database) {
        #[cfg(not(feature = "rqlite"))]
        Some(url) => Err(crate::cluster::unreachable(url)),
        #[cfg(feature = "rqlite")]
        Some(url) => {
            let check = |copy: &Path, table: &str| {
                let loader = with_keys(loader(flags, copy, &inputs, &token, &bar)?, flags);
                let loader = into_table(loader, flags);
                let loader = loader.table(table).format(InputFormat::Json);
                loader.dry_run_reader("no.json", io::empty()).map(drop)
            };
            to_cluster::run((url, flags), &inputs, (&token, &bar), check, work)
        }
        None => work(&flags.database, Later::default()),
    };
    bar.clear();
    Ok(match outcome {
        Ok(outcome) => report(&outcome, flags),
        Err(error) => output::print_failure(as_stop(error, &token), flags.run.json),
    })
}

/// The loader for a table that may be there.
fn into_table(loader: Loader, flags: &LoadFlags) -> Loader {
    match flags.existing.way() {
        Some((into, _)) => loader.into_table(into).create_missing(makes_missing(flags, into)),
        None => loader,
    }
}

fn dry_run(loader: Loader, inputs: &[PathBuf], token: &CancelToken) -> Result<DryRun, Error> {
    match inputs {
        [input] if is_stdin(input) => loader.dry_run_reader(STDIN_NAME, stdin(token)?),
        inputs => loader.dry_run_files(inputs),
    }
}

/// A loader that is told all that the flags say, but [`with_keys`] and [`into_table`].
fn loader(
    flags: &LoadFlags,
    database: &Path,
    inputs: &[PathBuf],
    token: &CancelToken,
    bar: &Arc<LoadBar>,
) -> Result<Loader, Error> {
    let mut loader = Loader::new(database)
        .bound_for(name_of(&flags.database))
        .on_error(on_error(&flags.bad_rows))
        .busy_timeout(flags.existing.busy_timeout)
        .cancel(token.clone());
    loader = with_table(loader, flags, inputs, token)?;
    loader = with_columns(loader, &flags.columns);
    loader = with_input(loader, &flags.input);
    if let Some((column, form)) = &flags.keys.uuid7 {
        loader = loader.uuid7(column, *form);
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
    if progress::is_wanted(is_silent(flags)) {
        let bar = Arc::clone(bar);
        loader = loader.progress(move |progress| bar.update(progress));
    }
    Ok(loader)
}

fn with_table(
    mut loader: Loader,
    flags: &LoadFlags,
    inputs: &[PathBuf],
    token: &CancelToken,
) -> Result<Loader, Error> {
    let table = &flags.table;
    loader = loader.strict(table.strict);
    if let Some(bytes) = table.page_size {
        loader = loader.page_size(bytes);
    }
    if let Some(layout) = table.layout {
        loader = loader.layout(layout.into());
    }
    if let Some(preset) = table.preset {
        loader = loader.preset(preset);
    }
    if let Some(sql) = &table.create {
        loader = loader.declaration(sql);
    } else if let Some(path) = &table.schema {
        let read = Pipe::open(path, token).and_then(io::read_to_string);
        loader = loader.declaration(read.map_err(|source| unread_schema(path, source))?);
    }
    Ok(match &table.table {
        Some(name) => loader.table(name),
        // The declaration names it.
        None if table.create.is_some() || table.schema.is_some() => loader,
        None if inputs.iter().any(|input| is_stdin(input)) => loader.table("stdin"),
        None => loader,
    })
}

fn unread_schema(path: &Path, source: io::Error) -> Error {
    let error = Error::io("read", path, source);
    let text = path_text(path);
    let words = text.trim_start().split_once(char::is_whitespace);
    if words.is_some_and(|(first, _)| first.eq_ignore_ascii_case("create")) {
        return error.to_do("--schema takes the name of a file; give the SQL itself with --create");
    }
    error
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
    match keys.on_conflict {
        Some(on_conflict) => loader.on_conflict(on_conflict.into()),
        None => loader,
    }
}

fn report(outcome: &Outcome, flags: &LoadFlags) -> Status {
    let is_silent = flags.run.quiet && !flags.run.json;
    let (rows_rejected, shown) = match outcome {
        Outcome::Loaded(report) => {
            if flags.run.json {
                output::print_json(report);
            } else if !is_silent {
                let rejects = flags.bad_rows.rejects.as_deref();
                output::print_report(&summary::of_load(report, rejects));
            }
            (report.rows_rejected, Status::Done)
        }
        Outcome::Dry(dry) if is_silent => (dry.would_reject, Status::Done),
        Outcome::Dry(dry) => {
            let text = || summary::of_dry_run(dry);
            (dry.would_reject, output::print_answer(flags.run.json, dry, text))
        }
    };
    match shown {
        Status::Done if rows_rejected > 0 => Status::DoneWithProblems,
        shown => shown,
    }
}
