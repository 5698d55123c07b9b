//! From the flags of a load to its [`Loader`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leafpress::load::{CancelToken, Loader, Pipe};
use leafpress::{Error, path_text};

use super::both::{is_silent, makes_missing};
use crate::cluster::name_of;
use crate::flags::LoadFlags;
use crate::loading::{all_names, is_stdin, on_error, with_columns, with_input};
use crate::progress::{self, LoadBar};

/// The loader for a table that may be there.
pub fn into_table(loader: Loader, flags: &LoadFlags) -> Loader {
    match flags.existing.way() {
        Some((into, _)) => loader.into_table(into).create_missing(makes_missing(flags, into)),
        None => loader,
    }
}

/// A loader that is told all that the flags say, but [`with_keys`] and [`into_table`].
///
/// # Errors
/// The file of a declaration cannot be read.
pub fn loader(
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

/// The loader with what the flags say about keys and indexes.
pub fn with_keys(mut loader: Loader, flags: &LoadFlags) -> Loader {
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
